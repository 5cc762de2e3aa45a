"""The losses of cells that are no entries: too many to be written out."""

from functools import cached_property

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.numerics.kernels import Shared
from mcframe.numerics.low_rank import LowRank
from mcframe.numerics.sampled import Pattern, SampledMatrix, SparsePlus
from mcframe.numerics.unwritten import Unwritten, UnwrittenAt

__all__ = ["Background", "Behind", "Part"]


@attrs.frozen(eq=False)
class Part:
    """The unwritten cells of one block: its columns of Z, and its entries among all entries."""

    cells: Unwritten
    columns: slice
    entries: slice

    def at(self, latent: LowRank, z: Array) -> UnwrittenAt:
        """They at Z, whose entries are z."""
        return self.cells.at(latent.columns(self.columns), z[self.entries])


@attrs.frozen(eq=False)
class Background:
    """The losses of all cells of some blocks but their entries.

    ``columns`` are the entries' columns of Z, of all blocks. Where a quadratic stands for a
    cell's loss, it is one of all cells, so that Gram matrices serve, minus that of the entries.
    All methods take memory of the entries and of thin factors, and of a few blocks of rows.
    """

    parts: tuple[Part, ...]
    columns: IntArray
    shape: tuple[int, int]

    @cached_property
    def weights(self) -> Array:
        """For each column of Z a bound on the second derivative of its cells' losses."""
        weights = np.zeros(self.shape[1])
        for part in self.parts:
            weights[part.columns] = part.cells.weights
        return weights

    @property
    def n_read(self) -> int:
        """The number of cells that a pass reads one by one."""
        return sum(part.cells.n_read for part in self.parts)

    def at(self, latent: LowRank, z: Array) -> "Behind":
        """The background at Z, whose entries are z."""
        points = tuple(part.at(latent, z) for part in self.parts)
        return Behind(self, latent, z, points)

    def bend(self, moved: LowRank, z: Array) -> float:
        """A bound on <slope(Z + D) - slope(Z), D>; D has entries z. It is exact for quadratics."""
        bent = moved.right * self.weights[:, None]
        everywhere = float(np.sum((moved.left.T @ moved.left) * (moved.right.T @ bent)))
        return everywhere - float(np.dot(self.weights[self.columns] * z, z))

    def beyond_bend(self, bend: Array) -> Array:
        """The entries' curvature beyond that of all cells."""
        beyond: Array = bend - self.weights[self.columns]
        return beyond

    def of_lines(self, latent: LowRank, z: Array, by_rows: bool) -> Array:
        """The sum over each row of Z, or each column."""
        total = np.zeros(self.shape[0 if by_rows else 1])
        for part in self.parts:
            block, entries = latent.columns(part.columns), z[part.entries]
            own = slice(None) if by_rows else part.columns
            total[own] += part.cells.of_lines(block, entries, by_rows)
        return total

    def bends_along(self, left: Array, right: Array) -> Array:
        """A bound on the second derivative of all cells' sum along each a b', a column of each."""
        bends: Array = np.sum(left * left, axis=0) * (self.weights @ (right * right))
        return bends


@attrs.frozen(eq=False)
class Behind:
    """The background at a point."""

    background: Background
    latent: LowRank
    z: Array
    points: tuple[UnwrittenAt, ...]

    @property
    def value(self) -> float:
        """The losses."""
        return sum(point.value for point in self.points)

    @cached_property
    def at_entries(self) -> Array:
        """The slopes that stand where entries are, and are no losses."""
        slopes = np.zeros(self.z.size)
        for part, point in zip(self.background.parts, self.points, strict=True):
            slopes[part.entries] = point.at_entries
        return slopes

    def slope(self, pattern: Pattern, slope: Array, share: float = 1.0) -> SparsePlus:
        """``share`` times the slope of all cells but the entries, where ``slope`` stands.

        Of slopes of convex losses it is the background's share of a certificate's dual point.
        """
        pairs = zip(self.background.parts, self.points, strict=True)
        others = tuple((part.columns, point.slope()) for part, point in pairs)
        sparse = SampledMatrix(pattern, slope - share * self.at_entries)
        return SparsePlus(sparse, others, share)

    @cached_property
    def products(self) -> tuple[Array, Array]:
        """T V and T' U for Z = U V' and the slopes T, those where entries are included."""
        forward, backward = np.zeros_like(self.latent.left), np.zeros_like(self.latent.right)
        for part, point in zip(self.background.parts, self.points, strict=True):
            own, back = point.products()
            forward += own
            backward[part.columns] += back
        return forward, backward

    def shared(self, by_rows: bool) -> Shared:
        """What all cells add to the normal equations of each line of one factor.

        Quadratics of the highest curvature c that touch the losses here: in place of l(x)
        c/2 (x - z)^2 + T (x - z), so that U V'c V - T V is each row's image.
        """
        latent, weights = self.latent, self.background.weights
        if by_rows:
            normal = latent.right.T @ (latent.right * weights[:, None])
            images = latent.left @ normal - self.products[0]
            return Shared(normal, np.ones(images.shape[0]), images)
        normal = latent.left.T @ latent.left
        images = (latent.right * weights[:, None]) @ normal - self.products[1]
        return Shared(normal, weights, images)

    def beyond_pull(self, pull: Array) -> Array:
        """The entries' p of ``curvature/2 x^2 - p x`` beyond that of all cells."""
        weights = self.background.weights[self.background.columns]
        beyond: Array = pull - (weights * self.z - self.at_entries)
        return beyond

    def conjugate(self, share: float) -> tuple[float, float]:
        """The sum of the conjugates at ``share`` times the slopes, and a size for its rounding."""
        total, size = 0.0, 0.0
        for point in self.points:
            own, unsure = point.conjugate(share)
            total, size = total + own, size + unsure
        return total, size
