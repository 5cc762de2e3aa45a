"""The laws of a prox."""

import itertools

import numpy as np

from mcframe.backends.statement import cp
from mcframe.contracts.arrays import Array
from mcframe.contracts.term import Constraint, Factored, Prox, Term
from mcframe.laws.samples import STEPS, least_value, stacked_samples
from mcframe.laws.violations import close, demand

__all__ = [
    "firmly_nonexpansive",
    "prox_beats_rivals",
    "prox_solves_its_program",
    "sets_are_sets",
    "value_at_prox",
]


def value_at_prox(term: Term, points: list[Array]) -> None:
    """The value that prox returns is the value there."""
    if not isinstance(term, Prox):
        return
    for point in points:
        for step in STEPS:
            there, value = term.prox(point, step)
            close(value, term.value(there), 1e-9, "value returned by prox")


def prox_beats_rivals(term: Term, points: list[Array]) -> None:
    """No random rival has a lower value(X) + ||X - Z||^2 / (2 step)."""
    if not isinstance(term, Prox):
        return
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
    if not isinstance(term, Prox):
        return
    for x, y in itertools.pairwise(points):
        for step in STEPS:
            moved = term.prox(x, step)[0] - term.prox(y, step)[0]
            inner = float(np.vdot(moved, x - y))
            demand(
                float(np.vdot(moved, moved)) <= inner + 1e-9 * (1 + abs(inner)),
                f"two points move apart with step {step:g}",
            )


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


def sets_are_sets(term: Term, points: list[Array]) -> None:
    """A constraint's projection is feasible, idempotent and free of the step."""
    if not isinstance(term, Constraint):
        return
    if isinstance(term, Prox):
        for point in points:
            there, value = term.prox(point, 1.0)
            demand(value == 0.0 and term.value(there) == 0.0, "the projection is not in the set")
            close(term.prox(there, 1.0)[0], there, 1e-12, "projection of a projection")
            close(term.prox(point, 50.0)[0], there, 1e-12, "projection with another step")
    if isinstance(term, Factored):
        for stacked in stacked_samples(points):
            cut = term.prox_factors(stacked, 1.0)
            demand(term.of_factors(cut) == 0.0, "the projection of factors is not in the set")
            close(term.prox_factors(cut, 1.0), cut, 1e-12, "projection of projected factors")
            close(term.prox_factors(stacked, 50.0), cut, 1e-12, "their projection, another step")
