"""Descent in factors Z = U V', with as many columns as its certificate asks for."""

from collections import deque
from typing import Any

import attrs
import numpy as np

from mcframe.backends.backend import nonsmooth_refusal
from mcframe.backends.certificate import Point
from mcframe.compile import Evaluation, Program
from mcframe.compile.penalty import split_rows
from mcframe.contracts.arrays import Array
from mcframe.contracts.limits import MOST_STEPS, SMALL_ORDER
from mcframe.contracts.rounding import RESULT_ROUNDING, TINY
from mcframe.contracts.solver import Solver, ToMultipliers
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Factored
from mcframe.numerics.charts import Chart
from mcframe.numerics.norms import least_ritz_pairs
from mcframe.numerics.operators import Operator, stacked_gradient
from mcframe.numerics.quasi_newton import FIRST_STEP, Memory, quasi_newton_step

# Columns are sought when the residual has fallen by this since the last time, or so many steps
# have passed.
SEARCH_RESIDUAL_RATIO, MAX_STEPS_BETWEEN_SEARCHES = 0.1, 40
# The first columns, and their entries in roots of the unit of Z.
INITIAL_COLUMNS, INITIAL_ENTRY_SIZE = 20, 1e-2
# Columns of at most these squared norms, relative, are dropped where that lowers the objective.
SHORT_COLUMN_RATIOS = (1e-2, 1e-4, 1e-6)
# Moves that a pause keeps of those that a direction is made of.
SAVED_PAIRS = 5
# A multiplier that scales its row counts as at least this share of the mean.
MIN_SCALING_MULTIPLIER = 1e-3
# Columns shorter than this, in roots of the unit of Z, are as good as 0.
ZERO_COLUMN_LENGTH = 1e-8


@stored(recomputed=("stacked", "evaluation", "gradient", "rng"))
@attrs.define(eq=False)
class FactoredState:
    """The free vector of the factors, the objective there, and the memory of L-BFGS."""

    vector: Array
    stacked: Array
    evaluation: Evaluation
    penalty: float
    gradient: Array  # in the vector
    rng: np.random.Generator
    memory: Memory = attrs.field(factory=Memory)
    residual: float = np.inf
    residual_at_search: float = np.inf  # when columns were last sought
    steps_since_search: int = 0
    finished: str | None = None

    @property
    def rank(self) -> int:
        """The number of columns of the factors."""
        return int(self.stacked.shape[1])

    @property
    def objective(self) -> float:
        """F + h at the iterate."""
        return self.evaluation.value + self.penalty

    def increase_accuracy(self) -> None:
        """Seek columns at the next step."""
        self.steps_since_search = MAX_STEPS_BETWEEN_SEARCHES

    def retarget(self, program: Program) -> None:
        """The loss has changed a little: evaluate it anew; its curvature is about as before."""
        self.move_to(program, self.vector)

    def move_to(self, program: Program, vector: Array) -> None:
        """Set the vector, and evaluate the objective and its gradient there."""
        chart, order = chart_of(program), sum(program.shape)
        self.vector = vector
        self.stacked = chart.factors(vector, order)
        # Effects at factors that overflowed, or at a turn of rows of next to no length, are none.
        warm = self.evaluation.effects if np.isfinite(self.evaluation.value) else None
        self.evaluation = evaluate_stacked(program, self.stacked, warm)
        self.penalty = chart.value(vector)
        smooth_gradient = stacked_gradient(self.evaluation.gradient, self.stacked)
        self.gradient = chart.gradient(vector, order, smooth_gradient)

    def update_residual(self, program: Program) -> None:
        """The residual in units of the gradient of F: that in the factors over their size.

        It vanishes together with the factors.
        """
        factors = max(float(np.linalg.norm(self.stacked)), TINY)
        stretch = float(np.linalg.norm(self.vector)) / factors
        column = max(
            factors / np.sqrt(max(self.rank, 1)), ZERO_COLUMN_LENGTH * np.sqrt(program.unit)
        )
        self.residual = stretch * float(np.linalg.norm(self.gradient)) / column


