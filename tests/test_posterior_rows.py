"""Posteriors of rows that are draws of Gaussians, beside dense formulas row by row."""

from contextlib import nullcontext

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

import mcframe as mc
from mcframe.contracts import BackendError
from mcframe.numerics import row_mixtures
from mcframe.numerics.row_mixtures import IncompleteRows, RowMixture, conditionals, expectation
from mcframe.posterior import row_estimates, variational_em
from mcframe.posterior.row_estimates import fit_rows
from mcframe.posterior.rows import rows_of_gaussian
from mcframe.runtime.machine import thread_limit

pytestmark = pytest.mark.core

# What is drawn, and how many numbers of it are missing.
SHARES = (0.0, 0.1, 0.5, 0.9)


def some_mixture(d=6, n_components=3, seed=0):
    """A mixture of so many Gaussians."""
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((n_components, d, d))
    shares = rng.dirichlet(np.ones(n_components))
    means = rng.standard_normal((n_components, d))
    return RowMixture(np.log(shares), means, roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(d))


def some_rows(share, own, n=40, d=6, seed=0):
    """Values and precisions; a column and a row are empty, and some rows have the same holes."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n, d))
    values[rng.random((n, d)) < share] = np.nan
    values[:, -1], values[0] = np.nan, np.nan
    values[1:5] = values[1]
    values[2, :] += 1.0
    precisions = np.exp(rng.standard_normal((n, d) if own else d))
    return values, np.where(np.isnan(values), 0.0, precisions)


def by_definition(values, precisions, rows):
    """Log evidence, responsibilities, means and covariances of z, row by row."""
    logs = np.zeros((len(values), len(rows.means)))
    means = np.zeros((len(rows.means), *values.shape))
    covariances = np.zeros((*means.shape, values.shape[1]))
    for i, row in enumerate(values):
        o = np.flatnonzero(precisions[i])
        for c, (mean, own) in enumerate(zip(rows.means, rows.covariances, strict=True)):
            total = own[np.ix_(o, o)] + np.diag(1.0 / precisions[i, o])
            pull = np.linalg.solve(total, own[o]) if o.size else np.zeros((0, own.shape[1]))
            means[c, i] = mean + (row[o] - mean[o]) @ pull
            covariances[c, i] = own - own[:, o] @ pull
            logs[i, c] = rows.log_shares[c]
            if o.size:
                logs[i, c] += stats.multivariate_normal(mean[o], total).logpdf(row[o])
    evidence = logsumexp(logs, axis=1)
    return evidence, np.exp(logs - evidence[:, None]), means, covariances


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("share", SHARES)
def test_rows_have_the_posterior_of_the_textbook(share, own, monkeypatch):
    monkeypatch.setattr(row_mixtures, "NUMBERS_PER_BLOCK", 200)  # several blocks
    values, precisions = some_rows(share, own)
    rows = some_mixture()
    evidence, weights, means, covariances = by_definition(values, precisions, rows)
    for most_precise in (1e7, 0.0):  # both forms, and that of the observed numbers alone
        monkeypatch.setattr(row_mixtures, "LARGEST_PRECISION_RATIO", most_precise)
        table = IncompleteRows.of(values, precisions, np.ones(6))
        found = conditionals(table, rows)
        np.testing.assert_allclose(found.evidence, evidence, atol=1e-11)
        np.testing.assert_allclose(found.responsibilities, weights, atol=1e-11)
        np.testing.assert_allclose(found.means, means, atol=1e-11)
        variances = np.einsum("cijj->cij", covariances)
        np.testing.assert_allclose(found.variances, variances, atol=1e-11)
        sums = expectation(table, rows)
        np.testing.assert_allclose(sums.evidence, evidence, atol=1e-11)
        np.testing.assert_allclose(sums.weights, weights.sum(axis=0), atol=1e-11)
        away = means - rows.means[:, None]
        shifts = np.einsum("ic,cij->cj", weights, away)
        np.testing.assert_allclose(sums.shifts, shifts, atol=1e-10)
        scatters = np.einsum("ic,cij,cik->cjk", weights, away, away)
        scatters += np.einsum("ic,cijk->cjk", weights, covariances)
        np.testing.assert_allclose(sums.scatters, scatters, atol=1e-10)


@pytest.mark.parametrize("noise", [1e-12, 1e-6, 1e-2])
@pytest.mark.parametrize("seen", [1, 7])
def test_columns_that_are_nearly_one_are_no_trouble(noise, seen):
    """A covariance s s' + 1e-12 I of condition 1e12 and more, by its closed form."""
    s, own = np.linspace(0.5, 1.5, 8), 1e-12
    x = np.where(np.arange(8) < seen, 0.7 * s, np.nan)[None]
    found = rows_of_gaussian(
        x, np.full(8, 1.0 / noise), np.zeros(8), np.outer(s, s) + own * np.eye(8)
    )
    known = np.sum(np.square(s[:seen])) / (own + noise)
    factor = np.sum(s[:seen] * x[0, :seen]) / (own + noise) / (1.0 + known)
    # The entries of the covariance are rounded, which own and noise see.
    near = {"rtol": 1e-9 + 1e-15 * known}
    np.testing.assert_allclose(found.cells.means[0, 0, seen:], factor * s[seen:], **near)
    # A variance of 1e-12 of the column's own is a difference that rounding does not leave.
    lost = 1e-15 + 1e-24 * known
    variances = own + np.square(s[seen:]) / (1.0 + known)
    np.testing.assert_allclose(found.cells.variances[0, 0, seen:], variances, **near, atol=lost)
    assert np.all(found.cells.variances > 0.0)
    kept = own * noise / (own + noise) + np.square(s[:seen] * noise / (own + noise)) / (
        1.0 + known
    )
    np.testing.assert_allclose(found.cells.variances[0, 0, :seen], kept, **near, atol=1e-15)


