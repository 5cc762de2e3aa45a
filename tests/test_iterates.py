"""Iterates in factors beside dense ones, and short columns beside the dense solver."""

import numpy as np
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.backends import proximal
from mcframe.compile import Program, compile_problem
from mcframe.compile import program as programs
from mcframe.compile.iterates import inner, low_rank_difference, orthogonal
from mcframe.numerics.kernels import descend, extrapolate, products
from mcframe.numerics.operators import LowRank

pytestmark = pytest.mark.core


def sparse_data(n_rows=120, n_columns=90, rank=3, share=0.3, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n_rows, rank)) @ rng.standard_normal((rank, n_columns))
    x = z + noise * rng.standard_normal(z.shape)
    seen = rng.random(z.shape) < share
    labels = np.where(seen, rng.random(z.shape) < 1 / (1 + np.exp(-z)), np.nan)
    return np.where(seen, x, np.nan), labels


def mixed_model(term):
    blocks = [mc.Block("x", mc.Gaussian()), mc.Block("y", mc.Bernoulli(), bias=True)]
    return mc.Model(blocks, [term])


@pytest.mark.parametrize("term", [mc.NuclearNorm(6.0), mc.NuclearBall(60.0)])
def test_iterates_in_factors_reach_the_same_optimum(term, monkeypatch):
    x, y = sparse_data()
    data = {"x": x, "y": y[:, :30]}
    dense = mc.fit(mixed_model(term), data, backend="proximal")
    monkeypatch.setattr(programs, "SMALL_TABLE_CELLS", 0)
    monkeypatch.setattr(programs, "SPARSE_SHARE", 1.0)
    thin = mc.fit(mixed_model(term), data, backend="proximal")
    assert dense.status == thin.status == "certified"
    assert abs(thin.objective - dense.objective) <= 2e-6 * abs(dense.objective)
    again = mc.fit(mixed_model(term), data, backend="proximal", start=thin)
    assert again.history[-1].iteration <= thin.history[-1].iteration


def test_passes_over_dense_matrices_beside_numpy():
    rng = np.random.default_rng(0)
    new, now, before, out = rng.standard_normal((4, 50, 30))
    extrapolate(now, before, 0.7, out)
    np.testing.assert_allclose(out, now + 0.7 * (now - before), rtol=1e-13)
    places = rng.choice(out.size, 200, replace=False)
    z, gradient = rng.standard_normal((2, 200))
    wanted = out.copy()
    wanted.ravel()[places] = z - 0.3 * gradient
    descend(places, z, gradient, 0.3, out)
    np.testing.assert_allclose(out, wanted, rtol=1e-13)
    squared, cross = products(new, now, before)
    np.testing.assert_allclose(squared, np.sum((new - now) ** 2), rtol=1e-12)
    np.testing.assert_allclose(cross, np.sum((new - now) * (now - before)), rtol=1e-10)


def test_a_small_difference_of_factors_keeps_its_digits():
    rng = np.random.default_rng(0)
    old = orthogonal(LowRank(rng.standard_normal((40, 3)), rng.standard_normal((30, 3))))
    shift = 1e-7 * rng.standard_normal((40, 1)) @ rng.standard_normal((1, 30))
    left, s, right = np.linalg.svd(old.dense() + shift, full_matrices=False)
    new = LowRank(left[:, :4] * s[:4], right[:4].T)
    moved = low_rank_difference(new, old)
    np.testing.assert_allclose(moved.dense(), shift, atol=1e-13)
    np.testing.assert_allclose(inner(moved, moved), np.sum(shift**2), rtol=1e-6)
    other = LowRank(rng.standard_normal((40, 2)), rng.standard_normal((30, 2)))
    np.testing.assert_allclose(inner(moved, other), np.sum(shift * other.dense()), rtol=1e-5)


