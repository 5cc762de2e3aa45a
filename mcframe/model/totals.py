"""Numbers of all rows of a table: what a problem of some of the rows has to be bound with."""

from collections.abc import Mapping

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.contracts.likelihood import Likelihood
from mcframe.model.block import Block
from mcframe.model.model import Model
from mcframe.model.table import Table
from mcframe.model.targets import layout_of, targets_of
from mcframe.model.units import Standard

__all__ = ["Totals"]


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
    """

    weights: Mapping[str, float]
    centres: Mapping[str, Array]
    likelihoods: Mapping[str, Likelihood]
    standards: Mapping[str, Standard]

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
        )


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
