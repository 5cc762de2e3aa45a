"""The law of posteriors: right ones pass at the stated rate, and planted faults are noticed."""

import attrs
import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

import mcframe as mc
from mcframe.laws import posterior_laws
from mcframe.numerics.uniformity import share_error, uniformity

pytestmark = pytest.mark.filterwarnings("ignore::mcframe.UnobservedWarning")
COVARIANCE = np.array([[1.0, 0.6, 0.3], [0.6, 1.0, 0.5], [0.3, 0.5, 1.5]])
EXACT = mc.Model(
    [mc.Block("x", mc.Gaussian(variance=0.3))], [mc.GaussianRows(COVARIANCE, [1.0, 0.0, -2.0])]
)
SHAPE = {"x": (8, 3)}
OPTIONS = {
    "method": "variational",
    "factors": 2,
    "tol": None,
    "max_iter": None,
    "max_seconds": np.inf,
    "n_jobs": 1,
}


def counted(numbers, bins=20):
    return np.array([np.histogram(group, bins, (0.0, 1.0))[0] for group in numbers])


def dependent(rng, groups, size, correlation):
    """Uniform numbers, those of one group with equally correlated normal scores."""
    shared = np.sqrt(correlation) * rng.standard_normal((groups, 1))
    return ndtr(shared + np.sqrt(1.0 - correlation) * rng.standard_normal((groups, size)))


@pytest.mark.parametrize(
    ("groups", "size", "correlation"), [(20, 1, 0.0), (100, 1, 0.0), (20, 20, 0.3), (40, 50, 0.8)]
)
@pytest.mark.some(0.6, groups=[0, 3])
def test_uniform_numbers_are_refused_as_often_as_stated(groups, size, correlation):
    rng, trials = np.random.default_rng(0), 200
    p = [
        uniformity(counted(dependent(rng, groups, size, correlation))).p_value
        for _ in range(trials)
    ]
    for rate in (0.2, 0.05):
        error = np.sqrt(rate * (1.0 - rate) / trials)
        assert np.mean(np.array(p) < rate) < rate + 3.0 * error


@pytest.mark.parametrize("change", [lambda u: u**1.3, lambda u: 0.1 + 0.8 * u])
def test_numbers_that_are_not_uniform_are_refused(change):
    rng = np.random.default_rng(1)
    test = uniformity(counted(change(dependent(rng, 100, 20, 0.3))))
    assert test.p_value < 1e-3
    assert 200 < test.effective_size < 1500
    assert np.all(test.lower < test.upper)


def test_bands_hold_the_shares_of_nineteen_in_twenty_samples():
    rng, inside = np.random.default_rng(2), []
    for _ in range(300):
        counts = counted(rng.random((60, 1)))
        test = uniformity(counts)
        shares = np.cumsum(counts.sum(axis=0))[:-1] / 60
        inside.append(np.all((test.lower <= shares) & (shares <= test.upper)))
    assert abs(np.mean(inside) - 0.95) < 0.04


def test_errors_of_shares_count_groups():
    inside, sizes = np.array([10, 0, 10, 0]), np.full(4, 10)
    share, error = share_error(inside, sizes)
    assert share == 0.5
    assert error == pytest.approx(np.std([1, 0, 1, 0], ddof=1) / 2)


# Posteriors that are known to be exact, and such with a fault.


@pytest.mark.slow(seconds=2)
def test_an_exact_posterior_breaks_the_law_as_often_as_stated():
    p = [
        mc.laws.check_posterior(
            EXACT, SHAPE, n_tables=20, error_rate=0.0, random_state=seed
        ).p_value
        for seed in range(12)
    ]
    assert np.sum(np.array(p) < 0.2) <= 6  # at a rate of .2 the probability of more is .004


@attrs.define
class Faulty:
    """An engine that is too sure, has a bias, or takes noise for larger than it is."""

    engine: object
    deviation: float = 1.0
    shift: float = 0.0

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def mixture(self, rows, columns):
        weights, means, variances = self.engine.mixture(rows, columns)
        return weights, means + self.shift, self.deviation**2 * variances

    def draws(self, rows, rng, m):
        drawn = self.engine.draws(rows, rng, m)
        mean = drawn.mean(axis=0)
        return mean + self.shift + self.deviation * (drawn - mean)


def with_fault(monkeypatch, change):
    """Let the law compute the posterior that ``change(posterior_of, model, ...)`` returns."""
    right = posterior_laws.posterior_of
    monkeypatch.setattr(posterior_laws, "posterior_of", lambda *a, **k: change(right, *a, **k))


