"""The verb ``weight_max``: the smallest weight of a term at which the answer is trivial."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import scipy

from mcframe.backends.feasible import made_feasible
from mcframe.backends.splitting import loss_stiffness, smooth_curvature
from mcframe.compile import BlockTerm, CompiledProblem, Program
from mcframe.compile.loss import BlockEffects
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import BackendError, ModelError, NoInfluence
from mcframe.contracts.limits import BISECTIONS
from mcframe.contracts.rounding import RESULT_ROUNDING
from mcframe.contracts.term import (
    Composed,
    Constraint,
    Factored,
    Norm,
    Prox,
    Regularizer,
    RowQuadratic,
    SmoothTerm,
    Spectral,
    Term,
)
from mcframe.contracts.validators import suggests_options
from mcframe.model import Model, Problem
from mcframe.model.binding import check_model
from mcframe.numerics.norms import norm_upper_bound
from mcframe.numerics.operators import LowRank
from mcframe.numerics.quasi_newton import descent

# Under a smooth term no weight makes Z 0: its path begins at the weight at which its curvature is
# this multiple of the curvature of all losses together.
LARGEST_CURVATURE_RATIO = 100.0
# The width over which kinks of nonsmooth losses are smoothed, and the step of a prox, relative to
# the size of predictors: subgradients are those of points at this distance from Z.
SMOOTHING_WIDTH = 1e-6
# The same width in the fit of intercepts, which takes many steps if it is small.
INTERCEPTS_SMOOTHING_WIDTH = 1e-2
# The number of quasi-Newton steps between two checks of the gradient, the largest number of
# checks, and the norm of the gradient at the end, relative to that at c = 0.
STEPS_PER_CHECK, MOST_CHECKS, FINAL_GRADIENT = 10, 30, 1e-8
# The relative accuracy of the weight; so small a weight, relative to the gradients, counts as 0.
WEIGHT_ACCURACY = 1e-6


@suggests_options
def weight_max(
    model: Model, data: Mapping[str, Any], term: type[Term] | Term | None = None
) -> float:
    """Compute the smallest weight of a term at which the answer is the trivial one.

    ``path`` and ``cross_validate`` begin there without ``weights``. For a term ``w ||Z||`` the
    trivial answer is Z = 0. It is optimal for ``w >= ||S||*``, with S the gradient of all other
    terms at Z = 0 and the best effects there, and ``||.||*`` the dual norm: the largest singular
    value for a ``NuclearNorm``.

    - Where all other terms are smooth or a ``Box`` around 0, this norm is computed: exactly for a
      ``NuclearNorm``, for a ``MaxNorm`` of more than 400 rows and columns as a close upper bound.
    - With ``OnesColumn`` all rows of the trivial answer are equal: it has intercepts alone. Its
      weight is exact for a ``NuclearNorm`` with smooth losses, an estimate otherwise.
    - With a ``Quantile``, a ``Hinge``, another norm or any other nonsmooth term, S is one small
      subgradient at Z = 0: an upper estimate.
    - Where Z = 0 is not feasible (``Equality``, an exact ``Calibration``, a ``Box`` without 0), S
      is that of a feasible point close to 0, less the multipliers of these sets: an estimate of
      the weight above which the rank of Z is at most that of this point.

    A smooth term (``Ridge``, a ``Calibration`` with a weight) reaches its limit at no weight.
    There the answer is the weight at which its curvature is 100 times that of all losses: under a
    ``Ridge`` alone entries of Z are then about a hundredth of what they are without it.

    Parameters
    ----------
    model : Model
        The weight that its term has is not used.
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
        If the data do not fit the model.
    ModelError
        If the term is not one of the model's with a weight; where its weight has no
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
    """Return ``weight_max`` of the term at a position among a problem's terms."""
    problem = compiled.problem
    term, name = problem.terms[place], problem.model.terms[place].word
    # Terms without a prox or a gradient, other factored norms and balls, are left out: at Z = 0
    # they have the gradient 0.
    kinds = SmoothTerm | Prox | Composed
    kept = [
        other
        for other in problem.terms
        if other is not term and (isinstance(other, kinds) or adds_columns(other))
    ]
    try:
        program = compiled.with_terms((term, *kept)).program
    except BackendError as error:
        raise ModelError(
            f"the largest useful weight is not known: {error}; {remedy(name)}"
        ) from None
    with np.errstate(over="ignore", invalid="ignore"):
        finite = smooth(program).evaluate(LowRank.zeros(program.shape)).finite
    if not finite:
        raise ModelError(
            "a loss overflows at Z = 0, so that its gradient says nothing of a weight; rescale the"
            f" columns of the data, check the offsets, or {remedy(name)}"
        )
    if isinstance(term, Norm):
        weight = norm_weight(program, problem, term)
    elif curvature_of(term) > 0.0:
        others = tuple(attached for attached in program.terms if attached.term is not term)
        without = attrs.evolve(program, terms=others)
        of_losses = smooth_curvature(without, LowRank.zeros(program.shape))
        weight = LARGEST_CURVATURE_RATIO * of_losses / curvature_of(term)
    else:
        raise ModelError(
            f"no weight of {name} is known to leave a trivial answer, so that a path has no"
            f" place to begin; {remedy(name)}"
        )
    if weight == 0.0:
        raise NoInfluence(
            f"the weight of {name} has no influence: at Z = 0, or at the feasible point nearest to"
            " it, the gradient of the rest of the objective is 0, so the answer is the same at"
            f" every weight; {remedy(name)}"
        )
    return weight


