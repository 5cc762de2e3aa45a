"""The distribution of a new observation where z is a mixture of Gaussians."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import attrs
import numpy as np
import scipy
from scipy.special import logsumexp, ndtr, ndtri

from mcframe.contracts.arrays import Array, IntArray, Mask, ends_of, is_interval, points_of
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import (
    Distribution,
    GaussianNoise,
    Likelihood,
    TwiceDifferentiable,
    ValueKind,
    has_probabilities,
)
from mcframe.contracts.limits import BATCH_ENTRIES, BISECTIONS
from mcframe.contracts.rounding import EPS, TINY
from mcframe.likelihoods import Censored, Gaussian
from mcframe.likelihoods.cumulative import LARGEST_EXPONENT
from mcframe.likelihoods.intervals import NormalIntervals
from mcframe.model import Problem
from mcframe.model.table import Table
from mcframe.model.transforms import latent_places
from mcframe.posterior.engine import Engine
from mcframe.posterior.truncation import TruncatedMixture

# Nodes of Gauss-Hermite quadrature, and points of a Sobol sequence where there are K numbers.
QUADRATURE_NODES, SOBOL_POINTS = 24, 256
# Where z is spread over more than so many widths of a likelihood, nodes are equally spaced within
# so many deviations, one for each width, and so many at most.
WIDE_SPREAD, NODE_RANGE, MOST_NODES = 2.0, 8.5, 500
# Levels of the quantiles by which a distribution is represented where units are ranks.
QUANTILE_LEVELS = (np.arange(16.0) + 0.5) / 16.0


def normal_nodes(count: int) -> tuple[Array, Array]:
    """Nodes of a standard normal and their shares: of Gauss and Hermite, or equally spaced."""
    if count == QUADRATURE_NODES:
        points, shares = np.polynomial.hermite_e.hermegauss(QUADRATURE_NODES)
    else:
        points = np.linspace(-NODE_RANGE, NODE_RANGE, count)
        shares = np.exp(-0.5 * np.square(points))
    return points, shares / np.sum(shares)


def as_distribution(likelihood: Likelihood) -> Distribution:
    """A likelihood as a distribution of observations, or a ``ModelError``."""
    if not isinstance(likelihood, Distribution):
        raise ModelError(f"{type(likelihood).__name__} is a loss without a distribution")
    return likelihood


def as_they_are(values: Array) -> Array:
    """Values that are in standard units already."""
    return values


@attrs.frozen(eq=False)
class Predictive:
    """The distribution of a new observation at each of N cells.

    z is a mixture of C Gaussians; of K classes each number of z by itself.

    Attributes
    ----------
    likelihood : Likelihood
    weights, means, variances : arrays (C x N), of K classes (C x N x K)
        ``weights`` are (C x N).
    noise : array (N,) or (C x N), or None
        The variances of observations given z, of a Gaussian.
    to_data_units : function
        Values in standard units -> values in the units of the data, for arrays whose last axis are
        the cells.
    to_standard_units : function
        The way back.
    units : array (N,), 1, or None
        One standard unit in the data's own; None where units are ranks.
    likelihoods : sequence of Likelihood
        That of each component, where their parameters differ; empty if all have one.
    """

    likelihood: Likelihood
    weights: Array
    means: Array
    variances: Array
    noise: Array | float | None
    to_data_units: Callable[[Array], Array]
    to_standard_units: Callable[[Array], Array] = as_they_are
    units: Array | float | None = 1.0
    likelihoods: Sequence[Likelihood] = ()

    @property
    def distribution(self) -> Distribution:
        """The likelihood as a distribution of observations, or a ``ModelError``."""
        return as_distribution(self.likelihood)

    @property
    def observation_variances(self) -> Array:
        """The variances of normal observations: those of z and of the noise (C x N)."""
        assert self.noise is not None  # of ``is_normal``
        return self.variances + self.noise

    @property
    def is_normal(self) -> bool:
        """True if observations are mixtures of Gaussians in standard units."""
        return self.noise is not None

    def node_blocks(self) -> Iterator[tuple[Any, Array, Array]]:
        """Likelihoods, nodes z of a quadrature over its distribution, and their shares.

        Some nodes at a time: nodes and shares are (n x N); of K classes z is (N x K), for one
        node. Components without a variance, such as draws, are nodes themselves.
        """
        for likelihood, components in self.components:
            if not np.any(self.variances[components]):
                yield from self.blocks_of_draws(likelihood, components)
                continue
            for component in range(components.start, components.stop):
                mean, spread = self.means[component], np.sqrt(self.variances[component])
                weight = self.weights[component]
                for points, shares in self.standard_nodes():
                    yield likelihood, mean + spread * points, shares * weight

    @property
    def components(self) -> list[tuple[Any, slice]]:
        """The components that have one likelihood, with it."""
        if self.likelihoods:
            return [(one, slice(c, c + 1)) for c, one in enumerate(self.likelihoods)]
        return [(self.likelihood, slice(0, len(self.weights)))]

    def blocks_of_draws(
        self, likelihood: Any, components: slice
    ) -> Iterator[tuple[Any, Array, Array]]:
        """The means of some components as nodes."""
        step = 1 if self.has_classes else max(BATCH_ENTRIES // max(self.means.shape[1], 1), 1)
        for start in range(components.start, components.stop, step):
            part = slice(start, min(start + step, components.stop))
            means = self.means[part]
            yield likelihood, means[0] if self.has_classes else means, self.weights[part]

    @property
    def has_classes(self) -> bool:
        """True if there are K numbers of z at each cell."""
        return self.means.ndim > 2

    def standard_nodes(self) -> Iterator[tuple[Array, Array]]:
        """Nodes of a standard normal and their shares, some at a time.

        Each cell has as many as the likelihood needs there, whatever cells it is asked with:
        (n x N), or (n x 1) where all have the same; of K classes (K,) and (1 x 1).
        """
        if self.has_classes:
            rng = np.random.default_rng(0)
            sobol = scipy.stats.qmc.Sobol(self.means.shape[2], scramble=True, rng=rng)
            points = np.clip(sobol.random(SOBOL_POINTS), 1e-12, 1.0 - 1e-12)
            for point in ndtri(points):
                yield point, np.full((1, 1), 1.0 / SOBOL_POINTS)
            return
        n_cells = self.means.shape[1]
        counts = np.full(n_cells, QUADRATURE_NODES)
        if not self.is_normal:
            widths = np.max(self.spread_in_widths, axis=0, initial=0.0)
            equal = np.minimum(2.0 * NODE_RANGE * widths, MOST_NODES - 1.0).astype(np.intp) + 1
            counts = np.where(widths > WIDE_SPREAD, equal, QUADRATURE_NODES)
        distinct, place = np.unique(counts, return_inverse=True)
        most = int(np.max(counts, initial=QUADRATURE_NODES))
        points, shares = np.zeros((2, most, distinct.size))
        for k, count in enumerate(distinct):
            points[:count, k], shares[:count, k] = normal_nodes(int(count))
        step = max(BATCH_ENTRIES // max(n_cells, 1), 1)
        cells: IntArray | slice = place if distinct.size > 1 else slice(None)
        for start in range(0, most, step):
            part = slice(start, start + step)
            yield points[part][:, cells], shares[part][:, cells]

    @property
    def spread_in_widths(self) -> Array:
        """The standard deviation of z over the width of the likelihood as a function of z."""
        likelihood = self.likelihood
        spread = np.sqrt(self.variances)
        curvature: Array | float = likelihood.curvature
        if np.isinf(curvature) and isinstance(likelihood, TwiceDifferentiable):
            # Where counts are large; of durations the exponential is 0 or infinite far away.
            z = np.clip(self.means + 2.0 * spread, -LARGEST_EXPONENT, LARGEST_EXPONENT)
            curvature = likelihood.second_derivative(z, self.likelihood.mean(z))
        return spread * np.sqrt(np.where(np.isfinite(curvature), curvature, 1.0))

    def expected(self, function: Callable[[Any, Array], Array]) -> Array:
        """The expectation of a function of z over its distribution, (N,) or (N x K).

        The function is asked with a likelihood for arrays (n x N), or (N x K) of K classes.
        """
        total: Array = np.zeros(())
        for likelihood, z, share in self.node_blocks():
            values = function(likelihood, z)
            if self.has_classes:
                total = total + (share[0][:, None] if values.ndim > 1 else share[0]) * values
            else:
                with np.errstate(over="ignore", invalid="ignore"):  # of a share that is 0
                    total = total + np.sum(np.where(share > 0.0, share * values, 0.0), axis=0)
        return total

    def mean(self) -> Array:
        """E[y] in the data's own units; of classes their probabilities."""
        likelihood = self.likelihood
        if self.is_normal and self.units is not None:
            return self.to_data_units(np.sum(self.weights * self.means, axis=0))
        if self.units is None and likelihood.predicts_mean:
            return self.expected_of_observations(self.to_data_units)
        return self.expected(lambda one, z: self.to_data_units(one.mean(z)))

    def sd(self) -> Array:
        """The standard deviation of y, in the data's own units."""
        if self.units is None:
            centre = self.mean()
            return np.sqrt(
                self.expected_of_observations(lambda y: np.square(self.to_data_units(y) - centre))
            )
        if self.is_normal:
            centre = np.sum(self.weights * self.means, axis=0)
            squares = self.observation_variances + np.square(self.means - centre)
            return np.asarray(self.units * np.sqrt(np.sum(self.weights * squares, axis=0)))
        centre = self.expected(lambda one, z: one.mean(z))

        def squares_at(one: Any, z: Array) -> Array:
            return np.square(one.mean(z) - centre) + one.response_variance(z)

        with np.errstate(over="ignore", invalid="ignore"):  # exponentials of a wide z
            squares = self.expected(squares_at)
        return np.asarray(self.units * np.sqrt(np.where(np.isnan(squares), np.inf, squares)))

    def expected_of_observations(self, function: Callable[[Array], Array]) -> Array:
        """The expectation of a function of new observations of a location, in standard units."""
        if self.is_normal:
            noisy = attrs.evolve(self, variances=self.observation_variances)
            return noisy.expected(lambda _, z: function(z))
        levels = [np.array(level) for level in QUANTILE_LEVELS]
        return self.expected(
            lambda one, z: np.asarray(
                np.mean([function(one.quantile(z, u)) for u in levels], axis=0)
            )
        )

    def log_density(self, y: Array) -> Array:
        """log p(y), or of limits log P(lower <= Y <= upper), in standard units."""
        if self.is_normal and is_interval(y).any():
            lower, upper = ends_of(y)
            normal = NormalIntervals(np.sqrt(self.observation_variances))
            ends = (np.broadcast_to(end, self.means.shape) for end in (lower, upper))
            with np.errstate(divide="ignore"):
                terms = np.log(self.weights) - normal.derivatives(self.means, *ends)[0]
            logs = logsumexp(terms, axis=0)
            return np.where(is_interval(y), logs, self.log_density(points_of(y)))
        if self.is_normal:
            y = points_of(y)
            variance = self.observation_variances
            terms = -0.5 * (np.square(y - self.means) / variance + np.log(2.0 * np.pi * variance))
            with np.errstate(divide="ignore"):
                return np.asarray(logsumexp(terms + np.log(self.weights), axis=0))
        total = np.full(y.shape, -np.inf)
        for one, z, share in self.node_blocks():
            shape = y.shape if self.has_classes else z.shape
            with np.errstate(divide="ignore"):
                distribution = as_distribution(one if y.dtype.names is None else Censored(one))
                of_nodes = distribution.log_likelihood(z, np.broadcast_to(y, shape))
                log_terms = of_nodes + np.log(share)
            total = np.logaddexp(total, logsumexp(log_terms, axis=0))
        if np.any(self.too_wide_for_nodes):
            total = np.where(self.too_wide_for_nodes, self.as_normal.log_density(y), total)
        return total

    @cached_property
    def too_wide_for_nodes(self) -> Mask | bool:
        """True if z of a location is spread over more widths than nodes resolve."""
        if not self.likelihood.location or self.is_normal:
            return False
        return np.all(2.0 * NODE_RANGE * self.spread_in_widths > MOST_NODES, axis=0)

    @cached_property
    def as_normal(self) -> "Predictive":
        """Observations with the moments of this one's, as a mixture of Gaussians."""
        likelihood = self.distribution
        zeros = np.zeros(self.means.shape[1])
        shift = np.mean([likelihood.quantile(zeros, np.array(u)) for u in QUANTILE_LEVELS], axis=0)
        noise = likelihood.response_variance(zeros)
        return attrs.evolve(self, means=self.means + shift, noise=noise)

    def cdf(self, y: Array) -> Array:
        """P(Y <= y), y in standard units."""
        if self.is_normal:
            standardised = (y - self.means) / np.sqrt(self.observation_variances)
            return np.asarray(np.sum(self.weights * ndtr(standardised), axis=0))
        probability = self.expected(lambda one, z: one.cdf(z, np.broadcast_to(y, z.shape)))
        if np.any(self.too_wide_for_nodes):
            probability = np.where(self.too_wide_for_nodes, self.as_normal.cdf(y), probability)
        return probability

    def interval(self, level: float) -> Array:
        """The ends of an interval of at least this probability (N x 2), in the data's own units.

        They are the quantiles with equal tails; for whole numbers, whose own units are those of
        ``cdf``, as ``interval_of_whole_numbers`` says.
        """
        if self.likelihood.whole:
            return interval_of_whole_numbers(level, self.cdf, self.quantile)
        tail = tail_of(level)
        return np.stack([self.quantile(tail), self.quantile(1.0 - tail)], axis=1)

    @cached_property
    def predictor(self) -> "Predictive":
        """The distribution of z, in the data's own units where these are those of a location.

        Draws have a little noise, so that they have a distribution function.
        """
        centre = np.sum(self.weights * self.means, axis=0)
        squares = self.variances + np.square(self.means - centre)
        noise = EPS * np.sum(self.weights * squares, axis=0) + TINY
        return attrs.evolve(self, likelihood=Gaussian(), likelihoods=(), noise=noise)

    def interval_of_mean(self, level: float) -> Array:
        """The ends (N x 2) of an interval of E[y | z] by the distribution of z, of equal tails.

        The mean is monotone in z. Where each draw has parameters of its own, each Gaussian counts
        by its quantiles.
        """
        likelihood = self.likelihood
        if likelihood.location:
            return self.predictor.interval(level)
        tail = tail_of(level)
        if not self.likelihoods:
            ends = self.predictor.interval(level).T
            return np.sort([self.to_data_units(likelihood.mean(end)) for end in ends], axis=0).T
        levels = ndtri(QUANTILE_LEVELS)[:, None]
        z = self.means[:, None] + np.sqrt(self.variances)[:, None] * levels
        means = np.concatenate(
            [one.mean(points) for one, points in zip(self.likelihoods, z, strict=True)]
        )
        shares = np.repeat(self.weights / len(levels), len(levels), axis=0)
        order = np.argsort(means, axis=0)
        heights = np.cumsum(np.take_along_axis(shares, order, axis=0), axis=0)
        places = [np.argmax(heights >= u * heights[-1], axis=0) for u in (tail, 1.0 - tail)]
        ends = np.take_along_axis(np.take_along_axis(means, order, axis=0), np.array(places), 0)
        return np.stack([self.to_data_units(end) for end in ends], axis=1)

    def sd_of_mean(self) -> Array:
        """The standard deviation of E[y | z] by the distribution of z, in the data's own units."""
        if self.likelihood.location:
            return self.predictor.sd()
        centre = self.expected(lambda one, z: one.mean(z))
        squares = self.expected(lambda one, z: np.square(one.mean(z) - centre))
        return np.asarray(self.units * np.sqrt(squares))

    def rounded_interval(
        self, level: float, rounded: Callable[[Array], Array], edges: Callable[[Array], Array]
    ) -> Array:
        """The ends (N x 2) of an interval of the whole numbers that observations are rounded to.

        Parameters
        ----------
        level : float
        rounded : function
            From numbers in the data's own units to whole ones, an increasing one (N,) -> (N,).
        edges : function
            The largest number that is rounded to at most a whole one (N,) -> (N,).
        """

        def cdf(whole: Array) -> Array:
            edge = edges(whole)
            inside = np.where(np.isfinite(edge), edge, whole)
            probability = self.cdf(self.to_standard_units(inside))
            return np.where(np.isfinite(edge), probability, edge > 0.0)

        return interval_of_whole_numbers(level, cdf, lambda u: rounded(self.quantile(u)))

    def quantile(self, level: float | Array) -> Array:
        """The smallest y with P(Y <= y) >= level, one number or one each, in the data's units."""
        low, high = self.quantile_bracket(level)
        if self.is_normal and len(self.weights) == 1:
            return self.to_data_units(low)
        whole, positive = self.likelihood.whole, self.likelihood.limits[0] >= 0.0
        low = low - 1.0 if whole else low
        for _ in range(BISECTIONS):
            with np.errstate(invalid="ignore"):  # of two infinite ends
                centre = low + 0.5 * (high - low)
            if positive:  # over orders of magnitude
                logs = np.log(np.maximum(low, 0.1 if whole else TINY)) + np.log(
                    np.maximum(high, TINY)
                )
                centre = np.where(high > 2.0 * low, np.exp(0.5 * logs), centre)
            if whole:
                centre = np.clip(np.floor(centre), low + 1.0, np.maximum(high - 1.0, low + 1.0))
            above = self.cdf(centre) >= level
            low, high = np.where(above, low, centre), np.where(above, centre, high)
            with np.errstate(invalid="ignore"):
                converged = high - low <= (1.0 if whole else 1e-10 * (np.abs(high) + np.abs(low)))
            if np.all(converged):
                break
        return self.to_data_units(high)

    def quantile_bracket(self, level: float | Array) -> tuple[Array, Array]:
        """The least and the largest quantile of the distributions that are mixed."""
        if self.is_normal:
            component_quantiles = self.means + np.sqrt(self.observation_variances) * ndtri(level)
        else:
            spread = np.sqrt(self.variances)
            node_range = max(NODE_RANGE, float(normal_nodes(QUADRATURE_NODES)[0][-1]))
            z = np.concatenate([self.means + end * spread for end in (-node_range, node_range)])
            if self.likelihoods:
                ends_of = z.reshape(2, *self.means.shape).swapaxes(0, 1)
                pairs = zip(self.likelihoods, ends_of, strict=True)
                u = np.array(level)
                z = np.concatenate([as_distribution(one).quantile(ends, u) for one, ends in pairs])
                return np.min(z, axis=0), np.max(z, axis=0)
            component_quantiles = self.distribution.quantile(z, np.array(level))
        return np.min(component_quantiles, axis=0), np.max(component_quantiles, axis=0)

    def probabilities(self) -> tuple[Array, Array]:
        """The values that there are, (V,), and the probability of each, (N x V)."""
        likelihood = self.likelihood
        values = likelihood.values
        if values is None or not has_probabilities(likelihood):
            raise ModelError(
                f"{type(likelihood).__name__} has no list of values that each have a probability;"
                " ask for an interval"
            )
        if likelihood.width > 1:
            return values, self.mean()
        if likelihood.kind is ValueKind.LABEL:
            mean = self.mean()
            return values, np.stack([1.0 - mean, mean], axis=1)

        def density(value: float) -> Array:
            return self.expected(
                lambda one, z: np.exp(one.log_likelihood(z, np.full(z.shape, value)))
            )

        return values, np.stack([density(value) for value in values], axis=1)

    def smallest_sets(self, level: float) -> Array:
        """Which values form the smallest set of at least this probability, (N x V)."""
        probabilities = self.probabilities()[1]
        order = np.argsort(-probabilities, axis=1, kind="stable")
        ranked = np.take_along_axis(probabilities, order, axis=1)
        mass_before = np.cumsum(ranked, axis=1) - ranked
        chosen = np.zeros(probabilities.shape, dtype=bool)
        np.put_along_axis(chosen, order, mass_before < level, axis=1)
        return chosen


