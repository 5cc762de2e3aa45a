"""A matrix held as the product of two thin factors."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.rounding import EPS
from mcframe.numerics.loops import kernels
from mcframe.numerics.machine.threads import matmul
from mcframe.numerics.operators.operator import Operator

__all__ = ["LowRank", "orthogonal_factors"]

# Sampled products run over slices of this many entries, so that their temporaries stay small.
SLICE = 262_144
# From so many multiplications on the compiled loop is worth being loaded: it takes a tenth of the
# time, 3 ms less here.
COMPILED = 300_000
# A column whose singular value is below this relative to the largest is dropped.
NEGLIGIBLE = 1e-10


@attrs.frozen(eq=False)
class LowRank(Operator):
    """``left @ right.T`` with left (n_rows x k) and right (n_columns x k)."""

    left: Array
    right: Array

    @classmethod
    def zeros(cls, shape: tuple[int, int]) -> "LowRank":
        """The zero matrix, with no factor at all."""
        return cls(np.zeros((shape[0], 0)), np.zeros((shape[1], 0)))

    @classmethod
    def of(cls, dense: Array) -> "LowRank":
        """A dense matrix in factors, by a full singular value decomposition."""
        left, singular_values, right = np.linalg.svd(dense, full_matrices=False)
        smallest = max(dense.shape) * np.finfo(float).eps * np.max(singular_values, initial=0.0)
        kept = singular_values > smallest
        return cls(left[:, kept] * singular_values[kept], right[kept].T)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.left.shape[0], self.right.shape[0]

    @property
    def width(self) -> int:
        """The number of factors: an upper bound on the rank."""
        return self.left.shape[1]

    @property
    def rounding(self) -> float:
        """Rounding of products, and of entries by themselves, which are sums of k numbers.

        Products of the factors sum n_rows or n_columns and then k numbers.
        """
        lengths = float(np.linalg.norm(self.left) * np.linalg.norm(self.right))
        return EPS * (sum(self.shape) + 2 * self.width + 8) * lengths

    def multiple(self, factor: float) -> "LowRank":
        """The left factor scaled."""
        return LowRank(factor * self.left, self.right)

    def _transpose(self) -> "LowRank":
        return LowRank(self.right, self.left)

    def _matmat(self, block: Array) -> Array:
        product: Array = self.left @ (self.right.T @ block)
        return product

    def _rmatmat(self, block: Array) -> Array:
        product: Array = self.right @ (self.left.T @ block)
        return product

    def dense(self) -> Array:
        """The whole matrix."""
        return matmul(self.left, self.right.T)

    def columns(self, columns: slice) -> "LowRank":
        """The matrix restricted to some columns."""
        return LowRank(self.left, self.right[columns])

    def at(self, rows: IntArray, columns: IntArray) -> Array:
        """The entries at (rows, columns), without forming the matrix."""
        n_cells = self.shape[0] * self.shape[1]
        if n_cells <= 4 * rows.size:
            # One flat index is twice as fast as a pair of them.
            entries: Array = np.take(self.dense(), rows * self.shape[1] + columns)
            return entries
        entries = np.empty(rows.size)
        if rows.size * self.width > COMPILED:
            left, right = np.ascontiguousarray(self.left), np.ascontiguousarray(self.right)
            kernels.low_rank_entries(rows, columns, left, right, entries)
            return entries
        for start in range(0, rows.size, SLICE):
            part = slice(start, start + SLICE)
            np.einsum(
                "ij,ij->i", self.left[rows[part]], self.right[columns[part]], out=entries[part]
            )
        return entries

    def balance(self) -> Array:
        """The two factors stacked, scaled so that their longest rows are equally long."""
        left = np.sqrt(np.max(np.sum(np.square(self.left), axis=1), initial=0.0))
        right = np.sqrt(np.max(np.sum(np.square(self.right), axis=1), initial=0.0))
        if left == 0.0 or right == 0.0:
            return np.zeros((sum(self.shape), self.width))
        ratio = np.sqrt(right / left)
        return np.vstack([self.left * ratio, self.right / ratio])

    def singular_values(self) -> Array:
        """All singular values that may differ from 0, in descending order.

        Two thin QR factorisations and one small decomposition: O((n_rows + n_columns) k^2).
        """
        if self.width == 0:
            return np.zeros(0)
        if self.width >= min(self.shape):
            return np.linalg.svd(self.dense(), compute_uv=False)
        left: Any = np.linalg.qr(self.left, mode="r")
        right: Any = np.linalg.qr(self.right, mode="r")
        return np.linalg.svd(left @ right.T, compute_uv=False)

    @property
    def length(self) -> float:
        """The Frobenius norm, through the products of the factors' columns."""
        squares = np.sum((self.left.T @ self.left) * (self.right.T @ self.right))
        return float(np.sqrt(max(float(squares), 0.0)))

    @property
    def rank(self) -> int:
        """The number of singular values above rounding."""
        values = self.singular_values()
        smallest = max(self.shape) * np.finfo(float).eps * np.max(values, initial=0.0)
        return int(np.count_nonzero(values > smallest))

    def with_columns(self, columns: slice, value: float | Array) -> "LowRank":
        """The matrix with some columns overwritten by a constant, or one a row, exactly."""
        right = self.right.copy()
        right[columns] = 0.0
        unit = np.zeros((self.shape[1], 1))
        unit[columns] = 1.0
        left = np.column_stack([self.left, np.broadcast_to(value, self.shape[:1])])
        return LowRank(left, np.hstack([right, unit]))


def orthogonal_factors(left: Array, right: Array) -> tuple[Array, Array, Array]:
    """Factors of U V' with orthogonal columns, equally long on both sides, none negligible."""
    (left, upper), (right, lower) = np.linalg.qr(left), np.linalg.qr(right)
    turned, s, across = np.linalg.svd(upper @ lower.T, full_matrices=False)
    kept = s > NEGLIGIBLE * float(np.max(s, initial=0.0))
    roots = np.sqrt(s[kept])
    return (left @ turned[:, kept]) * roots, s[kept], (right @ across[kept].T) * roots
