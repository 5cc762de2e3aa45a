"""Maps over the partitions of a table, and the one that computes them here, one by one."""

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property
from typing import Any, ClassVar
from weakref import WeakSet

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.model.table import Table
from mcframe.partitions.part import (
    ARRAYS_KEPT,
    NUMBER_BYTES,
    Distributed,
    Part,
    PartValue,
    Source,
    for_rows,
    values_at,
)
from mcframe.runtime.machine import blas_alone, check_time, memory_gigabytes
from mcframe.runtime.progress import current
from mcframe.runtime.scratch import Scratch, Stored, packed
from mcframe.runtime.work import Work

# The share of the available memory from which rows of the answers to one question go into a file.
ROWS_MEMORY_SHARE = 0.01

# Why a file holds none of the rows, and what to do instead.
WHY_NOT_STORED = (
    "its rows are in partitions, which stay where they are; give checkpoint= to mc.posterior,"
    " which goes on from it with the same data"
)


def bytes_of(value: Any) -> int:
    """The bytes of all arrays and numbers in a task or an answer, each array counted once."""
    arrays: dict[int, int] = {}

    def visit(part: Any) -> int:
        if isinstance(part, np.ndarray):
            arrays[id(part)] = part.nbytes
            return 0
        if isinstance(part, tuple | list):
            return sum(map(visit, part))
        if attrs.has(type(part)):
            return sum(visit(getattr(part, field.name)) for field in attrs.fields(type(part)))
        return NUMBER_BYTES * isinstance(part, bool | int | float | np.number)

    numbers = visit(value)
    return numbers + sum(arrays.values())


@attrs.define(eq=False)
class PartCache:
    """Compiled partitions of the source asked for last: the first in memory, others in a file.

    Tables that were read before all was known that compiling needs stay in memory until then, as
    far as memory allows; what is compiled comes first.

    Attributes
    ----------
    max_bytes : float
        The bytes of those that stay in memory.
    scratch : Scratch or None
        The file of the others; None where these are read and compiled anew in each round.
    """

    max_bytes: float = np.inf
    scratch: Scratch | None = None
    key: str = ""
    parts: dict[int, Part] = attrs.field(factory=dict)
    stored: dict[int, "StoredPart"] = attrs.field(factory=dict)
    held_bytes: int = 0
    compiled: int = 0  # how often a partition was
    table_key: str = ""
    tables: dict[int, Mapping[str, Table]] = attrs.field(factory=dict)
    table_bytes: int = 0  # the bytes of these tables
    last_used: float = 0.0  # a moment of ``time.monotonic``, of those that a worker keeps

    @contextmanager
    def borrowed(self, source: Source, p: int, n_ahead: int = 0) -> Iterator[Part]:
        """Partition p while it is asked something.

        What it has found by then is kept with it. ``n_ahead`` are the entries of partitions that
        are known to come here after it: space is left for them, too.
        """
        self.switch_to(source)
        if source.totals is None:
            looked_at = source.part(p, self.tables.get(p))
            yield looked_at
            self.keep_tables(looked_at)
            return
        stored = self.stored.get(p)
        part = self.parts.get(p) or (None if stored is None else stored.part(source))
        if part is None:
            part = source.part(p, self.pop_tables(p))
            self.compiled += 1
        yield part
        part.drop_tables()
        if stored is not None:
            stored.keep(part)
        elif p not in self.parts:
            self.take(part, n_ahead)

    def switch_to(self, source: Source) -> None:
        """Drop what was kept of another source, but for tables that are those of this one."""
        if self.key == source.key:
            return
        tables, read = self.tables, self.table_bytes
        self.forget()
        if self.table_key == source.key_of_tables:
            self.tables, self.table_bytes = tables, read
        self.key, self.table_key = source.key, source.key_of_tables

    def keep_tables(self, part: Part) -> None:
        """Keep the tables of a part where memory allows."""
        size = bytes_of_tables(part.tables)
        if part.p not in self.tables and self.table_bytes + size <= self.max_bytes:
            self.tables[part.p], self.table_bytes = part.tables, self.table_bytes + size

    def pop_tables(self, p: int) -> Mapping[str, Table] | None:
        """The tables of partition p if they were kept, which they are no more."""
        tables = self.tables.pop(p, None)
        self.table_bytes -= 0 if tables is None else bytes_of_tables(tables)
        return tables

    def take(self, part: Part, n_ahead: int) -> None:
        """Keep a part that was compiled just now."""
        packed_program = packed(part.program, part.source.words)
        n_entries = part.source.data.n_entries(part.p)
        numbers = NUMBER_BYTES * ARRAYS_KEPT * part.program.n_numbers
        size = packed_program.n_bytes + numbers
        if self.held_bytes + size <= self.max_bytes:
            # Tables that are wanted last go first.
            while self.held_bytes + size + self.table_bytes > self.max_bytes:
                self.pop_tables(next(reversed(self.tables)))
            self.parts[part.p], self.held_bytes = part, self.held_bytes + size
        elif self.scratch is not None:
            ahead = size * n_ahead // max(n_entries, 1)
            place = self.scratch.put(packed_program, spare=numbers, ahead=ahead)
            stored = StoredPart(self.scratch, part.p, place)
            stored.keep(part)
            self.stored[part.p] = stored

    def forget(self) -> None:
        """Drop all parts, and free their memory."""
        self.parts, self.stored, self.held_bytes = {}, {}, 0
        self.tables, self.table_bytes = {}, 0
        if self.scratch is not None:
            self.scratch.close()

    def close(self) -> None:
        """Drop all parts; those that are asked for from now on are not kept."""
        self.forget()
        self.max_bytes, self.scratch = 0.0, None


