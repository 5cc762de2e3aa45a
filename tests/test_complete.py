"""A table with holes in, the same table without them out."""

import re
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import Phase, given, settings
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_info, threadpool_limits

import mcframe as mc
from mcframe.selection import EntryFolds, RelativeDeviance, RowFolds
from mcframe.tables import by_optimum as optimum_path
from mcframe.tables import coding, missingness, number_tables, pipeline, rows_choice

from .strategies import skewed_tables
from .test_declare import mixed

NAN = np.nan
TYPES = {"visits": "count", "day": "date"}


@pytest.fixture(scope="module")
def by_optimum():
    return mc.complete(mixed(), TYPES, method="optimum")


@pytest.fixture(scope="module")
def by_posterior():
    return mc.complete(mixed(), TYPES)


@pytest.fixture(scope="module")
def by_declared():
    declared = mc.declare(mixed(), TYPES)
    return mc.Completion.of(declared, mc.posterior(declared.model, declared.data))


# The answers of ``complete``, which chooses on held-out entries.
CHOSEN = pytest.mark.parametrize("completed", ["by_posterior", "by_optimum"], indirect=True)


@pytest.fixture(params=["by_posterior", "by_optimum", "by_declared"])
def completed(request):
    return request.getfixturevalue(request.param)


def test_a_table_is_completed(completed):
    frame = mixed()
    is_optimum = isinstance(completed.answer, mc.Fit)
    assert completed.answer.status == ("certified" if is_optimum else "converged")
    assert not completed.table.isna().to_numpy().any()
    assert (completed.table.dtypes == frame.dtypes).all()
    expected = completed.declared.table(completed.answer)
    pd.testing.assert_frame_equal(completed.table, expected, rtol=1e-9)


@pytest.mark.parametrize(("unit", "years"), [("us", (1, 9999)), ("ns", (1677, 2262))])
def test_dates_that_are_far_away_are_moved_to_the_nearest_that_there_are(unit, years):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(40)
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta((100.0 * x).round(), unit="D")
    frame = pd.DataFrame({"x": x, "day": days.astype(f"datetime64[{unit}]")})
    frame.loc[:5, "day"] = pd.NaT
    completed = mc.complete(frame, types={"day": "date"})
    with pytest.warns(UserWarning, match="count as missing: 'day'"):
        new = completed.complete_rows(pd.DataFrame({"x": [-1e9, 1e9]}))
    assert tuple(new["day"].dt.year) == years


def test_intervals_of_whole_numbers_may_hold_all_of_them():
    rng = np.random.default_rng(0)
    counts = pd.Series(rng.poisson(30.0, 40), dtype="Int64")
    frame = pd.DataFrame({"x": rng.standard_normal(40), "count": counts})
    frame.loc[:2, "count"] = pd.NA
    lower, upper = mc.complete(frame).interval(1.0 - 1e-16)
    assert (lower["count"][:3] < counts.min()).all()
    assert (upper["count"][:3] > counts.max()).all()


