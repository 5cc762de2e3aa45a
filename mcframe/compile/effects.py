"""Unpenalised effects that no single column decides: rows and columns together, classes."""

from typing import Any

import numpy as np

from mcframe.compile.bias import FAR
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import Likelihood, TwiceDifferentiable

__all__ = [
    "absent_effects",
    "best_effects",
    "extreme_effects",
    "falling_effects",
    "gathered",
    "without_effects",
]

# Slope sums below this fraction of the sums of their sizes are rounding.
LEAST = 1e-9
PRECISION, NEARLY, TINY = 1e-13, 1e-10, 1e-300
MAX_NEWTON, MAX_CG, REFINEMENTS = 60, 200, 3
# Armijo's constant, and the shortest step that is tried.
DECREASE, SHORTEST = 1e-4, 1e-12


def best_effects(
    likelihood: Likelihood,
    z: Array,
    y: Array,
    weights: Array | float,
    groups: IntArray,
    start: Array,
    fixed: Array,
) -> Array:
    """argmin over e of sum over entries of w l(z + sum of the effects of its groups, y).

    Newton's method with a line search; the Newton system, whose matrix is a weighted graph of
    groups, by conjugate gradients with its diagonal as preconditioner. It is singular where
    effects can be traded for each other (a constant from all rows to all columns), which
    conjugate gradients from 0 do not notice. At the answer the slopes of each group sum to 0.

    Parameters
    ----------
    z : array (N,) or (N, K)
    groups : integer array, shape of z and one more axis
        The effects that add to each number of z.
    start, fixed : arrays (n_effects,)
        Where to begin; the value of those effects that stay as they are, 0 for the others.
    """
    assert isinstance(likelihood, TwiceDifferentiable)
    free = fixed == 0.0
    effects = np.where(free, start, fixed)
    stretch = weights if z.ndim == 1 or np.ndim(weights) == 0 else np.asarray(weights)[:, None]
    value, slope = likelihood.value_and_slope(z + added(effects, groups), y)
    if not np.all(np.isfinite(slope)):  # an overflow: begin where no predictor is above 0
        effects = np.where(free, -highest(z, groups, effects.size), fixed)
        value, slope = likelihood.value_and_slope(z + added(effects, groups), y)
    total, last = float(np.sum(weights * value)), np.inf
    # What is added to the Hessian, in shares: where a loss is flat, as Huber's in its tails, it
    # bends nothing though its slope is not 0.
    bounded = np.isfinite(likelihood.curvature) and not likelihood.quadratic
    bound = likelihood.curvature if bounded else 0.0
    steepest = bound * gathered(stretch * np.ones_like(z), groups, effects.size)
    for _ in range(MAX_NEWTON):
        gradient = np.where(free, gathered(stretch * slope, groups, effects.size), 0.0)
        size = gathered(np.abs(stretch * slope), groups, effects.size)
        off = float(np.max(np.abs(gradient) / np.maximum(size, floor_of(size))))
        # Rounding lets the sums fall only so far: then no step helps any more.
        if off <= PRECISION or (off <= NEARLY and off > 0.1 * last):
            break
        last = off
        shifted = z + added(effects, groups)
        damping = min(0.1, off) * steepest
        direction = newton_direction(
            likelihood, shifted, y, stretch, groups, gradient, free, damping
        )
        promised = float(np.dot(gradient, direction))
        # Near the answer values no longer tell steps apart, but Newton's are then exact.
        rounding = 1e-14 * float(np.sum(np.abs(weights * value)))
        length = 1.0
        while length > SHORTEST:
            moved = effects + length * direction
            value, slope = likelihood.value_and_slope(z + added(moved, groups), y)
            reached = float(np.sum(weights * value))
            if reached <= total + DECREASE * length * promised + rounding:
                break
            length *= 0.5
        else:
            break
        still = np.all(length * np.abs(direction) <= 4e-16 * (1.0 + np.abs(effects)))
        effects, total = moved, reached
        if still:
            break
    return effects


