"""Rows are items: every block has the same ones, in the same order, under the same labels."""

from collections.abc import Iterable
from typing import Any

from mcframe.contracts.errors import DataError
from mcframe.contracts.real_numbers import is_missing
from mcframe.model.table import Table

__all__ = ["same_rows"]


def same_rows(tables: Iterable[tuple[str, Table]]) -> tuple[int, Any]:
    """The common number of rows and the common index; a DataError where blocks differ."""
    named = list(tables)
    first_name, first = named[0]
    for name, table in named[1:]:
        if table.shape[0] != first.shape[0]:
            raise DataError(
                f"block {first_name!r} has {first.shape[0]} rows but block {name!r} has"
                f" {table.shape[0]}; rows are items, so every block needs the same ones,"
                " in the same order"
            )
    indexed = [(name, table) for name, table in named if table.index is not None]
    for name, table in indexed[1:]:
        row = first_difference(indexed[0][1].index, table.index)
        if row is not None:
            theirs, ours = indexed[0][1].row_label(row), table.row_label(row)
            raise DataError(
                f"blocks {indexed[0][0]!r} and {name!r} have different row labels, first"
                f" {theirs} and {ours} in row {row}; align them first,"
                " for example with other.reindex(frame.index)"
            )
    return first.shape[0], indexed[0][1].index if indexed else None


def first_difference(one: Any, other: Any) -> int | None:
    """Return the place where two equally long indexes differ first; None where all labels agree.

    Of different dtypes they may do so without being ``equals``.
    """
    if one.equals(other):
        return None
    pairs = enumerate(zip(one, other, strict=True))
    return next((row for row, labels in pairs if not same_label(*labels)), None)


def same_label(one: Any, other: Any) -> bool:
    """Whether two labels are equal, or both missing."""
    missing = [is_missing(label) or label != label for label in (one, other)]  # NaN != NaN
    return all(missing) if any(missing) else bool(one == other)
