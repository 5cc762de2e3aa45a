"""One block's data as its entries, and answers in the form that the data came in."""

import sys
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.real_numbers import plain
from mcframe.model.cell_numbers import CellNumbers
from mcframe.model.labels import pandas_index
from mcframe.model.units import AffineUnits, Standard

__all__ = ["Given", "Table"]


@attrs.frozen(eq=False)
class Given:
    """What a table in standard units was before, and the ``standard`` that it is on.

    ``values``, ``weights`` and ``offset`` are those of the entries as the data have them.
    """

    values: Array
    weights: Array | None
    offset: CellNumbers | None
    standard: Standard

    def select(self, kept: Mask | IntArray) -> "Given":
        """Return values and weights of some of the entries."""
        weights = None if self.weights is None else self.weights[kept]
        return attrs.evolve(self, values=self.values[kept], weights=weights)


@attrs.frozen(eq=False)
class Table:
    """The entries of one block that carry loss, row-major, and the labels of its rows and columns.

    ``rows``, ``columns`` and ``values`` have one element for each of them: the observed
    entries, and for a risk the unlabeled ones too, whose value is NaN. ``weights`` has one
    element for each, or is None where all are 1; ``offset`` has a number for each row and
    latent column (K for each column of K classes), or is None. ``index`` and ``names`` are the
    labels of a DataFrame or of triples, None for arrays and sparse matrices. With ``unwritten``
    all other cells carry loss too, as unlabeled, but are not among the entries: there are too
    many of them.

    Of a standardised block ``given`` holds what is otherwise here: ``values`` of a location are
    then in standard units, its offset taken off before, and ``weights`` what each entry counts
    by its own weight and its column's.
    """

    shape: tuple[int, int]
    rows: IntArray
    columns: IntArray
    values: Array
    index: Any = None
    names: Any = None
    weights: Array | None = None
    offset: CellNumbers | None = None
    unwritten: bool = False
    given: Given | None = None

    @property
    def n_cells(self) -> int:
        """The number of cells, rows times columns; ``n_entries`` of them carry loss."""
        return self.shape[0] * self.shape[1]

    @property
    def n_entries(self) -> int:
        """The number of entries that carry loss."""
        return int(self.values.size)

    @property
    def n_observed(self) -> int:
        """The number of observed entries."""
        return int(np.count_nonzero(~np.isnan(self.values)))

    @property
    def total_weight(self) -> float:
        """The sum of the weights of the data: the number of entries where all are 1."""
        if self.unwritten:
            return float(self.n_cells)
        weights = self.as_given().weights
        return float(self.n_entries if weights is None else np.sum(weights))

    def standardised(self, standard: Standard) -> "Table":
        """Return the table on a standard, whether that was made from it or from another one."""
        given = Given(self.values, self.weights, self.offset, standard)
        weights = standard.weights[self.columns]
        with np.errstate(over="ignore"):  # weights that overflow are refused
            weights = weights if self.weights is None else self.weights * weights
        table = attrs.evolve(self, weights=weights, given=given)
        if standard.units is None:
            return table
        values = standard.units.standard(self.less_offsets(), self.columns)
        return attrs.evolve(table, values=values, offset=None)

    def on_standard_of(self, other: "Table") -> "Table":
        """Return the table on the standard that another one is on, if that is on one."""
        return self if other.given is None else self.standardised(other.given.standard)

    def log_spreads(self) -> Array | float:
        """The logarithm of what one standard unit of each entry is in the data's own."""
        if self.given is None or not isinstance(self.given.standard.units, AffineUnits):
            return 0.0
        spreads: Array = np.log(self.given.standard.units.spread)[self.columns]
        return spreads

    def as_given(self) -> "Table":
        """Return the table as the data have it, in their own units."""
        given = self.given
        if given is None:
            return self
        own = (given.values, given.weights, given.offset)
        return attrs.evolve(self, values=own[0], weights=own[1], offset=own[2], given=None)

    @property
    def given_offset(self) -> CellNumbers | None:
        """The offset as the data have it, also where units have taken it off the values."""
        return self.offset if self.given is None else self.given.offset

    def less_offsets(self) -> Array:
        """The values less the offsets of a location."""
        return self.values if self.offsets is None else self.values - self.offsets

    def natural(self, z: Array) -> Array:
        """Predictors of all cells (n_rows x latent columns) in the data's own units."""
        if self.given is None or self.given.standard.units is None:
            return z
        natural = self.given.standard.natural(z, np.arange(self.shape[1]))
        offset = self.given.offset
        return natural if offset is None else natural + offset.dense()

    def natural_at(self, z: Array, rows: IntArray, columns: IntArray) -> Array:
        """Predictors at some entries in the data's own units."""
        if self.given is None or self.given.standard.units is None:
            return z
        natural = self.given.standard.natural(z, columns)
        offset = self.given.offset
        return natural if offset is None else natural + offset.at(rows, columns)

    @property
    def offsets(self) -> Array | None:
        """The offset of each number of z: (n_entries,), of K classes (n_entries x K)."""
        return self.offset_at(self.rows, self.columns)

    def offset_at(self, rows: IntArray, columns: IntArray) -> Array | None:
        """The offset of each number of z at some entries: one each, or one a class."""
        if self.offset is None:
            return None
        width = self.offset.shape[1] // self.shape[1]
        if width == 1:
            return self.offset.at(rows, columns)
        return self.offset.at(rows[:, None], columns[:, None] * width + np.arange(width))

    def unobserved_columns(self, row: int) -> IntArray:
        """The columns of a row without an observed entry."""
        start, stop = np.searchsorted(self.rows, [row, row + 1])
        entries = slice(int(start), int(stop))
        left = np.ones(self.shape[1], dtype=bool)
        left[self.columns[entries][~np.isnan(self.values[entries])]] = False
        return np.flatnonzero(left)

    @property
    def row_counts(self) -> IntArray:
        """How many cells of each row carry loss."""
        if self.unwritten:
            return np.full(self.shape[0], self.shape[1])
        counts: IntArray = np.bincount(self.rows, minlength=self.shape[0])
        return counts

    @property
    def column_counts(self) -> IntArray:
        """How many cells of each column carry loss."""
        if self.unwritten:
            return np.full(self.shape[1], self.shape[0])
        counts: IntArray = np.bincount(self.columns, minlength=self.shape[1])
        return counts

    @property
    def rows_with_entries(self) -> Mask:
        """Which rows have an entry that carries loss, or a cell that is no entry and does."""
        found = np.full(self.shape[0], self.unwritten)
        found[self.rows] = True
        return found

    def observed_entries(self) -> "Table":
        """The observed entries alone."""
        kept = ~np.isnan(self.values)
        return self if kept.all() else self.select(kept)

    def select(self, kept: Mask | IntArray) -> "Table":
        """Some of the entries, or all of them in another order."""
        return attrs.evolve(
            self,
            rows=self.rows[kept],
            columns=self.columns[kept],
            values=self.values[kept],
            weights=None if self.weights is None else self.weights[kept],
            given=None if self.given is None else self.given.select(kept),
        )

    def with_columns(self, places: IntArray, names: Any) -> "Table":
        """The table with its columns at other places, and empty columns at those that are left.

        ``places`` has for each column where it goes, ``names`` the labels of all columns then.
        """
        columns = places[self.columns]
        order = np.lexsort((columns, self.rows))
        moved = attrs.evolve(self, columns=columns).select(order)
        offset = self.offset
        if offset is not None:
            width = offset.shape[1] // self.shape[1]
            numbers = (places[:, None] * width + np.arange(width)).ravel()
            offset = offset.with_columns(numbers, len(names) * width)
        shape = (self.shape[0], len(names))
        return attrs.evolve(moved, shape=shape, names=names, offset=offset)

    def with_all_cells(self) -> "Table":
        """Every entry of the block, the missing ones with the value NaN."""
        rows, columns = np.divmod(np.arange(self.n_cells), self.shape[1])
        values = np.full(self.shape, np.nan)
        values[self.rows, self.columns] = self.values
        written = values.ravel()
        return attrs.evolve(self, rows=rows, columns=columns, values=written, unwritten=False)

    def column_label(self, column: int) -> str:
        """How messages call a column: by its name where it has one."""
        return str(column) if self.names is None else repr(plain(self.names[column]))

    def row_label(self, row: int) -> str:
        """How messages call a row: by its label where it has one."""
        return str(row) if self.index is None else repr(plain(self.index[row]))

    def wrap(self, entries: Array, parts: int = 1) -> Any:
        """A dense answer in the form the data came in: a DataFrame if they were one.

        With ``parts`` > 1 each column of the data has so many of the answer, labelled
        (name, 0), (name, 1), ...
        """
        index = pandas_index(self.index)
        if index is None:
            return entries
        pandas, names = sys.modules["pandas"], pandas_index(self.names, always=True)
        names = range(self.shape[1]) if names is None else names
        if parts > 1:
            names = pandas.MultiIndex.from_product([names, range(parts)])
        return pandas.DataFrame(entries, index=index, columns=names)

    def wrap_column(self, entries: Array) -> Any:
        """One number a row in the form the data came in: a Series if the rows had labels."""
        index = pandas_index(self.index)
        return entries if index is None else sys.modules["pandas"].Series(entries, index=index)

    def wrap_row(self, entries: Array) -> Any:
        """One number a column in the form the data came in: a Series if they had names."""
        names = pandas_index(self.names)
        return entries if names is None else sys.modules["pandas"].Series(entries, index=names)
