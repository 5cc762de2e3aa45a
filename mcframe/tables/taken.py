"""What a column is taken for: a kind, with its likelihood, its block and its coding."""

from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.real_numbers import plain
from mcframe.likelihoods import Bernoulli, Gaussian, Multinomial, Ordinal, Poisson
from mcframe.tables.coding import Classes, Coding, Counts, Dates, Labels, Levels, Numbers
from mcframe.tables.columns import Column

__all__ = [
    "KINDS",
    "MOST_CLASSES",
    "Taken",
    "category",
    "count",
    "date",
    "label",
    "number",
    "ordinal",
    "whole_range",
]

# What ``types`` may say of a column, beside a list of levels and a likelihood.
KINDS = ("number", "count", "label", "category", "ordinal", "date", "skip")
# Columns with more categories are no variable that a table of this size would tell about.
MOST_CLASSES = 100


@attrs.frozen
class Taken:
    """What a column is taken for.

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


def number(column: Column, why: str) -> Taken:
    """Gaussian, around the column's own centre."""
    return Taken("number", why, Numbers(whole_range(column)), Gaussian(), "numbers")


def count(column: Column, why: str) -> Taken:
    """Poisson: the model is of the logarithm of the mean."""
    return Taken("count", why, Counts(whole_range(column)), Poisson(), "counts")


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
    """Multinomial: columns with as many classes share a block."""
    places = column.distinct
    why = f"{why}, of {len(places)} values"
    return Taken(
        "category", why, Classes(places), Multinomial(len(places)), f"{len(places)} classes"
    )


def ordinal(column: Column, places: tuple[Any, ...], why: str) -> Taken:
    """Ordinal: thresholds are of a block, so that each column has its own."""
    why = f"{why}, of {len(places)} levels: {plain(places[0])!r} to {plain(places[-1])!r}"
    likelihood = Ordinal(len(places), lowest=0)
    return Taken("ordinal", why, Levels(places), likelihood, f"levels of {plain(column.name)!r}")


def whole_range(column: Column) -> tuple[int, int] | None:
    """The smallest and largest number of a dtype of whole numbers; None of others."""
    dtype = column.series.dtype
    if not dtype.is_integer():
        return None
    word = str(dtype)  # Int8, UInt64, also Int128, which numpy has not
    bits = int(word.lstrip("UInt"))
    return (0, 2**bits - 1) if word.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
