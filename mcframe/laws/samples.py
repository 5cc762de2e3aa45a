"""What the laws of terms are tried on: random data, feasible points, factors, programs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mcframe.backends.statement import cp
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.term import Factored, Prox, Term

__all__ = [
    "STEPS",
    "Law",
    "data_of",
    "feasible_samples",
    "least_value",
    "product",
    "stacked_samples",
]

Law = Callable[[Term, list[Array]], None]
STEPS = (0.1, 1.0, 7.0)


def data_of(
    shape: tuple[int, int], scale: float, rng: np.random.Generator
) -> tuple[IntArray, IntArray, Array]:
    """Rows, columns and values of about two thirds of the entries, at least one."""
    observed = rng.random(shape) < 2 / 3
    observed[rng.integers(shape[0]), rng.integers(shape[1])] = True
    rows, columns = np.nonzero(observed)
    return rows, columns, scale * rng.standard_normal(rows.size)


def feasible_samples(term: Term, points: list[Array]) -> list[Array]:
    """Points at which a term is finite: the given ones and those that a prox leads to."""
    found = [point for point in points if np.isfinite(term.value(point))]
    if isinstance(term, Prox):
        found += [term.prox(point, 1.0)[0] for point in points]
    elif isinstance(term, Factored):
        shape = points[0].shape
        cut = [term.prox_factors(stacked, 0.1) for stacked in stacked_samples(points)]
        found += [product(stacked, shape) for stacked in cut]
    return found


def stacked_samples(points: list[Array]) -> list[Array]:
    """Random factors U over V, of ranks 1 to 4, as long as the points; the last one is 0."""
    rng = np.random.default_rng(0)
    n_rows = sum(points[0].shape)
    size = np.sqrt(max(float(np.max(np.abs(point))) for point in points))
    found = [size * rng.standard_normal((n_rows, rank)) for rank in (1, 2, 4)]
    found.append(np.zeros((n_rows, 2)))
    return found


def product(stacked: Array, shape: tuple[int, ...]) -> Array:
    """U V'."""
    return stacked[: shape[0]] @ stacked[shape[0] :].T


def least_value(objective: Any, constraints: list[Any]) -> float:
    """The least value of a program by an interior point method; inf where none is feasible."""
    program = cp.Problem(cp.Minimize(objective), constraints)
    with np.errstate(all="ignore"):  # the conic solver's own arithmetic
        return float(program.solve(solver="CLARABEL"))
