"""Ordered levels cut out of a logistic distribution: their losses, and their best thresholds."""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import SumsOverEntries
from mcframe.contracts.limits import MAX_FIRST_STEP, MOST_STEPS
from mcframe.contracts.rounding import (
    DAMPING,
    EPS,
    FAR_PREDICTOR,
    RESULT_ROUNDING,
    SUMMAND_ROUNDING,
    TINY,
)
from mcframe.numerics.gaussian_bounds import expected_softplus
from mcframe.numerics.quasi_newton import ARMIJO
from mcframe.runtime.machine import check_time

# The exponential of this is far from overflowing.
LARGEST_EXPONENT = 300.0
# The share of the way to a collision with its neighbour that a threshold may go in one step.
COLLISION_SHARE = 0.9


def logistic_parts(x: Array) -> tuple[Array, Array, Array]:
    """log(1 + exp(x)), its first and its second derivative; x may be infinite."""
    # One exponential serves all: exp(-|x|) is at most 1 and cannot overflow.
    decay = np.exp(-np.abs(x))
    first = np.where(x >= 0.0, 1.0, decay) / (1.0 + decay)
    return np.maximum(x, 0.0) + np.log1p(decay), first, decay / np.square(1.0 + decay)


def gap_loss(gap: Array) -> Array:
    """-log(1 - exp(-gap)) for gaps above 0, accurate for narrow and for infinite ones."""
    # Below log 2 the difference loses digits, above it the logarithm does (Maechler, 2012).
    narrow = np.minimum(gap, 1.0)
    wide = np.maximum(gap, 0.5)
    return np.where(gap < np.log(2.0), -np.log(-np.expm1(-narrow)), -np.log1p(-np.exp(-wide)))


def centred_conjugate(q: Array, half: Array) -> Array:
    """The conjugate of a middle level with thresholds -half and half, at gradients of size q.

    The loss is ``log(2 cosh half + 2 cosh z)`` up to a constant. Its gradient equals q where
    ``sinh z - q cosh z = q cosh half``, a quadratic in exp(z) with one positive root:
    ``z = artanh q + arsinh(q cosh(half) / sqrt(1 - q^2))``, free of cancellation.
    """
    short = 1.0 - q
    # At q = 1 the supremum is reached at infinity; the next smaller number shows its value.
    shorter = np.maximum(short, 1e-16)
    log_cosh = half + np.log1p(np.exp(-2.0 * half)) - np.log(2.0)
    log_ratio = np.log(np.maximum(q, TINY)) + log_cosh - 0.5 * np.log(shorter * (1.0 + q))
    z = 0.5 * np.log((1.0 + q) / shorter) + np.where(
        log_ratio > LARGEST_EXPONENT,
        log_ratio + np.log(2.0),
        np.arcsinh(np.exp(np.minimum(log_ratio, LARGEST_EXPONENT))),
    )
    # q z - log(1 + exp(z - half)) - log(1 + exp(-z - half)) + log(1 - exp(-2 half)), ordered
    # so that large numbers leave before they are rounded.
    inner = np.minimum(z, half) - np.log1p(np.exp(-np.abs(z - half)))
    return inner - short * z - np.log1p(np.exp(-z - half)) - gap_loss(2.0 * half)


@attrs.frozen(eq=False)
class Positions:
    """Positions on the scale and their weights, level by level: what thresholds are fitted to.

    They are asked for sums alone, so that they may lie in several places. Each group has
    positions, weights and standard deviations, None where positions are known; the loss of one
    that is not is the least bound on its expectation, ``expected_softplus`` at each threshold.
    """

    groups: tuple[tuple[Array, Array, Array | None], ...]

    @classmethod
    def of(
        cls, z: Array, code: IntArray, weights: Array, levels: int, sd: Array | None = None
    ) -> "Positions":
        """Positions z with levels 0, ..., levels - 1, and weights of at least 0."""
        return cls(tuple(members(z, code, weights, level, sd) for level in range(levels)))

    def sums(self, asked: tuple[IntArray, Array] | None) -> tuple[Any, Array]:
        """Sums over the positions, and numbers of which the largest of all parts counts.

        For None the weights of each level, the number of its positions and their weighted sum; the
        largest position of each level and the largest of -z. For levels and the thresholds between
        them the sum of the losses, without the terms of the gaps.
        """
        if asked is not None:
            seen, thresholds = asked
            return sums_at(thresholds, [self.groups[level] for level in seen]), np.zeros(0)
        weights = np.array([np.sum(weights) for _, weights, _ in self.groups])
        counts = np.array([z.size for z, _, _ in self.groups])
        moments = np.array([weights @ z for z, weights, _ in self.groups])
        sides = [np.max(s * z, initial=-np.inf) for s in (1.0, -1.0) for z, _, _ in self.groups]
        return (weights, counts, moments), np.array(sides)


