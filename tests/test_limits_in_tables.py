"""Cells of tables of which only limits are known."""

import attrs
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy
from scipy.special import ndtr, ndtri

import mcframe as mc
from mcframe.contracts.row_groups import GroupMembers
from mcframe.estimators import MatrixCompletionImputer, MatrixCompletionRegressor
from mcframe.numerics.row_mixtures import IncompleteRows, RowMixture
from mcframe.numerics.rows_in_groups import RowsInGroups
from mcframe.posterior.row_estimates import fit_rows
from mcframe.posterior.row_identities import RowIdentities
from mcframe.posterior.row_limits import RowLimits, censored_moments
from mcframe.posterior.rows import posterior_given, rows_of_gaussian
from mcframe.posterior.truncation import TruncatedMixture
from mcframe.tables.draws_within_limits import drawn_within_limits
from mcframe.tables.known_limits import limits_in

BELOW, ABOVE = -np.inf, np.inf


def gaussian(n=200, d=5, correlation=0.6, seed=0):
    rng = np.random.default_rng(seed)
    covariance = correlation + (1.0 - correlation) * np.eye(d)
    return pd.DataFrame(
        rng.multivariate_normal(np.zeros(d), covariance, n), columns=list("abcdefgh"[:d])
    )


def cut_off(frame, column="a", share=0.3):
    """The frame with text "<limit" in a column, and which cells have it."""
    limit = round(float(np.quantile(frame[column], share)), 3)
    below = (frame[column] < limit).to_numpy()
    texts = [f"<{limit}" if b else repr(v) for v, b in zip(frame[column], below, strict=True)]
    return frame.assign(**{column: texts}), below, limit


@pytest.mark.parametrize(
    ("text", "lower", "upper"),
    [
        ("< 0.5", BELOW, 0.5),
        ("<.5", BELOW, 0.5),
        ("> 1,000", 1000.0, ABOVE),
        ("≤ 3", BELOW, 3.0),
        ("=<5", BELOW, 5.0),
        (">=2", 2.0, ABOVE),
        ("10-20", 10.0, 20.0),
        ("10–20", 10.0, 20.0),
        ("1e-5 to 3e-4", 1e-5, 3e-4),
        ("-5--2", -5.0, -2.0),
        ("between 3 and 4", 3.0, 4.0),
        ("1,000+", 1000.0, ABOVE),
        ("5 or more", 5.0, ABOVE),
        ("5 or less", BELOW, 5.0),
        ("Below 0.5", BELOW, 0.5),
        ("at least 100", 100.0, ABOVE),
    ],
)
def test_texts_of_limits(text, lower, upper):
    np.testing.assert_allclose(limits_in(text), (lower, upper), rtol=1e-15)


@pytest.mark.parametrize(
    "text", ["5", "<", "20-10", "<5a", "2020-10-11", "01-05", "1.000,5+", "<1,00", "", None, 5.0]
)
def test_texts_of_none(text):
    assert limits_in(text) is None


def test_strict_limits_are_not_reached_by_whole_numbers():
    """Of whole numbers "<5" is 4 at most, and "≤ 5" is 5."""
    numbers = list(range(5, 25)) * 4
    for text, largest in (("<5", 4), ("≤ 5", 5)):
        frame = pd.DataFrame({"visits": [*map(str, numbers), *[text] * 20]})
        frame["beside"] = np.r_[np.array(numbers) + 0.5, np.linspace(0.0, 5.0, 20)]
        with pytest.warns(UserWarning, match=f"'{text}' \\(20x\\) as limits of a number"):
            table = mc.complete(frame).table
        assert table["visits"].dtype == np.int64
        assert table["visits"][-20:].max() == largest


def test_a_column_of_classes_stays_one():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"visits": rng.choice(["0", "1-5", "6-10", ">10"], 80), "age": rng.normal(size=80)}
    )
    assert mc.declare(frame).columns[0].kind == "category"


