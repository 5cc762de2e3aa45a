"""Columns of any kind as numbers of one block: indicators of classes, places of levels."""

from collections.abc import Iterable
from typing import TypeVar

import attrs
import numpy as np
import scipy
from scipy.special import logsumexp, softmax

from mcframe.contracts.arrays import Array, IntArray
from mcframe.likelihoods import Gaussian
from mcframe.numerics.threads import limits_blas
from mcframe.tables.coding import Choice, Coded, Coding, Counts, Levels, Numbers
from mcframe.tables.declared_column import DeclaredColumn, placed_columns

CodingT = TypeVar("CodingT", bound=Coding)

BLOCK = "columns"
# What slopes are taken for where nothing was held out; of nine mixed tables they were 1 to 9.
USUAL_SLOPE = 4.0
# The largest one: held-out entries that are told apart without an error have none.
MOST_SLOPE = 150.0
# How far a few entries move slope and offsets: the deviation of a Gaussian prior of the slope,
# over the usual one, and of each offset.
SPREAD = 1.0
# What is added to the variances of a discriminant, a share of their mean.
RIDGE = 0.05


@attrs.frozen
class Indicator(Choice):
    """One of K values, its probabilities ``exp(slope * score + offset)`` over their sum.

    The second of two values is the number 1, the first 0. The score of place k at a mean m is
    ``-(k - m)^2``. With slope and offsets from held-out entries the probabilities of a label are a
    logistic curve of the mean with a slope and an intercept (Platt, Probabilistic outputs for
    support vector machines, 1999), and those of levels the adjacent-categories logit model, whose
    offsets are cut points between levels.

    Parameters
    ----------
    slope : float
        0 gives the same probabilities everywhere.
    offsets : tuple of K floats
        Empty: 0 of each value.
    fill : float or None
        The place that every entry is filled with, where no better answer was found on held-out
        entries.
    """

    slope: float = USUAL_SLOPE
    offsets: tuple[float, ...] = ()
    fill: float | None = None

    # Answers come from means, as those of numbers.
    answer = Coded.answer
    filled_codes = Coded.filled_codes

    def scores(self, means: Array) -> Array:
        """How near means (n x width) are to each value (n x K)."""
        return -np.square(np.arange(len(self.places)) - means)

    def read(self, means: Array) -> Array:
        """The probability of each value."""
        offsets = np.array(self.offsets or [0.0])
        found: Array = softmax(self.slope * self.scores(means) + offsets, axis=1)
        return found

    def predicted(self, answer: Array) -> Array:
        """The best value by its probability, or ``fill``."""
        return self.best(answer) if self.fill is None else np.full(len(answer), self.fill)

    def best(self, answer: Array) -> Array:
        """The most probable value."""
        return Choice.predicted(self, answer)


@attrs.frozen
class Steps(Indicator, Levels):
    """Levels as the numbers 0, 1, ..."""

    def best(self, answer: Array) -> Array:
        """The median of the probabilities, which is the fewest levels off."""
        return np.argmax(np.cumsum(answer, axis=1) >= 0.5, axis=1).astype(np.float64)


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
class Indicators(Indicator):
    """One column for each class, 1 in its own.

    Scores are those of the discriminant of held-out entries, or the means without one.
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

    def scores(self, means: Array) -> Array:
        """The logarithm of the density of each class, or its mean."""
        return means if self.discriminant is None else self.discriminant.scores(means)


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


def as_numbers(columns: Iterable[DeclaredColumn]) -> tuple[DeclaredColumn, ...]:
    """Return the columns, all that stand in a block moved into one Gaussian block."""
    return placed_columns(
        each
        if each.place is None
        else attrs.evolve(each, coding=coded_as_numbers(each), likelihood=Gaussian(), block=BLOCK)
        for each in columns
    )


def coded_as_numbers(column: DeclaredColumn) -> Coding:
    """Return the coding whose numbers a Gaussian block reads."""
    coding = column.modelled[0]
    if isinstance(coding, Counts):
        return CountedNumbers(coding.whole, bend=0.5 * float(np.nanmean(column.codes)))
    if isinstance(coding, Numbers | Indicator):
        return coding
    if isinstance(coding, Levels):
        return Steps(coding.places)
    several = column.likelihood is not None and column.likelihood.width > 1
    return Indicators(coding.places) if several else Indicator(coding.places)


def calibrated(coding: CodingT, codes: Array, means: Array) -> CodingT:
    """Return the coding with probabilities that fit held-out codes.

    Of labels and levels by the slope and the offsets at which these are the most likely, of
    classes by their discriminant. A coding of numbers stays as it is.

    Parameters
    ----------
    codes : array (n,)
        Held-out values.
    means : array (n x width of the coding)
        What was predicted of them.
    """
    if not codes.size or not isinstance(coding, Indicator):
        return coding
    if isinstance(coding, Indicators):
        discriminant = Discriminant.of(means, codes, coding.width)
        return attrs.evolve(coding, slope=1.0, discriminant=discriminant)
    slope, offsets = most_likely(coding.scores(means), codes.astype(np.intp))
    return attrs.evolve(coding, slope=slope, offsets=offsets)


@limits_blas  # threads wait for one another at numbers as few as these
def most_likely(scores: Array, codes: IntArray) -> tuple[float, tuple[float, ...]]:
    """Return the slope and the offsets at which codes (n,) of scores (n x K) are the most likely.

    Few entries say little: the slope is drawn to the usual one and offsets to 0, as by Gaussian
    priors.
    """
    n, n_values = scores.shape
    scores = USUAL_SLOPE * scores
    own = np.zeros((n, n_values))
    own[np.arange(n), codes] = 1.0
    usual = np.concatenate([[1.0], np.zeros(n_values)])

    def loss(at: Array) -> tuple[float, Array]:
        """-log of the density at slope / USUAL_SLOPE and the offsets, and its gradient."""
        inner = at[0] * scores + at[1:]
        away = softmax(inner, axis=1) - own
        drawn = (at - usual) / SPREAD**2
        value = np.sum(logsumexp(inner, axis=1) - np.sum(own * inner, axis=1))
        gradient = np.concatenate([[np.sum(away * scores)], np.sum(away, axis=0)])
        return float(value + 0.5 * drawn @ (at - usual)), gradient + drawn

    bounds = [(0.0, MOST_SLOPE / USUAL_SLOPE), *[(None, None)] * n_values]
    found = scipy.optimize.minimize(loss, usual, jac=True, method="L-BFGS-B", bounds=bounds)
    return float(USUAL_SLOPE * found.x[0]), tuple(map(float, found.x[1:]))
