"""A Dask cluster as a fit sees it: its client, its workers, and the answers to a round."""

import asyncio
import importlib.metadata
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future as ConcurrentFuture
from contextlib import suppress
from functools import cache
from typing import Any

import attrs
from threadpoolctl import threadpool_info

from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import BackendError, McframeError
from mcframe.contracts.validators import listed
from mcframe.runtime.machine import check_time
from mcframe.runtime.progress import current
from mcframe.runtime.work import in_bytes
from mcframe.storage.digest import digest_of

distributed: Any = Deferred("distributed", "a Dask cluster")
# The packages that compute and transfer numbers: their versions must be the same on all workers.
COMPARED_PACKAGES = ("numpy", "scipy", "numba", "dask", "distributed")
# Seconds in which a scheduler answers.
ANSWER_SECONDS = 10.0
# Seconds in which all workers answer; without a worker, or without a word of the scheduler, until
# a round is given up; and by which the clocks of this machine and of others may differ.
NO_WORKER_SECONDS = 60.0


def current_client() -> Any:
    """The client of Dask that is current, checked, or None: who computes a collection of Dask.

    None without one, and where Dask's configuration names another ``scheduler``.
    """
    if "distributed" not in sys.modules:  # nobody has a client
        return None
    scheduler = sys.modules["dask"].config.get("scheduler", None)
    if scheduler not in (None, "distributed", "dask.distributed"):
        return None
    try:
        client = distributed.get_client()
    except ValueError:
        return None
    return checked_client(client)


def checked_client(client: Any) -> Any:
    """The client, or a ``BackendError`` where it cannot be worked with.

    Where it is closed or asynchronous, or where workers have another environment. In a task of
    the same cluster the thread that calls leaves the worker's pool, as by ``distributed.secede``:
    else a fit would wait for tasks that wait for its own end.
    """
    if client.status != "running":
        raise BackendError(
            f"the current client of Dask, {client!r}, is not connected; open a distributed.Client"
        )
    if client.asynchronous:
        raise BackendError(
            f"the current client of Dask, {client!r}, is asynchronous, and a fit waits for its"
            " rounds; take a distributed.Client(...) without asynchronous=True, and call fit"
            " outside of the event loop, for example by asyncio.to_thread"
        )
    leave_thread_pool(client)
    reason = refusal_of_environment(client)
    if reason is not None:
        raise BackendError(reason)
    return client


def leave_thread_pool(client: Any) -> None:
    """Give the thread of the task that this runs in, if any, to the tasks that it waits for."""
    try:
        worker = distributed.get_worker()
    except ValueError:  # this is no task
        return
    if worker.scheduler.address == client.scheduler.address:
        with suppress(KeyError):  # it has left already
            distributed.secede()


