"""A likelihood of one's own: real values with outliers, smooth everywhere."""

from typing import Any

import attrs
import numpy as np
from scipy.special import xlog1py

from mcframe.contracts import Conjugate, Likelihood, TwiceDifferentiable, stored
from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.validators import positive


@stored
@attrs.frozen
class LogCosh(Likelihood, Conjugate, TwiceDifferentiable):
    """``l(z, y) = delta^2 log cosh((z - y) / delta)``: r^2 / 2 near 0, delta |r| at infinity.

    Parameters
    ----------
    delta : float, default 1
        Positive; in the units of the data.
    """

    delta: float = attrs.field(default=1.0, validator=positive)

    needs = "finite real numbers"
    remedy = "Replace infinities by NaN if they stand for missing values."
    symbol = "x"
    curvature = 1.0  # where z = y
    infimum = 0.0  # at z = y

    def invalid(self, y: Array) -> Mask:
        """True where y is not finite."""
        return ~np.isfinite(y)

    def value(self, z: Array, y: Array) -> Array:
        """delta^2 log cosh(u), u = (z - y) / delta, without an exponential that overflows."""
        u = np.abs(z - y) / self.delta
        return self.delta**2 * (u + np.log1p(np.exp(-2.0 * u)) - np.log(2.0))

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its gradient delta tanh(u)."""
        return self.value(z, y), self.delta * np.tanh((z - y) / self.delta)

    def second_derivative(self, z: Array, y: Array) -> Array:
        """1 - tanh(u)^2."""
        return 1.0 - np.square(np.tanh((z - y) / self.delta))

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """delta^2 ((1 + t) log(1 + t) + (1 - t) log(1 - t)) / 2 + g y, with g = delta t."""
        t = np.clip(gradient / self.delta, -1.0, 1.0)
        entropy = 0.5 * self.delta**2 * (xlog1py(1.0 + t, t) + xlog1py(1.0 - t, -t))
        inside = np.abs(gradient) <= self.delta * (1.0 + 1e-14)
        return np.where(inside, gradient * y + entropy, np.inf)

    def nearest_gradient(self, gradient: Array, y: Array) -> Array:
        """Between -delta and delta."""
        return np.clip(gradient, -self.delta, self.delta)

    def mean(self, z: Array) -> Array:
        """z."""
        return z.copy()

    def start(self, y: Array) -> Array:
        """y."""
        return y.copy()

    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """delta^2 (log(1 + exp(2 u)) - u - log 2): what CVXPY has a cone for."""
        u = (z - y) / self.delta
        return self.delta**2 * (cp.logistic(2.0 * u) - u - np.log(2.0))

    def formula(self, z: str, y: str) -> str:
        """delta² log cosh((z − x)/delta)."""
        return f"{self.delta**2:g} log cosh(({z} − {y})/{self.delta:g})"
