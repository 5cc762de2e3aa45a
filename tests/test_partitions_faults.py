"""What can go wrong on a cluster: the same bits, or an error that says what was lost. No hang."""

import asyncio
import contextlib
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mcframe as mc
from mcframe.backends import Alternating
from mcframe.compile.partitions import cluster as clusters
from mcframe.compile.partitions import gathering, on_dask
from mcframe.compile.partitions.gathering import Gathering
from mcframe.compile.partitions.on_dask import OnDask
from mcframe.model.partitioned import RowsInMemory
from tests.test_partitions import model_of, table

distributed = pytest.importorskip(
    "distributed", reason='needs the extra "dask": pip install mcframe[dask]'
)
import dask  # noqa: E402
import dask.array as da  # noqa: E402

from tests.test_partitions_on_dask import BUDGET, KIND, bits, cluster_of, data_of  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::mcframe.NotCertifiedWarning"),
]


@pytest.fixture(scope="module")
def alone():
    return bits(mc.fit(model_of(*KIND), data_of(), **BUDGET))


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
    for name, seconds in {"PATIENCE": 0.05, "LOOK": 0.05, "DESERTED": 0.4, "IDLE": 0.8}.items():
        monkeypatch.setattr(gathering, name, seconds)


def at_step(monkeypatch, number, fault):
    """Let something happen in front of a step of the solver."""
    step, made = Alternating.step, []

    def fault_and_step(self, program, state):
        made.append(None)
        if len(made) == number:
            fault()
        step(self, program, state)

    monkeypatch.setattr(Alternating, "step", fault_and_step)


class Answers:
    """Futures of a round, as a client has them."""

    def __init__(self, *states):
        self.states = states

    @property
    def futures(self):
        return [Answer(state) for state in self.states]


class Answer:
    def __init__(self, state):
        self.status = "error" if isinstance(state, Exception) else state
        self.error = state

    def exception(self, timeout):
        return self.error


def gathering_of(client, *states):
    return Gathering(client, Answers(*states).futures, "a round", lambda: "A partition is small")


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


def test_answers_that_do_not_arrive_are_not_waited_for_without_end(mute, impatient, monkeypatch):
    monkeypatch.setattr(gathering, "workers_of", lambda client: {})
    with pytest.raises(mc.BackendError, match="no worker for 0 s, in a round; mend the cluster"):
        gathering_of(mute, "finished", "lost").answers()


def test_a_scheduler_that_does_not_answer_is_given_up(mute, impatient, monkeypatch):
    monkeypatch.setattr(clusters, "SOON", 0.01)

    async def frozen():
        await asyncio.sleep(600)

    monkeypatch.setattr(mute.scheduler, "identity", frozen, raising=False)
    with pytest.raises(mc.BackendError, match="the scheduler has not answered for 0 s"):
        gathering_of(mute, "pending").answers()


def test_workers_that_die_again_and_again_end_a_round(mute, impatient, monkeypatch):
    busy = {"metrics": {"task_counts": {"executing": 1}}}
    addresses = iter(range(10_000))
    monkeypatch.setattr(
        gathering, "workers_of", lambda client: {f"worker {next(addresses)}": busy}
    )
    with pytest.raises(mc.BackendError, match=r"lost 21 times .* none of the 1 partitions left"):
        gathering_of(mute, "finished", "pending").answers()


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
        mc.numerics.machine.clock.stop_at(time.perf_counter() + 2.0),
        pytest.raises(mc.numerics.machine.clock.OutOfTime),
    ):
        gathering_of(mute, "pending").answers()


def test_a_cluster_without_workers_is_given_up(impatient):
    with (
        cluster_of(0, processes=False) as local,
        distributed.Client(local) as client,
        pytest.raises(mc.BackendError, match=r"no worker for .* in a round of"),
    ):
        mc.fit(model_of(*KIND), data_of(), client=client)


def test_workers_that_are_paused_for_memory_are_named(threads, impatient, monkeypatch):
    def pause(dask_worker):
        dask_worker.status = distributed.core.Status.paused

    at_step(monkeypatch, 2, lambda: threads.run(pause))
    with pytest.raises(mc.BackendError, match="paused, as they are while their memory"):
        mc.fit(model_of(*KIND), data_of(), **BUDGET, client=threads)


def test_a_scheduler_that_goes_away_leaves_the_checkpoint(monkeypatch, tmp_path):
    model, data, kept = model_of(*KIND), data_of(), tmp_path / "fit.npz"
    with cluster_of(1, processes=False, protocol="tcp") as local:
        client = distributed.Client(local)
        with monkeypatch.context() as patched:
            at_step(patched, 10, local.close)
            with pytest.raises(mc.BackendError, match="connection to the scheduler is"):
                mc.fit(model, data, tol=1e-6, client=client, checkpoint=kept)
        client.close()
    whole = mc.fit(model, data, tol=1e-6)
    rest = mc.fit(model, data, tol=1e-6, checkpoint=kept)
    assert rest.status == "certified"
    assert rest.history[0].gap < 1.0
    assert rest.objective == pytest.approx(whole.objective, rel=2e-6)


