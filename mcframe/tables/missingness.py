"""Which entries go missing together, and how well other columns predict what is missing."""

import attrs
import numpy as np
import scipy

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.tables.number_tables import first_numbers, standardized
from mcframe.tables.platt_scaling import most_likely

# Another column is hidden together with a held-out entry if its share of missing entries is larger
# in rows that lack the column of that entry, by at least this and ``LEAST_DEVIATIONS`` standard
# errors.
LEAST_EXCESS_MISSING = 0.1


@attrs.frozen(eq=False)
class ComparedShares:
    """The shares of rows with a gap, of each column, in some rows and in others.

    Attributes
    ----------
    counts, other_counts : arrays (number of columns,)
        The rows with a gap.
    n_rows, n_other_rows : int
        Of how many.
    """

    counts: Array
    n_rows: int
    other_counts: Array
    n_other_rows: int

    @property
    def shares(self) -> Array:
        """The shares of the first rows with a gap (number of columns,)."""
        return self.counts / self.n_rows

    @property
    def other_shares(self) -> Array:
        """The shares of the other rows with a gap (number of columns,)."""
        return self.other_counts / self.n_other_rows

    @property
    def differences(self) -> Array:
        """Shares less those of the others."""
        return self.shares - self.other_shares

    @property
    def errors(self) -> Array:
        """The standard errors of the differences where shares are the same."""
        p = (self.counts + self.other_counts) / (self.n_rows + self.n_other_rows)
        return np.sqrt(p * (1.0 - p) * (1.0 / self.n_rows + 1.0 / self.n_other_rows))


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
    probabilities : array (number of columns,)
        For each column the probability with which an entry is hidden where the donor lacks it.
    uniform_draws : array (n,)
        For each row a number drawn from 0 to 1; the row is hidden at columns of larger
        probability.
    """

    missing: Mask
    donors: IntArray
    probabilities: Array
    uniform_draws: Array

    def hidden(self, rows: IntArray) -> Mask:
        """The entries to hide in these rows (len(rows) x number of columns)."""
        hidden: Mask = self.missing[self.donors[rows]] & (
            self.uniform_draws[rows, None] < self.probabilities
        )
        return hidden

    @classmethod
    def of_columns(
        cls, missing: Mask, rng: np.random.Generator, related: Mask | None = None
    ) -> dict[int, "CoMissingness"]:
        """Return that of each column that is missing together with others, by column.

        Where a column and another one are ``related`` (a mask of pairs), an entry of this one is
        hidden wherever the donor lacks it: all of them together would determine each one.
        """
        n, numbers, counts = len(missing), missing.astype(np.float32), missing.sum(axis=0)
        by_column = {}
        # Of all pairs of columns one is expected to differ as far by chance.
        deviations = max(
            LEAST_DEVIATIONS, float(scipy.special.ndtri(1.0 - 1.0 / (counts.size**2 + 1)))
        )
        for column in np.flatnonzero((counts > 0) & (counts < n)):
            n_missing = counts[column]
            n_both_missing = (numbers.T @ numbers[:, column]).astype(np.float64)
            compared = ComparedShares(
                n_both_missing, n_missing, counts - n_both_missing, n - n_missing
            )
            co_missing = compared.differences > np.maximum(
                LEAST_EXCESS_MISSING, deviations * compared.errors
            )
            tied = np.zeros_like(co_missing) if related is None else related[column]
            co_missing[column] = False
            if co_missing.any() or tied.any():
                probabilities = np.zeros(co_missing.size)
                most = compared.shares * (1.0 - compared.other_shares)
                probabilities[co_missing] = compared.differences[co_missing] / most[co_missing]
                probabilities[tied] = 1.0
                donors = rng.choice(np.flatnonzero(missing[:, column]), n)
                by_column[int(column)] = cls(missing, donors, probabilities, rng.random(n))
        return by_column


# Other columns predict which entries are missing if the AUC is at least this, and so many of its
# standard errors above 1/2. A column needs at least so many missing and observed entries.
LEAST_AUC, LEAST_DEVIATIONS, FEWEST_MISSING = 0.55, 4.0, 20

# Folds of held-out rows and entries.
FOLDS = 3
# The ridge, a number of rows, of the regression that predicts which entries are missing.
REGRESSION_RIDGE_ROWS = 10.0

# The weight of an entry is at most this times the mean weight.
LARGEST_ENTRY_WEIGHT = 10.0


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
        cls,
        values: Array,
        column_of_number: IntArray,
        rng: np.random.Generator,
        missing: Mask | None = None,
    ) -> list["Missingness"]:
        """The missingness of each column.

        Parameters
        ----------
        values : array (n x d)
            The table as numbers, NaN where missing.
        column_of_number : array of integers (d,)
            The column that each number belongs to, from 0, in ascending order.
        rng : generator
        missing : mask (n x number of columns), optional
            The entries that are missing; by default those whose first number is NaN.
        """
        if missing is None:
            missing = np.isnan(values[:, first_numbers(column_of_number)])
        counts = np.count_nonzero(missing, axis=0)
        columns = np.flatnonzero(np.minimum(counts, len(missing) - counts) >= FEWEST_MISSING)
        missingness = [cls(None, np.ones(len(missing))) for _ in counts]
        parts = rng.permutation(len(values)) % FOLDS
        scores = scores_of(values, missing, column_of_number, columns, parts)
        for column, score in zip(columns, scores.T, strict=True):
            is_missing, n_missing = missing[:, column], counts[column]
            n_observed = is_missing.size - n_missing
            ranked = scipy.stats.mannwhitneyu(
                score[is_missing], score[~is_missing], method="asymptotic"
            )
            auc = float(ranked.statistic / (n_missing * n_observed))
            deviation = np.sqrt((is_missing.size + 1.0) / (12.0 * n_missing * n_observed))
            weights: Array = np.ones(is_missing.size)
            if auc >= max(LEAST_AUC, 0.5 + LEAST_DEVIATIONS * deviation):
                weights = odds_of_missing(score, is_missing)
            missingness[column] = cls(auc, weights)
        return missingness


def scores_of(
    values: Array,
    missing: Mask,
    column_of_number: IntArray,
    columns: IntArray,
    parts: IntArray,
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
    for k in range(FOLDS):
        fitted = parts != k
        if not fitted.any() or not columns.size:  # of a single row
            break
        centred = design - np.mean(design[fitted], axis=0)
        ridge_predictions = (
            ridge_by_rows if np.count_nonzero(fitted) < column_of_number.size else ridge_by_columns
        )
        responses = missing[np.ix_(fitted, columns)].astype(np.float64)
        scores[~fitted] = ridge_predictions(
            centred[fitted], responses, centred[~fitted], column_of_number, columns
        )
    return scores


def ridge_by_columns(
    design: Array, responses: Array, new_rows: Array, column_of_number: IntArray, columns: IntArray
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
    new_rows : array (n_others x p)
        The rows that are predicted.
    column_of_number : array of integers (p,)
        The column of the table that each column of the design is of.
    columns : array of integers (q,)
        The column of the table that each response is of.

    Returns
    -------
    array (n_others x q)
    """
    inverse = np.linalg.inv(design.T @ design + REGRESSION_RIDGE_ROWS * np.eye(design.shape[1]))
    coefficients = inverse @ (design.T @ responses)
    for q, column in enumerate(columns):
        left_out = np.flatnonzero(column_of_number == column)
        within = np.linalg.solve(inverse[np.ix_(left_out, left_out)], coefficients[left_out, q])
        coefficients[:, q] -= inverse[:, left_out] @ within
    return new_rows @ coefficients


