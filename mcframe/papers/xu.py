"""Xu et al., Matrix Co-completion for Multi-label Classification (2018): COCO.

Missing features and missing labels completed together, with a nuclear norm of the residual.
"""

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
import scipy.linalg

from mcframe.backends import Dual, Point
from mcframe.compile import Program, SpectralPenalty
from mcframe.contracts.arrays import Array, svd
from mcframe.contracts.errors import ModelError
from mcframe.contracts.rounding import SUM_ROUNDING, TINY
from mcframe.contracts.solver import Solver
from mcframe.contracts.term import Term
from mcframe.contracts.validators import number, positive, read_only_matrix, refuse_where
from mcframe.fitting.fit_answer import Fit
from mcframe.likelihoods import Bernoulli, Gaussian
from mcframe.model import Block, Model
from mcframe.numerics.operators import LowRank
from mcframe.numerics.shrinkage import GRAM_THRESHOLD, Shrunk, shrink_full, shrink_gram
from mcframe.papers.dense_state import DenseState, fit_by
from mcframe.regularizers import NuclearNorm, ResidualNuclearNorm
from mcframe.regularizers.residual_nuclear_norm import BoundResidualNuclearNorm
from mcframe.sums import Calibration


def coco(lambda_1: float = 1.0, lambda_2: float = 1.0, feature_weight: float = 0.01) -> Model:
    """COCO, Eq. 1: blocks "features" and "labels"; COCO-0 without the residual's nuclear norm.

    ``sum of logistic losses + lambda_1 ||[X Z]||_* + feature_weight ||R(X_hat - X)||_F^2
    + lambda_2 ||R(X_hat - X)||_*`` over the observed entries of the labels and features.

    Parameters
    ----------
    lambda_1, lambda_2, feature_weight : float
        As in their section 4.1: 1, 1 and 0.01. ``lambda_2=0`` is COCO-0, see ``coco_0``.

    Raises
    ------
    ModelError
        If a weight is not positive, or lambda_2 below 0.
    """
    if not number(lambda_2, "lambda_2") >= 0.0:
        raise ModelError(
            f"lambda_2={lambda_2!r} was given; COCO needs lambda_2 >= 0, 0 for COCO-0"
        )
    terms: list[Term] = [NuclearNorm(lambda_1)]
    if lambda_2 > 0:
        terms.append(ResidualNuclearNorm("features", lambda_2))
    return Model(
        blocks=[
            # A Gaussian loss is half of the square.
            Block("features", Gaussian(), weight=2.0 * feature_weight),
            Block("labels", Bernoulli()),
        ],
        terms=terms,
    )


def coco_0(lambda_1: float = 1.0, feature_weight: float = 0.01) -> Model:
    """COCO-0: Eq. 1 with lambda_2 = 0, without the nuclear norm of the residual.

    Parameters
    ----------
    lambda_1, feature_weight : as in ``coco``

    Examples
    --------
    >>> from mcframe.papers import coco, coco_0
    >>> coco_0() == coco(lambda_2=0.0)
    True
    """
    return coco(lambda_1, 0.0, feature_weight)


def concatenated(weight: float = 1.0) -> Model:
    """Mc of section 4: features and labels side by side, completed as one matrix of numbers.

    ``1/2 ||R(Z - [X Y])||_F^2 + weight ||Z||_*``, labels as 0 and 1. Of the predictions of
    "labels" those above 1/2 are 1.

    Parameters
    ----------
    weight : float, default 1
        The figures printed for Mc are those of 1, before the fit has converged.
    """
    blocks = [Block("features", Gaussian()), Block("labels", Gaussian())]
    return Model(blocks, [NuclearNorm(weight)])


