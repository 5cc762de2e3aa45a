"""The max norm (gamma_2) of a matrix from both sides, and its dual norm.

gamma_2(Z) is the least product of the largest row norms of U and V over all Z = U V', and
gamma_2*(S) is the largest <S, Z> over all Z = U V' whose factors have rows of norm at most 1.
S is dense, or a ``Sampled`` of which only some entries are not 0.
"""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Mask, Matrix, svd
from mcframe.contracts.limits import MOST_OPERATIONS, MOST_STEPS, SMALL_ORDER
from mcframe.contracts.rounding import EPS, RESULT_ROUNDING, SUM_ROUNDING, TINY
from mcframe.numerics.norms import spectral_bound
from mcframe.numerics.operators import Dense, Operator, as_operator, stacked_gradient
from mcframe.numerics.sampled import Sampled
from mcframe.runtime.machine import check_time

# Where lower and upper bound count as equal.
GAP_TOLERANCE = 1e-10
FIXED_POINT_STEPS = 1000


def squared_row_norms(matrix: Array) -> Array:
    """||row||^2 of every row."""
    return np.einsum("ij,ij->i", matrix, matrix)


def max_norm(dense: Array) -> float:
    """The upper end of ``max_norm_bounds``: the max norm, or a factorisation's bound on it."""
    return max_norm_bounds(dense)[1]


def max_norm_bounds(dense: Array, threshold: float = np.nan) -> tuple[float, float]:
    """A lower and an upper bound on the max norm that meet to 1e-10, relative, if it converges.

    Stops early once ``threshold`` lies outside of them. Matrices of a few hundred rows and
    columns converge in about 20 steps of O(N^3 + N^2 k^2) operations, N rows and columns of
    rank k; beyond, first-order steps may leave a relative distance of 1e-6 or so. The upper
    bound holds in any case: it is the largest row norm of factors plus that of their
    residual.

    For weights p of the rows and q of the columns, f(p, q) = ||diag(p)^1/2 Z diag(q)^1/2||_*
    over sqrt(sum p sum q) is a lower bound, and a concave numerator: the least
    (p'|U|^2 + q'|V|^2) / 2 over all factors, |U|^2 the squared row norms. The best factors
    come from its singular value decomposition, and bound the max norm from above.
    """
    kept = without_zeros(dense)
    if kept.size == 0:
        return 0.0, 0.0
    scale = float(np.max(np.abs(kept)))
    kept = kept / scale
    stacked, lower, _ = best_factors(kept, threshold / scale)
    left, right = stacked[: kept.shape[0]], stacked[kept.shape[0] :]
    norms = squared_row_norms(left), squared_row_norms(right)
    residual = kept - left @ right.T
    # gamma_2(E) is at most the largest norm of a row of E = E I, or of a column.
    missed = min(np.max(squared_row_norms(residual)), np.max(squared_row_norms(residual.T)))
    upper = np.sqrt(np.max(norms[0]) * np.max(norms[1])) + np.sqrt(missed)
    return scale * lower, scale * float(upper)


def without_zeros(dense: Array) -> Array:
    """The matrix without its rows and columns of zeros."""
    return dense[np.any(dense, axis=1)][:, np.any(dense, axis=0)]


