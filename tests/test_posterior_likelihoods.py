"""Bounds below likelihoods, expectations and distribution functions: what a posterior asks for."""

import warnings

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import ndtri

import mcframe as mc
from mcframe import likelihoods
from mcframe.contracts import Distribution, ExpectedLogLikelihood, GaussianBound
from mcframe.laws.likelihood_laws import below, expected_bound
from mcframe.likelihoods.multinomial import best_shift
from mcframe.numerics.gaussian_bounds import best_gaussian, increasing_root, logistic_bound
from mcframe.partitions.partitioned_data import RowsInMemory

from .catalogue import LIKELIHOODS

BOUNDED = [
    entry
    for entry in LIKELIHOODS
    if isinstance(entry.word, GaussianBound)
    and entry.word.why_no_posterior is None
    and getattr(entry.word, "thresholds", 0) is not None
]
SINGLE = [entry for entry in BOUNDED if entry.word.width == 1]
EXPECTED = [entry for entry in LIKELIHOODS if isinstance(entry.word, ExpectedLogLikelihood)]


def test_every_distribution_has_a_bound_or_an_expectation():
    for name in likelihoods.__all__:
        word = getattr(mc, name)
        found = issubclass(word, GaussianBound) + issubclass(word, ExpectedLogLikelihood)
        assert found == issubclass(word, Distribution), name


# --- Parabolas below the log likelihood


sizes = st.floats(-4.0, 8.0).map(lambda power: 10.0**power)
signs = st.sampled_from([-1.0, 1.0])


@pytest.mark.parametrize("entry", SINGLE, ids=lambda entry: repr(entry.word))
@given(mean=sizes, sign=signs, variance=st.floats(-9.0, 12.0), numbers=st.integers(0, 99))
def test_no_parabola_lies_above(entry, mean, sign, variance, numbers):
    """At any size of mean, variance and predictor, relative to the unit of the likelihood."""
    rng = np.random.default_rng(numbers)
    z = entry.scale * rng.choice([-1.0, 1.0], 30) * 10.0 ** rng.uniform(-5.0, 6.0, 30)
    y = rng.choice(entry.values, 30)
    mean = np.full(30, sign * mean * entry.scale)
    z[::2] += mean[::2]
    answers = entry.word.gaussian_bound(mean, np.full(30, 10.0**variance * entry.scale**2), y)
    assert all(np.all(np.isfinite(answer)) for answer in answers)
    log_likelihood, constant = entry.word.log_likelihood(z, y), answers[2]
    gap = log_likelihood - below(*answers, z, y)
    assert np.all(gap >= -1e-9 * (1.0 + np.abs(log_likelihood) + np.abs(constant)))


@given(
    classes=st.integers(2, 7),
    size=st.floats(-4.0, 5.0),
    variance=st.floats(-8.0, 6.0),
    seed=st.integers(0, 999),
)
def test_no_parabola_of_classes_lies_above(classes, size, variance, seed):
    rng = np.random.default_rng(seed)
    word, y = mc.Multinomial(classes), rng.integers(0, classes, 12).astype(float)
    mean = 10.0**size * rng.standard_normal((12, classes))
    answers = word.gaussian_bound(mean, 10.0**variance * rng.random((12, classes)), y)
    for distance in (0.0, 1e-3, 1.0, 30.0, 1e4):
        z = mean + distance * rng.standard_normal(mean.shape)
        gap = word.log_likelihood(z, y) - below(*answers, z, y)
        assert np.all(gap >= -1e-9 * (1.0 + np.abs(mean).max() + np.abs(answers[2])))


def test_the_shift_of_classes_is_the_best():
    """Beside a dense scan of what the bound of every class costs."""
    rng = np.random.default_rng(0)
    for size in (0.0, 0.1, 3.0, 100.0):
        mean, sd = size * rng.standard_normal((5, 4)), rng.random((5, 4)) * (1.0 + size)

        def cost(alpha, mean=mean, sd=sd):
            away = mean - alpha[:, None]
            value, precision, constant = logistic_bound(
                away, sd**2, np.zeros_like(away), np.ones_like(away)
            )
            expected = constant - 0.5 * precision * ((away - value) ** 2 + sd**2)
            return alpha - expected.sum(axis=1)

        found = cost(best_shift(mean, sd))
        for alpha in np.linspace(-4.0 * size - 5.0, 4.0 * size + 5.0, 2001):
            assert np.all(found <= cost(np.full(5, alpha)) + 1e-10 * (1.0 + size))


