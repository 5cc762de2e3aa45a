"""New rows of a table of any columns, completed in their own library and dtypes."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mcframe as mc
from tests.test_declare import mixed

pytestmark = pytest.mark.core

NAN = np.nan
TYPES = {"visits": "count", "day": "date"}


@pytest.fixture(scope="module")
def declared():
    return mc.declare(mixed().assign(land="de"), TYPES)


@pytest.fixture(scope="module")
def fit(declared):
    return mc.fit(declared.model, declared.data, tol=1e-8)


def test_rows_of_the_table_are_completed_as_the_table_is(declared, fit):
    frame, whole = mixed().assign(land="de"), declared.table(fit)
    found = declared.complete_rows(fit, frame.iloc[10:20])
    pd.testing.assert_series_equal(found.dtypes, frame.dtypes)
    numbers = ["length", "weight", "day"]
    pd.testing.assert_frame_equal(
        found.drop(columns=numbers), whole.iloc[10:20].drop(columns=numbers)
    )
    np.testing.assert_allclose(found["length"], whole["length"].iloc[10:20], rtol=1e-3)
    assert list(found.index) == list(range(10, 20))
    seen = frame.iloc[10:20].notna()
    pd.testing.assert_frame_equal(found.where(seen), frame.iloc[10:20])


@pytest.mark.parametrize("library", [pl.from_pandas, pa.Table.from_pandas], ids=["pl", "pa"])
def test_the_library_and_its_dtypes_stay(library):
    frame = mixed()
    table = library(frame)
    declared = mc.declare(table, TYPES)
    fit = mc.fit(declared.model, declared.data, tol=1e-8)
    found = declared.complete_rows(fit, table[10:20])
    assert type(found) is type(table)
    assert found.schema == table.schema
    wanted = mc.declare(frame, TYPES)
    wanted = wanted.complete_rows(mc.fit(wanted.model, wanted.data, tol=1e-8), frame[10:20])
    back = found.to_pandas()
    assert not back.isna().to_numpy().any()
    for name in ("sex", "visits", "stage", "town"):
        assert list(back[name]) == list(wanted[name])


def test_rows_of_another_library(declared, fit):
    new = pl.from_pandas(mixed().iloc[:4].assign(land=["de", None, "de", None]))
    found = declared.complete_rows(fit, new)
    assert isinstance(found, pl.DataFrame)
    assert found.schema == new.schema
    assert sum(found.null_count().row(0)) == 0


def test_one_row_of_which_little_is_known(declared, fit):
    """Columns without an observed value have the dtype of the declared table."""
    new = pd.DataFrame({"length": [1100.0], **dict.fromkeys(mixed().columns[1:])}, index=["new"])
    found = declared.complete_rows(fit, new.assign(land=None))
    assert found.shape == (1, 9)
    assert not found.isna().to_numpy().any()
    assert found.loc["new", "land"] == "de"
    dtypes = mixed().dtypes
    for name in ("ill", "visits", "stage"):
        assert found[name].dtype == dtypes[name]


@pytest.mark.parametrize("library", [pl.DataFrame, pa.table], ids=["pl", "pa"])
def test_columns_of_nothing_but_nulls_take_the_dtype_of_the_table(library):
    x = np.repeat([0.0, 1.0], 10)
    declared = mc.declare(library({"x": x, "kind": ["a"] * 10 + ["b"] * 10, "yes": x > 0.5}))
    fit = mc.fit(declared.model, declared.data)
    new = library({"x": [0.0, 1.0], "kind": [None, None], "yes": [None, None]})
    found = declared.complete_rows(fit, new)
    assert found.schema == declared.frame.to_native().schema
    assert [list(row) for row in found.to_pandas().to_numpy()] == [[0, "a", False], [1, "b", True]]


def test_absent_columns_are_answered_behind_the_others(declared, fit):
    new = mixed()[["town", "length"]].iloc[:5]
    with pytest.warns(UserWarning, match="columns that the new rows do not have count as missing"):
        found = declared.complete_rows(fit, new)
    rest = ["weight", "ill", "sex", "visits", "stage", "day", "land"]
    assert list(found.columns) == ["town", "length", *rest]
    pd.testing.assert_series_equal(found.dtypes[rest[:-1]], mixed().dtypes[rest[:-1]])
    assert not found.isna().to_numpy().any()


@pytest.mark.parametrize("dtype", ["str", "category"])
def test_values_never_seen_stay_and_count_as_missing_for_the_model(declared, fit, dtype):
    new = mixed().assign(land="de").iloc[:4]
    towns = pd.Series(["Wien", "Ulm", "Ulm", None])
    missing = new.assign(town=towns.replace("Wien", None))
    new = new.assign(town=towns.astype(dtype))
    with pytest.warns(UserWarning, match="'Wien' in column 'town'; they count as missing there"):
        found = declared.complete_rows(fit, new)
    wanted = declared.complete_rows(fit, missing)
    assert list(found["town"]) == ["Wien", *wanted["town"][1:]]
    pd.testing.assert_frame_equal(found.drop(columns="town"), wanted.drop(columns="town"))
    with pytest.raises(mc.DataError) as caught:
        declared.complete_rows(fit, new, unseen="error")
    assert str(caught.value) == (
        "values that the model does not know: 'Wien' in column 'town'; unseen='missing' takes"
        " them as missing"
    )


KINDS = {
    "pd": (pd.DataFrame, lambda values: pd.Series(values, dtype="category")),
    "pl": (pl.DataFrame, lambda values: pl.Series(values, dtype=pl.Categorical)),
    "enum": (
        pl.DataFrame,
        lambda values: pl.Series(values, dtype=pl.Enum(sorted({*values} - {None}))),
    ),
    "pa": (pa.table, lambda values: pa.array(values).dictionary_encode()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_categories_never_seen_stay_where_the_dtype_lacks_what_is_filled_in(kind):
    """Also where a constant is filled in, which the new rows have not."""
    table, column = KINDS[kind]
    x = np.repeat([0.0, 1.0], 10)
    declared = mc.declare(
        table({"x": x, "kind": column(["a"] * 10 + ["b"] * 10), "land": column(["de"] * 20)})
    )
    fit = mc.fit(declared.model, declared.data)
    given = {"x": [0.0, 1.0], "kind": column(["c", None]), "land": column(["fr", None])}
    with pytest.warns(UserWarning, match="does not know: 'c' in column 'kind'"):
        found = declared.complete_rows(fit, table(given))
    kinds, lands = (
        found[name].to_pylist() if kind == "pa" else list(found[name]) for name in ("kind", "land")
    )
    assert (kinds, lands) == (["c", "b"], ["fr", "de"])


def test_values_that_cannot_stand_beside_what_is_filled_in_are_an_error():
    declared = mc.declare(pd.DataFrame({"x": [0.0, 1.0] * 10, "kind": ["a", "b"] * 10}))
    fit = mc.fit(declared.model, declared.data)
    with (
        pytest.warns(UserWarning, match="does not know: 1.5"),
        pytest.raises(
            mc.DataError, match=r"numbers \(1.5 in row 0\), beside which no 'b' can stand"
        ),
    ):
        declared.complete_rows(fit, pd.DataFrame({"x": [0.0, 1.0], "kind": [1.5, NAN]}))


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pd", "pl", "pa"])
def test_categories_of_new_rows_need_not_hold_what_is_filled_in(library):
    """A column of categories knows those of its own rows alone."""
    x = np.repeat([0.0, 1.0], 10)
    types = {
        pd.DataFrame: lambda values: pd.Series(values, dtype="category"),
        pl.DataFrame: lambda values: pl.Series(values, dtype=pl.Categorical),
        pa.table: lambda values: pa.array(values).dictionary_encode(),
    }
    column = types[library]
    declared = mc.declare(library({"x": x, "kind": column(["a"] * 10 + ["b"] * 10)}))
    fit = mc.fit(declared.model, declared.data)
    new = library({"x": [0.0, 1.0, 1.0], "kind": column(["a", None, None])})
    found = declared.complete_rows(fit, new)
    kinds = found["kind"]
    assert (kinds.to_pylist() if library is pa.table else list(kinds)) == ["a", "b", "b"]


def test_numbers_are_whole_where_the_table_says_so():
    rng = np.random.default_rng(0)
    z = rng.standard_normal(40)
    frame = pd.DataFrame({"a": z, "n": np.round(10.0 * z).astype(int)})
    declared = mc.declare(frame)
    fit = mc.fit(declared.model, declared.data)
    new = pd.DataFrame({"a": [0.5, 0.7], "n": [5.0, NAN]})
    found = declared.complete_rows(fit, new)["n"]
    assert found.dtype == float
    assert found[1] == np.round(found[1])
    reals = mc.declare(frame.astype(float) + 0.25)
    fit = mc.fit(reals.model, reals.data)
    found = reals.complete_rows(fit, new.astype({"n": "Int64"}))["n"]
    assert found.dtype == float
    assert found[1] == reals.complete_rows(fit, new)["n"][1] != np.round(found[1])


def test_columns_set_aside_come_back_as_they_were(declared, fit):
    frame = mixed().assign(name=[f"n{k}" for k in range(60)])
    aside = mc.declare(frame)
    new = frame.iloc[:3].assign(name=["p", None, "q"])
    found = aside.complete_rows(mc.fit(aside.model, aside.data), new)
    pd.testing.assert_series_equal(found["name"], new["name"])
    assert not found.drop(columns=["name", "day"]).isna().to_numpy().any()


def test_a_completion_completes_new_rows():
    frame = mixed()
    completed = mc.complete(frame.iloc[:50].drop(columns="day"))
    new = frame.iloc[50:].drop(columns="day")
    found = completed.complete_rows(new)
    pd.testing.assert_frame_equal(
        found, completed.declared.complete_rows(completed.posterior, new)
    )
    pd.testing.assert_series_equal(found.dtypes, new.dtypes)
    assert not found.isna().to_numpy().any()
    with pytest.raises(mc.DataError, match="does not know: 'Wien'"):
        completed.complete_rows(new.assign(town="Wien"), unseen="error")


@pytest.fixture(scope="module")
def supported():
    """A table whose columns are taken for positive numbers, shares, amounts and a scale."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((150, 3))
    frame = pd.DataFrame(
        {
            "income": np.exp(z[:, 0] + 0.5 * z[:, 1]),
            "share": 1.0 / (1.0 + np.exp(-z[:, 0] - z[:, 2])),
            "spent": np.where(z[:, 1] > 0.0, np.exp(z[:, 0]), 0.0),
            "stars": np.clip(np.rint(3.0 + z[:, 0]), 1.0, 5.0),
            "age": np.rint(50.0 + 10.0 * z[:, 0]),
            "x": z[:, 0],
        }
    )
    return frame.mask(rng.random(frame.shape) < 0.1)


