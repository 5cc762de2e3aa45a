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
    Z is on the natural-parameter scale and does not contain biases.

    Parameters
    ----------
    block : str
        Whose columns the equations speak of.
    A : array (m x n_items)
        Coefficients, one row for each equation; a vector is one row. Redundant rows do no
        harm.
    B : array (m x columns of the block)
        What A Z is; a vector is one row. In the exact form some Z must have A Z = B.
    weight : float, optional
        Positive.

    Returns
    -------
    CalibrationPenalty or CalibrationConstraint
        Either has ``residual(Z)``, the distance ``||A Z - B||_F``.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> print(mc.Calibration("x", A=np.full(4, 0.25), B=[1.0, 2.0], weight=3.0).formula())
    3 ‖A Z_x − B‖_F²
    >>> print(mc.Calibration("x", A=np.full(4, 0.25), B=[1.0, 2.0]).formula())
    A Z_x = B
    """
    if weight is None:
        return CalibrationConstraint(block, A, B)
    return CalibrationPenalty(block, A, B, weight)
