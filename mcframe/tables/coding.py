"""Values of a column as the numbers that its likelihood reads, and the way back from a fit."""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import attrs
import numpy as np
from scipy.special import ndtr, xlogy

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.rounding import EPS, TINY
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import Options
from mcframe.model.transforms import Chain
from mcframe.numerics.error_shapes import ErrorShape
from mcframe.posterior.answer import Posterior, rounded_interval
from mcframe.posterior.predictive import (
    QUADRATURE_NODES,
    interval_of_whole_numbers,
    normal_nodes,
)
from mcframe.tables.columns import Column
from mcframe.tables.known_limits import KnownLimits
from mcframe.tables.raw_predictions import RawPredictions

# The block of numbers that a table is coded as.
NUMBERS_BLOCK = "columns"
# The scale of a column whose codes are Gaussian themselves.
AS_IN_THE_DATA = Chain()
# The row and the column of numbers of which a transform asks neither.
NO_PLACES = (np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp))
# The log loss of a code is that of at least this probability.
LEAST_PROBABILITY = 1e-4
# Probabilities nearer to 0 and 1 than this are rounded to these.
PROBABILITY_LIMITS = (TINY, 1.0 - np.finfo(float).epsneg)
# Squares of numbers in this range, and of their differences, neither overflow nor vanish.
EXACT_SQUARES_RANGE = (1e-100, 1e100)

# Rows and columns of a block, a cell for each number of an entry.
Cells = tuple[IntArray, IntArray]


class BaseCoding(ABC):
    """The way from a column's values to numbers, and back: what ``Numbers`` and ``Choice`` share.

    An *answer* is what a fit says of entries: means, or probabilities (n_entries x n_values).
    ``measure`` says in words what ``error`` is.
    """

    measure: ClassVar[str]

    @property
    def reads_variances(self) -> bool:
        """True if answers depend on the variances of predictions."""
        return False

    @property
    def is_drawn_last(self) -> bool:
        """True if draws come from probabilities, given the numbers that are drawn before."""
        return False

    @property
    def width(self) -> int:
        """The number of columns of a block that the column takes."""
        return 1

    def numbers(self, codes: Array) -> Array:
        """The numbers in these columns (n_items x width), NaN where missing."""
        return codes[:, None]

    @abstractmethod
    def decode(self, means: Array, variances: Array | None = None) -> Array:
        """The answer that raw predictions give: mean responses (n_entries x width).

        ``variances`` are those of the predictions in standard units, where they are known. All
        answers come from here, those of tables, new rows, draws and estimators.
        """

    @abstractmethod
    def predicted(self, answer: Array) -> Array:
        """The codes that entries are filled with, of an answer."""

    def with_reference(self, variances: Array | None) -> Self:
        """The coding for which these are variances of held-out entries, if it reads them."""
        return self

    def error(self, mean: float) -> float:
        """The mean of the errors, in the unit of the measure."""
        return mean


