"""Data: every accepted form means the same, every mistake is named with its remedy."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mcframe as mc

MODEL = mc.Model(
    [mc.Block("x", mc.Gaussian()), mc.Block("y", mc.Bernoulli())], [mc.NuclearNorm(1.0)]
)
X = np.array([[1.0, np.nan], [0.0, 2.0], [3.0, 4.0]])
Y = np.array([[1.0], [0.0], [np.nan]])


def entries(table):
    return list(zip(table.rows, table.columns, table.values, strict=True))


@pytest.mark.parametrize(
    "given",
    [
        X.tolist(),
        np.ma.masked_invalid(X),
        pd.DataFrame(X),
        pd.DataFrame(X).astype("Float64"),
        sp.csr_array((np.array([1.0, 0.0, 2.0, 3.0, 4.0]), ([0, 1, 1, 2, 2], [0, 0, 1, 0, 1]))),
        sp.coo_matrix((np.array([4, 3, 2, 0, 1]), ([2, 2, 1, 1, 0], [1, 0, 1, 0, 0]))),
        np.array([[1, None], [0, 2], [3, 4]], dtype=object),
        np.array([[1, pd.NA], [0, Decimal(2)], [Fraction(3), np.float32(4)]], dtype=object),
        np.ma.array([[1, "?"], [0, 2], [3, 4]], mask=np.isnan(X), dtype=object),
    ],
    ids=[
        *["lists", "masked", "frame", "nullable frame", "csr", "unsorted coo", "objects"],
        *["other objects", "masked objects"],
    ],
)
def test_accepted_forms_mean_the_same(given):
    plain = mc.Problem.bind(MODEL, {"x": X, "y": Y}).tables["x"]
    table = mc.Problem.bind(MODEL, {"x": given, "y": Y}).tables["x"]
    assert entries(table) == entries(plain)
    assert table.shape == plain.shape


def test_a_vector_is_one_column_and_booleans_are_labels():
    y = np.array([True, False, True])
    table = mc.Problem.bind(MODEL, {"x": X, "y": y}).tables["y"]
    assert table.shape == (3, 1)
    assert table.values.tolist() == [1.0, 0.0, 1.0]


def test_given_arrays_are_not_changed():
    x, y = X.copy(), Y.copy()
    mc.fit(MODEL, {"x": x, "y": y})
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)


frame = pd.DataFrame(X, columns=["height", "weight"])
MISTAKES = {
    "rows differ": ({"x": X, "y": Y[:2]}, ["'x' has 3 rows", "'y' has 2"]),
    "label of -1": ({"x": X, "y": -Y}, ["'y'", "value -1 in column 0, row 0", "Recode"]),
    "huge": ({"x": X * 1e200, "y": Y}, ["1e+200 in column 0", "Rescale"]),
    "a file name": ({"x": "table.csv", "y": Y}, ["'x'", "str was given"]),
    "one-dimensional sparse": ({"x": sp.coo_array(np.ones(3)), "y": Y}, ["(3,)"]),
    "infinity": ({"x": np.where(np.isnan(X), np.inf, X), "y": Y}, ["inf in column 1", "NaN"]),
    "nothing observed": ({"x": X * np.nan, "y": Y}, ["'x'", "not one of its 3 x 2 entries"]),
    "unknown block": ({"x": X, "y": Y, "Z": X}, ["'Z'", "'x', 'y'"]),
    "no data": ({"x": X}, ["'y' has no data"]),
    "text": ({"x": frame.assign(height="tall"), "y": Y}, ["column 'height'", "'tall'"]),
    "text array": ({"x": X, "y": np.array(["a", "b", "c"])}, ["'y'", "column 0", "'a'"]),
    "complex": ({"x": X + 0j, "y": Y}, ["'x'", "complex128"]),
    "masked complex": ({"x": np.ma.masked_invalid(X) + 0j, "y": Y}, ["'x'", "complex128"]),
    "text of numbers": (
        {"x": X.astype(str), "y": Y},
        ["'x', column 0", "'1.0' is not a number", "array.astype(float)"],
    ),
    "masked text": ({"x": np.ma.array(X.astype(str)), "y": Y}, ["'1.0' is not a number"]),
    "durations": ({"x": np.ones((3, 2), "m8[s]"), "y": Y}, ["column 0", "is not a number"]),
    "dates": ({"x": np.ones((3, 2), "M8[D]"), "y": Y}, ["column 0", "is not a number"]),
    "masked dates": ({"x": np.ma.array(np.ones((3, 2), "M8[D]")), "y": Y}, ["is not a number"]),
    "zeros of a block": (
        {
            "x": sp.bsr_array(np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]]), blocksize=(3, 2)),
            "y": Y,
        },
        ["bsr format", "coo_array of the observed entries"],
    ),
    "zeros of a diagonal": (
        {"x": sp.dia_array((np.array([[1.0, 0.0]]), [0]), (3, 2)), "y": Y},
        ["dia format", "coo_array of the observed entries"],
    ),
    "three dimensions": ({"x": X[None], "y": Y}, ["(1, 3, 2)"]),
    "ragged": ({"x": [[1.0], [1.0, 2.0], [3.0]], "y": Y}, ["'x'", "equal length"]),
    "no columns": ({"x": X[:, :0], "y": Y}, ["(3, 0)"]),
    "not a dict": (X, ["ndarray", "dict"]),
    "labels of rows": (
        {"x": frame, "y": pd.DataFrame(Y, index=[2, 1, 0])},
        ["different row labels", "first 0 and 2 in row 0", "reindex"],
    ),
    "columns twice": (
        {"x": pd.DataFrame(X, columns=["a", "a"]), "y": Y},
        ["2 columns of the table have the name 'a'"],
    ),
    "stored twice": (
        {"x": sp.coo_array((np.ones(2), ([0, 0], [1, 1])), shape=(3, 2)), "y": Y},
        ["row 0, column 1", "more than once"],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(mistake):
    data, named = MISTAKES[mistake]
    with pytest.raises(mc.DataError) as caught:
        mc.fit(MODEL, data)
    for part in named:
        assert part in str(caught.value)


def test_unobserved_columns_and_rows_are_allowed_and_said():
    x = X.copy()
    x[:, 1] = np.nan
    y = Y.copy()
    x[1], y[1] = np.nan, np.nan
    with pytest.warns(mc.UnobservedWarning) as said:
        fit = mc.fit(MODEL, {"x": x, "y": y})
    assert len(said) == 2
    assert "block 'x': column 1 without" in fit.notes[0]
    assert "row 1 without" in fit.notes[1]
    assert "note" in repr(fit)
    np.testing.assert_array_equal(fit.predict("x")[:, 1], 0.0)


WRONG_MODELS = {
    "no terms": (lambda: mc.Model([mc.Block("x", mc.Gaussian())]), "no term over all of Z"),
    "no blocks": (lambda: mc.Model([], [mc.Ridge(1.0)]), "no block"),
    "duplicate names": (
        lambda: mc.Model([mc.Block("x", mc.Gaussian())] * 2, [mc.Ridge(1.0)]),
        "two blocks are named 'x'",
    ),
    "negative weight": (lambda: mc.Block("x", mc.Gaussian(), weight=-1.0), "weight=-1.0"),
    "class for object": (lambda: mc.Block("x", mc.Gaussian), r"Gaussian\(\) with parentheses"),
    "wrong reduce": (lambda: mc.Block("x", mc.Gaussian(), reduce="avg"), "reduce='avg'"),
    "bias of 1": (lambda: mc.Block("x", mc.Gaussian(), bias=1), "bias=1"),
    "empty name": (lambda: mc.Block("", mc.Gaussian()), "name=''"),
    "terms twice": (
        lambda: mc.Model([mc.Block("x", mc.Gaussian())], [mc.Ridge(1.0), mc.Ridge(2.0)]),
        "Ridge stands twice",
    ),
    "constraint alone": (
        lambda: mc.Model([mc.Block("x", mc.Gaussian())], [mc.OnesColumn()]),
        "no term over all of Z",
    ),
    "a class among terms": (
        lambda: mc.Model([mc.Block("x", mc.Gaussian())], [mc.OnesColumn]),
        r"write OnesColumn\(...\)",
    ),
}


@pytest.mark.parametrize("mistake", WRONG_MODELS)
def test_wrong_sentences_are_named(mistake):
    build, named = WRONG_MODELS[mistake]
    with pytest.raises(mc.ModelError, match=named):
        build()


def test_models_are_values():
    import attrs

    twin = mc.Model(
        [mc.Block("x", mc.Gaussian()), mc.Block("y", mc.Bernoulli())], [mc.NuclearNorm(1.0)]
    )
    assert twin == MODEL
    assert hash(twin) == hash(MODEL)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        MODEL.terms = ()
    assert eval(repr(MODEL), vars(mc)) == MODEL


def test_the_model_prints_as_mathematics():
    model = mc.Model(
        [
            mc.Block("x", mc.Gaussian(variance=2.0)),
            mc.Block("y", mc.Bernoulli(scale=0.5), weight=3.0, reduce="mean", bias=True),
        ],
        [mc.NuclearNorm(0.5), mc.Ridge(0.1), mc.OnesColumn()],
    )
    text = str(model)
    for part in (
        "minimise over Z, b",
        "Σ_(i,j)∈x (z_ij − x_ij)²/(2·2)",
        "3/N_y Σ_(i,j)∈y log(1 + exp((1 − 2y_ij)(z_ij + b_j)/0.5))",
        "0.5 ‖Z‖_*",
        "0.1/2 ‖Z‖_F²",
        "subject to the last column of Z is 1",
        "Z = [x, y, 1]",
    ):
        assert part in text
    latex = model._repr_latex_()
    assert latex.startswith("$")
    assert latex.endswith("$")
    assert latex.count("{") == latex.count("}")
