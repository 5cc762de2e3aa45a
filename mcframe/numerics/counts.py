"""Quantiles of counts, and draws of Poisson counts of any mean."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array

# Doubling ends here, where a mean is infinite.
LARGEST = 1e307
# Poisson counts of larger means are normal to within a rounding; NumPy draws none above 9e18.
NORMAL = 1e15


def least_count(cdf: Callable[[Array], Array], near: Array, probability: Array) -> Array:
    """The least count k with cdf(k) >= probability, for a cdf that is 0 below 0.

    ``near`` is the real solution of cdf(near) = probability by SciPy, whose solvers give up far
    out. Where it is none, or is not there, doubling and bisection find the count, as exactly as
    floats tell counts apart.
    """
    count = np.maximum(np.ceil(np.nan_to_num(near)), 0.0)
    if np.all((cdf(count) >= probability) & (cdf(count - 1.0) < probability)):
        return count
    low, high = np.full_like(count, -1.0), np.ones_like(count)
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


def poisson_counts(mean: Array, rng: Any) -> Array:
    """Draws of Poisson counts with these means, which may be infinite."""
    counts: Array = rng.poisson(np.minimum(mean, NORMAL)).astype(np.float64)
    large = mean > NORMAL
    if np.any(large):
        with np.errstate(invalid="ignore"):
            normal = mean + np.sqrt(mean) * rng.standard_normal(np.shape(mean))
        counts = np.where(large, np.where(np.isinf(mean), np.inf, np.rint(normal)), counts)
    return counts
