"""Principal axes of a posterior: Z as it was, axes orthogonal, deviations as of draws."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import mcframe as mc
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.posterior.chains import FactorChains

LEARNED = mc.Gaussian(variance=None)
NORM, ROWS = mc.NuclearNorm(), mc.GaussianRows()


def table_of(shape=(60, 8), noise=0.3, hidden=0.2, seed=0):
    """Two factors of different sizes and noise, some entries missing."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(shape[0], 2)) @ (
        np.array([[2.0], [1.0]]) * rng.normal(size=(2, shape[1]))
    )
    x += noise * rng.normal(size=shape)
    x[rng.random(shape) < hidden] = np.nan
    return x


def posterior_of(x, term=NORM, **options):
    bias = not isinstance(term, mc.GaussianRows)
    model = mc.Model([mc.Block("x", LEARNED, bias=bias)], [term])
    return mc.posterior(model, {"x": x}, **options)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("term", [NORM, ROWS])
def test_they_give_the_same_z_along_orthogonal_axes(term, unit):
    posterior = posterior_of(unit * table_of(), term)
    found = posterior.factors()
    z, loadings = found.scores @ found.loadings["x"].T, found.loadings["x"]
    mean = posterior.predict("x")
    np.testing.assert_allclose(z - z[0], mean - mean[0], atol=1e-5 * unit)
    squares = loadings.T @ loadings
    np.testing.assert_allclose(squares, np.diag(np.diag(squares)), atol=1e-9 * np.trace(squares))
    np.testing.assert_allclose(found.shares, np.diag(squares) / np.trace(squares), rtol=1e-9)
    assert np.all(np.diff(found.shares) <= 0.0)
    assert np.all(loadings[np.argmax(np.abs(loadings), axis=0), range(len(squares))] > 0.0)
    if term is NORM:
        np.testing.assert_allclose(
            found.scores.T @ found.scores, 60 * np.eye(len(squares)), atol=1e-7
        )
        assert found.shares.size < 8  # others are switched off


@pytest.mark.parametrize("term", [mc.NuclearNorm(1.0), ROWS])
def test_the_order_of_rows_and_columns_does_not_matter(term):
    x, rng = table_of(), np.random.default_rng(1)
    rows, columns = rng.permutation(60), rng.permutation(8)
    options = {"factors": 2} if isinstance(term, mc.NuclearNorm) else {}
    one, other = (
        posterior_of(table, term, tol=1e-9, max_iter=3000, **options).factors()
        for table in (x, x[rows][:, columns])
    )
    for axis in (0, 1):
        for mine, theirs in [
            (one.scores[rows], other.scores),
            (one.score_sds[rows], other.score_sds),
            (one.loadings["x"][columns], other.loadings["x"]),
            (one.loading_sds["x"][columns], other.loading_sds["x"]),
        ]:
            np.testing.assert_allclose(mine[:, axis], theirs[:, axis], atol=2e-3)


def test_deviations_are_those_of_draws_along_the_axes():
    """Of the factorised posterior, by definition: V as it is, U drawn, and the other way round."""
    posterior = posterior_of(table_of(), mc.NuclearNorm(1.0), factors=2)
    engine, found, rng = posterior.engine, posterior.factors(), np.random.default_rng(2)
    rows, columns = engine.rows_given(np.arange(60)), engine.state.columns
    u, v = rows.means[:, :2], columns.means[:, :2]
    spread = rows.covariances[5, [0, 1, 2]], columns.covariances[3, [0, 1, 2]]
    full = [np.array([[a, b], [b, c]]) for a, b, c in spread]
    drawn_u = rng.multivariate_normal(u[5], full[0], 100_000)
    drawn_v = rng.multivariate_normal(v[3], full[1], 100_000)
    squares = np.square(found.loadings["x"]).sum(axis=0)
    scores = drawn_u @ v.T @ found.loadings["x"] / squares
    loadings = drawn_v @ u.T @ found.scores / 60
    np.testing.assert_allclose(scores.mean(axis=0), found.scores[5], atol=0.02)
    np.testing.assert_allclose(scores.std(axis=0), found.score_sds[5], rtol=0.02)
    np.testing.assert_allclose(loadings.mean(axis=0), found.loadings["x"][3], atol=0.02)
    np.testing.assert_allclose(loadings.std(axis=0), found.loading_sds["x"][3], rtol=0.02)


def test_deviations_are_a_little_smaller_than_those_of_the_sampler():
    """Axes of each draw, in their own order and signs: these turn, which ours leaves out."""
    model = mc.Model([mc.Block("x", mc.Gaussian(variance=0.09))], [mc.NuclearNorm(0.5)])
    posterior = mc.posterior(model, {"x": table_of()}, factors=2, tol=1e-8)
    found, scores, loadings = posterior.factors(), [], []
    rng = np.random.default_rng(3)
    chains = FactorChains.begin(posterior.engine, 20, rng, from_prior=True, learns_priors=False)
    for number in range(120):
        chains.sweep()
        if number < 60:
            continue
        for u, v in zip(chains.rows, chains.columns, strict=True):
            p, sizes, q = np.linalg.svd(u @ v.T, full_matrices=False)
            turned = np.sign(np.sum(q[:2].T * found.loadings["x"], axis=0))
            scores.append(turned * p[:, :2] * np.sqrt(60))
            loadings.append(turned * q[:2].T * sizes[:2] / np.sqrt(60))
    for draws, mean, sd in [
        (np.array(scores), found.scores, found.score_sds),
        (np.array(loadings), found.loadings["x"], found.loading_sds["x"]),
    ]:
        assert np.median(np.abs(draws.mean(axis=0) - mean) / draws.std(axis=0)) < 0.15
        ratios = sd / draws.std(axis=0)
        assert 0.7 < np.median(ratios) < 1.15
        assert np.min(ratios) > 0.3


