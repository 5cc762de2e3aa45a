"""Tests that numbers are uniform, where those of one group depend on each other."""

from functools import lru_cache

import attrs
import numpy as np
from scipy.special import bdtr, bdtrc
from scipy.stats import binom

from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import TINY


@attrs.frozen(eq=False)
class UniformityTest:
    """A test of uniform numbers by their distribution function at the ends of equal bins.

    Attributes
    ----------
    p_value : float
    effective_size : int
        The number of independent uniform numbers whose shares vary as much.
    lower, upper : arrays (bins - 1,)
        The bands that contain the shares up to all ends together with a probability of 95 %.
    """

    p_value: float
    effective_size: int
    lower: Array
    upper: Array


def uniformity(counts: Array) -> UniformityTest:
    """Test that numbers are uniform, given how many of each group lie in bins of equal width.

    The test of Säilynoja, Bürkner and Vehtari (Graphical test for discrete uniformity,
    Statistics and Computing 2022): under uniformity each share up to an end is binomial over the
    number of numbers, and the least two-sided probability over all ends is compared with those of
    simulated numbers. Numbers of one group, such as those of one table, depend on each other. The
    variance of the shares between groups then says how many independent ones count as much
    (Kish, Survey Sampling, 1965).

    Parameters
    ----------
    counts : array (groups x bins)
    """
    bins = counts.shape[1]
    total = float(np.sum(counts))
    size = effective_size(counts)
    if size == 0:
        return UniformityTest(1.0, 0, np.zeros(bins - 1), np.ones(bins - 1))
    ends = np.arange(1, bins) / bins
    shares = np.cumsum(np.sum(counts, axis=0))[:-1] / total
    least = float(np.min(two_sided(np.rint(size * shares), size, ends)))
    simulated = least_probabilities(size, bins)
    as_small = np.count_nonzero(simulated <= least * (1.0 + 1e-9))
    p_value = (1.0 + as_small) / (simulated.size + 1.0)
    critical = float(np.quantile(simulated, 0.05))
    return UniformityTest(
        # A union bound says more than so many simulations where the probability is small.
        float(min(p_value, least * (bins - 1))),
        size,
        binom.ppf(0.5 * critical, size, ends) / size,
        binom.isf(0.5 * critical, size, ends) / size,
    )


def effective_size(counts: Array) -> int:
    """The number of independent numbers whose shares in bins vary as much as those of groups."""
    sizes = np.sum(counts, axis=1)
    counts, sizes = counts[sizes > 0], sizes[sizes > 0]
    total, groups = float(np.sum(sizes)), len(sizes)
    if groups < 2 or np.all(sizes == 1):
        return groups
    below = np.cumsum(counts, axis=1)[:, :-1]
    shares = np.sum(below, axis=0) / total
    residuals = below - sizes[:, None] * shares
    between = np.sum(np.square(residuals), axis=0) / total**2 * groups / (groups - 1.0)
    independent = shares * (1.0 - shares) / total
    ratio = float(np.sum(between) / max(np.sum(independent), TINY))
    return max(round(total / max(ratio, 1.0)), 1)


def share_error(inside: Array, sizes: Array) -> tuple[float, float]:
    """The share of all numbers that are inside, and its standard error by groups.

    Parameters
    ----------
    inside, sizes : arrays (groups,)
        How many numbers of each group are inside, and how many there are.
    """
    total = float(np.sum(sizes))
    if total == 0.0:
        return np.nan, np.nan
    share, groups = float(np.sum(inside)) / total, np.count_nonzero(sizes)
    between = float(np.sum(np.square(inside - sizes * share))) / total**2
    return share, float(np.sqrt(between * groups / max(groups - 1.0, 1.0)))


def two_sided(counts: Array, size: int, probabilities: Array) -> Array:
    """Two-sided probabilities of binomial counts."""
    below = bdtr(counts, size, probabilities)
    above = np.where(counts > 0.0, bdtrc(np.maximum(counts - 1.0, 0.0), size, probabilities), 1.0)
    return np.asarray(np.minimum(2.0 * np.minimum(below, above), 1.0))


@lru_cache(maxsize=256)
def least_probabilities(size: int, bins: int, n_samples: int = 4000) -> Array:
    """The least two-sided probability over all ends, of many samples of uniform numbers."""
    rng, ends = np.random.default_rng(size), np.arange(1, bins) / bins
    samples = rng.multinomial(size, np.full(bins, 1.0 / bins), size=n_samples)
    below = np.cumsum(samples, axis=1)[:, :-1]
    of_counts = two_sided(np.arange(size + 1.0)[:, None], size, ends)
    return np.min(of_counts[below, np.arange(bins - 1)], axis=1)
