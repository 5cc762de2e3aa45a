"""A joint Gaussian of the rows of Z, or a mixture of Gaussians, given or to be estimated."""

from collections.abc import Mapping, Set
from functools import cached_property
from typing import Any, Self

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Shape
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.limits import MOST_TREND
from mcframe.contracts.rounding import EPS, RESULT_ROUNDING
from mcframe.contracts.row_groups import RowGroups, checked_times
from mcframe.contracts.row_weights import checked_row_weights
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import PriorOfRows, Prox, Regularizer, RowQuadratic, SmoothTerm
from mcframe.contracts.validators import (
    is_word,
    number,
    positive,
    read_only_matrix,
    refuse_where,
    whole,
)
from mcframe.contracts.wording import wording
from mcframe.numerics.row_squares import RowSquares

# Entries across the diagonal may differ by this share of the product of the standard deviations.
SYMMETRY_TOLERANCE = 1e-8


@stored
@attrs.frozen
class GaussianRows(Regularizer, Prox, SmoothTerm, RowQuadratic, PriorOfRows):
    """``weight / 2 * sum_i (z_i - mean)' covariance^-1 (z_i - mean)`` over the rows z_i of Z.

    Minus the logarithm of a Gaussian density, the same for each row: a prior for the relations
    between columns. Given the covariance the model is convex, and its rows are solved one by one.
    Each missing entry is then regressed on the observed ones of its row, as in the normal model
    of incomplete data (Little and Rubin, Statistical Analysis with Missing Data, 2019, chapter
    11). With Gaussian blocks of ``weight=1`` and ``reduce="sum"`` the variances of the
    likelihoods are those of the noise, and Z is the conditional mean.

    For blocks with ``standardize=True`` mean and covariance are in standard units. Columns need no
    bias, since the mean takes its place.

    With ``groups`` a row is the mean of its group plus a deviation, and both are Gaussian:
    ``z_i = u_g(i) + e_i``, ``u_g ~ N(mean, B)``, ``e_i ~ N(0, W)``, the normal model of two levels
    (Schafer and Yucel, JCGS 2002). The covariances B between groups and W within them are
    estimated, and means of groups of few rows are drawn to the common mean. A step takes about
    ``4 n m^3`` multiplications more.

    With ``trend=1`` (or 2, 3) the mean of a group is a line (or a polynomial of that degree) in
    ``times``, each group with coefficients of its own: ``u_i = sum_a f_a(t_i) c_ga`` with
    ``c_g ~ N(mean, B)`` and polynomials f that are orthonormal over the rows (random effects of
    time: Laird and Ware, Biometrics 1982). B then has ``(trend + 1) d`` rows, and a step takes
    about ``4 G (trend + 1)^3 d^3`` multiplications more for G groups.

    With ``row_weights``, such as those of a survey, each row counts in proportion to its weight
    where mean and covariance are estimated: these are then those of the population, also where
    rows of some kinds are in the table more often than in the population. The estimate maximises
    a weighted log likelihood (Pfeffermann, International Statistical Review 61, 1993), in which
    all rows together count as ``(sum w)^2 / sum w^2`` rows (Kish, Survey Sampling, 1965). Each row
    is filled from its own numbers, whatever its weight.

    Without a covariance, mean and covariance are estimated from the rows, and with ``components``
    those of a mixture of Gaussians. ``mc.posterior`` does this; ``mc.fit`` needs a covariance,
    since otherwise the problem is not convex. A step over n rows of d columns, m of them missing,
    takes about ``n m^3 / 2 + 6 d^3`` multiplications and some ``d x d`` matrices. With one
    component, more than 128 columns and ``n^3`` up to ``4 d^2`` it takes about ``n^3 m`` and
    arrays of ``n x d``: then missing numbers of a row are approximated as independent of each
    other, given the covariance.

    Parameters
    ----------
    covariance : array (d x d), optional
        Symmetric and positive definite; d counts the columns of Z of all blocks, side by side,
        K of them for each column of K classes. None declares that it is estimated, with the mean.
    mean : array (d,), optional
        The mean of the rows, if a covariance is given; 0 by default.
    weight : float, default 1.0
        Positive; only with a covariance.
    components : int or "auto", default 1
        The number of estimated Gaussians that are mixed; "auto" chooses it. Of more than 128
        columns with n^3 up to 4 d^2 it chooses one, since rows are too few for several.
    prior_rows : float, optional
        The number of rows that the prior of an estimated covariance counts as. Under this prior
        columns are independent; the prior of several components is the estimate of one. By
        default the most probable number r, with the prior ``(n / (n + r))^2`` on the scale of its
        logarithm for a table of n rows.
    variables : sequence with a label for each column, optional
        The variable of each column of Z: a label of its own for each, but one for all indicators
        of a category. The prior then expects less than the variance of a column that follows from
        the others, so that it is not drawn away from what these say: shares of the variances,
        whose mean is 1, in proportion to the variance given all other columns. They are learned
        under a prior that counts as 3 % of the n rows, or as ``d^2 / n`` rows if that is more
        (compare Huang and Wand, Bayesian Analysis 8, 2013). By default the prior expects the
        variances.
        Without a covariance and groups; more than 128 columns with n^3 up to 4 d^2 have none.
    groups : sequence with a label for each row, optional
        Such as the school of each pupil; at least 2 groups, which may have one row each. Only with
        one component, and without a covariance.
    times : sequence with a number for each row, optional
        Finite, in any unit; beside ``groups`` and ``trend``.
    trend : int from 0 to 3, default 0
        The degree of the polynomials of time.
    row_weights : sequence with a number above 0 for each row, optional
        How many of the population a row stands for; only their ratios matter. Without a
        covariance and groups, for Gaussian blocks, and not under the sampler.

    Raises
    ------
    ModelError
        If the covariance is not symmetric and positive definite, if the mean has another length,
        or if the other arguments do not go with it.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> alike = np.array([[1.0, 0.8], [0.8, 1.0]])
    >>> round(mc.GaussianRows(alike).value(np.array([[1.0, 1.0]])), 6)
    0.555556
    >>> model = mc.Model(
    ...     [mc.Block("x", mc.Gaussian(variance=0.2))],
    ...     [mc.GaussianRows(alike, mean=[10.0, 20.0])],
    ... )
    >>> fit = mc.fit(model, {"x": np.array([[11.0, np.nan], [10.0, 20.0]])})
    >>> print(fit.impute("x").round(3))
    [[11.    20.667]
     [10.    20.   ]]
    """

    # Left out of the hash, which stays a valid one: arrays have none.
    covariance: Array | None = attrs.field(
        default=None, eq=attrs.cmp_using(eq=np.array_equal), hash=False
    )
    mean: Array | None = attrs.field(
        default=None, eq=attrs.cmp_using(eq=np.array_equal), hash=False
    )
    weight: float = attrs.field(default=1.0, validator=positive)
    components: int | str = attrs.field(default=1, kw_only=True)
    prior_rows: float | None = attrs.field(default=None, kw_only=True)
    variables: IntArray | None = attrs.field(
        default=None, eq=attrs.cmp_using(eq=np.array_equal), hash=False, kw_only=True
    )
    groups: Any = attrs.field(default=None, kw_only=True)
    times: Array | None = attrs.field(
        default=None, eq=attrs.cmp_using(eq=np.array_equal), hash=False, kw_only=True
    )
    trend: int = attrs.field(default=0, kw_only=True)
    row_weights: Array | None = attrs.field(
        default=None, eq=attrs.cmp_using(eq=np.array_equal), hash=False, kw_only=True
    )

    def __attrs_post_init__(self) -> None:
        check_components(self.components, self.covariance)
        if self.row_weights is not None:
            weights = checked_row_weights(self.row_weights, "GaussianRows: row_weights")
            object.__setattr__(self, "row_weights", weights)
        if self.variables is not None:
            object.__setattr__(self, "variables", numbered(self.variables))
        for name, what in (
            ("row_weights", "weights say how rows count"),
            ("variables", "variables say what its prior expects"),
        ):
            if getattr(self, name) is not None and not self.estimates_one_covariance:
                other = "a covariance" if self.covariance is not None else "groups"
                raise ModelError(
                    f"GaussianRows: {name} beside {other} was given; {what} where one covariance"
                    " is estimated. Leave out one of the two"
                )
        if self.groups is not None:
            object.__setattr__(self, "groups", RowGroups.of(self.groups))
            check_groups(self.groups, self.components, self.covariance)
        self.move_groups()
        if self.prior_rows is not None:
            rows = number(self.prior_rows, "GaussianRows: prior_rows")
            if not 0.0 < rows < np.inf or self.covariance is not None:
                raise ModelError(
                    f"GaussianRows: prior_rows={self.prior_rows!r} was given; a number above 0 is"
                    " needed, and no covariance beside it, for it is part of its estimate"
                )
        if self.covariance is None:
            for name, is_set in (("mean", self.mean is not None), ("weight", self.weight != 1.0)):
                if is_set:
                    raise ModelError(
                        f"GaussianRows: a {name} without a covariance was given; both are"
                        f" estimated together. Give covariance= as well, or no {name}"
                    )
            return
        covariance = checked_covariance(self.covariance)
        object.__setattr__(self, "covariance", covariance)
        object.__setattr__(self, "mean", checked_mean(self.mean, len(covariance)))

    @property
    def estimates_one_covariance(self) -> bool:
        """True if the covariance of the rows is estimated, without groups."""
        return self.covariance is None and self.groups is None

    def move_groups(self) -> None:
        """Let groups move in time, unless they come with a trend."""
        if self.groups is not None and self.groups.trend is not None:
            object.__setattr__(self, "trend", self.groups.trend.degree)
            return
        check_trend(self.trend, self.times, self.groups)
        if self.trend:
            times = checked_times(self.times, "GaussianRows: times", self.groups.numbers.size)
            times.flags.writeable = False
            object.__setattr__(self, "times", times)
            object.__setattr__(self, "groups", self.groups.moving(times, self.trend))

    @property
    def why_no_optimum(self) -> str | None:  # type: ignore[override]
        """The number of components or the covariance, where they are to be estimated."""
        if self.components != 1:
            mixture = wording().word(self.word, components=self.components)
            return f"{mixture} is a mixture, which is not convex: {self.remedy('one Gaussian')}"
        if self.covariance is None:
            return f"{wording().word(self.word)} has no covariance: {self.remedy('one')}"
        return None

    def remedy(self, needed: str) -> str:
        """A clause on what estimates the rows, and on what an optimum needs of them."""
        verb = wording().either(python="mc.posterior", command="--method posterior")
        call = wording().word(self.word, "covariance")
        return f"{verb} estimates it, and an optimum needs {needed}, such as {call}"

    @property
    def moments(self) -> tuple[Array, Array]:
        """Mean and covariance, or a ``ModelError`` where they are still to be estimated."""
        if self.covariance is None or self.mean is None:
            raise ModelError(self.why_no_optimum)
        return self.mean, self.covariance

    @property
    def gaussian(self) -> tuple[Array, Array] | None:
        """Mean, and covariance over the weight; None where they are estimated."""
        if self.covariance is None:
            return None
        mean, covariance = self.moments
        return mean, covariance / self.weight

    @cached_property
    def squares(self) -> RowSquares:
        """The term as a square of each row: loadings L with L L' = covariance / weight."""
        return RowSquares.of_covariance(*self.moments, self.weight)

    def bound_to(self, shape: Shape, rows: IntArray, columns: IntArray, values: Array) -> Self:
        """The term itself; ``DataError`` where Z has another number of columns or rows."""
        if self.groups is not None and shape[0] != self.groups.numbers.size:
            raise DataError(
                f"GaussianRows: groups has {self.groups.numbers.size} labels; one for each of"
                f" the {shape[0]} rows is needed"
            )
        if self.row_weights is not None and shape[0] != self.row_weights.size:
            raise DataError(
                f"GaussianRows: row_weights has {self.row_weights.size} numbers; one for each of"
                f" the {shape[0]} rows is needed"
            )
        if self.variables is not None and shape[1] != self.variables.size:
            raise DataError(
                f"GaussianRows: variables has {self.variables.size} labels; one for each of the"
                f" {shape[1]} columns of Z is needed, those of all blocks side by side, K for"
                " each column of K classes"
            )
        if self.mean is not None and shape[1] != self.mean.size:
            raise DataError(
                f"GaussianRows: a covariance of {self.mean.size} columns was given;"
                f" {shape[1]} are needed, those of all blocks side by side, K for each column of K"
                " classes"
            )
        return self

    def value(self, latent: Array) -> float:
        """weight / 2 * the sum of the rows' squared Mahalanobis distances from the mean."""
        return self.squares.value(latent)

    def conjugate(self, dual: Array) -> float:
        """<Y, 1 mean'> + ||Y L||_F^2 / (2 weight), with covariance = L L'."""
        seen = self.squares.dual(dual)
        return seen.conjugate() + seen.rounding()

    def rounding(self, latent: Array) -> float:
        """Bound on what rounding of Z and of systems with the Cholesky factor moves the value by.

        It is large where columns are nearly dependent.
        """
        return self.squares.rounding(latent)

    def value_and_gradient(self, latent: Array) -> tuple[float, Array]:
        """The value, and weight (Z - 1 mean') covariance^-1."""
        return self.value(latent), self.squares.gradient(latent)

    @property
    def curvature(self) -> float:
        """weight over the smallest eigenvalue of the covariance, or a bound close above."""
        inverse = self.squares.inverse / self.squares.spreads
        return (1.0 + RESULT_ROUNDING) * float(np.linalg.norm(inverse, 2)) ** 2

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """1 mean' + (Z - 1 mean') (covariance + step weight I)^-1 covariance."""
        mean, covariance = self.moments
        damped = covariance + step * self.weight * np.eye(mean.size)
        spreads = np.sqrt(np.diag(damped))
        solved = np.linalg.solve(correlations(damped), covariance / spreads[:, None])
        rows: Array = mean + ((latent - mean) / spreads) @ solved
        return rows, self.value(rows)

    def in_units(self, unit: float) -> "GaussianRows":
        """``mean / unit`` and ``weight * unit^2``."""
        return attrs.evolve(self, mean=self.moments[0] / unit, weight=self.weight * unit**2)

    def expression(self, cp: Any, latent: Any) -> Any:
        """sum_squares((Z - 1 mean') L^-T) * weight / 2."""
        inverse = (self.squares.inverse / self.squares.spreads).T
        away = latent - np.broadcast_to(self.squares.centre, latent.shape)
        return 0.5 * cp.sum_squares(away @ inverse)

    def formula(self) -> str:
        """weight/2 Σ_i (z_i − m)' C⁻¹ (z_i − m), or minus the log density of what is estimated."""
        if self.covariance is not None:
            return f"{self.weight:g}/2 Σ_i (z_i − m)' C⁻¹ (z_i − m)"
        if self.trend:
            mean = f"Σ_(k=0..{self.trend}) f_k(t_i) c_g(i)k"
            return f"Σ_i −log N(z_i | {mean}, W) + Σ_g −log N(c_g | m, B)"
        if self.groups is not None:
            return "Σ_i −log N(z_i | u_g(i), W) + Σ_g −log N(u_g | m, B)"
        sum_over_rows = "Σ_i −" if self.row_weights is None else "Σ_i −w_i "
        if self.components == 1:
            return f"{sum_over_rows}log N(z_i | m, C)"
        last = "K" if self.components == "auto" else self.components
        return f"{sum_over_rows}log Σ_(k=1..{last}) π_k N(z_i | m_k, C_k)"


