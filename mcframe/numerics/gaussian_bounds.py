"""Parabolas below log likelihoods, and the best Gaussian where there is an exponential instead."""

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import ExpectedLogLikelihood
from mcframe.contracts.rounding import EPS, TINY
from mcframe.runtime.machine import compiled

# A bisection of any bracket of floats ends within so many steps, and Newton's method well before.
MOST_ROOT_STEPS = 1100


def logistic_bound(
    mean: Array, variance: Array, successes: Array, failures: Array
) -> tuple[Array, Array, Array]:
    """(value, precision, constant) of a parabola below successes log s(t) + failures log s(-t).

    With s(t) = 1 / (1 + exp(-t)), ``log s(t) = t/2 - log(2 cosh(t/2))``, and the last term is
    concave in t^2, so that its tangent at xi^2 lies above it: ``log(2 cosh(t/2)) <= log(2
    cosh(xi/2)) + tanh(xi/2) (t^2 - xi^2) / (4 xi)`` for every xi. The best one for t ~ N(mean,
    variance) has ``xi^2 = mean^2 + variance`` (Jaakkola and Jordan, Bayesian parameter estimation
    via variational methods, Statistics and Computing 2000). Both numbers of observations are at
    least 0, their sum is above 0.
    """
    n = successes + failures
    xi = size_of(mean, np.sqrt(variance))
    ratio, decay = xi_over_tanh(xi), np.exp(-xi)
    lacking = 2.0 * decay / (1.0 + decay)  # 1 - tanh(xi / 2)
    # The parabola's maximum, ordered so that no two large numbers cancel.
    constant = n * (0.25 * ratio * np.square(lacking) - np.log1p(decay))
    constant = constant - successes * (failures / n) * ratio
    return (successes - failures) / n * ratio, n / (2.0 * ratio), constant


def expected_softplus(mean: Array, sd: Array) -> tuple[Array, Array, Array]:
    """The least bound on E log(1 + exp(t)) of ``logistic_bound``, and two derivatives in the mean.

    For t ~ N(mean, sd^2) it is ``mean / 2 + log(2 cosh(xi / 2))``, convex in the mean, and log(1 +
    exp(mean)) itself for sd = 0.
    """
    xi, size = size_of(mean, sd), np.abs(mean)
    ratio, decay = xi_over_tanh(xi), np.exp(-xi)
    share = np.square(np.minimum(sd / xi, 1.0))
    # xi - |mean| and 1 - |mean| / xi without cancellation.
    surplus = sd * (sd / (xi + size))
    least = surplus / xi + 2.0 * decay / (1.0 + decay) * (size / xi)
    value = np.maximum(mean, 0.0) + 0.5 * surplus + np.log1p(decay)
    first = np.where(mean > 0.0, 1.0 - 0.5 * least, 0.5 * least)
    return value, first, (1.0 - share) * decay / np.square(1.0 + decay) + 0.5 * share / ratio


def size_of(mean: Array, sd: Array) -> Array:
    """The root mean square of a Gaussian variable, clipped where ``xi_over_tanh`` needs it."""
    return np.clip(np.hypot(mean, sd), TINY, 1.0 / TINY)


def xi_over_tanh(xi: Array) -> Array:
    """xi / tanh(xi / 2), 2 at xi = 0."""
    return xi * (1.0 + np.exp(-xi)) / -np.expm1(-xi)


def expected_logistic(mean: Array, variance: Array) -> tuple[Array, Array]:
    """E s(t) and E s'(t) for t ~ N(mean, variance) and s(t) = 1 / (1 + exp(-t)).

    By sums over equally spaced nodes, whose error falls exponentially with their number (Trefethen
    and Weideman, SIAM Review 2014): it is below 1e-6.
    """
    means, variances = np.broadcast_arrays(mean, variance)
    first, second = np.empty(means.shape), np.empty(means.shape)
    numbers = np.ascontiguousarray(means).ravel(), np.ascontiguousarray(variances).ravel()
    sum_logistic(*numbers, first.ravel(), second.ravel())
    return first, second


@compiled(nogil=True)
def sum_logistic(means, variances, first, second):  # type: ignore[no-untyped-def]
    """Write the expectations of ``expected_logistic`` to ``first`` and ``second``."""
    for i in range(means.size):
        sd = np.sqrt(variances[i])
        # In standard deviations; in units of t where these are larger.
        spacing = max(0.9 / max(1.0, sd), 0.005)
        ratio = np.exp(-0.5 * spacing * spacing)
        shrink = ratio * ratio
        share, total, value, slope = 1.0, 0.0, 0.0, 0.0
        for k in range(int(5.5 / spacing) + 1):
            # The shares exp(-(k spacing)^2 / 2), each from the one before.
            for side in range(1 if k == 0 else 2):
                t = means[i] + sd * spacing * (k if side == 0 else -k)
                decay = np.exp(-abs(t))
                small = decay / (1.0 + decay)
                total += share
                value += share * (1.0 - small if t >= 0.0 else small)
                slope += share * small / (1.0 + decay)
            share *= ratio
            ratio *= shrink
        first[i], second[i] = value / total, slope / total


