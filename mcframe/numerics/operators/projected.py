"""What of a matrix is outside of two spaces."""

import attrs

from mcframe.contracts.arrays import Array
from mcframe.numerics.operators.operator import Derived

__all__ = ["Projected", "without"]


@attrs.frozen(eq=False)
class Projected(Derived):
    """(I - A A') S (I - B B') for orthonormal A (n_rows x a) and B (n_columns x b)."""

    left: Array
    right: Array

    @property
    def rounding(self) -> float:
        """Not known: where it is used, no norm is bounded."""
        raise NotImplementedError("no bound on the rounding of projections is known")

    def gram_matrix(self, of_rows: bool = False) -> Array | None:
        """That of S less S'A (S'A)', what is in the other space taken off on both sides."""
        matrix, far, near = self.operator, self.left, self.right
        if of_rows:
            matrix, far, near = matrix.T, near, far
        written = matrix.gram_matrix()
        if written is None:
            return None
        image = matrix.T @ far
        return without(without(written - image @ image.T, near).T, near)

    def _matmat(self, block: Array) -> Array:
        return without(self.operator @ without(block, self.right), self.left)

    def _rmatmat(self, block: Array) -> Array:
        return without(self.operator.T @ without(block, self.left), self.right)


def without(block: Array, basis: Array) -> Array:
    """What of a block is orthogonal to an orthonormal basis.

    The transposes of both products: BLAS takes half the time for few and long rows that it takes
    for few and long columns (10,000 x 4 beside 400 others: 8.6 ms, not 16).
    """
    rest: Array = block - ((block.T @ basis) @ basis.T).T
    return rest
