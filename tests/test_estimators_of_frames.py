"""Estimators of DataFrames with text, categories, truth values and dates, and of a given model."""

import pickle
from functools import partial

import attrs
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import mcframe as mc
from mcframe.contracts.errors import NoInfluence
from mcframe.estimators import (
    MatrixCompletionClassifier,
    MatrixCompletionImputer,
    MatrixCompletionRegressor,
)
from tests.test_declare import mixed

NAN = np.nan
ESTIMATORS = (MatrixCompletionImputer, MatrixCompletionClassifier, MatrixCompletionRegressor)
imputer_of = partial(MatrixCompletionImputer, weight=2.0, types={"day": "date"})


def fitted(estimator, X):
    """An estimator fitted to a table of 60 rows, with the numbers 0 and 1 as targets."""
    if isinstance(estimator, MatrixCompletionImputer):
        return estimator.fit(X)
    return estimator.fit(X, np.arange(len(X)) % 2)


def answer(estimator, X):
    ask = "transform" if isinstance(estimator, MatrixCompletionImputer) else "predict"
    return getattr(estimator, ask)(X)


def sentence_of(error, call):
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


# Filling


def test_a_table_of_any_columns_is_filled_in_its_own_dtypes():
    frame = mixed()
    imputer = imputer_of()
    filled = imputer.fit_transform(frame)
    pd.testing.assert_series_equal(filled.dtypes, frame.dtypes)
    assert not filled.isna().to_numpy().any()
    pd.testing.assert_frame_equal(filled.where(frame.notna()), frame)
    pd.testing.assert_frame_equal(filled, imputer.declared_.table(imputer.completion_))
    assert imputer.completion_.status == "certified"


def test_new_rows_are_filled_by_the_rule_for_them():
    frame = mixed()
    imputer = imputer_of().fit(frame.iloc[:50])
    new = frame.iloc[50:]
    filled = imputer.transform(new)
    declared, fit = imputer.declared_, imputer.completion_
    pd.testing.assert_frame_equal(filled, declared.complete_rows(fit, new))
    pd.testing.assert_series_equal(filled.dtypes, frame.dtypes)
    assert not filled.isna().to_numpy().any()
    for other in (pickle.loads(pickle.dumps(imputer)), clone(imputer).fit(frame.iloc[:50])):
        pd.testing.assert_frame_equal(other.transform(new), filled)


@pytest.mark.slow(seconds=2)
def test_a_weight_is_chosen_for_mixed_columns():
    terms = [mc.NuclearNorm(1.0)]
    imputer = MatrixCompletionImputer(terms=terms, n_weights=4, types={"day": "skip"})
    imputer.fit(mixed())
    assert imputer.cross_validation_.best_weight > 0.0


@pytest.mark.parametrize("asked", ["default", "pandas", "polars"])
@pytest.mark.parametrize("given", ["pandas", "polars"])
@pytest.mark.some(0.3)
def test_the_library_is_the_own_one_or_the_one_that_is_asked_for(given, asked):
    frame = mixed().drop(columns="day")
    table = frame if given == "pandas" else pl.from_pandas(frame)
    imputer = imputer_of(types=None, add_indicator=True).set_output(transform=asked)
    filled = imputer.fit_transform(table)
    wanted = given if asked == "default" else asked
    assert isinstance(filled, {"pandas": pd.DataFrame, "polars": pl.DataFrame}[wanted])
    missing = [f"missingindicator_{name}" for name in frame if frame[name].isna().any()]
    assert list(filled.columns) == [*frame.columns, *missing]
    assert list(imputer.get_feature_names_out()) == list(filled.columns)
    assert filled["weight"].dtype == (float if wanted == "pandas" else pl.Float64)
    indicated = np.column_stack([filled[name] for name in missing])
    named = [name.removeprefix("missingindicator_") for name in missing]
    np.testing.assert_array_equal(indicated, frame[named].isna())
    assert list(filled["town"]) == list(imputer_of(types=None).fit_transform(frame)["town"])


@pytest.mark.parametrize("asked", ["pandas", "polars"])
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, np.asarray])
def test_tables_of_numbers_come_out_in_the_library_that_is_asked_for(library, asked):
    frame = mixed()[["length", "weight"]]
    table = library(frame.to_numpy() if library is np.asarray else frame.to_dict("list"))
    imputer = MatrixCompletionImputer(weight=1.0)
    filled = imputer.set_output(transform=asked).fit_transform(table)
    assert type(filled).__module__.startswith(asked)
    wanted = MatrixCompletionImputer(weight=1.0).fit_transform(frame.to_numpy())
    np.testing.assert_array_equal(filled.to_numpy(), wanted)


