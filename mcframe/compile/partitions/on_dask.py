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
<<<<<<< HEAD
=======
# Seconds between two looks at a round, and without any worker until it is given up.
PATIENCE, DESERTED = 1.0, 60.0
# Seconds that workers are given to drop their parts at the end of a fit.
LEAVING = 5.0
>>>>>>> e3c0f2f (Partitions: the scratch folder travels with the source; pages say where parts stay and what they take)
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
    begun: Any = None  # a ``Begun``, as a future
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
            self.begun = self.submitted(Begun(environment_here(), self.source, self.scratch))
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
            return self.slot(value.array, arrays, p, slice(first, last))
        if isinstance(value, np.ndarray):
            return self.slot(value, arrays, -1, slice(None))
        if isinstance(value, tuple):
            return tuple(self.with_slots(part, arrays, p, first, last) for part in value)
        if isinstance(value, Cut):
            return rebuilt(value, lambda part: self.with_slots(part, arrays, p, first, last))
        return value

    def slot(self, array: Array, arrays: list[Any], p: int, rows: slice) -> Any:
        """An array, or its place among those that come as futures."""
        own = array[rows]
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
<<<<<<< HEAD
        return OnDask(source, self.client, self.scratch, keys=self.keys, work=self.work)
=======
        return OnDask(source, self.client)
>>>>>>> e3c0f2f (Partitions: the scratch folder travels with the source; pages say where parts stay and what they take)

    def close(self) -> None:
        """Have workers drop their parts; one that is gone has none, one that hangs is left."""
        if self.client.status == "running":
            with suppress(Exception):
<<<<<<< HEAD
                self.client.run(leave_worker, self.keys, on_error="ignore")
=======
                self.client.run(leave_worker, on_error="ignore", callback_timeout=LEAVING)


def checked_client(client: Any) -> Any:
    """The client, or a ``BackendError`` where it is closed or workers run another version."""
    here = version_here()
    if getattr(client, "status", None) != "running":
        raise BackendError(
            f"client={client!r} is not connected; give a distributed.Client that is open"
        )
    found = client.run(version_here)
    others = {name: version for name, version in found.items() if version != here}
    if others:
        name, version = next(iter(others.items()))
        raise BackendError(
            f"worker {name} has mcframe {version}, and this process has {here}"
            f" ({len(others)} of {len(found)} workers differ); install one version on all"
        )
    return client


def version_here() -> str:
    """The version of the package in this process."""
    found: str = sys.modules["mcframe"].__version__  # imported with this file
    return found
>>>>>>> e3c0f2f (Partitions: the scratch folder travels with the source; pages say where parts stay and what they take)


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


<<<<<<< HEAD
@attrs.frozen(eq=False)
class Begun:
    """What every task of a fit is given."""

    environment: dict[str, str]
    source: Source
    scratch: str | None


def answer_in_environment(begun: Begun, p: int, task: Task, arrays: list[Array]) -> Any:
    """The answer of a partition, of a worker that computes with what the fit computes with.

    Workers that join late are seen here alone.
    """
    refuse_another_environment(begun.environment)
    return answer_on_worker(begun.source, p, task, arrays, begun.scratch)


def answer_on_worker(
    source: Source, p: int, task: Task, arrays: list[Array], scratch: str | None
) -> Any:
=======
def answer_on_worker(source: Source, p: int, task: Task, arrays: list[Array]) -> Any:
>>>>>>> e3c0f2f (Partitions: the scratch folder travels with the source; pages say where parts stay and what they take)
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


<<<<<<< HEAD
def leave_worker(keys: set[str]) -> None:
    """Drop the parts that this process has kept as a worker, unless another fit needs them."""
    with ONE_AT_A_TIME:
        if KEPT.key in keys:
            KEPT.close()
=======
def leave_worker() -> None:
    """Drop the parts that this process has kept as a worker, unless it is at work for long."""
    if ONE_AT_A_TIME.acquire(timeout=LEAVING):
        try:
            KEPT.close()
        finally:
            ONE_AT_A_TIME.release()
>>>>>>> e3c0f2f (Partitions: the scratch folder travels with the source; pages say where parts stay and what they take)
