"""Sparse kernels beside plain numpy, bounds on norms, and alternating ridge regressions."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import cpu_count

import mcframe as mc
from mcframe.compile import factor_rows
from mcframe.compile import program as programs
from mcframe.numerics import kernels
from mcframe.numerics import sampled as sampled_matrices
from mcframe.numerics.operators import LowRank
from mcframe.numerics.sampled import Pattern, Sampled
from mcframe.runtime import machine

from .strategies import sampled


@settings(max_examples=40)
@given(sampled(), st.integers(1, 9))
def test_kernels_are_their_definitions(drawn, width):
    pattern, rows, columns, rng = drawn
    left = rng.standard_normal((pattern.shape[0], width))
    right = rng.standard_normal((pattern.shape[1], width))
    values = rng.standard_normal(rows.size)
    z = np.empty(rows.size)
    pattern.entries(left, right, z)
    np.testing.assert_allclose(z, np.einsum("ij,ij->i", left[rows], right[columns]), atol=1e-12)
    other = kernels.low_rank_entries(rows, columns, left, right)
    np.testing.assert_allclose(other, z, atol=1e-12)
    several = [np.stack([-side, 2.0 * side, side]) for side in (left, right)]
    of_several = kernels.low_rank_entries(rows, columns, *several)
    np.testing.assert_allclose(of_several, np.array([z, 4.0 * z, z]), atol=1e-12)
    matrix, dense = Sampled(pattern, values), np.zeros(pattern.shape)
    dense[rows, columns] = values
    np.testing.assert_allclose(matrix @ right, dense @ right, atol=1e-12)
    np.testing.assert_allclose(matrix.T @ left, dense.T @ left, atol=1e-12)


@settings(max_examples=20)
@given(sampled())
def test_numbers_less_shares_are_their_definition(drawn):
    pattern, rows, columns, rng = drawn
    numbers, *others = rng.standard_normal((5, rows.size))
    g, h = (rng.uniform(0.0, 1.0, (size, 2)) for size in pattern.shape)
    entries = programs.Entries(pattern.shape, rows, columns, numbers)
    less = entries.less(numbers, [tuple(others[:2]), tuple(others[2:])], g, h)
    for k in range(2):
        numbers = numbers - g[rows, k] * others[2 * k] - h[columns, k] * others[2 * k + 1]
    np.testing.assert_array_equal(less, numbers)


@pytest.mark.parametrize("part", [1, 10**9])
@pytest.mark.parametrize("enough", [0, 10**9])
def test_products_along_either_side_are_their_definitions(part, enough, monkeypatch):
    """Sums across lines in many parts or one; where they do not pay, by the other order."""
    monkeypatch.setattr(kernels, "MULTIPLICATIONS_PER_PART", part)
    monkeypatch.setattr(sampled_matrices, "LEAST_ENTRIES_PER_ROW", enough)
    rng = np.random.default_rng(0)
    for shape in ((200, 30), (30, 200), (40, 40), (1, 50), (50, 1)):
        places = rng.choice(shape[0] * shape[1], shape[0] * shape[1] // 2, replace=False)
        rows, columns = np.divmod(places, shape[1])
        matrix = Sampled(Pattern.of(shape, rows, columns), rng.standard_normal(rows.size))
        dense = matrix.dense()
        for width in (0, 1, 4, 5):
            left, right = (rng.standard_normal((n, width)) for n in shape)
            np.testing.assert_allclose(matrix @ right, dense @ right, atol=1e-12)
            np.testing.assert_allclose(matrix.T @ left, dense.T @ left, atol=1e-12)
            np.testing.assert_allclose(matrix.gram(right), dense.T @ (dense @ right), atol=1e-11)
            np.testing.assert_allclose(
                matrix.gram_of_rows(left), dense @ (dense.T @ left), atol=1e-11
            )


@settings(max_examples=40)
@given(sampled(), st.integers(1, 9), st.booleans(), st.sampled_from((None, 0.1, 1e-9, 0.0)))
def test_each_row_is_a_ridge_regression(drawn, width, by_rows, least):
    pattern, rows, columns, rng = drawn
    curvature = np.full(1, 0.7) if least is None else rng.uniform(0.1, 2.0, rows.size)
    if least is not None:
        curvature[rng.random(rows.size) < 0.3] = least
    pull = rng.standard_normal(rows.size)
    n_lines, n_others = pattern.shape if by_rows else pattern.shape[::-1]
    right = rng.standard_normal((n_others, width))
    out = pattern.lines(by_rows).ridge_solutions(curvature, pull, right, 0.3)
    own, others = (rows, columns) if by_rows else (columns, rows)
    curvatures = np.broadcast_to(curvature, rows.shape)
    for line in range(n_lines):
        of = own == line
        near = right[others[of]]
        normal = near.T @ (curvatures[of][:, None] * near) + 0.3 * np.eye(width)
        np.testing.assert_allclose(normal @ out[line], near.T @ pull[of], atol=1e-9)


SCALES = st.sampled_from((1e-60, 1e-8, 1.0, 1e8, 1e60))


@settings(max_examples=60)
@given(
    sampled(),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from((None, 0.1, 1e-9, 0.0)),
    SCALES,
    st.sampled_from((1e-5, 0.3, 1e3)),
    st.sampled_from((1.0, 1e10, 1e22)),
)
def test_steps_in_single_precision_are_almost_ridge_regressions(
    drawn, width, by_rows, least, scale, weight, outlier
):
    """They are off by a small share of the step; or else they say that they are not."""
    pattern, rows, _, rng = drawn
    curvature = np.full(1, 0.7) if least is None else rng.uniform(0.1, 2.0, rows.size)
    if least is not None:
        curvature[rng.random(rows.size) < 0.3] = least
    left, right = (scale * rng.standard_normal((n, width)) for n in pattern.shape)
    z, gradient = np.empty(rows.size), rng.standard_normal(rows.size)
    (right if by_rows else left)[0] *= outlier
    pattern.entries(left, right, z)
    lines, target = pattern.lines(by_rows), curvature * z - gradient
    factor, other = (left, right) if by_rows else (right, left)
    exact = lines.ridge_solutions(curvature, target, other, weight)
    steps = lines.newton_solutions(curvature, gradient, other, weight, factor)
    unsure = np.isnan(steps[:, 0])
    if least is None and scale == outlier == 1.0 and weight == 1e3:
        assert not unsure.any()
    away = np.max(np.abs(steps - exact), axis=1)[~unsure]
    lengths = np.max(np.abs(exact - factor), axis=1)[~unsure]
    assert np.all(away <= 1e-3 * lengths + 1e-12 * np.max(np.abs(exact), axis=1)[~unsure])
    some = lines.of_rows(np.flatnonzero(unsure))
    solved = some.ridge_solutions(curvature, target, other, weight)
    np.testing.assert_array_equal(solved, exact[unsure])


@pytest.mark.parametrize("penalty", [{}, {"count_share": 0.7}], ids=repr)
@pytest.mark.parametrize("weight", [3.0, 9.0])
def test_fits_by_steps_in_single_precision_are_those_in_double(weight, penalty, monkeypatch):
    """Of numbers, labels and counts with biases, under one weight or weights of rows."""
    model, table = mixed(120)
    fits = []
    for least in (10**9, 0):
        monkeypatch.setattr(factor_rows, "LEAST_SINGLE_ORDER", least)
        model = mc.Model(model.blocks, [mc.NuclearNorm(weight, **penalty)])
        fits.append(mc.fit(model, table, tol=1e-7, backend="alternating"))
    double, single = fits
    assert double.status == single.status == "certified"
    assert single.objective == pytest.approx(double.objective, rel=2e-7)
    assert len(single.history) <= len(double.history) + 2


def mixed(n_items=300, seed=0):
    """Gaussian, Bernoulli and Poisson columns of rank 3, 30 % observed, as sparse matrices."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n_items, 3)) @ rng.standard_normal((3, 90)) / 1.5
    data = {
        "reals": z[:, :40] + 0.3 * rng.standard_normal((n_items, 40)),
        "labels": (rng.random((n_items, 30)) < 1 / (1 + np.exp(-z[:, 40:70]))) * 1.0,
        "counts": rng.poisson(np.exp(z[:, 70:])).astype(float),
    }
    sparse = {}
    for name, table in data.items():
        rows, columns = np.nonzero(rng.random(table.shape) < 0.3)
        sparse[name] = sp.csr_array((table[rows, columns], (rows, columns)), shape=table.shape)
    words = {"reals": mc.Gaussian(), "labels": mc.Bernoulli(), "counts": mc.Poisson()}
    blocks = [mc.Block(name, word, bias=True) for name, word in words.items()]
    return mc.Model(blocks, [mc.NuclearNorm(6.0)]), sparse


