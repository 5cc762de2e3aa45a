"""Moving an iterate into all hard constraints at once."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.backends.conic import MAX_CLARABEL_ORDER, Silent, solve_conic
from mcframe.backends.statement import cp
from mcframe.compile import BlockLoss, BlockTerm, FactoredPenalty, Program
from mcframe.compile.effects import EffectsRidge
from mcframe.compile.penalty import split_rows
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import Proximable
from mcframe.contracts.limits import MOST_STEPS
from mcframe.contracts.rounding import LARGEST_MODERATE, TINY
from mcframe.contracts.term import Constraint, Factored, Sums
from mcframe.likelihoods import Gaussian
from mcframe.model import Layout
from mcframe.numerics.max_norm_bounds import factors_of
from mcframe.numerics.operators import LowRank
from mcframe.numerics.polyhedra import Polyhedron
from mcframe.runtime.machine import check_time

# Effects of each block of the loss.
EffectsByBlock = tuple[Array | None, ...]
# The share of a ball's radius by which a point deeper inside is first sought inside of it, which
# is also the factor by which it shrinks where there is none; and the least one.
FIRST_SPARE, MIN_SPARE = 0.1, 1e-6
# The most halfspaces that are added.
MAX_HALFSPACES = 40
# The share of its rows' sums in a direction's square length from which a bias meets its equation.
MIN_BIAS_SHARE = 1e-6
# What bisection moves to the edge of a set stays so far inside: its factors round otherwise.
INTERIOR_FACTOR = 1.0 + 1e-12


@attrs.frozen(eq=False)
class Joint:
    """Z, dense, and the effects: an exact loss constrains both together."""

    dense: Array
    effects: EffectsByBlock

    def mixed_with(self, other: "Joint", share: float) -> "Joint":
        """``share`` of this one and the rest of another."""
        if share == 1.0:
            return self
        effects = tuple(
            mine if mine is None or theirs is None else share * mine + (1.0 - share) * theirs
            for mine, theirs in zip(self.effects, other.effects, strict=True)
        )
        return Joint(share * self.dense + (1.0 - share) * other.dense, effects)


Projection = Callable[[Joint], Joint]
# What ``deepest_point`` has found, by program.
DEEPEST_POINTS: WeakKeyDictionary[Program, Array | None] = WeakKeyDictionary()


def made_feasible(
    program: Program, latent: LowRank, effects: EffectsByBlock
) -> tuple[LowRank, EffectsByBlock]:
    """The iterate and its effects without hard constraints, else a point close by that meets them.

    Projections in turn, of Z and of the effects that an exact loss leaves free together; then,
    where the main regularizer is a ball that the others have led out of, a step towards a point
    that meets those and lies deeper inside. An iterate that is very far out may leave nothing of
    the data but rounding: then it is a point near 0.
    """
    if not projections_of(program):
        return program.penalty.nearest(latent), effects
    main: Any = program.main
    factored = isinstance(program.penalty, FactoredPenalty)
    exact = any(block_loss.likelihood.indicator for block_loss in program.loss.block_losses)
    bounded = isinstance(main, Constraint) or exact
    if not (factored or bounded) and all(t.fixed is not None for t in constraints_of(program)):
        return with_fixed_columns(program, latent), effects
    search = made_feasible_in_factors if factored else made_feasible_written_out
    moved, moved_effects = search(program, latent, effects)
    if latent.width and not meets_all(program, Joint(moved.dense(), moved_effects)):
        origin = LowRank.zeros(program.shape)
        moved, moved_effects = search(program, origin, without_effects(moved_effects))
    return moved, moved_effects


def without_effects(effects: EffectsByBlock) -> EffectsByBlock:
    """Effects of 0, where there are any."""
    return tuple(None if e is None else np.zeros_like(e) for e in effects)


def made_feasible_written_out(
    program: Program, latent: LowRank, effects: EffectsByBlock
) -> tuple[LowRank, EffectsByBlock]:
    """A feasible point where the main regularizer has a prox, or is none to be moved into."""
    main: Any = program.main
    is_set = isinstance(main, Constraint)
    ball = [lambda joint: attrs.evolve(joint, dense=main.prox(joint.dense, 1.0)[0])] * is_set
    point = nearby(program, ball, Joint(latent.dense(), effects))
    if is_set:
        anchor = deeper_inside(program, point, main.value)
        share = largest_scale(
            lambda c: main.value(INTERIOR_FACTOR * point.mixed_with(anchor, c).dense)
        )
        point = point.mixed_with(anchor, share)
    return with_fixed_columns(program, LowRank.of(point.dense)), point.effects


def made_feasible_in_factors(
    program: Program, latent: LowRank, effects: EffectsByBlock
) -> tuple[LowRank, EffectsByBlock]:
    """A feasible point where the main regularizer is one of factors: they are shortened, or mixed.

    Factors of two points side by side, scaled by the roots of their shares, are factors of the
    point between these.
    """
    shorter = scaled_factors(program, latent, effects)
    if shorter is not None:
        return shorter, effects
    main = program.main
    assert isinstance(main, Factored)
    value = main.of_factors
    point = nearby(program, [], Joint(latent.dense(), effects))
    anchor = deeper_inside(program, point, lambda dense: value(factors_of(dense)))
    at_point, at_anchor = factors_of(point.dense), factors_of(anchor.dense)

    def mixed_factors(share: float) -> Array:
        return np.hstack([np.sqrt(share) * at_point, np.sqrt(1.0 - share) * at_anchor])

    share = largest_scale(lambda share: value(INTERIOR_FACTOR * mixed_factors(share)))
    effects = point.mixed_with(anchor, share).effects
    return split_rows(mixed_factors(share), program.shape[0]), effects


def deeper_inside(program: Program, point: Joint, value: Callable[[Array], float]) -> Joint:
    """A point near 0 of all sets, in the main one, too, if it is one and such a point is found.

    Of a small table the deepest one. Else by cutting planes (Kelley, 1960): each point that lies
    outside of the main set is followed by one close by that meets the linear sets and all
    halfspaces so far. Those of a smaller set, if some of it is left, for it to be reached soon.
    """
    anchor = nearby(program, [], Joint(np.zeros(program.shape), point.effects))
    main = program.main
    if not isinstance(main, Constraint) or np.isfinite(value(INTERIOR_FACTOR * anchor.dense)):
        return anchor
    linear, spare = linear_sets(program), FIRST_SPARE
    best, least_excess = anchor, np.inf
    deepest = None if linear is None else deepest_point(program, linear, anchor.dense)
    if linear is not None and deepest is not None:
        anchor = linear.project(linear.joint(deepest, anchor))
        if np.isfinite(value(INTERIOR_FACTOR * anchor.dense)):
            return anchor
    gradients: list[Array] = []
    for _ in range(MAX_HALFSPACES):
        halfspace = main.halfspace(anchor.dense)
        if linear is None or halfspace is None:
            break
        gradient, radius = halfspace
        gradients.append(gradient.ravel())
        excess = float(np.vdot(gradient, anchor.dense)) / radius - 1.0
        if excess < least_excess:
            best, least_excess = anchor, excess
        spare = min(spare, max(excess, MIN_SPARE))
        vector = linear.vector(best)
        start = np.concatenate([vector, np.zeros(len(gradients))])
        while spare >= MIN_SPARE:
            cut = linear.polyhedron.with_halfspaces(gradients, (1.0 - spare) * radius)
            met = cut.near(start)
            if cut.meets(met):
                break
            spare *= FIRST_SPARE
        else:
            break
        anchor = linear.joint(met[: vector.size], anchor)
        if np.isfinite(value(INTERIOR_FACTOR * anchor.dense)):
            return anchor
    return best


def deepest_point(program: Program, linear: "Linear", point: Array) -> Array | None:
    """The point of the linear sets that lies deepest in the main one, as a vector.

    It is ``v / s`` at the largest s for which v meets ``lower s <= v <= upper s``, ``C v = t s``
    and the main set, which holds 0: a conic program, solved once for each program. So deep as
    ``FIRST_SPARE`` is deep enough. In units of a ``point`` of the linear sets, so that
    numbers are about 1. None where the table is not small, or no solver answers.
    """
    if program not in DEEPEST_POINTS:
        DEEPEST_POINTS[program] = None
        if sum(program.shape) <= MAX_CLARABEL_ORDER and cp.absence() is None:
            unit = float(np.max(np.abs(point)))
            DEEPEST_POINTS[program] = solved_for_depth(program, linear.polyhedron, unit)
    return DEEPEST_POINTS[program]


def solved_for_depth(program: Program, sets: Polyhedron, unit: float) -> Array | None:
    """The point that ``deepest_point`` describes, by Clarabel."""
    assert program.main is not None
    main = program.main.in_units(unit)
    if main is None:
        main, unit = program.main, 1.0
    v, s = cp.Variable(sets.lower.size), cp.Variable()
    w = cp.reshape(v[: program.shape[0] * program.shape[1]], program.shape, order="C")
    low, high = np.isfinite(sets.lower), np.isfinite(sets.upper)
    asked = [s <= 1.0 / (1.0 - FIRST_SPARE), *main.statement(cp, w)[1]]
    asked += [v[low] >= s * (sets.lower[low] / unit), v[high] <= s * (sets.upper[high] / unit)]
    asked += [sets.coefficients @ v == s * (sets.targets / unit)]
    with suppress(Silent):
        solve_conic(cp.Problem(cp.Maximize(s), asked), "CLARABEL")
    if s.value is None or not s.value > 0.0:
        return None
    return np.asarray(unit * v.value / s.value)


def with_fixed_columns(program: Program, latent: LowRank) -> LowRank:
    """Z with the columns that constraints fix overwritten, exactly and without forming it."""
    for term in constraints_of(program):
        if term.fixed is not None:
            latent = latent.with_columns(term.columns, term.fixed)
    return latent


def nearby(program: Program, ball: list[Projection], joint: Joint) -> Joint:
    """A point close by that meets all sets, those of ``ball`` nearly.

    Projections in turn lead there slowly where sets meet at a small angle, as a tight box and
    equations do. All bounds and equations are then met at once.
    """
    point = project_in_turn(program, [*ball, *projections_of(program)], joint)
    linear = None if meets_all(program, point) else linear_sets(program)
    if linear is None:
        return point
    curved = [projection_of(term) for term in constraints_of(program) if not is_polyhedral(term)]
    return project_in_turn(program, [*ball, *curved, linear.project], point)


def meets_all(program: Program, joint: Joint) -> bool:
    """True where a point meets the attached constraints and exact losses are 0."""
    return inside(program, joint) and interpolates(program, joint)


def limits_of(term: Constraint) -> tuple[float, float] | None:
    """The least and the largest value of every entry, where these are the set; else None."""
    return term.entry_bounds if term.fixed is None else (term.fixed, term.fixed)


def is_polyhedral(term: BlockTerm) -> bool:
    """True of bounds and of equations."""
    assert isinstance(term.term, Constraint)
    return limits_of(term.term) is not None or isinstance(term.term, Sums)


@attrs.frozen(eq=False)
class Linear:
    """All bounds, equations and exact losses as sets of W, raveled, and of the effects behind it.

    ``sizes`` are the numbers of effects of the blocks.
    """

    shape: tuple[int, int]
    sizes: tuple[int, ...]
    polyhedron: Polyhedron

    @property
    def starts(self) -> IntArray:
        """The places of the first effects of the blocks, and the end."""
        return starts_of(self.shape, self.sizes)

    def vector(self, joint: Joint) -> Array:
        """A point as one vector."""
        parts = [joint.dense.ravel()]
        for block_effects, size in zip(joint.effects, self.sizes, strict=True):
            parts.append(np.zeros(0) if block_effects is None else block_effects[:size])
        return np.concatenate(parts)

    def joint(self, vector: Array, before: Joint) -> Joint:
        """The point of a vector, its parameters those of another."""
        n_cells, starts = self.shape[0] * self.shape[1], self.starts
        effects = tuple(
            e if e is None else np.concatenate([vector[start : start + size], e[size:]])
            for e, start, size in zip(before.effects, starts[:-1], self.sizes, strict=True)
        )
        return Joint(vector[:n_cells].reshape(self.shape), effects)

    def project(self, joint: Joint) -> Joint:
        """A point close by that meets all of them."""
        return self.joint(self.polyhedron.near(self.vector(joint)), joint)


def starts_of(shape: tuple[int, int], sizes: tuple[int, ...]) -> IntArray:
    """The places of the first effects of the blocks behind a W of that shape, and the end."""
    return shape[0] * shape[1] + np.concatenate([[0], np.cumsum(sizes, dtype=np.intp)])


def linear_sets(program: Program) -> Linear | None:
    """All bounds, equations and exact losses of a program.

    None where an exact loss allows an interval for the sum of Z and effects.
    """
    sizes = tuple(block_loss.layout.n_effects for block_loss in program.loss.block_losses)
    starts, n_cells = starts_of(program.shape, sizes), program.shape[0] * program.shape[1]
    lower, upper = np.full(starts[-1], -np.inf), np.full(starts[-1], np.inf)
    places = np.arange(n_cells).reshape(program.shape)
    equations = Equations()
    for term in constraints_of(program):
        assert isinstance(term.term, Constraint)
        term_places, limits = places[:, term.columns], limits_of(term.term)
        factor = np.ones(term_places.shape) if term.factor is None else term.factor
        if limits is not None:
            lower[term_places] = np.maximum(lower[term_places], limits[0] / factor)
            upper[term_places] = np.minimum(upper[term_places], limits[1] / factor)
        elif isinstance(term.term, Sums):
            first = 0 if term.block_index is None else int(starts[term.block_index])
            equations.add_sums(term, term_places, factor, first)
    z_scales = program.entries.times_scales(np.ones(program.entries.size))
    for k, block_loss in enumerate(program.loss.block_losses):
        if not block_loss.likelihood.indicator:
            continue
        likelihood = block_loss.likelihood
        assert isinstance(likelihood, Proximable)
        interval_ends = [
            likelihood.prox(
                np.full(block_loss.y.shape, predictor),
                block_loss.y,
                np.full(block_loss.y.shape, TINY),
            )
            for predictor in (-LARGEST_MODERATE, LARGEST_MODERATE)
        ]
        cells, scales = program.entries.flat[block_loss.part], z_scales[block_loss.part]
        if not sizes[k]:
            lower[cells] = np.maximum(
                lower[cells],
                np.where(
                    interval_ends[0] == -LARGEST_MODERATE, -np.inf, interval_ends[0] / scales
                ),
            )
            upper[cells] = np.minimum(
                upper[cells],
                np.where(interval_ends[1] == LARGEST_MODERATE, np.inf, interval_ends[1] / scales),
            )
        elif np.array_equal(interval_ends[0], interval_ends[1]):
            equations.add_entries(block_loss, cells, scales, interval_ends[0], int(starts[k]))
        else:
            return None
    polyhedron = Polyhedron.of(lower, upper, *equations.written(len(lower)))
    return Linear(program.shape, sizes, polyhedron)


@attrs.define(eq=False)
class Equations:
    """Sparse equations ``C x = t`` of the cells of W and, behind them, the effects of blocks."""

    rows: list[Array] = attrs.field(factory=list)
    places: list[Array] = attrs.field(factory=list)
    numbers: list[Array] = attrs.field(factory=list)
    targets: list[Array] = attrs.field(factory=list)
    size: int = 0

    def add(self, rows: Any, places: Any, numbers: Any) -> None:
        """Coefficients of the equations that are added next, counted from 0."""
        rows, places, numbers = np.broadcast_arrays(rows, places, numbers)
        self.rows.append(self.size + rows.ravel())
        self.places.append(places.ravel())
        self.numbers.append(numbers.ravel())

    def end(self, targets: Array) -> None:
        """The right-hand sides of what was added."""
        self.targets.append(targets)
        self.size += targets.size

    def add_sums(self, term: BlockTerm, cells: IntArray, factor: Array, first: int) -> None:
        """The equations of a term, whose effects begin at ``first``."""
        assert isinstance(term.term, Sums)
        layout = Layout() if term.layout is None else term.layout
        places: Any = first + np.arange(layout.n_effects)
        kinds = layout.biases(places), layout.row_effects(places)
        of_lines, along_lines = kinds if term.term.axis == 0 else kinds[::-1]
        cells, factor = term.term.turned(cells), term.term.turned(factor)
        for group in term.term.groups:
            lines, along = group.lines, group.right.T[None]
            targets = -group.distances(np.zeros((len(cells), lines.size))).T
            numbers = np.arange(targets.size).reshape(targets.shape)[:, :, None]
            self.add(numbers, cells.T[lines][:, None], along * factor.T[lines][:, None])
            sums = along.sum(axis=-1, keepdims=True)
            if of_lines.size:
                self.add(numbers, of_lines[lines][:, None, None], sums)
            if along_lines.size:
                self.add(numbers, along_lines, along)
            if layout.n_intercepts:
                self.add(numbers, places[-1], sums)
            self.end(targets.ravel())

    def add_entries(
        self, block_loss: BlockLoss, cells: IntArray, scales: Array, predictors: Array, first: int
    ) -> None:
        """The predictors of the entries of a block, whose effects begin at ``first``."""
        layout, rank = block_loss.layout, np.arange(cells.size)
        self.add(rank, cells, scales)
        if layout.n_biases:
            self.add(rank, first + block_loss.effects.columns, 1.0)
        if layout.n_row_effects:
            self.add(rank, first + layout.n_biases + block_loss.effects.rows, 1.0)
        if layout.n_intercepts:
            self.add(rank, first + layout.n_effects - 1, 1.0)
        self.end(predictors)

    def written(self, n_numbers: int) -> tuple[sp.csr_array, Array]:
        """C and t."""
        if not self.size:
            return sp.csr_array((0, n_numbers)), np.zeros(0)
        places = np.concatenate(self.rows), np.concatenate(self.places)
        matrix = sp.coo_array((np.concatenate(self.numbers), places), (self.size, n_numbers))
        return sp.csr_array(matrix), np.concatenate(self.targets)


def project_in_turn(program: Program, projections: list[Projection], joint: Joint) -> Joint:
    """A point of all sets: projections in turn until it is one, or until none moves it."""
    for _ in range(MOST_STEPS):
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


def interpolates(program: Program, joint: Joint) -> bool:
    """True where exact losses are 0 at a point."""
    z = program.entries.iterate(joint.dense).z
    return all(
        np.all(
            np.isfinite(
                block_loss.likelihood.value(
                    block_loss.predictor(z[block_loss.part], e), block_loss.y
                )
            )
        )
        for block_loss, e in zip(program.loss.block_losses, joint.effects, strict=True)
        if block_loss.likelihood.indicator
    )


def constraints_of(program: Program) -> list[BlockTerm]:
    """The attached terms that are sets."""
    return [term for term in program.terms if isinstance(term.term, Constraint)]


def projections_of(program: Program) -> list[Projection]:
    """A projection for each hard constraint other than the main regularizer, exact losses last.

    And last of all equations of their blocks, which then move the cells that are no entries.
    """
    exact = [
        k
        for k, block_loss in enumerate(program.loss.block_losses)
        if block_loss.likelihood.indicator
    ]
    projections = [projection_of(term) for term in constraints_of(program)]
    projections += [interpolation(program, k) for k in exact]
    projections += [
        projection_in_gaps(term, program.loss.block_losses[k])
        for k in exact
        for term in constraints_of(program)
        if isinstance(term.term, Sums) and term.columns == program.columns[k]
    ]
    return projections


def projection_of(term: BlockTerm) -> Projection:
    """A constraint's projection at its columns, after effects that take part in it have moved."""

    def project(joint: Joint) -> Joint:
        if term.block_index is not None:
            joint = with_moved_effects(term, joint)
            if np.isfinite(term.value(joint.dense[:, term.columns], joint.effects)):
                return joint  # with a Z of the same rank
        moved = joint.dense.copy()
        moved[:, term.columns] = term.project(moved[:, term.columns], joint.effects)
        return attrs.evolve(joint, dense=moved)

    return project


