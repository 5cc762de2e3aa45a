"""Imputation, mixtures of Gaussians and support vector machines, as the papers compare with."""

import numpy as np
import pytest
from papers.baselines import fit_mixture, mean_imputed, svm_labels, zero_imputed
from scipy.stats import multivariate_normal

import mcframe as mc


def gaussian_table(rng, n=60, d=4, share=0.3):
    root = rng.standard_normal((d, d))
    complete = rng.standard_normal((n, d)) @ root + 3.0
    return complete, np.where(rng.random((n, d)) < share, np.nan, complete)


def test_constants():
    table = np.array([[1.0, np.nan, 2.0], [3.0, np.nan, np.nan]])
    np.testing.assert_array_equal(mean_imputed(table), [[1, 0, 2], [3, 0, 2]])
    np.testing.assert_array_equal(zero_imputed(table), [[1, 0, 2], [3, 0, 0]])


@pytest.mark.parametrize("components", [1, 3])
def test_the_objective_of_a_mixture_never_falls(components):
    """Incomplete items, some of them without any entry, from an ill-conditioned covariance."""
    rng = np.random.default_rng(0)
    _, table = gaussian_table(rng, share=0.6)
    table[:2] = np.nan
    mixture = fit_mixture(table, components, rng, ridge=0.1, change=0.0, max_iter=60)
    rises = np.diff(mixture.objectives)
    assert np.all(rises >= -1e-11 * np.abs(mixture.objectives[-1]))
    assert mixture.objectives[-1] > mixture.objectives[0] + 1.0
    assert mixture.shares.sum() == pytest.approx(1.0)


def test_the_likelihood_of_a_mixture_is_that_of_its_marginals():
    rng = np.random.default_rng(1)
    _, table = gaussian_table(rng)
    mixture = fit_mixture(table, 2, rng, max_iter=5)
    for item, found in zip(table[:8], mixture.log_likelihoods(table), strict=False):
        seen = ~np.isnan(item)
        density = sum(
            share * multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).pdf(item[seen])
            for share, mean, covariance in zip(
                mixture.shares, mixture.means, mixture.covariances, strict=True
            )
        )
        assert found == pytest.approx(np.log(density), rel=1e-9)


def test_what_is_missing_becomes_its_conditional_mean():
    rng = np.random.default_rng(2)
    _, table = gaussian_table(rng)
    mixture = fit_mixture(table, 1, rng, max_iter=5)
    filled, mean, covariance = mixture.impute(table), mixture.means[0], mixture.covariances[0]
    for item, whole in zip(table, filled, strict=True):
        seen = ~np.isnan(item)
        inner = np.linalg.solve(covariance[np.ix_(seen, seen)], (item - mean)[seen])
        expected = mean[~seen] + covariance[np.ix_(~seen, seen)] @ inner
        np.testing.assert_allclose(whole[~seen], expected, atol=1e-9)
        np.testing.assert_array_equal(whole[seen], item[seen])


def test_a_complete_table_gives_its_moments():
    """Without missing entries one maximisation is the weighted mean of both covariances."""
    complete, _ = gaussian_table(np.random.default_rng(3))
    mixture = fit_mixture(complete, 1, np.random.default_rng(0), ridge=2.0, max_iter=3)
    np.testing.assert_allclose(mixture.means[0], complete.mean(axis=0), atol=1e-9)
    sample = np.cov(complete.T, bias=True)
    expected = (60 * sample + 2.0 * np.diag(np.diag(sample))) / 62
    np.testing.assert_allclose(mixture.covariances[0], expected, atol=1e-8)


def test_covariances_are_too_small_without_those_of_what_is_missing():
    """The known mistake of EM: filled entries are taken for observed ones."""
    _, table = gaussian_table(np.random.default_rng(3), n=300, share=0.5)
    whole, short = (
        fit_mixture(table, 1, np.random.default_rng(0), conditional_covariances=each)
        for each in (True, False)
    )
    assert np.trace(short.covariances[0]) < 0.9 * np.trace(whole.covariances[0])


