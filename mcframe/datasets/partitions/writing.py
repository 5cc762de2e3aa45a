"""A table of any source written to a folder, row after row in partitions, in bounded memory."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from mcframe import __version__
from mcframe.contracts.arrays import IntArray
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.validators import whole
from mcframe.datasets.partitions.extents import Extent, common_rows
from mcframe.datasets.partitions.header import Header, StoredFile, path_of, save_array
from mcframe.datasets.partitions.labels import arrays_of_labels
from mcframe.datasets.partitions.on_disk import PartitionsOnDisk, on_disk
from mcframe.datasets.partitions.sorted_block import SortedBlock
from mcframe.datasets.partitions.sorting import Spool, cuts_of_rows
from mcframe.datasets.partitions.workshop import Needed, publish, workshop
from mcframe.model.chunks.sources import chunks_of

__all__ = ["ENTRIES_PER_PARTITION", "write_partitions"]

# By default: sorting takes about 100 MB, a fit some hundred bytes an entry of one partition.
ENTRIES_PER_PARTITION = 1 << 21
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

    Each block is read once, from first to last. Entries go to the disk as they come, then, when
    all rows are counted, into one file for each range of rows, and these are sorted one by one.
    In memory are one chunk of the source, 8 bytes for each row of the table, and some 60 bytes
    for each entry of one partition. The disk has room for each entry twice while they are sorted
    (20 bytes, and 8 for each number beside its value). What is left takes 8 to 12 bytes an entry,
    8 bytes where its numbers are the same in single precision, and is the same, to the last bit,
    for any order of the entries.

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
        What a cell is worth that has several entries. They are not summed where entries have
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
    labels = files_of_labels(list(data), row_labels, column_labels or {})
    path = path_of(folder)
    needed = Needed()
    with workshop(path, needed, overwrite) as place:
        job = Conversion(place, needed)
        for name, source in data.items():
            job.read(name, source, (shapes or {}).get(name))
        header = job.write(n_partitions, duplicates)
        publish(place, path, with_labels(header, labels, place))
    return on_disk(path)


def files_of_labels(
    blocks: list[str], row_labels: Any, column_labels: Mapping[str, Any]
) -> dict[str, tuple[str, dict[str, npt.NDArray[Any]]]]:
    """Return what messages call labels, and their arrays, by what their files begin with."""
    found = {}
    if row_labels is not None:
        found["rows"] = ("row_labels", arrays_of_labels("row_labels", row_labels))
    for name, given in column_labels.items():
        what = f"column_labels[{name!r}]"
        if name not in blocks:
            raise ModelError(f"column_labels: there is no block {name!r}; there are {blocks}")
        found[f"b{blocks.index(name)}"] = (what, arrays_of_labels(what, given))
    return found


def with_labels(
    header: Header,
    labels: Mapping[str, tuple[str, dict[str, npt.NDArray[Any]]]],
    place: Path,
) -> Header:
    """Write labels beside partitions, and return the header with their files.

    Raises
    ------
    DataError
        Where there are more or fewer of them than rows or columns.
    """
    files = dict(header.files)
    for prefix, (what, arrays) in labels.items():
        columns = list(header.columns.values())
        there = header.starts[-1] if prefix == "rows" else columns[int(prefix[1:])]
        count = arrays.get("ends", arrays["labels"]).size
        if count != there:
            axis = "rows" if prefix == "rows" else "columns"
            raise DataError(
                f"{what} has {count} labels and the table {there} {axis}; give one for each, or"
                " say in shapes how many there are"
            )
        for name, array in arrays.items():
            file = f"{prefix}.{name}.npy"
            files[file] = save_array(place / file, array)
    return attrs.evolve(header, files=files)


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
class Conversion:
    """One writing of a folder: blocks are read one after the other, then written together.

    Attributes
    ----------
    place : Path
        The workshop.
    needed : Needed
        What the disk has to have room for, kept up to date.
    counts : array
        The entries of each row of all blocks, perhaps longer than there are rows.
    spools : dict from block name to Spool
    extents : dict from block name to Extent
    """

    place: Path
    needed: Needed
    counts: IntArray = attrs.field(factory=lambda: np.zeros(1024, dtype=np.int64))
    spools: dict[str, Spool] = attrs.field(factory=dict)
    extents: dict[str, Extent] = attrs.field(factory=dict)

    def read(self, name: str, source: Any, shape: tuple[int, int] | None) -> None:
        """Put the entries of a block on the disk, and count them by rows."""
        extent = self.extents[name] = Extent(name, *(shape or ()))
        for chunk in chunks_of(name, source):
            extent.take(chunk)
            if name not in self.spools:
                path = self.place / f"b{len(self.spools)}.spool"
                self.spools[name] = Spool(path, chunk.names)
            spool = self.spools[name]
            self.needed.add(name, chunk.values.size, spool.record.itemsize)
            spool.add(chunk)
            self.count(chunk.rows)

    def count(self, rows: IntArray) -> None:
        """Add the entries of some rows to the counts."""
        if not rows.size:
            return
        last = int(rows.max())
        if last >= self.counts.size:
            longer = np.zeros(max(last + 1, 2 * self.counts.size), dtype=np.int64)
            longer[: self.counts.size] = self.counts
            self.counts = longer
        np.add.at(self.counts, rows, 1)

    def write(self, n_partitions: int | None, duplicates: str) -> Header:
        """Sort the entries into partitions, and return the header of their files."""
        n_items = common_rows(self.extents.values())
        counts = np.zeros(n_items, dtype=np.int64)
        counts[: self.counts.size] = self.counts[:n_items]
        cuts = cuts_of_rows(counts, number_of_partitions(counts, n_partitions))
        files: dict[str, StoredFile] = {}
        entries: dict[str, tuple[int, ...]] = {}
        for position, (name, spool) in enumerate(self.spools.items()):
            block = SortedBlock(self.place, position, spool, self.extents[name], cuts, duplicates)
            entries[name] = block.write(files)
        return Header(
            version=__version__,
            starts=tuple(map(int, cuts)),
            columns={name: extent.width for name, extent in self.extents.items()},
            additions={name: spool.names for name, spool in self.spools.items()},
            entries=entries,
            files=files,
        )


def number_of_partitions(counts: IntArray, wanted: int | None) -> int:
    """Return how many partitions there will be, each with an entry at least."""
    occupied = int(np.count_nonzero(counts))
    if wanted is None:
        return min(occupied, -(-int(counts.sum()) // ENTRIES_PER_PARTITION))
    if wanted > occupied:
        raise DataError(
            f"n_partitions={wanted} was given and {occupied} rows have entries; each partition"
            f" needs one, so give {occupied} or less"
        )
    return wanted