def bytes_of_tables(tables: Mapping[str, Table]) -> int:
    """The bytes of arrays of tables, those over the pages of a file among them."""
    return bytes_of(tuple(tables.values()))


@attrs.define(eq=False)
class StoredPart:
    """A compiled partition in a file, and which of its numbers stand where behind it."""

    scratch: Scratch
    p: int
    place: Stored
    slots: dict[str, int] = attrs.field(factory=dict)

    def part(self, source: Source) -> Part:
        """The partition over the pages of the file."""
        program, spare = self.scratch.get(self.place, source.words)
        part, size = Part(source, self.p), 8 * program.n_numbers
        part.program = program
        for key, slot in self.slots.items():
            part.kept[key] = np.frombuffer(spare[slot * size : (slot + 1) * size])
        return part

    def keep(self, part: Part) -> None:
        """Write the numbers that the part has found; they take the places of those that it forgot.

        Interrupted anywhere, no name stands for a place that holds other numbers.
        """
        self.slots = {key: slot for key, slot in self.slots.items() if key in part.kept}
        free = sorted(set(range(ARRAYS_KEPT)) - set(self.slots.values()))
        for key, numbers in part.kept.items():
            if key not in self.slots:
                slot = free.pop(0)
                self.write(slot, np.ascontiguousarray(numbers))
                self.slots[key] = slot
        self.slots = {key: self.slots[key] for key in part.kept}  # the order is that of their use

    def write(self, slot: int, numbers: Array) -> None:
        """Write the numbers of one place."""
        start = self.place.start + self.place.spare
        self.scratch.write(start + slot * numbers.nbytes, numbers.data)


@attrs.frozen(eq=False)
class Round(Distributed):
    """The questions to all partitions in one round: one, and sums that waited for a round.

    Of the former's answers those of all partitions stand ``apart``, or their first "halves", or
    "nothing". Of "rows", which are first halves, and of an "array" the executor stores what comes
    in one array by rows. What else there is, is added up.
    """

    asked: PartValue
    apart: str = "nothing"
    waiting: tuple[PartValue, ...] = ()

    @property
    def name(self) -> str:
        """The names of all questions."""
        return "+".join(question.name for question in (*self.waiting, self.asked))

    def at(self, part: Part) -> tuple[list[Any], Any]:
        """The part of a partition's answer that is not added up, in a list, and its summand."""
        sums, answer = values_at((self.waiting, self.asked), part)
        if self.apart == "nothing":
            return [], (sums, answer)
        separate, summand = (answer, None) if self.apart in ("answers", "array") else answer
        return [separate], (sums, summand)


