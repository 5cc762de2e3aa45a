"""Singular values of arrays, where LAPACK's fast algorithm does not converge, too."""

import numpy as np
import pytest

from mcframe.contracts.arrays import singular_values, svd


def fails(matrix, **options):
    """``numpy.linalg.svd`` where it does not converge."""
    raise np.linalg.LinAlgError("SVD did not converge")


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (5, 5), (3, 0)])
@pytest.mark.parametrize("converges", [True, False])
def test_matrices_are_decomposed_whether_the_fast_algorithm_converges_or_not(
    monkeypatch, shape, converges
):
    matrix = np.random.default_rng(0).standard_normal(shape)
    expected = np.linalg.svd(matrix, compute_uv=False)
    if not converges:
        monkeypatch.setattr(np.linalg, "svd", fails)
    left, values, right = svd(matrix)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    np.testing.assert_allclose(singular_values(matrix), expected, rtol=1e-12)
    np.testing.assert_allclose((left * values) @ right, matrix, atol=1e-12)
    assert left.shape == (shape[0], min(shape))
    assert right.shape == (min(shape), shape[1])


def test_numbers_that_are_not_finite_have_no_singular_values():
    for ask in (svd, singular_values):
        with pytest.raises(np.linalg.LinAlgError):
            ask(np.array([[1.0, np.nan], [0.0, 1.0]]))
