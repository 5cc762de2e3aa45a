"""The verb ``declare``, and its answer: a model, its data, and the way back to a table."""

import datetime as dt
import json
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Generic, Literal

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import (
    DataError,
    ModelError,
    NoInfluence,
    UnobservedWarning,
    warn_caller,
)
from mcframe.contracts.frames import Frame, NewFrame
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.showing import card, table_as_html
from mcframe.contracts.validators import a_type, counted, is_word, plain
from mcframe.fitting.fit_answer import Fit, new_rows
from mcframe.model import Model
from mcframe.posterior.answer import Posterior
from mcframe.regularizers import NuclearNorm
from mcframe.selection.weight_max import weight_max
from mcframe.tables.coding import Choice, Coded, Dates, Numbers
from mcframe.tables.columns import (
    Bounds,
    Column,
    filled_series,
    read_column,
    read_column_like,
    read_columns,
    read_frame,
    read_text,
    warn_of_text,
    with_categories,
)
from mcframe.tables.declared_column import (
    KINDS,
    MOST_CLASSES,
    DeclaredColumn,
    answers,
    aside,
    blocks_of,
    codes_of_intervals,
    contradiction,
    data_of,
    declared_kind,
    detected_kind,
    in_block,
    mostly_numbers,
    placed_columns,
    predicted_codes,
    refuse_numbers,
    remedy_for_numbers,
    set_aside,
    warn_of_aside,
    what,
    with_constants,
)
from mcframe.tables.gaps import (
    MEANT,
    Missing,
    gaps_of,
    is_phrase,
    is_sign,
    listed,
    meant_column,
    stand_for_gaps,
    warn_of_suspects,
)