def remedy(name: str) -> str:
    """Return the remedy in messages where no weight is known."""
    return f"give weights=[...], descending, for {name}"


def curvature_of(term: Term) -> float:
    """Return the curvature of a smooth term at the weight 1; 0 for others.

    It is 0 for a quadratic of each row, too: its curvature is least where its covariance is
    largest, and a path from there to useful weights would be many times as long.
    """
    at_one = term.with_weight(1.0) if isinstance(term, Regularizer) else None
    if at_one is None or isinstance(at_one, RowQuadratic):
        return 0.0
    if isinstance(at_one, SmoothTerm):
        return float(at_one.curvature)
    return at_one.quadratic_weight if isinstance(at_one, Spectral) else 0.0


def norm_weight(program: Program, problem: Problem, term: Norm) -> float:
    """Return the dual norm of the gradient at the trivial answer, less multipliers of others."""
    exact = any(block_loss.likelihood.indicator for block_loss in program.loss.block_losses)
    ones = any(adds_columns(t.term) for t in program.terms)
    nonsmooth = any(t.fixed is None for t in program.terms if not t.smooth)
    # Other norms of all of Z that have no prox: their subgradients at 0 are a dual ball.
    norms: list[Norm] = [
        candidate
        for candidate in problem.terms
        if candidate is not term
        and isinstance(candidate, Norm)
        and not isinstance(candidate, Prox)
    ]
    begin = LowRank.zeros(program.shape)
    if not (ones or nonsmooth or exact or norms):
        return float(term.dual_norm(smooth(program).evaluate(begin).gradient))
    if ones:
        intercepts = Intercepts(smooth(program, INTERCEPTS_SMOOTHING_WIDTH))
        weight = intercepts.largest_weight()
        if (
            isinstance(term, Spectral)
            and term.linear_weight is not None
            and not (nonsmooth or exact)
        ):
            return weight
        begin = intercepts.latent(intercepts.best(weight))
    rest, whole = descent_directions(program, begin)
    for other in norms:
        rest = rest - other.nearest_dual(rest)
    # Squares of what is weighed by 1e200 would be infinite.
    if np.max(np.abs(rest), initial=0.0) <= RESULT_ROUNDING * np.max(np.abs(whole), initial=0.0):
        rest = whole  # where the multipliers are all of it, the weight has to exceed a ridge
    return float(term.dual_norm(rest))


def adds_columns(term: Term) -> bool:
    """Return True if a term is about columns that it adds to Z, as one of ones."""
    return isinstance(term, Constraint) and term.extra_columns > 0


