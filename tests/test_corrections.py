"""Nonlinear corrections of columns that ``complete`` fills."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor

import mcframe as mc
from mcframe.numerics.boosted_trees import (
    BINS,
    LEAVES,
    MANY_ROWS,
    MORE_BINS,
    MORE_LEAVES,
    BoostedTrees,
)
from mcframe.posterior.row_corrections import ColumnCorrection
from mcframe.tables import corrections


def bent(rows=500, seed=0, share=0.2):
    """A table of numbers and a label that bend with others, whole and with entries hidden."""
    rng = np.random.default_rng(seed)
    x, u, v, w = rng.standard_normal((4, rows))
    noise = 0.3 * rng.standard_normal((5, rows))
    frame = pd.DataFrame(
        {
            "x": x,
            "u": u,
            "v": v,
            "square": x**2 + noise[0],
            "hinge": np.maximum(u, 0.0) + noise[1],
            "product": u * v + noise[2],
            "line": x + u + noise[3],
            "far": np.where(np.abs(w) + noise[4] > 0.7, "yes", "no"),
            "w": w,
        }
    )
    return frame, frame.mask(rng.random(frame.shape) < share)


def engine_rows(completed):
    return completed.posterior.engine.rows


@pytest.fixture(scope="module")
def corrected():
    """The whole table, the incomplete one, and what fills it with and without corrections."""
    whole, frame = bent()
    return whole, frame, mc.complete(frame, nonlinear=False), mc.complete(frame)


def errors_of(completed, whole, frame, name):
    hidden = frame[name].isna()
    return np.sqrt(np.mean(np.square(completed.table[name] - whole[name])[hidden]))


def test_what_bends_is_filled_better_and_what_does_not_stays(corrected):
    whole, frame, plain, completed = corrected
    report = completed.report().set_index("column")
    gains = []
    for name in ("square", "hinge", "product"):
        assert report.error[name] < report.error_uncorrected[name]
        before, after = (errors_of(answer, whole, frame, name) for answer in (plain, completed))
        gains.append(after / before)
    assert np.mean(gains) < 0.93
    before = plain.report().set_index("column")
    taken = report.error_uncorrected.notna()
    assert taken.sum() < len(taken)
    np.testing.assert_array_equal(report.error_uncorrected[taken], before.error[taken])
    for name in report.index[~taken]:  # corrections have no part in other columns
        pd.testing.assert_series_equal(completed.table[name], plain.table[name])
        pd.testing.assert_series_equal(completed.sd[name], plain.sd[name])
    assert "columns that similar rows or trees correct" in repr(completed)
    assert "columns that trees correct" not in repr(plain)


def means_on_scale(completed, name):
    """The means of a column's numbers in all rows."""
    column = completed.declared.column(name)
    cells = column.entries(np.arange(len(completed.table)))
    return completed.posterior.predict(column.block, *cells)


def test_observed_entries_have_no_correction(corrected):
    _, frame, plain, completed = corrected
    for name in ("hinge", "product"):
        seen = frame[name].notna().to_numpy()
        before, after = (means_on_scale(answer, name) for answer in (plain, completed))
        np.testing.assert_array_equal(before[seen], after[seen])
        assert np.all(before[~seen] != after[~seen])


def test_without_a_correction_the_answer_is_the_same(monkeypatch):
    monkeypatch.setattr("mcframe.tables.corrections.LEAST_GAIN", 1e9)
    rng = np.random.default_rng(3)
    numbers = rng.multivariate_normal(np.zeros(3), 0.5 + 0.5 * np.eye(3), 300)
    frame = pd.DataFrame(numbers, columns=["a", "b", "c"])
    frame["b"] = frame["b"].mask(rng.random(300) < 0.2)
    plain, completed = mc.complete(frame, nonlinear=False), mc.complete(frame)
    assert engine_rows(completed).corrections is None
    pd.testing.assert_frame_equal(plain.table, completed.table)
    pd.testing.assert_frame_equal(plain.report(), completed.report())


