"""Partitions on the workers of a Dask cluster: pure tasks of a partition and of small arrays."""

import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.compile.partitions.executor import Partitions, Task, answer_of
from mcframe.compile.partitions.numbers import ByRows, Cut, fresh_key
from mcframe.compile.partitions.part import BYTES_PER_ENTRY, Part, Source
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import BackendError, McframeError
from mcframe.numerics.machine.clock import check_time
from mcframe.numerics.machine.threads import thread_limit

__all__ = ["OnDask", "checked_client"]

# Arrays of fewer bytes travel with their tasks. Of larger ones so many stay with the workers.
SMALL, STAYING = 4_096, 48
# Rounds after which it is asked anew which workers there are, for those that joined late.
REFRESHED = 25
# Seconds between two looks at a round, and without any worker until it is given up.
PATIENCE, DESERTED = 1.0, 60.0
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
    begun: Any = None  # the source, as a future
    homes: list[str] = attrs.field(factory=list)  # the workers that partitions prefer
    rounds: int = 0

    def each(self, task: Task) -> list[Any]:
        """The answers of all partitions, in their order."""
        if self.begun is None:
            self.begun = self.submitted(self.source)
        if self.rounds % REFRESHED == 0:
            self.homes = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        self.rounds += 1
        homes, futures = self.homes, []
        for p, (first, last) in enumerate(self.rows):
            arrays: list[Any] = []
            cut = self.with_slots(task, arrays, p, first, last)
            home = homes[p % len(homes)] if homes else None
            futures.append(
                self.client.submit(
                    answer_on_worker,
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
        answers = self.gathered(futures, task)
        while len(self.sent) > STAYING * max(len(self.rows), 1):
            del self.sent[next(iter(self.sent))]
        return answers

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
        else:  # asked for again: among those that stay
            self.sent[key] = self.sent.pop(key)
        arrays.append(self.sent[key][1])
        return Slot(len(arrays) - 1)

    def submitted(self, value: Any) -> Any:
        """A value on the cluster, which the scheduler can make again."""
        return self.client.submit(identity, value, pure=False)

    def gathered(self, futures: list[Any], task: Task) -> list[Any]:
        """The answers; where one cannot be had, an error that says what was lost."""
        wait: Any = importlib.import_module("distributed").wait
        waited = 0.0
        while True:
            check_time()
            self.demand_connection(task)
            try:
                wait(futures, timeout=PATIENCE)
            except TimeoutError:
                waited = 0.0 if self.client.scheduler_info()["workers"] else waited + PATIENCE
                if waited > DESERTED:
                    raise BackendError(
                        f"the cluster has had no worker for {DESERTED:.0f} s, in a round of"
                        f" {type(task).__name__}; start workers, and go on with start= or from"
                        " the checkpoint"
                    ) from None
                continue
            break
        if all(future.status == "finished" for future in futures):
            found: list[Any] = self.client.gather(futures)
            return found
        answers = []
        for p, future in enumerate(futures):
            try:
                answers.append(future.result())
            except McframeError:
                raise
            except Exception as error:
                self.demand_connection(task)
                raise BackendError(
                    f"partition {p} was lost in a round of {type(task).__name__}:"
                    f" {type(error).__name__}: {error}. A partition takes about"
                    f" {BYTES_PER_ENTRY * self.source.data.n_entries(p) / 1e9:.2g} GB of a"
                    " worker; give workers more memory, or the data more partitions"
                ) from error
        return answers

    def demand_connection(self, task: Task) -> None:
        """A ``BackendError`` where the client or its scheduler is gone."""
        if self.client.status != "running":
            raise BackendError(
                f"the client's connection to the scheduler is {self.client.status}, in a round of"
                f" {type(task).__name__}; connect a new client, and go on from the checkpoint"
            )

    def bound_to(self, source: Source) -> "OnDask":
        """An executor of another source on the same cluster."""
        return OnDask(source, self.client)


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


@attrs.define(eq=False)
class Kept:
    """The partitions that this process has compiled, of the source asked for last."""

    lock: Any = attrs.field(factory=threading.Lock)
    key: str = ""
    parts: dict[int, Part] = attrs.field(factory=dict)
    held: int = 0

    def part(self, source: Source, p: int, most: float) -> Part:
        """Partition p, which stays if there is room."""
        if self.key != source.key:
            self.key, self.parts, self.held = source.key, {}, 0
        if p not in self.parts:
            part = source.part(p)
            size = BYTES_PER_ENTRY * part.n_entries
            if self.held + size > most:
                return part
            self.parts[p], self.held = part, self.held + size
        return self.parts[p]


KEPT = Kept()


def answer_on_worker(source: Source, p: int, task: Task, arrays: list[Array]) -> Any:
    """The answer of a partition, one at a time in a process: its loops share its threads."""
    from distributed import get_worker

    worker = get_worker()
    limit = worker.memory_manager.memory_limit or np.inf
    with KEPT.lock, thread_limit(worker.state.nthreads):
        return answer_of(filled(task, arrays), KEPT.part(source, p, KEPT_SHARE * limit))
