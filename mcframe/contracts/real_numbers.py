"""Arrays of real numbers from what users have; nothing is guessed."""

import sys
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array

# Kinds of dtypes that are real numbers throughout: booleans, integers, floats.
REAL_KINDS = "buif"


class NotANumber(Exception):
    """A value that is no real number, such as text or a date, and its position in the array."""

    def __init__(self, position: tuple[int, ...], value: object) -> None:
        super().__init__(position, value)
        self.position = position
        self.value = plain(value)


def floats_of(given: Any) -> Array:
    """A float64 copy of anything that numpy reads as an array, NaN where it is masked or missing.

    Taken are booleans, integers and floats, and objects that are all real numbers or stand for
    a missing one. Text is no number, even where ``float`` would read it, and neither are dates,
    durations and complex numbers.

    Raises
    ------
    NotANumber
        With the first value that is none.
    TypeError, ValueError, OverflowError
        Where numpy reads no array.
    """
    array = np.asarray(given)
    hidden = np.ma.getmaskarray(given) if isinstance(given, np.ma.MaskedArray) else None
    if array.dtype.kind in REAL_KINDS:
        floats: Array = array.astype(np.float64)
    else:
        floats = np.full(array.shape, np.nan)
        for position, value in np.ndenumerate(array):
            if hidden is None or not hidden[position]:
                number = as_float(value)
                if number is None:
                    raise NotANumber(position, value)
                floats[position] = number
    if hidden is not None:
        floats[hidden] = np.nan
    return floats


def as_float(value: object) -> float | None:
    """A real number as a float, NaN for what stands for a missing one; None for all else."""
    if is_missing(value):
        return float("nan")
    # To numpy a duration is an integer, and a truth value no number.
    if isinstance(value, np.timedelta64) or not isinstance(value, Real | Decimal | np.bool_):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")  # type: ignore[operator]


def is_missing(value: object) -> bool:
    """Whether an object stands for a missing number: None, or pandas' NA and NaT."""
    pandas = sys.modules.get("pandas")
    return value is None or (pandas is not None and (value is pandas.NA or value is pandas.NaT))


def reads_as_number(value: object) -> bool:
    """Whether ``float`` would read a value: text such as "1.5" is then a number in disguise."""
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def plain(value: object) -> object:
    """A numpy scalar, or a tuple of such, as the Python object that it stands for."""
    if isinstance(value, tuple):
        return tuple(plain(part) for part in value)
    return value.item() if isinstance(value, np.generic) else value
