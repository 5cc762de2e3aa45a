"""The best effects, by safeguarded Newton methods that ask entries for sums alone.

Whoever has the entries, in memory or in partitions, answers what ``EntriesAt`` does.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import attrs
import numpy as np
import scipy.linalg
import scipy.sparse as sp

from mcframe.compile.equations import EffectSquares, SquaresAt
from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.likelihood import PointwiseLoss, TwiceDifferentiable, in_shape_of_gradients
from mcframe.contracts.limits import (
    BISECTIONS,
    FEW_CLASSES,
    MAX_FIRST_STEP,
    MOST_STEPS,
    REFINEMENTS,
)
from mcframe.contracts.rounding import (
    DAMPING,
    EPS,
    RESULT_ROUNDING,
    SUM_ROUNDING,
    TINY,
    VALUE_ROUNDING,
)
from mcframe.runtime.machine import check_time


@attrs.frozen(eq=False)
class Curvature:
    """The second derivatives G'HG of losses in the effects, or G'WG for weights in place of H.

    ``second`` gives H's diagonal in the shape of z, and ``hessian``, if it has more than that, its
    product with numbers of z.
    """

    effects: Any
    second: Callable[[], Array]
    hessian: Callable[[Array], Array] | None = None

    @cached_property
    def numbers(self) -> Array:
        """The diagonal of H."""
        return self.second()

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of G'HG."""
        return self.effects.sum_by_effect(self.numbers)

    def times_numbers(self, numbers: Array) -> Array:
        """H x for numbers x of z."""
        return self.numbers * numbers if self.hessian is None else self.hessian(numbers)

    def times(self, vector: Array) -> Array:
        """The product G'HG e."""
        image = self.times_numbers(self.effects.at_entries(vector))
        return self.effects.sum_by_effect(image)

    def blocks(self) -> Array:
        """The second derivatives in the effects of the classes of each column, (columns, K, K).

        K products of the entries' Hessian, each with one class, sum up to the rows of the blocks.
        """
        n_classes = self.effects.width
        images = np.empty((self.effects.size, n_classes))
        for k in range(n_classes):
            unit = np.zeros(self.effects.columns.shape)
            unit[:, k] = 1.0
            images[:, k] = self.effects.sum_by_effect(self.times_numbers(unit))
        return images.reshape(-1, n_classes, n_classes)

    @cached_property
    def table(self) -> Any:
        """H as a sparse matrix (rows x columns), with a column of row sums for an intercept."""
        layout = self.effects.layout
        order, columns, starts = self.effects.by_rows
        values = self.numbers if order is None else self.numbers[order]
        shape = (layout.n_row_effects, layout.n_biases)
        table = sp.csr_array((values, columns, starts), shape=shape)
        if layout.n_intercepts:
            sums = sp.csr_array((table @ np.ones(shape[1]))[:, None])
            table = sp.hstack([table, sums], format="csr")
        return table

    def of_rows(self, others: Array) -> Array:
        """N x for the table N and effects x of columns and intercept."""
        return np.asarray(self.table @ others)

    def of_others(self, rows: Array) -> Array:
        """N' y for effects y of rows."""
        return np.asarray(self.table.T @ rows)

    def eliminated(self, rows: Array, others: Array) -> Array:
        """The product N' D N x, where D has numbers of the rows on its diagonal."""
        return np.asarray(self.table.T @ (rows * (self.table @ others)))

    def dense(self, diagonal: Array) -> Array:
        """G'HG (effects x effects), written out, with this diagonal."""
        layout = self.effects.layout
        if self.effects.width > 1:  # biases of classes alone
            return np.asarray(scipy.linalg.block_diag(*self.blocks()))
        whole: Array = np.diag(diagonal)
        if not self.effects.tied:
            return whole
        d, stop = layout.n_biases, layout.n_biases + layout.n_row_effects
        table = self.table.toarray()
        others = np.r_[0:d, stop : self.effects.size]
        whole[d:stop, others] = table
        whole[others, d:stop] = table.T
        if layout.n_intercepts:
            whole[-1, :d] = whole[:d, -1] = diagonal[:d]
        return whole

    def elimination(self, rows: Array) -> Callable[[Array], Array]:
        """The product x -> N' D N x."""
        return partial(self.eliminated, rows)

    def dense_elimination(self, rows: Array) -> Array:
        """N' D N."""
        return (self.table.T @ (sp.diags_array(rows) @ self.table)).toarray()


