"""Rows in the order of time: what the row before and the row after hold, beside each row."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError, warn_caller
from mcframe.contracts.row_groups import RowGroups
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import plain
from mcframe.contracts.wording import wording
from mcframe.posterior.wide_rows import is_wide
from mcframe.tables.column_types import ReadTable
from mcframe.tables.columns import Column, read_column
from mcframe.tables.declared_column import DeclaredColumn, placed_columns
from mcframe.tables.gaps import meant_column
from mcframe.tables.grouping import is_hashable

# What the rows before and after are called in the names of columns, by the step to them.
NAMES_OF_STEPS = {-1: "row before", 1: "row after"}


@stored
@attrs.frozen
class Neighbour:
    """Whose values a column beside those of the table has: of the row before, or of that after.

    Attributes
    ----------
    column : object
        The column of the table whose values they are.
    time : object
        The column by which rows are ordered.
    groups : object
        The column whose values rows next to each other share; None where all rows are one series.
    step : int
        -1 for the row before, 1 for the row after.
    """

    column: Any
    time: Any
    groups: Any
    step: int


@attrs.frozen(eq=False)
class OrderedRows:
    """Rows of a table and new rows, each with its series and time.

    Attributes
    ----------
    series : array of integers (n,)
    times : array (n,)
    replaced : mask (n,)
        The rows in whose place there are new ones, which are no neighbours.
    """

    series: IntArray
    times: Array
    replaced: Mask

    def neighbours(self, step: int) -> IntArray:
        """The row before or after each row, -1 where there is none (n,)."""
        rows = np.flatnonzero(~self.replaced)
        order = rows[np.lexsort((self.times[rows], self.series[rows]))]
        moved = np.roll(order, -step)
        same: Array = self.series[order] == self.series[moved]
        same[-1 if step > 0 else 0] = False
        neighbours: IntArray = np.full(self.series.size, -1)
        neighbours[order] = np.where(same, moved, -1)
        return neighbours


def with_neighbours(table: ReadTable, time: Any, groups: Any) -> ReadTable:
    """A table with columns of what the rows before and after hold, if it is ordered by time.

    Columns of categories have none, for each would take as many numbers as it has values.

    Parameters
    ----------
    table : ReadTable
    time : name of a column, or None
    groups : name of a column, or None
        As ``complete`` has them.

    Raises
    ------
    DataError
        If there is no such column, it has no numbers or dates, a row has no time, or two rows of a
        series have the same one.
    """
    if time is None:
        return table
    columns = {column.name: column for column in table.columns}
    if time not in columns:
        hint = meant_column(time, list(columns))
        raise DataError(f"time names {plain(time)!r}, which is no column; {hint}")
    if groups is not None and not (is_hashable(groups) and groups in columns):
        raise DataError(
            "time needs groups as the name of a column, since new rows are ordered in their"
            " groups, too; make the labels a column of the table"
        )
    rows = rows_in_order({name: column.column for name, column in columns.items()}, time, groups)
    moved_columns = []
    for step, name_of_step in NAMES_OF_STEPS.items():
        neighbours = rows.neighbours(step)
        for column in table.columns:
            if column.place is None or column.name == time or column.has_classes:
                continue
            name = f"{plain(column.name)} ({name_of_step})"
            while name in columns:
                name += "'"
            source = Neighbour(column.name, time, groups, step)
            values = moved_values(name, column.column.values, neighbours, table.frame)
            if values.n_observed:
                moved_columns.append(
                    attrs.evolve(
                        column,
                        column=values,
                        neighbour=source,
                        condition=None,
                        fillable=None,
                        limit_columns=None,
                    )
                )
    if not moved_columns:
        warn_caller(
            "time was given, and no row has a value of a number or a label in the row before or"
            " after it: it has no effect; name groups of several rows, or leave it out"
        )
    count = sum(column.place is not None for column in table.columns)
    count += len(moved_columns)
    if is_wide(table.frame.shape[0], count):
        warn_caller(
            f"time was given, and the table has too few rows for {count} columns: it"
            " has no effect; complete the table with fewer columns"
        )
        return table
    of_table = (
        attrs.evolve(column, is_skipped=True) if column.name == time else column
        for column in table.columns
    )
    return attrs.evolve(table, columns=placed_columns([*of_table, *moved_columns]))


def neighbours_of_new_rows(
    declared: Iterable[DeclaredColumn], columns: Mapping[Any, Column], table: Any
) -> dict[Any, Column]:
    """The columns of what is beside new rows, in the table or among the new rows themselves.

    A new row with the series and the time of a row of the table takes its place.

    Parameters
    ----------
    declared : DeclaredColumn
        Of the table.
    columns : dict from name to Column
        Of the new rows.
    table : narwhals.DataFrame
        The new rows.
    """
    declared = list(declared)
    moved_columns = [column for column in declared if column.neighbour is not None]
    if not moved_columns:
        return {}
    of_table = {column.name: column.column for column in declared}
    first, made = moved_columns[0].neighbour, {}
    for name in (first.time, *((first.groups,) if first.groups is not None else ())):
        if name not in columns:
            raise DataError(
                f"the new rows have no column {plain(name)!r}, by which rows are ordered; add it"
            )
    rows = rows_in_order(of_table, first.time, first.groups, columns)
    n_rows = table.shape[0]
    for column in moved_columns:
        source = column.neighbour
        neighbours = rows.neighbours(source.step)[-n_rows:] if n_rows else np.zeros(0, int)
        new = columns[source.column].values if source.column in columns else [None] * n_rows
        values = [*of_table[source.column].values, *new]
        made[column.name] = moved_values(column.name, values, neighbours, table)
    return made


@attrs.frozen(eq=False)
class Copies:
    """The second places of the entries of rows: those in the rows before and after them.

    Attributes
    ----------
    columns : array of integers (k,)
        Those of neighbours.
    sources : array of integers (k,)
        The columns whose values they have.
    rows : array of integers (n x k)
        The rows whose values they have; -1 of none.
    """

    columns: IntArray
    sources: IntArray
    rows: IntArray

    @classmethod
    def of(
        cls,
        declared: Sequence[DeclaredColumn],
        others: Sequence[DeclaredColumn],
        rows: IntArray,
    ) -> "Copies | None":
        """The copies in some rows of a table, of which ``declared`` are the columns in a block.

        None if there are none.
        """
        places = {column.name: k for k, column in enumerate(declared)}
        sources = {k: column.neighbour for k, column in enumerate(declared)}
        sources = {k: source for k, source in sources.items() if source is not None}
        if not sources:
            return None
        columns = {column.name: column.column for column in (*declared, *others)}
        first = next(iter(sources.values()))
        in_order = rows_in_order(columns, first.time, first.groups)
        at = np.full(in_order.series.size + 1, -1)  # of no row, too
        at[rows] = np.arange(rows.size)
        rows_at = {step: at[in_order.neighbours(step)[rows]] for step in NAMES_OF_STEPS}
        return cls(
            np.array(list(sources), dtype=np.intp),
            np.array([places[source.column] for source in sources.values()], dtype=np.intp),
            np.column_stack([rows_at[source.step] for source in sources.values()]),
        )

    def of_entries(self, entries: Mask) -> Mask:
        """The copies of entries (n x number of columns)."""
        copies = np.zeros_like(entries)
        copies[:, self.columns] = entries[self.rows, self.sources] & (self.rows >= 0)
        return copies


def rows_in_order(
    columns: Mapping[Any, Column],
    time: Any,
    groups: Any,
    new_columns: Mapping[Any, Column] | None = None,
) -> OrderedRows:
    """The rows of a table, and new ones after them, with their series and times."""
    parts = [columns] if new_columns is None else [columns, new_columns]
    times = [times_of(part[time]) for part in parts]
    labels: list[Any] = []
    for part, of_part in zip(parts, times, strict=True):
        labels += [None] * of_part.size if groups is None else part[groups].values
    places = {label: k for k, label in enumerate(dict.fromkeys(labels))}
    series = np.array([places[label] for label in labels], dtype=np.intp)
    n_table, replaced = times[0].size, np.zeros(series.size, dtype=bool)
    at = [*zip(series.tolist(), np.concatenate(times).tolist(), strict=True)]
    refuse_repeated(at[:n_table], time, groups, labels)
    if new_columns is not None:
        refuse_repeated(at[n_table:], time, groups, labels[n_table:])
        new = set(at[n_table:])
        replaced[:n_table] = [one in new for one in at[:n_table]]
    return OrderedRows(series, np.concatenate(times), replaced)


def with_trend(row_groups: RowGroups, table: ReadTable, trend: int) -> RowGroups:
    """Groups whose means move in time, of a table with neighbours; as they are where it has none.

    Raises
    ------
    DataError
        If the rows have too few different times.
    """
    columns = {column.name: column.column for column in table.columns}
    times = times_of_rows(table.columns, columns)
    return row_groups if times is None else row_groups.moving(times, trend)


def times_of_rows(
    declared: Iterable[DeclaredColumn], columns: Mapping[Any, Column]
) -> Array | None:
    """The times of rows with these columns; None where rows of the table have no neighbours."""
    sources = [column.neighbour for column in declared if column.neighbour is not None]
    return times_of(columns[sources[0].time]) if sources else None


def times_of(column: Column) -> Array:
    """The times of rows, or a ``DataError`` where they are none or a row has none."""
    if column.form not in ("number", "date"):
        raise DataError(
            f"time: column {plain(column.name)!r} has no numbers and no dates, so that its rows"
            " have no order; convert it, or name another column"
        )
    if column.missing.any():
        row = int(np.argmax(column.missing))
        raise DataError(
            f"time: column {plain(column.name)!r} has no value in {wording().row(row)}; give its"
            " time, or drop the row"
        )
    return column.numbers


def refuse_repeated(
    at: list[tuple[int, float]], time: Any, groups: Any, labels: list[Any]
) -> None:
    """Raise a ``DataError`` where two rows of a series have the same time."""
    first_rows: dict[tuple[int, float], int] = {}
    for row, one in enumerate(at):
        first = first_rows.setdefault(one, row)
        if first != row:
            of_group = "" if groups is None else f" of the group {plain(labels[row])!r}"
            remedy = "drop one of them"
            if groups is None:
                remedy = "name a column whose values tell series apart as groups"
            raise DataError(
                f"time: {wording().row(first)} and {wording().row(row)}{of_group} have the same"
                f" value of column {plain(time)!r}; {remedy}"
            )


def moved_values(name: Any, values: list[Any], rows: IntArray, table: Any) -> Column:
    """A column with the values of other rows, missing where that is -1."""
    moved = [None if row < 0 else values[row] for row in rows]
    return read_column(nw.new_series(name, moved, backend=table.implementation))