def numbered(labels: Any) -> IntArray:
    """Numbers from 0 in the place of labels, one for each column."""
    is_list = not isinstance(labels, str | bytes | Mapping | Set)
    is_list &= getattr(labels, "ndim", 1) == 1
    try:
        variables = [*labels] if is_list else []
        number_of = {label: k for k, label in enumerate(dict.fromkeys(variables))}
    except TypeError:
        variables = []
    if not variables:
        raise ModelError(
            f"GaussianRows: variables is a {type(labels).__name__}; a list is needed, of a label"
            " for each column, such as the names of the columns in their order"
        )
    numbers = np.array([number_of[label] for label in variables])
    numbers.flags.writeable = False
    return numbers


def check_groups(groups: RowGroups, components: object, covariance: object) -> None:
    """Raise a ``ModelError`` where rows cannot have groups."""
    if components != 1 or covariance is not None:
        other = "a covariance" if covariance is not None else f"components={components!r}"
        raise ModelError(
            f"GaussianRows: groups beside {other} was given; the covariances within groups and"
            " between them are estimated, one of each. Leave out one of the two"
        )
    if groups.count < 2:
        raise ModelError(
            "GaussianRows: groups has one label for all rows; at least 2 groups are needed"
        )


def check_trend(trend: object, times: object, groups: RowGroups | None) -> None:
    """Raise a ``ModelError`` where groups cannot move in time."""
    degree = whole(trend, "GaussianRows: trend", least=0, most=MOST_TREND)
    if (degree > 0) != (times is not None) or (degree and groups is None):
        raise ModelError(
            f"GaussianRows: trend={degree} was given with{'out' * (times is None)} times and"
            f" with{'out' * (groups is None)} groups; give all three, or leave out trend and times"
        )