@attrs.frozen(eq=False)
class EntriesAt:
    """The entries of a block at predictors z without effects, and the factors of their losses."""

    effects: Any
    likelihood: PointwiseLoss
    z: Array
    y: Array
    weights: Array | float

    @cached_property
    def reach(self) -> float:
        """The largest predictor."""
        return float(np.max(np.abs(self.z), initial=0.0))

    @property
    def weights_of_gradients(self) -> Any:
        """The weights of entries in the shape of their gradients."""
        return in_shape_of_gradients(self.weights, self.effects.width)

    def at(self, effects: Array) -> "SumsAt":
        """The sums at some effects."""
        predictor = self.effects.predictor(self.z, effects)
        losses, gradients = self.likelihood.value_and_gradient(predictor, self.y)
        weighted = self.weights_of_gradients * gradients
        return SumsAt(
            self,
            float(np.sum(self.weights * losses)),
            float(np.sum(self.weights * np.abs(losses))),
            self.reach,
            self.effects.sum_by_effect(weighted),
            self.effects.sum_by_effect(np.abs(weighted)),
            partial(self.curvature_at, predictor, losses, gradients),
        )

    def curvature_at(
        self,
        predictor: Array,
        losses: Array | None = None,
        gradients: Array | None = None,
        chord_share: float = 0.0,
    ) -> Curvature:
        """The second derivatives at a predictor, computed as far as they are asked for.

        At least this share of the curvatures of the losses' chords, by the losses and gradients
        there; to those of entries of several numbers it is added.
        """
        weights, likelihood = self.weights_of_gradients, self.likelihood
        least: Array | float = 0.0
        if chord_share:
            assert losses is not None
            assert gradients is not None
            least = chord_share * chord_curvatures(likelihood, losses, gradients)

        assert isinstance(likelihood, TwiceDifferentiable)

        def second() -> Array:
            derivative = likelihood.second_derivative(predictor, self.y)
            return weights * (derivative + least if several else np.maximum(derivative, least))

        several = self.effects.width > 1
        if not several:
            return Curvature(self.effects, second)
        hessian = likelihood.hessian_at(predictor, self.y)
        return Curvature(
            self.effects, second, lambda numbers: weights * (hessian(numbers) + least * numbers)
        )

    def below_zero(self) -> Array:
        """Effects of columns that bring each predictor to 0 or below, where no loss overflows."""
        layout = self.effects.layout
        highest = np.full(layout.n_biases, -np.inf)
        np.maximum.at(highest, self.effects.columns.ravel(), self.z.ravel())
        effects = np.zeros(self.effects.size)
        layout.biases(effects)[:] = np.where(np.isfinite(highest), -highest, 0.0)
        return effects


def chord_curvatures(likelihood: PointwiseLoss, losses: Array, gradients: Array) -> Array:
    """The curvature of a parabola that rises from a loss's infimum to its value and gradient.

    With l the loss above its infimum, g its gradient and c its largest curvature it is ``g^2 / (l
    + g^2 / (2 c))``: 1 in the middle of Huber's loss and ``delta / |r|`` in its tails, the weights
    of iteratively reweighted least squares. By these a flat loss falls about as far as it does,
    by its second derivative the fall would not end. Shaped to multiply numbers of entries.
    """
    lowest = likelihood.infimum if np.isfinite(likelihood.infimum) else 0.0
    squares = np.square(gradients)
    if squares.ndim > losses.ndim:
        squares = np.sum(squares, axis=1, keepdims=True)
    above = np.abs(losses - lowest).reshape(squares.shape) + squares / (2.0 * likelihood.curvature)
    return np.where(squares > 0.0, squares / np.where(above > 0.0, above, 1.0), 0.0)


