"""The free offset of each column, solved exactly at a given Z."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import Likelihood, TwiceDifferentiable

__all__ = ["Solved", "best_bias"]

# A column is solved when its slopes sum to this fraction of what they could sum to.
PRECISION = 1e-15
MAX_STEPS = 200


@attrs.frozen(eq=False)
class Solved:
    """The offsets b (n_columns), and the losses and slopes there, entry by entry."""

    bias: Array
    values: Array
    slopes: Array


def best_bias(
    likelihood: Likelihood,
    z: Array,
    y: Array,
    columns: IntArray,
    start: Array,
) -> Solved:
    """argmin over b of sum over entries of l(z + b[column], y): one convex problem a column.

    Newton's method for all columns at once, kept inside the bracket that the signs of the
    slope sums have shown so far. At the answer the slopes of each column sum to 0, which is
    what a certificate with a free bias needs. Where the infimum is not attained (labels all
    alike) b stops where the remaining slope is below rounding; a column without entries
    keeps its start.

    Parameters
    ----------
    z, y, columns : arrays of one length
        Linear predictor without offset, observation and column of each entry.
    start : array (n_columns,)
        Where the iteration begins; close to the answer it needs two or three passes.
    """
    if not isinstance(likelihood, TwiceDifferentiable):
        raise TypeError(f"{type(likelihood).__name__} has no second derivative")
    n_columns = start.size
    bias = start.copy()
    below = np.full(n_columns, -np.inf)
    above = np.full(n_columns, np.inf)
    unit = 1.0 / np.sqrt(likelihood.curvature)
    counts = np.bincount(columns, minlength=n_columns)
    # The slope scale of one observation; 0 where the curvature is unbounded.
    floor = counts * (np.sqrt(likelihood.curvature) if np.isfinite(likelihood.curvature) else 0.0)
    reach = np.full(n_columns, 8.0 * unit if unit > 0 else 1.0)
    for _ in range(MAX_STEPS):
        shifted = z + bias[columns]
        values, slopes = likelihood.value_and_slope(shifted, y)
        total = np.bincount(columns, weights=slopes, minlength=n_columns)
        size = np.bincount(columns, weights=np.abs(slopes), minlength=n_columns)
        open_ = np.abs(total) > PRECISION * (size + floor)
        if not open_.any():
            break
        second = likelihood.second_derivative(shifted, y)
        bend = np.bincount(columns, weights=second, minlength=n_columns)
        below = np.where(total < 0, np.maximum(below, bias), below)
        above = np.where(total > 0, np.minimum(above, bias), above)
        moved = newton_step(bias, total, bend, below, above, reach)
        still = moved == bias
        bias = np.where(open_, moved, bias)
        if bool(np.all(still | ~open_)):
            break
        reach = np.where(np.isinf(below) | np.isinf(above), 2.0 * reach, reach)
    return Solved(bias, values, slopes)


def newton_step(
    bias: Array, total: Array, bend: Array, below: Array, above: Array, reach: Array
) -> Array:
    """A Newton step, no longer than ``reach``, or the middle of the bracket if it leaves it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        step = -total / bend
    step = np.where(np.isfinite(step), step, -np.sign(total) * reach)
    moved = bias + np.clip(step, -reach, reach)
    outside = (moved <= below) | (moved >= above)
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (below + above)
    return np.where(outside & np.isfinite(middle), middle, moved)
