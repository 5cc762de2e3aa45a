"""Eigenvalues at one end of a spectrum, and the columns that factors lack."""

import numpy as np
import pytest

from mcframe.backends import factored
from mcframe.numerics.norms import least_ritz_pairs
from mcframe.numerics.operators import Dense
from mcframe.runtime.machine import OutOfTime, stop_at

pytestmark = pytest.mark.core


def symmetric(order, seed):
    half = np.random.default_rng(seed).standard_normal((order, order))
    return half + half.T


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(wrong):
    square = np.eye(150)
    square[3, 3] = wrong
    with pytest.raises(np.linalg.LinAlgError, match="not finite"), np.errstate(invalid="ignore"):
        least_ritz_pairs(lambda v: square @ v, np.ones(150), 2, 20)


def test_ritz_pairs_are_those_of_a_krylov_space_without_a_restart():
    """Of 12 columns, which begin at the start or, in newer versions of ARPACK, at its image."""
    matrix, start = symmetric(120, 1), np.random.default_rng(2).standard_normal(120)
    columns = [start]
    for _ in range(12):
        columns.append(matrix @ columns[-1] / np.linalg.norm(columns[-1]))
    basis = np.linalg.qr(np.column_stack(columns))[0]
    spaces = [basis[:, :12], basis]
    most, least = (np.linalg.eigvalsh(b.T @ matrix @ b)[:3] for b in spaces)
    values, vectors = least_ritz_pairs(lambda v: matrix @ v, start, 3, 12)
    assert np.all(least * (1 + 1e-6) <= values)
    assert np.all(values <= most * (1 - 1e-6))
    assert values[0] > np.linalg.eigvalsh(matrix)[0] * (1 - 1e-3)  # it has not converged
    np.testing.assert_allclose(basis @ (basis.T @ vectors), vectors, atol=1e-6)


def test_the_clock_is_seen_within():
    matrix = symmetric(200, 3)
    with pytest.raises(OutOfTime), stop_at(0.0):
        least_ritz_pairs(lambda v: matrix @ v, np.ones(200), 2, 100)


@pytest.mark.parametrize("multipliers", ["uneven", "none"])
def test_missing_columns_are_the_same_by_steps_as_by_the_whole_matrix(multipliers, monkeypatch):
    rng = np.random.default_rng(4)
    dense = rng.standard_normal((70, 50))
    diagonal = np.zeros(120)
    if multipliers == "uneven":
        diagonal = 0.6 * np.linalg.norm(dense, 2) * np.exp(0.2 * rng.standard_normal(120))
    whole = np.diag(diagonal)
    whole[:70, 70:], whole[70:, :70] = dense, dense.T
    exact = factored.missing_columns(Dense(dense), diagonal, 5, np.random.default_rng(0))
    monkeypatch.setattr(factored, "SMALL_ORDER", 0)
    found = factored.missing_columns(Dense(dense), diagonal, 5, np.random.default_rng(0))
    assert exact.shape == found.shape
    assert exact.shape[1] > 0
    np.testing.assert_allclose(np.abs(np.sum(exact * found, axis=0)), 1.0, atol=1e-8)
    assert np.all(np.einsum("ij,ij->j", found, whole @ found) < 0.0)


@pytest.mark.parametrize("order", [0, 300])
def test_no_column_is_missing_where_the_dual_matrix_is_definite(order, monkeypatch):
    monkeypatch.setattr(factored, "SMALL_ORDER", order)
    dense = np.random.default_rng(5).standard_normal((40, 30))
    diagonal = np.full(70, 1.001 * np.linalg.norm(dense, 2))
    found = factored.missing_columns(Dense(dense), diagonal, 4, np.random.default_rng(0))
    assert found.shape == (70, 0)