@attrs.frozen(eq=False)
class LimitedPredictive(Predictive):
    """Observations, normal mixtures in standard units, some of which are known to limits.

    Attributes
    ----------
    lower, upper : arrays (N,)
        In standard units, infinite where there is none.
    """

    lower: Array = attrs.field(kw_only=True)
    upper: Array = attrs.field(kw_only=True)

    @property
    def limited(self) -> Mask:
        """Which cells have a limit."""
        return np.isfinite(self.lower) | np.isfinite(self.upper)

    @cached_property
    def truncated(self) -> TruncatedMixture:
        """The distributions of observations within their limits."""
        sds = np.sqrt(np.broadcast_to(self.observation_variances, self.means.shape))
        return TruncatedMixture(self.weights, self.means, sds, self.lower, self.upper)

    def mean(self) -> Array:
        """E[y] in the data's own units."""
        within = self.to_data_units(self.truncated.expected(lambda y: y))
        return np.where(self.limited, within, super().mean())

    def sd(self) -> Array:
        """The standard deviation of y, in the data's own units."""
        centre = self.truncated.expected(lambda y: y)
        squares = self.truncated.expected(lambda y: np.square(y - centre))
        return np.where(self.limited, self.units * np.sqrt(squares), super().sd())

    def expected_of_observations(self, function: Callable[[Array], Array]) -> Array:
        """The expectation of a function of new observations, in standard units."""
        within = self.truncated.expected(function)
        return np.where(self.limited, within, super().expected_of_observations(function))

    def cdf(self, y: Array) -> Array:
        """P(Y <= y), y in standard units."""
        return np.where(self.limited, self.truncated.cdf(y), super().cdf(y))

    def quantile(self, level: float | Array) -> Array:
        """The quantiles at a level, in the data's units."""
        within = self.to_data_units(self.truncated.quantile(level))
        return np.where(self.limited, within, super().quantile(level))


