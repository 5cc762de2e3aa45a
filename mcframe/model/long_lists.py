"""Frames that are lists of entries, (user, item, rating), where tables were expected."""

import itertools
import re
import shlex
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import IntArray
from mcframe.contracts.wording import wording
from mcframe.model.labels import code_labels, nw

# How many columns a list of entries has: two keys, a value, perhaps the time.
LIST_WIDTHS = (3, 4)
# Kinds of dtypes that no keys have.
NON_KEY_KINDS = "fbc"
# How columns that hold the rows and the columns of a table in waiting are called.
ROW_WORDS = frozenset(
    {"row", "user", "uid", "customer", "client", "buyer", "reader", "viewer", "listener"}
    | {"member", "person", "respondent", "rater", "patient", "student", "author", "unit"}
)
TIME_WORDS = frozenset({"time", "year", "month", "week", "day"})
COLUMN_WORDS = TIME_WORDS | frozenset(
    {"col", "column", "item", "iid", "movie", "film", "product", "book", "song", "track"}
    | {"artist", "article", "business", "restaurant", "game", "question", "drug", "gene"}
    | {"paper", "variable", "feature"}
)
KEY_WORDS = frozenset({"id", "key"})
# How the value of an entry is called, and nothing else.
VALUE_WORDS = frozenset({"rating", "stars", "star", "value", "score", "like", "likes", "vote"})
# As many rows with equal pairs are to be expected, if the two columns had nothing to do with each
# other, before it says something that there are none: that happens less than one time in 20.
MIN_EXPECTED_DUPLICATES = 3.0
# In ``attrs`` of a frame of pandas: its rows are known to be rows of a table.
TABLE_MARK = "mcframe.is_table"


@attrs.frozen
class ListOfEntries:
    """The sign that a frame lists entries, as the end of a sentence, and the remedy."""

    names: tuple[Any, ...]
    row: Any
    column: Any
    value: Any
    n_entries: int
    shape: tuple[int, int]
    are_unique: bool
    target: str | None = None

    def __str__(self) -> str:
        """The frame and what is seen in it: "of 50 rows and columns ... has every pair ..."."""
        seen = (
            f"has every pair of {self.row!r} and {self.column!r} once, as a long list of entries"
            " has, one in a row"
            if self.are_unique
            else "is named as a long list of entries is, one in a row"
        )
        return f"of {self.n_entries} rows and columns {', '.join(map(repr, self.names))} {seen}"

    @property
    def remedy(self) -> str:
        """The remedy, as a sentence."""
        duplicates = "" if self.are_unique else ", duplicates='mean'"
        arguments = f"frame, row={self.row!r}, column={self.column!r}, value={self.value!r}"
        if self.target is not None:
            arguments = f"row=X[{self.row!r}], column=X[{self.column!r}], value={self.target}"
        remedy = wording().either(
            python=f"fit mc.from_triples({arguments}{duplicates})",
            command="give it to mcframe ratings, with"
            f" --columns {shlex.quote(f'{self.row},{self.column},{self.value}')}"
            f"{' --duplicates mean' * (not self.are_unique)}",
        )
        return (
            f"To complete the table of {self.shape[0]} x {self.shape[1]} entries that it lists,"
            f" {remedy}"
        )


def list_of_entries(
    frame: Any, *, by_names: bool = False, target: str | None = None
) -> ListOfEntries | None:
    """Return what tells that a frame is a list of entries: (user, item, rating); None of a table.

    It reads so if two of its three or four columns are named as keys are, hold whole numbers or
    text without a gap, and pair up differently in every row although their values repeat: so
    often that equal pairs would be expected. Whether it is one nevertheless cannot be known.

    Parameters
    ----------
    frame : DataFrame of pandas, polars or narwhals, or Table of pyarrow
    by_names : bool
        Whether the names of a row, a column and a value are enough, for a mere hint.
    target : str, optional
        What the values are called if they are given beside the frame, which has keys alone.
    """
    if is_marked(frame):
        return None
    table = nw.from_native(frame, eager_only=True)
    names = table.columns
    width = len(names) + (target is not None)
    for keys in itertools.combinations(names if width in LIST_WIDTHS else (), 2):
        if not are_keys(*keys):
            continue
        rows, columns = (codes_of_key(table.get_column(key)) for key in keys)
        if rows is None or columns is None:
            continue
        value, is_named = (target, True) if target else value_among(names, keys)
        is_list = list_cells(rows, columns)  # which has no pair twice
        if is_list or (by_names and is_named and not are_times(keys)):
            n_rows, n_columns = int(rows.max()) + 1, int(columns.max()) + 1
            are_unique = is_list or len(np.unique(rows * n_columns + columns)) == rows.size
            return ListOfEntries(
                tuple(names),
                *keys,
                value,
                rows.size,
                (n_rows, n_columns),
                are_unique,
                target,
            )
    return None


