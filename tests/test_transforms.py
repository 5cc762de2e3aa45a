"""The chain between the data and the losses: every transform has an inverse, and the chain all."""

import warnings

import attrs
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.contracts.arrays import points_of
from mcframe.model.binding import Layout, Origin
from mcframe.model.transforms import (
    AffineUnits,
    CellNumbers,
    Chain,
    Offset,
    RankUnits,
    affine_units,
    rank_units,
)
from mcframe.numerics.operators import LowRank, Scales
from mcframe.partitions.partitioned_data import RowsInMemory

from .strategies import everything

pytestmark = pytest.mark.core

EPS = np.finfo(float).eps
N_ROWS, N_COLUMNS = 6, 3
SHAPE = N_ROWS, N_COLUMNS


def sizes_at(transforms, numbers, rows, columns):
    """The sum of the sizes that numbers have on their way, in the units in which they began."""
    size, unit = np.abs(numbers), 1.0
    for transform in transforms:
        numbers = transform.apply(numbers, rows, columns)
        step = transform.unit(columns)
        if step is not None:
            unit = unit * step
            size = size + unit * np.abs(numbers)
    return size


def assert_inverse(transforms, numbers, rows, columns):
    """Numbers come back to rounding of the sizes on their way; what is no number stays."""
    chain = Chain(tuple(transforms))
    with np.errstate(invalid="ignore"):
        there = chain.apply(numbers, rows, columns)
        back = chain.invert(there, rows, columns)
        sizes = sizes_at(transforms, numbers, rows, columns)
    finite = np.isfinite(numbers)
    np.testing.assert_array_equal(back[~finite], numbers[~finite])
    off = np.abs(back[finite] - numbers[finite])
    assert np.all(off <= 8.0 * EPS * sizes[finite]), np.max(off / sizes[finite])
    return there


@st.composite
def offsets(draw, rng, size):
    """Offsets of all cells, of rows, of columns, of one number, or of a sparse matrix."""
    form = draw(st.sampled_from(["cells", "rows", "columns", "one", "sparse"]))
    if form == "sparse":
        cells = np.flatnonzero(rng.random(N_ROWS * N_COLUMNS) < 0.5)
        return Offset(CellNumbers(SHAPE, size * rng.standard_normal(cells.size), cells))
    shape = {"cells": SHAPE, "rows": (N_ROWS, 1), "columns": (1, N_COLUMNS), "one": (1, 1)}[form]
    return Offset(CellNumbers(SHAPE, size * rng.standard_normal(shape)))


