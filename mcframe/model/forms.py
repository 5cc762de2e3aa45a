"""Data of a block, sparse, in DataFrames or in arrays, as checked tables of their entries."""

import itertools
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError
from mcframe.contracts.validators import (
    REAL_KINDS,
    NotANumber,
    a_type,
    as_float,
    exact,
    floats_of,
    plain,
    reads_as_number,
)
from mcframe.model.labels import code_labels, numbers_of_column, nw
from mcframe.model.model import Block
from mcframe.model.table import Table

# Formats of sparse matrices that store whole blocks or diagonals, and their zeros with them.
UNCLEAR_FORMATS = ("bsr", "dia")
# How many offending entries a message shows.
SHOWN = 3
# Sums of squares of values up to this stay finite.
LARGEST = 1e140
# Of data that are all smaller than this squares, and with them the objective, vanish.
SMALLEST = 1e-150
ALL_READ = (
    "Its text reads as numbers: convert it by pandas.to_numeric(column), or by array.astype(float)"
)
SOME_READ = (
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


def is_columns(data: Any) -> bool:
    """Return True for a table of polars or pyarrow, which are never imported here."""
    polars, pa = sys.modules.get("polars"), sys.modules.get("pyarrow")
    if polars is not None and isinstance(data, polars.DataFrame):
        return True
    return pa is not None and isinstance(data, pa.Table)


def numbers_of_columns(block: Block, data: Any) -> Array:
    """The values of a table of polars or pyarrow as float64, NaN where missing.

    Column by column: numpy would read dates and durations beside numbers as numbers.

    Raises
    ------
    DataError
        As ``numbers_of``.
    """
    try:
        table = nw.from_native(data, eager_only=True)
    except nw.exceptions.DuplicateError:
        names = list(data.column_names)
        name = next(name for name in names if names.count(name) > 1)
        raise name_twice(block, name) from None
    refuse_long_list(block, table)
    numbers = np.empty(table.shape)
    for position, series in enumerate(table.iter_columns()):
        try:
            numbers[:, position] = numbers_of_column(series)
        except NotANumber as error:
            name, values = repr(plain(series.name)), np.array([*series.to_list(), None], object)
            raise not_a_number(block, name, error, values[:-1], series.dtype) from None
    return numbers


def name_twice(block: Block, name: object) -> DataError:
    """The error of a table in which two columns have one name."""
    return DataError(
        f"block {block.name!r}: column name {plain(name)!r} stands twice in the DataFrame; rename"
        " or drop one of them"
    )


def refuse_long_list(block: Block, frame: Any) -> None:
    """Raise a ``DataError`` where a frame is a long list of entries."""
    explanation = long_list(frame)
    if explanation:
        raise DataError(
            f"block {block.name!r}: {explanation}; to complete its own {frame.shape[1]} columns,"
            " give frame.to_numpy()"
        )


def numbers_of(block: Block, data: Any) -> Array:
    """The values of a DataFrame or Series as float64 (rows x columns), NaN where missing.

    Raises
    ------
    DataError
        Where the values are no numbers, or their meaning is unclear: a name that stands
        twice, sparse columns with zeros that are not stored, a long list of entries.
    """
    frame = data.to_frame() if data.ndim == 1 else data
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise name_twice(block, repeated[0])
    refuse_long_list(block, frame)
    check_stored_zeros(block, frame, "frame" if data.ndim == 2 else "series.to_frame()")
    numbers = np.empty(frame.shape)
    for position, name in enumerate(frame.columns):
        series = frame.iloc[:, position]
        try:
            if series.dtype.kind in REAL_KINDS:
                numbers[:, position] = series.to_numpy(dtype=np.float64, na_value=np.nan)
            else:
                numbers[:, position] = floats_of(objects_of(series))
        except NotANumber as error:
            values = objects_of(series)
            raise not_a_number(block, repr(plain(name)), error, values, series.dtype) from None
    return numbers


def objects_of(series: Any) -> Any:
    """The values of a Series of pandas as an array of objects."""
    return np.fromiter(series, dtype=object, count=len(series))


def check_stored_zeros(block: Block, frame: Any, called: str) -> None:
    """Raise a ``DataError`` where a sparse column leaves zeros out, which may mean missing ones.

    That they are zeros is what pandas says; that they are missing is what a ``scipy.sparse``
    matrix of the same entries means here. NaN that are left out are missing, and any other number
    is that number.
    """
    sparse = [isinstance(dtype, sys.modules["pandas"].SparseDtype) for dtype in frame.dtypes]
    for position in np.flatnonzero(sparse):
        name, column = plain(frame.columns[position]), frame.iloc[:, position]
        if column.dtype.fill_value != 0 or column.sparse.density == 1.0:
            continue
        zeros, missing = f"{called}.sparse.to_dense()", f"{called}.sparse.to_coo()"
        if not all(sparse):
            zeros = f"{called}[{name!r}].sparse.to_dense() as the column"
            missing = f"{called}[{name!r}].sparse.to_dense().astype(float).replace(0, numpy.nan)"
        raise DataError(
            f"block {block.name!r}, column {name!r}: the column is sparse (dtype {column.dtype}),"
            " and what it does not store may be missing or an observed zero. If it is missing,"
            f" give {missing}; if it is zero, give {zeros}"
        )


def check_values(block: Block, table: Table) -> None:
    """Raise a ``DataError`` for infinite or huge values, and for those of another domain."""
    check_domain(block, table)
    huge = np.abs(table.values) > LARGEST
    if huge.any():
        raise DataError(
            f"block {block.name!r}: {entries_of(table, huge)}; squares of such values overflow."
            " Rescale the column, or use NaN if they stand for missing values"
        )
    largest = float(np.max(np.abs(table.values), initial=0.0, where=~np.isnan(table.values)))
    if block.likelihood.location and 0.0 < largest < SMALLEST:
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
            f"block {block.name!r}: {entries_of(table, infinite)}; every observed value must be"
            " finite. Replace infinities by NaN if they stand for missing values"
        )
    wrong = block.likelihood.invalid(table.values)
    if wrong.any():
        likelihood = type(block.likelihood).__name__
        raise DataError(
            f"block {block.name!r}: {entries_of(table, wrong)}; {likelihood} needs"
            f" {block.likelihood.needs}. {block.likelihood.remedy}"
        )
    beyond = block.limited(table.values) != table.values
    if beyond.any():
        raise DataError(
            f"block {block.name!r}: {entries_of(table, beyond)}; its bounds are"
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


def entries_of(table: Table, chosen: Any) -> str:
    """A few offending entries in words: value, column and row of each."""
    where = np.flatnonzero(chosen)
    described = [
        f"value {exact(table.values[i])} in column {table.column_label(int(table.columns[i]))},"
        f" row {table.row_label(int(table.rows[i]))}"
        for i in where[:SHOWN]
    ]
    more = f" and {where.size - SHOWN} more" if where.size > SHOWN else ""
    return "; ".join(described) + more


def not_a_number(
    block: Block, column: str, error: NotANumber, values: Any, dtype: Any
) -> DataError:
    """The error for a value that is no number; the remedy depends on its column's ``values``."""
    likelihood = block.likelihood
    strange = [value for value in np.asarray(values).flat if as_float(value) is None]
    read = [isinstance(value, str | bytes) and reads_as_number(value) for value in strange]
    remedy = ALL_READ if all(read) else SOME_READ if any(read) else likelihood.words
    return DataError(
        f"block {block.name!r}, column {column}: value {error.value!r} is not a number"
        f" (dtype {dtype}); {type(likelihood).__name__} needs {likelihood.needs}. {remedy}"
    )


# How many columns a list of entries has: two keys, a value, perhaps the time.
WIDTHS = (3, 4)
# Kinds of dtypes that no keys have.
MEASURED = "fbc"
# How columns that hold the rows and the columns of a table in waiting are called.
OF_ROWS = frozenset(
    {"row", "user", "uid", "customer", "client", "buyer", "reader", "viewer", "listener"}
    | {"member", "person", "respondent", "rater", "patient", "student", "author", "unit"}
)
OF_COLUMNS = frozenset(
    {"col", "column", "item", "iid", "movie", "film", "product", "book", "song", "track"}
    | {"artist", "article", "business", "restaurant", "game", "question", "drug", "gene"}
    | {"paper", "variable", "feature", "time", "year", "month", "week", "day"}
)
OF_KEYS = frozenset({"id", "key"})
# As many rows with equal pairs are to be expected, if the two columns had nothing to do with each
# other, before it says something that there are none: that happens less than one time in 20.
EXPECTED_EQUALS = 3.0


def long_list(frame: Any) -> str:
    """A description of a frame that reads as a list of entries (user, item, rating), else "".

    It reads so if two of its three or four columns are named as keys are, hold whole numbers or
    text without a gap, and pair up differently in every row although their values repeat: so
    often that equal pairs would be expected. Whether it is one nevertheless cannot be known.
    """
    table = nw.from_native(frame, eager_only=True)
    names = table.columns
    for keys in itertools.combinations(names if len(names) in WIDTHS else (), 2):
        if not are_keys(*keys):
            continue
        rows, columns = (codes_of(table.get_column(key)) for key in keys)
        if rows is None or columns is None or not list_cells(rows, columns):
            continue
        value = next(name for name in names if name not in keys)
        return (
            f"the DataFrame of {rows.size} rows and columns {', '.join(map(repr, names))} has"
            f" every pair of {keys[0]!r} and {keys[1]!r} once, as a long list of entries has, one"
            f" in a row. To complete the table of {rows.max() + 1} x {columns.max() + 1} entries"
            f" that it lists, fit mc.from_triples(frame, row={keys[0]!r},"
            f" column={keys[1]!r}, value={value!r})"
        )
    return ""


def may_list_entries(names: Sequence[object], kinds: Sequence[str]) -> bool:
    """Return True for a frame that may list entries, by its names or by kinds of dtypes.

    It has three or four columns, two of which are named as keys are, or hold no measurements.
    """
    if len(names) not in WIDTHS:
        return False
    named = any(are_keys(*pair) for pair in itertools.combinations(names, 2))
    return named or sum(kind not in MEASURED for kind in kinds) >= 2


def are_keys(first: object, second: object) -> bool:
    """Return True for names of rows and of columns, or of two different ids."""
    one, other = words_of(first), words_of(second)
    crossed = (one & OF_ROWS and other & OF_COLUMNS) or (one & OF_COLUMNS and other & OF_ROWS)
    both = one & OF_KEYS and other & OF_KEYS and one - OF_KEYS and other - OF_KEYS
    return bool(crossed or (both and one != other))


def words_of(name: object) -> set[str]:
    """The words of a column's name, also in the singular: user and id of ``user_ids``."""
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", str(name))}
    words |= {word.removesuffix("s") for word in words}
    stems = {word.removesuffix("id") for word in words if word.endswith("id")}
    glued = stems & (OF_ROWS | OF_COLUMNS)  # userid
    return words | glued | ({"id"} if glued else set())


def codes_of(series: Any) -> IntArray | None:
    """A column of whole numbers or text without a gap as codes from 0; None for any other."""
    dtype = series.dtype
    if len(series) == 0 or series.null_count():
        return None
    whole = dtype.is_integer() or (dtype.is_float() and bool((series % 1 == 0).all()))
    if not whole and dtype not in (nw.String, nw.Categorical, nw.Enum):
        return None
    return code_labels(series, series.name)[1]


def list_cells(rows: IntArray, columns: IntArray) -> bool:
    """Return True where all pairs of codes differ, although some would be equal by chance."""
    n_pairs, n_columns = rows.size, int(columns.max()) + 1
    if n_pairs < int(rows.max()) + 1 + n_columns:
        return False
    if np.unique(rows * n_columns + columns).size < n_pairs:
        return False
    # Ordered pairs of list entries that share their row, or their column.
    shared = [
        float(np.sum(counts * (counts - 1.0))) for counts in map(np.bincount, (rows, columns))
    ]
    return shared[0] * shared[1] / (2.0 * n_pairs * (n_pairs - 1.0)) >= EXPECTED_EQUALS
