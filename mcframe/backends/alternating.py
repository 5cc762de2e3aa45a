"""Alternating ridge regressions for a nuclear norm, in memory of the observed entries."""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import attrs
import numpy as np

from mcframe.backends.backend import nonsmooth_refusal
from mcframe.backends.certificate import Point
from mcframe.backends.proximal import CURVATURE_SAFETY
from mcframe.compile import STEP_SHARES, Evaluation, Program, factor_rows_near
from mcframe.compile.iterates import low_rank_difference
from mcframe.contracts.arrays import Array, svd
from mcframe.contracts.rounding import SUM_ROUNDING, TINY
from mcframe.contracts.solver import Solver
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Factored
from mcframe.numerics.charts import Flat
from mcframe.numerics.norms import Lanczos
from mcframe.numerics.operators import LowRank, Operator, Projected, orthogonal_factors
from mcframe.numerics.shrinkage import Shrinker

# A column is small where its singular value is below this share of the largest.
SMALL_COLUMN_RATIO = 0.1
# The ratio of the decreases of two sweeps is taken to be at most this.
MAX_DECREASE_RATIO = 0.95


@stored(recomputed=("evaluation", "after_sweeps"))
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
    # Relative decrease by all sweeps to come, extrapolated geometrically from the last two.
    remaining_decrease: float = np.inf
    large_converged: bool = False  # large columns have converged: proximal steps find small ones
    finished: str | None = None
    previous: tuple[Array, Array, float] | None = None  # factors and objective after the last step
    pending_stages: tuple[str, ...] = ()  # stages of the current step that are still to come
    objective_before: float = np.inf  # the objective before the current step
    after_sweeps: tuple[Evaluation, float] | None = None  # loss and penalty after the last sweep
    effects: tuple[Array | None, ...] | None = None  # of a paused state, whose losses are left out

    @property
    def rank(self) -> int:
        """The number of columns."""
        return int(self.values.size)

    @property
    def objective(self) -> float:
        """F + R at the iterate."""
        return self.evaluation.value + self.penalty

    def update_decreases(self) -> None:
        """Update ``residual`` and ``remaining_decrease`` from the last sweep."""
        if self.after_sweeps is None:
            return
        before, after = self.objective_before, self.after_sweeps[0].value + self.after_sweeps[1]
        self.after_sweeps = None
        decrease = max(before - after, 0.0) / max(abs(before), abs(after), TINY)
        if np.isfinite(self.residual):
            ratio = (
                min(decrease / self.residual, MAX_DECREASE_RATIO) if self.residual > 0.0 else 0.0
            )
            self.remaining_decrease = decrease * ratio / (1.0 - ratio)
        self.residual = decrease

    def increase_accuracy(self) -> None:
        """Take proximal steps of small columns from now on; the second time, more exact ones."""
        if self.large_converged:
            self.shrinker.increase_accuracy()
        self.large_converged = True

    def move_to(
        self, program: Program, left: Array, right: Array, with_effects: bool = True
    ) -> None:
        """Set Z = left @ right.T in balanced factors, and evaluate the objective there.

        ``with_effects`` the effects move, too: to the best ones, by one Newton step where that
        suffices.
        """
        # Partitions already hold the rows of a left factor that has not changed. The losses of
        # unlabeled cells are multiplied by the balanced factors later.
        factors = LowRank(left, right) if left is self.left and not program.background else None
        self.left, self.values, self.right = orthogonal_factors(left, right)
        latent = factors or LowRank(self.left, self.right)
        effects = self.evaluation.effects
        self.evaluation = (
            program.evaluate(latent, effects, nearly=True)
            if with_effects
            else program.evaluate_at(latent, effects)
        )
        self.penalty = program.spectral.of_singular_values(self.values)

    @property
    def small(self) -> Any:
        """A mask of the columns with small singular values."""
        return self.values < SMALL_COLUMN_RATIO * np.max(self.values, initial=0.0)

    @property
    def bases(self) -> tuple[Array, Array]:
        """Orthonormal bases of the two factors."""
        roots = np.sqrt(self.values)
        return self.left / roots, self.right / roots

    def snapshot(self) -> tuple[Any, ...]:
        """The attributes that ``move_to`` changes."""
        return (self.left, self.values, self.right, self.evaluation, self.penalty)

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """Back to a snapshot."""
        self.left, self.values, self.right, self.evaluation, self.penalty = snapshot


