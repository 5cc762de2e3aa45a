"""An order of columns by what they hold, so that what is drawn depends on no other order."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.model.table import Table


def by_content(observed: Mapping[str, Table]) -> dict[str, tuple[Table, IntArray]]:
    """Return the observed entries of blocks in an order that columns and blocks do not change.

    Blocks, and columns within each, come by what they hold, the entries column by column and row
    by row.

    Returns
    -------
    dict from block name to (Table, order)
        ``order`` has the positions of the entries in the given table.
    """
    keys, ordered = {}, {}
    for name, table in observed.items():
        of_columns = keys_of(table.rows, table.columns, table.values, table.shape[1])
        keys[name] = (int(np.sum(of_columns)), name)
        places = places_of(of_columns, table.columns, table.values)[table.columns]
        order = np.lexsort((table.rows, places))
        ordered[name] = (attrs.evolve(table.select(order), columns=places[order]), order)
    return {name: ordered[name] for name in sorted(ordered, key=keys.__getitem__)}


def places_by_content(values: Array) -> IntArray:
    """Return the place of each column of a table (n x d, NaN where missing) by what it holds."""
    rows, columns = np.nonzero(~np.isnan(values))
    entries = values[rows, columns]
    return places_of(keys_of(rows, columns, entries, values.shape[1]), columns, entries)


def places_of(keys: Any, columns: IntArray, values: Array) -> IntArray:
    """Return the place of each column: by its key, where these are alike by its sum."""
    order = np.lexsort((np.bincount(columns, values, keys.size), keys))
    places: IntArray = np.empty(keys.size, dtype=np.intp)
    places[order] = np.arange(keys.size)
    return places


def keys_of(rows: IntArray, columns: IntArray, values: Array, n_columns: int) -> Any:
    """Return a number for each column, made of the ranks of its values and their rows.

    Hence it is the same in any unit of the column. Columns that are alike have the same key.
    """
    order = np.lexsort((values, columns))
    of_column, sorted_values = columns[order], values[order]
    rises = np.ones(order.size, dtype=np.int64)
    rises[1:] = (np.diff(sorted_values) > 0.0) | (np.diff(of_column) > 0)
    passed = np.cumsum(rises)
    starts = np.searchsorted(of_column, np.arange(n_columns))
    ranks = passed - np.append(passed, 0)[starts][of_column]
    keys = np.zeros(n_columns, dtype=np.uint64)
    np.add.at(keys, of_column, scrambled(scrambled(rows[order]) + ranks.astype(np.uint64)))
    return keys


def scrambled(numbers: Any) -> Any:
    """Return whole numbers spread over 64 bits (splitmix64; Steele, Lea and Flood, 2014)."""
    z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
