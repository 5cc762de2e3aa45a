"""Tables that are not what they should be: the same sentences from every verb that reads them."""

import warnings

import attrs
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import mcframe as mc
from mcframe.estimators import MatrixCompletionImputer
from mcframe.tables.columns import read_column_like, values_of
from tests import bad_inputs
from tests.strategies import frames
from tests.test_declare import mixed

NAN = np.nan


def table():
    return mixed().drop(columns="day")


@pytest.fixture(scope="module")
def completed():
    return mc.complete(table())


@pytest.fixture(params=["declare", "complete", "complete_rows", "rows"])
def read(request, completed):
    """A verb that reads a table."""
    return {
        "declare": mc.declare,
        "complete": mc.complete,
        "complete_rows": completed.complete_rows,
        "rows": completed.declared.rows,
    }[request.param]


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (
            table().to_numpy(),
            "an ndarray was given; a DataFrame of pandas or polars or a Table of pyarrow is needed"
            " (collect a lazy one first, make a pandas.DataFrame of an array)",
        ),
        (
            table().rename(columns={"weight": "length"}),
            "2 columns of the table have the name 'length'; rename or drop all but one",
        ),
        (
            table().iloc[:0],
            "the table has 0 rows and 7 columns; at least one of each is needed",
        ),
        (
            table().assign(length=[-np.inf] + [1.0] * 59),
            "column 'length': value -inf in row 0; every observed value must be finite. Replace"
            " infinities by NaN if they stand for missing values",
        ),
        (
            table().assign(length=pd.arrays.SparseArray([0.0, 1.0] * 30, fill_value=0)),
            "column 'length': the column is sparse (dtype Sparse[float64, 0]), and what it does"
            " not store may be missing or an observed zero. Give"
            " frame['length'].sparse.to_dense() as the column, with NaN where a value is missing",
        ),
    ],
    ids=["array", "names", "rows", "infinity", "sparse"],
)
def test_tables_that_cannot_be_read(read, frame, sentence):
    with pytest.raises(mc.DataError) as caught:
        read(frame)
    assert str(caught.value) == sentence


