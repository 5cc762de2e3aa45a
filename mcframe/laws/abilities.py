"""The laws of two abilities of likelihoods: a prox, and parameters fitted with Z."""

import itertools
from collections.abc import Callable

import numpy as np

from mcframe.backends.conic import cp
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import Conjugate, Likelihood, Parametric, Proximable
from mcframe.laws.violations import close, demand

__all__ = [
    "along",
    "directions",
    "fitted",
    "joint_expression_is_definition",
    "parameters_are_best",
    "prox_is_minimiser",
    "prox_slope_is_derivative",
    "prox_solves_its_program",
]

# Prox steps, in units of the predictors.
STEPS = (0.01, 0.3, 1.0, 10.0)


def directions(z: Array) -> list[Array]:
    """Where to move: up; of a group of columns each one alone, and one against another."""
    if z.ndim == 1:
        return [np.ones_like(z)]
    units = np.eye(z.shape[1])
    return [np.zeros_like(z) + unit for unit in (*units, units[0] - units[1])]


def along(slope: Array, direction: Array) -> Array:
    """<slope, direction>, entry by entry."""
    product = slope * direction
    return product if product.ndim == 1 else product.sum(axis=1)


def unit_of(z: Array) -> float:
    """The size of the predictors at which the loss bends."""
    return float(np.max(np.abs(z))) / 6


def steps_for(z: Array, size: float) -> Array:
    """Prox steps of about one size, none equal to the next."""
    steps = size * unit_of(z) * np.linspace(0.5, 1.5, z.size)
    return steps.reshape(z.shape)


def prox_is_minimiser(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The prox minimises l(x) + (x - z)^2 / (2 step), and (z - prox) / step is a subgradient."""
    if not isinstance(likelihood, Proximable):
        return
    unit = unit_of(z)
    for size in STEPS:
        step = steps_for(z, size)
        there = likelihood.prox(z, y, step)
        value = likelihood.value(there, y)
        demand(np.all(np.isfinite(value)), "the loss at the prox is not finite")

        def objective(x: Array, step: Array = step) -> Array:
            return likelihood.value(x, y) + along(x - z, (x - z) / (2.0 * step))

        reached, slope = objective(there), (z - there) / step
        moves = (sign * far * unit for sign in (-1.0, 1.0) for far in (1e-3, 0.1, 1.0))
        rivals: list[Array] = [there + move for move in moves]
        rivals += [z, likelihood.start(y), 0.5 * (there + z)]
        for rival in rivals:
            theirs = objective(rival)
            demand(
                np.all(theirs >= reached - 1e-10 * (1.0 + np.abs(reached))),
                f"another point is better than the prox by {float(np.max(reached - theirs)):g}",
            )
            tangent = value + along(slope, rival - there)
            above = likelihood.value(rival, y) - tangent
            demand(
                np.all(above >= -1e-10 * (1.0 + np.abs(tangent))),
                "(z - prox) / step is no subgradient at the prox",
            )
        if isinstance(likelihood, Conjugate):
            nearest = likelihood.nearest_slope(slope, y)
            wanted = along(nearest, there) - value
            close(likelihood.conjugate(nearest, y), wanted, 1e-9, "conjugate at (z - prox) / step")


def prox_slope_is_derivative(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The slope of the prox is its derivative; at a kink of the prox it is one side's."""
    if not isinstance(likelihood, Proximable):
        return
    h = 1e-4 * unit_of(z)
    for size in STEPS:
        step = steps_for(z, size)
        here = likelihood.prox(z, y, step)
        after = (likelihood.prox(z + h, y, step) - here) / h
        before = (here - likelihood.prox(z - h, y, step)) / h
        found = likelihood.prox_slope(z, y, step)
        demand(np.all((found >= 0.0) & (found <= 1.0)), "a slope of the prox is not in [0, 1]")
        low, high = np.minimum(before, after), np.maximum(before, after)
        held = (found >= low - 1e-3) & (found <= high + 1e-3)
        demand(np.all(held), "a slope of the prox is not its derivative")
        smooth = np.abs(after - before) <= 1e-3
        # A third of the points may stand at a kink of the prox, where losses start.
        demand(np.mean(smooth) > 0.5, "the slope of the prox jumps nearly everywhere")
        middle = 0.5 * (before + after)
        close(found[smooth], middle[smooth], 1e-6, "slope of the prox")


def prox_solves_its_program(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The prox is what CVXPY finds for the definition."""
    if not isinstance(likelihood, Proximable):
        return
    z, y = z[::9], y[::9]
    unit = unit_of(z)
    for size in (0.3, 3.0):
        step = steps_for(z, size)
        variable = cp.Variable(z.shape)
        # In units of the predictors, where the solver's tolerances mean what they say.
        x = unit * variable
        away = cp.multiply(0.5 * unit**2 / step, cp.square(variable - z / unit))
        total = cp.sum(likelihood.expression(cp, x, y)) + cp.sum(away)
        program = cp.Problem(
            cp.Minimize(total / unit), likelihood.expression_constraints(cp, x, y)
        )
        demand(program.is_dcp(), "its definition is not convex by CVXPY's rules")
        with np.errstate(all="ignore"):  # the conic solver's own arithmetic
            program.solve(solver="CLARABEL")
        close(
            likelihood.prox(z, y, step) / unit, np.asarray(variable.value), 1e-5, "prox in CVXPY"
        )


def fitted(likelihood: Likelihood, z: Array, y: Array) -> Likelihood:
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
        slope = (8 * (ahead - behind) - (far_ahead - far_behind)) / 12
        demand(abs(slope) <= 1e-12 * size, f"the slope in the parameters is {slope / h:g}, not 0")
    twice = np.repeat(np.arange(y.size), weights.astype(np.intp))
    repeated = likelihood.best_parameters(z[twice], y[twice], np.ones(twice.size), None)
    close(repeated, best, 1e-9, "parameters for repeated entries")
    warm = likelihood.best_parameters(z, y, weights, best + 0.01 * unit)
    close(warm, best, 1e-9, "parameters from a start close by")


def joint_expression_is_definition(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The joint CVXPY expression has the losses at given parameters, and is convex in both."""
    if not isinstance(likelihood, Parametric) or likelihood.n_parameters == 0:
        return
    variable, parameters = cp.Variable(z.shape), cp.Variable(likelihood.n_parameters)
    expression = likelihood.joint_expression(cp, variable, y, parameters)
    demand(expression.shape == y.shape, f"its joint expression has shape {expression.shape}")
    demand(expression.is_convex(), "its joint expression is not convex by CVXPY's rules")
    best = likelihood.best_parameters(z, y, np.ones(y.size), None)
    variable.value = z
    for moved in (best, best + 0.5 * unit_of(z), 1.5 * best):
        parameters.value = moved
        with np.errstate(all="ignore"):  # CVXPY's own arithmetic is not ours to judge
            found = np.asarray(expression.value)
        wanted = likelihood.with_parameters(moved).value(z, y)
        close(found, wanted, 1e-9, "joint expression")
