"""Descent in factors Z = U V', with as many columns as its certificate asks for."""

from typing import Any

import attrs
import numpy as np

from mcframe.backends.certificate import Point
from mcframe.backends.refusing import rough_parts
from mcframe.compile import Evaluation, Program
from mcframe.contracts.arrays import Array
from mcframe.contracts.solver import Solver
from mcframe.contracts.term import Factored
from mcframe.numerics.krylov import krylov
from mcframe.numerics.low_rank import LowRank
from mcframe.numerics.quasi_newton import Memory, wolfe_step

__all__ = ["FactoredDescent", "FactoredState"]

# Columns are sought when the residual has fallen by this since the last time, or so many steps
# have passed.
FALLEN, PATIENCE = 0.1, 40
# The first columns, and how many are added at a time at most, relative to those there are.
FIRST_WIDTH, GROWTH = 4, 0.5
# A column whose norm falls below this relative to the largest is dropped.
NEGLIGIBLE = 1e-9
# Columns up to these are dropped together where the objective falls without them.
SHORT = (1e-2, 1e-4, 1e-6)
# How far an eigenvalue of the dual matrix must lie below 0, relative to its size, to add a column.
NEGATIVE = 1e-10
# Up to this many rows and columns together all eigenvectors are computed.
DENSE_ORDER = 300


@attrs.define(eq=False)
class FactoredState:
    """The free vector of the factors, what it amounts to, and the memory of its moves."""

    vector: Array
    stacked: Array
    iterate: Array  # Z
    evaluation: Evaluation
    penalty: float
    gradient: Array  # in the vector
    rng: np.random.Generator
    memory: Memory = attrs.field(factory=Memory)
    residual: float = np.inf
    mark: float = np.inf  # the residual when columns were last sought
    waited: int = 0
    finished: str | None = None

    @property
    def rank(self) -> int:
        """The number of columns of the factors."""
        return int(self.stacked.shape[1])

    @property
    def objective(self) -> float:
        """F + h at the iterate."""
        return self.evaluation.value + self.penalty

    def sharpen(self) -> None:
        """Seek columns at the next step."""
        self.waited = PATIENCE

    def retarget(self, program: Program) -> None:
        """The loss has changed a little: evaluate it anew; it bends about as before."""
        self.arrive(program, self.vector)

    def arrive(self, program: Program, vector: Array) -> None:
        """The vector and all that follows from it."""
        chart, order = term_of(program).chart, sum(program.shape)
        self.vector = vector
        self.stacked = chart.stacked(vector, order)
        self.iterate = product(program, self.stacked)
        z = np.take(self.iterate, program.flat)
        self.evaluation = program.evaluate(z, self.iterate, self.evaluation.biases)
        self.penalty = chart.value(vector)
        slope = pulled(program, program.slope_matrix(self.evaluation), self.stacked)
        self.gradient = chart.gradient(vector, order, slope)

    def settle(self) -> None:
        """The residual in units of the slope of F: that in the factors over their size."""
        factors = max(float(np.linalg.norm(self.stacked)), 1e-300)
        stretch = float(np.linalg.norm(self.vector)) / factors
        column = factors / np.sqrt(max(self.rank, 1))
        self.residual = stretch * float(np.linalg.norm(self.gradient)) / column


