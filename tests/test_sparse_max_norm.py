"""Max norms without forming Z: sparse gradients beside dense ones, and certificates that hold."""

from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.backends import certificate
from mcframe.backends.factored import FactoredDescent, missing_columns
from mcframe.compile import compile_problem
from mcframe.compile import program as programs
from mcframe.model.problem import Problem
from mcframe.numerics import max_norm_bounds as max_norms
from mcframe.numerics.max_norm_bounds import dual_max_norm_bound, dual_max_norm_split
from mcframe.numerics.sampled import Pattern, Sampled


def gradients(seed, shape, share=0.3):
    """A sparse matrix, and the same one dense."""
    rng = np.random.default_rng(seed)
    dense = rng.standard_normal(shape) * (rng.random(shape) < share)
    rows, columns = np.nonzero(dense)
    order = rng.permutation(rows.size)
    rows, columns = rows[order], columns[order]
    return Sampled(Pattern.of(shape, rows, columns), dense[rows, columns]), dense, rng


def table(shape, n_entries, noise=0.3, seed=0):
    """Gaussian data of rank 5 at random entries."""
    rng = np.random.default_rng(seed)
    u, v = rng.standard_normal((shape[0], 5)), rng.standard_normal((shape[1], 5))
    cells = np.sort(rng.choice(shape[0] * shape[1], n_entries, replace=False))
    rows, columns = np.divmod(cells, shape[1])
    y = np.einsum("ij,ij->i", u[rows], v[columns]) / np.sqrt(5)
    y += noise * rng.standard_normal(n_entries)
    return {"x": sp.csr_array((y, (rows, columns)), shape=shape)}


def gaussian(term):
    return mc.Model([mc.Block("x", mc.Gaussian())], [term])


def program_of(term, data):
    return compile_problem(Problem.bind(gaussian(term), data))


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 20))
def test_a_sampled_matrix_stands_for_a_dense_one(seed, n_rows, n_columns):
    matrix, dense, rng = gradients(seed, (n_rows, n_columns))
    assert matrix.shape == matrix.T.T.shape == dense.shape
    left, right = rng.standard_normal((n_rows, 3)), rng.standard_normal((n_columns, 3))
    for sparse, same in (
        (matrix @ right, dense @ right),
        (matrix.T @ left, dense.T @ left),
        (matrix @ right[:, 0], dense @ right[:, 0]),
        (np.float64(0.3) * matrix @ right, 0.3 * dense @ right),
        (matrix * 0.3 @ right, 0.3 * dense @ right),
        (-matrix @ right, -dense @ right),
        (
            matrix.between(left[:, 0], right[:, 0]) @ right,
            left[:, :1] * dense * right[:, 0] @ right,
        ),
    ):
        np.testing.assert_allclose(sparse, same, atol=1e-12)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 40), st.sampled_from([0.1, 1.0]))
def test_the_sparse_dual_bound_holds_and_proves_itself(seed, n_rows, n_columns, share):
    """Whatever the multipliers: the exact dual norm is that of the dense interior-point method."""
    matrix, dense, rng = gradients(seed, (n_rows, n_columns), share)
    exact = dual_max_norm_bound(dense)
    for multipliers in (None, rng.random(n_rows + n_columns) ** 4, np.zeros(n_rows + n_columns)):
        with mock.patch.object(max_norms, "LARGEST_POLISHED", 0):  # not written out
            bound, diagonal = dual_max_norm_split(matrix, multipliers)
        assert bound >= exact * (1 - 1e-8)
        assert 0.5 * np.sum(diagonal) == pytest.approx(bound, rel=1e-9)
        whole = np.diag(diagonal)
        whole[:n_rows, n_rows:], whole[n_rows:, :n_rows] = dense, dense.T
        assert np.linalg.eigvalsh(whole)[0] >= -1e-12 * np.max(np.abs(whole))


def test_empty_and_tiny_gradients_have_bounds(monkeypatch):
    monkeypatch.setattr(max_norms, "LARGEST_POLISHED", 0)
    matrix, _, _ = gradients(0, (30, 20))
    assert dual_max_norm_bound(0.0 * matrix) == 0.0
    tiny = dual_max_norm_bound(1e-200 * matrix, np.ones(50))
    assert tiny == pytest.approx(1e-200 * dual_max_norm_bound(matrix, np.ones(50)), rel=1e-6)


