"""The least count with a given probability: what both likelihoods of counts look for."""

from collections.abc import Callable

import numpy as np

from mcframe.contracts.arrays import Array

__all__ = ["least_count"]


def least_count(cdf: Callable[[Array], Array], near: Array, probability: Array) -> Array:
    """The least count k with cdf(k) >= probability.

    It is looked for around a real solution of cdf(near) = probability, which is off by its
    rounding alone, and NaN where the probability is below cdf(0).
    """
    found = np.maximum(np.ceil(np.nan_to_num(near)), 0.0)
    found = np.where((found > 0.0) & (cdf(found - 1.0) >= probability), found - 1.0, found)
    return np.where(cdf(found) >= probability, found, found + 1.0)
