"""A table as a model and its data, and the way back: the answer of ``declare``."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, Literal

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.frames import Frame, NewFrame
from mcframe.contracts.row_groups import RowGroups
from mcframe.contracts.showing import card, percent, table_as_html, table_as_text
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import row_groups_of
from mcframe.contracts.validators import a_type, counted, plain
from mcframe.fitting.fit_answer import Fit
from mcframe.model import Model
from mcframe.posterior.answer import Posterior
from mcframe.posterior.row_limits import RowLimits
from mcframe.regularizers import NuclearNorm
from mcframe.tables.applicability import Applicability
from mcframe.tables.coded_rows import CodedRows, UnlikeTable
from mcframe.tables.coding import BaseCoding, Choice, Numbers
from mcframe.tables.columns import read_frame
from mcframe.tables.date_coding import Dates
from mcframe.tables.declared_column import (
    DeclaredColumn,
    answers,
    blocks_of,
    codes_of_intervals,
    data_of,
    numbers_in,
    predicted_codes,
    row_limits_of,
)
from mcframe.tables.gap_tests import GapTests
from mcframe.tables.gaps import meant_column
from mcframe.tables.known_limits import KnownLimits
from mcframe.tables.native_tables import like_frame, with_columns
from mcframe.tables.related_rows import RelatedRows
from mcframe.tables.relations import NO_RELATIONS, Relations


@stored
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
        The original table; with relations what follows from these is filled.
    relations : Relations
        The relations between the columns.
    neighbours : tuple of DeclaredColumn
        Columns of the model beside those of the table: what the rows before and after hold.
    """

    model: Model
    data: Mapping[str, Any]
    columns: tuple[DeclaredColumn, ...]
    frame: Any
    relations: Relations = NO_RELATIONS
    neighbours: tuple[DeclaredColumn, ...] = ()

    @classmethod
    def of(
        cls,
        columns: Sequence[DeclaredColumn],
        table: Any,
        model: Model,
        relations: Relations = NO_RELATIONS,
    ) -> "Declared[Frame]":
        """A table whose columns have their places, in any order, and a model of their blocks."""
        codes = {column.name: column.codes for column in columns if column.place is not None}
        limits = {column.name: column.limits for column in columns}
        data = data_of(columns, codes, table, model, limits)
        position = {name: k for k, name in enumerate(table.columns)}
        neighbours = tuple(column for column in columns if column.neighbour is not None)
        ordered = sorted(
            (column for column in columns if column.neighbour is None),
            key=lambda column: position[column.name],
        )
        return cls(model, data, tuple(ordered), table, relations, neighbours)

    @property
    def all_columns(self) -> tuple[DeclaredColumn, ...]:
        """The columns of the table, and those of the model beside them."""
        return *self.columns, *self.neighbours

    @property
    def row_groups(self) -> RowGroups | None:
        """The groups of the rows: those of the model, or of a column of labels; None without."""
        of_model = row_groups_of(self.model.terms)
        if of_model is not None:
            return of_model
        labels = [column.column.values for column in self.columns if column.has_groups]
        return RowGroups.of(np.array(labels[0], dtype=object)) if labels else None

    @cached_property
    def gap_tests(self) -> GapTests:
        """Tests of whether the gaps of columns depend on other columns; none in one time series.

        Rows of one series depend on each other, and no other series says how far.
        """
        is_series = any(column.neighbour.groups is None for column in self.neighbours)
        placed = [column for column in self.columns if column.place is not None]
        return GapTests.of([] if is_series else placed, self.row_groups)

    @property
    def row_limits(self) -> RowLimits | None:
        """The limits of the numbers of the one block that all columns stand in, as in the data."""
        limits = {column.name: column.limits for column in self.all_columns}
        return row_limits_of(self.all_columns, limits, self.frame.shape[0])

    def replace_columns(self, columns: Sequence[DeclaredColumn]) -> "Declared[Frame]":
        """A copy with other columns of the same names and places."""
        changed = {column.name: column for column in columns}
        return attrs.evolve(
            self, columns=tuple(changed.get(column.name, column) for column in self.columns)
        )

    def __iter__(self) -> Iterator[Any]:
        return iter((self.model, self.data))

    def table(self, fit: Fit | Posterior) -> Frame:
        """The table with its missing entries filled by a fit, in its own library.

        Observed entries and dtypes do not change. Numbers are filled with their mean, rounded if
        the dtype holds whole numbers only or the column is a scale of few whole numbers. Labels,
        classes and levels are filled with the most probable value, as it is written in the column.
        Columns that are set aside are returned unchanged; a constant column is filled with its
        constant.

        Parameters
        ----------
        fit : Fit or Posterior
            Of this model, or of a changed one with the same blocks, to this data.
        """
        codes = predicted_codes(self.checked(fit), self.missing_entries())
        return self.with_codes(self.related_rows.related(codes))

    def missing_entries(
        self, coding_class: type = BaseCoding
    ) -> list[tuple[DeclaredColumn, IntArray]]:
        """Columns with missing entries whose codings are of this class, and the rows of these."""
        return [
            (column, np.flatnonzero(column.column.missing))
            for column in self.columns
            if isinstance(column.coding, coding_class) and column.column.missing.any()
        ]

    def checked(self, fit: Any) -> Any:
        """A fit or a posterior of this table, or an error."""
        if not isinstance(fit, Fit | Posterior):
            raise ModelError(
                f"fit is {a_type(fit)}; a Fit or a Posterior of declared.model and"
                " declared.data is needed"
            )
        expected = {name: np.shape(numbers_in(part)) for name, part in self.data.items()}
        shapes = {name: table.shape for name, table in fit.problem.tables.items()}
        if expected != shapes:
            raise DataError(
                f"the fit is one of blocks of the shapes {shapes}, and this table has {expected};"
                " give a fit of declared.model to declared.data"
            )
        return fit

    @property
    def applicability(self) -> Applicability:
        """Which entries of this table are filled."""
        declared = {column.name: column for column in self.columns}
        columns = {name: column.column for name, column in declared.items()}
        return Applicability(declared, columns, self.frame.shape[0], is_table=True)

    @property
    def related_rows(self) -> RelatedRows:
        """The rows of this table with their relations."""
        declared = {column.name: column for column in self.columns}
        columns = {name: column.column for name, column in declared.items()}
        return RelatedRows(self.relations, declared, columns, self.frame.shape[0], is_table=True)

    def with_codes(
        self, codes: Mapping[Any, Array], predicted: Mapping[Any, Array] | None = None
    ) -> Frame:
        """The table with the given codes at its missing entries; constants are filled.

        Which columns apply to a row depends on the codes, or on those that were ``predicted``.
        """
        applicability = self.applicability
        of_conditions = codes if predicted is None else predicted
        changed = [
            column.filled_with(
                codes.get(column.name, np.zeros(0)),
                applicability.fillable(column.name, of_conditions),
            )
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
            Values that no row of this table has, such as a new category or a number outside of
            the support that was detected, count as missing, with a ``UserWarning`` that names
            them; or they raise a ``DataError``.

        Returns
        -------
        dict from block name to DataFrame or array (n_new x columns of the block)

        Raises
        ------
        DataError
            If the frame is not a table, has a column that this one does not have, or values of
            another form.
        """
        rows = self.coded_rows(frame, unseen)
        return data_of(self.all_columns, rows.codes, rows.table, self.model, rows.limits)

    def coded_rows(
        self,
        frame: Any,
        unseen: Literal["missing", "error"] = "missing",
        collected: UnlikeTable | None = None,
    ) -> CodedRows:
        """New rows, coded like this table, with what follows from its relations."""
        return CodedRows.of(self.all_columns, frame, unseen, self.relations, collected)

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
            Values that no row of this table has, such as a new category or a number outside of
            the support that was detected (-5 in a column of positive numbers), count as missing,
            with a ``UserWarning`` that names them, and are not replaced; or they raise a
            ``DataError``.

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
        rows = self.coded_rows(frame, unseen)
        return rows.completed(rows.conditioned(self.checked(fit)))

    def predict(self, fit: Fit | Posterior, name: Any) -> Frame:
        """Predictions of a column in every row, in the library of the table.

        For a label, a category or levels there is one column of probabilities for each value,
        named by the value (by its text in polars and pyarrow, where names are text). For a number
        or a count there is one column with its mean, for dates one with the dates nearest to it.
        In rows in which the column is observed, too, it is what the model says of the row, of
        which the observed value is a part: for a number under ``complete`` nearly this value, for
        a label a probability that is not 0 or 1.

        Parameters
        ----------
        fit : Fit or Posterior
            As for ``table``.
        name : object
            A column that is in a block; otherwise a ``ModelError`` gives the reason.
        """
        limits = {column.name: column.limits for column in self.columns}
        return self.predicted(self.checked(fit), name, self.frame, limits)

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
        rows = self.coded_rows(frame, unseen)
        return self.predicted(rows.conditioned(self.checked(fit)), name, frame, rows.limits)

    def predicted(
        self, fit: Any, name: Any, table: Any, limits: Mapping[Any, KnownLimits | None]
    ) -> Any:
        """Predictions of a column in the rows of a table, within the limits of its codes there."""
        column, table = self.column(name), read_frame(table)
        if column.place is None:
            raise ModelError(
                f"column {plain(name)!r} stands in no block, so that nothing is predicted of it:"
                f" {column.why}"
            )
        coding = column.block_coding
        [(_, answer)] = answers(fit, [(column, np.arange(table.shape[0]))])
        if isinstance(coding, Choice):
            return like_frame(table, [plain(value) for value in coding.places], answer.T)
        cell_limits = limits.get(name)
        if cell_limits is not None:
            answer = cell_limits.clip(answer, whole=False)
        return like_frame(table, [name], [values_like(column, table, answer)])

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
        answer = posterior
        limits: Mapping[Any, KnownLimits | None] = {name: column.limits}
        if not is_this_table:
            coded = self.coded_rows(frame)
            answer, limits = coded.conditioned(posterior), coded.limits
        means = self.predicted(answer, name, rows, limits)
        if not isinstance(column.coding, Numbers):
            raise ModelError(
                f"column {plain(name)!r} is taken for: {column.kind}, which has no interval; ask"
                " for its predictions without one, the probabilities of its values"
            )
        codes = codes_of_intervals(answer, [(column, np.arange(rows.shape[0]))], level)
        cell_limits = limits.get(column.name)
        within = [end[column.name] for end in codes]
        if cell_limits is not None:
            within = [column.clip(end, cell_limits) for end in within]
        of_ends = [values_like(column, rows, end) for end in within]
        ends = like_frame(rows, ["lower", "upper"], of_ends)
        return nw.concat(list(map(nw.from_native, (means, ends))), how="horizontal").to_native()

    def column(self, name: Any) -> DeclaredColumn:
        """The column of that name; a ``ModelError`` if there is none."""
        if not isinstance(name, Hashable):
            raise ModelError(f"{a_type(name)} was given for a column; give the name of one column")
        for declared_column in self.columns:
            if declared_column.name == name:
                return declared_column
        hint = meant_column(name, [declared_column.name for declared_column in self.columns])
        raise ModelError(f"there is no column {plain(name)!r} in the table; {hint}")

    def __repr__(self) -> str:
        header, *rows = self._cells()
        return "\n".join([self._title(), *table_as_text(header, rows)])

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


def declared_of(
    columns: Sequence[DeclaredColumn], table: Any, relations: Relations = NO_RELATIONS
) -> Declared[Any]:
    """Return the data of columns that have their places, and a model with the weight 1."""
    return Declared.of(columns, table, Model(blocks_of(columns), [NuclearNorm(1.0)]), relations)


def values_like(column: DeclaredColumn, table: Any, codes: Array) -> Any:
    """Means or ends of intervals of a number in its own unit, or as dates, for rows of a table."""
    coding = column.coding
    if isinstance(coding, Dates):
        return column.column.like(table, coding.values(codes))
    return codes * coding.unit if isinstance(coding, Numbers) else codes
