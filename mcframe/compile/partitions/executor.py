"""Maps over the partitions of a table, and the one that computes them here, one by one."""

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.partitions.kept import KeptParts
from mcframe.compile.partitions.part import Part, Source
from mcframe.compile.partitions.values import Distributed, PartValue, for_rows, values_at
from mcframe.compile.partitions.work import Work
from mcframe.contracts.arrays import Array
from mcframe.numerics.machine import check_time
from mcframe.numerics.threads import blas_alone


@attrs.frozen(eq=False)
class Round(Distributed):
    """What all partitions are asked at once: one question, and sums that waited for a round.

    Of the former's answers those of all partitions stand ``apart``, or their first "halves", or
    "nothing". What else there is, is added up.
    """

    asked: PartValue
    apart: str = "nothing"
    waiting: tuple[PartValue, ...] = ()

    @property
    def name(self) -> str:
        """The names of all questions."""
        return "+".join(question.name for question in (*self.waiting, self.asked))

    def at(self, part: Part) -> tuple[list[Any], Any]:
        """What stands apart of the answers of a partition, in a list, and its summand."""
        sums, answer = values_at((self.waiting, self.asked), part)
        if self.apart == "nothing":
            return [], (sums, answer)
        own, summand = answer if self.apart == "halves" else (answer, None)
        return [own], (sums, summand)


@attrs.define(eq=False)
class Later:
    """The sum of the answers to a question, asked with the next round or when it is needed.

    ``change`` makes of it what is wanted: a number, or an array.
    """

    partitions: "Partitions"
    asked: PartValue
    change: Callable[[Any], Any] | None
    answer: Any = None
    known: bool = False

    @property
    def value(self) -> Any:
        """What is made of the sum."""
        if not self.known:
            if self in self.partitions.waiting:
                self.partitions.waiting.remove(self)
            self.take(self.partitions.sum(self.asked.function, *self.asked.arguments))
        return self.answer

    def take(self, total: Any) -> None:
        """Take the sum of all answers."""
        self.answer, self.known = total if self.change is None else self.change(total), True

    def __float__(self) -> float:
        return float(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.value, dtype)


def answer_of(task: Round, part: Part) -> tuple[list[Any], Any]:
    """The answer of a part to what is cut for it, by the same sums in every process."""
    with blas_alone(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return task.at(part)


class Partitions(ABC):
    """A map over the partitions of a table, with sums of what comes back.

    Sums are taken pair by pair in a tree, in the order of the partitions: the same bits whoever
    computes the summands, and whenever they arrive.
    """

    source: Source
    work: Work

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of a fit on the processes that compute: here none."""
        return ()

    @cached_property
    def rows(self) -> list[tuple[int, int]]:
        """The rows of each partition."""
        return [self.source.data.rows(p) for p in range(self.source.data.n_partitions)]

    @cached_property
    def waiting(self) -> list[Later]:
        """What is asked with the next round."""
        return []

    def later(
        self,
        question: Callable[..., Any],
        *arguments: Any,
        change: Callable[[Any], Any] | None = None,
    ) -> Later:
        """The sum of the answers, asked for with the next round whatever that is for."""
        self.waiting.append(Later(self, PartValue(question, arguments), change))
        return self.waiting[-1]

    def each(self, question: Callable[..., Any], *arguments: Any) -> list[Any]:
        """The answers of all partitions, in their order."""
        return self.ask("answers", question, arguments)[0]

    def concatenate(self, question: Callable[..., Any], *arguments: Any) -> Array:
        """The answers, one row an item, below each other."""
        return np.concatenate(self.each(question, *arguments))

    def sum(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """The sum of the answers, as ``tree_sum`` takes it."""
        return self.ask("nothing", question, arguments)[1]

    def rows_and_sum(self, question: Callable[..., Any], *arguments: Any) -> tuple[list[Any], Any]:
        """The first halves of the answers, which are pairs, and the sum of the second ones."""
        return self.ask("halves", question, arguments)

    def ask(
        self, apart: str, question: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> tuple[list[Any], Any]:
        """What stands apart of the answers to a question, and the sum, in a round with others."""
        waiting = list(self.waiting)
        self.waiting.clear()
        asked = tuple(own.asked for own in waiting)
        rows, (sums, total) = self.answers_to(Round(PartValue(question, arguments), apart, asked))
        for own, found in zip(waiting, sums, strict=True):
            own.take(found)
        return rows, total

    @abstractmethod
    def answers_to(self, task: Round) -> tuple[list[Any], Any]:
        """What stands apart, in the order of the partitions, and the sum of all summands."""

    @abstractmethod
    def forget(self, value: Any) -> None:
        """Drop what was sent of the arrays of a value: these are not asked for again."""

    @abstractmethod
    def bound_to(self, source: Source) -> "Partitions":
        """Return an executor of another source, which holds no part yet."""

    def alone(self) -> "OneByOne":
        """The executor of the same source in this process, which keeps no part and no cluster."""
        return OneByOne(self.source, KeptParts(most=0.0))

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

    def answers_to(self, task: Round) -> tuple[list[Any], Any]:
        """What stands apart, and the sum, added as answers come: some log2 P sums are held."""
        compiled, began = self.kept.compiled, time.perf_counter()
        found = tree_sum(self.answer(task, p) for p in range(len(self.rows)))
        took = time.perf_counter() - began
        self.work += Work(rounds=1, compiled=self.kept.compiled - compiled, seconds=took)
        return found

    def answer(self, task: Round, p: int) -> tuple[list[Any], Any]:
        """The answer of one partition."""
        check_time()
        with self.kept.borrowed(self.source, p, self.n_ahead[p]) as part:
            return answer_of(for_rows(task, *self.rows[p]), part)

    @cached_property
    def n_ahead(self) -> list[int]:
        """The entries of all partitions behind each one."""
        counts = [self.source.data.n_entries(p) for p in range(len(self.rows))]
        total = sum(counts)
        return [total - seen for seen in itertools.accumulate(counts)]

    def bound_to(self, source: Source) -> "OneByOne":
        """An executor of another source, whose parts are kept in the place of these."""
        return OneByOne(source, self.kept, self.work)

    def forget(self, value: Any) -> None:
        """Drop nothing: in one process nothing is sent."""

    def close(self) -> None:
        """Give back what the parts take."""
        self.kept.close()


def tree_sum(values: Iterable[Any]) -> Any:
    """The sum, neighbours first: ((a + b) + (c + d)) + e; lists are joined.

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
