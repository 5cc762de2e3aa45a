"""The judge: objective and lower bound of a candidate."""

import attrs
import numpy as np

from mcframe.backends.certificate.bound import NO_BOUND, Bound, fenchel_bound
from mcframe.backends.certificate.main_term import Aim
from mcframe.backends.certificate.point import Judgement, Point
from mcframe.backends.certificate.rounding import NOTHING, Rounding, summed_rounding
from mcframe.compile import (
    DualPoint,
    Evaluation,
    PartitionedMatrix,
    Program,
    RowPenalty,
    dual_point,
    line_costs,
    tapers,
)
from mcframe.contracts.rounding import EPS
from mcframe.contracts.solver import Candidate
from mcframe.contracts.term import Constraint
from mcframe.numerics.machine.clock import OutOfTime
from mcframe.numerics.operators import LowRank, Sampled
from mcframe.numerics.spectra.lanczos import NEAREST
from mcframe.numerics.spectra.tapering import taper

__all__ = ["at_zero", "judge", "judge_objective"]

# The share of the gap asked for by which the bound on a norm may be too large in any case, and
# that of what the norm of a gradient may be too large by for the gap to be as small as that.
BOUNDED, ACCURATE = 0.1, 0.2
# So exactly norms of gradients are told that are known by their products, some rounding counted
# in.
TOLD = 1.25 * NEAREST
# Of what is left of a gap so much is worth proving: rounding and estimates take the rest.
SURE = 0.9


@attrs.frozen(eq=False)
class Reached:
    """What a program is worth at a candidate."""

    program: Program
    candidate: Candidate
    at: Evaluation
    main: float  # the value of the main term
    attached: tuple[float, ...]  # of the others

    @classmethod
    def of(cls, program: Program, candidate: Candidate) -> "Reached":
        """Losses and terms at a candidate, effects solved for where they can be."""
        latent: LowRank = candidate.latent
        given = None if candidate.dual is None else candidate.dual.given
        at, main = program.evaluate(latent, candidate.warm, given), program.penalty.value(latent)
        attached = tuple(
            value if term.smooth else term.value(at.place.columns(term.columns))
            for term, value in zip(program.terms, at.values, strict=True)
        )
        return cls(program, candidate, at, main, attached)

    @property
    def objective(self) -> float:
        """Losses and terms."""
        return self.at.losses + self.main + sum(self.attached)

    @property
    def vanishes(self) -> bool:
        """Whether all losses and terms are nothing beside what they are elsewhere.

        Never beside a square of each row, whose least value may be at any distance from Z = 0.
        """
        if isinstance(self.program.penalty, RowPenalty):
            return False
        if self.at.behind or self.main > NOTHING * self.main_elsewhere:
            return False
        for term, value in zip(self.program.terms, self.attached, strict=True):
            if value > NOTHING * term.value(np.zeros((self.program.shape[0], term.width))):
                return False
        return self.program.loss.vanishes(self.at.place.z, self.at.effects)

    @property
    def main_elsewhere(self) -> float:
        """The main term at a Z of equal entries, of the size of predictors that fit roughly."""
        n_rows, n_columns = self.program.shape
        unit = self.program.loss.unit  # 0 where all data are
        alike = LowRank(np.full((n_rows, 1), unit), np.ones((n_columns, 1)))
        return float(self.program.penalty.value(alike))

    def judgement(self, bound: Bound, unsettled: float = 0.0) -> Judgement:
        """The objective beside a bound, and how exactly both are known."""
        loss, at, length = self.program.loss, self.at, self.candidate.latent.length
        lowered_by = bound.rounding + unsettled
        moved = loss.rounding(at.place.z, at.effects, at.entry_gradients) + lowered_by
        moved += summed_rounding(self.objective, at.entries.size)
        moved += self.program.penalty.rounding(self.candidate.latent)
        for attached in self.program.terms:
            moved += attached.rounding(at.place.columns(attached.columns))
        mixed = self.program.penalty.mixes_columns
        away = EPS * length * at.entries.stretch
        resolved = loss.moved_by(away, at.entry_gradients) if mixed else 0.0
        if self.program.entries.sparse and np.isfinite(self.program.penalty.dual_radius):
            resolved += TOLD * self.main  # what a gradient scaled down by so much costs
        # Beside a bound that is not close to 0 there is nothing to ask.
        small = bound.value <= 0.5 * self.objective
        nothing = self.objective + moved if small and self.vanishes else 0.0
        rounding = Rounding(moved, nothing, resolved, bound.room(length), lowered_by)
        return Judgement(
            self.objective, bound.value, self.program.effects_by_block(at.effects), rounding
        )


