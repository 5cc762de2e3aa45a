"""Numbers of rows that are known to lie between two limits: expectation propagation.

The probability of the limits of a number, as a function of z, is replaced by a Gaussian
observation, its site. That is such that the number has the same mean and variance as under the
limits themselves, given all else that is known of its row, the sites of its other numbers included
(Minka, Expectation propagation for approximate Bayesian inference, UAI 2001).
"""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.rounding import TINY
from mcframe.contracts.stored_classes import stored
from mcframe.likelihoods.intervals import NormalIntervals
from mcframe.numerics.row_mixtures import IncompleteRows

# Sites are found by at most so many sweeps, until no mean moves by more than this share of its
# standard deviation.
MOST_SITE_SWEEPS, SETTLED_SITES = 30, 1e-3
# The part of a step that sites of several numbers of one row take, which move together.
JOINT_SITE_STEP = 0.7
# An interval is at least so wide, in standard units.
LEAST_WIDTH = 1e-6
# The steps by which mean and variance of a column of its own are found.
MARGINAL_STEPS = 100

# From a table to the means and variances of z in it (n x d).
Moments = Callable[[IncompleteRows], tuple[Array, Array]]


@stored
@attrs.frozen(eq=False)
class RowLimits:
    """Cells of rows (n x d) of which only limits are known, and their sites.

    Attributes
    ----------
    shape : (n, d)
    rows, columns : arrays of integers (K,)
        Row after row, columns ascending.
    lower, upper : arrays (K,)
        Infinite where there is none.
    noise : float
        The variance of a number about its z.
    values, precisions : arrays (K,)
        Gaussian observations of z in the place of the limits; at first they say nothing.
    """

    shape: tuple[int, int]
    rows: IntArray
    columns: IntArray
    lower: Array
    upper: Array
    noise: float
    values: Array
    precisions: Array

    @classmethod
    def of(cls, lower: Array, upper: Array, noise: float = 0.0) -> "RowLimits | None":
        """The limits in two arrays (n x d), infinite where there is none; None without any."""
        rows, columns = np.nonzero(np.isfinite(lower) | np.isfinite(upper))
        if not rows.size:
            return None
        ends = lower[rows, columns], upper[rows, columns]
        nothing = np.zeros(rows.size)
        return cls(lower.shape, rows, columns, *ends, noise, nothing, nothing)

    @property
    def mask(self) -> Mask:
        """Mark the cells (n x d)."""
        mask: Mask = np.zeros(self.shape, dtype=np.bool_)
        mask[self.rows, self.columns] = True
        return mask

    def in_units(self, units: Any, noise: float) -> "RowLimits":
        """The limits in other units (``Transform``), wide enough to be told apart."""
        ends = [
            np.where(
                np.isfinite(end),
                units.apply(np.where(np.isfinite(end), end, 0.0), self.rows, self.columns),
                end,
            )
            for end in (self.lower, self.upper)
        ]
        lower, upper = widened(ends[0], ends[1], 1.0)
        return attrs.evolve(self, lower=lower, upper=upper, noise=noise)

    def take(self, rows: IntArray) -> "RowLimits":
        """The limits of some rows, which may be given several times."""
        starts = np.searchsorted(self.rows, np.arange(self.shape[0] + 1))
        counts = np.diff(starts)[rows]
        ends = np.cumsum(counts)
        within = np.arange(int(ends[-1]) if ends.size else 0) - np.repeat(ends - counts, counts)
        cells = np.repeat(starts[:-1][rows], counts) + within
        parts = ("columns", "lower", "upper", "values", "precisions")
        taken = {name: getattr(self, name)[cells] for name in parts}
        new_rows = np.repeat(np.arange(len(rows)), counts)
        return attrs.evolve(self, shape=(len(rows), self.shape[1]), rows=new_rows, **taken)

    def minus(self, offsets: Array) -> "RowLimits":
        """The limits of numbers less others (n x d)."""
        less = offsets[self.rows, self.columns]
        ends = {name: getattr(self, name) - less for name in ("lower", "upper", "values")}
        return attrs.evolve(self, **ends)

    def chosen(self, cells: Any) -> "RowLimits | None":
        """Some of the cells; None without any."""
        parts = ("rows", "columns", "lower", "upper", "values", "precisions")
        some = {name: getattr(self, name)[cells] for name in parts}
        return attrs.evolve(self, **some) if some["rows"].size else None

    def at(self, rows: IntArray, columns: IntArray) -> IntArray:
        """The places of cells among those with limits; -1 of cells without any."""
        keys, asked = (
            np.asarray(r, dtype=np.intp) * self.shape[1] + c
            for r, c in ((self.rows, self.columns), (rows, columns))
        )
        places = np.minimum(np.searchsorted(keys, asked), keys.size - 1)
        return np.where(keys[places] == asked, places, -1) if keys.size else places

    def in_table(self, table: IncompleteRows) -> IncompleteRows:
        """The rows of a table with the sites in the place of the cells."""
        values = np.where(table.precisions > 0.0, table.values, np.nan)
        precisions = table.precisions.copy()
        values[self.rows, self.columns] = self.values
        precisions[self.rows, self.columns] = self.precisions
        return table.with_numbers(values, precisions)

    def rows_concerned(self, table: IncompleteRows) -> IntArray:
        """The rows whose distribution the sites change: where groups are, all of a group."""
        rows = np.unique(self.rows)
        groups = table.group_of_row
        if groups is None:
            return rows
        return np.flatnonzero(np.isin(groups, groups[rows]))

    def cavities(self, means: Array, variances: Array) -> tuple[Array, Array]:
        """Means and variances of z without the sites (... x K), from those with them."""
        # A site is no more certain than all that is known.
        precisions = np.maximum(1.0 / variances - self.precisions, TINY + 1e-9 / variances)
        shifted = means / variances - self.precisions * self.values
        return shifted / precisions, 1.0 / precisions

    def matched(self, means: Array, variances: Array) -> "RowLimits":
        """Sites that give numbers the moments that they have between their limits.

        ``means`` and ``variances`` are those of z (K,) with the sites so far.
        """
        centre, variance = self.cavities(means, variances)
        spread = variance + self.noise
        normal = NormalIntervals(np.sqrt(spread))
        _, slope, bend = normal.derivatives(centre, self.lower, self.upper)
        bend = np.clip(bend, 0.0, (1.0 - 1e-9) / spread)
        informs = bend * spread > 1e-9
        divisor = np.where(informs, bend, 1.0)
        precisions = np.where(informs, 1.0 / (1.0 / divisor - variance), 0.0)
        values = np.where(informs, centre - slope / divisor, 0.0)
        several = np.bincount(self.rows, minlength=self.shape[0])[self.rows] > 1
        step = np.where(several, JOINT_SITE_STEP, 1.0)
        linear = self.precisions * self.values
        linear = linear + step * (precisions * values - linear)
        precisions = self.precisions + step * (precisions - self.precisions)
        values = linear / np.where(precisions > 0.0, precisions, 1.0)
        return attrs.evolve(self, values=values, precisions=precisions)

    def settled(self, table: IncompleteRows, moments: Moments) -> "RowLimits":
        """The limits with sites that suit the distribution of rows.

        Parameters
        ----------
        table : IncompleteRows
            Of all rows; the numbers at cells with limits do not matter.
        moments : function
            Of the table of the rows that are concerned.
        """
        rows = self.rows_concerned(table)
        limits, table = self.take(rows), table.take(rows)
        last = np.full(limits.rows.size, np.inf)
        for _ in range(MOST_SITE_SWEEPS):
            cells = limits.rows, limits.columns
            mean, variance = (part[cells] for part in moments(limits.in_table(table)))
            if np.all(np.abs(mean - last) <= SETTLED_SITES * np.sqrt(variance)):
                break
            limits, last = limits.matched(mean, variance), mean
        return attrs.evolve(self, values=limits.values, precisions=limits.precisions)

    def ranges_of_known(self, values: Array) -> tuple[Array, Array]:
        """The ranges (d,) in which numbers lie that are known exactly, as far as that follows.

        Where all limits of a column are upper ones, values below the least of these would have
        limits, unless such values (n x d) are there; so it is with lower ones.
        """
        lowest, highest = np.full(self.shape[1], -np.inf), np.full(self.shape[1], np.inf)
        for column in np.unique(self.columns):
            chosen = self.columns == column
            lower, upper, exact = self.lower[chosen], self.upper[chosen], values[:, column]
            if np.all(np.isinf(lower)) and not np.any(exact < np.min(upper)):
                lowest[column] = np.min(upper)
            if np.all(np.isinf(upper)) and not np.any(exact > np.max(lower)):
                highest[column] = np.max(lower)
        return lowest, highest

    def marginal_moments(self, values: Array, noise: Array) -> tuple[Array, Array]:
        """Means and variances (d,) of columns by themselves, of normal distributions.

        With the largest likelihood of the numbers (n x d, NaN where there is none) and of the
        limits, by EM; NaN of columns without limits.

        Parameters
        ----------
        noise : array (d,)
            The variance of numbers about z: variances are those of z.
        """
        means, variances = np.full((2, self.shape[1]), np.nan)
        for column in np.unique(self.columns):
            chosen = self.columns == column
            numbers = values[~np.isnan(values[:, column]), column]
            mean, variance = censored_moments(numbers, self.lower[chosen], self.upper[chosen])
            means[column] = mean
            variances[column] = max(variance - noise[column], 0.25 * noise[column])
        return means, variances