@cache
def local_environment() -> dict[str, str]:
    """The versions of Python and of the packages that compute in this process, by name."""
    versions = {
        "mcframe": sys.modules["mcframe"].__version__,  # imported with this file
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    for name in COMPARED_PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


@cache
def local_arithmetic() -> dict[str, str]:
    """The CPU and BLAS targets of this process, which decide the last bits of its results.

    Of Numba, of the BLAS libraries, and of NumPy's own loops, whatever chose them: the machine, or
    variables of the environment.
    """
    config: Any = importlib.import_module("numba.core.config")
    llvm: Any = importlib.import_module("llvmlite.binding")
    numpy: Any = importlib.import_module("numpy._core._multiarray_umath")
    name = config.CPU_NAME or llvm.get_host_cpu_name()
    features = config.CPU_FEATURES or llvm.get_host_cpu_features().flatten()
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    # Other packages bring their own, such as those of neural networks.
    libraries = [pool for pool in pools if re.search("numpy|scipy", pool["filepath"])] or pools
    kernels = {
        f"{p['internal_api']} {p.get('architecture', 'of any processor')}" for p in libraries
    }
    enabled = [word for word, present in getattr(numpy, "__cpu_features__", {}).items() if present]
    return {
        "Numba target": f"{name} ({digest_of(features)[:6]})",
        "BLAS kernel": ", ".join(sorted(kernels)),
        "NumPy target": f"{enabled[-1] if enabled else 'plain'} ({digest_of(enabled)[:6]})",
    }


def arithmetic_of(client: Any, workers: Iterable[str]) -> dict[str, dict[str, str]]:
    """The CPU and BLAS targets of workers by their addresses, of those that answer."""
    options = {"workers": list(workers), "on_error": "ignore"}
    return call_in_time(client, client.run, local_arithmetic, **options) or {}


def note_on_arithmetic(by_worker: Mapping[str, Mapping[str, str]]) -> str | None:
    """A sentence about workers whose last bits are decided otherwise than here, if there are."""
    local = local_arithmetic()
    others = {worker: remote for worker, remote in by_worker.items() if remote != local}
    if not others:
        return None
    worker, remote = min(others.items())
    names = [name for name in local if remote.get(name) != local[name]]
    differences = "; ".join(
        f"{name} {remote.get(name, 'none')} there, {local[name]} here" for name in names
    )
    return (
        f"{len(others)} of {len(by_worker)} workers use other CPU or BLAS targets than this"
        f" process, such as {worker} ({differences}): results agree with those of one process up"
        " to rounding, not bit for bit, and where workers differ from each other they may vary"
        " from run to run"
    )


def refusal_of_environment(client: Any) -> str | None:
    """The reason why the workers cannot compute together, or None."""
    try:
        options = {"on_error": "return", "callback_timeout": NO_WORKER_SECONDS}
        environments = client.sync(client.run, local_environment, **options)
    except TimeoutError:
        return (
            f"workers of {client!r}, or its scheduler, have not answered for"
            f" {NO_WORKER_SECONDS:.0f} s; look at the dashboard"
            " whether one of them hangs, and restart it"
        )
    except OSError as error:
        return (
            f"the scheduler of {client!r} could not be asked for its workers ({error}); connect a"
            " new client, and go on from the checkpoint or by start="
        )
    local = local_environment()
    for worker, remote in environments.items():
        if isinstance(remote, OSError):  # it died since: another one takes its part
            continue
        if isinstance(remote, Exception):
            return (
                f"worker {worker} cannot run mcframe {local['mcframe']}:"
                f" {type(remote).__name__}: {remote}; install one environment on all workers"
            )
        if remote != local:
            return environment_difference(f"worker {worker}", remote, local)
    return None


def refuse_another_environment(expected: Mapping[str, str]) -> None:
    """Raise a ``BackendError`` in a worker whose environment is not the one of the fit."""
    local = local_environment()
    if local != expected:
        from distributed import get_worker

        raise BackendError(
            environment_difference(f"worker {get_worker().address}", local, expected)
        )


def environment_difference(
    worker: str, remote: Mapping[str, str], local: Mapping[str, str]
) -> str:
    """Say in what a worker's environment differs from that of the process that fits."""
    names = [name for name in local if remote.get(name) != local[name]]
    remote_versions = ", ".join(f"{name} {remote.get(name, 'none')}" for name in names)
    local_versions = ", ".join(f"{name} {local[name]}" for name in names)
    return (
        f"{worker} has {remote_versions}, and the process that fits has {local_versions}; install"
        " one environment on all workers"
    )


def demand_connection(client: Any, doing: str) -> None:
    """A ``BackendError`` where the client or its scheduler is gone."""
    if client.status != "running":
        raise BackendError(
            f"the client's connection to the scheduler is {client.status}, in {doing}; connect a"
            " new client, and go on from the checkpoint or by start="
        )


def workers_of(client: Any) -> Mapping[str, Any] | None:
    """The scheduler's record of each worker, by address; None where it does not answer."""
    identity = call_in_time(client, client.scheduler.identity)
    return None if identity is None else identity["workers"]


def ended_for_memory(client: Any, since: float) -> set[str]:
    """The addresses of workers that Dask has ended, from a moment on, for their full memory."""
    events = call_in_time(client, client.scheduler.events, topic="worker-restart-memory") or ()
    return {event["worker"] for moment, event in events if moment >= since}


def repeat_tasks(client: Any, keys: list[str]) -> None:
    """Have the scheduler repeat tasks that it has given up; unheard, it is asked again later.

    ``Client.retry`` fails where a task that they need is known to the scheduler alone.
    """
    call_in_time(client, client.scheduler.retry, keys=keys, client=client.id)


def call_in_time(client: Any, call: Any, /, *args: Any, **options: Any) -> Any:
    """The result of a client's coroutine within ``ANSWER_SECONDS``, or None."""
    with suppress(TimeoutError, OSError):
        return client.sync(call, *args, callback_timeout=ANSWER_SECONDS, **options)
    return None


# Seconds between two checks of a round, and between two checks of the cluster.
ROUND_POLL_SECONDS, CLUSTER_POLL_SECONDS = 1.0, 5.0
# Seconds in which no worker runs anything, as when all are paused since their memory is full,
# until a round is given up.
IDLE_SECONDS = 300.0
# How many workers may go with one task that was never done, and how often answers may fail to
# arrive.
MAX_WORKER_DEATHS, MAX_GATHER_ATTEMPTS = 20, 10
# States of tasks on a worker in which something goes on: the work, or what it needs is on its way.
BUSY_STATES = ("executing", "flight")


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
    checked_at: float = attrs.field(factory=time.monotonic)
    worker_seen_at: float = attrs.field(factory=time.monotonic)  # when a worker was last seen
    # When something was last seen to go on.
    progress_seen_at: float = attrs.field(factory=time.monotonic)

    def answers(self) -> list[Any]:
        """The answers of the tasks, or an error that says what was lost."""
        pending = None
        try:
            while True:
                check_time()
                demand_connection(self.client, self.doing)
                self.demand_success()
                pending = pending or self.ask()
                try:
                    answers: list[Any] = pending.result(timeout=ROUND_POLL_SECONDS)
                except Exception as error:
                    if pending.done():
                        pending = None
                        self.note_failure(error)
                    self.check_cluster()
                else:
                    return answers
        finally:
            if pending is not None:
                pending.cancel()

    def ask(self) -> "ConcurrentFuture[Any]":
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
                errors[future.key] = future.exception(timeout=ROUND_POLL_SECONDS)
        errors = {key: error for key, error in errors.items() if error is not None}
        for error in errors.values():
            if isinstance(error, McframeError):
                raise error
        if not errors:
            return
        demand_connection(self.client, self.doing)
        # A sum fails with the task below it, which only the error names.
        killed = {error.task: error for error in errors.values() if is_killed_worker(error)}
        others = {key: error for key, error in errors.items() if not is_killed_worker(error)}
        full = {error.last_worker.address for error in killed.values()}
        full &= ended_for_memory(self.client, since=self.started - NO_WORKER_SECONDS)
        died = [e.allowed_failures + 1 + self.repeated[key] for key, e in killed.items()]
        deaths = max(died, default=0)
        if not others and not full and deaths < MAX_WORKER_DEATHS:
            self.repeated.update(killed.keys())
            repeat_tasks(self.client, list(errors))
            time.sleep(ROUND_POLL_SECONDS)  # until it is known here that they are under way
            return
        raise self.error_of_lost_tasks(others or killed, deaths, full) from next(
            iter(errors.values())
        )

    def error_of_lost_tasks(
        self, errors: Mapping[str, Any], deaths: int, full: set[str]
    ) -> BackendError:
        """The error about tasks that failed, by their keys, at which so many workers have died."""
        reason = refusal_of_environment(self.client)
        if reason is not None:
            return BackendError(reason)
        cause = next(iter(errors.values()))
        names = sorted(map(partitions_of, errors))
        shown = listed(names)
        were = "were" if len(names) > 1 or "partitions" in shown else "was"
        description = f"{type(cause).__name__}: {str(cause).rstrip('.')}"
        reason = f"{shown} {were} lost in {self.doing}: {description}"
        if not is_killed_worker(cause):
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
        if self.failures > MAX_GATHER_ATTEMPTS:
            raise BackendError(
                f"the answers of {self.doing} could not be brought here in"
                f" {MAX_GATHER_ATTEMPTS} attempts: {type(error).__name__}: {error}"
            ) from error
        time.sleep(ROUND_POLL_SECONDS)

    def check_cluster(self) -> None:
        """Look at the cluster now and then; a ``BackendError`` where nothing goes on."""
        now = time.monotonic()
        if now - self.checked_at < min(CLUSTER_POLL_SECONDS, NO_WORKER_SECONDS / 4):
            return
        self.checked_at, workers = now, workers_of(self.client)
        done = sum(future.status == "finished" for future in self.futures)
        states = (workers or {}).values()
        if done > self.done or any(map(is_busy, states)):
            self.progress_seen_at = self.worker_seen_at = now
        elif states:
            self.worker_seen_at = now
        self.done = max(done, self.done)
        current().begin(f"{self.doing}, {done} of {len(self.futures)} tasks done")
        if now - self.worker_seen_at > NO_WORKER_SECONDS:
            silent = "the scheduler has not answered"
            clause = silent if workers is None else "the cluster has had no worker"
            self.give_up(clause, NO_WORKER_SECONDS)
        if now - self.progress_seen_at > IDLE_SECONDS:
            paused = any(worker.get("status") == "paused" for worker in states)
            why = (
                ", and some are paused, as they are while their memory is nearly full (give them"
                " more, or the data more partitions),"
            )
            self.give_up(f"no worker has run anything{why * paused}", IDLE_SECONDS)

    def give_up(self, clause: str, seconds: float) -> None:
        """Raise the error of a round in which nothing went on for so long."""
        raise BackendError(
            f"{clause} for {seconds:.0f} s, in {self.doing}; mend the cluster, and go on from the"
            " checkpoint or by start="
        )


def is_killed_worker(error: Any) -> bool:
    """Return True for Dask's error about a task at which workers have died."""
    return type(error).__name__ == "KilledWorker"


def key_of(name: str, first: int, last: int, fresh: str) -> str:
    """The key of the task of partitions ``first`` to ``last``."""
    return f"mcframe-{name}-{first}-{last}-{fresh}"


def partitions_of(key: str) -> str:
    """The partitions that a task is of, by its key, in words."""
    match = re.fullmatch(r"mcframe-.*?-(\d+)-(\d+)-\d+-[0-9a-f]+-\d+", key)
    if match is None:
        return f"task {key}"
    first, last = match.groups()
    return f"partition {first}" if first == last else f"partitions {first} to {last}"


def is_busy(worker: Mapping[str, Any]) -> bool:
    """Return True where a worker's last heartbeat says that it runs or fetches something."""
    counts = worker.get("metrics", {}).get("task_counts", {})
    return any(counts.get(state, 0) > 0 for state in BUSY_STATES)
