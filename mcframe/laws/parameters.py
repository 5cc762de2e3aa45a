"""The law of parameters that are fitted with Z."""

import itertools
from collections.abc import Callable

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import Likelihood, Parametric
from mcframe.laws.directions import unit_of
from mcframe.laws.violations import close, demand

__all__ = ["fit_parameters", "parameters_are_best"]


def parameters_are_best(likelihood: Likelihood, z: Array, y: Array) -> None:
    """No move of the parameters helps, their gradient vanishes, a weight of 2 counts twice."""
    if not isinstance(likelihood, Parametric) or likelihood.n_parameters == 0:
        return
    weights = 1.0 + np.arange(y.size) % 2
    kept = [z.copy(), y.copy(), weights.copy()]
    best = likelihood.best_parameters(z, y, weights, None)
    demand(best.shape == (likelihood.n_parameters,), f"parameters of shape {best.shape}")
    for before, after in zip(kept, (z, y, weights), strict=True):
        demand(np.array_equal(before, after), "an argument was changed in place")
    total = total_loss(likelihood, z, y, weights)
    reached, unit = total(best), unit_of(z)
    size = 1.0 + abs(reached)
    moves = [*np.eye(best.size), np.ones(best.size)]
    for move, far in itertools.product(moves, (1e-3, -1e-3, 0.1, -0.1, 1.0, -1.0)):
        other = total(best + far * unit * move)
        demand(other >= reached - 1e-12 * size, f"parameters moved by {far:g} are better")
    h = 1e-4 * unit
    for move in moves:
        ahead, behind = (total(best + sign * h * move) for sign in (1.0, -1.0))
        far_ahead, far_behind = (total(best + 2 * sign * h * move) for sign in (1.0, -1.0))
        gradient = (8 * (ahead - behind) - (far_ahead - far_behind)) / 12
        demand(
            abs(gradient) <= 1e-12 * size,
            f"the gradient in the parameters is {gradient / h:g}, not 0",
        )
    twice = np.repeat(np.arange(y.size), weights.astype(np.intp))
    repeated = likelihood.best_parameters(z[twice], y[twice], np.ones(twice.size), None)
    close(repeated, best, 1e-9, "parameters for repeated entries")
    warm = likelihood.best_parameters(z, y, weights, best + 0.01 * unit)
    close(warm, best, 1e-9, "parameters from a start close by")


def fit_parameters(likelihood: Likelihood, z: Array, y: Array) -> Likelihood:
    """The likelihood with its parameters, if it has any, fitted to these points."""
    if not isinstance(likelihood, Parametric) or likelihood.n_parameters == 0:
        return likelihood
    best = likelihood.best_parameters(z, y, np.ones(y.size), None)
    return likelihood.with_parameters(best)


def total_loss(
    likelihood: Parametric, z: Array, y: Array, weights: Array
) -> Callable[[Array], float]:
    """The weighted sum of losses as a function of the parameters; inf where they are refused."""

    def total(parameters: Array) -> float:
        try:
            at = likelihood.with_parameters(parameters)
        except ModelError:
            return np.inf
        return float(weights @ at.value(z, y))

    return total
