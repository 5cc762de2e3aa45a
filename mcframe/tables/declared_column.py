"""A column of a table, what it was taken for, and where it stands in the model."""

import warnings
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.real_numbers import plain
from mcframe.tables.coding import Coding
from mcframe.tables.columns import Column
from mcframe.tables.filling import filled_series
from mcframe.tables.taken import Taken

__all__ = ["DeclaredColumn", "aside", "warn_of_aside"]

# How many columns a warning names.
SHOWN = 5


@attrs.frozen(eq=False)
class DeclaredColumn:
    """A column of a table, what it was taken for, and where it stands in the model.

    Attributes
    ----------
    column : Column
        As it was read.
    taken : Taken
        Its kind, and why.
    place : int or None
        Which column of its block it is; None of one that stands in no block.
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
        """What it was taken for, in a word or two."""
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
            f"{said}: {', '.join(named[:SHOWN])}{more}; types={{name: kind}} says what they are,"
            " types={name: 'skip'} that this is meant",
            UserWarning,
            stacklevel=4,
        )
