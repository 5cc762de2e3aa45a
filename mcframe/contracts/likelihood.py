"""What a likelihood must give, and what it may give besides."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, Protocol

import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask, Shape, between, points_of
from mcframe.contracts.rounding import LARGEST_MODERATE, TINY

__all__ = [
    "Approximated",
    "BoundBySums",
    "Conjugate",
    "CountLoss",
    "Distribution",
    "ExpectedDerivatives",
    "ExpectedLogLikelihood",
    "GaussianBound",
    "GaussianNoise",
    "IntervalLoss",
    "IntervalProbability",
    "LabelLoss",
    "Likelihood",
    "LinearDifference",
    "LogisticTerms",
    "Parametric",
    "ParametricBySums",
    "Proximable",
    "RealValueLoss",
    "TwiceDifferentiable",
    "UnlabeledLoss",
    "ValueKind",
    "has_probabilities",
    "value_kinds",
]

#: A function of a question about all entries; it returns sums over them, and largest numbers.
SumsOverEntries = Callable[[Any], tuple[Any, Array]]


class ValueKind(Enum):
    """The kind of a likelihood's observations, by which tables, answers and pictures treat them.

    A real number, one that is not negative, a count 0, 1, 2, ..., a label 0 or 1, the code 0, 1,
    ... of a class without an order, or one of finitely many ordered levels.
    """

    REAL = "real number"
    NONNEGATIVE = "nonnegative number"
    COUNT = "count"
    LABEL = "label"
    CLASS = "class"
    LEVEL = "level"


class PointwiseLoss(ABC):
    """A loss l(z, y) of a predictor z and an observation y, entry by entry, as solvers read it.

    ``Likelihood`` is one, and so are the envelopes and the sets that stand in its place where a
    problem is split.
    """

    #: Whether l is quadratic in z: its curvature is the same everywhere.
    quadratic: bool = False
    #: Whether l has a continuous gradient. Where not, ``value_and_gradient`` gives one subgradient
    #: and the likelihood must be ``Proximable``.
    smooth: bool = True
    #: Whether l is convex in z; a backend gives no certificate where it is not.
    convex: bool = True
    #: Whether missing entries carry loss too: their observation is NaN in every method.
    reads_unlabeled: bool = False
    #: Whether l(z + c, y + c) = l(z, y): values far from 0 are then centred before anything is
    #: computed, and known offsets taken off them.
    location: bool = False
    #: Whether l is 0 on a set of predictors and infinite elsewhere.
    indicator: bool = False
    #: Whether y may be of the dtype ``INTERVALS``: limits between which an observation lies.
    takes_intervals: bool = False
    #: Whether y may be of the dtype ``EXPOSED``: labels, with the probability to record each.
    takes_propensities: bool = False
    #: Latent columns for one column of data.
    width: int = 1
    #: Whether it differs from entry to entry by more than y, as the envelopes of losses do.
    differs_by_entry: bool = False

    @property
    def unlabeled(self) -> "UnlabeledLoss | None":
        """The loss of each missing entry, if any; it lets a large table stay unwritten.

        Where it is a quadratic, observed entries must bend by its curvature at least.
        """
        return None

    def feasibility_tolerance(self, y: Array) -> Array:
        """The distance of z from its set where an indicator counts as 0; 0 for finite losses."""
        return np.zeros(y.shape)

    @property
    @abstractmethod
    def curvature(self) -> float:
        """The supremum of the second derivative of l in z; ``inf`` where there is none."""

    @property
    def length_scale(self) -> float:
        """The distance over which the second derivative changes, in the unit of z.

        By default 1 / sqrt(curvature), and 1 where the curvature has no bound. Searches measure
        their steps by it.
        """
        curvature = float(self.curvature)
        return 1.0 / float(np.sqrt(curvature)) if np.isfinite(curvature) else 1.0

    @property
    @abstractmethod
    def infimum(self) -> float:
        """A lower bound on l(z, y) over all z and all valid y; ``-inf`` where there is none."""

    @property
    def has_finite_effects(self) -> bool:
        """True if free effects have a finite best value, whatever the data are."""
        return self.location and not self.takes_intervals

    @property
    def bounded_below(self) -> bool:
        """True if l(z, y) has a lower bound over all z for every single y.

        By default where ``infimum`` is finite. A bound of each y that falls with y, as of counts,
        is enough.
        """
        return bool(np.isfinite(self.infimum))

    def value(self, z: Array, y: Array) -> Array:
        """l(z, y), entrywise."""
        return self.value_and_gradient(z, y)[0]

    @abstractmethod
    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """l(z, y) and its derivative in z, in one pass."""

    def start(self, y: Array) -> Array:
        """A predictor that fits y roughly, where an iteration may begin; 0 by default."""
        return np.zeros(y.shape)


class Likelihood(PointwiseLoss):
    """A convex loss l(z, y) of a linear predictor z and an observation y.

    A likelihood is a frozen object with parameters only: data and weights are arguments of
    its methods, never state. All methods are entrywise over arrays of one common shape and
    leave their arguments unharmed. Terms of l that do not depend on z are dropped, so that
    every backend and every test agrees on the value.

    A likelihood over a group of K latent columns (``width`` K > 1, as classes need) takes z of
    shape (N, K) where y has shape (N,): values have the shape of y, gradients and means that of
    z.
    """

    #: The kind of its observations; ``mc.laws.check_likelihood`` holds it against ``invalid``.
    kind: ValueKind = ValueKind.REAL
    #: The data it accepts, as the end of the sentence "block 'labels' needs ...".
    needs: str
    #: What to do when the data are not of that kind, as a sentence.
    remedy: str
    #: What to do when the data are words, as a sentence.
    words: str = (
        "Convert the column to numbers (dates to days since one of them), with NaN where a value"
        " is missing; categories go into a block of their own, with mc.Multinomial"
    )
    #: What z is where it is not the mean response itself, such as "the log of the mean".
    z_name: str | None = None
    #: How an observation is written in the printed model: x for a real value, y for a label.
    symbol: str = "y"
    #: Whether ``mean`` is that of the distribution, and not another location, as a quantile is.
    predicts_mean: bool = True
    #: The reason why no optimum exists as declared, with a remedy, as where a variance is learned
    #: that only a posterior learns; None if one does.
    why_no_optimum: str | None = None
    #: The reason why there is no posterior although the class has bounds, as a clause; else None.
    why_no_posterior: str | None = None

    @property
    def values(self) -> Array | None:
        """All values that an observation may have, increasing, where they are finitely many."""
        return np.array([0.0, 1.0]) if self.kind is ValueKind.LABEL else None

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the largest value that an observation may have."""
        if self.values is not None:
            return float(self.values[0]), float(self.values[-1])
        bounded = self.kind in (ValueKind.NONNEGATIVE, ValueKind.COUNT)
        return (0.0 if bounded else -np.inf), np.inf

    @property
    def whole(self) -> bool:
        """True if observations are whole numbers."""
        return self.kind not in (ValueKind.REAL, ValueKind.NONNEGATIVE)

    @property
    def of_value(self) -> "Likelihood":
        """The likelihood of a value that is known exactly; by default itself."""
        return self

    @property
    def of_label(self) -> "Likelihood":
        """The loss l of one label, which a mixture of risks is made of; for all others itself."""
        return self

    def from_zero(self) -> "Likelihood":
        """The likelihood of the codes of its values, which count from 0; by default itself."""
        return self

    def keeping_labels(self, share: float) -> "Likelihood":
        """The likelihood where only this share of the labels is kept; by default itself.

        A fit without held-out labels has a larger rate of missing ones.
        """
        return self

    def bound_to(self, shape: Shape, values: Array) -> "Likelihood":
        """The likelihood with whatever it estimates from the observed values of its block."""
        return self

    def why_suspicious(self, shape: Shape, rows: IntArray, y: Array) -> str | None:
        """Why valid observations of a block are rather meant otherwise, as a clause; None if not.

        ``rows`` and ``y`` have one element for each of them. The clause says how to give them as
        they are meant, and how to insist.
        """
        return None

    def in_units(self, unit: float) -> "tuple[Likelihood, float] | None":
        """A loss g and a factor c with l(unit z, unit y) = c g(z, y); None where there is none.

        As of labels and counts, whose predictors have a unit of their own.
        """
        return None

    @abstractmethod
    def invalid(self, y: Array) -> Mask:
        """True where an observation lies outside the domain."""

    @abstractmethod
    def mean(self, z: Array) -> Array:
        """E[y | z], the mean response: the inverse link."""

    def filling(self, z: Array) -> Array:
        """The value that fills a missing entry: one that data can have, of the shape of y.

        The mean; of labels, levels and classes the most probable one.
        """
        return self.mean(z)

    @abstractmethod
    def start(self, y: Array) -> Array:
        """A natural parameter that fits y roughly: where an iteration may begin."""

    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """l(z, y) as a DCP expression of CVXPY, entrywise over a vector.

        All that most likelihoods give; one with constraints gives ``statement`` in its place.
        """
        raise NotImplementedError(
            f"{type(self).__name__} gives no expression(cp, z, y); a likelihood gives that or,"
            " with constraints, statement(cp, z, y), which is what to ask it for"
        )

    def statement(
        self,
        cp: Any,
        z: Any,
        y: Array,
        *,
        parameters: Any = None,
        near: tuple[Array, float] | None = None,
    ) -> tuple[Any, list[Any]]:
        """The definition for CVXPY: an expression, and the constraints outside of which l is inf.

        The expression is l(z, y), entrywise over a vector, convex by CVXPY's rules. ``cp`` is
        the cvxpy module, passed in so that the vocabulary never imports it. By default it is
        ``expression``, without constraints. Whoever reads a likelihood asks for this.

        Parameters
        ----------
        cp : module
        z : CVXPY expression of shape (N,), or (N, K)
        y : array of shape (N,)
        parameters : CVXPY variable, optional
            In place of the fitted parameters of a ``Parametric``; convex in it and z together.
        near : (array, float), optional
            Predictors around which an ``Approximated`` is to be tight, and how far around them.

        Returns
        -------
        expression : CVXPY expression of shape (N,)
        constraints : list of CVXPY constraints
        """
        return self.expression(cp, z, y), []

    @abstractmethod
    def formula(self, z: str, y: str) -> str:
        """l as plain text, for ``print(model)``."""


