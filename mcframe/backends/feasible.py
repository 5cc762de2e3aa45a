"""Moving an iterate into all hard constraints at once."""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.compile import BlockTerm, FactoredPenalty, Piece, Program
from mcframe.compile.effects import EffectsRidge
from mcframe.compile.penalty import split_rows
from mcframe.contracts.arrays import Array
from mcframe.contracts.term import Constraint, Sums
from mcframe.likelihoods import Gaussian
from mcframe.numerics.max_norm_bounds import factors_of
from mcframe.numerics.operators import LowRank
from mcframe.runtime.machine import check_time

# Effects of each piece of the loss.
Given = tuple[Array | None, ...]
# Rounds of projections; the objective is infinite where the point is not feasible after them.
ROUNDS = 200
# The step of the prox of an indicator, which any positive one projects by.
SHORT = 1e-300
# The share of its rows' sums in a direction's square length from which a bias meets its equation.
MOVABLE = 1e-6
# What bisection moves to the edge of a set stays so far inside: its factors round otherwise.
INSIDE = 1.0 + 1e-12


@attrs.frozen(eq=False)
class Joint:
    """Z, dense, and the effects: an exact loss constrains both together."""

    dense: Array
    effects: Given

    def towards(self, other: "Joint", share: float) -> "Joint":
        """``share`` of this one and the rest of another."""
        if share == 1.0:
            return self
        effects = tuple(
            mine if mine is None or theirs is None else share * mine + (1.0 - share) * theirs
            for mine, theirs in zip(self.effects, other.effects, strict=True)
        )
        return Joint(share * self.dense + (1.0 - share) * other.dense, effects)


Projection = Callable[[Joint], Joint]


def made_feasible(program: Program, latent: LowRank, effects: Given) -> tuple[LowRank, Given]:
    """The iterate and its effects without hard constraints, else a point close by that meets them.

    Projections in turn, of Z and of the effects that an exact loss leaves free together; then,
    where the main regularizer is a ball that the others have led out of, a step towards a point
    that meets those and lies deeper inside.
    """
    others = projections_of(program)
    if not others:
        return program.penalty.nearest(latent), effects
    if isinstance(program.penalty, FactoredPenalty):
        return made_feasible_in_factors(program, latent, effects, others)
    main: Any = program.main
    is_set = isinstance(main, Constraint)
    exact = any(piece.likelihood.indicator for piece in program.loss.pieces)
    if not (is_set or exact) and all(t.fixed is not None for t in constraints_of(program)):
        return with_fixed_columns(program, latent), effects
    whole = others
    if is_set:
        whole = [lambda joint: attrs.evolve(joint, dense=main.prox(joint.dense, 1.0)[0]), *others]
    point = project_in_turn(program, whole, Joint(latent.dense(), effects))
    anchor = project_in_turn(program, others, Joint(np.zeros(program.shape), point.effects))
    if is_set:
        share = largest_scale(lambda c: main.value(INSIDE * point.towards(anchor, c).dense))
        point = point.towards(anchor, share)
    return with_fixed_columns(program, LowRank.of(point.dense)), point.effects


def made_feasible_in_factors(
    program: Program, latent: LowRank, effects: Given, others: list[Projection]
) -> tuple[LowRank, Given]:
    """A feasible point where the main regularizer is one of factors: they are shortened, or mixed.

    Factors of two points side by side, scaled by the roots of their shares, are factors of the
    point between these.
    """
    shorter = scaled_factors(program, latent, effects)
    if shorter is not None:
        return shorter, effects
    point = project_in_turn(program, others, Joint(latent.dense(), effects))
    anchor = project_in_turn(program, others, Joint(np.zeros(program.shape), point.effects))
    far, near = factors_of(point.dense), factors_of(anchor.dense)

    def between(share: float) -> Array:
        return np.hstack([np.sqrt(share) * far, np.sqrt(1.0 - share) * near])

    share = largest_scale(lambda share: program.main.of_factors(INSIDE * between(share)))
    return split_rows(between(share), program.shape[0]), point.towards(anchor, share).effects


