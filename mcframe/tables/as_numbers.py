"""Columns of any kind as numbers of one block: indicators of classes, places of levels."""

from collections.abc import Iterable
from typing import Any, TypeVar

import attrs
import numpy as np
import scipy
from scipy.special import softmax

from mcframe.contracts.arrays import Array
from mcframe.likelihoods import Gaussian
from mcframe.tables.coding import Choice, Classes, Coding, Counts, Labels, Levels, Means
from mcframe.tables.declared_column import DeclaredColumn

__all__ = [
    "BLOCK",
    "CountedNumbers",
    "Discriminant",
    "Indicator",
    "Indicators",
    "Steps",
    "as_numbers",
    "calibrated",
    "with_calibration",
]

CodingT = TypeVar("CodingT", bound=Coding)

BLOCK = "columns"
# What slopes are taken for where nothing was held out; of nine mixed tables they were 1 to 9.
USUAL_SLOPE = 4.0
# What is added to the variances of a discriminant, a share of their mean.
RIDGE = 0.05
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


@attrs.frozen(eq=False)
class Discriminant:
    """Gaussian means of classes with one covariance: linear discriminant analysis (Fisher, 1936).

    Of what is predicted of the indicators of classes, held-out entries of each class lie around
    its centre. A class in the middle of two others has no largest indicator anywhere, and its
    centre all the same (Hastie, Tibshirani and Friedman, The Elements of Statistical Learning,
    2nd edition, 2009, section 4.2).

    Attributes
    ----------
    centres : array (K x K)
        What is predicted on average, class by class.
    precision : array (K x K)
        The inverse of the covariance around them.
    levels : array (K,)
        Logarithms of the shares of the classes.
    """

    centres: Array
    precision: Array
    levels: Array

    @classmethod
    def of(cls, means: Array, codes: Array, n_classes: int) -> "Discriminant":
        """The centres of held-out entries (n x K); each is counted with one entry at the middle.

        Half an entry of each class is added to the shares.
        """
        centres = np.empty((n_classes, n_classes))
        within = np.zeros((n_classes, n_classes))
        middle, counts = np.mean(means, axis=0), np.empty(n_classes)
        for k in range(n_classes):
            own = means[codes == k]
            counts[k] = len(own)
            centres[k] = (np.sum(own, axis=0) + middle) / (len(own) + 1.0)
            if len(own):
                away = own - np.mean(own, axis=0)
                within += away.T @ away
        within /= len(means)
        # The K columns add up to 1, so that there is no variance in one direction.
        ridge = max(RIDGE * float(np.trace(within)) / n_classes, np.finfo(float).tiny)
        precision = np.linalg.inv(within + ridge * np.eye(n_classes))
        shares = (counts + 0.5) / np.sum(counts + 0.5)
        return cls(centres, precision, np.log(shares))

    def scores(self, means: Array) -> Array:
        """The logarithm of the density of each class, up to a constant (n x K)."""
        away = means[:, None, :] - self.centres
        found: Array = self.levels - 0.5 * np.einsum(
            "nki,ij,nkj->nk", away, self.precision, away, optimize=True
        )
        return found


@attrs.frozen
class Indicators(Means, Classes):
    """One column for each class, 1 in its own.

    Probabilities are those of the discriminant of held-out entries, or of ``exp(4 m)`` without
    one.
    """

    discriminant: Discriminant | None = None

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
        if self.discriminant is None:
            return probabilities(means, USUAL_SLOPE)
        return probabilities(self.discriminant.scores(means), 1.0)


@attrs.frozen
class Steps(Means, Levels):
    """Levels as the numbers 0, 1, ...; probabilities fall by the square of the distance."""

    slope: float = USUAL_SLOPE

    def read(self, means: Array) -> Array:
        """``exp(-slope (k - m)^2)`` of each level k, over their sum."""
        return probabilities(-np.square(np.arange(len(self.places)) - means), self.slope)


@attrs.frozen
class CountedNumbers(Counts):
    """Counts as numbers: a mean m below a bend b, half of the column's mean, is b exp(m / b - 1).

    So it stays above 0, where no count has a likelihood.
    """

    bend: float = attrs.field(kw_only=True)

    def read(self, means: Array) -> Array:
        """The mean, above 0."""
        m = means[:, 0]
        return np.where(m > self.bend, m, self.bend * np.exp(np.minimum(m / self.bend, 1.0) - 1.0))


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
        coding = coded_as_numbers(each)
        taken = attrs.evolve(each.taken, coding=coding, likelihood=Gaussian(), block=BLOCK)
        moved.append(DeclaredColumn(each.column, taken, place))
        place += coding.width
    return tuple(moved)


def coded_as_numbers(column: DeclaredColumn) -> Coding:
    """Return the coding whose numbers a Gaussian block reads."""
    coding = column.modelled[0]
    if isinstance(coding, Counts):
        return CountedNumbers(coding.whole, bend=0.5 * float(np.nanmean(column.codes)))
    forms: dict[type, Any] = {Labels: Indicator, Classes: Indicators, Levels: Steps}
    form = forms.get(type(coding))
    if form is None or not isinstance(coding, Choice):
        return coding
    found: Coding = form(coding.places)
    return found


def with_calibration(column: DeclaredColumn, codes: Array, means: Array) -> DeclaredColumn:
    """Return the column with probabilities that fit its held-out codes."""
    coding = calibrated(column.modelled[0], codes, means)
    return attrs.evolve(column, taken=attrs.evolve(column.taken, coding=coding))


def calibrated(coding: CodingT, codes: Array, means: Array) -> CodingT:
    """Return the coding with probabilities that fit held-out codes.

    Of labels and levels by the slope at which these have the highest likelihood, of classes by
    their discriminant. A coding of numbers stays as it is.

    Parameters
    ----------
    codes : array (n,)
        Held-out values.
    means : array (n x width of the coding)
        What was predicted of them.
    """
    if not codes.size:
        return coding
    if isinstance(coding, Indicators):
        discriminant = Discriminant.of(means, codes, coding.width)
        return attrs.evolve(coding, discriminant=discriminant)
    return sloped(coding, codes, means) if isinstance(coding, Indicator | Steps) else coding


def sloped(coding: Any, codes: Array, means: Array) -> Any:
    """Return the coding with the slope at which held-out codes had the highest likelihood."""

    def loss(log_slope: float) -> float:
        """The mean loss at a slope."""
        tried = attrs.evolve(coding, slope=float(np.exp(log_slope)))
        return float(np.mean(tried.losses(tried.read(means), codes)))

    found = scipy.optimize.minimize_scalar(loss, bounds=SLOPES, method="bounded")
    return attrs.evolve(coding, slope=float(np.exp(found.x)))
