"""Goldberg, Zhu, Recht, Xu and Nowak (NIPS 2010): Transduction with Matrix Completion.

The two problems they state, as models, and the algorithms they published for them. Rows are
items here, where the paper has them as columns.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mcframe.answer import Fit
from mcframe.backends import History, Point, Record, certify, relative_gap
from mcframe.compile import Dual, compile_problem
from mcframe.constraints import OnesColumn
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError, ModelError
from mcframe.likelihoods import Bernoulli, Gaussian
from mcframe.model import Block, Model, Problem
from mcframe.numerics.operators import LowRank
from mcframe.papers.fixed_point import FixedPoint, Stage, decreasing
from mcframe.regularizers import NuclearNorm
from mcframe.selection.grids import checked_weights

__all__ = [
    "fixed_point_mc_1",
    "fixed_point_mc_b",
    "fixed_point_path",
    "mc_1",
    "mc_b",
    "published_weights",
]

FINISHED = "stopped by its own rule: the objective changed by less, relatively, than it asks"
UNFINISHED = "max_iter iterations were made before its own rule stopped it"


def mc_b(mu: float, label_weight: float = 1.0) -> Model:
    """Formulation 1, "MC-b", Eq. 2: a bias a label, beside Z.

    ``mu ||Z||_* + lambda / |Omega_Y| sum log(1 + exp(-y (z + b)))
    + 1 / |Omega_X| sum (z - x)^2 / 2``

    Parameters
    ----------
    mu : float
        Weight of the nuclear norm.
    label_weight : float, default 1
        The paper's lambda.

    Examples
    --------
    >>> from mcframe.papers import mc_b
    >>> [block.name for block in mc_b(0.1).blocks]
    ['features', 'labels']
    """
    return Model(
        blocks=[
            Block("features", Gaussian(), reduce="mean"),
            Block("labels", Bernoulli(), weight=label_weight, reduce="mean", bias=True),
        ],
        terms=[NuclearNorm(mu)],
    )


def mc_1(mu: float, label_weight: float = 1.0) -> Model:
    """Formulation 2, "MC-1", Eq. 3: an all-ones column of Z in the place of the bias.

    Parameters
    ----------
    mu : float
        Weight of the nuclear norm, which the ones column stands inside.
    label_weight : float, default 1
        The paper's lambda.
    """
    return Model(
        blocks=[
            Block("features", Gaussian(), reduce="mean"),
            Block("labels", Bernoulli(), weight=label_weight, reduce="mean"),
        ],
        terms=[NuclearNorm(mu), OnesColumn()],
    )


def fixed_point_mc_b(
    data: Mapping[str, Any],
    mu: float,
    label_weight: float = 1.0,
    *,
    eta: float = 0.25,
    change: float = 1e-5,
    max_iter: int = 20_000,
) -> Fit:
    """Algorithm 1 as published: fixed-point continuation for MC-b, with their stopping rule.

    It converges to the optimum of its problem (their section 3.1); how far it still is when
    the rule of 1e-5 stops it is the ``gap`` of the fit.

    Parameters
    ----------
    data : dict with "features" (n_items x d) and "labels" (n_items x t; 0 and 1)
    mu, label_weight : as in ``mc_b``
    eta : float, default 0.25
        The decay of the continuation.
    change : float, default 1e-5
        The relative change of the objective that ends a stage.
    max_iter : int, default 20,000
        Of all stages together.
    """
    return last_stage(mc_b(mu, label_weight), data, eta, change, max_iter)


def fixed_point_mc_1(
    data: Mapping[str, Any],
    mu: float,
    label_weight: float = 1.0,
    *,
    eta: float = 0.25,
    change: float = 1e-5,
    max_iter: int = 20_000,
) -> Fit:
    """Algorithm 2 as published: gradient, shrinkage, then the ones column overwritten.

    **It does not converge to the optimum of its own problem**, Eq. 3: overwriting after a
    shrinkage is not the prox of the sum of both. The fit's ``gap`` bounds its excess;
    ``fit(mc_1(mu), data)`` solves the problem.

    Parameters
    ----------
    data : dict with "features" (n_items x d) and "labels" (n_items x t; 0 and 1)
    mu, label_weight : as in ``mc_1``
    eta, change, max_iter : as in ``fixed_point_mc_b``
    """
    return last_stage(mc_1(mu, label_weight), data, eta, change, max_iter)


def fixed_point_path(
    model: Model,
    data: Mapping[str, Any],
    weights: Sequence[float] | Array,
    *,
    change: float = 1e-5,
    max_iter: int = 20_000,
) -> Iterator[Fit]:
    """Give the answer of Algorithm 1 or 2 at each of the descending mu, all from one run.

    Their section 4 tunes mu so; it is a ``path`` for ``mc.cross_validate``.

    Parameters
    ----------
    model : Model
        As ``mc_b`` or ``mc_1`` gives it; its own mu is not used.
    data : as in ``fixed_point_mc_b``
    weights : list of float
        mu_1 > mu_2 > ..., as ``published_weights`` gives them.
    change, max_iter : as in ``fixed_point_mc_b``

    Raises
    ------
    DataError, ModelError
        A model of another form; weights that do not descend; data with weights or offsets.
    """
    sequence = checked_weights(weights)
    problem, run = begin(model, data)
    for stage in run.stages([float(mu) for mu in sequence], change, max_iter):
        yield fit_of_stage(problem.with_weight(0, stage.mu), stage, history=())


def published_weights(data: Mapping[str, Any], last: float = 1e-5, eta: float = 0.25) -> Array:
    """mu_k = eta^k sigma_1 down to ``last``: the weights that they consider.

    sigma_1 is the largest singular value of [X Y], unobserved entries 0, labels -1 and 1.
    """
    filled = []
    for name, coded in (("features", False), ("labels", True)):
        table = Problem.bind(mc_b(1.0), data).tables[name]
        block = np.zeros(table.shape)
        block[table.rows, table.columns] = 2.0 * table.values - 1.0 if coded else table.values
        filled.append(block)
    sigma = float(np.linalg.norm(np.hstack(filled), 2))
    return np.array(decreasing(sigma, last, eta))


def last_stage(
    model: Model, data: Mapping[str, Any], eta: float, change: float, max_iter: int
) -> Fit:
    """The answer at the model's own mu, with a record for every stage that led there."""
    problem, run = begin(model, data)
    mu = weight_of(model)
    began, made, records = time.perf_counter(), 0, []
    for stage in run.stages(decreasing(run.sigma, mu, eta), change, max_iter):
        fit = fit_of_stage(problem.with_weight(0, stage.mu), stage, history=())
        made += stage.iterations
        seconds = time.perf_counter() - began
        records.append(Record(made, seconds, fit.objective, fit.bound, fit.gap, fit.rank))
    return fit_of_stage(problem, stage, tuple(records))


