"""Goldberg, Zhu, Recht, Xu and Nowak (NIPS 2010): Transduction with Matrix Completion.

The two problems they state, as models, and the algorithms they published for them, loops over
dense matrices. One run visits every stage of the continuation, and each stage ends with an answer
for its weight: all weights of a path for the price of the last one. Rows are items here,
where the paper has them as columns.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np

from mcframe.backends import History, Outcome, Point, Record, certify, relative_gap
from mcframe.backends.certificate import Dual
from mcframe.backends.fpc import continuation, gradient_step, published_steps
from mcframe.backends.loop import stopped_by_rule
from mcframe.compile import Evaluation, Program, compile_problem
from mcframe.compile.loss import BlockEffects
from mcframe.constraints import OnesColumn
from mcframe.contracts.arrays import Array, singular_values, svd
from mcframe.contracts.endings import Ending, Status
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.rounding import TINY
from mcframe.fitting.fit_answer import Fit
from mcframe.likelihoods import Bernoulli, Gaussian
from mcframe.model import Block, Model, Problem
from mcframe.numerics.operators import LowRank
from mcframe.numerics.shrinkage import shrink_gram
from mcframe.regularizers import NuclearNorm
from mcframe.selection.grid import checked_weights

# The end of a run, by whether its own rule stopped it.
ENDING_OF_RUN = {
    True: stopped_by_rule("the objective changed by less, relatively, than it asks"),
    False: Ending(
        Status.ITERATION_LIMIT, "max_iter iterations were made before its own rule stopped it"
    ),
}
# Eigenvalues of Z'Z give a nuclear norm to about 8 digits; changes that are finer than this take
# a decomposition of Z itself.
LEAST_GRAM_CHANGE = 1e-7


def mc_b(mu: float, label_weight: float = 1.0, *, bias: bool = True) -> Model:
    """Formulation 1, "MC-b", Eq. 2: a bias for each label.

    ``mu ||Z||_* + lambda / |Omega_Y| sum log(1 + exp(-y (z + b)))
    + 1 / |Omega_X| sum (z - x)^2 / 2``

    Parameters
    ----------
    mu : float
        Weight of the nuclear norm.
    label_weight : float, default 1
        The paper's lambda.
    bias : bool, default True
        False is the variant that their section 2.2 mentions and advises against.

    Examples
    --------
    >>> from mcframe.papers import mc_b
    >>> [block.name for block in mc_b(0.1).blocks]
    ['features', 'labels']
    """
    return Model(
        blocks=[
            Block("features", Gaussian(), reduce="mean"),
            Block("labels", Bernoulli(), weight=label_weight, reduce="mean", bias=bias),
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
    unbiased = mc_b(mu, label_weight, bias=False)
    return Model(unbiased.blocks, [*unbiased.terms, OnesColumn()])


@attrs.frozen(eq=False)
class Stage:
    """The end of a stage of the continuation: by which rule, and after how many iterations.

    ``iterate`` is Z, with its ones for Algorithm 2, ``effects`` has b, and ``multiplier`` what
    the last overwriting took from each entry of the ones column, divided by the step.
    """

    mu: float
    iterate: Array
    effects: dict[str, Array]
    multiplier: Array | None
    iterations: int
    converged: bool


def decreasing(sigma: float, last: float, eta: float = 0.25) -> list[float]:
    """mu_1 = eta sigma, then mu_{k+1} = max(eta mu_k, last), their section 3.1."""
    return [last * share for share in continuation(sigma, last, eta)]


@attrs.define(eq=False)
class FixedPoint:
    """One run of Algorithm 1, or with an ones column of Algorithm 2; begin with ``FixedPoint.of``.

    Items are rows. Features come first, then labels, then the ones column. A step is
    ``b -= tau_b g(b)``, ``A = Z - tau_Z g(Z)``, ``Z = shrink(A, tau_Z mu)``, and with
    an ones column that set to 1.
    """

    program: Program
    iterate: Array  # Z
    biases: BlockEffects  # b
    sigma: float  # of the zero-filled observed entries
    nuclear: float  # ||Z||_*
    evaluation: Evaluation
    steps: tuple[float, float]  # tau_Z, tau_b
    multiplier: Array | None = None

    @classmethod
    def of(cls, problem: Problem) -> "FixedPoint":
        """Return the paper's start: b = 0, Z of rank 1 and closest to the observed entries."""
        program, ones = compile_problem(problem), problem.model.extra_columns
        filled = np.zeros(problem.shape)
        filled.ravel()[program.entries.flat] = program.loss.start()
        filled[:, problem.n_block_columns :] = 1.0
        left, values, right = svd(filled)
        iterate = values[0] * np.outer(left[:, 0], right[0])
        if ones:
            iterate[:, -1] = 1.0
        layouts = [block_loss.layout for block_loss in program.loss.block_losses]
        biases = tuple(
            np.zeros(layout.n_biases) if layout.n_biases else None for layout in layouts
        )
        evaluation = program.evaluate_at(iterate, biases)
        nuclear = nuclear_norm(iterate, exact=True)
        steps, sigma = published_steps(program), float(values[0])
        return cls(program, iterate, biases, sigma, nuclear, evaluation, steps)

    def step(self, mu: float, exact: bool) -> None:
        """One iteration of the published algorithm."""
        step, bias_step = self.steps
        target = self.iterate - step * self.evaluation.gradient.dense()
        self.biases = gradient_step(self.program, self.biases, self.evaluation, bias_step)
        self.iterate, self.nuclear = shrink_singular_values(target, step * mu)
        if self.program.terms:
            self.multiplier = (self.iterate[:, -1] - 1.0) / step
            self.iterate[:, -1] = 1.0
            self.nuclear = nuclear_norm(self.iterate, exact)
        self.evaluation = self.program.evaluate_at(self.iterate, self.biases)

    def stages(self, weights: list[float], change: float, max_iter: int) -> Iterator[Stage]:
        """Walk down the weights; a stage ends when the objective changes by less than ``change``.

        ``max_iter`` bounds the iterations of the whole run; a stage that meets it is the last.
        """
        made = 0
        for mu in weights:
            last, before, converged = np.inf, made, False
            while made < max_iter and not converged:
                self.step(mu, exact=change < LEAST_GRAM_CHANGE)
                made += 1
                now = self.evaluation.value + mu * self.nuclear
                converged = abs(last - now) <= change * max(abs(now), TINY)
                last = now
            effects = self.program.effects_by_block(self.biases)
            yield Stage(mu, self.iterate, effects, self.multiplier, made - before, converged)
            if not converged:
                return


