"""The certificate: objective, lower bound by a dual point, and how exactly they are known."""

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
import scipy

from mcframe.compile import (
    BlockTerm,
    Evaluation,
    FactoredPenalty,
    FenchelConjugates,
    Program,
    RowPenalty,
    may_be_tapered,
    n_tapered_rows,
    scaling_costs,
    unexplained_gradients,
)
from mcframe.compile.loss import BlockEffects
from mcframe.contracts.arrays import Array
from mcframe.contracts.limits import MOST_OPERATIONS
from mcframe.contracts.rounding import DUAL_ROUNDING, EPS, SET_ROUNDING, SUM_ROUNDING
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Composed, Constraint, Factored
from mcframe.numerics.norms import (
    LEAST_EXCESS,
    Lanczos,
    bounds_excess,
    norm_bound_and_space,
    norm_upper_bound,
    singular_value_bounds,
)
from mcframe.numerics.operators import Dense, LowRank, Operator, orthogonal_factors
from mcframe.numerics.tapering import ScalingCosts, lower_directions
from mcframe.numerics.unlabeled import ImplicitLossAt
from mcframe.runtime.machine import OutOfTime


@stored(renamed_fields={"given": "effects", "known": "fenchel_conjugates"})
@attrs.frozen(eq=False)
class Dual:
    """The dual point of a solver with multipliers.

    A gradient for each number of the losses, a dual matrix for each term (None where the term's
    own gradient will do), and F* at the gradient for each loss that has no conjugate. ``effects``
    are those of the point: those of losses without a gradient cannot be solved for.
    """

    gradient: Array
    terms: tuple[Array | None, ...]
    effects: BlockEffects
    fenchel_conjugates: FenchelConjugates

    @classmethod
    def of(
        cls, program: Program, evaluation: Evaluation, terms: tuple[Array | None, ...]
    ) -> "Dual":
        """The gradients of an evaluation of the program, or of one made smooth.

        F* at the gradients of a loss without a conjugate is that of the same evaluation.
        """
        return cls(
            evaluation.entry_gradients,
            terms,
            evaluation.effects,
            program.fenchel_conjugates(evaluation, terms),
        )


@attrs.frozen(eq=False)
class DualPoint:
    """A gradient S for the losses and dual matrices Y_t of the terms.

    Unlabeled cells (``background``) have ``share`` times their gradient. A loss without a
    conjugate has F* at a gradient (``fenchel_conjugates``), and its part of S is ``share`` times
    that gradient.
    """

    program: Program
    gradient: Array
    terms: tuple[Array, ...]
    fenchel_conjugates: FenchelConjugates
    background: ImplicitLossAt
    share: float = 1.0
    finite: bool = True  # whether no loss overflowed

    @property
    def matrix(self) -> Operator:
        """S + sum of K_t' Y_t, minus which is the argument of R*."""
        pairs = zip(self.program.terms, self.terms, strict=True)
        blocks = [(term.columns, term.gradient_of(dual)) for term, dual in pairs]
        gradient = self.background.excess_gradients(self.gradient, self.share)
        return self.program.entries.matrix(gradient, blocks, self.background.gradients(self.share))

    def multiple(self, scale: float) -> "DualPoint":
        """The dual point times a scale."""
        if scale == 1.0:
            return self
        terms = tuple(scale * dual for dual in self.terms)
        share, gradient = scale * self.share, scale * self.gradient
        return attrs.evolve(self, gradient=gradient, terms=terms, share=share)

    def repair(self, scale: float) -> "DualPoint":
        """The scaled point moved into the domain of every conjugate but R*."""
        scaled = self.multiple(scale)
        terms = scaled.nearest_terms()
        gradient = nearest_gradient(self.program, scaled.gradient, terms)
        return attrs.evolve(scaled, gradient=gradient, terms=terms)

    def nearest_terms(self) -> tuple[Array, ...]:
        """The nearest dual matrices at which the terms' conjugates are finite."""
        pairs = zip(self.program.terms, self.terms, strict=True)
        return tuple(term.nearest_dual(dual) for term, dual in pairs)

    def without_main(self) -> "DualPoint":
        """A nearby point at which the argument of R* is as small as possible.

        Each term takes over what is left at its columns, as far as its domain allows, and the
        gradients of the losses become minus the sum of these. This is for a ball that the optimum
        does not touch: R* is 0 there, but any remainder would cost the radius of the ball.
        """
        terms, remainder = list(self.terms), self.matrix.dense()
        for k, term in enumerate(self.program.terms):
            if not isinstance(term.term, Composed):
                excess = term.scaled(remainder[:, term.columns], -1)
                terms[k] = term.nearest_dual(terms[k] - excess)
                remainder[:, term.columns] += term.gradient_of(terms[k] - self.terms[k])
        point = attrs.evolve(self, gradient=np.zeros(self.gradient.size), terms=tuple(terms))
        entries = self.program.entries
        target = entries.times_scales(-point.matrix.dense().ravel()[entries.flat], -1)
        return attrs.evolve(point, gradient=nearest_gradient(self.program, target, point.terms))

    def conjugates(self) -> tuple[float, float]:
        """F*(S) + sum of f_t*(Y_t), and the size of the summands.

        F* includes the conjugate of the free effects, which the dual matrices of terms of
        predictors take part in; see ``certify``.
        """
        sums = self.program.sums_of_terms(self.terms)
        total, size = self.program.loss.conjugate(
            self.gradient, self.share, self.fenchel_conjugates, sums
        )
        if not np.isfinite(total):  # what the others are does not matter
            return total, size
        for term, dual in zip(self.program.terms, self.terms, strict=True):
            value = term.conjugate(dual)
            total += value
            size += max(abs(value), term.conjugate_size(dual))
        unwritten, unsure = self.background.conjugate(self.share)
        return total + unwritten, size + unsure

    def allowed_excess(self, length: float, lengths_of_effects: Sequence[float]) -> float:
        """Bound on the objective error caused by the feasibility tolerance of the other sets.

        ``length`` is ||Z||_F of the candidate, ``lengths_of_effects`` those of what effects add to
        it in each term.
        """
        sets = 0.0
        triples = zip(self.program.terms, self.terms, lengths_of_effects, strict=True)
        for block_term, dual, added in triples:
            if isinstance(block_term.term, Constraint):
                sets += block_term.term.feasibility_tolerance(
                    dual, block_term.largest_factor * length + added
                )
        return sets + self.program.loss.allowed_excess(self.gradient)


