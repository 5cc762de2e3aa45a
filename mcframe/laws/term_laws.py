"""The laws of regularizers and constraints: one function each, over small random matrices."""

import copy
import itertools
from typing import Any

import attrs
import numpy as np

from mcframe.backends.statement import cp
from mcframe.contracts.arrays import Array, Shape, singular_values
from mcframe.contracts.term import (
    Composed,
    Constraint,
    Factored,
    Prior,
    PriorOfFactors,
    PriorOfRows,
    Prox,
    Regularizer,
    SmoothTerm,
    Spectral,
    Sums,
    Term,
)
from mcframe.contracts.validators import Options, RandomState
from mcframe.laws.checking import (
    STEPS,
    TERM_LAWS,
    at_most,
    bounds_from_above,
    close,
    data_of,
    demand,
    demand_unharmed,
    feasible_samples,
    law,
    law_of,
    least_value,
    product,
    stacked_samples,
)

# Steps of descent in factors, at most.
DESCENT_STEPS = 3000


def check_regularizer(
    term: Term, *, shape: Shape = (5, 4), scale: float = 1.0, random_state: RandomState = 0
) -> None:
    """Hold a regularizer or a constraint to every law of its contract.

    A term that needs data is bound to random ones first.

    Parameters
    ----------
    term : Regularizer or Constraint
        Of this package or your own.
    shape : tuple of int, default (5, 4)
        Of the random latent matrices; small, since each prox is checked against CVXPY. Of a
        term of one block, the shape of that block.
    scale : float, default 1
        The size of their entries.
    random_state : int, generator of numpy or None, default 0

    Raises
    ------
    LawViolation
        Names the law, and the numbers that break it.

    Examples
    --------
    >>> import mcframe as mc
    >>> mc.laws.check_regularizer(mc.NuclearNorm(0.5))
    """
    rng = np.random.default_rng(Options.random_state(random_state))
    bound = term.bound_to(shape, *data_of(shape, scale, rng))
    points: list[Array] = [scale * rng.standard_normal(shape) for _ in range(4)]
    points.append(scale * np.outer(rng.standard_normal(shape[0]), rng.standard_normal(shape[1])))
    points.append(np.zeros(shape))
    for name, holds in TERM_LAWS.items():
        with law(bound, name):
            holds(bound, points)


@law_of(TERM_LAWS, "convex")
def convex(term: Term, points: list[Array]) -> None:
    """The value halfway between two points is at most the mean of theirs."""
    values = [term.value(point) for point in points]
    for (x, at_x), (y, at_y) in itertools.combinations(zip(points, values, strict=True), 2):
        mean, what = 0.5 * (at_x + at_y), "the value halfway between two points above their mean"
        at_most(term.value(0.5 * (x + y)), mean, 1e-9, what)


@law_of(TERM_LAWS, "no steeper than its recession function")
def no_steeper_than_recession(term: Term, points: list[Array]) -> None:
    """f(Z + D) - f(Z) is at most the recession function at D, which grows with D like a norm."""
    limit = term.recession()
    if limit is None:
        return
    zero = np.zeros_like(points[0])
    close(limit.value(zero), 0.0, 0.0, "recession function at 0")
    for point, direction in itertools.permutations(points, 2):
        # Of a set directions of its cone, of which few are drawn.
        into = limit.prox(direction, 1.0)[0] if isinstance(limit, Prox) else direction
        begun = term.prox(point, 1.0)[0] if isinstance(term, Prox) else point
        along = into if isinstance(limit, Constraint) else direction
        close(
            limit.value(3.0 * along), 3.0 * limit.value(along), 1e-9, "at three times a direction"
        )
        ahead = term.value(begun + along) - term.value(begun)
        at_most(
            ahead, limit.value(along), 1e-9, "it rises more steeply than its recession function"
        )


@law_of(TERM_LAWS, "units are exchangeable")
def units_are_exchangeable(term: Term, points: list[Array]) -> None:
    """The term in other units is the term: g(W) = f(u W)."""
    for unit in (1e-3, 7.0):
        other = term.in_units(unit)
        if other is None:
            return
        for point in points:
            close(other.value(point), term.value(unit * point), 1e-9, f"value in units of {unit}")


