"""One block's data as its entries, its standard units, and answers in the form of the data."""

import sys
from typing import Any

import attrs
import numpy as np
from scipy.special import ndtri

from mcframe.contracts.arrays import Array, IntArray, Mask, Shape
from mcframe.contracts.errors import ModelError
from mcframe.contracts.validators import plain
from mcframe.model.labels import pandas_index

# The interquartile range of a normal distribution in standard deviations.
QUARTILES = 1.349


@attrs.frozen(eq=False)
class AffineUnits:
    """``(x - pivot - shift) / spread`` of each column.

    The centre stands in two parts: a ``pivot`` within the column's range, from which differences
    are exact where its values lie close together, and the rest, a ``shift`` of the size of what
    varies. A column around 1e12 that varies by 1e-3 loses no digit by its units.

    Attributes
    ----------
    pivot, shift, spread : arrays (n_columns,)
    """

    pivot: Array
    shift: Array
    spread: Array

    @property
    def centre(self) -> Array:
        """The value of each column that is 0 in standard units."""
        return self.pivot + self.shift

    def standard(self, values: Array, columns: IntArray) -> Array:
        """(x - pivot - shift) / spread."""
        standard: Array = values - self.pivot[columns] - self.shift[columns]
        return standard / self.spread[columns]

    def natural(self, z: Array, columns: IntArray) -> Array:
        """Pivot + (shift + spread * z)."""
        return self.pivot[columns] + (self.shift[columns] + self.spread[columns] * z)


@attrs.frozen(eq=False)
class RankUnits:
    """Normal scores of each column, linear between the values that were observed.

    Outside of these a value has the score of the smallest or the largest, and a score their value.
    The knots of column j are those from ``starts[j]`` to ``starts[j + 1]``.

    Attributes
    ----------
    starts : array of integers (n_columns + 1,)
    values, scores : arrays
        The distinct values of one column after the other, ascending, and their normal scores.
    """

    starts: IntArray
    values: Array
    scores: Array

    def standard(self, values: Array, columns: IntArray) -> Array:
        """The normal scores."""
        return self.interpolated(values, columns, self.values, self.scores)

    def natural(self, z: Array, columns: IntArray) -> Array:
        """The values at scores."""
        return self.interpolated(z, columns, self.scores, self.values)

    def interpolated(
        self, numbers: Array, columns: IntArray, sources: Array, targets: Array
    ) -> Array:
        """One side of the knots read off at numbers on the other side; 0 where there are none."""
        spread_out = np.broadcast_arrays(numbers, columns)
        flat, owners = spread_out[0].ravel(), spread_out[1].ravel()
        interpolated = np.zeros(flat.size)
        order, starts = grouped(owners, self.starts.size - 1)
        for column in np.flatnonzero(np.diff(starts)):
            entries = order[starts[column] : starts[column + 1]]
            knots = slice(self.starts[column], self.starts[column + 1])
            if sources[knots].size:
                interpolated[entries] = np.interp(flat[entries], sources[knots], targets[knots])
        return interpolated.reshape(spread_out[0].shape)


Units = AffineUnits | RankUnits


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

    def natural(self, z: Array, columns: IntArray) -> Array:
        """Predictors in the data's own units."""
        return z if self.units is None else self.units.natural(z, columns)


def affine_units(
    values: Array, columns: IntArray, weights: Array, n_columns: int, robust: bool
) -> AffineUnits:
    """Return centre and spread of the columns of some entries.

    Mean and standard deviation, the root of the mean square; if ``robust`` the median, and the
    interquartile range over 1.349, with the deviation where that is 0. A weight counts as that
    many entries. Spread 1 where all values are alike, and 0 and 1 without any.
    """
    pivot, size = middles_and_sizes_of(*ranges_of(values, columns, n_columns))
    scaled = (values - pivot[columns]) / size[columns]  # squares neither overflow nor vanish
    total = np.bincount(columns, weights, n_columns)
    total[total == 0.0] = 1.0
    mean = np.bincount(columns, weights * scaled, n_columns) / total
    squares = np.bincount(columns, weights * np.square(scaled - mean[columns]), n_columns)
    centre, spread = mean, np.sqrt(squares / total)
    if robust:
        low, centre, high = quartiles(scaled, columns, weights, n_columns)
        between = (high - low) / QUARTILES
        spread = np.where(between > 0.0, between, spread)
    return affine_units_of(pivot, size, centre, spread)


