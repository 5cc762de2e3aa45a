"""Columns of any kind as numbers of one block: indicators of classes, places of levels."""

from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np
import scipy
from scipy.special import softmax

from mcframe.contracts.arrays import Array
from mcframe.likelihoods import Gaussian
from mcframe.tables.coding import Choice, Classes, Coding, Labels, Levels, Means
from mcframe.tables.declared_column import DeclaredColumn

__all__ = ["BLOCK", "Indicator", "Indicators", "Steps", "as_numbers", "sloped", "with_slopes"]

BLOCK = "columns"
# What slopes are taken for where nothing was held out; of nine mixed tables they were 1 to 9.
USUAL_SLOPE = 4.0
# Logarithms of the slopes that are tried.
SLOPES = (-3.0, 5.0)


@attrs.frozen
class Indicator(Means, Labels):
    """The second of two values as 1: its probabilities from a mean m by one slope.

    ``exp(slope m)`` and ``exp(slope (1 - m))``, over their sum: means are timid.
    """

    slope: float = USUAL_SLOPE

    def read(self, means: Array) -> Array:
        """The probability of each value."""
        return probabilities(np.column_stack([1.0 - means[:, 0], means[:, 0]]), self.slope)


@attrs.frozen
class Indicators(Means, Classes):
    """One column for each class, 1 in its own; probabilities are those of ``exp(slope m)``."""

    slope: float = USUAL_SLOPE

    @property
    def width(self) -> int:
        """The number of classes."""
        return len(self.places)

    def numbers(self, codes: Array) -> Array:
        """1 in the column of the class, 0 in others, NaN where it is missing."""
        found = (codes[:, None] == np.arange(self.width)).astype(np.float64)
        found[np.isnan(codes)] = np.nan
        return found

    def read(self, means: Array) -> Array:
        """The probability of each class."""
        return probabilities(means, self.slope)


@attrs.frozen
class Steps(Means, Levels):
    """Levels as the numbers 0, 1, ...; probabilities fall by the square of the distance."""

    slope: float = USUAL_SLOPE

    def read(self, means: Array) -> Array:
        """``exp(-slope (k - m)^2)`` of each level k, over their sum."""
        return probabilities(-np.square(np.arange(len(self.places)) - means), self.slope)


def probabilities(scores: Array, slope: float) -> Array:
    """Return the probabilities of each row (n x K) that are as exp(slope * score)."""
    found: Array = softmax(slope * scores, axis=1)
    return found


def as_numbers(columns: Iterable[DeclaredColumn]) -> tuple[DeclaredColumn, ...]:
    """Return the columns, all that stand in a block moved into one Gaussian block."""
    moved, place = [], 0
    for each in columns:
        if each.place is None:
            moved.append(each)
            continue
        coding = coded_as_numbers(each.modelled[0])
        taken = attrs.evolve(each.taken, coding=coding, likelihood=Gaussian(), block=BLOCK)
        moved.append(DeclaredColumn(each.column, taken, place))
        place += coding.width
    return tuple(moved)


def coded_as_numbers(coding: Coding) -> Coding:
    """Return the coding whose numbers a Gaussian block reads."""
    forms: dict[type, Any] = {Labels: Indicator, Classes: Indicators, Levels: Steps}
    form = forms.get(type(coding))
    if form is None or not isinstance(coding, Choice):
        return coding
    found: Coding = form(coding.places)
    return found


def with_slopes(column: DeclaredColumn, codes: Array, means: Array) -> DeclaredColumn:
    """Return the column with the slope at which held-out codes had the highest likelihood."""
    coding = sloped(column.modelled[0], codes, means)
    return attrs.evolve(column, taken=attrs.evolve(column.taken, coding=coding))


def sloped(coding: Coding, codes: Array, means: Array) -> Coding:
    """Return the coding with the slope at which held-out codes had the highest likelihood.

    A coding of numbers, which has no slope, stays as it is.

    Parameters
    ----------
    codes : array (n,)
        Held-out values.
    means : array (n x width of the coding)
        What was predicted of them.
    """
    if not (isinstance(coding, Indicator | Indicators | Steps) and codes.size):
        return coding

    def loss(log_slope: float) -> float:
        """The mean loss at a slope."""
        tried = attrs.evolve(coding, slope=float(np.exp(log_slope)))
        return float(np.mean(tried.losses(tried.read(means), codes)))

    found = scipy.optimize.minimize_scalar(loss, bounds=SLOPES, method="bounded")
    return attrs.evolve(coding, slope=float(np.exp(found.x)))
