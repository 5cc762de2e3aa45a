"""Columns of text: numbers that are read, and quantities that are not."""

import contextlib
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mcframe as mc

from .test_declare import NAN, taken


def texts(n_rows=40, seed=0):
    """Columns of text that hold numbers, with what the numbers are."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(n_rows)
    numbers = pd.DataFrame({"real": z.round(3), "whole": np.round(20 * z), "yes": 1.0 * (z > 0)})
    frame = numbers.astype({"whole": int, "yes": int}).astype(str)
    frame["real"] = "  " + frame["real"]
    for name, sign in {"real": "?", "whole": " N/A ", "yes": ""}.items():
        hidden = rng.random(n_rows) < 0.3
        frame.loc[hidden, name], numbers.loc[hidden, name] = sign, NAN
    frame["mixed"] = numbers["real"].astype(object).where(numbers["real"].notna(), "-")
    return frame.assign(beside=z + 0.1 * rng.standard_normal(n_rows)), numbers


SAID = (
    "columns of text are read as numbers: 'real' ('?' (12x) as missing), 'whole' (' N/A ' (10x)"
    " as missing), 'yes' ('' (13x) as missing), 'mixed' ('-' (12x) as missing);"
    " types={name: 'number'} confirms this, 'category' or 'skip' prevents it"
)


def test_text_that_reads_as_numbers_is_read_as_numbers_and_named():
    frame, numbers = texts()
    with pytest.warns(UserWarning, match="are read as numbers") as told:
        declared = mc.declare(frame)
    assert [str(each.message) for each in told] == [SAID]
    assert [each.kind for each in declared.columns] == [*["number"] * 2, "label", *["number"] * 2]
    for name in numbers:
        np.testing.assert_array_equal(declared.column(name).codes, numbers[name])
    fit = mc.fit(declared.model, declared.data)
    whole = declared.table(fit)
    assert [str(dtype) for dtype in whole.dtypes] == [
        *("float64", "int64", "int64", "float64", "float64")
    ]
    for name in ("real", "whole", "yes", "mixed"):
        own = numbers["real" if name == "mixed" else name]
        assert np.array_equal(whole[name][own.notna()], own.dropna())
        assert whole[name].notna().all()
    assert set(whole["yes"]) == {0, 1}
    means = declared.predict(fit, "real")["real"]
    filled = whole["real"][numbers["real"].isna()]
    np.testing.assert_allclose(filled, means[filled.index], rtol=1e-12)


@pytest.mark.parametrize(
    "types",
    [
        None,
        pytest.param(
            dict.fromkeys(["real", "whole"], "number"), marks=pytest.mark.slow(seconds=5)
        ),
    ],
)
@pytest.mark.parametrize(
    ("library", "names"),
    [
        (lambda frame: frame, "float64 int64"),
        (lambda frame: frame.astype(object), "float64 int64"),
        (lambda frame: frame.convert_dtypes(), "Float64 Int64"),
        (
            lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
            "double[pyarrow] int64[pyarrow]",
        ),
        (pl.from_pandas, "Float64 Int64"),
        (lambda frame: pa.Table.from_pandas(frame), "double int64"),
        (
            lambda frame: pa.Table.from_pandas(frame).cast(
                pa.schema(
                    [(name, pa.string_view()) for name in frame if name != "beside"]
                    + [("beside", pa.float64())]
                )
            ),
            "double int64",
        ),
    ],
    ids=["pandas", "objects", "nullable", "arrow", "polars", "pyarrow", "views"],
)
@pytest.mark.some(0.7, library=[0, 3, 4, 6])
def test_text_that_is_numbers_comes_back_as_numbers_everywhere(library, names, types):
    """In the table, in draws, in ends of intervals, in new rows, and with or without gaps."""

    def dtypes(table):
        if isinstance(table, pa.Table):
            return " ".join(str(table.schema.field(name).type) for name in ("real", "whole"))
        return " ".join(str(table[name].dtype) for name in ("real", "whole"))

    frame, numbers = texts()
    table = library(frame[["real", "whole", "beside"]])
    with contextlib.nullcontext() if types else pytest.warns(UserWarning, match="read as numbers"):
        completed = mc.complete(table, types)
    answers = [completed.table, *completed.draws(1), *completed.interval(0.9)]
    answers.append(completed.complete_rows(table))
    answers.append(
        completed.complete_rows(library(frame[["real", "whole", "beside"]].iloc[[0, 3]]))
    )
    assert {dtypes(answer) for answer in answers} == {names}
    known = numbers["whole"].dropna()
    seen = np.asarray(completed.table["whole"], dtype=float)[known.index]
    assert np.array_equal(seen, known)
    with pytest.warns(UserWarning, match="do not have"):
        absent = completed.complete_rows(library(frame[["whole", "beside"]]))
    assert np.isfinite(np.asarray(absent["real"], dtype=float)).all()


QUANTITIES = {
    "share": ["10%", "35.5 %", "40%"],
    "clock": ["8:00", "09:30", "17:45:10"],
    "date": ["31.12.2020", "1.2.2021", "24.3.99"],
    "iso": ["2020-01-02", "2021-05-06", "2022-07-08"],
    "money": ["€ 3", "$4.50", "5,000 €"],
    "mass": ["70 kg", "80.5kg", "154 lb"],
    "speed": ["5 km/h", "7 km/h", "9 m/s"],
    "heat": ["37 °C", "36.5°C", "39 °C"],
}
WORDS = {
    "age": ["18-24", "25-34", "65+"],
    "code": ["007", "012", "000"],
    "version": ["1.2.3", "1.2.4", "2.0.0"],
    "class": ["a1", "b2", "c3"],
    "school": ["5A", "5B", "6a"],
    "rank": ["1st", "2nd", "3rd"],
    "street": ["1 High Street", "2 High Street", "7 Mill Lane"],
    "half": ["50%", "100%", "50%"],  # a label of two values
}


@pytest.mark.parametrize("name", [*QUANTITIES, *WORDS])
def test_quantities_that_are_not_read_are_named(name):
    values = ({**QUANTITIES, **WORDS}[name] + [None]) * 10
    frame = pd.DataFrame({name: values, "beside": np.arange(40.0)})
    if name in QUANTITIES:
        with pytest.warns(UserWarning, match=f"quantities .* not read as such: '{name}' \\(such"):
            declared = mc.declare(frame)
        mc.declare(frame, {name: "category"})
    else:
        declared = mc.declare(frame)
    assert declared.column(name).kind in ("category", "label")


@pytest.mark.parametrize(
    "values", [["yes", "Yes"], ["yes", "yes ", "no"], ["New York", "new  york", "Rome"]], ids=str
)
@pytest.mark.parametrize("dtype", ["str", "category"])
def test_values_that_are_spelt_in_two_ways_are_named(values, dtype):
    frame = pd.DataFrame({"town": (values * 40)[:60], "beside": np.arange(60.0)})
    frame = frame.astype({"town": dtype})
    with pytest.warns(UserWarning, match="differ in case or spaces alone .* 'town' .such as") as w:
        mc.declare(frame)
    (message,) = [str(item.message) for item in w]
    assert sum(repr(value) in message for value in values) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mc.declare(frame, {"town": "category"})
        mc.declare(
            frame.assign(town=frame["town"].astype("str").str.split().str.join("").str.lower())
        )


@pytest.mark.parametrize("library", [pl.from_pandas, pa.Table.from_pandas], ids=["pl", "pa"])
def test_text_that_reads_as_numbers_in_other_libraries(library):
    frame = library(texts()[0].drop(columns="mixed"))
    with pytest.warns(UserWarning, match="are read as numbers"):
        declared = mc.declare(frame)
    whole = declared.table(mc.fit(declared.model, declared.data))
    assert whole.to_pandas().dtypes.map(str).tolist() == ["float64", "int64", "int64", "float64"]
    assert whole.to_pandas().notna().all(axis=None)


def test_text_that_is_no_number_stays_as_it_is():
    """It is no sign of a missing value, so that it was observed."""
    frame, _ = texts()
    seen = np.flatnonzero(frame["real"] != "?")
    frame.loc[seen[:2], "real"] = "many"
    types = dict.fromkeys(["whole", "yes", "mixed"], "number")
    with pytest.warns(UserWarning, match="are read as numbers") as told:
        declared = mc.declare(frame, types)
    assert str(told[0].message).startswith(
        "columns of text are read as numbers: 'real' ('?' (12x) as missing; 'many' (2x)"
        " stays text, and so does the column); types="
    )
    fit = mc.fit(declared.model, declared.data)
    whole = declared.table(fit)
    assert (whole["real"] == "many").sum() == 2
    assert not (whole["real"] == "?").any()
    new = pd.DataFrame({"real": ["lots", "n/a", "0.5"], "beside": [0.1, 0.2, 0.3]})
    with pytest.warns(UserWarning, match="does not know") as told:
        found = declared.complete_rows(fit, new.assign(whole="1", yes="?", mixed=None))
    assert [str(each.message) for each in told] == [
        "values that the model does not know: 'lots' in column 'real'; they count as missing"
        " there, and stay as they are"
    ]
    assert found["real"][0] == "lots"
    assert found["real"][2] == "0.5"
    assert found[["whole", "yes"]].dtypes.map(str).tolist() == ["int64", "int64"]
    numbers = declared.complete_rows(
        fit, new.assign(real=[0.2, NAN, 0.5], whole=1, yes=0, mixed=0)
    )
    assert numbers["real"].dtype == float
    assert numbers["real"].notna().all()


def test_how_much_of_a_text_has_to_read_as_numbers():
    """Nine in ten of what is no sign of a missing value; types say it where less does."""
    values = [f"{k}.5" for k in range(18)] + ["?"] * 30 + ["none of them"] * 2
    with pytest.warns(UserWarning, match="'none of them' \\(2x\\) stays text"):
        assert taken(values)[0] == "number"
    fewer = [*values, "nor this"]
    with pytest.warns(UserWarning, match="86% of its values are numbers, but not 'none of them'"):
        assert taken(fewer) == ("category", "text, of 21 values")
    with pytest.warns(UserWarning, match="stays text"):
        assert taken(fewer, "number")[0] == "number"
    assert taken(values, "category")[0] == "category"
    assert taken(["1.5", "2.5", "4", "5"], "number") == ("number", "declared")
    assert taken(["1", "0", "4", "?"], "count") == ("count", "declared")
    assert taken(["1.5", "2.5", "4", "5"], mc.Huber())[0] == "Huber"
    assert taken(["1.5", "2.5", "4", "5"], "skip")[0] == "set aside"
    with pytest.warns(UserWarning, match="are read as numbers"):
        assert taken(["7", "?", "7", "7.0"])[0] == "constant"


@pytest.mark.parametrize(
    "text", ["1_000", "inf", "1e999", "0x1f", "007", "1,5", "12%", "1 2", "e5", "٣", "+", "- 1"]
)
def test_texts_that_are_no_numbers(text):
    with pytest.warns(UserWarning, match="stays text"):
        declared = mc.declare(
            pd.DataFrame({"x": ["1.5", "2.5", text], "y": [1.5, 2.5, 3.0]}), {"x": "number"}
        )
    np.testing.assert_array_equal(declared.data["numbers"]["x"], [1.5, 2.5, NAN])
