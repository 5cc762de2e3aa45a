"""Values of a column as the numbers that its likelihood reads, and the way back from a fit."""

import datetime as dt
import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self, TypeVar

import attrs
import numpy as np
import scipy
from scipy.special import logsumexp, softmax, xlogy

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.model.table import AffineUnits
from mcframe.numerics.machine import limits_blas
from mcframe.posterior.answer import Posterior
from mcframe.posterior.predictive import units_of
from mcframe.selection.splitters import kinds_of
from mcframe.tables.columns import Column

DAY = 86_400e6  # microseconds
LEAST_PROBABILITY = 1e-4
# Probabilities nearer to 0 and 1 than this are rounded to these.
ENDS = (1e-300, 1.0 - np.finfo(float).epsneg)
# Between these the squares of the numbers of a column, and of what they differ by, are exact.
SAFE = (1e-100, 1e100)
EPOCH = dt.datetime(1970, 1, 1)
# The first and the last moment that a date can have but for a day, in microseconds.
FIRST, LAST = (
    (dt.datetime(*day) - EPOCH) / dt.timedelta(microseconds=1)
    for day in ((1, 1, 2), (9999, 12, 30))
)


@attrs.frozen(eq=False)
class RawPredictions:
    """What a fit or a posterior says of entries of one block, before a coding reads it.

    Attributes
    ----------
    means : array (n_entries x K)
        Mean responses, K of them in a block of K classes; probabilities in one of K levels.
    variances : array (n_entries x K) or None
        Those of new observations, as shares of the variances of their columns, where a posterior
        of standardised numbers has them; None elsewhere.
    """

    means: Array
    variances: Array | None = None

    @classmethod
    def of(
        cls,
        fit: Any,
        block: str,
        rows: IntArray,
        columns: IntArray,
        with_variances: bool = True,
    ) -> "RawPredictions":
        """Ask a fit, a posterior or new rows of one for some entries."""
        is_posterior = isinstance(fit, Posterior)
        likelihood = fit.model.block(block).likelihood if is_posterior else fit.likelihood(block)
        if "levels" in kinds_of(likelihood):
            return cls(probabilities_of_levels(fit, block, rows, columns))
        means = np.asarray(fit.predict(block, rows, columns)).reshape(rows.size, -1)
        units = units_of(fit.problem, block) if is_posterior and with_variances else None
        if not isinstance(units, AffineUnits) or not likelihood.location:
            return cls(means)
        variances = np.square(fit.sd(block, rows, columns) / units.spread[columns])
        return cls(means, variances.reshape(means.shape))

    def of_rows(self, entries: slice, n_rows: int) -> "RawPredictions":
        """Some of the entries, those of a row side by side (n_rows x width)."""
        parts = [self.means] if self.variances is None else [self.means, self.variances]
        return RawPredictions(*(part[entries].reshape(n_rows, -1) for part in parts))

    def split(self, count: int) -> list["RawPredictions"]:
        """So many parts of equally many columns."""
        parts = [self.means] if self.variances is None else [self.means, self.variances]
        return [
            RawPredictions(*own)
            for own in zip(*(np.hsplit(part, count) for part in parts), strict=True)
        ]


def probabilities_of_levels(fit: Any, block: str, rows: IntArray, columns: IntArray) -> Array:
    """The probability of each level; of a fit exp(-loss), the negative log-likelihood."""
    if isinstance(fit, Posterior):
        return fit.probabilities(block, rows, columns)
    likelihood, z = fit.likelihood(block), np.asarray(fit.natural(block, rows, columns))
    levels = likelihood.lowest + np.arange(float(likelihood.levels))
    losses = [likelihood.value(z, np.full(z.shape, level)) for level in levels]
    return np.exp(-np.column_stack(losses))