def lower(
    program: Program, state: AlternatingState, factors: Callable[[float], tuple[Array, Array]]
) -> None:
    """Backtracking: take the first step of ``STEP_SHARES`` that lowers the objective, if any."""
    before, objective = state.snapshot(), state.objective
    for share in STEP_SHARES:
        state.move_to(program, *factors(share))
        if state.objective < objective:
            return
        state.restore(before)


def half_sweep(program: Program, state: AlternatingState, by_rows: bool) -> None:
    """Solve for one factor, the other and the effects fixed; after the columns for the effects."""
    factor, other = (state.left, state.right) if by_rows else (state.right, state.left)
    factor_rows = factor_rows_near(program, state.evaluation)
    weight = program.penalty.threshold(1.0)

    def move_to(updated: Array) -> None:
        factors = (updated, other) if by_rows else (other, updated)
        state.move_to(program, *factors, with_effects=not by_rows)

    if not program.background.n_read:
        move_to(factor_rows.descending_solutions(factor, other, weight, by_rows))
        return
    # A line search in each row takes a pass, and is seldom needed.
    updated = factor_rows.ridge_solutions(other, weight, by_rows)
    before, objective = state.snapshot(), state.objective
    move_to(updated)
    if state.objective < objective:
        return
    state.restore(before)
    move_to(factor_rows.descend(factor, updated, other, weight, by_rows))


# The number of columns at the start, and of the first small ones.
INITIAL_COLUMNS = 16
# Block Lanczos steps for the first columns, and for the first small ones.
INITIAL_LANCZOS_STEPS, COMPLEMENT_LANCZOS_STEPS = 12, 30
# The least ratio of the curvatures of two proximal steps in turn.
MIN_CURVATURE_RATIO = 0.5
# The most that the curvature grows by after a step that was too long.
MAX_CURVATURE_GROWTH = 8.0


def initial_columns(program: Program, state: AlternatingState) -> None:
    """Columns along the leading singular vectors of the gradient at 0."""
    weight = program.penalty.threshold(1.0)
    count = min(INITIAL_COLUMNS, *program.shape)
    lanczos = Lanczos(state.evaluation.gradient, state.shrinker.rng)
    lanczos.advance(INITIAL_LANCZOS_STEPS)
    left, s, right = lanczos.leading(count)
    above = s > weight
    if not above.any():
        return
    left, s, right = left[:, above], s[above], right[:, above]
    values = (s - weight) / factor_rows_near(program, state.evaluation).along(left, right)

    def columns(share: float) -> tuple[Array, Array]:
        roots = np.sqrt(share * values)
        return -left * roots, right * roots

    lower(program, state, columns)


def rescale_small_columns(program: Program, state: AlternatingState) -> None:
    """The best singular value of each small column by itself; columns of the value 0 are dropped.

    A Newton step along u v' for each pair of columns, along which the objective has the derivative
    ``u'S v`` plus the weight, with the gradient S.
    """
    small = state.small
    if not small.any():
        return
    left, right = state.bases
    pair = state.left[:, small], state.right[:, small]
    curvatures = factor_rows_near(program, state.evaluation).along(left[:, small], right[:, small])
    backward = state.evaluation.column_gradient(pair[0], small)
    gains = -np.einsum("ij,ij->j", pair[1], backward) / state.values[small]
    excess = gains - program.penalty.threshold(1.0)
    changes = excess / curvatures
    values = state.values

    def rescaled(share: float) -> tuple[Array, Array]:
        new = values.copy()
        new[small] = np.maximum(new[small] + share * changes, 0.0)
        roots = np.sqrt(new[new > 0.0])
        return left[:, new > 0.0] * roots, right[:, new > 0.0] * roots

    lower(program, state, rescaled)