def best_factors(dense: Array, threshold: float) -> tuple[Array, float, Array]:
    """Stacked factors with the least largest row norms that were found, and a lower bound.

    With the weights of rows and columns that prove the bound.
    """
    n_rows, n_columns = dense.shape
    # Rows of the factors of small columns are exact relative to the column, not to all of Z.
    sizes = np.max(np.abs(dense), axis=0)
    left, values, right = svd(dense / sizes)
    rank = int(np.count_nonzero(values > SUM_ROUNDING * values[0]))
    root = np.sqrt(values[:rank])
    basis = np.vstack([left[:, :rank] * root, right[:rank].T * root * sizes[:, None]])
    order = n_rows + n_columns
    newton = order**2 * (order + rank**2) <= MOST_OPERATIONS
    weights: Array = np.repeat([1.0 / n_rows, 1.0 / n_columns], [n_rows, n_columns])
    slacks: Array = np.zeros(0)
    best, proving, lower, upper = basis, weights, 0.0, np.inf
    for step in range(MOST_STEPS if newton else FIXED_POINT_STEPS):
        check_time()
        try:
            stacked, values = balanced_factors(basis, weights, n_rows)
        except np.linalg.LinAlgError:  # weights next to 0 leave factors of a lower rank
            break
        total = float(np.sum(values))
        norms = squared_row_norms(stacked)
        longest = float(np.sqrt(np.max(norms[:n_rows]) * np.max(norms[n_rows:])))
        if longest < upper:
            best, upper = stacked, longest
        sums = float(np.sum(weights[:n_rows]) * np.sum(weights[n_rows:]))
        if total / np.sqrt(sums) > lower:
            lower, proving = total / np.sqrt(sums), weights
        if upper - lower <= GAP_TOLERANCE * upper or upper < threshold or lower > threshold:
            break
        if step < 3 or not newton:
            # A maximiser has p_i (|u_i|^2 - f) = 0: rows longer than that gain weight.
            weights = np.maximum(weights * norms / total, 1e-14)
            weights[:n_rows] /= np.sum(weights[:n_rows])
            weights[n_rows:] /= np.sum(weights[n_rows:])
        else:
            weights, slacks = primal_dual_step(stacked, values, weights, slacks, n_rows)
    return best, lower, proving


def max_norm_subgradient(dense: Array) -> Array:
    """G with ``<G, X> <= gamma_2(X)`` for all X, with equality at this Z, nearly.

    With weights p and q that sum to 1, and the singular vectors U, V of
    ``diag(p)^1/2 Z diag(q)^1/2``, that is ``G = diag(p)^1/2 U V' diag(q)^1/2``.
    """
    rows, columns = np.any(dense, axis=1), np.any(dense, axis=0)
    gradient, kept = np.zeros(dense.shape), without_zeros(dense)
    if kept.size == 0:
        return gradient
    weights = best_factors(kept / float(np.max(np.abs(kept))), np.nan)[2]
    first, second = np.split(np.sqrt(weights), [kept.shape[0]])
    first, second = first / np.linalg.norm(first), second / np.linalg.norm(second)
    left, _, right = svd(first[:, None] * kept * second)
    gradient[np.ix_(rows, columns)] = first[:, None] * (left @ right) * second
    return gradient


def balanced_factors(basis: Array, weights: Array, n_rows: int) -> tuple[Array, Array]:
    """U and V, stacked, with U' diag(p) U = V' diag(q) V = diag(s), and s.

    They are the given factors times T and the inverse of T', so that their product stays the
    same to rounding even where weights next to 0 make T a little wrong.
    """
    root = np.sqrt(weights)[:, None]
    first = triangular(root[:n_rows] * basis[:n_rows])
    second = triangular(root[n_rows:] * basis[n_rows:])
    turn, values, _ = svd(first @ second.T)
    change = np.linalg.solve(first, turn * np.sqrt(values))
    inverse = np.linalg.inv(change)
    return np.vstack([basis[:n_rows] @ change, basis[n_rows:] @ inverse.T]), values


def triangular(tall: Array) -> Array:
    """R of the QR decomposition, without Q."""
    return np.asarray(np.linalg.qr(tall, mode="r"))


def primal_dual_step(
    stacked: Array, values: Array, weights: Array, slacks: Array, n_rows: int
) -> tuple[Array, Array]:
    """One primal-dual step towards min over w >= 0 of sum(w) / 2 - log f(w), and its slacks.

    f is positively homogeneous in p and in q, so that minimisers have sums 1 by themselves.
    The gradient is (1 - |row|^2 / f) / 2. With U' diag(p) U = diag(s) the second derivatives of
    f are -sum over a, b of y_ia y_ja y_ib y_jb / (2 (s_a + s_b)), the other sign between a row
    of U and a row of V.
    """
    total = float(np.sum(values))
    norms = squared_row_norms(stacked)
    gradient = 0.5 - 0.5 * norms / total
    if slacks.size == 0:
        slacks = np.maximum(gradient, 0.0) + 0.05
    hessian = np.outer(norms, norms) / (4.0 * total**2)
    signs = np.ones(weights.size)
    signs[n_rows:] = -1.0
    for a in range(values.size):
        # Pairs a <= b, those with a < b twice.
        counts = np.where(np.arange(a, values.size) == a, 1.0, 2.0)
        factor = np.sqrt(counts / (2.0 * total * (values[a] + values[a:]))) * stacked[:, a:]
        factor *= (signs * stacked[:, a])[:, None]
        hessian += factor @ factor.T
    target = max(0.1 * float(weights @ slacks), 0.2 * GAP_TOLERANCE) / weights.size
    hessian.ravel()[:: weights.size + 1] += slacks / weights
    move = np.linalg.solve(hessian, target / weights - gradient)
    move_slacks = (target - slacks * move) / weights - slacks
    return np.maximum(positive_move(weights, move), 1e-14), positive_move(slacks, move_slacks)


