"""Wang, Zhang, Mao and Wang (ICASSP 2023): Transductive Matrix Completion with Calibration.

TMCC completes features and the natural parameters of several tasks together, helped by known
linear functions of the true features, ``A X = B``.
"""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from attrs.validators import optional

from mcframe.backends import Point
from mcframe.compile import Program
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.solver import Solver
from mcframe.contracts.term import Term
from mcframe.contracts.validators import RandomState, at_least_0, positive, whole
from mcframe.fitting.fit_answer import Fit
from mcframe.likelihoods import Bernoulli, Gaussian, Poisson
from mcframe.model import Block, Model
from mcframe.numerics.operators import LowRank
from mcframe.papers.dense_state import DenseState, fit_by, shrunk
from mcframe.regularizers import NuclearNorm
from mcframe.sums import Calibration

FEATURES_BLOCK = "features"


def three_tasks() -> dict[str, Likelihood]:
    """Return the tasks of the paper: labels, counts, and measurements of known variance 1."""
    return {"bernoulli": Bernoulli(), "poisson": Poisson(), "gaussian": Gaussian()}


def tmcc(
    n_cells: int,
    tau_1: float | None,
    tau_2: float,
    A: Any,
    B: Any,
    tasks: Mapping[str, Likelihood] | None = None,
) -> Model:
    """TMCC: features and tasks share one low-rank matrix, the features are calibrated.

    ``1 / (n D) (negative log-likelihoods of the tasks + sum (x_hat - x)^2 / 2)
    + tau_1 ||A X - B||_F^2 + tau_2 ||[X Z]||_*``, sums over observed entries. As they print
    it, tau_1 and tau_2 are not divided by n D.

    Parameters
    ----------
    n_cells : int
        n D, the cells of features and tasks together.
    tau_1 : float or None
        Weight of the calibration; None asks for ``A X = B`` exactly.
    tau_2 : float
        Weight of the nuclear norm.
    A : array (m x n_items)
    B : array (m x columns of the features)
        The external summaries of the true features.
    tasks : dict from block name to likelihood, optional
        By default "bernoulli", "poisson" and "gaussian", as in their experiments. The block
        "features" is Gaussian.

    Examples
    --------
    >>> import numpy as np
    >>> from mcframe.papers import tmcc
    >>> print(tmcc(200, 0.5, 0.01, np.full(4, 0.25), np.zeros(3), tasks={}))
    minimise over Z
        0.005 Σ_(i,j)∈features (z_ij − x_ij)²/2
      + 0.01 ‖Z‖_*
      + 0.5 ‖A P_features − B‖_F²
    where Z = [features] is n_items × n_columns
          P_features = z_ij + offset, for all cells of features
    """
    return model_of_tasks(n_cells, tau_2, tasks, [Calibration(FEATURES_BLOCK, A, B, weight=tau_1)])


def mc0(n_cells: int, tau_2: float, tasks: Mapping[str, Likelihood] | None = None) -> Model:
    """MC.0: TMCC without calibration; parameters as in ``tmcc``."""
    return model_of_tasks(n_cells, tau_2, tasks, [])


def model_of_tasks(
    n_cells: int, tau_2: float, tasks: Mapping[str, Likelihood] | None, more: list[Term]
) -> Model:
    """Features and tasks, a nuclear norm, and more terms."""
    likelihoods = {FEATURES_BLOCK: Gaussian(), **(three_tasks() if tasks is None else tasks)}
    return Model(blocks_of(likelihoods, n_cells), [NuclearNorm(tau_2), *more])


def collective(
    n_cells: int, weight: float, tasks: Mapping[str, Likelihood] | None = None
) -> Model:
    """Collective matrix completion of Alaya and Klopp (JMLR 2019), Eq. 4: the tasks alone.

    ``1 / (n D) sum over tasks of their negative log-likelihoods + weight ||Z||_*``

    Parameters
    ----------
    n_cells : int
        n D, the cells of all tasks together.
    weight : float
        Of the nuclear norm.
    tasks : dict from block name to likelihood, optional
        As in ``tmcc``.
    """
    likelihoods = three_tasks() if tasks is None else tasks
    return Model(blocks_of(likelihoods, n_cells), [NuclearNorm(weight)])


