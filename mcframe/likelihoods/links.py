"""How the probability of a label depends on the linear predictor: what ``Bernoulli`` is made of.

A link is a symmetric distribution function P and the loss ``-log P(m)`` that it makes. The margin
``m = s z / scale`` with ``s = 2 y - 1`` is positive where z is on the side of the label. Since
``P(-m) = 1 - P(m)``, one function of m serves both labels: it is convex, falls from inf to 0, and
is the whole negative log-likelihood. All methods are entrywise.

``curvature`` is the supremum of the loss's second derivative in m, ``steepness`` that of minus its
gradient, and ``difference`` the gradient of ``-log P(m) + log P(-m)`` where that is a line through
0, else None. ``expression`` is the loss as a DCP expression of CVXPY, or a lower bound on it where
there is none; ``near`` says where a bound is to be tight: margins, and how far around them.
"""

from typing import Any

import numpy as np
from scipy.special import erfcx, expit, log_ndtr, ndtr, xlog1py, xlogy

from mcframe.contracts.arrays import Array
from mcframe.contracts.limits import MOST_STEPS
from mcframe.contracts.rounding import LARGEST_MODERATE, TINY
from mcframe.numerics.gaussian_bounds import expected_logistic, logistic_bound

# phi(0) / Phi(0), the steepness of the loss at m = 0.
STEEPNESS_AT_0 = float(np.sqrt(2.0 / np.pi))
# Where tangents are taken if nothing is known of the margins, and the few that are always kept.
TANGENT_KNOTS = (-6.0, -4.5, -3.5, -2.75, *np.arange(-2.0, 4.5, 0.5).tolist())
GLOBAL_KNOTS = (-2.0, 0.0, 1.0, 2.0, 3.0, 4.0)


