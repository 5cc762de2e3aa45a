"""Floor 4: a problem becomes a program of numbers, and an answer finds its way back."""

from mcframe.compile.loss import EntryLoss, Evaluation
from mcframe.compile.penalty import SpectralPenalty
from mcframe.compile.program import Program, compile_problem, refusal

__all__ = [
    "EntryLoss",
    "Evaluation",
    "Program",
    "SpectralPenalty",
    "compile_problem",
    "refusal",
]