def maxide(items: Any, n_labels: int, weight: float = 1.0) -> Model:
    """Maxide (Xu, Jin and Zhou, 2013) of section 4: labels completed by features of the items.

    ``1/2 ||R(A M - Y)||_F^2 + weight ||M||_*`` over the observed entries, A an orthonormal basis
    of the columns of ``items``. With Z = A M, which has the norm of M, these are the Z that are
    orthogonal to what A leaves out: a nuclear norm under linear equations. Of the predictions
    of "labels", 0 and 1, those above 1/2 are 1.

    Parameters
    ----------
    items : array (n_items x d)
        Complete features, of a rank below n_items.
    n_labels : int
        Columns of the block "labels".
    weight : float, default 1
        The figures printed for Maxide are those of 1, before the fit has converged, with the
        features themselves in the place of A.

    Raises
    ------
    ModelError
        Where features are missing, or leave nothing out.

    Examples
    --------
    >>> import numpy as np
    >>> import mcframe as mc
    >>> from mcframe.papers import maxide
    >>> labels = np.array([[1.0, np.nan], [np.nan, 4.0], [3.0, np.nan]])
    >>> fit = mc.fit(maxide([[1.0], [2.0], [3.0]], n_labels=2, weight=1e-3), {"labels": labels})
    >>> fit.predict("labels").round(1)
    array([[1., 2.],
           [2., 4.],
           [3., 6.]])
    """
    features = read_only_matrix(items, "items")
    refuse_where(~np.isfinite(features), features, "items")
    left_out = scipy.linalg.null_space(features.T)
    if not left_out.shape[1]:
        raise ModelError(
            f"items has rank {features.shape[0]} in {features.shape[0]} rows, so that any labels"
            " are in the span of its columns; give fewer features, or complete the labels alone"
        )
    equations = Calibration("labels", left_out.T, np.zeros((left_out.shape[1], n_labels)))
    return Model([Block("labels", Gaussian())], [NuclearNorm(weight), equations])


def coco_subgradient(
    data: Mapping[str, Any],
    lambda_1: float = 1.0,
    lambda_2: float = 1.0,
    feature_weight: float = 0.01,
    *,
    max_iter: int = 300,
    first_step: float = 100.0,
    decay: float = 0.99,
    least_step: float = 40.0,
    observe: Callable[[int, LowRank], object] | None = None,
) -> Fit:
    """Algorithm 1 as published: a subgradient step of all but the nuclear norm, then shrinkage.

    The answer is the last iterate, as there. It has no guarantee of optimality: with a
    constant step a subgradient method stays away from the optimum by a distance of the order
    of the step. The fit's ``gap`` bounds how far; ``fit(coco(...), data)`` solves the problem.
    Eq. 4 as printed shrinks by lambda_1; with that the published settings do not reproduce
    their Table 1. As in any proximal step the threshold here is step * lambda_1, which does.

    Parameters
    ----------
    data : dict with "features" (n_items x d) and "labels" (n_items x l; 0 and 1)
    lambda_1, lambda_2, feature_weight : as in ``coco``
    max_iter : int, default 300
        Their T, which the paper does not give.
    first_step, decay, least_step : float, default 100, 0.99 and 40
        The step of their section 4.1: multiplied by ``decay`` until it is below
        ``least_step``. With ``least_step=0`` it decays without end, as in section 4.2.
    observe : function of t and Z, optional
        Called with every iterate (t from 1), Z in factors.
    """
    solver = CocoSubgradient(first_step, decay, least_step, observe)
    return fit_by(solver, coco(lambda_1, lambda_2, feature_weight), data, max_iter)


@attrs.define(eq=False)
class CocoState(DenseState):
    """Z with the gradients there, the subgradients of the other terms, and the step."""

    duals: tuple[Array, ...] = attrs.field(kw_only=True)
    step: float = attrs.field(kw_only=True)
    t: int = 0


