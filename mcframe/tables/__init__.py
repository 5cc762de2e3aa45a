"""Floor 7: a table of any columns becomes a model, and a completed table."""

from mcframe.tables.completing import JudgedColumns, complete
from mcframe.tables.completion import Completion
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.declaring import Declared, declare
from mcframe.tables.held_out import ColumnScores
from mcframe.tables.kinds import KINDS

__all__ = [
    "KINDS",
    "ColumnScores",
    "Completion",
    "Declared",
    "DeclaredColumn",
    "JudgedColumns",
    "complete",
    "declare",
]
