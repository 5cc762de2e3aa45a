"""Gaps beyond an end of the observed numbers: what is found, what is not, and what follows."""

import datetime as dt
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

import mcframe as mc
from mcframe.datasets import complete_file, hide
from mcframe.tables.censoring import LimitNumber
from mcframe.tables.detected_limits import PredictedNumbers, end_of, is_bound

from .fuzzing import check_answers_of_a_posterior
from .strategies import tables_with_an_end
from .test_bad_tables import check_observed_entries, lists_of
from .test_tables_agree import check_answers_agree

TOLD = "gaps are taken for numbers beyond the observed ones"


def whole_table(seed, n=600, noise=0.3):
    """Numbers of two factors, and a label."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n, 2))
    directions = np.array([[1.0, 0.2], [0.3, 1.0], [0.8, -0.6], [0.7, 0.7]])
    numbers = factors @ directions.T + noise * rng.standard_normal((n, 4))
    frame = pd.DataFrame(numbers, columns=["load", "dose", "size", "age"])
    return frame.assign(ill=np.where(factors[:, 0] + rng.standard_normal(n) > 0.0, "yes", "no"))


def cut(frame, share=0.3, columns=("load",), largest=True):
    """The table without the largest or the smallest numbers of columns."""
    answer = hide(frame, share, "censored", columns=list(columns), largest=largest)
    return answer.table


def limits_of(completed):
    """The limits at gaps that were found, by column: (lower, upper)."""
    return {
        column.name: (column.limit_columns.lower, column.limit_columns.upper)
        for column in completed.declared.columns
        if column.has_detected_limits
    }


@pytest.mark.parametrize("largest", [True, False])
def test_gaps_beyond_an_end_are_found_and_filled_there(largest):
    whole = whole_table(0)
    frame = cut(whole, largest=largest)
    with pytest.warns(UserWarning, match=TOLD) as record:
        completed = mc.complete(frame)
    end = frame["load"].max() if largest else frame["load"].min()
    side = "above" if largest else "below"
    assert f"'load' ({side} {end:.6g})" in str(record[0].message)
    number = LimitNumber(float(end))
    assert limits_of(completed) == {"load": (number, None) if largest else (None, number)}
    gaps, sign = frame["load"].isna(), 1.0 if largest else -1.0
    for table in (completed.table, *completed.draws(2)):
        assert np.all(sign * (table["load"][gaps] - end) >= 0.0)
    plain = mc.complete(frame, detect_limits=False)
    assert limits_of(plain) == {}
    errors = [
        np.sqrt(np.mean(np.square((answer.table["load"] - whole["load"])[gaps])))
        for answer in (completed, plain)
    ]
    assert errors[0] < 0.65 * errors[1]
    pd.testing.assert_frame_equal(completed.table[~gaps], frame[~gaps])


def test_intervals_beyond_an_end_cover():
    inside, before = [], []
    for seed in range(4):
        whole = whole_table(seed)
        frame = cut(whole, columns=["load", "size"])
        with pytest.warns(UserWarning, match=TOLD):
            completed = mc.complete(frame)
        assert set(limits_of(completed)) == {"load", "size"}
        for answer, covered in (
            (completed, inside),
            (mc.complete(frame, detect_limits=False), before),
        ):
            lower, upper = answer.interval(0.9)
            for name in ("load", "size"):
                gaps = frame[name].isna()
                truth = whole[name][gaps]
                covered.append((lower[name][gaps] <= truth) & (truth <= upper[name][gaps]))
    inside, before = np.concatenate(inside), np.concatenate(before)
    assert inside.mean() == pytest.approx(0.9, abs=0.03)  # of 1,440 cells of 8 columns
    assert before.mean() < 0.6


@pytest.mark.parametrize("how", ["mcar", "mar", "self-masked", "blocks", "clusters", "two-phase"])
def test_other_gaps_have_no_limits(how):
    options = {
        "blocks": {"columns": [["load", "dose"], ["size", "age"]]},
        "two-phase": {"columns": ["load", "size"]},
    }.get(how, {})
    if how == "clusters":
        options = {"by": "place"}
    for seed in range(2):
        whole = whole_table(seed)
        if how == "clusters":  # of rows that are alike
            places = np.argsort(np.argsort(whole["dose"].to_numpy())) // 60
            whole = whole.assign(place=[f"p{place}" for place in places])
        hidden = hide(whole, 0.3, how, random_state=seed, **options).table
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            hidden = hidden.drop(columns="place", errors="ignore")
            assert limits_of(mc.complete(hidden, nonlinear=False)) == {}


@pytest.mark.parametrize("kind", ["uniform", "exponential", "whole", "lognormal"])
def test_abrupt_ends_alone_are_no_limits(kind):
    """Numbers with an end of their own, whose gaps are at random, also given other columns."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        z = rng.standard_normal((400, 2)) @ np.array([[1.0, 0.9], [0.0, 0.45]])
        p = stats.norm.cdf(z[:, 0])
        numbers = {
            "uniform": p,
            "exponential": -np.log1p(-p),
            "whole": np.floor(20.0 * p),
            "lognormal": np.exp(z[:, 0]),
        }[kind]
        frame = pd.DataFrame({"a": numbers, "b": z[:, 1], "c": rng.standard_normal(400)})
        for of_gaps in (rng.standard_normal(400), frame["b"], -frame["b"]):
            gaps = of_gaps + 0.5 * rng.standard_normal(400) > 0.6
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                given_frame = frame.assign(a=frame["a"].mask(gaps))
                assert limits_of(mc.complete(given_frame, nonlinear=False)) == {}


