"""Entries of a block: chunks of them, and the matrices that a partition has of them."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError
from mcframe.model import Observations
from mcframe.model.observations import EntryExposures

# The additions that an entry may have to its value: names of columns of triples.
ADDITIONS = ("weight", "offset", "exposure")
# Rows of triples are counted in memory up to this one; larger tables say how many they have.
MOST_ROWS = 1 << 28

Arrays = Mapping[str, npt.NDArray[Any]]


@attrs.frozen(eq=False)
class Chunk:
    """Some entries of a block, in any order.

    Attributes
    ----------
    label : str
        The name of the chunk in messages, such as ``chunk 3``.
    rows, columns : arrays of integers (n_entries,)
        Counted from 0 over the whole table.
    values : array (n_entries,)
        Of observed entries alone.
    additions : dict of arrays (n_entries,)
        By their names in ``ADDITIONS``.
    n_columns : int or None
        Of a block of rows; triples do not say it.
    rows_until : int or None
        Of a block of rows the first row after it; triples do not say it.
    """

    label: str
    rows: IntArray
    columns: IntArray
    values: Array
    additions: dict[str, Array]
    n_columns: int | None = None
    rows_until: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the additions to the values."""
        return tuple(sorted(self.additions))

    def select(self, kept: Mask) -> "Chunk":
        """Return the chunk with some of its entries."""
        additions = {name: numbers[kept] for name, numbers in self.additions.items()}
        return attrs.evolve(
            self,
            rows=self.rows[kept],
            columns=self.columns[kept],
            values=self.values[kept],
            additions=additions,
        )


def check_chunk(name: str, chunk: Chunk) -> Chunk:
    """Return the entries that count: those of weight 0 are not observed.

    Raises
    ------
    DataError
        For a number that is not finite, a weight below 0 and an exposure that is not above 0,
        with chunk, row, column and value.
    """
    refuse(
        name,
        chunk,
        "value",
        chunk.values,
        ~np.isfinite(chunk.values),
        "finite; leave out"
        " the entry, or give a dense block with NaN, if it stands for a missing value",
    )
    for what, numbers in chunk.additions.items():
        refuse(name, chunk, what, numbers, ~np.isfinite(numbers), "finite")
        if what == "weight":
            refuse(name, chunk, what, numbers, numbers < 0.0, "0 or above; 0 leaves it out")
        if what == "exposure":
            refuse(name, chunk, what, numbers, numbers <= 0.0, "above 0")
    if "weight" in chunk.additions:
        return chunk.select(chunk.additions["weight"] > 0.0)
    return chunk


def refuse(name: str, chunk: Chunk, what: str, numbers: Array, wrong: Mask, needed: str) -> None:
    """Raise a ``DataError`` that shows the first entry with a wrong number, if there is one."""
    if not wrong.any():
        return
    first, others = int(np.argmax(wrong)), int(wrong.sum()) - 1
    more = f" and {others} more there" if others else ""
    raise DataError(
        f"block {name!r}: {what} {numbers[first]:g} in {chunk.label}, row {chunk.rows[first]},"
        f" column {chunk.columns[first]}{more}; every one must be {needed}"
    )


def data_of(arrays: Arrays, shape: tuple[int, int]) -> Any:
    """Return a compressed matrix of the entries, or ``Observations`` of one; nothing is copied.

    Parameters
    ----------
    arrays : dict of arrays
        ``indptr`` and ``columns`` as SciPy has them, ``value`` and, where entries have them,
        ``weight`` and ``offset`` or ``exposure``.
    shape : (rows, columns)
    """

    def matrix(what: str) -> Any:
        if what not in arrays:
            return None
        return sp.csr_array((arrays[what], arrays["columns"], arrays["indptr"]), shape=shape)

    values, weights, offset, exposure = map(matrix, ("value", "weight", "offset", "exposure"))
    if weights is None and offset is None and exposure is None:
        return values
    known = None if exposure is None else EntryExposures(exposure)
    return Observations(values, weights=weights, offset=offset, exposure=known)


def arrays_of(name: str, chunk: Chunk, start: int, shape: tuple[int, int]) -> Arrays:
    """Return the entries of a chunk row after row, as ``data_of`` takes them.

    Parameters
    ----------
    name : str
        Of the block.
    chunk : Chunk
        All entries of a partition.
    start : int
        The first row of the partition.
    shape : (rows, columns)
        Of the partition.

    Raises
    ------
    DataError
        Where a cell has several entries.
    """
    cells = (chunk.rows - start) * shape[1] + chunk.columns
    order = np.argsort(cells, kind="stable")
    repeated = np.flatnonzero(np.diff(cells[order]) == 0)
    if repeated.size:
        first = order[repeated[0]]
        raise DataError(
            f"block {name!r}: {repeated.size} entries of {chunk.label} stand in a cell that has"
            f" another one, the first in row {chunk.rows[first]}, column {chunk.columns[first]};"
            " keep one of each"
        )
    ends = np.searchsorted(chunk.rows[order] - start, np.arange(shape[0] + 1))
    numbers = {"value": chunk.values, **chunk.additions}
    places = type_of_places(order.size)
    return {
        "indptr": ends.astype(places),
        "columns": chunk.columns[order].astype(places),
        **{what: array[order] for what, array in numbers.items()},
    }


def type_of_places(n_entries: int) -> type:
    """Return the type of ``indptr`` and ``columns``: SciPy copies both where they differ."""
    return np.int32 if n_entries <= np.iinfo(np.int32).max else np.int64
