"""Partitions on the workers of a Dask cluster: pure tasks of a partition and of small arrays."""

import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from operator import itemgetter
from typing import Any

import attrs
import numpy as np

from mcframe.compile.partitions.cluster import (
    arithmetic_of,
    demand_connection,
    environment_here,
    note_on_arithmetic,
    refuse_another_environment,
    workers_of,
)
from mcframe.compile.partitions.costs import FAN, TOGETHER, bytes_at_work
from mcframe.compile.partitions.executor import Partitions, Round, answer_of, tree_sum
from mcframe.compile.partitions.gathering import Gathering, Node
from mcframe.compile.partitions.kept import KeptParts
from mcframe.compile.partitions.part import Source
from mcframe.compile.partitions.values import Distributed, EntryValues, Scattered, fresh_key
from mcframe.compile.partitions.work import Work, bytes_of
from mcframe.contracts.arrays import Array
from mcframe.numerics.scratch import Scratch
from mcframe.numerics.threads import thread_limit

# Arrays of fewer bytes travel with their tasks. Of larger ones so many stay with the workers.
SMALL, STAYING = 4_096, 48
# Rounds after which it is asked anew which workers there are, for those that joined late.
REFRESHED = 25
# Seconds that workers are given to drop their parts at the end of a fit.
LEAVING = 5.0
# The share of a worker's memory that compiled partitions may take, of all fits together; and the
# seconds after which those of a fit that asks no more are dropped: its process may be killed.
KEPT_SHARE, FORGOTTEN = 0.5, 600.0


@attrs.frozen
class Slot:
    """The place of an array in a task that comes as a future."""

    place: int


