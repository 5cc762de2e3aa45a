"""Entries of a block that are written to disk: rows and columns counted, and sorted by DuckDB."""

import errno
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import DataError
from mcframe.model.chunks.sources import MOST_ROWS, Chunk

pa: Any = Deferred("pyarrow", "writing a table to a folder (mcframe[disk])")
duckdb: Any = Deferred("duckdb", "writing a table to a folder (mcframe[disk])")

# What the engine has while it sorts; beyond that it goes on in files.
MEMORY, THREADS = "128MB", 2
# The number of entries that are passed on at a time.
AT_ONCE = 1 << 18


@attrs.define
class Extent:
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
        if self.n_rows is None and self.last_row >= MOST_ROWS:
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


def common_rows(extents: Iterable[Extent]) -> int:
    """Return the number of rows of all blocks.

    Raises
    ------
    DataError
        Where blocks have different ones, no block has an entry, or cells cannot be counted.
    """
    extents = list(extents)
    for extent in extents:
        if extent.rows_given is not None and extent.n_rows not in (None, extent.rows_given):
            raise DataError(
                f"block {extent.name!r}: {extent.rows_given} rows were given and shapes says"
                f" {extent.n_rows}"
            )
        if extent.last_row < 0:
            raise DataError(
                f"block {extent.name!r}: not one entry was given; leave the block out, or check"
                " that its missing values and only those are left out"
            )
    known = [extent for extent in extents if extent.height is not None]
    for extent in known[1:]:
        if extent.height != known[0].height:
            raise DataError(
                f"block {known[0].name!r} has {known[0].height} rows but block {extent.name!r}"
                f" has {extent.height}; rows are items, so every block needs the same ones"
            )
    n_rows = known[0].height if known else None
    largest = max(extents, key=lambda extent: extent.last_row)
    if n_rows is None:
        n_rows = largest.last_row + 1
    elif largest.last_row >= n_rows:
        raise DataError(
            f"block {largest.name!r} has an entry in row {largest.last_row} but block"
            f" {known[0].name!r} has {n_rows} rows; rows are items, so every block needs the"
            " same ones"
        )
    for extent in extents:
        if n_rows > np.iinfo(np.int64).max // extent.width:
            raise DataError(
                f"block {extent.name!r}: {n_rows} rows of {extent.width} columns are more cells"
                " than can be counted in 64 bits"
            )
    return n_rows


@attrs.define(eq=False)
class Spool:
    """The entries of one block in an Arrow file, in the order in which they came.

    Attributes
    ----------
    path : Path
    additions : tuple of str
        The additions to the values of entries: some of weight, offset and exposure.
    n_entries : int
    single : dict from name to bool
        Which numbers are all the same in single precision.
    """

    path: Path
    additions: tuple[str, ...]
    n_entries: int = 0
    single: dict[str, bool] = attrs.field(init=False)
    writer: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.single = dict.fromkeys(("value", *self.additions), True)
        self.writer = pa.ipc.new_stream(str(self.path), self.schema)

    @property
    def schema(self) -> Any:
        """The columns of the file."""
        numbers = [(name, pa.float64()) for name in self.single]
        return pa.schema([("row", pa.int64()), ("column", pa.int32()), *numbers])

    @property
    def kept_schema(self) -> Any:
        """The columns that are kept: in single precision what is the same there."""
        return pa.schema(
            field.with_type(pa.float32()) if self.single.get(field.name) else field
            for field in self.schema
        )

    @property
    def n_bytes(self) -> int:
        """The size of the entries in the file."""
        return self.n_entries * (12 + 8 * len(self.single))

    def add(self, chunk: Chunk) -> None:
        """Append the entries of a chunk."""
        self.n_entries += chunk.values.size
        numbers = {"value": chunk.values, **chunk.additions}
        for name in self.single:
            self.single[name] = self.single[name] and is_single(numbers[name])
        columns = [chunk.rows, chunk.columns.astype(np.int32), *(numbers[n] for n in self.single)]
        self.writer.write_table(pa.table(columns, schema=self.schema), AT_ONCE)

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
            Where the disk is too small for what the engine does not hold in memory.
        """
        order = '"row", "column"' + (', "value"' if by_value else "")
        settings = {
            "memory_limit": MEMORY,
            "threads": THREADS,
            "temp_directory": str(self.path.parent),
        }
        try:
            with pa.OSFile(str(self.path)) as file, duckdb.connect(config=settings) as engine:
                engine.execute("SET enable_progress_bar = false")
                entries = engine.from_arrow(pa.ipc.open_stream(file))
                yield from entries.order(order).to_arrow_reader(AT_ONCE)
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise OSError(errno.ENOSPC, str(error).partition("\n")[0]) from error
        except RuntimeError as error:
            if "interrupted" in str(error):  # what the engine makes of Ctrl-C
                raise KeyboardInterrupt from error
            raise


def is_single(numbers: Array) -> bool:
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