def test_intervals_and_draws_hold_the_truth(corrected):
    whole, frame, _, completed = corrected
    hidden = frame.isna()
    lower, upper = completed.interval(0.9)
    draws = completed.draws(60)  # squares of few have heavy tails
    covered, by_draws = [], []
    for name in ("square", "hinge", "product", "line", "x", "u"):
        at = hidden[name]
        truth = whole[name][at]
        covered.append((lower[name][at] <= truth) & (truth <= upper[name][at]))
        drawn = np.array([draw[name][at] for draw in draws])
        by_draws.append(np.mean(drawn < truth.to_numpy(), axis=0))
        spread = np.std(drawn, axis=0)
        ratio = np.sqrt(np.mean(spread**2) / np.mean(np.square(completed.sd[name][at])))
        assert 0.8 < ratio < 1.25
    assert 0.85 < np.mean(np.concatenate(covered)) < 0.95
    ranks = np.concatenate(by_draws)
    assert 0.85 < np.mean((ranks > 0.03) & (ranks < 0.97)) < 0.99


def test_both_parts_of_a_number_beside_a_point_mass_are_corrected():
    rng = np.random.default_rng(5)
    x, u = rng.standard_normal((2, 800))
    amount = np.where(np.abs(x) < 0.7, 0.0, 2.0 + u**2 + 0.2 * rng.standard_normal(800))
    whole = pd.DataFrame({"x": x, "u": u, "amount": amount})
    frame = whole.assign(amount=whole["amount"].mask(rng.random(800) < 0.3))
    plain, completed = mc.complete(frame, nonlinear=False), mc.complete(frame)
    before, after = (errors_of(answer, whole, frame, "amount") for answer in (plain, completed))
    assert after < 0.7 * before
    corrections = engine_rows(completed).corrections.columns
    assert [list(one.features.numbers) for one in corrections] == [[2], [3]]
    at = frame["amount"].isna()
    lower, upper = (ends["amount"][at] for ends in completed.interval(0.9))
    assert 0.85 < np.mean((lower <= amount[at]) & (amount[at] <= upper)) < 0.99
    for draw in completed.draws(5):
        is_zero = draw["amount"][at] == 0.0
        assert np.mean(is_zero == (amount[at] == 0.0)) > 0.9
        assert draw["amount"][at].min() >= 0.0


@pytest.mark.parametrize("kind", ["label", "category", "number", "zeros"])
def test_draws_are_corrected_by_what_is_observed_alone(kind):
    """Gaps of one column tell of another, and what is drawn there is no observation of it."""
    rng = np.random.default_rng(0)
    n = 400
    age, here = rng.normal(45.0, 12.0, n), rng.random(n) < 0.6
    size = np.where(here, 1.5, -0.5) + 0.4 * rng.standard_normal(n)
    target = {
        "label": np.where(here, "yes", "no"),
        "category": np.where(here, np.where(age > 45.0, "b", "a"), "c"),
        "number": size,
        "zeros": np.where(here, np.abs(size), 0.0),
    }[kind]
    frame = pd.DataFrame({"age": age, "target": target, "other": age + rng.normal(0.0, 3.0, n)})
    frame["other"] = frame["other"].where(here)
    whole = frame.copy()
    frame = frame.mask(rng.random(frame.shape) < [0.0, 0.2, 0.1])
    completed = mc.complete(frame)
    assert "'target'" in repr(completed).split("trees correct")[1]
    gaps = frame["target"].isna()
    draws = completed.draws(60)
    for rows in (gaps, gaps & frame["other"].isna()):
        if kind in ("number", "zeros"):
            drawn = np.mean([draw["target"][rows].mean() for draw in draws])
            filled = completed.table["target"][rows].mean()
            tolerance = 3.0 * whole["target"].std() / np.sqrt(60.0 * rows.sum()) + 0.03
            assert drawn == pytest.approx(filled, abs=tolerance)
            continue
        said = completed.predict("target")[rows]
        for value in said.columns:
            drawn = np.mean([(draw["target"][rows] == value).mean() for draw in draws])
            assert drawn == pytest.approx(said[value].mean(), abs=0.04)


