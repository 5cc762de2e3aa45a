"""One quadratic for all cells of a matrix that is held in factors."""

from functools import cached_property

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.numerics.operators import LowRank
from mcframe.numerics.unlabeled.contract import Hessians, Unwritten, UnwrittenAt

__all__ = ["Uniform"]


@attrs.frozen(eq=False)
class Uniform(Unwritten):
    """``weight/2 (z - centre)^2 + constant`` for every cell z of U V' but the entries.

    Centring adds a column to the factors: A = [U, 1] and B = [V, -centre] have
    ``A B' = Z - centre``. Sums over all cells follow from the Gram matrices A'A and B'B, at
    (n_rows + n_columns) k^2 operations: the identity behind alternating least squares for
    implicit feedback (Hu, Koren and Volinsky, Collaborative filtering for implicit feedback
    datasets, 2008). The entries, whose rows and columns are given, are then taken off.
    """

    weight: float
    centre: float
    constant: float
    shape: tuple[int, int]
    rows: IntArray
    columns: IntArray

    @property
    def weights(self) -> Array:  # type: ignore[override]
        """The second derivative in each column."""
        return np.full(self.shape[1], self.weight)

    @property
    def n_read(self) -> int:
        """None is read one by one."""
        return 0

    @property
    def held_bytes(self) -> int:
        """0: Gram matrices are all that it takes."""
        return 0

    def at(self, latent: LowRank, z: Array) -> "UniformAt":
        """The quadratics at Z, whose entries are z."""
        return UniformAt(self, latent, z)

    def minus_centre(self, latent: LowRank) -> LowRank:
        """Z - centre."""
        n_rows, n_columns = latent.shape
        return LowRank(
            np.hstack([latent.left, np.ones((n_rows, 1))]),
            np.hstack([latent.right, np.full((n_columns, 1), -self.centre)]),
        )

    def quadratics(self, z: Array) -> Array:
        """The losses of some cells, by their definition."""
        apart = z - self.centre
        return 0.5 * self.weight * apart * apart + self.constant

    def squares(self, latent: LowRank) -> float:
        """The sum over all cells, without the constants."""
        both = self.minus_centre(latent)
        grams = (both.left.T @ both.left) * (both.right.T @ both.right)
        return 0.5 * self.weight * float(np.sum(grams))

    def of_lines(self, latent: LowRank, z: Array, by_rows: bool) -> Array:
        """The sum over each row of Z, or over each column."""
        both, lines = self.minus_centre(latent), self.rows if by_rows else self.columns
        own, other = (both.left, both.right) if by_rows else (both.right, both.left)
        squares = np.einsum("ij,ij->i", own @ (other.T @ other), own)
        total = 0.5 * self.weight * squares + other.shape[0] * self.constant
        return total - np.bincount(lines, weights=self.quadratics(z), minlength=total.size)


@attrs.frozen(eq=False)
class UniformAt(UnwrittenAt):
    """The quadratics at a Z."""

    uniform: Uniform
    latent: LowRank
    z: Array

    @property
    def n_cells(self) -> int:
        """The number of all cells."""
        return self.latent.shape[0] * self.latent.shape[1]

    @cached_property
    def value(self) -> float:
        """The sum of the losses."""
        uniform = self.uniform
        total = uniform.squares(self.latent) + self.n_cells * uniform.constant
        return total - float(np.sum(uniform.quadratics(self.z)))

    @property
    def at_entries(self) -> Array:  # type: ignore[override]
        """The gradients where entries are."""
        gradient: Array = self.uniform.weight * (self.z - self.uniform.centre)
        return gradient

    def gradient(self) -> LowRank:
        """The gradients of all cells."""
        both = self.uniform.minus_centre(self.latent)
        return LowRank(both.left, self.uniform.weight * both.right)

    def products(self) -> tuple[Array, Array]:
        """T V and T' U."""
        gradient = self.gradient()
        return gradient @ self.latent.right, gradient.T @ self.latent.left

    def hessians(self, by_rows: bool) -> Hessians:
        """The weight times one Gram matrix for all lines."""
        own, other = self.latent.left, self.latent.right
        if not by_rows:
            own, other = other, own
        weight = self.uniform.weight
        return Hessians((other.T @ other)[None], np.full(own.shape[0], weight), weight)

    def curvature_along(self, after: "UniformAt", moved: LowRank, z: Array) -> float:
        """The weighted squares of D but for its entries."""
        squares = float(np.sum((moved.left.T @ moved.left) * (moved.right.T @ moved.right)))
        return self.uniform.weight * (squares - float(np.dot(z, z)))

    def conjugate(self, share: float) -> tuple[float, float]:
        """The sum of ``t centre + t^2 / (2 weight) - constant``, by Gram matrices again.

        Sums over n rows or d columns round by (n + d) eps of the sizes of their summands; with
        the products of lengths in place of products of columns these are bounded.
        """
        uniform, thin = self.uniform, self.gradient()
        tilt = uniform.centre * float(np.sum(thin.left, axis=0) @ np.sum(thin.right, axis=0))
        squares, constant = uniform.squares(self.latent), self.n_cells * uniform.constant
        everywhere = share * tilt + share**2 * squares - constant
        apart = self.z - uniform.centre
        entries = share * uniform.weight * apart * (uniform.centre + 0.5 * share * apart)
        entries = entries - uniform.constant
        return everywhere - float(np.sum(entries)), self.size()

    def size(self) -> float:
        """(n + d) times the sizes of the summands, for shares up to 1."""
        uniform, both = self.uniform, self.uniform.minus_centre(self.latent)
        left, right = (np.linalg.norm(factor, axis=0) for factor in (both.left, both.right))
        length = float(left @ right)
        size = uniform.weight * (length + np.sqrt(self.n_cells) * abs(uniform.centre)) * length
        return sum(self.latent.shape) * (size + self.n_cells * abs(uniform.constant))
