"""Waiting times."""

from typing import Any

import attrs
import numpy as np
from scipy.special import xlogy

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.likelihood import Conjugate, Distribution, Likelihood, TwiceDifferentiable

__all__ = ["Exponential"]


@attrs.frozen
class Exponential(Likelihood, Conjugate, TwiceDifferentiable, Distribution):
    """``l(z, y) = z + y exp(-z)``: waiting times with the log link.

    Domain: y > 0; the mean is exp(z). This is the whole negative log-likelihood of the
    exponential distribution with mean exp(z), nothing is dropped; it is ``Gamma(1.0)``. A loss
    may be negative. The curvature y exp(-z) is unbounded: backends with fixed steps refuse it,
    ``proximal`` finds its steps by backtracking.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Exponential().value(np.array([0.0]), np.array([3.0]))
    array([3.])
    """

    needs = "positive numbers"
    remedy = (
        "Mark a missing value as NaN; a 0 that stands for too little to measure takes half of"
        " the least that can be measured."
    )
    symbol = "x"

    @property
    def curvature(self) -> float:
        """inf: y exp(-z) has no bound."""
        return np.inf

    @property
    def infimum(self) -> float:
        """-inf over all y; for one y it is 1 + log y."""
        return -np.inf

    def invalid(self, y: Array) -> Mask:
        """True where y is not positive or not finite."""
        return ~np.isfinite(y) | (y <= 0.0)

    def value(self, z: Array, y: Array) -> Array:
        """z + y exp(-z); inf where exp overflows."""
        return self.value_and_slope(z, y)[0]

    def value_and_slope(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its slope 1 - y exp(-z)."""
        ratio = self.second_derivative(z, y)
        return z + ratio, 1.0 - ratio

    def second_derivative(self, z: Array, y: Array) -> Array:
        """y exp(-z), the observation over its mean."""
        with np.errstate(over="ignore"):
            return y * np.exp(-z)

    def conjugate(self, slope: Array, y: Array) -> Array:
        """q log(q / y) - q with q = 1 - slope >= 0, else inf.

        The domain holds 0, where it is minus the minimum of the loss.
        """
        q = 1.0 - slope
        inside = q >= -1e-14
        q = np.maximum(q, 0.0)
        return np.where(inside, xlogy(q, q) - q * (1.0 + np.log(y)), np.inf)

    def mean(self, z: Array) -> Array:
        """exp(z)."""
        with np.errstate(over="ignore"):
            return np.exp(z)

    def start(self, y: Array) -> Array:
        """log y."""
        return np.log(y)

    def sample(self, z: Array, rng: Any) -> Array:
        """A draw with mean exp(z); one that underflows is the least positive float."""
        draw = rng.exponential(self.mean(z))
        return np.maximum(draw, np.finfo(np.float64).smallest_subnormal)

    def log_likelihood(self, z: Array, y: Array) -> Array:
        """-l(z, y): nothing was dropped."""
        return -self.value(z, y)

    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """z + y exp(-z)."""
        return z + cp.multiply(y, cp.exp(-z))

    def formula(self, z: str, y: str) -> str:
        """z + y exp(−(z))."""
        return f"({z} + {y} exp(−({z})))"

    def latex(self, z: str, y: str) -> str:
        r"""z + y e^{-(z)}."""
        return rf"({z} + {y} e^{{-({z})}})"