@pytest.mark.filterwarnings("ignore:columns of text are read as numbers")
def test_cells_are_filled_within_their_limits():
    frame, below, limit = cut_off(gaussian())
    frame.loc[[3, 5, 8], "b"] = np.nan
    completed = mc.complete(frame)
    table, (lower, upper) = completed.table, completed.interval(0.9)
    assert table["a"].dtype == np.float64
    assert (table["a"][below] < limit).all()
    assert (table["a"][~below] == frame["a"][~below].astype(float)).all()
    for ends in (upper["a"][below] - table["a"][below], table["a"][below] - lower["a"][below]):
        assert (ends > 0.0).all()
    assert (upper["a"][below] < limit).all()
    assert (completed.sd["a"][below] > 0.0).all()
    assert (completed.sd["a"][~below] == 0.0).all()
    truth = gaussian()["a"][below]
    inside = ((lower["a"][below] <= truth) & (truth <= upper["a"][below])).mean()
    assert 0.75 < inside < 1.0
    half = np.sqrt(np.mean((truth - limit - 0.5 * abs(limit)) ** 2))
    assert np.sqrt(np.mean((truth - table["a"][below]) ** 2)) < half
    report = completed.report()
    assert report["limits"].tolist() == [below.sum(), 0, 0, 0, 0]
    assert report["missing"].tolist() == [0.0, 0.015, 0.0, 0.0, 0.0]
    assert f"3 entries filled and {below.sum()} within known limits" in repr(completed)
    assert "neither missing nor observed" in repr(completed)


@pytest.mark.slow(seconds=6)
@pytest.mark.filterwarnings("ignore:columns of text are read as numbers")
def test_draws_lie_within_limits_and_give_the_moments():
    """Means and slopes of draws are those of the whole table, and not of one cut off."""
    whole = gaussian(1500)
    frame, below, limit = cut_off(whole)
    frame, above, top = cut_off(frame.assign(b=-frame["b"]), "b", 0.4)
    frame["c"] = frame["c"].mask(np.arange(1500) % 7 == 0)
    tables = mc.complete(frame).draws(4)
    assert all((table["a"][below] < limit).all() for table in tables)
    assert all((table["b"][above] < top).all() for table in tables)
    means = np.mean([table.mean() for table in tables], axis=0)
    np.testing.assert_allclose(means, whole.assign(b=-whole["b"]).mean(), atol=0.06)
    covariance = np.mean([np.cov(table.T) for table in tables], axis=0)
    np.testing.assert_allclose(covariance, np.cov(whole.assign(b=-whole["b"]).T), atol=0.12)


@pytest.mark.filterwarnings("ignore:columns of text are read as numbers")
def test_new_rows_lie_within_their_limits():
    frame, _, _limit = cut_off(gaussian())
    completed = mc.complete(frame)
    new = frame.head(30).assign(a=["<-1.0", "> 1.5", "-0.2-0.1"] * 10)
    filled = completed.complete_rows(new)["a"].astype(float).to_numpy()
    lower, upper = (end["a"].to_numpy() for end in completed.interval_rows(new))
    assert (filled[::3] < -1.0).all()
    assert (filled[1::3] > 1.5).all()
    assert (np.abs(filled[2::3] + 0.05) <= 0.15).all()
    assert ((lower < filled) & (filled < upper)).all()
    assert (upper[::3] < -1.0).all()
    assert (lower[1::3] > 1.5).all()
    same = completed.complete_rows(frame)
    np.testing.assert_allclose(same["a"], completed.table["a"], atol=0.02)


def test_limits_that_say_nothing_change_nothing():
    whole = gaussian(80)
    values = whole.mask(np.random.default_rng(1).random(whole.shape) < 0.2).to_numpy()
    precisions = np.full(5, 1e3)
    plain = fit_rows(values, precisions, prior_rows=1.0, tol=1e-9)
    lower = np.where(np.isnan(values), -60.0, -np.inf)
    limits = RowLimits.of(lower, np.full(values.shape, np.inf), 1e-3)
    limited = fit_rows(values, precisions, prior_rows=1.0, tol=1e-9, limits=limits)
    np.testing.assert_allclose(
        limited.components.covariances, plain.components.covariances, atol=2e-3
    )
    cells = np.nonzero(np.isnan(values))
    for one, other in zip(limited.mixture(*cells), plain.mixture(*cells), strict=True):
        np.testing.assert_allclose(one, other, atol=5e-3)
    assert RowLimits.of(np.full((2, 2), -np.inf), np.full((2, 2), np.inf)) is None


