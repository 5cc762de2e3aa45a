"""One Gaussian of rows that are fewer than their numbers, in arrays of rows x columns.

The prior covariance is diagonal, and that of n filled rows adds n axes to it. What is left are the
covariances of the missing numbers of each row, which would fill a matrix of columns x columns.
They are approximated by independent numbers (a mean field): given the covariance, the means of
missing numbers are the exact ones, and their variances those given all other numbers of the row
(Bishop, Pattern Recognition and Machine Learning, 2006, section 10.1.2). Every step still raises
a lower bound on the evidence. With k = n + 1 axes, a step over n rows of d numbers costs about
``m k^2 n`` multiplications, m the fewer of a row's observed and missing numbers, and holds a few
arrays of n x d numbers.
"""

from functools import cached_property

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.stored_classes import stored
from mcframe.numerics.inverse_wishart import digammas, divergence, log_gammas
from mcframe.numerics.low_rank_rows import LowRankRows
from mcframe.numerics.row_mixtures import IncompleteRows
from mcframe.posterior.rows_parameters import log_prior_of_rows
from mcframe.posterior.variational_em import EMParameters

# Tables of at most so many columns have a full covariance, which is as fast.
FULL_COVARIANCE_COLUMNS = 128


def is_wide(n_rows: int, n_columns: int) -> bool:
    """True if a covariance of so many rows and columns is estimated as a diagonal and axes.

    A step in loadings takes about as long as one with a full covariance where the cube of the
    rows is 4 times the square of the columns.
    """
    return (
        n_columns > FULL_COVARIANCE_COLUMNS and float(n_rows) ** 3 <= 4.0 * float(n_columns) ** 2
    )


@attrs.frozen(eq=False)
class WideMoments:
    """Posterior moments of rows, of independent numbers.

    Attributes
    ----------
    evidence : array (n,)
        The part of the lower bound that each row has.
    means : array (n x d)
    spreads : array (d,)
        The sums of the variances over rows.
    counts : array (n,)
        How often each row counts, in these sums, too.
    """

    evidence: Array
    means: Array
    spreads: Array
    counts: Array


@stored(renamed_fields={"choices": "rows_grid"})
@attrs.frozen(eq=False)
class WidePrior:
    """``S ~ inverse Wishart`` of mean ``diag(variances)``, and ``mean ~ N(mean, S / mean_rows)``.

    Attributes
    ----------
    mean, variances : array (d,)
    rows : float
        How many rows the variances count as: ``rows + d + 1`` degrees of freedom.
    learned : bool
        Whether ``rows`` is chosen among ``rows_grid``, by the evidence lower bound and
        ``log_prior_of_rows``.
    mean_rows : float
        How many rows the mean counts as.
    rows_grid : array
    """

    mean: Array
    variances: Array
    rows: float
    learned: bool
    mean_rows: float
    rows_grid: Array

    @property
    def degrees(self) -> float:
        """The degrees of freedom of the inverse Wishart distribution."""
        return self.rows + self.mean.size + 1.0

    @property
    def without_rows(self) -> "WideParameters":
        """The distribution of the parameters without any rows."""
        no_rows = np.zeros((0, self.mean.size))
        return WideParameters(self, no_rows, np.zeros(self.mean.size), np.zeros(0))

    def m_step(self, moments: WideMoments) -> "WideParameters":
        """The distribution of the parameters that maximises the evidence lower bound."""
        after = WideParameters(self, moments.means, moments.spreads, moments.counts)
        return attrs.evolve(after, prior=self.with_best_rows(after)) if self.learned else after

    def with_best_rows(self, after: "WideParameters") -> "WidePrior":
        """The prior whose ``rows`` are most probable given these scatters."""
        d, n = self.mean.size, after.n_rows
        relative = after.spreads / self.variances
        loadings = after.loadings / np.sqrt(self.variances)[:, None]
        rows = np.append(self.rows_grid, self.rows)
        degrees = rows + d + 1.0
        logs = np.array(
            [LowRankRows(self.mean, r + relative, loadings).log_determinant for r in rows]
        )
        total = log_gammas(0.5 * (degrees + n), d) - log_gammas(0.5 * degrees, d)
        total += 0.5 * (degrees * d * np.log(rows) - (degrees + n) * logs)
        total += log_prior_of_rows(rows, n)
        return attrs.evolve(self, rows=float(rows[np.argmax(total)]))


