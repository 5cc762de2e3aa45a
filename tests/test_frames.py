"""DataFrames and Series: what is read, and what is asked where there are two readings."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.estimators import (
    MatrixCompletionClassifier,
    MatrixCompletionImputer,
    MatrixCompletionRegressor,
)

MODEL = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
NAN = np.nan


def table_of(given, likelihood=None):
    """What is read, as a dense array; None for what is refused with a DataError."""
    block = mc.Block("x", likelihood or mc.Gaussian())
    table = mc.Problem.bind(mc.Model([block], MODEL.terms), {"x": given}).tables["x"]
    dense = np.full(table.shape, NAN)
    dense[table.rows, table.columns] = table.values
    return dense


def refusal(given, likelihood=None):
    with pytest.raises(mc.DataError) as caught:
        table_of(given, likelihood)
    return str(caught.value)


# Kinds of columns


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1.0, NAN, 0.0], dtype=object),
        pd.Series([1, None, 0], dtype="Int64"),
        pd.Series([1, None, 0], dtype="Float64"),
        pd.Series([True, None, False], dtype="boolean"),
        pd.Series([True, None, False], dtype=object),
        pd.Series([1, pd.NA, 0], dtype=object),
        pd.Series(pd.Categorical([1, None, 0])),
        pd.Series(pd.arrays.SparseArray([1.0, NAN, 0.0])),
    ],
    ids=lambda column: str(column.dtype),
)
def test_numbers_are_read_and_what_is_missing_is_missing(column):
    frame = pd.DataFrame({"full": [5, 6, 7], "x": column})
    np.testing.assert_array_equal(table_of(frame), [[5, 1], [6, NAN], [7, 0]])
    if column.dtype != object:  # an array without labels as well
        with pytest.warns(mc.UnobservedWarning):
            np.testing.assert_array_equal(table_of(column.array)[:, 0], [1, NAN, 0])


@pytest.mark.parametrize(
    "column",
    [
        pd.to_datetime(pd.Series(["2020-01-01", "2021-01-01"])),
        pd.to_datetime(pd.Series(["2020-01-01", "2021-01-01"]), utc=True),
        pd.to_timedelta(pd.Series([1, 2]), unit="s"),
        pd.Series(pd.period_range("2020", periods=2, freq="Y")),
        pd.Series(pd.interval_range(0, 2)),
        pd.Series([1.0 + 1j, 2.0]),
        pd.Series([np.timedelta64(1, "s"), 2.0], dtype=object),
        pd.Series(["red", None]),
        pd.Series(["red", None], dtype="string"),
        pd.Series(pd.Categorical(["red", "blue"])),
        pd.Series([[1.0], [2.0]]),
    ],
    ids=lambda column: f"{column.dtype} {column.iloc[0]}",
)
def test_what_is_no_number_is_refused(column):
    for given in (pd.DataFrame({"a": column}), column.rename("a")):
        said = refusal(given)
        assert "block 'x', column 'a': value " in said
        assert "is not a number" in said
        assert "Gaussian needs finite real numbers" in said


@pytest.mark.parametrize("kind", [object, None, "string", "category"])
def test_text_that_reads_as_numbers_is_not_guessed(kind):
    frame = pd.DataFrame({"a": pd.Series(["1.5", "2", None], dtype=kind), "b": 1.0})
    said = refusal(frame)
    assert "column 'a': value '1.5' is not a number" in said
    assert "pandas.to_numeric(column)" in said
    repaired = frame.assign(a=pd.to_numeric(frame["a"]))
    np.testing.assert_array_equal(table_of(repaired)[:, 0], [1.5, 2.0, NAN])
    array = frame[["a"]].astype(object).to_numpy()
    assert "array.astype(float)" in refusal(array)
    some = refusal(frame.assign(a=["1.5", "?", "2"]))
    assert "pandas.to_numeric(column, errors='coerce')" in some


@pytest.mark.parametrize("kind", [object, None, "string", "category"])
def test_ordered_words_are_not_told_to_be_numbered_by_appearance(kind):
    frame = pd.DataFrame({"stars": pd.Series(["mid", "low", None, "high"], dtype=kind)})
    said = refusal(frame, mc.Ordinal(3, lowest=1))
    assert "factorize" not in said
    assert "pandas.Categorical(column, categories=[lowest, ..., highest], ordered=True)" in said
    assert ".codes + 1, " in said
    assert ".codes + 0, " in refusal(frame, mc.Ordinal(3, lowest=0))
    assert "pandas.factorize(column)[0]" in refusal(frame, mc.Multinomial(3))
    assert "categories go into a block" in refusal(frame)
    # The remedy, as it is given.
    levels = pd.Categorical(frame["stars"], categories=["low", "mid", "high"], ordered=True)
    codes = levels.codes + 1.0
    codes[levels.codes == -1] = NAN
    with pytest.warns(mc.UnobservedWarning):
        assert table_of(codes, mc.Ordinal(3))[:, 0].tolist()[:2] == [2.0, 1.0]


RISK = mc.RiskMixture(pn=0.5, pu=0.5, missing_rate=0.5, likelihood=mc.Bernoulli())


@pytest.mark.parametrize("likelihood", [mc.Bernoulli(), mc.Hinge(), RISK], ids=repr)
def test_two_words_become_labels(likelihood):
    frame = pd.DataFrame({"a": ["yes", None, "no"], "b": 1.0})
    said = refusal(frame, likelihood)
    assert "column.map({'no': 0.0, 'yes': 1.0})" in said
    labels = frame["a"].map({"no": 0.0, "yes": 1.0})
    assert np.isnan(labels[1])
    assert labels[[0, 2]].tolist() == [1.0, 0.0]


def test_numbers_too_large_for_a_float_are_refused_as_such():
    assert "value inf in column 'a'" in refusal(pd.DataFrame({"a": [10**400, 1]}))
    assert "value -inf in column 0" in refusal(np.array([[-(10**400)], [1]], dtype=object))


@pytest.mark.parametrize("shape", [(0, 0), (0, 2), (2, 0)])
def test_frames_without_a_row_or_a_column_are_refused_by_their_shape(shape):
    frame = pd.DataFrame(np.zeros(shape))
    for given in (frame, frame.to_numpy(), sp.csr_array(shape)):
        assert f"data of shape {shape}" in refusal(given)


def test_labels_in_levels_and_labels_that_repeat():
    names = pd.MultiIndex.from_tuples([("size", 0), ("size", 1)])
    frame = pd.DataFrame([[1.0, NAN], [3.0, 4.0]], index=["a", "a"], columns=names)
    fit = mc.fit(MODEL, {"x": frame})
    assert fit.impute("x").columns.equals(names)
    assert list(fit.impute("x").index) == ["a", "a"]
    assert "column ('size', 1)" in refusal(frame.astype(object).replace(4.0, "four"))


def test_messages_name_labels_as_they_are_written():
    names = pd.Index([30, 10])
    frame = pd.DataFrame([[1.0, np.inf], [2.0, 3.0]], index=pd.Index([7, 5]), columns=names)
    assert "value inf in column 10, row 7;" in refusal(frame)
    assert "column 10: value 'x' is" in refusal(frame.astype(object).replace(np.inf, "x"))
    twice = pd.MultiIndex.from_tuples([("a", 1), ("a", 1)])
    assert "2 columns of the table have the name ('a', 1)" in refusal(
        frame.set_axis(twice, axis=1)
    )


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ([0, 1], pd.Index([0, 1], dtype="Int64"), None),
        ([0, 1], [0.0, 1.0], None),
        (pd.Index(["a", None], dtype=object), pd.Index(["a", np.nan], dtype=object), None),
        (pd.Index([1, None], dtype="Int64"), pd.Index([1.0, np.nan]), None),
        ([0, 1], ["0", "1"], "first 0 and '0' in row 0"),
        ([0, 1], pd.Index([0, None], dtype="Int64"), "first 1 and <NA> in row 1"),
        (pd.Index(["a", pd.NA], dtype=object), ["a", "b"], "first <NA> and 'b' in row 1"),
        (["a", np.nan], ["a", "b"], "first nan and 'b' in row 1"),
    ],
    ids=str,
)
def test_rows_with_the_same_labels_are_the_same_rows(one, other, said):
    """Whatever the dtypes of the indexes."""
    blocks = [mc.Block("x", mc.Gaussian()), mc.Block("y", mc.Gaussian())]
    model = mc.Model(blocks, MODEL.terms)
    data = {"x": pd.DataFrame([1.0, 2.0], index=one), "y": pd.DataFrame([1.0, 2.0], index=other)}
    if said is None:
        mc.Problem.bind(model, data)
        return
    with pytest.raises(mc.DataError, match=said):
        mc.Problem.bind(model, data)


def test_one_variable_with_a_column_for_each_class():
    """Codes of one column are meant; three columns are three variables of three classes each."""
    kind = pd.Series(np.random.default_rng(0).integers(0, 3, 12))
    one_hot = pd.get_dummies(kind, dtype=float)
    gaps = one_hot.copy()
    gaps.iloc[3], gaps.iloc[4, 1] = NAN, NAN
    weighted = mc.Observations(one_hot, weights=2.0)
    for given in (one_hot.astype(bool), one_hot.to_numpy(), gaps, weighted):
        said = refusal(given, mc.Multinomial(3))
        assert "block 'x': every row of its 3 columns has one 1 and else 0" in said
        assert "numpy.argmax(values, axis=1)" in said
        assert "mc.Multinomial(classes=2)" in said
    codes = np.argmax(one_hot.to_numpy(), axis=1)
    assert table_of(codes, mc.Multinomial(3))[:, 0].tolist() == kind.tolist()


def test_codes_that_are_no_columns_of_classes():
    one_hot = np.eye(3)[np.arange(12) % 3]
    assert table_of(one_hot, mc.Multinomial(2)).shape == (12, 3)
    assert table_of(one_hot, mc.Multinomial(4)).shape == (12, 3)
    assert table_of(one_hot[:, :2], mc.Multinomial(2)).shape == (12, 2)
    assert table_of(2 * one_hot, mc.Multinomial(3)).shape == (12, 3)
    assert table_of(one_hot[:4], mc.Multinomial(3)).shape == (4, 3)
    for row in ([0.0, 0.0, 0.0], [1.0, 1.0, 0.0]):
        assert table_of(np.vstack([one_hot, row]), mc.Multinomial(3)).shape == (13, 3)


# Sparse columns


def sparse(values, fill):
    return pd.arrays.SparseArray(values, fill_value=fill)


def test_sparse_columns_that_leave_zeros_out_have_two_readings():
    frame = pd.DataFrame({"a": sparse([0, 1, 0], 0), "b": sparse([3, 1, 2], 0)})
    said = refusal(frame)
    assert "column 'a': the column is sparse (dtype Sparse[int64, 0])" in said
    assert "frame.sparse.to_coo()" in said
    assert "frame.sparse.to_dense()" in said
    with pytest.warns(mc.UnobservedWarning):
        np.testing.assert_array_equal(table_of(frame[["a"]].sparse.to_coo())[:, 0], [NAN, 1, NAN])
    np.testing.assert_array_equal(table_of(frame.sparse.to_dense()), [[0, 3], [1, 1], [0, 2]])
    # One that stores all of its entries has only one.
    np.testing.assert_array_equal(table_of(frame[["b"]])[:, 0], [3, 1, 2])
    assert "Sparse[bool, False]" in refusal(pd.get_dummies(pd.Series(list("aba")), sparse=True))


def test_a_sparse_series_has_two_readings_as_well():
    series = pd.Series(sparse([0.0, 1.0, 0.0], 0.0), name="a")
    for given in (series, series.array):
        said = refusal(given)
        assert "series.to_frame().sparse.to_coo()" in said
        assert "series.to_frame().sparse.to_dense()" in said
    zeros = table_of(series.to_frame().sparse.to_dense())
    assert zeros[:, 0].tolist() == [0.0, 1.0, 0.0]
    with pytest.warns(mc.UnobservedWarning):
        assert np.isnan(table_of(series.to_frame().sparse.to_coo())[:, 0]).tolist() == [1, 0, 1]


@pytest.mark.parametrize("column", [[0.0, 1.0, 0.0], [False, True, False]])
def test_frames_of_which_some_columns_are_sparse(column):
    frame = pd.DataFrame({"plain": [1.0, 2.0, 3.0], "a": sparse(column, column[0])})
    said = refusal(frame)
    assert "frame['a'].sparse.to_dense() as the column" in said
    assert "frame['a'].sparse.to_dense().astype(float).replace(0, numpy.nan)" in said
    zeros = frame.assign(a=frame["a"].sparse.to_dense())
    np.testing.assert_array_equal(table_of(zeros)[:, 1], [0, 1, 0])
    missing = frame.assign(a=frame["a"].sparse.to_dense().astype(float).replace(0, np.nan))
    np.testing.assert_array_equal(table_of(missing)[:, 1], [NAN, 1, NAN])


@pytest.mark.parametrize("fill", [NAN, 1.0])
def test_other_sparse_columns_have_one_reading(fill):
    frame = pd.DataFrame({"plain": [1.0, 2.0, 3.0], "a": sparse([fill, 0.0, 2.0], fill)})
    np.testing.assert_array_equal(table_of(frame)[:, 1], [fill, 0.0, 2.0])


# Long lists of entries


def long_list(names, n_rows=12, n_columns=8, share=0.6, n_more=0):
    rng = np.random.default_rng(1)
    rows, columns = np.nonzero(rng.random((n_rows, n_columns)) < share)
    values = [rows, columns, rng.integers(1, 6, rows.size)]
    values += [rng.integers(10**9, 2 * 10**9, rows.size) for _ in range(n_more)]
    return pd.DataFrame(dict(zip(names, values, strict=True)))


@pytest.mark.parametrize(
    "names",
    [
        ["user_id", "item_id", "rating"],
        ["userId", "movieId", "rating"],
        ["USERID", "ITEMID", "RATING"],
        ["user", "item", "rating"],
        ["row", "col", "value"],
        ["Rows", "Columns", "x"],
        ["student", "question", "score"],
        ["author_id", "paper_id", "weight"],
        ["unit", "year", "outcome"],
    ],
    ids=str,
)
def test_a_long_list_of_entries_is_no_table(names):
    frame = long_list(names)
    said = refusal(frame)
    assert f"every pair of {names[0]!r} and {names[1]!r} once" in said
    assert "table of 12 x 8 entries" in said
    # Both remedies, as they are given.
    row, column, value = names
    assert f"mc.from_triples(frame, row={row!r}, column={column!r}, value={value!r})" in said
    triples = mc.from_triples(frame, row=row, column=column, value=value)
    assert table_of(triples).shape == (12, 8)
    assert table_of(frame.to_numpy()).shape == (len(frame), 3)


HINT = (
    "the DataFrame of {n} rows and columns 'user', 'item', 'rating' has every pair of 'user' and"
    " 'item' once, as a long list of entries has, one in a row; its own 3 columns are read as a"
    " table. To complete the table of 12 x 8 entries that it lists, fit mc.from_triples(frame,"
    " row='user', column='item', value='rating'); if its own columns are to be completed,"
    " types={{'user': 'category'}} confirms this"
)


def hints(work, *arguments, **options):
    """What warnings say of lists of entries."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work(*arguments, **options)
    return [text for text in (str(each.message) for each in caught) if "from_triples" in text]