def test_evidence_is_that_of_a_dense_gaussian():
    rng = np.random.default_rng(3)
    values, mean = rng.standard_normal((7, 4)), rng.standard_normal(4)
    covariance, noise = np.cov(rng.standard_normal((4, 9))), np.array([0.1, 0.2, 0.3, 0.4])
    found = rows_of_gaussian(values, 1.0 / noise, mean, covariance)
    expected = stats.multivariate_normal(mean, covariance + np.diag(noise)).logpdf(values)
    assert found.evidence == pytest.approx(np.sum(expected), rel=1e-12)
    np.testing.assert_array_equal(found.components.covariances[0], covariance)
    assert found.shares.tolist() == [1.0]
    drawn = found.draws(np.arange(7), np.random.default_rng(0), 2000)
    means, variances = found.moments()
    np.testing.assert_allclose(drawn.mean(axis=0), means, atol=0.1)
    np.testing.assert_allclose(drawn.var(axis=0), variances, rtol=0.2)
    again = found.step(values, 1.0 / noise)
    np.testing.assert_array_equal(again.cells.means, found.cells.means)


def test_cells_are_those_of_all_rows():
    values, precisions = some_rows(0.3, True)
    found = fit_rows(values, precisions, components=2)
    few = np.array([3, 3, 7]), np.array([1, 5, 0])
    every = np.indices(values.shape).reshape(2, -1)
    weights, means, variances = found.mixture(*every)
    places = few[0] * values.shape[1] + few[1]
    for one, other in zip(found.mixture(*few), (weights, means, variances), strict=True):
        np.testing.assert_allclose(one, other[:, places], atol=1e-12)
    np.testing.assert_allclose(weights.sum(axis=0), 1.0)
    np.testing.assert_allclose(
        weights.reshape(2, *values.shape)[:, :, 0].T, found.responsibilities
    )


