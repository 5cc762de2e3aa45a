"""Alternating ridge regressions for a nuclear norm: sweeps, then steps of short columns."""

from mcframe.backends.alternating.solver import Alternating
from mcframe.backends.alternating.state import AlternatingState

__all__ = ["Alternating", "AlternatingState"]
