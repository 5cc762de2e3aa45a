"""Short columns: they begin, turn, find their lengths and vanish, which sweeps do slowly."""

from functools import partial

import numpy as np

from mcframe.backends.alternating.state import AlternatingState, lower
from mcframe.compile import Program, lines_near
from mcframe.compile.iterates import difference, inner
from mcframe.contracts.arrays import Array
from mcframe.numerics.descent.quasi_newton import descent
from mcframe.numerics.operators import LowRank, Operator, Projected
from mcframe.numerics.spectra.lanczos import Lanczos

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
    lengths = (s - weight) / lines_near(program, state.evaluation).along(left, right)

    def begun(share: float) -> tuple[Array, Array]:
        roots = np.sqrt(share * lengths)
        return -left * roots, right * roots

    lower(program, state, begun)


def relength(program: Program, state: AlternatingState) -> None:
    """The best length of each short column by itself; those that reach 0 are dropped.

    Along a column the objective changes by (weight - gain) and has the curvature found there.
    """
    short = state.short
    if not short.any():
        return
    left, right = state.bases
    pair = state.left[:, short], state.right[:, short]
    curvatures = lines_near(program, state.evaluation).along(left[:, short], right[:, short])
    forward, _ = state.evaluation.factor_gradients(*pair, short)
    gains = -np.einsum("ij,ij->j", pair[0], forward) / state.values[short]
    excess = gains - program.penalty.threshold(1.0)
    moves = excess / curvatures
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
    the gradient S has singular values above the weight there, turn, and vanish.
    """
    short = state.short
    left, right = state.bases
    off = left[:, ~short], right[:, ~short]
    kept = state.left[:, ~short], state.right[:, ~short]
    old = LowRank(left[:, short] * state.values[short], right[:, short])
    begun, before = state.evaluation, state.snapshot()
    matrix = begun.gradient
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
            return
        # What is measured far off, or where a loss overflowed, says little about the step to take.
        steeper = measured if np.isfinite(measured) else np.inf
        state.curvature = min(SAFETY * steeper, STEEPER * tried)
        state.restore(before)


def seek(state: AlternatingState, gradient: Operator, left: Array, right: Array) -> None:
    """Start the shrinker at leading singular vectors of the gradient outside of two spaces."""
    lanczos = Lanczos(Projected(gradient, left, right), state.shrinker.rng)
    lanczos.advance(LOOKED)
    state.shrinker.basis, squares = lanczos.leading_of_short_side(FIRST_WIDTH)
    state.shrinker.ritz = squares / state.curvature**2


def refine(program: Program, state: AlternatingState) -> None:
    """Quasi-Newton steps of the short columns' factors, the long columns fixed.

    Sweeps bring a short column to its length and direction only by factors of gain / weight, and
    by ratios of neighbouring singular values of the gradient, which are close to 1 there. Where
    each evaluation reads all cells (about 14 for these steps), sweeps alone are cheaper: Newton's
    equations of such cells turn short columns, too.
    """
    short = state.short
    if not short.any() or program.background.n_read:
        return
    n_rows, weight = program.shape[0], program.penalty.threshold(1.0)
    kept = state.left[:, ~short], state.right[:, ~short]
    begun = np.vstack([state.left[:, short], state.right[:, short]])
    part = LowRank(begun[:n_rows], begun[n_rows:])
    places = program.entries.beside(state.evaluation.place, part, LowRank(*kept))
    effects, last = state.evaluation.effects, slice(kept[0].shape[1], None)

    def value_and_gradient(vector: Array) -> tuple[float, Array]:
        factors = vector.reshape(begun.shape)
        left, right = factors[:n_rows], factors[n_rows:]
        evaluation = program.evaluate(places.at(left, right), effects)
        gradient = np.vstack(evaluation.factor_gradients(left, right, last))
        gradient += weight * factors
        value = evaluation.value + 0.5 * weight * float(np.vdot(vector, vector))
        return value, gradient.ravel()

    found = descent(value_and_gradient, begun.ravel(), REFINED).reshape(begun.shape)
    if np.array_equal(found, begun):
        return
    # What was found is lower, so that nothing has to wait for its objective.
    left, right = found[:n_rows], found[n_rows:]
    state.arrive(program, np.hstack([kept[0], left]), np.hstack([kept[1], right]))