@law_of(TERM_LAWS, "the expression is the definition")
def expression_is_definition(term: Term, points: list[Array]) -> None:
    """The CVXPY definition has the same value; a constraint holds where its value is 0.

    A definition with further variables is minimised over them.
    """
    for point in points:
        variable = cp.Variable(point.shape)
        variable.value = point
        objective, constraints = term.statement(cp, variable)
        program = cp.Problem(cp.Minimize(objective), constraints)
        if len(program.variables()) > 1:
            least, tolerance = least_value(*term.statement(cp, cp.Constant(point))), 1e-6
        elif isinstance(term, Constraint):
            least, tolerance = 0.0 if all(c.value() for c in constraints) else np.inf, 0.0
        else:
            least, tolerance = float(objective.value), 1e-9
        close(least, term.value(point), tolerance, "the definition's value")


@law_of(TERM_LAWS, "the strength counts")
def strength_counts(term: Term, points: list[Array]) -> None:
    """Twice the weight is twice the value; twice the radius is the same set, twice as large.

    And the term itself has the weight that it says.
    """
    itself: Any = term
    fields = [field.name for field in attrs.fields(type(itself))]
    if isinstance(term, Regularizer):
        single, double = term.with_weight(1.0), term.with_weight(2.0)
        if single is not None and double is not None:
            stronger_counts(single, double, points, power=2.0)
            if "weight" in fields and itself.weight is not None:
                stronger_counts(single, term, points, power=itself.weight)
    elif "radius" in fields:
        double = attrs.evolve(itself, radius=2 * itself.radius)
        stronger_counts(term, double, points, size=2.0)


def stronger_counts(
    single: Term, double: Term, points: list[Array], *, size: float = 1.0, power: float = 1.0
) -> None:
    """Values at ``size`` times a point are ``power`` times those of the single strength."""
    for point in points[:-1]:
        wanted = power * single.value(point)
        close(double.value(size * point), wanted, 1e-9, "value at another strength")
        if isinstance(single, Prox) and isinstance(double, Prox):
            once, twice = single.prox(point, 2.0)[0], double.prox(size * point, 2.0 / power)[0]
            close(twice, size * once, 1e-9, "prox at another strength")
    if isinstance(single, Factored) and isinstance(double, Factored):
        for stacked in stacked_samples(points):
            wanted = power * single.of_factors(stacked)
            larger = np.sqrt(size) * stacked
            close(double.of_factors(larger), wanted, 1e-9, "value of factors at another strength")
            once = single.prox_factors(stacked, 2.0)
            twice = double.prox_factors(larger, 2.0 / power)
            close(twice, np.sqrt(size) * once, 1e-9, "prox of factors at another strength")


@law_of(TERM_LAWS, "a prior has its parameters")
def prior_has_parameters(term: Term, points: list[Array]) -> None:
    """The abilities of a prior and ``Term.prior`` say the same, and its density is the term.

    A given Gaussian has minus the logarithm of its density, up to a constant, as the value.
    """
    abilities = {Prior.FACTORS: PriorOfFactors, Prior.ROWS: PriorOfRows}
    for prior, ability in abilities.items():
        demand(
            isinstance(term, ability) == (term.prior is prior),
            f"prior={term.prior}, and the ability {ability.__name__} says otherwise",
        )
    if isinstance(term, PriorOfRows) and term.gaussian is not None:
        mean, covariance = term.gaussian
        for point in points:
            away = point - mean
            squares = 0.5 * float(np.sum(away * np.linalg.solve(covariance, away.T).T))
            close(term.value(point), squares, 1e-9, "the value, beside that of the Gaussian")
    if isinstance(term, PriorOfFactors) and isinstance(term, Factored) and term.weight is not None:
        for stacked in stacked_samples(points):
            squares = 0.5 * term.weight * float(np.vdot(stacked, stacked))
            close(term.of_factors(stacked), squares, 1e-9, "its factors, beside Gaussian ones")


