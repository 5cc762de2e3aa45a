"""A table of any columns becomes a model, and a completed table."""

from mcframe.contracts.validators import suggest_options as _suggest_options
from mcframe.tables.applicability import only_if
from mcframe.tables.calibrating import ColumnScores
from mcframe.tables.censoring import censored
from mcframe.tables.completing import complete
from mcframe.tables.completion import Completion
from mcframe.tables.declared import Declared
from mcframe.tables.declared_column import KINDS, DeclaredColumn
from mcframe.tables.declaring import declare
from mcframe.tables.relations import relation
from mcframe.tables.shifts import shift

__all__ = [
    "KINDS",
    "ColumnScores",
    "Completion",
    "Declared",
    "DeclaredColumn",
    "censored",
    "complete",
    "declare",
    "only_if",
    "relation",
    "shift",
]

_suggest_options(Completion, Declared, methods=True)
