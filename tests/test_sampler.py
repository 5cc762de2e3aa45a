"""``mc.posterior(..., method="sampler")``: what its answers say, and how it ends."""

import warnings

import numpy as np
import pytest
from scipy import stats

import mcframe as mc
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.posterior import estimation
from mcframe.posterior.chain_diagnostics import r_hats
from mcframe.posterior.chains import FactorChains
from mcframe.runtime.machine import OutOfTime


def sampled(model, data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        return mc.posterior(model, data, method="sampler", **options)


def table_of(likelihood, shape=(30, 6), seed=0, missing=0.3):
    """Observations of two factors, some of them missing."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    if isinstance(likelihood, mc.Gaussian):
        y = z + 0.5 * rng.standard_normal(shape)
    elif isinstance(likelihood, mc.Ordinal):
        y = mc.Ordinal(likelihood.levels, (-1.0, 0.0, 1.0)).sample(z, rng)
    else:
        y = likelihood.sample(z, rng)
    return np.where(rng.random(shape) < missing, np.nan, y), y


def test_gaussian_effects_are_those_of_dense_algebra():
    rng = np.random.default_rng(0)
    x = 3.0 + rng.standard_normal((6, 4))
    x[rng.random(x.shape) < 0.4] = np.nan
    block = mc.Block(
        "x", mc.Gaussian(variance=0.5), bias=True, row_effects=True, effects_weight=0.7
    )
    answer = sampled(mc.Model([block], [mc.NuclearNorm(1.0)]), {"x": x}, factors=0, tol=0.02)
    assert answer.status == "converged"
    rows, columns = np.indices(x.shape).reshape(2, -1)
    prior = ((columns[:, None] == columns) * 1.0 + (rows[:, None] == rows)) / 0.7
    seen = np.isfinite(x.ravel())
    gain = np.linalg.solve(prior[np.ix_(seen, seen)] + 0.5 * np.eye(seen.sum()), prior[seen]).T
    centre = np.mean(answer.engine.priors.bias_means)
    mean = (centre + gain @ (x.ravel() - centre)[seen]).reshape(x.shape)
    sd = np.sqrt(np.diag(prior - gain @ prior[seen]) + 0.5).reshape(x.shape)
    assert np.max(np.abs(answer.predict("x") - mean) / sd) < 0.15
    np.testing.assert_allclose(answer.sd("x"), sd, rtol=0.1)
    lower, upper = answer.interval("x", 0.9)
    quantile = stats.norm.ppf(0.95)
    np.testing.assert_allclose(upper - lower, 2.0 * quantile * sd, rtol=0.1)


LIKELIHOODS = [
    mc.Gaussian(variance=None),
    mc.Bernoulli(),
    mc.Ordinal(4),
    mc.Poisson(),
    mc.Multinomial(3),
]


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=str)
def test_all_answers_are_of_the_same_draws(likelihood, tmp_path):
    if isinstance(likelihood, mc.Multinomial):
        rng = np.random.default_rng(0)
        y = rng.integers(0, 3, (20, 5)).astype(float)
        table = np.where(rng.random(y.shape) < 0.3, np.nan, y)
    else:
        table, y = table_of(likelihood)
    model = mc.Model([mc.Block("y", likelihood)], [mc.NuclearNorm()])
    with pytest.warns(mc.NotConvergedWarning, match="iteration_limit: stopped after 60 sweeps"):
        # Means of counts have one number of their predictors' noise for each draw: an error beside
        # that of what is sampled, of which the test knows nothing, and small with this seed.
        answer = sampled(model, {"y": table}, factors=2, max_iter=60, random_state=2)
    diagnostics = answer.engine.diagnostics
    assert (diagnostics.n_chains, diagnostics.n_sweeps, diagnostics.n_discarded) == (8, 60, 20)
    assert answer.engine.n_draws == diagnostics.n_draws == 8 * 40
    draws = answer.sample("y", answer.engine.n_draws)
    rows, columns = np.nonzero(np.isnan(table))
    if likelihood.width > 1 or likelihood.values is not None:
        probabilities = answer.probabilities("y")
        np.testing.assert_allclose(probabilities.sum(axis=-1), 1.0)
        values = likelihood.values if likelihood.values is not None else np.arange(3.0)
        shares = np.mean(draws[..., None] == values, axis=0)
        assert np.max(np.abs(shares - probabilities)) < 5.0 / np.sqrt(4.0 * len(draws))
        densities = answer.log_predictive_density("y", rows, columns, y[rows, columns])
        at = np.searchsorted(values, y[rows, columns])
        np.testing.assert_allclose(densities, np.log(probabilities[rows, columns, at]))
    else:
        errors = answer.sd("y") / np.sqrt(len(draws))
        assert np.max(np.abs(draws.mean(axis=0) - answer.predict("y")) / errors) < 5.0
        lower, upper = answer.interval("y", 0.8)
        inside = np.mean((lower <= draws) & (draws <= upper), axis=0)
        assert np.all(inside > 0.72)
    loaded = mc.load(answer.save(tmp_path / "answer.npz"))
    np.testing.assert_array_equal(loaded.predict("y"), answer.predict("y"))
    np.testing.assert_array_equal(loaded.sample("y", 3), answer.sample("y", 3))
    assert repr(loaded) == repr(answer)


@pytest.mark.parametrize(
    ("likelihood", "components"),
    [
        (mc.Gaussian(variance=None), 1),
        (mc.Gaussian(variance=0.3), 2),
        pytest.param(mc.Ordinal(4), 1, marks=pytest.mark.slow(seconds=7)),
    ],
    ids=str,
)
def test_answers_of_gaussian_rows_are_of_the_same_draws(likelihood, components, tmp_path):
    table, _ = table_of(likelihood)
    model = mc.Model([mc.Block("y", likelihood)], [mc.GaussianRows(components=components)])
    with pytest.warns(mc.NotConvergedWarning, match="iteration_limit: stopped after 60 sweeps"):
        answer = sampled(model, {"y": table}, max_iter=60)
    assert answer.engine.n_draws == answer.diagnostics.n_draws == 8 * 40
    assert answer.engine.n_factors == components
    draws = answer.sample("y", answer.engine.n_draws)
    hidden = np.isnan(table)
    errors = answer.sd("y")[hidden] / np.sqrt(len(draws))
    if likelihood.values is None:
        distances = draws.mean(axis=0)[hidden] - answer.predict("y")[hidden]
        assert np.max(np.abs(distances) / errors) < 5.0
        ratios = draws.std(axis=0)[hidden] / answer.sd("y")[hidden]
        assert abs(np.mean(ratios) - 1.0) < 0.03
    else:
        shares = np.mean(draws[..., None] == likelihood.values, axis=0)
        distances = shares - answer.probabilities("y")
        assert np.max(np.abs(distances[hidden])) < 5.0 / np.sqrt(4.0 * len(draws))
    again = answer.condition({"y": table[:5]})
    distances = again.predict("y") - answer.predict("y")[:5]
    assert np.max(np.abs(distances) / answer.sd("y")[:5]) < 0.35
    loaded = mc.load(answer.save(tmp_path / "answer.npz"))
    np.testing.assert_array_equal(loaded.predict("y"), answer.predict("y"))
    np.testing.assert_array_equal(loaded.sample("y", 3), answer.sample("y", 3))
    assert repr(loaded) == repr(answer)
    with pytest.raises(mc.ModelError, match="variational"):
        answer.factors()


def test_a_row_that_is_missing_has_the_student_distribution_of_complete_rows():
    """In closed form: mean and variance of a new row under the Gaussian-inverse-Wishart prior."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, 3)) @ rng.standard_normal((3, 3)) + 2.0
    table = np.vstack([x, np.full((1, 3), np.nan)])
    block = mc.Block("y", mc.Gaussian(variance=1e-6))
    answer = sampled(mc.Model([block], [mc.GaussianRows(prior_rows=3.0)]), {"y": table}, tol=0.03)
    with pytest.warns(mc.UnobservedWarning):
        variational = mc.posterior(
            mc.Model([block], [mc.GaussianRows(prior_rows=3.0)]), {"y": table}
        )
    parameters = variational.engine.rows.parameters
    [mean], [scatter], [degrees], [count] = (
        parameters.means,
        parameters.scatters,
        parameters.degrees,
        parameters.counts,
    )
    covariance = (1.0 + 1.0 / count) * scatter / (degrees - 4.0)
    sd = np.sqrt(np.diag(covariance))
    assert answer.status == "converged"
    assert np.max(np.abs(answer.predict("y")[-1] - mean) / sd) < 0.12
    np.testing.assert_allclose(answer.sd("y")[-1], sd, rtol=0.1)
    # of the variational posterior in closed form, and its draws
    np.testing.assert_allclose(variational.sd("y")[-1], sd, rtol=1e-5)
    draws = variational.sample("y", 4000)[:, -1]
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.06)
    freedom = degrees - 2.0
    scale = np.sqrt((1.0 + 1.0 / count) * np.diag(scatter) / freedom)
    p = [
        stats.kstest((draws[:, k] - mean[k]) / scale[k], stats.t(freedom).cdf).pvalue
        for k in range(3)
    ]
    assert min(p) > 1e-3


