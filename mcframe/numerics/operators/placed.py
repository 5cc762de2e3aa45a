"""A matrix that stands at some columns of a wider one."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.numerics.operators.operator import Operator

__all__ = ["Placed"]


@attrs.frozen(eq=False)
class Placed(Operator):
    """A at ``columns`` of a matrix with ``n_columns``, which is 0 elsewhere."""

    operator: Operator
    columns: slice
    n_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.operator.shape[0], self.n_columns

    @property
    def rounding(self) -> float:
        """The rounding of A."""
        return self.operator.rounding

    def multiple(self, factor: float) -> "Placed":
        """The multiple of A at the same place."""
        return Placed(self.operator.multiple(factor), self.columns, self.n_columns)

    def _matmat(self, block: Array) -> Array:
        product: Array = self.operator @ block[self.columns]
        return product

    def _rmatmat(self, block: Array) -> Array:
        product = np.zeros((self.n_columns, block.shape[1]))
        product[self.columns] = self.operator.T @ block
        return product
