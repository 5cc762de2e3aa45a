"""Sums over observed entries for Gaussian factors: normal equations of rows and of columns.

A symmetric K x K matrix is kept as its P = K (K + 1) / 2 numbers on and below the diagonal, row
after row, so that adding one is a loop over P numbers side by side. An entry costs P
multiplications in each loop, and four times as many for variances.
"""

import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.numerics.kernels import FAST_MATH
from mcframe.numerics.row_mixtures import invert
from mcframe.runtime.machine import compiled

# Beside offsets that factors have to make up for, an inverse alone leaves no digits of z.
REFINEMENT_STEPS = 2
# An inverse of a matrix of unit diagonal that is larger than this is rounding.
LARGEST_INVERSE = 1e14


def packed_size(width: int) -> int:
    """The number of distinct entries of a symmetric matrix."""
    return width * (width + 1) // 2


def unpacking(width: int) -> IntArray:
    """The place of each entry (K x K) of a symmetric matrix among its packed numbers."""
    rows, columns = np.indices((width, width))
    high, low = np.maximum(rows, columns), np.minimum(rows, columns)
    return high * (high + 1) // 2 + low


def packed(matrices: Array) -> Array:
    """Symmetric matrices (n x K x K) packed (n x P)."""
    rows, columns = np.tril_indices(matrices.shape[-1])
    return np.ascontiguousarray(matrices[..., rows, columns])


@compiled(nogil=True, fastmath=FAST_MATH)
def add_by_rows(  # type: ignore[no-untyped-def]
    first, last, starts, across, places, values, precisions, scales, means, squares, matrices,
    vectors,
):  # fmt: skip
    """Normal equations of some rows: sums of precision * E[w w'] and precision * value * E[w].

    The precision of an entry is ``precisions[place] * scales[column]``; E[w] are ``means``
    (n_columns x K) and E[w w'] ``squares`` (n_columns x P). Entries of row r are added to row
    r - first of ``matrices`` (n_rows x P) and ``vectors`` (n_rows x K), which begin at 0.
    """
    width, size = means.shape[1], squares.shape[1]
    for row in range(first, last):
        matrix, vector = matrices[row - first], vectors[row - first]
        for p in range(starts[row], starts[row + 1]):
            column, place = across[p], places[p]
            weight = precisions[place] * scales[column]
            for k in range(size):
                matrix[k] += weight * squares[column, k]
            weight *= values[place]
            for k in range(width):
                vector[k] += weight * means[column, k]


@compiled(nogil=True, fastmath=FAST_MATH)
def add_by_columns(  # type: ignore[no-untyped-def]
    first, last, starts, across, places, values, precisions, means, squares, matrices, vectors,
    totals,
):  # fmt: skip
    """Add the entries of some rows to the normal equations of all columns.

    As ``add_by_rows`` with the moments of rows, the first one that of row ``first``; ``totals``
    (n_columns x 2) gets the sums of precisions and of precision * value^2.
    """
    width, size = means.shape[1], squares.shape[1]
    for row in range(first, last):
        mean, square = means[row - first], squares[row - first]
        for p in range(starts[row], starts[row + 1]):
            column, place = across[p], places[p]
            weight = precisions[place]
            matrix, vector = matrices[column], vectors[column]
            for k in range(size):
                matrix[k] += weight * square[k]
            totals[column, 0] += weight
            weight *= values[place]
            totals[column, 1] += weight * values[place]
            for k in range(width):
                vector[k] += weight * mean[k]


@compiled(nogil=True, fastmath=FAST_MATH)
def scatter_rows(  # type: ignore[no-untyped-def]
    first, last, starts, across, places, values, precisions, weights, products, totals
):
    """Write the entries of some rows into matrices: precisions, and precision * value.

    Entries of row r go to row r - first of ``weights`` and ``products`` (n_rows x n_columns),
    which begin at 0; ``totals`` (n_columns x 2) get sums as in ``add_by_columns``.
    """
    for row in range(first, last):
        for p in range(starts[row], starts[row + 1]):
            column, place = across[p], places[p]
            weight = precisions[place]
            weights[row - first, column] = weight
            products[row - first, column] = weight * values[place]
            totals[column, 0] += weight
            totals[column, 1] += weight * values[place] * values[place]


