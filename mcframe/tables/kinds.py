"""The detected type of a column, and the reason, by its dtype and values."""

import re

import numpy as np

from mcframe.contracts.real_numbers import plain
from mcframe.tables.columns import Column
from mcframe.tables.taken import MOST_CLASSES, Taken, category, label, number, ordinal
from mcframe.tables.text_numbers import TextNumbers, with_comma

__all__ = ["kind_of"]

# Text of so few different values is taken for categories, however few entries there are.
FEW = 20
# Words of a name, such as PassengerId or user_id, that say that whole numbers identify.
NAMES_OF_IDENTIFIERS = {"id", "ids", "identifier", "uuid", "guid", "rownames"}
WORDS_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def kind_of(column: Column) -> Taken:
    """Return the type of a column by its dtype and values."""
    if column.form == "other":
        return Taken("skip", column.trouble)
    if column.n_observed == 0:
        return Taken("skip", "not one of its values is observed")
    if column.form == "date":
        return Taken("skip", f"dates; types={{{plain(column.name)!r}: 'date'}} takes them as days")
    if column.form == "number":
        column.refuse_infinite()
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
    observed, told = column.numbers[~np.isnan(column.numbers)], ""
    if isinstance(column, TextNumbers):
        told = "text that reads as "
        if column.n_distinct == 2:
            return label(column, f"{told}two numbers")
    if np.isin(observed, [0.0, 1.0]).all():
        return label(column, "0 and 1 alone")
    if not np.equal(np.floor(observed), observed).all():
        return number(column, f"{told}numbers")
    if counts_up(column):
        return Taken("skip", f"{told}whole numbers that count the rows")
    words = [word.lower() for word in WORDS_OF_NAME.findall(str(column.name))]
    if NAMES_OF_IDENTIFIERS & set(words):
        return Taken("skip", f"{told}whole numbers, and its name says that they identify")
    return number(column, f"{told}whole numbers")


def counts_up(column: Column) -> bool:
    """Whether a column numbers the rows, from 0 or from 1."""
    numbers = column.numbers
    return bool(numbers[0] in (0.0, 1.0) and np.all(np.diff(numbers) == 1.0))


def kind_of_text(column: Column) -> Taken:
    """Labels, categories, or text that identifies, says something, or should be numbers."""
    n_observed, n_distinct = column.n_observed, column.n_distinct
    if n_distinct == 2 < n_observed:
        return label(column, "text")
    row = with_comma(column.values)
    if row is not None:
        return Taken(
            "skip",
            f"text of numbers with commas ({column.values[row]!r} in row {row}), which may stand"
            " before thousands or decimals; convert it, as by"
            " pandas.to_numeric(column.str.replace(...))",
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
