"""Published algorithms that work on a dense Z: their state, a step of shrinkage, and their fit."""

from collections.abc import Mapping
from typing import Any, Self

import attrs
import numpy as np

from mcframe.backends import Settings, checked_budget, run
from mcframe.compile import Evaluation, Program, compile_problem
from mcframe.contracts.arrays import Array, svd
from mcframe.contracts.errors import ModelError
from mcframe.contracts.solver import Solver
from mcframe.contracts.validators import Options, RandomState
from mcframe.fitting.fit_answer import Fit
from mcframe.model import Model, Problem
from mcframe.numerics.operators import LowRank


@attrs.define(eq=False)
class DenseState:
    """Z, dense and in factors, with the losses and the penalty there."""

    iterate: Array
    latent: LowRank
    evaluation: Evaluation
    penalty: float
    residual: float = np.inf
    finished: str | None = None

    @classmethod
    def at(cls, program: Program, latent: LowRank, **fields: object) -> Self:
        """Return the state at some Z under a norm of its singular values."""
        iterate = latent.dense()
        penalty = program.spectral.of_singular_values(latent.singular_values())
        return cls(iterate, latent, program.evaluate(iterate), penalty, **fields)  # type: ignore[arg-type]

    @property
    def rank(self) -> int:
        """The rank of the iterate."""
        return self.latent.width

    @property
    def objective(self) -> float:
        """The objective at the iterate."""
        return self.evaluation.value + self.penalty

    def increase_accuracy(self) -> None:
        """Every decomposition is exact already."""

    def become(self, moved: Self) -> None:
        """Take over all that another state holds."""
        for field in attrs.fields(type(self)):
            setattr(self, field.name, getattr(moved, field.name))


def shrunk(program: Program, target: Array, step: float) -> LowRank:
    """The matrix with the singular values of ``target`` shrunk by the penalty."""
    left, values, right = svd(target)
    values = program.spectral.shrink(values, step)
    kept = values > 0.0
    return LowRank(left[:, kept] * values[kept], right[kept].T)


def fit_by(
    solver: Solver[Program, Any],
    model: Model,
    data: Mapping[str, Any],
    max_iter: int,
    random_state: RandomState = 0,
    **limits: float,
) -> Fit:
    """The fit of a published algorithm, which ends by its own rule unless ``limits`` say more."""
    problem = Problem.bind(model, data)
    program = compile_problem(problem)
    budget = checked_budget(limits.get("tol", 0.0), max_iter, limits.get("max_seconds", np.inf))
    reason = solver.refusal(program)
    if reason is not None:
        raise ModelError(f"{solver.name} cannot run this model: {reason}")
    seed = Options.random_state(random_state)
    outcome = run(solver, program, Settings(budget, random_state=seed))
    return Fit.of(problem, outcome, solver.name, seed)
