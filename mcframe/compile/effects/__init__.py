"""What is free beside Z in one block, solved out of its losses: nothing, or one of four kinds."""

from mcframe.compile.effects.classes import EffectsOfClasses
from mcframe.compile.effects.contract import Effects, NoEffects, Ridge
from mcframe.compile.effects.declared import declared_effects
from mcframe.compile.effects.notes import infinite_effects, notes_on_effects
from mcframe.compile.effects.one_kind import OneKind
from mcframe.compile.effects.parameters import Parameters
from mcframe.compile.effects.two_kinds import TwoKinds

__all__ = [
    "Effects",
    "EffectsOfClasses",
    "NoEffects",
    "OneKind",
    "Parameters",
    "Ridge",
    "TwoKinds",
    "declared_effects",
    "infinite_effects",
    "notes_on_effects",
]
