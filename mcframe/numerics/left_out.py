"""Predictions of each observed number of a row from the others, as if it had been missing."""

from collections.abc import Iterator

import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.numerics.machine import check_time
from mcframe.numerics.row_mixtures import RowMixture

# Numbers in the arrays of one batch of rows.
BATCH = 2_000_000
# Rows with the same observed numbers are solved as one where there are so many of them.
TOGETHER = 4


def left_out_means(values: Array, noise: float, rows: RowMixture, owners: IntArray) -> Array:
    """Return the conditional mean of each observed number, as if it had been missing (n x d).

    Given the other numbers of its row, but for those of the same owner, such as the indicators of
    a category. With Q the inverse of the covariance of the observed numbers x of a row under a
    component, those of an owner, B, have the mean ``x_B - Q_BB^-1 (Q (x - mean))_B`` and the
    covariance ``Q_BB^-1`` given the others. The components count by their densities of these.
    NaN where a number is missing.

    Parameters
    ----------
    values : array (n x d)
        NaN where missing.
    noise : float
        The variance of the noise that each number has beyond the rows' own distribution.
    rows : RowMixture
    owners : array of integers (d,)
        From 0, in ascending order; numbers of one owner are observed together.
    """
    observed = ~np.isnan(values)
    means = np.zeros((len(rows.means), *values.shape))
    logs = np.zeros(means.shape)
    shared = [np.flatnonzero(owners == k) for k in np.flatnonzero(np.bincount(owners) > 1)]
    noisy = rows.covariances + noise * np.eye(values.shape[1])
    for here, places in groups(observed):
        check_time()
        for c, total in enumerate(noisy):
            inverse = np.linalg.inv(total[places[:, :, None], places[:, None, :]])
            x = values[here[:, None], places]
            away = x - rows.means[c, places]
            weighted = (inverse @ away[:, :, None])[:, :, 0]
            precisions = np.einsum("ijj->ij", inverse)
            density = np.linalg.slogdet(inverse)[1] - np.sum(weighted * away, axis=1)
            cells = here[:, None], places
            means[c][cells] = x - weighted / precisions
            logs[c][cells] = density[:, None] - np.log(precisions) + weighted**2 / precisions
            for block in shared:
                its = np.flatnonzero(observed[here, block[0]])
                if not its.size:
                    continue
                alone = np.zeros(1, dtype=np.intp)
                mine = its if len(inverse) > 1 else alone
                first = np.count_nonzero(places[mine] < block[0], axis=1)
                at = first[:, None] + np.arange(block.size)
                within = inverse[mine[:, None, None], at[:, :, None], at[:, None, :]]
                at = np.broadcast_to(at, (its.size, block.size))
                pulled = weighted[its[:, None], at]
                moved = np.linalg.solve(within, pulled[:, :, None])[:, :, 0]
                others = density[its if len(density) > 1 else alone]
                others = others - np.linalg.slogdet(within)[1] + np.sum(moved * pulled, axis=1)
                cells = here[its][:, None], block
                means[c][cells] = x[its[:, None], at] - moved
                logs[c][cells] = others[:, None]
    logs = 0.5 * logs + rows.log_shares[:, None, None]
    weights = np.exp(logs - np.max(logs, axis=0))
    predicted = np.sum(weights * means, axis=0) / np.sum(weights, axis=0)
    return np.where(observed, predicted, np.nan)


def groups(observed: Mask) -> Iterator[tuple[IntArray, IntArray]]:
    """Rows that are solved together: (b,), and where they are observed.

    The places are (1 x m) of rows that are observed at the same, (b x m) of rows that are observed
    at equally many.
    """
    seen = np.flatnonzero(observed.any(axis=1))
    packed = np.packbits(observed[seen], axis=1)
    _, pattern = np.unique(packed, axis=0, return_inverse=True)
    order = np.argsort(pattern.ravel(), kind="stable")
    sizes = np.bincount(pattern.ravel())
    scattered = [seen[:0]]
    for rows in np.split(seen[order], np.cumsum(sizes)[:-1]):
        if rows.size >= TOGETHER:
            yield rows, np.flatnonzero(observed[rows[0]])[None]
        else:
            scattered.append(rows)
    others = np.concatenate(scattered)
    counts = np.count_nonzero(observed[others], axis=1)
    for m in np.unique(counts):
        alike = others[counts == m]
        size = max(1, BATCH // int(m) ** 2)
        for first in range(0, alike.size, size):
            here = alike[first : first + size]
            yield here, np.nonzero(observed[here])[1].reshape(here.size, int(m))