def truncated_moments(
    means: Array, variances: Array, lower: Array, upper: Array
) -> tuple[Array, Array]:
    """Means and variances of normal variables that are known to lie between two limits."""
    spread = np.sqrt(variances)
    limited = np.isfinite(lower) | np.isfinite(upper)
    ends = np.where(limited, lower, means), np.where(limited, upper, means + spread)
    _, slope, bend = NormalIntervals(spread).derivatives(means, *ends)
    return (
        np.where(limited, means - variances * slope, means),
        np.where(
            limited, variances - variances**2 * np.minimum(bend, (1 - 1e-9) / variances), variances
        ),
    )


def widened(lower: Array, upper: Array, unit: float) -> tuple[Array, Array]:
    """Limits that are far enough apart to be told apart, where numbers have this deviation."""
    lacking = np.maximum(LEAST_WIDTH * unit - (upper - lower), 0.0)
    return lower - 0.5 * lacking, upper + 0.5 * lacking


def censored_moments(numbers: Array, lower: Array, upper: Array) -> tuple[float, float]:
    """Mean and variance of a normal variable with the largest likelihood, by steps of EM.

    Parameters
    ----------
    numbers : array (n,)
        Values that are known.
    lower, upper : arrays (k,)
        The limits of others, at least one of them finite.
    """
    ends = np.where(np.isinf(lower), upper, lower), np.where(np.isinf(upper), lower, upper)
    first = np.concatenate([numbers, 0.5 * ends[0] + 0.5 * ends[1]])
    mean, variance, least = float(np.mean(first)), float(np.var(first)), TINY
    lower, upper = widened(lower, upper, float(np.sqrt(variance)))
    if numbers.size > 1:  # intervals may shrink to one number, and known numbers do not
        least = max(1e-4 * float(np.var(numbers)), TINY)
    for _ in range(MARGINAL_STEPS):
        variance = max(variance, least)
        normal = NormalIntervals(np.full(lower.size, np.sqrt(variance)))
        _, slope, bend = normal.derivatives(np.full(lower.size, mean), lower, upper)
        of_limits = mean - variance * slope
        left = variance - variance**2 * bend
        expected = np.concatenate([numbers, of_limits])
        before, mean = mean, float(np.mean(expected))
        last, variance = variance, float(np.mean(np.square(expected - mean)))
        variance += float(np.sum(left)) / expected.size
        if abs(mean - before) <= 1e-4 * np.sqrt(variance) and abs(last - variance) <= 1e-4 * last:
            break
    return mean, max(variance, least)


def cavity_mixture(
    limits: RowLimits, weights: Array, means: Array, variances: Array
) -> tuple[Array, Array, Array]:
    """The mixtures of z at cells with limits without their sites: weights, means, variances.

    All are (C x K). Under each component the site has a density, by which its weight is divided.
    """
    centre, spread = limits.cavities(means, variances)
    if len(weights) == 1:
        return weights, centre, spread
    sited = limits.precisions > 0.0
    total = spread + 1.0 / np.where(sited, limits.precisions, 1.0)
    logs = -0.5 * (np.square(limits.values - centre) / total + np.log(total))
    with np.errstate(divide="ignore"):
        logs = np.log(weights) - np.where(sited, logs, 0.0)
    shares = np.exp(logs - np.max(logs, axis=0))
    return shares / np.sum(shares, axis=0), centre, spread
