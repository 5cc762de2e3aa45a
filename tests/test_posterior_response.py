"""Rows and columns together in the variational posterior: linear response to each other.

Against dense linear algebra, against the exact posterior of effects, against draws and the
sampler, and by coverage where the truth is drawn from the model.
"""

import attrs
import numpy as np
import pytest
from scipy.special import expit

import mcframe as mc
from mcframe.numerics.density_of_deviation import mean_square
from mcframe.numerics.gaussian_bounds import expected_logistic
from mcframe.numerics.noisy_predictors import expected_with_noise
from mcframe.posterior import linear_response
from mcframe.posterior.factors import columns_given
from mcframe.posterior.linear_response import LEAST_PRECISION_SHARE

pytestmark = pytest.mark.filterwarnings("ignore::mcframe.NotConvergedWarning")

LEVELS = mc.Ordinal(5, (-2.0, -0.7, 0.7, 2.0))


def drawn(likelihood, deviation, seed, shape=(40, 10), factors=2):
    """z, observations, which of them are hidden, and the weight: drawn from the model."""
    rng = np.random.default_rng(seed)
    weight = np.sqrt(factors) / deviation
    scores, loadings = (rng.standard_normal((n, factors)) for n in shape)
    z = scores @ loadings.T / weight
    if isinstance(likelihood, mc.Gaussian):
        y = z + np.sqrt(likelihood.variance) * rng.standard_normal(shape)
    else:
        y = likelihood.sample(z, rng).astype(float)
    return z, y, rng.random(shape) < 0.3, weight


def fitted(likelihood, y, hidden, weight, factors=2, **options):
    """The posterior of a table whose weight is given; options of the block, and of the verb."""
    of_block = {name: options.pop(name) for name in ("bias", "row_effects") if name in options}
    model = mc.Model([mc.Block("y", likelihood, **of_block)], [mc.NuclearNorm(weight)])
    return mc.posterior(model, {"y": np.where(hidden, np.nan, y)}, factors=factors, **options)


def all_cells(shape):
    """Rows and columns of all cells."""
    return tuple(places.ravel() for places in np.indices(shape))


@pytest.mark.parametrize("effects", [{}, {"bias": True, "row_effects": True}], ids=repr)
@pytest.mark.parametrize("likelihood", [mc.Gaussian(variance=0.25), mc.Bernoulli()], ids=repr)
def test_the_covariance_is_the_inverse_of_the_hessian(likelihood, effects):
    n, d = 9, 5
    _, y, hidden, weight = drawn(likelihood, 1.0, 3, (n, d))
    engine = fitted(likelihood, y, hidden, weight, max_iter=60, **effects).engine
    # With bounds that suit the columns, as those of the response.
    engine = engine.refined
    engine = attrs.evolve(engine, rows=engine.rows.without_bounds())
    response, columns = engine.response, engine.state.columns
    some = engine.rows_with_entries(np.arange(n))
    k = columns.means.shape[1]
    u, w = some.gaussians.means, columns.means
    h, slope = some.dense(w)
    assert np.array_equal(h > 0.0, ~hidden)
    across = np.einsum("ij,ja,ib->iajb", h, w, u) - np.einsum("ij,ab->iajb", slope, np.eye(k))
    of_rows, of_columns = some.gaussians.full_covariances(), columns.full_covariances()
    # The parts of the Hessian, of the numbers of rows and columns that are free.
    free_rows = np.flatnonzero(np.tile(engine.state.design.row_free, n))
    free_columns = np.flatnonzero(engine.state.design.free.ravel())
    a, c = np.zeros((n * k, n * k)), np.zeros((d * k, d * k))
    for full, blocks in ((a, of_rows), (c, of_columns)):
        for i, block in enumerate(blocks):
            full[i * k : i * k + k, i * k : i * k + k] = block
    a = np.linalg.inv(a[np.ix_(free_rows, free_rows)])
    c = np.linalg.inv(c[np.ix_(free_columns, free_columns)])
    b = across.reshape(n * k, d * k)[np.ix_(free_rows, free_columns)]
    reduced = c - b.T @ np.linalg.solve(a, b)
    values = np.linalg.eigvals(np.linalg.solve(c, reduced)).real
    root = np.zeros((d * k, d * k))
    for j, block in enumerate(response.roots):
        root[j * k : j * k + k, j * k : j * k + k] = block
    ours = (root @ response.covariances[0] @ root)[np.ix_(free_columns, free_columns)]
    ours_values = np.linalg.eigvals(np.linalg.solve(c, np.linalg.inv(ours))).real
    assert np.allclose(np.sort(ours_values), np.sort(np.maximum(values, LEAST_PRECISION_SHARE)))


