"""Tests of several estimates at once on completed tables: D1, D2, D3 and D4."""

from typing import Any

import attrs
import numpy as np
import scipy

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError
from mcframe.contracts.rounding import EPS
from mcframe.contracts.validators import above_zero, floats_of


@attrs.frozen(repr=False)
class JointTest:
    """A test of several estimates at once, pooled over completed tables.

    Attributes
    ----------
    method : str
        "D1", "D2", "D3" or "D4".
    statistic : float
        F.
    degrees_of_freedom : (float, float)
        Of the numerator, how many estimates are tested, and of the denominator.
    p_value : float
        The probability of a larger F where all of them are 0.
    relative_increase : float
        The relative increase of their variances due to missing data, on average.
    """

    method: str
    statistic: float
    degrees_of_freedom: tuple[float, float]
    p_value: float
    relative_increase: float

    @classmethod
    def of(
        cls, method: str, statistic: float, freedom: tuple[float, float], increase: float
    ) -> "JointTest":
        """The test of a statistic, with the p value of the F distribution."""
        k, denominator = freedom
        p = scipy.stats.f.sf(statistic, k, denominator)
        if denominator == np.inf:
            p = scipy.stats.chi2.sf(k * statistic, k)
        return cls(method, statistic, freedom, float(p), increase)

    @classmethod
    def of_likelihood_ratios(
        cls, method: str, of_tables: float, pooled: float, k: int, m: int, complete: float
    ) -> "JointTest":
        """D3 of Meng and Rubin (1992) or D4 of Chan and Meng (2022).

        Parameters
        ----------
        method : "D3" or "D4"
        of_tables : float
            The mean of the statistics ``2 (l_1 - l_0)`` of the tables at their estimates.
        pooled : float
            D3: the mean of these at the means of the estimates. D4: that of all tables as one,
            over m.
        k : int
            How many parameters are tested.
        m : int
        complete : float
            Degrees of freedom of the analysis of complete data.
        """
        increase = max((m + 1.0) / (k * (m - 1.0)) * (of_tables - pooled), 0.0)
        statistic = max(pooled, 0.0) / (k * (1.0 + increase))
        freedom = denominator_freedom(k * (m - 1.0), k, increase, complete)
        return cls.of(method, statistic, (float(k), freedom), increase)

    def __repr__(self) -> str:
        numerator, denominator = self.degrees_of_freedom
        return (
            f"{self.method}: F = {self.statistic:.4g} with {numerator:g} and {denominator:.4g}"
            f" degrees of freedom, p = {self.p_value:.4g}"
        )


def wald_test(points: Array, covariances: Array, complete: float) -> JointTest:
    """D1 of Li, Raghunathan and Rubin (1991): that all k estimates are 0.

    With the mean estimate q, the mean W of the covariances, the covariance B of the estimates and
    ``r = (1 + 1/m) trace(B W^-1) / k``, ``F = q' W^-1 q / (k (1 + r))``.

    Parameters
    ----------
    points : array (m x k)
    covariances : array (m x k x k)
    complete : float
        Degrees of freedom of the analysis of complete data.
    """
    m, k = points.shape
    within, estimate = np.mean(covariances, axis=0), np.mean(points, axis=0)
    spreads = np.sqrt(np.diag(within))
    units = np.where(spreads > 0.0, spreads, 1.0)
    try:
        scaled = within / np.outer(units, units)
        root = np.linalg.cholesky(0.5 * (scaled + scaled.T)) * spreads[:, None]
    except np.linalg.LinAlgError:
        root = np.zeros(within.shape)
    if not np.min(np.diag(root) / units) > np.sqrt(k * EPS):
        raise DataError(
            "the mean of the covariance matrices is singular: some of the estimates are sums of"
            " others; test fewer of them"
        )
    whitened = scipy.linalg.solve_triangular(root, points.T, lower=True)
    increase = (1.0 + 1.0 / m) * float(np.sum(np.var(whitened, axis=1, ddof=1))) / k
    mean = scipy.linalg.solve_triangular(root, estimate, lower=True)
    statistic = float(mean @ mean) / (k * (1.0 + increase))
    freedom = denominator_freedom(k * (m - 1.0), k, increase, complete)
    return JointTest.of("D1", statistic, (float(k), freedom), increase)


