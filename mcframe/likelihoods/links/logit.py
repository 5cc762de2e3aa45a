"""The logit link."""

from typing import Any

import attrs
import numpy as np
from scipy.special import expit, xlog1py, xlogy

from mcframe.contracts.arrays import Array
from mcframe.likelihoods.links.link import Link
from mcframe.numerics.gaussian_bounds import logistic_bound


@attrs.frozen
class Logit(Link):
    """``P(m) = 1 / (1 + exp(-m))``: the loss is ``log(1 + exp(-m))``, CVXPY's ``logistic``."""

    curvature = 0.25  # at m = 0
    steepness = 1.0
    difference = -1.0

    def probability(self, m: Array) -> Array:
        """1 / (1 + exp(-m))."""
        probability: Array = expit(m)
        return probability

    def loss(self, m: Array) -> Array:
        """log(1 + exp(-m)), never overflowing."""
        return np.logaddexp(0.0, -m)

    def loss_and_gradient(self, m: Array) -> tuple[Array, Array]:
        """The loss and its gradient -P(-m)."""
        # One exponential serves both: exp(-|m|) is at most 1 and cannot overflow.
        decay = np.exp(-np.abs(m))
        loss = np.maximum(-m, 0.0) + np.log1p(decay)
        return loss, np.where(m >= 0, decay, 1.0) / (-1.0 - decay)

    def second_derivative(self, m: Array) -> Array:
        """P(m) P(-m)."""
        decay = np.exp(-np.abs(m))
        second: Array = decay / np.square(1.0 + decay)
        return second

    def gaussian_bound(self, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """The bound of Jaakkola and Jordan (2000)."""
        return logistic_bound(mean, variance, np.ones_like(mean), np.zeros_like(mean))

    def conjugate(self, gradient: Array) -> Array:
        """q log q + (1 - q) log(1 - q) with q = -gradient in [0, 1], else inf."""
        # A gradient that was scaled and scaled back may lie just outside by rounding.
        inside = (gradient <= 1e-14) & (gradient >= -1.0 - 1e-14)
        q = np.clip(-gradient, 0.0, 1.0)
        return np.where(inside, xlogy(q, q) + xlog1py(1.0 - q, -q), np.inf)

    def expression(self, cp: Any, m: Any, near: tuple[Array, float] | None = None) -> Any:
        """logistic(-m), CVXPY's log(1 + exp(.)): exact, wherever it is asked for."""
        return cp.logistic(-m)

    def expression_error(self, near: tuple[Array, float], m: Array) -> Array:
        """0."""
        return np.zeros_like(m)

    def formula(self, z: str, y: str, over_scale: str) -> str:
        """log(1 + exp((1 − 2y)(z)))."""
        return f"log(1 + exp((1 − 2{y})({z}){over_scale}))"
