"""The laws of a loss: its values, gradients, curvature and bounds."""

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Likelihood, LinearDifference
from mcframe.laws.directions import along
from mcframe.laws.violations import close, demand

__all__ = [
    "bounded_below",
    "convex",
    "far_out_finite",
    "indicator_is_one",
    "labels_differ_linearly",
    "location_is_one",
    "one_value",
    "units_are_exchangeable",
]


def one_value(likelihood: Likelihood, z: Array, y: Array) -> None:
    """value_and_gradient gives the value that value gives."""
    close(likelihood.value_and_gradient(z, y)[0], likelihood.value(z, y), 1e-12, "value")


def indicator_is_one(likelihood: Likelihood, z: Array, y: Array) -> None:
    """An indicator is 0 or infinite, and has room around its set; other losses are finite."""
    value, room = likelihood.value(z, y), likelihood.room(y)
    if likelihood.indicator:
        demand(np.all((value == 0.0) | (value == np.inf)), "a value is neither 0 nor inf")
        demand(np.all(room > 0.0), "an indicator leaves no room for rounding")
    else:
        demand(not np.any(value == np.inf), "a loss that is no indicator is infinite")
        demand(np.all(room == 0.0), "a loss that is no indicator has room")


def location_is_one(likelihood: Likelihood, z: Array, y: Array) -> None:
    """A loss of a location is one of z - y alone: l(z + c, y + c) = l(z, y)."""
    if not likelihood.location:
        return
    for away in (1.0, -3.0):
        shifted = likelihood.value(z + away, y + away)
        close(shifted, likelihood.value(z, y), 1e-9, "value at z + c and y + c")


def units_are_exchangeable(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The loss in other units is the loss: l(u z, u y) = c g(z, y)."""
    for unit in (1e-3, 7.0):
        found = likelihood.in_units(unit)
        if found is None:
            return
        other, factor = found
        ours = likelihood.value(unit * z, unit * y)
        close(factor * other.value(z, y), ours, 1e-9, f"value in units of {unit}")


def convex(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The tangent lies below the curve: l(w) >= l(z) + l'(z) (w - z)."""
    if not likelihood.convex:
        return
    finite = np.isfinite(likelihood.value(z, y))
    demand(np.any(finite), "it is infinite nearly everywhere")
    z, y = z[finite], y[finite]
    value, gradient = likelihood.value_and_gradient(z, y)
    for shift in (1.0, -0.1, 17.0):
        w = np.roll(z, 7, axis=0) * shift
        tangent = value + along(gradient, w - z)
        above = likelihood.value(w, y) - tangent
        size = 1e-11 * (1.0 + np.abs(tangent))
        demand(np.all(above >= -size), f"a tangent passes {-above.min():g} above the curve")


def bounded_below(likelihood: Likelihood, z: Array, y: Array) -> None:
    """No value lies below the infimum."""
    lowest = min(float(np.min(likelihood.value(factor * z, y))) for factor in (0.1, 1.0, 100.0))
    demand(
        lowest >= likelihood.infimum - 1e-12,
        f"a value of {lowest:g} lies below infimum={likelihood.infimum:g}",
    )


def labels_differ_linearly(likelihood: Likelihood, z: Array, y: Array) -> None:
    """l(z, 1) - l(z, 0) is the line that it says it is."""
    line = likelihood.label_difference if isinstance(likelihood, LinearDifference) else None
    if line is None:
        return
    one, zero = (likelihood.value(z, np.full_like(z, label)) for label in (1.0, 0.0))
    close(one - zero, line[0] * z + line[1], 1e-9, "difference of the labels")


def far_out_finite(likelihood: Likelihood, z: Array, y: Array) -> None:
    """Nothing is NaN at z = +-1e4 scales, and nothing overflows for a bounded curvature."""
    far = np.where(z >= 0, 1e4, -1e4) * (float(np.max(np.abs(z))) / 6)
    value, gradient = likelihood.value_and_gradient(far, y)
    demand(not np.any(np.isnan(value)), "a value at +-1e4 is NaN")
    demand(not np.any(np.isnan(gradient)), "a gradient at +-1e4 is NaN")
    if np.isfinite(likelihood.curvature):
        demand(np.all(np.isfinite(value)) and np.all(np.isfinite(gradient)), "infinite at +-1e4")
    demand(not np.any(np.isnan(likelihood.mean(far))), "a mean at +-1e4 is NaN")