@stored
@attrs.frozen
class FactoredDescent(Solver[Program, FactoredState]):
    """Solves min F(U V') + h(U, V) for a term R that is the least h over factors of Z.

    Limited-memory BFGS (Nocedal and Wright, 2006) in a free vector whose factors, on spheres
    with slacks, meet the term's bounds by construction. In factors the problem is not convex,
    and with few columns its stationary points are not optimal: 44 % off with 5 columns, 3 %
    with 20 for the max norm on a 200 x 150 table. The certificate sees it: with G the gradient of
    F at Z and D the rows' multipliers, ``D + [[0, G], [G', 0]]`` has no negative eigenvalue at
    an optimum, and an eigenvector of one is the column that the factors lack (the staircase of
    Boumal, 2015). Columns are added from there until the gap closes; those that vanish are
    dropped.

    Where few of many cells are observed, or a dense matrix would be too large, Z is never
    formed. Cost of an iteration with k columns and N entries: then 6 N k operations and one
    pass over the entries, rarely two; else three products n_items x n_columns x k. Either way
    80 (n_items + n_columns) k operations for the direction. Of a search for columns:
    O((n_items + n_columns)^3) up to order 300, beyond it 200 products of G with a vector, or
    three for each column that is sought. Of a certificate: up to 600 products of G with k
    columns and, if sparse, 48 to 1600 with a vector for each of a few diagonals; up to order 1000,
    where they may close the gap, some ten interior-point steps of 8 (n_items + n_columns)^3 more.
    Memory: 46 (n_items + n_columns) k numbers, and three dense n_items x n_columns matrices or
    about 200 bytes an observed entry, data included (measured on 20,000 x 5,000).

    Parameters
    ----------
    width : int, default 0
        Columns to begin with; 0 leaves the choice to the solver.
    fixed : bool, default False
        Whether the number of columns stays as it is: what published algorithms do.
    """

    width: int = 0
    fixed: bool = False

    name = "factored"
    leaves = ToMultipliers.ALL_NONSMOOTH
    in_factors = True

    def refusal(self, program: Program) -> str | None:
        """The reason against a program without a factored form over all of Z, or None."""
        if not isinstance(program.main, Factored):
            missing = "a ridge alone" if program.main is None else program.main.word
            return f"{missing} has no factored form"
        if program.penalty.smooth:
            return "a ridge together with a nuclear norm is left to the other backends"
        return nonsmooth_refusal(program)

    def holds_dense(self, program: Program) -> bool:
        """Not where a sparse smooth_gradient does and no multipliers need Z."""
        return not (program.plain and program.with_storage_for(in_factors=True).entries.sparse)

    def init(
        self, program: Program, start: Point | None, rng: np.random.Generator
    ) -> FactoredState:
        """Small random factors, or the start's."""
        term, order = term_of(program), sum(program.shape)
        if start is None or start.latent.width == 0:
            shape = (order, self.width or INITIAL_COLUMNS)
            stacked: Array = (
                INITIAL_ENTRY_SIZE * np.sqrt(program.unit) * rng.standard_normal(shape)
            )
        else:
            stacked = start.latent.balance()
        chart = chart_of(program)
        vector = chart.free(term.prox_factors(stacked, TINY))
        state = FactoredState(
            vector=vector,
            stacked=stacked,
            evaluation=evaluate_stacked(program, chart.factors(vector, order), None),
            penalty=0.0,
            gradient=vector,
            rng=rng,
        )
        state.move_to(program, vector)
        return state

    def pause(self, program: Program, state: FactoredState) -> FactoredState:
        """The free vector, and the last few moves."""
        gone: Any = None
        pairs = deque(list(state.memory.pairs)[-SAVED_PAIRS:], maxlen=SAVED_PAIRS)
        memory = Memory(pairs, state.memory.scale)
        return attrs.evolve(state, stacked=gone, evaluation=gone, gradient=gone, memory=memory)

    def resume(
        self, program: Program, paused: FactoredState, rng: np.random.Generator
    ) -> FactoredState:
        """The paused state, with what follows from its vector."""
        chart, order = chart_of(program), sum(program.shape)
        stacked = chart.factors(paused.vector, order)
        memory = Memory(scale=paused.memory.scale)
        memory.pairs.extend(paused.memory.pairs)
        evaluation = evaluate_stacked(program, stacked, None)
        state = attrs.evolve(paused, evaluation=evaluation, memory=memory, rng=rng)
        state.move_to(program, paused.vector)
        return state

    def step(self, program: Program, state: FactoredState) -> None:
        """One step of descent, and new columns where descent has converged."""
        moved = self.descend(program, state)
        state.steps_since_search += 1
        due = (
            state.residual <= SEARCH_RESIDUAL_RATIO * state.residual_at_search
            or state.steps_since_search >= MAX_STEPS_BETWEEN_SEARCHES
            or not moved
        )
        if due and not self.fixed:
            state.residual_at_search = min(state.residual_at_search, state.residual)
            state.steps_since_search = 0
            self.add_columns(program, state)
            if not state.memory.pairs:
                self.rescale_rows(program, state)

    def descend(self, program: Program, state: FactoredState) -> bool:
        """A quasi-Newton step; False where none decreases the objective."""
        begin = state.vector

        def value_and_gradient(vector: Array) -> tuple[float, Array]:
            state.move_to(program, vector)
            return state.objective, state.gradient

        moved = quasi_newton_step(
            value_and_gradient,
            state.memory,
            (begin, state.objective, state.gradient),
            FIRST_STEP,
        )
        if moved is None and state.vector is not begin:
            state.move_to(program, begin)
        state.update_residual(program)
        return moved is not None

    def add_columns(self, program: Program, state: FactoredState) -> None:
        """Add the eigenvectors of the dual matrix's negative eigenvalues as small columns."""
        term, chart = term_of(program), chart_of(program)
        self.drop_short_columns(program, state)
        kept = compress(state.stacked)
        if float(np.linalg.norm(kept)) <= ZERO_COLUMN_LENGTH * np.sqrt(program.unit):
            kept = kept[:, :1]  # all of them as good as 0, they would leave no others
        max_columns = chart.enough(*program.shape)
        count = min(max(1, kept.shape[1] // 2), max_columns - kept.shape[1])
        if count <= 0:
            return
        smooth_gradient = state.evaluation.gradient
        multipliers = term.row_multipliers(smooth_gradient, kept)
        fresh = missing_columns(smooth_gradient, multipliers, count, state.rng)
        if fresh.shape[1] == 0 and kept.shape[1] == state.rank:
            return
        objective, vector_before = state.objective, state.vector
        # Factors near 0 do not show the size of the columns that they lack.
        size, unit = float(np.linalg.norm(kept)) / np.sqrt(max(kept.shape[1], 1)), program.unit
        length = max(0.3 * size, np.sqrt(unit))
        while fresh.shape[1] and length > 1e-8 * max(size, np.sqrt(unit)):
            columns = length * fresh
            # Long rows must turn, not grow; factors that have shrunk must grow.
            grown = chart.free(term.prox_factors(np.hstack([kept, columns]), TINY))
            for widened in (chart.with_columns(kept, columns), grown):
                state.move_to(program, widened)
                if state.objective < objective:
                    state.memory.clear()
                    return
            length *= 0.3
        state.move_to(program, vector_before)

    def rescale_rows(self, program: Program, state: FactoredState) -> None:
        """Rescale each row of the free vector by its curvature, which its multiplier estimates.

        The curvature of the objective along the sphere of a row is its multiplier, and that of F,
        which grows with it where rows have many entries or large weights.
        """
        chart = chart_of(program)
        multipliers = term_of(program).row_multipliers(state.evaluation.gradient, state.stacked)
        mean = float(np.mean(multipliers))
        if not mean > 0.0:
            return
        lengths = np.sqrt(np.maximum(multipliers / mean, 1.0))
        lengths /= np.sqrt(np.mean(np.square(lengths)))
        state.vector = chart.with_row_lengths(state.vector, lengths)
        smooth_gradient = stacked_gradient(state.evaluation.gradient, state.stacked)
        state.gradient = chart.gradient(state.vector, sum(program.shape), smooth_gradient)

    def drop_short_columns(self, program: Program, state: FactoredState) -> None:
        """Drop columns of small norm where that lowers the objective; descent does so slowly."""
        objective, vector_before = state.objective, state.vector
        for length in SHORT_COLUMN_RATIOS:
            kept = compress(state.stacked, length)
            if kept.shape[1] == state.rank:
                return
            state.move_to(program, chart_of(program).free(kept))
            if state.objective < objective:
                state.memory.clear()
                return
            state.move_to(program, vector_before)

    def candidate(self, program: Program, state: FactoredState) -> Point:
        """The iterate in its factors."""
        latent = split_rows(state.stacked, program.shape[0])
        return Point(latent, warm=state.evaluation.effects)


def term_of(program: Program) -> Factored:
    """The main regularizer, which has a factored form."""
    assert isinstance(program.main, Factored)
    return program.main


def chart_of(program: Program) -> Chart:
    """The program's factors as functions of free vectors, in its unit."""
    chart: Chart = term_of(program).chart
    return chart.in_units(program.unit)


def evaluate_stacked(
    program: Program, stacked: Array, warm: tuple[Array | None, ...] | None
) -> Evaluation:
    """F and the smooth terms at U V'."""
    return program.evaluate(split_rows(stacked, program.shape[0]), warm)


def compress(stacked: Array, negligible: float = RESULT_ROUNDING) -> Array:
    """Factors of the same U V' with orthogonal columns, negligible ones dropped."""
    values, rotation = np.linalg.eigh(stacked.T @ stacked)
    kept = values > negligible * max(float(values[-1]), 0.0)
    if not kept.any():
        kept[-1] = True
    return stacked @ rotation[:, kept][:, ::-1]


def missing_columns(
    smooth_gradient: Operator, multipliers: Array, count: int, rng: np.random.Generator
) -> Array:
    """Unit columns x with x'(D + [[0, G], [G', 0]]) x < 0, at most ``count``.

    Eigenvectors of small matrices; of others Ritz vectors, which need not be exact: they are
    directions of descent, not parts of a certificate. These are of D^-1/2 (..) D^-1/2, whose
    spectrum is narrower, about 1: where factors are short of a column or two, the eigenvalue
    that shows it lies close to the many that vanish.
    """
    n_rows, order = smooth_gradient.shape[0], sum(smooth_gradient.shape)
    least = MIN_SCALING_MULTIPLIER * float(np.mean(multipliers))
    roots = 1.0 / np.sqrt(np.maximum(multipliers, least)) if least > 0.0 else np.ones(order)

    def times(vector: Array) -> Array:
        inner = roots * vector
        image = multipliers * inner
        image[:n_rows] += smooth_gradient @ inner[n_rows:]
        image[n_rows:] += smooth_gradient.T @ inner[:n_rows]
        return roots * image

    if order <= SMALL_ORDER:
        values, vectors = np.linalg.eigh(dual_matrix(smooth_gradient, multipliers, roots))
        values, vectors = values[:count], vectors[:, :count]
    else:
        steps = min(max(MOST_STEPS, 3 * count), order)
        values, vectors = least_ritz_pairs(times, rng.standard_normal(order), count, steps)
    # The eigenvalues of [[0, G], [G', 0]] come in pairs: the spectrum reaches as far up from 1.
    size = 2.0 * (least > 0.0) - float(values[0])
    columns = roots[:, None] * vectors[:, values < -RESULT_ROUNDING * size]
    return columns / np.linalg.norm(columns, axis=0)


def dual_matrix(smooth_gradient: Operator, multipliers: Array, roots: Array) -> Array:
    """``R (D + [[0, G], [G', 0]]) R`` with R = diag(roots), written out."""
    n_rows, whole = smooth_gradient.shape[0], np.diag(multipliers)
    whole[:n_rows, n_rows:] = smooth_gradient.dense()
    whole[n_rows:, :n_rows] = whole[:n_rows, n_rows:].T
    return roots[:, None] * whole * roots