@pytest.mark.parametrize("shape", [(5, 4), (12, 6), (40, 10)], ids=str)
def test_effects_have_their_exact_variances(shape):
    rng = np.random.default_rng(0)
    y = rng.standard_normal(shape) + rng.standard_normal(shape[1])
    y += rng.standard_normal((shape[0], 1))
    hidden = rng.random(shape) < 0.3
    effects = {"bias": True, "row_effects": True}
    # The one factor is of no size.
    options = {"tol": 1e-12, "max_iter": 1000, "factors": 1} | effects
    engine = fitted(mc.Gaussian(variance=0.5), y, hidden, 1e4, **options).engine
    priors, (rows, columns) = engine.state.priors, all_cells(shape)
    of_columns = priors.of_columns(engine.observed, engine.state.design)[0][:, -1]
    design = np.concatenate([np.eye(shape[0])[rows], np.eye(shape[1])[columns]], axis=1)
    seen = design[~hidden.ravel()]
    prior = np.concatenate([np.full(shape[0], priors.row_effects[0]), of_columns])
    covariance = np.linalg.inv(seen.T @ seen / 0.5 + np.diag(prior))
    exact = np.einsum("ia,ab,ib->i", design, covariance, design)
    assert np.allclose(engine.mixture(rows, columns)[2][0], exact, rtol=1e-2)
    independent = attrs.evolve(engine, has_response=False).mixture(rows, columns)[2][0]
    assert np.max(np.abs(independent / exact - 1.0)) > 0.04


@pytest.mark.parametrize("effects", [{}, {"bias": True, "row_effects": True}], ids=repr)
@pytest.mark.parametrize("likelihood", [mc.Gaussian(variance=0.25), LEVELS], ids=repr)
def test_draws_have_the_moments_of_the_mixture(likelihood, effects):
    z, y, hidden, weight = drawn(likelihood, 1.5, 1)
    effects = {} if likelihood is LEVELS else effects
    engine = fitted(likelihood, y, hidden, weight, **effects).engine
    draws = engine.draws(np.arange(40), np.random.default_rng(0), 4000)
    _, mean, variance = engine.mixture(*all_cells(z.shape))
    sd = np.sqrt(variance[0]).reshape(z.shape)
    assert np.max(np.abs(draws.mean(axis=0) - mean[0].reshape(z.shape)) / sd) < 0.1
    ratio = draws.std(axis=0) / sd
    assert np.all(np.abs(ratio - 1.0) < 0.15)
    assert abs(np.mean(ratio) - 1.0) < 0.01


def test_sets_intervals_sd_and_draws_are_of_one_distribution():
    z, y, hidden, weight = drawn(mc.Gaussian(variance=0.25), 1.0, 4)
    posterior = fitted(mc.Gaussian(variance=0.25), y, hidden, weight)
    draws = posterior.sample("y", 4000)
    assert np.allclose(draws.std(axis=0), posterior.sd("y"), rtol=0.1)
    assert np.allclose(draws.mean(axis=0), posterior.predict("y"), atol=0.1)
    lower, upper = posterior.interval("y", 0.9)
    assert abs(np.mean((draws >= lower) & (draws <= upper)) - 0.9) < 0.01
    y, hidden = (z > 0.0).astype(float), hidden
    labels = fitted(mc.Bernoulli(), y, hidden, weight)
    shares = np.mean(labels.sample("y", 4000), axis=0)
    assert np.allclose(labels.probabilities("y")[..., 1], shares, atol=0.06)


