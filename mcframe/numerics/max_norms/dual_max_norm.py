"""The dual of the max norm: bounds from above that multipliers prove.

gamma_2*(S) is the largest <S, Z> over all Z = U V' whose factors have rows of norm at most 1.
S is dense, or a ``Sampled`` of which only some entries are not 0.
"""

from abc import ABC, abstractmethod

import numpy as np

from mcframe.contracts.arrays import Array, Mask, Matrix
from mcframe.contracts.rounding import EPS, NORM_SLACK
from mcframe.numerics.max_norms.ascent import ascend
from mcframe.numerics.max_norms.interior_point import interior_point, with_unit_sums
from mcframe.numerics.max_norms.max_norm import squared_row_norms
from mcframe.numerics.operators import Operator, Sampled, as_operator
from mcframe.numerics.spectra.lanczos import spectral_bound

__all__ = [
    "LARGEST_POLISHED",
    "POLISHED_ORDER",
    "bounding_multipliers",
    "dual_max_norm_bound",
    "dual_max_norm_split",
]

# The share of the norms of S's rows that is added to multipliers, some of which may be 0.
FLOOR = 1e-9
# Shares of the mean multiplier that are tried to make up for factors that lack a column: first as
# a share of what the bound exceeds half their sum by, then so many times as much, at most that.
FIRST_SHIFT, LONGER_SHIFT, LARGEST_SHIFT = 0.2, 4.0, 1e-2
# Multipliers are at least this share of the largest norm of a row.
LEAST_SHARE = 1e-20
# Multipliers that prove half their sum up to this share need no shift.
PROVEN = 1e-5
# The share of a gap that a first shift of its multipliers costs.
SHIFTED = 0.01
# Steps of a power iteration whose lower bound on a norm may spare an upper one.
POWER_STEPS = 4
# Up to this many rows and columns together multipliers are improved to the optimum unasked; up to
# the second number for a certificate. A step takes 0.1 s for 600, 0.5 s for 1000 of them.
POLISHED_ORDER, LARGEST_POLISHED = 400, 1000
# They are improved where more than this share of the gap is theirs; and where a bound is aimed at
# that lies at least so far on the way from what an ascent reached to the bound without.
OWED, HOPED = 0.1, 0.25


def dual_max_norm_bound(dual: Matrix, multipliers: Array | None = None) -> float:
    """An upper bound on gamma_2*(S) = max of <S, Z> over all Z of max norm at most 1.

    If [[D1, S], [S', D2]] is positive semidefinite, D diagonal, then
    gamma_2*(S) <= sum(D) / 2, since |u' S v| <= (u' D1 u + v' D2 v) / 2 column by column of U
    and V. Any positive D becomes such a matrix once multiplied by
    c = ||D1^-1/2 S D2^-1/2||_2, and the best split of the two blocks' scales makes that
    c sqrt(sum(D1) sum(D2)), with c bounded from above. Up to 400 rows and columns together D
    is improved until the bound is exact to about 1e-9, unless it is given as one that proves half
    its sum; beyond, the bound is as good as the multipliers.

    Parameters
    ----------
    dual : array or Sampled
        S, (n_rows x n_columns).
    multipliers : array, optional
        The diagonal of D to begin with, up to a common factor: not negative, one number for
        each row of S, then for each column. By default the norms of rows and columns.
    """
    return dual_max_norm_split(dual, multipliers)[0]


def dual_max_norm_split(dual: Matrix, multipliers: Array | None = None) -> tuple[float, Array]:
    """A bound on the dual max norm, and the diagonal of a D with this half sum as its proof."""
    side = side_of(dual)
    best, bound = side.best_of(multipliers)
    proven = 0.0 if multipliers is None else side.half_sum(multipliers[side.own])
    if best.size <= POLISHED_ORDER and abs(bound - proven) > PROVEN * proven:
        best, bound = side.polish(best, bound)
    return bound, side.whole(best, bound)


