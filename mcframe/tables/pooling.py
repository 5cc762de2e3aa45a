"""Estimates from several completed tables as one, by Rubin's rules."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import attrs
import numpy as np
import scipy

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.data_forms import is_labelled, is_labelled_table
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.showing import card, table_as_html
from mcframe.contracts.validators import (
    NotANumber,
    Options,
    above_zero,
    floats_of,
    listed,
    one_of,
    plain,
    suggest_options,
    suggests_options,
)
from mcframe.tables.joint_tests import JointTest, wald_test

# A scale on which estimates are nearly normal: the way there, the way back, and the derivative.
SCALES: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array], Any]] = {
    "identity": (lambda x: x, lambda x: x, np.ones_like),
    "log": (np.log, np.exp, lambda x: 1.0 / x),
    "logit": (scipy.special.logit, scipy.special.expit, lambda x: 1.0 / (x * (1.0 - x))),
    "fisher_z": (np.arctanh, np.tanh, lambda x: 1.0 / (1.0 - x * x)),
}
# What estimates on each scale are.
DOMAINS = {
    "log": (0.0, np.inf, "above 0"),
    "logit": (0.0, 1.0, "between 0 and 1"),
    "fisher_z": (-1.0, 1.0, "between -1 and 1"),
}
Scale = Literal["identity", "log", "logit", "fisher_z"]


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
    points : array (m,) or (m x p)
        The estimates of each table, on the scale on which they are pooled.
    covariances : array (m x p x p) or None
        Their covariances, where these were given.
    complete_degrees_of_freedom : float
        Those of the analysis of complete data.
    scale : str
        The scale on which they are pooled: that of ``sd``, while ``estimate`` and ``interval`` are
        in the unit of the analysis.
    """

    estimate: Any
    sd: Any
    degrees_of_freedom: Any
    fraction_missing: Any
    n_tables: int
    names: tuple[str, ...] = ()
    points: Array = attrs.field(factory=lambda: np.zeros(0))
    covariances: Array | None = None
    complete_degrees_of_freedom: float = np.inf
    scale: Scale = "identity"

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
        to_scale, to_unit, _ = SCALES[self.scale]
        with np.errstate(over="ignore"):
            ends = [to_unit(to_scale(self.estimate) + sign * half) for sign in (-1.0, 1.0)]
        return scalar(ends[0]), scalar(ends[1])

    def fraction_missing_interval(self, confidence_level: float = 0.95) -> tuple[Any, Any]:
        """Lower and upper ends of confidence intervals of ``fraction_missing``.

        Its log odds are nearly normal with the standard deviation sqrt(2 / m) (Harel, 2007).

        Parameters
        ----------
        confidence_level : float, default 0.95
        """
        level = Options.confidence_level(confidence_level)
        half = scipy.special.ndtri(0.5 + 0.5 * level) * math.sqrt(2.0 / self.n_tables)
        with np.errstate(divide="ignore"):
            odds = scipy.special.logit(self.fraction_missing)
        ends = [scipy.special.expit(odds + sign * half) for sign in (-1.0, 1.0)]
        if is_labelled(self.fraction_missing):
            labelled: Any = type(self.fraction_missing)
            ends = [labelled(end, index=self.fraction_missing.index) for end in ends]
        return scalar(ends[0]), scalar(ends[1])

    def tables_needed(self, cv: float = 0.05, confidence_level: float = 0.95) -> int:
        """The number of tables after which another set of draws gives nearly the same ``sd``.

        The second stage of von Hippel's rule: ``1 + (f / cv)^2 / 2`` tables, with the upper end f
        of the confidence interval of the fraction of missing information, of all estimates the
        largest. Draw some 20 tables first, and draw again where more are needed.

        Parameters
        ----------
        cv : float, default 0.05
            The standard deviation of ``sd`` from one set of draws to another, over ``sd``.
        confidence_level : float, default 0.95
            Of the interval of ``fraction_missing``.

        References
        ----------
        von Hippel, How many imputations do you need? A two-stage calculation using a quadratic
        rule, Sociological Methods & Research 49 (2020).

        Examples
        --------
        >>> import mcframe as mc
        >>> mc.pool([1.0, 1.2, 0.9, 1.1, 1.0] * 4, [0.04] * 20).tables_needed()
        26
        """
        share = above_zero(cv, "cv", "")
        most = float(np.max(self.fraction_missing_interval(confidence_level)[1]))
        return max(2, math.ceil(1.0 + 0.5 * (most / share) ** 2))

    def linear(self, weights: Any, names: Sequence[str] = ()) -> "Pooled":
        """Linear combinations of the estimates, such as predictions, contrasts, marginal means.

        Parameters
        ----------
        weights : array (p,) or (k x p)
        names : sequence of k str, optional

        Returns
        -------
        Pooled
            Of the k combinations, pooled anew.

        Raises
        ------
        ModelError
            If covariance matrices were not given to ``mc.pool``, or estimates are pooled on
            another scale.
        DataError
            If there are not p weights.

        Examples
        --------
        The mean of y at x = 2 by a regression on x.

        >>> import mcframe as mc
        >>> covariance = [[0.04, -0.01], [-0.01, 0.02]]
        >>> pooled = mc.pool([[1.0, 0.5], [1.1, 0.4], [0.9, 0.6]], [covariance] * 3)
        >>> print(f"{pooled.linear([1.0, 2.0]).estimate:.1f}")
        2.0
        """
        covariances = self.checked_covariances("linear")
        matrix = floats_of(weights)
        if matrix.ndim not in (1, 2) or matrix.shape[-1] != covariances.shape[-1]:
            raise DataError(
                f"weights of shape {matrix.shape} were given; one for each of the"
                f" {covariances.shape[-1]} estimates is needed"
            )
        points = self.points @ matrix.T
        if matrix.ndim == 1:
            squares = np.einsum("p,mpq,q->m", matrix, covariances, matrix)
            return pool(points, squares, self.complete_degrees_of_freedom)
        pooled = pool(points, matrix @ covariances @ matrix.T, self.complete_degrees_of_freedom)
        return attrs.evolve(pooled, names=tuple(names))

    def wald(self, names: Sequence[str] | None = None) -> JointTest:
        """Test that some estimates are all 0: Wald's test of multiple imputation, D1.

        Parameters
        ----------
        names : sequence of str, optional
            What the estimates are called; all of them by default. Categories of a formula have a
            name for each of their indicators, such as ``C(town)[T.b]``.

        Returns
        -------
        JointTest

        Raises
        ------
        ModelError
            If covariance matrices were not given to ``mc.pool``, or no estimate has that name.
        DataError
            If the mean of the covariance matrices is singular.

        References
        ----------
        Li, Raghunathan and Rubin, Large-sample significance levels from multiply imputed data,
        Journal of the American Statistical Association 86 (1991). Reiter, Small-sample degrees of
        freedom for multi-component significance tests with multiple imputation, Biometrika 94
        (2007).

        Examples
        --------
        >>> import mcframe as mc
        >>> covariance = [[0.04, -0.01], [-0.01, 0.02]]
        >>> mc.pool([[1.0, 0.5], [1.1, 0.4], [0.9, 0.6]], [covariance] * 3).wald()
        D1: F = 20.69 with 2 and 39.42 degrees of freedom, p = 7.186e-07
        """
        covariances = self.checked_covariances("wald")
        places = np.arange(covariances.shape[-1]) if names is None else self.places_of(names)
        chosen = np.ix_(np.arange(len(covariances)), places, places)
        return wald_test(
            self.points[:, places], covariances[chosen], self.complete_degrees_of_freedom
        )

    def places_of(self, names: Sequence[str]) -> IntArray:
        """The places of estimates with these names."""
        labelled = is_labelled(self.estimate)
        labels = [*self.estimate.index] if labelled else [*self.names]
        unknown = [name for name in names if name not in labels]
        if unknown or isinstance(names, str) or not len(names):
            of_known = (
                f"the estimates are {listed(labels)}" if labels else "estimates have no names"
            )
            raise ModelError(f"names={plain(names)!r} was given; {of_known}")
        return np.array([labels.index(name) for name in names])

    def checked_covariances(self, method: str) -> Array:
        """The covariance matrices, or a ``ModelError`` where there are none."""
        if self.covariances is None or self.scale != "identity":
            raise ModelError(
                f"Pooled.{method} needs covariance matrices of the estimates, on their own scale;"
                " pool them with the matrices (m x p x p) in the place of variances"
            )
        return self.covariances

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


