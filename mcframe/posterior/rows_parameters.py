"""The prior and the posterior of the means and covariances of Gaussian rows."""

import attrs
import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import digamma, gammaln

from mcframe.contracts.arrays import Array
from mcframe.numerics.row_mixtures import Expectation, RowMixture, root_of

# The numbers of rows that the prior covariance of one Gaussian may count as.
PRIOR_ROWS = np.geomspace(0.1, 3000.0, 60)
# How many rows the prior mean of a component counts as.
MEAN_ROWS = 0.1


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
        Whether ``rows`` is chosen among ``PRIOR_ROWS`` by the evidence lower bound.
    mean_rows : float
        How many rows the mean of a component counts as.
    """

    mean: Array
    covariance: Array
    rows: float
    learned: bool
    mean_rows: float = MEAN_ROWS

    @property
    def degrees(self) -> float:
        """The degrees of freedom of the inverse Wishart distribution."""
        return self.rows + self.mean.size + 1.0

    def m_step(self, moments: Expectation, means: Array) -> "RowsParameters":
        """The distribution of the parameters that maximises the evidence lower bound.

        ``moments`` are the expectations under components with these ``means`` (C x d).
        """
        weights = moments.weights
        counts = self.mean_rows + weights
        shifts = moments.shifts / np.maximum(weights, np.finfo(float).tiny)[:, None]
        away = means + shifts - self.mean
        scatters = moments.scatters - weights[:, None, None] * outer(shifts)
        scatters += (self.mean_rows * weights / counts)[:, None, None] * outer(away)
        scatters = 0.5 * (scatters + scatters.transpose(0, 2, 1))
        prior = self.with_best_rows(weights, scatters) if self.learned else self
        total = float(np.sum(weights))
        return RowsParameters(
            prior,
            weights / total if total > 0.0 else np.full(weights.size, 1.0 / weights.size),
            self.mean + (weights / counts)[:, None] * away,
            counts,
            prior.rows * prior.covariance + scatters,
            prior.degrees + weights,
        )

    def with_best_rows(self, weights: Array, scatters: Array) -> "RowsPrior":
        """The prior whose ``rows`` maximise the evidence of given scatters about the means."""
        d, root = self.mean.size, root_of(self.covariance)
        rows = np.append(PRIOR_ROWS, self.rows)
        degrees = rows + d + 1.0
        total = np.zeros(rows.size)
        for weight, scatter in zip(weights, scatters, strict=True):
            half = solve_triangular(root, scatter, lower=True)
            relative = np.linalg.eigvalsh(solve_triangular(root, half.T, lower=True))
            logs = np.sum(np.log(rows[:, None] + np.maximum(relative, 0.0)), axis=1)
            total += log_gammas(0.5 * (degrees + weight), d) - log_gammas(0.5 * degrees, d)
            total += 0.5 * (degrees * d * np.log(rows) - (degrees + weight) * logs)
        return attrs.evolve(self, rows=float(rows[np.argmax(total)]))


@attrs.frozen(eq=False)
class RowsParameters:
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
        logs = self.digammas + d * np.log(2.0 / self.degrees) - d / self.counts
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

    @property
    def digammas(self) -> Array:
        """``sum_j digamma((degrees + 1 - j) / 2)`` of each component (C,)."""
        halves = 0.5 * (self.degrees[:, None] - np.arange(self.prior.mean.size))
        return np.sum(digamma(halves), axis=1)

    def divergence(self) -> float:
        """The Kullback-Leibler divergence from the prior."""
        prior, d, total = self.prior, self.prior.mean.size, 0.0
        root, digammas = root_of(prior.covariance), self.digammas
        log_prior = log_determinant(root) + d * np.log(prior.rows)
        for c, degrees in enumerate(self.degrees):
            factor = root_of(self.scatters[c])
            log_scatter = log_determinant(factor)
            trace = np.sum(np.square(solve_triangular(factor, root, lower=True)))
            away = solve_triangular(factor, self.means[c] - prior.mean, lower=True)
            more = degrees - prior.degrees
            total += 0.5 * prior.degrees * (log_scatter - log_prior)
            total += float(log_gammas(0.5 * prior.degrees, d) - log_gammas(0.5 * degrees, d))
            total += 0.5 * more * digammas[c] - 0.5 * degrees * (d - prior.rows * trace)
            ratio = prior.mean_rows / self.counts[c]
            total += 0.5 * (d * (ratio - 1.0 - np.log(ratio)))
            total += 0.5 * prior.mean_rows * degrees * float(away @ away)
        return total


def log_gammas(a: Array | float, d: int) -> Array:
    """The logarithm of the multivariate gamma function but for its constant."""
    return np.sum(gammaln(np.asarray(a)[..., None] - 0.5 * np.arange(d)), axis=-1)


def log_determinant(root: Array) -> float:
    """The logarithm of the determinant of a matrix with this Cholesky factor."""
    return 2.0 * float(np.sum(np.log(np.diag(root))))


def outer(vectors: Array) -> Array:
    """v v' of each vector."""
    return vectors[:, :, None] * vectors[:, None, :]