@attrs.frozen(eq=False)
class SumsAt:
    """Losses at some effects and their sizes, as sums; their derivatives by effect.

    Of ``entries``, in memory or in partitions. ``reach`` is the largest predictor without effects,
    ``sizes`` are the sums of the sizes of what each derivative is the sum of, and
    ``find_curvature`` finds the second derivatives, where they are asked for; given a share, with
    that of the curvatures of chords as ``EntriesAt.curvature_at`` has them.
    """

    entries: Any
    value: float
    summands: float
    reach: float
    gradient: Array
    sizes: Array
    find_curvature: Callable[..., Any]

    @cached_property
    def curvature(self) -> Any:
        """The second derivatives: a ``Curvature``, or what answers as it does."""
        return self.find_curvature()


# Gradients whose sums are below this share of the sums of their sizes count as solved: what is
# left changes the objective and its certificate by the square of it.
SUM_TOLERANCE = 1e-11
# A line search ends where the slope is at most this share of the first one. It lengthens the step
# by a factor until the slope changes its sign, then shortens it to no less than another share of
# itself.
MAX_SLOPE_RATIO, LENGTHENING, MIN_SHORTENING = 0.3, 4.0, 0.01
# Sums are divided by at least this share of the largest of them, as the gradients of a group may
# all be rounding.
SMALL_GROUP_RATIO = 1e-3
# How exactly a Newton system is solved, relative to what is left of the gradient.
SYSTEM_TOLERANCE = 0.1
# What is added to the diagonal of a system of classes: a constant may be traded between them.
CLASS_DAMPING = 1e-9
# Where a loss is flat, as Huber's in its tails, it has no curvature though its gradient is not 0.
# Its second derivative counts as at least this share of the curvature of its chord, times what is
# left of the gradient, so that Newton's steps become exact.
CHORD_SHARE = 0.1
# Up to so many effects that equations tie to each other their system is written out: beside heavy
# equations conjugate gradients leave much of it.
MAX_DENSE_EFFECTS = 1_500
# Steps of conjugate gradients, at most. A residual that has grown by ``DIVERGED_RATIO`` is
# amplified rounding.
MAX_CG_STEPS, DIVERGED_RATIO = 500, 1e6
# A residual that has grown by this ratio since it was least is computed anew before it counts as
# less: rounding of what was added to x and taken off again is no part of the recurrence.
GROWN_RATIO = 1e4


@attrs.frozen(eq=False)
class ObjectiveAt:
    """The losses at some effects, and what else is of these: value, gradient, and sizes of both.

    That is a ridge, and the ``squares`` of sums of predictors. The gradient is 0 in diverging
    effects.
    """

    design: Any
    sums: SumsAt
    effects: Array
    squares: SquaresAt | None = None

    @property
    def value(self) -> float:
        """The sum to be minimised."""
        total = float(self.sums.value) + float(self.design.cost(self.effects))
        return total if self.squares is None else total + self.squares.value(self.effects)

    @cached_property
    def ridge_gradient(self) -> Array | float:
        """The ridge's gradient."""
        ridge = self.design.ridge
        return 0.0 if ridge is None else np.asarray(ridge.gradient(self.effects))

    @cached_property
    def gradient(self) -> Array:
        """The derivative in each effect."""
        total = self.sums.gradient + self.ridge_gradient
        if self.squares is not None:
            total = total + self.squares.gradient(self.effects)
        return np.where(self.design.free, total, 0.0)

    @cached_property
    def sizes(self) -> Array:
        """The sums of the sizes of what each derivative is the sum of."""
        total = self.sums.sizes + np.abs(self.ridge_gradient)
        return np.asarray(
            total if self.squares is None else total + self.squares.sizes(self.effects)
        )

    @property
    def second_of_squares(self) -> EffectSquares | None:
        """The squares with their second derivatives, if there are any."""
        return None if self.squares is None else self.squares.squares

    @property
    def relative_gradient(self) -> float:
        """The largest entry of the gradient relative to its size."""
        floor = max(SMALL_GROUP_RATIO * float(np.max(self.sizes, initial=0.0)), TINY)
        return float(np.max(np.abs(self.gradient) / np.maximum(self.sizes, floor), initial=0.0))


