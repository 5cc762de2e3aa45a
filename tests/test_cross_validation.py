"""The verb cross_validate: its folds, its scores, its choice."""

import threading

import attrs
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.contracts import UndefinedScoreWarning
from mcframe.model import Problem
from mcframe.papers import fixed_point_path, mc_b
from mcframe.selection import (
    EntryFolds,
    HeldOutLoss,
    LabelError,
    RelativeError,
    Splitter,
    folds_of,
)

# A best weight at an edge is said by a warning, which has tests of its own below.
pytestmark = pytest.mark.filterwarnings("ignore:the lowest mean score is at")

WEIGHTS = [0.3, 0.1, 0.03, 0.01]


def gaussian(table):
    return mc.Model([mc.Block("x", mc.Gaussian(), reduce="mean")], [mc.NuclearNorm(1.0)])


def itself(fit, held):
    """The criterion of made-up fits, which are their own scores."""
    return fit


def made_up(scores):
    """A path that gives the scores (n_weights, n_folds) of one fold after the other."""
    folds = iter(np.transpose(scores))

    def path(model, data, weights):
        return iter(next(folds))

    return path


def judged(scores, patience=None, **options):
    """Cross-validation of one model with made-up scores, at weights 1, 1/2, 1/4, ..."""
    scores = np.asarray(scores, dtype=float)
    x = np.random.default_rng(0).standard_normal((6, 4))
    return mc.cross_validate(
        gaussian(x),
        {"x": x},
        criterion=itself,
        path=made_up(scores),
        weights=mc.selection.Grid(0.5 ** np.arange(len(scores)), patience=patience),
        cv=scores.shape[1],
        **options,
    )


def spread(means, noise=1e-3):
    """Scores of three folds with these means, whose differences have small standard errors."""
    offsets = np.array([-1.0, 0.0, 1.0])
    wobble = noise * np.sin(np.outer(np.arange(len(means)), [1.0, 2.0, 3.0]))
    return np.asarray(means)[:, None] + offsets + wobble - wobble.mean(axis=1, keepdims=True)


def test_every_observed_entry_is_held_out_once(model, table):
    problem = Problem.bind(model, table)
    folds = folds_of(EntryFolds(4), problem, table)
    for name, given in table.items():
        held = np.zeros(given.shape, dtype=int)
        for fold in folds:
            part = fold.held[name]
            held[part.rows, part.columns] += 1
            hidden = np.isnan(fold.data[name]) & ~np.isnan(given)
            assert hidden.sum() == part.values.size
            assert hidden[part.rows, part.columns].all()
            np.testing.assert_array_equal(part.values, given[part.rows, part.columns])
            kept = ~np.isnan(fold.data[name])
            np.testing.assert_array_equal(fold.data[name][kept], given[kept])
        np.testing.assert_array_equal(held, ~np.isnan(given))
        sizes = [fold.held[name].values.size for fold in folds]
        assert max(sizes) - min(sizes) <= 1


def certified(model, data, weights):
    """The fits of the default path, with effects as the model declares them."""
    return mc.path(model, data, weights=weights)


def test_scores_are_those_of_paths_fitted_by_hand(model, table):
    options = {"criterion": LabelError("labels"), "weights": WEIGHTS, "cv": 3, "tol": 1e-6}
    found = mc.cross_validate(model, table, path=certified, **options)
    folds = folds_of(EntryFolds(3), Problem.bind(model, table), table)
    for k, fold in enumerate(folds):
        path = mc.path(model, fold.data, weights=WEIGHTS)
        held = fold.held["labels"]
        for position, fit in enumerate(path):
            labels = fit.predict("labels")[held.rows, held.columns] > 0.5
            assert found.scores[0, position, k] == np.mean(labels != (held.values == 1.0))
    np.testing.assert_allclose(found.means, found.scores.mean(axis=2))
    assert found.best_model.terms == (mc.NuclearNorm(found.best_weight),)


