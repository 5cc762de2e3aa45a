"""The distribution of incomplete rows by EM, and the search for its prior."""

import numpy as np
import pytest

from mcframe.numerics import gaussian_rows
from mcframe.numerics.gaussian_rows import (
    RowDistribution,
    conditional_means,
    estimate_rows,
    left_out_means,
)
from mcframe.selection.prior_rows import PRIORS, PriorSearch, SeenAndHeld


def drawn(seed=0, n=60, d=5, share=0.3):
    """Rows with two common directions, and holes; one row has nothing but holes."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n, 2)) @ rng.standard_normal((2, d))
    values += 0.5 * rng.standard_normal((n, d))
    values[rng.random((n, d)) < share] = np.nan
    values[0] = np.nan
    return values


def some_rows(d=5, noise=0.1):
    rng = np.random.default_rng(1)
    root = rng.standard_normal((d, d))
    return RowDistribution(rng.standard_normal(d), root @ root.T, noise)


def test_conditional_means_are_those_of_the_formula(monkeypatch):
    """Row by row, from the covariance and not from its inverse; in batches of a few rows."""
    monkeypatch.setattr(gaussian_rows, "BATCH", 20)
    values, rows = drawn(), some_rows()
    filled, unknown = conditional_means(values, np.isnan(values), rows)
    expected, spread = values.copy(), np.zeros((5, 5))
    for row in expected:
        m, o = np.isnan(row), ~np.isnan(row)
        total = rows.total
        pull = np.linalg.solve(total[np.ix_(o, o)], total[np.ix_(o, m)])
        row[m] = rows.mean[m] + (row[o] - rows.mean[o]) @ pull
        spread[np.ix_(m, m)] += total[np.ix_(m, m)] - total[np.ix_(m, o)] @ pull
    np.testing.assert_allclose(filled, expected, atol=1e-10)
    np.testing.assert_allclose(unknown, spread, atol=1e-9)


def test_numbers_left_out_are_predicted_as_if_they_were_missing():
    """One by one, those of one owner together."""
    values, rows = drawn(), some_rows()
    values[:, 2][np.isnan(values[:, 1])] = np.nan
    values[:, 1][np.isnan(values[:, 2])] = np.nan
    owners = np.array([0, 1, 1, 2, 3])
    found = left_out_means(values, rows, owners)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(values))
    for owner in range(4):
        own = np.flatnonzero(owners == owner)
        less = values.copy()
        less[:, own] = np.nan
        expected, _ = conditional_means(less, np.isnan(less), rows)
        seen = ~np.isnan(values[:, own])
        np.testing.assert_allclose(found[:, own][seen], expected[:, own][seen], atol=1e-9)


def test_the_likelihood_is_that_of_the_formula():
    values, rows = drawn(), some_rows()
    values[10:20, :2] = np.nan  # rows with the same holes are taken together
    values[10:20, 2:] = 1.0
    n = np.count_nonzero(~np.isnan(values))
    expected = log_likelihood(values, rows) - 0.5 * n * np.log(2.0 * np.pi)
    assert gaussian_rows.log_likelihood(values, rows) == pytest.approx(expected)


def test_complete_rows_give_their_moments_in_one_step():
    values = np.random.default_rng(2).standard_normal((40, 4)) * [1.0, 2.0, 0.5, 1.0]
    found = estimate_rows(values, 1e-12, 0.0, 1)
    np.testing.assert_allclose(found.mean, values.mean(axis=0))
    np.testing.assert_allclose(found.covariance, np.cov(values.T, bias=True))


def test_no_step_lowers_the_likelihood():
    values = drawn()
    found, last = None, -np.inf
    for _ in range(15):
        found = estimate_rows(values, 1e-10, 0.0, 1, found)
        here = log_likelihood(values, found)
        assert here >= last - 1e-9
        last = here


def log_likelihood(values, rows):
    """Of the observed entries, by its definition."""
    total, summed = rows.total, 0.0
    for row in values:
        o = ~np.isnan(row)
        own, off = total[np.ix_(o, o)], row[o] - rows.mean[o]
        summed -= 0.5 * (np.linalg.slogdet(own)[1] + off @ np.linalg.solve(own, off))
    return summed


def test_a_prior_draws_columns_apart():
    values = drawn(n=200)
    correlations = []
    for prior in (0.0, 100.0, 1e6):
        covariance = estimate_rows(values, 1e-6, prior, 30).covariance
        size = np.sqrt(np.diag(covariance))
        correlations.append(np.max(np.abs(np.tril(covariance / np.outer(size, size), -1))))
    assert correlations[0] > correlations[1] > correlations[2]
    assert correlations[2] < 1e-3


def test_columns_alike_and_columns_without_variance_are_no_trouble():
    values = drawn()
    values = np.column_stack([values, values[:, 0], np.full(60, 0.0)])
    found = estimate_rows(values, 0.01, 1.0, 20)
    filled, _ = conditional_means(values, np.isnan(values), found)
    assert np.isfinite(filled).all()
    assert np.linalg.eigvalsh(found.covariance)[0] > 0.0
    np.testing.assert_allclose(filled[:, -1], 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("best", "tried"), [(300.0, [10, 30, 100, 300, 1000]), (1.0, [10, 30, 3, 1])]
)
def test_the_search_walks_to_the_least_loss(best, tried):
    class Fold:
        held = None

        def estimated(self, prior):
            return prior

        def means(self, prior):
            return np.array([prior])

    def loss(held, means):
        return abs(np.log(means[0] / best))

    found, answers = PriorSearch.over([Fold(), Fold()], loss)
    assert found.priors.tolist() == tried
    assert found.best_prior == best
    assert answers == [best, best]
    assert not found.ended
    short, _ = PriorSearch.over([Fold()], loss, most=1)
    assert (short.priors.tolist(), short.ended) == ([10.0], True)
    assert best in PRIORS


@pytest.mark.parametrize(("scale", "offset"), [(1e-12, 0.0), (1.0, 1e9), (1e12, -1e13)])
def test_means_are_in_the_units_of_the_data(scale, offset):
    values = drawn(n=100)
    part = SeenAndHeld(values, values, None)
    plain = part.means(part.estimated(10.0))
    moved = offset + scale * values
    part = SeenAndHeld(moved, moved, None)
    found = part.means(part.estimated(10.0))
    np.testing.assert_allclose((found - offset) / scale, plain, atol=1e-5)
