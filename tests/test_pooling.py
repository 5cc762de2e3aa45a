"""Rubin's rules: published numbers, closed forms, and coverage where the truth is known."""

import numpy as np
import pytest
from scipy import stats

import mcframe as mc
from mcframe.pooling import pool


def with_moments(mean, variance, m):
    """m numbers of this mean and this variance (divided by m - 1)."""
    away = np.arange(m) - 0.5 * (m - 1)
    return mean + away * np.sqrt(variance / np.var(away, ddof=1))


def test_the_numbers_of_a_published_regression():
    """Bmi on age in nhanes (van Buuren, Flexible Imputation, 2nd edition, section 2.3.7)."""
    means, within, between = [30.50, -2.13], [3.408, 0.906], [1.454, 0.238]
    points = np.stack(
        [with_moments(q, b, 10) for q, b in zip(means, between, strict=True)], axis=1
    )
    pooled = pool(points, np.tile(within, (10, 1)), complete_degrees_of_freedom=23)
    np.testing.assert_allclose(pooled.estimate, means)
    np.testing.assert_allclose(np.square(pooled.sd), [5.01, 1.17], atol=5e-3)
    np.testing.assert_allclose(pooled.degrees_of_freedom, [12.4, 15.1], atol=0.05)
    np.testing.assert_allclose(pooled.fraction_missing, [0.408, 0.310], atol=1e-3)


def test_without_a_limit_the_degrees_of_freedom_are_those_of_1987():
    points, squares = np.array([1.0, 1.5, 0.7, 1.1]), np.array([0.2, 0.3, 0.1, 0.2])
    pooled = pool(points, squares)
    ratio = 1.25 * np.var(points, ddof=1) / np.mean(squares)
    freedom = 3.0 * (1.0 + 1.0 / ratio) ** 2
    assert pooled.degrees_of_freedom == pytest.approx(freedom)
    wanted = (ratio + 2.0 / (freedom + 3.0)) / (ratio + 1.0)
    assert pooled.fraction_missing == pytest.approx(wanted)
    few = pool(points, squares, complete_degrees_of_freedom=5)
    assert few.degrees_of_freedom < min(5.0, freedom)
    assert pool(points, squares, 1e9).degrees_of_freedom == pytest.approx(freedom, rel=1e-6)


def test_intervals_are_those_of_t():
    pooled = pool([1.0, 1.2, 0.9], [0.04, 0.05, 0.04])
    lower, upper = pooled.interval(0.9)
    quantile = stats.t.ppf(0.95, pooled.degrees_of_freedom)
    assert lower == pytest.approx(pooled.estimate - quantile * pooled.sd)
    assert upper == pytest.approx(pooled.estimate + quantile * pooled.sd)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1.0, 1e8, 1e150])
def test_units_change_nothing_else(scale):
    points, squares = np.array([1.0, 1.2, 0.9]), np.array([0.04, 0.05, 0.04])
    one, other = pool(points, squares, 50), pool(scale * points, scale**2 * squares, 50)
    assert other.estimate == pytest.approx(scale * one.estimate)
    assert other.sd == pytest.approx(scale * one.sd)
    assert other.degrees_of_freedom == pytest.approx(one.degrees_of_freedom)
    assert other.fraction_missing == pytest.approx(one.fraction_missing)


def test_where_nothing_is_missing_the_analysis_stays():
    pooled = pool([[2.0, 1.0]] * 3, [[0.25, 0.0]] * 3, complete_degrees_of_freedom=10)
    np.testing.assert_allclose(pooled.sd, [0.5, 0.0])
    np.testing.assert_allclose(pooled.degrees_of_freedom, 10 * 11 / 13)
    np.testing.assert_allclose(pooled.fraction_missing, 2.0 / (10 * 11 / 13 + 3.0))
    many = pool([2.0, 2.0], [0.25, 0.25])
    assert (many.degrees_of_freedom, many.fraction_missing) == (np.inf, 0.0)
    np.testing.assert_allclose(many.interval(0.95)[1], 2.0 + 0.5 * stats.norm.ppf(0.975))


def test_where_all_is_missing_intervals_are_infinite():
    pooled = pool([1.0, 2.0], [0.0, 0.0], complete_degrees_of_freedom=10)
    assert (pooled.degrees_of_freedom, pooled.fraction_missing) == (0.0, 1.0)
    assert pooled.interval() == (-np.inf, np.inf)


def test_series_are_pooled_and_printed():
    pd = pytest.importorskip("pandas")
    points = [pd.Series({"const": 1.0, "x": 2.0}), pd.Series({"const": 1.1, "x": 2.2})]
    pooled = pool(points, [0.01 * point for point in points])
    np.testing.assert_allclose(pooled.estimate, [1.05, 2.1])
    assert len(str(pooled).splitlines()) == 4


def test_intervals_cover_a_mean_with_missing_entries():
    """Proper draws of a Gaussian with half of 30 entries missing, known in closed form."""
    rng, covered = np.random.default_rng(0), 0
    n, seen, m, repetitions = 30, 15, 20, 2000
    for _ in range(repetitions):
        x = rng.standard_normal(seen)
        variance = x.var(ddof=1) * (seen - 1) / rng.chisquare(seen - 1, m)
        mean = x.mean() + np.sqrt(variance / seen) * rng.standard_normal(m)
        drawn = mean + np.sqrt(variance) * rng.standard_normal((n - seen, m))
        whole = np.concatenate([np.tile(x[:, None], m), drawn])
        pooled = pool(whole.mean(axis=0), whole.var(axis=0, ddof=1) / n, n - 1)
        lower, upper = pooled.interval(0.9)
        covered += lower <= 0.0 <= upper
    assert abs(covered / repetitions - 0.9) < 3.0 * np.sqrt(0.09 / repetitions)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [1.0]), "estimates of 1 completed table"),
        (([1.0, 2.0], [1.0]), r"\(2,\) and variances of shape \(1,\)"),
        (([1.0, 2.0], [1.0, -1.0]), r"variances\[1\]=.*-1.0"),
        (([1.0, np.nan], [1.0, 1.0]), r"estimates\[1\]=.*nan"),
        (([[1.0, 2.0], [1.0]], [1.0, 1.0]), "estimates of type list"),
        ((["one", "two"], [1.0, 1.0]), "estimates of type list.*one"),
        ((1.0, 1.0), r"estimates of shape \(\)"),
        (([1.0, 2.0], [1.0, 1.0], 0), "complete_degrees_of_freedom=0"),
        (([1.0, 2.0], [1.0, 1.0], np.nan), "complete_degrees_of_freedom=nan"),
    ],
)
def test_messages_name_what_is_wrong(arguments, message):
    with pytest.raises(mc.McframeError, match=message):
        pool(*arguments)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, "high"])
def test_levels_are_probabilities(level):
    with pytest.raises(mc.ModelError, match="confidence_level"):
        pool([1.0, 2.0], [1.0, 1.0]).interval(level)
