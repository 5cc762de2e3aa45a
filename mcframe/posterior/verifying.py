"""The verb ``verify_posterior``: a variational posterior beside draws from the exact one.

The chains of ``chains`` draw rows and columns with the precisions, noise variances and thresholds
of the variational posterior, which stay as they are. What the draws differ in from it is therefore
what its form costs: Gaussian rows and columns, independent of each other in large tables, and
there a parabola below each log likelihood that is not Gaussian.
"""

from typing import Any

import attrs
import numpy as np
from scipy.special import logsumexp, ndtri

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import BackendError
from mcframe.contracts.rounding import TINY
from mcframe.contracts.showing import percent
from mcframe.contracts.validators import (
    Options,
    RandomState,
    suggest_options,
    suggests_options,
    whole,
)
from mcframe.model import Model
from mcframe.posterior.answer import Posterior, posterior
from mcframe.posterior.chain_diagnostics import effective_sizes
from mcframe.posterior.chains import FactorChains
from mcframe.posterior.factors import FactorPosterior
from mcframe.posterior.predictive import Predictive, latent_positions, predictive_at
from mcframe.posterior.row_pass import PosteriorRows
from mcframe.posterior.sampling import CHAINS
from mcframe.runtime.progress import current, stage


def gibbs_draws(
    posterior: FactorPosterior,
    rows: IntArray,
    columns: IntArray,
    n_draws: int,
    rng: np.random.Generator,
    n_chains: int = 8,
    burn_in: int | None = None,
) -> Array:
    """Draws of z at some cells from the exact posterior, (n_chains x n_draws x cells).

    z includes effects and the noise that is part of predictors, as in ``FactorPosterior.draws``.
    Precisions and noise variances are those of the posterior.

    Parameters
    ----------
    posterior : FactorPosterior
    rows, columns : arrays (cells,)
        Rows, and columns of Z.
    n_draws : int
        Sweeps of each chain that are kept.
    rng : numpy.random.Generator
    n_chains : int, default 8
        Half of them begin at the prior.
    burn_in : int, optional
        Sweeps of each chain before these; 200 and a half of ``n_draws`` if none are given.
    """
    burn_in = 200 + n_draws // 2 if burn_in is None else burn_in
    chains = FactorChains.begin(
        posterior.refined, n_chains, rng, from_prior=True, learns_priors=False
    )
    draws = np.empty((n_chains, n_draws, rows.size))
    for sweep in range(burn_in + n_draws):
        chains.sweep()
        if sweep >= burn_in:
            x, w = chains.rows[:, rows], chains.columns[:, columns]
            draws[:, sweep - burn_in] = np.einsum("cnk,cnk->cn", x, w)
        current().count(sweep + 1, burn_in + n_draws, "sweeps", rated=True)
    noise = np.sqrt(posterior.predictor_noise[columns])
    if noise.any():
        draws += noise * rng.standard_normal(draws.shape)
    return np.asarray(draws + posterior.observed.centres[columns])


# The most numbers of z that are compared. Half of the chains begin at the prior.
MOST_COMPARED_NUMBERS = 2000
# New observations of a cell at which densities are compared, and draws of z for each density.
OBSERVATIONS_PER_CELL, DRAWS_PER_DENSITY = 32, 512


@attrs.frozen(eq=False)
class CellComparison:
    """Predictors z of missing cells of a block under both posteriors, in standard units.

    Attributes
    ----------
    block : str
    rows, columns : arrays (N,)
        Missing cells, or all where none is missing; at most 2,000 numbers of z, drawn at random.
    means, sds : arrays (N,), of K classes (N x K)
        Moments of z under the variational posterior.
    exact_means, exact_sds : arrays
        Those of the draws.
    mean_errors, sd_errors : arrays
        Monte Carlo standard errors of these.
    coverages : array
        Shares of the draws in the 90 % interval of the variational posterior.
    sizes : array
        Effective numbers of draws.
    log_densities, exact_log_densities : arrays (N,)
        E[log p(y)] under both posteriors, y new observations drawn from the exact one: no
        posterior has a larger one than the exact.
    lost_error : float
        The Monte Carlo standard error of the mean difference between these.
    """

    block: str
    rows: IntArray
    columns: IntArray
    means: Array
    sds: Array
    exact_means: Array
    exact_sds: Array
    mean_errors: Array
    sd_errors: Array
    coverages: Array
    sizes: Array
    log_densities: Array
    exact_log_densities: Array
    lost_error: float

    @property
    def distances(self) -> Array:
        """|difference of means| / exact sd."""
        return np.abs(self.means - self.exact_means) / np.maximum(self.exact_sds, TINY)

    @property
    def variance_factors(self) -> Array:
        """Variational variances over exact ones: below 1 where the posterior is too sure."""
        return np.square(self.sds / np.maximum(self.exact_sds, TINY))

    @property
    def lost(self) -> float:
        """The mean log density that the variational posterior loses, in nats a cell."""
        return float(np.mean(self.exact_log_densities - self.log_densities))

    def __str__(self) -> str:
        mean, least, largest = (
            percent(float(number(self.coverages))) for number in (np.mean, np.min, np.max)
        )
        text = (
            f"90% intervals of z of {self.block!r} hold {mean} of the draws"
            f" (those of single cells {least} to {largest})"
        )
        return text + (": the posterior is too sure" if np.mean(self.coverages) < 0.85 else "")


