"""A matrix of which some entries are known and the others 0."""

from functools import cached_property

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS
from mcframe.numerics.loops import kernels
from mcframe.numerics.operators.operator import Operator
from mcframe.numerics.operators.pattern import Lines, Pattern

__all__ = ["Sampled", "gram_matrix_pays"]

# The entries of a line in the mean up to which Gram matrices are written out: each takes as many
# additions as it has pairs.
SHORT = 64


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

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.pattern.shape

    @property
    def seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of the pattern."""
        return self.pattern.seed

    @property
    def rounding(self) -> float:
        """A sum of as many products as the longest line has entries."""
        longest = max(self.pattern.by_rows.longest, self.pattern.by_columns.longest)
        return EPS * (longest + 8) * float(np.linalg.norm(self.values))

    def multiple(self, factor: float) -> "Sampled":
        """The matrix times a factor, multiplied out."""
        return Sampled(self.pattern, factor * self.values)

    def between(self, left: Array, right: Array) -> "Sampled":
        """diag(left) S diag(right)."""
        lines, values = self.pattern.by_rows, np.empty(self.values.size)
        kernels.scale_lines(
            lines.starts, lines.across, lines.places, self.values, left, right, values
        )
        return Sampled(self.pattern, values)

    def dense(self) -> Array:
        """The matrix as an array, 0 outside of the entries."""
        written = np.zeros(self.shape)
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.pattern.by_rows.starts))
        written[rows, self.pattern.by_rows.across] = self.by_rows
        return written

    @cached_property
    def by_rows(self) -> Array:
        """The numbers row by row."""
        return self.pattern.by_rows.reorder(self.values)

    @cached_property
    def by_columns(self) -> Array:
        """The numbers column by column."""
        return self.pattern.by_columns.reorder(self.values)

    def _matmat(self, block: Array) -> Array:
        n_rows, n_columns = self.shape
        if n_rows >= n_columns or not kernels.sums_pay(self.values.size, n_rows):
            return thin_product(self.pattern.by_rows, self.by_rows, block)
        return transposed_product(self.pattern.by_columns, self.by_columns, block, n_rows)

    def _rmatmat(self, block: Array) -> Array:
        n_rows, n_columns = self.shape
        if n_rows < n_columns or not kernels.sums_pay(self.values.size, n_columns):
            return thin_product(self.pattern.by_columns, self.by_columns, block)
        return transposed_product(self.pattern.by_rows, self.by_rows, block, n_columns)

    def gram(self, block: Array) -> Array:
        """A'A V, by one pass over the entries where A is tall and they are not very few."""
        n_rows, n_columns = self.shape
        if n_rows < n_columns or not kernels.sums_pay(self.values.size, n_columns):
            return super().gram(block)
        return gram_product(self.pattern.by_rows, self.by_rows, block)

    def gram_with(self, block: Array, of_rows: bool = False) -> tuple[Array, Array] | None:
        """A'A and A'U, or A A' and A V, of a short side, see ``gram_matrix_pays``."""
        sides = self.shape[::-1] if of_rows else self.shape
        if not gram_matrix_pays(self.values.size, *sides):
            return None
        return self.written_gram(of_rows), (self if of_rows else self.T) @ block

    def written_gram(self, of_rows: bool = False) -> Array:
        """A'A, or A A', whatever it takes."""
        lines = self.pattern.by_columns if of_rows else self.pattern.by_rows
        values = self.by_columns if of_rows else self.by_rows
        side = self.shape[0 if of_rows else 1]
        written = np.zeros((side, side))
        kernels.gram_matrix_of(lines.starts, lines.across, values, written)
        return written

    def gram_of_rows(self, block: Array) -> Array:
        """A A'U, by one pass over the entries where A is wide and they are not very few."""
        n_rows, n_columns = self.shape
        if n_rows >= n_columns or not kernels.sums_pay(self.values.size, n_rows):
            return super().gram_of_rows(block)
        return gram_product(self.pattern.by_columns, self.by_columns, block)


def gram_matrix_pays(n_entries: int, n_lines: int, side: int) -> bool:
    """Whether the Gram matrix of a side takes less time than a few dozen products with a block.

    Its memory is that of two numbers an entry at most, and lines are short.
    """
    return n_lines >= side and side**2 <= 2 * n_entries and n_entries <= SHORT * n_lines


def thin_product(lines: Lines, values: Array, thin: Array) -> Array:
    """The sparse matrix with these lines times a thin one."""
    n_lines, width = lines.starts.size - 1, thin.shape[1]
    if width == 1:
        vector = np.empty(n_lines)
        kernels.product_vector(lines.starts, lines.across, values, thin.ravel(), vector)
        return vector[:, None]
    out = np.empty((n_lines, width))
    kernels.product(lines.starts, lines.across, values, np.ascontiguousarray(thin), out)
    return out


def transposed_product(lines: Lines, values: Array, thin: Array, n_across: int) -> Array:
    """The transpose of the sparse matrix with these lines times a thin one."""
    out = np.empty((n_across, thin.shape[1]))
    thin = np.ascontiguousarray(thin)
    kernels.transposed_product(lines.starts, lines.across, values, thin, out)
    return out


def gram_product(lines: Lines, values: Array, thin: Array) -> Array:
    """A'A V for the sparse matrix A with these lines and a thin V."""
    out = np.empty(thin.shape)
    thin = np.ascontiguousarray(thin)
    kernels.gram_product(lines.starts, lines.across, values, thin, out)
    return out