STRANGE = {
    "mixed": (
        [1.5, "a"] * 30,
        "it mixes numbers (1.5 in row 0) and text ('a' in row 1); give it one type",
    ),
    "text numbers": (["1,5", "2,5", "3"] * 20, "its values are text ('1,5' in row 0)"),
    "dates with a zone": (
        list(pd.date_range("2020-01-01", periods=60, tz="Europe/Berlin")),
        "its values are dates ('2020-01-01 00:00:00+01:00' in row 0)",
    ),
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("verb", ["complete_rows", "rows"])
def test_new_values_of_another_type_are_refused(completed, kind, verb):
    values, why = STRANGE[kind]
    read = getattr(completed if verb == "complete_rows" else completed.declared, verb)
    with pytest.raises(mc.DataError) as caught:
        read(table().assign(length=pd.Series(values)))
    remedy = ". Convert them to what the table has there, or mark them as missing"
    assert str(caught.value) == (
        f"column 'length' is taken for: number, but in the new rows {why}"
        f"{remedy * why.startswith('its values')}"
    )


def test_columns_that_say_nothing_keep_their_holes_with_one_warning():
    """Also in new rows, where more may be known of them."""
    frame = table().assign(nothing=None, never=NAN)
    for kind, (values, _) in STRANGE.items():
        frame[kind] = pd.Series(values)
        frame.loc[3, kind] = None
    aside = list(frame)[7:]
    with pytest.warns(UserWarning, match="neither used nor filled") as told:
        found = mc.complete(frame)
    [said] = [str(each.message) for each in told]
    assert said.startswith("columns that are set aside are neither used nor filled: 'nothing'")
    for name in aside:
        assert f"'{name}' (" in said
    pd.testing.assert_frame_equal(found.table[aside], frame[aside])
    new = frame.iloc[2:4].assign(nothing=["a", None], never=[1.0, NAN])
    back = found.complete_rows(new)
    pd.testing.assert_frame_equal(back[aside], new[aside])
    assert not back[list(table())].isna().to_numpy().any()


def test_columns_in_another_order_come_back_in_it(completed):
    new = table().iloc[:5]
    wanted = completed.complete_rows(new)
    turned = completed.complete_rows(new[new.columns[::-1]])
    assert list(turned) == list(new.columns[::-1])
    pd.testing.assert_frame_equal(turned[wanted.columns], wanted)


def test_labels_of_rows_that_repeat_come_back_as_they_were(completed):
    alike = table().set_axis(["i"] * 60)
    found = mc.complete(alike)
    assert list(found.table.index) == ["i"] * 60
    pd.testing.assert_frame_equal(found.table.reset_index(drop=True), completed.table)
    new = found.complete_rows(alike.iloc[:4])
    assert list(new.index) == ["i"] * 4
    pd.testing.assert_frame_equal(
        new.reset_index(drop=True), completed.complete_rows(table().iloc[:4])
    )


def test_dates_with_a_zone_come_back_with_it():
    days = pd.Series(pd.date_range("2020-03-01", periods=60, tz="Europe/Berlin"))
    days[5] = pd.NaT
    frame = table().assign(day=days)
    found = mc.complete(frame, {"day": "date"})
    assert found.table["day"].dtype == days.dtype
    back = found.complete_rows(frame.iloc[4:7])
    assert back["day"].dtype == days.dtype
    assert back["day"].notna().all()


@pytest.mark.parametrize(("scale", "offset"), [(1e-12, 0.0), (1.0, 1e12), (1e12, 1e12)])
def test_new_rows_are_completed_in_any_unit(completed, scale, offset):
    """Far from 0 a number keeps the digits that its offset leaves it."""
    frame = table()
    moved = frame.assign(length=scale * frame["length"] + offset)
    declared = mc.declare(moved)
    fit = mc.fit(declared.model, declared.data, tol=1e-9)
    still = mc.declare(frame)
    wanted = still.complete_rows(mc.fit(still.model, still.data, tol=1e-9), frame.iloc[:20])
    found = declared.complete_rows(fit, moved.iloc[:20])
    back = (found["length"] - offset) / scale
    np.testing.assert_allclose(back, wanted["length"], rtol=0.0, atol=1e-2)
    pd.testing.assert_frame_equal(found.drop(columns="length"), wanted.drop(columns="length"))


def test_a_row_and_a_column():
    """One column has nothing but its level to tell of a new row."""
    x = np.array([1.25, 2.0, 3.0, 3.75])
    declared = mc.declare(pd.DataFrame({"x": x}))
    fit = mc.fit(declared.model, declared.data)
    found = declared.complete_rows(fit, pd.DataFrame({"x": [NAN]}))
    assert found["x"][0] == pytest.approx(2.5, abs=1e-3)


@pytest.mark.parametrize("shape", [(20_000, 2), (3, 1_000)])
def test_new_rows_of_long_and_wide_tables(shape):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal(shape)).add_prefix("x").round(2)
    frame["kind"] = np.where(frame["x0"] > 0.0, "up", "down")
    frame.iloc[1, 1] = NAN
    declared = mc.declare(frame)
    fit = mc.fit(declared.model, declared.data, tol=1e-4)
    assert not declared.table(fit).isna().to_numpy().any()
    assert not declared.complete_rows(fit, frame).isna().to_numpy().any()


# Tables of any columns


def lists_of(table):
    """The values of each column as Python objects, None where missing."""
    table = nw.from_native(table, eager_only=True)
    return {column.name: values_of(column) for column in table.iter_columns()}


def check_observed_entries(found, given, declared):
    """What was observed stands there, and nothing is missing in columns of the model."""
    series = nw.from_native(given, eager_only=True)
    found, given, columns = lists_of(found), lists_of(given), {}
    for each in declared.columns:
        own = read_column_like(series.get_column(each.name), each.column)
        own = attrs.evolve(own, given_limits=each.column.given_limits)
        columns[each.name] = own
        converted = each.is_filled and own.is_converted
        gaps = own.missing if each.is_filled else np.zeros(len(series), dtype=bool)
        for now, before, gap in zip(found[each.name], given[each.name], gaps, strict=True):
            if converted:  # text that is numbers comes back as these
                assert isinstance(now, int | float), now
                assert gap or now == float(before)
            elif before is not None and not gap:
                assert type(now) is type(before)
                assert now == before
            elif each.place is not None:
                assert now is not None
    check_limits(found, declared, columns)


def check_limits(found, declared, columns=None):
    """Cells that are known to limits, in the table or in other columns, lie within these."""
    for each in declared.columns:
        column = each.column if columns is None else columns[each.name]
        if each.place is None or each.limits_of(column) is None:
            continue
        cells = column.limited
        lower, upper = column.limits.lower[cells], column.limits.upper[cells]
        values = [value for value, limited in zip(found[each.name], cells, strict=True) if limited]
        for value, low, high in zip(values, lower, upper, strict=True):
            if value is None or column.form == "date":
                continue
            # Dtypes of few digits may round an end of the limits away from them.
            slack = 1e-6 * np.abs(value if type(value) is not str else float(value))
            assert low - slack <= float(value) <= high + slack, (each.name, value, low, high)


