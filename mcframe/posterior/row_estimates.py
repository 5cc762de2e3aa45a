"""Estimates of the distribution of the rows of a table: one Gaussian, several, or in groups.

Variational Bayes for mixtures of Gaussians (Bishop, Pattern Recognition and Machine Learning,
2006, section 10.2), for rows of which only some numbers are observed, with noise. Means and
covariances have Gaussian-inverse-Wishart distributions; shares are point estimates. How many rows
the prior covariance of one Gaussian counts as maximises the evidence lower bound with its prior,
too.
"""

import itertools
import warnings
import zlib
from typing import Any, TypeVar

import attrs
import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.row_groups import GroupMembers
from mcframe.contracts.row_weights import counts_of_rows
from mcframe.model.forms import table_of_numbers
from mcframe.model.held_out import Held, HeldOut
from mcframe.model.transforms import grouped
from mcframe.numerics.row_mixtures import Expectation, IncompleteRows, RowMixture, root_of
from mcframe.posterior.grouped_rows import GroupedParameters
from mcframe.posterior.row_limits import RowLimits
from mcframe.posterior.rows import RowsPosterior, posterior_given, posterior_of
from mcframe.posterior.rows_parameters import (
    MEAN_PRIOR_ROWS,
    PRIOR_ROWS_GRID,
    RowsParameters,
    RowsPrior,
)
from mcframe.posterior.variational_em import EMParameters, variational_em
from mcframe.posterior.wide_rows import WideParameters, WidePrior, is_wide
from mcframe.runtime.machine import limits_blas, openmp_alone
from mcframe.runtime.progress import stage

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
# Turns of the shares of variances that a prior expects and the estimate with them, at most; they
# end when no share changes by more than this factor.
MOST_SHARE_TURNS, SETTLED_SHARES = 10, 1.1
# Steps of these shares given the scatters of the rows, at most; they end when no share changes by
# more than this factor.
MOST_SHARE_STEPS, SETTLED_STEP = 100, 1.01
# Shares of variances are learned under a prior that counts as this share of the rows, or as
# d^2 / n if that is more.
FIRST_PRIOR_SHARE = 0.03
# The least share of a variance, before their mean is made 1.
LEAST_SHARE = 1e-6
# Of tables with more numbers some rows are drawn at random: estimates begin with these, and the
# priors of tables to complete are chosen on them.
SUBSAMPLE_NUMBERS = 200_000


ParametersT = TypeVar("ParametersT", RowsParameters, WideParameters)


