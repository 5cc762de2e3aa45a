"""Numbers at the entries of partitions, by the way in which each partition finds its own."""

import itertools
import os
from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.model import Layout
from mcframe.numerics.operators import LowRank

if TYPE_CHECKING:
    from mcframe.compile.partitions.part import Part

__all__ = [
    "ByRows",
    "Centred",
    "Clipped",
    "Gradients",
    "Numbers",
    "Predictors",
    "Repaired",
    "effects_by_rows",
    "for_rows",
    "fresh_key",
]

COUNTER = itertools.count()
# What has no rows to be cut, which is most of what a task consists of.
WHOLE = frozenset({np.ndarray, int, float, bool, str, type(None)})


def fresh_key() -> str:
    """A name that no other numbers have, in this process or in one that it sends them to."""
    return f"{os.getpid()}-{os.urandom(4).hex()}-{next(COUNTER)}"


@attrs.frozen(eq=False)
class ByRows:
    """An array with one row an item, of which each partition is given its own rows.

    What stands ``before`` the rows and ``after`` them, so many numbers, every partition is given.
    """

    array: Array | Mask
    before: int = 0
    after: int = 0

    def of(self, first: int, last: int) -> Any:
        """What the partition with these rows is given.

        Row by row in memory, as rows arrive that have travelled: of columns BLAS adds up in
        another order.
        """
        own = self.array[self.before + first : self.before + last]
        if not (self.before or self.after):
            return np.ascontiguousarray(own)
        end = len(self.array) - self.after
        return np.concatenate([self.array[: self.before], own, self.array[end:]])


def effects_by_rows(layout: Layout, effects: Array | Mask) -> Any:
    """Effects of a block as tasks take them: those of rows go to their partitions."""
    if not layout.n_row_effects:
        return effects
    return ByRows(effects, layout.n_biases, layout.size - layout.n_biases - layout.n_row_effects)


@cache
def field_names(kind: Any) -> tuple[str, ...]:
    """The fields of an attrs class, which are asked for once a task and partition."""
    return tuple(field.name for field in attrs.fields(kind))


def for_rows(value: Any, first: int, last: int) -> Any:
    """What a partition with these rows is given of numbers, a task, a tuple or an array."""
    if type(value) in WHOLE:
        return value
    if isinstance(value, ByRows):
        return value.of(first, last)
    if isinstance(value, tuple):
        return tuple(for_rows(part, first, last) for part in value)
    if isinstance(value, Cut):
        kind: Any = type(value)
        given = ((name, getattr(value, name)) for name in field_names(kind))
        return kind(**{name: for_rows(part, first, last) for name, part in given})
    return value


class Cut:
    """What consists of fields that are cut by rows where they are ``ByRows``."""


@attrs.frozen(eq=False, kw_only=True, slots=False)
class Numbers(Cut, ABC):
    """One number an entry, known by how a partition finds its own: no process holds all of them.

    A pure function of the partition and of small arrays. ``size`` counts the numbers of all
    partitions; a partition keeps some of what it found by ``key``, which changes nothing.
    """

    # Of NumPy's numbers times these the product is ours.
    __array_ufunc__ = None

    size: int
    key: str = attrs.field(factory=fresh_key)

    @abstractmethod
    def find(self, part: "Part") -> Array:
        """The numbers of one partition."""

    def __add__(self, other: "Numbers") -> "Numbers":
        return Combination(size=self.size, first=self, second=other, factor=1.0)

    def __sub__(self, other: "Numbers") -> "Numbers":
        return Combination(size=self.size, first=self, second=other, factor=-1.0)

    def __rmul__(self, factor: float) -> "Numbers":
        if factor == 0.0:
            return Zeros(size=self.size, key="zeros")
        return Multiple(size=self.size, of=self, factor=float(factor))


@attrs.frozen(eq=False, kw_only=True, slots=False)
class Predictors(Numbers):
    """Entries of U V'."""

    left: Any
    right: Array

    def find(self, part: "Part") -> Array:
        """Entries of the product in a partition."""
        return part.program.entries.of(LowRank(self.left, self.right))


@attrs.frozen(eq=False, kw_only=True, slots=False)
class Gradients(Numbers):
    """Gradients of the losses at predictors z and effects, which stay as they are."""

    z: Numbers
    effects: tuple[Any, ...]

    def find(self, part: "Part") -> Array:
        """Gradients of a partition."""
        return part.program.loss.evaluate_at(part.numbers(self.z), self.effects).gradient


@attrs.frozen(eq=False, kw_only=True, slots=False)
class Combination(Numbers):
    """``first + factor * second``."""

    first: Numbers
    second: Numbers
    factor: float

    def find(self, part: "Part") -> Array:
        """Numbers of a partition."""
        first, second = part.numbers(self.first), part.numbers(self.second)
        return first + second if self.factor == 1.0 else first + self.factor * second


@attrs.frozen(eq=False, kw_only=True, slots=False)
class Multiple(Numbers):
    """``factor * of``."""

    of: Numbers
    factor: float

    def find(self, part: "Part") -> Array:
        """Numbers of a partition."""
        return self.factor * part.numbers(self.of)


@attrs.frozen(eq=False, kw_only=True, slots=False)
class Zeros(Numbers):
    """0 at each entry."""

    def find(self, part: "Part") -> Array:
        """Zeros of a partition."""
        return np.zeros(part.program.entries.size)


@attrs.frozen(eq=False, kw_only=True, slots=False)
class Centred(Numbers):
    """Gradients less a mean for each effect of the columns, or, in a partition, of its rows.

    ``means`` has an array for each block with biases that are no ridge's, and None for others.
    """

    of: Numbers
    means: tuple[Array | None, ...]

    def find(self, part: "Part") -> Array:
        """Gradients of a partition."""
        centred = part.numbers(self.of).copy()
        for piece, means in zip(part.program.loss.pieces, self.means, strict=True):
            own = centred[piece.part]
            if means is not None:
                own = piece.predictor(piece.by_entries(own), -means)
                centred[piece.part] = own.ravel()
            elif not piece.layout.n_biases:  # biases without means have a ridge
                centred[piece.part] = piece.centre(own)
        return centred


@attrs.frozen(eq=False, kw_only=True, slots=False)
class Clipped(Numbers):
    """Gradients that rounding left just outside of their domains moved in."""

    of: Numbers

    def find(self, part: "Part") -> Array:
        """Gradients of a partition."""
        return part.program.loss.clip(part.numbers(self.of))


@attrs.frozen(eq=False, kw_only=True, slots=False)
class Repaired(Numbers):
    """The nearest gradients inside of the domains of losses.

    Sums over effects of rows vanish then, those over effects of columns as they do by chance.
    """

    of: Numbers

    def find(self, part: "Part") -> Array:
        """Gradients of a partition."""
        gradient = part.numbers(self.of)
        nearest = gradient.copy()
        for piece in part.program.loss.pieces:
            if piece.has_conjugate():
                nearer = piece.nearest_gradient if piece.layout.n_biases else piece.nearest_dual
                nearest[piece.part] = nearer(gradient[piece.part])
        return nearest
