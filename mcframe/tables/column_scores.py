"""How far off predictions were where a column was held out."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.tables.coding import Choice, Coding

__all__ = ["ColumnScores", "constant_answer", "errors_of_constant", "observed"]


@attrs.frozen
class ColumnScores:
    """How far off the predictions of a column were where it was held out.

    Attributes
    ----------
    loss : float
        The mean loss of the held-out entries over the mean loss of the best constant.
    error, error_of_constant : float
        By the coding's measure; of the constant that is the best one for what the fit has seen.
    n_held : int
        How many entries were held out, over all folds.
    auc_of_holes : float or None
        How well the other columns tell which entries are missing: the area under the curve on
        rows that were left out; None where that was not looked at.
    weighted : bool
        Whether held-out entries are weighted by how likely they were to be missing.
    """

    loss: float
    error: float
    error_of_constant: float
    n_held: int
    auc_of_holes: float | None = None
    weighted: bool = False


def errors_of_constant(coding: Coding, left: Array, hidden: Array) -> float:
    """Return the summed errors, on hidden codes, of the best constant of what is left of a column.

    Of the hidden ones where nothing is left; ``left`` may hold NaN.
    """
    if not hidden.size:
        return 0.0
    known = observed(left)
    constant = coding.constant(known if known.size else hidden)
    return float(np.sum(coding.errors(np.full(hidden.size, constant), hidden)))


def constant_answer(coding: Coding, codes: Array, n: int) -> Array:
    """Return the answer of the best constant of observed codes, for n entries."""
    if not isinstance(coding, Choice):
        return np.full(n, np.mean(codes))
    counts = np.bincount(codes.astype(np.intp), minlength=len(coding.places))
    return np.tile(counts / codes.size, (n, 1))


def observed(codes: Array) -> Array:
    """Return the numbers that are not missing."""
    return codes[~np.isnan(codes)]
