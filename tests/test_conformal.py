"""Conformal intervals and sets hold their level whatever the model; infinite ones are honest."""

import argparse

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.posterior.conformal import FoldScores, WeightedScores, shares_of

from .test_benchmarks import script  # noqa: F401

pytestmark = [
    pytest.mark.filterwarnings("ignore::mcframe.NotConvergedWarning"),
    pytest.mark.filterwarnings("ignore:row .* without one observed entry"),
]
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


# Likelihoods of few values, and others that are wrong of the data that are drawn from these.
DRAWN = {
    "labels": (mc.Bernoulli(), mc.Bernoulli(scale=0.2)),
    "levels": (mc.Ordinal(5, (-1.5, -0.5, 0.5, 1.5)), mc.Ordinal(5, (-9.0, 0.0, 0.1, 0.2))),
    "classes": (mc.Multinomial(4), mc.Multinomial(4)),
}


# Seconds that sets in small columns take; classes are the quickest.
OF_SETS = {"labels": 6, "levels": 25}


def drawn_values(rng, likelihood, share):
    """Labels, levels or classes, and what is observed of them with these probabilities."""
    n, d, width = *share.shape, likelihood.width
    z = 2.0 * low_rank(rng, (n, d * width)).reshape(n * d, width)
    values = likelihood.sample(z if width > 1 else z[:, 0], rng).reshape(n, d).astype(float)
    return values, np.where(rng.random((n, d)) < share, values, np.nan)


def share_in_sets(predictions, values, x, level=None):
    """The share of the missing entries whose value is in its set."""
    likelihood = predictions.posterior.model.block("x").likelihood
    places = values.astype(int) - getattr(likelihood, "lowest", 0)
    chosen = np.take_along_axis(predictions.set("x", level), places[:, :, None], axis=2)[:, :, 0]
    return np.mean(chosen[np.isnan(x)])


@pytest.mark.parametrize("made", [gaussian, heavy_tails, unequal])
def test_the_level_holds_on_average(made):
    """Exactly, between it and it plus 1 / (held-out entries + 1): only the mean is random."""
    rng, found = np.random.default_rng(0), []
    for seed in range(40):
        truth = made(rng, (30, 12))
        x = np.where(rng.random(truth.shape) < 0.7, truth, np.nan)
        intervals = posterior_of(x).conformalize(LEVEL, random_state=seed)
        found.append(share_covered(intervals, truth, x))
    error = np.std(found) / np.sqrt(len(found))
    assert LEVEL - 2.0 * error < np.mean(found) < LEVEL + 1 / 50 + 2.0 * error


@pytest.mark.parametrize("how", ["given", "rank1", "bernoulli"])
@pytest.mark.some(1, how=2)
def test_weights_make_up_for_entries_missing_where_noise_is_large(how):
    """Rows with few entries have much noise: alike weights cover too few of the missing ones."""
    rng, alike, weighted = np.random.default_rng(1), [], []
    for seed in range(8):
        share = np.where(np.arange(60) < 30, 0.3, 0.9)[:, None] * np.ones(60)
        truth = low_rank(rng, share.shape) + 0.5 / share**2 * rng.standard_normal(share.shape)
        x = np.where(rng.random(share.shape) < share, truth, np.nan)
        posterior = posterior_of(x)
        options = {"random_state": seed}
        alike.append(share_covered(posterior.conformalize(LEVEL, **options), truth, x))
        missingness = 1.0 - share if how == "given" else how
        intervals = posterior.conformalize(LEVEL, missingness, **options)
        weighted.append(share_covered(intervals, truth, x))
    assert np.mean(alike) < LEVEL - 3.0 * np.std(alike) / np.sqrt(len(alike))
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
        lower, upper = posterior.conformalize(LEVEL, by="column", random_state=seed).interval("x")
        inside = (lower <= truth) & (truth <= upper)
        found.append([inside[np.isnan(x[:, j]), j].mean() for j in range(8)])
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(np.mean(found, axis=0) - LEVEL - 0.02) < 0.03 + 2.0 * error)
    groups = posterior.conformalize(LEVEL, by=["fine"] * 4 + ["rough"] * 4)
    assert [scores.size for scores in groups.blocks["x"].scores["interval"]] == pytest.approx(
        [45, 45], abs=15
    )
    lower, upper = groups.interval("x")
    assert (upper - lower)[:, 4:].min() > (upper - lower)[:, :4].max()


