"""Real values by one of their quantiles."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import (
    Conjugate,
    Distribution,
    GaussianBound,
    Proximable,
    RealValueLoss,
)
from mcframe.contracts.rounding import LEAST_MODERATE, TINY
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import satisfies


@stored
@attrs.frozen
class Quantile(RealValueLoss, Proximable, Conjugate, Distribution, GaussianBound):
    """``l(z, y) = q max(y - z, 0) + (1 - q) max(z - y, 0)``: the pinball loss.

    Domain: every finite real number. Its best constant is the q-quantile of the data, so z
    estimates the q-quantile of each entry: ``predict`` answers a quantile, not a mean (Koenker
    and Bassett, Econometrica 1978). ``Quantile(0.5)`` is half the absolute loss, and estimates
    medians. There is a kink at z = y, so that the loss enters through its prox; the gradient
    reported there is 0.

    Parameters
    ----------
    q : float
        Strictly between 0 and 1: the share of the data that should lie below z.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Quantile(0.9).value(np.array([0.0, 3.0]), np.array([1.0, 1.0]))
    array([0.9, 0.2])
    """

    q: float = attrs.field(validator=satisfies(lambda q: 0.0 < q < 1.0, "0 < q < 1 is needed"))

    smooth = False
    predicts_mean = False
    curvature = np.inf  # at the kink

    def in_units(self, unit: float) -> "tuple[Quantile, float]":
        """The loss itself, and the factor unit."""
        return self, unit

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and the gradient -q below y, 1 - q above, 0 at y."""
        residual = z - y
        gradient = np.where(residual > 0.0, 1.0 - self.q, -self.q) * (residual != 0.0)
        return gradient * residual, gradient

    def prox(self, z: Array, y: Array, step: Array) -> Array:
        """z moved towards y, by step * q from below and step * (1 - q) from above; never past."""
        residual = z - y
        from_above = z - step * (1.0 - self.q)
        from_below = z + step * self.q
        outside = self.prox_gradient(z, y, step) == 1.0
        return np.where(outside, np.where(residual > 0.0, from_above, from_below), y)

    def prox_gradient(self, z: Array, y: Array, step: Array) -> Array:
        """0 where the prox is y, else 1."""
        residual = z - y
        reaches = (residual <= step * (1.0 - self.q)) & (residual >= -step * self.q)
        return np.where(reaches, 0.0, 1.0)

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """gradient * y for gradients in [-q, 1 - q], else inf."""
        inside = (gradient >= -self.q - 1e-14) & (gradient <= 1.0 - self.q + 1e-14)
        return np.where(inside, gradient * y, np.inf)

    def nearest_gradient(self, gradient: Array, y: Array) -> Array:
        """Clipped to [-q, 1 - q]."""
        return np.clip(gradient, -self.q, 1.0 - self.q)

    def sample(self, z: Array, rng: np.random.Generator) -> Array:
        """z minus an exponential variable of rate 1 - q with probability q, else plus one of q."""
        below = rng.random(np.shape(z)) < self.q
        size = rng.exponential(1.0, np.shape(z))
        return z + np.where(below, -size / (1.0 - self.q), size / self.q)

    def log_likelihood(self, z: Array, y: Array) -> Array:
        """-l(z, y) + log(q (1 - q)), of the asymmetric Laplace distribution.

        (Yu and Moyeed, Statistics and Probability Letters 2001.)
        """
        return -self.value(z, y) + np.log(self.q * (1.0 - self.q))

    def cdf(self, z: Array, y: Array) -> Array:
        """q exp(-(1 - q) (z - y)) below z, 1 - (1 - q) exp(-q (y - z)) above it."""
        left = self.q * np.exp(-(1.0 - self.q) * np.maximum(z - y, 0.0))
        right = (1.0 - self.q) * np.exp(-self.q * np.maximum(y - z, 0.0))
        return np.where(y < z, left, 1.0 - right)

    def quantile(self, z: Array, probability: Array) -> Array:
        """z + log(probability / q) / (1 - q) up to q, z - log((1 - probability) / (1 - q)) / q."""
        left = np.log(np.minimum(probability / self.q, 1.0)) / (1.0 - self.q)
        right = -np.log(np.minimum((1.0 - probability) / (1.0 - self.q), 1.0)) / self.q
        return z + np.where(probability < self.q, left, right)

    def response_variance(self, z: Array) -> Array:
        """(1 - 2 q + 2 q^2) / (q (1 - q))^2, about the mean z + (1 - 2 q) / (q (1 - q))."""
        spread = self.q * (1.0 - self.q)
        return np.full_like(z, (1.0 - 2.0 * spread) / spread**2)

    def gaussian_bound(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array, Array]:
        """The observation y + (2 q - 1) xi with precision 1 / (2 xi).

        xi^2 is (mean - y)^2 + variance. ``l = |r| / 2 + (1/2 - q) r`` and ``|r| <= r^2 / (2 xi) +
        xi / 2``, as of a scale mixture of Gaussians (Kozumi and Kobayashi, J. Statist. Comput.
        Simul. 2011). The constant is ``log(q (1 - q)) - q (1 - q) xi``.
        """
        xi = np.clip(np.hypot(mean - y, np.sqrt(variance)), LEAST_MODERATE, 1.0 / TINY)
        spread = self.q * (1.0 - self.q)
        return y + (2.0 * self.q - 1.0) * xi, 0.5 / xi, np.log(spread) - spread * xi

    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """maximum(q (y - z), (1 - q) (z - y))."""
        return cp.maximum(self.q * (y - z), (1.0 - self.q) * (z - y))

    def formula(self, z: str, y: str) -> str:
        """max(q (x − z), (1 − q)(z − x))."""
        return f"max({self.q:g} ({y} − ({z})), {1.0 - self.q:g} ({z} − {y}))"
