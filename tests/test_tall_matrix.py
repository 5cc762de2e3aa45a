"""Matrices whose rows stay with their partitions, beside the same matrices as arrays."""

import operator
import shutil
from contextlib import closing

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.compile import compile_problem, factor_rows, n_tapered_rows, scaling_costs
from mcframe.contracts.arrays import svd
from mcframe.contracts.errors import BackendError
from mcframe.numerics.operators import LowRank, orthogonal_factors, thin_qr
from mcframe.partitions import executor, fit_partitions, tall_matrix
from mcframe.partitions.binding_rounds import bind_partitions
from mcframe.partitions.executor import OneByOne
from mcframe.partitions.fit_partitions import executor_for
from mcframe.partitions.part import RowSharded, Source
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.partitions.tall_matrix import TallMatrix, written_out

N_ROWS, WIDTH = 37, 4


def partitions(n_rows=N_ROWS, n_partitions=5):
    """An executor of a table with so many rows."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n_rows, 3))
    data = RowsInMemory({"x": x}, n_partitions)
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    source = Source(data, model)
    return OneByOne(source.bound_with(mc.Problem.bind(model, {"x": x}).totals))


@pytest.fixture(scope="module")
def here():
    with closing(partitions()) as one_by_one:
        yield one_by_one


def stored(one_by_one, array):
    """An array as rows that partitions hold."""
    return TallMatrix.of(one_by_one, np.asarray, RowSharded(array))


def drawn(rng, width, spread):
    """A matrix whose columns are of very different lengths."""
    return rng.standard_normal((N_ROWS, width)) * 10.0 ** rng.uniform(-spread, spread, width)


def changed(rng, tall, array, others):
    """The same step of algebra with a matrix in both forms."""
    step = rng.integers(7)
    if step == 0:
        small = rng.standard_normal((array.shape[1], rng.integers(1, 5)))
        return tall @ small, array @ small
    if step == 1:
        factors = rng.uniform(0.5, 2.0, array.shape[1])
        return tall * factors, array * factors
    if step == 2:
        factors = rng.uniform(0.5, 2.0, array.shape[1])
        return -tall / factors, -array / factors
    if step == 3:
        kept = rng.random(array.shape[1]) < 0.7
        kept[0] = True
        return tall[:, kept], array[:, kept]
    if step == 4:
        other, other_array = others[rng.integers(len(others))]
        return np.hstack([tall, other]), np.hstack([array, other_array])
    if step == 5:
        other, other_array = others[rng.integers(len(others))]
        shared = rng.standard_normal((other_array.shape[1], array.shape[1]))
        return tall - other @ shared, array - other_array @ shared
    scales = rng.uniform(0.5, 2.0, (N_ROWS, 1))
    return scales * tall, scales * array


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 3.0, 60.0]))
def test_algebra_is_that_of_arrays(seed, spread):
    rng = np.random.default_rng(seed)
    with closing(partitions()) as one_by_one:
        arrays = [drawn(rng, width, spread) for width in rng.integers(1, 5, 3)]
        others = [(stored(one_by_one, array), array) for array in arrays[:2]]
        others.append((arrays[2], arrays[2]))  # an array beside tall matrices is one of them
        tall, array = others[0]
        for _ in range(rng.integers(1, 6)):
            tall, array = changed(rng, tall, array, others)
        lengths = np.linalg.norm(array, axis=0)
        np.testing.assert_allclose(
            np.asarray(tall), array, rtol=1e-12, atol=1e-13 * np.max(lengths)
        )
        for other, other_array in others:
            product = tall.T @ other
            assert isinstance(product, np.ndarray)
            sizes = np.outer(lengths, np.linalg.norm(other_array, axis=0))
            rounding = 1e-11 * sizes + 1e-13 * np.max(lengths) * sizes.max(0) / lengths.max()
            assert np.all(np.abs(product - array.T @ other_array) <= rounding)


def difference(one_by_one, size):
    """A matrix less one that is so close to it, in both forms."""
    rng = np.random.default_rng(1)
    array, apart = rng.standard_normal((2, N_ROWS, WIDTH))
    near = array + size * apart
    return stored(one_by_one, near) - stored(one_by_one, array), near - array


@pytest.mark.parametrize("size", [1e-3, 1e-7, 1e-12])
def test_products_of_small_differences_keep_their_digits(here, size):
    tall, array = difference(here, size)
    rounds = here.work.rounds
    np.testing.assert_allclose(tall.T @ tall, array.T @ array, rtol=1e-12)
    assert here.work.rounds == rounds + 1, "products of summands have lost the digits"


def test_products_of_stored_rows_take_no_round(here):
    rng = np.random.default_rng(2)
    one, other = (stored(here, rng.standard_normal((N_ROWS, WIDTH))) for _ in range(2))
    turn = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))[0]
    rounds = here.work.rounds
    product = (one @ turn).T @ np.hstack([other, one])
    assert here.work.rounds == rounds
    arrays = np.asarray(one), np.asarray(other)
    expected = turn.T @ arrays[0].T @ np.hstack(arrays[::-1])
    np.testing.assert_allclose(product, expected, atol=1e-13)


def test_a_planted_trust_in_products_of_summands_is_seen(here, monkeypatch):
    monkeypatch.setattr(tall_matrix, "LARGEST_CANCELLATION", np.inf)
    tall, array = difference(here, 1e-7)
    assert np.max(np.abs((tall.T @ tall) / (array.T @ array) - 1.0)) > 1e-6


@pytest.mark.parametrize("n_rows", [6, N_ROWS])
@pytest.mark.parametrize("kind", ["independent", "dependent", "zeros", "tiny", "close"])
def test_bases_of_tall_matrices(kind, n_rows):
    """Orthonormal to rounding, also of dependent columns, and of partitions of one or two rows."""
    rng = np.random.default_rng(3)
    array = rng.standard_normal((n_rows, WIDTH))
    if kind == "dependent":
        array[:, 3] = array[:, 0] - 2.0 * array[:, 1]
    elif kind == "zeros":
        array[:, 2] = 0.0
    elif kind == "tiny":
        array *= [1.0, 1e-200, 1e-80, 1e150]
    elif kind == "close":
        array[:, 3] = array[:, 0] + 1e-5 * array[:, 3]
    with closing(partitions(n_rows)) as one_by_one:
        tall = stored(one_by_one, array)
        for decompose in (thin_qr, np.linalg.qr):
            basis, triangle = decompose(tall)
            rows = np.asarray(basis)
            full = np.abs(np.diagonal(triangle)) > 1e-12 * np.linalg.norm(triangle, axis=0)
            assert full.sum() == WIDTH - (kind in ("dependent", "zeros"))
            some = rows[:, full]
            np.testing.assert_allclose(some.T @ some, np.eye(full.sum()), atol=1e-13)
            lengths = np.maximum(np.linalg.norm(array, axis=0), 1e-300)
            np.testing.assert_allclose(rows @ triangle / lengths, array / lengths, atol=1e-13)
        values = np.linalg.svd(array, compute_uv=False)
        triangle = np.linalg.qr(tall, mode="r")
        np.testing.assert_allclose(
            np.linalg.svd(triangle, compute_uv=False), values, atol=1e-14 * values[0]
        )
        left, s, right = svd(tall)
        np.testing.assert_allclose(s, values, atol=1e-13 * values[0])
        np.testing.assert_allclose(
            np.asarray(left * s @ right), array, atol=1e-13 * np.max(np.abs(array))
        )


def test_factors_are_those_of_arrays(here):
    rng = np.random.default_rng(4)
    left, right = rng.standard_normal((N_ROWS, WIDTH)), rng.standard_normal((3, WIDTH))
    factors = orthogonal_factors(stored(here, left), right)
    expected = orthogonal_factors(left, right)
    np.testing.assert_allclose(factors[1], expected[1])
    latent = LowRank(factors[0], factors[2])
    np.testing.assert_allclose(np.asarray(latent.left) @ latent.right.T, left @ right.T)
    np.testing.assert_allclose(latent.singular_values(), expected[1])
    assert latent.length == pytest.approx(float(np.linalg.norm(left @ right.T)))
    again = written_out((latent, (1.0, "word")))
    assert isinstance(again[0].left, np.ndarray)
    assert again[1] == (1.0, "word")


def test_functions_that_are_no_linear_algebra_are_refused(here):
    tall = stored(here, np.ones((N_ROWS, 2)))
    with pytest.raises(TypeError, match="cumsum"):
        np.cumsum(tall)
    assert not np.array_equal(tall, np.ones((N_ROWS, 2)))
    assert np.array_equal(tall, tall * 1.0)


def table(n_rows=60, n_columns=12):
    """A table of rank 2 with holes, in four partitions."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((n_rows, 2)) @ rng.standard_normal((2, n_columns))
    x += 0.3 * rng.standard_normal(x.shape)
    x[rng.random(x.shape) < 0.4] = np.nan
    return RowsInMemory({"x": x}, 4)