def blocks_of(likelihoods: Mapping[str, Likelihood], n_cells: int) -> list[Block]:
    """Blocks in which each observed entry counts 1 / (n D)."""
    scale = 1.0 / whole(n_cells, "n_cells", 1)
    return [Block(name, likelihood, weight=scale) for name, likelihood in likelihoods.items()]


def tmcc_accelerated(
    model: Model,
    data: Mapping[str, Any],
    *,
    step: float | None = None,
    kappa: float = 1e-6,
    max_iter: int = 1000,
    random_state: RandomState = 0,
) -> Fit:
    """Algorithm 1 as published: accelerated proximal gradient, restarted when L has risen.

    Its stopping rule says nothing about the optimum: it stops where L changes by at most kappa, an
    absolute number, although L is divided by n D. The fit's ``gap`` bounds how far away the
    optimum still is; ``fit(model, data)`` goes there.

    Parameters
    ----------
    model : Model
        As ``tmcc`` (with a number for tau_1) or ``mc0`` gives it.
    data : dict from block name to matrix
    step : float, optional
        Their eta, which the poster leaves open; by default 1 / L, with L the curvature of f
        where all entries of Z are in [-1, 1], as those of their Z_* are.
    kappa : float, default 1e-6
        Of their stopping rule; the poster gives no number.
    max_iter : int, default 1000
        Their K.
    random_state : int, generator of numpy or None, default 0
        Of the random start: entries uniform on [-1, 1].
    """
    most = whole(max_iter, "max_iter", 1)
    return fit_by(TmccAccelerated(step, kappa), model, data, most, random_state)


@attrs.define(eq=False)
class TmccState(DenseState):
    """M, the M before it, and the counter of the momentum."""

    before: Array = attrs.field(kw_only=True)
    step: float = attrs.field(kw_only=True)
    counter: int = 1  # their c


@attrs.frozen
class TmccAccelerated(Solver[Program, TmccState]):
    """Algorithm 1 of the paper; see ``tmcc_accelerated``.

    ``Q = M_k + theta (M_k - M_(k-1))`` with theta = (c - 1) / (c + 2), then
    ``M_(k+1) = shrink(Q - eta grad f(Q), eta tau_2)``; c falls back to 1 where L has risen,
    and else grows by 1.

    Cost of an iteration: one full singular value decomposition of Z, two passes over the
    observed entries, and a few over dense matrices.
    """

    step_size: float | None = attrs.field(default=None, validator=optional(positive))
    kappa: float = attrs.field(default=1e-6, validator=at_least_0)

    name = "tmcc_accelerated"

    def refusal(self, program: Program) -> str | None:
        """Return why a program is not that of TMCC; None if it is."""
        if program.penalty.no_shrinkage is not None or program.main is None:
            return "its regularizer over all of Z must be a nuclear norm"
        if not program.plain:
            return "Algorithm 1 is for smooth losses and a calibration with a weight"
        return None

    def init(self, program: Program, start: Point | None, rng: np.random.Generator) -> TmccState:
        """Random entries, or the start."""
        drawn = rng.uniform(-1.0, 1.0, program.shape)
        latent = LowRank.of(drawn) if start is None else start.latent
        step = self.step_size
        if step is None:
            step = 1.0 / program.curvature_at(program.evaluate(np.ones(program.shape)))
        return TmccState.at(program, latent, before=latent.dense(), step=step)

    def step(self, program: Program, state: TmccState) -> None:
        """Steps 2 to 12 of Algorithm 1."""
        theta = (state.counter - 1) / (state.counter + 2)
        ahead = state.iterate + theta * (state.iterate - state.before)
        target = ahead - state.step * program.evaluate(ahead).gradient.dense()
        latent = shrunk(program, target, state.step)
        moved = TmccState.at(program, latent, before=state.iterate, step=state.step)
        moved.counter = 1 if moved.objective > state.objective else state.counter + 1
        moved.residual = float(np.linalg.norm(moved.iterate - ahead)) / state.step
        if abs(moved.objective - state.objective) <= self.kappa:
            moved.finished = f"the objective changed by at most kappa={self.kappa:g}"
        state.become(moved)

    def candidate(self, program: Program, state: TmccState) -> Point:
        """Return the iterate as a point to be certified."""
        return Point(state.latent)
