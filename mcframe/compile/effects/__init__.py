"""The free effects added to Z in one block, solved out of its losses."""

from mcframe.compile.effects.effects import EntryEffects, Ridge, declared_effects
from mcframe.compile.effects.notes import infinite_effects, notes_on_effects

__all__ = [
    "EntryEffects",
    "Ridge",
    "declared_effects",
    "infinite_effects",
    "notes_on_effects",
]
