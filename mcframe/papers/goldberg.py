"""Goldberg, Zhu, Recht, Xu and Nowak (NIPS 2010): Transduction with Matrix Completion.

The two problems they state, as models, and the algorithms they published for them. Rows are
items here, where the paper has them as columns.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.backends import FPC, Budget, Point, run
from mcframe.backends.fpc import continuation, published_start, published_steps
from mcframe.compile import EntryLoss, Evaluation, Program, compile_problem
from mcframe.constraints import OnesColumn
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import BackendError, NotCertifiedWarning
from mcframe.contracts.solver import Solver
from mcframe.contracts.validators import positive
from mcframe.fitting import Fit, answered, fit
from mcframe.likelihoods import Bernoulli, Gaussian
from mcframe.model import Block, Model, Problem
from mcframe.numerics.low_rank import LowRank
from mcframe.numerics.shrinkage import Shrinker, Shrunk
from mcframe.regularizers import NuclearNorm

__all__ = ["FixedPointMC1", "fixed_point_mc_1", "fixed_point_mc_b", "mc_1", "mc_b"]


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
    data: Mapping[str, Any], mu: float, label_weight: float = 1.0, *, max_iter: int = 20_000
) -> Fit:
    """Algorithm 1 as published: fixed-point continuation for MC-b, with their stopping rule.

    It converges to the optimum of its problem (their section 3.1); how far it still is when
    the rule of 1e-5 stops it is the ``gap`` of the fit.

    Parameters
    ----------
    data : dict with "features" (n_items x d) and "labels" (n_items x t; 0 and 1)
    mu, label_weight : as in ``mc_b``
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        backend = FPC(stopping="published")
        return fit(mc_b(mu, label_weight), data, backend=backend, tol=0.0, max_iter=max_iter)


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
    eta : float, default 0.25
        The decay of the continuation.
    change : float, default 1e-5
        The relative change of the objective that ends a stage.
    """
    problem = Problem.bind(mc_1(mu, label_weight), data)
    solver = FixedPointMC1(eta=eta, change=change)
    outcome = run(solver, compile_problem(problem), Budget(tol=0.0, max_iter=max_iter))
    return answered(problem, outcome, solver.name)


@attrs.define(eq=False)
class FixedPointMC1State:
    """Z with its last column 1, what it was shrunk from, and the stage of the continuation."""

    iterate: Array
    flat: IntArray
    evaluation: Evaluation
    factors: Shrunk
    multiplier: Array
    penalty: float  # at the weight of the stage, of the iterate with its ones
    shrinker: Shrinker
    step: float  # tau_Z
    stages: list[float]
    last: float = np.inf
    residual: float = np.inf
    finished: str | None = None

    @property
    def rank(self) -> int:
        """Rank of the shrunk matrix, before its last column is overwritten."""
        return int(self.factors.values.size)

    @property
    def curvature(self) -> float:
        """1 / tau_Z."""
        return 1.0 / self.step

    @property
    def objective(self) -> float:
        """The objective of the stage."""
        return self.evaluation.value + self.penalty

    def sharpen(self) -> None:
        """Ask for more exact shrinkages from here on."""
        self.shrinker.sharpen()

    def retarget(self, program: Program) -> None:
        """Evaluate another loss at the iterate."""
        self.evaluation = program.loss.evaluate(np.take(self.iterate, self.flat))


@attrs.frozen
class FixedPointMC1(Solver[Program, FixedPointMC1State]):
    """Algorithm 2 of the paper, stopped by their rule; see ``fixed_point_mc_1``.

    A step is ``A = Z - tau g(Z)``, ``Z = shrink(A, tau mu)``, last column of Z = 1. The dual
    point of its certificate comes from the shrinkage: ``(A - shrink(A)) / tau`` has spectral
    norm at most mu, and its last column is minus the multiplier.

    Cost of an iteration: one pass over the observed entries, one decomposition of the smaller
    side, and the singular values of Z with its ones for the rule.
    """

    eta: float = attrs.field(default=0.25, validator=positive)
    change: float = attrs.field(default=1e-5, validator=positive)

    name = "fixed_point_mc_1"

    def refuses(self, program: Program) -> str | None:
        """It is an algorithm for a fixed column and a nuclear norm alone."""
        if not program.ones:
            return "Algorithm 2 is for a column fixed to 1"
        if program.penalty.main is None or program.penalty.ridge > 0.0:
            return "Algorithm 2 is for a nuclear norm without a ridge"
        return None

    def init(
        self, program: Program, start: Point | None, rng: np.random.Generator
    ) -> FixedPointMC1State:
        """Their start: the best rank-1 approximation of [X Y 1], its last column then 1."""
        reason = self.refuses(program)
        if reason is not None or program.penalty.main is None:
            raise BackendError(f"{self.name} cannot run this problem: {reason}")
        loss: EntryLoss = program.loss
        extended = program.with_multiplier(np.zeros(program.shape[0]), 1.0)
        begin, sigma = published_start(extended)
        iterate = (begin if start is None else start.latent).with_last_column(1.0).dense()
        flat: IntArray = loss.rows * program.shape[1] + loss.columns
        return FixedPointMC1State(
            iterate=iterate,
            flat=flat,
            evaluation=loss.evaluate(np.take(iterate, flat)),
            factors=Shrunk(begin.left, np.ones(begin.width), begin.right),
            multiplier=np.zeros(program.shape[0]),
            penalty=np.inf,
            shrinker=Shrinker(program.shape, rng, rank=begin.width),
            step=published_steps(loss, program.shape[0])[0],
            stages=continuation(sigma, program.penalty.main.threshold, self.eta),
        )

    def step(self, program: Program, state: FixedPointMC1State) -> None:
        """Gradient, shrinkage, ones; and the next stage where this one is done."""
        penalty = attrs.evolve(program.penalty, strength=state.stages[0])
        target = state.iterate.copy()
        target.ravel()[state.flat] -= state.step * state.evaluation.slope
        state.factors = state.shrinker(
            target,
            lambda s: penalty.shrink(s, state.step),
            penalty.threshold(state.step),
        )
        iterate = (state.factors.left * state.factors.values) @ state.factors.right.T
        state.multiplier = (iterate[:, -1] - 1.0) / state.step
        iterate[:, -1] = 1.0
        state.residual = float(np.linalg.norm(iterate - state.iterate)) / state.step
        state.iterate = iterate
        state.evaluation = program.loss.evaluate(np.take(iterate, state.flat))
        singular_values = self.candidate(program, state).latent.singular_values()
        state.penalty = penalty.of_singular_values(singular_values)
        self.advance(state)

    def advance(self, state: FixedPointMC1State) -> None:
        """Their rule, stage by stage."""
        last, now = state.last, state.objective
        state.last = now
        if abs(last - now) > self.change * abs(now):
            return
        if len(state.stages) > 1:
            state.stages.pop(0)
            state.last = np.inf
        else:
            state.finished = f"the objective changed by less than {self.change:g} relatively"

    def candidate(self, program: Program, state: FixedPointMC1State) -> Point:
        """The iterate with its ones, and the multiplier that the shrinkage shows."""
        factors = state.factors
        latent = LowRank(factors.left * factors.values, factors.right)
        return Point(latent.with_last_column(1.0), state.multiplier)