@attrs.define(eq=False)
class DeferredSum:
    """The sum of the answers to a question, asked with the next round or when it is needed.

    ``change`` makes of it what is wanted: a number, or an array.
    """

    partitions: "Partitions"
    asked: PartValue | None  # None once it is answered: it holds factors of a point
    change: Callable[[Any], Any] | None
    answer: Any = None

    @property
    def value(self) -> Any:
        """The sum, after ``change``."""
        if self.asked is not None:
            if self in self.partitions.waiting:
                self.partitions.waiting.remove(self)
            self.take(self.partitions.sum(self.asked.function, *self.asked.arguments))
        return self.answer

    def take(self, total: Any) -> None:
        """Take the sum of all answers."""
        self.answer = total if self.change is None else self.change(total)
        self.asked = self.change = None

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
    why_not_stored: ClassVar[str] = WHY_NOT_STORED

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of a fit on the processes that compute: here none."""
        return ()

    @cached_property
    def rows(self) -> list[tuple[int, int]]:
        """The rows of each partition."""
        return [self.source.data.rows(p) for p in range(self.source.data.n_partitions)]

    @cached_property
    def stored_rows(self) -> "WeakSet[Any]":
        """The rows that are held here and still in use."""
        return WeakSet()

    @abstractmethod
    def secure(self, rows: Any) -> None:
        """See to it that stored rows are not lost with much work."""

    @cached_property
    def waiting(self) -> list[DeferredSum]:
        """The sums that come with the next round."""
        return []

    def later(
        self,
        question: Callable[..., Any],
        *arguments: Any,
        change: Callable[[Any], Any] | None = None,
    ) -> DeferredSum:
        """The sum of the answers, asked for with the next round whatever that is for."""
        self.waiting.append(DeferredSum(self, PartValue(question, arguments), change))
        return self.waiting[-1]

    def map_partitions(self, question: Callable[..., Any], *arguments: Any) -> list[Any]:
        """The answers of all partitions, in their order."""
        return self.ask("answers", question, arguments)[0]

    def concatenate(self, question: Callable[..., Any], *arguments: Any) -> Array:
        """The answers, one row an item, below each other: in a file if they take much memory."""
        array: Array = self.ask("array", question, arguments)[0][0]
        return array

    def sum(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """The sum of the answers, as ``tree_sum`` takes it."""
        return self.ask("nothing", question, arguments)[1]

    def rows_and_sum(self, question: Callable[..., Any], *arguments: Any) -> tuple[list[Any], Any]:
        """The first halves of the answers, which are pairs, and the sum of the second ones."""
        return self.ask("halves", question, arguments)

    def stored_rows_and_sum(
        self, question: Callable[..., Any], *arguments: Any
    ) -> tuple[Any, Any]:
        """First halves of pairs, a row an item, as one array that tasks cut, and a sum.

        That is the sum of the second halves.
        """
        [rows], total = self.ask("rows", question, arguments)
        return rows, total

    def ask(
        self, apart: str, question: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> tuple[list[Any], Any]:
        """The answers to a question that are not added up, and the sum of the others."""
        waiting = list(self.waiting)
        self.waiting.clear()
        asked = tuple(d.asked for d in waiting if d.asked is not None)
        rows, (sums, total) = self.answers_to(Round(PartValue(question, arguments), apart, asked))
        for deferred, deferred_total in zip(waiting, sums, strict=True):
            deferred.take(deferred_total)
        return rows, total

    @abstractmethod
    def answers_to(self, task: Round) -> tuple[list[Any], Any]:
        """The answers that are not added up, by partitions, and the sum of all summands."""

    @abstractmethod
    def forget(self, value: Any) -> None:
        """Drop what was sent of the arrays of a value: these are not asked for again."""

    @abstractmethod
    def bound_to(self, source: Source) -> "Partitions":
        """Return an executor of another source, which holds no part yet."""

    def alone(self) -> "OneByOne":
        """The executor of the same source in this process, which keeps no part and no cluster."""
        return OneByOne(self.source, PartCache(max_bytes=0.0))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the source alone: parts are made again, and a cluster is left behind."""
        return OneByOne, (self.source, PartCache(max_bytes=0.0))

    @abstractmethod
    def close(self) -> None:
        """Give back what the parts take; they can be asked still, each made anew."""


