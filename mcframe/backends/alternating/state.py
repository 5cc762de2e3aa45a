"""Z in balanced factors, with the losses of its entries: what all steps move."""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.compile import SHARES, Evaluation, Program
from mcframe.contracts.arrays import Array
from mcframe.numerics.operators import LowRank, orthogonal_factors
from mcframe.numerics.spectra.shrinkage import Shrinker

__all__ = ["AlternatingState", "lower"]

# A column whose singular value is below this relative to the largest is short.
SHORT = 0.1
# The ratio of two sweeps' falls from which on nothing is concluded from it.
SLOWEST = 0.95


@attrs.define(eq=False)
class AlternatingState:
    """Z = U V' by its singular value decomposition, balanced, and the loss at its entries."""

    left: Array
    right: Array
    values: Array  # singular values of Z
    evaluation: Evaluation
    penalty: float
    shrinker: Shrinker  # of what is outside the long columns
    curvature: float  # that the next step of short columns counts with
    length: float = np.inf  # of the last step of short columns
    sweeps: int = 0
    residual: float = np.inf  # what the last sweep lowered the objective by, relatively
    to_fall: float = np.inf  # what later ones will, if they go on as the last two did
    settled: bool = False  # whether the long columns are about right, and short ones are sought
    finished: str | None = None
    earlier: tuple[Array, Array, float] | None = None  # the last step's end, and its objective
    ahead: tuple[str, ...] = ()  # pieces of the step under way that are still to come
    begun: float = np.inf  # the objective at its beginning
    swept: tuple[Evaluation, float] | None = None  # where the sweep led whose fall is to be noted
    effects: tuple[Array | None, ...] | None = None  # of a paused state

    @property
    def rank(self) -> int:
        """The number of columns."""
        return int(self.values.size)

    @property
    def objective(self) -> float:
        """F + R at the iterate."""
        return self.evaluation.value + self.penalty

    def note_fall(self) -> None:
        """Note how far a sweep lowered the objective, relatively, and how far others may."""
        if self.swept is None:
            return
        before, after = self.begun, self.swept[0].value + self.swept[1]
        self.swept = None
        fallen = max(before - after, 0.0) / max(abs(before), abs(after), 1e-300)
        if np.isfinite(self.residual):
            ratio = min(fallen / self.residual, SLOWEST) if self.residual > 0.0 else 0.0
            self.to_fall = fallen * ratio / (1.0 - ratio)
        self.residual = fallen

    def sharpen(self) -> None:
        """Short columns from now on, then more exact ones."""
        if self.settled:
            self.shrinker.sharpen()
        self.settled = True

    def arrive(self, program: Program, left: Array, right: Array) -> None:
        """Z = left @ right.T, balanced, and all that follows from it."""
        self.left, self.values, self.right = orthogonal_factors(left, right)
        latent = LowRank(self.left, self.right)
        self.evaluation = program.evaluate(latent, self.evaluation.effects)
        self.penalty = program.penalty.of_singular_values(self.values)

    @property
    def short(self) -> Any:
        """Which columns are short."""
        return self.values < SHORT * np.max(self.values, initial=0.0)

    @property
    def bases(self) -> tuple[Array, Array]:
        """Orthonormal bases of the two factors."""
        roots = np.sqrt(self.values)
        return self.left / roots, self.right / roots

    def snapshot(self) -> tuple[Any, ...]:
        """What ``arrive`` changes."""
        return (self.left, self.values, self.right, self.evaluation, self.penalty)

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """Back to a snapshot."""
        self.left, self.values, self.right, self.evaluation, self.penalty = snapshot


def lower(
    program: Program, state: AlternatingState, factors: Callable[[float], tuple[Array, Array]]
) -> None:
    """To the factors of the largest share of a step that lowers the objective, if one does."""
    before, objective = state.snapshot(), state.objective
    for share in SHARES:
        state.arrive(program, *factors(share))
        if state.objective < objective:
            return
        state.restore(before)