@st.composite
def chains(draw):
    """(transforms, numbers, rows, columns): numbers of any size, some of them observed values."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    powers = st.floats(-60.0, 60.0)
    scale = 10.0 ** np.array([draw(powers) for _ in range(N_COLUMNS)])
    centre = 10.0 ** draw(st.floats(-3.0, 12.0)) * scale * draw(st.sampled_from([0.0, 1.0, -1.0]))
    numbers = centre + scale * rng.standard_normal(SHAPE)
    numbers[:, rng.integers(N_COLUMNS)] *= draw(st.sampled_from([0.0, 1.0]))
    rows, columns = (places.ravel() for places in np.indices(SHAPE))
    numbers, weights = numbers.ravel(), rng.uniform(0.5, 4.0, numbers.size)
    transforms = []
    if draw(st.booleans()):
        transforms.append(draw(offsets(rng, float(np.exp(rng.uniform(-5.0, 5.0)) * scale[0]))))
    moved = Chain(tuple(transforms)).apply(numbers, rows, columns)
    units = draw(st.sampled_from(["none", "mean", "robust", "ranks"]))
    if units == "ranks":
        transforms.append(rank_units(moved, columns, weights, N_COLUMNS))
    elif units != "none":
        transforms.append(affine_units(moved, columns, weights, N_COLUMNS, units == "robust"))
    if draw(st.booleans()):
        layout = Layout(
            n_biases=N_COLUMNS * draw(st.integers(0, 1)),
            n_row_effects=N_ROWS * draw(st.integers(0, 1)),
        )
        transforms.append(Origin(layout, rng.standard_normal(layout.size)))
    if units != "ranks":  # values that were not observed have the score of the nearest one
        chosen = rng.random(numbers.size)
        numbers[chosen < 0.3] = draw(st.sampled_from([np.nan, np.inf, -np.inf, 0.0]))
        numbers[chosen > 0.9] *= 10.0 ** draw(st.floats(-20.0, 20.0))
    return transforms, numbers, rows, columns


@settings(deadline=None, max_examples=300, derandomize=True)
@given(chains())
def test_numbers_come_back_through_any_chain(drawn):
    transforms, numbers, rows, columns = drawn
    assert_inverse(transforms, numbers, rows, columns)
    for transform in transforms:
        if not isinstance(transform, RankUnits):
            assert_inverse([transform], numbers, rows, columns)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(chains())
def test_order_is_kept_and_densities_change_by_the_derivative(drawn):
    transforms, numbers, rows, columns = drawn
    chain = Chain(tuple(transforms))
    numbers = np.where(np.isfinite(numbers), numbers, 0.0)
    steps = 1e-3 * (np.abs(numbers) + sizes_at(transforms, numbers, rows, columns))
    steps = np.where(steps > 0.0, steps, 1.0)
    low, high = (chain.apply(numbers + sign * steps, rows, columns) for sign in (-1.0, 1.0))
    assert np.all(low <= high)
    unit = chain.unit(columns)
    if unit is None:
        ranks = [transform for transform in transforms if isinstance(transform, RankUnits)]
        assert all(one.log_derivative(numbers, rows, columns) == 0.0 for one in ranks)
        return
    slopes = (high - low) / (2.0 * steps)
    np.testing.assert_allclose(
        np.log(slopes),
        chain.log_derivative(numbers, rows, columns) * np.ones(rows.size),
        atol=1e-9,
    )


class Forgetful(AffineUnits):
    """Units whose way back forgets the centre."""

    def invert(self, numbers, rows, columns):
        return self.shift[columns] + self.spread[columns] * numbers


class Rounded(AffineUnits):
    """Units whose way back loses half of the digits."""

    def invert(self, numbers, rows, columns):
        return super().invert(numbers.astype(np.float32), rows, columns)


@pytest.mark.parametrize("wrong", [Forgetful, Rounded])
def test_the_law_finds_a_way_back_that_is_another_one(wrong):
    rng = np.random.default_rng(0)
    rows, columns = (places.ravel() for places in np.indices(SHAPE))
    numbers = 100.0 + rng.standard_normal(rows.size)
    units = affine_units(numbers, columns, np.ones(rows.size), N_COLUMNS, robust=False)
    assert_inverse([units], numbers, rows, columns)
    planted = wrong(units.pivot, units.shift, units.spread)
    with pytest.raises(AssertionError):
        assert_inverse([planted], numbers, rows, columns)


@settings(deadline=None, max_examples=80, derandomize=True)
@given(everything(), st.integers(0, 2**32 - 1))
def test_targets_are_the_values_of_any_model_through_its_chain(example, seed):
    model, data = example[:2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        try:
            problem = mc.Problem.bind(model, data)
        except mc.McframeError:
            return
    rng = np.random.default_rng(seed)
    z = LowRank.of(rng.standard_normal(problem.shape))
    effects = {
        block.name: rng.standard_normal(problem.layout(block.name).size)
        for block in model.blocks
        if problem.layout(block.name).size
    }
    for block in model.blocks:
        name, table, chain = block.name, problem.tables[block.name], problem.transforms(block.name)
        values = table.in_data_units().values
        predictors, targets = problem.predictors_and_targets(name, z, effects)
        places = problem.latent_places(name, table.rows, table.columns)
        fitted = problem.fitted_at(name, z, effects, table.rows, table.columns)
        if block.likelihood.location:
            targets_again = chain.apply(values, table.rows, table.columns)
            np.testing.assert_array_equal(predictors, fitted)
            if block.standardize != "ranks":
                assert_inverse(chain.transforms, values, table.rows, table.columns)
        else:
            targets_again = values
            np.testing.assert_array_equal(predictors, chain.invert(fitted, *places))
        np.testing.assert_array_equal(points_of(targets), targets_again)


def test_rows_in_partitions_have_the_chain_of_the_table():
    rng = np.random.default_rng(1)
    x = 1e6 + 50.0 * rng.standard_normal((30, 4))
    x[rng.random(x.shape) < 0.2] = np.nan
    rows, columns = np.nonzero(~np.isnan(x))
    entries = sp.csr_array((x[rows, columns], (rows, columns)), shape=x.shape)
    offset = rng.standard_normal(x.shape)
    model = mc.Model(
        [mc.Block("x", mc.Gaussian(), bias=True, standardize=True)], [mc.NuclearNorm(2.0)]
    )
    data = {"x": mc.Observations(entries, offset=offset)}
    whole, parts = (mc.fit(model, given_as) for given_as in (data, RowsInMemory(data, 3)))
    chain, other = (fit.problem.transforms("x") for fit in (whole, parts))
    assert str(chain) == str(other)
    numbers = x[rows, columns]
    np.testing.assert_allclose(
        other.apply(numbers, rows, columns), chain.apply(numbers, rows, columns), atol=1e-8
    )
    back = other.invert(other.apply(numbers, rows, columns), rows, columns)
    np.testing.assert_allclose(back, numbers, rtol=1e-14)
    with pytest.raises(mc.ModelError, match="offsets, which a compact fit has left behind"):
        parts.compact().problem.transforms("x").apply(numbers, rows, columns)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 100.0))
def test_scales_of_counts_have_an_inverse(seed, power):
    rng = np.random.default_rng(seed)
    scales = Scales(*(10.0 ** rng.uniform(-power, power, n) for n in SHAPE))
    z = LowRank.of(rng.standard_normal(SHAPE))
    np.testing.assert_allclose(
        scales.invert(scales.apply(z)).dense(), z.dense(), rtol=1e-14, atol=1e-14
    )


def test_explain_prints_what_is_subtracted_and_by_what_is_divided():
    pd = pytest.importorskip("pandas")
    x = pd.DataFrame({"height": [1.0, 3.0, 2.0, 2.0], "weight": [70.0, 90.0, 80.0, 80.0]})
    ratings = pd.DataFrame({f"film {j}": [1.0, 2.0, 4.0, 3.0] for j in range(12)})
    blocks = [
        mc.Block("x", mc.Gaussian(), standardize=True),
        mc.Block("y", mc.Bernoulli(), standardize=True),
        mc.Block("years", mc.Gaussian(), bias=True, row_effects=True),
        mc.Block("ratings", mc.Gaussian(), standardize="ranks"),
        mc.Block("plain", mc.Gaussian()),
    ]
    data = {
        "x": mc.Observations(x, offset=1.0),
        "y": [[1.0], [0.0], [1.0], [0.0]],
        "years": 2000.0 + np.arange(4.0)[:, None],
        "ratings": ratings,
        "plain": np.eye(4),
    }
    explained = mc.explain(mc.Model(blocks, [mc.NuclearNorm(0.1)]), data)
    text = str(explained)
    spreads = [np.sqrt(0.5), np.sqrt(50.0)]
    assert "x: less the offset of its cell, then (x - subtracted) / divided by, losses" in text
    for name, centre, spread in zip(x, [1.0, 79.0], spreads, strict=True):
        assert f"{name!r}" in text
        [line] = [line for line in text.splitlines() if line.startswith(f"  {name!r}")]
        assert line.split()[1:] == [f"{centre:.8g}", f"{spread:.8g}", "2"]
    assert "y: as in the data, losses times 1/ℓ\n  column  1/ℓ\n  0       1.442695\n" in text
    assert "years: less the origin of its column and that of its row\n" in text
    assert "  column  origin\n  0       2001.5\n" in text
    assert "ratings: normal score of x between least and largest, losses times 1/ℓ\n" in text
    assert "  and 2 more\n" in text
    assert "plain: as in the data\n" in text
    page = explained._repr_html_()
    assert "less the offset of its cell" in page
    assert "film 11" in page
    np.testing.assert_allclose(
        explained.transforms["x"].invert(np.zeros((4, 2)), *np.ogrid[:4, :2]), [[2.0, 80.0]] * 4
    )
    alone = attrs.evolve(explained.problem.model, blocks=blocks[-1:])
    assert "plain:" in (again := str(mc.explain(alone, {"plain": np.eye(4)})))
    assert "as in the data" not in again


def test_explain_prints_scales_by_counts():
    x = np.ones((4, 3))
    x[0, 1:] = np.nan
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.1, count_share=0.5)])
    explained = mc.explain(model, {"x": x})
    scales = explained.problem.scales_of(explained.problem.terms[0])
    ends = [
        f"{numbers.min():.4g} to {numbers.max():.4g}" for numbers in (scales.rows, scales.columns)
    ]
    assert f"\nNuclearNorm: of R Z C, R from {ends[0]}, C from {ends[1]}\n\n" in str(explained)
    assert "NuclearNorm: of R Z C" in explained._repr_html_()
