"""What a column is taken for, and why: by its dtype and values, or as it was declared."""

import re
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.errors import DataError
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.real_numbers import plain, reads_as_number
from mcframe.likelihoods import Bernoulli, Gaussian, Multinomial, Ordinal, Poisson
from mcframe.selection.criteria import reads_labels
from mcframe.tables.coding import Classes, Coding, Counts, Dates, Labels, Levels, Numbers
from mcframe.tables.columns import Column

__all__ = ["KINDS", "Taken", "declared_kind", "kind_of"]

# What ``types`` may say of a column, beside a list of levels and a likelihood.
KINDS = ("number", "count", "label", "category", "ordinal", "date", "skip")
# Columns with more categories are no variable that a table of this size would tell about.
MOST_CLASSES = 100
# Text of so few different values is taken for categories, however few entries there are.
FEW = 20
# Words of a name, such as PassengerId or user_id, that say that whole numbers identify.
NAMES_OF_IDENTIFIERS = {"id", "ids", "identifier", "uuid", "guid", "rownames"}
WORDS_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


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


def kind_of(column: Column) -> Taken:
    """Return what the dtype and the values of a column say that it is."""
    if column.form == "other":
        return Taken("skip", column.trouble)
    if column.n_observed == 0:
        return Taken("skip", "not one of its values is observed")
    if column.form == "date":
        return Taken("skip", f"dates; types={{{plain(column.name)!r}: 'date'}} takes them as days")
    if column.form == "number":
        refuse_infinite(column)
    if column.n_distinct == 1:
        value = next(value for value in column.values if value is not None)
        return Taken("constant", f"every observed value is {plain(value)!r}", constant=[value])
    if column.form == "boolean":
        return label(column, "true and false")
    if column.form == "number":
        return kind_of_numbers(column)
    return kind_of_text(column) if column.form == "text" else kind_of_categories(column)


def kind_of_numbers(column: Column) -> Taken:
    """Numbers, labels 0 and 1, or an identifier."""
    observed = column.numbers[~column.missing]
    if np.isin(observed, [0.0, 1.0]).all():
        return label(column, "0 and 1 alone")
    if not np.equal(np.floor(observed), observed).all():
        return number(column, "numbers")
    if counts_up(column):
        return Taken("skip", "whole numbers that count the rows")
    words = [word.lower() for word in WORDS_OF_NAME.findall(str(column.name))]
    if NAMES_OF_IDENTIFIERS & set(words):
        return Taken("skip", "whole numbers, and its name says that they identify")
    return number(column, "whole numbers")


def counts_up(column: Column) -> bool:
    """Whether a column numbers the rows, from 0 or from 1."""
    numbers = column.numbers
    return bool(numbers[0] in (0.0, 1.0) and np.all(np.diff(numbers) == 1.0))


def kind_of_text(column: Column) -> Taken:
    """Labels, categories, or text that identifies, says something, or should be numbers."""
    n_observed, n_distinct = column.n_observed, column.n_distinct
    if n_distinct == 2 < n_observed:
        return label(column, "text")
    if all(map(reads_as_number, column.distinct)):
        row, value = next((row, v) for row, v in enumerate(column.values) if v is not None)
        return Taken(
            "skip",
            f"text that reads as numbers ({value!r} in row {row}); convert it, as by"
            f" pandas.to_numeric, or declare it: types={{{plain(column.name)!r}: 'category'}}",
        )
    if n_distinct == n_observed:
        return Taken("skip", f"text, and all {n_observed} values differ, as of an identifier")
    if n_distinct > max(FEW, n_observed / 2):
        return Taken("skip", f"text, and {n_distinct} of {n_observed} values differ, as of names")
    if n_distinct > MOST_CLASSES:
        return Taken("skip", f"text with {n_distinct} different values, more than {MOST_CLASSES}")
    return category(column, "text")


