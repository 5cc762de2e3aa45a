"""The verb ``weight_max``: the weight of a term from which on the answer is trivial."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import scipy

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
    Regularizer,
    RowQuadratic,
    SmoothTerm,
    Spectral,
    Term,
)
from mcframe.model import Model, Problem
from mcframe.numerics.norms import norm_upper_bound
from mcframe.numerics.operators import LowRank
from mcframe.numerics.quasi_newton import descent
from mcframe.regularizers import NuclearNorm

# Under a smooth term Z is 0 at no weight: its path begins where its curvature is so many times
# that of all losses together.
RULING = 100.0
# How wide the kink of a nonsmooth loss becomes, and how long the step of a prox, beside the size
# of predictors: subgradients are those at Z up to that.
CLOSE = 1e-6
# That width where intercepts have to be found, in many steps if it is small.
ROUGHLY = 1e-2
# What is left of a direction and is this small beside it is rounding.
ROUNDING = 1e-10
# Quasi-Newton steps between two looks at the gradient, how often, and how small it has to become
# beside the gradients at c = 0.
STEPS, LOOKS, STILL = 10, 30, 1e-8
# The accuracy of the weight, and what counts as none beside the gradients.
ACCURACY, NEAR_ZERO = 1e-6, 1e-6
# How often the bracket of the weight is widened.
DOUBLINGS = 60


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
    There the answer is the weight at which its curvature is 100 times that of all losses: under a
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
    with np.errstate(over="ignore", invalid="ignore"):
        finite = smooth(program).evaluate(LowRank.zeros(program.shape)).finite
    if not finite:
        raise ModelError(
            "a loss overflows at Z = 0, so that its gradient says nothing of a weight; rescale the"
            f" columns of the data, look at the offsets, or {remedy(name)}"
        )
    if isinstance(term, Norm):
        found = norm_weight(program, problem, term)
    elif curvature_of(term) > 0.0:
        others = tuple(each for each in program.terms if each.term is not term)
        without = attrs.evolve(program, terms=others)
        beside = smooth_curvature(without, LowRank.zeros(program.shape))
        found = RULING * beside / curvature_of(term)
    else:
        raise ModelError(
            f"no weight of {name} is known to leave a trivial answer, so that a path has no"
            f" place to begin; {remedy(name)}"
        )
    if found == 0.0:
        raise NoInfluence(
            f"the weight of {name} has no influence: the gradient of all else is 0 at Z = 0, or at"
            " the point next to it that meets all constraints, so that the answer is the same at"
            f" every weight; {remedy(name)}"
        )
    return found


def remedy(name: str) -> str:
    """What to do where no weight is known."""
    return f"give weights=[...], descending, for {name}"


def rest_of(compiled: CompiledProblem, term: Term, name: str) -> Program:
    """The program of a problem whose regularizer of all of Z is this term, if it is one.

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


def curvature_of(term: Term) -> float:
    """The curvature of a smooth term at the weight 1; 0 for others.

    And 0 for a square of each row: its curvature is least where its covariance is largest, so
    that weights from there on down to where the data rule are many times as many as a path has.
    """
    at_one: Any = attrs.evolve(term, weight=1.0)  # type: ignore[misc]
    if isinstance(at_one, RowQuadratic):
        return 0.0
    if isinstance(at_one, SmoothTerm):
        return float(at_one.curvature)
    return at_one.quadratic_weight if isinstance(at_one, Spectral) else 0.0


def norm_weight(program: Program, problem: Problem, term: Any) -> float:
    """The dual norm of the gradient at the trivial answer, less what other terms absorb of it."""
    exact = any(piece.likelihood.indicator for piece in program.loss.pieces)
    ones = any(isinstance(each.term, OnesColumn) for each in program.terms)
    nonsmooth = any(each.fixed is None for each in program.terms if not each.smooth)
    # Other norms of all of Z that have no prox: their subgradients at 0 are a dual ball.
    norms: list[Any] = [
        each
        for each in problem.terms
        if each is not term and isinstance(each, Norm) and not isinstance(each, Prox)
    ]
    begin = LowRank.zeros(program.shape)
    if not (ones or nonsmooth or exact or norms):
        return float(term.dual_norm(smooth(program).evaluate(begin).gradient))
    if ones:
        intercepts = Intercepts(smooth(program, ROUGHLY))
        weight = intercepts.largest_weight()
        if isinstance(term, NuclearNorm) and not (nonsmooth or exact):
            return weight
        begin = intercepts.latent(intercepts.best(weight))
    left, whole = descent_directions(program, begin)
    for other in norms:
        left = left - other.nearest_dual(left)
    if np.linalg.norm(left) <= ROUNDING * np.linalg.norm(whole):
        left = whole  # where the sets absorb everything the weight has to outdo a ridge
    return float(term.dual_norm(left))


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


