"""Cells of a table of text in arrays of Arrow, faster than ``delimited`` reads them.

Each function returns None where it might read something else than the plain reader does.
"""

import csv
import io
import re
from collections.abc import Collection
from importlib import import_module
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.deferred import Deferred

NEEDED_FOR = "reading cells by Arrow"
pa: Any = Deferred("pyarrow", NEEDED_FOR)
compute: Any = Deferred("pyarrow.compute", NEEDED_FOR)
arrow_csv: Any = Deferred("pyarrow.csv", NEEDED_FOR)

# Parts of a text that the readers do not take alike: quotes, and empty lines.
READ_UNLIKE = ('"', "\0", "\n\n", "\n\r\n")
# How a text must not begin: with an empty line, or with a second mark of the byte order.
UNLIKE_STARTS = ("\n", "\r", "\ufeff")
FIRST_CELLS = 100
# What ``str.strip`` takes from both ends of a text.
WHITESPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))


def is_installed() -> bool:
    """Return True if pyarrow can be imported."""
    try:
        import_module("pyarrow.csv")
    except ImportError:
        return False
    return True


def columns_of_text(text: str, delimiter: str) -> tuple[list[str], list[Any]] | None:
    """Return the names of a table of text, and its columns as arrays of text."""
    if not text or any(part in text for part in READ_UNLIKE) or text.startswith(UNLIKE_STARTS):
        return None
    if text.count("\r") > text.count("\r\n"):  # which ends a line by itself to Python
        return None
    if delimiter != "\t" and not (" " <= delimiter <= "~"):
        return None
    header = text.partition("\n")[0]
    names = [f"f{place}" for place in range(header.count(delimiter) + 1)]
    try:
        table = arrow_csv.read_csv(
            io.BytesIO(text.encode()),
            read_options=arrow_csv.ReadOptions(autogenerate_column_names=True),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, quote_char=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
        columns = [column.combine_chunks() for column in table.columns]
    except (pa.ArrowException, UnicodeError):  # as of rows of another length
        return None
    if table.column_names != names or any(
        compute.max(compute.binary_length(column)).as_py() > csv.field_size_limit()
        for column in columns
    ):
        return None
    return [column[0].as_py() for column in columns], [column[1:] for column in columns]


def without_missing(cells: Any, missing: Collection[str], stripped: bool = True) -> Any:
    """Return cells, null where they stand for a missing entry; others without whitespace around.

    With ``stripped=False`` the others are as they are written.
    """
    texts = compute.utf8_trim(cells, WHITESPACE)
    absent = compute.is_in(texts, value_set=pa.array(list(missing), pa.string()))
    return compute.if_else(absent, pa.scalar(None, pa.string()), texts if stripped else cells)


def matches(texts: Any, pattern: re.Pattern[str], every: bool) -> bool:
    """Return whether every text that is not null, or any of them, matches a pattern as a whole."""
    combine = compute.all if every else compute.any
    whole = rf"\A(?:{pattern.pattern})\z"
    for part in (texts[:FIRST_CELLS], texts):  # the first ones tell of most columns
        matched = compute.match_substring_regex(part, whole)
        answer = bool(combine(matched, min_count=0).as_py())
        if answer != every:
            return answer
    return every


def as_type(texts: Any, kind: str) -> Any:
    """Return texts as numbers, null where they are; None if Arrow reads one of them otherwise.

    So are dates and times: it takes more of them than Python does.
    """
    if kind not in ("whole", "number"):
        return None
    try:
        return compute.cast(texts, pa.int64() if kind == "whole" else pa.float64())
    except pa.ArrowInvalid:
        return None


def finite_numbers(cells: Any, missing: Collection[str]) -> Array | None:
    """Return cells as finite numbers, NaN for those that stand for a missing entry."""
    texts = without_missing(cells, missing)
    numbers = as_type(texts, "number")
    if numbers is None:
        return None
    read: Array = np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)
    return read if np.count_nonzero(np.isfinite(read)) == len(texts) - texts.null_count else None
