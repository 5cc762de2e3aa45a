"""The answers of one round of tasks on a cluster: waited for as long as something goes on."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future as Asked
from contextlib import suppress
from typing import Any

import attrs

from mcframe.compile.partitions.cluster import (
    demand_connection,
    ended_for_memory,
    environment_refused,
    repeat_tasks,
    workers_of,
)
from mcframe.compile.partitions.work import in_bytes
from mcframe.contracts.errors import BackendError, McframeError
from mcframe.numerics.machine import check_time

# Seconds between two checks of a round, and between two checks of the cluster.
PATIENCE, LOOK = 1.0, 5.0
# Seconds without a worker, or without a word of the scheduler, until a round is given up; and
# seconds in which no worker runs anything, as when all are paused since their memory is full.
DESERTED, IDLE = 60.0, 300.0
# How many workers may go with one task that was never done, and how often answers may fail to
# arrive.
DEATHS, ATTEMPTS = 20, 10
# Seconds by which the clocks of this machine and of others may differ.
SKEW = 60.0
# How many of the tasks that are lost an error names.
NAMED = 5
# States of tasks on a worker in which something goes on: the work, or what it needs is on its way.
AT_WORK = ("executing", "flight")


@attrs.define(eq=False)
class Gathering:
    """Waits for the answers to a round, and for nothing else.

    A scheduler repeats what is lost with its worker, and gives a task up at which four workers
    have died (``distributed.scheduler.allowed-failures``), whatever they died of: where they die
    for another reason, any task may meet that many. So it is made to try again until twenty have
    died at one task, and at once no more where a worker was ended since its memory was full. How
    long one task may take is not limited: that is what ``max_seconds`` of a fit is for.
    """

    client: Any
    futures: list[Any]
    doing: str  # the round, in words
    size: Callable[[], float]  # the bytes that a partition takes of a worker
    done: int = 0  # the most answers that were there at once
    failures: int = 0  # to bring answers here
    repeated: Counter[str] = attrs.field(factory=Counter)  # tasks whose workers died, by key
    started: float = attrs.field(factory=time.time)
    looked: float = attrs.field(factory=time.monotonic)
    peopled: float = attrs.field(factory=time.monotonic)  # when a worker was last seen
    worked: float = attrs.field(factory=time.monotonic)  # when something was last seen to go on

    def answers(self) -> list[Any]:
        """The answers of the tasks, or an error that says what was lost."""
        asked = None
        try:
            while True:
                check_time()
                demand_connection(self.client, self.doing)
                self.demand_success()
                asked = asked or self.ask()
                try:
                    found: list[Any] = asked.result(timeout=PATIENCE)
                except Exception as error:
                    if asked.done():
                        asked = None
                        self.note_failure(error)
                    self.look()
                else:
                    return found
        finally:
            if asked is not None:
                asked.cancel()

    def ask(self) -> "Asked[Any]":
        """Ask for all answers, in the client's own thread: a large one may take long to come."""

        async def gathered() -> Any:
            return await self.client.gather(self.futures, asynchronous=True)

        return asyncio.run_coroutine_threadsafe(gathered(), self.client.loop.asyncio_loop)

    def failed(self) -> list[Any]:
        """The tasks that failed."""
        return [future for future in self.futures if future.status == "error"]

    def demand_success(self) -> None:
        """Raise where tasks have failed, unless they are repeated since their workers died."""
        for future in self.futures:
            if future.status == "cancelled":
                demand_connection(self.client, self.doing)  # which cancels when it is lost
                raise BackendError(
                    f"the task of {partitions_of(future.key)} was cancelled in {self.doing}, as"
                    " when a cluster is restarted; go on from the checkpoint or by start="
                )
        errors = {}
        for future in self.failed():
            with suppress(TimeoutError):  # it is under way again meanwhile
                errors[future.key] = future.exception(timeout=PATIENCE)
        errors = {key: error for key, error in errors.items() if error is not None}
        for error in errors.values():
            if isinstance(error, McframeError):
                raise error
        if not errors:
            return
        demand_connection(self.client, self.doing)
        # A sum fails with the task below it, which only the error names.
        killed = {error.task: error for error in errors.values() if is_of_deaths(error)}
        others = {key: error for key, error in errors.items() if not is_of_deaths(error)}
        full = {error.last_worker.address for error in killed.values()}
        full &= ended_for_memory(self.client, since=self.started - SKEW)
        died = [e.allowed_failures + 1 + self.repeated[key] for key, e in killed.items()]
        deaths = max(died, default=0)
        if not others and not full and deaths < DEATHS:
            self.repeated.update(killed.keys())
            repeat_tasks(self.client, list(errors))
            time.sleep(PATIENCE)  # until it is known here that they are under way
            return
        raise self.lost(others or killed, deaths, full) from next(iter(errors.values()))

    def lost(self, errors: Mapping[str, Any], deaths: int, full: set[str]) -> BackendError:
        """The error about tasks that failed, by their keys, at which so many workers have died."""
        reason = environment_refused(self.client)
        if reason is not None:
            return BackendError(reason)
        cause = next(iter(errors.values()))
        names = sorted(map(partitions_of, errors))
        shown = ", ".join(names[:NAMED]) + ", ..." * (len(names) > NAMED)
        were = "were" if len(names) > 1 or "partitions" in shown else "was"
        said = f"{type(cause).__name__}: {str(cause).rstrip('.')}"
        reason = f"{shown} {were} lost in {self.doing}: {said}"
        if not is_of_deaths(cause):
            return BackendError(reason)
        takes = f"a partition is estimated to take up to {in_bytes(self.size())} of one"
        why = (
            f"The memory of {min(full)} was full, and {takes}: give workers more memory, or"
            " the data more partitions"
            if full
            else f"Dask has ended none of them for its memory, and {takes}: look into their logs,"
            " and those of their machines, for what they died of"
        )
        return BackendError(f"{reason}. {deaths} worker{'s' * (deaths > 1)} died at it. {why}")

    def note_failure(self, error: Exception) -> None:
        """Answers did not arrive: what was lost is computed again, and asked for again."""
        if self.failed():
            return
        demand_connection(self.client, self.doing)
        self.failures += 1
        if self.failures > ATTEMPTS:
            raise BackendError(
                f"the answers of {self.doing} could not be brought here in {ATTEMPTS} attempts:"
                f" {type(error).__name__}: {error}"
            ) from error
        time.sleep(PATIENCE)

    def look(self) -> None:
        """Look at the cluster now and then; a ``BackendError`` where nothing goes on."""
        now = time.monotonic()
        if now - self.looked < min(LOOK, DESERTED / 4):
            return
        self.looked, workers = now, workers_of(self.client)
        done = sum(future.status == "finished" for future in self.futures)
        known = (workers or {}).values()
        if done > self.done or any(map(is_at_work, known)):
            self.worked = self.peopled = now
        elif known:
            self.peopled = now
        self.done = max(done, self.done)
        if now - self.peopled > DESERTED:
            silent = "the scheduler has not answered"
            clause = silent if workers is None else "the cluster has had no worker"
            self.give_up(clause, DESERTED)
        if now - self.worked > IDLE:
            paused = any(worker.get("status") == "paused" for worker in known)
            why = (
                ", and some are paused, as they are while their memory is nearly full (give them"
                " more, or the data more partitions),"
            )
            self.give_up(f"no worker has run anything{why * paused}", IDLE)

    def give_up(self, clause: str, seconds: float) -> None:
        """Raise the error of a round in which nothing went on for so long."""
        raise BackendError(
            f"{clause} for {seconds:.0f} s, in {self.doing}; mend the cluster, and go on from the"
            " checkpoint or by start="
        )


def is_of_deaths(error: Any) -> bool:
    """Whether an error is Dask's about a task at which workers have died."""
    return type(error).__name__ == "KilledWorker"


def key_of(name: str, first: int, last: int, fresh: str) -> str:
    """The key of the task of partitions ``first`` to ``last``."""
    return f"mcframe-{name}-{first}-{last}-{fresh}"


def partitions_of(key: str) -> str:
    """The partitions that a task is of, by its key, in words."""
    found = re.fullmatch(r"mcframe-.*?-(\d+)-(\d+)-\d+-[0-9a-f]+-\d+", key)
    if found is None:
        return f"task {key}"
    first, last = found.groups()
    return f"partition {first}" if first == last else f"partitions {first} to {last}"


def is_at_work(worker: Mapping[str, Any]) -> bool:
    """Whether a worker's last heartbeat says that it runs or fetches something."""
    counts = worker.get("metrics", {}).get("task_counts", {})
    return any(counts.get(state, 0) > 0 for state in AT_WORK)