@pytest.mark.parametrize("likelihood", LIKELIHOODS[:4], ids=str)
def test_rows_of_the_fit_as_new_rows_are_answered_alike(likelihood):
    table, _ = table_of(likelihood, (60, 6))
    model = mc.Model([mc.Block("y", likelihood)], [mc.NuclearNorm(1.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.NotConvergedWarning)
        answer = sampled(model, {"y": table}, factors=2, max_iter=150)
    again = answer.condition({"y": table[:5]})
    sd = answer.sd("y")[:5]
    assert np.max(np.abs(again.predict("y") - answer.predict("y")[:5]) / sd) < 0.35


def test_it_ends_when_chains_agree_and_says_so():
    table, _ = table_of(mc.Gaussian())
    model = mc.Model([mc.Block("y", mc.Gaussian(variance=0.25))], [mc.NuclearNorm(1.0)])
    answer = sampled(model, {"y": table}, factors=2, tol=0.1)
    diagnostics = answer.engine.diagnostics
    assert answer.status == "converged"
    assert diagnostics.converged
    assert diagnostics.effective_draws >= 100.0
    assert diagnostics.monte_carlo_error <= 0.1
    assert "R-hat" in repr(answer)
    assert f"{diagnostics.n_draws}" in repr(answer)
    again = sampled(model, {"y": table}, factors=2, tol=0.1)
    np.testing.assert_array_equal(answer.predict("y"), again.predict("y"))
    other = sampled(model, {"y": table}, factors=2, tol=0.1, random_state=1)
    assert np.any(answer.predict("y") != other.predict("y"))


def test_r_hat_is_one_where_chains_agree_and_large_where_they_do_not():
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((8, 500, 3))
    assert np.max(r_hats(draws)) < 1.01
    apart = draws + np.array([0.0, 1.0, 0.0]) * (np.arange(8) % 2)[:, None, None]
    spread = draws * np.where(np.arange(8) % 2, 3.0, 1.0)[:, None, None]
    trend = draws + np.linspace(0.0, 2.0, 500)[:, None]
    assert r_hats(apart)[1] > 1.1
    assert r_hats(apart)[0] < 1.01
    assert np.min(r_hats(spread)) > 1.1
    assert np.min(r_hats(trend)) > 1.1


@pytest.mark.slow(seconds=21)
def test_intervals_of_labels_hold_what_they_say():
    """z of labels at missing cells by both methods; the variational one is less exact."""
    covered = {"variational": [], "sampler": []}
    for seed in range(6):
        rng, k = np.random.default_rng(seed), 2
        weight = np.sqrt(k) / 3.0
        z = rng.standard_normal((40, k)) @ rng.standard_normal((k, 10)) / weight
        y = (rng.random(z.shape) < 1.0 / (1.0 + np.exp(-z))).astype(float)
        hidden = rng.random(z.shape) < 0.3
        model = mc.Model([mc.Block("y", mc.Bernoulli())], [mc.NuclearNorm(weight)])
        for method, of_method in covered.items():
            answer = mc.posterior(
                model,
                {"y": np.where(hidden, np.nan, y)},
                factors=k,
                method=method,
                tol=0.1 if method == "sampler" else None,
            )
            _, means, variances = answer.engine.mixture(*np.nonzero(hidden))
            if method == "sampler":
                below = np.mean(means < z[hidden], axis=0)
            else:
                below = stats.norm.cdf((z[hidden] - means[0]) / np.sqrt(variances[0]))
            of_method.extend(np.abs(below - 0.5) < 0.45)
    assert abs(np.mean(covered["sampler"]) - 0.9) < 0.03
    assert abs(np.mean(covered["variational"]) - 0.9) < 0.08


def test_weights_of_any_size_are_taken():
    """Some proposals have exponentials beyond double precision, and are refused."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        counts = rng.poisson(3.0, (30, 3)).astype(float)
        weights = rng.random(counts.shape) * 10.0 ** rng.integers(-6, 6, counts.shape)
        model = mc.Model([mc.Block("y", mc.Poisson())], [mc.NuclearNorm()])
        data = {"y": mc.Observations(counts, weights=weights)}
        with pytest.warns(mc.NotConvergedWarning, match="iteration_limit"):
            answer = sampled(model, data, factors=2, max_iter=60)
        assert np.all(np.isfinite(answer.predict("y")))


def test_what_it_cannot_do_it_says():
    table, _ = table_of(mc.Gaussian())
    data, block = {"y": table}, mc.Block("y", mc.Gaussian(variance=None))
    model = mc.Model([block], [mc.NuclearNorm()])
    with pytest.raises(mc.ModelError, match="method='exact' was given"):
        mc.posterior(model, data, method="exact")
    wide = {"y": np.random.default_rng(0).standard_normal((8, 200))}
    with pytest.raises(mc.BackendError, match="too many columns for its rows"):
        mc.posterior(mc.Model([block], [mc.GaussianRows()]), wide, method="sampler")
    with pytest.raises(mc.ModelError, match="checkpoint was given"):
        sampled(model, data, checkpoint="chains.npz")
    with pytest.warns(mc.NotConvergedWarning, match="iteration_limit: stopped after 6 sweeps"):
        answer = sampled(model, data, max_iter=0)
    assert "6 of 8 chains" in repr(answer)
    with pytest.warns(mc.NotConvergedWarning, match="iteration_limit: stopped after 200 sweeps"):
        sampled(model, data, max_iter=200, tol=0.0)  # no error is that small
    with pytest.warns(mc.NotConvergedWarning, match="time_limit"):
        answer = sampled(model, data, max_seconds=1.0, tol=0.001)
    assert answer.status == "time_limit"
    assert answer.diagnostics is not None
    for moment in ("begin", "sweep"):

        def out_of_time(*_, **__):
            raise OutOfTime

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(FactorChains, moment, out_of_time)
            with pytest.warns(mc.NotConvergedWarning, match="this is the variational posterior"):
                early = sampled(model, data)
        assert early.diagnostics is None
        assert np.all(np.isfinite(early.predict("y")))
    with pytest.raises(mc.ModelError, match="variational"):
        answer.factors()


def automatic(shape=(20, 5), likelihood=None, term=None, **options):
    """A posterior of the method "auto", and that of another method."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((shape[0], 1)) @ rng.standard_normal((1, shape[1]))
    x = x + 0.5 * rng.standard_normal(shape)
    x[rng.random(shape) < 0.3] = np.nan
    likelihood = likelihood or mc.Gaussian(variance=None)
    x = x if likelihood.location else np.where(np.isnan(x), np.nan, x > 0.0)
    model = mc.Model([mc.Block("x", likelihood)], [term or mc.NuclearNorm(1.0)])

    def by(method, **more):
        return mc.posterior(model, {"x": x}, method=method, **more)

    return by("auto", **options), by


@pytest.mark.parametrize("term", [mc.NuclearNorm(1.0), mc.GaussianRows(prior_rows=3.0)])
@pytest.mark.some(2, term=1)
def test_auto_takes_the_sampler_where_it_takes_seconds(term):
    answer, by = automatic((40, 4), mc.Gaussian(0.25), term)
    assert answer.message.endswith("; by the sampler, which takes seconds here")
    assert answer.diagnostics.converged
    assert np.array_equal(answer.predict("x"), by("sampler").predict("x"))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"shape": (400, 30)}, "chains would take about"),
        ({"shape": (6, 300), "term": mc.GaussianRows()}, "the table has too many columns"),
        ({"likelihood": mc.Bernoulli(), "term": mc.GaussianRows()}, "chains rarely agree where"),
    ],
)
def test_auto_is_variational_elsewhere_and_says_why(options, why):
    answer, by = automatic(**options)
    assert f"; by the variational method, since {why}" in answer.message
    assert answer.diagnostics is None
    assert np.array_equal(answer.predict("x"), by("variational").predict("x"))


