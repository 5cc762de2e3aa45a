"""Entries of a partition as ``Problem.bind`` takes them: matrices over arrays that are there."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mcframe.contracts.errors import DataError
from mcframe.model import Observations
from mcframe.model.chunks.entries import Chunk
from mcframe.model.observations import EntryExposures

__all__ = ["arrays_of", "data_of", "type_of_places"]

Arrays = Mapping[str, npt.NDArray[Any]]


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