def test_several_models_and_processes_give_the_same(model, table):
    blocks = model.blocks
    models = [
        attrs.evolve(model, blocks=[blocks[0], attrs.evolve(blocks[1], weight=weight)])
        for weight in (0.1, 1.0)
    ]
    options = {"criterion": HeldOutLoss(), "weights": WEIGHTS[:2], "cv": 2, "random_state": 5}
    alone = mc.cross_validate(models, table, **options)
    assert alone.scores.shape == (2, 2, 2)
    together = mc.cross_validate(models, table, n_jobs=2, **options)
    np.testing.assert_array_equal(alone.scores, together.scores)
    rng = np.random.default_rng(5)
    drawn = mc.cross_validate(models, table, **(options | {"random_state": rng}))
    np.testing.assert_array_equal(alone.scores, drawn.scores)
    single = mc.cross_validate(models[1], table, **options)
    np.testing.assert_array_equal(alone.scores[1:], single.scores)
    assert alone.best_model.block("labels").weight == (0.1, 1.0)[alone.best[0]]


def test_the_rank_behind_noise_is_found():
    """Rank 2 with noise: the weight that is chosen predicts what nobody saw about best."""
    rng = np.random.default_rng(1)
    z = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 25))
    noisy = z + 0.5 * rng.standard_normal(z.shape)
    x = np.where(rng.random(z.shape) < 0.4, np.nan, noisy)
    weights = np.geomspace(0.05, 0.0005, 7)
    found = mc.cross_validate(
        gaussian(x), {"x": x}, criterion=RelativeError("x"), weights=weights, tol=1e-3
    )
    missed = [
        np.sum((fit.predict("x") - z)[np.isnan(x)] ** 2)
        for fit in mc.path(gaussian(x), {"x": x}, weights=weights, tol=1e-3)
    ]
    assert abs(found.best[1] - int(np.argmin(missed))) <= 1
    assert 0 < found.best[1] < 6


def noisy_tables():
    """Tables of rank 2, a fifth of them missing: measurements, labels, counts."""
    for word, size in ((mc.Gaussian(), 1.0), (mc.Bernoulli(), 2.0), (mc.Poisson(), 0.6)):
        rng = np.random.default_rng(0)
        z = size * rng.standard_normal((50, 2)) @ rng.standard_normal((2, 10))
        y = word.sample(z, rng)
        yield pytest.param(word, np.where(rng.random(z.shape) < 0.2, np.nan, y), id=str(word))


@pytest.mark.parametrize(("word", "table"), list(noisy_tables()))
@pytest.mark.some(0.7, word=1)
def test_the_default_tolerance_chooses_as_exact_fits_do(word, table):
    model = mc.Model([mc.Block("y", word, bias=True)], [mc.NuclearNorm(1.0)])
    options = {
        "criterion": HeldOutLoss(),
        "weights": mc.selection.Grid(count=12),
        "cv": 3,
        "random_state": 1,
    }
    found = mc.cross_validate(model, {"y": table}, **options)
    exact = mc.cross_validate(model, {"y": table}, tol=1e-6, **options)
    assert found.best == exact.best
    assert 0 < found.best[1] < 11
    around = slice(found.best[1] - 1, found.best[1] + 2)
    errors = np.abs(found.means - exact.means)[0, around]
    assert np.all(errors < 0.05 * exact.standard_errors[0, around])
    assert errors.max() > 1e-6  # and it does less work


def test_patience_ends_a_path_for_all_folds_at_once(model, table):
    options = {
        "criterion": RelativeError("features"),
        "weights": np.geomspace(0.1, 1e-4, 10),
        "cv": 5,
        "random_state": 1,
        "tol": 1e-2,
    }
    every = mc.selection.Grid(options["weights"], patience=None)
    whole = mc.cross_validate(model, table, **(options | {"weights": every}))
    ended = mc.cross_validate(model, table, **options)
    tried = ~np.isnan(ended.scores)
    np.testing.assert_array_equal(ended.scores[tried], whole.scores[tried])
    assert 0 < (~tried).sum() < tried.sum()
    np.testing.assert_array_equal(tried[0, :, 0], tried[0, :, -1])
    last = int(tried[0, :, 0].sum()) - 1
    assert np.all(whole.means[0, last - 1 : last + 1] > whole.means[0, : last - 1].min())
    assert ended.best == whole.best
    assert ended.at_edge is None
    (row,) = [line for line in repr(ended).splitlines() if line.split() == ["0.0001", "-"]]
    assert row


# Held-out means of a table of 194 x 26, which rise a little before they fall.
RISES_FIRST = [9.1, 8.374, 8.378, 8.379, 8.38, 8.1, 7.4, 6.8, 6.5, 6.46, 6.6, 6.9, 7.3, 7.8, 8.3]


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_patience_looks_beyond_a_local_rise(patience):
    found = judged(spread(RISES_FIRST), patience=patience)
    assert found.best == (0, 9)
    assert np.count_nonzero(~np.isnan(found.means)) == 10 + patience