def kind_of_categories(column: Column) -> Taken:
    """Labels, levels, categories, or too many of them."""
    n_distinct = column.n_distinct
    if n_distinct > MOST_CLASSES:
        return Taken("skip", f"{n_distinct} categories, more than {MOST_CLASSES}")
    if n_distinct == 2:
        return label(column, "categories")
    if column.form == "ordered":
        return ordinal(column, column.distinct, "ordered categories")
    if n_distinct == column.n_observed:
        return Taken("skip", f"categories, and all {n_distinct} values differ")
    return category(column, "categories")


def refuse_infinite(column: Column) -> None:
    """A ``DataError`` where a number is infinite."""
    infinite = np.flatnonzero(np.isinf(column.numbers))
    if infinite.size:
        row = int(infinite[0])
        raise DataError(
            f"column {plain(column.name)!r}: value {column.numbers[row]:g} in row {row}; every"
            " observed value must be finite. Replace infinities by NaN if they stand for missing"
            " values"
        )


# What each kind is modelled by.


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


# As it was declared.


def declared_kind(column: Column, given: Any) -> Taken:
    """Return what a column was declared to be.

    Raises
    ------
    DataError
        Where its values are not that, or nothing can be said of them.
    """
    if isinstance(given, str) and given == "skip":
        return Taken("skip", "declared")
    if column.form == "other":
        raise contradiction(column, given, column.trouble)
    if column.n_observed == 0:
        raise contradiction(column, given, "not one of its values is observed")
    if column.form == "number":
        refuse_infinite(column)
    if isinstance(given, Likelihood):
        return declared_likelihood(column, given)
    if not isinstance(given, str):
        return declared_levels(column, tuple(given))
    return DECLARED[given](column)


def contradiction(column: Column, given: Any, why: str) -> DataError:
    """The error of a column that is not what it was declared to be."""
    said = repr(given) if isinstance(given, str) else str(given)
    return DataError(f"column {plain(column.name)!r} was declared {said}, but {why}")


def declared_number(column: Column) -> Taken:
    """A number, of numbers alone."""
    need_numbers(column, "number")
    return number(column, "declared")


def declared_count(column: Column) -> Taken:
    """A count, of whole numbers from 0."""
    need_numbers(column, "count")
    wrong = (column.numbers < 0.0) | (np.floor(column.numbers) != column.numbers)
    wrong &= ~column.missing
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise contradiction(
            column,
            "count",
            f"holds the value {column.numbers[row]:g} in row {row}; counts are 0, 1, 2, ...",
        )
    return count(column, "declared")


def declared_label(column: Column) -> Taken:
    """A label, of two values."""
    need_finite(column, "label")
    if column.n_distinct != 2 and column.form != "boolean":
        raise contradiction(
            column, "label", f"holds {plural(column.n_distinct, 'value')}; a label has two"
        )
    return label(column, "declared")


def declared_category(column: Column) -> Taken:
    """A category, of two values or more."""
    need_finite(column, "category")
    need_few(column, "category")
    return category(column, "declared")


def declared_ordinal(column: Column) -> Taken:
    """A level of ordered ones: their own order, or that of numbers."""
    need_finite(column, "ordinal")
    need_few(column, "ordinal")
    if column.form in ("text", "category"):
        raise contradiction(
            column,
            "ordinal",
            f"the order of its {column.n_distinct} values is not known; give them from the lowest"
            f" to the highest: types={{{plain(column.name)!r}: [lowest, ..., highest]}}",
        )
    return ordinal(column, column.distinct, "declared")


def declared_date(column: Column) -> Taken:
    """A date, as days."""
    if column.form != "date":
        raise contradiction(
            column,
            "date",
            f"its values are {what(column)}; convert it first, as by pandas.to_datetime",
        )
    return date(column, "declared, in days")


DECLARED = {
    "number": declared_number,
    "count": declared_count,
    "label": declared_label,
    "category": declared_category,
    "ordinal": declared_ordinal,
    "date": declared_date,
}


