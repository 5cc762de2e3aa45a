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
from mcframe.backends.fpc import FPCState
from mcframe.compile import Program, compile_problem
from mcframe.constraints import OnesColumn
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import NotCertifiedWarning
from mcframe.contracts.solver import Solver
from mcframe.fitting import Fit, answered, fit
from mcframe.likelihoods import Bernoulli, Gaussian
from mcframe.model import Block, Model, Problem
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
    solver = FixedPointMC1(FPC(eta=eta, change=change, stopping="published"))
    outcome = run(solver, compile_problem(problem), Budget(tol=0.0, max_iter=max_iter))
    return answered(problem, outcome, solver.name)


@attrs.define(eq=False)
class FixedPointMC1State(FPCState):
    """That of Algorithm 1 on the program with the ones column as data, and the multiplier."""

    extended: Program | None = None
    multiplier: Array | None = None


@attrs.frozen
class FixedPointMC1(Solver[Program, FixedPointMC1State]):
    """Algorithm 2 of the paper, stopped by their rule; see ``fixed_point_mc_1``.

    A step is ``A = Z - tau g(Z)``, ``Z = shrink(A, tau mu)``, last column of Z = 1: that of
    Algorithm 1 on the table with a column of ones, whose residual the overwriting keeps at 0.
    The dual point of its certificate comes from the shrinkage: ``(A - shrink(A)) / tau`` has
    spectral norm at most mu, and its last column is minus the multiplier.

    Cost of an iteration: one pass over the observed entries, one decomposition of the smaller
    side, and the singular values of Z with its ones for the rule.
    """

    rule: FPC = attrs.field(factory=lambda: FPC(stopping="published"))

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
        # A weight that is small beside the others leaves their step sizes as they are.
        lightest = min(piece.curvature for piece in program.loss.pieces)
        extended = program.with_multiplier(np.zeros(program.shape[0]), 0.5 * lightest)
        state = FixedPointMC1State(
            **attrs.asdict(self.rule.init(extended, start, rng), recurse=False), extended=extended
        )
        self.overwrite(state)
        return state

    def step(self, program: Program, state: FixedPointMC1State) -> None:
        """Gradient, shrinkage, ones; and the next stage where this one is done."""
        assert state.extended is not None
        self.rule.move(state.extended, state)
        state.multiplier = (state.iterate[:, -1] - 1.0) / state.steps[0]
        self.overwrite(state)
        penalty = attrs.evolve(program.penalty, strength=state.stages[0])
        latent = self.candidate(program, state).latent
        state.penalty = penalty.of_singular_values(latent.singular_values())
        self.rule.advance(state)

    def overwrite(self, state: FixedPointMC1State) -> None:
        """The last column of Z is 1."""
        assert state.extended is not None
        loss = state.extended.loss
        state.iterate[:, -1] = 1.0
        z = np.take(state.iterate, state.flat)
        state.evaluation = loss.evaluate_at(z, state.biases)

    def candidate(self, program: Program, state: FixedPointMC1State) -> Point:
        """The iterate with its ones, and the multiplier that the shrinkage shows."""
        shrunk = self.rule.candidate(program, state).latent
        return Point(shrunk.with_last_column(1.0), state.multiplier)
