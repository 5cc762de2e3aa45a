"""Draws of completed tables, and Rubin's rules: published numbers, closed forms, coverage."""

import attrs
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import mcframe as mc
from mcframe.numerics.row_mixtures import IncompleteRows
from mcframe.posterior.row_estimates import fit_rows, resampled_parameters
from mcframe.posterior.row_variances import NOISE_SHARE
from mcframe.tables.column_types import read_table
from mcframe.tables.pipeline import complete_by_posterior
from mcframe.tables.pooling import pool
from mcframe.tables.shifts import NO_SHIFTS
from mcframe.tables.table_draws import DrawnRows, drawn_places

from .test_declare import mixed


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
    points = [pd.Series({"const": 1.0, "x": 2.0}), pd.Series({"const": 1.1, "x": 2.2})]
    pooled = pool(points, [0.01 * point for point in points])
    np.testing.assert_allclose(pooled.estimate, [1.05, 2.1])
    assert len(str(pooled).splitlines()) == 4


def test_series_are_matched_by_their_labels():
    points = [pd.Series({"c": 1.0, "x": 2.0}), pd.Series({"x": 2.1, "c": 1.2})]
    squares = [pd.Series({"x": 0.2, "c": 0.1}), pd.Series({"c": 0.1, "x": 0.2})]
    pooled = pool(points, squares)
    assert pooled.estimate.to_dict() == {"c": 1.1, "x": 2.05}
    lower, upper = pooled.interval()
    assert lower["x"] < 2.05 < upper["x"]
    assert (lower.index == ["c", "x"]).all()
    assert [line.split()[0] for line in str(pooled).splitlines()[2:]] == ["c", "x"]
    bare = pool([[1.0, 2.0], [1.2, 2.1]], [[0.1, 0.2]] * 2)
    np.testing.assert_array_equal(pooled.sd, bare.sd)
    for wrong in (pd.Series({"c": 0.1, "y": 0.2}), pd.Series([0.1, 0.2, 0.3], ["c", "x", "x"])):
        with pytest.raises(mc.DataError, match=r"variances\[1\] and estimates\[0\] do not both"):
            pool(points, [squares[0], wrong])


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
        (([1e200, 1.0], [1.0, 1.0]), r"up to 1e\+200 .* overflows"),
        (([], []), "nothing to combine"),
        (([[], []], [[], []]), r"\(2, 0\).*nothing to combine"),
        (([1.0, np.nan], [1.0, 1.0]), r"estimates\[1\]=.*nan"),
        (([[1.0, 2.0], [1.0]], [1.0, 1.0]), "estimates of type list"),
        ((["one", "two"], [1.0, 1.0]), "estimates of type list.*one"),
        ((1.0, 1.0), r"estimates of shape \(\)"),
        ((np.ones((3, 2)), np.ones((3, 2, 3))), "or a covariance matrix for each table"),
        (([[1.0, 2.0]] * 3,), r"estimates\[0\] of type list is no result with params"),
        (([],), "no results of analyses"),
        ((np.ones((3, 2, 4)), np.ones((3, 2))), "needs a number or a list of numbers$"),
        (
            ([{"x": 1.0}] * 2, [1.0, 1.0]),
            "with {'x': 1.0} .* numbers or a Series",
        ),
        (([1.0, 2.0], [1.0, 1.0], 0), "complete_degrees_of_freedom=0"),
        (([1.0, 2.0], [1.0, 1.0], np.nan), "complete_degrees_of_freedom=nan"),
        (([1.0, 2.0], [1.0, 1.0], np.array([1.0, 2.0])), "complete_degrees_of_freedom=array"),
    ],
)
def test_messages_name_what_is_wrong(arguments, message):
    with pytest.raises(mc.McframeError, match=message):
        pool(*arguments)


def correlated(rng, m, p):
    """Estimates of m tables and their covariance matrices."""
    roots = rng.standard_normal((m, p, p + 3))
    return rng.standard_normal((m, p)), roots @ roots.transpose(0, 2, 1) / (p + 3)


def test_covariance_matrices_have_their_diagonals_as_variances():
    points, covariances = correlated(np.random.default_rng(0), 5, 3)
    pooled = pool(points, covariances, 50)
    bare = pool(points, np.einsum("mpp->mp", covariances), 50)
    np.testing.assert_array_equal(pooled.sd, bare.sd)
    np.testing.assert_array_equal(pooled.degrees_of_freedom, bare.degrees_of_freedom)