def proximal_step_in_complement(program: Program, state: AlternatingState) -> None:
    """A proximal gradient step of the small columns, orthogonal to the large ones.

    With P and Q the projections onto the orthogonal complements of the large columns,
    P (Z - S / L) Q is shrunk: a column appears where the gradient S has a singular value above the
    weight there.
    """
    small = state.small
    left, right = state.bases
    large_bases = left[:, ~small], right[:, ~small]
    large_columns = state.left[:, ~small], state.right[:, ~small]
    small_part = LowRank(left[:, small] * state.values[small], right[:, small])
    evaluation, penalty, before = state.evaluation, state.penalty, state.snapshot()
    matrix, is_second_trial = evaluation.gradient, False
    if state.shrinker.basis is None:
        find_directions(state, matrix, *large_bases)
    while True:
        curvature = state.curvature
        step = 1.0 / curvature
        factors = state.shrinker(
            Projected(small_part + (-step) * matrix, *large_bases),
            partial(program.spectral.shrink, step=step),
            program.penalty.threshold(step),
            state.length,
        )
        change = low_rank_difference(
            LowRank(factors.left * factors.values, factors.right), small_part
        )
        if not change.width:
            return
        squared_length = program.entries.squared_length(change)
        roots = np.sqrt(factors.values)
        small_columns = factors.left * roots, factors.right * roots
        left, right = (
            np.hstack(sides) for sides in zip(large_columns, small_columns, strict=True)
        )
        state.move_to(program, left, right)
        curved = evaluation.curvature_along(state.evaluation, change)
        squared = float(squared_length)
        if squared <= 0.0:
            state.restore(before)
            return
        measured = curved / squared
        if measured <= curvature:
            state.curvature = max(CURVATURE_SAFETY * measured, MIN_CURVATURE_RATIO * curvature)
            state.length = float(np.sqrt(squared))
            objective = evaluation.value + penalty
            if state.objective <= objective + SUM_ROUNDING * abs(objective):
                return
            state.restore(before)
            if is_second_trial:
                return
            is_second_trial = True  # with a shrinkage that is now more exact
            continue
        # The next curvature is limited, as one that was measured far away, or where a loss
        # overflowed, says little about this point.
        higher = measured if np.isfinite(measured) else np.inf
        state.curvature = min(CURVATURE_SAFETY * higher, MAX_CURVATURE_GROWTH * curvature)
        state.restore(before)


def find_directions(
    state: AlternatingState, gradient: Operator, left: Array, right: Array
) -> None:
    """Start the shrinker at leading singular vectors of the gradient, less two subspaces."""
    lanczos = Lanczos(Projected(gradient, left, right), state.shrinker.rng)
    lanczos.advance(COMPLEMENT_LANCZOS_STEPS)
    squares, vectors = lanczos.ritz()
    state.shrinker.basis = lanczos.basis @ vectors[:, :INITIAL_COLUMNS]
    state.shrinker.ritz = squares[:INITIAL_COLUMNS] / state.curvature**2


# The longest extrapolation relative to the last step, and the shortest that is tried.
MAX_EXTRAPOLATION, MIN_EXTRAPOLATION = 8.0, 0.05


def extrapolate(program: Program, state: AlternatingState) -> None:
    """Extrapolate the change of the factors by the last step, if that lowers the objective.

    Linear convergence at the rate r leaves r / (1 - r) of the last change to go. A parabola
    through the objectives before the change, after it, and after the same change once more has
    its minimum about there. The better of that point and the doubled change is taken, if its
    objective is lower. Two evaluations at most.
    """
    factors, snapshot, previous = (state.left, state.right), state.snapshot(), state.previous
    if previous is None:
        state.previous = (*factors, state.objective)
        return
    left, right = align(previous[0], previous[1], *factors)
    changes = factors[0] - left, factors[1] - right
    state.move_to(program, factors[0] + changes[0], factors[1] + changes[1])
    doubled, doubled_objective = state.snapshot(), state.objective
    state.restore(snapshot)
    objective = state.objective
    state.previous = (*factors, objective)
    best, lowest_value = (
        (doubled, doubled_objective) if doubled_objective < objective else (snapshot, objective)
    )
    share = parabola_minimiser(previous[2], objective, doubled_objective)
    if share > MIN_EXTRAPOLATION:
        state.move_to(program, factors[0] + share * changes[0], factors[1] + share * changes[1])
        if state.objective < lowest_value:
            return
    state.restore(best)


