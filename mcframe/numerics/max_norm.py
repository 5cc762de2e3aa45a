"""The max norm (gamma_2) of a dense matrix and its dual norm, each from both sides.

gamma_2(Z) is the least product of the largest row norms of U and V over all Z = U V'.
"""

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.numerics.krylov import krylov
from mcframe.numerics.spectral_norm import is_positive_definite, norm_upper_bound

__all__ = [
    "dual_max_norm_bound",
    "dual_max_norm_split",
    "max_norm",
    "max_norm_bounds",
    "max_norm_multipliers",
    "squared_row_norms",
]

EPS = float(np.finfo(np.float64).eps)
# Where lower and upper bound count as equal.
TOLERANCE = 1e-10
# Singular values below this share of the largest join the residual.
RANK_TOLERANCE = 1e-13
# Operations of one Newton step, N^2 (N + k^2), up to which Newton is used.
NEWTON_COST = 2e10
NEWTON_STEPS = 80
FIXED_POINT_STEPS = 1000
# Shares of the norms of S's rows that are added to multipliers: some may be 0 or too small.
FLOORS = (1e-9, 1e-7, 1e-5, 1e-3, 1e-1)
# Shares of the estimated shift that are tried, and the steps of its estimate.
SHIFTS, LANCZOS_STEPS = (1.0, 1.1, 2.0), 120
# Multipliers are at least this share of the largest norm of a row.
LEAST_SHARE = 1e-20
# A row of factors shorter than the longest by the root of this counts as 0.
SHORT_ROW = 1e-20
# Up to this many rows and columns together, multipliers are improved to the optimum.
POLISHED_ORDER = 400
POLISHING_STEPS = 60
# How far above a norm its bound is tried first.
NORM_SLACK = 1e-10


def squared_row_norms(matrix: Array) -> Array:
    """||row||^2 of every row."""
    norms: Array = np.einsum("ij,ij->i", matrix, matrix)
    return norms


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
    stacked, lower = best_factors(kept, threshold / scale)
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


def best_factors(dense: Array, threshold: float) -> tuple[Array, float]:
    """Stacked factors with the least largest row norms that were found, and a lower bound."""
    n_rows, n_columns = dense.shape
    left, values, right = np.linalg.svd(dense, full_matrices=False)
    rank = int(np.count_nonzero(values > RANK_TOLERANCE * values[0]))
    root = np.sqrt(values[:rank])
    basis = np.vstack([left[:, :rank] * root, right[:rank].T * root])
    order = n_rows + n_columns
    newton = order**2 * (order + rank**2) <= NEWTON_COST
    weights: Array = np.repeat([1.0 / n_rows, 1.0 / n_columns], [n_rows, n_columns])
    slacks: Array = np.zeros(0)
    lower, upper = 0.0, np.inf
    for step in range(NEWTON_STEPS if newton else FIXED_POINT_STEPS):
        stacked, values = balanced_factors(basis, weights, n_rows)
        total = float(np.sum(values))
        norms = squared_row_norms(stacked)
        reached = float(np.sqrt(np.max(norms[:n_rows]) * np.max(norms[n_rows:])))
        if reached < upper:
            best, upper = stacked, reached
        sums = float(np.sum(weights[:n_rows]) * np.sum(weights[n_rows:]))
        lower = max(lower, total / np.sqrt(sums))
        if upper - lower <= TOLERANCE * upper or upper < threshold or lower > threshold:
            break
        if step < 3 or not newton:
            # A maximiser has p_i (|u_i|^2 - f) = 0: rows longer than that gain weight.
            weights = np.maximum(weights * norms / total, 1e-14)
            weights[:n_rows] /= np.sum(weights[:n_rows])
            weights[n_rows:] /= np.sum(weights[n_rows:])
        else:
            weights, slacks = newton_step(stacked, values, weights, slacks, n_rows)
    return best, lower


