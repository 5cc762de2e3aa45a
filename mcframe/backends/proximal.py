"""Accelerated proximal gradient with adaptive restart and backtracking."""

from typing import Any

import attrs
import numpy as np

from mcframe.backends.backend import nonsmooth_refusal
from mcframe.backends.certificate import Point
from mcframe.compile import Evaluation, Iterates, Program, Step, iterates_of
from mcframe.contracts.arrays import Array
from mcframe.contracts.solver import Solver
from mcframe.contracts.term import Factored
from mcframe.numerics.charts import Flat
from mcframe.numerics.fixed_rank import FixedRank, newton_move
from mcframe.numerics.operators import LowRank
from mcframe.numerics.shrinkage import Shrinker, Shrunk

# The next trial curvature relative to the measured one, and the least ratio of two in turn.
SAFETY = 1.05
DESCENT = 0.9
# The power that this ratio is raised to after each trial that was too low.
SLOWING = 0.5
# It is at most ``SAFETY`` times the largest measured curvature of so many steps.
WINDOW = 10
# The trial never falls below this fraction of the proven bound.
LOWEST = 1e-6
# The relative rounding of an objective.
ROUNDING = 1e-12
# A leap is tried once the rank has changed by no more than this share in each of so many steps;
# after one that failed, in twice as many. On 1,000 x 600 at rank 276 leaps after two such steps
# led no further than the next step did.
ALIKE, SETTLED = 0.03, 4
# A move so many times as long as Z is no Newton step to an optimum nearby.
FARTHEST = 10.0
# The gap over the residual times the nuclear norm over the objective: the ratio of the spectral to
# the Frobenius norm of the gradient's residual. On 1,000 x 600 it was 0.02 to 0.2, 0.05 mostly.
PROMISED = 0.05


@attrs.frozen(eq=False)
class ProximalTrial:
    """A step that was tried with some curvature L: accepted unless ``measured`` exceeds L."""

    factors: Shrunk
    evaluation: Evaluation
    curvature: float
    measured: float  # the curvature of F between Y and X_new
    weight: float  # t_new
    squared: float  # ||X_new - X||^2
    advance: float  # <X_new - Y, X_new - X>
    residual: float  # L ||X_new - Y||


@attrs.define(eq=False)
class ProximalState:
    """The iterate X, the one before it, and the program evaluated at both."""

    iterates: Iterates
    evaluation: Evaluation
    evaluation_before: Evaluation
    factors: Shrunk
    factors_before: Shrunk
    penalty: float
    shrinker: Shrinker
    curvature: float  # the next trial L
    first: float  # the scale of L, for its lowest value
    used: float  # L_k, the one that the last step was taken with
    descent: float = DESCENT  # how fast L may come down
    slowing: float = SLOWING  # the power that it is raised to where L was too low
    measured: tuple[float, ...] = ()  # the curvatures of the last steps
    weight: float = 1.0  # t_k of Beck and Teboulle
    past: float = 0.0  # ||P||_F^2
    residual: float = np.inf
    finished: str | None = None
    restarts: int = 0
    settled: int = 0  # steps since the rank last changed much, or a leap failed
    patience: int = SETTLED  # how many of these there are before the next leap

    @property
    def iterate(self) -> Array:
        """X as an array (n_rows, n_columns)."""
        return self.iterates.dense()

    @property
    def rank(self) -> int:
        """Rank of the iterate."""
        return int(self.factors.values.size)

    @property
    def objective(self) -> float:
        """F + R at the iterate."""
        return self.evaluation.value + self.penalty

    def accept(self, trial: ProximalTrial, penalty: float) -> None:
        """The trial becomes the iterate; the old buffers become spare."""
        self.factors_before = self.factors
        self.evaluation_before = self.evaluation
        self.evaluation, self.factors = trial.evaluation, trial.factors
        self.iterates.accept()
        self.penalty, self.residual = penalty, trial.residual
        self.weight, self.past, self.used = trial.weight, trial.squared, trial.curvature

    def sharpen(self) -> None:
        """Ask for more exact shrinkages from here on."""
        self.shrinker.sharpen()

    def retarget(self, program: Program) -> None:
        """The loss has changed a little: evaluate it anew and forget the momentum."""
        self.iterates.program = program
        self.evaluation = self.iterates.here(self.evaluation.effects)
        self.curvature = min(max(self.curvature, self.used), program.curvature)
        # The curvature changes with the program: what was too low before says little from here on.
        self.descent, self.slowing, self.measured = DESCENT, 1.0, ()
        self.settled = 0
        self.restart()

    def restart(self) -> None:
        """Forget the momentum."""
        self.weight = 1.0
        self.past = 0.0
        self.restarts += 1


