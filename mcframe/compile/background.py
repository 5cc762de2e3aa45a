"""The losses of cells that are no entries: too many to be written out, and quadratic."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.numerics.kernels import Shared
from mcframe.numerics.low_rank import LowRank
from mcframe.numerics.sampled import Pattern, SampledMatrix, SparsePlusThin
from mcframe.numerics.uniform import Uniform

__all__ = ["Background", "Behind"]


@attrs.frozen(eq=False)
class Background:
    """Quadratics of all cells but the entries: those of all cells, minus those of the entries.

    ``columns`` are the entries' columns of Z. An entry's own loss bends at least as much, so
    that what the entries add to the sum over all cells is convex. All methods take memory of
    the entries and of thin factors.
    """

    uniform: Uniform
    columns: IntArray

    def value(self, latent: LowRank, z: Array) -> float:
        """The sum at Z, whose entries are z."""
        return self.uniform.total(latent) - float(np.sum(self.uniform.at(z, self.columns)))

    def slope(
        self, pattern: Pattern, latent: LowRank, z: Array, slope: Array, share: float = 1.0
    ) -> SparsePlusThin:
        """``share`` times the slope of all cells but the entries, where ``slope`` stands."""
        thin = self.uniform.slope(latent)
        beyond = slope - share * self.uniform.slope_at(z, self.columns)
        return SparsePlusThin(
            SampledMatrix(pattern, beyond), LowRank(share * thin.left, thin.right)
        )

    def bend(self, moved: LowRank, z: Array) -> float:
        """<slope(Z + D) - slope(Z), D> for D with these entries."""
        entries = float(np.dot(self.uniform.weights[self.columns] * z, z))
        return self.uniform.weighted(moved) - entries

    def beyond_bend(self, bend: Array) -> Array:
        """The entries' curvature beyond that of all cells."""
        beyond: Array = bend - self.uniform.weights[self.columns]
        return beyond

    def beyond_pull(self, pull: Array) -> Array:
        """The same for p of ``curvature/2 z^2 - p z``."""
        tilts = self.uniform.weights * self.uniform.centres
        beyond: Array = pull - tilts[self.columns]
        return beyond

    def shared(self, other: Array, by_rows: bool) -> Shared:
        """What all cells add to the normal equations of each line, ``other`` the fixed factor."""
        weights, tilts = self.uniform.weights, self.uniform.weights * self.uniform.centres
        if by_rows:
            return Shared(other.T @ (other * weights[:, None]), other.T @ tilts)
        return Shared(other.T @ other, np.sum(other, axis=0), weights, tilts)

    def of_lines(self, latent: LowRank, z: Array, lines: IntArray, by_rows: bool) -> Array:
        """The sum over each row of Z, or each column; ``lines`` are those of the entries."""
        total = self.uniform.of_lines(latent, by_rows)
        entries = self.uniform.at(z, self.columns)
        return total - np.bincount(lines, weights=entries, minlength=total.size)

    def bends_along(self, left: Array, right: Array) -> Array:
        """The second derivative of all cells' sum along each a b', a and b a column of each."""
        bends: Array = np.sum(left * left, axis=0) * (self.uniform.weights @ (right * right))
        return bends


@attrs.frozen(eq=False)
class Behind:
    """The background at a point: its share of a certificate.

    Its dual point is its slope T = weight (Z - centre) times a share, thin factors again, and
    phi*(t) = t centre + t^2 / (2 weight) - constant summed over all cells a matter of Gram
    matrices.
    """

    background: Background
    latent: LowRank
    z: Array

    @property
    def value(self) -> float:
        """The losses."""
        return self.background.value(self.latent, self.z)

    def matrix(self, pattern: Pattern, slope: Array, share: float) -> SparsePlusThin:
        """The dual point with the entries' own slopes."""
        return self.background.slope(pattern, self.latent, self.z, slope, share)

    def conjugate(self, share: float) -> tuple[float, float]:
        """The sum of the conjugates, and a size that stands for its rounding.

        Sums over n rows or d columns round by (n + d) eps of the sizes of their summands; with
        the products of lengths in place of products of columns these are bounded.
        """
        uniform, columns = self.background.uniform, self.background.columns
        thin, n_rows = uniform.slope(self.latent), self.latent.shape[0]
        tilt = float(np.sum(thin.left, axis=0) @ (thin.right.T @ uniform.centres))
        squares, constant = uniform.squares(self.latent), n_rows * float(np.sum(uniform.constants))
        everywhere = share * tilt + share**2 * squares - constant
        apart = self.z - uniform.centres[columns]
        weights, centres = uniform.weights[columns], uniform.centres[columns]
        entries = share * weights * apart * (centres + 0.5 * share * apart)
        entries = entries - uniform.constants[columns]
        return everywhere - float(np.sum(entries)), self.size()

    def size(self) -> float:
        """(n + d) times the sizes of the summands, for shares up to 1."""
        uniform, (n_rows, n_columns) = self.background.uniform, self.latent.shape
        centred = uniform.centred(self.latent)
        left = np.linalg.norm(centred.left, axis=0)
        right = np.linalg.norm(centred.right * np.sqrt(uniform.weights)[:, None], axis=0)
        length, middle = float(left @ right), np.sqrt(uniform.weights) * uniform.centres
        size = length**2 + np.sqrt(n_rows) * float(np.linalg.norm(middle)) * length
        constants = n_rows * float(np.sum(np.abs(uniform.constants)))
        return (n_rows + n_columns) * (size + constants)