def test_one_estimate_has_the_test_of_its_interval():
    """With large samples D1 of one estimate is the square of its t, but for the freedom."""
    points, covariances = correlated(np.random.default_rng(1), 40, 1)
    pooled = pool(points, covariances)
    test = pooled.wald()
    t = pooled.estimate[0] / pooled.sd[0]
    assert test.statistic == pytest.approx(t * t)
    assert test.degrees_of_freedom[0] == 1.0


def test_wald_does_not_depend_on_the_basis():
    rng = np.random.default_rng(2)
    points, covariances = correlated(rng, 10, 3)
    basis = rng.standard_normal((3, 3))
    one, other = (
        pool(points, covariances, 80),
        pool(points @ basis.T, basis @ covariances @ basis.T, 80),
    )
    assert one.wald().statistic == pytest.approx(other.wald().statistic)
    assert one.wald().degrees_of_freedom == pytest.approx(other.wald().degrees_of_freedom)
    moved = one.linear(basis)
    np.testing.assert_allclose(moved.estimate, other.estimate)
    np.testing.assert_allclose(moved.sd, other.sd)
    np.testing.assert_allclose(one.linear(basis[0]).sd, other.sd[0])


def test_few_rows_tend_to_many():
    points, covariances = correlated(np.random.default_rng(3), 10, 3)
    many, most = (pool(points, covariances, c).wald() for c in (1e9, np.inf))
    assert many.degrees_of_freedom[1] == pytest.approx(most.degrees_of_freedom[1], rel=1e-5)
    few = pool(points, covariances, 30).wald()
    assert few.degrees_of_freedom[1] < most.degrees_of_freedom[1]


def test_wald_without_missing_data_is_that_of_the_analysis():
    covariance = np.array([[0.04, -0.01], [-0.01, 0.02]])
    test = pool([[1.0, 0.5]] * 4, [covariance] * 4, 20).wald()
    q = np.array([1.0, 0.5])
    assert test.statistic == pytest.approx(q @ np.linalg.solve(covariance, q) / 2)
    assert test.degrees_of_freedom == (2.0, 20.0)
    assert test.p_value == pytest.approx(stats.f.sf(test.statistic, 2, 20))


def test_wald_of_a_singular_covariance_is_an_error():
    points = np.tile([1.0, 1.0], (3, 1))
    with pytest.raises(mc.DataError, match="sums of others"):
        pool(points, np.ones((3, 2, 2))).wald()
    with pytest.raises(mc.DataError, match="sums of others"):
        pool(points, np.zeros((3, 2, 2))).wald()
    with pytest.raises(mc.ModelError, match="needs covariance matrices"):
        pool(points, np.ones((3, 2))).wald()
    with pytest.raises(mc.DataError, match="one for each of the 2 estimates"):
        pool(points, np.tile(np.eye(2), (3, 1, 1))).linear([1.0, 2.0, 3.0])
    with pytest.raises(mc.ModelError, match="estimates have no names"):
        pool(points, np.tile(np.eye(2), (3, 1, 1))).wald(["x"])


def drawn_regressions(rng, m, n=60, k=3):
    """Least squares of y on k columns of which y does not depend, y drawn where it is missing."""
    x = np.column_stack([np.ones(n), rng.standard_normal((n, k))])
    y = rng.standard_normal(n)
    seen = rng.random(n) > 0.4
    inverse = np.linalg.inv(x[seen].T @ x[seen])
    beta = inverse @ x[seen].T @ y[seen]
    freedom = seen.sum() - k - 1
    squares = np.sum(np.square(y[seen] - x[seen] @ beta))
    points, covariances = [], []
    for _ in range(m):
        variance = squares / rng.chisquare(freedom)
        drawn = beta + np.linalg.cholesky(variance * inverse) @ rng.standard_normal(k + 1)
        whole = np.where(seen, y, x @ drawn + np.sqrt(variance) * rng.standard_normal(n))
        total = np.linalg.inv(x.T @ x)
        estimate = total @ x.T @ whole
        residual = np.sum(np.square(whole - x @ estimate)) / (n - k - 1)
        points.append(estimate[1:])
        covariances.append((residual * total)[1:, 1:])
    return np.array(points), np.array(covariances), n - k - 1