def with_fixed_columns(program: Program, latent: LowRank) -> LowRank:
    """Z with the columns that constraints fix overwritten, exactly and without forming it."""
    for term in constraints_of(program):
        if term.fixed is not None:
            latent = latent.with_columns(term.columns, term.fixed)
    return latent


def project_in_turn(program: Program, projections: list[Projection], joint: Joint) -> Joint:
    """A point of all sets: projections in turn until it is one, or until none moves it."""
    for _ in range(ROUNDS):
        check_time()
        before = joint.dense
        for project in projections:
            joint = project(joint)
        moved = float(np.linalg.norm(joint.dense - before))
        if len(projections) == 1 or moved <= 1e-13 * float(np.linalg.norm(joint.dense)):
            break
        if inside(program, joint):
            break
    return joint


def inside(program: Program, joint: Joint) -> bool:
    """True where a point meets the attached constraints; the last map sees to exact losses."""
    return all(
        np.isfinite(term.value(joint.dense[:, term.columns], joint.effects))
        for term in constraints_of(program)
    )


def constraints_of(program: Program) -> list[BlockTerm]:
    """The attached terms that are sets."""
    return [term for term in program.terms if isinstance(term.term, Constraint)]


def projections_of(program: Program) -> list[Projection]:
    """A projection for each hard constraint other than the main regularizer, exact losses last.

    And last of all equations of their blocks, which then move the cells that are no entries.
    """
    exact = [k for k, piece in enumerate(program.loss.pieces) if piece.likelihood.indicator]
    projections = [projection_of(term) for term in constraints_of(program)]
    projections += [interpolation(program, k) for k in exact]
    projections += [
        projection_in_gaps(term, program.loss.pieces[k])
        for k in exact
        for term in constraints_of(program)
        if isinstance(term.term, Sums) and term.columns == program.columns[k]
    ]
    return projections


def projection_of(term: BlockTerm) -> Projection:
    """A constraint's projection at its columns, after biases that take part in it have moved."""

    def project(joint: Joint) -> Joint:
        if term.layout is not None and term.layout.n_biases:
            joint = with_moved_biases(term, joint)
            if np.isfinite(term.value(joint.dense[:, term.columns], joint.effects)):
                return joint  # with a Z of the same rank
        moved = joint.dense.copy()
        moved[:, term.columns] = term.project(moved[:, term.columns], joint.effects)
        return attrs.evolve(joint, dense=moved)

    return project


def projection_in_gaps(term: BlockTerm, piece: Piece) -> Projection:
    """The equations of a term met by moving the cells of its block that are no entries."""
    assert isinstance(term.term, Sums)
    groups = term.term.groups

    def project(joint: Joint) -> Joint:
        moved = joint.dense.copy()
        own = moved[:, term.columns]
        given = term.argument(own, joint.effects)
        gaps = np.ones(given.shape, dtype=bool)
        gaps[piece.rows, piece.columns] = False
        for group in groups:
            distances = group.distances(given[:, group.columns])
            for column, away in zip(group.columns, distances.T, strict=True):
                free = gaps[:, column]
                given[free, column] -= np.linalg.lstsq(group.right[free].T, away)[0]
        moved[:, term.columns] = term.scaled(given - term.added(joint.effects, own.shape), -1)
        return attrs.evolve(joint, dense=moved)

    return project


