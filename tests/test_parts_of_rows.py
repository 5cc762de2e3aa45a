"""Some rows of a table, bound with the numbers of all of them."""

import tracemalloc
import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe.compile import compile_problem
from mcframe.compile.factor_rows import FactorRows
from mcframe.fitting.prediction import FittedRows
from mcframe.model import binding
from mcframe.model.reading import read_block
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
    "standard units": mc.Block("y", mc.Gaussian(), reduce="mean", bias=True, standardize=True),
    "normal scores": mc.Block("y", mc.Huber(), row_effects=True, standardize="ranks"),
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
    numbers_of_all = {"y": numbers} if layout.size else {}
    total = apart = 0.0
    for first, last in pairwise(CUTS):
        rows = slice(first, last)
        tables = {"y": read_block(block, part_of(values, weights, rows))}
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
            FittedRows(part, own, here).predictor("y"),
            FittedRows(whole, numbers_of_all, latent).predictor("y")[rows],
            rtol=1e-12,
        )
        if kind != "an estimated rate":  # a part may have no labels to estimate it from
            apart += mc.Problem.of_tables(model, tables).loss(here, own)
    expected = whole.loss(latent, numbers_of_all)
    assert total == pytest.approx(expected, rel=1e-12)
    if kind != "an estimated rate":
        assert apart != pytest.approx(expected, rel=1e-3), "counting locally makes no difference"


UNWRITTEN = mc.RiskMixture(pu=1.0, missing_rate=0.6, likelihood=mc.Gaussian())
WORDS = [mc.Gaussian(), mc.Poisson(), mc.Multinomial(3), UNWRITTEN]


@pytest.mark.parametrize("word", WORDS, ids=repr)
def test_normal_equations_of_parts_sum_to_those_of_the_whole(word, monkeypatch):
    """Of the columns; of the rows they are those of the parts. Solved, both ways are one."""
    monkeypatch.setattr(binding, "MAX_WRITTEN_OUT_CELLS", 0)  # unlabeled cells are no entries
    rng, weight = np.random.default_rng(7), 0.3
    y = rng.integers(0, 2 if word is UNWRITTEN else 3, (N_ROWS, 4)).astype(float)
    y[rng.random(y.shape) < 0.3] = np.nan
    block = mc.Block("y", word, reduce="mean")
    model = mc.Model([block], [mc.NuclearNorm(0.3)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        whole = mc.Problem.bind(model, {"y": y})
    assert whole.tables["y"].has_implicit_cells == (word is UNWRITTEN)

    def lines_of(problem, left):
        program = compile_problem(problem).with_storage_for(in_factors=True, dense=False)
        return FactorRows(program, program.evaluate(LowRank(left, right)))

    left, right = (rng.standard_normal((n, 3)) for n in whole.shape)
    all_rows, parts, sums = lines_of(whole, left), [], []
    for first, last in pairwise(CUTS):
        tables = {"y": read_block(block, y[first:last], implicit_beyond=0)}
        part = mc.Problem.of_tables(model, tables, whole.totals)
        parts.append(lines_of(part, left[first:last]))
        sums.append(parts[-1].normal_equations(left[first:last], by_rows=False))
    columns = all_rows.ridge_solutions(left, weight, by_rows=False)
    summed = (sums[0] + sums[1] + sums[2]).solutions(weight)
    np.testing.assert_allclose(summed, columns, rtol=1e-9, atol=1e-11)
    rows = all_rows.ridge_solutions(right, weight, by_rows=True)
    own = [part.normal_equations(right, by_rows=True).solutions(weight) for part in parts]
    np.testing.assert_allclose(np.vstack(own), rows, rtol=1e-9, atol=1e-11)
    assert np.max(np.abs(sums[0].solutions(weight) - columns)) > 1e-3
    # With next to no weight rows of few entries are solved in double precision.
    for small, few in ((weight, 1e-5), (1e-9, 1e-3)) if word is not UNWRITTEN else ():
        for by_rows in (True, False):
            factor, other = (left, right) if by_rows else (right, left)
            exact = all_rows.ridge_solutions(other, small, by_rows)
            steps = all_rows.newton_solutions(factor, other, small, by_rows)
            np.testing.assert_allclose(steps, exact, atol=few * np.max(np.abs(exact - factor)))
    some = all_rows.normal_equations(left, by_rows=False, first=1, last=3).solutions(weight)
    np.testing.assert_array_equal(
        some, all_rows.normal_equations(left, by_rows=False).solutions(weight)[1:3]
    )


@pytest.mark.slow(seconds=4)
def test_an_observed_entry_costs_about_what_the_scaling_guide_says():
    """24 bytes of the table, 16 of its two orders, z and gradients twice, and one look."""
    rng = np.random.default_rng(0)
    n_rows, n_columns, n_entries = 30_000, 3_000, 1_500_000
    places = rng.choice(n_rows * n_columns, n_entries, replace=False)
    rows, columns = np.divmod(np.sort(places), n_columns)
    left, right = rng.standard_normal((n_rows, 3)), rng.standard_normal((n_columns, 3))
    values = np.einsum("ij,ij->i", left[rows], right[columns]) + rng.standard_normal(n_entries)
    table = sp.csr_array((values, (rows, columns)), shape=(n_rows, n_columns))
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(60.0)])
    mc.fit(model, {"x": table}, tol=1e-2, backend="alternating")  # what is compiled is no entry
    held = []

    def measure(record):
        held.append(tracemalloc.get_traced_memory()[0] / n_entries)

    tracemalloc.start()
    try:
        fit = mc.fit(model, {"x": table}, tol=1e-3, backend="alternating", callback=measure)
        peak = tracemalloc.get_traced_memory()[1] / n_entries
    finally:
        tracemalloc.stop()
    assert fit.status == "certified"
    assert max(held) <= 75.0
    assert peak <= 140.0
