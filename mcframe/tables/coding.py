"""Values of a column as the numbers that its likelihood reads, and the way back from a fit."""

import datetime as dt
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Self, TypeVar

import attrs
import numpy as np
from scipy.special import ndtr, ndtri, softmax, xlogy

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.likelihood import ValueKind
from mcframe.contracts.limits import BISECTIONS, MOST_STEPS
from mcframe.contracts.rounding import EPS, RESULT_ROUNDING, SUM_ROUNDING, TINY
from mcframe.contracts.stored_classes import stored
from mcframe.model.transforms import Chain
from mcframe.posterior.answer import Posterior, rounded_interval
from mcframe.posterior.predictive import (
    QUADRATURE_NODES,
    interval_of_whole_numbers,
    normal_nodes,
)
from mcframe.runtime.machine import limits_blas
from mcframe.tables.columns import Column

DAY_MICROSECONDS = 86_400e6
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
EPOCH = dt.datetime(1970, 1, 1)
# A day after the first, and a day before the last date of Python, in microseconds.
EARLIEST_DATE, LATEST_DATE = (
    (dt.datetime(*day) - EPOCH) / dt.timedelta(microseconds=1)
    for day in ((1, 1, 2), (9999, 12, 30))
)


# Rows and columns of a block, a cell for each number of an entry.
Cells = tuple[IntArray, IntArray]


@attrs.frozen(eq=False)
class RawPredictions:
    """Predictions of entries of one block by a fit or a posterior, before they are decoded.

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
        if likelihood.kind is ValueKind.LEVEL:
            return cls(probabilities_of_levels(fit, block, rows, columns))
        predicted = np.asarray(fit.predict(block, rows, columns))
        means = predicted.reshape(rows.size, likelihood.width)
        units = fit.problem.tables[block].units
        if not (is_posterior and with_variances and units):
            return cls(means)
        unit = units.unit(columns)
        if unit is None:
            return cls(means)
        variances = np.square(fit.sd(block, rows, columns) / unit)
        return cls(means, variances.reshape(means.shape))

    def of_rows(self, entries: slice, n_rows: int, width: int) -> "RawPredictions":
        """Some of the entries, the ``width`` of a row side by side (n_rows x width)."""
        return RawPredictions(
            *(part[entries].reshape(n_rows, width * part.shape[1]) for part in self.parts)
        )

    def at(self, rows: Mask | slice) -> "RawPredictions":
        """Return the predictions of some of the rows."""
        return RawPredictions(*(part[rows] for part in self.parts))

    @property
    def parts(self) -> list[Array]:
        """Means, and variances if they are known."""
        return [self.means] if self.variances is None else [self.means, self.variances]

    def split(self, count: int) -> list["RawPredictions"]:
        """So many parts of equally many columns."""
        columns = (np.hsplit(part, count) for part in self.parts)
        return [RawPredictions(*parts) for parts in zip(*columns, strict=True)]


def joined(raw: Iterable[RawPredictions]) -> RawPredictions:
    """Raw predictions of a column, one after the other."""
    parts = zip(*(prediction.parts for prediction in raw), strict=True)
    return RawPredictions(*(np.concatenate(part) for part in parts))


def probabilities_of_levels(fit: Any, block: str, rows: IntArray, columns: IntArray) -> Array:
    """The probability of each level; of a fit exp(-loss), the negative log-likelihood."""
    if isinstance(fit, Posterior):
        return fit.probabilities(block, rows, columns)
    likelihood, z = fit.likelihood(block), np.asarray(fit.natural(block, rows, columns))
    losses = [likelihood.value(z, np.full(z.shape, level)) for level in likelihood.values]
    return np.exp(-np.column_stack(losses))


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

    def filling(self, codes: Array) -> Self:
        """The coding whose best value is that of these codes, everywhere, if it is fitted."""
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
    """

    whole: tuple[int, int] | None = None
    lower: float = -np.inf
    upper: float = np.inf
    unit: float = 1.0
    scale: Chain = AS_IN_THE_DATA
    scale_gain: float = 0.0
    support: tuple[float, float] = (-np.inf, np.inf)

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
        """The mean of a power of a code that is normal on the scale."""
        points, shares = normal_nodes(QUADRATURE_NODES)
        nodes = means[:, -1] + np.sqrt(variances[:, -1]) * points[:, None]
        mean: Array = shares @ self.within(nodes) ** power
        return mean

    def predicted(self, answer: Array) -> Array:
        """The mean response itself."""
        return answer

    def expected(self, posterior: Any, block: str, cells: Cells, power: int = 1) -> Array:
        """The mean of a power of a new code under a posterior, at the cells of the column."""
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
        if whole:
            return rounded_interval(posterior, block, level, self.rounded, self.edges, *cells)
        lower, upper = (self.within(end) for end in posterior.interval(block, level, *cells))
        return lower, upper

    def losses(self, answer: Array, codes: Array) -> Array:
        """The loss of a prediction at each of the observed numbers."""
        return self.errors(answer, codes)

    def constant(self, codes: Array) -> float:
        """The mean: the one number for all observed ones that has the least error."""
        return float(np.mean(codes))

    def constant_answer(self, codes: Array) -> Array:
        """The answer (1,) that is the same everywhere: the mean."""
        return np.array([self.constant(codes)])

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

    def constant_answer(self, codes: Array) -> Array:
        """The mean, of half a count where all are 0: a count above 0 is no impossibility."""
        return np.maximum(super().constant_answer(codes), 0.5 / codes.size)


