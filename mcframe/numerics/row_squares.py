"""A square of each row of a matrix by itself: values, conjugates, and the rows in its units."""

from functools import cached_property

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS
from mcframe.numerics.operators.low_rank import LowRank

__all__ = ["DualOfRows", "RowSquares"]


@attrs.frozen
class DualOfRows:
    """A dual matrix Y as the conjugate of ``RowSquares`` sees it.

    Attributes
    ----------
    linear, linear_off : float
        ``<Y, 1 centre'>``, and how far rounding may have moved it.
    length : float
        ``||Y loadings||_F``, or above it by rounding.
    least : float
        The least value of all rows together.
    """

    linear: float
    linear_off: float
    length: float
    least: float

    def conjugate(self, scale: float = 1.0) -> float:
        """Return the conjugate at ``scale * Y``, or above it by rounding alone.

        It is ``<Y, 1 centre'> + ||Y loadings||_F^2 / 2 - least`` at Y.
        """
        linear = scale * self.linear + abs(scale) * self.linear_off
        return linear + 0.5 * (scale * self.length) ** 2 - self.least


@attrs.frozen(eq=False)
class RowSquares:
    """The sum over all rows ``z = centre + loadings t`` of ``||t||^2 / 2 + least``.

    Attributes
    ----------
    centre : array (d,)
        The row of the least value.
    loadings : array (d x d), invertible
    least : float
        The value of a row there.
    """

    centre: Array
    loadings: Array
    least: float = 0.0

    @cached_property
    def spreads(self) -> Array:
        """The lengths of the rows of the loadings: columns of any scale are solved for alike."""
        return np.linalg.norm(self.loadings, axis=1)

    @cached_property
    def inverse(self) -> Array:
        """The inverse of the loadings, each row of which is divided by its length."""
        return np.linalg.inv(self.loadings / self.spreads[:, None])

    def coordinates(self, dense: Array) -> Array:
        """Return the t of each row (n_rows x d)."""
        found: Array = ((dense - self.centre) / self.spreads) @ self.inverse.T
        return found

    def latent(self, coordinates: Array) -> LowRank:
        """Return the matrix of rows with these t, ``[1, T] [centre, loadings]'``."""
        left = np.column_stack([np.ones(len(coordinates)), coordinates])
        return LowRank(left, np.column_stack([self.centre, self.loadings]))

    def value(self, dense: Array) -> float:
        """Return the value at a matrix."""
        t = self.coordinates(dense)
        return 0.5 * float(np.vdot(t, t)) + len(dense) * self.least

    def slope(self, dense: Array) -> Array:
        """Return the gradient, ``T loadings^-1`` (n_rows x d)."""
        found: Array = self.coordinates(dense) @ self.inverse / self.spreads
        return found

    def dual(self, matrix: Array) -> "DualOfRows":
        """Return what the conjugate at multiples of a dual matrix follows from.

        Rounding is bounded column by column, so that scales of columns do not mix.
        """
        n_rows, width = matrix.shape
        off = EPS * (width + 2) * float(np.linalg.norm(matrix, axis=0) @ self.spreads)
        summed = EPS * (width + 8 + float(np.log2(n_rows + 1)))
        return DualOfRows(
            linear=float(matrix.sum(axis=0) @ self.centre),
            linear_off=summed * float(np.abs(matrix).sum(axis=0) @ np.abs(self.centre)),
            length=float(np.linalg.norm(matrix @ self.loadings)) + off,
            least=n_rows * self.least,
        )

    def with_ridge(self, weight: float) -> "RowSquares":
        """Return the squares with ``weight / 2 * ||z||^2`` added to each row's.

        With ``loadings' loadings = Q S^2 Q'`` and ``D = I + weight S^2`` completing the square
        gives ``loadings Q D^(-1/2)``, and at the new centre ``t = -weight S^2 / D`` of the old
        one's, in the coordinates of Q.
        """
        if not weight:
            return self
        squared, turned = np.linalg.eigh(self.loadings.T @ self.loadings)
        pulls = weight * np.maximum(squared, 0.0)
        loadings = self.loadings @ turned
        begin = turned.T @ (self.inverse @ (self.centre / self.spreads))
        centre = loadings @ (begin / (1.0 + pulls))
        least = self.least + 0.5 * float(np.sum(begin**2 * pulls / (1.0 + pulls)))
        return RowSquares(centre, loadings / np.sqrt(1.0 + pulls), least)
