"""Chains of Gaussian rows leave the joint distribution of parameters and data as it is.

As in ``test_chains``: each of many chains begins at a draw from the prior, with data drawn given
it; steps and new data in turn must leave all of it distributed as before (Geweke, JASA 2004).
"""

import warnings

import attrs
import numpy as np
import pytest
from scipy import stats

import mcframe as mc
from mcframe.posterior.prior_draws import draw_targets, drawn_parameters
from mcframe.posterior.row_chains import RowChains
from mcframe.posterior.row_draws import DrawnComponents
from mcframe.posterior.rows_parameters import PRIOR_ROWS_GRID, RowsPrior, log_prior_of_rows

CHAINS, ROUNDS, SHAPE = 1500, 6, (5, 3)


def chains_of(likelihood, seed, components=1, prior_rows=3.0, given=None, scale=0.7):
    """Chains of a table of a few entries, everything drawn from the prior."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal(SHAPE)
    shaped = z if likelihood.width == 1 else np.repeat(z[..., None], likelihood.width, axis=2)
    if isinstance(likelihood, mc.Ordinal):
        y = rng.integers(1, likelihood.levels + 1, SHAPE).astype(float)
    elif isinstance(likelihood, mc.Gaussian | mc.Quantile):
        y = z
    else:
        flat = shaped.reshape(-1, *shaped.shape[2:])
        y = np.asarray(likelihood.sample(flat, rng), dtype=float).reshape(SHAPE)
    y[0, 0], y[2:4, 1] = np.nan, np.nan
    term = mc.GaussianRows(prior_rows=prior_rows) if given is None else mc.GaussianRows(given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mc.Model([mc.Block("y", likelihood)], [term])
        posterior = mc.posterior(model, {"y": y}, max_iter=3)
    count = CHAINS // 6 if posterior.engine.observed.fits_parameters else CHAINS
    chains = RowChains.begin(posterior.engine, count, np.random.default_rng(seed))
    d = chains.observed.shape[1]
    if given is None:
        square = scale * np.eye(d) + (0.3 if components > 1 else 0.0)
        chains.prior = RowsPrior(
            0.3 * np.ones(d), square, prior_rows or 10.0, prior_rows is None, mean_rows=0.5
        )
    chains.column_noise = np.full(d, 0.4)
    restart_from_prior(chains, components)
    draw_targets(chains)
    return chains


def restart_from_prior(chains, count):
    """Draw everything from the prior."""
    rng, m, (n, d) = chains.rng, chains.n_chains, chains.observed.shape
    chains.latest, state = None, chains.state
    if chains.prior is not None:
        prior = chains.prior
        rows = np.full(m, prior.rows)
        if prior.learned:
            p = np.exp(log_prior_of_rows(PRIOR_ROWS_GRID, n))
            rows = rng.choice(PRIOR_ROWS_GRID, m, p=p / np.sum(p))
        shares = rng.dirichlet(np.ones(count), m)
        moments = (
            np.tile(prior.mean, (m, count, 1)),
            np.full((m, count), prior.mean_rows),
            rows[:, None, None, None] * np.tile(prior.covariance, (m, count, 1, 1)),
            np.tile(rows[:, None] + d + 1.0, count),
        )
        state.components = DrawnComponents.drawn(moments, np.log(shares), rows, rng)
    shares = np.exp(state.components.log_shares)
    ends = np.cumsum(shares, axis=1)[:, None]
    state.component = np.argmax(rng.random((m, n))[..., None] < ends, axis=2)
    roots = np.linalg.cholesky(np.linalg.inv(state.components.precisions))
    which = np.arange(m)[:, None], state.component
    noise = rng.standard_normal((m, n, d))[..., None]
    state.z = state.components.means[which] + (roots[which] @ noise)[..., 0]
    for block, parameters in zip(chains.observed.blocks, state.parameters, strict=True):
        if parameters.size:
            parameters[:] = drawn_parameters(block, m, rng)


def statistics(chains):
    """Numbers of each chain, (chains,) each, by name."""
    state, z = chains.state, chains.state.z
    components, y = state.components, chains.targets[0]
    found = {
        "a number of z": z[:, 1, 1],
        "a missing number": z[:, 2, 1],
        "product": z[:, 1, 0] * z[:, 1, 1],
        "sizes of rows": np.log(np.mean(np.square(z), axis=(1, 2))),
        "mean": np.mean(components.means[:, :, 1], axis=1),
        "precision": np.log(np.mean(components.precisions[:, :, 1, 1], axis=1)),
        "determinant": np.mean(np.linalg.slogdet(components.precisions)[1], axis=1),
        "correlation": np.mean(components.precisions[:, :, 0, 1], axis=1),
        "prior rows": components.prior_rows,
        "share": components.log_shares[:, 0],
        "first of a component": np.sum(state.component == 0, axis=1) + 0.0,
        "data": np.mean(y, axis=1),
        "data and z": np.mean(y * chains.z[:, : y.shape[1]], axis=1),
    }
    found |= {f"parameter {p}": column for p, column in enumerate(state.parameters[0].T)}
    return {name: values for name, values in found.items() if np.ptp(values) > 0.0}


def least_p_value(chains, reference, step=RowChains.sweep, rounds=ROUNDS):
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


GIVEN = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.0], [0.2, 0.0, 2.0]])
MODELS = [
    (mc.Gaussian(variance=0.5), {}),
    (mc.Gaussian(variance=None), {"prior_rows": None}),
    (mc.Gaussian(variance=None), {"components": 2}),
    (mc.Bernoulli(), {}),
    (mc.Bernoulli("probit"), {"prior_rows": None}),
    (mc.Bernoulli(), {"components": 2}),
    (mc.Bernoulli(), {"given": GIVEN}),
    (mc.Bernoulli(), {"scale": 20.0}),
    (mc.Ordinal(4), {}),
    (mc.NegativeBinomial(0.5), {"prior_rows": 8.0}),
    (mc.Multinomial(3), {}),
    (mc.Quantile(0.3), {}),
]


@pytest.mark.parametrize(("likelihood", "options"), MODELS, ids=str)
def test_steps_leave_the_joint_distribution_as_it_is(likelihood, options):
    reference, chains = (chains_of(likelihood, seed, **options) for seed in (1, 2))
    (name, p), count = least_p_value(chains, reference)
    assert p > 1e-4 / count, name


def without_prior_scatter(chains):
    prior = chains.prior
    chains.prior = attrs.evolve(prior, covariance=0.7 * prior.covariance)
    chains.sweep()
    chains.prior = prior


def with_a_row_more(chains):
    prior = chains.prior
    chains.prior = attrs.evolve(prior, mean_rows=prior.mean_rows + 1.0)
    chains.draw_components()
    chains.prior = prior


def always_accepted(chains):
    """A Newton step that nothing rejects."""
    forward = chains.gaussians(chains.observations(chains.z))
    chains.state.z, _ = forward.drawn(chains.state.component, chains.rng)


def scales_under_another_prior(chains):
    other = attrs.evolve(chains.prior, covariance=2.0 * chains.prior.covariance)
    for j in range(chains.state.z.shape[2]):
        chains.draw_scale(other, j, lambda of_column: np.zeros(len(of_column)))


FAULTS = [
    (without_prior_scatter, mc.Gaussian(variance=0.5), {}),
    (with_a_row_more, mc.Gaussian(variance=None), {}),
    (always_accepted, mc.Bernoulli(), {"scale": 20.0}),
    (scales_under_another_prior, mc.Bernoulli(), {}),
]


@pytest.mark.parametrize(("fault", "likelihood", "options"), FAULTS, ids=lambda one: str(one)[:30])
def test_a_fault_in_one_step_is_noticed(fault, likelihood, options):
    reference, chains = (chains_of(likelihood, seed, **options) for seed in (1, 2))
    (_, p), _ = least_p_value(chains, reference, fault)
    assert p < 1e-6