@stored
@attrs.frozen(eq=False)
class WideParameters(EMParameters[WideMoments]):
    """The distribution of mean and covariance given the moments of the rows.

    ``S ~ inverse Wishart(scatter, degrees)``, ``mean ~ N(m, S / counts)``, where the scatter is
    the diagonal ``rows variances + spreads`` of prior and rows, and ``loadings loadings'``.

    Attributes
    ----------
    prior : WidePrior
    means_of_rows : array (n x d)
        The posterior means of the rows.
    spreads : array (d,)
        The sums of their variances.
    row_weights : array (n,) or None
        How often each row counts; None for once.
    """

    prior: WidePrior
    means_of_rows: Array
    spreads: Array
    row_weights: Array | None = None  # not in files of earlier versions

    @property
    def counts_of_rows(self) -> Array:
        """The weight of each row in sums over rows (n,)."""
        return np.ones(len(self.means_of_rows)) if self.row_weights is None else self.row_weights

    @property
    def n_rows(self) -> float:
        """The number of rows, as often as they count."""
        return float(np.sum(self.counts_of_rows))

    @property
    def counts(self) -> Array:
        """The number of rows that the mean counts as, those of its prior included (1,)."""
        return np.array([self.prior.mean_rows + self.n_rows])

    @property
    def degrees(self) -> Array:
        """The degrees of freedom (1,)."""
        return np.array([self.prior.degrees + self.n_rows])

    @property
    def row_mean(self) -> Array:
        """The mean of the rows (d,)."""
        if not len(self.means_of_rows):
            return self.prior.mean
        return np.asarray(self.counts_of_rows @ self.means_of_rows / self.n_rows)

    @property
    def mean(self) -> Array:
        """m."""
        share = self.n_rows / float(self.counts[0])
        return np.asarray(self.prior.mean + share * (self.row_mean - self.prior.mean))

    @cached_property
    def loadings(self) -> Array:
        """The rows about their mean, and that about the prior's (d x (n + 1))."""
        n, centre = self.n_rows, self.row_mean
        weight = np.sqrt(self.prior.mean_rows * n / float(self.counts[0]))
        about_mean = np.sqrt(self.counts_of_rows)[:, None] * (self.means_of_rows - centre)
        return np.vstack([about_mean, weight * (centre - self.prior.mean)]).T

    def rows_with(self, factor: float, log_share: float = 0.0) -> LowRankRows:
        """Rows with so many times the scatter as covariance."""
        diagonal = factor * (self.prior.rows * self.prior.variances + self.spreads)
        return LowRankRows(self.mean, diagonal, np.sqrt(factor) * self.loadings, log_share)

    @cached_property
    def expected(self) -> LowRankRows:
        """The distribution of rows under which the posterior of z maximises the bound.

        Its covariance is (E S^-1)^-1, and its density is lowered by the uncertainty of the
        parameters.
        """
        d, [degrees], [count] = self.prior.mean.size, self.degrees, self.counts
        log_share = 0.5 * (digammas(degrees, d) + d * np.log(2.0 / degrees) - d / count)
        return self.rows_with(1.0 / float(degrees), float(log_share))

    @property
    def predictive(self) -> LowRankRows:
        """The moments of a new row."""
        d, [degrees], [count] = self.prior.mean.size, self.degrees, self.counts
        return self.rows_with(float((1.0 + 1.0 / count) / (degrees - d - 1.0)))

    def expectation(self, table: IncompleteRows) -> WideMoments:
        """The posterior of the rows, of independent numbers, and their part of the bound.

        The bound is below the evidence by the divergence of independent numbers from the exact
        posterior, whose precision is Q + P with the inverse Q of the expected covariance:
        ``(sum_j log(Q_jj + P_j) - log det(Q + P)) / 2``.
        """
        rows, counts = self.expected, table.counts
        precisions, log_determinant = rows.precisions, rows.log_determinant
        evidence, means = np.empty(len(table.values)), np.empty(table.values.shape)
        spreads = np.zeros(self.spreads.size)
        for i, row in rows.rows_given(table):
            given_others = precisions + row.precisions
            evidence[i] = row.evidence - 0.5 * (
                float(np.sum(np.log(given_others))) - row.log_determinant + log_determinant
            )
            means[i] = row.mean
            spreads += counts[i] / given_others
        evidence = counts * (evidence + table.constants + rows.log_share)
        return WideMoments(evidence, means, spreads, counts)

    def m_step(self, moments: WideMoments) -> "WideParameters":
        """The parameters after a step."""
        return self.prior.m_step(moments)

    def moments(self, table: IncompleteRows) -> tuple[Array, Array]:
        """Mean and variance of z (n x d) on which the evidence lower bound rests."""
        means = self.expectation(table).means
        return means, 1.0 / (self.expected.precisions + table.precisions)

    def extrapolated(self, after: "WideParameters", length: float) -> "WideParameters":
        """``self + length (after - self)``; of sums of variances their logarithms."""
        if length == 1.0 or self.means_of_rows.shape != after.means_of_rows.shape:
            return after
        change = after.means_of_rows - self.means_of_rows
        return attrs.evolve(
            after,
            means_of_rows=self.means_of_rows + length * change,
            spreads=self.spreads * (after.spreads / self.spreads) ** length,
        )

    def divergence(self) -> float:
        """The Kullback-Leibler divergence from the prior, less the log prior of learned rows."""
        prior, scatter, d = self.prior, self.rows_with(1.0), self.prior.mean.size
        log_prior = 0.0
        if prior.learned:
            log_prior = float(log_prior_of_rows(prior.rows, self.n_rows))
        return -log_prior + divergence(
            d,
            (float(self.degrees[0]), prior.degrees),
            (float(self.counts[0]), prior.mean_rows),
            scatter.log_determinant
            - float(np.sum(np.log(prior.variances)))
            - d * np.log(prior.rows),
            prior.rows * float(prior.variances @ scatter.precisions),
            scatter.distance(self.mean - prior.mean),
        )
