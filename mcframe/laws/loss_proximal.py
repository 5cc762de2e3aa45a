"""The laws of a loss's prox."""

import numpy as np

from mcframe.backends.statement import cp
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Conjugate, Likelihood, Proximable
from mcframe.laws.directions import along, unit_of
from mcframe.laws.violations import close, demand

__all__ = ["prox_gradient_is_derivative", "prox_is_minimiser", "prox_solves_its_program"]

# Prox steps, in units of the predictors.
STEPS = (0.01, 0.3, 1.0, 10.0)


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

        reached, gradient = objective(there), (z - there) / step
        moves = (sign * far * unit for sign in (-1.0, 1.0) for far in (1e-3, 0.1, 1.0))
        rivals: list[Array] = [there + move for move in moves]
        rivals += [z, likelihood.start(y), 0.5 * (there + z)]
        for rival in rivals:
            theirs = objective(rival)
            demand(
                np.all(theirs >= reached - 1e-10 * (1.0 + np.abs(reached))),
                f"another point is better than the prox by {float(np.max(reached - theirs)):g}",
            )
            tangent = value + along(gradient, rival - there)
            above = likelihood.value(rival, y) - tangent
            demand(
                np.all(above >= -1e-10 * (1.0 + np.abs(tangent))),
                "(z - prox) / step is no subgradient at the prox",
            )
        if isinstance(likelihood, Conjugate):
            nearest = likelihood.nearest_gradient(gradient, y)
            wanted = along(nearest, there) - value
            close(likelihood.conjugate(nearest, y), wanted, 1e-9, "conjugate at (z - prox) / step")


def prox_gradient_is_derivative(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The gradient of the prox is its derivative; at a kink of the prox it is one side's."""
    if not isinstance(likelihood, Proximable):
        return
    h = 1e-4 * unit_of(z)
    for size in STEPS:
        step = steps_for(z, size)
        here = likelihood.prox(z, y, step)
        after = (likelihood.prox(z + h, y, step) - here) / h
        before = (here - likelihood.prox(z - h, y, step)) / h
        found = likelihood.prox_gradient(z, y, step)
        demand(np.all((found >= 0.0) & (found <= 1.0)), "a gradient of the prox is not in [0, 1]")
        low, high = np.minimum(before, after), np.maximum(before, after)
        held = (found >= low - 1e-3) & (found <= high + 1e-3)
        demand(np.all(held), "a gradient of the prox is not its derivative")
        smooth = np.abs(after - before) <= 1e-3
        # A third of the points may stand at a kink of the prox, where losses start.
        demand(np.mean(smooth) > 0.5, "the gradient of the prox jumps nearly everywhere")
        middle = 0.5 * (before + after)
        close(found[smooth], middle[smooth], 1e-6, "gradient of the prox")


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
        losses, constraints = likelihood.statement(cp, x, y)
        total = cp.sum(losses) + cp.sum(away)
        program = cp.Problem(cp.Minimize(total / unit), constraints)
        demand(program.is_dcp(), "its definition is not convex by CVXPY's rules")
        with np.errstate(all="ignore"):  # the conic solver's own arithmetic
            program.solve(solver="CLARABEL")
        close(
            likelihood.prox(z, y, step) / unit, np.asarray(variable.value), 1e-5, "prox in CVXPY"
        )


def steps_for(z: Array, size: float) -> Array:
    """Prox steps of about one size, none equal to the next."""
    steps = size * unit_of(z) * np.linspace(0.5, 1.5, z.size)
    return steps.reshape(z.shape)
