"""The verb ``posterior``: statuses, units, budgets, and what it refuses."""

import numpy as np
import pytest

import mcframe as mc

LEARNED = mc.Gaussian(variance=None)
ROWS = mc.Model([mc.Block("x", LEARNED)], [mc.GaussianRows()])
FACTORS = mc.Model([mc.Block("x", LEARNED, bias=True)], [mc.NuclearNorm()])


@pytest.fixture(scope="module")
def table():
    """Two factors and noise of deviation .3, a fifth of the entries missing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 7)) + 0.3 * rng.normal(size=(80, 7))
    return np.where(rng.random(x.shape) < 0.2, np.nan, x)


@pytest.mark.parametrize("model", [ROWS, FACTORS])
@pytest.mark.parametrize(("unit", "mean"), [(1.0, 100.0), (1e6, 0.0), (1e-6, 1.0)])
def test_answers_move_with_the_units_of_the_data(table, model, unit, mean):
    """Moved and scaled data have moved and scaled answers, whatever the mean is."""
    plain = mc.posterior(model, {"x": table})
    moved = mc.posterior(model, {"x": mean + unit * table})
    expected, sd = plain.predict("x"), plain.sd("x")
    np.testing.assert_allclose((moved.predict("x") - mean) / unit, expected, atol=0.05)
    np.testing.assert_allclose(moved.sd("x") / unit, sd, rtol=0.1)


def test_statuses(table):
    assert mc.posterior(ROWS, {"x": table}).status == "converged"
    assert mc.posterior(ROWS, {"x": table}, max_iter=1, tol=0.0).status == "iteration_limit"
    given = mc.Model([mc.Block("x", mc.Gaussian(0.1))], [mc.GaussianRows(np.eye(7))])
    assert mc.posterior(given, {"x": table}, max_iter=1).status == "converged"
    short = mc.posterior(FACTORS, {"x": table}, max_iter=2)
    assert short.status == "iteration_limit"
    assert len(short.history) == 2
    assert mc.posterior(FACTORS, {"x": table}).status == "converged"
    with pytest.raises(mc.BackendError, match="max_seconds=1e-09"):
        mc.posterior(FACTORS, {"x": table}, max_seconds=1e-9)


def test_given_rows_are_exact(table):
    """One Gaussian that is declared: the conditional Gaussian of each row, by hand."""
    covariance = np.cov(np.nan_to_num(table).T) + 0.1 * np.eye(7)
    model = mc.Model(
        [mc.Block("x", mc.Gaussian(variance=0.2))], [mc.GaussianRows(covariance, np.ones(7))]
    )
    posterior = mc.posterior(model, {"x": table})
    for i in range(5):
        seen = ~np.isnan(table[i])
        of_seen = covariance[np.ix_(seen, seen)] + 0.2 * np.eye(seen.sum())
        gain = np.linalg.solve(of_seen, covariance[seen]).T
        mean = 1.0 + gain @ (table[i, seen] - 1.0)
        variance = np.diag(covariance - gain @ covariance[seen]) + 0.2
        cells = np.full(7, i), np.arange(7)
        np.testing.assert_allclose(posterior.predict("x", *cells), mean, atol=1e-9)
        np.testing.assert_allclose(posterior.sd("x", *cells), np.sqrt(variance), rtol=1e-9)


def test_thresholds_are_learned():
    """Levels of known thresholds: those that are fitted are close, and the bound never falls."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 10))
    y = mc.Ordinal(4, thresholds=(-1.5, 0.0, 1.0)).sample(z, rng).astype(float)
    model = mc.Model([mc.Block("y", mc.Ordinal(4))], [mc.NuclearNorm()])
    posterior = mc.posterior(model, {"y": y}, tol=1e-4)
    found = posterior.engine.likelihood("y").thresholds
    np.testing.assert_allclose(found, (-1.5, 0.0, 1.0), atol=0.3)
    assert np.all(np.diff([sweep.evidence for sweep in posterior.history]) > 0.0)


def test_what_has_no_posterior_is_refused(table):
    block = mc.Block("x", LEARNED)
    for terms, reason in (
        ([mc.NuclearNorm(), mc.Ridge(1.0)], "Ridge is no part of a density"),
        ([mc.NuclearBall(1.0)], "one prior of Z is needed"),
        ([mc.NuclearNorm(1.0, count_share=0.5)], "count_share="),
    ):
        with pytest.raises(mc.BackendError, match=reason):
            mc.posterior(mc.Model([block], terms), {"x": table})
    with pytest.raises(mc.BackendError, match="block 'x': reduce='mean'"):
        mc.posterior(
            mc.Model([mc.Block("x", mc.Gaussian(), reduce="mean")], [mc.NuclearNorm()]),
            {"x": table},
        )
    with pytest.raises(mc.BackendError, match="biases and row effects"):
        mc.posterior(
            mc.Model([mc.Block("x", LEARNED, bias=True)], [mc.GaussianRows()]), {"x": table}
        )
    with pytest.raises(mc.ModelError, match="factors='many'"):
        mc.posterior(FACTORS, {"x": table}, factors="many")
    for verb in (mc.fit, mc.weight_max, mc.explain, mc.verify):
        with pytest.raises(mc.ModelError, match="posterior"):
            verb(FACTORS, {"x": table})