@stored
@attrs.frozen
class Numbers(BaseCoding):
    """Numbers as they are; a column of whole numbers is filled with the nearest ones.

    Losses and errors are squares of differences.

    Parameters
    ----------
    whole : (lowest, highest) or None
        What the column holds, if that is whole numbers alone: the range of its dtype, or the ends
        of its scale.
    lower, upper : float
        No number lies outside. A mean that does is answered by the bound, which is nearer.
    unit : float
        Codes are numbers over it: a power of two where squares would overflow or vanish, else 1.
    scale : Chain
        The transform of codes to the numbers of which rows are Gaussian; empty: codes themselves.
        Unless it is empty, the numbers of the column have the mean 0 and the deviation 1.
    scale_gain : float
        By how much the mean log density of held-out numbers is larger than on the plainest scale.
    support : (lowest, highest)
        Codes between which answers lie on that scale: the bounds, or evident ones such as 0.
    shape : ErrorShape or None
        Of errors on the scale, by held-out entries, in units of their expected deviation; None
        where none was fitted, and a posterior's own distribution counts.
    """

    whole: tuple[int, int] | None = None
    lower: float = -np.inf
    upper: float = np.inf
    unit: float = 1.0
    scale: Chain = AS_IN_THE_DATA
    scale_gain: float = 0.0
    support: tuple[float, float] = (-np.inf, np.inf)
    shape: ErrorShape | None = None  # not in files of earlier versions

    places: ClassVar[None] = None
    has_scale: ClassVar[bool] = True  # where the posterior of rows fills the table
    measure = "root mean square"
    rule: ClassVar[str] = ""  # of the numbers that are allowed

    @property
    def is_whole(self) -> bool:
        """True if the values are whole numbers."""
        return self.whole is not None

    def whole_within(self, answer: Array) -> Array:
        """The nearest whole numbers that the column holds, if it holds whole ones alone."""
        if not self.is_whole:
            return answer
        rounded = np.rint(answer)
        if self.whole is None:
            return rounded
        return np.clip(rounded, float(self.whole[0]), float(self.whole[1]))

    @property
    def whole_ends(self) -> tuple[float, float]:
        """The least and the largest whole code that answers have."""
        lowest, highest = (-np.inf, np.inf) if self.whole is None else map(float, self.whole)
        lower = max(lowest, self.lower / self.unit, self.support[0])
        upper = min(highest, self.upper / self.unit, self.support[1])
        return float(np.ceil(lower)), float(np.floor(upper))

    def rounded(self, numbers: Array) -> Array:
        """The whole codes nearest to numbers on the scale."""
        return np.clip(np.rint(self.within(numbers)), *self.whole_ends)

    def edges(self, whole: Array) -> Array:
        """The largest numbers on the scale whose nearest whole codes are at most these."""
        lowest, highest = self.whole_ends
        inside = self.inverse(np.clip(whole, lowest, highest) + 0.5)
        return np.select([whole < lowest, whole >= highest], [-np.inf, np.inf], inside)

    def inverse(self, codes: Array) -> Array:
        """The numbers on the scale that ``within`` takes to these codes."""
        return self.scale.apply(codes, *NO_PLACES)

    def outside(self, numbers: Array) -> Mask:
        """Which numbers are not allowed."""
        return (numbers < self.lower) | (numbers > self.upper)

    @classmethod
    def of(cls, column: Column, lower: float = -np.inf, upper: float = np.inf) -> "Numbers":
        """Numbers of a column, in a unit that suits it."""
        largest, unit = np.nanmax(np.abs(column.numbers)), 1.0
        if largest > 0.0 and not EXACT_SQUARES_RANGE[0] <= largest <= EXACT_SQUARES_RANGE[1]:
            unit = 2.0 ** (int(np.frexp(largest)[1]) - 1)
        return cls(column.whole, lower, upper, unit)

    def codes(self, column: Column) -> Array:
        """The numbers of a column (n_items,) in the unit, NaN where missing."""
        return column.numbers / self.unit

    def numbers_of(self, codes: Array) -> Array:
        """The numbers of a column, from their codes."""
        return codes * self.unit

    def limits(self, column: Column) -> KnownLimits | None:
        """The limits of codes that are known of cells without a number, within the bounds."""
        if column.limits is None:
            return None
        limits = self.limits_of(column.limits)
        return limits.within(self.lower / self.unit, self.upper / self.unit)

    def limits_of(self, limits: KnownLimits) -> KnownLimits:
        """The limits of codes."""
        return limits.over(self.unit)

    def limits_on_scale(self, limits: KnownLimits, whole: bool) -> KnownLimits:
        """The limits of numbers on the scale from those of codes.

        Of codes that are rounded to whole ones those of what is rounded to them. An end of the
        support is no limit there.
        """
        if whole:
            limits = KnownLimits(limits.whole.lower - 0.5, limits.whole.upper + 0.5)
        lower, upper = limits.lower, limits.upper
        if len(self.scale):
            lower = np.where(lower > self.support[0], lower, -np.inf)
            upper = np.where(upper < self.support[1], upper, np.inf)
        ends, scale = np.array([lower, upper]), self.scale.of_limits
        finite = np.isfinite(ends)
        ends[finite] = scale.apply(ends[finite], *NO_PLACES)
        return KnownLimits(*ends)

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

    @property
    def scale_in_words(self) -> str:
        """The scale, without the standard units that are its last step."""
        return str(Chain(self.scale.transforms[:-1]))

    @property
    def reads_variances(self) -> bool:
        """True on another scale, where a mean depends on how far the numbers are spread."""
        return len(self.scale) > 0

    def numbers(self, codes: Array) -> Array:
        """The codes on the scale (n_items x 1), NaN where missing."""
        return self.scale.apply(codes, *NO_PLACES)[:, None]

    def within(self, numbers: Array) -> Array:
        """The codes of numbers on the scale, within the bounds."""
        codes = np.clip(self.scale.invert(numbers, *NO_PLACES), *self.support)
        return np.clip(codes, self.lower / self.unit, self.upper / self.unit)

    def log_slopes(self, codes: Array) -> Array | float:
        """The logarithm of the derivative of the scale at codes."""
        return self.scale.log_derivative(codes, *NO_PLACES)

    def decode(self, means: Array, variances: Array | None = None) -> Array:
        """The mean response in the column's own unit, within the bounds.

        On another scale that of a normal distribution with these moments, or its median where
        there are no variances.
        """
        if variances is None or not len(self.scale):
            return self.within(means[:, 0])
        return self.moment(means, variances, 1)

    def moment(self, means: Array, variances: Array, power: int) -> Array:
        """The mean of a power of a code that is normal on the scale, or has the shape there."""
        points, shares = normal_nodes(QUADRATURE_NODES)
        if self.shape is not None:
            points = self.shape.apply(points)
        nodes = means[:, -1] + np.sqrt(variances[:, -1]) * points[:, None]
        mean: Array = shares @ self.within(nodes) ** power
        return mean

    def predicted(self, answer: Array) -> Array:
        """The mean response itself."""
        return answer

    def expected(self, posterior: Any, block: str, cells: Cells, power: int = 1) -> Array:
        """The mean of a power of a new code under a posterior, at the cells of the column."""
        if self.shape is not None and len(self.scale):
            raw = RawPredictions.of(posterior, block, *cells)
            assert raw.variances is not None  # of a posterior
            return self.moment(raw.means, raw.variances, power)
        return np.asarray(
            posterior.expected(block, lambda numbers: self.within(numbers) ** power, *cells)
        )

    def deviations(self, posterior: Any, block: str, cells: Cells) -> Array:
        """The standard deviations of new codes under a posterior, at the cells of the column."""
        if not self.reads_variances:
            return np.asarray(posterior.sd(block, *cells))
        mean = self.expected(posterior, block, cells)
        squares = self.expected(posterior, block, cells, 2)
        return np.sqrt(np.maximum(squares - np.square(mean), 0.0))

    def ends(
        self, posterior: Posterior, block: str, cells: Cells, level: float, whole: bool
    ) -> tuple[Array, Array]:
        """The ends of intervals of new codes under a posterior, at the cells of the column.

        If they are ``whole``, of the whole codes nearest to them.
        """
        if self.shape is not None:
            means, deviations = (ask(block, *cells) for ask in (posterior.predict, posterior.sd))
            return self.ends_by_shape(self.shape, means, deviations, level, whole)
        if whole:
            return rounded_interval(posterior, block, level, self.rounded, self.edges, *cells)
        lower, upper = (self.within(end) for end in posterior.interval(block, level, *cells))
        return lower, upper

    def ends_by_shape(
        self, shape: ErrorShape, means: Array, deviations: Array, level: float, whole: bool
    ) -> tuple[Array, Array]:
        """The ends of intervals of codes with these moments on the scale, whose errors have it."""

        def quantile(share: float | Array) -> Array:
            numbers = means + deviations * shape.quantile(np.clip(share, EPS, 1.0 - EPS))
            return self.rounded(numbers) if whole else self.within(numbers)

        def cdf(codes: Array) -> Array:
            return np.asarray(ndtr(shape.invert((self.edges(codes) - means) / deviations)))

        level = Options.level(level)
        if whole:
            lower, upper = interval_of_whole_numbers(level, cdf, quantile).T
            return lower, upper
        return quantile(0.5 - 0.5 * level), quantile(0.5 + 0.5 * level)

    def losses(self, answer: Array, codes: Array) -> Array:
        """The loss of a prediction at each of the observed numbers."""
        return self.errors(answer, codes)

    def constant(self, codes: Array, weights: Array | None = None) -> float:
        """The mean: the one number for all observed ones that has the least error."""
        return float(np.average(codes, weights=weights))

    def constant_answer(self, codes: Array, weights: Array | None = None) -> Array:
        """The answer (1,) that is the same everywhere: the mean."""
        return np.array([self.constant(codes, weights)])

    def errors(self, predicted: Array, codes: Array) -> Array:
        """Squares of the differences, 0 where predictions are right."""
        return np.square(predicted - codes)

    def error(self, mean: float) -> float:
        """The root of the mean square, in the data's own unit."""
        return float(np.sqrt(mean)) * self.unit


