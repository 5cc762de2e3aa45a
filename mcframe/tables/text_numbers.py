"""Columns of text that hold numbers, such as "1.2" and "?"."""

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.real_numbers import as_float, plain
from mcframe.selection.splitters import kinds_of
from mcframe.tables.columns import Column, sort_of, values_of
from mcframe.tables.taken import Bounds

__all__ = ["TextNumbers", "read_text", "read_text_like", "warn_of_text", "with_comma"]

# What share of the texts that do not stand for a missing value have to read as numbers.
SHARE = 0.9
# What stands for a missing value among numbers, in small letters and without spaces around it.
SIGNS_OF_MISSING = {
    *("", "?", "-", "--", ".", "na", "n/a", "#n/a", "n.a.", "nan", "<na>", "nil", "none", "null"),
    *("missing", "unknown"),
}
# Digits behind a leading zero, as of "007", are a code and no number.
NUMBER = re.compile(r"[+-]?(?!0[0-9])([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
# How many columns, and texts of a column, a warning names.
SHOWN = 5


@attrs.frozen(eq=False)
class TextNumbers(Column):
    """A column of text, or of text and numbers, that is read as numbers.

    ``values`` are numbers, None where a text stands for a missing value or reads as no number.
    Only the first are ``missing``, and are filled: with text, where the column has no numbers.
    """

    @cached_property
    def given(self) -> list[Any]:
        """The values of the column, None where missing."""
        return values_of(self.series)

    @cached_property
    def numbers(self) -> Array:
        """The numbers, NaN where a value is missing or reads as none."""
        return np.array([number_in(value) for value in self.given], dtype=np.float64)

    @cached_property
    def missing(self) -> Mask:
        """Where nothing stands, or a sign of a missing value."""
        return np.array([value is None or is_sign(value) for value in self.given], dtype=bool)

    @cached_property
    def values(self) -> list[Any]:
        """The numbers, None where there is none."""
        return [None if np.isnan(number) else number for number in self.numbers.tolist()]

    @property
    def distinct(self) -> tuple[Any, ...]:
        """The different numbers."""
        return tuple(np.unique(self.numbers[~np.isnan(self.numbers)]).tolist())

    @property
    def n_observed(self) -> int:
        """How many numbers there are."""
        return int(np.count_nonzero(~np.isnan(self.numbers)))

    @property
    def n_distinct(self) -> int:
        """How many different numbers there are."""
        return len(self.distinct)

    @property
    def whole(self) -> tuple[int, int] | None:
        """The range of 64 bits where each number within is written as a whole one; else None."""
        read = [v for v, number in zip(self.given, self.values, strict=True) if number is not None]
        whole = all(re.fullmatch(r"\s*[+-]?[0-9]+\s*", str(value)) for value in read)
        inside = np.all(np.abs(self.distinct) < 2.0**63)
        return (-(2**63), 2**63 - 1) if whole and inside else None

    def written(self, values: list[Any]) -> list[Any]:
        """Numbers as text where the column has none."""
        if any(not isinstance(value, str) for value in self.given if value is not None):
            return values
        return [f"{value:.15g}" if isinstance(value, float) else str(value) for value in values]

    @property
    def signs(self) -> list[str]:
        """The texts that stand for a missing value, in words."""
        return counted(v for v in self.given if v is not None and is_sign(v))

    @property
    def unreadable(self) -> list[str]:
        """The texts that are no numbers, in words."""
        strange = np.flatnonzero(np.isnan(self.numbers) & ~self.missing)
        return counted(self.given[row] for row in strange)


def counted(texts: Iterable[str]) -> list[str]:
    """Return texts with how often each stands there, the most frequent first."""
    return [f"{text!r} ({times}x)" for text, times in Counter(texts).most_common()]


def number_in(value: Any) -> float:
    """Return a number, or that which a text is; NaN of all else."""
    if isinstance(value, str):
        number = float(value) if NUMBER.fullmatch(value.strip()) else np.inf
        return number if np.isfinite(number) else np.nan
    read = as_float(value)
    return np.nan if read is None else read


def is_sign(value: Any) -> bool:
    """Return whether a value is a text that stands for a missing one."""
    return isinstance(value, str) and value.strip().lower() in SIGNS_OF_MISSING


def with_comma(texts: Sequence[str | None]) -> int | None:
    """Return where the first comma stands, in texts that are numbers but for commas; else None."""
    known = [text for text in texts if text is not None and not is_sign(text)]
    n_read = np.count_nonzero(~np.isnan([number_in(text.replace(",", "")) for text in known]))
    if n_read < SHARE * len(known):
        return None
    return next((row for row, text in enumerate(texts) if text and "," in text), None)


def read_text(column: Column, given: Any) -> Column:
    """Return a column of text as numbers where nearly all of it is, or where it is declared so.

    Text of two different values, all of them numbers, is left: it is a label.

    Parameters
    ----------
    given : object
        What the column was declared to be, None where nothing is said of it.
    """
    numbers = as_text_numbers(column)
    if numbers is None:
        return column
    if given is not None:
        return numbers if numbers.n_observed and reads_numbers(given) else column
    n_texts = int(np.count_nonzero(~numbers.missing))
    if column.form == "text" and not numbers.signs and n_texts > len(column.distinct) == 2:
        return column
    return numbers if numbers.n_observed and numbers.n_observed >= SHARE * n_texts else column


def read_text_like(column: Column, declared: Column) -> Column:
    """Return a column of new rows read as that of the table was."""
    return (isinstance(declared, TextNumbers) and as_text_numbers(column)) or column


def as_text_numbers(column: Column) -> TextNumbers | None:
    """Return a column of text, or of text and numbers, as numbers; None of others."""
    dtype, polars = column.series.dtype, column.series.implementation.is_polars()
    of_texts = dtype == nw.String or (dtype == nw.Object and not polars)
    if column.form not in ("text", "other") or not of_texts:
        return None
    sorts = {sort_of(value) for value in column.values if value is not None}
    if sorts - {"text", "numbers"}:
        return None
    return TextNumbers(column.name, column.series, "number")


def reads_numbers(given: Any) -> bool:
    """Return whether what a column was declared to be is one of numbers."""
    if isinstance(given, Likelihood):
        return given.width == 1 and not kinds_of(given)
    return isinstance(given, Bounds) or given in ("number", "count")


def warn_of_text(columns: Sequence[Column], declared: Any) -> None:
    """A ``UserWarning`` that names columns of text that are read as numbers.

    Not those that were declared so, but where some of the text is no number.
    """
    said = []
    for column in columns:
        if isinstance(column, TextNumbers) and (column.name not in declared or column.unreadable):
            parts = [f"{', '.join(column.signs[:SHOWN])} as missing"] * bool(column.signs)
            parts += [
                f"{', '.join(column.unreadable[:SHOWN])} as no number, which stays as it is"
            ] * bool(column.unreadable)
            said.append(repr(plain(column.name)) + (f" ({'; '.join(parts)})" if parts else ""))
    if said:
        more = f" and {len(said) - SHOWN} more" if len(said) > SHOWN else ""
        warnings.warn(
            f"columns of text are read as numbers: {', '.join(said[:SHOWN])}{more};"
            " types={name: 'number'} confirms this, 'category' or 'skip' prevents it",
            UserWarning,
            stacklevel=5,
        )