@pytest.mark.parametrize("ending", ["csv", "CSV", "parquet", "xlsx"])
def test_an_answer_is_not_saved_as_a_table(by_posterior, ending, tmp_path):
    with pytest.raises(mc.ModelError, match=r"no table: give another ending, such as \.npz"):
        by_posterior.save(tmp_path / f"done.{ending}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["", ".", "/"])
def test_the_path_of_an_answer_has_a_name(by_posterior, path):
    with pytest.raises(mc.ModelError, match="the path of a file is needed"):
        by_posterior.save(path)


def test_standard_deviations_have_the_columns_of_the_table():
    rng = np.random.default_rng(0)
    columns = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")], names=["one", "two"])
    frame = pd.DataFrame(rng.standard_normal((30, 3)), columns=columns)
    frame.iloc[:3, 0] = np.nan
    completed = mc.complete(frame)
    pd.testing.assert_index_equal(completed.sd.columns, columns)
    assert completed.sd["a", "x"].iloc[:4].gt(0.0).tolist() == [True, True, True, False]


def test_the_losses_that_were_compared_are_at_hand(by_posterior, by_optimum):
    chosen = by_posterior.chosen
    assert chosen.means.shape == (len(chosen.tried),)
    best = chosen.tried[int(np.argmin(chosen.means))]
    assert best == (chosen.components, chosen.prior_rows, chosen.feature_noise)
    for each in (by_posterior, by_optimum):
        assert np.nanmin(each.chosen.means) < 1.0


@pytest.mark.slow(seconds=2)
def test_the_methods_are_two_models(by_posterior, by_optimum):
    [rows] = by_posterior.answer.model.terms
    assert isinstance(rows, mc.GaussianRows)
    assert rows.prior_rows == by_posterior.chosen.best_weight
    assert by_optimum.answer.model.terms == (mc.NuclearNorm(by_optimum.chosen.best_weight),)
    given = mc.complete(mixed(), {**TYPES, "length": mc.Huber()})
    assert isinstance(given.answer.model.terms[0], mc.NuclearNorm)
    assert mc.Huber() in [block.likelihood for block in given.answer.model.blocks]
    with pytest.raises(mc.ModelError, match=r"types\['length'\] is a likelihood, which method="):
        mc.complete(mixed(), {"length": mc.Huber()}, method="posterior")
    with pytest.raises(mc.ModelError, match="method='forest' was given; 'posterior' or"):
        mc.complete(mixed(), method="forest")
    with pytest.raises(mc.ModelError, match="has no certificate"):
        by_posterior.fit  # noqa: B018
    with pytest.raises(mc.ModelError, match="has no posterior"):
        by_optimum.posterior  # noqa: B018
    with pytest.raises(mc.ModelError, match="standard deviations need a posterior"):
        by_optimum.sd  # noqa: B018


def test_the_posterior_of_a_declared_model_has_intervals_and_draws(by_declared):
    completed, frame = by_declared, mixed()
    lower, upper = completed.interval(0.8)
    draws = completed.draws(200, random_state=3)
    for name in ("length", "visits"):
        holes = frame[name].isna()
        drawn = np.stack([table.loc[holes, name].to_numpy(dtype=float) for table in draws])
        low, high = (end.loc[holes, name].to_numpy(dtype=float) for end in (lower, upper))
        assert 0.75 < np.mean((low <= drawn) & (drawn <= high)) < 0.95
        middle = completed.table.loc[holes, name].to_numpy(dtype=float)
        spread = completed.sd.loc[holes, name].to_numpy(dtype=float)
        assert (np.abs(drawn.mean(axis=0) - middle) < 0.3 * spread + 0.5).all()
    holes = frame["sex"].isna()
    likely = completed.predict("sex").loc[holes]
    for value in likely:
        share = np.mean([table.loc[holes, "sex"] == value for table in draws], axis=0)
        np.testing.assert_allclose(share, likely[value], atol=0.15)
    assert [list(table.dtypes) for table in draws[:1]] == [list(frame.dtypes)]


def counted():
    """A column of counts as floats, and one of numbers above 0."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(60)
    frame = pd.DataFrame({"k": rng.poisson(np.exp(0.3 * x)), "y": np.exp(x)}, dtype=float)
    frame = frame.mask(rng.random(frame.shape) < 0.3)
    return frame.assign(x=x), {"k": "count", "y": ("number", 0, None)}


def test_draws_and_intervals_of_counts_are_counts():
    frame, types = counted()
    completed = mc.complete(frame, types)
    holes = frame["k"].isna()
    for table in (*completed.draws(3), *completed.interval()):
        drawn = table.loc[holes, "k"].to_numpy()
        assert (drawn >= 0.0).all()
        np.testing.assert_array_equal(drawn, np.round(drawn))
    lower, upper = completed.interval()
    assert (lower["k"] <= upper["k"]).all()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"k": [1.0, -1.0]}, "holds the value -1 in row 1; counts are whole numbers from 0"),
        ({"k": [1.5, 2.0]}, "holds the value 1.5 in row 0; counts are whole numbers from 0"),
        ({"y": [-5.0, 2.0]}, "declared numbers from 0, but holds the value -5 in row 0"),
    ],
)
def test_new_rows_hold_to_what_was_declared(row, message):
    frame, types = counted()
    completed = mc.complete(frame, types)
    with pytest.raises(mc.DataError, match=message):
        completed.complete_rows(pd.DataFrame(row))


def test_a_number_far_from_all_others_is_named():
    frame, _ = counted()
    frame.loc[5, "y"] = -999.0
    with pytest.warns(UserWarning, match=r"dominate means .*: -999.0 in row 5 of column 'y'"):
        mc.complete(frame)


@pytest.mark.parametrize("method", ["gaussian", "likelihoods"])
def test_methods_are_named_where_another_one_is_asked_for(method):
    with pytest.raises(mc.ModelError, match="'posterior' or 'optimum' is needed"):
        mc.complete(mixed(), TYPES, method=method)


def test_the_model_says_all_that_was_chosen(by_posterior):
    """The posterior of the model and the data that are at hand is the one of the completion."""
    model, data = by_posterior.declared
    again = mc.posterior(model, data, tol=rows_choice.FINAL_TOLERANCE)
    assert again.evidence == by_posterior.posterior.evidence
    pd.testing.assert_frame_equal(by_posterior.declared.table(again), by_posterior.table)


def test_wide_tables_have_factors(monkeypatch):
    monkeypatch.setattr(number_tables, "MOST_COVARIANCE_WORK", 1e3)
    monkeypatch.setattr(pipeline, "SUBSAMPLE_NUMBERS", 150)
    completed = mc.complete(mixed()[["length", "weight", "ill", "stage"]].dropna(how="all"))
    assert completed.answer.model.terms == (mc.NuclearNorm(),)
    assert np.isnan(completed.chosen.best_weight)
    assert "Gaussian factors" in str(completed)
    assert not completed.table.isna().to_numpy().any()
    assert (completed.report()["loss"][:2] < 1.0).all()
    first, second = completed.draws(2)
    assert not first.isna().to_numpy().any()
    assert not first.equals(second)


def test_observed_values_are_answered_as_they_are(by_posterior):
    """Means of z are between the data and what the other columns say; the table's are not."""
    frame = mixed()
    seen = frame.notna()
    pd.testing.assert_frame_equal(by_posterior.table.where(seen), frame.where(seen))


def test_standard_deviations_stand_at_holes(by_posterior):
    frame, sd = mixed(), by_posterior.sd
    assert list(sd.columns) == list(frame.columns)
    assert sd.index.equals(frame.index)
    np.testing.assert_array_equal(sd == 0.0, frame.notna())
    block, place = "columns", by_posterior.declared.column("length").place
    rows = np.flatnonzero(frame["length"].isna())
    expected = by_posterior.posterior.sd(block, rows, np.full(rows.size, place))
    np.testing.assert_allclose(sd["length"].to_numpy()[rows], expected)
    wrong = 1.0 - by_posterior.predict("town").max(axis=1)
    np.testing.assert_allclose(sd["town"][frame["town"].isna()], wrong[frame["town"].isna()])
    report = by_posterior.report().set_index("column")
    assert report.loc["length", "sd"] == pytest.approx(np.sqrt(np.mean(expected**2)))


def test_most_holes_are_within_two_standard_deviations():
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 6))
    whole += 0.5 * rng.standard_normal(whole.shape)
    hidden = rng.random(whole.shape) < 0.3
    frame = pd.DataFrame(whole, columns=list("abcdef"))
    completed = mc.complete(frame.mask(hidden))
    away = np.abs(completed.table.to_numpy() - whole)
    inside = away[hidden] < 1.645 * completed.sd.to_numpy()[hidden]
    assert np.mean(inside) == pytest.approx(0.9, abs=0.03)