@attrs.frozen
class FactoredDescent(Solver[Program, FactoredState]):
    """Solves min F(U V') + h(U, V) for a term R that is the least h over factors of Z.

    Limited-memory BFGS (Nocedal and Wright, 2006) in a free vector whose factors, on spheres
    with slacks, meet the term's bounds by construction. In factors the problem is not convex,
    and with few columns its stationary points are not optimal: 44 % off with 5 columns, 3 %
    with 20 for the max norm on a 200 x 150 table. The certificate sees it: with G the slope of
    F at Z and D the rows' multipliers, ``D + [[0, G], [G', 0]]`` has no negative eigenvalue at
    an optimum, and an eigenvector of one is the column that the factors lack (the staircase of
    Boumal, 2015). Columns are added from there until the gap closes; those that vanish are
    dropped.

    Cost of an iteration with k columns: three products n_items x n_columns x k and one pass
    over the entries, rarely two; of a search for columns O((n_items + n_columns)^3) up to
    order 300, beyond it some 60 products of G with a vector. Memory: three dense
    n_items x n_columns matrices and 40 (n_items + n_columns) k numbers.

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

    def refuses(self, program: Program) -> str | None:
        """It needs a term with a factored form over all of Z."""
        main = program.factored or program.penalty.main
        if not isinstance(main, Factored):
            missing = "a ridge alone" if main is None else type(main).__name__
            return f"{missing} has no factored form"
        if program.factored is None and program.penalty.ridge > 0.0:
            return "a ridge beside a nuclear norm is left to the other backends"
        return None if program.plain else rough_parts(program)

    def init(
        self, program: Program, start: Point | None, rng: np.random.Generator
    ) -> FactoredState:
        """Small random factors, or the start's."""
        term, order = term_of(program), sum(program.shape)
        if start is None or start.latent.width == 0:
            stacked: Array = 1e-2 * rng.standard_normal((order, self.width or FIRST_WIDTH))
        else:
            stacked = start.latent.balanced()
        vector = term.chart.free(term.prox_factors(stacked, 1e-12))
        iterate = product(program, term.chart.stacked(vector, order))
        state = FactoredState(
            vector=vector,
            stacked=stacked,
            iterate=iterate,
            evaluation=program.evaluate(np.take(iterate, program.flat), iterate),
            penalty=0.0,
            gradient=vector,
            rng=rng,
        )
        state.arrive(program, vector)
        return state

    def step(self, program: Program, state: FactoredState) -> None:
        """One step of descent, and new columns where the old ones have nothing left to give."""
        moved = self.descend(program, state)
        state.waited += 1
        due = state.residual <= FALLEN * state.mark or state.waited >= PATIENCE or not moved
        if due and not self.fixed:
            state.mark = min(state.mark, state.residual)
            state.waited = 0
            self.widen(program, state)

    def descend(self, program: Program, state: FactoredState) -> bool:
        """A quasi-Newton step; False where none decreases the objective."""
        begin, value, gradient = state.vector, state.objective, state.gradient
        direction = state.memory.direction(gradient)
        slope = float(np.dot(gradient, direction))
        if not slope < 0.0:
            state.memory.clear()
            direction = -gradient
            slope = -float(np.dot(gradient, gradient))
        if slope == 0.0:
            state.settle()
            return False
        first = 1.0
        if not state.memory.pairs:
            first = 0.1 * float(np.linalg.norm(begin)) / float(np.linalg.norm(direction))

        def try_at(step: float) -> tuple[float, float]:
            state.arrive(program, begin + step * direction)
            return state.objective, float(np.dot(state.gradient, direction))

        step = wolfe_step(try_at, value, slope, first)
        reached = begin + step * direction
        if not np.array_equal(reached, state.vector):
            state.arrive(program, reached)
        if step == 0.0:
            state.memory.clear()
        else:
            state.memory.add(reached - begin, state.gradient - gradient)
        state.settle()
        return step > 0.0

    def widen(self, program: Program, state: FactoredState) -> None:
        """Add the eigenvectors of the dual matrix's negative eigenvalues as small columns."""
        term = term_of(program)
        self.narrow(program, state)
        kept = compressed(state.stacked)
        enough = term.chart.enough(*program.shape)
        room = min(max(1, int(GROWTH * kept.shape[1])), enough - kept.shape[1])
        if room <= 0:
            return
        slope = program.slope_matrix(state.evaluation)
        multipliers = term.row_multipliers(slope, kept)
        values, vectors = lowest_eigenpairs(slope, multipliers, room, state.rng)
        size = float(np.max(np.abs(multipliers), initial=0.0)) + float(np.max(np.abs(slope)))
        fresh = vectors[:, values < -NEGATIVE * size]
        if fresh.shape[1] == 0 and kept.shape[1] == state.rank:
            return
        objective, before = state.objective, state.vector
        # Factors that have shrunk to 0 say nothing about the size of what they lack.
        size = float(np.linalg.norm(kept)) / np.sqrt(max(kept.shape[1], 1))
        length = max(0.3 * size, 1.0)
        while fresh.shape[1] and length > 1e-8 * max(size, 1.0):
            columns = length * fresh
            # Long rows must turn, not grow; factors that have shrunk must grow.
            grown = term.chart.free(term.prox_factors(np.hstack([kept, columns]), 1e-12))
            for widened in (term.chart.widened(kept, columns), grown):
                state.arrive(program, widened)
                if state.objective < objective:
                    state.memory.clear()
                    return
            length *= 0.3
        state.arrive(program, before)

    def narrow(self, program: Program, state: FactoredState) -> None:
        """Drop short columns where that lowers the objective: descent takes ever longer to."""
        objective, before = state.objective, state.vector
        for length in SHORT:
            kept = compressed(state.stacked, length)
            if kept.shape[1] == state.rank:
                return
            state.arrive(program, term_of(program).chart.free(kept))
            if state.objective < objective:
                state.memory.clear()
                return
            state.arrive(program, before)

    def candidate(self, program: Program, state: FactoredState) -> Point:
        """The iterate in its factors."""
        n_rows = program.shape[0]
        return Point(LowRank(state.stacked[:n_rows], state.stacked[n_rows:]))


