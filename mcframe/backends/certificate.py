"""Rigorous lower bounds on the optimal value of a program."""

import attrs
import numpy as np
import scipy

from mcframe.compile import Behind, Evaluation, Known, Program
from mcframe.contracts.arrays import Array, Matrix
from mcframe.contracts.rounding import EPS, NORM_SLACK, SET_ROUNDING
from mcframe.contracts.solver import Candidate
from mcframe.contracts.term import Constraint
from mcframe.numerics.dual_max_norm import POLISHED_ORDER
from mcframe.numerics.lanczos import norm_bound
from mcframe.numerics.low_rank import LowRank
from mcframe.numerics.sampled import Sampled, SampledMatrix
from mcframe.numerics.spectral_norm import norm_upper_bound, singular_value_bounds
from mcframe.numerics.tapering import LineCosts, tapered

__all__ = ["Dual", "Judgement", "Point", "Rounding", "at_zero", "judge", "relative_gap", "sampled"]

# Cells of Z, and operations for a Gram matrix, from which on the slope stays sparse.
LARGEST_DENSE, LARGEST_GRAM = 50_000_000, 2e10
# Up to this share of observed cells products with the entries alone are the faster ones.
SPARSE_SHARE = 1 / 16
# The shares of the gap asked for by which the bound on a norm may be too large, and by which the
# norm of a slope whose rows and columns were scaled down may still be.
BOUNDED, TAPERED = 0.1, 0.5
# How often a scale is tried that brings a dual point into every domain at once.
ROUNDS = 6
# Terms below this share of their value at Z = 0 are 0.
NOTHING = 1e-12
# How much shorter still slopes are tried that rounding has left just outside of a domain.
SHORTER = (0.0, 1e-13, 1e-11, 1e-9, 1e-7)


@attrs.frozen(eq=False)
class Dual:
    """What a point with multipliers knows of the dual.

    A slope for each number of the loss, a dual matrix for each term (None where the term's
    own slope will do), and F* at the slope for each piece of the loss that has no conjugate.
    ``given`` are the effects of the point: those of losses without a slope cannot be solved for.
    """

    slope: Array
    terms: tuple[Array | None, ...]
    given: tuple[Array | None, ...]
    known: Known


@attrs.frozen(eq=False)
class Point:
    """A candidate: a feasible Z in factors, with a fixed column's multiplier and what is dual."""

    latent: LowRank
    multiplier: Array | None = None
    dual: Dual | None = None


@attrs.frozen(eq=False)
class Rounding:
    """How exactly objective and bound are known in double precision, all as absolute numbers.

    Attributes
    ----------
    moved : float
        By how much rounding may have moved them against each other at the candidate.
    nothing : float
        An objective up to this is 0: its losses are in every column below 1e-12 of what one
        constant costs there (losses with kinks, which grow as residuals do, below 1e-9; where
        one constant fits a column whole, predictors are off by 1e-9 of their unit), its terms
        below 1e-12 of theirs at Z = 0, and the main term 0.
    resolved : float
        How far apart they may stay because each entry of Z is known to the rounding of the whole
        Z alone, as it is by singular vectors.
    room : float
        What it is worth at most that sets count as met up to 1e-9 of their size.
    bound : float
        The part of ``moved`` that is the bound's.
    """

    moved: float = 0.0
    nothing: float = 0.0
    resolved: float = 0.0
    room: float = 0.0
    bound: float = 0.0

    def beside(self, other: "Rounding") -> "Rounding":
        """Of an objective beside a bound that comes from another point."""
        moved, room = self.moved - self.bound + other.bound, max(self.room, other.room)
        return attrs.evolve(self, moved=moved, room=room, bound=other.bound)


@attrs.frozen(eq=False)
class Judgement:
    """What a candidate is worth: objective, lower bound, and the biases that go with them."""

    objective: float
    bound: float
    biases: dict[str, Array]
    rounding: Rounding = Rounding()


def relative_gap(objective: float, bound: float, rounding: Rounding | None = None) -> float:
    """|objective - bound| / max(|objective|, |bound|), the most that it can be.

    Never below what rounding may have moved them against each other by, up to 1: a difference
    that cannot be told from 0 is no proof of it. 0 where the objective is one of residuals that
    are rounding, and the bound is no farther from 0.
    """
    known = Rounding() if rounding is None else rounding
    difference = abs(objective - bound)
    if not np.isfinite(difference):
        return np.inf
    size = max(abs(objective), abs(bound))
    if size <= known.nothing:
        return 0.0
    return float(max(difference / size, min(known.moved / size, 1.0)))


