"""Some rows of a table, bound with the numbers of all of them."""

import warnings
from itertools import pairwise

import numpy as np
import pytest

import mcframe as mc
from mcframe.model.reading import read_table
from mcframe.numerics.operators import LowRank

N_ROWS, CUTS = 12, (0, 5, 6, 12)
RISK = mc.RiskMixture(pu=1.0, likelihood=mc.Bernoulli())
BLOCKS = {
    "means": mc.Block("y", mc.Gaussian(), weight=2.0, reduce="mean"),
    "weights": mc.Block("y", mc.Gaussian(), weight=2.0, reduce="mean"),
    "biases of dates": mc.Block("y", mc.Gaussian(), bias=True),
    "effects of rows": mc.Block("y", mc.Gaussian(), bias=True, row_effects=True),
    "an estimated rate": mc.Block("y", RISK, reduce="mean"),
    "thresholds": mc.Block("y", mc.Ordinal(3), reduce="mean"),
}


def data_of(kind, rng):
    y = rng.standard_normal((N_ROWS, 4))
    if kind == "an estimated rate":
        y = (y > 0.0).astype(float)
    if kind == "thresholds":
        y = 1.0 + np.digitize(y, [-0.5, 0.5])
    if kind in ("biases of dates", "effects of rows"):
        y += 1.7e9 + 1e5 * np.arange(4)
        y[-3:] *= 1.5  # the middle of a column is not that of its parts
    y[rng.random(y.shape) < 0.3] = np.nan
    weights = np.exp(rng.standard_normal(y.shape)) if kind == "weights" else None
    return y, weights


def part_of(values, weights, rows):
    return mc.Observations(values[rows], weights=None if weights is None else weights[rows])


@pytest.mark.parametrize("kind", BLOCKS)
def test_the_losses_of_parts_sum_to_the_loss_of_the_whole(kind):
    rng = np.random.default_rng(3)
    block, (values, weights) = BLOCKS[kind], data_of(kind, rng)
    model = mc.Model([block], [mc.NuclearNorm(0.3)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        whole = mc.Problem.bind(model, {"y": part_of(values, weights, slice(None))})
    layout = whole.layout("y")
    latent = LowRank(rng.standard_normal((N_ROWS, 2)), rng.standard_normal((4, 2)))
    numbers = rng.standard_normal(layout.size)
    if layout.n_parameters:
        numbers = np.sort(numbers)
    total = apart = 0.0
    for first, last in pairwise(CUTS):
        rows = slice(first, last)
        tables = {"y": read_table(block, part_of(values, weights, rows))}
        here = LowRank(latent.left[rows], latent.right)
        start = layout.n_biases
        kept = np.arange(layout.size)
        if layout.n_row_effects:
            kept = np.r_[:start, start + first : start + last, start + N_ROWS : layout.size]
        own = {"y": numbers[kept]} if layout.size else {}
        part = mc.Problem.of_tables(model, tables, whole.totals)
        total += part.loss(here, own)
        assert part.scale("y") == whole.scale("y")
        np.testing.assert_allclose(
            part.predictor("y", here, own),
            whole.predictor("y", latent, {"y": numbers} if layout.size else {})[rows],
            rtol=1e-12,
        )
        if kind != "an estimated rate":  # a part may have no labels to estimate it from
            apart += mc.Problem.of_tables(model, tables).loss(here, own)
    expected = whole.loss(latent, {"y": numbers} if layout.size else {})
    assert total == pytest.approx(expected, rel=1e-12)
    if kind != "an estimated rate":
        assert apart != pytest.approx(expected, rel=1e-3), "counting locally makes no difference"
