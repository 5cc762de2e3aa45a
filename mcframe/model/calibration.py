"""What is known of a block's column sums, averages or contrasts."""

from typing import Any

from mcframe.constraints import CalibrationConstraint
from mcframe.regularizers import CalibrationPenalty

__all__ = ["Calibration"]


def Calibration(  # noqa: N802 -- a word among words, and its answer is one or the other class
    block: str, A: Any, B: Any, weight: float | None = None
) -> CalibrationPenalty | CalibrationConstraint:
    """A term for linear equations ``A Z = B`` in the latent columns of one block.

    With a weight the penalty ``weight * ||A Z - B||_F^2``, else the exact constraint. Rows of
    A are sums over items that are known from elsewhere: with A = (1, ..., 1) / n_items, B holds
    the mean of each column, and a random sample's known totals calibrate the completion.

    Z is the linear predictor without biases, effects of rows and offsets. Its sums are sums of
    means in a block whose likelihood has no link and that has none of these. Of counts they are
    sums of log rates, of labels sums of log odds: totals of counts or numbers of labels are
    something else and must not be given. The fit notes it where that is so.

    Parameters
    ----------
    block : str
        Whose columns the equations speak of.
    A : array (m x n_items)
        Coefficients, one row for each equation; a vector is one row. Redundant rows do no
        harm.
    B : array (m x columns of the block)
        What A Z is; a vector is one row. In the exact form some Z must have A Z = B. NaN says that
        an equation is not known of a column, and asks for nothing; a column of NaN is free.
    weight : float, optional
        Positive.

    Returns
    -------
    CalibrationPenalty or CalibrationConstraint
        Either has ``residual(Z)``, the distance ``||A Z - B||_F`` over the known equations.

    Raises
    ------
    ModelError
        Where A and B have different numbers of rows or entries that are no finite numbers, where
        B is NaN throughout, and in the exact form where no Z has A Z = B.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> print(mc.Calibration("x", A=np.full(4, 0.25), B=[1.0, 2.0], weight=3.0).formula())
    3 ‖A Z_x − B‖_F²
    >>> print(mc.Calibration("x", A=np.full(4, 0.25), B=[1.0, 2.0]).formula())
    A Z_x = B
    >>> print(mc.Calibration("x", A=np.full(4, 0.25), B=[1.0, np.nan]).formula())
    A Z_x = B where B is known
    """
    if weight is None:
        return CalibrationConstraint(block, A, B)
    return CalibrationPenalty(block, A, B, weight)