def dual_point(program: Program, evaluation: Evaluation, dual: Dual | None) -> DualPoint:
    """The dual point of an evaluated candidate: its own gradients, or the solver's duals.

    Sums of gradients over free effects are made 0 up to rounding. The dual matrix of a nonsmooth
    term without a known dual is 0.
    """
    duals: tuple[Any, ...] = (None,) * len(program.terms) if dual is None else dual.terms
    triples = zip(program.terms, duals, evaluation.duals, strict=True)
    terms = tuple(dual_matrix(*triple, evaluation) for triple in triples)
    gradient = evaluation.entry_gradients
    conjugates: FenchelConjugates = ()
    if dual is not None:
        gradient, conjugates = dual.gradient, dual.fenchel_conjugates
    of_evaluation = dual is None and program.loss.convex
    if of_evaluation:
        program.loss.ask_ahead(gradient)
    finite = program.entries.finite(gradient)
    if finite:
        if of_evaluation:
            conjugates = program.fenchel_conjugates(evaluation, terms)
        gradient, terms = program.centred(gradient, terms)
    return DualPoint(program, gradient, terms, conjugates, evaluation.background, finite=finite)


def nearest_gradient(program: Program, gradient: Array, terms: Sequence[Array]) -> Array:
    """The nearest gradients with finite conjugates, whose sums with those of terms vanish."""
    if not program.terms_of_block:
        return program.loss.nearest_gradient(gradient)
    return program.loss.nearest_gradient(gradient, program.duals_by_block(terms))


def dual_matrix(
    term: BlockTerm, solver_dual: Array | None, gradient_dual: Array | None, evaluation: Evaluation
) -> Array:
    """The dual matrix of the solver for a term, else the gradient of the term, else 0."""
    if solver_dual is not None:
        return solver_dual
    if gradient_dual is not None:
        return gradient_dual
    return np.zeros_like(term.forward(evaluation.iterate.columns(term.columns)))


# The most scales that are tried to bring a dual point into every domain at once.
MAX_REPAIRS = 6
# Relative reductions of the scale, tried in turn where rounding left the point outside a domain.
SCALE_REDUCTIONS = (0.0, 1e-13, 1e-11, 1e-9, 1e-7)


@attrs.frozen
class BoundAccuracy:
    """The accuracy wanted of a bound; by default the highest.

    ``norm_excess`` is the relative amount by which the bound on a norm may lie above the norm,
    ``gap`` the absolute amount by which the lower bound may lie below the objective.
    """

    norm_excess: float = 0.0
    gap: float = 0.0


@attrs.frozen(eq=False)
class MainConjugate:
    """The conjugate of the main regularizer at -S, for the matrix S of a dual point and any scale.

    Attributes
    ----------
    conjugate : function of a scale
        R*(-scale S) or an upper bound on it, up to ``rounding``.
    largest : float
        The largest scale up to 1 at which R* is sure to be finite.
    rounding : function of a scale
        Bound on how far rounding moves that, beyond that of a short sum.
    excess : float
        The relative amount by which the norm that limits the scale may be too large.
    space : Lanczos or None
        The Krylov space by which that norm was bounded, if one was needed.
    """

    conjugate: Callable[[float], float]
    largest: float = 1.0
    rounding: Callable[[float], float] = lambda scale: 0.0
    excess: float = 0.0
    space: Lanczos | None = None


