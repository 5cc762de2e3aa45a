"""Tests of whether gaps depend on other columns: exact where there is an exact test, at level."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

import mcframe as mc
from mcframe.tables.gap_tests import GapTests, RankedNumbers, holm_adjusted, values_equal


def gap_tests_of(frame, types=None):
    """The tests of a table, without filling it."""
    declared = mc.declare(frame, types)
    placed = [column for column in declared.columns if column.place is not None]
    return GapTests.of(placed)


def pair(tests, column, other):
    """The p-value and the difference of a pair."""
    at = tests.columns.index(column), tests.others.index(other)
    return tests.p_values[at], tests.differences[at]


def test_numbers_are_compared_by_mann_and_whitney_among_rows_that_have_them():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": np.round(rng.exponential(3.0, 300)), "b": rng.normal(size=300)})
    frame = frame.mask(rng.random(frame.shape) < 0.3)
    gap = frame["b"].isna() & frame["a"].notna()
    with_value = frame["b"].notna() & frame["a"].notna()
    wanted = scipy.stats.mannwhitneyu(frame["a"][gap], frame["a"][with_value], method="asymptotic")
    p_value, difference = pair(gap_tests_of(frame), "b", "a")
    assert p_value == pytest.approx(wanted.pvalue, rel=1e-9)
    auc = wanted.statistic / (gap.sum() * with_value.sum())
    assert difference == pytest.approx(2.0 * auc - 1.0)


def test_labels_and_values_of_a_category_are_counted_exactly():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "ill": rng.choice(["no", "yes"], 120, p=[0.9, 0.1]),
            "town": rng.choice(["Bonn", "Kiel", "Ulm"], 120),
            "x": rng.normal(size=120),
        }
    )
    gap = rng.random(120) < np.where(frame["ill"] == "yes", 0.6, 0.2)
    frame["x"] = frame["x"].mask(gap)

    def fisher(holds):
        counts = pd.crosstab(holds, gap).to_numpy()
        tails = [scipy.stats.fisher_exact(counts, side).pvalue for side in ("less", "greater")]
        return min(1.0, 2.0 * min(tails))

    tests = gap_tests_of(frame, {"town": "category"})
    p_value, difference = pair(tests, "x", "ill")
    assert p_value == pytest.approx(fisher(frame["ill"] == "yes"), rel=1e-9)
    share = (frame["ill"] == "yes").groupby(gap).mean()
    assert difference == pytest.approx(share[True] - share[False])
    least = min(fisher(frame["town"] == town) for town in ("Bonn", "Kiel", "Ulm"))
    assert pair(tests, "x", "town")[0] == pytest.approx(min(1.0, 3.0 * least))


def test_nearly_constant_numbers_are_counted_for_a_normal_sum_of_ranks_would_err():
    numbers = np.zeros((400, 1))
    numbers[:3, 0] = [1.0, 2.0, 3.0]
    missing = np.arange(400) < 40
    (p_values,), _ = RankedNumbers.of(numbers, None).compared(missing[None])
    exact = scipy.stats.hypergeom.pmf(3, 400, 3, 40)
    assert p_values[0] == pytest.approx(2.0 * exact)
    by_ranks = scipy.stats.mannwhitneyu(numbers[:40, 0], numbers[40:, 0]).pvalue
    assert by_ranks < 1e-3 * exact


def test_columns_that_go_missing_together_say_nothing_of_each_other():
    """Where one of two columns is never seen beside gaps of the other, no pair is compared."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(np.exp(1.5 * rng.normal(size=(300, 3))), columns=list("abc"))
    frame.loc[rng.random(300) < 0.3, ["a", "b"]] = np.nan
    tests = gap_tests_of(frame)
    assert np.isnan(pair(tests, "a", "b")[0])
    assert not np.isnan(pair(tests, "a", "c")[0])
    assert tests.nearest == {"a": "c", "b": "c"}


@pytest.mark.parametrize("in_groups", [False, True])
def test_columns_are_compared_together_as_each_alone(in_groups):
    rng = np.random.default_rng(5)
    numbers = np.round(rng.standard_normal((120, 5)), 1)
    numbers[:, 4] = numbers[:, 4] > 1.0
    missing = rng.random((120, 5)) < [0.0, 0.05, 0.2, 0.3, 0.5]
    ranked = RankedNumbers.of(
        np.where(missing, np.nan, numbers), rng.integers(0, 30, 120) if in_groups else None
    )
    together = ranked.compared(missing.T)
    for k in range(5):
        alone = ranked.compared(missing.T[k : k + 1])
        for part, of_column in zip(together, alone, strict=True):
            np.testing.assert_allclose(part[k], of_column[0], rtol=1e-12)


