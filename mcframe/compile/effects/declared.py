"""The kind of effects that a block declares."""

from typing import Any

import numpy as np

from mcframe.compile.effects.classes import EffectsOfClasses
from mcframe.compile.effects.contract import Effects, NoEffects, Ridge
from mcframe.compile.effects.far import absent_effects, extreme_effects, falling_effects
from mcframe.compile.effects.one_kind import OneKind
from mcframe.compile.effects.parameters import Parameters
from mcframe.compile.effects.two_kinds import TwoKinds
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError
from mcframe.model import Layout

__all__ = ["declared_effects", "refusal_of_falling"]


def declared_effects(
    layout: Layout,
    likelihood: Any,
    y: Array,
    rows: IntArray,
    columns: IntArray,
    weights: Array | float,
    ridge: float = 0.0,
    origin: Array | None = None,
    whole: bool = True,
) -> Effects:
    """The effects of a block, infinite ones found.

    Parameters
    ----------
    layout : Layout
        How many of each kind there are.
    y, rows, columns : arrays of one length
        The entries, by their columns of data.
    ridge : float
        The weight of the ridge, 0 for none; it is one on the effects counted from 0.
    origin : array, optional
        What the effects are counted from.
    whole : bool
        Whether these are all entries; where they are those of some rows alone, others may hold a
        loss that falls along an effect here.

    Raises
    ------
    DataError
        Where the loss falls without end along an effect.
    """
    if layout.n_parameters:
        return Parameters(layout.n_parameters)
    if not layout.n_effects:
        return NoEffects()
    size, start = layout.n_effects, np.zeros(layout.n_effects)
    penalty = Ridge(ridge, start if origin is None else -origin) if ridge else None
    if likelihood.width > 1:
        groups: IntArray = columns[:, None] * likelihood.width + np.arange(likelihood.width)
        fixed = start if penalty else absent_effects(likelihood, y, groups, size)
        return EffectsOfClasses(groups, size, fixed, penalty)
    kinds = [columns] * bool(layout.n_biases)
    kinds += [layout.n_biases + rows] * bool(layout.n_row_effects)
    groups = np.stack(kinds, axis=-1)
    fixed = start
    if penalty is None:
        falling = falling_effects(likelihood, y, weights, groups, size)
        if whole and falling.size:
            raise DataError(refusal_of_falling(likelihood, layout.name_of(int(falling[0]))))
        fixed = extreme_effects(likelihood, y, groups, size)
    if len(kinds) == 1:
        return OneKind(groups[:, 0], size, fixed, penalty, 0.0 if origin is None else origin)
    return TwoKinds(layout, rows, columns, fixed, penalty, origin)


def refusal_of_falling(likelihood: Any, effect: str) -> str:
    """What is said of an effect, in words, along which the loss falls without end."""
    return (
        f"the loss {type(likelihood).__name__} falls without end along the free"
        f" {effect}; give up the bias, or the share of the risk that"
        " has no lower bound, or give the effects a ridge by effects_weight"
    )
