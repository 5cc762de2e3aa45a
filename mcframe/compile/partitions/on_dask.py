"""Partitions on the workers of a Dask cluster: pure tasks of a partition and of small arrays."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
import numpy as np

from mcframe.compile.partitions.cluster import (
    demand_connection,
    environment_here,
    refuse_another_environment,
    workers_of,
)
from mcframe.compile.partitions.executor import Partitions, Task, answer_of
from mcframe.compile.partitions.gathering import Gathering
from mcframe.compile.partitions.kept import KeptParts
from mcframe.compile.partitions.numbers import ByRows, Cut, fresh_key
from mcframe.compile.partitions.part import BYTES_AT_WORK, Source
from mcframe.compile.partitions.work import Work, bytes_of
from mcframe.contracts.arrays import Array
from mcframe.numerics.machine.scratch import Scratch
from mcframe.numerics.machine.threads import thread_limit

__all__ = ["OnDask"]

# Arrays of fewer bytes travel with their tasks. Of larger ones so many stay with the workers.
SMALL, STAYING = 4_096, 48
# Rounds after which it is asked anew which workers there are, for those that joined late.
REFRESHED = 25
# Seconds that workers are given to drop their parts at the end of a fit.
LEAVING = 5.0
# The share of a worker's memory that compiled partitions may take.
KEPT_SHARE = 0.5


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
    rounds: int = 0
    keys: set[str] = attrs.field(factory=set)  # of the sources that workers were asked for
    work: Work = attrs.field(factory=Work)

    def each(self, task: Task) -> list[Any]:
        """The answers of all partitions, in their order."""
        doing = f"a round of {type(task).__name__}"
        demand_connection(self.client, doing)
        try:
            futures = self.begin(task)
        except Exception:
            demand_connection(self.client, doing)  # which may be lost meanwhile
            raise
        answers = Gathering(self.client, futures, doing, self.size_of_partition).answers()
        self.work += Work(rounds=1, received=bytes_of(answers))
        while len(self.sent) > STAYING * max(len(self.rows), 1):
            del self.sent[next(iter(self.sent))]
        return answers

    def begin(self, task: Task) -> list[Any]:
        """The answers of all partitions, as futures."""
        if self.begun is None:
            self.keys.add(self.source.key)
            self.begun = self.submitted((environment_here(), self.source))
        if self.rounds % REFRESHED == 0:
            self.refresh_homes()
        self.rounds += 1
        homes, futures = self.homes, []
        for p, (first, last) in enumerate(self.rows):
            arrays: list[Any] = []
            cut = self.with_slots(task, arrays, p, first, last)
            self.work += Work(sent=bytes_of(cut))
            home = homes[p % len(homes)] if homes else None
            futures.append(
                self.client.submit(
                    answer_in_environment,
                    self.begun,
                    p,
                    cut,
                    arrays,
                    pure=False,
                    key=f"mcframe-{type(task).__name__}-{p}-{fresh_key()}",
                    workers=None if home is None else [home],
                    allow_other_workers=home is not None,
                )
            )
        return futures

    def with_slots(self, value: Any, arrays: list[Any], p: int, first: int, last: int) -> Any:
        """A task for one partition, its larger arrays taken out into ``arrays``."""
        if isinstance(value, ByRows):
            return self.slot(value.array, value.of(first, last), arrays, p)
        if isinstance(value, np.ndarray):
            return self.slot(value, value, arrays, -1)
        if isinstance(value, tuple):
            return tuple(self.with_slots(part, arrays, p, first, last) for part in value)
        if isinstance(value, Cut):
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

    def submitted(self, value: Any) -> Any:
        """A value on the cluster, which the scheduler can make again."""
        return self.client.submit(identity, value, pure=False)

    def refresh_homes(self) -> None:
        """Look again which workers there are, unless the scheduler is slow to say so."""
        self.homes = sorted(workers_of(self.client) or self.homes)

    def size_of_partition(self) -> str:
        """What the largest partition takes of a worker, as a sentence without its end."""
        largest = max(self.source.data.n_entries(p) for p in range(len(self.rows)))
        return f"A partition takes up to {BYTES_AT_WORK * largest / 1e9:.2g} GB of a worker"

    def bound_to(self, source: Source) -> "OnDask":
        """An executor of another source on the same cluster."""
        return OnDask(source, self.client, keys=self.keys, work=self.work)

    def close(self) -> None:
        """Have workers drop their parts; one that is gone has none, one that hangs is left."""
        if self.client.status == "running":
            with suppress(Exception):
                self.client.run(
                    leave_worker, self.keys, on_error="ignore", callback_timeout=LEAVING
                )


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
        return arrays[value.place]
    if isinstance(value, tuple):
        return tuple(filled(part, arrays) for part in value)
    if isinstance(value, Cut):
        return rebuilt(value, lambda part: filled(part, arrays))
    return value


# The parts that this process keeps as a worker, one task at a time.
KEPT, ONE_AT_A_TIME = KeptParts(), threading.Lock()


def answer_in_environment(
    begun: tuple[dict[str, str], Source], p: int, task: Task, arrays: list[Array]
) -> Any:
    """The answer of a partition, of a worker that computes with what the fit computes with.

    Workers that join late are seen here alone.
    """
    environment, source = begun
    refuse_another_environment(environment)
    return answer_on_worker(source, p, task, arrays)


def answer_on_worker(source: Source, p: int, task: Task, arrays: list[Array]) -> Any:
    """The answer of a partition, one at a time in a process: its loops share its threads."""
    from distributed import get_worker

    worker = get_worker()
    limit = worker.memory_manager.memory_limit or np.inf
    with ONE_AT_A_TIME, thread_limit(worker.state.nthreads):
        if KEPT.key != source.key:
            KEPT.forget()
            KEPT.most = KEPT_SHARE * limit
            KEPT.scratch = Scratch(source.scratch or worker.local_directory)
        with KEPT.borrowed(source, p) as part:
            return answer_of(filled(task, arrays), part)


def leave_worker(keys: set[str]) -> None:
    """Drop the parts of a fit that this process has kept as a worker, unless it works for long."""
    if KEPT.key in keys and ONE_AT_A_TIME.acquire(timeout=LEAVING):
        try:
            KEPT.close()
        finally:
            ONE_AT_A_TIME.release()
