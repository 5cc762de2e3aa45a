"""How a law says that it is broken."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import LawViolation

__all__ = ["close", "demand", "law"]


def demand(holds: object, message: str) -> None:
    """Raise ``LawViolation`` unless it holds; unlike ``assert``, under ``python -O`` too."""
    if not holds:
        raise LawViolation(message)


def close(found: object, wanted: object, tol: float, what: str) -> None:
    """Demand |found - wanted| <= tol (1 + |wanted|) entrywise."""
    a = np.asarray(found, dtype=float)
    b = np.asarray(wanted, dtype=float)
    demand(a.shape == b.shape, f"{what}: shape {a.shape} where {b.shape} is needed")
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(a - b) <= tol * (1.0 + np.abs(b)))
    wrong |= np.isinf(a) | np.isinf(b)  # where inf <= inf would let anything pass
    wrong &= ~((a == b) & np.isinf(a))
    if np.any(wrong):
        i = np.flatnonzero(wrong.ravel())[0]
        raise LawViolation(
            f"{what}: {float(a.ravel()[i])!r} was found where {float(b.ravel()[i])!r} is needed"
            f" (tolerance {tol:g}; {int(wrong.sum())} of {wrong.size} entries)"
        )


@contextmanager
def law(word: object, name: str) -> Iterator[None]:
    """Names the word and the law in whatever is raised inside; numpy warnings count as broken."""
    try:
        with np.errstate(all="raise", under="ignore"):
            yield
    except LawViolation as violation:
        raise LawViolation(f"{name_of(word)} breaks the law {name!r}: {violation}") from None
    except FloatingPointError as error:
        raise LawViolation(
            f"{name_of(word)} breaks the law {name!r}: numpy warns of {error}"
        ) from error


def demand_unharmed(before: Array, after: Array, what: str) -> None:
    """Demand that an argument was not changed."""
    demand(np.array_equal(before, after, equal_nan=True), f"{what} was changed in place")


def name_of(word: object) -> str:
    """A backend's name, or the class of an object."""
    return f"backend {word!r}" if isinstance(word, str) else type(word).__name__