@law_of(TERM_LAWS, "spectral parts agree", Spectral)
def spectral_parts_agree(term: Spectral, points: list[Array]) -> None:
    """Values, shrinkage and threshold on singular values are those of the matrix."""
    for point in points:
        s = singular_values(point)
        close(term.of_singular_values(s), term.value(point), 1e-9, "value of singular values")
        conjugate = term.conjugate_of_singular_values(s)
        close(conjugate, term.conjugate(point), 1e-9, "conjugate of singular values")
        if term.quadratic_weight > 0.0:
            half = 0.5 * term.quadratic_weight * float(np.dot(s, s))
            close(term.value(point), half, 1e-9, "value of a quadratic term")
        if term.linear_weight is not None:
            total = term.linear_weight * float(np.sum(s))
            close(term.value(point), total, 1e-9, "value of a weight times the nuclear norm")
        if term.largest_sum is not None and np.sum(s) > 0.0:
            edge = point * (term.largest_sum / float(np.sum(s)))
            inside = np.isfinite(term.value(0.99 * edge)), np.isfinite(term.value(1.01 * edge))
            demand(inside == (True, False), "the set ends elsewhere than at its largest sum")
        for step in STEPS:
            shrunk = term.shrink(s, step)
            order = np.argsort(s)
            close(term.shrink(s[order], step), shrunk[order], 1e-12, "shrinkage, in another order")
            low = s <= step * term.threshold * (1 - 1e-12)
            demand(np.all(shrunk[low] == 0.0), "a value below the threshold is not shrunk to 0")
            high = s > step * term.threshold * (1 + 1e-9)
            # What a set takes off a singular value depends on the others.
            kept = isinstance(term, Constraint) or np.all(shrunk[high] > 0.0)
            demand(kept, "a value above the threshold is shrunk to 0")


@law_of(TERM_LAWS, "the gradient is the derivative", SmoothTerm)
def gradient_is_derivative(term: Any, points: list[Array]) -> None:
    """A smooth term's gradient is the derivative of its value, and its curvature bounds it."""
    rng = np.random.default_rng(0)
    for point in points:
        value, gradient = term.value_and_gradient(point)
        close(value, term.value(point), 1e-12, "value returned with the gradient")
        demand(gradient.shape == point.shape, f"a gradient of shape {gradient.shape}")
        for size in (1e-3, 1.0):
            move = size * rng.standard_normal(point.shape)
            ahead, back = term.value(point + move), term.value(point - move)
            inner = float(np.vdot(gradient, move))
            allowed = 0.5 * term.curvature * float(np.vdot(move, move))
            for moved, tangent in ((ahead, value + inner), (back, value - inner)):
                allowance = 1e-9 * (1 + abs(value))
                demand(tangent - allowance <= moved, "the value lies below its tangent")
                demand(moved <= tangent + allowed + allowance, "it bends more than its curvature")


@law_of(TERM_LAWS, "prox returns the value there", Prox)
def value_at_prox(term: Any, points: list[Array]) -> None:
    """The value that prox returns is the value there."""
    for point in points:
        for step in STEPS:
            minimiser, value = term.prox(point, step)
            close(value, term.value(minimiser), 1e-9, "value returned by prox")


@law_of(TERM_LAWS, "prox beats rivals", Prox)
def prox_beats_rivals(term: Any, points: list[Array]) -> None:
    """No random rival has a lower value(X) + ||X - Z||^2 / (2 step)."""
    rng = np.random.default_rng(0)
    for point in points:
        for step in STEPS:
            minimiser, value = term.prox(point, step)
            lowest = value + distance(minimiser, point) / (2 * step)
            for size in (1e-3, 0.1, 1.0):
                # Rivals on the segment to the point itself and around the prox.
                rival = minimiser + size * (point - minimiser)
                shaken = minimiser + size * rng.standard_normal(point.shape)
                for other in (rival, shaken, term.prox(shaken, 1e-6)[0]):
                    theirs = term.value(other) + distance(other, point) / (2 * step)
                    at_most(lowest, theirs, 1e-8, f"a rival beats the prox, step {step:g}")


def distance(a: Array, b: Array | float) -> float:
    """||a - b||_F^2."""
    return float(np.sum(np.square(a - b)))