# What the values of a column are, by its form; categories have a list of their own.
TYPES: dict[str, Any] = {
    "text": str,
    "boolean": bool,
    "number": (int, float, Decimal),
    "date": dt.date,
}


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
    """

    declared: tuple[DeclaredColumn, ...]
    table: Any
    columns: Mapping[Any, Column]
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
        training_columns = {
            declared_column.name: declared_column.column for declared_column in declared
        }
        new_columns = {
            series.name: read_column_like(series, training_columns[series.name])
            if series.name in training_columns
            else read_column(series)
            for series in table.iter_columns()
        }
        strange = [name for name in new_columns if name not in training_columns]
        if strange:
            others = [name for name in training_columns if name not in new_columns]
            near = meant_column(strange[0], others) if others else ""
            strangers = listed([repr(plain(name)) for name in strange])
            raise DataError(
                f"the new rows have columns that the declared table has not: {strangers};"
                f" {f'{near} Otherwise ' * near.endswith('?')}drop or rename them"
            )
        modelled = [
            declared_column for declared_column in declared if declared_column.place is not None
        ]
        absent = [
            repr(plain(declared_column.name))
            for declared_column in modelled
            if declared_column.name not in new_columns
        ]
        messages = []
        if absent:
            messages.append(
                f"columns that the new rows do not have count as missing: {listed(absent)}"
            )
        codes, never = {}, list[str]()
        for declared_column in modelled:
            column = new_columns.get(declared_column.name)
            if column is None:
                codes[declared_column.name] = np.full(table.shape[0], np.nan)
                continue
            codes[declared_column.name] = codes_of(declared_column, column)
            places = np.flatnonzero(np.isnan(codes[declared_column.name]) & ~column.missing)
            never += [
                f"{plain(value)!r} in column {plain(column.name)!r}"
                for value in dict.fromkeys(column.cells[row] for row in places)
            ]
        if never:
            unknown = f"values that the model does not know: {listed(never)}"
            if unseen == "error":
                raise DataError(f"{unknown}; unseen='missing' takes them as missing")
            messages.append(f"{unknown}; they count as missing there, and stay as they are")
        for message in messages:
            warn_caller(message)
        return cls(declared, table, new_columns, codes)

    def completed(self, fit: Any) -> Any:
        """The rows as a table of their library, filled as ``Declared.complete_rows`` says.

        ``fit`` is what ``conditioned`` says of these rows.
        """
        return self.filled(predicted_codes(fit, self.missing_entries(self.declared)))

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

    def filled(self, codes: Mapping[Any, Array]) -> Any:
        """The rows with codes at their missing entries, by name; constants are filled."""
        changed = []
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
            if isinstance(coding, Numbers) and column is not None and column.form == "number":
                # Numbers within what the dtype of the new rows holds.
                coding = attrs.evolve(coding, whole=column.whole or coding.whole)
            values = list(declared_column.constant) * missing.size
            if coding is not None and missing.size:
                values = coding.values(codes[declared_column.name])
            if column is None:
                changed.append(declared_column.column.like(self.table, values))
            else:
                changed.append(
                    completed_column(declared_column, column, missing, values, self.table)
                )
        return with_columns(self.table, changed)


def check_unseen(unseen: Any) -> None:
    """A ``ModelError`` where the option for values that were never seen is unknown."""
    if not is_word(unseen, "missing", "error"):
        raise ModelError(f"unseen={unseen!r} was given; 'missing' or 'error' is needed")


def codes_of(declared: DeclaredColumn, column: Column) -> Array:
    """The codes of a column of new rows, or a ``DataError`` where they are of another form."""
    coding = declared.modelled[0]
    if column.n_observed == 0:
        return np.full(column.missing.size, np.nan)
    if column.form == "number":
        column.refuse_infinite()
    wanted = {"date"} if isinstance(coding, Dates) else {"number"}
    if isinstance(coding, Choice):
        wanted = {"boolean", "number", "text", "category", "ordered"}
    if column.form not in wanted:
        raise contradiction(
            column, declared.kind, column.trouble or f"its values are {what(column)}"
        )
    if isinstance(coding, Numbers) and column.form == "number":
        bounds = Bounds(coding.lower, coding.upper)
        kind = declared.kind if bounds == Bounds() else bounds
        refuse_numbers(column, kind, coding.outside(column.numbers), coding.rule)
    return coding.codes(column)


def conditioned(fit: Any, data: Mapping[str, Any]) -> Any:
    """Return what a ``Fit`` or a ``Posterior`` says of new rows."""
    return fit.condition(data) if isinstance(fit, Posterior) else new_rows(fit, data)


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
        return declared.column.like(table, whole)
    if column.form in ("category", "ordered"):
        return filled_series(with_categories(column.series, values), missing, values)
    raise contradiction(
        column,
        declared.kind,
        column.trouble
        or f"its values are {what(column)}, beside which no {plain(values[0])!r} can stand",
    )


def holds(column: Column, values: list[Any]) -> bool:
    """True if the dtype of a column can hold the values."""
    series, form = column.series, column.form
    if series.dtype == nw.Categorical and series.implementation.is_polars():
        form = "text"  # its list of categories is open
    if form in ("category", "ordered"):
        return set(values) <= set(series.cat.get_categories())
    return form in TYPES and all(isinstance(value, TYPES[form]) for value in values)


# How many rows are printed; the rest is counted.
SHOWN = 60


@attrs.frozen(eq=False, repr=False)
class Declared(Generic[Frame]):
    """A table as a model and its data; ``model, data = mc.declare(frame)`` unpacks them.

    ``print`` shows the type of each column, and the reason.

    Attributes
    ----------
    model : Model
        A block for each type of column, and a ``NuclearNorm``; or the model that was given.
    data : dict from block name to DataFrame or array
        The codes of the columns of each block, NaN where missing. They are DataFrames with the
        index of the table if it is of pandas.
    columns : tuple of DeclaredColumn
        All columns in the order of the table.
    frame : narwhals.DataFrame
        The original table.
    """

    model: Model
    data: Mapping[str, Any]
    columns: tuple[DeclaredColumn, ...]
    frame: Any

    @classmethod
    def of(cls, columns: Sequence[DeclaredColumn], table: Any, model: Model) -> "Declared[Frame]":
        """A table whose columns have their places, in any order, and a model of their blocks."""
        codes = {column.name: column.codes for column in columns if column.place is not None}
        data = data_of(columns, codes, table)
        position = {name: k for k, name in enumerate(table.columns)}
        ordered = sorted(columns, key=lambda column: position[column.name])
        return cls(model, data, tuple(ordered), table)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.model, self.data))

    def table(self, fit: Fit | Posterior) -> Frame:
        """The table with its missing entries filled by a fit, in its own library.

        Observed entries and dtypes do not change. Numbers are filled with their mean, rounded if
        the dtype holds whole numbers only. Labels, classes and levels are filled with the most
        probable value, as it is written in the column. Columns that are set aside are returned
        unchanged; a constant column is filled with its constant.

        Parameters
        ----------
        fit : Fit or Posterior
            Of this model, or of a changed one with the same blocks, to this data.
        """
        return self.with_codes(predicted_codes(self.checked(fit), self.missing_entries()))

    def missing_entries(self, sort: type = Coded) -> list[tuple[DeclaredColumn, IntArray]]:
        """Columns in a block with missing entries, by this sort of coding, and their rows."""
        return [
            (column, np.flatnonzero(column.column.missing))
            for column in self.columns
            if isinstance(column.coding, sort) and column.column.missing.any()
        ]

    def checked(self, fit: Any) -> Any:
        """A fit or a posterior of this table, or an error."""
        if not isinstance(fit, Fit | Posterior):
            raise ModelError(
                f"fit is {a_type(fit)}; a Fit or a Posterior of declared.model and"
                " declared.data is needed"
            )
        expected = {name: np.shape(values) for name, values in self.data.items()}
        shapes = {name: table.shape for name, table in fit.problem.tables.items()}
        if expected != shapes:
            raise DataError(
                f"the fit is one of blocks of the shapes {shapes}, and this table has {expected};"
                " give a fit of declared.model to declared.data"
            )
        return fit

    def with_codes(self, codes: Mapping[Any, Array]) -> Frame:
        """The table with the given codes at its missing entries; constants are filled."""
        changed = [
            column.filled_with(codes.get(column.name, np.zeros(0)))
            for column in self.columns
            if column.is_changed
            and (column.place is None or column.name in codes or not column.column.missing.any())
        ]
        return with_columns(self.frame, changed)

    def rows(
        self, frame: Any, *, unseen: Literal["missing", "error"] = "missing"
    ) -> dict[str, Any]:
        """The data of new rows, coded like this table, for ``fit.predict_rows``.

        Parameters
        ----------
        frame : DataFrame or Table
            With the columns of this table in any order. Absent columns count as missing, with a
            ``UserWarning`` that names them.
        unseen : "missing" or "error", default "missing"
            Values that no row of this table has, such as a new category, count as missing, with
            one ``UserWarning`` that names them; or they raise a ``DataError``.

        Returns
        -------
        dict from block name to DataFrame or array (n_new x columns of the block)

        Raises
        ------
        DataError
            If the frame is not a table, has a column that this one does not have, or values of
            another form.
        """
        rows = CodedRows.of(self.columns, frame, unseen)
        return data_of(self.columns, rows.codes, rows.table)

    def complete_rows(
        self,
        fit: Fit | Posterior,
        frame: NewFrame,
        *,
        unseen: Literal["missing", "error"] = "missing",
    ) -> NewFrame:
        """New rows with their missing entries filled by a fit, in their own library.

        By the rule for new rows (``Fit.impute_rows``), as ``table`` does for the rows of the fit:
        labels, categories and levels are filled with the most probable value, numbers with the
        mean. Observed entries and dtypes do not change. If a dtype cannot hold a filled value, it
        becomes that of the declared table, or is given the missing category. Columns that are set
        aside are returned unchanged.

        Parameters
        ----------
        fit : Fit or Posterior
            As for ``table``.
        frame : DataFrame or Table
            With the columns of this table in any order. Absent columns count as missing, with a
            ``UserWarning`` that names them; they are filled and appended.
        unseen : "missing" or "error", default "missing"
            Values that no row of this table has count as missing, with one ``UserWarning`` that
            names them, and are not replaced; or they raise a ``DataError``.

        Returns
        -------
        DataFrame or Table
            With the rows of ``frame`` in their order, and its index.

        Raises
        ------
        DataError
            As in ``rows``.
        ModelError
            If the model does not define new rows; see ``Fit.predict_rows``.

        Examples
        --------
        >>> import pandas as pd, mcframe as mc
        >>> frame = pd.DataFrame({
        ...     "height": [1.5, 1.6, 1.8, 1.9] * 5, "size": ["S", "S", "L", "L"] * 5,
        ... })
        >>> declared = mc.declare(frame)
        >>> fit = mc.fit(declared.model, declared.data)
        >>> declared.complete_rows(fit, pd.DataFrame({"height": [1.55, 1.85], "size": None}))
           height size
        0    1.55    S
        1    1.85    L
        """
        rows = CodedRows.of(self.columns, frame, unseen)
        data = data_of(self.columns, rows.codes, rows.table)
        return rows.completed(conditioned(self.checked(fit), data))

    def predict(self, fit: Fit | Posterior, name: Any) -> Frame:
        """Predictions of a column in every row, in the library of the table.

        For a label, a category or levels there is one column of probabilities for each value,
        named by the value (by its text in polars and pyarrow, where names are text). For a number
        or a count there is one column with its mean.

        Parameters
        ----------
        fit : Fit or Posterior
            As for ``table``.
        name : object
            A column that is in a block; otherwise a ``ModelError`` gives the reason.
        """
        return self.predicted(self.checked(fit), name, self.frame)

    def predict_rows(
        self,
        fit: Fit | Posterior,
        name: Any,
        frame: NewFrame,
        *,
        unseen: Literal["missing", "error"] = "missing",
    ) -> NewFrame:
        """Predictions of a column in new rows, by the rule for new rows (``Fit.predict_rows``).

        Parameters
        ----------
        fit, name : as in ``predict``
        frame, unseen : as in ``complete_rows``
            What a row says of the column itself is used, too.

        Returns
        -------
        DataFrame or Table
            As from ``predict``, with one row for each of ``frame``.

        Examples
        --------
        >>> import pandas as pd, mcframe as mc
        >>> frame = pd.DataFrame({
        ...     "height": [1.5, 1.6, 1.8, 1.9] * 5, "size": ["S", "S", "L", "L"] * 5,
        ... })
        >>> declared = mc.declare(frame)
        >>> fit = mc.fit(declared.model, declared.data)
        >>> new = pd.DataFrame({"height": [1.5, 1.9], "size": None})
        >>> declared.predict_rows(fit, "size", new).round(1)
             L    S
        0  0.1  0.9
        1  0.9  0.1
        """
        data = self.rows(frame, unseen=unseen)
        return self.predicted(conditioned(self.checked(fit), data), name, frame)

    def predicted(self, fit: Any, name: Any, table: Any) -> Any:
        """Predictions of a column in the rows of a ``narwhals.DataFrame``."""
        column, table = self.column(name), read_frame(table)
        if column.place is None:
            raise ModelError(
                f"column {plain(name)!r} stands in no block, so that nothing is predicted of it:"
                f" {column.why}"
            )
        coding = column.modelled[0]
        [(_, answer)] = answers(fit, [(column, np.arange(table.shape[0]))])
        if isinstance(coding, Choice):
            return like_frame(table, [plain(value) for value in coding.places], answer)
        return like_frame(table, [name], (answer * coding.unit)[:, None])

    def predict_interval(self, posterior: Posterior, name: Any, frame: Any, level: float) -> Any:
        """A number's mean and ends of intervals, in rows of this table or in new ones.

        The ends are those of ``Completion.interval`` and ``interval_rows``, of every row.

        Parameters
        ----------
        posterior : Posterior
            Of this model.
        name : column name
        frame : table
            That of this object itself, or new rows as in ``complete_rows``.
        level : float
            The probability of the intervals.

        Returns
        -------
        table
            With the column of ``predict``, "lower" and "upper".

        Raises
        ------
        ModelError
            For labels, levels and categories, and columns in no block.
        DataError
            As in ``complete_rows``.
        """
        column, rows = self.column(name), read_frame(frame)
        is_this_table = frame is self.frame.to_native()
        answer = posterior if is_this_table else conditioned(posterior, self.rows(frame))
        means = self.predicted(answer, name, rows)
        if not isinstance(column.coding, Numbers):
            raise ModelError(
                f"column {plain(name)!r} is taken for: {column.kind}, which has no interval; ask"
                " for its predictions without one, the probabilities of its values"
            )
        codes = codes_of_intervals(answer, [(column, np.arange(rows.shape[0]))], level)
        numbers = column.coding.unit * np.column_stack([end[column.name] for end in codes])
        ends = like_frame(rows, ["lower", "upper"], numbers)
        return nw.concat(list(map(nw.from_native, (means, ends))), how="horizontal").to_native()

    def column(self, name: Any) -> DeclaredColumn:
        """The column of that name; a ``ModelError`` if there is none."""
        for declared_column in self.columns:
            if isinstance(name, Hashable) and declared_column.name == name:
                return declared_column
        hint = meant_column(name, [declared_column.name for declared_column in self.columns])
        raise ModelError(f"there is no column {plain(name)!r} in the table; {hint}")

    def __repr__(self) -> str:
        return "\n".join([self._title(), *lines_of(self._cells())])

    def _repr_html_(self) -> str:
        header, *rows = self._cells()
        return card(self._title(), table_as_html(header, rows))

    def _title(self) -> str:
        n_rows, n_columns = self.frame.shape
        modelled = sum(column.place is not None for column in self.columns)
        blocks = counted(len(self.model.blocks), "block")
        return f"Declared: {n_rows} rows, {modelled} of {n_columns} columns in {blocks}"

    def _cells(self) -> list[tuple[str, ...]]:
        """A header, and a row for each column of the table."""
        rows = [
            (str(plain(column.name)), percent(column.share_missing), column.kind, column.why)
            for column in self.columns
        ]
        return [("column", "missing", "taken for", "why"), *rows]


def with_columns(table: Any, changed: Sequence[Any]) -> Any:
    """A table in its library with some columns replaced or added, and its labels of columns."""
    native = table.to_native()
    if not changed:
        return native
    made = table.with_columns(*changed).to_native()
    if table.implementation.is_pandas() and made.shape[1] == native.shape[1]:
        made.columns = native.columns  # narwhals keeps neither their names nor None
    if table.implementation.is_pyarrow():
        return with_pandas_types(made)
    return made


# What pandas calls columns of text in its notes.
OF_TEXT = ("unicode", "mixed", "object")


def with_pandas_types(table: Any) -> Any:
    """A table of pyarrow whose notes for pandas name the types that its columns have now."""
    notes = (table.schema.metadata or {}).get(b"pandas")
    if notes is None:
        return table
    facts, changed = json.loads(notes), False
    for column in facts.get("columns", ()):
        place = table.schema.get_field_index(column["field_name"] or "")
        stored = str(table.schema.field(place).type) if place >= 0 else ""
        kind = {"double": "float64", "int64": "int64"}.get(stored)
        if kind is not None and column["pandas_type"] in OF_TEXT:
            column |= {"pandas_type": kind, "numpy_type": kind, "metadata": None}
            changed = True
    if not changed:
        return table
    metadata = {**table.schema.metadata, b"pandas": json.dumps(facts).encode()}
    return table.replace_schema_metadata(metadata)


def like_frame(table: Any, names: list[Any], numbers: Array) -> Any:
    """Return numbers (n_rows x names) as a table of the library of another, with its index."""
    pandas = table.implementation.is_pandas()
    labels = range(len(names)) if pandas else names
    columns = {str(name): values for name, values in zip(labels, numbers.T, strict=True)}
    made = nw.from_dict(columns, backend=table.implementation).to_native()
    if pandas:
        native = table.to_native()
        made.columns = native.columns if list(native.columns) == names else names
        made.index = native.index
    return made


def percent(share: float) -> str:
    """A share in per cent, 0 and 100 only where it is nothing or all."""
    if 0.0 < share < 0.005 or 0.995 <= share < 1.0:
        return "<1%" if share < 0.5 else ">99%"
    return f"{share:.0%}"


def lines_of(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a header and rows as lines, columns aligned; of very many rows the first ones."""
    header, *body = rows
    kept = [header, *body[:SHOWN]]
    widths = [max(map(len, column)) for column in zip(*kept, strict=True)]
    lines = [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in kept
    ]
    if len(body) > SHOWN:
        lines.append(f"  and {len(body) - SHOWN} more")
    return lines


