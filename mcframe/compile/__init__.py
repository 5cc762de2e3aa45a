"""Floor 4: a problem becomes a program of numbers, and an answer finds its way back."""

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
from mcframe.compile.entries import Entries, Evaluation, Place, pays_in_factors
from mcframe.compile.factor_rows import SHARES, FactorRows
from mcframe.compile.iterates import Iterates, Step, iterates_of
from mcframe.compile.loss import EntryLoss, Known
from mcframe.compile.partitions.entries import PartitionedMatrix
from mcframe.compile.partitions.factor_rows import factor_rows_near
from mcframe.compile.partitions.problem import PartitionedProblem
from mcframe.compile.partitions.work import Work
from mcframe.compile.penalty import Attached, FactoredPenalty, Penalty, RowPenalty, SpectralPenalty
from mcframe.compile.piece import Piece
from mcframe.compile.program import Program
