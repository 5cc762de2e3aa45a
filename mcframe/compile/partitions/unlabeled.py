"""The losses of cells that are no entries, of rows in partitions: sums of what each part's are."""

from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.partitions.executor import Partitions
from mcframe.compile.partitions.numbers import ByRows, Cut, Numbers
from mcframe.compile.partitions.part import Part
from mcframe.contracts.arrays import Array
from mcframe.numerics.operators import LowRank, Operator
from mcframe.numerics.unlabeled import Behind

__all__ = ["GradientsBehind", "PartitionedBackground", "PartitionedBehind", "PointInPartitions"]


@attrs.frozen(eq=False)
class PointInPartitions(Cut):
    """Z = U V' and its numbers at the entries, as tasks take it."""

    left: Any
    right: Array
    z: Numbers

    @classmethod
    def of(cls, latent: LowRank, z: Numbers) -> "PointInPartitions":
        """The point Z, whose rows go to their partitions."""
        return cls(ByRows(latent.left), latent.right, z)

    def behind(self, part: Part) -> Behind:
        """The cells of a partition's rows that are no entries, of which there may be none."""
        return part.program.background.at(LowRank(self.left, self.right), part.numbers(self.z))


@attrs.frozen(eq=False)
class PartitionedBackground:
    """What ``Background`` answers, of cells whose rows are in partitions.

    Each partition has the background of its own rows: losses, conjugates and curvatures are sums
    over the partitions, as are products and normal equations of columns, those of rows stay
    with their partition. Of squared losses these are Gram matrices and thin products.
    """

    partitions: Partitions

    #: None is read one by one, and nothing is held of them.
    n_read, held_bytes = 0, 0

    def __bool__(self) -> bool:
        """True: without such cells a program has a ``Background`` without parts."""
        return True

    def at(self, latent: LowRank, z: Numbers) -> "PartitionedBehind":
        """The background at Z, whose entries are z."""
        return PartitionedBehind(self.partitions, PointInPartitions.of(latent, z))


@attrs.frozen(eq=False)
class PartitionedBehind:
    """The background at a point."""

    partitions: Partitions
    point: PointInPartitions

    def __bool__(self) -> bool:
        """Whether there are such cells: there are."""
        return True

    @cached_property
    def value(self) -> float:
        """The sum of the losses."""
        return float(self.partitions.sum(value_behind, self.point))

    def beyond(self, gradients: Numbers, share: float = 1.0) -> Numbers:
        """Gradients of the entries less what ``gradients`` of ``share`` times this has there."""
        return Beyond(size=gradients.size, of=gradients, point=self.point, share=share)

    def gradients(self, share: float = 1.0) -> "list[GradientsBehind]":
        """``share`` times the gradients of all cells, those where entries are included."""
        return [GradientsBehind(self.point, share)]

    @cached_property
    def products(self) -> tuple[Array, Array]:
        """T V and T' U for Z = U V' and the gradients T, those where entries are included."""
        rows, backward = self.partitions.rows_and_sum(products_behind, self.point)
        return np.concatenate(rows), backward

    def curvature_along(self, after: "PartitionedBehind", moved: LowRank, z: Numbers) -> float:
        """How far F lies above its tangent after Z moves by D with entries z, twice."""
        move = PointInPartitions.of(moved, z)
        return float(self.partitions.sum(curvature_behind, self.point, after.point, move))

    def conjugate(self, share: float) -> tuple[float, float]:
        """Sum of the conjugates at ``share`` times the gradients, and a size for its rounding."""
        total, size = self.partitions.sum(conjugate_behind, self.point, share)
        return total, size


@attrs.frozen(eq=False, kw_only=True, slots=False)
class Beyond(Numbers):
    """Gradients of entries less those that all cells have where entries are."""

    of: Numbers
    point: PointInPartitions
    share: float

    def find(self, part: Part) -> Array:
        """Gradients of a partition."""
        return self.point.behind(part).beyond(part.numbers(self.of), self.share)


@attrs.frozen(eq=False)
class GradientsBehind(Cut):
    """``share`` times the gradients T of all cells, those where entries are included."""

    point: PointInPartitions
    share: float

    def multiple(self, factor: float) -> "GradientsBehind":
        """So many times these gradients."""
        return attrs.evolve(self, share=factor * self.share)

    def of(self, part: Part) -> list[Operator]:
        """The rows of a partition, by blocks of columns."""
        return self.point.behind(part).gradients(self.share)


def value_behind(part: Part, point: PointInPartitions) -> float:
    """The sum of the losses of unlabeled cells at a point."""
    return point.behind(part).value


def products_behind(part: Part, point: PointInPartitions) -> tuple[Array, Array]:
    """T V and T' U for Z = U V' and its gradients T."""
    return point.behind(part).products


def curvature_behind(
    part: Part, point: PointInPartitions, after: PointInPartitions, move: PointInPartitions
) -> float:
    """How far the losses lie above their tangent after Z moves, twice."""
    moved = LowRank(move.left, move.right)
    z = part.numbers(move.z)
    return point.behind(part).curvature_along(after.behind(part), moved, z)


def conjugate_behind(part: Part, point: PointInPartitions, share: float) -> tuple[float, float]:
    """Conjugates at ``share`` times the gradients, and a size for their rounding."""
    return point.behind(part).conjugate(share)
