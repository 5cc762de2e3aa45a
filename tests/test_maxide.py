"""Maxide: its problem solved, its certificate, its authors' rule."""

import numpy as np
import pytest
from papers.baselines import maxide

import mcframe as mc


@pytest.fixture
def known():
    """Labels that are linear in the features, 30 x 6 from 30 x 4, most of them observed."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((30, 4))
    labels = features @ rng.standard_normal((4, 6)) + 0.1 * rng.standard_normal((30, 6))
    return features, np.where(rng.random(labels.shape) < 0.7, labels, np.nan)


def objective(core, rows, columns, entries, weight):
    residual = (rows @ core @ columns.T - entries)[~np.isnan(entries)]
    return 0.5 * np.sum(residual**2) + weight * np.linalg.norm(core, "nuc")


def test_the_objective_and_the_optimum_are_those_of_cvxpy(known):
    import cvxpy as cp

    features, labels = known
    side = np.random.default_rng(1).standard_normal((6, 3))
    answer = maxide(labels, features, side, weight=0.7, tol=1e-8, change=0.0, max_iter=5000)
    rows, columns = np.linalg.qr(features)[0], np.linalg.qr(side)[0]
    core = cp.Variable((4, 3))
    seen = ~np.isnan(labels)
    residual = cp.multiply(seen, rows @ core @ columns.T) - np.nan_to_num(labels)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(residual) + 0.7 * cp.normNuc(core)))
    problem.solve(solver="CLARABEL")
    assert answer.status == "certified"
    assert answer.bound <= problem.value * (1 + 1e-7)
    assert answer.objective == pytest.approx(problem.value, rel=1e-6)
    np.testing.assert_allclose(answer.predict(), rows @ core.value @ columns.T, atol=1e-3)
    mine = objective(answer.core, answer.rows, answer.columns, labels, 0.7)
    assert answer.objective == pytest.approx(mine, rel=1e-12)


def test_without_sides_it_is_matrix_completion(known):
    labels = known[1]
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    fit = mc.fit(model, {"x": labels}, tol=1e-9)
    answer = maxide(labels, tol=1e-7, change=0.0, max_iter=5000)
    assert answer.objective == pytest.approx(fit.objective, rel=1e-6)
    assert fit.bound >= answer.bound * (1 - 1e-12)


def naive(entries, side, weight, n_steps):
    """Accelerated proximal gradients as one writes them down, the curvature found by doubling."""
    seen, filled = ~np.isnan(entries), np.nan_to_num(entries)
    core = before = np.zeros((side.shape[1], entries.shape[1]))
    alpha = last = 1.0
    curvature = 1.0
    for _ in range(n_steps):
        ahead = core + alpha * (1 / last - 1) * (core - before)
        before = core
        residual = seen * (side @ ahead) - filled
        gradient = side.T @ residual
        while True:
            left, s, right = np.linalg.svd(ahead - gradient / curvature, full_matrices=False)
            core = (left * np.maximum(s - weight / curvature, 0)) @ right
            step = core - ahead
            model = 0.5 * np.sum(residual**2) + np.sum(gradient * step)
            model += curvature / 2 * np.sum(step**2)
            if 0.5 * np.sum((seen * (side @ core) - filled) ** 2) <= model:
                break
            curvature *= 2
        last, alpha = alpha, (np.sqrt(alpha**4 + 4 * alpha**2) - alpha**2) / 2
    return side @ core


def test_the_iteration_is_the_published_one(known):
    features, labels = known
    answer = maxide(labels, features, weight=0.5, orthonormal=False, max_iter=25, change=0.0)
    assert answer.iterations == 25
    np.testing.assert_allclose(answer.predict(), naive(labels, features, 0.5, 25), atol=1e-9)


def test_it_stops_by_its_authors_rule_and_says_how_far_it_is(known):
    features, labels = known
    answer = maxide(labels, features, weight=0.01)
    assert answer.status == "stopped"
    exact = maxide(labels, features, weight=0.01, tol=1e-8, change=0.0, max_iter=5000)
    assert answer.bound <= exact.objective <= answer.objective
    assert "stopped after" in repr(answer)


def test_the_bound_holds_wherever_it_is_computed(known):
    features, labels = known
    optimum = maxide(labels, features, weight=2.0, tol=1e-9, change=0.0, max_iter=9000).objective
    bounds = [maxide(labels, features, weight=2.0, max_iter=k).bound for k in range(12)]
    assert max(bounds) <= optimum * (1 + 1e-12)
    assert bounds[-1] > bounds[0]


def test_a_start_continues_a_path(known):
    features, labels = known
    wide = maxide(labels, features, weight=1.0, tol=1e-6, change=0.0, max_iter=999)
    cold = maxide(labels, features, weight=0.9, tol=1e-6, change=0.0, max_iter=999)
    warm = maxide(labels, features, weight=0.9, tol=1e-6, change=0.0, max_iter=999, start=wide)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-5)
    assert warm.iterations <= cold.iterations
    with pytest.raises(mc.DataError, match="start has a Z of"):
        maxide(labels, weight=0.9, start=wide)


def test_a_weight_above_all_gradients_gives_0(known):
    answer = maxide(known[1], weight=1e4, tol=1e-9)
    assert not answer.predict().any()
    assert answer.gap <= 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"entries": [[np.nan, np.nan]]}, "all are NaN"),
        ({"entries": np.zeros(3)}, "a matrix with rows and columns"),
        ({"entries": [["a"]]}, "a matrix of numbers is needed"),
        ({"entries": np.ones((3, 2)), "rows": np.ones((2, 2))}, "3 complete ones"),
        ({"entries": np.ones((3, 2)), "rows": np.zeros((3, 2))}, "leave rows out"),
        ({"entries": np.ones((2, 2)), "columns": [[1.0], [np.nan]]}, "1 missing values"),
    ],
)
def test_wrong_data_are_named(arguments, message):
    with pytest.raises(mc.DataError, match=message):
        maxide(**arguments)


def test_a_weight_that_is_not_positive_is_refused():
    with pytest.raises(mc.ModelError, match="above 0"):
        maxide(np.ones((2, 2)), weight=0.0)