@stored
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
    furthest: float = attrs.field(default=LATEST_DATE, kw_only=True)

    measure = "root mean square, days"
    has_scale = False

    def codes(self, column: Column) -> Array:
        """Days since the centre."""
        return (column.numbers - self.centre) / DAY_MICROSECONDS

    def values(self, codes: Array) -> list[Any]:
        """Dates, or points in time, in UTC where there is a zone."""
        ends = max(EARLIEST_DATE, -self.furthest), min(LATEST_DATE, self.furthest)
        moments = self.step * np.rint((self.centre + DAY_MICROSECONDS * codes) / self.step)
        moments = np.clip(moments, *ends).tolist()
        times = [EPOCH + dt.timedelta(microseconds=round(moment)) for moment in moments]
        if self.form == "date":
            return [time.date() for time in times]
        if self.form == "zoned time":
            return [time.replace(tzinfo=dt.UTC) for time in times]
        return list(times)


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
        return np.array([code_of.get(value, np.nan) for value in column.values])

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

    def constant(self, codes: Array) -> float:
        """The value with the least sum of errors, the first one where several have it.

        The most frequent value; of levels the median, the lower one of two.
        """
        counts = np.bincount(codes.astype(np.intp))
        values = np.arange(float(counts.size))
        return float(np.argmin(self.errors(values[:, None], values) @ counts))

    def constant_answer(self, codes: Array) -> Array:
        """The probabilities (1 x K) that are the same everywhere: shares, each with half more."""
        counts = np.bincount(codes.astype(np.intp), minlength=len(self.places)) + 0.5
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


CodingT = TypeVar("CodingT", bound=Coding)

NUMBERS_BLOCK = "columns"
# The mean of the prior of slopes, taken if nothing was held out; in nine mixed tables slopes were
# 1 to 9.
PRIOR_SLOPE = 4.0
# The largest slope: entries that are classified without an error have no finite best one.
LARGEST_SLOPE = 150.0
# The standard deviation of the Gaussian priors of the slope, relative to ``PRIOR_SLOPE``, and of
# each offset.
PRIOR_DEVIATION = 1.0
# The limits of the unexplained share of a variance, and the smallest variance of the classes of a
# discriminant, for entries of which more is explained than of held-out ones.
# Of labels under mixtures in 11 simulated tables, 0.2 lost 3 % less than 0.01 and 0.05.
LEAST_UNEXPLAINED_SHARE, MOST_UNEXPLAINED_SHARE, LEAST_CLASS_VARIANCE = 0.2, 0.99, 0.5
# The ridge that is added to the variances of a discriminant, as a share of their mean.
DISCRIMINANT_RIDGE = 0.05


