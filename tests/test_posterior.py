"""The verb ``posterior``: statuses, units, budgets, and what it refuses."""

import attrs
import numpy as np
import pytest
from scipy import stats

import mcframe as mc
from mcframe.likelihoods.poisson import poisson_counts
from mcframe.posterior.predictive import Predictive

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
    with pytest.warns(mc.NotConvergedWarning, match="iteration_limit: the rows took 2 steps"):
        short = mc.posterior(ROWS, {"x": table}, max_iter=1, tol=0.0)
    assert short.status == "iteration_limit"
    given = mc.Model([mc.Block("x", mc.Gaussian(0.1))], [mc.GaussianRows(np.eye(7))])
    assert mc.posterior(given, {"x": table}, max_iter=1).status == "converged"
    with pytest.warns(mc.NotConvergedWarning, match="after 2 sweeps; the evidence") as told:
        short = mc.posterior(FACTORS, {"x": table}, max_iter=2)
    assert told[0].filename == __file__
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
    found = posterior.engine.observed.likelihood("y").thresholds
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


def distribution(likelihood, mean, sd, **given):
    """The predictive distribution where z is one Gaussian."""
    one = np.array([[mean]], dtype=float)
    return Predictive(likelihood, np.ones((1, 1)), one, one * 0.0 + sd**2, None, np.array, **given)


@pytest.mark.parametrize("likelihood", [mc.Poisson(), mc.NegativeBinomial(0.01), mc.Exponential()])
@pytest.mark.parametrize(("mean", "sd"), [(0.0, 0.3), (7.0, 0.7), (-3.0, 8.0), (30.0, 12.0)])
def test_quantiles_of_counts_and_durations_over_orders_of_magnitude(likelihood, mean, sd):
    """Beside draws: also where z is far wider than what an observation tells of it."""
    rng = np.random.default_rng(0)
    z = mean + sd * stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    draws = likelihood.sample(z, rng)
    for level in (0.05, 0.5, 0.95):
        [found] = distribution(likelihood, mean, sd).quantile(level)
        assert np.mean(draws <= found) >= level - 0.008
        assert np.mean(draws < found) <= level + 0.008


@pytest.mark.parametrize(
    "sd", [0.1, *(pytest.param(sd, marks=pytest.mark.slow(seconds=1)) for sd in (3.0, 40.0)), 1e6]
)
@pytest.mark.parametrize("likelihood", [mc.Huber(0.5), mc.Quantile(0.3)])
def test_densities_of_locations_integrate_to_the_distribution(likelihood, sd):
    found = distribution(likelihood, 2.0, sd, units=np.array([10.0]))
    [low], [high] = found.quantile(0.05), found.quantile(0.95)
    points = np.linspace(low, high, 501)
    density = np.exp([found.log_density(np.array([y]))[0] for y in points])
    np.testing.assert_allclose(np.trapezoid(density, points), 0.9, atol=2e-3)
    noise = likelihood.response_variance(np.zeros(1))[0]
    np.testing.assert_allclose(found.sd(), 10.0 * np.sqrt(sd**2 + noise), rtol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 0.01, 1e-9])
def test_labels_of_a_small_scale_have_probabilities_of_a_step(scale):
    [found] = distribution(mc.Bernoulli("probit", scale=scale), 0.4, 0.7).mean()
    expected = stats.norm.cdf(0.4 / np.sqrt(0.49 + scale**2))
    np.testing.assert_allclose(found, expected, atol={1.0: 1e-9, 0.01: 2e-4, 1e-9: 0.01}[scale])


def test_a_standardised_loss_has_deviations_in_units_of_the_data(table):
    blocks = [mc.Block("x", mc.Huber(1.0), standardize=units) for units in (True, "ranks")]
    for block in blocks:
        posterior = mc.posterior(
            mc.Model([block], [mc.NuclearNorm()]), {"x": 1e6 * table}, factors=2
        )
        draws = posterior.sample("x", 4000)
        spread = 0.08 if block.standardize is True else 0.2
        np.testing.assert_allclose(draws.std(axis=0), posterior.sd("x"), rtol=spread)
        error = np.max(np.abs(draws.mean(axis=0) - posterior.predict("x")) / posterior.sd("x"))
        assert error < spread + 0.05


def test_poisson_counts_of_any_mean():
    rng = np.random.default_rng(1)
    found = poisson_counts(np.array([0.0, 4.0, 1e20, np.inf]), rng)
    assert found[0] == 0.0
    assert found[2] == pytest.approx(1e20, rel=1e-8)
    assert found[3] == np.inf


@pytest.mark.parametrize("likelihood", [mc.Poisson(), mc.NegativeBinomial(0.5), mc.Ordinal(6)])
def test_an_interval_of_whole_numbers_is_no_longer_than_it_must_be(likelihood):
    if isinstance(likelihood, mc.Ordinal):
        likelihood = mc.Ordinal(6, thresholds=(-2.0, -1.0, 0.0, 1.0, 2.0))
    means = np.linspace(-3.0, 6.0, 40)[None]
    of_cells = attrs.evolve(
        distribution(likelihood, 0.0, 0.5),
        means=means,
        weights=np.ones(means.shape),
        variances=np.full(means.shape, 0.3),
    )
    lower, upper = of_cells.interval(0.8).T
    below, above = of_cells.cdf(lower - 1.0), of_cells.cdf(upper)
    assert np.all(above - below >= 0.8 - 1e-12)
    shorter = np.maximum(above - of_cells.cdf(lower), of_cells.cdf(upper - 1.0) - below)
    assert np.mean((lower == upper) | (shorter < 0.8)) > 0.9  # else one end could still move
    plain = of_cells.quantile(0.1), of_cells.quantile(0.9)
    assert np.all((plain[0] <= lower) & (upper <= plain[1]))
    assert np.any(plain[1] - plain[0] > upper - lower)


