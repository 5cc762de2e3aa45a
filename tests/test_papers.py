"""The published algorithms beside the problems they state."""

from functools import partial

import attrs
import numpy as np
import pytest

import mcframe as mc
from mcframe import papers
from mcframe.papers import fixed_point_mc_1, fixed_point_mc_b, mc_1, mc_b


def test_mc_b_is_equation_2(table):
    mu, weight = 0.05, 0.7
    rng = np.random.default_rng(0)
    z, b = rng.standard_normal((20, 12)), rng.standard_normal(4)
    x, y = table["features"], table["labels"]
    seen_x, seen_y = ~np.isnan(x), ~np.isnan(y)
    s = 2 * y[seen_y] - 1
    margins = s * (z[:, 8:] + b)[seen_y]
    value = mu * np.linalg.norm(z, "nuc")
    value += weight * np.mean(np.log1p(np.exp(-margins)))
    value += 0.5 * np.mean((z[:, :8][seen_x] - x[seen_x]) ** 2)
    problem = mc.Problem.bind(mc_b(mu, weight), table)
    assert problem.objective(z, {"labels": b}) == pytest.approx(value, rel=1e-12)


def test_mc_1_holds_its_ones(table):
    fit = mc.fit(mc_1(0.05), table)
    assert np.all(fit.latent.dense()[:, -1] == 1.0)
    assert fit.status == "certified"
    loose = fit.problem.objective(np.zeros((20, 13)), {})
    assert loose == np.inf


def naive_algorithm_2(table, mu, weight, stages, n_steps):
    """Algorithm 2 as one writes it down: a plain loop over dense matrices, full SVDs."""
    x, y = table["features"], table["labels"]
    seen_x, seen_y = ~np.isnan(x), ~np.isnan(y)
    signs = np.where(seen_y, 2 * y - 1, 0.0)
    n_x, n_y = seen_x.sum(), seen_y.sum()
    step = min(3.8 * n_y / weight, n_x)
    filled = np.hstack([np.where(seen_x, x, 0.0), signs, np.ones((len(x), 1))])
    left, s, right = np.linalg.svd(filled)
    z = s[0] * np.outer(left[:, 0], right[0])
    z[:, -1] = 1.0
    for stage in stages(s[0]):
        for _ in range(n_steps):
            gradient = np.zeros_like(z)
            gradient[:, :8] = np.where(seen_x, z[:, :8] - x, 0.0) / n_x
            gradient[:, 8:12] = -weight / n_y * signs / (1 + np.exp(signs * z[:, 8:12]))
            left, s, right = np.linalg.svd(z - step * gradient, full_matrices=False)
            z = (left * np.maximum(s - step * stage, 0.0)) @ right
            z[:, -1] = 1.0
    return z


def test_algorithm_2_is_what_was_published(table):
    """Its fixed point is that of the plain loop; which stages lead there plays no part."""
    mu = 0.05
    plain = naive_algorithm_2(table, mu, 1.0, lambda sigma: [0.25 * sigma, mu], 3000)
    fit = fixed_point_mc_1(table, mu, change=1e-14)
    np.testing.assert_allclose(fit.latent.dense(), plain, atol=1e-5)


@pytest.mark.parametrize("mu", [0.1, 0.05])
def test_algorithm_2_misses_the_optimum_of_its_problem(table, mu):
    exact = mc.fit(mc_1(mu), table, tol=1e-8)
    published = fixed_point_mc_1(table, mu, change=1e-12)
    assert published.objective > exact.objective * 1.0005
    assert published.bound <= exact.objective
    assert published.status == "interrupted"


def test_algorithm_1_reaches_the_optimum_as_far_as_its_rule_lets_it(table):
    exact = mc.fit(mc_b(0.05), table, tol=1e-9)
    published = fixed_point_mc_b(table, 0.05)
    assert published.bound <= exact.objective <= published.objective
    assert published.objective <= exact.objective * (1 + 1e-3)
    assert published.gap >= published.objective / exact.objective - 1


def test_the_published_algorithms_refuse_what_they_are_not_for(table):
    ridge = attrs.evolve(mc_1(0.1), terms=[*mc_1(0.1).terms, mc.Ridge(0.1)])
    with pytest.raises(mc.ModelError, match="for the models of mc_b and mc_1 alone"):
        list(papers.fixed_point_path(ridge, table, [0.1]))
    weighted = {**table, "labels": mc.Observations(table["labels"], weights=2.0)}
    with pytest.raises(mc.DataError, match=r"'labels': the published .* neither weights"):
        fixed_point_mc_b(weighted, 0.1)
    with pytest.raises(mc.ModelError, match="must descend"):
        list(papers.fixed_point_path(mc_b(0.1), table, [0.1, 0.2]))


def test_algorithm_1_is_the_fpc_backend_with_their_rule(table):
    """Two implementations, one of them over dense matrices: the same iterates."""
    backend = mc.FPC(stopping="published")
    with pytest.warns(mc.NotCertifiedWarning):
        other = mc.fit(mc_b(0.02, 0.7), table, backend=backend, tol=0.0)
    fit = fixed_point_mc_b(table, 0.02, 0.7)
    assert fit.history[-1].iteration == other.history[-1].iteration
    np.testing.assert_allclose(fit.latent.dense(), other.latent.dense(), atol=1e-9)


