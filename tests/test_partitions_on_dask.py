"""Rows in partitions on the workers of a Dask cluster: the bits of the fit in one process."""

import contextlib
import operator
import os
import pickle
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import mcframe as mc
from mcframe.backends import Alternating
from mcframe.numerics.operators import LowRank
from mcframe.partitions import on_dask
from mcframe.partitions.executor import OneByOne
from mcframe.partitions.on_dask import OnDask, length_of_groups
from mcframe.partitions.part import ENTRIES, PART, LazyEntryValues, PartValue, RowSharded, Source
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.partitions.tall_matrix import sharded_rows
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
from tests.test_benchmarks import script
from tests.test_partitions import (
    classes_of,
    levels_of,
    model_of,
    model_of_classes,
    model_of_levels,
    table,
)

pytestmark = QUIET
__all__ = ["alone", "script"]  # fixtures


@pytest.fixture(scope="module")
def cluster():
    """It begins with one worker: to start one takes seconds."""
    with cluster_of(1) as local:
        yield local


@pytest.fixture
def client(cluster):
    cluster.scale(3)
    with distributed.Client(cluster) as connected:
        until_there_are(connected, 3)
        yield connected


def until_there_are(client, n_workers):
    for _ in range(2_400):
        if len(client.scheduler_info()["workers"]) == n_workers:
            return
        time.sleep(0.05)
    pytest.fail(f"there are not {n_workers} workers after two minutes")


@pytest.mark.parametrize("n_workers", [1, 2, 3])
@pytest.mark.some(1, n_workers=[1])
def test_any_number_of_workers_gives_the_bits_of_the_fit_in_one_process(cluster, alone, n_workers):
    cluster.scale(n_workers)
    with distributed.Client(cluster) as connected:
        until_there_are(connected, n_workers)
        fit = mc.fit(model_of(*KIND), data_of(), **BUDGET)
    assert fit.history[-1].iteration == BUDGET["max_iter"]
    assert bits(fit) == alone


@pytest.mark.slow(seconds=1)
def test_effects_of_columns_and_of_rows_have_the_same_bits_on_workers(client, monkeypatch):
    """Those of columns go to every worker, those of rows to their partitions: as futures here."""
    monkeypatch.setattr("mcframe.partitions.on_dask.INLINE_BYTES", 0)
    model, budget = model_of("gaussian", "both kinds"), {"tol": 1e-3, "max_iter": 1}
    for n_partitions in (1, 4):
        fit = mc.fit(model, data_of(n_partitions), **budget)
        assert bits(fit) == bits(in_this_process(mc.fit, model, data_of(n_partitions), **budget))


def test_unlabeled_cells_have_the_same_bits_on_workers(client, monkeypatch):
    monkeypatch.setattr("mcframe.partitions.on_dask.INLINE_BYTES", 0)
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.7, likelihood=mc.Gaussian())
    model = mc.Model([mc.Block("x", risk)], [mc.NuclearNorm(1.0)])
    data, budget = RowsInMemory({"x": table("bernoulli")}, 3), {"tol": 1e-3, "max_iter": 2}
    fit = mc.fit(model, data, **budget)
    assert bits(fit) == bits(in_this_process(mc.fit, model, data, **budget))


@pytest.mark.parametrize("kind", ["classes", "levels"])
@pytest.mark.slow(seconds=1)
def test_what_is_tied_by_losses_has_the_same_bits_on_workers(client, monkeypatch, kind):
    """Biases of classes, and thresholds: what is asked travels as futures here."""
    monkeypatch.setattr("mcframe.partitions.on_dask.INLINE_BYTES", 0)
    model, y = {
        "classes": (model_of_classes({}), classes_of()),
        "levels": (model_of_levels(), levels_of()),
    }[kind]
    data, budget = RowsInMemory({"x": y}, 2), {"tol": 1e-3, "max_iter": 1}
    fit = mc.fit(model, data, **budget)
    assert bits(fit) == bits(in_this_process(mc.fit, model, data, **budget))


def test_workers_of_several_threads_give_the_same_bits(alone):
    """Workers that are threads of this process, which have their arrays from it as they are."""
    with (
        cluster_of(2, threads_per_worker=2, processes=False) as local,
        distributed.Client(local),
    ):
        assert bits(mc.fit(model_of(*KIND), data_of(), **BUDGET)) == alone


