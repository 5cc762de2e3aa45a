"""Similar rows: what rows of a table that are like another one say of its missing numbers."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.posterior import similar_rows
from mcframe.posterior.similar_rows import PRIOR_WEIGHT, REACH, SHARE_POWER, SimilarRows

from .test_corrections import engine_rows, errors_of


def drawn_rows(seed, n, m, d):
    """Rows, kept ones of which some are almost the same, and spreads."""
    rng = np.random.default_rng(seed)
    kept = rng.standard_normal((m, d)) * 10.0 ** rng.uniform(-2.0, 2.0)
    rows = kept[rng.integers(m, size=n)] + 0.05 * rng.standard_normal((n, d))
    kept[rng.random(kept.shape) < 0.3] = np.nan
    rows[rng.random(rows.shape) < 0.4] = np.nan
    return rows, kept, 10.0 ** rng.uniform(-1.0, 0.5, d)


def plain_weight(row, kept, roots, width):
    """The weight of a kept row, as the docstring has it."""
    both = ~np.isnan(row) & ~np.isnan(kept)
    if np.count_nonzero(both) < 2:
        return 0.0
    square = np.mean(np.square(roots * (row - kept))[both])
    if square > (REACH * width) ** 2:
        return 0.0
    share = np.count_nonzero(both) / np.count_nonzero(~np.isnan(row))
    return share**SHARE_POWER * np.exp(-square / (2.0 * width**2))


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 12),
    st.integers(1, 30),
    st.integers(1, 6),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_shifts_equal_plain_loops(seed, n, m, d, is_in_blocks):
    rows, kept, roots = drawn_rows(seed, n, m, d)
    rng = np.random.default_rng(seed)
    means, widths = rng.standard_normal((n, d)), rng.choice([0.0, 0.1, 0.5], d)
    wanted = np.zeros((n, d))
    for i, j in zip(*np.nonzero(np.isnan(rows) & (widths > 0.0)), strict=True):
        weights = np.array([plain_weight(rows[i], row, roots, widths[j]) for row in kept])
        weights = np.where(np.isnan(kept[:, j]), 0.0, weights)
        total = weights @ (np.nan_to_num(kept[:, j]) - means[i, j])
        wanted[i, j] = total / (PRIOR_WEIGHT + weights.sum())
    with pytest.MonkeyPatch.context() as patch:
        if is_in_blocks:
            patch.setattr(similar_rows, "BATCH_NUMBERS", 2 * m)
        shifts = SimilarRows(kept, roots).shifts(rows, means, widths)
    np.testing.assert_allclose(shifts, wanted, rtol=1e-6, atol=1e-9)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_rows_of_one_label_are_not_compared(seed):
    rows, kept, roots = drawn_rows(seed, 8, 20, 4)
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=8), rng.integers(-1, 3, size=20)
    similar, groups = SimilarRows(kept, roots), [(0.3, np.arange(4))]
    [sums] = similar.sums(rows, groups, labels)
    for i, label in enumerate(labels[0]):
        others = SimilarRows(kept[(labels[1] != label) & (labels[1] >= 0)], roots)
        [of_row] = others.sums(rows[i : i + 1], groups)
        np.testing.assert_allclose(sums.weights[i], of_row.weights[0], atol=1e-12)
        np.testing.assert_allclose(sums.totals[i], of_row.totals[0], atol=1e-9)


def test_numbers_that_differ_among_similar_rows_count_less():
    rng = np.random.default_rng(0)
    units = np.repeat(rng.standard_normal((60, 6)), 5, axis=0)
    units[:, 0] += 0.3 * rng.standard_normal(300)
    roots = SimilarRows.of(units).roots
    assert roots[0] < 0.5 * roots[1:].min()
    assert np.mean(np.square(roots)) == pytest.approx(1.0)
    places = np.arange(300)
    similar, squares = SimilarRows(units, np.ones(6)), np.zeros((2, 6))
    for i in places:
        for r in np.delete(places, i):
            weight = plain_weight(units[i], units[r], np.ones(6), similar_rows.SPREAD_WIDTH)
            squares += weight * np.array([np.square(units[i] - units[r]), np.ones(6)])
    measured = similar.squares_among(units, places)
    np.testing.assert_allclose(measured, squares[0] / squares[1], rtol=1e-6, atol=1e-9)


def test_the_same_rows_are_compared_once(monkeypatch):
    rows, kept, roots = drawn_rows(3, 40, 50, 5)
    similar, widths, calls = SimilarRows(kept, roots), np.full(5, 0.3), []
    sums = SimilarRows.sums
    monkeypatch.setattr(
        SimilarRows, "sums", lambda self, *arguments: calls.append(0) or sums(self, *arguments)
    )
    first = similar.shifts(rows, np.zeros((40, 5)), widths)
    again = similar.shifts(rows.copy(), np.ones((40, 5)), widths)
    assert len(calls) == 1
    assert not np.array_equal(first, again)  # of other means
    for changed in (rows[:20], np.where(np.isnan(rows), rows, rows + 0.01)):
        fresh = SimilarRows(kept, roots).shifts(changed, np.zeros(changed.shape), widths)
        np.testing.assert_array_equal(
            similar.shifts(changed, np.zeros(changed.shape), widths), fresh
        )


def visits(seed=0, n=150, times=5):
    """People of whom rows are measured several times: whole, and with a quarter missing."""
    rng = np.random.default_rng(seed)
    z = np.repeat(rng.standard_normal((n, 5)), times, axis=0)
    z[:, 1] += 0.1 * rng.standard_normal(len(z))
    whole = pd.DataFrame(z, columns=["height", "weight", "age", "income", "score"])
    kinds = np.array(["north", "south", "east", "west", "abroad"])
    whole["region"] = np.repeat(rng.choice(kinds, n), times)
    whole["smokes"] = np.repeat(rng.choice(["yes", "no"], n), times)
    return whole, whole.mask(rng.random(whole.shape) < 0.25)


@pytest.fixture(scope="module")
def completed_visits():
    whole, frame = visits()
    return whole, frame, mc.complete(frame, nonlinear=False), mc.complete(frame)


def test_rows_of_the_same_person_fill_each_other(completed_visits):
    whole, frame, plain, completed = completed_visits
    for name in ("height", "age", "income", "score"):
        before, after = (errors_of(answer, whole, frame, name) for answer in (plain, completed))
        assert after < 0.5 * before, name
    for name in ("region", "smokes"):
        at = frame[name].isna()
        before, after = (
            np.mean(answer.table[name][at] != whole[name][at]) for answer in (plain, completed)
        )
        assert after < 0.4 * before, name
    lower, upper = completed.interval(0.9)
    numbers = whole.select_dtypes("number").columns
    at = frame[numbers].isna().to_numpy()
    held = (lower[numbers] <= whole[numbers]) & (whole[numbers] <= upper[numbers])
    assert 0.85 < held.to_numpy()[at].mean() < 0.99
    assert engine_rows(completed).corrections.similar is not None
    assert "similar rows or trees correct" in repr(completed)


def test_draws_new_rows_and_files_have_similar_rows(completed_visits, tmp_path):
    whole, frame, plain, completed = completed_visits
    some = frame.iloc[:60]
    filled = completed.complete_rows(some)
    pd.testing.assert_frame_equal(filled, completed.table.iloc[:60])
    loaded = mc.load(completed.save(tmp_path / "completed.npz"))
    pd.testing.assert_frame_equal(loaded.complete_rows(some), filled)
    pd.testing.assert_frame_equal(loaded.draws(1)[0], completed.draws(1)[0])

    def error(answer):
        at = frame["score"].isna()
        return np.mean([np.std((draw["score"] - whole["score"])[at]) for draw in answer.draws(3)])

    assert error(completed) < 0.7 * error(plain)


@pytest.mark.slow(seconds=3)
def test_rows_of_a_gaussian_have_no_similar_ones():
    taken = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        values = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 6))
        values += 0.5 * rng.standard_normal(values.shape)
        frame = pd.DataFrame(values, columns=list("abcdef"))
        completed = mc.complete(frame.mask(rng.random(frame.shape) < 0.25))
        corrections = engine_rows(completed).corrections
        columns = () if corrections is None else corrections.columns
        taken += sum(one.similar_weight > 0.0 for one in columns)
    assert taken <= 3  # of 36
