"""Places of the known entries of a matrix, by rows and by columns."""

import hashlib

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray
from mcframe.numerics.loops import kernels

__all__ = ["Lines", "Pattern"]


@attrs.frozen(eq=False)
class Lines:
    """The entries line by line: the rows of a matrix, or its columns.

    ``as_given`` says whether the caller's numbers already come in this order.
    """

    starts: IntArray
    across: IntArray
    places: IntArray
    as_given: bool

    @classmethod
    def of(cls, compressed: sp.csr_array) -> "Lines":
        """Lines of a matrix whose numbers are the places."""
        places = compressed.data.astype(np.uint32)
        return cls(
            compressed.indptr.astype(np.int64),
            compressed.indices.astype(np.uint32),
            places,
            as_given=bool(np.array_equal(places, np.arange(places.size))),
        )

    def reorder(self, values: Array) -> Array:
        """The caller's numbers in this order."""
        if self.as_given:
            return values
        out = np.empty(self.places.size)
        kernels.gather(self.places, values, out)
        return out

    def between(self, first: int, last: int | None) -> "Lines":
        """The lines from first to last, of which the latter is no part."""
        starts = self.starts[first : None if last is None else last + 1]
        here = slice(int(starts[0]), int(starts[-1]))
        return Lines(starts - starts[0], self.across[here], self.places[here], as_given=False)

    @property
    def longest(self) -> int:
        """The most entries of a line."""
        return int(np.max(np.diff(self.starts), initial=0))


@attrs.frozen(eq=False)
class Pattern:
    """Places of the known entries, by rows and by columns. 16 bytes an entry.

    ``seed`` are whole numbers from which random starts for bounds on norms are drawn.
    """

    shape: tuple[int, int]
    by_rows: Lines
    by_columns: Lines
    seed: tuple[int, ...] = (0,)

    @classmethod
    def of(cls, shape: tuple[int, int], rows: IntArray, columns: IntArray) -> "Pattern":
        """The pattern of entries at these rows and columns, in the order of their numbers."""
        places = np.arange(rows.size, dtype=np.int32)
        table = sp.coo_array((places, (rows, columns)), shape=shape).tocsr()
        return cls(shape, Lines.of(table), Lines.of(table.T.tocsr()))

    @property
    def transposed(self) -> "Pattern":
        """The pattern of the transpose, its entries in the same order."""
        return Pattern(self.shape[::-1], self.by_columns, self.by_rows, self.seed)

    def seeded_by(self, random_state: int, values: Array) -> "Pattern":
        """The pattern, random starts drawn from a seed and the bits of places and values.

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
