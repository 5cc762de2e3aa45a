"""Rows of one factor, the other fixed: what Zheng and Hastie's rule asks for."""

import numpy as np

from mcframe.compile import Lines, Program
from mcframe.contracts.arrays import Array
from mcframe.numerics.operators import LowRank

__all__ = ["rows_for"]

# Newton steps at most, and the relative change of the rows that ends them.
MOST_STEPS, SETTLED = 500, 1e-13


def rows_for(program: Program, right: Array, weight: float) -> Array:
    """argmin over U of ``F(U V') + weight / 2 ||U||_F^2`` for smooth F: each row for itself.

    One ridge regression a row for Gaussian losses; else Newton steps, shortened where they do
    not descend, until the rows no longer move. The problem is strongly convex. A row without
    an entry is 0.

    Parameters
    ----------
    program : Program
        Its main term is not looked at.
    right : array (n_columns x k)
        V.
    weight : float
        Positive.
    """
    left: Array = np.zeros((program.shape[0], right.shape[1]))
    for _ in range(MOST_STEPS):
        lines = Lines(program, program.evaluate(LowRank(left, right)))
        fresh = lines.ridge_solutions(right, weight, by_rows=True)
        if not lines.sure:
            fresh = lines.descend(left, fresh, right, weight, by_rows=True)
        moved, left = float(np.linalg.norm(fresh - left)), fresh
        if moved <= SETTLED * float(np.linalg.norm(fresh)):
            break
    return left
