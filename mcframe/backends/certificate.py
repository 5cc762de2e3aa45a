"""The certificate: objective and lower bound of a candidate, and how exactly they are known."""

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.backends.dual_bound import (
    NO_BOUND,
    Aim,
    Bound,
    fenchel_bound,
    summed_rounding,
)
from mcframe.compile import (
    Dual,
    DualPoint,
    Evaluation,
    Program,
    RowPenalty,
    dual_point,
)
from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS
from mcframe.contracts.solver import Candidate
from mcframe.contracts.term import Constraint
from mcframe.numerics.machine import OutOfTime
from mcframe.numerics.norms import NEAREST
from mcframe.numerics.operators import LowRank

# The relative excess allowed of the bound on a norm: this share of the gap asked for in any case,
# and this share of the excess that leaves the gap as small as that.
SHARE_OF_GAP, SHARE_OF_EXCESS = 0.1, 0.2
# The relative error of norms of gradients that are known by their products, rounding included.
NORM_ERROR = 1.25 * NEAREST
# The share of the gap asked for that is left to norms: rounding and estimates take the rest.
SURE = 0.9
# Terms below this share of their value at Z = 0 are 0.
NOTHING = 1e-12


@attrs.frozen(eq=False)
class Rounding:
    """Errors of objective and bound in double precision, all as absolute numbers.

    Attributes
    ----------
    moved : float
        Bound on the rounding error of their difference at the candidate.
    nothing : float
        An objective up to this is 0: its losses are in every column below 1e-12 of what one
        constant costs there (losses with kinks, which grow as residuals do, below 1e-9; where
        one constant fits a column whole, predictors are off by 1e-9 of their unit), its terms
        below 1e-12 of theirs at Z = 0, and the main regularizer 0.
    resolved : float
        The gap that may remain because singular vectors give each entry of Z up to the rounding
        of the whole Z only; and because the norm of a sparse gradient is bounded up to a relative
        1e-9, which costs the bound that share of the main regularizer.
    room : float
        Bound on the change of the optimum where sets count as met up to 1e-9 of their size.
    bound : float
        The part of ``moved`` that is the bound's.
    """

    moved: float = 0.0
    nothing: float = 0.0
    resolved: float = 0.0
    room: float = 0.0
    bound: float = 0.0

    def with_bound_of(self, other: "Rounding") -> "Rounding":
        """The rounding of this objective and a bound that comes from another point.

        Where there is no bound at this point, its rounding infinite, that of the objective is
        taken from the other one.
        """
        known = self if np.isfinite(self.bound) else other
        if not np.isfinite(known.bound):  # neither has a bound
            return self
        moved, room = known.moved - known.bound + other.bound, max(self.room, other.room)
        return attrs.evolve(self, moved=moved, room=room, bound=other.bound)