def positive_move(positive: Array, move: Array) -> Array:
    """The point moved as far as it stays positive, at most by the whole move."""
    fastest = float(np.max(-move / positive))
    return positive + min(1.0, 0.95 / max(fastest, TINY)) * move


def factors_of(dense: Array) -> Array:
    """Stacked factors of a dense matrix whose longest rows are as short as can be."""
    n_rows, n_columns = dense.shape
    rows, columns = np.any(dense, axis=1), np.any(dense, axis=0)
    kept = without_zeros(dense)
    if kept.size == 0:
        return np.zeros((n_rows + n_columns, 1))
    scale = float(np.max(np.abs(kept)))
    stacked = best_factors(kept / scale, np.nan)[0]
    whole = np.zeros((n_rows + n_columns, stacked.shape[1]))
    whole[np.concatenate([rows, columns])] = stacked * np.sqrt(scale)
    return whole


# A squared row of factors, or a multiplier, below this share of the largest counts as 0.
NEGLIGIBLE_SHARE = 1e-20
# Steps of ascent; the gain of one that ends it, as a share of what all have gained, which is the
# gap that a bound from there would have, at most the first where that may do, and the second where
# it is too large anyway.
ASCENT_STEPS, USEFUL_GAIN_SHARE, USELESS_GAIN_SHARE = 300, 1e-4, 1e-2
# The columns of the random factors that an ascent begins from where those given are 0.
INITIAL_WIDTH = 20


def max_norm_multipliers(gradient: Matrix, stacked: Array) -> Array:
    """d_i = max(0, -(G V . U)_i / ||u_i||^2) for the rows of U, alike for those of V.

    What stationarity, (D + [[0, G], [G', 0]]) W = 0, asks of the diagonal D row by row. A row
    of zeros leaves it open: 0.
    """
    gradients = stacked_gradient(gradient, stacked)
    norms = squared_row_norms(stacked)
    long = norms > NEGLIGIBLE_SHARE * np.max(norms, initial=0.0)
    products = -np.einsum("ij,ij->i", gradients, stacked)
    return np.maximum(np.where(long, products, 0.0) / np.where(long, norms, 1.0), 0.0)


@attrs.frozen(eq=False)
class Ascent:
    """The end of an ascent of -<G, U V'> over factors with rows of norm 1 at most.

    Attributes
    ----------
    multipliers : array
        D of the last factors, one number for each row of G, then for each column.
    begun, final : float
        -<G, U V'> at the factors given, scaled to rows of norm 1 at most, and at the last ones.
        Both are lower bounds on the dual max norm of G; a dual point with the gradient G has at
        the factors given a gap of the norm less ``begun``, in units of their longest row squared.
    longest : float
        The squared norm of the longest row of the factors given.
    """

    multipliers: Array
    begun: float
    final: float
    longest: float


