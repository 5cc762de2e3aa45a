"""The verb ``verify_posterior``: a variational posterior and draws from the exact one."""

from typing import Any

import attrs
import numpy as np
from scipy.special import logsumexp

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import BackendError
from mcframe.contracts.validators import whole
from mcframe.model import Model
from mcframe.posterior.answer import Posterior
from mcframe.posterior.factor_rows import RowsHere
from mcframe.posterior.factors import FactorPosterior
from mcframe.posterior.fitting import posterior
from mcframe.posterior.gibbs import effective_sizes, sampled
from mcframe.posterior.predictive import Predictive, numbers_of, predictive_at

# Chains, half of which begin at the prior, and the most numbers of z that are compared.
CHAINS, MOST_CELLS = 8, 2000
# New observations of a cell at which densities are compared, and draws of z for each density.
OBSERVATIONS, MIXED = 32, 512


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
    sizes: Array
    log_densities: Array
    exact_log_densities: Array
    lost_error: float

    @property
    def distances(self) -> Array:
        """|difference of means| / exact sd."""
        return np.abs(self.means - self.exact_means) / np.maximum(self.exact_sds, 1e-300)

    @property
    def variance_factors(self) -> Array:
        """Variational variances over exact ones: below 1 where the posterior is too sure."""
        return np.square(self.sds / np.maximum(self.exact_sds, 1e-300))

    @property
    def lost(self) -> float:
        """The mean log density that the variational posterior loses, in nats a cell."""
        return float(np.mean(self.exact_log_densities - self.log_densities))


@attrs.frozen(eq=False, repr=False)
class PosteriorVerification:
    """A variational posterior and draws from the exact one, at the same precisions and noise.

    Attributes
    ----------
    posterior : Posterior
    n_draws : int
        Draws that were kept, over all chains.
    comparisons : tuple of CellComparison
        One a block.
    """

    posterior: Posterior
    n_draws: int
    comparisons: tuple[CellComparison, ...]

    def __getitem__(self, block: str) -> CellComparison:
        """The comparison of a block."""
        self.posterior.model.block(block)
        return next(one for one in self.comparisons if one.block == block)

    def __repr__(self) -> str:
        head = ("means off, in sd", "variance / exact", "log density lost", "effective")
        lines = [
            f"A variational posterior and {self.n_draws} draws from the exact one, at the same"
            " precisions",
            f"{'':14}{head[0]:>20}{head[1]:>24}{head[2]:>20}{head[3]:>11}",
            f"{'block':14}{'median   largest':>20}{'least  median  largest':>24}"
            f"{'nats a cell':>20}{'draws':>11}",
        ]
        for one in self.comparisons:
            off, factors = one.distances, one.variance_factors
            lines.append(
                f"{one.block[:13]:14}{np.median(off):11.3f}{np.max(off):9.3f}"
                f"{np.min(factors):10.2f}{np.median(factors):7.2f}{np.max(factors):7.2f}"
                f"{one.lost:11.4f} ± {one.lost_error:.4f}{np.min(one.sizes):11.0f}"
            )
        return "\n".join(lines)


