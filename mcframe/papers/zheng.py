"""Zheng and Hastie (2015): Semi-supervised learning via matrix completion.

Soft-Impute (Mazumder, Hastie and Tibshirani, JMLR 2010) read as a rule for new rows, which is
``Fit.predict_rows``, and its special case for complete features.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.backends import Point
from mcframe.compile import Program, SpectralPenalty
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.solver import Solver
from mcframe.contracts.validators import positive, whole
from mcframe.fitting.fit_answer import Fit
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Model
from mcframe.numerics.operators import LowRank, orthogonal_factors
from mcframe.papers.dense_state import DenseState, fit_by, shrunk
from mcframe.regularizers import NuclearNorm


def soft_impute(lam: float, blocks: Sequence[str] = ("features", "labels")) -> Model:
    """Soft-Impute, the first display of their section 1: squares and a nuclear norm.

    ``1/2 sum over observed (r - z)^2 + lambda ||Z||_*`` with R = [X Y] for two blocks.

    Parameters
    ----------
    lam : float
        Their lambda.
    blocks : names of the blocks, default "features" and "labels"
        All of them Gaussian.

    Examples
    --------
    >>> from mcframe.papers import soft_impute
    >>> print(soft_impute(2.0, ["table"]))
    minimise over Z
        Σ_(i,j)∈table (z_ij − x_ij)²/2
      + 2 ‖Z‖_*
    where Z = [table] is n_items × n_columns
    """
    return Model([Block(name, Gaussian()) for name in blocks], [NuclearNorm(lam)])


def gamma(fit: Fit, labels: str = "labels") -> Array:
    """The linear rule ``y = gamma x`` of their section 3, for rows with complete features.

    ``gamma = V_y (V_x'V_x + lambda I)^-1 V_x'`` where Z = U V' in balanced factors, V_y are
    the rows of V that belong to the labels and V_x all others.

    Parameters
    ----------
    fit : Fit
        Of ``soft_impute``.
    labels : str, default "labels"
        The block that a new row lacks; the others, in the order of the model, are x.

    Returns
    -------
    array (columns of the labels x all other columns)

    Raises
    ------
    ModelError
        If the fit is not one of ``soft_impute``.
    """
    names = [block.name for block in fit.model.blocks]
    fit.model.block(labels)
    if len(names) < 2:
        raise ModelError(f"the model has no other block than {labels!r} to predict it from")
    lam = sum(term.threshold for term in fit.model.terms if isinstance(term, NuclearNorm))
    if lam == 0.0 or fit.model != soft_impute(lam, names):
        raise ModelError("gamma is known of soft_impute alone; use fit.predict_rows")
    loadings = orthogonal_factors(fit.latent.left, fit.latent.right)[2]
    label_columns = fit.problem.columns(labels)
    of_label, others = loadings[label_columns], np.delete(loadings, label_columns, axis=0)
    normal = others.T @ others + lam * np.eye(loadings.shape[1])
    return of_label @ np.linalg.solve(normal, others.T)


def soft_impute_iterations(
    data: Mapping[str, Any], lam: float, *, change: float = 1e-5, max_iter: int = 1000
) -> Fit:
    """Algorithm 1 of Mazumder et al. (2010) as published, for one lambda, from Z = 0.

    Missing entries are filled with those of Z, singular values shrunk by lambda, until Z
    hardly moves. It converges to the optimum, by its section 4 like 1 / k; how far away it
    still is when its rule stops it is the ``gap`` of the fit.

    Parameters
    ----------
    data : dict from block name to matrix
        All blocks are Gaussian.
    lam : float
        Their lambda.
    change : float, default 1e-5
        Their epsilon, which they leave open: stop where
        ``||Z_new - Z||_F^2 <= epsilon ||Z||_F^2``.
    max_iter : int, default 1000
    """
    model, most = soft_impute(lam, list(data)), whole(max_iter, "max_iter", 1)
    return fit_by(SoftImputeIterations(change), model, data, most)


@attrs.frozen
class SoftImputeIterations(Solver[Program, DenseState]):
    """Soft-Impute; see ``soft_impute_iterations``.

    Filling in is a gradient step of length 1, so that ``Z_new = shrink(Z - gradient, lambda)``.
    Cost of an iteration: one full singular value decomposition.
    """

    change: float = attrs.field(default=1e-5, validator=positive)

    name = "soft_impute_iterations"

    def refusal(self, program: Program) -> str | None:
        """Return why a program is not that of Soft-Impute; None if it is."""
        gaussian = all(
            isinstance(block_loss.likelihood, Gaussian) for block_loss in program.loss.block_losses
        )
        if not (gaussian and program.plain and not program.terms and program.curvature == 1.0):
            return "Soft-Impute is for Gaussian entries that count 1 each, and nothing else"
        if program.main is None or not isinstance(program.penalty, SpectralPenalty):
            return "Soft-Impute needs a nuclear norm"
        return None

    def init(self, program: Program, start: Point | None, rng: np.random.Generator) -> DenseState:
        """Z = 0, or the start."""
        return DenseState.at(
            program, LowRank.zeros(program.shape) if start is None else start.latent
        )

    def step(self, program: Program, state: DenseState) -> None:
        """Fill in, shrink, and compare with the Z before."""
        filled = state.iterate - state.evaluation.gradient.dense()
        moved = DenseState.at(program, shrunk(program, filled, 1.0))
        size = float(np.linalg.norm(state.iterate))
        moved.residual = float(np.linalg.norm(moved.iterate - state.iterate))
        if size > 0.0 and moved.residual**2 <= self.change * size**2:
            moved.finished = f"Z moved by at most epsilon={self.change:g}"
        state.become(moved)

    def candidate(self, program: Program, state: DenseState) -> Point:
        """Return the iterate as a point to be certified."""
        return Point(state.latent)
