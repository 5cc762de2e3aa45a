"""What the prior of Gaussian rows expects of variances: shares that are learned by variable."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mcframe as mc
from mcframe.laws import check_posterior
from mcframe.posterior.row_estimates import (
    LEAST_SHARE,
    first_moments,
    fit_rows,
    prior_shares,
    resampled_parameters,
)
from mcframe.posterior.row_variances import NOISE_SHARE
from mcframe.posterior.rows_parameters import RowsParameters, RowsPrior

N_NOISE = 12


def dates(rng, n_rows=300, hidden=0.2):
    """Ages that follow from two other columns, beside columns that say nothing of each other."""
    schooling = rng.normal(13.0, 2.6, n_rows)
    work = rng.gamma(2.0, 8.0, n_rows)
    table = np.column_stack([schooling, work, schooling + work + 6.0])
    table = np.column_stack([table, rng.standard_normal((n_rows, N_NOISE))])
    cells = rng.random(table.shape) < hidden
    cells[:, 1:3] &= (np.arange(n_rows) % 2 == 0)[:, None]  # half of them are whole
    return table, np.where(cells, np.nan, table)


def parameters_of(covariance, rows, degrees, variances):
    """Parameters of one component: scatters of the rows, and those of a prior that counts."""
    d = len(covariance)
    prior = RowsPrior(np.zeros(d), np.diag(variances), rows, learned=False)
    one = np.ones(1)
    scatters = (degrees * covariance + rows * np.diag(variances))[None]
    return RowsParameters(prior, one, np.zeros((1, d)), one, scatters, degrees * one)


def random_covariance(rng, d):
    root = rng.standard_normal((d, d + 2))
    return root @ root.T / d


@given(st.integers(0, 2**32 - 1), st.integers(2, 7), st.integers(-9, 9))
def test_shares_are_conditional_variances_over_variances(seed, d, exponent):
    rng = np.random.default_rng(seed)
    units = 10.0 ** (exponent * rng.random(d))
    covariance, rows, degrees = random_covariance(rng, d), rng.uniform(0.1, 30.0), 60.0
    variances = np.diag(covariance) * rng.uniform(1.0, 2.0, d)
    shares = prior_shares(
        parameters_of(covariance * np.outer(units, units), rows, degrees, variances * units**2),
        variances * units**2,
        np.arange(d),
    )
    with_prior = (degrees * covariance + rows * np.diag(shares * variances)) / degrees
    expected = []
    for j in range(d):
        others = np.delete(np.arange(d), j)
        known = np.linalg.solve(with_prior[np.ix_(others, others)], with_prior[others, j])
        left = with_prior[j, j] - with_prior[j, others] @ known
        expected.append(np.clip(left / variances[j], LEAST_SHARE, 1.0))
    np.testing.assert_allclose(shares, expected / np.mean(expected), rtol=0.02)


def test_indicators_of_a_category_are_no_variables_that_follow_from_each_other():
    rng = np.random.default_rng(1)
    indicators = np.eye(3)[rng.integers(3, size=2000)]
    table = np.column_stack([indicators, rng.standard_normal((2000, 2))])
    covariance = np.cov(table.T) + 1e-6 * np.eye(5)
    parameters = parameters_of(covariance, 3.0, 2000.0, np.diag(covariance))
    together = prior_shares(parameters, np.diag(covariance), np.array([0, 0, 0, 1, 2]))
    apart = prior_shares(parameters, np.diag(covariance), np.arange(5))
    assert np.all(together > 0.6)  # (K - 1) / K of the variances of others, and 1
    assert np.all(apart[:3] < 1e-4)
    assert np.mean(together) == pytest.approx(1.0)


def test_a_column_that_follows_from_others_is_filled_by_them_under_a_strong_prior():
    whole, table = dates(np.random.default_rng(2))
    hidden = np.isnan(table[:, 0]) & ~np.isnan(table[:, 1:3]).any(axis=1)
    errors = {}
    for name, variables in (("learned", range(table.shape[1])), ("expected", None)):
        rows = mc.GaussianRows(prior_rows=30.0, variables=variables)
        block = mc.Block("x", mc.Gaussian(variance=None), standardize=True)
        filled = mc.posterior(mc.Model([block], [rows]), {"x": table}).impute("x")
        errors[name] = np.sqrt(np.mean(np.square(filled - whole)[hidden, 0])) / whole[:, 0].std()
    assert errors["learned"] < 0.15
    assert errors["expected"] > 0.8


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_columns_that_follow_are_found_in_few_rows_beside_many_that_say_nothing(seed):
    rng = np.random.default_rng(seed)
    celsius, paid = rng.normal(20.0, 8.0, 80), rng.gamma(2.0, 10.0, 80)
    whole = np.column_stack([celsius, 1.8 * celsius + 32.0, paid, rng.standard_normal((80, 17))])
    table = np.where(rng.random(whole.shape) < 0.25, np.nan, whole)
    hidden = np.isnan(table[:, 1]) & ~np.isnan(table[:, 0])
    block = mc.Block("x", mc.Gaussian(variance=None), standardize=True)
    rows = mc.GaussianRows(variables=range(table.shape[1]))  # of a strength that is learned
    by_evidence = mc.posterior(mc.Model([block], [rows]), {"x": table}).impute("x")
    completed = mc.complete(pd.DataFrame(table).add_prefix("c"), nonlinear=False)
    for filled in (by_evidence, completed.table.to_numpy()):
        error = np.sqrt(np.mean(np.square(filled - whole)[hidden, 1]))
        assert error < 0.05 * whole[:, 1].std()


def test_tables_are_completed_by_what_follows_and_so_are_their_draws():
    whole, table = dates(np.random.default_rng(3))
    names = ["schooling", "work", "age", *(f"noise {k}" for k in range(N_NOISE))]
    completed = mc.complete(pd.DataFrame(table, columns=names), nonlinear=False)
    hidden = np.isnan(table[:, 0]) & ~np.isnan(table[:, 1:3]).any(axis=1)
    spread = whole[:, 0].std()
    for frame in (completed.table, *completed.draws(3)):
        away = frame["schooling"].to_numpy()[hidden] - whole[hidden, 0]
        assert np.sqrt(np.mean(np.square(away))) < 0.5 * spread


def test_rows_that_are_drawn_again_have_the_shares_of_all_rows():
    _, table = dates(np.random.default_rng(4))
    values = (table - np.nanmean(table, axis=0)) / np.nanstd(table, axis=0)
    precisions = np.full(values.shape[1], 1.0 / NOISE_SHARE)
    variables = np.arange(values.shape[1])
    rows = fit_rows(values, precisions, prior_rows=30.0, variables=variables)
    counts = np.random.default_rng(0).multinomial(len(values), [1 / len(values)] * len(values))
    again = resampled_parameters(rows.parameters, rows.table, counts.astype(float), 3.0)
    shares = rows.parameters.prior.shares
    assert shares[:3].max() < 0.2 < 0.9 < shares[3:].min()
    np.testing.assert_array_equal(again.prior.shares, shares)
    drawn = np.repeat(values, counts, axis=0)
    _, variances = first_moments(drawn, np.broadcast_to(precisions, drawn.shape))
    np.testing.assert_allclose(np.diag(again.prior.covariance), shares * variances, rtol=1e-10)


def test_shares_are_those_of_an_estimate_with_them():
    _, table = dates(np.random.default_rng(5), hidden=0.4)
    values = (table - np.nanmean(table, axis=0)) / np.nanstd(table, axis=0)
    variables = np.arange(values.shape[1])
    options = {"prior_rows": 10.0, "variables": variables, "tol": 1e-7, "max_steps": 1000}
    rows = fit_rows(values, np.full(values.shape[1], 1.0 / NOISE_SHARE), **options)
    _, variances = first_moments(values, np.full(values.shape, 1.0 / NOISE_SHARE))
    shares = prior_shares(rows.parameters, variances, variables)
    np.testing.assert_allclose(rows.parameters.prior.shares, shares, rtol=0.1)
    again = fit_rows(values, np.full(values.shape[1], 1.0 / NOISE_SHARE), start=rows, **options)
    np.testing.assert_allclose(again.parameters.prior.shares, shares, rtol=0.1)


def test_variables_are_checked():
    table = pd.DataFrame(np.zeros((2, 2)), columns=["a", "b"])
    for labels in ("ab", [], 3, [["a"], ["b"]], {"a": 1}, {"a", "b"}, table, np.zeros((2, 2))):
        with pytest.raises(mc.ModelError, match="; a list is needed, of a label"):
            mc.GaussianRows(variables=labels)
    for others in ({"groups": [0, 1, 1]}, {"covariance": np.eye(2)}):
        with pytest.raises(mc.ModelError, match="variables beside"):
            mc.GaussianRows(variables=["a", "b"], **others)
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.GaussianRows(variables=["a", "b", "b"])])
    with pytest.raises(mc.DataError, match="variables has 3 labels; one for each of the 2"):
        mc.posterior(model, {"x": np.zeros((4, 2))})
    with pytest.raises(mc.ModelError, match="no tables can be drawn"):
        check_posterior(model, {"x": (4, 3)}, n_tables=2)
    assert mc.GaussianRows(variables=["a", "a"]) == mc.GaussianRows(variables=["b", "b"])