def quietly(call, *arguments):
    """The answer; None where the package refuses; no other error, and no other warning."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            answer = call(*arguments)
        except mc.McframeError:
            answer = None
    assert {each.category for each in told} <= {
        *(UserWarning, mc.UnobservedWarning, mc.NotCertifiedWarning, mc.NotConvergedWarning)
    }
    return answer


def unseen(frame):
    """Its rows in another order, with values that it has not."""
    new = frame.iloc[::-1].reset_index(drop=True)
    for name, value in {"town": "Wien", "label": "maybe", "text": "<7", "constant": "fr"}.items():
        if name in new:
            new.loc[new.index[:1], name] = value
    if "kinds" in new:
        new["kinds"] = new["kinds"].cat.rename_categories({"p": "new"})
    return new


def check_table_of_any_columns(drawn, method):
    frame, library = drawn
    table = library(frame)
    completed = quietly(lambda: mc.complete(table, method=method))
    if completed is None:  # an optimum is not chosen where no entry can be held out
        assert method == "optimum" or quietly(mc.declare, table) is None
        return
    declared = completed.declared
    for column, score in zip(declared.columns, completed.scores, strict=True):
        assert score is None or np.isfinite(score.loss) or column.kind == "constant"
    check_observed_entries(completed.table, table, declared)
    new = library(unseen(frame))
    back = quietly(completed.complete_rows, new)
    if back is not None:
        check_observed_entries(back, new, declared)
    check_order_of_columns(frame, library, method, completed)
    imputer = MatrixCompletionImputer(
        types={}, weight=3.0, terms="gaussian", keep_empty_features=True
    )
    check_observed_entries(quietly(imputer.fit_transform, table), table, declared)


def check_order_of_columns(frame, library, method, completed):
    """Every filled entry is the same to the last bit, whatever the order of the columns."""
    turned = quietly(lambda: mc.complete(library(frame[frame.columns[::-1]]), method=method))
    assert lists_of(completed.table) == lists_of(turned.table)


@pytest.mark.slow(seconds=5)
@settings(max_examples=8)
@given(frames())
def test_tables_of_any_columns(drawn):
    check_table_of_any_columns(drawn, "posterior")


@pytest.mark.slow
@settings(max_examples=400)
@given(frames())
def test_many_tables_of_any_columns(drawn):
    check_table_of_any_columns(drawn, "posterior")


@pytest.mark.slow
@settings(max_examples=40)
@given(frames())
def test_tables_of_any_columns_by_optimum(drawn):
    check_table_of_any_columns(drawn, "optimum")


# The list of wrong inputs in the documents


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The folder and the names that the lines of the list use."""
    folder = tmp_path_factory.mktemp("inputs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return folder, bad_inputs.prepared()


@pytest.mark.parametrize("verb", bad_inputs.CASES)
def test_wrong_inputs_have_the_answers_of_the_page(verb, prepared, monkeypatch):
    """``python -m tests.bad_inputs`` writes the page where a message has changed."""
    folder, names = prepared
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MCFRAME_DATA", raising=False)  # a folder that messages would name
    page = bad_inputs.PAGE.read_text("utf-8").splitlines()
    found = [
        bad_inputs.row(verb, case, bad_inputs.outcome(case, names))
        for case in bad_inputs.CASES[verb]
    ]
    assert found == [line for line in page if line.startswith(f"| {verb} |")]


def test_warnings_name_the_line_that_called():
    """However deep in the package they arise."""
    frame = table().assign(other=NAN)
    data = {"y": np.array([[1.0, 0.0], [NAN, NAN], [0.0, 1.0]])}
    model = mc.Model([mc.Block("y", mc.Bernoulli())], [mc.NuclearNorm(1.0)])
    calls = [
        lambda: mc.complete(frame),
        lambda: mc.fit(model, data),
        lambda: mc.posterior(model, data),
        lambda: mc.path(model, data, weights=[0.2, 0.1]),
        lambda: mc.fit(model, data, max_iter=1, tol=1e-12),
    ]
    for call in calls:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            call()
        assert {each.filename for each in told} == {__file__}
