"""The array types that every floor shares."""

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "IntArray", "Mask", "Matrix"]

Array: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]


class Matrix(Protocol):
    """A matrix by its products: a dense array, or one of which only some entries are not 0."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n_rows, n_columns)."""
        ...

    @property
    def T(self) -> Any:  # noqa: N802
        """The transpose, a ``Matrix`` too."""
        ...

    def __matmul__(self, right: Any, /) -> Any:
        """The product with a dense vector or matrix, dense."""
        ...

    def __mul__(self, scale: Any, /) -> Any:
        """A multiple, a ``Matrix`` too."""
        ...

    def __rmul__(self, scale: Any, /) -> Any:
        """The same."""
        ...

    def __neg__(self) -> Any:
        """The negative, a ``Matrix`` too."""
        ...