def test_draws_have_the_moments_of_the_posterior():
    values, precisions = some_rows(0.4, True, n=8)
    found = fit_rows(values, precisions, components=2)
    rows, m = np.array([0, 3, 5]), 40_000
    drawn = found.draws(rows, np.random.default_rng(0), m)
    assert drawn.shape == (m, 3, 6)
    _, weights, means, covariances = by_definition(values, precisions, found.components)
    for place, row in enumerate(rows):
        mean = weights[row] @ means[:, row]
        away = means[:, row] - mean
        covariance = np.einsum("c,cjk->jk", weights[row], covariances[:, row])
        covariance += np.einsum("c,cj,ck->jk", weights[row], away, away)
        sds = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose(drawn[:, place].mean(axis=0) / sds, mean / sds, atol=0.03)
        seen = np.cov(drawn[:, place].T) / np.outer(sds, sds)
        np.testing.assert_allclose(seen, covariance / np.outer(sds, sds), atol=0.05)
    again = found.draws(rows, np.random.default_rng(0), 5)
    np.testing.assert_array_equal(again, found.draws(rows, np.random.default_rng(0), 5))


def two_groups(n=200, d=4, share=0.3, seed=0):
    """Rows of two Gaussians whose columns are related in opposite ways, with holes."""
    rng = np.random.default_rng(seed)
    group, common = np.arange(n) % 2, rng.standard_normal((n, 1))
    signs = np.where(np.arange(d) % 2, -1.0, 1.0)
    values = common * np.where(group[:, None] == 1, signs, 1.0) + 0.3 * rng.standard_normal((n, d))
    values += 1.5 * group[:, None]
    hidden = rng.random((n, d)) < share
    return values, np.where(hidden, np.nan, values), hidden, group


def test_components_are_found_and_predict_better_than_one():
    truth, values, hidden, group = two_groups()
    errors = []
    for components in (1, "auto"):
        found = fit_rows(values, np.full(4, 100.0), components=components)
        weights, means, _ = found.mixture(*np.nonzero(hidden))
        errors.append(np.sqrt(np.mean(np.square(np.sum(weights * means, axis=0) - truth[hidden]))))
    assert len(found.shares) == 2
    assert errors[1] < 0.85 * errors[0]
    own = np.argmax(found.responsibilities, axis=1)
    assert max(np.mean(own == group), np.mean(own != group)) > 0.85


def test_one_component_is_taken_where_one_was_drawn_from():
    rng = np.random.default_rng(1)
    for seed in range(4):
        values = rng.standard_normal((150, 3)) @ rng.standard_normal((3, 6))
        values += 0.5 * rng.standard_normal((150, 6))
        values[np.random.default_rng(seed).random(values.shape) < 0.3] = np.nan
        assert len(fit_rows(values, np.full(6, 100.0), components="auto").shares) == 1


