"""scikit-learn's own checks of the estimators, and the behaviour that its imputers promise."""

import pickle

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import mcframe as mc
from mcframe.estimators import (
    MatrixCompletionClassifier,
    MatrixCompletionImputer,
    MatrixCompletionRegressor,
)
from mcframe.estimators.base import dealt_targets

ESTIMATORS = (MatrixCompletionImputer, MatrixCompletionClassifier, MatrixCompletionRegressor)


@parametrize_with_checks([kind(weight=1.0) for kind in ESTIMATORS])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Checks that fit several times, of which scikit-learn has a shorter form.
SELDOM = ("pickle", "data_not_an_array", "preserve_dtypes", "pipeline_consistency", "general")


def name_of(check):
    return getattr(check, "func", check).__name__


@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(
            *pair,
            marks=[pytest.mark.slow(seconds=1)] * name_of(pair[1]).endswith(SELDOM),
            id=f"{name_of(pair[1])}-{k}",
        )
        for k, pair in enumerate(estimator_checks_generator(MatrixCompletionImputer()))
    ],
)
def test_scikit_learn_checks_with_all_defaults(estimator, check):
    check(estimator)


@pytest.mark.slow(seconds=18)
@parametrize_with_checks([MatrixCompletionClassifier(), MatrixCompletionRegressor()])
def test_scikit_learn_checks_of_predictors_with_all_defaults(estimator, check):
    check(estimator)


def low_rank(n_rows, n_columns, rank, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n_rows, rank)) @ rng.random((rank, n_columns))


def with_holes(table, share, seed=1):
    holes = np.random.default_rng(seed).random(table.shape) < share
    return np.where(holes, np.nan, table)


def test_rank_one_is_recovered():
    table = np.outer(np.linspace(1.0, 3.0, 50), np.linspace(0.5, 2.0, 5))
    filled = MatrixCompletionImputer(weight=1e-2).fit_transform(with_holes(table, 0.3))
    assert np.allclose(filled, table, atol=0.02)


@pytest.mark.parametrize("rank", [3, 5])
def test_transform_recovers_rows_that_were_not_fitted(rank):
    table = low_rank(200, 50, rank)
    given = with_holes(table, 0.2)
    imputer = MatrixCompletionImputer(weight=1e-2).fit(given[:100])
    filled = imputer.transform(given[100:])
    assert np.allclose(filled, table[100:], atol=0.05 * np.std(table))


def test_an_additive_matrix_is_recovered():
    rng = np.random.default_rng(0)
    table = rng.standard_normal((100, 1)) + rng.standard_normal((1, 10))
    given = with_holes(table, 0.2)
    filled = MatrixCompletionImputer(weight=1e-2).fit_transform(given)
    assert np.allclose(filled, table, atol=0.02)


def test_what_is_observed_stays_as_it_was_to_the_bit():
    given = with_holes(1e7 + 1e-3 * low_rank(40, 6, 2), 0.2)
    filled = MatrixCompletionImputer(weight=1.0).fit_transform(given)
    seen = ~np.isnan(given)
    assert np.array_equal(filled[seen], given[seen])
    assert not np.isnan(filled).any()


@pytest.mark.parametrize("options", [{}, {"terms": [mc.NuclearNorm(1.0)], "tol": 1e-9}])
@pytest.mark.some(2, options=[1])
def test_the_order_of_columns_plays_no_part(options):
    X = load_wine().data[::4, :6]
    X = np.where(np.random.default_rng(3).random(X.shape) < 0.3, np.nan, X)
    order = [4, 0, 5, 3, 1, 2]
    first, second = (MatrixCompletionImputer(**options) for _ in range(2))
    filled = first.fit_transform(X)[:, order]
    np.testing.assert_allclose(second.fit_transform(X[:, order]), filled, rtol=1e-5)
    np.testing.assert_allclose(second.transform(X[:9, order]), filled[:9], rtol=1e-4)
    several = [
        MatrixCompletionRegressor().fit(X[:, own], first.fit_transform(X)[:, [1, 3]])
        for own in (range(6), order)
    ]
    np.testing.assert_allclose(several[0].predict(X), several[1].predict(X[:, order]), rtol=1e-5)


def test_nothing_missing_nothing_changed():
    table = low_rank(30, 4, 2)
    imputer = MatrixCompletionImputer()
    assert np.array_equal(imputer.fit_transform(table), table)
    assert np.array_equal(imputer.transform(table), table)


