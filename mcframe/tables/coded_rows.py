"""New rows of a declared table: their codes, and the way back to a table."""

import datetime as dt
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError, warn_caller
from mcframe.contracts.term import row_groups_of
from mcframe.contracts.validators import Options, counted, exact, listed, plain
from mcframe.contracts.wording import wording
from mcframe.fitting.fit_answer import new_rows
from mcframe.model import Model
from mcframe.posterior.answer import Posterior
from mcframe.posterior.joint import JointPosterior
from mcframe.posterior.row_variances import NOISE_SHARE
from mcframe.tables.applicability import Applicability
from mcframe.tables.censoring import limits_from
from mcframe.tables.coding import Choice, Numbers
from mcframe.tables.columns import (
    Bounds,
    Column,
    filled_series,
    read_column,
    read_column_like,
    read_frame,
    with_categories,
)
from mcframe.tables.date_coding import Dates
from mcframe.tables.declared_column import (
    DeclaredColumn,
    conversion_of_dates,
    data_of,
    predicted_codes,
    refuse_numbers,
    row_limits_of,
    what,
)
from mcframe.tables.gaps import meant_column
from mcframe.tables.known_limits import KnownLimits
from mcframe.tables.native_tables import with_columns
from mcframe.tables.neighbours import neighbours_of_new_rows, times_of_rows
from mcframe.tables.related_rows import RelatedRows
from mcframe.tables.relations import NO_RELATIONS, Relations

# What the values of a column are, by its form; categories have a list of their own.
CLASSES_OF_FORM: dict[str, Any] = {
    "text": str,
    "boolean": bool,
    "number": (int, float, Decimal),
    "date": dt.date,
}


@attrs.frozen
class NumbersOutside:
    """Numbers of a column outside of what it was taken for.

    Attributes
    ----------
    name : object
        Of the column.
    first : str
        The first number and its row.
    count : int
    lowest, highest : float
        The least and the largest one.
    bounds : Bounds
        What the column was taken for.
    """

    name: Any
    first: str
    count: int
    lowest: float
    highest: float
    bounds: Bounds

    @classmethod
    def of(cls, column: Column, rows: IntArray, bounds: Bounds) -> "NumbersOutside":
        """The numbers in some rows, which lie outside of these bounds."""
        numbers = column.numbers[rows]
        first = f"{exact(numbers[0])} in {wording().row(int(rows[0]))}"
        lowest, highest = float(np.min(numbers)), float(np.max(numbers))
        return cls(plain(column.name), first, rows.size, lowest, highest, bounds)

    def together(self, further: "NumbersOutside") -> "NumbersOutside":
        """Join the numbers of further rows, whose first one is not named."""
        lowest, highest = min(self.lowest, further.lowest), max(self.highest, further.highest)
        count = self.count + further.count
        return attrs.evolve(self, count=count, lowest=lowest, highest=highest)

    def __str__(self) -> str:
        ends = min(self.bounds.lower, self.lowest), max(self.bounds.upper, self.highest)
        wider = ("number", *(end if np.isfinite(end) else None for end in ends))
        others = f" and {counted(self.count - 1, 'other row')}" * (self.count > 1)
        return (
            f"{self.first}{others} of column {self.name!r}, which was taken for {self.bounds} (to"
            f" complete the table with {wording().types(self.name, wider)} declares wider bounds)"
        )