@pytest.mark.parametrize("mean", [1e-3, 1.0, 30.0, 700.0])
def test_intervals_of_counts_of_any_size_take_no_step_for_each_count(mean):
    lower, upper = distribution(mc.NegativeBinomial(2.0), mean, 9.0).interval(0.9).T
    assert np.all(lower <= upper)


def test_a_value_that_is_not_known_has_no_density(table):
    posterior = mc.posterior(FACTORS, {"x": table})
    with pytest.raises(mc.DataError, match=r"block 'x': values\[1\] is NaN; leave out"):
        posterior.log_predictive_density("x", [0, 0], [0, 1], [0.5, np.nan])


@pytest.mark.parametrize("weight", [1.0, None])
def test_draws_of_as_many_factors_as_columns_spread_as_they_are_said_to(weight):
    """The random numbers of factors and of the noise are different ones."""
    rng, d = np.random.default_rng(0), 5
    x = rng.normal(size=(40, d)) @ (np.eye(d) + 0.3) + rng.normal(size=(40, d))
    x[:10, 1:] = np.nan
    model = mc.Model([mc.Block("x", mc.Gaussian(variance=1.0))], [mc.NuclearNorm(weight)])
    posterior = mc.posterior(model, {"x": x})
    drawn = posterior.sample("x", 4000)
    np.testing.assert_allclose(drawn.std(axis=0), posterior.sd("x"), rtol=0.06)
    np.testing.assert_allclose(drawn.mean(axis=0), posterior.predict("x"), atol=0.12)


def test_noise_that_moves_slowly_is_not_taken_for_an_end():
    """Five factors of five columns of noise give way to it by a few per cent a sweep."""
    x = np.random.default_rng(9).normal(size=(200, 5))
    model = mc.Model([mc.Block("x", mc.Gaussian(variance=None), bias=True)], [mc.NuclearNorm()])
    np.testing.assert_allclose(mc.posterior(model, {"x": x}).noise("x"), 1.0, atol=0.25)


@pytest.mark.parametrize(
    ("likelihood", "y", "wrong"),
    [
        (mc.Ordinal(3), 2.0, -1.0),
        (mc.Ordinal(3), 2.0, 2.5),
        (mc.Ordinal(3), 2.0, 9.0),
        (mc.Multinomial(3), 2.0, 3.0),
        (mc.Bernoulli(), 1.0, 0.5),
        (mc.Poisson(), 1.0, 2.5),
        (mc.Gamma(2.0), 1.0, -1.0),
        (mc.Gaussian(), 1.0, np.inf),
    ],
)
def test_densities_of_values_that_cannot_be_are_refused(likelihood, y, wrong):
    x = np.full((4, 3), y)
    x[0] -= 0.5 * y if isinstance(likelihood, mc.Gamma) else 1.0
    model = mc.Model([mc.Block("x", likelihood)], [mc.NuclearNorm(1.0)])
    posterior = mc.posterior(model, {"x": x})
    assert np.isfinite(posterior.log_predictive_density("x", [0], [0], [y])).all()
    with pytest.raises(mc.DataError, match=r"block 'x': value .* in column 0, row 0"):
        posterior.log_predictive_density("x", [0], [0], [wrong])


def test_large_counts_are_told_to_be_beyond_a_parabola():
    x = np.random.default_rng(0).poisson(1000.0, (8, 3)).astype(float)
    model = mc.Model([mc.Block("x", mc.NegativeBinomial(0.5), bias=True)], [mc.NuclearNorm(1.0)])
    with pytest.warns(UserWarning, match="block 'x': half of the counts are at least"):
        mc.posterior(model, {"x": x}, max_iter=300, tol=1e-2)


def test_draws_of_no_rows_and_groups_of_several_lengths(table):
    posterior = mc.posterior(FACTORS, {"x": table})
    assert posterior.sample("x", 2, []).shape == (2, 0, table.shape[1])
    with pytest.raises(mc.ModelError, match="a label for each of its"):
        posterior.conformalize(0.9, by=[[1], [2, 3]])
    with pytest.raises(mc.ModelError, match="where a Model is needed"):
        mc.posterior(None, {"x": table})


@pytest.mark.parametrize(
    ("likelihood", "widest"),
    [
        (mc.Bernoulli(), 20.0),
        (mc.Ordinal(4, (-1.0, 0.0, 1.0)), 20.0),
        (mc.Poisson(), 3.0),
        (mc.NegativeBinomial(2.0), 3.0),
    ],
    ids=str,
)
def test_predictions_of_an_entry_do_not_depend_on_what_else_is_asked_for(likelihood, widest):
    """Z is spread over few widths of the likelihood in some entries and over many in others."""
    rng = np.random.default_rng(0)
    means, sds = rng.standard_normal((2, 40)), np.exp(rng.uniform(-2.0, np.log(widest), 40))

    def predictive(cells):
        return Predictive(
            likelihood,
            np.full((2, cells.size), 0.5),
            means[:, cells],
            np.square(sds[[cells, cells]]),
            None,
            np.array,
        )

    together = predictive(np.arange(40))
    together = {"mean": together.mean(), "sd": together.sd(), "median": together.quantile(0.5)}
    for cell in range(40):
        alone = predictive(np.array([cell]))
        alone = {"mean": alone.mean(), "sd": alone.sd(), "median": alone.quantile(0.5)}
        for name, numbers in alone.items():
            np.testing.assert_allclose(together[name][cell], numbers[0], rtol=1e-9, err_msg=name)
