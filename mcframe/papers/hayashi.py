"""Hayashi, Sakai and Sugiyama, Binary Matrix Completion Using Unobserved Entries (2018)."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.backends import Budget, Dual, Point, run
from mcframe.compile import Evaluation, Program, compile_problem
from mcframe.constraints import Box, MaxNormBall
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.solver import Solver
from mcframe.contracts.term import Term
from mcframe.contracts.validators import positive
from mcframe.fitting import Fit, answered
from mcframe.likelihoods import Bernoulli
from mcframe.model import Block, Model, Problem
from mcframe.numerics.low_rank import LowRank
from mcframe.risks import RiskMixture

__all__ = ["ProjectedFactors", "projected_factors", "tri"]


def tri(
    pn: float,
    pu: float,
    nu: float,
    radius: float,
    *,
    bound: float | None = None,
    missing_rate: float | None = None,
    likelihood: Likelihood | None = None,
) -> Model:
    """The TRI risk in K_max(alpha, R), Eqs. 101 to 104: block "labels".

    Parameters
    ----------
    pn, pu, nu : float
        Their gamma_PN, gamma_PU and gamma_NU.
    radius : float
        R, of the max norm.
    bound : float, optional
        alpha: entries of Z lie in [-alpha, alpha]. The max norm alone bounds them by R.
    missing_rate : float, optional
        rho; estimated if None, see ``RiskMixture``.
    likelihood : Likelihood, default Bernoulli()
        Its mean is their quantization probability function.
    """
    risk = RiskMixture(
        pn=pn, pu=pu, nu=nu, missing_rate=missing_rate, likelihood=likelihood or Bernoulli()
    )
    terms: list[Term] = [MaxNormBall(radius)]
    if bound is not None:
        terms.append(Box(-bound, bound))
    return Model([Block("labels", risk)], terms)


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
    """Their section 5.3 as published: gradient steps in factors of a fixed width, projections.

    **It has no guarantee of optimality**: the factors are rank-starved when the width is
    small, which the fit's ``gap`` shows; ``fit(model, data)`` adds columns until it closes.

    Parameters
    ----------
    model : Model
        As ``tri`` gives it.
    data : dict with "labels" (0, 1, NaN for unlabeled)
    width : int
        Their k.
    step : float
        Their tau.
    """
    problem = Problem.bind(model, data)
    solver = ProjectedFactors(width, step)
    budget = Budget(tol=tol, max_iter=max_iter, max_seconds=max_seconds)
    outcome = run(solver, compile_problem(problem), budget, random_state=random_state)
    return answered(problem, outcome, solver.name)


@attrs.define(eq=False)
class ProjectedState:
    """U over V, and the slopes at Z = U V'."""

    stacked: Array
    evaluation: Evaluation
    slope: Array
    residual: float = np.inf
    finished: str | None = None

    @property
    def rank(self) -> int:
        """The width."""
        return int(self.stacked.shape[1])

    @property
    def objective(self) -> float:
        """The risk."""
        return self.evaluation.value

    def sharpen(self) -> None:
        """Nothing here is approximate."""


@attrs.frozen
class ProjectedFactors(Solver[Program, ProjectedState]):
    """Eqs. 107 and 108: a gradient step in U and V, long rows cut, both scaled into the box.

    Cost of an iteration: three products n_rows x n_columns x width and a pass over the
    entries.
    """

    width: int
    step_size: float = attrs.field(validator=positive)

    name = "projected_factors"

    def refuses(self, program: Program) -> str | None:
        """It is for a smooth risk in a ball of the max norm, and a box."""
        return None if isinstance(program.factored, MaxNormBall) else "it is for K_max alone"

    def init(
        self, program: Program, start: Point | None, rng: np.random.Generator
    ) -> ProjectedState:
        """Small random factors."""
        stacked = 0.1 * rng.standard_normal((sum(program.shape), self.width))
        return self.arrived(program, stacked)

    def step(self, program: Program, state: ProjectedState) -> None:
        """One step of the published iteration."""
        n_rows = program.shape[0]
        left, right = state.stacked[:n_rows], state.stacked[n_rows:]
        gradient = np.vstack([state.slope @ right, state.slope.T @ left])
        moved = self.arrived(program, state.stacked - self.step_size * gradient)
        moved.residual = float(np.linalg.norm(moved.stacked - state.stacked)) / self.step_size
        for field in attrs.fields(ProjectedState):
            setattr(state, field.name, getattr(moved, field.name))

    def arrived(self, program: Program, stacked: Array) -> ProjectedState:
        """The state at projected factors."""
        n_rows = program.shape[0]
        assert isinstance(program.factored, MaxNormBall)
        stacked = program.factored.prox_factors(stacked, 1.0)
        latent = stacked[:n_rows] @ stacked[n_rows:].T
        for term in program.terms:
            bound = term.term.upper
            largest = float(np.max(np.abs(latent)))
            if largest > bound:
                stacked = np.sqrt(bound / largest) * stacked
                latent = np.clip(latent * (bound / largest), -bound, bound)
        evaluation = program.loss.evaluate(np.take(latent, program.flat))
        return ProjectedState(stacked, evaluation, program.slope_matrix(evaluation))

    def candidate(self, program: Program, state: ProjectedState) -> Point:
        """The factors; no multiplier of the box is known, so that its dual is 0."""
        n_rows = program.shape[0]
        # A hair inside of the box, which rounding would otherwise leave.
        shorter = 1.0 - 1e-12 if program.terms else 1.0
        latent = LowRank(shorter * state.stacked[:n_rows], state.stacked[n_rows:])
        duals = tuple(np.zeros(program.shape) for _ in program.terms)
        evaluation = state.evaluation
        z = latent.at(program.loss.rows, program.loss.columns)
        known = program.loss.known_conjugates(z, evaluation.biases)
        return Point(latent, None, Dual(evaluation.slope, duals, evaluation.biases, known))
