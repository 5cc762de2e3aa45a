"""Fast forms beside their slow plain definitions."""

from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import mcframe as mc
from mcframe.compile.effects import described_effects
from mcframe.model import Layout
from mcframe.numerics import quasi_newton, shrinkage
from mcframe.numerics.charts import Flat, OneSphere, ScaledSpheres, Spheres
from mcframe.numerics.norms import norm_upper_bound, singular_value_bounds
from mcframe.numerics.operators import LowRank, thin_qr
from mcframe.numerics.sampled import Pattern, Sampled
from mcframe.numerics.shrinkage import (
    Dense,
    Shrinker,
    apply_filter,
    cheapest,
    shrink_full,
    shrink_gram,
)
from mcframe.runtime.machine import blas_alone

pytestmark = pytest.mark.core


def spread_matrix(shape, rng, decay=0.7):
    k = min(shape)
    left = np.linalg.qr(rng.standard_normal((shape[0], k)))[0]
    right = np.linalg.qr(rng.standard_normal((shape[1], k)))[0]
    return (left * 100 * decay ** np.arange(k)) @ right.T


@pytest.mark.parametrize("shape", [(300, 200), (200, 300), (150, 150)])
def test_gram_and_block_shrink_like_the_full_decomposition(shape):
    rng = np.random.default_rng(0)
    matrix = spread_matrix(shape, rng)

    def shrink(s):
        return np.maximum(s - 1.0, 0.0)

    full = shrink_full(matrix, shrink)
    exact = (full.left * full.values) @ full.right.T
    gram = shrink_gram(matrix, shrink, 1.0)
    np.testing.assert_allclose((gram.left * gram.values) @ gram.right.T, exact, atol=1e-9)
    assert cheapest(shape, full.values.size).startswith("filter")
    for formed in (False, True):
        shrinker = Shrinker(shape, rng)
        shrinker.shrink_block(Dense(matrix), shrink, 1.0, np.inf, formed)
        block = shrinker.shrink_block(Dense(matrix), shrink, 1.0, 1e-7, formed)
        found = (block.left * block.values) @ block.right.T
        assert np.linalg.norm(found - exact) <= shrinker.share * 1e-7
    for part in (block.left, block.right, gram.left, gram.right):
        np.testing.assert_allclose(part.T @ part, np.eye(part.shape[1]), atol=1e-9)


@pytest.mark.parametrize("unit", [1e-60, 1.0, 1e60])
@pytest.mark.parametrize("error", [1e-1, 3e-3, 1e-6])
def test_a_sparse_matrix_is_shrunk_within_the_error_in_either_precision(unit, error, monkeypatch):
    """Filters are in single precision where the error is no less than a share of the norm."""
    rng = np.random.default_rng(0)
    array = rng.standard_normal((900, 700)) * (rng.random((900, 700)) < 0.02)
    strong = spread_matrix((900, 700), rng, 0.5)[:, :700] * 0.3
    rows, columns = np.nonzero(array)
    pattern = Pattern.of(array.shape, rows, columns)
    u, s, v = np.linalg.svd(strong, full_matrices=False)
    left, right = u[:, :5] * s[:5], v[:5].T
    matrix = unit * (Sampled(pattern, array[rows, columns]) + LowRank(left, right))
    assert matrix.gram_matrix() is None
    used = []

    def shrink_of(threshold):
        return lambda values: np.maximum(values - threshold, 0.0)

    def filtered(square, *arguments):
        used.append(square.tall.dtype)
        return apply_filter(square, *arguments)

    monkeypatch.setattr(shrinkage, "apply_filter", filtered)
    full = shrink_full(array + left @ right.T, shrink_of(8.0))
    shrinker = Shrinker(array.shape, rng)
    length = error * unit * full.values[0] / shrinker.share
    for _ in range(4):
        found = shrinker(matrix, shrink_of(8.0 * unit), 8.0 * unit, length)
    away = (found.left * found.values) @ found.right.T / unit
    away -= (full.left * full.values) @ full.right.T
    assert np.linalg.norm(away) <= 1.5 * error * full.values[0]
    assert (used[-1] == np.float32) == (error >= shrinkage.LEAST_SINGLE_ERROR)


def test_a_low_threshold_leaves_the_gram_matrix():
    """Squared condition numbers lose small singular values: the full decomposition steps in."""
    matrix = spread_matrix((90, 80), np.random.default_rng(0), decay=0.6)

    def shrink(s):
        return np.maximum(s - 1e-9, 0.0)

    found = shrink_gram(matrix, shrink, 1e-9)
    full = shrink_full(matrix, shrink)
    np.testing.assert_allclose(found.values, full.values, rtol=1e-12)


