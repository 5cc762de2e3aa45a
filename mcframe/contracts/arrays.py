"""The array types that every floor shares."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "IntArray", "Mask"]

Array: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]
