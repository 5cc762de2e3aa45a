"""Transforms between the units of the data and those of losses, one after the other.

A block's values go through its offset, the standard units of its columns, and the origins of its
effects; its losses take what comes out. Predictors go back the same way. ``Table.transforms`` and
``Problem.transforms`` compose the chain of a block, and ``mc.explain`` prints it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

import attrs
import numpy as np
from scipy.special import ndtri

from mcframe.contracts.arrays import Array, IntArray, Shape, mapped
from mcframe.contracts.errors import ModelError
from mcframe.contracts.stored_classes import stored

# The interquartile range of a normal distribution in standard deviations.
NORMAL_INTERQUARTILE_RANGE = 1.349


class Transform(ABC):
    """A map of numbers at cells, increasing in each of them, and its inverse.

    ``rows`` and ``columns`` are the places of the numbers in Z, arrays of integers that broadcast
    with them. ``invert(apply(x))`` is x up to rounding for observed x. By default differences
    stay as they are, and no number belongs to a whole column. ``str`` says what is done.
    """

    __slots__ = ()

    @abstractmethod
    def apply(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """Numbers on the side of the data, on the side of the losses."""

    @abstractmethod
    def invert(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """Numbers on the side of the losses, on the side of the data."""

    def observed(self, y: Array, rows: IntArray, columns: IntArray) -> Array:
        """``apply`` to values, and to both limits of observations that are not known exactly."""
        return mapped(y, lambda numbers: self.apply(numbers, rows, columns))

    @property
    def of_limits(self) -> "Transform":
        """The map of limits, which may lie where no observed number does."""
        return self

    def unit(self, columns: IntArray) -> Array | float | None:
        """The length on the side of the data of 1 on the side of the losses; None if it varies."""
        return 1.0

    def log_derivative(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array | float:
        """The log density on the side of the data less that on the side of the losses.

        The logarithm of the derivative of ``apply`` at these numbers; 0 where the unit varies and
        there is no density, as of ranks, whose values have steps.
        """
        unit = self.unit(columns)
        return 0.0 if unit is None else -np.log(unit)

    @property
    def by_column(self) -> Mapping[str, Array]:
        """The numbers of each column, by what is done with them."""
        return {}


@stored
@attrs.frozen(eq=False)
class Chain(Transform):
    """Transforms one after the other, itself a ``Transform``; without any it changes nothing.

    ``print`` shows them in the order in which they are applied.
    """

    transforms: tuple[Transform, ...] = ()

    @classmethod
    def of(cls, *transforms: Transform | None) -> "Chain":
        """Return the chain of those that are there."""
        return cls(tuple(transform for transform in transforms if transform is not None))

    def __iter__(self) -> Iterator[Transform]:
        return iter(self.transforms)

    def __len__(self) -> int:
        return len(self.transforms)

    def apply(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """Numbers in the units of the data, in those of the losses."""
        for transform in self.transforms:
            numbers = transform.apply(numbers, rows, columns)
        return numbers

    def invert(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """Numbers in the units of the losses, in those of the data."""
        for transform in reversed(self.transforms):
            numbers = transform.invert(numbers, rows, columns)
        return numbers

    @property
    def of_limits(self) -> "Chain":
        """The maps of limits."""
        return Chain(tuple(transform.of_limits for transform in self.transforms))

    def unit(self, columns: IntArray) -> Array | float | None:
        """One unit of the losses in the units of the data; None where it varies, as of ranks."""
        product: Array | float = 1.0
        for transform in self.transforms:
            unit = transform.unit(columns)
            if unit is None:
                return None
            product = product * unit
        return product

    def log_derivative(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array | float:
        """The sum of those of the transforms, each at the numbers that reach it."""
        total: Array | float = 0.0
        for transform in self.transforms:
            total = total + transform.log_derivative(numbers, rows, columns)
            numbers = transform.apply(numbers, rows, columns)
        return total

    @property
    def by_column(self) -> Mapping[str, Array]:
        """The numbers of each column, by what is done with them."""
        return {
            what: numbers
            for transform in self.transforms
            for what, numbers in transform.by_column.items()
        }

    def __str__(self) -> str:
        return ", then ".join(map(str, self.transforms)) or "as in the data"


def latent_places(rows: IntArray, columns: IntArray, width: int) -> tuple[IntArray, IntArray]:
    """Return the places of the numbers of z of cells, (N,), or (N x K) of K classes."""
    if width == 1:
        return rows, columns
    return rows[:, None], columns[:, None] * width + np.arange(width)


@stored
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
        """Return the numbers of some cells, of the shape of rows and columns; perhaps a view."""
        shape = np.broadcast_shapes(np.shape(rows), np.shape(columns))
        if self.cells is None:  # the sides of length 1 are broadcast, and take no memory
            n_rows, n_columns = self.numbers.shape
            numbers = self.numbers[rows if n_rows > 1 else 0, columns if n_columns > 1 else 0]
            return np.broadcast_to(numbers, shape)
        if not self.cells.size:
            return np.zeros(shape)
        if math.prod(shape) >= math.prod(self.shape):  # a search for each would take longer
            return self.dense()[rows, columns]
        wanted = np.asarray(rows, dtype=np.int64) * self.shape[1] + columns
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

    def rows_at(self, rows: IntArray) -> "CellNumbers":
        """Return those of some of the rows, in any order and any number of times."""
        shape = (rows.size, self.shape[1])
        if self.cells is None and self.numbers.shape[0] == 1:
            return CellNumbers(shape, self.numbers)
        whole = self.numbers if self.cells is None else self.dense()
        return CellNumbers(shape, whole[rows])

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


@stored(formerly=("OffsetLeftBehind",))
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
class Offset(Transform):
    """Less the offset of each cell."""

    offset: CellNumbers | OffsetWithoutData

    @classmethod
    def of(cls, offset: CellNumbers | OffsetWithoutData | None) -> "Offset | None":
        """Return the transform of the offset of a block; None where it has none."""
        return None if offset is None else cls(offset)

    def apply(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """Numbers less offsets."""
        return numbers - self.offset.at(rows, columns)

    def invert(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """Numbers plus offsets."""
        return numbers + self.offset.at(rows, columns)

    def __str__(self) -> str:
        return "less the offset of its cell"


@stored
@attrs.frozen(eq=False)
class AffineUnits(Transform):
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

    def apply(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """(x - pivot - shift) / spread."""
        standard: Array = numbers - self.pivot[columns] - self.shift[columns]
        return standard / self.spread[columns]

    def invert(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """Pivot + (shift + spread * z)."""
        return self.pivot[columns] + (self.shift[columns] + self.spread[columns] * numbers)

    def unit(self, columns: IntArray) -> Array:
        """The spread of each column."""
        return self.spread[columns]

    @property
    def by_column(self) -> Mapping[str, Array]:
        """The numbers that are subtracted, and those by which is divided."""
        return {"subtracted": self.centre, "divided by": self.spread}

    def __str__(self) -> str:
        return "(x - subtracted) / divided by"


@stored
@attrs.frozen(eq=False)
class RankUnits(Transform):
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

    def apply(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """The normal scores of values."""
        return self.interpolated(numbers, columns, self.values, self.scores)

    def invert(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """The values at scores."""
        return self.interpolated(numbers, columns, self.scores, self.values)

    def unit(self, columns: IntArray) -> None:
        """None: it differs from value to value."""

    @property
    def by_column(self) -> Mapping[str, Array]:
        """The least and the largest value, NaN of a column without any."""
        starts, stops = self.starts[:-1], self.starts[1:]
        values = np.append(self.values, np.nan)
        empty = starts == stops
        return {
            "least": np.where(empty, np.nan, values[starts]),
            "largest": np.where(empty, np.nan, values[stops - 1]),
        }

    def __str__(self) -> str:
        return "normal score of x between least and largest"

    def interpolated(
        self, numbers: Array, columns: IntArray, sources: Array, targets: Array
    ) -> Array:
        """One side of the knots read off at numbers on the other side; 0 where there are none."""
        spread_out = np.broadcast_arrays(numbers, columns)
        flat_numbers, flat_columns = spread_out[0].ravel(), spread_out[1].ravel()
        interpolated = np.zeros(flat_numbers.size)
        order, starts = grouped(flat_columns, self.starts.size - 1)
        for column in np.flatnonzero(np.diff(starts)):
            entries = order[starts[column] : starts[column + 1]]
            knots = slice(self.starts[column], self.starts[column + 1])
            if sources[knots].size:
                interpolated[entries] = np.interp(
                    flat_numbers[entries], sources[knots], targets[knots]
                )
        return interpolated.reshape(spread_out[0].shape)


Units = AffineUnits | RankUnits


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
        between = (high - low) / NORMAL_INTERQUARTILE_RANGE
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


def quartiles(values: Array, columns: IntArray, weights: Array, n_columns: int) -> Array:
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
