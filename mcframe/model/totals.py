"""Numbers of all rows of a table: what a problem of some of the rows has to be bound with."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError
from mcframe.contracts.likelihood import Likelihood
from mcframe.model.block import Block
from mcframe.model.model import Model
from mcframe.model.table import Table
from mcframe.model.targets import layout_of, targets_of
from mcframe.model.units import Standard
from mcframe.numerics.operators import Scales

__all__ = ["Counts", "Totals", "counts_of", "row_counts"]


@attrs.frozen(eq=False)
class Counts:
    """How many numbers of Z carry loss, by columns of all blocks and in a row on average."""

    columns: Array
    mean_row: float

    @classmethod
    def of(cls, columns: Array, n_items: int) -> "Counts":
        """Return the counts of all columns, of a table with so many rows."""
        return cls(columns, float(np.sum(columns)) / n_items)

    def row_scales(self, share: float, rows: IntArray) -> Array:
        """The roots of ``1 - share + share * count / mean count`` of rows with these counts."""
        scales: Array = np.sqrt(1.0 - share + share * rows / self.mean_row)
        return scales

    def scales(self, share: float, rows: IntArray, n_extra: int) -> Scales:
        """Scales of rows with these counts and of all columns; those without data have 1."""
        relative = self.columns / np.mean(self.columns)
        columns = np.sqrt(1.0 - share + share * relative)
        return Scales(self.row_scales(share, rows), np.append(columns, np.ones(n_extra)))


@attrs.frozen(eq=False)
class Totals:
    """What binding counts over all rows; all else of a problem can be told from its own rows.

    A problem of a part of the rows, bound with the totals of the whole, has the scales, the
    origins and the likelihoods of the whole, so that the losses of the parts sum to its losses.

    Attributes
    ----------
    weights : mapping from block name to float
        The sums of the weights of entries, by which ``reduce="mean"`` divides.
    centres : mapping from block name to array (latent columns,)
        From where the biases of a location are counted, where that is not 0.
    likelihoods : mapping from block name to Likelihood
        Each with what it estimates from all observed values.
    standards : mapping from block name to Standard
        Units and weights of the columns of each standardised block.
    counts : Counts or None
        What carries loss, where a term has scales made of it.
    """

    weights: Mapping[str, float]
    centres: Mapping[str, Array]
    likelihoods: Mapping[str, Likelihood]
    standards: Mapping[str, Standard]
    counts: Counts | None = None

    @classmethod
    def of(
        cls, model: Model, tables: Mapping[str, Table], origins: Mapping[str, Array]
    ) -> "Totals":
        """Return the totals of tables that hold all rows, with the origins of their effects.

        Raises
        ------
        DataError
            Where a likelihood cannot estimate from the values what it needs.
        """
        n_items = tables[model.blocks[0].name].shape[0]
        observed = {name: table.observed_entries() for name, table in tables.items()}
        targets = {
            block.name: targets_of(block, observed[block.name], origins.get(block.name))
            for block in model.blocks
        }
        size = size_of_predictors(model, targets)
        return cls(
            weights={name: table.total_weight for name, table in tables.items()},
            centres={
                block.name: layout_of(block, observed[block.name]).biases(origins[block.name])
                for block in model.blocks
                if block.name in origins
            },
            likelihoods={
                block.name: bound_likelihood(block, tables[block.name], targets[block.name], size)
                for block in model.blocks
            },
            standards={
                name: table.given.standard for name, table in tables.items() if table.given
            },
            counts=counts_of(model, lambda name: tables[name].column_counts, n_items),
        )


def counts_of(model: Model, of_block: Callable[[str], IntArray], n_items: int) -> Counts | None:
    """Return the counts of columns of Z from those of a block's; None where no term needs any."""
    if not any(term.count_share for term in model.terms):
        return None
    of_blocks = [np.repeat(of_block(b.name), b.likelihood.width) for b in model.blocks]
    return Counts.of(np.concatenate(of_blocks).astype(float), n_items)


def row_counts(model: Model, tables: Mapping[str, Table]) -> IntArray:
    """Return how many numbers of each row of Z carry loss, by the tables of some blocks."""
    width = {block.name: block.likelihood.width for block in model.blocks}
    counts: Any = sum(width[name] * table.row_counts for name, table in tables.items())
    return np.asarray(counts)


def size_of_predictors(model: Model, targets: Mapping[str, Array]) -> float:
    """Return the largest target of a location; 1 for others, whose predictors have no unit."""
    sizes = [
        float(np.max(np.abs(targets[block.name]), initial=0.0))
        if block.likelihood.location
        else 1.0
        for block in model.blocks
    ]
    return max(sizes) or 1.0


def bound_likelihood(block: Block, table: Table, targets: Array, size: float) -> Likelihood:
    """Return the likelihood of a block with what it estimates from the observed values.

    Where all of them are alike, and so 0 once centred, those of the others say how large they are.
    """
    known = targets
    if block.likelihood.location and targets.size and not targets.any():
        known = np.array([size])
    try:
        return block.likelihood.bound_to(table.shape, known)
    except DataError as error:
        raise DataError(f"block {block.name!r}: {error}") from None
