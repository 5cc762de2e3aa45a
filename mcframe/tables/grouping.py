"""What is given of the rows of a table beside its columns: labels of groups, and weights."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.contracts.row_groups import RowGroups
from mcframe.contracts.row_weights import checked_row_weights
from mcframe.contracts.validators import plain
from mcframe.selection.splitters import check_length
from mcframe.tables.column_types import ReadTable
from mcframe.tables.declared_column import GROUPS, ROW_WEIGHTS, DeclaredColumn, placed_columns
from mcframe.tables.gaps import meant_column


def with_groups(table: ReadTable, groups: Any) -> tuple[ReadTable, RowGroups | None]:
    """A table and the groups of its rows; the column that has their labels is set aside.

    Parameters
    ----------
    table : ReadTable
    groups : name of a column, or sequence with a label for each row, or None

    Raises
    ------
    DataError
        If there is no such column, not one label for each row, or a row without one.
    """
    if groups is None:
        return table, None
    if not names_column(table, groups):
        labels = np.asarray(groups)
        check_length("groups", labels, table.frame.shape[0])
        return table, RowGroups.of(labels)
    table, labels = without_column(table, groups, "groups", GROUPS)
    return table, RowGroups.of(labels, f"column {plain(groups)!r} of groups")


def with_row_weights(table: ReadTable, row_weights: Any) -> tuple[ReadTable, Array | None]:
    """A table and the weights of its rows; the column that has them is set aside.

    Parameters
    ----------
    table : ReadTable
    row_weights : name of a column, or sequence with a number for each row, or None

    Raises
    ------
    DataError
        If there is no such column, or not one finite number above 0 for each row.
    """
    if row_weights is None:
        return table, None
    if not names_column(table, row_weights):
        weights = checked_row_weights(row_weights, "row_weights")
        check_length("row_weights", weights, table.frame.shape[0])
        return table, weights
    table, values = without_column(table, row_weights, "row_weights", ROW_WEIGHTS)
    return table, checked_row_weights(values, f"column {plain(row_weights)!r} of row_weights")


def names_column(table: ReadTable, of_rows: Any) -> bool:
    """True if what is said of the rows names a column, and is no sequence with one of each."""
    names = [column.name for column in table.columns]
    return is_hashable(of_rows) and (of_rows in names or not isinstance(of_rows, tuple))


def without_column(table: ReadTable, name: Any, option: str, kind: str) -> tuple[ReadTable, Any]:
    """A table in which a column says something of its rows, and the column's values.

    Values are None where they are missing.
    """
    columns = {column.name: column for column in table.columns}
    if name not in columns:
        hint = meant_column(name, list(columns))
        raise DataError(f"{option} names {plain(name)!r}, which is no column; {hint}")
    says = DeclaredColumn(columns[name].column, kind, f"the {kind} of the rows", is_skipped=True)
    changed = placed_columns((columns | {name: says}).values())
    if all(column.place is None for column in changed):
        raise DataError(
            f"no column is left for a model beside {plain(name)!r}, the {kind} of the rows; give"
            f" {option} as a sequence to use the column, too"
        )
    values = np.array(columns[name].column.values, dtype=object)
    values[columns[name].column.missing] = None
    return attrs.evolve(table, columns=changed), values


def is_hashable(value: Any) -> bool:
    """True of what can be the name of a column; a Series says that it is, and is not."""
    try:
        hash(value)
    except TypeError:
        return False
    return True
