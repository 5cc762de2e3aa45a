"""The shape of errors: a distribution of its own, in intervals, draws and means alike."""

import itertools

import attrs
import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri
from scipy.stats import norm

import mcframe as mc
from mcframe.numerics.error_shapes import FEWEST_ERRORS, SKEWS, TAILS, ErrorShape

SHAPES = [ErrorShape(*pair) for pair in itertools.product(SKEWS, TAILS)]
LEVELS = (0.2, 0.5, 0.8, 0.9, 0.99)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_have_the_mean_0_and_the_variance_1(shape):
    x = np.linspace(-12.0, 12.0, 20_001)
    weights = norm.pdf(x) * (x[1] - x[0])
    values = shape.apply(x)
    assert np.all(np.diff(values) > 0.0)
    assert weights @ values == pytest.approx(0.0, abs=1e-6)
    assert weights @ values**2 == pytest.approx(1.0, abs=1e-6)
    inner = np.abs(x) < 8.0
    np.testing.assert_allclose(shape.invert(values)[inner], x[inner], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES[::5], ids=str)
def test_the_density_is_that_of_what_is_applied(shape):
    x, step = np.linspace(-4.0, 4.0, 81), 1e-5
    slope = (shape.apply(x + step) - shape.apply(x - step)) / (2.0 * step)
    z = shape.apply(x)
    expected = norm.logpdf(x) - np.log(slope) - norm.logpdf(z)
    np.testing.assert_allclose(shape.log_ratios(z), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(shape.quantile(norm.cdf(x)), z, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("truth", [ErrorShape(0.0, 0.632), ErrorShape(0.4, 0.726)], ids=str)
@pytest.mark.parametrize("size", [250, 4000])
def test_a_shape_is_found_in_any_unit(truth, size):
    errors = truth.apply(np.random.default_rng(0).standard_normal(size))
    fitted = ErrorShape.of(errors)
    shares = (np.arange(99) + 1.0) / 100.0
    assert np.max(np.abs(fitted.quantile(shares) - truth.quantile(shares))) < 0.25
    for unit in (1e-200, 1e-9, 1e200):
        assert ErrorShape.of(unit * errors) == fitted
    repeated = ErrorShape.of(np.tile(errors, 3))
    assert ErrorShape.of(errors, np.full(size, 3.0)) == repeated


def test_where_nothing_speaks_for_a_shape_there_is_none():
    rng = np.random.default_rng(1)
    found = [ErrorShape.of(rng.standard_normal(200)) for _ in range(100)]
    assert sum(shape is not None for shape in found) <= 25
    heavy = ErrorShape(0.0, 0.4).apply(rng.standard_normal(FEWEST_ERRORS))
    assert ErrorShape.of(heavy) is not None
    for errors in (heavy[1:], np.zeros(100), np.full(100, np.nan), np.zeros(0)):
        assert ErrorShape.of(errors) is None
    with_infinite = np.concatenate([heavy, [np.inf, -np.inf, np.nan]])
    assert ErrorShape.of(with_infinite) == ErrorShape.of(heavy)


def heavy_tailed(n_rows, seed, kind="number"):
    """A table whose errors have heavy tails, whole and with a fifth of three columns hidden."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n_rows, 1))
    values = common + ErrorShape(0.0, 0.45).apply(rng.standard_normal((n_rows, 4)))
    if kind == "exponential":
        values = np.exp(0.3 * values)
    if kind == "whole":
        values = np.rint(20.0 * values)
    if kind == "beside 0":
        values = np.where(rng.random(values.shape) < 0.3, 0.0, np.exp(0.3 * values))
    whole = pd.DataFrame(values, columns=list("abcd"))
    hidden = rng.random(whole.shape) < 0.2
    hidden[:, 0] = False  # so that no row is empty
    return whole, whole.mask(hidden)


def coverage(completed, whole, missing, level):
    """The share of missing numbers within their intervals."""
    lower, upper = completed.interval(level)
    inside = (lower <= whole) & (whole <= upper)
    return inside.to_numpy()[missing.to_numpy()].mean()


def with_normal_errors(completed):
    """The same completion without shapes."""
    columns = [
        attrs.evolve(column, coding=attrs.evolve(column.coding, shape=None))
        for column in completed.declared.columns
    ]
    return attrs.evolve(completed, declared=completed.declared.replace_columns(columns))


def test_intervals_hold_what_they_say_where_tails_are_heavy():
    covered, normal = [], []
    for seed in range(4):
        whole, given = heavy_tailed(600, seed)
        completed = mc.complete(given, nonlinear=False)
        assert all(column.coding.shape is not None for column in completed.declared.columns[1:])
        plain = with_normal_errors(completed)
        covered.append([coverage(completed, whole, given.isna(), level) for level in LEVELS])
        normal.append([coverage(plain, whole, given.isna(), level) for level in LEVELS])
    apart, normal_apart = (np.abs(np.mean(c, axis=0) - LEVELS) for c in (covered, normal))
    assert np.max(apart) < 0.05
    assert np.max(normal_apart) > np.max(apart) + 0.03  # what the shapes mend
    pd.testing.assert_frame_equal(plain.table, completed.table)  # means stay


def share_within(ends, drawn, missing):
    """The share of drawn numbers (m x n x d) within intervals."""
    lower, upper = (end.to_numpy(float) for end in ends)
    return ((lower <= drawn) & (drawn <= upper))[:, missing].mean()


@pytest.mark.parametrize("kind", ["number", "exponential", "whole", "beside 0"])
@pytest.mark.some(1.2, kind=2)
def test_intervals_are_quantiles_of_draws_and_filled_numbers_their_means(kind):
    _, given = heavy_tailed(300, 7, kind)
    completed = mc.complete(given, nonlinear=False)
    assert any(column.coding.shape is not None for column in completed.declared.columns)
    drawn = np.array([table.to_numpy(float) for table in completed.draws(40)])
    missing = given.isna().to_numpy()
    sd = completed.sd.to_numpy()[missing]
    plain = with_normal_errors(completed)
    plain_drawn = np.array([table.to_numpy(float) for table in plain.draws(40)])
    for level in (0.5, 0.9):
        share = share_within(completed.interval(level), drawn, missing)
        # Draws have parameters of their own, and are as much wider as without shapes.
        beside = share_within(plain.interval(level), plain_drawn, missing)
        assert share == pytest.approx(beside, abs=0.02)
    apart = (np.mean(drawn, axis=0) - completed.table.to_numpy(float))[missing] / sd
    assert abs(np.mean(apart)) < 0.05
    assert np.mean(np.abs(apart)) < 0.25


@pytest.mark.slow(seconds=2)
def test_numbers_of_identities_and_with_limits_have_normal_errors():
    whole, given = heavy_tailed(300, 3)
    given["sum"] = whole["a"] + whole["b"]
    completed = mc.complete(given, relations=["sum = a + b"])
    shapes = {column.name: column.coding.shape for column in completed.declared.columns}
    assert [name for name in shapes if shapes[name] is None] == ["a", "b", "sum"]
    for table in completed.draws(3):
        np.testing.assert_allclose(table["sum"], table["a"] + table["b"], rtol=1e-9, atol=1e-9)
    limited = given.drop(columns="sum").astype(object)
    limited.loc[limited.index[:20], "a"] = "<-1"
    completed = mc.complete(limited, {"a": "number"})
    shapes = {column.name: column.coding.shape for column in completed.declared.columns}
    assert shapes["a"] is None
    assert shapes["b"] is not None


def test_new_rows_and_read_answers_have_the_same_intervals(tmp_path):
    _, given = heavy_tailed(300, 4, "exponential")
    completed = mc.complete(given, nonlinear=False)
    completed.save(tmp_path / "answer.mcframe")
    read = mc.load(tmp_path / "answer.mcframe")
    ends = zip(completed.interval(0.8), read.interval(0.8), strict=True)
    for end, again in ends:
        pd.testing.assert_frame_equal(again, end)
    for end, new in zip(
        completed.interval(0.8), completed.interval_rows(given.iloc[:30], 0.8), strict=True
    ):
        np.testing.assert_allclose(new, end.iloc[:30], rtol=1e-6)


def test_a_normal_shape_changes_no_interval_of_one_gaussian():
    rng = np.random.default_rng(6)
    whole = pd.DataFrame(rng.standard_normal((200, 1)) + rng.standard_normal((200, 4)))
    hidden = rng.random(whole.shape) < 0.2
    hidden[:, 0] = False
    completed = mc.complete(whole.mask(hidden), nonlinear=False)
    plain = with_normal_errors(completed)
    columns = [
        attrs.evolve(column, coding=attrs.evolve(column.coding, shape=ErrorShape()))
        for column in completed.declared.columns
    ]
    shaped = attrs.evolve(plain, declared=plain.declared.replace_columns(columns))
    assert plain.posterior.engine.n_factors == 1
    for end, again in zip(plain.interval(0.9), shaped.interval(0.9), strict=True):
        np.testing.assert_allclose(again, end, rtol=1e-9)
    for one, other in zip(plain.draws(2), shaped.draws(2), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-7, atol=1e-9)
    assert float(ndtri(0.95)) == pytest.approx(float(ErrorShape().quantile(0.95)))
