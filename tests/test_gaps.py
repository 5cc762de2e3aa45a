"""Values that stand for missing ones: declared ones, words, and codes among numbers."""

import datetime as dt
import re
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import datasets

import mcframe as mc
from mcframe.__main__ import main
from mcframe.estimators import MatrixCompletionImputer, MatrixCompletionRegressor
from mcframe.tables.gaps import codes_among, is_phrase, is_word_of_missing, stand_for_gaps

NAN = np.nan


def survey(n=60, seed=0):
    """A table with gaps, and the same with a code, a word or a time in their place."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(n)
    whole = pd.DataFrame(
        {
            "age": np.round(50 + 12 * z),
            "score": z + 0.1 * rng.standard_normal(n),
            "answer": np.where(z > 0, "yes", "no"),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.round(30 * z), "D"),
        }
    )
    gaps = whole.mask(rng.random(whole.shape) < 0.2)
    codes = {"age": -99.0, "score": -9.5, "answer": " Refused", "day": pd.Timestamp("1900-01-01")}
    return gaps, gaps.fillna(codes)


TYPES = {"day": "date"}
BY_COLUMN = {"age": -99, "score": ["-9.5"], "answer": ["Refused"], "day": dt.date(1900, 1, 1)}
EVERYWHERE = [-99, -9.5, "Refused", "1900-01-01"]


@pytest.mark.parametrize("missing", [BY_COLUMN, EVERYWHERE])
@pytest.mark.parametrize(
    "library",
    [
        lambda frame: frame,
        lambda frame: frame.convert_dtypes(),
        pl.from_pandas,
        pa.Table.from_pandas,
    ],
    ids=["pandas", "nullable", "polars", "pyarrow"],
)
@pytest.mark.some(0.8)
def test_declared_gaps_are_filled_as_gaps_are(library, missing):
    gaps, coded = survey()
    wanted = mc.complete(library(gaps), TYPES)
    found = mc.complete(library(coded), TYPES, missing=missing)
    pd.testing.assert_frame_equal(
        pd.DataFrame(nw_dict(found.table)), pd.DataFrame(nw_dict(wanted.table))
    )
    # New rows are read like the table.
    again = found.complete_rows(library(coded.iloc[:9]))
    expected = wanted.complete_rows(library(gaps.iloc[:9]))
    assert nw_dict(again) == nw_dict(expected)


def nw_dict(table):
    if isinstance(table, pa.Table):
        return table.to_pydict()
    return (
        table.to_dict("list")
        if isinstance(table, pd.DataFrame)
        else table.to_dict(as_series=False)
    )


def test_whole_numbers_keep_their_dtype():
    frame = pd.DataFrame({"a": [1, 2, 3, -99] * 9, "b": np.arange(36) % 4 * 2.0})
    done = mc.complete(frame, missing={"a": [-99]}).table
    assert done["a"].dtype == frame["a"].dtype
    assert done["a"].min() > 0


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ({"size": [-9]}, "missing names 'size', which is no column; the columns are 'age', "),
        ({"scores": [-9]}, "missing names 'scores', which is no column; did you mean 'score'?"),
        ({"age": [1j]}, "missing['age']: the value 1j is a complex; give numbers, texts"),
        ([[1.0]], "missing: the value [1.0] is a list; give numbers, texts, dates or truth"),
        (b"a", "missing: the value b'a' is a bytes; give numbers, texts, dates or truth"),
    ],
)
def test_wrong_gaps_are_named(missing, sentence):
    for verb in (mc.complete, mc.declare):
        with pytest.raises(mc.ModelError) as caught:
            verb(survey()[0], missing=missing)
        assert str(caught.value).startswith(sentence)


def test_a_level_is_no_gap():
    with pytest.raises(mc.ModelError, match=r"'answer'. has the level 'yes', which missing takes"):
        mc.complete(survey()[0], {"answer": ["no", "yes"]}, missing={"answer": "yes"})


def test_what_equals_a_gap():
    values = [
        "-99",
        " -99.0 ",
        -99,
        -99.5,
        True,
        None,
        "x ",
        dt.datetime(1900, 1, 1),
        Decimal(-99),
    ]
    found = stand_for_gaps(values, (-99, "x", 1, "1900-01-01"))
    assert found.tolist() == [True, True, True, False, False, False, True, True, True]
    assert stand_for_gaps([True, 1, 0], (True,)).tolist() == [True, False, False]


@pytest.mark.parametrize(
    "word",
    [
        *("Don't know", "don’t  KNOW", "(refused)", "Refused / don't know", "not done"),
        *("keine Angabe", "Ne sait pas", "no contesta", "não sabe", "weet niet", "不明"),
    ],
)
def test_words_that_say_that_nothing_was_observed(word):
    assert is_phrase(word)
    assert is_word_of_missing(word)


@pytest.mark.parametrize("word", ["ND", "n.d.", "*", "k.A.", "NS/NC", "DK"])
def test_short_forms_say_so_among_numbers_alone(word):
    assert is_word_of_missing(word)
    assert not is_phrase(word)


@pytest.mark.parametrize("word", ["yes", "no", "positive", "<5", "not detected", "knows", "1/2"])
def test_words_that_say_something(word):
    assert not is_word_of_missing(word)


@pytest.mark.parametrize(
    "word",
    [
        "Don't know",
        *(pytest.param(word, marks=pytest.mark.slow(seconds=3)) for word in ("ND", "*")),
    ],
)
@pytest.mark.parametrize("places", [2, 0])  # set aside, or categories
@pytest.mark.some(2, places=1)
def test_a_column_of_mostly_numbers_names_what_is_in_the_way(word, places):
    rng = np.random.default_rng(1)
    x = rng.normal(50, 10 if places else 2, 120)
    chosen = np.arange(120) % 5 == 0
    text = np.where(chosen, word, [f"{v:.{places}f}" for v in x])
    frame = pd.DataFrame({"x": text, "y": 2 * x})
    for verb in (mc.complete, mc.declare):
        with pytest.warns(UserWarning, match="80% of its values are numbers") as told:
            verb(frame)
        said = next(str(each.message) for each in told if "80%" in str(each.message))
        assert f"{word!r} (24x)" in said
        assert f"missing={{'x': [{word!r}]}}" in said
        assert "types={'x': 'number'}" in said
    done = mc.complete(frame, missing={"x": [word]}, types={"x": "number"})
    assert done.table["x"].dtype.kind in "fi"
    # Words for missing values are gaps where numbers are declared.
    with pytest.warns(UserWarning, match=r"24x. as missing"):
        declared = mc.complete(frame, types={"x": "number"})
    assert declared.table["x"].dtype.kind in "fi"


def test_words_among_categories_are_asked_about():
    frame = pd.DataFrame({"a": ["yes", "no", "refused", "no"] * 9, "b": np.arange(36.0) ** 1.1})
    with pytest.warns(UserWarning, match="usually stands for missing entries") as told:
        mc.declare(frame)
    assert "'refused' in column 'a' (9x); missing={'a': ['refused']}" in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mc.declare(frame, {"a": "category"})
        mc.declare(frame, missing=["refused"])


def with_code(kind, code, share=0.1, n=400, seed=0):
    rng = np.random.default_rng(seed)
    numbers = {
        "age": lambda: rng.integers(18, 90, n).astype(float),
        "scale": lambda: np.clip(np.round(3 + 1.2 * rng.standard_normal(n)), 1, 5),
        "income": lambda: np.round(np.exp(rng.normal(10, 0.7, n))),
        "temperature": lambda: rng.normal(8, 9, n).round(1),
        "label": lambda: rng.integers(0, 2, n).astype(float),
        "rating": lambda: rng.integers(0, 11, n).astype(float),
    }[kind]()
    numbers[rng.random(n) < share] = code
    return numbers


CODES = {
    "age": [-99, -9, -1, 99, 999],
    "scale": [-99, -9, 9, 99, 88],
    "income": [-99, -9, 9999999],
    "temperature": [-99, -99.9, 999],
    "label": [9, -9, 99],
    "rating": [99, -9],
}


@pytest.mark.parametrize(("kind", "code"), [(k, code) for k in CODES for code in CODES[k]])
def test_codes_in_use_are_found_with_their_counts(kind, code):
    numbers = with_code(kind, code)
    [found] = codes_among(numbers)
    assert (found.value, found.count) == (code, np.sum(numbers == code))


def test_several_codes_stand_beside_each_other():
    numbers = with_code("scale", 9)
    numbers[:12], numbers[12:20] = 8, NAN
    assert [code.value for code in codes_among(numbers)] == [8.0, 9.0]
    numbers[:12] = -9
    assert sorted(code.value for code in codes_among(numbers)) == [-9.0, 9.0]


def ordinary(rng, n):
    """Columns of numbers without a code."""
    yield rng.standard_normal(n).round(2)
    yield np.round(rng.normal(rng.uniform(-20, 60), rng.uniform(2, 40), n))
    yield np.round(np.exp(rng.normal(3, 1, n)))
    yield rng.poisson(rng.choice([0.3, 3, 30]), n)
    yield rng.negative_binomial(1, 0.2, n)
    yield rng.integers(0, 11, n)
    yield np.clip(np.round(rng.normal(8, 2, n)), 0, 10)
    yield rng.integers(18, 100, n)
    yield rng.integers(1950, 2026, n)
    yield np.round(rng.normal(5, 9, n))
    yield rng.choice([1, 3, 9, 27], n)
    yield rng.choice([3, 4, 5, 6, 8], n, p=[0.01, 0.5, 0.01, 0.21, 0.27])
    yield rng.choice([-1, 0, 1], n)


def test_ordinary_numbers_are_seldom_taken_for_codes():
    """In 6,500 columns of 30 to 1,000 numbers one is; in tables of scikit-learn none."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(500):
        columns = ordinary(rng, int(rng.choice([30, 100, 1000])))
        wrong += sum(bool(codes_among(np.asarray(own, dtype=float))) for own in columns)
    assert wrong <= 3
    for load in ("iris", "wine", "breast_cancer", "diabetes", "digits", "linnerud"):
        frame = getattr(datasets, f"load_{load}")(as_frame=True).frame
        assert not any(codes_among(frame[name].to_numpy(float)) for name in frame), load