def term_of(program: Program) -> Factored:
    """The main term, which has a factored form."""
    main: Any = program.factored or program.penalty.main
    assert isinstance(main, Factored)
    return main


def product(program: Program, stacked: Array) -> Array:
    """U V'."""
    n_rows = program.shape[0]
    latent: Array = stacked[:n_rows] @ stacked[n_rows:].T
    return latent


def pulled(program: Program, slope: Array, stacked: Array) -> Array:
    """The gradient in the factors: G V over G' U."""
    n_rows = program.shape[0]
    return np.vstack([slope @ stacked[n_rows:], slope.T @ stacked[:n_rows]])


def compressed(stacked: Array, negligible: float = NEGLIGIBLE) -> Array:
    """The same U V' with orthogonal columns, negligible ones dropped."""
    values, rotation = np.linalg.eigh(stacked.T @ stacked)
    kept = values > negligible * max(float(values[-1]), 0.0)
    if not kept.any():
        kept[-1] = True
    return stacked @ rotation[:, kept][:, ::-1]


def lowest_eigenpairs(
    slope: Array, multipliers: Array, count: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """The lowest eigenvalues of D + [[0, G], [G', 0]], and their vectors.

    A full decomposition of small matrices; of others Lanczos steps, whose vectors need not be
    exact: they are directions of descent, not parts of a certificate.
    """
    n_rows = slope.shape[0]
    order = sum(slope.shape)
    if order <= DENSE_ORDER:
        matrix = np.diag(multipliers)
        matrix[:n_rows, n_rows:] = slope
        matrix[n_rows:, :n_rows] = slope.T
        values, vectors = np.linalg.eigh(matrix)
        return values[:count], vectors[:, :count]

    def times(vector: Array) -> Array:
        upper, lower = vector[:n_rows], vector[n_rows:]
        image = multipliers * vector
        image[:n_rows] += slope @ lower
        image[n_rows:] += slope.T @ upper
        return image

    basis, ritz = krylov(times, rng.standard_normal(order), min(3 * count + 30, order))
    values, vectors = np.linalg.eigh(ritz)
    return values[:count], basis.T @ vectors[:, :count]
