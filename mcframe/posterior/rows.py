"""Posterior of a table whose rows are draws of one Gaussian, or of a mixture of Gaussians.

Variational Bayes for mixtures of Gaussians (Bishop, Pattern Recognition and Machine Learning,
2006, section 10.2), for rows of which only some numbers are observed, with noise. Means and
covariances have Gaussian-inverse-Wishart distributions; shares are points. How many rows the prior
covariance of one Gaussian counts as is found by the evidence lower bound, too.
"""

import warnings
from functools import cached_property

import attrs
import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import digamma, gammaln, logsumexp

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import BackendError
from mcframe.contracts.rounding import EPS
from mcframe.numerics.row_mixtures import (
    Conditionals,
    Expectation,
    Incomplete,
    RowMixture,
    conditionals,
    expectation,
    root_of,
)

__all__ = ["RowsParameters", "RowsPosterior", "RowsPrior", "fit_rows"]

# The numbers of components that are tried, in this order, until two in a row lower the evidence.
COMPONENTS = (1, 2, 3, 4, 6, 8)
# How many rows it counts as at first.
FIRST_ROWS = 10.0
# The numbers of rows that the prior covariance of one Gaussian may count as.
PRIOR_ROWS = np.geomspace(0.1, 3000.0, 60)
# How many rows the prior mean of a component counts as.
MEAN_ROWS = 0.1
# Tables with more numbers are begun with some of their rows, drawn at random.
MANY_NUMBERS = 200_000
# How far rounding may lower the evidence, as a share of the sum of its parts' absolute values.
FALLS = 1e-9


@attrs.frozen(eq=False)
class RowsPrior:
    """``S_c ~ inverse Wishart`` of mean ``covariance``, and ``mean_c ~ N(mean, S_c / mean_rows)``.

    Attributes
    ----------
    mean : array (d,)
    covariance : array (d x d)
    rows : float
        How many rows the covariance counts as: ``rows + d + 1`` degrees of freedom.
    learned : bool
        Whether ``rows`` is chosen among ``PRIOR_ROWS`` by the evidence lower bound.
    mean_rows : float
        How many rows the mean of a component counts as.
    """

    mean: Array
    covariance: Array
    rows: float
    learned: bool
    mean_rows: float = MEAN_ROWS

    @property
    def degrees(self) -> float:
        """The degrees of freedom of the inverse Wishart distribution."""
        return self.rows + self.mean.size + 1.0

    def after(self, found: Expectation, means: Array) -> "RowsParameters":
        """The distribution of the parameters that maximises the evidence lower bound.

        Of what is expected under components with these ``means`` (C x d).
        """
        weights = found.weights
        counts = self.mean_rows + weights
        shifts = found.shifts / np.maximum(weights, np.finfo(float).tiny)[:, None]
        away = means + shifts - self.mean
        scatters = found.scatters - weights[:, None, None] * outer(shifts)
        scatters += (self.mean_rows * weights / counts)[:, None, None] * outer(away)
        scatters = 0.5 * (scatters + scatters.transpose(0, 2, 1))
        prior = self.strengthened(weights, scatters) if self.learned else self
        total = float(np.sum(weights))
        return RowsParameters(
            prior,
            weights / total if total > 0.0 else np.full(weights.size, 1.0 / weights.size),
            self.mean + (weights / counts)[:, None] * away,
            counts,
            prior.rows * prior.covariance + scatters,
            prior.degrees + weights,
        )

    def strengthened(self, weights: Array, scatters: Array) -> "RowsPrior":
        """The prior whose ``rows`` maximise the evidence of given scatters about the means."""
        d, root = self.mean.size, root_of(self.covariance)
        rows = np.append(PRIOR_ROWS, self.rows)
        degrees = rows + d + 1.0
        total = np.zeros(rows.size)
        for weight, scatter in zip(weights, scatters, strict=True):
            half = solve_triangular(root, scatter, lower=True)
            relative = np.linalg.eigvalsh(solve_triangular(root, half.T, lower=True))
            logs = np.sum(np.log(rows[:, None] + np.maximum(relative, 0.0)), axis=1)
            total += log_gammas(0.5 * (degrees + weight), d) - log_gammas(0.5 * degrees, d)
            total += 0.5 * (degrees * d * np.log(rows) - (degrees + weight) * logs)
        return attrs.evolve(self, rows=float(rows[np.argmax(total)]))


