"""Values whose noise is said to be next to nothing: completion that is nearly exact.

Weights down to 1e-13 of the size of the values, where gradient steps made for the loss are far too
short for the regularizer.
"""

import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import Phase, given, seed, settings

import mcframe as mc

from .strategies import nearly_exact_models


def low_rank(shape=(40, 6), rank=3, share=0.7, state=0):
    """A matrix of low rank and the mask of what is observed."""
    rng = np.random.default_rng(state)
    z = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    return z, rng.random(shape) < share


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("loss", [mc.Gaussian(), mc.Huber(1.0), mc.Gaussian(1e-4)], ids=repr)
@pytest.mark.parametrize("effects", [{}, {"bias": True}])
@pytest.mark.some(0.2)
def test_a_small_weight_is_certified_soon(scale, loss, effects):
    z, seen = low_rank()
    model = mc.Model([mc.Block("x", loss, **effects)], [mc.NuclearNorm(0.5)])
    fit = mc.fit(model, {"x": np.where(seen, scale * z, np.nan)}, max_iter=500)
    assert fit.status == "certified"


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e9, 1e12])
def test_effects_of_rows_and_columns_are_certified_too(scale):
    z, seen = low_rank()
    block = mc.Block("x", mc.Gaussian(), bias=True, row_effects=True)
    model = mc.Model([block], [mc.NuclearNorm(0.5)])
    fit = mc.fit(model, {"x": np.where(seen, scale * z, np.nan)}, max_iter=500)
    assert fit.status == "certified"


@pytest.mark.parametrize("weight", [2.5e-13, 1e-8, 1e-3])
@pytest.mark.parametrize("loss", [mc.Gaussian(), mc.Quantile(0.3), mc.Equality()], ids=repr)
@pytest.mark.some(0.2)
def test_a_small_weight_of_the_max_norm_in_a_tight_box_is_certified_soon(weight, loss):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((6, 3))
    largest = float(np.max(np.abs(values)))
    data = {"x": np.where(rng.random(values.shape) < 0.7, values, np.nan)}
    terms = [mc.MaxNorm(weight), mc.Box(-largest, largest)]
    model = mc.Model([mc.Block("x", loss)], terms)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotCertifiedWarning)
        fit = mc.fit(model, data, backend="factored", max_iter=600)
    assert fit.status in ("certified", "limited_by_rounding")
    assert fit.objective - fit.bound <= 0.1 * fit.bound


@pytest.mark.parametrize(("weight", "most"), [(1.0, 260), (0.1, 700)])
@pytest.mark.parametrize("state", [7, 8, 9])
@pytest.mark.some(0.3)
def test_medians_need_no_more_iterations_at_any_weight(weight, most, state):
    rng = np.random.default_rng(state)
    z = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 30))
    z = z + 0.3 * rng.standard_normal(z.shape)
    data = {"x": np.where(rng.random(z.shape) < 0.3, np.nan, z)}
    terms = [mc.NuclearNorm(weight), mc.Box(-3.0, 3.0)]
    model = mc.Model([mc.Block("x", mc.Quantile(0.5))], terms)
    fit = mc.fit(model, data, backend="splitting", max_iter=most)
    assert fit.status == "certified"


@pytest.mark.parametrize("scale", [1e4, 1e9])
def test_what_is_determined_is_completed(scale):
    z, seen = low_rank((60, 40))
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5)])
    fit = mc.fit(model, {"x": np.where(seen, scale * z, np.nan)}, tol=1e-9, max_iter=500)
    assert fit.status == "certified"
    assert fit.rank == 3
    assert np.max(np.abs(fit.natural("x") / scale - z)) <= 10.0 / scale


def test_the_optimum_is_that_of_other_backends():
    z, seen = low_rank()
    for scale in (1.0, 30.0, 300.0):
        model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.5)])
        data = {"x": np.where(seen, scale * z, np.nan)}
        fits = [mc.fit(model, data, backend=name) for name in ("splitting", "proximal")]
        assert [fit.status for fit in fits] == ["certified", "certified"]
        assert fits[0].bound <= fits[1].objective
        assert fits[1].bound <= fits[0].objective


@pytest.mark.parametrize(
    ("part", "n_examples"), [(0, 10), pytest.param(1, 150, marks=pytest.mark.slow)]
)
def test_random_tables_are_certified(part, n_examples, record_property):
    tally = Counter()

    @seed(part)
    @settings(max_examples=n_examples, phases=[Phase.generate])
    @given(nearly_exact_models())
    def holds(example):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mc.UnobservedWarning)
            warnings.simplefilter("ignore", mc.NotCertifiedWarning)
            fit = mc.fit(*example, max_iter=2000, max_seconds=20.0)
        tally[fit.status] += 1
        tally["iterations"] += fit.history[-1].iteration
        assert fit.status in ("certified", "limited_by_rounding"), fit

    holds()
    record_property("nearly exact", ", ".join(f"{k} {v}" for k, v in sorted(tally.items())))