@attrs.frozen
class CocoSubgradient(Solver[Program, CocoState]):
    """Algorithm 1 of the paper, with its steps: 100, decaying by 0.99 until below 40.

    Cost of an iteration: one eigenvalue decomposition of the smaller side of Z, with COCO-1
    one of the smaller side of the features, and four products of these with Z.
    """

    first_step: float = attrs.field(default=100.0, validator=positive)
    decay: float = attrs.field(default=0.99, validator=positive)
    least_step: float = 40.0
    observe: Callable[[int, LowRank], object] | None = None

    name = "coco_subgradient"
    answers_last = True

    def refusal(self, program: Program) -> str | None:
        """Return why a program is not that of COCO; None if it is."""
        known_terms = all(isinstance(t.term, BoundResidualNuclearNorm) for t in program.terms)
        is_coco = program.loss.smooth and isinstance(program.penalty, SpectralPenalty)
        return None if is_coco and known_terms else "it is for COCO alone"

    def init(self, program: Program, start: Point | None, rng: np.random.Generator) -> CocoState:
        """Z = 0, or the start."""
        if start is None:
            nothing = LowRank.zeros(program.shape)
            begin = Shrunk(nothing.left, np.zeros(0), nothing.right)
        else:
            begin = shrink_full(start.latent.dense(), lambda values: values)
        return self.state_at(program, begin, self.first_step)

    def step(self, program: Program, state: CocoState) -> None:
        """Z - step * subgradient, shrunk by step * lambda_1."""
        subgradient = state.evaluation.gradient.dense().copy()
        for term, dual in zip(program.terms, state.duals, strict=True):
            subgradient[:, term.columns] += term.gradient_of(dual)
        target = state.iterate - state.step * subgradient
        shrunk = shrink_gram(
            target,
            lambda values: program.spectral.shrink(values, state.step),
            program.penalty.threshold(state.step),
        )
        step = state.step
        if step >= self.least_step:
            step *= self.decay
        moved = self.state_at(program, shrunk, step)
        moved.residual = float(np.linalg.norm(moved.iterate - state.iterate)) / state.step
        moved.t = state.t + 1
        state.become(moved)
        if self.observe is not None:
            self.observe(state.t, state.latent)

    def state_at(self, program: Program, shrunk: Shrunk, step: float) -> CocoState:
        """The state at some Z."""
        latent = LowRank(shrunk.left * shrunk.values, shrunk.right)
        iterate = latent.dense()
        evaluation = program.evaluate(iterate)
        penalty = program.spectral.of_singular_values(shrunk.values)
        duals = []
        for term in program.terms:
            nuclear, factor = nuclear_subgradient(term.forward(iterate))
            assert isinstance(term.term, BoundResidualNuclearNorm)
            weight = term.term.weight
            duals.append(weight * factor)
            penalty += weight * nuclear
        return CocoState(iterate, latent, evaluation, penalty, duals=tuple(duals), step=step)

    def candidate(self, program: Program, state: CocoState) -> Point:
        """The iterate, and the subgradients that it was moved by."""
        return Point(state.latent, Dual.of(program, state.evaluation, state.duals))


def nuclear_subgradient(matrix: Array) -> tuple[float, Array]:
    """``||A||_*``, and its subgradient U V' at A = U diag(s) V' over the positive s.

    Of all subgradients the one of least norm (Watson, Linear Algebra Appl. 170, 1992). Through
    the eigenvectors of the Gram matrix of the smaller side, U V' = A (A'A)^(-1/2), where A is
    far from singular; that takes a quarter of the time of a singular value decomposition,
    which serves where it is not.

    Parameters
    ----------
    matrix : array (n_rows, n_columns)

    Examples
    --------
    >>> import numpy as np
    >>> from mcframe.papers.xu import nuclear_subgradient
    >>> value, factor = nuclear_subgradient(np.diag([3.0, 2.0]))
    >>> round(value, 12), bool(np.allclose(factor, np.eye(2)))
    (5.0, True)
    """
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    eigenvalues, vectors = np.linalg.eigh(tall.T @ tall)
    if eigenvalues[0] <= GRAM_THRESHOLD**2 * eigenvalues[-1]:
        left, values, right = svd(matrix)
        kept = values > SUM_ROUNDING * max(float(values[0]), TINY)
        return float(np.sum(values)), left[:, kept] @ right[kept]
    values = np.sqrt(eigenvalues)
    factor = tall @ ((vectors / values) @ vectors.T)
    return float(np.sum(values)), factor if tall is matrix else factor.T
