"""Long lists of entries, one in a row, told from tables: fitted as a table one means nothing."""

import itertools
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from mcframe.contracts.arrays import IntArray
from mcframe.contracts.errors import DataError
from mcframe.model.block import Block

__all__ = ["may_list_entries", "refuse_long_list"]

# How many columns a list of entries has: two keys, a value, perhaps the time.
WIDTHS = (3, 4)
# Kinds of dtypes that no keys have.
MEASURED = "fbc"
# How columns that hold the rows and the columns of a table in waiting are called.
OF_ROWS = frozenset(
    {"row", "user", "uid", "customer", "client", "buyer", "reader", "viewer", "listener"}
    | {"member", "person", "respondent", "rater", "patient", "student", "author", "unit"}
)
OF_COLUMNS = frozenset(
    {"col", "column", "item", "iid", "movie", "film", "product", "book", "song", "track"}
    | {"artist", "article", "business", "restaurant", "game", "question", "drug", "gene"}
    | {"paper", "variable", "feature", "time", "year", "month", "week", "day"}
)
OF_KEYS = frozenset({"id", "key"})
# As many rows with equal pairs are to be expected, if the two columns had nothing to do with each
# other, before it says something that there are none: that happens less than one time in 20.
EXPECTED_EQUALS = 3.0


def refuse_long_list(block: Block, frame: Any) -> None:
    """A ``DataError`` where a DataFrame reads as a list of entries: (user, item, rating).

    It reads so if two of its three or four columns are named as keys are, hold whole numbers or
    text without a gap, and pair up differently in every row although their values repeat: so
    often that equal pairs would be expected. Whether it is one nevertheless cannot be known, so
    that the message says how to give either reading.
    """
    if frame.shape[1] not in WIDTHS:
        return
    for first, second in itertools.combinations(range(frame.shape[1]), 2):
        keys = [frame.columns[first], frame.columns[second]]
        if not are_keys(*keys):
            continue
        rows, columns = (codes_of(frame.iloc[:, place]) for place in (first, second))
        if rows is None or columns is None or not list_cells(rows, columns):
            continue
        value = next(name for name in frame.columns if name not in keys)
        raise DataError(
            f"block {block.name!r}: the DataFrame of {frame.shape[0]} rows and columns"
            f" {', '.join(repr(name) for name in frame.columns)} has every pair of {keys[0]!r}"
            f" and {keys[1]!r} once, as a long list of entries has, one in a row. To complete the"
            f" table of {rows.max() + 1} x {columns.max() + 1} entries that it lists, give"
            f" mc.from_triples(frame, row={keys[0]!r}, column={keys[1]!r}, value={value!r}); to"
            f" complete its own {frame.shape[1]} columns, give frame.to_numpy()"
        )


def may_list_entries(names: Sequence[object], kinds: Sequence[str]) -> bool:
    """Whether a frame of which no row is seen may list entries: by names, or by kinds of dtypes.

    It has three or four columns, two of which are named as keys are, or hold no measurements.
    """
    if len(names) not in WIDTHS:
        return False
    named = any(are_keys(*pair) for pair in itertools.combinations(names, 2))
    return named or sum(kind not in MEASURED for kind in kinds) >= 2


def are_keys(first: object, second: object) -> bool:
    """Whether two names are those of rows and of columns, or of two different ids."""
    one, other = words_of(first), words_of(second)
    crossed = (one & OF_ROWS and other & OF_COLUMNS) or (one & OF_COLUMNS and other & OF_ROWS)
    both = one & OF_KEYS and other & OF_KEYS and one - OF_KEYS and other - OF_KEYS
    return bool(crossed or (both and one != other))


def words_of(name: object) -> set[str]:
    """The words of a column's name, also in the singular: user and id of ``user_ids``."""
    found = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", str(name))}
    found |= {word.removesuffix("s") for word in found}
    stems = {word.removesuffix("id") for word in found if word.endswith("id")}
    glued = stems & (OF_ROWS | OF_COLUMNS)  # userid
    return found | glued | ({"id"} if glued else set())


def codes_of(series: Any) -> Any:
    """A column of whole numbers or text without a gap as codes from 0; None for any other."""
    pandas = sys.modules["pandas"]
    if series.empty or series.hasnans:
        return None
    kind = pandas.api.types.infer_dtype(series)
    whole = kind == "floating" and bool(np.all(series % 1 == 0))
    if not whole and kind not in ("integer", "string", "categorical"):
        return None
    return pandas.factorize(series)[0]


def list_cells(rows: IntArray, columns: IntArray) -> bool:
    """Whether pairs of codes are all different, and their number and repetitions say something."""
    n_pairs, n_columns = rows.size, int(columns.max()) + 1
    if n_pairs < int(rows.max()) + 1 + n_columns:
        return False
    if np.unique(rows * n_columns + columns).size < n_pairs:
        return False
    # Ordered pairs of list entries that share their row, or their column.
    shared = [
        float(np.sum(counts * (counts - 1.0))) for counts in map(np.bincount, (rows, columns))
    ]
    return shared[0] * shared[1] / (2.0 * n_pairs * (n_pairs - 1.0)) >= EXPECTED_EQUALS