@pytest.mark.parametrize("kept", [False, True])
def test_columns_without_an_observed_entry_are_dropped_or_kept(kept):
    frame = mixed().drop(columns="day").assign(empty=NAN, nothing=None)
    imputer = imputer_of(types=None, keep_empty_features=kept)
    if not kept:
        assert list(imputer.fit_transform(frame)) == list(frame)[:-2]
        assert list(imputer.transform(frame.iloc[:2])) == list(imputer.get_feature_names_out())
        return
    said = "columns that are set aside are neither used nor filled: 'nothing' (not on"
    with pytest.warns(UserWarning, match="neither used nor filled") as told:
        filled = imputer.fit_transform(frame)
    assert [str(each.message)[: len(said)] for each in told] == [said]
    assert list(filled) == list(frame)
    assert (filled["empty"] == 0.0).all()
    assert filled["nothing"].isna().all()


def test_columns_that_keep_their_holes_are_named():
    with pytest.warns(UserWarning, match="neither used nor filled") as told:
        filled = imputer_of(types=None).fit_transform(mixed())
    assert [str(each.message) for each in told] == [
        "columns that are set aside are neither used nor filled: 'day' (dates;"
        " types={'day': 'date'} takes them as days); types={name: kind} declares them,"
        " types={name: 'skip'} confirms this"
    ]
    assert filled["day"].isna().any()
    assert imputer_of(types={"day": "skip"}).fit_transform(mixed())["day"].isna().any()


def test_options_of_tables_of_numbers_are_refused_beside_others():
    def refusal(**options):
        return sentence_of(mc.ModelError, lambda: imputer_of(**options).fit(mixed()))

    assert refusal(max_value=3.0) == (
        "min_value or max_value was given for a table whose columns are not all numbers; give"
        " bounds of a column by types={name: ('number', lower, upper)}"
    )
    assert refusal(likelihoods=mc.Huber()) == (
        "likelihoods=Huber(delta=1.0) was given for a table whose columns are not all numbers;"
        " give those of single columns, by name: likelihoods={name: likelihood}"
    )
    assert refusal(unseen="drop") == "unseen='drop' was given; 'missing' or 'error' is needed"


def test_types_and_likelihoods_say_what_columns_are():
    imputer = imputer_of(likelihoods={"length": mc.Huber()}, types={"visits": "count"})
    with pytest.warns(UserWarning, match="neither used nor filled: 'day'"):
        imputer.fit(mixed())
    kinds = {type(block.likelihood) for block in imputer.model_.blocks}
    assert {mc.Huber, mc.Poisson, mc.Gaussian, mc.Bernoulli} <= kinds
    numbers = mixed()[["length", "visits"]].astype(float)
    counted = imputer_of(types={"visits": "count"}).fit(numbers)
    assert mc.Poisson() in [block.likelihood for block in counted.model_.blocks]


# Predicting


def test_classes_are_predicted_from_columns_of_any_kind():
    rng = np.random.default_rng(0)
    z = rng.standard_normal(200)
    noisy = z[:, None] + 0.4 * rng.standard_normal((200, 4))
    frame = pd.DataFrame(
        {
            "a": noisy[:, 0],
            "b": 1e6 - 1e3 * noisy[:, 1],
            "kind": np.array(["u", "v", "w"])[np.digitize(noisy[:, 2], [-0.5, 0.5])],
            "yes": noisy[:, 3] > 0.0,
        }
    ).astype({"yes": "boolean"})
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    y = np.where(z > 0.0, "up", "down")
    model = MatrixCompletionClassifier(weight=3.0).fit(frame[:150], y[:150])
    with_text = np.mean(model.predict(frame[150:]) == y[150:])
    numbers = MatrixCompletionClassifier(weight=3.0).fit(frame[["a", "b"]][:150], y[:150])
    assert with_text > np.mean(numbers.predict(frame[["a", "b"]][150:]) == y[150:])
    assert with_text > 0.8
    shares, known = model.predict_proba(frame[:150])[:, 1], model.completion_.predict("targets")
    once = frame[:150]["a"].notna()  # rows that stand in the fit more than once count as new
    np.testing.assert_array_equal(shares[once], known[once, 0])
    scores = cross_val_score(MatrixCompletionClassifier(weight=3.0), frame, y, cv=3)
    assert scores.mean() > 0.8
    regressor = MatrixCompletionRegressor(weight=3.0).fit(frame[:150], z[:150])
    assert np.corrcoef(regressor.predict(frame[150:]), z[150:])[0, 1] > 0.8


