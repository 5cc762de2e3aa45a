"""A Dask cluster as a fit sees it: a client that is open, workers with one environment."""

import importlib.metadata
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from typing import Any

from threadpoolctl import threadpool_info

from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import BackendError, ModelError
from mcframe.numerics.digest import digest_of

distributed: Any = Deferred("distributed", "a Dask cluster")
# What computes the numbers and what carries them: one version each on all workers.
PACKAGES = ("numpy", "scipy", "numba", "dask", "distributed")
# Seconds in which a scheduler answers, and in which all workers do.
SOON, MEANWHILE = 10.0, 60.0


@contextmanager
def connected(client: Any) -> Iterator[Any]:
    """The client, checked, or one of the address: the current one of what is done meanwhile."""
    if client is None:
        yield None
        return
    opened = client_of(client) if isinstance(client, str) else client
    with nullcontext() if opened is client else opened, checked_client(opened).as_current():
        yield opened


def client_of(address: str) -> Any:
    """A client of the scheduler at an address, or a ``BackendError`` where there is none."""
    try:
        # A client that finds nobody there is waited for, and once more when it is collected.
        distributed.utils.LoopRunner().run_sync(reach, address)
        return distributed.Client(address, set_as_default=False, timeout=SOON)
    except (OSError, ValueError) as error:
        raise BackendError(
            f"client={address!r} was given, and no scheduler of Dask answers at that address"
            f" ({error}); give one such as 'tcp://127.0.0.1:8786', or a distributed.Client"
        ) from None


async def reach(address: str) -> None:
    """Connect to an address and leave it again."""
    connection = await distributed.comm.connect(address, timeout=SOON)
    await connection.close()


