"""Rows that were not in a fit: what they may be, and the best of these for their own data."""

from mcframe.backends.new_rows.losses import RowLosses
from mcframe.backends.new_rows.multipliers import best_rows
from mcframe.backends.new_rows.space import RowSpace, refuse_rows

__all__ = ["RowLosses", "RowSpace", "best_rows", "refuse_rows"]
