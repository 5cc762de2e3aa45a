"""Data of a block, sparse, in DataFrames or in arrays, as checked tables of their entries."""

import sys
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray, class_offers
from mcframe.contracts.errors import DataError
from mcframe.contracts.rounding import LEAST_MODERATE
from mcframe.contracts.validators import (
    NotANumber,
    a_type,
    as_float,
    exact,
    floats_of,
    listed,
    plain,
    reads_as_number,
)
from mcframe.model.labels import (
    frame_in_memory,
    is_sparse_column,
    leaves_zeros_out,
    native_dtype,
    numbers_of_frame,
)
from mcframe.model.long_lists import list_of_entries
from mcframe.model.model import Block
from mcframe.model.table import Table

# Formats of sparse matrices that store whole blocks or diagonals, and their zeros with them.
UNCLEAR_FORMATS = ("bsr", "dia")
# Sums of squares of values up to this stay finite.
LARGEST_VALUE = 1e140
ALL_NUMBERS_REMEDY = (
    "Its text reads as numbers: convert it by pandas.to_numeric(column), or by array.astype(float)"
)
SOME_NUMBERS_REMEDY = (
    "Some of its text reads as numbers: pandas.to_numeric(column, errors='coerce') converts"
    " that, and makes NaN of all else"
)


def table_of_sparse(block: Block, matrix: Any) -> Table:
    """The table of a sparse matrix: what is stored is observed; nothing may be stored twice."""
    if matrix.ndim != 2:
        raise DataError(
            f"block {block.name!r}: a sparse array of shape {matrix.shape} was given;"
            " two dimensions are needed"
        )
    if matrix.format in UNCLEAR_FORMATS and matrix.count_nonzero() < matrix.nnz:
        raise DataError(
            f"block {block.name!r}: a sparse matrix in {matrix.format} format with zeros was"
            " given, which may stand there because blocks and diagonals are stored whole; give a"
            " scipy.sparse.coo_array of the observed entries alone, zeros among them or not"
        )
    triplets = triplets_of(block, matrix)
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


def triplets_of(block: Block, matrix: Any) -> Any:
    """The entries of a sparse matrix; a ``DataError`` where its indices lie outside of it."""
    try:
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format()
        triplets = sp.coo_array(matrix)
        np.ravel_multi_index(triplets.coords, triplets.shape)
    except (ValueError, IndexError) as error:
        raise DataError(
            f"block {block.name!r}: the sparse matrix is damaged ({error}); make it again from its"
            " rows, columns and values"
        ) from None
    return triplets


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