def declared_levels(column: Column, levels: tuple[Any, ...]) -> Taken:
    """A level of those that were given, from the lowest to the highest."""
    need_finite(column, list(levels))
    for row, value in enumerate(column.values):
        if value is not None and value not in levels:
            raise contradiction(
                column, list(levels), f"holds the value {plain(value)!r} in row {row}"
            )
    return ordinal(column, levels, "declared")


def declared_likelihood(column: Column, likelihood: Likelihood) -> Taken:
    """What a likelihood reads: classes, levels, labels, or numbers as they are."""
    if likelihood.width > 1:
        need_finite(column, likelihood)
        coding: Coding = Classes(places_of(column, likelihood, likelihood.width))
    elif isinstance(likelihood, Ordinal):
        need_finite(column, likelihood)
        coding = Levels(places_of(column, likelihood, likelihood.levels))
        likelihood = attrs.evolve(likelihood, lowest=0)
    elif reads_labels(likelihood) and column.form != "number":
        need_finite(column, likelihood)
        coding = Labels(places_of(column, likelihood, 2))
    else:
        need_numbers(column, likelihood)
        coding = Numbers(whole_range(column))
        wrong = likelihood.invalid(column.numbers) & ~column.missing
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise contradiction(
                column,
                likelihood,
                f"holds the value {column.numbers[row]:g} in row {row}; it needs"
                f" {likelihood.needs}",
            )
    block = str(likelihood) if likelihood.width == 1 else f"{likelihood} of {plain(column.name)!r}"
    return Taken(type(likelihood).__name__, "declared", coding, likelihood, block)


def places_of(column: Column, likelihood: Likelihood, count: int) -> tuple[Any, ...]:
    """The values that a likelihood of so many classes stands for."""
    if isinstance(likelihood, Ordinal) and column.form == "number":
        places: tuple[Any, ...] = tuple(range(likelihood.lowest, likelihood.lowest + count))
        strange = [value for value in column.distinct if value not in places]
        if strange:
            raise contradiction(column, likelihood, f"holds the value {plain(strange[0])!r}")
        return places
    places = (False, True) if column.form == "boolean" else column.distinct
    if len(places) != count:
        raise contradiction(column, likelihood, f"holds {plural(len(places), 'value')}")
    return places


def need_numbers(column: Column, given: Any) -> None:
    """A ``DataError`` where the values are no numbers."""
    if column.form != "number":
        raise contradiction(column, given, f"its values are {what(column)}")


def need_finite(column: Column, given: Any) -> None:
    """A ``DataError`` where the values are dates, which are no labels."""
    if column.form == "date":
        raise contradiction(column, given, f"its values are {what(column)}")


def need_few(column: Column, given: str) -> None:
    """A ``DataError`` where there are not two different values, or too many."""
    if column.n_distinct < 2:
        raise contradiction(
            column, given, f"every observed value is {plain(column.distinct[0])!r}"
        )
    if column.n_distinct > MOST_CLASSES:
        raise contradiction(
            column,
            given,
            f"holds {column.n_distinct} different values; {MOST_CLASSES} is the most. Join rare"
            f" ones, or leave it out: types={{{plain(column.name)!r}: 'skip'}}",
        )


def what(column: Column) -> str:
    """The form of a column in the plural, with an example."""
    forms = {
        "boolean": "true and false",
        "number": "numbers",
        "text": "text",
        "category": "categories",
        "ordered": "ordered categories",
        "date": "dates",
    }
    row, value = next((row, v) for row, v in enumerate(column.values) if v is not None)
    shown = plain(value) if column.form != "date" else str(value)
    return f"{forms[column.form]} ({shown!r} in row {row})"


def plural(count: int, noun: str) -> str:
    """How many, in words."""
    return f"{count} different {noun}{'s' * (count != 1)}"
