"""Rows in groups: means of groups, rows about them, draws of both, and tables with groups."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import mcframe as mc
from mcframe.contracts.row_groups import GroupMembers, RowGroups
from mcframe.numerics.group_means import GroupMeans, variances_added, variances_added_left_out
from mcframe.numerics.row_mixtures import IncompleteRows, RowMixture
from mcframe.numerics.rows_in_groups import RowsInGroups
from mcframe.posterior.grouped_draws import drawn_levels
from mcframe.posterior.row_estimates import fit_rows

NOISE = 0.01


def drawn_covariance(rng, d, scale=1.0):
    roots = rng.standard_normal((d, d + 1))
    return scale * (roots @ roots.T / d + 0.1 * np.eye(d))


def drawn_rows(rng, n, d, n_groups, share=0.4, hidden=0.3):
    """z, its numbers with gaps and noise, and the group of each row."""
    within = drawn_covariance(rng, d, 1.0 - share)
    between = drawn_covariance(rng, d, share)
    groups = rng.integers(0, n_groups, n)
    means = 3.0 + rng.multivariate_normal(np.zeros(d), between, n_groups)
    z = means[groups] + rng.multivariate_normal(np.zeros(d), within, n)
    x = z + np.sqrt(NOISE) * rng.standard_normal(z.shape)
    missing = rng.random(z.shape) < hidden
    missing[missing.all(axis=1), 0] = False
    return z, np.where(missing, np.nan, x), groups


def dense_posterior(x, members, mean, within, between):
    """Mean and covariance of all z (n d), and the log density of what is observed, written out."""
    n, d = x.shape
    functions = np.ones((n, 1)) if members.functions is None else members.functions
    # Means of all rows in the coefficients of all groups.
    of_group = np.eye(members.numbers.max() + 1)[members.numbers]
    loadings = np.kron(np.einsum("ng,nq->ngq", of_group, functions).reshape(n, -1), np.eye(d))
    coefficients = np.kron(np.eye(of_group.shape[1]), between)
    prior = loadings @ coefficients @ loadings.T + np.kron(np.eye(n), within)
    seen = ~np.isnan(x).ravel()
    of_seen = prior[np.ix_(seen, seen)] + NOISE * np.eye(seen.sum())
    gain = prior[:, seen] @ np.linalg.inv(of_seen)
    centre = loadings @ np.tile(mean, of_group.shape[1])
    z = centre + gain @ (x.ravel() - centre)[seen]
    density = multivariate_normal(centre[seen], of_seen).logpdf(x.ravel()[seen])
    return z.reshape(n, d), prior - gain @ prior[seen], density


def table_of(x, members):
    return IncompleteRows.of(x, np.full(x.shape[1], 1.0 / NOISE), np.ones(x.shape[1]), members)


@settings(max_examples=30)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.integers(2, 12),
    st.integers(1, 6),
    st.integers(0, 3),
)
def test_rows_and_means_of_groups_are_those_of_the_dense_gaussian(seed, d, n, n_groups, q):
    """Means of groups that do not move (q = 0), and those with q functions of time."""
    rng = np.random.default_rng(seed)
    _, x, groups = drawn_rows(rng, n, d, n_groups)
    members = GroupMembers(groups, rng.standard_normal((n, q)) if q else None)
    size = d * max(q, 1)
    scale = 10.0 ** rng.integers(-3, 3)
    mean, within, between = (
        rng.standard_normal(size),
        drawn_covariance(rng, d),
        drawn_covariance(rng, size, scale),
    )
    table = table_of(x, members)
    prior = GroupMeans.same(mean, between, n_groups)
    means, products = prior.given_with_products(table, members, within)
    np.testing.assert_array_equal(prior.given(table, members, within).means, means.means)
    rows = RowMixture(np.zeros(1), np.zeros((1, d)), within[None])
    of_means = RowMixture(np.zeros(1), mean[None], between[None])
    in_groups = RowsInGroups.of_new_groups(rows, of_means, n_groups).conditioned(table)
    cells = in_groups.conditionals(table)
    z, covariance, _ = dense_posterior(x, members, mean, within, between)
    size = 1.0 + np.abs(z).max()
    np.testing.assert_allclose(cells.means[0], z, atol=1e-8 * size)
    np.testing.assert_allclose(
        cells.variances[0].ravel(), np.diag(covariance), rtol=1e-6, atol=1e-8
    )
    for row in range(n):  # all numbers of a row together, observed or not
        observed = np.flatnonzero(~np.isnan(x[row]))[None]
        joint = in_groups.conditional_numbers(table, np.array([row]), observed, np.arange(d)[None])
        part = slice(row * d, (row + 1) * d)
        np.testing.assert_allclose(joint[0][0, 0], z[row], atol=1e-8 * size)
        np.testing.assert_allclose(joint[1][0, 0], covariance[part, part], rtol=1e-6, atol=1e-7)
    absent = np.setdiff1d(np.arange(n_groups), groups)
    np.testing.assert_allclose(means.means[absent], prior.means[absent])
    assert np.all(np.linalg.eigvalsh(products) >= -1e-9 * np.abs(products).max())


@pytest.mark.parametrize("q", [1, 2])
def test_a_number_that_is_left_out_has_the_variance_of_a_missing_one(q):
    rng = np.random.default_rng(1)
    _, x, groups = drawn_rows(rng, 30, 5, 4)
    members = GroupMembers(groups, rng.standard_normal((30, q)))
    column_of_number = np.array([0, 1, 1, 2, 3])
    within, means = drawn_covariance(rng, 5), GroupMeans.same(np.zeros(5 * q), np.eye(5 * q), 4)
    found = variances_added_left_out(x, NOISE, within, means, members, column_of_number)
    for row, column in itertools.product(range(30), range(4)):
        places = column_of_number == column
        if np.isnan(x[row, places]).any():
            continue
        without = x[row].copy()
        without[places] = np.nan
        table = table_of(without[None], members.take(slice(row, row + 1)))
        added = variances_added(table, within, means, table.in_groups)
        np.testing.assert_allclose(found[row, places], added[0, places], rtol=1e-9)


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_the_evidence_is_the_dense_one_less_the_uncertainty_of_parameters(degree):
    rng = np.random.default_rng(2)
    _, x, groups = drawn_rows(rng, 24, 3, 5)
    members = RowGroups.of(groups).moving(rng.random(24), degree).members
    fitted = fit_rows(x, np.full(3, 1.0 / NOISE), prior_rows=2.0, members=members, n_groups=5)
    parameters, history = fitted.parameters, np.array(fitted.history)
    assert np.all(np.diff(history) >= -1e-9 * np.abs(history[0]))
    rows, between = parameters.within.expected, parameters.between.expected
    moments = parameters.expectation(table_of(x, members))
    *_, density = dense_posterior(
        x, members, between.means[0], rows.covariances[0], between.covariances[0]
    )
    uncertainty = 24 * rows.log_shares[0] + 5 * between.log_shares[0]
    assert np.sum(moments.evidence) == pytest.approx(density + uncertainty, rel=1e-9)
    assert fitted.evidence <= np.sum(moments.evidence)


def test_draws_have_the_moments_of_the_posterior():
    rng = np.random.default_rng(3)
    _, x, groups = drawn_rows(rng, 40, 3, 6)
    table = table_of(x, GroupMembers(groups, np.column_stack([np.ones(40), rng.random(40)])))
    between, within = drawn_covariance(rng, 6), drawn_covariance(rng, 3)
    rows = RowMixture(np.zeros(1), np.zeros((1, 3)), within[None])
    of_means = RowMixture(np.zeros(1), np.zeros((1, 6)), between[None])
    in_groups = RowsInGroups.of_new_groups(rows, of_means, 6).conditioned(table)
    draws = in_groups.drawn(table, rng, 2000)
    cells = in_groups.conditionals(table)
    sds = np.sqrt(cells.variances[0])
    assert np.max(np.abs(draws.mean(axis=0) - cells.means[0]) / sds) < 5.0 / np.sqrt(2000)
    np.testing.assert_allclose(draws.std(axis=0) / sds, 1.0, atol=0.08)
    # Rows of a group deviate together.
    pair = np.flatnonzero(groups == groups[0])[:2]
    both = (draws[:, pair] - cells.means[0][pair])[:, :, 0]
    assert np.corrcoef(both.T)[0, 1] > 0.0


def test_drawn_parameters_lie_about_those_that_were_drawn_from():
    rng = np.random.default_rng(4)
    _, x, groups = drawn_rows(rng, 1500, 3, 150, share=0.5, hidden=0.2)
    members = GroupMembers(groups)
    fitted = fit_rows(x, np.full(3, 1.0 / NOISE), prior_rows=1.0, members=members, n_groups=150)
    chain = drawn_levels(fitted.parameters, fitted.table, rng)
    levels = list(itertools.islice(chain, 60))
    for drawn, level in (
        (np.array([one.within.covariances[0] for one in levels]), fitted.parameters.within),
        (np.array([one.new_group.covariances[0] for one in levels]), fitted.parameters.between),
    ):
        expected = level.predictive.covariances[0]
        size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        np.testing.assert_allclose(drawn.mean(axis=0) / size, expected / size, atol=0.12)
    between = np.array([one.new_group.covariances[0] for one in levels])
    assert between.std(axis=0).min() > 0.0


def grouped_frame(seed=5, n=240, n_groups=30, share=0.5):
    rng = np.random.default_rng(seed)
    z, x, groups = drawn_rows(rng, n, 5, n_groups, share)
    frame = pd.DataFrame(x, columns=list("abcde"))
    frame["school"] = [f"school {k}" for k in groups]
    return z, frame


def error_of(table, z, frame):
    hidden = frame[list("abcde")].isna().to_numpy()
    return np.sqrt(np.mean((table[list("abcde")].to_numpy(float) - z)[hidden] ** 2))


def test_a_table_is_filled_from_the_groups_of_its_rows():
    z, frame = grouped_frame()
    plain = mc.complete(frame.drop(columns="school"))
    grouped = mc.complete(frame, groups="school")
    assert error_of(grouped.table, z, frame) < 0.9 * error_of(plain.table, z, frame)
    report = grouped.report()
    assert report["type"].tolist() == [*["number"] * 5, "groups"]
    truth = pd.DataFrame(z).groupby(frame["school"].to_numpy()).mean().var() / z.var(axis=0)
    np.testing.assert_allclose(report["between_groups"][:5], truth, atol=0.2)
    assert plain.report()["between_groups"].isna().all()
    assert "variance that lies between groups: 'a'" in repr(grouped)
    assert grouped.table["school"].equals(frame["school"])
    by_labels = mc.complete(frame.drop(columns="school"), groups=frame["school"])
    renamed = mc.complete(
        frame.drop(columns="school"),
        groups=[0.5 - 3.0 * int(name.split()[1]) for name in frame["school"]],
    )
    for other in (by_labels, renamed):
        pd.testing.assert_frame_equal(other.table, grouped.table.drop(columns="school"))
    lower, upper = grouped.interval(0.9)
    hidden = frame[list("abcde")].isna().to_numpy()
    inside = (lower[list("abcde")].to_numpy() <= z) & (z <= upper[list("abcde")].to_numpy())
    assert 0.85 < np.mean(inside[hidden]) < 0.96
    draws = grouped.draws(3)
    assert not any(table.isna().to_numpy().any() for table in draws)
    pd.testing.assert_frame_equal(grouped.draws(2)[1], draws[1])


def test_new_rows_are_of_groups_of_the_table_or_of_new_ones():
    _, frame = grouped_frame()
    completed = mc.complete(frame, groups="school")
    posterior = completed.posterior
    block = posterior.model.blocks[0].name
    gaps = {block: np.full((3, 5), np.nan)}
    known = posterior.condition(gaps, groups=["school 1", "school 1", "elsewhere"])
    sds = known.sd(block)
    assert np.all(sds[0] < sds[2])
    np.testing.assert_allclose(sds[0], sds[1])
    np.testing.assert_allclose(posterior.condition(gaps).sd(block)[0], sds[2])
    new = pd.DataFrame({"a": [8.0, np.nan], "b": [8.0, np.nan], "school": ["x", "x"]})
    with pytest.warns(UserWarning, match="'c', 'd', 'e'"):
        filled = completed.complete_rows(new)
    with pytest.warns(UserWarning, match="'c', 'd', 'e'"):
        apart = completed.complete_rows(new.assign(school=["x", "y"]))
    # The second row learns from the first one if it is of the same group.
    assert filled["a"][1] > apart["a"][1]
    with pytest.raises(mc.DataError, match="column 'school' of groups: row 1 has none"):
        completed.complete_rows(frame[:3].assign(school=["x", None, "y"]))


def test_every_row_may_be_a_group():
    _, frame = grouped_frame(n=60, n_groups=60)
    completed = mc.complete(frame.drop(columns="school"), groups=np.arange(60))
    assert not completed.table.isna().to_numpy().any()


def test_columns_of_all_types_have_means_of_groups():
    rng = np.random.default_rng(6)
    groups = np.repeat(np.arange(25), 8)
    u = np.repeat(rng.standard_normal(25), 8)
    x = u + 0.5 * rng.standard_normal(200)
    frame = pd.DataFrame(
        {
            "x": x,
            "count": rng.poisson(np.exp(1.0 + 0.5 * u)),
            "label": u + 0.5 * rng.standard_normal(200) > 0.0,
            "kind": np.array(["p", "q", "r"])[np.digitize(u, [-0.5, 0.5])],
            "income": np.exp(10.0 + u),
        }
    ).mask(rng.random((200, 5)) < 0.2)
    frame["label"], frame["group"] = frame["label"].astype("boolean"), groups
    completed = mc.complete(frame, {"count": "count"}, groups="group")
    assert not completed.table.isna().to_numpy().any()
    for table in completed.draws(2):
        assert not table.isna().to_numpy().any()
        assert (table["count"] >= 0).all()
        assert table["kind"].isin(["p", "q", "r"]).all()


def test_groups_of_a_model_move_in_time(tmp_path):
    rng = np.random.default_rng(7)
    groups, times = np.repeat(np.arange(40), 10), np.tile(np.arange(10.0), 40)
    slopes = rng.standard_normal((40, 1))
    lines = (slopes * (np.arange(10) - 4.5)).ravel()
    z = lines[:, None] * [1.0, -0.5] + 0.3 * rng.standard_normal((400, 2))
    x = np.where(rng.random(z.shape) < 0.3, np.nan, z)
    x[np.isnan(x).all(axis=1)] = z[np.isnan(x).all(axis=1)]
    block = mc.Block("x", mc.Gaussian(variance=None))
    term = mc.GaussianRows(groups=groups, times=times, trend=1)
    assert "N(z_i | Σ_(k=0..1) f_k(t_i) c_g(i)k, W)" in term.formula()
    posterior = mc.posterior(mc.Model([block], [term]), {"x": x})
    hidden, predicted = np.isnan(x), posterior.predict("x")
    assert np.sqrt(np.mean(np.square(predicted - z)[hidden])) < 0.4
    again = mc.load(posterior.save(tmp_path / "posterior.npz"))
    new, steepest = np.full((1, 2), np.nan), int(np.argmax(np.abs(slopes)))
    known = {"groups": [steepest], "times": [12.0]}
    ahead = again.condition({"x": new}, **known)
    np.testing.assert_allclose(ahead.predict("x")[0, 0], 7.5 * slopes[steepest, 0], rtol=0.15)
    np.testing.assert_array_equal(
        ahead.predict("x"), posterior.condition({"x": new}, **known).predict("x")
    )
    # At any time of the table a row has its group's mean, and is as spread as its lines are.
    anywhere = posterior.condition({"x": new}, groups=[steepest])
    spread = np.abs(slopes[steepest, 0]) * np.sqrt(8.25)
    np.testing.assert_allclose(anywhere.sd("x", of="predictor")[0, 0], spread, rtol=0.2)
    assert abs(anywhere.predict("x")[0, 0]) < 0.3 * spread
    unknown = posterior.condition({"x": new})
    of_all = np.sqrt(8.25 * np.mean(np.square(slopes)))
    np.testing.assert_allclose(unknown.sd("x", of="predictor")[0, 0], of_all, rtol=0.2)
    for rows, sd in ((anywhere, spread), (unknown, of_all)):
        np.testing.assert_allclose(rows.sample("x", 400)[:, 0, 0].std(), sd, rtol=0.25)


def test_trends_that_cannot_be_are_named():
    groups, times = [0, 0, 1, 1], np.arange(4.0)
    for options, message in (
        ({"groups": groups, "trend": 1}, "trend=1 was given without times and with groups"),
        ({"times": times, "trend": 1}, "trend=1 was given with times and without groups"),
        ({"groups": groups, "times": times}, "trend=0 was given with times and with groups"),
        ({"groups": groups, "times": times, "trend": 4}, "a whole number from 0 to 3 is needed"),
    ):
        with pytest.raises(mc.ModelError, match=message):
            mc.GaussianRows(**options)
    for wrong, message in (
        (times[:3], r"times has the shape \(3,\); one number for each of the 4 rows"),
        (np.append(times[:3], np.nan), "row 3 has no time; each row needs one"),
        (list("abcd"), "times: a number is needed for each row"),
        (np.ones(4), "trend=1 was given, and the rows have 1 different time, or such as hardly"),
    ):
        with pytest.raises(mc.DataError, match=message):
            mc.GaussianRows(groups=groups, times=wrong, trend=1)
    # Three of these times are one beside the fourth, so that a parabola has no third point.
    with pytest.raises(
        mc.DataError, match="4 different times, or such as hardly differ; at least 3"
    ):
        mc.GaussianRows(groups=groups, times=[0.0, 1e-30, 2e-30, 1.0], trend=2)
    with pytest.raises(
        mc.DataError, match="trend=2 was given, and the rows have 2 different times"
    ):
        mc.GaussianRows(groups=["a", "b"], times=[0.0, 1.0], trend=2)  # fewer rows than powers
    with np.errstate(all="raise"):
        large = mc.GaussianRows(groups=groups, times=1e307 * (1.0 + times), trend=2).groups
    small = mc.GaussianRows(groups=groups, times=1e-200 * times, trend=2).groups
    np.testing.assert_allclose(large.functions, small.functions, atol=1e-12)
    x = np.random.default_rng(0).standard_normal((4, 2))
    for term in (mc.GaussianRows(), mc.GaussianRows(groups=groups)):
        posterior = mc.posterior(mc.Model([mc.Block("x", mc.Gaussian())], [term]), {"x": x})
        with pytest.raises(mc.ModelError, match="times were given without groups that move"):
            posterior.condition({"x": x}, times=times)


def test_a_model_with_groups_has_a_posterior_and_no_optimum(tmp_path):
    _, frame = grouped_frame(n=60, n_groups=6)
    x, groups = frame[list("abcde")].to_numpy(), frame["school"].to_numpy(str)
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.GaussianRows(groups=groups)])
    assert "u_g(i)" in str(model)
    posterior = mc.posterior(model, {"x": x})
    again = mc.load(posterior.save(tmp_path / "posterior.npz"))
    np.testing.assert_array_equal(again.predict("x"), posterior.predict("x"))
    np.testing.assert_array_equal(
        again.condition({"x": x[:2]}, groups=["school 1", "new"]).predict("x"),
        posterior.condition({"x": x[:2]}, groups=["school 1", "new"]).predict("x"),
    )
    draws, sds = posterior.sample("x", 400), posterior.sd("x")
    assert np.median(np.abs(draws.mean(axis=0) - posterior.predict("x")) / sds) < 0.2
    with pytest.raises(mc.ModelError, match="has no covariance"):
        mc.fit(model, {"x": x})
    with pytest.raises(mc.ModelError, match="chains have none"):
        mc.posterior(model, {"x": x}, method="sampler")
    with pytest.raises(mc.DataError, match="groups has 60 labels; one for each of the 5 rows"):
        mc.posterior(model, {"x": x[:5]})
    with pytest.raises(mc.DataError, match="groups has 1 labels; one for each of the 2 rows"):
        posterior.condition({"x": x[:2]}, groups=["a"])
    without = mc.posterior(mc.Model([mc.Block("x", mc.Gaussian())], [mc.GaussianRows()]), {"x": x})
    with pytest.raises(mc.ModelError, match="the rows of the fit have none; drop groups="):
        without.condition({"x": x[:2]}, groups=["a", "b"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": ["a", "a"]}, "one label for all rows; at least 2 groups"),
        ({"groups": [["a"], ["b"]]}, "one label for each row is needed"),
        ({"groups": ["a", "b"], "components": 2}, "groups beside components=2 was given"),
        ({"groups": ["a", "b"], "covariance": np.eye(2)}, "groups beside a covariance"),
    ],
)
def test_wrong_groups_of_a_term_are_named(options, message):
    with pytest.raises(mc.ModelError, match=message):
        mc.GaussianRows(**options)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("scool", "groups names 'scool', which is no column; did you mean 'school'"),
        (["a"] * 3, r"groups has the shape \(3,\); one value for each of the 240 rows"),
        (["a"] * 240, "one label for all rows; at least 2 groups"),
        ([*["a", None] * 120], "groups: row 1 has no group"),
        ([*["a", {}] * 120], r"groups: row 1 has \{\}, which is no label"),
    ],
)
def test_wrong_groups_of_a_table_are_named(groups, message):
    _, frame = grouped_frame()
    with pytest.raises(mc.DataError, match=message):
        mc.complete(frame, groups=groups)


def test_a_table_has_columns_beside_the_groups():
    _, frame = grouped_frame()
    with pytest.raises(mc.DataError, match="no column is left for a model beside 'school'"):
        mc.complete(frame[["school"]], groups="school")
    optimum = mc.complete(frame, groups="school", method="optimum")
    assert not optimum.table.isna().to_numpy().any()
    assert optimum.report()["between_groups"].isna().all()


def test_a_wide_table_has_no_means_of_groups():
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(rng.standard_normal((20, 140)), columns=[f"x{k}" for k in range(140)])
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    with pytest.warns(UserWarning, match="too many columns for means of groups"):
        completed = mc.complete(frame, groups=np.arange(20) % 4)
    assert completed.report()["between_groups"].isna().all()


def test_cells_of_groups_are_filled_within_their_limits():
    """The cells that are cut off are higher in groups whose other rows are."""
    rng = np.random.default_rng(7)
    groups = np.repeat(np.arange(12), 25)
    means = rng.normal(0.0, 1.5, 12)
    x = means[groups] + rng.standard_normal(300)
    limit = round(float(np.quantile(x, 0.3)), 3)
    below = x < limit
    frame = pd.DataFrame(
        {
            "x": [f"<{limit}" if low else str(v) for low, v in zip(below, x, strict=True)],
            "y": x + 2.0 * rng.standard_normal(300),
            "town": [f"t{g}" for g in groups],
        }
    )
    done = mc.complete(frame, {"x": "number"}, groups="town")
    filled = done.table["x"].astype(float).to_numpy()
    assert (filled[below] <= limit).all()
    rmse = np.sqrt(np.mean((filled - x)[below] ** 2))
    alone = mc.complete(frame.drop(columns="town"), {"x": "number"}).table["x"].astype(float)
    assert rmse < 0.97 * np.sqrt(np.mean((alone.to_numpy() - x)[below] ** 2))
    lower, upper = (np.asarray(end["x"], dtype=float) for end in done.interval(0.9))
    assert np.mean((lower <= x) & (x <= upper)) > 0.8
    for table in (*done.draws(2), done.complete_rows(frame.iloc[:40])):
        values = table["x"].astype(float).to_numpy()
        assert (values[below[: len(values)]] <= limit).all()