class UnlabeledLoss(Protocol):
    """The loss of each missing entry: a convex function of z, of bounded curvature.

    Its gradients' domain holds 0. All methods work entry by entry.
    """

    @property
    def curvature(self) -> float:
        """The supremum of its second derivative, positive."""
        ...

    @property
    def quadratic(self) -> tuple[float, float, float] | None:
        """(c, m, e) where it is c/2 (z - m)^2 + e, else None."""
        ...

    def value_and_gradient(self, z: Array) -> tuple[Array, Array]:
        """The loss and its gradient."""
        ...

    def second_derivative(self, z: Array) -> Array:
        """The second derivative of the loss."""
        ...

    def conjugate(self, gradient: Array) -> Array:
        """sup over z of gradient * z - loss."""
        ...

    def nearest_gradient(self, gradient: Array) -> Array:
        """The nearest gradients at which the conjugate is finite."""
        ...

    def recession(self, moves: Array) -> Array:
        """lim l(z + t m) / t as t grows, for moves m of z."""
        ...


def recession_of(moves: Array, nearest_gradient: Callable[[Array], Array]) -> Array:
    """lim l(z + t m) / t as t grows, for a convex loss l and each move m of its predictor z.

    The support function of the domain of l*, whose ends are the gradients of l far out
    (Rockafellar, Convex Analysis, 1970, theorem 13.3); infinite where l grows faster than a line.
    """
    lowest, highest = (
        nearest_gradient(np.full(np.shape(moves), g)) for g in (-1.0 / TINY, 1.0 / TINY)
    )
    with np.errstate(over="ignore"):
        above, below = highest * moves, lowest * moves
    above = np.where(highest < LARGEST_MODERATE, above, np.inf)
    below = np.where(lowest > -LARGEST_MODERATE, below, np.inf)
    return np.where(moves > 0.0, above, np.where(moves < 0.0, below, 0.0))


