"""The losses of cells that are no entries, of rows in partitions: sums of those of the parts."""

from functools import cached_property

import attrs
import numpy as np

from mcframe.compile.partitions.executor import Partitions
from mcframe.compile.partitions.values import (
    EntryValues,
    PartAttribute,
    PartValue,
    scattered_rows,
)
from mcframe.contracts.arrays import Array
from mcframe.numerics.operators import LowRank
from mcframe.numerics.unlabeled import Background, Behind


def behind_at(latent: LowRank, z: EntryValues) -> PartValue:
    """The cells of a partition's rows that are no entries, at Z with entry values z."""
    background = PartAttribute("program.background")
    return PartValue(Background.at, (background, scattered_rows(latent), z))


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

    def at(self, latent: LowRank, z: EntryValues) -> "PartitionedBehind":
        """The background at Z, whose entries are z."""
        return PartitionedBehind(self.partitions, behind_at(latent, z))


@attrs.frozen(eq=False)
class PartitionedBehind:
    """The background at a point, which a program without such cells does not have."""

    partitions: Partitions
    own: PartValue  # the ``Behind`` of each partition

    @cached_property
    def value(self) -> float:
        """The sum of the losses."""
        return float(self.partitions.sum(getattr, self.own, "value"))

    def beyond(self, gradients: EntryValues, share: float = 1.0) -> EntryValues:
        """Gradients of the entries less what ``gradients`` of ``share`` times this has there."""
        return gradients.changed(Behind.beyond, self.own, gradients, share)

    def gradients(self, share: float = 1.0) -> list[tuple[PartValue, float]]:
        """``share`` times the gradients of all cells, those where entries are included."""
        return [(self.own, share)]

    @cached_property
    def products(self) -> tuple[Array, Array]:
        """T V and T' U for Z = U V' and the gradients T, those where entries are included."""
        rows, backward = self.partitions.rows_and_sum(getattr, self.own, "products")
        return np.concatenate(rows), backward

    def curvature_along(self, after: "PartitionedBehind", moved: LowRank, z: EntryValues) -> float:
        """How far F lies above its tangent after Z moves by D with entries z, twice."""
        move = scattered_rows(moved), z
        return float(self.partitions.sum(Behind.curvature_along, self.own, after.own, *move))

    def conjugate(self, share: float) -> tuple[float, float]:
        """Sum of the conjugates at ``share`` times the gradients, and a size for its rounding."""
        total, size = self.partitions.sum(Behind.conjugate, self.own, share)
        return total, size
