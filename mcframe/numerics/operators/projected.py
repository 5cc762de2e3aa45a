"""What of a matrix is outside of two spaces."""

import attrs
import numpy as np

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

    def gram_with(self, block: Array, of_rows: bool = False) -> tuple[Array, Array] | None:
        """S'S less S'A (S'A)', and S'U less S'A A'U, what is in the other space taken off."""
        far, near = (self.right, self.left) if of_rows else (self.left, self.right)
        found = self.operator.gram_with(np.hstack([far, block]), of_rows)
        if found is None:
            return None
        image, images = np.hsplit(found[1], [far.shape[1]])
        written = without(without(found[0] - image @ image.T, near).T, near)
        return written, without(images - image @ (far.T @ block), near)

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