@attrs.frozen(eq=False)
class RowsParameters:
    """The distribution of shares, means and covariances of the components given the data.

    ``S_c ~ inverse Wishart(scatters[c], degrees[c])``, ``mean_c ~ N(means[c], S_c / counts[c])``.

    Attributes
    ----------
    prior : RowsPrior
    shares : array (C,)
    means : array (C x d)
    counts : array (C,)
    scatters : array (C x d x d)
    degrees : array (C,)
    """

    prior: RowsPrior
    shares: Array
    means: Array
    counts: Array
    scatters: Array
    degrees: Array

    @property
    def expected(self) -> RowMixture:
        """The components by which z is distributed where the evidence lower bound is largest.

        Their covariances are 1 / E(S^-1), and their shares are lowered by what is not known of
        the parameters, so that they sum to less than 1.
        """
        d = self.prior.mean.size
        logs = self.digammas + d * np.log(2.0 / self.degrees) - d / self.counts
        covariances = self.scatters / self.degrees[:, None, None]
        return RowMixture(self.log_shares + 0.5 * logs, self.means, covariances)

    @property
    def predictive(self) -> RowMixture:
        """The moments of a new row in each component."""
        d = self.prior.mean.size
        factors = (1.0 + 1.0 / self.counts) / (self.degrees - d - 1.0)
        return RowMixture(self.log_shares, self.means, factors[:, None, None] * self.scatters)

    @property
    def log_shares(self) -> Array:
        """The logarithms of the shares (C,)."""
        with np.errstate(divide="ignore"):
            return np.log(self.shares)

    @property
    def digammas(self) -> Array:
        """``sum_j digamma((degrees + 1 - j) / 2)`` of each component (C,)."""
        halves = 0.5 * (self.degrees[:, None] - np.arange(self.prior.mean.size))
        return np.sum(digamma(halves), axis=1)

    def divergence(self) -> float:
        """The Kullback-Leibler divergence from the prior."""
        prior, d, total = self.prior, self.prior.mean.size, 0.0
        log_prior = log_determinant(prior.covariance) + d * np.log(prior.rows)
        root = root_of(prior.covariance)
        for c, (scatter, degrees, count) in enumerate(
            zip(self.scatters, self.degrees, self.counts, strict=True)
        ):
            factor = root_of(scatter)
            log_scatter = 2.0 * float(np.sum(np.log(np.diag(factor))))
            trace = np.sum(np.square(solve_triangular(factor, root, lower=True)))
            away = solve_triangular(factor, self.means[c] - prior.mean, lower=True)
            more = degrees - prior.degrees
            total += 0.5 * prior.degrees * (log_scatter - log_prior)
            total += float(log_gammas(0.5 * prior.degrees, d) - log_gammas(0.5 * degrees, d))
            total += 0.5 * more * self.digammas[c] - 0.5 * degrees * (d - prior.rows * trace)
            ratio = prior.mean_rows / count
            total += 0.5 * (d * (ratio - 1.0 - np.log(ratio)))
            total += 0.5 * prior.mean_rows * degrees * float(away @ away)
        return total


def log_gammas(a: Array | float, d: int) -> Array:
    """The logarithm of the multivariate gamma function but for its constant."""
    return np.sum(gammaln(np.asarray(a)[..., None] - 0.5 * np.arange(d)), axis=-1)


def log_determinant(covariance: Array) -> float:
    """The logarithm of the determinant of a positive definite matrix."""
    return 2.0 * float(np.sum(np.log(np.diag(root_of(covariance)))))


def outer(vectors: Array) -> Array:
    """v v' of each vector."""
    return vectors[:, :, None] * vectors[:, None, :]


