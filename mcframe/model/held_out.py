"""Entries that a fit does not see: how they are drawn, what is left of the data, their values."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray, Mask, ends_of, is_interval, nearest_to
from mcframe.model.model import Observations
from mcframe.model.problem import Problem
from mcframe.model.table import Table
from mcframe.numerics.splitmix64 import splitmix64

# The part of entries that are never held out.
NEVER_HELD_OUT = -1


def observed_entries(problem: Problem) -> dict[str, Table]:
    """Return the observed entries of each block, in the units of the data.

    A fit of a standardised block computes its units from the entries that it sees.
    """
    names = [block.name for block in problem.model.blocks]
    return {name: problem.tables[name].observed_entries().in_data_units() for name in names}


def entries_as_data(table: Table, width: int) -> Observations:
    """Return the entries of a block as data, with their weights, and the offsets of all cells.

    ``width`` is that of the block's likelihood.
    """
    places = table.rows, table.columns
    weights: Any = None
    if table.weights is not None:
        weights = sp.coo_array((table.weights, places), shape=table.shape)
    offset: Any = None if table.offset is None else table.offset.dense()[:, ::width]
    numbers = with_observations(
        table, lambda part: sp.coo_array((part.values, (part.rows, part.columns)), part.shape)
    )
    propensity: Any = None
    if table.propensities is not None:
        propensity = sp.coo_array((table.propensities, places), shape=table.shape)
    return Observations(weights=weights, offset=offset, propensity=propensity, **numbers)


@attrs.frozen(eq=False)
class Held:
    """Held-out entries of a block: rows and columns, counted from 0, and values.

    ``observations`` are the values, with the limits of those that are not known exactly or with
    the propensities of labels. ``hidden`` has the entries that are neither held out for scores nor
    fitted, and ``of_new_rows`` says that the held-out entries are all of rows that are not fitted.
    """

    rows: IntArray
    columns: IntArray
    values: Array
    observations: Array = attrs.field()
    hidden: Table | None = None
    of_new_rows: bool = False

    @observations.default
    def _exact_values(self) -> Array:
        return self.values

    @classmethod
    def of(cls, table: Table, hidden: Table | None = None) -> "Held":
        """All entries of a table, beside those that are hidden."""
        return cls(table.rows, table.columns, table.values, table.observations, hidden)

    def errors(self, answers: Array) -> Array:
        """Answers less values; 0 where an answer lies within the limits of its entry."""
        return answers - nearest_to(self.observations, answers)


@attrs.frozen(eq=False)
class HeldOut:
    """Entries that a fit does not see, and those of them that its answers are scored on.

    Attributes
    ----------
    tables : dict from block name to Table
        The observed entries of each block, in the units of the data.
    fitted, scored : dict from block name to mask (n_entries,)
        The entries that are fitted and those that are scored. Of rows that are not fitted, entries
        that are neither are what predictions are made from.
    """

    tables: Mapping[str, Table]
    fitted: Mapping[str, Mask]
    scored: Mapping[str, Mask]

    @classmethod
    def of_parts(
        cls, tables: Mapping[str, Table], parts: Mapping[str, IntArray], part: int
    ) -> "HeldOut":
        """Hold out one part of the entries, all of which are scored."""
        return cls(
            tables,
            {name: parts[name] != part for name in tables},
            {name: parts[name] == part for name in tables},
        )

    @classmethod
    def of_all(cls, held_out: "Sequence[HeldOut]") -> "HeldOut":
        """Hold out what any of several folds of one table does."""
        tables = held_out[0].tables
        return cls(
            tables,
            {name: np.logical_and.reduce([h.fitted[name] for h in held_out]) for name in tables},
            {name: np.logical_or.reduce([h.scored[name] for h in held_out]) for name in tables},
        )

    @classmethod
    def of_share(
        cls, tables: Mapping[str, Table], share: float, rng: np.random.Generator
    ) -> "HeldOut":
        """Hold out a share of the entries of each block, one at least, but not all.

        Which they are does not depend on the order of blocks and columns.
        """
        scored = {}
        for name, (table, order) in by_content(tables).items():
            drawn = drawn_share(np.zeros(table.n_entries, dtype=np.intp), share, rng)
            scored[name] = drawn[np.argsort(order)]
        return cls(tables, {name: ~scored[name] for name in tables}, scored)

    @classmethod
    def of_cells(cls, tables: Mapping[str, Table], scored: Mapping[str, Mask]) -> "HeldOut":
        """Hold out the entries at these cells (n_rows x n_columns) of each block."""
        masks = {name: scored[name][table.rows, table.columns] for name, table in tables.items()}
        return cls(tables, {name: ~mask for name, mask in masks.items()}, masks)

    def hiding(self, cells: Mapping[str, Mask]) -> "HeldOut":
        """A copy in which the entries at these cells are hidden from the fit, too."""
        fitted = {
            name: self.fitted[name] & ~cells[name][table.rows, table.columns]
            for name, table in self.tables.items()
        }
        return attrs.evolve(self, fitted=fitted)

    def of_values(self) -> "HeldOut":
        """A copy in which entries of which only limits are known are fitted, and not scored."""
        limited = {name: is_interval(table.observations) for name, table in self.tables.items()}
        return attrs.evolve(
            self,
            fitted={name: self.fitted[name] | limited[name] for name in self.tables},
            scored={name: self.scored[name] & ~limited[name] for name in self.tables},
        )

    @property
    def new_rows(self) -> dict[str, Mask]:
        """The entries of rows with scored ones that are neither fitted nor scored."""
        n_rows = max(table.shape[0] for table in self.tables.values())
        in_scored_row = np.zeros(n_rows, dtype=bool)
        for name, table in self.tables.items():
            in_scored_row[table.rows[self.scored[name]]] = True
        return {
            name: in_scored_row[table.rows] & ~self.fitted[name] & ~self.scored[name]
            for name, table in self.tables.items()
        }

    @property
    def values(self) -> dict[str, Held]:
        """The scored entries with their values, beside those that are not fitted either."""
        return {
            name: Held.of(
                table.select(self.scored[name]),
                table.select(~self.fitted[name] & ~self.scored[name]),
            )
            for name, table in self.tables.items()
        }

    def remaining(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data without what is held out, in the form in which they are given."""
        return self.part_of(data, self.fitted)

    def part_of(self, data: Mapping[str, Any], chosen: Mapping[str, Mask]) -> dict[str, Any]:
        """Return the data with all but the chosen entries missing, in their form."""
        return {
            name: with_entries(data[name], table.select(chosen[name]))
            for name, table in self.tables.items()
        }

    def scored_cells(self, name: str) -> Mask:
        """The cells of a block (n_rows x n_columns) whose entries are scored."""
        table, scored = self.tables[name], self.scored[name]
        cells: Mask = np.zeros(table.shape, dtype=bool)
        cells[table.rows[scored], table.columns[scored]] = True
        return cells


