"""A model of the user's own on a table of any columns: ``mc.declare(frame, model=, columns=)``."""

import numpy as np
import pandas as pd
import pytest

import mcframe as mc

pytestmark = pytest.mark.core

NAN = np.nan
COLUMNS = {"sizes": ["weight", "height"], "smokers": ["smokes"], "towns": ["town"]}
TERMS = [mc.NuclearNorm(1.0)]
SIZES = mc.Block("sizes", mc.Gaussian(), bias=True, standardize=True)
SMOKERS = mc.Block("smokers", mc.Bernoulli(), bias=True)
TOWNS = mc.Block("towns", mc.Multinomial(3), bias=True)
MODEL = mc.Model([SIZES, SMOKERS, TOWNS], TERMS)
FOUR = mc.Model([SIZES, SMOKERS, mc.Block("towns", mc.Multinomial(4))], TERMS)


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    size = rng.standard_normal(60)
    columns = {
        "height": 170.0 + 10.0 * size,
        "town": np.array(["Bonn", "Kiel", "Ulm"])[np.digitize(size, [-0.5, 0.5])],
        "smokes": (size > 0.2).astype(float),
        "weight": 70.0 + 9.0 * size,
        "stage": np.array(["low", "mid", "high"])[np.digitize(size, [-0.4, 0.6])],
    }
    return pd.DataFrame(columns).mask(rng.random((60, 5)) < 0.2)


def refusal(frame, model=MODEL, columns=None, types=None, error=mc.ModelError):
    with pytest.raises(error) as caught:
        mc.declare(frame, types, model=model, columns=columns or COLUMNS)
    return str(caught.value)


def test_columns_stand_in_the_blocks_of_the_model(frame):
    declared = mc.declare(frame, model=MODEL, columns=COLUMNS)
    assert declared.model == MODEL
    assert list(declared.data["sizes"]) == ["weight", "height"]
    assert declared.column("stage").why == "in no block of the model"
    fit = mc.fit(declared.model, declared.data)
    table = declared.table(fit)
    assert not table.drop(columns="stage").isna().to_numpy().any()
    pd.testing.assert_frame_equal(table.where(frame.notna()), frame)
    assert set(table["smokes"]) == {0.0, 1.0}
    pd.testing.assert_series_equal(table["stage"], frame["stage"])


def test_the_fit_is_that_of_the_codes(frame):
    """The same numbers as if labels and categories had been coded by hand."""
    declared = mc.declare(frame, model=MODEL, columns=COLUMNS)
    towns = frame["town"].map({"Bonn": 0.0, "Kiel": 1.0, "Ulm": 2.0}).astype(float)
    data = {
        "sizes": frame[["weight", "height"]],
        "smokers": frame[["smokes"]],
        "towns": towns.to_frame(),
    }
    ours, theirs = mc.fit(declared.model, declared.data), mc.fit(MODEL, data)
    assert ours.objective == theirs.objective
    told = declared.predict(ours, "town").to_numpy()
    np.testing.assert_array_equal(told, np.asarray(theirs.predict("towns")))


def test_levels_of_text_are_in_the_order_that_types_give(frame):
    levels = ["low", "mid", "high"]
    model = mc.Model([SIZES, mc.Block("stages", mc.Ordinal(3))], TERMS)
    columns = {"sizes": ["weight", "height"], "stages": ["stage"]}
    declared = mc.declare(frame, {"stage": levels}, model=model, columns=columns)
    assert declared.model.block("stages").likelihood == mc.Ordinal(3, lowest=0)
    fit = mc.fit(declared.model, declared.data)
    assert declared.predict(fit, "stage").columns.tolist() == levels
    table = declared.table(fit)
    means = table.groupby("stage")["height"].mean()[levels]
    assert means.is_monotonic_increasing


def test_new_rows_have_the_predictions_of_the_fit(frame):
    declared = mc.declare(frame, model=MODEL, columns=COLUMNS)
    for answer in (
        mc.fit(declared.model, declared.data, tol=1e-9),
        mc.posterior(declared.model, declared.data, tol=1e-9),
    ):
        for name in ("weight", "smokes", "town"):
            known = declared.predict(answer, name)
            new = declared.predict_rows(answer, name, frame[::-1])
            assert new.index.equals(frame.index[::-1])
            np.testing.assert_allclose(new.loc[known.index], known, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"columns": {"sizes": ["weight"]}}, "the blocks 'sizes', 'smokers', 'towns' is needed"),
        ({"columns": COLUMNS | {"sizes": []}}, "columns['sizes'] is []"),
        ({"columns": COLUMNS | {"sizes": "weight"}}, "a list of column names is needed"),
        (
            {"columns": COLUMNS | {1: ["weight"]}},
            "the blocks 'sizes', 'smokers', 'towns' is needed",
        ),
        ({"columns": COLUMNS | {"sizes": 5}}, "columns['sizes'] is 5; a list of column names"),
        ({"columns": COLUMNS | {"sizes": [["weight"]]}}, "which is no column"),
        ({"columns": COLUMNS | {"sizes": ["wait"]}}, "names 'wait', which is no column"),
        ({"columns": COLUMNS | {"sizes": ["town"]}}, "in block 'sizes' and again in 'towns'"),
        ({"model": "MODEL"}, "a Model is needed"),
        ({"types": {"stage": "numbr"}}, "types['stage'] is 'numbr'"),
    ],
)
def test_wrong_arguments_are_named(frame, change, said):
    assert said in refusal(frame, **change)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"columns": COLUMNS | {"sizes": ["stage"]}}, "column 'stage' was declared Gaussian"),
        ({"types": {"town": "number"}}, "column 'town' was declared 'number', but its values are"),
        ({"types": {"height": "number", "town": "skip"}}, "it stands in block 'towns', which has"),
        ({"model": FOUR}, "holds 3 different values"),
    ],
)
def test_columns_that_do_not_suit_their_block_are_named(frame, change, said):
    assert said in refusal(frame, error=mc.DataError, **change)


def test_values_of_mixed_types_are_named_in_a_block_of_labels(frame):
    mixed = frame.assign(smokes=["-", 6] * 30)
    assert "it mixes text ('-' in row 0)" in refusal(mixed, error=mc.DataError)


def test_a_risk_of_unlabeled_entries_is_declared_by_a_model():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3))
    labels = np.where((x[:, 0] > 0.0) & (rng.random(60) < 0.6), 1.0, np.nan)
    frame = pd.DataFrame(x, columns=list("abc")).assign(bought=labels)
    risk = mc.RiskMixture(likelihood=mc.Bernoulli(), pu=1.0, missing_rate=0.4)
    for verb in (mc.declare, mc.complete):
        with pytest.raises(mc.ModelError, match="needs a weight of your choice; declare it"):
            verb(frame, {"bought": risk})
    # The remedy, as it is given.
    numbers = mc.Block("numbers", mc.Gaussian(), bias=True, standardize=True)
    model = mc.Model(
        [mc.Block("labels", risk, weight=1.0, bias=True), numbers], [mc.NuclearBall(20.0)]
    )
    columns = {"labels": ["bought"], "numbers": list("abc")}
    declared = mc.declare(frame, model=model, columns=columns)
    table = declared.table(mc.fit(*declared))
    assert set(table["bought"]) == {0.0, 1.0}
    # A mixture that reads labels alone needs no model.
    alone = mc.RiskMixture(likelihood=mc.Bernoulli(), pn=1.0)
    assert (
        mc.complete(frame.fillna({"bought": 0.0}), {"bought": alone}).table.notna().all(axis=None)
    )