@pytest.mark.parametrize(("unit", "offset"), [(2.0**-60, 0.0), (1.0, 1e6), (2.0**60, -3.0)])
def test_ends_do_not_depend_on_units(unit, offset):
    frame = cut(whole_table(1))
    frame["load"] = unit * (frame["load"] + offset)
    with pytest.warns(UserWarning, match=TOLD):
        completed = mc.complete(frame)
    assert limits_of(completed) == {"load": (LimitNumber(float(frame["load"].max())), None)}


def test_an_end_on_the_scale_of_logarithms():
    whole = whole_table(2)
    whole["load"] = np.exp(whole["load"])
    frame = cut(whole, largest=False)
    with pytest.warns(UserWarning, match=TOLD):
        completed = mc.complete(frame)
    gaps = frame["load"].isna()
    assert set(limits_of(completed)) == {"load"}
    assert completed.table["load"][gaps].between(0.0, frame["load"].min()).all()


def test_limits_hold_for_new_rows_and_in_files(tmp_path):
    frame = cut(whole_table(3))
    with pytest.warns(UserWarning, match=TOLD):
        completed = mc.complete(frame)
    new = whole_table(4, n=6).assign(load=[np.nan] * 5 + [0.25])
    filled = completed.complete_rows(new)
    assert (filled["load"][:5] >= frame["load"].max()).all()
    assert filled["load"][5] == 0.25
    loaded = mc.load(completed.save(tmp_path / "completed.npz"))
    pd.testing.assert_frame_equal(loaded.complete_rows(new), filled)
    assert limits_of(loaded) == limits_of(completed)


def test_each_new_row_has_the_limit_by_itself():
    """Whatever else is in the table that it is given in; without the column there is none."""
    frame = cut(whole_table(3))
    with pytest.warns(UserWarning, match=TOLD):
        completed = mc.complete(frame)
    new = frame[frame["load"].isna()][:4]
    expected = completed.table["load"][new.index].to_numpy()
    one_by_one = [completed.complete_rows(new[k : k + 1])["load"].item() for k in range(4)]
    lists = {name: new[name].tolist() for name in new} | {"load": [None] * 4}
    for filled in (
        one_by_one,
        completed.complete_rows(new)["load"],
        completed.complete_rows(pd.DataFrame(lists).astype({"load": object}))["load"],
        completed.complete_rows(pl.DataFrame(lists))["load"],
    ):
        np.testing.assert_allclose(np.array(filled, dtype=float), expected, rtol=1e-9)
    with pytest.warns(UserWarning, match="count as missing: 'load'"):
        without = completed.complete_rows(whole_table(4).drop(columns="load"))["load"]
    assert without.min() < frame["load"].min() + 1.0


