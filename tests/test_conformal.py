"""Conformal intervals: their level holds whatever the model, and infinite ones are honest."""

import argparse

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.posterior.conformal import WeightedScores, limits

from .test_benchmarks import script  # noqa: F401

LEVEL = 0.9


def model_of(likelihood=None, **options):
    block = mc.Block("x", likelihood or mc.Gaussian(), **options)
    return mc.Model([block], [mc.NuclearNorm()])


def low_rank(rng, shape, rank=2):
    return rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))


def posterior_of(x, model=None, **options):
    return mc.posterior(model or model_of(bias=True), {"x": x}, factors=2, max_iter=3, **options)


def share_covered(intervals, truth, x):
    """The share of the missing entries that lie between the ends."""
    lower, upper = intervals.interval("x")
    return np.mean(((lower <= truth) & (truth <= upper))[np.isnan(x)])


def gaussian(rng, shape):
    return low_rank(rng, shape) + 0.5 * rng.standard_normal(shape)


def heavy_tails(rng, shape):
    return low_rank(rng, shape, 4) + 0.5 * rng.standard_t(1.2, shape)


def unequal(rng, shape):
    """Noise by cells from 0.1 to 3, around a surface that is not of low rank."""
    return np.exp(low_rank(rng, shape, 1)) + rng.uniform(0.1, 3.0, shape) * rng.standard_normal(
        shape
    )


@pytest.mark.parametrize("made", [gaussian, heavy_tails, unequal])
def test_the_level_holds_on_average(made):
    """Exactly, between it and it plus 1 / (held-out entries + 1): only the mean is random."""
    rng, found = np.random.default_rng(0), []
    for seed in range(40):
        truth = made(rng, (30, 12))
        x = np.where(rng.random(truth.shape) < 0.7, truth, np.nan)
        intervals = posterior_of(x).conformalize(LEVEL, max_iter=3, random_state=seed)
        found.append(share_covered(intervals, truth, x))
    error = np.std(found) / np.sqrt(len(found))
    assert LEVEL - 2.0 * error < np.mean(found) < LEVEL + 1 / 50 + 2.0 * error


@pytest.mark.parametrize("how", ["given", "rank1", "bernoulli"])
def test_weights_make_up_for_entries_missing_where_noise_is_large(how):
    """Rows with few entries have much noise: alike weights cover too few of the missing ones."""
    rng, alike, weighted = np.random.default_rng(1), [], []
    for seed in range(8):
        share = np.where(np.arange(60) < 30, 0.3, 0.9)[:, None] * np.ones(60)
        truth = low_rank(rng, share.shape) + 0.5 / share**2 * rng.standard_normal(share.shape)
        x = np.where(rng.random(share.shape) < share, truth, np.nan)
        posterior = posterior_of(x)
        options = {"max_iter": 3, "random_state": seed}
        alike.append(share_covered(posterior.conformalize(LEVEL, **options), truth, x))
        missingness = 1.0 - share if how == "given" else how
        intervals = posterior.conformalize(LEVEL, missingness, **options)
        weighted.append(share_covered(intervals, truth, x))
    assert np.mean(alike) < 0.84
    error = np.std(weighted) / np.sqrt(len(weighted))
    assert np.mean(weighted) > LEVEL - 2.0 * error - (0.0 if how == "given" else 0.02)
    assert np.mean(weighted) < LEVEL + 0.04


def test_columns_of_their_own_hold_the_level_each():
    rng, found = np.random.default_rng(2), []
    spread = np.repeat([0.1, 3.0], 4)
    for seed in range(20):
        truth = low_rank(rng, (80, 8), 1) + spread * rng.standard_normal((80, 8))
        x = np.where(rng.random(truth.shape) < 0.7, truth, np.nan)
        model = model_of(mc.Gaussian(variance=1.0))
        posterior = posterior_of(x, model)
        lower, upper = posterior.conformalize(
            LEVEL, by="column", max_iter=3, random_state=seed
        ).interval("x")
        inside = (lower <= truth) & (truth <= upper)
        found.append([inside[np.isnan(x[:, j]), j].mean() for j in range(8)])
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(np.mean(found, axis=0) - LEVEL - 0.02) < 0.03 + 2.0 * error)
    groups = posterior.conformalize(LEVEL, by=["fine"] * 4 + ["rough"] * 4)
    assert [own.values.size for own in groups.blocks["x"].scores] == pytest.approx(
        [45, 45], abs=15
    )
    lower, upper = groups.interval("x")
    assert (upper - lower)[:, 4:].min() > (upper - lower)[:, :4].max()


