"""The shift of missing values that changes a mean, and draws that are shifted by it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy

import mcframe as mc
from mcframe.tables.tipping import MeanOfColumn


def table(seed, n=150, share=0.6):
    """A number and a label that depend on a complete column, most of them missing."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    y = 5.0 + 2.0 * x + 3.0 * rng.standard_normal(n)
    label = np.where(x + rng.standard_normal(n) > 0.5, "yes", "no").astype(object)
    frame = pd.DataFrame({"x": x, "y": y, "label": label, "visits": rng.integers(0, 40, n) * 1.0})
    for name in ("y", "label", "visits"):
        frame.loc[rng.random(n) < share, name] = None
    return frame


def pooled_mean(tables, values):
    """The mean of a column of completed tables, by Rubin's rules."""
    columns = [np.asarray(values(table), dtype=float) for table in tables]
    n = columns[0].size
    variances = [column.var(ddof=1) / n for column in columns]
    means = [column.mean() for column in columns]
    return mc.pool(means, variances, complete_degrees_of_freedom=n - 1)


@pytest.fixture(scope="module")
def completed():
    return mc.complete(table(0))


@pytest.mark.slow(seconds=6)
def test_the_mean_and_its_deviation_are_those_of_pooled_draws():
    """Residuals alone, without the error of the estimate, would have .83 of the deviation."""
    ratios, differences = [], []
    for seed in range(3):
        completed = mc.complete(table(seed)[["x", "y", "label"]])
        tables = completed.draws(80)
        for name, values in (("y", lambda t: t["y"]), ("label", lambda t: t["label"] == "yes")):
            mean, pooled = completed.means[name], pooled_mean(tables, values)
            ratios.append(pooled.sd / mean.sd)
            differences.append((pooled.estimate - mean.mean) / mean.sd)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.07)
    assert np.max(np.abs(differences)) < 0.35


@pytest.mark.slow(seconds=2)
def test_a_shift_takes_the_pooled_mean_to_the_end_of_its_interval(completed):
    shift = completed.shift_to_change("y")
    draws, shifted = completed.draws(60), completed.draws(60, shift={"y": shift})
    before = pooled_mean(draws, lambda table: table["y"])
    after = pooled_mean(shifted, lambda table: table["y"])
    mean = completed.means["y"]
    assert after.estimate - before.estimate == pytest.approx(shift * mean.share_missing)
    upper = before.interval()[1]
    assert after.estimate - before.estimate == pytest.approx(upper - before.estimate, rel=0.12)
    sd = completed.table["y"].std()
    report = completed.report().set_index("column")["shift"]
    assert report["y"] == pytest.approx(shift / mean.spread)
    assert mean.spread > sd  # which filled means make too small
    assert report["label"] == pytest.approx(completed.shift_to_change("label"))
    assert np.isnan(report["x"])
    assert completed.shift_to_change("y", 0.5) < 0.5 * shift


def test_values_of_the_formula_by_hand():
    observed, means, variances = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 3.0]), np.ones(2)
    mean = MeanOfColumn.of(observed, means, variances, is_share=False, unit=2.0)
    variance = (5.0 + 0.5 + 2.0) / 5.0
    assert mean.mean == 5.0
    assert mean.spread == pytest.approx(2.0 * np.sqrt(variance))
    assert mean.sd == pytest.approx(2.0 * np.sqrt(variance / 6.0 + 2.0 / 24.0))
    share = 2.0 / 24.0 / (variance / 6.0 + 2.0 / 24.0)
    freedom = 6.0 / 8.0 * 5.0 * (1.0 - share)
    quantile = scipy.stats.t.ppf(0.95, freedom)
    assert mean.shift(0.9) == pytest.approx(quantile * mean.sd * 3.0)
    assert MeanOfColumn.of(observed[:1], means, variances, is_share=False) is None
    assert MeanOfColumn.of(np.ones(3), np.ones(2), np.zeros(2), is_share=False) is None


def test_shifted_draws_differ_at_missing_entries_of_the_column_alone(completed):
    [plain], [shifted] = completed.draws(1), completed.draws(1, shift={"y": -1.5})
    missing = completed.declared.column("y").column.missing
    pd.testing.assert_frame_equal(shifted.drop(columns="y"), plain.drop(columns="y"))
    np.testing.assert_allclose(shifted["y"] - plain["y"], np.where(missing, -1.5, 0.0), atol=1e-9)
    again = completed.draws(2, shift={"y": -1.5})[0]
    pd.testing.assert_frame_equal(again, shifted)


def test_whole_numbers_stay_whole_and_rise_by_the_shift_on_average(completed):
    missing = completed.declared.column("visits").column.missing
    pairs = zip(completed.draws(40), completed.draws(40, shift={"visits": 0.3}), strict=True)
    rises = np.array([(after["visits"] - before["visits"])[missing] for before, after in pairs])
    assert set(np.unique(rises)) == {0.0, 1.0}
    assert rises.mean() == pytest.approx(0.3, abs=4.0 * 0.46 / np.sqrt(rises.size))


def test_shifts_stay_within_bounds_and_other_libraries_have_them():
    frame = pl.from_pandas(table(1)[["x", "y"]]).with_columns(pl.col("y").clip(0.0, 10.0))
    completed = mc.complete(frame, {"y": ("number", 0, 10)})
    [shifted] = completed.draws(1, shift={"y": 100.0})
    filled = shifted["y"].filter(frame["y"].is_null() | frame["y"].is_nan())
    assert (filled == 10.0).all()


def test_regressions_of_shifted_draws(completed):
    plain = mc.pool.formula("y ~ x", completed, 5)
    shifted = mc.pool.formula("y ~ x", completed, 5, shift={"y": 2.0})
    rise = 2.0 * completed.means["y"].share_missing
    assert shifted.estimate[0] - plain.estimate[0] == pytest.approx(rise, abs=0.3)
    with pytest.raises(mc.ModelError, match="drawn already"):
        mc.pool.formula("y ~ x", completed.draws(2), shift={"y": 2.0})


@pytest.mark.parametrize(
    ("shift", "message"),
    [
        (0.3, "shift is a float; a dict from column name to number is needed"),
        ({"z": 0.3}, "there is no column 'z'"),
        ({"y": np.inf}, "shift of column 'y'=inf was given; a finite number is needed"),
        ({"y": "low"}, "shift of column 'y'='low' was given"),
        ({"label": 0.3}, "shift of column 'label': the column is taken for: label"),
    ],
)
def test_messages_name_what_is_wrong(completed, shift, message):
    with pytest.raises(mc.ModelError, match=message):
        completed.draws(1, shift=shift)


def test_columns_without_a_mean_that_shifts(completed):
    with pytest.raises(mc.ModelError, match="column 'x' is taken for: number, with 0% missing"):
        completed.shift_to_change("x")
    optimum = mc.complete(table(0)[["x", "y"]], method="optimum")
    assert "shift" not in str(optimum).splitlines()[-1]
    with pytest.raises(mc.ModelError, match="shifts need a posterior"):
        optimum.shift_to_change("y")


def test_posteriors_of_declared_models_are_shifted_too():
    declared = mc.declare(table(2)[["x", "y"]])
    posterior = mc.posterior(declared.model, declared.data, factors=1)
    completed = mc.Completion.of(declared, posterior)
    [plain], [shifted] = completed.draws(1), completed.draws(1, shift={"y": 0.7})
    missing = declared.column("y").column.missing
    np.testing.assert_allclose(shifted["y"] - plain["y"], np.where(missing, 0.7, 0.0), atol=1e-9)
