"""Tables of any columns: what each is taken for and why, as a model, and the way back."""

import datetime as dt

import attrs
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mcframe as mc

NAN = np.nan
ENCODED = pa.dictionary(pa.int32(), pa.string())
LETTERS = ["a", "b", "c", None] * 5


def taken(values, types=None, name="x", beside=True):
    """What a column is taken for, and why, beside one that is always a number."""
    n_rows = len(values)
    frame = pd.DataFrame({"beside": np.linspace(0.5, 9.0, n_rows), name: values})
    column = mc.declare(frame, {name: types} if types is not None else None).column(name)
    return column.kind, column.why


def refusal(frame, types=None, error=mc.DataError):
    with pytest.raises(error) as caught:
        mc.declare(frame, types)
    return str(caught.value)


def completed(frame, types=None):
    """The table after a fit at the weight to begin with."""
    declared = mc.declare(frame, types)
    return declared.table(mc.fit(declared.model, declared.data, tol=1e-3))


# What columns are taken for


@pytest.mark.parametrize(
    ("values", "kind", "why"),
    [
        ([1.5, NAN, 2.5, 4.0], "number", "numbers"),
        ([3, 1, 7, 7], "number", "whole numbers"),
        ([1990, 1991, 1992, 1993], "number", "whole numbers"),
        ([5, 3, 5, 3], "number", "whole numbers"),
        ([0, 1, 1, 0], "label", "0 and 1 alone"),
        ([0.0, 1.0, NAN, 0.0], "label", "0 and 1 alone"),
        ([True, False, True, True], "label", "true and false"),
        ([True, None, False, True], "label", "true and false"),
        (["no", "yes", None, "no"], "label", "text, of two values: 'no' and 'yes'"),
        (["0", "1", None, "1"], "label", "text, of two values: '0' and '1'"),
        (LETTERS, "category", "text, of 3 values"),
        (pd.Categorical(LETTERS), "category", "categories, of 3 values"),
        (
            pd.Categorical(LETTERS, ["c", "a", "b", "never"], ordered=True),
            "ordinal",
            "ordered categories, of 3 levels: 'c' to 'b'",
        ),
        (
            pd.Categorical(["lo", "hi", None, "lo"], ["lo", "mid", "hi"], ordered=True),
            "label",
            "categories, of two values: 'lo' and 'hi'",
        ),
        (pd.Categorical([3, 1, 2, 3, 1]), "category", "categories, of 3 values"),
        ([2, 2, None, 2], "constant", "every observed value is 2.0"),
        (["a", None, "a", "a"], "constant", "every observed value is 'a'"),
        ([None] * 4, "set aside", "not one of its values is observed"),
        ([NAN] * 4, "set aside", "not one of its values is observed"),
        (
            ["u1", "u2", "u3", None],
            "set aside",
            "text, and all 3 values differ, as of an identifier",
        ),
        ([0, 1, 2, 3], "set aside", "whole numbers that count the rows"),
        ([1.0, 2.0, 3.0, 4.0], "set aside", "whole numbers that count the rows"),
        (
            ["1,234", "4", None, "2,000.5"],
            "set aside",
            "text of numbers with commas ('1,234' in row 0), which may stand before thousands or"
            " decimals; convert it, as by pandas.to_numeric(column.str.replace(...))",
        ),
        (
            ["0123", "0999", None, "1234"],
            "set aside",
            "text, and all 3 values differ, as of an identifier",
        ),
        (
            [3, "a", None, 2.5],
            "set aside",
            "it mixes numbers (3 in row 0) and text ('a' in row 1); give it one type",
        ),
        (
            [True, "a", None, "a"],
            "set aside",
            "it mixes truth values (True in row 0) and text ('a' in row 1); give it one type",
        ),
        (
            pd.to_datetime(["2020-01-01", None, "2021-01-01", "2021-01-01"]),
            "set aside",
            "dates; types={'x': 'date'} takes them as days",
        ),
        (
            [dt.date(2020, 1, 1), None, dt.date(2021, 1, 1), None],
            "set aside",
            "it holds Python dates; convert it by pandas.to_datetime",
        ),
        (
            pd.to_timedelta([1, 2, 3, 3], unit="D"),
            "set aside",
            "it holds durations; convert it to numbers, as by .dt.total_seconds()",
        ),
        (
            pd.period_range("2020", periods=4, freq="Y"),
            "set aside",
            "it holds period[Y-DEC]; convert it to numbers, text or categories",
        ),
        (
            [(1, 2), (3,), None, (1, 2)],
            "set aside",
            "it holds tuple objects; convert it to numbers, text or categories",
        ),
    ],
    ids=str,
)
def test_columns_are_taken_for_what_they_hold(values, kind, why):
    assert taken(values) == (kind, why)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("PassengerId", "set aside"),
        ("user_id", "set aside"),
        ("ID", "set aside"),
        ("rownames", "set aside"),
        ("acid", "number"),
        ("width", "number"),
        (7, "number"),
    ],
)
def test_whole_numbers_called_an_id_are_set_aside(name, kind):
    assert taken([31, 12, 31, 7], name=name)[0] == kind
    if kind == "set aside":
        why = "whole numbers, and its name says that they identify"
        assert taken([31, 12, 31, 7], name=name)[1] == why
        assert taken([31.5, 12, 31, 7], name=name)[0] == "number"
        assert taken([31, 12, 31, 7], "number", name=name)[0] == "number"


def test_text_that_mostly_differs_is_set_aside():
    names = [f"name {k}" for k in range(30)]
    why = "text, and 30 of 40 values differ, as of names"
    assert taken([*names, *names[:10]]) == ("set aside", why)
    assert taken([*names, *names, *names])[0] == "category"


