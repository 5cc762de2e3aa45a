"""Rows that are draws of one Gaussian or of a mixture: declared blocks as pseudo-observations."""

import itertools
from collections.abc import Iterator
from functools import cached_property

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.limits import MOST_STEPS
from mcframe.contracts.row_groups import GroupMembers
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import PriorOfRows
from mcframe.numerics.rows_in_groups import RowsInGroups
from mcframe.posterior.engine import SingleDistribution
from mcframe.posterior.grouped_draws import drawn_levels
from mcframe.posterior.grouped_rows import GroupedParameters
from mcframe.posterior.observed import LOG_TWO_PI, Observed, PseudoObservations
from mcframe.posterior.row_draws import (
    DRAWS_OF_CHAIN,
    DrawnComponents,
    augmented,
    rows_given,
)
from mcframe.posterior.row_estimates import fit_rows
from mcframe.posterior.row_limits import RowLimits
from mcframe.posterior.row_variances import NOISE_SHARE
from mcframe.posterior.rows import RowsPosterior, rows_of_gaussian
from mcframe.posterior.rows_parameters import RowsParameters
from mcframe.posterior.variational_em import extrapolated_em

ROWS_NOTE = (
    "covariances are taken as independent of the rows, which makes standard deviations of z too"
    " small where observations are not Gaussian: on drawn tables of 30 x 8 with prior_rows=10 by"
    " 29 % for labels, 26 % for negative binomial counts and 10 % for levels; method='sampler' is"
    " exact"
)
LIMITS_NOTE = (
    "entries that are known to limits have Gaussian observations in their place, by expectation"
    " propagation: predictions and intervals lie within the limits, and so do draws of a completed"
    " table, but not those of sample; conformalize takes such entries for missing, and the"
    " evidence is that of all others"
)
# Steps by expected log likelihoods, at most. They end when no mean of z moves by more than this
# part of its standard deviation.
MOST_EXPECTED_STEPS, SETTLED_MOVE = 100, 0.005


