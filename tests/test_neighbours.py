"""Rows in the order of time: what the rows before and after hold predicts a row."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.tables.column_types import read_table
from mcframe.tables.neighbours import Copies, with_neighbours


def panel(n_units=12, n_times=15, share=0.25, seed=0):
    """A panel with gaps, the same without, and which numbers are hidden."""
    rng = np.random.default_rng(seed)
    deviations = rng.standard_normal((n_units, n_times, 2))
    for at in range(1, n_times):
        deviations[:, at] = 0.9 * deviations[:, at - 1] + 0.44 * deviations[:, at]
    x = (rng.standard_normal((n_units, 1, 2)) + deviations).reshape(-1, 2)
    truth = pd.DataFrame(x, columns=["a", "b"])
    truth["up"] = np.where(x[:, 0] + 0.3 * rng.standard_normal(len(x)) > 0.0, "yes", "no")
    truth["unit"] = np.repeat([f"u{k}" for k in range(n_units)], n_times)
    truth["year"] = np.tile(2000 + np.arange(n_times), n_units)
    hidden = rng.random((len(x), 3)) < share
    frame = truth.copy()
    frame[["a", "b", "up"]] = truth[["a", "b", "up"]].mask(hidden)
    return frame, truth, hidden


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_neighbours_are_those_of_sorted_series(seed):
    """Beside pandas: shifted by one in each group, whatever the order of the rows is."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 60))
    frame = pd.DataFrame(
        {
            "x": np.where(rng.random(n) < 0.2, np.nan, rng.standard_normal(n)),
            "unit": rng.choice(list("abc"), n),
            "t": rng.permutation(n) / 4.0,
        }
    )
    read = with_neighbours(read_table(frame, {"unit": "category"}, None), "t", "unit")
    beside = {one.neighbour.step: one.column.numbers for one in read.columns if one.neighbour}
    ordered = frame.sort_values("t").groupby("unit")["x"]
    for step in (-1, 1):
        wanted = ordered.shift(-step).sort_index().to_numpy()
        np.testing.assert_array_equal(beside[step], wanted)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
@pytest.mark.some(1, library=1)
def test_the_order_of_time_predicts_gaps(library):
    frame, truth, hidden = panel()
    given_frame = frame if library is pd.DataFrame else pl.from_pandas(frame)
    errors = {}
    for options in ({}, {"time": "year"}):
        done = mc.complete(given_frame, groups="unit", **options)
        filled = np.column_stack([np.asarray(done.table[name], dtype=float) for name in "ab"])
        assert list(done.table.columns) == list(frame.columns)
        deviations = (filled - truth[["a", "b"]].to_numpy())[hidden[:, :2]]
        errors[len(options)] = np.sqrt(np.mean(np.square(deviations)))
        lower, upper = done.interval(0.9)
        inside = [
            (np.asarray(lower[name], float) <= truth[name])
            & (truth[name] <= np.asarray(upper[name], float))
            for name in "ab"
        ]
        assert np.mean(np.column_stack(inside)[hidden[:, :2]]) > 0.85
    assert errors[1] < 0.8 * errors[0]
    assert set(done.report()["column"]) == set(frame.columns)
    assert "predicts a row, too, in the order of 'year'" in repr(done)
    for table in done.draws(2):
        assert list(table.columns) == list(frame.columns)
        assert not np.any(
            [
                np.asarray(
                    table[name].is_null() if library is pl.DataFrame else table[name].isna()
                )
                for name in frame.columns
            ]
        )


def test_new_rows_have_neighbours_in_the_table(tmp_path):
    frame, truth, _ = panel()
    done = mc.complete(frame, groups="unit", time="year")
    last = truth[truth["year"] == 2014]
    new = last.assign(year=2015, a=np.nan, b=np.nan, up=None)
    filled = done.complete_rows(new)
    assert list(filled.columns) == list(new.columns)
    assert np.corrcoef(filled["a"], last["a"])[0, 1] > 0.8
    saved = mc.load(done.save(tmp_path / "panel.npz")).complete_rows(new)
    pd.testing.assert_frame_equal(saved, filled)