@pytest.mark.parametrize(
    ("lowest", "highest"), [(0.9, 1.1), ([0.9] * 5, [1.1] * 5), (-np.inf, 1.0)]
)
def test_what_is_filled_in_is_clipped(lowest, highest):
    given = with_holes(low_rank(60, 5, 3), 0.3)
    imputer = MatrixCompletionImputer(weight=0.1, min_value=lowest, max_value=highest)
    filled = imputer.fit_transform(given)
    new = filled[np.isnan(given)]
    assert new.min() >= np.min(lowest)
    assert new.max() <= np.max(highest)
    seen = ~np.isnan(given)
    assert np.array_equal(filled[seen], given[seen])


def test_limits_that_exclude_everything_are_refused():
    given = with_holes(low_rank(20, 3, 1), 0.2)
    with pytest.raises(mc.ModelError, match="min_value has to be below max_value"):
        MatrixCompletionImputer(min_value=1.0, max_value=1.0).fit(given)
    with pytest.raises(mc.ModelError, match=r"max_value of shape \(2,\) was given; one number"):
        MatrixCompletionImputer(max_value=[1.0, 2.0]).fit(given)


def test_tables_without_anything_to_learn_are_filled_with_levels():
    one_row = np.array([[1.0, 2.0, np.nan]])
    assert np.array_equal(MatrixCompletionImputer().fit_transform(one_row), [[1.0, 2.0]])
    alike = np.array([[3.0, 1.0], [3.0, 1.0], [np.nan, 1.0]])
    filled = MatrixCompletionImputer().fit_transform(alike)
    assert np.allclose(filled, [[3.0, 1.0]] * 3)
    assert np.allclose(MatrixCompletionRegressor().fit([[1.0]], [2.0]).predict([[5.0]]), 2.0)


def test_rows_are_gaussian_where_nothing_else_is_said():
    """Features that vary together; a class in the middle of two others."""
    rng = np.random.default_rng(0)
    X = with_holes(low_rank(60, 5, 2) + 0.1 * rng.standard_normal((60, 5)), 0.2)
    imputer = MatrixCompletionImputer().fit(X)
    assert imputer.completion_.status == "converged"
    search = imputer.prior_search_
    assert (search.components, imputer.prior_rows_, search.feature_noise) in search.tried
    assert imputer.model_.terms[0].prior_rows == imputer.prior_rows_
    given = MatrixCompletionImputer(terms="gaussian", weight=2.5).fit(X)
    assert (given.prior_rows_, hasattr(given, "prior_search_")) == (2.5, False)
    for other in ({"terms": [mc.NuclearNorm(1.0)]}, {"weight": 0.1}, {"likelihoods": mc.Huber()}):
        nuclear = MatrixCompletionImputer(**other).fit(X)
        assert isinstance(nuclear.model_.terms[0], mc.NuclearNorm)
    with pytest.raises(mc.ModelError, match="terms='ridge' was given; 'gaussian', a list"):
        MatrixCompletionImputer(terms="ridge").fit(X)
    with pytest.raises(mc.ModelError, match="weight=-1 was given; a finite number above 0"):
        MatrixCompletionImputer(terms="gaussian", weight=-1).fit(X)
    with pytest.raises(mc.ModelError, match="cv=1 was given; a whole number of at least 2"):
        MatrixCompletionImputer(cv=1).fit(X)
    with pytest.raises(mc.ModelError, match="takes all columns for numbers, and block 'Huber 0'"):
        MatrixCompletionImputer(likelihoods=mc.Huber(), terms="gaussian").fit(X)


def test_targets_are_held_out_as_they_will_be_asked_for():
    """Whole rows of complete targets; single entries of rows that have some of theirs."""
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((30, 4))
    whole[:5] = np.nan
    dealt = dealt_targets(whole, 3, rng)
    parts = np.sum([dealt == k for k in range(3)], axis=2)
    assert set(np.unique(parts)) == {0, 4}
    np.testing.assert_array_equal(np.sum(parts, axis=0), [0] * 5 + [4] * 25)
    some = np.where(rng.random(whole.shape) < 0.4, np.nan, whole)
    dealt = dealt_targets(some, 3, rng)
    folds = [dealt == k for k in range(3)]
    np.testing.assert_array_equal(np.sum(folds, axis=0), ~np.isnan(some))
    assert any(((held.sum(axis=1) > 0) & (held.sum(axis=1) < 4)).any() for held in folds)


