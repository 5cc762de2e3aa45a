"""A problem becomes a program of numbers, and an answer finds its way back."""

from mcframe.compile.compiling import (
    CompiledProblem,
    compile_main,
    compile_problem,
    demand_determined,
    is_quadratic,
    refusal,
)
from mcframe.compile.effects import notes_on_effects, places_of_diverging_effects
from mcframe.compile.factor_rows import (
    STEP_SHARES,
    FactorRows,
    factor_rows_near,
    may_be_tapered,
    n_tapered_rows,
    scaling_costs,
    unexplained_gradients,
)
from mcframe.compile.iterates import Iterates, Step, iterates_of
from mcframe.compile.loss import BlockLoss, EntryLoss, FenchelConjugates
from mcframe.compile.penalty import (
    BlockTerm,
    FactoredPenalty,
    Penalty,
    RowPenalty,
    SpectralPenalty,
)
from mcframe.compile.program import Entries, Evaluation, Iterate, Program, pays_in_factors