@law_of(TERM_LAWS, "firmly non-expansive", Prox)
def firmly_nonexpansive(term: Any, points: list[Array]) -> None:
    """||P x - P y||^2 <= <P x - P y, x - y>."""
    for x, y in itertools.pairwise(points):
        for step in STEPS:
            moved = term.prox(x, step)[0] - term.prox(y, step)[0]
            inner = float(np.vdot(moved, x - y))
            at_most(distance(moved, 0.0), inner, 1e-9, f"two points move apart, step {step:g}")


@law_of(TERM_LAWS, "prox solves its program")
def prox_solves_its_program(term: Term, points: list[Array]) -> None:
    """The definition is convex by CVXPY's rules, and the prox is what CVXPY finds for it."""
    for point in points[:2]:
        variable = cp.Variable(point.shape)
        objective, constraints = term.statement(cp, variable)
        program = cp.Problem(cp.Minimize(objective), constraints)
        demand(program.is_dcp(), "its definition is not convex by CVXPY's rules")
        if isinstance(term, Prox):
            least_value(objective + cp.sum_squares(variable - point) / 2, constraints)
            size = 1 + float(np.max(np.abs(point)))
            nearest = term.prox(point, 1.0)[0]
            close(nearest / size, variable.value / size, 1e-4, "prox against CVXPY")


@law_of(TERM_LAWS, "sets are sets", Constraint)
def sets_are_sets(term: Constraint, points: list[Array]) -> None:
    """A constraint's projection is feasible, idempotent and free of the step."""
    if isinstance(term, Prox):
        for point in points:
            projection, value = term.prox(point, 1.0)
            demand(
                value == 0.0 and term.value(projection) == 0.0, "the projection is not in the set"
            )
            close(term.prox(projection, 1.0)[0], projection, 1e-12, "projection of a projection")
            close(term.prox(point, 50.0)[0], projection, 1e-12, "projection with another step")
    if isinstance(term, Factored):
        for stacked in stacked_samples(points):
            cut = term.prox_factors(stacked, 1.0)
            demand(term.of_factors(cut) == 0.0, "the projection of factors is not in the set")
            close(term.prox_factors(cut, 1.0), cut, 1e-12, "projection of projected factors")
            close(term.prox_factors(stacked, 50.0), cut, 1e-12, "their projection, another step")


@law_of(TERM_LAWS, "entry bounds are the set")
def entry_bounds_are_the_set(term: Term, points: list[Array]) -> None:
    """A set with ``entry_bounds`` holds the matrices with all entries between them, no others."""
    if term.entry_bounds is None:
        return
    lower, upper = term.entry_bounds
    for point in points:
        within = np.clip(point, lower, upper)
        demand(np.isfinite(term.value(within)), "a matrix within the bounds is outside of the set")
        for end, direction in ((lower, -1.0), (upper, 1.0)):
            if np.isfinite(end):
                beyond = within.copy()
                beyond.flat[0] = end + direction * 0.01 * (1.0 + abs(end))
                outside = not np.isfinite(term.value(beyond))
                demand(outside, "a matrix beyond the bounds is in the set")


@law_of(TERM_LAWS, "Fenchel and Young")
def fenchel_young(term: Term, points: list[Array]) -> None:
    """f*(Y) >= <Y, X> - f(X) for every X, with equality at the subgradient that prox shows.

    Y is any matrix of ``nearest_dual``, at which the conjugate must be finite and which must
    stay where it is.
    """
    inside = feasible_samples(term, points)
    values = [term.value(point) for point in inside]
    duals = [*points, *(0.1 * point for point in points)]
    if isinstance(term, Prox):
        for point in points:
            minimiser, value = term.prox(point, 1.0)
            dual = term.nearest_dual(point - minimiser)
            close(dual, point - minimiser, 1e-8, "the nearest dual to a subgradient")
            wanted = float(np.vdot(dual, minimiser)) - value
            close(term.conjugate(dual), wanted, 1e-8, "conjugate at a subgradient")
            duals += [point - minimiser, 0.5 * (point - minimiser)]
    for dual in duals:
        near = term.nearest_dual(dual)
        conjugate = term.conjugate(near)
        demand(np.isfinite(conjugate), f"the conjugate at a nearest dual is {conjugate}")
        close(term.nearest_dual(near), near, 1e-12, "the nearest dual to a nearest dual")
        for point, value in zip(inside, values, strict=True):
            bounds_from_above(conjugate, float(np.vdot(near, point)) - value)
            bounds_from_above(term.conjugate(dual), float(np.vdot(dual, point)) - value)