@stored
@attrs.frozen
class Indicator(Choice):
    """One of K values, its probabilities ``exp(score_k)`` over their sum.

    The second of two values is the number 1, the first 0. With slope a and offsets o from held-out
    entries, and the shares of the values, the score of place k at a mean m is

        log share_k + a r (2 (k - c) (m - c) - e (k - c)^2) + (e / e_0) o_k,   r = T_0 / T,

    where T is the conditional variance of the number, as a share of its variance over all rows,
    e = 1 - T what is explained of it, and T_0, e_0 are their means over held-out entries; c is the
    mean of the places. A row of which nothing is known (e = 0) has the shares for probabilities.
    At T_0 this is, for a label, a logistic curve of the mean (Platt, Probabilistic outputs for
    support vector machines, 1999), and for levels the adjacent-categories logit model. That slopes
    grow as 1 / T, and differences of means as e, is so for indicators under one Gaussian. Offsets,
    which correct for what is not Gaussian, do not grow as T vanishes: a number that is known
    stands for its own value.

    Parameters
    ----------
    slope : float
        0 gives the same probabilities everywhere.
    offsets : tuple of K floats
        Empty: 0 of each value.
    fill : float or None
        The place that is to be the best value of every entry, where no better answer was found on
        held-out entries: probabilities are drawn to ``fill_shares`` as far as it is.
    fill_shares : tuple of K floats
    shares : tuple of K floats
        Empty: nothing was held out, and scores are ``-a (k - m)^2 + o_k``.
    reference_variance : float
        T_0.
    most_explained : float
        The largest e / e_0 of a held-out entry. Beyond it nothing was seen, and e counts as this
        times e_0.
    smoothing : float
        The share of the shares in all probabilities: of n held-out entries 1 / (n + 2), which is
        the chance of an error after n answers without one (Laplace's rule of succession).
    """

    slope: float = PRIOR_SLOPE
    offsets: tuple[float, ...] = ()
    fill: float | None = None
    fill_shares: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    reference_variance: float = 0.5
    most_explained: float = np.inf
    smoothing: float = 0.0

    usual_slope: ClassVar[float] = PRIOR_SLOPE

    @property
    def reads_variances(self) -> bool:
        """True: the less a row says, the nearer are probabilities to the shares."""
        return True

    def explained_share(self, variances: Array | None) -> Array:
        """The explained share of entries, from 0 to 1 (n, or 1 if it is the reference)."""
        reference = 1.0 - self.reference_variance
        if variances is None:
            return np.array([reference])
        explained = 1.0 - np.clip(self.variance_of_place(variances), LEAST_UNEXPLAINED_SHARE, 1.0)
        return np.minimum(explained, self.most_explained * reference)

    def as_constant(self, codes: Array) -> Self:
        """The coding that answers the same everywhere, by these codes."""
        return type(self)(self.places, 0.0, tuple(np.log(self.constant_answer(codes)[0]).tolist()))

    def filling(self, codes: Array) -> Self:
        """The coding whose best value is that of these codes, everywhere."""
        shares = np.bincount(codes.astype(np.intp), minlength=len(self.places)) / codes.size
        fill = float(self.predicted(shares[None])[0])
        return attrs.evolve(self, fill=fill, fill_shares=tuple(shares.tolist()))

    def variance_of_place(self, variances: Array) -> Array:
        """One variance for each entry (n,), of those of its numbers (n x width)."""
        return variances[:, 0]

    def with_reference(self, variances: Array | None) -> Self:
        """The coding for which these are variances of held-out entries (n x width)."""
        if variances is None or not len(variances):
            return self
        explained = attrs.evolve(self, most_explained=np.inf).explained_share(variances)
        reference = max(float(np.mean(explained)), 1.0 - MOST_UNEXPLAINED_SHARE)
        most = max(float(np.max(explained)) / reference, 1.0)
        return attrs.evolve(self, reference_variance=1.0 - reference, most_explained=most)

    def scores(self, means: Array, variances: Array | None = None) -> tuple[Array, Array]:
        """The coefficients of the slope (n x K) and of the offsets (n or 1) in the logits."""
        places = np.arange(len(self.places))
        if not self.shares:
            return -np.square(places - means), np.ones(1)
        explained, centre = self.explained_share(variances), places @ np.array(self.shares)
        variance_ratio = self.reference_variance / (1.0 - explained)
        centred = places - centre
        scores = 2.0 * centred * (means - centre) - explained[:, None] * centred**2
        return variance_ratio[:, None] * scores, explained / (1.0 - self.reference_variance)

    @property
    def log_shares(self) -> Array:
        """The logarithms of the shares, 0 without any."""
        return np.log(self.shares) if self.shares else np.zeros(len(self.places))

    def decode(self, means: Array, variances: Array | None = None) -> Array:
        """The probability of each value."""
        scores, offset_factors = self.scores(means, variances)
        offsets = offset_factors[:, None] * np.array(self.offsets or [0.0])
        p = softmax(self.log_shares + self.slope * scores + offsets, axis=1)
        if self.smoothing:
            p = (1.0 - self.smoothing) * p + self.smoothing * np.array(self.shares)
        p = np.clip(p, *PROBABILITY_LIMITS)
        return p if self.fill is None else self.drawn_to_fill(p)

    def drawn_to_fill(self, p: Array) -> Array:
        """Probabilities on the line from these to ``fill_shares`` (n x K).

        The first ones on it of which ``fill`` is the best value, as it is of ``fill_shares``.
        """
        assert self.fill is not None
        place, shares = int(self.fill), np.array(self.fill_shares)
        at_p, at_shares = (self.margins(values, place) for values in (p, shares[None]))
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = np.where(at_p < 0.0, at_shares / (at_shares - at_p), 1.0)
        share_of_p = np.min(np.clip(parts, 0.0, 1.0), axis=1, keepdims=True)
        share_of_p = np.where(share_of_p < 1.0, (1.0 - RESULT_ROUNDING) * share_of_p, 1.0)
        return share_of_p * p + (1.0 - share_of_p) * shares

    def margins(self, p: Array, place: int) -> Array:
        """Linear functions of p (n x any), none of them negative where the place is the best."""
        return p[:, [place]] - p


