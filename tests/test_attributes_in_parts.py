"""Attributes of rows in partitions: the answers of the table, however these are cut."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, assume, given, seed, settings
from hypothesis import strategies as st
from scipy import sparse

import mcframe as mc
from mcframe.model import Problem
from mcframe.partitions import attribute_rows
from mcframe.partitions import fit_partitions as partitions
from mcframe.partitions.attribute_rows import CrossedProducts
from mcframe.partitions.binding_rounds import refusal_of_reading
from mcframe.partitions.executor import OneByOne, PartCache
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.posterior.estimation import BOUND_ROUNDING
from tests.strategies import posterior_models
from tests.test_attributes import table
from tests.test_posterior_partitions import agree, trajectory

pytestmark = [
    pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning"),
    pytest.mark.filterwarnings("ignore::mcframe.NotConvergedWarning"),
]
WORDS = [mc.Gaussian(variance=None), mc.Bernoulli(), mc.Poisson(), mc.Ordinal(3)]


def model_and_data(word, n=90, d=20):
    """A model of factors with effects, its table, and attributes of rows with gaps and columns."""
    y, _, F, G = table(1, n=n, d=d)
    F[3, 1] = F[50, 0] = np.nan
    if isinstance(word, mc.Bernoulli):
        y = np.where(np.isnan(y), y, y > 0.0)
    elif isinstance(word, mc.Poisson):
        y = np.where(np.isnan(y), y, np.round(np.exp(np.clip(y, -2.0, 2.0))))
    elif isinstance(word, mc.Ordinal):
        y = np.where(np.isnan(y), y, 1.0 + (y > -0.5) + (y > 0.5))
    effects = not isinstance(word, mc.Ordinal)
    block = mc.Block("x", word, bias=effects, row_effects=effects)
    few = sparse.random_array((n, 3), density=0.3, rng=np.random.default_rng(0))
    attributes = {"numbers": pd.DataFrame(F), "few": few, "alike": np.ones(n)}
    return mc.Model([block], [mc.NuclearNorm()]), y, attributes, G


def check_same(found, whole, data, row_attributes):
    """The sweeps and the answers of a table."""
    assert len(found.history) == len(whole.history)
    np.testing.assert_allclose(trajectory(found), trajectory(whole), rtol=1e-9)
    if whole.engine.observed.needs_bounds:
        whole = whole.condition(data, row_attributes=row_attributes)
    agree(found, whole)


@pytest.mark.parametrize("word", WORDS, ids=repr)
@pytest.mark.some(0.5, word=2)
def test_arrays_of_all_rows_are_cut_as_the_data_are(word):
    model, y, attributes, G = model_and_data(word)
    options = {"factors": 3, "max_iter": 8, "column_attributes": G}
    whole = mc.posterior(model, {"x": y}, row_attributes=attributes, **options)
    for n_partitions in (1, 4):
        parts = RowsInMemory({"x": y}, n_partitions)
        found = mc.posterior(model, parts, row_attributes=attributes, **options)
        check_same(found, whole, {"x": y}, attributes)
    new = {"x": y[:3]}
    of_new = {"numbers": attributes["numbers"][:3], "few": attributes["few"].tocsr()[:3]}
    of_new["alike"] = np.ones(3)
    ours, theirs = (one.predict_rows("x", new, row_attributes=of_new) for one in (found, whole))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
    assert "numbers (4), few (3), alike (1)" in str(found)


def test_cold_rows_are_predicted_from_attributes_on_disk(tmp_path):
    """Attributes in a folder of their own, whose rows are cut elsewhere than those of the data."""
    model, y, attributes, G = model_and_data(mc.Gaussian(variance=None))
    F = attributes["numbers"].to_numpy()
    options = {"factors": 3, "max_iter": 8, "column_attributes": G}
    whole = mc.posterior(model, {"x": y}, row_attributes={"numbers": F}, **options)
    data = mc.datasets.write_partitions({"x": [y]}, tmp_path / "x", n_partitions=4)
    folder = mc.datasets.write_partitions({"numbers": [F]}, tmp_path / "f", n_partitions=3)
    assert data.rows(0) != folder.rows(0)
    found = mc.posterior(model, data, row_attributes=folder, **options)
    check_same(found, whole, {"x": y}, {"numbers": F})
    spread = np.std(found.predict("x")[-40:], axis=0)
    assert np.mean(spread) > 0.1, "rows without entries differ by their attributes"
    new = {"numbers": F[-40:]}
    np.testing.assert_allclose(
        found.predict_rows("x", {"x": y[-40:]}, row_attributes=new),
        found.predict("x")[-40:],
        rtol=1e-6,
    )


def test_collections_of_dask_have_attributes_as_such():
    da = pytest.importorskip("dask.array")
    import dask

    model, y, attributes, _ = model_and_data(mc.Gaussian(variance=None))
    F = attributes["numbers"].to_numpy()
    whole = mc.posterior(model, {"x": y}, row_attributes=F, factors=2, max_iter=4)
    data = {"x": da.from_array(y, chunks=(25, -1))}
    with dask.config.set(scheduler="synchronous"):
        given = da.from_array(F, chunks=(40, -1))
        for raw in (F, given, {"numbers": given}):
            found = mc.posterior(model, data, row_attributes=raw, factors=2, max_iter=4)
            check_same(found, whole, {"x": y}, F)


def random_attributes(model, data, number, magnitude):
    """Random attributes of rows and columns, of this size, with gaps and absent ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape = Problem.bind(model, data).shape
    rng, attributes = np.random.default_rng(number), {}
    for name, n in zip(("row_attributes", "column_attributes"), shape, strict=True):
        numbers = magnitude * (rng.normal(size=(n, int(rng.integers(1, 4)))) + rng.normal())
        numbers[rng.random(numbers.shape) < 0.1] = np.nan
        numbers[0] = magnitude  # no attribute has gaps alone
        few = magnitude * sparse.random_array((n, 2), density=0.3, rng=rng)
        forms = {"numbers": numbers, "alike": np.full((n, 1), magnitude), "few": few}
        chosen = rng.permutation(list(forms))[: rng.integers(1, 4)]
        attributes[name] = {str(form): forms[form] for form in chosen}
    return attributes


