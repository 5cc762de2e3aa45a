"""The laws of likelihoods, and the public check of all of them."""

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from mcframe.backends.statement import cp
from mcframe.compile.effects import described_effects
from mcframe.contracts.arrays import Array, IntArray, Mask, ends_of, points_of
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import (
    Approximated,
    Distribution,
    ExpectedDerivatives,
    ExpectedLogLikelihood,
    GaussianBound,
    Likelihood,
    LogisticTerms,
    Parametric,
    TwiceDifferentiable,
    ValueKind,
    fits_parameters,
)
from mcframe.contracts.validators import Options, RandomState
from mcframe.laws.checking import (
    LIKELIHOOD_LAWS,
    PARAMETRIC_LAWS,
    Observation,
    central_difference,
    close,
    demand,
    demand_unharmed,
    law,
    law_of,
    observations_of,
    unit_of,
)
from mcframe.model import Layout


def check_likelihood(
    likelihood: Likelihood,
    valid: Sequence[Observation] = (0.0, 1.0),
    invalid: Sequence[Observation] = (np.inf,),
    *,
    scale: float = 1.0,
    random_state: RandomState = 0,
) -> None:
    """Hold a likelihood to every law of its contract and of the abilities it claims.

    Parameters
    ----------
    likelihood : Likelihood
        Of this package or your own.
    valid, invalid : sequences of numbers
        Observations inside and outside its domain; each must be recognised. Of a likelihood that
        takes intervals a pair of numbers are two limits, of one that takes propensities a label
        and its propensity.
    scale : float, default 1
        The size of linear predictors at which the curvature of the loss is largest.
    random_state : int, generator of numpy or None, default 0
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
    with law(likelihood, "the domain"):
        domain_ends(likelihood, valid, invalid)
        kind_of_domain(likelihood, valid)
    z, y = points(
        likelihood, valid, scale, np.random.default_rng(Options.random_state(random_state))
    )
    at_best: Any = likelihood
    if isinstance(likelihood, Parametric) and fits_parameters(likelihood):
        for name, holds in PARAMETRIC_LAWS.items():
            with law(likelihood, name):
                holds(likelihood, z, y)
        with law(likelihood, "the parameters are best"):
            best = likelihood.best_parameters(z, y, np.ones(y.size), None)
            at_best = likelihood.with_parameters(best)
    for name, holds in LIKELIHOOD_LAWS.items():
        with law(likelihood, name):
            holds(at_best, z, y)


def points(
    likelihood: Likelihood, valid: Sequence[Observation], scale: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Predictors and observations; of a loss without a gradient every third at its start.

    Where such losses start they have their kinks, or are finite at all.
    """
    near = np.concatenate([np.linspace(-3, 3, 25), rng.normal(0.0, 2.0, 60)]) * scale
    y = rng.choice(observations_of(likelihood, valid), near.size)
    if likelihood.width > 1:
        near = scale * rng.normal(0.0, 2.0, (near.size, likelihood.width))
        near[::9] = 0.0
    if not likelihood.smooth:
        near[::3] = likelihood.start(y)[::3]
    return near, y


def domain_ends(
    likelihood: Likelihood, valid: Sequence[Observation], invalid: Sequence[Observation]
) -> None:
    """Valid observations are taken and invalid ones refused."""
    for y in valid:
        refused = likelihood.invalid(observations_of(likelihood, [y]))[0]
        demand(not refused, f"y={y!r} is refused as invalid")
    for y in invalid:
        taken = not likelihood.invalid(observations_of(likelihood, [y]))[0]
        demand(not taken, f"y={y!r} is taken as valid")


