"""Entries that are to be filled, and gaps that are none: values that do not apply to a row."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import DataError, ModelError, warn_caller
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import (
    a_type,
    counted,
    is_missing,
    listed,
    plain,
    suggests_options,
)
from mcframe.contracts.wording import wording
from mcframe.model.labels import is_frame
from mcframe.tables.columns import Column
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.gaps import meant_column


@stored
@attrs.frozen
class OnlyIf:
    """The rows to which a column applies, as ``only_if`` declares them.

    Attributes
    ----------
    column : object
    equals : object
    kind : object
        As in ``types``, or None to detect it.
    """

    column: Any
    equals: Any
    kind: Any

    def __str__(self) -> str:
        return f"only if {plain(self.column)!r} is {plain(self.equals)!r}"


@suggests_options
def only_if(column: Any, equals: Any = True, kind: Any = None) -> OnlyIf:
    """Declare that a column applies only to rows in which another one has a certain value.

    For skip logic: who never married has no age of a spouse. ``types={"spouse_age":
    mc.only_if("married")}`` leaves such gaps empty, in tables, draws and new rows. Where the other
    column is missing itself, an entry is filled if the value that is filled there is the one.

    Parameters
    ----------
    column : object
        The name of the other column.
    equals : object, default True
        Its value in the rows to which the declared column applies, as it stands in the table.
    kind : optional
        What the declared column holds, as in ``types`` of ``mc.complete``; detected by default.

    Returns
    -------
    OnlyIf
        A value of ``types``.

    Examples
    --------
    >>> import pandas as pd, mcframe as mc
    >>> frame = pd.DataFrame({
    ...     "married": [True, False, True, True] * 5,
    ...     "age": [40.0, 22.0, 35.0, 51.0] * 5, "spouse_age": [41.0, None, None, 50.0] * 5,
    ... })
    >>> table = mc.complete(frame, {"spouse_age": mc.only_if("married")}).table
    >>> table["spouse_age"].isna().tolist()[:4]
    [False, True, False, False]
    """
    return OnlyIf(column, equals, kind)


def split_types(types: Any) -> tuple[Any, dict[Any, OnlyIf]]:
    """Declared types without conditions, and the conditions by column name."""
    if not isinstance(types, Mapping):
        return types, {}
    conditions = {name: kind for name, kind in types.items() if isinstance(kind, OnlyIf)}
    kinds = {name: conditions[name].kind if name in conditions else types[name] for name in types}
    undeclared = {name for name, condition in conditions.items() if condition.kind is None}
    return {name: kind for name, kind in kinds.items() if name not in undeclared}, conditions


def with_conditions(
    columns: Sequence[DeclaredColumn], conditions: Mapping[Any, OnlyIf]
) -> tuple[DeclaredColumn, ...]:
    """Columns with their conditions.

    Raises
    ------
    ModelError
        If a condition is one of a column that there is not, or of itself, by way of others too.
    DataError
        If no row has the value.
    """
    by_name = {column.name: column for column in columns}
    for name, condition in conditions.items():
        declared = f"types[{plain(name)!r}]"
        for place in (name, condition.column):
            if place not in by_name:
                hint = meant_column(place, list(by_name))
                raise ModelError(f"{declared} names {plain(place)!r}, which is no column; {hint}")
        chain = [name]
        while chain[-1] in conditions:
            following = conditions[chain[-1]].column
            if following in chain:
                raise ModelError(
                    f"{declared} applies {condition}, which depends on {plain(name)!r} itself;"
                    " declare the condition by a column that always applies"
                )
            chain.append(following)
        other, column = by_name[condition.column], by_name[name].column
        if other.column.trouble:
            raise DataError(
                f"{declared} applies {condition}, but of column {plain(other.name)!r}"
                f" {other.column.trouble}"
            )
        holds = demand_value(other, condition.equals, f"{declared} applies {condition}")
        against = np.flatnonzero(~column.missing & ~holds & ~other.column.missing)
        if against.size:
            warn_caller(
                f"column {plain(name)!r} applies {condition}, and has a value in"
                f" {counted(against.size, 'row')} where that is something else, such as"
                f" {wording().row(int(against[0]))}; these values are used and stay"
            )
    return tuple(attrs.evolve(column, condition=conditions.get(column.name)) for column in columns)


def demand_value(declared: DeclaredColumn, value: Any, statement: str) -> Mask:
    """The rows in which a column has a value, or an error that begins with what is stated.

    Raises
    ------
    ModelError
        If it is no value that a column could have.
    DataError
        If no row has it.
    """
    if not isinstance(value, Hashable) or is_missing(value) or value != value:
        raise ModelError(f"{statement}; give a value that the column has")
    holds = values_equal(declared.column, value)
    if not holds.any():
        values = listed([repr(plain(value)) for value in declared.column.distinct[:5]])
        raise DataError(
            f"{statement}, which no row has; give a value that the column"
            f" has{f', such as {values}' * bool(values)}"
        )
    return holds


def values_equal(column: Column, value: Any) -> Mask:
    """True in the rows in which a column has a value; False where it is missing."""
    return np.array([entry is not None and bool(entry == value) for entry in column.values])


def with_where(
    columns: Sequence[DeclaredColumn], where: Any, shape: tuple[int, int]
) -> tuple[DeclaredColumn, ...]:
    """Columns with the entries that may be filled, from an array or a table of truth values.

    Rows are in the order of the table, whatever index a table of truth values has.

    Raises
    ------
    DataError
        If it has another shape or other columns than the table, or other values.
    """
    if where is None:
        return tuple(columns)
    names, mask = [column.name for column in columns], where
    if is_frame(where):
        table = nw.from_native(where, eager_only=True)
        absent = [name for name in names if name not in table.columns]
        if absent:
            raise DataError(
                f"where has no column {plain(absent[0])!r}; give truth values for each column of"
                " the table"
            )
        mask = np.column_stack([np.asarray(table[name].to_list()) for name in names])
    mask = np.asarray(mask)
    if mask.shape != shape or mask.dtype != np.bool_:
        raise DataError(
            f"where is {a_type(where)} of shape {mask.shape} and dtype {mask.dtype}; truth values"
            f" in the shape {shape} of the table are needed, true at the entries to fill"
        )
    pairs = zip(columns, mask.T, strict=True)
    return tuple(attrs.evolve(column, fillable=wanted) for column, wanted in pairs)


@attrs.frozen(eq=False)
class Applicability:
    """Which entries of some rows are filled.

    Attributes
    ----------
    declared : dict from name to DeclaredColumn
    columns : dict from name to Column
        Of these rows, as they were read; an absent one is missing everywhere.
    n_rows : int
    is_table : bool
        Whether these rows are those of the table, of which ``where`` says what is filled.
    """

    declared: Mapping[Any, DeclaredColumn]
    columns: Mapping[Any, Column]
    n_rows: int
    is_table: bool

    @property
    def has_conditions(self) -> bool:
        """True if some column does not apply to all rows."""
        return any(column.condition is not None for column in self.declared.values())

    def fillable(self, name: Any, codes: Mapping[Any, Array]) -> Mask:
        """The rows in which a column is filled where it is missing.

        ``codes`` are those with which the missing entries of each column are filled, by name.
        """
        declared = self.declared[name]
        rows = np.ones(self.n_rows, dtype=bool)
        if self.is_table and declared.fillable is not None:
            rows &= declared.fillable
        if declared.condition is not None:
            rows &= self.holds(declared.condition, codes)
        return rows

    def holds(self, condition: OnlyIf, codes: Mapping[Any, Array]) -> Mask:
        """The rows in which a condition holds."""
        other, column = self.declared[condition.column], self.columns.get(condition.column)
        rows = np.zeros(self.n_rows, dtype=bool)
        missing = np.ones(self.n_rows, dtype=bool)
        if column is not None:
            rows, missing = values_equal(column, condition.equals), column.missing
        if other.constant and other.place is None:
            rows[missing] = other.constant[0] == condition.equals
        elif other.place is None or other.name not in codes:
            rows[missing] = True
        else:
            values = other.block_coding.values(codes[other.name])
            rows[missing] = [bool(value == condition.equals) for value in values]
        return rows & (~missing | self.fillable(other.name, codes))
