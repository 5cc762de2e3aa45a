"""The distribution of means and covariances of Gaussian rows: Gaussian and inverse Wishart."""

import attrs
import numpy as np
from scipy.linalg import solve_triangular

from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import TINY
from mcframe.contracts.stored_classes import stored
from mcframe.numerics.inverse_wishart import digammas, divergence, log_gammas
from mcframe.numerics.row_mixtures import (
    Expectation,
    IncompleteRows,
    RowMixture,
    expectation,
    root_of,
)
from mcframe.posterior.variational_em import EMParameters

# The numbers of rows that the prior covariance of one Gaussian may count as.
PRIOR_ROWS_GRID = np.geomspace(0.1, 3000.0, 60)
# The power of n / (n + r) in the prior density of r, the rows that the prior covariance counts as.
PRIOR_ROWS_EXPONENT = 2.0
# How many rows the prior mean of a component counts as.
MEAN_PRIOR_ROWS = 0.1


def log_prior_of_rows(rows: Array | float, n_rows: Array | float) -> Array:
    """The log prior density of r = ``rows`` on the scale of log r: ``2 log(n / (n + r))``.

    Less a constant, for a table of n rows. So small tables, of which any r above n makes much the
    same, do not take the largest one, which has no correlations.
    """
    return np.asarray(-PRIOR_ROWS_EXPONENT * np.log1p(rows / np.maximum(n_rows, 1.0)))


@stored(formerly=("mcframe.posterior.rows.RowsPrior",))
@attrs.frozen(eq=False)
class RowsPrior:
    """``S_c ~ inverse Wishart`` of mean ``covariance``, and ``mean_c ~ N(mean, S_c / mean_rows)``.

    Attributes
    ----------
    mean : array (d,)
    covariance : array (d x d)
    rows : float
        How many rows the covariance counts as: ``rows + d + 1`` degrees of freedom.
    learned : bool
        Whether ``rows`` is chosen among ``PRIOR_ROWS_GRID``, by the evidence lower bound and
        ``log_prior_of_rows``.
    mean_rows : float
        How many rows the mean of a component counts as.
    shares : array (d,) or None
        The shares of the variances of the columns that a diagonal ``covariance`` has, where these
        are learned; None for 1.
    """

    mean: Array
    covariance: Array
    rows: float
    learned: bool
    mean_rows: float = MEAN_PRIOR_ROWS
    shares: Array | None = None

    def expecting(self, shares: Array | None, variances: Array) -> "RowsPrior":
        """The prior that expects these shares of the variances of columns; None for 1."""
        expected = variances if shares is None else shares * variances
        return attrs.evolve(self, covariance=np.diag(expected), shares=shares)

    @property
    def degrees(self) -> float:
        """The degrees of freedom of the inverse Wishart distribution."""
        return self.rows + self.mean.size + 1.0

    @property
    def without_rows(self) -> "RowsParameters":
        """The distribution of the parameters of one component without any rows."""
        square = np.zeros_like(self.covariance[None])
        no_moments = Expectation(np.zeros(0), np.zeros((0, 1)), np.zeros(1), square[:, 0], square)
        fixed = attrs.evolve(self, learned=False)
        return attrs.evolve(fixed.m_step(no_moments, self.mean[None]), prior=self)

    def m_step(self, moments: Expectation, means: Array) -> "RowsParameters":
        """The distribution of the parameters that maximises the evidence lower bound.

        ``moments`` are the expectations under components with these ``means`` (C x d).
        """
        weights = moments.weights
        counts = self.mean_rows + weights
        shifts = moments.shifts / np.maximum(weights, TINY)[:, None]
        from_prior = means + shifts - self.mean
        scatters = moments.scatters - weights[:, None, None] * outer(shifts)
        scatters += (self.mean_rows * weights / counts)[:, None, None] * outer(from_prior)
        scatters = 0.5 * (scatters + scatters.transpose(0, 2, 1))
        prior = self.with_best_rows(weights, scatters) if self.learned else self
        total = float(np.sum(weights))
        return RowsParameters(
            prior,
            weights / total if total > 0.0 else np.full(weights.size, 1.0 / weights.size),
            self.mean + (weights / counts)[:, None] * from_prior,
            counts,
            prior.rows * prior.covariance + scatters,
            prior.degrees + weights,
        )

    def with_best_rows(self, weights: Array, scatters: Array) -> "RowsPrior":
        """The prior whose ``rows`` are most probable given scatters about the means."""
        rows = np.append(PRIOR_ROWS_GRID, self.rows)
        return attrs.evolve(
            self, rows=float(rows[np.argmax(self.log_probabilities(rows, weights, scatters))])
        )

    def log_probabilities(self, rows: Array, weights: Array, scatters: Array) -> Array:
        """The log probability that the prior counts as these rows, given scatters about the means.

        Less a constant, means and covariances integrated over.

        Parameters
        ----------
        rows : array (R,)
        weights : array (... x C)
            The number of rows of each component.
        scatters : array (... x C x d x d)
            About the means of the components, with what these add by their distance from the
            prior mean.

        Returns
        -------
        array (... x R)
        """
        d, root = self.mean.size, root_of(self.covariance)
        inverse = solve_triangular(root, np.eye(d), lower=True)
        relative = np.linalg.eigvalsh(inverse @ scatters @ inverse.T)[..., None, :]
        log_prior = log_prior_of_rows(rows, np.sum(weights, axis=-1, keepdims=True))
        degrees, weights = rows + d + 1.0, weights[..., None]
        logs = np.sum(np.log(rows[:, None] + np.maximum(relative, 0.0)), axis=-1)
        total = log_gammas(0.5 * (degrees + weights), d) - log_gammas(0.5 * degrees, d)
        total = total + 0.5 * (degrees * d * np.log(rows) - (degrees + weights) * logs)
        return np.asarray(log_prior + np.sum(total, axis=-2))


