"""A matrix that is at hand."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS
from mcframe.numerics.machine.threads import matmul
from mcframe.numerics.operators.operator import Operator

__all__ = ["Dense", "as_operator"]


@attrs.frozen(eq=False)
class Dense(Operator):
    """An array (n_rows x n_columns), of 64 or 32 bits, which its products keep."""

    array: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.array.shape[0], self.array.shape[1]

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        """The array's type of number."""
        return self.array.dtype

    @property
    def rounding(self) -> float:
        """A sum of so many products each way."""
        return EPS * (sum(self.shape) + 8) * float(np.linalg.norm(self.array))

    def multiple(self, factor: float) -> "Dense":
        """The array times a factor, multiplied out."""
        return Dense(factor * self.array)

    def _transpose(self) -> "Dense":  # a view
        return Dense(self.array.T)

    def dense(self) -> Array:
        """The array itself."""
        return self.array

    def _matmat(self, block: Array) -> Array:
        return matmul(self.array, block)

    def _rmatmat(self, block: Array) -> Array:
        return matmul(self.array.T, block)


def as_operator(matrix: Any) -> Operator:
    """The matrix itself, or an array as one."""
    return matrix if isinstance(matrix, Operator) else Dense(np.asarray(matrix))