def test_auto_keeps_no_chains_that_disagree(monkeypatch):
    monkeypatch.setattr(estimation, "TYPICAL_SWEEPS", 4)
    answer, by = automatic(likelihood=mc.Bernoulli())
    assert "by the variational method, since chains disagreed after 12 sweeps" in answer.message
    assert answer.status == "converged"
    assert np.array_equal(answer.predict("x"), by("variational").predict("x"))


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (OutOfTime, "max_seconds=60 ended chains after 5 sweeps, before they agreed (R-hat "),
        (KeyboardInterrupt, "chains were interrupted after 5 sweeps, before they agreed (R-hat "),
    ],
)
def test_auto_says_that_chains_were_ended_and_not_that_they_disagreed(monkeypatch, event, why):
    sweep, sweeps = FactorChains.sweep, []

    def stopping(chains):
        if len(sweeps) == 5:
            raise event
        sweeps.append(sweep(chains))

    monkeypatch.setattr(FactorChains, "sweep", stopping)
    monkeypatch.setattr(estimation, "MAX_R_HAT", 0.0)
    answer, _ = automatic(likelihood=mc.Bernoulli(), max_seconds=60.0)
    assert f"; by the variational method, since {why}" in answer.message
    assert "disagree" not in answer.message
    assert answer.diagnostics is None


