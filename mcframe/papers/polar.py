"""The polar factor of a matrix: a subgradient of its nuclear norm."""

import numpy as np

from mcframe.contracts.arrays import Array

__all__ = ["nuclear_subgradient"]

# A Gram matrix squares the condition number: it serves matrices whose singular values span less
# than this, and leaves the factor exact to eps / 1e-8.
GRAM_SPAN = 1e-4
# Singular values below this share of the largest one count as 0.
RANK_ROUNDING = 1e-12


def nuclear_subgradient(matrix: Array) -> tuple[float, Array]:
    """``||A||_*``, and its subgradient U V' at A = U diag(s) V' over the positive s.

    Of all subgradients the one of least norm (Watson, Linear Algebra Appl. 170, 1992). Through
    the eigenvectors of the Gram matrix of the smaller side, U V' = A (A'A)^(-1/2), where A is
    far from singular; that takes a quarter of the time of a singular value decomposition,
    which serves where it is not.

    Parameters
    ----------
    matrix : array (n_rows, n_columns)

    Examples
    --------
    >>> import numpy as np
    >>> from mcframe.papers.polar import nuclear_subgradient
    >>> value, factor = nuclear_subgradient(np.diag([3.0, 2.0]))
    >>> round(value, 12), bool(np.allclose(factor, np.eye(2)))
    (5.0, True)
    """
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    eigenvalues, vectors = np.linalg.eigh(tall.T @ tall)
    if eigenvalues[0] <= GRAM_SPAN**2 * eigenvalues[-1]:
        return by_decomposition(matrix)
    values = np.sqrt(eigenvalues)
    factor = tall @ ((vectors / values) @ vectors.T)
    return float(np.sum(values)), factor if tall is matrix else factor.T


def by_decomposition(matrix: Array) -> tuple[float, Array]:
    """Return norm and polar factor by a singular value decomposition."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    kept = values > RANK_ROUNDING * max(float(values[0]), np.finfo(float).tiny)
    return float(np.sum(values)), left[:, kept] @ right[kept]