def test_moments_are_recovered_and_intervals_cover():
    rng = np.random.default_rng(2)
    mean, root = np.array([3.0, -1.0, 0.0]), np.array([[1.0, 0, 0], [0.8, 0.5, 0], [0, -1.0, 0.4]])
    truth = mean + rng.standard_normal((4000, 3)) @ root.T
    hidden = rng.random(truth.shape) < 0.3
    noisy = truth + 0.1 * rng.standard_normal(truth.shape)
    found = fit_rows(np.where(hidden, np.nan, noisy), np.full(3, 100.0))
    np.testing.assert_allclose(found.components.means[0], mean, atol=0.06)
    np.testing.assert_allclose(found.components.covariances[0], root @ root.T, atol=0.08)
    _, means, variances = found.mixture(*np.nonzero(hidden))
    covered = np.abs(truth[hidden] - means[0]) < 1.645 * np.sqrt(variances[0])
    assert np.mean(covered) == pytest.approx(0.9, abs=0.015)


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1))
def test_evidence_never_falls(seed):
    """Of tables of all sizes and scales; the ascent raises where it does."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 25)), int(rng.integers(1, 7))
    scales = 10.0 ** rng.uniform(-9, 9, d)
    values = (
        rng.standard_normal((n, 2)) @ rng.standard_normal((2, d)) * rng.choice([0.0, 1.0, 3.0])
    )
    values += rng.choice([1e-6, 0.1, 1.0]) * rng.standard_normal((n, d))
    if rng.random() < 0.3:
        values[:, 0] = 1.5  # a constant
    if rng.random() < 0.3:
        values[:, -1] = np.nan  # nothing at all
    values[rng.random((n, d)) < rng.choice([0.0, 0.3, 0.7, 1.0])] = np.nan
    precisions = 10.0 ** rng.uniform(-2, rng.choice([2, 6, 12]), (n, d) if seed % 2 else d)
    components = int(rng.integers(1, 4))
    found = fit_rows(values * scales, precisions / scales**2, components=components, max_steps=12)
    assert np.isfinite(found.evidence)
    steps = np.diff(found.history)
    assert np.all(steps >= -1e-8 * (values.size + np.max(np.abs(found.history))))
    assert np.isfinite(found.cells.means).all()
    assert np.all(found.cells.variances >= 0.0)
    np.testing.assert_allclose(np.sum(found.responsibilities, axis=1), 1.0)
    assert np.isfinite(found.draws(np.arange(n), np.random.default_rng(0), 1)).all()


def test_a_step_that_lowers_the_evidence_is_an_error(monkeypatch):
    """A planted fault: what the missing numbers add to the covariance is forgotten."""
    _, values, _, _ = two_groups()
    m_step = row_estimates.RowsPrior.m_step

    def forgetful(self, found, means):
        if found.weights[0] > 0.0:
            found = attrs.evolve(found, scatters=0.7 * found.scatters)
        return m_step(self, found, means)

    monkeypatch.setattr(row_estimates.RowsPrior, "m_step", forgetful)
    with pytest.raises(BackendError, match="bound on the evidence fell from"):
        fit_rows(values, np.full(4, 100.0), tol=0.0)


@pytest.mark.parametrize(
    ("before", "after", "falls"),
    [
        (-np.inf, -5.0, False),
        (1.0, 1.0, False),
        (1.0, 1.0 - 1e-9, False),
        (1.0, 0.9, True),
        (1.0, np.nan, True),
        (-np.inf, np.nan, True),
        (np.inf, np.inf, False),
    ],
)
def test_a_bound_may_fall_by_rounding_alone(before, after, falls):
    with pytest.raises(BackendError, match="fell from") if falls else nullcontext():
        variational_em.check_rise(before, after, 1e-8)


def test_the_evidence_lower_bound_lies_below_the_evidence():
    """One column, observed almost exactly: by quadrature over mean and variance."""
    values = np.array([[0.3], [1.1], [-0.4], [0.9], [2.0]])
    found = fit_rows(values, np.array([1e8]), prior_rows=3.0, tol=1e-12)
    prior = found.parameters.prior
    mean = prior.mean[0] + np.linspace(-30.0, 30.0, 601)[:, None]
    logs = np.linspace(-8.0, 8.0, 401)[None]
    variance = np.exp(logs)
    a, b = 0.5 * prior.degrees, 0.5 * prior.rows * prior.covariance[0, 0]
    density = stats.invgamma(a, scale=b).logpdf(variance) + logs
    density = density + stats.norm(prior.mean[0], np.sqrt(variance / prior.mean_rows)).logpdf(mean)
    for value in values[:, 0]:
        density = density + stats.norm(mean, np.sqrt(variance)).logpdf(value)
    evidence = logsumexp(density) + np.log(60.0 / 600) + np.log(16.0 / 400)
    # Complete rows observed without noise leave nothing to approximate.
    assert found.evidence == pytest.approx(evidence, abs=1e-3)


def test_few_labels_beside_many_numbers_are_learned():
    """Steps towards their covariance are small, and few of the entries are theirs."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((300, 2))
    features = z @ rng.standard_normal((2, 40)) + rng.standard_normal((300, 40))
    truth = (3.0 * z[:, :1] > 1.5 + rng.logistic(size=(300, 1))).astype(float)
    labels = np.where(rng.random(truth.shape) < 0.5, truth, np.nan)
    blocks = [mc.Block("x", mc.Gaussian(variance=None)), mc.Block("y", mc.Bernoulli())]
    model = mc.Model(blocks, [mc.GaussianRows()])
    found = mc.posterior(model, {"x": features, "y": labels})
    longer = mc.posterior(model, {"x": features, "y": labels}, tol=1e-7, max_iter=5000)
    assert longer.evidence - found.evidence < 10.0
    assert len(found.history) < 60
    assert np.max(np.abs(found.predict("y") - longer.predict("y"))) < 0.1