def test_of_classes_the_better_bound_is_taken():
    """The tangent parabola touches where no variance is left; Bouchard's wins at large ones."""
    word, mean, y = mc.Multinomial(4), np.zeros((1, 4)), np.zeros(1)
    assert np.all(word.gaussian_bound(mean, np.full_like(mean, 1e-3), y)[1] == 0.5)
    assert np.all(word.gaussian_bound(mean, np.full_like(mean, 100.0), y)[1] < 0.25)


LOG_EVIDENCE = [
    (mc.Gaussian(0.3), 1.4, 0.0),
    (mc.Bernoulli(), 1.0, 0.05),
    (mc.Bernoulli(scale=0.3), 0.0, 0.16),
    (mc.Bernoulli("probit"), 1.0, 0.16),
    (mc.Ordinal(4, (-1.0, 0.0, 1.5)), 3.0, 0.05),
    (mc.Ordinal(4, (-1.0, 0.0, 1.5)), 1.0, 0.05),
    (mc.NegativeBinomial(1.0), 3.0, 0.1),
    (mc.Huber(0.8), 4.0, 0.12),
    (mc.Quantile(0.3), 0.4, 0.1),
]


@pytest.mark.parametrize(("word", "y", "most"), LOG_EVIDENCE, ids=lambda value: repr(value))
def test_the_evidence_is_bounded_and_rises(word, y, most, record_property):
    """Beside the integral of prior N(0, 1) times likelihood, update by update."""
    y = np.array([y])

    def joint(z):
        density = np.exp(word.log_likelihood(np.array([z]), y)[0])
        return stats.norm.pdf(z) * density

    truth = np.log(quad(joint, -12.0, 12.0, points=[-1.0, 0.0, float(y[0])], limit=200)[0])
    mean, variance, reached = np.array([2.0]), np.array([4.0]), -np.inf
    for _ in range(60):
        value, precision, constant = word.gaussian_bound(mean, variance, y)
        inflated = 1.0 + precision
        evidence = float(
            (constant - 0.5 * (precision / inflated * value**2 + np.log(inflated)))[0]
        )
        assert reached - 1e-12 <= evidence <= truth + 1e-9
        mean, variance, reached = precision * value / inflated, 1.0 / inflated, evidence
    record_property(f"log evidence lost, {word!r}", f"{truth - reached:.4f}")
    assert truth - reached <= most + 1e-9


@pytest.mark.parametrize(
    ("word", "y"),
    [(mc.Gaussian(2.5), 7.0), (mc.Gaussian(1e-150), -3.0), (mc.Gaussian(1e150), 0.0)],
)
def test_of_a_gaussian_it_is_the_likelihood(word, y):
    y = np.array([y])
    value, precision, constant = word.gaussian_bound(y + 4.0, y**2, y)
    assert (value, precision) == (y, 1.0 / word.variance)
    np.testing.assert_allclose(constant, word.log_likelihood(y, y), rtol=1e-14)


def test_probit_far_on_the_wrong_side_keeps_its_digits():
    """At the mean it touches; value and constant are those of the asymptotic series."""
    m = -(10.0 ** np.arange(2.0, 9.0))
    zero = np.zeros_like(m)
    value, precision, constant = mc.Bernoulli("probit").gaussian_bound(m, zero, zero + 1.0)
    series = -1.0 / m * (1.0 - 2.0 / m**2 + 10.0 / m**4)
    np.testing.assert_allclose(value, series, rtol=1e-9)
    np.testing.assert_allclose(constant, 1.0 - np.log(-m) - 0.5 * np.log(2 * np.pi), atol=1e-3)
    assert np.all(precision == 1.0)