@compiled(nogil=True, fastmath=FAST_MATH)
def add_residual_squares(z, y, weights, columns, sums):  # type: ignore[no-untyped-def]
    """Add ``weight (y - z)^2`` of the entries (m x N) of chains to sums of columns (m x d)."""
    for chain in range(z.shape[0]):
        for p in range(z.shape[1]):
            residual = y[chain, p] - z[chain, p]
            sums[chain, columns[p]] += weights[p] * residual * residual


@compiled(nogil=True, fastmath=FAST_MATH)
def predictor_moments(  # type: ignore[no-untyped-def]
    first, last, starts, across, places, row_means, row_covariances, means, covariances, mean,
    variance,
):  # fmt: skip
    """Mean and variance of x'w at the entries of some rows, written to their places.

    Var[x'w] = E[w]' C_x E[w] + E[x]' C_w E[x] + tr(C_x C_w), so that no large numbers cancel.
    Moments of rows begin with row ``first``; covariances are packed.
    """
    width = means.shape[1]
    for row in range(first, last):
        x, spread = row_means[row - first], row_covariances[row - first]
        for p in range(starts[row], starts[row + 1]):
            column, place = across[p], places[p]
            w, other = means[column], covariances[column]
            total, k = 0.0, 0
            for a in range(width):
                inner = 0.0
                for b in range(a):
                    inner += spread[k] * (w[a] * w[b] + other[k]) + other[k] * x[a] * x[b]
                    k += 1
                total += 2.0 * inner
                total += spread[k] * (w[a] * w[a] + other[k]) + other[k] * x[a] * x[a]
                k += 1
            product = 0.0
            for a in range(width):
                product += x[a] * w[a]
            mean[place], variance[place] = product, max(total, 0.0)  # rounding may be below 0


@compiled(nogil=True, fastmath={"contract", "nsz"})
def solve_equations(  # type: ignore[no-untyped-def]
    matrices, right, precisions, where, means, covariances, log_determinants
):
    """Solve (A + diag(precisions)) x = b for each row; False where one is not positive definite.

    In units in which the diagonal is 1: a prior of a small variance would else spoil the digits of
    the other numbers.

    Parameters
    ----------
    matrices, right : arrays (n x P), (n x k)
        A, packed, and b.
    precisions : array (n or 1 x k)
    where : array (k x k)
        The places of the entries of A, and of the inverse, among the packed numbers.
    means, covariances, log_determinants : arrays (n x k), (n x P), (n,)
        Overwritten by x, the inverse, and its log determinant.
    """
    n, k = right.shape
    system, matrix = np.empty((k, k)), np.empty((k, k))
    # No parts of one array, which would count as strided: ``invert`` takes 2.5 times as long then.
    panel, columns, factors = np.empty((4, k)), np.empty((4, k)), np.empty((4, k))
    scale, residual = np.empty(k), np.empty(k)
    for row in range(n):
        precision = precisions[row % len(precisions)]
        for a in range(k):
            for b in range(a):
                matrix[a, b] = matrices[row, where[a, b]] * scale[b]
            matrix[a, a] = matrices[row, where[a, a]] + precision[a]
            scale[a] = 1.0 / np.sqrt(matrix[a, a])
            for b in range(a):
                matrix[a, b] *= scale[a]
                matrix[b, a] = matrix[a, b]
            matrix[a, a] = 1.0
        system[:] = matrix
        log_determinants[row] = 2.0 * np.sum(np.log(scale)) - invert(
            system, panel, columns, factors
        )
        for a in range(k):
            if not -system[a, a] < LARGEST_INVERSE:
                return False
            for b in range(a):
                system[b, a] = system[a, b]
        x = means[row]
        x[:] = 0.0
        for _ in range(REFINEMENT_STEPS):
            for a in range(k):
                total = scale[a] * right[row, a]
                for b in range(k):
                    total -= matrix[a, b] * x[b]
                residual[a] = total
            for a in range(k):
                for b in range(k):
                    x[b] -= system[a, b] * residual[a]
        for a in range(k):
            x[a] *= scale[a]
            for b in range(a + 1):
                covariances[row, where[a, b]] = -system[a, b] * scale[a] * scale[b]
    return True
