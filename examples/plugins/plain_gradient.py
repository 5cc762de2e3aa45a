"""A backend of one's own: proximal gradient steps of one length, no momentum."""

import attrs
import numpy as np

from mcframe.backends import Point
from mcframe.compile import Evaluation, Program, SpectralPenalty
from mcframe.contracts import stored
from mcframe.contracts.arrays import Array
from mcframe.contracts.solver import Solver
from mcframe.numerics.operators import LowRank


@attrs.define(eq=False)
class State:
    """Z dense and in factors, F there, R there, and how far the last step went."""

    iterate: Array
    latent: LowRank
    evaluation: Evaluation
    penalty: float
    residual: float = np.inf
    finished: str | None = None  # it has no stopping rule of its own

    @property
    def rank(self) -> int:
        """Rank of Z."""
        return self.latent.width

    @property
    def objective(self) -> float:
        """F + R at Z."""
        return self.evaluation.value + self.penalty

    def increase_accuracy(self) -> None:
        """Nothing is approximate here."""

    def retarget(self, program: Program) -> None:
        """The multipliers have moved: evaluate F anew."""
        self.evaluation = program.evaluate(self.iterate, self.evaluation.effects)


@stored
@attrs.frozen
class PlainGradient(Solver[Program, State]):
    """Solves min F(Z) + R(Z) by Z <- prox of R / L at Z - gradient of F / L."""

    name = "plain gradient"

    def refusal(self, program: Program) -> str | None:
        """It needs a gradient, a bound L on its curvature, and a function of singular values."""
        if not isinstance(program.penalty, SpectralPenalty) or not program.plain:
            return "it runs smooth losses and terms beside one function of singular values"
        return None if np.isfinite(program.curvature) else "its steps need a bounded curvature"

    def init(self, program: Program, start: Point | None, rng: np.random.Generator) -> State:
        """Z = start, or 0."""
        latent = LowRank.zeros(program.shape) if start is None else start.latent
        iterate = latent.dense()
        evaluation = program.evaluate(iterate)
        penalty = program.spectral.of_singular_values(latent.singular_values())
        return State(iterate, latent, evaluation, penalty)

    def step(self, program: Program, state: State) -> None:
        """One step of length 1 / L."""
        step = 1.0 / program.curvature
        target = state.iterate - step * state.evaluation.gradient.dense()
        left, values, right = np.linalg.svd(target, full_matrices=False)
        shrunk = program.spectral.shrink(values, step)
        kept = shrunk > 0.0
        before = state.iterate
        state.latent = LowRank(left[:, kept] * shrunk[kept], right[kept].T)
        state.iterate = state.latent.dense()
        state.residual = float(np.linalg.norm(state.iterate - before)) / step
        state.penalty = program.spectral.of_singular_values(shrunk)
        state.evaluation = program.evaluate(state.iterate, state.evaluation.effects)

    def candidate(self, program: Program, state: State) -> Point:
        """The iterate."""
        return Point(state.latent)
