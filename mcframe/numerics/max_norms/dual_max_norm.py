"""The dual of the max norm: multipliers, and bounds from above that they prove.

gamma_2*(S) is the largest <S, Z> over all Z = U V' whose factors have rows of norm at most 1.
S is dense, or a ``Sampled`` of which only some entries are not 0.
"""

from abc import ABC, abstractmethod

import numpy as np

from mcframe.contracts.arrays import Array, Mask, Matrix
from mcframe.contracts.rounding import EPS, NORM_SLACK
from mcframe.numerics.machine.clock import check_time
from mcframe.numerics.max_norms.max_norm import squared_row_norms
from mcframe.numerics.operators import Sampled, as_operator
from mcframe.numerics.spectra.lanczos import spectral_bound
from mcframe.numerics.spectra.spectral_norm import is_positive_definite

__all__ = [
    "POLISHED_ORDER",
    "ascended_multipliers",
    "dual_max_norm_bound",
    "dual_max_norm_split",
    "max_norm_multipliers",
]

# Where the improvement of multipliers ends, relatively.
TOLERANCE = 1e-10
# The share of the norms of S's rows that is added to multipliers, some of which may be 0, and
# shares of the mean multiplier that are tried: they make up for factors that lack a column.
FLOOR, SHIFTS = 1e-9, (0.0, 1e-5, 1e-4, 1e-3, 1e-2)
# Multipliers are at least this share of the largest norm of a row.
LEAST_SHARE = 1e-20
# A row of factors shorter than the longest by the root of this counts as 0.
SHORT_ROW = 1e-20
# Up to this many rows and columns together, multipliers of a dense S are improved to the optimum.
POLISHED_ORDER = 400
POLISHING_STEPS = 60
# Steps of ascent towards multipliers, and the relative gain of one that ends it.
ASCENT_STEPS, ASCENDED = 300, 1e-9


def max_norm_multipliers(slope: Matrix, stacked: Array) -> Array:
    """d_i = max(0, -(G V . U)_i / ||u_i||^2) for the rows of U, alike for those of V.

    What stationarity, (D + [[0, G], [G', 0]]) W = 0, asks of the diagonal D row by row. A row
    of zeros leaves it open: 0.
    """
    n_rows = slope.shape[0]
    left, right = stacked[:n_rows], stacked[n_rows:]
    pulls = np.vstack([slope @ right, slope.T @ left])
    norms = squared_row_norms(stacked)
    long = norms > SHORT_ROW * np.max(norms, initial=0.0)
    products = -np.einsum("ij,ij->i", pulls, stacked)
    return np.maximum(np.where(long, products, 0.0) / np.where(long, norms, 1.0), 0.0)


def ascended_multipliers(slope: Matrix, stacked: Array) -> Array:
    """D of factors W that nearly maximise -<G, U V'> over rows of norm 1, as their pulls.

    The rows of U that are best for V are those of -G V at length 1, and their lengths before
    are the multipliers (the mixing method of Wang, Chang and Kolter, arXiv:1706.00476, by
    blocks). So all of U and all of V take turns, V extrapolated as by Nesterov, from factors
    that maximise nearly. Any D gives a bound; that of a maximiser the best. Costs
    two products of G with W a step.
    """
    n_rows = slope.shape[0]
    right = before = with_unit_rows(stacked[n_rows:])[0]
    best, momentum = 0.0, 1.0
    for _ in range(ASCENT_STEPS):
        check_time()
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        left, _ = with_unit_rows(-(slope @ (right + (momentum - 1.0) / faster * (right - before))))
        before = right
        right, lengths = with_unit_rows(-(slope.T @ left))
        total = float(np.sum(lengths))
        momentum = faster if total > best else 1.0
        if abs(total - best) <= ASCENDED * total:
            break
        best = total
    return np.concatenate([with_unit_rows(slope @ right)[1], lengths])


def with_unit_rows(matrix: Array) -> tuple[Array, Array]:
    """The rows at length 1, those of zeros as they are, and their lengths."""
    lengths = np.sqrt(squared_row_norms(matrix))
    return matrix / np.where(lengths > 0.0, lengths, 1.0)[:, None], lengths