def value_among(names: Sequence[Any], keys: Sequence[Any]) -> tuple[Any, bool]:
    """Return the column that holds the values of entries, and whether its name says so."""
    others = [name for name in names if name not in keys]
    named = [name for name in others if words_of(name) & VALUE_WORDS]
    return (named or others)[0], bool(named)


def are_times(keys: Sequence[Any]) -> bool:
    """Return True where one of two keys is a time, as in repeated measurements."""
    return any(words_of(key) & TIME_WORDS for key in keys)


def mark_as_table(frame: Any) -> None:
    """Note beside a frame of pandas that it is a table, whatever its columns are called."""
    frame.attrs[TABLE_MARK] = True


def is_marked(frame: Any) -> bool:
    """Return True for a frame that ``mark_as_table`` was called with, or a part of one."""
    notes = getattr(frame, "attrs", None)
    return isinstance(notes, dict) and TABLE_MARK in notes


def may_list_entries(names: Sequence[object], kinds: Sequence[str]) -> bool:
    """Return True for a frame that may list entries, by its names or by kinds of dtypes.

    It has three or four columns, two of which are named as keys are, or hold no measurements.
    """
    if len(names) not in LIST_WIDTHS:
        return False
    named = any(are_keys(*pair) for pair in itertools.combinations(names, 2))
    return named or sum(kind not in NON_KEY_KINDS for kind in kinds) >= 2


def are_keys(first: object, second: object) -> bool:
    """Return True for names of rows and of columns, or of two different ids."""
    one, other = words_of(first), words_of(second)
    crossed = (one & ROW_WORDS and other & COLUMN_WORDS) or (
        one & COLUMN_WORDS and other & ROW_WORDS
    )
    both = one & KEY_WORDS and other & KEY_WORDS and one - KEY_WORDS and other - KEY_WORDS
    return bool(crossed or (both and one != other))


def words_of(name: object) -> set[str]:
    """The words of a column's name, also in the singular: user and id of ``user_ids``."""
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", str(name))}
    words |= {word.removesuffix("s") for word in words}
    stems = {word.removesuffix("id") for word in words if word.endswith("id")}
    glued = stems & (ROW_WORDS | COLUMN_WORDS)  # userid
    return words | glued | ({"id"} if glued else set())


def codes_of_key(series: Any) -> IntArray | None:
    """A column of whole numbers or text without a gap as codes from 0; None for any other."""
    dtype = series.dtype
    if len(series) == 0 or series.null_count():
        return None
    whole = dtype.is_integer() or (dtype.is_float() and bool((series % 1 == 0).all()))
    if not whole and dtype not in (nw.String, nw.Categorical, nw.Enum):
        return None
    return code_labels(series, series.name)[1]


def list_cells(rows: IntArray, columns: IntArray) -> bool:
    """Return True where all pairs of codes differ, although some would be equal by chance."""
    n_pairs, n_columns = rows.size, int(columns.max()) + 1
    if n_pairs < int(rows.max()) + 1 + n_columns:
        return False
    if np.unique(rows * n_columns + columns).size < n_pairs:
        return False
    # Ordered pairs of list entries that share their row, or their column.
    shared = [
        float(np.sum(counts * (counts - 1.0))) for counts in map(np.bincount, (rows, columns))
    ]
    return shared[0] * shared[1] / (2.0 * n_pairs * (n_pairs - 1.0)) >= MIN_EXPECTED_DUPLICATES