@attrs.frozen(eq=False)
class Point:
    """A feasible Z in factors, and what is known of the dual of nonsmooth parts: a ``Candidate``.

    ``warm`` are the effects of each block at Z or nearby, where a solver knows them: the start of
    their solution.
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
    """|objective - bound| / max(|objective|, |bound|), the most that it can be.

    Never below what rounding may have moved them against each other by, up to 1: a difference
    smaller than its rounding error proves nothing. 0 where the objective is a sum of residuals
    that are rounding errors, and the bound is no farther from 0.
    """
    known = Rounding() if rounding is None else rounding
    difference = abs(objective - bound)
    if not np.isfinite(difference):
        return np.inf
    size = max(abs(objective), abs(bound))
    if size <= known.nothing:
        return 0.0
    return float(max(difference / size, min(known.moved / size, 1.0)))


def best_of(found: Sequence[tuple[Point, Certificate]]) -> tuple[Point, Certificate]:
    """The point with the lowest objective, and its certificate with the highest bound of all."""
    point, best = min(found, key=lambda pair: pair[1].objective)
    highest = max((certificate for _, certificate in found), key=lambda each: each.bound)
    rounding = best.rounding.with_bound_of(highest.rounding)
    return point, attrs.evolve(best, bound=highest.bound, rounding=rounding)


@attrs.frozen(eq=False)
class PrimalValues:
    """The values of all losses and terms of a program at a candidate."""

    program: Program
    candidate: Candidate
    at: Evaluation
    main: float  # the value of the main regularizer
    attached: tuple[float, ...]  # of the others
    rounding: Any  # how far rounding of predictors may move the losses
    resolved: Any  # how far they move where Z is off by its own rounding

    @classmethod
    def of(cls, program: Program, candidate: Candidate) -> "PrimalValues":
        """Losses and terms at a candidate, effects solved for where they can be."""
        latent: LowRank = candidate.latent
        given = None if candidate.dual is None else candidate.dual.given
        at, main = program.evaluate(latent, candidate.warm, given), program.penalty.value(latent)
        attached = tuple(
            value if term.smooth else term.value(at.place.columns(term.columns))
            for term, value in zip(program.terms, at.values, strict=True)
        )
        # Of rows in partitions these come with the round that is asked next.
        loss, gradients = program.loss, at.entry_gradients
        rounding = loss.rounding(at.place.z, at.effects, gradients)
        mixed = program.penalty.mixes_columns
        away = EPS * latent.length * at.entries.stretch
        resolved = loss.moved_by(away, gradients) if mixed else 0.0
        return cls(program, candidate, at, main, attached, rounding, resolved)

    @property
    def objective(self) -> float:
        """Losses and terms."""
        return self.at.losses + self.main + sum(self.attached)

    @property
    def vanishes(self) -> bool:
        """True where all losses and terms are negligible relative to their values elsewhere.

        Never under a square of each row, whose minimum may be at any distance from Z = 0.
        """
        if isinstance(self.program.penalty, RowPenalty):
            return False
        # At a Z of equal entries, of the size that predictors have: 0 where all data are.
        unit, ones = self.program.loss.unit, [np.ones((n, 1)) for n in self.program.shape]
        elsewhere = self.program.penalty.value(LowRank(unit * ones[0], ones[1]))
        if self.at.behind or self.main > NOTHING * elsewhere:
            return False
        for term, value in zip(self.program.terms, self.attached, strict=True):
            if value > NOTHING * term.value(np.zeros((self.program.shape[0], term.width))):
                return False
        return self.program.loss.vanishes(self.at.place.z, self.at.effects)

    def certificate(self, bound: Bound, unsettled: float = 0.0) -> Certificate:
        """The objective with a bound, and the rounding of both."""
        at, length = self.at, self.candidate.latent.length
        lowered_by = bound.rounding + unsettled
        moved = float(self.rounding) + lowered_by
        moved += summed_rounding(self.objective, at.entries.size)
        moved += self.program.penalty.rounding(self.candidate.latent)
        for attached in self.program.terms:
            moved += attached.rounding(at.place.columns(attached.columns))
        resolved = float(self.resolved)
        if self.program.entries.sparse and np.isfinite(self.program.penalty.dual_radius):
            resolved += NORM_ERROR * self.main  # the cost of scaling the gradient down by as much
        # A bound that is not close to 0 proves that the optimum is not 0.
        small = bound.value <= 0.5 * self.objective
        nothing = self.objective + moved if small and self.vanishes else 0.0
        rounding = Rounding(moved, nothing, resolved, bound.room(length), lowered_by)
        return Certificate(
            self.objective, bound.value, self.program.effects_by_block(at.effects), rounding
        )


def certify(program: Program, candidate: Candidate, tol: float = 0.0) -> Certificate:
    """The objective at a candidate, and a lower bound on the optimum from the gradients there.

    Weak duality (Fenchel): for every S whose sums vanish where an effect is free, and dual
    matrices Y_t of the terms, optimum >= -F*(S) - sum of f_t*(Y_t) - R*(-(S + sum of Y_t)). All of
    them are scaled by c <= 1 so that R* is finite.

    ``tol`` is the relative gap that will do: norms that take many products are bounded as
    exactly as that needs, with 0 as exactly as they can be.
    """
    primal = PrimalValues.of(program, candidate)
    at, dual = primal.at, candidate.dual
    point = dual_point(program, at, dual)
    if not point.finite:  # a loss overflowed: nothing is known here
        return Certificate(np.inf, -np.inf, program.effects_by_block(at.effects))
    if not program.loss.convex:
        return primal.certificate(NO_BOUND)
    try:
        return primal.certificate(*bound_of(primal, point, tol))
    except OutOfTime:  # the point is not lost with its bound
        return primal.certificate(NO_BOUND)


def bound_of(primal: PrimalValues, point: DualPoint, tol: float) -> tuple[Bound, float]:
    """The bound of a candidate's dual point, and the error due to sums that are not quite 0.

    Norms are as exact as ``tol`` needs.
    """
    program, candidate, objective = primal.program, primal.candidate, primal.objective
    norm_excess = SHARE_OF_GAP * tol
    if program.entries.sparse and tol > 0.0:  # whose norms take many products
        norm_excess = max(norm_excess, SHARE_OF_EXCESS * allowed_excess(primal, point, tol))
    aim = Aim(norm_excess, tol * abs(objective) if np.isfinite(objective) else 0.0)
    bound = higher_of(NO_BOUND, fenchel_bound(point, candidate.latent, aim))
    in_a_ball = isinstance(program.main, Constraint)
    fixed = point.behind or any(known is not None for known in point.known)
    free = not (program.entries.sparse or fixed)  # gradients are, and are written out
    if in_a_ball and free and objective - bound.value > aim.gap:
        without = point.without_main()
        # A ball takes at least 0.
        if -without.conjugates()[0] > bound.value:
            bound = higher_of(bound, fenchel_bound(without, candidate.latent, aim))
    # Of the dual point that gave the bound: one moved into all domains has other sums.
    taken = point if bound.point is None else bound.point
    return bound, taken.imbalance(primal.at.effects)


def higher_of(bound: Bound, other: Bound) -> Bound:
    """The higher of two bounds: the second if they are equal, the first if that is NaN."""
    return other if other.value >= bound.value else bound


def allowed_excess(primal: PrimalValues, point: DualPoint, tol: float) -> float:
    """The relative excess allowed of a gradient's norm over the main regularizer's radius.

    Such that the gap is at most ``tol`` after the gradient is scaled down. Where the other parts
    alone leave a larger gap, half of that is added to it: more exact norms show no more. To scale
    a gradient S at Z by 1 - a costs about a R(Z), as -<S, Z> is R(Z) at the optimum, and a^2 times
    the size of the objective.
    """
    conjugates = point.conjugates()[0]
    size = max(abs(primal.objective), abs(conjugates))
    rest = abs(primal.objective + conjugates)
    spare = max(SURE * tol * size - rest, 0.5 * rest)
    if not np.isfinite(spare) or size == 0.0:
        return 0.0
    linear = abs(primal.main)
    return float(2.0 * spare / (linear + np.sqrt(linear**2 + 4.0 * size * spare)))


def uncertified(program: Program, candidate: Candidate) -> Certificate:
    """The objective at a candidate, without a bound."""
    return PrimalValues.of(program, candidate).certificate(NO_BOUND)


def at_zero(program: Program) -> tuple[Point, Certificate] | None:
    """Z = 0 with its objective and no bound; None where that is infinite or not known.

    Effects of a loss without a gradient cannot be solved for.
    """
    if any(p.effects.size and not p.likelihood.smooth for p in program.loss.pieces):
        return None
    point = Point(LowRank.zeros(program.shape))
    with np.errstate(over="ignore", invalid="ignore"):
        found = uncertified(program, point)
    return (point, found) if np.isfinite(found.objective) else None
