"""Held-out entries of a table of numbers, and their predictions by the posterior of its rows."""

import warnings
from collections.abc import Mapping
from functools import cached_property

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import UnobservedWarning
from mcframe.contracts.limits import BATCH_NUMBERS
from mcframe.contracts.row_groups import GroupMembers, RowGroups
from mcframe.model.forms import table_of_numbers
from mcframe.model.held_out import HeldOut
from mcframe.model.transforms import AffineUnits
from mcframe.numerics.row_mixtures import IncompleteRows
from mcframe.posterior.answer import posterior
from mcframe.posterior.row_estimates import fit_rows
from mcframe.posterior.row_limits import RowLimits, truncated_moments
from mcframe.posterior.row_variances import NOISE_SHARE, student_variance_inflation
from mcframe.posterior.rows import RowsPosterior
from mcframe.tables.coding import NUMBERS_BLOCK
from mcframe.tables.missingness import CoMissingness
from mcframe.tables.neighbours import Copies
from mcframe.tables.number_tables import (
    factor_model,
    first_numbers,
    number_block,
    standard_units,
    standardized,
)
from mcframe.tables.raw_predictions import RawPredictions

# The tolerance of estimates from a fold: the first step that raises the evidence by less than this
# for each number is the last one.
FOLD_TOLERANCE = 1e-4


@attrs.frozen(eq=False)
class HeldOutMoments:
    """Predictive means and variances of held-out numbers, NaN elsewhere.

    Attributes
    ----------
    spread : array (d,)
        The standard deviations of the columns.
    means : array (n x d)
    variances : array (n x d)
        In standard units: 1 without any information.
    error_ratios : array (d,) or None
        Of errors of an estimate from all numbers over those of the folds. None for 1.
    """

    spread: Array
    means: Array
    variances: Array
    error_ratios: Array | None = None

    def of_columns(self, columns: slice) -> RawPredictions:
        """The raw predictions of some columns."""
        return RawPredictions(self.means[:, columns], self.variances[:, columns])