def balanced_factors(basis: Array, weights: Array, n_rows: int) -> tuple[Array, Array]:
    """U and V, stacked, with U' diag(p) U = V' diag(q) V = diag(s), and s.

    They are the given factors times T and the inverse of T', so that their product stays the
    same to rounding even where weights next to 0 make T a little wrong.
    """
    root = np.sqrt(weights)[:, None]
    first = triangular(root[:n_rows] * basis[:n_rows])
    second = triangular(root[n_rows:] * basis[n_rows:])
    turn, values, _ = np.linalg.svd(first @ second.T)
    change = np.linalg.solve(first, turn * np.sqrt(values))
    inverse = np.linalg.inv(change)
    return np.vstack([basis[:n_rows] @ change, basis[n_rows:] @ inverse.T]), values


def triangular(tall: Array) -> Array:
    """R of the QR decomposition, without Q."""
    return np.asarray(np.linalg.qr(tall, mode="r"))


def newton_step(
    stacked: Array, values: Array, weights: Array, slacks: Array, n_rows: int
) -> tuple[Array, Array]:
    """One primal-dual step towards min over w >= 0 of sum(w) / 2 - log f(w), and its slacks.

    f is positively homogeneous in p and in q, so that minimisers have sums 1 by themselves.
    The slope is (1 - |row|^2 / f) / 2. With U' diag(p) U = diag(s) the second derivatives of
    f are -sum over a, b of y_ia y_ja y_ib y_jb / (2 (s_a + s_b)), the other sign between a row
    of U and a row of V.
    """
    total = float(np.sum(values))
    norms = squared_row_norms(stacked)
    slope = 0.5 - 0.5 * norms / total
    if slacks.size == 0:
        slacks = np.maximum(slope, 0.0) + 0.05
    hessian = np.outer(norms, norms) / (4.0 * total**2)
    signs = np.ones(weights.size)
    signs[n_rows:] = -1.0
    for a in range(values.size):
        # Pairs a <= b, those with a < b twice.
        counts = np.where(np.arange(a, values.size) == a, 1.0, 2.0)
        factor = np.sqrt(counts / (2.0 * total * (values[a] + values[a:]))) * stacked[:, a:]
        factor *= (signs * stacked[:, a])[:, None]
        hessian += factor @ factor.T
    target = max(0.1 * float(weights @ slacks), 0.2 * TOLERANCE) / weights.size
    hessian.ravel()[:: weights.size + 1] += slacks / weights
    move = np.linalg.solve(hessian, target / weights - slope)
    move_slacks = (target - slacks * move) / weights - slacks
    return np.maximum(advanced(weights, move), 1e-14), advanced(slacks, move_slacks)


def advanced(positive: Array, move: Array) -> Array:
    """The point moved as far as it stays positive, at most by the whole move."""
    fastest = float(np.max(-move / positive))
    return positive + min(1.0, 0.95 / max(fastest, 1e-300)) * move


def max_norm_multipliers(slope: Array, stacked: Array) -> Array:
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


def dual_max_norm_bound(dual: Array, multipliers: Array | None = None) -> float:
    """An upper bound on gamma_2*(S) = max of <S, Z> over all Z of max norm at most 1.

    If [[D1, S], [S', D2]] is positive semidefinite, D diagonal, then
    gamma_2*(S) <= sum(D) / 2, since |u' S v| <= (u' D1 u + v' D2 v) / 2 column by column of U
    and V. Any positive D becomes such a matrix once multiplied by
    c = ||D1^-1/2 S D2^-1/2||_2, and the best split of the two blocks' scales makes that
    c sqrt(sum(D1) sum(D2)), with c bounded from above. Up to 400 rows and columns together D
    is improved until the bound is exact to about 1e-9; beyond, it is as good as the
    multipliers.

    Parameters
    ----------
    dual : array
        S, (n_rows x n_columns).
    multipliers : array, optional
        The diagonal of D to begin with, up to a common factor: not negative, one number for
        each row of S, then for each column. By default the norms of rows and columns.
    """
    return dual_max_norm_split(dual, multipliers)[0]


