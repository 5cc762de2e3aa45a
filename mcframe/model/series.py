"""Columns of frames of pandas, polars and pyarrow, through narwhals."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import DataError
from mcframe.contracts.real_numbers import REAL_KINDS, floats_of

nw = Deferred("narwhals", "reading columns of frames")


def is_frame(given: Any) -> bool:
    """Return True for a table with named columns, in memory or not."""
    try:
        table = nw.from_native(given, pass_through=True)
    except nw.exceptions.DuplicateError:
        return True
    return isinstance(table, nw.DataFrame | nw.LazyFrame)


def is_series(given: Any) -> bool:
    """Return True for a Series of narwhals."""
    return isinstance(given, nw.Series)


def columns_of_frame(frame: Any, names: Sequence[Any], what: str) -> tuple[str, list[Any]]:
    """Return the name of a frame's library, and some of its columns as Series of narwhals.

    Raises
    ------
    DataError
        Where it is no frame, not in memory, has not one of the columns, or one of its own twice.
    """
    try:
        table = nw.from_native(frame, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"{what}: a column name stands twice in the frame: {error}") from None
    if isinstance(table, nw.LazyFrame):
        raise DataError(f"{what}: the frame is lazy; give frame.collect()")
    if not isinstance(table, nw.DataFrame):
        raise DataError(
            f"{what}: a {type(frame).__name__} was given where a DataFrame of pandas or polars or"
            " a table of pyarrow is needed"
        )
    there = list(table.columns)
    for name in names:
        if not isinstance(name, Hashable):
            raise DataError(
                f"{what}: a {type(name).__name__} was given for a column of the frame; give its"
                " name"
            )
        if name not in there:
            shown = ", ".join(map(repr, there))
            raise DataError(f"{what}: column {name!r} is not there; the columns are {shown}")
    return table.implementation.value, [table.get_column(name) for name in names]


def series_of(given: Any) -> Any:
    """Return a Series of narwhals for one of a library that it knows; all else as it is."""
    return nw.from_native(given, pass_through=True, allow_series=True)


def numbers_of_column(given: Any) -> Array:
    """Return a column or a sequence of numbers as float64, NaN where one is missing.

    Raises
    ------
    NotANumber
        With the first value that is none.
    """
    if is_series(given):
        if given.dtype.is_numeric() or given.dtype == nw.Boolean:
            try:
                return np.asarray(given.cast(nw.Float64).to_numpy(), dtype=np.float64)
            except ValueError:  # pyarrow rounds no whole numbers beyond 2**53
                pass
        given = given.to_list()
    try:
        array = given if isinstance(given, np.ndarray) else np.asarray(given)
    except (ValueError, OverflowError):  # lists among the numbers
        array = np.zeros((1, 1))
    if array.ndim != 1 or (array is not given and array.dtype.kind not in REAL_KINDS):
        array = np.fromiter(given, dtype=object, count=len(given))  # else 1 beside "a" is text
    return floats_of(array)


def frame_of(columns: dict[str, Any], library: str) -> Any:
    """Return a frame of a library, with these columns."""
    return nw.from_dict(columns, backend=library).to_native()