def dual_max_norm_bound(dual: Matrix, multipliers: Array | None = None) -> float:
    """An upper bound on gamma_2*(S) = max of <S, Z> over all Z of max norm at most 1.

    If [[D1, S], [S', D2]] is positive semidefinite, D diagonal, then
    gamma_2*(S) <= sum(D) / 2, since |u' S v| <= (u' D1 u + v' D2 v) / 2 column by column of U
    and V. Any positive D becomes such a matrix once multiplied by
    c = ||D1^-1/2 S D2^-1/2||_2, and the best split of the two blocks' scales makes that
    c sqrt(sum(D1) sum(D2)), with c bounded from above. Up to 400 rows and columns together D
    of a dense S is improved until the bound is exact to about 1e-9; beyond, it is as good as
    the multipliers.

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
    matrix = as_operator(dual)
    side: Side = SampledSide(matrix) if isinstance(matrix, Sampled) else DenseSide(matrix.dense())
    whole = np.zeros(sum(dual.shape))
    if side.norms.size == 0:
        return 0.0, whole
    given = multipliers is not None and bool(np.any(multipliers[side.own] > 0.0))
    # Beside multipliers the norms of lines need no more than a rough bound.
    best, bound = side.norms, side.bound_at(side.norms, 0.0 if given else np.inf)
    if multipliers is not None and given:
        start = np.maximum(multipliers[side.own], 0.0)
        mean, last = float(np.mean(start)), np.inf
        floor = FLOOR * mean / float(np.mean(side.norms)) * side.norms
        for share in SHIFTS:
            diagonal = start + floor + share * mean
            reached = side.bound_at(diagonal, 1.0)
            if reached < bound:
                best, bound = diagonal, reached
            if reached > last:  # larger shifts cost more and more
                break
            last = reached
    best, bound = side.polish(best, bound)
    whole[side.own] = bound * with_unit_sums(best, side.n_rows)
    return bound, whole


class Side(ABC):
    """S without its empty lines, and what the bounds need of it, dense or sparse."""

    own: Mask  # which rows, then which columns are not empty
    norms: Array  # of these
    n_rows: int

    @abstractmethod
    def norm_between(self, first: Array, second: Array, aim: float) -> float:
        """An upper bound on ||diag(first) S diag(second)||_2; what is below aim will do."""

    @abstractmethod
    def polish(self, diagonal: Array, bound: float) -> tuple[Array, float]:
        """A better diagonal and its bound, or the same."""

    def bound_at(self, diagonal: Array, aim: float) -> float:
        """c sqrt(sum(D1) sum(D2)) for a positive diagonal; c need not be known below aim."""
        first, second = diagonal[: self.n_rows], diagonal[self.n_rows :]
        largest = self.norm_between(1.0 / np.sqrt(first), 1.0 / np.sqrt(second), aim)
        return float(largest * np.sqrt(np.sum(first) * np.sum(second)))


class DenseSide(Side):
    """A dense S: norms by factorisations, and multipliers improved where S is small."""

    def __init__(self, dual: Array) -> None:
        sizes = np.abs(dual)
        rows, columns = np.max(sizes, axis=1, initial=0.0), np.max(sizes, axis=0, initial=0.0)
        self.scale = float(np.max(rows, initial=0.0))
        self.kept = dual[rows > 0.0][:, columns > 0.0] / (self.scale or 1.0)
        self.own, self.n_rows = np.concatenate([rows, columns]) > 0.0, self.kept.shape[0]
        squared = np.concatenate([squared_row_norms(self.kept), squared_row_norms(self.kept.T)])
        norms = np.sqrt(squared)
        self.norms = np.maximum(norms, LEAST_SHARE * np.max(norms, initial=0.0))

    def norm_between(self, first: Array, second: Array, aim: float) -> float:
        """The scaled norm by a decomposition or a Cholesky factorisation."""
        return self.scale * dense_norm(self.kept * first[:, None] * second)

    def polish(self, diagonal: Array, bound: float) -> tuple[Array, float]:
        """A better diagonal by an interior-point method, up to 400 rows and columns together."""
        if diagonal.size > POLISHED_ORDER:
            return diagonal, bound
        improved = interior_point(self.kept, diagonal, bound / self.scale)
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

    def norm_between(self, first: Array, second: Array, aim: float) -> float:
        """A bound on the scaled norm by Lanczos steps."""
        weights = np.zeros(self.own.size)
        weights[self.own] = np.concatenate([first, second])
        n_rows = self.dual.shape[0]
        between = self.dual.between(weights[:n_rows], weights[n_rows:])
        largest = spectral_bound(between, NORM_SLACK, aim / self.scale)
        rounding = 4.0 * EPS * float(np.linalg.norm(between.values))
        return self.scale * (largest + rounding)

    def polish(self, diagonal: Array, bound: float) -> tuple[Array, float]:
        """The diagonal as it is: ascent has improved what there is to improve."""
        return diagonal, bound


def line_sums(matrix: Sampled) -> Array:
    """The sums of all rows, then of all columns."""
    return np.concatenate([m @ np.ones(m.shape[1]) for m in (matrix, matrix.T)])


def dense_norm(scaled: Array) -> float:
    """An upper bound on ||A||_2 for an A whose entries have three roundings each."""
    # They move the norm by 3 eps || |A| ||_2, at most sqrt(rank) ||A||_2.
    rounding = 4.0 * EPS * (4.0 + np.sqrt(min(scaled.shape)))
    return spectral_bound(scaled, NORM_SLACK) * (1.0 + rounding)


def interior_point(dual: Array, diagonal: Array, bound: float) -> Array:
    """The diagonal D of least sum that keeps [[D1, S], [S', D2]] positive semidefinite.

    The primal-dual interior point method of Helmberg, Rendl, Vanderbei and Wolkowicz (SIAM
    J. Optim. 1996) for max-cut, whose semidefinite program has the same form: the other
    unknown X has diagonal 1/2, and tr(M X) is the distance from the optimum. Rounding ends
    it; whatever it returns gives a bound.
    """
    n_rows, n_columns = dual.shape
    order = n_rows + n_columns
    off_diagonal = np.zeros((order, order))
    off_diagonal[:n_rows, n_rows:] = dual
    off_diagonal[n_rows:, :n_rows] = dual.T
    # Well inside: from the edge of the cone the first steps would be short.
    diagonal = 2.0 * bound * with_unit_sums(diagonal, n_rows)
    other = 0.5 * np.eye(order)
    reduction = 0.1
    for _ in range(POLISHING_STEPS):
        check_time()
        matrix = off_diagonal + np.diag(diagonal)
        distance = float(np.vdot(matrix, other))
        if distance <= TOLERANCE * float(np.sum(diagonal)):
            break
        inverse = np.linalg.inv(matrix)
        target = reduction * distance / order
        move = np.linalg.solve(inverse * other, target * np.diag(inverse) - 0.5)
        turned = inverse @ (move[:, None] * other)
        move_other = target * inverse - other - 0.5 * (turned + turned.T)
        step, step_other = feasible(matrix, np.diag(move)), feasible(other, move_other)
        if min(step, step_other) < 0.01:
            break
        # Short steps come from a point near the edge: the next one leads back to the middle.
        reduction = 0.1 if min(step, step_other) > 0.5 else 0.5
        diagonal = diagonal + step * move
        other = other + step_other * move_other
    return diagonal


def with_unit_sums(diagonal: Array, n_rows: int) -> Array:
    """The diagonal with both blocks' sums scaled to 1."""
    first, second = diagonal[:n_rows], diagonal[n_rows:]
    return np.concatenate([first / np.sum(first), second / np.sum(second)])


def feasible(matrix: Array, move: Array) -> float:
    """A step that keeps a matrix positive definite, within a factor of the longest; 0 if none."""
    step = 1.0
    while step > 1e-6:
        if is_positive_definite(matrix + step * move):
            return 1.0 if step == 1.0 else 0.95 * step
        step *= 0.8
    return 0.0