def table_of_array(block: Block, data: Any) -> Table:
    """The table of what numpy reads as a matrix; masked entries of masked arrays are missing."""
    try:
        array = np.ma.asarray(data) if isinstance(data, np.ma.MaskedArray) else np.asarray(data)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"block {block.name!r}: the data do not form a matrix; are the rows of equal length?"
        ) from None
    if array.ndim == 0:
        raise DataError(
            f"block {block.name!r}: {a_type(data)} was given; an array, a DataFrame or"
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
    """The table of a dense matrix of floats, whose NaN are missing."""
    rows, columns = np.nonzero(~np.isnan(dense))
    shape = (int(dense.shape[0]), int(dense.shape[1]))
    return Table(shape, rows, columns, dense[rows, columns], index, names)


def is_pandas(data: Any) -> bool:
    """Return True for a DataFrame or a Series of pandas, which is never imported here."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame | pandas.Series)


def is_pandas_array(data: Any) -> bool:
    """Return True for a column of pandas without labels, such as a ``Categorical``."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.api.extensions.ExtensionArray)


def numbers_of(block: Block, data: Any) -> Array:
    """The values of a DataFrame, or of a Series of any library, as float64 (rows x columns).

    NaN where one is missing.

    Raises
    ------
    DataError
        Where the values are no numbers, or their meaning is unclear: a name that stands
        twice, sparse columns with zeros that are not stored, a long list of entries.
    """
    of_series = class_offers(data, "to_frame")
    frame = data.to_frame() if of_series else data
    table = frame_in_memory(frame, f"block {block.name!r}: ")
    refuse_long_list(block, frame)
    check_stored_zeros(block, table, "series.to_frame()" if of_series else "frame")
    try:
        return numbers_of_frame(table)
    except NotANumber as error:
        series = table.get_column(table.columns[error.position[1]])
        name, values = repr(plain(series.name)), np.array([*series.to_list(), None], object)
        raise not_a_number(block, name, error, values[:-1], native_dtype(series)) from None


def refuse_long_list(block: Block, frame: Any) -> None:
    """Raise a ``DataError`` where a frame is a long list of entries."""
    entries = list_of_entries(frame)
    if entries is not None:
        raise DataError(
            f"block {block.name!r}: the DataFrame {entries}. {entries.remedy}; to complete its own"
            f" {frame.shape[1]} columns, give frame.to_numpy()"
        )


def check_stored_zeros(block: Block, table: Any, called: str) -> None:
    """Raise a ``DataError`` where a sparse column leaves zeros out, which may mean missing ones.

    ``called`` is how the remedy writes the frame.
    """
    # Sparse columns have no dtype that narwhals knows, which is told without their values.
    if not any(dtype == nw.Unknown for dtype in table.schema.values()):
        return
    columns = list(table.iter_columns())
    for series in filter(leaves_zeros_out, columns):
        name = plain(series.name)
        zeros, missing = f"{called}.sparse.to_dense()", f"{called}.sparse.to_coo()"
        if not all(map(is_sparse_column, columns)):
            zeros = f"{called}[{name!r}].sparse.to_dense() as the column"
            missing = f"{called}[{name!r}].sparse.to_dense().astype(float).replace(0, numpy.nan)"
        raise DataError(
            f"block {block.name!r}, column {name!r}: the column is sparse (dtype"
            f" {native_dtype(series)}), and what it does not store may be missing or an observed"
            f" zero. If it is missing, give {missing}; if it is zero, give {zeros}"
        )


def check_values(block: Block, table: Table) -> None:
    """Raise a ``DataError`` for infinite or huge values, and for those of another domain."""
    check_domain(block, table)
    huge = np.abs(table.values) > LARGEST_VALUE
    if huge.any():
        raise DataError(
            f"block {block.name!r}: {entries_in_words(table, huge)}; squares of such values"
            " overflow. Rescale the column, or use NaN if they stand for missing values"
        )
    largest = float(np.max(np.abs(table.values), initial=0.0, where=~np.isnan(table.values)))
    if block.likelihood.location and 0.0 < largest < LEAST_MODERATE:
        raise DataError(
            f"block {block.name!r}: no value is larger than {largest:g}; squares of such values"
            " vanish. Rescale the columns"
        )
    reason = block.likelihood.why_suspicious(table.shape, table.rows, table.values)
    if reason is not None:
        raise DataError(f"block {block.name!r}: {reason}")


def check_domain(block: Block, table: Table) -> None:
    """Raise a ``DataError`` for infinite values, and for those of another domain."""
    infinite = np.isinf(table.values)
    if infinite.any():
        raise DataError(
            f"block {block.name!r}: {entries_in_words(table, infinite)}; every observed value must"
            " be finite. Replace infinities by NaN if they stand for missing values"
        )
    wrong = block.likelihood.invalid(table.values)
    if wrong.any():
        likelihood = type(block.likelihood).__name__
        raise DataError(
            f"block {block.name!r}: {entries_in_words(table, wrong)}; {likelihood} needs"
            f" {block.likelihood.needs}. {block.likelihood.remedy}"
        )
    beyond = block.limited(table.values) != table.values
    if beyond.any():
        raise DataError(
            f"block {block.name!r}: {entries_in_words(table, beyond)}; its bounds are"
            f" {block.bounds!r}. Correct such values, or give wider bounds"
        )


def check_scale(block: Block, scale: float, table: Table) -> None:
    """Raise a ``DataError`` where the weight of an entry, times that of the block, overflows."""
    heaviest = 1.0 if table.weights is None else np.max(table.weights, initial=0.0)
    with np.errstate(over="ignore"):
        if np.isfinite(scale * heaviest):
            return
    raise DataError(
        f"block {block.name!r}: with weight={block.weight:g} an entry of weight {heaviest:g}"
        " counts more than the largest number there is; give weights that are closer to 1"
    )


def entries_in_words(table: Table, chosen: Any) -> str:
    """A few offending entries in words: value, column and row of each."""

    def described(i: int) -> str:
        column = table.column_label(int(table.columns[i]))
        row = table.row_label(int(table.rows[i]))
        return f"value {exact(table.values[i])} in column {column}, row {row}"

    return listed(np.flatnonzero(chosen), described, between="; ")


def not_a_number(
    block: Block, column: str, error: NotANumber, values: Any, dtype: Any
) -> DataError:
    """The error for a value that is no number; the remedy depends on its column's ``values``."""
    likelihood = block.likelihood
    strange = [value for value in np.asarray(values).flat if as_float(value) is None]
    read = [isinstance(value, str | bytes) and reads_as_number(value) for value in strange]
    remedy = (
        ALL_NUMBERS_REMEDY if all(read) else SOME_NUMBERS_REMEDY if any(read) else likelihood.words
    )
    return DataError(
        f"block {block.name!r}, column {column}: value {error.value!r} is not a number"
        f" (dtype {dtype}); {type(likelihood).__name__} needs {likelihood.needs}. {remedy}"
    )