@pytest.mark.parametrize("library", [pd.Series, pl.Series])
def test_whole_labels_with_nulls_stay_whole(library):
    y = [1, 0, None, 1, 0] * 8
    y = library(y, dtype="Int64") if library is pd.Series else library("y", y)
    model = MatrixCompletionClassifier(weight=3.0).fit(np.eye(40)[:, :4], y)
    np.testing.assert_array_equal(model.classes_, [0, 1])
    assert model.classes_.dtype.kind == "i"


def test_features_that_play_no_part_are_named():
    frame = mixed().assign(name=[f"n{k}" for k in range(60)])
    with pytest.warns(UserWarning, match="are not used") as told:
        fitted(MatrixCompletionRegressor(weight=1.0), frame)
    assert [str(each.message) for each in told] == [
        "columns that are set aside are not used: 'day' (dates; types={'day': 'date'} takes them"
        " as days), 'name' (text, and all 60 values differ, as of an identifier); types={name:"
        " kind} declares them, types={name: 'skip'} confirms this"
    ]


@pytest.mark.slow(seconds=1)
def test_estimators_of_frames_stand_in_pipelines():
    frame = mixed().drop(columns=["day"])
    y = np.arange(60) % 2
    encoded = ColumnTransformer(
        [
            ("numbers", StandardScaler(), ["length", "weight", "visits"]),
            ("others", OneHotEncoder(), ["ill", "sex", "stage", "town"]),
        ]
    )
    imputer = MatrixCompletionImputer(weight=2.0)
    line = make_pipeline(imputer, encoded, LogisticRegression(max_iter=1000))
    grid = {
        "matrixcompletionimputer__weight": [2.0, 20.0],
        "matrixcompletionimputer__types": [None, {"visits": "count"}],
    }
    search = GridSearchCV(line, grid, cv=2, error_score="raise").fit(frame, y)
    assert len(search.cv_results_["params"]) == 4
    numbers = ColumnTransformer(
        [("own", imputer, ["town", "length"])], remainder="drop"
    ).set_output(transform="pandas")
    assert list(numbers.fit_transform(frame)) == ["own__town", "own__length"]


# Bad input, for every estimator


@pytest.fixture(params=ESTIMATORS, ids=lambda kind: kind.__name__)
def estimator(request):
    return request.param(weight=2.0, types={"day": "date"})


def test_values_never_seen_count_as_missing_or_are_refused(estimator):
    frame = mixed()
    fitted(estimator, frame)
    new = frame.iloc[:2].assign(town="Wien", length=[1.0, 2.0])
    said = "values that the model does not know: 'Wien' in column 'town'"
    with pytest.warns(UserWarning, match="does not know") as told:
        found = answer(estimator, new)
    assert [str(each.message) for each in told] == [
        f"{said}; they count as missing there, and stay as they are"
    ]
    wanted = answer(estimator, new.assign(town=None))
    if isinstance(estimator, MatrixCompletionImputer):  # which never changes an observed entry
        wanted = wanted.assign(town="Wien")
    np.testing.assert_array_equal(found, wanted)
    fitted(estimator.set_params(unseen="error"), frame)
    assert sentence_of(mc.DataError, lambda: answer(estimator, new)) == (
        f"{said}; unseen='missing' takes them as missing"
    )


