"""New rows of a declared table: coded like the table, and with their missing entries filled."""

import datetime as dt
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.answer import new_rows
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.real_numbers import plain
from mcframe.model import Model
from mcframe.posterior.answer import Posterior
from mcframe.tables.coding import Choice, Coding, Dates, Numbers
from mcframe.tables.columns import Column, read_columns, read_frame, values_of
from mcframe.tables.declared_column import DeclaredColumn, data_of
from mcframe.tables.declared_kinds import contradiction, what
from mcframe.tables.filling import filled_series, series_like, with_categories
from mcframe.tables.text_numbers import read_text_like

__all__ = ["CodedRows", "completed_rows", "imputed_rows"]

# How many values or columns a warning names.
SHOWN = 5


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
        if unseen not in ("missing", "error"):
            raise ModelError(f"unseen={unseen!r} was given; 'missing' or 'error' is needed")
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
        warn_of_absent([each for each in modelled if each.name not in given])
        codes, never = {}, []
        for each in modelled:
            column = given.get(each.name)
            if column is None:
                codes[each.name] = np.full(table.shape[0], np.nan)
                continue
            codes[each.name] = codes_of(each, column)
            never += values_never_seen(column, codes[each.name])
        said = f"values that the model does not know: {listed(never)}"
        if never and unseen == "error":
            raise DataError(f"{said}; unseen='missing' takes them as missing")
        if never:
            warnings.warn(
                f"{said}; they count as missing there, and stay as they are",
                UserWarning,
                stacklevel=4,
            )
        return cls(declared, table, given, codes)

    def data(self, model: Model) -> dict[str, Any]:
        """The data of each block of the model."""
        return data_of(model.blocks, self.declared, self.codes, self.table)


def codes_of(each: DeclaredColumn, column: Column) -> Array:
    """The codes of a column of new rows, or a ``DataError`` where they are of another form."""
    if column.n_observed == 0:
        return np.full(column.missing.size, np.nan)
    coding: Coding = each.modelled[0]
    if column.form == "number":
        column.refuse_infinite()
    if column.form == "other":
        raise contradiction(column, each.taken.kind, column.trouble)
    wanted = {"date"} if isinstance(coding, Dates) else {"number"}
    if isinstance(coding, Choice):
        wanted = {"boolean", "number", "text", "category", "ordered"}
    if column.form not in wanted:
        raise contradiction(column, each.taken.kind, f"its values are {what(column)}")
    return coding.codes(column)


def values_never_seen(column: Column, codes: Array) -> list[str]:
    """The values of a column that have no code, in words."""
    places = np.flatnonzero(np.isnan(codes) & ~column.missing)
    listed = values_of(column.series) if places.size else []
    values = dict.fromkeys(listed[row] for row in places)
    return [f"{plain(value)!r} in column {plain(column.name)!r}" for value in values]


def warn_of_absent(absent: Sequence[DeclaredColumn]) -> None:
    """A ``UserWarning`` that names columns which new rows do not have."""
    if absent:
        named = listed([repr(plain(each.name)) for each in absent])
        warnings.warn(
            f"columns that the new rows do not have count as missing: {named}",
            UserWarning,
            stacklevel=5,
        )


def listed(named: Sequence[str]) -> str:
    """Names in a row; of very many the first ones."""
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return ", ".join(named[:SHOWN]) + more


# What the values of a column are, by its form; categories have a list of their own.
TYPES: dict[str, Any] = {"text": str, "boolean": bool, "number": (int, float), "date": dt.date}


def imputed_rows(fit: Any, data: Mapping[str, Any]) -> dict[str, Array]:
    """Return the blocks of new rows filled by a ``Fit`` or a ``Posterior``."""
    if isinstance(fit, Posterior):
        given = fit.condition(data)
        return {block.name: np.asarray(given.impute(block.name)) for block in fit.model.blocks}
    new = new_rows(fit, data)
    return {block.name: np.asarray(new.imputed(block.name)) for block in fit.model.blocks}


def completed_rows(rows: CodedRows, filled: Mapping[str, Array]) -> Any:
    """Return the new rows as a table of their library, filled as ``Declared.complete_rows`` says.

    Parameters
    ----------
    rows : CodedRows
    filled : dict from block name to array (n_new x columns of the block)
        Codes without a missing one.
    """
    changed, n_rows = [], rows.table.shape[0]
    for each in rows.declared:
        column = rows.given.get(each.name)
        if each.place is not None:
            coding, block = each.modelled
            coding = for_dtype(coding, column)
            values = coding.values(coding.filled_codes(filled[block], each.place))
        elif each.taken.constant:
            values = each.taken.constant * n_rows
        else:
            continue
        missing = np.arange(n_rows) if column is None else np.flatnonzero(column.missing)
        if missing.size:
            changed.append(completed_column(each, column, missing, values, rows.table))
    return rows.table.with_columns(*changed).to_native() if changed else rows.table.to_native()


def for_dtype(coding: Coding, column: Column | None) -> Coding:
    """The coding of a column, for numbers within what the dtype of new rows holds."""
    if not isinstance(coding, Numbers) or column is None or column.form != "number":
        return coding
    return attrs.evolve(coding, whole=column.whole or coding.whole)


def completed_column(
    each: DeclaredColumn,
    column: Column | None,
    missing: IntArray,
    values: list[Any],
    table: Any,
) -> Any:
    """A column of new rows with values at its missing places, as a ``narwhals.Series``.

    Parameters
    ----------
    column : Column or None
        As it was given; None of one that is absent.
    missing : places from 0
    values : list (n_new,)
        For every row.
    """
    if column is None:
        return series_like(each.column.series, table, each.column.written(values))
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
        each.taken.kind,
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
