"""The probability of an interval as a function of z: what ``Censored`` is made of.

Y is z plus noise, or a function of z and noise, of a log-concave distribution, so that the
probability that Y lies between two limits is log-concave in z (Prekopa, Acta Sci. Math. 1973).
All methods are entrywise; ``IntervalLoss`` says what they return.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from mcframe.contracts.arrays import (
    Array,
    IntArray,
    Mask,
    between,
    points_of,
    ranges_of_observations,
)
from mcframe.contracts.likelihood import IntervalLoss
from mcframe.contracts.limits import BISECTIONS, CACHED_NUMBERS, REFINEMENTS
from mcframe.contracts.rounding import LARGEST_MODERATE, RESULT_ROUNDING, TINY
from mcframe.likelihoods.cumulative import gap_loss, logistic_parts
from mcframe.likelihoods.links import Probit, mills
from mcframe.numerics.gaussian_bounds import (
    expected_logistic,
    increasing_root,
    logistic_bound,
    tangent_bound,
)

PROBIT = Probit()
# Nodes of Gauss and Legendre over an interval on which the density changes by less than the
# exponential of its product of width and distance.
NODES, SHARES = np.polynomial.legendre.leggauss(14)
# The product of width and distance, both at least 1, up to which that is accurate.
NARROW = 2.0
# Stands for no limit: its density vanishes, and its square is finite.
NO_LIMIT = 1e153
# Expectations over z: equally spaced nodes up to so many standard deviations, at most so far
# apart in these and in widths of the loss, and so many on either side.
RANGE, SPACING, MOST_NODES = 6.0, 0.5, 300
# Where tangents are taken if nothing is known of z, beyond each limit in widths of the noise.
TANGENT_KNOTS = (-4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.5, 6.0)
GLOBAL_KNOTS = (-1.0, 0.0, 1.0, 2.0, 4.0)


@attrs.frozen
class LogisticIntervals(IntervalLoss):
    """Y = z + scale times a logistic variable.

    With s(t) = 1 / (1 + exp(-t)), a = (lower - z) / scale and b = (upper - z) / scale ``s(b) -
    s(a) = s(b) s(-a) (1 - exp(a - b))``, so that the loss is the sum of two logistic losses and of
    a number that does not depend on z.
    """

    scale: float

    exact_expression = True
    has_gaussian_bound = True

    @property
    def curvature(self) -> float:  # type: ignore[override]
        """1 / (2 scale^2), where both limits are close."""
        return 0.5 / self.scale**2

    def invalid(self, lower: Array, upper: Array) -> Mask:
        """True where the lower limit is not below the upper one, or neither is finite."""
        return ~(lower < upper) | (np.isinf(lower) & np.isinf(upper))

    def derivatives(self, z: Array, lower: Array, upper: Array) -> tuple[Array, Array, Array]:
        """log(1 + exp(-b)) + log(1 + exp(a)) - log(1 - exp(a - b)), and its derivatives in z."""
        above, slope_above, bend_above = logistic_parts((z - upper) / self.scale)
        below, slope_below, bend_below = logistic_parts((lower - z) / self.scale)
        value = above + below + gap_loss((upper - lower) / self.scale)
        slope = (slope_above - slope_below) / self.scale
        return value, slope, (bend_above + bend_below) / self.scale**2

    def logistic_terms(self, lower: Array, upper: Array) -> tuple[Array, Array, Array, Array]:
        """One term for each limit, of weight 0 where there is none; values are both limits.

        Of a value the constant is minus the logarithm of 4, so that the loss is 0 there.
        """
        edges = np.stack([upper, lower])
        weights = np.isfinite(edges).astype(np.float64)
        factors = np.array([[1.0], [-1.0]]) / self.scale * np.ones(lower.size)
        exact = lower == upper
        gaps = np.where(exact, self.scale, upper - lower) / self.scale
        constants = np.where(exact, -np.log(4.0), gap_loss(gaps))
        return weights, factors, np.where(weights > 0.0, edges, 0.0), constants

    def gradient_limits(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """-1 / scale and 1 / scale, 0 on a side without a limit."""
        steepest = 1.0 / self.scale
        return (
            np.where(np.isfinite(lower), -steepest, 0.0),
            np.where(np.isfinite(upper), steepest, 0.0),
        )

    def gaussian_bound(
        self, mean: Array, variance: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array, Array]:
        """The sum of the bounds of Jaakkola and Jordan (2000) of both logistic losses."""
        mean = np.clip(mean, -LARGEST_MODERATE, LARGEST_MODERATE)
        variance = np.minimum(variance / self.scale / self.scale, LARGEST_MODERATE)
        one, none = np.ones_like(mean), np.zeros_like(mean)
        parts = []
        for limit, sides in ((lower, (none, one)), (upper, (one, none))):
            finite = np.isfinite(limit)
            distance = np.where(finite, limit, mean) - mean
            at, precision, constant = logistic_bound(distance / self.scale, variance, *sides)
            centre = np.where(finite, limit, 0.0) - self.scale * at
            parts.append((centre, finite * precision / self.scale**2, finite * constant))
        (first, p, c), (second, q, d) = parts
        precision = p + q
        value = (p / precision) * first + (q / precision) * second
        lost = np.square(np.sqrt(p * (q / precision)) * (first - second))
        constant = c + d - gap_loss((upper - lower) / self.scale) - 0.5 * lost
        return value, precision, constant

    def expected_derivatives(
        self, mean: Array, variance: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array]:
        """The expectations of s(a) - s(-b) and of both slopes, by ``expected_logistic``."""
        variance = variance / self.scale**2
        slope, bend = np.zeros_like(mean), np.zeros_like(mean)
        for limit, sign in ((lower, 1.0), (upper, -1.0)):
            finite = np.isfinite(limit)
            margin = sign * (np.where(finite, limit, 0.0) - mean) / self.scale
            first, second = expected_logistic(margin, variance)
            slope, bend = slope + finite * sign * first, bend + finite * second
        return slope / self.scale, bend / self.scale**2

    def expression(
        self, cp: Any, z: Any, lower: Array, upper: Array, near: tuple[Array, float] | None = None
    ) -> Any:
        """The sum of both, by CVXPY's ``logistic``: exact."""
        total = gap_loss((upper - lower) / self.scale)
        for limit, sign in ((lower, -1.0), (upper, 1.0)):
            finite = np.isfinite(limit)
            margin = sign * (z - np.where(finite, limit, 0.0)) / self.scale
            total = total + cp.multiply(finite.astype(float), cp.logistic(margin))
        return total


