"""Gaussians by their normal equations: draws, and the log densities that a sampler compares.

A row has the density proportional to ``exp(x'b - x'(A + D) x / 2)`` with A packed as in
``factor_loops`` and D the diagonal of its prior precisions. A draw costs k^3 / 6 + 2 k^2
multiplications, a density the same.
"""

import numpy as np

from mcframe.numerics.kernels import FAST_MATH
from mcframe.runtime.machine import compiled


@compiled(nogil=True, fastmath=FAST_MATH)
def factorise(matrix, precision, where, root):  # type: ignore[no-untyped-def]
    """The Cholesky factor of A + D of one row; False where it is not positive definite."""
    k = precision.size
    for a in range(k):
        for b in range(a + 1):
            total = matrix[where[a, b]]
            if a == b:
                total += precision[a]
            for c in range(b):
                total -= root[a, c] * root[b, c]
            if a == b:
                if not total > 0.0:
                    return False
                root[a, a] = np.sqrt(total)
            else:
                root[a, b] = total / root[b, b]
    return True


@compiled(nogil=True, fastmath=FAST_MATH)
def solve_lower(root, right, solved):  # type: ignore[no-untyped-def]
    """Solve L x = b for a lower triangular L; x overwrites ``solved``."""
    for a in range(right.size):
        total = right[a]
        for c in range(a):
            total -= root[a, c] * solved[c]
        solved[a] = total / root[a, a]


@compiled(nogil=True, fastmath=FAST_MATH)
def is_same(row, other, matrix_of_row, precisions):  # type: ignore[no-untyped-def]
    """True if two rows have the same A + D."""
    if matrix_of_row[row] != matrix_of_row[other]:
        return False
    same = True
    for a in range(precisions.shape[1]):
        same = same and precisions[row, a] == precisions[other, a]
    return same


@compiled(nogil=True, fastmath=FAST_MATH)
def draw_rows(  # type: ignore[no-untyped-def]
    matrices, matrix_of_row, order, right, precisions, where, origins, step, normal, draws,
    log_densities,
):  # fmt: skip
    """A draw for each row and its log density less a constant; False where there is no Gaussian.

    Of step 1 from the Gaussians themselves. Of a smaller one s from those with the means
    ``origin + s (mean - origin)`` and s (2 - s) times the covariance: a move from a draw of the
    Gaussian that leaves it as it is.

    Parameters
    ----------
    matrices : array (N x P)
        A, packed.
    matrix_of_row : array of integers (n,)
    order : array of integers (n,)
        Rows with the same A + D are factorised once where they follow each other.
    right : array (n x k)
        b.
    precisions : array (n x k)
        The diagonals of D.
    where : array (k x k)
        The places of the entries of A among the packed numbers.
    origins : array (n x k)
    step : float
    normal : array (n x k)
        Independent standard normal numbers.
    draws, log_densities : arrays (n x k), (n,)
        Overwritten.
    """
    n, k = right.shape
    root, solved, spread = np.empty((k, k)), np.empty(k), np.sqrt(step * (2.0 - step))
    log_determinant = 0.0
    for place in range(n):
        row = order[place]
        if place == 0 or not is_same(row, order[place - 1], matrix_of_row, precisions):
            if not factorise(matrices[matrix_of_row[row]], precisions[row], where, root):
                return False
            log_determinant = 0.0
            for a in range(k):
                log_determinant += np.log(root[a, a])
        log_density = log_determinant
        solve_lower(root, right[row], solved)
        for a in range(k):
            log_density -= 0.5 * normal[row, a] * normal[row, a]
        # L' draw = step L' mean + (1 - step) L' origin + spread normal, with L' mean = solved
        for a in range(k):
            across = 0.0
            if step < 1.0:
                for c in range(a, k):
                    across += root[c, a] * origins[row, c]
            solved[a] = step * solved[a] + (1.0 - step) * across + spread * normal[row, a]
        for a in range(k - 1, -1, -1):  # by the rows of L, which are contiguous
            number = solved[a] / root[a, a]
            draws[row, a] = number
            for c in range(a):
                solved[c] -= root[a, c] * number
        log_densities[row] = log_density
    return True


@compiled(nogil=True, fastmath=FAST_MATH)
def densities_of_rows(  # type: ignore[no-untyped-def]
    matrices, matrix_of_row, order, right, precisions, where, origins, step, points, log_densities
):
    """The log density of a point (n x k) in each row, less the constant of ``draw_rows``.

    -inf where there is no Gaussian, as far out where exponentials are beyond all precision: a
    move there is not taken.
    """
    n, k = right.shape
    root, solved, variance = np.empty((k, k)), np.empty(k), step * (2.0 - step)
    log_determinant, is_gaussian = 0.0, False
    for place in range(n):
        row = order[place]
        if place == 0 or not is_same(row, order[place - 1], matrix_of_row, precisions):
            is_gaussian = factorise(matrices[matrix_of_row[row]], precisions[row], where, root)
            log_determinant = 0.0
            if is_gaussian:
                for a in range(k):
                    log_determinant += np.log(root[a, a])
        if not is_gaussian:
            log_densities[row] = -np.inf
            continue
        log_density = log_determinant
        solve_lower(root, right[row], solved)
        for a in range(k):
            across = -step * solved[a]  # L'(x - its mean), whose squares are summed
            for c in range(a, k):
                across += root[c, a] * (points[row, c] - (1.0 - step) * origins[row, c])
            log_density -= 0.5 * across * across / variance
        log_densities[row] = log_density
