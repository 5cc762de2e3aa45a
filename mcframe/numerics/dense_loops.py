"""Passes over whole matrices, compiled and fused: each reads and writes but once.

One thread each: it takes most of what memory gives, and threads of theirs would still be
spinning while those of the matrix products begin. Matrices are of 32 or 64 bits. Products with a
few columns read a matrix of 32 bits as it is, and add in 64.
"""

from mcframe.numerics.kernels import FAST
from mcframe.numerics.machine import compiled


@compiled(fastmath=FAST)
def extrapolate(now, before, theta, out):  # type: ignore[no-untyped-def]
    """out = now + theta (now - before)."""
    now, before, out = now.ravel(), before.ravel(), out.ravel()
    for i in range(now.size):
        out[i] = now[i] + theta * (now[i] - before[i])


@compiled()
def descend(places, z, gradient, step, out):  # type: ignore[no-untyped-def]
    """out[places] = z - step * gradient, the matrix read row by row."""
    out = out.ravel()
    for p in range(places.size):
        out[places[p]] = z[p] - step * gradient[p]


@compiled(fastmath=FAST)
def products(new, now, before):  # type: ignore[no-untyped-def]
    """||new - now||^2 and <new - now, now - before>."""
    new, now, before = new.ravel(), now.ravel(), before.ravel()
    squared = cross = 0.0
    for i in range(new.size):
        moved = new[i] - now[i]
        squared += moved * moved
        cross += moved * (now[i] - before[i])
    return squared, cross


@compiled(nogil=True, fastmath=FAST)
def rows_times(matrix, right, out):  # type: ignore[no-untyped-def]
    """out = matrix right' for a few rows of ``right``."""
    for i in range(matrix.shape[0]):
        for c in range(right.shape[0]):
            total = 0.0
            for j in range(matrix.shape[1]):
                total += matrix[i, j] * right[c, j]
            out[i, c] = total


@compiled(nogil=True, fastmath=FAST)
def add_columns_times(matrix, left, out):  # type: ignore[no-untyped-def]
    """out += left' matrix for a few columns of ``left``.

    Four rows at a time: the numbers of ``out`` are read and written once for them.
    """
    n_rows, n_columns = matrix.shape
    fours = n_rows - n_rows % 4
    for c in range(out.shape[0]):
        for i in range(0, fours, 4):
            w, x, y, z = left[i, c], left[i + 1, c], left[i + 2, c], left[i + 3, c]
            for j in range(n_columns):
                two = w * matrix[i, j] + x * matrix[i + 1, j]
                out[c, j] += two + (y * matrix[i + 2, j] + z * matrix[i + 3, j])
        for i in range(fours, n_rows):
            for j in range(n_columns):
                out[c, j] += left[i, c] * matrix[i, j]
