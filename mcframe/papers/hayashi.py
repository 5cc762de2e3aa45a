"""Hayashi, Sakai and Sugiyama, Binary Matrix Completion Using Unobserved Entries (2018).

The problems they state, as models of one block "labels": three risks and their mixtures, in a
ball of the max norm or of the trace norm, entries in a box. Labels are 0 and 1 here, NaN where
they are unobserved; theirs are -1, +1 and 0. Then their algorithm, projected gradient in factors
of one width (section 5.4), for the max norm alone; its step and its start they leave open.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

import attrs
import numpy as np

from mcframe.backends import Dual, Point
from mcframe.compile import Program
from mcframe.compile.penalty import split_rows
from mcframe.constraints import Box, MaxNormBall, NuclearBall
from mcframe.contracts.arrays import Array, Matrix, Shape
from mcframe.contracts.errors import ModelError
from mcframe.contracts.solver import Solver
from mcframe.contracts.term import Term
from mcframe.contracts.validators import RandomState, above_zero, positive, within
from mcframe.fitting.fit_answer import Fit
from mcframe.likelihoods import Bernoulli
from mcframe.model import Block, Model
from mcframe.numerics.operators import LowRank, stacked_gradient
from mcframe.papers.dense_state import DenseState, fit_by
from mcframe.risks import RiskMixture

NormClass = Literal["max", "trace"]
# The standard deviation of the random numbers with which factors, and columns that are added to
# them, begin.
INITIAL_FACTOR_SIZE = 0.1


def probit_quantization(sigma: float = 1.0) -> Bernoulli:
    """f(x) = Phi(x / sigma): Gaussian noise of that deviation (section 2.2.1).

    PU and NU are not convex with it: they take ``nonconvex=True``.
    """
    return Bernoulli("probit", scale=sigma)


def logistic_quantization(steepness: float = 1.0) -> Bernoulli:
    """f(x) = 1 / (1 + exp(-steepness x)): logistic noise; their section 6.2 has 7.

    Examples
    --------
    >>> from mcframe.papers import logistic_quantization
    >>> logistic_quantization(4.0)
    Bernoulli(link='logit', scale=0.25)
    """
    return Bernoulli("logit", scale=1.0 / above_zero(steepness, "steepness"))


def max_norm_radius(alpha: float, rank: float) -> float:
    """alpha sqrt(r): matrices of rank r within [-alpha, alpha] have no larger max norm (Eq. 14).

    Examples
    --------
    >>> from mcframe.papers import max_norm_radius
    >>> max_norm_radius(0.5, 4)
    1.0
    """
    return above_zero(alpha, "alpha") * math.sqrt(above_zero(rank, "rank"))


def trace_norm_radius(alpha: float, rank: float, shape: Shape) -> float:
    """alpha sqrt(r d1 d2), that of the trace norm (Eq. 10).

    Examples
    --------
    >>> from mcframe.papers import trace_norm_radius
    >>> trace_norm_radius(0.5, 4, (3, 12))
    6.0
    """
    return max_norm_radius(alpha, rank) * math.sqrt(shape[0] * shape[1])


def tri(
    pn: float,
    pu: float,
    nu: float,
    radius: float,
    *,
    bound: float | None = None,
    norm: NormClass = "max",
    missing_rate: float | None = None,
    likelihood: Any = None,
    nonconvex: bool = False,
) -> Model:
    """The TRI risk, Eqs. 101 to 104: ``pn PN + pu PU + nu NU`` over K_max or K_*.

    Parameters
    ----------
    pn, pu, nu : float
        Their gamma_PN, gamma_PU and gamma_NU: at least 0, with sum 1.
    radius : float
        R, of the norm: see ``max_norm_radius`` and ``trace_norm_radius``.
    bound : float, optional
        alpha: entries of Z lie in [-alpha, alpha]. The max norm alone bounds them by R.
    norm : "max" (default) or "trace"
        K_max of Eq. 11, or K_* of Eq. 10.
    missing_rate : float, optional
        rho; estimated if None, see ``RiskMixture``.
    likelihood : default Bernoulli()
        Its mean is their quantization probability function.
    nonconvex : bool, default False
        Allow what is not convex: PU and NU of a probit.

    Examples
    --------
    >>> from mcframe.papers import tri
    >>> for term in tri(0.4, 0.3, 0.3, 2.0, bound=1.0, missing_rate=0.8).terms:
    ...     print(term.formula())
    ‖Z‖_max ≤ 2
    -1 ≤ z_ij ≤ 1
    """
    risk = RiskMixture(
        pn=pn,
        pu=pu,
        nu=nu,
        missing_rate=missing_rate,
        likelihood=Bernoulli() if likelihood is None else likelihood,
        nonconvex=nonconvex,
    )
    if norm not in ("max", "trace"):
        raise ModelError(f"norm={norm!r} was given; 'max' or 'trace' is needed")
    terms: list[Term] = [MaxNormBall(radius) if norm == "max" else NuclearBall(radius)]
    if bound is not None:
        terms.append(Box(-bound, bound))
    return Model([Block("labels", risk)], terms)


def pn(radius: float, **options: Any) -> Model:
    """The PN risk, Eq. 77: observed entries alone (Davenport et al.; Cai and Zhou).

    Parameters
    ----------
    radius, options : as in ``tri``
        Davenport et al. have ``norm="trace"``, Cai and Zhou the max norm. The missing rate
        plays no part.
    """
    return tri(1.0, 0.0, 0.0, radius, **options)


def pu(radius: float, **options: Any) -> Model:
    """The PU risk, Eqs. 83 and 84: positive labels, and all else as unlabeled (Hsieh et al.)."""
    return tri(0.0, 1.0, 0.0, radius, **options)


def nu(radius: float, **options: Any) -> Model:
    """The NU risk, Eqs. 86 and 87: the counterpart of PU."""
    return tri(0.0, 0.0, 1.0, radius, **options)


def punu(gamma: float, radius: float, **options: Any) -> Model:
    """The PUNU risk, Eq. 89: ``(1 - gamma) PU + gamma NU``, 0 <= gamma <= 1."""
    gamma = within(gamma, "gamma", 0.0, 1.0)
    return tri(0.0, 1.0 - gamma, gamma, radius, **options)


def pnu(eta: float, radius: float, **options: Any) -> Model:
    """The PNU risk, Eqs. 90 to 92: ``(1 - |eta|) PN``, and |eta| of PU (above 0) or NU (below).

    Examples
    --------
    >>> from mcframe.papers import pnu, tri
    >>> pnu(-0.25, 2.0) == tri(0.75, 0.0, 0.25, 2.0)
    True
    """
    eta = within(eta, "eta", -1.0, 1.0)
    return tri(1.0 - abs(eta), max(eta, 0.0), max(-eta, 0.0), radius, **options)


def projected_factors(
    model: Model,
    data: Mapping[str, Any],
    width: int,
    step: float,
    *,
    max_iter: int = 1000,
    max_seconds: float = np.inf,
    tol: float = 0.0,
    random_state: RandomState = 0,
) -> Fit:
    """Fit factors of one width by section 5.4: gradient steps, then projections.

    It does not solve the problem, for two reasons that the fit's ``gap`` shows together:
    factors of a small width are rank-starved, and the scaling of Eq. 108 is no projection onto
    the box (see ``ProjectedFactors``); ``fit(model, data)`` adds columns until the gap closes.

    Parameters
    ----------
    model : Model
        As ``tri`` gives it, with the max norm.
    data : dict with "labels" (0, 1, NaN for unlabeled)
    width : int
        Their k.
    step : float
        Their tau.
    max_iter, max_seconds, tol, random_state : as in ``fit``
    """
    solver = ProjectedFactors(width, step)
    return fit_by(solver, model, data, max_iter, random_state, tol=tol, max_seconds=max_seconds)


@attrs.frozen
class ProjectedFactors(Solver[Program, DenseState]):
    """Eqs. 107 and 108: a gradient step in U and V, long rows cut, both scaled into the box.

    The scaling shrinks all of Z for the sake of its largest entry. Where it alone is at work
    the iteration rests at ``G V = -c U, G' U = -c V`` with some c > 0, G the gradient of the risk:
    the equations of a stationary point of ``risk + c (||U||_F^2 + ||V||_F^2) / 2``, which is
    the risk with a nuclear norm of weight c. So what it finds is the answer to a problem with
    a penalty, whose weight is such that the largest entry is alpha, and not to Eq. 106.

    Cost of an iteration: three products n_rows x n_columns x width and a pass over the
    entries.
    """

    width: int
    step_size: float = attrs.field(validator=positive)

    name = "projected_factors"

    def refusal(self, program: Program) -> str | None:
        """Return why a program is not that of a risk over K_max and a box; None if it is."""
        return None if isinstance(program.main, MaxNormBall) else "it is for K_max alone"

    def init(self, program: Program, start: Point | None, rng: np.random.Generator) -> DenseState:
        """The start's factors as they are, and small random columns up to the width."""
        stacked: Array = np.zeros((sum(program.shape), 0))
        if start is not None:
            stacked = stacked_factors(start.latent)
        return self.state_at(program, with_random_columns(stacked, self.width, rng))

    def step(self, program: Program, state: DenseState) -> None:
        """One step of the published iteration."""
        stacked, gradient = stacked_factors(state.latent), state.evaluation.gradient
        moved = self.state_at(program, gradient_step(stacked, gradient, self.step_size))
        change = stacked_factors(moved.latent) - stacked
        moved.residual = float(np.linalg.norm(change)) / self.step_size
        state.become(moved)

    def state_at(self, program: Program, stacked: Array) -> DenseState:
        """The state at projected factors."""
        assert isinstance(program.main, MaxNormBall)
        limits = [term.term.entry_bounds for term in program.terms]
        bound = min((limit[1] for limit in limits if limit is not None), default=np.inf)
        stacked, latent = project(stacked, program.shape[0], program.main, bound)
        factors = split_rows(stacked, program.shape[0])
        return DenseState(latent, factors, program.evaluate(latent), penalty=0.0)

    def candidate(self, program: Program, state: DenseState) -> Point:
        """The factors; no multiplier of the box is known, so that its dual is 0."""
        # A hair inside of the box, which rounding would otherwise leave.
        shorter = 1.0 - 1e-12 if program.terms else 1.0
        latent = LowRank(shorter * state.latent.left, state.latent.right)
        duals = tuple(np.zeros(program.shape) for _ in program.terms)
        return Point(latent, Dual.of(program, state.evaluation, duals))


