"""Groups of the rows of a table: the labels that are given."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.errors import DataError
from mcframe.contracts.row_groups import RowGroups
from mcframe.contracts.validators import plain
from mcframe.selection.splitters import check_length
from mcframe.tables.column_types import ReadTable
from mcframe.tables.declared_column import of_groups, placed_columns
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
    names = [column.name for column in table.columns]
    if not (is_hashable(groups) and (groups in names or not isinstance(groups, tuple))):
        labels = np.asarray(groups)
        check_length("groups", labels, table.frame.shape[0])
        return table, RowGroups.of(labels)
    columns = {column.name: column for column in table.columns}
    if groups not in columns:
        hint = meant_column(groups, names)
        raise DataError(f"groups names {plain(groups)!r}, which is no column; {hint}")
    changed = placed_columns(
        of_groups(column.column) if column.name == groups else column for column in table.columns
    )
    if all(column.place is None for column in changed):
        raise DataError(
            f"no column is left for a model beside {plain(groups)!r}, the groups of the rows; give"
            " groups as a sequence of labels to use the column, too"
        )
    labels = np.array(columns[groups].column.values, dtype=object)
    labels[columns[groups].column.missing] = None
    return attrs.evolve(table, columns=changed), RowGroups.of(
        labels, f"column {plain(groups)!r} of groups"
    )


def is_hashable(value: Any) -> bool:
    """True of what can be the name of a column; a Series says that it is, and is not."""
    try:
        hash(value)
    except TypeError:
        return False
    return True