def kind_of_domain(likelihood: Likelihood, valid: Sequence[Observation]) -> None:
    """The declared kind, values and limits are those of the observations that are taken."""
    observed = np.concatenate(ends_of(observations_of(likelihood, valid)))
    observed = observed[np.isfinite(observed)]
    lowest, highest = likelihood.limits
    outside = [y for y in observed if not lowest <= y <= highest]
    demand(not outside, f"y={outside[:1]} is valid, and limits are {lowest:g} and {highest:g}")
    if np.isfinite(lowest):
        below = lowest - np.array([0.5, 1.0, 1e6])
        demand(
            likelihood.invalid(below).all(), f"kind={likelihood.kind}: below {lowest:g} is valid"
        )
    if likelihood.whole:
        fraction = np.floor(observed) + 0.5
        demand(likelihood.invalid(fraction).all(), f"kind={likelihood.kind}: a fraction is valid")
        demand(
            not (observed % 1.0).any(), f"kind={likelihood.kind}: valid are whole numbers alone"
        )
    if likelihood.values is None:
        listed = (ValueKind.LABEL, ValueKind.CLASS, ValueKind.LEVEL)
        demand(likelihood.kind not in listed, f"kind={likelihood.kind} needs a list of values")
        far = np.abs(observed).max(initial=1.0) * 10.0
        demand(not likelihood.invalid(np.array([np.ceil(far)])).any(), "values need a list")
        return
    values = likelihood.values
    demand(not likelihood.invalid(values).any(), f"one of values={values} is not valid")
    demand(bool(np.all(np.diff(values) > 0.0)), "values do not increase")
    demand(bool(np.isin(observed, values).all()), "a valid value is missing among values")
    if likelihood.kind is ValueKind.LABEL:
        demand(np.array_equal(values, [0.0, 1.0]), "labels are 0 and 1")


@law_of(PARAMETRIC_LAWS, "compared by value")
@law_of(LIKELIHOOD_LAWS, "compared by value")
def compared_by_value(likelihood: Likelihood, z: Array, y: Array) -> None:
    """A frozen object: equal copies are equal, hash alike, and cannot be changed."""
    twin = copy.deepcopy(likelihood)
    demand(twin == likelihood and hash(twin) == hash(likelihood), "a copy is not equal to it")
    demand(likelihood.formula("z", "y").strip() != "", "its formula is empty")


@law_of(LIKELIHOOD_LAWS, "the bias is best", TwiceDifferentiable)
def bias_is_best(likelihood: Any, z: Array, y: Array) -> None:
    """The effects of the backends give the bias of each column, of each class, that minimises."""
    if not likelihood.convex:
        return
    columns, width = np.arange(len(z)) % 3, likelihood.width
    if likelihood.reads_unlabeled:
        kept = has_best_bias(likelihood, y, columns)[columns]
        z, y, columns = z[kept], y[kept], columns[kept]
    layout, rows = Layout(n_biases=3 * width), np.arange(columns.size)
    effects = described_effects(layout, likelihood, rows, columns).checked(likelihood, y, 1.0)
    bias = np.asarray(effects.solve(likelihood, z, y, 1.0, None))
    predictors = z + bias.reshape(3, *z.shape[1:])[columns]
    best = np.sum(likelihood.value(predictors, y))
    for unit, move in itertools.product(np.eye(width), (1e-3, -1e-3, 1.0, -1.0)):
        other = np.sum(likelihood.value(predictors + move * (unit if width > 1 else 1.0), y))
        demand(other >= best - 1e-12 * (1 + abs(best)), f"a bias moved by {move:g} is better")


def has_best_bias(likelihood: Likelihood, y: Array, columns: IntArray) -> Mask:
    """The columns whose loss rises on both sides: a risk of many positives may fall forever."""
    far = np.full(y.shape, 1e3 / np.sqrt(likelihood.curvature))
    up, down = (
        np.bincount(columns, weights=likelihood.value_and_gradient(side * far, y)[1])
        for side in (1.0, -1.0)
    )
    return (up > 0.0) & (down < 0.0)