def test_a_class_between_two_others_is_found():
    rng = np.random.default_rng(1)
    line = np.repeat([-1.0, 0.0, 1.0], 40)
    X = np.column_stack([line, -line]) + 0.15 * rng.standard_normal((120, 2))
    y = np.repeat(["low", "middle", "high"], 40)
    model = MatrixCompletionClassifier().fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.95
    proba = model.predict_proba(X[1::2])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    several = np.column_stack([y == "low", y == "high"]).astype(float)
    assert MatrixCompletionClassifier().fit(X, several).predict(X).mean() < 0.7


def test_wrong_weights_are_named():
    given = with_holes(low_rank(20, 3, 1), 0.2)
    with pytest.raises(mc.ModelError, match="weight='auto' was given; 'cv', a number, or None"):
        MatrixCompletionImputer(weight="auto").fit(given)
    with pytest.raises(mc.ModelError, match="weight=None was given, which is that of terms"):
        MatrixCompletionImputer(weight=None).fit(given)
    with pytest.raises(
        mc.ModelError, match=r"weight=-1 was given; a finite number above 0 is needed"
    ):
        MatrixCompletionImputer(weight=-1).fit(given)


@pytest.mark.parametrize("kept", [False, True])
def test_empty_features_are_dropped_or_filled_with_0(kept):
    given = np.column_stack([low_rank(20, 3, 1), np.full(20, np.nan)])
    given[3, 0] = np.nan
    imputer = MatrixCompletionImputer(weight=0.1, keep_empty_features=kept)
    filled = imputer.fit_transform(given)
    assert filled.shape == (20, 4 if kept else 3)
    if kept:
        assert np.array_equal(filled[:, 3], np.zeros(20))
    assert np.allclose(imputer.transform(given), filled, atol=1e-3)


def test_names_and_indicators_follow_the_table():
    frame = pd.DataFrame(with_holes(low_rank(20, 3, 1), 0.3), columns=["a", "b", "c"])
    imputer = MatrixCompletionImputer(weight=0.1, add_indicator=True).set_output(
        transform="pandas"
    )
    filled = imputer.fit_transform(frame)
    missing = [f"missingindicator_{name}" for name in frame if frame[name].isna().any()]
    assert list(filled.columns) == ["a", "b", "c", *missing]
    assert list(imputer.get_feature_names_out()) == list(filled.columns)
    indicated = filled[missing].to_numpy().astype(bool)
    named = [name.split("_")[1] for name in missing]
    assert np.array_equal(indicated, frame[named].isna().to_numpy())


def test_missing_values_of_pandas_and_numbers_that_stand_for_them():
    given = with_holes(low_rank(20, 3, 1), 0.3)
    nullable = pd.DataFrame(given).astype("Float64")
    marked = np.where(np.isnan(given), -1.0, given)
    plain = MatrixCompletionImputer(weight=0.1).fit_transform(given)
    assert np.array_equal(MatrixCompletionImputer(weight=0.1).fit_transform(nullable), plain)
    of_marked = MatrixCompletionImputer(weight=0.1, missing_values=-1.0).fit_transform(marked)
    assert np.array_equal(of_marked, plain)


def test_a_likelihood_for_a_column():
    rng = np.random.default_rng(0)
    score = rng.standard_normal(80)
    counts = rng.poisson(np.exp(0.5 * score + 1.0)).astype(float)
    labels = (score + 0.3 * rng.standard_normal(80) > 0).astype(float)
    given = np.column_stack([score + 0.1 * rng.standard_normal(80), labels, counts])
    given[:10, 1], given[10:20, 2] = np.nan, np.nan
    imputer = MatrixCompletionImputer({1: mc.Bernoulli(), 2: mc.Poisson()}, weight=1.0)
    filled = imputer.fit_transform(given)
    assert {type(block.likelihood) for block in imputer.model_.blocks} == {
        mc.Gaussian,
        mc.Bernoulli,
        mc.Poisson,
    }
    assert (filled[10:20, 2] > 0).all()
    assert set(filled[:10, 1]) == {0.0, 1.0}
    with pytest.raises(mc.ModelError, match="likelihoods names column 7, which is not in X"):
        MatrixCompletionImputer({7: mc.Poisson()}).fit(given)


def test_estimators_stand_in_a_pipeline_and_a_grid():
    X, y = load_breast_cancer(return_X_y=True)
    given = with_holes(X[:150, :8], 0.2)
    line = make_pipeline(MatrixCompletionImputer(weight=5.0), LogisticRegression(max_iter=5000))
    grid = {
        "matrixcompletionimputer__weight": [1.0, 20.0],
        "matrixcompletionimputer__likelihoods": [mc.Gaussian(), mc.Huber(1.0)],
    }
    search = GridSearchCV(line, grid, cv=2).fit(given, y[:150])
    assert len(search.cv_results_["params"]) == 4
    terms = GridSearchCV(
        MatrixCompletionClassifier(weight=None, terms=[mc.NuclearNorm(1.0)]),
        {"terms": [[mc.NuclearNorm(1.0)], [mc.NuclearNorm(5.0)]]},
        cv=2,
    )
    terms.fit(given, y[:150])
    assert terms.best_score_ > 0.85


