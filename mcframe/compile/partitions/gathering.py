"""The answers of one round of tasks on a cluster: waited for as long as something goes on."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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
# How many of the partitions that are lost an error names.
NAMED = 5
# States of tasks on a worker in which something goes on: the work, or what it needs is on its way.
AT_WORK = ("executing", "flight")


@attrs.frozen
class Trouble:
    """Why nothing goes on, as a clause, and the seconds to bear it."""

    clause: str
    seconds: float


@attrs.define(eq=False)
class Node:
    """An answer as a future: of one partition, or the sum of those from ``first`` to ``last``.

    What is made of ``summands`` lets these go once it is there, so that workers hold few of them
    at once; where it is lost with its worker, the scheduler makes them again.
    """

    future: Any
    first: int
    last: int
    summands: tuple["Node", ...] = ()
    retried: int = 0  # since it was done last

    @property
    def is_sum(self) -> bool:
        """Whether it is one of several partitions."""
        return self.first < self.last

    @property
    def n_done(self) -> int:
        """How many of its partitions have answered."""
        if self.future.status == "finished":
            return self.last - self.first + 1
        return sum(node.n_done for node in self.summands)

    def let_go(self) -> None:
        """Hold no summands of sums that are there."""
        if self.future.status == "finished":
            self.summands, self.retried = (), 0
        for node in self.summands:
            node.let_go()


def all_of(nodes: Iterable[Node]) -> Iterator[Node]:
    """Nodes and those below them, as far as they are held."""
    for node in nodes:
        yield node
        yield from all_of(node.summands)


def error_of(node: Node) -> Any:
    """The error of a task; None where it is under way again meanwhile."""
    with suppress(TimeoutError):
        return node.future.exception(timeout=PATIENCE)
    return None


def deaths_at(node: Node, error: Any) -> int:
    """How many workers have died at a task; 0 where it failed for another reason."""
    allowed = getattr(error, "allowed_failures", None)
    return 0 if allowed is None else int(allowed) + 1 + node.retried


def failures_in(nodes: Iterable[Node]) -> list[Node]:
    """The nodes that failed by themselves: not those whose summands did."""
    found = []
    for node in nodes:
        below = failures_in(node.summands)
        found += below or ([node] if node.future.status == "error" else [])
    return found


@attrs.define(eq=False)
class Gathering:
    """Waits for the answers of all partitions, or for their sum, and for nothing else.

    A scheduler repeats what is lost with its worker, and gives a task up at which four workers
    have died (``distributed.scheduler.allowed-failures``), whatever they died of: where they die
    for another reason, any task may meet that many. So it is made to try again until twenty have
    died at one task that is not done, and at once no more where a worker was ended since its
    memory was full. How long one task may take is not limited: that is what ``max_seconds`` of a
    fit is for.
    """

    client: Any
    nodes: list[Node]
    doing: str  # the round, in words
    size: Callable[[], float]  # the bytes that a partition takes of a worker
    done: int = 0  # the most partitions that were done at once
    failures: int = 0  # to bring answers here
    started: float = attrs.field(factory=time.time)
    looked: float = attrs.field(factory=time.monotonic)
    trouble: Trouble | None = None
    since: float = 0.0  # which this trouble holds
    began: float = 0.0  # when the first of several did that followed each other

    def answers(self) -> list[Any]:
        """The answers of the nodes, or an error that says what was lost."""
        asked = None
        try:
            while True:
                check_time()
                demand_connection(self.client, self.doing)
                self.demand_success()
                for node in self.nodes:
                    node.let_go()
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
        futures = [node.future for node in self.nodes]

        async def gathered() -> Any:
            return await self.client.gather(futures, asynchronous=True)

        return asyncio.run_coroutine_threadsafe(gathered(), self.client.loop.asyncio_loop)

    def demand_success(self) -> None:
        """Raise where tasks have failed: their own error, or which partitions were lost."""
        for node in all_of(self.nodes):
            if node.future.status == "cancelled":
                demand_connection(self.client, self.doing)  # which cancels when it is lost
                raise BackendError(
                    f"the task of {named([node])} was cancelled in {self.doing}, as when a cluster"
                    " is restarted; go on from the checkpoint or by start="
                )
        failed = failures_in(self.nodes)
        if failed:
            self.try_again(failed)

    def try_again(self, failed: list[Node]) -> None:
        """Have tasks repeated whose workers died, or raise what is said of those that failed.

        A worker that dies takes all of its tasks with it, so that a partition may be among those
        that are lost because of another one.
        """
        known = [(node, error_of(node)) for node in failed]
        failed = [node for node, error in known if error is not None]
        errors = [error for _, error in known if error is not None]
        if not errors:
            return
        for error in errors:
            if isinstance(error, McframeError):
                raise error
        demand_connection(self.client, self.doing)
        killed = [error for error in errors if type(error).__name__ == "KilledWorker"]
        full = {error.last_worker.address for error in killed}
        full &= ended_for_memory(self.client, since=self.started - SKEW)
        deaths = max(map(deaths_at, failed, errors))
        if len(killed) == len(failed) and not full and deaths < DEATHS:
            for node in failed:
                node.retried += 1
            repeat_tasks(self.client, [node.future.key for node in failed])
            time.sleep(PATIENCE)  # until it is known here that they are under way
            return
        reason = environment_refused(self.client)
        if reason is None:
            # What failed by itself explains more than workers that died.
            cause = next((error for error in errors if error not in killed), errors[0])
            said, were = (
                str(cause).rstrip("."),
                "was" if len({n.first for n in failed}) == 1 else "were",
            )
            kind = type(cause).__name__
            reason = f"{named(failed)} {were} lost in {self.doing}: {kind}: {said}"
            if cause in killed:
                died = f"{deaths} worker{'s' * (deaths > 1)} died at it"
                reason += f". {died}. {self.about_memory(full)}"
        raise BackendError(reason) from errors[0]

    def about_memory(self, full: set[str]) -> str:
        """Whether workers died for want of memory, as far as Dask reports, and what follows."""
        takes = f"a partition is estimated to take up to {in_bytes(self.size())} of one"
        if full:
            return (
                f"The memory of {min(full)} was full, and {takes}: give workers more memory, or"
                " the data more partitions"
            )
        return (
            f"Dask has ended none of them for its memory, and {takes}: look into their logs, and"
            " those of their machines, for what they died of"
        )

    def note_failure(self, error: Exception) -> None:
        """Answers did not arrive: what was lost is computed again, and asked for again."""
        if failures_in(self.nodes):
            self.demand_success()
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
        self.looked = now
        workers = workers_of(self.client)
        done = sum(node.n_done for node in self.nodes)
        if done > self.done:
            self.done, self.trouble = done, None
        trouble = trouble_of(workers)
        if trouble != self.trouble:
            self.since = now
        if trouble is None or self.trouble is None:
            self.began = now
        self.trouble = trouble
        if trouble is None:
            return
        lasts = now - self.since > trouble.seconds
        if lasts or now - self.began > IDLE:
            clause, seconds = trouble.clause, trouble.seconds
            if not lasts and seconds < IDLE:
                clause, seconds = "workers came and went, and none has run anything", IDLE
            raise BackendError(
                f"{clause} for {seconds:.0f} s, in {self.doing}; mend"
                " the cluster, and go on from the checkpoint or by start="
            )


def named(nodes: list[Node]) -> str:
    """Answers that were lost, a few of each kind, in words."""
    # The halves of an answer are those of one partition.
    single = [str(p) for p in sorted({node.first for node in nodes if not node.is_sum})]
    sums = [f"the sum of partitions {n.first} to {n.last}" for n in nodes if n.is_sum]
    words = [few(sums)] if sums else []
    if single:
        words.insert(0, f"partition{'s' * (len(single) > 1)} {few(single)}")
    return " and ".join(words)


def few(words: list[str]) -> str:
    """The first words of a list."""
    return ", ".join(words[:NAMED]) + (", ..." if len(words) > NAMED else "")


def trouble_of(workers: Mapping[str, Any] | None) -> Trouble | None:
    """Why nothing goes on, by what the scheduler says of its workers; None where it does."""
    if workers is None:
        return Trouble("the scheduler has not answered", DESERTED)
    if not workers:
        return Trouble("the cluster has had no worker", DESERTED)
    if any(is_at_work(worker) for worker in workers.values()):
        return None
    if any(worker.get("status") == "paused" for worker in workers.values()):
        return Trouble(
            "no worker has run anything, and some are paused, as they are while their memory is"
            " nearly full (give them more, or the data more partitions),",
            IDLE,
        )
    return Trouble("no worker has run anything", IDLE)


def is_at_work(worker: Mapping[str, Any]) -> bool:
    """Whether a worker's last heartbeat says that it runs or fetches something."""
    counts = worker.get("metrics", {}).get("task_counts", {})
    return any(counts.get(state, 0) > 0 for state in AT_WORK)
