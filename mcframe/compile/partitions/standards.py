"""Standard units of columns whose entries are in partitions: by sums, a round each."""

import attrs
import numpy as np

from mcframe.compile.partitions.executor import Partitions
from mcframe.compile.partitions.part import Part
from mcframe.compile.partitions.values import PART, Least, PartValue
from mcframe.contracts.arrays import Array, Mask
from mcframe.model import Block
from mcframe.model.standardising import (
    AtConstants,
    best_constants,
    mean_losses,
    weights_of_entries,
)
from mcframe.model.units import Standard, Units, affine_units_of, middles_and_sizes_of


def standard_of_partitions(
    block: Block, partitions: Partitions, lowest: Array, highest: Array
) -> Standard:
    """Return the standard of a block's columns, whose values less offsets have these ranges.

    Mean and mean square are taken of values less the middle of their range, in its size, so that
    those around 1e12 lose no digit; then each column is weighed by its losses at its best
    constant, which takes two rounds of a quadratic, and a bisection in some 90.
    """
    units = None
    if block.likelihood.location:
        pivot, size = middles_and_sizes_of(lowest, highest)
        nothing = np.zeros(lowest.size)
        total, sums, _ = partitions.sum(moments, PART, block.name, pivot, size, nothing)
        mean = sums / np.where(total > 0.0, total, 1.0)
        total, _, squares = partitions.sum(moments, PART, block.name, pivot, size, mean)
        spread = np.sqrt(squares / np.where(total > 0.0, total, 1.0))
        units = affine_units_of(pivot, size, mean, spread)
        lowest, highest = ranges_in(units, lowest, highest)
    alone = Standard(units, np.ones(lowest.size))
    if block.likelihood.undetermined is not None:
        return alone  # a variance that is learned weighs each column by itself
    given = PART, block.name, alone, lowest < highest
    sums_at = SumsAtConstants(partitions, PartValue(at_constants, given))
    z = best_constants(block.likelihood, sums_at, lowest.size)
    losses = mean_losses(*sums_at.lost_at(z))
    return attrs.evolve(alone, weights=1.0 / np.where(losses > 0.0, losses, 1.0))


def ranges_in(units: Units, lowest: Array, highest: Array) -> tuple[Array, Array]:
    """Ranges of columns in their units, which are monotone to the last bit."""
    columns, seen = np.arange(lowest.size), lowest <= highest
    return (
        np.where(seen, units.standard(np.where(seen, lowest, 0.0), columns), np.inf),
        np.where(seen, units.standard(np.where(seen, highest, 0.0), columns), -np.inf),
    )


@attrs.frozen(eq=False)
class SumsAtConstants:
    """``AtConstants`` of all partitions, of the columns with several values."""

    partitions: Partitions
    own: PartValue  # those of each partition

    def total(self) -> Array:
        """The weight of each column."""
        return np.asarray(self.partitions.sum(AtConstants.total, self.own))

    def gradients(self, z: Array) -> Array:
        """The sums of gradients at one predictor a column."""
        return np.asarray(self.partitions.sum(AtConstants.gradients, self.own, z))

    def starts(self) -> tuple[Array, Array]:
        """The ranges of nonsmooth predictors."""
        lowest, highest = self.partitions.sum(ranges_of_starts, self.own)
        return lowest.numbers, -highest.numbers

    def lost_at(self, z: Array) -> tuple[Array, Array, Array]:
        """Weights, losses and sizes at one predictor a column."""
        total, lost, sizes = self.partitions.sum(AtConstants.lost_at, self.own, z)
        return total, lost, sizes


def moments(
    part: Part, block: str, pivot: Array, size: Array, centre: Array
) -> tuple[Array, Array, Array]:
    """Weights, sums and squares of ``(values - pivot) / size - centre`` by columns."""
    table = part.tables[block]
    columns, weights = table.columns, weights_of_entries(table)
    scaled = (table.less_offsets() - pivot[columns]) / size[columns] - centre[columns]
    total, sums, squares = (
        np.asarray(np.bincount(columns, weights * numbers, pivot.size), dtype=np.float64)
        for numbers in (np.ones(scaled.size), scaled, np.square(scaled))
    )
    return total, sums, squares


def at_constants(part: Part, block: str, standard: Standard, several: Mask) -> AtConstants:
    """The entries of a partition in columns with several values, in standard units."""
    table = part.tables[block].standardised(standard)
    table = table.select(np.flatnonzero(several[table.columns]))
    return AtConstants(
        part.source.model.block(block).likelihood,
        table.values,
        table.columns,
        weights_of_entries(table),
        several.size,
        np.zeros(table.n_entries) if table.offsets is None else table.offsets,
    )


def ranges_of_starts(entries: AtConstants) -> tuple[Least, Least]:
    """The least nonsmooth predictors of each column, and the largest with the other sign."""
    lowest, highest = entries.starts()
    return Least(lowest), Least(-highest)