def newton_correction(design: Any, current: ObjectiveAt) -> tuple[Array, float] | None:
    """The Newton step to the best effects, and what it adds to the objective to second order.

    None where second derivatives do not say where these are: they vanish, or overflow.
    """
    tolerance = 0.0
    if not design.separable:
        if current.relative_gradient <= SUM_TOLERANCE:
            return np.zeros(design.size), 0.0
        if not np.isfinite(current.relative_gradient):
            return None
        tolerance = newton_tolerance(current)
    damping, target = partial(least_damping, design), -current.gradient
    step, usable = solve_newton_system(design, current.sums.curvature, target, tolerance, damping)
    added = 0.5 * float(np.dot(current.gradient, step))
    if np.any(np.abs(current.gradient[~usable]) > TINY) or not np.isfinite(added):
        return None
    return step, added


def best_effects(
    design: Any,
    entries: Any,
    likelihood: PointwiseLoss,
    warm: Array | None,
    squares: SquaresAt | None = None,
) -> tuple[Array, ObjectiveAt]:
    """The effects at which gradients sum to 0, or to minus the ridge's, and where it was seen.

    Parameters
    ----------
    design : Effects
        What they are added to, their ridge, and which of them diverge.
    entries : EntriesAt, or what answers as it does
    warm : array, optional
        The effects of a point nearby, from which Newton's method starts.
    squares : SquaresAt, optional
        What terms of predictors add to the losses.

    Returns
    -------
    effects : array
    objective : ObjectiveAt
        The objective at the last effects that were tried; mostly the same.
    """

    def objective_at(effects: Array) -> ObjectiveAt:
        check_time()
        return ObjectiveAt(design, entries.at(effects), effects, squares)

    start = design.initial_effects(warm, lambda: entries.reach)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if design.separable and not (squares is not None and squares.squares.couples):
            solution, objective = solve_separable(objective_at, objective_at(start), likelihood)
        else:
            objective = objective_at(start)
            if not np.all(np.isfinite(objective.sizes)):
                objective = objective_at(np.where(design.free, entries.below_zero(), start))
            objective = solve_coupled(objective_at, objective, likelihood)
            solution = objective.effects
    return design.identified(solution), objective


def solve_coupled(
    objective_at: Callable[[Array], ObjectiveAt], current: ObjectiveAt, likelihood: PointwiseLoss
) -> ObjectiveAt:
    """Solve for all effects at once, by Newton's method with a line search.

    It ends where sums are 0 up to ``SUM_TOLERANCE`` of their sizes, or where rounding lets them
    fall no further.
    """
    last_size = np.inf
    for _ in range(MOST_STEPS):
        size = current.relative_gradient
        if size <= SUM_TOLERANCE or (size <= RESULT_ROUNDING and size > 0.1 * last_size):
            break
        step = newton_step(current, likelihood)
        slope = float(np.dot(current.gradient, step))
        noise = VALUE_ROUNDING * current.sums.summands
        if not slope < 0.0 or (-slope <= noise and size > 0.5 * last_size):
            break
        last_size = size
        trial, length = line_search(objective_at, current, step, slope)
        current, moves = trial, length * np.abs(step)
        if np.all(moves <= 2.0 * EPS * np.abs(current.effects)):
            break
    return current