def smooth(
    program: Program, width: float = SMOOTHING_WIDTH, with_sets_of_predictors: bool = False
) -> Program:
    """Return losses and smooth terms alone, with the kinks of losses smoothed over a width.

    Sets of predictors are left out, too, or are stiff penalties, by which they hold effects.
    """
    kept_sets = program.fixed_blocks if with_sets_of_predictors else frozenset()
    terms = tuple(t for t in program.terms if t.smooth or t.block_index in kept_sets)
    kept = attrs.evolve(program, terms=terms)
    nonsmooth = [not block_loss.likelihood.smooth for block_loss in program.loss.block_losses]
    multipliers: list[Array | None] = [
        np.zeros(block_loss.n_numbers) if is_nonsmooth else None
        for block_loss, is_nonsmooth in zip(program.loss.block_losses, nonsmooth, strict=True)
    ]
    stiffness = [
        loss_stiffness(block_loss, program) / width if is_nonsmooth else 1.0
        for block_loss, is_nonsmooth in zip(program.loss.block_losses, nonsmooth, strict=True)
    ]
    begin = LowRank.zeros(program.shape)
    for attached in terms:
        multiplier = None if attached.smooth else np.zeros((program.shape[0], attached.width))
        multipliers.append(multiplier)
        stiffness.append(1.0 if attached.smooth else smooth_curvature(program, begin) / width)
    return kept.with_smooth_parts(multipliers, stiffness)


def descent_directions(program: Program, begin: LowRank) -> tuple[Array, Array]:
    """Return a descent direction at the nearest feasible point, and minus the gradient there.

    The direction is minus the gradient without subgradients of nonsmooth terms. For a term f and
    a direction D it is the subgradient Y of f at Z with the smallest ``D - Y``: for a small step t
    ``(Z + t D - prox_tf(Z + t D)) / t``. At the entries of exact losses multipliers take all of D.
    """
    rounded = smooth(program)
    stiff = smooth(program, with_sets_of_predictors=True)
    latent, effects = made_feasible(program, begin, stiff.evaluate(begin).effects)
    dense = latent.dense()
    # Effects that a set holds stay where it does.
    evaluation = (
        rounded.evaluate_at(dense, effects) if program.fixed_blocks else rounded.evaluate(dense)
    )
    exact = [
        block_loss.part
        for block_loss in program.loss.block_losses
        if block_loss.likelihood.indicator
    ]
    for part in exact:
        evaluation.entry_gradients[part] = 0.0
    whole = -evaluation.gradient.dense() - program.penalty.ridge * dense
    direction = whole.copy()
    for part in exact:
        direction.ravel()[program.entries.flat[part]] = 0.0
    if any(adds_columns(attached.term) for attached in program.terms):
        # Orthogonal to equal rows, and to the right factor of Z by the multiplier of the column.
        ones = Intercepts(program).ones
        share = ones / np.dot(ones, ones)
        direction -= np.outer(ones, share @ direction)
        direction[:, -1] = -direction[:, :-1] @ (share @ dense[:, :-1])
    for attached in program.terms:
        if not attached.smooth and attached.fixed is None:
            direction = without_subgradient(attached, dense, effects, direction, program)
    return direction, whole


def without_subgradient(
    term: BlockTerm, dense: Array, effects: BlockEffects, direction: Array, program: Program
) -> Array:
    """Return a direction at Z less the closest subgradient of a nonsmooth term."""
    largest = float(np.max(np.abs(direction), initial=0.0))
    if largest == 0.0:
        return direction
    size = float(np.max(np.abs(dense), initial=0.0))
    if size == 0.0:  # then that of predictors that fit the data roughly
        size = float(np.sqrt(np.mean(np.square(program.loss.start())))) or 1.0
    step = SMOOTHING_WIDTH * size / largest
    image = term.forward((dense + step * direction)[:, term.columns], effects)
    nearest, _ = term.prox(image, step)
    rest = direction.copy()
    rest[:, term.columns] -= term.gradient_of((image - nearest) / step)
    return rest


def chosen_place(model: Model, term: object) -> int:
    """Return the place, among the model's terms, of the one whose weight changes."""
    check_model(model)
    weighted = [
        k
        for k, candidate in enumerate(model.terms)
        if isinstance(candidate, Regularizer) and candidate.with_weight(1.0) is not None
    ]
    if term is None:
        norms = [k for k in weighted if isinstance(model.terms[k], Norm)]
        chosen = norms or weighted
    elif isinstance(term, type):
        chosen = [k for k in weighted if isinstance(model.terms[k], term)]
    else:
        chosen = [k for k in weighted if isinstance(term, Term) and model.terms[k] == term]
    if len(chosen) == 1:
        return chosen[0]
    if not weighted:
        words = ", ".join(candidate.word for candidate in model.terms)
        has_ball = any(isinstance(t, Constraint) and isinstance(t, Factored) for t in model.terms)
        of_balls = ". The optimum of a ball of any radius is that of a norm of some weight"
        raise ModelError(
            f"the model has no term with a weight (its terms are {words}); a path and weight_max"
            " are about the weight of one, such as mc.NuclearNorm or mc.MaxNorm"
            f"{of_balls * has_ball}"
        )
    weighted_terms = ", ".join(str(model.terms[k]) for k in weighted)
    asked = "no term" if term is None else f"term={getattr(term, '__name__', repr(term))}"
    raise ModelError(
        f"{asked} was given, which is {'several' if chosen else 'none'} of the terms with a"
        f" weight; the model has {weighted_terms}: name the class of one, or give that term itself"
    )