@pytest.mark.parametrize("bias", [False, True])
def test_rows_come_to_the_fitting_process_at_the_end_alone(bias, monkeypatch):
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=bias)], [mc.NuclearNorm(2.0)])
    written, ended, form = [], [], TallMatrix.__array__

    def noted(self, *arguments, **options):
        written.append(len(ended))
        return form(self, *arguments, **options)

    monkeypatch.setattr(TallMatrix, "__array__", noted)
    fit = mc.fit(model, table(), tol=1e-6, callback=lambda record: ended.append(record) or False)
    assert fit.status == "certified"
    assert isinstance(fit.latent.left, np.ndarray)
    assert set(written) == {len(ended)}, "after the last certificate"


def test_new_rows_of_large_fits_are_those_of_small_ones(monkeypatch):
    """Where the rows of U are too many for one place, what new rows need is said by partitions."""
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(2.0)])
    small = mc.fit(model, table(), tol=1e-6)
    monkeypatch.setattr(fit_partitions, "STORED_NUMBERS", 0)
    large = mc.fit(model, table(), tol=1e-6)
    new = {"x": table().data["x"][:3]}
    np.testing.assert_allclose(
        large.predict_rows("x", new), small.predict_rows("x", new), rtol=1e-9
    )


@pytest.mark.parametrize("n_partitions", [0, 4])
def test_many_rows_in_partitions_are_not_shortened(n_partitions, monkeypatch):
    monkeypatch.setattr(factor_rows, "MOST_TAPERED_ROWS", 0)
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(2.0)])
    data = table()
    if n_partitions:
        program = bind_partitions(model, executor_for(model, data, None))[1]
    else:
        program = compile_problem(mc.Problem.bind(model, data.data))
    program = program.with_storage_for(in_factors=True)
    program = attrs.evolve(program, entries=program.entries.with_form(True, 0))
    n_rows = 0 if n_partitions else program.shape[0]
    assert n_tapered_rows(program) == n_rows
    rng = np.random.default_rng(7)
    at = program.evaluate(LowRank(*(rng.standard_normal((n, 2)) for n in program.shape)))
    gradient = at.entry_gradients
    costs = scaling_costs(program, at, [(gradient, gradient)])
    assert costs.linear.shape == (1, n_rows + program.shape[1])
    shares = rng.uniform(0.0, 0.5, (program.shape[1], 1))
    none = np.zeros((0, 1))
    less = program.entries.less(gradient, [(gradient, gradient)], none, shares)
    zeros = np.zeros((program.shape[0], 1))
    same = program.entries.less(gradient, [(gradient, gradient)], zeros, shares)
    assert program.entries.norm(less) == program.entries.norm(same) > 0.0
    fit = mc.fit(model, data.data if not n_partitions else data, tol=1e-6)
    assert fit.status == "certified"