def ascend(gradient: Matrix, stacked: Array, allowed_gap: float = 0.0) -> Ascent:
    """Ascent from factors W to those that nearly maximise -<G, U V'> over rows of norm 1.

    The rows of U that are best for V are those of -G V at length 1, and their lengths before
    are the multipliers (the mixing method of Wang, Chang and Kolter, arXiv:1706.00476, by
    blocks). So all of U and all of V take turns, V extrapolated as by Nesterov, from factors
    that maximise nearly. Any D gives a bound; that of a maximiser the best. Costs two products of
    G with W a step.

    It ends where a step gains little relative to the gain g of all steps, which is the gap to be
    bounded. Factors that are short of the maximum by d cost the bound about sqrt(d), so that a
    step below g^2 keeps that below g. Once g is more than ``allowed_gap``, if that is positive,
    a step of 1e-2 g will do.
    """
    n_rows = gradient.shape[0]
    longest = float(np.max(squared_row_norms(stacked), initial=0.0)) or 1.0
    begun = -float(np.vdot(gradient @ stacked[n_rows:], stacked[:n_rows])) / longest
    right = before = with_unit_rows(stacked[n_rows:])[0]
    best, momentum = 0.0, 1.0
    for _ in range(ASCENT_STEPS):
        check_time()
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        left, _ = with_unit_rows(
            -(gradient @ (right + (momentum - 1.0) / faster * (right - before)))
        )
        before = right
        right, lengths = with_unit_rows(-(gradient.T @ left))
        total = float(np.sum(lengths))
        momentum = faster if total > best else 1.0
        gained = total - begun
        hopeless = 0.0 < allowed_gap < longest * gained
        share = USELESS_GAIN_SHARE if hopeless else min(USEFUL_GAIN_SHARE, gained / (total or 1.0))
        settled = abs(total - best) <= max(SUM_ROUNDING * total, share * gained)
        best = total
        if settled:
            break
    return Ascent(
        np.concatenate([with_unit_rows(gradient @ right)[1], lengths]), begun, best, longest
    )


def with_unit_rows(matrix: Array) -> tuple[Array, Array]:
    """The rows at length 1, those of zeros as they are, and their lengths."""
    lengths = np.sqrt(squared_row_norms(matrix))
    return matrix / np.where(lengths > 0.0, lengths, 1.0)[:, None], lengths


# Shares of the mean multiplier that are tried to make up for factors that lack a column: first as
# a share of what the bound exceeds half their sum by, then so many times as much, at most that.
FIRST_SHIFT, SHIFT_GROWTH, LARGEST_SHIFT = 0.2, 4.0, 1e-2
# Multipliers that prove half their sum up to this share need no shift.
UNSHIFTED_EXCESS = 1e-5
# The share of a gap that a first shift of its multipliers costs.
SHIFT_GAP_SHARE = 0.01
# Up to this many rows and columns together multipliers are improved to the optimum for a
# certificate; up to ``SMALL_ORDER`` unasked.
LARGEST_POLISHED = 1000
# They are improved where more than this share of the gap is theirs; and where a bound is aimed at
# that lies at least so far on the way from the final value of the ascent to the bound without.
MULTIPLIER_GAP_SHARE, REACHABLE_AIM_SHARE = 0.1, 0.25


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
    side = Side(dual)
    best, bound = side.best_of(multipliers)
    proven = 0.0 if multipliers is None else side.half_sum(multipliers[side.own])
    if best.size <= SMALL_ORDER and abs(bound - proven) > UNSHIFTED_EXCESS * proven:
        best, bound = side.polish(best, bound)
    return bound, side.whole(best, bound)


def bounding_multipliers(gradient: Matrix, stacked: Array, allowed_gap: float = 0.0) -> Array:
    """The diagonal of a D that proves a small bound on gamma_2*(G), G the gradient at factors W.

    By ascent from W. The gap of the bound that follows is what the bound on gamma_2* exceeds
    <-G, U V'> by, rows of W scaled to norm 1 at most, in units of the longest one squared. Up to
    1000 rows and columns together interior-point steps follow where they may bring that gap
    below ``allowed_gap`` or, where none is given, where D is to blame for a tenth of it and more.
    Where W is 0, as at an optimum of 0, the ascent begins from random factors, and the best bound
    is sought.

    Parameters
    ----------
    gradient : array or Sampled
        G, (n_rows x n_columns).
    stacked : array
        W, (n_rows + n_columns) x k.
    allowed_gap : float
        The gap that will do, as an absolute number; 0 asks for the best bound.
    """
    is_zero = not np.any(stacked)
    if is_zero:
        # No direction to begin from, and no gap that is a multiple of the longest row.
        rng = np.random.default_rng(0)
        stacked, allowed_gap = rng.standard_normal((stacked.shape[0], INITIAL_WIDTH)), 0.0
    ascent, side = ascend(gradient, stacked, allowed_gap), Side(gradient)
    # A shift that costs this much can make up for more.
    shift = SHIFT_GAP_SHARE * max(ascent.final - ascent.begun, 0.0) / (0.5 * sum(gradient.shape))
    shifted = np.where(side.own, ascent.multipliers + shift, 0.0)
    if side.norms.size > LARGEST_POLISHED:
        return shifted
    best, bound = side.best_of(shifted)
    if allowed_gap > 0.0:
        aim = ascent.begun + allowed_gap / ascent.longest
        polish = ascent.final + REACHABLE_AIM_SHARE * (bound - ascent.final) <= aim < bound
    else:
        aim = 0.0
        polish = is_zero or bound - ascent.final > MULTIPLIER_GAP_SHARE * (bound - ascent.begun)
    if polish:
        best, bound = side.polish(best, bound, aim)
    return side.whole(best, bound)


