"""Hsieh, Natarajan and Dhillon, PU Learning for Matrix Completion (ICML 2015).

The problem as section 3.3 of Hayashi, Sakai and Sugiyama (2018) describes it: ones alone are
observed, and not all of them. The algorithm is the first-order method that this description
leads to; the paper of 2015 may have another one.
"""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.backends import Dual, Point
from mcframe.compile import Program, SpectralPenalty
from mcframe.constraints import Box, NuclearBall
from mcframe.contracts.arrays import Array
from mcframe.contracts.solver import Solver
from mcframe.fitting.fit_answer import Fit
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Model
from mcframe.numerics.operators import LowRank
from mcframe.papers.dense_state import DenseState, fit_by, shrunk
from mcframe.risks import RiskMixture


def shift_mc(radius: float, missing_rate: float) -> Model:
    """Hsieh, Natarajan and Dhillon (2015): PU with the squared loss, entries of Z in [0, 1].

    ``sum over ones of ((z - 1)^2 - rho z^2) / (1 - rho) + sum over unlabeled of z^2``, whose
    expectation is ``sum (z - y)^2`` over all entries (section 2.3 of Hayashi et al.). It is the
    squared distance from the table with 1 / (1 - rho) in the place of each observed one, up to a
    constant.

    Parameters
    ----------
    radius : float
        Their t, of the nuclear norm.
    missing_rate : float
        rho, the share of ones that are not observed. Ones alone do not tell it.

    Examples
    --------
    >>> from mcframe.papers import shift_mc
    >>> for term in shift_mc(3.0, missing_rate=0.5).terms:
    ...     print(term.formula())
    ‖Z‖_* ≤ 3
    0 ≤ z_ij ≤ 1
    """
    squared = Gaussian(variance=0.5)
    risk = RiskMixture(pu=1.0, missing_rate=missing_rate, likelihood=squared)
    return Model([Block("labels", risk)], [NuclearBall(radius), Box(0.0, 1.0)])


def shift_mc_projections(
    data: Mapping[str, Any],
    radius: float,
    missing_rate: float,
    *,
    max_iter: int = 1000,
    tol: float = 1e-3,
) -> Fit:
    """Projected gradient for ``shift_mc``, the projection by Dykstra's method.

    The risk is ``||Z - S||_F^2`` plus a constant, S with 1 / (1 - rho) for each observed one and
    0 elsewhere. So a gradient step of length 1/2 leads to S from everywhere, and what is left is
    the projection of S onto the nuclear ball and the box. With Q = 0 at first,

        Y = S - Q, singular values projected onto their l1 ball of radius t;
        X = Y + Q, entries cut to [0, 1];    Q = Y + Q - X

    (Boyle and Dykstra, 1986). X converges to the optimum. ``max_iter=1`` is one singular value
    decomposition and one cut. The answer is X, scaled into the ball where it is outside.

    Parameters
    ----------
    data : dict with "labels", array (n x d)
        1 for an observed one, NaN or 0 elsewhere.
    radius, missing_rate : as in ``shift_mc``
    max_iter : int, default 1000
    tol : float, default 1e-3
        The relative gap at which it stops.

    Returns
    -------
    Fit
        With a lower bound on the optimum of ``shift_mc``.

    Raises
    ------
    ModelError
        If the radius is not above 0, or an option is wrong.
    DataError
        If the labels are neither 0, 1 nor NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from mcframe.papers import shift_mc_projections
    >>> ones = np.where(np.eye(3) == 1.0, 1.0, np.nan)
    >>> fit = shift_mc_projections({"labels": ones}, 1.5, 0.5)
    >>> fit.latent.dense().round(3) + 0.0
    array([[0.5, 0. , 0. ],
           [0. , 0.5, 0. ],
           [0. , 0. , 0.5]])
    """
    model = shift_mc(radius, missing_rate)
    return fit_by(ShiftProjections(), model, data, max_iter, tol=tol)


@attrs.define(eq=False)
class ProjectionState(DenseState):
    """X, cut to the box; Y in the ball as ``latent``; and Q, what the cut takes away."""

    excess: Array = attrs.field(kw_only=True)


@attrs.frozen
class ShiftProjections(Solver[Program, ProjectionState]):
    """Dykstra's projections; see ``shift_mc_projections``.

    Cost of an iteration: one full singular value decomposition, and another one for each
    certificate.
    """

    name = "shift_mc_projections"

    def refusal(self, program: Program) -> str | None:
        """Return why a program has another ball or box than ``shift_mc``; None if it has these."""
        ball = isinstance(program.main, NuclearBall)
        boxes = [term for term in program.terms if isinstance(term.term, Box)]
        alone = isinstance(program.penalty, SpectralPenalty) and len(program.terms) == 1
        return None if ball and boxes and alone else "it is for a nuclear ball and a box alone"

    def init(
        self, program: Program, start: Point | None, rng: np.random.Generator
    ) -> ProjectionState:
        """Z = 0, or the start, and Q = 0."""
        latent = LowRank.zeros(program.shape) if start is None else start.latent
        return ProjectionState.at(program, latent, excess=np.zeros(program.shape))

    def step(self, program: Program, state: ProjectionState) -> None:
        """A gradient step, the ball, the box."""
        step = 1.0 / program.curvature
        shifted = state.iterate - step * state.evaluation.gradient.dense()
        latent = shrunk(program, shifted - state.excess, step)
        raised = latent.dense() + state.excess
        box = program.terms[0].term
        assert isinstance(box, Box)
        cut, _ = box.prox(raised, step)
        excess = raised - cut
        residual = float(np.linalg.norm(excess - state.excess)) / step
        evaluation = program.evaluate(cut)
        state.become(
            ProjectionState(cut, latent, evaluation, 0.0, residual=residual, excess=excess)
        )

    def candidate(self, program: Program, state: ProjectionState) -> Point:
        """X scaled into the ball, which keeps it in the box; Q is the multiplier of the box."""
        latent = LowRank.of(state.iterate)
        norm = float(np.sum(latent.singular_values()))
        assert isinstance(program.main, NuclearBall)
        if norm > program.main.radius:
            latent = LowRank(latent.left * (program.main.radius / norm), latent.right)
        multiplier = program.curvature * state.excess
        return Point(latent, Dual.of(program, state.evaluation, (multiplier,)))