@stored
@attrs.frozen
class Steps(Indicator, Levels):
    """Levels as the numbers 0, 1, ..."""

    def predicted(self, answer: Array) -> Array:
        """The median of the probabilities, which is the fewest levels off."""
        return np.argmax(np.cumsum(answer, axis=1) >= 0.5, axis=1).astype(np.float64)

    def margins(self, p: Array, place: int) -> Array:
        """1/2 less the probability of lower levels, and that up to this level less 1/2 (n x 2)."""
        heights = np.cumsum(p, axis=1)
        below = 0.5 - heights[:, place - 1 : place]
        return np.hstack([below, heights[:, place : place + 1] - 0.5])


@stored
@attrs.frozen(eq=False)
class Discriminant:
    """Gaussian means of classes with one covariance: linear discriminant analysis (Fisher, 1936).

    The points are predicted indicators of the classes, and those of held-out entries of a class
    lie around its centre. A class between two others may nowhere have the largest indicator, but
    it has a centre (Hastie, Tibshirani and Friedman, The Elements of Statistical Learning,
    2nd edition, 2009, section 4.2).

    Of an entry of which r times as much is explained as of the held-out ones on average,
    predictions lie around ``middle + r (centre - middle)`` with the covariance ``r (W + (1 - r)
    B)``, where W and B are those within and between classes at r = 1: so it is under one Gaussian.

    Attributes
    ----------
    middle : array (K,)
        What is predicted on average.
    root : array (K x K)
        It takes W to the identity and B to ``spread``, a diagonal.
    spread : array (K,)
    centres : array (K x K)
        The centres about the middle, class by class, by this root.
    reference : float
        The share that is explained of held-out entries on average.
    """

    middle: Array
    root: Array
    spread: Array
    centres: Array
    reference: float

    @classmethod
    def of(cls, means: Array, explained: Array, codes: Array, n_classes: int) -> "Discriminant":
        """Fit one to held-out means (n x K); each class has one more entry, at the middle."""
        explained = np.maximum(explained, 1.0 - MOST_UNEXPLAINED_SHARE)
        reference = float(np.mean(explained))
        relative = np.broadcast_to(explained, codes.shape) / reference
        middle, counts = np.mean(means, axis=0), np.empty(n_classes)
        centres, residuals = np.empty((n_classes, n_classes)), np.empty_like(means)
        for k in range(n_classes):
            members = codes == k
            counts[k] = np.count_nonzero(members)
            differences = means[members] - middle
            centres[k] = np.sum(differences, axis=0) / (np.sum(relative[members]) + 1.0)
            residuals[members] = differences - relative[members][:, None] * centres[k]
        within = residuals.T @ residuals / np.sum(relative)
        # The K columns add up to 1, so that there is no variance in one direction.
        ridge = max(DISCRIMINANT_RIDGE * float(np.trace(within)) / n_classes, TINY)
        half = np.linalg.inv(np.linalg.cholesky(within + ridge * np.eye(n_classes)))
        shares = counts / np.sum(counts)
        between = half @ (shares * centres.T) @ centres @ half.T
        spread, vectors = np.linalg.eigh(between)
        root = vectors.T @ half
        spread = np.maximum(spread, 0.0)
        return cls(middle, root, spread, centres @ root.T, reference)

    def scores(self, means: Array, explained: Array) -> Array:
        """The logarithm of the density of means of each class, up to a constant (n x K)."""
        relative = (explained / self.reference)[:, None]
        widths = np.maximum(1.0 + (1.0 - relative) * self.spread, LEAST_CLASS_VARIANCE)
        differences = (means - self.middle) @ self.root.T / widths
        return differences @ self.centres.T - 0.5 * relative / widths @ self.centres.T**2


