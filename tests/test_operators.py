"""The algebra of matrices known by their products: each is the array that it stands for."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import svds

import mcframe as mc
from mcframe.compile import compile_problem, pays_in_factors
from mcframe.numerics.norms import norm_bound
from mcframe.numerics.operators import (
    Dense,
    LowRank,
    Placed,
    Projected,
    Rescaled,
    Scaled,
    Scales,
    Sum,
    Transposed,
    as_operator,
)
from mcframe.numerics.sampled import Pattern, Sampled

pytestmark = pytest.mark.core


def dense(rng, shape):
    array = rng.standard_normal(shape)
    return Dense(array), array


def low_rank(rng, shape):
    left, right = rng.standard_normal((shape[0], 2)), rng.standard_normal((shape[1], 2))
    return LowRank(left, right), left @ right.T


def sampled(rng, shape):
    array = rng.standard_normal(shape) * (rng.random(shape) < 0.4)
    rows, columns = np.nonzero(array)
    order = rng.permutation(rows.size)
    rows, columns = rows[order], columns[order]
    return Sampled(Pattern.of(shape, rows, columns), array[rows, columns]), array


def placed(rng, shape):
    first, last = sorted(rng.integers(0, shape[1] + 1, 2))
    operator, own = low_rank(rng, (shape[0], last - first))
    array = np.zeros(shape)
    array[:, first:last] = own
    return Placed(operator, slice(int(first), int(last)), shape[1]), array


def projected(rng, shape):
    operator, array = sampled(rng, shape)
    left, right = (np.linalg.qr(rng.standard_normal((n, 1)))[0] for n in shape)
    off = array - left @ (left.T @ array)
    return Projected(operator, left, right), off - (off @ right) @ right.T


def summed(rng, shape):
    found = [make(rng, shape) for make in (sampled, low_rank, placed)]
    return Sum(tuple(one for one, _ in found)), sum(array for _, array in found)


def scaled(rng, shape):
    operator, array = projected(rng, shape)
    return Scaled(operator, -0.3), -0.3 * array


def rescaled(rng, shape):
    operator, array = sampled(rng, shape)
    scales = Scales(*(rng.uniform(0.1, 3.0, n) for n in shape))
    return Rescaled(operator, scales), np.outer(scales.rows, scales.columns) * array


def transposed(rng, shape):
    operator, array = summed(rng, shape[::-1])
    return Transposed(operator), array.T


MAKERS = [dense, low_rank, sampled, placed, projected, summed, scaled, rescaled, transposed]


@pytest.mark.parametrize("make", MAKERS)
@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.integers(1, 7), st.integers(1, 4))
def test_an_operator_is_its_array(make, seed, n_rows, n_columns, width):
    rng = np.random.default_rng(seed)
    operator, array = make(rng, (n_rows, n_columns))
    right, left = rng.standard_normal((n_columns, width)), rng.standard_normal((n_rows, width))
    other, added = low_rank(rng, (n_rows, n_columns))
    assert operator.shape == array.shape
    for one, wanted in (
        (operator, array),
        (operator.T, array.T),
        (operator.T.T, array),
        (2.5 * operator, 2.5 * array),
        (operator * np.float64(0.5), 0.5 * array),
        (-operator, -array),
        (operator + other, array + added),
        (operator - other, array - added),
        ((operator + other).T, (array + added).T),
    ):
        sides = (left, right) if one.shape == operator.shape[::-1] else (right, left)
        if n_rows == n_columns and one.shape == operator.shape:
            sides = (right, left)
        np.testing.assert_allclose(one @ sides[0], wanted @ sides[0], atol=1e-12)
        np.testing.assert_allclose(one.T @ sides[1], wanted.T @ sides[1], atol=1e-12)
        np.testing.assert_allclose(one @ sides[0][:, 0], wanted @ sides[0][:, 0], atol=1e-12)
        np.testing.assert_allclose(one.dense(), wanted, atol=1e-12)
        np.testing.assert_allclose(one.gram(sides[0]), wanted.T @ (wanted @ sides[0]), atol=1e-11)
        np.testing.assert_allclose(
            one.gram_of_rows(sides[1]), wanted @ (wanted.T @ sides[1]), atol=1e-11
        )
        image, part = wanted @ sides[0], rng.standard_normal(one.shape)
        np.testing.assert_allclose(one.gram_within(sides[0]), image.T @ image, atol=1e-10)
        squares = rng.uniform(1.0, 2.0, width)
        rows, columns = one.relative_falls([(one, Dense(part))] * 2, sides[0], squares)
        np.testing.assert_allclose(rows, [image**2 / squares] * 2, atol=1e-10)
        falls = sides[0] * (part.T @ image) / squares
        np.testing.assert_allclose(columns, [falls] * 2, atol=1e-10)
        for unit in (1.0, 1e60, 1e-60):
            divided = (one * unit).in_units(unit)
            assert (divided.dtype == np.float32) == (one * unit).single
            product = divided @ sides[0].astype(divided.dtype)
            assert product.dtype == divided.dtype
            few = 1e-12 if divided.dtype == np.float64 else 1e-5
            np.testing.assert_allclose(product, wanted @ sides[0], atol=few)
            product = divided.T @ sides[1].astype(divided.dtype)
            np.testing.assert_allclose(product, wanted.T @ sides[1], atol=few)
        for of_rows, square in ((False, wanted.T @ wanted), (True, wanted @ wanted.T)):
            written = one.gram_matrix(of_rows)
            assert written is None or np.allclose(written, square, rtol=0.0, atol=1e-11)


@pytest.mark.parametrize("shape", [(60, 8), (8, 60)])
def test_gram_matrices_of_short_sides_are_written_out(shape):
    rng = np.random.default_rng(0)
    matrix, array = sampled(rng, shape)
    other, added = low_rank(rng, shape)
    left, right = (np.linalg.qr(rng.standard_normal((n, 2)))[0] for n in shape)
    wanted = 0.5 * array + added
    off = wanted - left @ (left.T @ wanted)
    off -= (off @ right) @ right.T
    outside = Projected(0.5 * matrix + other, left, right)
    for one, square in ((matrix, array), (0.5 * matrix + other, wanted), (outside, off)):
        tall, of_rows = (square, False) if shape[0] > shape[1] else (square.T, True)
        np.testing.assert_allclose(one.gram_matrix(of_rows), tall.T @ tall, atol=1e-11)
        np.testing.assert_allclose(one.T.gram_matrix(not of_rows), tall.T @ tall, atol=1e-11)
        assert one.gram_matrix(not of_rows) is None


@pytest.mark.parametrize("make", [sampled, low_rank, placed, summed, rescaled, transposed])
def test_bounds_on_norms_hold_for_all_of_them(make):
    rng = np.random.default_rng(0)
    operator, array = make(rng, (60, 40))
    exact = np.linalg.norm(array, 2)
    assert exact <= norm_bound(operator, exact) <= exact * (1 + 1e-5)


def test_random_starts_stay_with_the_data():
    operator, _ = sampled(np.random.default_rng(0), (5, 4))
    seeded = Sampled(operator.pattern.seeded_by(3, operator.values), operator.values)
    beside = LowRank(np.ones((5, 1)), np.ones((4, 1)))
    for one in (seeded, seeded + beside, 2.0 * seeded, -(seeded + beside), seeded.T):
        assert one.seed == seeded.seed != (0,)


def test_scipy_takes_them():
    operator, array = summed(np.random.default_rng(1), (30, 20))
    np.testing.assert_allclose(
        svds(operator, 3, return_singular_vectors=False, rng=0),
        np.sort(np.linalg.svd(array, compute_uv=False)[:3]),
    )


def test_an_array_is_an_operator():
    array = np.arange(6.0).reshape(2, 3)
    assert as_operator(array).array is array
    operator = Dense(array)
    assert as_operator(operator) is operator


@pytest.mark.parametrize("ones", [False, True])
def test_gradients_in_both_forms_are_the_same(ones):
    """Written out, or at the entries with a fixed column's multiplier beside them."""
    rng = np.random.default_rng(0)
    table = sp.random_array((50, 40), density=0.05, rng=rng)
    terms = [mc.NuclearNorm(0.1)] + [mc.OnesColumn()] * ones
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=not ones)], terms)
    with pytest.warns(mc.UnobservedWarning):
        problem = mc.Problem.bind(model, {"x": table})
    written = compile_problem(problem)
    factors = low_rank(rng, problem.shape)[0]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("mcframe.compile.program.STORED_NUMBERS", 0)
        kept = compile_problem(problem)
    assert (written.entries.sparse, kept.entries.sparse) == (False, True)
    one, other = written.evaluate(factors), kept.evaluate(factors)
    assert other.value == pytest.approx(one.value, rel=1e-13)
    np.testing.assert_allclose(other.gradient.dense(), one.gradient.dense(), atol=1e-14)
    block = [(slice(40, 41), np.ones((50, 1)))] * ones
    for at, program in ((one, written), (other, kept)):
        matrix = program.entries.matrix(at.entry_gradients, block)
        np.testing.assert_allclose(
            matrix.dense()[:, -1], one.gradient.dense()[:, -1] + ones, atol=1e-14
        )


def test_how_z_is_held_follows_from_the_table_and_the_solver():
    """One rule: by size and share for dense solvers, for alternation by size alone."""
    large, small, tenth = (2500, 2000), (150, 120), 0.1
    for share, dense, factored, alternating in (
        (0.05, 1, 1, 1),
        (tenth, 1, 1, 1),
        (0.15, 0, 0, 1),
    ):
        n_entries = int(share * 2500 * 2000)
        assert pays_in_factors(large, n_entries) == dense
        assert pays_in_factors(large, n_entries, in_factors=True) == factored
        assert pays_in_factors(large, n_entries, in_factors=True, dense=False) == alternating
    assert not pays_in_factors(small, 900, in_factors=True, dense=False)
    assert pays_in_factors((10_000, 6_000), 60_000_000)


def test_columns_of_zeros_stay_so_in_factors():
    """Whatever the size of the others: what is left of rounding has no unit."""
    dense = 2.0**-30 * np.random.default_rng(0).standard_normal((4, 5))
    dense[:, 1] = 0.0
    assert not LowRank.of(dense).dense()[:, 1].any()
