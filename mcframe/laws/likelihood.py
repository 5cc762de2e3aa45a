"""The laws of likelihoods: one function each, over points that stress them."""

import copy
from collections.abc import Callable, Sequence

import cvxpy as cp
import numpy as np

from mcframe.compile.bias import best_bias, infinite_biases
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Conjugate, Likelihood, Sampler, TwiceDifferentiable
from mcframe.laws.violations import close, demand, law, unharmed

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
    rng = np.random.default_rng(seed)
    near = np.concatenate([np.linspace(-3, 3, 25), rng.normal(0.0, 2.0, 60)]) * scale
    y = rng.choice(np.asarray(valid, dtype=float), near.size)
    for name, holds in LIKELIHOOD_LAWS.items():
        with law(likelihood, name):
            holds(likelihood, near, y)


def domain_ends(likelihood: Likelihood, valid: Sequence[float], invalid: Sequence[float]) -> None:
    """Valid observations are taken and invalid ones refused."""
    for y in valid:
        demand(not likelihood.invalid(np.array([y]))[0], f"y={y!r} is refused as invalid")
    for y in invalid:
        demand(likelihood.invalid(np.array([y]))[0], f"y={y!r} is taken as valid")


def one_value(likelihood: Likelihood, z: Array, y: Array) -> None:
    """value_and_slope gives the value that value gives."""
    close(likelihood.value_and_slope(z, y)[0], likelihood.value(z, y), 1e-12, "value")


