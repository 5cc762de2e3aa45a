"""Likelihoods beside scipy's distributions, far out, and their conjugates beside a grid."""

import attrs
import numpy as np
import pytest
from scipy import stats
from scipy.special import log_ndtr

import mcframe as mc
from mcframe import likelihoods
from mcframe.contracts import Distribution

from .catalogue import DISTRIBUTIONS, TIMES, Z

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("word", "z", "y", "expected"), DISTRIBUTIONS, ids=[repr(row[0]) for row in DISTRIBUTIONS]
)
def test_log_likelihood_is_that_of_scipy(word, z, y, expected):
    wanted = expected(y, z)
    # Logs of numbers up to 1e6! cancel in both, and scipy's 1 - p of a label rounds.
    np.testing.assert_allclose(word.log_likelihood(z, y), wanted, rtol=1e-9, atol=1e-8)


def test_every_distribution_is_compared():
    words = {name for name in likelihoods.__all__ if issubclass(getattr(mc, name), Distribution)}
    assert words == {type(word).__name__ for word, *_ in DISTRIBUTIONS}


def test_a_wrong_constant_and_a_lost_shape_are_caught():
    @attrs.frozen
    class ForgottenShape(mc.Gamma):
        def log_likelihood(self, z, y):
            return super().log_likelihood(z, y) / self.shape

    with pytest.raises(mc.LawViolation, match="the log-likelihood is the loss"):
        mc.laws.check_likelihood(ForgottenShape(2.0), (0.5, 2.0), (0.0,))


# The largest count, labels and times on the wrong side, and what the loss is there by its
# asymptotics: nothing may overflow where the answer is a number.
FAR = 1e4
HALF_LOG_2_PI = 0.5 * np.log(2.0 * np.pi)
EXTREMES = [
    (mc.Bernoulli(), FAR, 0.0, FAR, 1.0),
    (mc.Bernoulli(), -FAR, 1.0, FAR, -1.0),
    (mc.Bernoulli(), FAR, 1.0, 0.0, 0.0),
    (mc.Bernoulli("probit"), FAR, 0.0, -log_ndtr(-FAR), FAR + 1 / FAR),
    (mc.Bernoulli("probit"), -FAR, 1.0, FAR**2 / 2 + np.log(FAR) + HALF_LOG_2_PI, -FAR - 1 / FAR),
    (mc.Bernoulli("probit"), FAR, 1.0, 0.0, 0.0),
    (mc.Bernoulli("probit"), -FAR, 0.0, 0.0, 0.0),
    (mc.Bernoulli("probit", scale=1e-3), -FAR, 1.0, 0.5e14, -1e10),
    (mc.Bernoulli("probit", scale=1e3), -FAR, 1.0, -log_ndtr(-10.0), -0.010098093233962512),
    (mc.Poisson(), -FAR, 1e6, 1e10, -1e6),
    (mc.Poisson(), FAR, 1e6, np.inf, np.inf),
    (mc.NegativeBinomial(0.5), -FAR, 1e6, 1e10, -1e6),
    (mc.NegativeBinomial(0.5), FAR, 1e6, 2 * FAR - (2 + 1e6) * np.log(2), 2.0),
    (mc.NegativeBinomial(0.5), FAR, 0.0, 2 * (FAR - np.log(2)), 2.0),
    (mc.NegativeBinomial(0.5), -FAR, 0.0, 0.0, 0.0),
    # So little dispersion that it is Poisson.
    (mc.NegativeBinomial(1e-12), 3.0, 20.0, np.exp(3.0) - 60.0, np.exp(3.0) - 20.0),
    (mc.Exponential(), FAR, 1e6, FAR, 1.0),
    (mc.Exponential(), -FAR, 1e-6, np.inf, -np.inf),
    (mc.Gamma(50.0), FAR, 1e6, 50 * FAR, 50.0),
    (mc.Gamma(50.0), -FAR, 1e-6, np.inf, -np.inf),
]


@pytest.mark.parametrize(("word", "z", "y", "value", "gradient"), EXTREMES, ids=repr)
def test_far_out(word, z, y, value, gradient):
    z, y = np.array([z]), np.array([y])
    with np.errstate(all="raise", under="ignore"):
        found, found_gradient = word.value_and_gradient(z, y)
        np.testing.assert_allclose(found, value, rtol=1e-9, atol=1e-300)
        np.testing.assert_allclose(word.value(z, y), value, rtol=1e-9, atol=1e-300)
        np.testing.assert_allclose(found_gradient, gradient, rtol=1e-9, atol=1e-300)
        second = word.second_derivative(z, y)
        assert 0.0 <= second[0] <= word.curvature
        assert not np.isnan(word.mean(z))
        assert not np.isnan(word.log_likelihood(z, y))
        if np.isfinite(found_gradient[0]):
            conjugate = word.conjugate(found_gradient, y)
            assert np.isfinite(conjugate)
            # The sum of products of this size rounds to so much.
            size = 1e-15 * (np.abs(found_gradient * z) + np.abs(found) + 1.0)
            assert np.abs(conjugate - (found_gradient * z - found)) <= 20 * size * (1 + y)