@attrs.frozen
class Proximal(Solver[Program, ProximalState]):
    """Solves min F(Z) + R(Z): F a sum of smooth convex losses of observed entries, R spectral.

    FISTA (Beck and Teboulle, SIAM J. Imaging Sciences 2009) with the step found from the
    curvature measured between two points (Scheinberg, Goldfarb and Bai, Found. Comput. Math.
    2014) and the gradient restart of O'Donoghue and Candes (Found. Comput. Math. 2015).
    Where 30 % of a matrix are observed the measured curvature is about 0.3 of the proven
    bound, and the step three times as long.

    Under a nuclear norm alone, Z written out and the loss convex, steps leap once the rank has
    settled: the proximal step is then taken from where Newton's leads along the matrices of that
    rank (Bareilles, Iutzeler and Malick, Math. Programming 2023), found by conjugate gradients
    that know how close singular values of the gradient are to the weight. One that does not lower
    the objective is undone. On 1,000 x 600 with 30 % observed and a rank of 276 23 steps, seven
    of them leaps, certified 1e-6 where 106 did without.

    Cost of an iteration: a pass over the observed entries, two of long steps, 4 to 20 products
    n_items x n_columns x rank (or one decomposition of the smaller side where the rank is
    high), four passes over dense matrices; of a leap at most ten conjugate gradient steps more,
    each a pass over the entries and 10 such products in 32 bits. Memory: four dense n_items x
    n_columns matrices and about ten numbers an observed entry. Tables of more than two million
    cells of which at most a tenth is observed keep their iterates in factors and the gradient
    sparse, and take products of a sparse matrix and thin ones instead. The number of
    iterations grows with the square root of the ratio of the largest to the effective
    curvature.
    """

    name = "proximal"
    begins_at_zero = True

    def refusal(self, program: Program) -> str | None:
        """The reason against a regularizer without shrinkage or nonsmooth parts, or None."""
        if program.penalty.no_shrinkage is not None:
            return program.penalty.no_shrinkage
        return nonsmooth_refusal(program)

    def init(
        self, program: Program, start: Point | None, rng: np.random.Generator
    ) -> ProximalState:
        """Z = start, or 0."""
        begin = LowRank.zeros(program.shape) if start is None else start.latent
        iterates = iterates_of(program, begin)
        evaluation = iterates.here()
        curvature = program.curvature_at(evaluation)
        singular_values = begin.singular_values()
        # The start as it is given, its factors not orthonormal: the first step replaces them.
        factors = Shrunk(begin.left, np.ones(begin.width), begin.right)
        return ProximalState(
            iterates=iterates,
            evaluation=evaluation,
            evaluation_before=evaluation,
            factors=factors,
            factors_before=factors,
            penalty=program.penalty.of_singular_values(singular_values),
            shrinker=Shrinker.near(begin, rng),
            # Matrices whose entries are alike see the curvature of what is observed of them.
            curvature=density(program) * curvature if program.entries.sparse else curvature,
            first=curvature,
            used=curvature,
        )

    def pause(self, program: Program, state: ProximalState) -> ProximalState:
        """The two iterates in factors alone, with the momentum and the curvatures."""
        gone: Any = None
        return attrs.evolve(
            state,
            iterates=gone,
            evaluation=gone,
            evaluation_before=gone,
            shrinker=state.shrinker.copy(),
        )

    def resume(
        self, program: Program, paused: ProximalState, rng: np.random.Generator
    ) -> ProximalState:
        """The paused state, its iterates as the program holds Z again."""
        fresh = self.init(program, Point(low_rank_of(paused.factors)), rng)
        before = fresh.iterates.come_from(low_rank_of(paused.factors_before))
        return attrs.evolve(
            paused,
            iterates=fresh.iterates,
            evaluation=fresh.evaluation,
            evaluation_before=program.evaluate(before, fresh.evaluation.effects),
            shrinker=paused.shrinker.copy(rng),
        )

    def step(self, program: Program, state: ProximalState) -> None:
        """A leap where the rank has settled, else or where that fails an accelerated step."""
        if not (may_leap(program, state) and leap(program, state)):
            advance(program, state)

    def expected_gap(self, state: ProximalState) -> float:
        """Excess of the gradient, by the residual, times the nuclear norm over the objective."""
        size = abs(state.objective)
        excess = state.residual * float(np.sum(state.factors.values))
        return PROMISED * excess / size if size > 0.0 else np.inf

    def candidate(self, program: Program, state: ProximalState) -> Point:
        """The iterate in factors."""
        return Point(low_rank_of(state.factors), warm=state.evaluation.effects)