@stored
@attrs.frozen
class Counts(Numbers):
    """Counts; the loss is half the deviance of Poisson, ``y log(y / mean) - y + mean``."""

    rule = "; counts are whole numbers from 0"
    has_scale = False

    @property
    def is_whole(self) -> bool:
        """True: counts are whole numbers."""
        return True

    def outside(self, numbers: Array) -> Mask:
        """Which numbers are not counts."""
        return (numbers < 0.0) | (np.floor(numbers) != numbers)

    def losses(self, answer: Array, codes: Array) -> Array:
        """Half the deviance, above 0 at means that are kept off 0, and 0 at a mean of 0."""
        mean = np.maximum(answer, TINY)
        excess = np.maximum(answer, 0.0) - codes  # 0 where 0 is answered of 0
        return np.asarray(xlogy(codes, codes / mean) + excess)

    def constant_answer(self, codes: Array, weights: Array | None = None) -> Array:
        """The mean, of half a count where all are 0: a count above 0 is no impossibility."""
        return np.maximum(super().constant_answer(codes, weights), 0.5 / codes.size)


@stored
@attrs.frozen
class CountedNumbers(Counts):
    """Counts as numbers: a mean m below a bend b, half of the column's mean, is b exp(m / b - 1).

    So it stays above 0, where no count has a likelihood.
    """

    bend: float = attrs.field(kw_only=True)

    def within(self, numbers: Array) -> Array:
        """The means or ends of intervals, above 0."""
        m = numbers
        if self.bend == 0.0:  # of a column of zeros
            return np.maximum(m, 0.0)
        return np.where(m > self.bend, m, self.bend * np.exp(np.minimum(m / self.bend, 1.0) - 1.0))

    @property
    def whole_ends(self) -> tuple[float, float]:
        """0, and the largest count that the column holds."""
        return 0.0, super().whole_ends[1]

    def inverse(self, codes: Array) -> Array:
        """The numbers that ``within`` takes to these counts."""
        if self.bend == 0.0:
            return codes
        below = self.bend * (1.0 + np.log(np.maximum(codes, TINY) / self.bend))
        return np.where(codes > self.bend, codes, below)