@attrs.frozen(eq=False)
class RowsPosterior:
    """Distribution of the rows z of a table given its observed numbers x = z + noise.

    Attributes
    ----------
    parameters : RowsParameters
        What is known of shares, means and covariances of the components.
    table : Incomplete
        What is observed.
    responsibilities : array (n x C)
        The probability that a row is of a component.
    evidence : float
        The evidence lower bound: of the logarithm of the density of all observed numbers, given
        the shares; ``-inf`` of rows that the parameters were not estimated from.
    history : tuple of float
        The evidence lower bound before each step; it never falls.
    """

    parameters: RowsParameters
    table: Incomplete
    responsibilities: Array
    evidence: float
    history: tuple[float, ...]

    @property
    def shares(self) -> Array:
        """The share of the rows that each component has (C,)."""
        return self.parameters.shares

    @property
    def means(self) -> Array:
        """The mean of each component (C x d)."""
        return self.parameters.means

    @property
    def covariances(self) -> Array:
        """The covariance of a new row in each component (C x d x d)."""
        return self.parameters.predictive.covariances

    @property
    def noise(self) -> Array:
        """The mean variance of the noise of the observed numbers of a column, else NaN (d,)."""
        seen = self.table.precisions > 0.0
        summed = np.sum(1.0 / np.where(seen, self.table.precisions, np.inf), axis=0)
        counts = np.count_nonzero(seen, axis=0)
        return np.where(counts > 0, summed / np.maximum(counts, 1), np.nan)

    @cached_property
    def cells(self) -> Conditionals:
        """The distribution of each number of z, by component."""
        return conditionals(self.table, self.parameters.predictive)

    def moments(self) -> tuple[Array, Array]:
        """Return mean and variance of z (n x d) where the evidence lower bound is largest."""
        found = conditionals(self.table, self.parameters.expected)
        weights = found.responsibilities.T[:, :, None]
        means = np.sum(weights * found.means, axis=0)
        spreads = found.variances + np.square(found.means - means)
        return means, np.sum(weights * spreads, axis=0)

    def mixture(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array, Array]:
        """Return the distribution of z at single cells: weights, means, variances (C x N).

        Parameters
        ----------
        rows, columns : array of integers (N,)
        """
        own, places = np.unique(np.asarray(rows, dtype=np.intp), return_inverse=True)
        if 2 * own.size > len(self.table.values):
            found, places = self.cells, np.asarray(rows, dtype=np.intp)
        else:
            found = conditionals(self.table.take(own), self.parameters.predictive)
        weights = found.responsibilities[places].T
        return weights, found.means[:, places, columns], found.variances[:, places, columns]

    def leave_one_out(self) -> tuple[Array, Array, Array]:
        """Return the distribution of z at observed cells given the others of the row (C x N).

        Weights, means and variances as of ``mixture``, at the cells of
        ``np.nonzero(table.precisions)``. The parameters are those of all cells.
        """
        rows, columns = np.nonzero(self.table.precisions)
        weights, means, variances = self.mixture(rows, columns)
        precisions = self.table.precisions[rows, columns]
        kept = np.maximum(1.0 - precisions * variances, EPS)
        away = (self.table.values[rows, columns] - means) / kept
        logs = np.log(np.maximum(weights, np.finfo(float).tiny))
        logs += 0.5 * (precisions * kept * np.square(away) - np.log(kept))
        found = np.exp(logs - logsumexp(logs, axis=0))
        return found, self.table.values[rows, columns] - away, variances / kept

    def draws(self, rows: IntArray, rng: np.random.Generator, m: int) -> Array:
        """Return m joint draws of whole rows of z (m x len(rows) x d).

        A draw of z and x from the component moves to the observed x by the difference of the
        conditional means, which are linear in x (Journel and Huijbregts, Mining Geostatistics,
        1978). Given the components, rows are independent.
        """
        table, mixture = (
            self.table.take(np.asarray(rows, dtype=np.intp)),
            self.parameters.predictive,
        )
        n, d = table.values.shape
        found = conditionals(table, mixture)
        ends = np.cumsum(found.responsibilities, axis=1)
        ends[:, -1] = 1.0
        component = np.argmax(rng.random((m, n))[:, :, None] < ends, axis=2)
        drawn = np.empty((m, n, d))
        spread = np.sqrt(1.0 / np.where(table.precisions > 0.0, table.precisions, np.inf))
        for c, root in enumerate(mixture.roots):
            draw, row = np.nonzero(component == c)
            if not row.size:
                continue
            z = rng.standard_normal((row.size, d)) @ root.T
            x = z + spread[row] * rng.standard_normal((row.size, d))
            alone = RowMixture(np.zeros(1), np.zeros((1, d)), mixture.covariances[c : c + 1])
            again = Incomplete.of(x, table.precisions[row], table.variances)
            drawn[draw, row] = found.means[c, row] + z - conditionals(again, alone).means[0]
        return drawn

    def condition(self, values: Array, precisions: Array) -> "RowsPosterior":
        """Return the posterior of other rows under the same parameters.

        Parameters
        ----------
        values : array (n x d)
            NaN where missing.
        precisions : array (n x d) or (d,)
            One over the variance of the noise; 0 where missing.
        """
        mixture = self.parameters.predictive
        table = Incomplete.of(values, precisions, self.table.variances)
        found = expectation(table, mixture)
        return RowsPosterior(self.parameters, table, found.responsibilities, -np.inf, ())

    def step(self, values: Array, precisions: Array) -> "RowsPosterior":
        """Return the posterior after one step with other values or precisions of the same rows.

        So are observations estimated that are Gaussian only given z. ``evidence`` is that of the
        parameters before the step.
        """
        table = Incomplete.of(values, precisions, self.table.variances)
        found, evidence = judged(table, self.parameters)
        after = self.parameters.prior.after(found, self.parameters.means)
        return posterior_of(table, after, (*self.history, evidence))