# The weight to begin with, as a share of ``weight_max``.
# Cross-validation of tables of 5 to 14 columns came to 0.003 to 0.14 of it.
STARTING_SHARE = 0.1


def declare(
    frame: Frame,
    types: Mapping[Any, Any] | None = None,
    *,
    missing: Missing = None,
    model: Model | None = None,
    columns: Mapping[str, Sequence[Any]] | None = None,
) -> Declared[Frame]:
    """Turn a table of any columns into a model and its data.

    The type of each column is detected from its dtype and values. ``types`` overrides it.

    - Number (``Gaussian``): numbers. Columns of only 0 and 1 are labels.
    - Label (``Bernoulli``): true and false, or text or categories of two values. The probability
      is that of the second value, in the order of the categories or the alphabet.
    - Number, with a ``UserWarning``: text of which at least nine in ten read as numbers, such as "
      3" and "1e5". It comes back as numbers. Signs of a missing value such as "?", "n/a" and "",
      and words such as "don't know", are missing. Other text, such as "<5", counts as missing for
      the model and is not changed; then the column stays text.
    - Levels (``Ordinal``): ordered categories. Each column is a block, since thresholds belong to
      one.
    - Category (``Multinomial``): text and other categories. There is a block for each number of
      classes; only observed classes count.
    - Set aside, with a reason: columns without an observed value; dates; text whose values all or
      mostly differ or are numbers with commas; more than 100 categories; whole numbers that count
      the rows or have the name of an id; values of mixed types. A column with a single observed
      value is filled with it, and is in no block, unless all others are set aside or constant.

    Every block has ``standardize=True``, so one ``NuclearNorm`` suits columns of any unit and
    type, and a bias if that makes sense. The weight is a tenth of ``weight_max``, as a first
    guess. ``cross_validate`` chooses a better one, and ``attrs.evolve`` changes any part of the
    model.

    Parameters
    ----------
    frame : DataFrame of pandas or polars, or Table of pyarrow
        For pandas with NumPy, nullable or Arrow dtypes.
    types : dict from column name to a word, a list or a likelihood, optional
        ``"number"``, ``"count"`` (``Poisson``), ``"label"``, ``"category"``, ``"ordinal"``,
        ``"date"`` (days as a number), ``"skip"``; bounds of a number, such as
        ``("number", 0, None)``, to which predictions are limited; levels from the lowest to the
        highest, such as ``["I", "II", "III"]``; or a likelihood such as ``mc.Huber()``. If a
        declared category has more than 100 values, the 100 most frequent are classes.
    missing : list of values, or dict from column name to such a list, optional
        Values that stand for missing ones beside NaN and None, such as ``[-99, "don't know"]`` in
        all columns, or ``{"age": [-99], "answer": [8, 9]}``. They are filled like other gaps, and
        count as missing in new rows, too. -99 and "-99" mean the same. A ``UserWarning`` names
        numbers that are probably codes for missing values; an empty list says that they are none.
    model : Model, optional
        A model of your own. The likelihood of a block says what its columns are; ``types`` can
        add the order of text levels, bounds, or "date". Levels are counted from 0.
    columns : dict from block name to a list of column names, optional
        The columns of each block of ``model``, in this order. All others are set aside.

    Returns
    -------
    Declared
        ``model, data = mc.declare(frame)`` unpacks it. ``print`` shows the type of each column and
        the reason, and ``table(fit)`` is the completed table.

    Raises
    ------
    DataError
        If the frame is not a table, is empty, or has a name twice; if a column is sparse, holds an
        infinite value, or does not match its declared type or the likelihood of its block; if no
        column is left.
    ModelError
        If ``types`` or ``missing`` names no column, or is none of the above; if ``columns`` does
        not give each block its columns.

    Examples
    --------
    >>> import pandas as pd, mcframe as mc
    >>> frame = pd.DataFrame({
    ...     "age": [31.0, None, 42.5, 27.0, 55.0], "smokes": [True, False, None, False, True],
    ...     "town": ["Ulm", "Bonn", "Ulm", None, "Kiel"],
    ... })
    >>> declared = mc.declare(frame)
    >>> print(declared)
    Declared: 5 rows, 3 of 3 columns in 3 blocks
      column  missing  taken for  why
      age         20%  number     numbers
      smokes      20%  label      true and false
      town        20%  category   text, of 3 values
    >>> model, data = declared
    >>> declared.table(mc.fit(model, data))["town"].tolist()
    ['Ulm', 'Bonn', 'Ulm', 'Bonn', 'Kiel']
    >>> own = mc.Model([mc.Block("habits", mc.Bernoulli(), bias=True)], [mc.NuclearNorm(0.1)])
    >>> mc.declare(frame, model=own, columns={"habits": ["smokes"]}).model == own
    True
    """
    if model is not None or columns is not None:
        return declared_by(model, columns, frame, types, missing)
    table, read = typed_columns(frame, types, missing)
    mostly = [column for column in aside(read) if mostly_numbers(column.column) is not None]
    warn_of_aside("columns that are mostly numbers are set aside", mostly)
    declared = declared_of(read, table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnobservedWarning)  # the fit says it
        weight = starting_weight(declared.model, declared.data)
    return attrs.evolve(declared, model=Model(declared.model.blocks, [NuclearNorm(weight)]))