def n_walked(means, patience=2, **options):
    return int(
        np.count_nonzero(~np.isnan(judged(spread(means, **options), patience=patience).means))
    )


def test_no_path_ends_before_it_has_come_halfway_down():
    falls_once = [9.0, 8.0, *np.linspace(8.1, 9.0, 9)]
    assert n_walked(falls_once, patience=1) == 6
    assert n_walked(falls_once, patience=4) == 6
    assert n_walked(falls_once, patience=5) == 7


def test_a_rise_within_the_standard_error_of_the_differences_ends_nothing():
    rises = [9.0, 8.0, *np.linspace(8.01, 8.03, 9)]
    assert n_walked(rises) == 6
    assert n_walked(rises, noise=1.0) == 11


def test_what_the_folds_have_in_common_hides_no_rise():
    """Standard errors of the means are 100 times as large as those of the differences."""
    scores = spread([9.0, 8.0, *np.linspace(8.1, 9.0, 9)])
    assert judged(scores).standard_errors[0, 0] > 0.5
    assert np.isnan(judged(scores, patience=2).means[0, 6:]).all()


def test_a_path_on_which_nothing_beats_the_first_weight_goes_on():
    assert n_walked(np.linspace(1.0, 2.0, 11)) == 11


def test_weights_that_are_worse_must_follow_each_other():
    zigzag = [9.0, 5.0, 6.0, 5.0, 6.0, 5.0, 6.0, 5.0, 6.0, 5.0, 6.0]
    assert n_walked(zigzag) == 11
    assert n_walked(zigzag, patience=1) == 7


def test_processes_that_walk_a_fold_each_end_where_one_process_does():
    means = np.array([9.0, 8.0, *np.linspace(8.1, 9.0, 9)])
    x = np.random.default_rng(0).standard_normal((6, 4))

    def score(fit, held):
        return means[fit] + 1e-3 * np.sum(np.sin(held["x"].values))

    options = {
        "criterion": score,
        "path": lambda model, data, weights: range(len(weights)),
        "weights": 0.5 ** np.arange(11),
        "cv": 3,
    }
    one = mc.cross_validate(gaussian(x), {"x": x}, **options)
    two = mc.cross_validate(gaussian(x), {"x": x}, n_jobs=2, **options)
    assert np.isnan(one.means).sum() == 5
    np.testing.assert_array_equal(one.scores, two.scores)


def test_a_fold_alone_ends_no_path(table):
    class OneFold(Splitter):
        def split(self, problem, random_state=0):
            yield next(EntryFolds(2).split(problem, random_state))

    falls_once = np.array([[9.0], [8.0], *[[8.1]] * 9])
    found = mc.cross_validate(
        gaussian(table["features"]),
        {"x": table["features"]},
        criterion=itself,
        path=made_up(falls_once),
        weights=0.5 ** np.arange(11),
        cv=OneFold(),
    )
    np.testing.assert_array_equal(found.means[0], falls_once[:, 0])


def test_infinite_scores_are_worse_and_nan_says_nothing():
    infinite = [[9.0] * 3, [5.0] * 3, *[[6.0, np.inf, 6.0]] * 9]
    assert np.count_nonzero(~np.isnan(judged(infinite, patience=2).means)) == 6
    undefined = [[np.nan] * 3, [5.0] * 3, [4.0] * 3, *[[6.0, np.nan, 6.0]] * 8]
    with pytest.warns(
        UndefinedScoreWarning, match="criterion itself is nan at weight 1 of model 0 on fold 0"
    ):
        found = judged(undefined, patience=1)
    assert found.best == (0, 2)
    assert np.isnan(found.scores[0, -1, 1])
    assert found.scores[0, -1, 0] == 6.0


def test_a_path_of_ones_own(table):
    """The published algorithm in the place of mc.path."""
    found = mc.cross_validate(
        [mc_b(1.0, 0.1), mc_b(1.0)],
        table,
        criterion=LabelError(),
        weights=[0.1, 0.025],
        path=fixed_point_path,
        cv=2,
    )
    fold = folds_of(EntryFolds(2), Problem.bind(mc_b(1.0), table), table)[1]
    *_, fit = fixed_point_path(mc_b(1.0), fold.data, [0.1, 0.025])
    assert found.scores[1, 1, 1] == LabelError()(fit, fold.held)