def test_extrapolated_steps_end_where_plain_ones_do(monkeypatch):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((200, 1)) + 0.5 * rng.standard_normal((200, 6))
    values[rng.random(values.shape) < 0.7] = np.nan
    options = {"prior_rows": 5.0, "tol": 1e-9, "max_steps": 3000}
    fast = fit_rows(values, np.full(6, 100.0), **options)
    monkeypatch.setattr(variational_em, "EXTRAPOLATION_GROWTH", 1.0)
    plain = fit_rows(values, np.full(6, 100.0), **options)
    assert fast.evidence == pytest.approx(plain.evidence, abs=1e-3)
    assert len(fast.history) < 0.6 * len(plain.history)


@pytest.mark.parametrize("components", [1, 2, "auto"])
def test_the_order_and_the_units_of_columns_do_not_matter(components):
    _, values, hidden, _ = two_groups()
    order, scales = np.array([2, 0, 3, 1]), np.array([1e-9, 1.0, 1e4, 1e9])
    plain = fit_rows(values, np.full(4, 100.0), components=components)
    scaled = values[:, order] * scales
    moved = fit_rows(scaled, 100.0 / scales**2, components=components)
    rows, columns = np.nonzero(hidden)
    places = np.argsort(order)[columns]
    one, other = plain.mixture(rows, columns), moved.mixture(rows, places)
    np.testing.assert_allclose(other[0], one[0], atol=1e-6)
    np.testing.assert_allclose(other[1] / scales[places], one[1], atol=1e-6)
    np.testing.assert_allclose(other[2] / scales[places] ** 2, one[2], atol=1e-6)


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr(row_mixtures, "NUMBERS_PER_BLOCK", 300)
    _, values, _, _ = two_groups()
    found = []
    for count in (1, 3):
        with thread_limit(count):
            found.append(fit_rows(values, np.full(4, 100.0), components=2))
    np.testing.assert_array_equal(found[0].components.covariances, found[1].components.covariances)
    assert found[0].history == found[1].history


def test_large_tables_begin_with_some_rows(monkeypatch):
    truth, values, hidden, _ = two_groups(n=2000)
    whole = fit_rows(values, np.full(4, 100.0), components=2, tol=1e-6)
    monkeypatch.setattr(row_estimates, "SUBSAMPLE_NUMBERS", 1200)
    begun = fit_rows(values, np.full(4, 100.0), components=2, tol=1e-6)
    assert len(begun.responsibilities) == 2000
    errors = [
        np.sqrt(np.mean(np.square(np.sum(own[0] * own[1], axis=0) - truth[hidden])))
        for own in (each.mixture(*np.nonzero(hidden)) for each in (whole, begun))
    ]
    assert errors[1] == pytest.approx(errors[0], rel=0.03)


def test_steps_with_other_precisions_end_where_a_fit_does():
    _, values, _, _ = two_groups()
    found = fit_rows(values, np.full(4, 25.0), tol=1e-10, max_steps=300)
    moved = fit_rows(values, np.full(4, 100.0))
    for _ in range(200):
        moved = moved.step(values, np.full(4, 25.0))
    prior_free = np.abs(moved.components.covariances - found.components.covariances)
    np.testing.assert_allclose(prior_free, 0.0, atol=0.02)
    means, variances = moved.moments()
    assert means.shape == variances.shape == values.shape
    assert np.all(variances > 0.0)