def declared_by(
    model: Any, columns: Any, frame: Any, types: Any, missing: Missing
) -> Declared[Any]:
    """Return a table whose columns stand in the blocks of a given model."""
    if not isinstance(model, Model):
        raise ModelError(f"model={model!r} was given with columns; a Model is needed")
    table = read_frame(frame)
    declared_types = checked_types(types, table.columns)
    gaps = checked_gaps(missing, declared_types, table.columns)
    places = checked_blocks(model, columns, table.columns)
    read = {column.name: column for column in read_columns(table, gaps)}
    placed = []
    for block in model.blocks:
        for name in columns[block.name]:
            read[name] = read_text(read[name], declared_types.get(name, block.likelihood))
            placed.append(in_block(read[name], declared_types.get(name), block))
    why = "in no block of the model"
    outside = [set_aside(column, why) for name, column in read.items() if name not in places]
    warn_of_text([read[name] for name in places], {**declared_types, **places})
    warn_of_codes(placed, gaps, "missing")
    blocks = [
        attrs.evolve(block, likelihood=block.likelihood.from_zero()) for block in model.blocks
    ]
    model = Model(blocks, model.terms)
    return Declared.of(placed_columns([*placed, *outside]), table, model)


def checked_blocks(model: Model, columns: Any, names: Sequence[Any]) -> dict[Any, str]:
    """The block of each column that has one; a ``ModelError`` where ``columns`` is wrong."""
    blocks = [block.name for block in model.blocks]
    if not isinstance(columns, Mapping) or set(columns) != set(blocks):
        raise ModelError(
            f"columns={columns!r} was given; a dict with a list of column names for each of the"
            f" blocks {listed([repr(name) for name in blocks])} is needed"
        )
    block_of: dict[Any, str] = {}
    for block in blocks:
        members = columns[block]
        if isinstance(members, str) or not isinstance(members, Iterable) or not len(list(members)):
            raise ModelError(
                f"columns[{block!r}] is {columns[block]!r}; a list of column names is needed"
            )
        for name in columns[block]:
            if name not in names:
                hint = meant_column(name, names)
                raise ModelError(
                    f"columns[{block!r}] names {plain(name)!r}, which is no column; {hint}"
                )
            if name in block_of:
                raise ModelError(
                    f"column {name!r} is in block {block_of[name]!r} and again in {block!r}; a"
                    " column belongs to one block"
                )
            block_of[name] = block
    return block_of