@pytest.fixture(scope="module")
def exact():
    """What proximal reaches."""
    model, data = mixed()
    return mc.fit(model, data, backend="proximal", tol=1e-7)


@pytest.mark.parametrize("large", [False, True], ids=["dense", "sparse"])
def test_alternating_reaches_what_proximal_reaches(monkeypatch, exact, large):
    """With the certificate of dense gradients, and with that of sparse ones."""
    if large:
        monkeypatch.setattr(programs, "STORED_NUMBERS", 0)
    model, data = mixed()
    found = mc.fit(model, data, backend="alternating", tol=1e-6)
    assert found.status == "certified"
    assert found.rank == exact.rank
    assert found.objective == pytest.approx(exact.objective, rel=1e-6)
    assert found.bound <= exact.objective
    np.testing.assert_allclose(found.bias("reals"), exact.bias("reals"), atol=1e-3)


def test_a_gradient_of_zero_is_certified_sparse(monkeypatch):
    monkeypatch.setattr(programs, "STORED_NUMBERS", 0)
    zeros = sp.csr_array((np.zeros(3), ([0, 1, 2], [0, 1, 0])), shape=(3, 2))
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    fit = mc.fit(model, {"x": zeros}, backend="alternating")
    assert fit.status == "certified"
    assert fit.objective == 0.0