def test_of_very_many_categories_the_most_frequent_are_classes_where_they_are_declared():
    words = [f"word {k % 10_000}" for k in range(30_000)]
    why = "text with 10000 different values, more than 100"
    assert taken(words) == ("set aside", why)
    categories = pd.Categorical(words)
    assert taken(categories) == ("set aside", "10000 categories, more than 100")
    rng = np.random.default_rng(0)
    x = rng.integers(0, 130, 400) // rng.integers(1, 4, 400)
    frame = pd.DataFrame({"x": x + 0.5, "w": [f"word {k}" for k in x]})
    frame.loc[::9, "w"] = None
    with pytest.warns(UserWarning, match="column 'w' has") as told:
        declared = mc.declare(frame, {"w": "category"})
    times = frame["w"].value_counts()
    rare = set(times.index) - set(declared.column("w").coding.places)
    assert len(rare) == len(times) - 100 > 0
    assert times[list(rare)].max() <= times.drop(list(rare)).min()
    assert str(told[0].message) == (
        f"column 'w' has {len(times)} categories: the 100 most frequent are classes, and the"
        f" {times[list(rare)].sum()} entries of others count as missing for the model, and stay as"
        " they are"
    )
    whole = declared.table(mc.fit(declared.model, declared.data, tol=0.3))
    seen = frame["w"].notna()
    pd.testing.assert_series_equal(whole.loc[seen, "w"], frame.loc[seen, "w"])
    assert not set(whole.loc[~seen, "w"]) & rare
    levels = {"x": "ordinal"}
    assert refusal(frame, levels).startswith("column 'x' was declared 'ordinal', but holds ")


# Numbers within bounds, and of any size


@pytest.mark.parametrize("dtype", ["float64", "Int64", "str"])
def test_numbers_are_predicted_within_their_bounds(dtype):
    z = np.linspace(-3.0, 3.0, 30)
    frame = pd.DataFrame({"x": np.round(4.0 * np.exp(z)), "z": z})
    frame.loc[:6, "x"] = NAN
    frame["x"] = frame["x"].astype(dtype)
    types = {"x": ("number", 0, None)}
    free = completed(frame, {"x": "number"})
    assert pd.to_numeric(free["x"]).min() < 0
    declared = mc.declare(frame, types)
    assert declared.column("x").why == "declared, numbers from 0"
    fit = mc.fit(declared.model, declared.data)
    found = pd.to_numeric(declared.table(fit)["x"])
    assert found.min() == 0
    assert found.max() == pd.to_numeric(frame["x"], errors="coerce").max()
    assert declared.predict(fit, "x")["x"].min() == 0
    new = declared.complete_rows(fit, frame.iloc[:3].assign(z=[-9.0, 0.0, 9.0]))
    assert pd.to_numeric(new["x"]).min() == 0
    upper = completed(frame, {"x": ["number", -np.inf, 90.5]})
    assert pd.to_numeric(upper["x"]).max() <= 90.5


@pytest.mark.parametrize(
    ("method", "scale"),
    [
        *(("posterior", scale) for scale in (1e-310, 1e-200, 1e200, 1e307)),
        *(pytest.param("optimum", scale, marks=pytest.mark.slow) for scale in (1e-310, 1e307)),
    ],
)
@pytest.mark.some(0.5, scale=[0, 3])
def test_numbers_whose_squares_overflow_or_vanish(method, scale):
    rng = np.random.default_rng(0)
    z = rng.standard_normal(40)
    frame = pd.DataFrame({"x": z, "y": z + 0.3 * rng.standard_normal(40), "up": z > 0})
    frame.loc[::5, "x"] = NAN
    types = {"x": ("number", -3, 3)}
    wanted = mc.complete(frame, types, method=method)
    types = {"x": ("number", -3 * scale, 3 * scale)}
    found = mc.complete(frame.assign(x=frame["x"] * scale), types, method=method)
    np.testing.assert_allclose(found.table["x"] / scale, wanted.table["x"], atol=1e-4)
    np.testing.assert_allclose(
        found.predict("x")["x"] / scale, wanted.predict("x")["x"], atol=1e-4
    )
    new = pd.DataFrame({"x": [NAN], "y": [1.0], "up": [True]})
    back = (each.complete_rows(new)["x"][0] for each in (wanted, found))
    assert next(back) == pytest.approx(next(back) / scale, abs=1e-4)
    ours, theirs = (each.report().set_index("column").loc["x"] for each in (found, wanted))
    assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
    assert ours["error"] / scale == pytest.approx(theirs["error"], rel=1e-3)


def test_one_row_has_nothing_to_choose_by():
    frame = pd.DataFrame({"x": [1.0], "y": [2.5]})
    pd.testing.assert_frame_equal(completed(frame, dict.fromkeys(frame, "number")), frame)


# What they are declared to be


@pytest.mark.parametrize(
    ("values", "types", "kind", "likelihood"),
    [
        ([0, 3, 1, 2], "count", "count", mc.Poisson()),
        ([0, 1, 2, 3], "number", "number", mc.Gaussian()),
        ([0, 1, 1, 0], "number", "number", mc.Gaussian()),
        ([3, 5, 5, 3], "label", "label", mc.Bernoulli()),
        ([3, 5, 9, 3], "category", "category", mc.Multinomial(3)),
        (["x", "y", "z", "x"], "category", "category", mc.Multinomial(3)),
        ([3, 5, 9, 3], "ordinal", "ordinal", mc.Ordinal(3, lowest=0)),
        (["I", "III", None, "I"], ["I", "II", "III"], "ordinal", mc.Ordinal(3, lowest=0)),
        ([1.5, 2.5, 1.0, 1e6], mc.Huber(2.0), "Huber", mc.Huber(2.0)),
        (["n", "y", "y", None], mc.Hinge(), "Hinge", mc.Hinge()),
        ([2, 4, 3, 3], mc.Ordinal(5), "Ordinal", mc.Ordinal(5, lowest=0)),
    ],
    ids=str,
)
def test_columns_are_what_they_are_declared_to_be(values, types, kind, likelihood):
    frame = pd.DataFrame({"x": values})
    declared = mc.declare(frame, {"x": types})
    assert declared.column("x").kind == kind
    assert [block.likelihood for block in declared.model.blocks] == [likelihood]