def test_any_rows_in_any_order_have_the_moments_of_all_rows():
    z, y, hidden, weight = drawn(LEVELS, 2.0, 2)
    engine = fitted(LEVELS, y, hidden, weight).engine
    moments = np.array(engine.mixture(*all_cells(z.shape)))[1:, 0].reshape(2, *z.shape)
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(40, size=200), rng.integers(10, size=200)
    assert np.allclose(np.array(engine.mixture(rows, columns))[1:, 0], moments[:, rows, columns])


def test_moments_are_the_same_in_batches_of_any_size(monkeypatch):
    z, y, hidden, weight = drawn(LEVELS, 2.0, 2)
    engine = fitted(LEVELS, y, hidden, weight).engine
    moments = np.array(engine.mixture(*all_cells(z.shape)))
    draws = engine.draws(np.arange(40), np.random.default_rng(0), 3)
    monkeypatch.setattr(linear_response, "BATCH_NUMBERS", 300)
    again = attrs.evolve(engine)
    assert np.allclose(np.array(again.mixture(*all_cells(z.shape))), moments)
    assert np.allclose(again.draws(np.arange(40), np.random.default_rng(0), 3), draws)


def test_new_rows_have_the_distributions_of_the_rows_of_the_fit():
    _, y, hidden, weight = drawn(mc.Gaussian(variance=0.25), 2.0, 5)
    posterior = fitted(mc.Gaussian(variance=0.25), y, hidden, weight)
    again = posterior.condition({"y": np.where(hidden, np.nan, y)})
    cells = np.nonzero(hidden)
    pairs = zip(again.engine.mixture(*cells), posterior.engine.mixture(*cells), strict=True)
    for ours, theirs in pairs:
        assert np.allclose(ours, theirs)
    few = posterior.condition({"y": np.where(hidden, np.nan, y)[:3]})
    few_cells = np.nonzero(hidden[:3])
    assert np.allclose(few.engine.mixture(*few_cells), posterior.engine.mixture(*few_cells))


def test_a_file_has_the_same_intervals(tmp_path):
    _, y, hidden, weight = drawn(LEVELS, 2.0, 6)
    posterior = fitted(LEVELS, y, hidden, weight)
    posterior.save(tmp_path / "posterior.mcframe")
    again = mc.load(tmp_path / "posterior.mcframe")
    assert np.array_equal(again.interval("y"), posterior.interval("y"))
    new = {"y": np.where(hidden, np.nan, y)[:5]}
    conditioned = posterior.condition(new)
    conditioned.save(tmp_path / "new.mcframe")
    assert np.array_equal(mc.load(tmp_path / "new.mcframe").sd("y"), conditioned.sd("y"))


def test_tables_that_are_too_large_say_so(monkeypatch):
    _, y, hidden, weight = drawn(mc.Gaussian(variance=0.25), 1.0, 4)
    posterior = fitted(mc.Gaussian(variance=0.25), y, hidden, weight)
    assert posterior.notes == ()
    together = posterior.sd("y")
    monkeypatch.setattr(linear_response, "SMALL_ORDER", 2)
    large = fitted(mc.Gaussian(variance=0.25), y, hidden, weight)
    assert large.engine.response is None
    assert "independent" in large.notes[0]
    assert "independent" in repr(large)
    assert np.mean(large.sd("y")) < np.mean(together)
    # New rows have what the fit has, and few of them no response of their own.
    few, notes = large.condition({"y": np.where(hidden, np.nan, y)[:3]}), large.notes
    monkeypatch.undo()
    assert few.engine.response is None
    assert few.notes == notes