def verify_posterior(
    model: Model,
    data: Any,
    *,
    factors: int | str = "auto",
    n_draws: int = 4000,
    random_state: int = 0,
) -> PosteriorVerification:
    """Compare the posterior that ``mc.posterior`` finds with draws from the exact one.

    The draws are those of a Gibbs sampler of the same Gaussian factors, at the precisions, noise
    variances and thresholds that were found; half of its chains begin at the prior. What differs
    is therefore what the form of the variational posterior costs: rows independent of columns,
    and parabolas below log likelihoods that are not Gaussian. A reference for small tables: a
    sweep costs a few milliseconds at least.

    Parameters
    ----------
    model, data, factors, random_state : as in ``mc.posterior``
    n_draws : int, default 4000
        Draws that are kept, over 8 chains; each begins with 200 and a half as many more.

    Returns
    -------
    PosteriorVerification
        Printed: how far means of z at missing cells are off in units of their standard deviations,
        by what factor variances are too small, and what is lost in log predictive density.

    Raises
    ------
    BackendError
        Where the posterior is not one of factors.

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
    kept = whole(n_draws, "n_draws", least=8 * CHAINS) // CHAINS
    fitted = posterior(
        model, data, factors=factors, tol=1e-7, max_iter=5000, random_state=random_state
    )
    engine, problem = fitted.engine, fitted.problem
    if not isinstance(engine, FactorPosterior):
        raise BackendError(
            "verify_posterior: this posterior is one of Gaussian rows; the sampler is of factors"
            " (a NuclearNorm among the terms)"
        )
    if not isinstance(engine.rows, RowsHere):
        raise BackendError(
            "verify_posterior: rows in partitions were given, and the sampler needs all rows in"
            " this process; give arrays, for example of a sample of the rows"
        )
    rng = np.random.default_rng(random_state)
    names = [block.name for block in fitted.model.blocks]
    cells = [missing_cells(fitted, name, rng) for name in names]
    numbers = [numbers_of(problem, name, *at) for name, at in zip(names, cells, strict=True)]
    rows, columns = (np.concatenate([at[k].ravel() for at in numbers]) for k in (0, 1))
    draws = sampled(engine, rows, columns, kept, rng, CHAINS)
    ends = np.cumsum([at[0].size for at in numbers])[:-1]
    comparisons = []
    for name, at, places, z in zip(names, cells, numbers, np.split(draws, ends, 2), strict=True):
        of_block = z.reshape(CHAINS, kept, *places[0].shape)
        comparisons.append(compared(fitted, name, at, of_block, rng))
    return PosteriorVerification(fitted, kept * CHAINS, tuple(comparisons))


def missing_cells(
    fitted: Posterior, name: str, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Rows and columns of the missing cells of a block, or of all; a sample of many."""
    table = fitted.tables[name].observed_entries()
    seen = np.zeros(table.shape, dtype=bool)
    seen[table.rows, table.columns] = True
    rows, columns = np.nonzero(~seen if not seen.all() else seen)
    most = max(MOST_CELLS // fitted.model.block(name).likelihood.width, 1)
    if rows.size > most:
        chosen = np.sort(rng.choice(rows.size, most, replace=False))
        rows, columns = rows[chosen], columns[chosen]
    return rows, columns


def compared(
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
    spread = squares.std(axis=(0, 1)) / np.sqrt(effective_sizes(squares))
    variational = predictive_at(fitted.engine, fitted.problem, name, *cells)
    # The values of locations are taken less offsets.
    offset: Any = None
    if not variational.likelihood.location:
        offset = fitted.tables[name].offset_at(*cells)
    exact, approximate = log_densities(variational, draws, 0.0 if offset is None else offset, rng)
    return CellComparison(
        block=name,
        rows=cells[0],
        columns=cells[1],
        means=variational.means[0],
        sds=np.sqrt(variational.variances[0]),
        exact_means=mean,
        exact_sds=sd,
        mean_errors=sd / np.sqrt(sizes),
        sd_errors=spread / np.maximum(2.0 * sd, 1e-300),
        sizes=sizes,
        log_densities=approximate.mean(axis=0),
        exact_log_densities=exact.mean(axis=0),
        lost_error=float(np.std((exact - approximate).mean(axis=1)) / np.sqrt(len(approximate))),
    )


def log_densities(
    variational: Predictive, draws: Array, offset: Array | float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """log p of new observations (32 x N) under draws of z and under the variational posterior.

    Observations are drawn given z of one half of the chains, the densities are means over draws
    of the other half.
    """
    likelihood: Any = variational.likelihood
    noise, shape = variational.noise, draws.shape[2:]

    def some(chains: Array, count: int) -> Array:
        """Draws of some chains, evenly spaced (count x N, or x N x K)."""
        flat = chains.reshape(-1, *shape)
        return flat[np.linspace(0, len(flat) - 1, count).astype(int)] + offset

    half = len(draws) // 2
    first, second = some(draws[:half], OBSERVATIONS), some(draws[half:], MIXED)
    variational = attrs.evolve(variational, means=variational.means + offset)
    if noise is None:
        y = likelihood.sample(first.reshape(-1, *shape[1:]), rng).reshape(OBSERVATIONS, -1)
    else:
        y = first + np.sqrt(noise) * rng.standard_normal(first.shape)
    exact, approximate = np.empty(y.shape), np.empty(y.shape)
    for k, values in enumerate(y):
        approximate[k] = variational.log_density(values)
        if noise is None:
            repeated = second.reshape(-1, *shape[1:]), np.tile(values, MIXED)
            each = likelihood.log_likelihood(*repeated).reshape(MIXED, -1)
        else:
            each = -0.5 * (np.square(values - second) / noise + np.log(2.0 * np.pi * noise))
        exact[k] = logsumexp(each, axis=0) - np.log(MIXED)
    return exact, approximate