@pytest.mark.parametrize(
    ("part", "n_examples"),
    [(0, 10), *(pytest.param(k, 150, marks=pytest.mark.slow) for k in range(100, 102))],
)
def test_random_models_have_one_posterior_however_rows_are_cut(part, n_examples):
    """Blocks with effects, weights, offsets and attributes of any size."""
    answered = []

    @seed(part)
    @settings(max_examples=n_examples, phases=[Phase.generate])
    @given(posterior_models(), st.integers(0, 2**20), st.sampled_from([1e-8, 1.0, 1e6]))
    def holds(example, number, magnitude):
        model, data = example
        assume(isinstance(model.terms[0], mc.NuclearNorm))
        assume(all(refusal_of_reading(block) is None for block in model.blocks))
        options = random_attributes(model, data, number, magnitude) | {"max_iter": 4, "factors": 2}
        try:
            whole = mc.posterior(model, data, **options)
        except mc.McframeError:
            assume(False)
        # From first bounds of large exponentials sweeps magnify rounding, without attributes too:
        # of -1e8, then -3e2, by 1e10 in four sweeps.
        sizes = np.abs(trajectory(whole))
        assume(np.max(sizes) < 1e4 * np.min(sizes))
        parts = RowsInMemory(data, 1 + number % min(whole.problem.shape[0], 3))
        found = mc.posterior(model, parts, **options)
        np.testing.assert_allclose(trajectory(found), trajectory(whole), rtol=1e-7)
        answered.append(number)

    holds()
    assert len(answered) >= n_examples / 3


def test_processes_that_forget_never_lower_the_bound(monkeypatch):
    """As workers that die: bounds are found anew given columns and coefficients."""
    model, y, attributes, _ = model_and_data(mc.Bernoulli())
    options = {"row_attributes": attributes, "factors": 2, "max_iter": 25}
    kept = mc.posterior(model, RowsInMemory({"x": y}, 3), **options)

    def forgetful(source, *_):
        return OneByOne(source, PartCache(max_bytes=0.0))

    monkeypatch.setattr(partitions, "OneByOne", forgetful)
    found = mc.posterior(model, RowsInMemory({"x": y}, 3), **options)
    bounds = trajectory(found)
    assert np.all(np.diff(bounds) >= -BOUND_ROUNDING * (2.0 * np.abs(bounds[1:]) + 1e3))
    assert found.evidence == pytest.approx(kept.evidence, rel=1e-2)


def test_crossed_products_are_those_of_whole_matrices():
    rng = np.random.default_rng(2)
    n, p, k = 7, 3, 2
    F, roots = rng.normal(size=(n, p)), rng.normal(size=(n, k, k))
    A, v = roots @ roots.transpose(0, 2, 1), rng.normal(size=(p, k))
    left, right = np.tril_indices(p)
    a, b = np.tril_indices(k)
    packed = (F[:, left] * F[:, right]).T @ A[:, a, b]
    np.testing.assert_allclose(
        CrossedProducts.of(packed, p, k)(v), np.einsum("ip,ikl,iq,ql->pk", F, A, F, v)
    )


def test_what_parts_do_not_add_up_is_named(monkeypatch):
    model, y, attributes, _ = model_and_data(mc.Gaussian(variance=None))
    data = RowsInMemory({"x": y}, 3)
    F = attributes["numbers"].to_numpy()
    wrong = np.array(F)
    wrong[35, 2] = np.inf

    def ask(given=data, **options):
        mc.posterior(model, given, factors=2, max_iter=2, **options)

    with pytest.raises(mc.BackendError, match=r"row_attributes\['cells'\]='observed'"):
        ask(row_attributes={"cells": "observed", "numbers": F})
    with pytest.raises(mc.BackendError, match="column_attributes='observed': no process knows"):
        ask(column_attributes="observed")
    with pytest.raises(mc.DataError, match="attributes of 80 rows were given, and the data have"):
        ask(row_attributes=F[:80])
    with pytest.raises(mc.DataError, match="attributes of 80 rows were given, and the data have"):
        ask(row_attributes=RowsInMemory({"numbers": F[:80]}, 2))
    with pytest.raises(mc.DataError, match="have no weights, offsets or exposures"):
        ask(row_attributes=RowsInMemory({"numbers": mc.Observations(F, weights=F**2)}, 2))
    with pytest.raises(mc.DataError, match=r"partition 1 .*row_attributes\['numbers'\]: row 5"):
        ask(row_attributes=RowsInMemory({"numbers": wrong}, 2))
    with pytest.raises(mc.DataError, match="RowsInMemory was given, rows in partitions"):
        ask({"x": y}, row_attributes=RowsInMemory({"numbers": F}, 2))
    with pytest.raises(mc.BackendError, match="checkpoint was given"):
        ask(row_attributes=F, checkpoint="posterior.npz")
    monkeypatch.setattr(attribute_rows, "MOST_PRODUCTS", 50)
    with pytest.raises(mc.ModelError, match="4 attributes and 4 factors and effects have 100"):
        ask(row_attributes=F)
