"""Tests of whether the gaps of columns depend on what other columns hold."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import scipy

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.row_groups import RowGroups
from mcframe.tables.applicability import values_equal
from mcframe.tables.coding import Choice, Levels
from mcframe.tables.declared_column import DeclaredColumn

# Rows with a gap and rows without one are compared if there are so many of both.
FEWEST_COMPARED = 5
# The sum of ranks counts as normal if so many rows of the smaller side are expected to have
# another value than the most frequent one.
FEWEST_EXPECTED = 5.0
# Of longer tables so many rows are drawn.
MOST_TESTED_ROWS = 100_000


@attrs.frozen(eq=False)
class GapTests:
    """P-values of pairs: whether gaps of a column depend on what another column holds.

    A pair is a column with gaps and another column. Among the rows in which the other column has
    a value, those with a gap are compared with those without one by the ranks of these values
    (Mann and Whitney, 1947; Little, 1988, compares means). If no gap depends on what any column
    holds, the test is valid whatever the gaps of several columns have to do with each other: given
    all gaps, the values that are observed of a column are draws of one distribution.

    Attributes
    ----------
    columns, others : tuple
        The names of the columns with gaps, and of those that they may depend on.
    p_values : array (len(columns) x len(others))
        Of the pairs, two-sided; NaN where too few rows can be compared.
    differences : array (len(columns) x len(others))
        The probability that the value is larger in a row with a gap than in one without, less
        that it is smaller: from -1 to 1. Of labels and categories it is the difference of the
        shares of a value: of the second label, or of the value with the least p-value.
    """

    columns: tuple[Any, ...]
    others: tuple[Any, ...]
    p_values: Array
    differences: Array

    @property
    def of_columns(self) -> dict[Any, float]:
        """The p-values of the columns of any tested pair: the least one times their number."""
        return {
            name: min(1.0, int(np.count_nonzero(~np.isnan(pairs))) * float(np.nanmin(pairs)))
            for name, pairs in zip(self.columns, self.p_values, strict=True)
            if not np.all(np.isnan(pairs))
        }

    @property
    def adjusted(self) -> dict[Any, float]:
        """The p-values of columns, adjusted for their number; see ``holm_adjusted``."""
        return holm_adjusted(self.of_columns)

    @property
    def nearest(self) -> dict[Any, Any]:
        """The names of the columns in the pairs of least p-value, by the column with gaps."""
        return {
            name: self.others[int(np.nanargmin(self.p_values[self.columns.index(name)]))]
            for name in self.of_columns
        }

    @classmethod
    def of(cls, columns: Sequence[DeclaredColumn], groups: RowGroups | None = None) -> "GapTests":
        """The tests of columns that stand in a block.

        Rows of a group may depend on each other: with ``groups`` the sum of each test is compared
        with the squares of its parts by groups, and these count as draws (Student's distribution).
        """
        if not columns:
            return cls((), (), np.zeros((0, 0)), np.zeros((0, 0)))
        n_rows = columns[0].codes.size
        rows = np.arange(n_rows)
        if n_rows > MOST_TESTED_ROWS:
            rng = np.random.default_rng(0)
            rows = np.sort(rng.choice(n_rows, MOST_TESTED_ROWS, replace=False))
        numbers = [compared_numbers(column)[rows] for column in columns]
        column_of_number = np.repeat(np.arange(len(columns)), [part.shape[1] for part in numbers])
        of_rows = None if groups is None else groups.numbers[rows]
        whole = RankedNumbers.of(np.column_stack(numbers), of_rows)
        by_name = {column.name: column for column in columns}
        gaps = np.array([(part.column.missing & ~part.column.limited)[rows] for part in columns])
        applies = np.array([rows_that_apply(column, by_name)[rows] for column in columns])
        tested: dict[int, tuple[list[float], list[float]]] = {}
        for population in np.unique(applies, axis=0):  # a value that does not apply is not missing
            members = np.flatnonzero((applies == population).all(axis=1))
            missing = gaps[np.ix_(members, population)]
            with_gap = np.count_nonzero(missing, axis=1)
            enough = np.minimum(with_gap, missing.shape[1] - with_gap) >= FEWEST_COMPARED
            if not enough.any():
                continue
            ranked = whole if population.all() else whole.at(population)
            answers = ranked.compared(missing[enough])
            for k, p_values, differences in zip(members[enough], *answers, strict=True):
                p_values[column_of_number == k] = np.nan
                tested[int(k)] = least_of_columns(p_values, differences, column_of_number)
        shape, places = (len(tested), len(columns)), sorted(tested)
        least, of_least = (np.reshape([tested[k][part] for k in places], shape) for part in (0, 1))
        return cls(tuple(columns[k].name for k in places), tuple(by_name), least, of_least)


def rows_that_apply(column: DeclaredColumn, by_name: Mapping[Any, DeclaredColumn]) -> Mask:
    """The rows to which a column applies; none if its condition is in no block."""
    applies: Mask = np.ones(column.codes.size, dtype=bool)
    if column.condition is None:
        return applies
    condition = by_name.get(column.condition.column)
    if condition is None:
        return ~applies
    return values_equal(condition.column, column.condition.equals)


@attrs.frozen(eq=False)
class RankedNumbers:
    """Numbers whose ranks are compared between rows.

    Attributes
    ----------
    numbers : array (n x d)
        NaN where missing.
    groups : array of integers (n,) or None
        The groups of the rows.
    ranks : array (n x d)
        Ranks less their mean, ties with the mean of theirs; 0 where missing.
    is_another : array (n x d)
        1 where a number is another one than the most frequent one of its column, 0 elsewhere.
    is_counted : mask (d,)
        True of columns of two numbers.
    """

    numbers: Array
    groups: IntArray | None
    ranks: Array
    is_another: Array
    is_counted: Mask

    @classmethod
    def of(cls, numbers: Array, groups: IntArray | None) -> "RankedNumbers":
        """The ranks of numbers (n x d)."""
        ranks, is_another = np.zeros((2, *numbers.shape))
        is_counted = np.zeros(numbers.shape[1], dtype=bool)
        for k, column in enumerate(numbers.T):
            rows = np.flatnonzero(~np.isnan(column))
            if not rows.size:
                continue
            values, places, counts = np.unique(
                column[rows], return_inverse=True, return_counts=True
            )
            ranks[rows, k] = (np.cumsum(counts) - 0.5 * counts)[places] - 0.5 * rows.size
            is_another[rows, k] = places != np.argmax(counts)
            is_counted[k] = values.size == 2
        return cls(numbers, groups, ranks, is_another, is_counted)

    @cached_property
    def observed(self) -> Array:
        """1 where a number is observed, 0 elsewhere (n x d)."""
        return (~np.isnan(self.numbers)).astype(np.float64)

    def at(self, rows: Mask) -> "RankedNumbers":
        """The ranks among some of the rows."""
        return self.of(self.numbers[rows], None if self.groups is None else self.groups[rows])

    def compared(self, missing: Mask) -> tuple[Array, Array]:
        """P-values (q x d) and differences (q x d) of numbers between rows with a gap and without.

        ``missing`` (q x n) has the gaps of q columns.
        """
        gaps, n = missing.astype(np.float64), np.sum(self.observed, axis=0)
        with_gap, sums = gaps @ self.observed, gaps @ self.ranks
        smaller = np.minimum(with_gap, n - with_gap)
        with np.errstate(divide="ignore", invalid="ignore"):
            differences = 2.0 * sums / (with_gap * (n - with_gap))
            if self.groups is None:
                squares = np.sum(np.square(self.ranks), axis=0)
                variances = with_gap * (n - with_gap) / (n * (n - 1.0)) * squares
                steps = np.maximum(np.abs(sums) - 0.5, 0.0)  # ranks are whole or halves
                p_values = 2.0 * scipy.special.ndtr(-steps / np.sqrt(variances))
            else:
                groups, membership = self.membership
                variances = np.empty(sums.shape)
                for k, of_column in enumerate(gaps):
                    shares = of_column[:, None] - with_gap[k] / n
                    residuals = np.where(self.observed > 0.0, shares, 0.0)
                    variances[k] = np.sum(np.square(membership @ (residuals * self.ranks)), axis=0)
                t = np.abs(sums) / np.sqrt(variances)
                p_values = 2.0 * scipy.stats.t.sf(t, groups - 1.0)
        if self.groups is None:
            others = np.sum(self.is_another, axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                few = self.is_counted | (smaller * others / n < FEWEST_EXPECTED)
            counts = (gaps @ self.is_another)[few]
            urn = [np.broadcast_to(part, few.shape)[few] for part in (n, others, with_gap)]
            fewer = scipy.stats.hypergeom.cdf(counts, *urn)
            more = scipy.stats.hypergeom.sf(counts - 1, *urn)
            p_values[few] = np.minimum(1.0, 2.0 * np.minimum(fewer, more))  # Fisher's test
        p_values[(smaller < FEWEST_COMPARED) | ~(variances > 0.0)] = np.nan
        return p_values, differences

    @cached_property
    def membership(self) -> tuple[int, scipy.sparse.csr_array]:
        """The number of groups, and a matrix (groups x n) whose products add up their rows."""
        assert self.groups is not None
        groups, places = np.unique(self.groups, return_inverse=True)
        ones = np.ones(places.size)
        return groups.size, scipy.sparse.csr_array((ones, (places, np.arange(places.size))))


def compared_numbers(column: DeclaredColumn) -> Array:
    """The numbers of a column that are compared (n x d): a category is an indicator of each value.

    Levels, numbers and the two values of labels are compared as they are ordered.
    """
    codes = column.codes
    places = np.unique(codes[~np.isnan(codes)])
    is_ordered = not isinstance(column.coding, Choice) or isinstance(column.coding, Levels)
    if is_ordered or places.size <= 2:
        return codes[:, None]
    return np.where(np.isnan(codes)[:, None], np.nan, codes[:, None] == places)


def least_of_columns(
    p_values: Array, differences: Array, column_of_number: IntArray
) -> tuple[list[float], list[float]]:
    """The least p-value of each column, times the number of its tests, with its difference."""
    of_columns: tuple[list[float], list[float]] = ([], [])
    for column in range(column_of_number[-1] + 1):
        numbers = np.flatnonzero((column_of_number == column) & ~np.isnan(p_values))
        least = numbers[np.argmin(p_values[numbers])] if numbers.size else 0
        p_value = min(1.0, numbers.size * float(p_values[least])) if numbers.size else np.nan
        of_columns[0].append(p_value)
        of_columns[1].append(float(differences[least]) if numbers.size else np.nan)
    return of_columns


def holm_adjusted(p_values: Mapping[Any, float]) -> dict[Any, float]:
    """P-values adjusted for their number: at most the level where Holm (1979) rejects.

    Of m sorted p-values p_(1), ..., p_(m) the adjusted ones are ``max over l <= k of min(1, (m - l
    + 1) p_(l))``. The probability that any true hypothesis has one of at most a level is at most
    this level.
    """
    adjusted: dict[Any, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}