def projection_in_gaps(term: BlockTerm, block_loss: BlockLoss) -> Projection:
    """The equations of a term met by moving the cells of its block that are no entries."""
    sums = term.term
    assert isinstance(sums, Sums)

    def project(joint: Joint) -> Joint:
        moved = joint.dense.copy()
        submatrix = moved[:, term.columns]
        argument = term.argument(submatrix, joint.effects)
        gaps = np.ones(argument.shape, dtype=bool)
        gaps[block_loss.rows, block_loss.columns] = False
        turned, turned_gaps = sums.turned(argument), sums.turned(gaps)
        for group in sums.groups:
            distances = group.distances(turned[:, group.lines])
            for line, away in zip(group.lines, distances.T, strict=True):
                free = turned_gaps[:, line]
                turned[free, line] -= np.linalg.lstsq(group.right[free].T, away)[0]
        moved[:, term.columns] = term.scaled(
            argument - term.added(joint.effects, submatrix.shape), -1
        )
        return attrs.evolve(joint, dense=moved)

    return project


def with_moved_effects(term: BlockTerm, joint: Joint) -> Joint:
    """The point with its biases where the equations of a term hold best, with Z as it is.

    So a Z of low rank stays one where biases alone can meet the equations; of equations within
    rows these are the effects of rows. Equations that hardly depend on one leave it. Where lines
    have no effects, those along them move by what all lines lack on average.
    """
    if term.block_index is None:
        return joint
    block_effects = joint.effects[term.block_index]
    assert block_effects is not None
    distances = term.distances(joint.dense[:, term.columns])
    effects, squares = block_effects.copy(), term.equations
    at_effects = squares.at_directions(block_effects)
    for group, shift, distance in zip(squares.directions, at_effects, distances, strict=True):
        along, of_lines = squares.split(group, effects)
        away, length = shift + distance, float(np.dot(group.sums, group.sums))
        if of_lines.size and length > MIN_BIAS_SHARE * len(group.right):
            of_lines[group.lines] -= group.sums @ away / length
        elif along.size:
            along -= group.right @ away.mean(axis=1)
    return attrs.evolve(
        joint,
        effects=(
            *joint.effects[: term.block_index],
            effects,
            *joint.effects[term.block_index + 1 :],
        ),
    )