def declared_of(columns: Sequence[DeclaredColumn], table: Any) -> Declared[Any]:
    """Return the data of columns that have their places, and a model with the weight 1."""
    return Declared.of(columns, table, Model(blocks_of(columns), [NuclearNorm(1.0)]))


def starting_weight(model: Model, data: Mapping[str, Any]) -> float:
    """Return a tenth of ``weight_max``, or 1 where the weight has no influence, as of one row."""
    try:
        return STARTING_SHARE * weight_max(model, data)
    except NoInfluence:
        return 1.0


def typed_columns(
    frame: Any, types: Mapping[Any, Any] | None, missing: Missing, option: str = "missing"
) -> tuple[Any, tuple[DeclaredColumn, ...]]:
    """Return a table as a ``narwhals.DataFrame``, and the type of each column.

    ``option`` is what ``missing`` is called where warnings name it.
    """
    table = read_frame(frame)
    declared_types = checked_types(types, table.columns)
    gaps = checked_gaps(missing, declared_types, table.columns, option)
    columns = [
        read_text(column, declared_types.get(column.name)) for column in read_columns(table, gaps)
    ]
    placed = placed_columns(
        declared_kind(column, declared_types[column.name])
        if column.name in declared_types
        else detected_kind(column)
        for column in columns
    )
    if all(declared_column.place is None for declared_column in placed):
        placed = with_constants(placed)
    if all(declared_column.place is None for declared_column in placed):
        reasons = listed(
            [
                f"{plain(declared_column.name)!r}: {declared_column.why}"
                for declared_column in placed
            ],
            between="; ",
        )
        raise DataError(
            f"no column is left for a model ({reasons}); give a column with observed values, or"
            " declare what a column holds by types={name: kind}"
        )
    warn_of_text(columns, declared_types)
    warn_of_words(
        [
            declared_column
            for declared_column in placed
            if declared_column.name not in declared_types
        ],
        option,
    )
    warn_of_codes(placed, gaps, option)
    for column in placed:
        coding = column.coding
        if isinstance(coding, Choice) and len(coding.places) < column.column.n_distinct:
            n_rare = np.count_nonzero(np.isnan(column.codes) & ~column.column.missing)
            warn_caller(
                f"column {plain(column.name)!r} has {column.column.n_distinct} categories:"
                f" the {MOST_CLASSES} most frequent are classes, and the {n_rare} entries of"
                " others count as missing for the model, and stay as they are",
            )
    return table, placed