def test_frames_sparse_matrices_and_observations_stay_what_they_are(table):
    x = table["features"]
    seen = ~np.isnan(x)
    model = gaussian(x)
    forms = {
        "frame": pd.DataFrame(x, index=[f"item{i}" for i in range(20)]),
        "sparse": sp.csr_array(sp.coo_array((x[seen], np.nonzero(seen)), shape=x.shape)),
        "weighted": mc.Observations(x, weights=np.ones(x.shape)),
    }
    options = {"criterion": RelativeError("x"), "weights": WEIGHTS, "cv": 3}
    expected = mc.cross_validate(model, {"x": x}, **options)
    for name, given in forms.items():
        folds = folds_of(EntryFolds(3), Problem.bind(model, {"x": given}), {"x": given})
        kind = sp.coo_array if name == "sparse" else type(given)
        assert isinstance(folds[0].data["x"], kind)
        found = mc.cross_validate(model, {"x": given}, **options)
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)
    assert list(forms["frame"].index) == list(
        folds_of(EntryFolds(2), Problem.bind(model, {"x": forms["frame"]}), {"x": forms["frame"]})[
            0
        ]
        .data["x"]
        .index
    )


def test_of_equal_scores_the_simplest_answer_is_taken(model, table):
    def indifferent(fit, held):
        return 1.0

    found = mc.cross_validate([model, model], table, criterion=indifferent, weights=WEIGHTS[:2])
    assert found.best == (0, 0)
    lines = repr(found).splitlines()
    assert lines[0] == "CrossValidation: 2 models, 2 weights of NuclearNorm, 5 folds"
    assert lines[2].split() == ["0.3", "1", "±", "0*", "1", "±", "0"]


def test_fits_without_a_certificate_are_said_once(model, table):
    with pytest.warns(mc.NotCertifiedWarning, match="largest gap is") as said:
        mc.cross_validate(model, table, criterion=LabelError(), weights=WEIGHTS, tol=1e-15)
    assert [w.category for w in said].count(mc.NotCertifiedWarning) == 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"models": []}, "a Model or a list of them"),
        ({"models": "all"}, "models='all'"),
        ({"models": None}, "models=None"),
        ({"criterion": "error"}, "criterion='error' was given; a function of a fit"),
        ({"criterion": lambda fit: 1.0}, "criterion=<lambda> was given; a function of a fit"),
        ({"path": mc.path}, r"path=path was given; a function of \(model, data, weights\)"),
        ({"path": [1.0]}, r"path=\[1.0\] was given"),
        ({"path": lambda *_: None}, "path gave a NoneType; an iterable with a fit"),
        ({"path": lambda *_: []}, "path gave no fit"),
        ({"path": lambda *_: [1] * 9, "criterion": itself}, "more fits than the 4 weights"),
        (
            {"random_state": 1.5},
            "random_state=1.5 was given; an integer from 0, a gen",
        ),
        ({"weights": [0.1, 0.2]}, "they must descend"),
        ({"cv": 1}, "cv=1"),
        ({"cv": 500}, "'features': 500 folds were asked for, and"),
        ({"random_state": -1}, "random_state=-1"),
        ({"tol": -1.0}, "tol=-1.0"),
        ({"backend": "fast"}, "backend='fast'"),
    ],
)
def test_wrong_options_are_named(model, table, change, named):
    options = {"models": model, "criterion": LabelError(), "weights": WEIGHTS} | change
    with pytest.raises((mc.ModelError, mc.DataError), match=named):
        mc.cross_validate(options.pop("models"), table, **options)


@pytest.mark.slow(seconds=2)
def test_what_no_process_can_be_sent_is_said(model, table):
    lock = threading.Lock()

    def locked(fit, held):
        with lock:
            return 0.0

    with pytest.raises(mc.ModelError, match=r"cannot be sent .*lock.* or n_jobs=1"):
        mc.cross_validate(model, table, criterion=locked, weights=WEIGHTS, n_jobs=2)


def test_functions_without_a_module_can_be_sent(model, table):
    found = mc.cross_validate(
        model,
        table,
        criterion=lambda fit, held: fit,
        path=lambda model, data, weights: weights,
        weights=WEIGHTS,
        n_jobs=2,
    )
    assert found.best_weight == WEIGHTS[-1]


def test_an_error_says_on_which_path_it_was_raised(model, table):
    def failing(fit, held):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as raised:
        mc.cross_validate(model, table, criterion=failing, weights=WEIGHTS)
    assert raised.value.__notes__ == [
        "raised by cross_validate on the path of model 0, fold 0 or 1 or 2 or 3 or 4"
    ]


@pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")
def test_a_block_of_as_many_entries_as_folds():
    few = np.full((6, 4), np.nan)
    few[[0, 0, 1, 1], [0, 1, 0, 1]] = [1.0, 2.0, 3.0, 4.0]
    found = mc.cross_validate(
        gaussian(few), {"x": few}, criterion=HeldOutLoss(), weights=WEIGHTS[:2], cv=4
    )
    assert np.isfinite(found.scores).all()
    few[[0, 1, 1], [1, 0, 1]] = np.nan
    few[1, 1] = 3.0
    with pytest.raises(mc.DataError, match="2 entries are observed, of which 0 can be held out"):
        mc.cross_validate(
            gaussian(few), {"x": few}, criterion=HeldOutLoss(), weights=WEIGHTS[:2], cv=2
        )


def test_models_of_other_blocks_are_refused(model, table):
    other = attrs.evolve(model, blocks=model.blocks[:1])
    with pytest.raises(mc.ModelError, match="need the same blocks"):
        mc.cross_validate([model, other], table, criterion=LabelError(), weights=WEIGHTS)


def test_a_weight_without_a_number_is_never_the_best():
    scores = spread([3.0, 2.0, 1.0, 0.5, 2.0])
    scores[3, 1] = np.nan
    with pytest.warns(UserWarning, match="criterion itself is nan at weight 0.125") as said:
        found = judged(scores)
    assert len(said) == 1
    assert "of model 0 on fold 1: such" in str(said[0].message)
    assert found.best == (0, 2)
    assert np.isnan(found.means[0, 3])
    assert found.counted.all()


def test_a_fold_without_any_number_counts_for_none():
    scores = spread([3.0, 2.0, 1.0, 2.0])
    scores[:, 1] = np.nan
    with pytest.warns(UserWarning, match="on fold 1 and at 3 more places"):
        found = judged(scores)
    np.testing.assert_array_equal(found.counted, [True, False, True])
    np.testing.assert_allclose(found.means[0], scores[:, [0, 2]].mean(axis=1))
    assert found.best == (0, 2)
    assert "over 2 of 3 folds" in repr(found)


@pytest.mark.filterwarnings("ignore:criterion itself is nan")
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_choice_without_a_finite_mean(value):
    found = judged(np.full((3, 2), value))
    for name in ("best", "best_weight", "best_model", "at_edge"):
        with pytest.raises(mc.ModelError, match="no weight has a finite mean score"):
            getattr(found, name)
    np.testing.assert_array_equal(found.weights, [1.0, 0.5, 0.25])
    assert "no mean score is a finite number" in repr(found)


def test_each_model_has_a_grid_of_its_own(model, table):
    """Other weights of the labels move the largest weight; a common grid would miss the best."""
    models = [
        attrs.evolve(model, blocks=[model.blocks[0], attrs.evolve(model.blocks[1], weight=weight)])
        for weight in (0.01, 100.0)
    ]
    found = mc.cross_validate(
        models,
        table,
        criterion=HeldOutLoss("features"),
        weights=mc.selection.Grid(count=4),
        cv=2,
        tol=1e-3,
    )
    assert found.grids.shape == (2, 4)
    for own, grid in zip(models, found.grids, strict=True):
        assert grid[0] == mc.weight_max(own, table)
    chosen, position = found.best
    np.testing.assert_array_equal(found.weights, found.grids[chosen])
    assert found.best_weight == found.grids[chosen, position]
    assert found.best_model.terms == (mc.NuclearNorm(found.best_weight),)
    alone = mc.cross_validate(
        models[1],
        table,
        criterion=HeldOutLoss("features"),
        weights=found.grids[1],
        cv=2,
        tol=1e-3,
    )
    np.testing.assert_array_equal(alone.scores[0], found.scores[1])
    lines = repr(found).splitlines()
    assert "4 weights of NuclearNorm each" in lines[0]
    assert lines[1].split() == ["weight", "model", "0", "weight", "model", "1"]
    assert lines[2].split()[0] == f"{found.grids[0, 0]:.6g}"
    assert f"{found.grids[1, 0]:.6g}" in lines[2].split()