def denominator_freedom(t: float, k: int, increase: float, complete: float) -> float:
    """Degrees of freedom of the denominator of D1, D3 and D4.

    ``t = k (m - 1)``. Of large samples ``4 + (t - 4) (1 + (1 - 2 / t) / r)^2`` (Li, Raghunathan
    and Rubin, 1991); with ``complete`` degrees of freedom those of Reiter (2007), whose expansion
    ends where so much is missing that they would be at most 4: then those of the observed data,
    over 1 + r t / (t - 2).
    """
    if increase <= 0.0:
        return complete
    if t <= 4.0:
        freedom = 0.5 * t * (1.0 + 1.0 / k) * (1.0 + 1.0 / increase) ** 2
        return min(freedom, complete)
    if complete == np.inf:
        return 4.0 + (t - 4.0) * (1.0 + (1.0 - 2.0 / t) / increase) ** 2
    a = increase * t / (t - 2.0)
    observed = (complete + 1.0) / (complete + 3.0) * complete
    c1, c2 = observed - 2.0 * (1.0 + a), observed - 4.0 * (1.0 + a)
    if c2 <= 0.0:  # too few rows for the expansion
        return max(min(observed / (1.0 + a), complete), 1.0)
    inner = (
        a**2 * c1 / ((1.0 + a) ** 2 * c2)
        + 8.0 * a**2 * c1 / ((1.0 + a) * c2**2)
        + 4.0 * a**2 / ((1.0 + a) * c2)
        + 4.0 * a**2 / (c2 * c1)
        + 16.0 * a**2 * c1 / c2**3
        + 8.0 * a**2 / c2**2
    )
    return 4.0 + 1.0 / (1.0 / c2 + inner / (t - 4.0))


def pool_chi_square(statistics: Any, degrees_of_freedom: float) -> JointTest:
    """Pool chi-square statistics of one test on each of m completed tables: D2.

    With the statistics w of k degrees of freedom, ``r = (1 + 1/m) var(sqrt(w))``, ``F = (mean(w)
    / k - (m + 1) / (m - 1) r) / (1 + r)`` and ``k^(-3/m) (m - 1) (1 + 1/r)^2`` degrees of freedom
    of the denominator. It knows little of what is missing: take ``Pooled.wald`` where there are
    estimates.

    Parameters
    ----------
    statistics : array (m,)
        At least 0, of two tables or more.
    degrees_of_freedom : float
        k.

    Raises
    ------
    DataError
        If there are fewer than two statistics, or one is missing, infinite or negative.
    ModelError
        If the degrees of freedom are not above 0.

    References
    ----------
    Li, Meng, Raghunathan and Rubin, Significance levels from repeated p-values with
    multiply-imputed data, Statistica Sinica 1 (1991).

    Examples
    --------
    >>> import mcframe as mc
    >>> mc.pool.chi_square([6.1, 7.9, 5.2, 8.8, 6.6], 2)
    D2: F = 3.054 with 2 and 394.5 degrees of freedom, p = 0.04827
    """
    k = above_zero(degrees_of_freedom, "degrees_of_freedom", "")
    values = floats_of(statistics)
    if values.ndim != 1 or values.size < 2 or not np.all(np.isfinite(values) & (values >= 0.0)):
        raise DataError(
            f"statistics={statistics!r} were given; a finite number from 0 of each of two"
            " completed tables or more is needed"
        )
    m = values.size
    increase = (1.0 + 1.0 / m) * float(np.var(np.sqrt(values), ddof=1))
    statistic = (float(np.mean(values)) / k - (m + 1.0) / (m - 1.0) * increase) / (1.0 + increase)
    freedom = np.inf
    if increase > 0.0:
        freedom = k ** (-3.0 / m) * (m - 1.0) * (1.0 + 1.0 / increase) ** 2
    return JointTest.of("D2", max(statistic, 0.0), (k, freedom), increase)
