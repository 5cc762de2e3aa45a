"""The state of alternating minimisation, Z in balanced factors, and the steps that change it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import numpy as np

from mcframe.compile import SHARES, Evaluation, Program, factor_rows_near
from mcframe.compile.iterates import difference, inner
from mcframe.contracts.arrays import Array
from mcframe.numerics.norms import Lanczos
from mcframe.numerics.operators import LowRank, Operator, Projected, orthogonal_factors
from mcframe.numerics.shrinkage import Shrinker

# A column is small where its singular value is below this share of the largest.
SMALL = 0.1
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
    shrinker: Shrinker  # of singular values in the orthogonal complement of the large columns
    curvature: float  # 1 / the length of the next proximal step
    length: float = np.inf  # Frobenius norm of the last proximal step
    sweeps: int = 0
    residual: float = np.inf  # relative decrease of the objective by the last sweep
    to_fall: float = np.inf  # of all sweeps to come, by geometric extrapolation of the last two
    settled: bool = False  # large columns have converged, and small ones are sought
    finished: str | None = None
    earlier: tuple[Array, Array, float] | None = None  # factors and objective after the last step
    ahead: tuple[str, ...] = ()  # stages of the current step that are still to come
    begun: float = np.inf  # the objective before the current step
    swept: tuple[Evaluation, float] | None = None  # loss and penalty after the last sweep
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
        """Update ``residual`` and ``to_fall`` from the last sweep."""
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
        """Seek small columns from now on; the second time, shrink their values more exactly."""
        if self.settled:
            self.shrinker.sharpen()
        self.settled = True

    def arrive(self, program: Program, left: Array, right: Array) -> None:
        """Set Z = left @ right.T in balanced factors, and evaluate the objective there."""
        # The rows of a left factor that stays are with their partitions already. The losses of
        # unlabeled cells are asked for products with the balanced factors.
        given = LowRank(left, right) if left is self.left and not program.background else None
        self.left, self.values, self.right = orthogonal_factors(left, right)
        latent = given or LowRank(self.left, self.right)
        self.evaluation = program.evaluate(latent, self.evaluation.effects)
        self.penalty = program.penalty.of_singular_values(self.values)

    @property
    def small(self) -> Any:
        """A mask of the columns with small singular values."""
        return self.values < SMALL * np.max(self.values, initial=0.0)

    @property
    def bases(self) -> tuple[Array, Array]:
        """Orthonormal bases of the two factors."""
        roots = np.sqrt(self.values)
        return self.left / roots, self.right / roots

    def snapshot(self) -> tuple[Any, ...]:
        """The attributes that ``arrive`` changes."""
        return (self.left, self.values, self.right, self.evaluation, self.penalty)

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """Back to a snapshot."""
        self.left, self.values, self.right, self.evaluation, self.penalty = snapshot


def lower(
    program: Program, state: AlternatingState, factors: Callable[[float], tuple[Array, Array]]
) -> None:
    """Backtracking: take the longest step of ``SHARES`` that lowers the objective, if one does."""
    before, objective = state.snapshot(), state.objective
    for share in SHARES:
        state.arrive(program, *factors(share))
        if state.objective < objective:
            return
        state.restore(before)


def half_sweep(program: Program, state: AlternatingState, by_rows: bool) -> None:
    """Solve for one factor, the other and the effects fixed; then for the effects."""
    own, other = (state.left, state.right) if by_rows else (state.right, state.left)
    lines, weight = factor_rows_near(program, state.evaluation), program.penalty.threshold(1.0)
    fresh = lines.ridge_solutions(other, weight, by_rows)
    # A quadratic over all cells is exact, so that a full step descends.
    sure = lines.sure and not program.background.n_read
    if program.background.n_read:  # a line search in each row takes a pass, and is seldom needed
        before, objective = state.snapshot(), state.objective
        state.arrive(program, *((fresh, other) if by_rows else (other, fresh)))
        if state.objective < objective:
            return
        state.restore(before)
    if not sure:
        fresh = lines.descend(own, fresh, other, weight, by_rows)
    state.arrive(program, *((fresh, other) if by_rows else (other, fresh)))


# Columns at the start.
FIRST_WIDTH = 16
# Block Lanczos steps towards the first columns, and towards the first small ones.
BEGUN, SOUGHT = 12, 30
# The curvature of the next proximal step relative to the measured one, and the least ratio of two
# in turn.
SAFETY, DESCENT = 1.05, 0.5
# What rounding may change in an objective, relatively.
ROUNDING = 1e-12
# The most that the curvature grows by after a step that was too long.
RISE = 8.0


def begin(program: Program, state: AlternatingState) -> None:
    """Columns along the leading singular vectors of the gradient at 0."""
    weight = program.penalty.threshold(1.0)
    count = min(FIRST_WIDTH, *program.shape)
    lanczos = Lanczos(state.evaluation.gradient, state.shrinker.rng)
    lanczos.advance(BEGUN)
    left, s, right = lanczos.leading(count)
    above = s > weight
    if not above.any():
        return
    left, s, right = left[:, above], s[above], right[:, above]
    lengths = (s - weight) / factor_rows_near(program, state.evaluation).along(left, right)

    def begun(share: float) -> tuple[Array, Array]:
        roots = np.sqrt(share * lengths)
        return -left * roots, right * roots

    lower(program, state, begun)


def relength(program: Program, state: AlternatingState) -> None:
    """The best singular value of each small column by itself; columns of the value 0 are dropped.

    A Newton step along u v' for each column pair: the derivative is the weight less the gain.
    """
    small = state.small
    if not small.any():
        return
    left, right = state.bases
    pair = state.left[:, small], state.right[:, small]
    curvatures = factor_rows_near(program, state.evaluation).along(left[:, small], right[:, small])
    forward, _ = state.evaluation.factor_gradients(*pair, small)
    gains = -np.einsum("ij,ij->j", pair[0], forward) / state.values[small]
    excess = gains - program.penalty.threshold(1.0)
    moves = excess / curvatures
    begun = state.values

    def moved(share: float) -> tuple[Array, Array]:
        lengths = begun.copy()
        lengths[small] = np.maximum(lengths[small] + share * moves, 0.0)
        roots = np.sqrt(lengths[lengths > 0.0])
        return left[:, lengths > 0.0] * roots, right[:, lengths > 0.0] * roots

    lower(program, state, moved)


def step_aside(program: Program, state: AlternatingState) -> None:
    """A proximal gradient step of the small columns, orthogonal to the large ones.

    With P and Q the projections onto the orthogonal complements of the large columns,
    P (Z - S / L) Q is shrunk: a column appears where the gradient S has a singular value above the
    weight there.
    """
    small = state.small
    left, right = state.bases
    off = left[:, ~small], right[:, ~small]
    kept = state.left[:, ~small], state.right[:, ~small]
    old = LowRank(left[:, small] * state.values[small], right[:, small])
    begun, before, objective = state.evaluation, state.snapshot(), state.objective
    matrix, again = begun.gradient, False
    if state.shrinker.basis is None:
        seek(state, matrix, *off)
    while True:
        tried = state.curvature
        step = 1.0 / tried
        factors = state.shrinker(
            Projected(old + (-step) * matrix, *off),
            partial(program.penalty.shrink, step=step),
            program.penalty.threshold(step),
            state.length,
        )
        moved = difference(LowRank(factors.left * factors.values, factors.right), old)
        squared = inner(moved, moved)
        if squared <= 0.0:
            return
        roots = np.sqrt(factors.values)
        pair = factors.left * roots, factors.right * roots
        state.arrive(program, *(np.hstack(sides) for sides in zip(kept, pair, strict=True)))
        measured = begun.curvature_along(state.evaluation, moved) / squared
        if measured <= tried:
            state.curvature = max(SAFETY * measured, DESCENT * tried)
            state.length = float(np.sqrt(squared))
            if state.objective <= objective + ROUNDING * abs(objective):
                return
            state.restore(before)
            if again:
                return
            again = True  # with a shrinkage that is now more exact
            continue
        # A curvature measured far away, or where a loss overflowed, says little here.
        higher = measured if np.isfinite(measured) else np.inf
        state.curvature = min(SAFETY * higher, RISE * tried)
        state.restore(before)


def seek(state: AlternatingState, gradient: Operator, left: Array, right: Array) -> None:
    """Start the shrinker at leading singular vectors of the gradient, less two subspaces."""
    lanczos = Lanczos(Projected(gradient, left, right), state.shrinker.rng)
    lanczos.advance(SOUGHT)
    squares, vectors = lanczos.ritz()
    state.shrinker.basis = lanczos.basis @ vectors[:, :FIRST_WIDTH]
    state.shrinker.ritz = squares[:FIRST_WIDTH] / state.curvature**2


# The longest extrapolation relative to the last step, and the shortest that is tried.
LONGEST, SHORTEST = 8.0, 0.05


def extrapolate(program: Program, state: AlternatingState) -> None:
    """Extrapolate the change of the factors by the last step, if that lowers the objective.

    Linear convergence at the rate r leaves r / (1 - r) of the last change to go. A parabola
    through the objectives before the change, after it, and after the same change once more has
    its minimum about there. The better of that point and the doubled change is taken, if its
    objective is lower. Two evaluations at most.
    """
    end, begun, earlier = (state.left, state.right), state.snapshot(), state.earlier
    if earlier is None:
        state.earlier = (*end, state.objective)
        return
    left, right = align(earlier[0], earlier[1], *end)
    moves = end[0] - left, end[1] - right
    state.arrive(program, end[0] + moves[0], end[1] + moves[1])
    further, beyond = state.snapshot(), state.objective
    state.restore(begun)
    objective = state.objective
    state.earlier = (*end, objective)
    best, lowest_value = (further, beyond) if beyond < objective else (begun, objective)
    share = lowest(earlier[2], objective, beyond)
    if share > SHORTEST:
        state.arrive(program, end[0] + share * moves[0], end[1] + share * moves[1])
        if state.objective < lowest_value:
            return
    state.restore(best)


def align(left: Array, right: Array, like_left: Array, like_right: Array) -> tuple[Array, Array]:
    """The factors times the orthogonal matrix that brings them closest to others (Procrustes).

    Their product stays as it is, unless the others have fewer columns: then it loses the part that
    is least like them.
    """
    u, _, v = np.linalg.svd(left.T @ like_left + right.T @ like_right, full_matrices=False)
    rotation = u @ v
    return left @ rotation, right @ rotation


def lowest(before: float, here: float, beyond: float) -> float:
    """The minimiser of a parabola through values at -1, 0 and 1, clipped to [0, ``LONGEST``]."""
    if not np.isfinite(beyond):
        return 0.5
    curvature, rise = before + beyond - 2.0 * here, 0.5 * (beyond - before)
    if curvature <= 0.0:
        return LONGEST
    return float(np.clip(-rise / curvature, 0.0, LONGEST))