@pytest.mark.parametrize("together", [on_dask.DRIVER_SUM_BYTES, 0])
def test_workers_that_are_killed_at_each_iteration_change_no_bit(
    client, alone, monkeypatch, together
):
    """One after the other, with its partitions, its share of the factors, and sums of answers."""
    monkeypatch.setattr(on_dask, "DRIVER_SUM_BYTES", together)
    monkeypatch.setattr(on_dask, "REDUCTION_ARITY", 2)
    killed, stages = [], Alternating.stages

    def kill_and_go_on(self, program, state):
        workers = sorted(client.run(os.getpid).items())
        killed.append(workers[len(killed) % len(workers)][1])
        os.kill(killed[-1], signal.SIGKILL)
        return stages(self, program, state)

    monkeypatch.setattr(Alternating, "stages", kill_and_go_on)
    fit = mc.fit(model_of(*KIND), data_of(), **BUDGET)
    assert len(killed) == BUDGET["max_iter"]
    assert bits(fit) == alone


@pytest.fixture(scope="module")
def threads():
    """Workers that are threads of this process, which know the tasks of this file."""
    with cluster_of(2, processes=False) as local, distributed.Client(local) as connected:
        yield connected


def drawn(part, size):
    """Numbers that no order but one adds up to the same bits."""
    if part.p == size:
        raise ValueError("of this partition")
    rng = np.random.default_rng(part.p)
    return rng.standard_normal(size) * 10.0 ** (part.p % 7), (None, float(part.p))


@pytest.mark.parametrize("n_partitions", [1, 2, 3, 5, 19])
@pytest.mark.parametrize("fan", [2, 4, on_dask.REDUCTION_ARITY])
def test_sums_by_tasks_have_the_bits_of_sums_here(threads, monkeypatch, n_partitions, fan):
    monkeypatch.setattr(on_dask, "DRIVER_SUM_BYTES", 0)
    monkeypatch.setattr(on_dask, "REDUCTION_ARITY", fan)
    source, asked = Source(data_of(n_partitions), model_of(*KIND)), (drawn, PART, 50)
    executor = OnDask(source, threads)
    for _ in range(2):
        there, here = executor.sum(*asked), OneByOne(source).sum(*asked)
        assert there[0].tobytes() == here[0].tobytes()
        assert there[1] == here[1] == (None, n_partitions * (n_partitions - 1) / 2)
    assert executor.work.rounds == 2
    assert executor.work.received == 2 * (50 * 8 + 8), "the sum alone comes here"
    (rows, there), (alone, here) = (e.rows_and_sum(*asked) for e in (executor, OneByOne(source)))
    assert [own.tobytes() for own in rows] == [own.tobytes() for own in alone]
    assert there == here == (None, n_partitions * (n_partitions - 1) / 2)
    assert executor.work.received == 2 * (50 * 8 + 8) + n_partitions * 50 * 8 + 8


@pytest.mark.parametrize("n_partitions", [1, 2, 3, 5])
@pytest.mark.some(0.5, n_partitions=[1, 2])
def test_a_fit_whose_sums_are_taken_by_tasks_has_the_same_bits(threads, monkeypatch, n_partitions):
    monkeypatch.setattr(on_dask, "DRIVER_SUM_BYTES", 0)
    monkeypatch.setattr(on_dask, "REDUCTION_ARITY", 2)
    data, budget = data_of(n_partitions), {**BUDGET, "max_iter": 1}
    fit = mc.fit(model_of(*KIND), data, **budget)
    assert bits(fit) == bits(in_this_process(mc.fit, model_of(*KIND), data, **budget))


