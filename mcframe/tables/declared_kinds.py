"""The declared type of a column, checked against its values."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.errors import DataError
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.real_numbers import plain
from mcframe.likelihoods import Ordinal
from mcframe.selection.splitters import kinds_of
from mcframe.tables.coding import Classes, Coding, Labels, Levels, Numbers
from mcframe.tables.columns import Column
from mcframe.tables.taken import (
    MOST_CLASSES,
    Bounds,
    Taken,
    category,
    count,
    date,
    label,
    number,
    ordinal,
)

__all__ = ["contradiction", "declared_kind", "what"]


def declared_kind(column: Column, given: Any) -> Taken:
    """Return the declared type of a column.

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
        raise contradiction(
            column,
            given,
            "not one of its values is observed; leave it out:"
            f" types={{{plain(column.name)!r}: 'skip'}}",
        )
    if column.form == "number":
        column.refuse_infinite()
    if isinstance(given, Likelihood):
        return declared_likelihood(column, given)
    if isinstance(given, Bounds):
        return declared_bounds(column, given)
    if not isinstance(given, str):
        return declared_levels(column, tuple(given))
    return DECLARED[given](column)


def contradiction(column: Column, given: Any, why: str) -> DataError:
    """The error of a column whose values do not match its declared type."""
    said = repr(given) if isinstance(given, str) else str(given)
    return DataError(f"column {plain(column.name)!r} was declared {said}, but {why}")


def declared_number(column: Column) -> Taken:
    """A number, of numbers alone."""
    need_numbers(column, "number")
    return number(column, "declared")


def declared_bounds(column: Column, bounds: Bounds) -> Taken:
    """A number within bounds."""
    need_numbers(column, "number")
    outside = np.flatnonzero((column.numbers < bounds.lower) | (column.numbers > bounds.upper))
    if outside.size:
        row = int(outside[0])
        raise contradiction(
            column, bounds, f"holds the value {column.numbers[row]:g} in row {row}"
        )
    return number(column, "declared", bounds)


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
    need_two(column, "category")
    return category(column, "declared")


def declared_ordinal(column: Column) -> Taken:
    """A level of ordered ones: their own order, or that of numbers."""
    need_finite(column, "ordinal")
    need_two(column, "ordinal")
    if column.n_distinct > MOST_CLASSES:
        raise contradiction(
            column,
            "ordinal",
            f"holds {column.n_distinct} different values; more than {MOST_CLASSES} levels are a"
            " number: types={name: 'number'}, or codes of the levels as numbers",
        )
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
    elif "labels" in kinds_of(likelihood) and column.form != "number":
        need_finite(column, likelihood)
        coding = Labels(places_of(column, likelihood, 2))
    else:
        need_numbers(column, likelihood)
        coding = Numbers.of(column) if likelihood.location else Numbers(column.whole)
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


def need_two(column: Column, given: str) -> None:
    """A ``DataError`` where there are not two different values."""
    if column.n_distinct < 2:
        raise contradiction(
            column, given, f"every observed value is {plain(column.distinct[0])!r}"
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
