"""What reading data refuses, in words: values that are no numbers."""

from typing import Any

import numpy as np

from mcframe.contracts.errors import DataError
from mcframe.contracts.real_numbers import NotANumber, as_float, reads_as_number
from mcframe.model.block import Block

__all__ = ["not_a_number"]

ALL_READ = (
    "Its text reads as numbers: convert it by pandas.to_numeric(column), or by array.astype(float)"
)
SOME_READ = (
    "Some of its text reads as numbers: pandas.to_numeric(column, errors='coerce') converts"
    " that, and makes NaN of all else"
)


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
