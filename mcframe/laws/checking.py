"""Parts of the laws: demands, directions, random data, feasible points."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from mcframe.backends.statement import cp
from mcframe.contracts.arrays import Array, IntArray, Shape, between, ends_of, exposed
from mcframe.contracts.errors import LawViolation
from mcframe.contracts.likelihood import ExpectedDerivatives, GaussianBound, Likelihood
from mcframe.contracts.term import Factored, Prox, Term

STEPS = (0.1, 1.0, 7.0)


#: A value, two limits, or a label and its propensity.
Observation = float | tuple[float, float]


def observations_of(likelihood: Likelihood, listed: Sequence[Observation]) -> Array:
    """Return observations as a likelihood takes them; one pair makes limits of all.

    Where labels have propensities, one pair makes labels with propensities of all.
    """
    if not any(isinstance(one, tuple) for one in listed):
        return np.asarray(listed, dtype=float)
    if likelihood.takes_propensities:
        pairs = [one if isinstance(one, tuple) else (one, 1.0) for one in listed]
        return exposed(*np.array(pairs, dtype=float).T)
    pairs = [one if isinstance(one, tuple) else (one, one) for one in listed]
    return between(*np.array(pairs, dtype=float).T)


def demand(holds: object, message: str) -> None:
    """Raise ``LawViolation`` unless it holds; unlike ``assert``, under ``python -O`` too."""
    if not holds:
        raise LawViolation(message)


def close(value: object, expected: object, tol: float, what: str) -> None:
    """Demand |value - expected| <= tol (1 + |expected|) entrywise."""
    a = np.asarray(value, dtype=float)
    b = np.asarray(expected, dtype=float)
    demand(a.shape == b.shape, f"{what}: shape {a.shape} where {b.shape} is needed")
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(a - b) <= tol * (1.0 + np.abs(b)))
    wrong |= np.isinf(a) | np.isinf(b)  # where inf <= inf would let anything pass
    wrong &= ~((a == b) & np.isinf(a))
    if np.any(wrong):
        i = np.flatnonzero(wrong.ravel())[0]
        raise LawViolation(
            f"{what}: {float(a.ravel()[i])!r} where {float(b.ravel()[i])!r} is needed"
            f" (tolerance {tol:g}; {int(wrong.sum())} of {wrong.size} entries)"
        )


# The laws by their names, in the order in which they are checked.
TERM_LAWS: dict[str, Callable[..., None]] = {}
LIKELIHOOD_LAWS: dict[str, Callable[..., None]] = {}
# Laws of the likelihood as it is given; all others hold with its parameters fitted.
PARAMETRIC_LAWS: dict[str, Callable[..., None]] = {}
# Abilities that only a posterior asks for.
OF_POSTERIOR = (GaussianBound, ExpectedDerivatives)
LawT = TypeVar("LawT", bound=Callable[..., None])


def law_of(
    laws: dict[str, Callable[..., None]], name: str, *abilities: type
) -> Callable[[LawT], LawT]:
    """Add a function to the laws under a name, for words that have some abilities."""

    def add(check: LawT) -> LawT:
        def checked(word: object, *arguments: Array) -> None:
            refused = getattr(word, "why_no_posterior", None) is not None
            if refused and any(ability in OF_POSTERIOR for ability in abilities):
                return
            if all(isinstance(word, ability) for ability in abilities):
                check(word, *arguments)

        laws[name] = checked
        return check

    return add


@contextmanager
def law(word: object, name: str) -> Iterator[None]:
    """Names the word and the law in whatever is raised inside; numpy warnings count as broken."""
    try:
        with np.errstate(all="raise", under="ignore"):
            yield
    except LawViolation as violation:
        raise LawViolation(f"{solver_name(word)} breaks the law {name!r}: {violation}") from None
    except FloatingPointError as error:
        raise LawViolation(
            f"{solver_name(word)} breaks the law {name!r}: numpy warns of {error}"
        ) from error


def demand_unharmed(before: Array, after: Array, what: str) -> None:
    """Demand that an argument was not changed."""
    pairs = zip(ends_of(before), ends_of(after), strict=True)
    same = all(np.array_equal(one, other, equal_nan=True) for one, other in pairs)
    demand(same, f"{what} was changed in place")


def solver_name(word: object) -> str:
    """A backend's name, or the class of an object."""
    return f"backend {word!r}" if isinstance(word, str) else type(word).__name__


