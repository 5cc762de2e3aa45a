"""The entries of a block, as they come and then row after row: DuckDB sorts them on the disk."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.deferred import Deferred
from mcframe.model.chunks.entries import Chunk

__all__ = ["Spool", "cuts_of_rows"]

pa: Any = Deferred("pyarrow", "writing a table to a folder (mcframe[disk])")
duckdb: Any = Deferred("duckdb", "writing a table to a folder (mcframe[disk])")

# What the engine has while it sorts; beyond that it goes on in files.
MEMORY, THREADS = "128MB", 2
# So many entries are passed on at a time.
AT_ONCE = 1 << 18


@attrs.define(eq=False)
class Spool:
    """The entries of one block in an Arrow file, in the order in which they came.

    Attributes
    ----------
    path : Path
    additions : tuple of str
        What entries have beside their values.
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
            Where the disk has no room for what the engine does not hold in memory.
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
    """Whether numbers are the same in single precision, to the last bit."""
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