@stored(formerly=("mcframe.posterior.rows.RowsParameters",))
@attrs.frozen(eq=False)
class RowsParameters(EMParameters[Expectation]):
    """The distribution of shares, means and covariances of the components given the data.

    ``S_c ~ inverse Wishart(scatters[c], degrees[c])``, ``mean_c ~ N(means[c], S_c / counts[c])``.

    Attributes
    ----------
    prior : RowsPrior
    shares : array (C,)
    means : array (C x d)
    counts : array (C,)
    scatters : array (C x d x d)
    degrees : array (C,)
    """

    prior: RowsPrior
    shares: Array
    means: Array
    counts: Array
    scatters: Array
    degrees: Array

    @property
    def expected(self) -> RowMixture:
        """The components under which the posterior of z maximises the evidence lower bound.

        Their covariances are (E S^-1)^-1, and their shares are lowered by the uncertainty of the
        parameters, so that they sum to less than 1.
        """
        d = self.prior.mean.size
        logs = digammas(self.degrees, d) + d * np.log(2.0 / self.degrees) - d / self.counts
        covariances = self.scatters / self.degrees[:, None, None]
        return RowMixture(self.log_shares + 0.5 * logs, self.means, covariances)

    @property
    def predictive(self) -> RowMixture:
        """The moments of a new row in each component."""
        d = self.prior.mean.size
        factors = (1.0 + 1.0 / self.counts) / (self.degrees - d - 1.0)
        return RowMixture(self.log_shares, self.means, factors[:, None, None] * self.scatters)

    @property
    def log_shares(self) -> Array:
        """The logarithms of the shares (C,)."""
        with np.errstate(divide="ignore"):
            return np.log(self.shares)

    def expectation(self, table: IncompleteRows) -> Expectation:
        """The expectations over rows of which the next step follows."""
        return expectation(table, self.expected)

    def m_step(self, moments: Expectation) -> "RowsParameters":
        """The parameters after a step."""
        return self.prior.m_step(moments, self.means)

    def moments(self, table: IncompleteRows) -> tuple[Array, Array]:
        """Mean and variance of z (n x d) on which the evidence lower bound rests."""
        return self.expected.conditionals(table).moments

    def extrapolated(self, after: "RowsParameters", length: float) -> "RowsParameters":
        """``self + length (after - self)``, or ``after`` if those are no parameters."""
        if length == 1.0:
            return after
        names = "shares", "means", "counts", "scatters", "degrees"
        pairs = {name: (getattr(self, name), getattr(after, name)) for name in names}
        candidate = attrs.evolve(after, **{k: a + length * (b - a) for k, (a, b) in pairs.items()})
        numbers = candidate.shares, candidate.counts, candidate.degrees - candidate.prior.degrees
        if min(values.min() for values in numbers) < 0.0:
            return after
        try:
            np.linalg.cholesky(candidate.scatters)
        except np.linalg.LinAlgError:
            return after
        return candidate

    def divergence(self) -> float:
        """The Kullback-Leibler divergence from the prior, less the log prior of learned rows."""
        prior, d, total = self.prior, self.prior.mean.size, 0.0
        if prior.learned:
            n_rows = float(np.sum(self.counts - prior.mean_rows))
            total -= float(log_prior_of_rows(prior.rows, n_rows))
        root = root_of(prior.covariance)
        log_prior = log_determinant(root) + d * np.log(prior.rows)
        for c, degrees in enumerate(self.degrees):
            factor = root_of(self.scatters[c])
            trace = np.sum(np.square(solve_triangular(factor, root, lower=True)))
            deviations = solve_triangular(factor, self.means[c] - prior.mean, lower=True)
            total += divergence(
                d,
                (float(degrees), prior.degrees),
                (float(self.counts[c]), prior.mean_rows),
                log_determinant(factor) - log_prior,
                prior.rows * float(trace),
                float(deviations @ deviations),
            )
        return total


def log_determinant(root: Array) -> float:
    """The logarithm of the determinant of a matrix with this Cholesky factor."""
    return 2.0 * float(np.sum(np.log(np.diag(root))))


def outer(vectors: Array) -> Array:
    """v v' of each vector."""
    return vectors[:, :, None] * vectors[:, None, :]
