"""Rows of a table that are like another row, and what their numbers say of its missing ones."""

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.limits import BATCH_NUMBERS
from mcframe.contracts.stored_classes import stored

# Weights are multiples of this power of the share of a row's numbers that are compared, and 0 with
# fewer numbers, since a distance of few numbers may be small by chance.
SHARE_POWER, FEWEST_COMPARED = 4, 2
# The weight of what the distribution of rows says of a number, beside those of rows, at most 1.
PRIOR_WEIGHT = 0.01


@stored(recomputed=("latest",))
@attrs.frozen(eq=False)
class SimilarRows:
    """Some rows of a table, with which other rows are compared.

    Of a row and the kept row r let s_r be the share of the row's observed numbers that r has, too,
    and d_r the mean square of the differences of these. For a width h the kept row has the weight
    ``k_r = s_r^4 exp(-d_r / 2 h^2)``, or 0 if fewer than two numbers are compared. A missing number
    of mean m is shifted by ``sum_r k_r (x_r - m) / (0.01 + sum_r k_r)``, over the kept rows in
    which the number x_r is observed: a row to which no other is similar is hardly shifted.

    Numbers are in units in which each has the variance 1. n rows and m kept ones of d numbers take
    about 6 n m d multiplications and n m exponentials for each width, in blocks of 2 million
    weights.

    Attributes
    ----------
    values : array (m x d)
        The numbers of the rows, NaN where missing.
    latest : dict
        The rows that were compared last, and the sums over kept rows: draws compare the same rows
        again and again.
    """

    values: Array
    latest: dict[str, Any] = attrs.field(factory=dict, init=False, repr=False)

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
        """What kept rows say of rows: of each width, and the numbers that are asked with it.

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
        kept = ~np.isnan(self.values)
        filled, is_kept = np.where(kept, self.values, 0.0), kept.astype(np.float64)
        sums = [SimilarSums.empty(len(values), numbers.size) for _, numbers in groups]
        size = max(1, BATCH_NUMBERS // max(len(self.values), 1))
        for start in range(0, len(values), size):
            batch = slice(start, start + size)
            squares, weights = self.compared(values[batch])
            if labels is not None:
                weights[(labels[0][batch, None] == labels[1]) | (labels[1] < 0)] = 0.0
            for (width, numbers), of_width in zip(groups, sums, strict=True):
                of_rows = weights * np.exp(squares * (-0.5 / width**2))
                of_width.totals[batch] = of_rows @ filled[:, numbers]
                of_width.weights[batch] = of_rows @ is_kept[:, numbers]
        return sums

    def compared(self, values: Array) -> tuple[Array, Array]:
        """The mean squares d of differences of rows and kept rows, and s^4 (both n x m)."""
        kept, observed = (~np.isnan(part) for part in (self.values, values))
        x, of_kept = np.where(observed, values, 0.0), np.where(kept, self.values, 0.0)
        is_kept, is_observed = kept.astype(np.float64), observed.astype(np.float64)
        counts = is_observed @ is_kept.T
        squares = np.square(x) @ is_kept.T
        squares += is_observed @ np.square(of_kept).T
        squares -= 2.0 * (x @ of_kept.T)
        squares /= np.maximum(counts, 1.0)
        np.maximum(squares, 0.0, out=squares)  # rounding
        shares = counts / np.maximum(is_observed.sum(axis=1), 1.0)[:, None]
        shares = np.where(counts >= FEWEST_COMPARED, shares**SHARE_POWER, 0.0)
        return squares, shares


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
