"""Positive values whose spread grows with their mean."""

from typing import Any

import attrs
import numpy as np
from scipy.special import gammainc, gammaincinv, gammaln, xlogy

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.likelihood import (
    Conjugate,
    Distribution,
    ExpectedLogLikelihood,
    IntervalProbability,
    Likelihood,
    TwiceDifferentiable,
    ValueKind,
)
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import moderate
from mcframe.likelihoods.gamma_intervals import GammaIntervals


@stored
@attrs.frozen
class Gamma(
    Likelihood,
    Conjugate,
    TwiceDifferentiable,
    Distribution,
    ExpectedLogLikelihood,
    IntervalProbability,
):
    """``l(z, y) = shape (z + y exp(-z))``: positive values with the log link.

    Domain: y > 0; the mean is exp(z) and the standard deviation ``exp(z) / sqrt(shape)``. The
    negative log-likelihood of the gamma distribution (McCullagh and Nelder, Generalized Linear
    Models, 1989, chapter 8) without ``log Gamma(shape) - shape log shape - (shape - 1) log y``,
    so a loss may be negative. The curvature shape y exp(-z) is unbounded: backends with fixed
    steps cannot run it, ``proximal`` finds its steps by backtracking.

    Parameters
    ----------
    shape : float, default 1
        Positive, from 1e-150 to 1e150. 1 / shape is the squared coefficient of variation;
        shape = 1 is ``Exponential``. It multiplies the loss, like a block's weight.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Gamma(shape=2.0).value(np.array([0.0]), np.array([3.0]))
    array([6.])
    """

    shape: float = attrs.field(default=1.0, validator=moderate)

    kind = ValueKind.NONNEGATIVE
    z_name = "the log of the mean"
    needs = "positive numbers"
    remedy = (
        "Mark a missing value as NaN; a 0 that stands for too little to measure takes half of"
        " the least that can be measured."
    )
    symbol = "x"
    curvature = np.inf  # shape y exp(-z) has no bound
    infimum = -np.inf  # over all y; for one y it is shape (1 + log y)
    bounded_below = True

    @property
    def of_interval(self) -> GammaIntervals:
        """The loss by the incomplete gamma functions."""
        return GammaIntervals(self.shape)

    def invalid(self, y: Array) -> Mask:
        """True where y is not positive or not finite."""
        return ~np.isfinite(y) | (y <= 0.0)

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its gradient shape (1 - y exp(-z))."""
        bend = self.second_derivative(z, y)
        return self.shape * z + bend, self.shape - bend

    def second_derivative(self, z: Array, y: Array) -> Array:
        """shape y exp(-z)."""
        with np.errstate(over="ignore"):
            return self.shape * y * np.exp(-z)

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """q log(q / (shape y)) - q with q = shape - gradient >= 0, else inf.

        The domain holds 0, where it is minus the minimum of the loss.
        """
        q = self.shape - gradient
        inside = q >= -1e-14 * self.shape
        q = np.maximum(q, 0.0)
        return np.where(inside, xlogy(q, q / self.shape) - q * (1.0 + np.log(y)), np.inf)

    def nearest_gradient(self, gradient: Array, y: Array) -> Array:
        """At most the shape."""
        return np.minimum(gradient, self.shape)

    def mean(self, z: Array) -> Array:
        """exp(z)."""
        with np.errstate(over="ignore"):
            return np.exp(z)

    def start(self, y: Array) -> Array:
        """Return log y, the predictor of mean y."""
        return np.log(y)

    def sample(self, z: Array, rng: np.random.Generator) -> Array:
        """A draw with mean exp(z); one that underflows is the least positive float."""
        draw = rng.gamma(self.shape, self.mean(z) / self.shape)
        return np.maximum(draw, np.finfo(np.float64).smallest_subnormal)

    def log_likelihood(self, z: Array, y: Array) -> Array:
        """log of the gamma density with this shape and mean exp(z)."""
        return self.log_constant(y) - self.value(z, y)

    def cdf(self, z: Array, y: Array) -> Array:
        """The incomplete gamma function of the shape at shape y / exp(z)."""
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.where(y > 0.0, self.shape * y * np.exp(-z), 0.0)
        return np.asarray(gammainc(self.shape, scaled))

    def quantile(self, z: Array, probability: Array) -> Array:
        """The mean, times that of a gamma variable of mean 1."""
        return np.asarray(self.mean(z) * (gammaincinv(self.shape, probability) / self.shape))

    def response_variance(self, z: Array) -> Array:
        """exp(2 z) / shape."""
        with np.errstate(over="ignore"):
            return np.exp(2.0 * z) / self.shape

    def log_constant(self, y: Array) -> Array:
        """The terms of the log density in y alone."""
        constant = self.shape * np.log(self.shape) - gammaln(self.shape)
        return np.asarray(constant + (self.shape - 1.0) * np.log(y))

    def exponential_form(self, y: Array) -> tuple[Array, Array, float, Array]:
        """A constant - shape z - shape y exp(-z)."""
        return np.full_like(y, -self.shape), self.shape * y, -1.0, self.log_constant(y)

    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """shape (z + exp(log y - z)): a conic solver sees no number of the size of y."""
        return self.shape * (z + cp.exp(np.log(y) - z))

    def formula(self, z: str, y: str) -> str:
        """(z + y exp(−(z))), or with the shape."""
        factor = "" if self.shape == 1.0 else f"{self.shape:g} "
        return f"{factor}({z} + {y} exp(−({z})))"


@stored
@attrs.frozen
class Exponential(Gamma):
    """``l(z, y) = z + y exp(-z)``: waiting times with the log link, ``Gamma(shape=1.0)``.

    Domain: y > 0; the mean is exp(z). This is the whole negative log-likelihood of the
    exponential distribution with mean exp(z). A loss may be negative. The curvature y exp(-z) is
    unbounded: backends with fixed steps cannot run it, ``proximal`` finds its steps by
    backtracking.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Exponential().value(np.array([0.0]), np.array([3.0]))
    array([3.])
    """

    shape: float = attrs.field(default=1.0, init=False, repr=False)
