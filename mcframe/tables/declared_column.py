"""A column of a table, its type, and its position in the blocks of the model."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Likelihood, fits_parameters
from mcframe.contracts.real_numbers import plain
from mcframe.model import Block
from mcframe.selection.column_order import places_by_content
from mcframe.tables.coding import Choice, Coding
from mcframe.tables.columns import Column
from mcframe.tables.filling import filled_series
from mcframe.tables.taken import Taken

__all__ = [
    "DeclaredColumn",
    "aside",
    "blocks_of",
    "data_of",
    "in_content_order",
    "in_table_order",
    "members_of",
    "placed_columns",
    "warn_of_aside",
]

# How many columns a warning names.
SHOWN = 5


@attrs.frozen(eq=False)
class DeclaredColumn:
    """A column of a table, its type, and its position in the model.

    Attributes
    ----------
    column : Column
        The column as it was read.
    taken : Taken
        Its type, and the reason.
    place : int or None
        Its column number in its block; None if it is in no block.
    """

    column: Column
    taken: Taken
    place: int | None = None

    @property
    def name(self) -> Any:
        """The name in the table."""
        return self.column.name

    @property
    def kind(self) -> str:
        """The type, in a word or two."""
        return "set aside" if self.taken.kind == "skip" else self.taken.kind

    @property
    def share_missing(self) -> float:
        """The share of entries that are missing."""
        return float(np.mean(self.column.missing))

    @cached_property
    def codes(self) -> Array:
        """The numbers that the likelihood reads (n_items,), NaN where missing."""
        return self.modelled[0].codes(self.column)

    def answered(self, fit: Any) -> Array:
        """The codes of the missing entries of a column that stands in a block, by a fit."""
        rows = np.flatnonzero(self.column.missing)
        coding, block = self.modelled
        answer = coding.answer(fit, block, rows, np.full(rows.size, self.place))
        return coding.predicted(answer)

    def filled_with(self, codes: Array) -> Any:
        """The column with these codes at its missing entries, and a constant one with that."""
        rows = np.flatnonzero(self.column.missing)
        if rows.size == 0 or (self.place is None and not self.taken.constant):
            return self.column.series
        values = self.taken.constant * rows.size
        if self.place is not None:
            values = self.modelled[0].values(codes)
        return filled_series(self.column.series, rows, self.column.written(values))

    @property
    def modelled(self) -> tuple[Coding, str]:
        """Coding and block of a column that stands in one."""
        assert self.taken.coding is not None
        assert self.taken.block is not None
        return self.taken.coding, self.taken.block


def aside(columns: Iterable[DeclaredColumn]) -> list[DeclaredColumn]:
    """Return the columns that stand in no block, but for constant ones and those declared so."""
    return [
        each
        for each in columns
        if each.place is None and not each.taken.constant and each.taken.why != "declared"
    ]


def warn_of_aside(said: str, columns: Iterable[DeclaredColumn]) -> None:
    """A ``UserWarning`` that names columns that are set aside, each with the reason."""
    named = [f"{plain(each.name)!r} ({each.taken.why})" for each in columns]
    if named:
        more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
        warnings.warn(
            f"{said}: {', '.join(named[:SHOWN])}{more}; types={{name: kind}} declares them,"
            " types={name: 'skip'} confirms this",
            UserWarning,
            stacklevel=4,
        )


def placed_columns(pairs: Iterable[tuple[Column, Taken]]) -> tuple[DeclaredColumn, ...]:
    """Return columns, each with its place in its block."""
    filled: dict[str, int] = {}
    placed = []
    for column, taken in pairs:
        place = None
        if taken.block is not None:
            place = filled.setdefault(taken.block, 0)
            filled[taken.block] += 1
        placed.append(DeclaredColumn(column, taken, place))
    return tuple(placed)


def in_content_order(columns: Sequence[DeclaredColumn]) -> tuple[DeclaredColumn, ...]:
    """Return columns by what they hold, with places in this order; those in no block come last.

    So that an answer does not depend, not even by rounding, on the order of a table's columns.
    """
    inside = [each for each in columns if each.place is not None]
    outside = [each for each in columns if each.place is None]
    order = np.argsort(places_by_content(np.column_stack([each.codes for each in inside])))
    ordered = [*(inside[k] for k in order), *outside]
    return placed_columns((each.column, each.taken) for each in ordered)


def in_table_order(columns: Iterable[DeclaredColumn], table: Any) -> tuple[DeclaredColumn, ...]:
    """Return columns in the order in which the table has them."""
    position = {name: k for k, name in enumerate(table.columns)}
    return tuple(sorted(columns, key=lambda each: position[each.name]))


def members_of(columns: Iterable[DeclaredColumn]) -> dict[str, list[DeclaredColumn]]:
    """Return the columns of each block, by their places."""
    inside = [each for each in columns if each.place is not None]
    found: dict[str, list[DeclaredColumn]] = {}
    for each in sorted(inside, key=attrgetter("place")):
        found.setdefault(each.modelled[1], []).append(each)
    return found


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
    members = members_of(columns)
    data: dict[str, Any] = {}
    for block in blocks:
        own = [each.modelled[0].numbers(codes[each.name]) for each in members[block.name]]
        data[block.name] = np.column_stack(own)
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