def test_skipped_columns_stand_in_no_block():
    assert taken([1.5, 2.5, 3.5], "skip") == ("set aside", "declared 'skip'")


ANOTHER_TYPE = "Declare another type, or convert its values first"


@pytest.mark.parametrize(
    ("values", "types", "sentence"),
    [
        (
            ["a", "b", "a"],
            "number",
            f"'number', but its values are text ('a' in row 0). {ANOTHER_TYPE}",
        ),
        (
            [None, "b", "a"],
            "count",
            f"'count', but its values are text ('b' in row 1). {ANOTHER_TYPE}",
        ),
        (
            [1, 2.5, 3],
            "count",
            "'count', but holds the value 2.5 in row 1; counts are whole numbers from 0. Correct"
            " it, or mark it as missing, or declare another type",
        ),
        (
            [1, 2, 3],
            "label",
            "'label', but holds 3 different values; a label has two. Declare it 'category', or"
            " mark as missing what is neither of the two",
        ),
        (
            ["a", "a", None],
            "category",
            "'category', but every observed value is 'a'. Leave it out by types={'x': 'skip'}",
        ),
        (
            ["a", "b", "c"],
            "ordinal",
            "'ordinal', but the order of its 3 values is not known; give them from the lowest to"
            " the highest: types={'x': [lowest, ..., highest]}",
        ),
        (
            ["I", "II", "IV"],
            ["I", "II"],
            "['I', 'II'], but holds the value 'IV' in row 2. Correct it, or mark it as missing, or"
            " add it to the levels",
        ),
        (
            [1, 2, 5],
            ["1", "2"],
            "['1', '2'], but holds the value 1 in row 0; text and numbers differ, so write levels"
            " as the column has them",
        ),
        (
            ["2020-01-01", "2020-01-02", None],
            "date",
            "'date', but its values are text ('2020-01-01' in row 0); convert it first, as by"
            " pandas.to_datetime",
        ),
        (
            [None, None, None],
            "number",
            "'number', but not one of its values is observed. Leave it out by types={'x': 'skip'}",
        ),
        (
            [1.5, -2.5, None],
            ("number", 0, None),
            "numbers from 0, but holds the value -2.5 in row 1. Correct it, or mark it as missing,"
            " or declare wider bounds",
        ),
        (
            [1, "a", None],
            "category",
            "'category', but it mixes numbers (1 in row 0) and text ('a' in row 1); give it one"
            " type",
        ),
        (
            ["a", "b", "c"],
            mc.Hinge(),
            "Hinge(), but holds 3 different values. Declare the likelihood with 3 values"
            " instead of 2",
        ),
        (
            [1.0, -2.0, 3.0],
            mc.Gamma(),
            "Gamma(shape=1.0), but holds the value -2 in row 1; it needs positive numbers. Correct"
            " it, or mark it as missing, or declare another type",
        ),
        (
            pd.to_datetime(["2020-01-01", "2020-01-02", None]),
            "category",
            "'category', but its values are dates ('2020-01-01 00:00:00' in row 0)."
            f" {ANOTHER_TYPE}",
        ),
    ],
    ids=str,
)
def test_columns_that_are_not_what_they_are_declared_to_be(values, types, sentence):
    assert (
        refusal(pd.DataFrame({"x": values}), {"x": types}) == f"column 'x' was declared {sentence}"
    )


def test_types_are_checked():
    frame = pd.DataFrame({"x": [1.5, 2.5], "y": [1, 2]})
    assert refusal(frame, {"z": "count"}, mc.ModelError) == (
        "types names 'z', which is no column; the columns are 'x', 'y'"
    )
    assert refusal(frame, {"x": "nominal"}, mc.ModelError) == (
        "types['x'] is 'nominal'; one of 'number', 'count', 'label', 'category', 'ordinal',"
        " 'date', 'skip', bounds of a number such as [\"number\", 0, 100], a list of different"
        " levels from the lowest to the highest, or a likelihood such as mc.Huber() is needed;"
        " did you mean 'category'?"
    )
    elsewhere = {"label": [bool, "boolean"], "number": [float, "int"], "date": ["datetime"]}
    elsewhere |= {"category": [str, "string"], "count": ["counts"], "skip": ["ignore"]}
    for kind, words in elsewhere.items():
        for word in words:
            message = refusal(frame, {"x": word}, mc.ModelError)
            assert message.endswith(f"did you mean {kind!r}?")
    wrong = {"bounds of a number such as": [("number",), (0, None), [], ["a"], None]}
    wrong["with lower below upper"] = [("number", 2, 1), ("number", 0), ("number", 0, "a")]
    wrong["with lower below upper"] += [("count", 0, 5)]
    wrong["stands twice; give each level once"] = [[["a"], ["a"]], ["I", "II", "I"]]
    wrong["write Huber() with parentheses"] = [mc.Huber]
    for said, types in wrong.items():
        for given in types:
            assert said in refusal(frame, {"x": given}, mc.ModelError)
    assert "types is a list; a dict from column names" in refusal(frame, ["x"], mc.ModelError)