@pytest.mark.parametrize(
    ("likelihood", "is_bounded"),
    [
        *((mc.Gaussian(variance=0.25), False), (mc.Bernoulli("probit"), False), (LEVELS, False)),
        *((mc.Multinomial(3), True), (mc.Quantile(0.3), True)),
    ],
)
def test_likelihoods_that_keep_a_bound_say_so(likelihood, is_bounded):
    y = np.random.default_rng(0).integers(0, 2, (12, 4)) + 1.0 * (likelihood is LEVELS)
    y = np.where(np.random.default_rng(1).random(y.shape) < 0.2, np.nan, y)
    model = mc.Model([mc.Block("y", likelihood)], [mc.NuclearNorm(1.0)])
    notes = mc.posterior(model, {"y": y}, factors=1, max_iter=2).notes
    names = [f"of {type(likelihood).__name__}," in note for note in notes]
    assert sum(names) == is_bounded
    assert sum("labels" in note for note in notes) == isinstance(likelihood, mc.Bernoulli)


def test_classes_say_that_they_keep_a_bound_under_gaussian_rows_too():
    y = np.random.default_rng(0).integers(0, 3, (30, 4)).astype(float)
    model = mc.Model([mc.Block("y", mc.Multinomial(3))], [mc.GaussianRows(prior_rows=5.0)])
    [note] = mc.posterior(model, {"y": y}, max_iter=5).notes
    assert "of Multinomial," in note


def test_counts_say_what_their_noise_amounts_to_in_large_tables(monkeypatch):
    _, y, hidden, weight = drawn(mc.Poisson(), 0.7, 0)
    assert fitted(mc.Poisson(), y, hidden, weight).notes == ()
    monkeypatch.setattr(linear_response, "SMALL_ORDER", 2)
    [note] = fitted(mc.Poisson(), y, hidden, weight).notes
    assert "noise in predictors" in note


@pytest.mark.parametrize(
    ("likelihood", "deviation", "least"),
    [
        (mc.Gaussian(variance=0.25), 1.0, 0.88),
        (mc.Bernoulli(), 2.0, 0.87),
        (mc.Bernoulli(), 4.0, 0.82),
        (LEVELS, 2.0, 0.87),
        (mc.NegativeBinomial(0.5), 0.7, 0.88),
        (mc.Poisson(), 0.7, 0.88),
        (mc.Gamma(shape=2.0), 1.0, 0.88),
    ],
    ids=repr,
)
@pytest.mark.some(0.8, likelihood=[0, 1, 3, 4, 5, 6])
def test_intervals_hold_the_truth(likelihood, deviation, least):
    shares = []
    for seed in range(12):
        z, y, hidden, weight = drawn(likelihood, deviation, seed)
        _, mean, variance = fitted(likelihood, y, hidden, weight).engine.mixture(
            *np.nonzero(hidden)
        )
        shares.append(np.mean(np.abs(z[hidden] - mean[0]) <= 1.645 * np.sqrt(variance[0])))
    assert least < np.mean(shares) < 0.94


@pytest.mark.parametrize(
    ("likelihood", "deviation"),
    [
        (mc.Gaussian(variance=0.25), 1.0),
        (mc.NegativeBinomial(0.5), 0.7),
        # Noise of predictors mixes slowly: half a minute each.
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in (
                (mc.Poisson(), 0.7),
                (mc.Exponential(), 1.0),
                (mc.Gamma(shape=2.0), 1.0),
                (LEVELS, 2.0),
            )
        ),
    ],
    ids=repr,
)
def test_moments_are_those_of_the_sampler(likelihood, deviation):
    _, y, hidden, weight = drawn(likelihood, deviation, 50)
    answers = [
        fitted(likelihood, y, hidden, weight, method=method, **options)
        for method, options in (("variational", {}), ("sampler", {"tol": 0.2}))
    ]
    moments = []
    for answer in answers:
        _, means, variances = answer.engine.mixture(*np.nonzero(hidden))
        moments.append((means.mean(axis=0), np.sqrt(variances.mean(axis=0) + means.var(axis=0))))
    (mean, sd), (exact_mean, exact_sd) = moments
    assert 0.9 < np.median(sd / exact_sd) < 1.1
    assert np.median(np.abs(mean - exact_mean) / exact_sd) < 0.1


