"""How far off predictions were where a column was held out."""

import attrs

__all__ = ["ColumnScores"]


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
    """

    loss: float
    error: float
    error_of_constant: float
    n_held: int