@attrs.define(eq=False)
class UnlikeTable:
    """Values and gaps of new rows that are unlike those of the declared table.

    Attributes
    ----------
    absent : dict with keys of str
        Columns that they do not have.
    never : dict with keys of str
        Values of labels, levels and categories that no row of the table has.
    outside : dict from column name to NumbersOutside
    fractions : dict from column name to str
        The first number that is not whole, and its row, of columns where all are.
    """

    absent: dict[str, None] = attrs.field(factory=dict)
    never: dict[str, None] = attrs.field(factory=dict)
    outside: dict[Any, NumbersOutside] = attrs.field(factory=dict)
    fractions: dict[Any, str] = attrs.field(factory=dict)

    def add(self, further: "UnlikeTable") -> None:
        """Add those of further rows."""
        self.absent |= further.absent
        self.never |= further.never
        for name, numbers in further.outside.items():
            before = self.outside.get(name)
            self.outside[name] = numbers if before is None else before.together(numbers)
        for name, text in further.fractions.items():
            self.fractions.setdefault(name, text)

    def add_fraction(self, column: Column) -> None:
        """Add the first number that is not whole of a column where all are, if there is one."""
        for row in np.flatnonzero(np.floor(column.numbers) < column.numbers)[:1]:
            number, where = exact(column.numbers[row]), wording().row(int(row))
            self.fractions[column.name] = f"{number} in {where} of column {plain(column.name)!r}"

    @property
    def unknown(self) -> list[str]:
        """Clauses on the values that the model does not know."""
        clauses = []
        if self.never:
            clauses.append(f"values that the model does not know: {listed([*self.never])}")
        if self.outside:
            outside = listed([*self.outside.values()])
            clauses.append(f"numbers outside of what their columns were taken for: {outside}")
        return clauses

    def warn(self) -> None:
        """Give a ``UserWarning`` of each kind."""
        if self.absent:
            warn_caller(
                f"columns that the new rows do not have count as missing: {listed([*self.absent])}"
            )
        for clause in self.unknown:
            warn_caller(f"{clause}; they count as missing there, and stay as they are")
        if self.fractions:
            warn_caller(
                "numbers that are not whole, as all are in the table:"
                f" {listed([*self.fractions.values()])}; they are used as they are"
            )