def tangent_bound(
    value: Array, gradient: Array, mean: Array, curvature: float
) -> tuple[Array, Array, Array]:
    """(value, precision, constant) of the parabola that touches minus a loss at the mean.

    ``-l(mean) - gradient (z - mean) - curvature (z - mean)^2 / 2`` lies below -l everywhere if no
    second derivative of l, or eigenvalue of its Hessian, is above the curvature (Boehning and
    Lindsay, Ann. Inst. Statist. Math. 1988). Every smooth loss of bounded curvature has this
    bound; some have a closer one. Of K columns mean and gradient have shape (N, K).
    """
    squares = np.square(gradient)
    squared_gradient = squares if squares.ndim == value.ndim else squares.sum(axis=-1)
    constant = -value + squared_gradient / (2.0 * curvature)
    return mean - gradient / curvature, np.full_like(mean, curvature), constant


def best_gaussian(
    likelihood: ExpectedLogLikelihood,
    prior_mean: Array,
    prior_variance: Array,
    y: Array,
    weights: Array | float = 1.0,
) -> tuple[Array, Array]:
    """(m, v) of the Gaussian that maximises an evidence lower bound of each entry by itself.

    The bound is ``weight E log p(y | z) - ((m - prior_mean)^2 + v) / (2 prior_variance) + log(v)
    / 2`` for z ~ N(m, v). With ``log p(y | z) = constant + a z - rate exp(sign z)``, e the
    expected exponential and s the prior's variance its derivatives vanish where ``m = prior_mean +
    s (a - sign e)`` and ``v = s / (1 + s e)``: one equation for log(s e), whose left side rises,
    so that there is one stationary point and it is the maximum (compare Knowles and Minka,
    NIPS 2011).

    Parameters
    ----------
    likelihood : ExpectedLogLikelihood
    prior_mean, prior_variance, y : arrays of one shape
        Variances above 0.
    weights : array or float, default 1
        At least 0: the factors of the log likelihoods.

    Returns
    -------
    m, v : arrays of that shape
    """
    prior_mean, s, y = np.broadcast_arrays(prior_mean, prior_variance, y)
    linear, rate, sign, _ = likelihood.exponential_form(y)
    linear, rate = weights * linear, weights * rate
    has_exponential = rate > 0.0
    log_rate = np.log(np.where(has_exponential, rate, 1.0)) + np.log(s)
    target = log_rate + sign * (prior_mean + s * linear)
    log_size = lambert_like_root(target, s)
    size = np.where(has_exponential, np.exp(log_size), 0.0)  # s e
    v = s / (1.0 + size)
    # Where the likelihood is more precise than the prior, prior_mean + s a and s e cancel.
    precise = sign * (log_size - log_rate - 0.5 * v)
    return np.where(size > 1.0, precise, prior_mean + s * linear - sign * size), v


def lambert_like_root(target: Array, s: Array) -> Array:
    """The w with w + exp(w) - s / (2 (1 + exp(w))) = target, for arrays of one shape."""
    half_s, targets = 0.5 * s.ravel(), target.ravel()

    def excess(w: Array, places: IntArray) -> tuple[Array, Array]:
        exponential, half = np.exp(w), half_s[places]
        value = w + exponential - half * expit(-w) - targets[places]
        return value, 1.0 + exponential + half * expit(w) * expit(-w)

    # w + exp(w) lies between the target and the target + s / 2.
    most = target + 0.5 * s
    high = np.where(most >= 1.0, np.log(np.maximum(most, 1.0)), np.minimum(most, 0.0))
    least = np.maximum(target, 1.0)
    low = np.where(target >= 1.0, np.log(np.maximum(least - np.log(least), 1.0)), target - 1.0)
    return increasing_root(excess, low, high)


def increasing_root(
    function: Callable[[Array, IntArray], tuple[Array, Array]], low: Array, high: Array
) -> Array:
    """The roots of many increasing functions, each in its bracket, to a rounding of 1 + |root|.

    Newton's method for all at once, kept inside the bracket that signs have shown so far, which
    is cut in half where a step leaves it or does not halve the one before.

    Parameters
    ----------
    function : callable
        Of some x and their places: the values of those functions and their derivatives, positive.
    low, high : arrays (N,), of any shape
        Where a function is at most 0, and at least 0.
    """
    shape, low, high = low.shape, low.ravel().copy(), high.ravel().copy()
    x, before = 0.5 * (low + high), high - low
    active = np.arange(x.size)
    for _ in range(MOST_ROOT_STEPS):
        points = x[active]
        value, derivative = function(points, active)
        low[active] = np.where(value <= 0.0, points, low[active])
        high[active] = np.where(value >= 0.0, points, high[active])
        left, right = low[active], high[active]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = -value / derivative
            inside = (points + step > left) & (points + step < right)
            small = np.abs(step) <= 2.0 * EPS * (1.0 + np.abs(points))
            halves = np.abs(step) <= 0.5 * np.abs(before[active])
        next_points = np.where(
            small | (inside & halves), points + step, left + 0.5 * (right - left)
        )
        before[active] = next_points - points
        x[active] = next_points
        active = active[
            ~(small | (next_points == points) | (right - left <= EPS * (1.0 + np.abs(points))))
        ]
        if active.size == 0:
            break
    return x.reshape(shape)