def affine_units_of(pivot: Array, size: Array, centre: Array, spread: Array) -> AffineUnits:
    """Return the units of columns of which ``(values - pivot) / size`` has centre and spread."""
    alike = spread == 0.0
    return AffineUnits(
        pivot, np.where(alike, 0.0, size * centre), np.where(alike, 1.0, size * spread)
    )


def ranges_of(values: Array, groups: IntArray, n_groups: int) -> tuple[Array, Array]:
    """Return the least and the largest value of each group; inf and -inf without any."""
    lowest, highest = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(lowest, groups, values)
    np.maximum.at(highest, groups, values)
    return lowest, highest


def middles_and_sizes_of(lowest: Array, highest: Array) -> tuple[Array, Array]:
    """Return the middles of ranges, and how far their ends lie from them.

    The middle is 0 without values, the distance 1 where it would be 0.
    """
    seen = lowest <= highest
    middle, size = np.zeros(lowest.size), np.zeros(lowest.size)
    middle[seen] = lowest[seen] + 0.5 * (highest[seen] - lowest[seen])
    size[seen] = np.maximum(highest[seen] - middle[seen], middle[seen] - lowest[seen])
    return middle, np.where(size > 0.0, size, 1.0)


def quartiles(values: Array, columns: IntArray, weights: Array, n_columns: int) -> Any:
    """Return the quartiles of each column, 0 without values: an array (3, n_columns).

    By the inverse of the distribution function, averaged where that is flat, which counts a weight
    of 2 as two entries (Hyndman and Fan, Sample quantiles in statistical packages, 1996, type 2).
    """
    order, starts = grouped(columns, n_columns, values)
    quantiles = np.zeros((3, n_columns))
    for column in np.flatnonzero(np.diff(starts)):
        entries = order[starts[column] : starts[column + 1]]
        sorted_values, cumulative = values[entries], np.cumsum(weights[entries])
        wanted = np.array([0.25, 0.5, 0.75]) * cumulative[-1]
        above = np.searchsorted(cumulative, wanted, side="right").clip(max=entries.size - 1)
        below = np.searchsorted(cumulative, wanted, side="left").clip(max=entries.size - 1)
        quantiles[:, column] = sorted_values[below] + 0.5 * (
            sorted_values[above] - sorted_values[below]
        )
    return quantiles


def rank_units(values: Array, columns: IntArray, weights: Array, n_columns: int) -> RankUnits:
    """Return the normal scores of the columns of some entries.

    A value's score is the normal quantile of the weight of smaller values, plus half of that of
    its equals, over that of all: of n different values those at (1/2)/n, (3/2)/n, ..., ties by
    their average rank (Hazen's plotting positions, which count a weight of 2 as two entries).
    """
    order, starts = grouped(columns, n_columns, values)
    knots: list[Array] = [np.zeros(0)]
    scores: list[Array] = [np.zeros(0)]
    for column in np.flatnonzero(np.diff(starts)):
        entries = order[starts[column] : starts[column + 1]]
        distinct, equal = np.unique(values[entries], return_inverse=True)
        tie_weights = np.bincount(equal, weights[entries])
        cumulative = np.cumsum(tie_weights)
        knots.append(distinct)
        scores.append(ndtri((cumulative - 0.5 * tie_weights) / cumulative[-1]))
    sizes = np.zeros(n_columns, dtype=np.intp)
    sizes[np.diff(starts) > 0] = [part.size for part in knots[1:]]
    return RankUnits(
        np.concatenate([[0], np.cumsum(sizes)]), np.concatenate(knots), np.concatenate(scores)
    )


