"""Values of which each partition has its own, by how it finds them: none of them travels."""

import itertools
import operator
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from mcframe.compile.effects.sums import EntriesAt
from mcframe.compile.entries import Entries
from mcframe.contracts.arrays import Array, Mask
from mcframe.model import Layout
from mcframe.numerics.operators import LowRank

if TYPE_CHECKING:
    from mcframe.compile.partitions.part import Part

COUNTER = itertools.count()
# What holds no array, which is most of what a question consists of.
PLAIN = frozenset({int, float, bool, str, type(None)})


def fresh_key() -> str:
    """A name that no other values have, in this process or in one that it sends them to."""
    return f"{os.getpid()}-{os.urandom(4).hex()}-{next(COUNTER)}"


@attrs.frozen(eq=False)
class Scattered:
    """An array with one row an item, of which each partition is given its own rows.

    The first numbers, ``before`` the rows, and the last, ``after`` them, go to every partition.
    """

    array: Any
    before: int = 0
    after: int = 0
    start: int = 0  # the first row that the array has

    def of(self, first: int, last: int) -> Any:
        """What the partition with these rows is given.

        Row by row in memory, as rows arrive that have travelled: of columns BLAS adds up in
        another order.
        """
        skipped = self.before - self.start
        own = self.array[skipped + first : skipped + last]
        if not (self.before or self.after):
            return np.ascontiguousarray(own)
        end = len(self.array) - self.after
        return np.concatenate([self.array[: self.before], own, self.array[end:]])


def scattered_effects(layout: Layout, effects: Array | Mask | None) -> Any:
    """Effects of a block as questions take them: those of rows go to their partitions."""
    if effects is None or not layout.n_row_effects:
        return effects
    last = layout.size - layout.n_biases - layout.n_row_effects
    return Scattered(effects, layout.n_biases, last)


def scattered_rows(latent: LowRank) -> "PartValue":
    """A matrix U V', whose rows go to their partitions."""
    return PartValue(LowRank, (Scattered(latent.left), latent.right))


class Distributed:
    """An attrs class whose ``Scattered`` fields are cut by rows; ``at`` a part it is a value."""

    def at(self, part: "Part") -> Any:
        """The value of one partition, of what has been cut for it."""
        raise NotImplementedError


class Sent(Distributed):
    """An attrs class of arrays that each partition is given as they are."""

    def at(self, part: "Part") -> Any:
        """The object itself, with all of its arrays."""
        return self


@cache
def field_names(kind: Any) -> tuple[str, ...]:
    """The fields of an attrs class, which are asked for once a task and partition."""
    return tuple(field.name for field in attrs.fields(kind))


