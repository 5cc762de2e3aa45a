"""Draws of numbers that are known to limits: Gibbs steps with truncated normal distributions."""

import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.posterior.row_limits import RowLimits
from mcframe.posterior.row_variances import NOISE_SHARE
from mcframe.posterior.rows import RowsPosterior
from mcframe.posterior.truncation import TruncatedMixture

# Sweeps over the numbers of a row, if it has several with limits. The first ones are drawn each by
# itself.
SWEEPS = 10


def drawn_within_limits(
    posterior: RowsPosterior, values: Array, precisions: Array, rng: np.random.Generator
) -> Array:
    """Values (n x d) with a joint draw of those that have limits.

    A number is drawn from its mixture of normal distributions between its limits given what is
    observed of its row and the draws of its others, in turn; all else that is missing is
    integrated over (Geweke, Efficient simulation from the multivariate normal and Student-t
    distributions subject to linear constraints, 1991).

    Parameters
    ----------
    posterior : RowsPosterior
        Of these rows, with their limits.
    values, precisions : arrays (n x d) and (d,)
        NaN where missing.
    """
    limits = posterior.limits
    assert limits is not None  # or nothing would be asked
    drawn = values.copy()
    drawn[limits.rows, limits.columns] = quantiles_between(limits, *posterior.at_limits, rng)
    several = np.flatnonzero(np.bincount(limits.rows, minlength=len(values)) > 1)
    if not several.size:
        return drawn
    chosen = limits.take(several)
    rows, among = drawn[several], posterior.take(several)
    for _ in range(SWEEPS):
        for column in np.unique(chosen.columns):
            of_column = np.flatnonzero(chosen.columns == column)
            places: IntArray = chosen.rows[of_column]
            others = rows[places]
            others[:, column] = np.nan
            rest = among.take(places).with_numbers(others, precisions)
            cells = np.arange(places.size), np.full(places.size, column)
            some = chosen.chosen(of_column)
            assert some is not None
            rows[places, column] = quantiles_between(some, *rest.mixture(*cells), rng)
    drawn[several] = rows
    return drawn


def quantiles_between(
    limits: RowLimits, weights: Array, means: Array, variances: Array, rng: np.random.Generator
) -> Array:
    """A draw of each number with limits from mixtures of z (C x K)."""
    sds = np.sqrt(variances + NOISE_SHARE)
    mixture = TruncatedMixture(weights, means, sds, limits.lower, limits.upper)
    return mixture.quantile(rng.random(limits.lower.size))
