"""Alternating ridge regressions for a nuclear norm, in memory of the observed entries."""

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import numpy as np

from mcframe.backends.certificate import Point
from mcframe.backends.iterates import difference, inner
from mcframe.backends.refusing import rough_parts
from mcframe.compile import Evaluation, Piece, Program
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import TwiceDifferentiable
from mcframe.contracts.solver import Solver
from mcframe.numerics import kernels
from mcframe.numerics.charts import Flat
from mcframe.numerics.low_rank import LowRank
from mcframe.numerics.quasi_newton import descent
from mcframe.numerics.sampled import (
    Sampled,
    SampledMatrix,
    leading_block,
    top_singular,
    without,
)
from mcframe.numerics.shrinkage import Shrinker

__all__ = ["Alternating", "AlternatingState"]

# Columns at the start.
FIRST_WIDTH = 16
# Sweeps have settled where one lowers the objective by less than this, relatively, or after so
# many: what goes on so long is short columns.
SETTLED, SWEEPS = 1e-6, 10
# A column whose singular value is below this relative to the largest is dropped.
NEGLIGIBLE = 1e-10
# A column whose singular value is below this relative to the largest is short.
SHORT = 0.1
# The least second derivative that a step counts with, relative to the curvature.
FLATTEST = 0.1
# Lanczos steps towards the first short columns.
LOOKED = 100
# Quasi-Newton steps of short columns between two sweeps.
REFINED = 8
# How far above the measured curvature the next step of short columns counts with it, and how
# fast it may come down.
SAFETY, DESCENT = 1.05, 0.5
# Shares of a step that are tried where the full one is not sure to descend.
SHARES = (1.0, 0.5, 0.25, 0.1, 0.01, 1e-3, 1e-4)


@attrs.define(eq=False)
class AlternatingState:
    """Z = U V' by its singular value decomposition, balanced, and the loss at its entries."""

    left: Array
    right: Array
    values: Array  # singular values of Z
    z: Array
    evaluation: Evaluation
    penalty: float
    shrinker: Shrinker  # of what is outside the long columns
    curvature: float  # that the next step of short columns counts with
    length: float = np.inf  # of the last step of short columns
    sweeps: int = 0
    residual: float = np.inf  # what the last sweep lowered the objective by, relatively
    settled: bool = False  # whether the long columns are about right, and short ones are sought
    finished: str | None = None

    @property
    def rank(self) -> int:
        """The number of columns."""
        return int(self.values.size)

    @property
    def objective(self) -> float:
        """F + R at the iterate."""
        return self.evaluation.value + self.penalty

    def sharpen(self) -> None:
        """Short columns from now on, then more exact ones."""
        if self.settled:
            self.shrinker.sharpen()
        self.settled = True

    def arrive(self, program: Program, left: Array, right: Array) -> None:
        """Z = left @ right.T, balanced, and all that follows from it."""
        self.left, self.values, self.right = balanced(left, right)
        self.z = entries(program, self.left, self.right)
        latent = LowRank(self.left, self.right)
        self.evaluation = program.evaluate_thin(latent, self.z, self.evaluation.biases)
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
        return (self.left, self.values, self.right, self.z, self.evaluation, self.penalty)

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """Back to a snapshot."""
        self.left, self.values, self.right, self.z, self.evaluation, self.penalty = snapshot


