"""Posteriors of rows in partitions on the workers of a Dask cluster."""

import os
import signal

import numpy as np
import pytest

import mcframe as mc
from mcframe.partitions import on_dask
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.posterior import factors as engine
from tests.clusters import QUIET, cluster_of, distributed, in_this_process
from tests.test_posterior_partitions import LEARNED, model_of, table, trajectory

pytestmark = QUIET
BUDGET = {"factors": 2, "max_iter": 6}


@pytest.fixture(scope="module")
def client():
    with cluster_of(2) as local, distributed.Client(local) as connected:
        yield connected


@pytest.mark.parametrize("word", [LEARNED, mc.Bernoulli(), mc.Ordinal(3), mc.Poisson()], ids=repr)
@pytest.mark.some(0.9, word=[0, 2])
def test_workers_give_the_bits_of_one_process(client, word, monkeypatch):
    effects = {} if isinstance(word, mc.Ordinal) else {"bias": True, "row_effects": True}
    model, data = model_of(word, **effects), RowsInMemory({"x": table(word)}, 4)
    alone = mc.posterior(model, data, **BUDGET)
    monkeypatch.setattr(on_dask, "INLINE_BYTES", 0)
    forget, left = on_dask.OnDask.forget, []

    def counted(self, value):
        forget(self, value)
        left.append(len(self.sent))

    monkeypatch.setattr(on_dask.OnDask, "forget", counted)
    found = mc.posterior(model, data, **BUDGET)
    if not effects:  # thresholds ask several times in each sweep
        left = [0]
    assert left[-1] <= left[len(left) // 2], "what was sent of earlier sweeps is dropped"
    np.testing.assert_array_equal(trajectory(found), trajectory(alone))
    np.testing.assert_array_equal(found.predict("x"), alone.predict("x"))
    np.testing.assert_array_equal(found.sd("x", [3, 20], [1, 2]), alone.sd("x", [3, 20], [1, 2]))


@pytest.mark.parametrize("word", [LEARNED, mc.Bernoulli()], ids=repr)
def test_a_worker_that_is_killed_changes_no_bit_of_gaussians_and_lowers_no_bound(
    client, word, monkeypatch
):
    model, data = model_of(word), RowsInMemory({"x": table(word)}, 4)
    alone = in_this_process(mc.posterior, model, data, factors=2, max_iter=60, tol=1e-5)
    sweep, begun = engine.sweep, []

    def killing(*given, **options):
        begun.append(None)
        if len(begun) == 3:
            for pid in list(client.run(os.getpid).values())[:1]:
                os.kill(pid, signal.SIGKILL)
        return sweep(*given, **options)

    monkeypatch.setattr(engine, "sweep", killing)
    found = mc.posterior(model, data, factors=2, max_iter=60, tol=1e-5)
    assert len(begun) >= 3
    assert np.all(np.diff(trajectory(found)) >= -1e-9 * np.abs(trajectory(found)[1:]))
    if word == LEARNED:
        np.testing.assert_array_equal(trajectory(found), trajectory(alone))
    assert found.evidence == pytest.approx(alone.evidence, rel=1e-2)


def test_collections_of_dask_have_the_posterior_of_their_arrays(client):
    import dask.array as da

    x = table(LEARNED, n_rows=24)
    found = mc.posterior(
        model_of(LEARNED, bias=True), {"x": da.from_array(x, chunks=(6, -1))}, **BUDGET
    )
    rows = RowsInMemory({"x": x}, 4)
    parts = in_this_process(mc.posterior, model_of(LEARNED, bias=True), rows, **BUDGET)
    np.testing.assert_allclose(trajectory(found), trajectory(parts), rtol=1e-12)
    np.testing.assert_allclose(found.predict("x"), parts.predict("x"), rtol=1e-8)


@pytest.mark.parametrize("word", [LEARNED, mc.Bernoulli()], ids=repr)
@pytest.mark.some(1, word=1)
def test_attributes_of_rows_have_the_bits_of_one_process(client, word, monkeypatch):
    model, data = model_of(word, bias=True, row_effects=True), RowsInMemory({"x": table(word)}, 4)
    numbers = np.random.default_rng(0).normal(size=(data.n_items, 3))
    numbers[5, 1] = np.nan
    monkeypatch.setattr(on_dask, "INLINE_BYTES", 0)
    for given in (numbers, RowsInMemory({"numbers": numbers}, 3)):
        alone = in_this_process(mc.posterior, model, data, row_attributes=given, **BUDGET)
        found = mc.posterior(model, data, row_attributes=given, **BUDGET)
        np.testing.assert_array_equal(trajectory(found), trajectory(alone))
        np.testing.assert_array_equal(found.predict("x"), alone.predict("x"))
