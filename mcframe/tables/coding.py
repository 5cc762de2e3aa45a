"""Values of a column as the numbers that its likelihood reads, and the way back from a fit."""

import datetime as dt
import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import attrs
import numpy as np
from scipy.special import entr, xlogy

from mcframe.answer import Fit
from mcframe.contracts.arrays import Array, IntArray
from mcframe.tables.columns import Column

DAY = 86_400e6  # microseconds
LEAST_PROBABILITY = 1e-4
# Between these the squares of the numbers of a column, and of what they differ by, are exact.
SAFE = (1e-100, 1e100)
EPOCH = dt.datetime(1970, 1, 1)


class Coded(ABC):
    """The way from a column's values to numbers, and back: what ``Numbers`` and ``Choice`` share.

    An *answer* is what a fit says of entries: means, or probabilities (n_entries x n_values).
    ``measure`` says in words what ``error`` is. The columns of a block have codings of one class,
    whose answers are alike.
    """

    measure: ClassVar[str]

    @property
    def width(self) -> int:
        """How many columns of a block the column takes."""
        return 1

    def numbers(self, codes: Array) -> Array:
        """What these columns hold (n_items x width), NaN where missing."""
        return codes[:, None]

    @abstractmethod
    def read(self, means: Array) -> Array:
        """The answer that mean responses (n_entries x width) give."""

    @abstractmethod
    def predicted(self, answer: Array) -> Array:
        """The codes that entries are filled with, of an answer."""

    def answer(self, fit: Fit, block: str, rows: IntArray, columns: IntArray) -> Array:
        """What a fit says of some entries of a block: one row, or one number, for each."""
        means = [fit.predict(block, rows, columns + k) for k in range(self.width)]
        return self.read(np.column_stack(means))

    def filled_codes(self, filled: Array, place: int) -> Array:
        """The codes of a column of a filled block (n_items x columns of the block)."""
        return self.predicted(self.read(filled[:, place : place + self.width]))

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
        return [min(max(round(code), lowest), highest) for code in codes.tolist()]

    def read(self, means: Array) -> Array:
        """The mean response, within the bounds."""
        return np.clip(means[:, 0], self.lower / self.unit, self.upper / self.unit)

    def predicted(self, answer: Array) -> Array:
        """The mean response itself."""
        return answer

    def losses(self, answer: Array, codes: Array) -> Array:
        """What an answer loses on observed numbers, one loss each."""
        return self.errors(answer, codes)

    def loss_of_constant(self, codes: Array) -> float:
        """The variance: what the best constant loses on observed numbers, on average."""
        return float(np.mean(np.square(codes - np.mean(codes))))

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

    def losses(self, answer: Array, codes: Array) -> Array:
        """Half the deviance, at means that are kept off 0."""
        mean = np.maximum(answer, np.finfo(float).tiny)
        return np.asarray(xlogy(codes, codes / mean) - codes + mean)

    def loss_of_constant(self, codes: Array) -> float:
        """Half the deviance around the mean."""
        return float(np.mean(xlogy(codes, codes / np.mean(codes))))


@attrs.frozen
class Dates(Numbers):
    """Days since a centre, which is one of the dates: exact to a microsecond within 285 years.

    Parameters
    ----------
    centre : float
        Microseconds since 1970, in UTC where the dates have a time zone.
    form : "date", "time" or "zoned time"
        Days alone; points in time without a zone, and with one.
    """

    centre: float = attrs.field(kw_only=True)
    form: str = attrs.field(kw_only=True)

    measure = "root mean square, days"

    def codes(self, column: Column) -> Array:
        """Days since the centre."""
        return (column.numbers - self.centre) / DAY

    def values(self, codes: Array) -> list[Any]:
        """Dates, or points in time, in UTC where there is a zone."""
        times = [
            EPOCH + dt.timedelta(microseconds=round(self.centre + DAY * code))
            for code in codes.tolist()
        ]
        if self.form == "date":
            half = dt.timedelta(hours=12)
            return [(time + half).date() for time in times]
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

    def read(self, means: Array) -> Array:
        """The probability of each class, or 1 - p and p of a label."""
        return means if means.shape[1] > 1 else np.hstack([1.0 - means, means])

    def filled_codes(self, filled: Array, place: int) -> Array:
        """What the column is filled with, which are codes."""
        return filled[:, place]

    def predicted(self, answer: Array) -> Array:
        """The most probable value, the first one where several are."""
        return np.argmax(answer, axis=1).astype(np.float64)

    def losses(self, answer: Array, codes: Array) -> Array:
        """-log of the probability, kept so far off 0 that no entry outweighs all others."""
        chosen = answer[np.arange(codes.size), codes.astype(np.intp)]
        return -np.log(np.maximum(chosen, LEAST_PROBABILITY))

    def loss_of_constant(self, codes: Array) -> float:
        """The entropy of the shares of the values."""
        return float(np.sum(entr(np.bincount(codes.astype(np.intp)) / codes.size)))

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

    def answer(self, fit: Fit, block: str, rows: IntArray, columns: IntArray) -> Array:
        """exp(-loss) of each level: the loss is the whole negative log-likelihood."""
        likelihood, z = fit.likelihood(block), np.asarray(fit.natural(block, rows, columns))
        levels = np.arange(float(len(self.places)))
        losses = [likelihood.value(z, np.full(z.shape, level)) for level in levels]
        return np.exp(-np.column_stack(losses))

    def constant(self, codes: Array) -> float:
        """The median, the lower one of two."""
        return float(np.sort(codes)[(codes.size - 1) // 2])

    def errors(self, predicted: Array, codes: Array) -> Array:
        """How many levels lie between."""
        return np.abs(predicted - codes)


Coding = Numbers | Choice