def interpolation(program: Program, k: int) -> Projection:
    """The entries of a block, and its effects, moved together to where its loss is 0."""
    block_loss = program.loss.block_losses[k]
    places = program.entries.flat[block_loss.part]
    scales = program.entries.times_scales(np.ones(program.entries.size))[block_loss.part]

    def project(joint: Joint) -> Joint:
        z = scales * joint.dense.ravel()[places]
        effects, moved = joint.effects[k], joint.dense.copy()
        predictor = block_loss.predictor(z, effects)
        likelihood = block_loss.likelihood
        assert isinstance(likelihood, Proximable)
        nearest = likelihood.prox(predictor, block_loss.y, np.full(predictor.shape, TINY))
        if effects is None:
            moved.ravel()[places] = nearest / scales
            return attrs.evolve(joint, dense=moved)
        shared = nearest_effects(block_loss, z, nearest, effects)
        effects = within_bounds(program, block_loss, nearest, shared)
        moved.ravel()[places] = (
            nearest - block_loss.predictor(np.zeros_like(z), effects)
        ) / scales
        all_effects = (*joint.effects[:k], effects, *joint.effects[k + 1 :])
        return Joint(moved, all_effects)

    return project


def nearest_effects(block_loss: BlockLoss, z: Array, predictor: Array, effects: Array) -> Array:
    """The effects of the point nearest to z and these effects that has the given predictor.

    The least squares of both moves: a ridge regression of what is missing.
    """
    kind: Any = block_loss.effects
    nearby = attrs.evolve(kind, ridge=EffectsRidge(1.0, effects), fixed=np.zeros(effects.size))
    return nearby.solve(Gaussian(), z, predictor, 1.0, effects)


