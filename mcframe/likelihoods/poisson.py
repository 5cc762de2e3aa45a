"""The likelihood of counts."""

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
    TwiceDifferentiable,
)
from mcframe.numerics.counts import least_count, poisson_counts


@attrs.frozen
class Poisson(CountLoss, Conjugate, TwiceDifferentiable, Distribution, ExpectedLogLikelihood):
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

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its gradient exp(z) - y."""
        with np.errstate(over="ignore"):
            rate = np.exp(z)
        return rate - y * z, rate - y

    def second_derivative(self, z: Array, y: Array) -> Array:
        """exp(z)."""
        with np.errstate(over="ignore"):
            return np.exp(z)

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """m log m - m with m = gradient + y >= 0, else inf."""
        rate = gradient + y
        inside = rate >= -1e-14 * np.maximum(1.0, y)
        rate = np.maximum(rate, 0.0)
        return np.where(inside, xlogy(rate, rate) - rate, np.inf)

    def sample(self, z: Array, rng: Any) -> Array:
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