def main_conjugate(point: DualPoint, latent: LowRank, accuracy: BoundAccuracy) -> MainConjugate:
    """R* at the dual point of a candidate, whose Z is ``latent``."""
    penalty = point.program.penalty
    if isinstance(penalty, FactoredPenalty):
        return of_factors(point, penalty.main, latent, accuracy)
    if isinstance(penalty, RowPenalty):
        return of_rows(point, penalty)
    return of_singular_values(point, accuracy.norm_excess)


def of_factors(
    point: DualPoint, term: Factored, latent: LowRank, accuracy: BoundAccuracy
) -> MainConjugate:
    """R* of a function of factors, with multipliers from those of the candidate."""
    matrix = point.matrix
    multipliers = term.bounding_multipliers(matrix, latent.balance(), accuracy.gap)
    return MainConjugate(
        lambda scale: term.conjugate_from(-scale * matrix, scale * multipliers),
        term.feasible_scale(-matrix, multipliers),
    )


def of_singular_values(point: DualPoint, excess: float) -> MainConjugate:
    """R* of a function of singular values.

    If R* is finite in a ball alone, only the spectral norm counts. It is bounded by a
    factorisation if the matrix is written out and not very large, otherwise by Lanczos steps, to
    a relative ``excess``.
    """
    penalty, largest, space = point.program.spectral, 1.0, None
    radius = penalty.dual_radius
    if np.isfinite(radius):
        norm, rounding_excess, space = norm_of(point, radius, excess)
        bounds, largest = np.array([norm]), 1.0 if norm <= radius else radius / norm
    else:
        dense = point.matrix.dense()
        bounds = singular_value_bounds(dense)
        rounding_excess = bounds_excess(dense, float(np.max(bounds, initial=0.0)))
    return MainConjugate(
        lambda scale: penalty.conjugate(scale * bounds),
        largest,
        excess=rounding_excess,
        space=space,
    )


def of_rows(point: DualPoint, penalty: RowPenalty) -> MainConjugate:
    """R* of a square of each row, which is finite at every scale.

    The conjugate of a sum at S is at most the sum of the conjugates at any two matrices whose sum
    is S. At the best rows Z for S these are the gradient of the main regularizer and
    ``ridge * Z``. In each column the part that moves less with Z is computed from Z, and the other
    is what is left of S: a difference of rounded rows has few digits, above all times a large
    weight. The bound holds for any Z.
    """
    main_part, ridge_conjugate, split_rounding = -point.matrix.dense(), 0.0, 0.0
    if penalty.ridge:
        rows = penalty.squares.best_rows(main_part)
        squares = penalty.main.squares
        flat = np.sqrt(penalty.ridge) * squares.spreads > 1.0
        gradient, ridge_part = squares.gradient(rows), penalty.ridge * rows
        ridge_part = np.where(flat, main_part - gradient, ridge_part)
        ridge_conjugate = float(np.vdot(ridge_part, ridge_part)) / (2.0 * penalty.ridge)
        main_part = np.where(flat, gradient, main_part - ridge_part)
        # The two parts have another sum by rounding, which counts as the rows are large.
        split_rounding = EPS * float(np.vdot(np.abs(main_part), np.abs(rows)))
        split_rounding += summed_rounding(ridge_conjugate, ridge_part.size)
    dual = penalty.main.squares.dual(main_part)
    return MainConjugate(
        lambda scale: dual.conjugate(scale) + scale**2 * ridge_conjugate,
        rounding=lambda scale: dual.rounding(scale) + abs(scale) * split_rounding,
    )


def norm_of(point: DualPoint, radius: float, excess: float) -> tuple[float, float, Lanczos | None]:
    """An upper bound on ||S||_2, its relative excess by rounding, and its Krylov space if any.

    The bound need not be close where it is below the radius.
    """
    matrix = point.matrix
    n_rows, n_columns = matrix.shape
    if isinstance(matrix, Dense) and n_rows * n_columns * min(matrix.shape) <= MOST_OPERATIONS:
        norm = norm_upper_bound(matrix.array)
        return norm, bounds_excess(matrix.array, norm), None
    norm, space = norm_bound_and_space(matrix, radius, excess, point.program.entries.seed)
    return norm, NORM_ERROR, space