def test_progress_is_printed(capsys):
    frame = mixed()[["length", "ill"]].dropna(how="all")
    mc.complete(frame, progress=True)
    said = capsys.readouterr()
    assert said.out == ""
    assert re.match(r"complete: .* a prior of [0-9.]+ rows?: chosen", said.err.splitlines()[-1])
    mc.complete(frame)
    assert capsys.readouterr().err == ""


def test_long_tables_choose_by_some_of_their_rows(monkeypatch):
    monkeypatch.setattr(pipeline, "SUBSAMPLE_NUMBERS", 400)
    drawn = []
    choose = pipeline.choose_rows

    def watched(folds, *arguments):
        drawn.append(folds)
        return choose(folds, *arguments)

    monkeypatch.setattr(pipeline, "choose_rows", watched)
    completed = mc.complete(mixed(), TYPES)
    [[fold]] = drawn
    assert len(fold.values) == 400 // 10
    rows = fold.held_out_entries.any(axis=1)
    assert np.isnan(fold.seen[rows]).all()
    assert rows.sum() == 10
    assert not completed.table.isna().to_numpy().any()


def test_one_column_is_filled_by_its_mean():
    frame = pd.DataFrame({"x": [1.0, 2.5, NAN, 3.0, 4.0]})
    with pytest.warns(mc.UnobservedWarning, match="row 2"):
        completed = mc.complete(frame)
    assert completed.table["x"][2] == pytest.approx(2.625, abs=0.2)
    assert completed.report()["loss"][0] == pytest.approx(1.0, abs=0.1)


