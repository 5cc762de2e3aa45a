"""Descent in factors Z = U V', with as many columns as its certificate asks for."""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.backends.certificate import Point
from mcframe.backends.refusing import rough_parts
from mcframe.compile import Evaluation, Program
from mcframe.contracts.arrays import Array
from mcframe.contracts.solver import Solver
from mcframe.contracts.term import Factored
from mcframe.numerics.low_rank import LowRank

__all__ = ["FactoredDescent", "FactoredState"]

# How far above the measured curvature the next trial stands, and how fast it may come down.
SAFETY, DESCENT = 1.1, 0.9
# Columns are sought when the residual has fallen by this since the last time, or so many steps
# have passed.
FALLEN, PATIENCE = 0.1, 60
# The first columns, and how many are added at a time at most, relative to those there are.
FIRST_WIDTH, GROWTH = 4, 0.5
# A column whose norm falls below this relative to the largest is dropped.
NEGLIGIBLE = 1e-9
# How far an eigenvalue of the dual matrix must lie below 0, relative to ||G||, to add a column.
NEGATIVE = 1e-10
# Up to this many rows and columns together all eigenvectors are computed.
DENSE_ORDER = 300


@attrs.define(eq=False)
class FactoredState:
    """W = U over V and the W before it, F at W, and the step length."""

    stacked: Array
    before: Array
    evaluation: Evaluation
    penalty: float
    curvature: float
    rng: np.random.Generator
    weight: float = 1.0
    residual: float = np.inf
    mark: float = np.inf  # the residual when columns were last sought
    waited: int = 0
    finished: str | None = None
    iterate: Array = attrs.field(factory=lambda: np.zeros((0, 0)))

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
        """The loss has changed a little: evaluate it anew and forget the momentum."""
        z = np.take(self.iterate, program.flat)
        self.evaluation = program.evaluate(z, self.iterate, self.evaluation.biases)
        self.restart()

    def restart(self) -> None:
        """Forget the momentum."""
        self.before = self.stacked
        self.weight = 1.0


