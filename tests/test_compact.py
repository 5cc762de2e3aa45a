"""A fit that leaves its data behind."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mcframe as mc


def table_and_fit(rng, n_items=200):
    """Numbers, labels and classes with labels of rows and columns, and row effects."""
    scores = rng.standard_normal((n_items, 2))
    x = 50.0 + scores @ rng.standard_normal((2, 6)) + 0.1 * rng.standard_normal((n_items, 6))
    x[rng.random(x.shape) < 0.2] = np.nan
    y = (rng.random((n_items, 3)) < 1 / (1 + np.exp(-scores @ rng.standard_normal((2, 3))))) * 1.0
    kinds = rng.integers(0, 3, (n_items, 2)) * 1.0
    index = pd.Index([f"item {k}" for k in range(n_items)])
    data = {
        "x": mc.Observations(
            pd.DataFrame(x, columns=[*"abcdef"], index=index), offset=np.arange(6.0)[None, :]
        ),
        "y": pd.DataFrame(y, columns=["wet", "cold", "old"], index=index),
        "kinds": pd.DataFrame(kinds, columns=["tree", "soil"], index=index),
    }
    blocks = [
        mc.Block("x", mc.Gaussian(), bias=True, row_effects=True),
        mc.Block("y", mc.Bernoulli(), bias=True),
        mc.Block("kinds", mc.Multinomial(3), bias=True, effects_weight=0.1),
    ]
    return mc.fit(mc.Model(blocks, [mc.NuclearNorm(2.0)]), data), data


def test_a_compact_fit_answers_alike():
    fit, data = table_and_fit(np.random.default_rng(0))
    small = pickle.loads(pickle.dumps(fit.compact()))
    new = {name: block[:5] for name, block in data.items() if name != "x"}
    new["x"] = mc.Observations(data["x"].values[:5], offset=np.arange(6.0)[None, :])
    for name in ("x", "y", "kinds"):
        pd.testing.assert_frame_equal(small.predict(name), fit.predict(name))
        pd.testing.assert_frame_equal(small.natural(name), fit.natural(name))
        at = {"rows": [0, 7], "columns": [1, 0]}
        np.testing.assert_array_equal(small.predict(name, **at), fit.predict(name, **at))
        for ask in ("predict_rows", "impute_rows"):
            found, wanted = getattr(small, ask)(name, new), getattr(fit, ask)(name, new)
            pd.testing.assert_frame_equal(found, wanted)
        np.testing.assert_array_equal(np.asarray(small.bias(name)), np.asarray(fit.bias(name)))
        assert small.likelihood(name) == fit.likelihood(name)
    np.testing.assert_array_equal(small.latent_rows(new).dense(), fit.latent_rows(new).dense())
    pd.testing.assert_series_equal(small.row_effects("x"), fit.row_effects("x"))
    same = ("status", "message", "objective", "bound", "gap", "rank", "backend", "notes", "model")
    assert all(getattr(small, fact) == getattr(fit, fact) for fact in same)
    assert repr(small) == repr(fit)
    again = small.compact()
    pd.testing.assert_frame_equal(again.predict_rows("y", new), fit.predict_rows("y", new))


def test_what_needs_the_data_says_so():
    fit, data = table_and_fit(np.random.default_rng(1), n_items=30)
    small = fit.compact()
    for ask in (
        lambda: small.impute("y"),
        lambda: small.log_likelihood("y"),
        lambda: small.problem.objective(small.latent, small.effects),
        lambda: mc.fit(fit.model, data, start=small),
        lambda: repr(small.problem),
    ):
        with pytest.raises(mc.ModelError, match=r"compact fit has left its data behind; ask the"):
            ask()
    with pytest.raises(mc.ModelError) as error:
        small.impute("y")
    assert str(error.value) == (
        "block 'y': this needs the observed entries (observed_entries of the table), and a compact"
        " fit has left its data behind; ask the fit that fit.compact() was made of"
    )
    fit.impute("y")  # the fit itself is as it was


def test_a_compact_fit_is_small():
    """Of a sparse table: two thin factors in place of the entries, which take 24 bytes each."""
    rng = np.random.default_rng(2)
    n_items, n_columns = 2000, 300
    rows, columns = np.nonzero(rng.random((n_items, n_columns)) < 0.2)
    values = rng.standard_normal((n_items, 2))[rows] * rng.standard_normal((n_columns, 2))[columns]
    x = sp.coo_array((values.sum(axis=1), (rows, columns)), shape=(n_items, n_columns))
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(40.0)])
    fit = mc.fit(model, {"x": x}, tol=1e-3)
    whole, small = len(pickle.dumps(fit)), len(pickle.dumps(fit.compact()))
    factors = 8 * fit.latent.width * (n_items + n_columns)
    assert whole > 24 * x.nnz
    assert small < 1.3 * factors + 20_000
    assert small < whole / 10


@pytest.mark.parametrize(
    "terms",
    [
        [mc.NuclearBall(14.0)],
        [mc.NuclearNorm(0.5), mc.Box(-0.6, 0.8), mc.OnesColumn()],
        [mc.Ridge(0.3)],
    ],
)
def test_what_terms_leave_new_rows_is_kept(terms):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 6))
    fit = mc.fit(mc.Model([mc.Block("x", mc.Huber(0.5))], terms), {"x": x})
    small = pickle.loads(pickle.dumps(fit.compact()))
    wanted = fit.predict_rows("x", {"x": x[:4]})
    np.testing.assert_array_equal(small.predict_rows("x", {"x": x[:4]}), wanted)


def test_a_model_without_new_rows_is_made_compact_all_the_same():
    x = np.random.default_rng(4).standard_normal((6, 4))
    block = mc.Block("x", mc.Gaussian())
    for term in (
        mc.ResidualNuclearNorm("x", 0.1),
        mc.Calibration("x", np.ones((1, 6)), [[1.0] * 4]),
    ):
        fit = mc.fit(mc.Model([block], [mc.NuclearNorm(0.5), term]), {"x": x}, tol=1e-4)
        small = pickle.loads(pickle.dumps(fit.compact()))
        np.testing.assert_array_equal(small.predict("x"), fit.predict("x"))
        with pytest.raises(mc.ModelError, match="which ties rows to each other"):
            small.predict_rows("x", {"x": x})