@attrs.frozen(eq=False)
class CodedRows:
    """New rows of a declared table: the original rows, and their codes.

    Attributes
    ----------
    declared : tuple of DeclaredColumn
        The columns of the declared table.
    table : narwhals.DataFrame
        The new rows as they were given.
    columns : dict from name to Column
        Their columns.
    codes : dict from name to array (n_new,)
        Of each column that stands in a block, NaN where it is missing or was never seen.
    relations : Relations
        Between the columns.
    """

    declared: tuple[DeclaredColumn, ...]
    table: Any
    columns: Mapping[Any, Column]
    codes: Mapping[Any, Array]
    relations: Relations = NO_RELATIONS

    @classmethod
    def of(
        cls,
        declared: tuple[DeclaredColumn, ...],
        frame: Any,
        unseen: str,
        relations: Relations = NO_RELATIONS,
        collected: "UnlikeTable | None" = None,
    ) -> "CodedRows":
        """Read new rows, as ``Declared.rows`` says, and fill what follows from relations.

        How they are unlike the table is a warning, or is added to what is ``collected``.

        Raises
        ------
        DataError, ModelError
            As there.
        """
        Options.unseen(unseen)
        table = read_frame(frame)
        training_columns = {
            declared_column.name: declared_column.column
            for declared_column in declared
            if declared_column.neighbour is None
        }
        new_columns = {
            series.name: read_column_like(series, training_columns[series.name])
            if series.name in training_columns
            else read_column(series)
            for series in table.iter_columns()
        }
        for declared_column in declared:
            name, of_limits = declared_column.name, declared_column.limit_columns
            if of_limits is not None and name in new_columns:
                of_numbers = new_columns[name]
                if not of_numbers.n_observed and declared_column.column.form == "number":
                    of_numbers = attrs.evolve(of_numbers, form="number")  # whatever holds gaps
                if of_numbers.form in ("number", "date"):
                    limits = limits_from(of_numbers, of_limits, new_columns)
                    new_columns[name] = attrs.evolve(of_numbers, given_limits=limits)
        strange = [name for name in new_columns if name not in training_columns]
        if strange:
            others = [name for name in training_columns if name not in new_columns]
            near = meant_column(strange[0], others) if others else ""
            strangers = listed([repr(plain(name)) for name in strange])
            raise DataError(
                f"the new rows have columns that the declared table has not: {strangers};"
                f" {f'{near} Otherwise ' * near.endswith('?')}drop or rename them"
            )
        if relations.declared:
            of_table = {declared_column.name: declared_column for declared_column in declared}
            rows = RelatedRows(relations, of_table, new_columns, table.shape[0], is_table=False)
            table, changed = rows.with_determined(table)
            new_columns |= changed
        new_columns |= neighbours_of_new_rows(declared, new_columns, table)
        modelled = [
            declared_column for declared_column in declared if declared_column.place is not None
        ]
        absent = [
            repr(plain(declared_column.name))
            for declared_column in modelled
            if declared_column.name not in new_columns
        ]
        codes, remarks = {}, UnlikeTable(dict.fromkeys(absent))
        for declared_column in modelled:
            column = new_columns.get(declared_column.name)
            if column is None:
                codes[declared_column.name] = np.full(table.shape[0], np.nan)
                continue
            codes[declared_column.name] = codes_of(declared_column, column)
            if declared_column.neighbour is not None:  # what is strange is said of its own row
                codes[declared_column.name] = codes_inside(declared_column, column)
                continue
            places = np.flatnonzero(np.isnan(codes[declared_column.name]) & ~column.missing)
            remarks.never |= {
                f"{plain(value)!r} in column {plain(column.name)!r}": None
                for value in dict.fromkeys(column.cells[row] for row in places)
            }
            coding = declared_column.coding
            if isinstance(coding, Numbers) and column.form == "number":
                is_outside, ends = outside_of_answers(declared_column, coding, codes[column.name])
                codes[column.name] = np.where(is_outside, np.nan, codes[column.name])
                if is_outside.any():
                    places = np.flatnonzero(is_outside)
                    remarks.outside[column.name] = NumbersOutside.of(column, places, Bounds(*ends))
                if declared_column.has_whole_values:
                    remarks.add_fraction(column)
        if unseen == "error" and remarks.unknown:
            raise DataError(
                f"{'; '.join(remarks.unknown)}; unseen='missing' takes them as missing"
            )
        if collected is None:
            remarks.warn()
        else:
            collected.add(remarks)
        return cls(declared, table, new_columns, codes, relations)

    @property
    def related_rows(self) -> RelatedRows:
        """The new rows with their relations."""
        declared = {declared_column.name: declared_column for declared_column in self.declared}
        return RelatedRows(
            self.relations, declared, self.columns, self.table.shape[0], is_table=False
        )

    @cached_property
    def limits(self) -> dict[Any, KnownLimits | None]:
        """The limits of codes that are known of cells without a number, by column."""
        return {
            declared.name: declared.limits_of(self.columns[declared.name])
            for declared in self.declared
            if declared.name in self.columns
        }

    def conditioned(self, fit: Any) -> Any:
        """Return what a ``Fit`` or a ``Posterior`` says of these rows."""
        data = data_of(self.declared, self.codes, self.table, fit.model, self.limits)
        answer = conditioned(fit, data, self.groups, self.times_of(fit.model))
        if not isinstance(answer, Posterior) or not isinstance(answer.engine, JointPosterior):
            return answer
        limits = None
        if len(data) == 1:
            limits = row_limits_of(self.declared, self.limits, self.table.shape[0])
        if limits is not None:
            [block] = data
            within = limits.in_units(answer.tables[block].applied, NOISE_SHARE)
            answer = attrs.evolve(answer, engine=answer.engine.within(within))
        return self.related_rows.of_posterior(answer)

    def completed(self, fit: Any) -> Any:
        """The rows as a table of their library, filled as ``Declared.complete_rows`` says.

        ``fit`` is what ``conditioned`` says of these rows.
        """
        codes = predicted_codes(fit, self.missing_entries(self.declared))
        return self.filled(self.related_rows.related(codes))

    def missing_entries(
        self, columns: Iterable[DeclaredColumn]
    ) -> list[tuple[DeclaredColumn, IntArray]]:
        """Columns that are filled and have missing entries in these rows, and those rows."""
        asked, n_rows = [], self.table.shape[0]
        for declared_column in columns:
            column = self.columns.get(declared_column.name)
            missing = np.arange(n_rows) if column is None else np.flatnonzero(column.missing)
            if declared_column.is_filled and missing.size:
                asked.append((declared_column, missing))
        return asked

    @property
    def groups(self) -> list[Any] | None:
        """The labels of the groups of these rows; None where no column of the table has some."""
        names = [column.name for column in self.declared if column.has_groups]
        if not names or names[0] not in self.columns:
            return None
        column = self.columns[names[0]]
        if column.missing.any():
            row = int(np.argmax(column.missing))
            raise DataError(
                f"column {plain(names[0])!r} of groups: {wording().row(row)} has none; give the"
                " label of a group, or a label of its own"
            )
        return list(column.values)

    def times_of(self, model: Model) -> Array | None:
        """The times of these rows; None where no means of groups of a model move in time."""
        groups = row_groups_of(model.terms)
        if groups is None or groups.trend is None:
            return None
        return times_of_rows(self.declared, self.columns)

    @property
    def applicability(self) -> Applicability:
        """Which entries of these rows are filled."""
        declared = {declared_column.name: declared_column for declared_column in self.declared}
        return Applicability(declared, self.columns, self.table.shape[0], is_table=False)

    def filled(
        self, codes: Mapping[Any, Array], predicted: Mapping[Any, Array] | None = None
    ) -> Any:
        """The rows with codes at their missing entries, by name; constants are filled.

        Which columns apply to a row depends on the codes, or on those that were ``predicted``.
        """
        changed, applicability = [], self.applicability
        of_conditions = codes if predicted is None else predicted
        asked = {
            declared_column.name: rows
            for declared_column, rows in self.missing_entries(self.declared)
        }
        for declared_column in self.declared:
            column, missing = (
                self.columns.get(declared_column.name),
                asked.get(declared_column.name, np.arange(0)),
            )
            converted = declared_column.is_filled and column is not None and column.is_converted
            if not (missing.size or converted):
                continue
            if (
                missing.size
                and declared_column.place is not None
                and declared_column.name not in codes
            ):
                continue
            coding = declared_column.coding
            whole = None if column is None or column.form != "number" else column.whole
            if isinstance(coding, Numbers) and coding.whole is not None and whole is not None:
                # Whole numbers within what the column and the dtype of the new rows hold.
                lowest, highest = zip(coding.whole, whole, strict=True)
                coding = attrs.evolve(coding, whole=(max(lowest), min(highest)))
            values = list(declared_column.constant) * missing.size
            if coding is not None and missing.size:
                within, limits = codes[declared_column.name], self.limits.get(declared_column.name)
                if limits is not None:
                    within = declared_column.clip(within, limits.at(missing))
                values = coding.values(within)
            if declared_column.condition is not None:
                fillable = applicability.fillable(declared_column.name, of_conditions)
                pairs = zip(values, missing, strict=True)
                values = [value if fillable[row] else None for value, row in pairs]
                if column is not None:
                    values = [value for value in values if value is not None]
                    missing = missing[fillable[missing]]
            if column is None:
                changed.append(declared_column.column.like(self.table, values))
            else:
                changed.append(
                    completed_column(declared_column, column, missing, values, self.table)
                )
        return with_columns(self.table, changed)


