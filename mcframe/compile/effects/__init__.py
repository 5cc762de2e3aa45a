"""The free effects added to Z in one block, solved out of its losses."""

from mcframe.compile.effects.effects import EffectsRidge, EntryEffects, described_effects
from mcframe.compile.effects.notes import infinite_effects, notes_on_effects

__all__ = [
    "EffectsRidge",
    "EntryEffects",
    "described_effects",
    "infinite_effects",
    "notes_on_effects",
]