# Tables that are none


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (
            [[1.0, 2.0]],
            "a list was given; a DataFrame of pandas or polars or a Table of pyarrow is needed"
            " (collect a lazy one first, make a pandas.DataFrame of an array)",
        ),
        (
            pl.LazyFrame({"x": [1.0]}),
            "a LazyFrame was given; a DataFrame of pandas or polars or a Table of pyarrow is"
            " needed (collect a lazy one first, make a pandas.DataFrame of an array)",
        ),
        (
            pd.DataFrame({"x": []}),
            "the table has 0 rows and 1 columns; at least one of each is needed",
        ),
        (
            pd.DataFrame(index=[1, 2]),
            "the table has 2 rows and 0 columns; at least one of each is needed",
        ),
        (
            pd.DataFrame([[1.0, 2.0, 3.0]], columns=["x", "y", "x"]),
            "2 columns of the table have the name 'x'; rename or drop all but one",
        ),
        (
            pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["x", "x"]),
            "2 columns of the table have the name 'x'; rename or drop all but one",
        ),
        (
            pd.DataFrame({"x": [1.0, -np.inf, 2.0]}),
            "column 'x': value -inf in row 1; every observed value must be finite. Replace"
            " infinities by NaN if they stand for missing values",
        ),
        (
            pd.DataFrame({"x": pd.arrays.SparseArray([0.0, 1.0, 2.0], fill_value=0)}),
            "column 'x': the column is sparse (dtype Sparse[float64, 0]), and what it does not"
            " store may be missing or an observed zero. Give frame['x'].sparse.to_dense() as the"
            " column, with NaN where a value is missing",
        ),
        (
            pd.DataFrame({"x": [np.nan, np.nan], "y": ["a", "b"]}),
            "no column is left for a model ('x': not one of its values is observed; 'y': text, and"
            " all 2 values differ, as of an identifier); give a column with observed values, or"
            " declare what a column holds by types={name: kind}",
        ),
        (
            pd.DataFrame(np.ones((2, 2)), columns=[None, None]),
            "2 columns of the table have no name; rename or drop all but one",
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_tables_that_cannot_be_read(frame, sentence):
    assert refusal(frame) == sentence


# The model


def mixed(n_rows=60, seed=0):
    """A table of every kind with holes, of two factors."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n_rows, 2)) @ rng.standard_normal((2, 8))
    frame = pd.DataFrame(
        {
            "length": 1e3 + 50.0 * z[:, 0],
            "weight": 1e-6 * z[:, 1],
            "ill": z[:, 2] > 0.0,
            "sex": np.where(z[:, 3] > 0.0, "m", "f"),
            "visits": rng.poisson(np.exp(0.5 * z[:, 4])),
            "stage": pd.cut(z[:, 5], [-np.inf, -0.5, 0.5, np.inf], labels=["I", "II", "III"]),
            "town": np.array(["Ulm", "Bonn", "Kiel"])[np.argmax(z[:, 5:8], axis=1)],
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.round(30 * z[:, 6]), unit="D"),
        }
    )
    frame = frame.astype({"ill": "boolean", "visits": "Int64"})
    return frame.mask(rng.random(frame.shape) < 0.2)


def test_every_kind_has_a_block():
    declared = mc.declare(mixed(), {"visits": "count", "day": "date"})
    model, data = declared
    assert model is declared.model
    assert [
        (block.name, type(block.likelihood).__name__, block.bias, block.standardize)
        for block in model.blocks
    ] == [
        ("numbers", "Gaussian", True, True),
        ("labels", "Bernoulli", True, True),
        ("counts", "Poisson", True, True),
        ("levels of 'stage'", "Ordinal", False, True),
        ("3 classes", "Multinomial", True, True),
    ]
    assert list(data["numbers"].columns) == ["length", "weight", "day"]
    assert list(data["labels"].columns) == ["ill", "sex"]
    other = attrs.evolve(model, terms=[mc.NuclearNorm(1.0)])
    assert model.terms[0].weight == pytest.approx(0.1 * mc.weight_max(other, data))


def test_what_is_printed():
    declared = mc.declare(mixed(), {"visits": "count"})
    assert str(declared).splitlines()[:4] == [
        "Declared: 60 rows, 7 of 8 columns in 5 blocks",
        "  column  missing  taken for  why",
        "  length  17%      number     numbers",
        "  weight  20%      number     numbers",
    ]
    assert str(declared).splitlines()[-1].split() == [
        *("day", "17%", "set", "aside", "dates;", "types={'day':", "'date'}"),
        *("takes", "them", "as", "days"),
    ]


def test_a_wide_table_is_printed_in_part():
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((4, 100)))
    assert str(mc.declare(frame)).splitlines()[-1] == "  and 40 more"


# The way back


def test_observed_entries_are_untouched_and_dtypes_stay():
    frame = mixed()
    before = frame.copy(deep=True)
    whole = completed(frame, {"visits": "count", "day": "date"})
    assert not whole.isna().to_numpy().any()
    assert (whole.dtypes == frame.dtypes).all()
    assert list(whole["stage"].cat.categories) == ["I", "II", "III"]
    assert whole["stage"].cat.ordered
    for name in frame:
        seen = frame[name].notna()
        pd.testing.assert_series_equal(whole.loc[seen, name], frame.loc[seen, name])
    pd.testing.assert_frame_equal(frame, before)


def test_a_fit_fills_with_what_it_predicts():
    """The value of each hole is what ``predict`` says of it, in the column's own words."""
    frame = mixed()
    declared = mc.declare(frame, {"visits": "count"})
    fit = mc.fit(declared.model, declared.data)
    whole = declared.table(fit)
    holes = frame["town"].isna()
    towns = declared.predict(fit, "town")
    assert list(towns.columns) == ["Bonn", "Kiel", "Ulm"]
    np.testing.assert_allclose(towns.sum(axis=1), 1.0)
    assert (whole.loc[holes, "town"] == towns.idxmax(axis=1)[holes]).all()
    stages = declared.predict(fit, "stage")
    np.testing.assert_allclose(stages.sum(axis=1), 1.0)
    holes = frame["stage"].isna()
    assert (whole.loc[holes, "stage"].astype(str) == stages.idxmax(axis=1)[holes]).all()
    holes = frame["length"].isna()
    lengths = declared.predict(fit, "length")["length"]
    np.testing.assert_array_equal(whole.loc[holes, "length"], lengths[holes])
    holes = frame["visits"].isna()
    visits = declared.predict(fit, "visits")["visits"]
    np.testing.assert_array_equal(whole.loc[holes, "visits"], visits[holes].round())
    holes = frame["ill"].isna()
    ill = declared.predict(fit, "ill")[True]
    np.testing.assert_array_equal(whole.loc[holes, "ill"], ill[holes] > 0.5)


@pytest.mark.parametrize("values", [[1, 2], [1, 2, 3], [False, True], ["1", "2"], [2.5, 4.0]])
def test_predictions_are_named_as_the_values(values):
    frame = pd.DataFrame(
        {"x": np.arange(12.0) ** 1.1, 7: pd.Categorical(values * (12 // len(values)))}
    )
    declared = mc.declare(frame)
    fit = mc.fit(declared.model, declared.data)
    assert declared.predict(fit, 7).columns.tolist() == values
    assert declared.predict(fit, 7)[values[1]].between(0.0, 1.0).all()
    assert declared.predict(fit, "x").columns.tolist() == ["x"]
    if not isinstance(values[0], str):
        text = frame.rename(columns=str).astype({"7": type(values[0])})
        declared = mc.declare(
            pl.from_pandas(text), {"7": "category" if len(values) > 2 else "label"}
        )
        found = declared.predict(mc.fit(declared.model, declared.data), "7")
        assert found.columns == [str(value) for value in values]


def test_columns_that_stand_in_no_block_are_not_predicted():
    declared = mc.declare(mixed())
    fit = mc.fit(declared.model, declared.data, tol=1e-2)
    with pytest.raises(mc.ModelError) as caught:
        declared.predict(fit, "day")
    assert str(caught.value) == (
        "column 'day' stands in no block, so that nothing is predicted of it: dates;"
        " types={'day': 'date'} takes them as days"
    )
    with pytest.raises(mc.ModelError, match="there is no column 'nowhere' in the table"):
        declared.predict(fit, "nowhere")
    skipped = mc.declare(mixed(), {"stage": "skip"})
    with pytest.raises(mc.ModelError, match="nothing is predicted of it: declared 'skip'"):
        skipped.predict(mc.fit(*skipped, tol=1e-2), "stage")


@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.some(0.6)
def test_dates_are_predicted_as_dates(library, zone):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(60)
    start = pd.Timestamp("2020-01-01", tz=zone)
    days = start + pd.to_timedelta((100.0 * x).round(), unit="D")
    frame = pd.DataFrame({"x": x, "day": days})
    frame.loc[:5, "day"] = pd.NaT
    types = {"day": "date"}
    completed = mc.complete(library(frame), types=types)
    table = completed.table if library is pd.DataFrame else completed.table.to_pandas()
    predicted = completed.predict("day")
    ends = completed.declared.predict_interval(
        completed.posterior, "day", completed.declared.frame.to_native(), 0.9
    )
    if library is not pd.DataFrame:
        predicted, ends = predicted.to_pandas(), ends.to_pandas()
    assert (predicted["day"].dt.tz is None) == (zone is None)
    assert predicted["day"][:6].tolist() == table["day"][:6].tolist()
    error = (predicted["day"] - days).abs().max()
    assert error < pd.Timedelta(days=30)
    assert (ends["lower"] <= ends["day"]).all()
    assert (ends["day"] <= ends["upper"]).all()


def test_columns_set_aside_come_back_as_they_were_and_constants_are_filled():
    frame = mixed().assign(
        name=[f"n{k}" if k % 7 else None for k in range(60)],
        land=pd.Categorical(["de", None, "de"] * 20),
        seven=pd.Series([7, None, 7] * 20, dtype="Int8"),
    )
    whole = completed(frame)
    for name in ("name", "day"):
        pd.testing.assert_series_equal(whole[name], frame[name])
    assert (whole["land"] == "de").all()
    assert whole["land"].dtype == frame["land"].dtype
    assert (whole["seven"] == 7).all()
    assert whole["seven"].dtype == "Int8"


@pytest.mark.parametrize("index", [list("aabb") * 15, [NAN] * 60, range(60)], ids=str)
def test_rows_keep_their_labels_also_equal_ones(index):
    frame = mixed().set_axis(pd.Index(index), axis=0)
    whole = completed(frame)
    assert whole.index.equals(frame.index)
    np.testing.assert_array_equal(whole["length"], completed(mixed())["length"])


def test_names_need_not_be_strings():
    frame = mixed()[["length", "ill", "town"]].set_axis([0, ("a", 1), "0"], axis=1)
    frame = frame.dropna(how="all")
    whole = completed(frame)
    assert list(whole.columns) == [0, ("a", 1), "0"]
    assert not whole.isna().to_numpy().any()


# Libraries and dtypes


@pytest.mark.parametrize("dtype", ["float32", "Float32", "Float64", "double[pyarrow]"])
def test_floats_of_pandas_stay_what_they_are(dtype):
    column = pd.Series([1.5, None, 3.5, 2.25, 4.0], dtype=dtype)
    whole = completed(pd.DataFrame({"x": column, "y": [1.0, 2.0, 3.0, 2.5, 4.0]}))["x"]
    assert whole.dtype == column.dtype
    assert not whole.isna().any()


@pytest.mark.parametrize("dtype", ["Int8", "UInt8", "Int64", "int64[pyarrow]"])
def test_whole_numbers_of_pandas_stay_whole_and_within_their_range(dtype):
    column = pd.Series([1, None, 120, 2, 0, 90], dtype=dtype)
    whole = completed(pd.DataFrame({"x": column, "y": [0.1, -9.0, 3.0, 0.2, 0.0, 2.0]}))["x"]
    assert whole.dtype == column.dtype
    assert 0 <= whole[1] <= 127


@pytest.mark.parametrize("dtype", ["boolean", "bool[pyarrow]", object])
def test_truth_values_of_pandas_stay_what_they_are(dtype):
    column = pd.Series([True, None, False, True, False], dtype=dtype)
    whole = completed(pd.DataFrame({"x": column, "y": [1.0, 1.1, 3.0, 0.5, 4.0]}))["x"]
    assert whole.dtype == column.dtype
    assert whole[1] is True or whole[1] is np.True_


@pytest.mark.parametrize("dtype", [object, "string", "str", "string[pyarrow]"])
def test_text_of_pandas_stays_what_it_is(dtype):
    column = pd.Series(["u", None, "v", "u", "v", "w", "w"], dtype=dtype)
    frame = pd.DataFrame({"x": column, "y": [1.0, 1.0, 3.0, 1.0, 3.0, 9.0, 9.0]})
    whole = completed(frame)["x"]
    assert whole.dtype == column.dtype
    assert whole[1] in ("u", "v", "w")


def of_libraries():
    """One table in three libraries."""
    frame = mixed().drop(columns="day")
    stages = ["I", "II", "III"]
    as_polars = pl.from_pandas(frame.astype({"stage": "str"})).with_columns(
        pl.col("stage").cast(pl.Enum(stages)), pl.col("town").cast(pl.Categorical)
    )
    codes = frame["stage"].cat.codes.to_numpy()
    ordered = pa.DictionaryArray.from_arrays(
        pa.array(codes, mask=codes < 0), pa.array(stages), ordered=True
    )
    as_arrow = pa.Table.from_pandas(frame.drop(columns="stage"), preserve_index=False)
    as_arrow = as_arrow.add_column(5, "stage", ordered)
    towns = as_arrow["town"].combine_chunks().dictionary_encode()
    return frame, as_polars, as_arrow.set_column(6, "town", towns)


@pytest.mark.parametrize("library", [1, 2], ids=["polars", "pyarrow"])
def test_other_libraries_give_the_same_table(library):
    frame, given = of_libraries()[0], of_libraries()[library]
    types = {"visits": "count"}
    declared, expected = mc.declare(given, types), completed(frame, types)
    assert [column.kind for column in declared.columns] == [
        column.kind for column in mc.declare(frame, types).columns
    ]
    whole = completed(given, types)
    assert type(whole) is type(given)
    assert whole.schema == given.schema
    for name in frame:
        values = whole[name].to_list() if library == 1 else whole[name].to_pylist()
        if name in ("length", "weight"):
            np.testing.assert_allclose(values, expected[name], rtol=1e-3)
        else:
            assert values == expected[name].tolist()


def test_an_enum_of_polars_is_ordered_and_arrow_says_it():
    whole = completed(of_libraries()[2])
    assert whole["stage"].type.ordered
    assert whole["stage"].combine_chunks().dictionary.to_pylist() == ["I", "II", "III"]
    assert not of_libraries()[2]["town"].type.ordered


def test_nan_of_polars_is_missing():
    frame = pl.DataFrame(
        {"x": [1.5, float("nan"), None, 4.0, 2.0], "y": [1.0, 2.0, 3.0, 4.0, 2.5]}
    )
    whole = completed(frame)
    assert whole["x"].is_finite().all()
    assert whole["x"].null_count() == 0


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pl.Series([1, None, 5, 3], dtype=pl.Int128), "number"),
        (pl.Series([1, None, 5, 3], dtype=pl.UInt8), "number"),
        (pl.Series([1.5, None, 5.0, 3.0], dtype=pl.Float32), "number"),
        (pl.Series([None] * 4), "set aside"),
        (pl.Series([1, 2.5, None, 3], dtype=pl.Object), "set aside"),
        (pl.Series(["1.5", "2.5", None, "3.5"]).cast(pl.Decimal(10, 2)), "number"),
        (pl.Series([[1], [2], None, [1]]), "set aside"),
        (pa.array(["a", "b", None, "a"], pa.string_view()), "label"),
        (pa.array(["a", "b", None, "a"], pa.large_string()), "label"),
        (pa.array([True, False, None, True]), "label"),
        (pa.array([1, None, 7, 3], pa.int16()), "number"),
        (pa.nulls(4), "set aside"),
        (pa.chunked_array([["a", "b", None], ["c"], ["a"]]).dictionary_encode(), "category"),
        (pd.Series(["a", "b", None, "a"], dtype=pd.ArrowDtype(ENCODED)), "set aside"),
        (pd.Series(pd.Categorical([True, None, False, True])), "label"),
    ],
    ids=lambda column: str(getattr(column, "dtype", getattr(column, "type", column))),
)
def test_dtypes_stay_whatever_they_are(column, kind):
    library = {pl.Series: pl.DataFrame, pd.Series: pd.DataFrame}.get(type(column), pa.table)
    given = library({"y": [1.5, 2.5, 3.5, 4.0, 6.0][: len(column)], "x": column})
    declared = mc.declare(given)
    assert declared.column("x").kind == kind
    whole = declared.table(mc.fit(declared.model, declared.data, tol=1e-3))
    if library is pd.DataFrame:
        assert (whole.dtypes == given.dtypes).all()
    else:
        assert whole.schema == given.schema
    values = whole["x"].to_pylist() if library is pa.table else whole["x"].to_list()
    assert any(value is None or value is pd.NA for value in values) == (kind == "set aside")


def test_python_numbers_too_large_for_a_float_are_infinite():
    frame = pd.DataFrame({"x": [10**400, 1, 2], "y": [1.5, 2.5, 3.5]})
    assert refusal(frame).startswith("column 'x': value inf in row 0; every observed value must")


# Dates


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["ns", "us", "s"])
def test_dates_of_pandas_come_back_with_unit_and_zone(zone, unit):
    days = pd.Series(pd.date_range("2020-03-27", periods=8, freq="13h", tz=zone)).dt.as_unit(unit)
    days = days.rename("day")
    frame = pd.DataFrame({"day": days, "x": np.arange(8.0) ** 1.01})
    frame.loc[4, "day"] = pd.NaT
    whole = completed(frame, {"day": "date"})
    assert whole["day"].dtype == days.dtype
    pd.testing.assert_series_equal(whole["day"].drop(4), days.drop(4))
    assert days.min() < whole.loc[4, "day"] < days.max()