def with_moved_biases(term: BlockTerm, joint: Joint) -> Joint:
    """The point with its biases where the equations of a term hold best, with Z as it is.

    So a Z of low rank stays one where biases alone can meet the equations. Equations that hardly
    depend on a bias leave it.
    """
    if term.piece is None or term.layout is None or not term.layout.n_biases:
        return joint
    own = joint.effects[term.piece]
    assert own is not None
    distances = term.distances(joint.dense[:, term.columns])
    effects, squares = own.copy(), term.equations
    biases = term.layout.biases(effects)
    at_effects = squares.at_directions(own)
    for group, moved, left in zip(squares.directions, at_effects, distances, strict=True):
        length = float(np.dot(group.sums, group.sums))
        if length > MOVABLE * len(joint.dense):
            biases[group.columns] -= group.sums @ (moved + left) / length
    return attrs.evolve(
        joint, effects=(*joint.effects[: term.piece], effects, *joint.effects[term.piece + 1 :])
    )


def interpolation(program: Program, k: int) -> Projection:
    """The entries of a piece, and its effects, moved together to where its loss is 0."""
    piece = program.loss.pieces[k]
    places = program.entries.flat[piece.part]
    scales = program.entries.times_scales(np.ones(program.entries.size))[piece.part]

    def project(joint: Joint) -> Joint:
        z = scales * joint.dense.ravel()[places]
        effects, moved = joint.effects[k], joint.dense.copy()
        predictor = piece.predictor(z, effects)
        nearest = piece.likelihood.prox(predictor, piece.y, np.full(predictor.shape, SHORT))
        if effects is None:
            moved.ravel()[places] = nearest / scales
            return attrs.evolve(joint, dense=moved)
        shared = nearest_effects(piece, z, nearest, effects)
        effects = within_bounds(program, piece, nearest, shared)
        moved.ravel()[places] = (nearest - piece.predictor(np.zeros_like(z), effects)) / scales
        given = (*joint.effects[:k], effects, *joint.effects[k + 1 :])
        return Joint(moved, given)

    return project


def nearest_effects(piece: Piece, z: Array, predictor: Array, effects: Array) -> Array:
    """The effects of the point nearest to z and these effects that has the given predictor.

    The least squares of both moves: a ridge regression of what is missing.
    """
    kind: Any = piece.effects
    nearby = attrs.evolve(kind, ridge=EffectsRidge(1.0, effects), fixed=np.zeros(effects.size))
    return nearby.solve(Gaussian(), z, predictor, 1.0, effects)


def within_bounds(program: Program, piece: Piece, predictor: Array, effects: Array) -> Array:
    """Effects, one for each entry, moved to where Z can have the predictor and be in its boxes.

    The entries of an effect leave an interval for it; where it is empty it stays.
    """
    if not piece.effects.separable:
        return effects
    lowest, highest = np.full(effects.size, -np.inf), np.full(effects.size, np.inf)
    columns = program.entries.columns[piece.part]
    for term in constraints_of(program):
        bounds = term.term.entry_bounds
        if bounds is not None:
            here = (columns >= term.columns.start) & (columns < term.columns.stop)
            group = piece.effects.places[here]
            np.maximum.at(lowest, group, predictor[here] - bounds[1])
            np.minimum.at(highest, group, predictor[here] - bounds[0])
    return np.where(lowest <= highest, np.clip(effects, lowest, highest), effects)


def scaled_factors(program: Program, latent: LowRank, effects: Given) -> LowRank | None:
    """The factors scaled towards 0 until Z meets every constraint; None if 0 does not.

    It keeps the rank and the factors' own bound, and costs no decomposition.
    """
    if any(piece.likelihood.indicator for piece in program.loss.pieces):
        return None
    sets = [(term, latent.columns(term.columns).dense()) for term in constraints_of(program)]
    scale = largest_scale(lambda c: sum(term.value(c * own, effects) for term, own in sets))
    if scale == 0.0:
        return None
    scale /= INSIDE
    return LowRank(np.sqrt(scale) * latent.left, np.sqrt(scale) * latent.right)


def largest_scale(value: Callable[[float], float]) -> float:
    """The largest factor up to 1 at which a value is finite, by bisection."""
    if np.isfinite(value(1.0)):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(52):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.isfinite(value(middle)) else (low, middle)
    return low