def test_a_warm_block_follows_what_rises():
    """Directions that were outside of the block are found within a few calls."""
    rng = np.random.default_rng(0)
    matrix = spread_matrix((120, 100), rng)
    risen = matrix + 50.0 * np.linalg.qr(rng.standard_normal((120, 100)))[0][:, :1] @ rng.choice(
        [-0.1, 0.1], (1, 100)
    )

    def shrink(s):
        return np.maximum(s - 1.0, 0.0)

    shrinker = Shrinker(matrix.shape, rng)
    shrinker(Dense(matrix), shrink, 1.0)
    for _ in range(3):
        found = shrinker(Dense(risen), shrink, 1.0, 1e-3)
    full = shrink_full(risen, shrink)
    np.testing.assert_allclose(found.values, full.values, atol=1e-3)


def test_a_start_gives_its_singular_vectors():
    rng = np.random.default_rng(0)
    matrix = spread_matrix((120, 100), rng, decay=0.3)
    full = shrink_full(matrix, lambda s: s)
    latent = LowRank(full.left[:, :4] * full.values[:4], full.right[:, :4])
    found = Shrinker.near(latent, rng)(Dense(matrix), lambda s: np.maximum(s - 1.0, 0.0), 1.0)
    np.testing.assert_allclose(found.values, full.values[: found.values.size] - 1.0, rtol=1e-6)


@pytest.mark.parametrize("seed", range(100))
def test_thin_qr_is_one_of_any_columns(seed):
    """Of wide matrices, dependent columns, columns of zeros, and squares that overflow."""
    rng = np.random.default_rng(seed)
    n_rows, width = int(rng.choice([0, 1, 5, 60, 200])), int(rng.integers(0, 13))
    k = min(n_rows, width)
    spread = np.logspace(0.0, -rng.choice([0.0, 1.0, 3.0, 5.0, 8.0, 16.0]), k)
    tall = np.linalg.qr(rng.standard_normal((n_rows, k)))[0] * spread
    tall = rng.choice([1e-160, 1e-5, 1.0, 1e60, 1e160]) * tall @ rng.standard_normal((k, width))
    tall[:, rng.random(width) < rng.choice([0.0, 0.2])] = 0.0
    basis, triangle = thin_qr(tall)
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-12)
    largest = np.max(np.abs(tall), initial=0.0)
    np.testing.assert_allclose(basis @ triangle, tall, rtol=0.0, atol=1e-13 * largest)
    assert not np.tril(triangle, -1).any()


@settings(max_examples=40)
@given(st.integers(1, 200), st.integers(1, 180), st.integers(0, 10**6), st.floats(0.0, 1.0))
def test_norm_bounds_hold_and_are_tight(n_rows, n_columns, seed, ties):
    """Also where many singular values share the top, as they do at an optimum."""
    rng = np.random.default_rng(seed)
    k = min(n_rows, n_columns)
    left = np.linalg.qr(rng.standard_normal((n_rows, k)))[0]
    right = np.linalg.qr(rng.standard_normal((n_columns, k)))[0]
    values = rng.random(k)
    values[: max(1, int(ties * k))] = 1.0
    matrix = (left * values) @ right.T
    exact = np.linalg.svd(matrix, compute_uv=False)
    bound = norm_upper_bound(matrix)
    assert exact[0] <= bound <= exact[0] * (1 + 1e-6)
    bounds = singular_value_bounds(matrix)
    assert np.all(bounds >= exact)
    assert bounds[0] <= exact[0] * (1 + 1e-6)


def test_norm_bounds_where_a_power_step_would_be_fooled():
    """A top singular value just above a tight cluster."""
    values = np.full(150, 1.0)
    values[0] = 1.0 + 1e-7
    rng = np.random.default_rng(1)
    left = np.linalg.qr(rng.standard_normal((400, 150)))[0]
    right = np.linalg.qr(rng.standard_normal((150, 150)))[0]
    assert norm_upper_bound((left * values) @ right.T) >= 1.0 + 1e-7


def test_norm_of_zero():
    assert norm_upper_bound(np.zeros((200, 150))) == 0.0
    assert norm_upper_bound(np.zeros((3, 2))) == 0.0