def align(left: Array, right: Array, like_left: Array, like_right: Array) -> tuple[Array, Array]:
    """The factors times the orthogonal matrix that brings them closest to others (Procrustes).

    Their product stays as it is, unless the others have fewer columns: then it loses the part that
    is least like them.
    """
    u, _, v = svd(left.T @ like_left + right.T @ like_right)
    rotation = u @ v
    return left @ rotation, right @ rotation


def parabola_minimiser(before: float, current: float, after: float) -> float:
    """The minimiser of a parabola through values at -1, 0 and 1, at most ``MAX_EXTRAPOLATION``."""
    if not np.isfinite(after):
        return 0.5
    curvature, rise = before + after - 2.0 * current, 0.5 * (after - before)
    if curvature <= 0.0:
        return MAX_EXTRAPOLATION
    return float(np.clip(-rise / curvature, 0.0, MAX_EXTRAPOLATION))


# Sweeps of the large columns have converged where one lowers the objective by less than this,
# relatively, or after so many: columns with small singular values converge slowly from there on.
SWEEP_TOLERANCE, MAX_SWEEPS = 2e-5, 10
# The gap over the remaining decrease of the objective, both relative: the error of the gradient
# goes with the root of that decrease.
GAP_PER_DECREASE = 30.0
# The stages of an iteration, by the names that checkpoints hold.
STAGES: dict[str, Callable[[Program, AlternatingState], None]] = {
    "initial columns": initial_columns,
    "sweep rows": partial(half_sweep, by_rows=True),
    "sweep columns": partial(half_sweep, by_rows=False),
    "rescale small columns": rescale_small_columns,
    "proximal step": proximal_step_in_complement,
    "extrapolate": extrapolate,
}