@attrs.frozen(eq=False)
class Bound:
    """A lower bound, and what it was lowered by for rounding.

    With the dual point it comes from, and what the main term takes of it.
    """

    value: float
    rounding: float
    taken: float = 0.0
    point: "DualPoint | None" = None

    @property
    def room(self) -> float:
        """What it is worth at most that sets count as met where Z is close to them."""
        if self.point is None:
            return 0.0
        ball = isinstance(main_of(self.point.program), Constraint)
        return self.point.room() + (SET_ROUNDING * abs(self.taken) if ball else 0.0)


NO_BOUND = Bound(-np.inf, 0.0)


@attrs.frozen(eq=False)
class Place:
    """A candidate's Z, and what the program is worth there."""

    program: Program
    candidate: Candidate
    z: Array
    dense: Array  # empty where no term asks for it
    evaluation: Evaluation
    behind: Behind | None
    main: float  # the value of the main term
    attached: tuple[float, ...]  # of the others

    @classmethod
    def of(cls, program: Program, candidate: Candidate) -> "Place":
        """Losses and terms at a candidate, effects solved for where they can be."""
        latent: LowRank = candidate.latent
        given = None if candidate.dual is None else candidate.dual.given
        z = latent.at(program.loss.rows, program.loss.columns)
        dense = latent.dense() if program.terms else np.zeros((0, 0))
        main, attached = main_value(program, latent), [t.value(dense) for t in program.terms]
        evaluation, behind = program.loss.evaluate(z, given=given), program.behind(latent, z)
        return cls(program, candidate, z, dense, evaluation, behind, main, tuple(attached))

    @property
    def objective(self) -> float:
        """Losses and terms."""
        unwritten = 0.0 if self.behind is None else self.behind.value
        return self.evaluation.value + self.main + sum(self.attached) + unwritten

    @property
    def vanishes(self) -> bool:
        """Whether all losses and terms are nothing beside what they are elsewhere."""
        if self.main != 0.0 or self.behind is not None:
            return False
        pairs = zip(self.program.terms, self.attached, strict=True)
        if any(value > NOTHING * term.value(np.zeros_like(self.dense)) for term, value in pairs):
            return False
        return self.program.loss.vanishes(self.z, self.evaluation.biases)

    def judgement(self, bound: "Bound", unsettled: float = 0.0) -> Judgement:
        """The objective beside a bound, and how exactly both are known."""
        loss, slope, effects = self.program.loss, self.evaluation.slope, self.evaluation.biases
        lowered_by = bound.rounding + unsettled
        moved = loss.rounding(self.z, effects, slope) + lowered_by
        moved += summed_rounding(self.objective, self.z.size)
        resolved = loss.moved_by(EPS * self.candidate.latent.length, slope)
        # Beside a bound that is not close to 0 there is nothing to ask.
        small = bound.value <= 0.5 * self.objective
        nothing = self.objective + moved if small and self.vanishes else 0.0
        rounding = Rounding(moved, nothing, resolved, bound.room, lowered_by)
        return Judgement(self.objective, bound.value, self.program.biases(effects), rounding)


def judge(program: Program, candidate: Candidate, tol: float = 0.0) -> Judgement:
    """The objective at a candidate, and a lower bound on the optimum from the slopes there.

    Weak duality (Fenchel): for every S whose sums vanish where an effect is free, and dual
    matrices Y_t of the terms, optimum >= -F*(S) - sum of f_t*(Y_t) - R*(-(S + sum of Y_t)), a
    fixed column contributing minus the sum of its multiplier. All of them are scaled by
    c <= 1 so that R* is finite.

    ``tol`` is the relative gap that will do: norms that take many products are bounded to a
    share of it.
    """
    place = Place.of(program, candidate)
    loss, dual, evaluation = program.loss, candidate.dual, place.evaluation
    slope = evaluation.slope if dual is None else dual.slope
    if not np.all(np.isfinite(slope)):  # a loss overflowed: nothing is known here
        return Judgement(np.inf, -np.inf, program.biases(evaluation.biases))
    if not loss.convex:
        return place.judgement(NO_BOUND)
    known = loss.known_conjugates(place.z, evaluation.biases) if dual is None else dual.known
    own, others = loss.centred(slope), duals(program, place.dense, dual)
    trial = DualPoint(program, candidate, own, others, known, place.behind, BOUNDED * tol)
    if dual is None and candidate.latent.width and tapers(program):
        trial = trial.tapered(place.z, evaluation, TAPERED * tol)
    return place.judgement(fenchel_bound(trial), loss.unsettled(trial.slope, evaluation.biases))


