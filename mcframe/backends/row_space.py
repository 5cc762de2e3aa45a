"""Rows that were not in a fit: what they may be, and the best of these for their own data."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.backends.certificate import Dual, dual_point
from mcframe.backends.rowwise import RowLosses, RowsAt, newton
from mcframe.compile import (
    BlockLoss,
    CompiledProblem,
    RowPenalty,
    compile_main,
    is_quadratic,
    places_of_diverging_effects,
)
from mcframe.compile.loss import smoothed_block_loss
from mcframe.contracts.arrays import Array, IntArray, Mask, points_of, sizes_of
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import PointwiseLoss, Proximable
from mcframe.contracts.limits import MOST_STEPS
from mcframe.contracts.rounding import RESULT_ROUNDING, SET_ROUNDING
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Constraint, RowQuadratic, Spectral, Sums, Term
from mcframe.model import Problem
from mcframe.numerics.operators import LowRank, orthogonal_factors

REMEDY = "refit with the new rows among the data"
# A ball whose radius is larger than the nuclear norm of Z by more than this does not bind: fits
# that it binds end on it, up to how exactly they are known.
MIN_BALL_SLACK = 1e-3


@stored
@attrs.frozen(eq=False)
class RowSpace:
    """``z = loadings u`` with ``u = start + directions t``, at the cost ``||t||^2 / 2``.

    At the optimum Z = U V', with singular values s shared alike by both factors, the gradient S of
    all that is a sum over rows has ``S V = -U D``, where the diagonal D holds what the terms over
    all of Z take off each singular value: ``weight + ridge s``. Each row u of U therefore
    minimises its own share of that sum plus ``u'D u / 2``, V fixed (Zheng and Hastie, 2015,
    section 3, for Gaussian entries under a nuclear norm; the argument needs convexity alone).
    ``loadings`` are ``V D^(-1/2)``, so that every direction costs alike. Columns of Z that are
    fixed, as a column of ones, and equations within rows leave the u that meet them: a point, and
    directions orthogonal to it.

    Attributes
    ----------
    loadings : array (n_columns x k)
    start : array (k,)
    directions : array (k x m), orthonormal columns
    bounds : tuple of (columns of Z, lower, upper)
        Between which the entries of a row stay.
    idle : dict from block name to float
        Unpenalised row effects of items without an entry, counted from 0.
    """

    loadings: Array
    start: Array
    directions: Array
    bounds: tuple[tuple[slice, float, float], ...]
    idle: Mapping[str, float]

    @classmethod
    def of(
        cls,
        problem: Problem,
        latent: LowRank,
        effects: Mapping[str, Array],
        dual: Dual | None,
        infinite: Mapping[str, IntArray] | None = None,
    ) -> "RowSpace":
        """The space of a fit's rows; a ``ModelError`` where terms leave new rows no meaning.

        ``infinite`` has the places of infinite effects by block, where the problem has no entries
        by which they are found.
        """
        refuse_rows(problem)
        bounds = tuple(
            (problem.columns_of_term(term), *term.entry_bounds)
            for term in problem.terms
            if term.entry_bounds is not None
        )
        idle = idle_effects(problem, effects, infinite)
        penalty = compile_main(problem)
        if isinstance(penalty, RowPenalty):
            squares = penalty.squares
            loadings = np.column_stack([squares.centre, squares.loadings])
            unit = np.eye(loadings.shape[1])
            return cls(loadings, unit[0], unit[:, 1:], bounds, idle)
        loadings = priced_loadings(problem, latent, effects, dual)
        ends: list[Array] = [np.zeros((0, loadings.shape[1]))]
        values: list[Array] = [np.zeros(0)]
        for term in problem.terms:
            columns = problem.columns_of_term(term)
            if isinstance(term, Constraint) and term.fixed is not None:
                ends.append(loadings[columns])
                values.append(np.full(width(columns), term.fixed))
            elif isinstance(term, Sums):
                coefficients, targets = equations_of_a_row(problem, term, effects)
                ends.append(coefficients @ loadings[columns])
                values.append(targets)
        size = float(np.linalg.norm(loadings))
        start, directions = solutions(np.vstack(ends), np.concatenate(values), size)
        return cls(loadings, start, directions, bounds, idle)

    def rows(self, scores: Array) -> LowRank:
        """Rows of Z from their t (n_rows x m), in factors."""
        return LowRank(self.start + scores @ self.directions.T, self.loadings)


def width(columns: slice) -> int:
    """The number of columns of a slice."""
    return int(columns.stop - columns.start)


def refuse_rows(problem: Problem) -> None:
    """A ``ModelError`` where a model says nothing of a row by itself, or nothing that is known."""
    model = problem.model
    alone = [term for term in model.terms if isinstance(term, RowQuadratic)]
    for term in problem.terms:
        is_box = term.entry_bounds is not None
        if alone and not (is_quadratic(term) or isinstance(term, RowQuadratic) or is_box):
            raise ModelError(
                f"new rows of {alone[0].word} are known together with Ridge and Box only; the"
                f" model has {term.word} too; {REMEDY}"
            )
        if isinstance(term, Sums) and term.axis == 1:
            refuse_sums_of_rows(problem, term)
        elif not (prices_rows(term) or is_box or is_fixed_column(term)):
            raise ModelError(
                "new rows are known of NuclearNorm, NuclearBall, GaussianRows, Ridge, Box and"
                f" OnesColumn; the model has {term.word} too, which ties rows to each other;"
                f" {REMEDY}"
            )
    norms = [term for term in model.terms if sums_singular_values(term)]
    scaled = [term.word for term in norms if term.count_share]
    # Scales of rows that are those of a part of what a row costs.
    if scaled and any(is_quadratic(term) for term in model.terms):
        raise ModelError(
            f"new rows of a {scaled[0]} with count_share are not known together with a Ridge,"
            f" which has no such scales; drop one of them, or {REMEDY}"
        )
    if scaled and len(scaled) < len(norms):
        raise ModelError(
            "new rows of a NuclearNorm and a NuclearBall are not known where one of them has no"
            f" count_share; give both the same, or {REMEDY}"
        )
    for block in model.blocks:
        if scaled and block.row_effects and block.effects_weight:
            raise ModelError(
                f"block {block.name!r}: new rows of a {scaled[0]} with count_share are not known"
                " together with row_effects with an effects_weight, which has no such scales;"
                f" {REMEDY}"
            )
    for block in model.blocks:
        if not block.likelihood.convex:
            raise ModelError(
                f"block {block.name!r}: new rows need a convex loss, which this"
                f" {type(block.likelihood).__name__} is not; {REMEDY}"
            )


def refuse_sums_of_rows(problem: Problem, term: Sums) -> None:
    """A ``ModelError`` where equations within rows say nothing of a row that is not in the fit."""
    reason = None
    if term.weight is not None:
        reason = "is a penalty"
    elif any(problem.model.block(name).row_effects for name in term.block_names):
        reason = "stands beside row_effects, which new rows have of their own"
    elif len(term.groups) != 1 or term.groups[0].lines.size != problem.shape[0]:
        reason = "is known of some of the rows"
    else:
        targets = targets_of(term)
        spread = np.max(np.ptp(targets, axis=1), initial=0.0)
        if spread > RESULT_ROUNDING * np.max(np.abs(targets), initial=0.0):
            reason = "has other values in each row, B or an offset"
    if reason is not None:
        raise ModelError(
            f"new rows under {term.word} are known where it states the same of all rows, exactly;"
            f" that of block {', '.join(map(repr, term.block_names))} {reason}; {REMEDY}"
        )


def targets_of(term: Sums) -> Array:
    """The sums along the directions of the first group of equations, for each of its rows."""
    group = term.groups[0]
    return -group.distances(np.zeros((len(group.right), group.lines.size)))


def equations_of_a_row(
    problem: Problem, term: Sums, effects: Mapping[str, Array]
) -> tuple[Array, Array]:
    """Coefficients of the columns of Z of a block and their sums, which a term states of all rows.

    Biases are part of the sums.
    """
    coefficients, targets = term.groups[0].right.T, targets_of(term)[:, 0]
    layout = problem.effects_in_term(term)
    if layout is None or not layout.n_biases:
        return coefficients, targets
    return coefficients, targets - coefficients @ layout.biases(effects[str(term.block)])


def prices_rows(term: Term) -> bool:
    """A term costs a row of U a known square."""
    if term.block is not None:
        return False
    return is_quadratic(term) or isinstance(term, RowQuadratic) or sums_singular_values(term)


def sums_singular_values(term: Term) -> bool:
    """A term is a weight times the sum of the singular values, or a bound on it."""
    if not isinstance(term, Spectral):
        return False
    return term.linear_weight is not None or term.largest_sum is not None


def is_fixed_column(term: Term) -> bool:
    """A term is a column of one value."""
    return isinstance(term, Constraint) and term.fixed is not None


def priced_loadings(
    problem: Problem, latent: LowRank, effects: Mapping[str, Array], dual: Dual | None
) -> Array:
    """V D^(-1/2): loadings at which each direction costs ``t^2 / 2``.

    Under a ridge alone rows have nothing in common, and any row is one.
    """
    spectral = [term for term in problem.terms if isinstance(term, Spectral)]
    ridge = sum(term.quadratic_weight for term in spectral)
    weights = [term.linear_weight for term in spectral if term.linear_weight is not None]
    sums = [term for term in spectral if sums_singular_values(term)]
    balls = [term for term in sums if term.largest_sum is not None]
    if not sums:
        return np.eye(problem.n_columns) / np.sqrt(ridge)
    scales = problem.scales_of(sums[0])
    latent = latent if scales is None else scales.apply(latent)
    _, s, loadings = orthogonal_factors(latent.left, latent.right)
    weight = sum(weights)
    if balls and s.size:
        weight += ball_weight(problem, latent, effects, dual, balls[0], weight + ridge * s)
    priced: Array = loadings / np.sqrt(weight + ridge * s)
    return priced if scales is None else priced / scales.columns[:, None]


def ball_weight(
    problem: Problem,
    latent: LowRank,
    effects: Mapping[str, Array],
    dual: Dual | None,
    ball: Spectral,
    others: Array,
) -> float:
    """The weight of a nuclear norm that would do what the ball does: its multiplier.

    ``-<U, S V> / ||U||^2``, less what other terms take off (``others``, for each singular value).
    At the optimum it is what the spectral norm of the gradient S exceeds them by. 0 where a ball
    does not bind next to them.
    """
    left, s, right = orthogonal_factors(latent.left, latent.right)
    total = float(np.sum(s))
    weight, radius = 0.0, ball.largest_sum
    assert radius is not None
    if total >= (1.0 - MIN_BALL_SLACK) * radius:
        gradient = gradient_of_rows(problem, latent, effects, dual, right)
        weight = -float(np.vdot(left, gradient + left * others)) / total
    if weight <= 0.0 and not np.any(others):
        raise ModelError(
            f"{ball.word}({radius:g}) does not bind: the nuclear norm of Z is {total:.6g},"
            " and so nothing holds new rows back. Take a smaller radius, a NuclearNorm or a Ridge,"
            f" or {REMEDY}"
        )
    return max(weight, 0.0)


def gradient_of_rows(
    problem: Problem,
    latent: LowRank,
    effects: Mapping[str, Array],
    dual: Dual | None,
    right: Array,
) -> Array:
    """S V for the gradient S of all that is a sum over rows: losses, and terms but norms of Z."""
    program = CompiledProblem(problem).program
    warm = tuple(effects.get(name) for name in program.names)
    if dual is None:
        evaluation = program.evaluate(latent, warm)
    else:
        evaluation = program.evaluate_at(latent, dual.effects)
    point = dual_point(program, evaluation, dual)
    product: Array = np.asarray(point.matrix @ right)
    for term, matrix in zip(program.terms, point.terms, strict=True):
        if isinstance(term.term, Spectral):
            product -= term.gradient_of(matrix) @ right[term.columns]
    return product


def solutions(ends: Array, values: Array, size: float) -> tuple[Array, Array]:
    """The shortest u with ``ends u = values``, and an orthonormal basis of what leaves them so.

    Equations that loadings of this ``size`` satisfy but for rounding, whatever u, leave all.
    """
    left, lengths, basis = np.linalg.svd(ends)
    rank = int(np.count_nonzero(lengths > SET_ROUNDING * size))
    start = basis[:rank].T @ ((left[:, :rank].T @ values) / lengths[:rank])
    return start, basis[rank:].T


def idle_effects(
    problem: Problem, effects: Mapping[str, Array], infinite: Mapping[str, IntArray] | None
) -> dict[str, float]:
    """The row effect of rows without an entry, counted from 0, by block.

    The mean over the rows with one, of finite effects, as in fits; 0 under a ridge.
    """
    idle = {}
    for block in problem.model.blocks:
        name = block.name
        if not block.row_effects:
            continue
        idle[name] = 0.0
        if problem.ridge(name):
            continue
        layout, finite = problem.layout(name), np.ones(effects[name].size)
        finite[
            places_of_diverging_effects(problem, block) if infinite is None else infinite[name]
        ] = 0.0
        row_effects = layout.row_effects(effects[name] + problem.origins.get(name, 0.0))
        determined = problem.tables[name].rows_with_entries & (layout.row_effects(finite) > 0.0)
        if determined.any():
            idle[name] = float(np.mean(row_effects[determined]))
    return idle


# The first stiffness of a nonsmooth part relative to 1 / ||v||^2 of its loadings v, which is that
# of a row's cost in z; its growth with each update of the multipliers; and the most in all.
INITIAL_STIFFNESS, STIFFNESS_GROWTH, MAX_STIFFNESS = 10.0, 3.0, 1e4
# At the largest stiffness updates end where one leaves more than this share of the distance of z
# from its prox.
STALLED_RATIO = 0.5
# Updates end where z and its prox differ by at most this relative to the largest z of the row. A
# row whose z and prox differ by more than the second number has not converged.
PROX_TOLERANCE, UNCONVERGED_DISTANCE = 1e-11, 1e-6
# The size of a row counts as at least this share of that of the largest row.
SMALL_ROW_RATIO = 1e-6
# How long a gradient may be relative to what it sums; see ``RowLosses.unconverged``.
GRADIENT_TOLERANCE = 1e-7


@attrs.frozen(eq=False)
class BestRows:
    """Scores t of new rows (n_rows x m), their effects by block, and which are unconverged."""

    scores: Array
    effects: tuple[Array | None, ...]
    unconverged: Mask


@attrs.frozen
class Interval(PointwiseLoss, Proximable):
    """0 for lower <= z <= upper, else inf: a ``Box``, number by number, in a loss's place."""

    lower: float
    upper: float

    smooth = False
    indicator = True
    infimum = 0.0
    curvature = np.inf

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """0 and the gradient 0: asked for within the bounds alone."""
        return np.zeros_like(z), np.zeros_like(z)

    def prox(self, z: Array, y: Array, step: Array) -> Array:
        """The nearest number within."""
        return np.clip(z, self.lower, self.upper)

    def prox_gradient(self, z: Array, y: Array, step: Array) -> Array:
        """1 within, 0 outside."""
        return ((z > self.lower) & (z < self.upper)).astype(np.float64)