def codes_of(declared: DeclaredColumn, column: Column) -> Array:
    """The codes of a column of new rows, or a ``DataError`` where they are of another form."""
    coding = declared.block_coding
    if isinstance(coding, Numbers) and column.form == "number":
        column.refuse_far_limits(declared.column.numbers)
    if column.n_observed == 0:
        return np.full(column.missing.size, np.nan)
    if column.form == "number":
        column.refuse_infinite()
    wanted = {"date"} if isinstance(coding, Dates) else {"number"}
    if isinstance(coding, Choice):
        wanted = {"boolean", "number", "text", "category", "ordered"}
    if column.form not in wanted:
        hint = f"; {conversion_of_dates()}" * isinstance(coding, Dates)
        raise unlike(declared, column, hint)
    if isinstance(coding, Numbers) and column.form == "number":
        bounds = Bounds(coding.lower, coding.upper)
        kind = declared.kind if bounds == Bounds() else bounds
        refuse_numbers(column, kind, coding.outside(column.numbers), coding.rule)
    return coding.codes(column)


def outside_of_answers(
    declared: DeclaredColumn, coding: Numbers, codes: Array
) -> tuple[Mask, tuple[float, float]]:
    """Which codes lie outside of the support that was detected, or of a scale of few whole ones.

    And the ends of that in the units of the data. Of a scale from 0, which may be one of counts,
    the next number is the next count; 6 or 9 on a scale from 1 to 5 may be codes for gaps.
    """
    lower, upper = coding.support
    if coding.whole is not None and coding.whole != declared.column.whole:  # a scale
        lower, upper = max(lower, coding.whole[0]), min(upper, coding.whole[1])
    is_outside = (codes < lower) | (codes > upper + (lower == 0.0 and coding.is_whole))
    return is_outside, (coding.unit * lower, coding.unit * upper)