def stacked_factors(latent: LowRank) -> Array:
    """U over V."""
    return np.vstack([latent.left, latent.right])


def with_random_columns(stacked: Array, width: int, rng: np.random.Generator) -> Array:
    """U over V with further small random columns, ``width`` columns in all."""
    missing = max(width - stacked.shape[1], 0)
    fresh = INITIAL_FACTOR_SIZE * rng.standard_normal((stacked.shape[0], missing))
    return np.hstack([stacked, fresh])


def gradient_step(stacked: Array, gradient: Matrix, step: float) -> Array:
    """Eq. 107: U - tau G V over V - tau G' U."""
    return stacked - step * stacked_gradient(gradient, stacked)


def project(stacked: Array, n_rows: int, ball: MaxNormBall, bound: float) -> tuple[Array, Array]:
    """Long rows cut to sqrt(R), then Eq. 108: both factors scaled into the box; and Z."""
    stacked = ball.prox_factors(stacked, 1.0)
    latent = stacked[:n_rows] @ stacked[n_rows:].T
    largest = max(float(np.max(latent)), -float(np.min(latent)))
    if largest > bound:
        stacked = math.sqrt(bound / largest) * stacked
        latent *= bound / largest
        np.clip(latent, -bound, bound, out=latent)
    return stacked, latent
