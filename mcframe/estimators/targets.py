"""Labels as scikit-learn takes them, as codes with NaN where they are missing, and back."""

from typing import Any

import attrs
import numpy as np
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError

__all__ = ["Labels", "read_labels", "read_numbers"]


@attrs.frozen(eq=False)
class Labels:
    """Codes of labels (n_samples x n_outputs), and the classes that they stand for.

    ``classes`` are those of one output; of several outputs, 0 and 1 each, they are [0, 1].
    """

    codes: Array
    classes: Any
    several: bool


def read_labels(y: Any) -> Labels:
    """The labels of each sample: one of any kind, or 0/1 for each of several outputs.

    NaN and None are missing.
    """
    if y is None:
        raise DataError("requires y to be passed, but the target y is None")
    given = np.asarray(y)
    if given.ndim == 2 and given.shape[1] > 1:
        numbers = read_numbers(y)
        wrong = ~(np.isnan(numbers) | (numbers == 0.0) | (numbers == 1.0))
        if wrong.any():
            raise DataError(
                f"Unknown label type: y of several columns holds {numbers[wrong][0]:g}; each is a"
                " label, 0 or 1, or NaN where it is missing"
            )
        return Labels(numbers, np.array([0, 1]), several=True)
    single = column_or_1d(y, warn=True, dtype=given.dtype)
    missing = is_missing(single)
    if single.dtype.kind == "f" and np.isinf(single[~missing]).any():
        raise DataError("Input y contains infinity or a value too large for dtype('float64').")
    known = single[~missing]
    if not known.size:
        raise DataError("y holds nothing but missing values; at least one label is needed")
    if known.dtype.kind == "O":
        known = np.asarray(known.tolist())
    check_classification_targets(known)
    classes, places = np.unique(known, return_inverse=True)
    codes = np.full((single.size, 1), np.nan)
    codes[~missing, 0] = places
    return Labels(codes, classes, several=False)


def is_missing(values: Any) -> Any:
    """Which of some values are NaN or None."""
    if values.dtype.kind in "biuSU":
        return np.zeros(values.shape, dtype=bool)
    if values.dtype.kind == "f":
        return np.isnan(values)
    return np.asarray([value is None or value != value for value in values], dtype=bool)


def read_numbers(y: Any) -> Array:
    """Numbers of one output (n_samples,) or several (n_samples x n_outputs), NaN where missing."""
    if y is None:
        raise DataError("requires y to be passed, but the target y is None")
    numbers: Array = check_array(
        y,
        dtype=np.float64,
        ensure_2d=False,
        ensure_all_finite="allow-nan",
        input_name="y",
        copy=True,
    )
    return numbers