@attrs.frozen(eq=False)
class Bound:
    """A lower bound, and the amount by which it was lowered for rounding.

    ``scale`` times ``point`` is the dual point that gave it, and ``main_conjugate`` the value of
    R* there. It is multiplied out where it is asked for alone, since it is as large as the data.
    ``excess`` is the relative amount by which the norm that limits the scale of the point may be
    too large, and ``space`` the Krylov space by which this norm was bounded.
    """

    value: float
    rounding: float
    main_conjugate: float = 0.0
    point: DualPoint | None = None
    scale: float = 1.0
    excess: float = 0.0
    space: Lanczos | None = None

    @property
    def dual(self) -> DualPoint | None:
        """The dual point that gave the bound."""
        return None if self.point is None else self.point.multiple(self.scale)

    def infeasibility(self, length: float, lengths_of_effects: Sequence[float]) -> float:
        """Bound on the change of the optimum by a Z of that length that is close to its sets.

        Effects add matrices of some lengths to it in each term.
        """
        dual = self.dual
        if dual is None:
            return 0.0
        ball = isinstance(dual.program.main, Constraint)
        ball_error = SET_ROUNDING * abs(self.main_conjugate) if ball else 0.0
        return dual.allowed_excess(length, lengths_of_effects) + ball_error


NO_BOUND = Bound(-np.inf, 0.0)


def fenchel_bound(point: DualPoint, latent: LowRank, accuracy: BoundAccuracy) -> Bound:
    """The bound at the best feasible scale, lowered by what rounding may have added.

    Or the bound at scale 0, the infimum of all losses, if that is higher, as where the optimum is
    0. ``latent`` is the Z of the candidate that the point comes from.
    """
    # What rounding left just outside of a domain is moved in.
    clipped = point.program.loss.clip(point.gradient)
    point = attrs.evolve(point, gradient=clipped, terms=point.nearest_terms())
    main = main_conjugate(point, latent, accuracy)
    at_scale_zero = bound_at(point, main, 0.0)
    scaled = scaled_bound(point, main)
    if not np.isfinite(scaled.value):
        scaled = bound_in_every_domain(point, main.largest, latent, accuracy)
    best = scaled if scaled.value >= at_scale_zero.value else at_scale_zero
    return attrs.evolve(best, excess=main.excess, space=main.space)


def scaled_bound(point: DualPoint, main: MainConjugate) -> Bound:
    """The bound at the largest feasible scale, or with a ridge at the best one."""
    for reduction in SCALE_REDUCTIONS:
        at_largest_scale = bound_at(point, main, main.largest * (1.0 - reduction))
        if np.isfinite(at_largest_scale.value):
            break
    if not (point.program.penalty.smooth and np.isfinite(at_largest_scale.value)):
        return at_largest_scale
    # With a ridge every scale is feasible, and the bound is concave in it; 1 is exact at the
    # optimum.
    search = scipy.optimize.minimize_scalar(
        lambda scale: -bound_at(point, main, float(scale)).value,
        bounds=(0.0, 1.0),
        method="bounded",
    )
    at_best_scale = bound_at(point, main, float(search.x))
    return at_largest_scale if at_largest_scale.value >= at_best_scale.value else at_best_scale


def bound_at(point: DualPoint, main: MainConjugate, scale: float) -> Bound:
    """The bound from a scaled dual point."""
    conjugate, rounding = main.conjugate(scale), main.rounding(scale)
    bound = bound_from_conjugates(point.multiple(scale), conjugate, rounding)
    return attrs.evolve(bound, point=point, scale=scale)


def bound_from_conjugates(
    point: DualPoint, main_conjugate: float, extra_error: float = 0.0
) -> Bound:
    """Minus the sum of all conjugates, less what rounding may have added.

    ``main_conjugate`` is R*, ``extra_error`` the effect of its own rounding, and of a point that
    rounding left outside of its domain.
    """
    conjugates, size = point.conjugates()
    rounding = summed_rounding(size + abs(main_conjugate), point.gradient.size) + extra_error
    return Bound(float(-conjugates - main_conjugate - rounding), rounding, main_conjugate, point)


def bound_in_every_domain(
    point: DualPoint, scale: float, latent: LowRank, accuracy: BoundAccuracy
) -> Bound:
    """The bound where scaling leaves the domain of a loss whose gradients do not reach 0.

    Moving back into that domain changes the argument of R*, so the scale is found in a few rounds;
    -inf if none is found. If the argument is outside of the domain of R* by rounding, this is the
    bound of a problem with a slightly larger weight, and is lowered by that share of R at the
    candidate.
    """
    for _ in range(MAX_REPAIRS):
        repaired = point.repair(scale)
        conjugate = main_conjugate(repaired, latent, accuracy)
        if conjugate.largest >= 1.0 - DUAL_ROUNDING:
            domain_error = (1.0 / conjugate.largest - 1.0) * point.program.penalty.value(latent)
            extra_error = domain_error + conjugate.rounding(1.0)
            return bound_from_conjugates(repaired, conjugate.conjugate(1.0), extra_error)
        scale -= (
            2.0 * (1.0 - conjugate.largest) * scale if conjugate.largest > 0.7 else 0.5 * scale
        )
    return NO_BOUND