@attrs.frozen(eq=False, repr=False)
class PosteriorVerification:
    """A variational posterior and draws from the exact one, at the same precisions and noise.

    Attributes
    ----------
    posterior : Posterior
    n_draws : int
        The number of draws that were kept, over all chains.
    comparisons : tuple of CellComparison
        One for each block.
    """

    posterior: Posterior
    n_draws: int
    comparisons: tuple[CellComparison, ...]

    def __getitem__(self, block: str) -> CellComparison:
        """The comparison of a block."""
        self.posterior.model.block(block)
        return next(comparison for comparison in self.comparisons if comparison.block == block)

    def __repr__(self) -> str:
        head = ("means off, in sd", "variance / exact", "log density lost", "effective")
        lines = [
            f"A variational posterior and {self.n_draws} draws from the exact one, at the same"
            " precisions",
            f"{'':14}{head[0]:>20}{head[1]:>24}{head[2]:>20}{head[3]:>11}",
            f"{'block':14}{'median   largest':>20}{'least  median  largest':>24}"
            f"{'nats a cell':>20}{'draws':>11}",
        ]
        for comparison in self.comparisons:
            distances, factors = comparison.distances, comparison.variance_factors
            lines.append(
                f"{comparison.block[:13]:14}{np.median(distances):11.3f}{np.max(distances):9.3f}"
                f"{np.min(factors):10.2f}{np.median(factors):7.2f}{np.max(factors):7.2f}"
                f"{comparison.lost:11.4f} ± {comparison.lost_error:.4f}"
                f"{np.min(comparison.sizes):11.0f}"
            )
        return "\n".join([*lines, *map(str, self.comparisons)])


suggest_options(PosteriorVerification)


@suggests_options
def verify_posterior(
    model: Model,
    data: object,
    *,
    factors: int | str = "auto",
    n_draws: int = 4000,
    random_state: RandomState = 0,
    progress: bool | None = None,
    row_attributes: Any = None,
    column_attributes: Any = None,
) -> PosteriorVerification:
    """Compare the posterior that ``mc.posterior`` finds with draws from the exact one.

    The draws are those of the chains of ``mc.posterior(method="sampler")`` for the same Gaussian
    factors, with the precisions, noise variances, thresholds and scales of attributes that were
    found. Half of them begin at the prior. So the difference is due to the approximations of the
    variational posterior alone: Gaussian rows and columns, and in large tables their independence
    and quadratic bounds on log likelihoods that are not Gaussian. Use it for small tables, since a
    sweep takes at least a few milliseconds.

    Parameters
    ----------
    model, data, factors, random_state, row_attributes, column_attributes : as in ``mc.posterior``
    n_draws : int, default 4000
        The number of draws that are kept, over 8 chains. Each chain first discards 200 draws and
        half as many as it keeps.
    progress : bool, optional
        As in ``mc.fit``: the sweeps of the sampler.

    Returns
    -------
    PosteriorVerification
        Its text has the errors of the means of z at missing cells in units of their standard
        deviations, the ratio of variances, the loss of log predictive density, and what 90 %
        intervals hold of the exact posterior.

    Raises
    ------
    BackendError
        If the posterior is not one of factors.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> from mcframe.posterior.verifying import verify_posterior
    >>> x = np.random.default_rng(0).standard_normal((8, 4))
    >>> x[0, 0] = np.nan
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    >>> found = verify_posterior(model, {"x": x}, factors=1, n_draws=400)
    >>> bool(found["x"].distances[0] < 1.0)
    True
    """
    n_kept = whole(n_draws, "n_draws", least=8 * CHAINS) // CHAINS
    shown = Options.progress(progress)
    seed = Options.random_state(random_state)
    options: Any = {"factors": factors, "random_state": seed, "progress": shown}
    options |= {"row_attributes": row_attributes, "column_attributes": column_attributes}
    fitted = posterior(model, data, tol=1e-7, max_iter=5000, **options)
    engine, problem = fitted.engine, fitted.problem
    if not isinstance(engine, FactorPosterior):
        raise BackendError(
            "verify_posterior: this posterior is one of Gaussian rows; the sampler is of factors"
            " (a NuclearNorm among the terms)"
        )
    if not isinstance(engine.rows, PosteriorRows):
        raise BackendError(
            "verify_posterior: rows in partitions were given, and the sampler needs all rows in"
            " this process; give arrays, for example of a sample of the rows"
        )
    rng = np.random.default_rng(seed)
    names = [block.name for block in fitted.model.blocks]
    cells = [missing_cells(fitted, name, rng) for name in names]
    z_places = [
        latent_positions(problem, name, *positions)
        for name, positions in zip(names, cells, strict=True)
    ]
    rows, columns = (
        np.concatenate([positions[k].ravel() for positions in z_places]) for k in (0, 1)
    )
    with stage("verify_posterior", shown):
        draws = gibbs_draws(engine, rows, columns, n_kept, rng, CHAINS)
    ends = np.cumsum([positions[0].size for positions in z_places])[:-1]
    comparisons = []
    for name, positions, places, z in zip(
        names, cells, z_places, np.split(draws, ends, 2), strict=True
    ):
        of_block = z.reshape(CHAINS, n_kept, *places[0].shape)
        comparisons.append(compare_block(fitted, name, positions, of_block, rng))
    return PosteriorVerification(fitted, n_kept * CHAINS, tuple(comparisons))