def line_search(
    objective_at: Callable[[Array], ObjectiveAt], current: ObjectiveAt, step: Array, slope: float
) -> tuple[ObjectiveAt, float]:
    """The objective a length along the step where its slope is nearly 0, and that length.

    Slopes are compared, as values no longer distinguish effects near the answer. The slope of a
    convex function rises: the length is enclosed, then found by secants and by bisection of its
    order of magnitude in turn. Infinite slopes lie beyond it. Where the slope is positive the
    value is compared, too: beyond a kink it may be far above the first one with a small slope.
    """
    highest = current.value + VALUE_ROUNDING * current.sums.summands
    low, high, slope_low, slope_high, length = 0.0, np.inf, slope, np.inf, 1.0
    for k in range(BISECTIONS):
        tried, trial = length, objective_at(current.effects + length * step)
        slope_here = float(np.dot(trial.gradient, step))
        is_flat = abs(slope_here) <= MAX_SLOPE_RATIO * abs(slope)
        if is_flat and (slope_here <= 0.0 or trial.value <= highest):
            break
        if slope_here < 0.0:
            low, slope_low = length, slope_here
        else:
            high, slope_high = length, slope_here
        if high == np.inf:
            length *= LENGTHENING
            continue
        if high - low <= 2.0 * EPS * high:
            break
        secant = low - (high - low) * slope_low / (slope_high - slope_low)
        if low == 0.0:
            shortest = MIN_SHORTENING * high
            length = max(secant, shortest) if np.isfinite(secant) and not is_flat else shortest
        elif k % 2 and np.isfinite(secant):
            margin = 0.1 * (high - low)
            length = min(max(secant, low + margin), high - margin)
        else:
            length = float(np.sqrt(low) * np.sqrt(high))
    return trial, tried


def takes_chords(likelihood: PointwiseLoss) -> bool:
    """True for a loss that may be flat: Newton's steps count the curvature of its chords."""
    return bool(np.isfinite(likelihood.curvature)) and not likelihood.quadratic


def newton_step(objective: ObjectiveAt, likelihood: PointwiseLoss) -> Array:
    """The step to where the gradient vanishes to first order, shorter where a loss may be flat."""
    design = objective.design
    if takes_chords(likelihood):
        share = CHORD_SHARE * objective.relative_gradient
        curvature = objective.sums.find_curvature(chord_share=share)
    else:
        curvature = objective.sums.curvature
    return solve_newton_system(
        design,
        curvature,
        -objective.gradient,
        newton_tolerance(objective),
        partial(least_damping, design),
        objective.second_of_squares,
    )[0]


def newton_tolerance(objective: ObjectiveAt) -> float:
    """The relative tolerance to which the Newton system at a point is solved."""
    return max(SYSTEM_TOLERANCE * SUM_TOLERANCE / objective.relative_gradient, SUM_ROUNDING)


def least_damping(design: Any, diagonal: Array) -> Array:
    """An addition to the diagonal of a singular system, along whose null space nothing moves."""
    if design.separable:
        return np.zeros(diagonal.size)
    return (CLASS_DAMPING if design.width > 1 else DAMPING) * diagonal


def solve_newton_system(
    design: Any,
    curvature: Any,
    target: Array,
    tolerance: float,
    damping: Callable[[Array], Array] | None = None,
    squares: EffectSquares | None = None,
) -> tuple[Array, Mask]:
    """e with (G'HG + squares + damping + ridge) e = target, and which effects have any curvature.

    0 for the others. ``curvature`` answers what ``Curvature`` does, ``damping`` is that of a
    diagonal. A diagonal system is divided, one with a block for each column written out, if these
    are small; of effects of two kinds those of rows are eliminated. The rest is solved by
    conjugate gradients up to ``tolerance`` of the target. Where squares tie effects to each other
    the system is written out, if it is small.
    """
    blocks = curvature.blocks() if 1 < design.width <= FEW_CLASSES else None
    curved = curvature.diagonal if blocks is None else blocks.diagonal(axis1=1, axis2=2).ravel()
    added = design.stiffness + (0.0 if damping is None else damping(curved))
    if squares is not None and squares.couples:
        return solve_with_squares(design, curvature, squares, curved, added, target, tolerance)
    if squares is not None:
        added = added + squares.diagonal
    diagonal = curved + added
    usable = design.free & (diagonal > TINY)
    inverse = np.where(usable, 1.0 / np.where(usable, diagonal, 1.0), 0.0)
    if design.separable:
        return inverse * target, usable
    if blocks is not None:
        return solve_by_columns(blocks, diagonal, target, usable), usable
    if design.width > 1:
        solution = conjugate_gradients(
            lambda x: curvature.times(x) + added * x, target, inverse, usable, tolerance
        )
        return solution, usable
    d, stop = design.layout.n_biases, design.layout.n_biases + design.layout.n_row_effects
    others, rows = np.r_[0:d, stop : design.size], slice(d, stop)
    eliminated = curvature.elimination(inverse[rows])

    def times(x: Array) -> Array:
        image: Array = diagonal[others] * x - eliminated(x)
        if design.layout.n_intercepts:
            image[:d] += curved[:d] * x[d]
            image[d] += curved[:d] @ x[:d]
        return image

    reduced_target = target[others] - curvature.of_others(inverse[rows] * target[rows])
    solution = np.empty(design.size)
    solution[others] = conjugate_gradients(
        times, reduced_target, inverse[others], usable[others], tolerance
    )
    solution[rows] = inverse[rows] * (target[rows] - curvature.of_rows(solution[others]))
    return solution, usable


