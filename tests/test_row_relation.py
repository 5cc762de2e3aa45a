"""Equations within rows hold for what is predicted, in every reading; what ``Calibration`` shares.

Of the squares, the effects and random models of both see ``test_calibration``.
"""

import warnings

import numpy as np
import pandas as pd
import pytest

import mcframe as mc

RNG = np.random.default_rng(0)
N, D = 12, 4
X = np.where(RNG.random((N, D)) < 0.7, RNG.normal(3.0, 1.0, (N, D)), np.nan)
OFFSET = RNG.standard_normal((N, D))
A = np.array([[1.0, 1.0, -1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
B = np.column_stack([RNG.normal(3.0, 1.0, N), RNG.normal(6.0, 1.0, N)])
B[3, 0] = np.nan
B[5] = np.nan
SUM = [1.0, 1.0, -1.0, 0.0]
EFFECTS = {
    "none": {},
    "biases": {"bias": True},
    "rows": {"row_effects": True},
    "both": {"bias": True, "row_effects": True},
    "ridge": {"bias": True, "row_effects": True, "effects_weight": 0.3},
}
FORMS = [
    ("none", True, "robust"),
    ("biases", False, False),
    ("biases", True, True),
    ("rows", True, False),
    ("both", True, "robust"),
    ("ridge", False, True),
]


@pytest.mark.parametrize("weight", [None, 30.0])
@pytest.mark.parametrize(("effects", "offset", "standardize"), FORMS)
@pytest.mark.some(0.5)
def test_rows_are_those_of_what_is_predicted(effects, offset, standardize, weight):
    """And both readings find the same optimum, by equations and by a penalty."""
    block = mc.Block("x", mc.Gaussian(), standardize=standardize, **EFFECTS[effects])
    data = {"x": mc.Observations(X, offset=OFFSET) if offset else X}
    model = mc.Model([block], [mc.NuclearNorm(0.3), mc.RowRelation("x", A, B, weight)])
    verified = mc.verify(model, data, tol=1e-5)
    assert verified.agrees, verified
    for fit in (verified.fast, verified.reference):
        off = np.nan_to_num(fit.predict("x") @ A.T - B)
        assert fit.residual("x") == pytest.approx(float(np.linalg.norm(off)), abs=1e-9)
        if weight is None:
            np.testing.assert_allclose(off, 0.0, atol=1e-6)
    if weight is not None:
        plain = mc.fit(mc.Model([block], [mc.NuclearNorm(0.3)]), data)
        away = np.linalg.norm(np.nan_to_num(plain.predict("x") @ A.T - B))
        assert verified.fast.residual("x") < 0.5 * away


@pytest.mark.parametrize("main", [mc.NuclearBall(30.0), mc.MaxNorm(0.5), mc.Ridge(0.4)], ids=repr)
@pytest.mark.parametrize("effects", ["none", "biases", "rows"])
@pytest.mark.some(0.5)
def test_beside_every_main_regularizer(main, effects):
    block = mc.Block("x", mc.Huber(1.0), **EFFECTS[effects])
    model = mc.Model([block], [main, mc.RowRelation("x", SUM, 3.0)])
    verified = mc.verify(model, {"x": X}, tol=1e-4)
    assert verified.agrees, verified
    np.testing.assert_allclose(verified.fast.predict("x") @ SUM, 3.0, atol=1e-6)


COUNTS = RNG.poisson(3.0, (N, D)).astype(float)
WORDS = {
    "counts": (mc.Poisson(), COUNTS),
    "labels": (mc.Bernoulli(scale=0.5), (COUNTS > 2.0) * 1.0),
    "scores": (mc.Hinge(), (COUNTS > 2.0) * 1.0),
    "classes": (mc.Multinomial(3), RNG.integers(0, 3, (N, 2)).astype(float)),
}


@pytest.mark.parametrize("weight", [None, 2.0])
@pytest.mark.parametrize("name", WORDS)
@pytest.mark.some(0.4)
def test_sums_of_predictors_are_declared(name, weight):
    word, table = WORDS[name]
    A = np.eye(1, table.shape[1] * word.width) + np.eye(1, table.shape[1] * word.width, 1)
    terms = [mc.Ridge(1.0), mc.RowRelation("y", A)]
    with pytest.raises(mc.ModelError, match="of='predictors'"):
        mc.Model([mc.Block("y", word)], terms)
    term = mc.RowRelation("y", A, 0.3, weight, of="predictors")
    model = mc.Model([mc.Block("y", word, bias=True)], [mc.NuclearNorm(0.5), term])
    verified = mc.verify(model, {"y": table}, tol=1e-4)
    assert verified.agrees, verified
    if weight is None:
        sums = verified.fast.natural("y").reshape(N, -1) @ A.T
        np.testing.assert_allclose(sums, 0.3, atol=1e-6)


@pytest.mark.parametrize("effects", EFFECTS)
def test_beside_sums_over_rows(effects):
    """Both sides of one block share its effects; totals of totals agree."""
    block = mc.Block("x", mc.Gaussian(), **EFFECTS[effects])
    means = np.array([[2.0, 3.0, 5.0, 4.0]])
    terms = [mc.Calibration("x", np.full(N, 1.0 / N), means), mc.RowRelation("x", SUM)]
    verified = mc.verify(mc.Model([block], [mc.NuclearNorm(0.5), *terms]), {"x": X})
    assert verified.agrees, verified
    predicted = verified.fast.predict("x")
    np.testing.assert_allclose(predicted.mean(axis=0), means[0], atol=1e-6)
    np.testing.assert_allclose(predicted @ SUM, 0.0, atol=1e-6)
    assert verified.fast.residual("x", "RowRelation") <= 1e-6
    with pytest.raises(mc.ModelError, match="none by 'Calibrations'"):
        verified.fast.residual("x", "Calibrations")


def test_columns_have_names():
    """A dict is the same as an array, whatever the order and what it leaves out."""
    frame = pd.DataFrame(X, columns=["food", "rent", "total", "age"])
    named = mc.RowRelation("x", {"total": -1.0, "rent": 1.0, "food": 1.0})
    fits = []
    for term, data in ((named, frame), (mc.RowRelation("x", SUM), X)):
        model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5), term])
        fits.append(mc.fit(model, {"x": data}))
    assert fits[0].objective == fits[1].objective
    assert fits[0].residual("x") == pytest.approx(fits[1].residual("x"), abs=1e-12)
    by_place = mc.RowRelation("x", {2: -1.0, 0: 1.0, 1: 1.0})
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5), by_place])
    assert mc.fit(model, {"x": X}).objective == fits[1].objective