class Conjugate(ABC):
    """Ability: the convex conjugate in z, which turns a gradient into a certificate."""

    @abstractmethod
    def conjugate(self, gradient: Array, y: Array) -> Array:
        """sup over z of gradient * z - l(z, y), entrywise; ``inf`` outside the domain."""

    def nearest_gradient(self, gradient: Array, y: Array) -> Array:
        """The nearest gradients at which the conjugate is finite; by default all gradients."""
        return gradient

    def recession(self, moves: Array, y: Array) -> Array:
        """lim l(z + t m, y) / t as t grows, entrywise for moves m of z; of one column at a time.

        From ``nearest_gradient``, of which the farthest gradients are the ends of the domain.
        """
        return recession_of(moves, partial(self.nearest_gradient, y=y))


class TwiceDifferentiable(ABC):
    """Ability: the second derivative in z, which lets a free bias be solved by Newton steps."""

    @abstractmethod
    def second_derivative(self, z: Array, y: Array) -> Array:
        """d2 l / dz2, entrywise; for a group of columns the diagonal of the Hessian."""

    def hessian_product(self, z: Array, y: Array, direction: Array) -> Array:
        """The Hessian at z times a direction; of a group of columns more than its diagonal."""
        return self.second_derivative(z, y) * direction

    def hessian_at(self, z: Array, y: Array) -> Callable[[Array], Array]:
        """``hessian_product`` at one z as a function of the direction: what z costs, paid once."""
        return partial(self.hessian_product, z, y)


