"""The law of the biases of columns, which a fit solves for."""

import numpy as np

from mcframe.compile.effects import declared_effects
from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.likelihood import Likelihood, TwiceDifferentiable
from mcframe.laws.violations import demand
from mcframe.model import Layout

__all__ = ["bias_is_best"]


def bias_is_best(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The bias solved for is the best constant: moving it either way does not help."""
    if not isinstance(likelihood, TwiceDifferentiable) or not likelihood.convex:
        return
    if likelihood.width > 1:
        biases_of_classes_are_best(likelihood, z, y)
        return
    columns = np.arange(z.size) % 3
    if likelihood.reads_unlabeled:
        kept = has_best_bias(likelihood, y, columns)[columns]
        z, y, columns = z[kept], y[kept], columns[kept]
    bias = solved_biases(likelihood, z, y, columns)
    best = np.sum(likelihood.value(z + bias[columns], y))
    for move in (1e-3, -1e-3, 1.0, -1.0):
        other = np.sum(likelihood.value(z + bias[columns] + move, y))
        demand(other >= best - 1e-12 * (1 + abs(best)), f"a bias moved by {move:g} is better")


def has_best_bias(likelihood: Likelihood, y: Array, columns: IntArray) -> Mask:
    """The columns whose loss rises on both sides: a risk of many positives may fall forever."""
    far = np.full_like(y, 1e3 / np.sqrt(likelihood.curvature))
    up, down = (
        np.bincount(columns, weights=likelihood.value_and_gradient(side * far, y)[1])
        for side in (1.0, -1.0)
    )
    return (up > 0.0) & (down < 0.0)


def solved_biases(likelihood: Likelihood, z: Array, y: Array, columns: IntArray) -> Array:
    """The biases of three columns as a fit solves for them."""
    rows = np.arange(columns.size)
    layout = Layout(n_biases=3 * likelihood.width)
    effects = declared_effects(layout, likelihood, y, rows, columns, 1.0)
    return np.asarray(effects.solve(likelihood, z, y, 1.0, None))


def biases_of_classes_are_best(likelihood: Likelihood, z: Array, y: Array) -> None:
    """A bias of each class is best: moving one of them does not help."""
    width, columns = likelihood.width, np.arange(len(z)) % 3
    bias = solved_biases(likelihood, z, y, columns)
    columns = columns[:, None] * width + np.arange(width)
    best = np.sum(likelihood.value(z + bias[columns], y))
    for k in range(width):
        for move in (1e-3, -1e-3, 1.0, -1.0):
            moved = z + bias[columns] + move * np.eye(width)[k]
            other = np.sum(likelihood.value(moved, y))
            demand(other >= best - 1e-12 * (1 + abs(best)), f"a bias moved by {move:g} is better")
