"""Standard units of the columns of a block: made from what was observed, with a way back."""

from typing import Any

import attrs
import numpy as np
from scipy.special import ndtri

from mcframe.contracts.arrays import Array, IntArray

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
        self, numbers: Array, columns: IntArray, known: Array, sought: Array
    ) -> Array:
        """One side of the knots read off at numbers on the other side; 0 where there are none."""
        spread_out = np.broadcast_arrays(numbers, columns)
        flat, owners = spread_out[0].ravel(), spread_out[1].ravel()
        found = np.zeros(flat.size)
        order, starts = grouped(owners, self.starts.size - 1)
        for column in np.flatnonzero(np.diff(starts)):
            here = order[starts[column] : starts[column + 1]]
            knots = slice(self.starts[column], self.starts[column + 1])
            if known[knots].size:
                found[here] = np.interp(flat[here], known[knots], sought[knots])
        return found.reshape(spread_out[0].shape)


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
    found = np.zeros((3, n_columns))
    for column in np.flatnonzero(np.diff(starts)):
        here = order[starts[column] : starts[column + 1]]
        sorted_values, passed = values[here], np.cumsum(weights[here])
        wanted = np.array([0.25, 0.5, 0.75]) * passed[-1]
        above = np.searchsorted(passed, wanted, side="right").clip(max=here.size - 1)
        below = np.searchsorted(passed, wanted, side="left").clip(max=here.size - 1)
        found[:, column] = sorted_values[below] + 0.5 * (
            sorted_values[above] - sorted_values[below]
        )
    return found


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
        here = order[starts[column] : starts[column + 1]]
        distinct, equal = np.unique(values[here], return_inverse=True)
        own = np.bincount(equal, weights[here])
        passed = np.cumsum(own)
        knots.append(distinct)
        scores.append(ndtri((passed - 0.5 * own) / passed[-1]))
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
