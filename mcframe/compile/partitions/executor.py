"""Who computes the parts: one after the other in this process."""

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
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

__all__ = ["Later", "OneByOne", "Partitions", "Task", "added", "answer_of", "tree_sum"]


def itself(value: Any) -> Any:
    """The value as it is."""
    return value


class Task(Cut, ABC):
    """What every partition is asked: an attrs class whose ``ByRows`` fields are cut by rows."""

    @abstractmethod
    def of(self, part: Part) -> Any:
        """The answer of one partition: numbers, arrays, or tuples of them."""

    @property
    def name(self) -> str:
        """The name of the question."""
        return type(self).__name__


@attrs.frozen(eq=False)
class Question(Task):
    """A function of a part and of arguments, of which ``ByRows`` are cut by rows."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    def of(self, part: Part) -> Any:
        """What the function answers."""
        return self.function(part, *self.arguments)


#: A task, or a function of a part and of arguments that are given with it.
Asked = Task | Callable[..., Any]


def task_of(question: Asked, arguments: tuple[Any, ...]) -> Task:
    """What is asked, as a task."""
    return question if isinstance(question, Task) else Question(question, arguments)


@attrs.frozen(eq=False)
class Several(Task):
    """Questions in one round: some whose answers are added up, and another one.

    Of the latter answers stand ``apart`` from each other, or their first halves do.
    """

    added_up: tuple[Task, ...]
    other: Task
    apart: str = "none"

    @property
    def name(self) -> str:
        """The names of all of them."""
        return "+".join(task.name for task in (*self.added_up, self.other))

    def of(self, part: Part) -> Any:
        """The answers of one partition: a pair where some stand apart."""
        first, last = tuple(task.of(part) for task in self.added_up), self.other.of(part)
        if self.apart == "none":
            return first, last
        own, summand = last if self.apart == "halves" else (last, None)
        return own, (first, summand)


@attrs.define(eq=False)
class Later:
    """The sum of the answers to a question, asked with the next round or when it is needed.

    ``change`` makes of it what is wanted: a number, or an array.
    """

    partitions: "Partitions"
    task: Task
    change: Callable[[Any], Any]
    answer: Any = None
    known: bool = False

    @property
    def value(self) -> Any:
        """What is made of the sum."""
        if not self.known:
            self.partitions.ask(self)
        return self.answer

    def tell(self, total: Any) -> None:
        """Take the sum of all answers."""
        self.answer, self.known = self.change(total), True

    def __float__(self) -> float:
        return float(self.value)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.value, dtype)


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

    @cached_property
    def waiting(self) -> list[Later]:
        """What is asked with the next round."""
        return []

    def later(
        self, question: Asked, *arguments: Any, change: Callable[[Any], Any] = itself
    ) -> Later:
        """The sum of the answers, asked for with the next round whatever that is for."""
        self.waiting.append(Later(self, task_of(question, arguments), change))
        return self.waiting[-1]

    def ask(self, wanted: Later) -> None:
        """Have a sum that was to be asked for later, with all others of these."""
        if wanted in self.waiting:
            self.waiting.remove(wanted)
        wanted.tell(self.sum(wanted.task))

    def each(self, question: Asked, *arguments: Any) -> list[Any]:
        """The answers of all partitions, in their order."""
        task = task_of(question, arguments)
        if not self.waiting:
            return self.in_order(task)
        return self.with_waiting(task, "answers")[0]

    def sum(self, question: Asked, *arguments: Any) -> Any:
        """The sum of the answers, as ``tree_sum`` takes it."""
        task = task_of(question, arguments)
        if not self.waiting:
            return self.added_up(task)
        return self.with_waiting(task, "none")[1]

    def rows_and_sum(self, question: Asked, *arguments: Any) -> tuple[list[Any], Any]:
        """The first halves of the answers, which are pairs, and the sum of the second ones."""
        task = task_of(question, arguments)
        if not self.waiting:
            return self.in_halves(task)
        return self.with_waiting(task, "halves")

    def with_waiting(self, task: Task, apart: str) -> tuple[list[Any], Any]:
        """What a round brings for a task, those apart and the sum, that asks what waits, too."""
        waiting = list(self.waiting)
        self.waiting.clear()
        together = Several(tuple(own.task for own in waiting), task, apart)
        rows: list[Any] = []
        if apart == "none":
            sums, total = self.added_up(together)
        else:
            rows, (sums, total) = self.in_halves(together)
        for own, found in zip(waiting, sums, strict=True):
            own.tell(found)
        return rows, total

    def concatenate(self, question: Asked, *arguments: Any) -> Array:
        """The answers, one row an item, below each other."""
        return np.concatenate(self.each(question, *arguments))

    @abstractmethod
    def in_order(self, task: Task) -> list[Any]:
        """The answers of a round of one task, in the order of the partitions."""

    @abstractmethod
    def added_up(self, task: Task) -> Any:
        """The sum of the answers of a round of one task."""

    @abstractmethod
    def in_halves(self, task: Task) -> tuple[list[Any], Any]:
        """The first halves of the answers of a round of one task, and the sum of the second."""

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

    def in_order(self, task: Task) -> list[Any]:
        """The answers of all partitions, in their order."""
        return list(self.answers(task))

    def added_up(self, task: Task) -> Any:
        """The sum of the answers, added as they come: some log2 P sums are held, no P answers."""
        return tree_sum(self.answers(task))

    def in_halves(self, task: Task) -> tuple[list[Any], Any]:
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
        compiled, took = self.kept.compiled, 0.0
        for p, (first, last) in enumerate(self.rows):
            check_time()
            began = time.perf_counter()
            with self.kept.borrowed(self.source, p, self.n_ahead[p]) as part:
                answer = answer_of(for_rows(task, first, last), part)
            took += time.perf_counter() - began
            yield answer
            del answer  # a sum holds it, or nobody
        self.work += Work(rounds=1, compiled=self.kept.compiled - compiled, seconds=took)

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
