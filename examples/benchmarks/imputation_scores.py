"""How far filled entries are from the hidden ones, beside the best constant of each column."""

import numpy as np
from mixed_tables import CATEGORY, NUMBER, ORDINAL

__all__ = ["column_scores", "score"]


def column_scores(whole, given, filled):
    """For each column with hidden entries: its kind, its error, and the error of the constant.

    Numbers: the root mean square error, beside that of the mean of what is observed. Categories:
    the share wrong, beside the mode. Levels: how many they are off on average, beside the median.

    Parameters
    ----------
    whole, given : Coded
        The table, and the one that was filled.
    filled : array of codes

    Raises
    ------
    ValueError
        It names a column where a hole was left.
    """
    found = []
    hidden = np.isnan(given.codes) & ~np.isnan(whole.codes)
    for place, column in enumerate(whole.columns):
        at = hidden[:, place]
        if not at.any():
            continue
        truth, answer = whole.codes[at, place], filled[at, place]
        if np.isnan(answer).any():
            raise ValueError(f"left holes in column {column.name!r}")
        seen = given.codes[~np.isnan(given.codes[:, place]), place]
        constant = np.full(truth.size, CONSTANTS[column.kind](seen))
        error = ERRORS[column.kind]
        found.append([column.kind, error(answer, truth), error(constant, truth)])
    return found


def score(columns, kinds=(NUMBER, CATEGORY, ORDINAL)):
    """The mean over columns of these kinds of error over that of the constant, None without any.

    Columns whose hidden entries are all what the constant says have no such ratio.
    """
    ratios = [error / constant for kind, error, constant in columns if kind in kinds and constant]
    return float(np.mean(ratios)) if ratios else None


def most_frequent(codes):
    """The mode, the first of several."""
    values, counts = np.unique(codes, return_counts=True)
    return values[np.argmax(counts)]


def middle(codes):
    """The lower median."""
    return np.quantile(codes, 0.5, method="lower")


def root_mean_square(answer, truth):
    """sqrt(mean((answer - truth)^2))."""
    return float(np.sqrt(np.mean((answer - truth) ** 2)))


def share_wrong(answer, truth):
    """How often the two differ."""
    return float(np.mean(answer != truth))


def levels_off(answer, truth):
    """The mean of |answer - truth|."""
    return float(np.mean(np.abs(answer - truth)))


CONSTANTS = {NUMBER: np.mean, CATEGORY: most_frequent, ORDINAL: middle}
ERRORS = {NUMBER: root_mean_square, CATEGORY: share_wrong, ORDINAL: levels_off}
