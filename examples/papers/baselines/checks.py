"""What the baselines take: matrices of finite numbers, NaN where one is missing."""

from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError

__all__ = ["checked_features", "checked_labels"]


def checked_features(features: Any, what: str = "features") -> Array:
    """A float matrix of finite numbers and NaN, or a ``DataError``; ``what`` is its name there."""
    try:
        table = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"{what} of type {type(features).__name__} were given; a matrix of numbers is"
            " needed, with NaN where a value is missing"
        ) from None
    if table.ndim != 2 or 0 in table.shape:
        raise DataError(
            f"{what} of shape {table.shape} were given; a matrix with rows and columns is needed"
        )
    if np.isinf(table).any():
        row, column = np.argwhere(np.isinf(table))[0]
        raise DataError(
            f"{what} hold an infinite value in row {row}, column {column}; replace it by NaN"
            " if it is missing"
        )
    return table


def checked_labels(labels: Any, n_items: int) -> Array:
    """A float matrix of 0, 1 and NaN with ``n_items`` rows, or a ``DataError``."""
    table = checked_features(labels)
    wrong = ~np.isnan(table) & (table != 0.0) & (table != 1.0)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise DataError(
            f"label {table[row, column]:g} in row {row}, column {column}; recode the labels as 0"
            " and 1, with NaN where one is missing"
        )
    if len(table) != n_items:
        raise DataError(
            f"labels of {len(table)} items were given for {n_items} rows of features; both need"
            " the same items, in the same order"
        )
    return table