@attrs.define(eq=False)
class ArrayByRows:
    """An array that is stored row by row: in memory or, where it is large, in a file."""

    n_rows: int
    stored: int = 0  # rows until now
    array: Array = attrs.field(factory=lambda: np.zeros(0))
    scratch: Scratch | None = None

    def take(self, answer: tuple[list[Any], Any]) -> tuple[list[Any], Any]:
        """Store the rows of the next partitions, and pass on what is added up."""
        blocks, summand = answer
        for rows in blocks:
            if not self.stored:
                self.begin(rows)
            if self.scratch is not None:
                start = self.stored * rows[0].nbytes
                self.scratch.write(start, np.ascontiguousarray(rows).data)
            else:
                self.array[self.stored : self.stored + len(rows)] = rows
            self.stored += len(rows)
            if self.scratch is not None and self.stored == self.n_rows:
                self.array = self.scratch.array((self.n_rows, *rows.shape[1:]), rows.dtype)
        return [], summand

    def close(self) -> None:
        """Close the file, whose pages stay as long as the array."""
        if self.scratch is not None:
            self.scratch.close()

    def begin(self, rows: Array) -> None:
        """Make room for all rows, of the kind of the first ones."""
        n_bytes = self.n_rows * rows[0].nbytes
        if n_bytes > ROWS_MEMORY_SHARE * 1e9 * memory_gigabytes():
            self.scratch = Scratch()
            self.scratch.demand_space(n_bytes)
        else:
            self.array = np.empty((self.n_rows, *rows.shape[1:]), rows.dtype)


@attrs.define(eq=False, slots=False)
class OneByOne(Partitions):
    """Parts in this process, one after the other; ``kept`` says which of them stay, and where."""

    source: Source
    kept: PartCache = attrs.field(factory=PartCache)
    work: Work = attrs.field(factory=Work)

    def answers_to(self, task: Round) -> tuple[list[Any], Any]:
        """The answers and the sum, added as answers come: some log2 P sums are held."""
        compiled, began = self.kept.compiled, time.perf_counter()
        answers = (self.answer(task, p) for p in range(len(self.rows)))
        if task.apart in ("rows", "array"):
            with closing(ArrayByRows(self.rows[-1][1])) as by_rows:
                _, total = tree_sum(map(by_rows.take, answers))
            rows = [by_rows.array]
        else:
            rows, total = tree_sum(answers)
        took = time.perf_counter() - began
        self.work += Work(rounds=1, compiled=self.kept.compiled - compiled, seconds=took)
        return rows, total

    def answer(self, task: Round, p: int) -> tuple[list[Any], Any]:
        """The answer of one partition."""
        check_time()
        round_at = f"round {self.work.rounds + 1}, partition {p + 1} of {len(self.rows)}"
        current().begin(round_at)
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

    def secure(self, rows: Any) -> None:
        """Nothing: rows in this process are lost with it alone."""

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
            value, level = add_answers(sums.pop()[1], value), level + 1
        sums.append((level, value))
    total = sums.pop()[1]
    while sums:
        total = add_answers(sums.pop()[1], total)
    return total


def add_answers(first: Any, second: Any) -> Any:
    """The sum of two answers, tuples part by part."""
    if isinstance(first, tuple):
        return tuple(add_answers(a, b) for a, b in zip(first, second, strict=True))
    with np.errstate(over="ignore", invalid="ignore"):  # far from where a loss is finite
        return None if first is None else first + second