def test_wald_keeps_its_level():
    """Of 1,000 tables in which no estimate differs from 0, 5 % are said to."""
    rng, repetitions = np.random.default_rng(0), 1000
    p = []
    for _ in range(repetitions):
        points, covariances, complete = drawn_regressions(rng, 20)
        p.append(pool(points, covariances, complete).wald().p_value)
    rate = np.mean(np.array(p) < 0.05)
    assert abs(rate - 0.05) < 3.0 * np.sqrt(0.05 * 0.95 / repetitions)


def test_chi_square_statistics_are_pooled_by_their_formula():
    """D2 by hand, and that of one table again and again."""
    w, k = np.array([6.1, 7.9, 5.2, 8.8, 6.6]), 2
    r = 1.2 * np.var(np.sqrt(w), ddof=1)
    test = mc.pool.chi_square(w, k)
    assert test.statistic == pytest.approx((w.mean() / k - 1.5 * r) / (1.0 + r))
    assert test.degrees_of_freedom[1] == pytest.approx(2 ** (-0.6) * 4 * (1 + 1 / r) ** 2)
    same = mc.pool.chi_square([6.0, 6.0], 2)
    assert same.statistic == 3.0
    assert same.p_value == pytest.approx(stats.chi2.sf(6.0, 2))
    with pytest.raises(mc.DataError, match="a finite number from 0"):
        mc.pool.chi_square([1.0, -1.0], 2)
    with pytest.raises(mc.ModelError, match="degrees_of_freedom=0"):
        mc.pool.chi_square([1.0, 1.0], 0)


@pytest.mark.parametrize(
    ("scale", "points"),
    [("log", [2.0, 3.0]), ("logit", [0.2, 0.3]), ("fisher_z", [0.5, 0.7])],
)
def test_scales_are_taken_by_the_delta_method(scale, points):
    to = {"log": np.log, "logit": lambda x: np.log(x / (1 - x)), "fisher_z": np.arctanh}[scale]
    slopes = [(to(x + 1e-6) - to(x - 1e-6)) / 2e-6 for x in points]
    squares = [0.01, 0.02]
    pooled = pool(points, squares, scale=scale)
    on_scale = pool(
        [to(x) for x in points], [s * d**2 for s, d in zip(squares, slopes, strict=True)]
    )
    assert to(pooled.estimate) == pytest.approx(on_scale.estimate)
    assert pooled.sd == pytest.approx(on_scale.sd)
    np.testing.assert_allclose([to(end) for end in pooled.interval()], on_scale.interval())
    with pytest.raises(mc.DataError, match=f"scale='{scale}' needs numbers"):
        pool([5.0, -5.0], squares, scale=scale)


def test_the_second_stage_is_von_hippels_rule():
    """Of a fraction of .5 in 20 tables with an upper end of .65: 85 tables."""
    pooled = attrs.evolve(pool([1.0, 1.2], [0.04, 0.04]), fraction_missing=0.5, n_tables=20)
    lower, upper = pooled.fraction_missing_interval()
    odds = 1.959964 * np.sqrt(0.1)
    assert upper == pytest.approx(1.0 / (1.0 + np.exp(-odds)), rel=1e-6)
    assert lower == pytest.approx(1.0 - upper)
    assert pooled.tables_needed() == int(np.ceil(1.0 + 0.5 * (upper / 0.05) ** 2))
    assert attrs.evolve(pooled, fraction_missing=0.0).tables_needed() == 2


@pytest.mark.parametrize("level", [0.0, 1.0, 95, "high"])
def test_levels_are_probabilities(level):
    with pytest.raises(mc.ModelError, match="confidence_level"):
        pool([1.0, 2.0], [1.0, 1.0]).interval(level)


@pytest.fixture(scope="module")
def completed():
    return mc.complete(mixed(), {"visits": "count", "day": "date"})


