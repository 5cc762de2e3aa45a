"""Chains of a sampler judged: R-hat, effective draws, Monte Carlo errors."""

import attrs
import numpy as np
import scipy
from scipy.special import ndtri

from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import TINY
from mcframe.contracts.stored_classes import stored

# Chains agree where R-hat is below this (Vehtari et al. 2021).
LARGEST_R_HAT = 1.01


def effective_sizes(draws: Array) -> Array:
    """Numbers of independent draws whose mean is as exact, of draws (chains x m x N): (N,).

    By autocorrelations within and variances between chains, summed over Geyer's initial monotone
    sequence of pairs (Vehtari, Gelman, Simpson, Carpenter and Buerkner, Bayesian Analysis 2021,
    section 3.2).
    """
    n_chains, m = draws.shape[:2]
    # The sweeps of a number side by side, as transforms of a fast length read them.
    of_numbers = np.ascontiguousarray(np.moveaxis(draws, (0, 1), (-2, -1)))
    deviations = of_numbers - of_numbers.mean(axis=-1, keepdims=True)
    length = scipy.fft.next_fast_len(2 * m, real=True)
    spectrum = np.square(np.abs(scipy.fft.rfft(deviations, length))).mean(axis=-2)
    covariances = np.moveaxis(scipy.fft.irfft(spectrum, length)[..., :m], -1, 0) / m
    within = covariances[0] * m / (m - 1.0)
    between = draws.mean(axis=1).var(axis=0, ddof=1) if n_chains > 1 else 0.0
    total = within * (m - 1.0) / m + between
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = 1.0 - (within - covariances) / total
    correlations[0] = 1.0
    pairs = correlations[: m // 2 * 2].reshape(m // 2, 2, *draws.shape[2:]).sum(axis=1)
    positive = np.cumprod(pairs > 0.0, axis=0, dtype=bool)
    times = 2.0 * np.sum(np.minimum.accumulate(pairs, axis=0) * positive, axis=0) - 1.0
    sizes = n_chains * m / np.maximum(times, 1.0 / np.log10(max(n_chains * m, 10)))
    return np.where(total > 0.0, sizes, n_chains * float(m))


def r_hats(draws: Array) -> Array:
    """Rank-normalised split R-hat of draws (chains x m x N): (N,), 1 where chains agree.

    The larger one of that of the draws and that of their distances from the median (Vehtari et
    al., Bayesian Analysis 2021, section 4).
    """
    half = draws.shape[1] // 2
    halves = np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])
    n_chains, m = halves.shape[:2]
    largest = np.ones(draws.shape[2])
    for numbers in (halves, np.abs(halves - np.median(halves, axis=(0, 1)))):
        flat = np.ascontiguousarray(numbers.reshape(n_chains * m, -1).T)
        ranks = scipy.stats.rankdata(flat, axis=1)  # equal numbers share the mean of theirs
        scores = ndtri((ranks - 0.375) / (n_chains * m + 0.25)).reshape(-1, n_chains, m)
        within = scores.var(axis=2, ddof=1).mean(axis=1)
        between = scores.mean(axis=2).var(axis=1, ddof=1)
        r_hat = np.where(
            np.ptp(flat, axis=1) > 0.0, np.sqrt((m - 1.0) / m + between / within), 1.0
        )
        largest = np.maximum(largest, r_hat)
    return largest


@stored
@attrs.frozen
class SamplerDiagnostics:
    """R-hat, effective draws and Monte Carlo errors of the chains of a sampler.

    Attributes
    ----------
    n_chains, n_sweeps, n_discarded : int
        Chains side by side, the sweeps of each, and how many of the first of these do not count.
    n_draws : int
        The draws that answers are made of, spread over all chains and sweeps.
    r_hat : float
        The largest rank-normalised split R-hat of what is watched; near 1 where chains agree.
    effective_draws : float
        The least number of independent draws of what is watched whose mean is as exact.
    watched : int
        The numbers that are watched: predictors of cells, drawn at random, variances of noise,
        means and variances of columns of Gaussian rows, and parameters of likelihoods.
    acceptance : tuple of float
        The shares of moves of rows, and of columns of factors, that are accepted.
    """

    n_chains: int
    n_sweeps: int
    n_discarded: int
    n_draws: int
    r_hat: float
    effective_draws: float
    watched: int
    acceptance: tuple[float, ...]

    @property
    def monte_carlo_error(self) -> float:
        """The largest standard error of a posterior mean, in posterior standard deviations."""
        return 1.0 / float(np.sqrt(max(self.effective_draws, TINY)))

    @property
    def converged(self) -> bool:
        """True if chains agree: R-hat is below 1.01."""
        return self.r_hat < LARGEST_R_HAT
