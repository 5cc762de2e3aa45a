"""Draws of a completed table: rows as draws of a distribution that is itself uncertain."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Any, Generic

import attrs
import numpy as np
import scipy

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import ModelError
from mcframe.contracts.frames import Frame
from mcframe.contracts.rounding import EPS
from mcframe.contracts.row_weights import counts_of_rows
from mcframe.fitting.fit_answer import Fit
from mcframe.model.transforms import AffineUnits
from mcframe.numerics.row_mixtures import IncompleteRows, moments_of
from mcframe.numerics.rows_in_groups import RowsInGroups
from mcframe.posterior.answer import Posterior
from mcframe.posterior.grouped_draws import drawn_levels
from mcframe.posterior.grouped_rows import GroupedParameters
from mcframe.posterior.joint import JointPosterior
from mcframe.posterior.row_corrections import RowCorrections
from mcframe.posterior.row_estimates import fit_rows, resampled_parameters
from mcframe.posterior.row_identities import RowIdentities
from mcframe.posterior.row_limits import RowLimits
from mcframe.posterior.row_variances import NOISE_SHARE, variance_exponents_of
from mcframe.posterior.rows import (
    RowDistribution,
    RowsPosterior,
    posterior_given,
)
from mcframe.posterior.rows_parameters import RowsParameters
from mcframe.runtime.progress import stage
from mcframe.tables.applicability import values_equal
from mcframe.tables.coding import NUMBERS_BLOCK, Choice, Counts, Numbers
from mcframe.tables.compatible_draws import PROPOSALS, PartedColumns, compatible_draw
from mcframe.tables.declared import Declared
from mcframe.tables.declared_column import (
    DeclaredColumn,
    members_of,
)
from mcframe.tables.draws_within_limits import drawn_within_limits
from mcframe.tables.formula_terms import Formula
from mcframe.tables.number_tables import StandardUnits, UnitsAboutMeans, standard_units
from mcframe.tables.reference_groups import ReferenceGroup
from mcframe.tables.rows_choice import RowsChoice
from mcframe.tables.rows_folds import FOLD_TOLERANCE
from mcframe.tables.semicontinuous import SemiContinuous
from mcframe.tables.shifts import NO_SHIFTS, Shifts


class DrawsOfTable(list[Frame]):
    """Completed tables, a list, with the formula whose terms their draws keep.

    Attributes
    ----------
    formula : Formula or None
    row_weights : array (n,) or None
        Of the rows, where they have some.
    """

    def __init__(
        self,
        tables: Iterable[Frame],
        formula: Formula | None,
        row_weights: Array | None = None,
    ) -> None:
        super().__init__(tables)
        self.formula = formula
        self.row_weights = row_weights


@attrs.frozen(eq=False)
class DrawnCodes(Generic[Frame]):
    """One draw of the missing entries of a table, of which shifted tables are made.

    Attributes
    ----------
    declared : Declared
    codes : dict from column name to array
        Of missing entries, without amounts of shifts.
    rng : generator
        Of what is rounded at random; its state stays.
    """

    declared: Declared[Frame]
    codes: dict[Any, Array]
    rng: np.random.Generator

    def table(self, shifts: Shifts) -> Frame:
        """The completed table, with the amounts of shifts."""
        codes = shifts.applied(self.declared, self.codes, copy.deepcopy(self.rng))
        codes = self.declared.related_rows.related(codes, True, shifts.names)
        return self.declared.with_codes(codes)


def codes_of_draws(
    declared: Declared[Frame], posterior: Posterior, m: int
) -> Iterator[DrawnCodes[Frame]]:
    """m draws by new observations of a model of its own, drawn row by row."""
    members = members_of(declared.columns)
    drawn: dict[str, Array] = {}
    with stage("draws") as progress:
        for block in members:
            progress.begin(f"block {block!r} is drawn")
            drawn[block] = posterior.sample(block, m)
        for k in range(m):
            codes = {}
            for column in chain.from_iterable(members.values()):
                coding, block = column.block_coding, column.block_name
                numbers = drawn[block][k, column.column.missing, column.place]
                is_place = isinstance(coding, Choice)
                codes[column.name] = (
                    numbers if is_place else coding.predicted(coding.decode(numbers[:, None]))
                )
            yield DrawnCodes(declared, codes, np.random.default_rng((posterior.random_state, k)))
            progress.count(k + 1, m, "tables", rated=True)


def grouped_parameters_of(answer: Fit | Posterior) -> GroupedParameters | None:
    """The parameters of rows in groups; None where rows have none."""
    if not isinstance(answer, Posterior) or not isinstance(answer.engine, JointPosterior):
        return None
    parameters = answer.engine.rows.parameters
    return parameters if isinstance(parameters, GroupedParameters) else None


# The prior of draws counts as at most this share of the rows, if there are few columns.
MOST_PRIOR_SHARE = 0.01
# The distribution of a draw is estimated from at most so many numbers.
MOST_NUMBERS_FOR_DRAW = 1_000_000
# At most so many of the rows that were not drawn show how large the errors of predictions are.
MOST_UNDRAWN_ROWS = 2000


@attrs.frozen(eq=False)
class DrawnRows(Generic[Frame]):
    """Rows of a table of numbers as draws of a distribution that is itself uncertain.

    Attributes
    ----------
    declared : Declared
        Its columns are numbers of one block.
    posterior : Posterior
        Of all rows.
    chosen : RowsChoice
        With a prior that is weak enough for draws.
    units : AffineUnits
    values : array (n x d)
        The numbers in standard units, NaN where missing.
    parted : PartedColumns or None
        Where outcomes have a regression on terms of the other columns.
    references : tuple of ReferenceGroup
        As of which missing values of other groups are drawn.
    limits : RowLimits or None
        Of missing numbers, in standard units.
    levels : RowsInGroups or None
        Where rows are about means of their groups that were drawn: the distribution of this draw.
    row_weights : array (n,) or None
        How often each row counts where a distribution is estimated.
    observed : array (n x d) or None
        The numbers that were not drawn, by which draws are corrected; None for ``values``.
    """

    declared: Declared[Frame]
    posterior: Posterior
    chosen: RowsChoice
    units: StandardUnits
    values: Array
    parted: PartedColumns | None = None
    references: tuple[ReferenceGroup, ...] = ()
    limits: RowLimits | None = None
    levels: RowsInGroups | None = None
    row_weights: Array | None = None
    observed: Array | None = None

    @classmethod
    def of(
        cls,
        declared: Declared[Frame],
        posterior: Posterior,
        chosen: RowsChoice,
        formula: Formula | None = None,
        shifts: Shifts = NO_SHIFTS,
    ) -> "DrawnRows[Frame]":
        """The rows of a table.

        A prior that predicts single entries best may hold correlations back so far that what is
        computed from draws is biased towards 0: that of n rows of d numbers counts as d^2 / n
        rows, a hundredth of n, or one, whichever is the most, or as the chosen one if that is
        less.
        """
        numbers = np.asarray(declared.data[NUMBERS_BLOCK], dtype=np.float64)
        n_rows, width = numbers.shape
        if chosen.prior_rows is not None:
            most = max(1.0, MOST_PRIOR_SHARE * n_rows, width**2 / n_rows)
            chosen = attrs.evolve(chosen, prior_rows=min(chosen.prior_rows, most))
        units = standard_units(numbers)
        values = units.apply(numbers, *np.ogrid[:n_rows, :width])
        parted = None
        if formula is not None and formula.further_terms:
            if chosen.components is None:
                raise ModelError(
                    "terms need a distribution of rows, and the table is so wide that it has"
                    " factors; complete it with fewer columns"
                )
            parted = PartedColumns.of(formula, declared.columns)
        engine, limits, row_weights = posterior.engine, None, None
        if isinstance(engine, JointPosterior):
            limits, row_weights = engine.rows.limits, engine.rows.table.row_weights
        references = []
        for (by, to, method), outcomes in shifts.by_reference.items():
            if chosen.components is None:
                raise ModelError(
                    "shifts to a reference group need a covariance of all columns, and the table"
                    " is so wide that it has factors, which hold back what one column says of"
                    " another; complete it with fewer columns, or give amounts by group"
                )
            if parted is not None:
                parted.demand_outcomes(outcomes)
            groups = declared.column(by)
            [place] = groups.codes[values_equal(groups.column, to)][:1]
            references.append(ReferenceGroup(groups, float(place), method, outcomes))
        parts = parted, tuple(references), limits
        return cls(declared, posterior, chosen, units, values, *parts, row_weights=row_weights)

    def drawn_codes(self, m: int, seed: int) -> Iterator[DrawnCodes[Frame]]:
        """m draws of the missing entries."""
        parameters = self.grouped_parameters
        levels: Iterator[RowsInGroups] = iter(())
        if parameters is not None:
            assert isinstance(self.posterior.engine, JointPosterior)
            table = self.posterior.engine.rows.table
            levels = drawn_levels(parameters, table, np.random.default_rng(seed))
        with stage("draws") as progress:
            for k in range(m):
                rng = np.random.default_rng((seed, k))
                rows = self if parameters is None else self.about_means(next(levels), rng)
                yield DrawnCodes(self.declared, rows.one_draw(rng), rng)
                progress.count(k + 1, m, "tables", rated=True)

    @property
    def grouped_parameters(self) -> GroupedParameters | None:
        """The parameters of rows in groups, with the prior of draws; None without groups."""
        parameters = grouped_parameters_of(self.posterior)
        if parameters is None:
            return None
        assert self.chosen.prior_rows is not None
        prior = attrs.evolve(parameters.within.prior, rows=self.chosen.prior_rows)
        return attrs.evolve(parameters, within=attrs.evolve(parameters.within, prior=prior))

    def about_means(self, levels: RowsInGroups, rng: np.random.Generator) -> "DrawnRows[Frame]":
        """The rows about means of groups that are drawn with these parameters."""
        engine = self.posterior.engine
        assert isinstance(engine, JointPosterior)
        assert isinstance(self.units, AffineUnits)
        table = engine.rows.table
        offsets = table.in_groups.means(levels.conditioned(table).groups.draw(rng))
        return attrs.evolve(
            self,
            units=UnitsAboutMeans(self.units, offsets),
            values=self.values - offsets,
            limits=None if self.limits is None else self.limits.minus(offsets),
            levels=levels,
        )

    @property
    def counts(self) -> Array:
        """The weight of each row where a distribution is estimated (n,)."""
        return np.ones(len(self.values)) if self.row_weights is None else self.row_weights

    def one_draw(self, rng: np.random.Generator) -> dict[Any, Array]:
        """Codes of missing entries, by column."""
        posterior: RowsPosterior | None = None
        if self.chosen.components is None:
            engine = self.posterior.engine
            drawn = engine.draws(np.arange(len(self.values)), rng, 1)[0]
            drawn = drawn + np.sqrt(engine.noise) * rng.standard_normal(drawn.shape)
        else:
            [(posterior, drawn)] = self.drawn(self.distribution(rng), 1, rng)
        codes = self.codes(posterior, drawn, rng, self.corrected(posterior, rng))
        if posterior is None:
            return codes
        if self.parted is not None:
            proposals = self.proposals(self.parted, posterior, rng)
            draw = compatible_draw(self.parted, codes, proposals, rng, self.counts)
            for reference in self.references:
                draw = reference.drawn_by_regression(draw, rng)
            return draw.codes
        for reference in self.references:
            codes = reference.drawn(self, posterior, codes, rng)
        return codes

    def whole_codes(self, column: DeclaredColumn, codes: Mapping[Any, Array]) -> Array:
        """The codes of a column in all rows (n,), with those of missing entries."""
        whole = column.codes.copy()
        whole[column.column.missing] = codes.get(column.name, np.zeros(0))
        return whole

    def numbers_of(self, column: DeclaredColumn) -> IntArray:
        """The places of the numbers of a column."""
        assert column.place is not None  # of a column in a block
        return column.place + np.arange(column.block_coding.width)

    def coded(self, column: DeclaredColumn, codes: Array, rows: IntArray) -> Array:
        """Codes of a column in some rows as numbers in standard units."""
        cells = np.ix_(rows, self.numbers_of(column))
        return self.units.apply(column.block_coding.numbers(codes), *cells)

    def completed(self, codes: Mapping[Any, Array]) -> Array:
        """The numbers with those of codes of missing entries."""
        completed = self.values.copy()
        for column in self.modelled.values():
            missing = np.flatnonzero(column.column.missing)
            if missing.size:
                numbers = self.coded(column, codes[column.name], missing)
                numbers[~np.isfinite(numbers)] = np.nan  # such as the logarithm of a support
                completed[np.ix_(missing, self.numbers_of(column))] = numbers
        return completed

    @cached_property
    def identities(self) -> RowIdentities | None:
        """The linear relations of the numbers of a row, with their noise; None without any."""
        relations, noise = self.declared.relations, np.full(self.values.shape[1], NOISE_SHARE)
        if not relations.identities:
            return None
        if isinstance(self.units, AffineUnits):
            return self.declared.related_rows.row_identities(self.units, noise)
        identities = self.declared.related_rows.row_identities(self.units.units, noise)
        return attrs.evolve(identities, offsets=self.units.offsets)

    @property
    def corrections(self) -> RowCorrections | None:
        """The corrections of missing numbers; None without any."""
        engine = self.posterior.engine
        return engine.rows.corrections if isinstance(engine, JointPosterior) else None

    def drawn(
        self, distribution: RowsPosterior, m: int, rng: np.random.Generator
    ) -> Iterator[tuple[RowsPosterior, Array]]:
        """The posterior of these rows and m draws of them (n x d), under some components.

        Without corrections. Numbers with limits are drawn first, within these, and count as
        observed then.
        """
        posterior = distribution
        if distribution.table is not self.table:
            posterior = distribution.condition(self.values, self.precisions)
        posterior = attrs.evolve(posterior, identities=self.identities)
        if self.corrections is not None and posterior.variance_exponents is not None:
            exponents = posterior.variance_exponents.copy()
            exponents[self.corrections.numbers] = 1.0  # their variances are corrected
            posterior = attrs.evolve(posterior, variance_exponents=exponents)
        if self.limits is None:
            draws = posterior.drawn_observations(NOISE_SHARE, rng, m)
            yield from ((posterior, draw) for draw in draws)
            return
        cells = self.limits.rows, self.limits.columns
        sited = posterior.within(self.limits)
        for _ in range(m):
            values = drawn_within_limits(sited, self.values, self.precisions, rng)
            posterior = posterior.with_numbers(values, self.precisions)
            [draw] = posterior.drawn_observations(NOISE_SHARE, rng, 1)
            draw[cells] = values[cells]
            yield posterior, draw

    @cached_property
    def moments_of_all_rows(self) -> tuple[Array, Array]:
        """Means and variances (n x d) given what is observed, by the distribution of all rows."""
        assert isinstance(self.posterior.engine, JointPosterior)
        observed = self.values if self.observed is None else self.observed
        rows = self.posterior.engine.rows.condition(observed, self.precisions)
        return rows.components.conditionals(rows.table).moments

    def corrected(
        self, posterior: RowsPosterior | None, rng: np.random.Generator
    ) -> "CorrectedNumbers":
        """The corrections of draws under a posterior of these rows, by trees drawn at random.

        Trees see what they have learned from: the moments of the distribution of all rows.
        """
        if self.corrections is None or posterior is None:
            return CorrectedNumbers()
        observed = self.values if self.observed is None else self.observed
        mean, variance = self.moments_of_all_rows
        after, scales = self.corrections.drawn(rng).adjusted(
            observed, mean, variance, np.ones_like(mean)
        )
        means, _ = posterior.components.conditionals(posterior.table).moments
        return CorrectedNumbers(means, after - mean, scales)

    def proposals(
        self, parted: PartedColumns, posterior: RowsPosterior, rng: np.random.Generator
    ) -> dict[Any, Array]:
        """Draws of the covariates given the observed ones alone, as codes (K x n) by name."""
        values = self.values.copy()
        for column in parted.outcomes:
            assert column.place is not None  # of a column in a block
            values[:, column.place : column.place + column.block_coding.width] = np.nan
        rows = attrs.evolve(self, values=values, limits=self.limits_of_covariates(parted))
        codes, corrected = [], None
        for conditioned_rows, drawn in rows.drawn(posterior, PROPOSALS, rng):
            if corrected is None:
                corrected = rows.corrected(conditioned_rows, rng)
            codes.append(rows.codes(conditioned_rows, drawn, rng, corrected))
        proposals = {}
        for column in parted.covariates:
            whole = np.nan_to_num(np.tile(column.codes, (PROPOSALS, 1)))
            if column.column.missing.any():
                whole[:, column.column.missing] = [one[column.name] for one in codes]
            proposals[column.name] = whole
        return proposals

    def limits_of_covariates(self, parted: PartedColumns) -> RowLimits | None:
        """The limits of numbers that are no outcome."""
        if self.limits is None:
            return None
        outcomes = [column.place for column in parted.outcomes if column.place is not None]
        return self.limits.chosen(~np.isin(self.limits.columns, outcomes))

    @property
    def precisions(self) -> Array:
        """One over the variance of the noise of each column."""
        return np.full(self.values.shape[1], 1.0 / NOISE_SHARE)

    def distribution(self, rng: np.random.Generator) -> RowsPosterior:
        """The posterior of rows drawn with replacement, whose components are a draw's.

        One Gaussian has the covariance of these rows, and each column its variance. Of a mixture,
        whose components may be those of few rows, and of more than half as many columns as rows,
        whose prior may have far larger variances, the rows that were not drawn show how sure
        predictions are.
        """
        if self.levels is not None:
            table = IncompleteRows.of(self.values, self.precisions, np.ones(self.values.shape[1]))
            return posterior_given(table, self.levels.within)
        n_rows, width = self.values.shape
        n_drawn = min(n_rows, max(width, MOST_NUMBERS_FOR_DRAW // width))
        drawn = rng.integers(n_rows, size=n_drawn)
        start = self.start
        if start is None:
            posterior = self.estimated_from(drawn)
        else:
            weights = None
            if self.row_weights is not None:
                weights = counts_of_rows(self.row_weights[drawn], self.is_observed[drawn])
            counts = np.bincount(drawn, weights, n_rows).astype(np.float64)
            parameters = resampled_parameters(start, self.table, counts, self.chosen.prior_rows)
            posterior = posterior_given(self.table, parameters.predictive)
        if self.chosen.components == 1 and n_rows >= 2 * width:
            return posterior
        others = np.setdiff1d(np.arange(n_rows), drawn)
        others = others[
            :: 1 + others.size // MOST_UNDRAWN_ROWS
        ]  # of all of a table that is sorted
        means, variances = posterior.components.leave_one_out(
            self.values[others], NOISE_SHARE, self.column_of_number
        )
        self.predict_related(posterior, others, means, variances, rng)
        squares = np.square(self.values[others] - means)
        return attrs.evolve(
            posterior, variance_exponents=variance_exponents_of(squares, variances)
        )

    def estimated_from(self, drawn: IntArray) -> RowsPosterior:
        """The posterior of rows drawn with replacement, estimated from the beginning."""
        return fit_rows(
            self.values[drawn],
            self.precisions,
            components=self.chosen.components or 1,
            prior_rows=self.chosen.prior_rows,
            variables=self.column_of_number,
            tol=FOLD_TOLERANCE,
            limits=None if self.limits is None else self.limits.take(drawn),
            row_weights=None if self.row_weights is None else self.row_weights[drawn],
        )

    @cached_property
    def table(self) -> IncompleteRows:
        """The rows with the precisions of their numbers."""
        ones = np.ones(self.values.shape[1])
        return IncompleteRows.of(self.values, self.precisions, ones)

    @property
    def is_observed(self) -> Mask:
        """A mask of the rows of which anything is observed (n,)."""
        return np.asarray(~np.isnan(self.values).all(axis=1))

    @cached_property
    def start(self) -> RowsParameters | None:
        """The parameters of all rows, from which those of draws are a few steps away.

        None where they are estimated from the beginning: with limits, whose sites are found by
        turns with the parameters, and in wide tables.
        """
        engine = self.posterior.engine
        if self.limits is not None or not isinstance(engine, JointPosterior):
            return None
        parameters = engine.rows.parameters
        if not isinstance(parameters, RowsParameters):
            return None
        if len(parameters.means) != min(self.chosen.components or 1, len(self.values)):
            return None
        return parameters

    def predict_related(
        self,
        posterior: RowsPosterior,
        rows: IntArray,
        means: Array,
        variances: Array,
        rng: np.random.Generator,
    ) -> None:
        """Predict numbers of identities in rows where another number of each is hidden, too.

        All others would determine them, which says nothing of how sure predictions are. Results
        are written into ``means`` and ``variances`` (n x d).
        """
        if self.identities is None:
            return
        involved = self.identities.coefficients != 0.0
        for column in np.flatnonzero(involved.any(axis=0)):
            numbers = self.values[rows]
            numbers[:, column] = np.nan
            for identity in np.flatnonzero(involved[:, column]):
                partners = np.setdiff1d(np.flatnonzero(involved[identity]), column)
                if partners.size:
                    numbers[np.arange(rows.size), rng.choice(partners, rows.size)] = np.nan
            table = IncompleteRows.of(numbers, self.precisions, posterior.table.variances)
            moments = posterior.components.conditionals(table).moments
            means[:, column] = moments[0][:, column]
            variances[:, column] = moments[1][:, column] + NOISE_SHARE

    @property
    def column_of_number(self) -> IntArray:
        """The number of the column of the table that each number belongs to, ascending."""
        widths = [column.block_coding.width for _, column in sorted(self.modelled.items())]
        return np.repeat(np.arange(len(widths)), widths)

    @property
    def modelled(self) -> dict[int, DeclaredColumn]:
        """The columns of the table that stand in the block, by their places."""
        [columns] = members_of(self.declared.all_columns).values()
        return {column.place: column for column in columns if column.place is not None}

    def codes(
        self,
        posterior: RowsPosterior | None,
        drawn: Array,
        rng: np.random.Generator,
        corrected: "CorrectedNumbers",
    ) -> dict[Any, Array]:
        """Codes of the missing entries of each column that stands in a block.

        Numbers are drawn jointly; counts are those of the observed ones, drawn with replacement,
        that have the ranks of the numbers. Then one column of labels, levels or categories after
        the other is drawn, by its probabilities given all that is observed and drawn so far; of
        factors (``posterior`` is None) given what is observed. Corrections are always those by
        what is observed.
        """
        codes: dict[Any, Array] = {}
        completed = self.values.copy()
        columns = self.modelled.items()
        for place, column in sorted(columns, key=lambda item: item[1].block_coding.is_drawn_last):
            coding, missing = column.block_coding, np.flatnonzero(column.column.missing)
            if not missing.size:
                continue
            numbers = place + np.arange(coding.width)
            cells = np.ix_(missing, numbers)
            if isinstance(coding, Counts):
                whole, limited = column.codes.copy(), column.column.limited
                if limited.any():
                    at = np.flatnonzero(limited)
                    within = self.units.invert(drawn[at, place], at, np.full(at.size, place))
                    whole[limited] = within = np.maximum(np.rint(within), 0.0)
                donors, shares = np.flatnonzero(~column.column.missing | limited), None
                if self.row_weights is not None:
                    shares = self.row_weights[donors] / np.sum(self.row_weights[donors])
                seen = rng.choice(whole[donors], self.values.shape[0], p=shares)
                [heights] = corrected.at(drawn[cells], missing, numbers).T
                ranks = self.ranks(posterior, place, heights, missing)
                codes[column.name] = np.quantile(seen, ranks, method="inverted_cdf")
                if limited.any():
                    codes[column.name][limited[missing]] = within
                completed[cells] = self.units.apply(codes[column.name][:, None], *cells)
                continue
            if isinstance(coding, SemiContinuous):
                first = self.probabilities(
                    posterior, coding.part, completed, missing, place, corrected
                )
                parts = drawn_places(first, rng)
                others, rows, at = drawn[cells][:, 1:], posterior, missing
                if posterior is not None:  # given which of the two it is
                    completed[missing, place] = self.units.apply(parts, missing, numbers[0])
                    rows = self.conditioned(posterior, completed, missing, corrected)
                    at = np.arange(missing.size)
                    others = rows.draws(at, rng, 1)[0][:, numbers[1:]]
                    others = others + np.sqrt(NOISE_SHARE) * rng.standard_normal(others.shape)
                others = self.shaped(coding, others, rows, at, numbers[1:])
                others = corrected.at(others, missing, numbers[1:])
                amounts = self.units.invert(others, missing[:, None], numbers[1:])[:, 0]
                values = column.rounded(coding.within(amounts))
                codes[column.name] = np.where(parts == 1.0, values, coding.atom)
                completed[cells] = self.units.apply(coding.numbers(codes[column.name]), *cells)
                continue
            if not isinstance(coding, Choice):
                shaped = self.shaped(coding, drawn[cells], posterior, missing, numbers)
                completed[cells] = corrected.at(shaped, missing, numbers)
                answer = coding.within(self.units.invert(completed[cells], *cells)[:, 0])
                codes[column.name] = coding.whole_within(column.rounded(answer))
                continue
            answer = self.probabilities(posterior, coding, completed, missing, place, corrected)
            places = drawn_places(answer, rng)
            completed[cells] = self.units.apply(coding.numbers(places), *cells)
            codes[column.name] = places
        return codes

    def ranks(
        self, posterior: RowsPosterior | None, place: int, numbers: Array, rows: IntArray
    ) -> Array:
        """The shares of all rows with a smaller number there."""
        if self.levels is None:
            return ranks_of(None if posterior is None else posterior.components, place, numbers)
        assert isinstance(self.units, UnitsAboutMeans)
        whole = numbers + self.units.offsets[rows, place]
        return ranks_of(self.levels.new_row, place, whole)

    def conditioned(
        self,
        posterior: RowsPosterior,
        completed: Array,
        missing: IntArray,
        corrected: "CorrectedNumbers",
    ) -> RowsPosterior:
        """The posterior of some rows given what is observed and drawn so far, not corrected."""
        numbers = corrected.without(completed[missing], missing)
        return posterior.take(missing).with_numbers(numbers, self.precisions)

    def probabilities(
        self,
        posterior: RowsPosterior | None,
        coding: Choice,
        completed: Array,
        missing: IntArray,
        place: int,
        corrected: "CorrectedNumbers",
    ) -> Array:
        """The probabilities of values in some rows, given what is observed and drawn so far.

        Their numbers stand from a place on. Of factors given what is observed alone.
        """
        numbers = place + np.arange(coding.width)
        if posterior is not None:
            noise = np.asarray(NOISE_SHARE)
            rows = self.conditioned(posterior, completed, missing, corrected)
            means, variances = rows.moments_at(rows.table, numbers)
            means = corrected.at(means, missing, numbers)
            variances = variances * corrected.squares_at(missing, numbers)
        else:
            *mixture, noise = self.mixture(None, missing, numbers)
            means, variances = moments_of(*mixture)
        return coding.decode(
            self.units.invert(means, *np.ix_(missing, numbers)), variances + noise
        )

    def mixture(
        self, posterior: RowsPosterior | None, rows: IntArray, numbers: IntArray
    ) -> tuple[Array, Array, Array, Array]:
        """Weights, means and variances of numbers in some rows (C x n x K), and their noise.

        Of factors (``posterior`` is None) given what is observed.
        """
        if posterior is None:
            engine = self.posterior.engine
            cells = np.broadcast_arrays(*np.ix_(rows, numbers))
            of_cells = engine.mixture(*(grid.ravel() for grid in cells))
            weights, means, variances = (part.reshape(1, rows.size, -1) for part in of_cells)
            return weights, means, variances, engine.noise[numbers]
        conditional = posterior.cells
        means, variances = (
            part[:, rows[:, None], numbers] for part in (conditional.means, conditional.variances)
        )
        weights = conditional.responsibilities[rows].T[:, :, None]
        return weights, means, variances, np.asarray(NOISE_SHARE)

    def shaped(
        self,
        coding: Numbers,
        drawn: Array,
        posterior: RowsPosterior | None,
        rows: IntArray,
        numbers: IntArray,
    ) -> Array:
        """Draws of one number in some rows (n x 1), their errors in the shape of the column's.

        Each has the share of the shape below itself that it has of the mixture of Gaussians it was
        drawn from.
        """
        if coding.shape is None:
            return drawn
        weights, means, variances, noise = self.mixture(posterior, rows, numbers)
        mean, variance = moments_of(weights, means, variances)
        below = scipy.special.ndtr((drawn - means) / np.sqrt(variances + noise))
        shares = np.clip(np.sum(weights * below, axis=0), EPS, 1.0 - EPS)
        return mean + np.sqrt(variance + noise) * coding.shape.quantile(shares)


@attrs.frozen(eq=False)
class CorrectedNumbers:
    """The corrections of draws of missing numbers, by what is observed of their rows.

    Trees have learned from what is missing, so that what has been drawn is not observed to them.
    A number has the mean m without corrections, the mean m + ``shifts`` with them, and deviations
    from these are in proportion, those that follow from what is drawn of other columns, too.

    Attributes
    ----------
    means : array (n x d) or None
        Under the distribution of a draw; None where nothing is corrected.
    shifts : array (n x d)
    scales : array (n x d)
        Of deviations; 1 of numbers that are observed, or not corrected.
    """

    means: Array | None = None
    shifts: Array = attrs.field(factory=lambda: np.zeros((0, 0)))
    scales: Array = attrs.field(factory=lambda: np.ones((0, 0)))

    def without(self, numbers: Array, rows: IntArray) -> Array:
        """Numbers of some rows (b x d) as they are without corrections."""
        if self.means is None:
            return numbers
        means = self.means[rows]
        return means + (numbers - means - self.shifts[rows]) / self.scales[rows]

    def at(self, numbers: Array, rows: IntArray, places: IntArray) -> Array:
        """Means or draws of some numbers of rows (b x k), corrected."""
        if self.means is None:
            return numbers
        cells = np.ix_(rows, places)
        means = self.means[cells]
        corrected: Array = means + self.shifts[cells] + self.scales[cells] * (numbers - means)
        return corrected

    def squares_at(self, rows: IntArray, places: IntArray) -> Array | float:
        """The factors of the variances of these numbers (b x k)."""
        return 1.0 if self.means is None else np.square(self.scales[np.ix_(rows, places)])


def ranks_of(mixture: RowDistribution | None, place: int, numbers: Array) -> Array:
    """The shares of all rows with a smaller number there; of factors in standard units."""
    if mixture is None:
        return np.asarray(scipy.special.ndtr(numbers))
    shares = np.exp(mixture.log_shares)
    sds = np.sqrt(mixture.variances[:, place] + NOISE_SHARE)
    below = scipy.special.ndtr((numbers[:, None] - mixture.means[:, place]) / sds)
    return np.asarray(below @ shares / np.sum(shares))


def drawn_places(probabilities: Array, rng: np.random.Generator) -> Array:
    """One place of each row, by its probabilities (n x K)."""
    heights = np.cumsum(probabilities, axis=1)
    level = rng.random(len(heights)) * heights[:, -1]
    places: Array = np.sum(heights <= level[:, None], axis=1).astype(np.float64)
    return np.minimum(places, heights.shape[1] - 1)
