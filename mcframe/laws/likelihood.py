"""The laws of likelihoods, and the public check of all of them."""

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mcframe.backends.statement import cp
from mcframe.compile.effects import described_effects
from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import (
    Approximated,
    Distribution,
    Likelihood,
    Parametric,
    TwiceDifferentiable,
    fits_parameters,
)
from mcframe.laws.checking import (
    LIKELIHOOD_LAWS,
    PARAMETRIC_LAWS,
    central_difference,
    close,
    demand,
    demand_unharmed,
    law,
    law_of,
    unit_of,
)
from mcframe.model import Layout


def check_likelihood(
    likelihood: Likelihood,
    valid: Sequence[float] = (0.0, 1.0),
    invalid: Sequence[float] = (np.inf,),
    *,
    scale: float = 1.0,
    random_state: int = 0,
) -> None:
    """Hold a likelihood to every law of its contract and of the abilities it claims.

    Parameters
    ----------
    likelihood : Likelihood
        Of this package or your own.
    valid, invalid : sequences of numbers
        Observations inside and outside its domain; each must be recognised.
    scale : float, default 1
        The size of linear predictors at which the curvature of the loss is largest.
    random_state : int
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
    z, y = points(likelihood, valid, scale, np.random.default_rng(random_state))
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
    likelihood: Likelihood, valid: Sequence[float], scale: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Predictors and observations; of a loss without a gradient every third at its start.

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
    far = np.full_like(y, 1e3 / np.sqrt(likelihood.curvature))
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
    found = stated_value(expression, constraints, y)
    if not is_exact(likelihood, z, y):
        found = np.maximum(found, value)
    close(found, value, 1e-9, "expression")


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
            found = stated_value(bound, constraints, y)
            close(found + error, value, 1e-9, "the bound and its error")
            missed = error - 0.5 * likelihood.curvature * np.square(z - near)
            missed[np.abs(z - near) > spread] = 0.0
            worst = float(np.max(missed / (1.0 + np.abs(value))))
            demand(worst <= 1e-9, f"within the spread it misses {worst:g} more than a tangent")
