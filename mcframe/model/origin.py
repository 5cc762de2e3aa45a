"""Origins of effects: values far from 0 are centred before any arithmetic."""

import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.model.layout import Layout

__all__ = ["middles_between", "origin_of"]


def origin_of(
    layout: Layout,
    rows: IntArray,
    columns: IntArray,
    values: Array,
    centres: Array | None = None,
) -> Array | None:
    """Return a vector of effects close to all values, as the layout has them; None if all are 0.

    The values of a column, and what is left of those of a row, are centred where they lie within
    a factor of two of each other. Differences from a number between them are then exact (Sterbenz,
    Floating-point computation, 1974): a time stamp, an identifier or a sum in dollars loses no
    digit, and what is fitted afterwards has the size of what varies. Other values have no use for
    a centre, since they vary by as much as they are large.

    ``centres`` of the columns (n_biases,) may be given: values in other rows count, too.
    """
    origin = np.zeros(layout.size)
    left = values
    if layout.n_biases:
        own = layout.biases(origin)
        own[:] = middles(columns, left, own.size) if centres is None else centres
        left = left - own[columns]
    if layout.n_row_effects:
        own = layout.row_effects(origin)
        own[:] = middles(rows, left, own.size)
    return origin if np.any(origin) else None


def middles(groups: IntArray, values: Array, n_groups: int) -> Array:
    """Return the middle of each group whose values lie within a factor of two, 0 of others."""
    lowest, highest = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(lowest, groups, values)
    np.maximum.at(highest, groups, values)
    return middles_between(lowest, highest)


def middles_between(lowest: Array, highest: Array) -> Array:
    """Return the middle of each range within a factor of two, 0 of others and of empty ones."""
    above = (lowest > 0.0) & (0.5 * highest <= lowest)
    below = (highest < 0.0) & (0.5 * lowest >= highest)
    far = (above | below) & (lowest <= highest)  # not those without a value
    middle = np.zeros(lowest.size)
    middle[far] = lowest[far] + 0.5 * (highest[far] - lowest[far])
    return middle
