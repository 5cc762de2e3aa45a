"""Short columns: they begin, turn, find their lengths and vanish, which sweeps do slowly."""

from functools import partial

import attrs
import numpy as np

from mcframe.backends.alternating.bends import bends_along
from mcframe.backends.alternating.state import AlternatingState, entries, lower, slope_at
from mcframe.backends.iterates import difference, inner
from mcframe.compile import Program
from mcframe.contracts.arrays import Array
from mcframe.numerics.lanczos import Lanczos, Outside
from mcframe.numerics.low_rank import LowRank
from mcframe.numerics.quasi_newton import descent
from mcframe.numerics.sampled import Sampled

__all__ = ["begin", "refine", "relength", "step_aside"]

# Columns at the start.
FIRST_WIDTH = 16
# Block Lanczos steps towards the first columns, and towards the first short ones.
BEGUN, LOOKED = 12, 30
# Quasi-Newton steps of short columns between two sweeps.
REFINED = 8
# How far above the measured curvature the next step of short columns counts with it, and how
# fast it may come down.
SAFETY, DESCENT = 1.05, 0.5
# How much higher the curvature is taken to be after a step too long, at most.
STEEPER = 8.0


def begin(program: Program, state: AlternatingState) -> None:
    """Columns along the leading singular vectors of the slope at 0."""
    weight = program.penalty.threshold(1.0)
    count = min(FIRST_WIDTH, *program.shape)
    lanczos = Lanczos(slope_at(program, state), state.shrinker.rng)
    lanczos.advance(BEGUN)
    left, s, right = lanczos.leading(count)
    above = s > weight
    if not above.any():
        return
    left, s, right = left[:, above], s[above], right[:, above]
    lengths = (s - weight) / bends_along(program, state, left, right)

    def begun(share: float) -> tuple[Array, Array]:
        roots = np.sqrt(share * lengths)
        return -left * roots, right * roots

    lower(program, state, begun)


def relength(program: Program, state: AlternatingState) -> None:
    """The best length of each short column by itself; those that reach 0 are dropped.

    Along a column the objective changes by (weight - gain) and bends by the curvature there.
    """
    short = state.short
    if not short.any():
        return
    left, right = state.bases
    pair = state.left[:, short], state.right[:, short]
    forward, _ = program.thin_gradients(state.evaluation, *pair, short)
    gains = -np.einsum("ij,ij->j", pair[0], forward) / state.values[short]
    excess = gains - program.penalty.threshold(1.0)
    moves = excess / bends_along(program, state, left[:, short], right[:, short])
    begun = state.values

    def moved(share: float) -> tuple[Array, Array]:
        lengths = begun.copy()
        lengths[short] = np.maximum(lengths[short] + share * moves, 0.0)
        roots = np.sqrt(lengths[lengths > 0.0])
        return left[:, lengths > 0.0] * roots, right[:, lengths > 0.0] * roots

    lower(program, state, moved)


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
    begun, z, before = state.evaluation, state.z, state.snapshot()
    matrix = slope_at(program, state)
    if state.shrinker.basis is None:
        seek(state, matrix, *off)
    while True:
        tried = state.curvature
        step = 1.0 / tried
        factors = state.shrinker(
            Outside(Moved(old, step * matrix), *off),
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
        measured = float(np.dot(state.evaluation.slope - begun.slope, state.z - z)) / squared
        if begun.behind is not None and state.evaluation.behind is not None:
            risen = begun.behind.bend(state.evaluation.behind, moved, state.z - z)
            measured += risen / squared
        if measured <= tried:
            state.curvature = max(SAFETY * measured, DESCENT * tried)
            state.length = float(np.sqrt(squared))
            return
        # What is measured far off, or where a loss overflowed, says little about the step to take.
        steeper = measured if np.isfinite(measured) else np.inf
        state.curvature = min(SAFETY * steeper, STEEPER * tried)
        state.restore(before)


def seek(state: AlternatingState, slope: Sampled, left: Array, right: Array) -> None:
    """Where the shrinker begins: leading singular vectors of the slope outside of two spaces."""
    lanczos = Lanczos(Outside(slope, left, right), state.shrinker.rng)
    lanczos.advance(LOOKED)
    near, s, far = lanczos.leading(FIRST_WIDTH)
    tall = slope.shape[0] >= slope.shape[1]
    state.shrinker.basis = far if tall else near
    state.shrinker.ritz = np.square(s / state.curvature)


@attrs.frozen(eq=False)
class Moved:
    """Z - S for Z in factors and S sparse."""

    latent: LowRank
    slope: Sampled

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.latent.shape

    def times(self, block: Array) -> Array:
        """Times V."""
        image: Array = self.latent.left @ (self.latent.right.T @ block)
        return image - self.slope.times(block)

    def transposed_times(self, block: Array) -> Array:
        """The transpose times U."""
        image: Array = self.latent.right @ (self.latent.left.T @ block)
        return image - self.slope.transposed_times(block)


def refine(program: Program, state: AlternatingState) -> None:
    """Quasi-Newton steps of the short columns' factors, the long columns fixed.

    Sweeps bring a short column to its length and direction only by factors of gain / weight, and
    by ratios of neighbouring singular values of the slope, which are close to 1 there. Where each
    evaluation reads all cells (about 14 for these steps), sweeps alone are cheaper: Newton's
    equations of such cells turn short columns, too.
    """
    short = state.short
    if not short.any() or (program.background is not None and program.background.n_read):
        return
    n_rows, weight = program.shape[0], program.penalty.threshold(1.0)
    kept = state.left[:, ~short], state.right[:, ~short]
    begun = np.vstack([state.left[:, short], state.right[:, short]])
    rest = state.z - entries(program, begun[:n_rows], begun[n_rows:])
    biases, last = state.evaluation.biases, slice(kept[0].shape[1], None)

    def value_and_gradient(vector: Array) -> tuple[float, Array]:
        factors = vector.reshape(begun.shape)
        left, right = factors[:n_rows], factors[n_rows:]
        z = rest + entries(program, left, right)
        latent = LowRank(np.hstack([kept[0], left]), np.hstack([kept[1], right]))
        evaluation = program.evaluate_thin(latent, z, biases)
        gradient = np.vstack(program.thin_gradients(evaluation, left, right, last))
        gradient += weight * factors
        value = evaluation.value + 0.5 * weight * float(np.vdot(vector, vector))
        return value, gradient.ravel()

    found = descent(value_and_gradient, begun.ravel(), REFINED).reshape(begun.shape)

    def refined(share: float) -> tuple[Array, Array]:
        moved = begun + share * (found - begun)
        return np.hstack([kept[0], moved[:n_rows]]), np.hstack([kept[1], moved[n_rows:]])

    lower(program, state, refined)
