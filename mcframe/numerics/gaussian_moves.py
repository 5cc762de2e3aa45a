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
def draw_rows(  # type: ignore[no-untyped-def]
    matrices, right, precisions, where, origins, step, normal, draws, log_densities
):
    """A draw for each row and its log density less a constant; False where there is no Gaussian.

    Of step 1 from the Gaussians themselves. Of a smaller one s from those with the means
    ``origin + s (mean - origin)`` and s (2 - s) times the covariance: a move from a draw of the
    Gaussian that leaves it as it is.

    Parameters
    ----------
    matrices, right : arrays (n x P), (n x k)
        A, packed, and b.
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
    for row in range(n):
        if not factorise(matrices[row], precisions[row], where, root):
            return False
        log_density = 0.0
        solve_lower(root, right[row], solved)
        for a in range(k):
            log_density += np.log(root[a, a]) - 0.5 * normal[row, a] * normal[row, a]
        # L' draw = step L' mean + (1 - step) L' origin + spread normal, with L' mean = solved
        for a in range(k):
            across = 0.0
            for c in range(a, k):
                across += root[c, a] * origins[row, c]
            solved[a] = step * solved[a] + (1.0 - step) * across + spread * normal[row, a]
        for a in range(k - 1, -1, -1):
            total = solved[a]
            for c in range(a + 1, k):
                total -= root[c, a] * draws[row, c]
            draws[row, a] = total / root[a, a]
        log_densities[row] = log_density
    return True


@compiled(nogil=True, fastmath=FAST_MATH)
def densities_of_rows(  # type: ignore[no-untyped-def]
    matrices, right, precisions, where, origins, step, points, log_densities
):
    """The log density of a point (n x k) in each row, less the constant of ``draw_rows``.

    -inf where there is no Gaussian, as far out where exponentials are beyond all precision: a
    move there is not taken.
    """
    n, k = right.shape
    root, solved, variance = np.empty((k, k)), np.empty(k), step * (2.0 - step)
    for row in range(n):
        if not factorise(matrices[row], precisions[row], where, root):
            log_densities[row] = -np.inf
            continue
        log_density = 0.0
        solve_lower(root, right[row], solved)
        for a in range(k):
            across = -step * solved[a]  # L'(x - its mean), whose squares are summed
            for c in range(a, k):
                across += root[c, a] * (points[row, c] - (1.0 - step) * origins[row, c])
            log_density += np.log(root[a, a]) - 0.5 * across * across / variance
        log_densities[row] = log_density
