"""New items: the rule of Zheng and Hastie for rows that were not in the fit."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.backends import rowwise as newton
from mcframe.fitting.prediction import mean_response
from mcframe.numerics.operators import orthogonal_factors


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
        np.testing.assert_allclose(fit.predict_rows(name, values), fit.predict(name), atol=1e-5)


def test_counts_too_and_weights(counts):
    """Poisson has no bound on its curvature: the Newton steps are shortened where needed."""
    weights = np.random.default_rng(0).integers(1, 4, counts["y"].shape).astype(float)
    values = {**counts, "y": mc.Observations(counts["y"], weights=weights)}
    fit = fitted(mc.Poisson(), values, weight=0.02, reduce="sum")
    found = fit.predict_rows("y", values)
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
    found = fit.predict_rows("y", values)
    assert np.shape(found) == np.shape(fit.predict("y"))
    np.testing.assert_allclose(found, fit.predict("y"), atol=1e-4)


def test_the_score_minimises_its_own_objective(table):
    """Of a new row, from its features alone: no nearby score is better."""
    values = {"features": table["features"], "y": table["labels"]}
    fit = fitted(mc.Bernoulli(), values, weight=0.5, reduce="mean", bias=True, tol=1e-9)
    new = np.full((1, 8), np.nan)
    new[0, :3] = 1.0, -2.0, 0.5
    found = fit.predict_rows("features", {"features": new})[0]
    _, s, right = np.linalg.svd(fit.latent.dense(), full_matrices=False)
    rank = fit.rank
    v = right[:rank].T * np.sqrt(s[:rank])
    scale = 1.0 / np.count_nonzero(~np.isnan(table["features"]))
    normal = scale * v[:3].T @ v[:3] + 0.05 * np.eye(rank)
    u = np.linalg.solve(normal, scale * v[:3].T @ new[0, :3])
    np.testing.assert_allclose(found, v[:8] @ u, atol=1e-9)
    labels = 1 / (1 + np.exp(-(v[8:] @ u + fit.bias("y"))))
    np.testing.assert_allclose(fit.predict_rows("y", {"features": new})[0], labels, atol=1e-9)


def test_names_of_new_rows_are_kept_and_columns_checked():
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=list("abc"))
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)])
    fit = mc.fit(model, {"x": frame})
    new = pd.DataFrame([[1.0, np.nan, 3.0]], columns=list("abc"), index=["late"])
    found = fit.predict_rows("x", {"x": new})
    assert list(found.columns) == list("abc")
    assert list(found.index) == ["late"]
    with pytest.raises(mc.DataError, match="2 columns were given; the fit has 3"):
        fit.predict_rows("x", {"x": np.ones((1, 2))})
    with pytest.raises(mc.DataError, match="no data of new rows"):
        fit.predict_rows("x", {})


@pytest.mark.parametrize("verb", ["predict_rows", "impute_rows"])
def test_new_rows_that_are_no_dict_and_blocks_that_are_not_there_are_named(verb):
    fit = mc.fit(mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1)]), {"x": np.eye(3)})
    ask = getattr(fit, verb)
    with pytest.raises(mc.DataError, match=r"are an ndarray; a dict .* such as {'x': rows}"):
        ask("x", np.ones((1, 3)))
    rows = {"x": np.ones((1, 3))}
    with pytest.raises(mc.ModelError, match="no block 'y'; the blocks are 'x'"):
        ask("y", rows)
    with pytest.raises(mc.ModelError, match="a dict was given; the blocks are 'x'"):
        ask(rows, rows)


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
            found, wanted = fit.predict_rows(name, values), fit.predict(name)
            np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-4)
        # Of a block that is not given as well.
        alone = {name: fit.predict_rows(name, {"features": far}) for name in ("features", "y")}
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
    alone = fit.predict_rows("y", {"features": new})
    np.testing.assert_array_equal(fit.predict_rows("y", {"features": new, "y": empty}), alone)
    given = {"features": new, "y": mc.Observations(empty, weights=2.0)}
    np.testing.assert_array_equal(fit.predict_rows("y", given), alone)
    # An item of which nothing is known is what the biases alone predict.
    unknown = fit.predict_rows("y", {"features": np.full((2, 8), np.nan), "y": empty[[0, 0]]})
    rows, columns = np.ogrid[: alone.shape[0], : alone.shape[1]]
    added = fit.problem.layout("y").at(rows, columns, fit.effects.get("y", np.zeros(0)))
    baseline = np.zeros(alone.shape) + added
    np.testing.assert_array_equal(unknown, mean_response(fit.likelihood("y"), baseline)[[0, 0]])
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
        np.testing.assert_allclose(fit.predict_rows(name, values), fit.predict(name), atol=1e-4)
    imputed = fit.impute_rows("y", values)
    np.testing.assert_array_equal(imputed, fit.impute("y"))
    shifted = {**values, "y": mc.Observations(y, offset=rng.standard_normal((20, 1)))}
    again = fit.predict_rows("y", shifted)  # the same for all classes: no influence
    np.testing.assert_allclose(again, fit.predict("y"), atol=1e-4)


def test_new_rows_are_imputed(table):
    values = {"features": table["features"], "y": table["labels"]}
    fit = fitted(mc.Bernoulli(), values, weight=0.5, reduce="mean", bias=True)
    for name in ("features", "y"):
        np.testing.assert_allclose(fit.impute_rows(name, values), fit.impute(name), atol=1e-5)
        known = ~np.isnan(values[name])
        assert np.array_equal(fit.impute_rows(name, values)[known], values[name][known])
    features = {"features": table["features"]}
    likely = fit.predict_rows("y", features) > 0.5
    np.testing.assert_array_equal(fit.impute_rows("y", features), likely)
    weights = np.ones((20, 8))
    weights[0] = 0.0  # not observed, so filled
    weighted = fit.impute_rows(
        "features", {"features": mc.Observations(table["features"], weights=weights)}
    )
    assert not np.any(weighted[0] == table["features"][0])
    with pytest.raises(mc.ModelError, match="there is no block 'z'"):
        fit.impute_rows("z", values)


def test_data_of_new_rows_are_left_as_they_are(table):
    fit = fitted(mc.Bernoulli(), {"features": table["features"], "y": table["labels"]}, tol=1e-6)
    features, labels = table["features"].copy(), pd.DataFrame(table["labels"])
    sparse = sp.coo_array(np.nan_to_num(features))
    copies = features.copy(), labels.copy(), sparse.copy()
    for given in ({"features": features}, {"features": sparse}):
        fit.impute_rows("features", given)[...] = -7.0
        predicted = fit.predict_rows("y", {**given, "y": labels})
        imputed = fit.impute_rows("y", {**given, "y": labels})
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
                assert list(answer(name, given).index) == ["late"]
    given = {"x": late, "kind": none}
    assert list(fit.impute_rows("kind", given).columns) == ["tree", "soil"]
    assert fit.impute_rows("kind", given).loc["late", "soil"] == 2.0
    assert fit.predict_rows("kind", given).columns.to_list()[:2] == [("tree", 0), ("tree", 1)]
    assert isinstance(fit.impute_rows("x", {"x": late.to_numpy()}), np.ndarray)
    # Of a fit of arrays the columns are named by the new data, or by their numbers.
    plain = mc.fit(model, {"x": x, "kind": kind})
    assert list(plain.impute_rows("x", {"x": late}).columns) == list("abc")
    assert plain.predict_rows("kind", {"x": late}).columns.to_list()[:2] == [(0, 0), (0, 1)]
    assert list(plain.impute_rows("kind", {"x": late}).columns) == [0, 1]


@pytest.mark.parametrize(
    ("term", "main", "reason"),
    [
        (
            mc.Calibration("x", np.ones((1, 6)), np.ones((1, 4))),
            mc.NuclearNorm(0.5),
            "Calibration",
        ),
        (mc.ResidualNuclearNorm("x", 0.1), mc.NuclearNorm(0.5), "ResidualNuclearNorm"),
        (None, mc.MaxNorm(0.5), "MaxNorm"),
        (None, mc.MaxNormBall(2.0), "MaxNormBall"),
    ],
)
def test_terms_that_tie_rows_to_each_other_are_refused(term, main, reason):
    x = np.random.default_rng(0).standard_normal((6, 4))
    model = mc.Model([mc.Block("x", mc.Gaussian())], [main, *([term] if term else [])])
    fit = mc.fit(model, {"x": x}, tol=1e-3)
    sentence = (
        "new rows are known of NuclearNorm, NuclearBall, GaussianRows, Ridge, Box and OnesColumn;"
        f" the model has {reason} too, which ties rows to each other; refit with the new rows"
        " among the data"
    )
    for ask in (lambda: fit.predict_rows("x", {"x": x[:1]}), lambda: fit.latent_rows({"x": x})):
        with pytest.raises(mc.ModelError) as error:
            ask()
        assert str(error.value) == sentence


def test_a_loss_that_is_not_convex_is_refused():
    risk = mc.RiskMixture.punu(0.3, 0.5, likelihood=mc.Bernoulli("probit"), nonconvex=True)
    labels = np.random.default_rng(0).integers(0, 2, (6, 4)).astype(float)
    labels[0, :2] = np.nan
    with pytest.warns(mc.NotCertifiedWarning):
        fit = mc.fit(mc.Model([mc.Block("y", risk)], [mc.NuclearBall(1.0)]), {"y": labels})
    with pytest.raises(mc.ModelError, match="need a convex loss, which this RiskMixture is not"):
        fit.predict_rows("y", {"y": labels})


def test_a_ball_that_does_not_bind_is_refused_unless_something_else_holds_rows():
    x = np.random.default_rng(0).standard_normal((6, 4))
    block, ball = mc.Block("x", mc.Gaussian()), mc.NuclearBall(1e3)
    fit = mc.fit(mc.Model([block], [ball]), {"x": x})
    for asked in (fit, fit.compact()):
        with pytest.raises(mc.ModelError, match=r"NuclearBall\(1000\) does not bind: the nuclear"):
            asked.predict_rows("x", {"x": x})
    fit = mc.fit(mc.Model([block], [ball, mc.Ridge(0.5)]), {"x": x}, tol=1e-10)
    np.testing.assert_allclose(fit.predict_rows("x", {"x": x}), fit.predict("x"), atol=1e-4)


# The law, over a catalogue of models


def two_blocks(rng):
    """Numbers of rank two with holes, and labels, counts, levels, classes of the same scores."""
    scores = rng.standard_normal((25, 2))
    x = scores @ rng.standard_normal((2, 7)) + 0.1 * rng.standard_normal((25, 7))
    z = scores @ rng.standard_normal((2, 5))
    y = {
        "numbers": z,
        "labels": (rng.random(z.shape) < 1 / (1 + np.exp(-2 * z))) * 1.0,
        "counts": rng.poisson(np.exp(0.5 * z)).astype(float),
        "times": rng.gamma(2.0, np.exp(0.5 * z)) + 0.05,
        "levels": np.digitize(z, [-0.7, 0.6]) + 1.0,
        "classes": np.digitize(z + 0.3 * rng.standard_normal(z.shape), [-0.7, 0.6]) * 1.0,
    }
    holes = rng.random(z.shape) < 0.25
    holes[3] = True  # an item without an entry in this block
    x[rng.random(x.shape) < 0.25] = np.nan
    return x, {kind: np.where(holes, np.nan, values) for kind, values in y.items()}


LOSSES = {
    "gaussian": (mc.Gaussian(), "numbers"),
    "gaussian effects": (mc.Gaussian(), "numbers", {"bias": True, "row_effects": True}),
    "gaussian rows": (mc.Gaussian(0.5), "numbers", {"row_effects": True}),
    "gaussian ridge": (
        mc.Gaussian(),
        "numbers",
        {"bias": True, "row_effects": True, "effects_weight": 0.3},
    ),
    "huber rows": (mc.Huber(0.5), "numbers", {"bias": True, "row_effects": True}),
    "quantile": (mc.Quantile(0.3), "numbers", {}),
    "logit": (mc.Bernoulli(), "labels", {"bias": True}),
    "logit rows": (
        mc.Bernoulli(),
        "labels",
        {"bias": True, "row_effects": True, "effects_weight": 0.2},
    ),
    "probit": (mc.Bernoulli("probit"), "labels", {"bias": True, "effects_weight": 0.1}),
    "hinge": (mc.Hinge(), "labels", {}),
    "poisson": (mc.Poisson(), "counts", {"bias": True}),
    "poisson rows": (mc.Poisson(), "counts", {"row_effects": True, "effects_weight": 0.5}),
    "gamma": (mc.Gamma(2.0), "times", {"bias": True}),
    "ordinal": (mc.Ordinal(3), "levels", {}),
    "classes": (mc.Multinomial(3), "classes", {"bias": True, "effects_weight": 0.2}),
}
TERMS = {
    "norm": [mc.NuclearNorm(0.8)],
    "norm and ridge": [mc.NuclearNorm(0.5), mc.Ridge(0.3)],
    "ridge": [mc.Ridge(0.5)],
    "ball": [mc.NuclearBall(14.0)],
    "ball and ridge": [mc.NuclearBall(14.0), mc.Ridge(0.05)],
    "ball and norm": [mc.NuclearBall(14.0), mc.NuclearNorm(0.1)],
    "ones": [mc.NuclearNorm(0.8), mc.OnesColumn()],
    "ball and ones": [mc.NuclearBall(18.0), mc.OnesColumn()],
    "box": [mc.NuclearNorm(0.5), mc.Box(-0.6, 0.8)],
    "box of a block, ones": [mc.NuclearNorm(0.5), mc.Box(-0.4, 0.5, "y"), mc.OnesColumn()],
    "ball and box": [mc.NuclearBall(12.0), mc.Box(-0.6, 0.8)],
}
# All losses under a norm, and all terms beside numbers and labels.
CATALOGUE = [(loss, "norm") for loss in LOSSES]
CATALOGUE += [
    (loss, terms) for terms in TERMS if terms != "norm" for loss in ("gaussian", "logit")
]
CATALOGUE += [
    ("gaussian effects", "ones"),
    ("gaussian effects", "box"),
    ("logit rows", "ridge"),
    ("quantile", "ball"),
    ("hinge", "box"),
    ("classes", "ball"),
]


# Seconds of fits with a long tail down to 1e-11; other losses and terms have the same gap.
SLOW_CASES = {("quantile", "norm"): 5, ("logit", "ball and box"): 3}


def fit_of(loss, terms, tol):
    x, y = two_blocks(np.random.default_rng(11))
    likelihood, kind, *options = LOSSES[loss]
    blocks = [
        mc.Block("x", mc.Gaussian(), bias=True),
        mc.Block("y", likelihood, **(options[0] if options else {})),
    ]
    data = {"x": x, "y": y[kind]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)  # the item without an entry
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)  # rounding ends some of them
        return mc.fit(mc.Model(blocks, TERMS[terms]), data, tol=tol), data


@pytest.mark.parametrize(
    ("loss", "terms"),
    [
        pytest.param(
            *case, marks=[pytest.mark.slow(seconds=SLOW_CASES.get(case))] * (case in SLOW_CASES)
        )
        for case in CATALOGUE
    ],
)
def test_new_rows_that_are_those_of_the_fit_are_as_fitted(loss, terms):
    """As exactly as the fit is optimal: strong convexity turns a gap into a distance."""
    fit, data = fit_of(loss, terms, tol=1e-11)
    assert fit.gap < 1e-8
    for name in ("x", "y"):
        found, wanted = fit.predict_rows(name, data), fit.predict(name)
        np.testing.assert_allclose(found, wanted, atol=1e-3)
        assert np.sqrt(np.mean((found - wanted) ** 2)) < 2e-4
    latent = fit.latent.dense()
    rows = fit.latent_rows(data).dense()
    assert np.linalg.norm(rows - latent) < 1e-3 * np.linalg.norm(latent)
    # An item by itself is what it is among others.
    alone = fit.latent_rows({name: block[5:6] for name, block in data.items()}).dense()
    np.testing.assert_allclose(alone[0], rows[5], atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_an_item_of_which_nothing_is_known_gets_the_effects_of_columns_alone(loss):
    fit, data = fit_of(loss, "norm", tol=1e-6)
    nothing = {name: np.full((2, block.shape[1]), np.nan) for name, block in data.items()}
    for name in ("x", "y"):
        block, layout = fit.model.block(name), fit.problem.layout(name)
        width = data[name].shape[1] * block.likelihood.width
        wanted = np.zeros(width)
        if block.bias:
            wanted = wanted + np.ravel(fit.bias(name))
        if block.row_effects and not block.effects_weight:  # an average item, as in fits
            wanted = wanted + np.mean(fit.row_effects(name)[np.arange(25) != 3])
        if layout.n_intercepts:
            wanted = wanted + layout.intercept(fit.effects[name])
        found = fit.predict_rows(name, nothing)
        np.testing.assert_allclose(
            found, mean_response(fit.likelihood(name), np.tile(wanted, (2, 1))), atol=1e-12
        )
    assert not np.any(fit.latent_rows(nothing).dense())


def stated(fit, data, row):
    """The best z of an item by CVXPY, from the definitions of losses, terms and effects."""
    import cvxpy as cp

    _, s, right = orthogonal_factors(fit.latent.left, fit.latent.right)
    u, added, cost, rules = cp.Variable(s.size), {}, 0.0, []
    z = right @ u
    for term in fit.model.terms:
        if isinstance(term, mc.NuclearNorm):
            cost += 0.5 * term.weight * cp.sum_squares(u)
        elif isinstance(term, mc.Ridge):
            cost += 0.5 * term.weight * cp.sum_squares(cp.multiply(np.sqrt(s), u))
        elif isinstance(term, mc.OnesColumn):
            rules.append(z[-1] == 1.0)
        else:
            own = fit.problem.columns_of_term(term)
            rules += [z[own] >= term.lower, z[own] <= term.upper]
    for block in fit.model.blocks:
        name, values = block.name, data[block.name][row]
        seen = np.flatnonzero(~np.isnan(values))
        own = fit.problem.columns(name)
        effects = (
            fit.problem.reported_effects(name, fit.effects) if name in fit.effects else np.zeros(0)
        )
        predictor = z[own] + (fit.problem.layout(name).biases(effects) if block.bias else 0.0)
        if block.row_effects:
            added[name] = cp.Variable()
            predictor = predictor + added[name]
            ridge = block.effects_weight or 0.0
            cost += 0.5 * fit.problem.ridge(name) * cp.square(added[name]) if ridge else 0.0
            predictor = predictor + fit.problem.layout(name).intercept(effects)
        likelihood = fit.likelihood(name)
        loss, more = likelihood.statement(cp, predictor[seen], values[seen])
        cost, rules = cost + block.weight * cp.sum(loss), rules + more
    cp.Problem(cp.Minimize(cost), rules).solve(solver="CLARABEL")
    return z.value, {name: float(a.value) for name, a in added.items()}


@pytest.mark.parametrize(
    ("loss", "terms"),
    [
        ("gaussian effects", "norm and ridge"),
        ("huber rows", "ones"),
        ("quantile", "box"),
        ("hinge", "box of a block, ones"),
        ("logit rows", "box"),
        ("poisson rows", "norm and ridge"),
    ],
)
def test_rows_that_were_never_seen_are_the_best_ones_by_the_definitions(loss, terms):
    fit, data = fit_of(loss, terms, tol=1e-7)
    fresh = {name: 0.5 * block[::-1] for name, block in data.items()}
    likelihood = fit.model.block("y").likelihood
    fresh["y"] = np.where(likelihood.invalid(fresh["y"]), data["y"][::-1], fresh["y"])
    rows = fit.latent_rows(fresh).dense()
    for row in (0, 7, 13):
        wanted, effects = stated(fit, fresh, row)
        np.testing.assert_allclose(rows[row], wanted, atol=2e-4)
        for name, effect in effects.items():
            z = np.log(fit.predict_rows(name, fresh)[row]) if "poisson" in loss else None
            if fit.model.block(name).likelihood.location:
                z = fit.predict_rows(name, fresh)[row]
            if z is not None:
                rest = z - rows[row][fit.problem.columns(name)]
                known = fit.bias(name) if fit.model.block(name).bias else 0.0
                np.testing.assert_allclose(rest - known, effect, atol=2e-4)


def test_batches_do_not_change_an_answer(monkeypatch):
    for loss, terms in (("logit rows", "norm"), ("classes", "norm"), ("quantile", "box")):
        fit, data = fit_of(loss, terms, tol=1e-6)
        whole = {name: fit.predict_rows(name, data) for name in data}
        monkeypatch.setattr(newton, "BATCH_NUMBERS", 60)
        for name, wanted in whole.items():
            np.testing.assert_allclose(fit.predict_rows(name, data), wanted, atol=1e-9)
        monkeypatch.undo()


def test_many_rows_of_few_columns_are_answered_in_batches_with_their_labels():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 1)) @ rng.standard_normal((1, 3)) + 5.0
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(1.0)])
    fit = mc.fit(model, {"x": pd.DataFrame(x, columns=["a", "b", "c"])}, tol=1e-10)
    index = pd.Index([f"item {k}" for k in range(60_000)], name="key")
    many = pd.DataFrame(np.tile(x, (200, 1)), columns=["a", "b", "c"], index=index)
    many = many.mask(rng.random(many.shape) < 0.3)
    found = fit.impute_rows("x", {"x": many})
    pd.testing.assert_index_equal(found.index, index)
    assert list(found.columns) == ["a", "b", "c"]
    assert not found.isna().to_numpy().any()
    here = many.iloc[[0, 31_234, 59_999]]
    pd.testing.assert_frame_equal(found.loc[here.index], fit.impute_rows("x", {"x": here}))
    assert fit.latent_rows({"x": many}).left.shape[0] == 60_000


# Columns by their names


def named_fit():
    rng = np.random.default_rng(1)
    x = pd.DataFrame(rng.standard_normal((12, 2)) @ rng.standard_normal((2, 4)), columns=[*"abcd"])
    kinds = pd.DataFrame(rng.integers(0, 3, (12, 2)) * 1.0, columns=["tree", "soil"])
    blocks = [
        mc.Block("x", mc.Gaussian(), bias=True),
        mc.Block("kinds", mc.Multinomial(3), bias=True, effects_weight=0.1),
    ]
    return mc.fit(mc.Model(blocks, [mc.NuclearNorm(0.3)]), {"x": x, "kinds": kinds}), x, kinds


def test_columns_in_another_order_are_put_in_order_by_name():
    fit, x, kinds = named_fit()
    for name in ("x", "kinds"):
        wanted = fit.predict_rows(name, {"x": x, "kinds": kinds})
        moved = {"x": x[[*"cadb"]], "kinds": kinds[["soil", "tree"]]}
        pd.testing.assert_frame_equal(fit.predict_rows(name, moved), wanted)
        filled = fit.impute_rows(name, moved)
        pd.testing.assert_frame_equal(filled, fit.impute_rows(name, {"x": x, "kinds": kinds}))
    # What stands beside the values moves with them.
    offset, weights = np.arange(4.0) + x.to_numpy() / 7, np.arange(1.0, 5.0)[None, :]
    order = [2, 0, 3, 1]
    given = mc.Observations(x, weights=weights, offset=offset)
    moved = mc.Observations(x.iloc[:, order], weights=weights[:, order], offset=offset[:, order])
    wanted = fit.predict_rows("x", {"x": given})
    pd.testing.assert_frame_equal(fit.predict_rows("x", {"x": moved}), wanted)
    sparse = mc.Observations(x.iloc[:, order], offset=sp.csr_array(offset[:, order]))
    wanted = fit.predict_rows("x", {"x": mc.Observations(x, offset=offset)})
    pd.testing.assert_frame_equal(fit.predict_rows("x", {"x": sparse}), wanted)


def test_columns_that_are_absent_count_as_missing_with_one_warning():
    fit, x, _ = named_fit()
    wanted = fit.predict_rows("x", {"x": x.assign(b=np.nan, d=np.nan)})
    with pytest.warns(mc.UnobservedWarning) as caught:
        found = fit.predict_rows("x", {"x": x[["c", "a"]]})
    assert [str(warning.message) for warning in caught] == [
        "block 'x': new rows lack columns 'b', 'd' of the fit; they count as missing"
    ]
    assert caught[0].filename == __file__
    pd.testing.assert_frame_equal(found, wanted)
    with pytest.warns(mc.UnobservedWarning, match=r"lack column 'b' of the fit; it counts as"):
        fit.impute_rows("x", {"x": x[["c", "d", "a"]]})


def test_columns_that_the_fit_does_not_have_are_named():
    fit, x, _ = named_fit()
    with pytest.raises(mc.DataError) as error:
        fit.predict_rows("x", {"x": x.rename(columns={"a": "z"}).assign(y=1.0)})
    assert str(error.value) == (
        "block 'x': new rows have columns 'z', 'y', which the fit does not have; its columns are"
        " 'a', 'b', 'c', 'd'. Rename or drop what is no column of the fit"
    )
    with pytest.raises(mc.DataError, match="new rows have columns 0, 1, 2, 3, which the fit"):
        fit.predict_rows("x", {"x": pd.DataFrame(x.to_numpy())})
    with pytest.raises(mc.DataError, match="2 columns of the table have the name 'a'"):
        fit.predict_rows("x", {"x": x[["a", "b", "c", "d", "a"]]})


def test_unlabeled_cells_of_columns_that_are_absent_carry_their_loss():
    labels = np.random.default_rng(0).integers(0, 2, (9, 3)).astype(float)
    labels[::2, 0] = np.nan
    frame = pd.DataFrame(labels, columns=[*"abc"])
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=mc.Gaussian())
    fit = mc.fit(mc.Model([mc.Block("y", risk)], [mc.NuclearNorm(0.1)]), {"y": frame})
    wanted = fit.predict_rows("y", {"y": frame.assign(a=np.nan)})
    with pytest.warns(mc.UnobservedWarning):
        found = fit.predict_rows("y", {"y": frame[["c", "b"]]})
    pd.testing.assert_frame_equal(found, wanted)


# What nobody tuned to


@pytest.mark.parametrize(
    ("offset", "scale", "row_effects"),
    [
        (1e12, 1.0, False),
        (1e12, 1.0, True),
        (-1e12, 1e3, False),
        (-1e12, 1e3, True),
        (0.0, 1e-12, False),
        (0.0, 1e-12, True),
        (0.0, 1e12, False),
    ],
)
def test_columns_of_any_offset_and_scale(offset, scale, row_effects):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 6))
    x[rng.random(x.shape) < 0.2] = np.nan
    block = mc.Block("x", mc.Gaussian(), bias=True, row_effects=row_effects)
    plain = mc.fit(mc.Model([block], [mc.NuclearNorm(1.0)]), {"x": x}, tol=1e-12)
    wanted = plain.predict_rows("x", {"x": x[:4]})
    far = offset + scale * x
    fit = mc.fit(mc.Model([block], [mc.NuclearNorm(scale)]), {"x": far}, tol=1e-12)
    found = fit.predict_rows("x", {"x": far[:4]})
    spacing = np.spacing(abs(offset)) if offset else 0.0
    np.testing.assert_allclose((found - offset) / scale, wanted, atol=1e-5 + 3.0 * spacing / scale)
    np.testing.assert_allclose(found, fit.predict("x")[:4], atol=1e-5 * scale + spacing)


def test_one_column_one_row_constant_columns_and_columns_without_an_entry():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((15, 4))
    x[:, 1], x[:, 2] = 3.0, np.nan
    block = mc.Block("x", mc.Gaussian(), bias=True)
    with pytest.warns(mc.UnobservedWarning):
        fit = mc.fit(mc.Model([block], [mc.NuclearNorm(0.5)]), {"x": x}, tol=1e-11)
    np.testing.assert_allclose(fit.predict_rows("x", {"x": x}), fit.predict("x"), atol=1e-5)
    one = mc.fit(mc.Model([block], [mc.NuclearNorm(0.5)]), {"x": x[:, :1]}, tol=1e-11)
    found = one.predict_rows("x", {"x": x[:, :1]})
    np.testing.assert_allclose(found, one.predict("x"), atol=1e-5)
    single = mc.fit(
        mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5)]), {"x": [[4.0]]}
    )
    np.testing.assert_allclose(single.predict_rows("x", {"x": [[4.0], [np.nan]]}), [[3.5], [0.0]])


def test_a_fit_of_rank_0_says_what_effects_say():
    x = np.random.default_rng(0).standard_normal((9, 4))
    for likelihood in (mc.Gaussian(), mc.Quantile(0.5)):
        block = mc.Block("x", likelihood, bias=True, row_effects=True)
        fit = mc.fit(mc.Model([block], [mc.NuclearNorm(1e3)]), {"x": x}, tol=1e-9)
        assert fit.rank == 0
        found = fit.predict_rows("x", {"x": x})
        if likelihood == mc.Gaussian():
            np.testing.assert_allclose(found, fit.predict("x"), atol=1e-8)
        assert np.all(np.isfinite(found))


def test_labels_all_alike_in_a_new_row_are_as_good_as_certain():
    """Their row effect is infinite, as in fits; a ridge keeps it finite."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, (20, 6)).astype(float)
    new = [[1.0, 1.0, np.nan, 1.0, 1.0, 1.0], [np.nan] * 6]
    for weight, most in ((None, 1.0), (0.3, 0.99)):
        block = mc.Block("y", mc.Bernoulli(), bias=True, row_effects=True, effects_weight=weight)
        fit = mc.fit(mc.Model([block], [mc.NuclearNorm(0.5)]), {"y": y})
        found, average = fit.predict_rows("y", {"y": new})[:, 2]
        least = average + 0.05 if weight else 1.0 - 1e-12
        assert least <= found <= most


