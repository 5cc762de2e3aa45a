"""The laws of likelihoods, gathered: points that stress them, and the public check."""

import copy
from collections.abc import Callable, Sequence

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Conjugate, Likelihood, Proximable, TwiceDifferentiable
from mcframe.laws.biases import bias_is_best
from mcframe.laws.conjugates import conjugate_keeps_its_digits, fenchel_young
from mcframe.laws.distributions import log_likelihood_is_loss, samples_match, z_has_its_name
from mcframe.laws.gradients import (
    curvature_bounds,
    gradient_is_derivative,
    second_derivative_bends,
)
from mcframe.laws.loss_proximal import (
    prox_gradient_is_derivative,
    prox_is_minimiser,
    prox_solves_its_program,
)
from mcframe.laws.losses import (
    bounded_below,
    convex,
    far_out_finite,
    indicator_is_one,
    labels_differ_linearly,
    location_is_one,
    one_value,
    units_are_exchangeable,
)
from mcframe.laws.parameters import fit_parameters, parameters_are_best
from mcframe.laws.statements import (
    approximation_is_bound,
    expression_is_definition,
    joint_statement_is_definition,
)
from mcframe.laws.violations import demand, demand_unharmed, law

__all__ = ["LIKELIHOOD_LAWS", "check_likelihood"]

Law = Callable[[Likelihood, Array, Array], None]


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
        Yours or ours.
    valid, invalid : sequences of numbers
        Observations inside and outside its domain; each must be recognised.
    scale : float, default 1
        The size of linear predictors at which the loss bends.
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
    with law(likelihood, "the domain holds its own"):
        domain_ends(likelihood, valid, invalid)
    z, y = points(likelihood, valid, scale, np.random.default_rng(random_state))
    for name, holds in PARAMETRIC_LAWS.items():
        with law(likelihood, name):
            holds(likelihood, z, y)
    with law(likelihood, "the parameters are best"):
        at_best = fit_parameters(likelihood, z, y)
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


def arguments_unharmed(likelihood: Likelihood, z: Array, y: Array) -> None:
    """Arguments stay as they were, answers are float64 arrays of their shape."""
    kept_z, kept_y = z.copy(), y.copy()
    value, gradient = likelihood.value_and_gradient(z, y)
    answers = [gradient, likelihood.mean(z), likelihood.start(y)]
    if isinstance(likelihood, TwiceDifferentiable):
        answers += [
            likelihood.second_derivative(z, y),
            likelihood.hessian_product(z, y, np.ones_like(z)),
        ]
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
    "an indicator is one": indicator_is_one,
    "a location is one": location_is_one,
    "units are exchangeable": units_are_exchangeable,
    "the gradient is the derivative": gradient_is_derivative,
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
    "the gradient of the prox": prox_gradient_is_derivative,
    "the prox solves its program": prox_solves_its_program,
    "z has its name": z_has_its_name,
    "finite far out": far_out_finite,
    "the conjugate keeps its digits": conjugate_keeps_its_digits,
    "compared by value": compared_by_value,
}

# Held to the likelihood as it is given; all others see it with its parameters fitted.
PARAMETRIC_LAWS: dict[str, Law] = {
    "the parameters are best": parameters_are_best,
    "the joint statement is the definition": joint_statement_is_definition,
    "compared by value": compared_by_value,
}