def best_rows(
    n_rows: int, block_losses: tuple[BlockLoss, ...], columns: tuple[slice, ...], space: RowSpace
) -> BestRows:
    """The scores of each row at which its losses and its own cost are least, within its bounds.

    Parameters
    ----------
    n_rows : int
    block_losses : tuple of BlockLoss
        The losses of blocks, as in ``RowLosses``.
    columns : tuple of slices
        The columns of Z at which each of them stands.
    space : RowSpace
    """
    n_blocks = len(block_losses)
    for bound_columns, lower, upper in space.bounds:
        start = block_losses[-1].part.stop if block_losses else 0
        # All cells of some columns, with losses that are 0 between the bounds.
        width = bound_columns.stop - bound_columns.start
        rows, columns_of_cells = np.divmod(np.arange(n_rows * width), width)
        block_losses = (
            *block_losses,
            BlockLoss(
                *(Interval(lower, upper), 1.0, np.zeros(rows.size), rows, columns_of_cells),
                slice(start, start + rows.size),
            ),
        )
        columns = (*columns, bound_columns)
    centre, loadings = space.loadings @ space.start, space.loadings @ space.directions
    losses = RowLosses.of(n_rows, block_losses, columns, centre, loadings)
    # Rows that overflow count as unconverged.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if all(block_loss.likelihood.smooth for block_loss in block_losses):
            solution = newton(losses)
            unconverged = losses.unconverged(solution, GRADIENT_TOLERANCE)
        else:
            solution, unconverged = by_multipliers(losses)
    return BestRows(solution.scores, solution.effects[:n_blocks], unconverged)