def test_draws_keep_the_table(completed):
    frame = mixed()
    tables = completed.draws(3)
    for table in tables:
        assert (table.dtypes == frame.dtypes).all()
        assert list(table.columns) == list(frame.columns)
        pd.testing.assert_index_equal(table.index, frame.index)
        assert not table.isna().to_numpy().any()
        for name in frame:
            seen = frame[name].notna()
            pd.testing.assert_series_equal(table[name][seen], frame[name][seen])
            assert set(table[name]) <= set(frame[name].dropna()) or name not in ("town", "stage")
        assert (table["visits"] >= 0).all()
    # A few labels that are nearly certain may be drawn alike.
    changed = [n for n in frame if not tables[0][n].equals(tables[1][n])]
    assert len(changed) >= frame.isna().any().sum() - 1


def test_draws_repeat_by_their_seed(completed):
    few, many = completed.draws(2), completed.draws(3)
    for one, other in zip(few, many, strict=False):
        pd.testing.assert_frame_equal(one, other)
    assert not few[0].equals(completed.draws(1, random_state=1)[0])


def test_draws_of_polars_stay_there():
    frame = pl.DataFrame({"x": [1.0, 2.0, None, 4.0] * 5, "t": ["a", None, "b", "a"] * 5})
    table = mc.complete(frame).draws(1)[0]
    assert isinstance(table, pl.DataFrame)
    assert table.schema == frame.schema
    assert table.null_count().row(0) == (0, 0)


def test_columns_set_aside_keep_their_holes_and_constants_their_value():
    frame = pd.DataFrame(
        {"x": [1.0, 2.0, None, 4.0] * 5, "one": [7, 7, 7, None] * 5, "note": [None, "?"] * 10}
    )
    frame["y"] = np.random.default_rng(0).standard_normal(20)
    with pytest.warns(UserWarning, match=r"a single observed value are filled .*: 'one' \(7.0\)"):
        completed = mc.complete(frame, {"note": "skip"})
    table = completed.draws(1)[0]
    assert (table["one"] == 7).all()
    assert completed.sd["one"].isna().sum() == 5
    assert table["note"].isna().sum() == 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0,), "m=0"), ((1.5,), "m=1.5"), ((2, -1), "random_state=-1"), (("many",), "m='many'")],
)
def test_messages_of_draws(completed, arguments, message):
    with pytest.raises(mc.ModelError, match=message):
        completed.draws(*arguments)


def test_an_optimum_has_no_draws():
    frame = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 5, "y": [3.0, None, 1.0, 0.0] * 5})
    completed = mc.complete(frame, method="optimum")
    with pytest.raises(mc.ModelError, match="method='posterior'"):
        completed.draws(2)


def test_places_are_drawn_by_their_probabilities():
    probabilities = np.tile([0.2, 0.0, 0.5, 0.3], (20_000, 1))
    counts = np.bincount(drawn_places(probabilities, np.random.default_rng(0)).astype(int))
    np.testing.assert_allclose(counts / 20_000, [0.2, 0.0, 0.5, 0.3], atol=0.012)


def test_labels_and_numbers_of_one_row_are_drawn_together():
    """Both missing in a row: what is drawn of one goes with what is drawn of the other."""
    rng = np.random.default_rng(0)
    label = rng.random(600) < 0.5
    frame = pd.DataFrame({"x": 2.0 * label + 0.5 * rng.standard_normal(600), "label": label})
    frame = frame.astype({"label": "boolean"})
    holes = np.arange(600) < 200
    frame["far"] = rng.standard_normal(600)
    frame.loc[holes, ["x", "label"]] = None
    drawn = mc.complete(frame).draws(1)[0][holes]
    own = drawn["label"].astype(bool)
    assert drawn["x"][own].mean() - drawn["x"][~own].mean() > 1.5


@pytest.mark.slow(seconds=12)
def test_pooled_slopes_cover_the_truth():
    """The regression of y on x with 40 % of both missing at random; truth 1."""
    rng, covered, repetitions = np.random.default_rng(0), 0, 60
    for _ in range(repetitions):
        z = rng.standard_normal(100)
        x = z + 0.8 * rng.standard_normal(100)
        frame = pd.DataFrame({"x": x, "y": x + 1.5 * rng.standard_normal(100), "z": z})
        holes = rng.random(frame.shape) < 0.4
        holes[:, 2] = False
        draws = rows_of(frame.mask(holes)).drawn_codes(10, 0)
        slopes = [slope(one.table(NO_SHIFTS)) for one in draws]
        lower, upper = pool(*zip(*slopes, strict=True), 98).interval(0.9)
        covered += lower <= 1.0 <= upper
    assert abs(covered / repetitions - 0.9) <= 2.0 * np.sqrt(0.09 / repetitions)