def checked_client(client: Any) -> Any:
    """The client, or a ``BackendError`` where it cannot be worked with.

    Where it is closed or asynchronous, or where workers have another environment. In a task of
    the same cluster the thread that calls leaves the worker's pool, as by ``distributed.secede``:
    else a fit would wait for tasks that wait for its own end.
    """
    if "distributed" not in sys.modules or not isinstance(client, distributed.Client):
        raise ModelError(
            f"client={client!r} was given, which is no client of Dask; give a distributed.Client,"
            " as cluster.get_client() returns one, or the address of a scheduler"
        )
    if client.status != "running":
        raise BackendError(
            f"client={client!r} is not connected; give a distributed.Client that is open"
        )
    if client.asynchronous:
        raise BackendError(
            f"client={client!r} is asynchronous, and a fit waits for its rounds; give a"
            " distributed.Client(...) without asynchronous=True, and call fit outside of the"
            " event loop, for example by asyncio.to_thread"
        )
    leave_thread_pool(client)
    reason = environment_refused(client)
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
def environment_here() -> dict[str, str]:
    """What computes in this process: versions by name, as far as packages are installed."""
    found = {
        "mcframe": sys.modules["mcframe"].__version__,  # imported with this file
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


@cache
def arithmetic_here() -> dict[str, str]:
    """What decides the last bits of this process: the processor that its loops are made for.

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
    own = [pool for pool in pools if re.search("numpy|scipy", pool["filepath"])] or pools
    kernels = {f"{p['internal_api']} {p.get('architecture', 'of any processor')}" for p in own}
    enabled = [word for word, there in getattr(numpy, "__cpu_features__", {}).items() if there]
    return {
        "Numba target": f"{name} ({digest_of(features)[:6]})",
        "BLAS kernel": ", ".join(sorted(kernels)),
        "NumPy target": f"{enabled[-1] if enabled else 'plain'} ({digest_of(enabled)[:6]})",
    }


def arithmetic_of(client: Any, workers: Iterable[str]) -> dict[str, dict[str, str]]:
    """What decides the last bits of workers, by their addresses, as far as they answer."""
    asked = {"workers": list(workers), "on_error": "ignore"}
    return soon(client, client.run, arithmetic_here, **asked) or {}


def note_on_arithmetic(found: Mapping[str, Mapping[str, str]]) -> str | None:
    """A sentence about workers whose last bits are decided otherwise than here, if there are."""
    here = arithmetic_here()
    others = {worker: there for worker, there in found.items() if there != here}
    if not others:
        return None
    worker, there = min(others.items())
    names = [name for name in here if there.get(name) != here[name]]
    said = "; ".join(
        f"{name} {there.get(name, 'none')} there, {here[name]} here" for name in names
    )
    return (
        f"{len(others)} of {len(found)} workers compute for other processors than this process"
        f" does, such as {worker} ({said}): the answer is that of one process to rounding, and not"
        " to the last bit, and where workers differ from each other it may vary from run to run"
    )


def environment_refused(client: Any) -> str | None:
    """Why the workers that there are cannot compute together, or None."""
    try:
        asked = {"on_error": "return", "callback_timeout": MEANWHILE}
        found = client.sync(client.run, environment_here, **asked)
    except TimeoutError:
        return (
            f"workers of {client!r}, or its scheduler, have not answered for {MEANWHILE:.0f} s;"
            " look at the dashboard whether one of them hangs, and restart it"
        )
    except OSError as error:
        return (
            f"the scheduler of {client!r} could not be asked for its workers ({error}); connect a"
            " new client, and go on from the checkpoint or by start="
        )
    here = environment_here()
    for worker, there in found.items():
        if isinstance(there, OSError):  # it died since: another one takes its part
            continue
        if isinstance(there, Exception):
            return (
                f"worker {worker} cannot run mcframe {here['mcframe']}:"
                f" {type(there).__name__}: {there}; install one environment on all workers"
            )
        if there != here:
            return difference(f"worker {worker}", there, here)
    return None


def refuse_another_environment(there: Mapping[str, str]) -> None:
    """Raise a ``BackendError`` in a worker whose environment is not the one of the fit."""
    here = environment_here()
    if here != there:
        from distributed import get_worker

        raise BackendError(difference(f"worker {get_worker().address}", here, there))


def difference(worker: str, there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Say in what a worker's environment differs from that of the process that fits."""
    names = [name for name in here if there.get(name) != here[name]]
    said = ", ".join(f"{name} {there.get(name, 'none')}" for name in names)
    ours = ", ".join(f"{name} {here[name]}" for name in names)
    return (
        f"{worker} has {said}, and the process that fits has {ours}; install one environment on"
        " all workers"
    )


def demand_connection(client: Any, doing: str) -> None:
    """A ``BackendError`` where the client or its scheduler is gone."""
    if client.status != "running":
        raise BackendError(
            f"the client's connection to the scheduler is {client.status}, in {doing}; connect a"
            " new client, and go on from the checkpoint or by start="
        )


def workers_of(client: Any) -> Mapping[str, Any] | None:
    """What the scheduler knows of each worker, by address; None where it does not answer."""
    found = soon(client, client.scheduler.identity)
    return None if found is None else found["workers"]


def ended_for_memory(client: Any, since: float) -> set[str]:
    """The addresses of workers that Dask has ended, from a moment on, for their full memory."""
    events = soon(client, client.scheduler.events, topic="worker-restart-memory") or ()
    return {event["worker"] for moment, event in events if moment >= since}


def repeat_tasks(client: Any, keys: list[str]) -> None:
    """Have the scheduler repeat tasks that it has given up; unheard, it is asked again later.

    ``Client.retry`` fails where a task that they need is known to the scheduler alone.
    """
    soon(client, client.scheduler.retry, keys=keys, client=client.id)


def soon(client: Any, call: Any, /, *args: Any, **options: Any) -> Any:
    """What a client's coroutine returns within ``SOON``, or None."""
    with suppress(TimeoutError, OSError):
        return client.sync(call, *args, callback_timeout=SOON, **options)
    return None