def grouped(
    columns: IntArray, n_columns: int, values: Array | None = None
) -> tuple[IntArray, IntArray]:
    """Return the entries by column, and by value if given, and where each column starts."""
    order = np.argsort(columns, kind="stable") if values is None else np.lexsort((values, columns))
    counts = np.bincount(columns, minlength=n_columns)
    return order, np.concatenate([[0], np.cumsum(counts)])


@attrs.frozen(eq=False)
class CellNumbers:
    """Weights or offsets of all cells of a table, looked up where they are asked for.

    Attributes
    ----------
    shape : (n_rows, n_columns)
    numbers : array
        Of the shape itself, (n_rows, 1), (1, n_columns) or (1, 1), as NumPy broadcasts it; with
        ``cells`` one number for each of them.
    cells : array of integers, or None
        The cells ``row * n_columns + column`` that a sparse matrix stores, in ascending order; all
        other numbers are 0.
    """

    shape: Shape
    numbers: Array
    cells: IntArray | None = None

    def at(self, rows: IntArray, columns: IntArray) -> Array:
        """Return the numbers of some cells, of the shape that rows and columns have together."""
        if self.cells is None:
            return np.broadcast_to(self.numbers, self.shape)[rows, columns]
        wanted = np.asarray(rows, dtype=np.int64) * self.shape[1] + columns
        if not self.cells.size:
            return np.zeros(wanted.shape)
        places = np.minimum(np.searchsorted(self.cells, wanted), self.cells.size - 1)
        return np.where(self.cells[places] == wanted, self.numbers[places], 0.0)

    def dense(self) -> Array:
        """Return the numbers of all cells (n_rows x n_columns), perhaps as a read-only view."""
        if self.cells is None:
            return np.broadcast_to(self.numbers, self.shape)
        whole = np.zeros(self.shape)
        whole.ravel()[self.cells] = self.numbers
        return whole

    def repeat(self, width: int) -> "CellNumbers":
        """Return those of a table with ``width`` columns for each of this one, all alike."""
        shape = (self.shape[0], self.shape[1] * width)
        if self.cells is not None:
            cells = (self.cells[:, None] * width + np.arange(width)).ravel()
            return CellNumbers(shape, np.repeat(self.numbers, width), cells)
        if self.numbers.shape[1] == 1:
            return CellNumbers(shape, self.numbers)
        return CellNumbers(shape, np.repeat(self.numbers, width, axis=1))

    def with_columns(self, places: IntArray, n_columns: int) -> "CellNumbers":
        """Return those of a wider table that has these columns at some places, 0 elsewhere."""
        shape = (self.shape[0], n_columns)
        if self.cells is not None:
            rows, columns = np.divmod(self.cells, self.shape[1])
            cells = rows * n_columns + places[columns]
            order = np.argsort(cells)
            return CellNumbers(shape, self.numbers[order], cells[order])
        numbers = np.zeros((self.numbers.shape[0], n_columns))
        numbers[:, places] = self.numbers
        return CellNumbers(shape, numbers)


@attrs.frozen(eq=False)
class OffsetWithoutData:
    """The place of a block's offset that stayed with the partitions of its rows."""

    shape: Shape
    block: str

    def at(self, rows: IntArray, columns: IntArray) -> Array:
        """Raise a ``ModelError``."""
        raise ModelError(
            f"block {self.block!r}: its predictions count with offsets, which a compact fit has"
            " left behind with the partitions; ask the fit that fit.compact() was made of, or"
            " predict_rows, which takes offsets anew"
        )

    def dense(self) -> Array:
        """The offsets of all cells, by ``at``."""
        return self.at(*np.ogrid[: self.shape[0], : self.shape[1]])