class Coded(ABC):
    """The way from a column's values to numbers, and back: what ``Numbers`` and ``Choice`` share.

    An *answer* is what a fit says of entries: means, or probabilities (n_entries x n_values).
    ``measure`` says in words what ``error`` is, and ``reads_variances`` whether answers depend on
    the variances of predictions.
    """

    measure: ClassVar[str]
    reads_variances: ClassVar[bool] = False

    @property
    def width(self) -> int:
        """How many columns of a block the column takes."""
        return 1

    def numbers(self, codes: Array) -> Array:
        """What these columns hold (n_items x width), NaN where missing."""
        return codes[:, None]

    @abstractmethod
    def read(self, means: Array, variances: Array | None = None) -> Array:
        """The answer that raw predictions give: mean responses (n_entries x width).

        ``variances`` are those of the predictions in standard units, where they are known. All
        answers come from here, those of tables, new rows, draws and estimators.
        """

    @abstractmethod
    def predicted(self, answer: Array) -> Array:
        """The codes that entries are filled with, of an answer."""

    def error(self, mean: float) -> float:
        """The mean of the errors, in the unit of the measure."""
        return mean


@attrs.frozen
class Numbers(Coded):
    """Numbers as they are; a column of whole numbers is filled with the nearest ones.

    Losses and errors are squares of differences.

    Parameters
    ----------
    whole : (lowest, highest) or None
        What the dtype holds, if that is whole numbers alone.
    lower, upper : float
        No number lies outside. A mean that does is answered by the bound, which is nearer.
    unit : float
        Codes are numbers over it: a power of two where squares would overflow or vanish, else 1.
    """

    whole: tuple[int, int] | None = None
    lower: float = -np.inf
    upper: float = np.inf
    unit: float = 1.0

    measure = "root mean square"
    rule: ClassVar[str] = ""  # of the numbers that are allowed

    @property
    def is_whole(self) -> bool:
        """Whether the values are whole numbers."""
        return self.whole is not None

    def outside(self, numbers: Array) -> Mask:
        """Which numbers are not allowed."""
        return (numbers < self.lower) | (numbers > self.upper)

    @classmethod
    def of(cls, column: Column, lower: float = -np.inf, upper: float = np.inf) -> "Numbers":
        """Numbers of a column, in a unit that suits it."""
        largest, unit = np.nanmax(np.abs(column.numbers)), 1.0
        if largest > 0.0 and not SAFE[0] <= largest <= SAFE[1]:
            unit = 2.0 ** (int(np.frexp(largest)[1]) - 1)
        return cls(column.whole, lower, upper, unit)

    def codes(self, column: Column) -> Array:
        """The numbers of a column (n_items,) in the unit, NaN where missing."""
        return column.numbers / self.unit

    def values(self, codes: Array) -> list[Any]:
        """Floats, or integers inside the range of the dtype and the bounds."""
        if self.whole is None:
            return list((codes * self.unit).tolist())
        lowest, highest = self.whole
        if self.lower > lowest:
            lowest = math.ceil(self.lower)
        if self.upper < highest:
            highest = math.floor(self.upper)
        inside = np.clip(codes, float(lowest), float(highest)).tolist()  # infinities, too
        return [min(max(round(code), lowest), highest) for code in inside]

    def read(self, means: Array, variances: Array | None = None) -> Array:
        """The mean response, within the bounds."""
        return np.clip(means[:, 0], self.lower / self.unit, self.upper / self.unit)

    def predicted(self, answer: Array) -> Array:
        """The mean response itself."""
        return answer

    def losses(self, answer: Array, codes: Array) -> Array:
        """What an answer loses on observed numbers, one loss each."""
        return self.errors(answer, codes)

    def constant(self, codes: Array) -> float:
        """The mean: the one number for all observed ones that has the least error."""
        return float(np.mean(codes))

    def errors(self, predicted: Array, codes: Array) -> Array:
        """Squares of the differences, 0 where predictions are right."""
        return np.square(predicted - codes)

    def error(self, mean: float) -> float:
        """The root of the mean square, in the data's own unit."""
        return float(np.sqrt(mean)) * self.unit