def tail_of(level: float) -> float:
    """The probability of one of two equal tails; 1 less it is below 1."""
    return max(0.5 * (1.0 - level), EPS)


def interval_of_whole_numbers(
    level: float, cdf: Callable[[Array], Array], quantile: Callable[[float | Array], Array]
) -> Array:
    """The ends (N x 2) of an interval of at least this probability of whole numbers.

    The quantiles with equal tails contain more than ``level``; one end then moves in, the one that
    can move farther.
    """
    tail = tail_of(level)
    lower, upper = quantile(tail), quantile(1.0 - tail)
    least = quantile(np.minimum(level + cdf(lower - 1.0), 1.0 - tail))  # but for rounding they are
    most = quantile(np.maximum(cdf(upper) - level, tail))
    from_above = upper - least >= most - lower
    upper = np.where(from_above, np.minimum(least, upper), upper)
    lower = np.where(from_above, lower, np.maximum(most, lower))
    return np.stack([lower, upper], axis=1)


def smallest_sets_on_average(probabilities: Array, level: float) -> Array:
    """Which values form the smallest sets whose probabilities have this mean (... x V).

    The largest probability of each entry is in its set, and the largest of the others are.
    """
    if not probabilities.size:
        return np.zeros(probabilities.shape, dtype=bool)
    flat = probabilities.reshape(-1, probabilities.shape[-1])
    first = np.zeros(flat.shape, dtype=bool)
    first[np.arange(len(flat)), np.argmax(flat, axis=1)] = True
    order = np.argsort(np.where(first, -np.inf, -flat).ravel(), kind="stable")
    sums = np.cumsum(flat.ravel()[order])
    n_chosen = max(len(flat), int(np.searchsorted(sums, level * len(flat))) + 1)
    chosen = np.zeros(flat.size, dtype=bool)
    chosen[order[:n_chosen]] = True
    return chosen.reshape(probabilities.shape)


