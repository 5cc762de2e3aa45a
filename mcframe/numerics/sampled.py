"""Matrices known at some of their entries only, and their products."""

import hashlib
from functools import cached_property

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.rounding import EPS
from mcframe.numerics import kernels
from mcframe.numerics.unwritten import Everywhere

__all__ = ["Lines", "Pattern", "Sampled", "SampledMatrix", "SparsePlus"]


@attrs.frozen(eq=False)
class Lines:
    """The entries line by line: the rows of a matrix, or its columns."""

    starts: IntArray
    across: IntArray
    places: IntArray

    @classmethod
    def of(cls, compressed: sp.csr_array) -> "Lines":
        """From a matrix whose numbers are the places."""
        return cls(
            compressed.indptr.astype(np.int64),
            compressed.indices.astype(np.uint32),
            compressed.data.astype(np.uint32),
        )

    @cached_property
    def as_given(self) -> bool:
        """Whether the caller's numbers already come in this order."""
        return bool(np.array_equal(self.places, np.arange(self.places.size)))

    def ordered(self, values: Array) -> Array:
        """The caller's numbers in this order."""
        if self.as_given:
            return values
        out = np.empty(self.places.size)
        kernels.gathered(self.places, values, out)
        return out

    @property
    def longest(self) -> int:
        """The most entries of a line."""
        return int(np.max(np.diff(self.starts), initial=0))


@attrs.frozen(eq=False)
class Pattern:
    """Where the known entries stand, by rows and by columns. 16 bytes an entry.

    ``seed`` are whole numbers from which random starts for bounds on norms are drawn.
    """

    shape: tuple[int, int]
    by_rows: Lines
    by_columns: Lines
    seed: tuple[int, ...] = (0,)

    @classmethod
    def of(cls, shape: tuple[int, int], rows: IntArray, columns: IntArray) -> "Pattern":
        """From the rows and columns of the entries, in the order in which numbers will come."""
        places = np.arange(rows.size, dtype=np.int32)
        table = sp.coo_array((places, (rows, columns)), shape=shape).tocsr()
        return cls(shape, Lines.of(table), Lines.of(table.T.tocsr()))

    @property
    def transposed(self) -> "Pattern":
        """The same entries of the transpose, in the same order."""
        return Pattern(self.shape[::-1], self.by_columns, self.by_rows, self.seed)

    def seeded_by(self, random_state: int, values: Array) -> "Pattern":
        """The same, random starts drawn from a seed and from the bits of places and values.

        Who makes such values knows the start only by solving for a hash of them.
        """
        bits = hashlib.blake2b(digest_size=16)
        for numbers in (self.by_rows.starts, self.by_rows.across, values):
            bits.update(np.ascontiguousarray(numbers).data)
        return attrs.evolve(self, seed=(random_state, int.from_bytes(bits.digest(), "little")))

    def lines(self, by_rows: bool) -> Lines:
        """One of the two orders."""
        return self.by_rows if by_rows else self.by_columns

    def entries(self, left: Array, right: Array, out: Array) -> None:
        """The known entries of ``left @ right.T``."""
        lines = self.by_rows
        kernels.entries(lines.starts, lines.across, lines.places, left, right, out)


@attrs.frozen(eq=False)
class SampledMatrix:
    """A sparse matrix: its pattern, and its numbers in the caller's order.

    It stands where a dense one does for products (``S @ R``, ``S.T @ L``) and multiples.
    """

    pattern: Pattern
    values: Array

    __array_ufunc__ = None  # numpy's numbers leave multiples to this class

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.pattern.shape

    @cached_property
    def T(self) -> "SampledMatrix":  # noqa: N802
        """The transpose; kept, for the order of its numbers."""
        return SampledMatrix(self.pattern.transposed, self.values)

    def __matmul__(self, right: Array) -> Array:
        """S R, for a vector or a thin matrix."""
        return self.times(right) if right.ndim > 1 else self.times(right[:, None])[:, 0]

    def __mul__(self, scale: float) -> "SampledMatrix":
        """A multiple."""
        return SampledMatrix(self.pattern, scale * self.values)

    __rmul__ = __mul__

    def __neg__(self) -> "SampledMatrix":
        """The negative."""
        return SampledMatrix(self.pattern, -self.values)

    def between(self, left: Array, right: Array) -> "SampledMatrix":
        """diag(left) S diag(right)."""
        values = self.values.copy()
        for lines, weights in ((self.pattern.by_rows, left), (self.pattern.by_columns, right)):
            values[lines.places] *= np.repeat(weights, np.diff(lines.starts))
        return SampledMatrix(self.pattern, values)

    @cached_property
    def by_rows(self) -> Array:
        """The numbers row by row."""
        return self.pattern.by_rows.ordered(self.values)

    @cached_property
    def by_columns(self) -> Array:
        """The numbers column by column."""
        return self.pattern.by_columns.ordered(self.values)

    @property
    def seed(self) -> tuple[int, ...]:
        """That of its pattern."""
        return self.pattern.seed

    @property
    def rounding(self) -> float:
        """How much rounding of products can hide of the norm."""
        longest = max(self.pattern.by_rows.longest, self.pattern.by_columns.longest)
        return EPS * (longest + 8) * float(np.linalg.norm(self.values))

    def times(self, right: Array) -> Array:
        """S R, for R of one column or a few."""
        return thin_product(self.pattern.by_rows, self.by_rows, right)

    def transposed_times(self, left: Array) -> Array:
        """S' L."""
        return thin_product(self.pattern.by_columns, self.by_columns, left)


@attrs.frozen(eq=False)
class SparsePlus:
    """A sparse matrix beside others with a number in each cell of some columns, all by products.

    ``others`` stand at these columns, ``share`` times each.
    """

    sparse: SampledMatrix
    others: tuple[tuple[slice, Everywhere], ...]
    share: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.sparse.shape

    @property
    def seed(self) -> tuple[int, ...]:
        """That of the entries' pattern."""
        return self.sparse.pattern.seed

    @property
    def rounding(self) -> float:
        """How much rounding can hide of the norm."""
        return self.sparse.rounding + self.share * sum(other.rounding for _, other in self.others)

    def __mul__(self, scale: float) -> "SparsePlus":
        """A multiple."""
        return SparsePlus(scale * self.sparse, self.others, scale * self.share)

    __rmul__ = __mul__

    def times(self, right: Array) -> Array:
        """The sum times V."""
        product: Array = self.sparse.times(right)
        for columns, other in self.others:
            product = product + self.share * other.times(right[columns])
        return product

    def transposed_times(self, left: Array) -> Array:
        """The sum's transpose times U."""
        product: Array = self.sparse.transposed_times(left)
        for columns, other in self.others:
            product[columns] += self.share * other.transposed_times(left)
        return product


Sampled = SampledMatrix | SparsePlus


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
