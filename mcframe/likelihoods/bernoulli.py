"""Yes/no labels."""

from typing import Any, Literal

import attrs
import numpy as np
from scipy.special import expit, xlogy

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import Conjugate, Likelihood, Sampler, TwiceDifferentiable
from mcframe.contracts.validators import positive

__all__ = ["Bernoulli"]


def known_link(instance: object, attribute: object, value: object) -> None:
    """An attrs validator: the links there are."""
    if value != "logit":
        raise ModelError(
            f"Bernoulli: link={value!r} was given; 'logit' is needed (a width goes to scale=)"
        )


@attrs.frozen
class Bernoulli(Likelihood, Conjugate, TwiceDifferentiable, Sampler):
    """``l(z, y) = log(1 + exp(-s z / scale))`` with ``s = 2 y - 1``: the logistic loss.

    Domain: y in {0, 1}; the mean is ``P(y = 1 | z) = 1 / (1 + exp(-z / scale))``. This is the
    whole negative log-likelihood, nothing is dropped (Goldberg et al., 2010, section 2.2, who
    code labels as -1 and 1: recode them as 0 and 1).

    Parameters
    ----------
    link : "logit"
        How z becomes a probability.
    scale : float, default 1
        Positive. The width of the transition from 0 to 1; a probability function
        ``1 / (1 + exp(-7 z))`` is ``scale=1/7``.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Bernoulli().value(np.array([0.0, 1e4]), np.array([1.0, 0.0]))
    array([6.93147181e-01, 1.00000000e+04])
    """

    link: Literal["logit"] = attrs.field(default="logit", validator=known_link)
    scale: float = attrs.field(default=1.0, validator=positive)

    needs = "labels 0 or 1"
    remedy = (
        "Recode the labels as 0 and 1, and mark a missing label as NaN; more than two classes"
        " take a column of 0 and 1 each."
    )

    @property
    def curvature(self) -> float:
        """1 / (4 scale^2), reached at z = 0."""
        return 0.25 / self.scale**2

    @property
    def infimum(self) -> float:
        """0, not attained: z would have to be infinite."""
        return 0.0

    def invalid(self, y: Array) -> Mask:
        """True where y is neither 0 nor 1."""
        return (y != 0.0) & (y != 1.0)

    def value(self, z: Array, y: Array) -> Array:
        """log(1 + exp(-s z / scale)), never overflowing."""
        return np.logaddexp(0.0, (1.0 - 2.0 * y) * z / self.scale)

    def value_and_slope(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its slope -s / scale * P(the other label)."""
        sign = 2.0 * y - 1.0
        margin = sign * z / self.scale
        # One exponential serves both: e = exp(-|m|) is at most 1 and cannot overflow.
        decay = np.exp(-np.abs(margin))
        value = np.maximum(-margin, 0.0) + np.log1p(decay)
        wrong = np.where(margin >= 0, decay, 1.0) / (1.0 + decay)
        return value, -sign * wrong / self.scale

    def second_derivative(self, z: Array, y: Array) -> Array:
        """P(1) P(0) / scale^2."""
        decay = np.exp(-np.abs(z) / self.scale)
        curvature: Array = decay / np.square((1.0 + decay) * self.scale)
        return curvature

    def conjugate(self, slope: Array, y: Array) -> Array:
        """q log q + (1 - q) log(1 - q) with q = -s scale slope in [0, 1], else inf."""
        q = (1.0 - 2.0 * y) * self.scale * slope
        # q * scale / scale may round to just above 1: that is still on the boundary.
        inside = (q >= -1e-14) & (q <= 1.0 + 1e-14)
        q = np.clip(q, 0.0, 1.0)
        return np.where(inside, xlogy(q, q) + xlogy(1.0 - q, 1.0 - q), np.inf)

    def mean(self, z: Array) -> Array:
        """P(y = 1 | z)."""
        probability: Array = expit(z / self.scale)
        return probability

    def start(self, y: Array) -> Array:
        """2 y - 1, where Goldberg et al. begin."""
        return 2.0 * y - 1.0

    def sample(self, z: Array, rng: Any) -> Array:
        """A draw of 0 or 1."""
        return (rng.random(np.shape(z)) < self.mean(z)).astype(np.float64)

    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """logistic(-s z / scale), CVXPY's log(1 + exp(.))."""
        return cp.logistic(cp.multiply((1.0 - 2.0 * y) / self.scale, z))

    def formula(self, z: str, y: str) -> str:
        """log(1 + exp(−s z)), or with the scale."""
        exponent = f"(1 − 2{y})({z})"
        exponent = exponent if self.scale == 1.0 else f"{exponent}/{self.scale:g}"
        return f"log(1 + exp({exponent}))"

    def latex(self, z: str, y: str) -> str:
        r"""\log(1 + e^{(1 - 2y) z})."""
        exponent = f"(1 - 2 {y})({z})"
        exponent = exponent if self.scale == 1.0 else f"{exponent}/{self.scale:g}"
        return rf"\log(1 + e^{{{exponent}}})"