def ridge_by_rows(
    design: Array, responses: Array, new_rows: Array, column_of_number: IntArray, columns: IntArray
) -> Array:
    """Return what ``ridge_by_columns`` does, by an inverse of as many rows as the design has.

    With X the design, T the other rows and ``K = X X' + ridge I`` the predictions by all columns
    are ``T X' K^-1 y``. Without the columns B the products are those less ``T_B X_B'``, and K has
    the inverse ``K^-1 + L (I - X_B' L)^-1 L'`` with ``L = K^-1 X_B``.
    """
    inverse = np.linalg.inv(design @ design.T + REGRESSION_RIDGE_ROWS * np.eye(len(design)))
    images, solutions = inverse @ design, inverse @ responses
    products = new_rows @ design.T
    predictions = products @ solutions
    for q, column in enumerate(columns):
        left_out = np.flatnonzero(column_of_number == column)
        left_out_design, left_out_images = design[:, left_out], images[:, left_out]
        within = np.eye(left_out.size) - left_out_design.T @ left_out_images
        solution = solutions[:, q] + left_out_images @ np.linalg.solve(
            within, left_out_images.T @ responses[:, q]
        )
        predictions[:, q] = products @ solution - new_rows[:, left_out] @ (
            left_out_design.T @ solution
        )
    return predictions


def odds_of_missing(scores: Array, missing: Mask) -> Array:
    """Return the odds of being missing by a logistic curve of the scores, over their mean.

    The mean is that of observed entries; no entry counts more than ``LARGEST_ENTRY_WEIGHT`` times
    that.
    """
    spread = float(np.std(scores))
    design = np.column_stack([np.zeros(scores.size), scores / spread])
    slope, offsets = most_likely(design, missing.astype(np.intp))
    log_odds = slope * design[:, 1] + offsets[1] - offsets[0]
    odds = np.exp(np.minimum(log_odds - np.median(log_odds[~missing]), 50.0))
    capped: Array = np.minimum(odds, LARGEST_ENTRY_WEIGHT * np.mean(odds[~missing]))
    return capped / float(np.mean(capped[~missing]))
