"""Positive semidefinite systems that are known by their products."""

from collections.abc import Callable

import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.numerics.machine import check_time

__all__ = ["conjugate_gradients"]

MOST_STEPS = 500
# A residual that has grown to this is rounding that was blown up.
DIVERGED = 1e6


def conjugate_gradients(
    times: Callable[[Array], Array], target: Array, inverse: Array, usable: Mask, exact: float
) -> Array:
    """x with S x = t, from 0, the inverse diagonal as preconditioner; 0 where not usable.

    It ends where the residual, in the norm of the preconditioner, is ``exact`` of the target. Of a
    singular S what cannot be told stays 0; what rounding left of the target there cannot be taken
    off and is blown up in the end, so that it is the x with the least residual that is returned.
    """
    found = best = np.zeros(target.size)
    residual = np.where(usable, target, 0.0)
    scaled = inverse * residual
    search = scaled
    energy = first = least = float(np.dot(residual, scaled))
    for _ in range(MOST_STEPS):
        check_time()
        if energy <= exact**2 * first or energy > DIVERGED * first:
            break
        image = np.where(usable, times(search), 0.0)
        curvature = float(np.dot(search, image))
        if curvature <= 0.0:
            break
        found = found + energy / curvature * search
        residual = residual - energy / curvature * image
        scaled = inverse * residual
        energy, last = float(np.dot(residual, scaled)), energy
        if energy < least:
            best, least = found, energy
        search = scaled + energy / last * search
    return best