TABLE_VERBS = {
    "declare": mc.declare,
    "complete": mc.complete,
    "optimum": lambda frame, types=None: mc.complete(frame, types, method="optimum"),
    "imputer": lambda frame, types=None: MatrixCompletionImputer(types=types).fit(frame),
}


LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}
# An optimum asks for the same hint, and takes seconds: of other libraries under the slow marker.
VERBS_OF_LIBRARIES = [
    pytest.param(
        verb,
        library,
        marks=[pytest.mark.slow(seconds=3)] * (verb == "optimum" and library != "pandas"),
    )
    for verb in TABLE_VERBS
    for library in LIBRARIES
]


@pytest.mark.parametrize(("verb", "library"), VERBS_OF_LIBRARIES)
@pytest.mark.parametrize("keys", ["numbers", "text"])
@pytest.mark.parametrize(
    "with_gaps", [False, pytest.param(True, marks=pytest.mark.slow(seconds=8))]
)
@pytest.mark.some(0.5)
def test_tables_hint_at_triples_where_a_frame_lists_entries(verb, library, keys, with_gaps):
    of = LIBRARIES[library]
    frame = long_list(["user", "item", "rating"])
    if keys == "text":
        frame = frame.assign(user=[f"user {code}" for code in frame["user"]])
    if with_gaps:
        frame = frame.assign(rating=frame["rating"].astype(float).where(frame.index % 5 > 0))
    assert hints(TABLE_VERBS[verb], of(frame)) == [HINT.format(n=len(frame))]
    # Who declares one of the keys means a table.
    assert not hints(TABLE_VERBS[verb], of(frame), types={"item": "number"})