@attrs.frozen
class Alternating(Solver[Program, AlternatingState]):
    """Solves min F(Z) + weight ||Z||_* for smooth F of observed entries, without forming Z.

    With ``||Z||_* = min (||U||_F^2 + ||V||_F^2) / 2 over Z = U V'`` each row of U, V fixed, is
    a ridge regression on the rows of V at its observed entries, and each row of V likewise
    (exact alternating least squares; Hastie, Mazumder, Lee and Zadeh, JMLR 2015, section 3,
    for Gaussian data). Other losses enter by their second derivatives: Newton steps of each
    row, shortened where they do not descend; a loss without one by its curvature. Effects
    are solved for after each half.

    The rank is found: columns begin as leading singular vectors of the slope at 0 and are
    dropped where leaving them out lowers the objective. Sweeps bring long columns close to the
    optimum in a few rounds; once they have settled, each is followed by a proximal gradient
    step of the short columns outside of the long ones' spaces, which finds, turns and drops
    them, and by a few quasi-Newton steps of their factors.

    Cost of a sweep with k columns and N entries: N (2 k^2 + 12 k) operations, a few dozen
    passes over N numbers, and (n_items + n_columns) k^3 operations; of a step with s short
    columns: 4 to 18 products of a sparse matrix and s + 12 columns, and about as many with s.
    Of a certificate on a large table: two products of a sparse matrix and a vector for each of
    24 to 800 steps. Memory: about 190 bytes an entry, the data included, and some thin factors
    (measured on 20,000 x 5,000 with 1 to 10 million entries). Steps grow with the logarithm of
    the tolerance, and are many where much of the noise is fitted.
    """

    name = "alternating"
    dense = False
    reads_background = True

    def refuses(self, program: Program) -> str | None:
        """It needs a nuclear norm alone, and smooth losses of entries."""
        main: Any = program.penalty.main
        if program.factored is not None or not isinstance(getattr(main, "chart", None), Flat):
            return "it alternates between the factors of a nuclear norm"
        if program.penalty.ridge > 0.0:
            return "a ridge beside a nuclear norm is left to the other backends"
        if program.terms or program.ones:
            return "terms beside the nuclear norm are left to the other backends"
        if not program.loss.smooth:
            return rough_parts(program)
        if not program.loss.convex:
            return "a loss that is not convex is left to the other backends"
        return None

    def init(
        self, program: Program, start: Point | None, rng: np.random.Generator
    ) -> AlternatingState:
        """The start, or leading singular vectors of the slope at 0."""
        loss = program.loss
        n_rows, n_columns = program.shape
        z = np.zeros(loss.n_entries)
        evaluation = program.evaluate_thin(LowRank.zeros(program.shape), z)
        state = AlternatingState(
            left=np.zeros((n_rows, 0)),
            right=np.zeros((n_columns, 0)),
            values=np.zeros(0),
            z=z,
            evaluation=evaluation,
            penalty=0.0,
            shrinker=Shrinker(program.shape, rng),
            curvature=loss.curvature_at(z, evaluation.biases),
        )
        if start is not None and start.latent.width:
            state.arrive(program, start.latent.left, start.latent.right)
        return state

    def step(self, program: Program, state: AlternatingState) -> None:
        """Both halves of a sweep; then short columns, once the long ones are about right."""
        before = state.objective
        if state.rank == 0 and not state.settled:
            begin(program, state)
        else:
            for by_rows in (True, False):
                half_sweep(program, state, by_rows)
        state.residual = decrease(before, state.objective)
        state.sweeps += 1
        if state.residual <= SETTLED or state.sweeps >= SWEEPS:
            state.settled = True
        if state.settled:
            step_aside(program, state)
            refine(program, state)
        else:
            relength(program, state)

    def candidate(self, program: Program, state: AlternatingState) -> Point:
        """The iterate in its factors."""
        return Point(LowRank(state.left, state.right))


def decrease(before: float, after: float) -> float:
    """How far an objective fell, relatively."""
    return max(before - after, 0.0) / max(abs(before), abs(after), 1e-300)


def entries(program: Program, left: Array, right: Array) -> Array:
    """The observed entries of U V'."""
    z = np.empty(program.loss.n_entries)
    program.pattern.entries(left, right, z)
    return z