def test_columns_in_another_order_or_absent_are_refused_as_elsewhere(estimator):
    frame = mixed()
    fitted(estimator, frame)
    said = "The feature names should match those that were passed during fit.\n"
    assert sentence_of(ValueError, lambda: answer(estimator, frame[frame.columns[::-1]])) == (
        f"{said}Feature names must be in the same order as they were in fit.\n"
    )
    assert sentence_of(ValueError, lambda: answer(estimator, frame.drop(columns="town"))) == (
        f"{said}Feature names seen at fit time, yet now missing:\n- town\n"
    )


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (
            pd.DataFrame([[1.0, "a", 3.0]] * 60, columns=["x", "y", "x"]),
            "2 columns of the table have the name 'x'; rename or drop all but one",
        ),
        (
            pd.DataFrame([[1.0, 2.0]] * 60, columns=["x", "x"]),
            "2 columns of the table have the name 'x'; rename or drop all but one",
        ),
        (
            mixed().iloc[:0],
            "the table has 0 rows and 8 columns; at least one of each is needed",
        ),
        (
            mixed().assign(length=np.inf),
            "column 'length': value inf in row 0; every observed value must be finite. Replace"
            " infinities by NaN if they stand for missing values",
        ),
        (
            mixed().assign(length=pd.arrays.SparseArray([0.0, 1.0] * 30, fill_value=0)),
            "column 'length': the column is sparse (dtype Sparse[float64, 0]), and what it does"
            " not store may be missing or an observed zero. Give"
            " frame['length'].sparse.to_dense() as the column, with NaN where a value is missing",
        ),
        (
            mixed().to_numpy(),
            "an ndarray was given; a DataFrame of pandas or polars or a Table of pyarrow is needed"
            " (collect a lazy one first, make a pandas.DataFrame of an array)",
        ),
    ],
    ids=["names", "names of numbers", "rows", "infinity", "sparse", "array"],
)
def test_tables_that_cannot_be_read(estimator, frame, sentence):
    assert sentence_of(mc.DataError, lambda: fitted(estimator, frame)) == sentence


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([1.5, "a"] * 30, "it mixes numbers (1.5 in row 0) and text ('a' in row 1); give it one"),
        (["1,5", "2,5", "3"] * 20, "text of numbers with commas ('1,5' in row 0), which may"),
        (["0,5", "-0,25", "3"] * 20, "text of numbers with commas ('0,5' in row 0), which may"),
        (
            list(pd.date_range("2020-01-01", periods=60, tz="Europe/Berlin")),
            "dates; types={'odd': 'date'} takes them as days",
        ),
    ],
    ids=["mixed", "text", "decimals", "zone"],
)
def test_columns_that_say_nothing_are_named(estimator, values, why):
    """An imputer gives them back as they were, the others do without them."""
    frame = mixed().assign(odd=pd.Series(values))
    frame.loc[59, "odd"] = None
    with pytest.warns(UserWarning, match="columns that are set aside") as told:
        fitted(estimator, frame)
    assert len(told) == 1
    assert f"'odd' ({why}" in str(told[0].message)


def test_dates_with_a_zone_come_back_with_it():
    days = pd.Series(pd.date_range("2020-03-01", periods=60, tz="Europe/Berlin"))
    days[5] = pd.NaT
    frame = mixed().assign(day=days)
    filled = imputer_of().fit_transform(frame)["day"]
    assert filled.dtype == days.dtype
    assert filled.notna().all()
    pd.testing.assert_series_equal(filled.drop(5), days.drop(5), check_names=False)


def test_rows_with_one_label_are_rows_of_their_own(estimator):
    """Labels of the index are no names of rows here, and come back as they were."""
    plain, alike = mixed(), mixed().set_axis(["i"] * 60)
    found = answer(fitted(estimator, alike), alike)
    wanted = answer(fitted(clone(estimator), plain), plain)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
    if isinstance(found, pd.DataFrame):
        assert list(found.index) == ["i"] * 60


@pytest.mark.parametrize("shape", [(20_000, 3), (3, 1_000)])
@pytest.mark.some(2, shape=1)
def test_long_and_wide_tables(shape):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal(shape)).add_prefix("x").round(2)
    frame["kind"] = np.where(frame["x0"] > 0.0, "up", "down")
    frame.iloc[1, 1] = NAN
    frame.loc[2, "kind"] = None
    imputer = MatrixCompletionImputer(weight=1.0)
    assert not imputer.fit_transform(frame).isna().to_numpy().any()
    assert not imputer.transform(frame).isna().to_numpy().any()


# A given model


ROUGH = mc.Model(
    [mc.Block("x", mc.Huber(0.5), standardize=True, bias=True)], [mc.NuclearNorm(1.0)]
)


