"""Likelihoods by the values that they observe: what all those of real values, or labels, share."""

import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.likelihood import Likelihood

#: What to do with words where labels 0 and 1 are needed.
WORDS_AS_LABELS = (
    "column.map({'no': 0.0, 'yes': 1.0}) makes labels of two words, and NaN, which is missing, of"
    " all else"
)


class RealValueLoss(Likelihood):
    """A loss of finite real numbers that depends on z - y alone, and is 0 at z = y."""

    needs = "finite real numbers"
    remedy = "Replace infinities by NaN if they stand for missing values."
    symbol = "x"
    location = True
    infimum = 0.0

    def invalid(self, y: Array) -> Mask:
        """True where y is not finite."""
        return ~np.isfinite(y)

    def mean(self, z: Array) -> Array:
        """z."""
        return z.copy()

    def start(self, y: Array) -> Array:
        """y."""
        return y.copy()


class LabelLoss(Likelihood):
    """A loss of labels 0 and 1 that is never negative."""

    needs = "labels 0 or 1"
    remedy = "Recode the labels as 0 and 1, and mark a missing label as NaN."
    words = WORDS_AS_LABELS
    infimum = 0.0

    def invalid(self, y: Array) -> Mask:
        """True where y is neither 0 nor 1."""
        return (y != 0.0) & (y != 1.0)


class CountLoss(Likelihood):
    """A loss of counts with the log link, whose curvature has no bound over all counts."""

    z_name = "the log of the mean"
    needs = "counts 0, 1, 2, ..."
    remedy = "Round to whole counts, and mark a missing count as NaN."
    curvature = np.inf

    def invalid(self, y: Array) -> Mask:
        """True where y is negative, not whole or not finite."""
        return ~np.isfinite(y) | (y < 0.0) | (y != np.floor(y))

    def mean(self, z: Array) -> Array:
        """exp(z)."""
        with np.errstate(over="ignore"):
            return np.exp(z)

    def start(self, y: Array) -> Array:
        """log(y + 1/2), also defined for a count of 0."""
        return np.log(y + 0.5)
