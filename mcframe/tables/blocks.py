"""Blocks of columns of one kind, and their data."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Likelihood, fits_parameters
from mcframe.model import Block
from mcframe.tables.declared_column import DeclaredColumn

__all__ = ["blocks_of", "data_of"]


def blocks_of(placed: Iterable[DeclaredColumn]) -> list[Block]:
    """A block for each kind, in the order in which they appear.

    Thresholds that are fitted hold an offset already: no bias stands beside them.
    """
    found: dict[str, Likelihood] = {}
    for each in placed:
        if each.taken.block is not None and each.taken.likelihood is not None:
            found.setdefault(each.taken.block, each.taken.likelihood)
    return [
        Block(name, likelihood, bias=not fits_parameters(likelihood), standardize=True)
        for name, likelihood in found.items()
    ]


def data_of(
    blocks: Iterable[Block],
    columns: Iterable[DeclaredColumn],
    codes: Mapping[Any, Array],
    table: Any,
) -> dict[str, Any]:
    """The codes of the columns of each block: DataFrames where the table is one of pandas.

    Parameters
    ----------
    codes : dict from column name to array (n_items,)
    table : narwhals.DataFrame
        Whose index a DataFrame gets.
    """
    members: dict[str, list[Any]] = {block.name: [] for block in blocks}
    for each in columns:
        if each.place is not None:
            members[each.modelled[1]].append(each.name)
    data: dict[str, Any] = {
        block: np.column_stack([codes[name] for name in names]) for block, names in members.items()
    }
    if not table.implementation.is_pandas():
        return data
    native = table.to_native()
    return {
        block: type(native)(values, index=native.index, columns=members[block])
        for block, values in data.items()
    }