@stored
@attrs.frozen
class Alternating(Solver[Program, AlternatingState]):
    """Solves min F(Z) + weight ||Z||_* for smooth F of observed entries, without forming Z.

    With ``||Z||_* = min (||U||_F^2 + ||V||_F^2) / 2 over Z = U V'`` each row of U, V fixed, is
    a ridge regression on the rows of V at its observed entries, and each row of V likewise
    (exact alternating least squares; Hastie, Mazumder, Lee and Zadeh, JMLR 2015, section 3,
    for Gaussian data). Other losses enter by their second derivatives: Newton steps of each
    row, shortened where they do not descend; a loss without one by its curvature. Effects
    are solved for after both halves.

    The rank is found: columns begin as leading singular vectors of the gradient at 0 and are
    dropped where leaving them out lowers the objective. Sweeps bring columns with large singular
    values close to the optimum in a few rounds. Once they have converged, each sweep is followed
    by a proximal gradient step of the columns with small singular values in the orthogonal
    complement of the others, which finds, rotates and drops such columns, and by an extrapolation
    of the last step of all columns, along which sweeps alone converge slowly.

    Cost of a sweep with k columns and N entries: N (2 k^2 + 12 k) operations, a few dozen
    passes over N numbers, and (n_items + n_columns) k^3 operations, less where rows have fewer
    than k entries: e of them take e^2 k + e^3 / 3; of a step with s small columns:
    4 to 18 products of a sparse matrix and s + 12 columns. Where matrices of rows have 32 rows in
    the mean they are summed and factorised in single precision, of 181 columns in six tenths of
    the time, and gradients in double precision: what a step is off by is a small share of it.
    Products that find small columns are in single precision while their error may be a thousandth
    of the largest singular value.
    Of a certificate on a large table: two products of a sparse matrix and four columns for each
    of 10 to 150 block Lanczos steps, once, or up to five times where shortening some rows and
    columns of the gradient closes the gap, which may take two half sweeps besides; up to 600
    columns of the shorter side are held meanwhile.
    Memory: about 60 bytes an entry between certificates and 120 in one, the table's 24 included,
    and some thin factors. Steps grow with the logarithm of the tolerance, and are many where much
    of the noise is fitted. Rows in partitions also cost rounds and bytes:
    ``examples/benchmarks/partition_costs.py`` has the formulas.

    Unlabeled cells of a large ``RiskMixture`` stay unwritten. Those of a squared loss add Gram
    matrices. Those of another are read by blocks of rows: a pass takes 6 k operations a cell and
    its loss, an extrapolation two such passes, and a half sweep one and another of k (k + 3) for
    Newton's equations, the matrices of which it holds, k^2 numbers for each row or column. Up to
    1.25e8 cells their gradients are held, in 32 bits, while a step or a certificate multiplies by
    them; beyond, each product takes a pass.
    """

    name = "alternating"
    dense = False
    in_factors = True
    reads_background = True
    sums_over_rows = True
    begins_at_zero = True

    def refusal(self, program: Program) -> str | None:
        """The reason against all but a nuclear norm alone and smooth losses, or None."""
        main: Any = program.penalty.main
        if not (isinstance(main, Factored) and isinstance(main.chart, Flat)):
            return "it alternates between the factors of a nuclear norm"
        if program.penalty.ridge > 0.0:
            return "a ridge together with a nuclear norm is left to the other backends"
        if program.terms:
            return "terms other than the nuclear norm are left to the other backends"
        if not program.loss.smooth:
            return nonsmooth_refusal(program)
        if not program.loss.convex:
            return "a loss that is not convex is left to the other backends"
        return None

    def init(
        self, program: Program, start: Point | None, rng: np.random.Generator
    ) -> AlternatingState:
        """The start, or leading singular vectors of the gradient at 0."""
        n_rows, n_columns = program.shape
        evaluation = program.evaluate(LowRank.zeros(program.shape))
        state = AlternatingState(
            left=np.zeros((n_rows, 0)),
            right=np.zeros((n_columns, 0)),
            values=np.zeros(0),
            evaluation=evaluation,
            penalty=0.0,
            shrinker=Shrinker(program.shape, rng),
            curvature=program.curvature_at(evaluation),
        )
        if start is not None and start.latent.width:
            state.move_to(program, start.latent.left, start.latent.right)
        return state

    def pause(self, program: Program, state: AlternatingState) -> AlternatingState:
        """The factors, those of the last step, their effects, and the state of the shrinker."""
        omitted: Any = None
        state.update_decreases()
        return attrs.evolve(
            state,
            evaluation=omitted,
            effects=state.evaluation.effects,
            shrinker=state.shrinker.copy(),
        )

    def resume(
        self, program: Program, paused: AlternatingState, rng: np.random.Generator
    ) -> AlternatingState:
        """The paused state with its entries evaluated again."""
        evaluation = program.evaluate(LowRank(paused.left, paused.right), paused.effects)
        shrinker = paused.shrinker.copy(rng)
        return attrs.evolve(
            paused,
            evaluation=evaluation,
            effects=None,
            shrinker=shrinker,
        )

    def step(self, program: Program, state: AlternatingState) -> None:
        """Two half sweeps, then a step of the small columns once the large ones have converged."""
        deque(self.stages(program, state), maxlen=0)

    def stages(self, program: Program, state: AlternatingState) -> Iterator[None]:
        """One iteration in stages; those still to come are part of the state."""
        if not state.pending_stages:
            starts = state.rank == 0 and not state.large_converged
            state.pending_stages = (
                ("initial columns",) if starts else ("sweep rows", "sweep columns")
            )
            state.pending_stages += (
                ("proximal step", "extrapolate")
                if state.large_converged
                else ("rescale small columns",)
            )
            state.objective_before = state.objective
        while state.pending_stages:
            stage, *rest = state.pending_stages
            run_stage(program, state, stage)
            if stage in ("initial columns", "sweep columns"):
                state.after_sweeps = state.evaluation, state.penalty
                state.sweeps += 1
            state.pending_stages = tuple(rest)
            if not rest:
                state.update_decreases()
                # Small columns wait for the next step: the sweeps may already suffice.
                converged = state.residual <= SWEEP_TOLERANCE or state.sweeps >= MAX_SWEEPS
                state.large_converged = state.large_converged or converged
            yield

    def expected_gap(self, state: AlternatingState) -> float:
        """``GAP_PER_DECREASE`` times the remaining relative decrease of the objective."""
        return GAP_PER_DECREASE * state.remaining_decrease

    def candidate(self, program: Program, state: AlternatingState) -> Point:
        """The iterate in its factors."""
        return Point(LowRank(state.left, state.right), warm=state.evaluation.effects)


def run_stage(program: Program, state: AlternatingState, stage: str) -> None:
    """One stage of an iteration."""
    STAGES[stage](program, state)