def test_one_series_needs_no_groups():
    frame = panel(n_units=1, n_times=60, share=0.2)[0]
    frame["year"] = pd.date_range("2020-01-01", periods=60)
    done = mc.complete(frame.drop(columns="unit"), time="year")
    assert done.table.notna().to_numpy().all()
    assert {one.neighbour.step for one in done.declared.neighbours} == {-1, 1}
    # Rows of the table that are given again take their own places.
    again = done.complete_rows(frame.drop(columns="unit"))
    pd.testing.assert_frame_equal(again, done.table, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": "years"}, "time names 'years', which is no column"),
        ({"time": "year"}, "row 0 and row 15 have the same value of column 'year'; name a column"),
        ({"time": "up", "groups": "unit"}, "column 'up' has no numbers and no dates"),
        ({"time": "a", "groups": "unit"}, "column 'a' has no value in row"),
        ({"time": "year", "groups": [1, 2] * 90}, "time needs groups as the name of a column"),
    ],
)
def test_wrong_times_are_named(options, message):
    frame, _, _ = panel()
    with pytest.raises(mc.DataError, match=message):
        mc.complete(frame, **options)


def drifting_panel(seed=0):
    """A panel whose units have lines in time, beside one without gaps."""
    frame, truth, hidden = panel(n_units=30, seed=seed)
    rng = np.random.default_rng([9, seed])
    slopes = 2.0 * rng.standard_normal((30, 1, 2))
    lines = (slopes * np.linspace(-1.7, 1.7, 15)[:, None]).reshape(-1, 2)
    for table in (frame, truth):
        table[["a", "b"]] += lines
    return frame, truth, hidden[:, :2]


def test_groups_with_lines_in_time_are_filled_and_continued(tmp_path):
    frame, truth, hidden = drifting_panel()
    errors, ahead = [], []
    for trend in (0, 1):
        done = mc.complete(frame, groups="unit", time="year", trend=trend)
        assert {*done.shares_between_groups} == {"a", "b", "up"}
        values, right = done.table[["a", "b"]].to_numpy(), truth[["a", "b"]].to_numpy()
        errors.append(np.sqrt(np.mean(np.square(values - right)[hidden])))
        lower, upper = (end[["a", "b"]].to_numpy() for end in done.interval(0.9))
        assert 0.85 < np.mean(((lower <= right) & (right <= upper))[hidden]) < 0.97
        # Rows some years after the last one have no neighbours: the line alone says where they go.
        last = frame[frame["year"] == 2014]
        new = last.assign(year=2018, a=np.nan, b=np.nan, up=None)
        lines = truth.groupby("unit", sort=False)[["a", "b"]].apply(
            lambda one: pd.Series(np.diff(one.to_numpy()[[0, -1]], axis=0)[0])
        )
        grown = done.complete_rows(new)[["a", "b"]].to_numpy() - values[frame["year"] == 2014]
        ahead.append(np.corrcoef(grown.ravel(), lines.to_numpy().ravel())[0, 1])
    assert errors[1] < errors[0]
    assert ahead[1] > 0.7
    assert ahead[0] < 0.2
    again = mc.load(done.save(tmp_path / "panel.npz")).complete_rows(new)
    pd.testing.assert_frame_equal(again, done.complete_rows(new))
    for table in done.draws(2):
        assert table[["a", "b"]].notna().to_numpy().all()


@pytest.mark.slow(seconds=9)
@pytest.mark.parametrize("trend", [0, 1])
def test_what_is_held_out_stands_in_no_other_row(trend):
    """Else errors of short series were said to be a third of the real ones."""
    n_series, n_times = 150, 5
    rng = np.random.default_rng(trend)
    times = np.tile(np.arange(float(n_times)), n_series)
    means, slopes = rng.standard_normal((2, n_series)) * [[2.0], [0.4]]
    y = np.repeat(means, n_times) + np.repeat(slopes, n_times) * (times - 2.0)
    y += 0.7 * rng.standard_normal(y.size)
    whole = pd.DataFrame({"id": np.repeat([f"p{k}" for k in range(n_series)], n_times)})
    whole = whole.assign(time=times, y=y)
    gaps = rng.random(y.size) < 0.25
    completed = mc.complete(
        whole.assign(y=whole["y"].mask(gaps)), groups="id", time="time", trend=trend
    )
    real = np.sqrt(np.mean(np.square((completed.table["y"] - y)[gaps])))
    said = completed.report().set_index("column").loc["y"]
    assert 0.8 * real < said["error"] < 1.35 * real
    assert 0.8 * real < said["sd"] < 1.35 * real
    lower, upper = (end["y"] for end in completed.interval(0.9))
    assert 0.85 < np.mean(((lower <= y) & (y <= upper))[gaps]) < 0.98


