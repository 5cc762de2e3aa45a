"""The laws of a loss's convex conjugate, which certificates rest on."""

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Conjugate, Likelihood
from mcframe.laws.directions import along
from mcframe.laws.violations import close, demand

__all__ = ["conjugate_keeps_its_digits", "fenchel_young"]


def fenchel_young(likelihood: Likelihood, z: Array, y: Array) -> None:
    """l*(s) >= s w - l(w) for every w, with equality at the gradient s of w.

    And ``nearest_gradient`` leads shorter gradients back into the domain, and leaves gradients
    alone.
    """
    if not isinstance(likelihood, Conjugate) or not likelihood.convex:
        return
    finite = np.isfinite(likelihood.value(z, y))
    z, y = z[finite], y[finite]
    value, gradient = likelihood.value_and_gradient(z, y)
    conjugate = likelihood.conjugate(gradient, y)
    close(conjugate, along(gradient, z) - value, 1e-9, "conjugate at the gradient")
    # Gradients of the other sign or too long may lie outside the domain, where it is inf.
    for factor in (-0.5, 0.0, 0.3, 0.9, 1.5):
        there = likelihood.conjugate(factor * gradient, y)
        for w in (z, np.roll(z, 11, axis=0), 30.0 * z):
            least = factor * along(gradient, w) - likelihood.value(w, y)
            short = least - there
            demand(
                np.all(short <= 1e-9 * (1 + np.abs(least))),
                f"the conjugate is {float(np.max(short)):g} too small at {factor:g} gradient",
            )
    close(
        likelihood.nearest_gradient(gradient, y),
        gradient,
        1e-12,
        "the nearest gradient to a gradient",
    )
    for factor in (0.0, 0.3, 0.9):
        nearest = likelihood.nearest_gradient(factor * gradient, y)
        inside = np.isfinite(likelihood.conjugate(nearest, y))
        demand(
            np.all(inside),
            f"the nearest gradients to {factor:g} gradient have no finite conjugate",
        )


def conjugate_keeps_its_digits(likelihood: Likelihood, z: Array, y: Array) -> None:
    """l*(s) = s z - l(z) relative to its summands, where a loss is almost 0.

    An entry may count a million times.
    """
    if not isinstance(likelihood, Conjugate) or likelihood.location:
        return
    if not (likelihood.smooth and likelihood.convex and likelihood.infimum == 0.0):
        return
    for factor in (1.0, 3.0, 8.0):
        value, gradient = likelihood.value_and_gradient(factor * z, y)
        product, conjugate = along(gradient, factor * z), likelihood.conjugate(gradient, y)
        sizes = along(np.abs(gradient), np.abs(factor * z)) + value + np.abs(conjugate)
        small = (value > 1e-100) & (value < 1e-2)
        off = np.abs(conjugate - product + value)[small]
        demand(bool(np.all(off <= 1e-9 * sizes[small])), "digits of the conjugate are lost")
