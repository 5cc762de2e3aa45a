"""Directions in the space of linear predictors, which laws of likelihoods walk along."""

import numpy as np

from mcframe.contracts.arrays import Array

__all__ = ["along", "directions", "unit_of"]


def directions(z: Array) -> list[Array]:
    """Directions to move in: up; of a group of columns each one alone, and one against another."""
    if z.ndim == 1:
        return [np.ones_like(z)]
    units = np.eye(z.shape[1])
    return [np.zeros_like(z) + unit for unit in (*units, units[0] - units[1])]


def along(gradient: Array, direction: Array) -> Array:
    """<gradient, direction>, entry by entry."""
    product = gradient * direction
    return product if product.ndim == 1 else product.sum(axis=1)


def unit_of(z: Array) -> float:
    """The size of the predictors at which the loss bends."""
    return float(np.max(np.abs(z))) / 6