@pytest.mark.parametrize("preset", [mc_b, mc_1, partial(mc_b, bias=False)])
def test_every_mu_of_one_run(table, preset):
    """A path ends where the algorithm does that goes straight to its last mu."""
    weights = papers.published_weights(table, last=0.02)
    assert weights[-1] == 0.02
    np.testing.assert_allclose(weights[1:-1] / weights[:-2], 0.25)
    whole = fixed_point_mc_1 if preset is mc_1 else fixed_point_mc_b
    path = list(papers.fixed_point_path(preset(1.0), table, weights))
    assert [fit.model.terms[0].weight for fit in path] == list(weights)
    for fit in path:
        exact = mc.fit(fit.model, table, tol=1e-6)
        assert fit.bound <= exact.objective * (1 + 1e-9)
        assert fit.objective >= exact.bound
    if preset is mc_b:  # MC-1 begins from sigma_1 of the table with its ones
        expected = whole(table, 0.02)
        np.testing.assert_allclose(path[-1].latent.dense(), expected.latent.dense(), atol=1e-12)
        assert len(expected.history) == len(path)


def test_iterations_that_run_out(table):
    fit = fixed_point_mc_1(table, 0.02, max_iter=3)
    assert fit.status == "iteration_limit"
    assert fit.history[-1].iteration == 3
    assert fixed_point_mc_1(table, 0.02, max_iter=0).status == "iteration_limit"


def coco_data(seed=0):
    """Features of rank 2 and labels, a fifth of both observed as in Xu et al., 24 x (10 + 4)."""
    rng = np.random.default_rng(seed)
    latent = rng.uniform(-2, 2, (24, 2)) @ rng.uniform(-2, 2, (2, 14))
    features = latent[:, :10].copy()
    labels = (rng.random((24, 4)) < 1 / (1 + np.exp(-latent[:, 10:]))).astype(float)
    features[rng.random(features.shape) > 0.5] = np.nan
    labels[rng.random(labels.shape) > 0.5] = np.nan
    return {"features": features, "labels": labels}


def test_coco_is_its_formula():
    """Eq. 1 written out, at a random Z."""
    data = coco_data()
    problem = mc.Problem.bind(papers.coco(0.7, 0.4, 0.02), data)
    latent = np.random.default_rng(1).standard_normal((24, 14))
    seen_x, seen_y = ~np.isnan(data["features"]), ~np.isnan(data["labels"])
    residual = np.where(seen_x, latent[:, :10] - np.nan_to_num(data["features"]), 0.0)
    signs = 2 * data["labels"][seen_y] - 1
    losses = np.log1p(np.exp(-signs * latent[:, 10:][seen_y]))
    nuclear = np.linalg.svd(latent, compute_uv=False).sum()
    residual_nuclear = np.linalg.svd(residual, compute_uv=False).sum()
    wanted = losses.sum() + 0.7 * nuclear + 0.02 * np.sum(residual**2) + 0.4 * residual_nuclear
    assert np.isclose(problem.objective(latent, {}), wanted, rtol=1e-10)


def test_the_published_subgradient_iteration_stays_above_the_optimum():
    data = coco_data()
    exact = mc.fit(papers.coco(), data, tol=1e-6)
    published = papers.coco_subgradient(data, max_iter=60)
    assert exact.status == "certified"
    assert published.bound <= exact.objective
    assert published.objective >= exact.bound
    plain = papers.coco_subgradient(data, lambda_2=0.0, max_iter=60)
    assert len(plain.problem.terms) == 1


def test_the_published_projection_is_the_loop_of_the_paper():
    """Eqs. 107 and 108 written out, three steps from the same start."""
    rng = np.random.default_rng(0)
    labels = (rng.random((9, 7)) < 0.5).astype(float)
    labels[rng.random(labels.shape) < 0.5] = np.nan
    model = papers.tri(0.3, 0.3, 0.4, radius=1.5, bound=0.8, missing_rate=0.5)
    fit = papers.projected_factors(model, {"labels": labels}, 3, 0.05, max_iter=3)
    start = 0.1 * np.random.default_rng(0).standard_normal((16, 3))
    u, v = projected(start[:9], start[9:], 1.5, 0.8)
    risk = model.block("labels").likelihood
    for _ in range(3):
        gradient = risk.value_and_gradient((u @ v.T).ravel(), labels.ravel())[1].reshape(9, 7)
        u, v = projected(u - 0.05 * gradient @ v, v - 0.05 * gradient.T @ u, 1.5, 0.8)
    np.testing.assert_allclose(fit.latent.dense(), u @ v.T, atol=1e-9)
    exact = mc.fit(model, {"labels": labels}, tol=1e-5)
    assert fit.objective >= exact.bound


def projected(u, v, radius, bound):
    """Long rows cut, both factors scaled into the box."""
    u = u * np.minimum(1, np.sqrt(radius) / np.linalg.norm(u, axis=1))[:, None]
    v = v * np.minimum(1, np.sqrt(radius) / np.linalg.norm(v, axis=1))[:, None]
    scale = np.sqrt(min(1.0, bound / np.abs(u @ v.T).max()))
    return scale * u, scale * v
