"""One block's data as its entries, their transforms, and answers in the form of the data."""

import sys
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask, Shape, exposed, nearest_to, points_of
from mcframe.contracts.errors import ModelError
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import plain
from mcframe.model.labels import pandas_index
from mcframe.model.transforms import (
    CellNumbers,
    Chain,
    Offset,
    OffsetWithoutData,
    Transform,
    Units,
    latent_places,
)


@stored
@attrs.frozen(eq=False)
class Standard:
    """The units and the weights that put the columns of a block on one scale.

    Attributes
    ----------
    units : Units or None
        Of values; None for labels, counts and classes, whose predictors have a unit of their own.
    weights : array (n_columns,)
        The factor of each column on the weights of its entries.
    """

    units: Units | None
    weights: Array


@stored(formerly=("Given",))
@attrs.frozen(eq=False)
class OriginalValues:
    """The values of a table before they were standardised, and the ``standard`` used.

    ``values``, ``weights``, ``offset`` and ``intervals`` are those of the entries as the data
    have them.
    """

    values: Array
    weights: Array | None
    offset: CellNumbers | OffsetWithoutData | None
    standard: Standard
    intervals: Array | None = None

    def select(self, kept: Mask | IntArray) -> "OriginalValues":
        """Return values and weights of some of the entries."""
        weights = None if self.weights is None else self.weights[kept]
        intervals = None if self.intervals is None else self.intervals[kept]
        return attrs.evolve(self, values=self.values[kept], weights=weights, intervals=intervals)


