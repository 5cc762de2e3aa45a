"""Blocks of columns of one kind, and their data."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Likelihood, fits_parameters
from mcframe.contracts.real_numbers import plain
from mcframe.model import Block
from mcframe.tables.coding import Choice
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
    members: dict[str, list[DeclaredColumn]] = {block.name: [] for block in blocks}
    for each in columns:
        if each.place is not None:
            members[each.modelled[1]].append(each)
    data: dict[str, Any] = {
        block: np.column_stack([each.modelled[0].numbers(codes[each.name]) for each in own])
        for block, own in members.items()
    }
    if not table.implementation.is_pandas():
        return data
    native = table.to_native()
    return {
        block: type(native)(values, index=native.index, columns=names_of(members[block]))
        for block, values in data.items()
    }


def names_of(columns: Iterable[DeclaredColumn]) -> list[Any]:
    """Return what the columns of a block are called: of several of one column, its values too."""
    names: list[Any] = []
    for each in columns:
        coding = each.modelled[0]
        if coding.width == 1 or not isinstance(coding, Choice):
            names.append(each.name)
            continue
        names += [f"{plain(each.name)} = {plain(value)}" for value in coding.places]
    return names
