"""Weights of rows, such as those of a survey: how many of a population each row stands for."""

from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import DataError
from mcframe.contracts.validators import NotANumber, floats_of
from mcframe.contracts.wording import wording

# The least weight over the largest one: smaller ones count as this, which no sum can tell from 0.
LEAST_SHARE = 1e-100


def checked_row_weights(weights: Any, what: str) -> Array:
    """One finite weight above 0 for each row; a ``DataError`` names the first row without one."""
    try:
        numbers = floats_of(weights)
    except (NotANumber, TypeError, ValueError):
        raise DataError(f"{what}: a number above 0 is needed for each row") from None
    if numbers.ndim != 1 or not numbers.size:
        raise DataError(f"{what} of shape {numbers.shape}; a number for each row is needed")
    wrong = np.flatnonzero(~(np.isfinite(numbers) & (numbers > 0.0)))
    if wrong.size:
        row = int(wrong[0])
        weight = "no weight" if np.isnan(numbers[row]) else f"the weight {float(numbers[row])!r}"
        raise DataError(
            f"{what}: {wording().row(row)} has {weight}; each row needs a finite one above 0."
            " Leave out rows that stand for nothing"
        )
    numbers.flags.writeable = False
    return numbers


def counts_of_rows(weights: Array, seen: Mask | None = None) -> Array:
    """The number of times that each row counts: in proportion to its weight w.

    Those of rows that are ``seen``, by default of all, add up to ``(sum w)^2 / sum w^2``, the
    number of rows of equal weight that tell as much of a mean (Kish, Survey Sampling, 1965).
    """
    shares = np.maximum(weights / np.max(weights, initial=0.0), LEAST_SHARE)
    of_seen = shares if seen is None or not seen.any() else shares[seen]
    counts: Array = shares * (np.sum(of_seen) / np.sum(np.square(of_seen)))
    return counts
