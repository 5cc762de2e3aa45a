"""The verb ``weight_max``: the weight of a term from which on the answer is trivial."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.backends.feasible import made_feasible
from mcframe.backends.splitting import piece_stiffness, smooth_curvature
from mcframe.compile import Attached, CompiledProblem, Program
from mcframe.constraints import OnesColumn
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import BackendError, ModelError, NoInfluence
from mcframe.contracts.term import (
    Composed,
    Norm,
    Prox,
    RowQuadratic,
    SmoothTerm,
    Spectral,
    Term,
)
from mcframe.model import Model, Problem
from mcframe.numerics.operators import LowRank, Operator
from mcframe.regularizers import NuclearNorm
from mcframe.selection.chosen_term import chosen_place
from mcframe.selection.intercepts import Intercepts

__all__ = ["largest_weight", "weight_max"]

# A smooth term never leaves Z = 0: its path begins where it bends so many times as much as all
# losses together.
RULING = 100.0
# How wide the kink of a nonsmooth loss becomes, and how long the step of a prox, beside the size
# of predictors: subgradients are those at Z up to that.
CLOSE = 1e-6
# That width where intercepts have to be found, in many steps if it is small.
ROUGHLY = 1e-2
# What is left of a pull and is this small beside it is rounding.
ROUNDING = 1e-10


def weight_max(
    model: Model, data: Mapping[str, Any], term: type[Term] | Term | None = None
) -> float:
    """Compute the smallest weight of a term at which the answer is the trivial one.

    ``path`` and ``cross_validate`` begin there without ``weights``. For a term ``w ||Z||`` the
    trivial answer is Z = 0, and it is optimal from ``w = ||S||*`` on, S the gradient of everything
    else at Z = 0, the free effects solved for, and ``||.||*`` the dual norm: the largest
    singular value for a ``NuclearNorm``.

    - Where all else is smooth, and beside a ``Box`` around 0, that is what is computed: exactly
      for a ``NuclearNorm``, for a ``MaxNorm`` of more than 400 rows and columns a bound close
      above.
    - With ``OnesColumn`` the trivial answer has equal rows, intercepts alone. Its weight is exact
      for a ``NuclearNorm`` beside smooth losses, an estimate otherwise.
    - Beside a ``Quantile``, a ``Hinge``, another norm or whatever else has kinks, S is one
      subgradient at Z = 0, chosen small: an upper estimate.
    - Where Z = 0 is not allowed (``Equality``, an exact ``Calibration``, a ``Box`` without 0), S
      is taken at a point close by that is, less what the multipliers of these sets absorb: an
      estimate of where Z has no more rank than that point.

    A smooth term (``Ridge``, a ``Calibration`` with a weight) reaches its limit at no weight.
    There the answer is the weight at which it bends 100 times as much as all losses: under a
    ``Ridge`` alone entries of Z are then about a hundredth of what they are without it.

    Parameters
    ----------
    model : Model
        The weight that its term has there is not used.
    data : as in ``fit``
    term : a class such as mc.NuclearNorm, or one of the model's terms, optional
        By default the model's NuclearNorm or MaxNorm, else its only term with a weight.

    Returns
    -------
    float
        Above 0.

    Raises
    ------
    DataError
        Where the data do not fit the model.
    ModelError
        Where the term is not one of the model's with a weight; where its weight has no
        influence, as with ``Equality`` blocks alone or where S = 0; where no weight leads to a
        trivial answer.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    >>> round(mc.weight_max(model, {"x": np.diag([4.0, 3.0])}), 6)
    4.0
    """
    problem = Problem.bind(model, data)
    return largest_weight(CompiledProblem(problem), chosen_place(model, term))


def largest_weight(compiled: CompiledProblem, place: int) -> float:
    """``weight_max`` of the term that stands at a place among a problem's terms."""
    problem = compiled.problem
    term, name = problem.terms[place], problem.model.terms[place].word
    program = rest_of(compiled, term, name)
    refuse_overflow(program, name)
    if isinstance(term, Norm):
        found = norm_weight(program, problem, term)
    elif bend_of(term) > 0.0:
        found = RULING * curvature_beside(program, term) / bend_of(term)
    else:
        raise ModelError(
            f"no weight of {name} is known to leave a trivial answer, so that a path has no"
            f" place to begin; {remedy(name)}"
        )
    if found == 0.0:
        raise NoInfluence(
            f"the weight of {name} has no influence: nothing pulls Z away from 0, or from the"
            " point next to it that meets all constraints, so that the answer is the same at"
            f" every weight; {remedy(name)}"
        )
    return found