@stored
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
        indicators = (codes[:, None] == np.arange(self.width)).astype(np.float64)
        indicators[np.isnan(codes)] = np.nan
        return indicators

    def variance_of_place(self, variances: Array) -> Array:
        """The unexplained variance of all indicators together, as a share of their variances."""
        shares = np.array(self.shares or np.full(self.width, 1.0 / self.width))
        counts = shares * (1.0 - shares)
        unexplained: Array = variances @ counts / np.sum(counts)
        return unexplained

    def with_reference(self, variances: Array | None) -> Self:
        """The coding for which these are variances of held-out entries (n x width)."""
        coding = super().with_reference(variances)
        if self.discriminant is None:
            return coding
        reference = 1.0 - coding.reference_variance
        discriminant = attrs.evolve(self.discriminant, reference=reference)
        return attrs.evolve(coding, discriminant=discriminant)

    def scores(self, means: Array, variances: Array | None = None) -> tuple[Array, Array]:
        """The logarithm of the density of each class, or its mean."""
        if self.discriminant is None:
            return means, np.ones(1)
        explained = self.explained_share(variances)
        scores = self.discriminant.scores(means, explained)
        return scores, explained / self.discriminant.reference


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
class SemiContinuous(Numbers):
    """A value with a point mass, such as 0, or else a continuous number: two numbers of a block.

    The first one is 1 where the code is another than the ``atom``, and 0 where it is not. The
    second one is the code on the scale, missing where it is the atom (a two-part model: Duan and
    others, A comparison of alternative models for the demand for medical care, Journal of Business
    and Economic Statistics 1, 1983). The mean is ``(1 - p) atom + p m`` with p the probability of
    another value, by ``part``, and m the mean of these.

    Parameters
    ----------
    atom : float
    part : Indicator
        The probabilities of the atom and of another value.
    """

    atom: float = attrs.field(kw_only=True)
    part: Indicator = attrs.field(default=Indicator((False, True)), kw_only=True)

    @classmethod
    def at(cls, coding: Numbers, atom: float) -> "SemiContinuous":
        """A coding of numbers, with a point mass."""
        return cls(coding.whole, coding.lower, coding.upper, coding.unit, atom=atom)

    @property
    def scale_in_words(self) -> str:
        """The point mass, and the scale of other numbers."""
        scale = super().scale_in_words
        return f"{self.atom * self.unit:g} or {'x' if scale == str(Chain()) else scale}"

    @property
    def reads_variances(self) -> bool:
        """True: the probabilities do."""
        return True

    @property
    def is_drawn_last(self) -> bool:
        """True: first it is drawn whether it is the atom."""
        return True

    @property
    def width(self) -> int:
        """2: whether it is another number, and this number."""
        return 2

    def parts(self, codes: Array) -> Array:
        """1 where a code is another than the atom, 0 where it is not, NaN where it is missing."""
        return np.where(np.isnan(codes), np.nan, codes != self.atom)

    def numbers(self, codes: Array) -> Array:
        """The part of each code and its number on the scale (n_items x 2)."""
        others = np.where(codes == self.atom, np.nan, codes)
        return np.column_stack([self.parts(codes), self.scale.apply(others, *NO_PLACES)])

    def probability(self, means: Array, variances: Array | None) -> Array:
        """The probability of another value than the atom, of raw predictions (n x 2)."""
        first = None if variances is None else variances[:, :1]
        return self.part.decode(means[:, :1], first)[:, 1]

    def with_reference(self, variances: Array | None) -> Self:
        """The coding for which these are variances of held-out entries (n x 2)."""
        first = None if variances is None else variances[:, :1]
        return attrs.evolve(self, part=self.part.with_reference(first))

    def decode(self, means: Array, variances: Array | None = None) -> Array:
        """The mean response in the column's own unit."""
        others = means[:, 1:], None if variances is None else variances[:, 1:]
        mean = super().decode(*others)
        return self.mixed(self.probability(means, variances), mean, 1)

    def mixed(self, probability: Array, mean: Array, power: int) -> Array:
        """The mean of a power, from that of other values than the atom."""
        mixed: Array = (1.0 - probability) * self.atom**power + probability * mean
        return mixed

    def raw(self, posterior: Any, block: str, cells: Cells) -> RawPredictions:
        """Raw predictions of the entries (n x 2), whose cells stand side by side."""
        raw = RawPredictions.of(posterior, block, *cells)
        return raw.of_rows(slice(None), cells[0].size // 2, 2)

    def expected(self, posterior: Any, block: str, cells: Cells, power: int = 1) -> Array:
        """The mean of a power of a new code under a posterior."""
        raw, (rows, columns) = self.raw(posterior, block, cells), cells
        mean = super().expected(posterior, block, (rows[1::2], columns[1::2]), power)
        return self.mixed(self.probability(raw.means, raw.variances), mean, power)

    def ends(
        self, posterior: Posterior, block: str, cells: Cells, level: float, whole: bool
    ) -> tuple[Array, Array]:
        """As of ``Numbers``, by the quantiles of the distribution with a point mass."""
        raw = self.raw(posterior, block, cells)
        assert raw.variances is not None  # of a posterior
        p = self.probability(raw.means, raw.variances)
        means, deviations = raw.means[:, 1], np.sqrt(raw.variances[:, 1])
        below = p * ndtr((self.inverse(np.array([self.atom])) - means) / deviations)

        def quantile(u: float | Array) -> Array:
            past_atom = u > below + 1.0 - p
            shares = np.where(past_atom, u - (1.0 - p), u) / p
            others = means + deviations * ndtri(np.clip(shares, EPS, 1.0 - EPS))
            codes = self.rounded(others) if whole else self.within(others)
            return np.where((u > below) & ~past_atom, self.atom, codes)

        def cdf(whole: Array) -> Array:
            others = p * ndtr((self.edges(whole) - means) / deviations)
            return np.asarray(others + (1.0 - p) * (self.atom <= whole))

        if whole:
            return tuple(interval_of_whole_numbers(level, cdf, quantile).T)
        return quantile(0.5 - 0.5 * level), quantile(0.5 + 0.5 * level)


@limits_blas  # threads wait for one another at numbers as few as these
def calibrated(coding: CodingT, codes: Array, raw: RawPredictions) -> CodingT:
    """Return the coding with probabilities that fit held-out codes.

    Labels and levels get the coefficient and the offsets with the largest likelihood, classes
    their discriminant. A coding of numbers stays as it is.

    Parameters
    ----------
    codes : array (n,)
        Held-out values.
    raw : RawPredictions (n x width of the coding)
        What was predicted of them.
    """
    if isinstance(coding, SemiContinuous):
        part = RawPredictions(*(numbers[:, :1] for numbers in raw.parts))
        return attrs.evolve(coding, part=calibrated(coding.part, coding.parts(codes), part))
    if not codes.size or not isinstance(coding, Indicator):
        return coding
    places = codes.astype(np.intp)
    shares = tuple(coding.constant_answer(codes)[0].tolist())
    fitted = attrs.evolve(coding, shares=shares, smoothing=1.0 / (codes.size + 2.0))
    fitted = fitted.with_reference(raw.variances)
    if isinstance(fitted, Indicators):
        explained = fitted.explained_share(raw.variances)
        discriminant = Discriminant.of(raw.means, explained, codes, fitted.width)
        fitted = attrs.evolve(fitted, discriminant=discriminant)
    scores, offset_factors = fitted.scores(raw.means, raw.variances)
    slope, offsets = most_likely(
        scores, places, offset_factors, fitted.log_shares, fitted.usual_slope
    )
    return attrs.evolve(fitted, slope=slope, offsets=offsets)


@limits_blas  # threads wait for one another at numbers as few as these
def most_likely(
    scores: Array,
    codes: IntArray,
    offset_factors: Array | float = 1.0,
    log_shares: Array | float = 0.0,
    usual_slope: float = PRIOR_SLOPE,
) -> tuple[float, tuple[float, ...]]:
    """Return the slope and the offsets with the largest posterior density, given codes (n,).

    With slope a and offsets o the logits are ``log_shares + a scores + offset_factors o``
    (n x K). Gaussian priors hold the slope near ``usual_slope`` and offsets near 0 where there are
    few entries. Newton's method is used, since the loss is strictly convex and has few unknowns:
    the ratio of the slope to ``usual_slope``, and the offsets.
    """
    n, n_values = scores.shape
    largest_ratio, chosen = LARGEST_SLOPE / usual_slope, (np.arange(n), codes)
    scores, offset_factors = usual_slope * scores, np.broadcast_to(offset_factors, n)
    counts = np.bincount(codes, offset_factors, n_values)
    prior_mean = np.concatenate([[1.0], np.zeros(n_values)])

    def loss(unknowns: Array) -> tuple[float, Array]:
        """-log of the posterior density, and the probabilities of all values."""
        logits = log_shares + unknowns[0] * scores + offset_factors[:, None] * unknowns[1:]
        logits -= np.max(logits, axis=1, keepdims=True)
        p = np.exp(logits)
        sums = np.sum(p, axis=1)
        value = np.sum(np.log(sums)) - np.sum(logits[chosen])
        penalty = 0.5 * np.sum(np.square(unknowns - prior_mean)) / PRIOR_DEVIATION**2
        return float(value + penalty), p / sums[:, None]

    def newton_step(unknowns: Array, p: Array) -> tuple[Array, float]:
        """The step, at most to the bounds of the slope, and twice the decrease it promises."""
        weighted, expected = offset_factors[:, None] * p, np.sum(p * scores, axis=1)
        centred = scores - expected[:, None]
        gradient = (unknowns - prior_mean) / PRIOR_DEVIATION**2
        gradient[0] += np.sum(expected) - np.sum(scores[chosen])
        gradient[1:] += np.sum(weighted, axis=0) - counts
        hessian = np.eye(n_values + 1) / PRIOR_DEVIATION**2
        hessian[0, 0] += np.sum(p * np.square(centred))
        hessian[0, 1:] = hessian[1:, 0] = np.sum(weighted * centred, axis=0)
        hessian[1:, 1:] += np.diag(offset_factors @ weighted) - weighted.T @ weighted
        step = -np.linalg.solve(hessian, gradient)
        ratio = min(max(unknowns[0] + step[0], 0.0), largest_ratio)
        if abs(ratio - unknowns[0]) <= RESULT_ROUNDING:  # the slope stays at its bound
            step[0], step[1:] = 0.0, -np.linalg.solve(hessian[1:, 1:], gradient[1:])
            return step, -float(gradient @ step)
        return step * ((ratio - unknowns[0]) / step[0]), -float(gradient @ step)

    unknowns, (value, p) = prior_mean, loss(prior_mean)
    for _ in range(MOST_STEPS):
        step, decrease = newton_step(unknowns, p)
        if not decrease > SUM_ROUNDING * (1.0 + abs(value)):
            break
        for halvings in range(BISECTIONS):
            candidate = unknowns + 0.5**halvings * step
            candidate_value, candidate_p = loss(candidate)
            if candidate_value < value:
                break
        else:  # no more than rounding is left
            break
        unknowns, value, p = candidate, candidate_value, candidate_p
    return float(usual_slope * unknowns[0]), tuple(map(float, unknowns[1:]))
