"""The published algorithms beside the problems they state."""

import attrs
import numpy as np
import pytest

import mcframe as mc
from mcframe.papers import fixed_point_mc_1, fixed_point_mc_b, mc_1, mc_b
from mcframe.papers.goldberg import FixedPointMC1


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


def test_algorithm_2_refuses_what_it_is_not_for(table):
    ridge = attrs.evolve(mc_1(0.1), terms=[*mc_1(0.1).terms, mc.Ridge(0.1)])
    with pytest.raises(mc.BackendError, match="without a ridge"):
        mc.fit(ridge, table, backend=FixedPointMC1())
    with pytest.raises(mc.BackendError, match="fixed to 1"):
        mc.fit(mc_b(0.1), table, backend=FixedPointMC1())