def at_most(value: object, limit: object, tol: float, what: str) -> None:
    """Demand value <= limit + tol (1 + |limit|) entrywise."""
    a, b = (np.asarray(side, dtype=float) for side in (value, limit))
    if not np.all(a <= b + tol * (1.0 + np.abs(b))):
        a, b = np.broadcast_arrays(a, b)
        i = int(np.argmin((b + tol * (1.0 + np.abs(b)) >= a).ravel()))
        raise LawViolation(
            f"{what}: {float(a.ravel()[i])!r} where at most {float(b.ravel()[i])!r} is allowed"
        )


def bounds_from_above(conjugate: float, least: float) -> None:
    """Demand that a conjugate is no smaller than one of the values that it is the sup of."""
    at_most(least, conjugate, 1e-9, "a value that the conjugate, its supremum, does not reach")


def directions(z: Array) -> list[Array]:
    """Directions to move in: up; of a group of columns each one alone, and one against another."""
    if z.ndim == 1:
        return [np.ones_like(z)]
    units = np.eye(z.shape[1])
    return [np.zeros_like(z) + unit for unit in (*units, units[0] - units[1])]


def along(gradient: Array, direction: Array) -> Array:
    """<gradient, direction>, entry by entry."""
    product = gradient * direction
    return product if product.ndim == 1 else product.sum(axis=1)


def unit_of(z: Array) -> float:
    """The size of the predictors at which the curvature of the loss is largest."""
    return float(np.max(np.abs(z))) / 6


def data_of(
    shape: Shape, scale: float, rng: np.random.Generator
) -> tuple[IntArray, IntArray, Array]:
    """Rows, columns and values of about two thirds of the entries, at least one."""
    observed = rng.random(shape) < 2 / 3
    observed[rng.integers(shape[0]), rng.integers(shape[1])] = True
    rows, columns = np.nonzero(observed)
    return rows, columns, scale * rng.standard_normal(rows.size)


def feasible_samples(term: Term, points: list[Array]) -> list[Array]:
    """Points at which a term is finite: the given ones and those that a prox leads to."""
    samples = [point for point in points if np.isfinite(term.value(point))]
    if isinstance(term, Prox):
        samples += [term.prox(point, 1.0)[0] for point in points]
    elif isinstance(term, Factored):
        shape = points[0].shape
        cut = [term.prox_factors(stacked, 0.1) for stacked in stacked_samples(points)]
        samples += [product(stacked, shape) for stacked in cut]
    return samples


def stacked_samples(points: list[Array]) -> list[Array]:
    """Random factors U over V, of ranks 1 to 4, as long as the points; the last one is 0."""
    rng = np.random.default_rng(0)
    n_rows = sum(points[0].shape)
    size = np.sqrt(max(float(np.max(np.abs(point))) for point in points))
    samples = [size * rng.standard_normal((n_rows, rank)) for rank in (1, 2, 4)]
    samples.append(np.zeros((n_rows, 2)))
    return samples


def product(stacked: Array, shape: tuple[int, ...]) -> Array:
    """U V'."""
    return stacked[: shape[0]] @ stacked[shape[0] :].T


def least_value(objective: Any, constraints: list[Any]) -> float:
    """The least value of a program by an interior point method; inf where none is feasible."""
    program = cp.Problem(cp.Minimize(objective), constraints)
    with np.errstate(all="ignore"):  # the conic solver's own arithmetic
        return float(program.solve(solver="CLARABEL"))


def central_difference(function: Callable[[Array], Any], x: Array, move: Array, h: float) -> Any:
    """The derivative at x along ``move / h``, by a central difference of fourth order."""
    near, far = (function(x + k * move) - function(x - k * move) for k in (1, 2))
    return (8 * near - far) / (12 * h)
