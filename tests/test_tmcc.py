"""TMCC and its baselines: the formulas, the published algorithm, the synthetic data."""

import itertools

import numpy as np
import pytest
from papers.baselines import collective_soft_impute, two_stage
from papers.data import calibrated_tasks

import mcframe as mc
from mcframe.papers import collective, mc0, soft_impute, tmcc, tmcc_accelerated
from mcframe.papers.wang import TmccAccelerated

TASKS = ("bernoulli", "poisson", "gaussian")


@pytest.fixture(scope="module")
def drawn():
    return calibrated_tasks(
        np.random.default_rng(5), n_items=30, n_features=8, n_targets=8, rank=2, noise=0.3
    )


def losses(drawn, m):
    """The braces of their objective at M = [X Z], written out."""
    x, y = m[:, :8], drawn.data
    total = 0.5 * np.nansum((x - y["features"]) ** 2)
    for k, name in enumerate(TASKS):
        z = m[:, 8 * (k + 1) : 8 * (k + 2)]
        link = (np.log1p(np.exp(z)), np.exp(z), 0.5 * z**2)[k]
        total += np.nansum(link - y[name] * z)
    # Terms without z: mcframe keeps y^2/2 of a Gaussian.
    return total + 0.5 * np.nansum(y["gaussian"] ** 2)


def test_tmcc_is_its_formula(drawn):
    m = np.random.default_rng(0).standard_normal((30, 32))
    n = drawn.n_cells
    nuclear = np.linalg.svd(m, compute_uv=False).sum()
    off = np.sum((drawn.A @ m[:, :8] - drawn.B) ** 2)
    found = mc.Problem.bind(tmcc(n, 0.3, 0.02, drawn.A, drawn.B), drawn.data).objective(m, {})
    assert found == pytest.approx(losses(drawn, m) / n + 0.3 * off + 0.02 * nuclear, rel=1e-12)
    plain = mc.Problem.bind(mc0(n, 0.02), drawn.data).objective(m, {})
    assert plain == pytest.approx(losses(drawn, m) / n + 0.02 * nuclear, rel=1e-12)


def test_collective_completion_is_that_without_features(drawn):
    m = np.random.default_rng(0).standard_normal((30, 32))
    m[:, :8] = 0.0
    n = 30 * 24
    others = {name: drawn.data[name] for name in TASKS}
    found = mc.Problem.bind(collective(n, 0.02), others).objective(m[:, 8:], {})
    features = 0.5 * np.nansum(drawn.data["features"] ** 2)
    nuclear = np.linalg.svd(m, compute_uv=False).sum()
    wanted = (losses(drawn, m) - features) / n + 0.02 * nuclear
    assert found == pytest.approx(wanted, rel=1e-12)


def test_exact_calibration_is_the_limit_of_the_penalty(drawn):
    n = drawn.n_cells
    exact = mc.fit(tmcc(n, None, 0.01, drawn.A, drawn.B), drawn.data, tol=1e-7)
    assert exact.status == "certified"
    assert exact.residual("features") <= 1e-8
    away = []
    for tau_1 in (1.0, 10.0):
        loose = mc.fit(tmcc(n, tau_1, 0.01, drawn.A, drawn.B), drawn.data, tol=1e-8)
        away.append((loose.residual("features"), exact.objective - loose.objective))
    # Both fall like 1 / tau_1, and a penalty only widens the set over which is minimised.
    for before, after in itertools.pairwise(away):
        assert 0.0 < after[0] < 0.2 * before[0]
        assert 0.0 < after[1] < 0.2 * before[1]


def plain_algorithm_1(drawn, tau_1, tau_2, step, n_steps, seed):
    """Their Algorithm 1 as one writes it down; the objective after each step too."""
    n, rng = drawn.n_cells, np.random.default_rng(seed)
    before = now = rng.uniform(-1.0, 1.0, (30, 32))

    def value(m):
        off = np.sum((drawn.A @ m[:, :8] - drawn.B) ** 2)
        nuclear = np.linalg.svd(m, compute_uv=False).sum()
        return losses(drawn, m) / n + tau_1 * off + tau_2 * nuclear

    counter, values, restarts = 1, [value(now)], 0
    for _ in range(n_steps):
        q = now + (counter - 1) / (counter + 2) * (now - before)
        gradient = np.zeros_like(q)
        y = drawn.data
        gradient[:, :8] = np.nan_to_num(q[:, :8] - y["features"])
        for k, name in enumerate(TASKS):
            part = slice(8 * (k + 1), 8 * (k + 2))
            mean = (1 / (1 + np.exp(-q[:, part])), np.exp(q[:, part]), q[:, part])[k]
            gradient[:, part] = np.nan_to_num(mean - y[name])
        gradient /= n
        gradient[:, :8] += 2 * tau_1 * drawn.A.T @ (drawn.A @ q[:, :8] - drawn.B)
        left, s, right = np.linalg.svd(q - step * gradient, full_matrices=False)
        before, now = now, (left * np.maximum(s - step * tau_2, 0.0)) @ right
        values.append(value(now))
        rose = values[-1] > values[-2]
        counter = 1 if rose else counter + 1
        restarts += rose
    return now, values, restarts