@pytest.mark.parametrize("estimator", [MatrixCompletionRegressor, MatrixCompletionClassifier])
def test_estimators_hint_at_triples_where_features_are_keys(estimator):
    frame = long_list(["user", "item", "rating"])
    [said] = hints(estimator().fit, frame[["user", "item"]], frame["rating"])
    assert "fit mc.from_triples(row=X['user'], column=X['item'], value=y)" in said
    triples = mc.from_triples(row=frame["user"], column=frame["item"], value=frame["rating"])
    assert triples.shape == (12, 8)
    assert not hints(estimator().fit, frame[["item", "rating"]], frame["user"])


def test_names_are_enough_for_a_hint_and_not_for_a_refusal():
    few = pd.DataFrame({"user": [0, 0, 1], "item": [5, 6, 5], "rating": [3, 4, None]})
    twice = pd.concat([long_list(["user", "item", "rating"])] * 2)
    assert len(hints(mc.declare, few)) == 1
    [said] = hints(mc.declare, twice)
    assert "is named as a long list of entries is" in said
    assert "value='rating', duplicates='mean')" in said
    assert mc.from_triples(
        twice, row="user", column="item", value="rating", duplicates="mean"
    ).shape == (12, 8)
    # Repeated measurements are a table, too: they are no list by their names alone.
    visits = pd.DataFrame({"patient": [0, 0, 1], "month": [1, 2, 1], "score": [3.0, 4.5, None]})
    assert not hints(mc.declare, visits)