def test_probit_far_out_has_the_curvature_of_a_square():
    margins = np.array([-1e8, -1e4, -101.0, -99.0, -30.0])
    found = mc.Bernoulli("probit").second_derivative(margins, np.ones(5))
    u = margins**-2.0
    np.testing.assert_allclose(found, 1 - u + 6 * u**2 - 50 * u**3 + 518 * u**4, rtol=2e-10)


@pytest.mark.parametrize("scale", [1.0, 0.2, 40.0])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_probit_is_scipy_at_every_margin(scale, sign):
    margins = np.concatenate([-np.logspace(4, -8, 200), [0.0], np.logspace(-8, 4, 200)])
    word, y = mc.Bernoulli("probit", scale=scale), np.full(margins.size, (1 + sign) / 2)
    value, gradient = word.value_and_gradient(sign * scale * margins, y)
    np.testing.assert_allclose(value, -log_ndtr(margins), rtol=1e-12, atol=1e-300)
    log_ratio = stats.norm.logpdf(margins) - log_ndtr(margins)
    wanted = -sign / scale * np.exp(log_ratio)
    # The difference of two logs of up to 5e7 loses digits that the gradient keeps.
    tolerance = 1e-12 + 4e-16 * np.abs(stats.norm.logpdf(margins))
    assert np.all(np.abs(gradient - wanted) <= tolerance * np.abs(wanted) + 1e-300)


GRADIENTS = [
    (mc.Bernoulli("probit"), 1.0, [-1e-9, -0.01, -0.5, -0.8, -1.0, -7.0, -30.0]),
    (mc.Bernoulli("probit"), 0.0, [1e-9, 0.01, 0.5, 30.0]),
    (mc.Bernoulli("probit", scale=4.0), 1.0, [-0.001, -0.3, -2.0]),
    (mc.Bernoulli("probit", scale=0.1), 0.0, [0.1, 3.0, 100.0]),
    (mc.Bernoulli(), 1.0, [-1e-6, -0.3, -0.999]),
    (mc.Poisson(), 3.0, [-2.9, -0.5, 0.0, 4.0]),
    (mc.NegativeBinomial(0.5), 3.0, [-2.99, -1.0, 0.0, 1.0, 1.99]),
    (mc.NegativeBinomial(0.5), 0.0, [1e-6, 1.0, 1.999]),
    (mc.NegativeBinomial(10.0), 200.0, [-199.0, -0.3, 0.0, 0.09]),
    (mc.NegativeBinomial(1e-4), 5.0, [-4.0, 0.0, 30.0]),
    (mc.Exponential(), 0.3, [-50.0, -1.0, 0.0, 0.5, 0.999]),
    (mc.Exponential(), 1e4, [-1.0, 0.0, 0.9]),
    (mc.Gamma(0.3), 2.0, [-5.0, 0.0, 0.29]),
    (mc.Gamma(60.0), 1e-3, [-5.0, 0.0, 59.0]),
]


@pytest.mark.parametrize(("word", "y", "gradients"), GRADIENTS, ids=repr)
def test_conjugate_is_the_highest_of_a_dense_grid(word, y, gradients):
    z = np.linspace(-60.0, 60.0, 1_200_001)
    value = word.value(z, np.full_like(z, y))
    for gradient in gradients:
        highest = np.max(gradient * z - value)
        found = word.conjugate(np.array([gradient]), np.array([y]))[0]
        # Between two points the best one is missed by at most curvature * step^2 / 8.
        near = z[np.argmax(gradient * z - value)]
        bend = word.second_derivative(np.array([near]), np.array([y]))[0]
        rounding = 1e-12 * (1 + abs(highest))
        assert highest <= found + rounding
        assert found <= highest + 2.0 * bend * 1e-8 / 8 + rounding


