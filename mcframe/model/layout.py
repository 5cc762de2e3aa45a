"""The free numbers of a block in one vector: biases, row effects, an intercept, parameters."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import Parametric
from mcframe.model.model import Block, Model
from mcframe.model.table import Table
from mcframe.model.units import ranges_of


@attrs.frozen
class Layout:
    """The numbers of biases, row effects, intercepts and parameters of a block, in this order.

    ``n_biases`` is 0 or the number of latent columns of the block, ``n_row_effects`` 0 or the
    number of items, ``n_intercepts`` 0 or 1, ``n_parameters`` what its likelihood fits.
    """

    n_biases: int = 0
    n_row_effects: int = 0
    n_intercepts: int = 0
    n_parameters: int = 0

    @property
    def size(self) -> int:
        """The length of the vector."""
        return self.n_effects + self.n_parameters

    @property
    def n_effects(self) -> int:
        """The number of effects, which are added to Z; they come before the parameters."""
        return self.n_biases + self.n_row_effects + self.n_intercepts

    def biases(self, vector: Array) -> Array:
        """The part of the biases."""
        return vector[: self.n_biases]

    def row_effects(self, vector: Array) -> Array:
        """The part of the row effects."""
        return vector[self.n_biases : self.n_biases + self.n_row_effects]

    def intercept(self, vector: Array) -> float:
        """The intercept, 0 where there is none."""
        return float(vector[self.n_effects - 1]) if self.n_intercepts else 0.0

    def parameters(self, vector: Array) -> Array:
        """The part of the parameters."""
        return vector[self.n_effects :]

    def name_of(self, place: int) -> str:
        """The name of one of the numbers in messages."""
        if place < self.n_biases:
            return f"bias of column {place}"
        if place < self.n_biases + self.n_row_effects:
            return f"effect of row {place - self.n_biases}"
        if place < self.n_effects:
            return "intercept"
        return f"parameter {place - self.n_effects}"

    def add_to(self, z: Array, vector: Array) -> Array:
        """Z (n_items x latent columns) plus the effects of its columns and of its rows."""
        if self.n_biases:
            z = z + self.biases(vector)
        if self.n_row_effects:
            z = z + self.row_effects(vector)[:, None]
        return z + self.intercept(vector) if self.n_intercepts else z

    def at(self, rows: IntArray, columns: IntArray, vector: Array) -> Array:
        """The sums of the effects at latent entries, by their rows and latent columns.

        ``columns`` may have a last axis for the latent columns of one entry.
        """
        total: Any = self.biases(vector)[columns] if self.n_biases else 0.0
        if self.n_row_effects:
            of_rows = self.row_effects(vector)[rows]
            total = total + (of_rows if columns.ndim == rows.ndim else of_rows[:, None])
        return total + self.intercept(vector)


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


def origin_of(
    layout: Layout, rows: IntArray, columns: IntArray, values: Array, centres: Array | None = None
) -> Array | None:
    """Return a vector of effects close to all values, as the layout has them; None if all are 0.

    The values of a column, and then the remainders of a row, are centred where they lie within
    a factor of two of each other. Differences from a number between them are then exact (Sterbenz,
    Floating-point computation, 1974): a time stamp, an identifier or a sum in dollars loses no
    digit, and what is fitted afterwards has the size of what varies. Other values have no use for
    a centre, since they vary by as much as they are large.

    ``centres`` of the columns (n_biases,) may be given: values in other rows count, too.
    """
    origin = np.zeros(layout.size)
    left = values
    if layout.n_biases:
        biases = layout.biases(origin)
        if centres is None:
            centres = middles_between(*ranges_of(left, columns, biases.size))
        biases[:] = centres
        left = left - biases[columns]
    if layout.n_row_effects:
        of_rows = layout.row_effects(origin)
        of_rows[:] = middles_between(*ranges_of(left, rows, of_rows.size))
    return origin if np.any(origin) else None


def middles_between(lowest: Array, highest: Array) -> Array:
    """Return the middle of each range within a factor of two, 0 of others and of empty ones."""
    above = (lowest > 0.0) & (0.5 * highest <= lowest)
    below = (highest < 0.0) & (0.5 * lowest >= highest)
    far = (above | below) & (lowest <= highest)  # not those without a value
    middle = np.zeros(lowest.size)
    middle[far] = lowest[far] + 0.5 * (highest[far] - lowest[far])
    return middle
