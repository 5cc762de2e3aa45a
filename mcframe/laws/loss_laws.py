"""The laws of a loss: values, gradients, curvature and bounds, its conjugate, its prox."""

import itertools
from functools import partial
from typing import Any

import numpy as np

from mcframe.backends.statement import cp
from mcframe.contracts.arrays import Array, mapped
from mcframe.contracts.likelihood import (
    Conjugate,
    Likelihood,
    LinearDifference,
    Proximable,
    TwiceDifferentiable,
)
from mcframe.laws.checking import (
    LIKELIHOOD_LAWS,
    along,
    at_most,
    central_difference,
    close,
    demand,
    demand_unharmed,
    directions,
    law_of,
    unit_of,
)

# Prox steps, in units of the predictors.
STEPS = (0.01, 0.3, 1.0, 10.0)


@law_of(LIKELIHOOD_LAWS, "arguments unharmed")
def arguments_unharmed(likelihood: Likelihood, z: Array, y: Array) -> None:
    """Arguments stay as they were, answers are float64 arrays of their shape."""
    kept_z, kept_y = z.copy(), y.copy()
    value, gradient = likelihood.value_and_gradient(z, y)
    answers = [gradient, likelihood.mean(z), likelihood.start(y)]
    if isinstance(likelihood, TwiceDifferentiable):
        answers.append(likelihood.second_derivative(z, y))
        answers.append(likelihood.hessian_product(z, y, np.ones_like(z)))
    if isinstance(likelihood, Proximable):
        step = np.ones_like(z)
        answers += [likelihood.prox(z, y, step), likelihood.prox_gradient(z, y, step)]
    shaped = [(answer, z.shape) for answer in answers]
    values = [value, likelihood.value(z, y), likelihood.filling(z)]
    if isinstance(likelihood, Conjugate):
        values.append(likelihood.conjugate(gradient, y))
    shaped += [(answer, y.shape) for answer in values]
    for answer, shape in shaped:
        demand(answer.shape == shape, f"an answer of shape {answer.shape} where {shape} is needed")
        demand(answer.dtype == np.float64, f"an answer of dtype {answer.dtype}")
    for answer, _ in shaped:
        answer[...] = -7.0
    demand_unharmed(kept_z, z, "z")
    demand_unharmed(kept_y, y, "y")


@law_of(LIKELIHOOD_LAWS, "one value")
def one_value(likelihood: Likelihood, z: Array, y: Array) -> None:
    """value_and_gradient gives the value that value gives."""
    close(likelihood.value_and_gradient(z, y)[0], likelihood.value(z, y), 1e-12, "value")


@law_of(LIKELIHOOD_LAWS, "an indicator is one")
def indicator_is_one(likelihood: Likelihood, z: Array, y: Array) -> None:
    """An indicator is 0 or infinite, with a feasibility tolerance; other losses are finite."""
    value, tolerance = likelihood.value(z, y), likelihood.feasibility_tolerance(y)
    if likelihood.indicator:
        demand(np.all((value == 0.0) | (value == np.inf)), "a value is neither 0 nor inf")
        demand(np.all(tolerance > 0.0), "an indicator has no feasibility tolerance")
    else:
        demand(not np.any(value == np.inf), "a loss that is no indicator is infinite")
        demand(np.all(tolerance == 0.0), "a loss that is no indicator has a feasibility tolerance")


@law_of(LIKELIHOOD_LAWS, "a location is one")
def location_is_one(likelihood: Likelihood, z: Array, y: Array) -> None:
    """A loss of a location is one of z - y alone: l(z + c, y + c) = l(z, y)."""
    if not likelihood.location:
        return
    for away in (1.0, -3.0):
        shifted = likelihood.value(z + away, mapped(y, partial(np.add, away)))
        close(shifted, likelihood.value(z, y), 1e-9, "value at z + c and y + c")