@attrs.frozen
class Counts(Numbers):
    """Counts; the loss is half the deviance of Poisson, ``y log(y / mean) - y + mean``."""

    rule = "; counts are 0, 1, 2, ..."

    @property
    def is_whole(self) -> bool:
        """True."""
        return True

    def outside(self, numbers: Array) -> Mask:
        """Which numbers are not counts."""
        return (numbers < 0.0) | (np.floor(numbers) != numbers)

    def losses(self, answer: Array, codes: Array) -> Array:
        """Half the deviance, at means that are kept off 0."""
        mean = np.maximum(answer, np.finfo(float).tiny)
        return np.asarray(xlogy(codes, codes / mean) - codes + mean)


@attrs.frozen
class Dates(Numbers):
    """Days since a centre, which is one of the dates: exact to a microsecond within 285 years.

    Parameters
    ----------
    centre : float
        Microseconds since 1970, in UTC where the dates have a time zone.
    form : "date", "time" or "zoned time"
        Days alone; points in time without a zone, and with one.
    step : float
        Microseconds of a day, hour, minute or second if all dates are whole ones, or of 1/1000
        second; filled dates are whole ones, too.
    furthest : float
        The largest distance from 1970 that the dtype of the column holds, in microseconds.
    """

    centre: float = attrs.field(kw_only=True)
    form: str = attrs.field(kw_only=True)
    step: float = attrs.field(default=1.0, kw_only=True)
    furthest: float = attrs.field(default=LAST, kw_only=True)

    measure = "root mean square, days"

    def codes(self, column: Column) -> Array:
        """Days since the centre."""
        return (column.numbers - self.centre) / DAY

    def values(self, codes: Array) -> list[Any]:
        """Dates, or points in time, in UTC where there is a zone."""
        ends = max(FIRST, -self.furthest), min(LAST, self.furthest)
        moments = self.step * np.rint((self.centre + DAY * codes) / self.step)
        moments = np.clip(moments, *ends).tolist()
        times = [EPOCH + dt.timedelta(microseconds=round(moment)) for moment in moments]
        if self.form == "date":
            return [time.date() for time in times]
        if self.form == "zoned time":
            return [time.replace(tzinfo=dt.UTC) for time in times]
        return list(times)


@attrs.frozen
class Choice(Coded):
    """One of several values as its place among them: 0, 1, 2, ...

    Parameters
    ----------
    places : tuple
        The values; every other one is missing.
    """

    places: tuple[Any, ...]

    measure = "share wrong"

    def codes(self, column: Column) -> Array:
        """The place of each value, NaN where missing."""
        code_of = {value: float(code) for code, value in enumerate(self.places)}
        return np.array([code_of.get(value, np.nan) for value in column.values])

    def values(self, codes: Array) -> list[Any]:
        """The values at these places."""
        return [self.places[int(code)] for code in codes]

    def read(self, means: Array, variances: Array | None = None) -> Array:
        """The probability of each class, or 1 - p and p of a label.

        None is rounded to 0 or 1, which no finite predictor has.
        """
        p = np.clip(means, *ENDS)
        return p if p.shape[1] > 1 else np.hstack([1.0 - p, p])

    def predicted(self, answer: Array) -> Array:
        """The most probable value, the first one where several are."""
        return np.argmax(answer, axis=1).astype(np.float64)

    def losses(self, answer: Array, codes: Array) -> Array:
        """-log of the probability, kept so far off 0 that no entry outweighs all others."""
        chosen = answer[np.arange(codes.size), codes.astype(np.intp)]
        return -np.log(np.maximum(chosen, LEAST_PROBABILITY))

    def constant(self, codes: Array) -> float:
        """The most frequent value."""
        return float(np.argmax(np.bincount(codes.astype(np.intp))))

    def errors(self, predicted: Array, codes: Array) -> Array:
        """1 where they are wrong."""
        return (predicted != codes).astype(np.float64)