def test_draws_of_a_product_keep_its_curve(corrected):
    whole, frame, plain, completed = corrected
    at = frame["product"].isna() & frame["u"].notna() & frame["v"].notna()

    def slope(answer):
        drawn = np.mean([draw["product"][at] for draw in answer.draws(10)], axis=0)
        return np.polyfit(whole.u[at] * whole.v[at], drawn, 1)[0]

    assert slope(completed) > slope(plain) + 0.1


def test_probabilities_are_those_of_corrected_answers():
    whole, frame = bent(600, 5)
    plain, completed = (mc.complete(frame, nonlinear=on) for on in (False, True))
    assert completed.report().set_index("column").error_uncorrected.notna()["far"]
    at = frame["far"].isna()

    def log_loss(answer):
        p = answer.predict("far")[at]
        right = np.where(whole.far[at] == "yes", p["yes"], p["no"])
        return -np.mean(np.log(right))

    assert log_loss(completed) < 0.95 * log_loss(plain)


def test_new_rows_are_corrected_as_those_of_the_table(corrected):
    _, frame, _, completed = corrected
    some = frame.iloc[:80]
    filled = completed.complete_rows(some)
    pd.testing.assert_frame_equal(filled, completed.table.iloc[:80])
    for end, end_of_table in zip(completed.interval_rows(some), completed.interval(), strict=True):
        pd.testing.assert_frame_equal(end, end_of_table.iloc[:80])


def test_files_keep_corrections(corrected, tmp_path):
    _, frame, _, completed = corrected
    loaded = mc.load(completed.save(tmp_path / "completed.npz"))
    pd.testing.assert_frame_equal(loaded.table, completed.table)
    pd.testing.assert_frame_equal(loaded.sd, completed.sd)
    pd.testing.assert_frame_equal(loaded.report(), completed.report())
    pd.testing.assert_frame_equal(loaded.draws(1)[0], completed.draws(1)[0])
    some = frame.iloc[:20]
    pd.testing.assert_frame_equal(loaded.complete_rows(some), completed.complete_rows(some))


def test_a_correction_that_is_planted_wrong_is_seen(corrected, monkeypatch):
    """Where trees correct by the wrong sign, errors at held-out and at hidden entries rise."""
    whole, frame, plain, completed = corrected
    shifts = ColumnCorrection.shifts
    monkeypatch.setattr(ColumnCorrection, "shifts", lambda *given: -shifts(*given))
    faulty = completed.declared.table(completed.posterior.condition(completed.declared.data))
    hidden = frame["product"].isna()
    before, after = (
        np.mean(np.square(table["product"] - whole["product"])[hidden])
        for table in (plain.table, faulty)
    )
    assert after > before


def test_trees_equal_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    design = rng.standard_normal((400, 5))
    design[:, 3] = np.rint(design[:, 3])
    response = design[:, 0] ** 2 + design[:, 3]
    for loss in ("squared_error", "gamma"):
        booster = HistGradientBoostingRegressor(loss=loss, max_iter=30, random_state=0)
        booster.fit(design, response - response.min() + 0.1)
        predicted = BoostedTrees.of(booster).predict(design)
        expected = booster.predict(design)
        if loss == "gamma":
            predicted = np.exp(predicted)
        np.testing.assert_allclose(predicted, expected, rtol=1e-12)


def test_trees_have_more_leaves_and_bins_of_many_rows():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((MANY_ROWS, 3))
    y = np.sin(3.0 * x[:, 0]) * x[:, 1]
    for n_rows, leaves, fewest, most in (
        (MANY_ROWS - 1, LEAVES, 1, BINS - 1),
        (MANY_ROWS, MORE_LEAVES, BINS, MORE_BINS - 1),
    ):
        trees = BoostedTrees.fitted(x[:n_rows], y[:n_rows], 0)
        ends = np.append(trees.roots[1:], trees.features.size)
        pairs = zip(trees.roots, ends, strict=True)
        assert max(np.sum(trees.features[root:end] < 0) for root, end in pairs) == leaves
        thresholds = [np.unique(trees.thresholds[trees.features == k]).size for k in range(3)]
        assert fewest <= max(thresholds) <= most


