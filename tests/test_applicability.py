"""Entries that are to be filled, and gaps that are none because a column does not apply."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import mcframe as mc


def people(n=120, seed=0):
    """People, some of them married, with the ages of their spouses, and answers missing."""
    rng = np.random.default_rng(seed)
    age = rng.normal(45.0, 12.0, n)
    married = rng.random(n) < 1.0 / (1.0 + np.exp(-(age - 40.0) / 6.0))
    spouse = np.where(married, age + rng.normal(0.0, 3.0, n), np.nan)
    frame = pd.DataFrame(
        {"age": age, "married": pd.array(married, dtype="boolean"), "spouse_age": spouse}
    )
    frame["city"] = rng.choice(["Kiel", "Ulm"], n)
    frame.loc[rng.random(n) < 0.15, "age"] = np.nan
    unknown = rng.random(n) < 0.15
    frame.loc[unknown, "married"] = pd.NA
    frame.loc[unknown | (rng.random(n) < 0.2), "spouse_age"] = np.nan
    return frame


@pytest.fixture(scope="module")
def frame():
    return people()


@pytest.fixture(scope="module")
def completed(frame):
    return mc.complete(frame, {"spouse_age": mc.only_if("married")})


def test_columns_are_filled_where_they_apply(frame, completed):
    table = completed.table
    assert table[["age", "married", "city"]].notna().to_numpy().all()
    married = table["married"].to_numpy(bool)
    assert table["spouse_age"][married].notna().all()
    empty = table["spouse_age"].isna()
    np.testing.assert_array_equal(empty, ~married & frame["spouse_age"].isna())
    assert empty.sum() > 10
    plain = mc.complete(frame)
    pd.testing.assert_series_equal(table["spouse_age"][~empty], plain.table["spouse_age"][~empty])


def test_draws_apply_as_they_are_drawn(frame, completed):
    tables = completed.draws(4)
    for table in tables:
        married = table["married"].to_numpy(bool)
        np.testing.assert_array_equal(table["spouse_age"].notna(), married)
    assert any((tables[0]["married"] != table["married"]).any() for table in tables[1:])


def test_what_stays_empty_has_no_error_and_is_said(frame, completed):
    empty = completed.table["spouse_age"].isna()
    sd = completed.sd["spouse_age"]
    assert sd[empty].isna().all()
    assert (sd[~empty & frame["spouse_age"].isna()] > 0.0).all()
    lower, upper = completed.interval()
    known = (frame["married"] == False).fillna(False)  # noqa: E712 -- of three values
    assert lower["spouse_age"][known].isna().all()
    applies = completed.table["married"].to_numpy(bool)
    assert (lower["spouse_age"] <= upper["spouse_age"])[applies].all()
    np.testing.assert_array_equal(lower["spouse_age"].isna(), empty)
    assert f"'spouse_age' ({empty.sum()})" in str(completed)
    assert "spouse_age" not in completed.means
    filled = int(frame.isna().to_numpy().sum() - empty.sum())
    assert str(completed).startswith(f"Completion: {filled} entries filled")


def test_new_rows_apply_too(completed):
    new = pd.DataFrame(
        {
            "age": [50.0, 50.0, np.nan],
            "married": pd.array([True, False, pd.NA], dtype="boolean"),
            "spouse_age": [np.nan] * 3,
            "city": ["Ulm"] * 3,
        }
    )
    filled = completed.complete_rows(new)
    assert filled["spouse_age"].notna().tolist() == [True, False, bool(filled["married"][2])]
    with pytest.warns(UserWarning, match="count as missing"):
        without = completed.complete_rows(new[["age", "married", "city"]])
    assert without["spouse_age"].notna().tolist() == filled["spouse_age"].notna().tolist()


def test_intervals_of_new_rows_are_of_what_is_filled(completed):
    new = pd.DataFrame({"age": [20.0, 70.0], "married": [pd.NA, pd.NA], "city": ["Ulm"] * 2})
    new["spouse_age"] = np.nan
    lower, _ = completed.interval_rows(new)
    filled = completed.complete_rows(new)
    np.testing.assert_array_equal(lower["spouse_age"].isna(), filled["spouse_age"].isna())
    assert sorted(filled["spouse_age"].isna()) == [False, True]


def test_masks_say_nothing_of_new_rows(frame):
    """Not even of as many as the table has."""
    nothing = np.zeros(frame.shape, dtype=bool)
    types = {"spouse_age": mc.only_if("married")}
    masked, plain = mc.complete(frame, types, where=nothing), mc.complete(frame, types)
    assert masked.table["married"].isna().any()
    pd.testing.assert_frame_equal(masked.complete_rows(frame), plain.complete_rows(frame))


def test_conditions_that_are_numbers_hold_by_what_is_filled():
    """And not by the ends of their intervals."""
    rng = np.random.default_rng(0)
    rooms = rng.integers(1, 4, 90).astype(float)
    frame = pd.DataFrame({"rooms": rooms, "size": 20.0 * rooms + rng.normal(size=90)})
    frame["garage"] = np.where(rooms == 3.0, frame["size"] / 4.0, np.nan)
    frame.loc[::5, "rooms"] = np.nan
    completed = mc.complete(frame, {"garage": mc.only_if("rooms", 3)})
    for end in completed.interval(0.99):
        np.testing.assert_array_equal(end["garage"].isna(), completed.table["garage"].isna())


def test_values_are_named_in_any_library():
    frame = people().assign(married=lambda t: t["married"].map({True: "yes", False: "no"}))
    whole = pl.from_pandas(frame)
    condition = mc.only_if("married", "yes", kind=("number", 0, 120))
    table = mc.complete(whole, {"spouse_age": condition}).table
    applies = (table["married"] == "yes").to_numpy()
    observed = whole["spouse_age"].is_not_null().to_numpy()
    np.testing.assert_array_equal(table["spouse_age"].is_not_null().to_numpy(), applies | observed)


def test_conditions_depend_on_each_other():
    rng = np.random.default_rng(0)
    drives = rng.random(80) < 0.6
    owns = drives & (rng.random(80) < 0.6)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=80),
            "drives": drives,
            "owns": pd.array(np.where(drives, owns, None), dtype="boolean"),
            "price": np.where(owns, rng.normal(20.0, 3.0, 80), np.nan),
        }
    )
    types = {"owns": mc.only_if("drives"), "price": mc.only_if("owns")}
    table = mc.complete(frame, types).table
    pd.testing.assert_frame_equal(table, frame)


def test_only_what_is_asked_is_filled(frame):
    where = np.zeros(frame.shape, dtype=bool)
    where[:, 0] = True
    where[::2, 2] = True
    completed = mc.complete(frame, where=where)
    gaps = frame.isna().to_numpy()
    np.testing.assert_array_equal(completed.table.isna(), gaps & ~where)
    for table in completed.draws(2):
        np.testing.assert_array_equal(table.isna(), gaps & ~where)
    by_table = mc.complete(frame, where=pd.DataFrame(where, columns=frame.columns)[::1])
    pd.testing.assert_frame_equal(by_table.table, completed.table)
    everywhere = mc.complete(frame)
    same = ~completed.table.isna().to_numpy()
    values, others = (t.table.to_numpy(dtype=object)[same] for t in (completed, everywhere))
    assert (values == others).all()
    assert completed.complete_rows(frame.iloc[:5]).notna().to_numpy().all()


def test_optima_leave_gaps_empty_too(frame):
    completed = mc.complete(frame, {"spouse_age": mc.only_if("married")}, method="optimum")
    married = completed.table["married"].to_numpy(bool)
    np.testing.assert_array_equal(
        completed.table["spouse_age"].notna(), married | frame["spouse_age"].notna()
    )
    declared = mc.declare(frame, {"spouse_age": mc.only_if("married")})
    table = declared.table(mc.fit(*declared))
    married = table["married"].to_numpy(bool)
    np.testing.assert_array_equal(
        table["spouse_age"].notna(), married | frame["spouse_age"].notna()
    )


def test_completions_come_back_from_files(completed, tmp_path):
    completed.save(tmp_path / "people.npz")
    again = mc.load(tmp_path / "people.npz")
    pd.testing.assert_frame_equal(again.draws(1)[0], completed.draws(1)[0])
    assert str(again) == str(completed)


def test_values_against_a_condition_are_named(frame):
    strange = frame.copy()
    row = int(np.flatnonzero((frame["married"] == False).fillna(False))[0])  # noqa: E712
    strange.loc[row, "spouse_age"] = 44.0
    with pytest.warns(UserWarning, match=f"has a value in 1 row .* such as row {row}"):
        table = mc.complete(strange, {"spouse_age": mc.only_if("married")}).table
    assert table["spouse_age"][row] == 44.0


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"spouse_age": mc.only_if("maried")}, "names 'maried'.*did you mean 'married'"),
        ({"spouse_age": mc.only_if("married", "yes")}, "which no row has; give a value that"),
        ({"spouse_age": mc.only_if("spouse_age", 1.0)}, "depends on 'spouse_age' itself"),
        (
            {"spouse_age": mc.only_if("married"), "married": mc.only_if("spouse_age", 1.0)},
            "depends on 'spouse_age' itself",
        ),
        ({"spouse": mc.only_if("married")}, "names 'spouse', which is no column"),
        ({"spouse_age": mc.only_if("married", kind="numer")}, "did you mean 'number'"),
    ],
)
def test_messages_of_conditions(frame, types, message):
    with pytest.raises(mc.McframeError, match=message):
        mc.complete(frame, types)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (np.ones((3, 2), dtype=bool), r"of shape \(3, 2\)"),
        (np.ones((120, 4)), "dtype float64"),
        (pd.DataFrame({"age": [True] * 120}), "no column 'married'"),
        (True, r"in the shape \(120, 4\)"),
    ],
)
def test_messages_of_masks(frame, where, message):
    with pytest.raises(mc.DataError, match=message):
        mc.complete(frame, where=where)