def descent_directions(program: Program, begin: LowRank) -> tuple[Array, Array]:
    """Minus the gradient at the nearest feasible point, less what nonsmooth parts absorb; and all.

    A nonsmooth term f absorbs the subgradient Y of f at Z that leaves least of a direction D: for
    a small step t it is ``(Z + t D - prox_tf(Z + t D)) / t``. The multipliers of exact losses
    absorb all that is at their entries.
    """
    rounded = smooth(program)
    dense = made_feasible(program, begin, rounded.evaluate(begin).effects)[0].dense()
    evaluation = rounded.evaluate(dense)
    exact = [piece.part for piece in program.loss.pieces if piece.likelihood.indicator]
    for part in exact:
        evaluation.entry_gradients[part] = 0.0
    whole = -evaluation.gradient.dense() - program.penalty.ridge * dense
    left = whole.copy()
    for part in exact:
        left.ravel()[program.entries.flat[part]] = 0.0
    if any(isinstance(each.term, OnesColumn) for each in program.terms):
        # Off equal rows; the multiplier of the fixed column lets it take Z's right factor to 0.
        ones = Intercepts(program).ones
        share = ones / np.dot(ones, ones)
        left -= np.outer(ones, share @ left)
        left[:, -1] = -left[:, :-1] @ (share @ dense[:, :-1])
    for each in program.terms:
        if not each.smooth and each.fixed is None:
            left = less_absorbed(each, dense, left, program)
    return left, whole


def less_absorbed(term: Attached, dense: Array, left: Array, program: Program) -> Array:
    """A direction at Z without the subgradient of a nonsmooth term that leaves least of it."""
    largest = float(np.max(np.abs(left), initial=0.0))
    if largest == 0.0:
        return left
    size = float(np.max(np.abs(dense), initial=0.0))
    if size == 0.0:  # then that of predictors that fit the data roughly
        size = float(np.sqrt(np.mean(np.square(program.loss.start())))) or 1.0
    step = CLOSE * size / largest
    image = term.forward((dense + step * left)[:, term.columns])
    nearest, _ = term.prox(image, step)
    rest = left.copy()
    rest[:, term.columns] -= term.gradient_of((image - nearest) / step)
    return rest


def chosen_place(model: Model, term: object) -> int:
    """Return the place, among the model's terms, of the one whose weight changes."""
    if not isinstance(model, Model):
        raise ModelError(f"{type(model).__name__} was given where a Model is needed")
    weighted = [k for k, each in enumerate(model.terms) if has_weight(each)]
    if term is None:
        norms = [k for k in weighted if isinstance(model.terms[k], Norm)]
        found = norms or weighted
    elif isinstance(term, type):
        found = [k for k in weighted if isinstance(model.terms[k], term)]
    else:
        found = [k for k in weighted if isinstance(term, Term) and model.terms[k] == term]
    if len(found) == 1:
        return found[0]
    if not weighted:
        words = ", ".join(each.word for each in model.terms)
        raise ModelError(
            f"the model has no term with a weight (its terms are {words}); a path and weight_max"
            " are about the weight of one, such as mc.NuclearNorm or mc.MaxNorm"
        )
    known = ", ".join(str(model.terms[k]) for k in weighted)
    asked = "no term" if term is None else f"term={getattr(term, '__name__', repr(term))}"
    raise ModelError(
        f"{asked} was given, which is {'several' if found else 'none'} of the terms with a weight;"
        f" the model has {known}: name the class of one, or give that term itself"
    )


def has_weight(term: Term) -> bool:
    """Whether a term is declared with a weight."""
    kind: type = type(term)
    declared = attrs.fields_dict(kind) if attrs.has(kind) else {}
    return isinstance(term, Regularizer) and "weight" in declared