def at_zero(program: Program) -> tuple[Point, Judgement] | None:
    """Z = 0 with its objective and no bound; None where that is infinite or cannot be told.

    Effects of a loss without a slope cannot be solved for.
    """
    untold = (p.effects.size and not p.likelihood.smooth for p in program.loss.pieces)
    if program.ones or any(untold):
        return None
    point = Point(LowRank.zeros(program.shape))
    with np.errstate(over="ignore", invalid="ignore"):
        found = Place.of(program, point).judgement(NO_BOUND)
    return (point, found) if np.isfinite(found.objective) else None


def main_value(program: Program, latent: LowRank) -> float:
    """R at Z, of factors for its own factors."""
    if program.factored is not None:
        return program.factored.of_factors(latent.balanced())
    return program.penalty.of_singular_values(latent.singular_values())


def duals(program: Program, dense: Array, dual: Dual | None) -> tuple[Array, ...]:
    """A dual matrix for each term: its multiplier, or a smooth term's slope at Z."""
    known = (None,) * len(program.terms) if dual is None else dual.terms
    return tuple(
        term.value_and_dual(dense)[1] if given is None else given
        for term, given in zip(program.terms, known, strict=True)
    )


def summed_rounding(size: float, count: int) -> float:
    """How far rounding can have moved a sum of so many summands whose sizes add up to that."""
    return EPS * (8 + float(np.log2(count + 1))) * abs(size)


@attrs.frozen(eq=False)
class DualPoint:
    """A dual point before scaling, and the candidate that it came from.

    Of a background ``share`` times its slope there. Norms may be bounded to a relative ``slack``;
    ``norm`` is a bound on that of a sparse slope, if it is known.
    """

    program: Program
    candidate: Candidate
    slope: Array
    terms: tuple[Array, ...]
    known: Known
    behind: Behind | None = None
    slack: float = 0.0
    share: float = 1.0
    norm: float | None = None

    def tapered(self, z: Array, at: Evaluation, above: float) -> "DualPoint":
        """Rows and columns of the slope at z scaled down where it is too long for the ball."""
        matrix = SampledMatrix(self.program.pattern, self.slope)
        costs = line_costs(self.program, z, at, self.slope)
        radius = self.program.penalty.dual_radius
        found, norm = tapered(matrix, radius, costs, above, self.slack)
        return attrs.evolve(self, slope=found.values, norm=norm)

    def repaired(self, scale: float) -> "DualPoint":
        """Scaled, then moved to the nearest point of every domain but the main term's."""
        slope = self.program.loss.nearest_slope(scale * self.slope)
        terms = tuple(
            term.nearest_dual(scale * dual)
            for term, dual in zip(self.program.terms, self.terms, strict=True)
        )
        share = scale * self.share
        return attrs.evolve(self, slope=slope, terms=terms, share=share, norm=None)

    def without_rounding(self) -> "DualPoint":
        """The same with dual matrices and slopes that lie just outside of a domain moved in."""
        slope = self.program.loss.clipped(self.slope)
        pairs = zip(self.program.terms, self.terms, strict=True)
        terms = tuple(term.nearest_dual(dual) for term, dual in pairs)
        norm = self.norm
        if norm is not None:
            norm += float(np.linalg.norm(slope - self.slope))
        return attrs.evolve(self, slope=slope, terms=terms, norm=norm)

    def scaled(self, scale: float) -> "DualPoint":
        """Scaled and nothing else."""
        if scale == 1.0:
            return self
        terms = tuple(scale * dual for dual in self.terms)
        share = scale * self.share
        slope = scale * self.slope
        return attrs.evolve(self, slope=slope, terms=terms, share=share, norm=None)

    def matrix(self, scale: float = 1.0) -> Array:
        """S + sum of Y_t: what the main term has to take up."""
        matrix = np.zeros(self.program.shape)
        matrix.ravel()[self.program.flat] = self.slope
        for term, dual in zip(self.program.terms, self.terms, strict=True):
            matrix[:, term.columns] += term.pull(dual)
        if self.candidate.multiplier is not None:
            matrix[:, -1] += scale * self.candidate.multiplier
        return matrix

    def held(self, scale: float) -> Matrix:
        """The same matrix, sparse where Z is never formed."""
        if sampled(self.program):
            return SampledMatrix(self.program.pattern, self.slope)
        return self.matrix(scale)

    def conjugates(self, scale: float) -> tuple[float, float]:
        """F*(S) + sum of f_t*(Y_t) + the fixed column's share; and the size of the summands."""
        total, size = self.program.loss.conjugate(self.slope, scale, self.known)
        if not np.isfinite(total):  # what the others are does not matter
            return total, size
        others, spread = self.conjugates_of_terms(scale)
        if self.behind is not None:
            unwritten, unsure = self.behind.conjugate(self.share)
            total, size = total + unwritten, size + unsure
        return total + others, size + spread

    def conjugates_of_terms(self, scale: float) -> tuple[float, float]:
        """The same without the loss."""
        total = size = 0.0
        for term, dual in zip(self.program.terms, self.terms, strict=True):
            value = term.conjugate(dual)
            total += value
            size += abs(value) + float(np.linalg.norm(dual)) * EPS
        if self.candidate.multiplier is not None:
            total += scale * float(np.sum(self.candidate.multiplier))
            size += scale * float(np.sum(np.abs(self.candidate.multiplier)))
        return total, size

    def room(self) -> float:
        """What it is worth at most that sets beside the main term count as met close to them."""
        length = self.candidate.latent.length
        sets = 0.0
        for attached, dual in zip(self.program.terms, self.terms, strict=True):
            if isinstance(attached.term, Constraint):
                sets += attached.term.room(dual, length)
        if self.candidate.multiplier is not None:
            sets += SET_ROUNDING * float(np.sum(np.abs(self.candidate.multiplier)))
        pieces = self.program.loss.pieces
        return sets + sum(piece.room(self.slope[piece.part]) for piece in pieces)

    def rounding(self, size: float) -> float:
        """How far rounding can have moved a sum of summands of that size."""
        return summed_rounding(size, self.slope.size)


