"""The array types that every floor shares, and the singular values of arrays."""

from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator

Array: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]
#: A whole block as an answer: a DataFrame with the labels of the data if they were one, else an
#: array. Which of them it is depends on the data, which type checkers do not follow.
InFormOfData: TypeAlias = Any
#: Positions of rows or of columns, counted from 0: a list, an array or a Series of integers; None
#: of both are all.
Positions: TypeAlias = ArrayLike | None
#: Pairs of labels: a list of tuples, an array (n x 2), or a frame with a column of each side; what
#: is none of these is refused where they are read.
Pairs: TypeAlias = object
#: The numbers of rows and columns.
Shape: TypeAlias = tuple[int, int]
#: A matrix by its products, ``A @ V`` and ``A.T @ U``, and its multiples: an array, or SciPy's
#: ``LinearOperator``, of which only some entries may be known.
Matrix: TypeAlias = Array | LinearOperator


def class_offers(value: object, *names: str) -> bool:
    """Return True if the class of a value has all these members.

    The value itself is not asked: a frame has its columns as attributes, and a ``Delayed`` of Dask
    has any attribute.
    """
    return all(hasattr(type(value), name) for name in names)


def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Return U (n x k), s (k,) and V' (k x d) with ``matrix = U diag(s) V'`` and k = min(n, d).

    U and V have orthonormal columns; singular values s fall.
    LAPACK's fast algorithm (gesdd) does not converge for some rare matrices of ordinary numbers;
    these are decomposed by the slower one (gesvd).

    Raises
    ------
    numpy.linalg.LinAlgError
        If a number is not finite.
    """
    try:
        return np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        if not np.all(np.isfinite(matrix)):
            raise
        left, values, right = scipy.linalg.svd(matrix, full_matrices=False, lapack_driver="gesvd")
        return left, values, right


def singular_values(matrix: Array) -> Array:
    """Return the singular values (min(n, d),) of a matrix (n x d), with errors as ``svd``."""
    try:
        return np.asarray(np.linalg.svd(matrix, compute_uv=False))
    except np.linalg.LinAlgError:
        return svd(matrix)[1]