def test_narrow_limits_are_values():
    whole = gaussian(80).to_numpy()
    hidden = np.random.default_rng(1).random(whole.shape) < 0.3
    values, precisions = np.where(hidden, np.nan, whole), np.full(5, 1e3)
    lower = np.where(hidden, whole - 1e-5, -np.inf)
    upper = np.where(hidden, whole + 1e-5, np.inf)
    limits = RowLimits.of(lower, upper, 1e-3)
    limited = fit_rows(values, precisions, prior_rows=1.0, tol=1e-9, limits=limits)
    plain = fit_rows(whole, precisions, prior_rows=1.0, tol=1e-9)
    np.testing.assert_allclose(
        limited.components.covariances, plain.components.covariances, atol=1e-3
    )


def truncated_gibbs(mean, covariance, lower, upper, rng, sweeps=6000):
    """Draws of a normal vector whose numbers lie between limits."""
    precision = np.linalg.inv(covariance)
    x = np.clip(mean, np.where(np.isfinite(lower), lower, mean), upper)
    draws = []
    for _ in range(sweeps):
        for j in range(x.size):
            sd = precision[j, j] ** -0.5
            centre = x[j] - precision[j] @ (x - mean) / precision[j, j]
            ends = ndtr([(lower[j] - centre) / sd, (upper[j] - centre) / sd])
            x[j] = centre + sd * ndtri(rng.uniform(*ends))
        draws.append(x.copy())
    return np.array(draws[200:])


def test_moments_and_draws_agree_with_exact_gibbs():
    """Several limits in a row of a known distribution: by sites, and by exact draws."""
    rng = np.random.default_rng(3)
    covariance = 0.7 + 0.3 * np.eye(4)
    mean, noise = np.zeros(4), 1e-3
    lower = np.array([[0.3, -np.inf, -np.inf, -np.inf]])
    upper = np.array([[np.inf, -0.2, 0.1, np.inf]])
    values = np.full((1, 4), np.nan)
    limits = RowLimits.of(lower, upper, noise)
    base = rows_of_gaussian(values, np.full(4, 1.0 / noise), mean, covariance)
    posterior = base.condition(values, np.full(4, 1.0 / noise), limits)
    exact = truncated_gibbs(mean, covariance + noise * np.eye(4), lower[0], upper[0], rng)
    weights, means, variances = posterior.at_limits
    by_sites = TruncatedMixture(
        weights, means, np.sqrt(variances + noise), limits.lower, limits.upper
    ).expected(lambda y: y)
    np.testing.assert_allclose(by_sites, exact.mean(axis=0)[:3], atol=0.05)
    np.testing.assert_allclose(posterior.moments()[0][0], exact.mean(axis=0), atol=0.05)
    repeated = np.full((3000, 4), np.nan)
    limits = RowLimits.of(np.tile(lower, (3000, 1)), np.tile(upper, (3000, 1)), noise)
    many = base.condition(repeated, np.full(4, 1.0 / noise), limits)
    drawn = drawn_within_limits(many, repeated, np.full(4, 1.0 / noise), rng)[:, :3]
    assert ((drawn >= lower[0, :3]) & (drawn <= upper[0, :3])).all()
    np.testing.assert_allclose(drawn.mean(axis=0), exact.mean(axis=0)[:3], atol=0.04)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(exact.T)[:3, :3], atol=0.03)


def exact_moments(mean, covariance, lower, upper, rng):
    """Mean and covariance of a normal vector within limits, by rejection."""
    drawn = rng.multivariate_normal(mean, covariance, 2_000_000, method="cholesky")
    kept = drawn[np.all((drawn >= lower) & (drawn <= upper), axis=1)]
    assert len(kept) > 10_000
    return kept.mean(axis=0), np.cov(kept.T)