def test_columns_of_a_frame_by_a_column_transformer():
    frame = pd.DataFrame(with_holes(low_rank(30, 3, 1), 0.2), columns=["a", "b", "c"])
    frame["text"] = "x"
    columns = ColumnTransformer(
        [("numbers", MatrixCompletionImputer(weight=0.1), ["a", "b", "c"])],
        remainder=FunctionTransformer(),
    ).set_output(transform="pandas")
    filled = columns.fit_transform(frame)
    assert not filled.isna().any().any()
    assert list(filled["remainder__text"]) == ["x"] * 30


def test_clones_pickles_and_processes_answer_alike():
    given = with_holes(low_rank(30, 4, 2), 0.2)
    imputer = MatrixCompletionImputer(weight=0.1).fit(given)
    expected = imputer.transform(given)
    again = pickle.loads(pickle.dumps(imputer))
    assert np.array_equal(again.transform(given), expected)
    assert np.array_equal(clone(imputer).fit(given).transform(given), expected)
    others = Parallel(n_jobs=2)(delayed(imputer.transform)(given) for _ in range(2))
    assert all(np.array_equal(other, expected) for other in others)


def test_classes_with_holes_on_both_sides():
    X, y = load_wine(return_X_y=True)
    names = load_wine().target_names.astype(object)[y]
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:120], order[120:]
    partly = names[train].copy()
    partly[:20] = None
    model = MatrixCompletionClassifier().fit(with_holes(X[train], 0.1), partly)
    assert list(model.classes_) == ["class_0", "class_1", "class_2"]
    assert model.completion_.status == "converged"
    predicted = model.predict(with_holes(X[test], 0.1))
    assert accuracy_score(names[test].astype(str), predicted.astype(str)) > 0.9
    assert np.allclose(model.predict_proba(X[test]).sum(axis=1), 1.0)
    transduced = model.predict(with_holes(X[train], 0.1))[:20]  # of the rows that had no label
    assert accuracy_score(names[train][:20].astype(str), transduced.astype(str)) > 0.9


def test_several_labels_with_holes():
    rng = np.random.default_rng(0)
    score = rng.standard_normal((120, 2))
    X = score @ rng.standard_normal((2, 6)) + 0.2 * rng.standard_normal((120, 6))
    y = (score @ rng.standard_normal((2, 4)) > 0).astype(float)
    given = with_holes(y, 0.4)
    model = MatrixCompletionClassifier(weight=2.0).fit(X, given)
    assert model.predict(X).shape == (120, 4)
    hidden = np.isnan(given)
    assert np.mean(model.predict(X)[hidden] == y[hidden]) > 0.8
    with pytest.raises(mc.DataError, match="y of several columns holds 2"):
        MatrixCompletionClassifier().fit(X, np.where(hidden, 2.0, y))


def test_rows_of_the_fit_are_answered_by_the_fit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = X @ [1.0, 2.0, 3.0] + 5.0 * rng.standard_normal(40)
    model = MatrixCompletionRegressor(weight=1.0).fit(X, y)
    known, close = model.predict(X), model.predict(X + 1e-9)
    expected = np.asarray(model.completion_.predict("targets"))[:, 0]
    assert np.array_equal(known, expected)
    assert r2_score(y, known) > r2_score(y, close)


def test_several_targets_with_holes_in_their_own_units():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    targets = X @ rng.standard_normal((5, 3)) * [1.0, 1e6, 1e-6] + [0.0, 1e9, 0.0]
    model = MatrixCompletionRegressor(weight=1.0).fit(X[:150], with_holes(targets[:150], 0.3))
    predicted = model.predict(X[150:])
    for column in range(3):
        assert r2_score(targets[150:, column], predicted[:, column]) > 0.9


def test_one_column_has_nothing_to_choose_a_weight_by():
    """Each row has one entry, so that none can be held out."""
    x = np.arange(40.0)[:, None]
    x[::7] = np.nan
    filled = MatrixCompletionImputer().fit(x).transform(x)
    assert np.isfinite(filled).all()