def test_rows_of_a_group_are_held_out_together(monkeypatch):
    rng = np.random.default_rng(0)
    x = np.repeat(rng.standard_normal((20, 2)), 3, axis=0) @ rng.standard_normal((2, 5))
    frame = pd.DataFrame(x + 0.3 * rng.standard_normal(x.shape), columns=list("abcde"))
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    frame["patient"] = np.repeat([f"patient {k}" for k in range(20)], 3)
    types, drawn = {"patient": "skip"}, []
    parts_of_rows = RowFolds.parts_of_rows

    def watched(self, n_items, rng):
        drawn.append(parts_of_rows(self, n_items, rng))
        return drawn[-1]

    monkeypatch.setattr(RowFolds, "parts_of_rows", watched)
    grouped = mc.complete(frame, types, method="optimum", groups=frame["patient"])
    assert not grouped.table.isna().to_numpy().any()
    [part] = drawn
    assert set(part) == {0, 1, 2}
    assert all(np.ptp(part[frame["patient"] == name]) == 0 for name in frame["patient"].unique())
    with pytest.raises(mc.DataError, match="groups"):
        mc.complete(frame, types, method="optimum", groups=frame["patient"][:-1])
    with pytest.raises(mc.DataError, match="as many groups, and there are 2"):
        mc.complete(frame, types, method="optimum", groups=np.arange(60) % 2)


@CHOSEN
def test_the_report_says_how_well_columns_are_predicted(completed):
    report = completed.report()
    assert isinstance(report, pd.DataFrame)
    assert report["column"].tolist() == list(mixed().columns)
    assert report["type"].tolist() == [
        *("number", "number", "label", "label", "count", "ordinal", "category", "date")
    ]
    np.testing.assert_allclose(report["missing"], mixed().isna().mean())
    assert (report["weight"] == completed.chosen.best_weight).all()
    assert report["sd"].notna().all() == isinstance(completed.answer, mc.Posterior)
    # Two factors explain every column, but noise is most of a small count.
    explained = report[report["type"] != "count"]
    assert (explained["loss"] < 1.0).all()
    assert (explained["error"] <= explained["error_of_constant"]).all()
    assert report["measure"].tolist() == [
        *["root mean square"] * 2,
        *["share wrong"] * 2,
        "root mean square",
        "mean levels off",
        "share wrong",
        "root mean square, days",
    ]


def test_the_weight_of_an_optimum_is_chosen_by_the_relative_deviance(by_optimum):
    declared = mc.declare(mixed(), TYPES)
    weights = by_optimum.chosen.grids[0][:3]
    options = {"weights": mc.selection.Grid(weights, patience=None), "cv": EntryFolds(3)}
    with pytest.warns(UserWarning, match="the lowest mean score is at"):
        again = mc.cross_validate(
            declared.model, declared.data, criterion=RelativeDeviance(), **options
        )
    np.testing.assert_allclose(again.means[0], by_optimum.chosen.means[0, :3], rtol=1e-3)