@pytest.mark.parametrize(("n_held", "finite"), [(8, False), (9, True)])
def test_too_few_entries_give_infinite_intervals(n_held, finite):
    x = np.random.default_rng(3).standard_normal((n_held * 5, 1))
    intervals = posterior_of(x).conformalize(LEVEL, share=0.2, folds=1)
    lower, upper = intervals.interval("x", rows=[0, 1], columns=[0, 0])
    assert np.isfinite(lower).all() == finite
    assert np.isfinite(upper).all() == finite


def test_quantiles_by_their_definition():
    """The least score at which the shares, with that of infinity, sum up to the level."""
    rng = np.random.default_rng(4)
    for _ in range(100):
        values, odds = rng.exponential(size=7), rng.exponential(size=7)
        level, own = rng.uniform(0.05, 0.95), rng.exponential(size=3)
        scores = FoldScores((WeightedScores.of(values, odds),))
        found = scores.upper(level, own, np.zeros((1, 3)), np.ones((1, 3)))
        for quantile, each in zip(found, own, strict=True):
            whole = odds.sum() + each
            shares = [odds[values <= score].sum() / whole for score in sorted(values)]
            wanted = [s for s, share in zip(sorted(values), shares, strict=True) if share >= level]
            assert quantile == (wanted[0] if wanted else np.inf)
    empty = FoldScores((WeightedScores.of(np.zeros(0), np.zeros(0)),))
    assert np.all(empty.upper(0.5, np.ones(2), np.zeros((1, 2)), np.ones((1, 2))) == np.inf)


def test_ends_in_folds_by_their_definition():
    """The quantile over all scores of mean and deviation without their fold, and infinity."""
    rng = np.random.default_rng(14)
    for _ in range(60):
        sizes = rng.integers(0, 6, 3)
        values, odds = ([rng.exponential(size=size) for size in sizes] for _ in range(2))
        scores = FoldScores(tuple(map(WeightedScores.of, values, odds)))
        level, of_cells = rng.uniform(0.05, 0.95), rng.exponential(size=4)
        means, deviations = rng.standard_normal((3, 4)), rng.exponential(size=(3, 4))
        ends = scores.upper(level, of_cells, means, deviations)
        for cell in range(4):
            points = [means[k, cell] + deviations[k, cell] * values[k] for k in range(3)]
            points, weights = np.concatenate(points), np.concatenate(odds)
            order = np.argsort(points)
            sums = np.cumsum(weights[order])
            total = weights.sum() + of_cells[cell]
            places = np.flatnonzero(sums >= level * total)
            expected = points[order][places[0]] if places.size else np.inf
            assert ends[cell] == pytest.approx(expected, rel=1e-9, abs=1e-9)
        candidates = rng.random((3, 4, 2))
        sets = scores.chosen(level, of_cells, candidates)
        for cell, value in np.ndindex(4, 2):
            smaller = [odds[k][values[k] < candidates[k, cell, value]].sum() for k in range(3)]
            total = np.concatenate(odds).sum() + of_cells[cell]
            assert sets[cell, value] == (sum(smaller) < level * total)


