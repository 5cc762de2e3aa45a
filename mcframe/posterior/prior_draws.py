"""Tables, and all that they are drawn from, by the priors of a posterior.

Whoever draws tables so and computes their posteriors can say how these should come out: what a
table was drawn from is one more draw of its posterior (Talts, Betancourt, Simpson, Vehtari and
Gelman, Validating Bayesian inference algorithms with simulation-based calibration, 2018).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from scipy.stats import invwishart

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import GaussianNoise, Parametric
from mcframe.contracts.term import PriorOfFactors, PriorOfRows
from mcframe.model import Problem
from mcframe.posterior.chains import ChainPriors, FactorChains, drawn_coefficients
from mcframe.posterior.coefficient_draws import AttributedSide, CoefficientDraws
from mcframe.posterior.engine import Engine
from mcframe.posterior.estimation import PosteriorOptions, number_of_factors, with_attributes
from mcframe.posterior.factor_state import Design, initial_state
from mcframe.posterior.factors import FactorPosterior
from mcframe.posterior.observed import NOISE_PRIOR_ENTRIES, Observed, ObservedBlock
from mcframe.posterior.observed_chains import ObservedChains
from mcframe.posterior.predictive import as_distribution
from mcframe.posterior.row_pass import PosteriorRows
from mcframe.posterior.row_variances import NOISE_SHARE
from mcframe.posterior.rows_parameters import MEAN_PRIOR_ROWS
from mcframe.posterior.sampled_engines import SampledFactors


@attrs.frozen(eq=False)
class DrawnTables:
    """m tables, and what they are drawn from.

    Attributes
    ----------
    z : array (m x n_rows x n_columns of Z)
        Predictors of new observations, effects and noise included, without offsets.
    values : dict from block name to array (m x n_rows x n_columns)
        What is observed, in the units of the data.
    new_values : dict from block name to array (m x n_rows x n_columns)
        New observations of the same cells, given ``z``.
    parameters : dict from name to array (m x p)
        Noise, deviations of priors, and parameters of likelihoods, as ``parameters_of`` names
        them; of those that are drawn.
    """

    z: Array
    values: Mapping[str, Array]
    new_values: Mapping[str, Array]
    parameters: Mapping[str, Array]


def drawn_tables(
    problem: Problem,
    observed: Observed,
    options: PosteriorOptions,
    m: int,
    rng: np.random.Generator,
) -> DrawnTables:
    """Draw m tables of all cells of a problem, whose entries ``observed`` reads.

    Scales of priors are those in the summaries of ``observed``; ``options`` has the number of
    factors and attributes.
    """
    prior = problem.terms[0]
    if isinstance(prior, PriorOfRows):
        return tables_of_rows(problem, observed, prior, m, rng)
    assert isinstance(prior, PriorOfFactors)  # or there is no posterior
    n_factors = number_of_factors(options["factors"], problem)
    state = initial_state(observed, n_factors, prior.weight, rng)
    state = with_attributes(observed, state, options)
    # A ridge without an intercept is about 0; other means have a flat prior, and stay where the
    # sweeps begin.
    about_zero = [bool(b.ridge) and not b.layout.n_intercepts for b in observed.blocks]
    bias_means = np.where(about_zero, 0.0, state.priors.bias_means)
    state = attrs.evolve(state, priors=attrs.evolve(state.priors, bias_means=bias_means))
    begin = FactorPosterior(PosteriorRows(observed), observed, state)
    chains = FactorChains.begin(begin, m, rng)
    draw_from_prior(chains)
    draw_targets(chains)
    values = [np.array(targets) for targets in chains.targets]
    draw_noise_of_predictors(chains)
    draw_targets(chains)
    z = chains.predictors(chains.numbers)
    for b, block in enumerate(observed.blocks):
        noise = chains.predictor_noise[b]
        if noise is not None:
            z[:, block.part] += chains.priors.predictor_deviations[:, b, None] * noise
    rows, columns = observed.cells
    placed = np.empty((m, *observed.shape))
    placed[:, rows, columns] = z
    return DrawnTables(
        placed + observed.centres,
        in_data_units(problem, observed, values),
        in_data_units(problem, observed, chains.targets),
        named_parameters(
            observed,
            chains.design,
            chains.weight,
            chains.priors,
            scales_of_attributes(chains.attributes, chains.coefficients),
        ),
    )


# ------------------------------------------------------------------------------ factors


def draw_from_prior(chains: FactorChains) -> None:
    """Draw everything in the chains from its prior; means of biases, whose prior is flat, stay."""
    chains.latest = None
    observed, priors, rng, m = chains.observed, chains.priors, chains.rng, chains.n_chains
    half, learned = 0.5 * NOISE_PRIOR_ENTRIES, observed.columns_with_noise
    if learned.size:
        mean_square = np.mean(observed.mean_squares[learned])
        priors.noise_centres = mean_square * rng.exponential(size=m)
        gammas = rng.gamma(half, size=(m, learned.size))
        priors.noise[:, learned] = half * priors.noise_centres[:, None] / gammas
    if chains.weight is None:
        deviations = chains.unit * np.abs(rng.standard_cauchy(priors.factors.shape))
        priors.factors = 1.0 / np.square(deviations)
    effects = [
        (priors.row_effects[:, place], b) for place, b in enumerate(chains.design.row_blocks)
    ]
    effects += [
        (priors.biases[:, b], b) for b, one in enumerate(observed.blocks) if one.layout.n_biases
    ]
    for precisions, b in effects:
        if not observed.blocks[b].ridge:
            reference = observed.blocks[b].required_summary.reference_square
            precisions[:] = rng.gamma(1.0, 1.0 / reference, m)
    for b, block in enumerate(observed.blocks):
        if priors.parameters[b].size:
            priors.parameters[b][:] = drawn_parameters(block, m, rng)
        if chains.predictor_noise[b] is not None:
            priors.predictor_deviations[:, b] = np.abs(rng.standard_normal(m))
    draw_noise_of_predictors(chains)
    for side, coefficients in enumerate(chains.coefficients):
        coefficients.scales = chains.attributes[side].scales_of_prior(m, rng)
        coefficients.u = chains.coefficients_of_prior(side)
    chains.numbers = chains.numbers_of_prior()


def draw_noise_of_predictors(chains: FactorChains) -> None:
    """Draw the noise that is part of predictors, given its deviation."""
    chains.latest = None
    for b, noise in enumerate(chains.predictor_noise):
        if noise is not None:
            chains.predictor_noise[b] = chains.rng.standard_normal(noise.shape)


def draw_targets(chains: ObservedChains) -> None:
    """Draw observations of all entries of each chain given its z."""
    chains.latest = None
    z = chains.z
    for b, block in enumerate(chains.observed.blocks):
        if isinstance(block.likelihood, GaussianNoise):
            _, precisions = chains.gaussian_block(b)
            noise = chains.rng.standard_normal(precisions.shape) / np.sqrt(precisions)
            chains.targets[b] = z[:, block.part] + noise
            continue
        t = chains.shaped(b, z)
        chains.targets[b] = np.empty(t.shape[:2])
        for members, likelihood in chains.likelihoods(b):
            chains.targets[b][members] = observations(likelihood, t[members], chains.rng)


def drawn_parameters(block: ObservedBlock, m: int, rng: np.random.Generator) -> Array:
    """Draw the parameters of the likelihood of a block from their prior (m x p)."""
    unfitted = block.unfitted
    assert isinstance(unfitted, Parametric)  # which alone has parameters
    drawn = unfitted.drawn_parameters(m, rng)
    if drawn is None:
        raise ModelError(
            f"block {block.block.name!r}: the parameters of {type(unfitted).__name__} have no"
            " prior from which they could be drawn; give the parameters"
        )
    return drawn


def scales_of_attributes(
    attributes: Sequence[AttributedSide], coefficients: Sequence[CoefficientDraws]
) -> Array:
    """The scales of all groups of attributes of rows and columns that differ (m x p)."""
    scales = [
        draws.scales[:, :, places[0]]
        for side, draws in zip(attributes, coefficients, strict=True)
        for places in side.numbers_together
    ]
    return np.concatenate(scales, axis=1) if scales else np.zeros((1, 0))


def named_parameters(
    observed: Observed,
    design: Design,
    weight: float | None,
    priors: ChainPriors,
    scales: Array,
) -> dict[str, Array]:
    """The learned numbers of noise, priors and likelihoods, (m x p) each, by name.

    Deviations of factors are in descending order, ``scales`` are those of attributes.
    """
    blocks = range(len(observed.blocks))
    of_rows = [p for p, b in enumerate(design.row_blocks) if not observed.blocks[b].ridge]
    of_columns = [
        b for b in blocks if observed.blocks[b].layout.n_biases and not observed.blocks[b].ridge
    ]
    noisy = [b for b in blocks if observed.blocks[b].learned_noise == "block"]
    parameters = {
        "variances of noise": priors.noise[:, observed.columns_with_noise],
        "deviations of row effects": 1.0 / np.sqrt(priors.row_effects[:, of_rows]),
        "deviations of biases": 1.0 / np.sqrt(priors.biases[:, of_columns]),
        "noise of predictors": priors.predictor_deviations[:, noisy],
        "parameters of likelihoods": np.concatenate(priors.parameters, axis=1),
        "scales of attributes": scales,
    }
    if weight is None:
        with np.errstate(divide="ignore"):
            parameters["deviations of factors"] = 1.0 / np.sqrt(np.sort(priors.factors, axis=1))
    return {name: numbers for name, numbers in parameters.items() if numbers.shape[1]}


def parameters_of(engine: Engine) -> dict[str, Array]:
    """The draws of each of ``named_parameters`` in a posterior, or its one estimate."""
    if isinstance(engine, FactorPosterior):
        refined, priors = engine.refined, ChainPriors.of(engine.refined, 1)
        scales = scales_of_attributes(*drawn_coefficients(refined, 1, np.random.default_rng(0)))
        of_priors = engine.observed, refined.state.design, refined.state.priors.weight, priors
        return named_parameters(*of_priors, scales)
    if isinstance(engine, SampledFactors):
        scales = scales_of_attributes(engine.attributed, engine.coefficients)
        of_priors = engine.observed, engine.design, engine.weight, engine.priors
        return named_parameters(*of_priors, scales)
    return {}


# --------------------------------------------------------------------------------- rows


def tables_of_rows(
    problem: Problem, observed: Observed, prior: PriorOfRows, m: int, rng: np.random.Generator
) -> DrawnTables:
    """Draw tables whose rows are draws of one Gaussian, which is given or drawn."""
    n, d = observed.shape
    if prior.groups is not None:
        raise ModelError(
            f"{prior.word}: the prior of covariances between groups is an estimate from the table,"
            " so that no tables can be drawn from it; leave out groups"
        )
    if prior.row_weights is not None:
        raise ModelError(
            f"{prior.word}: row_weights say how rows of a table count, and not how they are drawn;"
            " leave them out"
        )
    if prior.variables is not None:
        raise ModelError(
            f"{prior.word}: what a prior with variables expects of the variances is an estimate"
            " from a table, so that no tables can be drawn from it; leave variables out"
        )
    if prior.components != 1:
        raise ModelError(
            f"{prior.word}(components={prior.components!r}): the prior of a mixture is an estimate"
            " from its table, so that no tables can be drawn from it; take one component"
        )
    if prior.gaussian is not None:
        means = np.tile(prior.gaussian[0], (m, 1))
        covariances = np.tile(prior.gaussian[1], (m, 1, 1))
    else:
        rows = float(d) if prior.prior_rows is None else prior.prior_rows
        inverse = invwishart(rows + d + 1.0, rows * np.diag(observed.mean_squares))
        covariances = np.reshape(inverse.rvs(m, random_state=rng), (m, d, d))
        roots = np.linalg.cholesky(covariances / MEAN_PRIOR_ROWS)
        means = np.einsum("mab,mb->ma", roots, rng.standard_normal((m, d)))
    roots = np.linalg.cholesky(covariances)
    z = means[:, None] + np.einsum("mab,mnb->mna", roots, rng.standard_normal((m, n, d)))
    noise = NOISE_SHARE * np.diagonal(covariances, axis1=1, axis2=2)
    parameters = [
        drawn_parameters(block, m, rng) if block.layout.n_parameters else np.zeros((m, 0))
        for block in observed.blocks
    ]
    pairs = list(zip(observed.blocks, parameters, strict=True))
    values, new_values = (
        [observations_of_rows(block, p, z, noise, rng) for block, p in pairs] for _ in range(2)
    )
    return DrawnTables(
        z,
        in_data_units(problem, observed, values),
        in_data_units(problem, observed, new_values),
        {},
    )


def observations_of_rows(
    block: ObservedBlock, parameters: Array, z: Array, noise: Array, rng: np.random.Generator
) -> Array:
    """Draw observations (m x N) of all cells of a block at z (m x n_rows x columns of Z)."""
    m, width, likelihood = len(z), block.unfitted.width, block.unfitted
    of_block = z[:, :, block.columns]
    if isinstance(likelihood, GaussianNoise):
        variance: Any = likelihood.variance
        variances = noise[:, None, block.columns] if variance is None else variance
        drawn = of_block + np.sqrt(variances) * rng.standard_normal(of_block.shape)
        return drawn.reshape(m, -1)
    t = of_block.reshape(m, -1, width) if width > 1 else of_block.reshape(m, -1)
    if np.ndim(block.offset):
        t = t + np.reshape(block.offset, t.shape[1:])
    if not parameters.size:
        return observations(likelihood, t, rng)
    assert isinstance(likelihood, Parametric)  # which alone has parameters
    pairs = zip(parameters, t, strict=True)
    return np.array(
        [observations(likelihood.with_parameters(p), one[None], rng)[0] for p, one in pairs]
    )


# ------------------------------------------------------------------------------- shared


def observations(likelihood: Any, t: Array, rng: np.random.Generator) -> Array:
    """Draw observations (m x N) at predictors (m x N), or (m x N x K) of K classes."""
    flat = t.reshape(-1, *t.shape[2:])
    with np.errstate(over="ignore"):  # counts of large predictors, which are drawn again
        drawn = as_distribution(likelihood).sample(flat, rng)
    return np.asarray(drawn, dtype=np.float64).reshape(t.shape[:2])


def in_data_units(
    problem: Problem, observed: Observed, targets: Sequence[Array]
) -> dict[str, Array]:
    """Observations (m x N) of blocks as tables (m x n_rows x n_columns) in the data's units."""
    tables = {}
    for block, values in zip(observed.blocks, targets, strict=True):
        name = block.block.name
        table = problem.tables[name]
        if block.unfitted.location:
            places = problem.latent_places(name, table.rows, table.columns)
            shifted = values + block.required_summary.centres[table.columns]
            values = table.applied.invert(
                table.pending.invert(shifted, *places), table.rows, table.columns
            )
        whole = np.full((len(values), *table.shape), np.nan)
        whole[:, table.rows, table.columns] = values
        tables[name] = whole
    return tables
