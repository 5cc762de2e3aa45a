"""Rows of a table that are like another row, and what their numbers say of its missing ones."""

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np
from scipy.sparse import csr_array

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.limits import BATCH_NUMBERS
from mcframe.contracts.stored_classes import stored

# Weights are multiples of this power of the share of a row's numbers that are compared, and 0 with
# fewer numbers, since a distance of few numbers may be small by chance.
SHARE_POWER, FEWEST_COMPARED = 4, 2
# Weights are 0 beyond so many widths.
REACH = 4.0
# The weight of what the distribution of rows says of a number, beside those of rows, at most 1.
PRIOR_WEIGHT = 0.01
# The spreads of numbers among similar rows are found in so many steps with weights of this width,
# from at most so many rows.
SPREAD_STEPS, SPREAD_WIDTH, SPREAD_ROWS = 3, 0.07, 500


@stored(recomputed=("latest",))
@attrs.frozen(eq=False)
class SimilarRows:
    """Some rows of a table, with which other rows are compared.

    Of a row and the kept row r let s_r be the share of the row's observed numbers that r has, too,
    and d_r the mean of ``a_j (x_j - x_rj)^2`` over these numbers j. For a width h the kept row has
    the weight ``k_r = s_r^4 exp(-d_r / 2 h^2)``, and 0 if fewer than two numbers are compared or
    d_r is above 16 h^2. A missing number of mean m is shifted by ``sum_r k_r (x_r - m) / (0.01 +
    sum_r k_r)``, over the kept rows in which the number x_r is observed: a row to which no other
    is similar is hardly shifted.

    a_j is one over the sum of 2 h^2 and the mean square of differences of number j among similar
    rows, with weights of the width h = .07, times what makes the mean of a 1: among rows of one
    person, say, numbers that change with time count less than others. It begins with 1 and is
    found in three steps.

    Numbers are in units in which each has the variance 1. n rows and m kept ones of d numbers take
    some 6 n m d multiplications, in blocks of 2 million pairs.

    Attributes
    ----------
    values : array (m x d)
        The numbers of the rows, NaN where missing.
    roots : array (d,)
        Of a.
    latest : dict
        The rows that were compared last, and the sums over kept rows: draws compare the same rows
        again and again.
    """

    values: Array
    roots: Array
    latest: dict[str, Any] = attrs.field(factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, values: Array) -> "SimilarRows":
        """Rows (m x d), with the spreads of numbers among those that are similar."""
        similar = cls(values, np.ones(values.shape[1]))
        rows = np.linspace(0, len(values) - 1, min(len(values), SPREAD_ROWS)).astype(np.intp)
        for _ in range(SPREAD_STEPS):
            squares = similar.squares_among(values[rows], rows)
            weights = 1.0 / (squares + 2.0 * SPREAD_WIDTH**2)
            similar = attrs.evolve(similar, roots=np.sqrt(weights / np.mean(weights)))
        return similar

    def squares_among(self, values: Array, places: IntArray) -> Array:
        """The mean squares of differences of kept rows and those similar to them (d,).

        Parameters
        ----------
        values : array (n x d)
            Of the rows at these places.
        places : array of integers (n,)
        """
        observed = ~np.isnan(values)
        filled = np.where(observed, values, 0.0)
        kept, is_kept = self._filled()
        totals, counts = np.zeros((2, values.shape[1]))
        for batch, pairs in self.pairs(values, SPREAD_WIDTH, (places, np.arange(len(kept)))):
            weights = pairs.weights(SPREAD_WIDTH)
            x, o = filled[batch], observed[batch]
            both = weights @ is_kept
            squares = np.square(x) * both - 2.0 * x * (weights @ kept) + weights @ np.square(kept)
            totals += np.sum(squares, axis=0, where=o)
            counts += np.sum(both, axis=0, where=o)
        return np.maximum(totals, 0.0) / np.maximum(counts, np.finfo(np.float64).tiny)

    def shifts(self, values: Array, means: Array, widths: Array) -> Array:
        """The shifts of missing numbers of rows, 0 elsewhere (n x d).

        Parameters
        ----------
        values : array (n x d)
            The numbers of the rows, NaN where missing.
        means : array (n x d)
            Of the distribution of rows.
        widths : array (d,)
            Of the weights by which a number is shifted; 0 for numbers that are not.
        """
        shifts = np.zeros(means.shape)
        missing = np.isnan(values) & (widths > 0.0)
        rows = np.flatnonzero(missing.any(axis=1))
        if not rows.size:
            return shifts
        for numbers, sums in self._latest_sums(values, rows, widths):
            cells = np.ix_(rows, numbers)
            shifts[cells] = np.where(missing[cells], sums.shifts(means[cells]), 0.0)
        return shifts

    def _latest_sums(
        self, values: Array, rows: IntArray, widths: Array
    ) -> list[tuple[IntArray, "SimilarSums"]]:
        """The sums of each width and its numbers, of these rows; those of the last call again."""
        asked = {"values": values, "widths": widths}
        latest = self.latest
        if not latest or not all(
            np.array_equal(latest[name], part, equal_nan=True) for name, part in asked.items()
        ):
            groups = [(h, np.flatnonzero(widths == h)) for h in np.unique(widths[widths > 0.0])]
            sums = self.sums(values[rows], groups)
            places = [numbers for _, numbers in groups]
            latest.update(asked, sums=list(zip(places, sums, strict=True)))
        of_widths: list[tuple[IntArray, SimilarSums]] = latest["sums"]
        return of_widths

    def sums(
        self,
        values: Array,
        groups: Sequence[tuple[float, IntArray]],
        labels: tuple[IntArray, IntArray] | None = None,
    ) -> list["SimilarSums"]:
        """The sums over kept rows for rows, of each width and the numbers that are asked with it.

        Parameters
        ----------
        values : array (n x d)
            The numbers of the rows, NaN where missing. All others are compared.
        groups : list of (float, array of integers)
            Widths and numbers.
        labels : (array of integers (n,), array of integers (m,)), optional
            Of the rows and of the kept ones, of which no two with the same label are compared, nor
            any with a negative one.
        """
        kept, is_kept = self._filled()
        sums = [SimilarSums.empty(len(values), numbers.size) for _, numbers in groups]
        largest = max(width for width, _ in groups)
        for batch, pairs in self.pairs(values, largest, labels):
            for (width, numbers), of_width in zip(groups, sums, strict=True):
                weights = pairs.weights(width)
                of_width.totals[batch] = weights @ kept[:, numbers]
                of_width.weights[batch] = weights @ is_kept[:, numbers]
        return sums

    def _filled(self) -> tuple[Array, Array]:
        """The kept rows with 0 where numbers are missing, and 1 where they are not (m x d)."""
        is_kept = ~np.isnan(self.values)
        return np.where(is_kept, self.values, 0.0), is_kept.astype(np.float64)

    def pairs(
        self, values: Array, width: float, labels: tuple[IntArray, IntArray] | None = None
    ) -> Iterator[tuple[slice, "Pairs"]]:
        """The pairs of rows (n x d) and kept rows within reach of a width, block by block.

        ``labels`` are as in ``sums``.
        """
        kept, is_kept = self._filled()
        kept *= self.roots
        # (x - k)^2 = x^2 1 + 1 k^2 - 2 x k, where both are observed: one product
        of_kept = np.hstack([is_kept, np.square(kept), -2.0 * kept]).T
        size = max(1, BATCH_NUMBERS // max(len(kept), 1))
        for start in range(0, len(values), size):
            batch = slice(start, start + size)
            is_observed = (~np.isnan(values[batch])).astype(np.float64)
            x = np.where(is_observed, values[batch], 0.0) * self.roots
            counts = is_observed @ is_kept.T
            squares = np.hstack([np.square(x), is_observed, x]) @ of_kept
            is_near = (squares <= (REACH * width) ** 2 * counts) & (counts >= FEWEST_COMPARED)
            if labels is not None:
                is_near &= (labels[0][batch, None] != labels[1]) & (labels[1] >= 0)
            row, place = np.nonzero(is_near)
            compared = counts[row, place]
            yield (
                batch,
                Pairs(
                    row,
                    place,
                    np.maximum(squares[row, place], 0.0) / compared,  # below 0 by rounding
                    (compared / is_observed.sum(axis=1)[row]) ** SHARE_POWER,
                    counts.shape,
                ),
            )


@attrs.frozen(eq=False)
class Pairs:
    """Pairs of rows and kept rows, in the order of rows.

    Attributes
    ----------
    rows, kept_rows : array of integers (p,)
    squares : array (p,)
        The mean squares d of their differences.
    shares : array (p,)
        ``s^4``.
    shape : (int, int)
        The numbers of rows and of kept rows.
    """

    rows: IntArray
    kept_rows: IntArray
    squares: Array
    shares: Array
    shape: tuple[int, int]

    def weights(self, width: float) -> csr_array:
        """The weights of kept rows for rows (n x m)."""
        weights = self.shares * np.exp(self.squares * (-0.5 / width**2))
        weights[self.squares > (REACH * width) ** 2] = 0.0
        return csr_array((weights, (self.rows, self.kept_rows)), shape=self.shape)


@attrs.frozen(eq=False)
class SimilarSums:
    """Sums over kept rows, for each row and number: of weights times numbers, and of weights.

    Attributes
    ----------
    totals, weights : array (n x K)
    """

    totals: Array
    weights: Array

    @classmethod
    def empty(cls, n_rows: int, n_numbers: int) -> "SimilarSums":
        """Sums that are to be filled in."""
        return cls(*(np.empty((n_rows, n_numbers)) for _ in range(2)))

    def shifts(self, means: Array) -> Array:
        """The shifts of numbers with these means (n x K)."""
        shifts: Array = (self.totals - self.weights * means) / (PRIOR_WEIGHT + self.weights)
        return shifts
