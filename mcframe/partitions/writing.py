"""A table of any source written to a folder, row after row in partitions, in bounded memory."""

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, class_offers
from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.limits import BATCH_ENTRIES
from mcframe.contracts.validators import Options, a_type, one_of, suggests_options, whole
from mcframe.model.labels import code_labels, in_words
from mcframe.partitions.chunks import MOST_COUNTED_ROWS, Chunk, chunks_of
from mcframe.partitions.on_disk import (
    PARTITIONS_LAYOUT,
    PartitionsOnDisk,
    StoredFile,
    commit,
    file_of_entries,
    file_of_labels,
    on_disk,
    portable_path,
    refuse_full,
    staging_directory,
    write_bytes,
)

pa: Any = Deferred("pyarrow", "writing a table to a folder (mcframe[disk])")
pq: Any = Deferred("pyarrow.parquet", "writing a table to a folder (mcframe[disk])")
duckdb: Any = Deferred("duckdb", "writing a table to a folder (mcframe[disk])")

# What the engine has while it sorts; beyond that it goes on in files.
SORT_MEMORY, SORT_THREADS = "128MB", 2


@attrs.define
class BlockShape:
    """The size of one block.

    Attributes
    ----------
    name : str
    n_rows, n_columns : int or None
        Where they are known before the last entry.
    last_row, last_column : int
        The largest ones with an entry; -1 where there is none.
    rows_given : int or None
        Of blocks of rows how many have come.
    """

    name: str
    n_rows: int | None = None
    n_columns: int | None = None
    last_row: int = -1
    last_column: int = -1
    rows_given: int | None = None

    def take(self, chunk: Chunk) -> None:
        """Take a chunk in, or raise a ``DataError`` where it stands outside of the table."""
        self.rows_given = chunk.rows_until
        if chunk.n_columns is not None:
            self.n_columns = self.n_columns or chunk.n_columns
            if chunk.n_columns != self.n_columns:
                raise DataError(
                    f"block {self.name!r}: {chunk.label} has {chunk.n_columns} columns and shapes"
                    f" says {self.n_columns}"
                )
        if not chunk.values.size:
            return
        self.last_row = max(self.last_row, int(chunk.rows.max()))
        self.last_column = max(self.last_column, int(chunk.columns.max()))
        if self.n_rows is None and self.last_row >= MOST_COUNTED_ROWS:
            raise DataError(
                f"block {self.name!r}: row {self.last_row} in {chunk.label}; rows are counted"
                " from 0, 8 bytes of memory for each. If these are labels, number them first;"
                f" if there are so many, give shapes={{{self.name!r}: (rows, columns)}}"
            )
        for what, last, size in (
            ("row", self.last_row, self.n_rows),
            ("column", self.last_column, self.n_columns),
        ):
            if size is not None and last >= size:
                raise DataError(
                    f"block {self.name!r}: {what} {last} in {chunk.label}, and the table has"
                    f" {size} {what}s, counted from 0; give more in shapes, or leave it out"
                )

    @property
    def width(self) -> int:
        """The number of columns, when all entries have come."""
        return self.last_column + 1 if self.n_columns is None else self.n_columns

    @property
    def height(self) -> int | None:
        """The number of rows where the block says it, when all entries have come."""
        return self.n_rows if self.rows_given is None else self.rows_given


def common_rows(shapes: Iterable[BlockShape]) -> int:
    """Return the number of rows of all blocks.

    Raises
    ------
    DataError
        If blocks have different ones, no block has an entry, or cells cannot be counted.
    """
    shapes = list(shapes)
    for shape in shapes:
        if shape.rows_given is not None and shape.n_rows not in (
            None,
            shape.rows_given,
        ):
            raise DataError(
                f"block {shape.name!r}: {shape.rows_given} rows were given and shapes says"
                f" {shape.n_rows}"
            )
        if shape.last_row < 0:
            raise DataError(
                f"block {shape.name!r}: not one entry was given; leave the block out, or check"
                " that its missing values and only those are left out"
            )
    measured = [shape for shape in shapes if shape.height is not None]
    for shape in measured[1:]:
        if shape.height != measured[0].height:
            raise DataError(
                f"block {measured[0].name!r} has {measured[0].height} rows but block"
                f" {shape.name!r} has {shape.height}; rows are items, so every block needs"
                " the same ones"
            )
    n_rows = measured[0].height if measured else None
    largest = max(shapes, key=lambda shape: shape.last_row)
    if n_rows is None:
        n_rows = largest.last_row + 1
    elif largest.last_row >= n_rows:
        raise DataError(
            f"block {largest.name!r} has an entry in row {largest.last_row} but block"
            f" {measured[0].name!r} has {n_rows} rows; rows are items, so every block needs the"
            " same ones"
        )
    for shape in shapes:
        if n_rows > np.iinfo(np.int64).max // shape.width:
            raise DataError(
                f"block {shape.name!r}: {n_rows} rows of {shape.width} columns are more cells"
                " than can be counted in 64 bits"
            )
    return n_rows