def solve_with_squares(
    design: Any,
    curvature: Any,
    squares: EffectSquares,
    curved: Array,
    added: Array | float,
    target: Array,
    tolerance: float,
) -> tuple[Array, Mask]:
    """``solve_newton_system`` of effects that squares tie to each other.

    What the losses and the squares leave open stays 0: a little is added to their diagonal.
    """
    light = DAMPING * (curved + squares.diagonal)
    diagonal = curved + squares.diagonal + added + light
    usable = design.free & (diagonal > TINY)
    inverse = np.where(usable, 1.0 / np.where(usable, diagonal, 1.0), 0.0)
    if design.size > MAX_DENSE_EFFECTS:
        solution = conjugate_gradients(
            lambda x: curvature.times(x) + squares.times(x) + (added + light) * x,
            target,
            inverse,
            usable,
            tolerance,
        )
        return solution, usable
    lengths = np.sqrt(inverse)
    system = curvature.dense(curved) + squares.matrix
    np.fill_diagonal(system, diagonal)
    system = lengths[:, None] * system * lengths
    np.fill_diagonal(system, 1.0)
    if not np.all(np.isfinite(system)):  # where curvatures overflow
        return inverse * target, usable
    try:
        factor = scipy.linalg.cho_factor(system, check_finite=False)
    except np.linalg.LinAlgError:  # by rounding
        return inverse * target, usable
    return lengths * scipy.linalg.cho_solve(factor, lengths * target), usable


def solve_by_columns(blocks: Array, diagonal: Array, target: Array, usable: Mask) -> Array:
    """x with S x = target, 0 where not usable, for a block of S a column, and S's diagonal."""
    shape, places = blocks.shape[:2], range(blocks.shape[1])
    usable_classes = usable.reshape(shape)
    system = blocks * (usable_classes[:, :, None] & usable_classes[:, None, :])
    system[:, places, places] = np.where(usable_classes, diagonal.reshape(shape), 1.0)
    targets = np.where(usable_classes, target.reshape(shape), 0.0)
    solution: Array = np.linalg.solve(system, targets[:, :, None])
    return solution.ravel()


def conjugate_gradients(
    times: Callable[[Array], Array], target: Array, inverse: Array, usable: Mask, tolerance: float
) -> Array:
    """x with S x = t, from 0, the inverse diagonal as preconditioner; 0 where not usable.

    The last residual, in the norm of the preconditioner, is ``tolerance`` times the target. For a
    singular S, undetermined directions of x stay 0. Rounding leaves a part of the target there
    that no x removes, and that grows in the end, so the x with the least residual is returned.
    """
    solution = best = np.zeros(target.size)
    residual, grown = np.where(usable, target, 0.0), False
    scaled = inverse * residual
    direction = scaled
    energy = first = least = float(np.dot(residual, scaled))
    for _ in range(MAX_CG_STEPS):
        check_time()
        if energy <= tolerance**2 * first or energy > DIVERGED_RATIO * first:
            break
        image = np.where(usable, times(direction), 0.0)
        curvature = float(np.dot(direction, image))
        if curvature <= 0.0:
            break
        solution = solution + energy / curvature * direction
        residual = residual - energy / curvature * image
        scaled = inverse * residual
        energy, last = float(np.dot(residual, scaled)), energy
        grown = grown or energy > GROWN_RATIO * least
        if grown and energy < least:
            residual = np.where(usable, target - times(solution), 0.0)
            scaled, grown = inverse * residual, False
            energy = float(np.dot(residual, scaled))
            if energy >= least:
                break
        if energy < least:
            best, least = solution, energy
        direction = scaled + energy / last * direction
    return best