@pytest.mark.parametrize(("shape", "most"), [((50, 2), 1.0), ((1000, 2), 10.0), ((30, 12), 4.8)])
def test_the_prior_of_draws_is_weak(shape, most):
    """What predicts single entries best would bias what is computed from draws towards 0."""
    values = np.random.default_rng(0).standard_normal(shape)
    rows = completed_rows(pd.DataFrame(values, columns=[f"x{j}" for j in range(shape[1])]))
    for prior, expected in ((1000.0, most), (0.5, 0.5)):
        chosen = attrs.evolve(rows.chosen, prior_rows=prior)
        drawn = DrawnRows.of(rows.declared, rows.posterior, chosen)
        assert drawn.chosen.prior_rows == expected


def rows_of(frame):
    """The rows of a table, with a prior of one row."""
    rows = completed_rows(frame)
    return DrawnRows.of(rows.declared, rows.posterior, rows.chosen)


def rows_of_clusters(n=300, d=6, row_weights=None):
    """Rows of two Gaussians, a fifth of the numbers missing, and their distribution."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((n, 2)) @ rng.standard_normal((2, d))
    values += 0.6 * rng.standard_normal((n, d))
    values[: n // 3] = 0.5 * values[: n // 3] + 2.0
    values = np.where(rng.random((n, d)) < 0.2, np.nan, (values - 1.0) / 2.0)
    precisions = np.full(d, 1.0 / NOISE_SHARE)
    options = {"components": 2, "prior_rows": 1.0, "tol": 1e-7}
    posterior = fit_rows(values, precisions, row_weights=row_weights, **options)
    return IncompleteRows.of(values, precisions, np.ones(d)), posterior


def numbers_of(parameters):
    """Means and covariances of the components, in one vector."""
    mixture = parameters.predictive
    return np.concatenate([mixture.means.ravel(), mixture.covariances.ravel()])


def test_the_parameters_of_a_draw_have_converged_but_for_a_small_part_of_their_deviation():
    """The few steps of each draw, beside a thousand; and draws of all rows are these."""
    table, posterior = rows_of_clusters()
    exact, few = [], []
    for seed in range(20):
        drawn = np.random.default_rng(seed).integers(300, size=300)
        counts = np.bincount(drawn, minlength=300).astype(float)
        few.append(numbers_of(resampled_parameters(posterior.parameters, table, counts)))
        options = {"share": 1e-10, "max_steps": 1000}
        parameters = resampled_parameters(posterior.parameters, table, counts, **options)
        exact.append(numbers_of(parameters))
    deviations = np.std(exact, axis=0, ddof=1)
    errors = (np.array(few) - exact) / deviations
    assert np.sqrt(np.mean(np.square(errors))) < 0.05
    assert np.mean(np.std(few, axis=0, ddof=1) / deviations) == pytest.approx(1.0, abs=0.03)
    again = resampled_parameters(posterior.parameters, table, np.ones(300))
    shift = (numbers_of(again) - numbers_of(posterior.parameters)) / deviations
    assert np.max(np.abs(shift)) < 0.05


def test_draws_of_one_gaussian_are_those_of_rows_that_are_repeated():
    """Estimated from the beginning, row by row, as the slow form does it."""
    rng = np.random.default_rng(1)
    values = rng.standard_normal((200, 4)) @ (0.5 * np.eye(4) + 0.3)
    frame = pd.DataFrame(values, columns=list("abcd")).mask(rng.random((200, 4)) < 0.2)
    rows = rows_of(frame)
    errors, estimates = [], []
    for seed in range(20):
        posterior = rows.distribution(np.random.default_rng(seed))
        drawn = np.random.default_rng(seed).integers(200, size=200)
        slow = rows.estimated_from(drawn)
        estimates.append(slow.covariance)
        errors.append(posterior.covariance - slow.covariance)
    scale = np.std(estimates, axis=0, ddof=1)
    assert np.sqrt(np.mean(np.square(errors / scale))) < 0.05


def completed_rows(frame):
    return complete_by_posterior(read_table(frame, None, None), prior_rows=1.0)


def slope(table):
    """The slope of y on x by least squares, and its squared standard error."""
    x, y = table["x"] - table["x"].mean(), table["y"] - table["y"].mean()
    found = (x @ y) / (x @ x)
    residual = y - found * x
    return found, (residual @ residual) / (len(x) - 2) / (x @ x)


def test_frames_are_matched_by_their_columns():
    estimates = pd.DataFrame({"a": [1.0, 1.1], "b": [5.0, 5.2]})
    variances = pd.DataFrame({"b": [9.0, 9.0], "a": [1.0, 1.0]})
    pooled = pool(estimates, variances)
    assert list(pooled.sd.index) == ["a", "b"]
    assert pooled.sd["a"] < 1.1 < 3.0 < pooled.sd["b"]


def test_draws_of_counts_are_distributed_as_counts():
    """Rare counts were drawn half as often: Gaussian draws were rounded, and cut at 0."""
    told = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        u = rng.standard_normal(800)
        counts = rng.poisson(0.1 * np.exp(0.7 * u))
        frame = pd.DataFrame({"c": counts, "x": u + 0.5 * rng.standard_normal(800)})
        holes = rng.random(800) < 0.4
        given = frame.astype({"c": "Int64"}).assign(c=lambda own, m=holes: own["c"].mask(m))
        drawn = mc.complete(given, types={"c": "count"}).draws(4)
        told += [(own["c"][holes].mean(), (own["c"][holes] == 0).mean()) for own in drawn]
        told[-1] += counts[~holes].mean(), np.mean(counts[~holes] == 0)
    mean, zeros = np.mean([own[:2] for own in told], axis=0)
    expected = np.mean([own[2:] for own in told if len(own) > 2], axis=0)
    assert mean == pytest.approx(expected[0], rel=0.15)
    assert zeros == pytest.approx(expected[1], abs=0.015)


def ratios_of_variances(n, d, n_tables):
    """The variance of each column in draws over that of the whole column, for each table."""
    ratios = []
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        whole = rng.multivariate_normal(np.zeros(d), 0.5 * np.eye(d) + 0.5, n)
        hidden = rng.random((n, d)) < 0.3
        hidden[:, 0] = False
        frame = pd.DataFrame(whole).rename(columns=str).mask(hidden)
        drawn = [table.var() for table in mc.complete(frame).draws(5)]
        ratios.append((np.mean(drawn, axis=0) / np.var(whole, axis=0, ddof=1))[1:])
    return np.mean(ratios, axis=1)


def test_draws_have_the_variance_of_their_column():
    """They had 1.1 times the variance: the errors of few rows promised too little."""
    ratios = ratios_of_variances(50, 6, 12)
    assert abs(np.mean(ratios) - 1.0) < 0.05


@pytest.fixture(scope="module")
def three_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((120, 3)), columns=["a", "b", "y"])
    frame["y"] += frame["a"] + 0.5 * frame["b"]
    frame["group"] = rng.choice(["u", "v", "w"], 120)
    hidden = rng.random((120, 3)) < 0.2
    frame[["a", "b", "y"]] = frame[["a", "b", "y"]].mask(hidden)
    return mc.complete(frame)


def least_squares(table):
    """Coefficients of y on a and b, and their covariance matrix."""
    x = np.column_stack([np.ones(len(table)), table["a"], table["b"]])
    inverse = np.linalg.inv(x.T @ x)
    found = inverse @ x.T @ table["y"]
    return found, np.sum(np.square(table["y"] - x @ found)) / (len(x) - 3) * inverse


def test_analyses_in_one_line_are_those_of_a_loop(three_columns):
    pooled = mc.pool.with_(three_columns, least_squares, 5, complete_degrees_of_freedom=117)
    analyses = [least_squares(table) for table in three_columns.draws(5)]
    wanted = pool(*zip(*analyses, strict=True), 117)
    formula = mc.pool.formula("y ~ a + b", three_columns, 5)
    for other in (wanted, formula):
        np.testing.assert_allclose(pooled.estimate, other.estimate)
        np.testing.assert_allclose(pooled.sd, other.sd)
        np.testing.assert_allclose(pooled.degrees_of_freedom, other.degrees_of_freedom)
    side_by_side = mc.pool.with_(
        three_columns, least_squares, 5, n_jobs=2, complete_degrees_of_freedom=117
    )
    np.testing.assert_array_equal(side_by_side.sd, pooled.sd)


def test_results_of_statsmodels_are_taken_as_they_are(three_columns):
    api = pytest.importorskip("statsmodels.formula.api")
    tables = three_columns.draws(4)
    pooled = mc.pool([api.ols("y ~ a + b", table).fit() for table in tables])
    formula = mc.pool.formula("y ~ a + b", tables)
    np.testing.assert_allclose(pooled.estimate, formula.estimate)
    np.testing.assert_allclose(pooled.sd, formula.sd)
    np.testing.assert_allclose(pooled.degrees_of_freedom, formula.degrees_of_freedom)
    assert pooled.wald(["a", "b"]).statistic == pytest.approx(formula.wald(["a", "b"]).statistic)


@pytest.mark.parametrize("method", ["D1", "D2", "D3", "D4"])
def test_comparisons_agree_where_nothing_is_missing(three_columns, method):
    """All four are the test of the one analysis, of large samples."""
    table = three_columns.table
    big = pd.concat([table] * 20)
    test = mc.pool.compare("y ~ a + b + group", "y ~ a + b", [big, big, big], method=method)
    single = mc.pool.formula("y ~ a + b + group", [big, big]).wald(["group[T.v]", "group[T.w]"])
    assert test.degrees_of_freedom[0] == 2.0
    assert test.statistic == pytest.approx(single.statistic, rel=0.02)


@pytest.mark.parametrize("method", ["D1", "D2", "D3", "D4"])
def test_comparisons_see_what_is_needed(three_columns, method):
    needed = mc.pool.compare("y ~ a + b", "y ~ b", three_columns, 10, method=method)
    spare = mc.pool.compare("y ~ a + b + group", "y ~ a + b", three_columns, 10, method=method)
    assert needed.p_value < 0.001
    assert spare.p_value > 0.01
    labels = [t.assign(y=t["y"] > 0.0) for t in three_columns.draws(5)]
    assert mc.pool.compare("y ~ a + b", "y ~ 1", labels, method=method).p_value < 0.001


@pytest.mark.parametrize("method", ["D1", "D2", "D3", "D4"])
def test_comparisons_take_shifts(three_columns, method):
    """Both formulas are fitted to the tables that ``draws`` has with this shift."""
    formulas = "y ~ a + b + group", "y ~ a + b"
    shift = {"y": mc.shift({"v": 8.0}, by="group")}
    shifted = mc.pool.compare(*formulas, three_columns, 5, method=method, shift=shift)
    tables = three_columns.draws(5, terms=formulas[0], shift=shift)
    assert shifted == mc.pool.compare(*formulas, tables, method=method)
    plain = mc.pool.compare(*formulas, three_columns, 5, method=method)
    assert shifted.statistic != plain.statistic


def test_what_is_no_comparison_is_an_error(three_columns):
    with pytest.raises(mc.ModelError, match="shift was given with tables that are drawn already"):
        mc.pool.compare("y ~ a", "y ~ 1", three_columns.draws(2), shift={"y": 1.0})
    with pytest.raises(mc.ModelError, match="is not within"):
        mc.pool.compare("y ~ a", "y ~ b", three_columns, 2)
    with pytest.raises(mc.ModelError, match="is not within"):
        mc.pool.compare("y ~ a + b", "a ~ b", three_columns.draws(2))
    with pytest.raises(mc.ModelError, match="method='D5'"):
        mc.pool.compare("y ~ a + b", "y ~ b", three_columns, 2, method="D5")
    with pytest.raises(mc.ModelError, match="n_jobs=0"):
        mc.pool.with_(three_columns, least_squares, 2, n_jobs=0)
    with pytest.raises(mc.ModelError, match="analysis=1"):
        mc.pool.with_(three_columns, 1)
    with pytest.raises(mc.DataError, match="table 0 returned a tuple; a pair of estimates"):
        mc.pool.with_(three_columns, lambda _: (1.0, 2.0, 3.0), 2)
    with pytest.raises(mc.DataError, match="table 0 returned a float; a pair of estimates"):
        mc.pool.with_(three_columns, lambda _: 1.0, 2)
