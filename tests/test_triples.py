"""Tables given as triples with labels: what is read, refused, answered and ranked."""

import datetime as dt
import pickle

import attrs
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.datasets import read_ratings
from mcframe.fitting.prediction import largest
from mcframe.selection import RelativeError

NAN = np.nan
MODEL = mc.Model([mc.Block("stars", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.2)])
USERS = ["ann", "ann", "bob", "bob", "eve", "eve", "bob"]
FILMS = ["Up", "Alien", "Up", "Jaws", "Alien", "Heat", "Heat"]
STARS = [5.0, 4.0, 4.0, 2.0, 5.0, 1.0, NAN]
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def columns(users=USERS, films=FILMS, stars=STARS):
    return {"user": users, "film": films, "rating": stars}


def read(frame, **options):
    return mc.from_triples(frame, row="user", column="film", value="rating", **options)


def sequences(users=USERS, films=FILMS, stars=STARS, **options):
    return mc.from_triples(row=users, column=films, value=stars, **options)


def cells(triples):
    """The entries by their labels."""
    rows, names = triples.row_labels, triples.column_labels
    places = zip(triples.rows, triples.columns, triples.values, strict=True)
    return {(rows[row], names[column]): value for row, column, value in places}


def refusal(call, *given, **options):
    with pytest.raises(mc.DataError) as caught:
        call(*given, **options)
    return str(caught.value)


WANTED = {
    ("ann", "Up"): 5.0,
    ("ann", "Alien"): 4.0,
    ("bob", "Up"): 4.0,
    ("bob", "Jaws"): 2.0,
    ("eve", "Alien"): 5.0,
    ("eve", "Heat"): 1.0,
}


def fitted():
    return mc.fit(MODEL, {"stars": read(pd.DataFrame(columns()))}, tol=1e-9)


@pytest.fixture(scope="module")
def fit():
    return fitted()


# Reading


@pytest.mark.parametrize("library", LIBRARIES)
def test_frames_of_all_libraries_are_read_alike(library):
    triples = read(LIBRARIES[library](columns()))
    assert cells(triples) == WANTED
    assert triples.row_labels == ("ann", "bob", "eve")
    assert triples.column_labels == ("Up", "Alien", "Jaws", "Heat")
    assert len(triples) == 6
    assert repr(triples) == (
        "Triples: 6 values in a table of 3 x 4 (50.0%), rows by 'user', columns by 'film'"
    )


@pytest.mark.parametrize(
    "kind",
    [list, tuple, np.array, pd.Series, pl.Series, pa.chunked_array, pd.Categorical, iter],
    ids=lambda kind: kind.__name__,
)
def test_sequences_of_all_kinds_are_read_alike(kind):
    made = (lambda given: pa.chunked_array([given])) if kind is pa.chunked_array else kind
    assert cells(sequences(made(USERS), made(FILMS), STARS)) == WANTED


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("values", [[5, 4, 4, 2, 5, 1, None], [True, False] * 3 + [None]], ids=str)
def test_whole_numbers_and_truth_values_with_gaps(library, values):
    frame = columns(stars=values)
    kind = "boolean" if values[0] is True else "Int64"
    frame = pd.DataFrame({**frame, "rating": pd.array(values, dtype=kind)})
    given = {"pandas": lambda: frame, "polars": lambda: pl.DataFrame(columns(stars=values))}
    triples = read(given.get(library, lambda: pa.table(columns(stars=values)))())
    assert list(cells(triples).values()) == [float(value) for value in values[:6]]


