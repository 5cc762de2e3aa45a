"""The verb cross_validate: its folds, its scores, its choice."""

import attrs
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.model import Problem
from mcframe.papers import fixed_point_path, mc_b
from mcframe.selection import HeldOutLoss, LabelError, RelativeError, drawn_folds

WEIGHTS = [0.3, 0.1, 0.03, 0.01]


def gaussian(table):
    return mc.Model([mc.Block("x", mc.Gaussian(), reduce="mean")], [mc.NuclearNorm(1.0)])


def test_every_observed_entry_is_held_out_once(model, table):
    problem = Problem.bind(model, table)
    folds = drawn_folds(problem, table, 4, np.random.default_rng(0))
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


def test_scores_are_those_of_paths_fitted_by_hand(model, table):
    found = mc.cross_validate(
        model, table, criterion=LabelError("labels"), weights=WEIGHTS, folds=3, tol=1e-6
    )
    folds = drawn_folds(Problem.bind(model, table), table, 3, np.random.default_rng(0))
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
    options = {"criterion": HeldOutLoss(), "weights": WEIGHTS[:2], "folds": 2, "random_state": 5}
    alone = mc.cross_validate(models, table, **options)
    assert alone.scores.shape == (2, 2, 2)
    together = mc.cross_validate(models, table, jobs=2, **options)
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


def test_patience_ends_a_path_for_all_folds_at_once(model, table):
    options = {
        "criterion": RelativeError("features"),
        "weights": np.geomspace(0.1, 1e-3, 8),
        "folds": 3,
        "tol": 1e-2,
    }
    whole = mc.cross_validate(model, table, **options)
    ended = mc.cross_validate(model, table, patience=2, **options)
    tried = ~np.isnan(ended.scores)
    np.testing.assert_array_equal(ended.scores[tried], whole.scores[tried])
    assert 0 < (~tried).sum() < tried.sum()
    np.testing.assert_array_equal(tried[0, :, 0], tried[0, :, -1])
    last = int(tried[0, :, 0].sum()) - 1
    assert np.all(whole.means[0, last - 1 : last + 1] > whole.means[0, : last - 1].min())
    assert ended.best == whole.best
    assert "-" in repr(ended).splitlines()[-2].split()


def test_a_path_of_ones_own(table):
    """The published algorithm in the place of mc.path."""
    found = mc.cross_validate(
        [mc_b(1.0, 0.1), mc_b(1.0)],
        table,
        criterion=LabelError(),
        weights=[0.1, 0.025],
        path=fixed_point_path,
        folds=2,
    )
    fold = drawn_folds(Problem.bind(mc_b(1.0), table), table, 2, np.random.default_rng(0))[1]
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
    options = {"criterion": RelativeError("x"), "weights": WEIGHTS, "folds": 3}
    expected = mc.cross_validate(model, {"x": x}, **options)
    for name, given in forms.items():
        folds = drawn_folds(
            Problem.bind(model, {"x": given}), {"x": given}, 3, np.random.default_rng(0)
        )
        kind = sp.coo_array if name == "sparse" else type(given)
        assert isinstance(folds[0].data["x"], kind)
        found = mc.cross_validate(model, {"x": given}, **options)
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)
    assert list(forms["frame"].index) == list(
        drawn_folds(
            Problem.bind(model, {"x": forms["frame"]}),
            {"x": forms["frame"]},
            2,
            np.random.default_rng(0),
        )[0]
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
        mc.cross_validate(model, table, criterion=LabelError(), weights=WEIGHTS, max_iter=2)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"models": []}, "a Model or a list of them"),
        ({"models": "all"}, "models='all'"),
        ({"criterion": "error"}, "criterion='error' was given; a function of a fit"),
        ({"weights": [0.1, 0.2]}, "they must descend"),
        ({"folds": 1}, "folds=1"),
        ({"folds": 500}, "'features': 500 folds were asked for, and"),
        ({"patience": 0}, "patience=0"),
        ({"random_state": -1}, "random_state=-1"),
        ({"tol": -1.0}, "tol=-1.0"),
        ({"backend": "fast"}, "backend='fast'"),
    ],
)
def test_wrong_options_are_named(model, table, change, named):
    options = {"models": model, "criterion": LabelError(), "weights": WEIGHTS} | change
    with pytest.raises((mc.ModelError, mc.DataError), match=named):
        mc.cross_validate(options.pop("models"), table, **options)


def test_models_of_other_blocks_are_refused(model, table):
    other = attrs.evolve(model, blocks=model.blocks[:1])
    with pytest.raises(mc.ModelError, match="need the same blocks"):
        mc.cross_validate([model, other], table, criterion=LabelError(), weights=WEIGHTS)
