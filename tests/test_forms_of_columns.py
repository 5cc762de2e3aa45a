"""Columns of every dtype, read by every entry: filled, set aside with a warning, or one error."""

import datetime as dt
import warnings
from decimal import Decimal

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mcframe as mc
from mcframe.estimators import MatrixCompletionImputer, MatrixCompletionRegressor

from .bad_inputs import KNOWN, is_of_scikit_learn

N = 24
RNG = np.random.default_rng(0)
X = RNG.standard_normal(N)
HIDDEN = np.isin(np.arange(N), [1, 5, 6, 11])


def holed(values):
    return [None if hidden else value for value, hidden in zip(values, HIDDEN, strict=True)]


REALS = holed((2.0 * X + 0.1 * RNG.standard_normal(N)).round(2).tolist())
WHOLE = holed(np.clip(np.round(10 * X) + 40, 0, 100).astype(int).tolist())
DECIMALS = [None if value is None else Decimal(f"{value:.2f}") for value in REALS]
TRUTHS = [None if value is None else value > 0 for value in REALS]
TEXTS = [None if value is None else "ab"[value] for value in TRUTHS]
TIMES = [
    None if value is None else dt.datetime(2020, 1, 1) + dt.timedelta(value) for value in WHOLE
]
DAYS = [None if time is None else time.date() for time in TIMES]
SPANS = [None if value is None else dt.timedelta(value) for value in WHOLE]


def pandas(values, dtype):
    return pd.Series(values, dtype=dtype)


def floats(dtype):
    return pd.Series(np.array([np.nan if v is None else v for v in REALS]).astype(dtype))


def arrow(values, dtype):
    return pa.array(values, dtype)


def in_pandas(values, dtype):
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array(values, dtype)])))


# A column, and what it is taken for.
FORMS = {
    **{f"numpy {kind}": (floats(kind), "number") for kind in ("float16", "float32", ">f8")},
    "numpy long double": (floats(np.longdouble), "number"),
    "numpy uint64": (pd.Series(np.arange(N, dtype=np.uint64) ** 2), "number"),
    "numpy >i4": (pd.Series((np.arange(N) ** 2).astype(">i4")), "number"),
    "numpy complex": (pd.Series(X + 0j), "set aside"),
    "objects with NA": (pandas([pd.NA if v is None else v for v in WHOLE], object), "number"),
    "objects with NaT": (pandas([pd.NaT if v is None else v for v in REALS], object), "number"),
    "Decimal": (pandas(DECIMALS, object), "number"),
    "Decimal with sNaN": (
        pandas([Decimal("sNaN") if v is None else v for v in DECIMALS], object),
        "number",
    ),
    "Decimal of Arrow in pandas": (in_pandas(DECIMALS, pa.decimal128(9, 2)), "number"),
    "Decimal of Arrow": (arrow(DECIMALS, pa.decimal256(40, 2)), "number"),
    "Decimal of polars": (pl.Series(DECIMALS, dtype=pl.Decimal(9, 2)), "number"),
    "nullable whole": (pandas(WHOLE, "Int8"), "number"),
    "nullable truth": (pandas(TRUTHS, "boolean"), "label"),
    "categories of truth": (pandas(TRUTHS, object).astype("category"), "label"),
    "categories of intervals": (pd.cut(pandas(REALS, float), 3), "ordinal"),
    "periods": (pd.Series(pd.period_range("2020-01", periods=N, freq="M")), "set aside"),
    "intervals": (pd.Series(pd.interval_range(0, N)), "set aside"),
    "durations": (pandas(SPANS, "timedelta64[s]"), "set aside"),
    "times with a zone": (
        pandas(TIMES, "datetime64[us]").dt.tz_localize("Asia/Tokyo"),
        "set aside",
    ),
    "text views in pandas": (in_pandas(TEXTS, pa.string_view()), "label"),
    "float16 of Arrow": (
        arrow([None if v is None else np.float16(v) for v in REALS], pa.float16()),
        "number",
    ),
    "dictionary of Arrow": (arrow(TEXTS, pa.string()).dictionary_encode(), "label"),
    "durations of Arrow": (arrow(SPANS, pa.duration("s")), "set aside"),
    "days of Arrow": (arrow(DAYS, pa.date32()), "set aside"),
    "lists of Arrow": (arrow([[1]] * N, pa.list_(pa.int64())), "set aside"),
    "days of polars": (pl.Series(DAYS), "set aside"),
    "durations of polars": (pl.Series(SPANS), "set aside"),
    "times of the day of polars": (pl.Series([dt.time(k % 24) for k in range(N)]), "set aside"),
    "objects of polars": (pl.Series(WHOLE, dtype=pl.Object), "set aside"),
    "128 bits of polars": (pl.Series(WHOLE, dtype=pl.Int128), "number"),
}


def table_of(column):
    if isinstance(column, pd.Series):
        return pd.DataFrame({"x": X, "f": column})
    if isinstance(column, pl.Series):
        return pl.DataFrame({"x": X}).with_columns(column.alias("f"))
    return pa.table({"x": X, "f": column})


def answered(call):
    """The answer, None for an error of the package or of scikit-learn's checks; nothing else."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            answer = call()
        except mc.McframeError:
            answer = None
        except Exception as error:
            if not is_of_scikit_learn(error):
                raise
            answer = None
    assert {each.category for each in told} <= set(KNOWN)
    return answer, [str(each.message) for each in told]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_column_in_every_entry(form):
    column, kind = FORMS[form]
    table = table_of(column)
    completed, told = answered(lambda: mc.complete(table))
    assert completed.declared.column("f").kind == kind
    before, after = nw.from_native(table)["f"], nw.from_native(completed.table)["f"]
    assert after.dtype == before.dtype
    if kind == "set aside":
        assert any("set aside" in said for said in told)
    else:
        assert not completed.declared.column("f").column.missing.all()
        values = after.to_list()
        assert not any(v is None or v is pd.NA or v is pd.NaT or v != v for v in values)
    model = mc.Model([mc.Block("f", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.1)])
    fit, _ = answered(lambda: mc.fit(model, {"f": table}))
    if kind == "number":
        codes = completed.declared.column("f").codes
        assert np.array_equal(
            fit.problem.tables["f"].values,
            np.column_stack([X, codes])[~np.isnan(np.column_stack([X, codes]))],
        )
    elif kind == "set aside" and form != "objects of polars":
        assert fit is None  # dates and durations are no numbers
    answered(lambda: MatrixCompletionImputer(weight=1.0).fit_transform(table))
    answered(lambda: MatrixCompletionRegressor(weight=1.0).fit(table, X).predict(table))