@attrs.frozen(eq=False)
class OriginalValues:
    """The values of a table before they were standardised, and the ``standard`` used.

    ``values``, ``weights`` and ``offset`` are those of the entries as the data have them.
    """

    values: Array
    weights: Array | None
    offset: CellNumbers | OffsetWithoutData | None
    standard: Standard

    def select(self, kept: Mask | IntArray) -> "OriginalValues":
        """Return values and weights of some of the entries."""
        weights = None if self.weights is None else self.weights[kept]
        return attrs.evolve(self, values=self.values[kept], weights=weights)


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
        original = OriginalValues(self.values, self.weights, self.offset, standard)
        weights = standard.weights[self.columns]
        with np.errstate(over="ignore"):  # weights that overflow are refused
            weights = weights if self.weights is None else self.weights * weights
        table = attrs.evolve(self, weights=weights, original=original)
        if standard.units is None:
            return table
        values = standard.units.standard(self.less_offsets(), self.columns)
        return attrs.evolve(table, values=values, offset=None)

    def on_standard_of(self, other: "Table") -> "Table":
        """Return the table on the standard that another one is on, if that is on one."""
        return self if other.original is None else self.standardised(other.original.standard)

    def log_spreads(self) -> Array | float:
        """The logarithm of one standard unit of each entry in the units of the data."""
        if self.original is None or not isinstance(self.original.standard.units, AffineUnits):
            return 0.0
        return np.log(self.original.standard.units.spread)[self.columns]

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
        )

    @property
    def given_offset(self) -> CellNumbers | OffsetWithoutData | None:
        """The offset as the data have it, also where units have taken it off the values."""
        return self.offset if self.original is None else self.original.offset

    def less_offsets(self) -> Array:
        """The values less the offsets of a location."""
        return self.values if self.offsets is None else self.values - self.offsets

    def natural(self, z: Array) -> Array:
        """Predictors of all cells (n_rows x latent columns) in the units of the data."""
        rows, columns = np.ogrid[: self.shape[0], : self.shape[1]]
        return self.natural_at(z, rows, columns)

    def natural_at(self, z: Array, rows: IntArray, columns: IntArray) -> Array:
        """Predictors at some entries in the units of the data."""
        if self.original is None or self.original.standard.units is None:
            return z
        natural = self.original.standard.natural(z, columns)
        offset = self.original.offset
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
        """A mask of the rows with an entry, or an unwritten cell, that carries loss."""
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
            original=None if self.original is None else self.original.select(kept),
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
        values = np.full(self.shape, np.nan)
        values[self.rows, self.columns] = self.values
        written = values.ravel()
        return attrs.evolve(
            self, rows=rows, columns=columns, values=written, has_implicit_cells=False
        )

    def column_label(self, column: int) -> str:
        """The name of a column in messages; its number where it has no name."""
        return str(column) if self.names is None else repr(plain(self.names[column]))

    def row_label(self, row: int) -> str:
        """The label of a row in messages; its number where it has none."""
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


# Attributes that a table has without its entries, too.
KEPT = {
    *("shape", "n_cells", "has_implicit_cells", "index", "names", "row_label", "column_label"),
    *("original", "given_offset", "offset", "offset_at", "natural", "natural_at"),
    *("wrap", "wrap_column", "wrap_row"),
}


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
        """Leave the entries of a table behind, and the way to them."""
        if isinstance(table, TableWithoutData):
            return table.without_data()
        nowhere = np.zeros(0, dtype=np.intp)
        return cls(block, table.select(nowhere), table.row_counts)

    def without_data(self) -> "TableWithoutData":
        """Return what holds no way to the entries either: itself."""
        return self

    def unobserved_columns(self, row: int) -> Any:
        """An error that says how to rank columns without the entries of a row."""
        raise ModelError(
            f"block {self.block!r}: to leave out the observed columns of a row needs its entries,"
            f" and {self.why}; observed=True ranks all columns, and top_rows takes the entries of"
            " a row anew"
        )

    def __getattr__(self, name: str) -> Any:
        if name in KEPT:
            return getattr(self.empty, name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise ModelError(
            f"block {self.block!r}: this needs the observed entries ({name} of the table), and"
            f" {self.why}"
        )