def test_models_may_differ_in_their_norm(table):
    blocks = gaussian(table).blocks
    models = [mc.Model(blocks, [term]) for term in (mc.NuclearNorm(1.0), mc.MaxNorm(1.0))]
    found = mc.cross_validate(
        models,
        {"x": table["features"]},
        criterion=HeldOutLoss(),
        weights=mc.selection.Grid(count=2),
        cv=2,
        tol=1e-2,
    )
    assert "2 weights of NuclearNorm or MaxNorm each" in repr(found)
    assert type(found.best_model.terms[0]) is type(models[found.best[0]].terms[0])


@pytest.mark.parametrize(
    ("means", "edge", "said"),
    [
        ([1.0, 2.0, 3.0], "largest", "give weights that begin higher"),
        ([3.0, 2.0, 1.0], "smallest", "give a smaller ratio, or smaller weights"),
        ([3.0, 1.0, 2.0], None, "* is the lowest"),
        ([3.0], None, "* is the lowest"),
    ],
)
def test_a_best_weight_at_an_edge_is_said(means, edge, said):
    found = judged(spread(means))
    assert found.at_edge == edge
    assert repr(found).splitlines()[-1].endswith(said)


@pytest.mark.filterwarnings("default:the lowest mean score is at")
@pytest.mark.parametrize(
    ("means", "named"),
    [
        ([1.0, 2.0, 3.0], "score is at the largest weight: .* give weights that begin higher"),
        ([3.0, 2.0, 1.0], "score is at the smallest weight that was tried: .* a smaller ratio"),
    ],
)
def test_a_best_weight_at_an_edge_is_warned_of_once(means, named):
    with pytest.warns(UserWarning, match=named) as said:
        judged(spread(means))
    assert len(said) == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("means", [[3.0, 1.0, 2.0], [2.0, 1.0], [1.0]])
def test_between_others_and_of_two_weights_no_edge_is_warned_of(means):
    assert judged(spread(means)).best == (0, int(np.argmin(means)))


def test_the_largest_weight_within_one_standard_error():
    scores = spread([9.0, 3.4, 2.8, 2.5, 2.6], noise=0.0)
    found = judged(scores)
    error = 1.0 / np.sqrt(3.0)  # of folds at -1, 0 and 1 around their mean
    assert found.standard_errors[0, 3] == pytest.approx(error)
    assert found.best == (0, 3)
    assert found.one_standard_error == (0, 2)
    assert found.one_standard_error_weight == 0.25
    assert found.one_standard_error_model.terms == (mc.NuclearNorm(0.25),)
    assert found.best_model.terms == (mc.NuclearNorm(0.125),)


def test_one_fold_has_no_standard_error_to_go_by():
    found = attrs.evolve(judged(spread([3.0, 1.0, 2.0])), counted=np.array([True, False, False]))
    with pytest.raises(mc.ModelError, match="only one fold counts; take best_model"):
        found.one_standard_error_weight  # noqa: B018


def test_the_table_has_a_row_for_each_model_and_weight(model, table):
    criteria = {"features": RelativeError(), "labels": LabelError()}
    found = mc.cross_validate([model, model], table, criterion=criteria, weights=WEIGHTS, cv=3)
    frame = found.table
    assert list(frame.columns) == [
        *("model", "weight", "mean", "standard_error", "folds", "features", "labels")
    ]
    assert frame["model"].tolist() == [0] * 4 + [1] * 4
    assert frame["weight"].tolist() == WEIGHTS * 2
    np.testing.assert_array_equal(frame["mean"], found.means.ravel())
    np.testing.assert_array_equal(frame["features"], frame["mean"])
    np.testing.assert_array_equal(frame["labels"], found.means_of("labels").ravel())
    np.testing.assert_array_equal(frame["standard_error"], found.standard_errors.ravel())
    assert set(frame["folds"]) == {3}


def test_what_was_not_tried_is_nan_in_the_table():
    found = judged(spread([9.0, 5.0, *[6.0] * 9]), patience=1)
    assert found.table["mean"].isna().sum() == np.isnan(found.means).sum() > 0


def test_progress_is_shown_when_asked_for(capsys):
    judged(spread([3.0, 1.0, 2.0]), progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines()[-1].startswith(
        "cross_validate: 3 of 3 paths, the best: weight 0.5 after"
    )
    judged(spread([3.0, 1.0, 2.0]), progress=True, patience=1)
    assert "cross_validate: 1 of 1 models, the best: weight 0.5 after" in capsys.readouterr().err
    judged(spread([3.0, 1.0, 2.0]))
    assert capsys.readouterr().err == ""