def test_dates_of_other_libraries_come_back():
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=3 * k) for k in range(8)]
    days[3] = None
    x = [k**1.01 for k in range(8)]
    zoned = pl.Series(days).cast(pl.Datetime("ms")).dt.replace_time_zone("Asia/Tokyo")
    polars = pl.DataFrame({"day": days, "zoned": zoned, "x": x})
    for given in (polars, pa.table({"day": days, "x": x}), polars.to_arrow()):
        whole = completed(given, dict.fromkeys(["day", "zoned"][: len(given.schema) - 1], "date"))
        assert whole.schema == given.schema
        filled = whole["day"][3] if given is polars else whole["day"][3].as_py()
        assert days[0] < filled < days[-1]


@pytest.mark.parametrize(
    ("zone", "unit", "shift"),
    [(None, "D", "0h"), ("Asia/Tokyo", "h", "0h"), (None, "h", "3h"), (None, "min", "15min")],
)
def test_filled_dates_are_as_round_as_observed_ones(zone, unit, shift):
    days = pd.Series(pd.date_range("2020-03-27", periods=8, freq="3D", tz=zone))
    days += pd.Timedelta(shift)
    frame = pd.DataFrame({"x": np.arange(8.0) ** 1.01, "day": days})
    frame.loc[[1, 5], "day"] = pd.NaT
    filled = completed(frame, {"day": "date"})["day"].dt.tz_localize(None)
    assert (filled == filled.dt.floor(unit)).all()