def of_engine(**fault):
    def change(right, *arguments, **options):
        posterior = right(*arguments, **options)
        return attrs.evolve(posterior, engine=Faulty(posterior.engine, **fault))

    return change


def of_noise(right, model, *arguments, **options):
    [block] = model.blocks
    wrong = attrs.evolve(block, likelihood=mc.Gaussian(variance=0.6))
    return right(attrs.evolve(model, blocks=[wrong]), *arguments, **options)


def test_without_a_fault_nothing_is_noticed():
    right = mc.laws.check_posterior(EXACT, SHAPE, n_tables=80)
    assert right.p_value > 0.01


@pytest.mark.parametrize(
    "change",
    [of_engine(deviation=0.8), of_engine(deviation=1.25), of_engine(shift=0.3), of_noise],
    ids=["too sure", "not sure enough", "a bias", "too much noise"],
)
def test_a_planted_fault_is_noticed(monkeypatch, change):
    with_fault(monkeypatch, change)
    with pytest.raises(mc.LawViolation, match="breaks the law 'ranks are uniform'"):
        mc.laws.check_posterior(EXACT, SHAPE, n_tables=80)


@pytest.mark.parametrize("likelihood", [mc.Gaussian(variance=0.5), mc.NegativeBinomial(0.5)])
def test_coverage_is_that_of_intervals(likelihood):
    """Ranks say what the intervals of the posterior do, of numbers and of whole numbers."""
    model = mc.Model([mc.Block("y", likelihood)], [mc.NuclearNorm(1.5)])
    rng = np.random.default_rng(0)
    template = posterior_laws.Template.of(model, {"y": (30, 5)}, rng)
    [task] = template.tasks(1, 0.4, None, OPTIONS, rng)[0]
    posterior = mc.posterior(model, task.data, factors=2)
    rows, columns = np.nonzero(task.hidden["y"])
    below, upto = task.distribution_at(posterior, model.blocks[0], rows, columns)
    y = task.new_values["y"][rows, columns]
    for level in (0.5, 0.9):
        tail = 0.5 * (1.0 - level)
        lower, upper = posterior.interval("y", level, rows, columns)
        inside = (lower <= y) & (y <= upper)
        outside = (upto < tail) | (below > 1.0 - tail)
        assert not np.any(inside[outside])
        # Of whole numbers one end moves in, up to where the interval has its level.
        middle = (below < level) & (upto >= 1.0 - level) if likelihood.whole else True
        assert np.all(inside[~outside & middle])


def test_the_text_has_coverage_with_errors_by_kind():
    found = mc.laws.check_posterior(EXACT, SHAPE, n_tables=30)
    text = repr(found)
    assert "30 tables of 8 x 3, method 'variational'" in text
    for kind in (
        "z, observed cells",
        "z, hidden, rows with few entries",
        "total of hidden values",
    ):
        assert f"\n{kind} " in text
    share, error = found.ranks["z, hidden cells"].coverage[0.9]
    assert f"{share:.1%} ± {error:.1%}" in text
    assert found.n_tables == 30
    assert found.worst in found.ranks


def test_the_picture_has_the_ranks_within_bands():
    pytest.importorskip("matplotlib")
    found = mc.laws.check_posterior(EXACT, SHAPE, n_tables=30)
    ax = found.plot.ranks()
    assert ax.get_xlabel() == "rank"
    assert len(ax.lines) == len(found.ranks) + 1
    with pytest.raises(mc.ModelError, match="kind='z'"):
        found.plot.ranks("z")


def test_tables_are_those_of_the_seed_in_any_number_of_processes():
    one = mc.laws.check_posterior(EXACT, SHAPE, n_tables=8)
    two = mc.laws.check_posterior(EXACT, SHAPE, n_tables=8, n_jobs=2)
    other = mc.laws.check_posterior(EXACT, SHAPE, n_tables=8, random_state=1)
    assert list(one.counts) == list(two.counts)
    for kind, counts in one.counts.items():
        np.testing.assert_array_equal(counts, two.counts[kind])
    assert any(np.any(counts != other.counts[kind]) for kind, counts in one.counts.items())


