"""Which entries go missing together, and how well other columns predict what is missing."""

import attrs
import numpy as np
import scipy

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.tables.coding import most_likely
from mcframe.tables.number_tables import standardized

# Other columns are hidden beside a held-out entry if they are missing that much more often, with
# its column, and by ``DEVIATIONS`` standard errors. So many entries of a column are held out at
# least, and as many as make so much work: entries times the cube of columns.
LEAST_EXCESS, FEWEST_TOGETHER, WORK_TOGETHER = 0.1, 200, 1e10


@attrs.frozen(eq=False)
class CoMissingness:
    """Entries that go missing together with those of a column, beyond chance.

    An entry that is held out is observed, and so may be all that goes missing together with its
    column. To stand for missing entries it is predicted from a row that looks like theirs: what is
    missing of a row that lacks the column is hidden, each entry with such a probability that it
    is hidden or missing as often as where the column is missing.

    Attributes
    ----------
    missing : mask (n x number of columns)
    donors : array of integers (n,)
        For each row one that lacks the column, drawn at random.
    chances : array (number of columns,)
        For each column the probability with which an entry is hidden where the donor lacks it.
    levels : array (n,)
        For each row a number drawn from 0 to 1; its entries are hidden where chances exceed it.
    """

    missing: Mask
    donors: IntArray
    chances: Array
    levels: Array

    def hidden(self, rows: IntArray) -> Mask:
        """The entries to hide in these rows (len(rows) x number of columns)."""
        hidden: Mask = self.missing[self.donors[rows]] & (self.levels[rows, None] < self.chances)
        return hidden

    @classmethod
    def of_columns(cls, missing: Mask, rng: np.random.Generator) -> dict[int, "CoMissingness"]:
        """Return it for all columns that are missing together with others."""
        n, numbers, counts = len(missing), missing.astype(np.float32), missing.sum(axis=0)
        by_column, shares = {}, counts / n
        # One pair of all that are compared is expected to differ as far by chance.
        deviations = max(DEVIATIONS, float(scipy.special.ndtri(1.0 - 1.0 / (counts.size**2 + 1))))
        for column in np.flatnonzero((counts > 0) & (counts < n)):
            n_missing = counts[column]
            n_both_missing = (numbers.T @ numbers[:, column]).astype(np.float64)
            share_if_missing, share_if_observed = (
                n_both_missing / n_missing,
                (counts - n_both_missing) / (n - n_missing),
            )
            sds = np.sqrt(shares * (1.0 - shares) * (1.0 / n_missing + 1.0 / (n - n_missing)))
            co_missing = share_if_missing - share_if_observed > np.maximum(
                LEAST_EXCESS, deviations * sds
            )
            co_missing[column] = False
            if co_missing.any():
                chances = np.zeros(co_missing.size)
                excess = (share_if_missing - share_if_observed)[co_missing]
                chances[co_missing] = (
                    excess / (share_if_missing * (1.0 - share_if_observed))[co_missing]
                )
                donors = rng.choice(np.flatnonzero(missing[:, column]), n)
                by_column[int(column)] = cls(missing, donors, chances, rng.random(n))
        return by_column


# Other columns predict which entries are missing if the AUC is at least this, and so many of its
# standard errors above 1/2. A column needs at least so many missing and observed entries.
LEAST_AUC, DEVIATIONS, FEWEST = 0.55, 4.0, 20

# Folds of rows, and the ridge, in rows, of the regression that predicts missing entries.
FOLDS, RIDGE = 3, 10.0

# No entry counts more than so many times the mean.
MOST_WEIGHT = 10.0