def test_the_value_of_an_entry_is_the_column_that_is_named_so():
    frame = long_list(["user", "item", "timestamp", "rating"], n_more=1)
    assert "value='rating')" in hints(mc.declare, frame)[0]


def test_data_of_a_declared_list_are_fitted_as_the_table_that_they_are(tmp_path):
    frame = long_list(["user", "item", "rating"]).assign(rating=lambda f: f["rating"] + 0.5)
    declared = mc.declare(frame, {"user": "number"})
    fit = mc.fit(declared.model, declared.data)
    completed = mc.Completion.of(declared, fit)
    loaded = mc.load(completed.save(tmp_path / "of_a_list.npz"))
    again = mc.fit(loaded.declared.model, loaded.declared.data)
    assert again.objective == pytest.approx(fit.objective)


def test_a_long_list_with_text_and_with_times():
    frame = long_list(["user", "item", "rating", "timestamp"], n_more=1)
    assert "long list" in refusal(frame)
    assert "long list" in refusal(frame[["rating", "timestamp", "item", "user"]])
    assert "long list" in refusal(frame.astype({"user": float}))
    named = frame.assign(user=[f"user {code}" for code in frame["user"]])
    assert "long list" in refusal(named)
    assert "long list" in refusal(named.astype({"user": "category"}))
    assert "long list" in refusal(mc.Observations(named, weights=2.0))