def summed_rounding(size: float, count: int) -> float:
    """Bound on the rounding of a sum of ``count`` numbers whose sizes sum to ``size``."""
    return EPS * (8 + float(np.log2(count + 1))) * abs(size)


# The bound on a norm may exceed the norm by this share of the tolerance, and by this share of the
# relative excess that still leaves the gap within the tolerance.
NORM_ERROR_SHARE, SHARE_OF_EXCESS = 0.1, 0.2
# The relative error of norms of gradients that are known by their products, rounding included.
NORM_ERROR = 1.25 * LEAST_EXCESS
# The share of the tolerance that is left to norms: rounding and estimates take the rest.
NORM_SHARE_OF_TOL = 0.9


@stored(
    renamed_fields={
        "moved": "total",
        "nothing": "zero_below",
        "resolved": "resolution",
        "room": "infeasibility",
        "bound": "of_bound",
    }
)
@attrs.frozen(eq=False)
class Rounding:
    """Errors of objective and bound in double precision, all as absolute numbers.

    Attributes
    ----------
    total : float
        Bound on the rounding error of their difference at the candidate.
    zero_below : float
        An objective of at most this counts as 0. It is above 0 only if the main regularizer is 0,
        the other terms are below 1e-12 of their values at Z = 0, and the losses of every column
        are below 1e-12 of those at the best constant (1e-9 for losses with kinks). If a constant
        fits a column exactly, predictors may be off by 1e-9 of their unit instead.
    resolution : float
        The gap that may remain for two reasons: singular vectors give each entry of Z only up to
        the rounding of the whole Z; and the norm of a gradient is bounded up to its rounding, of a
        sparse one up to a relative 1e-9, which lowers the bound by that share of the main
        regularizer.
    infeasibility : float
        Bound on the change of the optimum by the feasibility tolerance of constraints, 1e-9 of
        their size.
    of_bound : float
        The part of ``total`` that belongs to the bound.
    """

    total: float = 0.0
    zero_below: float = 0.0
    resolution: float = 0.0
    infeasibility: float = 0.0
    of_bound: float = 0.0

    def with_bound_of(self, other: "Rounding") -> "Rounding":
        """The rounding of this objective and of a bound that comes from another point.

        If this point has no bound, its rounding is infinite, and that of the other point is taken.
        """
        errors = self if np.isfinite(self.of_bound) else other
        if not np.isfinite(errors.of_bound):  # neither has a bound
            return self
        total = errors.total - errors.of_bound + other.of_bound
        infeasibility = max(self.infeasibility, other.infeasibility)
        return attrs.evolve(
            self, total=total, infeasibility=infeasibility, of_bound=other.of_bound
        )


@stored
@attrs.frozen(eq=False)
class Point:
    """A feasible Z in factors, with the dual that a solver knows.

    ``warm`` are effects of each block at Z or nearby, from which their exact solution starts.
    """

    latent: LowRank
    dual: Dual | None = None
    warm: tuple[Array | None, ...] | None = None


@attrs.frozen(eq=False)
class Certificate:
    """Objective and lower bound of a candidate, and the effects that go with them."""

    objective: float
    bound: float
    effects: dict[str, Array]
    rounding: Rounding = attrs.field(factory=Rounding)

    @property
    def gap(self) -> float:
        """The relative gap."""
        return relative_gap(self.objective, self.bound, self.rounding)


def relative_gap(objective: float, bound: float, rounding: Rounding | None = None) -> float:
    """|objective - bound| / max(|objective|, |bound|).

    At least the rounding error of the difference, up to 1, since a smaller difference proves
    nothing. 0 if the objective and the bound are both 0 up to rounding.
    """
    errors = Rounding() if rounding is None else rounding
    difference = abs(objective - bound)
    if not np.isfinite(difference):
        return np.inf
    size = max(abs(objective), abs(bound))
    if size <= errors.zero_below:
        return 0.0
    return float(max(difference / size, min(errors.total / size, 1.0)))


def best_of(candidates: Sequence[tuple[Point, Certificate]]) -> tuple[Point, Certificate]:
    """The point with the lowest objective, and its certificate with the highest bound of all."""
    point, best = min(candidates, key=lambda pair: pair[1].objective)
    highest = max((certificate for _, certificate in candidates), key=lambda c: c.bound)
    rounding = best.rounding.with_bound_of(highest.rounding)
    return point, attrs.evolve(best, bound=highest.bound, rounding=rounding)


