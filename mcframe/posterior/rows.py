"""Posterior of a table whose rows are draws of one Gaussian, or of a mixture of Gaussians.

Variational Bayes for mixtures of Gaussians (Bishop, Pattern Recognition and Machine Learning,
2006, section 10.2), for rows of which only some numbers are observed, with noise. Means and
covariances have Gaussian-inverse-Wishart distributions; shares are point estimates. How many rows
the prior covariance of one Gaussian counts as maximises the evidence lower bound with its prior,
too.
"""

import itertools
import warnings
import zlib
from functools import cached_property
from typing import Any, TypeVar

import attrs
import numpy as np
from scipy.special import logsumexp, ndtri, stdtrit

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.limits import BATCH_NUMBERS
from mcframe.contracts.stored_classes import stored
from mcframe.model.forms import table_of_numbers
from mcframe.model.held_out import Held, HeldOut
from mcframe.model.transforms import grouped
from mcframe.numerics.group_means import GroupMeans
from mcframe.numerics.low_rank_rows import LowRankRows
from mcframe.numerics.row_mixtures import (
    Conditionals,
    Expectation,
    IncompleteRows,
    RowMixture,
    moments_of,
)
from mcframe.posterior.grouped_rows import GroupedParameters, conditionals_in_groups
from mcframe.posterior.row_identities import RowIdentities
from mcframe.posterior.row_limits import Moments, RowLimits, cavity_mixture
from mcframe.posterior.rows_parameters import (
    MEAN_PRIOR_ROWS,
    PRIOR_ROWS_GRID,
    RowsParameters,
    RowsPrior,
)
from mcframe.posterior.variational_em import EMParameters, variational_em
from mcframe.posterior.wide_rows import WideParameters, WidePrior, is_wide
from mcframe.runtime.machine import limits_blas
from mcframe.runtime.progress import stage

# The noise variance of a Gaussian block that does not declare it, over the variance of the
# column's values. It is fixed, since an estimated covariance and noise cannot be identified both.
NOISE_SHARE = 0.001
# The numbers of components that are tried after one, in this order, until two in a row are worse,
# and the share of the observed numbers by which they are compared. The evidence lower bound would
# need no held-out numbers, but where one component predicts these best it preferred two or more in
# seven of eight drawn tables: it leaves out what missing numbers add to the uncertainty of a
# covariance.
COMPONENTS_TRIED = (2, 3, 4, 6, 8)
HELD_OUT_SHARE = 1.0 / 7.0
# The name of the one block as which a table of numbers is held out.
BLOCK_NAME = "rows"
# The tolerance of these trials over that of the answer.
TRIAL_TOL_RATIO = 10.0
# How many rows the prior covariance of one Gaussian counts as at first.
INITIAL_PRIOR_ROWS = 10.0
# Of tables with more numbers some rows are drawn at random: estimates begin with these, and the
# priors of tables to complete are chosen on them.
SUBSAMPLE_NUMBERS = 200_000


ParametersT = TypeVar("ParametersT", RowsParameters, WideParameters)


