"""Posterior of a table whose rows are draws of one Gaussian, or of a mixture of Gaussians.

Given the distribution of a row, which may be about means of groups, with limits of numbers and
equations between the numbers of a row.
"""

from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.limits import BATCH_NUMBERS
from mcframe.contracts.row_groups import GroupMembers
from mcframe.contracts.stored_classes import stored
from mcframe.numerics.low_rank_rows import LowRankRows
from mcframe.numerics.row_mixtures import Conditionals, IncompleteRows, RowMixture, moments_of
from mcframe.numerics.rows_in_groups import RowsInGroups
from mcframe.posterior.row_corrections import RowCorrections
from mcframe.posterior.row_identities import RowIdentities
from mcframe.posterior.row_limits import RowLimits, cavity_mixture
from mcframe.posterior.row_variances import NOISE_SHARE
from mcframe.posterior.variational_em import EMParameters

# The distribution of a row.
RowDistribution = RowMixture | LowRankRows | RowsInGroups


@stored(renamed_fields={"powers": "variance_exponents", "factors": "variance_inflation"})
@attrs.frozen(eq=False)
class RowsPosterior:
    """Distribution of the rows z of a table given its observed numbers x = z + noise.

    Attributes
    ----------
    components : RowMixture, LowRankRows or RowsInGroups
        The distribution of a row.
    table : IncompleteRows
        The observed numbers and their precisions.
    responsibilities : array (n x C)
        The probability that a row is of a component.
    evidence : float
        The logarithm of the density of all observed numbers; where parameters are estimated, the
        last evidence lower bound of the estimate.
    history : tuple of float
        The evidence lower bound before each step; it never falls. Empty of given parameters.
    parameters : EMParameters or None
        The distribution of shares, means and covariances of the components; None where these are
        given.
    variance_exponents, variance_inflation : array (d,) or None
        A conditional variance T of z in column j is replaced by ``variance_inflation[j] *
        T ** variance_exponents[j]``, in units in which the column has the variance 1; means stay.
        See ``variance_exponents_of`` and ``student_variance_inflation``. None for 1.
    limits : RowLimits or None
        The cells of which limits are known, whose sites ``table`` has as observations.
    identities : RowIdentities or None
        Linear equations between the numbers of each row, by which answers and draws of
        observations are conditioned.
    corrections : RowCorrections or None
        Of means and variances of missing numbers, column by column; a variance has either these or
        an exponent and an inflation.
    """

    components: RowDistribution
    table: IncompleteRows
    responsibilities: Array
    evidence: float
    history: tuple[float, ...] = ()
    parameters: EMParameters[Any] | None = None
    variance_exponents: Array | None = None
    variance_inflation: Array | None = None
    limits: RowLimits | None = None  # not in files of earlier versions
    identities: RowIdentities | None = None  # as before
    corrections: RowCorrections | None = None  # as before

    @property
    def shares(self) -> Array:
        """The share of the rows that each component has (C,)."""
        return np.exp(self.components.log_shares)

    @cached_property
    def adjusted(self) -> tuple[Conditionals, Array | None]:
        """The distribution of each number of z by component, with adjustments, and their scales.

        Identities are not regarded. Scales (n x d) are None without adjustments. Moments are
        changed in place: of a long table no other arrays are as large.
        """
        cells = self.components.conditionals(self.table)
        if not self.has_adjustments:
            return cells, None
        mean, variance = cells.moments
        adjusted_mean, scales = self.adjustments(mean, variance)
        squares = np.square(scales)
        for means, variances in zip(cells.means, cells.variances, strict=True):
            means -= mean
            means *= scales
            means += adjusted_mean
            variances *= squares
        return cells, scales

    @cached_property
    def cells(self) -> Conditionals:
        """The distribution of each number of z, by component."""
        cells, _ = self.adjusted
        return cells if self.identities is None else self.identities.conditioned(self, cells)

    @property
    def n_groups(self) -> int:
        """The number of groups of rows, 0 where rows have none."""
        components = self.components
        return len(components.groups.means) if isinstance(components, RowsInGroups) else 0

    @property
    def without_adjustments(self) -> "RowsPosterior":
        """The posterior with the conditional variances of its distribution of rows."""
        return attrs.evolve(
            self, variance_exponents=None, variance_inflation=None, corrections=None
        )

    @property
    def covariance(self) -> Array:
        """The covariance of one Gaussian, within groups where there are some."""
        return np.asarray(self.components.covariances[0])

    def take(self, rows: IntArray) -> "RowsPosterior":
        """The posterior of some of the rows."""
        return attrs.evolve(
            self,
            table=self.table.take(rows),
            responsibilities=self.responsibilities[rows],
            limits=None if self.limits is None else self.limits.take(rows),
            identities=None if self.identities is None else self.identities.take(rows),
        )

    def scales(self, variances: Array, numbers: IntArray | slice = slice(None)) -> Array:
        """Adjusted standard deviations over those of z, at these variances of some numbers."""
        scales: Array = np.ones(variances.shape)
        if self.variance_exponents is not None:
            scales = np.clip(variances, NOISE_SHARE, 1.0) ** (
                0.5 * (self.variance_exponents[numbers] - 1.0)
            )
        return (
            scales
            if self.variance_inflation is None
            else scales * np.sqrt(self.variance_inflation[numbers])
        )

    @property
    def has_adjustments(self) -> bool:
        """True if answers have other moments than those of the distribution of rows."""
        variances = self.variance_exponents, self.variance_inflation
        return any(part is not None for part in (*variances, self.corrections))

    def adjustments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """The adjusted means, and the scales of deviations from them (both n x d).

        Of the moments of all numbers of the rows of ``table``.
        """
        scales = self.scales(variance)
        if self.corrections is None:
            return mean, scales
        return self.corrections.adjusted(self.table.observed, mean, variance, scales)

    def moments(self) -> tuple[Array, Array]:
        """Return mean and variance of z (n x d), those that the evidence lower bound rests on."""
        if self.parameters is not None:
            return self.parameters.moments(self.table)
        return self.components.conditionals(self.table).moments

    def moments_of_new_rows(self) -> tuple[Array, Array]:
        """Return mean and variance of z (n x d) in rows that the estimate has not seen."""
        if isinstance(self.components, RowsInGroups):
            return self.components.conditionals(self.table).moments
        return self.moments()

    @cached_property
    def at_limits(self) -> tuple[Array, Array, Array]:
        """The distribution of z at the cells with limits by all else: weights, means, variances.

        All are (C x K).
        """
        assert self.limits is not None
        part = self.without_adjustments.take(np.unique(self.limits.rows))
        limits, cells = part.limits, part.cells
        assert limits is not None
        parts = (
            cells.responsibilities[limits.rows].T,
            cells.means[:, limits.rows, limits.columns],
            cells.variances[:, limits.rows, limits.columns],
        )
        weights, means, variances = cavity_mixture(limits, *parts)
        mean, variance = moments_of(weights, means, variances)
        whole = np.ones((mean.size, len(self.table.variances)))
        places = np.arange(mean.size), limits.columns
        whole[places] = variance
        scales = self.scales(whole)[places]
        return weights, mean + scales * (means - mean), scales**2 * variances

    def mixture(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array, Array]:
        """Return the distribution of z at single cells: weights, means, variances (C x N).

        At cells with limits by all that is known but these.

        Parameters
        ----------
        rows, columns : array of integers (N,)
        """
        weights, means, variances = self.mixture_with_sites(rows, columns)
        if self.limits is None:
            return weights, means, variances
        places = self.limits.at(rows, columns)
        limited = places >= 0
        parts = []
        for part, of_limits in zip((weights, means, variances), self.at_limits, strict=True):
            part = np.array(part)
            part[:, limited] = of_limits[:, places[limited]]
            parts.append(part)
        return parts[0], parts[1], parts[2]

    def mixture_with_sites(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array, Array]:
        """``mixture`` by all that is known."""
        distinct, places = np.unique(np.asarray(rows, dtype=np.intp), return_inverse=True)
        n, count = len(self.table.values), len(self.components.means)
        if 2 * distinct.size > n or count * self.table.values.size <= BATCH_NUMBERS:
            cells, places = self.cells, np.asarray(rows, dtype=np.intp)
        else:
            cells = self.take(distinct).cells
        weights = cells.responsibilities[places].T
        return weights, cells.means[:, places, columns], cells.variances[:, places, columns]

    def draws(self, rows: IntArray, rng: np.random.Generator, m: int) -> Array:
        """Return m joint draws of whole rows of z (m x len(rows) x d).

        Given the components, rows are independent but for the means of their groups, and so are
        draws: means and covariances are the same in all of them.
        """
        if not np.array_equal(rows, np.arange(len(self.table.values))):
            table = self.table.take(np.asarray(rows, dtype=np.intp))
            return attrs.evolve(self, table=table).draws(np.arange(len(rows)), rng, m)
        if not isinstance(self.components, RowsInGroups):
            return self.components.drawn(self.table, rng, m, *self.adjusted)
        drawn = self.components.drawn(self.table, rng, m)
        if not self.has_adjustments:
            return drawn
        mean, variance = self.components.conditionals(self.table).moments
        adjusted_mean, scales = self.adjustments(mean, variance)
        return adjusted_mean + scales * (drawn - mean)

    def corrected_draws(self, drawn: Array, rows: IntArray) -> Array:
        """Draws of some rows of z (m x len(rows) x d) without adjustments, corrected."""
        if self.corrections is None:
            return drawn
        table = self.table.take(rows)
        mean, variance = self.components.conditionals(table).moments
        corrected, scales = self.corrections.adjusted(
            table.observed, mean, variance, np.ones_like(mean)
        )
        return corrected + scales * (drawn - mean)

    def condition(
        self,
        values: Array,
        precisions: Array,
        limits: RowLimits | None = None,
        members: GroupMembers | None = None,
    ) -> "RowsPosterior":
        """Return the posterior of other rows under the same parameters.

        Parameters
        ----------
        values : array (n x d)
            NaN where missing.
        precisions : array (n x d) or (d,)
            One over the variance of the noise; 0 where missing.
        limits : RowLimits, optional
            Of cells that are missing.
        members : GroupMembers, optional
            Where rows have groups. Numbers beyond those of the groups are of new groups; by
            default each row is a new group.

        Identities hold in all rows.
        """
        if members is None and isinstance(self.components, RowsInGroups):
            members = GroupMembers(self.n_groups + np.arange(len(values)))
        table = IncompleteRows.of(values, precisions, self.table.variances, members)
        rows = attrs.evolve(
            self,
            components=self.components.of_other_rows(table),
            limits=None,
            identities=None if self.identities is None else self.identities.of_other_rows,
        ).observing(table)
        return rows if limits is None else rows.within(limits)

    def observing(self, table: IncompleteRows) -> "RowsPosterior":
        """The posterior of these rows where other numbers of them are observed."""
        components = self.components.conditioned(table)
        _, responsibilities = components.evidence(table)
        return attrs.evolve(
            self, components=components, table=table, responsibilities=responsibilities
        )

    def with_numbers(self, values: Array, precisions: Array) -> "RowsPosterior":
        """The posterior of these rows where these are their numbers, and none has limits."""
        return attrs.evolve(self, limits=None).observing(
            self.table.with_numbers(values, precisions)
        )

    def within(self, limits: RowLimits) -> "RowsPosterior":
        """The posterior of these rows with limits of numbers that are missing."""
        limited = attrs.evolve(self.without_adjustments, limits=limits)
        part = limited.take(limits.rows_concerned(self.table))
        limits = limits.settled(self.table, part.moments_in)
        rows = self.observing(limits.in_table(self.table))
        return attrs.evolve(rows, limits=limits)

    def moments_in(self, table: IncompleteRows) -> tuple[Array, Array]:
        """Mean and variance of z (n x d) of these rows where others of their numbers are known."""
        components = self.components.conditioned(table)
        return attrs.evolve(self, components=components, table=table).cells.moments

    def moments_at(self, table: IncompleteRows, numbers: IntArray) -> tuple[Array, Array]:
        """``moments_in`` of some of the numbers (n x k)."""
        corrections, components = self.corrections, self.components
        is_corrected = corrections is not None and corrections.concern(numbers)
        if is_corrected or self.identities is not None or not isinstance(components, RowMixture):
            mean, variance = self.moments_in(table)
            return mean[:, numbers], variance[:, numbers]
        mean, variance = components.conditionals(table, numbers).moments
        return mean, np.square(self.scales(variance, numbers)) * variance

    def drawn_observations(self, noise: Array | float, rng: np.random.Generator, m: int) -> Array:
        """Return m joint draws of whole rows of numbers with their noise (m x n x d).

        Those that are concerned by identities satisfy them. ``noise`` are variances (d,).
        """
        drawn = self.draws(np.arange(len(self.table.values)), rng, m)
        drawn = drawn + np.sqrt(noise) * rng.standard_normal(drawn.shape)
        if self.identities is None:
            return drawn
        return np.array([self.identities.drawn(self, one, rng) for one in drawn])

    def step(self, values: Array, precisions: Array) -> "RowsPosterior":
        """Return the posterior after one step with other values or precisions of the same rows.

        For pseudo-observations, which change with the posterior of z. ``evidence`` is that of the
        parameters before the step.
        """
        table = self.table.with_numbers(values, precisions)
        if self.parameters is None:
            return posterior_given(table, self.components)
        after, evidence = self.parameters.step(table)
        return posterior_of(table, after, (*self.history, evidence))

    def extrapolated(self, after: "RowsPosterior", length: float) -> "RowsPosterior":
        """Return ``after`` with parameters ``length`` times as far away.

        Responsibilities stay those of ``after``; the next step computes them anew.
        """
        if self.parameters is None or after.parameters is None:
            return after
        parameters = self.parameters.extrapolated(after.parameters, length)
        if parameters is after.parameters:
            return after
        components = parameters.distribution.conditioned(after.table)
        return attrs.evolve(after, components=components, parameters=parameters)