def balanced(left: Array, right: Array) -> tuple[Array, Array, Array]:
    """The same product with orthogonal columns, equally long on both sides, none negligible."""
    (left, upper), (right, lower) = np.linalg.qr(left), np.linalg.qr(right)
    turned, s, across = np.linalg.svd(upper @ lower.T)
    kept = s > NEGLIGIBLE * float(np.max(s, initial=0.0))
    roots = np.sqrt(s[kept])
    return (left @ turned[:, kept]) * roots, s[kept], (right @ across[kept].T) * roots


def half_sweep(program: Program, state: AlternatingState, by_rows: bool) -> None:
    """New rows of one factor, the other and the effects fixed; then the best effects."""
    own, other = (state.left, state.right) if by_rows else (state.right, state.left)
    bend, sure = bends(program, state)
    pull: Array = bend * state.z - state.evaluation.slope
    shared = None
    if program.background is not None:
        bend = program.background.beyond_bend(bend)
        pull = program.background.beyond_pull(pull)
        shared = program.background.shared(other, by_rows)
    lines = program.pattern.lines(by_rows)
    weight = program.penalty.threshold(1.0)
    fresh = np.empty_like(own)
    kernels.ridge_solutions(
        lines.starts, lines.across, lines.places, bend, pull, other, weight, fresh, shared
    )
    if not sure:
        fresh = descended(program, state, by_rows, fresh, weight)
    pair = (fresh, other) if by_rows else (other, fresh)
    state.arrive(program, *pair)


def bends(program: Program, state: AlternatingState) -> tuple[Array, bool]:
    """The second derivative of the loss for each number, and whether it is nowhere larger.

    One number stands for all where they are equal.
    """
    sure, found = True, []
    for piece, effects in zip(program.loss.pieces, state.evaluation.biases, strict=True):
        bend = piece_bend(piece, piece.shaped(state.z), effects)
        sure = sure and bool(np.all(bend >= piece.curvature * (1.0 - 1e-12)))
        found.append((bend, piece.n_numbers))
    if all(bend.size == 1 for bend, _ in found) and len({float(b[0]) for b, _ in found}) == 1:
        return found[0][0], sure
    spread = [bend if bend.size == count else np.full(count, bend[0]) for bend, count in found]
    return np.concatenate(spread), sure


def piece_bend(piece: Piece, z: Array, effects: Array | None) -> Array:
    """The second derivative at z (already shaped), or the curvature where there is none."""
    likelihood = piece.at(effects)
    newton = isinstance(likelihood, TwiceDifferentiable) and piece.width == 1
    if newton and not piece.layout.n_parameters:
        bend = piece.scale * likelihood.second_derivative(piece.predictor(z, effects), piece.y)
        # Where a loss is flat a Newton step has no length.
        bounded = np.isfinite(piece.curvature)
        bend = np.maximum(bend, FLATTEST * piece.curvature if bounded else 1e-6 * np.max(bend))
        return bend[:1] if np.all(bend == bend[0]) else bend
    scale = piece.stretch * np.ones((piece.y.size, piece.width))
    return (scale * float(likelihood.curvature)).ravel()


def descended(
    program: Program, state: AlternatingState, by_rows: bool, fresh: Array, weight: float
) -> Array:
    """Each row of a factor moved towards its new value as far as its own objective falls."""
    own, other = (state.left, state.right) if by_rows else (state.right, state.left)
    places = program.loss.rows if by_rows else program.loss.columns
    pair = (fresh, other) if by_rows else (other, fresh)
    moved = entries(program, *pair) - state.z
    at_first = of_lines(program, state, state.z, by_rows, own, weight)
    share = np.ones(own.shape[0])
    unsettled = np.ones(own.shape[0], dtype=bool)
    for piece in program.loss.pieces:
        if piece.width > 1 and not by_rows:  # tied columns, whose full step descends
            unsettled[places[piece.part]] = False
    for trial in SHARES:
        share[unsettled] = trial
        factor = own + share[:, None] * (fresh - own)
        z = state.z + share[places] * moved
        reached = of_lines(program, state, z, by_rows, factor, weight)
        with np.errstate(invalid="ignore"):
            unsettled &= ~(reached <= at_first + 1e-14 * np.abs(at_first))
        if not unsettled.any():
            return factor
    share[unsettled] = 0.0
    return own + share[:, None] * (fresh - own)