@stored(renamed_fields={"powers": "variance_exponents", "factors": "variance_inflation"})
@attrs.frozen(eq=False)
class RowsPosterior:
    """Distribution of the rows z of a table given its observed numbers x = z + noise.

    Attributes
    ----------
    components : RowMixture or LowRankRows
        The distribution of a new row.
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
    """

    components: RowMixture | LowRankRows
    table: IncompleteRows
    responsibilities: Array
    evidence: float
    history: tuple[float, ...] = ()
    parameters: EMParameters[Any] | None = None
    variance_exponents: Array | None = None
    variance_inflation: Array | None = None
    limits: RowLimits | None = None  # not in files of earlier versions
    group_means: GroupMeans | None = None
    identities: RowIdentities | None = None  # as before

    @property
    def shares(self) -> Array:
        """The share of the rows that each component has (C,)."""
        return np.exp(self.components.log_shares)

    @cached_property
    def cells(self) -> Conditionals:
        """The distribution of each number of z, by component."""
        return self.cells_of(self.table, self.identities)

    def cells_of(self, table: IncompleteRows, identities: RowIdentities | None) -> Conditionals:
        """The distribution of each number of z in rows of a table, by component."""
        cells = self.adjusted(self.conditionals(table))
        return cells if identities is None else identities.conditioned(self, table, cells)

    @property
    def covariance(self) -> Array:
        """The covariance of one Gaussian."""
        assert isinstance(self.components, RowMixture)
        return np.asarray(self.components.covariances[0])

    @property
    def less_group_means(self) -> IncompleteRows:
        """The table less the means of the groups of its rows, where these have some."""
        if self.group_means is None:
            return self.table
        return self.table.minus(self.group_means.means[self.table.members])

    def conditionals(self, table: IncompleteRows) -> Conditionals:
        """The distribution of z in each of some rows, by component, before adjustments."""
        if self.group_means is None:
            return self.components.conditionals(table)
        assert isinstance(self.components, RowMixture)
        return conditionals_in_groups(table, self.components, self.group_means)

    def scales(self, variances: Array) -> Array:
        """Adjusted standard deviations over those of z, at these variances (n x d)."""
        scales: Array = np.ones(variances.shape)
        if self.variance_exponents is not None:
            scales = np.clip(variances, NOISE_SHARE, 1.0) ** (
                0.5 * (self.variance_exponents - 1.0)
            )
        return (
            scales
            if self.variance_inflation is None
            else scales * np.sqrt(self.variance_inflation)
        )

    def adjusted(self, cells: Conditionals) -> Conditionals:
        """The distributions with ``variance_exponents`` and ``variance_inflation`` applied."""
        if self.variance_exponents is None and self.variance_inflation is None:
            return cells
        mean, variance = moments_of(
            cells.responsibilities.T[:, :, None], cells.means, cells.variances
        )
        scales = self.scales(variance)
        means = mean + scales * (cells.means - mean)
        return attrs.evolve(cells, means=means, variances=scales**2 * cells.variances)

    def moments(self) -> tuple[Array, Array]:
        """Return mean and variance of z (n x d), those that the evidence lower bound rests on."""
        if self.parameters is not None:
            return self.parameters.moments(self.table)
        cells = self.conditionals(self.table)
        return moments_of(cells.responsibilities.T[:, :, None], cells.means, cells.variances)

    @cached_property
    def at_limits(self) -> tuple[Array, Array, Array]:
        """The distribution of z at the cells with limits by all else: weights, means, variances.

        All are (C x K).
        """
        assert self.limits is not None
        rows = np.unique(self.limits.rows)
        limits = self.limits.take(rows)
        cells = self.components.conditionals(self.table.take(rows))
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

    def moments_of_new_rows(self) -> tuple[Array, Array]:
        """Return mean and variance of z (n x d) in rows that the estimate has not seen."""
        if self.group_means is None:
            return self.moments()
        cells = self.conditionals(self.table)
        return cells.means[0], cells.variances[0]

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
        table, count = self.table.values, len(self.components.means)
        if 2 * distinct.size > len(table) or count * table.size <= BATCH_NUMBERS:
            cells, places = self.cells, np.asarray(rows, dtype=np.intp)
        else:
            identities = None if self.identities is None else self.identities.of_rows(distinct)
            cells = self.cells_of(self.table.take(distinct), identities)
        weights = cells.responsibilities[places].T
        return weights, cells.means[:, places, columns], cells.variances[:, places, columns]

    def draws(self, rows: IntArray, rng: np.random.Generator, m: int) -> Array:
        """Return m joint draws of whole rows of z (m x len(rows) x d).

        A draw of z and x from the component moves to the observed x by the difference of the
        conditional means, which are linear in x (Journel and Huijbregts, Mining Geostatistics,
        1978). Given the components, rows are independent, and so are draws: means and covariances
        are the same in all of them.
        """
        table, mixture = self.table.take(np.asarray(rows, dtype=np.intp)), self.components
        assert self.group_means is None  # of which JointPosterior draws
        drawn = draws_given(mixture, table, rng, m)
        if self.variance_exponents is None and self.variance_inflation is None:
            return drawn
        cells = self.conditionals(table)
        weights = cells.responsibilities.T[:, :, None]
        mean, variance = moments_of(weights, cells.means, cells.variances)
        return mean + self.scales(variance) * (drawn - mean)

    def condition(
        self,
        values: Array,
        precisions: Array,
        limits: RowLimits | None = None,
        group_of_row: IntArray | None = None,
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
        group_of_row : array of integers (n,), optional
            Where rows have groups. Numbers beyond those of the groups are of new groups; by
            default each row is a new group.

        Identities hold in all rows.
        """
        if not isinstance(self.parameters, GroupedParameters) or self.group_means is None:
            if limits is not None:
                of_components = moments_under(self.components)
                limits = limits.settled(values, precisions, self.table.variances, of_components)
                values, precisions = limits.placed(values, precisions)
            table = IncompleteRows.of(values, precisions, self.table.variances)
            _, responsibilities = self.components.evidence(table)
            identities = self.identities
            if identities is not None:
                identities = attrs.evolve(identities, holds=None)
            return attrs.evolve(
                self,
                table=table,
                responsibilities=responsibilities,
                limits=limits,
                identities=identities,
            )
        before = self.group_means
        n_groups = len(before.means)
        if group_of_row is None:
            group_of_row = n_groups + np.arange(len(values))
        n_new = max(int(np.max(group_of_row, initial=-1)) + 1 - n_groups, 0)
        table = IncompleteRows.of(values, precisions, self.table.variances, group_of_row)
        new = self.parameters.new_groups
        prior = GroupMeans(
            np.concatenate([before.means, np.tile(new.means, (n_new, 1))]),
            np.concatenate([before.covariances, np.tile(new.covariances, (n_new, 1, 1))]),
        )
        means = self.parameters.means_given(table, prior)
        ones = np.ones((len(values), 1))
        return attrs.evolve(self, table=table, responsibilities=ones, group_means=means)

    def drawn_observations(self, noise: Array | float, rng: np.random.Generator, m: int) -> Array:
        """Return m joint draws of whole rows of numbers with their noise (m x n x d).

        Those that are concerned by identities satisfy them. ``noise`` are variances (d,).
        """
        drawn = self.draws(np.arange(len(self.table.values)), rng, m)
        drawn = drawn + np.sqrt(noise) * rng.standard_normal(drawn.shape)
        if self.identities is None:
            return drawn
        return np.array([self.identities.drawn(self, self.table, one, rng) for one in drawn])

    def step(self, values: Array, precisions: Array) -> "RowsPosterior":
        """Return the posterior after one step with other values or precisions of the same rows.

        For pseudo-observations, which change with the posterior of z. ``evidence`` is that of the
        parameters before the step.
        """
        groups = self.table.group_of_row
        table = IncompleteRows.of(values, precisions, self.table.variances, groups)
        if self.parameters is None:
            return posterior_given(table, self.components)
        after, evidence = self.parameters.step(table)
        return posterior_given(table, after.predictive, after, (*self.history, evidence))

    def extrapolated(self, after: "RowsPosterior", length: float) -> "RowsPosterior":
        """Return ``after`` with parameters ``length`` times as far away.

        Responsibilities stay those of ``after``; the next step computes them anew.
        """
        if self.parameters is None or after.parameters is None:
            return after
        parameters = self.parameters.extrapolated(after.parameters, length)
        if parameters is after.parameters:
            return after
        return attrs.evolve(after, components=parameters.predictive, parameters=parameters)


# Exponents of variances lie between this and its inverse, and are found by so many bisections. The
# precision of the Gaussian prior of a column's exponent about that of all columns, and of that one
# about 1.
LEAST_EXPONENT, EXPONENT_STEPS = 0.25, 20
EXPONENT_PRIOR_PRECISION = 5.0
# Squares of errors are at most so large.
LARGEST_SQUARE = 1e12


def moments_under(components: RowMixture | LowRankRows) -> Moments:
    """The function that finds means and variances of z in a table under these components."""

    def moments(table: IncompleteRows) -> tuple[Array, Array]:
        cells = components.conditionals(table)
        return moments_of(cells.responsibilities.T[:, :, None], cells.means, cells.variances)

    return moments


def student_variance_inflation(counts: Array) -> Array:
    """The inflation of variances of columns of which few numbers are observed.

    A new number minus the mean of n others has, over their standard deviation s, a Student
    distribution with n - 1 degrees of freedom, times ``sqrt((n + 1) / (n - 1))``. Of that
    ``(n + 1) / n`` is in the distribution of a new row; the factor is what is left, ``n / (n - 1)
    (t / z)^2`` with t and z the 95 % quantiles of Student's and the normal distribution, so that
    90 % intervals are as wide as they should be.

    Parameters
    ----------
    counts : array (d,)
        How many numbers of each column are observed; fewer than 2 count as 2.
    """
    observed = np.maximum(counts, 2.0)
    factors: Array = (
        observed / (observed - 1.0) * np.square(stdtrit(observed - 1.0, 0.95) / ndtri(0.95))
    )
    return factors


def variance_exponents_of(squares: Array, variances: Array) -> Array:
    """The exponent of conditional variances, column by column, under which errors are likeliest.

    A prior that predicts best may say little of how sure predictions are: covariances that are
    held back leave conditional variances that are too large, and those of few rows ones that are
    too small. An error e has the density ``N(0, T^b)`` where its variance is said to be T, and b
    is that with the largest likelihood on held-out numbers, near 1 where there are few, less one
    standard deviation of the b of all columns, so that few numbers promise little. A row of which
    nothing is known keeps the variance 1.

    Parameters
    ----------
    squares : array (n x d)
        Squares of errors in units of their columns, NaN where nothing was held out.
    variances : array (n x d)
        What was said of them.
    """
    observed = ~np.isnan(squares)
    logs = np.where(observed, np.log(np.clip(variances, NOISE_SHARE, 1.0)), 0.0)
    squares = np.where(observed, np.minimum(squares, LARGEST_SQUARE), 0.0)

    def posterior_mode(prior_mean: float, axis: int | None) -> Array:
        """The root of the derivative in b, which rises, by bisection."""
        low, high = (np.full(d, end) for end in (LEAST_EXPONENT, 1.0 / LEAST_EXPONENT))
        for _ in range(EXPONENT_STEPS):
            middle = 0.5 * (low + high)
            rises = 0.5 * logs * (1.0 - squares * np.exp(-middle * logs))
            slope = np.sum(rises, axis=axis) + EXPONENT_PRIOR_PRECISION * (middle - prior_mean)
            low, high = np.where(slope < 0.0, middle, low), np.where(slope < 0.0, high, middle)
        return 0.5 * (low + high)

    d = squares.shape[1]
    exponents = posterior_mode(float(posterior_mode(1.0, None)[0]), 0)
    deviation = 1.0 / np.sqrt(EXPONENT_PRIOR_PRECISION + 0.5 * np.sum(logs**2))
    return np.where(observed.any(axis=0), np.maximum(exponents - deviation, LEAST_EXPONENT), 1.0)


def draws_given(
    mixture: RowMixture | LowRankRows, table: IncompleteRows, rng: np.random.Generator, m: int
) -> Array:
    """m draws of z of all rows of a table (m x n x d) given the distribution of a row."""
    n, d = table.values.shape
    cells = mixture.conditionals(table)
    ends = np.cumsum(cells.responsibilities, axis=1)
    ends[:, -1] = 1.0
    component = np.argmax(rng.random((m, n))[:, :, None] < ends, axis=2)
    drawn = np.empty((m, n, d))
    noise_deviations = np.sqrt(table.noise)
    for c in range(len(mixture.means)):
        draw, row = np.nonzero(component == c)
        if not row.size:
            continue
        z = mixture.draws(c, row.size, rng)
        x = z + noise_deviations[row] * rng.standard_normal((row.size, d))
        drawn_table = IncompleteRows.of(x, table.precisions[row], table.variances)
        means = mixture.centred(c).conditionals(drawn_table).means[0]
        drawn[draw, row] = cells.means[c, row] + z - means
    return drawn


def posterior_given(
    table: IncompleteRows,
    components: RowMixture | LowRankRows,
    parameters: EMParameters[Any] | None = None,
    history: tuple[float, ...] = (),
) -> RowsPosterior:
    """The posterior of the rows of a table given the distribution of a new row."""
    if isinstance(parameters, GroupedParameters):
        ones = np.ones((len(table.values), 1))
        return RowsPosterior(
            components,
            table,
            ones,
            history[-1] if history else -np.inf,
            history,
            parameters,
            group_means=parameters.means_given(table),
        )
    by_row, responsibilities = components.evidence(table)
    evidence = history[-1] if history else float(np.sum(by_row))
    return RowsPosterior(components, table, responsibilities, evidence, history, parameters)


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


@limits_blas
@stage("rows")
def fit_rows(
    values: Array,
    precisions: Array,
    *,
    components: int | str = 1,
    prior_rows: float | None = None,
    tol: float = 1e-4,
    max_steps: int = 100,
    random_state: int = 0,
    start: RowsPosterior | None = None,
    limits: RowLimits | None = None,
    group_of_row: IntArray | None = None,
    n_groups: int = 0,
) -> RowsPosterior:
    """Return the posterior of rows whose means and covariances are estimated from them.

    The number of components is chosen from 1, 2, 3, 4, 6 and 8 by the log density of a seventh of
    the observed numbers, which are held out for that, until two in a row lower it. The covariances
    of several components are drawn to that of one Gaussian, which counts as ``10 + d / 2`` rows,
    and begin at clusters by k-means of the rows that it fills. Tables of more than 400,000 numbers
    are begun, and the number is chosen, with 200,000 of them or a tenth, in rows drawn at random.
    For a wide table, whose rows are too few for a covariance of all columns, one is chosen.

    Parameters
    ----------
    values : array (n x d)
        NaN where missing.
    precisions : array (n x d) or (d,)
        One over the variance of the noise of each number; 0 where missing.
    components : int or "auto"
    prior_rows : float, optional
        How many rows the prior covariance of one Gaussian counts as. By default the most probable
        number from 0.1 to 3,000, by the evidence lower bound and ``log_prior_of_rows``.
    tol : float
        A step that raises the evidence lower bound by less than this for each observed number is
        the last.
    max_steps : int
    random_state : int
        Of the rows that are drawn and of k-means.
    start : RowsPosterior, optional
        Of the same numbers under one Gaussian, from which the steps begin.
    limits : RowLimits, optional
        Of missing numbers; their sites are found by turns with the parameters.
    group_of_row : array of integers (n,), optional
        The group of each row, from 0 to ``n_groups - 1``, of one component: then the means of
        groups are Gaussian, and rows are about these (``posterior.grouped_rows``).
    n_groups : int
    """
    means, variances = first_moments(values, precisions)
    unlimited, noise = values, precisions
    if limits is not None:
        means, variances = limited_moments(limits, values, means, variances)
        independent = RowMixture(np.zeros(1), means[None], np.diag(variances)[None])
        if not limits.precisions.any():
            limits = limits.settled(values, precisions, variances, moments_under(independent))
        values, precisions = limits.placed(values, precisions)
    seen = ~np.isnan(values) & (np.broadcast_to(precisions, values.shape) > 0.0)
    observed = np.flatnonzero(seen.any(axis=1))
    initial_rows = INITIAL_PRIOR_ROWS if prior_rows is None else prior_rows
    strength = initial_rows, prior_rows is None
    all_rows = IncompleteRows.of(values, precisions, variances, group_of_row)
    table = all_rows.take(observed)
    start_parameters = None if start is None else start.parameters
    wide_table = is_wide(observed.size, values.shape[1])
    if wide_table and components == "auto":
        components = 1
    if wide_table and components == 1:
        wide_prior = WidePrior(means, variances, *strength, MEAN_PRIOR_ROWS, PRIOR_ROWS_GRID)
        wide_parameters = wide_prior.without_rows
        if isinstance(start_parameters, WideParameters):
            wide_parameters = attrs.evolve(start_parameters, prior=wide_prior)
        wide_parameters, history = fit_one_component(table, wide_parameters, tol, max_steps)
        wide = posterior_given(all_rows, wide_parameters.predictive, wide_parameters, history)
        return with_settled_limits(wide, limits, unlimited, noise, tol, max_steps)
    prior = RowsPrior(means, np.diag(variances), *strength)
    n_subsample = max(SUBSAMPLE_NUMBERS, values.size // 10) // max(values.shape[1], 1)
    subsample = table
    if n_subsample < 0.5 * observed.size:
        drawn = np.random.default_rng(random_state).permutation(observed)[:n_subsample]
        subsample = all_rows.take(np.sort(drawn))
    if components == "auto":
        components = best_n_components(subsample, prior, tol, max_steps, random_state)
    if group_of_row is not None:
        return fit_groups(
            all_rows, table, subsample, prior, start_parameters, n_groups, tol, max_steps
        )
    parameters = (
        attrs.evolve(start_parameters, prior=prior)
        if isinstance(start_parameters, RowsParameters)
        else prior.without_rows
    )
    parameters, history = fit_one_component(subsample, parameters, tol, max_steps)
    number = min(int(components), len(subsample.values))
    if number > 1:
        clusters = parameters_of_clusters(subsample, parameters, number, random_state)
        parameters, history = variational_em(subsample, clusters, tol, max_steps)
    if subsample is not table:
        parameters, history = variational_em(table, parameters, tol, max_steps)
    fitted = posterior_given(all_rows, parameters.predictive, parameters, history)
    return with_settled_limits(fitted, limits, unlimited, noise, tol, max_steps)


# Turns of sites and parameters, at most. They end when no site moves the mean of its number by
# more than this share of its standard deviation.
MOST_LIMIT_TURNS, SETTLED_TURN = 20, 0.01


def with_settled_limits(
    posterior: RowsPosterior,
    limits: RowLimits | None,
    values: Array,
    precisions: Array,
    tol: float,
    max_steps: int,
) -> RowsPosterior:
    """The posterior of rows whose sites and parameters suit each other; as it is without limits.

    ``values`` and ``precisions`` are those without sites.
    """
    if limits is None or posterior.parameters is None:
        return posterior
    cells = limits.rows, limits.columns
    for _ in range(MOST_LIMIT_TURNS):
        parameters, scale = posterior.parameters, posterior.table.variances
        last_mean, last_variance = (part[cells] for part in parameters.moments(posterior.table))
        limits = limits.settled(values, precisions, scale, parameters.moments)
        table = IncompleteRows.of(*limits.placed(values, precisions), scale)
        parameters, history = variational_em(table, parameters, tol, max_steps)
        posterior = posterior_given(table, parameters.predictive, parameters, history)
        mean = parameters.moments(table)[0][cells]
        if np.all(np.abs(mean - last_mean) <= SETTLED_TURN * np.sqrt(last_variance)):
            break
    return posterior.condition(values, precisions, limits)


def limited_moments(
    limits: RowLimits, values: Array, means: Array, variances: Array
) -> tuple[Array, Array]:
    """The means and variances of independent columns, some numbers of which have limits.

    ``means`` and ``variances`` are those of the numbers alone.
    """
    of_limits = limits.marginal_moments(values, np.full(means.size, limits.noise))
    return (
        np.where(np.isnan(of_limits[0]), means, of_limits[0]),
        np.where(np.isnan(of_limits[1]), variances, of_limits[1]),
    )


def fit_groups(
    all_rows: IncompleteRows,
    table: IncompleteRows,
    subsample: IncompleteRows,
    prior: RowsPrior,
    start: EMParameters[Any] | None,
    n_groups: int,
    tol: float,
    max_steps: int,
) -> RowsPosterior:
    """The posterior of rows in groups, begun without groups and with the subsample."""
    if isinstance(start, GroupedParameters):
        strength = attrs.evolve(start.within.prior, rows=prior.rows, learned=prior.learned)
        parameters = attrs.evolve(start, within=attrs.evolve(start.within, prior=strength))
    else:
        alone, _ = fit_one_component(subsample, prior.without_rows, tol, max_steps)
        parameters = GroupedParameters.start(alone, n_groups)
    parameters, history = variational_em(subsample, parameters, tol, max_steps)
    if subsample is not table:
        parameters, history = variational_em(table, parameters, tol, max_steps)
    return posterior_given(all_rows, parameters.predictive, parameters, history)


def best_n_components(
    table: IncompleteRows, prior: RowsPrior, tol: float, max_steps: int, seed: int
) -> int:
    """The number of components by the log density of numbers that are held out."""
    numbers = np.where(table.precisions > 0.0, table.values, np.nan)
    held_out, tol = drawn_from_columns(numbers, seed), TRIAL_TOL_RATIO * tol
    remaining = held_out.remaining({BLOCK_NAME: numbers})[BLOCK_NAME]
    training = IncompleteRows.of(remaining, table.precisions, table.variances)
    held = held_out.values[BLOCK_NAME]
    single, _ = fit_one_component(training, prior.without_rows, tol, max_steps)
    best, highest, n_worse = 1, log_density(table, held, training, single), 0
    for number in COMPONENTS_TRIED:
        if n_worse == 2 or number >= len(table.values):
            break
        clusters = parameters_of_clusters(training, single, number, seed)
        parameters, _ = variational_em(training, clusters, tol, max_steps)
        density = log_density(table, held, training, parameters)
        n_worse += 1
        if density > highest:
            best, highest, n_worse = number, density, 0
    return best


def drawn_from_columns(numbers: Array, seed: int) -> HeldOut:
    """Hold out a share of each column of a table (n x d), drawn by the order of its values.

    So that neither the order of the columns nor their units matter.
    """
    table = table_of_numbers(numbers)
    scored = np.zeros(table.n_entries, dtype=bool)
    order, starts = grouped(table.columns, numbers.shape[1])
    for start, stop in itertools.pairwise(starts):
        entries = order[start:stop]
        by_value = np.argsort(table.values[entries], kind="stable")
        key = zlib.crc32(table.rows[entries][by_value].tobytes())
        rng = np.random.default_rng([seed, key])
        scored[entries] = rng.random(entries.size) < HELD_OUT_SHARE
    return HeldOut({BLOCK_NAME: table}, {BLOCK_NAME: ~scored}, {BLOCK_NAME: scored})


def log_density(
    table: IncompleteRows, held: Held, training: IncompleteRows, parameters: RowsParameters
) -> float:
    """The log density of held-out numbers given what else is observed of their rows, summed."""
    rows, columns = held.rows, held.columns
    cells = parameters.predictive.conditionals(training)
    variances = cells.variances[:, rows, columns] + 1.0 / table.precisions[rows, columns]
    deviations = held.values - cells.means[:, rows, columns]
    logs = -0.5 * (np.square(deviations) / variances + np.log(variances))
    with np.errstate(divide="ignore"):
        logs += np.log(cells.responsibilities[rows].T)
    return float(np.sum(logsumexp(logs, axis=0)))


def fit_one_component(
    table: IncompleteRows, begin: ParametersT, tol: float, max_steps: int
) -> tuple[ParametersT, tuple[float, ...]]:
    """The parameters of one component by variational EM, and the history of the evidence bound.

    Where the strength of the prior is learned, it is fixed at first: columns begin without
    correlations, for which the strongest prior is the best one, and steps would end there.
    """
    prior = begin.prior
    fixed = attrs.evolve(begin, prior=attrs.evolve(prior, learned=False))
    parameters, history = variational_em(table, fixed, tol, max_steps)
    if not prior.learned:
        return parameters, history
    return variational_em(table, attrs.evolve(parameters, prior=prior), tol, max_steps)


def first_moments(values: Array, precisions: Array) -> tuple[Array, Array]:
    """The means and variances of independent columns, which are the centre of the prior.

    The variance of z is that of the numbers less that of the noise, and at least a quarter of
    that; of a column without numbers 1.
    """
    seen = ~np.isnan(values) & (np.broadcast_to(precisions, values.shape) > 0.0)
    counts = np.maximum(np.count_nonzero(seen, axis=0), 1)
    numbers = np.where(seen, values, 0.0)
    means = np.sum(numbers, axis=0) / counts
    squares = np.sum(np.square(np.where(seen, numbers - means, 0.0)), axis=0) / counts
    noise = np.sum(1.0 / np.where(seen, precisions, np.inf), axis=0) / counts
    variances = np.where(seen.any(axis=0), np.maximum(squares - noise, 0.25 * noise), 1.0)
    return means, variances


def parameters_of_clusters(
    table: IncompleteRows, single: RowsParameters, number: int, seed: int
) -> RowsParameters:
    """Several components at the clusters of the rows that one Gaussian fills."""
    from sklearn.cluster import KMeans  # only here: importing it is slow

    d, covariance = single.prior.mean.size, single.predictive.covariances[0]
    rows = 10.0 + 0.5 * d
    prior = attrs.evolve(
        single.prior, mean=single.means[0], covariance=covariance, rows=rows, learned=False
    )
    cells = single.expected.conditionals(table)
    deviations = cells.means[0] - prior.mean
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are fewer different rows than clusters
        clusters = KMeans(number, n_init=3, random_state=seed % 2**32)
        labels = clusters.fit_predict(deviations / np.sqrt(np.diag(covariance)))
    members = np.eye(number)[labels]
    mean_variances = (members.T @ cells.variances[0])[:, :, None] * np.eye(d)
    scatters = (
        np.array([(deviations.T * membership) @ deviations for membership in members.T])
        + mean_variances
    )
    weights = np.sum(members, axis=0)
    moments = Expectation(cells.evidence, members, weights, members.T @ deviations, scatters)
    return prior.m_step(moments, np.tile(prior.mean, (number, 1)))