@stored
@attrs.frozen(eq=False)
class JointPosterior(SingleDistribution):
    """The posterior of rows of Z, and the noise variance of columns that do not declare it.

    ``converged`` says of Gaussian blocks, which take no sweeps, whether the estimate has
    converged; None where sweeps go on. ``fitted`` has the rows of which means and covariances were
    estimated, if ``rows`` are new ones.
    """

    observed: Observed
    rows: RowsPosterior
    evidence: float
    noise: Array
    converged: bool | None = None
    rounding: float = 0.0
    fitted: RowsPosterior | None = None
    expects: bool = False  # answers by expected log likelihoods; not in files of earlier versions

    @property
    def n_factors(self) -> int:
        """The number of Gaussians that are mixed, where ``FactorPosterior`` has factors."""
        return len(self.rows.shares)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on likelihoods that keep their bounds, and on what else is left out."""
        notes = self.observed.bounds_notes
        if self.rows.limits is not None:
            notes = (*notes, LIMITS_NOTE)
        estimated = self.rows.parameters is not None
        return (*notes, ROWS_NOTE) if estimated and self.observed.has_expectations else notes

    @property
    def n_steps(self) -> int:
        """The number of steps of the estimate."""
        return max(len(self.rows.history), 1)

    def mixture(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array, Array]:
        """Weights, means and variances (C x N) of z at cells."""
        return self.refined.rows.mixture(rows, columns)

    def limits_at(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array] | None:
        """Limits of new observations at cells of Z, infinite where there is none."""
        limits = self.rows.limits
        if limits is None:
            return None
        places = limits.at(rows, columns)
        lower, upper = (
            np.where(places >= 0, end[places], none)
            for end, none in ((limits.lower, -np.inf), (limits.upper, np.inf))
        )
        return lower, upper

    @cached_property
    def drawn_components(self) -> DrawnComponents | None:
        """Draws of means and covariances; None where these are given, or the table is wide."""
        fitted = self.rows if self.fitted is None else self.fitted
        if not isinstance(fitted.parameters, RowsParameters):
            return None
        return augmented(fitted.parameters, fitted.table, np.random.default_rng(0))

    @cached_property
    def drawn_levels(self) -> list[RowsInGroups]:
        """Draws of the distribution of rows in groups, of which no other row is known."""
        fitted = self.rows if self.fitted is None else self.fitted
        assert isinstance(fitted.parameters, GroupedParameters)
        draws = drawn_levels(fitted.parameters, fitted.table, np.random.default_rng(0))
        return list(itertools.islice(draws, DRAWS_OF_CHAIN))

    def draws_in_groups(self, rows: IntArray, rng: np.random.Generator, m: int) -> Array:
        """Draws of z, each with means of groups and with covariances of its own."""
        fitted = self.rows if self.fitted is None else self.fitted
        table = self.rows.table
        distributions = [levels.conditioned(fitted.table) for levels in self.drawn_levels[:m]]
        if self.fitted is not None:
            distributions = [
                levels.of_other_rows(table).conditioned(table) for levels in distributions
            ]
        drawn, some = np.empty((m, rows.size, table.values.shape[1])), table.take(rows)
        for k in range(m):
            [drawn[k]] = distributions[k % len(distributions)].drawn(some, rng, 1)
        return drawn

    def draws(self, rows: IntArray, rng: np.random.Generator, m: int) -> Array:
        """Draws of z (m x len(rows) x n_columns), each with a mean and a covariance of its own.

        Where these are given, or the table is wide, all draws have the same.
        """
        refined = self.refined
        if isinstance(refined.rows.components, RowsInGroups):
            return refined.draws_in_groups(rows, rng, m)
        if refined.drawn_components is None:
            return refined.rows.draws(rows, rng, m)
        n_chains = refined.drawn_components.n_chains
        components = refined.drawn_components.take(np.arange(m) % n_chains)
        drawn = rows_given(components, refined.rows.table.take(rows), rng)[0]
        return refined.rows.corrected_draws(drawn, rows)

    def within(self, limits: RowLimits) -> "JointPosterior":
        """The posterior of these rows with limits of numbers that are missing."""
        return attrs.evolve(self, rows=self.rows.within(limits))

    def condition(
        self, observed: Observed, members: GroupMembers | None = None
    ) -> "JointPosterior":
        """The posterior of new rows with these entries, perhaps in groups."""
        refined = self.refined
        moments: tuple[Array, Array] | None = None
        # Expectations are found from where the bounds end: from far off steps might diverge.
        for expects in (False, True) if refined.expects else (False,):
            last_means: Array | float = np.inf
            for _ in range(MOST_STEPS):
                dense = dense_observations(observed, self.noise, moments, expects)
                rows = refined.rows.condition(dense.values, dense.precisions, members=members)
                moments = rows.moments_of_new_rows()
                change = float(np.max(np.abs(moments[0] - last_means), initial=0.0))
                size = 1.0 + float(np.max(np.abs(moments[0])))
                if not observed.needs_bounds or change <= 1e-8 * size:
                    break
                last_means = moments[0]
        fitted = refined.rows if refined.fitted is None else refined.fitted
        return attrs.evolve(refined, observed=observed, rows=rows, fitted=fitted)

    @property
    def refined(self) -> "JointPosterior":
        """The distributions by which answers are given.

        Entries count by their expected log likelihoods where the sweeps have bounds, and rows
        and parameters follow in further steps.
        """
        # Nothing that holds itself is kept: its arrays would wait for the collector of garbage.
        needed = self.observed.has_expectations and not self.expects
        return self._by_expectations if needed else self

    @cached_property
    def _by_expectations(self) -> "JointPosterior":
        rows = self.rows
        for _ in range(MOST_EXPECTED_STEPS):
            mean, variance = rows.moments()
            dense = dense_observations(self.observed, self.noise, (mean, variance), expects=True)
            rows = rows.step(dense.values, dense.precisions)
            if np.all(np.abs(rows.moments()[0] - mean) <= SETTLED_MOVE * np.sqrt(variance)):
                break
        return attrs.evolve(self, rows=rows, expects=True)

    def extrapolated(self, after: "JointPosterior", length: float) -> "JointPosterior":
        """``after``, with rows ``length`` times as far away as its rows."""
        rows = self.rows.extrapolated(after.rows, length)
        return after if rows is after.rows else attrs.evolve(after, rows=rows)

    def __str__(self) -> str:
        return f"rows       {self.n_factors} Gaussian component(s)"


def dense_observations(
    observed: Observed,
    noise: Array,
    moments: tuple[Array, Array] | None,
    expects: bool = False,
) -> PseudoObservations:
    """A Gaussian observation of each number of z, given its moments.

    Arrays are (n x d) in the order of Z's columns; values are NaN where nothing is observed, and
    precisions 0. The constant is what the bound on the log likelihoods has beyond the densities of
    these observations.

    Parameters
    ----------
    observed : Observed
    noise : array (d,)
        The variance of each column of Z, of Gaussian blocks that do not declare it.
    moments : (array, array) or None
        Means and variances of z (n x d); None for 0 and 1.
    expects : bool, default False
        Whether expected log likelihoods take the place of bounds where they can.
    """
    values, precisions = np.full(observed.shape, np.nan), np.zeros(observed.shape)
    constant = rounding = 0.0
    rows, columns = observed.cells
    for block in observed.blocks:
        row, column = rows[block.part], columns[block.part]
        mean: Array = np.zeros(row.size)
        variance: Array = np.ones(row.size)
        if moments is not None:
            mean, variance = (array[row, column] for array in moments)
        entries = slice(0, block.y.size)
        if expects and block.has_expectations:
            pseudo = block.expected_observations(entries, mean, variance, 1.0)
        else:
            pseudo = block.pseudo_observations(entries, mean, variance, 1.0)
        precision = pseudo.precisions
        if block.learned_noise == "column":
            precision = precision / noise[column]
        seen = precision > 0.0
        values[row[seen], column[seen]] = pseudo.values[seen]
        precisions[row[seen], column[seen]] = precision[seen]
        if block.learned_noise != "column":
            logs = np.log(precision[seen]) - LOG_TWO_PI
            constant += pseudo.constant - 0.5 * float(np.sum(logs))
            rounding += pseudo.rounding
    return PseudoObservations(values, precisions, constant, rounding=rounding)


def joint_sweeps(
    observed: Observed, term: PriorOfRows, tol: float, max_steps: int, seed: int
) -> Iterator[JointPosterior]:
    """Yield the posterior: once if all blocks are Gaussian, else after each step without end."""
    noise = NOISE_SHARE * column_variances(observed)
    dense = dense_observations(observed, noise, None)
    gaussian, groups = term.gaussian, term.groups
    if gaussian is None:
        rows = fit_rows(
            dense.values,
            dense.precisions,
            components=term.components,
            prior_rows=term.prior_rows,
            variables=term.variables,
            tol=tol,
            max_steps=max_steps,
            random_state=seed,
            members=None if groups is None else groups.members,
            n_groups=0 if groups is None else groups.count,
            row_weights=term.row_weights,
        )
    else:
        rows = rows_of_gaussian(dense.values, dense.precisions, *gaussian)
    if not observed.needs_bounds:
        converged = len(rows.history) <= max_steps
        evidence = rows.evidence + dense.constant
        yield JointPosterior(observed, rows, evidence, noise, converged)
        return

    def step(before: JointPosterior) -> JointPosterior:
        moments = before.rows.moments()
        mean, variance = (array[observed.cells] for array in moments)
        fitted = before.observed.fitted(mean, np.sqrt(variance))
        dense = dense_observations(fitted, noise, moments)
        after = before.rows.step(dense.values, dense.precisions)
        evidence = after.evidence + dense.constant
        return JointPosterior(fitted, after, evidence, noise, rounding=dense.rounding)

    begin = JointPosterior(observed, rows, -np.inf, noise)
    for _, after in extrapolated_em(begin, step, lambda _, after: after):
        yield after


def column_variances(observed: Observed) -> Array:
    """The variance of the values of each column of Z about their mean, above 0."""
    column_variance = np.ones(observed.shape[1])
    for block in observed.blocks:
        if block.learned_noise == "column":
            counts = np.maximum(block.by_column(np.ones(block.y.size)), 1)
            deviations = block.y - (block.by_column(block.y) / counts)[block.entry_columns]
            variances = block.by_column(np.square(deviations)) / counts
            column_variance[block.columns] = np.where(
                variances > 0.0, variances, block.required_summary.reference_square
            )
    return column_variance
