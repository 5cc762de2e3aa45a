"""Assumptions on missing values: shifts by group, in standard deviations, to a reference group."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import mcframe as mc

# Means of a treated row without covariates: those of the control group are 0.
TREATED = {"y1": 1.0, "y2": 2.2, "y3": 2.04}


def trial(seed=0, n=3000, share=0.4):
    """Three visits, the last one or two of which are missing, in two arms."""
    rng = np.random.default_rng(seed)
    treated = np.arange(n) % 2
    x = rng.standard_normal(n)
    y1 = 0.5 * x + treated + 0.8 * rng.standard_normal(n)
    y2 = 0.7 * y1 + 1.5 * treated + 0.6 * rng.standard_normal(n)
    y3 = 0.7 * y2 + 0.5 * treated + 0.6 * rng.standard_normal(n)
    arm = np.where(treated == 1, "treated", "control").astype(object)
    frame = pd.DataFrame({"arm": arm, "x": x, "y1": y1, "y2": y2, "y3": y3})
    drops = rng.random(n) < share
    frame.loc[drops, "y3"] = None
    frame.loc[drops & (rng.random(n) < 0.5), "y2"] = None
    return frame


def drawn_means(frame, completed, shift):
    """Means of drawn values of treated rows that drop out after the second and the first visit."""
    [table] = completed.draws(1, shift=shift)
    treated, missing = frame["arm"] == "treated", frame.isna()
    late = treated & missing["y3"] & ~missing["y2"]
    early = treated & missing["y2"]
    others = ~treated | ~missing["y3"]
    [plain] = completed.draws(1)
    pd.testing.assert_frame_equal(table[others], plain[others])
    return table["y3"][late].mean(), table["y3"][early].mean(), table["y2"][early].mean()


@pytest.fixture(scope="module")
def frame():
    return trial()


@pytest.fixture(scope="module")
def completed(frame):
    return mc.complete(frame)


@pytest.mark.parametrize(
    ("method", "means"),
    [
        ("jump", (0.0, 0.0, 0.0)),
        ("copy", (0.7 * TREATED["y2"], 0.49 * TREATED["y1"], 0.7 * TREATED["y1"])),
        ("increments", (TREATED["y2"], TREATED["y1"], TREATED["y1"])),
    ],
)
def test_rows_of_other_groups_are_drawn_as_of_the_reference(frame, completed, method, means):
    """The means that Carpenter and others (2013) give; all three differ."""
    shift = mc.shift(by="arm", to="control", method=method)
    drawn = drawn_means(frame, completed, dict.fromkeys(TREATED, shift))
    assert drawn == pytest.approx(means, abs=0.16)


def test_residuals_keep_their_place_when_rows_jump(frame, completed):
    """Rows above the mean of their group at y2 are above that of the reference at y3."""
    shift = dict.fromkeys(TREATED, mc.shift(by="arm", to="control"))
    late = (frame["arm"] == "treated") & frame["y3"].isna() & frame["y2"].notna()
    tables = completed.draws(8, shift=shift)
    slopes = [np.polyfit(table["y2"][late], table["y3"][late], 1)[0] for table in tables]
    assert np.mean(slopes) == pytest.approx(0.7, abs=0.07)


def test_amounts_together_with_a_reference_are_those_of_other_groups(frame, completed):
    jump = mc.shift(by="arm", to="control")
    lower = mc.shift(-0.5, by="arm", to="control")
    [first] = completed.draws(1, shift={"y3": jump})
    [second] = completed.draws(1, shift={"y3": lower})
    expected = np.where(frame["y3"].isna() & (frame["arm"] == "treated"), -0.5, 0.0)
    np.testing.assert_allclose(second["y3"] - first["y3"], expected, atol=1e-9)


def test_amounts_by_group_and_in_standard_deviations(frame, completed):
    by_group = mc.shift({"treated": -0.5, "control": 0.25}, by="arm")
    [plain], [shifted] = completed.draws(1), completed.draws(1, shift={"y3": by_group})
    amounts = np.where(frame["arm"] == "treated", -0.5, 0.25)
    expected = np.where(frame["y3"].isna(), amounts, 0.0)
    np.testing.assert_allclose(shifted["y3"] - plain["y3"], expected, atol=1e-9)
    [in_sds] = completed.draws(1, shift={"y3": mc.shift(2.0, unit="sd")})
    rise = (in_sds["y3"] - plain["y3"])[frame["y3"].isna()]
    np.testing.assert_allclose(rise, 2.0 * completed.means["y3"].spread)
    shift = completed.report().set_index("column")["shift"]["y3"]
    [tipped] = completed.draws(1, shift={"y3": mc.shift(shift, unit="sd")})
    rise = (tipped["y3"] - plain["y3"])[frame["y3"].isna()]
    np.testing.assert_allclose(rise, completed.shift_to_change("y3"))


def test_groups_that_are_missing_are_those_that_are_drawn():
    frame = trial(1, n=400)
    frame.loc[np.arange(400) % 7 == 0, "arm"] = None
    completed = mc.complete(frame)
    shift = {"y3": mc.shift({"treated": 1.0}, by="arm")}
    [plain], [shifted] = completed.draws(1), completed.draws(1, shift=shift)
    expected = np.where(frame["y3"].isna() & (plain["arm"] == "treated"), 1.0, 0.0)
    np.testing.assert_allclose(shifted["y3"] - plain["y3"], expected, atol=1e-9)
    assert expected[frame["arm"].isna()].any()
    jump = {"y3": mc.shift(by="arm", to="control")}
    [jumped] = completed.draws(1, shift=jump)
    kept = (plain["arm"] == "control") | frame["y3"].notna()
    pd.testing.assert_frame_equal(jumped[kept], plain[kept])
    assert (jumped["y3"] != plain["y3"])[~kept].all()


def test_labels_and_counts_are_drawn_as_of_the_reference_too():
    rng = np.random.default_rng(0)
    arm = np.repeat(["a", "b", "c"], 500).astype(object)
    effect = np.repeat([0.0, 0.0, 3.0], 500)
    frame = pd.DataFrame({
        "arm": arm,
        "well": np.where(effect + rng.logistic(size=1500) > 0.0, "yes", "no").astype(object),
        "visits": rng.poisson(np.exp(0.4 * effect + 1.0)) * 1.0,
    })  # fmt: skip
    hidden = rng.random(1500) < 0.3
    frame.loc[hidden, ["well", "visits"]] = None
    completed = mc.complete(pl.from_pandas(frame), {"visits": "count"})
    shift = mc.shift(by="arm", to="a")
    [plain] = completed.draws(1)
    [jumped] = completed.draws(1, shift={"well": shift, "visits": shift})
    of_c = hidden & (arm == "c")
    assert np.mean(plain["well"].to_numpy()[of_c] == "yes") > 0.85
    assert np.mean(jumped["well"].to_numpy()[of_c] == "yes") == pytest.approx(0.5, abs=0.15)
    assert jumped["visits"].to_numpy()[of_c].mean() < 0.7 * plain["visits"].to_numpy()[of_c].mean()
    with pytest.raises(mc.ModelError, match="taken for: label; only numbers"):
        completed.draws(1, shift={"well": mc.shift(by="arm", to="a", method="increments")})


def test_identities_hold_in_rows_of_the_reference():
    frame = trial(2, n=300).assign(total=lambda table: table["y2"] + table["y3"])
    completed = mc.complete(frame, relations=["total = y2 + y3"])
    [table] = completed.draws(1, shift={"y3": mc.shift(by="arm", to="control")})
    np.testing.assert_allclose(table["total"], table["y2"] + table["y3"], atol=1e-8)


def test_rows_in_groups_have_a_reference_too():
    frame = trial(3, n=400).assign(site=np.arange(400) // 20)
    completed = mc.complete(frame, groups="site")
    treated = frame["y3"].isna() & (frame["arm"] == "treated")
    shift = dict.fromkeys(("y2", "y3"), mc.shift(by="arm", to="control"))
    assert completed.draws(1)[0]["y3"][treated].mean() > 1.5
    drawn = [table["y3"][treated].mean() for table in completed.draws(5, shift=shift)]
    assert np.mean(drawn) < 1.2


def test_pooled_analyses_take_shifts(completed):
    shift = {"y3": mc.shift({"treated": -1.0}, by="arm")}
    plain = mc.pool.formula("y3 ~ arm", completed, 4)
    pooled = mc.pool.formula("y3 ~ arm", completed, 4, shift=shift)
    assert pooled.estimate[1] - plain.estimate[1] == pytest.approx(-0.4, abs=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"amount": {"treated": 1.0}}, "was given without by; name the column of groups"),
        ({"amount": 1.0, "by": "arm"}, "by='arm' was given with one amount for all groups"),
        ({"to": "control"}, "to='control' was given without by"),
        ({"amount": {"treated": np.nan}, "by": "arm"}, "amount.'treated'.*a finite number"),
        ({"method": "j2r"}, "method='j2r' was given"),
        ({"unit": "sds"}, "unit='sds' was given"),
    ],
)
def test_wrong_words_are_one_error(arguments, message):
    with pytest.raises(mc.ModelError, match=message):
        mc.shift(**arguments)


@pytest.mark.parametrize(
    ("shift", "message"),
    [
        ({"y3": {"treated": 1.0}}, "shift of column 'y3' is a dict; name the column of groups"),
        ({"y3": mc.shift({"treeted": 1.0}, by="arm")}, "which no row has; give a value that"),
        ({"y3": mc.shift(by="arms", to="control")}, "there is no column 'arms'"),
        ({"y3": mc.shift(by="arm", to="placebo")}, "the group 'placebo' of 'arm', which no row"),
        ({"y3": mc.shift({0.0: 1.0}, by="y3")}, "which no row has"),
        ({"arm": mc.shift(by="arm", to="control")}, "is that column itself"),
        ({"arm": mc.shift(1.0)}, "the column is taken for: label"),
    ],
)
def test_shifts_that_do_not_suit_the_table_are_one_error(completed, shift, message):
    with pytest.raises((mc.ModelError, mc.DataError), match=message):
        completed.draws(1, shift=shift)


def crossed_trial(seed=0, n=3000):
    """Two visits in two arms, in which the effect of the treatment grows with x and with x^2."""
    rng = np.random.default_rng(seed)
    treated, x = np.arange(n) % 2, rng.standard_normal(n)
    effect = treated * (1.0 + 1.0 * x) + 0.5 * x**2
    y1 = effect + 0.8 * rng.standard_normal(n)
    y2 = 0.7 * (y1 - effect) + 2.0 * effect + 0.6 * rng.standard_normal(n)
    arm = np.where(treated == 1, "treated", "control").astype(object)
    frame = pd.DataFrame({"arm": arm, "x": x, "y1": y1, "y2": y2})
    drops = rng.random(n) < 0.4
    frame.loc[drops, "y2"] = None
    frame.loc[drops & (rng.random(n) < 0.5), "y1"] = None
    return frame


@pytest.fixture(scope="module")
def crossed():
    return mc.complete(crossed_trial())


@pytest.mark.parametrize("method", ["jump", "copy", "increments"])
@pytest.mark.some(1, method=1)
def test_terms_and_a_reference_group_go_together(crossed, method):
    """Coefficients of 1, x and x^2 in treated rows that drop out, as Carpenter and others say."""
    frame, terms = crossed_trial(), ["arm:x", "x**2"]
    shift = dict.fromkeys(["y1", "y2"], mc.shift(by="arm", to="control", method=method))
    [table] = crossed.draws(1, terms=terms, shift=shift)
    [plain] = crossed.draws(1, terms=terms)
    treated, missing = frame["arm"] == "treated", frame.isna()
    kept = ~treated | ~missing["y2"]
    pd.testing.assert_frame_equal(table[kept], plain[kept])
    early, late = treated & missing["y1"], treated & missing["y2"] & ~missing["y1"]
    # In control rows y1 and y2 have the means x^2 / 2 and x^2, in treated ones 1 + x more of the
    # first, and of the second twice that.
    for column, rows, square in (("y1", early, 0.5), ("y2", early, 1.0), ("y2", late, 1.0)):
        difference = 0.0
        if rows is late:
            difference = {"jump": 0.0, "copy": 0.7, "increments": 1.0}[method]
        fitted = np.polyfit(frame["x"][rows], table[column][rows], 2)[::-1]
        expected = [difference, difference, square]
        np.testing.assert_allclose(fitted, expected, atol=0.25, err_msg=column)


@pytest.mark.slow(seconds=2)
def test_residuals_keep_their_place_with_terms(crossed):
    frame = crossed_trial()
    shift = dict.fromkeys(["y1", "y2"], mc.shift(by="arm", to="control"))
    late = (frame["arm"] == "treated") & frame["y2"].isna() & frame["y1"].notna()
    x = frame["x"][late]
    y1 = frame["y1"][late] - 1.0 - x - 0.5 * x**2
    tables = crossed.draws(5, terms=["arm:x", "x**2"], shift=shift)
    slopes = [np.polyfit(y1, table["y2"][late] - x**2, 1)[0] for table in tables]
    assert np.mean(slopes) == pytest.approx(0.7, abs=0.1)


def test_numbers_that_are_no_outcomes_stay_covariates_with_terms(crossed):
    """Of y1 as a covariate y2 is that of control rows with this y1, whose slope is .7."""
    frame = crossed_trial()
    shift = {"y2": mc.shift(by="arm", to="control")}
    late = (frame["arm"] == "treated") & frame["y2"].isna() & frame["y1"].notna()
    tables = crossed.draws(5, terms=["arm:x", "x**2"], shift=shift)
    x, y1 = frame["x"][late], frame["y1"][late]
    means = 0.7 * (y1 - 0.5 * x**2) + x**2
    rests = np.array([table["y2"][late] - means for table in tables])
    assert np.mean(rests) == pytest.approx(0.0, abs=0.1)
    assert np.std(rests) == pytest.approx(0.6, abs=0.1)


@pytest.mark.slow(seconds=2)
def test_pooled_formulas_with_products_take_a_reference_group(crossed):
    """The slope of x in treated rows falls by the share of rows that jump."""
    jump = dict.fromkeys(["y1", "y2"], mc.shift(by="arm", to="control"))
    formula = "y2 ~ arm * x + I(x**2)"
    plain = mc.pool.formula(formula, crossed, 4)
    jumped = mc.pool.formula(formula, crossed, 4, shift=jump)
    at = plain.names.index("arm[T.treated]:x")
    assert plain.estimate[at] == pytest.approx(2.0, abs=0.15)
    assert jumped.estimate[at] == pytest.approx(1.2, abs=0.15)


def test_covariates_of_terms_have_no_reference_group(crossed):
    shift = {"y1": mc.shift(by="arm", to="control")}
    with pytest.raises(mc.ModelError, match="shift of column 'y1': to a reference group outcomes"):
        crossed.draws(1, terms=["y1**2"], shift=shift)


def test_terms_that_are_not_finite_in_the_reference_group_are_one_error():
    """In rows of the dose 1 x may be below 0, which the logarithm does not take at the dose 0."""
    rng = np.random.default_rng(0)
    dose = np.repeat([0.0, 1.0], 90)
    x = rng.uniform(0.2, 1.0, 180) - 0.5 * dose
    frame = pd.DataFrame({"dose": dose, "x": x, "y": dose + rng.standard_normal(180)})
    frame.loc[rng.random(180) < 0.3, "y"] = None
    completed, terms = mc.complete(frame, {"dose": "category"}), ["log(dose + x)"]
    assert completed.draws(1, terms=terms)[0]["y"].notna().all()
    with pytest.raises(mc.DataError, match=r"log\(dose \+ x\)"):
        completed.draws(1, terms=terms, shift={"y": mc.shift(by="dose", to=0.0)})


def test_a_reference_needs_the_distribution_of_rows(frame, completed):
    shift = {"y3": mc.shift(by="arm", to="control")}
    numbers = frame.iloc[:100, [0, 1, 4]]
    declared = mc.declare(numbers)
    posterior = mc.posterior(declared.model, declared.data, factors=1, max_iter=20)
    with pytest.raises(mc.ModelError, match="this is the posterior of a declared model"):
        mc.Completion.of(declared, posterior).draws(1, shift=shift)
    number_of_group = mc.shift(by="x", to=float(frame["x"][0]))
    with pytest.raises(mc.ModelError, match="a reference group needs labels or categories"):
        completed.draws(1, shift={"y3": number_of_group})


def test_wide_tables_have_no_reference_group(monkeypatch):
    frame = trial(4, n=60)
    monkeypatch.setattr("mcframe.tables.pipeline.takes_factors", lambda shape: True)
    completed = mc.complete(frame)
    with pytest.raises(mc.ModelError, match="so wide that it has factors, which hold back"):
        completed.draws(1, shift={"y3": mc.shift(by="arm", to="control")})
    by_group = mc.shift({"treated": -1.0}, by="arm")
    [plain], [shifted] = completed.draws(1), completed.draws(1, shift={"y3": by_group})
    expected = np.where(frame["y3"].isna() & (frame["arm"] == "treated"), -1.0, 0.0)
    np.testing.assert_allclose(shifted["y3"] - plain["y3"], expected, atol=1e-9)
