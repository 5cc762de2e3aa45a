"""Moving an iterate into all hard constraints at once."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mcframe.compile import Attached, Program
from mcframe.contracts.arrays import Array
from mcframe.contracts.term import Constraint
from mcframe.numerics.low_rank import LowRank
from mcframe.numerics.max_norm import factors_of

__all__ = ["made_feasible"]

Projection = Callable[[Array], Array]
# Rounds of projections; what is not feasible after them is left to the objective to judge.
ROUNDS = 200


def made_feasible(program: Program, latent: LowRank, biases: tuple[Array | None, ...]) -> LowRank:
    """The iterate itself without hard constraints, else a point close by that meets them all.

    Projections in turn; then, where the main term is a ball that the others have led out of,
    a step towards a point that meets those and lies deeper inside.
    """
    projections = projections_of(program, biases)
    if not projections:
        return latent
    if program.factored is not None:
        shorter = scaled_factors(program, latent)
        if shorter is not None:
            return shorter
    dense = met(projections, latent.dense())
    anchor = met(projections[is_ball(program.penalty.main) :], np.zeros(program.shape))
    found = inside_the_ball(program, dense, anchor)
    if program.ones and program.factored is None:
        return found.with_last_column(1.0)
    return found


def met(projections: list[Projection], dense: Array) -> Array:
    """A point of all sets: projections in turn until none moves it by more than rounding."""
    for _ in range(ROUNDS):
        before = dense
        for project in projections:
            dense = project(dense)
        moved = float(np.linalg.norm(dense - before))
        if len(projections) == 1 or moved <= 1e-13 * float(np.linalg.norm(dense)):
            break
    return dense


def projections_of(program: Program, biases: tuple[Array | None, ...]) -> list[Projection]:
    """One map of dense matrices for each hard constraint, the main term's ball first."""
    projections: list[Projection] = []
    main = program.penalty.main
    rough = [
        term
        for term in program.terms
        if isinstance(term, Attached) and isinstance(term.term, Constraint)
    ]
    exact = [k for k, piece in enumerate(program.loss.pieces) if piece.likelihood.indicator]
    if not rough and not exact and not program.ones:
        return []
    if is_ball(main):
        ball: Any = main
        projections.append(lambda dense: ball.prox(dense, 1.0)[0])
    projections += [projection_of(term) for term in rough]
    projections += [interpolation(program, k, biases[k]) for k in exact]
    if program.ones:
        projections.append(with_ones)
    return projections


def is_ball(main: object) -> bool:
    """Whether the main term is a set."""
    return isinstance(main, Constraint)


def projection_of(term: Attached) -> Projection:
    """A constraint's projection at its columns."""

    def project(dense: Array) -> Array:
        moved = dense.copy()
        moved[:, term.columns] = term.prox(dense[:, term.columns], 1.0)[0]
        return moved

    return project


def interpolation(program: Program, k: int, effects: Array | None) -> Projection:
    """The entries of a piece moved to where its loss is finite."""
    piece = program.loss.pieces[k]
    places = program.flat[piece.part]

    def project(dense: Array) -> Array:
        moved = dense.copy()
        entries = np.zeros(program.loss.n_entries)
        entries[piece.part] = dense.ravel()[places]
        z = piece.shaped(entries)
        predictor = piece.predictor(z, effects)
        nearest = piece.likelihood.prox(predictor, piece.y, np.full(predictor.shape, 1e-300))
        moved.ravel()[places] = (z + (nearest - predictor)).ravel()
        return moved

    return project


def with_ones(dense: Array) -> Array:
    """The last column overwritten by 1."""
    moved = dense.copy()
    moved[:, -1] = 1.0
    return moved


def scaled_factors(program: Program, latent: LowRank) -> LowRank | None:
    """The factors scaled towards 0 until Z meets every constraint; None if 0 does not.

    It keeps the rank and the factors' own bound, and costs no decomposition.
    """
    if program.ones or any(piece.likelihood.indicator for piece in program.loss.pieces):
        return None
    dense = latent.dense()
    rough = [t for t in program.terms if isinstance(t.term, Constraint)]
    scale = largest_scale(lambda c: sum(term.value(c * dense) for term in rough))
    if scale == 0.0:
        return None
    scale *= 1.0 - 1e-12  # a hair inside: the product of scaled factors rounds otherwise
    return LowRank(np.sqrt(scale) * latent.left, np.sqrt(scale) * latent.right)


def inside_the_ball(program: Program, dense: Array, anchor: Array) -> LowRank:
    """A point moved towards an anchor, which meets every other set, until it is in the ball."""
    factored = program.factored
    if factored is not None:
        n_rows = program.shape[0]
        far, near = factors_of(dense), factors_of(anchor)

        def between(share: float) -> Array:
            return np.hstack([np.sqrt(share) * far, np.sqrt(1.0 - share) * near])

        stacked = between(largest_scale(lambda share: factored.of_factors(between(share))))
        return LowRank(stacked[:n_rows], stacked[n_rows:])
    main: Any = program.penalty.main
    if not is_ball(main) or np.isfinite(main.value(dense)):
        return LowRank.of(dense)
    share = largest_scale(lambda c: main.value(c * dense + (1.0 - c) * anchor))
    return LowRank.of(share * dense + (1.0 - share) * anchor)


def largest_scale(value: Callable[[float], float]) -> float:
    """The largest factor up to 1 at which a value is finite, by bisection."""
    if np.isfinite(value(1.0)):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(52):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.isfinite(value(middle)) else (low, middle)
    return low