suggest_options(Pooled, methods=True)


@suggests_options
def pool(
    estimates: Any,
    variances: Any = None,
    complete_degrees_of_freedom: float | None = None,
    *,
    scale: Scale = "identity",
) -> Pooled:
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
        Without ``variances``: the results of statsmodels, or others with ``params``,
        ``cov_params()`` and ``df_resid``, one for each table.
    variances : like ``estimates``, or (m x p x p), optional
        The squared standard errors of each analysis, at least 0, or covariance matrices, which
        ``Pooled.wald`` and ``Pooled.linear`` need.
    complete_degrees_of_freedom : float, optional
        Those of the analysis of complete data, such as n - p in a regression. By default that of
        the results, or inf.
    scale : "identity", "log", "logit" or "fisher_z", default "identity"
        The scale on which estimates are nearly normal: ``"fisher_z"`` of correlations, ``"log"``
        of ratios and variances, ``"logit"`` of shares. Estimates and variances are given and
        returned in the unit of the analysis; there they are pooled, with variances by the
        derivative of the scale, and intervals come back from there.

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
    one_of(scale, "scale", tuple(SCALES))
    if variances is None:
        estimates, variances, of_results = read_results(estimates)
        if complete_degrees_of_freedom is None:
            complete_degrees_of_freedom = of_results
    complete: float = np.inf
    if complete_degrees_of_freedom is not None:
        complete = complete_degrees_of_freedom
    estimates, variances = rows_of(estimates), rows_of(variances)
    first: Any = next(iter(estimates), None) if np.iterable(estimates) else None
    if is_labelled(first):
        estimates = in_order_of(first, estimates, "estimates")
        variances = in_order_of(first, variances, "variances")
    points = checked(estimates, "estimates", (1, 2))
    squares = checked(variances, "variances", (1, 2, 3))
    covariances = None
    if squares.ndim == 3 and squares.shape == (*points.shape, points.shape[-1]):
        covariances, squares = squares, np.einsum("mpp->mp", squares)
    if points.shape != squares.shape:
        raise DataError(
            f"estimates of shape {points.shape} and variances of shape {squares.shape} were given;"
            " one variance for each estimate is needed, or a covariance matrix for each table"
        )
    if len(points) < 2:
        raise DataError(
            f"estimates of {len(points)} completed table were given; two or more are needed, for"
            " what differs between them says how much is missing"
        )
    refuse(squares < 0.0, squares, "variances", "squared standard errors, from 0, are needed")
    if not (isinstance(complete, float) and complete == np.inf):
        what, many = "complete_degrees_of_freedom", ", inf where they are many"
        complete = above_zero(complete, what, many)
    to_scale, to_unit, derivative = SCALES[scale]
    if scale in DOMAINS:
        lower, upper, rule = DOMAINS[scale]
        outside = (points <= lower) | (points >= upper)
        refuse(outside, points, "estimates", f"scale={scale!r} needs numbers {rule}")
        squares, points = squares * np.square(derivative(points)), to_scale(points)
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
    quantities = [
        scalar(quantity) for quantity in (to_unit(estimate), np.sqrt(total), freedom, missing)
    ]
    first_class: Any = type(first)
    if is_labelled(first):
        quantities = [first_class(values, index=first.index) for values in quantities]
    return Pooled(
        quantities[0],
        quantities[1],
        quantities[2],
        quantities[3],
        m,
        points=points,
        covariances=covariances,
        complete_degrees_of_freedom=complete,
        scale=scale,
    )