@stored
@attrs.frozen
class Choice(BaseCoding):
    """One of several values as its place among them: 0, 1, 2, ...

    Parameters
    ----------
    places : tuple
        The values; every other one is missing.
    """

    places: tuple[Any, ...]

    measure = "share wrong"

    @property
    def is_drawn_last(self) -> bool:
        """True: a place is drawn."""
        return True

    def codes(self, column: Column) -> Array:
        """The place of each value, NaN where missing."""
        code_of = {value: float(code) for code, value in enumerate(self.places)}
        values, places = column.places_of_values
        return np.array([code_of.get(value, np.nan) for value in values])[places]

    def values(self, codes: Array) -> list[Any]:
        """The values at these places."""
        return [self.places[int(code)] for code in codes]

    def decode(self, means: Array, variances: Array | None = None) -> Array:
        """The probability of each class, or 1 - p and p of a label.

        None is rounded to 0 or 1, which no finite predictor has.
        """
        p = means if means.shape[1] > 1 else np.hstack([1.0 - means, means])
        return np.clip(p, *PROBABILITY_LIMITS)

    def predicted(self, answer: Array) -> Array:
        """The most probable value, the first one where several are."""
        return np.argmax(answer, axis=1).astype(np.float64)

    def losses(self, answer: Array, codes: Array) -> Array:
        """-log of the probability, kept so far off 0 that no entry outweighs all others."""
        chosen = answer[np.arange(codes.size), codes.astype(np.intp)]
        return -np.log(np.maximum(chosen, LEAST_PROBABILITY))

    def expected_errors(self, answer: Array) -> Array:
        """The errors of the filled values that an answer expects, by the measure."""
        errors = self.errors(self.predicted(answer)[:, None], np.arange(float(answer.shape[1])))
        expected: Array = np.sum(np.multiply(answer, errors), axis=1)
        return expected

    def constant(self, codes: Array, weights: Array | None = None) -> float:
        """The value with the least sum of errors, the first one where several have it.

        The most frequent value; of levels the median, the lower one of two.
        """
        counts = np.bincount(codes.astype(np.intp), weights)
        values = np.arange(float(counts.size))
        return float(np.argmin(self.errors(values[:, None], values) @ counts))

    def constant_answer(self, codes: Array, weights: Array | None = None) -> Array:
        """The probabilities (1 x K) that are the same everywhere: shares, each with half more."""
        counts = np.bincount(codes.astype(np.intp), weights, len(self.places)) + 0.5
        shares: Array = counts[None] / np.sum(counts)
        return shares

    def errors(self, predicted: Array, codes: Array) -> Array:
        """1 where they are wrong."""
        return (predicted != codes).astype(np.float64)


@stored
@attrs.frozen
class Levels(Choice):
    """One of several ordered values, from the lowest."""

    measure = "mean levels off"

    def errors(self, predicted: Array, codes: Array) -> Array:
        """The number of levels between."""
        return np.abs(predicted - codes)


@stored
@attrs.frozen
class Constant(Choice):
    """The one value of a column, which is certain of every entry; its code is 0."""

    def codes(self, column: Column) -> Array:
        """0 where a value is observed, whatever it is in new rows; NaN where it is missing."""
        return np.where(column.missing, np.nan, 0.0)

    def values(self, codes: Array) -> list[Any]:
        """The value, of each code."""
        return list(self.places) * codes.size

    def decode(self, means: Array, variances: Array | None = None) -> Array:
        """The probability 1 (n_entries x 1)."""
        return np.ones((len(means), 1))


Coding = Numbers | Choice