def added(effects: Array, groups: IntArray) -> Array:
    """The sum of the effects of each number of z."""
    return effects[groups].sum(axis=-1)


def highest(z: Array, groups: IntArray, n_effects: int) -> Array:
    """The largest number of each group of the first kind; 0 for the other kinds."""
    largest = np.full(n_effects, -np.inf)
    np.maximum.at(largest, groups[..., 0].ravel(), z.ravel())
    return np.where(np.isfinite(largest), largest, 0.0)


def floor_of(size: Array) -> float:
    """What sums count as small beside: single observations have slopes of rounding alone."""
    return max(1e-3 * float(np.max(size, initial=0.0)), TINY)


def gathered(numbers: Array, groups: IntArray, n_effects: int) -> Array:
    """The adjoint of ``added``: the sum over each group."""
    total = np.zeros(n_effects)
    for k in range(groups.shape[-1]):
        chosen = groups[..., k].ravel()
        total += np.bincount(chosen, weights=numbers.ravel(), minlength=n_effects)
    return total


def newton_direction(
    likelihood: TwiceDifferentiable,
    shifted: Array,
    y: Array,
    stretch: Any,
    groups: IntArray,
    gradient: Array,
    free: Any,
    damping: Array,
) -> Array:
    """-(H + damping)^-1 g by preconditioned conjugate gradients; no curvature, no move."""
    n_effects = gradient.size
    diagonal = gathered(stretch * likelihood.second_derivative(shifted, y), groups, n_effects)
    # The least share keeps what can be traded away from drifting.
    damping = damping + LEAST * diagonal
    diagonal = diagonal + damping
    usable: Any = free & (diagonal > 1e-300)
    inverse = np.where(usable, 1.0 / np.where(usable, diagonal, 1.0), 0.0)
    direction = np.zeros(n_effects)
    residual = -gradient * usable
    scaled = inverse * residual
    search = scaled.copy()
    energy = first = float(np.dot(residual, scaled))
    for _ in range(min(MAX_CG, 2 * n_effects)):
        if energy <= 1e-24 * first or energy > 1e6 * first:
            break
        bent = stretch * likelihood.bend(shifted, y, added(search, groups))
        image = (gathered(bent, groups, n_effects) + damping * search) * usable
        curvature = float(np.dot(search, image))
        if curvature <= 0.0:
            break
        direction += energy / curvature * search
        residual -= energy / curvature * image
        scaled = inverse * residual
        energy, last = float(np.dot(residual, scaled)), energy
        search = scaled + energy / last * search
    return direction


def extreme_effects(likelihood: Likelihood, y: Array, groups: IntArray, n_effects: int) -> Array:
    """Far values for effects whose best value is infinite, 0 for the others.

    An effect is extreme if all its observations pull it one way however far out, as labels
    all alike do. Its observations then cost nothing, and without them others may be extreme,
    so the search repeats (as with perfect scores in a Rasch model); those found first are the
    farthest out.
    """
    finite = np.isfinite(likelihood.curvature)
    far = FAR / np.sqrt(likelihood.curvature) if finite else FAR
    with np.errstate(over="ignore"):
        up = likelihood.value_and_slope(np.full(y.shape, far), y)[1] > 0.0
        down = likelihood.value_and_slope(np.full(y.shape, -far), y)[1] < 0.0
    alive = np.ones(y.size, dtype=bool)
    rounds: list[Array] = []
    found = np.zeros(n_effects, dtype=bool)
    while True:
        counts, rises, falls = (
            gathered(np.asarray(mask & alive, dtype=float), groups, n_effects)
            for mask in (alive, up, down)
        )
        sign = ((rises == 0) * 1.0 - (falls == 0) * 1.0) * ((counts > 0) & ~found)
        if not sign.any():
            break
        rounds.append(sign)
        found |= sign != 0.0
        alive &= ~(sign[groups] != 0.0).any(axis=-1)
    return sum(
        (far * 4.0 ** (len(rounds) - k) * sign for k, sign in enumerate(rounds)),
        start=np.zeros(n_effects),
    )