def low_rank_of(factors: Shrunk) -> LowRank:
    """The matrix that was shrunk, as a product."""
    return LowRank(factors.left * factors.values, factors.right)


def advance(program: Program, state: ProximalState) -> None:
    """One accelerated step, its length found by backtracking."""
    before, rank = state.objective, state.rank
    ceiling = program.curvature  # inf where there is no proven bound
    trial = attempt(program, state, min(state.curvature, ceiling))
    while trial.measured > trial.curvature * (1.0 + 1e-10) and trial.curvature < ceiling:
        # A curvature measured far away, or after an overflow, says little here.
        larger = np.clip(SAFETY * trial.measured / trial.curvature, 1.5, 8.0)
        trial = attempt(program, state, min(ceiling, float(larger) * trial.curvature))
        state.descent **= state.slowing
    state.accept(trial, program.penalty.of_singular_values(trial.factors.values))
    lowest = LOWEST * min(ceiling, state.first)
    state.measured = (*state.measured, trial.measured)[-WINDOW:]
    slower = state.descent * trial.curvature
    if len(state.measured) == WINDOW:
        slower = min(slower, SAFETY * max(state.measured))
    state.curvature = max(SAFETY * trial.measured, slower, lowest)
    if trial.advance < 0.0 or state.objective > before + ROUNDING * abs(before):
        state.restart()
    alike = abs(state.rank - rank) <= max(1.0, ALIKE * rank)
    state.settled = state.settled + 1 if alike else 0


def may_leap(program: Program, state: ProximalState) -> bool:
    """True where Newton's step is defined and worth trying: a nuclear norm alone, a settled rank.

    Not within a method of multipliers, which then did not converge.
    """
    penalty = program.penalty
    alone = isinstance(penalty.main, Factored) and isinstance(penalty.main.chart, Flat)
    alone = alone and not (program.terms or penalty.smooth or program.entries.sparse)
    alone = alone and not any(piece.is_envelope for piece in program.loss.pieces)
    ready = state.settled >= state.patience
    return alone and program.loss.convex and ready and 0 < state.rank < min(program.shape)