@attrs.define(eq=False)
class EntryBuffer:
    """The entries of one block in an Arrow file, in the order in which they came.

    Attributes
    ----------
    path : Path
    additions : tuple of str
        The additions to the values of entries: some of weight, offset and exposure.
    n_entries : int
    fits_float32 : dict from name to bool
        Which numbers are all the same in single precision.
    """

    path: Path
    additions: tuple[str, ...]
    n_entries: int = 0
    fits_float32: dict[str, bool] = attrs.field(init=False)
    writer: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.fits_float32 = dict.fromkeys(("value", *self.additions), True)
        self.writer = pa.ipc.new_stream(str(self.path), self.schema)

    @property
    def schema(self) -> Any:
        """The columns of the file."""
        numbers = [(name, pa.float64()) for name in self.fits_float32]
        return pa.schema([("row", pa.int64()), ("column", pa.int32()), *numbers])

    @property
    def kept_schema(self) -> Any:
        """The columns that are kept: in single precision what is the same there."""
        return pa.schema(
            field.with_type(pa.float32()) if self.fits_float32.get(field.name) else field
            for field in self.schema
        )

    @property
    def n_bytes(self) -> int:
        """The size of the entries in the file."""
        return self.n_entries * (12 + 8 * len(self.fits_float32))

    def add(self, chunk: Chunk) -> None:
        """Append the entries of a chunk."""
        self.n_entries += chunk.values.size
        numbers = {"value": chunk.values, **chunk.additions}
        for name in self.fits_float32:
            self.fits_float32[name] = self.fits_float32[name] and fits_float32(numbers[name])
        columns = [
            chunk.rows,
            chunk.columns.astype(np.int32),
            *(numbers[n] for n in self.fits_float32),
        ]
        self.writer.write_table(pa.table(columns, schema=self.schema), BATCH_ENTRIES)

    def partitions(self, cuts: IntArray, by_value: bool) -> Iterator[Any]:
        """Yield the sorted entries of each range of rows as an Arrow table.

        Entries of one cell follow each other, by their values if that is asked for: sums over
        them do not depend then on the order in which they came.
        """
        waiting: list[Any] = []
        p, last = 0, cuts.size - 2
        for batch in self.sorted_batches(by_value):
            while p < last and batch.num_rows and batch["row"][-1].as_py() >= cuts[p + 1]:
                end = int(np.searchsorted(batch["row"].to_numpy(), cuts[p + 1]))
                yield pa.Table.from_batches([*waiting, batch[:end]], self.schema)
                waiting, batch, p = [], batch[end:], p + 1
            waiting.append(batch)
        for _ in range(p, last + 1):
            yield pa.Table.from_batches(waiting, self.schema)
            waiting = []

    def sorted_batches(self, by_value: bool) -> Iterator[Any]:
        """Yield all entries row after row, some at a time.

        Raises
        ------
        OSError
            If the disk is too small for what the engine does not hold in memory.
        """
        order = '"row", "column"' + (', "value"' if by_value else "")
        settings = {
            "memory_limit": SORT_MEMORY,
            "threads": SORT_THREADS,
            "temp_directory": str(self.path.parent),
        }
        try:
            with pa.OSFile(str(self.path)) as file, duckdb.connect(config=settings) as engine:
                engine.execute("SET enable_progress_bar = false")
                entries = engine.from_arrow(pa.ipc.open_stream(file))
                yield from entries.order(order).to_arrow_reader(BATCH_ENTRIES)
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise OSError(errno.ENOSPC, str(error).partition("\n")[0]) from error
        except RuntimeError as error:
            if "interrupted" in str(error):  # what the engine makes of Ctrl-C
                raise KeyboardInterrupt from error
            raise


def fits_float32(numbers: Array) -> bool:
    """Return True for numbers that single precision represents exactly."""
    with np.errstate(over="ignore", under="ignore"):
        return bool(np.all(numbers.astype(np.float32) == numbers))


