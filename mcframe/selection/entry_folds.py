"""Folds of single entries, drawn at random: each observed entry is held out once."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import IntArray, Mask
from mcframe.contracts.errors import DataError
from mcframe.contracts.validators import whole
from mcframe.model import Model, Problem
from mcframe.model.table import Table
from mcframe.selection.column_order import by_content
from mcframe.selection.folds import Fold, fold_of, observed_entries
from mcframe.selection.value_kinds import reads_few_values

__all__ = ["EntryFolds", "drawn_folds", "fewest_free", "number_of_folds"]

# The part of an entry that is never held out.
NEVER = -1


def number_of_folds(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: a whole number of at least 2."""
    found = whole(value, f"{type(instance).__name__}: {attribute.name}", 2)
    object.__setattr__(instance, attribute.name, found)


@attrs.frozen
class EntryFolds:
    """Folds of entries at random: ``cross_validate(folds=5)`` is ``folds=EntryFolds(5)``.

    The observed entries of every block are dealt out to ``count`` parts, column by column, and of
    labels, classes and levels value by value: each part has its share of the entries of a column
    and of a rare label's positives. Each part is held out once.

    No row and no column is left without an entry to be fitted. The only entry that a row has in
    all blocks is never held out, nor the only one of a column; where the lot puts all entries of
    a row into one part, one of them goes into another. The order of blocks and columns plays no
    part.

    Parameters
    ----------
    count : int, default 5
        At least 2.

    Raises
    ------
    DataError
        By ``draw``: where fewer entries of a block can be held out than there are folds.
    """

    count: int = attrs.field(default=5, validator=number_of_folds)

    def draw(
        self, problem: Problem, data: Mapping[str, Any], rng: np.random.Generator
    ) -> tuple[Fold, ...]:
        """The folds; memory of one copy of the data each."""
        observed = observed_entries(problem)
        parts = drawn_parts(problem, observed, self.count, rng)
        return tuple(
            fold_of(
                k,
                data,
                observed,
                {name: part != k for name, part in parts.items()},
                {name: part == k for name, part in parts.items()},
            )
            for k in range(self.count)
        )


def drawn_folds(
    problem: Problem, data: Mapping[str, Any], count: int, rng: np.random.Generator
) -> tuple[Fold, ...]:
    """The folds of ``EntryFolds(count)``."""
    return EntryFolds(count).draw(problem, data, rng)


def drawn_parts(
    problem: Problem, observed: Mapping[str, Table], count: int, rng: np.random.Generator
) -> dict[str, IntArray]:
    """The part of each observed entry: 0, ..., count - 1, or never held out."""
    ordered = by_content(observed)
    tables = {name: table for name, (table, _) in ordered.items()}
    free = free_entries(tables, problem.n_items)
    for name, table in observed.items():
        if free[name].size < count:
            raise DataError(too_few(name, count, table.n_entries, free[name].size))
    parts = dealt_parts(problem, tables, free, count, rng)
    return {name: parts[name][np.argsort(ordered[name][1])] for name in observed}


def dealt_parts(
    problem: Problem,
    observed: Mapping[str, Table],
    free: Mapping[str, IntArray],
    count: int,
    rng: np.random.Generator,
) -> dict[str, IntArray]:
    """The part of each of these entries, which depends on their order."""
    parts = {}
    for name, table in observed.items():
        parts[name] = np.full(table.n_entries, NEVER, dtype=np.intp)
        drawn = free[name][rng.permutation(free[name].size)]
        strata = strata_of(problem, name, table)
        dealt = drawn[np.argsort(strata[drawn], kind="stable")]
        parts[name][dealt] = np.arange(dealt.size) % count
    keep_rows(parts, observed, problem.n_items, count, rng)
    for name, table in observed.items():
        keep_columns(parts[name], table)
    return parts


def free_entries(observed: Mapping[str, Table], n_items: int) -> dict[str, IntArray]:
    """The entries of each block that are the only one neither of their row nor of their column."""
    rows = np.concatenate([table.rows for table in observed.values()])
    in_row, free = np.bincount(rows, minlength=n_items), {}
    for name, table in observed.items():
        in_column = np.bincount(table.columns, minlength=table.shape[1])
        free[name] = np.flatnonzero((in_row[table.rows] > 1) & (in_column[table.columns] > 1))
    return free


def fewest_free(model: Model, data: Mapping[str, Any]) -> int:
    """The number of entries that can be held out of the block that has the fewest of them."""
    problem = Problem.bind(model, data)
    free = free_entries(observed_entries(problem), problem.n_items)
    return min(each.size for each in free.values())


def too_few(name: str, count: int, n_observed: int, n_free: int) -> str:
    """Why a block cannot be cut into so many folds."""
    reason = ""
    if n_free < n_observed:
        reason = (
            f", of which {n_free} can be held out: each other one is the only entry of its row or"
            " of its column"
        )
    return (
        f"block {name!r}: {count} folds were asked for, and {n_observed} entries are"
        f" observed{reason}; ask for fewer folds, at least 2, or hold out whole rows by"
        f" folds=RowFolds({count}) of mcframe.selection"
    )


def strata_of(problem: Problem, name: str, table: Table) -> IntArray:
    """A number for each entry, alike where the column is and, of few values, the value."""
    if not reads_few_values(problem.model.block(name).likelihood):
        return table.columns
    codes = (table.values - table.values.min()).astype(np.intp)
    return np.asarray(table.columns * (codes.max() + 1) + codes)


def keep_rows(
    parts: Mapping[str, IntArray],
    observed: Mapping[str, Table],
    n_items: int,
    count: int,
    rng: np.random.Generator,
) -> None:
    """Move one entry of each row that is in one part alone into another part."""
    lost = in_one_part([(table.rows, parts[name]) for name, table in observed.items()], n_items)
    for name, table in observed.items():
        within = np.flatnonzero(lost[table.rows])
        moved = within[np.unique(table.rows[within], return_index=True)[1]]
        step = rng.integers(1, count, moved.size)
        parts[name][moved] = (parts[name][moved] + step) % count
        lost[table.rows[moved]] = False


def keep_columns(part: IntArray, table: Table) -> None:
    """Hold out one entry less of each column that is in one part alone, after moves."""
    lost = in_one_part([(table.columns, part)], table.shape[1])
    within = np.flatnonzero(lost[table.columns])
    part[within[np.unique(table.columns[within], return_index=True)[1]]] = NEVER


def in_one_part(pairs: list[tuple[IntArray, IntArray]], size: int) -> Mask:
    """Which lines, by the line and the part of each entry, have all entries in a part."""
    lowest, highest = np.full(size, np.iinfo(np.intp).max), np.full(size, NEVER)
    for line, part in pairs:
        np.minimum.at(lowest, line, part)
        np.maximum.at(highest, line, part)
    return np.asarray((lowest == highest) & (lowest != NEVER))