def test_limits_and_equations_of_a_row_are_conditions_together():
    """``x0 + x1 + x2 = 1`` where x0 is observed in no row, and others have limits."""
    rng = np.random.default_rng(5)
    covariance, noise = 0.5 + 0.5 * np.eye(4), 1e-3
    matrix = np.array([[1.0, 1.0, 1.0, 0.0]])
    lower = np.array([[-np.inf, 0.4, -np.inf, -np.inf]])
    upper = np.array([[np.inf, np.inf, -0.3, np.inf]])
    base = rows_of_gaussian(
        np.full((1, 4), np.nan), np.full(4, 1.0 / noise), np.zeros(4), covariance
    )
    identities = RowIdentities(matrix / np.sqrt(3.0), np.ones(1) / np.sqrt(3.0), np.full(4, noise))
    base = attrs.evolve(base, identities=identities)
    values = np.full((1, 4), np.nan)
    values[0, 3] = 0.5
    limits = RowLimits.of(lower, upper, noise)
    posterior = base.condition(values, np.full(4, 1.0 / noise)).within(limits)
    # The same by rejection: the observed number first, then the equation, then the limits.
    joint = covariance + noise * np.eye(4)
    seen = np.array([[0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0]])
    gain = joint @ seen.T @ np.linalg.inv(seen @ joint @ seen.T)
    mean = gain @ np.array([0.5, 1.0])
    conditional = (joint - gain @ seen @ joint)[:3, :3] + 1e-12 * np.eye(3)
    exact, spread = exact_moments(mean[:3], conditional, lower[0, :3], upper[0, :3], rng)
    cells = posterior.cells
    np.testing.assert_allclose(cells.means[0, 0, :3], exact, atol=0.03)
    sds = np.sqrt(cells.variances[0, 0, :3] + noise)
    np.testing.assert_allclose(sds, np.sqrt(np.diag(spread)), atol=0.03)
    assert cells.means[0, 0, :3].sum() == pytest.approx(1.0, abs=1e-6)
    repeated = np.tile(values, (3000, 1))
    limits = RowLimits.of(np.tile(lower, (3000, 1)), np.tile(upper, (3000, 1)), noise)
    many = base.condition(repeated, np.full(4, 1.0 / noise)).within(limits)
    drawn = drawn_within_limits(many, repeated, np.full(4, 1.0 / noise), rng)
    rest = many.with_numbers(drawn, np.full(4, 1.0 / noise))
    [whole] = rest.drawn_observations(noise, rng, 1)
    whole = np.where(np.isnan(drawn), whole, drawn)
    np.testing.assert_allclose(whole[:, :3].sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(whole[:, :3].mean(axis=0), exact, atol=0.04)
    np.testing.assert_allclose(np.cov(whole[:, :3].T), spread, atol=0.03)


def test_limits_of_rows_in_groups_inform_their_groups():
    """Two columns in two groups: sites against draws of all rows together by rejection."""
    rng = np.random.default_rng(6)
    within = np.array([[0.5, 0.2], [0.2, 0.5]])
    between, noise = np.array([[0.8, 0.3], [0.3, 0.6]]), 1e-3
    groups = np.array([0, 0, 0, 1])
    values = np.array([[np.nan, 0.4], [np.nan, np.nan], [0.9, np.nan], [np.nan, -0.2]])
    lower, upper = np.full((4, 2), -np.inf), np.full((4, 2), np.inf)
    lower[0, 0], upper[1, 1], lower[3, 0] = 0.8, -0.4, 0.3
    of_rows = RowMixture(np.zeros(1), np.zeros((1, 2)), within[None])
    of_means = RowMixture(np.zeros(1), np.zeros((1, 2)), between[None])
    table = IncompleteRows.of(values, np.full(2, 1.0 / noise), np.ones(2), GroupMembers(groups))
    base = posterior_given(table, RowsInGroups.of_new_groups(of_rows, of_means, 2))
    posterior = base.within(RowLimits.of(lower, upper, noise))
    same = (groups[:, None] == groups).astype(float)
    joint = np.kron(same, between) + np.kron(np.eye(4), within + noise * np.eye(2))
    seen = ~np.isnan(values).ravel()
    gain = joint[:, seen] @ np.linalg.inv(joint[np.ix_(seen, seen)])
    conditional = joint - gain @ joint[seen] + 1e-10 * np.eye(8)
    ends = lower.ravel(), upper.ravel()
    exact, spread = exact_moments(gain @ values.ravel()[seen], conditional, *ends, rng)
    missing = ~seen
    cells = posterior.cells
    np.testing.assert_allclose(cells.means[0].ravel()[missing], exact[missing], atol=0.03)
    sds = np.sqrt(cells.variances[0].ravel() + noise)[missing]
    np.testing.assert_allclose(sds, np.sqrt(np.diag(spread))[missing], atol=0.04)


def test_truncated_mixtures():
    rng = np.random.default_rng(0)
    second = rng.random(400_000) < 0.7
    x = np.where(second, rng.normal(2.0, 0.5, second.size), rng.normal(0.0, 1.0, second.size))
    x = x[(x > 1.0) & (x < 2.5)]
    parts = np.array([[[0.3], [0.7]], [[0.0], [2.0]], [[1.0], [0.5]]])
    mixture = TruncatedMixture(*parts, np.array([1.0]), np.array([2.5]))
    np.testing.assert_allclose(mixture.expected(lambda y: y), x.mean(), atol=4e-3)
    np.testing.assert_allclose(mixture.expected(np.square), np.mean(x**2), atol=1e-2)
    for level in (0.05, 0.5, 0.95):
        np.testing.assert_allclose(mixture.quantile(level), np.quantile(x, level), atol=6e-3)
        np.testing.assert_allclose(mixture.cdf(mixture.quantile(level)), level, atol=1e-9)


@pytest.mark.parametrize("ends", [(10.0, ABOVE), (BELOW, -40.0), (-1e3, -999.0), (5.0, 5.1)])
def test_tails_keep_their_digits(ends):
    one = np.ones((1, 1))
    mixture = TruncatedMixture(one, 0.0 * one, one, *np.array(ends)[:, None])
    exact = scipy.stats.truncnorm(*ends)
    np.testing.assert_allclose(mixture.expected(lambda y: y), exact.mean(), rtol=1e-5)
    quantile = mixture.quantile(0.3)
    assert ends[0] < quantile[0] < ends[1]
    np.testing.assert_allclose(mixture.cdf(quantile), 0.3, atol=1e-6)


def test_moments_of_columns_beside_limits():
    x = np.random.default_rng(0).normal(3.0, 2.0, 4000)
    cut = x <= 2.0
    mean, variance = censored_moments(
        x[~cut], np.full(cut.sum(), -np.inf), np.full(cut.sum(), 2.0)
    )

    def loss(at):
        normal = scipy.stats.norm(at[0], np.exp(at[1]))
        return -np.sum(normal.logpdf(x[~cut])) - cut.sum() * normal.logcdf(2.0)

    best = scipy.optimize.minimize(loss, np.zeros(2)).x
    np.testing.assert_allclose((mean, np.sqrt(variance)), (best[0], np.exp(best[1])), rtol=1e-3)


@pytest.mark.filterwarnings("ignore:columns of text are read as numbers")
@pytest.mark.slow(seconds=2)
def test_scales_are_chosen_beside_limits():
    """A normal column stays one where it is cut off; a lognormal one is taken for that."""
    whole = gaussian(400)
    normal = mc.complete(cut_off(whole)[0])
    assert normal.report()["scale"][0] == "as in the data"
    skewed, below, limit = cut_off(np.exp(0.8 * whole))
    completed = mc.complete(skewed)
    assert completed.report()["scale"][0] == "log(x)"
    lower = completed.interval(0.9)[0]
    assert ((lower["a"][below] > 0.0) & (completed.table["a"][below] < limit)).all()


@pytest.mark.filterwarnings("ignore:columns of text are read as numbers")
@pytest.mark.parametrize(
    "unit",
    [*(pytest.param(unit, marks=pytest.mark.slow(seconds=1)) for unit in (1e-6, 1e6)), 1e-200],
)
def test_units_do_not_matter(unit):
    whole = gaussian(120)
    plain, below, _ = cut_off(whole)
    scaled, _, limit = cut_off(whole)
    scaled["a"] = [
        f"<{float(text[1:]) * unit!r}" if text[0] == "<" else repr(float(text) * unit)
        for text in scaled["a"]
    ]
    one, other = mc.complete(plain), mc.complete(scaled)
    np.testing.assert_allclose(one.table["a"] * unit, other.table["a"], rtol=1e-6)
    assert (other.draws(1)[0]["a"][below] < limit * unit).all()


@pytest.mark.filterwarnings("ignore:columns of text are read as numbers")
@pytest.mark.slow(seconds=1)
def test_other_libraries_and_columns_that_stay_text():
    frame, below, limit = cut_off(gaussian(60))
    table = mc.complete(pl.from_pandas(frame)).table
    assert table["a"].dtype == pl.Float64
    assert (table["a"].to_numpy()[below] < limit).all()
    frame.loc[[1, 2], "a"] = "spilled"
    stays = mc.complete(frame).table["a"]
    assert (stays[[1, 2]] == "spilled").all()
    kept = below & ~np.isin(np.arange(60), [1, 2])
    assert (stays[kept].astype(float) < limit).all()


def with_limit_columns(n=150, seed=0):
    """A table cut off at a limit of each row, its whole, and where it was cut off."""
    whole = gaussian(n, seed=seed)
    rng = np.random.default_rng(seed)
    limit = rng.choice([-0.8, -0.3], n)
    below = (whole["a"] < limit).to_numpy()
    return whole.assign(a=whole["a"].mask(below), limit=limit), whole, below


@pytest.mark.slow(seconds=3)
def test_limits_in_another_column():
    frame, whole, below = with_limit_columns()
    completed = mc.complete(frame, {"a": mc.censored(upper="limit")})
    table = completed.table
    assert (table["a"][below] <= frame["limit"][below]).all()
    assert (table["limit"] == frame["limit"]).all()
    assert completed.declared.column("limit").is_skipped
    assert completed.report()["limits"][0] == below.sum()
    written = frame.assign(a=frame["a"].fillna(frame["limit"]))  # as the limit itself
    flagged = frame.assign(a=frame["a"].fillna(-9.0), below=below)
    types = {"a": mc.censored(upper="limit", where="below")}
    again = mc.complete(written, {"a": mc.censored(upper="limit")})
    np.testing.assert_allclose(again.table["a"], table["a"])
    np.testing.assert_allclose(mc.complete(flagged, types).table["a"], table["a"])
    new = frame.head(40).assign(limit=-1.5, a=np.nan)
    assert (completed.complete_rows(new)["a"] <= -1.5).all()
    mirrored = frame.assign(a=-frame["a"], limit=-frame["limit"])
    above = mc.complete(mirrored, {"a": mc.censored(lower="limit")}).table
    np.testing.assert_allclose(above["a"], -table["a"], atol=1e-6)
    free = mc.complete(frame.assign(limit=np.nan), {"a": mc.censored(upper="limit")}).table
    np.testing.assert_allclose(free["a"], mc.complete(frame[[*"abcde"]]).table["a"])
    assert np.mean((table["a"] - whole["a"])[below] ** 2) < np.mean(
        (free["a"] - whole["a"])[below] ** 2
    )


def test_bands_and_exact_limits():
    """Two limits are a range; equal ones are a value."""
    whole = gaussian(150)
    frame = whole.assign(low=np.floor(whole["a"]), high=np.floor(whole["a"]) + 1.0)
    banded = np.arange(150) % 3 == 0
    frame.loc[banded, "a"] = np.nan
    frame.loc[0, "low"] = frame.loc[0, "high"] = whole.loc[0, "a"]
    completed = mc.complete(frame, {"a": mc.censored(lower="low", upper="high")})
    for table in (completed.table, completed.draws(1)[0]):
        assert (table["a"] >= frame["low"]).all()
        assert (table["a"] <= frame["high"]).all()
    assert completed.table["a"][0] == whole["a"][0]


def test_dates_with_limits():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, 120), "D")
    frame = pd.DataFrame({"day": days, "seen": days + pd.Timedelta(20, "D")})
    frame["beside"] = rng.normal(size=120)
    frame.loc[::4, "day"] = pd.NaT
    completed = mc.complete(frame, {"day": mc.censored(upper="seen", kind="date")})
    assert (completed.table["day"] <= frame["seen"]).all()
    assert (completed.draws(1)[0]["day"] <= frame["seen"]).all()


