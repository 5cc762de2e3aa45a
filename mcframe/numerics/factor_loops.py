"""Sums over observed entries for Gaussian factors: normal equations of rows and of columns.

A symmetric K x K matrix is kept as its P = K (K + 1) / 2 numbers on and below the diagonal, row
after row, so that adding one is a loop over P numbers side by side. An entry costs P
multiplications in each loop, and four times as many for variances.
"""

import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.numerics.machine import compiled

FAST = {"reassoc", "contract", "nsz"}


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


def packed_squares(vectors: Array) -> Array:
    """The products x x' of vectors (n x K), packed (n x P)."""
    rows, columns = np.tril_indices(vectors.shape[1])
    return vectors[:, rows] * vectors[:, columns]


@compiled(nogil=True, fastmath=FAST)
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


@compiled(nogil=True, fastmath=FAST)
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


@compiled(nogil=True, fastmath=FAST)
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
