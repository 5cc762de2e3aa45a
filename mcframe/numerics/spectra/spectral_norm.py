"""Upper bounds on singular values that hold, not estimates that approach from below."""

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS
from mcframe.numerics.machine.threads import gram
from mcframe.numerics.spectra.eigenpairs import largest_eigenvalue

__all__ = ["norm_upper_bound", "singular_value_bounds"]

# Up to this smaller side a full decomposition is cheap.
SVD_SIDE = 128
# Up to this smaller side all eigenvalues cost less than the six trials or so that make up for a
# Lanczos estimate which is too low: at 943 as much as 2.6 trials.
EIGENVALUES_SIDE = 1000


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
    eigenvalues = np.linalg.eigvalsh(small_gram(matrix))
    return np.sqrt(np.maximum(eigenvalues[::-1], 0.0) + gram_rounding(matrix))


def norm_upper_bound(matrix: Array, slack: float) -> float:
    """An upper bound on ||A||_2, within about a relative ``slack`` of it.

    Up to 1000 rows or columns: all singular values. Others: c is a bound if c^2 I - A'A has a
    Cholesky factor. c is tried from just above a Lanczos estimate, which approaches from below,
    and raised until the factorisation succeeds: d^3 / 3 operations a trial, a fraction of what
    eigenvalues cost, after n d^2 for the Gram matrix of the smaller side d. Where singular
    values crowd, as they do at an optimum, the estimate is too low, and so the bound too high.
    """
    if not min(matrix.shape):
        return 0.0
    if min(matrix.shape) <= EIGENVALUES_SIDE:
        return float(singular_value_bounds(matrix)[0])
    square = small_gram(matrix)
    rounding = gram_rounding(matrix)
    if rounding == 0.0:
        return 0.0
    estimate = largest_eigenvalue(square)
    margin = slack
    while True:
        trial = estimate * (1.0 + margin) ** 2 + rounding
        shifted = -square
        shifted.ravel()[:: square.shape[0] + 1] += trial
        if is_positive_definite(shifted):
            return float(np.sqrt(trial + rounding))
        margin *= 10.0


def small_gram(matrix: Array) -> Array:
    """A'A or AA', whichever is smaller, in full storage."""
    return gram(matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T)


def gram_rounding(matrix: Array) -> float:
    """A bound on the error of the computed eigenvalues of the computed Gram matrix."""
    n_rows, n_columns = matrix.shape
    return (
        (max(n_rows, n_columns) + 10 * min(n_rows, n_columns))
        * EPS
        * float(np.vdot(matrix, matrix))
    )


def is_positive_definite(matrix: Array) -> bool:
    """Whether a Cholesky factor exists."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True