def of_lines(
    program: Program,
    state: AlternatingState,
    z: Array,
    by_rows: bool,
    factor: Array,
    weight: float,
) -> Array:
    """The objective of each row of a factor, effects fixed: its losses and its own penalty."""
    places = program.loss.rows if by_rows else program.loss.columns
    total = 0.5 * weight * np.einsum("ij,ij->i", factor, factor)
    with np.errstate(over="ignore", invalid="ignore"):
        for piece, effects in zip(program.loss.pieces, state.evaluation.biases, strict=True):
            predictor = piece.predictor(piece.shaped(z), effects)
            losses = piece.scale * piece.at(effects).value(predictor, piece.y)
            lines = places[piece.part][:: piece.width]
            total += np.bincount(lines, weights=losses, minlength=total.size)
    if program.background is not None:
        pair = (factor, state.right) if by_rows else (state.left, factor)
        total += program.background.of_lines(LowRank(*pair), z, places, by_rows)
    return total


def slope_at(program: Program, state: AlternatingState) -> Sampled:
    """The slope of the loss as a sparse matrix, that of a background beside it."""
    return program.thin_slope(LowRank(state.left, state.right), state.z, state.evaluation.slope)


def relength(program: Program, state: AlternatingState) -> None:
    """The best length of each short column by itself; those that reach 0 are dropped.

    Along a column the objective changes by (weight - gain) and bends by the curvature there.
    """
    short = state.short
    if not short.any():
        return
    left, right = state.bases
    gains = -np.einsum("ij,ij->j", left, slope_at(program, state).times(right))
    excess = gains - program.penalty.threshold(1.0)
    moves = excess[short] / bends_along(program, state, left[:, short], right[:, short])
    begun = state.values

    def moved(share: float) -> tuple[Array, Array]:
        lengths = begun.copy()
        lengths[short] = np.maximum(lengths[short] + share * moves, 0.0)
        roots = np.sqrt(lengths[lengths > 0.0])
        return left[:, lengths > 0.0] * roots, right[:, lengths > 0.0] * roots

    lower(program, state, moved)


def begin(program: Program, state: AlternatingState) -> None:
    """Columns along the leading singular vectors of the slope at 0."""
    weight = program.penalty.threshold(1.0)
    count = min(FIRST_WIDTH, *program.shape)
    left, s, right = leading_block(slope_at(program, state), count, state.shrinker.rng)
    above = s > weight
    if not above.any():
        return
    left, s, right = left[:, above], s[above], right[:, above]
    lengths = (s - weight) / bends_along(program, state, left, right)

    def begun(share: float) -> tuple[Array, Array]:
        roots = np.sqrt(share * lengths)
        return -left * roots, right * roots

    lower(program, state, begun)


