"""Joint intervals and sets of rows hold their level given the mask, whatever the model."""

import numpy as np
import pandas as pd
import pytest

import mcframe as mc
from mcframe.posterior.conformal_rows import HiddenGroups, ModelRows, RowScorer, scores_of_values

pytestmark = [
    pytest.mark.filterwarnings("ignore::mcframe.NotConvergedWarning"),
    pytest.mark.filterwarnings("ignore:row .* without one observed entry"),
]
LEVEL = 0.8
GROUPS = ("mask", "size")


def known_rows(covariance):
    """Rows of a Gaussian that is known, whose posteriors take no time."""
    block = mc.Block("x", mc.Gaussian(variance=0.01))
    return mc.Model([block], [mc.GaussianRows(covariance)])


def table_with_gaps(rng, make, n=60, sizes=(1, 3, 5), d=8):
    """A table whose first half has gaps, of these numbers in turn."""
    truth = make(rng, n, d)
    missing = np.zeros((n, d), dtype=bool)
    for row in range(n // 2):
        missing[row, rng.choice(d, sizes[row % len(sizes)], replace=False)] = True
    return truth, missing


def gaussian(rng, n, d):
    return rng.standard_normal((n, 1)) + rng.standard_normal((n, d))


def heavy_tails(rng, n, d):
    return rng.standard_t(2.0, (n, 1)) + rng.standard_t(1.5, (n, d))


def unequal(rng, n, d):
    """Columns of other scales than the model has, which marginal scores do not balance."""
    return rng.standard_normal((n, 1)) * np.linspace(0.2, 4.0, d) + rng.standard_exponential(
        (n, d)
    )


def covered_rows(intervals, truth, missing):
    """The rows with gaps whose missing entries all lie between the ends."""
    lower, upper = intervals.interval("x")
    return np.all((lower <= truth) & (truth <= upper) | ~missing, axis=1)[missing.any(axis=1)]


def shares_by_size(make, answer_of, repetitions=25):
    """The covered share of rows with 1, 3 and 5 gaps, and its standard error."""
    rng, shares = np.random.default_rng(0), []
    model = known_rows(0.5 + 0.5 * np.eye(8))
    for seed in range(repetitions):
        truth, missing = table_with_gaps(rng, make)
        posterior = mc.posterior(model, {"x": np.where(missing, np.nan, truth)})
        covered = covered_rows(answer_of(posterior, seed), truth, missing)
        shares.append([covered[k::3].mean() for k in range(3)])
    return np.mean(shares, axis=0), np.std(shares, axis=0) / np.sqrt(repetitions)


@pytest.mark.parametrize("folds", [2, pytest.param(4, marks=pytest.mark.slow(seconds=6))])
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("make", [gaussian, heavy_tails, unequal])
@pytest.mark.some(0.5)
def test_all_missing_entries_of_a_row_are_covered_for_every_number_of_gaps(make, groups, folds):
    def jointly(posterior, seed):
        options = {"groups": groups, "folds": folds, "random_state": seed}
        return posterior.conformalize_jointly(LEVEL, **options)

    shares, errors = shares_by_size(make, jointly)
    assert np.all(shares > LEVEL - 2.5 * errors)
    assert np.all(shares < LEVEL + 1 / 12 + 2.5 * errors)


def test_intervals_of_single_entries_do_not_hold_jointly():
    """So the test above can tell: entries one by one cover rows of five gaps far too seldom."""
    shares, errors = shares_by_size(
        heavy_tails, lambda posterior, seed: posterior.conformalize(LEVEL, random_state=seed)
    )
    assert np.all(shares[1:] < LEVEL - 5.0 * errors[1:])


@pytest.mark.parametrize("fault", ["one entry for all", "own gaps alone"])
def test_planted_faults_miss_the_level(fault, monkeypatch):
    """Scores of a single hidden entry, or of rows in which the gaps of the row are not hidden."""
    if fault == "one entry for all":

        def first_scores(self, remaining, rows, hidden):
            first = np.zeros_like(hidden)
            first[np.arange(len(hidden)), np.argmax(hidden, axis=1)] = True
            return largest_scores(self, remaining, rows, first)

        largest_scores = RowScorer.largest_scores
        monkeypatch.setattr(RowScorer, "largest_scores", first_scores)
    else:
        data = ModelRows.data
        monkeypatch.setattr(ModelRows, "data", lambda self, rows, hidden=None: data(self, rows))
    shares, errors = shares_by_size(
        gaussian, lambda posterior, seed: posterior.conformalize_jointly(LEVEL, random_state=seed)
    )
    assert shares[2] < LEVEL - 5.0 * errors[2]


def test_the_level_is_exact_where_rows_have_no_other_gaps():
    """Of 10 rows alike, each in turn the one with gaps, 8 of 9 scores cover exactly 8 or 9."""
    rng, covered = np.random.default_rng(1), []
    model = known_rows(np.eye(3))
    truth = rng.standard_normal((20, 3))
    for row in range(20):
        x = truth.copy()
        x[row, :2] = np.nan
        joint = mc.posterior(model, {"x": x}).conformalize_jointly(LEVEL, folds=2)
        [scores] = joint.scores[joint.kinds[row]].folds
        # Known mean 0 and variance 1.01: the score of a row is its largest number over the sd.
        largest = np.max(np.abs(np.delete(truth, row, axis=0)[:, :2]), axis=1) / np.sqrt(1.01)
        assert np.isclose(scores.values[:, None], largest, rtol=1e-6).any(axis=1).all()
        assert scores.values.size in (9, 10)
        needed = int(np.ceil(LEVEL * (scores.values.size + 1)))
        quantile = np.sort(scores.values)[needed - 1]
        lower, upper = joint.interval("x", rows=[row, row], columns=[0, 1])
        np.testing.assert_allclose(upper, quantile * np.sqrt(1.01), rtol=1e-6)
        np.testing.assert_allclose(lower, -upper, rtol=1e-6)
        covered.append(np.all(np.abs(truth[row, :2]) <= upper))
    assert 13 <= np.sum(covered) <= 19


def test_weights_make_up_for_rows_that_are_missing_where_values_are_large():
    """Gaps of rows whose noise is large: alike weights cover too few of them."""
    rng, alike, weighted = np.random.default_rng(2), [], []
    model = known_rows(np.eye(2))
    for seed in range(30):
        probability = np.where(np.arange(200) < 100, 0.8, 0.2)
        truth = np.where(probability > 0.5, 3.0, 1.0)[:, None] * rng.standard_normal((200, 2))
        x = truth.copy()
        x[rng.random(200) < probability, 0] = np.nan
        posterior, missing = mc.posterior(model, {"x": x}), np.isnan(x)
        odds = np.column_stack([probability, np.full(200, 0.5)])
        for shares, option in ((alike, "uniform"), (weighted, odds)):
            joint = posterior.conformalize_jointly(LEVEL, option, random_state=seed)
            shares.append(covered_rows(joint, truth, missing).mean())
    errors = [np.std(shares) / np.sqrt(30) for shares in (alike, weighted)]
    assert np.mean(alike) < LEVEL - 5.0 * errors[0]
    # Some 10 rows of odds 4 and 40 of odds 1/4 have scores: the row itself has 4 of 54.
    assert LEVEL - 2.5 * errors[1] < np.mean(weighted) < LEVEL + 4 / 54 + 2.5 * errors[1]


@pytest.mark.filterwarnings("ignore:.*have infinite intervals")
@pytest.mark.parametrize("groups", GROUPS)
def test_weights_hold_for_every_number_of_gaps_though_rows_have_others(groups):
    """Odds of the hidden entries alone would count rows with many gaps, which vary less, most."""
    rng, model, shares = np.random.default_rng(9), known_rows(np.eye(4)), []
    probability = np.where(np.arange(300) < 150, 0.6, 0.1)[:, None]
    for seed in range(20):
        truth = np.where(probability > 0.5, 1.0, 3.0) * rng.standard_normal((300, 4))
        missing = rng.random(truth.shape) < probability
        posterior = mc.posterior(model, {"x": np.where(missing, np.nan, truth)})
        options = {"groups": groups, "folds": 2, "random_state": seed}
        joint = posterior.conformalize_jointly(LEVEL, probability, **options)
        lower, upper = joint.interval("x")
        covered = np.all((lower <= truth) & (truth <= upper) | ~missing, axis=1)
        n_gaps = missing.sum(axis=1)
        shares.append([covered[n_gaps == k].mean() for k in (1, 2)])
    errors = np.std(shares, axis=0) / np.sqrt(20)
    assert np.all(np.mean(shares, axis=0) > LEVEL - 2.5 * errors)
    assert np.all(np.mean(shares, axis=0) < LEVEL + 0.08)


def test_scores_of_values_are_quantiles_of_the_level_from_which_sets_contain_them():
    scores = scores_of_values(np.array([[0.7, 0.3], [0.25, 0.75], [0.5, 0.5], [1.0, 0.0]]))
    np.testing.assert_allclose(scores[:2], [[0.0, 1.03643], [1.15035, 0.0]], atol=1e-5)
    assert scores[2].tolist() == [0.0, 0.0]
    assert scores[3].tolist() == [0.0, np.inf]


@pytest.mark.parametrize("groups", ["mask", "size"])
def test_hidden_groups_are_observed_entries_of_the_row(groups):
    rng = np.random.default_rng(3)
    observed = rng.random((40, 6)) < 0.7
    hidden_groups = HiddenGroups.of(observed, groups, rng)
    for row in np.flatnonzero(~observed.all(axis=1)):
        kind = int(hidden_groups.kinds[row])
        rows = hidden_groups.candidates(kind)
        hidden = hidden_groups.hidden(rows, np.full(rows.size, kind))
        assert np.all(hidden <= observed[rows])
        assert np.all(hidden.sum(axis=1) == np.count_nonzero(~observed[row]))
        if groups == "mask":
            assert np.all(hidden == ~observed[row])


def mixed_data(rng, n=80):
    """A frame of numbers, an array of labels and one of levels, with gaps, and what they hide."""
    z = rng.standard_normal((n, 1)) + rng.standard_normal((n, 5))
    truth = {
        "x": z[:, :2],
        "labels": (z[:, 2:4] > 0.0).astype(float),
        "levels": np.clip(np.round(z[:, 4:] + 3.0), 1.0, 5.0),
    }
    data = {k: np.where(rng.random(v.shape) < 0.2, np.nan, v) for k, v in truth.items()}
    blocks = [
        mc.Block("x", mc.Gaussian(variance=None), standardize=True),
        mc.Block("labels", mc.Bernoulli(), bias=True),
        mc.Block("levels", mc.Ordinal(levels=5)),
    ]
    return mc.Model(blocks, [mc.NuclearNorm()]), data, truth


def test_numbers_labels_and_levels_of_a_row_are_covered_together():
    rng, shares = np.random.default_rng(4), []
    for seed in range(6):
        model, data, truth = mixed_data(rng)
        posterior = mc.posterior(model, data, factors=1, max_iter=5)
        joint = posterior.conformalize_jointly(LEVEL, groups="size", folds=2, random_state=seed)
        lower, upper = joint.interval("x")
        inside = [(lower <= truth["x"]) & (truth["x"] <= upper)]
        for name, lowest in (("labels", 0), ("levels", 1)):
            places = truth[name].astype(int)[:, :, None] - lowest
            inside.append(np.take_along_axis(joint.set(name), places, axis=2)[:, :, 0])
        covered = np.hstack(inside).all(axis=1)
        missing = np.hstack([np.isnan(values) for values in data.values()]).any(axis=1)
        assert covered[~missing].all()
        shares.append(covered[missing].mean())
    assert LEVEL - 0.06 < np.mean(shares) < LEVEL + 0.12
    assert "JointPredictions: level 0.8, by size" in repr(joint)
    with pytest.raises(mc.ModelError, match=r"labels, levels or classes.*take \.set\('levels'\)"):
        joint.interval("levels")
    with pytest.raises(mc.ModelError, match=r"has numbers.*take \.interval\('x'\)"):
        joint.set("x")


def test_answers_have_the_form_of_the_data_and_observed_entries_their_value():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.standard_normal((40, 3)), columns=list("abc"), index=range(100, 140))
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    weights, offset = rng.uniform(0.5, 2.0, (40, 3)), rng.standard_normal((40, 1))
    data = mc.Observations(frame, weights=weights, offset=offset)
    joint = mc.posterior(known_rows(np.eye(3)), {"x": data}).conformalize_jointly(LEVEL)
    lower, upper = joint.interval("x")
    pd.testing.assert_index_equal(lower.index, frame.index)
    observed = frame.notna().to_numpy()
    for end in (lower, upper):
        np.testing.assert_array_equal(end.to_numpy()[observed], frame.to_numpy()[observed])
    assert np.all(lower.to_numpy()[~observed] < upper.to_numpy()[~observed])
    # Predictors of a known mean 0 are the offsets of the row, which must go along.
    middle = 0.5 * (lower + upper).to_numpy()
    expected = np.broadcast_to(offset, middle.shape)
    np.testing.assert_allclose(middle[~observed], expected[~observed], atol=1e-8)


