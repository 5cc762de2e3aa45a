"""Upper bounds on singular values that hold, not estimates that approach from below."""

import numpy as np
import scipy.linalg as sl

from mcframe.contracts.arrays import Array

__all__ = ["norm_upper_bound", "singular_value_bounds"]

EPS = float(np.finfo(np.float64).eps)
# Up to this smaller side a full decomposition is cheap; up to the next one, eigenvalues alone.
SVD_SIDE = 128
EIGENVALUE_SIDE = 1500


def singular_value_bounds(matrix: Array) -> Array:
    """Upper bounds on all singular values of a dense matrix, in descending order.

    Small matrices: a full decomposition, whose values are off by at most a small multiple of
    eps ||A||_2. Others: eigenvalues of the Gram matrix of the smaller side, raised by the
    bound gamma_n ||A||_F^2 on the rounding of the product and of the eigenvalue solver
    (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.5).
    Costs O(n d min(n, d)).
    """
    n_rows, n_columns = matrix.shape
    if min(n_rows, n_columns) <= SVD_SIDE:
        values = np.linalg.svd(matrix, compute_uv=False)
        return values + 10 * max(n_rows, n_columns) * EPS * values[:1]
    eigenvalues = sl.eigvalsh(gram(matrix), check_finite=False, overwrite_a=True, driver="evd")
    return np.sqrt(np.maximum(eigenvalues[::-1], 0.0) + gram_rounding(matrix))


def norm_upper_bound(matrix: Array, slack: float) -> float:
    """An upper bound on ||A||_2, within a relative ``slack`` of it where that is costly.

    Smaller side up to 1500: through ``singular_value_bounds``. Beyond: c is a bound if
    c^2 I - A'A has a Cholesky factor, tried from a lower bound upwards (power steps); n^3 / 3
    operations a trial instead of the eigenvalues.
    """
    if min(matrix.shape) <= EIGENVALUE_SIDE:
        return float(singular_value_bounds(matrix)[0])
    square = gram(matrix)
    rounding = gram_rounding(matrix)
    reached = rayleigh(square)
    grow = slack
    while True:
        trial = reached * (1.0 + grow) ** 2 + rounding
        shifted = -square
        shifted[np.diag_indices_from(shifted)] += trial
        if is_positive_definite(shifted):
            return float(np.sqrt(trial + rounding))
        grow *= 4.0


def gram(matrix: Array) -> Array:
    """A'A or AA', whichever is smaller, in full storage."""
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    product: Array = tall.T @ tall  # numpy calls syrk for a matrix times its own transpose
    return product


def gram_rounding(matrix: Array) -> float:
    """A bound on the error of the computed eigenvalues of the computed Gram matrix."""
    n_rows, n_columns = matrix.shape
    return (max(n_rows, n_columns) + 10 * min(n_rows, n_columns)) * EPS * float(
        np.vdot(matrix, matrix)
    )


def rayleigh(square: Array, block: int = 8, steps: int = 30) -> float:
    """A lower bound on the largest eigenvalue of a symmetric matrix, by block power steps."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((square.shape[0], block)))[0]
    for _ in range(steps):
        basis = np.linalg.qr(square @ basis)[0]
    return float(np.linalg.eigvalsh(basis.T @ square @ basis)[-1])


def is_positive_definite(matrix: Array) -> bool:
    """Whether a Cholesky factor exists; the matrix is overwritten."""
    try:
        sl.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return False
    return True