@attrs.frozen(eq=False)
class PrimalValues:
    """The values of all losses and terms of a program at a candidate."""

    program: Program
    candidate: Point
    evaluation: Evaluation  # of the losses and the smooth terms at the candidate
    main: float  # the value of the main regularizer
    term_values: tuple[float, ...]  # of the others
    rounding: Any  # a bound on the change of the losses by rounding of predictors
    resolution: Any  # a bound on their change by the rounding of Z itself

    @classmethod
    def of(cls, program: Program, candidate: Point) -> "PrimalValues":
        """Losses and terms at a candidate, effects solved for where they can be."""
        latent: LowRank = candidate.latent
        fixed = None if candidate.dual is None else candidate.dual.effects
        evaluation, main = (
            program.evaluate(latent, candidate.warm, fixed),
            program.penalty.value(latent),
        )
        term_values = tuple(
            value
            if term.smooth
            else term.value(evaluation.iterate.columns(term.columns), evaluation.effects)
            for term, value in zip(program.terms, evaluation.values, strict=True)
        )
        # Of rows in partitions these come with the round that is asked next.
        loss, gradients = program.loss, evaluation.entry_gradients
        rounding = loss.rounding(evaluation.iterate.z, evaluation.effects, gradients)
        mixed = program.penalty.mixes_columns
        rounding_of_entries = EPS * latent.length * evaluation.entries.largest_scale
        resolution = loss.moved_by(rounding_of_entries, gradients) if mixed else 0.0
        return cls(program, candidate, evaluation, main, term_values, rounding, resolution)

    @property
    def objective(self) -> float:
        """Losses and terms."""
        return self.evaluation.losses + self.main + sum(self.term_values)

    @property
    def vanishes(self) -> bool:
        """True where all losses and terms are negligible relative to their values elsewhere.

        Never under a square of each row, whose minimum may be at any distance from Z = 0.
        """
        if isinstance(self.program.penalty, RowPenalty):
            return False
        # R at a Z of equal entries of the size of predictors, which is 0 if all data are 0.
        unit, ones = self.program.loss.unit, [np.ones((n, 1)) for n in self.program.shape]
        elsewhere = self.program.penalty.value(LowRank(unit * ones[0], ones[1]))
        if self.evaluation.background or self.main > SUM_ROUNDING * elsewhere:
            return False
        for term, value in zip(self.program.terms, self.term_values, strict=True):
            if value > SUM_ROUNDING * term.value(np.zeros((self.program.shape[0], term.width))):
                return False
        return self.program.loss.vanishes(self.evaluation.iterate.z, self.evaluation.effects)

    def certificate(self, bound: Bound, extra_error: float = 0.0) -> Certificate:
        """The objective with a bound, and the rounding of both."""
        evaluation, length = self.evaluation, self.candidate.latent.length
        lowered_by = bound.rounding + extra_error
        total = float(self.rounding) + lowered_by
        total += summed_rounding(self.objective, evaluation.entries.size)
        total += self.program.penalty.rounding(self.candidate.latent)
        for block_term in self.program.terms:
            total += block_term.rounding(
                evaluation.iterate.columns(block_term.columns), evaluation.effects
            )
        resolution = float(self.resolution)
        resolution += bound.excess * self.main  # the cost of scaling the gradient down by as much
        # A bound that is not close to 0 proves that the optimum is not 0.
        small = bound.value <= 0.5 * self.objective
        zero_below = self.objective + total if small and self.vanishes else 0.0
        shape = self.program.shape
        added = [
            term.added(evaluation.effects, (shape[0], term.width)) for term in self.program.terms
        ]
        infeasibility = bound.infeasibility(
            length, [float(np.linalg.norm(matrix)) for matrix in added]
        )
        rounding = Rounding(total, zero_below, resolution, infeasibility, lowered_by)
        return Certificate(
            self.objective,
            bound.value,
            self.program.effects_by_block(evaluation.effects),
            rounding,
        )


def certify(program: Program, candidate: Point, tol: float = 0.0) -> Certificate:
    """The objective at a candidate, and a lower bound on the optimum from the gradients there.

    F is the sum of the losses, f_t are the terms, R is the main regularizer, and stars are convex
    conjugates. By weak duality (Fenchel),

        optimum >= -F*(S) - sum of f_t*(Y_t) - R*(-(S + sum of Y_t))

    for every matrix S of gradients and dual matrices Y_t of the terms. Where an effect is free,
    the sum of S over its entries has to vanish. S and all Y_t are multiplied by one scale of at
    most 1, such that R* is finite.

    Terms of predictors, as a calibration, are functions of Z + E e, where E e adds the free
    effects e to all cells of a block, as G e adds them to its entries z, which have the losses L.
    For any S and Y_t, the optimum over Z and e is at least

        min over Z, e of <S, z + G e> - L*(S) + sum of (<Y_t, Z + E_t e> - f_t*(Y_t)) + r(e) + R(Z)
            = -L*(S) - sum of f_t*(Y_t) - r*(-(G'S + sum of E_t'Y_t)) - R*(-(S + sum of Y_t)),

    with E_t = 0 where a term is one of Z alone, and r the ridge on effects. Without a ridge the
    bound is finite only where ``G'S + sum of E_t'Y_t = 0``: the sums of gradients over the entries
    of each effect, plus the sums of the dual matrices over its cells. Of the equations A P = B a
    dual matrix is Y = A'M with multipliers M, and E'Y = (A E)'M: the multipliers are part of the
    sums. F* above stands for L* and r* together; where L has no conjugate, both are known at the
    gradients of a point whose effects are the best ones there.

    ``tol`` is the relative gap that suffices: norms that take many products are bounded only as
    exactly as that needs. With 0 they are bounded as exactly as possible.
    """
    primal = PrimalValues.of(program, candidate)
    evaluation, dual = primal.evaluation, candidate.dual
    point = dual_point(program, evaluation, dual)
    if not point.finite:  # a loss overflowed: nothing is known here
        return Certificate(np.inf, -np.inf, program.effects_by_block(evaluation.effects))
    if not program.loss.convex:
        return primal.certificate(NO_BOUND)
    try:
        return primal.certificate(*bound_of(primal, point, tol))
    except OutOfTime:  # the point is not lost with its bound
        return primal.certificate(NO_BOUND)