def read_results(results: Any) -> tuple[list[Any], list[Any], float]:
    """Estimates, covariance matrices and degrees of freedom of results such as statsmodels'."""
    if not np.iterable(results) or isinstance(results, str) or is_labelled_table(results):
        results = [results]
    listed_results = list(results)
    for k, result in enumerate(listed_results):
        has_covariance = callable(getattr(result, "cov_params", None))
        if getattr(result, "params", None) is None or not has_covariance:
            is_of_sklearn = getattr(result, "coef_", None) is not None
            coefficients = " (it has coef_, but no standard errors)" * is_of_sklearn
            raise DataError(
                f"no variances were given, and estimates[{k}] of type {type(result).__name__} is"
                f" no result with params and cov_params(){coefficients}; give the"
                " estimates of all tables, and their variances"
            )
    if not listed_results:
        raise DataError("there are no results of analyses; two or more are needed")
    freedom = float(min(getattr(result, "df_resid", np.inf) for result in listed_results))
    covariances = []
    for result in listed_results:
        matrix = result.cov_params()
        labelled = is_labelled(result.params) and is_labelled_table(matrix)
        order = listed_results[0].params.index if labelled else None
        missing = [] if order is None else [name for name in order if name not in matrix.index]
        if order is not None and not missing:  # else the labels are refused with the estimates
            matrix = matrix.reindex(index=order, columns=order)
        covariances.append(np.asarray(matrix))
    return [result.params for result in listed_results], covariances, freedom


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


def checked(numbers: Any, what: str, n_axes: tuple[int, ...]) -> Array:
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
    if values.ndim not in n_axes:
        raise DataError(
            f"{what} of shape {values.shape} were given; each completed table needs a number or a"
            " list of numbers"
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