def test_a_model_is_fitted_as_it_was_given():
    X = mixed()[["length", "weight", "visits"]].astype(float).to_numpy()
    X[31, 0] = 1000.0
    imputer = MatrixCompletionImputer(model=ROUGH, weight=None)
    filled = imputer.fit_transform(X)
    assert imputer.model_ == ROUGH
    wanted = mc.fit(ROUGH, {"x": X}, tol=1e-5, max_iter=20_000, random_state=0)
    np.testing.assert_array_equal(filled, wanted.impute("x"))
    again = pickle.loads(pickle.dumps(clone(imputer).fit(X)))
    np.testing.assert_array_equal(again.transform(X[:5]), imputer.transform(X[:5]))
    assert imputer.get_params()["model"] is ROUGH
    weighted = MatrixCompletionImputer(model=ROUGH, weight=7.0).fit(X)
    assert weighted.model_ == attrs.evolve(ROUGH, terms=(mc.NuclearNorm(7.0),))


def test_targets_stand_beside_the_block_of_a_model():
    X = mixed()[["length", "weight", "visits"]].astype(float).to_numpy()
    y = X[:, 0] > 1000.0
    search = GridSearchCV(
        MatrixCompletionClassifier(weight=None),
        {"model": [ROUGH, attrs.evolve(ROUGH, terms=[mc.NuclearNorm(3.0)])]},
        cv=2,
        error_score="raise",
    ).fit(X, y)
    names = [block.name for block in search.best_estimator_.model_.blocks]
    assert names == ["x", "targets"]
    assert search.best_score_ > 0.6


def test_a_model_has_the_blocks_that_a_frame_is_declared_as():
    frame = mixed().drop(columns="day")
    model, _ = mc.declare(frame)
    changed = attrs.evolve(model, terms=[*model.terms, mc.Ridge(0.1)])
    imputer = MatrixCompletionImputer(model=changed, weight=None).fit(frame)
    assert imputer.model_ == changed
    other = MatrixCompletionImputer(model=changed, weight=None)
    assert sentence_of(mc.ModelError, lambda: other.fit(frame.drop(columns="town"))) == (
        "model has the blocks '3 classes', 'labels', \"levels of 'stage'\", 'numbers', and X is"
        " declared as 'labels', \"levels of 'stage'\", 'numbers'; change the model of"
        " mc.declare(X, types) by attrs.evolve"
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"model": "auto"}, "model='auto' was given; a Model or None is needed"),
        (
            {"model": ROUGH, "terms": [mc.NuclearNorm(1.0)]},
            "model was given, and likelihoods or terms beside it, which a model has already; give"
            " one or the other",
        ),
        (
            {"model": ROUGH, "likelihoods": mc.Huber()},
            "model was given, and likelihoods or terms beside it, which a model has already; give"
            " one or the other",
        ),
        (
            {"model": mc.Model([*ROUGH.blocks, mc.Block("y", mc.Huber())], ROUGH.terms)},
            "model has the blocks 'x', 'y'; a table of numbers is one block. Give a model of one,"
            " or likelihoods={column: likelihood} in its place",
        ),
    ],
    ids=["kind", "terms", "likelihoods", "blocks"],
)
def test_models_that_do_not_fit_are_refused(options, sentence):
    X = np.arange(12.0).reshape(4, 3) ** 2
    call = MatrixCompletionImputer(**options).fit
    assert sentence_of(mc.ModelError, lambda: call(X)) == sentence


def test_the_name_of_the_block_of_targets_is_taken():
    model = attrs.evolve(ROUGH, blocks=[attrs.evolve(ROUGH.blocks[0], name="targets")])
    call = MatrixCompletionRegressor(model=model).fit
    X = np.arange(12.0).reshape(4, 3) ** 2
    assert sentence_of(mc.ModelError, lambda: call(X, X[:, 0])) == (
        "model has a block 'targets', the name of the block of y, which is put beside those of"
        " the model; call it otherwise"
    )


# What is no lack of something to learn


def test_only_a_weight_without_influence_says_that_nothing_is_to_be_learnt(monkeypatch):
    """Other errors of the search for a weight are the user's to hear."""

    def overflows(*_):
        raise mc.ModelError("a loss overflows at Z = 0")

    X = np.arange(12.0).reshape(4, 3) ** 2
    alike = np.ones((4, 3))
    with pytest.raises(NoInfluence, match="the weight of NuclearNorm has no influence"):
        mc.weight_max(ROUGH, {"x": alike})
    assert MatrixCompletionImputer(model=ROUGH).fit(alike).model_ == ROUGH
    monkeypatch.setattr("mcframe.selection.grid.largest_weight", overflows)
    with pytest.raises(mc.ModelError, match="a loss overflows at Z = 0"):
        MatrixCompletionImputer(terms=[mc.NuclearNorm(1.0)]).fit(X)
