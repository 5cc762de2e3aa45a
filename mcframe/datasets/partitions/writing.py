"""A table of any source written to a folder, row after row in partitions, in bounded memory."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import IntArray
from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.validators import whole
from mcframe.datasets.partitions.folder import (
    StoredFile,
    path_of,
    publish,
    refuse_full,
    save,
    workshop,
)
from mcframe.datasets.partitions.on_disk import (
    PARTITIONS,
    PartitionsOnDisk,
    file_of_entries,
    file_of_labels,
    on_disk,
)
from mcframe.datasets.partitions.sorting import Extent, Spool, common_rows, cuts_of_rows
from mcframe.model.chunks.sources import chunks_of
from mcframe.model.labels import code_labels, in_words

pa: Any = Deferred("pyarrow", "writing a table to a folder (mcframe[disk])")
pq: Any = Deferred("pyarrow.parquet", "writing a table to a folder (mcframe[disk])")

# By default: a fit takes some hundred bytes an entry of one partition.
ENTRIES_PER_PARTITION = 1 << 21
# Rows of a file that stand together at most; Arrow takes no more.
ROW_GROUP = 1 << 26
DUPLICATES = ("refuse", "sum")


def write_partitions(
    folder: str | os.PathLike[str],
    data: Mapping[str, Any],
    *,
    shapes: Mapping[str, tuple[int, int]] | None = None,
    n_partitions: int | None = None,
    duplicates: str = "refuse",
    overwrite: bool = False,
    row_labels: Any = None,
    column_labels: Mapping[str, Any] | None = None,
) -> PartitionsOnDisk:
    """Write a table that need not fit into memory to a folder, its rows sorted and cut.

    Each block is read once, from first to last. Entries go to the disk as they come, and DuckDB
    sorts them there when all rows are counted. In memory are one chunk of the source, 8 bytes for
    each row of the table, 128 MB to sort in, and some 60 bytes for each entry of one partition.
    On the disk each entry takes three times its size while they are sorted (20 bytes, and 8 for
    each of weight, offset and exposure). The result is Parquet files, one for each block and
    partition, with columns ``row``, ``column``, ``value`` and those of the additions, and
    ``mcframe-partitions.json`` with shapes, counts, and a SHA-256 of each file. They take 2 to 10
    bytes an entry, and are the same, to the last bit, for any order of the entries.

    Parameters
    ----------
    folder : path
        A new or an empty one. Files stand there under their names when all are written.
    data : dict from block name to iterable
        Of blocks of rows that follow each other: arrays with NaN where nothing is observed,
        ``scipy.sparse`` matrices whose stored entries are observed, or ``Observations`` of
        these. Or of triples in any order, rows and columns counted from 0: tuples
        ``(row, column, value)`` of numbers; tuples of three arrays; mappings or frames with
        ``row``, ``column``, ``value`` and, where entries have them, ``weight`` and ``offset`` or
        ``exposure``. ``parquet_triples`` reads them from Parquet files.
    shapes : dict from block name to (rows, columns), optional
        Of blocks of triples: without it a table ends with the last row and column that occur.
    n_partitions : int, optional
        Ranges of rows with about equally many entries, all blocks together; by default so many
        that each has some two million.
    duplicates : "refuse" or "sum", default "refuse"
        The value of a cell that has several entries. They are not summed where entries have
        weights, offsets or exposures.
    overwrite : bool, default False
        Delete partitions that the folder holds, when the new ones are all written. Files that
        were not written by this function are never deleted.
    row_labels : sequence of text or of whole numbers, optional
        What row 0, row 1, ... are called, such as the uniques of ``pandas.factorize``; fits then
        answer by these labels. All of them are in memory here and in a fit, some hundred bytes
        each.
    column_labels : dict from block name to such sequences, optional

    Returns
    -------
    PartitionsOnDisk
        As ``on_disk(folder)`` gives it.

    Raises
    ------
    DataError
        For a folder with other files or with another writer, a full disk, and anything in the
        data that is not a table: chunks with different columns, a cell with several entries,
        numbers that are not finite, blocks with different rows. Nothing is left in the folder
        then, and what it held before is untouched.
    ModelError
        Where an option is none of these.

    Notes
    -----
    Weights, offsets and exposures count as in ``Observations``; cells without an entry are
    predicted for an exposure of 1, or an offset of 0. Entries of weight 0 are left out.

    Examples
    --------
    >>> import tempfile, mcframe.datasets as datasets
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     triples = [(2, 0, 5.0), (0, 1, 4.0), (0, 0, 3.0)]
    ...     table = datasets.write_partitions(folder, {"stars": triples}, n_partitions=2)
    ...     print([table.rows(p) for p in range(table.n_partitions)])
    ...     print(table.part(0)["stars"].toarray())
    [(0, 2), (2, 3)]
    [[3. 4.]
     [0. 0.]]
    """
    check_options(data, shapes or {}, n_partitions, duplicates)
    labels = tables_of_labels(list(data), row_labels, column_labels or {})
    path = path_of(folder)
    writing = Writing(duplicates)
    with workshop(path, PARTITIONS, overwrite, writing.needed) as place:
        for name, source in data.items():
            writing.read(place, name, source, (shapes or {}).get(name))
        facts, files = writing.write(place, n_partitions)
        files |= save_labels(place, labels, facts)
        publish(place, path, PARTITIONS, facts, files)
    return on_disk(path)


def tables_of_labels(
    blocks: list[str], row_labels: Any, column_labels: Mapping[str, Any]
) -> dict[int | None, tuple[str, Any]]:
    """Return the name of labels in messages, and a table of them, by block; None are the rows."""
    tables: dict[int | None, tuple[str, Any]] = {}
    if row_labels is not None:
        tables[None] = ("row_labels", table_of_labels("row_labels", row_labels))
    for name, given in column_labels.items():
        what = f"column_labels[{name!r}]"
        if name not in blocks:
            raise ModelError(f"column_labels: there is no block {name!r}; there are {blocks}")
        tables[blocks.index(name)] = (what, table_of_labels(what, given))
    return tables


def table_of_labels(what: str, given: Any) -> Any:
    """Return labels, which are text alone or whole numbers alone and differ, as a table."""
    labels = given.tolist() if hasattr(given, "tolist") else list(given)
    kinds = {type(label) for label in labels}
    if kinds - {str} and kinds - {int}:
        wrong = next((k for k, label in enumerate(labels) if type(label) not in (str, int)), 0)
        raise DataError(
            f"{what}: labels are text alone, or whole numbers alone, and label {wrong} is"
            f" {in_words(labels[wrong])}; give str(label) of each"
        )
    places, codes = code_labels(labels, what)
    if len(places) < len(labels):
        second = int(np.flatnonzero(codes != np.arange(codes.size))[0])
        raise DataError(
            f"{what}: {in_words(labels[second])} stands at places {codes[second]} and {second}"
            " (counted from 0); each label names one, as pandas.factorize numbers them"
        )
    try:
        return pa.table(
            {"label": pa.array(labels, pa.int64() if int in kinds else pa.large_string())}
        )
    except OverflowError:
        raise DataError(f"{what}: a label is beyond 64 bits; give str(label) of each") from None


def save_labels(
    place: Path, labels: Mapping[int | None, tuple[str, Any]], facts: Mapping[str, Any]
) -> dict[str, StoredFile]:
    """Write labels into the folder of the partitions, and return their files.

    Raises
    ------
    DataError
        Where there are more or fewer of them than rows or columns.
    """
    columns = [block["columns"] for block in facts["blocks"].values()]
    files = {}
    for block, (what, table) in labels.items():
        there = facts["starts"][-1] if block is None else columns[block]
        if table.num_rows != there:
            axis = "rows" if block is None else "columns"
            raise DataError(
                f"{what} has {table.num_rows} labels and the table {there} {axis}; give one for"
                " each, or say in shapes how many there are"
            )
        file = file_of_labels(block)
        files[file] = save_table(place / file, table)
    return files


def save_table(path: Path, table: Any) -> StoredFile:
    """Write a table as Parquet, and return its size and checksum."""
    content = pa.BufferOutputStream()
    pq.write_table(
        table,
        content,
        row_group_size=ROW_GROUP,
        # Measured: as small as with compression, and written in half of the time.
        compression="none",
        use_dictionary=[name for name in table.column_names if name != "column"],
        column_encoding={"column": "DELTA_BINARY_PACKED"}
        if "column" in table.column_names
        else None,
    )
    return save(path, content.getvalue())


def check_options(
    data: Any, shapes: Mapping[str, Any], n_partitions: int | None, duplicates: str
) -> None:
    """Refuse options that cannot be meant, before anything is read."""
    if not isinstance(data, Mapping) or not data:
        raise DataError(
            f"a {type(data).__name__} was given; a dict from the name of each block to its source"
            " is needed"
        )
    for name in data:
        if not isinstance(name, str):
            raise DataError(f"{name!r} was given as the name of a block; text is needed")
    unknown = [name for name in shapes if name not in data]
    if unknown:
        raise ModelError(f"shapes: there is no block {unknown[0]!r}; there are {list(data)}")
    for name, shape in shapes.items():
        if not isinstance(shape, tuple | list) or len(shape) != 2:
            raise ModelError(f"shapes[{name!r}]={shape!r} was given; (rows, columns) is needed")
        for number in shape:
            whole(number, f"shapes[{name!r}]", 1)
    if n_partitions is not None:
        whole(n_partitions, "n_partitions", 1)
    if duplicates not in DUPLICATES:
        raise ModelError(
            f"duplicates={duplicates!r} was given; take one of {', '.join(map(repr, DUPLICATES))}"
        )


@attrs.define(eq=False)
class Writing:
    """One writing of a folder: blocks are read one after the other, then sorted together.

    Attributes
    ----------
    duplicates : str
    counts : array
        The entries of each row of all blocks, perhaps longer than there are rows.
    spools : dict from block name to Spool
    extents : dict from block name to Extent
    """

    duplicates: str
    counts: IntArray = attrs.field(factory=lambda: np.zeros(1024, dtype=np.int64))
    spools: dict[str, Spool] = attrs.field(factory=dict)
    extents: dict[str, Extent] = attrs.field(factory=dict)

    def needed(self) -> str:
        """Say how many bytes the entries take that were read so far.

        All are there as they came, and those of one block two times more while they are sorted.
        """
        sizes = [spool.n_bytes for spool in self.spools.values()]
        n_entries = sum(spool.n_entries for spool in self.spools.values())
        return (
            f"{n_entries} entries were read, which need {sum(sizes) + 2 * max(sizes, default=0)}"
            " bytes there while they are sorted"
        )

    def read(self, place: Path, name: str, source: Any, shape: tuple[int, int] | None) -> None:
        """Put the entries of a block on the disk, and count them by rows."""
        extent = self.extents[name] = Extent(name, *(shape or ()))
        for chunk in chunks_of(name, source):
            extent.take(chunk)
            if name not in self.spools:
                path = place / f"b{len(self.spools)}.entries.arrow"
                self.spools[name] = Spool(path, chunk.names)
            self.spools[name].add(chunk)
            if extent.last_row >= self.counts.size:
                size = max(extent.last_row + 1, 2 * self.counts.size)
                longer = np.zeros(size, dtype=np.int64)
                longer[: self.counts.size] = self.counts
                self.counts = longer
            np.add.at(self.counts, chunk.rows, 1)
        spool = self.spools[name]
        spool.writer.close()
        if self.duplicates == "sum":
            spool.single["value"] = False  # of sums nothing is known before they are taken
            if spool.additions:
                raise DataError(
                    f"block {name!r}: its entries have {' and '.join(spool.additions)}, which have"
                    " no sum; give each cell one entry"
                )

    def write(
        self, place: Path, n_partitions: int | None
    ) -> tuple[dict[str, Any], dict[str, StoredFile]]:
        """Sort the entries into partitions, and return the facts of the manifest and the files."""
        n_items = common_rows(self.extents.values())
        counts = np.zeros(n_items, dtype=np.int64)
        counts[: self.counts.size] = self.counts[:n_items]
        occupied = int(np.count_nonzero(counts))
        if n_partitions is None:
            n_partitions = min(occupied, -(-int(counts.sum()) // ENTRIES_PER_PARTITION))
        if n_partitions > occupied:
            raise DataError(
                f"n_partitions={n_partitions} was given and {occupied} rows have entries; each"
                f" partition needs one, so give {occupied} or less"
            )
        cuts = cuts_of_rows(counts, n_partitions)
        files: dict[str, StoredFile] = {}
        blocks = {
            name: {
                "columns": self.extents[name].width,
                "beside": list(spool.additions),
                "entries": self.write_block(place, name, cuts, files),
            }
            for name, spool in self.spools.items()
        }
        return {"starts": cuts.tolist(), "blocks": blocks}, files

    def write_block(
        self, place: Path, name: str, cuts: IntArray, files: dict[str, StoredFile]
    ) -> list[int]:
        """Write the partitions of a block, add their files, and return their numbers of entries.

        Raises
        ------
        DataError
            Where cells have several entries that are not to be summed, with how many there are.
        """
        spool, position = self.spools[name], list(self.spools).index(name)
        refuse_full(place, 2 * spool.n_bytes)
        counts, n_repeated, place_of_first = [], 0, (0, 0)
        for p, entries in enumerate(spool.partitions(cuts, by_value=self.duplicates == "sum")):
            # Whether an entry is in another cell than the one before it.
            first = np.ones(entries.num_rows, dtype=bool)
            first[1:] = np.diff(entries["row"]) != 0
            first[1:] |= np.diff(entries["column"]) != 0
            if not first.all() and self.duplicates == "sum":
                sums = np.add.reduceat(entries["value"].to_numpy(), np.flatnonzero(first))
                entries = entries.filter(pa.array(first)).set_column(2, "value", pa.array(sums))
            elif not first.all():
                if not n_repeated:
                    repeated = entries.slice(int(np.argmin(first)), 1).to_pylist()[0]
                    place_of_first = repeated["row"], repeated["column"]
                n_repeated += int(np.count_nonzero(~first))
            counts.append(entries.num_rows)
            if not n_repeated:  # else nothing will be kept, and the rest is only counted
                file = file_of_entries(p, position)
                files[file] = save_table(place / file, entries.cast(spool.kept_schema))
        spool.path.unlink()
        if n_repeated:
            raise DataError(
                f"block {name!r}: {n_repeated} entries stand in a cell that has another one, the"
                f" first in row {place_of_first[0]}, column {place_of_first[1]}; keep one of each,"
                " or give duplicates='sum'"
            )
        return counts