@law_of(LIKELIHOOD_LAWS, "units are exchangeable")
def units_are_exchangeable(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The loss in other units is the loss: l(u z, u y) = c g(z, y)."""
    for unit in (1e-3, 7.0):
        converted = likelihood.in_units(unit)
        if converted is None:
            return
        other, factor = converted
        ours = likelihood.value(unit * z, mapped(y, partial(np.multiply, unit)))
        close(factor * other.value(z, y), ours, 1e-9, f"value in units of {unit}")


@law_of(LIKELIHOOD_LAWS, "the gradient is the derivative")
def gradient_is_derivative(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The gradient is the derivative, by a central difference of fourth order."""
    if not likelihood.smooth:
        return

    def value(predictors: Array) -> Array:
        return likelihood.value(predictors, y)

    for direction in directions(z):
        h = 1e-3 * max(unit_of(z), 1e-300)
        move = h * direction
        numeric = central_difference(value, z, move, h)
        before, gradient, after = (
            along(likelihood.value_and_gradient(z + k * move, y)[1], direction) for k in (-2, 0, 2)
        )
        size = float(np.max(np.abs(gradient)))
        # Within reach of a kink no difference quotient is accurate, but a convex loss keeps it
        # between the gradients on both sides.
        kink = np.abs(after - 2 * gradient + before) > 0.05 * (after - before) + 1e-9 * size
        kink &= likelihood.convex  # a concave stretch has falling gradients, and must have no kink
        demand(np.mean(kink) < 0.2, "its gradient jumps or changes sharply nearly everywhere")
        close(gradient[~kink] / size, numeric[~kink] / size, 1e-6, "gradient")
        allowance = 0.5 * (after - before)
        held = (numeric >= before - allowance) & (numeric <= after + allowance)
        demand(
            np.all(held[kink]),
            "at a kink the values rise faster or slower than the gradients on both sides",
        )


@law_of(LIKELIHOOD_LAWS, "convex")
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
        at_most(tangent, likelihood.value(w, y), 1e-11, "a tangent passes above the curve")


@law_of(LIKELIHOOD_LAWS, "bounded below by its infimum")
def bounded_below(likelihood: Likelihood, z: Array, y: Array) -> None:
    """No value lies below the infimum; where each y has a bound, -l*(0) is one."""
    lowest = min(float(np.min(likelihood.value(factor * z, y))) for factor in (0.1, 1.0, 100.0))
    demand(lowest >= likelihood.infimum - 1e-12, f"a value of {lowest:g} lies below its infimum")
    if likelihood.bounded_below and likelihood.convex and isinstance(likelihood, Conjugate):
        finite = np.isfinite(likelihood.conjugate(np.zeros_like(z), y))
        demand(finite.all(), "a loss that is said to be bounded below has no bound at some y")


@law_of(LIKELIHOOD_LAWS, "no steeper than its recession function", Conjugate)
def no_steeper_than_recession(likelihood: Any, z: Array, y: Array) -> None:
    """l(z + m) - l(z) is at most the limit of l(z + t m) / t as t grows."""
    if likelihood.width > 1 or not likelihood.convex:
        return
    finite = np.isfinite(likelihood.value(z, y))
    z, y = z[finite], y[finite]
    for move in (z + 1.0, -3.0 * z, np.roll(z, 5)):
        limit = likelihood.recession(move, y)
        risen = likelihood.value(z + move, y) - likelihood.value(z, y)
        seen = np.isfinite(limit)
        at_most(
            risen[seen], limit[seen], 1e-9, "it rises more steeply than its recession function"
        )


@law_of(LIKELIHOOD_LAWS, "the labels differ linearly")
def labels_differ_linearly(likelihood: Likelihood, z: Array, y: Array) -> None:
    """l(z, 1) - l(z, 0) is the linear function that the likelihood states."""
    difference = likelihood.label_difference if isinstance(likelihood, LinearDifference) else None
    if difference is None:
        return
    one, zero = (likelihood.value(z, np.full_like(z, label)) for label in (1.0, 0.0))
    close(one - zero, difference[0] * z + difference[1], 1e-9, "difference of the labels")


@law_of(LIKELIHOOD_LAWS, "finite at large values")
def finite_at_large_values(likelihood: Likelihood, z: Array, y: Array) -> None:
    """Nothing is NaN at z = +-1e4 scales, and nothing overflows for a bounded curvature."""
    far = np.where(z >= 0, 1e4, -1e4) * unit_of(z)
    value, gradient = likelihood.value_and_gradient(far, y)
    demand(not np.any(np.isnan(value)), "a value at +-1e4 is NaN")
    demand(not np.any(np.isnan(gradient)), "a gradient at +-1e4 is NaN")
    if np.isfinite(likelihood.curvature):
        demand(np.all(np.isfinite(value)) and np.all(np.isfinite(gradient)), "infinite at +-1e4")
    demand(not np.any(np.isnan(likelihood.mean(far))), "a mean at +-1e4 is NaN")


@law_of(LIKELIHOOD_LAWS, "the curvature bounds")
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
        at_most(rise / curvature, 1.0, 5e-8, "the change of the gradient over its bound")
        if likelihood.quadratic:
            close(rise, curvature, 1e-7, "curvature of a quadratic loss")


@law_of(LIKELIHOOD_LAWS, "the second derivative", TwiceDifferentiable)
def second_derivative_is_derivative(likelihood: Any, z: Array, y: Array) -> None:
    """The second derivative is the derivative of the gradient, and at most the curvature."""
    h = 1e-4 * unit_of(z)
    second = likelihood.second_derivative(z, y)
    size = float(np.max(np.abs(second)))
    for k, direction in enumerate(directions(z)):
        move = h * direction
        ahead = likelihood.value_and_gradient(z + move, y)[1]
        behind = likelihood.value_and_gradient(z - move, y)[1]
        product = likelihood.hessian_product(z, y, direction)
        sides = [likelihood.hessian_product(z + side * move, y, direction) for side in (-1, 1)]
        smooth = np.abs(sides[1] - sides[0]) <= 0.05 * size
        demand(np.mean(smooth) > 0.8, "it jumps nearly everywhere")
        numeric = (ahead - behind) / (2 * h)
        close(product[smooth] / size, numeric[smooth] / size, 1e-5, "second derivative")
        if k < likelihood.width:
            expected = along(product, direction)
            diagonal = along(second, direction)
            close(diagonal / size, expected / size, 1e-12, "diagonal of the Hessian")
    demand(np.all(second <= likelihood.curvature * (1 + 1e-12)), "it exceeds the curvature")


@law_of(LIKELIHOOD_LAWS, "Fenchel and Young", Conjugate)
def fenchel_young(likelihood: Any, z: Array, y: Array) -> None:
    """l*(s) >= s w - l(w) for every w, with equality at the gradient s of w.

    And ``nearest_gradient`` leads any others back into the domain, and leaves gradients alone.
    """
    if not likelihood.convex:
        return
    finite = np.isfinite(likelihood.value(z, y))
    z, y = z[finite], y[finite]
    value, gradient = likelihood.value_and_gradient(z, y)
    conjugate = likelihood.conjugate(gradient, y)
    close(conjugate, along(gradient, z) - value, 1e-9, "conjugate at the gradient")
    # Gradients of the other sign or too long may lie outside the domain, where it is inf.
    for factor in (-0.5, 0.0, 0.3, 0.9, 1.5):
        shorter_conjugate = likelihood.conjugate(factor * gradient, y)
        for w in (z, np.roll(z, 11, axis=0), 30.0 * z):
            least = factor * along(gradient, w) - likelihood.value(w, y)
            at_most(
                least,
                shorter_conjugate,
                1e-9,
                f"the conjugate is too small at {factor:g} gradient",
            )
    nearest = likelihood.nearest_gradient(gradient, y)
    close(nearest, gradient, 1e-12, "the nearest gradient to a gradient")
    for factor in (-3.0, -0.5, 0.0, 0.3, 0.9, 1.5, 30.0):
        nearest = likelihood.nearest_gradient(factor * gradient, y)
        finite = np.isfinite(likelihood.conjugate(nearest, y))
        demand(finite.all(), f"nearest gradients to {factor:g} gradient: no finite conjugate")


@law_of(LIKELIHOOD_LAWS, "the conjugate keeps its digits", Conjugate)
def conjugate_keeps_its_digits(likelihood: Any, z: Array, y: Array) -> None:
    """l*(s) = s z - l(z) relative to its summands, where a loss is almost 0.

    An entry may count a million times.
    """
    if likelihood.location:
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


@law_of(LIKELIHOOD_LAWS, "the prox is the minimiser", Proximable)
def prox_is_minimiser(likelihood: Any, z: Array, y: Array) -> None:
    """The prox minimises l(x) + (x - z)^2 / (2 step), and (z - prox) / step is a subgradient."""
    unit = unit_of(z)
    for size in STEPS:
        step = steps_for(z, size)
        minimiser = likelihood.prox(z, y, step)
        value = likelihood.value(minimiser, y)
        demand(np.all(np.isfinite(value)), "the loss at the prox is not finite")

        def objective(x: Array, step: Array = step) -> Array:
            return likelihood.value(x, y) + along(x - z, (x - z) / (2.0 * step))

        lowest, gradient = objective(minimiser), (z - minimiser) / step
        moves = (sign * far * unit for sign in (-1.0, 1.0) for far in (1e-3, 0.1, 1.0))
        rivals: list[Array] = [minimiser + move for move in moves]
        rivals += [z, likelihood.start(y), 0.5 * (minimiser + z)]
        for rival in rivals:
            at_most(lowest, objective(rival), 1e-10, "another point is better than the prox")
            tangent, above = value + along(gradient, rival - minimiser), likelihood.value(rival, y)
            at_most(tangent, above, 1e-10, "(z - prox) / step is no subgradient at the prox")
        if isinstance(likelihood, Conjugate):
            nearest = likelihood.nearest_gradient(gradient, y)
            wanted = along(nearest, minimiser) - value
            close(likelihood.conjugate(nearest, y), wanted, 1e-9, "conjugate at (z - prox) / step")


@law_of(LIKELIHOOD_LAWS, "the gradient of the prox", Proximable)
def prox_gradient_is_derivative(likelihood: Any, z: Array, y: Array) -> None:
    """The gradient of the prox is its derivative; at a kink of the prox it is one side's."""
    h = 1e-4 * unit_of(z)
    for size in STEPS:
        step = steps_for(z, size)
        minimiser = likelihood.prox(z, y, step)
        after = (likelihood.prox(z + h, y, step) - minimiser) / h
        before = (minimiser - likelihood.prox(z - h, y, step)) / h
        gradient = likelihood.prox_gradient(z, y, step)
        inside = (gradient >= 0.0) & (gradient <= 1.0)
        demand(np.all(inside), "a gradient of the prox is not in [0, 1]")
        low, high = np.minimum(before, after), np.maximum(before, after)
        held = (gradient >= low - 1e-3) & (gradient <= high + 1e-3)
        demand(np.all(held), "a gradient of the prox is not its derivative")
        smooth = np.abs(after - before) <= 1e-3
        # A third of the points may stand at a kink of the prox, where losses start.
        demand(np.mean(smooth) > 0.5, "the gradient of the prox jumps nearly everywhere")
        middle = 0.5 * (before + after)
        close(gradient[smooth], middle[smooth], 1e-6, "gradient of the prox")


@law_of(LIKELIHOOD_LAWS, "the prox solves its program", Proximable)
def prox_solves_its_program(likelihood: Any, z: Array, y: Array) -> None:
    """The prox is what CVXPY finds for the definition."""
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
        nearest = likelihood.prox(z, y, step)
        close(nearest / unit, np.asarray(variable.value), 1e-5, "prox in CVXPY")


def steps_for(z: Array, size: float) -> Array:
    """Prox steps of about one size, none equal to the next."""
    steps = size * unit_of(z) * np.linspace(0.5, 1.5, z.size)
    return steps.reshape(z.shape)