def test_thresholds_and_predictors_raise_the_evidence_together():
    """From two starts to the same end, a prior N(0, 4) on every predictor."""
    rng = np.random.default_rng(0)
    prior = np.full(200, 4.0)
    y = mc.Ordinal(5, (-2.0, -1.0, 0.5, 1.5)).sample(2.0 * rng.standard_normal(200), rng)
    ends = []
    for start in ((-1.0, -0.5, 0.5, 1.0), (-3.0, -2.9, 0.0, 4.0)):
        word, mean, variance, reached = mc.Ordinal(5, start), np.zeros(200), prior, -np.inf
        for _ in range(60):
            value, precision, _ = word.gaussian_bound(mean, variance, y)
            inflated = 1.0 + precision * prior
            mean, variance = prior * precision * value / inflated, prior / inflated
            thresholds = word.best_parameters(
                mean, y, np.ones(200), np.array(word.thresholds), np.sqrt(variance)
            )
            word = word.with_parameters(thresholds)
            bound = expected_bound(word, (mean, variance), (mean, variance), y)
            divergence = 0.5 * ((mean**2 + variance) / prior - 1.0 - np.log(variance / prior))
            evidence = float(np.sum(bound - divergence))
            assert evidence >= reached - 1e-10 * abs(evidence)
            reached = evidence
        ends.append(reached)
    assert ends[0] == pytest.approx(ends[1], abs=1e-6)


# --- Planted faults


@attrs.frozen
class WrongSign(mc.Bernoulli):
    """The value on the side of the other label."""

    def gaussian_bound(self, mean, variance, y):
        value, precision, constant = super().gaussian_bound(mean, variance, y)
        return -value, precision, constant


@attrs.frozen
class SmallPrecision(mc.Bernoulli):
    """The second derivative at the mean: the approximation of Laplace, which is no bound."""

    def gaussian_bound(self, mean, variance, y):
        value, gradient = self.value_and_gradient(mean, y)
        precision = self.second_derivative(mean, y) + 1e-6
        return mean - gradient / precision, precision, -value + gradient**2 / (2 * precision)


@attrs.frozen
class LostConstant(mc.Huber):
    """The density without its integral."""

    def gaussian_bound(self, mean, variance, y):
        value, precision, constant = super().gaussian_bound(mean, variance, y)
        return value, precision, constant + 0.1


@attrs.frozen
class ForgottenVariance(mc.Bernoulli):
    """xi^2 = mean^2: a bound, and not the best one."""

    def gaussian_bound(self, mean, variance, y):
        return super().gaussian_bound(mean, np.zeros_like(variance), y)


@attrs.frozen
class LooseBound(mc.Quantile):
    """Too low by a constant."""

    def gaussian_bound(self, mean, variance, y):
        value, precision, constant = super().gaussian_bound(mean, variance, y)
        return value, precision, constant - 0.01


@attrs.frozen
class UpdatesThatFall(mc.Huber):
    """The weight of the residual at the mean alone."""

    def gaussian_bound(self, mean, variance, y):
        return super().gaussian_bound(mean, 1e4 * variance, y)


@attrs.frozen
class InfiniteFarOut(mc.Bernoulli):
    """exp(xi) as it is written."""

    def gaussian_bound(self, mean, variance, y):
        with np.errstate(all="ignore"):
            value, precision, constant = super().gaussian_bound(mean, variance, y)
            return value, precision, constant + 0.0 * np.exp(np.abs(mean))


@attrs.frozen
class HarmfulBound(mc.Gaussian):
    """Gives its argument away."""

    def gaussian_bound(self, mean, variance, y):
        value, precision, constant = super().gaussian_bound(mean, variance, y)
        mean += 1.0
        return value, precision, constant


@attrs.frozen
class WrongCdf(mc.Poisson):
    """P(Y < y) for P(Y <= y)."""

    def cdf(self, z, y):
        return super().cdf(z, y - 1.0)


@attrs.frozen
class WrongQuantile(mc.Gamma):
    """Forgets the shape."""

    def quantile(self, z, probability):
        return -np.exp(z) * np.log1p(-probability)


