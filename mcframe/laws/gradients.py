"""The laws of a loss's gradient, and of its second derivative."""

import itertools

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Likelihood, TwiceDifferentiable
from mcframe.laws.directions import along, directions
from mcframe.laws.violations import close, demand

__all__ = ["curvature_bounds", "gradient_is_derivative", "second_derivative_bends"]


def gradient_is_derivative(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The gradient is the derivative, by a central difference of fourth order."""
    if not likelihood.smooth:
        return
    for direction in directions(z):
        gradient_is_derivative_along(likelihood, z, y, direction)


def gradient_is_derivative_along(
    likelihood: Likelihood, z: Array, y: Array, direction: Array
) -> None:
    """The gradient along one direction is the derivative along it."""
    h = 1e-3 * max(float(np.max(np.abs(z))) / 6, 1e-300)
    move = h * direction
    ahead, behind = likelihood.value(z + move, y), likelihood.value(z - move, y)
    far_ahead, far_behind = likelihood.value(z + 2 * move, y), likelihood.value(z - 2 * move, y)
    numeric = (8 * (ahead - behind) - (far_ahead - far_behind)) / (12 * h)
    gradient = along(likelihood.value_and_gradient(z, y)[1], direction)
    size = float(np.max(np.abs(gradient)))
    # Within reach of a kink no difference quotient is accurate, but a convex loss keeps it
    # between the gradients on both sides.
    before, after = (
        along(likelihood.value_and_gradient(z + s * move, y)[1], direction) for s in (-2, 2)
    )
    kink = np.abs(after - 2 * gradient + before) > 0.05 * (after - before) + 1e-9 * size
    kink &= likelihood.convex  # a concave stretch has falling gradients, and must have no kink
    demand(np.mean(kink) < 0.2, "its gradient jumps or bends sharply nearly everywhere")
    close(gradient[~kink] / size, numeric[~kink] / size, 1e-6, "gradient")
    low, high = (
        before[kink] - 0.5 * (after - before)[kink],
        after[kink] + 0.5 * (after - before)[kink],
    )
    held = np.all((numeric[kink] >= low) & (numeric[kink] <= high))
    demand(held, "at a kink the values rise faster or slower than the gradients on both sides")


def curvature_bounds(likelihood: Likelihood, z: Array, y: Array) -> None:
    """|l'(z) - l'(w)| <= curvature |z - w|, close and far."""
    curvature = likelihood.curvature
    demand(curvature > 0.0, f"curvature={curvature!r}; a positive number or inf is needed")
    if not likelihood.smooth:
        demand(np.isinf(curvature), f"curvature={curvature!r} of a loss that is not smooth")
        return
    spread = float(np.max(np.abs(z)))
    gradient = likelihood.value_and_gradient(z, y)[1]
    for distance, direction in itertools.product((1e-4, 1e-2, 1.0), directions(z)):
        move = distance * spread * direction
        turn = likelihood.value_and_gradient(z + move, y)[1] - gradient
        rise = float(np.max(np.sqrt(along(turn, turn) / along(move, move))))
        demand(
            rise <= curvature * (1 + 1e-7),
            f"the gradient changes by {rise:g} per unit, above the curvature {curvature:g}",
        )
        if likelihood.quadratic:
            close(rise, curvature, 1e-7, "curvature of a quadratic loss")


def second_derivative_bends(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The second derivative is the derivative of the gradient, and at most the curvature."""
    if not isinstance(likelihood, TwiceDifferentiable):
        return
    h = 1e-4 * float(np.max(np.abs(z))) / 6
    second = likelihood.second_derivative(z, y)
    size = float(np.max(np.abs(second)))
    for k, direction in enumerate(directions(z)):
        move = h * direction
        ahead = likelihood.value_and_gradient(z + move, y)[1]
        behind = likelihood.value_and_gradient(z - move, y)[1]
        found = likelihood.hessian_product(z, y, direction)
        sides = [likelihood.hessian_product(z + side * move, y, direction) for side in (-1, 1)]
        smooth = np.abs(sides[1] - sides[0]) <= 0.05 * size
        demand(np.mean(smooth) > 0.8, "it jumps nearly everywhere")
        numeric = (ahead - behind) / (2 * h)
        close(found[smooth] / size, numeric[smooth] / size, 1e-5, "second derivative")
        if k < likelihood.width:
            own = along(found, direction)
            diagonal = along(second, direction)
            close(diagonal / size, own / size, 1e-12, "diagonal of the Hessian")
    demand(np.all(second <= likelihood.curvature * (1 + 1e-12)), "it exceeds the curvature")
