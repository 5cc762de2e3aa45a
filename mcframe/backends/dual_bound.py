"""The lower bound on the optimum that a dual point proves."""

from collections.abc import Callable

import attrs
import numpy as np
import scipy

from mcframe.compile import DualPoint, FactoredPenalty, RowPenalty
from mcframe.compile.entries import LARGEST_GRAM
from mcframe.contracts.rounding import DUAL_ROUNDING, EPS, SET_ROUNDING
from mcframe.contracts.term import Constraint, Factored
from mcframe.numerics.norms import norm_bound, norm_upper_bound, singular_value_bounds
from mcframe.numerics.operators import Dense, LowRank

# How often a scale is tried that brings a dual point into every domain at once.
ROUNDS = 6
# How much shorter still gradients are tried that rounding has left just outside of a domain.
SHORTER = (0.0, 1e-13, 1e-11, 1e-9, 1e-7)


@attrs.frozen
class Aim:
    """Accuracy that is asked of a bound; by default as close as can be.

    ``norm_excess`` is how far above a norm its bound may be, relatively, ``gap`` how far below the
    objective the bound that follows may be, as an absolute number.
    """

    norm_excess: float = 0.0
    gap: float = 0.0


@attrs.frozen(eq=False)
class MainRegularizer:
    """R*(-S) for the matrix S of one dual point, at any scale of it.

    Attributes
    ----------
    conjugate : function of a scale
        R*(-scale S), or an upper bound on it, up to ``rounding``.
    largest : float
        The largest scale up to 1 that is sure to make it finite.
    rounding : function of a scale
        Bound on how far rounding moves that, beyond that of a short sum.
    """

    conjugate: Callable[[float], float]
    largest: float = 1.0
    rounding: Callable[[float], float] = lambda scale: 0.0


def main_regularizer(point: DualPoint, latent: LowRank, aim: Aim) -> MainRegularizer:
    """The main regularizer of a dual point which comes from a candidate."""
    penalty = point.program.penalty
    if isinstance(penalty, FactoredPenalty):
        return of_factors(point, penalty.main, latent, aim)
    if isinstance(penalty, RowPenalty):
        return of_rows(point, penalty)
    return of_singular_values(point, aim.norm_excess)


def of_factors(point: DualPoint, term: Factored, latent: LowRank, aim: Aim) -> MainRegularizer:
    """The main regularizer of factors, with multipliers from those of the candidate."""
    matrix = point.matrix
    multipliers = term.bounding_multipliers(matrix, latent.balance(), aim.gap)
    return MainRegularizer(
        lambda scale: term.conjugate_from(-scale * matrix, scale * multipliers),
        term.feasible_scale(-matrix, multipliers),
    )


def of_singular_values(point: DualPoint, excess: float) -> MainRegularizer:
    """The main regularizer as a function of singular values.

    Where it is finite in a ball alone the norm is all that counts. Norms of matrices at hand are
    bounded by factorisations, of others and of very large ones by Lanczos steps, to a relative
    ``excess``.
    """
    penalty, largest = point.program.penalty, 1.0
    radius = penalty.dual_radius
    if np.isfinite(radius):
        norm = norm_of(point, radius, excess)
        bounds, largest = np.array([norm]), 1.0 if norm <= radius else radius / norm
    else:
        bounds = singular_value_bounds(point.matrix.dense())
    return MainRegularizer(lambda scale: penalty.conjugate(scale * bounds), largest)


def of_rows(point: DualPoint, penalty: RowPenalty) -> MainRegularizer:
    """A main regularizer that squares each row: finite at every scale, from some products of S.

    The conjugate of a sum is at most that of its parts at any two matrices with the same sum. So
    a ridge gets ``ridge * Z`` of the gradient, with the rows Z that are the best ones there, and
    no bound depends on how exactly these are known.
    """
    left, ridged, parted = -point.matrix.dense(), 0.0, 0.0
    if penalty.ridge:
        rows = penalty.squares.best_rows(left)
        own = penalty.ridge * rows
        ridged = float(np.vdot(own, own)) / (2.0 * penalty.ridge)
        left = left - own
        # The two parts have another sum by rounding, which counts as the rows are large.
        parted = EPS * float(np.vdot(np.abs(left), np.abs(rows)))
        parted += summed_rounding(ridged, own.size)
    taken = penalty.main.squares.dual(left)
    return MainRegularizer(
        lambda scale: taken.conjugate(scale) + scale**2 * ridged,
        rounding=lambda scale: taken.rounding(scale) + abs(scale) * parted,
    )