def test_too_few_rows_have_infinite_intervals_and_a_warning():
    x = np.random.default_rng(6).standard_normal((12, 3))
    x[0, :2] = np.nan
    x[1:6, 0] = np.nan
    posterior = mc.posterior(known_rows(np.eye(3)), {"x": x})
    with pytest.warns(UserWarning, match="6 rows of 6 with gaps have infinite .* groups='size'"):
        lower, upper = posterior.conformalize_jointly(0.9).interval("x")
    assert np.isinf(upper)[np.isnan(x)].all()
    assert np.isinf(lower)[np.isnan(x)].all()
    joint = posterior.conformalize_jointly(0.9, groups="size")
    assert joint.n_folds == 5
    assert np.isfinite(joint.interval("x")[1]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence_level": 1.0}, "confidence_level=1.0"),
        ({"groups": "row"}, "groups='row' was given; 'mask' or 'size' is needed"),
        ({"folds": 1}, "folds=1"),
        ({"missingness": "rank1"}, "missingness='rank1' was given for block 'x'; for whole rows"),
        ({"missingness": np.array([0.5, 0.0, 0.5])}, r"0.0.* was given at \[0, 1\]"),
        ({"random_state": -1}, "random_state=-1"),
    ],
)
def test_messages_name_what_is_wrong(options, message):
    x = np.random.default_rng(7).standard_normal((20, 3))
    with pytest.raises(mc.McframeError, match=message):
        mc.posterior(known_rows(np.eye(3)), {"x": x}).conformalize_jointly(**options)


def test_one_row_and_new_rows_are_refused():
    posterior = mc.posterior(known_rows(np.eye(2)), {"x": np.ones((1, 2))})
    with pytest.raises(mc.DataError, match="of one row none can be held out"):
        posterior.conformalize_jointly()
    with pytest.raises(mc.ModelError, match="new rows"):
        posterior.condition({"x": np.ones((2, 2))}).conformalize_jointly()