def within_bounds(
    program: Program, block_loss: BlockLoss, predictor: Array, effects: Array
) -> Array:
    """Effects, one for each entry, moved to where Z can have the predictor and be in its boxes.

    The entries of an effect leave an interval for it; where it is empty it stays.
    """
    if not block_loss.effects.separable:
        return effects
    lowest, highest = np.full(effects.size, -np.inf), np.full(effects.size, np.inf)
    columns = program.entries.columns[block_loss.part]
    for term in constraints_of(program):
        bounds = term.term.entry_bounds
        if bounds is not None:
            in_columns = (columns >= term.columns.start) & (columns < term.columns.stop)
            group = block_loss.effects.places[in_columns]
            np.maximum.at(lowest, group, predictor[in_columns] - bounds[1])
            np.minimum.at(highest, group, predictor[in_columns] - bounds[0])
    return np.where(lowest <= highest, np.clip(effects, lowest, highest), effects)


def scaled_factors(program: Program, latent: LowRank, effects: EffectsByBlock) -> LowRank | None:
    """The factors scaled towards 0 until Z meets every constraint; None if 0 does not.

    It keeps the rank and the factors' own bound, and costs no decomposition.
    """
    if any(block_loss.likelihood.indicator for block_loss in program.loss.block_losses):
        return None
    sets = [(term, latent.columns(term.columns).dense()) for term in constraints_of(program)]
    scale = largest_scale(
        lambda c: sum(term.value(c * submatrix, effects) for term, submatrix in sets)
    )
    if scale in (0.0, 1.0):
        return latent if scale else None
    scale /= INTERIOR_FACTOR
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
