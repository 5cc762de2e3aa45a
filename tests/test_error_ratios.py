"""Errors of an estimate from all numbers are smaller than those of folds, as intervals know."""

import numpy as np
import pandas as pd
import pytest

import mcframe as mc
from mcframe.posterior.row_variances import RATIO_PRIOR_NUMBERS, error_ratios_of
from mcframe.tables.rows_choice import RowsChoice, choose_rows
from mcframe.tables.rows_folds import folds_of_parts

# Rows, columns, factors and noise of tables, of few rows for their columns and of enough.
FEW, ENOUGH = (200, 30, 20, 0.1), (400, 10, 4, 0.3)
SEEDS = range(4)


def low_rank(seed, n_rows, width, factors, noise):
    """A table of this rank and noise, a fifth of it hidden, and the truth."""
    rng = np.random.default_rng(seed)
    axes = rng.standard_normal((factors, width)) / np.sqrt(factors)
    values = rng.standard_normal((n_rows, factors)) @ axes
    values += noise * rng.standard_normal(values.shape)
    hidden = mc.datasets.hide(values, 0.2, random_state=rng).cells
    whole = pd.DataFrame(values).rename(columns="x{}".format)
    return whole, whole.mask(hidden), hidden


def coverage(shape, level=0.9, seeds=SEEDS):
    """The share of hidden numbers within the intervals."""
    covered = []
    for seed in seeds:
        whole, frame, hidden = low_rank(seed, *shape)
        lower, upper = mc.complete(frame, random_state=0, nonlinear=False).interval(level)
        covered.append(np.mean(((lower <= whole) & (whole <= upper)).to_numpy()[hidden]))
    return np.mean(covered)


def without_ratios(*arguments):
    """Ones."""
    return np.ones(arguments[-1].means.shape[1])


def test_ratios_are_those_of_sizes_where_there_are_many_numbers():
    rng = np.random.default_rng(0)
    reference = rng.standard_normal((20_000, 3))
    factors = np.array([0.3, 0.9, 1.1])
    ratios = error_ratios_of(factors * reference, reference)
    np.testing.assert_allclose(ratios, factors, atol=0.01)
    signs = rng.choice([-1.0, 1.0], size=reference.shape)
    np.testing.assert_array_equal(ratios, error_ratios_of(signs * factors * reference, reference))
    assert np.all(error_ratios_of(reference, reference) == 1.0)


def test_ratios_of_few_numbers_are_drawn_to_that_of_all_columns_and_this_to_1():
    reference = np.ones((2000, 3))
    reference[1:, 0] = np.nan
    ratios = error_ratios_of(np.array([0.1, 0.5, 0.5]) * reference, reference)
    assert ratios[0] == pytest.approx(0.5, abs=0.02)
    few = np.ones((2, 2))
    share = few.size / (few.size + RATIO_PRIOR_NUMBERS)
    expected = 1.0 - 0.5 * share
    of_column = (RATIO_PRIOR_NUMBERS * expected + 1.0) / (RATIO_PRIOR_NUMBERS + 2.0)
    np.testing.assert_allclose(error_ratios_of(0.5 * few, few), of_column)


@pytest.mark.parametrize("errors", [np.nan, 0.0])
def test_where_nothing_is_compared_ratios_are_1(errors):
    reference = np.full((5, 2), errors)
    assert np.all(error_ratios_of(np.zeros((5, 2)), reference) == 1.0)
    wild = np.array([[1e300, np.inf], [1.0, 1.0]])
    assert np.all(np.isfinite(error_ratios_of(wild, wild)))


def test_intervals_hold_what_they_say_where_folds_see_too_little(monkeypatch):
    """Of few rows for so many columns: 99 % of the numbers without ratios, not 90 %."""
    assert 0.86 < coverage(FEW, seeds=(0, 2)) < 0.92
    monkeypatch.setattr(RowsChoice, "error_ratios", without_ratios)
    assert coverage(FEW, seeds=(0, 2)) > 0.97


@pytest.mark.slow(seconds=3)
def test_intervals_stay_where_there_are_rows_enough(monkeypatch):
    covered = coverage(ENOUGH)
    assert 0.88 < covered < 0.92
    monkeypatch.setattr(RowsChoice, "error_ratios", without_ratios)
    assert coverage(ENOUGH) == pytest.approx(covered, abs=0.02)


def test_columns_without_relations_have_no_smaller_errors(monkeypatch):
    ratios, measured = [], RowsChoice.error_ratios

    def noted(*arguments):
        ratios.append(measured(*arguments))
        return ratios[-1]

    monkeypatch.setattr(RowsChoice, "error_ratios", noted)
    rng = np.random.default_rng(3)
    for _ in range(5):
        values = rng.standard_normal((400, 5))
        hidden = mc.datasets.hide(values, 0.2, random_state=rng).cells
        frame = pd.DataFrame(np.where(hidden, np.nan, values))
        mc.complete(frame, random_state=0, nonlinear=False)
    assert np.all(np.concatenate(ratios) > 0.95)
    assert np.all(np.concatenate(ratios) <= 1.0)


def test_one_fold_has_no_ratios():
    values = np.random.default_rng(0).standard_normal((30, 3))
    parts = np.repeat(np.arange(30) % 2, 3).reshape(30, 3)
    folds = folds_of_parts(values, parts, np.arange(3), 1)
    chosen, moments = choose_rows(folds)
    assert np.all(chosen.error_ratios(folds, moments, moments[0]) == 1.0)


@pytest.mark.slow(seconds=2)
def test_the_order_of_columns_and_their_units_do_not_matter():
    _, frame, _ = low_rank(0, *FEW)
    sds = mc.complete(frame, random_state=0, nonlinear=False).sd
    units = pd.Series(np.geomspace(1e-9, 1e9, frame.shape[1]), frame.columns)
    moved = mc.complete(frame * units, random_state=0, nonlinear=False).sd / units
    np.testing.assert_allclose(moved.to_numpy(), sds.to_numpy(), rtol=1e-3, atol=1e-12)