def test_copies_of_entries_stand_beside_the_rows_before_and_after():
    """Of all rows, and of a sample, in which some are beside none."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"at": rng.permutation(30), "unit": rng.integers(3, size=30)})
    frame["x"] = rng.standard_normal(30)
    table = with_neighbours(read_table(frame, {"unit": "category"}, None), "at", "unit")
    declared = [column for column in table.columns if column.place is not None]
    others = [column for column in table.columns if column.place is None]
    names = [column.name for column in declared]
    for rows in (np.arange(30), np.sort(rng.permutation(30)[:12])):
        entries = rng.random((rows.size, len(names))) < 0.5
        found = Copies.of(declared, others, rows).of_entries(entries)
        expected = np.zeros_like(entries)
        for k, row in enumerate(rows):
            unit = frame[frame["unit"] == frame["unit"][row]].sort_values("at").index.tolist()
            for step, name in ((-1, "x (row before)"), (1, "x (row after)")):
                at = unit.index(row) + step
                if 0 <= at < len(unit) and unit[at] in rows:
                    place = rows.tolist().index(unit[at])
                    expected[k, names.index(name)] = entries[place, names.index("x")]
        np.testing.assert_array_equal(found, expected)


def test_units_of_time_do_not_matter_for_trends():
    frame, _, _ = drifting_panel()
    filled = [
        mc.complete(frame.assign(year=times), groups="unit", time="year", trend=2).table
        for times in (
            frame["year"],
            1e7 * frame["year"] - 3e12,
            pd.to_datetime(frame["year"].astype(str)) + pd.to_timedelta(0.0),
        )
    ]
    np.testing.assert_allclose(filled[1]["a"], filled[0]["a"], atol=1e-6)
    assert np.corrcoef(filled[2]["a"], filled[0]["a"])[0, 1] > 0.999  # years differ by a day


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trend": 1}, "trend=1 was given without groups or without a time"),
        ({"trend": 1, "time": "year"}, "trend=1 was given without groups or without a time"),
        ({"trend": 4, "time": "year", "groups": "unit"}, "trend=4 was given; a whole number from"),
        ({"trend": 1.5, "time": "year", "groups": "unit"}, "a whole number from 0 to 3 is needed"),
    ],
)
def test_wrong_trends_are_named(options, message):
    frame, _, _ = panel()
    with pytest.raises(mc.ModelError, match=message):
        mc.complete(frame, **options)


def test_trends_need_times_that_differ():
    frame, _, _ = panel(n_units=40, n_times=2, share=0.1)
    with pytest.raises(mc.DataError, match="trend=2 was given, and the rows have 2 different"):
        mc.complete(frame, groups="unit", time="year", trend=2)


def test_rows_of_one_time_in_a_group_are_named():
    frame, _, _ = panel()
    frame.loc[3, "year"] = 2001
    with pytest.raises(mc.DataError, match="row 1 and row 3 of the group 'u0' have the same"):
        mc.complete(frame, groups="unit", time="year")


def test_new_rows_need_their_time():
    frame, _, _ = panel()
    done = mc.complete(frame, groups="unit", time="year")
    with pytest.raises(mc.DataError, match="the new rows have no column 'year'"):
        done.complete_rows(frame.head(3).drop(columns="year"))


def test_an_optimum_knows_no_order():
    frame, _, _ = panel()
    with pytest.raises(mc.ModelError, match="an optimum knows no order of rows"):
        mc.complete(frame.drop(columns="unit"), time="year", method="optimum")


def test_groups_of_one_row_have_no_neighbours():
    frame, _, _ = panel()
    frame["unit"] = [f"v{k}" for k in range(len(frame))]
    with pytest.warns(UserWarning, match="no row has a value .* before or after it"):
        done = mc.complete(frame, groups="unit", time="year")
    assert not done.declared.neighbours


def test_a_wide_table_has_no_neighbours():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((20, 50)), columns=[f"x{k}" for k in range(50)])
    frame.loc[2, "x0"] = np.nan
    frame["t"] = np.arange(20) ** 2
    with pytest.warns(UserWarning, match="too few rows for 151 columns: it has no effect"):
        mc.complete(frame, time="t")


@pytest.mark.slow(seconds=12)
def test_limits_stand_beside_neighbours():
    """Cells below a limit are filled below it, in groups whose rows are ordered, too."""
    frame, truth, _ = panel(n_units=30)
    below = (truth["a"] < -0.5).to_numpy()
    text = frame["a"].map("{:.6g}".format).where(frame["a"].notna(), None)
    given_frame = frame.assign(a=text.where(~below, "<-0.5"))
    for options in ({"time": "year"}, {"time": "year", "trend": 1}):
        done = mc.complete(given_frame, {"a": "number"}, groups="unit", **options)
        filled = done.table["a"].to_numpy(dtype=float)
        assert np.all(filled[below] <= -0.5)
        assert np.corrcoef(filled, truth["a"])[0, 1] > 0.8
        for drawn in done.draws(2):
            assert np.all(drawn["a"].to_numpy(dtype=float)[below] <= -0.5)