@attrs.define(eq=False, slots=False)
class OnDask(Partitions):
    """Each round is one task a partition, of what the partition is given and of nothing else.

    An array goes to the cluster once, as a task that returns it: where the worker dies that had
    it, the scheduler runs that task again, as it does with every other. What a worker keeps of
    its partitions makes later rounds fast, and changes none of their answers.
    """

    source: Source
    client: Any
    sent: dict[tuple[int, int], tuple[Array, Any]] = attrs.field(factory=dict)
    begun: Any = None  # its environment and its source, as a future
    homes: list[str] = attrs.field(factory=list)  # the workers that partitions prefer
    arithmetic: dict[str, dict[str, str]] = attrs.field(factory=dict)  # of workers seen so far
    summands: dict[Any, int] = attrs.field(factory=dict)  # bytes of an answer, by outlines
    work: Work = attrs.field(factory=Work)

    def answers_to(self, task: Round) -> tuple[list[Any], Any]:
        """What stands apart, and the sum of ``tree_sum``: by tasks, or of small ones here.

        The first time that no one knows how large summands are, tasks take the sum. What comes
        back then is as large as each of them.
        """
        if (task.apart == "answers" and not task.waiting) or self.adds_here(task):
            apart, summands = zip(*self.answers(task, self.begin), strict=True)
            return list(apart), aligned(tree_sum(summands))
        if task.apart == "nothing":
            [(_, total)] = self.answers(task, lambda task: [self.root_of(self.begin(task))])
            rows = []
        else:
            *rows, total = self.answers(task, self.begin_halves)
        self.summands[outline_of(task)] = bytes_of(total)
        return rows, aligned(total)

    def adds_here(self, task: Round) -> bool:
        """Whether the answers to be added are known to be small together, or there is one."""
        n, size = len(self.rows), self.summands.get(outline_of(task), np.inf)
        return n == 1 or n * size <= TOGETHER

    def answers(self, task: Round, begin: Callable[[Round], list[Node]]) -> list[Any]:
        """The answers of the nodes that a round begins."""
        began = time.perf_counter()
        doing = f"a round of {task.name}"
        demand_connection(self.client, doing)
        try:
            nodes = begin(task)
        except Exception:
            demand_connection(self.client, doing)  # which may be lost meanwhile
            raise
        answers = Gathering(self.client, nodes, doing, self.size_of_partition).answers()
        took = time.perf_counter() - began
        self.work += Work(rounds=1, received=bytes_of(answers), seconds=took)
        while len(self.sent) > STAYING * max(len(self.rows), 1):
            del self.sent[next(iter(self.sent))]
        return answers

    def begin(self, task: Round) -> list[Node]:
        """The answers of all partitions, as futures."""
        if self.begun is None:
            self.begun = self.submitted((environment_here(), self.source))
        if not self.homes or self.work.rounds % REFRESHED == 0:
            self.refresh_homes()
        homes, nodes = self.homes, []
        for p, (first, last) in enumerate(self.rows):
            arrays: list[Any] = []
            cut = self.with_slots(task, arrays, p, first, last)
            self.work += Work(sent=bytes_of(cut))
            # Neighbours share a worker, so that what is added first need not travel.
            home = homes[p * len(homes) // len(self.rows)] if homes else None
            future = self.client.submit(
                answer_in_environment,
                self.begun,
                p,
                cut,
                arrays,
                pure=False,
                key=f"mcframe-{task.name}-{p}-{fresh_key()}",
                workers=None if home is None else [home],
                allow_other_workers=home is not None,
            )
            nodes.append(Node(future, p, p))
        return nodes

    def begin_halves(self, task: Round) -> list[Node]:
        """The first halves of the answers of all partitions, and the sum of the second ones."""
        answers = self.begin(task)
        summands = [self.half_of(answer, 1) for answer in answers]
        return [*(self.half_of(answer, 0) for answer in answers), self.root_of(summands)]

    def half_of(self, answer: Node, k: int) -> Node:
        """One half of an answer, where the answer is."""
        key = f"mcframe-half-{answer.first}-{k}-{fresh_key()}"
        half = self.client.submit(itemgetter(k), answer.future, pure=False, key=key, priority=1)
        return Node(half, answer.first, answer.last, (answer,))

    def root_of(self, nodes: list[Node]) -> Node:
        """The sum of all answers, ``FAN`` neighbours by a task: the bits of a sum pair by pair."""
        while len(nodes) > 1:
            groups = [tuple(nodes[k : k + FAN]) for k in range(0, len(nodes), FAN)]
            nodes = [self.sum_of(group) if len(group) > 1 else group[0] for group in groups]
        return nodes[0]

    def sum_of(self, nodes: tuple[Node, ...]) -> Node:
        """The sum of a few answers, before any other partition begins on its worker."""
        future = self.client.submit(
            sum_in_environment,
            self.begun,
            [node.future for node in nodes],
            pure=False,
            key=f"mcframe-sum-{nodes[0].first}-{nodes[-1].last}-{fresh_key()}",
            priority=1,
        )
        return Node(future, nodes[0].first, nodes[-1].last, nodes)

    def with_slots(self, value: Any, arrays: list[Any], p: int, first: int, last: int) -> Any:
        """A task for one partition, its larger arrays taken out into ``arrays``."""
        if isinstance(value, Scattered):
            return self.slot(value.array, value.of(first, last), arrays, p)
        if isinstance(value, np.ndarray):
            return self.slot(value, value, arrays, -1)
        if isinstance(value, tuple):
            return tuple(self.with_slots(part, arrays, p, first, last) for part in value)
        if isinstance(value, Distributed):
            return rebuilt(value, lambda part: self.with_slots(part, arrays, p, first, last))
        return value

    def slot(self, array: Any, own: Any, arrays: list[Any], p: int) -> Any:
        """A partition's own part of an array, or its place among those that come as futures."""
        if own.nbytes <= SMALL:
            return own
        key = (id(array), p)
        if key not in self.sent:
            self.sent[key] = (array, self.submitted(own))
            self.work += Work(sent=own.nbytes)
        else:  # asked for again: among those that stay
            self.sent[key] = self.sent.pop(key)
        arrays.append(self.sent[key][1])
        return Slot(len(arrays) - 1)

    def forget(self, value: Any) -> None:
        """Drop what was sent of the arrays of a value: these are not asked for again."""
        if isinstance(value, np.ndarray):
            self.sent.pop((id(value), -1), None)
        elif isinstance(value, Distributed):
            kind: Any = type(value)
            for field in attrs.fields(kind):
                self.forget(getattr(value, field.name))

    def submitted(self, value: Any) -> Any:
        """A value on the cluster, which the scheduler can make again."""
        return self.client.submit(identity, value, pure=False)

    def refresh_homes(self) -> None:
        """Look again which workers there are, unless the scheduler is slow to say so.

        The first time that some compute for another processor a warning says so.
        """
        self.homes = sorted(workers_of(self.client) or self.homes)
        fresh, noted = set(self.homes) - self.arithmetic.keys(), self.notes
        if fresh:
            self.arithmetic.update(arithmetic_of(self.client, fresh))
        if self.notes and not noted:
            warnings.warn(self.notes[0], UserWarning, stacklevel=2)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a fit says of the workers."""
        note = note_on_arithmetic(self.arithmetic)
        return () if note is None else (note,)

    def size_of_partition(self) -> float:
        """The bytes that the largest partition takes of a worker."""
        model, data = self.source.model, self.source.data
        return max(bytes_at_work(model, data, p) for p in range(len(self.rows)))

    def bound_to(self, source: Source) -> "OnDask":
        """An executor of another source on the same cluster."""
        return OnDask(source, self.client, arithmetic=self.arithmetic, work=self.work)

    def close(self) -> None:
        """Have workers drop their parts; one that is gone has none, one that hangs is left."""
        if self.client.status == "running":
            with suppress(Exception):
                key = self.source.key_of_tables
                self.client.run(leave_worker, key, on_error="ignore", callback_timeout=LEAVING)


def identity(value: Any) -> Any:
    """The value itself: as a task it can be run again where it was lost."""
    return value


def rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """The object with its fields changed."""
    kind = type(value)
    fields = {field.name: getattr(value, field.name) for field in attrs.fields(kind)}
    return kind(**{name: change(part) for name, part in fields.items()})


def filled(value: Any, arrays: list[Array]) -> Any:
    """A task with its arrays in their places."""
    if isinstance(value, Slot):
        return aligned(arrays[value.place])
    if isinstance(value, tuple):
        return tuple(filled(part, arrays) for part in value)
    if isinstance(value, Distributed):
        return rebuilt(value, lambda part: filled(part, arrays))
    return value


def aligned(value: Any) -> Any:
    """Numbers, arrays, tuples and answers, arrays as the process that made them had them.

    What the network brings may begin at any byte. NumPy computes with a copy of that whose rows
    and columns may stand in the other order, and BLAS then adds up in another one.
    """
    if isinstance(value, np.ndarray):
        return np.require(value, requirements=["ALIGNED"])
    if isinstance(value, tuple):
        return tuple(map(aligned, value))
    return rebuilt(value, aligned) if attrs.has(type(value)) else value


def outline_of(value: Any) -> Any:
    """What the sizes of an answer depend on: the task's kind, shapes, whole numbers and names.

    Entry values are left out: they are found within the partitions.
    """
    if isinstance(value, np.ndarray):
        return value.shape
    if isinstance(value, Scattered):
        return value.array.shape
    if isinstance(value, tuple):
        return tuple(map(outline_of, value))
    if isinstance(value, Distributed) and not isinstance(value, EntryValues):
        kind: Any = type(value)
        return kind, *(outline_of(getattr(value, field.name)) for field in attrs.fields(kind))
    if callable(value):
        return value.__module__, value.__qualname__
    return value if isinstance(value, int | str) else None


@attrs.define(eq=False)
class KeptByFit:
    """The parts that a process keeps as a worker, those of each fit by themselves.

    All together they take a share of its memory: who comes later finds what others leave, and has
    the rest of its parts in a file.
    """

    fits: dict[str, KeptParts] = attrs.field(factory=dict)

    @property
    def compiled(self) -> int:
        """How often a partition was, of the fits that are known."""
        return sum(kept.compiled for kept in self.fits.values())

    def of(self, source: Source, worker: Any) -> KeptParts:
        """The parts of the fit that a source belongs to, with the memory that they have now."""
        key, now = source.key_of_tables, time.monotonic()
        if key not in self.fits:
            scratch = Scratch(source.scratch or worker.local_directory)
            scratch.check(f" on worker {worker.address}")
            self.fits[key] = KeptParts(scratch=scratch)
        kept = self.fits[key]
        kept.asked = now
        for other in [k for k, fit in self.fits.items() if now - fit.asked > FORGOTTEN]:
            self.fits.pop(other).close()
        if kept.scratch is not None:  # which one that is closed has no more
            limit = worker.memory_manager.memory_limit or np.inf
            others = sum(f.held + f.read for f in self.fits.values() if f is not kept)
            kept.most = KEPT_SHARE * limit - others
        return kept


KEPT, ONE_AT_A_TIME = KeptByFit(), threading.Lock()


def answer_in_environment(
    begun: tuple[dict[str, str], Source], p: int, task: Round, arrays: list[Array]
) -> Any:
    """The answer of a partition, of a worker that computes with what the fit computes with.

    Workers that join late are seen here alone.
    """
    environment, source = begun
    refuse_another_environment(environment)
    return answer_on_worker(source, p, task, arrays)


def sum_in_environment(begun: tuple[dict[str, str], Source], answers: list[Any]) -> Any:
    """The sum of answers, of a worker that computes with what the fit computes with."""
    refuse_another_environment(begun[0])
    return tree_sum(answers)


def answer_on_worker(source: Source, p: int, task: Round, arrays: list[Array]) -> Any:
    """The answer of a partition, one at a time in a process: its loops share its threads."""
    from distributed import get_worker

    worker = get_worker()
    with (
        ONE_AT_A_TIME,
        thread_limit(worker.state.nthreads),
        KEPT.of(source, worker).borrowed(source, p) as part,
    ):
        return answer_of(filled(task, arrays), part)


def leave_worker(key: str) -> None:
    """Drop the parts of a fit that this process has kept as a worker, unless it works for long."""
    if key in KEPT.fits and ONE_AT_A_TIME.acquire(timeout=LEAVING):
        try:
            KEPT.fits[key].close()
        finally:
            ONE_AT_A_TIME.release()
