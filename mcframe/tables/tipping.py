"""The mean of a completed column, and the shift of its missing values that would change it."""

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import scipy

from mcframe.contracts.arrays import Array
from mcframe.contracts.validators import Options
from mcframe.tables.coding import Choice, Numbers
from mcframe.tables.declared_column import answers
from mcframe.tables.pooling import observed_degrees_of_freedom

if TYPE_CHECKING:
    from mcframe.tables.completion import Completion


@attrs.frozen
class MeanOfColumn:
    """The mean of a column over all rows, pooled over infinitely many completed tables.

    Rows count as often as their weights say, and n is the sum of these counts.

    Of n values, ``n_missing`` of them missing, with predicted means and variances v: the variance
    of the mean within a table is W = s^2 / n, with s^2 the variance of the column and v of its
    missing values. Between tables it is B = sum(v) / (n (n - n_missing)): independent residuals
    have sum(v) / n^2, and the rest is that the distribution of the rows is estimated. (Of a
    regression on other columns, with values missing completely at random, the mean of the missing
    residuals has the variance v / n_missing + v / (n - n_missing).) The degrees of freedom are
    those of Barnard and Rubin (1999), as in ``mc.pool``.

    Attributes
    ----------
    mean : float
        In the unit of the column; of a label the share of its second value.
    sd : float
        The root of W + B.
    degrees_of_freedom : float
    spread : float
        s, the standard deviation of the column.
    share_missing : float
    is_share : bool
        True of a label.
    """

    mean: float
    sd: float
    degrees_of_freedom: float
    spread: float
    share_missing: float
    is_share: bool

    @classmethod
    def of(
        cls,
        observed: Array,
        means: Array,
        variances: Array,
        is_share: bool,
        unit: float = 1.0,
        observed_variances: Array | float = 0.0,
        counts: tuple[Array, Array] | None = None,
    ) -> "MeanOfColumn | None":
        """Return that of observed values, and of missing ones with means and variances.

        None of fewer than two observed values, or where all are alike. Values that are known to
        limits stand among the observed ones, with variances of their own. ``counts`` are how often
        each observed and each missing value counts; by default once.
        """
        if observed.size < 2 or not means.size:
            return None
        of_observed, of_missing = counts or (np.ones(observed.size), np.ones(means.size))
        n_observed, n_missing = np.sum(of_observed), np.sum(of_missing)
        n = n_observed + n_missing
        if not n > 1.0:  # one row outweighs all others
            return None
        mean = (of_observed @ observed + of_missing @ means) / n
        squares = of_observed @ np.square(observed - mean)
        squares += of_missing @ (np.square(means - mean) + variances)
        of_limits = np.sum(of_observed * observed_variances)
        variance = (squares + of_limits) / (n - 1)
        between = (of_missing @ variances + of_limits) / (n * n_observed)
        total = variance / n + between
        if not (np.isfinite(total) and total > 0.0):
            return None
        freedom = observed_degrees_of_freedom(float(n - 1), between / total)
        return cls(
            mean=float(mean) * unit,
            sd=float(np.sqrt(total)) * unit,
            degrees_of_freedom=float(freedom),
            spread=float(np.sqrt(variance)) * unit,
            share_missing=float(n_missing / n),
            is_share=is_share,
        )

    def shift(self, confidence_level: float = 0.95) -> float:
        """The shift of the missing values that takes the mean to an end of its interval.

        The mean moves by the share of missing values times their shift: t sd / share_missing.
        """
        level = Options.confidence_level(confidence_level)
        quantile = scipy.stats.t.ppf(0.5 + 0.5 * level, self.degrees_of_freedom)
        return float(quantile * self.sd / self.share_missing)

    @property
    def reported_shift(self) -> float:
        """The shift at the level .95, in standard deviations; of a label of its share."""
        return self.shift() / (1.0 if self.is_share else self.spread)


def means_of_columns(completed: "Completion[Any]") -> dict[Any, MeanOfColumn]:
    """The means of numbers, counts, dates and labels with missing values, by column.

    Of a posterior alone; categories and levels have none, nor columns with gaps that stay empty.
    """
    means: dict[Any, MeanOfColumn] = {}
    row_counts = completed.row_counts
    asked = completed.declared.missing_entries(Numbers)
    filled = {column.name: codes for column, codes in answers(completed.answer, asked)}
    for column in completed.declared.columns:
        errors = completed.expected_errors.get(column.name)
        if errors is None or column.place is None or completed.left_empty[column.name].any():
            continue
        seen, missing = ~np.isnan(column.codes), column.column.missing
        if isinstance(column.coding, Numbers):
            unit, limited = column.coding.unit, column.column.limited
            codes, variances = column.codes.copy(), np.zeros(column.codes.size)
            codes[missing], variances[missing] = filled[column.name], np.square(errors / unit)
            seen, missing = seen | limited, missing & ~limited
            mean = MeanOfColumn.of(
                codes[seen],
                codes[missing],
                variances[missing],
                False,
                unit,
                variances[seen],
                (row_counts[seen], row_counts[missing]),
            )
        elif isinstance(column.coding, Choice) and len(column.coding.places) == 2:
            p, counts = completed.probabilities[column.name][:, 1], row_counts
            mean = MeanOfColumn.of(
                column.codes[seen], p, p * (1.0 - p), True, counts=(counts[seen], counts[missing])
            )
        else:
            continue
        if mean is not None:
            means[column.name] = mean
    return means