class Logit:
    """``P(m) = 1 / (1 + exp(-m))``: the loss is ``log(1 + exp(-m))``, CVXPY's ``logistic``."""

    curvature = 0.25  # at m = 0
    steepness = 1.0
    difference = -1.0

    def probability(self, m: Array) -> Array:
        """1 / (1 + exp(-m))."""
        return expit(m)

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
        return decay / np.square(1.0 + decay)

    def gaussian_bound(self, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """The bound of Jaakkola and Jordan (2000)."""
        return logistic_bound(mean, variance, np.ones_like(mean), np.zeros_like(mean))

    def expected_derivatives(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """E P(-m) and E P(m) P(-m) of a Gaussian margin."""
        return expected_logistic(-mean, variance)

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


class Probit:
    """``P(m) = Phi(m)``, the distribution function of N(0, 1).

    The loss falls with steepness ``phi(m) / Phi(m)``, the inverse Mills ratio, and its second
    derivative falls from 1 at m = -inf to 0. No cone of CVXPY's expresses it, and its
    ``log_normcdf`` is an approximation: the expressions here are lower bounds whose error is
    known.
    """

    curvature = 1.0  # for m towards -inf
    steepness = np.inf
    difference = None

    def probability(self, m: Array) -> Array:
        """Phi(m)."""
        return ndtr(m)

    def loss(self, m: Array) -> Array:
        """Return -log Phi(m), entrywise."""
        return -log_ndtr(m)

    def loss_and_gradient(self, m: Array) -> tuple[Array, Array]:
        """The loss and its gradient -phi(m) / Phi(m)."""
        return self.loss(m), -mills(m)

    def second_derivative(self, m: Array) -> Array:
        """r (r + m) with r = phi(m) / Phi(m)."""
        r = mills(m)
        # For m towards -inf the sum cancels: from -100 on its asymptotic series is the better.
        u = np.square(1.0 / np.minimum(m, -100.0))
        return np.where(m > -100.0, r * (r + m), 1.0 - u * (1.0 - u * (6.0 - 50.0 * u)))

    def gaussian_bound(self, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """The parabola of precision 1 that touches log Phi at the mean.

        The second derivative of log Phi lies above -1 and tends to it, so that no precision below
        1 will do. The value ``mean + r`` with r = phi(mean) / Phi(mean) is the mean of a normal
        variable truncated to the side of its label (Albert and Chib, JASA 1993); the constant is
        ``log Phi(mean) + r^2 / 2``.
        """
        m = np.clip(mean, -LARGEST_MODERATE, LARGEST_MODERATE)
        r, far = mills(m), np.minimum(m, -1.0)
        # Below 0 both sums cancel: r + m is the second derivative over r, and log Phi is
        # -m^2 / 2 + log(erfcx(-m / sqrt(2)) / 2).
        excess = self.second_derivative(far) / mills(far)
        left = np.log(0.5 * erfcx(-far / np.sqrt(2.0))) + 0.5 * (mills(far) - far) * excess
        constant = np.where(m < -1.0, left, 0.5 * np.square(r) - self.loss(m))
        return np.where(m < -1.0, excess, m + r), np.ones_like(m), constant

    def expected_derivatives(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """E[phi(m) / Phi(m)] and minus the expectation of its derivative, of a Gaussian margin."""
        nodes, shares = np.polynomial.hermite_e.hermegauss(24)
        shares = shares / np.sum(shares)
        spread = np.sqrt(variance)
        slope, bend = np.zeros_like(mean), np.zeros_like(mean)
        for node, share in zip(nodes, shares, strict=True):
            margin = mean + node * spread
            slope += share * mills(margin)
            bend += share * self.second_derivative(margin)
        return slope, bend

    def conjugate(self, gradient: Array) -> Array:
        """-q m + log Phi(m) with q = -gradient = phi(m) / Phi(m); 0 at q = 0, inf for q < 0."""
        # Below TINY the answer is 0 to within 1e-298, and the root is not sought.
        m = self.margin_of(np.maximum(-gradient, TINY))
        value = gradient * m - self.loss(m)
        return np.where(gradient > 1e-14, np.inf, np.where(gradient >= 0.0, 0.0, value))

    def margin_of(self, q: Array) -> Array:
        """The m with phi(m) / Phi(m) = q > 0, by Newton steps on the logarithm of both sides.

        log r is concave and falls, so that steps from above the root stay above it and never
        pass it. Both starts lie above: r <= 2 phi(m) for m >= 0, and Birnbaum's inequality
        r < (sqrt(m^2 + 4) - m) / 2 (Ann. Math. Statist. 1942).
        """
        above_0 = np.sqrt(2.0 * np.maximum(np.log(STEEPNESS_AT_0) - np.log(q), 0.0))
        m = np.where(q < STEEPNESS_AT_0, above_0, 1.0 / np.maximum(q, STEEPNESS_AT_0) - q)
        for _ in range(MOST_STEPS):
            r = mills(m)
            step = np.log(r / q) * r / self.second_derivative(m)
            m = m + step
            # Convergence is quadratic: what is left is the square of this.
            if np.all(np.abs(step) <= 1e-9 * (1.0 + np.abs(m))):
                break
        return m

    def expression(self, cp: Any, m: Any, near: tuple[Array, float] | None = None) -> Any:
        """The largest of 0 and of the tangents at all knots.

        Near points p it is the largest of 0, of a few tangents, and of a tangent at p that
        bends: with the loss's own second derivative at p to the left of it, with that at
        p + spread up to there, and not at all beyond. Since the second derivative falls, this
        lies below the loss everywhere; within d <= spread of p by at most d^2 spread / 2 times
        the third derivative, which is below 0.3. Tangents alone are as tight only when they are
        so many and so nearly parallel that conic solvers fail.
        """
        if near is None:
            return cp.maximum(0.0, *[self.tangent(m, knot) for knot in TANGENT_KNOTS])
        points, spread = near
        left, right = self.second_derivative(points), self.second_derivative(points + spread)
        loss, gradient = self.loss_and_gradient(points)
        d = m - points
        bent = loss + cp.multiply(gradient, d) + cp.multiply(left / 2, cp.square(cp.neg(d)))
        # CVXPY's huber(d, spread) is d^2 up to spread and linear beyond.
        bent += cp.multiply(right / 2, cp.huber(cp.pos(d), spread))
        return cp.maximum(0.0, bent, *[self.tangent(m, knot) for knot in GLOBAL_KNOTS])

    def expression_error(self, near: tuple[Array, float], m: Array) -> Array:
        """The loss minus the largest of them, by the same formulas in plain arithmetic."""
        points, spread = near
        loss, gradient = self.loss_and_gradient(points)
        before, after = np.minimum(m - points, 0.0), np.maximum(m - points, 0.0)
        close = np.minimum(after, spread)
        bent = (
            loss + gradient * (m - points) + self.second_derivative(points) / 2 * np.square(before)
        )
        bent += self.second_derivative(points + spread) * close * (after - close / 2)
        tangents = [self.tangent(m, knot) for knot in GLOBAL_KNOTS]
        bound = np.maximum.reduce([np.zeros_like(m), bent, *tangents])
        return np.maximum(self.loss(m) - bound, 0.0)

    def tangent(self, m: Any, knot: float) -> Any:
        """The tangent at a knot, of numbers or of CVXPY's expressions."""
        loss, gradient = self.loss_and_gradient(np.array(knot))
        return float(loss) + float(gradient) * (m - knot)

    def formula(self, z: str, y: str, over_scale: str) -> str:
        """(−log Φ((2y − 1)(z)))."""
        return f"(−log Φ((2{y} − 1)({z}){over_scale}))"


def mills(m: Array) -> Array:
    """phi(m) / Phi(m), the inverse Mills ratio: never a quotient of two underflows."""
    return STEEPNESS_AT_0 / erfcx(-m / np.sqrt(2.0))


LINKS: dict[str, Logit | Probit] = {"logit": Logit(), "probit": Probit()}