@attrs.frozen
class WrongVariance(mc.NegativeBinomial):
    """Poisson's."""

    def response_variance(self, z):
        return self.mean(z)


@attrs.frozen
class HalfTheVariance(mc.Poisson):
    """E exp(z) without half the variance."""

    def expected_log_likelihood(self, mean, variance, y):
        return super().expected_log_likelihood(mean, 0.0 * variance, y)


@attrs.frozen
class WrongExponent(mc.Gamma):
    """The exponential of z for that of -z."""

    def exponential_form(self, y):
        linear, rate, sign, constant = super().exponential_form(y)
        return linear, rate, -sign, constant


@attrs.frozen
class ThresholdsAtMeans(mc.Ordinal):
    """Thresholds that take the means for the predictors."""

    def parameter_sums(self, z, y, weights, sd=None):
        return super().parameter_sums(z, y, weights)


def test_thresholds_at_means_are_caught():
    with pytest.raises(mc.LawViolation, match="the expected parameters are best"):
        mc.laws.check_likelihood(ThresholdsAtMeans(3), (1.0, 2.0, 3.0), (0.0,))


BOUND = "the Gaussian bound"


@pytest.mark.parametrize(
    ("word", "law"),
    [
        (WrongSign(), f"{BOUND} is one"),
        (SmallPrecision(), f"{BOUND} is one"),
        (LostConstant(), f"{BOUND} is one"),
        (LooseBound(0.3), f"{BOUND} is one"),
        (HarmfulBound(), f"{BOUND} is one"),
        (ForgottenVariance(), f"{BOUND} is the best"),
        (UpdatesThatFall(), f"{BOUND} is the best"),
        (InfiniteFarOut(), f"{BOUND} is finite"),
        (WrongCdf(), "the cdf sums the density"),
        (WrongQuantile(2.0), "the cdf sums the density"),
        (WrongVariance(1.0), "samples match"),
        (HalfTheVariance(), "the exponential form"),
        (WrongExponent(2.0), "the exponential form"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_fault_is_caught(word, law):
    with pytest.raises(mc.LawViolation, match=law):
        mc.laws.check_likelihood(
            word, (1.0,) if word.z_name == "the log of the mean" else (0.0, 1.0)
        )


# --- Expectations of exponentials


def evidence(word, prior_mean, prior_variance, y, m, v):
    expected = word.expected_log_likelihood(m, v, y)[0]
    return expected - 0.5 * (((m - prior_mean) ** 2 + v) / prior_variance - np.log(v))


@pytest.mark.parametrize(
    ("word", "ys"),
    [
        (mc.Poisson(), (0.0, 1.0, 40.0, 1e6)),
        (mc.Gamma(0.3), (1e-6, 1.0, 1e6)),
        (mc.Gamma(50.0), (2.0,)),
    ],
    ids=repr,
)
def test_the_best_gaussian_is_stationary_at_every_scale(word, ys):
    """Both derivatives vanish, to the rounding of what they are the sum of."""
    grid = np.meshgrid([-300.0, -5.0, 0.0, 4.0, 200.0], 10.0 ** np.arange(-9.0, 7.0), ys)
    prior_mean, s, y = (axis.ravel() for axis in grid)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        m, v = best_gaussian(word, prior_mean, s, y)
    assert np.all(np.isfinite(m))
    assert np.all((v > 0.0) & (v <= s))
    _, d_mean, d_variance = word.expected_log_likelihood(m, v, y)
    linear = word.exponential_form(y)[0]
    # exp(m) is known as well as m is: to so many units in its last place.
    size = 1e-15 * (10.0 + np.abs(m) + np.abs(prior_mean) + 0.5 * v)
    expected = -2.0 * d_variance
    scale = size * (expected + np.abs(linear)) + 1e-14 * (np.abs(m) + np.abs(prior_mean)) / s
    assert np.all(np.abs(d_mean - (m - prior_mean) / s) <= 20.0 * scale)
    curvature = expected + 1.0 / s
    assert np.all(np.abs(1.0 / v - curvature) <= 20.0 * (size * expected + 1e-15 * curvature))


def test_the_best_gaussian_beside_a_search():
    rng = np.random.default_rng(4)
    for word, ys in ((mc.Poisson(), (0.0, 3.0, 50.0)), (mc.Gamma(2.0), (0.1, 8.0))):
        for y in ys:
            prior_mean, s, y = (
                np.array([rng.normal()]),
                np.array([10 ** rng.normal()]),
                np.array([y]),
            )

            def loss(point, word=word, prior_mean=prior_mean, s=s, y=y):
                at = np.array([point[0]]), np.array([np.exp(point[1])])
                return -evidence(word, prior_mean, s, y, *at)[0]

            found = minimize(
                loss,
                [0.0, 0.0],
                method="Nelder-Mead",
                options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 4000},
            )
            m, v = best_gaussian(word, prior_mean, s, y)
            assert loss([m[0], np.log(v[0])]) <= found.fun + 1e-11 * (1.0 + abs(found.fun))
            np.testing.assert_allclose([m[0], np.log(v[0])], found.x, atol=1e-4)


@given(
    prior_mean=st.floats(-50.0, 50.0),
    power=st.floats(-9.0, 6.0),
    y=st.sampled_from([0.0, 1.0, 17.0, 1e6]),
    start=st.tuples(st.floats(-30.0, 30.0), st.floats(-9.0, 3.0)),
)
def test_no_start_is_better(prior_mean, power, y, start):
    word, s = mc.Poisson(), np.array([10.0**power])
    prior_mean, y = np.array([prior_mean]), np.array([y])
    at = np.array([start[0]]), np.array([10.0 ** start[1]])
    found = evidence(word, prior_mean, s, y, *best_gaussian(word, prior_mean, s, y))
    given_start = evidence(word, prior_mean, s, y, *at)
    assert np.all(found >= given_start - 1e-12 * (1.0 + np.abs(given_start)))


def test_weights_count_entries_and_zero_leaves_the_prior():
    word, y, s = mc.Poisson(), np.array([3.0, 3.0]), np.array([0.5, 2.0])
    m, v = best_gaussian(word, np.array([1.0, -1.0]), s, y, weights=0.0)
    np.testing.assert_array_equal((m, v), ([1.0, -1.0], s))
    # Twice a count of 3 at rate exp(z) is a count of 6 at rate exp(z + log 2), up to constants.
    twice = best_gaussian(word, np.zeros(2), s, y, weights=2.0)
    moved = best_gaussian(word, np.full(2, np.log(2.0)), s, 2.0 * y)
    np.testing.assert_allclose(twice[0], moved[0] - np.log(2.0), rtol=1e-12)
    np.testing.assert_allclose(twice[1], moved[1], rtol=1e-12)


@given(seed=st.integers(0, 999), power=st.floats(-3.0, 12.0))
def test_roots_of_increasing_functions(seed, power):
    """A steep and flat function at any distance, its bracket far too wide."""
    rng = np.random.default_rng(seed)
    wanted = 10.0**power * rng.standard_normal((3, 4))
    flat = wanted.ravel()

    def steps(x, places):
        away = x - flat[places]
        return away**3 + 1e-3 * np.tanh(away), 3.0 * away**2 + 1e-3 / np.cosh(
            np.minimum(np.abs(away), 50)
        ) ** 2

    found = increasing_root(steps, wanted - 1e9, wanted + 1e13)
    np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-14)


# --- Distribution functions and variances beside scipy's


Z = np.array([-4.0, -0.7, 0.0, 1.3, 3.0])
P = np.array([1e-3, 0.2, 0.5, 0.9, 0.999])


def nbinom(dispersion):
    return lambda z: stats.nbinom(1.0 / dispersion, 1.0 / (1.0 + dispersion * np.exp(z)))


SCIPY = [
    (mc.Gaussian(2.0), lambda z: stats.norm(z, np.sqrt(2.0)), Z[::-1]),
    (mc.Bernoulli(scale=0.5), lambda z: stats.bernoulli(stats.logistic.cdf(z / 0.5)), Z * 0 + 0.0),
    (mc.Bernoulli("probit"), lambda z: stats.bernoulli(stats.norm.cdf(z)), Z * 0.0),
    (mc.Poisson(), lambda z: stats.poisson(np.exp(z)), np.array([0.0, 2.5, 1.0, 7.0, 30.0])),
    (mc.NegativeBinomial(0.3), nbinom(0.3), np.array([0.0, 2.5, 1.0, 7.0, 30.0])),
    (mc.NegativeBinomial(20.0), nbinom(20.0), np.array([0.0, 2.5, 1.0, 7.0, 30.0])),
    (mc.Exponential(), lambda z: stats.expon(scale=np.exp(z)), np.exp(-Z)),
    (mc.Gamma(3.0), lambda z: stats.gamma(3.0, scale=np.exp(z) / 3.0), np.exp(-Z)),
    (mc.Quantile(0.5), lambda z: stats.laplace(z, 2.0), Z[::-1]),
    (
        mc.Quantile(0.2),
        lambda z: stats.laplace_asymmetric(0.5, z, 0.5 / 0.2),
        Z[::-1],
    ),
]


@pytest.mark.parametrize(("word", "beside", "y"), SCIPY, ids=[repr(each[0]) for each in SCIPY])
def test_distribution_functions_are_those_of_scipy(word, beside, y):
    wanted = beside(Z)
    np.testing.assert_allclose(word.cdf(Z, y), wanted.cdf(y), rtol=1e-10)
    np.testing.assert_allclose(word.response_variance(Z), wanted.var(), rtol=1e-12)
    for p in (P, P[::-1]):
        np.testing.assert_allclose(word.quantile(Z, p), wanted.ppf(p), rtol=1e-10)


@pytest.mark.parametrize("delta", [1e-3, 0.3, 1.0, 4.0, 100.0])
def test_the_distribution_of_huber_is_that_of_its_density(delta):
    word, zero = mc.Huber(delta), np.zeros(1)

    def density(r, power=0):
        return r**power * np.exp(word.log_likelihood(zero, np.array([r]))[0])

    def integral(low, high, power=0):
        return quad(density, low, high, args=(power,), epsabs=0.0, epsrel=1e-12, limit=200)[0]

    far = delta + 45.0 / delta
    inner = min(delta, 40.0)
    variance = 2.0 * (integral(0.0, inner, 2) + integral(delta, far, 2) * (delta < 40.0))
    np.testing.assert_allclose(word.response_variance(zero), variance, rtol=1e-9)
    for y in (0.3 * inner, inner, delta + 1.0 / delta):
        beyond = integral(y, max(inner, y)) + integral(max(delta, y), far) * (delta < 40.0)
        y = np.array([y])
        np.testing.assert_allclose(word.cdf(zero, -y), beyond, rtol=1e-9, atol=1e-300)
        np.testing.assert_allclose(word.cdf(zero, y), 1.0 - beyond, rtol=1e-12)
    for p in (1e-12, 0.03, 0.5, 0.8):
        p = np.array([p])
        np.testing.assert_allclose(word.cdf(zero, word.quantile(zero, p)), p, rtol=1e-9)


@pytest.mark.parametrize(
    "word",
    [mc.Poisson(), *map(mc.NegativeBinomial, (1e-10, 1e-6, 0.5, 20.0))],
    ids=repr,
)
def test_quantiles_of_counts_where_the_solvers_of_scipy_give_up(word):
    for z in (-300.0, -30.0, 0.0, 14.0, 20.0, 30.0):
        z, p = np.full(4, z), np.array([1e-8, 0.05, 0.5, 1.0 - 1e-6])
        count = word.quantile(z, p)
        assert np.all(word.cdf(z, count) >= p)
        assert np.all(word.cdf(z, count - 1.0) < p)


def test_levels_and_classes_by_enumeration():
    stars, classes = mc.Ordinal(4, (-1.0, 0.0, 1.5)), mc.Multinomial(3)
    z = np.random.default_rng(5).normal(0.0, 2.0, (6, 3))
    mass = np.exp([stars.log_likelihood(Z, np.full_like(Z, k)) for k in (1.0, 2.0, 3.0, 4.0)])
    levels = np.arange(1.0, 5.0)[:, None]
    mean = (levels * mass).sum(0)
    np.testing.assert_allclose(stars.response_variance(Z), (mass * (levels - mean) ** 2).sum(0))
    for k in range(6):
        np.testing.assert_allclose(stars.cdf(Z, np.full_like(Z, k)), mass[: max(k, 0)].sum(0))
    p = classes.mean(z)
    np.testing.assert_allclose(classes.response_variance(z), p * (1.0 - p))
    for k in (-1.0, 0.0, 1.0, 2.0):
        wanted = p[:, : int(k) + 1].sum(axis=1)
        np.testing.assert_allclose(classes.cdf(z, np.full(6, k)), wanted)
    assert np.array_equal(classes.quantile(z, np.full(6, 1.0 - 1e-12)), np.full(6, 2.0))


# --- A variance that is learned


def test_a_learned_variance_is_declared_and_refused_by_optima():
    model = mc.Model([mc.Block("x", mc.Gaussian(variance=None), bias=True)], [mc.NuclearNorm(1.0)])
    assert repr(mc.Gaussian(variance=None)) == "Gaussian(variance=None)"
    assert "(2 σ_j²) + log σ_j" in str(model)
    assert r"\sigma_j" in model._repr_latex_()
    data = {"x": np.random.default_rng(0).standard_normal((6, 4))}
    for verb in (mc.fit, mc.verify, mc.explain, mc.to_cvxpy, mc.path, mc.weight_max):
        with pytest.raises(
            mc.ModelError, match=r"block 'x': .*None.* mc\.posterior .*variance=1\.0"
        ):
            verb(model, data)
    with pytest.raises(mc.ModelError, match="block 'x': Gaussian"):
        mc.fit(model, RowsInMemory(data, 2))
    with pytest.raises(mc.ModelError, match="learns its variance"):
        mc.Gaussian(None).value(np.zeros(2), np.ones(2))
    with pytest.raises(mc.ModelError, match="learns its variance"):
        mc.RiskMixture(pn=1.0, likelihood=mc.Gaussian(None))


@pytest.mark.parametrize("standardize", [False, True, "robust", "ranks"])
def test_data_are_bound_to_it_in_standard_units(standardize):
    """With weights of 1: a learned variance weighs each column by itself."""
    block = mc.Block("x", mc.Gaussian(None), standardize=standardize)
    rng = np.random.default_rng(1)
    data = {"x": 5.0 + np.array([1.0, 100.0]) * rng.standard_normal((30, 2))}
    table = mc.Problem.bind(mc.Model([block], [mc.NuclearNorm(1.0)]), data).tables["x"]
    if standardize:
        assert np.std(table.values[table.columns == 1]) == pytest.approx(1.0, abs=0.5)
    assert table.weights is None or np.all(table.weights == 1.0)


KINDS_OF_Z = {
    "numbers": (mc.Gaussian(variance=None), lambda z, rng: z + 0.3 * rng.standard_normal(z.shape)),
    "labels": (mc.Bernoulli(), lambda z, rng: 1.0 * (z > 0.0)),
    "counts": (mc.NegativeBinomial(0.5), lambda z, rng: 1.0 * rng.poisson(np.exp(z.clip(-3, 2)))),
    "levels": (mc.Ordinal(4), lambda z, rng: 1.0 + np.rint(z + 1.5).clip(0.0, 3.0)),
}


@pytest.mark.parametrize("method", ["sampler", "variational"])
@pytest.mark.parametrize("kind", list(KINDS_OF_Z))
@pytest.mark.some(1)
def test_intervals_of_predictors_and_means_are_those_of_z(kind, method):
    """By draws of z: what intervals hold, and the law of total variance."""
    rng = np.random.default_rng(0)
    likelihood, observed = KINDS_OF_Z[kind]
    z = rng.standard_normal((25, 2)) @ rng.standard_normal((2, 4))
    y = observed(z, rng)
    y[rng.random(y.shape) < 0.3] = np.nan
    model = mc.Model([mc.Block("y", likelihood)], [mc.NuclearNorm(1.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotConvergedWarning)
        posterior = mc.posterior(model, {"y": y}, factors=2, method=method, max_iter=300)
    engine = posterior.engine
    cells = np.repeat(np.arange(25), 4), np.tile(np.arange(4), 25)
    weights, means, variances = engine.mixture(*cells)
    n_nodes = 40_000 if kind == "counts" else 4000  # means of counts have long tails
    nodes = (np.arange(n_nodes) + 0.5) / n_nodes if len(weights) == 1 else np.array([0.5])
    drawn = means[:, None] + np.sqrt(variances)[:, None] * ndtri(nodes)[:, None]
    likelihoods = engine.likelihoods("y")
    many = likelihoods if len(likelihoods) > 1 else likelihoods * len(drawn)
    of_means = np.concatenate([one.mean(part) for one, part in zip(many, drawn, strict=True)])
    if kind == "numbers":
        noise = np.tile(posterior.noise("y"), 25)
    else:
        noises = [one.response_variance(part) for one, part in zip(many, drawn, strict=True)]
        noise = np.concatenate(noises).mean(axis=0)
    drawn = drawn.reshape(of_means.shape)
    for of, numbers in (("predictor", drawn), ("mean", of_means)):
        lower, upper = (np.ravel(end) for end in posterior.interval("y", 0.8, of=of))
        size = 1e-6 * np.ptp(numbers, axis=0)
        inside = np.mean((numbers >= lower - size) & (numbers <= upper + size), axis=0)
        np.testing.assert_allclose(inside, 0.8, atol=0.02)
        np.testing.assert_allclose(
            np.ravel(posterior.sd("y", of=of)), np.std(numbers, axis=0), rtol=0.03
        )
    total = np.square(posterior.sd("y", of="mean").ravel()) + noise
    np.testing.assert_allclose(np.square(posterior.sd("y")).ravel(), total, rtol=0.03)


def test_the_mean_of_a_standardised_column_is_in_its_units():
    x = 1000.0 + 50.0 * np.outer(np.arange(12.0) - 6.0, [1.0, 2.0, 3.0])
    x[0, 0] = np.nan
    block = mc.Block("x", mc.Gaussian(variance=0.01), standardize=True, bounds=(0.0, None))
    posterior = mc.posterior(mc.Model([block], [mc.NuclearNorm()]), {"x": x})
    ends = [posterior.interval("x", 0.9, [0], [0], of=of) for of in ("predictor", "mean")]
    np.testing.assert_allclose(*ends)
    assert ends[0][0] < posterior.predict("x", [0], [0]) < ends[0][1]
    with pytest.raises(mc.ModelError, match="of='latent' was given; 'observation', 'mean' or"):
        posterior.interval("x", of="latent")
    with pytest.raises(mc.ModelError, match="of='z' was given"):
        posterior.sd("x", of="z")
    classes = mc.Model([mc.Block("c", mc.Multinomial(3))], [mc.NuclearNorm(1.0)])
    posterior = mc.posterior(classes, {"c": np.arange(12.0).reshape(4, 3) % 3})
    with pytest.raises(mc.ModelError, match="classes have a predictor each"):
        posterior.sd("c", of="predictor")
    assert posterior.sd("c", of="mean").shape == (4, 9)


def test_a_duration_whose_mean_underflows_is_zero():
    x = np.array([[1.0, 2.0], [3.0, np.nan], [2.0, 5.0]])
    offset = np.zeros(x.shape)
    offset[1, 1] = -800.0
    model = mc.Model([mc.Block("x", mc.Gamma(2.0))], [mc.NuclearNorm()])
    posterior = mc.posterior(model, {"x": mc.Observations(x, offset=offset)})
    assert posterior.predict("x", [1], [1]) == 0.0
    assert posterior.sd("x", [1], [1]) == 0.0
