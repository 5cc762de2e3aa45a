"""The likelihood of yes/no labels."""

from typing import Any, Literal

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import (
    Approximated,
    Conjugate,
    Distribution,
    ExpectedDerivatives,
    GaussianBound,
    LabelLoss,
    LinearDifference,
    LogisticTerms,
    TwiceDifferentiable,
)
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import moderate
from mcframe.likelihoods.links import LINKS, Logit, Probit


def known_link(instance: object, attribute: object, value: object) -> None:
    """An attrs validator: the links there are."""
    if value not in tuple(LINKS):
        raise ModelError(
            f"Bernoulli: link={value!r} was given; 'logit' or 'probit' is needed"
            " (a width goes to scale=)"
        )


@stored
@attrs.frozen
class Bernoulli(
    LabelLoss,
    Conjugate,
    TwiceDifferentiable,
    Distribution,
    GaussianBound,
    ExpectedDerivatives,
    Approximated,
    LinearDifference,
    LogisticTerms,
):
    """``l(z, y) = -log P(s z / scale)`` with ``s = 2 y - 1``: the label's probability.

    Domain: y in {0, 1}; the mean is ``P(z / scale)``, the probability of a 1. This is the complete
    negative log-likelihood (Goldberg et al., 2010, section 2.2, who code labels as -1 and 1:
    recode them as 0 and 1).

    ========== =========================== ================================= ===============
    link       P(m)                        l(z, y), with m = s z / scale     curvature
    ========== =========================== ================================= ===============
    "logit"    ``1 / (1 + exp(-m))``       ``log(1 + exp(-m))``              1 / (4 scale^2)
    "probit"   ``Phi(m)``, that of N(0, 1) ``-log Phi(m)``                   1 / scale^2
    ========== =========================== ================================= ===============

    The probit is the probability that a Gaussian with mean z is above 0. Its loss is quadratic far
    on the wrong side, where the logistic loss is linear. In CVXPY the logistic loss is exact, and
    the probit is a lower bound of any requested accuracy.

    Parameters
    ----------
    link : "logit" (default) or "probit"
        How z becomes a probability.
    scale : float, default 1
        Positive, from 1e-150 to 1e150. The width of the transition from 0 to 1; a probability
        function ``1 / (1 + exp(-7 z))`` is ``scale=1/7``.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Bernoulli().value(np.array([0.0, 1e4]), np.array([1.0, 0.0]))
    array([6.93147181e-01, 1.00000000e+04])
    >>> mc.Bernoulli("probit").mean(np.array([-1.96, 0.0, 1.96])).round(3)
    array([0.025, 0.5  , 0.975])
    """

    link: Literal["logit", "probit"] = attrs.field(default="logit", validator=known_link)
    scale: float = attrs.field(default=1.0, validator=moderate)

    remedy = (
        "Recode the labels as 0 and 1, and mark a missing label as NaN; more than two classes"
        " take a column of 0 and 1 each."
    )

    @property
    def z_name(self) -> str:  # type: ignore[override]
        """The link, on the scale that it has."""
        named = {"logit": "the log odds", "probit": "the probit"}[self.link]
        return named if self.scale == 1.0 else f"{named}, times {self.scale:g}"

    @property
    def of_margin(self) -> Logit | Probit:
        """The link's functions of the margin s z / scale."""
        return LINKS[self.link]

    def margin(self, z: Array, y: Array) -> Array:
        """s z / scale: positive where z is on the side of the label."""
        return (2.0 * y - 1.0) * z / self.scale

    @property
    def curvature(self) -> float:
        """The curvature of the link over scale^2."""
        return self.of_margin.curvature / self.scale**2

    def value(self, z: Array, y: Array) -> Array:
        """-log P(margin), never overflowing."""
        return self.of_margin.loss(self.margin(z, y))

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its gradient, that in the margin times s / scale."""
        sign = 2.0 * y - 1.0
        value, gradient = self.of_margin.loss_and_gradient(sign * z / self.scale)
        return value, sign * gradient / self.scale

    def second_derivative(self, z: Array, y: Array) -> Array:
        """The second derivative in the margin over scale^2."""
        return self.of_margin.second_derivative(self.margin(z, y)) / self.scale**2

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """Conjugate of the link at s scale gradient, in [-1, 0] (logit) or below 0 (probit).

        Both domains hold 0, where the conjugate is 0.
        """
        return self.of_margin.conjugate((2.0 * y - 1.0) * self.scale * gradient)

    def nearest_gradient(self, gradient: Array, y: Array) -> Array:
        """The gradient clipped to the side of its label, and to 1 / scale for the logit."""
        sign = 1.0 - 2.0 * y
        return sign * np.clip(sign * gradient, 0.0, self.of_margin.steepness / self.scale)

    def logistic_terms(self, y: Array) -> tuple[Array, Array, Array, Array] | None:
        """One term with the factor -s / scale and the edge 0; None for the probit."""
        if self.link != "logit":
            return None
        factors = (1.0 - 2.0 * y) / self.scale
        return np.ones((1, y.size)), factors[None], np.zeros((1, y.size)), np.zeros(y.size)

    @property
    def label_difference(self) -> tuple[float, float] | None:
        """-z / scale for the logit; for the probit it is no line."""
        gradient = self.of_margin.difference
        return None if gradient is None else (gradient / self.scale, 0.0)

    def mean(self, z: Array) -> Array:
        """P(y = 1 | z)."""
        return self.of_margin.probability(z / self.scale)

    def filling(self, z: Array) -> Array:
        """The more probable label: 1 above z = 0."""
        return (z > 0.0).astype(np.float64)

    def start(self, y: Array) -> Array:
        """scale * (2 y - 1); with the scale 1 where Goldberg et al. begin."""
        return self.scale * (2.0 * y - 1.0)

    def sample(self, z: Array, rng: np.random.Generator) -> Array:
        """A draw of 0 or 1."""
        return (rng.random(np.shape(z)) < self.mean(z)).astype(np.float64)

    def log_likelihood(self, z: Array, y: Array) -> Array:
        """-l(z, y): nothing was dropped."""
        return -self.value(z, y)

    def cdf(self, z: Array, y: Array) -> Array:
        """P(y = 0 | z) from 0 to below 1."""
        return np.where(y >= 1.0, 1.0, np.where(y >= 0.0, self.mean(-z), 0.0))

    def quantile(self, z: Array, probability: Array) -> Array:
        """1 where the probability is above that of a 0."""
        return (probability > self.mean(-z)).astype(np.float64)

    def response_variance(self, z: Array) -> Array:
        """P(y = 1 | z) P(y = 0 | z)."""
        return self.mean(z) * self.mean(-z)

    def gaussian_bound(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array, Array]:
        """The best parabola of the link, in the margin.

        Of the logit by Jaakkola and Jordan (Statistics and Computing 2000) with
        ``xi^2 = (mean^2 + variance) / scale^2``: precision ``tanh(xi / 2) / (2 xi scale^2)``. Of
        the probit the parabola of precision ``1 / scale^2`` that touches at the mean (Albert and
        Chib, JASA 1993).
        """
        with np.errstate(over="ignore"):
            sd = np.sqrt(variance) / self.scale
            margin = self.margin(mean, y)
            value, precision, constant = self.of_margin.gaussian_bound(margin, np.square(sd))
        return (2.0 * y - 1.0) * self.scale * value, precision / self.scale**2, constant

    def expected_derivatives(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        """E[d log p / dz] and E[-d2 log p / dz2], from those in the margin by the chain rule."""
        variance = variance / self.scale**2
        slope, bend = self.of_margin.expected_derivatives(self.margin(mean, y), variance)
        return (2.0 * y - 1.0) * slope / self.scale, bend / self.scale**2

    def statement(
        self, cp: Any, z: Any, y: Array, *, near: tuple[Array, float] | None = None, **_: Any
    ) -> tuple[Any, list[Any]]:
        """logistic(-margin), or of a probit a bound from below, tight where asked."""
        margin = cp.multiply((2.0 * y - 1.0) / self.scale, z)
        near = None if near is None else self.margins_near(near, y)
        return self.of_margin.expression(cp, margin, near), []

    def statement_error(self, near: tuple[Array, float], z: Array, y: Array) -> Array:
        """0 for a logit; for a probit what the bound misses."""
        return self.of_margin.expression_error(self.margins_near(near, y), self.margin(z, y))

    def margins_near(self, near: tuple[Array, float], y: Array) -> tuple[Array, float]:
        """Points and a spread, of margins in place of predictors."""
        points, spread = near
        return self.margin(points, y), spread / self.scale

    def formula(self, z: str, y: str) -> str:
        """log(1 + exp((1 − 2y)(z)/scale)), or −log Φ((2y − 1)(z)/scale)."""
        return self.of_margin.formula(z, y, "" if self.scale == 1.0 else f"/{self.scale:g}")