@law_of(LIKELIHOOD_LAWS, "samples match", Distribution)
def samples_match(likelihood: Any, z: Array, y: Array) -> None:
    """Over many draws mean and variance are the response's and the gradient averages to 0.

    Within six standard errors. The last is the zero mean of the score: it ties the mean,
    through the sampler, to the loss.
    """
    few = z[:: max(1, len(z) // 8)]
    many = np.concatenate([few] * 20_000)
    draws = likelihood.sample(many, np.random.default_rng(1))
    demand(not np.any(likelihood.invalid(draws)), "a draw lies outside the domain")
    gradients = likelihood.value_and_gradient(many, draws)[1].reshape(-1, *few.shape)
    # Of classes, coded 0, 1, ..., the mean response is the probability of each code.
    coded = draws if few.ndim == 1 else draws[:, None] == np.arange(likelihood.width)
    coded = np.asarray(coded, dtype=float).reshape(-1, *few.shape)
    means = likelihood.mean(few)
    squares = np.square(coded - coded.mean(axis=0))
    for sample, wanted, what in (
        (coded, means, "the mean of draws"),
        (squares, likelihood.response_variance(few), "the variance of draws"),
        (gradients, np.zeros(few.shape), "the mean gradient of draws"),
    ):
        if wanted is means and not likelihood.predicts_mean:
            continue
        size = float(np.max(np.abs(sample)))
        error = np.maximum(np.std(sample, axis=0) / np.sqrt(len(sample)), 1e-3 * size)
        away = float(np.max(np.abs(sample.mean(axis=0) - wanted) / error))
        demand(away < 6.0, f"{what} is {away:.1f} standard errors off")


@law_of(LIKELIHOOD_LAWS, "the log-likelihood is the loss", Distribution)
def log_likelihood_is_loss(likelihood: Any, z: Array, y: Array) -> None:
    """log p(y | z) + l(z, y) is a function of y alone."""
    sums, size = [], np.ones(y.shape)
    for w in (z, np.roll(z, 7, axis=0), 0.0 * z):
        value, log_likelihood = likelihood.value(w, y), likelihood.log_likelihood(w, y)
        demand(log_likelihood.shape == y.shape, f"log_likelihood of shape {log_likelihood.shape}")
        sums.append(log_likelihood + value)
        size = np.maximum(size, np.abs(log_likelihood) + np.abs(value))
    for other in sums[1:]:
        change = float(np.max(np.abs(other - sums[0]) / size))
        demand(change <= 1e-12, f"with z it changes by {change:g}, relatively")


@law_of(LIKELIHOOD_LAWS, "z has its name")
def z_has_its_name(likelihood: Likelihood, z: Array, y: Array) -> None:
    """z has a name where the mean response is something else, and only there."""
    mean = np.allclose(likelihood.mean(z), z, rtol=1e-9)
    demand(
        mean == (likelihood.z_name is None),
        f"z_name={likelihood.z_name!r}, and z is {'' if mean else 'not '}the mean response",
    )


@law_of(PARAMETRIC_LAWS, "the parameters are best", Parametric)
def parameters_are_best(likelihood: Any, z: Array, y: Array) -> None:
    """No move of the parameters helps, their gradient vanishes, a weight of 2 counts twice."""
    weights = 1.0 + np.arange(y.size) % 2
    kept = [z.copy(), y.copy(), weights.copy()]
    best = likelihood.best_parameters(z, y, weights, None)
    demand(best.shape == (likelihood.n_parameters,), f"parameters of shape {best.shape}")
    for before, after in zip(kept, (z, y, weights), strict=True):
        demand_unharmed(before, after, "an argument")
    total = total_loss(likelihood, z, y, weights)
    lowest, unit = total(best), unit_of(z)
    size = 1.0 + abs(lowest)
    moves = [*np.eye(best.size), np.ones(best.size)]
    for move, far in itertools.product(moves, (1e-3, -1e-3, 0.1, -0.1, 1.0, -1.0)):
        other = total(best + far * unit * move)
        demand(other >= lowest - 1e-12 * size, f"parameters moved by {far:g} are better")
    h = 1e-4 * unit
    for move in moves:
        gradient = central_difference(total, best, h * move, h)
        demand(abs(gradient) * h <= 1e-12 * size, f"the gradient in them is {gradient:g}, not 0")
    twice = np.repeat(np.arange(y.size), weights.astype(np.intp))
    repeated = likelihood.best_parameters(z[twice], y[twice], np.ones(twice.size), None)
    close(repeated, best, 1e-9, "parameters for repeated entries")
    warm = likelihood.best_parameters(z, y, weights, best + 0.01 * unit)
    close(warm, best, 1e-9, "parameters from a start close by")


def total_loss(
    likelihood: Parametric, z: Array, y: Array, weights: Array
) -> Callable[[Array], float]:
    """The weighted sum of losses as a function of the parameters; inf where they are refused."""

    def total(parameters: Array) -> float:
        try:
            at = likelihood.with_parameters(parameters)
        except ModelError:
            return np.inf
        return float(weights @ at.value(z, y))

    return total


@law_of(LIKELIHOOD_LAWS, "the expression is the definition")
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
        _, constraints = likelihood.statement(cp, outside, y[i : i + 1])
        held = all(bool(np.all(c.value())) for c in constraints)
        demand(not held, "its CVXPY constraints hold where it is infinite")
    z, y, value = z[finite], y[finite], value[finite]
    variable = cp.Variable(z.shape, value=z)
    expression, constraints = likelihood.statement(cp, variable, y)
    stated = stated_value(expression, constraints, y)
    if not is_exact(likelihood, z, y):
        stated = np.maximum(stated, value)
    close(stated, value, 1e-9, "expression")


def stated_value(expression: Any, constraints: list[Any], y: Array) -> Array:
    """The value of a statement for CVXPY at its variables, where all its constraints hold."""
    demand(expression.shape == y.shape, f"its expression has shape {expression.shape}")
    demand(expression.is_convex(), "its expression is not convex by CVXPY's rules")
    with np.errstate(all="ignore"):  # CVXPY's own arithmetic may overflow
        value = np.asarray(expression.value)
    for constraint in constraints:
        demand(constraint.is_dcp(), "its constraint is not convex by CVXPY's rules")
        demand(np.all(constraint.value()), "its CVXPY constraints are broken where it is finite")
    return value


@law_of(PARAMETRIC_LAWS, "the joint statement is the definition", Parametric)
def joint_statement_is_definition(likelihood: Any, z: Array, y: Array) -> None:
    """The joint CVXPY statement has the losses at given parameters, and is convex in both."""
    variable, parameters = cp.Variable(z.shape), cp.Variable(likelihood.n_parameters)
    expression, constraints = likelihood.statement(cp, variable, y, parameters=parameters)
    best = likelihood.best_parameters(z, y, np.ones(y.size), None)
    variable.value = z
    for moved in (best, best + 0.5 * unit_of(z), 1.5 * best):
        parameters.value = moved
        wanted = likelihood.with_parameters(moved).value(z, y)
        close(stated_value(expression, constraints, y), wanted, 1e-9, "joint statement")


def is_exact(likelihood: Likelihood, z: Array, y: Array) -> bool:
    """Check that the expression is the loss: no error is stated, even for a large spread."""
    if not isinstance(likelihood, Approximated):
        return True
    return not np.any(likelihood.statement_error((np.roll(z, 5), 1.0), z, y))


@law_of(LIKELIHOOD_LAWS, "the expression is a bound", Approximated)
def approximation_is_bound(likelihood: Any, z: Array, y: Array) -> None:
    """The bound near some points lies below the loss by the error that it states.

    It touches the loss at those points, and within the spread s of them it misses no more than
    a tangent there does: curvature s^2 / 2.
    """
    unit = unit_of(z)
    for spread in (1e-3 * unit, unit):
        for near in (z, z + 0.9 * spread, z - 0.9 * spread, np.roll(z, 5)):
            error = likelihood.statement_error((near, spread), z, y)
            demand(np.all(error >= 0.0), f"it states an error of {float(np.min(error)):g}")
            value = likelihood.value(z, y)
            variable = cp.Variable(z.shape, value=z)
            bound, constraints = likelihood.statement(cp, variable, y, near=(near, spread))
            bound_values = stated_value(bound, constraints, y)
            close(bound_values + error, value, 1e-9, "the bound and its error")
            if np.isfinite(likelihood.curvature):
                by_tangent = 0.5 * likelihood.curvature * np.square(z - near)
            else:
                at, slope = likelihood.value_and_gradient(near, y)
                by_tangent = value - at - slope * (z - near)
            missed = error - by_tangent
            missed[np.abs(z - near) > spread] = 0.0
            worst = float(np.max(missed / (1.0 + np.abs(value))))
            demand(worst <= 1e-9, f"within the spread it misses {worst:g} more than a tangent")


# Variances of a predictor, in squares of the unit of z.
VARIANCES = (0.0, 1e-4, 0.3, 10.0, 1e4)
# How far the bound is looked at from the mean, in units of z.
DISTANCES = (1e-3, 0.1, 1.0, 3.0, 10.0, 100.0, 1e4)
EXTREMES = (0.0, 1e-300, 1.0, 1e10, 1e150, 1e300)
UPDATES = 8
PROBABILITIES = (0.003, 0.1, 0.5, 0.8, 0.99)
ROUNDING = 1e-9


def squares(numbers: Array, y: Array) -> Array:
    """The sum of numbers over the columns of a group, with the shape of y."""
    return numbers if numbers.ndim == y.ndim else numbers.sum(axis=-1)


def below(value: Array, precision: Array, constant: Array, z: Array, y: Array) -> Array:
    """constant - precision (z - value)^2 / 2, the square taken without overflow."""
    return constant - squares(0.5 * np.square(np.sqrt(precision) * (z - value)), y)


def gaussians(z: Array) -> Iterator[tuple[Array, Array]]:
    """Means and variances of predictors of the sizes of z."""
    unit = unit_of(z)
    for variance in VARIANCES:
        yield z, np.full_like(z, variance * unit**2)


@law_of(LIKELIHOOD_LAWS, "the Gaussian bound is one", GaussianBound, Distribution)
def gaussian_bound_holds(likelihood: Any, z: Array, y: Array) -> None:
    """The Gaussian lies nowhere above the likelihood, and touches it where no variance is left.

    At Gauss-Hermite nodes about the mean, so that its expectation is one below the expected log
    likelihood too, and far out.
    """
    unit = unit_of(z)
    nodes = np.polynomial.hermite_e.hermegauss(20)[0]
    rng = np.random.default_rng(2)
    for mean, variance in gaussians(z):
        kept = [mean.copy(), variance.copy(), y.copy()]
        answers = likelihood.gaussian_bound(mean, variance, y)
        for before, after in zip(kept, (mean, variance, y), strict=True):
            demand_unharmed(before, after, "an argument")
        for answer, shape in zip(answers, (z.shape, z.shape, y.shape), strict=True):
            demand(answer.shape == shape, f"an answer of shape {answer.shape}, not {shape}")
        value, precision, constant = answers
        demand(np.all(precision >= 0.0), f"a precision of {float(np.min(precision)):g}")
        steps = np.concatenate([nodes * np.sqrt(variance.flat[0]), unit * np.array(DISTANCES)])
        for step in (0.0, *steps):
            signs = rng.choice([-1.0, 1.0], z.shape) if z.ndim > 1 else 1.0
            for point in (mean + signs * step, mean - signs * step):
                log_likelihood = likelihood.log_likelihood(point, y)
                bound = below(value, precision, constant, point, y)
                size = 1.0 + np.abs(log_likelihood) + np.abs(constant)
                above = float(np.max((bound - log_likelihood) / size))
                demand(
                    above <= ROUNDING,
                    f"it lies {above:g} above the log likelihood, relatively, {step / unit:g} off"
                    f" the mean",
                )
        if not variance.any():
            size = 1.0 + np.abs(likelihood.log_likelihood(mean, y)) + np.abs(constant)
            gap = likelihood.log_likelihood(mean, y) - below(value, precision, constant, mean, y)
            misses = float(np.max(gap / size))
            demand(misses <= ROUNDING, f"without variance it misses {misses:g} at the mean")


@law_of(LIKELIHOOD_LAWS, "logistic terms are the loss", LogisticTerms)
def logistic_terms_are_the_loss(likelihood: Any, z: Array, y: Array) -> None:
    """The constant and the terms add up to the loss; numbers are finite, weights at least 0."""
    terms = likelihood.logistic_terms(y)
    if terms is None:
        return
    weights, factors, edges, constants = terms
    demand(np.all(np.isfinite(np.concatenate([*terms[:3], constants[None]]))), "not all finite")
    demand(np.all(weights >= 0.0), f"a weight of {float(np.min(weights)):g}")
    parts = weights * np.logaddexp(0.0, factors * (z - edges))
    loss, size = constants + parts.sum(axis=0), 1.0 + np.abs(constants) + parts.sum(axis=0)
    misses = float(np.max(np.abs(loss - likelihood.value(z, y)) / size))
    demand(misses <= ROUNDING, f"they miss it by {misses:g}, relatively")


def expected_bound(
    likelihood: GaussianBound, at: tuple[Array, Array], under: tuple[Array, Array], y: Array
) -> Array:
    """The expectation, under one Gaussian, of the bound taken for another."""
    value, precision, constant = likelihood.gaussian_bound(*at, y)
    mean, variance = under
    return below(value, precision, constant, mean, y) - squares(0.5 * precision * variance, y)


@law_of(LIKELIHOOD_LAWS, "the Gaussian bound is the best", GaussianBound)
def gaussian_bound_is_best(likelihood: Any, z: Array, y: Array) -> None:
    """No bound taken for another Gaussian has a larger expectation under this one."""
    unit = unit_of(z)
    others = [(z, 1.0), (z, 0.01), (z, 100.0), (np.roll(z, 3, axis=0), 1.0), (z + 0.1 * unit, 1.0)]
    for mean, variance in gaussians(z):
        expected = expected_bound(likelihood, (mean, variance), (mean, variance), y)
        for other, share in others:
            at = (other, share * variance + 1e-6 * unit**2)
            rival = expected_bound(likelihood, at, (mean, variance), y)
            better = float(np.max((rival - expected) / (1.0 + np.abs(expected))))
            demand(better <= ROUNDING, f"one for another Gaussian is better by {better:g}")


@law_of(PARAMETRIC_LAWS, "the expected parameters are best", GaussianBound)
def expected_parameters_are_best(likelihood: Any, z: Array, y: Array) -> None:
    """No move of the parameters raises the sum of expected bounds.

    Where no predictor has a variance they are those of the losses.
    """
    weights, unit = 1.0 + np.arange(y.size) % 2, unit_of(z)
    without_variance = likelihood.best_parameters(z, y, weights, None)
    alike = likelihood.best_parameters(z, y, weights, None, np.zeros_like(z))
    close(alike, without_variance, 1e-9, "parameters without variance")
    for share in (0.1, 1.0, 10.0):
        variance = np.square(share * unit * (1.0 + np.arange(z.size) % 3).reshape(z.shape))
        best = likelihood.best_parameters(z, y, weights, without_variance, np.sqrt(variance))

        def total(parameters: Array, variance: Array = variance) -> float:
            at: Any = likelihood.with_parameters(parameters)
            return float(weights @ expected_bound(at, (z, variance), (z, variance), y))

        reached = total(best)
        for move in (*np.eye(best.size), np.ones(best.size)):
            for far in (1e-4, -1e-4, 1e-2, -1e-2):
                with suppress(ModelError):  # parameters that there are none of
                    better = total(best + far * unit * move) - reached
                    limit = 1e-12 * (1.0 + abs(reached))
                    demand(better <= limit, f"parameters moved by {far:g} are better")


@law_of(LIKELIHOOD_LAWS, "the Gaussian bound raises the evidence", GaussianBound)
def gaussian_bound_raises_evidence(likelihood: Any, z: Array, y: Array) -> None:
    """Each update of a posterior raises its evidence lower bound; the prior of z is Gaussian.

    The posterior of the bound is Gaussian, and the integral of prior times bound elementary.
    """
    prior = np.full_like(z, unit_of(z) ** 2)
    mean, variance, reached = 0.3 * z, prior, np.full(y.shape, -np.inf)
    for update in range(UPDATES):
        value, precision, constant = likelihood.gaussian_bound(mean, variance, y)
        inflated = 1.0 + precision * prior
        lost = np.square(np.sqrt(precision / inflated) * value) + np.log(inflated)
        evidence = constant - squares(0.5 * lost, y)
        falls = float(np.max((reached - evidence) / (1.0 + np.abs(evidence))))
        demand(falls <= ROUNDING, f"update {update} lowers it by {falls:g}, relatively")
        mean, variance, reached = prior * precision / inflated * value, prior / inflated, evidence


@law_of(LIKELIHOOD_LAWS, "the Gaussian bound is finite", GaussianBound)
def gaussian_bound_is_finite(likelihood: Any, z: Array, y: Array) -> None:
    """Finite numbers come of the least and the largest means and variances."""
    for size in EXTREMES:
        for variance in EXTREMES:
            mean = np.where(z >= 0.0, size, -size)
            answers = likelihood.gaussian_bound(mean, np.full_like(z, variance), y)
            where = f"for a mean of {size:g} and a variance of {variance:g}"
            demand(all(np.all(np.isfinite(a)) for a in answers), f"a number is not finite {where}")
            value, precision, _ = answers
            demand(np.all(precision >= 0.0), f"a precision is negative {where}")
            demand(
                not np.any(value[precision == 0.0]), f"a value without precision is not 0 {where}"
            )


@law_of(LIKELIHOOD_LAWS, "the cdf sums the density", Distribution)
def cdf_sums_the_density(likelihood: Any, z: Array, y: Array) -> None:
    """The distribution function adds up exp(log_likelihood), and its inverse is the quantile.

    Of whole observations the mass of one is a step; of real ones the density is integrated over a
    short interval.
    """
    few = z[:: max(1, len(z) // 20)]
    few = np.clip(few, -8.0, 8.0) if likelihood.z_name else few
    whole = bool(np.all(likelihood.invalid(np.floor(points_of(y)) + 0.5)))
    before = np.full(len(few), -np.inf)
    for probability in PROBABILITIES:
        p = np.full(len(few), probability)
        quantiles = likelihood.quantile(few, p)
        demand(quantiles.shape == p.shape, f"quantiles of shape {quantiles.shape}, not {p.shape}")
        demand(np.all(quantiles >= before), f"the quantile falls up to probability {probability}")
        before = quantiles
        reached = likelihood.cdf(few, quantiles)
        demand(np.all((reached >= 0.0) & (reached <= 1.0)), "the cdf leaves [0, 1]")
        if whole:
            demand(not np.any(likelihood.invalid(quantiles)), "a quantile lies outside the domain")
            demand(np.all(reached >= p - 1e-12), f"cdf(quantile({probability})) is too small")
            below = likelihood.cdf(few, quantiles - 1.0)
            demand(np.all(below <= p + 1e-12), f"quantile({probability}) is too large")
            close(
                likelihood.cdf(few, quantiles + 0.5),
                reached,
                1e-12,
                "the cdf between whole numbers",
            )
            mass = np.exp(likelihood.log_likelihood(few, quantiles))
            close(reached - below, mass, 1e-9, "a step of the cdf")
        else:
            close(reached, p, 1e-9, "cdf(quantile(p))")
            low, high = (likelihood.quantile(few, (1.0 + side) * p) for side in (-5e-3, 5e-3))
            nodes, shares = np.polynomial.legendre.leggauss(12)
            ys = [0.5 * (low + high) + 0.5 * (high - low) * node for node in nodes]
            density = [np.exp(likelihood.log_likelihood(few, one)) for one in ys]
            mass = 0.5 * (high - low) * sum(s * d for s, d in zip(shares, density, strict=True))
            close(mass / (0.01 * p), np.ones_like(p), 1e-3, "the integral of the density")


@law_of(
    LIKELIHOOD_LAWS, "the exponential form is the likelihood", ExpectedLogLikelihood, Distribution
)
def exponential_form_is_likelihood(likelihood: Any, z: Array, y: Array) -> None:
    """A line minus an exponential is the log likelihood; its expectation is that by quadrature.

    The derivatives are those of the expectation, by differences.
    """
    linear, rate, sign, constant = likelihood.exponential_form(y)
    demand(abs(sign) == 1.0 and np.all(rate >= 0.0), f"a sign {sign} or a rate below 0")
    wanted = likelihood.log_likelihood(z, y)
    size = 1.0 + np.abs(wanted) + np.abs(constant)
    close(
        (constant + linear * z - rate * np.exp(sign * z)) / size, wanted / size, 1e-9, "the form"
    )
    nodes, shares = np.polynomial.hermite_e.hermegauss(40)
    shares = shares / shares.sum()
    for mean, variance in ((z, np.full_like(z, v)) for v in (0.0, 1e-4, 0.3, 2.0)):
        value, d_mean, d_variance = likelihood.expected_log_likelihood(mean, variance, y)
        sd = np.sqrt(variance)
        points = [likelihood.log_likelihood(mean + sd * node, y) for node in nodes]
        size = 1.0 + np.sum(np.abs(points) * shares[:, None], axis=0) + np.abs(constant)
        quadrature = np.sum(np.array(points) * shares[:, None], axis=0)
        close(value / size, quadrature / size, 1e-9, "the expectation")
        h = 1e-3
        for derivative, ahead, behind in (
            (d_mean, (mean + h, variance), (mean - h, variance)),
            (d_variance, (mean, variance + h), (mean, variance - h)),
        ):
            up, down = (likelihood.expected_log_likelihood(*at, y)[0] for at in (ahead, behind))
            close((up - down) / (2 * h) / size, derivative / size, 1e-5, "a derivative")


@law_of(
    LIKELIHOOD_LAWS, "the expected derivatives are those of the expectation", ExpectedDerivatives
)
def expected_derivatives_hold(likelihood: Any, z: Array, y: Array) -> None:
    """The first is the mean of minus the loss's gradient by quadrature, the second its slope.

    Of a Gaussian of z the expectation of a second derivative is the slope of that of the first.
    """
    unit = unit_of(z)
    nodes = np.linspace(-8.0, 8.0, 1601)
    shares = np.exp(-0.5 * np.square(nodes))
    shares /= shares.sum()
    for variance in (unit**2 * np.full_like(z, v) for v in (1e-2, 0.3, 2.0)):
        slope, precision = likelihood.expected_derivatives(z, variance, y)
        demand(np.all(precision >= 0.0), f"a precision of {float(np.min(precision)):g}")
        points = z + np.sqrt(variance) * nodes[:, None]
        gradients = [likelihood.value_and_gradient(point, y)[1] for point in points]
        size = 1.0 / unit + np.sum(np.abs(gradients) * shares[:, None], axis=0)
        wanted = -np.sum(np.array(gradients) * shares[:, None], axis=0)
        close(slope / size, wanted / size, 1e-5, "the first derivative")
        h = 1e-3 * unit
        ahead, behind = (likelihood.expected_derivatives(z + s, variance, y)[0] for s in (h, -h))
        size = size / unit + precision
        close(precision / size, (behind - ahead) / (2.0 * h) / size, 1e-4, "the second derivative")