def test_whole_numbers_beyond_an_end_are_the_next_ones():
    whole = whole_table(0)
    whole["load"] = np.rint(6.0 * whole["load"])
    frame = whole.assign(load=whole["load"].where(whole["load"] <= 4.0))
    with pytest.warns(UserWarning, match=r"'load' \(above 4\)"):
        completed = mc.complete(frame)
    gaps = frame["load"].isna()
    assert limits_of(completed) == {"load": (LimitNumber(5.0), None)}
    assert min(draw["load"][gaps].min() for draw in completed.draws(3)) == 5.0
    difference = completed.table["load"][gaps].mean() - whole["load"][gaps].mean()
    assert abs(difference) < 0.1 * whole["load"].std()


def test_the_report_says_what_was_taken():
    with pytest.warns(UserWarning, match=TOLD):
        completed = mc.complete(cut(whole_table(0)))
    assert "gaps that are taken for numbers beyond the observed ones" in repr(completed)
    assert "cells that are known to limits" not in repr(completed)


def test_files_and_commands(tmp_path, capsys):
    from mcframe.__main__ import main

    frame = cut(whole_table(5))
    source = tmp_path / "rows.parquet"
    frame.to_parquet(source)
    with pytest.warns(UserWarning, match=TOLD):
        learned = complete_file(source, tmp_path / "done.parquet", training_rows=450)
    [(end, _)] = limits_of(learned).values()
    gaps = frame["load"].isna()
    done = pd.read_parquet(tmp_path / "done.parquet")
    assert (done["load"][gaps] >= end.number).all()
    complete_file(source, tmp_path / "plain.parquet", training_rows=450, detect_limits=False)
    plain = pd.read_parquet(tmp_path / "plain.parquet")
    assert (plain["load"][gaps] < end.number).any()
    text = tmp_path / "rows.csv"
    frame.to_csv(text, index=False)
    assert main(["impute", str(text), "--out", str(tmp_path / "a.csv")]) == 0
    told = capsys.readouterr().err
    assert TOLD in told
    assert "--no-detect-limits" in told
    command = ["impute", str(text), "--out", str(tmp_path / "b.csv"), "--no-detect-limits"]
    assert main(command) == 0
    assert TOLD not in capsys.readouterr().err


def test_where_nothing_is_looked_for():
    frame = cut(whole_table(6)).assign(school=[f"s{k % 12}" for k in range(600)])
    frame = frame.assign(age2=frame["age"], flag=False, limit=-5.0)
    with pytest.warns(UserWarning, match=TOLD):
        assert set(limits_of(mc.complete(frame, {"limit": "skip"}, relations=[]))) == {"load"}
    declared = mc.censored(upper="limit", where="flag")
    options = [
        {"groups": "school"},
        {"relations": ["age = 1 * age2"]},
        {"types": {"load": ("number", None, float(frame["load"].max()))}},
        {"types": {"load": declared}},
        {"method": "optimum"},
    ]
    for chosen in options:
        chosen = {"types": {"limit": "skip"}, "relations": []} | chosen
        assert limits_of(mc.complete(frame, **chosen)) == {}


