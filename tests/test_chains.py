"""Chains of the sampler leave the joint distribution of parameters and data as it is.

Each of many chains begins at a draw from the prior, with data drawn given it. Steps of the sampler
and new data in turn must leave all of it distributed as before (Geweke, Getting it right: joint
distribution tests of posterior simulators, JASA 2004). A fault in any one conditional distribution
moves what is compared.
"""

import warnings

import attrs
import numpy as np
import pytest
from scipy import sparse, stats

import mcframe as mc
from mcframe.posterior import chains as chains_module
from mcframe.posterior.chains import FactorChains
from mcframe.posterior.prior_draws import draw_from_prior, draw_targets

pytestmark = pytest.mark.core

CHAINS, ROUNDS = 1500, 6
SHAPE, FACTORS = (5, 4), 2


def chains_of(likelihood, weight, seed, n_attributes=0, **options):
    """Chains of a table of a few entries, everything drawn from the prior.

    Where rows and columns have attributes, one row and one column have no entries.
    """
    rng = np.random.default_rng(0)
    z = 0.5 * rng.standard_normal(SHAPE)
    shaped = z if likelihood.width == 1 else np.repeat(z[..., None], likelihood.width, axis=2)
    if isinstance(likelihood, mc.Ordinal):
        y = rng.integers(1, likelihood.levels + 1, SHAPE).astype(float)
    elif isinstance(likelihood, mc.Gaussian | mc.Huber | mc.Quantile):
        y = z
    else:
        flat = shaped.reshape(-1, *shaped.shape[2:])
        y = likelihood.sample(flat, rng).reshape(SHAPE)
    y[0, 0], attributes = np.nan, {}
    if n_attributes:
        y[1], y[:, 2] = np.nan, np.nan
        rows = rng.standard_normal((SHAPE[0], n_attributes))
        columns = rng.standard_normal((SHAPE[1], 2))
        groups = {"some": rows[:, :1], "others": sparse.csr_array(rows[:, 1:])}
        attributes = {"row_attributes": groups, "column_attributes": columns}
    model = mc.Model([mc.Block("y", likelihood, **options)], [mc.NuclearNorm(weight)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = mc.posterior(model, {"y": y}, factors=FACTORS, max_iter=5, **attributes)
    count = CHAINS // 6 if posterior.engine.observed.fits_parameters else CHAINS
    chains = FactorChains.begin(posterior.engine, count, np.random.default_rng(seed))
    draw_from_prior(chains)
    draw_targets(chains)
    return chains


def statistics(chains):
    """Numbers of each chain, (chains,) each, by name."""
    priors, z = chains.priors, chains.predictors(chains.numbers)
    found = {
        "a number of z": z[:, 3],
        "squares of z": np.mean(np.square(z), axis=1),
        "sizes of rows": np.sum(np.square(chains.rows), axis=(1, 2)),
        "a factor's precision": priors.factors[:, 0],
        "noise": priors.noise[:, 1],
        "centre of the noise": priors.noise_centres,
        "noise of predictors": priors.predictor_deviations[:, 0],
        "data": np.mean(chains.targets[0], axis=1),
        "data and z": np.mean(chains.targets[0] * z[:, : chains.targets[0].shape[1]], axis=1),
    }
    found |= {f"row effects {r}": column for r, column in enumerate(priors.row_effects.T)}
    found |= {f"parameter {p}": column for p, column in enumerate(priors.parameters[0].T)}
    found |= {"a row": chains.rows[:, 1, 0] ** 2, "a column": chains.columns[:, 2, -1] ** 2}
    for side, draws in enumerate(chains.coefficients):
        if draws.u.size:
            scales = draws.scales.reshape(len(z), -1).T
            found |= {f"scale {side} {s}": scale for s, scale in enumerate(scales)}
            found[f"coefficients {side}"] = np.mean(np.square(draws.u), axis=(1, 2))
            found[f"deviations {side}"] = np.mean(np.square(chains.deviations(side)), axis=(1, 2))
            found[f"a coefficient {side}"] = draws.u[:, 0, 0]
            found[f"the last one {side}"] = draws.u[:, -1, -1] ** 2
    return {name: values for name, values in found.items() if np.ptp(values) > 0.0}


def least_p_value(chains, reference, step=FactorChains.sweep, rounds=ROUNDS):
    """The least p of Kolmogorov and Smirnov's tests, over all statistics, with their names."""
    for _ in range(rounds):
        step(chains)
        draw_targets(chains)
    before = statistics(reference)
    p = {
        name: stats.ks_2samp(values, before[name]).pvalue
        for name, values in statistics(chains).items()
    }
    return min(p.items(), key=lambda one: one[1]), len(p)


def mixed_chains(seed):
    """Chains of numbers, labels and levels with effects, offsets, weights and thresholds."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 9))
    labels, levels = mc.Bernoulli(scale=0.7), mc.Ordinal(4, (-1.0, 0.0, 1.0))
    data = {
        "x": z[:, :3] + 0.5 * rng.standard_normal((30, 3)),
        "labels": labels.sample(z[:, 3:6], rng),
        "levels": levels.sample(z[:, 6:], rng),
    }
    data = {name: np.where(rng.random(x.shape) < 0.3, np.nan, x) for name, x in data.items()}
    shape = data["labels"].shape
    data["labels"] = mc.Observations(
        data["labels"], weights=rng.random(shape), offset=0.3 * rng.standard_normal(shape)
    )
    blocks = [
        mc.Block("x", mc.Gaussian(variance=None), bias=True, row_effects=True),
        mc.Block("labels", labels, bias=True),
        mc.Block("levels", mc.Ordinal(4)),
    ]
    model = mc.Model(blocks, [mc.NuclearNorm()])
    posterior = mc.posterior(model, data, factors=2)
    return FactorChains.begin(posterior.engine, 4, np.random.default_rng(seed))


def test_half_sweeps_in_one_pass_are_those_of_arrays(monkeypatch):
    """Three sweeps of compiled moves, and of plain arrays with the same random numbers."""
    one_pass, plain = mixed_chains(1), mixed_chains(1)
    with monkeypatch.context() as patch:
        for chains in (one_pass, plain):
            for _ in range(2):
                chains.sweep()
            chains.draw_factors((0, 1))
            patch.setattr(chains_module, "MOST_FUSED", 0)
    assert one_pass.all_terms is not None
    assert plain.all_terms is None
    for side in (0, 1):
        np.testing.assert_allclose(one_pass.numbers[side], plain.numbers[side], atol=1e-11)
    np.testing.assert_allclose(one_pass.latest, plain.latest, rtol=1e-8, atol=1e-10)
    assert one_pass.acceptance == plain.acceptance


WORDS = [
    (mc.Gaussian(variance=0.5), None, {}),
    (mc.Gaussian(variance=None), 1.0, {}),
    (mc.Gaussian(variance=None), None, {"row_effects": True}),
    (mc.Gaussian(variance=None), None, {"bias": True, "effects_weight": 2.0}),
    (mc.Bernoulli(), 1.0, {"bias": True, "effects_weight": 1.0}),
    (mc.Bernoulli("probit"), 0.7, {}),
    (mc.Ordinal(4, (-1.0, 0.0, 1.5)), 0.7, {}),
    (mc.Ordinal(4), 1.0, {}),
    (mc.NegativeBinomial(0.5), 1.5, {}),
    (mc.Poisson(), 1.5, {}),
    (mc.Gamma(shape=2.0), 1.5, {}),
    (mc.Multinomial(3), 1.0, {}),
    (mc.Quantile(0.3), 1.0, {}),
    (mc.Bernoulli(), None, {"row_effects": True}),
    (mc.Gaussian(variance=0.5), 1.0, {"n_attributes": 7}),
    (mc.Gaussian(variance=None), None, {"n_attributes": 2, "row_effects": True}),
    (mc.Bernoulli(), 1.0, {"n_attributes": 2, "bias": True, "effects_weight": 1.0}),
]


@pytest.mark.parametrize(
    ("likelihood", "weight", "options"),
    WORDS,
    ids=str,
)
def test_steps_leave_the_joint_distribution_as_it_is(likelihood, weight, options):
    reference = chains_of(likelihood, weight, 1, **options)
    chains = chains_of(likelihood, weight, 2, **options)
    (name, p), count = least_p_value(chains, reference)
    assert p > 1e-4 / count, name


def without_noise_prior(chains):
    centres = np.array(chains.priors.noise_centres)
    chains.sweep()
    chains.priors.noise_centres = 0.8 * chains.priors.noise_centres + 0.2 * centres.mean()


def always_accepted(chains):
    """A Newton step that nothing rejects."""
    side = chains.sides[0]
    z = chains.predictors(chains.numbers)
    equations = side.equations(chains.numbers[1], chains.observations(z))
    now = chains.numbers[0]
    chains.numbers[0], _ = side.drawn(equations, chains.prior(0), now, 1.0, chains.rng)


def scales_without_their_volume(chains):
    n_rows, n_columns = chains.observed.shape
    chains.observed = attrs.evolve(chains.observed, shape=(n_columns, n_rows))
    chains.draw_scales()
    chains.observed = attrs.evolve(chains.observed, shape=(n_rows, n_columns))


def other_thresholds(chains):
    chains.draw_parameters()
    parameters = chains.priors.parameters[0]
    parameters[:, -1] += 0.3 * np.abs(chains.rng.standard_normal(len(parameters)))


FAULTS = [
    (without_noise_prior, mc.Gaussian(variance=None)),
    (always_accepted, mc.Poisson()),
    (scales_without_their_volume, mc.Gaussian(variance=0.5)),
    (other_thresholds, mc.Ordinal(4)),
]


@pytest.mark.parametrize(("fault", "likelihood"), FAULTS, ids=lambda one: str(one)[:30])
def test_a_fault_in_one_step_is_noticed(fault, likelihood):
    reference, chains = (chains_of(likelihood, 1.0, seed) for seed in (1, 2))
    (_, p), _ = least_p_value(chains, reference, fault)
    assert p < 1e-6
