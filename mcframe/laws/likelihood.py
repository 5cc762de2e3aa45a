"""The laws of likelihoods: one function each, over points that stress them."""

import copy
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from mcframe.backends.conic import cp
from mcframe.compile.effects import declared_effects
from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.likelihood import (
    Conjugate,
    Distribution,
    Likelihood,
    LinearDifference,
    Proximable,
    TwiceDifferentiable,
)
from mcframe.laws.abilities import (
    along,
    directions,
    fitted,
    joint_expression_is_definition,
    parameters_are_best,
    prox_is_minimiser,
    prox_slope_is_derivative,
    prox_solves_its_program,
)
from mcframe.laws.approximations import approximation_is_bound, is_exact
from mcframe.laws.violations import close, demand, law, unharmed
from mcframe.model import Layout

__all__ = ["LIKELIHOOD_LAWS", "check_likelihood"]

Law = Callable[[Likelihood, Array, Array], None]


def check_likelihood(
    likelihood: Likelihood,
    valid: Sequence[float] = (0.0, 1.0),
    invalid: Sequence[float] = (np.inf,),
    *,
    scale: float = 1.0,
    seed: int = 0,
) -> None:
    """Hold a likelihood to every law of its contract and of the abilities it claims.

    Parameters
    ----------
    likelihood : Likelihood
        Yours or ours.
    valid, invalid : sequences of numbers
        Observations inside and outside its domain; each must be recognised.
    scale : float, default 1
        The size of linear predictors at which the loss bends.
    seed : int
        Of the random points.

    Raises
    ------
    LawViolation
        Names the law, and the numbers that break it.

    Examples
    --------
    >>> import mcframe as mc
    >>> mc.laws.check_likelihood(mc.Gaussian(), valid=[-2.0, 0.5], invalid=[float("inf")])
    """
    with law(likelihood, "the domain holds its own"):
        domain_ends(likelihood, valid, invalid)
    z, y = points(likelihood, valid, scale, np.random.default_rng(seed))
    for name, holds in PARAMETRIC_LAWS.items():
        with law(likelihood, name):
            holds(likelihood, z, y)
    with law(likelihood, "the parameters are best"):
        at_best = fitted(likelihood, z, y)
    for name, holds in LIKELIHOOD_LAWS.items():
        with law(likelihood, name):
            holds(at_best, z, y)


