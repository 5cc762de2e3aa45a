"""Mixtures of normal distributions between two limits."""

from collections.abc import Callable

import attrs
import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from mcframe.contracts.arrays import Array
from mcframe.contracts.limits import BISECTIONS
from mcframe.likelihoods.intervals import NormalIntervals

# Nodes of Gauss and Legendre over the probability of a truncated distribution, and their shares.
LEVELS, LEVEL_SHARES = np.polynomial.legendre.leggauss(40)
LEVELS, LEVEL_SHARES = 0.5 + 0.5 * LEVELS, 0.5 * LEVEL_SHARES


def log_masses(means: Array, sds: Array, lower: Array, upper: Array) -> Array:
    """The logarithm of P(lower < X < upper) of normal distributions; 0 without limits.

    The lower limit is below the upper one. All arrays have one shape.
    """
    normal = NormalIntervals(sds)
    limited = np.isfinite(lower) | np.isfinite(upper)
    inside = np.where(limited, lower, 0.0)  # a finite limit, where there is none
    logs = -normal.derivatives(means, inside, upper)[0]
    return np.asarray(np.where(limited, logs, 0.0))


def truncated_quantiles(level: Array | float, lower: Array, upper: Array) -> Array:
    """Quantiles of a standard normal variable that is known to lie between two limits.

    On the side of the origin on which the interval lies, so that far tails keep their digits.
    """
    mirrored = upper > -lower
    low, high = np.where(mirrored, -upper, lower), np.where(mirrored, -lower, upper)
    share = np.where(mirrored, 1.0 - np.asarray(level), level)
    with np.errstate(divide="ignore"):
        logs = np.logaddexp(np.log1p(-share) + log_ndtr(low), np.log(share) + log_ndtr(high))
    quantiles = np.clip(ndtri_exp(logs), low, high)
    return np.asarray(np.where(mirrored, -quantiles, quantiles))


@attrs.frozen(eq=False)
class TruncatedMixture:
    """N mixtures of C normal distributions, each known to lie between two limits.

    Attributes
    ----------
    weights, means, sds : arrays (C x N)
        Of the mixtures without limits.
    lower, upper : arrays (N,)
        Infinite where there is none; the lower one is below the upper one.
    """

    weights: Array
    means: Array
    sds: Array
    lower: Array
    upper: Array

    @property
    def log_masses(self) -> Array:
        """The log probability of the limits under each component (C x N)."""
        ends = (np.broadcast_to(end, self.means.shape) for end in (self.lower, self.upper))
        return log_masses(self.means, self.sds, *ends)

    @property
    def shares(self) -> Array:
        """The probabilities of the components given the limits (C x N)."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights) + self.log_masses
        return np.asarray(np.exp(logs - logsumexp(logs, axis=0)))

    def component_quantiles(self, level: Array | float) -> Array:
        """The quantiles of the components given the limits (C x N)."""
        ends = ((end - self.means) / self.sds for end in (self.lower, self.upper))
        quantiles = self.means + self.sds * truncated_quantiles(level, *ends)
        return np.clip(quantiles, self.lower, self.upper)

    def expected(self, function: Callable[[Array], Array]) -> Array:
        """The expectation of a function (..., N) -> (..., N) of the variables."""
        total, shares = np.zeros(self.lower.size), self.shares
        for level, share in zip(LEVELS, LEVEL_SHARES, strict=True):
            values = function(self.component_quantiles(float(level)))
            total = total + share * np.sum(shares * values, axis=0)
        return np.asarray(total)

    def cdf(self, y: Array) -> Array:
        """P(Y <= y) given the limits."""
        inside = np.broadcast_to(np.clip(y, self.lower, self.upper), self.means.shape)
        lower = np.broadcast_to(self.lower, self.means.shape)
        above = inside > lower
        end = np.where(above, inside, np.nextafter(inside, np.inf))
        logs = log_masses(self.means, self.sds, lower, end) - self.log_masses
        below = np.where(above, np.minimum(np.exp(logs), 1.0), 0.0)
        probability = np.sum(self.shares * below, axis=0)
        return np.asarray(np.where(y >= self.upper, 1.0, probability))

    def quantile(self, level: Array | float) -> Array:
        """The quantiles at a level, one number or one each."""
        quantiles = self.component_quantiles(level)
        if len(quantiles) == 1:
            return np.asarray(quantiles[0])
        low, high = np.min(quantiles, axis=0), np.max(quantiles, axis=0)
        for _ in range(BISECTIONS):
            centre = low + 0.5 * (high - low)
            above = self.cdf(centre) >= level
            low, high = np.where(above, low, centre), np.where(above, centre, high)
        return np.asarray(high)
