"""Ordered levels, such as ratings."""

from functools import partial
from typing import Any

import attrs
import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, logit, xlog1py, xlogy

from mcframe.contracts.arrays import Array, IntArray, Mask, Shape
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import (
    Conjugate,
    Distribution,
    ExpectedDerivatives,
    GaussianBound,
    Likelihood,
    LogisticTerms,
    ParametricBySums,
    SumsOverEntries,
    TwiceDifferentiable,
    ValueKind,
)
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import number, takes, whole
from mcframe.likelihoods.cumulative import (
    Positions,
    best_thresholds,
    centred_conjugate,
    gap_loss,
    logistic_parts,
)
from mcframe.numerics.gaussian_bounds import expected_logistic, logistic_bound


def as_thresholds(value: Any) -> tuple[float, ...] | None:
    """An attrs converter: Python floats, or None."""
    if value is None:
        return None
    if isinstance(value, str) or np.ndim(value) != 1:
        raise ModelError(f"Ordinal: thresholds={value!r} was given; a tuple of numbers is needed")
    return tuple(number(one, "Ordinal: a threshold") for one in value)


@stored
@attrs.frozen
class Ordinal(
    Likelihood,
    Conjugate,
    TwiceDifferentiable,
    Distribution,
    GaussianBound,
    ExpectedDerivatives,
    LogisticTerms,
    ParametricBySums,
):
    """``l(z, y) = -log(sigmoid(theta_y - z) - sigmoid(theta_{y-1} - z))``: the cumulative logit.

    Domain: whole levels from ``lowest`` to ``lowest + levels - 1``. ``P(y <= k | z) =
    sigmoid(theta_k - z)`` with increasing thresholds, -inf below the lowest level and +inf above
    the highest, so that a larger z makes higher levels more probable (McCullagh, JRSS B 1980).
    The mean is the expected level. This is the complete negative log-likelihood. It equals
    ``log(1 + exp(z - theta_y)) + log(1 + exp(theta_{y-1} - z)) - log(1 - exp(theta_{y-1} -
    theta_y))``, which is convex in z and thresholds together.

    Parameters
    ----------
    levels : int, default 5
        The number of levels, two or more, including levels that do not occur.
    thresholds : increasing numbers, one less than levels, optional
        On the scale of z, where the noise of a level is a standard logistic variable: thresholds
        that lie close together say that levels are nearly noise. Without them they are fitted with
        Z, one set for the whole block,
        unpenalised. If a level between observed ones is never observed, its two thresholds are
        equal up to rounding. If a level beyond the observed ones is never observed, its threshold
        is 1000 beyond all predictors. The best thresholds do so in the limit.
    lowest : int, default 1
        The lowest level.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> stars = mc.Ordinal(levels=3, thresholds=(-1.0, 1.0))
    >>> np.exp(-stars.value(np.zeros(3), np.array([1.0, 2.0, 3.0]))).round(3)
    array([0.269, 0.462, 0.269])
    >>> stars.mean(np.array([-9.0, 0.0, 9.0])).round(3)
    array([1., 2., 3.])
    """

    levels: int = attrs.field(default=5, validator=takes(partial(whole, least=2)))
    thresholds: tuple[float, ...] | None = attrs.field(default=None, converter=as_thresholds)
    lowest: int = attrs.field(default=1, validator=takes(whole))

    def __attrs_post_init__(self) -> None:
        if self.thresholds is None:
            return
        if len(self.thresholds) != self.levels - 1 or np.any(np.diff(self.thresholds) <= 0.0):
            raise ModelError(
                f"Ordinal: thresholds={self.thresholds!r} was given; levels={self.levels} needs"
                f" {self.levels - 1} increasing numbers"
            )

    kind = ValueKind.LEVEL

    @property
    def values(self) -> Array:
        """All levels, from the lowest on."""
        return self.lowest + np.arange(float(self.levels))

    def from_zero(self) -> "Ordinal":
        """The likelihood with these thresholds for levels that begin at 0."""
        return attrs.evolve(self, lowest=0)

    @property
    def needs(self) -> str:  # type: ignore[override]  # a sentence with the numbers in it
        """The levels there are."""
        return f"whole levels {self.lowest}, ..., {self.lowest + self.levels - 1}"

    z_name = "a score on the scale of the thresholds"
    remedy = "Say how many levels there are by levels= and where they begin by lowest=."
    infimum = 0.0  # which no probability reaches

    @property
    def words(self) -> str:  # type: ignore[override]  # a sentence with a number in it
        """The levels of ordered words: in their own order, not that of their appearance."""
        return (
            "Ordered words become levels by pandas.Categorical(column, categories=[lowest, ...,"
            f" highest], ordered=True).codes + {self.lowest}, with NaN where a code is -1: there"
            " the value is missing"
        )

    @property
    def curvature(self) -> float:
        """1/2: two logistic functions, each of a curvature of at most 1/4; 1/4 of two levels."""
        return 0.5 if self.levels > 2 else 0.25

    def invalid(self, y: Array) -> Mask:
        """True where y is not one of the levels."""
        code = y - self.lowest
        return ~((code >= 0.0) & (code < self.levels) & (y == np.floor(y)))

    def code(self, y: Array) -> IntArray:
        """Levels counted from 0."""
        return (y - self.lowest).astype(np.intp)

    def known_thresholds(self) -> Array:
        """The thresholds, or a ``ModelError`` where they are still to be fitted."""
        if self.thresholds is None:
            raise ModelError(
                "Ordinal: thresholds=None was given, which fits them with the data by mc.fit;"
                " losses alone need thresholds=(...)"
            )
        return np.array(self.thresholds)

    def edges(self) -> Array:
        """The thresholds, with infinite ones below and above them."""
        return np.concatenate([[-np.inf], self.known_thresholds(), [np.inf]])

    def interval(self, y: Array) -> tuple[Array, Array]:
        """The thresholds below and above each observation, infinite at the ends."""
        edges, code = self.edges(), self.code(y)
        return edges[code], edges[code + 1]

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its gradient sigmoid(z - theta_y) - sigmoid(theta_{y-1} - z)."""
        edges, code = self.edges(), self.code(y)
        above, above_gradient, _ = logistic_parts(z - edges[code + 1])
        below, below_gradient, _ = logistic_parts(edges[code] - z)
        return above + below + gap_loss(np.diff(edges))[code], above_gradient - below_gradient

    def second_derivative(self, z: Array, y: Array) -> Array:
        """The second derivatives of both logistic functions."""
        lower, upper = self.interval(y)
        return logistic_parts(z - upper)[2] + logistic_parts(lower - z)[2]

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """A closed form on [-1, 1], half of it for the lowest and the highest level, else inf."""
        inside = np.abs(gradient - self.nearest_gradient(gradient, y)) <= 1e-14
        gradient = self.nearest_gradient(gradient, y)
        lower, upper = self.interval(y)
        inner = np.isfinite(lower) & np.isfinite(upper)
        # At the ends one logistic function is left, shifted by its threshold.
        edge = np.where(np.isfinite(upper), upper, lower)
        q = np.abs(gradient)
        end = gradient * edge + xlogy(q, q) + xlog1py(1.0 - q, -q)
        low, high = np.where(inner, lower, -1.0), np.where(inner, upper, 1.0)
        middle = gradient * (0.5 * (low + high)) + centred_conjugate(q, 0.5 * (high - low))
        return np.where(inside, np.where(inner, middle, end), np.inf)

    def nearest_gradient(self, gradient: Array, y: Array) -> Array:
        """Clipped to [-1, 1]; to [0, 1] for the lowest level and to [-1, 0] for the highest."""
        code = self.code(y)
        return np.clip(gradient, -1.0 * (code > 0), 1.0 * (code < self.levels - 1))

    def mean(self, z: Array) -> Array:
        """The expected level: lowest + sum_k P(y > k | z)."""
        level = np.full_like(z, self.lowest)
        for threshold in self.known_thresholds():
            level += expit(z - threshold)
        return level

    def filling(self, z: Array) -> Array:
        """The most probable level; of the lowest one where several are."""
        level, least = np.full_like(z, self.lowest), np.full_like(z, np.inf)
        for candidate in range(self.lowest, self.lowest + self.levels):
            loss = self.value(z, np.full_like(z, candidate))
            level[loss < least] = candidate
            least = np.minimum(least, loss)
        return level

    def start(self, y: Array) -> Array:
        """The middle of the interval, 1 beyond the threshold at the ends; levels if not given."""
        if self.thresholds is None:
            return y - self.lowest - 0.5 * (self.levels - 1)
        t = self.known_thresholds()
        middles = np.concatenate([[t[0] - 1.0], 0.5 * (t[1:] + t[:-1]), [t[-1] + 1.0]])
        return middles[self.code(y)]

    def sample(self, z: Array, rng: np.random.Generator) -> Array:
        """The level whose interval z plus logistic noise falls into."""
        thresholds = self.known_thresholds()
        noisy = z + rng.logistic(size=np.shape(z))
        return self.lowest + np.searchsorted(thresholds, noisy).astype(np.float64)

    def log_likelihood(self, z: Array, y: Array) -> Array:
        """-l(z, y)."""
        return -self.value(z, y)

    def cdf(self, z: Array, y: Array) -> Array:
        """sigmoid(theta_y - z), 0 below the lowest level and 1 from the highest one on."""
        code = np.clip(np.floor(y) - self.lowest, -1.0, self.levels - 1.0).astype(np.intp)
        return np.asarray(expit(self.edges()[code + 1] - z))

    def quantile(self, z: Array, probability: Array) -> Array:
        """The lowest level whose distribution function reaches the probability."""
        level = np.full_like(z, self.lowest)
        for threshold in self.known_thresholds():
            level += expit(threshold - z) < probability
        return level

    def response_variance(self, z: Array) -> Array:
        """The expected square of the level's distance from its mean."""
        mean, variance = self.mean(z), np.zeros_like(z)
        for level in range(self.lowest, self.lowest + self.levels):
            probability = np.exp(-self.value(z, np.full_like(z, level)))
            variance += probability * np.square(level - mean)
        return variance

    def gaussian_bound(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array, Array]:
        """Two bounds of Jaakkola and Jordan (2000) added up, one for each threshold of the level.

        ``log p = log s(theta_y - z) + log s(z - theta_{y-1}) + log(1 - exp(theta_{y-1} -
        theta_y))`` with s(t) = 1 / (1 + exp(-t)), and ``xi^2 = (theta - mean)^2 + variance`` for
        each. The thresholds must be known; ``best_parameters`` with ``sd`` finds those for which
        the sum of the expected bounds is the largest.
        """
        value, precision, constant = np.zeros_like(mean), np.zeros_like(mean), np.zeros_like(mean)
        edges, code = self.edges(), self.code(y)
        for edge, above in ((edges[code], True), (edges[code + 1], False)):
            finite = np.isfinite(edge)
            ones, zeros = np.ones(int(finite.sum())), np.zeros(int(finite.sum()))
            sides = (ones, zeros) if above else (zeros, ones)
            v, w, c = logistic_bound(mean[finite] - edge[finite], variance[finite], *sides)
            v, current = v + edge[finite], precision[finite]
            # The sum of two parabolas: their common maximum, less what their distance costs.
            total, away = current + w, v - value[finite]
            lost = 0.5 * np.square(np.sqrt(current * (w / total)) * away)
            constant[finite] += c - lost
            value[finite] += w / total * away
            precision[finite] = total
        return value, precision, constant - gap_loss(np.diff(edges))[code]

    def expected_derivatives(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        """E s(theta_{y-1} - z) - E s(z - theta_y), and the sum of the expected E s' of both."""
        slope, bend = np.zeros_like(mean), np.zeros_like(mean)
        for edge, side in zip(self.interval(y), (1.0, -1.0), strict=True):
            finite = np.isfinite(edge)
            distance = side * (edge[finite] - mean[finite])
            probability, density = expected_logistic(distance, variance[finite])
            slope[finite] += side * probability
            bend[finite] += density
        return slope, bend

    def logistic_terms(self, y: Array) -> tuple[Array, Array, Array, Array]:
        """One term for each threshold of the level; of weight 0 at the ends."""
        edges = np.stack(self.interval(y)[::-1])
        weights = np.isfinite(edges).astype(np.float64)
        factors = np.array([[1.0], [-1.0]]) * np.ones(y.size)
        constants = gap_loss(np.diff(self.edges()))[self.code(y)]
        return weights, factors, np.where(weights > 0.0, edges, 0.0), constants

    @property
    def n_parameters(self) -> int:
        """The number of thresholds that are to be fitted."""
        return self.levels - 1 if self.thresholds is None else 0

    def parameter_sums(
        self, z: Array, y: Array, weights: Array, sd: Array | None = None
    ) -> SumsOverEntries:
        """The sums over observations of these levels at given z that ``best_thresholds`` needs."""
        return Positions.of(z, self.code(y), weights, self.levels, sd).sums

    def parameters_by_sums(self, sums_over_entries: SumsOverEntries, start: Array | None) -> Array:
        """The thresholds that fit best at given z, by damped Newton steps."""
        return best_thresholds(sums_over_entries, self.levels, start)

    def with_parameters(self, parameters: Array) -> "Ordinal":
        """The levels with these thresholds."""
        return attrs.evolve(self, thresholds=parameters)

    def log_prior(self, parameters: Array) -> float:
        """The log density of thresholds that make the levels' probabilities uniform at z = 0.

        These have a Dirichlet(1, ..., 1) distribution, so that the density of the thresholds is
        the product of sigmoid'(theta_k). A level that was never observed keeps a probability.
        """
        if np.any(np.diff(parameters) <= 0.0):
            return -np.inf
        size = np.abs(parameters)
        return -float(np.sum(size + 2.0 * np.log1p(np.exp(-size))))

    def drawn_parameters(self, m: int, rng: np.random.Generator) -> Array:
        """Thresholds whose levels have Dirichlet(1, ..., 1) probabilities at z = 0."""
        shares = rng.dirichlet(np.ones(self.levels), m)
        return np.asarray(logit(np.cumsum(shares, axis=1)[:, :-1]))

    def unbounded(self, y: Array) -> str | None:
        """The levels that do not occur, whose thresholds are infinite or equal."""
        absent = np.setdiff1d(np.arange(self.levels), self.code(y))
        if not 0 < absent.size < self.levels:
            return None
        levels = ", ".join(str(self.lowest + k) for k in absent)
        return (
            f"nothing was observed at the levels {levels}: the probability that is predicted for"
            " them is 0"
        )

    def statement(
        self, cp: Any, z: Any, y: Array, *, parameters: Any = None, **_: Any
    ) -> tuple[Any, list[Any]]:
        """The three summands of the class formula: two ``logistic`` and a normaliser."""
        thresholds = self.known_thresholds() if parameters is None else parameters
        loss = self.logistics(cp, z, y, thresholds)
        if parameters is None:
            lower, upper = self.interval(y)
            return loss + gap_loss(upper - lower), []
        return loss + self.normaliser(cp, y, thresholds), []

    def normaliser(self, cp: Any, y: Array, thresholds: Any) -> Any:
        """-log(1 - exp(theta_{y-1} - theta_y)) of variable thresholds.

        It keeps all thresholds increasing, those of levels that do not occur too.
        """
        if self.levels == 2:
            return 0.0
        code = self.code(y)
        inner = np.flatnonzero((code > 0) & (code < self.levels - 1))
        places = ones_at(inner, code[inner] - 1, (code.size, self.levels - 2))
        return -(places @ cp.log(1.0 - cp.exp(thresholds[:-1] - thresholds[1:])))

    def logistics(self, cp: Any, z: Any, y: Array, thresholds: Any) -> Any:
        """The summands with z, those of the ends left out where they are 0."""
        code = self.code(y)
        loss = 0.0 * z
        for side, k in ((-1.0, code), (1.0, code - 1)):
            rows = np.flatnonzero((k >= 0) & (k < self.levels - 1))
            if rows.size:
                places = ones_at(rows, np.arange(rows.size), (code.size, rows.size))
                loss = loss + places @ cp.logistic(side * (thresholds[k[rows]] - z[rows]))
        return loss

    def formula(self, z: str, y: str) -> str:
        """−log(σ(θ[y] − z) − σ(θ[y−1] − z))."""
        return f"−log(σ(θ[{y}] − ({z})) − σ(θ[{y} − 1] − ({z})))"


def ones_at(rows: IntArray, columns: IntArray, shape: Shape) -> Any:
    """A sparse matrix of zeros and ones."""
    return csr_array((np.ones(rows.size), (rows, columns)), shape=shape)
