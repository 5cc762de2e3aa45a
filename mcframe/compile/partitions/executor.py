"""Who computes the parts: one after the other in this process."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.partitions.kept import KeptParts
from mcframe.compile.partitions.numbers import Cut, for_rows
from mcframe.compile.partitions.part import Part, Source
from mcframe.compile.partitions.work import Work
from mcframe.contracts.arrays import Array
from mcframe.numerics.machine import check_time
from mcframe.numerics.threads import blas_alone

__all__ = ["OneByOne", "Partitions", "Task", "added", "answer_of", "tree_sum"]


class Task(Cut, ABC):
    """What every partition is asked: an attrs class whose ``ByRows`` fields are cut by rows."""

    @abstractmethod
    def of(self, part: Part) -> Any:
        """The answer of one partition: numbers, arrays, or tuples of them."""


def answer_of(task: Task, part: Part) -> Any:
    """The answer of a part to a task that is cut for it, by the same sums in every process."""
    with blas_alone(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return task.of(part)


class Partitions(ABC):
    """A map over the partitions of a table, with sums of what comes back.

    Sums are taken pair by pair in a tree, in the order of the partitions: the same bits whoever
    computes the summands, and whenever they arrive.
    """

    source: Source
    work: Work

    @property
    def notes(self) -> tuple[str, ...]:
        """What a fit says of those who compute: here nothing."""
        return ()

    @cached_property
    def rows(self) -> list[tuple[int, int]]:
        """The rows of each partition."""
        return [self.source.data.rows(p) for p in range(self.source.data.n_partitions)]

    @abstractmethod
    def each(self, task: Task) -> list[Any]:
        """The answers of all partitions, in their order."""

    @abstractmethod
    def sum(self, task: Task) -> Any:
        """The sum of the answers, as ``tree_sum`` takes it."""

    @abstractmethod
    def rows_and_sum(self, task: Task) -> tuple[list[Any], Any]:
        """The first halves of the answers, which are pairs, and the sum of the second ones."""

    def concatenate(self, task: Task) -> Array:
        """The answers, one row an item, below each other."""
        return np.concatenate(self.each(task))

    @abstractmethod
    def bound_to(self, source: Source) -> "Partitions":
        """Return an executor of another source, which holds no part yet."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the source alone: parts are made again, and a cluster is left behind."""
        return OneByOne, (self.source, KeptParts(most=0.0))

    @abstractmethod
    def close(self) -> None:
        """Give back what the parts take; they can be asked still, each made anew."""


@attrs.define(eq=False, slots=False)
class OneByOne(Partitions):
    """Parts in this process, one after the other; ``kept`` says which of them stay, and where."""

    source: Source
    kept: KeptParts = attrs.field(factory=KeptParts)
    work: Work = attrs.field(factory=Work)

    def each(self, task: Task) -> list[Any]:
        """The answers of all partitions, in their order."""
        return list(self.answers(task))

    def sum(self, task: Task) -> Any:
        """The sum of the answers, added as they come: some log2 P sums are held, no P answers."""
        return tree_sum(self.answers(task))

    def rows_and_sum(self, task: Task) -> tuple[list[Any], Any]:
        """The first halves of the answers, which are pairs, and the sum of the second ones."""
        apart = []

        def summands() -> Iterator[Any]:
            for own, summand in self.answers(task):
                apart.append(own)
                yield summand

        total = tree_sum(summands())
        return apart, total

    def answers(self, task: Task) -> Iterator[Any]:
        """The answers of all partitions, one after the other: a round when all are taken."""
        compiled = self.kept.compiled
        for p, (first, last) in enumerate(self.rows):
            check_time()
            with self.kept.borrowed(self.source, p, self.n_ahead[p]) as part:
                answer = answer_of(for_rows(task, first, last), part)
            yield answer
            del answer  # a sum holds it, or nobody
        self.work += Work(rounds=1, compiled=self.kept.compiled - compiled)

    @cached_property
    def n_ahead(self) -> list[int]:
        """The entries of all partitions behind each one."""
        counts = [self.source.data.n_entries(p) for p in range(len(self.rows))]
        total = sum(counts)
        return [total - seen for seen in itertools.accumulate(counts)]

    def bound_to(self, source: Source) -> "OneByOne":
        """An executor of another source, whose parts are kept in the place of these."""
        return OneByOne(source, self.kept, self.work)

    def close(self) -> None:
        """Give back what the parts take."""
        self.kept.close()


def tree_sum(values: Iterable[Any]) -> Any:
    """The sum, neighbours first: ((a + b) + (c + d)) + e.

    Each value is added as it comes: of n values at most log2 n + 1 sums are held at once. Aligned
    groups of 2, 4, 8, ... neighbours may be added first, by whoever has them, to the same bits.
    """
    sums: list[tuple[int, Any]] = []  # of 2^level neighbours each, levels falling
    for value in values:
        level = 0
        while sums and sums[-1][0] == level:
            value, level = added(sums.pop()[1], value), level + 1
        sums.append((level, value))
    total = sums.pop()[1]
    while sums:
        total = added(sums.pop()[1], total)
    return total


def added(first: Any, second: Any) -> Any:
    """The sum of two answers, tuples part by part."""
    if isinstance(first, tuple):
        return tuple(added(a, b) for a, b in zip(first, second, strict=True))
    with np.errstate(over="ignore", invalid="ignore"):  # far from where a loss is finite
        return None if first is None else first + second