@attrs.frozen
class Levels(Choice):
    """One of several ordered values, from the lowest."""

    measure = "mean levels off"

    def constant(self, codes: Array) -> float:
        """The median, the lower one of two."""
        return float(np.sort(codes)[(codes.size - 1) // 2])

    def errors(self, predicted: Array, codes: Array) -> Array:
        """How many levels lie between."""
        return np.abs(predicted - codes)


Coding = Numbers | Choice


CodingT = TypeVar("CodingT", bound=Coding)

BLOCK = "columns"
# What slopes are taken for where nothing was held out; of nine mixed tables they were 1 to 9.
USUAL_SLOPE = 4.0
# The largest one: held-out entries that are classified without an error have none.
MOST_SLOPE = 150.0
# How far a few entries move slope and offsets: the deviation of a Gaussian prior of the slope,
# over the usual one, and of each offset.
SPREAD = 1.0
# The smallest and the largest share of a variance that is not known, and the smallest widths of
# the classes of a discriminant where more is known than usual.
LEAST_UNKNOWN, MOST_UNKNOWN, LEAST_WIDTH = 0.01, 0.99, 0.5
# What is added to the variances of a discriminant, a share of their mean.
RIDGE = 0.05


@attrs.frozen
class Indicator(Choice):
    """One of K values, its probabilities ``exp(score_k)`` over their sum.

    The second of two values is the number 1, the first 0. With slope a and offsets o from held-out
    entries, and the shares of the values, the score of place k at a mean m is

        log share_k + r (a (2 (k - c) (m - c) - e (k - c)^2) + (e / e_0) o_k),   r = T_0 / T,

    where T is the conditional variance of the number, as a share of its variance over all rows,
    e = 1 - T what is known of it, and T_0, e_0 are their means over held-out entries; c is the
    mean of the places. A row of which nothing is known (e = 0) has the shares for probabilities.
    At T_0 this is, for a label, a logistic curve of the mean (Platt, Probabilistic outputs for
    support vector machines, 1999), and for levels the adjacent-categories logit model. That slopes
    grow as 1 / T, and differences of means as e, is so for indicators under one Gaussian.

    Parameters
    ----------
    slope : float
        0 gives the same probabilities everywhere.
    offsets : tuple of K floats
        Empty: 0 of each value.
    fill : float or None
        The place that every entry is filled with, where no better answer was found on held-out
        entries.
    shares : tuple of K floats
        Empty: nothing was held out, and scores are ``-a (k - m)^2 + o_k``.
    usual : float
        T_0.
    """

    slope: float = USUAL_SLOPE
    offsets: tuple[float, ...] = ()
    fill: float | None = None
    shares: tuple[float, ...] = ()
    usual: float = 0.5

    usual_slope: ClassVar[float] = USUAL_SLOPE
    reads_variances: ClassVar[bool] = True

    def known(self, variances: Array | None) -> Array:
        """What is known of entries, from 0 to 1 (n, or 1 if it is the usual)."""
        if variances is None:
            return np.array([1.0 - self.usual])
        return 1.0 - np.clip(variances[:, 0], LEAST_UNKNOWN, 1.0)

    def with_usual(self, variances: Array) -> Self:
        """The coding for which these are the usual variances (n x width)."""
        unknown = 1.0 - float(np.mean(self.known(variances)))
        return attrs.evolve(self, usual=min(unknown, MOST_UNKNOWN))

    def scores(self, means: Array, variances: Array | None = None) -> tuple[Array, Array]:
        """What slope and offsets are multiplied by (n x K, and n or 1)."""
        places = np.arange(len(self.places))
        if not self.shares:
            return -np.square(places - means), np.ones(1)
        known, centre = self.known(variances), places @ np.array(self.shares)
        sharper = self.usual / (1.0 - known)
        away = places - centre
        scores = 2.0 * away * (means - centre) - known[:, None] * away**2
        return sharper[:, None] * scores, sharper * known / (1.0 - self.usual)

    @property
    def levels(self) -> Array:
        """The logarithms of the shares."""
        return np.log(self.shares) if self.shares else np.zeros(len(self.places))

    def read(self, means: Array, variances: Array | None = None) -> Array:
        """The probability of each value."""
        scores, counted = self.scores(means, variances)
        offsets = counted[:, None] * np.array(self.offsets or [0.0])
        return softmax(self.levels + self.slope * scores + offsets, axis=1)

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

    The points are predicted indicators of the classes, and those of held-out entries of a class
    lie around its centre. A class between two others may nowhere have the largest indicator, but
    it has a centre (Hastie, Tibshirani and Friedman, The Elements of Statistical Learning,
    2nd edition, 2009, section 4.2).

    Of an entry of which a share ``known`` of the usual is known, predictions lie around
    ``middle + known (centre - middle)`` with the covariance ``known (W + (1 - known) B)``, where W
    and B are those within and between classes at the usual: so it is under one Gaussian.

    Attributes
    ----------
    middle : array (K,)
        What is predicted on average.
    root : array (K x K)
        It takes W to the identity and B to ``spread``, a diagonal.
    spread : array (K,)
    centres : array (K x K)
        The centres about the middle, class by class, by this root.
    usual : float
        What is usually known.
    """

    middle: Array
    root: Array
    spread: Array
    centres: Array
    usual: float

    @classmethod
    def of(cls, means: Array, known: Array, codes: Array, n_classes: int) -> "Discriminant":
        """That of held-out entries (n x K); each class is counted with one entry at the middle."""
        known = np.broadcast_to(np.maximum(known, 1.0 - MOST_UNKNOWN), codes.shape)
        usual = float(np.mean(known))
        relative = known / usual
        middle, counts = np.mean(means, axis=0), np.empty(n_classes)
        centres, residuals = np.empty((n_classes, n_classes)), np.empty_like(means)
        for k in range(n_classes):
            own = codes == k
            counts[k] = np.count_nonzero(own)
            away = means[own] - middle
            centres[k] = np.sum(away, axis=0) / (np.sum(relative[own]) + 1.0)
            residuals[own] = away - relative[own][:, None] * centres[k]
        within = residuals.T @ residuals / np.sum(relative)
        # The K columns add up to 1, so that there is no variance in one direction.
        ridge = max(RIDGE * float(np.trace(within)) / n_classes, np.finfo(float).tiny)
        half = np.linalg.inv(np.linalg.cholesky(within + ridge * np.eye(n_classes)))
        shares = counts / np.sum(counts)
        between = half @ (shares * centres.T) @ centres @ half.T
        spread, vectors = np.linalg.eigh(between)
        root = vectors.T @ half
        spread = np.maximum(spread, 0.0)
        return cls(middle, root, spread, centres @ root.T, usual)

    def scores(self, means: Array, known: Array) -> Array:
        """The logarithm of the density of means of each class, up to a constant (n x K)."""
        relative = (known / self.usual)[:, None]
        widths = np.maximum(1.0 + (1.0 - relative) * self.spread, LEAST_WIDTH)
        away = (means - self.middle) @ self.root.T / widths
        return away @ self.centres.T - 0.5 * relative / widths @ self.centres.T**2


@attrs.frozen
class Indicators(Indicator):
    """One column for each class, 1 in its own.

    Scores are those of the discriminant of held-out entries, or the means without one.
    """

    discriminant: Discriminant | None = None

    usual_slope = 1.0

    @property
    def width(self) -> int:
        """The number of classes."""
        return len(self.places)

    def numbers(self, codes: Array) -> Array:
        """1 in the column of the class, 0 in others, NaN where it is missing."""
        found = (codes[:, None] == np.arange(self.width)).astype(np.float64)
        found[np.isnan(codes)] = np.nan
        return found

    def known(self, variances: Array | None) -> Array:
        """What is known of all indicators together, as a share of their variances."""
        if variances is None:
            return np.array([1.0 - self.usual])
        shares = np.array(self.shares or np.full(self.width, 1.0 / self.width))
        unknown = variances @ (shares * (1.0 - shares)) / np.sum(shares * (1.0 - shares))
        return 1.0 - np.clip(unknown, LEAST_UNKNOWN, 1.0)

    def with_usual(self, variances: Array) -> Self:
        """The coding for which these are the usual variances (n x width)."""
        found = super().with_usual(variances)
        if self.discriminant is None:
            return found
        discriminant = attrs.evolve(self.discriminant, usual=1.0 - found.usual)
        return attrs.evolve(found, discriminant=discriminant)

    def scores(self, means: Array, variances: Array | None = None) -> tuple[Array, Array]:
        """The logarithm of the density of each class, or its mean."""
        if self.discriminant is None:
            return means, np.ones(1)
        known = self.known(variances)
        return self.discriminant.scores(means, known), known / self.discriminant.usual


@attrs.frozen
class CountedNumbers(Counts):
    """Counts as numbers: a mean m below a bend b, half of the column's mean, is b exp(m / b - 1).

    So it stays above 0, where no count has a likelihood.
    """

    bend: float = attrs.field(kw_only=True)

    def read(self, means: Array, variances: Array | None = None) -> Array:
        """The mean, above 0."""
        m = means[:, 0]
        return np.where(m > self.bend, m, self.bend * np.exp(np.minimum(m / self.bend, 1.0) - 1.0))


@limits_blas  # threads wait for one another at numbers as few as these
def calibrated(
    coding: CodingT, codes: Array, means: Array, variances: Array | None = None
) -> CodingT:
    """Return the coding with probabilities that fit held-out codes.

    Labels and levels get the coefficient and the offsets with the largest likelihood, classes
    their discriminant. A coding of numbers stays as it is.

    Parameters
    ----------
    codes : array (n,)
        Held-out values.
    means : array (n x width of the coding)
        What was predicted of them.
    variances : array (n x width of the coding), optional
        The variances of these predictions, in standard units.
    """
    if not codes.size or not isinstance(coding, Indicator):
        return coding
    places = codes.astype(np.intp)
    counts = np.bincount(places, minlength=len(coding.places)) + 0.5
    shares = tuple((counts / np.sum(counts)).tolist())
    found = attrs.evolve(coding, shares=shares)
    if variances is not None:
        found = found.with_usual(variances)
    if isinstance(found, Indicators):
        discriminant = Discriminant.of(means, found.known(variances), codes, found.width)
        found = attrs.evolve(found, discriminant=discriminant)
    scores, counted = found.scores(means, variances)
    slope, offsets = most_likely(scores, places, counted, found.levels, found.usual_slope)
    return attrs.evolve(found, slope=slope, offsets=offsets)


@limits_blas  # threads wait for one another at numbers as few as these
def most_likely(
    scores: Array,
    codes: IntArray,
    counted: Array | float = 1.0,
    levels: Array | float = 0.0,
    usual_slope: float = USUAL_SLOPE,
) -> tuple[float, tuple[float, ...]]:
    """Return the slope and the offsets at which codes (n,) are the most likely.

    Of slope a and offsets o the inner scores are ``levels + a scores + counted o`` (n x K). Few
    entries say little: the slope is drawn to the usual one and offsets to 0, as by Gaussian
    priors.
    """
    n, n_values = scores.shape
    scores, counted = usual_slope * scores, np.broadcast_to(counted, n)
    own = np.zeros((n, n_values))
    own[np.arange(n), codes] = 1.0
    usual = np.concatenate([[1.0], np.zeros(n_values)])

    def loss(at: Array) -> tuple[float, Array]:
        """-log of the density at slope / usual_slope and the offsets, and its gradient."""
        inner = levels + at[0] * scores + counted[:, None] * at[1:]
        away = softmax(inner, axis=1) - own
        drawn = (at - usual) / SPREAD**2
        value = np.sum(logsumexp(inner, axis=1) - np.sum(own * inner, axis=1))
        gradient = np.concatenate([[np.sum(away * scores)], counted @ away])
        return float(value + 0.5 * drawn @ (at - usual)), gradient + drawn

    bounds = [(0.0, MOST_SLOPE / usual_slope), *[(None, None)] * n_values]
    found = scipy.optimize.minimize(loss, usual, jac=True, method="L-BFGS-B", bounds=bounds)
    return float(usual_slope * found.x[0]), tuple(map(float, found.x[1:]))