@pytest.mark.slow(seconds=5)
def test_columns_of_twenty_rows_have_finite_intervals_that_hold():
    """Every observed entry has a score: 14 of a column are enough, 3 held-out ones were not."""
    rng, by_column = np.random.default_rng(15), []
    spread = np.repeat([0.3, 2.0], 3)
    for seed in range(30):
        truth = low_rank(rng, (20, 6)) + spread * rng.standard_t(3.0, (20, 6))
        x = np.where(rng.random(truth.shape) < 0.7, truth, np.nan)
        intervals = posterior_of(x).conformalize(LEVEL, by="column", random_state=seed)
        lower, upper = intervals.interval("x")
        enough = np.sum(~np.isnan(x), axis=0) >= 9
        assert np.array_equal(np.isfinite(upper - lower).all(axis=0), enough)
        inside = (lower <= truth) & (truth <= upper)
        by_column.append([inside[np.isnan(x[:, j]), j].mean() for j in range(6)])
    assert "in 10 folds, by 6 groups" in repr(intervals)
    shares = np.array(by_column)
    error = np.nanstd(shares, axis=0) / np.sqrt(len(shares))
    assert np.all(np.nanmean(shares, axis=0) > LEVEL - 0.02 - 2.0 * error)
    # 14 of 15 where 14 are observed, and what folds add.
    assert np.nanmean(shares) < 14 / 15 + 0.03


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow(seconds=OF_SETS.get(name))] * (name in OF_SETS))
        for name in DRAWN
    ],
)
def test_sets_of_small_columns_hold_their_level(name):
    rng, shares, whole = np.random.default_rng(16), [], []
    likelihood, wrong = DRAWN[name]
    for seed in range(
        8
    ):  # sets of .8 (of .7 for labels) in place of .9 are seen in as many tables
        values, x = drawn_values(rng, likelihood, np.full((30, 5), 0.7))
        predictions = posterior_of(x, model_of(wrong)).conformalize(by="column", random_state=seed)
        shares.append(share_in_sets(predictions, values, x))
        whole.append(np.mean(predictions.set("x").all(axis=2)))
    error = np.std(shares) / np.sqrt(len(shares))
    assert np.mean(shares) > LEVEL - 0.01 - 2.0 * error
    if name == "levels":
        assert np.mean(whole) < 0.9


def test_one_fold_is_a_share_and_more_are_all_entries():
    rng = np.random.default_rng(17)
    x = np.where(rng.random((40, 6)) < 0.8, gaussian(rng, (40, 6)), np.nan)
    posterior = posterior_of(x)
    n = posterior.problem.tables["x"].n_entries
    assert len(posterior.conformalize().posteriors) == 1
    five = posterior.conformalize(folds=5)
    [scores] = five.blocks["x"].scores["interval"]
    assert scores.size == n
    left = [n - one.problem.tables["x"].n_entries for one in five.posteriors]
    assert sum(left) == n
    assert max(left) - min(left) <= 6
    lower, upper = five.interval("x")
    assert np.all(lower < upper)
    frame = pd.DataFrame(x, columns=list("abcdef"))
    again = mc.posterior(posterior.model, {"x": frame}, factors=2, max_iter=3)
    np.testing.assert_allclose(again.conformalize(folds=5).interval("x")[1], upper)


@pytest.mark.parametrize("n_folds", [1, 2])
def test_ends_are_infinite_where_means_or_deviations_are(n_folds):
    rng = np.random.default_rng(3)
    scores = FoldScores(
        tuple(WeightedScores.of(rng.standard_normal(30), np.ones(30)) for _ in range(n_folds))
    )
    means, deviations = np.zeros((n_folds, 3)), np.ones((n_folds, 3))
    means[0, 1], deviations[-1, 2] = np.inf, np.inf
    ends = scores.upper(0.8, np.ones(3), means, deviations)
    assert np.isfinite(ends[0])
    np.testing.assert_array_equal(ends[1:], np.inf)


def test_there_are_no_more_folds_than_entries():
    x = np.full((5, 2), np.nan)
    x[:3, 0] = [1.0, 2.0, 4.0]
    x[2:, 1] = [0.5, 0.1, 0.7]
    assert len(posterior_of(x).conformalize(0.5).posteriors) == 1
    data = {"x": x[:, :1], "y": np.arange(10.0).reshape(5, 2)}
    blocks = [mc.Block(name, mc.Gaussian(), bias=True) for name in data]
    several = mc.posterior(mc.Model(blocks, [mc.NuclearNorm()]), data, factors=1, max_iter=3)
    assert len(several.conformalize(0.9).posteriors) == 3