@pytest.mark.parametrize(("n_held", "finite"), [(8, False), (9, True)])
def test_too_few_entries_give_infinite_intervals(n_held, finite):
    x = np.random.default_rng(3).standard_normal((n_held * 5, 1))
    intervals = posterior_of(x).conformalize(LEVEL, share=0.2)
    lower, upper = intervals.interval("x", rows=[0, 1], columns=[0, 0])
    assert np.isfinite(lower).all() == finite
    assert np.isfinite(upper).all() == finite


def test_quantiles_by_their_definition():
    """The least score at which the shares, with that of infinity, sum up to the level."""
    rng = np.random.default_rng(4)
    for _ in range(100):
        values, odds = rng.exponential(size=7), rng.exponential(size=7)
        level, own = rng.uniform(0.05, 0.95), rng.exponential(size=3)
        found = WeightedScores.of(values, odds).quantile(level, own)
        for quantile, each in zip(found, own, strict=True):
            whole = odds.sum() + each
            shares = [odds[values <= score].sum() / whole for score in sorted(values)]
            wanted = [s for s, share in zip(sorted(values), shares, strict=True) if share >= level]
            assert quantile == (wanted[0] if wanted else np.inf)
    assert (WeightedScores.of(np.zeros(0), np.zeros(0)).quantile(0.5, np.ones(2)) == np.inf).all()


def test_scores_repeat_by_their_seed_and_units_change_nothing():
    truth = gaussian(np.random.default_rng(5), (40, 8))
    one = posterior_of(truth, model_of(standardize=True)).conformalize(max_iter=3)
    again = posterior_of(truth, model_of(standardize=True)).conformalize(max_iter=3)
    large = posterior_of(1e6 * truth + 1e8, model_of(standardize=True)).conformalize(max_iter=3)
    np.testing.assert_array_equal(one.interval("x")[0], again.interval("x")[0])
    np.testing.assert_allclose(large.interval("x")[1], 1e6 * one.interval("x")[1] + 1e8, rtol=1e-6)
    other = posterior_of(truth, model_of(standardize=True)).conformalize(random_state=1)
    assert not np.array_equal(one.interval("x")[0], other.interval("x")[0])


def test_frames_come_back_as_frames_and_missing_weights_and_offsets_go_along():
    rng = np.random.default_rng(6)
    truth = gaussian(rng, (30, 6))
    frame = pd.DataFrame(truth, index=np.arange(100, 130), columns=list("abcdef"))
    frame = frame.mask(rng.random(frame.shape) < 0.3)
    weights, offset = rng.uniform(0.5, 2.0, (30, 6)), rng.standard_normal((1, 6))
    data = mc.Observations(frame, weights=weights, offset=offset)
    posterior = mc.posterior(model_of(), {"x": data}, factors=2, max_iter=3)
    intervals = posterior.conformalize(max_iter=3)
    lower, upper = intervals.interval("x")
    pd.testing.assert_index_equal(lower.index, frame.index)
    pd.testing.assert_index_equal(upper.columns, frame.columns)
    rest, whole = intervals.posterior.problem.tables["x"], posterior.problem.tables["x"]
    assert rest.n_entries == whole.n_entries - round(0.2 * whole.n_entries)
    np.testing.assert_array_equal(rest.weights, weights[rest.rows, rest.columns])
    np.testing.assert_array_equal(rest.offset.dense(), whole.offset.dense())
    np.testing.assert_array_equal(rest.values, truth[rest.rows, rest.columns])
    some = intervals.interval("x", rows=[3, 4], columns=[0, 5])
    np.testing.assert_array_equal(some[0], lower.to_numpy()[[3, 4], [0, 5]])
    assert "36 entries" not in repr(posterior)
    assert f"{whole.n_entries - rest.n_entries} entries held out" in repr(intervals)


