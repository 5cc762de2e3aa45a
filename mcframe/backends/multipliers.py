"""The method of multipliers around a solver, for a column of Z that is fixed to 1."""

from typing import Any

import attrs
import numpy as np

from mcframe.backends.certificate import Point
from mcframe.compile import Program
from mcframe.contracts.arrays import Array
from mcframe.contracts.solver import Solver
from mcframe.numerics.low_rank import LowRank

__all__ = ["Multipliers", "MultipliersState"]

# The multiplier moves when the inner residual is this fraction of the violated constraint's pull.
INNER = 0.3
# A violation that fell by less than this from one move to the next doubles the stiffness.
EXPECTED_FALL = 0.7
# The first and the largest stiffness, relative to the curvature of F.
FIRST, LARGEST = 0.3, 1e4


@attrs.define(eq=False)
class MultipliersState:
    """The inner solver's state, the multiplier nu and the stiffness beta."""

    inner: Any
    program: Program  # the augmented one, without the constraint
    multiplier: Array
    stiffness: float
    stiffest: float
    violation: float = np.inf  # at the last move of the multiplier

    @property
    def rank(self) -> int:
        """Rank of the inner iterate."""
        return int(self.inner.rank)

    @property
    def residual(self) -> float:
        """Of the inner problem."""
        return float(self.inner.residual)

    @property
    def objective(self) -> float:
        """Of the inner problem."""
        return float(self.inner.objective)

    @property
    def finished(self) -> str | None:
        """The inner solver's own rule."""
        finished: str | None = self.inner.finished
        return finished

    def sharpen(self) -> None:
        """Passed on."""
        self.inner.sharpen()

    def excess(self) -> Array:
        """The last column of the inner iterate, minus 1."""
        column: Array = self.inner.iterate[:, -1] - 1.0
        return column


@attrs.frozen
class Multipliers(Solver[Program, MultipliersState]):
    """Solves min F(Z) + R(Z) subject to Z[:, -1] = 1, by a solver for min F(Z) + R(Z).

    The augmented Lagrangian adds ``nu'(z - 1) + beta/2 ||z - 1||^2`` of the last column z:
    one more Gaussian column, so each inner problem is a plain one. The multiplier moves by
    ``beta (z - 1)`` whenever the inner residual is small beside the violation (Hestenes;
    Powell, 1969), and beta doubles when the violation falls too slowly. The candidate is the
    iterate with its last column overwritten by 1, hence feasible; nu + beta (z - 1), the
    gradient's last column, completes the dual point of the certificate.

    Cost: that of the inner solver; 1.3 to 2.9 times the iterations that MC-b
    takes along the paths of emotions and yeast (``examples/goldberg_real_data.py``).
    """

    inner: Solver[Program, Any]

    @property
    def name(self) -> str:  # type: ignore[override]
        """The inner solver's name: this is how it treats a fixed column."""
        return self.inner.name

    def refuses(self, program: Program) -> str | None:
        """Whatever the inner solver refuses in the program without its fixed column."""
        return self.inner.refuses(attrs.evolve(program, ones=False))

    def init(
        self, program: Program, start: Point | None, rng: np.random.Generator
    ) -> MultipliersState:
        """nu = 0 or the start's; beta below the curvature of F costs no step length."""
        multiplier: Array = np.zeros(program.shape[0])
        if start is not None and start.multiplier is not None:
            multiplier = start.multiplier.copy()
        loss = program.loss
        begin = LowRank.zeros(program.shape) if start is None else start.latent
        z = begin.at(loss.rows, loss.columns)
        curvature = loss.curvature_at(z, loss.evaluate(z).biases)
        stiffness = FIRST * curvature
        augmented = program.with_multiplier(multiplier, stiffness)
        return MultipliersState(
            inner=self.inner.init(augmented, start, rng),
            program=augmented,
            multiplier=multiplier,
            stiffness=stiffness,
            stiffest=LARGEST * curvature,
        )

    def step(self, program: Program, state: MultipliersState) -> None:
        """One inner step, and a move of the multiplier when it is due."""
        self.inner.step(state.program, state.inner)
        excess = state.excess()
        violation = float(np.linalg.norm(excess))
        if state.inner.residual > INNER * state.stiffness * violation:
            return
        if violation == 0.0:
            return
        state.multiplier = state.multiplier + state.stiffness * excess
        if violation > EXPECTED_FALL * state.violation:
            state.stiffness = min(2.0 * state.stiffness, state.stiffest)
        state.violation = violation
        state.program = program.with_multiplier(state.multiplier, state.stiffness)
        state.inner.retarget(state.program)

    def candidate(self, program: Program, state: MultipliersState) -> Point:
        """The inner iterate made feasible, and the multiplier that its gradient shows."""
        inner = self.inner.candidate(state.program, state.inner)
        slope = state.multiplier + state.stiffness * state.excess()
        return Point(inner.latent.with_last_column(1.0), slope)