def test_a_date_is_days_since_a_centre_exactly():
    times = pd.to_datetime(
        ["1900-01-01", "2262-01-01", "2000-06-01 12:00:00.000001", None], format="ISO8601"
    )
    frame = pd.DataFrame({"t": times, "x": [1.0, 2.0, 1.5, 1.7]})
    _, data = mc.declare(frame, {"t": "date"})
    day = dt.timedelta(days=1)
    expected = [(time - times[2]) / day for time in times[:3]]
    np.testing.assert_array_equal(data["numbers"]["t"][:3], expected)


# What nobody tuned to


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("offset", [0.0, 1e12])
@pytest.mark.some(0.2)
def test_units_of_numbers_do_not_matter(scale, offset):
    frame = mixed()[["length", "weight", "ill", "town"]]
    expected = completed(frame)
    if offset:
        scale = max(scale, 1.0)  # below that an offset of 1e12 leaves no digit
    changed = frame.assign(weight=scale * (frame["weight"] / 1e-6) + offset)
    whole = completed(changed)
    back = (whole["weight"] - offset) / scale * 1e-6
    np.testing.assert_allclose(back, expected["weight"], rtol=0.0, atol=1e-8)
    pd.testing.assert_frame_equal(whole.drop(columns="weight"), expected.drop(columns="weight"))


