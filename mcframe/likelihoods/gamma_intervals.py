"""Probabilities of intervals of positive values and of counts, by incomplete gamma functions.

With x = exp(t) let F be the regularised lower incomplete gamma function of a shape a at x, Q = 1 -
F the upper one, and f = x^a exp(-x) / Gamma(a) the slope of F in t. A gamma variable of mean
exp(z) lies below u with probability F at t = log(a u) - z. A Poisson count of mean exp(z) is at
least k with probability F of shape k at t = z. All three functions are log-concave in t, since f
is, and so is the probability of any interval.
"""

from collections.abc import Callable

import attrs
import numpy as np
from scipy.special import gammainc, gammaincc, gammaln

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.rounding import EPS, LARGEST_MODERATE, TINY
from mcframe.likelihoods.intervals import NODES, SHARES, BoundedByTangents

# Below this the functions of SciPy are not used: a factor more and they would underflow.
SMALLEST = 1e-280
# Exponents of larger size over- or underflow.
LARGEST_EXPONENT = 700.0
# Steps of a series or of a continued fraction, both of which converge well before.
MOST_TERMS = 100_000
# Predictors at which second derivatives are compared: from one to the next they change little.
SAMPLES = 17


def lower_tail(a: Array, t: Array) -> tuple[Array, Array, Array]:
    """log F, its slope r = f / F in t, and minus the second derivative r (r - a + x)."""
    x = np.exp(np.minimum(t, LARGEST_EXPONENT))
    mass = gammainc(a, x)
    usual = mass > SMALLEST
    log_f = a * t - x - gammaln(a)
    logs = np.log1p(-np.minimum(gammaincc(a, x), 0.5))
    logs = np.where(mass > 0.5, logs, np.log(np.where(usual, mass, 1.0)))
    slope = np.exp(np.where(usual, log_f - logs, 0.0))
    bend = slope * (slope - a + x)
    far = np.flatnonzero(~usual)
    if far.size:
        shape, at = a[far], x[far]
        term, total, weighted = np.ones(far.size), np.ones(far.size), np.zeros(far.size)
        for k in range(1, MOST_TERMS):
            term = term * at / (shape + k)
            total, weighted = total + term, weighted + k * term
            if np.all(k * term <= EPS * weighted + TINY):
                break
        logs[far] = log_f[far] - np.log(shape) + np.log(total)
        slope[far] = shape / total
        bend[far] = slope[far] * weighted / total
    return logs, slope, np.maximum(bend, 0.0)


def upper_tail(a: Array, t: Array) -> tuple[Array, Array, Array]:
    """log Q, minus its slope q = f / Q in t, and minus the second derivative q (q + a - x)."""
    with np.errstate(over="ignore"):
        x = np.exp(t)
    beyond = x > LARGEST_MODERATE
    x = np.minimum(x, LARGEST_MODERATE)
    mass = gammaincc(a, x)
    usual = mass > SMALLEST
    log_f = a * np.minimum(t, LARGEST_EXPONENT) - x - gammaln(a)
    logs = np.log1p(-np.minimum(gammainc(a, x), 0.5))
    logs = np.where(mass > 0.5, logs, np.log(np.where(usual, mass, 1.0)))
    slope = np.exp(np.where(usual, log_f - logs, 0.0))
    bend = slope * (slope + a - x)
    far = np.flatnonzero(~usual | (x > a + 10.0 * np.sqrt(a) + 10.0))
    if far.size:
        excess = 1.0 + remainder(a[far], x[far])
        slope[far] = x[far] - a[far] + excess
        bend[far] = slope[far] * excess
        logs[far] = np.where(usual[far], logs[far], log_f[far] - np.log(slope[far]))
    return (
        np.where(beyond, -np.inf, logs),
        np.where(beyond, np.inf, slope),
        np.where(beyond, np.inf, np.maximum(bend, 0.0)),
    )


def remainder(a: Array, x: Array) -> Array:
    """f / Q less x + 1 - a, for x far above a, by Lentz's method (Gautschi, ACM TOMS 1979)."""
    b = x + 3.0 - a
    c, d = np.full_like(x, 1.0 / TINY), 1.0 / b
    h = (a - 1.0) * d
    for k in range(2, MOST_TERMS):
        numerator = -k * (k - a)
        b = b + 2.0
        d = 1.0 / (numerator * d + b)
        c = b + numerator / c
        h = h * (c * d)
        if np.all(np.abs(c * d - 1.0) <= EPS):
            break
    return h


