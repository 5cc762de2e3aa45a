"""Counts that vary more than Poisson counts do."""

from functools import partial
from typing import Any

import attrs
import numpy as np
from scipy.special import betainc, betaincc, betaln, expit, nbdtrik

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import (
    Conjugate,
    CountLoss,
    Distribution,
    ExpectedDerivatives,
    GaussianBound,
    LogisticTerms,
    TwiceDifferentiable,
)
from mcframe.contracts.rounding import TINY
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import moderate
from mcframe.contracts.wording import wording
from mcframe.likelihoods.poisson import least_count, poisson_counts
from mcframe.numerics.gaussian_bounds import expected_logistic, logistic_bound

# A posterior warns that its variances are too small where the median count times the dispersion is
# larger than this.
LOOSE_BOUND_COUNT = 25.0


@stored
@attrs.frozen
class NegativeBinomial(
    CountLoss,
    Conjugate,
    TwiceDifferentiable,
    Distribution,
    GaussianBound,
    ExpectedDerivatives,
    LogisticTerms,
):
    """``l(z, y) = (y + 1/dispersion) log(1 + dispersion exp(z)) - y z``: over-dispersed counts.

    Domain: counts 0, 1, 2, ...; the mean is mu = exp(z) and the variance
    ``mu + dispersion mu^2`` (Lawless, Canadian J. Statist. 1987). The negative log-likelihood
    without its terms in y alone. For dispersion towards 0 it is ``Poisson``. A large count
    has less influence than there: a gradient lies between -y and 1 / dispersion. The curvature,
    ``(y + 1/dispersion) / 4`` at most, has no bound over all counts: backends with fixed steps
    cannot run it, ``proximal`` finds its steps by backtracking.

    Parameters
    ----------
    dispersion : float
        Positive, from 1e-150 to 1e150; (variance - mean) / mean^2 of a count. It is not fitted:
        take it from repeated counts, or choose it by prediction. Below 0.1 the
        variances of z under ``mc.posterior`` are too small. At 0.01 and a mean of 1 the precision
        of a count is too large by a factor of 11 (see ``gaussian_bound``). ``Poisson`` is the
        better choice there.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.NegativeBinomial(dispersion=1.0).value(np.array([0.0]), np.array([1.0]))
    array([1.38629436])
    """

    dispersion: float = attrs.field(validator=moderate)

    bounded_below = True  # for one count y by its loss at a mean of y

    @property
    def size(self) -> float:
        """1 / dispersion, the r of the distribution: the number of failures, if whole."""
        return 1.0 / self.dispersion

    def logit(self, z: Array) -> Array:
        """t = z + log(dispersion): 1 / (1 + exp(-t)) is the distribution's probability."""
        return z + np.log(self.dispersion)

    @property
    def infimum(self) -> float:
        """0 for dispersion >= 1, where no summand of ``value`` is negative; else -inf."""
        return 0.0 if self.dispersion >= 1.0 else -np.inf

    def value(self, z: Array, y: Array) -> Array:
        """r log(1 + e^t) + y log(1 + e^-t) + y log(dispersion)."""
        # As l is stated, two large numbers of almost one size would be subtracted far out.
        t = self.logit(z)
        rest = y * (np.logaddexp(0.0, -t) + np.log(self.dispersion))
        return self.size * np.logaddexp(0.0, t) + rest

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its gradient r p - y (1 - p), p = 1 / (1 + e^-t)."""
        t = self.logit(z)
        return self.value(z, y), self.size * expit(t) - y * expit(-t)

    def second_derivative(self, z: Array, y: Array) -> Array:
        """(r + y) p (1 - p)."""
        t = self.logit(z)
        return (self.size + y) * (expit(t) * expit(-t))

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """u log p + v log(1 - p) - u log(dispersion), p = u / (u + v), else inf.

        u = y + gradient and v = r - gradient must not be negative: a domain that holds 0, for y =
        0 too, where 0 is its lower end.
        """
        u, v = y + gradient, self.size - gradient
        inside = (u >= -1e-14 * np.maximum(1.0, y)) & (v >= -1e-14 * self.size)
        u, v = np.maximum(u, 0.0), np.maximum(v, 0.0)
        t = np.log(np.maximum(u, TINY)) - np.log(np.maximum(v, TINY))
        # 0 log 0 is 0, and not the TINY that stands in for it: a bound is compared with 0.
        entropy = u * np.logaddexp(0.0, -t) + v * np.logaddexp(0.0, t)
        entropy = np.where((u > 0.0) & (v > 0.0), entropy, 0.0)
        return np.where(inside, -entropy - u * np.log(self.dispersion), np.inf)

    def nearest_gradient(self, gradient: Array, y: Array) -> Array:
        """At least -y, and at most the size."""
        return np.clip(gradient, -y, self.size)

    def sample(self, z: Array, rng: np.random.Generator) -> Array:
        """A Poisson count whose mean is a gamma draw with mean exp(z) and shape r."""
        rate = rng.gamma(self.size, self.dispersion * self.mean(z))
        return poisson_counts(rate, rng)

    def log_likelihood(self, z: Array, y: Array) -> Array:
        """The log of the mass Gamma(y + r) / (Gamma(r) y!) p^y (1 - p)^r."""
        return self.log_coefficient(y) + y * np.log(self.dispersion) - self.value(z, y)

    def log_coefficient(self, y: Array) -> Array:
        """The log of Gamma(y + r) / (Gamma(r) y!)."""
        # By the beta function, so that no large logs cancel.
        return np.asarray(-betaln(self.size, y + 1.0) - np.log(y + self.size))

    def cdf(self, z: Array, y: Array) -> Array:
        """The sum of the masses up to y, by the incomplete beta function."""
        count, t = np.maximum(np.floor(y), 0.0), self.logit(z)
        # By the smaller of both probabilities: the other one rounds to 1.
        below = betainc(self.size, count + 1.0, expit(-t))
        above = betaincc(count + 1.0, self.size, expit(t))
        return np.where(y >= 0.0, np.where(t > 0.0, below, above), 0.0)

    def quantile(self, z: Array, probability: Array) -> Array:
        """The least count whose distribution function reaches the probability."""
        near = nbdtrik(probability, self.size, expit(-self.logit(z)))
        return least_count(partial(self.cdf, z), near, probability)

    def response_variance(self, z: Array) -> Array:
        """mu + dispersion mu^2 at mu = exp(z)."""
        with np.errstate(over="ignore"):
            mean = self.mean(z)
            return mean + self.dispersion * np.square(mean)

    def gaussian_bound(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array, Array]:
        """The bound of Jaakkola and Jordan (2000) of y successes and r failures at t.

        ``log p = log_coefficient + y log s(t) + r log s(-t)`` with ``t = z + log(dispersion)``
        and s(t) = 1 / (1 + exp(-t)). Below a dispersion of 0.1, where the distribution is almost
        Poisson, the bound is valid and loose. For z of variance 0.1 around the logs of 1, 5 and
        20 it loses 0.05, 0.01 and 0.03 nats an entry at a dispersion of 0.1, 0.49, 0.55 and 0.40
        at 0.01, and 3.6, 4.4 and 5.3 at 0.001, where its precision is 72, 19 and 6 times the
        curvature: posteriors are too sure. Take ``Poisson`` there, whose predictors get a noise
        that is learned.
        """
        r = np.full_like(y, self.size)
        value, precision, constant = logistic_bound(self.logit(mean), variance, y, r)
        return value - np.log(self.dispersion), precision, constant + self.log_coefficient(y)

    def expected_derivatives(self, mean: Array, variance: Array, y: Array) -> tuple[Array, Array]:
        """y - (y + r) E s(t) and (y + r) E s'(t) with t = z + log(dispersion)."""
        probability, bend = expected_logistic(self.logit(mean), variance)
        return y - (y + self.size) * probability, (y + self.size) * bend

    def logistic_terms(self, y: Array) -> tuple[Array, Array, Array, Array]:
        """r failures and y successes at -log(dispersion)."""
        weights, factors = np.stack([np.full(y.size, self.size), y]), np.ones((2, y.size))
        factors[1] = -1.0
        edge = -np.log(self.dispersion)
        return weights, factors, np.full((2, y.size), edge), -y * edge

    def looseness(self, y: Array) -> str | None:
        """A warning of counts many times 1 / dispersion, whose log p is far from any parabola."""
        middle = float(np.median(y)) if y.size else 0.0
        if middle * self.dispersion <= LOOSE_BOUND_COUNT:
            return None
        return (
            f"half of the counts are at least {middle:g}, where a posterior by NegativeBinomial is"
            " too sure and its intervals are too short; take Gamma of shape"
            f" 1 / dispersion of the counts + 1/2, or {wording().word('Gaussian', variance=None)}"
            " of log(counts + 1)"
        )

    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """(y + r) logistic(z + log(dispersion)) - y z."""
        softplus = cp.logistic(z + float(np.log(self.dispersion)))
        return cp.multiply(y + self.size, softplus) - cp.multiply(y, z)

    def formula(self, z: str, y: str) -> str:
        """(y + r) log(1 + dispersion exp(z)) − y z."""
        return f"(({y} + {self.size:g}) log(1 + {self.dispersion:g} exp({z})) − {y} ({z}))"