def bounding_multipliers(gradient: Matrix, stacked: Array, room: float = 0.0) -> Array:
    """The diagonal of a D that proves a small bound on gamma_2*(G), G the gradient at factors W.

    By ascent from W. The gap of the bound that follows is what the bound on gamma_2* exceeds
    <-G, U V'> by, rows of W scaled to norm 1 at most, in units of the longest one squared. Up to
    1000 rows and columns together interior-point steps follow where they may bring that gap
    below ``room``, or, where no room is given, where D is to blame for a tenth of it and more.

    Parameters
    ----------
    gradient : array or Sampled
        G, (n_rows x n_columns).
    stacked : array
        W, (n_rows + n_columns) x k.
    room : float
        The gap that will do, as an absolute number; 0 asks for the best bound.
    """
    ascent, side = ascend(gradient, stacked, room), side_of(gradient)
    # A shift that costs this much can make up for more.
    shift = SHIFTED * max(ascent.reached - ascent.begun, 0.0) / (0.5 * sum(gradient.shape))
    shifted = np.where(side.own, ascent.multipliers + shift, 0.0)
    if side.norms.size > LARGEST_POLISHED:
        return shifted
    best, bound = side.best_of(shifted)
    if room > 0.0:
        aim = ascent.begun + room / ascent.longest
        polish = ascent.reached + HOPED * (bound - ascent.reached) <= aim < bound
    else:
        aim, polish = 0.0, bound - ascent.reached > OWED * (bound - ascent.begun)
    if polish:
        best, bound = side.polish(best, bound, aim)
    return side.whole(best, bound)


def side_of(dual: Matrix) -> "Side":
    """S without its empty lines, a small one written out."""
    matrix = as_operator(dual)
    if isinstance(matrix, Sampled) and sum(matrix.shape) > LARGEST_POLISHED:
        return SampledSide(matrix)
    return DenseSide(matrix.dense())


class Side(ABC):
    """S without its empty lines, and what the bounds need of it, dense or sparse."""

    own: Mask  # which rows, then which columns are not empty
    norms: Array  # of these
    n_rows: int
    scale: float  # the size of S's entries

    @abstractmethod
    def between(self, first: Array, second: Array) -> Operator:
        """diag(first) S diag(second) for an S with entries of size 1."""

    @abstractmethod
    def rounding(self, between: Operator, norm: float) -> float:
        """How far the roundings of its entries can have moved the norm of such a matrix."""

    @abstractmethod
    def polish(self, diagonal: Array, bound: float, aim: float = 0.0) -> tuple[Array, float]:
        """A better diagonal and its bound, or the same; a bound of ``aim`` will do."""

    def bound_at(self, diagonal: Array, aim: float) -> float:
        """c sqrt(sum(D1) sum(D2)) for a positive diagonal; c need not be known below aim."""
        first, second = diagonal[: self.n_rows], diagonal[self.n_rows :]
        between = self.between(1.0 / np.sqrt(first), 1.0 / np.sqrt(second))
        norm = spectral_bound(between, NORM_SLACK, aim / self.scale)
        return self.scale * (norm + self.rounding(between, norm)) * self.half_sum(diagonal)

    def exceeds(self, diagonal: Array, bound: float) -> bool:
        """Whether a few power steps show that the bound at a diagonal is no better than this."""
        first, second = diagonal[: self.n_rows], diagonal[self.n_rows :]
        between = self.between(1.0 / np.sqrt(first), 1.0 / np.sqrt(second))
        vector, least = np.ones(between.shape[1]), 0.0
        for _ in range(POWER_STEPS):
            length = float(np.linalg.norm(vector))
            if length == 0.0:
                break
            image = between @ (vector / length)
            least, vector = float(np.linalg.norm(image)), between.T @ image
        return self.scale * least * self.half_sum(diagonal) >= bound

    def best_of(self, multipliers: Array | None) -> tuple[Array, float]:
        """The best diagonal among shifted multipliers and the norms of lines, and its bound."""
        if self.norms.size == 0:
            return self.norms, 0.0
        best, bound = self.norms, np.inf
        if multipliers is not None and np.any(multipliers[self.own] > 0.0):
            best, bound = self.shifted(np.maximum(multipliers[self.own], 0.0))
            if self.exceeds(self.norms, bound):
                return best, bound
        # Beside multipliers the norms of lines need no more than a nonsmooth bound.
        reached = self.bound_at(self.norms, 0.0 if np.isfinite(bound) else np.inf)
        return (self.norms, reached) if reached < bound else (best, bound)

    def shifted(self, start: Array) -> tuple[Array, float]:
        """Multipliers with the shift that makes their bound the best, and the bound."""
        mean = float(np.mean(start))
        best = start + FLOOR * mean / float(np.mean(self.norms)) * self.norms
        bound = self.bound_at(best, 1.0)
        proven = self.half_sum(start)
        if bound <= (1.0 + PROVEN) * proven:
            return best, bound
        share = min(FIRST_SHIFT * (bound / proven - 1.0), LARGEST_SHIFT) if proven > 0.0 else FLOOR
        while share <= LARGEST_SHIFT:
            diagonal = start + share * mean
            reached = self.bound_at(diagonal, 1.0)
            if reached >= bound and np.isfinite(bound):  # larger shifts cost more and more
                break
            best, bound, share = diagonal, reached, LONGER_SHIFT * share
        return best, bound

    def half_sum(self, diagonal: Array) -> float:
        """sqrt(sum(D1) sum(D2)): half the sum of a diagonal at the best split of both scales."""
        first, second = diagonal[: self.n_rows], diagonal[self.n_rows :]
        return float(np.sqrt(np.sum(first) * np.sum(second)))

    def whole(self, diagonal: Array, bound: float) -> Array:
        """A diagonal with this half sum for all lines, 0 for empty ones."""
        whole = np.zeros(self.own.size)
        if diagonal.size:
            whole[self.own] = bound * with_unit_sums(diagonal, self.n_rows)
        return whole