def test_entries_that_are_equalities_are_met_or_refused():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 8))
    fit = mc.fit(mc.Model([mc.Block("x", mc.Equality())], [mc.NuclearNorm(1.0)]), {"x": x})
    new = rng.standard_normal((3, 20)) @ x
    new[:, 4:] = np.nan
    filled = fit.predict_rows("x", {"x": new})
    np.testing.assert_allclose(filled[:, :4], new[:, :4], rtol=1e-6, atol=1e-6)
    assert np.linalg.matrix_rank(filled, tol=1e-6) == 2
    frame = pd.DataFrame(new + np.array([0.0, 1.0, 0.0, 0, 0, 0, 0, 0]), index=["p", "q", "r"])
    with pytest.raises(mc.DataError) as error:
        fit.predict_rows("x", {"x": frame})
    assert str(error.value) == (
        "block 'x', row 'p': no row of Z as it was fitted has exactly these observed entries,"
        " which Equality asks for; refit with the new rows among the data, or take a Gaussian"
        " block"
    )


def test_rows_that_the_search_does_not_reach_are_said(monkeypatch):
    fit, data = fit_of("logit rows", "norm", tol=1e-6)
    monkeypatch.setattr(newton, "MOST_STEPS", 1)
    with pytest.warns(mc.NotCertifiedWarning, match=r"of 25 are not exactly the best ones, the"):
        fit.predict_rows("y", data)


@pytest.mark.parametrize("standardize", [True, "robust", "ranks"])
def test_rows_of_standardised_blocks_come_out_as_fitted_by_names_and_compact(standardize):
    rng = np.random.default_rng(8)
    x = 1e6 + rng.standard_normal((25, 2)) @ rng.standard_normal((2, 5)) * np.logspace(-2, 3, 5)
    frame = pd.DataFrame(x, columns=[*"abcde"]).mask(rng.random(x.shape) < 0.2)
    block = mc.Block("x", mc.Gaussian(), bias=True, row_effects=True, standardize=standardize)
    fit = mc.fit(mc.Model([block], [mc.NuclearNorm(1.0)]), {"x": frame}, tol=1e-11)
    moved = frame[[*"edcba"]]
    for asked in (fit, fit.compact()):
        found = asked.predict_rows("x", {"x": moved})
        apart = (found - fit.predict("x")) / frame.std()
        assert np.abs(apart).to_numpy().max() < 1e-3
    pd.testing.assert_frame_equal(fit.compact().predict("x"), fit.predict("x"))
    pd.testing.assert_series_equal(fit.compact().bias("x"), fit.bias("x"))
