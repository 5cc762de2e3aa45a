"""Floor 10: a table of any columns becomes a model, and a completed table."""

from mcframe.tables.completing import complete
from mcframe.tables.completion import Completion
from mcframe.tables.declared_column import KINDS, DeclaredColumn
from mcframe.tables.declaring import Declared, declare
from mcframe.tables.rows_choice import ColumnScores

__all__ = [
    "KINDS",
    "ColumnScores",
    "Completion",
    "Declared",
    "DeclaredColumn",
    "complete",
    "declare",
]
