"""What can go wrong on a cluster: the same bits, or an error that says what was lost. No hang."""

import asyncio
import errno
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import attrs
import numpy as np
import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.backends import alternating as solver
from mcframe.backends import loop
from mcframe.model.binding import Totals
from mcframe.partitions import cluster as clusters
from mcframe.partitions import cluster as gathering
from mcframe.partitions import on_dask
from mcframe.partitions.cluster import Gathering, key_of, partitions_of
from mcframe.partitions.on_dask import OnDask
from mcframe.partitions.on_disk import PartitionsOnDisk
from mcframe.partitions.part import Source, fresh_key
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.runtime import machine
from tests.clusters import (
    BUDGET,
    KIND,
    QUIET,
    alone,
    at_step,
    bits,
    cluster_of,
    data_of,
    distributed,
    in_this_process,
)
from tests.strategies import models_for_partitions
from tests.test_partitions import model_of, table

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array", reason='needs the extra "dask": pip install mcframe[dask]')
pytestmark = QUIET
__all__ = ["alone"]  # a fixture


@pytest.fixture
def threads():
    """A cluster whose workers are threads of this process, which begins at once."""
    with (
        cluster_of(2, processes=False, protocol="tcp") as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.fixture
def impatient(monkeypatch):
    """Looks that follow each other closely, and little patience."""
    for name, seconds in {
        "ROUND_POLL_SECONDS": 0.05,
        "CLUSTER_POLL_SECONDS": 0.05,
        "NO_WORKER_SECONDS": 0.4,
        "IDLE_SECONDS": 0.8,
    }.items():
        monkeypatch.setattr(gathering, name, seconds)


class KilledWorker(Exception):
    """What Dask says of a task at which four workers died."""

    allowed_failures = 3
    last_worker = SimpleNamespace(address="tcp://here")


class Answer:
    """A future of a round, as a client has it."""

    def __init__(self, state, p):
        self.key = key_of("a-question", p, p, fresh_key())
        self.status = "error" if isinstance(state, Exception) else state
        self.error = state
        if isinstance(state, KilledWorker):
            state.task = self.key

    def exception(self, timeout):
        return self.error


def gathering_of(client, *states):
    futures = [Answer(state, p) for p, state in enumerate(states)]
    return Gathering(client, futures, "a round", lambda: 1e3)


@pytest.fixture
def mute(threads, monkeypatch):
    """A client that never brings an answer."""

    async def never(futures, asynchronous):
        await asyncio.sleep(600)

    monkeypatch.setattr(threads, "gather", never)
    return threads


def test_an_error_of_one_partition_does_not_wait_for_an_answer_that_was_lost(mute):
    """The answer of partition 0 went with its worker, and nobody is left to find it again."""
    with pytest.raises(mc.BackendError, match=r"partition 1 was lost in a round: KeyError"):
        gathering_of(mute, "finished", KeyError("gone")).answers()


def test_partitions_that_are_lost_together_are_all_named(mute):
    """A worker that dies takes others with it that it had: which one was too large is not told."""
    error = RuntimeError("killed.")
    with pytest.raises(
        mc.BackendError,
        match=r"partition 0, partition 2, partition 3 were lost in a round: RuntimeError: killed$",
    ):
        gathering_of(mute, error, "finished", error, error).answers()


def test_an_error_tells_by_its_task_which_partitions_are_lost_below_a_sum(mute, monkeypatch):
    """The sum fails with it, which alone is held."""
    monkeypatch.setattr(gathering, "MAX_WORKER_DEATHS", 1)
    monkeypatch.setattr(gathering, "ended_for_memory", lambda client, since: set())
    gathered = gathering_of(mute, KilledWorker("no more"))
    gathered.futures[0].error.task = key_of("dot", 2, 3, fresh_key())
    gathered.futures[0].key = "a-sum"
    with pytest.raises(mc.BackendError, match=r"^partitions 2 to 3 were lost in a round: Killed"):
        gathered.answers()


def test_answers_that_do_not_arrive_are_not_waited_for_without_end(mute, impatient, monkeypatch):
    monkeypatch.setattr(gathering, "workers_of", lambda client: {})
    with pytest.raises(mc.BackendError, match="no worker for 0 s, in a round; mend the cluster"):
        gathering_of(mute, "finished", "lost").answers()


def test_a_scheduler_that_does_not_answer_is_given_up(mute, impatient, monkeypatch):
    monkeypatch.setattr(clusters, "ANSWER_SECONDS", 0.01)

    async def frozen():
        await asyncio.sleep(600)

    monkeypatch.setattr(mute.scheduler, "identity", frozen, raising=False)
    with pytest.raises(mc.BackendError, match="the scheduler has not answered for 0 s"):
        gathering_of(mute, "pending").answers()


def test_workers_that_come_and_go_without_running_anything_end_a_round(
    mute, impatient, monkeypatch
):
    """None of both lasts as long as would end it alone."""
    seen = itertools.cycle([{}, {"worker": {}}])
    monkeypatch.setattr(gathering, "workers_of", lambda client: next(seen))
    with pytest.raises(mc.BackendError, match=r"(none|no worker) has run anything for 1 s"):
        gathering_of(mute, "finished", "pending").answers()


@pytest.mark.parametrize(
    ("full", "repeated", "said"),
    [
        (set(), 16, r"\. 20 workers died at it\. Dask has ended none .* up to 1 kB of one: look"),
        ({"tcp://here"}, 0, r"\. 4 workers died at it\. The memory of tcp://here was full, and a"),
    ],
)
def test_tasks_whose_workers_died_are_repeated_as_long_as_memory_is_not_the_cause(
    mute, impatient, monkeypatch, full, repeated, said
):
    asked = []
    monkeypatch.setattr(gathering, "ROUND_POLL_SECONDS", 0.01)
    monkeypatch.setattr(gathering, "ended_for_memory", lambda client, since: full)
    monkeypatch.setattr(gathering, "repeat_tasks", lambda client, keys: asked.append(keys))
    with pytest.raises(mc.BackendError, match=f"partition 1 was lost in a round: Killed.*{said}"):
        gathering_of(mute, "finished", KilledWorker("no more")).answers()
    assert [[partitions_of(key) for key in keys] for keys in asked] == [["partition 1"]] * repeated


def test_answers_that_fail_to_arrive_are_asked_for_a_few_times(threads, impatient, monkeypatch):
    asked = []

    async def fails(futures, asynchronous):
        asked.append(futures)
        raise OSError("cut off")

    monkeypatch.setattr(threads, "gather", fails)
    with pytest.raises(mc.BackendError, match=r"in 10 attempts: OSError: cut off"):
        gathering_of(threads, "finished").answers()
    assert len(asked) == 11


def test_work_that_goes_on_is_waited_for(mute, impatient, monkeypatch):
    """How long a task takes is not limited, but by the time that the fit is given."""
    busy = {"worker": {"metrics": {"task_counts": {"executing": 1}}}}
    monkeypatch.setattr(gathering, "workers_of", lambda client: busy)
    with (
        machine.stop_at(time.perf_counter() + 2.0),
        pytest.raises(machine.OutOfTime),
    ):
        gathering_of(mute, "pending").answers()


def test_a_cluster_without_workers_is_given_up(impatient):
    with (
        cluster_of(0, processes=False) as local,
        distributed.Client(local),
        pytest.raises(mc.BackendError, match=r"no worker for .* in a round of"),
    ):
        mc.fit(model_of(*KIND), data_of())


def test_workers_that_are_paused_for_memory_are_named(threads, impatient, monkeypatch):
    def pause(dask_worker):
        dask_worker.status = distributed.core.Status.paused

    at_step(monkeypatch, 2, lambda: threads.run(pause))
    with pytest.raises(mc.BackendError, match="paused, as they are while their memory"):
        mc.fit(model_of(*KIND), data_of(), **BUDGET)


def test_a_scheduler_that_goes_away_leaves_the_checkpoint(monkeypatch, tmp_path):
    model, data, kept = model_of(*KIND), data_of(), tmp_path / "fit.npz"
    with cluster_of(1, processes=False, protocol="tcp") as local:
        client = distributed.Client(local, set_as_default=False)
        with monkeypatch.context() as patched:
            at_step(patched, 10, local.close)
            lost = pytest.raises(mc.BackendError, match="connection to the scheduler is")
            with client.as_current(), lost:
                mc.fit(model, data, tol=1e-6, checkpoint=kept)
        client.close()
    rest = mc.fit(model, data, tol=1e-3, checkpoint=kept)
    assert rest.status == "certified"
    assert rest.history[0].gap < 0.1


@attrs.frozen(eq=False)
class Deadly(RowsInMemory):
    """A table at whose partition 1 so many workers die, by marks in a folder."""

    folder: Path = Path()
    times: int = 0

    def part(self, p):
        marks = len(list(self.folder.iterdir()))
        if p == 1 and marks < self.times:
            (self.folder / str(marks)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().part(p)


@pytest.fixture
def unforgiving():
    """Two workers, of a scheduler that gives a task up with the first worker that dies of it."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        cluster_of(2) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.mark.slow(seconds=2)
def test_workers_may_die_more_often_than_dask_allows(unforgiving, tmp_path, monkeypatch, alone):
    """The same bits; and an error where they go on to."""
    data = Deadly(data_of().data, 4, tmp_path, 1)
    assert bits(mc.fit(model_of(*KIND), data, **BUDGET)) == alone
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(gathering, "MAX_WORKER_DEATHS", 1)
    lost = r"partitions 0 to 1 were lost in .*KilledWorker.* 1 worker died at it"
    with pytest.raises(mc.BackendError, match=lost):
        mc.fit(model_of(*KIND), attrs.evolve(data, times=9))


@pytest.mark.slow(seconds=2)
def test_two_fits_at_once_share_a_cluster(threads):
    """Two threads, one client: each has the bits of a fit alone, and compiles what it compiled."""
    budget, n_partitions = {**BUDGET, "max_iter": 1}, 4
    alone = bits(in_this_process(mc.fit, model_of(*KIND), data_of(), **budget))
    before = compiled_so_far()
    with ThreadPoolExecutor(2) as pool:
        fits = [
            pool.submit(mc.fit, model_of(*KIND), data_of(n_partitions), **budget) for _ in range(2)
        ]
        assert [bits(fit.result()) for fit in fits] == [alone, alone]
    assert compiled_so_far() - before == 2 * n_partitions


def compiled_so_far(kept=on_dask.CACHES):
    """How often partitions were compiled, of the fits that a process knows."""
    return sum(fit.compiled for fit in kept.fits.values())


def asked_of(kept, source, limit):
    """Let a worker with so much memory be asked for all partitions of a source."""
    memory = SimpleNamespace(memory_limit=limit)
    worker = SimpleNamespace(local_directory=None, memory_manager=memory, address="here")
    for p in range(source.data.n_partitions):
        with kept.of(source, worker).borrowed(source, p):
            pass
    return kept.fits[source.key_of_tables]


def test_fits_share_the_memory_that_a_worker_has_for_parts(monkeypatch):
    """Who comes later has parts in a file; who asks no more for long makes room."""
    totals = Totals({"x": 1.0}, {}, {"x": mc.Gaussian()}, {})
    early, late, last = (Source(data_of(), model_of("gaussian"), totals) for _ in range(3))
    kept = on_dask.CachesByFit()
    size = asked_of(kept, early, np.inf).held_bytes
    first, second = asked_of(kept, early, 2.5 * size), asked_of(kept, late, 2.5 * size)
    assert (len(first.parts), len(first.stored)) == (4, 0)
    assert (len(second.parts), len(second.stored)) == (1, 3)
    assert compiled_so_far(kept) == 8
    first.close()
    assert asked_of(kept, early, 2.5 * size).held_bytes == 0, "a fit that is over keeps no more"
    monkeypatch.setattr(on_dask, "UNUSED_SECONDS", 0.0)
    third = asked_of(kept, last, 2.5 * size)
    assert list(kept.fits) == [last.key_of_tables]
    assert len(third.parts) == 4


def test_a_fit_in_a_task_of_the_same_cluster_does_not_wait_for_itself(alone):
    """The only thread of the only worker is in the fit, and its partitions need a thread."""

    def fit_in_task(model, data):
        return bits(mc.fit(model, data, **BUDGET))

    with (
        cluster_of(1, processes=False) as local,
        distributed.Client(local) as client,
    ):
        asked = client.submit(fit_in_task, model_of(*KIND), data_of())
        assert asked.result(timeout=120) == alone


def test_a_client_that_is_asynchronous_is_refused():
    async def fit():
        async with (
            cluster_of(0, processes=False, asynchronous=True) as local,
            distributed.Client(local, asynchronous=True),
        ):
            mc.fit(model_of(*KIND), data_of())

    with pytest.raises(mc.BackendError, match="is asynchronous, and a fit waits"):
        asyncio.run(fit())


def test_data_of_dask_are_fitted_by_the_current_client(monkeypatch):
    x = da.from_array(table(KIND[0]).toarray(), chunks=(24, -1))
    begun = []
    with monkeypatch.context() as patched:
        patched.setattr(OnDask, "submit_round", lambda self, task: begun.append(self) or 1 / 0)
        with cluster_of(1, processes=False) as local, distributed.Client(local) as client:
            collections = mc.datasets.from_dask({"x": x})
            with pytest.raises(ZeroDivisionError):
                mc.fit(model_of(*KIND), collections)
            assert begun[0].client is client
            in_this_process(mc.fit, model_of(*KIND), data_of(), max_iter=0)
            with pytest.raises(ZeroDivisionError):
                mc.fit(model_of(*KIND), data_of(), max_iter=0)
        mc.fit(model_of(*KIND), collections, max_iter=0)
    assert len(begun) == 2


@pytest.mark.slow
def test_twenty_workers_killed_at_random_moments_change_no_bit():
    """Those that the scheduler knows: Dask starts none again that dies while it starts."""
    budget, over, killed = {"tol": 0.0, "max_iter": 120}, threading.Event(), []
    alone = bits(in_this_process(mc.fit, model_of(*KIND), data_of(), **budget))
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "600s"}),
        cluster_of(3) as local,
        distributed.Client(local) as client,
    ):

        def kill():
            rng = np.random.default_rng(0)
            while len(killed) < 20 and not over.wait(rng.uniform(0.1, 1.0)):
                known = client.scheduler_info(n_workers=-1)["workers"]
                there = [w for w in local.workers.values() if w.worker_address in known]
                if there:
                    killed.append(rng.choice([worker.pid for worker in there]))
                    os.kill(killed[-1], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            while killer.is_alive():  # a fast machine has ended a fit before all are killed
                fit = mc.fit(model_of(*KIND), data_of(), **budget)
                assert bits(fit) == alone
        finally:
            over.set()
            killer.join()
    assert len(killed) == 20


@pytest.fixture
def begun(tmp_path):
    """A checkpoint of a fit that has not made a step."""
    mc.fit(model_of(*KIND), data_of(), max_iter=0, checkpoint=tmp_path / "fit.npz")
    return tmp_path / "fit.npz"


def objective_in(checkpoint):
    return mc.fit(model_of(*KIND), data_of(), max_iter=0, checkpoint=checkpoint).objective


def test_looks_that_are_long_apart_have_iterates_kept_between_them(begun, monkeypatch):
    """The first look comes after eight steps, and the process ends in front of the fourth."""
    objectives = [objective_in(begun)]
    for seconds in (1e9, 0.0):
        with monkeypatch.context() as patched:
            patched.setattr(loop, "CHECKPOINT_SECONDS", seconds)
            patched.setattr(loop, "CHECKPOINT_TIME_RATIO", 0.0)
            at_step(patched, 4, lambda: {}["the end"])
            with pytest.raises(KeyError):
                mc.fit(model_of(*KIND), data_of(), checkpoint=begun)
        objectives.append(objective_in(begun))
    assert objectives[0] == objectives[1] > objectives[2]


def counted_pieces(monkeypatch, last=np.inf):
    """The pieces of steps that are made, in front of one of which the process ends."""
    made, advance = [], solver.run_stage

    def counted(program, state, stage):
        made.append(stage)
        if len(made) > last:
            raise KeyError("the end")
        advance(program, state, stage)

    monkeypatch.setattr(solver, "run_stage", counted)
    return made


@pytest.mark.parametrize("last", [1, 2, 20, 33, 35])
@pytest.mark.some(0.5, last=[1, 3])
def test_a_fit_goes_on_within_a_step(tmp_path, monkeypatch, last):
    """What is left is done, from where the objective was, whichever piece was to come."""
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(loop, "CHECKPOINT_TIME_RATIO", 0.0)
    model, file = model_of(*KIND), tmp_path / "fit.npz"
    with monkeypatch.context() as patched:
        whole, pieces = [], counted_pieces(patched)
        mc.fit(model, data_of(), tol=1e-5, callback=whole.append)
    with monkeypatch.context() as patched:
        done = counted_pieces(patched, last)
        with pytest.raises(KeyError):
            mc.fit(model, data_of(), tol=1e-5, checkpoint=file)
    rest = counted_pieces(monkeypatch)
    fit = mc.fit(model, data_of(), tol=1e-5, checkpoint=file)
    assert fit.status == "certified"
    assert rest[0] == done[-1], "the piece that was not made"
    assert last + len(rest) <= len(pieces) + 5, "one step more, where rounding decides"
    start, *looks = fit.history.objective
    assert max(looks) <= start * (1 + 1e-12)


@pytest.mark.slow(seconds=2)
@pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")
@seed(0)
@settings(max_examples=12, phases=[Phase.generate])
@given(models_for_partitions(), st.integers(0, 12))
def test_a_random_fit_goes_on_from_any_piece_of_a_step(example, last):
    """Never above the objective that the piece began with, and with this piece."""
    model, data, n_partitions, _ = example
    died, rest, table = [], [], RowsInMemory(data, n_partitions)

    def dies(program, state, stage):
        if len(died) == last:
            died.append((stage, state.objective))
            raise KeyError("the end")
        died.append(None)
        advance(program, state, stage)

    def counts(program, state, stage):
        rest.append(stage)
        advance(program, state, stage)

    advance, options = solver.run_stage, {"tol": 1e-12, "max_iter": 4}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
        patched.setattr(loop, "CHECKPOINT_TIME_RATIO", 0.0)
        file = Path(folder) / "fit.npz"
        try:
            patched.setattr(solver, "run_stage", dies)
            mc.fit(model, table, **options, checkpoint=file)
        except mc.McframeError:
            return
        except KeyError:
            patched.setattr(solver, "run_stage", counts)
            fit = mc.fit(model, table, **options, checkpoint=file)
            stage, objective = died[-1]
            assert rest[0] == stage
            away = 1e-9 * abs(objective) + fit.rounding.total
            assert fit.objective <= fit.history[0].objective <= objective + away


def test_a_look_that_is_cut_off_is_taken_first_by_who_goes_on(tmp_path, monkeypatch):
    """Where it is cut off again, the next one makes a step before it."""
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(loop, "CHECKPOINT_TIME_RATIO", 0.0)
    file, certify, pieces = tmp_path / "fit.npz", loop.certify, counted_pieces(monkeypatch)

    def cut_off(*given):
        if pieces or resumed:
            raise KeyError("the end")
        return certify(*given)

    resumed, steps = False, []
    with monkeypatch.context() as patched:
        patched.setattr(loop, "certify", cut_off)
        for _ in range(5):
            with pytest.raises(KeyError):
                mc.fit(model_of(*KIND), data_of(), tol=1e-3, checkpoint=file)
            steps.append(pieces.count("sweep rows"))
            pieces.clear()
            resumed = True
    assert steps[0] >= 1
    assert steps[1:] == [0, 1, 0, 1]
    assert mc.fit(model_of(*KIND), data_of(), tol=1e-3, checkpoint=file).status == "certified"


DRIVER = """
import sys, time
import mcframe as mc
from mcframe.backends import Alternating, loop
from tests.test_partitions_faults import KIND, data_of, model_of

loop.CHECKPOINT_SECONDS = loop.CHECKPOINT_TIME_RATIO = 0.0
stages = Alternating.stages

def announced(self, program, state):
    print(state.objective, flush=True)
    time.sleep(0.1)  # there is time to be killed in
    return stages(self, program, state)

Alternating.stages = announced
mc.fit(model_of(*KIND), data_of(), checkpoint=sys.argv[1], tol=0.0)
"""


def test_a_driver_that_is_killed_goes_on_from_its_checkpoint(begun):
    """What a step found is in the file before the next one begins."""
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(begun)], stdout=subprocess.PIPE, text=True
    )
    with driver:
        announced = [float(driver.stdout.readline()) for _ in range(8)]
        driver.kill()
    assert driver.returncode == -signal.SIGKILL
    assert objective_in(begun) <= announced[-1] * (1.0 + 1e-9)
    rest = mc.fit(model_of(*KIND), data_of(), tol=1e-3, checkpoint=begun)
    assert rest.status == "certified"
    whole = mc.fit(model_of(*KIND), data_of(), tol=1e-3)
    assert rest.history[0].gap < whole.history[0].gap


def test_a_full_disk_under_a_checkpoint_is_warned_of_and_loses_nothing(begun, monkeypatch):
    before = begun.read_bytes()

    def full(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match=r"written \(No space left .* keeps what it held"):
        fit = mc.fit(model_of(*KIND), data_of(), tol=1e-3, checkpoint=begun)
    assert fit.status == "certified"
    assert begun.read_bytes() == before
    assert list(begun.parent.iterdir()) == [begun]


def write_folder(folder, x):
    return mc.datasets.write_partitions({"x": [x]}, folder, n_partitions=4, overwrite=True)


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "x", table(KIND[0])).folder


def at_partition_1(monkeypatch, fault):
    """Let something happen once partition 1 has been read for the first time, and not 2."""
    part, faults = PartitionsOnDisk.part, [fault]

    def part_and_fault(self, p):
        found = part(self, p)
        if p == 1 and faults:
            faults.pop()()
        return found

    monkeypatch.setattr(PartitionsOnDisk, "part", part_and_fault)


@pytest.mark.parametrize("on_worker", [False, True])
def test_a_file_that_is_cut_off_within_a_fit_is_named(folder, monkeypatch, on_worker):
    data, file = mc.datasets.on_disk(folder), folder / "p00002-b0.parquet"
    at_partition_1(monkeypatch, lambda: file.write_bytes(file.read_bytes()[:-8]))
    with (
        cluster_of(1, processes=False) as local,
        distributed.Client(local),
        pytest.raises(mc.DataError, match=r"damaged: its file p00002-b0.parquet has \d+ bytes"),
    ):
        (mc.fit if on_worker else partial(in_this_process, mc.fit))(model_of(*KIND), data)


def test_a_folder_that_is_written_anew_within_a_fit_is_refused(folder, monkeypatch):
    """The new files have the sizes of the old ones."""
    data = mc.datasets.on_disk(folder)
    sizes = {file.name: file.stat().st_size for file in folder.glob("*.parquet")}
    at_partition_1(monkeypatch, lambda: write_folder(folder, -table(KIND[0])))
    with pytest.raises(mc.DataError, match="holds another table here than where the work began"):
        mc.fit(model_of(*KIND), data)
    assert {file.name: file.stat().st_size for file in folder.glob("*.parquet")} == sizes


def test_a_folder_that_is_written_again_alike_is_the_same_table(folder, monkeypatch, alone):
    data = mc.datasets.on_disk(folder)
    at_partition_1(monkeypatch, lambda: write_folder(folder, table(KIND[0])))
    fit = mc.fit(model_of(*KIND), data, **BUDGET)
    assert fit.objective == pytest.approx(alone[0], rel=1e-10)


def test_a_worker_of_another_environment_is_refused_before_any_work(threads, monkeypatch):
    here = clusters.local_environment()
    there = {**here, "numpy": "1.7", "mcframe": "0.0.1"}

    def environment(dask_worker=None):
        return there if dask_worker is not None and dask_worker.name == 1 else here

    monkeypatch.setattr(clusters, "local_environment", environment)
    with pytest.raises(
        mc.BackendError, match=r"worker tcp.* has mcframe 0.0.1, numpy 1.7, and the .* one env"
    ):
        mc.fit(model_of(*KIND), data_of())


def test_workers_of_another_processor_are_said_once(threads, monkeypatch):
    """Their sums have other last bits; versions are the same."""
    here = clusters.local_arithmetic()

    def arithmetic(dask_worker=None):
        there = {} if dask_worker is None or dask_worker.name == 0 else {"BLAS kernel": "Haswell"}
        return {**here, **there}

    monkeypatch.setattr(on_dask, "REFRESH_ROUNDS", 2)
    fit = mc.fit(model_of(*KIND), data_of(), max_iter=0)
    assert fit.notes == ()
    monkeypatch.setattr(clusters, "local_arithmetic", arithmetic)
    with pytest.warns(UserWarning, match="1 of 2 workers use other CPU or BLAS targets") as warned:
        fit = mc.fit(model_of(*KIND), data_of(), max_iter=0)
    said = [str(w.message) for w in warned if "workers use" in str(w.message)]
    assert len(said) == 1
    assert f"(BLAS kernel Haswell there, {here['BLAS kernel']} here)" in said[0]
    assert fit.notes == (said[0],)
    assert said[0] in repr(fit)


def test_a_scheduler_that_goes_away_at_once_is_said(threads, monkeypatch):
    """While it is asked for its workers, when the client does not know of it yet."""

    async def cut_off(*args, **options):
        raise distributed.comm.CommClosedError("Stream is closed")

    monkeypatch.setattr(threads, "run", cut_off)
    with pytest.raises(mc.BackendError, match=r"not be asked for its workers \(Stream is closed"):
        mc.fit(model_of(*KIND), data_of())