def test_kernels_give_the_same_bits_for_any_number_of_threads(monkeypatch):
    rng = np.random.default_rng(0)
    pattern = Pattern.of((300, 200), *np.nonzero(rng.random((300, 200)) < 0.2))
    values = rng.standard_normal(pattern.by_rows.places.size)
    right, lines = rng.standard_normal((200, 5)), pattern.by_rows
    found = []
    monkeypatch.setattr(machine, "WORTH_SHARING", 1000)
    monkeypatch.setattr(kernels, "MULTIPLICATIONS_PER_PART", 1000)
    for count in (1, 2, 5):
        with machine.thread_limit(count):
            solutions = lines.ridge_solutions(np.ones(1), values, right, 0.3)
            steps = lines.newton_solutions(np.ones(1), values, right, 0.3, solutions)
            matrix = Sampled(pattern, values)
            thin = (right, right[:, :1], right[:, :4])
            products = [
                product(part) for part in thin for product in (matrix.__matmul__, matrix.gram)
            ]
            found.append((solutions, steps, *products, matrix.T @ solutions))
    for one, *others in zip(*found, strict=True):
        assert all(np.array_equal(one, other) for other in others)


def test_alternating_repeats_and_continues():
    model, data = mixed(n_items=100)
    first = mc.fit(model, data, backend="alternating", tol=1e-4)
    again = mc.fit(model, data, backend="alternating", tol=1e-4)
    assert first.objective == again.objective
    assert first.bound == again.bound
    lighter = mc.Model(model.blocks, [mc.NuclearNorm(5.0)])
    cold = mc.fit(lighter, data, backend="alternating", tol=1e-4)
    warm = mc.fit(lighter, data, backend="alternating", tol=1e-4, start=first)
    assert warm.status == "certified"
    assert warm.history[-1].iteration <= cold.history[-1].iteration


def test_alternating_finds_that_nothing_stands_out():
    model, data = mixed()
    heavy = mc.Model(model.blocks, [mc.NuclearNorm(1e4)])
    fit = mc.fit(heavy, data, backend="alternating")
    assert fit.rank == 0
    assert fit.status == "certified"


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ([mc.Ridge(1.0)], "factors of a nuclear norm"),
        ([mc.NuclearNorm(1.0), mc.Ridge(1.0)], "a ridge"),
        ([mc.NuclearNorm(1.0), mc.OnesColumn()], "terms other than"),
        ([mc.MaxNorm(1.0)], "factors of a nuclear norm"),
    ],
)
def test_alternating_says_what_it_cannot_run(terms, why):
    model, data = mixed()
    with pytest.raises(mc.BackendError, match=why):
        mc.fit(mc.Model(model.blocks, terms), data, backend="alternating")


def test_auto_takes_alternating_where_no_dense_matrix_fits():
    """What it holds grows with the observed entries alone."""
    rng = np.random.default_rng(0)
    shape = (300_000, 200_000)
    rows, columns = rng.integers(shape[0], size=3000), rng.integers(shape[1], size=3000)
    data = {"x": sp.coo_array((rng.standard_normal(3000), (rows, columns)), shape=shape)}
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    with pytest.warns(mc.UnobservedWarning):
        explained = mc.explain(model, data)
    assert explained.chosen == "alternating"


def test_large_sampled_products_are_those_of_small_ones(monkeypatch):
    rng = np.random.default_rng(0)
    low_rank = LowRank(rng.standard_normal((500, 3)), rng.standard_normal((400, 3)))
    rows, columns = rng.integers(500, size=2000), rng.integers(400, size=2000)
    plain = low_rank.at(rows, columns)
    monkeypatch.setattr("mcframe.numerics.operators.COMPILED_MULTIPLICATIONS", 0)
    np.testing.assert_allclose(low_rank.at(rows, columns), plain, atol=1e-12)


def test_a_fit_has_as_many_threads_as_it_is_told():
    model, data = mixed(n_items=100)
    seen = []
    for count in (1, 3, -1, None):
        fit = mc.fit(
            model,
            data,
            backend="alternating",
            tol=1e-3,
            n_jobs=count,
            callback=lambda record: seen.append(machine.thread_count()),
        )
        usual = cpu_count() if count == -1 else machine.thread_count()
        assert set(seen) == {count if (count or 0) > 0 else usual}
        seen.clear()
        assert fit.status == "certified"
