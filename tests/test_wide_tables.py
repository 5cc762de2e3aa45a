"""Tables of few rows and many columns: algebra in the smaller side equals that in the larger."""

import time
import warnings

import attrs
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import mcframe as mc
from mcframe.numerics import row_mixtures
from mcframe.numerics.low_rank_rows import LowRankRows
from mcframe.numerics.row_mixtures import IncompleteRows, RowMixture
from mcframe.posterior.row_estimates import fit_rows
from mcframe.posterior.rows_parameters import PRIOR_ROWS_GRID, RowsParameters, RowsPrior
from mcframe.posterior.wide_rows import WideParameters, WidePrior, is_wide
from mcframe.tables import rows_folds
from mcframe.tables.missingness import Missingness, ridge_by_columns, ridge_by_rows

from .strategies import wide_frames
from .test_tables_agree import check_answers_agree


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
    assert (missingness[0].auc or 0.0) > 0.9
    assert missingness[5].auc is None


def drawn_rows(rng: np.random.Generator) -> tuple[LowRankRows, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, a table of them with gaps, their precisions, and the column of each."""
    widths = rng.choice([1, 1, 1, 2, 5], size=int(rng.integers(3, 12)))
    column_of_number = np.repeat(np.arange(widths.size), widths)
    n, d = int(rng.integers(1, 9)), column_of_number.size
    rows = LowRankRows(
        rng.normal(size=d),
        10.0 ** rng.uniform(-3.0, 1.0, d),
        rng.normal(size=(d, int(rng.integers(1, n + 2)))) * 10.0 ** rng.uniform(-2.0, 1.0),
    )
    values = rng.normal(size=(n, d))
    values[rng.random((n, widths.size))[:, column_of_number] < rng.choice([0.1, 0.5, 0.9])] = (
        np.nan
    )
    precisions = np.where(np.isnan(values), 0.0, 10.0 ** rng.uniform(-1.0, 3.0, d))
    if rng.random() < 0.5:
        precisions *= rng.choice([0.5, 1.0], size=values.shape)
    return rows, values, precisions, column_of_number


@pytest.mark.parametrize("seed", range(20))
def test_rows_with_loadings_are_those_with_their_covariance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, values, precisions, owners = drawn_rows(rng)
    full = RowMixture(np.zeros(1), rows.means, rows.covariances)
    np.testing.assert_allclose(rows.variances, full.variances)
    table = IncompleteRows.of(values, precisions, rows.variances[0])
    for one, other in zip(rows.evidence(table), full.evidence(table), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7)
    one, other = rows.conditionals(table), full.conditionals(table)
    for name in ("evidence", "responsibilities", "means", "variances"):
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), rtol=1e-6, atol=1e-7, err_msg=name
        )
    left = [each.leave_one_out(values, 0.01, owners) for each in (rows, full)]
    np.testing.assert_allclose(*left, rtol=1e-6, atol=1e-7)
    covariance, away = rows.covariances[0], rng.normal(size=owners.size)
    np.testing.assert_allclose(rows.precisions, np.diag(np.linalg.inv(covariance)), rtol=1e-6)
    np.testing.assert_allclose(rows.log_determinant, np.linalg.slogdet(covariance)[1], rtol=1e-6)
    np.testing.assert_allclose(
        rows.distance(away), away @ np.linalg.solve(covariance, away), rtol=1e-6
    )


@pytest.mark.parametrize("seed", range(10))
def test_numbers_left_out_of_rows_with_few_gaps_come_from_one_inverse(seed, monkeypatch) -> None:
    """Of all columns; without it there is an inverse of the observed numbers of each row."""
    rng = np.random.default_rng(seed)
    rows, values, _, owners = drawn_rows(rng)
    values = np.vstack([values, np.where(np.isnan(values[:1]), np.nan, rng.normal(size=(6, 1)))])
    shares = np.log([0.3, 0.7])
    covariances = np.concatenate([rows.covariances, np.diag(rows.diagonal)[None]])
    mixture = RowMixture(shares, rng.normal(size=(2, owners.size)), covariances)
    by_one = mixture.leave_one_out(values, 0.01, owners)
    monkeypatch.setattr(row_mixtures, "LARGEST_PRECISION_RATIO", 0.0)
    monkeypatch.delattr(row_mixtures.FullInverse, "of_observed")
    by_row = mixture.leave_one_out(values, 0.01, owners)
    np.testing.assert_allclose(by_one, by_row, rtol=1e-6, atol=1e-8)


def test_draws_have_the_covariance() -> None:
    rng = np.random.default_rng(0)
    rows = LowRankRows(np.zeros(3), np.array([0.1, 1.0, 2.0]), rng.normal(size=(3, 2)))
    draws = rows.draws(0, 200_000, rng)
    np.testing.assert_allclose(draws.T @ draws / len(draws), rows.covariances[0], atol=0.05)


def of_full_covariance(after: WideParameters) -> RowsParameters:
    """The same distribution of mean and covariance, the scatter a matrix."""
    prior = RowsPrior(
        after.prior.mean,
        np.diag(after.prior.variances),
        after.prior.rows,
        after.prior.learned,
        after.prior.mean_rows,
    )
    scatter = after.rows_with(1.0).covariances
    return RowsParameters(
        prior, np.ones(1), after.mean[None], after.counts, scatter, after.degrees
    )


@pytest.mark.parametrize("seed", range(10))
def test_steps_in_loadings_are_those_of_a_mean_field(seed: int) -> None:
    """Moments, the bound and the best strength of the prior, by matrices of columns x columns."""
    rng = np.random.default_rng(seed)
    rows, values, precisions, _ = drawn_rows(rng)
    n, d = values.shape
    table = IncompleteRows.of(values, precisions, rows.variances[0])
    prior = WidePrior(
        rows.mean, rows.diagonal, float(rng.uniform(0.1, 30.0)), False, 0.1, PRIOR_ROWS_GRID
    )
    after = WideParameters(prior, rng.normal(size=(n, d)), rng.uniform(0.1, 1.0, d))
    full = of_full_covariance(after)
    np.testing.assert_allclose(after.divergence(), full.divergence(), rtol=1e-7)
    for one, other in ((after.expected, full.expected), (after.predictive, full.predictive)):
        np.testing.assert_allclose(one.covariances, other.covariances, rtol=1e-9)
        np.testing.assert_allclose(one.log_shares, other.log_shares, rtol=1e-9)
    moments, of_full = after.expectation(table), full.expectation(table)
    exact = full.expected.conditionals(table)
    np.testing.assert_allclose(moments.means, exact.means[0], rtol=1e-6, atol=1e-7)
    inverse, spreads = np.linalg.inv(full.expected.covariances[0]), np.zeros(d)
    for i in range(n):
        precision = inverse + np.diag(table.precisions[i])
        divergence = np.sum(np.log(np.diag(precision))) - np.linalg.slogdet(precision)[1]
        np.testing.assert_allclose(
            moments.evidence[i], of_full.evidence[i] - 0.5 * divergence, rtol=1e-6, atol=1e-6
        )
        spreads += 1.0 / np.diag(precision)
    np.testing.assert_allclose(moments.spreads, spreads, rtol=1e-6)
    # The step: the scatter of the filled rows about their mean, and the variances.
    stepped = after.m_step(moments)
    centre = np.mean(moments.means, axis=0)
    away = moments.means - centre
    shift = np.outer(centre - prior.mean, centre - prior.mean) * 0.1 * n / (n + 0.1)
    scatter = away.T @ away + shift + np.diag(prior.rows * prior.variances + spreads)
    np.testing.assert_allclose(stepped.rows_with(1.0).covariances[0], scatter, atol=1e-6)
    learned = attrs.evolve(prior, learned=True).m_step(moments).prior.rows
    of_rows = (scatter - np.diag(prior.rows * prior.variances))[None]
    assert learned == full.prior.with_best_rows(np.array([float(n)]), of_rows).rows


def wide_table(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers with three factors, and the same with gaps."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 0.5 * rng.normal(size=(n, d))
    return numbers, np.where(rng.random((n, d)) < 0.2, np.nan, numbers)


@pytest.mark.parametrize("prior_rows", [3.0, None])
def test_the_bound_never_falls_and_predictions_are_those_of_a_full_covariance(prior_rows) -> None:
    numbers, seen = wide_table(20, 140, 0)
    assert is_wide(20, 140)
    precisions, missing = np.full(140, 1000.0), np.isnan(seen)
    found = fit_rows(seen, precisions, prior_rows=prior_rows)
    assert isinstance(found.parameters, WideParameters)
    assert np.all(np.diff(found.history) >= -1e-6)
    strength = found.parameters.prior.rows
    rows, gaps = np.nonzero(missing)
    _, [means], _ = found.mixture(rows, gaps)
    full = of_full_covariance(found.parameters)
    for _ in range(100):  # the same steps with the covariances of missing numbers
        full, _ = full.step(found.table)
    exact = full.predictive.conditionals(found.table).means[0][rows, gaps]
    errors = [np.sqrt(np.mean((each - numbers[rows, gaps]) ** 2)) for each in (means, exact)]
    assert errors[0] < 1.02 * errors[1]
    assert 0.1 <= strength <= 3000.0


def test_a_number_of_components_that_is_chosen_is_one_in_wide_tables(monkeypatch) -> None:
    """No covariance of all columns is made for one component, nor to find that there is one."""
    _, seen = wide_table(12, 300, 1)
    precisions = np.full(300, 1000.0)
    one = fit_rows(seen, precisions)
    monkeypatch.setattr(RowsPrior, "without_rows", None)
    chosen = fit_rows(seen, precisions, components="auto")
    assert isinstance(chosen.parameters, WideParameters)
    rows, gaps = np.nonzero(np.isnan(seen))
    for found, wanted in zip(chosen.mixture(rows, gaps), one.mixture(rows, gaps), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_complete_a_wide_table_without_a_matrix_of_its_columns() -> None:
    numbers, seen = wide_table(12, 300, 1)
    frame = pd.DataFrame(seen, columns=[f"x{j}" for j in range(300)])
    frame["kind"] = np.where(numbers[:, 0] > 0.0, "high", "low")
    frame.loc[3, "kind"] = None
    completed = mc.complete(frame)
    rows = completed.answer.engine.rows
    assert isinstance(rows.components, LowRankRows)
    assert not completed.table.isna().to_numpy().any()
    missing = np.isnan(seen)
    errors = completed.table.iloc[:, :300].to_numpy(float) - numbers
    assert np.sqrt(np.mean(errors[missing] ** 2)) < 0.9 * np.std(numbers)
    draws = completed.draws(2)
    assert not draws[0].isna().to_numpy().any()
    low, high = (each.iloc[:, :300].to_numpy(float)[missing] for each in completed.interval(0.9))
    inside = (low < numbers[missing]) & (numbers[missing] < high)
    assert np.mean(inside) > 0.7


def test_a_wide_answer_is_saved(tmp_path) -> None:
    _, seen = wide_table(10, 150, 2)
    completed = mc.complete(pd.DataFrame(seen))
    completed.save(tmp_path / "wide.npz")
    again = mc.load(tmp_path / "wide.npz")
    pd.testing.assert_frame_equal(again.table, completed.table)
    pd.testing.assert_frame_equal(again.sd, completed.sd)


@pytest.mark.parametrize("n_columns", [6, 120])
def test_no_prior_is_fitted_twice_on_a_fold(n_columns: int, monkeypatch) -> None:
    values, _ = wide_table(40, n_columns, 0)
    fitted = []
    counting = rows_folds.fit_rows
    monkeypatch.setattr(
        rows_folds, "fit_rows", lambda *a, **k: fitted.append(k) or counting(*a, **k)
    )
    completed = mc.complete(pd.DataFrame(values))
    once_more = 1  # with a smaller share held out, by the prior that was chosen
    assert len(fitted) == completed.chosen.losses.size + once_more


@pytest.mark.slow(seconds=9)
@settings(max_examples=2)
@given(wide_frames())
def test_wide_tables_of_several_kinds(frame: pd.DataFrame) -> None:
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        completed = mc.complete(frame)
    assert time.process_time() - start < 60.0
    check_answers_agree(completed)
    observed = frame.notna().to_numpy()
    kept = completed.table.to_numpy(dtype=object)[observed]
    assert (kept == frame.to_numpy(dtype=object)[observed]).all()