@pytest.mark.parametrize("share_of_noise", [1.02, 0.97])
def test_short_columns_where_the_noise_reaches_the_weight(share_of_noise):
    """A weight just above and just below the largest singular value of the noise's gradient."""
    x, _ = sparse_data(300, 200, 2, share=0.1)
    table = sp.csr_array(np.nan_to_num(x))
    edge = 0.5 * np.sqrt(0.1) * (np.sqrt(300) + np.sqrt(200))
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(share_of_noise * edge)])
    dense = mc.fit(model, {"x": table}, backend="proximal", tol=1e-5)
    found = mc.fit(model, {"x": table}, backend="alternating", tol=1e-5)
    assert dense.status == found.status == "certified"
    assert abs(found.objective - dense.objective) <= 2e-5 * dense.objective


@pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")
def test_sparse_tables_go_to_the_sparse_backend():
    table = sp.random_array((2000, 1000), density=0.001, random_state=np.random.default_rng(0))
    block = mc.Block("x", mc.Gaussian())
    nuclear = mc.explain(mc.Model([block], [mc.NuclearNorm(1.0)]), {"x": table})
    assert nuclear.chosen == "alternating"
    ball = mc.explain(mc.Model([block], [mc.NuclearBall(1.0)]), {"x": table})
    assert ball.chosen in ("proximal", "factored")  # both keep such a table in factors


def program_of(word, table):
    model = mc.Model([mc.Block("x", word, bias=True)], [mc.NuclearNorm(1.0)])
    return compile_problem(mc.Problem.bind(model, {"x": table}))


def around(program, length):
    """A Z, another one so far from it, and the one as far beyond: at what they are worth."""
    rng = np.random.default_rng(4)
    begin, move = (rng.standard_normal(program.shape) for _ in range(2))
    before, here, ahead = (0.3 * begin + k * length * move for k in range(3))
    at = program.evaluate(before)
    return at, program.evaluate(here, at.effects), program.entries.iterate(ahead)


def test_what_is_told_ahead_is_exact_for_squares():
    x, _ = sparse_data(20, 12, share=0.8)
    program = program_of(mc.Gaussian(), x)
    before, here, place = around(program, 1.0)
    told, exact = program.extrapolate(place, 1.0, here, before), program.evaluate(place)
    assert told.value == pytest.approx(exact.value, rel=1e-12)
    np.testing.assert_allclose(told.entry_gradients, exact.entry_gradients, atol=1e-11)
    np.testing.assert_allclose(told.effects[0], exact.effects[0], atol=1e-11)


@pytest.mark.parametrize("word", [mc.Poisson(), mc.Bernoulli()])
def test_what_is_told_ahead_errs_by_powers_of_the_move(word):
    _, y = sparse_data(20, 12, share=0.8)
    program = program_of(word, y)
    errors = []
    for length in (1e-3, 5e-4):
        before, here, place = around(program, length)
        told, exact = program.extrapolate(place, 1.0, here, before), program.evaluate(place)
        gradients = np.abs(told.entry_gradients - exact.entry_gradients)
        errors.append((abs(told.value - exact.value), gradients.max()))
    (value, gradient), (value_half, gradient_half) = errors
    assert value_half < value / 6.0  # of third order: an eighth
    assert 1e-9 < gradient_half < gradient / 3.5  # of second order: a quarter


@pytest.mark.parametrize("word", [mc.Poisson(), mc.Bernoulli()])
def test_nothing_is_told_far_ahead(word):
    _, y = sparse_data(20, 12, share=0.8)
    program = program_of(word, y)
    before, here, place = around(program, 0.1)
    assert program.extrapolate(place, 1.0, here, before) is None


def test_steps_evaluate_once_where_they_are_short(monkeypatch):
    evaluated, inner = [], Program.evaluate

    def counted(*arguments, **options):
        evaluated.append(1)
        return inner(*arguments, **options)

    monkeypatch.setattr(Program, "evaluate", counted)
    monkeypatch.setattr(proximal, "may_take_newton_step", lambda program, state: False)
    x, y = sparse_data(60, 40)
    fit = mc.fit(mixed_model(mc.NuclearNorm(1.0)), {"x": x, "y": y}, backend="proximal", tol=1e-9)
    assert fit.status == "certified"
    assert fit.history[-1].iteration > 60
    assert len(evaluated) < 1.7 * fit.history[-1].iteration
