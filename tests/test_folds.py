"""Folds: what is held out, what always stays, and how new rows and later entries are judged."""

import attrs
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import mcframe as mc
from mcframe.selection import (
    EntryFolds,
    HeldOutLoss,
    RelativeDeviance,
    RelativeError,
    RowFolds,
    TimeFolds,
    folds_of,
)
from mcframe.selection.cross_validation import checked_splitter

EDGE = "ignore:the lowest mean score is at"
GAUSSIAN = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
MIXED = mc.Model(
    [mc.Block("x", mc.Gaussian()), mc.Block("y", mc.Bernoulli(), bias=True)],
    [mc.NuclearNorm(1.0)],
)


def draw(folds, model, data, seed=0):
    return folds_of(folds, mc.Problem.bind(model, data), data, seed)


def times_held(folds, name, shape):
    """How often each entry of a block is held out."""
    held = np.zeros(shape, dtype=int)
    for fold in folds:
        np.add.at(held, (fold.held[name].rows, fold.held[name].columns), 1)
    return held


@st.composite
def sparse_tables(draw):
    """Two blocks with few entries: most rows and columns have one or two."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, share = draw(st.integers(8, 30)), draw(st.floats(0.05, 0.5))
    x, y = rng.standard_normal((n, 6)), (rng.random((n, 4)) < 0.3) * 1.0
    x[rng.random(x.shape) > share] = np.nan
    y[rng.random(y.shape) > share] = np.nan
    x[:3, :2], y[:3, :2] = 1.0, 1.0  # so that something can be held out of each block
    return {"x": x, "y": y}


@pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")
@pytest.mark.parametrize("folds", [EntryFolds(2), RowFolds(2)], ids=["entries", "rows"])
@given(sparse_tables(), st.permutations(range(6)), st.integers(0, 100))
def test_the_order_of_columns_and_blocks_and_their_units_play_no_part(folds, data, order, seed):
    turned = {"y": data["y"], "x": 1e3 * data["x"][:, order] + 7.0}
    turned_model = attrs.evolve(MIXED, blocks=MIXED.blocks[::-1])
    try:
        first = draw(folds, MIXED, data, seed)
    except mc.DataError:  # rows that hold out all of a block
        with pytest.raises(mc.DataError):
            draw(folds, turned_model, turned, seed)
        return
    for one, other in zip(first, draw(folds, turned_model, turned, seed), strict=True):
        for name in data:
            held = columns_and_held(data[name], one.held[name])
            wanted = columns_and_held(
                data[name][:, order] if name == "x" else data[name], other.held[name]
            )
            assert sorted(held) == sorted(wanted)


def columns_and_held(table, held):
    """Each column as bytes, with which of its entries are held out."""
    mask = np.zeros(table.shape, dtype=bool)
    mask[held.rows, held.columns] = True
    return [(values.tobytes(), own.tobytes()) for values, own in zip(table.T, mask.T, strict=True)]


@pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")
@given(sparse_tables(), st.integers(2, 4), st.integers(0, 100))
def test_no_row_and_no_column_is_left_without_an_entry(data, count, seed):
    folds = draw(EntryFolds(count), MIXED, data, seed)
    observed = {name: ~np.isnan(table) for name, table in data.items()}
    for fold in folds:
        left = {name: ~np.isnan(fold.data[name]) for name in data}
        for name in data:
            np.testing.assert_array_equal(left[name].any(axis=0), observed[name].any(axis=0))
        rows = [np.hstack([each[name] for name in data]).any(axis=1) for each in (left, observed)]
        np.testing.assert_array_equal(*rows)
    in_row = sum(each.sum(axis=1) for each in observed.values())
    for name, table in data.items():
        held = times_held(folds, name, table.shape)
        assert held.max() == 1
        alone = (in_row == 1)[:, None] | (observed[name].sum(axis=0) == 1)
        assert not held[alone | ~observed[name]].any()


def test_entries_are_held_out_once_where_rows_are_short():
    """Two entries a row: the lot would put both into one of three parts in a third of rows."""
    rng = np.random.default_rng(0)
    x = np.full((300, 10), np.nan)
    for row in x:
        row[rng.permutation(10)[:2]] = rng.standard_normal(2)
    folds = draw(EntryFolds(3), GAUSSIAN, {"x": x})
    np.testing.assert_array_equal(times_held(folds, "x", x.shape), ~np.isnan(x))
    sizes = [fold.held["x"].values.size for fold in folds]
    assert max(sizes) - min(sizes) < 60
    for fold in folds:
        assert (~np.isnan(fold.data["x"])).any(axis=1).all()


@pytest.mark.parametrize(
    ("likelihood", "values"),
    [
        (mc.Bernoulli(), [0.0, 1.0]),
        (mc.Multinomial(3), [0.0, 1.0, 2.0]),
        (mc.Ordinal(3), [1, 2, 3]),
    ],
)
def test_each_fold_has_its_share_of_rare_values(likelihood, values):
    rng = np.random.default_rng(1)
    y = rng.choice(values, p=[0.9, 0.1] if len(values) == 2 else [0.8, 0.15, 0.05], size=(200, 3))
    blocks = [mc.Block("y", likelihood), mc.Block("x", mc.Gaussian())]
    x = rng.standard_normal((200, 9))  # so that no row has all its entries in one part
    folds = draw(EntryFolds(5), mc.Model(blocks, [mc.NuclearNorm(1.0)]), {"y": y, "x": x})
    for column in range(3):
        for value in values:
            shares = [
                np.sum((fold.held["y"].columns == column) & (fold.held["y"].values == value))
                for fold in folds
            ]
            assert sum(shares) == np.sum(y[:, column] == value)
            assert max(shares) - min(shares) <= 1


def test_each_fold_has_its_share_of_every_column():
    x = np.random.default_rng(0).standard_normal((53, 4))
    for fold in draw(EntryFolds(5), GAUSSIAN, {"x": x}):
        counts = np.bincount(fold.held["x"].columns, minlength=4)
        assert set(counts.tolist()) <= {10, 11}


def test_random_folds_are_those_of_a_number():
    x = np.random.default_rng(0).standard_normal((20, 5))
    numbered = draw(checked_splitter(3), GAUSSIAN, {"x": x}, np.random.default_rng(4))
    named = draw(EntryFolds(3), GAUSSIAN, {"x": x}, seed=4)
    assert [fold.digest for fold in numbered] == [fold.digest for fold in named]
    other = draw(EntryFolds(3), GAUSSIAN, {"x": x}, seed=5)
    assert len({fold.digest for fold in (*named, *other)}) == 6


def test_one_column_has_no_entry_that_could_be_held_out():
    with pytest.raises(
        mc.DataError,
        match=r"block 'x': 5 folds were asked for, and 30 entries are observed, of which 0 can be"
        r" held out: each other one is the only entry of its row or of its column; ask for fewer"
        r" folds, at least 2, or hold out whole rows by cv=RowFolds\(5\) of mcframe.selection",
    ):
        draw(EntryFolds(5), GAUSSIAN, {"x": np.arange(30.0)})


@pytest.mark.filterwarnings(EDGE)
def test_new_rows_are_judged_as_predict_rows_answers(model, table):
    """By hand: a fit without the rows of the fold, the given entries, the others predicted."""
    folds = RowFolds(3, observed_blocks=["features"])
    weights = [0.05, 0.01]
    found = mc.cross_validate(
        model, table, criterion=HeldOutLoss("labels"), cv=folds, weights=weights,
        path=lambda model, data, weights: mc.path(model, data, weights=weights, tol=1e-8),
    )  # fmt: skip
    drawn = draw(folds, model, table)
    rows = [np.unique(fold.held["labels"].rows) for fold in drawn]
    assert np.unique(np.concatenate(rows)).size == sum(each.size for each in rows)
    for k, fold in enumerate(drawn):
        new = np.flatnonzero(np.isnan(fold.data["features"]).all(axis=1))
        assert set(rows[k]) <= set(new.tolist())
        kept = np.setdiff1d(np.arange(20), new)
        one = attrs.evolve(model, terms=[mc.NuclearNorm(weights[1])])
        fit = mc.fit(one, {name: values[kept] for name, values in table.items()}, tol=1e-8)
        p = fit.predict_rows("labels", {"features": table["features"][new]})
        y = table["labels"][new]
        seen = ~np.isnan(y)
        loss = -np.mean(np.log(np.where(y == 1.0, p, 1.0 - p)[seen]))
        assert found.scores[0, 1, k] == pytest.approx(loss, rel=1e-3)


@pytest.mark.parametrize("ridge", [None, 0.3])
def test_effects_of_new_rows_are_those_that_predict_rows_estimates(ridge):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 6)) + 5.0 * rng.standard_normal((30, 1)) + 1e6
    block = mc.Block("x", mc.Gaussian(), bias=True, row_effects=True, effects_weight=ridge)
    model = mc.Model([block], [mc.NuclearNorm(2.0)])
    for fold in draw(RowFolds(3, hidden=0.4), model, {"x": x}):
        with pytest.warns(mc.UnobservedWarning):
            fit = mc.fit(model, fold.data, tol=1e-9)
        held = fold.held["x"]
        answered = fold.answer(fit).predict("x", held.rows, held.columns)
        expected = fit.predict_rows("x", fold.observed_rows)[held.rows, held.columns]
        np.testing.assert_allclose(answered, expected, rtol=1e-12)


def test_of_new_rows_a_share_is_judged_and_the_rest_given():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 10))
    x[rng.random(x.shape) < 0.3] = np.nan
    x[0] = np.nan
    x[0, :2] = 1.0
    x[1] = np.nan
    x[1, 3] = 1.0
    folds = draw(RowFolds(4, hidden=0.4), GAUSSIAN, {"x": x})
    judged, observed = times_held(folds, "x", x.shape), ~np.isnan(x)
    n = observed.sum(axis=1)
    np.testing.assert_array_equal(judged.sum(axis=1)[2:], np.rint(0.4 * n)[2:])
    assert judged[0].sum() == 1
    assert judged[1].sum() == 0
    for fold in folds:
        given_entries = ~np.isnan(fold.observed_rows["x"])
        rows = np.unique(fold.held["x"].rows)
        assert np.isnan(fold.data["x"][rows]).all()
        here = np.zeros(x.shape, dtype=bool)
        here[fold.held["x"].rows, fold.held["x"].columns] = True
        assert not (here & given_entries).any()
        np.testing.assert_array_equal((here | given_entries)[rows], observed[rows])
        np.testing.assert_array_equal(fold.observed_rows["x"][given_entries], x[given_entries])


def test_rows_of_a_group_are_held_out_together():
    rng = np.random.default_rng(3)
    patients = np.array(["ann", "bob", "cid", "dan", "eve", "fay"])[rng.integers(0, 6, 60)]
    x = rng.standard_normal((60, 5))
    folds = draw(RowFolds(3, groups=patients), GAUSSIAN, {"x": x})
    seen = [set(patients[np.unique(fold.held["x"].rows)]) for fold in folds]
    assert set.union(*seen) == set(patients)
    assert sum(map(len, seen)) == 6
    sizes = [np.unique(fold.held["x"].rows).size for fold in folds]
    assert max(sizes) <= 30


def test_later_rows_are_new_ones():
    x = np.random.default_rng(3).standard_normal((40, 5))
    days = np.datetime64("2024-01-01") + np.random.default_rng(1).permutation(40)
    folds = draw(RowFolds(3, order=days), GAUSSIAN, {"x": x})
    assert len(folds) == 3
    for fold in folds:
        fitted = days[~np.isnan(fold.data["x"]).all(axis=1)]
        assert fitted.max() < days[fold.held["x"].rows].min()


@pytest.mark.filterwarnings(EDGE, "ignore::mcframe.UnobservedWarning")
@pytest.mark.parametrize("form", ["frame", "sparse", "weighted", "series"])
def test_rows_are_held_out_of_data_of_every_form(form):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((24, 2)) @ rng.standard_normal((2, 6))
    x[rng.random(x.shape) < 0.2] = np.nan
    seen, options = ~np.isnan(x), {"criterion": RelativeError("x"), "weights": [2.0, 0.5]}
    options["cv"] = RowFolds(3)
    forms = {
        "frame": pd.DataFrame(x, columns=list("abcdef"), index=[f"i{k}" for k in range(24)]),
        "sparse": sp.csr_array(sp.coo_array((x[seen], np.nonzero(seen)), shape=x.shape)),
        "weighted": mc.Observations(x, weights=np.ones((24, 1)), offset=np.zeros(x.shape)),
    }
    if form == "series":
        data = {"x": x, "y": pd.Series(rng.standard_normal(24), name="y")}
        model = mc.Model([*GAUSSIAN.blocks, mc.Block("y", mc.Gaussian())], GAUSSIAN.terms)
        assert np.isfinite(mc.cross_validate(model, data, **options).scores).all()
        return
    expected = mc.cross_validate(GAUSSIAN, {"x": x}, **options)
    found = mc.cross_validate(GAUSSIAN, {"x": forms[form]}, **options)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-3)


def test_the_future_is_held_out_entry_by_entry():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((30, 4)), rng.standard_normal((30, 2))
    when = rng.permutation(120).reshape(30, 4)
    model = mc.Model([*GAUSSIAN.blocks, mc.Block("y", mc.Gaussian())], GAUSSIAN.terms)
    folds = draw(TimeFolds({"x": when}, n_splits=4), model, {"x": x, "y": y})
    last = -1
    for fold in folds:
        fitted = when[~np.isnan(fold.data["x"])]
        held = when[fold.held["x"].rows, fold.held["x"].columns]
        assert last < fitted.max() < held.min()
        assert held.size == 24
        assert not np.isnan(fold.data["y"]).any()
        assert fold.held["y"].values.size == 0
        last = fitted.max()


@pytest.mark.filterwarnings(EDGE)
def test_blocks_without_a_held_out_entry_do_not_count(model, table):
    folds = TimeFolds({"labels": np.arange(20.0)[:, None]}, n_splits=2)
    options = {"cv": folds, "weights": [0.05, 0.01], "tol": 1e-2}
    several = [
        HeldOutLoss(),
        HeldOutLoss("labels"),
        RelativeDeviance(),
        RelativeDeviance("labels"),
    ]
    found = mc.cross_validate(model, table, criterion=several, **options)
    scores = list(found.all_scores.values())
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[2], scores[3])
    with pytest.warns(UserWarning, match=r"RelativeError\(block='features'\) is nan at weight"):
        mc.cross_validate(model, table, criterion=RelativeError(), **options)


def test_entries_of_one_time_are_not_parted():
    years = np.array([[2019, 2019, 2019, 2020, 2020, 2021]])
    x = np.random.default_rng(0).standard_normal((7, 6))
    folds = draw(TimeFolds({"x": years}, n_splits=2), GAUSSIAN, {"x": x})
    held = [np.unique(years[0, fold.held["x"].columns]).tolist() for fold in folds]
    assert held == [[2020], [2021]]


X = np.random.default_rng(0).standard_normal((6, 4))


@pytest.mark.parametrize(
    ("folds", "named"),
    [
        (lambda: EntryFolds(1), "EntryFolds: n_splits=1 was given; a whole number of at least 2"),
        (lambda: RowFolds(1.5), "RowFolds: n_splits=1.5 was given"),
        (lambda: RowFolds(groups=[1] * 6, order=[1] * 6), "groups and order were both given"),
        (lambda: RowFolds(hidden=1.0), "hidden=1.0 was given; a share between 0 and 1"),
        (
            lambda: RowFolds(observed_blocks=[3]),
            r"observed_blocks=\[3\] was given; names of blocks are needed",
        ),
        (
            lambda: RowFolds(7),
            "7 folds need as many rows, and there are 6; give more rows, or ask for fewer",
        ),
        (
            lambda: RowFolds(3, groups=list("aabbab")),
            "3 folds need as many groups, and there are 2",
        ),
        (lambda: RowFolds(2, groups=list("ab")), r"groups has the shape \(2,\); one value for"),
        (
            lambda: RowFolds(2, groups="town"),
            r"groups='town' was given; .* such as frame\['town'\]",
        ),
        (lambda: RowFolds(2, groups=["a", "b", "a", None, "b", "b"]), "row 3 has no group"),
        (lambda: RowFolds(2, groups=[1, 2, np.nan, 1, 2, 1]), "row 2 has no group"),
        (lambda: RowFolds(2, order=np.arange(5)), r"order has the shape \(5,\)"),
        (lambda: RowFolds(2, order=list("abcdef")), r"order of dtype <U1 was given; numbers or"),
        (lambda: RowFolds(2, order=[1, 2, 3, np.nan, 5, 6]), "a time is missing or infinite"),
        (lambda: RowFolds(2, order=[1, 1, 1, 1, 1, 2]), "2 distinct times cannot be cut into 3"),
        (
            lambda: RowFolds(2, observed_blocks=["x"]),
            r"observed_blocks=\('x',\) are all blocks, so that none can be scored",
        ),
        (lambda: RowFolds(2, observed_blocks=["z"]), "no block 'z'"),
        (lambda: TimeFolds([1, 2]), "TimeFolds: order of type list was given; a dict from block"),
        (lambda: TimeFolds({"z": [[1, 2, 3, 4]]}, 2), "no block 'z'"),
        (
            lambda: TimeFolds({"x": [1, 2, 3]}, 2),
            r"order of block 'x' has the shape \(3,\); the block is 6 x 4: give a time for each"
            r" entry, a column \(6 x 1\) or a row \(1 x 4\)",
        ),
        (lambda: TimeFolds({"x": [[1, 2, 2, 2]]}, 2), "2 distinct times cannot be cut into 3"),
        (lambda: RowFolds, r"cv is the class RowFolds; write RowFolds\(\) with"),
        (lambda: "rows", "cv='rows' was given; a whole number of at least 2 is needed"),
        (lambda: True, "cv=True was given"),
    ],
)
def test_wrong_folds_are_named(folds, named):
    with pytest.raises((mc.ModelError, mc.DataError), match=named):
        mc.cross_validate(GAUSSIAN, {"x": X}, criterion=HeldOutLoss(), cv=folds(), weights=[1.0])


def test_dates_beside_numbers_are_refused():
    model = mc.Model([*GAUSSIAN.blocks, mc.Block("y", mc.Gaussian())], GAUSSIAN.terms)
    order = {"x": [[1, 2, 3, 4]], "y": np.array([["2024-01-01"]], dtype="datetime64[D]")}
    with pytest.raises(mc.DataError, match="order has numbers and dates; give all of one kind"):
        draw(TimeFolds(order, 2), model, {"x": X, "y": X[:, :1]})


def test_a_fold_that_leaves_nothing_of_a_block_is_said():
    """All of the second block is of the last day."""
    model = mc.Model([*GAUSSIAN.blocks, mc.Block("y", mc.Gaussian())], GAUSSIAN.terms)
    order = {"x": [[1, 2, 3, 4]], "y": [[9]]}
    with pytest.raises(mc.DataError, match="block 'y': fold 0 holds out all of its observed"):
        draw(TimeFolds(order, 2), model, {"x": X, "y": X[:, :1]})


def test_folds_of_rows_need_fits():
    with pytest.raises(mc.ModelError, match="path gave an int, which has no answer for new rows"):
        mc.cross_validate(
            GAUSSIAN, {"x": X}, criterion=HeldOutLoss(), cv=RowFolds(2), weights=[1.0],
            path=lambda *_: [1],
        )  # fmt: skip


def test_folds_that_fit_other_entries_have_other_digests():
    """The same entries are held out, of rows that the fits know and of new ones."""
    rows = draw(RowFolds(3, hidden=0.5), GAUSSIAN, {"x": X})[0]
    parts = draw(RowFolds(2, hidden=0.5), GAUSSIAN, {"x": X})[0]
    assert rows.digest != parts.digest
    assert rows.digest == draw(RowFolds(3, hidden=0.5), GAUSSIAN, {"x": X.copy()})[0].digest