@pytest.mark.parametrize("kind", ["positive", "shares"])
def test_limits_of_new_rows_may_lie_below_all_numbers_of_the_table(kind):
    """Where the scale of the table has told no numbers apart, all of them were one."""
    frame = gaussian(300, 3)
    z = frame["a"]
    frame["a"] = np.exp(0.6 * z) if kind == "positive" else 1.0 / (1.0 + np.exp(-z))
    limit = float(frame["a"].quantile(0.2))
    text = frame["a"].astype(str).mask(frame["a"] < limit, f"<{limit:.4f}")
    table = frame.assign(a=text)
    new = pd.DataFrame({"a": [f"{0.2 * limit:.4f}-{0.4 * limit:.4f}", f"<{0.1 * limit:.4f}"]})
    new = new.assign(b=np.nan, c=np.nan)
    completed = mc.complete(table, {"a": "number"})
    filled = completed.complete_rows(new)["a"]
    ends = [end["a"] for end in completed.interval_rows(new)]
    assert 0.25 * limit < filled[0] < 0.35 * limit
    assert 0.02 * limit < filled[1] < 0.09 * limit
    assert ends[0][0] < 0.25 * limit < 0.35 * limit < ends[1][0]
    assert ends[0][1] < filled[1] < ends[1][1] < 0.1 * limit


