"""The verb ``complete``: fill the missing entries of a table."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs
import numpy as np

from mcframe.contracts.errors import ModelError, warn_caller
from mcframe.contracts.frames import Frame
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.validators import (
    Options,
    RandomState,
    listed,
    plain,
    suggests_options,
)
from mcframe.contracts.wording import row_number, wording
from mcframe.runtime.progress import stage
from mcframe.tables.applicability import OnlyIf, with_where
from mcframe.tables.by_optimum import complete_by_optimum
from mcframe.tables.censoring import LimitColumns
from mcframe.tables.coding import Numbers
from mcframe.tables.column_types import read_table, warn_of_list
from mcframe.tables.completion import Completion
from mcframe.tables.declared_column import (
    DeclaredColumn,
    columns_set_aside,
    warn_of_columns_set_aside,
)
from mcframe.tables.gaps import Missing
from mcframe.tables.grouping import with_groups, with_row_weights
from mcframe.tables.neighbours import with_neighbours, with_trend
from mcframe.tables.pipeline import complete_by_posterior
from mcframe.tables.relations import Relation
from mcframe.tables.suggested_identities import warn_of_identities

# The warning about columns that are in no block.
SET_ASIDE_MESSAGE = "columns that are set aside are neither used nor filled"


@suggests_options
def complete(
    frame: Frame,
    types: Mapping[Any, Any] | None = None,
    *,
    missing: Missing = None,
    where: Any = None,
    method: Literal["posterior", "optimum"] | None = None,
    random_state: RandomState = 0,
    groups: Any = None,
    time: Any = None,
    trend: int = 0,
    row_weights: Any = None,
    relations: Sequence[str | Relation] | None = None,
    nonlinear: bool | None = None,
    detect_limits: bool = True,
    progress: bool | None = None,
) -> Completion[Frame]:
    """Fill the missing entries of a table of numbers, labels, counts, levels and categories.

    The type of each column follows from its dtype and values, as in ``declare``. All columns are
    then standardized numbers: a category becomes one indicator for each of its values, a level
    becomes its position. Missing entries are filled from the posterior of their rows
    (``mc.posterior``):

    - The rows are draws from one Gaussian distribution, or from a mixture of 2, 3, 4, 6 or 8
      (``GaussianRows``). Mean and covariance have distributions themselves, found by variational
      Bayes. The prior of the covariance expects less than the variance of a column that follows
      from others (``variables=`` there; not with groups). Two things are chosen on 3 folds of
      held-out entries of every column: the number of rows that this prior counts as (.03, .1, .3,
      1, ... or 1,000), and the number of Gaussians. The criterion is the mean over columns of the
      squared error divided by the variance.
    - Tables of n rows and d columns (as numbers) whose ``n d^3`` is more than 1e11, as 1,000 rows
      of 465 columns, have Gaussian factors of rows and columns (``NuclearNorm()`` without a
      weight). The evidence keeps as many factors as are needed. Of few rows (d above 128, ``n^3``
      at most ``4 d^2``) the time grows with ``n^3 d`` and memory with ``n d`` instead, and factors
      are taken above 2.5e9, as for 100 rows of 2,600 columns.

    Cells of which only limits are known, by text such as "<0.5" or ``mc.censored``, have Gaussian
    observations in their place, whose moments are those of numbers between the limits
    (expectation propagation: Minka, UAI 2001). They are filled with the mean of their normal
    distribution between the limits, and draws are Gibbs steps with such distributions.

    The answer does not depend on clock times. Probabilities of labels and levels come from a
    logistic curve of the mean, with a coefficient and cut points for each column from held-out
    entries. Those of categories come from a linear discriminant of the means of their indicators.
    Levels are filled with the median of their probabilities.

    ``method="optimum"`` uses the model of ``declare``: each type of column has its own likelihood,
    and one nuclear norm has a weight that ``cross_validate`` chooses among 10. Its optimum is
    certified. On mixed tables the posterior predicts better (see the page on how good the answers
    are), in less time.

    Parameters
    ----------
    frame, types, missing : as in ``declare``
    where : array or table of truth values (rows x columns), optional
        True at the entries that are to be filled; other gaps stay empty, in ``table`` and in
        draws. By default all gaps are filled but those of columns that do not apply to a row
        (``mc.only_if``).
    method : "posterior" or "optimum", optional
        The default is "posterior", or "optimum" if ``types`` contains a likelihood, which the
        posterior cannot use.
    random_state : int, generator of numpy or None, default 0
        The seed of the held-out entries.
    groups : name of a column, or sequence with a label for each row, optional
        Rows that belong together, such as ``groups="school"``, or the visits of one patient. A row
        is then the mean of its group plus a deviation, both Gaussian (``GaussianRows(groups=)``,
        the normal model of two levels): a gap is filled from its row and from its group, and means
        of groups of few rows are drawn to the common mean. The column of the labels is set aside,
        and must be complete. A mixture is not tried. Tables that have factors or are wide have no
        means of groups, with a ``UserWarning``. ``method="optimum"`` has none either: there all
        rows of a group are held out together.
    time : name of a column, optional
        A column of numbers or dates by which the rows of each group (of the table, without groups)
        are ordered. What the row before and the row after hold, in each column but categories,
        then predicts a row, too, with gaps of its own, which are filled with all others (lags and
        leads: Honaker and King, What to do about missing values in time-series cross-section
        data, AJPS 2010). New rows have neighbours in the table. Groups must be a column, and no
        group may have two rows of the same time.
    trend : int from 0 to 3, default 0
        Beside ``groups`` and ``time``: 1 for means of groups that are lines in time, 2 and 3 for
        polynomials of that degree, each group with coefficients of its own that are drawn to the
        common ones (``GaussianRows(trend=)``; the trends by unit of Honaker and King, whose
        coefficients are free). Worth it where groups drift apart; the coefficients of few groups
        are known badly.
    row_weights : name of a column, or sequence with a number above 0 for each row, optional
        How many of a population each row stands for, such as the weights of a survey; only their
        ratios matter. Means, covariances, probabilities, held-out errors and pooled estimates are
        then those of the population: each row counts in proportion to its weight
        (``GaussianRows(row_weights=)``). A column of that name is set aside; give
        ``frame["weight"]`` to have it predict the others, too. Not beside ``groups`` and
        ``method="optimum"``. Gaps of tables with factors are filled without weights, with a
        ``UserWarning``.
    relations : list of str or of what ``mc.relation`` makes, optional
        Equations between columns of numbers that hold in each row, such as ``["total = food +
        rent", "bmi = weight / height ** 2"]``; see below. Without any, a ``UserWarning`` suggests
        identities with small whole coefficients that hold in all rows; an empty list says that
        there are none.
    nonlinear : bool, optional
        Whether columns of the posterior are corrected by similar rows and by trees where that
        lowers errors; see below. By default they are in tables that allow it. False leaves the
        correction out: it makes a fit take twice the time on average, three times with thousands
        of rows, and up to six times. True warns where it has no effect.
    detect_limits : bool, default True
        Whether gaps of columns of numbers are taken for numbers beyond the largest (or the least)
        observed one where the table says so, as of a laboratory that leaves results below its
        limit empty. A ``UserWarning`` names these columns; see below. To look for them takes a few
        per cent of the time, and limits several times it, as declared ones do.
    progress : bool, optional
        As in ``mc.fit``: what is tried, and the steps of the estimate.

    Returns
    -------
    Completion
        ``table`` is the completed table, in its own library and dtypes. ``sd`` is the expected
        error of each filled entry. ``report()`` says how well each column is predicted at held-out
        entries. ``draws(m)`` are m tables filled by random draws. A ``UserWarning`` names columns
        that are set aside. With ``groups`` the report has the share of the variance of each column
        that lies between groups.

    Notes
    -----
    **Relations.** What follows from the observed numbers of a row is filled first, and is data of
    the model: the one missing number of an equation that is linear (an identity), what several
    identities determine together, the left side of another formula, or the variable that solves it
    if there is a single solution in the plausible range (that of the column, with its width beyond
    both ends, but within its bounds). Such entries have the deviation 0.

    Identities hold in ``table``, in draws and in new rows, to rounding. Where several numbers of
    one are missing, they are conditioned on it: of numbers x with the mean m and the covariance S
    given what is observed of the row, by a Gaussian of the mixture, the mean given ``A x = b`` is
    ``m + S A' (A S A')^-1 (b - A m)`` and the covariance ``S - S A' (A S A')^-1 A S``. Draws are
    moved by the same gain (conditioning by kriging). Columns of identities are Gaussian on the
    scale of the data. Values beyond bounds are moved to the nearest ones that satisfy bounds and
    identities, distances measured in standard deviations of the columns; whole numbers are then
    rounded one after the other, and the others follow. Bounds that are evident only (0 of positive
    numbers) give way where a row needs it, declared ones do not. Tables with factors and an
    optimum are moved onto identities in this way alone.

    The left side of another formula is a column like others, which predicts them (passive
    imputation). It is computed anew from what is filled, in the table and in each draw; where it
    is observed, and several variables of its right side are missing, the last of them that stands
    in no identity is solved for. If there is no single solution, the row does not satisfy it.

    In rows to which a column does not apply (``mc.only_if``), its relations do not hold. Entries
    that are held out look like missing ones: what would determine them is hidden, too.

    **Gaps beyond an end.** If only numbers up to an end were recorded, those that are observed end
    abruptly where others would be expected, and gaps are where other columns predict numbers
    beyond it. Let m and d be the mean and the deviation of a number of a column given the other
    columns of its row, by the posterior. In all models that are compared the number is Gaussian
    with the mean ``a + b m`` and the deviation ``s d``, on its own scale or, of positive numbers,
    on that of logarithms. In one of them it is missing where it lies beyond the largest observed
    number (or the least one), and nowhere else, so that the likelihood of a gap is ``Phi((a + b m
    - largest) / s d)`` (Tobin, Estimation of relationships for limited dependent variables,
    Econometrica 26, 1958). In the other one it is missing with the probability ``Phi(g + h m)``:
    at random given other columns. If the maximum of the first likelihood is a thousand times that
    of the second one, and the gaps alone are as many times likelier by it than with one
    probability, the end is tried: rows are estimated with such limits, and other columns are
    looked at again. Then each end has to stand a comparison with more models, with m and d of the
    rows that have all limits that were tried: gaps may be as likely as a logistic regression or
    boosted trees say, which predict a fifth of the rows from the others by the numbers and the
    gaps of all other columns, and normal scores may stand in the place of the numbers, with a
    kernel density. The data have to be a thousand times likelier with the end than by each of
    these, or as likely beside another column with such an end in the same direction.

    The table is then completed with these limits at gaps. In new rows they hold at gaps of columns
    that have a number in one of these rows. An end is no bound of what a column may hold: a
    declared one, 0 below, 1 or 100 above where no number is negative, or the most frequent number
    if it occurs 5 times. A column needs 20 gaps and 10 different numbers among at most 2,000 rows
    that are looked at. Not found are ends with a number beyond them or with gaps of other causes
    among those beyond, columns cut off at both ends, and columns that are missing in the same rows
    as others. Not looked at are levels, dates, columns beside a point mass, with declared limits
    or with a condition, and tables with groups, row weights, relations or factors.
    ``MatrixCompletionImputer`` does not look for ends.

    **Errors.** With m and s the mean and the standard deviation of a missing number given what is
    observed of its row, on the scale of its column, the number is distributed as ``m + s h(x)``, x
    standard normal, where held-out entries of the column make that clearly likelier than a normal
    distribution: ``h(x) = (sinh((asinh(x) + skew) / tail) - c) / d`` with c and d such that it has
    the mean 0 and the variance 1 (Jones and Pewsey, Sinh-arcsinh distributions, Biometrika 96,
    2009). Of 7 skews and 11 tails those with the largest likelihood are taken, if its logarithm
    gains more than 2 (Akaike's criterion). Intervals, draws, and means of columns on another scale
    are those of h. Columns of identities, counts, and columns with limits of cells have none.

    **Corrections.** Rows may be of units that no column names, as visits of one person. A missing
    number of mean m is first shifted by ``v u``, where ``u = sum_r k_r (x_r - m) / (0.01 + sum_r
    k_r)``, over rows r in which it is x_r. The weight ``k_r = a_r^4 exp(-d_r / 2 h^2)`` is of the
    share a_r of the row's numbers that row r has, too, and of the mean square d_r of the
    differences of these in standard units, in which numbers that differ among similar rows count
    less; it is 0 for d_r above 16 h^2. The width h of .035, .07 and .14 and v, at most 1, are
    those with the least squares at held-out entries, from which the row itself is left out.

    Rows that are Gaussian have linear regressions, and mixtures few curves. Sums of regression
    trees (gradient boosting: Friedman, Greedy function approximation, Annals of Statistics 29,
    2001) learn what is left over of the observed numbers of each column with gaps, from the other
    columns as the posterior fills them without that column, their gaps, and its answer. Three
    sums, each of two thirds of the rows, are averaged. A missing number has the mean ``m + v u + w
    f(x)`` in the place of m, and the variance ``c T^b exp(g(x))`` in the place of T: w by least
    squares, c and b by likelihood, and trees for g, on residuals of held-out entries that neither
    the rows nor the trees have seen. Probabilities are then fitted to the corrected predictions.
    Where rows without the column have other gaps than rows with it, as in clusters of rows where
    some columns were not asked, gaps are no features, rows with the same gaps are in one of the
    thirds, and v is chosen without rows of the same third.

    A column keeps a correction if that lowers the squared errors of these entries by more than
    half a standard error (one by similar rows), and the loss in the report, which has the error
    without it, too (``error_uncorrected``); labels, levels and categories keep it if squared
    errors and log losses fall by two standard errors. Of numbers beside a point mass, such as 0,
    the chance of another number and this number are corrected each by itself. ``sd``, intervals,
    draws and new rows are those of corrected answers; a draw has one of the three sums.

    Two missing numbers of a row are drawn with the dependence that they have without corrections.
    At least 60 entries of a column must be held out, trees learn from at most 10,000 rows, and
    rows are compared with at most 3,000. Nothing is corrected in tables that are wide or have
    factors, with groups, with relations, or with limits of cells; ``nonlinear=True`` gives a
    ``UserWarning`` then. With ``terms`` corrected rows propose covariates, and outcomes have their
    regression. ``conformalize`` has intervals around answers without corrections.

    Raises
    ------
    DataError, ModelError
        As in ``declare``; if ``random_state`` is none of these; if ``nonlinear`` is neither
        a truth value nor None, or true for an optimum; if there are fewer than 2 groups
        (3 for the optimum), not one label for each row, or a row without one; if the method is
        neither, or is "posterior" together with a likelihood; if ``time`` names no column, one
        without numbers and dates or with gaps, or two rows of a group have the same; if a row has
        no weight above 0, or weights stand beside groups or an optimum; if a relation cannot be
        read, contradicts others or does not hold in a row, or no numbers within declared bounds
        satisfy it.

    Examples
    --------
    >>> import pandas as pd, mcframe as mc
    >>> frame = pd.DataFrame({
    ...     "height": [1.6, 1.7, None, 1.9] * 6, "tall": ["no", "no", "yes", None] * 6,
    ... })
    >>> completed = mc.complete(frame)
    >>> completed.table.isna().to_numpy().any()
    np.False_
    """
    if method is not None:
        Options.method(method)
    with_likelihood = []
    if isinstance(types, Mapping):
        kinds = {
            name: declared.kind if isinstance(declared, OnlyIf | LimitColumns) else declared
            for name, declared in types.items()
        }
        with_likelihood = [
            plain(name) for name, kind in kinds.items() if isinstance(kind, Likelihood)
        ]
    if method == "posterior" and with_likelihood:
        name = with_likelihood[0]
        declared = wording().either(python=f"types[{name!r}]", command=f"--types {name}")
        wanted, other = (
            wording().either(python=f"method={word!r}", command=f"--method {word}")
            for word in ("posterior", "optimum")
        )
        raise ModelError(
            f"{declared} is a likelihood, which {wanted} has no use for; take {other}, or declare"
            " a kind such as 'number'"
        )
    seed, nonlinear = Options.random_state(random_state), Options.nonlinear(nonlinear)
    trend, detect_limits = Options.trend(trend), Options.detect_limits(detect_limits)
    with stage("complete", Options.progress(progress)):
        table = read_table(frame, types, missing)
        shape = table.frame.shape
        table = attrs.evolve(table, columns=with_where(table.columns, where, shape))
        is_optimum = method == "optimum" or (method is None and bool(with_likelihood))
        if is_optimum:
            refuse_options_of_posterior(time, nonlinear, row_weights)
        if trend and (groups is None or time is None):
            raise ModelError(
                f"trend={trend} was given without groups or without a time; name the columns of"
                " both, or leave it out"
            )
        if row_weights is not None and groups is not None:
            raise ModelError(
                "row_weights and groups were given; means of groups know no weights of rows. Leave"
                " out one of the two"
            )
        table, row_groups = with_groups(table, groups)
        table, weights = with_row_weights(table, row_weights)
        table = table.with_relations(relations)
        warn_of_list(table.frame, types or ())
        if is_optimum:
            completed = complete_by_optimum(table, seed, row_groups)
        else:
            table = with_neighbours(table, time, groups)
            if trend and row_groups is not None:
                row_groups = with_trend(row_groups, table, trend)
            completed = complete_by_posterior(
                table,
                seed=seed,
                groups=row_groups,
                row_weights=weights,
                nonlinear=nonlinear,
                detect_limits=detect_limits,
            )
    warn_of_columns_set_aside(SET_ASIDE_MESSAGE, columns_set_aside(completed.declared.columns))
    warn_of_constants_and_outliers(completed.declared.columns)
    if relations is None:
        warn_of_identities(completed.declared.columns)
    return completed


def refuse_options_of_posterior(time: Any, nonlinear: bool | None, row_weights: Any) -> None:
    """Raise a ``ModelError`` where an optimum is given what the posterior of rows alone takes."""
    if row_weights is not None:
        raise ModelError(
            "row_weights were given, and an optimum knows no weights of rows; leave them out, or"
            " fill the table by the posterior"
        )
    if nonlinear:
        option = wording().either(python="nonlinear=True", command="--nonlinear")
        raise ModelError(
            f"{option} corrects the posterior of the rows, which an optimum has not; leave it out,"
            " or fill the table by the posterior"
        )
    if time is not None:
        raise ModelError(
            f"time={plain(time)!r}: an optimum knows no order of rows; leave it out, or fill the"
            " table by the posterior"
        )


# A number is named as an outlier if it lies this many interquartile ranges beyond the quartiles of
# the others, of which there are at least so many.
OUTLIER_RANGES, FEWEST_BESIDE_OUTLIER = 20.0, 7


def warn_of_constants_and_outliers(columns: Sequence[DeclaredColumn]) -> None:
    """A ``UserWarning`` of constants that fill entries, and one of outliers."""
    constants = [
        f"{plain(column.name)!r} ({plain(column.constant[0])!r})"
        for column in columns
        if column.constant and column.column.missing.any()
    ]
    if constants:
        warn_caller(
            "columns with a single observed value are filled with it, which may say nothing of"
            f" their missing entries: {listed(constants)}; {wording().types_of_any('skip')} leaves"
            " them as they are"
        )
    outliers = []
    for column in columns:
        if isinstance(column.coding, Numbers):
            codes = [code.value for code in column.column.suspects]  # which have a warning already
            numbers = column.column.numbers / column.coding.unit
            numbers[np.isin(column.column.numbers, codes)] = np.nan
            # A point mass, such as 0 in half of the rows, is no number beside others.
            numbers[np.isnan(column.coding.numbers(numbers)[:, -1])] = np.nan
            if np.all(np.isnan(numbers)):
                continue
            for row in (int(np.nanargmin(numbers)), int(np.nanargmax(numbers))):
                others = numbers[(numbers != numbers[row]) & ~np.isnan(numbers)]
                if others.size < FEWEST_BESIDE_OUTLIER:
                    continue
                low, high = np.quantile(others, [0.25, 0.75])
                if (
                    max(low - numbers[row], numbers[row] - high)
                    > OUTLIER_RANGES * (high - low)
                    > 0.0
                ):
                    value = column.column.values[row]
                    outliers.append(
                        f"{plain(value)!r} in row {row_number(row)}"
                        f" of column {plain(column.name)!r}"
                    )
    if outliers:
        warn_caller(
            f"numbers more than {OUTLIER_RANGES:g} interquartile ranges beyond the quartiles of"
            f" the other values dominate means and correlations: {listed(outliers)}"
            f"{wording().how_rows_count()}; correct them,"
            " make them missing, or transform the column, as by a logarithm",
        )
