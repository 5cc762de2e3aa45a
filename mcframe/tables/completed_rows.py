"""New rows of a declared table with their missing entries filled."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.answer import new_rows
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.real_numbers import plain
from mcframe.posterior.answer import Posterior
from mcframe.tables.coded_rows import CodedRows
from mcframe.tables.coding import Coding, Numbers
from mcframe.tables.columns import Column
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.declared_kinds import contradiction, what
from mcframe.tables.filling import filled_series, series_like, with_categories

__all__ = ["completed_rows", "imputed_rows"]

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
