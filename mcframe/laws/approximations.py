"""The laws of likelihoods whose CVXPY expression is a lower bound."""

import numpy as np

from mcframe.backends.conic import cp
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Approximated, Likelihood
from mcframe.laws.violations import close, demand

__all__ = ["approximation_is_bound", "is_exact"]


def is_exact(likelihood: Likelihood, z: Array, y: Array) -> bool:
    """Whether its expression is the loss itself: no error is stated, however far it looks."""
    if not isinstance(likelihood, Approximated):
        return True
    return not np.any(likelihood.expression_error(np.roll(z, 5), 1.0, z, y))


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
            error = likelihood.expression_error(near, spread, z, y)
            demand(np.all(error >= 0.0), f"it states an error of {float(np.min(error)):g}")
            value = likelihood.value(z, y)
            variable = cp.Variable(z.shape, value=z)
            bound = likelihood.expression_near(cp, variable, y, near, spread)
            demand(bound.shape == y.shape, f"its bound has shape {bound.shape}")
            demand(bound.is_convex(), "its bound is not convex by CVXPY's rules")
            with np.errstate(all="ignore"):  # CVXPY's own arithmetic is not ours to judge
                found = np.asarray(bound.value)
            close(found + error, value, 1e-9, "the bound and its error")
            missed = error - 0.5 * likelihood.curvature * np.square(z - near)
            missed[np.abs(z - near) > spread] = 0.0
            worst = float(np.max(missed / (1.0 + np.abs(value))))
            demand(worst <= 1e-9, f"within the spread it misses {worst:g} more than a tangent")