@attrs.frozen(eq=False)
class Intercepts:
    """``W = r (c', 1)``, what is left of W under a nuclear norm beside a column of ones.

    The intercepts c (n_columns - 1) minimise
    ``F(r c') + weight sqrt(n (1 + |c|^2)) + ridge n |c|^2 / 2``, n = r'r, as the nuclear norm of W
    is that root. F is smooth. r is 1 where W is Z: then n counts the items.
    """

    program: Program

    @cached_property
    def ones(self) -> Array:
        """r, the W of a column of ones."""
        scales = self.program.entries.scales
        return np.ones(self.program.shape[0]) if scales is None else 1.0 / scales.rows

    @property
    def n_rows(self) -> float:
        """The number r'r."""
        return float(np.dot(self.ones, self.ones))

    def latent(self, c: Array) -> LowRank:
        """W = r (c, 1)' in factors."""
        return LowRank(self.ones[:, None], np.append(c, 1.0)[:, None])

    def value_and_gradient(self, c: Array, weight: float) -> tuple[float, Array]:
        """The objective and its gradient in c."""
        at, n_rows = self.program.evaluate(self.latent(c)), self.n_rows
        ridge, squares = self.program.penalty.ridge, float(np.dot(c, c))
        root = float(np.sqrt(n_rows * (1.0 + squares)))
        value = at.value + weight * root + 0.5 * ridge * n_rows * squares
        sums = at.gradient.T @ self.ones
        return value, sums[:-1] + (weight / root + ridge) * n_rows * c

    @cached_property
    def size(self) -> float:
        """The size of the gradients of entries at c = 0."""
        start = self.latent(np.zeros(self.program.shape[1] - 1))
        return float(np.linalg.norm(self.program.evaluate(start).entry_gradients))

    def best(self, weight: float, begin: Array | None = None) -> Array:
        """c, from those of a weight close by, or from one step down the gradient at 0."""
        with np.errstate(over="ignore", invalid="ignore"):  # a loss may overflow on the way
            c = self.first(weight) if begin is None else begin
            for _ in range(LOOKS):
                if np.linalg.norm(self.value_and_gradient(c, weight)[1]) <= STILL * self.size:
                    break
                c = descent(lambda at: self.value_and_gradient(at, weight), c, STEPS)
        return c

    def first(self, weight: float) -> Array:
        """One step down the gradient at c = 0, shorter where a loss overflows there."""
        c: Array = np.zeros(self.program.shape[1] - 1)
        value, gradient = self.value_and_gradient(c, weight)
        if np.linalg.norm(gradient) > STILL * self.size:
            at_zero = self.program.evaluate(LowRank.zeros(self.program.shape))
            c = -gradient / (self.n_rows * self.program.curvature_at(at_zero))
            while not self.value_and_gradient(c, weight)[0] <= value:
                c = 0.5 * c
        return c

    def norm_beside(self, c: Array) -> float:
        """``||(I - rr'/n) G (I, -c)||_2``, G the gradient of F in all columns but the last.

        Z is optimal where that is at most the weight: with the multiplier of the fixed column the
        dual matrix is ``weight (u v' + W)``, u v' the singular vectors of Z, and W, what is
        orthogonal to u and takes v to 0, has that norm over the weight.
        """
        gradient = self.program.evaluate(self.latent(c)).gradient.dense()[:, :-1]
        beside = gradient - np.outer(self.ones, self.ones @ gradient / self.n_rows)
        return norm_upper_bound(np.column_stack([beside, -beside @ c]), 1e-10)

    def largest_weight(self) -> float:
        """The weight from which no more than the intercepts is left."""
        last: Array | None = None

        def excess(weight: float) -> float:
            nonlocal last
            last = self.best(weight, last)
            return self.norm_beside(last) - weight

        high = self.size
        if high == 0.0:
            return 0.0
        for _ in range(DOUBLINGS):
            if excess(high) < 0.0:
                break
            high *= 2.0
        # The norm falls with the weight, as c does, and slowly: the root is close to it.
        low = self.norm_beside(self.best(high, last))
        if excess(low) <= 0.0:
            low, high = NEAR_ZERO * high, low
            if excess(low) <= 0.0:
                return 0.0
        return float(scipy.optimize.brentq(excess, low, high, rtol=ACCURACY)) * (1.0 + ACCURACY)