@pytest.mark.parametrize("step", ["D", "s"])
@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_gaps_beyond_the_last_date_are_found(step, zone, tmp_path):
    """Of days the next one is the limit."""
    whole = whole_table(6)
    days = pd.Timestamp("2020-02-29") + pd.to_timedelta(100.0 * whole["load"], unit="D")
    frame = whole.assign(load=days.dt.round(step).dt.tz_localize(zone))
    gaps = whole["load"] > whole["load"].quantile(0.7)
    frame["load"] = frame["load"].mask(gaps)
    last = frame["load"].max()
    with pytest.warns(UserWarning, match=TOLD) as told:
        completed = mc.complete(frame, {"load": "date"})
    in_utc = last if zone is None else last.tz_convert(None)
    shown = f"'load' (above {str(in_utc).removesuffix(' 00:00:00')}"
    assert shown in str(told[0].message)
    least = last + pd.Timedelta(days=1 if step == "D" and zone is None else 0)
    lower, upper = completed.interval(0.9)
    for table in (completed.table, *completed.draws(2), lower, upper):
        assert (table["load"][gaps] >= least).all()
    errors = (completed.table["load"] - days.dt.tz_localize(zone))[gaps] / pd.Timedelta(days=1)
    assert np.sqrt(np.mean(np.square(errors))) < 45.0
    loaded = mc.load(completed.save(tmp_path / "completed.npz"))
    new = frame[:60]
    pd.testing.assert_frame_equal(loaded.complete_rows(new), completed.complete_rows(new))
    assert limits_of(loaded) == limits_of(completed)


def test_row_weights_do_not_count_in_the_comparison():
    whole = whole_table(8, n=1000)
    weights = np.exp(whole["age"].to_numpy())
    with pytest.warns(UserWarning, match=TOLD):
        completed = mc.complete(cut(whole), row_weights=weights)
    assert set(limits_of(completed)) == {"load"}
    for how in ("mcar", "self-masked"):
        frame = hide(whole, 0.3, how, columns=["load"]).table
        assert limits_of(mc.complete(frame, row_weights=weights)) == {}


def test_ends_beside_columns_and_options_of_any_kind(tmp_path):
    """Of any unit, in any library: fillings, draws, intervals, new rows and files keep to them."""
    n_found = 0

    @given(tables_with_an_end(), st.data())
    @settings(max_examples=5)
    def check(drawn, data):
        nonlocal n_found
        frame, end, upper, library = drawn
        options = {
            "missing": data.draw(st.sampled_from([None, [-99], {"cut": 1e300}])),
            "nonlinear": data.draw(st.sampled_from([None, False, True])),
            "random_state": data.draw(st.integers(0, 9)),
            "types": data.draw(st.sampled_from([None, {"near 1": "skip"}, {"cut": "number"}])),
        }
        table = library(frame)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            completed = mc.complete(table, **options)
            loaded = mc.load(completed.save(tmp_path / "completed.npz"))
        ends = limits_of(completed)
        assert {*ends} <= {"cut"}
        assert limits_of(loaded) == ends
        n_found += len(ends)
        check_observed_entries(completed.table, table, completed.declared)
        check_observed_entries(completed.complete_rows(table), table, completed.declared)
        check_answers_agree(completed)
        check_answers_of_a_posterior(completed, table)
        if ends:
            gaps, slack = np.isnan(frame["cut"].to_numpy(float)), 1e-9 * abs(end)
            answers = (completed.table, *completed.draws(2), *completed.interval(0.9))
            for answer in (*answers, loaded.table):
                filled = np.array(lists_of(answer)["cut"], dtype=float)[gaps]
                assert np.all(filled >= end - slack if upper else filled <= end + slack)

    check()
    assert n_found > 2


def test_bounds_are_no_ends():
    rng = np.random.default_rng(0)
    shares, numbers = rng.random(50), rng.standard_normal(50)
    ends = [(0.0, shares, False), (1.0, shares, True), (100.0, shares, True)]
    ends += [(1.0, numbers, True), (numbers.max(), numbers, True)]
    heap = np.append(np.arange(40.0), np.full(5, 40.0))
    ends += [(40.0, heap, True), (0.5, heap + 0.5, False)]
    assert [is_bound(*end) for end in ends] == [True] * 3 + [False] * 2 + [True, False]