def test_new_rows_may_be_written_as_whole_numbers():
    """The table says whether answers are whole, and not how other new rows are written."""
    frame = gaussian(100, 2)
    frame["a"] = (frame["a"] - frame["a"].min() + 0.1).round(3)
    frame.loc[::7, "a"] = np.nan
    new = pd.DataFrame({"a": [1.0, np.nan, 2.0], "b": [0.1, 0.2, 0.3]})
    completed = mc.complete(frame)
    expected = completed.complete_rows(new)
    assert expected["a"][1] != np.rint(expected["a"][1])
    ends = completed.interval_rows(new)
    for made in (new.astype({"a": "Int64"}), pl.DataFrame({**new, "a": [1, None, 2]})):
        np.testing.assert_array_equal(completed.complete_rows(made)["a"], expected["a"])
        for end, expected_end in zip(completed.interval_rows(made), ends, strict=True):
            np.testing.assert_array_equal(end["a"], expected_end["a"])
    text = frame.assign(a=frame["a"].astype(str).mask(frame["a"] < 0.8, "<0.8"))
    text["a"] = text["a"].mask(frame["a"].isna())
    completed = mc.complete(text, {"a": "number"})
    for first in ("1", "1.5"):
        rows = pd.DataFrame({"a": [first, "<1", None], "b": [0.1, 0.2, 0.3]})
        filled = completed.complete_rows(rows)["a"]
        assert filled[0] == float(first)
        assert 0.0 < filled[1] < 0.95
        np.testing.assert_allclose(filled[2], completed.complete_rows(rows[2:])["a"].iloc[0])