def checked_gaps(
    missing: Missing, types: Mapping[Any, Any], names: Sequence[Any], option: str = "missing"
) -> dict[Any, tuple[Any, ...]]:
    """The values of each column that stand for missing ones, as ``gaps_of`` reads them.

    Raises
    ------
    ModelError
        As there, and where one is declared to be a level, too.
    """
    gaps = gaps_of(missing, names, option)
    for name, kind in types.items():
        levels = kind if isinstance(kind, list | tuple) else ()
        both = np.flatnonzero(stand_for_gaps(levels, gaps.get(name, ())))
        if both.size:
            raise ModelError(
                f"types[{name!r}] has the level {plain(levels[both[0]])!r}, which {option} takes"
                " for a missing value; leave it out of one of them"
            )
    return gaps


def warn_of_words(columns: Iterable[DeclaredColumn], option: str) -> None:
    """Two ``UserWarning``: categories that are mostly numbers, or mean that nothing was observed.

    Of columns that are set aside the reason says it.
    """
    modelled = [column for column in columns if column.place is not None or column.constant]
    numbers = {column.name: mostly_numbers(column.column) for column in modelled}
    mostly = [
        f"{plain(name)!r} ({text.what_is_unread})"
        for name, text in numbers.items()
        if text is not None
    ]
    if mostly:
        remedy = remedy_for_numbers(modelled, option)
        warn_caller(f"columns of text are taken for categories: {listed(mostly)}{remedy}")
    words, gaps = [], dict[Any, list[str]]()
    for column in modelled:
        if column.column.form == "number" or numbers[column.name] is not None:
            continue
        counts = Counter(column.column.values)
        for value in column.column.distinct:
            sign = is_sign(value) and value.strip().lower() not in MEANT
            if sign or is_phrase(value):
                named = f"in column {plain(column.name)!r}"
                words.append(f"{plain(value)!r} {named} ({counts[value]}x)")
                gaps.setdefault(plain(column.name), []).append(value)
    if words:
        warn_caller(
            f"text that usually stands for missing entries is taken for a value: {listed(words)};"
            f" {option}={gaps!r} makes it a gap"
        )