@law_of(TERM_LAWS, "a composition is inner after forward", Composed)
def composition(term: Composed, points: list[Array]) -> None:
    """inner(forward(Z)) is the value; forward is affine, with this adjoint and ||K|| <= 1."""
    shift = term.forward(np.zeros_like(points[0]))
    for point, other in zip(points, reversed(points), strict=True):
        image = term.forward(point)
        close(term.inner.value(image), term.value(point), 1e-12, "inner after forward")
        linear = image - shift
        longer = float(np.linalg.norm(linear)) > float(np.linalg.norm(point)) * (1 + 1e-12)
        demand(not longer, "forward makes a matrix longer")
        dual = np.resize(other, image.shape)
        close(np.vdot(term.adjoint(dual), point), np.vdot(dual, linear), 1e-12, "adjoint")
        close(term.pairing(dual), -float(np.vdot(dual, shift)), 1e-12, "pairing")
        inner_dual = image - term.inner.prox(image, 1.0)[0]
        inner_dual = term.inner.nearest_dual(inner_dual)
        conjugate = term.inner.conjugate(inner_dual) + term.pairing(inner_dual)
        demand(np.isfinite(conjugate), "inner's conjugate at its nearest dual is not finite")
        dual = term.adjoint(inner_dual)
        for rival in points:
            bounds_from_above(conjugate, float(np.vdot(dual, rival)) - term.value(rival))


@law_of(TERM_LAWS, "sums are squares of distances", Sums)
def sums_are_squares(term: Sums, points: list[Array]) -> None:
    """``groups`` are all that the term depends on, and as their singular values say.

    A penalty is ``weight * s^2`` times squares of ``distances``, up to a constant; in a set they
    are 0, and its projection moves along the directions of the groups alone.
    """
    for point in points:
        expected = point if term.axis == 0 else point.T
        demand(np.array_equal(term.turned(point), expected), "turned is not what the axis says")
    for group in term.groups:
        turned = group.right.T @ group.right
        close(turned, np.eye(len(turned)), 1e-10, "the directions of a group are not orthonormal")

    def distances(point: Array) -> list[Array]:
        turned = term.turned(point)
        return [group.distances(turned[:, group.lines]) for group in term.groups]

    def squares(point: Array) -> float:
        pairs = zip(term.groups, distances(point), strict=True)
        return sum(float(np.sum(np.square(g.singular_values[:, None] * d))) for g, d in pairs)

    for point, other in itertools.pairwise(points):
        if term.weight is not None:
            rise = term.value(point) - term.value(other)
            close(
                rise, term.weight * (squares(point) - squares(other)), 1e-9, "squares of a group"
            )
        elif isinstance(term, Prox):
            projection = term.prox(point, 1.0)[0]
            for group, away in zip(term.groups, distances(projection), strict=True):
                close(away, np.zeros_like(away), 1e-9, "distances in the set")
                moved = term.turned(point - projection)[:, group.lines]
                along = group.right @ (group.right.T @ moved)
                close(moved, along, 1e-9, "a projection, moved along the directions of a group")