def check_components(components: object, covariance: object) -> None:
    """Raise a ``ModelError`` where there is no such number of components."""
    if not is_word(components, "auto") and (
        not isinstance(components, int | np.integer)
        or isinstance(components, bool)
        or components < 1
    ):
        raise ModelError(
            f"GaussianRows: components={components!r} was given; a whole number from 1 on is"
            ' needed, or "auto"'
        )
    if components != 1 and covariance is not None:
        raise ModelError(
            f"GaussianRows: components={components!r} beside a covariance was given; a covariance"
            " is that of one Gaussian. Leave out the covariance, and a posterior estimates one of"
            " each component"
        )


def correlations(covariance: Array) -> Array:
    """The covariance in units of the standard deviations."""
    spreads = np.sqrt(np.diag(covariance))
    return covariance / spreads / spreads[:, None]


def checked_covariance(covariance: object) -> Array:
    """A symmetric positive definite matrix, read-only, or a ``ModelError``.

    Judged by its correlations, so that the scales of columns do not matter.
    """
    what = "GaussianRows: covariance"
    matrix = read_only_matrix(covariance, what)
    if matrix.shape[0] != matrix.shape[1]:
        raise ModelError(f"{what} of shape {matrix.shape} was given; a square matrix is needed")
    refuse_where(~np.isfinite(matrix), matrix, what)
    variances = np.diag(matrix)
    if np.any(variances <= 0.0):
        k = int(np.argmax(variances <= 0.0))
        raise ModelError(
            f"{what}[{k}, {k}]={variances[k]:g} was given; variances above 0 are needed. Leave a"
            " column without spread out of the model"
        )
    scaled = correlations(matrix)
    asymmetries = np.abs(scaled - scaled.T)
    if np.max(asymmetries) > SYMMETRY_TOLERANCE:
        i, j = (int(k) for k in np.argwhere(asymmetries == np.max(asymmetries))[0])
        raise ModelError(
            f"{what}[{i}, {j}]={matrix[i, j]:g} and [{j}, {i}]={matrix[j, i]:g} were given; a"
            " symmetric matrix is needed"
        )
    smallest = float(np.linalg.eigvalsh(0.5 * (scaled + scaled.T))[0])
    if smallest <= 4.0 * len(scaled) * EPS:
        raise ModelError(
            f"{what} is not positive definite: the smallest eigenvalue of its correlations is"
            f" {smallest:.3g}. Add to its diagonal, such as covariance + 1e-6 *"
            " np.diag(np.diag(covariance)), or leave out columns that are sums of others"
        )
    matrix = 0.5 * (matrix + matrix.T)
    matrix.flags.writeable = False
    return matrix


def checked_mean(mean: object, size: int) -> Array:
    """A vector of so many numbers, read-only, 0 for None, or a ``ModelError``."""
    what = "GaussianRows: mean"
    matrix = read_only_matrix(np.zeros(size) if mean is None else mean, what)
    if matrix.shape != (1, size):
        raise ModelError(
            f"{what} of {matrix.size} numbers was given; {size} numbers are needed, one for each"
            " column of the covariance"
        )
    wrong = np.flatnonzero(~np.isfinite(matrix[0]))
    if wrong.size:
        k = int(wrong[0])
        raise ModelError(f"{what}[{k}]={matrix[0, k]} was given; finite numbers are needed")
    return matrix[0]