def test_rows_in_files_change_no_bit(monkeypatch):
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(2.0)])
    in_memory = mc.fit(model, table(), tol=1e-6)
    monkeypatch.setattr(executor, "ROWS_MEMORY_SHARE", 0.0)
    in_files = mc.fit(model, table(), tol=1e-6)
    assert in_files.objective == in_memory.objective
    np.testing.assert_array_equal(in_files.latent.left, in_memory.latent.left)


def test_rows_that_a_full_disk_does_not_take(monkeypatch):
    """Before anything is written it is said how much is missing."""
    monkeypatch.setattr(executor, "ROWS_MEMORY_SHARE", 0.0)
    usage = shutil.disk_usage
    monkeypatch.setattr(
        "mcframe.runtime.scratch.shutil.disk_usage",
        lambda place: usage(place)._replace(free=100),
    )
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(2.0)])
    with pytest.raises(BackendError, match="no room in folder"):
        mc.fit(model, table(), tol=1e-6)


def test_products_with_other_shapes(here):
    """Small matrices from the left, and matrices without columns."""
    rng = np.random.default_rng(6)
    array = rng.standard_normal((N_ROWS, WIDTH))
    tall, small = stored(here, array), rng.standard_normal((2, WIDTH))
    turned = small @ tall.T
    assert turned.shape == (2, N_ROWS)
    np.testing.assert_allclose(np.asarray(turned.T).T, small @ array.T)
    np.testing.assert_allclose(array[:, :2].T @ tall, array[:, :2].T @ array)
    total = array.copy()
    total += tall
    assert isinstance(total, TallMatrix)
    np.testing.assert_allclose(np.asarray(np.float64(2.0) * tall - total), 0.0, atol=1e-14)
    nothing = tall[:, np.zeros(WIDTH, dtype=bool)]
    assert (nothing.T @ tall).shape == (0, WIDTH)
    assert np.asarray(nothing).shape == (N_ROWS, 0)
    assert np.hstack([nothing, nothing]).shape == (N_ROWS, 0)
    assert operator.neg(tall).shape == tall.shape
