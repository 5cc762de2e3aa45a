"""Prediction of the missing entries of a column from the other columns, and weights from it."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.tables.as_numbers import most_likely
from mcframe.tables.rows_choice import standard_units

__all__ = ["Missingness"]

# Holes are told from other columns where the AUC is at least this, and by so many of its standard
# errors above 1/2; a column has at least so many holes and observed entries.
LEAST_AUC, DEVIATIONS, FEWEST = 0.55, 4.0, 20
# Folds of rows, and the ridge, in rows, of the regression by which holes are told.
FOLDS, RIDGE = 3, 10.0
# No entry counts more than so many times the mean.
MOST_WEIGHT = 10.0


@attrs.frozen(eq=False)
class Missingness:
    """The predictability of the missing entries of a column by the other columns.

    Attributes
    ----------
    auc : float or None
        Of telling holes from observed entries, on rows that were left out; None where there are
        too few of either.
    weights : array (n,)
        What each row counts when errors at held-out entries are to be those of holes: 1 where
        other columns do not tell.
    """

    auc: float | None
    weights: Array

    @property
    def is_told(self) -> bool:
        """True if held-out entries are weighted."""
        return bool(np.ptp(self.weights) > 0.0)

    @classmethod
    def of_columns(
        cls, values: Array, owners: IntArray, rng: np.random.Generator
    ) -> list["Missingness"]:
        """What the other columns tell of each column.

        Parameters
        ----------
        values : array (n x d)
            The table as numbers, NaN where missing.
        owners : array of integers (d,)
            Which column each number belongs to, from 0, in ascending order.
        """
        missing = np.isnan(values[:, np.searchsorted(owners, np.arange(owners[-1] + 1))])
        found = []
        for own, scores in zip(missing.T, scores_of(values, missing, owners, rng).T, strict=True):
            n_missing, n_observed = np.count_nonzero(own), np.count_nonzero(~own)
            auc: float | None = None
            weights: Array = np.ones(len(own))
            if min(n_missing, n_observed) >= FEWEST:
                auc = area_under_the_curve(own, scores)
                deviation = np.sqrt((own.size + 1.0) / (12.0 * n_missing * n_observed))
                if auc >= max(LEAST_AUC, 0.5 + DEVIATIONS * deviation):
                    weights = odds_of_missing(scores, own)
            found.append(cls(auc, weights))
        return found


def area_under_the_curve(labels: Mask, scores: Array) -> float:
    """Return the area under the ROC curve of scores of labels.

    Equal scores count half: from the mean ranks of the scores (Mann and Whitney, 1947).
    """
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - 0.5 * (counts - 1.0))[place]
    n_true = np.count_nonzero(labels)
    above = float(np.sum(ranks[labels])) - 0.5 * n_true * (n_true + 1.0)
    return above / (n_true * (labels.size - n_true))


def scores_of(values: Array, missing: Mask, owners: IntArray, rng: np.random.Generator) -> Array:
    """Return how far rows look like those where a column is missing, by all other columns.

    A ridge regression of the indicator of holes on the numbers of the others and on their holes,
    fitted on the other folds of rows (n x number of columns of the table). One inverse serves all
    columns: with H that of the whole design the coefficients without its columns B are
    ``c - H_B H_BB^-1 c_B`` of the coefficients c with them.
    """
    standard = standard_units(values).standard(values, np.arange(values.shape[1]))
    holed = np.flatnonzero(missing.any(axis=0))
    design = np.hstack([np.nan_to_num(standard), missing[:, holed]])
    belongs = np.concatenate([owners, holed])
    found = np.zeros(missing.shape)
    parts = rng.permutation(len(values)) % FOLDS
    for k in range(FOLDS):
        fitted = parts != k
        centre = np.mean(design[fitted], axis=0)
        centred = design[fitted] - centre
        inverse = np.linalg.inv(centred.T @ centred + RIDGE * np.eye(centred.shape[1]))
        coefficients = inverse @ (centred.T @ missing[fitted])
        for j in holed:
            own = np.flatnonzero(belongs == j)
            within = np.linalg.solve(inverse[np.ix_(own, own)], coefficients[own, j])
            coefficients[:, j] -= inverse[:, own] @ within
        found[~fitted] = (design[~fitted] - centre) @ coefficients
    return found


def odds_of_missing(scores: Array, missing: Mask) -> Array:
    """Return the odds of being missing by a logistic curve of the scores, over their mean.

    The mean is that of observed entries; no entry counts more than ``MOST_WEIGHT`` times that.
    """
    spread = float(np.std(scores))
    both = np.column_stack([np.zeros(scores.size), scores / spread])
    slope, offsets = most_likely(both, missing.astype(np.intp))
    logs = slope * both[:, 1] + offsets[1] - offsets[0]
    odds = np.exp(np.minimum(logs - np.median(logs[~missing]), 50.0))
    capped: Array = np.minimum(odds, MOST_WEIGHT * np.mean(odds[~missing]))
    return capped / float(np.mean(capped[~missing]))