def posterior_given(table: IncompleteRows, components: RowDistribution) -> RowsPosterior:
    """The posterior of the rows of a table given the distribution of a row."""
    components = components.conditioned(table)
    by_row, responsibilities = components.evidence(table)
    return RowsPosterior(components, table, responsibilities, float(table.counts @ by_row))


def posterior_of(
    table: IncompleteRows, parameters: EMParameters[Any], history: tuple[float, ...]
) -> RowsPosterior:
    """The posterior of the rows of a table given the distribution of its parameters."""
    posterior = posterior_given(table, parameters.distribution)
    evidence = history[-1] if history else posterior.evidence
    return attrs.evolve(posterior, evidence=evidence, history=history, parameters=parameters)


def rows_of_gaussian(
    values: Array, precisions: Array, mean: Array, covariance: Array
) -> RowsPosterior:
    """Return the posterior of rows that are draws of one Gaussian, which is given.

    Parameters
    ----------
    values : array (n x d)
        NaN where missing.
    precisions : array (n x d) or (d,)
        One over the variance of the noise of each number; 0 where missing.
    mean : array (d,)
    covariance : array (d x d)
        Positive definite.
    """
    table = IncompleteRows.of(values, precisions, np.diag(covariance))
    return posterior_given(table, RowMixture(np.zeros(1), mean[None], covariance[None]))
