"""The laws of regularizers and constraints: one function each, over small random matrices."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import attrs
import cvxpy as cp
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.term import Constraint, Regularizer, Spectral, Term
from mcframe.laws.violations import close, demand, law, unharmed

__all__ = ["TERM_LAWS", "check_regularizer"]

Law = Callable[[Term, list[Array]], None]
STEPS = (0.1, 1.0, 7.0)


def check_regularizer(
    term: Term, *, shape: tuple[int, int] = (5, 4), scale: float = 1.0, seed: int = 0
) -> None:
    """Hold a regularizer or a constraint to every law of its contract.

    Parameters
    ----------
    term : Regularizer or Constraint
        Yours or ours.
    shape : tuple of int, default (5, 4)
        Of the random latent matrices; small, since each prox is checked against CVXPY.
    scale : float, default 1
        The size of their entries.
    seed : int

    Raises
    ------
    LawViolation
        Names the law, and the numbers that break it.

    Examples
    --------
    >>> import mcframe as mc
    >>> mc.laws.check_regularizer(mc.NuclearNorm(0.5))
    """
    rng = np.random.default_rng(seed)
    points: list[Array] = [scale * rng.standard_normal(shape) for _ in range(4)]
    points.append(scale * np.outer(rng.standard_normal(shape[0]), rng.standard_normal(shape[1])))
    points.append(np.zeros(shape))
    for name, holds in TERM_LAWS.items():
        with law(term, name):
            holds(term, points)


def value_at_prox(term: Term, points: list[Array]) -> None:
    """The value that prox returns is the value there."""
    for point in points:
        for step in STEPS:
            there, value = term.prox(point, step)
            close(value, term.value(there), 1e-9, "value returned by prox")


def prox_beats_rivals(term: Term, points: list[Array]) -> None:
    """No random rival has a lower value(X) + ||X - Z||^2 / (2 step)."""
    rng = np.random.default_rng(0)
    for point in points:
        for step in STEPS:
            there, value = term.prox(point, step)
            reached = value + distance(there, point) / (2 * step)
            for size in (1e-3, 0.1, 1.0):
                # Rivals on the segment to the point itself and around the prox.
                rival = there + size * (point - there)
                shaken = there + size * rng.standard_normal(point.shape)
                for other in (rival, shaken, term.prox(shaken, 1e-6)[0]):
                    theirs = term.value(other) + distance(other, point) / (2 * step)
                    demand(
                        theirs >= reached - 1e-8 * (1 + abs(reached)),
                        f"a rival reaches {theirs:g} where the prox reaches {reached:g}"
                        f" with step {step:g}",
                    )


def distance(a: Array, b: Array) -> float:
    """||a - b||_F^2."""
    return float(np.sum(np.square(a - b)))


def firmly_nonexpansive(term: Term, points: list[Array]) -> None:
    """||P x - P y||^2 <= <P x - P y, x - y>."""
    for x, y in itertools.pairwise(points):
        for step in STEPS:
            moved = term.prox(x, step)[0] - term.prox(y, step)[0]
            inner = float(np.vdot(moved, x - y))
            demand(
                float(np.vdot(moved, moved)) <= inner + 1e-9 * (1 + abs(inner)),
                f"two points move apart with step {step:g}",
            )


def prox_solves_its_program(term: Term, points: list[Array]) -> None:
    """The prox is what CVXPY finds for its definition."""
    for point in points[:2]:
        variable = cp.Variable(point.shape)
        squared = cp.sum_squares(variable - point) / 2
        if isinstance(term, Regularizer):
            program = cp.Problem(cp.Minimize(squared + term.expression(cp, variable)))
        else:
            assert isinstance(term, Constraint)
            program = cp.Problem(cp.Minimize(squared), term.constraints(cp, variable))
        demand(program.is_dcp(), "its definition is not convex by CVXPY's rules")
        with np.errstate(all="ignore"):  # the conic solver's own arithmetic
            program.solve(solver="CLARABEL")
        size = 1 + float(np.max(np.abs(point)))
        close(term.prox(point, 1.0)[0] / size, variable.value / size, 1e-4, "prox against CVXPY")


def expression_is_definition(term: Term, points: list[Array]) -> None:
    """The CVXPY expression has the same value; a constraint holds where its value is 0."""
    for point in points:
        variable = cp.Variable(point.shape)
        variable.value = point
        if isinstance(term, Regularizer):
            found = float(term.expression(cp, variable).value)
            close(found, term.value(point), 1e-9, "expression")
        else:
            assert isinstance(term, Constraint)
            held = all(bool(c.value()) for c in term.constraints(cp, variable))
            demand(held == (term.value(point) == 0.0), "its CVXPY constraints disagree with value")


def strength_counts(term: Term, points: list[Array]) -> None:
    """Twice the weight is twice the value, and shrinks more."""
    frozen: Any = term
    if not any(field.name == "weight" for field in attrs.fields(type(frozen))):
        return
    double = attrs.evolve(frozen, weight=2 * frozen.weight)
    for point in points[:-1]:
        close(double.value(point), 2 * term.value(point), 1e-9, "value at twice the weight")
        once, twice = term.prox(point, 2.0)[0], double.prox(point, 1.0)[0]
        close(twice, once, 1e-9, "prox at twice the weight and half the step")


def spectral_parts_agree(term: Term, points: list[Array]) -> None:
    """Values, shrinkage and threshold on singular values are those of the matrix."""
    if not isinstance(term, Spectral):
        return
    for point in points:
        s = np.linalg.svd(point, compute_uv=False)
        close(term.of_singular_values(s), term.value(point), 1e-9, "value of singular values")
        if term.quadratic_weight > 0.0:
            half = 0.5 * term.quadratic_weight * float(np.dot(s, s))
            close(term.value(point), half, 1e-9, "value of a quadratic term")
        for step in STEPS:
            shrunk = term.shrink(s, step)
            low = s <= step * term.threshold * (1 - 1e-12)
            demand(np.all(shrunk[low] == 0.0), "a value below the threshold is not shrunk to 0")
            demand(
                np.all(shrunk[s > step * term.threshold * (1 + 1e-9)] > 0.0),
                "a value above the threshold is shrunk to 0",
            )


def fenchel_young(term: Term, points: list[Array]) -> None:
    """R*(S) >= <S, X> - R(X) for every X, with equality at the subgradient that prox shows."""
    if not isinstance(term, Spectral):
        return
    for point in points:
        there, value = term.prox(point, 1.0)
        s = np.linalg.svd(point - there, compute_uv=False)
        conjugate = term.conjugate_of_singular_values(s)
        close(conjugate, float(np.vdot(point - there, there)) - value, 1e-8, "conjugate")
        for factor in (0.0, 0.5):
            smaller = term.conjugate_of_singular_values(factor * s)
            for other in points:
                least = factor * float(np.vdot(point - there, other)) - term.value(other)
                demand(smaller >= least - 1e-9 * (1 + abs(least)), "the conjugate is too small")


def sets_are_sets(term: Term, points: list[Array]) -> None:
    """A constraint's projection is feasible, idempotent and free of the step."""
    if not isinstance(term, Constraint):
        return
    for point in points:
        there, value = term.prox(point, 1.0)
        demand(value == 0.0 and term.value(there) == 0.0, "the projection is not in the set")
        close(term.prox(there, 1.0)[0], there, 1e-12, "projection of a projection")
        close(term.prox(point, 50.0)[0], there, 1e-12, "projection with another step")


def arguments_unharmed(term: Term, points: list[Array]) -> None:
    """Arguments stay as they were; a copy is equal; the formula says something."""
    for point in points:
        kept = point.copy()
        answer = term.prox(point, 1.0)[0]
        demand(answer.shape == point.shape, f"a prox of shape {answer.shape}")
        answer[...] = -7.0
        term.value(point)
        unharmed(kept, point, "the latent matrix")
    twin = copy.deepcopy(term)
    demand(twin == term and hash(twin) == hash(term), "a copy is not equal to it")
    demand(term.formula().strip() != "" and term.latex().strip() != "", "its formula is empty")


TERM_LAWS: dict[str, Law] = {
    "prox returns the value there": value_at_prox,
    "prox beats rivals": prox_beats_rivals,
    "firmly non-expansive": firmly_nonexpansive,
    "prox solves its program": prox_solves_its_program,
    "the expression is the definition": expression_is_definition,
    "the strength counts": strength_counts,
    "spectral parts agree": spectral_parts_agree,
    "Fenchel and Young": fenchel_young,
    "sets are sets": sets_are_sets,
    "arguments unharmed": arguments_unharmed,
}