class MainTerm:
    """R*(-S) for one matrix S, at any scale of it."""

    def __init__(self, point: DualPoint, scale: float = 1.0) -> None:
        self.program = point.program
        radius = self.program.penalty.dual_radius
        if self.program.factored is not None:
            latent: LowRank = point.candidate.latent
            self.matrix = matrix = point.held(scale)
            stacked = latent.balanced()
            self.multipliers = self.program.factored.bounding_multipliers(matrix, stacked)
            self.largest = self.program.factored.feasible_scale(-matrix, self.multipliers)
        elif np.isfinite(radius):
            if too_large(self.program) or point.norm is not None:
                norm = sampled_norm(point)
            else:
                norm = norm_upper_bound(point.matrix(scale), NORM_SLACK)
            self.norms = np.array([norm])
            self.largest = 1.0 if norm <= radius else radius / norm
        else:
            self.norms = singular_value_bounds(point.matrix(scale))
            self.largest = 1.0

    def conjugate(self, scale: float) -> float:
        """R*(-scale S), or an upper bound on it."""
        if self.program.factored is not None:
            dual, multipliers = -scale * self.matrix, scale * self.multipliers
            return self.program.factored.conjugate_from(dual, multipliers)
        return self.program.penalty.conjugate(scale * self.norms)


def too_large(program: Program) -> bool:
    """Whether the slope is kept sparse: where a dense one takes much memory or time."""
    if program.background is not None:
        return True
    if program.terms or program.ones:
        return False
    cells = program.shape[0] * program.shape[1]
    return cells > LARGEST_DENSE or cells * min(program.shape) > LARGEST_GRAM


def sampled(program: Program) -> bool:
    """Whether factors of Z are held and Z never formed: few entries, or too many cells.

    Small dense slopes have better certificates, by multipliers that are improved to the optimum.
    """
    if program.terms or program.ones:
        return False
    few = program.loss.n_entries <= SPARSE_SHARE * program.shape[0] * program.shape[1]
    return (few and sum(program.shape) > POLISHED_ORDER) or too_large(program)


def sampled_norm(point: DualPoint) -> float:
    """An upper bound on ||S||_2 of a sparse S, background included."""
    if point.norm is not None:
        return point.norm
    slope: Sampled = SampledMatrix(point.program.pattern, point.slope)
    if point.behind is not None:
        slope = point.behind.slope(point.program.pattern, point.slope, point.share)
    return norm_bound(slope, point.program.penalty.dual_radius, point.slack)


