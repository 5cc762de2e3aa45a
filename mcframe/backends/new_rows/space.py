"""What a row of Z may be once a model is fitted, and what it costs there."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.backends.certificate import Dual
from mcframe.compile import (
    CompiledProblem,
    RowPenalty,
    compile_main,
    dual_point,
    infinite_effects,
    is_quadratic,
)
from mcframe.constraints import Box, NuclearBall
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import ModelError
from mcframe.contracts.term import Constraint, RowQuadratic, Spectral, Term
from mcframe.model import Model, Problem
from mcframe.numerics.operators import LowRank, orthogonal_factors
from mcframe.numerics.row_squares import RowSquares
from mcframe.regularizers import NuclearNorm

__all__ = ["RowSpace", "refuse_rows"]

REMEDY = "refit with the new rows among the data"
# A ball whose radius is larger than the nuclear norm of Z by more than this does not bind: fits
# that it binds end on it, up to how exactly they are known.
LOOSE = 1e-3


@attrs.frozen(eq=False)
class RowSpace:
    """``z = loadings u`` with ``u = start + directions t``, at the cost ``||t||^2 / 2``.

    At the optimum Z = U V', with singular values s shared alike by both factors, the gradient S of
    all that is a sum over rows has ``S V = -U D``, where the diagonal D holds what the terms over
    all of Z take off each singular value: ``weight + ridge s``. Each row u of U therefore
    minimises its own share of that sum plus ``u'D u / 2``, V fixed (Zheng and Hastie, 2015,
    section 3, for Gaussian entries under a nuclear norm; the argument needs convexity alone).
    ``loadings`` are ``V D^(-1/2)``, so that every direction costs alike. Columns of Z that are
    fixed, as a column of ones, leave the u that meet them: a point, and directions orthogonal to
    it.

    Attributes
    ----------
    loadings : array (n_columns x k)
    start : array (k,)
    directions : array (k x m), orthonormal columns
    bounds : tuple of (columns of Z, lower, upper)
        Between which the entries of a row stay.
    idle : dict from block name to float
        Unpenalised row effects of items without an entry, counted from 0.
    """

    loadings: Array
    start: Array
    directions: Array
    bounds: tuple[tuple[slice, float, float], ...]
    idle: Mapping[str, float]

    @classmethod
    def of(
        cls,
        problem: Problem,
        latent: LowRank,
        effects: Mapping[str, Array],
        dual: Dual | None,
        infinite: Mapping[str, IntArray] | None = None,
    ) -> "RowSpace":
        """The space of a fit's rows; a ``ModelError`` where terms leave new rows no meaning.

        ``infinite`` has the places of infinite effects by block, where the problem has no entries
        by which they are found.
        """
        refuse_rows(problem)
        bounds = tuple(
            (problem.columns_of_term(term), term.lower, term.upper)
            for term in problem.terms
            if isinstance(term, Box)
        )
        idle = idle_effects(problem, effects, infinite)
        penalty = compile_main(problem)
        if isinstance(penalty, RowPenalty):
            return cls.of_squares(penalty.squares, bounds, idle)
        fixed = [
            (problem.columns_of_term(term), term.fixed)
            for term in problem.terms
            if isinstance(term, Constraint) and term.fixed is not None
        ]
        loadings = priced_loadings(problem, latent, effects, dual)
        ends = np.vstack([np.zeros((0, loadings.shape[1])), *(loadings[own] for own, _ in fixed)])
        values = np.concatenate([np.zeros(0), *(np.full(width(own), v) for own, v in fixed)])
        start, directions = solutions(ends, values)
        return cls(loadings, start, directions, bounds, idle)

    @classmethod
    def of_squares(
        cls,
        squares: RowSquares,
        bounds: tuple[tuple[slice, float, float], ...] = (),
        idle: Mapping[str, float] | None = None,
    ) -> "RowSpace":
        """The space of all rows under a square of each, centre and loadings side by side."""
        loadings = np.column_stack([squares.centre, squares.loadings])
        unit = np.eye(loadings.shape[1])
        return cls(loadings, unit[0], unit[:, 1:], bounds, idle or {})

    def rows(self, scores: Array) -> LowRank:
        """Rows of Z from their t (n_rows x m), in factors."""
        return LowRank(self.start + scores @ self.directions.T, self.loadings)


def width(columns: slice) -> int:
    """How many columns a slice has."""
    return int(columns.stop - columns.start)


def refuse_rows(problem: Problem) -> None:
    """A ``ModelError`` where a model says nothing of a row by itself."""
    alone = [term for term in problem.model.terms if isinstance(term, RowQuadratic)]
    for term in problem.model.terms:
        if alone and not (is_quadratic(term) or isinstance(term, RowQuadratic | Box)):
            raise ModelError(
                f"new rows of {alone[0].word} are known beside Ridge and Box; the model has"
                f" {term.word} too; {REMEDY}"
            )
        if not (prices_rows(term) or isinstance(term, Box) or is_fixed_column(term)):
            raise ModelError(
                "new rows are known of NuclearNorm, NuclearBall, GaussianRows, Ridge, Box and"
                f" OnesColumn; the model has {term.word} too, which ties rows to each other;"
                f" {REMEDY}"
            )
    refuse_scaled_rows(problem.model)
    for block in problem.model.blocks:
        if not block.likelihood.convex:
            raise ModelError(
                f"block {block.name!r}: new rows need a convex loss, which this"
                f" {type(block.likelihood).__name__} is not; {REMEDY}"
            )


def refuse_scaled_rows(model: Model) -> None:
    """A ``ModelError`` where scales of rows are those of a part of what a row costs."""
    norms = [term for term in model.terms if isinstance(term, NuclearNorm | NuclearBall)]
    if not any(term.count_share for term in norms):
        return
    word = next(term.word for term in norms if term.count_share)
    if any(is_quadratic(term) for term in model.terms):
        raise ModelError(
            f"new rows of a {word} with count_share are not known beside a Ridge, which has no"
            f" such scales; drop one of them, or {REMEDY}"
        )
    if not all(term.count_share for term in norms):
        raise ModelError(
            "new rows of a NuclearNorm and a NuclearBall are not known where one of them has no"
            f" count_share; give both the same, or {REMEDY}"
        )
    for block in model.blocks:
        if block.row_effects and block.effects_weight:
            raise ModelError(
                f"block {block.name!r}: new rows of a {word} with count_share are not known"
                f" beside row_effects with an effects_weight, which has no such scales; {REMEDY}"
            )


def prices_rows(term: Term) -> bool:
    """Whether a term costs a row of U a known square."""
    if term.block is not None:
        return False
    return is_quadratic(term) or isinstance(term, NuclearNorm | NuclearBall | RowQuadratic)


def is_fixed_column(term: Term) -> bool:
    """Whether a term is a column of one value."""
    return isinstance(term, Constraint) and term.fixed is not None


def priced_loadings(
    problem: Problem, latent: LowRank, effects: Mapping[str, Array], dual: Dual | None
) -> Array:
    """V D^(-1/2): loadings at which each direction costs ``t^2 / 2``.

    Under a ridge alone rows have nothing in common, and any row is one.
    """
    spectral = [term for term in problem.terms if isinstance(term, Spectral)]
    ridge = sum(term.quadratic_weight for term in spectral)
    norms = [term for term in spectral if isinstance(term, NuclearNorm)]
    balls = [term for term in spectral if isinstance(term, NuclearBall)]
    if not (norms or balls):
        return np.eye(problem.n_columns) / np.sqrt(ridge)
    scales = problem.scales_of((norms + balls)[0])
    latent = latent if scales is None else scales.of(latent)
    _, s, loadings = orthogonal_factors(latent.left, latent.right)
    weight = sum(term.weight for term in norms)
    if balls and s.size:
        weight += ball_weight(problem, latent, effects, dual, balls[0], weight + ridge * s)
    found: Array = loadings / np.sqrt(weight + ridge * s)
    return found if scales is None else found / scales.columns[:, None]


def ball_weight(
    problem: Problem,
    latent: LowRank,
    effects: Mapping[str, Array],
    dual: Dual | None,
    ball: NuclearBall,
    others: Array,
) -> float:
    """The weight of a nuclear norm that would do what the ball does: its multiplier.

    ``-<U, S V> / ||U||^2``, less what other terms take off (``others``, for each singular value).
    At the optimum it is what the spectral norm of the gradient S exceeds them by. 0 where a ball
    does not bind beside them.
    """
    left, s, right = orthogonal_factors(latent.left, latent.right)
    total = float(np.sum(s))
    found = 0.0
    if total >= (1.0 - LOOSE) * ball.radius:
        pulled = gradient_of_rows(problem, latent, effects, dual, right)
        found = -float(np.vdot(left, pulled + left * others)) / total
    if found <= 0.0 and not np.any(others):
        raise ModelError(
            f"NuclearBall({ball.radius:g}) does not bind: the nuclear norm of Z is {total:.6g},"
            " and so nothing holds new rows back. Take a smaller radius, a NuclearNorm or a Ridge,"
            f" or {REMEDY}"
        )
    return max(found, 0.0)


def gradient_of_rows(
    problem: Problem,
    latent: LowRank,
    effects: Mapping[str, Array],
    dual: Dual | None,
    right: Array,
) -> Array:
    """S V for the gradient S of all that is a sum over rows: losses, and terms but norms of Z."""
    program = CompiledProblem(problem).program
    warm = tuple(effects.get(name) for name in program.names)
    if dual is None:
        at = program.evaluate(latent, warm)
    else:
        at = program.evaluate_at(latent, dual.given)
    point = dual_point(program, at, dual)
    pulled = point.matrix @ right
    for term, matrix in zip(program.terms, point.terms, strict=True):
        if isinstance(term.term, Spectral):
            pulled -= term.pull(matrix) @ right[term.columns]
    found: Array = np.asarray(pulled)
    return found


def solutions(ends: Array, values: Array) -> tuple[Array, Array]:
    """The shortest u with ``ends u = values``, and an orthonormal basis of what leaves them so."""
    start = np.linalg.pinv(ends) @ values if ends.size else np.zeros(ends.shape[1])
    if not ends.size:
        return start, np.eye(ends.shape[1])
    basis: Any = np.linalg.qr(ends.T, mode="complete")[0]
    return start, basis[:, ends.shape[0] :]


def idle_effects(
    problem: Problem, effects: Mapping[str, Array], infinite: Mapping[str, IntArray] | None
) -> dict[str, float]:
    """What rows without an entry have as row effect, counted from 0.

    The mean over the rows with one, of finite effects, as in fits; 0 under a ridge.
    """
    found = {}
    for block in problem.model.blocks:
        name = block.name
        if not block.row_effects:
            continue
        found[name] = 0.0
        if problem.ridge(name):
            continue
        layout, finite = problem.layout(name), np.ones(effects[name].size)
        finite[infinite_effects(problem, block) if infinite is None else infinite[name]] = 0.0
        own = layout.row_effects(effects[name] + problem.origins.get(name, 0.0))
        known = problem.tables[name].rows_with_entries & (layout.row_effects(finite) > 0.0)
        if known.any():
            found[name] = float(np.mean(own[known]))
    return found