@pytest.mark.parametrize("rows", [mc.GaussianRows(), mc.GaussianRows(components=2)])
def test_posteriors_of_gaussian_rows_have_them_too(rows):
    rng = np.random.default_rng(10)
    truth = gaussian(rng, (120, 5))
    x = np.where(rng.random(truth.shape) < 0.8, truth, np.nan)
    model = mc.Model([mc.Block("x", mc.Gaussian(variance=None), standardize=True)], [rows])
    intervals = mc.posterior(model, {"x": x}).conformalize(LEVEL)
    n_missing = np.isnan(x).sum()
    error = np.sqrt(0.09 * (1 / n_missing + 5 / (~np.isnan(x)).sum()))
    assert abs(share_covered(intervals, truth, x) - LEVEL) < 2.0 * error


def test_zeros_of_a_sparse_matrix_are_observed():
    x = sp.coo_array((np.zeros(30), (np.arange(30) % 10, np.arange(30) % 7)), shape=(10, 7))
    intervals = posterior_of(x).conformalize(0.5, max_iter=3)
    assert intervals.posterior.problem.tables["x"].n_entries == 24


def test_counts_and_levels_stay_within_what_there_is():
    rng = np.random.default_rng(7)
    counts = rng.poisson(1.0, (40, 5)).astype(float)
    levels = rng.integers(1, 6, (40, 5)).astype(float)
    labels = rng.integers(0, 2, (40, 3)).astype(float)
    blocks = [
        mc.Block("counts", mc.Poisson(), bias=True),
        mc.Block("levels", mc.Ordinal(levels=5)),
        mc.Block("labels", mc.Bernoulli()),
    ]
    model = mc.Model(blocks, [mc.NuclearNorm()])
    data = {"counts": counts, "levels": levels, "labels": labels}
    posterior = mc.posterior(model, data, factors=1, max_iter=3)
    intervals = posterior.conformalize(max_iter=3, by={"counts": "column", "levels": "block"})
    assert set(intervals.blocks) == {"counts", "levels"}
    assert intervals.posterior.problem.tables["labels"].n_entries == labels.size
    assert (intervals.interval("counts")[0] >= 0.0).all()
    assert limits(mc.Poisson()) == limits(mc.Gamma()) == (0.0, np.inf)
    assert limits(mc.Gaussian()) == (-np.inf, np.inf)
    lower, upper = intervals.interval("levels")
    assert (lower >= 1.0).all()
    assert (upper <= 5.0).all()
    with pytest.raises(mc.ModelError, match=r"block 'labels'.*posterior.set"):
        intervals.interval("labels")
    with pytest.raises(mc.ModelError, match="by: the dict has nothing for block 'levels'"):
        posterior.conformalize(by={"counts": "column"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence_level": 1.0}, "confidence_level=1.0"),
        ({"confidence_level": 90}, "confidence_level=90"),
        ({"share": 0.0}, "share=0.0"),
        ({"missingness": "rank2"}, r"missingness='rank2' was given for block 'x'"),
        ({"missingness": np.full((2, 2), 0.5)}, r"shape \(20, 4\) are needed"),
        ({"missingness": np.array([0.5, 0.5, 0.0, 0.5])}, r"0.0.* was given at \[0, 2\]"),
        ({"by": "row"}, "by='row'"),
        ({"by": [1, 2, 3]}, r"an array of shape \(3,\)"),
        ({"random_state": -1}, "random_state=-1"),
    ],
)
def test_messages_name_what_is_wrong(options, message):
    x = np.random.default_rng(8).standard_normal((20, 4))
    with pytest.raises(mc.McframeError, match=message):
        posterior_of(x).conformalize(max_iter=1, **options)


def test_what_has_no_intervals():
    labels = np.random.default_rng(9).integers(0, 2, (20, 4)).astype(float)
    with pytest.raises(mc.ModelError, match="every block has labels or classes"):
        posterior_of(labels, model_of(mc.Bernoulli())).conformalize()
    x = np.random.default_rng(9).standard_normal((20, 4))
    with pytest.raises(mc.ModelError, match="new rows"):
        posterior_of(x).condition({"x": x[:3]}).conformalize()


@pytest.mark.parametrize("name", ["sparse", "coherent", "logistic5", "unrelated"])
def test_the_benchmark_in_the_settings_of_the_paper(script, name):  # noqa: F811
    conformal = script("conformal")
    given = argparse.Namespace(variance=None, size=40, level=LEVEL, missingness=["known"])
    found = conformal.repetition(name, 0, 1, given)
    assert set(found) == {"posterior", "known"}
    covered, width = found["known"]
    assert 0.75 < covered < 1.0
    assert 0.0 < width < np.inf
