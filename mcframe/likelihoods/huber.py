"""Real values with outliers."""

from typing import Any

import attrs
import numpy as np
from scipy.special import erf, erfc, ndtr, ndtri

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import (
    Conjugate,
    Distribution,
    ExpectedDerivatives,
    GaussianBound,
    Proximable,
    RealValueLoss,
    TwiceDifferentiable,
)
from mcframe.contracts.rounding import LARGEST_MODERATE, LEAST_MODERATE, TINY
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import moderate


@stored
@attrs.frozen
class Huber(
    RealValueLoss,
    Conjugate,
    TwiceDifferentiable,
    Proximable,
    Distribution,
    GaussianBound,
    ExpectedDerivatives,
):
    """``l(z, y) = r^2 / 2`` for ``|r| <= delta``, else ``delta (|r| - delta / 2)``; r = z - y.

    Domain: every finite real number. The squared loss in the middle and the absolute loss in
    the tails, so the gradient of an outlier is at most delta (Huber, Ann. Math. Statist.
    1964). Half of CVXPY's ``huber``. The location z is predicted. ``exp(-l)`` over its integral
    is a density, Gaussian in the middle with the tails of a Laplace distribution.

    Parameters
    ----------
    delta : float, default 1
        Positive, from 1e-150 to 1e150; in the units of the data, about the size of an ordinary
        residual.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Huber(1.0).value(np.array([0.5, 3.0]), np.array([0.0, 0.0]))
    array([0.125, 2.5  ])
    """

    delta: float = attrs.field(default=1.0, validator=moderate)

    curvature = 1.0  # for small residuals

    def in_units(self, unit: float) -> "tuple[Huber, float] | None":
        """The loss with ``delta / unit``, times unit^2; None for a delta out of range."""
        delta = self.delta / unit
        if not LEAST_MODERATE <= delta <= LARGEST_MODERATE:
            return None
        return attrs.evolve(self, delta=delta), unit * unit

    @property
    def length_scale(self) -> float:
        """Delta: the curvature jumps from 1 to 0 there, whatever its size."""
        return self.delta

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its gradient, r clipped to [-delta, delta]."""
        residual = z - y
        gradient = np.clip(residual, -self.delta, self.delta)
        # One formula for both pieces: s (r - s / 2) with s the clipped residual.
        return gradient * (residual - 0.5 * gradient), gradient

    def second_derivative(self, z: Array, y: Array) -> Array:
        """1 in the middle, 0 in the tails."""
        return (np.abs(z - y) <= self.delta).astype(np.float64)

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """gradient * y + gradient^2 / 2 for |gradient| <= delta, else inf."""
        inside = np.abs(gradient) <= self.delta * (1.0 + 1e-14)
        return np.where(inside, gradient * (y + 0.5 * gradient), np.inf)

    def nearest_gradient(self, gradient: Array, y: Array) -> Array:
        """Clipped to [-delta, delta]."""
        return np.clip(gradient, -self.delta, self.delta)

    def prox(self, z: Array, y: Array, step: Array) -> Array:
        """z moved towards y by step * the gradient there, which is r / (1 + step) or delta."""
        residual = z - y
        return z - step * np.clip(residual / (1.0 + step), -self.delta, self.delta)

    def prox_gradient(self, z: Array, y: Array, step: Array) -> Array:
        """1 / (1 + step) where the prox is in the middle, 1 in the tails."""
        middle = np.abs(z - y) <= self.delta * (1.0 + step)
        return np.where(middle, 1.0 / (1.0 + step), 1.0)

    @property
    def core(self) -> float:
        """The integral of exp(-l) over |r| <= delta."""
        return float(np.sqrt(2.0 * np.pi) * erf(self.delta / np.sqrt(2.0)))

    @property
    def tail(self) -> float:
        """The integral of exp(-l) over r > delta."""
        return float(np.exp(-0.5 * self.delta**2) / self.delta)

    def sample(self, z: Array, rng: np.random.Generator) -> Array:
        """z plus a truncated normal variable, or delta and an exponential one on either side."""
        share = self.core / (self.core + 2.0 * self.tail)
        low = ndtr(-self.delta)
        inner = ndtri(low + (1.0 - 2.0 * low) * rng.random(np.shape(z)))
        outer = self.delta + rng.exponential(1.0 / self.delta, np.shape(z))
        outer *= rng.choice([-1.0, 1.0], np.shape(z))
        return z + np.where(rng.random(np.shape(z)) < share, inner, outer)

    def log_likelihood(self, z: Array, y: Array) -> Array:
        """-l(z, y) - log(sqrt(2 pi) (2 Phi(delta) - 1) + 2 exp(-delta^2 / 2) / delta)."""
        return -self.value(z, y) - np.log(self.core + 2.0 * self.tail)

    def cdf(self, z: Array, y: Array) -> Array:
        """The integral of the density up to y."""
        r, total = y - z, self.core + 2.0 * self.tail
        # The mass beyond |r|, so that what is small keeps its digits on either side.
        beyond = self.tail * np.exp(-self.delta * np.maximum(np.abs(r) - self.delta, 0.0))
        inner = np.minimum(np.abs(r), self.delta) / np.sqrt(2.0)
        between = np.sqrt(0.5 * np.pi) * (erfc(inner) - erfc(self.delta / np.sqrt(2.0)))
        least = (beyond + between) / total
        return np.where(r > 0.0, 1.0 - least, least)

    def quantile(self, z: Array, probability: Array) -> Array:
        """z plus the root of the distribution function, in closed form."""
        total = self.core + 2.0 * self.tail
        least = total * np.minimum(probability, 1.0 - probability)
        outer = self.delta + np.log(np.maximum(self.tail / least, 1.0)) / self.delta
        # Within delta a Gaussian of this distribution function has the same mass beyond.
        normal = np.maximum(least - self.tail, 0.0) / np.sqrt(2.0 * np.pi) + ndtr(-self.delta)
        inner = np.clip(-ndtri(normal), 0.0, self.delta)
        size = np.where(least < self.tail, outer, inner)
        return z + np.where(probability < 0.5, -size, size)

    def response_variance(self, z: Array) -> Array:
        """The second moment of the middle and of both tails."""
        d = self.delta
        middle = self.core - 2.0 * d * np.exp(-0.5 * d * d)
        total = self.core + 2.0 * self.tail
        outer = 2.0 * self.tail / total * (d * d + 2.0 + 2.0 / (d * d))
        return np.full_like(z, middle / total + outer)

    def gaussian_bound(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array, Array]:
        """The observation y with precision min(1, delta / xi), xi^2 = (mean - y)^2 + variance.

        l is concave in r^2, so that its tangent at xi^2 lies above it (Huber, Robust Statistics
        1981; as a scale mixture of Gaussians Palmer et al., NIPS 2005). The constant is ``-delta
        (xi - delta) / 2`` for xi > delta, plus that of the density.
        """
        xi = np.minimum(np.hypot(mean - y, np.sqrt(variance)), 1.0 / TINY)
        beyond = np.maximum(xi, self.delta)
        constant = -0.5 * self.delta * (beyond - self.delta) - np.log(self.core + 2.0 * self.tail)
        return y.copy(), self.delta / beyond, constant

    def expected_derivatives(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        """Minus the expected residual clipped to [-delta, delta], and P(|r| <= delta)."""
        residual, sd = mean - y, np.maximum(np.sqrt(variance), np.finfo(np.float64).tiny)
        with np.errstate(over="ignore"):
            low, high = (-self.delta - residual) / sd, (self.delta - residual) / sd
            densities = np.exp(-0.5 * np.square(high)) - np.exp(-0.5 * np.square(low))
        below, above = ndtr(low), ndtr(-high)
        # The mass between, by the side on which both ends lie, so that it keeps its digits.
        middle = np.where(low > 0.0, ndtr(-low) - above, ndtr(high) - below)
        clipped = residual * middle - sd * densities / np.sqrt(2.0 * np.pi)
        return -(clipped + self.delta * (above - below)), np.maximum(middle, 0.0)

    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """huber(z - y, delta) / 2."""
        return 0.5 * cp.huber(z - y, self.delta)

    def formula(self, z: str, y: str) -> str:
        """huber(z − x; delta)."""
        return f"huber({z} − {y}; {self.delta:g})"
