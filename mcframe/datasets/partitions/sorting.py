"""External sort: entries in any order to disk, cut into ranges of rows, each sorted by itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from mcframe.contracts.arrays import Array, IntArray
from mcframe.model.chunks.entries import Chunk, record_type

__all__ = ["Spool", "cuts_of_rows", "distribute", "sort_bucket"]

# So many records are in memory at a time while they are passed on.
AT_ONCE = 1 << 19


@attrs.define(eq=False)
class Spool:
    """The entries of one block in a file, as they come, and what is learnt on the way.

    Attributes
    ----------
    path : Path
    names : tuple of str
        What entries have beside their values.
    n_entries : int
    exact : dict from name to bool
        Which numbers are all the same in single precision.
    """

    path: Path
    names: tuple[str, ...]
    n_entries: int = 0
    exact: dict[str, bool] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.exact = dict.fromkeys(("value", *self.names), True)

    @property
    def record(self) -> np.dtype[Any]:
        """The record of an entry in the file."""
        return record_type(self.names)

    @property
    def n_bytes(self) -> int:
        """The size of the file."""
        return self.n_entries * self.record.itemsize

    def add(self, chunk: Chunk) -> None:
        """Append the entries of a chunk."""
        self.n_entries += chunk.values.size
        with self.path.open("ab") as file:
            for piece in chunk.pieces(AT_ONCE):
                records = self.records_of(piece)
                for name in self.exact:
                    self.exact[name] = self.exact[name] and is_single(records[name])
                file.write(records.data)

    def records_of(self, chunk: Chunk) -> npt.NDArray[Any]:
        """Return entries as records."""
        records = np.empty(chunk.values.size, dtype=self.record)
        records["row"], records["column"] = chunk.rows, chunk.columns
        records["value"] = chunk.values
        for name in self.names:
            records[name] = chunk.additions[name]
        return records

    def pieces(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the records of the file, some at a time."""
        if self.n_entries:
            with self.path.open("rb") as file:
                while (records := np.fromfile(file, self.record, AT_ONCE)).size:
                    yield records


def is_single(numbers: Array) -> bool:
    """Whether numbers are the same in single precision, to the last bit."""
    with np.errstate(over="ignore", under="ignore"):
        return bool(np.all(numbers.astype(np.float32).astype(np.float64) == numbers))


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


def distribute(spool: Spool, cuts: IntArray, buckets: list[Path]) -> None:
    """Append each entry of a spool to the bucket of its range of rows."""
    for records in spool.pieces():
        places = np.searchsorted(cuts, records["row"], side="right") - 1
        order = np.argsort(
            places.astype(np.uint16 if len(buckets) < 2**16 else np.int64), kind="stable"
        )
        records, places = records[order], places[order]
        present, starts = np.unique(places, return_index=True)
        stops = [*starts[1:], records.size]
        for bucket, start, stop in zip(present, starts, stops, strict=True):
            with buckets[bucket].open("ab") as file:
                file.write(records[start:stop].data)


def sort_bucket(
    path: Path, record: np.dtype[Any], first_row: int, n_columns: int, by_value: bool
) -> tuple[npt.NDArray[Any], IntArray]:
    """Return the records of a bucket row after row, and their cells counted from its first row.

    Records of one cell follow each other, by their values if that is asked for: sums over them
    do not depend then on the order in which they came.
    """
    records = np.fromfile(path, record) if path.exists() else np.empty(0, record)
    cells = (records["row"] - first_row) * n_columns + records["column"]
    order = np.lexsort((records["value"], cells)) if by_value else np.argsort(cells, kind="stable")
    return records[order], cells[order]