@pytest.mark.parametrize(
    ("kind", "effects"),
    [
        ("bernoulli", "biases"),
        ("bernoulli", "both kinds"),
        ("poisson", "both kinds"),
        ("gaussian", "ridge on both kinds"),
    ],
)
@pytest.mark.some(3.5, kind=[0, 3])
def test_sums_over_effects_of_columns_come_here_once(threads, monkeypatch, kind, effects):
    """Not from each partition, in any round of a fit; and their bits are those of one process."""
    monkeypatch.setattr(on_dask, "DRIVER_SUM_BYTES", 0)
    monkeypatch.setattr(on_dask, "REDUCTION_ARITY", 2)
    x = table(kind, n_rows=12, n_columns=60)
    model, received, answers = model_of(kind, effects), [], OnDask.answers_to

    def answers_noted(self, task):
        before = self.work.received
        found = answers(self, task)
        most = received[-1]
        name = task.name
        most[name] = max(most.get(name, 0), self.work.received - before)
        return found

    monkeypatch.setattr(OnDask, "answers_to", answers_noted)
    for n_partitions in (2, 3):
        received.append({})
        data, budget = RowsInMemory({"x": x}, n_partitions), {"tol": 1e-3, "max_iter": 1}
        fit = mc.fit(model, data, **budget)
        assert bits(fit) == bits(in_this_process(mc.fit, model, data, **budget))
    few, many = received
    assert {"effect_sums", "table_facts", "loss_facts"} < {
        name for names in few for name in names.split("+")
    }
    for name in few.keys() & many.keys():
        assert many[name] - few[name] <= 8, f"{name}: a number from each partition at most"


@pytest.mark.parametrize("n_partitions", [1, 2, 8, 9, 15, 16, 17, 64, 65, 1_000])
def test_the_model_of_cost_counts_the_tasks_of_a_sum_and_their_levels(
    script,
    n_partitions,
):
    submitted = []

    def submit(function, begun, summands, **options):
        submitted.append(1 + max(summands))
        return submitted[-1]

    executor = OnDask(Source(data_of(), model_of(*KIND)), SimpleNamespace(submit=submit))
    depth = executor.root_of([0] * n_partitions)
    costs = script("partition_costs").Costs(0, 0, 20_000, 20, n_partitions)
    assert costs.n_additions == len(submitted)
    assert costs.depth == depth
    assert costs.brought(costs.equations) == costs.equations
    assert costs.passed_on(costs.equations) == 7 * depth * costs.equations


@pytest.mark.parametrize(
    ("n_partitions", "n_workers", "length"),
    [(1, 2, 1), (4, 2, 2), (5, 2, 1), (47, 2, 8), (64, 2, 32), (64, 3, 2), (3, 8, 1), (4, 0, 4)],
)
def test_groups_of_partitions_leave_no_worker_much_more_than_its_share(
    n_partitions, n_workers, length
):
    assert length_of_groups(n_partitions, n_workers) == length


def test_small_answers_are_added_here_once_their_size_is_known(threads, monkeypatch):
    """By the sums that the same questions had the last time."""
    monkeypatch.setattr(on_dask, "DRIVER_SUM_BYTES", 5 * 50 * 8 + 5 * 8)
    executor, received = OnDask(Source(data_of(5), model_of(*KIND)), threads), []
    for size in (50, 50, 51, 51, 50, 50):
        before = executor.work.received
        executor.sum(drawn, PART, size)
        received.append(executor.work.received - before)
    one, larger = 50 * 8 + 8, 51 * 8 + 8
    assert received == [one, 5 * one, 5 * larger, larger, one, 5 * one]


def test_arrays_of_the_network_are_computed_with_as_they_were_made():
    """By columns, as sparse products are: NumPy's own copy of one off its bytes is by rows."""
    rng = np.random.default_rng(0)
    made, x = np.asfortranarray(rng.standard_normal((16, 16))), rng.standard_normal(16)
    came = np.frombuffer(b"." + made.tobytes(order="F"), offset=1).reshape(16, 16, order="F")
    assert not came.flags.aligned
    for one in (on_dask.filled(on_dask.Slot(0), [came]), on_dask.aligned((came, None))[0]):
        assert one.flags.aligned
        assert one.flags.f_contiguous
        assert (one @ x).tobytes() == (made @ x).tobytes()
    assert on_dask.aligned(made) is made


def test_a_partition_that_fails_below_a_sum_is_named(threads, monkeypatch):
    monkeypatch.setattr(on_dask, "DRIVER_SUM_BYTES", 0)
    monkeypatch.setattr(on_dask, "REDUCTION_ARITY", 2)
    executor = OnDask(Source(data_of(5), model_of(*KIND)), threads)
    with pytest.raises(mc.BackendError, match=r"partition 3 was lost .*ValueError: of this part"):
        executor.sum(drawn, PART, 3)


