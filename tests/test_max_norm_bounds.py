"""Multipliers that prove bounds on dual max norms: by ascent, by interior points, by shifts."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.backends.factored import FactoredDescent, chart_of
from mcframe.compile import compile_problem
from mcframe.model.problem import Problem
from mcframe.numerics import max_norm_bounds as max_norms
from mcframe.numerics.charts import Flat, ScaledSpheres, Spheres
from mcframe.numerics.max_norm_bounds import (
    ascend,
    bounding_multipliers,
    dual_max_norm_bound,
    dual_max_norm_split,
    interior_point,
    max_norm_multipliers,
    with_unit_rows,
)
from mcframe.numerics.norms import norm_upper_bound
from mcframe.papers import tri
from tests.test_sparse_max_norm import gradients

KINDS = ("plain", "rank one", "one row", "one column", "zero rows", "all zero", "uneven")


def gradient_of(kind, seed, scale):
    """A gradient of that kind, sparse and dense, and factors."""
    sizes = {"one row": (1, 12), "one column": (14, 1)}.get(kind, (14, 11))
    matrix, dense, rng = gradients(seed, sizes, share=0.5)
    rows, columns = np.ones(sizes[0]), np.ones(sizes[1])
    if kind == "zero rows":
        rows[:3] = columns[-2:] = 0.0
    elif kind == "all zero":
        rows[:] = 0.0
    elif kind == "uneven":
        rows, columns = (10.0 ** rng.uniform(-4, 4, size) for size in sizes)
    elif kind == "rank one":
        rows, columns = rng.standard_normal(sizes[0]), rng.standard_normal(sizes[1])
        matrix, dense = (
            type(matrix)(matrix.pattern, np.ones(matrix.values.size)),
            (dense != 0) * 1.0,
        )
    matrix, dense = matrix.between(rows, columns), rows[:, None] * dense * columns
    return scale * matrix, scale * dense, rng.standard_normal((sum(sizes), 4))


@settings(max_examples=60)
@given(
    st.sampled_from(KINDS),
    st.integers(0, 10**6),
    st.floats(-6, 6),
    st.sampled_from([0.0, 1e-3, 1e-1, 1e3]),
    st.sampled_from([0, 1000]),
)
def test_bounding_multipliers_prove_what_they_say(kind, seed, power, room, largest):
    """D + [[0, S], [S', 0]] is positive semidefinite; half the sum of D is never too small.

    Beyond the size that is written out and polished D is proven by whoever uses it.
    """
    scale = 10.0**power
    matrix, dense, stacked = gradient_of(kind, seed, scale)
    exact, n_rows = dual_max_norm_bound(dense), dense.shape[0]
    with mock.patch.object(max_norms, "LARGEST_POLISHED", largest):
        for gradient in (matrix, dense):
            diagonal = bounding_multipliers(gradient, stacked, room * scale)
            with mock.patch.object(max_norms, "SMALL_ORDER", 0):
                proven, proof = dual_max_norm_split(gradient, diagonal)
            assert proven >= exact * (1 - 1e-8)
            assert 0.5 * np.sum(proof) == pytest.approx(proven, rel=1e-9)
            whole = np.diag(proof)
            whole[:n_rows, n_rows:], whole[n_rows:, :n_rows] = dense, dense.T
            assert np.linalg.eigvalsh(whole)[0] >= -1e-12 * np.max(np.abs(whole))
            if largest:
                assert proven <= 0.5 * np.sum(diagonal) * (1 + 1e-6)
                # What is proven already is not improved unasked.
                assert dual_max_norm_bound(gradient, diagonal) == proven


def best_factors(gradient, rng, width=30):
    """Factors with rows of norm 1 that maximise -<S, U V'>."""
    right = rng.standard_normal((gradient.shape[1], width))
    for _ in range(3000):
        left = with_unit_rows(-(gradient @ right))[0]
        right = with_unit_rows(-(gradient.T @ left))[0]
    return np.vstack([left, right])


def unpolished_bound(gradient, multipliers):
    """As of a gradient too large for interior points."""
    with mock.patch.object(max_norms, "SMALL_ORDER", 0):
        return dual_max_norm_bound(gradient, multipliers)


def near(stacked, noise, rng):
    """Factors with rows of norm 1 about so far from those."""
    moved = stacked + noise * rng.standard_normal(stacked.shape) / np.sqrt(stacked.shape[1])
    return with_unit_rows(moved)[0]


def test_ascent_finds_the_multipliers_of_the_exact_bound():
    """Near a maximiser to the digits that its gap needs, from anywhere to a share of it."""
    matrix, dense, rng = gradients(0, (60, 45))
    exact, best = dual_max_norm_bound(dense), best_factors(dense, rng)
    for stacked, loss in ((near(best, 0.03, rng), 1e-4), (rng.standard_normal((105, 30)), 5e-3)):
        sparse, same = (ascend(m, stacked).multipliers for m in (matrix, dense))
        np.testing.assert_allclose(sparse, same, rtol=1e-6)
        for gradient, multipliers, largest in ((matrix, sparse, 0), (dense, same, 1000)):
            with mock.patch.object(max_norms, "LARGEST_POLISHED", largest):
                found = unpolished_bound(gradient, multipliers)
            assert exact * (1 - 1e-9) <= found <= exact * (1 + loss)
    # From factors that are not optimal for this gradient those of the factors are far off.
    plain = max_norm_multipliers(dense, stacked)
    assert unpolished_bound(dense, plain) > exact * 1.05
    assert not ascend(matrix, np.zeros((105, 3))).multipliers.any()


@pytest.mark.parametrize("noise", [1.0, 0.1, 0.03, 0.01, 1e-3])
def test_multipliers_cost_little_of_the_gap_of_their_factors(noise):
    """Without a room, however small the gap is; with one, they bring the bound there."""
    matrix, dense, rng = gradients(2, (60, 45))
    exact, best = dual_max_norm_bound(dense), best_factors(dense, rng)
    stacked = near(best, noise, rng)
    gap = exact - ascend(dense, stacked).begun
    assert 0.0 < gap < 2.0 * exact * noise**2
    for gradient in (matrix, dense):
        assert 0.5 * np.sum(bounding_multipliers(gradient, stacked)) <= exact + 0.12 * gap
        closed = bounding_multipliers(gradient, stacked, 1.2 * gap)
        assert 0.5 * np.sum(closed) <= exact + 0.2 * gap + 1e-9 * exact


def test_factors_of_zeros_are_no_place_to_begin_from():
    """An optimum of 0 has no factors that tell the multipliers; the weight decides."""
    _, dense, _ = gradients(2, (60, 45))
    exact = dual_max_norm_bound(dense)
    for room in (0.0, 1e-6 * exact, exact):
        found = bounding_multipliers(dense, np.zeros((105, 3)), room)
        assert 0.5 * np.sum(found) == pytest.approx(exact, rel=1e-8)
    x = np.random.default_rng(3).standard_normal((11, 6)) * 5.0
    dual = dual_max_norm_bound(np.where(x > 0.0, -0.3, 0.7))
    for above in (1.0 + 1e-6, 1.5):
        model = mc.Model([mc.Block("x", mc.Quantile(0.3))], [mc.MaxNorm(above * dual)])
        found = mc.fit(model, {"x": x})
        assert found.status == "certified"
        assert found.history[-1].iteration <= 50


def test_what_cannot_close_a_gap_is_not_polished(monkeypatch):
    _, dense, rng = gradients(2, (60, 45))
    exact, best = dual_max_norm_bound(dense), best_factors(dense, rng)
    stacked = near(best, 1e-2, rng)
    gap = exact - ascend(dense, stacked).begun
    asked = []

    def noted(*arguments):
        asked.append(arguments)
        return interior_point(*arguments)

    monkeypatch.setattr(max_norms, "interior_point", noted)
    bounding_multipliers(dense, stacked, 0.5 * gap)  # out of reach
    bounding_multipliers(dense, stacked, 20.0 * gap)  # reached without
    assert not asked
    bounding_multipliers(dense, stacked, 1.1 * gap)
    assert len(asked) == 1
    monkeypatch.setattr(max_norms, "LARGEST_POLISHED", 104)
    bounding_multipliers(dense, stacked, 1.1 * gap)
    assert len(asked) == 1


def test_interior_points_end_where_the_aim_is_told():
    """Reached, or out of reach: either way in fewer steps than the optimum takes."""
    _, dense, _ = gradients(3, (40, 30))
    dense = dense / np.max(np.abs(dense))
    exact = dual_max_norm_bound(dense)
    begin = np.ones(70)

    def half_sum(aim):
        return 0.5 * float(np.sum(interior_point(dense, begin, 2.0 * exact, aim)))

    assert half_sum(0.0) == pytest.approx(exact, rel=1e-8)
    assert exact * (1 + 1e-5) < half_sum(1.05 * exact) <= 1.05 * exact
    assert half_sum(0.95 * exact) > exact * (1 + 1e-4)


def test_norms_are_exact_where_singular_values_crowd():
    """A Lanczos estimate of 60 steps misses the top of these, and trials above it overshoot."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((n, 400)))[0] for n in (500, 400))
    crowd = [1.0 + 4e-4 * rng.random(6), 1.0 - 1e-2 * rng.random(60), 0.9 * rng.random(334)]
    values = np.concatenate(crowd)
    matrix = (left * values) @ right.T
    assert 1.0 <= norm_upper_bound(matrix) / np.max(values) <= 1.0 + 1e-9


# The descent


@pytest.mark.parametrize("chart", [Spheres(2.5), ScaledSpheres(3.0, 0.5), Flat(1.0)])
def test_paced_vectors_have_the_same_factors(chart):
    """Rows have the lengths asked for; the gradient in a row falls as its length grows."""
    rng = np.random.default_rng(0)
    stacked = rng.standard_normal((9, 3))
    stacked /= 1.1 * np.max(np.linalg.norm(stacked, axis=1))
    begin, lengths = chart.free(stacked), np.exp(rng.standard_normal(9))
    paced = chart.with_row_lengths(begin, lengths)
    np.testing.assert_allclose(chart.factors(paced, 9), chart.factors(begin, 9), rtol=1e-12)
    assert chart.value(paced) == chart.value(begin)
    if isinstance(chart, Flat):
        np.testing.assert_array_equal(paced, begin)
        return
    gradient = rng.standard_normal(stacked.shape)
    before, after = (
        chart.gradient(vector, 9, gradient)[:36].reshape(9, 4) for vector in (begin, paced)
    )
    # Up to the least slack, which the longest row is given.
    np.testing.assert_allclose(chart.with_row_lengths(paced, np.ones(9)), begin, rtol=1e-8)
    np.testing.assert_allclose(after * lengths[:, None], before, rtol=1e-7, atol=1e-9)


def uneven(seed):
    """Measurements whose weights differ by factors of up to 1000 from row to row."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 50)) + rng.standard_normal((60, 50))
    weights = 10.0 ** rng.uniform(-3, 0, (60, 1)) * np.ones(x.shape)
    return {"x": mc.Observations(np.where(rng.random(x.shape) < 0.5, x, np.nan), weights=weights)}


def test_rows_that_weigh_more_turn_more_slowly(monkeypatch):
    """Steps to the same objective, rows paced by their multipliers or all alike."""
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.MaxNormBall(2.0)])
    program = compile_problem(Problem.bind(model, uneven(0)))

    def steps():
        solver, rng = FactoredDescent(), np.random.default_rng(0)
        state, objectives = solver.init(program, None, rng), []
        for _ in range(150):
            solver.step(program, state)
            objectives.append(state.objective)
        return np.array(objectives)

    paced = steps()
    monkeypatch.setattr(FactoredDescent, "rescale_rows", lambda *_: None)
    alike = steps()
    target = min(paced[-1], alike[-1]) * (1 + 1e-4)
    assert np.argmax(paced <= target) < 0.8 * np.argmax(alike <= target)