def step_aside(program: Program, state: AlternatingState) -> None:
    """A proximal gradient step of the short columns, outside of the long ones' spaces.

    With P and Q the projections off these spaces, P (Z - S / L) Q is shrunk: columns appear where
    the slope S has singular values above the weight there, turn, and vanish.
    """
    short = state.short
    left, right = state.bases
    off = left[:, ~short], right[:, ~short]
    kept = state.left[:, ~short], state.right[:, ~short]
    old = LowRank(left[:, short] * state.values[short], right[:, short])
    slope, z, before = state.evaluation.slope, state.z, state.snapshot()
    matrix = slope_at(program, state)
    if state.shrinker.basis is None:
        seek(state, matrix, *off)
    while True:
        tried = state.curvature
        step = 1.0 / tried
        factors = state.shrinker(
            Aside(old, step * matrix, *off),
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
        measured = float(np.dot(state.evaluation.slope - slope, state.z - z)) / squared
        if program.background is not None:
            measured += program.background.bend(moved, state.z - z) / squared
        state.curvature = max(SAFETY * measured, DESCENT * tried)
        state.length = float(np.sqrt(squared))
        if measured <= tried:
            return
        state.restore(before)


def seek(state: AlternatingState, slope: Sampled, left: Array, right: Array) -> None:
    """Where the shrinker begins: leading singular vectors of the slope outside of two spaces."""
    rng = state.shrinker.rng
    near, s, far = top_singular(slope, left, right, FIRST_WIDTH, LOOKED, rng)
    tall = slope.shape[0] >= slope.shape[1]
    state.shrinker.basis = far if tall else near
    state.shrinker.ritz = np.square(s / state.curvature)


@attrs.frozen(eq=False)
class Aside:
    """P (Z - S) Q for Z in factors, S sparse, P and Q the projections off two spaces."""

    latent: LowRank
    slope: Sampled
    left: Array
    right: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.latent.shape

    def times(self, block: Array) -> Array:
        """Times V."""
        inside = without(block, self.right)
        image = self.latent.left @ (self.latent.right.T @ inside) - self.slope.times(inside)
        return without(image, self.left)

    def transposed_times(self, block: Array) -> Array:
        """The transpose times U."""
        inside = without(block, self.left)
        image = self.latent.right @ (self.latent.left.T @ inside)
        return without(image - self.slope.transposed_times(inside), self.right)


def refine(program: Program, state: AlternatingState) -> None:
    """Quasi-Newton steps of the short columns' factors, the long columns fixed.

    Sweeps bring a short column to its length and direction only by factors of gain / weight, and
    by ratios of neighbouring singular values of the slope, which are close to 1 there.
    """
    short = state.short
    if not short.any():
        return
    n_rows, weight = program.shape[0], program.penalty.threshold(1.0)
    kept = state.left[:, ~short], state.right[:, ~short]
    begun = np.vstack([state.left[:, short], state.right[:, short]])
    rest = state.z - entries(program, begun[:n_rows], begun[n_rows:])
    biases = state.evaluation.biases

    def value_and_gradient(vector: Array) -> tuple[float, Array]:
        factors = vector.reshape(begun.shape)
        left, right = factors[:n_rows], factors[n_rows:]
        z = rest + entries(program, left, right)
        latent = LowRank(np.hstack([kept[0], left]), np.hstack([kept[1], right]))
        evaluation = program.evaluate_thin(latent, z, biases)
        slope = program.thin_slope(latent, z, evaluation.slope)
        gradient = np.vstack([slope.times(right), slope.transposed_times(left)])
        gradient += weight * factors
        value = evaluation.value + 0.5 * weight * float(np.vdot(vector, vector))
        return value, gradient.ravel()

    found = descent(value_and_gradient, begun.ravel(), REFINED).reshape(begun.shape)

    def refined(share: float) -> tuple[Array, Array]:
        moved = begun + share * (found - begun)
        return np.hstack([kept[0], moved[:n_rows]]), np.hstack([kept[1], moved[n_rows:]])

    lower(program, state, refined)


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


def bends_along(program: Program, state: AlternatingState, left: Array, right: Array) -> Array:
    """The second derivative of the loss along each a b', a and b a column of each."""
    bend, _ = bends(program, state)
    if bend.size == 1:
        bend = np.full(program.loss.n_entries, bend[0])
    everywhere: Array | float = 0.0
    if program.background is not None:
        bend = program.background.beyond_bend(bend)
        everywhere = program.background.bends_along(left, right)
    curved = SampledMatrix(program.pattern, bend).times(right * right)
    along: Array = np.einsum("ij,ij->j", left * left, curved) + everywhere
    return np.maximum(along, 1e-300)
