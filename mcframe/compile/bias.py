"""The free offset of each column, solved exactly at a given Z."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import Likelihood, TwiceDifferentiable

__all__ = ["Solved", "best_bias", "infinite_biases"]

# A column is solved when its slopes sum to this fraction of the sum of their sizes.
PRECISION = 1e-15
MAX_STEPS = 200
LONGEST = 1e300
EPS = float(np.finfo(np.float64).eps)
# In units of 1 / sqrt(curvature): exp(-x) underflows to 0 well before.
FAR = 1000.0


@attrs.frozen(eq=False)
class Solved:
    """The offsets b (n_columns), and the losses and slopes there, entry by entry, unweighted."""

    bias: Array
    values: Array
    slopes: Array


def best_bias(
    likelihood: Likelihood,
    z: Array,
    y: Array,
    columns: IntArray,
    start: Array,
    infinite: Array,
    weights: Array | float = 1.0,
) -> Solved:
    """argmin over b of sum over entries of w l(z + b[column], y): one convex problem a column.

    Newton's method for all columns at once, kept inside the bracket that the signs of the
    slope sums have shown so far. At the answer the slopes of each column sum to 0, which is
    what a certificate with a free bias needs. Where the infimum is not attained (labels all
    alike) b goes so far out that losses and slopes are 0 in floating point; a column without
    entries keeps its start.

    Parameters
    ----------
    z, y, columns : arrays of one length
        Linear predictor without offset, observation and column of each entry.
    start : array (n_columns,)
        Where the iteration begins; close to the answer it needs two or three passes.
    infinite : array (n_columns,)
        What ``infinite_biases`` found: the columns without a finite answer.
    weights : array or number
        How much each entry counts.
    """
    if not isinstance(likelihood, TwiceDifferentiable):
        raise TypeError(f"{type(likelihood).__name__} has no second derivative")
    n_columns = start.size
    reached = np.max(np.abs(z), initial=0.0)
    bias = np.where(infinite == 0.0, start, infinite + np.sign(infinite) * reached)
    below = np.full(n_columns, -np.inf)
    above: Any = np.full(n_columns, np.inf)
    unit = 1.0 / np.sqrt(likelihood.curvature)
    # A Newton step on a quadratic is exact; on others it may overshoot by any amount.
    first = LONGEST if likelihood.quadratic else 8.0 * unit if unit > 0 else 1.0
    reach = np.full(n_columns, first)
    for _ in range(MAX_STEPS):
        shifted = z + bias[columns]
        values, slopes = likelihood.value_and_slope(shifted, y)
        weighted = weights * slopes
        total: Any = np.bincount(columns, weights=weighted, minlength=n_columns)
        size = np.bincount(columns, weights=np.abs(weighted), minlength=n_columns)
        open_ = (np.abs(total) > PRECISION * size) | ~np.isfinite(size)
        if not open_.any():
            break
        second = weights * likelihood.second_derivative(shifted, y)
        bend: Any = np.bincount(columns, weights=second, minlength=n_columns)
        below = np.where(total < 0, np.maximum(below, bias), below)
        above = np.where(total > 0, np.minimum(above, bias), above)
        moved = newton_step(bias, total, bend, below, above, reach)
        # A move below the rounding of z + b changes nothing that can be seen.
        still = np.abs(moved - bias) <= 4.0 * EPS * (np.abs(bias) + reached)
        bias = np.where(open_, moved, bias)
        if bool(np.all(still | ~open_)):
            break
        reach = np.where(
            np.isinf(below) | np.isinf(above), np.minimum(2.0 * reach, LONGEST), reach
        )
    return Solved(bias, values, slopes)


def infinite_biases(likelihood: Likelihood, y: Array, columns: IntArray, n_columns: int) -> Array:
    """+-``FAR`` units for columns whose best bias is infinite, 0 for the others.

    A column is one if the slopes of its observations have one sign however far out.
    """
    finite = np.isfinite(likelihood.curvature)
    far = FAR / np.sqrt(likelihood.curvature) if finite else FAR
    with np.errstate(over="ignore"):
        up = likelihood.value_and_slope(np.full_like(y, far), y)[1]
        down = likelihood.value_and_slope(np.full_like(y, -far), y)[1]
    counts = np.bincount(columns, minlength=n_columns)
    rises = np.bincount(columns, weights=up > 0.0, minlength=n_columns)
    falls = np.bincount(columns, weights=down < 0.0, minlength=n_columns)
    return np.where(counts > 0, far * ((rises == 0) * 1.0 - (falls == 0) * 1.0), 0.0)


def newton_step(
    bias: Array, total: Array, bend: Array, below: Array, above: Array, reach: Array
) -> Array:
    """A Newton step, no longer than ``reach``, or the middle of the bracket if it leaves it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        step = -total / bend
    step = np.where(np.isfinite(step), step, -np.sign(total) * reach)
    moved = bias + np.clip(step, -reach, reach)
    outside = (moved < below) | (moved > above)
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (below + above)
    return np.where(outside & np.isfinite(middle), middle, moved)