TIMES = pd.date_range("2024-01-01", periods=7, freq="h", tz="Europe/Vienna")
LABELS = {
    "whole numbers": ([3, 3, 1, 1, -7, -7, 1], 3),
    "tuples": ([("a", 1), ("a", 1), ("b", 1), ("b", 1), ("c", 2), ("c", 2), ("b", 1)], ("a", 1)),
    "times": ([TIMES[k] for k in (0, 0, 1, 1, 2, 2, 1)], TIMES[0]),
    "dates": ([dt.date(2024, 1, day) for day in (1, 1, 2, 2, 3, 3, 2)],) * 1,
    "a mixture": (["ann", "ann", 4, 4, (1, "x"), (1, "x"), 4], "ann"),
    "fractions": ([0.5, 0.5, 1.5, 1.5, 2.5, 2.5, 1.5], 0.5),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind(kind):
    labels = LABELS[kind][0]
    users = pd.Series(labels, dtype=object) if kind in ("a mixture", "tuples") else labels
    for triples in (read(pd.DataFrame(columns(users=users))), sequences(labels)):
        assert triples.row_labels == tuple(dict.fromkeys(labels))
        found = mc.fit(MODEL, {"stars": triples})
        pairs = list(zip(labels, FILMS, strict=True))
        wanted = found.predict("stars", rows=triples.rows, columns=triples.columns)
        np.testing.assert_array_equal(found.predict_pairs("stars", pairs[:6]), wanted)
        ranked = found.top("stars", labels[2])
        chosen = (
            ranked["film"].tolist()
            if isinstance(ranked, pd.DataFrame)
            else [film for _, film, _ in ranked]
        )
        assert set(chosen) == {"Alien", "Heat"}


def test_numpy_times_are_the_times_that_python_has():
    times = np.array(["2024-01-01T10", "2024-01-01T10", "2024-01-02T10"], dtype="datetime64[ns]")
    triples = sequences(times, ["a", "b", "a"], [1, 2, 3])
    assert triples.row_labels[0] == dt.datetime(2024, 1, 1, 10)
    assert triples.row_labels == sequences(list(times), list("aba"), [1, 2, 3]).row_labels
    found = mc.fit(MODEL, {"stars": triples})
    one, other = found.predict_pairs("stars", [(times[2], "b"), (triples.row_labels[1], "b")])
    assert one == other
    finer = times + np.timedelta64(1, "ns")
    for given in (finer, list(finer), pl.Series(finer)):
        said = refusal(sequences, given, ["a", "b", "a"], [1, 2, 3])
        assert said == (
            "label 2024-01-01T10:00:00.000000001 is finer than a microsecond, which times as"
            " labels are rounded to; give the labels as text or as whole numbers"
        )


def test_pandas_times_keep_their_nanoseconds():
    times = pd.Series(pd.to_datetime([1, 2, 3], unit="ns"))
    triples = sequences(times, list("aba"), [1, 2, 3])
    assert triples.row_labels == tuple(times)


def test_an_order_of_entries_changes_the_order_of_rows_alone():
    shuffled = pd.DataFrame(columns()).iloc[[6, 2, 5, 0, 4, 1, 3]]
    assert cells(read(shuffled)) == WANTED


def test_a_row_of_which_no_value_is_known_stands_in_the_table():
    triples = sequences([*USERS, "zed"], [*FILMS, "Up"], [*STARS, NAN])
    assert triples.shape == (4, 4)
    with pytest.warns(mc.UnobservedWarning, match="row 3 without one observed entry"):
        found = mc.fit(MODEL, {"stars": triples})
    predicted = found.predict_pairs("stars", [("zed", "Up")])
    np.testing.assert_allclose(predicted, found.bias("stars")[:1], atol=1e-9)


def test_one_triple_one_row_one_column():
    assert sequences(["a"], ["b"], [3]).shape == (1, 1)
    many = sequences(["a"] * 3, list("xyz"), [1, 2, 3])
    assert many.shape == (1, 3)
    assert mc.fit(MODEL, {"stars": many}).top("stars", "a") == []


def test_values_far_from_0_and_close_to_it():
    for scale, offset in ((1.0, 1e12), (1e-12, 0.0)):
        triples = sequences(stars=offset + scale * np.array(STARS))
        found = mc.fit(mc.Model(MODEL.blocks, [mc.NuclearNorm(0.2 * scale)]), {"stars": triples})
        predicted = (found.predict_pairs("stars", [("eve", "Up")])[0] - offset) / scale
        plain = mc.fit(MODEL, {"stars": sequences()})
        wanted = plain.predict_pairs("stars", [("eve", "Up")])[0]
        assert abs(predicted - wanted) < 2e-3


def test_labels_that_are_declared_are_all_there_in_their_order():
    triples = sequences(rows=["eve", "dan", "bob", "ann"], columns=pd.Index(sorted(set(FILMS))))
    assert triples.row_labels == ("eve", "dan", "bob", "ann")
    assert triples.column_labels == ("Alien", "Heat", "Jaws", "Up")
    assert cells(triples) == WANTED
    assert refusal(sequences, rows=["ann", "eve"]) == (
        "from_triples: row 'bob' in triple 2 (counted from 0) and in 2 more is not among the"
        " labels that were given; add it to them, or leave such triples out"
    )
    assert refusal(sequences, rows=["ann", "bob", "ann"]) == (
        "from_triples: row 'ann' stands twice among the labels that were given; give each once"
    )
    assert refusal(sequences, columns=[]) == (
        "from_triples: not one column label was given; at least one is needed"
    )


# Refused


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_pair_that_stands_twice_is_refused_with_both_values(library):
    frame = LIBRARIES[library](
        columns(["ann", "bob", "ann", "bob"], ["Up", "Up", "Up", "Up"], [5.0, 1.0, 2.5, 1.0])
    )
    assert refusal(read, frame) == (
        "from_triples: user 'ann' and film 'Up' stand together more than once, with the values 5"
        " and 2.5 (1 more such pair); leave one of them, or choose their common value by"
        ' duplicates="mean", "last" or "sum"'
    )
    for way, wanted in {"mean": 3.75, "last": 2.5, "sum": 7.5}.items():
        assert cells(read(frame, duplicates=way))["ann", "Up"] == wanted
    with pytest.raises(mc.ModelError) as caught:
        read(frame, duplicates="first")
    assert str(caught.value) == (
        "from_triples: duplicates='first' was given; 'refuse', 'mean', 'last' or 'sum' is needed"
    )


def test_a_pair_that_stands_again_without_a_value_stands_once():
    assert cells(sequences(["a", "a"], ["b", "b"], [NAN, 2.0])) == {("a", "b"): 2.0}


@pytest.mark.parametrize("missing", [None, NAN, pd.NA, pd.NaT, np.datetime64("NaT")], ids=repr)
def test_missing_labels_are_refused(missing):
    users = ["ann", "ann", missing, *USERS[3:]]
    said = refusal(sequences, users)
    assert said.startswith("row label ")
    assert said.endswith(
        " at place 2 (counted from 0): a missing label names nothing; leave it out, in pandas by"
        " frame.dropna(subset=['row'])"
    )
    assert "place 2" in refusal(sequences, USERS, users)
    assert "place 2" in refusal(sequences, [(user, 1) for user in users])


def test_labels_of_arrays_are_those_of_lists():
    rng = np.random.default_rng(0)
    numbers = rng.integers(-50, 50, 400) * 10**12
    for array in (numbers, numbers / 7, numbers.astype("datetime64[s]"), numbers.astype("m8[us]")):
        films, stars = np.arange(400), rng.normal(size=400)
        one, other = (sequences(users, films, stars) for users in (array, array.tolist()))
        assert one.row_labels == other.row_labels == tuple(dict.fromkeys(array.tolist()))
        np.testing.assert_array_equal(one.rows, other.rows)
        np.testing.assert_array_equal(one.values, other.values)
    masked = np.ma.masked_array([1, 2, 3], mask=[False, True, False])
    for users in (masked, np.array([1.0, NAN, 2.0]), np.array(["2024", "NaT", "2025"], "M8[D]")):
        assert "at place 1 (counted from 0)" in refusal(sequences, users, list("abc"), [1, 2, 3])


@pytest.mark.parametrize("library", LIBRARIES)
def test_missing_labels_of_frames_are_refused(library):
    frame = LIBRARIES[library](columns(films=["Up", None, *FILMS[2:]]))
    said = refusal(read, frame)
    assert said.startswith(("film label None at place 1", "film label nan at place 1"))


def test_what_gives_no_triples_is_refused():
    frame = pd.DataFrame(columns())
    for given in (frame[:0], pl.DataFrame(columns([], [], []))):
        assert refusal(read, given) == (
            "from_triples: not one triple was given; at least one is needed"
        )
    assert refusal(sequences, USERS[1:]) == (
        "from_triples: row, column and value have 6, 7 and 7 elements; one of each is needed for"
        " each triple"
    )
    assert refusal(read, frame.drop(columns="film")) == (
        "from_triples: column 'film' is not there; the columns are 'user', 'rating'"
    )
    assert refusal(mc.from_triples, frame, row="user", column="film", value="user") == (
        "from_triples: row='user', column='film', value='user' were given; name three different"
        " columns"
    )
    assert refusal(read, columns()) == (
        "from_triples: a dict was given; a DataFrame of pandas or polars or a Table of pyarrow is"
        " needed (collect a lazy one first, make a pandas.DataFrame of an array)"
    )
    assert refusal(read, pl.LazyFrame(columns())) == (
        "from_triples: a LazyFrame was given; a DataFrame of pandas or polars or a Table of"
        " pyarrow is needed (collect a lazy one first, make a pandas.DataFrame of an array)"
    )
    assert refusal(read, None) == (
        "from_triples: row='user' is the name of a column, and no frame was given; give"
        " from_triples(frame, ...), or a sequence"
    )
    assert refusal(mc.from_triples, frame, row=USERS, column="film", value="rating") == (
        "from_triples: a list was given for a column of the frame; give its name"
    )
    assert refusal(sequences, 3) == (
        "from_triples: row is an int; a sequence is needed, one element for each triple"
    )
    assert refusal(sequences, np.ones((7, 2))) == (
        "from_triples: row is an array of shape (7, 2); one dimension is needed"
    )
    twice = pd.concat([frame, frame["user"]], axis=1)
    for said in (refusal(read, twice), refusal(fitted().predict_pairs, "stars", twice)):
        assert "2 columns of the table have the name 'user'; rename or drop all but one" in said


@pytest.mark.parametrize("library", [*LIBRARIES, "sequences"])
def test_values_that_are_no_numbers_are_refused_by_their_pair(library):
    films = [f"{film}!" for film in FILMS]
    for wrong, said in {"5": "value '5'", "good": "value 'good'"}.items():
        given = columns(films=films, stars=[*map(str, STARS[:3]), wrong, "1", "2", "3"])
        stars = given["rating"]
        if library == "sequences":
            found = refusal(sequences, USERS, films, [1.0, 2.0, 3.0, wrong, 1.0, 2.0, 3.0])
            hint = ". Its text reads as a number: convert the values by pandas.to_numeric"
            assert found == (
                f"from_triples: {said} at row 'bob', column 'Jaws!' is not a number; finite"
                f" numbers are needed, NaN where a value is missing{hint * (wrong == '5')}"
            )
        else:
            found = refusal(read, LIBRARIES[library](given))
            assert found.startswith(f"from_triples: value {stars[0]!r} at user 'ann', film 'Up!'")
    assert refusal(sequences, stars=[*STARS[:4], np.inf, 1.0, 2.0]) == (
        "from_triples: value inf at row 'eve', column 'Alien' is not finite; finite numbers are"
        " needed, NaN where a value is missing"
    )
    assert "value [1] at row 'ann'" in refusal(sequences, stars=[[1], *STARS[1:]])
    assert "value [5.0] at row 'ann'" in refusal(sequences, stars=[[star] for star in STARS])
    assert "value '2020" not in refusal(sequences, stars=TIMES)
    with_overflow = (["a", "a"], ["b", "b"], [1.7e308, 1.7e308])
    assert refusal(sequences, *with_overflow, duplicates="sum") == (
        "from_triples: sums of the values of one pair overflow; rescale the values"
    )


def test_labels_that_cannot_be_told_apart_are_refused():
    assert refusal(sequences, [["a"], ["a"], *USERS[2:]]) == (
        "row label ['a'] is a list, which cannot be looked up; give text, numbers, times or tuples"
    )
    assert refusal(sequences, [True, 1, *USERS[2:]]) == (
        "row labels are truth values and numbers, and True is equal to 1; give labels of one kind,"
        " for example as text"
    )
    assert sequences([True, False] * 3 + [True], list("abcdefg")).row_labels == (True, False)


# In a model


def test_triples_fit_as_their_sparse_matrix_and_their_frame(fit):
    table = pd.DataFrame(columns()).pivot(index="user", columns="film", values="rating")
    table = table.loc[["ann", "bob", "eve"], ["Up", "Alien", "Jaws", "Heat"]]
    wide = mc.fit(MODEL, {"stars": table}, tol=1e-9)
    pd.testing.assert_frame_equal(fit.predict("stars"), wide.predict("stars"), check_names=False)
    pd.testing.assert_frame_equal(fit.impute("stars"), wide.impute("stars"), check_names=False)
    pd.testing.assert_series_equal(fit.bias("stars"), wide.bias("stars"), check_names=False)
    pairs = [("eve", "Up"), ("ann", "Jaws")]
    np.testing.assert_array_equal(
        fit.predict_pairs("stars", pairs), wide.predict_pairs("stars", pairs)
    )
    assert (
        fit.top("stars", "bob").to_numpy().tolist() == wide.top("stars", "bob").to_numpy().tolist()
    )
    assert list(wide.top("stars", "bob").columns) == ["user", "film", "predicted"]


def test_messages_of_the_fit_speak_in_labels():
    model = mc.Model([mc.Block("stars", mc.Bernoulli())], MODEL.terms)
    said = refusal(mc.fit, model, {"stars": sequences()})
    assert "value 5 in column 'Up', row 'ann'" in said


def test_frames_of_features_stand_beside_triples():
    features = pd.DataFrame({"age": [30.0, 20.0, 25.0]}, index=["eve", "bob", "ann"])
    model = mc.Model([mc.Block("x", mc.Gaussian()), *MODEL.blocks], MODEL.terms)
    said = refusal(mc.fit, model, {"x": features, "stars": read(pd.DataFrame(columns()))})
    assert "different row labels, first 'eve' and 'ann' in row 0" in said
    for given in (pd.DataFrame, pl.DataFrame):
        triples = read(given(columns()), rows=features.index)
        fit = mc.fit(model, {"x": features, "stars": triples})
        assert isinstance(fit.predict("stars"), pd.DataFrame) == (given is pd.DataFrame)
        in_place = np.asarray(fit.predict("stars"))[2, triples.column_labels.index("Up")]
        assert in_place == fit.predict_pairs("stars", [("ann", "Up")])[0]
        assert fit.predict("x").index.tolist() == ["eve", "bob", "ann"]


@pytest.mark.filterwarnings("ignore:the lowest mean score is at")
def test_verbs_over_many_fits_take_triples():
    rng = np.random.default_rng(0)
    rows, names = np.nonzero(rng.random((20, 12)) < 0.6)
    triples = sequences([f"u{k}" for k in rows], names, rng.normal(size=rows.size))
    matrix = sp.coo_array((triples.values, (triples.rows, triples.columns)), triples.shape)
    scores = [
        mc.cross_validate(
            MODEL,
            {"stars": given},
            criterion=RelativeError("stars"),
            weights=mc.selection.Grid(count=3),
            cv=2,
        ).scores
        for given in (triples, matrix)
    ]
    np.testing.assert_array_equal(*scores)
    assert mc.explain(MODEL, {"stars": triples}).chosen
    weighted = mc.fit(MODEL, {"stars": mc.Observations(triples, weights=2.0)})
    assert weighted.predict_pairs("stars", [("u3", 5)]).shape == (1,)


def test_weights_are_triples_too():
    triples = read(pd.DataFrame(columns()))
    weights = np.array([1.0, 3.0, 0.0, 2.0, 1.0, 0.5])
    order = [5, 2, 0, 3, 1, 4]
    given = pd.DataFrame(columns(stars=[*weights, 1.0])).iloc[order]
    weighted = mc.Observations(triples, weights=read(given))
    dense = np.full((3, 4), NAN)
    dense[triples.rows, triples.columns] = triples.values
    beside = np.zeros((3, 4))
    beside[triples.rows, triples.columns] = weights
    found = mc.fit(MODEL, {"stars": weighted}, tol=1e-9)
    wanted = mc.fit(MODEL, {"stars": mc.Observations(dense, weights=beside)}, tol=1e-9)
    np.testing.assert_array_equal(found.predict("stars"), wanted.predict("stars"))
    missing = mc.Observations(triples, weights=read(given[given["user"] != "bob"]))
    assert refusal(mc.fit, MODEL, {"stars": missing}) == (
        "block 'stars': weights have no number at user 'bob', film 'Up' and at 1 more pair; give"
        " one for each value"
    )
    other = mc.Observations(triples, weights=read(given.replace({"film": {"Heat": "Tron"}})))
    assert refusal(mc.fit, MODEL, {"stars": other}) == (
        "block 'stars': weights have film 'Tron', which the values have not; leave such"
        " triples out"
    )


def test_triples_and_fits_are_pickled(fit):
    again = pickle.loads(pickle.dumps(fit))
    pairs = [("eve", "Up")]
    assert again.predict_pairs("stars", pairs) == fit.predict_pairs("stars", pairs)


def test_answers_that_are_no_frames_of_pandas_are_arrays_in_the_order_of_the_labels():
    for triples in (read(pl.DataFrame(columns())), sequences()):
        found = mc.fit(MODEL, {"stars": triples})
        assert isinstance(found.predict("stars"), np.ndarray)
        assert isinstance(found.bias("stars"), np.ndarray)
        assert found.predict("stars")[2, 0] == found.predict_pairs("stars", [("eve", "Up")])[0]


# Pairs


def test_a_label_of_another_type_is_named():
    frame = pd.DataFrame(
        {"user": [1, 1, 2, 2], "film": ["3", "4", "3", "4"], "stars": [1, 2, 3, 5]}
    )
    triples = mc.from_triples(frame, row="user", column="film", value="stars")
    model = mc.Model([mc.Block("stars", mc.Gaussian())], [mc.NuclearNorm(0.1)])
    found = mc.fit(model, {"stars": triples})
    assert refusal(found.top, "stars", ["1"]) == (
        "block 'stars': the fit has no user '1'; it has 1, of another type"
    )
    assert refusal(found.predict_pairs, "stars", [(1, 3)]) == (
        "block 'stars': the fit has no film 3; it has '3', of another type"
    )
    assert "predict_rows" in refusal(found.top, "stars", ["7"])


@pytest.mark.parametrize("library", LIBRARIES)
def test_pairs_of_frames_lists_and_arrays(fit, library):
    asked = {"film": ["Up", "Heat"], "when": [1, 2], "user": ["eve", "ann"]}
    wanted = fit.predict("stars")
    wanted = [wanted.loc["eve", "Up"], wanted.loc["ann", "Heat"]]
    found = fit.predict_pairs("stars", LIBRARIES[library](asked))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    pairs = [("eve", "Up"), ("ann", "Heat")]
    for given in (pairs, np.array(pairs), iter(pairs), pd.MultiIndex.from_tuples(pairs)):
        np.testing.assert_array_equal(fit.predict_pairs("stars", given), found)
    assert fit.predict_pairs("stars", []).shape == (0,)


def test_unknown_labels_are_named_or_have_no_prediction(fit):
    pairs = [("eve", "Up"), ("zed", "Up"), ("ann", "Tron"), ("zed", "Jaws"), ("yan", "Tron")]
    assert refusal(fit.predict_pairs, "stars", pairs) == (
        "block 'stars': the fit has no user 'zed', 'yan'; give new rows to predict_rows, top_rows"
        " or posterior.condition"
    )
    assert refusal(fit.predict_pairs, "stars", [("ann", film) for film in "abcdefg"]) == (
        "block 'stars': the fit has no film 'a', 'b', 'c', 'd', 'e' and 2 more;"
        ' take unknown="nan" for NaN there'
    )
    found = fit.predict_pairs("stars", pairs, unknown="nan")
    assert np.isnan(found).tolist() == [False, True, True, True, True]
    with pytest.raises(mc.ModelError) as caught:
        fit.predict_pairs("stars", pairs, unknown="skip")
    assert str(caught.value) == "unknown='skip' was given; 'refuse' or 'nan' is needed"


def test_pairs_of_a_posterior():
    users, films = ["a", "a", "b", "b", "c"], ["x", "y", "x", "z", "y"]
    triples = mc.from_triples(row=users, column=films, value=[5.0, 1.0, 4.0, 2.0, 1.5])
    block = mc.Block("stars", mc.Gaussian(variance=0.1), bias=True)
    found = mc.posterior(mc.Model([block], [mc.NuclearNorm()]), {"stars": triples}, factors=1)
    answers = found.predict_pairs("stars", [("c", "z"), ("e", "x"), ("a", "x")], unknown="nan")
    rows = [triples.row_labels.index(user) for user in "ca"]
    columns = [triples.column_labels.index(film) for film in "zx"]
    np.testing.assert_array_equal(answers[[0, 2]], found.predict("stars", rows, columns))
    assert np.isnan(answers[1])
    with pytest.raises(
        mc.DataError,
        match="the fit has no row 'e'; give new rows to predict_rows",
    ):
        found.predict_pairs("stars", [("e", "x")])


def test_what_gives_no_pairs_is_refused(fit):
    assert refusal(fit.predict_pairs, "stars", [("eve", "Up"), "ann"]) == (
        "block 'stars', pairs: 'ann', at place 1, is no pair of user and film; give a list of such"
        " pairs, or a frame with both columns"
    )
    assert "3, at place 0, is no pair" in refusal(fit.predict_pairs, "stars", 3)
    assert refusal(fit.predict_pairs, "stars", pd.DataFrame({"user": ["eve"]})) == (
        "block 'stars', pairs: column 'film' is not there; the columns are 'user'"
    )
    with pytest.raises(mc.ModelError, match="no block 'moons'"):
        fit.predict_pairs("moons", [])


def test_pairs_of_classes_have_a_probability_for_each():
    model = mc.Model([mc.Block("kind", mc.Multinomial(3))], [mc.NuclearNorm(0.5)])
    triples = sequences(stars=[0, 1, 2, 0, 1, 2, NAN])
    found = mc.fit(model, {"kind": triples})
    predicted = found.predict_pairs("kind", [("eve", "Up"), ("zed", "Up")], unknown="nan")
    assert predicted.shape == (2, 3)
    assert predicted[0].sum() == pytest.approx(1.0)
    assert np.isnan(predicted[1]).all()
    with pytest.raises(mc.ModelError) as caught:
        found.top("kind", "eve")
    assert str(caught.value) == (
        "block 'kind': Multinomial has classes, of which none is more than another; rank by"
        " probabilities, as of fit.predict_pairs('kind', pairs)"
    )


def test_data_without_labels_are_asked_by_positions_and_repeated_labels_not_at_all():
    plain = mc.fit(MODEL, {"stars": [[5.0, NAN, 1.0], [4.0, 2.0, NAN]]})
    assert plain.predict_pairs("stars", [(1, 2)])[0] == plain.predict("stars")[1, 2]
    assert [column for _, column, _ in plain.top("stars", 0)] == [1]
    assert "the fit has no row 2" in refusal(plain.top, "stars", 2)
    frame = pd.DataFrame([[1.0, 2.0], [3.0, NAN]], index=["a", "a"])
    twice = mc.fit(MODEL, {"stars": frame})
    assert refusal(twice.top, "stars", "a") == (
        "row 'a' stands twice among the labels, so that it names no single one; ask by positions,"
        " or rename one of them"
    )


# Rankings


def test_the_best_columns_are_those_of_the_whole_table(fit):
    whole = fit.predict("stars")
    for user in whole.index:
        everything = whole.loc[user].sort_values(ascending=False)
        found = fit.top("stars", user, n=3, observed=True)
        assert found["film"].tolist() == everything.index[:3].tolist()
        np.testing.assert_allclose(found["predicted"], everything[:3], rtol=1e-12)
        seen = [film for one, film in WANTED if one == user]
        new = [film for film in everything.index if film not in seen]
        assert fit.top("stars", user)["film"].tolist() == new
        assert fit.top("stars", user, n=1)["film"].tolist() == new[:1]


@pytest.mark.parametrize("library", LIBRARIES)
def test_rankings_come_in_the_library_of_the_triples(library):
    frame = LIBRARIES[library](columns())
    fit = mc.fit(MODEL, {"stars": read(frame)})
    found = fit.top("stars", ["eve", "ann"], n=2)
    assert type(found) is type(frame)
    names = found.column_names if library == "pyarrow" else list(found.columns)
    assert names == ["user", "film", "predicted"]
    assert list(found["user"].to_numpy()) == ["eve", "eve", "ann", "ann"]
    assert fit.predict_pairs("stars", found).tolist() == list(found["predicted"].to_numpy())
    one_by_one = mc.fit(MODEL, {"stars": sequences()}).top("stars", ["eve", "ann"], n=2)
    assert [film for _, film, _ in one_by_one] == list(found["film"].to_numpy())


def test_rankings_of_many_rows_are_made_in_parts(fit, monkeypatch):
    whole = fit.top("stars", ["eve", "ann", "bob"], observed=True)
    monkeypatch.setattr("mcframe.fitting.prediction.BATCH_NUMBERS", 5)
    pd.testing.assert_frame_equal(
        fit.top("stars", np.array(["eve", "ann", "bob"]), observed=True), whole
    )
    assert len(fit.top("stars", [])) == 0


def test_row_effects_offsets_and_links_have_their_part_in_rankings():
    rng = np.random.default_rng(0)
    counts = rng.poisson(3.0, (6, 5)).astype(float)
    offset = rng.normal(size=(6, 5))
    block = mc.Block("n", mc.Poisson(), bias=True, row_effects=True)
    fit = mc.fit(
        mc.Model([block], [mc.NuclearNorm(2.0)]), {"n": mc.Observations(counts, offset=offset)}
    )
    found = fit.top("n", [4, 1], n=5, observed=True)
    for row in (4, 1):
        mine = {column: predicted for one, column, predicted in found if one == row}
        np.testing.assert_allclose([mine[k] for k in range(5)], fit.predict("n")[row], rtol=1e-9)
        assert list(mine) == np.argsort(-fit.predict("n")[row]).tolist()


def test_equal_predictions_come_in_the_order_of_the_columns():
    numbers = np.array([1.0, 3.0, 2.0, 3.0, 2.0, 2.0])
    assert largest(numbers, 3).tolist() == [1, 3, 2]
    assert largest(numbers, 9).tolist() == [1, 3, 2, 4, 5, 0]
    assert largest(numbers[:0], 2).tolist() == []


@pytest.mark.parametrize("of", [pd.DataFrame, pa.Table.from_pylist])
def test_a_frame_of_new_rows_is_to_be_triples_as_those_of_the_fit(fit, of):
    new = of([{"user": "zed", "film": "Up", "stars": 4.0}])
    said = refusal(fit.top_rows, "stars", {"stars": new})
    assert "the new rows are a frame without a column of the fit" in said
    assert f"mc.from_triples(frame, row={fit.problem.tables['stars'].index.name!r}" in said


def test_wrong_questions_for_rankings_are_refused(fit):
    assert refusal(fit.top, "stars", ["ann", "zed"]) == (
        "block 'stars': the fit has no user 'zed'; give new rows to predict_rows, top_rows or"
        " posterior.condition"
    )
    for n in (0, 1.5, "many"):
        with pytest.raises(mc.ModelError, match="n="):
            fit.top("stars", "ann", n=n)


# New rows


def test_new_rows_as_triples_have_the_columns_of_the_fit_by_label(fit):
    new = read(pd.DataFrame(columns(["zed", "zed", "yan"], ["Alien", "Up", "Alien"], [5, 3, 2])))
    order = list(fit.predict("stars").columns)
    wide = pd.DataFrame(
        [[3, 5, NAN, NAN], [NAN, 2, NAN, NAN]], index=["zed", "yan"], columns=order
    )
    found = fit.predict_rows("stars", {"stars": new})
    pd.testing.assert_frame_equal(
        found, fit.predict_rows("stars", {"stars": wide}), check_names=False
    )
    filled = fit.impute_rows("stars", {"stars": new})
    assert filled.loc["zed", ["Up", "Alien"]].tolist() == [3.0, 5.0]
    weighted = fit.predict_rows("stars", {"stars": mc.Observations(new, weights=1.0)})
    pd.testing.assert_frame_equal(weighted, found)
    stars = mc.from_triples(row=["zed"], column=["Tron"], value=[5])
    assert refusal(fit.predict_rows, "stars", {"stars": stars}) == (
        "block 'stars': the new rows have film 'Tron', which the fit has not; leave such triples"
        " out"
    )


@pytest.mark.parametrize("library", [*LIBRARIES, "sequences"])
def test_the_best_columns_of_new_rows(fit, library):
    given = columns(["zed", "zed", "yan"], ["Up", "Alien", "Alien"], [3.0, 5.0, 2.0])
    if library == "sequences":
        new = mc.from_triples(row=given["user"], column=given["film"], value=given["rating"])
    else:
        new = read(LIBRARIES[library](given))
    found = fit.top_rows("stars", {"stars": new}, n=2)
    if library == "sequences":
        found = pd.DataFrame(found, columns=["row", "film", "predicted"])
    else:
        assert type(found) is type(LIBRARIES[library](given))
        found = pd.DataFrame({name: list(found[name].to_numpy()) for name in ("user", "film")})
    assert found.iloc[:, 0].tolist() == ["zed", "zed", "yan", "yan"]
    predicted = np.asarray(fit.predict_rows("stars", {"stars": new}))
    order = ["Up", "Alien", "Jaws", "Heat"]
    for place, (user, seen) in enumerate([("zed", {"Up", "Alien"}), ("yan", {"Alien"})]):
        best = [order[k] for k in np.argsort(-predicted[place]) if order[k] not in seen]
        assert found["film"][found.iloc[:, 0] == user].tolist() == best[:2]


def test_new_triples_beside_a_fit_of_an_array_have_positions_as_columns():
    plain = mc.fit(MODEL, {"stars": [[5.0, NAN, 1.0], [4.0, 2.0, 3.0]]})
    new = mc.from_triples(row=["zed"], column=[2], value=[1.0])
    wanted = plain.predict_rows("stars", {"stars": [[NAN, NAN, 1.0]]})
    np.testing.assert_array_equal(plain.predict_rows("stars", {"stars": new}), wanted)


# Sizes


def test_a_table_that_does_not_fit_into_memory_is_fitted_and_asked(monkeypatch):
    rng = np.random.default_rng(0)
    users, films = np.arange(20_000) * 10**12, [f"film {k}" for k in range(5_000)]
    rows, names = rng.integers(0, 300, 3000), rng.integers(0, 40, 3000)
    triples = sequences(
        users[rows],
        np.take(films, names),
        rng.normal(size=3000),
        rows=users,
        columns=films,
        duplicates="mean",
    )
    assert triples.shape == (20_000, 5_000)
    model = mc.Model([mc.Block("stars", mc.Gaussian())], [mc.NuclearNorm(3.0)])
    monkeypatch.setattr("mcframe.fitting.prediction.physical_gigabytes", lambda: 1.0)
    with pytest.warns(mc.UnobservedWarning):
        fit = mc.fit(model, {"stars": triples}, tol=1e-2)
    assert "fit.predict_pairs('stars', pairs)" in refusal(fit.predict, "stars")
    user, film = int(users[rows[0]]), films[names[0]]
    found = fit.top("stars", user, n=5)
    assert len(found) == 5
    assert film not in [film for _, film, _ in found]
    pairs = [(user, film) for user, film, _ in found]
    wanted = [predicted for _, _, predicted in found]
    np.testing.assert_allclose(fit.predict_pairs("stars", pairs), wanted, atol=1e-12)


@pytest.mark.slow(seconds=3)
def test_movielens_end_to_end(data_folder):
    """Better than the films' means on held-out ratings, asked by label."""
    ratings = read_ratings(data_folder / "movielens100k.npz")
    frame = pd.DataFrame(
        {
            "user": ratings.user_ids[ratings.users],
            "film": [f"film {k}" for k in ratings.item_ids[ratings.items]],
            "rating": ratings.ratings,
        }
    )
    held = np.random.default_rng(0).random(len(frame)) < 0.1
    block = mc.Block("stars", mc.Gaussian(), bias=True, row_effects=True)
    model = mc.Model([block], [mc.NuclearNorm(12.0)])
    fit = mc.fit(model, {"stars": read(frame[~held])}, tol=1e-3)
    test = frame[held]
    predicted = fit.predict_pairs("stars", test, unknown="nan")
    known = ~np.isnan(predicted)
    assert known.mean() > 0.99
    means = test["film"].map(frame[~held].groupby("film")["rating"].mean())
    truth = test["rating"].to_numpy()

    def error(guess):
        return np.sqrt(np.mean((np.asarray(guess) - truth)[known] ** 2))

    assert error(predicted) < 0.95 < 1.0 < error(means.fillna(3.5))
    best = fit.top("stars", [196, 22], n=5)
    assert best["user"].tolist() == [196] * 5 + [22] * 5
    seen = frame[~held & (frame["user"] == 22)]["film"]
    assert not set(best["film"][5:]) & set(seen)


# Uncertainty by label, and bounds of values


@pytest.fixture(scope="module")
def posterior():
    block = mc.Block("stars", mc.Gaussian(variance=0.5), bias=True)
    model = mc.Model([block], [mc.NuclearNorm()])
    return mc.posterior(model, {"stars": read(pd.DataFrame(columns()))})


PAIRS = [("bob", "Heat"), ("ann", "Jaws"), ("eve", "Up")]
PLACES = {"rows": [1, 0, 2], "columns": [3, 2, 0]}


def test_deviations_intervals_and_probabilities_are_asked_for_by_label(posterior):
    frame = pd.DataFrame(PAIRS, columns=["user", "film"])
    conformal = posterior.conformalize(0.5)
    labels = pd.DataFrame(columns(stars=[2, 1, 1, 0, 2, 0, NAN]))
    levels = {"kind": read(labels)}
    model = mc.Model([mc.Block("kind", mc.Ordinal(levels=3, lowest=0))], [mc.NuclearNorm()])
    ordinal = mc.posterior(model, levels)
    answers = [
        (posterior.sd, ("stars",)),
        (posterior.interval, ("stars", 0.8)),
        (conformal.interval, ("stars", 0.8)),
        (ordinal.probabilities, ("kind",)),
        (ordinal.set, ("kind", 0.8)),
        (ordinal.interval, ("kind", 0.8)),
    ]
    for ask, given in answers:
        wanted = np.asarray(ask(*given, **PLACES))
        for pairs in (PAIRS, frame):
            np.testing.assert_array_equal(np.asarray(ask(*given, pairs=pairs)), wanted)
        with pytest.raises(mc.DataError, match="the fit has no user 'zoe'"):
            ask(*given, pairs=[("zoe", "Up")])
        with pytest.raises(mc.ModelError, match="pairs were given together with rows or columns"):
            ask(*given, pairs=PAIRS, **PLACES)
        with pytest.raises(mc.ModelError, match="pairs were given together with rows or columns"):
            ask(*given, pairs=PAIRS, rows=np.arange(3), columns=np.arange(3))
        with pytest.raises(mc.ModelError, match="'nothing'"):
            ask("nothing", *given[1:], pairs=PAIRS)
        assert np.asarray(ask(*given, pairs=[])).size == 0
    unknown = {"pairs": [*PAIRS, ("zoe", "Up")], "unknown": "nan"}
    assert np.isnan(posterior.sd("stars", **unknown)).tolist() == [False] * 3 + [True]
    assert all(np.isnan(end[-1]) for end in posterior.interval("stars", **unknown))
    assert np.isnan(ordinal.probabilities("kind", **unknown)[-1]).all()


def test_whole_numbers_are_labels_in_pairs_and_positions_elsewhere():
    triples = sequences(users=[7, 7, 3, 3, 0, 0, 3], films=[9, 1, 9, 0, 1, 2, 2])
    model = mc.Model([mc.Block("stars", mc.Gaussian(variance=0.5))], [mc.NuclearNorm()])
    posterior = mc.posterior(model, {"stars": triples})
    by_label = posterior.sd("stars", pairs=[(0, 9)])
    assert by_label == posterior.sd("stars", rows=[2], columns=[0])
    assert by_label != posterior.sd("stars", rows=[0], columns=[0])


def test_rankings_of_a_posterior_have_the_deviation(posterior):
    best = posterior.top("stars", ["eve", "bob"], n=2)
    assert list(best.columns) == ["user", "film", "predicted", "sd"]
    pairs = best[["user", "film"]]
    np.testing.assert_array_equal(best["sd"], posterior.sd("stars", pairs=pairs))
    np.testing.assert_array_equal(best["predicted"], posterior.predict_pairs("stars", pairs))
    plain = mc.posterior(posterior.model, {"stars": sequences()}).top("stars", "eve", n=1)
    assert len(plain[0]) == 4
    assert len(posterior.top("stars", [])) == 0
    new = posterior.condition({"stars": sequences(["zoe"], ["Up"], [5.0])})
    assert [len(row) for row in new.top("stars", ["zoe"])] == [4] * 3


@pytest.mark.parametrize("standardize", [False, True, "ranks"])
@pytest.mark.parametrize("bounds", [(1, 5), (2, None), (None, 4.5)])
@pytest.mark.some(0.2)
def test_stars_have_bounds(bounds, standardize):
    users, films = np.divmod(np.arange(60), 6)
    ends = (bounds[0] or -np.inf, bounds[1] or np.inf)
    stars = np.clip(np.outer(np.arange(10.0) - 4.0, [1.0, 2.0, 3.0, -1.0, -2.0, 0.5]), *ends)
    stars[np.arange(10), np.arange(10) % 6] = NAN
    data = {"stars": pd.DataFrame(stars)}
    block = mc.Block("stars", mc.Gaussian(), bias=True, standardize=standardize)
    blocks = (block, attrs.evolve(block, bounds=bounds))
    models = [mc.Model([each], [mc.NuclearNorm(0.1)]) for each in blocks]
    free, bounded = (mc.fit(model, data, tol=1e-9) for model in models)
    clipped = free.predict("stars").clip(*ends)
    if standardize != "ranks":  # which are not read back beyond the observed values
        assert (free.predict("stars") != clipped).any(axis=None)
    pd.testing.assert_frame_equal(bounded.predict("stars"), clipped)
    pd.testing.assert_frame_equal(bounded.natural("stars"), free.natural("stars"))
    pd.testing.assert_frame_equal(bounded.impute("stars"), free.impute("stars").clip(*ends))
    at = {"rows": users, "columns": films}
    np.testing.assert_array_equal(bounded.predict("stars", **at), clipped.to_numpy().ravel())
    for rows in (bounded.predict_rows("stars", data), bounded.impute_rows("stars", data)):
        assert ((rows >= ends[0]) & (rows <= ends[1])).all(axis=None)
    order = ["row", "column"]
    for n in (2, 6):  # in the order of what is predicted without bounds
        assert bounded.top("stars", [0, 9], n, observed=True)[order].equals(
            free.top("stars", [0, 9], n, observed=True)[order]
        )
    assert bounded.top_rows("stars", data)["predicted"].between(*ends).all()
    posterior = mc.posterior(models[1], data, tol=1e-2)
    lower, upper = posterior.interval("stars", 0.99)
    conformal = posterior.conformalize(0.8).interval("stars")
    drawn = posterior.sample("stars", 3)
    ranked = posterior.top("stars", [0, 9], observed=True)["predicted"]
    answers = [lower, upper, *conformal, drawn, ranked, posterior.impute("stars")]
    for answer in [*answers, posterior.predict("stars"), posterior.predict("stars", **at)]:
        assert np.all((np.asarray(answer) >= ends[0]) & (np.asarray(answer) <= ends[1]))
    again = mc.Model.from_json(models[1].to_json())
    assert again == models[1]
    with pytest.raises(mc.DataError, match="its bounds are"):
        mc.fit(models[1], {"stars": [[0.5, 5.5]]})


def test_bounds_are_a_pair_of_values():
    for wrong in ((5, 1), (1, 1), (None, None), 3, ("a", 1), (1, NAN), (1, 2, 3), "15"):
        with pytest.raises(mc.ModelError, match="the least and the largest value are needed"):
            mc.Block("x", mc.Gaussian(), bounds=wrong)
    with pytest.raises(mc.ModelError, match="Poisson needs counts"):
        mc.Block("x", mc.Poisson(), bounds=(0, 5))