def test_held_out_errors_are_those_of_fits_that_have_not_seen_them():
    """Of noise nothing can be predicted: its loss is that of the constant or above."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.standard_normal((80, 4)), columns=list("abcd"))
    frame["e"] = rng.random(80) < 0.5
    report = mc.complete(frame).report()
    assert (report["loss"] > 0.95).all()


@CHOSEN
def test_what_is_printed(completed):
    lines = str(completed).splitlines()
    n_holes = int(mixed().isna().to_numpy().sum())
    said = f"Completion: {n_holes} entries filled, "
    posterior = isinstance(completed.answer, mc.Posterior)
    assert lines[0].startswith(said + ("posterior converged" if posterior else "certified (gap "))
    assert lines[1].endswith("chosen by held-out entries; loss 1 is no better than a constant")
    assert lines[2].split() == [
        *("column", "type", "missing", "loss", "error", "error_of_constant", "measure", "sd"),
        "shift",
    ]
    assert [line.split()[0] for line in lines[3:11]] == list(mixed().columns)
    if posterior:
        assert lines[11] == "  errors assume that no entry is missing because of its own value"
        assert lines[12].startswith("  shift: the mean leaves its 95% interval if")
    else:
        assert lines[11] == "  errors assume that entries are missing completely at random"
    assert len(lines) == 12 + posterior


def test_the_seed_draws_the_folds():
    frame = mixed()[["length", "ill", "sex"]].dropna(how="all")
    first, again, other = (mc.complete(frame, random_state=seed) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(again.table, first.table)
    assert again.scores == first.scores
    assert other.scores != first.scores


def test_probabilities_are_at_hand(completed):
    towns = completed.predict("town")
    assert list(towns.columns) == ["Bonn", "Kiel", "Ulm"]
    np.testing.assert_allclose(towns.sum(axis=1), 1.0)


def test_a_single_row_is_no_error():
    completed = mc.complete(pl.DataFrame({"x": [-1.2], "y": [99.0]}), {"x": "number"})
    assert completed.table.rows() == [(-1.2, 99.0)]


def test_the_library_stays():
    frame = pl.DataFrame({"x": [1.5, None, 3.0, 4.5] * 5, "s": ["u", "u", None, "v"] * 5})
    completed = mc.complete(frame)
    assert completed.table.schema == frame.schema
    assert completed.table.null_count().sum_horizontal().item() == 0
    assert isinstance(completed.report(), pl.DataFrame)
    assert completed.predict("s").columns == ["u", "v"]


def test_columns_that_keep_their_holes_are_named():
    frame = mixed().assign(name=[f"n{k}" if k % 7 else None for k in range(60)])
    with pytest.warns(UserWarning, match="set aside") as told:
        completed = mc.complete(frame)
    assert [str(each.message) for each in told] == [
        "columns that are set aside are neither used nor filled: 'day' (dates;"
        " types={'day': 'date'} takes them as days), 'name' (text, and all 51 values differ, as of"
        " an identifier); types={name: kind} declares them, types={name: 'skip'} confirms this"
    ]
    pd.testing.assert_series_equal(completed.table["name"], frame["name"])
    report = completed.report().set_index("column")
    assert report.loc["name", "type"] == "set aside"
    assert np.isnan(report.loc["name", "loss"])


def test_rows_without_an_entry_are_said_once():
    frame = mixed()[["length", "ill", "town"]]
    frame.loc[5] = pd.NA
    with pytest.warns(mc.UnobservedWarning) as told:
        completed = mc.complete(frame)
    assert len(told) == 1
    assert not completed.table.isna().to_numpy().any()


@pytest.mark.parametrize("method", ["posterior", "optimum"])
@pytest.mark.some(2, method=1)
def test_an_answer_does_not_depend_on_the_clock(method, monkeypatch):
    """A clock that runs a million times as fast changes nothing."""
    frame, clock = (
        mixed()[["length", "weight", "ill", "stage"]].dropna(how="all"),
        time.perf_counter,
    )
    first = mc.complete(frame, method=method)
    monkeypatch.setattr(time, "perf_counter", lambda: 1e6 * clock())
    again = mc.complete(frame, method=method)
    pd.testing.assert_frame_equal(again.table, first.table)


@pytest.mark.parametrize("seed", [0.5, -1, "1"])
def test_a_seed_is_a_whole_number_from_0(seed):
    with pytest.raises(mc.ModelError, match="random_state"):
        mc.complete(mixed(), random_state=seed)


def test_few_entries_are_enough():
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0, NAN], "y": [2.0, NAN, 8.0, 6.0]})
    assert not mc.complete(frame).table.isna().to_numpy().any()


# Skewed labels and levels, rare categories, holes that depend on an observed column


@pytest.mark.parametrize("n", [4, pytest.param(8, marks=pytest.mark.slow(seconds=4))])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_answers_are_no_worse_than_constants_beyond_chance(n):
    """At holes, up to what chance allows; whatever the unit."""
    check = given(skewed_tables())(check_answers_beside_the_constant)
    settings(max_examples=n, phases=[Phase.generate])(check)()


def check_answers_beside_the_constant(drawn):
    whole, frame = drawn
    completed = mc.complete(frame)
    assert isinstance(completed.answer.model.terms[0], mc.GaussianRows)
    assert not completed.table.isna().to_numpy().any()
    report = completed.report().set_index("column")[2:].dropna(subset="loss")
    for name in report.index:
        hidden, coding = frame[name].isna(), completed.declared.column(name).block_coding
        pair = (whole, completed.table)
        truth, answer = (each[name][hidden].cat.codes.to_numpy(float) for each in pair)
        constant = coding.constant(frame[name][~hidden].cat.codes.to_numpy())
        worse = coding.errors(answer, truth)
        worse -= coding.errors(np.full(truth.size, constant), truth)
        assert np.sum(worse) <= 4.0 * np.sqrt(np.sum(np.square(worse))) + 2.0


def holes_by(mechanism, seed=0, n=1500):
    """A table whose labels are missing more often with age, or where they are true; and whole."""
    rng = np.random.default_rng(seed)
    age, other = rng.standard_normal((2, n))
    ill = age + other + 0.5 * rng.standard_normal(n) > 1.0
    frame = pd.DataFrame({"age": age, "other": other, "ill": ill}).astype({"ill": "boolean"})
    logit = {"age": 1.5 * age - 1.0, "itself": 4.0 * ill - 3.0, "chance": 0.0 * age - 1.0}
    hidden = rng.random(n) < 1.0 / (1.0 + np.exp(-logit[mechanism]))
    masked = frame.mask(rng.random(frame.shape) < 0.1)
    masked["age"] = frame["age"]
    masked["ill"] = frame["ill"].mask(hidden)
    return frame, masked, hidden


def errors_of_labels(mechanism):
    """True and reported shares of wrong labels, over some tables; and the last completion."""
    sums = np.zeros(2)
    for seed in range(8):
        frame, masked, hidden = holes_by(mechanism, seed)
        completed = mc.complete(masked)
        wrong = np.mean(completed.table["ill"][hidden] != frame["ill"][hidden])
        sums += [wrong, completed.scores[2].error]
    return *sums, completed


@pytest.mark.slow
def test_errors_are_those_of_holes_that_other_columns_tell_of(monkeypatch):
    """The old are ill or not, the young are not, and the old do not tell."""
    true, reported, completed = errors_of_labels("age")
    assert reported == pytest.approx(true, rel=0.2)
    assert completed.report()["missingness_auc"][2] > 0.75
    last = str(completed).splitlines()[-1]
    assert last == "  held-out entries are weighted where other columns predict missingness: 'ill'"
    monkeypatch.setattr(missingness, "LEAST_AUC", 2.0)
    true, reported, _ = errors_of_labels("age")
    assert reported / true < 0.75


@pytest.mark.slow
def test_holes_by_chance_are_not_weighted_and_those_by_the_value_are_not_promised():
    true, reported, completed = errors_of_labels("chance")
    assert not any(each.weighted for each in completed.scores)
    assert reported == pytest.approx(true, rel=0.2)
    true, reported, completed = errors_of_labels("itself")
    assert true > 1.3 * reported
    said = "  errors assume that no entry is missing because of its own value"
    assert said in str(completed).splitlines()


def test_gaps_that_depend_on_observed_columns_are_named():
    rng = np.random.default_rng(0)
    whole = pd.DataFrame(rng.standard_normal((200, 3)), columns=list("abc"))
    by_chance = whole.mask(rng.random(whole.shape) < 0.3).assign(c=whole["c"])
    assert "gaps depend" not in str(mc.complete(by_chance))
    by_a = by_chance.assign(a=whole["a"], b=whole["b"].mask(whole["a"] > 0.7))
    report = str(mc.complete(by_a))
    assert (
        "gaps depend on observed columns in 'b' (on 'a'), by tests of 1 column with an error"
        in report
    )
    assert "whether they depend on the missing value itself, no table shows" in report


@pytest.mark.slow(seconds=3)
def test_an_optimum_with_equalities_is_chosen_by_the_other_columns():
    frame = mixed()[["length", "weight", "ill"]]
    completed = mc.complete(frame, {"weight": mc.Equality()})
    seen = frame["weight"].notna()
    values = completed.declared.column("weight").column.numbers[seen]
    np.testing.assert_allclose(completed.predict("weight")["weight"][seen], values, rtol=1e-6)


def test_scores_of_an_optimum_are_those_of_its_constants_at_a_large_weight(monkeypatch):
    """Against a plain recount: what is predicted there is the best constant of what is left."""
    monkeypatch.setattr(optimum_path, "Grid", lambda **_: mc.selection.Grid([1e9]))
    completed = mc.complete(mixed(), TYPES, method="optimum")
    assert all(scores.loss == pytest.approx(1.0, abs=0.2) for scores in completed.scores)
    names = [each.name for each in completed.declared.columns]
    for name in ("weight", "town"):
        scores = completed.scores[names.index(name)]
        assert scores.n_held == pytest.approx(mixed()[name].count(), abs=3)
        assert scores.error == pytest.approx(scores.error_of_constant, rel=1e-6)


def test_errors_and_constants():
    codes = np.array([0.0, 0.0, 2.0, 2.0, 2.0, 1.0])
    numbers, classes, levels = coding.Numbers(), coding.Choice("abc"), coding.Levels("abc")
    assert numbers.constant(codes) == pytest.approx(7.0 / 6.0)
    assert numbers.error(np.mean(numbers.errors(codes + 3.0, codes))) == pytest.approx(3.0)
    assert classes.constant(codes) == 2.0
    np.testing.assert_array_equal(classes.errors(np.zeros(6), codes), [0, 0, 1, 1, 1, 1])
    assert levels.constant(codes) == 1.0
    np.testing.assert_array_equal(levels.errors(np.zeros(6), codes), codes)


def test_no_probability_is_so_small_that_one_entry_outweighs_all():
    sure = np.array([[1.0, 0.0], [0.5, 0.5]])
    losses = coding.Choice((False, True)).losses(sure, np.array([1.0, 1.0]))
    np.testing.assert_allclose(losses, [-np.log(1e-4), np.log(2.0)])
    zero = coding.Counts().losses(np.array([0.0, 2.0]), np.array([0.0, 2.0]))
    np.testing.assert_allclose(zero, 0.0, atol=1e-300)


def test_intervals_are_tables_with_both_ends_at_holes():
    rng = np.random.default_rng(0)
    z = rng.standard_normal(200)
    whole = pd.DataFrame(
        {
            "x": z + 0.3 * rng.standard_normal(200),
            "n": pd.array(rng.poisson(np.exp(z + 1.0)), dtype="Int64"),
            "group": np.where(z > 0.0, "a", "b"),
            7: 1e-200 * z,
        }
    )
    holes = rng.random(whole.shape) < 0.3
    holes[:, 2] = False
    frame = whole.mask(holes)
    lower, upper = mc.complete(frame).interval(0.9)
    assert list(lower) == list(upper) == ["x", "n", 7]
    assert (lower.dtypes == frame[["x", "n", 7]].dtypes).all()
    for name in lower:
        hidden = frame[name].isna()
        assert (lower[name] == frame[name])[~hidden].all()
        assert (upper[name] == frame[name])[~hidden].all()
        inside = (lower[name] <= whole[name]) & (whole[name] <= upper[name])
        assert inside[hidden].mean() > 0.8
        assert (lower[name] <= upper[name]).all()
    with pytest.raises(mc.ModelError, match="level"):
        mc.complete(frame).interval(90)


def test_blas_has_one_thread_while_a_table_is_filled(monkeypatch):
    """Threads of BLAS wait by spinning: beside a busy process a table took seven times as long."""
    counts, cholesky = [], np.linalg.cholesky

    def counted(matrix):
        if len(counts) < 100:
            pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
            counts.append({pool["num_threads"] for pool in pools})
        return cholesky(matrix)

    monkeypatch.setattr(np.linalg, "cholesky", counted)
    with threadpool_limits(2, user_api="blas"):
        mc.complete(mixed()[["length", "weight", "ill"]], nonlinear=False)
    assert len(counts) > 10
    assert all(found == {1} for found in counts)


def test_openmp_has_one_thread_where_scikit_learn_clusters_and_grows_trees(monkeypatch):
    """Its threads wait by spinning, too: beside busy processes draws took twice as long."""
    counts = {KMeans: [], HistGradientBoostingRegressor: []}
    for estimator, of_estimator in counts.items():

        def counted(self, *data, fit=estimator.fit, of_estimator=of_estimator, **options):
            pools = [pool for pool in threadpool_info() if pool["user_api"] == "openmp"]
            of_estimator.append({pool["num_threads"] for pool in pools})
            return fit(self, *data, **options)

        monkeypatch.setattr(estimator, "fit", counted)
    rng = np.random.default_rng(1)
    whole = pd.DataFrame(rng.standard_normal((300, 4)), columns=list("abcd"))
    with threadpool_limits(2, user_api="openmp"):
        mc.complete(whole.mask(rng.random(whole.shape) < [0.0, 0.2, 0.2, 0.2]))
    for of_estimator in counts.values():
        assert of_estimator
        assert all(found == {1} for found in of_estimator)


def test_one_entry_is_said_in_the_singular():
    frame = mixed()[["length", "ill"]].dropna()
    frame.iloc[0, 0] = NAN
    assert str(mc.complete(frame)).startswith("Completion: 1 entry filled, ")


@pytest.mark.parametrize(
    "labels",
    [
        pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")], names=["g", "h"]),
        pd.Index(["a", 1, None], name="n"),
    ],
)
def test_labels_of_columns_keep_their_names(labels):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((30, 3)), columns=labels)
    completed = mc.complete(frame.mask(rng.random(frame.shape) < 0.2))
    lower, upper = completed.interval(0.9)
    drawn = completed.draws(1)[0]
    new = completed.complete_rows(frame.mask(rng.random(frame.shape) < 0.2))
    for table in (completed.table, completed.sd, lower, upper, drawn, new):
        pd.testing.assert_index_equal(table.columns, labels)


def test_a_category_may_be_observed_in_two_groups_alone():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((60, 3)), columns=["a", "b", "c"])
    kinds = pd.Series(rng.choice(["x", "y", "z"], 60), dtype="object")
    group = np.arange(60) % 6
    frame["kind"] = kinds.where(group < 2)
    frame.loc[::7, "a"] = np.nan
    completed = mc.complete(frame, method="optimum", groups=group)
    assert completed.table["kind"].isin(["x", "y", "z"]).all()
