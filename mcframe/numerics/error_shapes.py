"""The shape of errors in units of the deviation that is expected of them."""

import itertools
from functools import cache

import attrs
import numpy as np
from scipy.special import ndtri

from mcframe.contracts.arrays import Array
from mcframe.contracts.stored_classes import stored

# The skews and tails that are tried, and the fewest errors to which they are fitted.
SKEWS = tuple(np.linspace(-0.6, 0.6, 7).tolist())
TAILS = tuple(np.geomspace(0.4, 1.6, 11).round(3).tolist())
FEWEST_ERRORS = 40
# By how much a shape has to raise the log likelihood of errors: by 1 for each of its two numbers
# (Akaike, A new look at the statistical model identification, IEEE TAC 19, 1974).
LEAST_GAIN = 2.0
# More errors are compared by so many of their quantiles.
MOST_QUANTILES = 300
# Nodes for the moments of a shape, within so many deviations.
NODES, NODE_RANGE = 400, 8.0


@stored
@attrs.frozen
class ErrorShape:
    """A distribution with the mean 0 and the variance 1, of a standard normal number x.

    ``(sinh((asinh(x) + skew) / tail) - m) / s``, m and s such that mean and variance are these
    (Jones and Pewsey, Sinh-arcsinh distributions, Biometrika 96, 2009). Tails are heavier than
    normal ones where ``tail`` is below 1, and lighter above. The default is the normal
    distribution.

    Attributes
    ----------
    skew, tail : float
    """

    skew: float = 0.0
    tail: float = 1.0

    @classmethod
    def of(cls, errors: Array, weights: Array | None = None) -> "ErrorShape | None":
        """The shape with the largest likelihood of errors (n,) in one unit, whichever it is.

        ``weights`` (n,) say how often each counts. None where there are few, or where it is not
        clearly likelier than the normal distribution.
        """
        weights = np.ones(errors.size) if weights is None else weights
        usable = np.isfinite(errors)
        errors, weights = errors[usable], weights[usable]
        largest = float(np.max(np.abs(errors), initial=0.0))
        if errors.size < FEWEST_ERRORS or largest == 0.0:
            return None
        errors = errors / largest
        root = np.sqrt(np.average(np.square(errors), weights=weights))
        if errors.size > MOST_QUANTILES:
            levels = (np.arange(MOST_QUANTILES) + 0.5) / MOST_QUANTILES
            errors = np.quantile(errors, levels, weights=weights, method="inverted_cdf")
            weights = np.full(MOST_QUANTILES, usable.sum() / MOST_QUANTILES)
        standard = errors / root
        candidates = [cls(skew, tail) for skew, tail in itertools.product(SKEWS, TAILS)]
        gains = [float(weights @ shape.log_ratios(standard)) for shape in candidates]
        best = int(np.argmax(gains))
        return candidates[best] if gains[best] > LEAST_GAIN else None

    @property
    def moments(self) -> tuple[float, float]:
        """m and s."""
        return moments_of_shape(self.skew, self.tail)

    @property
    def is_normal(self) -> bool:
        """True of the normal distribution."""
        return self.skew == 0.0 and self.tail == 1.0

    def apply(self, normal: Array) -> Array:
        """Numbers of this distribution from standard normal ones; their order stays."""
        if self.is_normal:
            return normal
        mean, sd = self.moments
        return np.asarray((np.sinh((np.arcsinh(normal) + self.skew) / self.tail) - mean) / sd)

    def invert(self, numbers: Array) -> Array:
        """The standard normal numbers from which ``apply`` makes these."""
        if self.is_normal:
            return numbers
        mean, sd = self.moments
        return np.asarray(np.sinh(self.tail * np.arcsinh(mean + sd * numbers) - self.skew))

    def quantile(self, levels: Array | float) -> Array:
        """The numbers that so large a share of the distribution lies below."""
        return self.apply(np.asarray(ndtri(levels)))

    def log_ratios(self, numbers: Array) -> Array:
        """The logarithm of the density at numbers over that of the normal distribution."""
        mean, sd = self.moments
        raw = mean + sd * numbers
        angle = self.tail * np.arcsinh(raw) - self.skew
        slope = self.tail * sd * np.cosh(angle) / np.hypot(1.0, raw)
        return np.asarray(
            np.log(slope) - 0.5 * np.square(np.sinh(angle)) + 0.5 * np.square(numbers)
        )


@cache
def moments_of_shape(skew: float, tail: float) -> tuple[float, float]:
    """Mean and standard deviation of ``sinh((asinh(x) + skew) / tail)`` of standard normal x."""
    points = np.linspace(-NODE_RANGE, NODE_RANGE, NODES)
    shares = np.exp(-0.5 * np.square(points))
    shares /= np.sum(shares)
    values = np.sinh((np.arcsinh(points) + skew) / tail)
    mean = float(shares @ values)
    return mean, float(np.sqrt(shares @ np.square(values - mean)))