def test_one_column_and_two_rows():
    with pytest.warns(mc.UnobservedWarning, match="row 1 without one observed entry"):
        whole = completed(pd.DataFrame({"x": [1.5, NAN, 2.5]}))
    assert whole["x"][1] == pytest.approx(2.0)
    frame = pd.DataFrame({"x": [1.5, 3.5], "y": [0.5, 0.25]})
    pd.testing.assert_frame_equal(completed(frame), frame)


@pytest.mark.parametrize(
    ("n_rows", "n_columns"),
    [(50_000, 1_000), pytest.param(1_000_000, 10_000, marks=pytest.mark.slow)],
)
def test_long_and_wide_tables(n_rows, n_columns):
    rng = np.random.default_rng(0)
    long = pd.DataFrame(rng.standard_normal((n_rows, 3)), columns=list("abc")).round(3)
    long.loc[::1000, "a"] = NAN
    assert not completed(long)["a"].isna().any()
    wide = pd.DataFrame(rng.standard_normal((3, n_columns)))
    wide.iloc[1, ::10] = NAN
    assert not completed(wide).isna().to_numpy().any()


# New rows


def test_new_rows_are_coded_as_the_table_was():
    frame = mixed()
    declared = mc.declare(frame, {"visits": "count", "day": "date"})
    again = declared.rows(frame[frame.columns[::-1]])
    assert list(again) == list(declared.data)
    for block, codes in declared.data.items():
        pd.testing.assert_frame_equal(again[block], codes)
    fit = mc.fit(declared.model, declared.data, tol=1e-9)
    numbers = fit.predict_rows("numbers", {name: again[name].iloc[:5] for name in again})
    np.testing.assert_allclose(numbers, fit.predict("numbers").iloc[:5], rtol=1e-3)


def test_values_never_seen_are_missing_with_one_warning_or_an_error():
    declared = mc.declare(mixed())
    new = (
        mixed()
        .iloc[:3]
        .assign(town=["Ulm", "Wien", "Graz"], sex=["m", "x", None], ill=[True, None, False])
    )
    sentence = (
        "values that the model does not know: 'x' in column 'sex', 'Wien' in column 'town',"
        " 'Graz' in column 'town'"
    )
    with pytest.warns(UserWarning, match="does not know") as told:
        data = declared.rows(new)
    assert [str(each.message) for each in told] == [
        f"{sentence}; they count as missing there, and stay as they are"
    ]
    np.testing.assert_array_equal(data["3 classes"]["town"], [2.0, NAN, NAN])
    np.testing.assert_array_equal(data["labels"]["sex"], [1.0, NAN, NAN])
    with pytest.raises(mc.DataError) as caught:
        declared.rows(new, unseen="error")
    assert str(caught.value) == f"{sentence}; unseen='missing' takes them as missing"
    with pytest.raises(mc.ModelError, match="unseen='drop' was given; 'missing' or 'error'"):
        declared.rows(new, unseen="drop")