def dual_max_norm_split(dual: Array, multipliers: Array | None = None) -> tuple[float, Array]:
    """That bound, and the diagonal of a D with this half sum that proves it."""
    rows, columns = np.any(dual, axis=1), np.any(dual, axis=0)
    kept = dual[rows][:, columns]
    whole = np.zeros(sum(dual.shape))
    if kept.size == 0:
        return 0.0, whole
    scale = float(np.max(np.abs(kept)))
    kept = kept / scale
    own = np.concatenate([rows, columns])
    norms = np.sqrt(np.concatenate([squared_row_norms(kept), squared_row_norms(kept.T)]))
    norms = np.maximum(norms, LEAST_SHARE * np.max(norms))  # positive where squares underflow
    candidates = [norms]
    if multipliers is not None and np.any(multipliers[own] > 0.0):
        start = np.maximum(multipliers[own], 0.0)
        start = start * (np.mean(norms) / np.mean(start))
        candidates += [start + share * norms for share in FLOORS]
        # The least common shift that makes the multipliers' own matrix positive semidefinite:
        # tight near an optimum, where hardly any is needed.
        raw = np.maximum(multipliers[own], 0.0) / scale
        shift = missing_shift(kept, raw)
        least = LEAST_SHARE * float(np.max(norms))
        candidates += [raw + max(share * shift, least) for share in SHIFTS]
    bounds = [bound_at(kept, diagonal) for diagonal in candidates]
    if norms.size <= POLISHED_ORDER:
        candidates.append(polished(kept, candidates[int(np.argmin(bounds))]))
        bounds.append(bound_at(kept, candidates[-1]))
    best = int(np.argmin(bounds))
    bound = scale * bounds[best]
    whole[own] = bound * evened(candidates[best], kept.shape[0])
    return bound, whole


def missing_shift(dual: Array, diagonal: Array) -> float:
    """An estimate of minus the lowest eigenvalue of [[D1, S], [S', D2]], 0 if that is positive.

    From Lanczos steps, which approach it from above: ``bound_at`` makes up for what is missing.
    """
    n_rows, order = dual.shape[0], diagonal.size

    def times(vector: Array) -> Array:
        image = diagonal * vector
        image[:n_rows] += dual @ vector[n_rows:]
        image[n_rows:] += dual.T @ vector[:n_rows]
        return image

    start = np.random.default_rng(0).standard_normal(order)
    ritz = krylov(times, start, min(LANCZOS_STEPS, order))[1]
    return max(0.0, -float(np.linalg.eigvalsh(ritz)[0]))


def bound_at(dual: Array, diagonal: Array) -> float:
    """c sqrt(sum(D1) sum(D2)) for a positive diagonal."""
    n_rows = dual.shape[0]
    first, second = diagonal[:n_rows], diagonal[n_rows:]
    scaled = dual / np.sqrt(first)[:, None] / np.sqrt(second)
    # Three roundings an entry move the norm by 3 eps || |A| ||_2, at most sqrt(rank) ||A||_2.
    rounding = 4.0 * EPS * (4.0 + np.sqrt(min(dual.shape)))
    largest = norm_upper_bound(scaled, NORM_SLACK) * (1.0 + rounding)
    return float(largest * np.sqrt(np.sum(first) * np.sum(second)))


def polished(dual: Array, diagonal: Array) -> Array:
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
    diagonal = 2.0 * bound_at(dual, diagonal) * evened(diagonal, n_rows)
    other = 0.5 * np.eye(order)
    reduction = 0.1
    for _ in range(POLISHING_STEPS):
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


def evened(diagonal: Array, n_rows: int) -> Array:
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


def factors_of(dense: Array) -> Array:
    """Stacked factors of a dense matrix whose longest rows are as short as can be."""
    n_rows, n_columns = dense.shape
    rows, columns = np.any(dense, axis=1), np.any(dense, axis=0)
    kept = without_zeros(dense)
    if kept.size == 0:
        return np.zeros((n_rows + n_columns, 1))
    scale = float(np.max(np.abs(kept)))
    stacked, _ = best_factors(kept / scale, np.nan)
    whole = np.zeros((n_rows + n_columns, stacked.shape[1]))
    whole[np.concatenate([rows, columns])] = stacked * np.sqrt(scale)
    return whole
