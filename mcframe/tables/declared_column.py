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
from mcframe.tables.columns import Column, filled_series, listed


@attrs.frozen(eq=False)
class DeclaredColumn:
    """A column of a table, its type, and its position in the model.

    Attributes
    ----------
    column : Column
        The column as it was read.
    kind : str
        The type, in a word or two: one of ``KINDS``, the class of a likelihood that was given,
        "constant" or "set aside".
    why : str
        The reason.
    coding : Coding or None
        None of a column that is set aside or constant.
    likelihood : Likelihood or None
    block : str or None
        The block in which it stands.
    constant : tuple
        The only observed value of a constant column.
    place : int or None
        Its column number in its block; None if it is in no block.
    """

    column: Column
    kind: str
    why: str
    coding: Coding | None = None
    likelihood: Likelihood | None = None
    block: str | None = None
    constant: tuple[Any, ...] = ()
    place: int | None = None

    @property
    def name(self) -> Any:
        """The name in the table."""
        return self.column.name

    @property
    def share_missing(self) -> float:
        """The share of entries that are missing."""
        return float(np.mean(self.column.missing))

    @cached_property
    def codes(self) -> Array:
        """The numbers that the likelihood reads (n_items,), NaN where missing."""
        return self.modelled[0].codes(self.column)

    @property
    def modelled(self) -> tuple[Coding, str]:
        """Coding and block of a column that stands in one."""
        assert self.coding is not None
        assert self.block is not None
        return self.coding, self.block

    @property
    def is_filled(self) -> bool:
        """True if missing entries are filled."""
        return self.place is not None or bool(self.constant)

    def answered(self, fit: Any) -> Array:
        """The codes of the missing entries of a column that stands in a block, by a fit."""
        rows = np.flatnonzero(self.column.missing)
        coding, block = self.modelled
        answer = coding.answer(fit, block, rows, np.full(rows.size, self.place))
        return coding.predicted(answer)

    def filled_with(self, codes: Array) -> Any:
        """The column with these codes at its missing entries, and a constant one with that."""
        rows = np.flatnonzero(self.column.missing)
        if rows.size == 0 or not self.is_filled:
            return self.column.series
        values = list(self.constant) * rows.size
        if self.place is not None:
            values = self.modelled[0].values(codes)
        return filled_series(self.column.series, rows, self.column.written(values))


def aside(columns: Iterable[DeclaredColumn]) -> list[DeclaredColumn]:
    """Return the columns that are not filled, but for those that were declared so."""
    return [each for each in columns if not each.is_filled and each.why != "declared"]


def warn_of_aside(said: str, columns: Iterable[DeclaredColumn]) -> None:
    """A ``UserWarning`` that names columns that are set aside, each with the reason."""
    named = [f"{plain(each.name)!r} ({each.why})" for each in columns]
    if named:
        warnings.warn(
            f"{said}: {listed(named)}; types={{name: kind}} declares them, types={{name: 'skip'}}"
            " confirms this",
            UserWarning,
            stacklevel=4,
        )


def placed_columns(columns: Iterable[DeclaredColumn]) -> tuple[DeclaredColumn, ...]:
    """Return columns, each with its place in its block."""
    filled: dict[str, int] = {}
    placed = []
    for each in columns:
        place = None
        if each.block is not None:
            coding, block = each.modelled
            place = filled.get(block, 0)
            filled[block] = place + coding.width
        placed.append(attrs.evolve(each, place=place))
    return tuple(placed)


def in_content_order(columns: Sequence[DeclaredColumn]) -> tuple[DeclaredColumn, ...]:
    """Return columns by what they hold, with places in this order; those in no block come last.

    So that an answer does not depend, not even by rounding, on the order of a table's columns.
    """
    inside = [each for each in columns if each.place is not None]
    order = np.argsort(places_by_content(np.column_stack([each.codes for each in inside])))
    outside = [each for each in columns if each.place is None]
    return placed_columns([*(inside[k] for k in order), *outside])


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
        if each.block is not None and each.likelihood is not None:
            found.setdefault(each.block, each.likelihood)
    return [
        Block(name, likelihood, bias=not fits_parameters(likelihood), standardize=True)
        for name, likelihood in found.items()
    ]


def data_of(
    columns: Iterable[DeclaredColumn], codes: Mapping[Any, Array], table: Any
) -> dict[str, Any]:
    """The codes of the columns of each block: DataFrames where the table is one of pandas.

    Parameters
    ----------
    codes : dict from column name to array (n_items,)
    table : narwhals.DataFrame
        Whose index a DataFrame gets.
    """
    data: dict[str, Any] = {}
    for block, members in members_of(columns).items():
        values = [each.modelled[0].numbers(codes[each.name]) for each in members]
        data[block] = np.column_stack(values)
        if table.implementation.is_pandas():
            native, names = table.to_native(), [name for own in members for name in names_of(own)]
            data[block] = type(native)(data[block], index=native.index, columns=names)
    return data


def names_of(column: DeclaredColumn) -> list[Any]:
    """Return what the columns of a block are called: of several of one column, its values too."""
    coding = column.modelled[0]
    if coding.width == 1 or not isinstance(coding, Choice):
        return [column.name]
    return [f"{plain(column.name)} = {plain(value)}" for value in coding.places]
