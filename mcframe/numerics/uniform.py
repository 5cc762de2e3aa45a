"""One quadratic for all cells of each column of a matrix that is held in factors."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.numerics.low_rank import LowRank

__all__ = ["Uniform"]


@attrs.frozen(eq=False)
class Uniform:
    """``weight/2 (z - centre)^2 + constant`` for every cell z of U V', one of each a column.

    Centring adds a column to the factors: A = [U, 1] and B = [V, -centre] have
    ``A B' = Z - 1 centre'``. Sums over all cells follow from the Gram matrices A'A and B'B, at
    (n_rows + n_columns) k^2 operations: the identity behind alternating least squares for
    implicit feedback (Hu, Koren and Volinsky, Collaborative filtering for implicit feedback
    datasets, 2008).
    """

    weights: Array
    centres: Array
    constants: Array

    def centred(self, latent: LowRank) -> LowRank:
        """Z - 1 centre'."""
        ones = np.ones((latent.shape[0], 1))
        return LowRank(
            np.hstack([latent.left, ones]), np.hstack([latent.right, -self.centres[:, None]])
        )

    def at(self, z: Array, columns: IntArray) -> Array:
        """The quadratics of some cells, by their definition."""
        apart = z - self.centres[columns]
        return 0.5 * self.weights[columns] * apart * apart + self.constants[columns]

    def slope_at(self, z: Array, columns: IntArray) -> Array:
        """Their slopes."""
        slope: Array = self.weights[columns] * (z - self.centres[columns])
        return slope

    def total(self, latent: LowRank) -> float:
        """The sum over all cells."""
        return self.squares(latent) + latent.shape[0] * float(np.sum(self.constants))

    def squares(self, latent: LowRank) -> float:
        """The same without the constants."""
        centred = self.centred(latent)
        return 0.5 * self.weighted(centred)

    def weighted(self, latent: LowRank) -> float:
        """The sum of weight z^2 over all cells z."""
        bent = latent.right * self.weights[:, None]
        return float(np.sum((latent.left.T @ latent.left) * (latent.right.T @ bent)))

    def slope(self, latent: LowRank) -> LowRank:
        """The slopes of all cells."""
        centred = self.centred(latent)
        return LowRank(centred.left, centred.right * self.weights[:, None])

    def of_lines(self, latent: LowRank, by_rows: bool) -> Array:
        """The sum over each row of Z, or over each column."""
        centred = self.centred(latent)
        left, right = centred.left, centred.right
        bent = right * self.weights[:, None]
        if by_rows:
            squares = np.einsum("ij,ij->i", left @ (right.T @ bent), left)
            return 0.5 * squares + float(np.sum(self.constants))
        squares = np.einsum("ij,ij->i", right @ (left.T @ left), bent)
        return 0.5 * squares + latent.shape[0] * self.constants
