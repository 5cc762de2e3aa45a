"""What the losses of a block are compared with: its values, those of a location centred."""

from collections.abc import Mapping

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Parametric
from mcframe.model.block import Block
from mcframe.model.layout import Layout
from mcframe.model.model import Model
from mcframe.model.origin import origin_of
from mcframe.model.table import Table

__all__ = ["layout_of", "origins_of", "targets_of"]


def layout_of(block: Block, table: Table) -> Layout:
    """Return how many free numbers of each kind a block has with these data."""
    likelihood = block.likelihood
    return Layout(
        n_biases=table.shape[1] * likelihood.width if block.bias else 0,
        n_row_effects=table.shape[0] if block.row_effects else 0,
        n_intercepts=int(block.intercept),
        n_parameters=likelihood.n_parameters if isinstance(likelihood, Parametric) else 0,
    )


def origins_of(
    model: Model, tables: Mapping[str, Table], centres: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """Return what the effects of a location are counted from, for those blocks far from 0.

    Centres of columns are those of these tables if none are given; those that are given are of
    all blocks, 0 where a block has none.
    """
    origins = {}
    for block in model.blocks:
        table = tables[block.name].observed_entries()
        layout = layout_of(block, table)
        if block.likelihood.location and layout.n_effects:
            values = targets_of(block, table, None)
            given = None if centres is None else centres.get(block.name, np.zeros(layout.n_biases))
            origin = origin_of(layout, table.rows, table.columns, values, given)
            if origin is not None:
                origins[block.name] = origin
    return origins


def targets_of(block: Block, table: Table, origin: Array | None) -> Array:
    """Return the values of a table; of a location less offset and origin, in this order."""
    if not block.likelihood.location:
        return table.values
    values = table.less_offsets()
    if origin is not None:
        layout = layout_of(block, table)
        # One kind after the other: each of the differences is exact.
        if layout.n_biases:
            values = values - layout.biases(origin)[table.columns]
        if layout.n_row_effects:
            values = values - layout.row_effects(origin)[table.rows]
    return values