@pytest.mark.parametrize("values", [np.full((3, 2), np.nan), np.array([[1.0, np.nan]])])
def test_one_row_and_rows_without_a_number(values):
    found = fit_rows(values, np.ones(2), components="auto")
    _, means, variances = found.mixture(np.zeros(2, int), np.arange(2))
    assert np.isfinite(means).all()
    assert np.all(variances > 0.0)


UNDECLARED = [
    (mc.GaussianRows(), r"GaussianRows\(\) has no covariance: mc.posterior estimates it"),
    (mc.GaussianRows(components=3), r"components=3\) is a mixture, which is not convex"),
    (mc.GaussianRows(components="auto"), r"components='auto'\) is a mixture"),
]


@pytest.mark.parametrize(("term", "said"), UNDECLARED)
def test_an_optimum_needs_a_covariance(term, said):
    model = mc.Model([mc.Block("x", mc.Gaussian())], [term])
    data = {"x": np.eye(3)}
    for verb in (mc.fit, mc.explain, mc.to_cvxpy):
        with pytest.raises(mc.ModelError, match=said):
            verb(model, data)
    with pytest.raises(mc.ModelError, match=said):
        term.value(np.eye(3))
    assert "log" in str(model)
    assert r"\log" in model._repr_latex_()
    assert term == eval(repr(term), {"GaussianRows": mc.GaussianRows})
    assert hash(term) == hash(term)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"components": 0}, "components=0 was given; a whole number from 1 on"),
        ({"components": 1.5}, "components=1.5"),
        ({"components": "many"}, "components='many'"),
        ({"covariance": np.eye(2), "components": 2}, "components=2 beside a covariance"),
        ({"mean": [1.0]}, "a mean without a covariance"),
        ({"weight": 2.0}, "a weight without a covariance"),
    ],
)
def test_what_does_not_fit_is_refused(given, said):
    with pytest.raises(mc.ModelError, match=said):
        mc.GaussianRows(**given)


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, "many"])
def test_the_rows_of_a_prior_are_above_0_and_no_covariance_stands_beside_them(wrong):
    with pytest.raises(mc.ModelError, match="prior_rows"):
        mc.GaussianRows(prior_rows=wrong)
    with pytest.raises(mc.ModelError, match="no covariance beside it"):
        mc.GaussianRows(np.eye(2), prior_rows=3.0)