def tapers(program: Program) -> bool:
    """Whether rows and columns of the slope may be scaled down one by one.

    Not where sums over rows have to vanish, nor where slopes of several numbers belong
    together, nor where nothing but multiples of the slope has a known conjugate.
    """
    if program.background is not None or program.factored is not None or not sampled(program):
        return False
    if not np.isfinite(program.penalty.dual_radius):
        return False
    return all(
        piece.has_conjugate() and piece.width == 1 and not piece.layout.n_row_effects
        for piece in program.loss.pieces
    )


def line_costs(program: Program, z: Array, at: Evaluation, slope: Array) -> LineCosts:
    """By how much F* of the slope at z rises where rows and columns of it are scaled down.

    It falls by ``-S_ij z_ij`` for each relative change of an entry, as F*' is z there, and bends
    by ``S_ij^2 / f''``. Where a block has biases columns alone are scaled: their sums stay 0.
    """
    rows, columns = program.loss.rows, program.loss.columns
    bend = np.empty(slope.size)
    for piece, effects in zip(program.loss.pieces, at.biases, strict=True):
        bend[piece.part] = piece.bend(piece.shaped(z), effects)
    n_rows, n_columns = program.shape

    def by_lines(values: Array) -> Array:
        by_rows = np.bincount(rows, weights=values, minlength=n_rows)
        return np.concatenate([by_rows, np.bincount(columns, weights=values, minlength=n_columns)])

    linear = np.maximum(by_lines(-slope * z), 0.0)
    if any(piece.layout.n_biases for piece in program.loss.pieces):
        linear[:n_rows] = np.inf
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # then that line stays
        return LineCosts(linear, by_lines(np.square(slope) / bend))


def fenchel_bound(point: DualPoint) -> Bound:
    """The bound at the best feasible scale, lowered by what rounding may have added.

    Or at scale 0, where it is the infimum of all losses: the better one if the optimum is 0.
    """
    point = point.without_rounding()
    main = MainTerm(point)
    scaled, nothing = scaled_bound(point, main), bound_at(point.scaled(0.0), main, 0.0)
    return scaled if scaled.value >= nothing.value else nothing


def scaled_bound(point: DualPoint, main: MainTerm) -> Bound:
    """The bound at the largest feasible scale, or with a ridge at the best one."""
    for shorter in SHORTER:
        scale = main.largest * (1.0 - shorter)
        reached = bound_at(point.scaled(scale), main, scale)
        if np.isfinite(reached.value):
            break
    else:
        return bound_in_every_domain(point, main.largest)
    if not smooth_main(point.program):
        return reached
    # With a ridge every scale is feasible, and the bound is concave in it; 1 is exact at the
    # optimum.
    search = scipy.optimize.minimize_scalar(
        lambda c: -bound_at(point.scaled(float(c)), main, float(c)).value,
        bounds=(0.0, 1.0),
        method="bounded",
    )
    shorter_point = bound_at(point.scaled(float(search.x)), main, float(search.x))
    return reached if reached.value >= shorter_point.value else shorter_point


def bound_at(point: DualPoint, main: MainTerm, scale: float) -> Bound:
    """The bound from a scaled dual point and the main term's unscaled matrix."""
    conjugates, size = point.conjugates(scale)
    return lowered(point, conjugates, size, main.conjugate(scale))


def lowered(point: DualPoint, conjugates: float, size: float, taken: float) -> Bound:
    """The bound from the sum of all conjugates, less what rounding may have added."""
    size += abs(taken)
    rounding = point.rounding(size)
    return Bound(float(-conjugates - taken - rounding), rounding, taken, point)


def smooth_main(program: Program) -> bool:
    """Whether a ridge is part of the main term, so that its conjugate is finite everywhere."""
    return program.factored is None and program.penalty.ridge > 0.0


def main_of(program: Program) -> object:
    """The main term, None beside a ridge alone."""
    return program.factored or program.penalty.main


def bound_in_every_domain(point: DualPoint, scale: float) -> Bound:
    """The bound where scaling leaves the domain of a loss whose slopes do not reach 0.

    Moving back into that domain changes the main term's matrix a little, so that the scale is
    sought in a few rounds; -inf if none is found.
    """
    for _ in range(ROUNDS):
        repaired = point.repaired(scale)
        main = MainTerm(repaired, scale)
        if main.largest >= 1.0 - 1e-12:
            return lowered(repaired, *repaired.conjugates(scale), main.conjugate(1.0))
        scale -= 2.0 * (1.0 - main.largest) * scale if main.largest > 0.7 else 0.5 * scale
    return NO_BOUND
