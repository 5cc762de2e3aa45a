"""The least count with a given probability, for the quantiles of likelihoods of counts."""

from collections.abc import Callable

import numpy as np

from mcframe.contracts.arrays import Array

__all__ = ["least_count"]

# Doubling ends here, where a mean is infinite.
LARGEST = 1e307


def least_count(cdf: Callable[[Array], Array], near: Array, probability: Array) -> Array:
    """The least count k with cdf(k) >= probability, for a cdf that is 0 below 0.

    ``near`` is the real solution of cdf(near) = probability by SciPy, whose solvers give up far
    out. Where it is none, or is not there, doubling and bisection find the count, as exactly as
    floats tell counts apart.
    """
    found = np.maximum(np.ceil(np.nan_to_num(near)), 0.0)
    if np.all((cdf(found) >= probability) & (cdf(found - 1.0) < probability)):
        return found
    low, high = np.full_like(found, -1.0), np.ones_like(found)
    while np.any(short := (cdf(high) < probability) & (high < LARGEST)):
        high[short] *= 2.0
    while True:
        middle = np.floor(0.5 * (low + high))
        open_yet = (low < middle) & (middle < high)
        if not np.any(open_yet):
            return high
        reached = cdf(middle) >= probability
        high = np.where(open_yet & reached, middle, high)
        low = np.where(open_yet & ~reached, middle, low)
