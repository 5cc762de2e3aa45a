"""Laws of what a posterior asks a likelihood: bounds, expectations, distribution functions."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import Distribution, ExpectedLogLikelihood, GaussianBound
from mcframe.laws.checking import (
    LIKELIHOOD_LAWS,
    PARAMETRIC_LAWS,
    close,
    demand,
    demand_unharmed,
    law_of,
    unit_of,
)

# Variances of a predictor, in squares of the unit of z.
VARIANCES = (0.0, 1e-4, 0.3, 10.0, 1e4)
# How far the bound is looked at from the mean, in units of z.
DISTANCES = (1e-3, 0.1, 1.0, 3.0, 10.0, 100.0, 1e4)
EXTREMES = (0.0, 1e-300, 1.0, 1e10, 1e150, 1e300)
UPDATES = 8
PROBABILITIES = (0.003, 0.1, 0.5, 0.8, 0.99)
ROUNDING = 1e-9


def squares(numbers: Array, y: Array) -> Array:
    """The sum of numbers over the columns of a group, with the shape of y."""
    return numbers if numbers.ndim == y.ndim else numbers.sum(axis=-1)


def below(value: Array, precision: Array, constant: Array, z: Array, y: Array) -> Array:
    """constant - precision (z - value)^2 / 2, the square taken without overflow."""
    return constant - squares(0.5 * np.square(np.sqrt(precision) * (z - value)), y)


def gaussians(z: Array) -> Iterator[tuple[Array, Array]]:
    """Means and variances of predictors of the sizes of z."""
    unit = unit_of(z)
    for variance in VARIANCES:
        yield z, np.full_like(z, variance * unit**2)


@law_of(LIKELIHOOD_LAWS, "the Gaussian bound is one", GaussianBound, Distribution)
def gaussian_bound_holds(likelihood: Any, z: Array, y: Array) -> None:
    """The Gaussian lies nowhere above the likelihood, and touches it where no variance is left.

    At Gauss-Hermite nodes about the mean, so that its expectation is one below the expected log
    likelihood too, and far out.
    """
    unit = unit_of(z)
    nodes = np.polynomial.hermite_e.hermegauss(20)[0]
    rng = np.random.default_rng(2)
    for mean, variance in gaussians(z):
        kept = [mean.copy(), variance.copy(), y.copy()]
        answers = likelihood.gaussian_bound(mean, variance, y)
        for before, after in zip(kept, (mean, variance, y), strict=True):
            demand_unharmed(before, after, "an argument")
        for answer, shape in zip(answers, (z.shape, z.shape, y.shape), strict=True):
            demand(answer.shape == shape, f"an answer of shape {answer.shape}, not {shape}")
        value, precision, constant = answers
        demand(np.all(precision >= 0.0), f"a precision of {float(np.min(precision)):g}")
        steps = np.concatenate([nodes * np.sqrt(variance.flat[0]), unit * np.array(DISTANCES)])
        for step in (0.0, *steps):
            signs = rng.choice([-1.0, 1.0], z.shape) if z.ndim > 1 else 1.0
            for point in (mean + signs * step, mean - signs * step):
                log_likelihood = likelihood.log_likelihood(point, y)
                bound = below(value, precision, constant, point, y)
                size = 1.0 + np.abs(log_likelihood) + np.abs(constant)
                above = float(np.max((bound - log_likelihood) / size))
                demand(
                    above <= ROUNDING,
                    f"it lies {above:g} above the log likelihood, relatively, {step / unit:g} off"
                    f" the mean",
                )
        if not variance.any():
            size = 1.0 + np.abs(likelihood.log_likelihood(mean, y)) + np.abs(constant)
            gap = likelihood.log_likelihood(mean, y) - below(value, precision, constant, mean, y)
            misses = float(np.max(gap / size))
            demand(misses <= ROUNDING, f"without variance it misses {misses:g} at the mean")


def expected_bound(
    likelihood: GaussianBound, at: tuple[Array, Array], under: tuple[Array, Array], y: Array
) -> Array:
    """The expectation, under one Gaussian, of the bound taken for another."""
    value, precision, constant = likelihood.gaussian_bound(*at, y)
    mean, variance = under
    return below(value, precision, constant, mean, y) - squares(0.5 * precision * variance, y)


@law_of(LIKELIHOOD_LAWS, "the Gaussian bound is the best", GaussianBound)
def gaussian_bound_is_best(likelihood: Any, z: Array, y: Array) -> None:
    """No bound taken for another Gaussian has a larger expectation under this one."""
    unit = unit_of(z)
    others = [(z, 1.0), (z, 0.01), (z, 100.0), (np.roll(z, 3, axis=0), 1.0), (z + 0.1 * unit, 1.0)]
    for mean, variance in gaussians(z):
        own = expected_bound(likelihood, (mean, variance), (mean, variance), y)
        for other, share in others:
            at = (other, share * variance + 1e-6 * unit**2)
            found = expected_bound(likelihood, at, (mean, variance), y)
            better = float(np.max((found - own) / (1.0 + np.abs(own))))
            demand(better <= ROUNDING, f"one for another Gaussian is better by {better:g}")


@law_of(PARAMETRIC_LAWS, "the expected parameters are best", GaussianBound)
def expected_parameters_are_best(likelihood: Any, z: Array, y: Array) -> None:
    """No move of the parameters raises the sum of expected bounds.

    Where no predictor has a variance they are those of the losses.
    """
    weights, unit = 1.0 + np.arange(y.size) % 2, unit_of(z)
    known = likelihood.best_parameters(z, y, weights, None)
    alike = likelihood.best_parameters(z, y, weights, None, np.zeros_like(z))
    close(alike, known, 1e-9, "parameters without variance")
    for share in (0.1, 1.0, 10.0):
        variance = np.square(share * unit * (1.0 + np.arange(z.size) % 3).reshape(z.shape))
        best = likelihood.best_parameters(z, y, weights, known, np.sqrt(variance))

        def total(parameters: Array, variance: Array = variance) -> float:
            at: Any = likelihood.with_parameters(parameters)
            return float(weights @ expected_bound(at, (z, variance), (z, variance), y))

        reached = total(best)
        for move in (*np.eye(best.size), np.ones(best.size)):
            for far in (1e-4, -1e-4, 1e-2, -1e-2):
                with suppress(ModelError):  # parameters that there are none of
                    better = total(best + far * unit * move) - reached
                    limit = 1e-12 * (1.0 + abs(reached))
                    demand(better <= limit, f"parameters moved by {far:g} are better")


@law_of(LIKELIHOOD_LAWS, "the Gaussian bound raises the evidence", GaussianBound)
def gaussian_bound_raises_evidence(likelihood: Any, z: Array, y: Array) -> None:
    """Each update of a posterior raises its evidence lower bound; the prior of z is Gaussian.

    The posterior of the bound is Gaussian, and the integral of prior times bound elementary.
    """
    prior = np.full_like(z, unit_of(z) ** 2)
    mean, variance, reached = 0.3 * z, prior, np.full(y.shape, -np.inf)
    for update in range(UPDATES):
        value, precision, constant = likelihood.gaussian_bound(mean, variance, y)
        inflated = 1.0 + precision * prior
        lost = np.square(np.sqrt(precision / inflated) * value) + np.log(inflated)
        evidence = constant - squares(0.5 * lost, y)
        falls = float(np.max((reached - evidence) / (1.0 + np.abs(evidence))))
        demand(falls <= ROUNDING, f"update {update} lowers it by {falls:g}, relatively")
        mean, variance, reached = prior * precision / inflated * value, prior / inflated, evidence


@law_of(LIKELIHOOD_LAWS, "the Gaussian bound is finite", GaussianBound)
def gaussian_bound_is_finite(likelihood: Any, z: Array, y: Array) -> None:
    """Finite numbers come of the least and the largest means and variances."""
    for size in EXTREMES:
        for variance in EXTREMES:
            mean = np.where(z >= 0.0, size, -size)
            answers = likelihood.gaussian_bound(mean, np.full_like(z, variance), y)
            where = f"for a mean of {size:g} and a variance of {variance:g}"
            demand(all(np.all(np.isfinite(a)) for a in answers), f"a number is not finite {where}")
            value, precision, _ = answers
            demand(np.all(precision >= 0.0), f"a precision is negative {where}")
            demand(
                not np.any(value[precision == 0.0]), f"a value without precision is not 0 {where}"
            )


@law_of(LIKELIHOOD_LAWS, "the cdf sums the density", Distribution)
def cdf_sums_the_density(likelihood: Any, z: Array, y: Array) -> None:
    """The distribution function adds up exp(log_likelihood), and its inverse is the quantile.

    Of whole observations the mass of one is a step; of real ones the density is integrated over a
    short interval.
    """
    few = z[:: max(1, len(z) // 20)]
    few = np.clip(few, -8.0, 8.0) if likelihood.z_name else few
    whole = bool(np.all(likelihood.invalid(y + 0.5)))
    before = np.full(len(few), -np.inf)
    for probability in PROBABILITIES:
        p = np.full(len(few), probability)
        found = likelihood.quantile(few, p)
        demand(found.shape == p.shape, f"quantiles of shape {found.shape}, not {p.shape}")
        demand(np.all(found >= before), f"the quantile falls up to probability {probability}")
        before = found
        reached = likelihood.cdf(few, found)
        demand(np.all((reached >= 0.0) & (reached <= 1.0)), "the cdf leaves [0, 1]")
        if whole:
            demand(not np.any(likelihood.invalid(found)), "a quantile lies outside the domain")
            demand(np.all(reached >= p - 1e-12), f"cdf(quantile({probability})) is too small")
            below = likelihood.cdf(few, found - 1.0)
            demand(np.all(below <= p + 1e-12), f"quantile({probability}) is too large")
            close(
                likelihood.cdf(few, found + 0.5), reached, 1e-12, "the cdf between whole numbers"
            )
            mass = np.exp(likelihood.log_likelihood(few, found))
            close(reached - below, mass, 1e-9, "a step of the cdf")
        else:
            close(reached, p, 1e-9, "cdf(quantile(p))")
            low, high = (likelihood.quantile(few, (1.0 + side) * p) for side in (-5e-3, 5e-3))
            nodes, shares = np.polynomial.legendre.leggauss(12)
            ys = [0.5 * (low + high) + 0.5 * (high - low) * node for node in nodes]
            density = [np.exp(likelihood.log_likelihood(few, one)) for one in ys]
            mass = 0.5 * (high - low) * sum(s * d for s, d in zip(shares, density, strict=True))
            close(mass / (0.01 * p), np.ones_like(p), 1e-3, "the integral of the density")


@law_of(
    LIKELIHOOD_LAWS, "the exponential form is the likelihood", ExpectedLogLikelihood, Distribution
)
def exponential_form_is_likelihood(likelihood: Any, z: Array, y: Array) -> None:
    """A line minus an exponential is the log likelihood; its expectation is that by quadrature.

    The derivatives are those of the expectation, by differences.
    """
    linear, rate, sign, constant = likelihood.exponential_form(y)
    demand(abs(sign) == 1.0 and np.all(rate >= 0.0), f"a sign {sign} or a rate below 0")
    wanted = likelihood.log_likelihood(z, y)
    size = 1.0 + np.abs(wanted) + np.abs(constant)
    close(
        (constant + linear * z - rate * np.exp(sign * z)) / size, wanted / size, 1e-9, "the form"
    )
    nodes, shares = np.polynomial.hermite_e.hermegauss(40)
    shares = shares / shares.sum()
    for mean, variance in ((z, np.full_like(z, v)) for v in (0.0, 1e-4, 0.3, 2.0)):
        value, d_mean, d_variance = likelihood.expected_log_likelihood(mean, variance, y)
        sd = np.sqrt(variance)
        points = [likelihood.log_likelihood(mean + sd * node, y) for node in nodes]
        size = 1.0 + np.sum(np.abs(points) * shares[:, None], axis=0) + np.abs(constant)
        quadrature = np.sum(np.array(points) * shares[:, None], axis=0)
        close(value / size, quadrature / size, 1e-9, "the expectation")
        h = 1e-3
        for found, ahead, behind in (
            (d_mean, (mean + h, variance), (mean - h, variance)),
            (d_variance, (mean, variance + h), (mean, variance - h)),
        ):
            up, down = (likelihood.expected_log_likelihood(*at, y)[0] for at in (ahead, behind))
            close((up - down) / (2 * h) / size, found / size, 1e-5, "a derivative")