@pytest.fixture(scope="module")
def completed_supported(supported):
    return mc.complete(supported)


@pytest.mark.parametrize(
    ("name", "value", "bounds", "support"),
    [
        ("income", -5.0, ("number", -5.0, None), "numbers from 0"),
        ("share", 1.7, ("number", 0.0, 1.7), "numbers from 0 to 1"),
        ("spent", -3.0, ("number", -3.0, None), "numbers from 0"),
        ("stars", 9.0, ("number", 1.0, 9.0), "numbers from 1 to 5"),
    ],
)
def test_numbers_outside_of_a_detected_support_are_never_taken_in_silence(
    supported, completed_supported, name, value, bounds, support
):
    completed = completed_supported
    new = supported.iloc[:4].assign(**{name: [value, np.nan, value, supported[name].max()]})
    with pytest.warns(UserWarning, match="numbers outside of what") as said:
        found = completed.complete_rows(new)
    [message] = {str(one.message) for one in said}
    assert f"{value:g} in row 0 and 1 other row of column {name!r}" in message
    assert f"taken for {support} (" in message
    assert f"types={{{name!r}: {bounds!r}}} declares wider bounds" in message
    assert "they count as missing there, and stay as they are" in message
    assert found[name].iloc[0] == found[name].iloc[2] == value
    with pytest.warns(UserWarning, match="numbers outside of what"):
        means = completed.predict_rows("x", new.assign(x=np.nan))
    wanted = completed.predict_rows("x", new.assign(x=np.nan, **{name: [np.nan] * 3 + [np.nan]}))
    np.testing.assert_allclose(means["x"].iloc[:3], wanted["x"].iloc[:3], rtol=1e-9)
    with pytest.raises(mc.DataError, match=f"{value:g} in row 0.*unseen='missing' takes them"):
        completed.complete_rows(new, unseen="error")
    mc.complete(supported, {name: bounds}).complete_rows(new)  # without a warning


def test_numbers_that_are_not_whole_are_named_and_used(supported):
    completed = mc.complete(supported)
    new = supported.iloc[:2].assign(age=[45.5, 50.0], x=np.nan)
    with pytest.warns(UserWarning, match=r"not whole.*: 45\.5 in row 0 of column 'age'; they are"):
        found = completed.predict_rows("x", new)
    near = completed.predict_rows("x", new.assign(age=[46.0, 50.0]))
    assert found["x"].iloc[0] < near["x"].iloc[0]
    assert abs(found["x"].iloc[0] - near["x"].iloc[0]) < 0.2