def norm_of(point: DualPoint, radius: float, excess: float) -> float:
    """An upper bound on ||S||_2, which need not be close where it is below the radius."""
    matrix = point.matrix
    n_rows, n_columns = matrix.shape
    if isinstance(matrix, Dense) and n_rows * n_columns * min(matrix.shape) <= LARGEST_GRAM:
        return norm_upper_bound(matrix.array)
    return norm_bound(matrix, radius, excess, point.program.entries.seed)


@attrs.frozen(eq=False)
class Bound:
    """A lower bound, and what it was lowered by for rounding.

    With the dual point it comes from, and what the main regularizer takes of it.
    """

    value: float
    rounding: float
    taken: float = 0.0
    point: DualPoint | None = None

    def room(self, length: float) -> float:
        """Bound on the change of the optimum where a Z of that length is only close to sets."""
        if self.point is None:
            return 0.0
        ball = isinstance(self.point.program.main, Constraint)
        own = SET_ROUNDING * abs(self.taken) if ball else 0.0
        return self.point.allowed_excess(length) + own


NO_BOUND = Bound(-np.inf, 0.0)


def fenchel_bound(point: DualPoint, latent: LowRank, aim: Aim) -> Bound:
    """The bound at the best feasible scale, lowered by what rounding may have added.

    Or at scale 0, where it is the infimum of all losses: the better one if the optimum is 0.
    ``latent`` is the candidate that the point comes from, ``aim`` how close a bound is wanted.
    """
    point = point.without_rounding()
    main = main_regularizer(point, latent, aim)
    nothing = bound_at(point, main, 0.0)
    scaled = scaled_bound(point, main)
    if not np.isfinite(scaled.value):
        scaled = bound_in_every_domain(point, main.largest, latent, aim)
    return scaled if scaled.value >= nothing.value else nothing


def scaled_bound(point: DualPoint, main: MainRegularizer) -> Bound:
    """The bound at the largest feasible scale, or with a ridge at the best one."""
    for shorter in SHORTER:
        reached = bound_at(point, main, main.largest * (1.0 - shorter))
        if np.isfinite(reached.value):
            break
    if not (point.program.penalty.smooth and np.isfinite(reached.value)):
        return reached
    # With a ridge every scale is feasible, and the bound is concave in it; 1 is exact at the
    # optimum.
    search = scipy.optimize.minimize_scalar(
        lambda scale: -bound_at(point, main, float(scale)).value,
        bounds=(0.0, 1.0),
        method="bounded",
    )
    shorter_point = bound_at(point, main, float(search.x))
    return reached if reached.value >= shorter_point.value else shorter_point


def bound_at(point: DualPoint, main: MainRegularizer, scale: float) -> Bound:
    """The bound from a scaled dual point and the main regularizer's unscaled matrix."""
    taken, rounding = main.conjugate(scale), main.rounding(scale)
    return bound_from_conjugates(point.multiple(scale), taken, rounding)


def bound_from_conjugates(point: DualPoint, taken: float, outside: float = 0.0) -> Bound:
    """The bound from the sum of all conjugates, less what rounding may have added.

    ``taken`` is that of the main regularizer, ``outside`` what its own rounding changes, and that
    the point lies outside of its domain by rounding.
    """
    conjugates, size = point.conjugates()
    rounding = summed_rounding(size + abs(taken), point.gradient.size) + outside
    return Bound(float(-conjugates - taken - rounding), rounding, taken, point)


def bound_in_every_domain(point: DualPoint, scale: float, latent: LowRank, aim: Aim) -> Bound:
    """The bound where scaling leaves the domain of a loss whose gradients do not reach 0.

    Moving back into that domain changes the main regularizer's matrix a little, so that the scale
    is sought in a few rounds; -inf if none is found. Beyond the main regularizer's domain by
    rounding it is a bound of a weight so much larger, which costs that share of the term at the
    candidate.
    """
    for _ in range(ROUNDS):
        repaired = point.repair(scale)
        found = main_regularizer(repaired, latent, aim)
        if found.largest >= 1.0 - DUAL_ROUNDING:
            beyond = (1.0 / found.largest - 1.0) * point.program.penalty.value(latent)
            outside = beyond + found.rounding(1.0)
            return bound_from_conjugates(repaired, found.conjugate(1.0), outside)
        scale -= 2.0 * (1.0 - found.largest) * scale if found.largest > 0.7 else 0.5 * scale
    return NO_BOUND


def summed_rounding(size: float, count: int) -> float:
    """Bound on the rounding of a sum of so many summands whose sizes add up to that."""
    return EPS * (8 + float(np.log2(count + 1))) * abs(size)