def test_factors_with_learned_precisions_are_not_switched_off():
    """The sweeps keep one factor of the two from which labels are drawn."""
    _, y, hidden, _ = drawn(mc.Bernoulli(), 2.0, 1, (100, 12))
    posterior = fitted(mc.Bernoulli(), y, hidden, None)
    loadings = np.sqrt(np.mean(np.square(posterior.engine.state.columns.means), axis=0))
    refined = np.sqrt(np.mean(np.square(posterior.engine.refined.state.columns.means), axis=0))
    assert np.min(loadings) < 0.1 < 0.3 < np.min(refined)


@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_noise_of_predictors_is_about_what_it_was(noise):
    rng = np.random.default_rng(0)
    z, _, hidden, weight = drawn(mc.Poisson(), 0.7, 0, (200, 10))
    y = rng.poisson(np.exp(z + np.sqrt(noise) * rng.standard_normal(z.shape))) * 1.0
    engine = fitted(mc.Poisson(), y, hidden, weight).engine
    assert abs(engine.predictor_noise[0] - noise) < 0.08
    assert engine.noise[0] - noise > 0.2  # the sweeps


def test_counts_in_two_blocks_have_noise_of_predictors_each():
    rng = np.random.default_rng(0)
    z, _, hidden, weight = drawn(mc.Poisson(), 0.7, 0, (200, 12))
    noisy = z + np.repeat([0.0, 0.7], 6) * rng.standard_normal(z.shape)
    y = np.where(hidden, np.nan, rng.poisson(np.exp(noisy)))
    blocks = [mc.Block("a", mc.Poisson()), mc.Block("b", mc.Poisson())]
    model = mc.Model([*blocks, mc.Block("x", mc.Gaussian(variance=1.0))], [mc.NuclearNorm(weight)])
    data = {"a": y[:, :6], "b": y[:, 6:], "x": z[:, :2]}
    engine = mc.posterior(model, data, factors=2).engine
    noise = engine.predictor_noise
    assert np.all(noise[:6] < 0.1)
    assert np.all(np.abs(noise[6:12] - 0.49) < 0.15)
    assert np.all(noise[12:] == 0.0)
    assert engine.refined.state.priors.noise[0] == 1.0


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [(mc.Poisson(), 3.0), (mc.Poisson(), 0.0), (mc.Poisson(), 60.0), (mc.Gamma(shape=2.0), 2.5)],
    ids=repr,
)
@pytest.mark.parametrize("moments", [(0.0, 0.3, 0.0), (0.5, 0.2, 0.1), (1.0, 0.5, 1.0)], ids=str)
def test_expectations_beside_noise_are_those_of_fine_sums(likelihood, y, moments):
    mean, variance, noise = moments
    nodes, step = np.linspace(-8.0, 8.0, 801, retstep=True)
    shares = step * np.exp(-0.5 * nodes**2) / np.sqrt(2.0 * np.pi)
    f = mean + np.sqrt(variance) * nodes
    at = np.linspace(-25.0, 25.0, 2001)
    t = f[:, None] + np.sqrt(noise) * at
    logs = likelihood.log_likelihood(t, np.full(t.shape, y)) - 0.5 * at**2
    largest = logs.max(axis=1)
    sums = np.sum(np.exp(logs - largest[:, None]), axis=1)
    value = largest + np.log(sums * (at[1] - at[0]) / np.sqrt(2.0 * np.pi))
    first = np.gradient(value, f)
    second = np.gradient(first, f)
    answers = expected_with_noise(
        likelihood, np.array([mean]), np.array([variance]), noise, np.array([y])
    )
    exact = shares @ value, shares @ first, -(shares @ second)
    size = 1.0 + np.abs(exact)
    assert np.all(np.abs(np.ravel(answers) - exact) <= 0.02 * size)