def test_low_rank_matrices():
    rng = np.random.default_rng(0)
    low = LowRank(rng.standard_normal((30, 3)), rng.standard_normal((20, 3)))
    dense = low.dense()
    rows, columns = np.nonzero(rng.random(dense.shape) < 0.05)
    np.testing.assert_allclose(low.at(rows, columns), dense[rows, columns])
    exact = np.linalg.svd(dense, compute_uv=False)
    np.testing.assert_allclose(low.singular_values(), exact[:3])
    assert low.rank == 3
    pinned = low.with_columns(slice(low.shape[1] - 1, low.shape[1]), 1.0).dense()
    assert np.all(pinned[:, -1] == 1.0)
    np.testing.assert_allclose(pinned[:, :-1], dense[:, :-1])
    assert LowRank.zeros((4, 5)).rank == 0
    np.testing.assert_allclose(LowRank.of(dense).dense(), dense)


@pytest.mark.parametrize("likelihood", [mc.Gaussian(), mc.Bernoulli(), mc.Bernoulli(scale=0.1)])
@pytest.mark.parametrize("spread", [0.1, 5.0, 300.0])
def test_the_best_bias_against_a_scalar_search(likelihood, spread):
    from scipy.optimize import minimize_scalar

    rng = np.random.default_rng(3)
    z = spread * rng.standard_normal(40)
    y = (rng.random(40) < 0.5).astype(float)
    columns = np.arange(40) % 4
    layout = Layout(n_biases=5)
    effects = described_effects(layout, likelihood, np.arange(40), columns)
    effects = effects.checked(likelihood, y, 1.0)
    bias = effects.solve(likelihood, z, y, 1.0, None)
    assert np.isclose(bias[4], bias[:4].mean())  # a column without entries: that of an average one
    gradients = likelihood.value_and_gradient(z + bias[columns], y)[1]
    sums, sizes = effects.sum_by_effect(gradients), effects.sum_by_effect(np.abs(gradients))
    assert np.all(np.abs(sums) <= 1e-12 * (1 + sizes))
    for column in range(4):
        mine = columns == column

        def total(b, mine=mine):
            return float(np.sum(likelihood.value(z[mine] + b, y[mine])))

        search = minimize_scalar(total, bracket=(-spread, spread))
        assert total(bias[column]) <= search.fun + 1e-9 * (1 + abs(search.fun))


@pytest.mark.parametrize("chart", [Flat(0.5), Spheres(2.0), ScaledSpheres(0.3), OneSphere(9.0)])
def test_wider_factors_keep_what_their_chart_bounds(chart):
    """Further columns turn long rows instead of lengthening them, and leave Z nearly as it was."""
    rng = np.random.default_rng(0)
    stacked = rng.standard_normal((9, 2))
    stacked /= np.linalg.norm(stacked) if isinstance(chart, OneSphere) else 1.0
    stacked /= np.sqrt(np.max(np.sum(stacked**2, axis=1)))
    columns = 1e-4 * rng.standard_normal((9, 3))
    wide = chart.factors(chart.with_columns(stacked, columns), 9)
    assert wide.shape == (9, 5)
    np.testing.assert_allclose(wide[:5] @ wide[5:].T, stacked[:5] @ stacked[5:].T, atol=1e-5)
    longest = np.max(np.sum(stacked**2, axis=1))
    if not isinstance(chart, Flat):
        assert np.max(np.sum(wide**2, axis=1)) <= longest * (1 + 1e-6)
    assert np.linalg.matrix_rank(wide) == 5
    assert chart.enough(5, 4) == (4 if isinstance(chart, Flat | OneSphere) else 9)


def test_blas_has_one_thread_until_the_last_context_ends():
    def counts():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        before = counts()  # which holds 1, too, where a BLAS is loaded that has no threads
        assert 2 in before
        first, second = ExitStack(), ExitStack()
        first.enter_context(blas_alone())
        second.enter_context(blas_alone())
        assert counts() == {1}
        first.close()
        assert counts() == {1}
        second.close()
        assert counts() == before


def test_a_first_step_of_no_length_is_asked_for_and_ends():
    """Where the first length underflows: nothing descends then, and nothing breaks down."""
    asked, begin = [], (np.ones(2), 2.0, 2.0 * np.ones(2))

    def value_and_gradient(x):
        asked.append(x)
        return float(x @ x), 2.0 * x

    memory = quasi_newton.Memory()
    assert quasi_newton.quasi_newton_step(value_and_gradient, memory, begin, 0.0) is None
    np.testing.assert_array_equal(asked, [np.ones(2)])
    assert not memory.pairs
