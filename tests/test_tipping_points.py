"""The shift of missing values at which a pooled conclusion changes: table, numbers, picture."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.figure import Figure

import mcframe as mc

from .test_shifts import trial

FORMULA = "y3 ~ arm + y1"
WORSE = {"y3": mc.shift({"treated": -1.0}, by="arm")}


@pytest.fixture(scope="module")
def completed():
    return mc.complete(trial(0, n=300).drop(columns="y2"))


@pytest.fixture(scope="module")
def tipping(completed):
    named = "arm[T.treated]"
    return mc.tipping_point(completed, FORMULA, WORSE, range(5), estimate=named, m=8)


def test_rows_of_the_table_are_pooled_estimates_of_shifted_draws(completed, tipping):
    for row in tipping.table.itertuples():
        shift = {"y3": mc.shift({"treated": -row.multiple}, by="arm")}
        pooled = mc.pool.formula(FORMULA, completed, 8, shift=shift)
        lower, upper = pooled.interval()
        expected = pooled.estimate[1], pooled.sd[1], lower[1], upper[1]
        assert (row.estimate, row.sd, row.lower, row.upper) == pytest.approx(expected)
        assert (row.p_value < 0.05) == (row.lower > 0.0 or row.upper < 0.0)


def test_the_interval_ends_at_the_null_where_the_conclusion_changes(completed, tipping):
    assert np.isnan(tipping.below)
    shift = {"y3": mc.shift({"treated": -tipping.above}, by="arm")}
    lower, _ = mc.pool.formula(FORMULA, completed, 8, shift=shift).interval()
    assert lower[1] == pytest.approx(0.0, abs=0.003)
    changed = tipping.table["changed"]
    assert list(changed) == list(tipping.table["multiple"] > tipping.above)
    assert "changes at" in repr(tipping)
    assert "which shift is true, no table shows" in tipping._repr_html_()


def test_conclusions_that_do_not_change(completed):
    tipping = mc.tipping_point(
        completed, FORMULA, WORSE, [0.5], estimate=1, m=4, confidence_level=0.9
    )
    assert np.isnan([tipping.below, tipping.above]).all()
    assert list(tipping.table["multiple"]) == [0.0, 0.5]
    assert "does not change from 0 to 0.5 times the shift" in repr(tipping)
    assert "the 90% interval lies above 0" in repr(tipping)


def test_functions_names_of_columns_and_other_libraries():
    table = pl.from_pandas(trial(1, n=120)[["x", "y3"]])

    def mean(drawn):
        return drawn["y3"].mean(), drawn["y3"].var() / len(drawn)

    completed = mc.complete(table)
    tipping = mc.tipping_point(completed, mean, "y3", null=0.9, m=4)
    assert isinstance(tipping.table, pl.DataFrame)
    assert tipping.below < 0.0 < tipping.above
    rows = tipping.rows()
    rise = (rows[-1]["estimate"] - rows[0]["estimate"]) / 4.0
    expected = completed.means["y3"].spread * completed.means["y3"].share_missing
    assert rise == pytest.approx(expected)
    assert tipping.name == ""


def test_correlations_are_compared_on_their_scale():
    table = trial(1, n=120)[["x", "y3"]]

    def correlation(drawn):
        r = drawn["x"].corr(drawn["y3"])
        return r, (1.0 - r**2) ** 2 / (len(drawn) - 3)

    tipping = mc.tipping_point(
        mc.complete(table), correlation, "y3", [1, 2], m=4, scale="fisher_z"
    )
    for row in tipping.rows():
        assert (row["p_value"] < 0.05) == (row["lower"] > 0.0 or row["upper"] < 0.0)


def test_a_reference_group_stays_at_all_multiples(completed):
    shift = {"y3": mc.shift(-1.0, by="arm", to="control")}
    tipping = mc.tipping_point(completed, FORMULA, shift, [0], estimate=1, m=4)
    jump = {"y3": mc.shift(by="arm", to="control")}
    pooled = mc.pool.formula(FORMULA, completed, 4, shift=jump)
    assert tipping.table["estimate"][0] == pytest.approx(pooled.estimate[1])


def test_the_picture_marks_the_tipping_point(tipping):
    ax = tipping.plot.estimates(ax=Figure().subplots())
    marks = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == "--"]
    assert marks == [tipping.above]
    assert ax.get_xlabel() == "multiple of the shift"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((FORMULA, WORSE), "there are 3 estimates; name one by estimate=, of 'Intercept'"),
        ((FORMULA, "z"), "there is no column 'z'"),
        ((FORMULA, "arm"), "the column is taken for: label"),
        ((FORMULA, WORSE, 3.0), "multiples=3.0 was given; give a list of numbers"),
        ((FORMULA, WORSE, [np.inf]), "multiples=inf was given"),
        ((3, WORSE), "a function of a completed table is needed"),
    ],
)
def test_messages_name_what_is_wrong(completed, arguments, message):
    with pytest.raises(mc.ModelError, match=message):
        mc.tipping_point(completed, *arguments, m=2)


def test_estimates_and_tables_that_there_are_not(completed):
    with pytest.raises(mc.ModelError, match="the estimates are"):
        mc.tipping_point(completed, FORMULA, WORSE, m=2, estimate="arm")
    with pytest.raises(mc.ModelError, match=r"was given to mc\.tipping_point; give what mc"):
        mc.tipping_point(pd.DataFrame({"y": [1.0]}), FORMULA, WORSE)