def best_thresholds(
    sums_over_positions: SumsOverEntries, levels: int, start: Array | None
) -> Array:
    """The increasing thresholds t that minimise the sum of weights * loss at given positions z.

    The loss of a position with code c is ``log(1 + exp(z - t_c)) + log(1 + exp(t_{c-1} - z)) -
    log(1 - exp(t_{c-1} - t_c))``, without the terms of t_{-1} and t_{levels-1}. It is convex in
    t, and strictly so on the thresholds between levels that occur, which damped Newton steps
    find. A level that does not occur has no loss. Within the observed range its thresholds
    attract each other and meet in the limit: they are one number here, but for a rounding
    that keeps them increasing. Beyond the range the best place is infinite: they lie
    ``FAR_PREDICTOR`` beyond every position, where their losses are exactly 0.

    Parameters
    ----------
    sums_over_positions : callable
        ``Positions.sums``, or the sums and the largest numbers of those of several parts.
    levels : int
    start : array (levels - 1,), optional
        Where to begin; close to the answer two or three steps are enough.
    """
    (weights, counts, moments), largest = sums_over_positions(None)
    # A share of less than a rounding asks for a gap of less than a rounding: for none.
    seen = np.flatnonzero(weights > EPS * np.sum(weights))
    if seen.size == 0:
        return np.arange(levels - 1) - 0.5 * (levels - 2)
    near = None if start is None else start[seen[:-1]]
    if near is None or not np.all(np.isfinite(near)) or np.any(np.diff(near) < RESULT_ROUNDING):
        passed, left = np.cumsum(weights[seen])[:-1], np.cumsum(weights[seen][::-1])[-2::-1]
        mean = np.sum(moments) / np.sum(weights)
        near = apart(mean + np.log(passed / left), RESULT_ROUNDING)

    def at(thresholds: Array) -> Local:
        return with_gaps(sums_over_positions((seen, thresholds))[0], thresholds, weights[seen])

    highest, lowest = np.max(largest[:levels][seen]), -np.max(largest[levels:][seen])
    reached, count = max(abs(float(highest)), abs(float(lowest))), int(np.sum(counts[seen]))
    fitted = damped_newton(near, at, reached, count)
    below = min([lowest, *fitted[:1]]) - FAR_PREDICTOR
    above = max([highest, *fitted[-1:]]) + FAR_PREDICTOR
    # Threshold k stands above as many observed levels as there are up to level k.
    place = np.searchsorted(seen, np.arange(levels - 1), side="right")
    return apart(np.concatenate([[below], fitted, [above]])[place], EPS)


def members(
    z: Array, code: IntArray, weights: Array, level: int, sd: Array | None
) -> tuple[Array, Array, Array | None]:
    """Positions, weights and standard deviations of one level."""
    selected = (code == level) & (weights > 0.0)
    return z[selected], weights[selected], None if sd is None else sd[selected]


def apart(thresholds: Array, gap: float) -> Array:
    """Numbers moved up where needed to differ by ``gap``, relatively above 1."""
    moved = thresholds.copy()
    for k in range(1, moved.size):
        moved[k] = max(moved[k], moved[k - 1] + gap * max(1.0, abs(float(moved[k - 1]))))
    return moved


@attrs.frozen(eq=False)
class Local:
    """The sum of losses at some thresholds: value, gradient, tridiagonal Hessian.

    ``size`` holds the sum of the sizes of the gradients that each entry of the gradient is the
    sum of.
    """

    value: float
    gradient: Array
    size: Array
    hessian: Array