class Proximable(ABC):
    """Ability: the prox in z, by which a loss without a gradient enters a program."""

    @abstractmethod
    def prox(self, z: Array, y: Array, step: Array) -> Array:
        """argmin over x of l(x, y) + (x - z)^2 / (2 step), entrywise; ``step`` has z's shape."""

    @abstractmethod
    def prox_gradient(self, z: Array, y: Array, step: Array) -> Array:
        """The derivative of ``prox`` in z, in [0, 1]; either one-sided value at a kink."""


class Distribution(ABC):
    """Ability: a distribution of observations given the linear predictor."""

    @abstractmethod
    def sample(self, z: Array, rng: np.random.Generator) -> Array:
        """One draw of y for each entry of z; ``rng`` is a ``numpy.random.Generator``."""

    @abstractmethod
    def log_likelihood(self, z: Array, y: Array) -> Array:
        """log p(y | z) with every constant, entrywise: -l(z, y) plus a function of y alone."""

    @abstractmethod
    def cdf(self, z: Array, y: Array) -> Array:
        """P(Y <= y | z), entrywise, for any numbers y.

        Classes, which have no order of their own, are taken in that of their codes.
        """

    @abstractmethod
    def quantile(self, z: Array, probability: Array) -> Array:
        """The least y with P(Y <= y | z) >= probability, entrywise, for 0 < probability < 1."""

    @abstractmethod
    def response_variance(self, z: Array) -> Array:
        """Var[Y | z], with the shape of z: of classes p (1 - p), that of each indicator."""


class GaussianNoise(ABC):
    """Ability: an observation is z plus Gaussian noise, so that a posterior of z is exact."""

    #: The variance of the noise; None where a posterior learns one for each column.
    variance: float | None


class GaussianBound(ABC):
    """Ability: a Gaussian in z below the likelihood, by which a posterior counts an observation.

    The bound is what a direct Gaussian observation ``value`` of z with this ``precision`` would
    say. Its expectation under a Gaussian of z is elementary, so that the evidence lower bound of
    a variational posterior is exact, and rises with every update (Jaakkola and Jordan,
    Statistics and Computing 2000).
    """

    @abstractmethod
    def gaussian_bound(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array, Array]:
        """(value, precision, constant) of a parabola in z that lies below log p(y | z).

        ``log p(y | z) >= constant - precision (z - value)^2 / 2`` for every z, entry by entry,
        with every constant of ``log_likelihood``.
        Among the bounds of its family it has the largest expectation for z ~ N(mean, variance);
        where the variance is 0 it touches the log likelihood at the mean. In a group of K columns
        mean, variance, value and precision have shape (N, K), y and constant (N,), and the
        squares are summed over the columns. Every answer is finite, the precision at least 0; a
        value of precision 0 is 0.
        """

    def looseness(self, y: Array) -> str | None:
        """A warning, as a sentence, where no parabola comes close at most of these values."""
        return None


