"""The max norm (gamma_2) of a dense matrix from both sides.

gamma_2(Z) is the least product of the largest row norms of U and V over all Z = U V'.
"""

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.numerics.machine import check_time

# Where lower and upper bound count as equal.
TOLERANCE = 1e-10
# Singular values below this share of the largest join the residual.
RANK_TOLERANCE = 1e-13
# Operations of one Newton step, N^2 (N + k^2), up to which Newton is used.
NEWTON_COST = 2e10
NEWTON_STEPS = 80
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
        check_time()
        stacked, values = balanced_factors(basis, weights, n_rows)
        total = float(np.sum(values))
        norms = squared_row_norms(stacked)
        longest = float(np.sqrt(np.max(norms[:n_rows]) * np.max(norms[n_rows:])))
        if longest < upper:
            best, upper = stacked, longest
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
    target = max(0.1 * float(weights @ slacks), 0.2 * TOLERANCE) / weights.size
    hessian.ravel()[:: weights.size + 1] += slacks / weights
    move = np.linalg.solve(hessian, target / weights - gradient)
    move_slacks = (target - slacks * move) / weights - slacks
    return np.maximum(advance(weights, move), 1e-14), advance(slacks, move_slacks)


def advance(positive: Array, move: Array) -> Array:
    """The point moved as far as it stays positive, at most by the whole move."""
    fastest = float(np.max(-move / positive))
    return positive + min(1.0, 0.95 / max(fastest, 1e-300)) * move


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