def test_more_starts_are_never_worse():
    rng = np.random.default_rng(4)
    centres = np.repeat([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]], 30, axis=0)
    table = centres + rng.standard_normal(centres.shape)
    table[rng.random(table.shape) < 0.2] = np.nan
    ends = [
        fit_mixture(table, 3, np.random.default_rng(0), starts=starts).objectives[-1]
        for starts in (1, 6)
    ]
    assert ends[1] >= ends[0]
    best = fit_mixture(table, 3, np.random.default_rng(0), starts=6)
    np.testing.assert_allclose(np.sort(best.shares), [1 / 3] * 3, atol=0.08)


def test_features_that_are_constant_or_never_seen():
    rng = np.random.default_rng(5)
    _, table = gaussian_table(rng)
    table[:, 0], table[:, 1] = 7.0, np.nan
    filled = fit_mixture(table, 2, rng, max_iter=10).impute(table)
    assert np.all(np.isfinite(filled))
    np.testing.assert_array_equal(filled[:, 0], 7.0)


def test_a_separable_label_is_learned_and_tuned():
    rng = np.random.default_rng(6)
    features = rng.standard_normal((120, 5))
    labels = (features @ [2.0, -1.0, 0.0, 0.0, 0.0] > 0.3)[:, None] * 1.0
    seen = np.where(rng.random(labels.shape) < 0.5, labels, np.nan)
    predicted = svm_labels(features, seen, np.random.default_rng(0))
    assert np.mean(predicted != labels) < 0.08
    weak = svm_labels(features, seen, np.random.default_rng(0), strengths=(1e-8,))
    assert np.mean(predicted != labels) < np.mean(weak != labels)
    again = svm_labels(features, seen, np.random.default_rng(0))
    np.testing.assert_array_equal(predicted, again)


@pytest.mark.parametrize(("largest", "expected"), [(False, 1.0), (True, 100.0)])
def test_of_equally_good_strengths_one_end_is_taken(monkeypatch, largest, expected):
    used = []

    def perfect(x, y, strength):
        used.append(strength)
        return lambda features: features[:, 0] > 0.0

    monkeypatch.setattr("papers.baselines.svm.train_svm", perfect)
    features = np.linspace(-1.0, 1.0, 20)[:, None]
    labels = (features > 0.0) * 1.0
    rng = np.random.default_rng(0)
    svm_labels(features, labels, rng, strengths=(10.0, 1.0, 100.0), largest=largest)
    assert used[-1] == expected


def test_labels_of_one_class_or_of_none():
    features = np.random.default_rng(7).standard_normal((10, 2))
    labels = np.full((10, 4), np.nan)
    labels[:3, 0], labels[:3, 1] = 1.0, 0.0
    labels[0, 3], labels[1, 3] = 1.0, 0.0  # each fold leaves one class
    predicted = svm_labels(features, labels, np.random.default_rng(0))
    np.testing.assert_array_equal(predicted[:, 0], 1.0)
    np.testing.assert_array_equal(predicted[:, 1:3], 0.0)
    assert set(predicted[:, 3]) <= {0.0, 1.0}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x, rng: mean_imputed(x[0]), r"shape \(4,\)"),
        (lambda x, rng: mean_imputed("text"), "type str"),
        (lambda x, rng: zero_imputed(np.where(x > 0, np.inf, x)), "infinite value in row"),
        (lambda x, rng: fit_mixture(x, 0, rng), "components=0"),
        (lambda x, rng: fit_mixture(x, 99, rng), "components=99 were asked for, and there are 60"),
        (lambda x, rng: fit_mixture(x, 1, rng, ridge=0.0), "ridge=0.0"),
        (lambda x, rng: svm_labels(x, np.ones((60, 1)), rng), "features are missing; fill them"),
        (lambda x, rng: svm_labels(zero_imputed(x), np.full((60, 1), 2.0), rng), "label 2 in row"),
        (lambda x, rng: svm_labels(zero_imputed(x), np.ones((9, 1)), rng), "labels of 9 items"),
    ],
)
def test_what_is_wrong_is_said(call, said):
    rng = np.random.default_rng(0)
    _, table = gaussian_table(rng)
    with pytest.raises((mc.DataError, mc.ModelError), match=said):
        call(table, rng)