def test_scores_repeat_by_their_seed_and_units_change_nothing():
    truth = gaussian(np.random.default_rng(5), (40, 8))
    one = posterior_of(truth, model_of(standardize=True)).conformalize()
    again = posterior_of(truth, model_of(standardize=True)).conformalize()
    large = posterior_of(1e6 * truth + 1e8, model_of(standardize=True)).conformalize()
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
    posterior = mc.posterior(model_of(), {"x": data}, factors=2)
    intervals = posterior.conformalize()
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
    intervals = posterior_of(x).conformalize(0.5)
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
    posterior = mc.posterior(model, data, factors=1)
    by = {"counts": "column", "levels": "block", "labels": [0, 0, 1]}
    intervals = posterior.conformalize(by=by, folds=1)
    assert set(intervals.blocks) == {"counts", "levels", "labels"}
    assert intervals.posterior.problem.tables["labels"].n_entries == 0.8 * labels.size
    assert (intervals.interval("counts")[0] >= 0.0).all()
    assert mc.Poisson().limits == mc.Gamma().limits == (0.0, np.inf)
    assert mc.Gaussian().limits == (-np.inf, np.inf)
    lower, upper = intervals.interval("levels")
    assert (lower >= 1.0).all()
    assert (upper <= 5.0).all()
    assert intervals.set("levels").shape == (40, 5, 5)
    assert intervals.set("labels").shape == (40, 3, 2)
    assert "'labels': 24 entries held out, by 2 groups" in repr(intervals)
    with pytest.raises(mc.ModelError, match=r"block 'labels'.*take \.set\('labels'\)"):
        intervals.interval("labels")
    with pytest.raises(mc.ModelError, match=r"block 'counts'.*take \.interval\('counts'\)"):
        intervals.set("counts")
    with pytest.raises(mc.ModelError, match="by: the dict has nothing for block 'levels'"):
        posterior.conformalize(by={"counts": "column"})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow(seconds=9)] * (name == "levels"))
        for name in DRAWN
    ],
)
@pytest.mark.some(1, name=1)
def test_the_level_of_sets_holds_on_average_though_the_model_is_wrong(name):
    """From above too: ties aside, by no more than 1 / (held-out entries + 1)."""
    rng, found = np.random.default_rng(11), {0.6: [], 0.9: []}
    likelihood, wrong = DRAWN[name]
    for seed in range(24):
        values, x = drawn_values(rng, likelihood, np.full((30, 10), 0.7))
        predictions = posterior_of(x, model_of(wrong)).conformalize(random_state=seed)
        for level, shares in found.items():
            shares.append(share_in_sets(predictions, values, x, level))
    for level, shares in found.items():
        error = np.std(shares) / np.sqrt(len(shares))
        assert np.mean(shares) > level - 2.0 * error
        if name == "levels" or level == 0.9:  # at .6 the likeliest label alone is right more often
            assert np.mean(shares) < level + 1 / 42 + 2.0 * error


@pytest.mark.parametrize(
    "how",
    [
        "given",
        *(pytest.param(how, marks=pytest.mark.slow(seconds=4)) for how in ("rank1", "bernoulli")),
    ],
)
@pytest.mark.slow(seconds=3)
def test_weights_make_up_for_levels_missing_where_they_are_extreme(how):
    """Rows with few entries have the first or the last level by chance, which no model tells."""
    rng, alike, weighted = np.random.default_rng(12), [], []
    share = np.where(np.arange(80) < 40, 0.25, 0.9)[:, None] * np.ones(30)
    likelihood = mc.Ordinal(5, (-1.5, -0.5, 0.5, 1.5))
    for seed in range(8):
        values, _ = drawn_values(rng, likelihood, share)
        values[:40] = rng.choice([1.0, 5.0], (40, 30))
        x = np.where(rng.random(share.shape) < share, values, np.nan)
        posterior = posterior_of(x, model_of(likelihood))
        missingness = 1.0 - share if how == "given" else how
        for kept, way in ((alike, "uniform"), (weighted, missingness)):
            predictions = posterior.conformalize(LEVEL, way, random_state=seed)
            kept.append(share_in_sets(predictions, values, x))
    assert np.mean(alike) < LEVEL - 3.0 * np.std(alike) / np.sqrt(len(alike))
    error = np.std(weighted) / np.sqrt(len(weighted))
    assert np.mean(weighted) > LEVEL - 2.0 * error - (0.0 if how == "given" else 0.02)
    assert np.mean(weighted) < LEVEL + 0.04