def test_absent_columns_count_as_missing_with_one_warning():
    declared = mc.declare(mixed())
    with pytest.warns(UserWarning, match="do not have") as told:
        data = declared.rows(mixed()[["town", "length", "visits"]].iloc[:2])
    assert [str(each.message) for each in told] == [
        "columns that the new rows do not have count as missing: 'weight', 'ill', 'sex', 'stage'"
    ]
    assert np.isnan(data["labels"].to_numpy()).all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"age": [1.0, 2.0]},
            "the new rows have columns that the declared table has not: 'age'; drop or rename"
            " them",
        ),
        (
            {"length": ["a", "b"]},
            "column 'length' is taken for: number, but in the new rows its values are text ('a' in"
            " row 0). Convert them to what the table has there, or mark them as missing",
        ),
        (
            {"length": [1.0, np.inf]},
            "column 'length': value inf in row 1; every observed value must be finite. Replace"
            " infinities by NaN if they stand for missing values",
        ),
    ],
    ids=str,
)
def test_new_rows_that_do_not_fit(change, sentence):
    with pytest.raises(mc.DataError) as caught:
        mc.declare(mixed()).rows(mixed().iloc[:2].assign(**change))
    assert str(caught.value) == sentence


# Scales of few whole numbers


def scales(n_rows=120, seed=0):
    """Answers to items of a survey, one cause behind them, as floats with gaps."""
    rng = np.random.default_rng(seed)
    cause = rng.standard_normal(n_rows)
    frame = pd.DataFrame(
        {
            "agree": np.clip(np.rint(3.0 + cause + rng.normal(0.0, 0.7, n_rows)), 1.0, 5.0),
            "mood": np.clip(np.rint(2.0 * cause + rng.normal(0.0, 0.7, n_rows)), -3.0, 3.0),
            "children": rng.poisson(1.2, n_rows).clip(0, 4).astype(float),
            "sex": rng.integers(1, 3, n_rows).astype(float),
            "height": cause + rng.standard_normal(n_rows),
        }
    )
    return frame.mask(rng.random(frame.shape) < 0.15)


SCALES = {"agree": (1, 5), "mood": (-3, 3), "children": (0, 4), "sex": (1, 2)}


@pytest.mark.parametrize("of", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
@pytest.mark.parametrize("method", ["posterior", "optimum"])
@pytest.mark.some(0.4)
def test_gaps_of_a_scale_are_filled_with_its_levels(of, method):
    frame = scales()
    answer = mc.complete(of(frame), method=method)
    for column in answer.declared.columns:
        if column.name in SCALES:
            lowest, highest = SCALES[column.name]
            assert column.kind == "number"
            assert column.why.endswith(f"from {lowest} to {highest}, and filled with such")
    new = frame.iloc[:20].assign(agree=NAN, mood=frame["mood"].max())
    tables = [answer.table, answer.complete_rows(of(new))]
    if method == "posterior":
        tables += [*answer.draws(2), *answer.interval(0.9), *answer.interval_rows(of(new), 0.9)]
    for table in map(nw.from_native, tables):
        for name, (lowest, highest) in SCALES.items():
            numbers = table.get_column(name).to_numpy()
            assert np.all(np.isin(numbers, np.arange(lowest, highest + 1.0))), name
    # Means are asked for by predict, and by the declared type.
    means = nw.from_native(answer.predict("agree")).get_column("agree").to_numpy()
    assert np.any(means != np.rint(means))
    as_numbers = nw.from_native(mc.complete(of(frame), {"agree": "number"}, method=method).table)
    filled = as_numbers.get_column("agree").to_numpy()[frame["agree"].isna()]
    assert np.any(filled != np.rint(filled))


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0, 3.0],  # each once
        [10.0, 20.0, 30.0] * 5,  # whole tens
        [0.0, 3.0, 90.0] * 5,
        [1.0, 2.5, 4.0] * 5,
        [17.0, 18.0, 19.0] * 5,  # ages, which go on
    ],
    ids=str,
)
def test_other_numbers_are_no_scale(values):
    frame = pd.DataFrame({"x": [*values, NAN], "y": np.arange(len(values) + 1) / 7.0})
    [column, _] = mc.declare(frame).columns
    assert column.coding.whole is None
    assert "filled with such" not in column.why


def test_blocks_without_columns_and_columns_without_blocks_are_named():
    frame = pd.DataFrame({"x": [1.5, 2.5, 4.0], "y": [1, 2, 4]})
    blocks = [mc.Block("one", mc.Gaussian()), mc.Block("two", mc.Gaussian())]
    model = mc.Model(blocks, [mc.NuclearNorm(1.0)])
    for columns, fault in (
        ({"one": ["x"]}, "columns has no list for block 'two'"),
        ({"one": ["x"], "two": ["y"], "three": ["y"]}, "columns names 'three', which is no block"),
        (["x"], r"columns=\['x'\] was given"),
    ):
        with pytest.raises(mc.ModelError, match=f"^{fault}; a dict with a list of column names"):
            mc.declare(frame, model=model, columns=columns)
    declared = mc.declare(frame, model=model, columns={"one": ["x"], "two": ["y"]})
    with pytest.raises(mc.ModelError, match="a list was given for a column"):
        declared.predict(mc.fit(*declared), ["x", "y"])


def test_the_block_that_was_meant_is_named():
    model = mc.Model([mc.Block("numbers", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    known = r"the blocks are 'numbers'; did you mean 'numbers'\?"
    with pytest.raises(mc.ModelError, match=known):
        model.block("number")
    with pytest.raises(mc.ModelError, match=known):
        mc.Model(model.blocks, [*model.terms, mc.Calibration("number", A=np.ones(3), B=[1.0])])
    with pytest.raises(mc.DataError, match=known):
        mc.fit(model, {"number": np.ones((3, 2))})
    with pytest.raises(mc.DataError, match=r"mc\.load\(path, mc\.Fit\)"):
        mc.fit(model, {"numbers": np.eye(3)}, start="fit.npz")


def test_a_large_calibration_is_shown_in_short():
    large = mc.Calibration("x", A=np.ones(3000), B=[1.0, 2.0])
    assert repr(large).startswith("Calibration(block='x', A=array([[1., 1.,")
    assert repr(large).endswith(", B=array([[1., 2.]]))")
    assert len(repr(large)) < 300