def test_codes_are_named_by_every_entry_and_removed_by_missing():
    frame = pd.DataFrame({"age": with_code("age", -99, n=80), "x": np.arange(80) % 9 * 1.5})
    count = int(np.sum(frame["age"] == -99))
    said = f"codes for missing values: -99 in column 'age' \\({count}x\\); "
    for verb in (mc.complete, mc.declare):
        with pytest.warns(UserWarning, match=f"{said}missing="):
            verb(frame)
    estimator = MatrixCompletionImputer(weight=1.0)
    with pytest.warns(UserWarning, match=f"{said}missing_values="):
        estimator.fit(frame)
    for order in ([0, 1], [1, 0]):  # columns without codes are not named
        table, place = frame.to_numpy()[:, order], order.index(0)
        remedy = rf"missing_values=\{{{place}: \[-99\]\}} makes .*=\{{{place}: \[\]\}} says"
        with pytest.warns(UserWarning, match=f"-99 in column {place} .*{remedy}"):
            MatrixCompletionRegressor(weight=1.0).fit(table, frame["x"])
    with pytest.raises(mc.ModelError, match=r"missing_values names 'ages', .* did you mean 'age'"):
        MatrixCompletionImputer(missing_values={"ages": -99}).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mc.complete(frame, missing={"age": [-99]}).table["age"].min() > 0
        assert mc.declare(frame, missing={"age": []}).column("age").kind == "number"
        filled = MatrixCompletionImputer(weight=1.0, missing_values={"age": -99})
        assert filled.fit_transform(frame)[:, 0].min() > 0
        filled = MatrixCompletionImputer(weight=1.0, missing_values=[-99]).fit_transform(
            frame.to_numpy()
        )
        assert filled[:, 0].min() > 0


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("gaps", [["--missing", "-99"], ["--missing", "age=-99"]])
@pytest.mark.some(0.4)
def test_gaps_on_the_command_line(tmp_path, monkeypatch, capsys, ending, gaps):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"age": with_code("age", -99, n=80), "x": np.arange(80) % 9 * 1.5})
    write = {"csv": lambda own, path: own.to_csv(path, index=False)}
    write["parquet"] = lambda own, path: own.to_parquet(path)
    write[ending](frame, f"t.{ending}")
    write[ending](frame.assign(age=-99.0).iloc[:4], f"new.{ending}")
    assert main(["impute", f"t.{ending}", "--out", "done.csv"]) == 0
    assert "--missing age=-99 makes" in capsys.readouterr().err
    given = [*gaps, "--save", "saved.npz", "--overwrite"]
    assert main(["impute", f"t.{ending}", "--out", "done.csv", *given]) == 0
    assert "codes" not in capsys.readouterr().err
    assert pd.read_csv("done.csv")["age"].min() > 0
    assert main(["predict", "saved.npz", f"new.{ending}", "--out", "rows.csv"]) == 0
    # In Parquet the numbers are remembered; in CSV they are those of the column, too.
    assert pd.read_csv("rows.csv")["age"].min() > 0


