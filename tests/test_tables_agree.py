"""All answers of a completed table agree: the table, predictions, errors, new rows, the report."""

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings

import mcframe as mc
from mcframe.tables.coding import Choice
from mcframe.tables.columns import read_column_like
from mcframe.tables.date_coding import DAY_MICROSECONDS, Dates
from mcframe.tables.indicator_codings import Steps

from .strategies import SHAPES, constant_tables, related_tables, tables_of_chance


def codes_of(completed, table):
    """The codes of a table with the columns of a completed one, by name; of those in a block."""
    given = nw.from_native(table)
    return {
        each.name: each.coding.codes(read_column_like(given[each.name], each.column))
        for each in completed.declared.columns
        if each.place is not None
    }


def best_of(coding, p):
    """The median of levels that are numbers, else the most probable value."""
    median = np.argmax(np.cumsum(p, axis=1) >= 0.5, axis=1)
    return median if isinstance(coding, Steps) else np.argmax(p, axis=1)


def check_answers_agree(completed, rows=None):
    """What the table holds is what is predicted, with the errors that these predictions have.

    ``rows`` are those of the table without its answers, to be completed as new ones.
    """
    filled, posterior = (
        codes_of(completed, completed.table),
        isinstance(completed.answer, mc.Posterior),
    )
    again = None if rows is None else codes_of(completed, completed.complete_rows(rows))
    sds = completed.expected_errors
    for each in completed.declared.columns:
        holes = np.flatnonzero(each.column.missing)
        if each.place is None or not holes.size:
            continue
        said = nw.from_native(completed.predict(each.name)).to_numpy()[holes]
        answers, coding = filled[each.name][holes], each.coding
        if isinstance(coding, Choice):
            assert ((said > 0.0) & (said < 1.0)).all() or said.shape[1] == 1
            np.testing.assert_allclose(said.sum(axis=1), 1.0)
            np.testing.assert_array_equal(answers, best_of(coding, said))
            if posterior:
                own = said[np.arange(holes.size), answers.astype(int)]
                np.testing.assert_allclose(sds[each.name], 1.0 - own, atol=1e-12)
        else:
            said = numbers_said(each, said[:, 0]) / coding.unit
            np.testing.assert_allclose(answers, said, rtol=1e-9, atol=step_of(each))
        if again is None:
            continue
        new = again[each.name][holes]
        if isinstance(coding, Choice):  # the same but for ties
            lost = said[np.arange(holes.size), answers.astype(int)]
            lost = lost - said[np.arange(holes.size), new.astype(int)]
            assert (np.abs(lost) < 1e-6)[new != answers].all()
        else:
            slack = 2.0 * step_of(each) + 1e-6 * float(np.max(sds[each.name])) / coding.unit
            np.testing.assert_allclose(new, answers, rtol=1e-6, atol=slack)


def numbers_said(each, said):
    """Predictions in the numbers of codes: of dates days since their centre."""
    if not isinstance(each.coding, Dates):
        return said.astype(float)
    moments = said.astype("datetime64[us]").astype(np.int64)
    return (moments - each.coding.centre) / DAY_MICROSECONDS


def step_of(each):
    """How far codes are rounded: of whole and decimal numbers, and of dates in days."""
    coding = each.coding
    if each.column.decimals is not None:
        return 0.5000001 * 10.0 ** -each.column.decimals[1] / coding.unit
    if isinstance(coding, Dates):
        return 0.5000001 * coding.step / DAY_MICROSECONDS
    return 0.5000001 if coding.whole is not None else 0.0


@pytest.mark.parametrize("n", [4, pytest.param(8, marks=pytest.mark.slow(seconds=3))])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_all_answers_of_a_table_agree(n):
    @settings(max_examples=n, phases=[Phase.generate])
    @given(related_tables())
    def agree(drawn):
        _, frame, types = drawn
        completed = mc.complete(frame, types)
        check_answers_agree(completed, frame)

    agree()


@settings(max_examples=6, phases=[Phase.generate], deadline=None)
@given(related_tables())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_answers_and_draws_lie_in_the_support_of_their_column(drawn):
    _, frame, types = drawn
    completed = mc.complete(frame, types)
    new = completed.interval_rows(frame, 0.9)
    tables = [completed.table, *completed.draws(2), *completed.interval(0.95), *new]
    for name, (_, lower, upper) in SHAPES.items():
        name = f"{name} of a support"
        if name not in frame or not frame[name].notna().sum() >= 10:
            continue
        for table in tables:
            assert table[name].between(lower, upper).all(), name


