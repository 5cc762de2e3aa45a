"""Positive scales of rows and columns: of matrices in factors, of entries, of operators."""

from functools import cached_property

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.numerics.operators.low_rank import LowRank
from mcframe.numerics.operators.operator import Derived

__all__ = ["Rescaled", "Scales"]


@attrs.frozen(eq=False)
class Scales:
    """``diag(rows) A diag(columns)`` with positive scales."""

    rows: Array
    columns: Array

    def of(self, latent: LowRank) -> LowRank:
        """The scaled matrix in scaled factors."""
        left, right = self.rows[:, None] * latent.left, self.columns[:, None] * latent.right
        return LowRank(left, right)

    def at(self, rows: IntArray, columns: IntArray) -> Array:
        """What some entries are multiplied by."""
        return np.take(self.rows, rows) * np.take(self.columns, columns)

    def block(self, columns: slice) -> Array:
        """What the entries of some columns are multiplied by, written out."""
        return np.outer(self.rows, self.columns[columns])

    @property
    def inverse(self) -> "Scales":
        """The way back."""
        return Scales(1.0 / self.rows, 1.0 / self.columns)

    @cached_property
    def largest(self) -> float:
        """The largest number that an entry is multiplied by."""
        return float(np.max(self.rows) * np.max(self.columns))


@attrs.frozen(eq=False)
class Rescaled(Derived):
    """``diag(rows) A diag(columns)`` for a matrix that is known by its products."""

    scales: Scales

    @property
    def rounding(self) -> float:
        """The rounding of A, times the largest scale."""
        return self.scales.largest * self.operator.rounding

    def _matmat(self, block: Array) -> Array:
        product: Array = self.operator @ (self.scales.columns[:, None] * block)
        return self.scales.rows[:, None] * product

    def _rmatmat(self, block: Array) -> Array:
        product: Array = self.operator.T @ (self.scales.rows[:, None] * block)
        return self.scales.columns[:, None] * product