def test_a_worker_that_dies_of_a_partition_again_and_again_is_named():
    class Deadly(RowsInMemory):
        def part(self, p):
            if p == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().part(p)

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        cluster_of(2) as local,
        distributed.Client(local) as client,
        pytest.raises(mc.BackendError, match=r"partition 1 was lost.*KilledWorker"),
    ):
        mc.fit(model_of(*KIND), Deadly({"x": table(KIND[0])}, 2), client=client)


def test_two_fits_at_once_share_a_cluster(threads, alone):
    """Two threads, one client: each has the bits of a fit alone."""
    with ThreadPoolExecutor(2) as pool:
        fits = [
            pool.submit(mc.fit, model_of(*KIND), data_of(), **BUDGET, client=threads)
            for _ in range(2)
        ]
        assert [bits(fit.result()) for fit in fits] == [alone, alone]


def test_a_fit_in_a_task_of_the_same_cluster_does_not_wait_for_itself(alone):
    """The only thread of the only worker is in the fit, and its partitions need a thread."""

    def fit_in_task(model, data):
        client = distributed.get_client()
        return bits(mc.fit(model, data, **BUDGET, client=client))

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
            distributed.Client(local, asynchronous=True) as client,
        ):
            mc.fit(model_of(*KIND), data_of(), client=client)

    with pytest.raises(mc.BackendError, match="is asynchronous, and a fit waits"):
        asyncio.run(fit())


def test_data_of_dask_are_fitted_by_the_current_client(monkeypatch):
    x = da.from_array(table(KIND[0]).toarray(), chunks=(24, -1))
    begun = []
    with monkeypatch.context() as patched:
        patched.setattr(OnDask, "begin", lambda self, task: begun.append(self) or 1 / 0)
        with cluster_of(1, processes=False) as local, distributed.Client(local) as client:
            collections = mc.datasets.from_dask({"x": x})
            with pytest.raises(ZeroDivisionError):
                mc.fit(model_of(*KIND), collections)
            assert begun[0].client is client
            mc.fit(model_of(*KIND), data_of(), max_iter=0)  # which stay here
        mc.fit(model_of(*KIND), collections, max_iter=0)
    assert len(begun) == 1


def other_environment(dask_worker=None):
    """Let a worker say that it has another version of SciPy."""
    from mcframe.compile.partitions import cluster

    there = {**cluster.environment_here(), "scipy": "0.19"}
    cluster.environment_here = lambda: there


def test_a_worker_of_another_environment_is_refused_before_any_work(threads, monkeypatch):
    here = clusters.environment_here()
    there = {**here, "numpy": "1.7", "mcframe": "0.0.1"}

    def environment(dask_worker=None):
        return there if dask_worker is not None and dask_worker.name == 1 else here

    monkeypatch.setattr(clusters, "environment_here", environment)
    with pytest.raises(
        mc.BackendError, match=r"worker tcp.* has mcframe 0.0.1, numpy 1.7, and the .* one env"
    ):
        mc.fit(model_of(*KIND), data_of(), client=threads)


class TestProcesses:
    """On one cluster of processes, which each test leaves with three workers."""

    @pytest.fixture(scope="class")
    def cluster(self):
        with cluster_of(3) as local:
            yield local

    @pytest.fixture
    def client(self, cluster):
        with distributed.Client(cluster) as connected:
            connected.wait_for_workers(3, timeout=120)
            yield connected

    def test_workers_killed_together_at_any_moment_change_no_bit(self, client, alone):
        """All but one, and all, by the clock and not by the iteration."""
        rng, over, killed = np.random.default_rng(0), threading.Event(), []

        def kill():
            for n_spared in (1, 0, 1):
                if over.wait(rng.uniform(0.1, 1.0)):
                    return
                with contextlib.suppress(Exception):  # one of them may be on its way up
                    found = client.run(os.getpid, on_error="ignore")
                    for pid in sorted(found.values())[n_spared:]:
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            fit = mc.fit(model_of(*KIND), data_of(), **BUDGET, client=client)
        finally:
            over.set()
            killer.join()
        assert len(killed) >= 2
        assert bits(fit) == alone

    @pytest.mark.parametrize("same", [True, False])
    def test_a_worker_that_joins_late(self, cluster, client, alone, monkeypatch, same):
        """It takes its share, and is refused where it computes with other versions."""
        before, asked = set(client.scheduler_info()["workers"]), []

        def join():
            cluster.scale(4)
            client.wait_for_workers(4, timeout=120)
            late = set(client.scheduler_info()["workers"]) - before
            asked.extend(late)
            if not same:
                client.run(other_environment, workers=list(late))

        at_step(monkeypatch, 2, join)
        monkeypatch.setattr(on_dask, "REFRESHED", 5)
        try:
            if same:
                fit = mc.fit(model_of(*KIND), data_of(), **BUDGET, client=client)
                assert bits(fit) == alone
                (parts,) = client.run(lambda: sorted(on_dask.KEPT.parts), workers=asked).values()
                assert parts
            else:
                with pytest.raises(mc.BackendError, match=r"has scipy 0.19, and the process"):
                    mc.fit(model_of(*KIND), data_of(), **BUDGET, client=client)
        finally:
            client.retire_workers(asked, close_workers=True, remove=True)
            cluster.scale(3)
