"""Tables of few rows and many columns: algebra in the smaller side equals that in the larger."""

import numpy as np
import pytest

from mcframe.tables.rows_choice import FEWEST, Missingness, ridge_by_columns, ridge_by_rows


@pytest.mark.parametrize("seed", range(5))
def test_ridge_by_rows_is_ridge_by_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, owners = int(rng.integers(3, 30)), np.repeat(np.arange(12), rng.integers(1, 9, size=12))
    columns = np.flatnonzero(rng.random(12) < 0.6)
    belongs = np.concatenate([owners, np.arange(12)])
    scales = 10.0 ** rng.uniform(-2.0, 2.0, belongs.size)
    design = rng.normal(size=(n, belongs.size)) * scales
    others = rng.normal(size=(7, belongs.size)) * scales
    responses = rng.integers(2, size=(n, columns.size)).astype(float)
    by_rows, by_columns = (
        ridge(design, responses, others, belongs, columns)
        for ridge in (ridge_by_rows, ridge_by_columns)
    )
    for q, column in enumerate(columns):
        kept = belongs != column
        x, ridge = design[:, kept], 10.0 * np.eye(np.count_nonzero(kept))
        expected = others[:, kept] @ np.linalg.solve(x.T @ x + ridge, x.T @ responses[:, q])
        np.testing.assert_allclose(by_rows[:, q], expected, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(by_columns[:, q], expected, rtol=1e-8, atol=1e-8)


def test_missingness_of_a_wide_table_takes_no_square_of_its_columns(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60, 400))
    values[:, 1:200] += 2.0 * rng.normal(size=(60, 1))
    values[values[:, 1:200].mean(axis=1) > 0.0, 0] = np.nan
    values[:10, 5] = np.nan  # too few to tell
    sizes = []
    inverse = np.linalg.inv
    monkeypatch.setattr(np.linalg, "inv", lambda a: sizes.append(len(a)) or inverse(a))
    missingness = Missingness.of_columns(values, np.arange(400), rng)
    assert max(sizes) < 60
    assert missingness[0].auc is not None and missingness[0].auc > 0.9
    assert missingness[5].auc is None and FEWEST > 10
