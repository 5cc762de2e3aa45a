"""What is required of a block's observed values, and the words for those that are wrong."""

from typing import Any

import numpy as np

from mcframe.contracts.errors import DataError
from mcframe.model.block import Block
from mcframe.model.table import Table

__all__ = ["LARGEST", "check_observed", "check_scale", "check_values"]

# How many offending entries a message shows.
SHOWN = 3
# Sums of squares of values up to this stay finite.
LARGEST = 1e140
# Of data that are all smaller than this squares, and with them the objective, vanish.
SMALLEST = 1e-150


def check_observed(block: Block, table: Table) -> None:
    """Raise a ``DataError`` where not one entry is observed."""
    if table.n_observed == 0:
        raise DataError(
            f"block {block.name!r}: not one of its {table.shape[0]} x {table.shape[1]} entries"
            " is observed; leave the block out of the model, or check that its missing values"
            " and only those are NaN"
        )


def check_values(block: Block, table: Table) -> None:
    """Values that are finite, not too large, and what the likelihood takes them for."""
    infinite = np.isinf(table.values)
    if infinite.any():
        raise DataError(
            f"block {block.name!r}: {entries_of(table, infinite)}; every observed value must be"
            " finite. Replace infinities by NaN if they stand for missing values"
        )
    huge = np.abs(table.values) > LARGEST
    if huge.any():
        raise DataError(
            f"block {block.name!r}: {entries_of(table, huge)}; squares of such values overflow."
            " Rescale the column, or use NaN if they stand for missing values"
        )
    largest = float(np.max(np.abs(table.values), initial=0.0, where=~np.isnan(table.values)))
    if block.likelihood.location and 0.0 < largest < SMALLEST:
        raise DataError(
            f"block {block.name!r}: no value is larger than {largest:g}; squares of such values"
            " vanish. Rescale the columns"
        )
    wrong = block.likelihood.invalid(table.values)
    if wrong.any():
        likelihood = type(block.likelihood).__name__
        raise DataError(
            f"block {block.name!r}: {entries_of(table, wrong)}; {likelihood} needs"
            f" {block.likelihood.needs}. {block.likelihood.remedy}"
        )
    doubt = block.likelihood.doubt(table.shape, table.rows, table.values)
    if doubt is not None:
        raise DataError(f"block {block.name!r}: {doubt}")


def check_scale(block: Block, scale: float, table: Table) -> None:
    """What each entry counts, the block's weight in it, is a finite number."""
    heaviest = 1.0 if table.weights is None else np.max(table.weights, initial=0.0)
    with np.errstate(over="ignore"):
        if np.isfinite(scale * heaviest):
            return
    raise DataError(
        f"block {block.name!r}: with weight={block.weight:g} an entry of weight {heaviest:g}"
        " counts more than the largest number there is; give weights that are closer to 1"
    )


def entries_of(table: Table, chosen: Any) -> str:
    """A few offending entries in words: value, column and row of each."""
    where = np.flatnonzero(chosen)
    described = [
        f"value {table.values[i]:g} in column {table.column_label(int(table.columns[i]))},"
        f" row {table.row_label(int(table.rows[i]))}"
        for i in where[:SHOWN]
    ]
    more = f" and {where.size - SHOWN} more" if where.size > SHOWN else ""
    return "; ".join(described) + more