def begin(model: Model, data: Mapping[str, Any]) -> tuple[Problem, FixedPoint]:
    """The data, and the start of the algorithm that the model is for."""
    ones = OnesColumn() in model.terms
    preset = mc_1 if ones else mc_b
    labels = [block for block in model.blocks if block.name == "labels"]
    known = isinstance(model.terms[0], NuclearNorm) and labels
    if not known or model != preset(weight_of(model), labels[0].weight):
        raise ModelError(
            "the published algorithms are for the models of mc_b and mc_1 alone; fit(model, data)"
            " solves any model"
        )
    problem = Problem.bind(model, data)
    for name, table in problem.tables.items():
        if table.weights is not None or table.offset is not None:
            raise DataError(
                f"block {name!r}: the published algorithms know neither weights nor offsets;"
                " fit(model, data) does"
            )
    return problem, FixedPoint.of(problem, labels[0].weight, ones)


def weight_of(model: Model) -> float:
    """The mu of a model of theirs."""
    nuclear = model.terms[0]
    assert isinstance(nuclear, NuclearNorm)
    return nuclear.weight


def fit_of_stage(problem: Problem, stage: Stage, history: tuple[Record, ...]) -> Fit:
    """Return the end of a stage as a fit: with the algorithm's own biases, and a lower bound.

    The dual point of Algorithm 2's certificate comes from the shrinkage: with A the target,
    ``(A - shrink(A)) / tau`` has spectral norm at most mu, and its last column is minus the
    multiplier.
    """
    ones = problem.model.extra_columns > 0
    latent = LowRank.of(stage.iterate)
    if ones:
        last = slice(latent.shape[1] - 1, latent.shape[1])
        latent = latent.with_columns(last, 1.0)  # exactly, which a decomposition is not
    program = compile_problem(problem)
    dual = None
    if stage.multiplier is not None:
        multipliers = (stage.multiplier[:, None],)
        dual = Dual.of(program, program.evaluate(latent), multipliers)
    point = Point(latent, dual)
    judgement = certify(program, point)
    bound, rounding = judgement.bound, judgement.rounding
    effects = {} if ones else {"labels": stage.biases}
    objective = problem.objective(latent, effects)
    if not history:
        gap = relative_gap(objective, bound, rounding)
        history = (Record(stage.iterations, 0.0, objective, bound, gap, latent.rank),)
    return Fit(
        problem=problem,
        point=point,
        effects=effects,
        status="interrupted" if stage.converged else "iteration_limit",
        message=FINISHED if stage.converged else UNFINISHED,
        objective=objective,
        bound=bound,
        rounding=rounding,
        backend="fixed_point_mc_1" if ones else "fixed_point_mc_b",
        history=History(history),
    )
