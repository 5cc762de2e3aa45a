"""DataFrames as numbers; pandas is never imported here, only met where it is in use."""

import sys
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.contracts.real_numbers import REAL_KINDS, NotANumber, floats_of, plain
from mcframe.model.block import Block
from mcframe.model.long_lists import refuse_long_list
from mcframe.model.refusals import not_a_number

__all__ = ["is_pandas", "is_pandas_array", "numbers_of"]


def is_pandas(given: Any) -> bool:
    """Whether pandas is in use and this is one of its tables, with labels."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(given, pandas.DataFrame | pandas.Series)


def is_pandas_array(given: Any) -> bool:
    """Whether this is a column of pandas without labels, such as a ``Categorical``."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(given, pandas.api.extensions.ExtensionArray)


def numbers_of(block: Block, given: Any) -> Array:
    """The values of a DataFrame or Series as float64 (rows x columns), NaN where missing.

    Raises
    ------
    DataError
        Where the values are no numbers, or what they mean cannot be told: a name that stands
        twice, sparse columns with zeros that are not stored, a long list of entries.
    """
    frame = given.to_frame() if given.ndim == 1 else given
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise DataError(
            f"block {block.name!r}: column name {plain(repeated[0])!r} stands twice in the"
            " DataFrame; rename or drop one of them"
        )
    refuse_long_list(block, frame)
    refuse_unstored_zeros(block, frame, "frame" if given.ndim == 2 else "series.to_frame()")
    numbers = np.empty(frame.shape)
    for position, name in enumerate(frame.columns):
        series = frame.iloc[:, position]
        try:
            numbers[:, position] = floats_of_series(series)
        except NotANumber as error:
            values = series.to_numpy(dtype=object)
            raise not_a_number(block, repr(plain(name)), error, values, series.dtype) from None
    return numbers


def floats_of_series(series: Any) -> Array:
    """A column as floats, or ``NotANumber`` with its first value that is none."""
    if series.dtype.kind in REAL_KINDS:
        floats: Array = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return floats
    return floats_of(series.to_numpy(dtype=object))


def refuse_unstored_zeros(block: Block, frame: Any, called: str) -> None:
    """A ``DataError`` where a sparse column leaves zeros out: they may mean missing entries.

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
