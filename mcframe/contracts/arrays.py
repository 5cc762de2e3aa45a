"""The array types that every floor shares, observations between limits, and singular values.

An array of floats has the values of observations that are known exactly. An array of the dtype
``INTERVALS`` has two numbers for each element, ``y["lower"]`` and ``y["upper"]``: equal ones are
an exact value, and an infinite one is no limit. An array of the dtype ``EXPOSED`` has labels and
their propensities, ``y["label"]`` and ``y["propensity"]``. Whatever takes some of the entries, or
another order of them, treats all kinds of arrays alike; whatever computes with the numbers asks
here.
"""

from collections.abc import Callable
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

#: The dtype of observations that may be intervals.
INTERVALS = np.dtype([("lower", np.float64), ("upper", np.float64)])
#: The dtype of labels with the probability that each is recorded.
EXPOSED = np.dtype([("label", np.float64), ("propensity", np.float64)])


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


def between(lower: Array, upper: Array) -> Array:
    """Return the observations with these limits, of the dtype ``INTERVALS``."""
    observations: Any = np.empty(np.shape(lower), dtype=INTERVALS)
    observations["lower"], observations["upper"] = lower, upper
    both: Array = observations
    return both


def exposed(labels: Array, propensities: Array) -> Array:
    """Return labels with these propensities, of the dtype ``EXPOSED``."""
    observations: Any = np.empty(np.shape(labels), dtype=EXPOSED)
    observations["label"], observations["propensity"] = labels, propensities
    both: Array = observations
    return both


def labels_of(y: Array) -> Array:
    """Return observations without their propensities, if they have some."""
    fields: Any = y
    return fields["label"] if y.dtype == EXPOSED else y


def propensities_of(y: Array) -> Array | float:
    """Return the propensities of labels, 1 where they have none."""
    fields: Any = y
    return fields["propensity"] if y.dtype == EXPOSED else 1.0


def ends_of(y: Array) -> tuple[Array, Array]:
    """Return the lower and the upper limit of observations; of exact ones both are the value."""
    fields: Any = labels_of(y)
    return (fields, fields) if fields.dtype.names is None else (fields["lower"], fields["upper"])


def is_interval(y: Array) -> Mask:
    """Return True where an observation is not known exactly."""
    lower, upper = ends_of(y)
    return lower < upper


def ranges_of_observations(y: Array) -> tuple[Array, Array]:
    """Return the least and the largest number that is known of each observation, both finite."""
    lower, upper = ends_of(y)
    return np.where(np.isinf(lower), upper, lower), np.where(np.isinf(upper), lower, upper)


def points_of(y: Array) -> Array:
    """Return one number within the limits of each observation: the value, if it is known.

    The middle of two finite limits, else the finite one.
    """
    y = labels_of(y)
    if y.dtype.names is None:
        return y
    least, largest = ranges_of_observations(y)
    return np.asarray(np.where(least == largest, least, least + 0.5 * (largest - least)))


def sizes_of(y: Array) -> Array:
    """Return the size of the largest number that is known of each observation."""
    y = labels_of(y)
    if y.dtype.names is None:
        return np.abs(y)
    least, largest = ranges_of_observations(y)
    return np.maximum(np.abs(least), np.abs(largest))


def nearest_to(y: Array, numbers: Array) -> Array:
    """Return the number within the limits of each observation that is nearest to another one."""
    lower, upper = ends_of(y)
    return np.clip(numbers, lower, upper)


def mapped(y: Array, function: Callable[[Array], Array]) -> Array:
    """Return observations whose values, or both limits, are those that a function returns.

    The function increases in each number. Labels keep their propensities.
    """
    if y.dtype == EXPOSED:
        return exposed(function(labels_of(y)), np.asarray(propensities_of(y)))
    return function(y) if y.dtype.names is None else between(*map(function, ends_of(y)))
