"""Tables of the forms that data come in: scipy.sparse matrices, DataFrames, arrays."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError
from mcframe.contracts.real_numbers import NotANumber, floats_of
from mcframe.model.block import Block
from mcframe.model.frames import numbers_of
from mcframe.model.refusals import not_a_number
from mcframe.model.table import Table

__all__ = ["row_major", "table_of_array", "table_of_numbers", "table_of_pandas", "table_of_sparse"]

# Formats of sparse matrices that store whole blocks or diagonals, and their zeros with them.
UNCLEAR_FORMATS = ("bsr", "dia")


def table_of_sparse(block: Block, given: Any) -> Table:
    """Stored = observed; entries stored twice are refused, since their sum would be a guess."""
    if given.ndim != 2:
        raise DataError(
            f"block {block.name!r}: a sparse array of shape {given.shape} was given;"
            " two dimensions are needed"
        )
    if given.format in UNCLEAR_FORMATS and given.count_nonzero() < given.nnz:
        raise DataError(
            f"block {block.name!r}: a sparse matrix in {given.format} format with zeros was given,"
            " which may stand there because blocks and diagonals are stored whole; give a"
            " scipy.sparse.coo_array of the observed entries alone, zeros among them or not"
        )
    triplets = sp.coo_array(given)
    rows, columns = triplets.coords
    order = row_major(block, triplets)
    try:
        values = floats_of(triplets.data[order])
    except NotANumber as error:
        column = str(columns[order][error.position])
        raise not_a_number(block, column, error, triplets.data, triplets.data.dtype) from None
    missing = np.isnan(values)
    kept = order[~missing]
    return Table(
        shape=(int(triplets.shape[0]), int(triplets.shape[1])),
        rows=rows[kept].astype(np.intp),
        columns=columns[kept].astype(np.intp),
        values=values[~missing],
    )


def row_major(block: Block, triplets: Any, what: str = "") -> IntArray:
    """The order of the entries, row after row; a ``DataError`` where one is stored twice."""
    cells = np.ravel_multi_index([at.astype(np.int64) for at in triplets.coords], triplets.shape)
    order = np.argsort(cells, kind="stable")
    repeated = np.flatnonzero(np.diff(cells[order]) == 0)
    if repeated.size:
        first = order[repeated[0]]
        where = zip(("row", "column"), triplets.coords[-2:], strict=False)
        entry = ", ".join(f"{axis} {int(at[first])}" for axis, at in where)
        raise DataError(
            f"block {block.name!r}: {what}entry ({entry}) is stored more than once"
            f" ({repeated.size} such entries); call sum_duplicates() or drop them first"
        )
    return order


def table_of_pandas(block: Block, given: Any) -> Table:
    """A DataFrame with its labels; a Series is one column."""
    names = given.columns if given.ndim == 2 else given.to_frame().columns
    return table_of_numbers(numbers_of(block, given), index=given.index, names=names)


def table_of_array(block: Block, given: Any) -> Table:
    """Anything numpy reads as a matrix; masked arrays count as missing where masked."""
    try:
        array = np.ma.asarray(given) if isinstance(given, np.ma.MaskedArray) else np.asarray(given)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"block {block.name!r}: the data do not form a matrix; are the rows of equal length?"
        ) from None
    if array.ndim == 0:
        raise DataError(
            f"block {block.name!r}: a {type(given).__name__} was given; an array, a DataFrame or"
            " a scipy.sparse matrix is needed"
        )
    if array.ndim == 1 and array.size:
        array = array[:, np.newaxis]
    if array.ndim != 2:
        raise DataError(
            f"block {block.name!r}: data of shape {array.shape} were given; a matrix of"
            " n_items rows and at least one column is needed"
        )
    try:
        return table_of_numbers(floats_of(array))
    except NotANumber as error:
        column = error.position[1]
        raise not_a_number(block, str(column), error, array[:, column], array.dtype) from None


def table_of_numbers(dense: Array, index: Any = None, names: Any = None) -> Table:
    """A dense float matrix whose NaN are missing."""
    rows, columns = np.nonzero(~np.isnan(dense))
    shape = (int(dense.shape[0]), int(dense.shape[1]))
    return Table(shape, rows, columns, dense[rows, columns], index, names)