def test_a_table_gives_missing_entries_weights_offsets_and_scales():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(50.0 + 20.0 * rng.standard_normal((25, 4)), columns=list("abcd"))
    frame.iloc[:5, 0] = np.nan
    weights = rng.uniform(0.5, 2.0, frame.shape)
    data = {"x": mc.Observations(frame, weights=weights, offset=np.full((1, 4), 7.0))}
    model = mc.Model([mc.Block("x", mc.Gaussian(variance=None), bias=True)], [mc.NuclearNorm(0.2)])
    template = posterior_laws.Template.of(model, data, rng)
    tasks, _ = template.tasks(40, 0.2, None, OPTIONS, rng)
    assert all(task.hidden["x"][:5, 0].all() for task in tasks)
    np.testing.assert_allclose(tasks[0].data["x"].weights[5:], weights[5:])
    drawn = np.array([task.data["x"].values for task in tasks])
    assert 40.0 < np.nanmean(drawn) < 60.0
    noise = np.array([task.parameters["variances of noise"] for task in tasks])
    assert 30.0 < np.median(noise) < 3000.0
    found = mc.laws.check_posterior(model, data, factors=2, n_tables=10, error_rate=0.0)
    assert set(found.log_ratios) == {"variances of noise", "deviations of biases"}


@pytest.mark.parametrize(
    ("model", "data", "options", "message"),
    [
        (
            mc.Model([mc.Block("y", mc.Bernoulli(), weight=2.0)], [mc.NuclearNorm(1.0)]),
            {"y": (5, 4)},
            {},
            "block 'y': weights other than 1 belong to no density of Bernoulli data",
        ),
        (
            mc.Model([mc.Block("x", mc.Gaussian())], [mc.GaussianRows(components=2)]),
            {"x": (5, 4)},
            {},
            "the prior of a mixture is an estimate",
        ),
        (EXACT, SHAPE, {"hidden": {"x": np.ones((2, 2))}}, r"mask of shape \(8, 3\) is needed"),
        (EXACT, SHAPE, {"hidden": {"x": np.ones((8, 3))}}, "all entries of a table are hidden"),
        (EXACT, SHAPE, {"error_rate": 1.0}, r"error_rate=1\.0 was given"),
        (EXACT, SHAPE, {"n_tables": 1}, "n_tables=1 was given"),
        (
            mc.Model([mc.Block("x", mc.Hinge())], [mc.NuclearNorm(1.0)]),
            {"x": (5, 4)},
            {},
            "no posterior: block 'x': Hinge",
        ),
    ],
)
def test_messages_name_what_is_wrong(model, data, options, message):
    with pytest.raises(mc.McframeError, match=message):
        mc.laws.check_posterior(model, data, **options)


def test_the_variational_posterior_of_labels_is_too_sure():
    """Its page says so; an engine that is exact would make this test fail, and end it."""
    model = mc.Model([mc.Block("y", mc.Bernoulli())], [mc.NuclearNorm(0.5)])
    found = mc.laws.check_posterior(model, {"y": (20, 5)}, factors=2, n_tables=25, error_rate=0.0)
    assert found.ranks["z, hidden cells"].coverage[0.9][0] < 0.9


# All words that have a posterior, by the sampler, whose draws are exact.

WORDS = [
    (mc.Gaussian(variance=0.5), 1.0, {}),
    (mc.Gaussian(variance=None), 1.0, {"bias": True}),
    (mc.Gaussian(variance=None), None, {"row_effects": True}),
    (mc.Huber(delta=1.0), 1.0, {}),
    (mc.Quantile(0.3), 1.0, {}),
    (mc.Bernoulli(), 1.0, {"bias": True, "effects_weight": 1.0}),
    (mc.Bernoulli("probit"), 0.7, {}),
    (mc.Ordinal(4, (-1.0, 0.0, 1.5)), 0.7, {}),
    (mc.Ordinal(4), 1.0, {}),
    (mc.Multinomial(3), 1.0, {}),
    (mc.Poisson(), 1.5, {}),
    (mc.NegativeBinomial(0.5), 1.5, {}),
    (mc.Gamma(shape=2.0), 1.5, {}),
    (mc.Exponential(), 1.5, {}),
]


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(20, 5), (100, 6), (500, 5)], ids=str)
@pytest.mark.parametrize(("likelihood", "weight", "options"), WORDS, ids=str)
def test_the_sampler_is_calibrated(likelihood, weight, options, shape):
    model = mc.Model([mc.Block("y", likelihood, **options)], [mc.NuclearNorm(weight)])
    n_tables = 60 if shape[0] == 20 else 20
    mc.laws.check_posterior(
        model,
        {"y": shape},
        method="sampler",
        factors=2,
        n_tables=n_tables,
        error_rate=1e-3,
        tol=0.1,
    )


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(20, 3), (100, 3), (500, 3)], ids=str)
def test_gaussian_rows_with_a_covariance_are_calibrated(shape):
    mc.laws.check_posterior(EXACT, {"x": shape}, n_tables=100, error_rate=1e-3)