def test_masked_entries_and_missing_objects_are_gaps_for_estimators():
    rng = np.random.default_rng(0)
    x = np.outer(rng.standard_normal(20), [1.0, 2.0, -1.0]) + 0.1 * rng.standard_normal((20, 3))
    hidden = rng.random(x.shape) < 0.2
    wanted = MatrixCompletionImputer(weight=1.0).fit_transform(np.where(hidden, NAN, x))
    forms = {
        "masked": np.ma.masked_array(np.where(hidden, 1e6, x), hidden),
        "objects": np.where(hidden, pd.NA, x.astype(object)),
        "lists": np.where(hidden, None, x.astype(object)).tolist(),
        "frame": pd.DataFrame(np.where(hidden, pd.NA, x.astype(object))),
        "decimals": pd.DataFrame(
            np.where(hidden, None, [[Decimal(repr(float(v))) for v in row] for row in x])
        ),
    }
    for name, given in forms.items():
        found = MatrixCompletionImputer(weight=1.0).fit_transform(given)
        np.testing.assert_array_equal(np.asarray(found, dtype=float), wanted, err_msg=name)
        MatrixCompletionRegressor(weight=1.0).fit(given, x[:, 0])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.0000001, "3.0000001"),
        (28733.02, "28733.02"),
        (-1234567.0, "-1234567"),
        (1234567.25, "1234567.25"),
        (-1e300, "-1e+300"),
        (0.1 + 0.2, "0.30000000000000004"),
        (-5.0, "-5"),
    ],
)
def test_messages_show_numbers_as_they_were_given(value, text):
    frame = pd.DataFrame({"c": [1, 2, value, None, 5] * 5, "x": np.arange(25.0) ** 1.1})
    named = re.escape(text)
    with pytest.raises(mc.DataError, match=rf"holds the value {named} in row 2"):
        mc.complete(frame, {"c": "count"})
    model = mc.Model([mc.Block("c", mc.Poisson())], [mc.NuclearNorm(1.0)])
    with pytest.raises(mc.DataError, match=rf"value {named} in column 'c', row 2"):
        mc.fit(model, {"c": frame[["c"]]})
