"""Rows as draws of one Gaussian distribution: its mean and covariance from incomplete rows.

The EM algorithm of Dempster, Laird and Rubin (1977) for incomplete multivariate normal rows, as in
Little and Rubin, Statistical Analysis with Missing Data (3rd edition, 2019), section 11.2. A step
takes the inverse of the covariance, and for a row of m missing numbers a solve of m x m:
d^3 + sum over rows of m^3 multiplications, with d^2 numbers for the covariance.
"""

from collections.abc import Iterator

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.numerics.machine.clock import check_time

__all__ = ["RowDistribution", "conditional_means", "estimate_rows", "multiplications"]

# Numbers in the arrays of one batch of rows.
BATCH = 2_000_000
# A step that changes no mean and no covariance by more than this, in units of the columns' own
# deviations, is the last.
SETTLED = 1e-3


@attrs.frozen(eq=False)
class RowDistribution:
    """``x = mean + s + e`` with s of the ``covariance`` and e of independent noise.

    The noise keeps directions in which nothing varies from having a say without bounds.

    Attributes
    ----------
    mean : array (d,)
    covariance : array (d x d)
        Of what rows have in common, positive definite.
    noise : float
        The variance of e in each column.
    """

    mean: Array
    covariance: Array
    noise: float

    @classmethod
    def standard(cls, n_columns: int, noise: float) -> "RowDistribution":
        """Mean 0 and covariance I: columns in standard units that say nothing of each other."""
        return cls(np.zeros(n_columns), np.eye(n_columns), noise)

    @property
    def total(self) -> Array:
        """The covariance of x: that of s, and the noise."""
        return self.covariance + self.noise * np.eye(self.mean.size)


def estimate_rows(
    values: Array,
    noise: float,
    prior_rows: float,
    n_steps: int,
    start: RowDistribution | None = None,
) -> RowDistribution:
    """Return the distribution that EM finds in ``n_steps`` steps, or earlier where it settles.

    Parameters
    ----------
    values : array (n x d)
        In units in which each column has a deviation of about 1; NaN where missing.
    noise : float
        The variance of the noise, which is given and not estimated: s is given the covariance
        that EM finds of x, so that the noise comes on top, as a ridge does.
    prior_rows : float
        How many rows a prior counts as in which columns are independent and have the variances
        that EM has found for them: the larger, the smaller all correlations.
    n_steps : int
        At least 1.
    start : RowDistribution, optional
        Default: columns that say nothing of each other.
    """
    n_rows, n_columns = values.shape
    found = RowDistribution.standard(n_columns, noise) if start is None else start
    missing = np.isnan(values)
    for _ in range(n_steps):
        check_time()
        filled, unknown = conditional_means(values, missing, found)
        mean = np.mean(filled, axis=0)
        centred = filled - mean
        scatter = centred.T @ centred + unknown
        own = np.diag(scatter) / n_rows
        # A column of equal values varies by its noise alone.
        scatter[np.diag_indices(n_columns)] += prior_rows * np.maximum(own, noise)
        covariance = scatter / (n_rows + prior_rows)
        moved = max(
            float(np.max(np.abs(mean - found.mean), initial=0.0)),
            float(np.max(np.abs(covariance - found.covariance), initial=0.0)),
        )
        found = RowDistribution(mean, covariance, noise)
        if moved < SETTLED:
            break
    return found


def conditional_means(values: Array, missing: Mask, rows: RowDistribution) -> tuple[Array, Array]:
    """Return rows with the conditional mean in the place of what is missing.

    And the sum over rows of the conditional covariance of that (d x d). With P the inverse of the
    covariance of x, the missing numbers of a row have mean ``mean_m - P_mm^-1 P_mo (x_o -
    mean_o)`` and covariance ``P_mm^-1``.
    """
    n_rows, n_columns = values.shape
    precision = np.linalg.inv(rows.total)
    filled = np.where(missing, rows.mean, values)
    pulls = (
        filled - rows.mean
    ) @ precision  # 0 where missing, so that these are P_mo (x_o - mean_o)
    unknown = np.zeros(n_columns * n_columns)
    for here, places in batches(missing):
        inner = precision[places[:, :, None], places[:, None, :]]
        covariances = np.linalg.inv(inner)
        own = np.take_along_axis(pulls[here], places, axis=1)
        moves = np.einsum("ijk,ik->ij", covariances, own)
        filled[here[:, None], places] -= moves
        cells = places[:, :, None] * n_columns + places[:, None, :]
        unknown += np.bincount(cells.ravel(), covariances.ravel(), unknown.size)
    return filled, unknown.reshape(n_columns, n_columns)


def batches(missing: Mask) -> Iterator[tuple[IntArray, IntArray]]:
    """Rows with equally many missing numbers (b,), and which these are (b x m), in batches."""
    counts = np.count_nonzero(missing, axis=1)
    for m in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == m)
        size = max(1, BATCH // int(m) ** 2)
        for first in range(0, rows.size, size):
            here = rows[first : first + size]
            yield here, np.nonzero(missing[here])[1].reshape(here.size, int(m))


def multiplications(missing: Mask) -> float:
    """Return about how many multiplications a step of EM takes."""
    n_rows, n_columns = missing.shape
    counts = np.count_nonzero(missing, axis=1).astype(np.float64)
    return float(2.0 * n_columns**3 + n_rows * n_columns**2 + 2.0 * np.sum(counts**3))
