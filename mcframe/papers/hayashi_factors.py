"""Projected gradient in factors of one width: Eqs. 107 and 108 of Hayashi et al. (2018).

They publish it for the max norm alone, and give neither its step nor its start nor when it
stops. ``hayashi_growth`` has the scheme around it that lets the width grow.
"""

import math
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.answer import Fit
from mcframe.backends import Budget, Dual, Point, Settings, run
from mcframe.compile import Evaluation, Program, compile_problem
from mcframe.constraints import MaxNormBall
from mcframe.contracts.arrays import Array, Matrix
from mcframe.contracts.solver import Solver
from mcframe.contracts.validators import positive
from mcframe.model import Model, Problem
from mcframe.numerics.operators import LowRank, Operator

__all__ = [
    "ProjectedFactors",
    "gradient_step",
    "project",
    "projected_factors",
    "with_random_columns",
]

# The size of the random numbers that factors, or columns that join them, begin with.
BEGINNING = 0.1


def projected_factors(
    model: Model,
    data: Mapping[str, Any],
    width: int,
    step: float,
    *,
    max_iter: int = 1000,
    max_seconds: float = np.inf,
    tol: float = 0.0,
    random_state: int = 0,
) -> Fit:
    """Fit factors of one width by section 5.4: gradient steps, then projections.

    **It does not solve the problem**, for two reasons that the fit's ``gap`` shows together:
    factors of a small width are rank-starved, and the scaling of Eq. 108 is no projection onto
    the box (see ``ProjectedFactors``); ``fit(model, data)`` adds columns until the gap closes.

    Parameters
    ----------
    model : Model
        As ``tri`` gives it, with the max norm.
    data : dict with "labels" (0, 1, NaN for unlabeled)
    width : int
        Their k.
    step : float
        Their tau.
    max_iter, max_seconds, tol, random_state : as in ``fit``
    """
    problem = Problem.bind(model, data)
    solver = ProjectedFactors(width, step)
    budget = Budget(tol=tol, max_iter=max_iter, max_seconds=max_seconds)
    outcome = run(solver, compile_problem(problem), Settings(budget, random_state=random_state))
    return Fit.of(problem, outcome, solver.name)


@attrs.define(eq=False)
class ProjectedState:
    """U over V, and the gradients at Z = U V'."""

    stacked: Array
    evaluation: Evaluation
    gradient: Operator
    residual: float = np.inf
    finished: str | None = None

    @property
    def rank(self) -> int:
        """Return the width of the factors."""
        return int(self.stacked.shape[1])

    @property
    def objective(self) -> float:
        """Return the risk at the factors."""
        return self.evaluation.value

    def sharpen(self) -> None:
        """Nothing here is approximate."""


@attrs.frozen
class ProjectedFactors(Solver[Program, ProjectedState]):
    """Eqs. 107 and 108: a gradient step in U and V, long rows cut, both scaled into the box.

    The scaling shrinks all of Z for the sake of its largest entry. Where it alone is at work
    the iteration rests at ``G V = -c U, G' U = -c V`` with some c > 0, G the gradient of the risk:
    the equations of a stationary point of ``risk + c (||U||_F^2 + ||V||_F^2) / 2``, which is
    the risk with a nuclear norm of weight c. So what it finds is the answer to a problem with
    a penalty, whose weight is such that the largest entry is alpha, and not to Eq. 106.

    Cost of an iteration: three products n_rows x n_columns x width and a pass over the
    entries.
    """

    width: int
    step_size: float = attrs.field(validator=positive)

    name = "projected_factors"

    def refusal(self, program: Program) -> str | None:
        """Return why a program is not that of a risk over K_max and a box; None if it is."""
        return None if isinstance(program.main, MaxNormBall) else "it is for K_max alone"

    def init(
        self, program: Program, start: Point | None, rng: np.random.Generator
    ) -> ProjectedState:
        """The start's factors as they are, and small random columns up to the width."""
        stacked: Array = np.zeros((sum(program.shape), 0))
        if start is not None:
            stacked = np.vstack([start.latent.left, start.latent.right])
        return self.state_at(program, with_random_columns(stacked, self.width, rng))

    def step(self, program: Program, state: ProjectedState) -> None:
        """One step of the published iteration."""
        moved = self.state_at(
            program, gradient_step(state.stacked, state.gradient, self.step_size)
        )
        moved.residual = float(np.linalg.norm(moved.stacked - state.stacked)) / self.step_size
        for field in attrs.fields(ProjectedState):
            setattr(state, field.name, getattr(moved, field.name))

    def state_at(self, program: Program, stacked: Array) -> ProjectedState:
        """The state at projected factors."""
        assert isinstance(program.main, MaxNormBall)
        bound = min((float(term.term.upper) for term in program.terms), default=np.inf)
        stacked, latent = project(stacked, program.shape[0], program.main, bound)
        evaluation = program.evaluate(latent)
        return ProjectedState(stacked, evaluation, evaluation.gradient)

    def candidate(self, program: Program, state: ProjectedState) -> Point:
        """The factors; no multiplier of the box is known, so that its dual is 0."""
        n_rows = program.shape[0]
        # A hair inside of the box, which rounding would otherwise leave.
        shorter = 1.0 - 1e-12 if program.terms else 1.0
        latent = LowRank(shorter * state.stacked[:n_rows], state.stacked[n_rows:])
        duals = tuple(np.zeros(program.shape) for _ in program.terms)
        return Point(latent, Dual.of(program, state.evaluation, duals))


def with_random_columns(stacked: Array, width: int, rng: np.random.Generator) -> Array:
    """U over V with small random columns beside them, ``width`` columns in all."""
    missing = max(width - stacked.shape[1], 0)
    fresh = BEGINNING * rng.standard_normal((stacked.shape[0], missing))
    return np.hstack([stacked, fresh])


def gradient_step(stacked: Array, gradient: Matrix, step: float) -> Array:
    """Eq. 107: U - tau G V over V - tau G' U."""
    n_rows = gradient.shape[0]
    left, right = stacked[:n_rows], stacked[n_rows:]
    moved: Array = stacked - step * np.vstack([gradient @ right, gradient.T @ left])
    return moved


def project(stacked: Array, n_rows: int, ball: MaxNormBall, bound: float) -> tuple[Array, Array]:
    """Long rows cut to sqrt(R), then Eq. 108: both factors scaled into the box; and Z."""
    stacked = ball.prox_factors(stacked, 1.0)
    latent = stacked[:n_rows] @ stacked[n_rows:].T
    largest = max(float(np.max(latent)), -float(np.min(latent)))
    if largest > bound:
        stacked = math.sqrt(bound / largest) * stacked
        latent *= bound / largest
        np.clip(latent, -bound, bound, out=latent)
    return stacked, latent