def test_sets_are_those_of_the_definition():
    """Values whose probability is at least one less the quantile, and the likeliest one."""
    rng = np.random.default_rng(13)
    _, x = drawn_values(rng, mc.Multinomial(4), np.full((40, 6), 0.7))
    predictions = posterior_of(x, model_of(mc.Multinomial(4))).conformalize(0.4)
    probabilities = predictions.posterior.probabilities("x")
    np.testing.assert_allclose(probabilities.sum(axis=2), 1.0)
    [[scores]] = [one.folds for one in predictions.blocks["x"].scores["set"]]
    quantile = np.sort(scores.values)[int(np.ceil(0.4 * (scores.values.size + 1))) - 1]
    expected = probabilities >= 1.0 - quantile - 1e-12
    empty = ~expected.any(axis=2)
    assert 0 < empty.sum() < empty.size
    chosen = predictions.set("x")
    np.testing.assert_array_equal(chosen[~empty], expected[~empty])
    assert np.all(chosen[empty].sum(axis=1) == 1)
    assert np.all(np.argmax(chosen[empty], axis=1) == np.argmax(probabilities[empty], axis=1))
    np.testing.assert_array_equal(
        predictions.set("x", rows=[3, 5], columns=[0, 2]), chosen[[3, 5], [0, 2]]
    )
    assert np.all(predictions.set("x", 0.9) >= chosen)


@pytest.mark.parametrize(("n_held", "whole"), [(8, True), (9, False)])
def test_too_few_entries_give_sets_of_every_value(n_held, whole):
    labels = np.ones((n_held * 5, 1))
    sets = posterior_of(labels, model_of(mc.Bernoulli(), bias=True)).conformalize(LEVEL, folds=1)
    assert sets.set("x").all() == whole


def test_the_posterior_without_held_out_entries_has_the_same_options():
    x = gaussian(np.random.default_rng(14), (30, 8))
    posterior = mc.posterior(model_of(), {"x": x}, factors=3, tol=0.0, max_iter=4, n_jobs=1)
    rest = posterior.conformalize().posterior
    assert rest.options == posterior.options
    assert len(rest.history) == 4
    assert rest.history[0].n_factors == 3


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
        ({"folds": 0}, "folds=0"),
        ({"folds": "cv"}, "folds='cv'"),
        ({"folds": 81}, "81 folds were asked for, and 80 entries are observed"),
        ({"folds": 2**70}, "80 entries are observed; ask for fewer"),
    ],
)
def test_messages_name_what_is_wrong(options, message):
    x = np.random.default_rng(8).standard_normal((20, 4))
    with pytest.raises(mc.McframeError, match=message):
        posterior_of(x).conformalize(**options)


def test_new_rows_are_refused():
    x = np.random.default_rng(9).standard_normal((20, 4))
    with pytest.raises(mc.ModelError, match="new rows"):
        posterior_of(x).condition({"x": x[:3]}).conformalize()
    with pytest.raises(mc.DataError, match="of 1 observed entries none can be held out"):
        posterior_of(np.ones((1, 1))).conformalize()


@pytest.mark.parametrize("name", ["sparse", "coherent", "logistic5", "unrelated"])
def test_the_benchmark_in_the_settings_of_the_paper(script, name):  # noqa: F811
    conformal = script("conformal")
    given = argparse.Namespace(variance=None, size=40, level=LEVEL, missingness=["known"])
    found = conformal.repetition(name, 0, 1, given)
    assert set(found) == {"posterior", "known"}
    covered, width = found["known"]
    assert 0.75 < covered < 1.0
    assert 0.0 < width < np.inf


def test_shares_are_shrunk_as_far_as_they_differ_by_chance():
    rng = np.random.default_rng(0)
    alike = shares_of(rng.binomial(5, 0.6, 5000), 5)
    assert np.std(alike) < 0.03
    true = rng.beta(2.0, 2.0, 5000)
    apart = shares_of(rng.binomial(5, true, 5000), 5)
    np.testing.assert_allclose(np.polyfit(apart, true, 1), [1.0, 0.0], atol=0.05)
    counts = np.array([0, 400, 1000])
    np.testing.assert_allclose(shares_of(counts, 1000), counts / 1000, atol=2e-3)
    assert shares_of(np.array([1, 1, 1]), 1).tolist() == [1.0, 1.0, 1.0]