Tail = tuple[Array, Array, Array]


def log_difference(larger: Tail, smaller: Tail, is_there: Mask) -> Tail:
    """The log of the difference of two masses by their logs, with its derivatives.

    Each is a log with its first and second derivative; where the smaller one ``is_there`` not, it
    is 0. No two numbers that nearly agree are subtracted where the smaller mass is much smaller.
    """
    is_there = is_there & np.isfinite(larger[0])
    log_ratio = np.where(is_there, smaller[0] - np.where(is_there, larger[0], 0.0), -np.inf)
    ratio = np.exp(np.minimum(log_ratio, -EPS))
    odds = ratio / (1.0 - ratio)
    with np.errstate(invalid="ignore"):  # of two infinite numbers
        slope, bend = (
            np.where(ratio > 0.0, low - high, 0.0)
            for low, high in zip(smaller[1:], larger[1:], strict=True)
        )
    return (
        larger[0] + np.log1p(-ratio),
        larger[1] - odds * slope,
        larger[2] - odds / (1.0 - ratio) * np.square(slope) - odds * bend,
    )


def log_mass(
    *sides: tuple[Mask, Tail, Callable[[Array, Array], Tail], Array, Array, Mask],
) -> Tail:
    """The log of the mass of intervals, with its derivatives, by the smaller two masses.

    Each side has the intervals for which it is, the larger mass, the tail that the smaller one is
    with its shape and place, and where there is one.
    """
    answers = [np.empty(sides[0][0].shape) for _ in range(3)]
    for chosen, larger, tail, shape, at, is_there in sides:
        if chosen.any():
            logs, slope, bend = larger
            smaller = tail(shape[chosen], at[chosen])
            masses = logs[chosen], slope[chosen], bend[chosen]
            parts = log_difference(masses, smaller, is_there[chosen])
            for answer, part in zip(answers, parts, strict=True):
                answer[chosen] = part
    return answers[0], answers[1], answers[2]


def lower_of(a: Array, t: Array) -> Tail:
    """log F and its derivatives in t."""
    logs, slope, bend = lower_tail(a, t)
    return logs, slope, -bend


def upper_of(a: Array, t: Array) -> Tail:
    """log Q and its derivatives in t."""
    logs, slope, bend = upper_tail(a, t)
    return logs, -slope, -bend


@attrs.frozen
class LogLinkIntervals(BoundedByTangents):
    """The limits of positive values and of counts, where z is the log of the mean."""

    @property
    def curvature(self) -> float:  # type: ignore[override]
        """No bound, for z towards -inf or inf."""
        return np.inf

    def centre(self, lower: Array, upper: Array) -> Array:
        """The log of a number within the limits, above 0."""
        least = np.where(lower > 0.0, lower, np.where(np.isfinite(upper), 0.5 * upper, 1.0))
        largest = np.where(np.isfinite(upper), upper, least)
        return np.log(0.5 * least + 0.5 * np.maximum(largest, least))

    def knots(self, lower: Array, upper: Array, distances: tuple[float, ...]) -> list[Array]:
        """Predictors on both sides of the centre."""
        centre = self.centre(lower, upper)
        return [centre + sign * distance for distance in (0.0, 1.5) for sign in (-1.0, 1.0)]

    def least_bend(self, first: Array, last: Array, lower: Array, upper: Array) -> Array:
        """Nine tenths of the least second derivative at some predictors between the two."""
        bends = [
            self.derivatives(first + share * (last - first), lower, upper)[2]
            for share in np.linspace(0.0, 1.0, SAMPLES)
        ]
        return 0.9 * np.min(bends, axis=0)