@attrs.frozen
class FactoredDescent(Solver[Program, FactoredState]):
    """Solves min F(U V') + h(U, V) for a term R that is the least h over factors of Z.

    Accelerated proximal gradient in U and V stacked, its step found by backtracking, with a
    restart where the objective rises. In factors the problem is not convex, and with few
    columns its stationary points are not optimal: 44 % off with 5 columns, 3 % with 20 for the
    max norm on a 200 x 150 table. The certificate sees it: with G the slope of F at Z and D the
    rows' multipliers, ``D + [[0, G], [G', 0]]`` has no negative eigenvalue at an optimum, and
    an eigenvector of one is the column that the factors lack (the Riemannian staircase of
    Boumal, 2015). Columns are added from there until the gap closes; those that vanish are
    dropped.

    Cost of an iteration with k columns: six products n_items x n_columns x k and two passes
    over the entries; of a search for columns O((n_items + n_columns)^3). Memory: four dense
    n_items x n_columns matrices.

    Parameters
    ----------
    width : int, default 0
        Columns to begin with; 0 leaves the choice to the solver.
    fixed : bool, default False
        Whether the number of columns stays as it is: what published algorithms do.
    """

    width: int = attrs.field(default=0)
    fixed: bool = False

    name = "factored"

    def refuses(self, program: Program) -> str | None:
        """It needs a term with a factored form over all of Z."""
        if term_of(program) is None:
            word = type(program.penalty.main).__name__
            missing = "a ridge alone" if program.penalty.main is None else word
            return f"{missing} has no factored form"
        if program.factored is None and program.penalty.ridge > 0.0:
            return "a ridge beside a nuclear norm is left to the other backends"
        return None if program.plain else rough_parts(program)

    def init(
        self, program: Program, start: Point | None, rng: np.random.Generator
    ) -> FactoredState:
        """Small random factors, or the start's."""
        term = term_of(program)
        assert term is not None
        width = self.width or FIRST_WIDTH
        if start is None or start.latent.width == 0:
            stacked: Array = 1e-2 * rng.standard_normal((sum(program.shape), width))
        else:
            stacked = start.latent.balanced()
        stacked = term.prox_factors(stacked, 1.0) if start is not None else stacked
        iterate = product(program, stacked)
        evaluation = program.evaluate(np.take(iterate, program.flat), iterate)
        slope = program.slope_matrix(evaluation)
        norm = float(np.linalg.norm(slope)) / np.sqrt(min(program.shape))
        return FactoredState(
            stacked=stacked,
            before=stacked,
            evaluation=evaluation,
            penalty=term.of_factors(stacked),
            curvature=norm or 1.0,
            rng=rng,
            iterate=iterate,
        )

    def step(self, program: Program, state: FactoredState) -> None:
        """One accelerated step, and new columns where the old ones have nothing left to give."""
        self.descend(program, state)
        state.waited += 1
        due = state.residual <= FALLEN * state.mark or state.waited >= PATIENCE
        if due and not self.fixed:
            state.mark = min(state.mark, state.residual)
            state.waited = 0
            self.widen(program, state)

    def descend(self, program: Program, state: FactoredState) -> None:
        """W_new = prox(Y - gradient / L) at Y = W + theta (W - W before)."""
        term = term_of(program)
        assert term is not None
        weight = 0.5 * (1.0 + float(np.sqrt(1.0 + 4.0 * state.weight**2)))
        theta = (state.weight - 1.0) / weight
        ahead = state.stacked + theta * (state.stacked - state.before)
        latent = product(program, ahead)
        evaluation = program.evaluate(
            np.take(latent, program.flat), latent, state.evaluation.biases
        )
        slope = program.slope_matrix(evaluation)
        gradient = pulled(program, slope, ahead)
        while True:
            moved = term.prox_factors(ahead - gradient / state.curvature, 1.0 / state.curvature)
            away = moved - ahead
            distance = float(np.vdot(away, away))
            reached = product(program, moved)
            after = program.evaluate(np.take(reached, program.flat), reached, evaluation.biases)
            above = after.value - evaluation.value - float(np.vdot(gradient, away))
            above -= 1e-13 * (abs(after.value) + abs(evaluation.value))
            if not distance or 2.0 * above <= state.curvature * distance:
                break
            measured = 2.0 * above / distance
            state.curvature *= float(np.clip(SAFETY * measured / state.curvature, 1.5, 8.0))
        objective = state.objective
        state.residual = state.curvature * float(np.sqrt(distance))
        state.before, state.stacked = state.stacked, moved
        state.evaluation, state.iterate = after, reached
        state.penalty, state.weight = term.of_factors(moved), weight
        state.curvature *= DESCENT
        uphill = float(np.vdot(away, state.stacked - state.before)) < 0.0
        if uphill or state.objective > objective:
            state.restart()

    def widen(self, program: Program, state: FactoredState) -> None:
        """Add the eigenvectors of the dual matrix's negative eigenvalues as small columns."""
        term = term_of(program)
        assert term is not None
        kept = compressed(state.stacked)
        slope = program.slope_matrix(state.evaluation)
        multipliers = term.row_multipliers(slope, kept)
        room = max(1, int(GROWTH * kept.shape[1]))
        values, vectors = lowest_eigenpairs(slope, multipliers, room, state.rng)
        size = float(np.max(np.abs(multipliers), initial=0.0)) + float(np.max(np.abs(slope)))
        fresh = vectors[:, values < -NEGATIVE * size]
        if fresh.shape[1] == 0:
            state.stacked = kept
            state.restart()
            return
        length = 0.3 * float(np.linalg.norm(kept)) / np.sqrt(max(kept.shape[1], 1)) or 1.0
        while length > 1e-8:
            widened = np.hstack([kept, length * fresh])
            widened = term.prox_factors(widened, 1e-12 / state.curvature)
            latent = product(program, widened)
            evaluation = program.evaluate(
                np.take(latent, program.flat), latent, state.evaluation.biases
            )
            penalty = term.of_factors(widened)
            if evaluation.value + penalty < state.objective:
                state.stacked, state.iterate = widened, latent
                state.evaluation, state.penalty = evaluation, penalty
                state.restart()
                return
            length *= 0.3
        state.stacked = kept
        state.restart()

    def candidate(self, program: Program, state: FactoredState) -> Point:
        """The iterate in its factors."""
        n_rows = program.shape[0]
        return Point(LowRank(state.stacked[:n_rows], state.stacked[n_rows:]))


def term_of(program: Program) -> Factored | None:
    """The main term where it has a factored form."""
    main: Any = program.factored or program.penalty.main
    return main if isinstance(main, Factored) else None


def product(program: Program, stacked: Array) -> Array:
    """U V'."""
    n_rows = program.shape[0]
    latent: Array = stacked[:n_rows] @ stacked[n_rows:].T
    return latent


def pulled(program: Program, slope: Array, stacked: Array) -> Array:
    """The gradient in the factors: G V over G' U."""
    n_rows = program.shape[0]
    return np.vstack([slope @ stacked[n_rows:], slope.T @ stacked[:n_rows]])


def compressed(stacked: Array) -> Array:
    """The same U V' with orthogonal columns, negligible ones dropped."""
    values, rotation = np.linalg.eigh(stacked.T @ stacked)
    kept = values > NEGLIGIBLE * max(float(values[-1]), 0.0)
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

    basis, ritz = lanczos(times, rng.standard_normal(order), min(3 * count + 30, order))
    values, vectors = np.linalg.eigh(ritz)
    return values[:count], basis.T @ vectors[:, :count]


def lanczos(times: Callable[[Array], Array], start: Array, steps: int) -> tuple[Array, Array]:
    """An orthonormal basis of a Krylov space, row by row, and the matrix in it."""
    basis = np.zeros((steps, start.size))
    images = np.zeros((steps, start.size))
    vector = start / np.linalg.norm(start)
    for k in range(steps):
        basis[k] = vector
        images[k] = times(vector)
        vector = images[k].copy()
        for _ in range(2):
            vector -= basis[: k + 1].T @ (basis[: k + 1] @ vector)
        length = float(np.linalg.norm(vector))
        if length <= 1e-12 * float(np.linalg.norm(images[k])):
            basis, images = basis[: k + 1], images[: k + 1]
            break
        vector /= length
    ritz = basis @ images.T
    return basis, 0.5 * (ritz + ritz.T)
