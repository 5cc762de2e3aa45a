"""New items: the rule of Zheng and Hastie for rows that were not in the fit."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mcframe as mc


def fitted(likelihood, values, *, tol=1e-12, **block):
    """One block of features and one of another kind, fitted almost exactly."""
    features = values["features"]
    model = mc.Model(
        [mc.Block("features", mc.Gaussian(), reduce="mean"), mc.Block("y", likelihood, **block)],
        [mc.NuclearNorm(0.05)],
    )
    return mc.fit(model, {"features": features, "y": values["y"]}, tol=tol)


@pytest.fixture
def counts(table):
    rng = np.random.default_rng(3)
    y = rng.poisson(np.exp(0.5 * np.nan_to_num(table["features"][:, :4]))).astype(float)
    y[rng.random(y.shape) < 0.3] = np.nan
    return {"features": table["features"], "y": y}


def test_rows_of_the_fit_come_out_as_fitted(table):
    values = {"features": table["features"], "y": table["labels"]}
    fit = fitted(mc.Bernoulli(), values, weight=0.5, reduce="mean", bias=True)
    for name in ("features", "y"):
        np.testing.assert_allclose(fit.predict_rows(values, name), fit.predict(name), atol=1e-5)


def test_counts_too_and_weights(counts):
    """Poisson has no bound on its curvature: the Newton steps are shortened where needed."""
    weights = np.random.default_rng(0).integers(1, 4, counts["y"].shape).astype(float)
    values = {**counts, "y": mc.Observations(counts["y"], weights=weights)}
    fit = fitted(mc.Poisson(), values, weight=0.02, reduce="sum")
    found = fit.predict_rows(values, "y")
    np.testing.assert_allclose(found, fit.predict("y"), atol=1e-4)


def graded(rng, scores):
    """Three levels, and three classes, of four columns each."""
    return np.digitize(scores, [-0.5, 0.7]) + 1.0, rng.integers(0, 3, scores.shape).astype(float)


@pytest.mark.parametrize(
    "likelihood",
    [
        mc.Ordinal(3),
        mc.Multinomial(3),
        mc.Huber(0.5),
        mc.RiskMixture(pn=0.5, pu=0.5, missing_rate=0.5, likelihood=mc.Bernoulli()),
    ],
    ids=lambda likelihood: type(likelihood).__name__,
)
def test_other_losses_too(table, likelihood):
    """Fitted thresholds, classes, unlabeled entries: what belongs to the fit stays as it is."""
    scores = np.nan_to_num(table["features"][:, :4])
    levels, classes = graded(np.random.default_rng(1), scores)
    word = type(likelihood).__name__
    y = {"Ordinal": levels, "Multinomial": classes, "RiskMixture": table["labels"]}.get(
        word, scores
    )
    values = {"features": table["features"], "y": y}
    fit = fitted(likelihood, values, tol=1e-10, weight=0.2, reduce="mean")
    found = fit.predict_rows(values, "y")
    assert np.shape(found) == np.shape(fit.predict("y"))
    np.testing.assert_allclose(found, fit.predict("y"), atol=1e-4)


def test_the_score_minimises_its_own_objective(table):
    """Of a new row, from its features alone: no nearby score is better."""
    values = {"features": table["features"], "y": table["labels"]}
    fit = fitted(mc.Bernoulli(), values, weight=0.5, reduce="mean", bias=True, tol=1e-9)
    new = np.full((1, 8), np.nan)
    new[0, :3] = 1.0, -2.0, 0.5
    found = fit.predict_rows({"features": new}, "features")[0]
    _, s, right = np.linalg.svd(fit.latent.dense(), full_matrices=False)
    rank = fit.rank
    v = right[:rank].T * np.sqrt(s[:rank])
    scale = 1.0 / np.count_nonzero(~np.isnan(table["features"]))
    normal = scale * v[:3].T @ v[:3] + 0.05 * np.eye(rank)
    u = np.linalg.solve(normal, scale * v[:3].T @ new[0, :3])
    np.testing.assert_allclose(found, v[:8] @ u, atol=1e-9)
    labels = 1 / (1 + np.exp(-(v[8:] @ u + fit.bias("y"))))
    np.testing.assert_allclose(fit.predict_rows({"features": new}, "y")[0], labels, atol=1e-9)


def test_names_of_new_rows_are_kept_and_columns_checked():
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=list("abc"))
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)])
    fit = mc.fit(model, {"x": frame})
    new = pd.DataFrame([[1.0, np.nan, 3.0]], columns=list("abc"), index=["late"])
    found = fit.predict_rows({"x": new}, "x")
    assert list(found.columns) == list("abc")
    assert list(found.index) == ["late"]
    with pytest.raises(mc.DataError, match="column 'c' where the fit has 'a'"):
        fit.predict_rows({"x": new[list("cba")]}, "x")
    with pytest.raises(mc.DataError, match="2 columns were given; the fit has 3"):
        fit.predict_rows({"x": np.ones((1, 2))}, "x")
    with pytest.raises(mc.DataError, match="no data of new rows"):
        fit.predict_rows({}, "x")


@pytest.mark.parametrize("verb", ["predict_rows", "impute_rows"])
def test_new_rows_that_are_no_dict_and_arguments_in_the_other_order_are_named(verb):
    fit = mc.fit(mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)]), {"x": np.eye(3)})
    ask = getattr(fit, verb)
    with pytest.raises(mc.DataError, match=r"are a ndarray; a dict .* such as {'x': rows}"):
        ask(np.ones((1, 3)), "x")
    for data in ({"x": np.ones((1, 3))}, np.ones((1, 3))):
        with pytest.raises(mc.DataError, match="'x' was given before the data"):
            ask("x", data)
    with pytest.raises(mc.ModelError, match="no block 'y'; the blocks are 'x'"):
        ask({"x": np.ones((1, 3))}, "y")


def test_rows_far_from_0_and_effects_with_a_ridge(table):
    """Effects count from an origin within, and from 0 for whoever asks."""
    far = 1e6 + table["features"]
    y = 50.0 + np.nan_to_num(table["features"][:, :4])
    for options in ({}, {"effects_weight": 0.1}):
        blocks = [
            mc.Block("features", mc.Gaussian(), bias=True),
            mc.Block("y", mc.Poisson(), weight=0.1, bias=True, **options),
        ]
        model = mc.Model(blocks, [mc.NuclearNorm(0.5)])
        values = {"features": far, "y": np.round(y)}
        fit = mc.fit(model, values, tol=1e-9)
        for name in ("features", "y"):
            found, wanted = fit.predict_rows(values, name), fit.predict(name)
            np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-4)
        # Of a block that is not given as well.
        alone = {name: fit.predict_rows({"features": far}, name) for name in ("features", "y")}
        assert np.nanmax(np.abs(alone["features"] - far)) < 3.0
        assert np.max(np.abs(alone["y"] - y)) < 20.0


SECOND = {
    "labels": (mc.Bernoulli(), lambda y: y),
    "levels": (mc.Ordinal(2), lambda y: y + 1.0),
    "counts": (mc.Poisson(), lambda y: 3.0 * y),
    "classes": (mc.Multinomial(3), lambda y: y),
}


@pytest.mark.parametrize("kind", SECOND)
def test_a_block_without_an_entry_contributes_nothing(table, kind):
    """The labels of new items are missing: the normal case."""
    likelihood, coded = SECOND[kind]
    values = {"features": table["features"], "y": coded(table["labels"])}
    bias = kind != "levels"
    fit = fitted(likelihood, values, tol=1e-8, weight=0.5, reduce="mean", bias=bias)
    new, empty = table["features"][:1], np.full((1, 4), np.nan)
    alone = fit.predict_rows({"features": new}, "y")
    np.testing.assert_array_equal(fit.predict_rows({"features": new, "y": empty}, "y"), alone)
    given = {"features": new, "y": mc.Observations(empty, weights=2.0)}
    np.testing.assert_array_equal(fit.predict_rows(given, "y"), alone)
    # An item of which nothing is known is what the biases alone predict.
    unknown = fit.predict_rows({"features": np.full((2, 8), np.nan), "y": empty[[0, 0]]}, "y")
    baseline = fit.problem.layout("y").add_to(np.zeros(alone.shape), fit.effects.get("y", []))
    np.testing.assert_array_equal(unknown, fit.mean_of("y", baseline)[[0, 0]])
    with pytest.raises(mc.DataError, match="not one of its"):
        mc.fit(fit.model, {"features": new, "y": empty})


def test_classes_with_a_bias(table):
    """Their bias is one number for each class of each column."""
    rng = np.random.default_rng(4)
    scores = np.nan_to_num(table["features"][:, :3])
    kinds = np.argmax(2.0 * scores + rng.gumbel(size=scores.shape), axis=1).astype(float)
    y = np.stack([kinds, (kinds + (rng.random(20) < 0.3)) % 3], axis=1)
    y[rng.random(y.shape) < 0.2] = np.nan
    values = {"features": table["features"], "y": y}
    fit = fitted(mc.Multinomial(3), values, tol=1e-10, weight=0.2, reduce="mean", bias=True)
    for name in ("features", "y"):
        np.testing.assert_allclose(fit.predict_rows(values, name), fit.predict(name), atol=1e-4)
    imputed = fit.impute_rows(values, "y")
    np.testing.assert_array_equal(imputed, fit.impute("y"))
    shifted = {**values, "y": mc.Observations(y, offset=rng.standard_normal((20, 1)))}
    again = fit.predict_rows(shifted, "y")  # the same for all classes: no influence
    np.testing.assert_allclose(again, fit.predict("y"), atol=1e-4)


def test_new_rows_are_imputed(table):
    values = {"features": table["features"], "y": table["labels"]}
    fit = fitted(mc.Bernoulli(), values, weight=0.5, reduce="mean", bias=True)
    for name in ("features", "y"):
        np.testing.assert_allclose(fit.impute_rows(values, name), fit.impute(name), atol=1e-5)
        known = ~np.isnan(values[name])
        assert np.array_equal(fit.impute_rows(values, name)[known], values[name][known])
    features = {"features": table["features"]}
    np.testing.assert_array_equal(fit.impute_rows(features, "y"), fit.predict_rows(features, "y"))
    weights = np.ones((20, 8))
    weights[0] = 0.0  # not observed, so filled
    weighted = fit.impute_rows(
        {"features": mc.Observations(table["features"], weights=weights)}, "features"
    )
    assert not np.any(weighted[0] == table["features"][0])
    with pytest.raises(mc.ModelError, match="there is no block 'z'"):
        fit.impute_rows(values, "z")


def test_data_of_new_rows_are_left_as_they_are(table):
    fit = fitted(mc.Bernoulli(), {"features": table["features"], "y": table["labels"]}, tol=1e-6)
    features, labels = table["features"].copy(), pd.DataFrame(table["labels"])
    sparse = sp.coo_array(np.nan_to_num(features))
    copies = features.copy(), labels.copy(), sparse.copy()
    for given in ({"features": features}, {"features": sparse}):
        fit.impute_rows(given, "features")[...] = -7.0
        predicted = fit.predict_rows({**given, "y": labels}, "y")
        imputed = fit.impute_rows({**given, "y": labels}, "y")
        predicted.loc[:], imputed.loc[:] = -7.0, -7.0
    np.testing.assert_array_equal(features, copies[0])
    pd.testing.assert_frame_equal(labels, copies[1])
    np.testing.assert_array_equal(sparse.toarray(), copies[2].toarray())


def test_labels_of_new_rows_are_kept_in_every_answer():
    rng = np.random.default_rng(0)
    x, kind = rng.standard_normal((12, 3)), rng.integers(0, 3, (12, 2)).astype(float)
    blocks = [mc.Block("x", mc.Gaussian()), mc.Block("kind", mc.Multinomial(3), bias=True)]
    model = mc.Model(blocks, [mc.NuclearNorm(1.0)])
    named = {
        "x": pd.DataFrame(x, columns=list("abc")),
        "kind": pd.DataFrame(kind, columns=["tree", "soil"]),
    }
    late = pd.DataFrame([[1.0, np.nan, 0.5]], columns=list("abc"), index=["late"])
    none = pd.DataFrame([[np.nan, 2.0]], columns=["tree", "soil"], index=["late"])
    fit = mc.fit(model, named)
    for answer in (fit.predict_rows, fit.impute_rows):
        for given in (
            {"x": late},
            {"x": late, "kind": none},
            {"x": late.to_numpy(), "kind": none},
        ):
            for name in ("x", "kind"):
                assert list(answer(given, name).index) == ["late"]
    given = {"x": late, "kind": none}
    assert list(fit.impute_rows(given, "kind").columns) == ["tree", "soil"]
    assert fit.impute_rows(given, "kind").loc["late", "soil"] == 2.0
    assert fit.predict_rows(given, "kind").columns.to_list()[:2] == [("tree", 0), ("tree", 1)]
    assert isinstance(fit.impute_rows({"x": late.to_numpy()}, "x"), np.ndarray)
    # Of a fit of arrays the columns are named by the new data, or by their numbers.
    plain = mc.fit(model, {"x": x, "kind": kind})
    assert list(plain.impute_rows({"x": late}, "x").columns) == list("abc")
    assert plain.predict_rows({"x": late}, "kind").columns.to_list()[:2] == [(0, 0), (0, 1)]
    assert list(plain.impute_rows({"x": late}, "kind").columns) == [0, 1]


@pytest.mark.parametrize(
    ("block", "term", "reason"),
    [
        (mc.Block("x", mc.Gaussian()), mc.Ridge(0.1), "has Ridge too"),
        (mc.Block("x", mc.Gaussian(), row_effects=True), None, "effects of rows"),
        (mc.Block("x", mc.Quantile(0.5)), None, "Quantile is not"),
    ],
)
def test_what_the_rule_does_not_know_is_refused(block, term, reason):
    x = np.random.default_rng(0).standard_normal((6, 4))
    fit = mc.fit(mc.Model([block], [mc.NuclearNorm(0.5), *([term] if term else [])]), {"x": x})
    with pytest.raises(mc.ModelError, match=reason):
        fit.predict_rows({"x": x[:1]}, "x")