def test_wrong_data_below_a_sum_are_an_error_of_the_data(threads, monkeypatch):
    x = table("bernoulli")
    x.data[x.indptr[42]] = 2.0
    executor = OnDask(Source(RowsInMemory({"x": x}, 3), model_of("bernoulli")), threads)
    with pytest.raises(mc.DataError, match=r"^partition 2 \(rows 32 to 47.*row 10"):
        executor.sum(drawn, PART, 4)


def test_a_fit_leaves_the_cluster_behind_when_it_is_pickled(client):
    fit = mc.fit(model_of(*KIND), data_of(), **BUDGET)
    assert not fit.problem.partitions.sent
    again = pickle.loads(pickle.dumps(fit))
    assert again.problem.objective(again.latent, again.effects) == fit.objective
    pairs = [(0, 1), (40, 2)]
    for other in (again, pickle.loads(pickle.dumps(fit.compact()))):
        np.testing.assert_array_equal(
            other.predict_pairs("x", pairs), fit.predict_pairs("x", pairs)
        )


def test_rows_that_took_many_rounds_are_brought_here(client, monkeypatch):
    """Where a worker's death would repeat these: the same bits, and more bytes that come back."""
    model, data = model_of(*KIND), data_of()
    work = []
    for depth in (64, 2):
        monkeypatch.setattr(on_dask, "MOST_DEPTH", depth)
        fit = mc.fit(model, data, **BUDGET)
        work.append((bits(fit), fit.history[-1].work.received))
    assert work[0][0] == work[1][0]
    assert work[1][1] > work[0][1]
    monkeypatch.setattr(on_dask, "STORED_NUMBERS", 10)
    fit = mc.fit(model, data, **BUDGET)
    assert (bits(fit), fit.history[-1].work.received) == work[0], "large ones stay where they are"


def test_bytes_that_travel_are_counted(client):
    """Of the last rounds: normal equations of all columns back from each of four partitions."""
    from mcframe.compile import Entries
    from mcframe.model.binding import Totals
    from mcframe.partitions.partitioned_loss import matrix_of

    totals = Totals({"x": 1.0}, {}, {"x": mc.Gaussian()}, {})
    executor = OnDask(Source(data_of(), model_of("gaussian"), totals), client)
    left, right, block = np.ones((48, 200)), np.ones((16, 200)), np.ones((16, 50))
    latent = sharded_rows(LowRank(left, right))
    values = LazyEntryValues(Entries.of, (ENTRIES, latent), size=1)
    try:
        for _ in range(2):
            executor.map_partitions(
                operator.matmul, PartValue(matrix_of, (ENTRIES, values, ())), block
            )
    finally:
        executor.close()  # else workers keep its parts for as long as they know of no end
    assert executor.work.rounds == 2
    assert executor.work.received == 2 * 48 * 50 * 8
    arrays = left.nbytes + right.nbytes + block.nbytes
    assert arrays <= executor.work.sent < arrays + 1_000, "each array goes there once"


def test_wrong_data_are_named_through_the_cluster(client):
    x = table("bernoulli")
    x.data[x.indptr[42]] = 2.0
    with pytest.raises(mc.DataError, match=r"partition 2 \(rows 32 to 47.*row 10"):
        mc.fit(model_of("bernoulli"), RowsInMemory({"x": x}, 3))


def test_a_client_that_is_closed_is_refused(cluster):
    connected = distributed.Client(cluster)
    with connected.as_current():
        connected.close()
        with pytest.raises(mc.BackendError, match="not connected"):
            mc.fit(model_of(*KIND), data_of())


def test_arrays_go_to_the_cluster_once(client, monkeypatch):
    """U and V are the same in all rounds of a certificate: no round sends them anew."""
    executor = OnDask(Source(data_of(), model_of(*KIND)), client)
    sent = []
    monkeypatch.setattr(
        OnDask, "submit_value", lambda self, value: sent.append(value) or value, raising=True
    )
    array, arrays = np.zeros((48, 100)), []
    for _ in range(3):
        executor.slot(RowSharded(array), arrays, 1, (12, 24))
    assert [own.shape for own in sent] == [(12, 100)]
    assert arrays == 3 * sent