def test_limits_beside_which_numbers_vanish_are_refused():
    """As text, in a column, as a number, and of new rows."""
    frame = gaussian(60)
    gaps = np.arange(60) % 5 == 0
    text = frame.assign(a=frame["a"].astype(str).mask(gaps, "> 1e60"))
    frame["a"] = frame["a"].mask(gaps)
    message = r"'a' has the limit -?1e\+60 in row 0, more than 1e\+50 times as far from 0"
    limits = mc.censored(lower="limit")
    for table, kind in (
        (text, "number"),
        (frame, mc.censored(lower=1e60)),
        (frame, mc.censored(upper=-1e60)),
        (frame, mc.censored(upper=1e60)),
        (frame.assign(limit=1e60), limits),
    ):
        with pytest.raises(mc.DataError, match=message):
            mc.complete(table, {"a": kind})
    completed = mc.complete(frame.assign(limit=-3.0), {"a": limits})
    assert completed.table["a"].abs().max() < 10.0
    with pytest.raises(mc.DataError, match=message):
        completed.complete_rows(frame.assign(limit=1e60))
    filled = completed.complete_rows(frame.assign(limit=1e40))["a"][gaps]
    np.testing.assert_allclose(filled, 1e40, rtol=1e-12)


def test_shifts_move_what_is_missing_alone():
    frame, _, below = with_limit_columns()
    gaps = ~below & (np.arange(150) % 5 == 0)
    frame.loc[gaps, ["a", "limit"]] = np.nan
    completed = mc.complete(frame, {"a": mc.censored(upper="limit")})
    [plain], [shifted] = completed.draws(1), completed.draws(1, shift={"a": 2.0})
    np.testing.assert_allclose(shifted["a"] - plain["a"], np.where(gaps, 2.0, 0.0), atol=1e-9)
    assert completed.report()["missing"][0] == gaps.mean()