@settings(max_examples=4, phases=[Phase.generate], deadline=None)
@given(related_tables())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_all_answers_of_a_declared_model_agree(drawn):
    _, frame, types = drawn
    declared = mc.declare(frame, types)
    check_answers_agree(mc.Completion.of(declared, mc.posterior(*declared)))
    check_answers_agree(mc.Completion.of(declared, mc.fit(*declared)))


def numbers_and_labels(seed):
    """A table of two numbers and a column of 0 and 1 that they tell of."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(40)
    y = (x + 0.7 * rng.standard_normal(40) > 0.0).astype(float)
    y[::3] = np.nan
    return pd.DataFrame({"x": x, "z": x + rng.standard_normal(40), "y": y})


LABELS = [
    mc.RiskMixture(pn=1.0, likelihood=mc.Gaussian()),
    mc.RiskMixture(pn=1.0, likelihood=mc.Bernoulli()),
    mc.Bernoulli("probit"),
    mc.Hinge(),
]


@pytest.mark.parametrize("likelihood", LABELS, ids=str)
@pytest.mark.parametrize(
    "dtype", ["float64", pytest.param("Int64", marks=pytest.mark.slow(seconds=3))]
)
@pytest.mark.some(0.9, likelihood=2)
def test_likelihoods_of_labels_fill_0_and_1_with_labels(likelihood, dtype):
    frame = numbers_and_labels(LABELS.index(likelihood)).astype({"y": dtype})
    completed = mc.complete(frame, {"y": likelihood})
    assert set(completed.table["y"]) == {0, 1}
    p = completed.predict("y").to_numpy()
    assert p.shape == (40, 2)
    assert ((p >= 0.0) & (p <= 1.0)).all()
    check_answers_agree(completed, frame)


def test_positive_labels_alone_are_labels():
    frame = numbers_and_labels(1)
    frame["y"] = frame["y"].where(frame["y"] == 1.0)
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.6, likelihood=mc.Gaussian())
    model = mc.Model([mc.Block("b", risk), mc.Block("n", mc.Gaussian())], [mc.NuclearNorm(2.0)])
    declared = mc.declare(frame, model=model, columns={"b": ["y"], "n": ["x", "z"]})
    completed = mc.Completion.of(declared, mc.fit(*declared))
    assert set(completed.table["y"]) == {0.0, 1.0}
    check_answers_agree(completed, frame)


@settings(max_examples=20, phases=[Phase.generate], deadline=None)
@given(constant_tables())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tables_of_constants_are_filled_with_them(drawn):
    """By the posterior, the optimum, a declared model, draws, and in new rows."""
    whole, frame = drawn
    completed = mc.complete(frame)
    declared = mc.declare(frame)
    new = completed.complete_rows(frame)
    tables = [completed.table, mc.complete(frame, method="optimum").table, new]
    tables += [declared.table(mc.fit(*declared)), *completed.draws(2)]
    tables += mc.Completion.of(declared, mc.posterior(*declared)).draws(2)
    for name in whole.columns:
        [constant] = declared.column(name).constant
        assert float(constant) == 7.0 if name == "text number" else constant == whole[name][0]
        for table in tables:
            assert nw.from_native(table)[name].to_list() == [constant] * len(whole)
        assert (nw.from_native(completed.predict(name)).to_numpy() == 1.0).all()
        if name in completed.expected_errors:
            assert (completed.expected_errors[name] == 0.0).all()
    for each, scores in zip(completed.declared.columns, completed.scores, strict=True):
        assert (each.kind == "constant") == (each.name in whole.columns)
        assert scores is None or (scores.error == 0.0 and np.isnan(scores.loss))


def test_constants_alone_come_with_a_note_and_empty_columns_with_the_warning():
    frame = pd.DataFrame(
        {"state": ["NSW", None, "NSW"], "flag": [1.0, 1.0, None], "e": [np.nan] * 3}
    )
    aside = r"neither used nor filled: 'e' \(not one of its values is observed"
    filled = r"single observed value are filled with it.*'state' \('NSW'\), 'flag' \(1.0\)"
    with pytest.warns(UserWarning, match=aside), pytest.warns(UserWarning, match=filled):
        completed = mc.complete(frame)
    assert completed.table["state"].tolist() == ["NSW"] * 3
    assert completed.table["flag"].tolist() == [1.0] * 3
    assert completed.table["e"].isna().all()


def log_losses(completed, whole, frame, name):
    """-log of the probabilities of hidden values, and of their shares, entry by entry."""
    hidden = frame[name].isna().to_numpy()
    said = completed.predict(name)
    values, p = [str(value) for value in said.columns], said.to_numpy()
    shares = np.array([(frame[name].dropna().astype(str) == value).mean() for value in values])
    truth = whole[name].astype(str).to_numpy()[hidden]
    at = np.array([values.index(value) for value in truth])
    return -np.log(p[hidden][np.arange(at.size), at]), -np.log(shares[at])


@pytest.mark.parametrize("n", [8, pytest.param(25, marks=pytest.mark.slow(seconds=9))])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_probabilities_are_not_worse_than_constant_ones_where_the_report_says_better(n):
    """At hidden entries, beyond what chance allows; and no answer is infinitely wrong."""

    @settings(max_examples=n, phases=[Phase.generate], deadline=None)
    @given(tables_of_chance())
    def are_not_worse(drawn):
        whole, frame = drawn
        completed = mc.complete(frame)
        report = completed.report().set_index("column")
        lost, constant = log_losses(completed, whole, frame, "k")
        assert np.isfinite(lost).all()
        if report.loc["k", "loss"] < 1.0:
            worse = lost - constant
            assert np.sum(worse) <= 3.0 * np.sqrt(np.sum(np.square(worse))) + 1.0

    are_not_worse()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rows_of_low_numbers_have_a_low_probability_under_a_mixture():
    """A label that follows three numbers; the fits of folds know less than that of all rows."""
    rng = np.random.default_rng(4)
    s = rng.standard_normal(120)
    numbers = s[:, None] + 0.8 * rng.standard_normal((120, 3))
    whole = pd.DataFrame(numbers, columns=list("abc"))
    whole["k"] = np.where(s + 0.6 * rng.standard_normal(120) > 0.3, "yes", "no")
    hidden = rng.random(whole.shape) < 0.25
    hidden[::15] = True
    frame = whole.mask(hidden)
    completed = mc.complete(frame)
    assert completed.chosen.components > 1
    low = hidden[:, 3] & (frame[list("abc")].sum(axis=1).to_numpy() < -3.0)
    assert np.count_nonzero(low) > 2
    assert (completed.predict("k")["yes"][low] < 0.2).all()
    lost, constant = log_losses(completed, whole, frame, "k")
    loss = completed.report().set_index("column").loc["k", "loss"]
    assert np.sum(lost) / np.sum(constant) == pytest.approx(loss, abs=0.15)


@pytest.mark.parametrize("dtype", ["float64", "Int64"])
def test_counts_that_are_all_0_are_filled_with_0(dtype):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"accidents": np.zeros(30), "x": rng.normal(size=30)})
    frame.loc[[2, 5], "accidents"] = np.nan
    frame = frame.astype({"accidents": dtype})
    completed = mc.complete(frame, {"accidents": "count"})
    assert completed.table["accidents"].tolist() == [0] * 30
    assert completed.report()["loss"][0] == 0.0
    check_answers_agree(completed, frame)


def test_the_report_expects_levels_off_in_the_unit_of_the_error():
    rng = np.random.default_rng(0)
    z = rng.standard_normal(120)
    level = pd.Categorical(np.digitize(z, [-1.0, 0.0, 1.0]), ordered=True)
    frame = pd.DataFrame({"x": z + 0.7 * rng.standard_normal(120), "level": level})
    frame.loc[::4, "level"] = None
    completed = mc.complete(frame)
    report, p = completed.report().set_index("column"), completed.predict("level")[::4].to_numpy()
    filled = completed.table["level"][::4].astype(int).to_numpy()
    expected = np.sum(p * np.abs(np.arange(4) - filled[:, None]), axis=1)
    assert report.loc["level", "sd"] == pytest.approx(np.mean(expected))
    assert report.loc["level", "sd"] == pytest.approx(report.loc["level", "error"], abs=0.2)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"w": [1.0, 2.0, None], "y": [3.0, 5.0, None]}),
        pd.DataFrame({"t": ["a", None, "b", "a"], "x": [1.0, 2.0, None, 4.0]}),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_loss_and_error_are_over_the_same_constant(frame):
    report = mc.complete(frame).report()
    numbers = report[report["measure"] == "root mean square"]
    ratio = numbers["error"] / numbers["error_of_constant"]
    np.testing.assert_allclose(numbers["loss"], np.square(ratio.astype(float)))