@attrs.frozen
class GammaIntervals(LogLinkIntervals):
    """Y is a gamma variable of this shape and of mean exp(z)."""

    shape: float

    def invalid(self, lower: Array, upper: Array) -> Mask:
        """True where no positive number lies between the limits, or all do."""
        return ~(lower < upper) | (upper <= 0.0) | ((lower <= 0.0) & np.isinf(upper))

    def gradient_limits(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """-inf and the shape, 0 on a side without a limit."""
        return (
            np.where(lower > 0.0, -np.inf, 0.0),
            np.where(np.isfinite(upper), self.shape, 0.0),
        )

    def derivatives(self, z: Array, lower: Array, upper: Array) -> tuple[Array, Array, Array]:
        """Minus the log of F(b) - F(a) = Q(a) - Q(b), whichever two are smaller."""
        has_lower, has_upper = lower > 0.0, np.isfinite(upper)
        below, above = np.where(has_lower, lower, upper), np.where(has_upper, upper, lower)
        a, b = np.log(self.shape * below) - z, np.log(self.shape * above) - z
        shape = np.full(z.shape, self.shape)
        left, right = lower_of(shape, b), upper_of(shape, a)
        by_left = ~has_lower | (has_upper & (left[0] <= right[0]))
        value, slope, bend = log_mass(
            (by_left, left, lower_of, shape, a, has_lower),
            (~by_left, right, upper_of, shape, b, has_upper),
        )
        narrow = np.flatnonzero(self.is_narrow(a, b) & has_lower & has_upper)
        if narrow.size:
            width = np.log1p((upper[narrow] - lower[narrow]) / lower[narrow])
            value[narrow], slope[narrow], bend[narrow] = self.narrow_form(a[narrow], width)
        return -value, slope, np.maximum(-bend, 0.0)

    def is_narrow(self, a: Array, b: Array) -> Mask:
        """True where the log density changes by less than about 1 between two logs."""
        with np.errstate(over="ignore"):
            x = np.exp(np.minimum(b, LARGEST_EXPONENT))
        return (b - a) * (1.0 + np.abs(self.shape - x) + np.sqrt(x)) <= 1.0

    def narrow_form(self, a: Array, width: Array) -> Tail:
        """A quadrature over the interval, relative to the density in its middle m.

        The slope of the log density is g = shape - exp(t): the derivatives are E[g] and Var[g] -
        E[exp(t)].
        """
        middle = a + 0.5 * width
        s = 0.5 * width[:, None] * NODES
        x = np.exp(middle)[:, None]
        masses = SHARES * np.exp(self.shape * s - x * np.expm1(s))
        total = np.sum(masses, axis=1)
        shares, gradients = masses / total[:, None], self.shape - x * np.exp(s)
        mean = np.sum(shares * gradients, axis=1)
        variance = np.sum(shares * np.square(gradients - mean[:, None]), axis=1)
        log_density = self.shape * middle - x[:, 0] - gammaln(self.shape)
        value = log_density + np.log(0.5 * width * total)
        return value, mean, variance - (self.shape - mean)


@attrs.frozen
class PoissonIntervals(LogLinkIntervals):
    """Y is a Poisson count of mean exp(z).

    The second derivative is exp(z) less the variance of Y between the limits. It is not negative:
    a birth-death process with the rates exp(z) below the upper limit and k above the lower one has
    a spectral gap of 1 at least, so that this variance is at most exp(z) (Caputo, Dai Pra and
    Posta, Ann. Inst. Henri Poincare 2009).
    """

    def centre(self, lower: Array, upper: Array) -> Array:
        """The log of a number within the limits and 1/2, defined for a count of 0 as well."""
        return super().centre(lower + 0.5, upper + 0.5)

    def counts(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """The least and the largest count within the limits."""
        return np.maximum(np.ceil(lower), 0.0), np.floor(upper)

    def invalid(self, lower: Array, upper: Array) -> Mask:
        """True where no count lies between the limits, or all do."""
        least, most = self.counts(lower, upper)
        return ~(lower < upper) | ~(least <= most) | ((least <= 0.0) & np.isinf(most))

    def gradient_limits(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Minus the least count, and inf, 0 without an upper limit."""
        least, most = self.counts(lower, upper)
        return -least, np.where(np.isfinite(most), np.inf, 0.0)

    def derivatives(self, z: Array, lower: Array, upper: Array) -> tuple[Array, Array, Array]:
        """Minus the log of F(least) - F(most + 1), or of Q(most + 1) - Q(least)."""
        least, most = self.counts(lower, upper)
        has_lower, has_upper = least > 0.0, np.isfinite(most)
        below, above = np.maximum(least, 1.0), np.where(has_upper, most + 1.0, 1.0)
        left, right = lower_of(below, z), upper_of(above, z)
        by_left = ~has_upper | (has_lower & (left[0] <= right[0]))
        value, slope, bend = log_mass(
            (by_left, left, lower_of, above, z, has_upper),
            (~by_left, right, upper_of, below, z, has_lower),
        )
        return -value, -slope, np.maximum(-bend, 0.0)
