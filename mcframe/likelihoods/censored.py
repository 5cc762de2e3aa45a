"""Values of which some are only known to lie between two limits."""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask, Shape, ends_of, is_interval, points_of
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import (
    Approximated,
    Conjugate,
    Distribution,
    ExpectedDerivatives,
    GaussianBound,
    IntervalLoss,
    IntervalProbability,
    Likelihood,
    LogisticTerms,
    TwiceDifferentiable,
    ValueKind,
)
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import as_given, instead_of_class
from mcframe.contracts.wording import wording
from mcframe.likelihoods.intervals import LogisticIntervals, conjugate_of_interval


def takes_distribution(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: a likelihood whose probabilities of intervals are log-concave."""
    remedy = instead_of_class(value, Likelihood)
    if isinstance(value, type) and remedy:
        raise ModelError(f"Censored: likelihood is the class {value.__name__}; {remedy}")
    if not isinstance(value, IntervalProbability):
        raise ModelError(
            f"Censored: likelihood={as_given(value)} was given; one with a distribution function"
            f" is needed, such as {wording().word('Gaussian')} or {wording().word('Poisson')}"
        )
    if isinstance(value, Likelihood) and value.why_no_optimum is not None:
        raise ModelError(
            f"Censored: likelihood={as_given(value)} was given, but limits say nothing of a"
            " variance that is to be learned; give a number"
        )


@stored
@attrs.frozen
class Censored(
    Likelihood,
    Conjugate,
    TwiceDifferentiable,
    Distribution,
    GaussianBound,
    ExpectedDerivatives,
    LogisticTerms,
    Approximated,
):
    """``l(z, y)`` of a likelihood where y is known, ``-log P(lower <= Y <= upper | z)`` of limits.

    For values below or above a limit of detection, top-coded incomes, ages in bands, or survival
    times that are censored. The limits are data: ``Observations(values, lower=..., upper=...)``.
    An entry whose value is known has the loss of the likelihood; one that is missing, with a lower
    or an upper limit or both, has the loss of the interval; one without any of these is missing.

    With a ``Gaussian`` this is the Tobit model (Tobin, Econometrica 1958). The density of the
    noise is log-concave, so that the loss of an interval is convex in z (Prekopa, Acta Sci. Math.
    1973). ``predict`` gives the mean of the likelihood, and intervals and draws are those of new
    values, whatever was known of them. In CVXPY limits of ``Logistic`` are exact; those of
    others are a lower bound of any requested accuracy.

    Parameters
    ----------
    likelihood : Likelihood
        With a distribution function: ``Gaussian`` of a given variance, ``Logistic``, ``Poisson``,
        ``Exponential`` or ``Gamma``. The last three have a certified fit, and no posterior.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> y = np.array([[1.0, 2.0], [np.nan, 4.0], [3.0, np.nan]])
    >>> above = np.array([[np.nan, np.nan], [6.0, np.nan], [np.nan, np.nan]])
    >>> model = mc.Model([mc.Block("x", mc.Censored(mc.Gaussian()))], [mc.NuclearNorm(0.1)])
    >>> fit = mc.fit(model, {"x": mc.Observations(y, lower=above)})
    >>> bool(fit.predict("x")[1, 0] > 5.0)
    True
    """

    likelihood: Any = attrs.field(validator=takes_distribution)

    takes_intervals = True

    @property
    def of_value(self) -> Likelihood:
        """The likelihood of values."""
        inner: Likelihood = self.likelihood
        return inner

    @property
    def of_interval(self) -> IntervalLoss:
        """The loss of limits."""
        loss: IntervalLoss = self.likelihood.of_interval
        return loss

    # ------------------------------------------------------------------ facts of the likelihood

    @property
    def kind(self) -> ValueKind:  # type: ignore[override]
        """The kind of the values."""
        return self.of_value.kind

    @property
    def needs(self) -> str:  # type: ignore[override]
        """The data that the likelihood accepts."""
        return self.of_value.needs

    @property
    def remedy(self) -> str:  # type: ignore[override]
        """The remedy of the likelihood for other data."""
        return self.of_value.remedy

    @property
    def words(self) -> str:  # type: ignore[override]
        """The remedy of the likelihood for words."""
        return self.of_value.words

    @property
    def z_name(self) -> str | None:  # type: ignore[override]
        """The name of z where it is not the mean."""
        return self.of_value.z_name

    @property
    def symbol(self) -> str:  # type: ignore[override]
        """The symbol of a value."""
        return self.of_value.symbol

    @property
    def location(self) -> bool:  # type: ignore[override]
        """True if z has the unit of the values."""
        return self.of_value.location

    @property
    def predicts_mean(self) -> bool:  # type: ignore[override]
        """True if the likelihood predicts the mean."""
        return self.of_value.predicts_mean

    @property
    def curvature(self) -> float:
        """The larger one of a value's loss and of an interval's."""
        return max(float(self.of_value.curvature), float(self.of_interval.curvature))

    @property
    def length_scale(self) -> float:
        """The length scale of the likelihood."""
        return self.of_value.length_scale

    @property
    def infimum(self) -> float:
        """The infimum of the likelihood, at most 0: the loss of a sure interval."""
        return min(float(self.of_value.infimum), 0.0)

    @property
    def bounded_below(self) -> bool:
        """True if the loss of a value is, as that of an interval is."""
        return self.of_value.bounded_below

    @property
    def why_no_posterior(self) -> str | None:  # type: ignore[override]
        """The likelihood, where no parabola lies below its log probabilities."""
        if self.of_interval.has_gaussian_bound:
            return None
        return (
            f"limits of {type(self.likelihood).__name__} have no parabola below their log"
            " probability, by which a posterior counts them"
        )

    def why_suspicious(self, shape: Shape, rows: IntArray, y: Array) -> str | None:
        """The reason of the likelihood, by a number within the limits."""
        return self.of_value.why_suspicious(shape, rows, points_of(y))

    def in_units(self, unit: float) -> "tuple[Censored, float] | None":
        """The likelihood in another unit, and the factor 1; None where it has none."""
        converted = self.likelihood.in_unit(unit)
        return None if converted is None else (Censored(converted), 1.0)

    def mean(self, z: Array) -> Array:
        """The mean of a value."""
        return self.of_value.mean(z)

    def filling(self, z: Array) -> Array:
        """The filling of a value, whatever is known of it."""
        return self.of_value.filling(z)

    def start(self, y: Array) -> Array:
        """The start of a value within the limits."""
        return self.of_value.start(points_of(y))

    # ------------------------------------------------------------------------------- the loss

    def invalid(self, y: Array) -> Mask:
        """True where a value is outside of the domain, or no value lies within the limits."""
        lower, upper = ends_of(y)
        wrong = np.isnan(lower) | np.isnan(upper) | self.of_interval.invalid(lower, upper)
        exact = lower == upper
        wrong[exact] = self.of_value.invalid(lower[exact])
        return wrong

    def by_kind(
        self,
        of_values: Callable[..., tuple[Array, ...]],
        of_limits: Callable[..., tuple[Array, ...]],
        y: Array,
        *numbers: Array,
    ) -> tuple[Array, ...]:
        """The answers of one function for values and of another one for limits, in one order.

        Each is asked with ``numbers`` at its entries and then with what is known of them.
        """
        censored = is_interval(y)
        lower, upper = ends_of(y)
        if not censored.any():
            return of_values(*numbers, lower)
        if censored.all():
            return of_limits(*numbers, lower, upper)
        exact = ~censored
        of_exact = of_values(*(array[exact] for array in numbers), lower[exact])
        limited = of_limits(
            *(array[censored] for array in numbers), lower[censored], upper[censored]
        )
        answers = []
        for one, other in zip(of_exact, limited, strict=True):
            answer = np.empty(y.shape)
            answer[exact], answer[censored] = one, other
            answers.append(answer)
        return tuple(answers)

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its gradient."""

        def of_limits(z: Array, lower: Array, upper: Array) -> tuple[Array, ...]:
            return self.of_interval.derivatives(z, lower, upper)[:2]

        value, gradient = self.by_kind(self.likelihood.value_and_gradient, of_limits, y, z)
        return value, gradient

    def second_derivative(self, z: Array, y: Array) -> Array:
        """The second derivative of either loss."""

        def of_values(z: Array, y: Array) -> tuple[Array, ...]:
            return (self.likelihood.second_derivative(z, y),)

        def of_limits(z: Array, lower: Array, upper: Array) -> tuple[Array, ...]:
            return self.of_interval.derivatives(z, lower, upper)[2:]

        return self.by_kind(of_values, of_limits, y, z)[0]

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """The conjugate of either loss, of limits by Newton steps to a root of the derivative."""

        def of_values(gradient: Array, y: Array) -> tuple[Array, ...]:
            return (self.likelihood.conjugate(gradient, y),)

        def of_limits(gradient: Array, lower: Array, upper: Array) -> tuple[Array, ...]:
            unit = self.length_scale
            return (conjugate_of_interval(self.of_interval, gradient, lower, upper, unit),)

        return self.by_kind(of_values, of_limits, y, gradient)[0]

    def nearest_gradient(self, gradient: Array, y: Array) -> Array:
        """The gradients of the likelihood, of limits clipped to the derivatives that there are."""

        def of_values(gradient: Array, y: Array) -> tuple[Array, ...]:
            return (self.likelihood.nearest_gradient(gradient, y),)

        def of_limits(gradient: Array, lower: Array, upper: Array) -> tuple[Array, ...]:
            return (np.clip(gradient, *self.of_interval.gradient_limits(lower, upper)),)

        return self.by_kind(of_values, of_limits, y, gradient)[0]

    # --------------------------------------------------------------------------- distribution

    def sample(self, z: Array, rng: np.random.Generator) -> Array:
        """A value, known exactly."""
        values: Array = self.likelihood.sample(z, rng)
        return values

    def log_likelihood(self, z: Array, y: Array) -> Array:
        """The log density of a value, the log probability of limits."""

        def of_values(z: Array, y: Array) -> tuple[Array, ...]:
            return (self.likelihood.log_likelihood(z, y),)

        def of_limits(z: Array, lower: Array, upper: Array) -> tuple[Array, ...]:
            return (-self.of_interval.derivatives(z, lower, upper)[0],)

        return self.by_kind(of_values, of_limits, y, z)[0]

    def cdf(self, z: Array, y: Array) -> Array:
        """The distribution function of a value."""
        probability: Array = self.likelihood.cdf(z, y)
        return probability

    def quantile(self, z: Array, probability: Array) -> Array:
        """The quantile of a value."""
        quantile: Array = self.likelihood.quantile(z, probability)
        return quantile

    def response_variance(self, z: Array) -> Array:
        """The variance of a value."""
        variance: Array = self.likelihood.response_variance(z)
        return variance

    # ------------------------------------------------------------------------------ posterior

    def gaussian_bound(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array, Array]:
        """The parabola of the likelihood, or of the probability of the limits."""
        value, precision, constant = self.by_kind(
            self.likelihood.gaussian_bound, self.of_interval.gaussian_bound, y, mean, variance
        )
        return value, precision, constant

    def expected_derivatives(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        """The expected derivatives of either log likelihood, of a Gaussian those at the mean."""

        def of_values(mean: Array, variance: Array, y: Array) -> tuple[Array, ...]:
            inner = self.likelihood
            if isinstance(inner, ExpectedDerivatives):
                return inner.expected_derivatives(mean, variance, y)
            # A quadratic, of which the expectation has the derivatives at the mean.
            return -inner.value_and_gradient(mean, y)[1], inner.second_derivative(mean, y)

        slope, bend = self.by_kind(
            of_values, self.of_interval.expected_derivatives, y, mean, variance
        )
        return slope, bend

    def logistic_terms(self, y: Array) -> tuple[Array, Array, Array, Array] | None:
        """The terms of logistic noise, values as two equal limits; None of other noise."""
        loss = self.of_interval
        return loss.logistic_terms(*ends_of(y)) if isinstance(loss, LogisticIntervals) else None

    # ------------------------------------------------------------------------------ in CVXPY

    def statement(
        self, cp: Any, z: Any, y: Array, *, near: tuple[Array, float] | None = None, **_: Any
    ) -> tuple[Any, list[Any]]:
        """The statement of the likelihood for values, and an expression for limits."""
        censored = is_interval(y)
        lower, upper = ends_of(y)
        if not censored.any():
            statement: tuple[Any, list[Any]] = self.likelihood.statement(cp, z, lower)
            return statement
        places = np.flatnonzero(censored)
        close = None if near is None else (near[0][places], near[1])
        limited = self.of_interval.expression(cp, z[places], lower[places], upper[places], close)
        if censored.all():
            return limited, []
        others = np.flatnonzero(~censored)
        exact, constraints = self.likelihood.statement(cp, z[others], lower[others])
        order = np.argsort(np.concatenate([others, places]))
        return cp.hstack([exact, limited])[order], constraints

    def statement_error(self, near: tuple[Array, float], z: Array, y: Array) -> Array:
        """0 of values; of limits what the expression misses."""

        def of_values(points: Array, z: Array, y: Array) -> tuple[Array, ...]:
            return (np.zeros_like(z),)

        def of_limits(points: Array, z: Array, lower: Array, upper: Array) -> tuple[Array, ...]:
            return (self.of_interval.expression_error((points, near[1]), z, lower, upper),)

        return self.by_kind(of_values, of_limits, y, near[0], z)[0]

    def formula(self, z: str, y: str) -> str:
        """The loss of a value, or that of limits."""
        return f"({self.likelihood.formula(z, y)}, or −log P(lower ≤ {y} ≤ upper) of limits)"