@attrs.frozen(eq=False)
class Missingness:
    """The prediction of which entries of a column are missing by the other columns.

    Attributes
    ----------
    auc : float or None
        The area under the ROC curve of that prediction, on rows that were left out; None where
        there are too few missing or observed entries.
    weights : array (n,)
        The weight of each row in errors at held-out entries, which are to stand for errors at
        missing ones; 1 where the other columns do not predict what is missing.
    """

    auc: float | None
    weights: Array

    @classmethod
    def of_columns(
        cls, values: Array, owners: IntArray, rng: np.random.Generator
    ) -> list["Missingness"]:
        """The missingness of each column.

        Parameters
        ----------
        values : array (n x d)
            The table as numbers, NaN where missing.
        owners : array of integers (d,)
            The column that each number belongs to, from 0, in ascending order.
        """
        missing = np.isnan(values[:, np.searchsorted(owners, np.arange(owners[-1] + 1))])
        counts = np.count_nonzero(missing, axis=0)
        columns = np.flatnonzero(np.minimum(counts, len(missing) - counts) >= FEWEST)
        of_columns = [cls(None, np.ones(len(missing))) for _ in counts]
        scores = scores_of(values, missing, owners, columns, rng)
        for column, score in zip(columns, scores.T, strict=True):
            is_missing, n_missing = missing[:, column], counts[column]
            n_observed = is_missing.size - n_missing
            ranked = scipy.stats.mannwhitneyu(
                score[is_missing], score[~is_missing], method="asymptotic"
            )
            auc = float(ranked.statistic / (n_missing * n_observed))
            deviation = np.sqrt((is_missing.size + 1.0) / (12.0 * n_missing * n_observed))
            weights: Array = np.ones(is_missing.size)
            if auc >= max(LEAST_AUC, 0.5 + DEVIATIONS * deviation):
                weights = odds_of_missing(score, is_missing)
            of_columns[column] = cls(auc, weights)
        return of_columns


def scores_of(
    values: Array, missing: Mask, owners: IntArray, columns: IntArray, rng: np.random.Generator
) -> Array:
    """Return how far rows look like those where a column is missing, by all other columns.

    A ridge regression, fitted on the other folds of rows. The response is the indicator that an
    entry of the column is missing; the design has the numbers of the other columns. Which of these
    are missing plays no part: entries that go missing together are hidden together when they are
    held out, and no observed entry shows the errors of such rows. The result is
    (n x len(columns)).
    """
    design = np.nan_to_num(standardized(values))
    scores = np.zeros((len(missing), columns.size))
    parts = rng.permutation(len(values)) % FOLDS
    for k in range(FOLDS):
        fitted = parts != k
        if not fitted.any() or not columns.size:  # of a single row
            break
        centred = design - np.mean(design[fitted], axis=0)
        ridge_predictions = (
            ridge_by_rows if np.count_nonzero(fitted) < owners.size else ridge_by_columns
        )
        responses = missing[np.ix_(fitted, columns)].astype(np.float64)
        scores[~fitted] = ridge_predictions(
            centred[fitted], responses, centred[~fitted], owners, columns
        )
    return scores


def ridge_by_columns(
    design: Array, responses: Array, others: Array, belongs: IntArray, columns: IntArray
) -> Array:
    """Return ridge predictions of responses, each without its own columns of the design.

    One inverse of as many rows as the design has columns serves all responses: with H that inverse
    of the whole design, and c the coefficients by all columns, those without the columns B are
    ``c - H_B H_BB^-1 c_B``.

    Parameters
    ----------
    design : array (n x p)
        Its columns have the mean 0.
    responses : array (n x q)
    others : array (n_others x p)
        The rows that are predicted.
    belongs : array of integers (p,)
        The column of the table that each column of the design is of.
    columns : array of integers (q,)
        The column of the table that each response is of.

    Returns
    -------
    array (n_others x q)
    """
    inverse = np.linalg.inv(design.T @ design + RIDGE * np.eye(design.shape[1]))
    coefficients = inverse @ (design.T @ responses)
    for q, column in enumerate(columns):
        left_out = np.flatnonzero(belongs == column)
        within = np.linalg.solve(inverse[np.ix_(left_out, left_out)], coefficients[left_out, q])
        coefficients[:, q] -= inverse[:, left_out] @ within
    return others @ coefficients


def ridge_by_rows(
    design: Array, responses: Array, others: Array, belongs: IntArray, columns: IntArray
) -> Array:
    """Return what ``ridge_by_columns`` does, by an inverse of as many rows as the design has.

    With X the design, T the other rows and ``K = X X' + ridge I`` the predictions by all columns
    are ``T X' K^-1 y``. Without the columns B the products are those less ``T_B X_B'``, and K has
    the inverse ``K^-1 + L (I - X_B' L)^-1 L'`` with ``L = K^-1 X_B``.
    """
    inverse = np.linalg.inv(design @ design.T + RIDGE * np.eye(len(design)))
    images, solutions = inverse @ design, inverse @ responses
    products = others @ design.T
    predictions = products @ solutions
    for q, column in enumerate(columns):
        left_out = np.flatnonzero(belongs == column)
        part, image = design[:, left_out], images[:, left_out]
        within = np.eye(left_out.size) - part.T @ image
        solution = solutions[:, q] + image @ np.linalg.solve(within, image.T @ responses[:, q])
        predictions[:, q] = products @ solution - others[:, left_out] @ (part.T @ solution)
    return predictions


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