def test_a_number_is_a_limit_as_a_column_of_it():
    frame = cut(whole_table(7), largest=False)
    limit = float(frame["load"].min())
    by_number = mc.complete(frame, {"load": mc.censored(upper=limit)})
    by_column = mc.complete(frame.assign(limit=limit), {"load": mc.censored(upper="limit")})
    pd.testing.assert_frame_equal(
        by_number.table, by_column.table.drop(columns="limit"), check_exact=True
    )
    # Of a declared limit the number itself is known to be at most that; of one that is found it
    # is one of the observed numbers.
    assert by_number.table["load"].eq(limit).sum() == 0
    with pytest.warns(UserWarning, match=TOLD):
        assert mc.complete(frame).table["load"].eq(limit).sum() == 1
    # A number that is the name of a column is no limit.
    named = frame.rename(columns={"ill": 3})
    with pytest.raises(mc.DataError, match="column 3 has the limits of 'load', and holds text"):
        mc.complete(named, {"load": mc.censored(upper=3)})


@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_a_date_is_a_limit_as_a_column_of_it(zone):
    frame = whole_table(7, n=200)
    days = pd.Timestamp("2020-02-29") + pd.to_timedelta(np.rint(100.0 * frame["load"]), unit="D")
    limit = pd.Timestamp("2020-03-20", tz=zone)
    frame["load"] = days.dt.tz_localize(zone).where(days < "2020-03-20")
    given_frame = frame.assign(limit=limit)
    by_column = mc.complete(given_frame, {"load": mc.censored(lower="limit", kind="date")})
    expected = by_column.table.drop(columns="limit")
    assert (expected["load"][frame["load"].isna()] >= limit).all()
    utc = limit if zone is None else limit.tz_convert(None)
    dates = [limit, limit.to_pydatetime(), utc.to_datetime64()]
    for date in [*dates, *([dt.date(2020, 3, 20)] if zone is None else [])]:
        by_date = mc.complete(frame, {"load": mc.censored(lower=date)})
        pd.testing.assert_frame_equal(by_date.table, expected)


def test_limits_of_another_kind_are_refused():
    frame = whole_table(0, n=40).assign(day=pd.Timestamp("2020-02-29"))
    frame["day"] += pd.to_timedelta(np.arange(40), unit="D")
    day = dt.date(2020, 3, 5)
    with pytest.raises(mc.DataError, match="holds dates, and its limit 3 is a number; give dates"):
        mc.complete(frame, {"day": mc.censored(lower=3.0)})
    with pytest.raises(mc.DataError, match="'load' holds numbers, and its limit 2020-03-05 is a"):
        mc.complete(frame, {"load": mc.censored(lower=day)})
    limits = mc.censored(lower=dt.datetime(2020, 3, 5, 12), upper=day)
    with pytest.raises(mc.DataError, match="2020-03-05 12:00:00 and 2020-03-05 in row 0, an"):
        mc.complete(frame, {"day": limits})
    for none in (pd.NaT, np.datetime64("NaT"), np.datetime64("300000-01-01")):
        with pytest.raises(mc.ModelError, match="neither a column nor a finite number or a date"):
            mc.complete(frame, {"day": mc.censored(lower=none)})


@pytest.mark.parametrize("chance", [None, -50.0])
def test_an_end_beside_others_needs_less(chance):
    """Ratios between 1 and 1,000 suffice beside another column in the strict comparison alone."""
    found = {(): [], (True,): []}
    for seed in range(30):
        rng = np.random.default_rng(seed)
        means = rng.standard_normal(120)
        codes = means + 0.7 * rng.standard_normal(120)
        codes = np.where(codes > np.quantile(codes, 0.7), np.nan, codes)
        [column] = mc.declare(pd.DataFrame({"a": codes})).columns
        for directions, ends in found.items():
            ends.append(end_of(column, codes, means, np.ones(120), chance, directions))
    alone, beside = ([end is not None for end in ends] for ends in found.values())
    assert all(np.less_equal(alone, beside))
    assert sum(alone) > 0
    assert (sum(beside) > sum(alone)) == (chance is not None)