def leap(program: Program, state: ProximalState) -> bool:
    """A proximal step from where Newton's leads along the matrices of the rank, if that is lower.

    The prox finds the rank anew. Where it leads up, as far from an optimum, iterates stay; where
    objectives differ by rounding alone the residual decides.
    """
    before, rounding = state.objective, ROUNDING * abs(state.objective)
    move = newton_move_of(program, state)
    if move.length <= FARTHEST * float(np.linalg.norm(state.factors.values)):
        now = low_rank_of(state.factors)
        behind = LowRank(np.hstack([now.left, -move.left]), np.hstack([now.right, move.right]))
        state.iterates.come_from(behind)
        state.past = move.length**2
        trial = attempt(program, state, min(state.curvature, program.curvature), theta=1.0)
        penalty = program.penalty.of_singular_values(trial.factors.values)
        risen = trial.evaluation.value + penalty - before
        if risen < -rounding or (risen <= rounding and trial.residual < state.residual):
            state.accept(trial, penalty)
            state.patience = SETTLED
            return True
    state.restart()
    state.settled, state.patience = 0, 2 * state.patience
    return False


def newton_move_of(program: Program, state: ProximalState) -> LowRank:
    """Newton's move from X along the matrices of its rank."""
    at, now = state.evaluation, state.factors
    # In these units of gradients and of Z nothing overflows.
    weight, unit = program.penalty.threshold(1.0), float(now.values[0])
    gradient = attrs.evolve(at).gradient.dense()  # of a copy, which does not keep it
    gradient /= weight
    place = FixedRank(now.left, now.values / unit, now.right, gradient)
    changes = program.gradient_changes(at, unit / weight)
    move = newton_move(place, changes, state.used * (unit / weight), now.below)
    return LowRank(unit * move.left, move.right)


def attempt(
    program: Program, state: ProximalState, curvature: float, theta: float | None = None
) -> ProximalTrial:
    """X_new = prox(Y - G(Y) / L) at Y = X + theta P, P = X - the X before, and its curvature.

    Where ``theta`` is given there is no momentum from then on.
    """
    iterates = state.iterates
    # The momentum weight obeys t_new (t_new - 1) / L_new = t^2 / L_old.
    before = None if theta is not None else state.evaluation_before
    weight = 1.0
    if theta is None:
        ratio = curvature / state.used
        weight = 0.5 * (1.0 + float(np.sqrt(1.0 + 4.0 * ratio * state.weight**2)))
        theta = (state.weight - 1.0) / weight
    ahead = iterates.ahead(theta, state.evaluation, before)
    step = 1.0 / curvature
    factors = state.shrinker(
        iterates.gradient_step(ahead, curvature),
        lambda s: program.penalty.shrink(s, step),
        program.penalty.threshold(step),
        state.residual / state.used,
    )
    reached = iterates.reach(factors, ahead.effects)
    made = iterates.step(ahead, reached, theta)
    # ||X_new - Y||^2 from products of small differences, without forming Y again
    distance = made.squared - 2.0 * theta * made.advance + theta**2 * state.past
    distance = max(distance, 0.0)
    return ProximalTrial(
        factors=factors,
        evaluation=reached,
        curvature=curvature,
        measured=measured_curvature(ahead, reached, made, distance),
        weight=weight,
        squared=made.squared,
        advance=made.squared - theta * made.advance,
        residual=curvature * float(np.sqrt(distance)),
    )


def density(program: Program) -> float:
    """The share of Z that is observed."""
    return program.entries.size / (program.shape[0] * program.shape[1])


def measured_curvature(
    ahead: Evaluation, reached: Evaluation, made: Step, distance: float
) -> float:
    """The least L for which F(X) <= F(Y) + <G(Y), X - Y> + L/2 ||X - Y||^2.

    Exactly so for quadratic losses, through <G(X) - G(Y), X - Y> / ||X - Y||^2, which is
    accurate however close the points are; the values themselves decide where they say more
    and their difference is above rounding. inf where F overflowed.
    """
    if distance <= 0.0:
        return 0.0
    if not np.isfinite(reached.value):
        return np.inf
    above = reached.value - ahead.value - made.rise
    rounding = ROUNDING * (abs(reached.value) + abs(ahead.value))
    measured = max(made.curvature_along / distance, 2.0 * (above - rounding) / distance)
    return measured if np.isfinite(measured) else np.inf