def test_arrays_stay_on_the_cluster_as_long_as_the_driver_has_them(client, monkeypatch):
    executor = OnDask(Source(data_of(), model_of(*KIND)), client)
    monkeypatch.setattr(OnDask, "submit_value", lambda self, value: None)
    first, second = np.zeros((48, 100)), np.zeros((48, 100))
    for array in (first, second):
        executor.slot(RowSharded(array), [], 1, (12, 24))
    del array, first
    assert len(executor.sent) == 1
    executor.slot(RowSharded(second), [], 1, (12, 24))
    assert len(executor.sent) == 1


def keep_nothing_in_memory(share):
    from mcframe.partitions import on_dask

    before, on_dask.COMPILED_MEMORY_SHARE = on_dask.COMPILED_MEMORY_SHARE, share
    return before


def kept_here():
    from mcframe.partitions.on_dask import CACHES

    fits = CACHES.fits.values()
    counts = [(len(kept.parts), len(kept.stored), kept.scratch is not None) for kept in fits]
    return tuple(map(sum, zip(*counts, strict=True)))


def test_parts_that_do_not_fit_go_to_the_folders_of_workers_until_the_fit_ends(client, alone):
    """-inf of no limit: no worker has memory for any."""
    before = next(iter(client.run(keep_nothing_in_memory, -1.0).values()))
    during = []
    try:
        look = lambda record: during.append(client.run(kept_here))  # noqa: E731
        fit = mc.fit(model_of(*KIND), data_of(), **BUDGET, callback=look)
    finally:
        client.run(keep_nothing_in_memory, before)
    assert bits(fit) == alone
    in_memory, on_disk, _ = zip(*during[-1].values(), strict=True)
    assert sum(in_memory) == 0
    assert sum(on_disk) >= 4
    assert set(client.run(kept_here).values()) == {(0, 0, 0)}


def take_folder(folder, dask_worker=None):
    before, dask_worker.local_directory = dask_worker.local_directory, folder
    return before


def test_a_folder_that_no_worker_has_is_named_before_anything_is_read(client, tmp_path):
    class Unread(RowsInMemory):
        def part(self, p):
            raise RuntimeError("it was read")

    before = client.run(take_folder, str(tmp_path / "missing"))
    try:
        with pytest.raises(mc.BackendError, match=r"missing' on worker tcp.*No such file.*TMPDIR"):
            mc.fit(model_of(*KIND), Unread({"x": table(KIND[0])}, 2))
    finally:
        for worker, folder in before.items():
            client.run(take_folder, folder, workers=[worker])


def other_environment(dask_worker=None):
    """Let a worker say that it has another version of SciPy."""
    from mcframe.partitions import cluster

    there = {**cluster.local_environment(), "scipy": "0.19"}
    cluster.local_environment = lambda: there


@pytest.mark.slow
def test_workers_killed_together_at_any_moment_change_no_bit(client, alone):
    """All but one, and all, by the clock and not by the iteration."""
    rng, over, killed = np.random.default_rng(0), threading.Event(), []

    def kill():
        for n_spared in (1, 0):
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
        fit = mc.fit(model_of(*KIND), data_of(), **BUDGET)
    finally:
        over.set()
        killer.join()
    assert len(killed) >= 2
    assert bits(fit) == alone


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.some(0.8, same=1)
def test_a_worker_that_joins_late(cluster, client, alone, monkeypatch, same):
    """It takes its share, and is refused where it computes with other versions."""
    before, late, preferred_workers = set(client.scheduler_info()["workers"]), [], set()
    submit_round = OnDask.submit_round

    def join():
        cluster.scale(4)
        client.wait_for_workers(4, timeout=120)
        late.extend(set(client.scheduler_info()["workers"]) - before)
        if not same:
            client.run(other_environment, workers=late)

    def submit_and_note(self, task):
        futures = submit_round(self, task)
        preferred_workers.update(self.preferred_workers)
        return futures

    at_step(monkeypatch, 2, join)
    monkeypatch.setattr(OnDask, "submit_round", submit_and_note)
    monkeypatch.setattr(on_dask, "REFRESH_ROUNDS", 5)
    try:
        if same:
            fit = mc.fit(model_of(*KIND), data_of(), **BUDGET)
            assert bits(fit) == alone
            assert preferred_workers == {*before, *late}
        else:
            with pytest.raises(mc.BackendError, match=r"has scipy 0.19, and the process"):
                mc.fit(model_of(*KIND), data_of(), **BUDGET)
    finally:
        client.retire_workers(late, close_workers=True, remove=True)