def test_equal_weights_are_none():
    """Features are then binned without weighted quantiles, which take longer than the trees."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((300, 4)), rng.standard_normal(300)
    plain, equal = (BoostedTrees.fitted(x, y, 0, weights) for weights in (None, np.full(300, 2.5)))
    np.testing.assert_array_equal(plain.values, equal.values)
    np.testing.assert_array_equal(plain.thresholds, equal.thresholds)


def test_classes_levels_and_counts_are_corrected():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 900))
    r = x**2 + y**2
    frame = pd.DataFrame({"x": x, "y": y})
    frame["ring"] = np.array(["in", "mid", "out"])[np.digitize(r, [0.7, 2.2])]
    levels = pd.cut(np.abs(x), [-1, 0.4, 0.8, 1.3, 9], labels=["a", "b", "c", "d"])
    frame["level"] = levels
    frame["count"] = rng.poisson(np.exp(1.5 * np.abs(y)))
    incomplete = frame.mask(rng.random(frame.shape) < 0.15)
    types = {"count": "count"}
    completed = mc.complete(incomplete, types, nonlinear=True)
    report = completed.report().set_index("column")
    assert report.error_uncorrected[["ring", "level", "count"]].notna().sum() >= 2
    p = completed.predict("ring").to_numpy()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    [draw] = completed.draws(1)
    assert not draw.isna().to_numpy().any()


def test_long_tables_learn_from_some_of_their_rows(monkeypatch):
    """Of a table whose rows are a sample, those held out are judged by trees of others."""
    monkeypatch.setattr("mcframe.tables.pipeline.SUBSAMPLE_NUMBERS", 12600)
    monkeypatch.setattr("mcframe.tables.corrections.MOST_ROWS", 250)
    whole, frame = bent(1600, 2)
    plain, completed = (mc.complete(frame, nonlinear=on) for on in (False, True))
    assert engine_rows(completed).corrections is not None
    gains = [
        errors_of(completed, whole, frame, name) / errors_of(plain, whole, frame, name)
        for name in ("square", "hinge", "product")
    ]
    assert np.mean(gains) < 1.0


@pytest.mark.slow(seconds=3)
def test_gaps_in_clusters_tell_nothing_of_other_clusters():
    """Tenths of the rows lack three of seven columns, and the last one rises from tenth to tenth.

    Gaps tell the tenth, and so the number where it is observed, but not where it is missing.
    """
    ratios, covered = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        values = rng.standard_normal((400, 7))
        values[:, :6] += values[:, :1]
        values = values[np.argsort(values[:, 6])]
        hidden = np.array([rng.permutation(7) < 3 for _ in range(10)]).repeat(40, axis=0)
        whole = pd.DataFrame(values, columns=list("abcdefg"))
        gaps = hidden[:, 6]
        plain, completed = (
            mc.complete(whole.mask(hidden), nonlinear=nonlinear) for nonlinear in (False, None)
        )
        errors = [
            np.sqrt(np.mean(np.square(answer.table["g"] - whole["g"])[gaps]))
            for answer in (plain, completed)
        ]
        ratios.append(errors[1] / errors[0])
        lower, upper = completed.interval(0.9)
        covered.append(np.mean(((lower <= whole) & (whole <= upper))["g"][gaps]))
    assert np.mean(ratios) < 1.1
    assert np.mean(covered) > 0.6


def test_rows_with_the_same_gaps_are_in_one_part():
    rng = np.random.default_rng(0)
    gaps, of_others = rng.random((200, 4)) < 0.5, rng.random((3, 4)) < 0.5
    parts = corrections.parts_by_gaps(gaps, of_others)
    assert np.ptp(np.bincount(parts, minlength=corrections.PARTS)) < 40
    known = {row.tobytes() for row in of_others}
    for pattern in np.unique(gaps, axis=0):
        own = parts[(gaps == pattern).all(axis=1)]
        is_split = np.unique(own).size == min(corrections.PARTS, own.size)
        assert is_split if pattern.tobytes() in known else np.unique(own).size == 1


@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 40, 200]), st.sampled_from([0, 1, 5]))
@settings(max_examples=40, deadline=None)
def test_gaps_of_rows_are_compared_by_the_usual_test_of_shares(seed, m, q):
    rng = np.random.default_rng(seed)
    gaps, of_others = rng.random((100, q)) < 0.3, rng.random((m, q)) < rng.choice([0.3, 0.6])
    p_values = [1.0]
    for a, b in zip(gaps.T, of_others.T, strict=True):
        counts = np.array([[a.sum(), b.sum()], [(~a).sum(), (~b).sum()]])
        if m and counts.sum(axis=1).all():
            p_values.append(scipy.stats.chi2_contingency(counts, correction=False).pvalue)
    wanted = min(p_values) * q <= corrections.GAPS_LEVEL if q else False
    assert corrections.are_associated(gaps, of_others) == wanted


@pytest.mark.parametrize("what", ["groups", "relations", "limits"])
def test_what_cannot_be_combined_is_said(what):
    frame = bent(120)[1][["x", "u", "square"]].assign(v=bent(120)[0].v)
    options = {}
    if what == "groups":
        options = {"groups": [k % 6 for k in range(len(frame))]}
    elif what == "relations":
        frame["sum"] = frame.x + frame.u
        options = {"relations": ["sum = x + u"]}
    else:
        frame["x"] = [f"{value:.3f}" if value > -1.0 else "<-1" for value in frame.x.fillna(0.5)]
        options = {"types": {"x": "number"}}
    with pytest.warns(UserWarning, match="nonlinear=True has no effect"):
        completed = mc.complete(frame, nonlinear=True, **options)
    assert engine_rows(completed).corrections is None


def test_columns_that_apply_to_some_rows_and_gaps_that_stay():
    _, frame = bent(400, 4)
    where = np.ones(frame.shape, dtype=bool)
    where[:50] = False
    completed = mc.complete(frame, nonlinear=True, where=where)
    assert engine_rows(completed).corrections is not None
    assert completed.table.iloc[:50].isna().equals(frame.iloc[:50].isna())
    assert not completed.table.iloc[50:].isna().to_numpy().any()


def test_an_optimum_has_no_correction():
    _, frame = bent(60)
    with pytest.raises(mc.ModelError, match="nonlinear=True corrects the posterior"):
        mc.complete(frame, method="optimum", nonlinear=True)
    with pytest.raises(mc.ModelError, match="nonlinear='yes' was given"):
        mc.complete(frame, nonlinear="yes")


@pytest.mark.slow(seconds=3)
def test_draws_with_terms_keep_these(corrected):
    _, _, plain, completed = corrected
    for answer in (plain, completed):
        pooled = mc.pool.formula("product ~ u + v + u:v", answer.draws(5, terms=["u:v"]))
        slope = dict(zip(pooled.names, np.ravel(pooled.estimate), strict=True))["u:v"]
        assert slope == pytest.approx(1.0, abs=0.1)


# Columns that depend on x and u in curves and steps, of n rows.
CURVED = {
    "square": lambda x, u, noise: x**2 + 0.2 * noise,
    "spending": lambda x, u, noise: np.where(np.abs(x) < 0.6, 0.0, np.exp(u)),
    "loss": lambda x, u, noise: np.where(u > 0.0, -3.5, x**3),
    "skewed": lambda x, u, noise: np.exp(2.0 * x + 0.3 * u**2),
    "share": lambda x, u, noise: 1.0 / (1.0 + np.exp(-x * u)),
    "far off": lambda x, u, noise: 1e9 * x**2 + 1e12,
    "level": lambda x, u, noise: np.digitize(x**2, [0.3, 1.0, 2.0]).astype(float),
    "label": lambda x, u, noise: pd.Categorical(np.where(np.abs(u) + noise > 0.7, "yes", "no")),
    "kind": lambda x, u, noise: pd.Categorical(np.digitize(x * u, [-0.5, 0.5]).astype(str)),
}


def clusters(rng, frame):
    """Fifths of the rows, in the order of a column, lack a third of the columns each."""
    fifths = np.argsort(np.argsort(frame["u"])) * 5 // len(frame)
    return rng.random((5, frame.shape[1]))[fifths] < 0.33


def monotone(rng, frame):
    """Rows lack the columns from some place on."""
    return np.arange(frame.shape[1]) > rng.integers(0, 2 * frame.shape[1], len(frame))[:, None]


def matching(rng, frame):
    """Some rows lack one half of the columns, the others the other one."""
    is_first = np.arange(frame.shape[1]) % 2 == 0
    return np.where((rng.random(len(frame)) < 0.5)[:, None], is_first, ~is_first)


def drawn_table(seed):
    """A table of curved columns of any scale, whole and with gaps, and options of its rows.

    Some have gaps in patterns, whose rows keep the first column; of others ``by_chance`` is true.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(90, 400))
    x, u, noise = rng.standard_normal((3, n))
    if rng.random() < 0.3:  # rows that come again
        again = rng.integers(max(n // 4, 1), size=n)
        x, u, noise = x[again], u[again] + 0.02 * rng.standard_normal(n), noise[again]
    columns = {"x": x * 10.0 ** rng.uniform(-8.0, 8.0), "u": u}
    for name in rng.permutation(list(CURVED))[: rng.integers(3, 8)]:
        columns[str(name)] = CURVED[str(name)](x, u, noise)
    frame = pd.DataFrame(columns)
    options = {"row_weights": 10.0 ** rng.uniform(-3.0, 3.0, n)} if rng.random() < 0.3 else {}
    by_chance = rng.random() < 0.6
    hidden = rng.random(frame.shape) < rng.choice([0.1, 0.3, 0.5])
    if not by_chance:
        pattern = (clusters, monotone, matching)[rng.integers(3)]
        hidden = pattern(rng, frame) & (np.arange(frame.shape[1]) > 0)
    return frame, frame.mask(hidden), options, by_chance


@pytest.mark.parametrize(
    ("first", "count"),
    [
        *(pytest.param(first, 4, marks=pytest.mark.slow(seconds=7)) for first in (0, 24)),
        pytest.param(100, 40, marks=pytest.mark.slow(seconds=80)),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_corrections_of_drawn_tables(first, count, tmp_path):
    held, n_corrected = [], 0
    for seed in range(first, first + count):
        whole, frame, options, by_chance = drawn_table(seed)
        completed = mc.complete(frame, nonlinear=True, **options)
        n_corrected += int(completed.report()["error_uncorrected"].notna().sum())
        lower, upper = completed.interval(0.9)
        for name in lower:
            at = frame[name].isna()
            assert (lower[name][at] <= upper[name][at]).all(), (seed, name)
            if by_chance:
                held.append(((lower[name] <= whole[name]) & (whole[name] <= upper[name]))[at])
            assert (completed.sd[name][at] >= 0.0).all(), (seed, name)
        for draw in completed.draws(2):
            assert draw.notna().all().all()
            for name in {"spending", "share", "skewed"} & {*frame}:
                assert draw[name].min() >= 0.0, (seed, name)
        again = mc.load(completed.save(tmp_path / "completed.npz"))
        pd.testing.assert_frame_equal(again.table, completed.table)
        as_new = completed.complete_rows(frame)
        pd.testing.assert_frame_equal(again.complete_rows(frame), as_new)
        for name in frame.select_dtypes("number"):
            distance = np.abs(as_new[name] - completed.table[name]).max()
            assert distance <= 1e-6 * whole[name].std(), (seed, name)
    assert n_corrected > 0
    assert 0.86 < np.mean(np.concatenate(held)) < 0.99