def sums_at(
    thresholds: Array, groups: list[tuple[Array, Array, Array | None]]
) -> tuple[float, Array, Array, Array]:
    """Losses, gradients, their sizes and second derivatives in each threshold, gaps aside."""
    n = thresholds.size
    value = 0.0
    gradient, size, bend = np.zeros(n), np.zeros(n), np.zeros(n)
    for level, (z, weights, sd) in enumerate(groups):
        for k, side in ((level, -1.0), (level - 1, 1.0)):
            if 0 <= k < n:
                x = side * (thresholds[k] - z)
                losses, gradients, bends = (
                    logistic_parts(x) if sd is None else expected_softplus(x, sd)
                )
                value += float(weights @ losses)
                gradient[k] += side * (weights @ gradients)
                size[k] += weights @ gradients
                bend[k] += weights @ bends
    return value, gradient, size, bend


def with_gaps(sums: Any, thresholds: Array, weights: Array) -> Local:
    """All sums at some thresholds, with those of the gaps of levels of these weights."""
    value, (gradient, size) = float(sums[0]), (part.copy() for part in sums[1:3])
    hessian = np.diag(sums[3])
    for level in range(1, thresholds.size):
        both, total = slice(level - 1, level + 1), float(weights[level])
        gap = np.diff(thresholds[both])
        value += total * float(gap_loss(gap)[0])
        decay, lacking = float(np.exp(-gap[0])), float(-np.expm1(-gap[0]))
        pull = total * decay / lacking
        bend = pull / lacking
        gradient[both] += (pull, -pull)
        size[both] += pull
        hessian[both, both] += ((bend, -bend), (-bend, bend))
    return Local(value, gradient, size, hessian)


def damped_newton(
    thresholds: Array, at: Callable[[Array], Local], reached: float, count: int
) -> Array:
    """Newton's method with a line search, until the gradients vanish up to rounding.

    Where what a step promises is below the rounding of the value, that step is the last one: it
    squares the error once more, and no comparison of values could tell another one from none.
    ``reached`` is the size of the farthest of so many positions.
    """
    rounding = EPS * (8.0 + np.log2(count))
    current = at(thresholds)
    reach = MAX_FIRST_STEP
    for _ in range(MOST_STEPS):
        check_time()
        if np.all(np.abs(current.gradient) <= rounding * current.size):
            break
        step = newton_step(current)
        # A move well below the rounding of z - t changes nothing that can be seen.
        if np.all(np.abs(step) <= 0.25 * EPS * (np.abs(thresholds) + reached)):
            break
        longest = min(1.0, reach / float(np.max(np.abs(step))), largest_step(thresholds, step))
        if longest == 1.0 and -float(current.gradient @ step) <= SUMMAND_ROUNDING * current.value:
            return thresholds + step
        accepted = backtrack(thresholds, longest * step, current, at)
        if accepted is None:
            break
        share, thresholds, current = accepted
        reach *= 2.0 if share == 1.0 else 1.0
    return thresholds


def newton_step(current: Local) -> Array:
    """The Newton step, defined where second derivatives underflow."""
    damping = DAMPING * current.size + TINY
    return np.linalg.solve(current.hessian + np.diag(damping), -current.gradient)


def largest_step(thresholds: Array, step: Array) -> float:
    """The share of the step that keeps thresholds increasing."""
    gaps, closing = np.diff(thresholds), -np.diff(step)
    shares = COLLISION_SHARE * gaps[closing > 0.0] / closing[closing > 0.0]
    return float(np.min(shares, initial=np.inf))


def backtrack(
    thresholds: Array, step: Array, current: Local, at: Callable[[Array], Local]
) -> tuple[float, Array, Local] | None:
    """The first of the step, half of it, ... that lowers the value enough: share, point, sums."""
    falls = float(current.gradient @ step)
    # Close to the answer the value cannot show a gain below its own rounding.
    noise = 8.0 * EPS * current.value
    for halvings in range(60):
        share = 0.5**halvings
        moved = thresholds + share * step
        if np.array_equal(moved, thresholds):
            break
        # A gap below the rounding of its thresholds would be none.
        if np.any(np.diff(moved) <= 0.0):
            continue
        trial = at(moved)
        if trial.value <= current.value + ARMIJO * share * falls + noise:
            return share, moved, trial
    return None