@attrs.frozen
class BoundedByTangents(IntervalLoss):
    """A loss that no cone of CVXPY's expresses: a lower bound on it, tight where asked for."""

    @abstractmethod
    def knots(self, lower: Array, upper: Array, distances: tuple[float, ...]) -> list[Array]:
        """Predictors so many widths of the noise beyond the limits."""

    @abstractmethod
    def least_bend(self, first: Array, last: Array, lower: Array, upper: Array) -> Array:
        """The least second derivative between two predictors, or less."""

    def expression(
        self, cp: Any, z: Any, lower: Array, upper: Array, near: tuple[Array, float] | None = None
    ) -> Any:
        """The largest of 0 and of tangents at some knots beyond the limits.

        Near points p also of a tangent at p that bends by the least second derivative between p -
        spread and p, and between p and p + spread, and not beyond: a lower bound, since a second
        derivative is never negative. Within the distance d <= spread of p it misses a share of d^2
        that falls with the spread.
        """
        knots = TANGENT_KNOTS if near is None else GLOBAL_KNOTS
        tangents = [
            value + cp.multiply(slope, z - at)
            for at, value, slope in self.tangents(lower, upper, knots)
        ]
        if near is None:
            return cp.maximum(0.0, *tangents)
        points, spread = near
        value, slope, left, right = self.bent(points, spread, lower, upper)
        d = z - points
        # CVXPY's huber(d, spread) is d^2 up to the spread and linear beyond.
        bent = value + cp.multiply(slope, d)
        bent += cp.multiply(left / 2, cp.huber(cp.neg(d), spread))
        bent += cp.multiply(right / 2, cp.huber(cp.pos(d), spread))
        return cp.maximum(0.0, bent, *tangents)

    def expression_error(
        self, near: tuple[Array, float], z: Array, lower: Array, upper: Array
    ) -> Array:
        """The loss minus the largest of them, by the same formulas in plain arithmetic."""
        points, spread = near
        value, slope, left, right = self.bent(points, spread, lower, upper)
        d = z - points
        bent = value + slope * d
        for bend, far in ((left, np.maximum(-d, 0.0)), (right, np.maximum(d, 0.0))):
            close = np.minimum(far, spread)
            bent = bent + bend * close * (far - close / 2)
        tangents = [
            value + slope * (z - at)
            for at, value, slope in self.tangents(lower, upper, GLOBAL_KNOTS)
        ]
        bound = np.maximum.reduce([np.zeros_like(z), bent, *tangents])
        return np.maximum(self.derivatives(z, lower, upper)[0] - bound, 0.0)

    def bent(
        self, points: Array, spread: float, lower: Array, upper: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Loss and derivative at points, and the least second derivatives on either side."""
        value, slope, _ = self.derivatives(points, lower, upper)
        left = self.least_bend(points - spread, points, lower, upper)
        return value, slope, left, self.least_bend(points, points + spread, lower, upper)

    def tangents(
        self, lower: Array, upper: Array, distances: tuple[float, ...]
    ) -> list[tuple[Array, Array, Array]]:
        """Points on both sides of the interval, the losses there and their derivatives."""
        points = self.knots(lower, upper, distances)
        return [(at, *self.derivatives(at, lower, upper)[:2]) for at in points]


@attrs.frozen
class NormalIntervals(BoundedByTangents):
    """Y ~ N(z, sd^2): ``-log(Phi((upper - z) / sd) - Phi((lower - z) / sd))``.

    The derivative is (z - E[Y | lower < Y < upper]) / sd^2, the second one ``(1 - Var[Y | lower <
    Y < upper] / sd^2) / sd^2``, below 1 / sd^2.
    """

    sd: Any  # a number, or one for each entry

    has_gaussian_bound = True

    @property
    def curvature(self) -> float:  # type: ignore[override]
        """1 / sd^2, for z far from the interval."""
        return float(1.0 / self.sd**2)

    def invalid(self, lower: Array, upper: Array) -> Mask:
        """True where the lower limit is not below the upper one, or neither is finite."""
        return ~(lower < upper) | (np.isinf(lower) & np.isinf(upper))

    def derivatives(self, z: Array, lower: Array, upper: Array) -> tuple[Array, Array, Array]:
        """Minus the log probability, and its derivatives by the moments of truncated normals."""
        ends = []
        for limit in (lower, upper):
            finite = np.isfinite(limit)
            distance = (np.where(finite, limit, z) - z) / self.sd
            distance = np.clip(distance, -LARGEST_MODERATE, LARGEST_MODERATE)
            ends.append(np.where(finite, distance, np.sign(limit) * NO_LIMIT))
        value, mean, bend = normal_interval(ends[0], ends[1], (upper - lower) / self.sd)
        return value, -mean / self.sd, bend / self.sd**2

    def gradient_limits(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """-inf and inf, 0 on a side without a limit."""
        return np.where(np.isfinite(lower), -np.inf, 0.0), np.where(
            np.isfinite(upper), np.inf, 0.0
        )

    def gaussian_bound(
        self, mean: Array, variance: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array, Array]:
        """The parabola of precision 1 / sd^2 that touches at the mean.

        Its value is the mean of Y given the limits, for z at the mean (Albert and Chib, JASA
        1993).
        """
        mean = np.clip(mean, -LARGEST_MODERATE, LARGEST_MODERATE)
        value, gradient, _ = self.derivatives(mean, lower, upper)
        return tangent_bound(value, gradient, mean, self.curvature)

    def expected_derivatives(
        self, mean: Array, variance: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array]:
        """Sums over equally spaced nodes."""

        def derivatives(z: Array) -> tuple[Array, Array]:
            ends = (np.broadcast_to(end, z.shape) for end in (lower, upper))
            _, slope, bend = self.derivatives(z, *ends)
            return -slope, bend

        return expected_pair(derivatives, mean, np.sqrt(variance), self.sd)

    def knots(self, lower: Array, upper: Array, distances: tuple[float, ...]) -> list[Array]:
        """Predictors below the lower and above the upper limit."""
        least, largest = ranges_of_observations(between(lower, upper))
        points = [least - self.sd * distance for distance in distances]
        return points + [largest + self.sd * distance for distance in distances]

    def least_bend(self, first: Array, last: Array, lower: Array, upper: Array) -> Array:
        """The second derivative where it is least: the nearest predictor to the middle.

        It falls towards the middle of the interval, or towards the side that has no limit, and
        rises beyond.
        """
        one_sided = np.isinf(lower) | np.isinf(upper)
        middle = np.where(one_sided, np.where(np.isinf(lower), -np.inf, np.inf), 0.0)
        middle = np.where(one_sided, middle, points_of(between(lower, upper)))
        return self.derivatives(np.clip(middle, first, last), lower, upper)[2]


def normal_interval(a: Array, b: Array, width: Array) -> tuple[Array, Array, Array]:
    """Minus log P(a < X < b) for X ~ N(0, 1), E[X | a < X < b] and 1 - Var[X | a < X < b].

    a < b up to ``NO_LIMIT`` in size; their distance is known better than as a difference. None of
    three forms subtracts numbers that nearly agree: the density on a narrow interval by
    quadrature; both ends in one tail by inverse Mills ratios; else the probability itself.
    """
    turned = a + b > 0.0
    a, b = np.where(turned, -b, a), np.where(turned, -a, b)  # the middle is at most 0
    width, middle = np.clip(width, TINY, NO_LIMIT), 0.5 * a + 0.5 * b
    narrow = width * np.maximum(1.0, np.abs(middle)) <= NARROW
    tail = ~narrow & (b <= 0.0)
    value, mean, bend = np.empty(a.shape), np.empty(a.shape), np.empty(a.shape)
    for form, chosen in ((narrow_form, narrow), (tail_form, tail), (wide_form, ~narrow & ~tail)):
        if chosen.any():
            parts = form(a[chosen], b[chosen], width[chosen])
            value[chosen], mean[chosen], bend[chosen] = parts
    return value, np.where(turned, -mean, mean), bend


def narrow_form(a: Array, b: Array, width: Array) -> tuple[Array, Array, Array]:
    """The density relative to the middle m of the interval is exp(-m t - t^2 / 2)."""
    middle = 0.5 * a + 0.5 * b
    t = 0.5 * width[:, None] * NODES
    masses = SHARES * np.exp(-middle[:, None] * t - 0.5 * np.square(t))
    total = np.sum(masses, axis=1)
    shift = np.sum(masses * t, axis=1) / total
    variance = np.sum(masses * np.square(t - shift[:, None]), axis=1) / total
    value = 0.5 * np.square(middle) - np.log(width * total / np.sqrt(8.0 * np.pi))
    return value, middle + shift, 1.0 - variance


def tail_form(a: Array, b: Array, width: Array) -> tuple[Array, Array, Array]:
    """An interval in the left tail, by r = phi / Phi, s = r (r + x) and the ratio of both Phi."""
    log_ratio = np.log(erfcx(-a / np.sqrt(2.0)) / erfcx(-b / np.sqrt(2.0)))
    ratio = np.exp(log_ratio - 0.5 * width * (width + 2.0 * np.abs(b)))
    odds = ratio / (1.0 - ratio)
    r_a, r_b = mills(a), mills(b)
    s_a, s_b = PROBIT.second_derivative(a), PROBIT.second_derivative(b)
    # Where a is no limit the ratio is 0, and r_a is as large as that limit.
    away = np.where(ratio > 0.0, r_a - r_b, 0.0)
    bend = s_b + odds / (1.0 - ratio) * np.square(away) - odds * (s_a - s_b)
    return -log_ndtr(b) - np.log1p(-ratio), odds * away - r_b, np.clip(bend, 0.0, 1.0)


def wide_form(a: Array, b: Array, width: Array) -> tuple[Array, Array, Array]:
    """An interval that holds 0: the probability is 1 less the mass of both tails."""
    beyond = ndtr(a) + ndtr(-b)
    probability = 1.0 - beyond
    densities = [
        np.exp(-0.5 * np.square(end)) / (np.sqrt(2.0 * np.pi) * probability) for end in (a, b)
    ]
    mean = densities[0] - densities[1]
    bend = np.square(mean) + b * densities[1] - a * densities[0]
    return -np.log1p(-beyond), mean, np.clip(bend, 0.0, 1.0)


def expected_pair(
    function: Callable[[Array], tuple[Array, Array]], mean: Array, sd: Array, width: float
) -> tuple[Array, Array]:
    """The expectations of two functions of z ~ N(mean, sd^2) that change over a width in z.

    The functions take z of some nodes at a time (n x N).

    The error of a sum over equally spaced nodes falls exponentially with their number (Trefethen
    and Weideman, SIAM Review 2014).
    """
    most = float(np.max(sd, initial=0.0)) / width
    count = min(int(np.ceil(RANGE / SPACING * max(1.0, most))), MOST_NODES)
    nodes = np.linspace(-RANGE, RANGE, 2 * count + 1)
    shares = np.exp(-0.5 * np.square(nodes))
    shares /= np.sum(shares)
    first, second = np.zeros_like(mean), np.zeros_like(mean)
    step = max(CACHED_NUMBERS // max(mean.size, 1), 1)
    for begin in range(0, nodes.size, step):
        part = slice(begin, begin + step)
        one, other = function(mean + nodes[part, None] * sd)
        first += shares[part] @ one
        second += shares[part] @ other
    return first, second


def conjugate_of_interval(
    loss: IntervalLoss, gradient: Array, lower: Array, upper: Array, unit: float
) -> Array:
    """sup over z of gradient * z - loss, from above; inf where no z has such a derivative.

    The root of l'(z) = gradient is found by safeguarded Newton steps. With p and q just below and
    above it, ``l'(p) <= gradient <= l'(q)``, the conjugate is at most ``gradient p - l(p) + (q -
    p) (gradient - l'(p))``, since its own slope is z: the last term is the square of a tiny
    distance.
    """
    least, most = loss.gradient_limits(lower, upper)
    tolerance = 1e-14 * np.where(np.isfinite(most - least), most - least, 0.0)
    inside = (gradient >= least - tolerance) & (gradient <= most + tolerance)
    # Where the loss falls to 0 the answer is 0, to within 1e-298 up to TINY.
    vanishes = ((least == 0.0) & (gradient <= TINY)) | ((most == 0.0) & (gradient >= -TINY))
    sought = np.clip(gradient, least, most)
    conjugate = np.where(inside, 0.0, np.inf)
    places = np.flatnonzero(inside & ~vanishes)
    if not places.size:
        return conjugate
    sought, lower, upper = sought[places], lower[places], upper[places]

    def excess(z: Array, chosen: IntArray) -> tuple[Array, Array]:
        _, slope, bend = loss.derivatives(z, lower[chosen], upper[chosen])
        return slope - sought[chosen], bend

    everywhere = np.arange(places.size)
    middle = loss.centre(lower, upper)
    low, high = middle - unit, middle + unit
    for k in range(BISECTIONS):
        too_high, too_low = excess(low, everywhere)[0] > 0.0, excess(high, everywhere)[0] < 0.0
        if not (too_high.any() or too_low.any()):
            break
        low = np.where(too_high, low - unit * 2.0**k, low)
        high = np.where(too_low, high + unit * 2.0**k, high)
    root = increasing_root(excess, low, high)
    away = RESULT_ROUNDING * (unit + np.abs(root - middle))
    for _ in range(REFINEMENTS):
        value, slope, _ = loss.derivatives(root - away, lower, upper)
        between_both = (slope <= sought) & (excess(root + away, everywhere)[0] >= 0.0)
        if between_both.all():
            break
        away = np.where(between_both, away, 30.0 * away)
    below = root - away
    conjugate[places] = sought * below - value + 2.0 * away * np.maximum(sought - slope, 0.0)
    return conjugate
