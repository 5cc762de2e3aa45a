"""The type of a column, with its likelihood, its block and its coding."""

from collections import Counter
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.real_numbers import as_float, plain
from mcframe.likelihoods import Bernoulli, Gaussian, Multinomial, Ordinal, Poisson
from mcframe.tables.coding import Classes, Coding, Counts, Dates, Labels, Levels, Numbers
from mcframe.tables.columns import Column

__all__ = [
    "KINDS",
    "MOST_CLASSES",
    "Bounds",
    "Taken",
    "category",
    "count",
    "date",
    "label",
    "number",
    "ordinal",
]

# What ``types`` may say of a column, beside a list of levels and a likelihood.
KINDS = ("number", "count", "label", "category", "ordinal", "date", "skip")
# Classes of a column that the model has at most. A table tells little of rarer ones, and each is a
# column of the model.
MOST_CLASSES = 100


@attrs.frozen
class Taken:
    """The type of a column.

    Attributes
    ----------
    kind : str
        One of ``KINDS``, the class of a likelihood that was given, or "constant".
    why : str
    coding : Coding or None
        None of a column that is set aside or constant.
    likelihood : Likelihood or None
    block : str or None
        The block in which it stands.
    constant : list
        The only observed value of a constant column.
    """

    kind: str
    why: str
    coding: Coding | None = None
    likelihood: Likelihood | None = None
    block: str | None = None
    constant: list[Any] = attrs.field(factory=list)


@attrs.frozen
class Bounds:
    """Declared bounds of a number: ``("number", lower, upper)``."""

    lower: float = -np.inf
    upper: float = np.inf

    @classmethod
    def of(cls, given: Any) -> "Bounds | None":
        """The bounds that were given, None where there are none: a word, levels, a likelihood."""
        if not isinstance(given, list | tuple) or given[:1] not in (["number"], ("number",)):
            return None
        ends = [end for end in map(as_float, given[1:]) if end is not None]  # NaN for None
        if (len(given), len(ends)) != (3, 2):
            return None
        lower = -np.inf if np.isnan(ends[0]) else ends[0]
        upper = np.inf if np.isnan(ends[1]) else ends[1]
        return cls(lower, upper) if lower < upper else None

    def __str__(self) -> str:
        lowest = f" from {self.lower:g}" if self.lower > -np.inf else ""
        return f"numbers{lowest}" + (f" to {self.upper:g}" if self.upper < np.inf else "")


def number(column: Column, why: str, bounds: Bounds | None = None) -> Taken:
    """Gaussian, around the column's own centre; numbers with bounds have a block of their own."""
    coding, block = Numbers.of(column), "numbers"
    if bounds is not None:
        coding = Numbers.of(column, bounds.lower, bounds.upper)
        why, block = f"{why}, {bounds}", str(bounds)
        if coding.unit != 1.0:  # columns of a block have answers that are read alike
            block += f" of {plain(column.name)!r}"
    return Taken("number", why, coding, Gaussian(), block)


def count(column: Column, why: str) -> Taken:
    """Poisson: the model is of the logarithm of the mean."""
    return Taken("count", why, Counts(column.whole), Poisson(), "counts")


def date(column: Column, why: str) -> Taken:
    """Gaussian, in days since the observed date in the middle."""
    dtype, observed = column.series.dtype, np.sort(column.numbers[~column.missing])
    zoned = getattr(dtype, "time_zone", None) is not None
    form = "date" if dtype == nw.Date else "zoned time" if zoned else "time"
    coding = Dates(float(observed[observed.size // 2]), form)
    return Taken("date", why, coding, Gaussian(), "numbers")


def label(column: Column, why: str) -> Taken:
    """Bernoulli: the second value is the one that has a probability."""
    places = (False, True) if column.form == "boolean" else column.distinct
    if column.form not in ("boolean", "number"):
        why = f"{why}, of two values: {plain(places[0])!r} and {plain(places[1])!r}"
    return Taken("label", why, Labels(places), Bernoulli(), "labels")


def category(column: Column, why: str) -> Taken:
    """Multinomial: columns with as many classes share a block.

    Of very many values the most frequent ones are classes; others count as missing.
    """
    places, why = column.distinct, f"{why}, of {column.n_distinct} values"
    if len(places) > MOST_CLASSES:
        times = Counter(column.values)
        kept = set(sorted(places, key=times.__getitem__, reverse=True)[:MOST_CLASSES])
        places = tuple(place for place in places if place in kept)
        why += f"; the model has the {MOST_CLASSES} most frequent"
    return Taken(
        "category", why, Classes(places), Multinomial(len(places)), f"{len(places)} classes"
    )


def ordinal(column: Column, places: tuple[Any, ...], why: str) -> Taken:
    """Ordinal: thresholds are of a block, so that each column has its own."""
    why = f"{why}, of {len(places)} levels: {plain(places[0])!r} to {plain(places[-1])!r}"
    likelihood = Ordinal(len(places), lowest=0)
    return Taken("ordinal", why, Levels(places), likelihood, f"levels of {plain(column.name)!r}")