def predictive_at(
    engine: Engine,
    problem: Problem,
    name: str,
    rows: IntArray,
    columns: IntArray,
    table: Table | None = None,
) -> Predictive:
    """The predictive distribution at cells of a block.

    In the units of a table and with its offsets; without one in standard units, without offsets.
    """
    likelihood = engine.observed.likelihood(name).of_value
    likelihoods = engine.likelihoods(name)
    width = likelihood.width
    numbers = latent_positions(problem, name, rows, columns)
    weights, means, variances = engine.mixture(*(places.ravel() for places in numbers))
    if width > 1:
        means, variances = (array.reshape(-1, *numbers[0].shape) for array in (means, variances))
    predictive = Predictive(
        likelihood,
        weights[:, ::width],
        means,
        np.maximum(variances, 0.0),
        noise_of(engine, problem, name, columns),
        as_they_are,
        likelihoods=likelihoods if len(likelihoods) > 1 else (),
    )
    limits = engine.limits_at(*(places.ravel() for places in numbers))
    if limits is not None:
        fields = {part.name: getattr(predictive, part.name) for part in attrs.fields(Predictive)}
        predictive = LimitedPredictive(**fields, lower=limits[0], upper=limits[1])
    if table is None:
        return predictive
    means = table.pending.invert(means, *latent_places(rows, columns, width))
    to_data_units, to_standard_units = (
        partial(convert, rows=rows, columns=columns)
        for convert in (table.applied.invert, table.applied.apply)
    )
    return attrs.evolve(
        predictive,
        means=means,
        to_data_units=to_data_units,
        to_standard_units=to_standard_units,
        units=table.units.unit(columns),
    )


def latent_positions(
    problem: Problem, name: str, rows: IntArray, columns: IntArray
) -> tuple[IntArray, IntArray]:
    """The rows and the columns of Z of cells, (N,) or (N x K)."""
    rows, columns = problem.latent_places(name, rows, columns)
    return np.broadcast_to(rows, columns.shape), problem.columns(name).start + columns


def noise_of(engine: Engine, problem: Problem, name: str, columns: IntArray) -> Array | None:
    """The variances of observations of a Gaussian given z, in standard units; else None.

    (N,), or (draws x N) of an engine of draws.
    """
    likelihood = problem.model.block(name).likelihood.of_value
    if not isinstance(likelihood, GaussianNoise):
        return None
    if likelihood.variance is None:
        return np.asarray(engine.noise[..., problem.columns(name)][..., columns])
    return np.full(columns.size, likelihood.variance)