def fit_rows(
    values: Array,
    precisions: Array,
    *,
    components: int | str = 1,
    prior_rows: float | None = None,
    tol: float = 1e-4,
    max_steps: int = 100,
    random_state: int = 0,
) -> RowsPosterior:
    """Return the posterior of rows whose means and covariances are estimated from them.

    The number of components is chosen by the evidence lower bound, less ``log(n) / 2`` for each
    free share, from 1, 2, 3, 4, 6 and 8, until two in a row lower it. The covariances of several
    components are drawn to that of one Gaussian, which counts as ``10 + d / 2`` rows, and begin
    at clusters by k-means of the rows that it fills. Tables of more than 400,000 numbers are
    begun, and the number is chosen, with 200,000 of them or a tenth, in rows drawn at random.

    Parameters
    ----------
    values : array (n x d)
        NaN where missing.
    precisions : array (n x d) or (d,)
        One over the variance of the noise of each number; 0 where missing.
    components : int or "auto"
    prior_rows : float, optional
        How many rows the prior covariance counts as. By default, of one component, the number
        from 0.1 to 3,000 with the largest evidence lower bound.
    tol : float
        A step that raises the evidence lower bound by less than this for each observed number is
        the last.
    max_steps : int
    random_state : int
        Of the rows that are drawn and of k-means.
    """
    prior = first_prior(values, precisions, prior_rows)
    whole = Incomplete.of(values, precisions, np.diag(prior.covariance))
    seen = np.flatnonzero(whole.precisions.any(axis=1))
    n_kept = max(MANY_NUMBERS, values.size // 10) // max(values.shape[1], 1)
    table = whole.take(seen)
    begun = table
    if n_kept < 0.5 * seen.size:
        begun = whole.take(np.sort(np.random.default_rng(random_state).permutation(seen)[:n_kept]))
    nothing = np.zeros_like(prior.covariance[None])
    none = Expectation(np.zeros(0), np.zeros((0, 1)), np.zeros(1), nothing[:, 0], nothing)
    one, history = climbed(begun, prior.after(none, prior.mean[None]), tol, max_steps)
    best, highest, worse = one, history[-1], 0
    tried = COMPONENTS if components == "auto" else (int(components),)
    for number in tried:
        if number > 1 and number < len(begun.values):
            start = divided(begun, one, number, prior_rows, random_state)
            found, path = climbed(begun, start, tol, max_steps)
            size = gammaln(number + 1.0) - 0.5 * (number - 1) * np.log(len(begun.values))
            if components != "auto" or path[-1] + size > highest:
                best, history, highest, worse = found, path, path[-1] + size, 0
            else:
                worse += 1
            if worse == 2:
                break
    if begun is not table:
        best, history = climbed(table, best, tol, max_steps)
    return posterior_of(whole, best, history)


def first_prior(values: Array, precisions: Array, prior_rows: float | None) -> RowsPrior:
    """The prior of one Gaussian: columns are independent, with the moments of their numbers.

    The variance of z is that of the numbers less that of the noise, and at least a quarter of
    that; of a column without numbers 1.
    """
    seen = ~np.isnan(values) & (np.broadcast_to(precisions, values.shape) > 0.0)
    counts = np.maximum(np.count_nonzero(seen, axis=0), 1)
    known = np.where(seen, values, 0.0)
    means = np.sum(known, axis=0) / counts
    squares = np.sum(np.square(np.where(seen, known - means, 0.0)), axis=0) / counts
    noise = np.sum(1.0 / np.where(seen, precisions, np.inf), axis=0) / counts
    variances = np.where(seen.any(axis=0), np.maximum(squares - noise, 0.25 * noise), 1.0)
    rows = FIRST_ROWS if prior_rows is None else prior_rows
    return RowsPrior(means, np.diag(variances), rows, prior_rows is None)


def divided(
    table: Incomplete, one: RowsParameters, number: int, prior_rows: float | None, seed: int
) -> RowsParameters:
    """Several components at the clusters of the rows that one Gaussian fills."""
    from sklearn.cluster import KMeans  # only here: importing it is slow

    d, covariance = one.prior.mean.size, one.predictive.covariances[0]
    rows = 10.0 + 0.5 * d if prior_rows is None else prior_rows
    prior = attrs.evolve(
        one.prior, mean=one.means[0], covariance=covariance, rows=rows, learned=False
    )
    cells = conditionals(table, one.expected)
    away = cells.means[0] - prior.mean
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are fewer different rows than clusters
        clusters = KMeans(number, n_init=3, random_state=seed)
        labels = clusters.fit_predict(away / np.sqrt(np.diag(covariance)))
    owned = np.eye(number)[labels]
    spread = (owned.T @ cells.variances[0])[:, :, None] * np.eye(d)
    scatters = np.array([(away.T * own) @ away for own in owned.T]) + spread
    found = Expectation(cells.evidence, owned, np.sum(owned, axis=0), owned.T @ away, scatters)
    return prior.after(found, np.tile(prior.mean, (number, 1)))


def judged(table: Incomplete, parameters: RowsParameters) -> tuple[Expectation, float]:
    """What is expected of rows given parameters, and the evidence lower bound."""
    found = expectation(table, parameters.expected)
    return found, float(np.sum(found.evidence)) - parameters.divergence()


def climbed(
    table: Incomplete, parameters: RowsParameters, tol: float, max_steps: int
) -> tuple[RowsParameters, tuple[float, ...]]:
    """Parameters at the end of an ascent of the evidence lower bound, and its history.

    Raises
    ------
    BackendError
        Where a step lowers it by more than rounding can.
    """
    history: list[float] = []
    while True:
        found, evidence = judged(table, parameters)
        size = float(np.sum(np.abs(found.evidence))) + abs(evidence) + table.values.size
        if history and not evidence >= history[-1] - FALLS * size:
            raise BackendError(
                f"the evidence lower bound of Gaussian rows fell from {history[-1]:.12g} to"
                f" {evidence:.12g}, which no step may do; standardise columns, or raise the"
                " variances of the noise"
            )
        history.append(evidence)
        rose = evidence - history[-2] if len(history) > 1 else np.inf
        if rose < tol * table.n_observed or len(history) > max_steps or not table.n_observed:
            return parameters, tuple(history)
        parameters = parameters.prior.after(found, parameters.means)


def posterior_of(
    table: Incomplete, parameters: RowsParameters, history: tuple[float, ...]
) -> RowsPosterior:
    """The posterior of the rows of a table given the distribution of the parameters."""
    found = expectation(table, parameters.predictive)
    return RowsPosterior(parameters, table, found.responsibilities, history[-1], history)