def cuts_of_rows(counts: IntArray, n_partitions: int) -> IntArray:
    """Return where rows are cut so that partitions have about as many entries as each other.

    Parameters
    ----------
    counts : array (n_items,)
        The entries of each row.
    n_partitions : int
        At most as many as there are rows with entries.

    Returns
    -------
    array (n_partitions + 1,)
        The first row of each partition, each of which has an entry, and the number of rows.
    """
    occupied = np.flatnonzero(counts)
    until = np.cumsum(counts[occupied])
    steps = np.arange(1, n_partitions)
    wanted = until[-1] * (steps / n_partitions)
    cuts = np.searchsorted(until, wanted) + 1
    cuts = np.maximum.accumulate(cuts - steps) + steps  # each takes a row at least,
    cuts = np.minimum(cuts, occupied.size - n_partitions + steps)  # and leaves one to each other
    return np.concatenate([[0], occupied[cuts], [counts.size]]).astype(np.int64)


# By default: a fit takes some hundred bytes an entry of one partition.
ENTRIES_PER_PARTITION = 1 << 21
# The largest number of rows in a row group of a file; Arrow takes no more.
MOST_ROWS_PER_GROUP = 1 << 26
DUPLICATES = ("refuse", "sum")


@suggests_options
def write_partitions(
    data: Mapping[str, Any],
    folder: str | os.PathLike[str],
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
    data : dict from block name to iterable
        Of blocks of rows that follow each other: arrays with NaN where nothing is observed,
        ``scipy.sparse`` matrices whose stored entries are observed, or ``Observations`` of
        these. Or of triples in any order, rows and columns counted from 0: tuples
        ``(row, column, value)`` of numbers; tuples of three arrays; mappings or frames with
        ``row``, ``column``, ``value`` and, where entries have them, ``weight`` and ``offset`` or
        ``exposure``. ``parquet_triples`` reads them from Parquet files. A table in memory is one
        block of rows, in a list: ``{"x": [table]}``.
    folder : path
        A new or an empty one. Files stand there under their names when all are written.
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
        If an option is none of these.

    Notes
    -----
    Weights, offsets and exposures count as in ``Observations``; cells without an entry are
    predicted for an exposure of 1, or an offset of 0. Entries of weight 0 are left out.

    Examples
    --------
    >>> import tempfile, mcframe.datasets as datasets
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     triples = [(2, 0, 5.0), (0, 1, 4.0), (0, 0, 3.0)]
    ...     table = datasets.write_partitions({"stars": triples}, folder, n_partitions=2)
    ...     print([table.rows(p) for p in range(table.n_partitions)])
    ...     print(table.part(0)["stars"].toarray())
    [(0, 2), (2, 3)]
    [[3. 4.]
     [0. 0.]]
    """
    check_options(data, shapes or {}, n_partitions, duplicates)
    labels = tables_of_labels(list(data), row_labels, column_labels or {})
    path = portable_path(folder)
    writing = Writing(duplicates)
    with staging_directory(path, PARTITIONS_LAYOUT, overwrite, writing.needed) as place:
        for name, source in data.items():
            writing.read(place, name, source, (shapes or {}).get(name))
        facts, files = writing.write(place, n_partitions)
        files |= save_labels(place, labels, facts)
        commit(place, path, PARTITIONS_LAYOUT, facts, files)
    return on_disk(path)


def tables_of_labels(
    blocks: list[str], row_labels: Any, column_labels: Mapping[str, Any]
) -> dict[int | None, tuple[str, Any]]:
    """Return the name of labels in messages, and a table of them, by block; None are the rows."""
    tables: dict[int | None, tuple[str, Any]] = {}
    if row_labels is not None:
        tables[None] = ("row_labels", table_of_labels("row_labels", row_labels))
    for name, labels in column_labels.items():
        what = f"column_labels[{name!r}]"
        if name not in blocks:
            raise ModelError(f"column_labels: there is no block {name!r}; there are {blocks}")
        tables[blocks.index(name)] = (what, table_of_labels(what, labels))
    return tables


def table_of_labels(what: str, source: Any) -> Any:
    """Return labels, which are text alone or whole numbers alone and differ, as a table."""
    labels = source.tolist() if class_offers(source, "tolist") else list(source)
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
        If there are more or fewer of them than rows or columns.
    """
    columns = [block["columns"] for block in facts["blocks"].values()]
    files = {}
    for block, (what, table) in labels.items():
        expected = facts["starts"][-1] if block is None else columns[block]
        if table.num_rows != expected:
            axis = "rows" if block is None else "columns"
            raise DataError(
                f"{what} has {table.num_rows} labels and the table {expected} {axis}; give one for"
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
        row_group_size=MOST_ROWS_PER_GROUP,
        # Measured: as small as with compression, and written in half of the time.
        compression="none",
        use_dictionary=[name for name in table.column_names if name != "column"],
        column_encoding={"column": "DELTA_BINARY_PACKED"}
        if "column" in table.column_names
        else None,
    )
    return write_bytes(path, content.getvalue())


def check_options(
    data: Any, shapes: Mapping[str, Any], n_partitions: int | None, duplicates: str
) -> None:
    """Refuse options that cannot be meant, before anything is read."""
    if isinstance(data, str | os.PathLike):
        raise DataError(
            f"the path {os.fspath(data)!r} was given in the place of the data; write"
            " write_partitions(data, folder)"
        )
    if not isinstance(data, Mapping) or not data:
        raise DataError(
            f"{a_type(data)} was given; a dict from the name of each block to its source is needed"
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
        Options.n_partitions(n_partitions)
    one_of(duplicates, "duplicates", DUPLICATES)


@attrs.define(eq=False)
class Writing:
    """One writing of a folder: blocks are read one after the other, then sorted together.

    Attributes
    ----------
    duplicates : str
    counts : array
        The entries of each row of all blocks, perhaps longer than there are rows.
    buffers : dict from block name to EntryBuffer
    block_shapes : dict from block name to BlockShape
    """

    duplicates: str
    counts: IntArray = attrs.field(factory=lambda: np.zeros(1024, dtype=np.int64))
    buffers: dict[str, EntryBuffer] = attrs.field(factory=dict)
    block_shapes: dict[str, BlockShape] = attrs.field(factory=dict)

    def needed(self) -> str:
        """Say how many bytes the entries take that were read so far.

        All are there as they came, and those of one block two times more while they are sorted.
        """
        sizes = [buffer.n_bytes for buffer in self.buffers.values()]
        n_entries = sum(buffer.n_entries for buffer in self.buffers.values())
        return (
            f"{n_entries} entries were read, which need {sum(sizes) + 2 * max(sizes, default=0)}"
            " bytes there while they are sorted"
        )

    def read(self, place: Path, name: str, source: Any, shape: tuple[int, int] | None) -> None:
        """Put the entries of a block on the disk, and count them by rows."""
        block_shape = self.block_shapes[name] = BlockShape(name, *(shape or ()))
        for chunk in chunks_of(name, source):
            block_shape.take(chunk)
            if name not in self.buffers:
                path = place / f"b{len(self.buffers)}.entries.arrow"
                self.buffers[name] = EntryBuffer(path, chunk.names)
            self.buffers[name].add(chunk)
            if block_shape.last_row >= self.counts.size:
                size = max(block_shape.last_row + 1, 2 * self.counts.size)
                longer = np.zeros(size, dtype=np.int64)
                longer[: self.counts.size] = self.counts
                self.counts = longer
            np.add.at(self.counts, chunk.rows, 1)
        buffer = self.buffers[name]
        buffer.writer.close()
        if self.duplicates == "sum":
            buffer.fits_float32["value"] = False  # of sums nothing is known before they are taken
            if buffer.additions:
                raise DataError(
                    f"block {name!r}: its entries have {' and '.join(buffer.additions)}, which"
                    " have no sum; give each cell one entry"
                )

    def write(
        self, place: Path, n_partitions: int | None
    ) -> tuple[dict[str, Any], dict[str, StoredFile]]:
        """Sort the entries into partitions, and return the facts of the manifest and the files."""
        n_items = common_rows(self.block_shapes.values())
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
                "columns": self.block_shapes[name].width,
                "beside": list(buffer.additions),
                "entries": self.write_block(place, name, cuts, files),
            }
            for name, buffer in self.buffers.items()
        }
        return {"starts": cuts.tolist(), "blocks": blocks}, files

    def write_block(
        self, place: Path, name: str, cuts: IntArray, files: dict[str, StoredFile]
    ) -> list[int]:
        """Write the partitions of a block, add their files, and return their numbers of entries.

        Raises
        ------
        DataError
            If cells have several entries that are not to be summed, with how many there are.
        """
        buffer, position = self.buffers[name], list(self.buffers).index(name)
        refuse_full(place, 2 * buffer.n_bytes)
        counts, n_repeated, place_of_first = [], 0, (0, 0)
        for p, entries in enumerate(buffer.partitions(cuts, by_value=self.duplicates == "sum")):
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
                files[file] = save_table(place / file, entries.cast(buffer.kept_schema))
        buffer.path.unlink()
        if n_repeated:
            raise DataError(
                f"block {name!r}: {n_repeated} entries stand in a cell that has another one, the"
                f" first in row {place_of_first[0]}, column {place_of_first[1]}; keep one of each,"
                " or give duplicates='sum'"
            )
        return counts