def codes_inside(declared: DeclaredColumn, column: Column) -> Array:
    """The codes of a column of new rows, NaN outside of what the column was taken for."""
    codes, coding = codes_of(declared, column), declared.coding
    if isinstance(coding, Numbers) and column.form == "number":
        codes = np.where(outside_of_answers(declared, coding, codes)[0], np.nan, codes)
    return codes


def conditioned(
    fit: Any, data: Mapping[str, Any], groups: Any = None, times: Array | None = None
) -> Any:
    """Return what a ``Fit`` or a ``Posterior`` says of new rows, and of their groups."""
    if isinstance(fit, Posterior):
        return fit.condition(data, groups=groups, times=times)
    return new_rows(fit, data)


def completed_column(
    declared: DeclaredColumn, column: Column, missing: IntArray, values: list[Any], table: Any
) -> Any:
    """A column of new rows with values at its missing places, as a ``narwhals.Series``.

    Parameters
    ----------
    column : Column
        As it was given.
    missing : places from 0
    values : list
        For every one of ``missing``.
    """
    untyped = column.form != declared.column.form or column.series.dtype == nw.Unknown
    untyped |= column.is_converted  # text of which nothing is known has the dtype of the table
    untyped &= column.n_observed == 0
    if not untyped and holds(column, values):
        return column.filled(missing, values)
    seen = np.flatnonzero(~column.missing)
    if holds(declared.column, [column.values[row] for row in seen]):
        whole = list(column.values)
        for row, value in zip(missing, values, strict=True):
            whole[row] = value
        if any(isinstance(value, float) for value in values):  # beside whole numbers
            whole = [None if value is None else float(value) for value in whole]
        return declared.column.like(table, whole)
    if column.form in ("category", "ordered"):
        return filled_series(with_categories(column.series, values), missing, values)
    raise unlike(declared, column, f", beside which no {plain(values[0])!r} can stand")


def unlike(declared: DeclaredColumn, column: Column, more: str) -> DataError:
    """The error of new values that are of another form than those of the table."""
    why = column.trouble or f"its values are {what(column)}{more}"
    remedy = ". Convert them to what the table has there, or mark them as missing"
    remedy *= not (more or column.trouble)
    return DataError(
        f"column {plain(column.name)!r} is taken for: {declared.kind}, but in the new rows"
        f" {why}{remedy}"
    )


def holds(column: Column, values: list[Any]) -> bool:
    """True if the dtype of a column can hold the values."""
    series, form = column.series, column.form
    if series.dtype == nw.Categorical and series.implementation.is_polars():
        form = "text"  # its list of categories is open
    if form in ("category", "ordered"):
        return set(values) <= set(series.cat.get_categories())
    if series.dtype.is_integer() and any(
        isinstance(value, float) and not value.is_integer() for value in values
    ):
        return False
    return form in CLASSES_OF_FORM and all(
        isinstance(value, CLASSES_OF_FORM[form]) for value in values
    )
