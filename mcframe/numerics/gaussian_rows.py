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
from mcframe.numerics.machine import check_time
from mcframe.numerics.row_mixtures import Incomplete, RowMixture, expectation

__all__ = [
    "Holes",
    "RowDistribution",
    "conditional_means",
    "estimate_rows",
    "left_out_means",
    "log_likelihood",
]

# Numbers in the arrays of one batch of rows.
BATCH = 2_000_000
# Rows with the same missing numbers are solved as one where there are so many of them.
TOGETHER = 4
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
    holes = Holes.of(missing)
    for _ in range(n_steps):
        check_time()
        filled, unknown = conditional_means(values, missing, found, holes)
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


@attrs.frozen(eq=False)
class Holes:
    """Which numbers of which rows are missing, in groups of rows that are solved together.

    Attributes
    ----------
    alike : list of (rows, places)
        Rows with the same missing numbers (b,), and which these are (m,).
    others : list of (rows, places)
        Rows with equally many, and which these are (b x m).
    """

    alike: list[tuple[IntArray, IntArray]]
    others: list[tuple[IntArray, IntArray]]

    @classmethod
    def of(cls, missing: Mask) -> "Holes":
        """The groups of the rows of a mask (n x d)."""
        holed = np.flatnonzero(missing.any(axis=1))
        packed = np.packbits(missing[holed], axis=1)
        _, pattern = np.unique(packed, axis=0, return_inverse=True)
        order = np.argsort(pattern.ravel(), kind="stable")
        sizes = np.bincount(pattern.ravel())
        alike, scattered = [], []
        for rows in np.split(holed[order], np.cumsum(sizes)[:-1]):
            if rows.size >= TOGETHER:
                alike.append((rows, np.flatnonzero(missing[rows[0]])))
            else:
                scattered.append(rows)
        return cls(alike, list(batches(missing, np.concatenate([holed[:0], *scattered]))))

    def groups(self) -> Iterator[tuple[IntArray, IntArray]]:
        """All of them: rows (b,) and places (b x m), (1 x m) where they are the same of all."""
        for here, places in self.alike:
            yield here, places[None]
        yield from self.others


def batches(missing: Mask, rows: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Rows with equally many missing numbers, and which these are, in batches."""
    counts = np.count_nonzero(missing[rows], axis=1)
    for m in np.unique(counts):
        own = rows[counts == m]
        size = max(1, BATCH // int(m) ** 2)
        for first in range(0, own.size, size):
            here = own[first : first + size]
            yield here, np.nonzero(missing[here])[1].reshape(here.size, int(m))


def conditional_means(
    values: Array, missing: Mask, rows: RowDistribution, holes: Holes | None = None
) -> tuple[Array, Array]:
    """Return rows with the conditional mean in the place of what is missing.

    And the sum over rows of the conditional covariance of that (d x d). With P the inverse of the
    covariance of x, the missing numbers of a row have mean ``mean_m - P_mm^-1 P_mo (x_o -
    mean_o)`` and covariance ``P_mm^-1``.
    """
    n_columns = values.shape[1]
    holes = Holes.of(missing) if holes is None else holes
    precision = np.linalg.inv(rows.total)
    filled = np.where(missing, rows.mean, values)
    pulls = (filled - rows.mean) @ precision  # of the observed numbers alone: the others are 0
    unknown = np.zeros((n_columns, n_columns))
    for here, places in holes.alike:
        covariance = np.linalg.inv(precision[np.ix_(places, places)])
        filled[np.ix_(here, places)] -= pulls[np.ix_(here, places)] @ covariance
        unknown[np.ix_(places, places)] += here.size * covariance
    summed = unknown.ravel()
    for here, places in holes.others:
        covariances = np.linalg.inv(precision[places[:, :, None], places[:, None, :]])
        own = pulls[here[:, None], places]
        filled[here[:, None], places] -= np.einsum("ijk,ik->ij", covariances, own)
        cells = places[:, :, None] * n_columns + places[:, None, :]
        summed += np.bincount(cells.ravel(), covariances.ravel(), summed.size)
    return filled, summed.reshape(n_columns, n_columns)


def left_out_means(values: Array, rows: RowDistribution, owners: IntArray) -> Array:
    """Return the conditional mean of each observed number, as if it had been missing (n x d).

    Given the other numbers of its row, but for those of the same owner, such as the indicators of
    a category. With Q the inverse of the covariance of the observed numbers x of a row, those of
    an owner, B, have the mean ``x_B - Q_BB^-1 (Q (x - mean))_B``. NaN where a number is missing.

    Parameters
    ----------
    values : array (n x d)
        NaN where missing.
    owners : array of integers (d,)
        From 0, in ascending order; numbers of one owner are observed together.
    """
    total, observed = rows.total, ~np.isnan(values)
    found = np.full(values.shape, np.nan)
    shared = [np.flatnonzero(owners == k) for k in np.flatnonzero(np.bincount(owners) > 1)]
    for here, places in Holes.of(observed).groups():
        check_time()
        inverse = np.linalg.inv(total[places[:, :, None], places[:, None, :]])
        own = values[here[:, None], places]
        pulls = (inverse @ (own - rows.mean[places])[:, :, None])[:, :, 0]
        found[here[:, None], places] = own - pulls / np.einsum("ijj->ij", inverse)
        for block in shared:
            its = np.flatnonzero(observed[here, block[0]])
            mine = its if len(inverse) > 1 else np.zeros(min(its.size, 1), dtype=np.intp)
            first = np.count_nonzero(places[mine] < block[0], axis=1)
            at = first[:, None] + np.arange(block.size)
            within = inverse[mine[:, None, None], at[:, :, None], at[:, None, :]]
            moved = np.linalg.solve(within, pulls[its[:, None], at][:, :, None])[:, :, 0]
            found[here[its][:, None], block] = own[its[:, None], at] - moved
    return found


def log_likelihood(values: Array, rows: RowDistribution) -> float:
    """Return the log likelihood of the observed numbers (n x d) under a distribution."""
    table = Incomplete.of(values, np.full(rows.mean.size, 1.0 / rows.noise), np.diag(rows.total))
    whole = RowMixture(np.zeros(1), rows.mean[None], rows.covariance[None])
    return float(np.sum(expectation(table, whole).evidence))