def test_scores_of_gaussian_rows_are_those_of_dense_algebra():
    covariance = np.diag([4.0, 1.0, 0.25]) + 0.2
    model = mc.Model(
        [mc.Block("x", mc.Gaussian(variance=0.3))], [mc.GaussianRows(covariance, np.ones(3))]
    )
    x = np.random.default_rng(4).normal(size=(5, 3))
    x[0, 1] = x[3, :] = np.nan
    x[3, 0] = 1.0
    found = mc.posterior(model, {"x": x}).factors()
    loadings = found.loadings["x"]
    np.testing.assert_allclose(loadings @ loadings.T, covariance, rtol=1e-9)
    for i in range(5):
        seen = np.isfinite(x[i])
        gain = loadings[seen].T @ np.linalg.inv(
            covariance[np.ix_(seen, seen)] + 0.3 * np.eye(seen.sum())
        )
        np.testing.assert_allclose(found.scores[i], gain @ (x[i, seen] - 1.0), rtol=1e-9)
        spread = np.eye(3) - gain @ loadings[seen]
        np.testing.assert_allclose(found.score_sds[i], np.sqrt(np.diag(spread)), rtol=1e-9)
    assert np.all(found.loading_sds["x"] == 0.0)


def test_loadings_of_gaussian_rows_vary_as_an_inverse_wishart():
    posterior = posterior_of(table_of((40, 4)), ROWS)
    found, own = posterior.factors(), posterior.engine.rows
    degrees, covariance = own.parameters.degrees[0], own.components.covariances[0]
    drawn = stats.invwishart(degrees, (degrees - 5.0) * covariance).rvs(40_000, random_state=0)
    sizes = np.sqrt(np.sum(np.square(found.loadings["x"]), axis=0))
    axes = found.loadings["x"] / sizes
    np.testing.assert_allclose(
        (drawn @ (axes / sizes)).std(axis=0), found.loading_sds["x"], rtol=0.03
    )


def test_frames_keep_their_labels_and_classes_have_a_number_each():
    x = pd.DataFrame(table_of(), index=np.arange(100, 160), columns=list("abcdefgh"))
    kinds = np.random.default_rng(5).integers(0, 3, (60, 2)).astype(float)
    blocks = [mc.Block("x", LEARNED), mc.Block("kinds", mc.Multinomial(3))]
    data = {"x": x, "kinds": pd.DataFrame(kinds, index=x.index, columns=["u", "v"])}
    found = mc.posterior(mc.Model(blocks, [NORM]), data, factors=3).factors()
    pd.testing.assert_index_equal(found.scores.index, x.index)
    pd.testing.assert_index_equal(found.loadings["x"].index, x.columns)
    assert found.loadings["kinds"].shape == (2, 3 * found.shares.size)
    assert list(found.loadings["kinds"].columns[:3]) == [(0, 0), (0, 1), (0, 2)]
    assert "axis" in repr(found)


def test_rows_in_partitions_have_the_axes_of_the_table():
    """Where every row is in one process when it is asked for, and no table is."""
    x = table_of()
    model = mc.Model([mc.Block("x", LEARNED, bias=True)], [NORM])
    whole, parts = (
        mc.posterior(model, {"x": x}, factors=2).factors(),
        mc.posterior(model, RowsInMemory({"x": x}, 3), factors=2).factors(),
    )
    for ours, theirs in [
        (parts.scores, whole.scores),
        (parts.score_sds, whole.score_sds),
        (parts.loadings["x"], whole.loadings["x"]),
        (parts.loading_sds["x"], whole.loading_sds["x"]),
    ]:
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_nothing_but_noise_has_no_axes():
    x = np.random.default_rng(6).normal(size=(50, 4))
    found = posterior_of(x, mc.NuclearNorm(1e6), factors=2).factors()
    assert np.all(np.abs(found.scores @ found.loadings["x"].T) < 1e-3)
    none = posterior_of(x, factors=0).factors()
    assert none.scores.shape == (50, 0)
    assert none.loadings["x"].shape == (4, 0)


def test_mixtures_and_new_rows_are_refused():
    x = table_of()
    with pytest.raises(mc.ModelError, match="a mixture of 2 Gaussians, each of which has axes"):
        posterior_of(x, mc.GaussianRows(components=2)).factors()
    with pytest.raises(mc.ModelError, match="new rows"):
        posterior_of(x, factors=2).condition({"x": x[:3]}).factors()
    assert posterior_of(x, ROWS).condition({"x": x[:3]}).factors().scores.shape == (3, 8)
