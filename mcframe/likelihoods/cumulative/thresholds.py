"""The thresholds of a cumulative logit model, fitted to given positions on its scale."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.rounding import EPS
from mcframe.likelihoods.cumulative.cumulative_logit import gap_loss, logistic_parts
from mcframe.numerics.machine.clock import check_time

__all__ = ["best_thresholds"]

MAX_STEPS = 200
# What is added to each diagonal entry of the Hessian, as a fraction of the sizes of its slopes:
# far out, where second derivatives underflow to 0, a step stays defined.
DAMPING = 1e-12
# The longest first step; it doubles while steps of full length succeed.
REACH = 8.0
# A step that promises less than so many units in the last place of the value is the last one.
LAST = 16.0
# The share of the way to a collision with its neighbour that a threshold may go in one step.
TO_BOUNDARY = 0.9
SUFFICIENT = 1e-4
# Starts with narrower gaps are not used: a gap grows by a factor of two a step at most.
LEAST_GAP = 1e-9
# How far beyond all positions a threshold lies whose best place is infinite: exp(-x)
# underflows to 0 well before.
FAR = 1000.0


def best_thresholds(
    z: Array, code: IntArray, weights: Array, levels: int, start: Array | None
) -> Array:
    """The increasing thresholds t that minimise the sum of weights * loss at given positions z.

    The loss of a position with code c is ``log(1 + exp(z - t_c)) + log(1 + exp(t_{c-1} - z)) -
    log(1 - exp(t_{c-1} - t_c))``, without the terms of t_{-1} and t_{levels-1}. It is convex in
    t, and strictly so on the thresholds between levels that occur, which damped Newton steps
    find. A level that does not occur has no loss. Within the observed range its thresholds
    attract each other and meet in the limit: they are one number here, but for a rounding
    that keeps them increasing. Beyond the range the best place is infinite: they lie ``FAR``
    beyond every position, where their losses are exactly 0.

    Parameters
    ----------
    z, code, weights : arrays of one length
        Positions, levels 0, ..., levels - 1, and weights of at least 0.
    levels : int
    start : array (levels - 1,), optional
        Where to begin; close to the answer two or three steps are enough.
    """
    counts = np.bincount(code, weights, minlength=levels)
    # A share of less than a rounding asks for a gap of less than a rounding: for none.
    seen = np.flatnonzero(counts > EPS * np.sum(counts))
    if seen.size == 0:
        return np.arange(levels - 1) - 0.5 * (levels - 2)
    groups = [members(z, code, weights, level) for level in seen.tolist()]
    near = None if start is None else start[seen[:-1]]
    if near is None or not np.all(np.isfinite(near)) or np.any(np.diff(near) < LEAST_GAP):
        passed, left = np.cumsum(counts[seen])[:-1], np.cumsum(counts[seen][::-1])[-2::-1]
        near = apart(np.average(z, weights=weights) + np.log(passed / left), LEAST_GAP)
    fitted = damped_newton(near, groups)
    lowest = min(np.min(position) for position, _ in groups)
    highest = max(np.max(position) for position, _ in groups)
    below = min([lowest, *fitted[:1]]) - FAR
    above = max([highest, *fitted[-1:]]) + FAR
    # Threshold k stands above as many observed levels as there are up to level k.
    place = np.searchsorted(seen, np.arange(levels - 1), side="right")
    return apart(np.concatenate([[below], fitted, [above]])[place], EPS)


def members(z: Array, code: IntArray, weights: Array, level: int) -> tuple[Array, Array]:
    """Positions and weights of one level."""
    here = (code == level) & (weights > 0.0)
    return z[here], weights[here]


def apart(thresholds: Array, gap: float) -> Array:
    """Numbers moved up where needed to differ by ``gap``, relatively above 1."""
    moved = thresholds.copy()
    for k in range(1, moved.size):
        moved[k] = max(moved[k], moved[k - 1] + gap * max(1.0, abs(float(moved[k - 1]))))
    return moved


@attrs.frozen(eq=False)
class Local:
    """The sum of losses at some thresholds: value, gradient, tridiagonal Hessian.

    ``size`` holds the sum of the sizes of the slopes that each entry of the gradient is the
    sum of.
    """

    value: float
    slope: Array
    size: Array
    hessian: Array


def evaluate(thresholds: Array, groups: list[tuple[Array, Array]]) -> Local:
    """All sums at once, level by level."""
    n = thresholds.size
    value = 0.0
    slope, size, hessian = np.zeros(n), np.zeros(n), np.zeros((n, n))
    for level, (z, weights) in enumerate(groups):
        for k, side in ((level, -1.0), (level - 1, 1.0)):
            if 0 <= k < n:
                losses, slopes, bends = logistic_parts(side * (thresholds[k] - z))
                value += float(weights @ losses)
                slope[k] += side * (weights @ slopes)
                size[k] += weights @ slopes
                hessian[k, k] += weights @ bends
        if 0 < level < n:
            both = slice(level - 1, level + 1)
            gap = np.diff(thresholds[both])
            total = float(np.sum(weights))
            value += total * float(gap_loss(gap)[0])
            decay, lacking = float(np.exp(-gap[0])), float(-np.expm1(-gap[0]))
            pull = total * decay / lacking
            bend = pull / lacking
            slope[both] += (pull, -pull)
            size[both] += pull
            hessian[both, both] += ((bend, -bend), (-bend, bend))
    return Local(value, slope, size, hessian)


def damped_newton(thresholds: Array, groups: list[tuple[Array, Array]]) -> Array:
    """Newton's method with a line search, until the slopes vanish up to rounding.

    Where what a step promises is below the rounding of the value, that step is the last one: it
    squares the error once more, and no comparison of values could tell another one from none.
    """
    reached = max(float(np.max(np.abs(z))) for z, _ in groups)
    rounding = EPS * (8.0 + np.log2(sum(z.size for z, _ in groups)))
    here = evaluate(thresholds, groups)
    reach = REACH
    for _ in range(MAX_STEPS):
        check_time()
        if np.all(np.abs(here.slope) <= rounding * here.size):
            break
        step = newton_step(here)
        # A move well below the rounding of z - t changes nothing that can be seen.
        if np.all(np.abs(step) <= 0.25 * EPS * (np.abs(thresholds) + reached)):
            break
        longest = min(1.0, reach / float(np.max(np.abs(step))), room(thresholds, step))
        if longest == 1.0 and -float(here.slope @ step) <= LAST * EPS * here.value:
            return thresholds + step
        found = line_search(thresholds, longest * step, here, groups)
        if found is None:
            break
        share, thresholds, here = found
        reach *= 2.0 if share == 1.0 else 1.0
    return thresholds


def newton_step(here: Local) -> Array:
    """The Newton step, defined where second derivatives underflow."""
    damping = DAMPING * here.size + np.finfo(np.float64).tiny
    return np.linalg.solve(here.hessian + np.diag(damping), -here.slope)


def room(thresholds: Array, step: Array) -> float:
    """The share of the step that keeps thresholds increasing."""
    gaps, closing = np.diff(thresholds), -np.diff(step)
    shares = TO_BOUNDARY * gaps[closing > 0.0] / closing[closing > 0.0]
    return float(np.min(shares, initial=np.inf))


def line_search(
    thresholds: Array, step: Array, here: Local, groups: list[tuple[Array, Array]]
) -> tuple[float, Array, Local] | None:
    """The first of the step, half of it, ... that lowers the value enough: share, point, sums."""
    falls = float(here.slope @ step)
    # Close to the answer the value cannot show a gain below its own rounding.
    noise = 8.0 * EPS * here.value
    for halvings in range(60):
        share = 0.5**halvings
        moved = thresholds + share * step
        if np.array_equal(moved, thresholds):
            break
        # A gap below the rounding of its thresholds would be none.
        if np.any(np.diff(moved) <= 0.0):
            continue
        there = evaluate(moved, groups)
        if there.value <= here.value + SUFFICIENT * share * falls + noise:
            return share, moved, there
    return None