def test_declared_models_take_limits():
    """The block of numbers has limits as data, and fits and posteriors fill within them."""
    frame, _, below = with_limit_columns()
    frame["visits"] = [">4" if k % 9 == 0 else str(k % 5) for k in range(150)]
    declared = mc.declare(frame, {"a": mc.censored(upper="limit"), "visits": "count"})
    assert [block.likelihood for block in declared.model.blocks] == [
        mc.Censored(mc.Gaussian()),
        mc.Censored(mc.Poisson()),
    ]
    table = declared.table(mc.fit(declared.model, declared.data, tol=1e-4))
    assert (table["a"][below] <= frame["limit"][below]).all()
    assert (table["visits"][::9] >= 5).all()
    types = {"a": mc.censored(upper="limit"), "visits": "count"}
    optimum = mc.complete(frame, types, method="optimum").table
    assert (optimum["a"][below] <= frame["limit"][below]).all()


def test_limits_that_are_not_used_are_said():
    frame, _, below = with_limit_columns()
    types = {"a": mc.censored(upper="limit", kind=mc.Huber())}
    with pytest.warns(UserWarning, match="limits of cells are not used by the estimate"):
        table = mc.complete(frame, types).table
    assert (table["a"][below] <= frame["limit"][below]).all()


def test_a_formula_cannot_have_an_outcome_with_limits():
    frame, _, below = with_limit_columns()
    completed = mc.complete(frame, {"a": mc.censored(upper="limit")})
    with pytest.raises(mc.ModelError, match="known to limits alone"):
        completed.draws(2, terms="a ~ b + I(b**2)")
    [table] = completed.draws(1, terms="c ~ a + I(a**2) + b")
    assert (table["a"][below] <= frame["limit"][below]).all()


def test_answers_with_limits_come_back(tmp_path):
    frame, _, _ = with_limit_columns()
    completed = mc.complete(frame, {"a": mc.censored(upper="limit")})
    again = mc.load(completed.save(tmp_path / "limits.npz"), mc.Completion)
    pd.testing.assert_frame_equal(again.table, completed.table)
    pd.testing.assert_frame_equal(again.interval()[1], completed.interval()[1])
    pd.testing.assert_frame_equal(again.draws(1)[0], completed.draws(1)[0])
    new = frame.tail(5)
    pd.testing.assert_frame_equal(again.complete_rows(new), completed.complete_rows(new))


@pytest.mark.filterwarnings("ignore:columns of text are read as numbers")
def test_imputers_fill_within_limits_and_regressors_say_that_they_do_not_use_them():
    frame, below, limit = cut_off(gaussian(80))
    for imputer in (MatrixCompletionImputer(), MatrixCompletionImputer(weight=0.1)):
        assert (imputer.fit_transform(frame)["a"][below] < limit).all()
        assert (imputer.transform(frame.head(20))["a"][below[:20]] < limit).all()
    regressor = MatrixCompletionRegressor()
    with pytest.warns(UserWarning, match="known to limits count as missing features: 'a'"):
        regressor.fit(frame.drop(columns="b"), frame["b"])
    assert np.isfinite(regressor.predict(frame.drop(columns="b"))).all()
