"""Floor 4: a problem becomes a program of numbers, and an answer finds its way back."""

from mcframe.compile.attached import Attached, Moreau
from mcframe.compile.background import Background, Behind
from mcframe.compile.compiled import CompiledProblem
from mcframe.compile.compiling import compile_problem, refusal
from mcframe.compile.effects import notes_on_effects
from mcframe.compile.loss import EntryLoss, Evaluation, Known
from mcframe.compile.penalty import SpectralPenalty
from mcframe.compile.piece import Piece
from mcframe.compile.program import Program

__all__ = [
    "Attached",
    "Background",
    "Behind",
    "CompiledProblem",
    "EntryLoss",
    "Evaluation",
    "Known",
    "Moreau",
    "Piece",
    "Program",
    "SpectralPenalty",
    "compile_problem",
    "notes_on_effects",
    "refusal",
]
