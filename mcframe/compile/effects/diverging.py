"""Diverging effects, whose best value is infinite, and effects along which a loss falls on."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import DataError
from mcframe.contracts.likelihood import Likelihood

# In units of the length scale: exp(-x) underflows to 0 well before.
FAR = 1000.0
# How much farther out effects lie that were found a round before.
FARTHER = 4.0
# A sum of gradients relative to that of their sizes, below which it is rounding.
VANISHING = 1e-9


def far_out(likelihood: Likelihood) -> float:
    """A predictor so large that a loss that falls to a limit is at that limit."""
    return FAR * float(likelihood.length_scale)


def far_beyond(fixed: Array, reach: float) -> Array:
    """Diverging effects, as far beyond predictors of sizes up to ``reach`` as they were beyond 0.

    ``fixed`` has one that is not 0 at least.
    """
    return fixed * (1.0 + reach / float(np.min(np.abs(fixed[fixed != 0.0]))))


def gradients_far_out(likelihood: Likelihood, y: Array) -> tuple[Array, Array]:
    """The gradients far above 0 and far below; of a location far above and below the values.

    Of classes those of each one alone, which never drive it up without end.
    """
    far = far_out(likelihood)
    if likelihood.width > 1:
        falling = np.zeros((y.size, likelihood.width))
        for k in range(likelihood.width):
            z = np.zeros(falling.shape)
            z[:, k] = -far
            falling[:, k] = likelihood.value_and_gradient(z, y)[1][:, k]
        return np.ones(falling.shape), falling
    middle = y if likelihood.location else np.zeros(y.shape)
    away = far + np.abs(middle)
    with np.errstate(over="ignore"):
        above = likelihood.value_and_gradient(middle + away, y)[1]
        below = likelihood.value_and_gradient(middle - away, y)[1]
    return above, below


def diverging_effects(
    effects: Any, likelihood: Likelihood, signs_far_out: Callable[[Mask], tuple[Array, ...]]
) -> Array:
    """Far values for diverging effects, 0 for the others.

    An effect diverges if the losses of all its entries fall one way however far out, as those of
    labels all alike, or of a class that a column never has. Where entries have two effects those
    of a diverging one then cost nothing, and without them others may diverge, so that the search
    repeats (as with perfect scores in a Rasch model); those found first are the farthest out.

    ``signs_far_out`` are those of ``EntryEffects`` over all entries, without the found effects.
    """
    rounds: list[Array] = []
    found = np.zeros(effects.size, dtype=bool)
    while True:
        counts, rises, falls = signs_far_out(found)
        sign = ((rises == 0) * 1.0 - (falls == 0) * 1.0) * ((counts > 0) & ~found)
        if not sign.any():
            break
        rounds.append(sign)
        found |= sign != 0.0
        if not effects.tied:
            break
    far = far_out(likelihood)
    return sum(
        (far * FARTHER ** (len(rounds) - 1 - k) * sign for k, sign in enumerate(rounds)),
        start=np.zeros(effects.size),
    )


def refuse_falling(
    likelihood: Likelihood,
    name_of: Callable[[int], str],
    sums_far_out: Callable[[], tuple[Array, ...]],
) -> None:
    """Raise a ``DataError`` where the loss falls without end along a free effect.

    By ``EntryEffects.sums_far_out`` over all entries, asked of losses without a lower bound alone.
    """
    if np.isfinite(likelihood.infimum) or likelihood.width > 1:
        return
    above, below, size = sums_far_out()
    with np.errstate(invalid="ignore"):
        falling = np.flatnonzero((above < -VANISHING * size) | (below > VANISHING * size))
    if falling.size:
        raise DataError(
            f"the loss {type(likelihood).__name__} falls without end along the free"
            f" {name_of(int(falling[0]))}; give up the bias, or the share of the risk that"
            " has no lower bound, or give the effects a ridge by effects_weight"
        )
