"""Estimates from several completed tables as one, by Rubin's rules."""

from typing import Any

import attrs
import numpy as np
import scipy

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.data_forms import is_labelled, is_labelled_table
from mcframe.contracts.errors import DataError
from mcframe.contracts.showing import card, table_as_html
from mcframe.contracts.validators import (
    NotANumber,
    Options,
    above_zero,
    floats_of,
    suggests_options,
)


@attrs.frozen(eq=False, repr=False)
class Pooled:
    """An estimate from m completed tables, with the uncertainty of what was missing.

    Attributes are numbers for scalar estimates, arrays (p,) for vectors, and Series for Series.

    Attributes
    ----------
    estimate : float, array or Series
        The mean of the m estimates.
    sd : float, array or Series
        The standard deviation of the estimate: the root of W + (1 + 1/m) B with W the mean of the
        variances and B the variance of the m estimates.
    degrees_of_freedom : float, array or Series
        Those of the t distribution of ``(estimate - truth) / sd``.
    fraction_missing : float, array or Series
        The share of the information on the estimate that is missing, from 0 to 1.
    n_tables : int
        m.
    names : tuple of str
        What the estimates are called, if they have names.
    """

    estimate: Any
    sd: Any
    degrees_of_freedom: Any
    fraction_missing: Any
    n_tables: int
    names: tuple[str, ...] = ()

    def interval(self, confidence_level: float = 0.95) -> tuple[Any, Any]:
        """Lower and upper ends of confidence intervals, by quantiles of t.

        Infinite if there are no degrees of freedom left.

        Parameters
        ----------
        confidence_level : float, default 0.95
            Strictly between 0 and 1.

        Examples
        --------
        >>> import mcframe as mc
        >>> pooled = mc.pool([1.0, 1.2, 0.9], [0.04, 0.05, 0.04])
        >>> lower, upper = pooled.interval(0.95)
        >>> print(f"{lower:.2f} to {upper:.2f}")
        0.44 to 1.63
        """
        level = Options.confidence_level(confidence_level)
        freedom = np.asarray(self.degrees_of_freedom)
        with np.errstate(invalid="ignore"):
            quantile = scipy.stats.t.ppf(0.5 + 0.5 * level, np.where(freedom > 0.0, freedom, 1.0))
        half = np.where(freedom > 0.0, quantile * self.sd, np.inf)
        return scalar(self.estimate - half), scalar(self.estimate + half)

    def __repr__(self) -> str:
        header, *rows = self._cells()
        width = max(len(row[0]) for row in rows)
        lines = [
            " ".join([f"{name:<{width}}"] * (width > 0) + [f"{cell:>10}" for cell in cells])
            for name, *cells in (header, *rows)
        ]
        return "\n".join([self._title(), *lines])

    def _repr_html_(self) -> str:
        header, *rows = self._cells()
        named = any(row[0] for row in rows)
        return card(
            self._title(), table_as_html(header[not named :], [r[not named :] for r in rows])
        )

    def _title(self) -> str:
        return f"Pooled: {self.n_tables} completed tables"

    def _cells(self) -> list[list[str]]:
        """A header, and a row for each estimate; the first cell is its name, if it has one."""
        lower, upper = self.interval(0.95)
        numbers = (self.estimate, self.sd, lower, upper, self.degrees_of_freedom)
        columns = [np.atleast_1d(quantity) for quantity in (*numbers, self.fraction_missing)]
        rows = [[f"{value:.4g}" for value in row] for row in zip(*columns, strict=True)]
        labelled = is_labelled(self.estimate)
        names = map(str, self.estimate.index) if labelled else self.names or [""] * len(rows)
        header = ["", "estimate", "sd", "2.5 %", "97.5 %", "df", "missing"]
        return [header, *([name, *row] for name, row in zip(names, rows, strict=True))]