def slope_is_derivative(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The slope is the derivative, by a central difference of fourth order."""
    h = 1e-3 * max(float(np.max(np.abs(z))) / 6, 1e-300)
    ahead, behind = likelihood.value(z + h, y), likelihood.value(z - h, y)
    far_ahead, far_behind = likelihood.value(z + 2 * h, y), likelihood.value(z - 2 * h, y)
    numeric = (8 * (ahead - behind) - (far_ahead - far_behind)) / (12 * h)
    slope = likelihood.value_and_slope(z, y)[1]
    size = float(np.max(np.abs(slope)))
    # Within reach of a kink no difference quotient is accurate, but a convex loss keeps it
    # between the slopes on both sides.
    before, after = (likelihood.value_and_slope(z + s * h, y)[1] for s in (-2, 2))
    kink = np.abs(after - 2 * slope + before) > 0.05 * (after - before) + 1e-9 * size
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
    value, slope = likelihood.value_and_slope(z, y)
    for shift in (1.0, -0.1, 17.0):
        w = np.roll(z, 7) * shift
        tangent = value + slope * (w - z)
        above = likelihood.value(w, y) - tangent
        size = 1e-11 * (1.0 + np.abs(tangent))
        demand(np.all(above >= -size), f"a tangent passes {-above.min():g} above the curve")


def curvature_bounds(likelihood: Likelihood, z: Array, y: Array) -> None:
    """|l'(z) - l'(w)| <= curvature |z - w|, close and far."""
    curvature = likelihood.curvature
    demand(curvature > 0.0, f"curvature={curvature!r}; a positive number or inf is needed")
    spread = float(np.max(np.abs(z)))
    slope = likelihood.value_and_slope(z, y)[1]
    for distance in (1e-4, 1e-2, 1.0):
        moved = likelihood.value_and_slope(z + distance * spread, y)[1]
        bend = float(np.max(np.abs(moved - slope))) / (distance * spread)
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
    ahead = likelihood.value_and_slope(z + h, y)[1]
    behind = likelihood.value_and_slope(z - h, y)[1]
    found = likelihood.second_derivative(z, y)
    size = float(np.max(np.abs(found)))
    sides = [likelihood.second_derivative(z + side, y) for side in (-h, h)]
    smooth = np.abs(sides[1] - sides[0]) <= 0.05 * size
    demand(np.mean(smooth) > 0.8, "it jumps nearly everywhere")
    numeric = (ahead - behind) / (2 * h)
    close(found[smooth] / size, numeric[smooth] / size, 1e-5, "second derivative")
    demand(np.all(found <= likelihood.curvature * (1 + 1e-12)), "it exceeds the curvature")


def bounded_below(likelihood: Likelihood, z: Array, y: Array) -> None:
    """No value lies below the infimum."""
    lowest = min(float(np.min(likelihood.value(factor * z, y))) for factor in (0.1, 1.0, 100.0))
    demand(
        lowest >= likelihood.infimum - 1e-12,
        f"a value of {lowest:g} lies below infimum={likelihood.infimum:g}",
    )


def fenchel_young(likelihood: Likelihood, z: Array, y: Array) -> None:
    """l*(s) >= s w - l(w) for every w, with equality at the slope s of w."""
    if not isinstance(likelihood, Conjugate):
        return
    value, slope = likelihood.value_and_slope(z, y)
    conjugate = likelihood.conjugate(slope, y)
    close(conjugate, slope * z - value, 1e-9, "conjugate at the slope")
    for factor in (0.0, 0.3, 0.9):
        shorter = likelihood.conjugate(factor * slope, y)
        for w in (z, np.roll(z, 11), 30.0 * z):
            least = factor * slope * w - likelihood.value(w, y)
            short = least - shorter
            demand(
                np.all(short <= 1e-9 * (1 + np.abs(least))),
                f"the conjugate is {float(np.max(short)):g} too small at {factor:g} slope",
            )


def expression_is_definition(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The CVXPY expression has the same value, entry by entry, and is convex by its rules."""
    variable = cp.Variable(z.size)
    expression = likelihood.expression(cp, variable, y)
    demand(expression.shape == z.shape, f"its expression has shape {expression.shape}")
    demand(expression.is_convex(), "its expression is not convex by CVXPY's rules")
    variable.value = z
    with np.errstate(all="ignore"):  # CVXPY's own arithmetic is not ours to judge
        found = np.asarray(expression.value)
    close(found, likelihood.value(z, y), 1e-9, "expression")


def bias_is_best(likelihood: Likelihood, z: Array, y: Array) -> None:
    """The bias solved for is the best constant: moving it either way does not help."""
    if not isinstance(likelihood, TwiceDifferentiable):
        return
    columns = np.arange(z.size) % 3
    infinite = infinite_biases(likelihood, y, columns, 3)
    bias = best_bias(likelihood, z, y, columns, np.zeros(3), infinite).bias
    best = np.sum(likelihood.value(z + bias[columns], y))
    for move in (1e-3, -1e-3, 1.0, -1.0):
        other = np.sum(likelihood.value(z + bias[columns] + move, y))
        demand(other >= best - 1e-12 * (1 + abs(best)), f"a bias moved by {move:g} is better")


def samples_match(likelihood: Likelihood, z: Array, y: Array) -> None:
    """Over many draws the mean is the mean response and the slope averages to 0.

    Within six standard errors. The second is the zero mean of the score: it ties the mean,
    through the sampler, to the loss.
    """
    if not isinstance(likelihood, Sampler):
        return
    few = np.tile(z[:: max(1, z.size // 8)], (20_000, 1))
    draws = likelihood.sample(few, np.random.default_rng(1))
    demand(not np.any(likelihood.invalid(draws)), "a draw lies outside the domain")
    slopes = likelihood.value_and_slope(few, draws)[1]
    for sample, wanted, what in (
        (draws, likelihood.mean(few[0]), "the mean of draws"),
        (slopes, np.zeros(few.shape[1]), "the mean slope of draws"),
    ):
        size = float(np.max(np.abs(sample)))
        error = np.maximum(np.std(sample, axis=0) / np.sqrt(len(sample)), 1e-3 * size)
        away = float(np.max(np.abs(sample.mean(axis=0) - wanted) / error))
        demand(away < 6.0, f"{what} is {away:.1f} standard errors off")


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
    answers = [*likelihood.value_and_slope(z, y), likelihood.value(z, y)]
    answers += [likelihood.mean(z), likelihood.start(y)]
    if isinstance(likelihood, TwiceDifferentiable):
        answers.append(likelihood.second_derivative(z, y))
    for answer in answers:
        demand(answer.shape == z.shape, f"an answer of shape {answer.shape} for {z.shape}")
        demand(answer.dtype == np.float64, f"an answer of dtype {answer.dtype}")
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
    "one value": one_value,
    "the slope is the derivative": slope_is_derivative,
    "convex": convex,
    "the curvature bounds": curvature_bounds,
    "the second derivative bends": second_derivative_bends,
    "bounded below by its infimum": bounded_below,
    "Fenchel and Young": fenchel_young,
    "the expression is the definition": expression_is_definition,
    "the bias is best": bias_is_best,
    "samples match": samples_match,
    "finite far out": far_out_finite,
    "arguments unharmed": arguments_unharmed,
    "compared by value": compared_by_value,
}