@stored(renamed_fields={"given": "original", "unwritten": "has_implicit_cells"})
@attrs.frozen(eq=False)
class Table:
    """The entries of one block that carry loss, row-major, and the labels of its rows and columns.

    ``rows``, ``columns`` and ``values`` have one element for each entry: the observed ones, and
    for a risk the unlabeled ones too, whose value is NaN. ``weights`` has one element for each, or
    is None if all are 1. ``offset`` has a number for each row and latent column (K for each
    column of K classes), or is None. ``index`` and ``names`` are the labels of a DataFrame or of
    triples, None for arrays and sparse matrices. If ``has_implicit_cells``, all other
    cells carry loss, too, as unlabeled; they are too many to be among the entries.

    For a standardised block ``original`` has the original values, weights and offset. ``values``
    of a location are then in standard units, after its offset was subtracted, and ``weights`` are
    products of the weight of the entry and that of its column.

    ``intervals`` has the two limits of each entry where some are not known exactly, of the dtype
    ``INTERVALS``; ``values`` are then numbers within the limits. None if all are known.
    ``propensities`` has the probability that the label of each entry is recorded, 1 of unlabeled
    ones; None if they are not given.
    """

    shape: Shape
    rows: IntArray
    columns: IntArray
    values: Array
    index: Any = None
    names: Any = None
    weights: Array | None = None
    offset: CellNumbers | OffsetWithoutData | None = None
    has_implicit_cells: bool = False
    original: OriginalValues | None = None
    intervals: Array | None = None
    propensities: Array | None = None

    @property
    def observations(self) -> Array:
        """The values of the entries as losses take them, with limits or propensities if any."""
        if self.propensities is not None:
            return exposed(self.values, self.propensities)
        return self.values if self.intervals is None else self.intervals

    @property
    def column_names(self) -> Sequence[Any]:
        """The labels of the columns; their places where the data have none."""
        return range(self.shape[1]) if self.names is None else [plain(n) for n in self.names]

    @property
    def n_cells(self) -> int:
        """The number of cells, rows times columns; ``n_entries`` of them carry loss."""
        return self.shape[0] * self.shape[1]

    @property
    def cells(self) -> IntArray:
        """The places of the entries in the raveled table."""
        return self.rows.astype(np.int64) * self.shape[1] + self.columns

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
        if self.has_implicit_cells:
            return float(self.n_cells)
        weights = self.in_data_units().weights
        return float(self.n_entries if weights is None else np.sum(weights))

    def standardised(self, standard: Standard) -> "Table":
        """Return the table on a standard, whether that was made from it or from another one."""
        original = OriginalValues(self.values, self.weights, self.offset, standard, self.intervals)
        weights = standard.weights[self.columns]
        with np.errstate(over="ignore"):  # weights that overflow are refused
            weights = weights if self.weights is None else self.weights * weights
        table = attrs.evolve(self, weights=weights, original=original)
        if standard.units is None:
            return table
        targets = self.targets(standard.units)
        return attrs.evolve(
            table,
            values=points_of(targets),
            offset=None,
            intervals=None if self.intervals is None else targets,
        )

    def on_standard_of(self, other: "Table") -> "Table":
        """Return the table on the standard that another one is on, if that is on one."""
        return self if other.original is None else self.standardised(other.original.standard)

    def in_data_units(self) -> "Table":
        """Return the table in the units of the data."""
        original = self.original
        if original is None:
            return self
        return attrs.evolve(
            self,
            values=original.values,
            weights=original.weights,
            offset=original.offset,
            original=None,
            intervals=original.intervals,
        )

    @property
    def offset_in_data(self) -> CellNumbers | OffsetWithoutData | None:
        """The offset as the data have it, also where units have taken it off the values."""
        return self.offset if self.original is None else self.original.offset

    @property
    def units(self) -> Chain:
        """The standard units of its columns; empty if values are in the units of the data."""
        return Chain.of(None if self.original is None else self.original.standard.units)

    @property
    def applied(self) -> Chain:
        """The transforms of ``values`` so far: in standard units the offset and the units."""
        if self.original is None or not self.units:
            return Chain()
        return Chain.of(Offset.of(self.original.offset), *self.units)

    @property
    def pending(self) -> Chain:
        """The transforms that are left: the offset of values in the units of the data."""
        return Chain.of(Offset.of(self.offset))

    @property
    def transforms(self) -> Chain:
        """The whole way from the units of the data; predictors go back by its ``invert``."""
        return Chain((*self.applied, *self.pending))

    def targets(self, *further: Transform | None) -> Array:
        """The observations through what is pending, and further transforms: y of a location."""
        chain = Chain.of(*self.pending, *further)
        return chain.observed(self.observations, self.rows, self.columns)

    @property
    def offsets(self) -> Array | None:
        """The offset of each number of z: (n_entries,), of K classes (n_entries x K)."""
        if self.offset is None:
            return None
        width = self.offset.shape[1] // self.shape[1]
        return self.offset.at(*latent_places(self.rows, self.columns, width))

    def unobserved_columns(self, row: int) -> IntArray:
        """The columns of a row without an observed entry."""
        start, stop = np.searchsorted(self.rows, [row, row + 1])
        entries = slice(int(start), int(stop))
        unobserved = np.ones(self.shape[1], dtype=bool)
        unobserved[self.columns[entries][~np.isnan(self.values[entries])]] = False
        return np.flatnonzero(unobserved)

    @property
    def row_counts(self) -> IntArray:
        """The number of cells of each row that carry loss."""
        if self.has_implicit_cells:
            return np.full(self.shape[0], self.shape[1])
        return np.bincount(self.rows, minlength=self.shape[0])

    @property
    def column_counts(self) -> IntArray:
        """The number of cells of each column that carry loss."""
        if self.has_implicit_cells:
            return np.full(self.shape[1], self.shape[0])
        return np.bincount(self.columns, minlength=self.shape[1])

    @property
    def rows_with_entries(self) -> Mask:
        """A mask of the rows with an entry, or an implicit cell, that carries loss."""
        occupied = np.full(self.shape[0], self.has_implicit_cells)
        occupied[self.rows] = True
        return occupied

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
            intervals=None if self.intervals is None else self.intervals[kept],
            propensities=None if self.propensities is None else self.propensities[kept],
            original=None if self.original is None else self.original.select(kept),
        )

    def rows_at(self, rows: IntArray) -> "Table":
        """Some of its rows in the units of the data, in any order and any number of times.

        Without the labels of rows.
        """
        table = self.in_data_units()
        starts, stops = np.searchsorted(table.rows, [rows, rows + 1])
        counts = stops - starts
        firsts = np.cumsum(counts) - counts
        entries = np.arange(np.sum(counts)) + np.repeat(starts - firsts, counts)
        offset: Any = table.offset
        return attrs.evolve(
            table.select(entries),
            shape=(rows.size, table.shape[1]),
            rows=np.repeat(np.arange(rows.size), counts),
            index=None,
            offset=None if offset is None else offset.rows_at(rows),
        )

    def with_columns(self, places: IntArray, names: Any) -> "Table":
        """The table with its columns at other places, and empty columns at those that are left.

        ``places`` has for each column where it goes, ``names`` the labels of all columns then.
        """
        columns = places[self.columns]
        order = np.lexsort((columns, self.rows))
        moved = attrs.evolve(self, columns=columns).select(order)
        offset: Any = self.offset
        if offset is not None:
            width = offset.shape[1] // self.shape[1]
            numbers = (places[:, None] * width + np.arange(width)).ravel()
            offset = offset.with_columns(numbers, len(names) * width)
        shape = (self.shape[0], len(names))
        return attrs.evolve(moved, shape=shape, names=names, offset=offset)

    def with_all_cells(self) -> "Table":
        """Every entry of the block, the missing ones with the value NaN."""
        rows, columns = np.divmod(np.arange(self.n_cells), self.shape[1])
        values, propensities = np.full(self.n_cells, np.nan), None
        values[self.cells] = self.values
        if self.propensities is not None:
            propensities = np.ones(self.n_cells)
            propensities[self.cells] = self.propensities
        return attrs.evolve(
            self,
            rows=rows,
            columns=columns,
            values=values,
            has_implicit_cells=False,
            propensities=propensities,
        )

    def column_label(self, column: int) -> str:
        """The name of a column in messages; its number where it has no name."""
        return str(column) if self.names is None else repr(plain(self.names[column]))

    def row_label(self, row: int) -> str:
        """The label of a row in messages; its number where it has none."""
        return str(row) if self.index is None else repr(plain(self.index[row]))

    def filled_with(self, values: Array) -> Any:
        """The entries, as the data have them, and elsewhere these values of all cells.

        Of an entry with limits the number within them that is nearest to its value.
        """
        filled = np.array(values, dtype=np.float64).reshape(self.shape)
        places = self.rows, self.columns
        filled[places] = nearest_to(self.in_data_units().observations, filled[places])
        return self.wrap(filled)

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