@pytest.mark.parametrize("term", [mc.MaxNormBall(1.5), mc.MaxNorm(20.0)], ids=["ball", "norm"])
def test_descent_without_z_is_descent_with_it(monkeypatch, term):
    """Objective, gradient and residual at the same vectors; the certificate's bounds hold."""
    data = table((90, 70), 600)
    dense = program_of(term, data)
    solver = FactoredDescent()
    state = solver.init(dense, None, np.random.default_rng(0))
    for _ in range(30):
        solver.step(dense, state)
    found = (state.objective, state.gradient, state.evaluation.iterate.array)
    certified = certificate.certify(dense, solver.candidate(dense, state))
    monkeypatch.setattr(programs, "STORED_NUMBERS", 0)
    sparse = program_of(term, data)
    assert sparse.entries.sparse
    assert not solver.holds_dense(sparse)
    state.move_to(sparse, state.vector)
    assert state.objective == pytest.approx(found[0], rel=1e-13)
    np.testing.assert_allclose(state.gradient, found[1], atol=1e-10)
    np.testing.assert_allclose(state.evaluation.iterate.array, found[2], atol=1e-12)
    again = certificate.certify(sparse, solver.candidate(sparse, state))
    assert again.objective == pytest.approx(certified.objective, rel=1e-13)
    # The dense one is improved until it is the best bound that this gradient gives.
    assert again.bound <= certified.bound + 1e-9 * abs(certified.objective)


@pytest.mark.parametrize("term", [mc.MaxNormBall(0.5), mc.MaxNorm(100.0)], ids=["ball", "norm"])
def test_both_reach_the_same_certified_optimum(monkeypatch, term):
    data = table((60, 50), 900, noise=0.5)
    exact = mc.fit(gaussian(term), data, backend="factored", tol=1e-7)
    monkeypatch.setattr(programs, "STORED_NUMBERS", 0)
    found = mc.fit(gaussian(term), data, backend="factored", tol=1e-5, max_iter=3000)
    assert exact.status == found.status == "certified"
    assert found.objective == pytest.approx(exact.objective, rel=2e-5)
    assert found.bound <= exact.objective * (1 + 1e-9)


def test_columns_are_found_beside_many_eigenvalues_of_zero():
    """One eigenvalue just below 0, 400 at 0: too close for steps of the matrix as it is."""
    rng = np.random.default_rng(0)
    u, v = (np.linalg.qr(rng.standard_normal((n, 200)))[0] for n in (300, 250))
    s = np.append(1.003, np.minimum(1.0, np.linspace(1.2, 0.5, 199)))
    weights = rng.uniform(0.05, 5.0, 550)
    roots = np.sqrt(weights)
    gradient = roots[:300, None] * ((u * s) @ v.T) * roots[300:]
    columns = missing_columns(gradient, weights, 5, rng)
    assert columns.shape[1] == 1
    x = columns[:, 0]
    assert np.linalg.norm(x) == pytest.approx(1.0)
    assert weights @ x**2 + 2.0 * x[:300] @ gradient @ x[300:] < 0.0


@pytest.mark.slow(seconds=2)
def test_a_table_beyond_the_polished_order_certifies():
    """Without its last columns this one is left with a gap of 8e-3, all objective."""
    fit = mc.fit(
        gaussian(mc.MaxNormBall(2.0)),
        table((300, 200), 3000),
        backend="factored",
        tol=1e-4,
        max_iter=1500,
    )
    assert fit.status == "certified"


@pytest.mark.slow(seconds=2)
def test_a_large_sparse_table_is_certified_in_seconds():
    data = table((3000, 2000), 40_000, noise=1.0)
    model = gaussian(mc.MaxNormBall(0.1))
    fit = mc.fit(model, data, tol=1e-3, max_iter=400)
    assert fit.backend == "factored"
    assert fit.status == "certified"
    assert fit.bound < fit.objective


def test_what_it_holds_grows_with_the_entries():
    rng = np.random.default_rng(0)
    shape = (300_000, 200_000)
    rows, columns = rng.integers(shape[0], size=3000), rng.integers(shape[1], size=3000)
    data = {"x": sp.coo_array((rng.standard_normal(3000), (rows, columns)), shape=shape)}
    with pytest.warns(mc.UnobservedWarning):
        explained = mc.explain(gaussian(mc.MaxNorm(1.0)), data)
    assert explained.chosen == "factored"
    verdict = next(v for v in explained.eligibilities if v.name == "factored")
    assert "3000 observed entries" in verdict.cost
    # A loss with kinks is tied by multipliers, which hold Z.
    nonsmooth = mc.Model([mc.Block("x", mc.Quantile(0.5))], [mc.MaxNorm(1.0)])
    with pytest.warns(mc.UnobservedWarning):
        explained = mc.explain(nonsmooth, data)
    assert explained.chosen is None
