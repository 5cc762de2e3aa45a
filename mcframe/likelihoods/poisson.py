"""The likelihood of counts."""

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import numpy as np
from scipy.special import gammaln, pdtr, pdtrik, xlogy

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import (
    Conjugate,
    CountLoss,
    Distribution,
    ExpectedLogLikelihood,
    IntervalProbability,
    TwiceDifferentiable,
)
from mcframe.contracts.rounding import TINY
from mcframe.contracts.stored_classes import stored
from mcframe.likelihoods.gamma_intervals import PoissonIntervals

# Poisson counts of larger means are normal to within a rounding; NumPy draws none above 9e18.
NORMAL_MEAN = 1e15


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
    while np.any(short := (cdf(high) < probability) & (high < 1.0 / TINY)):
        high[short] *= 2.0
    while True:
        middle = np.floor(0.5 * (low + high))
        open_yet = (low < middle) & (middle < high)
        if not np.any(open_yet):
            return high
        reached = cdf(middle) >= probability
        high = np.where(open_yet & reached, middle, high)
        low = np.where(open_yet & ~reached, middle, low)


def poisson_counts(mean: Array, rng: np.random.Generator) -> Array:
    """Draws of Poisson counts with these means, which may be infinite."""
    counts: Array = rng.poisson(np.minimum(mean, NORMAL_MEAN)).astype(np.float64)
    large = mean > NORMAL_MEAN
    if np.any(large):
        with np.errstate(invalid="ignore"):
            normal = mean + np.sqrt(mean) * rng.standard_normal(np.shape(mean))
        counts = np.where(large, np.where(np.isinf(mean), np.inf, np.rint(normal)), counts)
    return counts


@stored
@attrs.frozen
class Poisson(
    CountLoss,
    Conjugate,
    TwiceDifferentiable,
    Distribution,
    ExpectedLogLikelihood,
    IntervalProbability,
):
    """``l(z, y) = exp(z) - y z``: the Poisson loss with the log link.

    Domain: counts 0, 1, 2, ...; the mean is exp(z). The negative log-likelihood without its
    constant ``log y!``, so that a loss may be negative. The curvature exp(z) is unbounded:
    backends with fixed steps refuse it, ``proximal`` finds its steps by backtracking.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Poisson().value(np.array([0.0]), np.array([3.0]))
    array([1.])
    """

    infimum = -np.inf  # over all counts; for one count y it is y - y log y
    bounded_below = True

    @property
    def of_interval(self) -> PoissonIntervals:
        """The loss by the incomplete gamma functions."""
        return PoissonIntervals()

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its gradient exp(z) - y."""
        rate = self.mean(z)
        return rate - y * z, rate - y

    def second_derivative(self, z: Array, y: Array) -> Array:
        """exp(z)."""
        return self.mean(z)

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """m log m - m with m = gradient + y >= 0, else inf."""
        rate = gradient + y
        inside = rate >= -1e-14 * np.maximum(1.0, y)
        rate = np.maximum(rate, 0.0)
        return np.where(inside, xlogy(rate, rate) - rate, np.inf)

    def nearest_gradient(self, gradient: Array, y: Array) -> Array:
        """At least -y."""
        return np.maximum(gradient, -y)

    def sample(self, z: Array, rng: np.random.Generator) -> Array:
        """A Poisson count with mean exp(z)."""
        return poisson_counts(self.mean(z), rng)

    def log_likelihood(self, z: Array, y: Array) -> Array:
        """-l(z, y) - log y!."""
        return -self.value(z, y) - gammaln(y + 1.0)

    def cdf(self, z: Array, y: Array) -> Array:
        """The sum of the masses up to y, by the incomplete gamma function."""
        return np.where(y >= 0.0, pdtr(np.maximum(np.floor(y), 0.0), self.mean(z)), 0.0)

    def quantile(self, z: Array, probability: Array) -> Array:
        """The least count whose distribution function reaches the probability."""
        return least_count(partial(self.cdf, z), pdtrik(probability, self.mean(z)), probability)

    def response_variance(self, z: Array) -> Array:
        """exp(z), as the mean."""
        return self.mean(z)

    def exponential_form(self, y: Array) -> tuple[Array, Array, float, Array]:
        """-log y! + y z - exp(z)."""
        return y.copy(), np.ones_like(y), 1.0, -gammaln(y + 1.0)

    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """exp(z) - y z."""
        return cp.exp(z) - cp.multiply(y, z)

    def formula(self, z: str, y: str) -> str:
        """exp(z) − y z."""
        return f"(exp({z}) − {y} ({z}))"
