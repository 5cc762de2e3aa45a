"""The array types that every floor shares."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

Array: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]
#: The numbers of rows and columns.
Shape: TypeAlias = tuple[int, int]
#: A matrix by its products, ``A @ V`` and ``A.T @ U``, and its multiples: an array, or SciPy's
#: ``LinearOperator``, of which only some entries may be known.
Matrix: TypeAlias = Array | LinearOperator
