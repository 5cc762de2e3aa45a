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
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mcframe as mc
from mcframe.estimators import MatrixCompletionImputer, MatrixCompletionRegressor
from mcframe.model.reading import read_block, read_values

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


# The readers of numbers: one for models, tables and estimators


# Forms of a table of numbers, from its columns as lists with None; and those of which ``declare``
# makes a table, too.
FRAMES = {
    "pandas": lambda table: pd.DataFrame(table, dtype=float),
    "pandas, float32": lambda table: pd.DataFrame(table, dtype="float32"),
    "pandas, other bytes": lambda table: pd.DataFrame(table, dtype=">f8"),
    "pandas, nullable": lambda table: pd.DataFrame(table, dtype="Float64"),
    "pandas, of Arrow": lambda table: pd.DataFrame(table, dtype="float64[pyarrow]"),
    "pandas, objects": lambda table: pd.DataFrame(table, dtype=object),
    "pandas, objects with NA": lambda table: pd.DataFrame(table, dtype=object).fillna(pd.NA),
    "pandas, sparse": lambda table: pd.DataFrame(table, dtype=float).astype(
        pd.SparseDtype(float, np.nan)
    ),
    "pandas, names in levels": lambda table: pd.DataFrame(table, dtype=float).set_axis(
        pd.MultiIndex.from_product([["x"], range(len(table))]), axis=1
    ),
    "pandas, Decimal": lambda table: pd.DataFrame(
        {name: [v if v is None else Decimal(v) for v in column] for name, column in table.items()}
    ),
    "polars": lambda table: pl.DataFrame(table, schema=dict.fromkeys(table, pl.Float64)),
    "polars, NaN": lambda table: pl.DataFrame(
        table, schema=dict.fromkeys(table, pl.Float64)
    ).fill_null(np.nan),
    "polars, float32": lambda table: pl.DataFrame(table, schema=dict.fromkeys(table, pl.Float32)),
    "pyarrow": lambda table: pa.table(
        {name: pa.array(column, pa.float64()) for name, column in table.items()}
    ),
    "pyarrow, Decimal": lambda table: pa.table(
        {
            name: pa.array([v if v is None else Decimal(v) for v in column], pa.decimal128(38, 12))
            for name, column in table.items()
        }
    ),
}
ARRAYS = {
    "lists": lambda x: x.tolist(),
    "lists with None": lambda x: np.where(np.isnan(x), None, x.astype(object)).tolist(),
    "tuples": lambda x: tuple(map(tuple, x.tolist())),
    "objects": lambda x: np.where(np.isnan(x), pd.NA, x.astype(object)),
    "masked": lambda x: np.ma.masked_array(np.nan_to_num(x), np.isnan(x)),
    "masked objects": lambda x: np.ma.masked_array(
        np.where(np.isnan(x), "no number", x.astype(object)), np.isnan(x)
    ),
    "columns first": np.asfortranarray,
    "float32": lambda x: x.astype(np.float32),
    "long double": lambda x: x.astype(np.longdouble),
}
# What is no number, whatever numpy or scikit-learn would make of it.
NO_NUMBERS = {
    "text": lambda x: x.astype(str),
    "text in objects": lambda x: x.astype(str).astype(object),
    "bytes": lambda x: x.astype("S"),
    "lists of text": lambda x: x.astype(str).tolist(),
    "dates": lambda x: np.zeros(x.shape, "datetime64[s]"),
    "durations": lambda x: np.ones(x.shape, "timedelta64[s]"),
    "structured": lambda x: np.zeros(len(x), [("a", float), ("b", float)]),
}


@st.composite
def tables_of_numbers(draw):
    """Numbers that all forms hold, with gaps, and at least two of them in each column."""
    n, d = draw(st.integers(4, 12)), draw(st.integers(2, 4))
    x = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).integers(-4096, 4096, (n, d)) / 64
    hidden = draw(hnp.arrays(bool, (n, d)))
    hidden[:2] = False
    x[0], x[1] = -64.5, 64.25
    return np.where(hidden, np.nan, x)