def by_multipliers(losses: RowLosses) -> tuple[RowsAt, Mask]:
    """Rows under nonsmooth losses, and which are unconverged: the method of multipliers.

    Each nonsmooth loss is replaced by its envelope (``SmoothedLoss``), whose gradient at
    the minimum is the next multiplier. The stiffness grows with each update.
    """
    nonsmooth = [
        k for k, block_loss in enumerate(losses.block_losses) if not block_loss.likelihood.smooth
    ]
    multipliers: dict[int, Array] = {
        k: np.zeros(losses.block_losses[k].n_numbers) for k in nonsmooth
    }
    first_stiffness = {k: stiffness(losses, k) for k in nonsmooth}
    factor, last_distance, current = 1.0, np.inf, None
    for _ in range(MOST_STEPS):
        block_losses: list[Any] = list(losses.block_losses)
        for k in nonsmooth:
            block_losses[k] = smoothed_block_loss(
                block_losses[k], multipliers[k], factor * first_stiffness[k]
            )
        smooth = attrs.evolve(losses, block_losses=tuple(block_losses))
        current = newton(smooth, current)
        duals = {k: current.gradients[losses.block_losses[k].part].copy() for k in nonsmooth}
        distances = np.zeros(losses.n_rows)
        for k in nonsmooth:
            changes = np.abs(duals[k] - multipliers[k]) / (factor * first_stiffness[k])
            distances = np.maximum(distances, relative_changes(losses, current, k, changes))
        multipliers, largest_distance = duals, float(np.max(distances))
        is_stiffest = factor >= MAX_STIFFNESS
        if largest_distance <= PROX_TOLERANCE or (
            is_stiffest and largest_distance > STALLED_RATIO * last_distance
        ):
            break
        factor, last_distance = min(STIFFNESS_GROWTH * factor, MAX_STIFFNESS), largest_distance
    assert current is not None
    return current, smooth.unconverged(current, GRADIENT_TOLERANCE) | (
        distances > UNCONVERGED_DISTANCE
    )