def solve_separable(
    objective_at: Callable[[Array], ObjectiveAt], objective: ObjectiveAt, likelihood: PointwiseLoss
) -> tuple[Array, ObjectiveAt]:
    """Solve for effects that have entries of their own, until gradients vanish up to rounding.

    Newton's method for all at once, each kept inside the bracket that the signs of its gradients
    have shown so far, and bisecting that where steps do not halve. No values are compared, which
    are less exact than signs near the answer.
    """
    design = objective.design
    rounding = EPS * (4.0 + np.sqrt(np.max(design.counts, initial=1.0)))
    below, above = np.full(design.size, -np.inf), np.full(design.size, np.inf)
    reach = np.full(design.size, first_reach(likelihood))
    last = before = np.full(design.size, np.inf)
    for _ in range(MOST_STEPS):
        effects, total = objective.effects, objective.gradient
        moving = np.abs(total) > rounding * objective.sizes
        moving |= design.free & ~np.isfinite(objective.sizes)
        if not moving.any():
            return effects, objective
        below = np.where(total < 0.0, np.maximum(below, effects), below)
        above = np.where(total > 0.0, np.minimum(above, effects), above)
        squares = objective.second_of_squares
        stiffness = design.stiffness + (0.0 if squares is None else squares.diagonal)
        step = -total / (objective.sums.curvature.diagonal + stiffness)
        step = np.where(np.isfinite(step), step, -np.sign(total) * reach)
        step = np.clip(step, -reach, reach)
        middle = 0.5 * (below + above)
        proposed = effects + step
        rejected = (proposed < below) | (proposed > above) | (np.abs(step) > 0.5 * before)
        proposed = np.where(rejected & np.isfinite(middle), middle, proposed)
        before, last = last, np.abs(proposed - effects)
        # A move below the rounding of z + e changes nothing that can be seen.
        still = last <= 4.0 * EPS * (np.abs(effects) + objective.sums.reach)
        proposed = np.where(moving, proposed, effects)
        if np.all(still | ~moving):
            return proposed, objective
        unbounded = np.isinf(below) | np.isinf(above)
        reach = np.where(unbounded, np.minimum(2.0 * reach, 1.0 / TINY), reach)
        objective = objective_at(proposed)
    return objective.effects, objective


def first_reach(likelihood: PointwiseLoss) -> float:
    """The longest first step: on a quadratic Newton's is exact, on others it may overshoot."""
    if likelihood.quadratic:
        return 1.0 / TINY
    reach = MAX_FIRST_STEP if np.isfinite(likelihood.curvature) else 1.0
    return reach * float(likelihood.length_scale)


def centre_gradients(
    design: Any,
    ones: Any,
    gradient: Any,
    sums_of: Callable[[Any], tuple[Array, Array]],
    shift: Callable[[Any, Array], Any],
    squares: EffectSquares | None = None,
) -> Any:
    """Gradients moved by sums of effects until their sums vanish, refined until rounding ends it.

    ``ones`` is the curvature of weights of 1, ``sums_of`` has the sums of gradients over each
    effect, and of their sizes, ``shift`` adds effects to gradients. ``squares`` are those of
    dual matrices that change with the gradients.
    """
    sums, sizes = sums_of(gradient)
    floor = np.maximum(sizes, SMALL_GROUP_RATIO * float(np.max(sizes, initial=0.0)) + TINY)
    imbalance = float(np.max(np.abs(sums) / floor))
    for _ in range(REFINEMENTS):
        if imbalance <= 4.0 * EPS:
            break
        step = solve_newton_system(
            design, ones, -sums, max(EPS / imbalance, SUM_ROUNDING), None, squares
        )[0]
        shifted = shift(gradient, step)
        new_sums = sums_of(shifted)[0]
        new_imbalance = float(np.max(np.abs(new_sums) / floor))
        if new_imbalance >= imbalance:
            break
        gradient, sums, imbalance = shifted, new_sums, new_imbalance
    return gradient
