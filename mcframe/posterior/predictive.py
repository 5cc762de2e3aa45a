"""The distribution of a new observation where z is a mixture of Gaussians."""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import scipy
from scipy.special import logsumexp, ndtr, ndtri

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import Distribution, Likelihood
from mcframe.likelihoods import Bernoulli, Multinomial, Ordinal

# Nodes of Gauss-Hermite quadrature, and points of a Sobol sequence where there are K numbers.
NODES, POINTS = 24, 256
# Halvings of the interval in which a quantile is searched.
HALVINGS = 60


@attrs.frozen(eq=False)
class Predictive:
    """The distribution of a new observation at each of N cells.

    z is a mixture of C Gaussians; of K classes each number of z by itself.

    Attributes
    ----------
    likelihood : Likelihood
    weights, means, variances : arrays (C x N), of K classes (C x N x K)
        ``weights`` are (C x N).
    noise : array (N,) or None
        The variances of observations given z, of a Gaussian.
    natural : function
        Values in standard units -> the data's own, of arrays whose last axis are the cells.
    """

    likelihood: Likelihood
    weights: Array
    means: Array
    variances: Array
    noise: Any
    natural: Callable[[Array], Array]

    @property
    def is_normal(self) -> bool:
        """Whether observations are mixtures of Gaussians in standard units."""
        return self.noise is not None

    def expected(self, function: Callable[[Array], Array]) -> Array:
        """The expectation of a function of z over its distribution, (N,) or (N x K)."""
        points, shares = nodes(self.means.shape[2] if self.means.ndim > 2 else 1)
        total: Any = 0.0
        for component, weight in enumerate(self.weights):
            mean, spread = self.means[component], np.sqrt(self.variances[component])
            for point, share in zip(points, shares, strict=True):
                found = function(mean + spread * point)
                each = weight[:, None] if found.ndim > 1 else weight
                total = total + share * each * found
        result: Array = total
        return result

    def mean(self) -> Array:
        """E[y] in the data's own units; of classes their probabilities."""
        return self.expected(lambda z: self.natural(self.likelihood.mean(z)))

    def sd(self) -> Array:
        """The standard deviation of y, in the data's own units."""
        centre = self.mean()
        if self.is_normal:
            whole = attrs.evolve(self, variances=self.variances + self.noise)
            return np.sqrt(whole.expected(lambda y: np.square(self.natural(y) - centre)))
        likelihood: Any = self.likelihood

        def squares(z: Array) -> Array:
            return np.square(likelihood.mean(z) - centre) + likelihood.response_variance(z)

        return np.sqrt(self.expected(squares))

    def log_density(self, y: Array) -> Array:
        """log p(y), in standard units."""
        if self.is_normal:
            variance = self.variances + self.noise
            terms = -0.5 * (np.square(y - self.means) / variance + np.log(2.0 * np.pi * variance))
            with np.errstate(divide="ignore"):
                return np.asarray(logsumexp(terms + np.log(self.weights), axis=0))
        likelihood = self.likelihood
        if not isinstance(likelihood, Distribution):
            raise ModelError(f"{type(likelihood).__name__} is a loss without a distribution")
        return np.log(self.expected(lambda z: np.exp(likelihood.log_likelihood(z, y))))

    def cdf(self, y: Array) -> Array:
        """P(Y <= y), y in standard units."""
        if self.is_normal:
            away = (y - self.means) / np.sqrt(self.variances + self.noise)
            return np.asarray(np.sum(self.weights * ndtr(away), axis=0))
        likelihood: Any = self.likelihood
        return self.expected(lambda z: likelihood.cdf(z, y))

    def quantile(self, level: float) -> Array:
        """The smallest y with P(Y <= y) >= level, in the data's own units."""
        low, high = self.quantiles_between(level)
        if self.is_normal and len(self.weights) == 1:
            return self.natural(low)
        whole = bool(np.all(self.likelihood.invalid(np.array([0.5]))))
        low = low - 1.0 if whole else low
        for _ in range(HALVINGS):
            centre = low + 0.5 * (high - low)
            centre = np.floor(centre) if whole else centre
            above = self.cdf(centre) >= level
            low, high = np.where(above, low, centre), np.where(above, centre, high)
            if np.all(high - low <= (1.0 if whole else 1e-12 * (np.abs(high) + np.abs(low)))):
                break
        return self.natural(high)

    def quantiles_between(self, level: float) -> tuple[Array, Array]:
        """The least and the largest quantile of the distributions that are mixed."""
        if self.is_normal:
            all_of = self.means + np.sqrt(self.variances + self.noise) * ndtri(level)
        else:
            points, _ = nodes(1)
            z = self.means[:, None] + np.sqrt(self.variances)[:, None] * points[:, None]
            likelihood: Any = self.likelihood
            all_of = likelihood.quantile(z.reshape(-1, z.shape[-1]), np.array(level))
        return np.min(all_of, axis=0), np.max(all_of, axis=0)

    def probabilities(self) -> tuple[Array, Array]:
        """The values that there are, (V,), and the probability of each, (N x V)."""
        likelihood = self.likelihood
        if isinstance(likelihood, Multinomial):
            mean = self.mean()
            return np.arange(float(mean.shape[1])), mean
        if isinstance(likelihood, Bernoulli):
            mean = self.mean()
            return np.array([0.0, 1.0]), np.stack([1.0 - mean, mean], axis=1)
        if isinstance(likelihood, Ordinal):
            values = likelihood.lowest + np.arange(float(likelihood.levels))

            def density(value: float) -> Array:
                return self.expected(
                    lambda z: np.exp(likelihood.log_likelihood(z, np.full(z.shape, float(value))))
                )

            return values, np.stack([density(value) for value in values], axis=1)
        raise ModelError(
            f"{type(likelihood).__name__} has no few values of which a set could be taken; ask for"
            " an interval"
        )

    def likeliest(self, level: float) -> Array:
        """Which values form the smallest set of at least this probability, (N x V)."""
        probabilities = self.probabilities()[1]
        order = np.argsort(-probabilities, axis=1, kind="stable")
        ranked = np.take_along_axis(probabilities, order, axis=1)
        before = np.cumsum(ranked, axis=1) - ranked
        chosen = np.zeros(probabilities.shape, dtype=bool)
        np.put_along_axis(chosen, order, before < level, axis=1)
        return chosen


def nodes(width: int) -> tuple[Array, Array]:
    """Points and weights for expectations under a standard normal of so many dimensions."""
    if width == 1:
        points, shares = np.polynomial.hermite_e.hermegauss(NODES)
        return points, shares / np.sum(shares)
    drawn = scipy.stats.qmc.Sobol(width, scramble=True, rng=np.random.default_rng(0)).random(
        POINTS
    )
    return ndtri(np.clip(drawn, 1e-12, 1.0 - 1e-12)), np.full(POINTS, 1.0 / POINTS)


def has_few_values(likelihood: Likelihood) -> bool:
    """Whether observations are labels, levels or classes."""
    return isinstance(likelihood, Bernoulli | Multinomial | Ordinal)


def columns_of(width: int, columns: IntArray) -> IntArray:
    """The latent columns of cells, (N,) or (N x K)."""
    return columns if width == 1 else columns[:, None] * width + np.arange(width)
