"""Inverse Wishart distributions of covariances: their normalising terms and divergences.

``S ~ inverse Wishart(scatter, degrees)`` of d x d has the mean ``scatter / (degrees - d - 1)``,
and its inverse the mean ``degrees scatter^-1``.
"""

import numpy as np
from scipy.special import digamma, gammaln

from mcframe.contracts.arrays import Array


def log_gammas(a: Array | float, d: int) -> Array:
    """The logarithm of the multivariate gamma function but for its constant."""
    return np.sum(gammaln(np.asarray(a)[..., None] - 0.5 * np.arange(d)), axis=-1)


def digammas(degrees: Array | float, d: int) -> Array:
    """``sum_j digamma((degrees + 1 - j) / 2)`` over j from 1 to d."""
    return np.sum(digamma(0.5 * (np.asarray(degrees)[..., None] - np.arange(d))), axis=-1)


def divergence(
    d: int,
    degrees: tuple[float, float],
    counts: tuple[float, float],
    log_ratio: float,
    trace: float,
    distance: float,
) -> float:
    """The Kullback-Leibler divergence of a mean and a covariance from their prior.

    ``S ~ inverse Wishart(scatter, degrees)``, ``mean ~ N(m, S / count)``, under both.

    Parameters
    ----------
    d : int
    degrees, counts : (float, float)
        Of the distribution, and of the prior.
    log_ratio : float
        The logarithm of the determinant of the scatter, less that of the prior's.
    trace : float
        Of the prior's scatter times the inverse of the scatter.
    distance : float
        ``away' scatter^-1 away`` of the difference of the means m.
    """
    (posterior_degrees, prior_degrees), ratio = degrees, counts[1] / counts[0]
    total = 0.5 * prior_degrees * log_ratio
    total += float(log_gammas(0.5 * prior_degrees, d) - log_gammas(0.5 * posterior_degrees, d))
    total += 0.5 * (posterior_degrees - prior_degrees) * float(
        digammas(posterior_degrees, d)
    ) - 0.5 * posterior_degrees * (d - trace)
    total += 0.5 * (d * (ratio - 1.0 - np.log(ratio)))
    return float(total + 0.5 * counts[1] * posterior_degrees * distance)