def stiffness(losses: RowLosses, k: int) -> float:
    """The first stiffness of a nonsmooth block, by its values where no score changes its z."""
    block_loss, loadings = losses.block_losses[k], losses.loadings[losses.slices[k]]
    squared = float(np.mean(np.sum(np.square(loadings), axis=1)))
    if squared > 0.0:
        return INITIAL_STIFFNESS / squared
    spread = float(np.std(points_of(block_loss.y))) or 1.0
    return INITIAL_STIFFNESS * float(np.mean(block_loss.scale)) / spread


def relative_changes(losses: RowLosses, current: RowsAt, k: int, changes: Array) -> Array:
    """The largest of some changes of z in each row, relative to the size of its predictors."""
    block_loss = losses.block_losses[k]
    shifted = block_loss.offset_part(current.z)
    sizes = (
        np.abs(block_loss.predictor(shifted, current.effects[k]))
        + np.abs(shifted)
        + sizes_of(block_loss.y)
    )
    largest = by_rows(losses, block_loss, sizes)
    unit = np.maximum(largest, SMALL_ROW_RATIO * float(np.max(largest, initial=0.0)))
    longest = by_rows(losses, block_loss, changes)
    return np.divide(longest, unit, out=np.zeros_like(unit), where=unit > 0.0)


def by_rows(losses: RowLosses, block_loss: BlockLoss, numbers: Array) -> Array:
    """The largest of some numbers that are not below 0, row by row."""
    largest = np.zeros(losses.n_rows)
    np.maximum.at(largest, block_loss.rows, numbers)
    return largest