def with_arrays(value: Any, change: Callable[[Any], Any]) -> Any:
    """A distributed value or a tuple, its arrays, which may be ``Scattered``, changed."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, tuple):
        return tuple(with_arrays(part, change) for part in value)
    if isinstance(value, Distributed):
        kind: Any = type(value)
        given = {name: getattr(value, name) for name in field_names(kind)}
        return kind(**{name: with_arrays(part, change) for name, part in given.items()})
    return change(value)


def for_rows(value: Any, first: int, last: int) -> Any:
    """What a partition with these rows is given of a distributed value, a tuple or an array."""
    return with_arrays(
        value, lambda own: own.of(first, last) if isinstance(own, Scattered) else own
    )


def values_at(given: Any, part: "Part") -> Any:
    """Distributed values, those in tuples among them, as one partition has them."""
    if isinstance(given, tuple):
        return tuple(values_at(each, part) for each in given)
    return given.at(part) if isinstance(given, Distributed) else given


@attrs.frozen(eq=False)
class PartAttribute(Distributed):
    """What a partition has under a dotted name; the partition itself without one."""

    path: str = ""

    def at(self, part: "Part") -> Any:
        """The attribute of a partition."""
        return operator.attrgetter(self.path)(part) if self.path else part


PART, PROGRAM = PartAttribute(), PartAttribute("program")
LOSS, ENTRIES = PartAttribute("program.loss"), PartAttribute("program.entries")


@attrs.frozen(eq=False)
class PartValue(Distributed):
    """What a function, or a method of what a partition has, returns there: a question to it.

    Of the arguments distributed values are those of the partition.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The name of the question."""
        return str(self.arguments[-1] if self.function is getattr else self.function.__name__)

    def at(self, part: "Part") -> Any:
        """The value of a partition."""
        return self.function(*values_at(self.arguments, part))


@attrs.frozen(eq=False)
class EntryValues(PartValue):
    """One number an entry, as each partition finds its own: no process holds all of them.

    ``size`` counts those of all partitions; a partition keeps some of what it found by ``key``,
    which changes nothing.
    """

    # Of NumPy's numbers times these the product is ours.
    __array_ufunc__ = None

    size: int = attrs.field(kw_only=True)
    key: str = attrs.field(factory=fresh_key, kw_only=True)

    def at(self, part: "Part") -> Array:
        """The values of a partition, found now or kept from before."""
        return part.entry_values(self)

    def find(self, part: "Part") -> Any:
        """The values of a partition, found now."""
        return PartValue.at(self, part)

    def changed(self, function: Callable[..., Array], *arguments: Any) -> "EntryValues":
        """What a function makes of its arguments, as many numbers as these."""
        return EntryValues(function, arguments, size=self.size)

    def __add__(self, other: "EntryValues") -> "EntryValues":
        return self.changed(operator.add, self, other)

    def __sub__(self, other: "EntryValues") -> "EntryValues":
        return self.changed(operator.sub, self, other)

    def __rmul__(self, factor: float) -> "EntryValues":
        if factor == 0.0:
            size = PartAttribute("program.entries.size")
            return EntryValues(np.zeros, (size,), size=self.size, key="zeros")
        return self.changed(operator.mul, float(factor), self)


def predictors(size: int, latent: LowRank) -> EntryValues:
    """The entries of U V'."""
    return EntryValues(Entries.of, (ENTRIES, scattered_rows(latent)), size=size)


def piece_of(k: int) -> PartValue:
    """The piece of the loss of block k."""
    return PartValue(operator.getitem, (PartAttribute("program.loss.pieces"), k))


def entries_of(piece: Any, z: Array) -> EntriesAt:
    """The entries of a block at predictors of all blocks without effects."""
    own = piece.offset_part(z)
    return EntriesAt(piece.effects, piece.likelihood, own, piece.y, piece.scale)


@attrs.frozen(eq=False)
class Least:
    """An answer of which the least is taken where others are added up; the largest by ``-x``."""

    numbers: Array

    def __add__(self, other: "Least") -> "Least":
        return Least(np.minimum(self.numbers, other.numbers))


@attrs.frozen(eq=False)
class ByEffect:
    """Sums by effect as an answer: of columns and an intercept they add up, of rows they join.

    ``sums`` are (how many, effects), effects in the order of a layout, of rows those that there
    are.
    """

    sums: Array
    n_biases: int
    n_intercepts: int

    @classmethod
    def of(cls, layout: Layout, sums: Sequence[Array]) -> "ByEffect":
        """Sums of the entries of a partition, whose layout this is."""
        return cls(np.stack(sums), layout.n_biases, layout.n_intercepts)

    def __add__(self, other: "ByEffect") -> "ByEffect":
        starts = [own.sums.shape[1] - own.n_intercepts for own in (self, other)]
        rows = [
            own.sums[:, own.n_biases : k] for own, k in zip((self, other), starts, strict=True)
        ]
        biases = self.sums[:, : self.n_biases] + other.sums[:, : self.n_biases]
        intercepts = self.sums[:, starts[0] :] + other.sums[:, starts[1] :]
        sums = np.concatenate([biases, *rows, intercepts], axis=1)
        return ByEffect(sums, self.n_biases, self.n_intercepts)
