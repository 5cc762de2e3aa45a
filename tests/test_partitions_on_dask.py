"""Rows in partitions on the workers of a Dask cluster: the bits of the fit in one process."""

import os
import signal

import numpy as np
import pytest

import mcframe as mc
from mcframe.backends import Alternating
from mcframe.model.partitioned import RowsInMemory
from tests.test_partitions import model_of, table

distributed = pytest.importorskip(
    "distributed", reason='needs the extra "dask": pip install mcframe[dask]'
)
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::mcframe.NotCertifiedWarning"),
]
KIND, BUDGET = ("gaussian", "biases"), {"tol": 1e-3, "max_iter": 4}


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=3,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        memory_limit=0,
        silence_logs=50,
    ) as local:
        yield local


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as connected:
        connected.wait_for_workers(3)
        yield connected


def data_of(n_partitions=4):
    return RowsInMemory({"x": table(KIND[0])}, n_partitions)


def bits(fit):
    arrays = [fit.latent.left, fit.latent.right, *fit.effects.values()]
    return fit.objective, fit.bound, *(array.tobytes() for array in arrays)


@pytest.fixture(scope="module")
def alone():
    return bits(mc.fit(model_of(*KIND), data_of(), **BUDGET))


def test_a_fit_on_workers_has_the_bits_of_the_fit_in_one_process(client, alone):
    fit = mc.fit(model_of(*KIND), data_of(), **BUDGET, client=client)
    assert fit.history[-1].iteration == BUDGET["max_iter"]
    assert bits(fit) == alone


def test_effects_of_columns_and_of_rows_have_the_same_bits_on_workers(client, monkeypatch):
    """Those of columns go to every worker, those of rows to their partitions: as futures here."""
    monkeypatch.setattr("mcframe.compile.partitions.on_dask.SMALL", 0)
    model, budget = model_of("gaussian", "both kinds"), {"tol": 1e-3, "max_iter": 1}
    fit = mc.fit(model, data_of(), **budget, client=client)
    assert bits(fit) == bits(mc.fit(model, data_of(), **budget))


@pytest.mark.parametrize("n_workers", [1, 2])
def test_any_number_of_workers_gives_the_same_bits(n_workers, alone):
    with (
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=2,
            processes=True,
            dashboard_address=":0",
            memory_limit=0,
            silence_logs=50,
        ) as local,
        distributed.Client(local) as connected,
    ):
        assert bits(mc.fit(model_of(*KIND), data_of(), **BUDGET, client=connected)) == alone


def test_workers_that_are_killed_at_each_iteration_change_no_bit(client, alone, monkeypatch):
    """One after the other, with its partitions and its share of the factors."""
    killed, step = [], Alternating.step

    def kill_and_step(self, program, state):
        workers = sorted(client.run(os.getpid).items())
        killed.append(workers[len(killed) % len(workers)][1])
        os.kill(killed[-1], signal.SIGKILL)
        step(self, program, state)

    monkeypatch.setattr(Alternating, "step", kill_and_step)
    fit = mc.fit(model_of(*KIND), data_of(), **BUDGET, client=client)
    assert len(killed) == BUDGET["max_iter"]
    assert bits(fit) == alone


def test_a_worker_that_dies_of_a_partition_again_and_again_is_named(client):
    class Deadly(RowsInMemory):
        def part(self, p):
            if p == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().part(p)

    with pytest.raises(mc.BackendError, match=r"partition 2 was lost.*KilledWorker"):
        mc.fit(model_of(*KIND), Deadly({"x": table(KIND[0])}, 4), client=client)


def test_wrong_data_are_named_through_the_cluster(client):
    x = table("bernoulli")
    x.data[x.indptr[42]] = 2.0
    with pytest.raises(mc.DataError, match=r"partition 2 \(rows 32 to 47.*row 10"):
        mc.fit(model_of("bernoulli"), RowsInMemory({"x": x}, 3), client=client)


def test_a_client_that_is_closed_is_refused(cluster):
    connected = distributed.Client(cluster)
    connected.close()
    with pytest.raises(mc.BackendError, match="not connected"):
        mc.fit(model_of(*KIND), data_of(), client=connected)


def test_arrays_go_to_the_cluster_once(client, monkeypatch):
    """U and V are the same in all rounds of a certificate: no round sends them anew."""
    from mcframe.compile.partitions.on_dask import OnDask
    from mcframe.compile.partitions.part import Source

    executor = OnDask(Source(data_of(), model_of(*KIND)), client)
    sent = []
    monkeypatch.setattr(
        OnDask, "submitted", lambda self, value: sent.append(value) or value, raising=True
    )
    array, arrays = np.zeros((48, 100)), []
    for _ in range(3):
        executor.slot(array, array[12:24], arrays, 1)
    assert len(sent) == 1