def test_the_published_algorithm_is_the_loop_of_the_paper(drawn):
    """The same iterate after 60 steps, restarts among them."""
    tau_1, tau_2, step = 0.05, 0.002, 400.0
    wanted, values, restarts = plain_algorithm_1(drawn, tau_1, tau_2, step, 60, 0)
    assert restarts >= 1
    model = tmcc(drawn.n_cells, tau_1, tau_2, drawn.A, drawn.B)
    with pytest.warns(mc.NotCertifiedWarning):
        found = mc.fit(
            model, drawn.data, backend=TmccAccelerated(step, kappa=0.0), max_iter=60, tol=0.0
        )
    assert found.history[-1].iteration == 60
    assert found.history[-1].objective == pytest.approx(values[-1], rel=1e-10)
    assert found.objective == pytest.approx(values[-1], rel=1e-9)
    if found.objective == found.history[-1].objective:
        np.testing.assert_allclose(found.latent.dense(), wanted, atol=1e-8)


def test_its_rule_stops_it_where_the_objective_hardly_changes(drawn):
    model = tmcc(drawn.n_cells, 0.05, 0.002, drawn.A, drawn.B)
    exact = mc.fit(model, drawn.data, tol=1e-9)
    nonsmooth = tmcc_accelerated(model, drawn.data, kappa=1e-4)
    fine = tmcc_accelerated(model, drawn.data, kappa=1e-9)
    for published in (nonsmooth, fine):
        assert published.status == "interrupted"
        assert "kappa" in published.message
        assert published.bound <= exact.objective * (1 + 1e-9)
        assert published.objective >= exact.bound
    assert nonsmooth.history[-1].iteration < fine.history[-1].iteration
    assert fine.objective <= exact.objective * (1 + 1e-5)


def test_it_refuses_what_it_is_not_for(drawn):
    exact = tmcc(drawn.n_cells, None, 0.01, drawn.A, drawn.B)
    with pytest.raises(mc.ModelError, match="calibration with a weight"):
        tmcc_accelerated(exact, drawn.data)
    with pytest.raises(mc.ModelError, match="a finite number above 0"):
        TmccAccelerated(0.0)
    with pytest.raises(mc.ModelError, match="kappa"):
        TmccAccelerated(kappa=-1.0)


def test_the_baselines_are_compositions_of_models(drawn):
    apart = collective_soft_impute(drawn.data, 2.0, 0.01)
    others = {name: drawn.data[name] for name in TASKS}
    tasks = mc.fit(collective(30 * 24, 0.01), others)
    np.testing.assert_array_equal(apart.natural("poisson"), tasks.natural("poisson"))
    stages = two_stage(drawn.data, 2.0, 0.005)
    assert np.array_equal(apart.natural("features"), stages.first.natural("features"))
    filled = stages.first.impute("features")
    seen = ~np.isnan(drawn.data["features"])
    assert np.array_equal(filled[seen], drawn.data["features"][seen])
    second = mc.fit(mc0(drawn.n_cells, 0.005), {**drawn.data, "features": filled})
    np.testing.assert_array_equal(stages.natural("features"), second.natural("features"))
    with pytest.raises(mc.DataError, match="at least one more block"):
        two_stage({"features": filled}, 1.0, 1.0)


def test_the_data_are_as_the_paper_says():
    rng = np.random.default_rng(0)
    linear = calibrated_tasks(rng, n_items=200, n_features=40, n_targets=50, missing=0.4)
    x, z = linear.truth["features"], [linear.truth[name] for name in TASKS]
    for matrix in (x, *z):
        assert np.abs(matrix).max() == pytest.approx(1.0)
        assert np.linalg.matrix_rank(matrix) == 3
    # Targets are linear in the features, so that all blocks share one column space.
    assert np.linalg.matrix_rank(np.hstack([x, *z])) == 3
    np.testing.assert_allclose(linear.B[0], x.mean(axis=0))
    for block in linear.data.values():
        assert np.isnan(block).mean() == pytest.approx(0.4, abs=0.03)
    assert set(np.unique(linear.data["bernoulli"][~np.isnan(linear.data["bernoulli"])])) == {0, 1}
    curved = calibrated_tasks(rng, linear=False, n_items=200, n_features=40, n_targets=40)
    x = curved.truth["features"]
    np.testing.assert_allclose(curved.truth["bernoulli"], x**2 + x + 0.5)
    np.testing.assert_allclose(curved.truth["poisson"], -(x**2) - x)
    np.testing.assert_allclose(curved.truth["gaussian"], -(x**2) - 2 * x + 0.2)
    residual = curved.data["gaussian"] - curved.truth["gaussian"]
    assert np.nanstd(residual) == pytest.approx(1.0, abs=0.05)
    with pytest.raises(mc.DataError, match="both must be equal"):
        calibrated_tasks(rng, linear=False, n_items=20, n_features=4, n_targets=5)


def test_soft_impute_is_its_formula(table):
    z = np.random.default_rng(0).standard_normal((20, 12))
    r = np.hstack([table["features"], table["labels"]])
    wanted = 0.5 * np.nansum((r - z) ** 2) + 3.0 * np.linalg.svd(z, compute_uv=False).sum()
    found = mc.Problem.bind(soft_impute(3.0), table).objective(z, {})
    assert found == pytest.approx(wanted, rel=1e-12)