class Side:
    """S with entries of size 1, a small one written out, and the norms of its rows and columns.

    Norms of what is written out are found by eigenvalues, those of a sparse S by Lanczos steps
    from a random start, see ``spectral_bound``. Cost of such a bound: products with S and with S'
    for each of 24 to 800 steps. Memory: some six numbers an observed entry, and up to 400 vectors
    of the smaller side.
    """

    def __init__(self, dual: Matrix) -> None:
        matrix = as_operator(dual)
        if not (isinstance(matrix, Sampled) and sum(matrix.shape) > LARGEST_POLISHED):
            matrix = Dense(matrix.dense())
        numbers = known_entries(matrix)
        self.scale = float(np.max(np.abs(numbers), initial=0.0))  # the size of S's entries
        self.dual = with_numbers(matrix, numbers / (self.scale or 1.0))
        scaled = known_entries(self.dual)
        # Which rows, then which columns are not empty.
        self.own: Mask = row_and_column_sums(with_numbers(matrix, np.abs(scaled))) > 0.0
        self.n_rows = int(np.count_nonzero(self.own[: matrix.shape[0]]))
        norms = np.sqrt(row_and_column_sums(with_numbers(matrix, np.square(scaled)))[self.own])
        # Of these; positive where squares underflow.
        self.norms: Array = np.maximum(norms, NEGLIGIBLE_SHARE * np.max(norms, initial=0.0))

    def between(self, diagonal: Array) -> Operator:
        """D1^-1/2 S D2^-1/2 for an S with entries of size 1 and a positive diagonal D."""
        weights = np.zeros(self.own.size)
        weights[self.own] = 1.0 / np.sqrt(diagonal)
        left, right = np.split(weights, [self.dual.shape[0]])
        if isinstance(self.dual, Sampled):
            return self.dual.between(left, right)
        return Dense(known_entries(self.dual) * left[:, None] * right)

    def bound_at(self, diagonal: Array, aim: float) -> float:
        """c sqrt(sum(D1) sum(D2)) for a positive diagonal; c need not be known below aim."""
        between = self.between(diagonal)
        norm = spectral_bound(between, aim / self.scale)
        # Three operations round each entry.
        rounding = 4.0 * EPS * float(np.linalg.norm(known_entries(between)))
        return self.scale * (norm + rounding) * self.half_sum(diagonal)

    def best_of(self, multipliers: Array | None) -> tuple[Array, float]:
        """Shifted multipliers and their bound; without any the norms of rows and columns."""
        if self.norms.size == 0:
            return self.norms, 0.0
        if multipliers is not None and np.any(multipliers[self.own] > 0.0):
            return self.shifted(np.maximum(multipliers[self.own], 0.0))
        return self.norms, self.bound_at(self.norms, np.inf)

    def shifted(self, start: Array) -> tuple[Array, float]:
        """Multipliers with the shift that makes their bound the best, and the bound."""
        mean = float(np.mean(start))
        best = start + RESULT_ROUNDING * mean / float(np.mean(self.norms)) * self.norms
        bound = self.bound_at(best, 1.0)
        proven = self.half_sum(start)
        if bound <= (1.0 + UNSHIFTED_EXCESS) * proven:
            return best, bound
        share = (
            min(FIRST_SHIFT * (bound / proven - 1.0), LARGEST_SHIFT)
            if proven > 0.0
            else RESULT_ROUNDING
        )
        while share <= LARGEST_SHIFT:
            diagonal = start + share * mean
            next_bound = self.bound_at(diagonal, 1.0)
            if next_bound >= bound and np.isfinite(bound):  # larger shifts cost more and more
                break
            best, bound, share = diagonal, next_bound, SHIFT_GROWTH * share
        return best, bound

    def half_sum(self, diagonal: Array) -> float:
        """sqrt(sum(D1) sum(D2)): half the sum of a diagonal at the best split of both scales."""
        first, second = diagonal[: self.n_rows], diagonal[self.n_rows :]
        return float(np.sqrt(np.sum(first) * np.sum(second)))

    def polish(self, diagonal: Array, bound: float, aim: float = 0.0) -> tuple[Array, float]:
        """A better diagonal and its bound, or the same; a bound of ``aim`` will do.

        By an interior-point method. Of a sparse S ascent has improved what there is to improve.
        """
        if diagonal.size == 0 or isinstance(self.dual, Sampled):
            return diagonal, bound
        rows, columns = np.split(self.own, [self.dual.shape[0]])
        kept = known_entries(self.dual)[rows][:, columns]
        improved = interior_point(kept, diagonal, bound / self.scale, aim / self.scale)
        improved_bound = self.bound_at(improved, 1.0)
        return (improved, improved_bound) if improved_bound < bound else (diagonal, bound)

    def whole(self, diagonal: Array, bound: float) -> Array:
        """A diagonal with this half sum for all rows and columns, 0 for empty ones."""
        whole = np.zeros(self.own.size)
        if diagonal.size:
            whole[self.own] = bound * with_unit_sums(diagonal, self.n_rows)
        return whole


