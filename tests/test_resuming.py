"""A fit that goes on from another one: never above it, and about as far as one long run."""

import numpy as np
import pytest
import scipy.sparse as sp

import mcframe as mc

from .helpers import of_any_status

RNG = np.random.default_rng(5)
X = RNG.standard_normal((60, 4)) @ RNG.standard_normal((4, 40)) + 0.5 * RNG.standard_normal(
    (60, 40)
)
X[RNG.random(X.shape) < 0.6] = np.nan
Y = (RNG.random((60, 6)) < 0.5).astype(float)
GAUSSIAN = mc.Block("x", mc.Gaussian(), bias=True)
BERNOULLI = mc.Block("y", mc.Bernoulli())
CASES = {
    "proximal": ([GAUSSIAN, BERNOULLI], [mc.NuclearNorm(2.0)]),
    "fpc": ([GAUSSIAN, BERNOULLI], [mc.NuclearNorm(2.0)]),
    "alternating": ([GAUSSIAN, BERNOULLI], [mc.NuclearNorm(2.0)]),
    "factored": ([GAUSSIAN, BERNOULLI], [mc.MaxNorm(10.0)]),
    "splitting": ([GAUSSIAN, BERNOULLI], [mc.NuclearNorm(2.0), mc.Box(-2.0, 2.0, "y")]),
}


def data_of(blocks):
    return {block.name: {"x": X, "y": Y}[block.name] for block in blocks}


@pytest.mark.parametrize("backend", CASES)
def test_short_runs_get_as_far_as_a_long_one(backend):
    blocks, terms = CASES[backend]
    model, data = mc.Model(blocks, terms), data_of(blocks)
    once = of_any_status(mc.fit, model, data, backend=backend, tol=1e-9, max_iter=40)
    parts = None
    for _ in range(5):
        before = np.inf if parts is None else parts.objective
        bound = -np.inf if parts is None else parts.bound
        parts = of_any_status(
            mc.fit, model, data, backend=backend, tol=1e-9, max_iter=8, start=parts
        )
        assert parts.objective <= before
        assert parts.bound >= bound
    begin = of_any_status(mc.fit, model, data, backend=backend, tol=1e-9, max_iter=8).objective
    assert begin - parts.objective >= 0.9 * (begin - once.objective)


@pytest.mark.parametrize("backend", CASES)
def test_a_certified_fit_has_nothing_left_to_do(backend):
    blocks, terms = CASES[backend]
    model, data = mc.Model(blocks, terms), data_of(blocks)
    fit = of_any_status(mc.fit, model, data, backend=backend, tol=1e-3, max_iter=3000)
    again = of_any_status(mc.fit, model, data, backend=backend, tol=1e-3, max_iter=3000, start=fit)
    assert again.status == fit.status == "certified"
    assert again.objective == fit.objective
    assert again.history[-1].iteration == 0


def test_a_bound_is_not_carried_over_to_other_data():
    model = mc.Model([GAUSSIAN], [mc.NuclearNorm(2.0)])
    start = mc.fit(model, {"x": X})
    other = np.where(np.isnan(X), np.nan, 0.5 * X)
    resumed = mc.fit(model, {"x": other}, start=start)
    alone = mc.fit(model, {"x": other})
    assert resumed.objective == pytest.approx(alone.objective, rel=1e-5)
    assert resumed.bound <= alone.objective
    heavier = mc.Model([GAUSSIAN], [mc.NuclearNorm(4.0)])
    assert mc.fit(heavier, {"x": X}, start=start).bound >= start.objective


def test_data_changed_in_place_are_other_data():
    model, x = mc.Model([GAUSSIAN], [mc.NuclearNorm(2.0)]), X.copy()
    start = mc.fit(model, {"x": x})
    x[~np.isnan(x)] *= 0.5
    resumed = mc.fit(model, {"x": x}, start=start)
    assert resumed.bound < 0.5 * start.bound
    np.testing.assert_array_equal(start.problem.tables["x"].values, X[~np.isnan(X)])


@pytest.mark.slow(seconds=2)
def test_a_large_sparse_table_goes_on():
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, 400 * 300, 6_000))
    i, j = cells // 300, cells % 300
    left, right = rng.standard_normal((400, 10)), rng.standard_normal((300, 10))
    values = np.einsum("ij,ij->i", left[i], right[j]) / 3 + 0.5 * rng.standard_normal(cells.size)
    data = {"r": sp.csr_array((values, (i, j)), shape=(400, 300))}
    model = mc.Model([mc.Block("r", mc.Gaussian())], [mc.NuclearNorm(4.0)])
    once = mc.fit(model, data, backend="alternating", tol=1e-4)
    parts, steps = None, 0
    while parts is None or (parts.status != "certified" and steps < 200):
        parts = of_any_status(
            mc.fit, model, data, backend="alternating", tol=1e-4, max_iter=7, start=parts
        )
        steps += parts.history[-1].iteration
    assert parts.status == "certified"
    assert steps <= 1.5 * once.history[-1].iteration + 7


@pytest.mark.parametrize("backend", ["proximal", "fpc", "alternating", "splitting"])
def test_a_warm_start_takes_about_as_many_iterations_as_one_run(backend, tmp_path):
    """From Z, the effects, the dual point and the bound alone; a file changes nothing."""
    blocks, terms = CASES[backend]
    model, data = mc.Model(blocks, terms), data_of(blocks)
    once = mc.fit(model, data, backend=backend, tol=1e-7)
    first = mc.fit(model, data, backend=backend, tol=1e-4)
    loaded = mc.load(first.save(tmp_path / "fit.npz"), mc.Fit)
    rests = [mc.fit(model, data, backend=backend, tol=1e-7, start=s) for s in (first, loaded)]
    assert rests[0].history.objective.tolist() == rests[1].history.objective.tolist()
    steps = [fit.history[-1].iteration for fit in (once, first, rests[0])]
    assert steps[1] + steps[2] <= 1.25 * steps[0] + 8
    assert rests[0].history[0].gap == first.gap


def test_auto_goes_on_with_the_backend_of_its_start():
    model, data = mc.Model([GAUSSIAN], [mc.NuclearNorm(2.0)]), {"x": X}
    assert mc.fit(model, data, tol=1e-3).backend == "proximal"
    start = of_any_status(mc.fit, model, data, backend="alternating", max_iter=8, tol=1e-9)
    assert (
        of_any_status(mc.fit, model, data, start=start, max_iter=1, tol=1e-9).backend
        == "alternating"
    )
    heavier = mc.Model([GAUSSIAN], [mc.NuclearNorm(4.0)])
    assert mc.fit(heavier, data, start=start, tol=1e-3).backend == "proximal"
