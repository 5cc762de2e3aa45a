"""Held-out entries: probabilities that are fitted to them, their errors and their weights."""

from collections.abc import Iterable, Sequence

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.tables.as_numbers import Indicator, calibrated, most_likely
from mcframe.tables.coding import Choice, Coding
from mcframe.tables.rows_choice import standardized

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
    holed = np.flatnonzero(missing.any(axis=0))
    design = np.hstack([np.nan_to_num(standardized(values)), missing[:, holed]])
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


@attrs.frozen
class ColumnScores:
    """Errors of the predictions of a column at its held-out entries.

    Attributes
    ----------
    loss : float
        The mean loss of the held-out entries over the mean loss of the best constant.
    error, error_of_constant : float
        By the coding's measure; of the constant that is the best one for what the fit has seen.
    n_held : int
        How many entries were held out, over all folds.
    auc_of_holes : float or None
        How well the other columns tell which entries are missing: the area under the curve on rows
        that were left out; None where that was not looked at.
    weighted : bool
        Whether held-out entries are weighted by how likely they were to be missing.
    """

    loss: float
    error: float
    error_of_constant: float
    n_held: int
    auc_of_holes: float | None = None
    weighted: bool = False


def errors_of_constant(coding: Coding, left: Array, hidden: Array) -> Array:
    """Return the errors, on hidden codes, of the best constant of what is left of a column.

    Of the hidden ones where nothing is left; ``left`` may hold NaN.
    """
    known = observed(left)
    constant = coding.constant(known if known.size else hidden)
    return coding.errors(np.full(hidden.size, constant), hidden)


def observed(codes: Array) -> Array:
    """Return the numbers that are not missing."""
    return codes[~np.isnan(codes)]


def calibrated_and_scored(
    coding: Coding,
    codes: Array,
    held: Sequence[Mask],
    means: Sequence[Array],
    holes: Missingness,
) -> tuple[Coding, ColumnScores]:
    """Return the coding of a column, fitted to all that was held out of it, and what was lost.

    What is lost of a fold is by a coding that was fitted to the others. Probabilities that lose
    more than those of the constant are the constant's, and values that are farther off than the
    best constant are that one.

    Parameters
    ----------
    codes : array (n,)
    held : sequence of masks (n,)
        Fold by fold.
    means : sequence of arrays (n x width of the coding)
        What each fold predicts.
    holes : Missingness
    """
    folds, known = range(len(held)), observed(codes)

    def fitted(to: Iterable[int]) -> Coding:
        own = [(codes[held[k]], means[k][held[k]]) for k in to]
        return calibrated(coding, *map(np.concatenate, zip(*own, strict=True))) if own else coding

    shares = None
    if isinstance(coding, Choice):
        shares = np.bincount(known.astype(np.intp), minlength=len(coding.places)) / known.size
    sums = np.zeros(4)
    for k in folds:
        hidden = codes[held[k]]
        own = fitted(other for other in folds if other != k)
        answer = own.read(means[k][held[k]])
        constant = np.full(hidden.size, np.mean(known))
        if shares is not None:
            constant = np.tile(shares, (hidden.size, 1))
        lost = (
            own.losses(answer, hidden),
            coding.losses(constant, hidden),
            own.errors(own.predicted(answer), hidden),
            errors_of_constant(coding, np.where(held[k], np.nan, codes), hidden),
        )
        sums += np.array(lost) @ holes.weights[held[k]]
    found = fitted(folds)
    if isinstance(found, Indicator):
        if sums[0] > sums[1]:  # the same probabilities everywhere
            counts = np.bincount(known.astype(np.intp), minlength=len(found.places)) + 0.5
            offsets = tuple(np.log(counts / np.sum(counts)).tolist())
            found = type(found)(found.places, 0.0, offsets)
            sums[0], sums[2] = sums[1], sums[3]
        elif sums[2] > sums[3]:
            found, sums[2] = attrs.evolve(found, fill=found.constant(known)), sums[3]
    weight = sum(float(np.sum(holes.weights[here])) for here in held)
    return found, ColumnScores(
        loss=float(sums[0] / sums[1]) if sums[1] > 0.0 else np.nan,
        error=coding.error(float(sums[2] / weight)),
        error_of_constant=coding.error(float(sums[3] / weight)),
        n_held=sum(int(np.count_nonzero(here)) for here in held),
        auc_of_holes=holes.auc,
        weighted=holes.is_told,
    )
