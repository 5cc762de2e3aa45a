"""Effects whose best value is infinite, and those along which a loss falls without end."""

from collections.abc import Callable

import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.likelihood import Likelihood

__all__ = [
    "absent_effects",
    "extreme_effects",
    "extremes_by_pulls",
    "falling_by_sums",
    "falling_effects",
    "far_beyond",
    "far_out",
    "pulls",
    "sums_far_out",
]

# In units of the length scale: exp(-x) underflows to 0 well before.
FAR = 1000.0
# How much farther out effects lie that were found a round before.
FARTHER = 4.0


def far_out(likelihood: Likelihood) -> float:
    """A predictor so far out that a loss that falls to a limit there has reached it."""
    return FAR * float(likelihood.length_scale)


def far_beyond(fixed: Array, z: Array) -> Array:
    """Infinite effects, moved as far beyond all predictors z as they were beyond 0."""
    if not np.any(fixed):
        return fixed
    reached = float(np.max(np.abs(z), initial=0.0))
    farther: Array = fixed * (1.0 + reached / float(np.min(np.abs(fixed[fixed != 0.0]))))
    return farther


def gradients_far_out(likelihood: Likelihood, y: Array) -> tuple[Array, Array]:
    """The gradients far above 0 and far below; of a location far above and below the values."""
    middle = y if likelihood.location else np.zeros(y.shape)
    far = far_out(likelihood) + np.abs(middle)
    with np.errstate(over="ignore"):
        up = likelihood.value_and_gradient(middle + far, y)[1]
        down = likelihood.value_and_gradient(middle - far, y)[1]
    return up, down


def extreme_effects(likelihood: Likelihood, y: Array, groups: IntArray, n_effects: int) -> Array:
    """Far values for effects whose best value is infinite, 0 for the others.

    An effect is extreme if all its observations pull it one way however far out, as labels
    all alike do. Its observations then cost nothing, and without them others may be extreme,
    so the search repeats (as with perfect scores in a Rasch model); those found first are the
    farthest out.
    """
    far = far_out(likelihood)
    return extremes_by_pulls(
        far, n_effects, lambda found: pulls(likelihood, y, groups, n_effects, found)
    )


def pulls(
    likelihood: Likelihood, y: Array, groups: IntArray, n_effects: int, found: Mask
) -> tuple[Array, Array, Array]:
    """The entries of each effect, how many of them pull it down far above 0, and up far below.

    Of those entries none of whose effects is ``found`` to be infinite.
    """
    up, down = gradients_far_out(likelihood, y)
    alive = ~found[groups].any(axis=-1)
    counts, rises, falls = (
        sum_by_group(np.asarray(mask & alive, dtype=float), groups, n_effects)
        for mask in (alive, up > 0.0, down < 0.0)
    )
    return counts, rises, falls


def extremes_by_pulls(
    far: float, n_effects: int, pulls_without: Callable[[Mask], tuple[Array, Array, Array]]
) -> Array:
    """``extreme_effects`` from what ``pulls`` counts without those that are found already."""
    rounds: list[Array] = []
    found = np.zeros(n_effects, dtype=bool)
    while True:
        counts, rises, falls = pulls_without(found)
        sign = ((rises == 0) * 1.0 - (falls == 0) * 1.0) * ((counts > 0) & ~found)
        if not sign.any():
            break
        rounds.append(sign)
        found |= sign != 0.0
    return sum(
        (far * FARTHER ** (len(rounds) - 1 - k) * sign for k, sign in enumerate(rounds)),
        start=np.zeros(n_effects),
    )


def absent_effects(likelihood: Likelihood, y: Array, groups: IntArray, n_effects: int) -> Array:
    """-far for the effects of classes that a column never has, 0 for the others.

    Such a class is pulled down by every observation however far out. ``groups`` is (N, K).
    """
    far, down = far_out(likelihood), np.zeros(groups.shape, dtype=bool)
    for k in range(likelihood.width):
        z = np.zeros(down.shape)
        z[:, k] = -far
        down[:, k] = likelihood.value_and_gradient(z, y)[1][:, k] < 0.0
    counts = np.bincount(groups.ravel(), minlength=n_effects)
    falls = np.bincount(groups.ravel(), weights=down.ravel(), minlength=n_effects)
    return np.where((counts > 0) & (falls == 0), -far, 0.0)


def falling_effects(
    likelihood: Likelihood, y: Array, weights: Array | float, groups: IntArray, n_effects: int
) -> IntArray:
    """The places of effects along which the loss falls without end."""
    if np.isfinite(likelihood.infimum):
        return np.zeros(0, dtype=np.intp)
    return falling_by_sums(*sums_far_out(likelihood, y, weights, groups, n_effects))


def sums_far_out(
    likelihood: Likelihood, y: Array, weights: Array | float, groups: IntArray, n_effects: int
) -> tuple[Array, Array, Array]:
    """Sums over each effect of gradients far above 0, of those far below, and of sizes."""
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # as of a weight of 0 and an infinite gradient
        up, down = (weights * side for side in gradients_far_out(likelihood, y))
    upper, lower, size = (
        sum_by_group(gradients, groups, n_effects)
        for gradients in (up, down, np.abs(up) + np.abs(down))
    )
    return upper, lower, size


def falling_by_sums(upper: Array, lower: Array, size: Array) -> IntArray:
    """``falling_effects`` from what ``sums_far_out`` tells."""
    with np.errstate(invalid="ignore"):
        falling = (upper < -1e-9 * size) | (lower > 1e-9 * size)
    return np.flatnonzero(falling)


def sum_by_group(numbers: Array, groups: IntArray, n_effects: int) -> Array:
    """The sum of the numbers of each effect; ``groups`` has the effects along its last axis."""
    total = np.zeros(n_effects)
    for k in range(groups.shape[-1]):
        total += np.bincount(groups[..., k], weights=numbers, minlength=n_effects)
    return total
