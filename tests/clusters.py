"""Clusters of Dask for tests, and the fit that they are compared by; skipped without Dask."""

import pytest

import mcframe as mc
from mcframe.backends import Alternating
from mcframe.partitions.partitioned_data import RowsInMemory
from tests.test_partitions import model_of, table

distributed = pytest.importorskip(
    "distributed", reason='needs the extra "dask": pip install mcframe[dask]'
)
import dask  # noqa: E402

QUIET = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::mcframe.NotCertifiedWarning"),
    pytest.mark.filterwarnings("ignore::mcframe.NotConvergedWarning"),
]
KIND, BUDGET = ("gaussian", "biases"), {"tol": 1e-3, "max_iter": 3}
# Workers are forks of one process: most of the time of a worker goes into imports.
dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
distributed.utils.get_mp_context().set_forkserver_preload(["tests.worker_of_a_cluster"])


def cluster_of(n_workers, **options):
    """A cluster of processes that says nothing, and leaves the memory of this machine alone."""
    given = {"threads_per_worker": 1, "processes": True, "memory_limit": 0, **options}
    return distributed.LocalCluster(
        n_workers=n_workers, dashboard_address=":0", silence_logs=50, **given
    )


def data_of(n_partitions=4):
    return RowsInMemory({"x": table(KIND[0])}, n_partitions)


def in_this_process(verb, *arguments, **options):
    """The answer of a verb that no worker computes, although there is a client."""
    with dask.config.set(scheduler="synchronous"):
        return verb(*arguments, **options)


def bits(fit):
    arrays = [fit.latent.left, fit.latent.right, *fit.effects.values()]
    return fit.objective, fit.bound, *(array.tobytes() for array in arrays)


def at_step(monkeypatch, number, fault):
    """Let something happen in front of a step of the solver."""
    stages, made = Alternating.stages, []

    def fault_and_stages(self, program, state):
        made.append(None)
        if len(made) == number:
            fault()
        return stages(self, program, state)

    monkeypatch.setattr(Alternating, "stages", fault_and_stages)


@pytest.fixture(scope="module")
def alone():
    return bits(in_this_process(mc.fit, model_of(*KIND), data_of(), **BUDGET))
