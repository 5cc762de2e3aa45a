"""New rows of a declared table: coded like the table, and with their missing entries filled."""

import datetime as dt
import warnings
from collections.abc import Mapping
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.answer import new_rows
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.real_numbers import plain
from mcframe.posterior.answer import Posterior
from mcframe.tables.coding import Choice, Dates, Numbers
from mcframe.tables.columns import (
    Column,
    filled_series,
    listed,
    read_columns,
    read_frame,
    series_like,
    values_of,
    with_categories,
)
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.kinds import contradiction, what
from mcframe.tables.text_numbers import read_text_like

# What the values of a column are, by its form; categories have a list of their own.
TYPES: dict[str, Any] = {"text": str, "boolean": bool, "number": (int, float), "date": dt.date}


@attrs.frozen(eq=False)
class CodedRows:
    """New rows of a declared table: the original rows, and their codes.

    Attributes
    ----------
    declared : tuple of DeclaredColumn
        The columns of the declared table.
    table : narwhals.DataFrame
        The new rows as they were given.
    given : dict from name to Column
        Their columns.
    codes : dict from name to array (n_new,)
        Of each column that stands in a block, NaN where it is missing or was never seen.
    """

    declared: tuple[DeclaredColumn, ...]
    table: Any
    given: Mapping[Any, Column]
    codes: Mapping[Any, Array]

    @classmethod
    def of(cls, declared: tuple[DeclaredColumn, ...], frame: Any, unseen: str) -> "CodedRows":
        """Read new rows, as ``Declared.rows`` says.

        Raises
        ------
        DataError, ModelError
            As there.
        """
        check_unseen(unseen)
        table = read_frame(frame)
        known = {each.name: each.column for each in declared}
        given = {
            column.name: read_text_like(column, known.get(column.name, column))
            for column in read_columns(table)
        }
        strange = [repr(plain(name)) for name in given if name not in known]
        if strange:
            raise DataError(
                f"the new rows have columns that the declared table has not: {listed(strange)};"
                " drop or rename them"
            )
        modelled = [each for each in declared if each.place is not None]
        absent = [repr(plain(each.name)) for each in modelled if each.name not in given]
        said = []
        if absent:
            said.append(
                f"columns that the new rows do not have count as missing: {listed(absent)}"
            )
        codes, never = {}, list[str]()
        for each in modelled:
            column = given.get(each.name)
            if column is None:
                codes[each.name] = np.full(table.shape[0], np.nan)
                continue
            codes[each.name] = codes_of(each, column)
            places = np.flatnonzero(np.isnan(codes[each.name]) & ~column.missing)
            values = values_of(column.series) if places.size else []
            never += [
                f"{plain(value)!r} in column {plain(column.name)!r}"
                for value in dict.fromkeys(values[row] for row in places)
            ]
        if never:
            unknown = f"values that the model does not know: {listed(never)}"
            if unseen == "error":
                raise DataError(f"{unknown}; unseen='missing' takes them as missing")
            said.append(f"{unknown}; they count as missing there, and stay as they are")
        for message in said:
            warnings.warn(message, UserWarning, stacklevel=4)
        return cls(declared, table, given, codes)

    def completed(self, filled: Mapping[str, Array]) -> Any:
        """The rows as a table of their library, filled as ``Declared.complete_rows`` says.

        Parameters
        ----------
        filled : dict from block name to array (n_new x columns of the block)
            Codes without a missing one.
        """
        changed, n_rows = [], self.table.shape[0]
        for each in self.declared:
            column = self.given.get(each.name)
            missing = np.arange(n_rows) if column is None else np.flatnonzero(column.missing)
            if not each.is_filled or not missing.size:
                continue
            values = list(each.constant) * n_rows
            if each.place is not None:
                coding, block = each.modelled
                if isinstance(coding, Numbers) and column is not None and column.form == "number":
                    # Numbers within what the dtype of the new rows holds.
                    coding = attrs.evolve(coding, whole=column.whole or coding.whole)
                values = coding.values(coding.filled_codes(filled[block], each.place))
            if column is None:
                written = each.column.written(values)
                changed.append(series_like(each.column.series, self.table, written))
            else:
                changed.append(completed_column(each, column, missing, values, self.table))
        return self.table.with_columns(*changed).to_native() if changed else self.table.to_native()


def check_unseen(unseen: Any) -> None:
    """A ``ModelError`` where the option for values that were never seen is unknown."""
    if unseen not in ("missing", "error"):
        raise ModelError(f"unseen={unseen!r} was given; 'missing' or 'error' is needed")


def codes_of(each: DeclaredColumn, column: Column) -> Array:
    """The codes of a column of new rows, or a ``DataError`` where they are of another form."""
    coding = each.modelled[0]
    if column.n_observed == 0:
        return np.full(column.missing.size, np.nan)
    if column.form == "number":
        column.refuse_infinite()
    wanted = {"date"} if isinstance(coding, Dates) else {"number"}
    if isinstance(coding, Choice):
        wanted = {"boolean", "number", "text", "category", "ordered"}
    if column.form not in wanted:
        raise contradiction(column, each.kind, column.trouble or f"its values are {what(column)}")
    return coding.codes(column)


def imputed_rows(fit: Any, data: Mapping[str, Any]) -> dict[str, Array]:
    """Return the blocks of new rows filled by a ``Fit`` or a ``Posterior``."""
    names = [block.name for block in fit.model.blocks]
    if isinstance(fit, Posterior):
        given = fit.condition(data)
        return {name: np.asarray(given.impute(name)) for name in names}
    new = new_rows(fit, data)
    return {name: np.asarray(new.imputed(name)) for name in names}


def completed_column(
    each: DeclaredColumn, column: Column, missing: IntArray, values: list[Any], table: Any
) -> Any:
    """A column of new rows with values at its missing places, as a ``narwhals.Series``.

    Parameters
    ----------
    column : Column
        As it was given.
    missing : places from 0
    values : list (n_new,)
        For every row.
    """
    into = [values[row] for row in missing]
    untyped = column.form != each.column.form or column.series.dtype == nw.Unknown
    untyped &= column.n_observed == 0
    if not untyped and holds(column, into):
        return filled_series(column.series, missing, column.written(into))
    seen = np.flatnonzero(~column.missing)
    if holds(each.column, [column.values[row] for row in seen]):
        whole = list(values)
        for row in seen:
            whole[row] = column.values[row]
        return series_like(each.column.series, table, each.column.written(whole))
    if column.form in ("category", "ordered"):
        return filled_series(with_categories(column.series, into), missing, into)
    raise contradiction(
        column,
        each.kind,
        column.trouble
        or f"its values are {what(column)}, beside which no {plain(into[0])!r} can stand",
    )


def holds(column: Column, values: list[Any]) -> bool:
    """Whether the dtype of a column can hold values."""
    series, form = column.series, column.form
    if series.dtype == nw.Categorical and series.implementation.is_polars():
        form = "text"  # its list of categories is open
    if form in ("category", "ordered"):
        return set(values) <= set(series.cat.get_categories())
    return form in TYPES and all(isinstance(each, TYPES[form]) for each in values)
