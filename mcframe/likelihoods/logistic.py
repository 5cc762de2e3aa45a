"""Real values with logistic noise."""

from typing import Any

import attrs
import numpy as np
from scipy.special import expit, logit, xlog1py

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import (
    Conjugate,
    Distribution,
    ExpectedDerivatives,
    GaussianBound,
    IntervalProbability,
    LogisticTerms,
    RealValueLoss,
    TwiceDifferentiable,
)
from mcframe.contracts.rounding import LARGEST_MODERATE, LEAST_MODERATE
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import moderate
from mcframe.likelihoods.cumulative import logistic_parts
from mcframe.likelihoods.intervals import LogisticIntervals
from mcframe.numerics.gaussian_bounds import expected_logistic, logistic_bound


@stored
@attrs.frozen
class Logistic(
    RealValueLoss,
    Conjugate,
    TwiceDifferentiable,
    Distribution,
    GaussianBound,
    ExpectedDerivatives,
    IntervalProbability,
    LogisticTerms,
):
    """``l(z, y) = 2 log cosh(u / 2)``, u = (z - y) / scale: noise of a logistic distribution.

    Domain: every finite real number. Link: identity, the mean is z. The negative log-likelihood of
    the logistic distribution without ``log(4 scale)``. It is quadratic near 0 and linear in the
    tails, as ``Huber`` is, with derivatives of all orders; the standard deviation of the noise is
    ``pi scale / sqrt(3)``. With ``Censored`` its losses of intervals are exact in CVXPY.

    Parameters
    ----------
    scale : float, default 1
        Positive, from 1e-150 to 1e150; in the units of the data.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Logistic().value(np.array([0.0, 100.0]), np.array([0.0, 0.0])).round(3)
    array([ 0.   , 98.614])
    """

    scale: float = attrs.field(default=1.0, validator=moderate)

    @property
    def curvature(self) -> float:
        """1 / (2 scale^2), where z = y."""
        return 0.5 / self.scale**2

    @property
    def of_interval(self) -> LogisticIntervals:
        """A sum of two logistic losses."""
        return LogisticIntervals(self.scale)

    def in_unit(self, unit: float) -> "Logistic | None":
        """The loss with ``scale / unit``; None for a scale out of range."""
        scale = self.scale / unit
        return Logistic(scale) if LEAST_MODERATE <= scale <= LARGEST_MODERATE else None

    def in_units(self, unit: float) -> "tuple[Logistic, float] | None":
        """``in_unit``, and the factor 1."""
        converted = self.in_unit(unit)
        return None if converted is None else (converted, 1.0)

    def value(self, z: Array, y: Array) -> Array:
        """2 log cosh(u / 2), without an exponential that overflows."""
        u = np.abs(z - y) / self.scale
        return u + 2.0 * np.log1p(np.exp(-u)) - np.log(4.0)

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its gradient tanh(u / 2) / scale."""
        return self.value(z, y), np.tanh(0.5 * (z - y) / self.scale) / self.scale

    def second_derivative(self, z: Array, y: Array) -> Array:
        """1 / (2 scale^2 cosh(u / 2)^2)."""
        return 2.0 * logistic_parts((z - y) / self.scale)[2] / self.scale**2

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """g y + (1 + t) log(1 + t) + (1 - t) log(1 - t) with t = scale g in [-1, 1], else inf."""
        t = self.scale * gradient
        inside = np.abs(t) <= 1.0 + 1e-14
        t = np.clip(t, -1.0, 1.0)
        entropy = xlog1py(1.0 + t, t) + xlog1py(1.0 - t, -t)
        return np.where(inside, gradient * y + entropy, np.inf)

    def nearest_gradient(self, gradient: Array, y: Array) -> Array:
        """Clipped to 1 / scale in size."""
        return np.clip(gradient, -1.0 / self.scale, 1.0 / self.scale)

    def sample(self, z: Array, rng: np.random.Generator) -> Array:
        """z plus a logistic variable."""
        return rng.logistic(z, self.scale)

    def log_likelihood(self, z: Array, y: Array) -> Array:
        """-l(z, y) - log(4 scale)."""
        return -self.value(z, y) - np.log(4.0 * self.scale)

    def cdf(self, z: Array, y: Array) -> Array:
        """1 / (1 + exp(-(y - z) / scale))."""
        return np.asarray(expit((y - z) / self.scale))

    def quantile(self, z: Array, probability: Array) -> Array:
        """Z + scale log(p / (1 - p))."""
        return np.asarray(z + self.scale * logit(probability))

    def response_variance(self, z: Array) -> Array:
        """pi^2 scale^2 / 3."""
        return np.full_like(z, (np.pi * self.scale) ** 2 / 3.0)

    def gaussian_bound(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array, Array]:
        """The observation y with the precision tanh(xi / 2) / (xi scale^2).

        Of Jaakkola and Jordan (2000), xi^2 = ((mean - y)^2 + variance) / scale^2.
        """
        one = np.ones_like(mean)
        distance = np.clip(mean / self.scale - y / self.scale, -LARGEST_MODERATE, LARGEST_MODERATE)
        spread = np.minimum(np.sqrt(variance) / self.scale, LARGEST_MODERATE)
        _, precision, constant = logistic_bound(distance, np.square(spread), one, one)
        return y.copy(), precision / self.scale**2, constant - np.log(self.scale)

    def expected_derivatives(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        """(1 - 2 E s(u)) / scale and 2 E s'(u) / scale^2, s(u) = 1 / (1 + exp(-u))."""
        first, second = expected_logistic((mean - y) / self.scale, variance / self.scale**2)
        return (1.0 - 2.0 * first) / self.scale, 2.0 * second / self.scale**2

    def logistic_terms(self, y: Array) -> tuple[Array, Array, Array, Array]:
        """Two terms at y, of the factors 1 / scale and -1 / scale."""
        return self.of_interval.logistic_terms(y, y)

    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """logistic(u) + logistic(-u) - 2 log 2."""
        u = (z - y) / self.scale
        return cp.logistic(u) + cp.logistic(-u) - np.log(4.0)

    def formula(self, z: str, y: str) -> str:
        """2 log cosh((z − x)/(2 scale))."""
        divisor = "2" if self.scale == 1.0 else f"(2·{self.scale:g})"
        return f"2 log cosh(({z} − {y})/{divisor})"