def test_steps_that_begin_at_another_estimate_end_at_the_same_one():
    """From a weak prior to a strong one, as in the search for the prior."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 5))
    values += 0.5 * rng.standard_normal(values.shape)
    values[rng.random(values.shape) < 0.2] = np.nan
    precisions = np.full(5, 100.0)
    options = {"prior_rows": 30.0, "tol": 1e-10, "max_steps": 2000}
    first = fit_rows(values, precisions, prior_rows=1.0)
    found = fit_rows(values, precisions, **options, start=first)
    plain = fit_rows(values, precisions, **options)
    np.testing.assert_allclose(
        found.components.covariances, plain.components.covariances, atol=1e-4
    )
    assert found.evidence == pytest.approx(plain.evidence, abs=1e-4)


def test_a_mixture_has_components_and_no_option_of_factors():
    """``factors=`` is refused, and the history counts the Gaussians that were asked for."""
    x = np.random.default_rng(0).standard_normal((30, 3)) * [1.0, 2.0, 3.0]
    model = mc.Model([mc.Block("x", mc.Gaussian(variance=1e-4))], [mc.GaussianRows(components=2)])
    for factors in (2, 1.5, "many"):
        with pytest.raises(mc.ModelError, match=r"GaussianRows\(\) has none: drop it"):
            mc.posterior(model, {"x": x}, factors=factors, progress=False)
    answer = mc.posterior(model, {"x": x}, method="variational", progress=False)
    assert {sweep.n_factors for sweep in answer.history} == {2}


def rows_with_a_gap(seed, n=40):
    """A posterior of n rows whose third number is missing in 60 %, and where."""
    rng = np.random.default_rng(seed)
    x = rng.multivariate_normal(np.zeros(3), 0.4 * np.eye(3) + 0.6, n)
    hidden = np.zeros(x.shape, dtype=bool)
    hidden[:, 2] = rng.random(n) < 0.6
    model = mc.Model(
        [mc.Block("x", mc.Gaussian(variance=None))], [mc.GaussianRows(prior_rows=1.0)]
    )
    return model, {"x": np.where(hidden, np.nan, x)}, hidden[:, 2]


def test_means_of_draws_spread_as_those_of_the_sampler():
    spreads = []
    for seed in range(3):
        model, data, hidden = rows_with_a_gap(seed)
        for options in ({}, {"method": "sampler", "tol": 0.1}):
            drawn = mc.posterior(model, data, **options).sample("x", 200)
            spreads.append(np.std(drawn[:, hidden, 2].mean(axis=1)))
    ratios = np.divide(spreads[::2], spreads[1::2])
    assert 0.9 < np.exp(np.mean(np.log(ratios))) < 1.1


@pytest.mark.parametrize(("n", "d"), [(20, 4), (40, 10)])
def test_draws_lie_in_the_intervals_of_single_cells(n, d):
    inside = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.multivariate_normal(np.zeros(d), 0.4 * np.eye(d) + 0.6, n)
        hidden = (rng.random(x.shape) < 0.4) & (np.arange(d) > 0)
        block = mc.Block("x", mc.Gaussian(variance=None))
        model = mc.Model([block], [mc.GaussianRows()])
        posterior = mc.posterior(model, {"x": np.where(hidden, np.nan, x)})
        lower, upper = posterior.interval("x", 0.9)
        drawn = posterior.sample("x", 1000)
        inside.append(np.mean(((lower <= drawn) & (drawn <= upper))[:, hidden]))
    assert 0.87 < np.mean(inside) < 0.92  # .88 of 20 rows: draws know less of the parameters


def test_draws_of_new_rows_have_the_means_and_covariances_of_the_table(tmp_path):
    model, data, _ = rows_with_a_gap(0)
    posterior = mc.posterior(model, data)
    of_table = posterior.engine.drawn_components
    new = posterior.condition({"x": np.full((2000, 3), np.nan)})
    assert new.engine.drawn_components.means.shape == of_table.means.shape
    np.testing.assert_array_equal(new.engine.drawn_components.means, of_table.means)
    drawn = new.sample("x", 50)
    means = of_table.means[:50, 0]
    np.testing.assert_allclose(drawn.mean(axis=1), means, atol=0.15)
    new.save(tmp_path / "new.npz")
    np.testing.assert_array_equal(mc.load(tmp_path / "new.npz").sample("x", 50), drawn)


def test_draws_share_means_and_covariances_where_these_are_given():
    model, data, _ = rows_with_a_gap(0)
    given = attrs.evolve(model, terms=[mc.GaussianRows(0.4 * np.eye(3) + 0.6)])
    posterior = mc.posterior(given, data)
    assert posterior.engine.drawn_components is None
    assert posterior.sample("x", 3).shape == (3, 40, 3)


@pytest.mark.filterwarnings("ignore::mcframe.contracts.errors.UnobservedWarning")
@pytest.mark.parametrize("n", [20, 40])
def test_correlations_of_few_rows_are_kept(n):
    """The evidence alone took the strongest prior in half of the tables of 20 rows."""
    errors = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.multivariate_normal(np.zeros(4), 0.4 * np.eye(4) + 0.6, n)
        hidden = rng.random(x.shape) < 0.4
        data = {"x": np.where(hidden, np.nan, x)}
        block = mc.Block("x", mc.Gaussian(variance=None))
        for term in (mc.GaussianRows(), mc.GaussianRows(prior_rows=3.0)):
            answer = mc.posterior(mc.Model([block], [term]), data).predict("x")
            errors.append(np.mean(np.square(answer - x)[hidden]))
    assert np.mean(errors[::2]) < 1.07 * np.mean(errors[1::2])
