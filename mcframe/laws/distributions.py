"""The laws of a distribution of observations, and of what z is called."""

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Distribution, Likelihood
from mcframe.laws.violations import demand

__all__ = ["log_likelihood_is_loss", "samples_match", "z_has_its_name"]


def samples_match(likelihood: Likelihood, z: Array, y: Array) -> None:
    """Over many draws the mean is the mean response and the gradient averages to 0.

    Within six standard errors. The second is the zero mean of the score: it ties the mean,
    through the sampler, to the loss.
    """
    if not isinstance(likelihood, Distribution):
        return
    few = z[:: max(1, len(z) // 8)]
    many = np.concatenate([few] * 20_000)
    draws = likelihood.sample(many, np.random.default_rng(1))
    demand(not np.any(likelihood.invalid(draws)), "a draw lies outside the domain")
    gradients = likelihood.value_and_gradient(many, draws)[1].reshape(-1, *few.shape)
    # Of classes, coded 0, 1, ..., the mean response is the probability of each code.
    coded = draws if few.ndim == 1 else draws[:, None] == np.arange(likelihood.width)
    coded = np.asarray(coded, dtype=float).reshape(-1, *few.shape)
    for sample, wanted, what in (
        (coded, likelihood.mean(few), "the mean of draws"),
        (gradients, np.zeros(few.shape), "the mean gradient of draws"),
    ):
        size = float(np.max(np.abs(sample)))
        error = np.maximum(np.std(sample, axis=0) / np.sqrt(len(sample)), 1e-3 * size)
        away = float(np.max(np.abs(sample.mean(axis=0) - wanted) / error))
        demand(away < 6.0, f"{what} is {away:.1f} standard errors off")


def log_likelihood_is_loss(likelihood: Likelihood, z: Array, y: Array) -> None:
    """log p(y | z) + l(z, y) is a function of y alone."""
    if not isinstance(likelihood, Distribution):
        return
    sums, size = [], np.ones(y.shape)
    for w in (z, np.roll(z, 7, axis=0), 0.0 * z):
        value, log_likelihood = likelihood.value(w, y), likelihood.log_likelihood(w, y)
        demand(log_likelihood.shape == y.shape, f"log_likelihood of shape {log_likelihood.shape}")
        sums.append(log_likelihood + value)
        size = np.maximum(size, np.abs(log_likelihood) + np.abs(value))
    for other in sums[1:]:
        change = float(np.max(np.abs(other - sums[0]) / size))
        demand(change <= 1e-12, f"with z it changes by {change:g}, relatively")


def z_has_its_name(likelihood: Likelihood, z: Array, y: Array) -> None:
    """z has a name of its own where the mean response is something else, and only there."""
    mean = np.allclose(likelihood.mean(z), z, rtol=1e-9)
    demand(
        mean == (likelihood.z_name is None),
        f"z_name={likelihood.z_name!r}, and z is {'' if mean else 'not '}the mean response",
    )