@pytest.mark.parametrize("together", [False, True])
def test_false_alarms_are_at_most_at_the_level(together):
    """Of skewed columns, labels and counts with ties; gaps by chance, alone or together."""
    alarms, n_tables = 0, 200
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        numbers = rng.multivariate_normal(np.zeros(4), 0.5 * np.eye(4) + 0.5, 150)
        numbers[:, 0] = np.exp(1.5 * numbers[:, 0])
        numbers[:, 1] = np.maximum(np.round(numbers[:, 1]), 0.0)
        numbers[:, 2] = numbers[:, 2] > 1.5
        hidden = rng.random(numbers.shape) < 0.3
        if together:
            hidden = (rng.random((150, 1)) < 0.3) & (rng.random(numbers.shape) < 0.9)
        whole = RankedNumbers.of(np.where(hidden, np.nan, numbers), None)
        p_values, of_columns = {}, whole.compared(hidden.T)[0]
        for k in range(4):
            pairs = np.delete(of_columns[k], k)
            if not np.all(np.isnan(pairs)):
                p_values[k] = np.count_nonzero(~np.isnan(pairs)) * np.nanmin(pairs)
        alarms += any(p_value <= 0.05 for p_value in holm_adjusted(p_values).values())
    assert alarms / n_tables <= 0.05


def test_in_groups_that_differ_groups_are_the_draws():
    by_rows = by_groups = 0
    labels = np.repeat(np.arange(20), 15)
    groups = mc.GaussianRows(groups=labels).groups
    for seed in range(100):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=(20, 1))[labels] + rng.normal(size=(300, 1))
        missing = rng.random(300) < 1.0 / (1.0 + np.exp(1.0 - 1.5 * rng.normal(size=20)[labels]))
        (of_groups,), _ = RankedNumbers.of(values, groups.numbers).compared(missing[None])
        (of_rows,), _ = RankedNumbers.of(values, None).compared(missing[None])
        by_groups += of_groups[0] < 0.05
        by_rows += of_rows[0] < 0.05
    assert by_groups <= 8
    assert by_rows > 15


def test_the_report_has_what_the_sentence_says():
    rng = np.random.default_rng(0)
    whole = pd.DataFrame(rng.standard_normal((200, 3)), columns=list("abc"))
    frame = whole.assign(
        b=whole["b"].mask(whole["a"] > 0.7), c=whole["c"].mask(rng.random(200) < 0.2)
    )
    completed = mc.complete(frame)
    report = completed.report().set_index("column")
    tests = completed.declared.gap_tests
    for name in "bc":
        assert report.loc[name, "missingness_p"] == tests.of_columns[name]
        assert report.loc[name, "missingness_p_adjusted"] == tests.adjusted[name]
    assert report.loc["b", "missingness_by"] == "a"
    assert report.loc["a", ["missingness_p", "missingness_by"]].isna().all()
    said = "gaps depend on observed columns in 'b' (on 'a'), by tests of 2 columns with an error"
    assert said in str(completed)
    assert said in str(mc.complete(frame, method="optimum"))


def test_a_gap_where_a_column_does_not_apply_is_none():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"married": rng.random(300) < 0.5, "age": rng.normal(50.0, 9.0, 300)})
    frame["spouse_age"] = (frame["age"] + rng.normal(size=300)).where(frame["married"])
    frame.loc[rng.random(300) < 0.2, "spouse_age"] = None
    plain = mc.declare(frame).gap_tests
    assert pair(plain, "spouse_age", "married")[0] < 1e-9
    tests = mc.declare(frame, {"spouse_age": mc.only_if("married")}).gap_tests
    applies = values_equal(mc.declare(frame).column("married").column, True)
    assert applies.sum() == frame["married"].sum()
    assert np.isnan(pair(tests, "spouse_age", "married")[0])
    assert pair(tests, "spouse_age", "age")[0] > 0.01


def test_rows_of_one_time_series_are_not_tested_and_those_of_groups_are():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=list("abc"))
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    frame["year"], frame["firm"] = np.tile(np.arange(10), 12), np.repeat(list("klmnopqrstuv"), 10)
    one = frame[frame["firm"] < "q"].assign(year=np.arange(60)).drop(columns="firm")
    assert mc.complete(one, time="year").declared.gap_tests.columns == ()
    panel = mc.complete(frame, groups="firm", time="year").declared
    assert panel.row_groups.count == 12
    assert set(panel.gap_tests.columns) == set("abc")
    assert "year" in panel.gap_tests.others


def test_adjusted_p_values_are_at_most_the_level_where_holm_rejects():
    def rejected(p_values):
        return [name for name, p in holm_adjusted(p_values).items() if p <= 0.05]

    assert rejected({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == ["a", "d"]
    assert rejected({"a": 0.01, "b": 0.02, "c": 0.03}) == ["a", "b", "c"]
    assert holm_adjusted({}) == {}
    assert holm_adjusted({"a": 0.4, "b": 0.3})["a"] == 0.6


def test_the_picture_marks_pairs_and_refuses_a_table_without_gaps():
    pytest.importorskip("matplotlib").use("Agg")
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    frame["b"] = frame["b"].mask(frame["a"] > 0.7)
    from mcframe import plots

    ax = plots.gap_dependence(mc.declare(frame))
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[0.0, 0.0]])
    assert ax.get_title() == "gaps depend on observed columns in 1 of 1 tested column"
    with pytest.raises(mc.ModelError, match="gap_dependence: no column has at least 5 gaps"):
        plots.gap_dependence(mc.declare(frame[["a", "c"]]))