HONEST = {
    "counts with such names": pd.DataFrame(
        np.random.default_rng(0).poisson(3.0, (200, 3)), columns=["users", "items", "orders"]
    ),
    "growing counts": pd.DataFrame(
        np.random.default_rng(0).poisson(0.5, (200, 3)).cumsum(axis=0),
        columns=["users", "items", "orders"],
    ),
    "answers to three questions": pd.DataFrame(
        np.random.default_rng(0).integers(1, 6, (20, 3)), columns=["item1", "item2", "item3"]
    ),
    "other names": long_list(["height", "age", "score"]),
    "measurements": pd.DataFrame(
        np.random.default_rng(0).normal(5.0, 1.0, (150, 4)).round(1),
        columns=["sepal length", "sepal width", "petal length", "petal width"],
    ),
    "few rows": long_list(["row", "col", "value"], 3, 3, 1.0),
    "a gap": long_list(["user", "item", "rating"]).assign(
        user=lambda f: f["user"].replace(3, NAN)
    ),
    "fractions": long_list(["user", "item", "rating"]).assign(user=lambda f: f["user"] + 0.5),
    "a pair that stands twice": pd.concat([long_list(["user", "item", "rating"])] * 2),
    "five columns": long_list(["user", "item", "rating", "a", "b"], n_more=2),
    "two columns": long_list(["user", "item", "rating"])[["user", "item"]],
}


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_table_is_no_long_list(kind):
    assert table_of(HONEST[kind]).shape == HONEST[kind].shape


@pytest.mark.parametrize("kind", [k for k in HONEST if not {"user", "row"} & {*HONEST[k]}])
def test_no_hint_of_an_honest_table(kind):
    assert not hints(mc.declare, HONEST[kind])