def bound_of(primal: PrimalValues, point: DualPoint, tol: float) -> tuple[Bound, float]:
    """The bound of a candidate's dual point, and the error of sums that are not exactly 0.

    Norms are as exact as ``tol`` needs.
    """
    program, candidate, objective = primal.program, primal.candidate, primal.objective
    norm_excess = NORM_ERROR_SHARE * tol
    sparse = program.entries.sparse and tol > 0.0
    if sparse:  # whose norms take many products
        norm_excess = max(norm_excess, SHARE_OF_EXCESS * allowed_norm_excess(primal, point, tol))
    accuracy = BoundAccuracy(norm_excess, tol * abs(objective) if np.isfinite(objective) else 0.0)
    bound = higher_of(NO_BOUND, fenchel_bound(point, candidate.latent, accuracy))
    if sparse and candidate.dual is None and may_be_tapered(program):
        bound = tapered_bound(primal, point, bound, accuracy, tol)
    in_a_ball = isinstance(program.main, Constraint)
    gradients_fixed = point.background or any(
        conjugate is not None for conjugate in point.fenchel_conjugates
    )
    # Whether gradients may be changed entry by entry, and their matrix is written out.
    gradients_free = not (program.entries.sparse or gradients_fixed)
    if in_a_ball and gradients_free and objective - bound.value > accuracy.gap:
        point_without_main = point.without_main()
        # R* of a ball is at least 0, so the bound is at most minus the other conjugates.
        if -point_without_main.conjugates()[0] > bound.value:
            bound = higher_of(bound, fenchel_bound(point_without_main, candidate.latent, accuracy))
    # A point that was moved into all domains has other sums: take the one that gave the bound.
    dual = bound.dual or point
    sums = program.sums_of_terms(dual.terms)
    return bound, program.loss.imbalance(dual.gradient, primal.evaluation.effects, sums)


def higher_of(bound: Bound, other: Bound) -> Bound:
    """The higher of two bounds: the second if they are equal, the first if that is NaN."""
    return other if other.value >= bound.value else bound


def spare_gap(objective: float, conjugates: float, tol: float) -> float:
    """The part of a gap of ``tol`` that is left for the scaling of a dual point.

    ``conjugates`` are those of the losses and of all terms but the main regularizer, which is 0
    within its ball. Of a point outside of the ball their negative sum may lie above the objective.
    """
    size = max(abs(objective), abs(conjugates))
    return NORM_SHARE_OF_TOL * tol * size - (objective + conjugates)


def allowed_norm_excess(primal: PrimalValues, point: DualPoint, tol: float) -> float:
    """The relative amount by which the bound on the gradient's norm may exceed the norm.

    The gap is then at most ``tol`` after the gradient is scaled down. If the other conjugates
    alone leave a larger gap, half of that gap is allowed, since more exact norms would not help.
    Scaling a gradient S at Z by 1 - a costs about a R(Z), as -<S, Z> = R(Z) at the optimum, and
    a^2 times the size of the objective.
    """
    conjugates = point.conjugates()[0]
    size = max(abs(primal.objective), abs(conjugates))
    rest = abs(primal.objective + conjugates)
    spare = max(spare_gap(primal.objective, conjugates, tol), 0.5 * rest)
    if not np.isfinite(spare) or size == 0.0:
        return 0.0
    linear = abs(primal.main)
    return float(2.0 * spare / (linear + np.sqrt(linear**2 + 4.0 * size * spare)))