# Attributes that a table has without its entries, too.
ATTRIBUTES_WITHOUT_ENTRIES = {
    *("shape", "n_cells", "has_implicit_cells", "index", "names", "row_label", "column_label"),
    *("original", "offset_in_data", "offset", "units", "applied", "pending", "transforms"),
    *("wrap", "wrap_column", "wrap_row"),
}


@stored(formerly=("LeftBehind",), stands_for=Table)
@attrs.frozen(eq=False)
class TableWithoutData:
    """A block's shape, labels and offset in the place of its ``Table``.

    It answers what these answer. Whatever asks for entries, their values or their weights gets a
    ``ModelError``, wherever in the package it asks.
    """

    block: str
    empty: Table
    row_counts: IntArray  # the number of cells of each row that carry loss

    @property
    def rows_with_entries(self) -> Mask:
        """A mask of the rows with such a cell."""
        return self.row_counts > 0

    @property
    def why(self) -> str:
        """The reason for having no entries, and a remedy, as a clause."""
        return "a compact fit has left its data behind; ask the fit that fit.compact() was made of"

    @classmethod
    def of(cls, block: str, table: "Table | TableWithoutData") -> "TableWithoutData":
        """The table without its entries, and without what could still reach them."""
        if isinstance(table, TableWithoutData):
            return table.without_data()
        nowhere = np.zeros(0, dtype=np.intp)
        return cls(block, table.select(nowhere), table.row_counts)

    def without_data(self) -> "TableWithoutData":
        """Itself; one whose entries stay in partitions returns a table that cannot ask these."""
        return self

    def unobserved_columns(self, row: int) -> Any:
        """An error that says how to rank columns without the entries of a row."""
        raise ModelError(
            f"block {self.block!r}: to leave out the observed columns of a row needs its entries,"
            f" and {self.why}; observed=True ranks all columns, and top_rows takes the entries of"
            " a row anew"
        )

    def __getattr__(self, name: str) -> Any:
        if name in ATTRIBUTES_WITHOUT_ENTRIES:
            return getattr(self.empty, name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise ModelError(
            f"block {self.block!r}: this needs the observed entries ({name} of the table), and"
            f" {self.why}"
        )
