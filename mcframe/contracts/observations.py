"""Observations that are known to lie between two limits, as arrays with one element for each.

An array of floats has the values of observations that are known exactly. An array of the dtype
``INTERVALS`` has two numbers for each element, ``y["lower"]`` and ``y["upper"]``: equal ones are
an exact value, and an infinite one is no limit. Whatever takes some of the entries, or another
order of them, treats both kinds of arrays alike; whatever computes with the numbers asks here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array, Mask

__all__ = [
    "INTERVALS",
    "between",
    "ends_of",
    "is_interval",
    "mapped",
    "nearest_to",
    "points_of",
    "ranges_of_observations",
    "sizes_of",
]

#: The dtype of observations that may be intervals.
INTERVALS = np.dtype([("lower", np.float64), ("upper", np.float64)])


def between(lower: Array, upper: Array) -> Array:
    """Return the observations with these limits, of the dtype ``INTERVALS``."""
    observations: Any = np.empty(np.shape(lower), dtype=INTERVALS)
    observations["lower"], observations["upper"] = lower, upper
    both: Array = observations
    return both


def ends_of(y: Array) -> tuple[Array, Array]:
    """Return the lower and the upper limit of observations; of exact ones both are the value."""
    fields: Any = y
    return (y, y) if y.dtype.names is None else (fields["lower"], fields["upper"])


def is_interval(y: Array) -> Mask:
    """Return True where an observation is not known exactly."""
    lower, upper = ends_of(y)
    return lower < upper


def ranges_of_observations(y: Array) -> tuple[Array, Array]:
    """Return the least and the largest number that is known of each observation, both finite."""
    lower, upper = ends_of(y)
    return np.where(np.isinf(lower), upper, lower), np.where(np.isinf(upper), lower, upper)


def points_of(y: Array) -> Array:
    """Return one number within the limits of each observation: the value, if it is known.

    The middle of two finite limits, else the finite one.
    """
    if y.dtype.names is None:
        return y
    least, largest = ranges_of_observations(y)
    return np.asarray(np.where(least == largest, least, least + 0.5 * (largest - least)))


def sizes_of(y: Array) -> Array:
    """Return the size of the largest number that is known of each observation."""
    if y.dtype.names is None:
        return np.abs(y)
    least, largest = ranges_of_observations(y)
    return np.maximum(np.abs(least), np.abs(largest))


def nearest_to(y: Array, numbers: Array) -> Array:
    """Return the number within the limits of each observation that is nearest to another one."""
    lower, upper = ends_of(y)
    return np.clip(numbers, lower, upper)


def mapped(y: Array, function: Callable[[Array], Array]) -> Array:
    """Return observations whose values, or both limits, are those that a function returns.

    The function increases in each number.
    """
    return function(y) if y.dtype.names is None else between(*map(function, ends_of(y)))
