"""Tiny versions of the commands of Wang et al. and of Zheng and Hastie, with what must hold.

Seeds are fixed; a margin is about half of the smallest difference seen over ten other seeds.
"""

import numpy as np
import pytest
from papers.data import semi_supervised
from papers.experiment import Trial
from papers.tmcc import TmccFig2, TmccFig3
from papers.zheng import ZhengRule

import mcframe as mc
from mcframe.papers import gamma, soft_impute, soft_impute_iterations

# How far TMCC's mean error of the features over two trials must lie below that of MC.0.
MARGINS = {"linear": 0.044, "non-linear": 0.036}


def trials(experiment, setting, count, seed=0):
    runs = [
        experiment.run(setting, Trial(setting, number).generator(seed)) for number in range(count)
    ]
    return {measure: np.array([run[measure] for run in runs]) for measure in runs[0]}


@pytest.mark.reproduction
@pytest.mark.parametrize("setting", MARGINS)
def test_calibration_lowers_the_error_of_the_features(setting):
    found = trials(TmccFig2.tiny(), setting, 2)
    assert found["TMCC, features"].mean() < found["MC.0, features"].mean() - MARGINS[setting]
    assert all(np.isfinite(values).all() for values in found.values())


@pytest.mark.reproduction
def test_figure_3_measures_every_target_of_every_method():
    found = trials(TmccFig3.tiny(), "non-linear", 1)
    shown = [values[0] for measure, values in found.items() if TmccFig3.tiny().shows(measure)]
    assert len(shown) == 12
    assert all(0.0 < value < 2.0 for value in shown)
    assert sum(TmccFig2.tiny().shows(measure) for measure in found) == 4


@pytest.mark.reproduction
@pytest.mark.parametrize("setting", ZhengRule.tiny().settings())
def test_the_rule_gives_the_fitted_rows(setting):
    """To 1e-6, gamma as well; refitting with a new row gives another answer, as they say."""
    found = trials(ZhengRule.tiny(), setting, 2)
    assert found["rule - fitted rows, largest"].max() <= 1e-6
    if "gamma - rule, largest" in found:
        assert found["gamma - rule, largest"].max() <= 1e-6
        assert found["gamma - fitted labels, largest"].max() <= 1e-6
    assert found["rule - refitting, rms"].min() > 0.0


def test_new_rows_are_predicted():
    """Over ten draws; the squared error of the mean of the labels is eight times as large."""
    left = whole = 0.0
    for seed in range(10):
        sizes = {"n_items": 100, "n_new": 300, "rank": 2, "labelled": 0.5}
        drawn = semi_supervised(np.random.default_rng(seed), **sizes)
        data = {"features": drawn.features, "labels": drawn.labels}
        rule = mc.fit(soft_impute(3.0), data, tol=1e-6).predict_rows(
            "labels", {"features": drawn.new_features}
        )
        left += np.sum((rule - drawn.new_labels) ** 2)
        whole += np.sum((np.nanmean(drawn.labels) - drawn.new_labels) ** 2)
    assert left < 0.3 * whole


def test_a_rule_that_is_not_the_optimum_s_does_not_give_the_fitted_rows():
    """That the comparison above can fail: a nonsmooth fit, and loadings of another weight."""
    drawn = semi_supervised(np.random.default_rng(0), n_items=40, n_features=12, rank=2)
    data = {"features": drawn.features, "labels": drawn.labels}
    with pytest.warns(mc.NotCertifiedWarning):
        nonsmooth = mc.fit(soft_impute(2.0), data, max_iter=2)
    far = np.abs(nonsmooth.predict_rows("features", data) - nonsmooth.predict("features")).max()
    assert far > 1e-3


def test_gamma_is_for_soft_impute_alone(table):
    fit = mc.fit(soft_impute(2.0), table)
    assert gamma(fit).shape == (4, 8)
    other = mc.Model(
        [mc.Block("features", mc.Gaussian(2.0)), mc.Block("labels", mc.Gaussian())],
        [mc.NuclearNorm(2.0)],
    )
    with pytest.raises(mc.ModelError, match="soft_impute alone"):
        gamma(mc.fit(other, table))
    alone = mc.fit(soft_impute(2.0, ["features"]), {"features": table["features"]})
    with pytest.raises(mc.ModelError, match="no other block than"):
        gamma(alone, "features")


def test_soft_impute_s_iterations_are_what_was_published(table):
    """Fill in, shrink: the plain loop; its rule stops it above the optimum."""
    r = np.hstack([table["features"], table["labels"]])
    z = np.zeros_like(r)
    published = soft_impute_iterations(table, 1.0)
    for _ in range(published.history[-1].iteration):
        left, s, right = np.linalg.svd(np.where(np.isnan(r), z, r), full_matrices=False)
        z = (left * np.maximum(s - 1.0, 0.0)) @ right
    np.testing.assert_allclose(published.latent.dense(), z, atol=1e-9)
    exact = mc.fit(soft_impute(1.0), table, tol=1e-10)
    assert "epsilon" in published.message
    assert published.objective > exact.objective * (1 + 1e-7)
    assert published.bound <= exact.objective