def test_values_stand_for_all_rows_or_for_one():
    everywhere = mc.RowRelation("x", SUM, 2.0)
    by_row = mc.RowRelation("x", SUM, np.full(N, 2.0))
    two = mc.RowRelation("x", A, [2.0, 1.0])
    assert (everywhere.B.shape, by_row.B.shape, two.B.shape) == ((1, 1), (N, 1), (1, 2))
    two_by_row = mc.RowRelation("x", A, np.tile(two.B, (N, 1)))
    point = RNG.standard_normal((N, D))
    for one, other in ((everywhere, by_row), (two, two_by_row)):
        assert one.value(point) == other.value(point) == np.inf
        assert one.residual(point) == other.residual(point)
        projected = one.prox(point, 1.0)[0]
        np.testing.assert_array_equal(projected, other.prox(point, 1.0)[0])
        assert one.value(projected) == 0.0
        np.testing.assert_allclose(projected @ one.A.T, np.broadcast_to(one.B, (N, len(one.A))))


@pytest.mark.parametrize("away", [1e6, 1e9])
def test_values_far_from_0_lose_no_digit(away):
    """Effects are counted from the data, and the equations with them."""
    block = mc.Block("x", mc.Gaussian(), bias=True)
    fits = []
    for shift in (0.0, away):
        term = mc.RowRelation("x", SUM, 3.5 + shift)
        model = mc.Model([block], [mc.NuclearNorm(0.3), term])
        fits.append(mc.fit(model, {"x": X + shift}))
        assert fits[-1].status == "certified"
    assert fits[0].objective == pytest.approx(fits[1].objective, rel=1e-5)
    np.testing.assert_allclose(fits[1].predict("x") @ SUM, 3.5 + away, rtol=1e-14)


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e100])
def test_sums_of_any_size_raise_no_warning(scale):
    model = mc.Model(
        [mc.Block("x", mc.Gaussian())],
        [mc.NuclearNorm(0.1 * scale), mc.RowRelation("x", A, scale * np.array([3.5, 2.0]))],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        fit = mc.fit(model, {"x": scale * X}, max_iter=100)
    np.testing.assert_allclose(fit.predict("x") @ A.T, scale * np.tile([3.5, 2.0], (N, 1)))


def test_rows_and_columns_without_entries_follow_the_equations():
    x = X.copy()
    x[3] = np.nan
    x[:, 2] = np.nan
    block = mc.Block("x", mc.Gaussian(), bias=True, row_effects=True)
    model = mc.Model([block], [mc.NuclearNorm(0.5), mc.RowRelation("x", SUM)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        verified = mc.verify(model, {"x": x})
    assert verified.agrees, verified
    predicted = verified.fast.predict("x")
    np.testing.assert_allclose(predicted[:, 2], predicted[:, :2].sum(axis=1), atol=1e-7)


def test_exact_values_and_relations_fill_a_table():
    """Observed values stay as they are, and filled rows satisfy the equation."""
    whole = RNG.normal(2.0, 1.0, (N, 3))
    whole = np.column_stack([whole, whole.sum(axis=1)])
    gaps = RNG.random(whole.shape) < 0.4
    model = mc.Model(
        [mc.Block("x", mc.Equality())],
        [mc.NuclearNorm(1.0), mc.RowRelation("x", [1.0, 1.0, 1.0, -1.0])],
    )
    verified = mc.verify(model, {"x": np.where(gaps, np.nan, whole)})
    assert verified.agrees, verified
    filled = verified.fast.impute("x")
    np.testing.assert_array_equal(filled[~gaps], whole[~gaps])
    np.testing.assert_allclose(filled[:, 3], filled[:, :3].sum(axis=1), rtol=1e-7)


@pytest.mark.parametrize("backend", ["splitting", "factored", "proximal"])
def test_every_solver_finds_it(backend):
    block = mc.Block("x", mc.Gaussian(), **EFFECTS["both"])
    model = mc.Model([block], [mc.NuclearNorm(0.5), mc.RowRelation("x", A, [3.0, 6.0], 3.0)])
    exact = mc.fit(model, {"x": X}, backend="reference")
    fit = mc.fit(model, {"x": X}, backend=backend)
    assert fit.status == "certified"
    assert fit.objective == pytest.approx(exact.objective, rel=1e-5)


def test_it_is_stored_shown_and_compared(tmp_path):
    plain = mc.RowRelation("x", {"a": 1.0, "b": -1.0}, weight=2.0)
    assert repr(plain) == (
        "RowRelation(block='x', A=array([[ 1., -1.]]), B=array([[0.]]), weight=2.0,"
        " columns=('a', 'b'))"
    )
    assert plain.formula() == "2 ‖P_x Aᵀ − B‖_F²"
    assert plain == mc.RowRelation("x", [1.0, -1.0], weight=2.0, columns=["a", "b"])
    assert plain != mc.RowRelation("x", [1.0, -1.0], weight=2.0)
    assert hash(plain) == hash(mc.RowRelation("x", {"a": 1.0, "b": -1.0}, weight=2.0))
    block = mc.Block("x", mc.Gaussian(), standardize=True, bias=True)
    model = mc.Model([block], [mc.NuclearNorm(0.5), plain])
    assert mc.Model.from_json(model.to_json()) == model
    frame = pd.DataFrame(X, columns=list("abcd"))
    fit = mc.fit(model, {"x": frame})
    fit.save(tmp_path / "fit.npz")
    again = mc.load(tmp_path / "fit.npz")
    assert again.residual("x") == fit.residual("x") > 0.0
    assert again.model.terms[1] == plain


def test_a_path_begins_where_z_is_0():
    """Biases alone meet the equations there."""
    block = mc.Block("x", mc.Gaussian(), bias=True)
    model = mc.Model([block], [mc.NuclearNorm(1.0), mc.RowRelation("x", SUM, 3.0)])
    largest = mc.weight_max(model, {"x": X})
    for factor in (1.01, 0.9):
        terms = [mc.NuclearNorm(factor * largest), model.terms[1]]
        fit = mc.fit(mc.Model([block], terms), {"x": X}, tol=1e-8)
        assert (fit.rank == 0) == (factor > 1.0)
        np.testing.assert_allclose(fit.predict("x") @ SUM, 3.0, atol=1e-7)


def test_other_data_are_refused_by_name():
    frame = pd.DataFrame(X, columns=["food", "rent", "total", "age"])
    block = mc.Block("x", mc.Gaussian())
    for term, data, said in (
        (mc.RowRelation("x", {"totals": 1.0}), frame, "column 'totals', .* did you mean 'total'"),
        (mc.RowRelation("x", {9: 1.0}), X, "column 9, .* the columns are 0, 1, 2, 3"),
        (mc.RowRelation("x", [1.0, 1.0]), X, "the block 4 columns"),
        (mc.RowRelation("x", SUM, np.ones(3)), X, "B has 3 rows and the block 12"),
    ):
        with pytest.raises(mc.DataError, match=said):
            mc.fit(mc.Model([block], [mc.NuclearNorm(1.0), term]), {"x": data})
    classes = mc.Model(
        [mc.Block("x", mc.Multinomial(3))],
        [mc.NuclearNorm(1.0), mc.RowRelation("x", {0: 1.0}, of="predictors")],
    )
    with pytest.raises(mc.DataError, match="3 predictors each; give A as an array"):
        mc.fit(classes, {"x": WORDS["classes"][1]})
    beside = mc.Model([block], [mc.NuclearBall(0.1), mc.RowRelation("x", SUM, 5.0)])
    with pytest.raises(mc.McframeError, match="NuclearBall, RowRelation"):
        mc.fit(beside, {"x": X})


NEW_ROWS = [
    ({}, [], 2.0, mc.NuclearNorm(0.5)),
    ({"bias": True}, [], 2.0, mc.NuclearNorm(0.5)),
    ({"bias": True, "standardize": True}, [], 0.0, mc.NuclearNorm(0.5)),
    ({"standardize": "robust"}, [], 2.0, mc.NuclearNorm(0.5)),
    ({}, [], 2.0, mc.NuclearBall(12.0)),
    ({"bias": True}, [mc.Box(-0.8, 0.8)], 0.0, mc.NuclearNorm(0.5)),
    ({}, [], 2.0, mc.Ridge(0.5)),
]


@pytest.mark.parametrize(("options", "bounds", "B", "main"), NEW_ROWS)
def test_new_rows_satisfy_what_all_rows_do(options, bounds, B, main):
    """A row of the fit is found again from its own data; others satisfy the equations, too."""
    block = mc.Block("x", mc.Gaussian(), **options)
    terms = [main, mc.RowRelation("x", SUM, B), *bounds]
    fit = mc.fit(mc.Model([block], terms), {"x": X}, tol=1e-8)
    again = fit.predict_rows("x", {"x": X})
    np.testing.assert_allclose(again, fit.predict("x"), atol=1e-4)
    new = np.array([[1.0, np.nan, 7.0, 2.0], [np.nan, np.nan, np.nan, 9.0], [4.0, 1.0, 3.0, 1.0]])
    np.testing.assert_allclose(fit.predict_rows("x", {"x": new}) @ SUM, B, atol=1e-6)
    with pytest.raises(mc.DataError, match="new rows under RowRelation have no offset"):
        fit.predict_rows("x", {"x": mc.Observations(new, offset=np.ones(new.shape))})


@pytest.mark.parametrize(
    ("options", "relation", "said"),
    [
        ({}, mc.RowRelation("x", SUM, 2.0, weight=3.0), "is a penalty"),
        ({"row_effects": True}, mc.RowRelation("x", SUM, 2.0), "row_effects"),
        ({}, mc.RowRelation("x", SUM, np.arange(12.0)), "other values in each row"),
        ({}, mc.RowRelation("x", A, B), "some of the rows"),
    ],
)
def test_new_rows_of_which_nothing_is_stated_are_refused(options, relation, said):
    model = mc.Model([mc.Block("x", mc.Gaussian(), **options)], [mc.NuclearNorm(0.5), relation])
    fit = mc.fit(model, {"x": X}, tol=1e-3)
    with pytest.raises(mc.ModelError, match=f"RowRelation are known .* {said}.*; refit with"):
        fit.predict_rows("x", {"x": X[:2]})


PARTS = pd.DataFrame(X[:, :2], columns=["food", "rent"])
TOTALS = pd.DataFrame(X[:, 2:], columns=["total", "age"])
ACROSS = {"parts": {"food": 1.0, "rent": 1.0}, "totals": {"total": -1.0}}


@pytest.mark.parametrize("weight", [None, 5.0])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.some(0.4)
def test_several_blocks_have_one_relation(standardize, weight):
    """As one block of all columns has, whose losses are those of both."""
    blocks = [
        mc.Block("parts", mc.Gaussian(), standardize=standardize),
        mc.Block("beside", mc.Poisson(), bias=True),
        mc.Block("totals", mc.Huber(0.7), weight=2.0, standardize=standardize),
    ]
    data = {
        "parts": PARTS,
        "beside": COUNTS,
        "totals": mc.Observations(TOTALS, offset=OFFSET[:, 2:]),
    }
    term = mc.RowRelation(["parts", "totals"], ACROSS, 0.5, weight)
    model = mc.Model(blocks, [mc.NuclearNorm(0.3), term])
    verified = mc.verify(model, data, tol=1e-5)
    assert verified.agrees, verified
    fit = verified.fast
    parts, totals = fit.predict("parts"), fit.predict("totals")
    off = parts.sum(axis=1) - totals["total"] - 0.5
    assert fit.residual("parts") == fit.residual("totals")
    assert fit.residual("totals") == pytest.approx(float(np.linalg.norm(off)), abs=1e-9)
    if weight is None:
        np.testing.assert_allclose(off, 0.0, atol=1e-6)


def test_a_relation_across_blocks_is_that_of_one_block(tmp_path):
    frame = PARTS.join(TOTALS)
    sums = mc.RowRelation("x", {"food": 1.0, "rent": 1.0, "total": -1.0}, 0.5)
    terms = [mc.NuclearNorm(0.3), sums]
    whole = mc.fit(mc.Model([mc.Block("x", mc.Gaussian())], terms), {"x": frame})
    blocks = [mc.Block(name, mc.Gaussian()) for name in ("parts", "totals")]
    term = mc.RowRelation(("parts", "totals"), ACROSS, 0.5)
    model = mc.Model(blocks, [mc.NuclearNorm(0.3), term])
    data = {"parts": PARTS, "totals": TOTALS}
    fit = mc.fit(model, data)
    assert fit.objective == pytest.approx(whole.objective, rel=1e-6)
    assert term.formula() == "[P_parts, P_totals] Aᵀ = B"
    assert "P_totals = z_ij + offset" in str(model)
    assert "P_{\\text{totals}}" in model._repr_latex_()
    assert repr(term).startswith("RowRelation(block=('parts', 'totals'), A=array")
    assert mc.Model.from_json(model.to_json()) == model
    fit.save(tmp_path / "fit.npz")
    assert mc.load(tmp_path / "fit.npz").residual("parts") == fit.residual("parts")
    new = {"parts": PARTS[:3], "totals": TOTALS[:3]}
    predicted = [fit.predict_rows(name, new) for name in ("parts", "totals")]
    off = predicted[0].sum(axis=1) - predicted[1]["total"] - 0.5
    np.testing.assert_allclose(off, 0.0, atol=1e-6)


def test_wrong_relations_across_blocks_are_refused_by_name():
    blocks = [mc.Block(name, mc.Gaussian(), bias=name == "b") for name in ("a", "b", "c")]
    for block, A, said in (
        (["a"], {"a": {0: 1.0}}, "two or more different ones"),
        (["a", "a"], {"a": {0: 1.0}}, "two or more different ones"),
        (["a", "c"], {"b": {0: 1.0}}, "for 'b'; of the blocks 'a', 'c'"),
        (["a", "c"], {"a": 1.0}, "A has 1.0 for 'a'"),
    ):
        with pytest.raises(mc.ModelError, match=said):
            mc.RowRelation(block, A)
    main = mc.NuclearNorm(1.0)
    with pytest.raises(mc.ModelError, match="free effects of block 'b', which it does not take"):
        mc.Model(blocks, [main, mc.RowRelation(["a", "b"], {"a": {0: 1.0}})])
    with pytest.raises(mc.ModelError, match="speaks of block 'd'; the blocks are 'a', 'b', 'c'"):
        mc.Model(blocks, [main, mc.RowRelation(["a", "d"], {"a": {0: 1.0}})])
    model = mc.Model(blocks, [main, mc.RowRelation(["a", "c"], {"c": {7: 1.0}})])
    with pytest.raises(mc.DataError, match=r"of blocks 'a', 'c': .* column \('c', 7\)"):
        mc.fit(model, dict.fromkeys("abc", X))


def test_explain_says_what_is_stated():
    frame = pd.DataFrame(X, columns=["food", "rent", "total", "age"])
    named = mc.RowRelation("x", {"total": -1.0, "food": 1.0, "rent": 2.5}, 3.0)
    for term, said in (
        (named, "RowRelation of block 'x': − total + food + 2.5 rent = 3 in each row"),
        (mc.RowRelation("x", A, B), "2 equations of each row, 21 of 24 values known"),
        (mc.RowRelation("x", SUM), "RowRelation of block 'x': 1 equation of each row, all values"),
        (mc.Calibration("x", np.ones(N), np.ones(D)), "1 equation of each column, all values"),
    ):
        model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0), term])
        assert said in repr(mc.explain(model, {"x": frame}))
    blocks = [mc.Block(name, mc.Gaussian()) for name in ("parts", "totals")]
    model = mc.Model(blocks, [mc.NuclearNorm(1.0), mc.RowRelation(["parts", "totals"], ACROSS)])
    said = repr(mc.explain(model, {"parts": PARTS, "totals": TOTALS}))
    assert (
        "blocks 'parts', 'totals': parts.food + parts.rent − totals.total = 0 in each row" in said
    )