class DenseSide(Side):
    """A dense S, whose norms are found by factorisations."""

    def __init__(self, dual: Array) -> None:
        sizes = np.abs(dual)
        rows, columns = np.max(sizes, axis=1, initial=0.0), np.max(sizes, axis=0, initial=0.0)
        self.scale = float(np.max(rows, initial=0.0))
        self.kept = dual[rows > 0.0][:, columns > 0.0] / (self.scale or 1.0)
        self.own, self.n_rows = np.concatenate([rows, columns]) > 0.0, self.kept.shape[0]
        squared = np.concatenate([squared_row_norms(self.kept), squared_row_norms(self.kept.T)])
        norms = np.sqrt(squared)
        self.norms = np.maximum(norms, LEAST_SHARE * np.max(norms, initial=0.0))

    def between(self, first: Array, second: Array) -> Operator:
        """The scaled matrix, written out."""
        return as_operator(self.kept * first[:, None] * second)

    def rounding(self, between: Operator, norm: float) -> float:
        """The rounding of three operations an entry, as a share of the norm."""
        # They move the norm by 3 eps || |A| ||_2, at most sqrt(rank) ||A||_2.
        return 4.0 * EPS * (4.0 + np.sqrt(min(between.shape))) * norm

    def polish(self, diagonal: Array, bound: float, aim: float = 0.0) -> tuple[Array, float]:
        """A better diagonal by an interior-point method."""
        if diagonal.size == 0:
            return diagonal, bound
        unit = self.scale
        improved = interior_point(self.kept, diagonal, bound / unit, aim / unit)
        reached = self.bound_at(improved, 1.0)
        return (improved, reached) if reached < bound else (diagonal, bound)


class SampledSide(Side):
    """A sparse S: its norms by Lanczos steps from a random start, see ``spectral_bound``.

    Cost of a bound: products with S and with S' for each of 24 to 800 steps. Memory: some six
    numbers an observed entry, and up to 400 vectors of the smaller side.
    """

    def __init__(self, dual: Sampled) -> None:
        self.scale = float(np.max(np.abs(dual.values), initial=0.0))
        self.dual = Sampled(dual.pattern, dual.values / (self.scale or 1.0))
        sizes = line_sums(Sampled(dual.pattern, np.abs(self.dual.values)))
        norms = np.sqrt(line_sums(Sampled(dual.pattern, np.square(self.dual.values))))
        n_rows = dual.shape[0]
        self.own, self.n_rows = sizes > 0.0, int(np.count_nonzero(sizes[:n_rows]))
        least = LEAST_SHARE * np.max(norms, initial=0.0)
        self.norms = np.maximum(norms[self.own], least)  # positive where squares underflow

    def between(self, first: Array, second: Array) -> Operator:
        """The scaled matrix, empty lines included."""
        weights = np.zeros(self.own.size)
        weights[self.own] = np.concatenate([first, second])
        n_rows = self.dual.shape[0]
        return self.dual.between(weights[:n_rows], weights[n_rows:])

    def rounding(self, between: Operator, norm: float) -> float:
        """The rounding of all entries at its worst, in the Frobenius norm."""
        assert isinstance(between, Sampled)
        return 4.0 * EPS * float(np.linalg.norm(between.values))

    def polish(self, diagonal: Array, bound: float, aim: float = 0.0) -> tuple[Array, float]:
        """The diagonal as it is: ascent has improved what there is to improve."""
        return diagonal, bound


def line_sums(matrix: Sampled) -> Array:
    """The sums of all rows, then of all columns."""
    return np.concatenate([m @ np.ones(m.shape[1]) for m in (matrix, matrix.T)])
