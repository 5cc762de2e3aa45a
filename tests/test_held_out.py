"""Entries that are held out: what is left of the data in each form, and the rest."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.model.forms import table_of_numbers
from mcframe.model.held_out import (
    NEVER_HELD_OUT,
    HeldOut,
    dealt,
    dealt_cells,
    drawn_share,
    entries_as_data,
    observed_entries,
)
from mcframe.posterior.row_estimates import drawn_from_columns
from mcframe.selection import EntryFolds, RowFolds, TimeFolds

pytestmark = pytest.mark.core


def table(seed=0, shape=(12, 4), share=0.3):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    values[rng.random(shape) < share] = np.nan
    return values


FORMS = {
    "array": lambda values: values,
    "frame": lambda values: pd.DataFrame(values, index=[f"r{i}" for i in range(len(values))]),
    "sparse": lambda values: sp.coo_array(
        (values[~np.isnan(values)], np.nonzero(~np.isnan(values))), shape=values.shape
    ),
    "observations": lambda values: mc.Observations(
        values, weights=1.0 + np.abs(np.nan_to_num(values)), offset=np.full(values.shape, 0.5)
    ),
}


@pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")
@pytest.mark.parametrize("form", FORMS)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.95))
@settings(deadline=None, max_examples=10)
def test_what_remains_and_what_is_scored_are_the_data(form, seed, share):
    """By masks of cells, beside the table that a model is bound to."""
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    values = table(seed)
    data = {"x": FORMS[form](values)}
    tables = observed_entries(mc.Problem.bind(model, data))
    held_out = HeldOut.of_share(tables, share, np.random.default_rng(seed))
    hidden = held_out.scored_cells("x")
    assert 0 < hidden.sum() < (~np.isnan(values)).sum()
    held = held_out.values["x"]
    np.testing.assert_array_equal(held.values, values[held.rows, held.columns])
    np.testing.assert_array_equal(np.transpose(np.nonzero(hidden)), np.c_[held.rows, held.columns])
    for given_data in (data, {"x": entries_as_data(tables["x"], 1)}):
        remaining = held_out.remaining(given_data)
        assert type(remaining["x"]) is type(given_data["x"])
        bound = mc.Problem.bind(model, remaining).tables["x"]
        expected = tables["x"].select(held_out.fitted["x"])
        for name in ("rows", "columns", "values", "weights", "offsets"):
            np.testing.assert_array_equal(getattr(bound, name), getattr(expected, name))
        np.testing.assert_array_equal(hidden[bound.rows, bound.columns], False)


def test_an_array_and_its_entries_are_one_table():
    values = table()
    held_out = HeldOut.of_share({"x": table_of_numbers(values)}, 0.5, np.random.default_rng(0))
    remaining = held_out.remaining({"x": values})["x"]
    np.testing.assert_array_equal(remaining, np.where(held_out.scored_cells("x"), np.nan, values))


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1.0))
@settings(deadline=None, max_examples=10)
def test_cells_are_scored_or_hidden_and_the_rest_remains(seed, share):
    rng = np.random.default_rng(seed)
    values = table(seed)
    scored, hidden = rng.random((2, *values.shape)) < share
    held_out = HeldOut.of_cells({"x": table_of_numbers(values)}, {"x": scored})
    without = held_out.hiding({"x": hidden})
    for given_masks, cells in ((held_out, scored), (without, scored | hidden)):
        remaining = given_masks.remaining({"x": values})["x"]
        np.testing.assert_array_equal(remaining, np.where(cells, np.nan, values))
        observed = ~np.isnan(values)
        np.testing.assert_array_equal(given_masks.scored_cells("x"), scored & observed)


def test_parts_are_held_out_once_and_together():
    values = table()
    tables = {"x": table_of_numbers(values)}
    cells = dealt_cells(values, 3, np.random.default_rng(0))
    parts = {"x": cells[tables["x"].rows, tables["x"].columns]}
    folds = [HeldOut.of_parts(tables, parts, part) for part in range(3)]
    counts = sum(fold.scored_cells("x").astype(int) for fold in folds)
    np.testing.assert_array_equal(counts, ~np.isnan(values))
    np.testing.assert_array_equal(HeldOut.of_all(folds).scored_cells("x"), ~np.isnan(values))
    assert not HeldOut.of_all(folds).fitted["x"].any()
    assert np.all(cells[np.isnan(values)] == NEVER_HELD_OUT)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(2, 6), st.integers(0, 9))
def test_each_part_has_its_share_of_every_stratum(strata, count, start):
    strata = np.array(strata)
    parts = dealt(strata, count, start)
    assert parts[np.argsort(strata, kind="stable")[0]] == start % count
    for stratum in np.unique(strata):
        sizes = np.bincount(parts[strata == stratum], minlength=count)
        assert np.ptp(sizes) <= 1
    assert np.ptp(np.bincount(parts, minlength=count)) <= 1


@given(
    st.lists(st.integers(0, 4), max_size=40),
    st.floats(0.01, 0.99),
    st.integers(0, 2**32 - 1),
)
def test_a_share_of_each_group_is_drawn_but_never_all(groups, share, seed):
    groups = np.array(groups, dtype=np.intp)
    drawn = drawn_share(groups, share, np.random.default_rng(seed))
    for group in np.unique(groups):
        size, count = np.sum(groups == group), np.sum(drawn[groups == group])
        assert count == min(max(np.rint(share * size), 1), size - 1)


def test_a_share_depends_on_no_order_of_columns_and_blocks():
    values, labels = table(1), (table(2) > 0.0) * 1.0
    order = [2, 0, 3, 1]
    tables = {"x": table_of_numbers(values), "b": table_of_numbers(labels)}
    moved = {"b": table_of_numbers(labels), "x": table_of_numbers(values[:, order])}
    one, other = (
        HeldOut.of_share(some, 0.4, np.random.default_rng(7)) for some in (tables, moved)
    )
    np.testing.assert_array_equal(one.scored_cells("b"), other.scored_cells("b"))
    np.testing.assert_array_equal(one.scored_cells("x")[:, order], other.scored_cells("x"))


def test_columns_of_a_table_of_rows_are_drawn_by_what_they_hold():
    values = table(3, shape=(60, 5))
    order = [4, 2, 0, 1, 3]
    first = drawn_from_columns(values, 0).scored_cells("rows")
    moved = drawn_from_columns(1e6 * values[:, order], 0).scored_cells("rows")
    np.testing.assert_array_equal(first[:, order], moved)
    assert not np.any(first & np.isnan(values))
    assert 0.05 < first[~np.isnan(values)].mean() < 0.25


@pytest.mark.parametrize(
    "splitter",
    [
        EntryFolds(3),
        RowFolds(3),
        RowFolds(3, groups=np.arange(12) // 2),
        RowFolds(3, order=np.arange(12.0)),
        TimeFolds({"x": np.arange(12.0)[:, None]}, n_splits=3),
    ],
    ids=["entries", "rows", "groups", "order", "time"],
)
def test_folds_are_what_is_held_out(splitter):
    """Of each way to cut: nothing that is scored is fitted, or given of new rows."""
    values = table(4)
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    problem = mc.Problem.bind(model, {"x": values})
    tables = observed_entries(problem)
    folds = mc.selection.folds_of(splitter, problem, {"x": values}, 5)
    for (fitted, scored), fold in zip(splitter.split(problem, 5), folds, strict=True):
        held_out = HeldOut(tables, fitted, scored)
        assert not np.any(fitted["x"] & scored["x"])
        np.testing.assert_array_equal(fold.data["x"], held_out.remaining({"x": values})["x"])
        np.testing.assert_array_equal(fold.held["x"].values, held_out.values["x"].values)
        in_fit = ~np.isnan(fold.data["x"])
        assert not np.any(in_fit & held_out.scored_cells("x"))
        if splitter.new_rows:
            from_new_rows = ~np.isnan(fold.observed_rows["x"])
            assert not np.any(from_new_rows & (in_fit | held_out.scored_cells("x")))
            rows = held_out.scored_cells("x").any(axis=1)
            assert not in_fit[rows].any()
