"""Tables of standardised blocks: values in standard units, losses of columns on one scale."""

from collections.abc import Mapping

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.model.best_constant import losses_at_best_constants
from mcframe.model.block import Block
from mcframe.model.model import Model
from mcframe.model.table import Table
from mcframe.model.units import Standard, Units, affine_units, rank_units

__all__ = ["standardised"]


def standardised(
    model: Model, tables: Mapping[str, Table], standards: Mapping[str, Standard] | None = None
) -> dict[str, Table]:
    """Return the tables of a model's blocks, those of standardised blocks on one scale.

    On that of their own entries, or on ``standards`` of others. A table that is on one already
    stays as it is.
    """
    found = {}
    for block in model.blocks:
        table = tables[block.name]
        if block.standardize and table.given is None:
            standard = standard_of(block, table) if standards is None else standards[block.name]
            table = table.standardised(standard)
            if not np.all(np.isfinite(weights_of_entries(table))):
                raise DataError(
                    f"block {block.name!r}: weights of entries overflow where each column is"
                    " divided by its loss; give smaller weights, or drop standardize="
                )
        found[block.name] = table
    return found


def standard_of(block: Block, table: Table) -> Standard:
    """Return the units of a block's columns, and what each of their entries counts.

    That is 1 over the loss per entry at the column's best constant (Udell, Horn, Zadeh and Boyd,
    Generalized low rank models, 2016, section 4), and 1 where nothing is lost there.
    """
    n_columns = table.shape[1]
    alone = Standard(units_of(block, table), np.ones(n_columns))
    standard = table.standardised(alone)
    losses = losses_at_best_constants(
        block.likelihood.bound_to(table.shape, standard.values),
        standard.values,
        table.columns,
        weights_of_entries(table),
        n_columns,
        standard.offsets,
    )
    return attrs.evolve(alone, weights=1.0 / np.where(losses > 0.0, losses, 1.0))


def units_of(block: Block, table: Table) -> Units | None:
    """Return the units of a block's values less their offsets; None where they have none."""
    if not block.likelihood.location:
        return None
    values, weights, n_columns = table.less_offsets(), weights_of_entries(table), table.shape[1]
    if block.standardize == "ranks":
        return rank_units(values, table.columns, weights, n_columns)
    robust = block.standardize == "robust"
    return affine_units(values, table.columns, weights, n_columns, robust)


def weights_of_entries(table: Table) -> Array:
    """Return the weight of each entry."""
    return np.ones(table.n_entries) if table.weights is None else table.weights