@attrs.frozen(eq=False)
class Intercepts:
    """The trivial answer ``W = r (c', 1)`` under a nuclear norm with a column of ones.

    The intercepts c (n_columns - 1) minimise
    ``F(r c') + weight sqrt(n (1 + |c|^2)) + ridge n |c|^2 / 2``, n = r'r, as the nuclear norm of W
    is that root. F is smooth. r is 1 where W is Z: then n counts the items.
    """

    program: Program

    @cached_property
    def ones(self) -> Array:
        """The column r of W that is the column of ones of Z."""
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
        """The norm of the gradients of entries at c = 0."""
        start = self.latent(np.zeros(self.program.shape[1] - 1))
        return float(np.linalg.norm(self.program.evaluate(start).entry_gradients))

    def best(self, weight: float, begin: Array | None = None) -> Array:
        """Return c, beginning at that of a weight close by, or after one gradient step from 0."""
        with np.errstate(over="ignore", invalid="ignore"):  # a loss may overflow on the way
            c = self.first(weight) if begin is None else begin
            for _ in range(MOST_CHECKS):
                if (
                    np.linalg.norm(self.value_and_gradient(c, weight)[1])
                    <= FINAL_GRADIENT * self.size
                ):
                    break
                c = descent(lambda at: self.value_and_gradient(at, weight), c, STEPS_PER_CHECK)
        return c

    def first(self, weight: float) -> Array:
        """Return one gradient step from c = 0, shorter where a loss overflows."""
        c: Array = np.zeros(self.program.shape[1] - 1)
        value, gradient = self.value_and_gradient(c, weight)
        if np.linalg.norm(gradient) > FINAL_GRADIENT * self.size:
            at_zero = self.program.evaluate(LowRank.zeros(self.program.shape))
            c = -gradient / (self.n_rows * self.program.curvature_at(at_zero))
            while not self.value_and_gradient(c, weight)[0] <= value:
                c = 0.5 * c
        return c

    def dual_norm(self, c: Array) -> float:
        """``||(I - rr'/n) G (I, -c)||_2``, G the gradient of F in all columns but the last.

        Z is optimal where that is at most the weight: with the multiplier of the fixed column the
        dual matrix is ``weight (u v' + W)``, u v' the singular vectors of Z, and W, what is
        orthogonal to u and takes v to 0, has that norm over the weight.
        """
        gradient = self.program.evaluate(self.latent(c)).gradient.dense()[:, :-1]
        rest = gradient - np.outer(self.ones, self.ones @ gradient / self.n_rows)
        return norm_upper_bound(np.column_stack([rest, -rest @ c]))

    def largest_weight(self) -> float:
        """Return the smallest weight at which the answer has the intercepts alone."""
        last: Array | None = None

        def excess(weight: float) -> float:
            nonlocal last
            last = self.best(weight, last)
            return self.dual_norm(last) - weight

        high = self.size
        if high == 0.0:
            return 0.0
        for _ in range(BISECTIONS):
            if excess(high) < 0.0:
                break
            high *= 2.0
        else:  # numbers so large that no weight exceeds the rounding of the norm
            return float(high)
        # The norm falls with the weight, as c does, and slowly: the root is close to it.
        low = self.dual_norm(self.best(high, last))
        if excess(low) <= 0.0:
            low, high = WEIGHT_ACCURACY * high, low
            if excess(low) <= 0.0:
                return 0.0
        try:
            root = float(scipy.optimize.brentq(excess, low, high, rtol=WEIGHT_ACCURACY))
        except ValueError:  # rounding decides on the sign at an end, which is the root then
            root = max(low, high)
        return root * (1.0 + WEIGHT_ACCURACY)