def known_entries(matrix: Operator) -> Array:
    """The entries of a matrix that is written out, or of a sparse one those that are known."""
    return matrix.values if isinstance(matrix, Sampled) else matrix.dense()


def with_numbers(matrix: Operator, numbers: Array) -> Operator:
    """A matrix of the same form with other entries."""
    return Sampled(matrix.pattern, numbers) if isinstance(matrix, Sampled) else Dense(numbers)


def row_and_column_sums(matrix: Operator) -> Array:
    """The sums of all rows, then of all columns."""
    return np.concatenate([m @ np.ones(m.shape[1]) for m in (matrix, matrix.T)])


def interior_point(dual: Array, diagonal: Array, bound: float, aim: float = 0.0) -> Array:
    """The diagonal D of least sum that keeps [[D1, S], [S', D2]] positive semidefinite.

    The primal-dual interior point method of Helmberg, Rendl, Vanderbei and Wolkowicz (SIAM
    J. Optim. 1996) for max-cut, whose semidefinite program has the same form: the other
    unknown X has diagonal 1/2, and tr(M X) is the distance from the optimum. Rounding ends
    it; whatever it returns gives a bound. A step costs about 8 N^3 operations, N rows and columns
    together.

    Parameters
    ----------
    dual : array
        S, (n_rows x n_columns), its entries of size 1.
    diagonal : array
        A positive diagonal of which a multiple proves ``bound``: where to begin.
    bound : float
        An upper bound on the dual max norm of S.
    aim : float, optional
        A bound that will do. The iteration ends where that is proven or shown to be impossible; by
        default, 0, where the bound is exact to a relative 1e-10.
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
    for _ in range(MOST_STEPS):
        check_time()
        matrix = off_diagonal + np.diag(diagonal)
        distance, total = float(np.vdot(matrix, other)), float(np.sum(diagonal))
        # The optimum lies between the half sum less the distance and the half sum.
        highest = (1.0 + RESULT_ROUNDING) * 0.5 * total  # a bound by a norm is so exact
        decided = aim > 0.0 and not 0.5 * total - distance <= aim < highest
        if distance <= GAP_TOLERANCE * total or decided:
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
        try:
            np.linalg.cholesky(matrix + step * move)
        except np.linalg.LinAlgError:
            step *= 0.8
        else:
            return 1.0 if step == 1.0 else 0.95 * step
    return 0.0