def absent_effects(likelihood: Likelihood, y: Array, groups: IntArray, n_effects: int) -> Array:
    """-far for the effects of classes that a column never has, 0 for the others.

    Such a class is pulled down by every observation however far out.
    """
    finite = np.isfinite(likelihood.curvature)
    far = FAR / np.sqrt(likelihood.curvature) if finite else FAR
    down = np.zeros(groups.shape[:-1], dtype=bool)
    for k in range(likelihood.width):
        z = np.zeros(down.shape)
        z[:, k] = -far
        down[:, k] = likelihood.value_and_slope(z, y)[1][:, k] < 0.0
    counts = gathered(np.ones(down.shape), groups, n_effects)
    falls = gathered(down.astype(float), groups, n_effects)
    return np.where((counts > 0) & (falls == 0), -far, 0.0)


def falling_effects(
    likelihood: Likelihood, y: Array, weights: Array | float, groups: IntArray, n_effects: int
) -> IntArray:
    """The indices of effects along which the loss falls without end."""
    if np.isfinite(likelihood.infimum):
        return np.zeros(0, dtype=np.intp)
    finite = np.isfinite(likelihood.curvature)
    far = FAR / np.sqrt(likelihood.curvature) if finite else FAR
    with np.errstate(over="ignore"):
        up = weights * likelihood.value_and_slope(np.full(y.shape, far), y)[1]
        down = weights * likelihood.value_and_slope(np.full(y.shape, -far), y)[1]
    size = gathered(np.abs(up) + np.abs(down), groups, n_effects)
    sums = gathered(up, groups, n_effects), gathered(down, groups, n_effects)
    with np.errstate(invalid="ignore"):
        falling = (sums[0] < -1e-9 * size) | (sums[1] > 1e-9 * size)
    return np.flatnonzero(falling)


def without_effects(numbers: Array, groups: IntArray, n_effects: int) -> Array:
    """The nearest numbers whose sums over all groups are 0, up to rounding.

    With one group for each number its mean is taken off. With more, the least squares
    solution on the graph of groups, refined until rounding ends it.
    """
    counts = gathered(np.ones(groups.shape[:-1]), groups, n_effects)
    inverse = 1.0 / np.maximum(counts, 1.0)
    if groups.shape[-1] == 1:
        means = inverse * gathered(numbers, groups, n_effects)
        return numbers - means[groups[..., 0]]
    off = np.inf
    for _ in range(REFINEMENTS):
        residual = gathered(numbers, groups, n_effects)
        size = gathered(np.abs(numbers), groups, n_effects)
        reached = float(np.max(np.abs(residual) / np.maximum(size, floor_of(size))))
        if reached <= 1e-15 or reached > 0.5 * off:
            break
        off = reached
        moved = numbers - added(least_squares(residual, inverse, groups), groups)
        left = np.abs(gathered(moved, groups, n_effects))
        # Sums that are rounding have no solution: the system is singular.
        if np.max(left / np.maximum(size, floor_of(size))) < reached:
            numbers = moved
    return numbers


def least_squares(residual: Array, inverse: Array, groups: IntArray) -> Array:
    """The effects whose sum over groups is the residual, by conjugate gradients from 0."""
    effects = np.zeros(residual.size)
    search = scaled = inverse * residual
    energy = first = float(np.dot(residual, scaled))
    for _ in range(MAX_CG):
        if energy <= 1e-26 * first or energy > first * 1e6:
            break
        image = gathered(added(search, groups), groups, residual.size)
        bent = float(np.dot(search, image))
        if bent <= 0.0:
            break
        step = energy / bent
        effects = effects + step * search
        residual = residual - step * image
        scaled = inverse * residual
        energy, last = float(np.dot(residual, scaled)), energy
        search = scaled + energy / last * search
    return effects