def test_auto_has_checkpoints_and_partitions_of_the_variational_method(tmp_path):
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    x = np.random.default_rng(0).standard_normal((12, 4))
    answer = mc.posterior(model, {"x": x}, method="auto", checkpoint=tmp_path / "state.npz")
    assert answer.message.endswith("since chains have no checkpoint")
    answer = mc.posterior(model, RowsInMemory({"x": x}, 2), method="auto")
    assert answer.message.endswith("since rows are in partitions")


@pytest.mark.parametrize("option", [{"tol": 0.1}, {"max_iter": 100}])
def test_auto_takes_no_option_whose_meaning_depends_on_the_method(option):
    with pytest.raises(mc.ModelError, match="their meaning depends on the method"):
        automatic(**option)


def test_draws_have_no_evidence_and_say_what_to_do(tmp_path):
    answer, by = automatic((15, 4), mc.Gaussian(0.25))
    again = mc.load(answer.save(tmp_path / "draws.npz"))
    for draws in (answer, again):
        with pytest.raises(mc.ModelError, match=r"no evidence; compare models by .* mc\.compare"):
            _ = draws.evidence
        assert not hasattr(draws, "evidence")
        assert "evidence" not in repr(draws)
    variational = by("variational")
    assert variational.evidence == variational.history[-1].evidence
    assert mc.load(variational.save(tmp_path / "one.npz")).evidence == variational.evidence
    x = np.random.default_rng(0).standard_normal((15, 4))
    models = {"one": mc.Model([mc.Block("x", mc.Gaussian(0.25))], [mc.NuclearNorm(1.0)])}
    found = mc.compare(models, {"x": x}, cv=2, method="sampler", tol=0.3)
    assert np.isnan(found.evidence).all()
    assert "none" in repr(found)
    assert np.isfinite(found.log_density).all()