def points(
    likelihood: Likelihood, valid: Sequence[float], scale: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Predictors and observations; of a loss without a slope every third at its start.

    Where such losses start they have their kinks, or are finite at all.
    """
    near = np.concatenate([np.linspace(-3, 3, 25), rng.normal(0.0, 2.0, 60)]) * scale
    y = rng.choice(np.asarray(valid, dtype=float), near.size)
    if likelihood.width > 1:
        near = scale * rng.normal(0.0, 2.0, (near.size, likelihood.width))
        near[::9] = 0.0
    if not likelihood.smooth:
        near[::3] = likelihood.start(y)[::3]
    return near, y


def domain_ends(likelihood: Likelihood, valid: Sequence[float], invalid: Sequence[float]) -> None:
    """Valid observations are taken and invalid ones refused."""
    for y in valid:
        demand(not likelihood.invalid(np.array([y]))[0], f"y={y!r} is refused as invalid")
    for y in invalid:
        demand(likelihood.invalid(np.array([y]))[0], f"y={y!r} is taken as valid")


def one_value(likelihood: Likelihood, z: Array, y: Array) -> None:
    """value_and_slope gives the value that value gives."""
    close(likelihood.value_and_slope(z, y)[0], likelihood.value(z, y), 1e-12, "value")


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


def slope_is_derivative(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The slope is the derivative, by a central difference of fourth order."""
    if not likelihood.smooth:
        return
    for direction in directions(z):
        slope_is_derivative_along(likelihood, z, y, direction)


def slope_is_derivative_along(
    likelihood: Likelihood, z: Array, y: Array, direction: Array
) -> None:
    """The same in one direction."""
    h = 1e-3 * max(float(np.max(np.abs(z))) / 6, 1e-300)
    move = h * direction
    ahead, behind = likelihood.value(z + move, y), likelihood.value(z - move, y)
    far_ahead, far_behind = likelihood.value(z + 2 * move, y), likelihood.value(z - 2 * move, y)
    numeric = (8 * (ahead - behind) - (far_ahead - far_behind)) / (12 * h)
    slope = along(likelihood.value_and_slope(z, y)[1], direction)
    size = float(np.max(np.abs(slope)))
    # Within reach of a kink no difference quotient is accurate, but a convex loss keeps it
    # between the slopes on both sides.
    before, after = (
        along(likelihood.value_and_slope(z + s * move, y)[1], direction) for s in (-2, 2)
    )
    kink = np.abs(after - 2 * slope + before) > 0.05 * (after - before) + 1e-9 * size
    kink &= likelihood.convex  # a concave stretch has falling slopes, and must have no kink
    demand(np.mean(kink) < 0.2, "its slope jumps or bends sharply nearly everywhere")
    close(slope[~kink] / size, numeric[~kink] / size, 1e-6, "slope")
    low, high = (
        before[kink] - 0.5 * (after - before)[kink],
        after[kink] + 0.5 * (after - before)[kink],
    )
    held = np.all((numeric[kink] >= low) & (numeric[kink] <= high))
    demand(held, "at a kink the values rise faster or slower than the slopes on both sides")


def convex(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The tangent lies below the curve: l(w) >= l(z) + l'(z) (w - z)."""
    if not likelihood.convex:
        return
    finite = np.isfinite(likelihood.value(z, y))
    demand(np.any(finite), "it is infinite nearly everywhere")
    z, y = z[finite], y[finite]
    value, slope = likelihood.value_and_slope(z, y)
    for shift in (1.0, -0.1, 17.0):
        w = np.roll(z, 7, axis=0) * shift
        tangent = value + along(slope, w - z)
        above = likelihood.value(w, y) - tangent
        size = 1e-11 * (1.0 + np.abs(tangent))
        demand(np.all(above >= -size), f"a tangent passes {-above.min():g} above the curve")


def curvature_bounds(likelihood: Likelihood, z: Array, y: Array) -> None:
    """|l'(z) - l'(w)| <= curvature |z - w|, close and far."""
    curvature = likelihood.curvature
    demand(curvature > 0.0, f"curvature={curvature!r}; a positive number or inf is needed")
    if not likelihood.smooth:
        demand(np.isinf(curvature), f"curvature={curvature!r} of a loss that is not smooth")
        return
    spread = float(np.max(np.abs(z)))
    slope = likelihood.value_and_slope(z, y)[1]
    for distance, direction in itertools.product((1e-4, 1e-2, 1.0), directions(z)):
        move = distance * spread * direction
        turn = likelihood.value_and_slope(z + move, y)[1] - slope
        bend = float(np.max(np.sqrt(along(turn, turn) / along(move, move))))
        demand(
            bend <= curvature * (1 + 1e-7),
            f"the slope changes by {bend:g} per unit, above the curvature {curvature:g}",
        )
        if likelihood.quadratic:
            close(bend, curvature, 1e-7, "curvature of a quadratic loss")


def second_derivative_bends(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The second derivative is the derivative of the slope, and at most the curvature."""
    if not isinstance(likelihood, TwiceDifferentiable):
        return
    h = 1e-4 * float(np.max(np.abs(z))) / 6
    second = likelihood.second_derivative(z, y)
    size = float(np.max(np.abs(second)))
    for k, direction in enumerate(directions(z)):
        move = h * direction
        ahead = likelihood.value_and_slope(z + move, y)[1]
        behind = likelihood.value_and_slope(z - move, y)[1]
        found = likelihood.bend(z, y, direction)
        sides = [likelihood.bend(z + side * move, y, direction) for side in (-1, 1)]
        smooth = np.abs(sides[1] - sides[0]) <= 0.05 * size
        demand(np.mean(smooth) > 0.8, "it jumps nearly everywhere")
        numeric = (ahead - behind) / (2 * h)
        close(found[smooth] / size, numeric[smooth] / size, 1e-5, "second derivative")
        if k < likelihood.width:
            own = along(found, direction)
            diagonal = along(second, direction)
            close(diagonal / size, own / size, 1e-12, "diagonal of the Hessian")
    demand(np.all(second <= likelihood.curvature * (1 + 1e-12)), "it exceeds the curvature")


def labels_differ_linearly(likelihood: Likelihood, z: Array, y: Array) -> None:
    """l(z, 1) - l(z, 0) is the line that it says it is."""
    line = likelihood.label_difference if isinstance(likelihood, LinearDifference) else None
    if line is None:
        return
    one, zero = (likelihood.value(z, np.full_like(z, label)) for label in (1.0, 0.0))
    close(one - zero, line[0] * z + line[1], 1e-9, "difference of the labels")


def bounded_below(likelihood: Likelihood, z: Array, y: Array) -> None:
    """No value lies below the infimum."""
    lowest = min(float(np.min(likelihood.value(factor * z, y))) for factor in (0.1, 1.0, 100.0))
    demand(
        lowest >= likelihood.infimum - 1e-12,
        f"a value of {lowest:g} lies below infimum={likelihood.infimum:g}",
    )


def fenchel_young(likelihood: Likelihood, z: Array, y: Array) -> None:
    """l*(s) >= s w - l(w) for every w, with equality at the slope s of w.

    And ``nearest_slope`` leads shorter slopes back into the domain, and leaves slopes alone.
    """
    if not isinstance(likelihood, Conjugate) or not likelihood.convex:
        return
    finite = np.isfinite(likelihood.value(z, y))
    z, y = z[finite], y[finite]
    value, slope = likelihood.value_and_slope(z, y)
    conjugate = likelihood.conjugate(slope, y)
    close(conjugate, along(slope, z) - value, 1e-9, "conjugate at the slope")
    # Slopes of the other sign or too long may lie outside the domain, where it is inf.
    for factor in (-0.5, 0.0, 0.3, 0.9, 1.5):
        there = likelihood.conjugate(factor * slope, y)
        for w in (z, np.roll(z, 11, axis=0), 30.0 * z):
            least = factor * along(slope, w) - likelihood.value(w, y)
            short = least - there
            demand(
                np.all(short <= 1e-9 * (1 + np.abs(least))),
                f"the conjugate is {float(np.max(short)):g} too small at {factor:g} slope",
            )
    close(likelihood.nearest_slope(slope, y), slope, 1e-12, "the nearest slope to a slope")
    for factor in (0.0, 0.3, 0.9):
        nearest = likelihood.nearest_slope(factor * slope, y)
        inside = np.isfinite(likelihood.conjugate(nearest, y))
        demand(np.all(inside), f"the nearest slopes to {factor:g} slope have no finite conjugate")


def conjugate_keeps_its_digits(likelihood: Likelihood, z: Array, y: Array) -> None:
    """l*(s) = s z - l(z) relative to its summands, where a loss is almost 0.

    An entry may count a million times.
    """
    if not isinstance(likelihood, Conjugate) or likelihood.location:
        return
    if not (likelihood.smooth and likelihood.convex and likelihood.infimum == 0.0):
        return
    for factor in (1.0, 3.0, 8.0):
        value, slope = likelihood.value_and_slope(factor * z, y)
        product, conjugate = along(slope, factor * z), likelihood.conjugate(slope, y)
        sizes = along(np.abs(slope), np.abs(factor * z)) + value + np.abs(conjugate)
        small = (value > 1e-100) & (value < 1e-2)
        off = np.abs(conjugate - product + value)[small]
        demand(bool(np.all(off <= 1e-9 * sizes[small])), "digits of the conjugate are lost")


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
        constraints = likelihood.expression_constraints(cp, outside, y[i : i + 1])
        held = all(bool(np.all(c.value())) for c in constraints)
        demand(not held, "its CVXPY constraints hold where it is infinite")
    z, y, value = z[finite], y[finite], value[finite]
    variable = cp.Variable(z.shape, value=z)
    expression = likelihood.expression(cp, variable, y)
    demand(expression.shape == y.shape, f"its expression has shape {expression.shape}")
    demand(expression.is_convex(), "its expression is not convex by CVXPY's rules")
    with np.errstate(all="ignore"):  # CVXPY's own arithmetic is not ours to judge
        found = np.asarray(expression.value)
    if not is_exact(likelihood, z, y):
        found = np.maximum(found, value)
    close(found, value, 1e-9, "expression")
    for constraint in likelihood.expression_constraints(cp, variable, y):
        demand(constraint.is_dcp(), "its constraint is not convex by CVXPY's rules")
        demand(np.all(constraint.value()), "its CVXPY constraints are broken where it is finite")


def has_best_bias(likelihood: Likelihood, y: Array, columns: IntArray) -> Mask:
    """The columns whose loss rises on both sides: a risk of many positives may fall forever."""
    far = np.full_like(y, 1e3 / np.sqrt(likelihood.curvature))
    up, down = (
        np.bincount(columns, weights=likelihood.value_and_slope(side * far, y)[1])
        for side in (1.0, -1.0)
    )
    return (up > 0.0) & (down < 0.0)


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


def solved_biases(likelihood: Likelihood, z: Array, y: Array, columns: IntArray) -> Array:
    """The biases of three columns as a fit solves for them."""
    rows = np.arange(columns.size)
    layout = Layout(n_biases=3 * likelihood.width)
    effects = declared_effects(layout, likelihood, y, rows, columns, 1.0)
    return np.asarray(effects.solve(likelihood, z, y, 1.0, None))


def biases_of_classes_are_best(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The same where each column of data has one bias for each of its latent columns."""
    width, columns = likelihood.width, np.arange(len(z)) % 3
    bias = solved_biases(likelihood, z, y, columns)
    columns = columns[:, None] * width + np.arange(width)
    best = np.sum(likelihood.value(z + bias[columns], y))
    for k in range(width):
        for move in (1e-3, -1e-3, 1.0, -1.0):
            moved = z + bias[columns] + move * np.eye(width)[k]
            other = np.sum(likelihood.value(moved, y))
            demand(other >= best - 1e-12 * (1 + abs(best)), f"a bias moved by {move:g} is better")


def samples_match(likelihood: Likelihood, z: Array, y: Array) -> None:
    """Over many draws the mean is the mean response and the slope averages to 0.

    Within six standard errors. The second is the zero mean of the score: it ties the mean,
    through the sampler, to the loss.
    """
    if not isinstance(likelihood, Distribution):
        return
    few = z[:: max(1, len(z) // 8)]
    many = np.concatenate([few] * 20_000)
    draws = likelihood.sample(many, np.random.default_rng(1))
    demand(not np.any(likelihood.invalid(draws)), "a draw lies outside the domain")
    slopes = likelihood.value_and_slope(many, draws)[1].reshape(-1, *few.shape)
    # Of classes, coded 0, 1, ..., the mean response is the probability of each code.
    coded = draws if few.ndim == 1 else draws[:, None] == np.arange(likelihood.width)
    coded = np.asarray(coded, dtype=float).reshape(-1, *few.shape)
    for sample, wanted, what in (
        (coded, likelihood.mean(few), "the mean of draws"),
        (slopes, np.zeros(few.shape), "the mean slope of draws"),
    ):
        size = float(np.max(np.abs(sample)))
        error = np.maximum(np.std(sample, axis=0) / np.sqrt(len(sample)), 1e-3 * size)
        away = float(np.max(np.abs(sample.mean(axis=0) - wanted) / error))
        demand(away < 6.0, f"{what} is {away:.1f} standard errors off")


def log_likelihood_is_loss(likelihood: Likelihood, z: Array, y: Array) -> None:
    """log p(y | z) + l(z, y) is a function of y alone."""
    if not isinstance(likelihood, Distribution):
        return
    sums, size = [], np.ones(y.shape)
    for w in (z, np.roll(z, 7, axis=0), 0.0 * z):
        value, log_likelihood = likelihood.value(w, y), likelihood.log_likelihood(w, y)
        demand(log_likelihood.shape == y.shape, f"log_likelihood of shape {log_likelihood.shape}")
        sums.append(log_likelihood + value)
        size = np.maximum(size, np.abs(log_likelihood) + np.abs(value))
    for other in sums[1:]:
        change = float(np.max(np.abs(other - sums[0]) / size))
        demand(change <= 1e-12, f"with z it changes by {change:g}, relatively")


def z_has_its_name(likelihood: Likelihood, z: Array, y: Array) -> None:
    """z has a name of its own where the mean response is something else, and only there."""
    mean = np.allclose(likelihood.mean(z), z, rtol=1e-9)
    demand(
        mean == (likelihood.z_name is None),
        f"z_name={likelihood.z_name!r}, and z is {'' if mean else 'not '}the mean response",
    )


def far_out_finite(likelihood: Likelihood, z: Array, y: Array) -> None:
    """At z = +-1e4 scales nothing overflows for a bounded curvature, and nothing is NaN."""
    far = np.where(z >= 0, 1e4, -1e4) * (float(np.max(np.abs(z))) / 6)
    value, slope = likelihood.value_and_slope(far, y)
    demand(not np.any(np.isnan(value)), "a value at +-1e4 is NaN")
    demand(not np.any(np.isnan(slope)), "a slope at +-1e4 is NaN")
    if np.isfinite(likelihood.curvature):
        demand(np.all(np.isfinite(value)) and np.all(np.isfinite(slope)), "infinite at +-1e4")
    demand(not np.any(np.isnan(likelihood.mean(far))), "a mean at +-1e4 is NaN")


def arguments_unharmed(likelihood: Likelihood, z: Array, y: Array) -> None:
    """Arguments stay as they were, answers are float64 arrays of their shape."""
    kept_z, kept_y = z.copy(), y.copy()
    value, slope = likelihood.value_and_slope(z, y)
    answers = [slope, likelihood.mean(z), likelihood.start(y)]
    if isinstance(likelihood, TwiceDifferentiable):
        answers += [likelihood.second_derivative(z, y), likelihood.bend(z, y, np.ones_like(z))]
    if isinstance(likelihood, Proximable):
        step = np.ones_like(z)
        answers += [likelihood.prox(z, y, step), likelihood.prox_slope(z, y, step)]
    shaped = [(answer, z.shape) for answer in answers]
    values = [value, likelihood.value(z, y)]
    if isinstance(likelihood, Conjugate):
        values.append(likelihood.conjugate(slope, y))
    shaped += [(answer, y.shape) for answer in values]
    for answer, shape in shaped:
        demand(answer.shape == shape, f"an answer of shape {answer.shape} where {shape} is needed")
        demand(answer.dtype == np.float64, f"an answer of dtype {answer.dtype}")
    for answer, _ in shaped:
        answer[...] = -7.0
    unharmed(kept_z, z, "z")
    unharmed(kept_y, y, "y")


def compared_by_value(likelihood: Likelihood, z: Array, y: Array) -> None:
    """A frozen object: equal copies are equal, hash alike, and cannot be changed."""
    twin = copy.deepcopy(likelihood)
    demand(twin == likelihood and hash(twin) == hash(likelihood), "a copy is not equal to it")
    demand(likelihood.formula("z", "y").strip() != "", "its formula is empty")
    demand(likelihood.latex("z", "y").strip() != "", "its LaTeX is empty")


LIKELIHOOD_LAWS: dict[str, Law] = {
    # First: a word that harms its arguments breaks all other laws in misleading ways.
    "arguments unharmed": arguments_unharmed,
    "one value": one_value,
    "a location is one": location_is_one,
    "units are exchangeable": units_are_exchangeable,
    "the slope is the derivative": slope_is_derivative,
    "convex": convex,
    "the curvature bounds": curvature_bounds,
    "the second derivative bends": second_derivative_bends,
    "the labels differ linearly": labels_differ_linearly,
    "bounded below by its infimum": bounded_below,
    "Fenchel and Young": fenchel_young,
    "the expression is the definition": expression_is_definition,
    "the bias is best": bias_is_best,
    "the expression is a bound": approximation_is_bound,
    "samples match": samples_match,
    "the log-likelihood is the loss": log_likelihood_is_loss,
    "the prox is the minimiser": prox_is_minimiser,
    "the slope of the prox": prox_slope_is_derivative,
    "the prox solves its program": prox_solves_its_program,
    "z has its name": z_has_its_name,
    "finite far out": far_out_finite,
    "the conjugate keeps its digits": conjugate_keeps_its_digits,
    "compared by value": compared_by_value,
}

# Held to the likelihood as it is given; all others see it with its parameters fitted.
PARAMETRIC_LAWS: dict[str, Law] = {
    "the parameters are best": parameters_are_best,
    "the joint expression is the definition": joint_expression_is_definition,
    "compared by value": compared_by_value,
}