def with_observations(entries: Table, form: Callable[[Table], Any]) -> dict[str, Any]:
    """Return ``values``, ``lower`` and ``upper`` of ``Observations`` with these entries.

    ``form`` makes data of the numbers of a table.
    """
    if entries.intervals is None:
        return {"values": form(entries), "lower": None, "upper": None}
    censored = is_interval(entries.intervals)
    numbers = {"values": form(entries.select(~censored))}
    for what, limits in zip(("lower", "upper"), ends_of(entries.intervals), strict=True):
        numbers[what] = form(
            attrs.evolve(entries, values=limits).select(censored & ~np.isinf(limits))
        )
    return numbers


def with_entries(data: Any, entries: Table) -> Any:
    """Return the data of a block with all but some of their entries missing, in their form."""
    if isinstance(data, Observations):
        return attrs.evolve(
            data, **with_observations(entries, lambda part: with_entries(data.values, part))
        )
    if sp.issparse(data):
        return sp.coo_array((entries.values, (entries.rows, entries.columns)), shape=entries.shape)
    dense = np.full(entries.shape, np.nan)
    dense[entries.rows, entries.columns] = entries.values
    return entries.wrap(dense)


def dealt(strata: Any, count: int, start: int = 0) -> IntArray:
    """Deal entries, or rows, out to ``count`` parts in turn, and return the part of each.

    Those of one stratum come one after the other, in the order in which they are given, so that
    each part has its share of every stratum. The first one goes to the part ``start``.
    """
    parts: IntArray = np.empty(len(strata), dtype=np.intp)
    parts[np.argsort(strata, kind="stable")] = (start + np.arange(len(strata))) % count
    return parts