@suggests_options
def pool(estimates: Any, variances: Any, complete_degrees_of_freedom: float = np.inf) -> Pooled:
    """Combine the estimates of one analysis on each of m completed tables, by Rubin's rules.

    With the mean q of the estimates, their variance B (divided by m - 1), the mean W of the
    variances and T = W + (1 + 1/m) B, the share of the variance that is due to missing data is
    s = (1 + 1/m) B / T. The degrees of freedom are those of Barnard and Rubin (1999):
    1 / (1/a + 1/b), with a = (m - 1) / s^2 and, of ``nu`` degrees of freedom with complete data,
    b = (nu + 1) / (nu + 3) nu (1 - s). The fraction of missing information is
    (r + 2 / (df + 3)) / (1 + r) with r = s / (1 - s).

    Parameters
    ----------
    estimates : array or DataFrame (m,) or (m x p), or a sequence of m numbers, arrays or Series
        What was estimated on each completed table. Series of pandas, such as the ``params`` of a
        model of statsmodels, and columns of DataFrames are matched by their labels, in the order
        of the first one.
    variances : like ``estimates``
        The squared standard errors of each analysis, at least 0.
    complete_degrees_of_freedom : float, default inf
        Those of the analysis of complete data, such as n - p in a regression.

    Returns
    -------
    Pooled

    Raises
    ------
    DataError
        If there are fewer than two tables, shapes or labels differ, nothing was estimated, a
        number is missing, infinite or, of a variance, negative, or the variance overflows.
    ModelError
        Where ``complete_degrees_of_freedom`` is not above 0.

    References
    ----------
    Rubin, Multiple Imputation for Nonresponse in Surveys (1987), chapter 3. Barnard and Rubin,
    Small-sample degrees of freedom with multiple imputation, Biometrika 86 (1999).

    Examples
    --------
    >>> import mcframe as mc
    >>> mc.pool([1.0, 1.2, 0.9], [0.04, 0.05, 0.04], complete_degrees_of_freedom=98)
    Pooled: 3 completed tables
      estimate         sd      2.5 %     97.5 %         df    missing
     1.033     0.2728     0.4211      1.646      9.505      0.511
    """
    estimates, variances = rows_of(estimates), rows_of(variances)
    first: Any = next(iter(estimates), None) if np.iterable(estimates) else None
    if is_labelled(first):
        estimates = in_order_of(first, estimates, "estimates")
        variances = in_order_of(first, variances, "variances")
    points, squares = checked(estimates, "estimates"), checked(variances, "variances")
    if points.shape != squares.shape:
        raise DataError(
            f"estimates of shape {points.shape} and variances of shape {squares.shape} were given;"
            " one variance for each estimate is needed"
        )
    if len(points) < 2:
        raise DataError(
            f"estimates of {len(points)} completed table were given; two or more are needed, for"
            " what differs between them says how much is missing"
        )
    refuse(squares < 0.0, squares, "variances", "squared standard errors, from 0, are needed")
    complete = complete_degrees_of_freedom
    if not (isinstance(complete, float) and complete == np.inf):
        what, many = "complete_degrees_of_freedom", ", inf where they are many"
        complete = above_zero(complete, what, many)
    m = len(points)
    estimate, within = np.mean(points, axis=0), np.mean(squares, axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        between = (1.0 + 1.0 / m) * np.var(points, axis=0, ddof=1)
        total = within + between
    if not np.all(np.isfinite(total)):
        raise DataError(
            f"estimates up to {np.max(np.abs(points)):g} were given, whose variance overflows;"
            " divide them by a larger unit"
        )
    share = np.divide(between, total, out=np.zeros_like(total), where=total > 0.0)
    with np.errstate(divide="ignore"):
        inverse = np.square(share) / (m - 1)
        if complete < np.inf:
            inverse = inverse + 1.0 / observed_degrees_of_freedom(complete, share)
        freedom = 1.0 / inverse
    missing = share + (1.0 - share) * 2.0 / (freedom + 3.0)
    quantities: list[Any] = [
        scalar(quantity) for quantity in (estimate, np.sqrt(total), freedom, missing)
    ]
    first_class: Any = type(first)
    if is_labelled(first):
        quantities = [first_class(values, index=first.index) for values in quantities]
    return Pooled(quantities[0], quantities[1], quantities[2], quantities[3], m)


def observed_degrees_of_freedom(complete: float, share: Any) -> Any:
    """Degrees of freedom of the observed data: of infinitely many tables (Barnard and Rubin).

    ``share`` is that of the variance which is due to missing data.
    """
    return (complete + 1.0) / (complete + 3.0) * complete * (1.0 - share)


def rows_of(estimates: Any) -> Any:
    """The rows of a DataFrame of pandas, so that columns are matched by their labels."""
    return [row for _, row in estimates.iterrows()] if is_labelled_table(estimates) else estimates


def in_order_of(first: Any, estimates: Any, what: str) -> list[Any]:
    """Estimates of each table in the order of the first one's labels, or a ``DataError``."""
    rows = list(estimates)
    for k, row in enumerate(rows):
        if is_labelled(row):
            other = [
                *first.index.symmetric_difference(row.index),
                *row.index[row.index.duplicated()],
            ]
            if other:
                raise DataError(
                    f"{what}[{k}] and estimates[0] do not both have the label {other[0]!r} once;"
                    " Series are matched by their labels, so each needs the same ones"
                )
            rows[k] = row.reindex(first.index)
    return rows


def checked(numbers: Any, what: str) -> Array:
    """One row of finite numbers for each completed table, or a ``DataError``."""
    try:
        values = floats_of(numbers)
    except (NotANumber, TypeError, ValueError) as error:
        example = f" with {error.value!r}" if isinstance(error, NotANumber) else ""
        raise DataError(
            f"{what} of type {type(numbers).__name__}{example} were given; each completed table"
            " needs a number, a list of numbers or a Series, of the same length in all of"
            " them"
        ) from None
    if values.ndim not in (1, 2):
        remedy = "; of a covariance matrix give the diagonal"
        is_square = values.ndim == 3 and values.shape[1] == values.shape[2]
        raise DataError(
            f"{what} of shape {values.shape} were given; each completed table needs a number or a"
            f" list of numbers{remedy * is_square}"
        )
    if not values.size:
        raise DataError(f"{what} of shape {values.shape} were given; there is nothing to combine")
    refuse(~np.isfinite(values), values, what, "finite numbers are needed")
    return values


def refuse(wrong: Mask, values: Array, what: str, rule: str) -> None:
    """A ``DataError`` that names the first wrong number, and what is needed."""
    for place in np.argwhere(wrong)[:1].tolist():
        raise DataError(f"{what}{place}={float(values[tuple(place)])!r} was given; {rule}")


def scalar(values: Any) -> Any:
    """A Python float of one number, an array as it is."""
    return float(values) if np.ndim(values) == 0 else values