@pytest.mark.parametrize("weight", ["cv", 10.0])
def test_probabilities_of_classes_fit_held_out_ones_for_a_given_prior_too(weight):
    """Of three classes one lies between the others; indicators alone never name it."""
    features, classes = load_iris(return_X_y=True)
    model = MatrixCompletionClassifier(weight=weight, terms="gaussian")
    assert model.fit(features[::2], classes[::2]).score(features[1::2], classes[1::2]) > 0.93


def partly_labelled(seed, n_rows=150, n_new=500):
    """Features and labels of two factors, labels with holes, and new rows."""
    rng = np.random.default_rng(seed)
    of_features, of_labels = rng.standard_normal((2, 20)), rng.standard_normal((2, 6))
    factors = rng.standard_normal((n_rows + n_new, 2))
    features = 0.5 * factors @ of_features + 2.0 * rng.standard_normal((n_rows + n_new, 20))
    scores = factors @ of_labels + 0.3 * rng.standard_normal((n_rows + n_new, 6))
    labels = (scores > 0.0).astype(float)
    holes = np.where(rng.random((n_rows, 6)) < 0.4, np.nan, labels[:n_rows])
    holes[0] = np.nan
    return features[:n_rows], holes, features[n_rows:], labels[n_rows:]


def test_new_rows_have_a_posterior_of_their_own_where_rows_of_the_fit_have_some_labels():
    features, holes, new, truth = partly_labelled(0)
    model = MatrixCompletionClassifier().fit(features, holes)
    assert model.prior_search_.feature_noise > 0.001
    assert model.new_rows_ is not model.completion_
    own = np.mean((model.predict_proba(new) - truth) ** 2)
    # A row of the fit without labels is predicted like a new one.
    same = model.predict_proba(features[:1] + 1e-12)
    np.testing.assert_allclose(model.predict_proba(features[:1]), same, atol=1e-9)
    model.new_rows_, model.codings_ = model.completion_, [model.codings_[0]] * 2
    assert own <= 1.02 * np.mean((model.predict_proba(new) - truth) ** 2)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_probabilities_count_from_the_variances_of_the_posterior_that_answers(seed, n_classes):
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal(60)
    features = factor[:, None] + rng.standard_normal((60, 3))
    features = np.where(rng.random(features.shape) < 0.2, np.nan, features)
    scores = factor + 0.5 * rng.standard_normal(60)
    labels = np.searchsorted(np.quantile(scores, np.arange(1, n_classes) / n_classes), scores)
    model = MatrixCompletionClassifier().fit(features, labels)
    model.known_ = {}  # all samples are read as new ones, without their labels
    [(is_new, _, raw)] = model.raw_predictions(features, with_variances=True)
    [coding] = model.codings_[is_new]
    share_explained = 1.0 - np.clip(coding.variance_of_place(raw.variances), 0.2, 1.0)
    assert 1.0 - coding.reference_variance == pytest.approx(np.mean(share_explained), rel=1e-6)


@pytest.mark.parametrize("frame", [False, True])
def test_scores_are_those_of_samples_whose_targets_are_known(frame):
    features, holes, *_ = partly_labelled(0)
    table = pd.DataFrame(features) if frame else features
    one = holes[:, 0]
    known = ~np.isnan(one)
    words = np.where(known, np.where(one == 1.0, "yes", "no"), None)
    for model, targets in [
        (MatrixCompletionClassifier(weight=10.0), one),
        (MatrixCompletionClassifier(weight=10.0), words),
        (MatrixCompletionRegressor(weight=10.0), one),
    ]:
        fitted = model.fit(table, targets)
        expected = fitted.score(table[known] if frame else features[known], targets[known])
        assert fitted.score(table, targets, np.ones(len(one))) == pytest.approx(expected)
    several = MatrixCompletionClassifier(weight=10.0).fit(table, holes)
    whole = ~np.isnan(holes).any(axis=1)
    right = several.predict(table[whole] if frame else features[whole]) == holes[whole]
    assert several.score(table, holes) == pytest.approx(np.mean(right.all(axis=1)))
    with pytest.raises(mc.DataError, match="nothing to score"):
        several.score(table, np.full(holes.shape, np.nan))


@pytest.mark.parametrize("y", [np.zeros(29), np.r_[np.zeros(15), np.ones(14)]])
def test_features_and_labels_have_one_length(y):
    X = np.random.default_rng(0).standard_normal((30, 3))
    with pytest.raises(mc.DataError, match="X has 30 rows and y 29"):
        MatrixCompletionClassifier().fit(X, y)