def test_effects_at_factors_without_a_value_do_not_stay():
    """Columns beside factors of length 1e-160 overflow; the step back begins with new effects."""
    model = mc.Model([mc.Block("x", mc.Huber(1.0), row_effects=True)], [mc.MaxNorm(1e-8)])
    program = compile_problem(Problem.bind(model, {"x": np.ones((5, 5))}))
    solver, vanished = FactoredDescent(), 1e-160 * np.ones((10, 1))
    state = solver.init(program, None, np.random.default_rng(0))
    state.move_to(program, chart_of(program).free(vanished))
    objective = state.objective
    with np.errstate(all="ignore"):
        state.move_to(program, chart_of(program).with_columns(vanished, np.ones((10, 2))))
        assert np.isnan(state.objective)
    state.move_to(program, chart_of(program).free(vanished))
    assert np.isclose(state.objective, objective, rtol=1e-9)


def test_a_mixture_of_risks_is_certified_closely():
    """114 steps; 211 from four columns, with rows of one pace."""
    rng = np.random.default_rng(0)
    latent = rng.uniform(-1, 1, (80, 5)) @ rng.uniform(-1, 1, (5, 80))
    latent /= np.max(np.abs(latent))
    labels = (rng.random(latent.shape) < 1 / (1 + np.exp(-7 * latent))).astype(float)
    labels[rng.random(labels.shape) < 0.85] = np.nan
    model = tri(
        0.3, 0.3, 0.4, np.sqrt(5.0), missing_rate=0.85, likelihood=mc.Bernoulli(scale=1 / 7)
    )
    fit = mc.fit(model, {"labels": labels}, tol=1e-6, max_iter=160)
    assert fit.status == "certified"
    assert fit.bound <= fit.objective