def remedy(name: str) -> str:
    """What to do where no weight is known."""
    return f"give weights=[...], descending, for {name}"


def refuse_overflow(program: Program, name: str) -> None:
    """Raise a ``ModelError`` where a gradient at Z = 0 is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        at = smooth(program).evaluate(LowRank.zeros(program.shape))
    if not at.finite:
        raise ModelError(
            "a loss overflows at Z = 0, so that its gradient says nothing of a weight; rescale the"
            f" columns of the data, look at the offsets, or {remedy(name)}"
        )


def rest_of(compiled: CompiledProblem, term: Term, name: str) -> Program:
    """The program of a problem whose main term is this one, if it covers all of Z.

    Terms without a prox or a gradient, other factored norms and balls, are left out: at Z = 0 they
    have the gradient 0.
    """
    others = [each for each in compiled.problem.terms if each is not term]
    kept = [t for t in others if isinstance(t, OnesColumn | SmoothTerm | Prox | Composed)]
    try:
        return compiled.with_terms((term, *kept)).program
    except BackendError as error:
        raise ModelError(
            f"the largest useful weight is not known: {error}; {remedy(name)}"
        ) from None


def bend_of(term: Term) -> float:
    """The curvature of a smooth term at the weight 1; 0 for others.

    And 0 for a square of each row: it bends least where its covariance is largest, so that weights
    from there on down to where the data rule are many times as many as a path has.
    """
    at_one: Any = attrs.evolve(term, weight=1.0)  # type: ignore[misc]
    if isinstance(at_one, RowQuadratic):
        return 0.0
    if isinstance(at_one, SmoothTerm):
        return float(at_one.curvature)
    return at_one.quadratic_weight if isinstance(at_one, Spectral) else 0.0


def curvature_beside(program: Program, term: Term) -> float:
    """The curvature at Z = 0 of losses and smooth terms but for one."""
    others = tuple(each for each in program.terms if each.term is not term)
    return smooth_curvature(attrs.evolve(program, terms=others), LowRank.zeros(program.shape))


def norm_weight(program: Program, problem: Problem, term: Any) -> float:
    """The dual norm of the gradient at the trivial answer, less what other terms take up of it."""
    exact = any(piece.likelihood.indicator for piece in program.loss.pieces)
    ones = any(isinstance(each.term, OnesColumn) for each in program.terms)
    nonsmooth = any(each.fixed is None for each in program.terms if not each.smooth)
    if not (ones or nonsmooth or exact or others_of(problem, term)):
        return float(term.dual_norm(gradient_at_zero(smooth(program))))
    begin = LowRank.zeros(program.shape)
    if ones:
        intercepts = Intercepts(smooth(program, ROUGHLY))
        weight = intercepts.largest_weight()
        if isinstance(term, NuclearNorm) and not (nonsmooth or exact):
            return weight
        begin = intercepts.latent(intercepts.best(weight))
    pull, unabsorbed = pulls(program, begin)
    for other in others_of(problem, term):
        pull = pull - other.nearest_dual(pull)
    if np.linalg.norm(pull) <= ROUNDING * np.linalg.norm(unabsorbed):
        pull = unabsorbed  # where the sets absorb everything the weight has to outdo a ridge
    return float(term.dual_norm(pull))


def others_of(problem: Problem, term: Term) -> list[Any]:
    """Other norms of all of Z that have no prox: their subgradients at 0 are a dual ball."""
    others = [each for each in problem.terms if each is not term]
    return [each for each in others if isinstance(each, Norm) and not isinstance(each, Prox)]


def smooth(program: Program, width: float = CLOSE) -> Program:
    """Losses and smooth terms alone, the kinks of nonsmooth losses rounded off over a width."""
    terms = tuple(each for each in program.terms if each.smooth)
    kept = attrs.evolve(program, terms=terms)
    nonsmooth = [not piece.likelihood.smooth for piece in program.loss.pieces]
    multipliers = [
        np.zeros(piece.n_numbers) if is_nonsmooth else None
        for piece, is_nonsmooth in zip(program.loss.pieces, nonsmooth, strict=True)
    ]
    stiffness = [
        piece_stiffness(piece, program) / width if is_nonsmooth else 1.0
        for piece, is_nonsmooth in zip(program.loss.pieces, nonsmooth, strict=True)
    ]
    return kept.with_smooth_parts(
        [*multipliers, *[None] * len(terms)], [*stiffness, *[1.0] * len(terms)]
    )


def gradient_at_zero(program: Program) -> Operator:
    """The gradient of a smooth program but for its main term at Z = 0, effects solved out."""
    return program.evaluate(LowRank.zeros(program.shape)).gradient


def pulls(program: Program, begin: LowRank) -> tuple[Array, Array]:
    """Minus the gradient at the nearest feasible point, less what nonsmooth parts absorb; and all.

    A nonsmooth term f takes up the subgradient Y of f at Z that leaves least of a pull D: for a
    small step t it is ``(Z + t D - prox_tf(Z + t D)) / t``. The multipliers of exact losses take
    up all that is at their entries.
    """
    rounded = smooth(program)
    dense = made_feasible(program, begin, rounded.evaluate(begin).effects)[0].dense()
    evaluation = rounded.evaluate(dense)
    exact = [piece.part for piece in program.loss.pieces if piece.likelihood.indicator]
    for part in exact:
        evaluation.entry_gradients[part] = 0.0
    whole = -evaluation.gradient.dense() - program.penalty.ridge * dense
    pull = whole.copy()
    for part in exact:
        pull.ravel()[program.entries.flat[part]] = 0.0
    if any(isinstance(each.term, OnesColumn) for each in program.terms):
        pull = beside_intercepts(pull, dense, Intercepts(program).ones)
    for each in program.terms:
        if not each.smooth and each.fixed is None:
            pull = less_absorbed(each, dense, pull, program)
    return pull, whole


def beside_intercepts(pull: Array, dense: Array, ones: Array) -> Array:
    """A pull off equal rows; the fixed column's multiplier lets it take Z's right factor to 0.

    ``ones`` is the column of W that stands for one of ones in Z.
    """
    share = ones / np.dot(ones, ones)
    beside = pull - np.outer(ones, share @ pull)
    beside[:, -1] = -beside[:, :-1] @ (share @ dense[:, :-1])
    return beside


def less_absorbed(term: Attached, dense: Array, pull: Array, program: Program) -> Array:
    """A pull at Z without the subgradient of a nonsmooth term that leaves least of it."""
    largest = float(np.max(np.abs(pull), initial=0.0))
    if largest == 0.0:
        return pull
    size = float(np.max(np.abs(dense), initial=0.0)) or typical_size(program)
    step = CLOSE * size / largest
    image = term.forward((dense + step * pull)[:, term.columns])
    nearest, _ = term.prox(image, step)
    rest = pull.copy()
    rest[:, term.columns] -= term.pull((image - nearest) / step)
    return rest


def typical_size(program: Program) -> float:
    """The size of predictors that fit the data roughly."""
    return float(np.sqrt(np.mean(np.square(program.loss.start())))) or 1.0
