"""Alternating ridge regressions for a nuclear norm, in memory of the observed entries."""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import attrs
import numpy as np

from mcframe.backends.alternating_steps import (
    AlternatingState,
    begin,
    extrapolate,
    half_sweep,
    relength,
    step_aside,
)
from mcframe.backends.backend import nonsmooth_refusal
from mcframe.backends.certificate import Point
from mcframe.compile import Program
from mcframe.contracts.solver import Solver
from mcframe.contracts.term import Factored
from mcframe.numerics.charts import Flat
from mcframe.numerics.operators import LowRank
from mcframe.numerics.shrinkage import Shrinker

# Sweeps have converged where one lowers the objective by less than this, relatively, or after so
# many: the slow progress that remains is that of columns with small singular values.
SETTLED, SWEEPS = 2e-5, 10
# The gap over the remaining decrease of the objective, both relative. The error of the gradient
# goes with the root of that decrease: 23 to 29 were measured on 100,000 x 10,000 with 5e6 entries.
PROMISED = 30.0
# The stages of an iteration.
STAGES: dict[str, Callable[[Program, AlternatingState], None]] = {
    "begin": begin,
    "sweep rows": partial(half_sweep, by_rows=True),
    "sweep columns": partial(half_sweep, by_rows=False),
    "relength": relength,
    "step aside": step_aside,
    "extrapolate": extrapolate,
}


@attrs.frozen
class Alternating(Solver[Program, AlternatingState]):
    """Solves min F(Z) + weight ||Z||_* for smooth F of observed entries, without forming Z.

    With ``||Z||_* = min (||U||_F^2 + ||V||_F^2) / 2 over Z = U V'`` each row of U, V fixed, is
    a ridge regression on the rows of V at its observed entries, and each row of V likewise
    (exact alternating least squares; Hastie, Mazumder, Lee and Zadeh, JMLR 2015, section 3,
    for Gaussian data). Other losses enter by their second derivatives: Newton steps of each
    row, shortened where they do not descend; a loss without one by its curvature. Effects
    are solved for after each half.

    The rank is found: columns begin as leading singular vectors of the gradient at 0 and are
    dropped where leaving them out lowers the objective. Sweeps bring columns with large singular
    values close to the optimum in a few rounds. Once they have converged, each sweep is followed
    by a proximal gradient step of the columns with small singular values in the orthogonal
    complement of the others, which finds, rotates and drops such columns, and by an extrapolation
    of the last step of all columns, along which sweeps alone converge slowly.

    Cost of a sweep with k columns and N entries: N (2 k^2 + 12 k) operations, a few dozen
    passes over N numbers, and (n_items + n_columns) k^3 operations; of a step with s small
    columns: 4 to 18 products of a sparse matrix and s + 12 columns.
    Of a certificate on a large table: two products of a sparse matrix and four columns for each
    of 10 to 150 block Lanczos steps; up to 600 columns of the shorter side are held meanwhile.
    Memory: about 60 bytes an entry between certificates and 120 in one, the table's 24 included,
    and some thin factors. Steps grow with the logarithm of the tolerance, and are many where much
    of the noise is fitted. Rows in partitions also cost rounds and bytes:
    ``examples/benchmarks/partition_costs.py`` has the formulas.

    Unlabeled cells of a large ``RiskMixture`` stay unwritten. Those of a squared loss add Gram
    matrices. Those of another are read by blocks of rows: a pass takes 6 k operations a cell and
    its loss, an extrapolation two such passes, and a half sweep one and another of k (k + 3) for
    Newton's equations, the matrices of which it holds, k^2 numbers for each row or column. Up to
    1.25e8 cells their gradients are held, in 32 bits, while a step or a certificate multiplies by
    them; beyond, each product takes a pass.
    """

    name = "alternating"
    dense = False
    in_factors = True
    reads_background = True
    begins_at_zero = True

    def refusal(self, program: Program) -> str | None:
        """The reason against all but a nuclear norm alone and smooth losses, or None."""
        main: Any = program.penalty.main
        if not (isinstance(main, Factored) and isinstance(main.chart, Flat)):
            return "it alternates between the factors of a nuclear norm"
        if program.penalty.ridge > 0.0:
            return "a ridge together with a nuclear norm is left to the other backends"
        if program.terms:
            return "terms other than the nuclear norm are left to the other backends"
        if not program.loss.smooth:
            return nonsmooth_refusal(program)
        if not program.loss.convex:
            return "a loss that is not convex is left to the other backends"
        return None

    def init(
        self, program: Program, start: Point | None, rng: np.random.Generator
    ) -> AlternatingState:
        """The start, or leading singular vectors of the gradient at 0."""
        n_rows, n_columns = program.shape
        evaluation = program.evaluate(LowRank.zeros(program.shape))
        state = AlternatingState(
            left=np.zeros((n_rows, 0)),
            right=np.zeros((n_columns, 0)),
            values=np.zeros(0),
            evaluation=evaluation,
            penalty=0.0,
            shrinker=Shrinker(program.shape, rng),
            curvature=program.curvature_at(evaluation),
        )
        if start is not None and start.latent.width:
            state.arrive(program, start.latent.left, start.latent.right)
        return state

    def pause(self, program: Program, state: AlternatingState) -> AlternatingState:
        """The factors, those of the last step, their effects, and the state of the shrinker."""
        gone: Any = None
        state.note_fall()
        return attrs.evolve(
            state,
            evaluation=gone,
            effects=state.evaluation.effects,
            shrinker=state.shrinker.copy(),
        )

    def resume(
        self, program: Program, paused: AlternatingState, rng: np.random.Generator
    ) -> AlternatingState:
        """The paused state with its entries evaluated again."""
        evaluation = program.evaluate(LowRank(paused.left, paused.right), paused.effects)
        shrinker = paused.shrinker.copy(rng)
        return attrs.evolve(paused, evaluation=evaluation, effects=None, shrinker=shrinker)

    def step(self, program: Program, state: AlternatingState) -> None:
        """Two half sweeps, then a step of the small columns once the large ones have converged."""
        deque(self.stages(program, state), maxlen=0)

    def stages(self, program: Program, state: AlternatingState) -> Iterator[None]:
        """One iteration in stages; those still to come are part of the state."""
        if not state.ahead:
            begins = state.rank == 0 and not state.settled
            state.ahead = ("begin",) if begins else ("sweep rows", "sweep columns")
            state.ahead += ("step aside", "extrapolate") if state.settled else ("relength",)
            state.begun = state.objective
        while state.ahead:
            stage, *rest = state.ahead
            advance(program, state, stage)
            if stage in ("begin", "sweep columns"):
                state.swept = state.evaluation, state.penalty
                state.sweeps += 1
            state.ahead = tuple(rest)
            if not rest:
                state.note_fall()
                # Small columns wait for the next step: the sweeps may already suffice.
                enough = state.residual <= SETTLED or state.sweeps >= SWEEPS
                state.settled = state.settled or enough
            yield

    def expected_gap(self, state: AlternatingState) -> float:
        """``PROMISED`` times the remaining relative decrease of the objective."""
        return PROMISED * state.to_fall

    def candidate(self, program: Program, state: AlternatingState) -> Point:
        """The iterate in its factors."""
        return Point(LowRank(state.left, state.right), warm=state.evaluation.effects)


def advance(program: Program, state: AlternatingState, stage: str) -> None:
    """One stage of an iteration."""
    STAGES[stage](program, state)
