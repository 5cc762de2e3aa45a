"""The laws of what a likelihood states to CVXPY."""

from typing import Any

import numpy as np

from mcframe.backends.statement import cp
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Approximated, Likelihood, Parametric
from mcframe.laws.directions import unit_of
from mcframe.laws.violations import close, demand

__all__ = ["approximation_is_bound", "expression_is_definition", "joint_statement_is_definition"]


def expression_is_definition(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The CVXPY expression has the same value, entry by entry, and is convex by its rules.

    Where its constraints do not hold the value is infinite, and only there. Of an approximation
    the value lies nowhere above.
    """
    if not likelihood.convex:
        return
    value = likelihood.value(z, y)
    finite = np.isfinite(value)
    for i in np.flatnonzero(~finite)[:5]:
        outside = cp.Variable(z[i : i + 1].shape, value=z[i : i + 1])
        _, constraints = likelihood.statement(cp, outside, y[i : i + 1])
        held = all(bool(np.all(c.value())) for c in constraints)
        demand(not held, "its CVXPY constraints hold where it is infinite")
    z, y, value = z[finite], y[finite], value[finite]
    variable = cp.Variable(z.shape, value=z)
    expression, constraints = likelihood.statement(cp, variable, y)
    demand(expression.shape == y.shape, f"its expression has shape {expression.shape}")
    demand(expression.is_convex(), "its expression is not convex by CVXPY's rules")
    with np.errstate(all="ignore"):  # CVXPY's own arithmetic is not ours to judge
        found = np.asarray(expression.value)
    if not is_exact(likelihood, z, y):
        found = np.maximum(found, value)
    close(found, value, 1e-9, "expression")
    constraints_hold(constraints)


def constraints_hold(constraints: list[Any]) -> None:
    """Each constraint is convex by CVXPY's rules, and met at the values of its variables."""
    for constraint in constraints:
        demand(constraint.is_dcp(), "its constraint is not convex by CVXPY's rules")
        demand(np.all(constraint.value()), "its CVXPY constraints are broken where it is finite")


def joint_statement_is_definition(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The joint CVXPY statement has the losses at given parameters, and is convex in both."""
    if not isinstance(likelihood, Parametric) or likelihood.n_parameters == 0:
        return
    variable, parameters = cp.Variable(z.shape), cp.Variable(likelihood.n_parameters)
    expression, constraints = likelihood.statement(cp, variable, y, parameters=parameters)
    demand(expression.shape == y.shape, f"its joint statement has shape {expression.shape}")
    demand(expression.is_convex(), "its joint statement is not convex by CVXPY's rules")
    best = likelihood.best_parameters(z, y, np.ones(y.size), None)
    variable.value = z
    for moved in (best, best + 0.5 * unit_of(z), 1.5 * best):
        parameters.value = moved
        with np.errstate(all="ignore"):  # CVXPY's own arithmetic is not ours to judge
            found = np.asarray(expression.value)
        wanted = likelihood.with_parameters(moved).value(z, y)
        close(found, wanted, 1e-9, "joint statement")
        constraints_hold(constraints)


def is_exact(likelihood: Likelihood, z: Array, y: Array) -> bool:
    """Whether its expression is the loss itself: no error is stated, however far it looks."""
    if not isinstance(likelihood, Approximated):
        return True
    return not np.any(likelihood.statement_error((np.roll(z, 5), 1.0), z, y))


def approximation_is_bound(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The bound near some points lies below the loss by the error that it states.

    It touches the loss at those points, and within the spread s of them it misses no more than
    a tangent there does: curvature s^2 / 2.
    """
    if not isinstance(likelihood, Approximated):
        return
    unit = float(np.max(np.abs(z))) / 6
    for spread in (1e-3 * unit, unit):
        for near in (z, z + 0.9 * spread, z - 0.9 * spread, np.roll(z, 5)):
            error = likelihood.statement_error((near, spread), z, y)
            demand(np.all(error >= 0.0), f"it states an error of {float(np.min(error)):g}")
            value = likelihood.value(z, y)
            variable = cp.Variable(z.shape, value=z)
            bound, constraints = likelihood.statement(cp, variable, y, near=(near, spread))
            constraints_hold(constraints)
            demand(bound.shape == y.shape, f"its bound has shape {bound.shape}")
            demand(bound.is_convex(), "its bound is not convex by CVXPY's rules")
            with np.errstate(all="ignore"):  # CVXPY's own arithmetic is not ours to judge
                found = np.asarray(bound.value)
            close(found + error, value, 1e-9, "the bound and its error")
            missed = error - 0.5 * likelihood.curvature * np.square(z - near)
            missed[np.abs(z - near) > spread] = 0.0
            worst = float(np.max(missed / (1.0 + np.abs(value))))
            demand(worst <= 1e-9, f"within the spread it misses {worst:g} more than a tangent")
