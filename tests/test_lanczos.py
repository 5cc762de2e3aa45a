"""Block Lanczos steps: their recurrence, and bounds on norms that hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcframe.numerics.norms import Lanczos, norm_bound, spectral_bound
from mcframe.numerics.operators import Projected
from mcframe.numerics.sampled import Pattern, Sampled

from .strategies import sampled

pytestmark = pytest.mark.core


def full(dense):
    """A matrix all of whose entries are written out, as a sparse one."""
    return Sampled(Pattern.of(dense.shape, *np.nonzero(np.ones(dense.shape))), dense.ravel())


def with_values(shape, values, seed):
    """A matrix with given singular values and random singular vectors."""
    rng = np.random.default_rng(seed)
    u, v = (np.linalg.qr(rng.standard_normal((n, values.size)))[0] for n in shape)
    return (u * values) @ v.T


@settings(max_examples=40)
@given(sampled(), st.floats(0.1, 2.0))
def test_the_norm_is_bounded_from_above(drawn, aim):
    """Small spaces are exhausted by the steps, or nearly so."""
    pattern, rows, _, rng = drawn
    matrix = Sampled(pattern, rng.standard_normal(rows.size))
    exact = np.linalg.norm(matrix @ np.eye(pattern.shape[1]), 2)
    assert exact * (1 - 1e-12) <= norm_bound(matrix, aim) <= exact * (1 + 1e-6) + 1e-12


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 30), st.sampled_from([(90, 70), (70, 90), (60, 60)]))
def test_t_is_the_gram_matrix_in_an_orthonormal_basis(seed, steps, shape):
    dense = with_values(shape, np.linspace(1.0, 0.3, 50), seed)
    lanczos = Lanczos(full(dense), np.random.default_rng(seed))
    lanczos.advance(steps // 2)
    lanczos.advance(steps - steps // 2)
    gram = dense.T @ dense if shape[0] >= shape[1] else dense @ dense.T
    basis = lanczos.basis
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-10)
    np.testing.assert_allclose(basis.T @ gram @ basis, lanczos.within, atol=1e-10)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(["separated", "dense", "multiple"]))
def test_bounds_hold_before_the_space_ends(seed, kind):
    """Far below the steps that would exhaust it; closely where a few values stand out."""
    values = np.linspace(1.0, 0.1, 150)
    if kind != "dense":
        values[:4], values[4:] = (1.0, 0.98, 0.96, 0.94), 0.8 * values[4:]
    if kind == "multiple":
        values[:3] = 1.0
    dense = with_values((300, 200), values, seed)
    lanczos, bounds = Lanczos(full(dense), np.random.default_rng(seed)), []
    for _ in range(5):
        lanczos.advance(5)
        least, most = lanczos.bounds()
        assert least <= 1.0 + 1e-12
        assert most >= 1.0 - 1e-12
        bounds.append(most)
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] <= 1.0 + (1e-3 if kind == "dense" else 1e-9)
    assert 1.0 <= spectral_bound(full(dense)) <= 1.0 + 1e-6
    assert 1.0 <= spectral_bound(dense) <= 1.0 + 1e-9


def test_a_start_without_the_leading_vector_bounds_the_others():
    """The one way in which a bound may fail, and improbable for a random start."""
    dense = with_values((120, 100), np.append(1.0, np.linspace(0.9, 0.1, 99)), 0)
    leading = np.linalg.svd(dense)[2][0]
    lanczos = Lanczos(full(dense), np.random.default_rng(0))
    start = lanczos.columns - 0.999999999 * np.outer(leading, leading @ lanczos.columns)
    lanczos.columns = np.linalg.qr(start)[0]
    lanczos.advance(14)
    assert lanczos.bounds()[1] < 0.97


def test_between_two_places_no_value_is_larger_than_the_bound_says():
    dense = with_values((90, 80), np.linspace(1.0, 0.1, 80), 3)
    lanczos = Lanczos(full(dense), np.random.default_rng(3))
    lanczos.advance(12)
    values = lanczos.ritz()[0]
    residual = lanczos.residual()
    for margin in (1e-6, 1e-3, 1e-1, 1.0):
        low, high = values[0] * (1.0 + 0.8 * margin), values[0] * (1.0 + margin)
        most = residual.most_between(low, high)
        for place in np.linspace(low, high, 7):
            solved = np.linalg.solve(
                place * np.eye(values.size) - lanczos.within, np.eye(48)[:, :4]
            )
            exact = np.linalg.norm(lanczos.last @ solved[-4:], 2)
            assert exact <= most * (1 + 1e-9)
        assert most <= 1e3 * exact


def test_a_norm_without_a_gap_below_it_is_bounded_closely():
    """A spectrum that is dense up to its end."""
    values = np.concatenate([np.full(5, 1.0), np.linspace(0.999, 0.2, 395)])
    bound = norm_bound(full(with_values((900, 700), values, 0)), 1.0)
    assert 1.0 - 1e-12 <= bound <= 1.0 + 2e-3


def test_leading_triplets_lie_outside_of_what_is_known():
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((60, 40)) * (rng.random((60, 40)) < 0.5)
    u, s, vt = np.linalg.svd(dense, full_matrices=False)
    lanczos = Lanczos(Projected(full(dense), u[:, :2], vt[:2].T), rng)
    lanczos.advance(40)
    left, found, right = lanczos.leading(3)
    np.testing.assert_allclose(found, s[2:5], rtol=1e-8)
    np.testing.assert_allclose(dense.T @ left, right * found, atol=1e-8)
    assert np.abs(left.T @ u[:, :2]).max() < 1e-10
    assert np.abs(right.T @ vt[:2].T).max() < 1e-10


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (3, 2), (6, 5), (5, 9)])
def test_spaces_smaller_than_a_block_or_two(shape):
    dense = np.random.default_rng(1).standard_normal(shape)
    lanczos = Lanczos(full(dense), np.random.default_rng(0))
    lanczos.advance(10)
    assert lanczos.ended
    np.testing.assert_allclose(lanczos.bounds(), np.linalg.norm(dense, 2), rtol=1e-12)
    zeros = Lanczos(full(np.zeros(shape)), np.random.default_rng(0))
    zeros.advance(10)
    assert zeros.bounds() == (0.0, 0.0)