def read_by_model(data):
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    table = mc.Problem.bind(model, {"x": data}).tables["x"]
    dense = np.full(table.shape, np.nan)
    dense[table.rows, table.columns] = table.values
    return dense


def read_by_declare(data):
    names = nw.from_native(data).columns
    declared = mc.declare(data, dict.fromkeys(names, "number"), missing=[])
    return np.column_stack([column.column.numbers for column in declared.columns])


def read_by_estimator(data):
    return np.asarray(MatrixCompletionImputer().read(data, reset=True), dtype=float)


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=15, deadline=None)
@given(tables_of_numbers())
def test_models_tables_and_estimators_read_the_same_numbers(x):
    columns = np.where(np.isnan(x), None, x.astype(object)).T.tolist()
    table = {f"c{place}": column for place, column in enumerate(columns)}
    for form in FRAMES.values():
        frame = form(table)
        for read in (read_by_model, read_by_declare, read_by_estimator):
            np.testing.assert_array_equal(read(frame), x)
    for form in ARRAYS.values():
        np.testing.assert_array_equal(read_by_model(form(x)), x)
        np.testing.assert_array_equal(read_by_estimator(form(x)), x)
        with pytest.raises(mc.DataError, match="a DataFrame of pandas or polars"):
            mc.declare(form(x))


@pytest.mark.parametrize("form", NO_NUMBERS)
def test_what_models_refuse_as_no_number_estimators_refuse_too(form):
    data = NO_NUMBERS[form](np.arange(6.0).reshape(3, 2))
    for read in (read_by_model, read_by_estimator):
        with pytest.raises(mc.DataError, match="number"):
            read(data)


def test_sparse_columns_whose_gaps_are_nan_are_filled():
    column = pd.Series(pd.arrays.SparseArray([np.nan if v is None else v for v in REALS]))
    completed = mc.complete(pd.DataFrame({"x": X, "f": column}))
    assert completed.table["f"].dtype == column.dtype
    assert not completed.table["f"].isna().any()
    observed = np.flatnonzero(~HIDDEN)
    assert completed.table["f"][observed].tolist() == column[observed].tolist()
    dense = mc.complete(pd.DataFrame({"x": X, "f": column.sparse.to_dense()}))
    assert dense.table["f"].tolist() == completed.table["f"].tolist()


@pytest.mark.parametrize("what", ["weights", "offset"])
def test_names_of_weights_and_offsets_may_stand_twice(what):
    """They are checked by the block's own; a lazy frame is named as one."""
    x, numbers = np.ones((20, 3)), np.full((20, 3), 2.0)
    block = mc.Block("x", mc.Poisson())
    for names in (["a", "a", "b"], [0, 0, 0]):
        table = read_block(
            block, mc.Observations(x, **{what: pd.DataFrame(numbers, columns=names)})
        )
        assert table.n_entries == 60
    lazy = pl.DataFrame(numbers, schema=["a", "b", "c"]).lazy()
    with pytest.raises(mc.DataError, match="LazyFrame"):
        read_block(block, mc.Observations(x, **{what: lazy}))


def test_two_columns_without_a_name_are_refused():
    frame = pd.DataFrame([[1.0, 2.0]], columns=[np.nan, np.nan])
    with pytest.raises(mc.DataError, match="2 columns of the table have no name"):
        read_values(mc.Block("x", mc.Gaussian()), frame)
    with pytest.raises(mc.DataError, match="2 columns of the table have no name"):
        mc.complete(frame)


def test_the_imputer_refuses_zeros_that_are_not_stored_in_every_verb():
    x = np.random.default_rng(0).standard_normal((20, 3))
    imputer = MatrixCompletionImputer().fit(pd.DataFrame(x, columns=list("abc")))
    sparse = pd.DataFrame(np.where(x > 0.0, x, 0.0), columns=list("abc"))
    for verb in (imputer.fit, imputer.transform):
        with pytest.raises(mc.DataError, match="may be missing or an observed zero"):
            verb(sparse.astype(pd.SparseDtype(float, 0.0)))