@pytest.mark.parametrize(
    ("mode", "sd"), [(0.5, 0.01), (0.5, 0.2), (0.0, 0.1), (-1.0, 0.3), (3.0, 0.1)]
)
def test_the_mean_square_of_a_deviation_is_that_of_its_density(mode, sd):
    asked = []

    def log_density(s):
        asked.append(s)
        return -0.5 * ((s - mode) / sd) ** 2

    s = np.linspace(0.0, 6.0, 200_001)
    shares = np.exp(-0.5 * ((s - mode) / sd) ** 2 + 0.5 * (min(mode, 0.0) / sd) ** 2)
    exact = np.sum(shares * s**2) / np.sum(shares)
    assert abs(mean_square(log_density, 0.9, 1e-3) / exact - 1.0) < 0.1
    assert len(asked) <= 10


def test_the_expectation_of_a_logistic_is_that_of_a_fine_sum():
    nodes = np.linspace(-9.0, 9.0, 40_001)
    shares = np.exp(-0.5 * nodes**2)
    shares /= shares.sum()
    for sd in (0.0, 0.3, 1.0, 3.0, 30.0):
        for mean in (-30.0, -2.0, 0.0, 0.7, 9.0):
            t = mean + sd * nodes
            value, slope = expected_logistic(np.array([mean]), np.array([sd**2]))
            assert abs(value[0] - shares @ expit(t)) < 1e-6
            assert abs(slope[0] - shares @ (expit(t) * expit(-t))) < 1e-6


@pytest.mark.parametrize(
    "likelihood", [mc.Bernoulli(), mc.Bernoulli("probit"), LEVELS, mc.Huber()], ids=repr
)
def test_answers_are_where_expectations_have_settled(likelihood):
    """Each entry counts by its expected derivatives at the moments of the answer itself."""
    source = likelihood if likelihood != mc.Huber() else mc.Gaussian(variance=0.25)
    _, y, hidden, weight = drawn(source, 1.5, 3)
    engine = fitted(likelihood, y, hidden, weight).engine
    assert engine.refined.state.expects
    assert engine.refined.refined is engine.refined
    rows, columns = np.nonzero(~hidden)
    some, state = engine.refined.rows_with_entries(np.arange(40)), engine.refined.state
    u, w = some.gaussians.means[rows], state.columns.means[columns]
    c, e = some.gaussians.full_covariances()[rows], state.columns.full_covariances()[columns]
    mean = np.sum(u * w, axis=1)
    variance = np.einsum("na,nab,nb->n", w, c, w) + np.einsum("na,nab,nb->n", u, e, u)
    variance += np.einsum("nab,nab->n", c, e)
    slope, precision = likelihood.expected_derivatives(mean, variance, y[rows, columns])
    order = np.lexsort((some.columns, np.repeat(np.arange(40), np.diff(some.starts))))
    assert np.allclose(some.precisions[order], precision, rtol=1e-5, atol=1e-8)
    assert np.allclose(some.precisions[order] * (some.values[order] - mean), slope, atol=1e-6)
    # Columns, given such rows, hardly move.
    sums = engine.refined.rows.for_sweeps().sums(
        engine.observed.summaries, attrs.evolve(state, key="again"), "again"
    )
    moved = columns_given(engine.observed, state, sums)[0].columns
    move = np.abs(moved.means - state.columns.means) / np.sqrt(state.columns.variances)
    assert np.max(move) < 0.2
