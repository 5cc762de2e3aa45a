"""What happens to a fit on a cluster when something dies: a table of faults, each made for real.

    python examples/benchmarks/faults.py [--only WORD ...]

Each fault has a cluster of processes of its own: a scheduler, and three workers with nannies.
The fit is compared with that of one process, to the last bit. All faults take some ten minutes,
two of them the patience with a scheduler, or with workers, that do not come back.
"""

import argparse
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import numpy as np
import scipy.sparse as sp
from distributed import Client

import mcframe as mc
from mcframe.partitions.partitioned_data import RowsInMemory

N_WORKERS, N_PARTITIONS = 3, 6
BUDGET = {"tol": 1e-4, "max_iter": 12}
MODEL = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(8.0)])


def table():
    """Low rank plus noise, 600 x 40, of which three in ten are seen."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((600, 3)) @ rng.standard_normal((3, 40))
    z += 0.3 * rng.standard_normal(z.shape)
    rows, columns = np.nonzero(rng.random(z.shape) < 0.3)
    return RowsInMemory(
        {"x": sp.csr_array((z[rows, columns], (rows, columns)), shape=z.shape)}, N_PARTITIONS
    )


class Greedy(RowsInMemory):
    """A table whose partition 4 takes more memory than a worker has."""

    def part(self, p):
        """The data of a partition, with 4 GB beside those of one."""
        if p == 4:
            np.ones(500_000_000).sum()
            time.sleep(5.0)
        return super().part(p)


def bits(fit):
    """All numbers of a fit."""
    arrays = [fit.latent.left, fit.latent.right, *fit.effects.values()]
    return fit.objective, fit.bound, *(array.tobytes() for array in arrays)


@contextlib.contextmanager
def process(module, *options, **environment):
    """A process group that is gone afterwards, whatever state it is in."""
    command = [sys.executable, "-W", "ignore", "-m", module, *map(str, options)]
    found = subprocess.Popen(
        command,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    try:
        yield found
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(found.pid, signal.SIGKILL)
        found.wait()


@contextlib.contextmanager
def cluster(memory="0"):
    """The client, the scheduler and the workers' parent of a cluster of processes."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file = pathlib.Path(folder) / "scheduler.json"
        place = ("--scheduler-file", file)
        scheduler = ("--port", 0, "--dashboard-address", ":0", "--no-show")
        workers = ("--nworkers", N_WORKERS, "--nthreads", 1, "--memory-limit", memory)
        workers += ("--local-directory", folder, "--no-dashboard")
        impatient = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10s"}
        with (
            process("distributed.cli.dask_scheduler", *place, *scheduler, **impatient) as head,
            process("distributed.cli.dask_worker", *place, *workers) as hands,
            Client(scheduler_file=str(file), timeout=60) as client,
        ):
            client.wait_for_workers(N_WORKERS, timeout=120)
            yield client, head, hands


def pids(client):
    """The workers' processes; one that is on its way up or down is left out."""
    return sorted(client.run(os.getpid, on_error="ignore").values())


def kill_workers(n_spared, times, how=signal.SIGKILL):
    """A fault: so many times, at random moments, all workers but some are sent a signal."""

    def fault(client, head, hands, over):
        rng = random.Random(0)
        for _ in range(times):
            if over.wait(rng.uniform(0.2, 2.0)):
                return
            with contextlib.suppress(Exception):
                for pid in pids(client)[n_spared:]:
                    os.kill(pid, how)

    return fault


def strike(which, how):
    """A fault: scheduler or workers, with their nannies, are sent a signal after two seconds."""

    def fault(client, head, hands, over):
        if not over.wait(2.0):
            os.killpg({"scheduler": head, "workers": hands}[which].pid, how)

    return fault


def no_fault(client, head, hands, over):
    """Nothing happens."""


FAULTS = {
    "none": (no_fault, {}),
    "a worker killed, three times": (kill_workers(N_WORKERS - 1, 3), {}),
    "two workers killed at once": (kill_workers(1, 1), {}),
    "all but one killed, three times": (kill_workers(1, 3), {}),
    "all workers killed at once": (kill_workers(0, 1), {}),
    "a worker frozen": (kill_workers(N_WORKERS - 1, 1, signal.SIGSTOP), {}),
    "workers gone, and their nannies": (strike("workers", signal.SIGKILL), {}),
    "a partition too large for any worker": (no_fault, {"data": Greedy, "memory": "2GB"}),
    "the scheduler killed": (strike("scheduler", signal.SIGKILL), {}),
    "the scheduler frozen": (strike("scheduler", signal.SIGSTOP), {}),
}


def what_happens(fault, data, memory, known):
    """The end of a fit with a fault, in a sentence, and of the fit that goes on from there."""
    over = threading.Event()
    with tempfile.TemporaryDirectory() as folder, cluster(memory) as (client, head, hands):
        kept = pathlib.Path(folder) / "fit.npz"

        def strike_once_begun():
            while not (kept.exists() or over.wait(0.05)):
                pass
            fault(client, head, hands, over)

        striking = threading.Thread(target=strike_once_begun)
        striking.start()
        try:
            fit = mc.fit(MODEL, data, **BUDGET, checkpoint=kept)
            end = "the same bits" if bits(fit) == known else "OTHER BITS"
        except mc.BackendError as error:
            end = f"BackendError: {error}"
            if memory == "0":
                rest = mc.fit(MODEL, data, tol=BUDGET["tol"], checkpoint=kept)
                end += f" [from the checkpoint, of gap {rest.history[0].gap:.1g}: {rest.status}]"
        finally:
            over.set()
            striking.join()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(head.pid, signal.SIGCONT)
        return end


def main():
    """Make the faults, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""], help="words of faults to make")
    words = parser.parse_args().only
    warnings.simplefilter("ignore")
    known = bits(mc.fit(MODEL, table(), **BUDGET))
    print("| fault | what happened | seconds |\n|---|---|---|")
    for name, (fault, given) in FAULTS.items():
        if any(word in name for word in words):
            data = table()
            data = given.get("data", RowsInMemory)(data.data, data.n_partitions)
            began = time.perf_counter()
            end = what_happens(fault, data, given.get("memory", "0"), known)
            print(f"| {name} | {end} | {time.perf_counter() - began:.0f} |", flush=True)


if __name__ == "__main__":
    main()
