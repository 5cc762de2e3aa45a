"""Real values with Gaussian noise."""

from typing import Any

import attrs
import numpy as np
from scipy.special import ndtr, ndtri

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import (
    Conjugate,
    Distribution,
    GaussianBound,
    GaussianNoise,
    IntervalProbability,
    LinearDifference,
    Proximable,
    RealValueLoss,
    TwiceDifferentiable,
)
from mcframe.contracts.rounding import LARGEST_MODERATE, LEAST_MODERATE
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import takes, with_finite_square
from mcframe.contracts.wording import wording
from mcframe.likelihoods.intervals import NormalIntervals


@stored
@attrs.frozen
class Gaussian(
    RealValueLoss,
    Conjugate,
    TwiceDifferentiable,
    Proximable,
    Distribution,
    GaussianBound,
    GaussianNoise,
    IntervalProbability,
    LinearDifference,
):
    """``l(z, y) = (z - y)^2 / (2 variance)``: the squared loss.

    Domain: every finite real number. Link: identity, the mean is z. The negative
    log-likelihood of N(z, variance) without its constant ``log(2 pi variance) / 2``.

    Parameters
    ----------
    variance : float or None, default 1
        Positive, from 1e-150 to 1e150. The noise variance. It divides the loss, so
        ``1 / variance`` acts like a block's weight. None declares one variance for each column
        that ``mc.posterior`` learns. ``mc.fit`` needs a number, since a growing variance would
        lower the loss without limit.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Gaussian().value(np.array([1.0]), np.array([3.0]))
    array([2.])
    """

    variance: float | None = attrs.field(
        default=1.0, validator=takes(with_finite_square, optional=True)
    )

    quadratic = True

    @property
    def why_no_optimum(self) -> str | None:  # type: ignore[override]
        """The variance, where it is to be learned."""
        if self.variance is not None:
            return None
        verb = wording().either(python="mc.posterior", command="--method posterior")
        return (
            f"{wording().value(self)} learns its variance, which {verb} does; an optimum"
            f" needs a number, such as {wording().value(Gaussian(variance=1.0))}"
        )

    @property
    def known_variance(self) -> float:
        """The variance, or a ``ModelError`` where it is still to be learned."""
        if self.variance is None:
            raise ModelError(self.why_no_optimum)
        return self.variance

    def in_units(self, unit: float) -> "tuple[Gaussian, float]":
        """The loss itself, and the factor unit^2."""
        return self, unit * unit

    @property
    def of_interval(self) -> NormalIntervals:
        """The loss by the distribution function of N(z, variance)."""
        return NormalIntervals(float(np.sqrt(self.known_variance)))

    def in_unit(self, unit: float) -> "Gaussian | None":
        """The loss with ``variance / unit^2``; None for a variance out of range."""
        variance = self.known_variance / unit / unit
        return Gaussian(variance) if LEAST_MODERATE <= variance <= LARGEST_MODERATE else None

    @property
    def curvature(self) -> float:
        """1 / variance, everywhere; a ``ModelError`` where that is still to be learned."""
        return 1.0 / self.known_variance

    def value(self, z: Array, y: Array) -> Array:
        """(z - y)^2 / (2 variance)."""
        return np.square(z - y) / (2.0 * self.known_variance)

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its gradient (z - y) / variance."""
        residual, variance = z - y, self.known_variance
        gradient = residual / variance if variance != 1.0 else residual
        return 0.5 * residual * gradient, gradient

    def second_derivative(self, z: Array, y: Array) -> Array:
        """1 / variance."""
        return np.full_like(z, 1.0 / self.known_variance)

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """gradient * y + variance * gradient^2 / 2, for every gradient."""
        return gradient * (y + 0.5 * self.known_variance * gradient)

    def prox(self, z: Array, y: Array, step: Array) -> Array:
        """The mean of z and y with the weights 1 and step / variance."""
        return z + (y - z) * (step / (self.known_variance + step))

    def prox_gradient(self, z: Array, y: Array, step: Array) -> Array:
        """variance / (variance + step)."""
        return self.known_variance / (self.known_variance + step)

    @property
    def label_difference(self) -> tuple[float, float]:
        """(1 - 2 z) / (2 variance)."""
        return -1.0 / self.known_variance, 0.5 / self.known_variance

    def sample(self, z: Array, rng: np.random.Generator) -> Array:
        """A draw of N(z, variance)."""
        return rng.normal(z, np.sqrt(self.known_variance))

    def log_likelihood(self, z: Array, y: Array) -> Array:
        """-l(z, y) - log(2 pi variance) / 2."""
        return -self.value(z, y) - 0.5 * np.log(2.0 * np.pi * self.known_variance)

    def cdf(self, z: Array, y: Array) -> Array:
        """Phi((y - z) / sqrt(variance))."""
        return np.asarray(ndtr((y - z) / np.sqrt(self.known_variance)))

    def quantile(self, z: Array, probability: Array) -> Array:
        """z + sqrt(variance) Phi^-1(probability)."""
        return np.asarray(z + np.sqrt(self.known_variance) * ndtri(probability))

    def response_variance(self, z: Array) -> Array:
        """The declared variance."""
        return np.full_like(z, self.known_variance)

    def gaussian_bound(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array, Array]:
        """The log likelihood itself: y, 1 / variance and -log(2 pi variance) / 2."""
        constant = -0.5 * np.log(2.0 * np.pi * self.known_variance)
        return y.copy(), np.full_like(y, 1.0 / self.known_variance), np.full_like(y, constant)

    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """square(z - y) / (2 variance)."""
        return cp.square(z - y) / (2.0 * self.known_variance)

    def formula(self, z: str, y: str) -> str:
        """(z − x)²/2, with the variance, or ((z − x)²/(2 σ_j²) + log σ_j) where it is learned."""
        if self.variance is None:
            return f"(({z} − {y})²/(2 σ_j²) + log σ_j)"
        divisor = "2" if self.variance == 1.0 else f"(2·{self.variance:g})"
        return f"({z} − {y})²/{divisor}"