# The most times that rows and columns are scaled anew, the most directions that they are scaled
# for, and how many more of the nearest singular vectors are watched meanwhile.
MAX_TAPERINGS, MAX_TAPERED_DIRECTIONS, EXTRA_SINGULAR_VECTORS = 4, 24, 16
# The Lanczos steps after which these vectors are exact enough.
TAPERING_LANCZOS_STEPS = 80
# A gap this much larger than what suffices, relative to the objective, is left as it is: the
# gradient is too long by more than shortening rows and columns gains.
MAX_TAPERED_GAP = 0.1
# Columns of Z with singular values up to this share of the largest are not yet at their length
# for long: what they explain may be shortened, too.
EXPLAINING_COLUMN_RATIO = 0.1
# The share of the allowed excess of a norm that singular values are lowered to.
TAPERED_EXCESS_SHARE = 0.5


def tapered_bound(
    primal: PrimalValues, point: DualPoint, bound: Bound, accuracy: BoundAccuracy, tol: float
) -> Bound:
    """The bound of the dual point with some rows and columns of its gradient shortened.

    It is computed only where that is predicted to pay: where the gradient is too long in few
    directions, and the rows and columns on which these lie are cheap to shorten. Where shares
    of all of them cost too much, shares of what the factors of Z do not explain are taken off,
    too: that costs the second order of the change alone, but leaves the directions of Z as they
    are. The directions are those of the Krylov space by which the norm was bounded, so that a
    prediction costs a few products. Otherwise the given bound is returned.
    """
    program, latent = primal.program, primal.candidate.latent
    radius, matrix, entries = program.penalty.dual_radius, point.matrix, program.entries
    space, objective = bound.space, primal.objective
    excess = TAPERED_EXCESS_SHARE * allowed_norm_excess(primal, point, tol)
    spare = spare_gap(objective, point.conjugates()[0], tol)
    directions: Array = np.zeros((matrix.shape[1], 0))
    parts: list[tuple[Any, Any]] = [(point.gradient, point.gradient)]  # that are taken off
    n_rows = n_tapered_rows(program)
    n_shares = n_rows + matrix.shape[1]
    shares: Array = np.zeros((1, n_shares))
    measured: Any = None

    def measure() -> tuple[ScalingCosts, list[tuple[Operator, Operator]]]:
        """The costs of shares of all parts, and the matrices of these."""
        operators = [(entries.matrix(rows), entries.matrix(columns)) for rows, columns in parts]
        operators[0] = matrix, matrix
        return scaling_costs(program, primal.evaluation, parts), operators

    def less(shares: Array) -> Any:
        """The gradient less these shares of all parts."""
        rows_and_columns = np.split(shares.T, [n_rows])
        return entries.less(point.gradient, parts, *rows_and_columns)

    def shorten() -> tuple[Array, float]:
        """More shares, and what they and scaling what is too long still are predicted to cost."""
        costs, operators = measured
        return lower_directions(
            lambda shares: entries.matrix(less(shares)),
            operators,
            directions,
            shares,
            radius,
            excess,
            costs,
            primal.main,
            spare,
        )

    for _ in range(MAX_TAPERINGS):
        missing = objective - bound.value - accuracy.gap  # to what suffices
        if space is None or spare <= 0.0:
            break
        if not 0.0 < missing <= MAX_TAPERED_GAP * abs(objective):
            break
        n_long = int(np.count_nonzero(np.sqrt(space.ritz()[0]) > radius * (1.0 + excess)))
        if not 0 < n_long <= MAX_TAPERED_DIRECTIONS:
            break
        space.advance(max(TAPERING_LANCZOS_STEPS - space.steps, 0))
        fresh = space.leading(n_long + EXTRA_SINGULAR_VECTORS)[2]
        directions = np.hstack([directions, fresh])
        measured = measured or measure()
        shorter, cost = shorten()
        if cost > spare and len(parts) == 1:
            left, values, right = orthogonal_factors(latent.left, latent.right)
            large = values > EXPLAINING_COLUMN_RATIO * np.max(values, initial=0.0)
            explaining = LowRank(left[:, large], right[:, large])
            parts.append(unexplained_gradients(program, primal.evaluation, explaining))
            shares, measured = np.zeros((2, n_shares)), measure()
            shorter, _ = shorten()
        if shorter is shares:
            break
        shares = shorter
        tapered = fenchel_bound(attrs.evolve(point, gradient=less(shares)), latent, accuracy)
        space, bound = tapered.space, higher_of(bound, tapered)
    return bound


def uncertified(program: Program, candidate: Point) -> Certificate:
    """The objective at a candidate, without a bound."""
    return PrimalValues.of(program, candidate).certificate(NO_BOUND)


def at_zero(program: Program) -> tuple[Point, Certificate] | None:
    """Z = 0 with its objective and no bound; None where the objective is infinite or unknown.

    It is unknown if a loss without a gradient has effects, which cannot be solved for.
    """
    if any(p.effects.size and not p.likelihood.smooth for p in program.loss.block_losses):
        return None
    point = Point(LowRank.zeros(program.shape))
    with np.errstate(over="ignore", invalid="ignore"):
        certificate = uncertified(program, point)
    return (point, certificate) if np.isfinite(certificate.objective) else None