def shrink_singular_values(target: Array, threshold: float) -> tuple[Array, float]:
    """U max(S - threshold, 0) V', and its nuclear norm."""
    shrunk = shrink_gram(target, lambda values: np.maximum(values - threshold, 0.0), threshold)
    return (shrunk.left * shrunk.values) @ shrunk.right.T, float(shrunk.values.sum())


def nuclear_norm(matrix: Array, exact: bool) -> float:
    """The sum of singular values; from those of Z'Z where 7 digits will do."""
    if exact:
        return float(np.sum(singular_values(matrix)))
    square = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    return float(np.sum(np.sqrt(np.maximum(np.linalg.eigvalsh(square), 0.0))))


def fixed_point_mc_b(
    data: Mapping[str, Any], mu: float, label_weight: float = 1.0, **options: Any
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
    return last_stage(mc_b(mu, label_weight), data, **options)


def fixed_point_mc_1(
    data: Mapping[str, Any], mu: float, label_weight: float = 1.0, **options: Any
) -> Fit:
    """Algorithm 2 as published: gradient, shrinkage, then the ones column overwritten.

    It does not converge to the optimum of its own problem, Eq. 3: overwriting after a
    shrinkage is not the prox of the sum of both. The fit's ``gap`` bounds its excess;
    ``fit(mc_1(mu), data)`` solves the problem.

    Parameters
    ----------
    data : dict with "features" (n_items x d) and "labels" (n_items x t; 0 and 1)
    mu, label_weight : as in ``mc_1``
    eta, change, max_iter : as in ``fixed_point_mc_b``
    """
    return last_stage(mc_1(mu, label_weight), data, **options)


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
        As ``mc_b`` or ``mc_1`` gives it; its mu is not used.
    data : as in ``fixed_point_mc_b``
    weights : list of float
        mu_1 > mu_2 > ..., as ``published_weights`` gives them.
    change, max_iter : as in ``fixed_point_mc_b``

    Raises
    ------
    DataError, ModelError
        A model of another form; weights that do not descend; data with weights or offsets.
    """
    sequence = np.array(checked_weights(weights))
    problem, run = begin(model, data)
    for stage in run.stages([float(mu) for mu in sequence], change, max_iter):
        yield fit_of_stage(problem.with_weight(0, stage.mu), stage, history=())


def published_weights(data: Mapping[str, Any], last: float = 1e-5, eta: float = 0.25) -> Array:
    """mu_k = eta^k sigma_1 down to ``last``: the weights that they consider.

    sigma_1 is the largest singular value of [X Y], unobserved entries 0, labels -1 and 1.
    """
    return np.array(decreasing(begin(mc_b(1.0), data)[1].sigma, last, eta))


def last_stage(
    model: Model,
    data: Mapping[str, Any],
    *,
    eta: float = 0.25,
    change: float = 1e-5,
    max_iter: int = 20_000,
) -> Fit:
    """The answer at the mu of the model, with a record for every stage."""
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
    labels = [block for block in model.blocks if block.name == "labels"]
    preset = mc_1 if ones else partial(mc_b, bias=bool(labels and labels[0].bias))
    is_published = isinstance(model.terms[0], NuclearNorm) and labels
    if not is_published or model != preset(weight_of(model), labels[0].weight):
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
    return problem, FixedPoint.of(problem)


def weight_of(model: Model) -> float:
    """The mu of a model of theirs."""
    nuclear = model.terms[0]
    assert isinstance(nuclear, NuclearNorm)
    return nuclear.threshold


def fit_of_stage(problem: Problem, stage: Stage, history: tuple[Record, ...]) -> Fit:
    """Return the end of a stage as a fit: with the biases of the algorithm, and a lower bound.

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
    point, objective = Point(latent, dual), problem.objective(latent, stage.effects)
    certificate = certify(program, point)
    bound, rounding = certificate.bound, certificate.rounding
    if not history:
        gap = relative_gap(objective, bound, rounding)
        history = (Record(stage.iterations, 0.0, objective, bound, gap, latent.rank),)
    ending = ENDING_OF_RUN[stage.converged]
    outcome = Outcome(
        point=point,
        effects=stage.effects,
        bound=bound,
        rounding=rounding,
        status=ending.status,
        message=ending.message,
        reason=ending.reason,
        history=History(history),
        tol=0.0,
    )
    return Fit.of(problem, outcome, "fixed_point_mc_1" if ones else "fixed_point_mc_b")