class ExpectedDerivatives(ABC):
    """Ability: the derivatives of the expected log likelihood, by which a posterior ends.

    A bound is looser than the expectation of the log likelihood itself. In the best Gaussian of z
    each observation counts by the derivatives of this expectation (Opper and Archambeau, The
    variational Gaussian approximation revisited, Neural Computation 2009). A likelihood without
    this ability keeps its bound.
    """

    @abstractmethod
    def expected_derivatives(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        """E[d log p(y | z) / dz] and E[-d2 log p(y | z) / dz2] for z ~ N(mean, variance).

        Entrywise. They are also the derivative of E log p(y | z) in the mean, and minus the second
        one. The second answer is at least 0.
        """


class ExpectedLogLikelihood(ExpectedDerivatives):
    """Ability: the log likelihood is a line in z minus an exponential, of closed expectation.

    For such losses, as of counts with the log link, no parabola lies below the log likelihood.
    ``E exp(z) = exp(mean + variance / 2)`` takes the place of one (Knowles and Minka,
    Non-conjugate variational message passing, NIPS 2011).
    """

    @abstractmethod
    def exponential_form(self, y: Array) -> tuple[Array, Array, float, Array]:
        """(linear, rate, sign, constant) of ``log p(y | z)``, rate >= 0 and sign 1 or -1.

        ``log p(y | z) = constant + linear * z - rate * exp(sign * z)`` for every z, entrywise.
        """

    def expected_log_likelihood(
        self, mean: Array, variance: Array, y: Array
    ) -> tuple[Array, Array, Array]:
        """E log p(y | z) for z ~ N(mean, variance), its derivatives in the mean and the variance.

        ``constant + linear * mean - rate * exp(sign * mean + variance / 2)``; the value is -inf
        and the derivatives infinite where the exponential overflows.
        """
        linear, rate, sign, constant = self.exponential_form(y)
        with np.errstate(over="ignore"):
            expected = rate * np.exp(sign * mean + 0.5 * variance)
        value = constant + linear * mean - expected
        return value, linear - sign * expected, -0.5 * expected

    def expected_derivatives(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        """``linear - sign * e`` and e, the expected ``rate * exp(sign * z)``."""
        _, in_mean, in_variance = self.expected_log_likelihood(mean, variance, y)
        return in_mean, -2.0 * in_variance


class IntervalLoss(ABC):
    """``-log P(lower <= Y <= upper | z)`` of observations known to lie between two limits.

    Convex in z and at least 0. Limits are arrays of the shape of z, the lower one below the upper
    one; an infinite one is no limit, and one of both is finite. All methods are entrywise.
    """

    #: The supremum of the second derivative in z over all intervals; ``inf`` if there is none.
    curvature: float
    #: Whether ``expression`` is the loss itself, and not a lower bound.
    exact_expression: bool = False
    #: Whether ``gaussian_bound`` has an answer.
    has_gaussian_bound: bool = False

    @abstractmethod
    def invalid(self, lower: Array, upper: Array) -> Mask:
        """True where no observation, or none of the domain, lies between two limits."""

    @abstractmethod
    def derivatives(self, z: Array, lower: Array, upper: Array) -> tuple[Array, Array, Array]:
        """The loss, its derivative in z, and the second one."""

    @abstractmethod
    def gradient_limits(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """The limits of the derivative for z towards -inf and towards inf."""

    def centre(self, lower: Array, upper: Array) -> Array:
        """The predictor of a number within the limits, by default that number itself."""
        return points_of(between(lower, upper))

    def gaussian_bound(
        self, mean: Array, variance: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array, Array]:
        """(value, precision, constant) of a parabola below the logarithm, as ``GaussianBound``."""
        raise NotImplementedError(f"{type(self).__name__} has no Gaussian bound")

    def expected_derivatives(
        self, mean: Array, variance: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array]:
        """E[-l'(z)] and E[l''(z)] for z ~ N(mean, variance), as ``ExpectedDerivatives``."""
        raise NotImplementedError(f"{type(self).__name__} has no expected derivatives")

    @abstractmethod
    def expression(
        self, cp: Any, z: Any, lower: Array, upper: Array, near: tuple[Array, float] | None = None
    ) -> Any:
        """The loss as a DCP expression of CVXPY, or a lower bound, tight ``near`` points."""

    def expression_error(
        self, near: tuple[Array, float], z: Array, lower: Array, upper: Array
    ) -> Array:
        """The loss minus the expression near these points at z: by default 0."""
        return np.zeros_like(z)


class IntervalProbability(ABC):
    """Ability: a distribution function whose probabilities of intervals are log-concave in z.

    ``Censored`` takes such likelihoods, for observations of which only limits are known.
    """

    @property
    @abstractmethod
    def of_interval(self) -> IntervalLoss:
        """The loss of an observation between two limits."""

    def in_unit(self, unit: float) -> Likelihood | None:
        """The g with l(unit z, unit y) = g(z, y); None where z has a unit of its own."""
        return None


class LinearDifference(ABC):
    """Ability: for labels 0 and 1, l(z, 1) - l(z, 0) is a line in z.

    What keeps a mixture with negative coefficients of l(z, 0) or l(z, 1) convex.
    """

    @property
    @abstractmethod
    def label_difference(self) -> tuple[float, float] | None:
        """Gradient and intercept of l(z, 1) - l(z, 0); None where these parameters bend it."""


class LogisticTerms(ABC):
    """Ability: the loss is a sum of logistic functions of z, as of labels and levels.

    Compiled loops of a sampler evaluate it entry by entry.
    """

    @abstractmethod
    def logistic_terms(self, y: Array) -> tuple[Array, Array, Array, Array] | None:
        """(weights, factors, edges, constants) of the J terms, (J x N) and constants (N,).

        ``l(z, y) = constant + sum_j weight_j log(1 + exp(factor_j (z - edge_j)))`` for every z,
        entrywise, with finite numbers and weights of at least 0; None where these parameters make
        another loss. The ``gaussian_bound`` is the sum of those of Jaakkola and Jordan.
        """


class Parametric(ABC):
    """Ability: parameters of the whole block that are fitted jointly with Z, unpenalised.

    Its ``statement`` takes a variable for them.
    """

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """The number of fitted parameters."""

    @abstractmethod
    def best_parameters(
        self, z: Array, y: Array, weights: Array, start: Array | None, sd: Array | None = None
    ) -> Array:
        """argmin over the parameters of sum of weights * l(z, y).

        Of a posterior, where z are means and ``sd`` standard deviations of Gaussian predictors,
        those that maximise the weighted sum of the expectations of the best ``gaussian_bound``.
        """

    @abstractmethod
    def with_parameters(self, parameters: Array) -> Likelihood:
        """The likelihood at given parameters."""

    def log_prior(self, parameters: Array) -> float:
        """The log density of the prior of the parameters where these are drawn, up to a constant.

        -inf where they are none. By default it is flat.
        """
        return 0.0

    def drawn_parameters(self, m: int, rng: np.random.Generator) -> Array | None:
        """m draws of the parameters from their prior (m x p); None where it is no density.

        ``rng`` is a ``numpy.random.Generator``. By default None, as a flat prior needs.
        """
        return None

    def unbounded(self, y: Array) -> str | None:
        """The parameters that are infinite at these observations, as a clause for a note.

        It counts which values there are, and not how often: each may be given once. None if
        nothing is left so.
        """
        return None


class BoundBySums(ABC):
    """Ability: what ``bound_to`` estimates from all observed values is a function of sums.

    Values may then lie in several places, the sums of which are added.
    """

    @abstractmethod
    def sums_to_bind(self, values: Array) -> Array:
        """The part of some observed values (N,) in the sums, an array of any fixed shape."""

    @abstractmethod
    def bound_by_sums(self, shape: Shape, sums: Array) -> Likelihood:
        """The likelihood with whatever it estimates, from the sums over all of its block.

        ``shape`` is the block's. It equals ``bound_to(shape, values)`` of all values, and raises
        the same ``DataError`` where they do not tell what is needed.
        """


class ParametricBySums(Parametric):
    """Ability: fitted parameters that are functions of sums and largest values over entries.

    The entries may then lie in several places. A fit puts the same question to each of them, adds
    up the sums, takes the largest of the other numbers, and so finds the parameters.
    """

    @abstractmethod
    def parameter_sums(
        self, z: Array, y: Array, weights: Array, sd: Array | None = None
    ) -> SumsOverEntries:
        """A function that returns sums over these entries, and an array of their largest numbers.

        ``sd`` is that of ``best_parameters``. Sums are arrays and numbers, in tuples. The argument
        is None first, and then what ``parameters_by_sums`` passes.
        """

    @abstractmethod
    def parameters_by_sums(self, sums_over_entries: SumsOverEntries, start: Array | None) -> Array:
        """argmin over the parameters, by the sums over all entries."""

    def best_parameters(
        self, z: Array, y: Array, weights: Array, start: Array | None, sd: Array | None = None
    ) -> Array:
        """argmin over the parameters of sum of weights * l(z, y), or of its expected bound."""
        return self.parameters_by_sums(self.parameter_sums(z, y, weights, sd), start)


def in_shape_of_gradients(weights: Array | float, width: int) -> Any:
    """Weights of entries, or the one of all, as factors of gradients (N,), or (N, width)."""
    several = width > 1 and np.ndim(weights) > 0
    return np.asarray(weights)[:, None] if several else weights


def fits_parameters(likelihood: Likelihood) -> bool:
    """True if it has parameters that are fitted with Z, as thresholds that are not given."""
    return isinstance(likelihood, Parametric) and likelihood.n_parameters > 0


def value_kinds(likelihood: Likelihood) -> frozenset[ValueKind]:
    """The kind of the observations; two levels 0 and 1 are labels, too."""
    values = likelihood.values
    are_labels = (
        likelihood.width == 1 and values is not None and np.array_equal(values, [0.0, 1.0])
    )
    return frozenset({likelihood.kind, ValueKind.LABEL} if are_labels else {likelihood.kind})


def has_probabilities(likelihood: Likelihood) -> bool:
    """Return True if each value has a probability, as of labels, levels and classes."""
    return likelihood.values is not None and isinstance(likelihood, Distribution)


class Approximated(ABC):
    """Ability: a statement for CVXPY that is only a lower bound, as tight as asked for.

    For losses that no cone of CVXPY's expresses. ``statement`` is the bound with its global
    knots; ``statement(..., near=(points, spread))`` has them most densely within ``spread`` of
    the points, and a reference repeats until the stated error no longer matters.
    """

    @abstractmethod
    def statement_error(self, near: tuple[Array, float], z: Array, y: Array) -> Array:
        """l(z, y) minus the bound near these points at z, entrywise: never negative."""


#: What to do with words where labels 0 and 1 are needed.
WORDS_AS_LABELS = (
    "column.map({'no': 0.0, 'yes': 1.0}) makes labels of two words, and NaN, which is missing, of"
    " all else"
)


class RealValueLoss(Likelihood):
    """A loss of finite real numbers that depends on z - y alone, and is 0 at z = y."""

    needs = "finite real numbers"
    remedy = "Replace infinities by NaN if they stand for missing values."
    symbol = "x"
    location = True
    infimum = 0.0

    def invalid(self, y: Array) -> Mask:
        """True where y is not finite."""
        return ~np.isfinite(y)

    def mean(self, z: Array) -> Array:
        """z."""
        return z.copy()

    def start(self, y: Array) -> Array:
        """y."""
        return y.copy()


class LabelLoss(Likelihood):
    """A loss of labels 0 and 1 that is never negative."""

    kind = ValueKind.LABEL
    needs = "labels 0 or 1"
    remedy = "Recode the labels as 0 and 1, and mark a missing label as NaN."
    words = WORDS_AS_LABELS
    infimum = 0.0

    def invalid(self, y: Array) -> Mask:
        """True where y is neither 0 nor 1."""
        return (y != 0.0) & (y != 1.0)


class CountLoss(Likelihood):
    """A loss of counts with the log link, whose curvature has no bound over all counts."""

    kind = ValueKind.COUNT
    z_name = "the log of the mean"
    needs = "counts, which are whole numbers from 0"
    remedy = "Round to whole counts, and mark a missing count as NaN."
    curvature = np.inf

    def invalid(self, y: Array) -> Mask:
        """True where y is negative, not whole or not finite."""
        return ~np.isfinite(y) | (y < 0.0) | (y != np.floor(y))

    def mean(self, z: Array) -> Array:
        """exp(z)."""
        with np.errstate(over="ignore"):
            return np.exp(z)

    def start(self, y: Array) -> Array:
        """log(y + 1/2), also defined for a count of 0."""
        return np.log(y + 0.5)