@law_of(TERM_LAWS, "sums about an origin", Sums)
def sums_about_an_origin(term: Sums, points: list[Array]) -> None:
    """``about(origin, scale)`` says of V what the term says of ``origin + scale * V``.

    A penalty's squares are divided by that of the scale. A set holds the same matrices whatever
    the scale of each column.
    """
    scale = 2.0
    for origin, point in itertools.pairwise(points):
        moved = term.about(origin, scale)
        predictors = origin + scale * point
        if term.weight is not None:
            close(
                moved.value(point),
                term.value(predictors) / scale**2,
                1e-9,
                "a value about an origin",
            )
        residual = scale * moved.residual(point)
        close(residual, term.residual(predictors), 1e-9, "a residual about an origin")
        if isinstance(moved, Prox) and isinstance(term, Prox) and isinstance(term, Constraint):
            nearest = origin + scale * moved.prox(point, 1.0)[0]
            close(nearest, term.prox(predictors, 1.0)[0], 1e-9, "a projection about an origin")
            scales = np.linspace(0.5, 3.0, point.shape[1])
            inside = origin + scales * term.about(origin, scales).prox(point, 1.0)[0]
            demand(term.value(inside) == 0.0, "a set about an origin, by scales of columns")


@law_of(TERM_LAWS, "arguments unharmed")
def arguments_unharmed(term: Term, points: list[Array]) -> None:
    """Arguments stay as they were; a copy is equal; the formula says something."""
    for point in points:
        kept = point.copy()
        if isinstance(term, Prox):
            answer = term.prox(point, 1.0)[0]
            demand(answer.shape == point.shape, f"a prox of shape {answer.shape}")
            answer[...] = -7.0
        term.value(point)
        term.conjugate(point)
        near = term.nearest_dual(point)
        demand(near.shape == point.shape, f"a nearest dual of shape {near.shape}")
        demand_unharmed(kept, point, "the latent matrix")
    if isinstance(term, Factored):
        for stacked in stacked_samples(points):
            kept = stacked.copy()
            term.of_factors(stacked)
            term.prox_factors(stacked, 1.0)[...] = -7.0
            demand_unharmed(kept, stacked, "the stacked factors")
    twin = copy.deepcopy(term)
    demand(twin == term and hash(twin) == hash(term), "a copy is not equal to it")
    demand(term.formula().strip() != "", "its formula is empty")


@law_of(TERM_LAWS, "factors bound the value", Factored)
def factors_bound_the_value(term: Factored, points: list[Array]) -> None:
    """h(W) is at least the value at U V', and does not see a rotation of the columns."""
    shape = points[0].shape
    for stacked in stacked_samples(points):
        cut = term.prox_factors(stacked, 1.0)
        for factors in (stacked, 0.3 * stacked, cut):
            at_factors, value = term.of_factors(factors), term.value(product(factors, shape))
            at_most(value, at_factors, 1e-9, "the value, above that of some factors")
            turn = np.linalg.qr(np.vander(np.arange(1.0, 1.0 + factors.shape[1])))[0]
            close(term.of_factors(factors @ turn), at_factors, 1e-9, "value of turned factors")


@law_of(TERM_LAWS, "the prox of factors beats rivals", Factored)
def prox_of_factors(term: Factored, points: list[Array]) -> None:
    """No random rival has a lower h(X) + ||X - W||^2 / (2 step)."""
    rng = np.random.default_rng(0)
    for stacked in stacked_samples(points):
        for step in STEPS:
            minimiser = term.prox_factors(stacked, step)
            demand(
                minimiser.shape == stacked.shape, f"a prox of factors of shape {minimiser.shape}"
            )

            def total(factors: Array, start: Array = stacked, step: float = step) -> float:
                squared = float(np.sum(np.square(factors - start)))
                return term.of_factors(factors) + squared / (2 * step)

            lowest = total(minimiser)
            for size in (1e-3, 0.1, 1.0):
                back = size * (stacked - minimiser)
                shaken = minimiser + size * rng.standard_normal(stacked.shape)
                # Also row by row: of a ball, some rows may go back where others may not.
                rows = (minimiser + np.eye(len(back))[:, [k]] * back for k in range(len(back)))
                for other in (minimiser + back, shaken, term.prox_factors(shaken, 1e-6), *rows):
                    what = f"rival factors are better than the prox, step {step:g}"
                    at_most(lowest, total(other), 1e-8, what)