ENDS = [
    (mc.Bernoulli("probit"), 1.0, (-np.inf, 0.0)),
    (mc.Bernoulli("probit"), 0.0, (0.0, np.inf)),
    (mc.Bernoulli(scale=0.5), 1.0, (-2.0, 0.0)),
    (mc.Poisson(), 4.0, (-4.0, np.inf)),
    (mc.Poisson(), 0.0, (0.0, np.inf)),
    (mc.NegativeBinomial(0.25), 3.0, (-3.0, 4.0)),
    (mc.NegativeBinomial(0.25), 0.0, (0.0, 4.0)),
    (mc.Exponential(), 0.7, (-np.inf, 1.0)),
    (mc.Gamma(3.0), 0.7, (-np.inf, 3.0)),
]


@pytest.mark.parametrize(("word", "y", "ends"), ENDS, ids=repr)
def test_the_domain_of_the_conjugate_ends_where_gradients_do_and_holds_0(word, y, ends):
    def conjugate(gradient):
        return word.conjugate(np.array([gradient]), np.array([y]))[0]

    low, high = ends
    assert low <= 0.0 <= high
    assert np.isfinite(conjugate(0.0))
    for end, outwards in ((low, -1.0), (high, 1.0)):
        if np.isfinite(end):
            assert np.isfinite(conjugate(end))
            assert conjugate(end + outwards * 1e-9) == np.inf
            # Up to its end the conjugate is continuous.
            inwards = conjugate(end - outwards * 1e-12)
            np.testing.assert_allclose(inwards, conjugate(end), atol=1e-9)
        else:
            assert np.isfinite(conjugate(outwards * 1e6))


def test_exponential_is_gamma_of_shape_1():
    exponential, gamma = mc.Exponential(), mc.Gamma(1.0)
    for name in ("value", "second_derivative", "log_likelihood"):
        one, other = (getattr(word, name)(Z, TIMES) for word in (exponential, gamma))
        np.testing.assert_allclose(one, other, rtol=1e-14)
    gradient = exponential.value_and_gradient(Z, TIMES)[1]
    np.testing.assert_allclose(
        exponential.conjugate(gradient, TIMES), gamma.conjugate(gradient, TIMES), rtol=1e-13
    )


def test_samples_of_tiny_means_stay_in_the_domain():
    rng = np.random.default_rng(0)
    for word in (mc.Exponential(), mc.Gamma(1e-3), mc.Gamma(2.0)):
        draws = word.sample(np.full(10_000, -740.0), rng)
        assert not np.any(word.invalid(draws))


def test_spread_of_samples():
    z = np.full(200_000, np.log(5.0))
    for word, variance in (
        (mc.NegativeBinomial(0.4), 5.0 + 0.4 * 25.0),
        (mc.Gamma(4.0), 25.0 / 4.0),
        (mc.Exponential(), 25.0),
    ):
        draws = word.sample(z, np.random.default_rng(1))
        assert np.var(draws) == pytest.approx(variance, rel=0.03)


def test_a_probit_bound_that_passes_above_the_loss_is_caught():
    @attrs.frozen
    class HighBound(mc.Bernoulli):
        def statement(self, cp, z, y, *, near=None, **options):
            bound, constraints = super().statement(cp, z, y, near=near, **options)
            return bound if near is None else bound + 1e-6, constraints

    with pytest.raises(mc.LawViolation, match="the expression is a bound"):
        mc.laws.check_likelihood(HighBound("probit"), (0.0, 1.0), (0.5,))


def test_an_approximation_that_claims_to_be_exact_is_caught():
    @attrs.frozen
    class Boastful(mc.Bernoulli):
        def statement_error(self, near, z, y):
            return np.zeros_like(z)

    with pytest.raises(mc.LawViolation, match="the expression is the definition"):
        mc.laws.check_likelihood(Boastful("probit"), (0.0, 1.0), (0.5,))


@pytest.mark.parametrize("scale", [1.0, 1 / 7, 30.0])
def test_the_probit_bound_closes_with_the_cube_of_the_spread(scale):
    word = mc.Bernoulli("probit", scale=scale)
    near = scale * np.linspace(-20.0, 6.0, 500)
    y = np.ones(near.size)
    for spread in (0.3, 1e-2, 1e-3):
        for side in (-1.0, -0.3, 0.7, 1.0):
            moved = near + side * scale * spread
            error = word.statement_error((near, scale * spread), moved, y)
            rounding = 1e-14 * (1.0 + word.value(moved, y))
            assert np.all(error <= 0.15 * spread**3 + rounding)


def test_the_conjugate_of_counts_of_nothing_is_exactly_0():
    """A stand-in of 1e-308 for 0 log 0 put a bound above an objective of 0."""
    found = mc.NegativeBinomial(0.5).conjugate(np.zeros(2), np.zeros(2))
    assert np.array_equal(found, np.zeros(2))