@limits_blas
@stage("rows")
def fit_rows(
    values: Array,
    precisions: Array,
    *,
    components: int | str = 1,
    prior_rows: float | None = None,
    variables: IntArray | None = None,
    tol: float = 1e-4,
    max_steps: int = 100,
    random_state: int = 0,
    start: RowsPosterior | None = None,
    limits: RowLimits | None = None,
    members: GroupMembers | None = None,
    n_groups: int = 0,
    row_weights: Array | None = None,
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
    variables : array of integers (d,), optional
        The variable of each number: the prior expects shares of variances that are learned for
        each variable (``prior_shares``). By default it expects the variances. Not with groups,
        and of no effect in a wide table.
    tol : float
        A step that raises the evidence lower bound by less than this for each observed number is
        the last.
    max_steps : int
    random_state : int
        Of the rows that are drawn and of k-means.
    start : RowsPosterior, optional
        Of the same numbers under one Gaussian, from which the steps begin, and the shares.
    limits : RowLimits, optional
        Of missing numbers; their sites are found by turns with the parameters.
    members : GroupMembers, optional
        The group of each row, from 0 to ``n_groups - 1``, of one component: then the means of
        groups are Gaussian, and rows are about these (``posterior.grouped_rows``).
    n_groups : int
    row_weights : array (n,), optional
        Above 0; rows that have them have no groups. Rows count in proportion to these, and
        together as ``counts_of_rows`` has them: the bound is that of a weighted log likelihood
        (Pfeffermann, International Statistical Review 61, 1993).
    """
    if row_weights is not None:
        seen: Mask = ~np.isnan(values) & (np.broadcast_to(precisions, values.shape) > 0.0)
        row_weights = counts_of_rows(row_weights, np.any(seen, axis=1))
    means, variances = first_moments(values, precisions, row_weights)
    if limits is not None:
        means, variances = limited_moments(limits, values, means, variances)
    all_rows = IncompleteRows.of(values, precisions, variances, members, row_weights)
    if limits is not None:
        if not limits.precisions.any():
            independent = RowMixture(np.zeros(1), means[None], np.diag(variances)[None])
            limits = limits.settled(all_rows, posterior_given(all_rows, independent).moments_in)
        all_rows = limits.in_table(all_rows)
    observed = np.flatnonzero((all_rows.precisions > 0.0).any(axis=1))
    initial_rows = INITIAL_PRIOR_ROWS if prior_rows is None else prior_rows
    strength = initial_rows, prior_rows is None
    is_whole = observed.size == len(values)  # no copy of the largest arrays then
    table = all_rows if is_whole else all_rows.take(observed)
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
        return with_settled_limits(
            posterior_of(all_rows, wide_parameters, history), limits, tol, max_steps
        )
    prior = RowsPrior(means, np.diag(variances), *strength)
    n_subsample = max(SUBSAMPLE_NUMBERS, values.size // 10) // max(values.shape[1], 1)
    subsample = table
    if n_subsample < 0.5 * observed.size:
        drawn = np.random.default_rng(random_state).permutation(observed)[:n_subsample]
        subsample = all_rows.take(np.sort(drawn))
    if components == "auto":
        components = best_n_components(subsample, prior, variables, tol, max_steps, random_state)
    parameters: EMParameters[Any]
    if members is not None:
        parameters = start_in_groups(subsample, prior, start_parameters, n_groups, tol, max_steps)
        parameters, history = variational_em(subsample, parameters, tol, max_steps)
    else:
        single = prior.without_rows
        if isinstance(start_parameters, RowsParameters):
            if variables is not None:
                prior = prior.expecting(start_parameters.prior.shares, variances)
            single = attrs.evolve(start_parameters, prior=prior)
        single, history = fit_one_gaussian(subsample, single, variables, tol, max_steps)
        parameters, number = single, min(int(components), len(subsample.values))
        if number > 1:
            clusters = parameters_of_clusters(subsample, single, number, random_state)
            parameters, history = variational_em(subsample, clusters, tol, max_steps)
    if subsample is not table:
        parameters, history = variational_em(table, parameters, tol, max_steps)
    return with_settled_limits(posterior_of(all_rows, parameters, history), limits, tol, max_steps)


# Steps from the estimate of all rows to that of rows drawn with replacement end at one that raises
# the evidence lower bound by less than this share of half the number of parameters, which is how
# far below its maximum the bound is at first, on average (Wilks, Annals of Mathematical Statistics
# 9, 1938): what is left moves a parameter by a few hundredths of its deviation between draws.
RESAMPLED_SHARE = 0.0025


@limits_blas
@stage("rows")
def resampled_parameters(
    start: RowsParameters,
    table: IncompleteRows,
    counts: Array,
    prior_rows: float | None = None,
    max_steps: int = 100,
    share: float = RESAMPLED_SHARE,
) -> RowsParameters:
    """The parameters of rows drawn with replacement, from those of all rows.

    Several components stay at the clusters of all rows, and have the prior of these.

    Parameters
    ----------
    start : RowsParameters
        The estimate from all rows, or one close to it.
    table : IncompleteRows
        All rows.
    counts : array (n,)
        How often each row was drawn, times its weight if rows have some.
    prior_rows : float, optional
        How many rows the prior covariance of one Gaussian counts as, which has the variances of
        the rows that were drawn.
    """
    drawn = np.flatnonzero((counts > 0.0) & (table.precisions > 0.0).any(axis=1))
    table = attrs.evolve(table.take(drawn), row_weights=counts[drawn])
    if start.means.shape[0] == 1 and prior_rows is not None:
        numbers = np.where(table.precisions > 0.0, table.values, np.nan)
        means, variances = first_moments(numbers, table.precisions, table.row_weights)
        prior = RowsPrior(means, np.diag(variances), prior_rows, learned=False)
        start = attrs.evolve(start, prior=prior.expecting(start.prior.shares, variances))
    width = start.prior.mean.size
    count = min(len(start.means) * width * (width + 3) / 2, table.n_observed)
    tol = share * 0.5 * count / max(table.n_observed, 1)
    return variational_em(table, start, tol, max_steps)[0]


# Turns of sites and parameters, at most. They end when no site moves the mean of its number by
# more than this share of its standard deviation.
MOST_LIMIT_TURNS, SETTLED_TURN = 20, 0.01


def with_settled_limits(
    posterior: RowsPosterior, limits: RowLimits | None, tol: float, max_steps: int
) -> RowsPosterior:
    """The posterior of rows whose sites and parameters suit each other; as it is without limits.

    Its table has the sites so far.
    """
    parameters = posterior.parameters
    if limits is None or parameters is None:
        return posterior
    cells, table = (limits.rows, limits.columns), posterior.table
    for _ in range(MOST_LIMIT_TURNS):
        last_mean, last_variance = (part[cells] for part in parameters.moments(table))
        limits = limits.settled(table, parameters.moments)
        table = limits.in_table(table)
        parameters, history = variational_em(table, parameters, tol, max_steps)
        posterior = posterior_of(table, parameters, history)
        mean = parameters.moments(table)[0][cells]
        if np.all(np.abs(mean - last_mean) <= SETTLED_TURN * np.sqrt(last_variance)):
            break
    return posterior.within(limits)


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


def start_in_groups(
    subsample: IncompleteRows,
    prior: RowsPrior,
    start: EMParameters[Any] | None,
    n_groups: int,
    tol: float,
    max_steps: int,
) -> GroupedParameters:
    """The parameters of rows in groups with which the steps begin: those without groups."""
    if isinstance(start, GroupedParameters):
        strength = attrs.evolve(start.within.prior, rows=prior.rows, learned=prior.learned)
        return attrs.evolve(start, within=attrs.evolve(start.within, prior=strength))
    alone, _ = fit_one_component(subsample, prior.without_rows, tol, max_steps)
    functions = subsample.functions_of_time
    return GroupedParameters.start(alone, n_groups, 1 if functions is None else functions.shape[1])


def best_n_components(
    table: IncompleteRows,
    prior: RowsPrior,
    variables: IntArray | None,
    tol: float,
    max_steps: int,
    seed: int,
) -> int:
    """The number of components by the log density of numbers that are held out."""
    numbers = np.where(table.precisions > 0.0, table.values, np.nan)
    held_out, tol = drawn_from_columns(numbers, seed), TRIAL_TOL_RATIO * tol
    remaining = held_out.remaining({BLOCK_NAME: numbers})[BLOCK_NAME]
    training = table.with_numbers(remaining, table.precisions)
    held = held_out.values[BLOCK_NAME]
    single, _ = fit_one_gaussian(training, prior.without_rows, variables, tol, max_steps)
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
    return float(table.counts[rows] @ logsumexp(logs, axis=0))


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


def fit_one_gaussian(
    table: IncompleteRows,
    begin: RowsParameters,
    variables: IntArray | None,
    tol: float,
    max_steps: int,
) -> tuple[RowsParameters, tuple[float, ...]]:
    """The parameters of one component, and the history of the evidence bound.

    With ``variables`` the prior expects shares of the variances, unless it does so already: those
    under a prior of few rows, by turns with the estimate. A strong one would draw columns away
    from what others say of them, so that none seemed to follow from others; under a weak one each
    of many columns follows from the others in few rows.
    """
    prior = begin.prior
    if variables is not None and prior.shares is None:
        n_rows, width = table.values.shape
        few = max(FIRST_PRIOR_SHARE * n_rows, width**2 / n_rows)
        first = attrs.evolve(begin, prior=attrs.evolve(prior, rows=few, learned=False))
        parameters, _ = variational_em(table, first, tol, max_steps)
        parameters = with_settled_shares(table, parameters, variables, tol, max_steps)
        prior = prior.expecting(parameters.prior.shares, table.variances)
        begin = attrs.evolve(parameters, prior=prior)
    return fit_one_component(table, begin, tol, max_steps)


def with_settled_shares(
    table: IncompleteRows,
    parameters: RowsParameters,
    variables: IntArray,
    tol: float,
    max_steps: int,
) -> RowsParameters:
    """The parameters whose prior expects the shares that they have themselves."""
    for _ in range(MOST_SHARE_TURNS):
        prior, shares = parameters.prior, prior_shares(parameters, table.variances, variables)
        before = np.ones_like(shares) if prior.shares is None else prior.shares
        if largest_ratio(shares, before) <= SETTLED_SHARES:
            break
        parameters = attrs.evolve(parameters, prior=prior.expecting(shares, table.variances))
        parameters, _ = variational_em(table, parameters, tol, max_steps)
    return parameters


def prior_shares(parameters: RowsParameters, variances: Array, variables: IntArray) -> Array:
    """The shares of variances that a prior expects of columns, whose mean is 1 (d,).

    They are in proportion to the conditional variance of a column given all others, over its
    variance: so a column that follows from others, such as an age from two dates, is not drawn
    away from what they say. The scale of each column would be learned in proportion to it under a
    prior with a scale of its own for each (Huang and Wand, Bayesian Analysis 8, 2013).

    Given the scatters of the rows, a prior of these shares has them as conditional variances.

    Numbers of one variable share one, as the indicators of a category. Their sum is constant, so
    that each follows from the others: the direction in which they vary least is left out.

    Parameters
    ----------
    parameters : RowsParameters
        Of one component.
    variances : array (d,)
    variables : array of integers (d,)
    """
    prior, degrees, d = parameters.prior, parameters.degrees[0], variances.size
    spreads = np.sqrt(variances)
    units = np.outer(spreads, spreads)
    of_rows = (parameters.scatters[0] - prior.rows * prior.covariance) / units
    shares = np.ones(d) if prior.shares is None else prior.shares
    several = [np.flatnonzero(variables == k) for k in np.flatnonzero(np.bincount(variables) > 1)]
    for _ in range(MOST_SHARE_STEPS):
        root = root_of(of_rows + prior.rows * np.diag(shares))
        inverse = solve_triangular(root, np.eye(d), lower=True)
        precision = degrees * inverse.T @ inverse
        precisions = np.diag(precision).copy()
        for numbers in several:
            block = np.linalg.eigvalsh(precision[np.ix_(numbers, numbers)])
            precisions[numbers] = np.mean(block[:-1])
        before, shares = shares, np.clip(1.0 / precisions, LEAST_SHARE, 1.0)
        shares /= np.mean(shares)
        if largest_ratio(shares, before) <= SETTLED_STEP:
            break
    return np.asarray(shares)


def largest_ratio(shares: Array, others: Array) -> float:
    """The largest factor between two arrays of shares."""
    return float(np.exp(np.max(np.abs(np.log(shares / others)))))


def first_moments(
    values: Array, precisions: Array, row_weights: Array | None = None
) -> tuple[Array, Array]:
    """The means and variances of independent columns, which are the centre of the prior.

    The variance of z is that of the numbers less that of the noise, and at least a quarter of
    that; of a column without numbers 1.
    """
    seen = ~np.isnan(values) & (np.broadcast_to(precisions, values.shape) > 0.0)
    shares = seen if row_weights is None else seen * row_weights[:, None]
    shares = shares / np.where(seen.any(axis=0), np.sum(shares, axis=0), 1.0)
    numbers = np.where(seen, values, 0.0)
    means = np.sum(shares * numbers, axis=0)
    squares = np.sum(shares * np.square(np.where(seen, numbers - means, 0.0)), axis=0)
    noise = np.sum(shares / np.where(seen, precisions, np.inf), axis=0)
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
    with warnings.catch_warnings(), openmp_alone():
        warnings.simplefilter("ignore")  # that there are fewer different rows than clusters
        clusters = KMeans(number, n_init=3, random_state=seed % 2**32)
        labels = clusters.fit_predict(deviations / np.sqrt(np.diag(covariance)))
    members = np.eye(number)[labels] * table.counts[:, None]
    mean_variances = (members.T @ cells.variances[0])[:, :, None] * np.eye(d)
    scatters = (
        np.array([(deviations.T * membership) @ deviations for membership in members.T])
        + mean_variances
    )
    weights = np.sum(members, axis=0)
    moments = Expectation(
        table.counts * cells.evidence, members, weights, members.T @ deviations, scatters
    )
    return prior.m_step(moments, np.tile(prior.mean, (number, 1)))