@attrs.define(eq=False)
class RowsFold:
    """One fold of a table: the numbers from which rows are estimated, and those held out.

    Attributes
    ----------
    values : array (n x d)
        The table, NaN where missing.
    held_out : HeldOut
        Of the numbers, in the block ``NUMBERS_BLOCK``; all numbers of an entry together.
    column_of_number : array of integers (d,)
        The column of the table that each number belongs to, ascending.
    n_features : int
        The number of first columns, from which the others, the targets, are to be predicted; 0
        where none are targets. Held-out targets are predicted from ``seen`` alone, as where all
        targets of a row are held out; otherwise from all other numbers of their row.
    co_missing : dict from column to CoMissingness
        Of the columns whose entries are missing together with others.
    limits : RowLimits or None
        Of numbers that are missing, in the units of the table. They are never held out.
    groups : RowGroups or None
        Of the rows, where these have means of groups.
    row_weights : array (n,) or None
        How often each row counts, in estimates and losses.
    learns_shares : bool
        Whether the prior learns what it expects of the variances of each column.
    copies : Copies or None
        Entries that stand in two rows, which are not seen if they are held out in one of them.
    warm_start : RowsPosterior or None
        The last estimate of one Gaussian, from which the next estimate starts.
    """

    values: Array
    held_out: HeldOut
    column_of_number: IntArray
    n_features: int = 0
    co_missing: Mapping[int, CoMissingness] = attrs.field(factory=dict)
    limits: RowLimits | None = None
    groups: RowGroups | None = None
    row_weights: Array | None = None
    learns_shares: bool = False
    copies: Copies | None = None
    warm_start: RowsPosterior | None = None

    @cached_property
    def seen(self) -> Array:
        """The numbers without those that are held out (n x d)."""
        seen: Array = self.held_out.remaining({NUMBERS_BLOCK: self.values})[NUMBERS_BLOCK]
        if self.copies is not None:
            copies = self.copies.of_entries(self.held_out_entries)
            seen = np.where(copies[:, self.column_of_number], np.nan, seen)
        return seen

    @cached_property
    def held_out_entries(self) -> Mask:
        """The entries that are held out (n x number of columns of the table)."""
        scored = self.held_out.scored_cells(NUMBERS_BLOCK)
        return scored[:, first_numbers(self.column_of_number)]

    def co_missing_numbers(self, column: int, rows: IntArray) -> Mask:
        """The numbers to hide with held-out entries of a column in these rows (len(rows) x d)."""
        return self.co_missing[column].hidden(rows)[:, self.column_of_number]

    def co_masked(self, values: Array, columns: IntArray, rows: IntArray) -> HeldOut:
        """Hold out one entry of each row, with those that are missing together with it.

        Parameters
        ----------
        values : array (k x d)
            The numbers of the rows.
        columns : array of integers (k,)
            The column of the table that each entry is of.
        rows : array of integers (k,)
            The rows of the table. A row is given once for each of its entries.
        """
        hidden: Mask = np.zeros(values.shape, dtype=bool)
        for column in np.intersect1d(columns, list(self.co_missing)):
            of_column = columns == column
            hidden[of_column] = self.co_missing_numbers(column, rows[of_column])
        scored = self.column_of_number == columns[:, None]
        tables = {NUMBERS_BLOCK: table_of_numbers(values)}
        held_out = HeldOut.of_cells(tables, {NUMBERS_BLOCK: scored})
        return held_out.hiding({NUMBERS_BLOCK: hidden})

    @property
    def variance_inflation(self) -> Array:
        """The factors by which variances of columns with few numbers are larger (d,)."""
        return student_variance_inflation(np.count_nonzero(~np.isnan(self.seen), axis=0))

    @property
    def targets_inform_targets(self) -> bool:
        """True if rows with held-out targets have targets that are seen."""
        if not self.n_features:
            return False
        held, seen = (
            self.held_out_entries[:, self.n_features :],
            ~np.isnan(self.seen[:, self.n_features :]),
        )
        return bool(np.any(held.any(axis=1) & seen.any(axis=1)))

    def precisions(self, feature_noise: float = NOISE_SHARE) -> Array:
        """One over the variance of the noise of each number."""
        noise = np.full(self.column_of_number.size, NOISE_SHARE)
        noise[: self.n_features] = feature_noise
        return 1.0 / noise

    def estimate(
        self, components: int, prior_rows: float, feature_noise: float = NOISE_SHARE
    ) -> RowsPosterior:
        """Estimate the posterior of the rows from ``seen``, starting from ``warm_start``."""
        fitted = ~np.all(np.isnan(self.seen), axis=1)
        limits = self.limits_in(standard_units(self.seen))
        if limits is not None:
            fitted[:] = True
        posterior = fit_rows(
            standardized(self.seen)[fitted],
            self.precisions(feature_noise),
            components=components,
            prior_rows=prior_rows,
            variables=self.column_of_number if self.learns_shares else None,
            tol=FOLD_TOLERANCE,
            start=self.warm_start,
            limits=limits if self.warm_start is None else self.warm_start.limits,
            members=self.members_of(fitted),
            n_groups=0 if self.groups is None else self.groups.count,
            row_weights=None if self.row_weights is None else self.row_weights[fitted],
        )
        if components == 1:
            self.warm_start = posterior
        return posterior

    def members_of(self, rows: IntArray | Mask) -> GroupMembers | None:
        """The groups of rows of the table; None where rows have none."""
        return None if self.groups is None else self.groups.members.take(rows)

    def limits_in(self, units: AffineUnits) -> RowLimits | None:
        """The limits in the units of rows that are estimated."""
        return None if self.limits is None else self.limits.in_units(units, NOISE_SHARE)

    def predict(
        self, posterior: RowsPosterior, feature_noise: float = NOISE_SHARE
    ) -> "HeldOutMoments":
        """Predict the held-out numbers."""
        return self.moments_in_units(posterior, standard_units(self.seen), feature_noise)

    def moments_in_units(
        self, posterior: RowsPosterior, units: AffineUnits, feature_noise: float
    ) -> "HeldOutMoments":
        """The moments of the held-out numbers under a posterior in these units."""
        rows, columns = (
            np.flatnonzero(self.held_out_entries.any(axis=1)),
            np.arange(self.column_of_number.size),
        )
        if self.n_features:
            standard = units.apply(self.seen[rows], rows[:, None], columns)
            cells = posterior.condition(standard, self.precisions(feature_noise)).cells
            predicted, variances = cells.moments
            variances += NOISE_SHARE
        else:
            standard = units.apply(self.values[rows], rows[:, None], columns)
            predicted, variances = posterior.components.leave_one_out(
                standard, NOISE_SHARE, self.column_of_number, self.members_of(rows)
            )
            self.predict_by_hiding(posterior, units, standard, rows, predicted, variances)
            limits = self.limits_in(units)
            if limits is not None:  # held-out numbers are those that are known exactly
                every_row = np.arange(len(self.values))[:, None]
                ranges = limits.ranges_of_known(units.apply(self.values, every_row, columns))
                ends = (np.broadcast_to(end, predicted.shape) for end in ranges)
                predicted, variances = truncated_moments(predicted, variances, *ends)
        held_out = self.held_out_entries[np.ix_(rows, self.column_of_number)]
        moments = HeldOutMoments(units.spread, *np.full((2, *self.values.shape), np.nan))
        natural = units.invert(predicted, rows[:, None], columns)
        moments.means[rows] = np.where(held_out, natural, np.nan)
        moments.variances[rows] = np.where(held_out, variances, np.nan)
        return moments

    def predict_by_hiding(
        self,
        posterior: RowsPosterior,
        units: AffineUnits,
        standard: Array,
        rows: IntArray,
        means: Array,
        variances: Array,
    ) -> None:
        """Predict held-out entries of columns in ``co_missing`` with co-masked entries hidden.

        So are those predicted of which only some numbers are there, as of a point mass. The
        results are written into ``means`` and ``variances``; they, like ``standard``, have the
        held-out ``rows`` (n_held x d).
        """
        limits, sited = self.limits_in(units), posterior
        if limits is not None:  # whose sites know nothing of what is held out
            seen = units.apply(self.seen, *np.ogrid[: self.seen.shape[0], : self.seen.shape[1]])
            table = IncompleteRows.of(
                seen,
                self.precisions(),
                posterior.table.variances,
                self.members_of(np.arange(len(seen))),
            )
            sited = posterior.observing(table).within(limits)
        columns, positions = np.nonzero(self.held_out_entries[rows].T)
        incomplete = np.isnan(standard)
        is_partial = np.logical_or.reduceat(incomplete, first_numbers(self.column_of_number), 1)
        in_question = is_partial[positions, columns]
        in_question |= np.isin(columns, list(self.co_missing))
        if limits is not None:
            in_question |= np.isin(rows, limits.rows)[positions]
        columns, positions = columns[in_question], positions[in_question]
        size = max(1, BATCH_NUMBERS // standard.shape[1])
        for first in range(0, positions.size, size):
            places = positions[first : first + size]
            values = standard[places]
            held_out = self.co_masked(values, columns[first : first + size], rows[places])
            seen = held_out.remaining({NUMBERS_BLOCK: values})[NUMBERS_BLOCK]
            members = self.members_of(rows[places])
            table = IncompleteRows.of(seen, self.precisions(), posterior.table.variances, members)
            if sited.limits is not None:
                table = sited.limits.take(rows[places]).in_table(table)
            moments = sited.components.conditionals(table).moments
            chosen = columns[first : first + size, None]
            entry, number = np.nonzero(self.column_of_number == chosen)
            cells = places[entry], number
            means[cells], variances[cells] = (moment[entry, number] for moment in moments)
            variances[cells] += NOISE_SHARE

    def predict_by_factors(self) -> "HeldOutMoments":
        """Predict the held-out numbers from ``seen`` by Gaussian factors."""
        model = factor_model([number_block(NUMBERS_BLOCK)])
        hidden: Mask = np.zeros(self.values.shape, dtype=bool)
        for column in self.co_missing:
            rows = np.flatnonzero(self.held_out_entries[:, column])
            hidden[rows] |= self.co_missing_numbers(column, rows)
        held_out = self.held_out.hiding({NUMBERS_BLOCK: hidden})
        seen = held_out.remaining({NUMBERS_BLOCK: self.values})[NUMBERS_BLOCK]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnobservedWarning)
            fitted = posterior(model, {NUMBERS_BLOCK: seen}, random_state=0)
        cells = np.nonzero(self.held_out_entries[:, self.column_of_number])
        spread = standard_units(self.seen).spread
        moments = HeldOutMoments(spread, *np.full((2, *self.values.shape), np.nan))
        moments.means[cells] = fitted.predict(NUMBERS_BLOCK, *cells)
        moments.variances[cells] = np.square(fitted.sd(NUMBERS_BLOCK, *cells) / spread[cells[1]])
        return moments

    def sums_over_rows(self, numbers: Array) -> Array:
        """The sums over rows of numbers (n x d), as often as each row counts."""
        sums: Array = np.sum(numbers, axis=0, dtype=np.float64)
        return sums if self.row_weights is None else np.asarray(self.row_weights @ numbers)

    def loss(self, predictions: Array) -> float:
        """The mean over columns of the squared errors of held-out numbers, over the variance."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            squares = np.square(self.values - predictions)
            scored = ~np.isnan(squares)
            counts = self.sums_over_rows(scored)
            errors = self.sums_over_rows(np.where(scored, squares, 0.0)) / counts
            variances = np.zeros(counts.size)
            variances[counts > 0] = np.nanvar(self.values[:, counts > 0], axis=0)
            by_column = np.bincount(self.column_of_number, np.where(counts > 0.0, errors, 0.0))
            relative = by_column / np.bincount(self.column_of_number, variances)
        relative = relative[np.isfinite(relative)]
        return float(np.mean(relative)) if relative.size else np.nan


def folds_of_parts(
    values: Array,
    parts: IntArray,
    column_of_number: IntArray,
    n_folds: int,
    *,
    n_features: int = 0,
    co_missing: Mapping[int, CoMissingness] | None = None,
) -> list[RowsFold]:
    """Return the folds of a table of numbers by the part of each entry (n x number of columns).

    There is none for a part in which nothing is held out, or nothing is left to be fitted.
    """
    table, folds = table_of_numbers(values), []
    tables = {NUMBERS_BLOCK: table}
    parts_of = {NUMBERS_BLOCK: parts[table.rows, column_of_number[table.columns]]}
    for part in range(n_folds):
        held_out = HeldOut.of_parts(tables, parts_of, part)
        if held_out.scored[NUMBERS_BLOCK].any() and held_out.fitted[NUMBERS_BLOCK].any():
            folds.append(
                RowsFold(values, held_out, column_of_number, n_features, co_missing or {})
            )
    return folds