@law_of(TERM_LAWS, "multipliers bound the conjugate", Factored)
def multipliers_bound_the_conjugate(term: Factored, points: list[Array]) -> None:
    """The bound from any multipliers holds, and is finite at the feasible scale."""
    rng = np.random.default_rng(0)
    order = sum(points[0].shape)
    inside = feasible_samples(term, points)
    values = [term.value(point) for point in inside]
    for dual in points:
        for multipliers in (np.zeros(order), np.ones(order), rng.random(order) ** 4):
            scale = term.feasible_scale(dual, multipliers)
            demand(0.0 <= scale <= 1.0, f"a feasible scale of {scale:g}")
            bound = term.conjugate_from(scale * dual, scale * multipliers)
            demand(np.isfinite(bound), f"the conjugate at the feasible scale {scale:g} is {bound}")
            for point, value in zip(inside, values, strict=True):
                bounds_from_above(bound, scale * float(np.vdot(dual, point)) - value)


@law_of(TERM_LAWS, "the best factors reach the conjugate", Factored)
def factors_reach_the_conjugate(term: Factored, points: list[Array]) -> None:
    """h is the value, and multipliers close the gap, where ||U V' - Y||^2 / 2 + h is least.

    There S = Y - U V' has h(W) + f*(S) = <S, U V'>, so that h(W) is f(U V') and
    ``row_multipliers`` must give ``conjugate_from`` what it needs. The first points only: a
    plain descent takes many steps.
    """
    for target in points[:2]:
        stacked = minimise_factors(term, target)
        latent = product(stacked, target.shape)
        dual, at_factors = target - latent, term.of_factors(stacked)
        demand(np.isfinite(at_factors), "the prox of factors leads outside of the domain")
        size = 1e-4 * (1 + float(np.vdot(target, target)))
        multipliers = term.row_multipliers(-dual, stacked)
        valid = multipliers.shape == (sum(target.shape),) and bool(np.all(multipliers >= 0.0))
        demand(valid, "there must be one multiplier for each row, none negative")
        matrix = np.diag(multipliers)
        matrix[: target.shape[0], target.shape[0] :] = -dual
        matrix[target.shape[0] :, : target.shape[0]] = -dual.T
        image = matrix @ stacked / size
        close(image, np.zeros_like(image), 1.0, "the dual matrix times the best factors")
        lowest = float(np.linalg.eigvalsh(matrix)[0])
        demand(lowest >= -size, f"the dual matrix has the eigenvalue {lowest:g}")
        scale = term.feasible_scale(dual, multipliers)
        conjugate = term.conjugate_from(scale * dual, scale * multipliers)
        gap = at_factors + conjugate - scale * float(np.vdot(dual, latent))
        demand(-size <= gap <= size, f"the best factors leave a gap of {gap:g}")
        value = term.value(latent)
        close((at_factors - value) / size, 0.0, 1.0, "the value off that of the best factors")


def minimise_factors(term: Factored, target: Array) -> Array:
    """A minimiser of ||U V' - Y||^2 / 2 + h by proximal gradient steps with momentum."""
    n_rows = target.shape[0]
    rng = np.random.default_rng(0)
    width = sum(target.shape)
    stacked = term.prox_factors(0.5 * rng.standard_normal((width, width)), 1.0)
    ahead, momentum, step, last = stacked, 1.0, 1.0, np.inf

    def misfit(factors: Array) -> tuple[float, Array]:
        residual = product(factors, target.shape) - target
        gradient = np.vstack([residual @ factors[n_rows:], residual.T @ factors[:n_rows]])
        return 0.5 * float(np.vdot(residual, residual)), gradient

    for _ in range(DESCENT_STEPS):
        value, gradient = misfit(ahead)
        while True:
            moved = term.prox_factors(ahead - step * gradient, step)
            shift = moved - ahead
            allowed = float(np.vdot(gradient, shift)) + float(np.vdot(shift, shift)) / (2 * step)
            if misfit(moved)[0] <= value + allowed + 1e-12 * (1 + value):
                break
            step *= 0.5
        total = misfit(moved)[0] + term.of_factors(moved)
        if total > last:  # momentum has overshot: begin again without
            ahead, momentum, last = stacked, 1.0, np.inf
            continue
        faster = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        ahead = moved + (momentum - 1) / faster * (moved - stacked)
        stacked, momentum, last = moved, faster, total
    return stacked
