"""The answer of ``complete``: the filled table, errors of its columns, and its draws."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, Literal

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import ModelError, NoSuchAnswer
from mcframe.contracts.frames import Frame, NewFrame
from mcframe.contracts.rounding import TINY
from mcframe.contracts.row_weights import counts_of_rows
from mcframe.contracts.showing import card, percent, remarks, table_as_html, table_as_text
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import Options, RandomState, counted, listed, plain
from mcframe.fitting.base_answer import Answer
from mcframe.fitting.fit_answer import Fit
from mcframe.posterior.answer import Posterior
from mcframe.selection import CrossValidation
from mcframe.tables.calibrating import ColumnScores
from mcframe.tables.coded_rows import CodedRows, UnlikeTable
from mcframe.tables.coding import Choice, Numbers
from mcframe.tables.declared import Declared
from mcframe.tables.declared_column import (
    DeclaredColumn,
    answers,
    codes_of_intervals,
    predicted_codes,
)
from mcframe.tables.formula_terms import Formula
from mcframe.tables.native_tables import like_frame
from mcframe.tables.rows_choice import RowsChoice
from mcframe.tables.shifts import Shifts
from mcframe.tables.table_draws import (
    DrawnCodes,
    DrawnRows,
    DrawsOfTable,
    codes_of_draws,
    grouped_parameters_of,
)
from mcframe.tables.tipping import MeanOfColumn, means_of_columns

if TYPE_CHECKING:  # what the pictures are; nothing of them is needed to run
    from mcframe.plots.of_answers import CompletionPictures


@stored
@attrs.frozen(eq=False, repr=False)
class Completion(Answer["CompletionPictures"], Generic[Frame]):
    """A completed table, with the posterior or the fit that filled it.

    Attributes
    ----------
    table : DataFrame or Table
        The completed table, in its own library and dtypes; observed entries are unchanged.
    answer : Posterior or Fit
        See ``posterior`` and ``fit``.
    declared : Declared
        The type of each column. In the posterior of ``complete`` all are numbers of one block.
    chosen : RowsChoice, CrossValidation or None
        The choice of the prior or of the weight: ``best_weight``, and ``means``, the mean losses
        of all candidates. None where the model was given.
    scores : tuple of ColumnScores or None
        The losses on held-out entries at the best candidate, one for each column of the table.
    row_weights : array (n,) or None
        How many of a population each row stands for, where that was given.
    """

    table: Frame
    answer: Posterior | Fit
    declared: Declared[Frame]
    chosen: RowsChoice | CrossValidation | None
    scores: tuple[ColumnScores | None, ...]
    row_weights: Array | None = None  # not in files of earlier versions

    @classmethod
    def of(cls, declared: Declared[Frame], answer: Posterior | Fit) -> "Completion[Frame]":
        """The table as the posterior or a fit of its declared model fills it.

        Parameters
        ----------
        declared : Declared
            What ``mc.declare`` returned.
        answer : Posterior or Fit
            ``mc.posterior`` or ``mc.fit`` of ``declared.model`` and ``declared.data``.

        Examples
        --------
        >>> import pandas as pd, mcframe as mc
        >>> frame = pd.DataFrame({"height": [1.5, 1.6, None, 1.9] * 6, "visits": [3, 4, 8, 9] * 6})
        >>> declared = mc.declare(frame, {"visits": "count"})
        >>> posterior = mc.posterior(declared.model, declared.data)
        >>> completed = mc.Completion.of(declared, posterior)
        >>> lower, upper = completed.interval(0.9)
        >>> bool(lower["height"][2] < completed.table["height"][2] < upper["height"][2])
        True
        """
        return cls(declared.table(answer), answer, declared, None, (None,) * len(declared.columns))

    @cached_property
    def probabilities(self) -> dict[Any, Array]:
        """The probabilities of the values of filled entries (n_missing x n_values), by column."""
        asked = self.declared.missing_entries(Choice)
        return {column.name: answer for column, answer in answers(self.answer, asked)}

    @cached_property
    def expected_errors(self) -> dict[Any, Array]:
        """Expected errors of the filled entries, column by column; empty for an optimum.

        The standard deviation of a number, count or date; 1 minus the probability of the filled
        value of a label, level or category.
        """
        errors: dict[Any, Array] = {}
        if not isinstance(self.answer, Posterior):
            return errors
        for column, _ in self.declared.missing_entries(Choice):
            answer = self.probabilities[column.name]
            places = column.block_coding.predicted(answer).astype(np.intp)
            errors[column.name] = 1.0 - answer[np.arange(places.size), places]
        for column, rows in self.declared.missing_entries(Numbers):
            coding: Any = column.coding
            sds = coding.deviations(self.answer, column.block_name, column.entries(rows))
            errors[column.name] = coding.unit * sds
        return errors

    @property
    def row_counts(self) -> Array:
        """The weight of each row in estimates (n,): 1, or in proportion to the one it has.

        They add up to the ``effective_rows``.
        """
        n_rows = self.declared.frame.shape[0]
        return np.ones(n_rows) if self.row_weights is None else counts_of_rows(self.row_weights)

    @property
    def effective_rows(self) -> float:
        """The number of rows of equal weight that tell as much of a mean: (sum w)^2 / sum w^2.

        The number of rows, where they have no weights (Kish, Survey Sampling, 1965).

        Examples
        --------
        >>> import pandas as pd, mcframe as mc
        >>> frame = pd.DataFrame({
        ...     "height": [1.5, 1.6, None, 1.9] * 6, "size": ["S", "S", "L", None] * 6,
        ... })
        >>> completed = mc.complete(frame, row_weights=[1.0, 1.0, 3.0, 3.0] * 6)
        >>> round(completed.effective_rows, 6)
        19.2
        """
        return float(np.sum(self.row_counts))

    @cached_property
    def left_empty(self) -> dict[Any, Mask]:
        """The entries of columns that are filled that stay empty: they do not apply, or ``where``.

        By the name of the column.
        """
        applicability = self.declared.applicability
        return {
            column.name: column.column.missing
            & ~applicability.fillable(column.name, self._codes_of_conditions)
            for column in self.declared.columns
        }

    @cached_property
    def _codes_of_conditions(self) -> dict[Any, Array]:
        """The codes that fill the table, if some column does not apply to all rows; else none."""
        if not self.declared.applicability.has_conditions:
            return {}
        return predicted_codes(self.answer, self.declared.missing_entries())

    @property
    def posterior(self) -> Posterior:
        """The posterior; an optimum has none, which is a ``ModelError`` and ``AttributeError``."""
        if not isinstance(self.answer, Posterior):
            raise NoSuchAnswer(
                "an optimum has no posterior: leave method='optimum' out in complete, or give"
                " Completion.of a posterior"
            )
        return self.answer

    @property
    def fit(self) -> Fit:
        """The fit with its certificate; a posterior has none, as an optimum has no posterior."""
        if not isinstance(self.answer, Fit):
            raise NoSuchAnswer(
                "a posterior is no optimum and has no certificate: see completed.posterior, or"
                " take method='optimum' in complete"
            )
        return self.answer

    @property
    def sd(self) -> Frame:
        """Expected errors of the filled entries: a table of numbers, in the library of the table.

        For numbers, counts and dates this is the standard deviation of the entry, in its unit
        (days for dates). For labels, levels and categories it is 1 minus the probability of the
        filled value. It is 0 at observed entries. It is missing where nothing was filled in, and
        where a constant was. See ``interval`` for both ends of an interval.
        """
        self.demand_posterior("standard deviations", NoSuchAnswer)
        errors, columns = self.expected_errors, []
        for column in self.declared.columns:
            missing = column.column.missing
            numbers = np.where(missing, np.nan, 0.0)
            if column.name in errors:
                numbers[missing] = errors[column.name]
            numbers[self.left_empty[column.name]] = np.nan
            columns.append(numbers)
        names = [column.name for column in self.declared.columns]
        return like_frame(self.declared.frame, names, columns)

    def interval(self, level: float = 0.9) -> tuple[Frame, Frame]:
        """Lower and upper ends of intervals that contain the missing entry with this probability.

        Two tables with the columns of numbers, counts and dates, in the library and with the
        dtypes of the table. At missing entries they have the ends of the interval, within the
        bounds of the column. At observed entries they have the observed values. For labels,
        levels and categories see ``sd`` and ``predict``.

        The ends are quantiles with equal tails: of a column whose held-out errors have a shape of
        their own (see ``mc.complete``) those of that shape. Where all observed numbers of a column
        are whole, the ends are whole, too, as draws are, and the interval has at least this
        probability: one of the two quantiles moves in as far as it can, as in
        ``Posterior.interval``. Of a scale of few values, such as answers from 1 to 3, an interval
        often holds far more, since it cannot hold less than a whole value.

        The probability of a label, level or category in ``predict`` is that of the value itself,
        and has no interval. Of a declared model ``Posterior.interval`` has those of probabilities,
        by ``of="mean"``.

        Parameters
        ----------
        level : float, default 0.9
            Between 0 and 1: the probability under the posterior.
            ``completed.posterior.conformalize()`` measures how many entries such intervals
            contain, and corrects them.

        Raises
        ------
        ModelError
            For an optimum, which has no distribution, or if the level is not between 0 and 1.

        Examples
        --------
        >>> import pandas as pd, mcframe as mc
        >>> frame = pd.DataFrame({
        ...     "height": [1.5, 1.6, None, 1.9] * 6, "size": ["S", "S", "L", None] * 6,
        ... })
        >>> completed = mc.complete(frame)
        >>> lower, upper = completed.interval(0.9)
        >>> bool(lower["height"][2] < completed.table["height"][2] < upper["height"][2])
        True
        """
        posterior, asked = self.demand_posterior("intervals"), self.declared.missing_entries
        filled = partial(self.declared.with_codes, predicted=self._codes_of_conditions)
        return self._ends(posterior, asked(Numbers), level, filled)

    @property
    def _numbers(self) -> list[DeclaredColumn]:
        """The columns of numbers, counts and dates."""
        return [column for column in self.declared.columns if isinstance(column.coding, Numbers)]

    def _ends(
        self,
        posterior: Any,
        asked: list[tuple[DeclaredColumn, IntArray]],
        level: float,
        filled: Callable[[dict[Any, Array]], NewFrame],
    ) -> tuple[NewFrame, NewFrame]:
        """The ends of intervals of entries, in the columns of numbers of what ``filled`` makes."""
        tables: list[NewFrame] = []
        for codes in codes_of_intervals(posterior, asked, level):
            native: Any = filled(codes)
            table = nw.from_native(native)
            places = [table.columns.index(column.name) for column in self._numbers]
            tables.append(table[:, places].to_native())
        lower, upper = tables
        return lower, upper

    def demand_posterior(self, what: str, error: type[ModelError] = ModelError) -> Posterior:
        """The posterior, or an error."""
        if not isinstance(self.answer, Posterior):
            raise error(
                f"{what} need a posterior, which an optimum does not estimate; take"
                " method='posterior' in complete"
            )
        return self.answer

    def predict(self, name: Any) -> Frame:
        """Predictions of a column in every row: probabilities of its values, or its mean.

        See ``Declared.predict``.
        """
        return self.declared.predict(self.answer, name)

    def complete_rows(
        self, frame: NewFrame, *, unseen: Literal["missing", "error"] = "missing"
    ) -> NewFrame:
        """New rows with their missing entries filled, in their own library and dtypes.

        As ``Declared.complete_rows``, with this fit or posterior. The rows need not be in the
        table.

        Parameters
        ----------
        frame : DataFrame or Table
            With the columns of the table, in any order.
        unseen : "missing" or "error", default "missing"
            Values that no row of the table has, such as a new category or a number outside of
            the detected support, count as missing for the model, with a ``UserWarning`` that
            names them, or raise an error. They are never replaced.

        Examples
        --------
        >>> import pandas as pd, mcframe as mc
        >>> frame = pd.DataFrame({
        ...     "height": [1.5, 1.6, 1.8, 1.9] * 5, "size": ["S", "S", "L", "L"] * 5,
        ... })
        >>> completed = mc.complete(frame)
        >>> completed.complete_rows(pd.DataFrame({"height": [1.85], "size": [None]}))
           height size
        0    1.85    L
        """
        return self.declared.complete_rows(self.answer, frame, unseen=unseen)

    def predict_rows(
        self, name: Any, frame: NewFrame, *, unseen: Literal["missing", "error"] = "missing"
    ) -> NewFrame:
        """Predictions of a column in new rows: probabilities of its values, or its mean.

        See ``Declared.predict_rows``; ``frame`` and ``unseen`` as in ``complete_rows``.
        """
        return self.declared.predict_rows(self.answer, name, frame, unseen=unseen)

    def interval_rows(
        self,
        frame: NewFrame,
        level: float = 0.9,
        *,
        unseen: Literal["missing", "error"] = "missing",
    ) -> tuple[NewFrame, NewFrame]:
        """Lower and upper ends of intervals for the missing entries of new rows.

        As ``interval`` for the rows of the table: two tables with the columns of numbers, counts
        and dates, those that the new rows do not have included.

        Parameters
        ----------
        frame, unseen : as in ``complete_rows``
        level : as in ``interval``

        Raises
        ------
        ModelError
            For an optimum, which has no distribution, or if the level is not between 0 and 1.
        DataError
            As in ``complete_rows``.

        Examples
        --------
        >>> import pandas as pd, mcframe as mc
        >>> frame = pd.DataFrame({
        ...     "height": [1.5, 1.6, 1.8, 1.9] * 5, "size": ["S", "S", "L", "L"] * 5,
        ... })
        >>> new = pd.DataFrame({"height": [None, 1.7], "size": ["L", "S"]})
        >>> lower, upper = mc.complete(frame).interval_rows(new)
        >>> bool(lower["height"][0] < 1.85 < upper["height"][0]), upper["height"][1]
        (True, np.float64(1.7))
        """
        posterior = self.demand_posterior("intervals")
        rows = self.declared.coded_rows(frame, unseen)
        return self._ends_in_rows(rows, rows.conditioned(posterior), level)

    def _ends_in_rows(
        self, rows: CodedRows, conditioned: Any, level: float
    ) -> tuple[NewFrame, NewFrame]:
        """The ends of intervals in new rows, of which the posterior says what is conditioned."""
        predicted: dict[Any, Array] = {}
        if rows.applicability.has_conditions:
            predicted = predicted_codes(conditioned, rows.missing_entries(self.declared.columns))
        filled = partial(rows.filled, predicted=predicted)
        return self._ends(conditioned, rows.missing_entries(self._numbers), level, filled)

    def complete_part(
        self, frame: NewFrame, level: float | None, collected: UnlikeTable
    ) -> list[NewFrame]:
        """A part of many new rows, completed, and the ends of intervals where a level is given.

        As from ``complete_rows`` and ``interval_rows``; how the rows are unlike the table is added
        to what is ``collected``, for one warning of all parts.
        """
        rows = self.declared.coded_rows(frame, collected=collected)
        conditioned = rows.conditioned(self.declared.checked(self.answer))
        ends = () if level is None else self._ends_in_rows(rows, conditioned, level)
        return [rows.completed(conditioned), *ends]

    def draws(
        self,
        m: int,
        random_state: RandomState = 0,
        *,
        terms: Sequence[str] | str | None = None,
        shift: Mapping[Any, float] | None = None,
    ) -> list[Frame]:
        """Return m completed tables with random draws in the missing entries: multiple imputation.

        The tables have the library, dtypes and order of the table; observed entries are unchanged.
        ``table`` is filled with means, so standard errors computed from it are too small. Analyse
        each of the m tables and combine the answers by ``mc.pool``, which includes the uncertainty
        of the missing entries.

        Each draw estimates means and covariances again from rows drawn with replacement (Honaker
        and King, What to do about missing values in time-series cross-section data, American
        Journal of Political Science 54, 2010), from those of all rows on, whose clusters several
        Gaussians keep: a few steps, each of which takes about as long as the posterior of the rows
        that were drawn. The prior is the chosen one, or for n rows of d
        numbers one of max(1, n / 100, d^2 / n) rows if that is weaker, which biases correlations
        less. The missing entries of each row are then drawn jointly, given its observed entries.
        Labels, levels and categories are drawn by their probabilities, one column after the other,
        given what is drawn already. Numbers are drawn from the mixture, on the scale of their
        column (of several Gaussians with variances that suit the errors in rows that were not
        drawn): they lie in its support, and are whole where all observed ones are. Counts are
        observed ones, drawn with replacement, with the ranks of such numbers. For a wide table
        factors are drawn from their posterior, and labels given the observed entries. Rows are
        assumed to be independent. The draws do not model entries that are missing because of their
        own value; see ``report`` and ``shift``.

        For the posterior of a declared model (``Completion.of``) they are ``Posterior.sample``.

        Parameters
        ----------
        m : int
            The number of tables; 20 or more for intervals.
        random_state : int, generator of numpy or None, default 0
            Draw k is the same for every m, of one seed.
        terms : list of str or a formula, optional
            Terms that the analysis will use beside columns by themselves: ``["x1**2", "x1:x2"]``
            or ``"y ~ x1 + I(x1**2) + x1:x2"``. Rows that are Gaussian have linear regressions, and
            draws without terms bias the coefficients of squares and products towards 0. With terms
            all numbers that stand in none of them are drawn from a linear regression on the other
            columns and the terms, whose parameters are drawn, and missing covariates are drawn
            such that these outcomes are likely (Bartlett and others, Statistical Methods in
            Medical Research 24, 2015). The residuals are normal in the unit of the outcome: of its
            support only declared bounds are kept. See ``mc.pool.formula``.
        shift : dict from column name to float or ``mc.shift(...)``, optional
            What is added to every drawn value of a column of numbers or counts, in the unit of the
            column (of dates in days): the assumption that missing values are by so much larger
            than observed ones in rows that are otherwise alike (delta adjustment; Rubin, Multiple
            Imputation for Nonresponse in Surveys, 1987, section 6.2). Shifted values stay within
            bounds that are declared or evident; whole numbers are rounded up or down at random, so
            that they rise by the shift on average. Other columns are drawn as without a shift.
            ``mc.shift`` has shifts in standard deviations, by group, and to a reference group.
            See ``mc.tipping_point`` and ``shift_to_change`` for the one that matters.

        Raises
        ------
        ModelError
            For an optimum, which has no distribution; if terms cannot be read or name no column,
            or there are too few rows for them; for a table that is so wide that it has factors; if
            a shift is not finite, or is one of a column of other values than numbers.
        DataError
            If a term is not finite, such as the logarithm of a number that is not above 0.

        Examples
        --------
        >>> import pandas as pd, mcframe as mc
        >>> frame = pd.DataFrame({
        ...     "height": [1.5, 1.6, None, 1.9] * 6, "size": ["S", "S", "L", None] * 6,
        ... })
        >>> tables = mc.complete(frame).draws(20)
        >>> len(tables), tables[0].isna().to_numpy().any()
        (20, np.False_)
        """
        formula = None if terms is None else Formula.of_terms(terms)
        shifts = self.shifts(shift)
        m, seed = Options.m(m), Options.random_state(random_state)
        draws = self.drawn_codes(m, seed, formula, shifts)
        return DrawsOfTable((one.table(shifts) for one in draws), formula, self.row_weights)

    def shifts(self, shift: Any) -> Shifts:
        """The checked shifts of columns, of a posterior alone."""
        self.demand_posterior("draws")
        return Shifts.of(self.declared, shift, self.spread)

    def drawn_codes(
        self, m: int, seed: int, formula: Formula | None, shifts: Shifts
    ) -> Iterator[DrawnCodes[Frame]]:
        """m draws of the missing entries, without the amounts of shifts."""
        posterior = self.demand_posterior("draws")
        if formula is not None:
            formula.check([column.name for column in self.declared.columns])
        if isinstance(self.chosen, RowsChoice):
            rows = DrawnRows.of(self.declared, posterior, self.chosen, formula, shifts)
            return rows.drawn_codes(m, seed)
        if shifts.by_reference:
            raise ModelError(
                "shifts to a reference group need the distribution of rows that complete chooses,"
                " and this is the posterior of a declared model, whose observations of any kind"
                " cannot be moved by a difference of means; take complete, or give amounts by"
                " group"
            )
        if formula is not None and formula.further_terms:
            raise ModelError(
                "terms need the distribution of rows that complete chooses, and this is the"
                " posterior of a declared model; draw without terms, or take complete"
            )
        return codes_of_draws(self.declared, attrs.evolve(posterior, random_state=seed), m)

    def spread(self, name: Any) -> float:
        """The standard deviation of a column of numbers, as in the column ``shift`` of the report.

        That of its observed values where it has no pooled mean.
        """
        column = self.declared.column(name)
        if name in self.means:
            return self.means[name].spread
        coding: Any = column.coding
        return float(np.nanstd(column.codes)) * float(coding.unit)

    @cached_property
    def means(self) -> dict[Any, MeanOfColumn]:
        """The pooled means of columns with missing values, without draws; of a posterior alone."""
        return means_of_columns(self)

    def shift_to_change(self, name: Any, confidence_level: float = 0.95) -> float:
        """The shift of a column's missing values at which its mean leaves its interval.

        The entries may be missing because of their own values, which no table shows. If the true
        values at the missing entries are larger, or smaller, than the filled ones by this number
        on average, the mean of the column over all rows lies at an end of the confidence interval
        that ``mc.pool`` gives for it with infinitely many draws: the tipping point ``t sd / f`` of
        the share f of missing entries, with the quantile t of Student's distribution. If missing
        values may well differ from the filled ones by so much, conclusions about the mean rest on
        the assumption. ``draws(m, shift={name: ...})`` shows what becomes of other
        analyses.

        No draws are made: the variance of the mean is that of the values and of predictions (see
        ``MeanOfColumn``).

        Parameters
        ----------
        name : object
            A column of numbers, counts, dates or labels with missing entries.
        confidence_level : float, default 0.95

        Returns
        -------
        float
            In the unit of the column; days for dates. For a label the change of the share of its
            second value among the missing entries.

        Raises
        ------
        ModelError
            For an optimum, and for columns without such a mean.

        Examples
        --------
        >>> import numpy as np, pandas as pd, mcframe as mc
        >>> rng = np.random.default_rng(0)
        >>> frame = pd.DataFrame(rng.standard_normal((400, 2)), columns=["income", "age"])
        >>> frame.loc[:199, "income"] = None
        >>> shift = mc.complete(frame).shift_to_change("income")
        >>> bool(0.2 < shift < 0.4)
        True
        """
        self.demand_posterior("shifts")
        column = self.declared.column(name)
        if column.name not in self.means:
            raise ModelError(
                f"column {plain(name)!r} is taken for: {column.kind}, with"
                f" {percent(column.share_missing)} missing; a mean that may shift is that of"
                " numbers, counts, dates or labels with missing entries and two observed ones that"
                " differ"
            )
        return self.means[column.name].shift(confidence_level)

    def report(self) -> Frame:
        """Errors of each column on held-out entries, as a table in the library of the table.

        There is one row for each column: ``column``, ``type``, ``missing`` (a share), ``loss``
        (held-out loss divided by that of a constant prediction: 1 is no better), ``error`` and
        ``error_of_constant`` by ``measure`` (the root mean square, the share of wrong labels, or
        the mean distance in levels), ``sd`` (the error at missing entries that the posterior
        expects, by the same measure), ``shift``, ``missingness_auc``, ``missingness_p``,
        ``missingness_p_adjusted`` and ``missingness_by``, the chosen ``weight`` (of the nuclear
        norm, or of the prior in rows), and the ``scale`` on which the numbers of a column are
        Gaussian. Losses and errors are missing for columns that are in no block.
        ``between_groups`` is the share of the variance of a column that lies between groups, its
        intra-class correlation, where ``groups`` were given.
        ``error_uncorrected`` is the error that a corrected column has without correction, and
        missing of others.

        ``shift`` is by how much the true values at missing entries would have to differ from the
        filled ones on average for the mean of the column to leave its 95 % interval: in standard
        deviations of the column, for labels in the share of a value; see ``shift_to_change``.

        **When they hold.** The held-out entries are a random sample of the observed ones. For the
        posterior ``missingness_auc`` measures how well the other columns predict which entries are
        missing: the area under the ROC curve on left-out rows, 1/2 if they predict nothing. If it
        is clearly above 1/2, held-out entries are weighted by their odds of being missing, so that
        loss and errors are those of missing entries (missing at random). If an entry is missing
        because of its own value, as when the rich do not tell their income, no observed entry
        shows it, and errors at missing entries may be far larger. Beside the held-out entries of a
        column that is missing together with others, these are hidden, too.

        **Do gaps depend on other columns?** Rows with a gap are compared with rows without one by
        the ranks of what another column holds (Mann and Whitney; counts of labels and of values of
        a category by Fisher's exact test), if there are at least 5 of both. ``missingness_p`` is
        the least p-value over the other columns, times their number, and ``missingness_by`` the
        column that has it. ``missingness_p_adjusted`` is adjusted for the number of tested columns
        (Holm, 1979): if all gaps are by chance, any is at most .05 in at most 5 % of tables,
        whichever columns go missing together. With ``groups`` the groups count as draws, not the
        rows; a single time series is not tested. A small p-value says that gaps are not completely
        at random. A large one does not say that they are: a dependence may be too weak, or without
        a direction, as gaps at both ends, and that on the missing value itself shows nowhere.
        ``plot.gap_dependence()`` draws all pairs.
        """
        rows = self.rows()
        columns = {name: [row[name] for row in rows] for name in REPORT_COLUMNS}
        return nw.from_dict(columns, backend=self.declared.frame.implementation).to_native()

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the report."""
        rows = []
        sds, means, between = self.expected_errors, self.means, self.shares_between_groups
        tests = self.declared.gap_tests
        p_values, adjusted, nearest = tests.of_columns, tests.adjusted, tests.nearest
        for column, scores in zip(self.declared.columns, self.scores, strict=True):
            row = dict.fromkeys(REPORT_COLUMNS) | {
                "column": str(plain(column.name)),
                "type": column.kind,
                "missing": column.share_missing,
                "limits": int(np.count_nonzero(column.column.limited)),
                "weight": None if self.chosen is None else self.chosen.best_weight,
            }
            filled = ~self.left_empty[column.name][column.column.missing]
            if column.name in sds and not filled.any():
                pass  # nothing was filled
            elif column.name in sds and isinstance(column.coding, Choice):
                expected = column.coding.expected_errors(self.probabilities[column.name][filled])
                row["sd"] = float(np.mean(expected))
            elif column.name in sds:
                largest = max(float(np.max(sds[column.name][filled])), TINY)
                shares = sds[column.name][filled] / largest  # squares of sds may overflow
                row["sd"] = largest * float(np.sqrt(np.mean(np.square(shares))))
            if scores is not None:
                row |= {name: getattr(scores, name) for name in SCORE_COLUMNS}
                row["measure"] = column.block_coding.measure
            if column.name in means:
                row["shift"] = means[column.name].reported_shift
            if isinstance(column.coding, Numbers):
                row["scale"] = column.coding.scale_in_words
            row["between_groups"] = between.get(column.name)
            if column.name in p_values:
                row["missingness_p"] = p_values[column.name]
                row["missingness_p_adjusted"] = adjusted[column.name]
                row["missingness_by"] = str(plain(nearest[column.name]))
            rows.append(row)
        return rows

    @property
    def beyond_intervals(self) -> dict[Any, int]:
        """The number of filled values outside of their 90% intervals, of columns where most are.

        Filled values are means, which lie there if the distribution has a long tail.
        """
        counts = dict[Any, int]()
        if not isinstance(self.answer, Posterior):
            return counts
        native: Any = self.table
        table = nw.from_native(native, eager_only=True)
        for column, rows in self.declared.missing_entries(Numbers):
            coding, kept = column.coding, rows[~self.left_empty[column.name][rows]]
            if not (isinstance(coding, Numbers) and len(coding.scale) and kept.size):
                continue
            cells = table[column.name].to_list()
            filled = np.array([float(cells[row]) for row in kept]) / coding.unit
            ends = codes_of_intervals(self.answer, [(column, kept)], 0.9)
            lower, upper = (end[column.name] for end in ends)
            beyond = np.count_nonzero((filled < lower) | (filled > upper))
            if 2 * beyond > kept.size:
                counts[column.name] = int(beyond)
        return counts

    @property
    def shares_between_groups(self) -> dict[Any, float]:
        """The share of the variance of each column between groups; empty without groups.

        The column of times has none, for groups may move with it.
        """
        parameters = grouped_parameters_of(self.answer)
        if parameters is None:
            return {}
        shares = parameters.shares_between
        times = {column.neighbour.time for column in self.declared.neighbours}
        return {
            column.name: float(
                np.mean(shares[column.place : column.place + column.block_coding.width])
            )
            for column in self.declared.columns
            if column.place is not None and column.name not in times
        }

    def __repr__(self) -> str:
        (title, how), (header, *rows) = self._summary(), self._cells()
        footnotes = [f"  {line}" for line in self._remarks()]
        return "\n".join([title, f"  {how}", *table_as_text(header, rows), *footnotes])

    def _repr_html_(self) -> str:
        title, how = self._summary()
        header, *rows = self._cells()
        return card(title, remarks([how]), table_as_html(header, rows), remarks(self._remarks()))

    def _summary(self) -> tuple[str, str]:
        """The number of filled entries with the answer, and the way in which it was chosen."""
        filled = [column for column in self.declared.columns if column.is_filled]
        kept = [column.column.missing & ~self.left_empty[column.name] for column in filled]
        limited = [column.column.limited for column in filled]
        missing = [
            int(np.count_nonzero(cells & ~within))
            for cells, within in zip(kept, limited, strict=True)
        ]
        n_limited = sum(
            int(np.count_nonzero(cells & within))
            for cells, within in zip(kept, limited, strict=True)
        )
        answer, chosen = self.answer, self.chosen
        if isinstance(answer, Posterior):
            status, how = f"posterior {answer.status}", str(chosen)
            if answer.diagnostics is None and not n_limited:  # whose sites are no bound
                status += f" (log evidence at least {answer.evidence:.1f})"
        else:
            status = f"{answer.status} (gap {answer.gap:.1e})"
            how = "" if chosen is None else f"NuclearNorm({chosen.best_weight:.6g})"
        if chosen is None:
            how = "the given model, without held-out entries"
        else:
            how += ", chosen by held-out entries; loss 1 is no better than a constant"
        filled_entries = f"{counted(sum(missing), 'entry', 'entries')} filled"
        if n_limited:
            filled_entries += f" and {n_limited} within known limits"
        return f"Completion: {filled_entries}, {status}", how

    def _cells(self) -> list[list[str]]:
        """The report as text, a header and a row for each column of the table."""
        shares = {str(plain(name)) for name, mean in self.means.items() if mean.is_share}
        rows = [
            [
                cell(row[name], name == "missing" or (name == "shift" and row["column"] in shares))
                for name in PRINTED_COLUMNS
            ]
            for row in self.rows()
        ]
        return [list(PRINTED_COLUMNS), *rows]

    def _remarks(self) -> list[str]:
        """Sentences on when the errors of the report hold."""
        sentences = []
        if any(scores is not None for scores in self.scores):
            how = "no entry is missing because of its own value"
            if isinstance(self.answer, Fit):
                how = "entries are missing completely at random"
            sentences.append(f"errors assume that {how}")
        if self.row_weights is not None:
            sentences.append(
                "rows are weighted in estimates and errors, and tell as much of a mean as"
                f" {self.effective_rows:.1f} rows of equal weight"
            )
        if self.means:
            sentences.append(
                "shift: the mean leaves its 95% interval if missing values differ so much from"
                " filled ones on average, in sds"
            )
        between = self.shares_between_groups
        if between:
            shares = [f"{plain(name)!r} {percent(share)}" for name, share in between.items()]
            sentences.append(f"share of the variance that lies between groups: {listed(shares)}")
        neighbours = self.declared.neighbours
        if neighbours:
            sentences.append(
                "what the rows before and after hold predicts a row, too, in the order of"
                f" {plain(neighbours[0].neighbour.time)!r}"
            )
        tests = self.declared.gap_tests
        dependent = [
            f"{plain(name)!r} (on {plain(tests.nearest[name])!r})"
            for name, p_value in tests.adjusted.items()
            if p_value <= LEVEL_OF_TESTS
        ]
        if dependent:
            sentences.append(
                f"gaps depend on observed columns in {listed(dependent)}, by tests of"
                f" {counted(len(tests.of_columns), 'column')} with an error of 5% in all; whether"
                " they depend on the missing value itself, no table shows"
            )
        determined = [
            f"{plain(column.name)!r} ({column.column.n_determined})"
            for column in self.declared.columns
            if column.column.n_determined
        ]
        if determined:
            sentences.append(
                "gaps that follow from other columns by relations are neither missing nor"
                f" predicted: {listed(determined)}"
            )
        empty = [
            f"{plain(column.name)!r} ({np.count_nonzero(self.left_empty[column.name])})"
            for column in self.declared.columns
            if column.is_filled and self.left_empty[column.name].any()
        ]
        if empty:
            sentences.append(f"gaps that stay empty, as declared: {listed(empty)}")
        limited = {
            detected: [
                f"{plain(column.name)!r} ({np.count_nonzero(column.column.limited)})"
                for column in self.declared.columns
                if column.is_filled and column.column.limited.any()
                if column.has_detected_limits is detected
            ]
            for detected in (False, True)
        }
        if limited[False]:
            sentences.append(
                "cells that are known to limits are neither missing nor observed, and are filled"
                f" within these: {listed(limited[False])}"
            )
        if limited[True]:
            sentences.append(
                "gaps that are taken for numbers beyond the observed ones, and filled there:"
                f" {listed(limited[True])}"
            )
        scales = [
            f"{plain(column.name)!r} as {coding.scale_in_words}"
            + f" (log density of its held-out numbers +{coding.scale_gain:.2f})"
            * (coding.scale_gain > 0.0)
            for column in self.declared.columns
            if isinstance(coding := column.coding, Numbers)
            and (coding.scale_gain > 0.0 or coding.width > 1)
        ]
        if scales:
            sentences.append(f"columns that are Gaussian on another scale: {listed(scales)}")
        corrected = [
            f"{plain(column.name)!r} ({scores.error_uncorrected:.3g} to {scores.error:.3g})"
            for column, scores in zip(self.declared.columns, self.scores, strict=True)
            if scores is not None and scores.error_uncorrected is not None
        ]
        beyond = self.beyond_intervals
        if beyond:
            counts = [f"{plain(name)!r} ({count})" for name, count in beyond.items()]
            sentences.append(
                "filled values are means, and most lie outside of their 90% intervals where a"
                f" tail is long: {listed(counts)}"
            )
        if corrected:
            which = "columns that similar rows or trees correct"
            sentences.append(f"{which}, with their errors: {listed(corrected)}")
        weighted = [
            repr(plain(column.name))
            for column, scores in zip(self.declared.columns, self.scores, strict=True)
            if scores is not None and scores.weighted
        ]
        if weighted:
            weighting = "held-out entries are weighted where other columns predict missingness"
            sentences.append(f"{weighting}: {listed(weighted)}")
        return sentences


# The probability of any error with which the report says that gaps depend on columns.
LEVEL_OF_TESTS = 0.05

# The columns of the report that are scores, all of its columns, and those that are printed.
SCORE_COLUMNS = ("loss", "error", "error_of_constant", "missingness_auc", "error_uncorrected")
REPORT_COLUMNS = (
    *("column", "type", "missing", "limits", "loss", "error", "error_of_constant", "measure"),
    *("sd", "shift", "missingness_auc", "missingness_p", "missingness_p_adjusted"),
    *("missingness_by", "weight", "scale", "between_groups", "error_uncorrected"),
)
NOT_PRINTED = (
    *("limits", "missingness_auc", "missingness_p", "missingness_p_adjusted", "missingness_by"),
    *("weight", "scale", "between_groups", "error_uncorrected"),
)
PRINTED_COLUMNS = tuple(name for name in REPORT_COLUMNS if name not in NOT_PRINTED)


def cell(value: Any, is_share: bool) -> str:
    """A value of the report as text: a number in three digits, a share in per cent, or nothing."""
    if value is None or isinstance(value, str):
        return value or ""
    return percent(value) if is_share else f"{value:.3g}"