def dealt_cells(codes: Array, count: int, rng: np.random.Generator) -> IntArray:
    """Return the part of each observed entry of a table (n x n_columns), else ``NEVER_HELD_OUT``.

    Column by column, entries with the same value in turn, so that each part has its share of a
    rare one. The order of columns has no influence.
    """
    parts = np.full(codes.shape, NEVER_HELD_OUT)
    for place in np.argsort(places_by_content(codes)):
        rows = rng.permutation(np.flatnonzero(~np.isnan(codes[:, place])))
        parts[rows, place] = dealt(codes[rows, place], count, int(rng.integers(count)))
    return parts


def drawn_share(groups: IntArray, share: float, rng: np.random.Generator) -> Mask:
    """Draw a share of the entries of each group, one at least, but not all.

    Parameters
    ----------
    groups : array of integers (n,)
        The group of each entry, such as its row, from 0.
    share : float
    rng : numpy.random.Generator
    """
    in_group = np.bincount(groups)
    drawn = rng.permutation(groups.size)
    order = drawn[np.argsort(groups[drawn], kind="stable")]
    rank_in_group: IntArray = np.empty(groups.size, dtype=np.intp)
    starts = np.cumsum(in_group) - in_group
    rank_in_group[order] = np.arange(groups.size) - starts[groups[order]]
    n_drawn = np.minimum(np.maximum(np.rint(share * in_group), 1), in_group - 1)
    return np.asarray(rank_in_group < n_drawn[groups])


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
        by_value = np.lexsort((table.values, table.columns))
        sorted_table = table.select(by_value)
        of_columns = keys_of(
            sorted_table.rows, sorted_table.columns, sorted_table.values, table.shape[1]
        )
        keys[name] = (int(np.sum(of_columns)), name)
        places = places_of_columns(of_columns, table.columns, table.values)[table.columns]
        order = np.lexsort((table.rows, places))
        ordered[name] = (attrs.evolve(table.select(order), columns=places[order]), order)
    return {name: ordered[name] for name in sorted(ordered, key=keys.__getitem__)}


def places_by_content(values: Array) -> IntArray:
    """Return the place of each column of a table (n x d, NaN where missing) by what it holds."""
    order = np.argsort(values.T, axis=1)  # NaN comes last
    counts = np.count_nonzero(~np.isnan(values), axis=0)
    columns, places = np.nonzero(np.arange(len(values)) < counts[:, None])
    rows = order[columns, places]
    entries = values[rows, columns]
    return places_of_columns(keys_of(rows, columns, entries, values.shape[1]), columns, entries)


def places_of_columns(keys: Any, columns: IntArray, values: Array) -> IntArray:
    """Return the place of each column in the order of keys; among equal keys, of column sums."""
    order = np.lexsort((np.bincount(columns, values, keys.size), keys))
    places: IntArray = np.empty(keys.size, dtype=np.intp)
    places[order] = np.arange(keys.size)
    return places


def keys_of(rows: IntArray, columns: IntArray, values: Array, n_columns: int) -> Any:
    """Return a number for each column, made of the ranks of its values and their rows.

    Hence it is the same in any unit of the column. Columns that are alike have the same key.
    Entries are given column by column, and by their values.
    """
    is_new_value = np.ones(rows.size, dtype=np.int64)
    is_new_value[1:] = (np.diff(values) > 0.0) | (np.diff(columns) > 0)
    overall_ranks = np.cumsum(is_new_value)
    starts = np.searchsorted(columns, np.arange(n_columns))
    ranks = overall_ranks - np.append(overall_ranks, 0)[starts][columns]
    keys, counts = np.zeros(n_columns, dtype=np.uint64), np.bincount(columns, minlength=n_columns)
    numbers = splitmix64(splitmix64(rows) + ranks.astype(np.uint64))
    if rows.size:
        keys[counts > 0] = np.add.reduceat(numbers, starts[counts > 0])
    return keys