def test_densities_by_ranks():
    """Of a normal sample next to those of numbers; reflected kernels integrate to 1."""
    numbers = np.random.default_rng(0).standard_normal(400)
    numbers = (numbers - numbers.mean()) / numbers.std()
    plain = PredictedNumbers(numbers, np.zeros(400), np.ones(400), 0.0, 0.0)
    ranked = plain.by_ranks()
    scores = stats.norm.ppf((stats.rankdata(numbers) - 0.5) / 400)
    np.testing.assert_allclose(ranked.numbers, scores, rtol=1e-12)
    log_density = ranked.log_jacobian - 0.5 * np.sum(np.square(scores))
    assert log_density == pytest.approx(-0.5 * np.sum(np.square(numbers)), abs=8.0)
    # By a factor of units the density changes as it has to.
    scaled = PredictedNumbers(8.0 * numbers, np.zeros(400), np.ones(400), 0.0, 0.0).by_ranks()
    assert scaled.log_jacobian == pytest.approx(ranked.log_jacobian - 400 * np.log(8.0))


@given(st.integers(0, 2**32 - 1))
def test_likelihoods_are_the_largest(seed):
    """Against the densities written out, and a search without derivatives."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 60))
    means, deviations = rng.standard_normal(n), rng.uniform(0.3, 2.0, n)
    numbers = 0.4 + 0.8 * means + 0.7 * deviations * rng.standard_normal(n)
    sign = float(rng.choice([-1.0, 1.0]))
    end = float(sign * np.quantile(sign * numbers, 0.7))
    gaps = sign * numbers > sign * end
    gaps[rng.permutation(n)[:2]] = True, False
    predicted = PredictedNumbers(np.where(gaps, np.nan, numbers), means, deviations, 0.0)
    largest, of_gaps = predicted.log_density_of_gaps_beyond(end, sign)
    at_random = predicted.log_density_of_gaps_by_others()

    def parts(unknowns):
        a, b, log_s = unknowns
        scale = np.exp(log_s) * deviations
        known = stats.norm.logpdf(numbers, a + b * means, scale)[~gaps]
        beyond = stats.norm.logcdf(sign * (a + b * means - end) / scale)
        return known, beyond, stats.norm.logcdf(-sign * (a + b * means - end) / scale)

    def loss(unknowns):
        known, beyond, _ = parts(unknowns)
        return -np.sum(known) - np.sum(beyond[gaps])

    def probit(unknowns):
        scores = unknowns[0] + unknowns[1] * means
        return -np.sum(stats.norm.logcdf(np.where(gaps, scores, -scores)))

    options = {"xatol": 1e-9, "fatol": 1e-10, "maxiter": 4000, "maxfev": 4000}
    searched = optimize.minimize(loss, [0.4, 0.8, -0.4], method="Nelder-Mead", options=options)
    constant = 0.5 * np.sum(~gaps) * np.log(2.0 * np.pi) + np.sum(np.log(deviations[~gaps]))
    assert largest == pytest.approx(-searched.fun + constant, abs=1e-5)
    _, beyond, within = parts(searched.x)
    share = np.mean(gaps)
    alike = n * (share * np.log(share) + (1.0 - share) * np.log1p(-share))
    expected = np.sum(np.where(gaps, beyond, within)) - alike
    assert of_gaps == pytest.approx(expected, abs=1e-3)
    weights = 1.0 / deviations[~gaps]
    line = np.polyfit(means[~gaps], numbers[~gaps], 1, w=weights)
    left = (numbers[~gaps] - np.polyval(line, means[~gaps])) * weights
    normal = -0.5 * np.sum(~gaps) * (np.log(np.mean(np.square(left))) + 1.0)
    by_means = optimize.minimize(probit, [0.0, 0.0], method="Nelder-Mead", options=options)
    assert at_random == pytest.approx(normal - by_means.fun, abs=1e-4)
