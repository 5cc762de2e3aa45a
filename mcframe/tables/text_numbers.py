"""Columns of text that hold numbers, such as "1.2" and "?"."""

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.real_numbers import as_float, plain
from mcframe.selection.splitters import kinds_of
from mcframe.tables.columns import Bounds, Column, listed, sort_of, values_of

# What share of the texts that do not stand for a missing value have to read as numbers.
SHARE = 0.9
# What stands for a missing value among numbers, in small letters and without spaces around it.
SIGNS_OF_MISSING = {
    *("", "?", "-", "--", ".", "na", "n/a", "#n/a", "n.a.", "nan", "<na>", "nil", "none", "null"),
    *("missing", "unknown"),
}
# Digits behind a leading zero, as of "007", are a code and no number.
NUMBER = re.compile(r"[+-]?(?!0[0-9])([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)


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

    def texts(self, missing: bool) -> str:
        """The texts that are no numbers, those for missing values or others, with their counts."""
        rows = np.flatnonzero(np.isnan(self.numbers) & (self.missing == missing))
        texts = Counter(self.given[row] for row in rows if self.given[row] is not None)
        return ", ".join(f"{text!r} ({times}x)" for text, times in texts.most_common(5))


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
    if numbers is None or not numbers.n_observed:
        return column
    if isinstance(given, Likelihood):
        return numbers if given.width == 1 and not kinds_of(given) else column
    if given is not None:
        return numbers if given in ("number", "count") or isinstance(given, Bounds) else column
    n_texts = int(np.count_nonzero(~numbers.missing))
    signless = column.form == "text" and not numbers.texts(missing=True)
    if signless and n_texts > len(column.distinct) == 2:
        return column
    return numbers if numbers.n_observed >= SHARE * n_texts else column


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
    return (
        None if sorts - {"text", "numbers"} else TextNumbers(column.name, column.series, "number")
    )


def warn_of_text(columns: Sequence[Column], declared: Any) -> None:
    """A ``UserWarning`` that names columns of text that are read as numbers.

    Not those that were declared so, but where some of the text is no number.
    """
    said = []
    for column in columns:
        if isinstance(column, TextNumbers):
            signs, strange = column.texts(missing=True), column.texts(missing=False)
            parts = [f"{signs} as missing"] * bool(signs)
            parts += [f"{strange} as no number, which stays as it is"] * bool(strange)
            if column.name not in declared or strange:
                said.append(repr(plain(column.name)) + (f" ({'; '.join(parts)})" if parts else ""))
    if said:
        warnings.warn(
            f"columns of text are read as numbers: {listed(said)}; types={{name: 'number'}}"
            " confirms this, 'category' or 'skip' prevents it",
            UserWarning,
            stacklevel=5,
        )