def judge(program: Program, candidate: Candidate, tol: float = 0.0) -> Judgement:
    """The objective at a candidate, and a lower bound on the optimum from the gradients there.

    Weak duality (Fenchel): for every S whose sums vanish where an effect is free, and dual
    matrices Y_t of the terms, optimum >= -F*(S) - sum of f_t*(Y_t) - R*(-(S + sum of Y_t)). All of
    them are scaled by c <= 1 so that R* is finite.

    ``tol`` is the relative gap that will do: norms that take many products are bounded as
    exactly as that needs, with 0 as exactly as they can be.
    """
    reached = Reached.of(program, candidate)
    at, dual = reached.at, candidate.dual
    point = dual_point(program, at, dual)
    if not point.finite:  # a loss overflowed: nothing is known here
        return Judgement(np.inf, -np.inf, program.effects_by_block(at.effects))
    if not program.loss.convex:
        return reached.judgement(NO_BOUND)
    try:
        return reached.judgement(*bound_of(reached, point, tol))
    except OutOfTime:  # the point is not lost with its bound
        return reached.judgement(NO_BOUND)


def bound_of(reached: Reached, point: DualPoint, tol: float) -> tuple[Bound, float]:
    """The bound of a candidate's dual point, and what it is worth that sums are not quite 0.

    Its norms are as exact as the gap asked for needs.
    """
    program, candidate = reached.program, reached.candidate
    excess, slack = 0.0, BOUNDED * tol
    if program.entries.sparse and tol > 0.0:  # whose norms take many products
        excess = harmless_excess(reached, point, tol)
        slack = max(slack, ACCURATE * excess)
    points = [point]
    if candidate.dual is None and candidate.latent.width and tapers(program):
        points = shrink_gradient(point, reached.at, excess, slack)
    aim = Aim(slack, tol * abs(reached.objective) if np.isfinite(reached.objective) else 0.0)
    bound = NO_BOUND
    for tried in points:
        if reached.objective - bound.value > aim.room:
            found = fenchel_bound(tried, candidate.latent, aim)
            bound = found if found.value >= bound.value else bound
    if reached.objective - bound.value > aim.room and inside_a_ball(program, point):
        tried = point.without_main()
        # A ball takes at least 0.
        if -tried.conjugates()[0] > bound.value:
            found = fenchel_bound(tried, candidate.latent, aim)
            bound = found if found.value >= bound.value else bound
    # Of the point that the bound is of: one moved into every domain has other sums.
    taken = point if bound.point is None else bound.point
    return bound, taken.imbalance(reached.at.effects)


def inside_a_ball(program: Program, point: DualPoint) -> bool:
    """Whether the main term is a ball, and gradients are written out and free to choose."""
    written = not (
        program.entries.sparse or point.behind or any(k is not None for k in point.known)
    )
    return isinstance(program.main, Constraint) and written


def harmless_excess(reached: Reached, point: DualPoint, tol: float) -> float:
    """The relative excess of a gradient's norm over the main term's radius that does no harm.

    Such that the gap is at most ``tol`` after the gradient is scaled down. Where the other parts
    alone leave a larger gap, half of that is added to it: more exact norms show no more. To scale
    a gradient S at Z by 1 - a costs about a R(Z), as -<S, Z> is R(Z) at the optimum, and a^2 times
    the size of the objective.
    """
    conjugates = point.conjugates()[0]
    size = max(abs(reached.objective), abs(conjugates))
    rest = abs(reached.objective + conjugates)
    spare = max(SURE * tol * size - rest, 0.5 * rest)
    if not np.isfinite(spare) or size == 0.0:
        return 0.0
    linear = abs(reached.main)
    return float(2.0 * spare / (linear + np.sqrt(linear**2 + 4.0 * size * spare)))


def shrink_gradient(
    point: DualPoint, at: Evaluation, excess: float, slack: float
) -> list[DualPoint]:
    """Rows and columns of the gradient scaled down where it is too long for the main term's ball.

    And the gradient as it was, where that was touched, since the costs are those of small scales:
    its norm is known by then, so that its bound takes no further look.
    """
    gradient, costs = point.matrix, line_costs(point.program, at, point.gradient)
    assert isinstance(gradient, Sampled | PartitionedMatrix)
    radius = point.program.penalty.dual_radius
    found, norm, untouched = taper(gradient, radius, costs, excess, slack)
    shrunk = point.with_gradient(found, norm)
    return [shrunk] if found is gradient else [shrunk, attrs.evolve(point, norm=untouched)]


def judge_objective(program: Program, candidate: Candidate) -> Judgement:
    """The objective at a candidate, without a bound."""
    return Reached.of(program, candidate).judgement(NO_BOUND)


def at_zero(program: Program) -> tuple[Point, Judgement] | None:
    """Z = 0 with its objective and no bound; None where that is infinite or cannot be told.

    Effects of a loss without a gradient cannot be solved for.
    """
    untold = (p.effects.size and not p.likelihood.smooth for p in program.loss.pieces)
    if any(untold):
        return None
    point = Point(LowRank.zeros(program.shape))
    with np.errstate(over="ignore", invalid="ignore"):
        found = judge_objective(program, point)
    return (point, found) if np.isfinite(found.objective) else None
