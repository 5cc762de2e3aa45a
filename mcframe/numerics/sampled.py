"""Matrices of which some entries are known and the others 0, and the places of these."""

import hashlib
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.rounding import EPS
from mcframe.numerics import kernels
from mcframe.numerics.kernels import Compressed
from mcframe.numerics.operators import Operator

# Sums across rows pay where a matrix has so many entries for each of them: else the parts of such
# sums take more memory than a second order of the entries.
LEAST_ENTRIES_PER_ROW = 24
# The mean number of entries of a row up to which Gram matrices are written out: each takes as many
# additions as it has pairs.
LARGEST_MEAN_ROW = 64


@attrs.frozen(eq=False)
class Pattern:
    """Places of the known entries, by rows and by columns. 16 bytes an entry.

    ``seed`` are whole numbers from which random starts for bounds on norms are drawn.
    """

    shape: tuple[int, int]
    by_rows: Compressed
    by_columns: Compressed
    seed: tuple[int, ...] = (0,)

    @classmethod
    def of(cls, shape: tuple[int, int], rows: IntArray, columns: IntArray) -> "Pattern":
        """The pattern of entries at these rows and columns, in the order of their numbers."""
        places = np.arange(rows.size, dtype=np.int32)
        table = sp.coo_array((places, (rows, columns)), shape=shape).tocsr()
        return cls(shape, Compressed.of(table), Compressed.of(table.T.tocsr()))

    def seeded_by(self, random_state: int, values: Array) -> "Pattern":
        """The pattern, random starts drawn from a seed and the bits of places and values.

        Who makes such values knows the start only by solving for a hash of them.
        """
        bits = hashlib.blake2b(digest_size=16)
        for numbers in (self.by_rows.starts, self.by_rows.across, values):
            bits.update(np.ascontiguousarray(numbers).data)
        return attrs.evolve(self, seed=(random_state, int.from_bytes(bits.digest(), "little")))

    def lines(self, by_rows: bool) -> Compressed:
        """One of the two orders."""
        return self.by_rows if by_rows else self.by_columns

    def entries(self, left: Array, right: Array, out: Array) -> None:
        """The known entries of ``left @ right.T``."""
        self.by_rows.entries(left, right, out)


@attrs.frozen(eq=False)
class Sampled(Operator):
    """A sparse matrix: its pattern, and its numbers in the order of the pattern's maker.

    All products go along its longer side, the numbers in that order, so that what is read or
    written across is the shorter of the thin matrices: P3's V (10,000 x 4), which fits the cache,
    and not its U. Only where the shorter side is nearly as long as there are entries both orders
    are needed.
    """

    pattern: Pattern
    values: Array
    single = True

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.pattern.shape

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """The precision of the numbers, and of products with thin matrices of the same."""
        return self.values.dtype

    @property
    def seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of the pattern."""
        return self.pattern.seed

    @property
    def rounding(self) -> float:
        """A sum of as many products as the longest row or column has entries."""
        longest = max(self.pattern.by_rows.longest, self.pattern.by_columns.longest)
        return EPS * (longest + 8) * float(np.linalg.norm(self.values))

    def multiple(self, factor: float) -> "Sampled":
        """The matrix times a factor, multiplied out."""
        return Sampled(self.pattern, factor * self.values)

    def in_units(self, unit: float) -> "Sampled":
        """The numbers divided by one about as large, in single precision: 4 bytes an entry."""
        single = np.empty(self.values.size, np.float32)
        return Sampled(self.pattern, np.divide(self.values, unit, out=single, casting="same_kind"))

    def between(self, left: Array, right: Array) -> "Sampled":
        """diag(left) S diag(right)."""
        lines, values = self.pattern.by_rows, np.empty(self.values.size)
        scales = np.repeat(left, np.diff(lines.starts)) * right[lines.across]
        values[lines.places] = scales * self.values[lines.places]
        return Sampled(self.pattern, values)

    def dense(self) -> Array:
        """The matrix as an array, 0 outside of the entries."""
        written = np.zeros(self.shape)
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.pattern.by_rows.starts))
        written[rows, self.pattern.by_rows.across] = self.by_rows[2]
        return written

    @cached_property
    def by_rows(self) -> tuple[IntArray, IntArray, Array]:
        """Starts of rows, the column of each number, and the numbers, row by row."""
        rows = self.pattern.by_rows
        return rows.starts, rows.across, rows.reorder(self.values)

    @cached_property
    def by_columns(self) -> tuple[IntArray, IntArray, Array]:
        """Starts of columns, the row of each number, and the numbers, column by column."""
        columns = self.pattern.by_columns
        return columns.starts, columns.across, columns.reorder(self.values)

    def sums_pay(self, n_own: int, n_across: int) -> bool:
        """Sums across rows, or across columns, pay for their memory."""
        return n_own >= n_across and self.values.size >= LEAST_ENTRIES_PER_ROW * n_across

    def _matmat(self, block: Array) -> Array:
        n_rows, n_columns = self.shape
        if n_rows < n_columns and self.sums_pay(n_columns, n_rows):
            return kernels.transposed_product(*self.by_columns, block, n_rows)
        return kernels.product(*self.by_rows, block)

    def _rmatmat(self, block: Array) -> Array:
        n_rows, n_columns = self.shape
        if self.sums_pay(n_rows, n_columns):
            return kernels.transposed_product(*self.by_rows, block, n_columns)
        return kernels.product(*self.by_columns, block)

    def gram(self, block: Array) -> Array:
        """A'A V, by one pass over the entries where A is tall and they are not very few."""
        if self.sums_pay(*self.shape):
            return kernels.gram_product(*self.by_rows, block)
        return super().gram(block)

    def gram_with(self, block: Array, of_rows: bool = False) -> tuple[Array, Array] | None:
        """A'A and A'U, or A A' and A V, of a short side, see ``gram_matrix_pays``."""
        sides = self.shape[::-1] if of_rows else self.shape
        if not gram_matrix_pays(self.values.size, *sides):
            return None
        return self.written_gram(of_rows), (self if of_rows else self.T) @ block

    def written_gram(self, of_rows: bool = False) -> Array:
        """A'A, or A A', whatever it takes."""
        side = self.shape[0 if of_rows else 1]
        written = np.zeros((side, side))
        kernels.gram_matrix_of(*(self.by_columns if of_rows else self.by_rows), written)
        return written

    def gram_of_rows(self, block: Array) -> Array:
        """A A'U, by one pass over the entries where A is wide and they are not very few."""
        n_rows, n_columns = self.shape
        if n_rows < n_columns and self.sums_pay(n_columns, n_rows):
            return kernels.gram_product(*self.by_columns, block)
        return super().gram_of_rows(block)


def gram_matrix_pays(n_entries: int, n_lines: int, side: int) -> bool:
    """True where the Gram matrix of a side takes less time than a few dozen thin products.

    Its memory is that of two numbers an entry at most, and rows have few entries.
    """
    return n_lines >= side and side**2 <= 2 * n_entries and n_entries <= LARGEST_MEAN_ROW * n_lines