def missing_cells(
    fitted: Posterior, name: str, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Rows and columns of the missing cells of a block, or of all; a sample of many."""
    table = fitted.tables[name].observed_entries()
    seen = np.zeros(table.shape, dtype=bool)
    seen[table.rows, table.columns] = True
    rows, columns = np.nonzero(~seen if not seen.all() else seen)
    max_cells = max(MOST_COMPARED_NUMBERS // fitted.model.block(name).likelihood.width, 1)
    if rows.size > max_cells:
        chosen = np.sort(rng.choice(rows.size, max_cells, replace=False))
        rows, columns = rows[chosen], columns[chosen]
    return rows, columns


def compare_block(
    fitted: Posterior,
    name: str,
    cells: tuple[IntArray, IntArray],
    draws: Array,
    rng: np.random.Generator,
) -> CellComparison:
    """The comparison of a block, of draws of z (chains x m x N, or x N x K)."""
    mean = draws.mean(axis=(0, 1))
    squares = np.square(draws - mean)
    sd, sizes = np.sqrt(squares.mean(axis=(0, 1))), effective_sizes(draws)
    square_errors = squares.std(axis=(0, 1)) / np.sqrt(effective_sizes(squares))
    variational = predictive_at(fitted.engine, fitted.problem, name, *cells)
    predictors = variational
    coverages = np.mean(
        np.abs(draws - variational.means[0]) <= ndtri(0.95) * np.sqrt(variational.variances[0]),
        axis=(0, 1),
    )
    if not variational.likelihood.location:  # values of locations are taken less offsets
        places = fitted.problem.latent_places(name, *cells)
        offset = fitted.tables[name].pending
        draws = offset.invert(draws, *places)
        predictors = attrs.evolve(variational, means=offset.invert(variational.means, *places))
    exact, approximate = log_densities(predictors, draws, rng)
    return CellComparison(
        block=name,
        rows=cells[0],
        columns=cells[1],
        means=variational.means[0],
        sds=np.sqrt(variational.variances[0]),
        exact_means=mean,
        exact_sds=sd,
        mean_errors=sd / np.sqrt(sizes),
        sd_errors=square_errors / np.maximum(2.0 * sd, TINY),
        coverages=coverages,
        sizes=sizes,
        log_densities=approximate.mean(axis=0),
        exact_log_densities=exact.mean(axis=0),
        lost_error=float(np.std((exact - approximate).mean(axis=1)) / np.sqrt(len(approximate))),
    )


def log_densities(
    variational: Predictive, draws: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """log p of new observations (32 x N) under draws of z and under the variational posterior.

    Observations are drawn given z of one half of the chains, the densities are means over draws
    of the other half.
    """
    likelihood: Any = variational.likelihood
    noise, shape = variational.noise, draws.shape[2:]

    def thinned(chains: Array, count: int) -> Array:
        """Draws of some chains, evenly spaced (count x N, or x N x K)."""
        flat = chains.reshape(-1, *shape)
        return flat[np.linspace(0, len(flat) - 1, count).astype(int)]

    half = len(draws) // 2
    for_observations, for_densities = (
        thinned(draws[:half], OBSERVATIONS_PER_CELL),
        thinned(draws[half:], DRAWS_PER_DENSITY),
    )
    if noise is None:
        y = likelihood.sample(for_observations.reshape(-1, *shape[1:]), rng).reshape(
            OBSERVATIONS_PER_CELL, -1
        )
    else:
        y = for_observations + np.sqrt(noise) * rng.standard_normal(for_observations.shape)
    exact, approximate = np.empty(y.shape), np.empty(y.shape)
    for k, values in enumerate(y):
        approximate[k] = variational.log_density(values)
        if noise is None:
            repeated = for_densities.reshape(-1, *shape[1:]), np.tile(values, DRAWS_PER_DENSITY)
            log_terms = likelihood.log_likelihood(*repeated).reshape(DRAWS_PER_DENSITY, -1)
        else:
            log_terms = -0.5 * (
                np.square(values - for_densities) / noise + np.log(2.0 * np.pi * noise)
            )
        exact[k] = logsumexp(log_terms, axis=0) - np.log(DRAWS_PER_DENSITY)
    return exact, approximate
