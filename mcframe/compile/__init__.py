"""Floor 4: a problem becomes a program of numbers, and an answer finds its way back."""

from mcframe.compile.attached import Attached
from mcframe.compile.compiling import (
    CompiledProblem,
    compile_main,
    compile_problem,
    demand_determined,
    is_quadratic,
    refusal,
)
from mcframe.compile.dual import Dual, DualPoint, dual_point
from mcframe.compile.effects import infinite_effects, notes_on_effects
from mcframe.compile.entries import Entries, Place, pays_in_factors
from mcframe.compile.evaluation import Evaluation
from mcframe.compile.iterates import Iterates, Step, iterates_of
from mcframe.compile.line_costs import line_costs, tapers
from mcframe.compile.lines import SHARES, Lines
from mcframe.compile.loss import EntryLoss, Known
from mcframe.compile.partitions.entries import PartitionedMatrix
from mcframe.compile.partitions.lines import lines_near
from mcframe.compile.partitions.problem import PartitionedProblem
from mcframe.compile.partitions.work import Work
from mcframe.compile.penalty import FactoredPenalty, Penalty, RowPenalty, SpectralPenalty
from mcframe.compile.piece import Piece
from mcframe.compile.program import Program

__all__ = [
    "SHARES",
    "Attached",
    "CompiledProblem",
    "Dual",
    "DualPoint",
    "Entries",
    "EntryLoss",
    "Evaluation",
    "FactoredPenalty",
    "Iterates",
    "Known",
    "Lines",
    "PartitionedMatrix",
    "PartitionedProblem",
    "Penalty",
    "Piece",
    "Place",
    "Program",
    "RowPenalty",
    "SpectralPenalty",
    "Step",
    "Work",
    "compile_main",
    "compile_problem",
    "demand_determined",
    "dual_point",
    "infinite_effects",
    "is_quadratic",
    "iterates_of",
    "line_costs",
    "lines_near",
    "notes_on_effects",
    "pays_in_factors",
    "refusal",
    "tapers",
]
