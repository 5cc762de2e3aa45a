"""The weights of a path: those that were given, or from the largest useful one downwards."""

from typing import Any

import numpy as np

from mcframe.compile import CompiledProblem
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.validators import number, whole
from mcframe.selection.weight_max import largest_weight

__all__ = ["checked_weights", "descending"]


def descending(
    compiled: CompiledProblem, place: int, weights: Any, count: int, ratio: float
) -> Array:
    """The weights that were given, or ``count`` from the largest down to ``ratio`` times it."""
    if weights is not None:
        return checked_weights(weights)
    count = whole(count, "count", 1)
    if count == 1:
        raise ModelError(
            "count=1 was given; two weights at least lead from the largest, where nothing is left"
            " of Z, down to ratio times it: give weights=[w] for a path of one fit"
        )
    if not 0.0 < number(ratio, "ratio") < 1.0:
        raise ModelError(f"ratio={ratio!r} was given; a number between 0 and 1 is needed")
    largest = largest_weight(compiled, place)
    return np.asarray(np.geomspace(largest, ratio * largest, count))


def checked_weights(weights: Any) -> Array:
    """Numbers above 0, each below the one before it."""
    try:
        given = np.asarray(weights)
        if given.dtype.kind not in "iufO":  # text and dates would be read as numbers
            raise TypeError
        sequence = given.astype(np.float64)
    except (TypeError, ValueError):
        raise ModelError(
            f"weights={weights!r} were given; a list of numbers is needed, each below the one"
            " before it"
        ) from None
    if sequence.ndim != 1 or sequence.size == 0:
        raise ModelError(
            f"weights of shape {sequence.shape} were given; a list of at least one is needed,"
            " such as [1.0]"
        )
    wrong = ~(np.isfinite(sequence) & (sequence > 0.0))
    if wrong.any():
        raise ModelError(f"weights hold {sequence[wrong][0]:g}; each must be above 0 and finite")
    rising = np.flatnonzero(np.diff(sequence) >= 0.0)
    if rising.size:
        before, after = sequence[rising[0]], sequence[rising[0] + 1]
        raise ModelError(
            f"weights hold {after:g} after {before:g}; they must descend, since each fit starts"
            " from the one before: give numpy.unique(weights)[::-1]"
        )
    return sequence
