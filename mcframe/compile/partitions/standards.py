"""Standard units of columns whose entries are in partitions: by sums, a round each."""

from typing import Any

import attrs
import numpy as np

from mcframe.compile.partitions.executor import Partitions, Task
from mcframe.compile.partitions.least import Least
from mcframe.compile.partitions.part import Part
from mcframe.contracts.arrays import Array, Mask
from mcframe.model import Block
from mcframe.model.standardising import (
    AtConstants,
    best_constants,
    mean_losses,
    weights_of_entries,
)
from mcframe.model.units import Standard, Units, affine_units_of, middles_and_sizes_of

__all__ = ["ranges_in", "standard_of_partitions"]


def standard_of_partitions(
    block: Block, partitions: Partitions, lowest: Array, highest: Array
) -> Standard:
    """Return the standard of a block's columns, whose values less offsets have these ranges.

    Mean and mean square are taken of values less the middle of their range, in its size, so that
    those around 1e12 lose no digit; then each column is weighed by its losses at its best
    constant, which the loss of a quadratic tells in two rounds, and a bisection in some 90.
    """
    units = None
    if block.likelihood.location:
        pivot, size = middles_and_sizes_of(lowest, highest)
        nothing = np.zeros(lowest.size)
        total, sums, _ = partitions.sum(Moments(block.name, pivot, size, nothing))
        mean = sums / np.where(total > 0.0, total, 1.0)
        total, _, squares = partitions.sum(Moments(block.name, pivot, size, mean))
        spread = np.sqrt(squares / np.where(total > 0.0, total, 1.0))
        units = affine_units_of(pivot, size, mean, spread)
        lowest, highest = ranges_in(units, lowest, highest)
    alone = Standard(units, np.ones(lowest.size))
    sums_at = SumsAtConstants(partitions, block.name, alone, lowest < highest)
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
    block: str
    standard: Standard
    several: Mask

    def asked(self, word: str, *given: Array) -> Task:
        """What partitions are asked."""
        standard = self.standard
        return AskedAtConstants(self.block, standard, self.several, word, given)

    def total(self) -> Array:
        """The weight of each column."""
        return np.asarray(self.partitions.sum(self.asked("total")))

    def gradients(self, z: Array) -> Array:
        """The sums of gradients at one predictor a column."""
        return np.asarray(self.partitions.sum(self.asked("gradients", z)))

    def starts(self) -> tuple[Array, Array]:
        """The ranges of nonsmooth predictors."""
        task = StartsAtConstants(self.block, self.standard, self.several, "starts", ())
        lowest, highest = self.partitions.sum(task)
        return lowest.numbers, -highest.numbers

    def lost_at(self, z: Array) -> tuple[Array, Array, Array]:
        """Weights, losses and sizes at one predictor a column."""
        total, lost, sizes = self.partitions.sum(self.asked("lost_at", z))
        return total, lost, sizes


@attrs.frozen(eq=False)
class Moments(Task):
    """Weights, sums and squares of ``(values - pivot) / size - centre`` by columns."""

    block: str
    pivot: Array
    size: Array
    centre: Array

    def of(self, part: Part) -> tuple[Array, Array, Array]:
        """What a partition adds to them."""
        table, n_columns = part.tables[self.block], self.pivot.size
        columns, weights = table.columns, weights_of_entries(table)
        scaled = (table.less_offsets() - self.pivot[columns]) / self.size[columns]
        scaled = scaled - self.centre[columns]
        total, sums, squares = (
            np.asarray(np.bincount(columns, weights * numbers, n_columns), dtype=np.float64)
            for numbers in (np.ones(scaled.size), scaled, np.square(scaled))
        )
        return total, sums, squares


@attrs.frozen(eq=False)
class AskedAtConstants(Task):
    """What ``AtConstants`` of a partition answer to a word."""

    block: str
    standard: Standard
    several: Mask
    word: str
    given: tuple[Array, ...]

    def of(self, part: Part) -> Any:
        """The answer of a partition."""
        table = part.tables[self.block].standardised(self.standard)
        table = table.select(np.flatnonzero(self.several[table.columns]))
        likelihood = part.source.model.block(self.block).likelihood
        offsets = np.zeros(table.n_entries) if table.offsets is None else table.offsets
        sums = AtConstants(
            likelihood,
            table.values,
            table.columns,
            weights_of_entries(table),
            self.several.size,
            offsets,
        )
        return getattr(sums, self.word)(*self.given)


@attrs.frozen(eq=False)
class StartsAtConstants(AskedAtConstants):
    """The ranges of nonsmooth predictors of each column."""

    def of(self, part: Part) -> tuple[Least, Least]:
        """The least of a partition, and the largest with the other sign."""
        lowest, highest = super().of(part)
        return Least(lowest), Least(-highest)