def warn_of_codes(
    columns: Iterable[DeclaredColumn], gaps: Mapping[Any, Sequence[Any]], option: str
) -> None:
    """A ``UserWarning`` of numbers that are probably codes for missing values.

    Not of columns for which an empty list of gaps was declared.
    """
    suspects = {
        plain(column.name): column.column.suspects
        for column in columns
        if column.place is not None and gaps.get(column.name) != ()
    }
    warn_of_suspects(suspects, option)


def checked_types(types: Any, names: Sequence[Any]) -> dict[Any, Any]:
    """The declared types by column name; a ``ModelError`` if one is unknown."""
    if types is None:
        return {}
    if not isinstance(types, Mapping):
        raise ModelError(
            f"types is {a_type(types)}; a dict from column names is needed, such as"
            ' types={"visits": "count"}'
        )
    checked = {}
    for name, declared in types.items():
        if name not in names:
            hint = meant_column(name, names)
            raise ModelError(f"types names {plain(name)!r}, which is no column; {hint}")
        checked[name] = Bounds.of(declared) or declared
        needed = needed_instead(checked[name])
        if needed:
            raise ModelError(f"types[{name!r}] is {declared!r}; {needed}")
    return checked


def needed_instead(declared: Any) -> str:
    """The types that a column can have instead; "" where the declared type is right."""
    if isinstance(declared, Likelihood | Bounds) or is_word(declared, *KINDS):
        return ""
    if isinstance(declared, type) and issubclass(declared, Likelihood):
        return f"write {declared.__name__}() with parentheses"
    if isinstance(declared, list | tuple) and len(declared) > 1:
        if declared[0] in KINDS and not all(isinstance(value, str) for value in declared):
            return (
                "bounds are ['number', lower, upper], with lower below upper; give None (in JSON"
                " null) where there is none"
            )
        twice = [value for k, value in enumerate(declared) if value in declared[:k]]
        if twice:
            return f"the level {plain(twice[0])!r} stands twice; give each level once"
        if None not in declared:
            return ""
    return (
        f"one of {', '.join(map(repr, KINDS))}, bounds of a number such as ['number', 0, 100], a"
        " list of different levels from the lowest to the highest, or a likelihood such as"
        " mc.Huber() is needed"
    )
