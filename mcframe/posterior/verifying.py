"""The verb ``verify_posterior``: draws from the exact posterior of factors, by a Gibbs sampler.

The model is that of ``factors``: Gaussian rows x_i and columns w_j, z_ij = x_i'w_j, with the
precisions, means and noise variances of a variational posterior, which stay as they are. What the
draws differ in from that posterior is therefore what its form costs: rows independent of columns,
and a parabola below each log likelihood that is not Gaussian.

Rows given columns, and columns given rows, are drawn by elliptical slice sampling (Murray, Adams
and MacKay, AISTATS 2010) around their Gaussian given the Gaussian entries alone; where there are
no others, that is an exact conditional draw. No step has a length to be tuned, and any log
likelihood will do. Gaussians that count the parabolas of the others too are narrower than the
posterior where labels agree, and chains stick in its tails: least effective sizes were a tenth.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import BackendError
from mcframe.contracts.likelihood import GaussianNoise
from mcframe.contracts.validators import Options, RandomState, suggests_options, whole
from mcframe.model import Model
from mcframe.numerics import factor_loops as loops
from mcframe.numerics.kernels import Compressed
from mcframe.posterior.answer import Posterior, posterior
from mcframe.posterior.factor_state import Gaussians, gaussians_of_groups
from mcframe.posterior.factors import FactorPosterior
from mcframe.posterior.observed import ObservedBlock
from mcframe.posterior.predictive import Predictive, latent_positions, predictive_at
from mcframe.posterior.row_pass import PosteriorRows, row_pass
from mcframe.runtime.progress import current, stage

# Nodes and shares of the quadrature over the noise that is part of a block's predictors.
NOISE_NODES = np.polynomial.hermite_e.hermegauss(16)
NOISE_NODES = NOISE_NODES[0], NOISE_NODES[1] / np.sum(NOISE_NODES[1])
# Moves along ellipses in a half sweep, around the same Gaussian.
SLICES_PER_HALF_SWEEP = 4
# The width of the interval that the logarithm of a factor's scale is searched in.
LOG_SCALE_WIDTH = 2.0
# Halvings of a bracket, after which an angle is 0 up to rounding.
MOST_SHRINKINGS = 200


@attrs.frozen(eq=False)
class FactorSide:
    """The factors of all rows, or of all columns, of all chains: their entries and their priors.

    ``entries`` has the numbers of z by rows (or columns). All rows (or columns) with the same
    ``angle_index``, (n,), move by one angle: of K classes the K columns of Z, since an observation
    ties these together. ``groups`` are those with the same free factors.
    """

    entries: Compressed
    angle_index: IntArray
    precisions: Array
    means: Array
    fixed_values: Array
    groups: tuple[tuple[IntArray, Mask], ...]

    def gaussians(self, others: Array, values: Array, precisions: Array) -> Gaussians:
        """The Gaussians given the other side, of Gaussian observations of all numbers of z."""
        n, width = self.means.shape
        matrices = np.zeros((n, loops.packed_size(width)))
        vectors = np.zeros((n, width))
        entries = self.entries
        observations = entries.starts, entries.across, entries.places, values, precisions
        moments = np.ones(len(others)), others, loops.packed_squares(others)
        loops.add_by_rows(0, n, *observations, *moments, matrices, vectors)
        priors = self.fixed_values, self.precisions, self.means
        return gaussians_of_groups(matrices, vectors, self.groups, *priors)


@attrs.frozen(eq=False)
class NonGaussianBlock:
    """The entries of a block in all chains: y, weights, offsets; and the noise of predictors."""

    block: ObservedBlock
    y: Array
    weights: Array
    offset: Array
    noise: float


@attrs.frozen(eq=False)
class Sampler:
    """Chains side by side: one table of as many copies of the rows and of the columns."""

    posterior: FactorPosterior
    n_chains: int

    @cached_property
    def positions(self) -> tuple[IntArray, IntArray]:
        """The row and the column of each number of z of each chain, among those of all chains."""
        observed, chains = self.posterior.observed, np.arange(self.n_chains)[:, None]
        sides = zip(observed.cells, observed.shape, strict=True)
        rows, columns = ((places + n * chains).ravel() for places, n in sides)
        return rows, columns

    @cached_property
    def sides(self) -> tuple[FactorSide, FactorSide]:
        """The rows and the columns."""
        observed, state, m = self.posterior.observed, self.posterior.state, self.n_chains
        design, (n_rows, n_columns) = state.design, observed.shape
        n = n_rows * m
        of_rows = np.repeat(state.priors.of_rows(design), n, axis=0)
        fixed = np.repeat(design.row_fixed_values, n, axis=0)
        groups = ((np.arange(n), design.row_free),)
        rows = FactorSide(
            self.entries_by(0), np.arange(n), of_rows, np.zeros_like(of_rows), fixed, groups
        )
        # The first one of the columns of Z that a number shares an observation with.
        first_columns = [
            block.columns.start + np.repeat(width * np.arange(block.n_columns), width)
            for block in observed.blocks
            for width in [block.likelihood.width]
        ]
        shifts = n_columns * np.arange(m)[:, None]
        precisions, means = state.priors.of_columns(observed, design)
        columns = FactorSide(
            self.entries_by(1),
            (np.concatenate(first_columns) + shifts).ravel(),
            np.tile(precisions, (m, 1)),
            np.tile(means, (m, 1)),
            np.tile(design.fixed_values, (m, 1)),
            tuple(((members + shifts).ravel(), free) for members, free in design.groups),
        )
        return rows, columns

    def entries_by(self, side: int) -> Compressed:
        """All numbers by rows (0) or columns (1)."""
        order = (self.positions[side], self.positions[1 - side])
        shape = [self.n_chains * n for n in self.posterior.observed.shape]
        shape = shape if side == 0 else shape[::-1]
        places = np.arange(order[0].size, dtype=np.int32)
        return Compressed.of(sp.coo_array((places, order), shape=tuple(shape)).tocsr())

    @cached_property
    def gaussian_entries(self) -> tuple[Array, Array]:
        """Values and precisions of the Gaussian entries; the precision of all others is 0."""
        posterior = self.posterior
        rows = row_pass(posterior.rows, posterior.observed.summaries, posterior.state)
        precisions = rows.precisions / posterior.noise[posterior.observed.cells[1]]
        for block in posterior.observed.blocks:
            if not isinstance(block.likelihood, GaussianNoise):
                precisions[block.part] = 0.0
        return np.tile(rows.values, self.n_chains), np.tile(precisions, self.n_chains)

    @cached_property
    def non_gaussian_blocks(self) -> list["NonGaussianBlock"]:
        """The blocks with observations that are not Gaussian."""
        non_gaussian = list[NonGaussianBlock]()
        m = self.n_chains
        for block in self.posterior.observed.blocks:
            if not isinstance(block.likelihood, GaussianNoise) and block.y.size:
                weights = np.tile(np.broadcast_to(block.weights, block.y.shape), m)
                offset: Array = np.zeros((1, 1))
                if np.ndim(block.offset):
                    of_chain = np.reshape(block.offset, (-1, block.likelihood.width))
                    offset = np.tile(of_chain, (m, 1))
                noise = float(self.posterior.predictor_noise[block.columns][0])
                y = np.tile(block.y, m)
                non_gaussian.append(NonGaussianBlock(block, y, weights, offset, noise))
        return non_gaussian

    def log_likelihoods(self, z: Array, angle_index: IntArray, n: int) -> Array:
        """Sums of log likelihoods that are not Gaussian over entries of one angle, (n,).

        Up to constants.
        """
        m, total = self.n_chains, np.zeros(n)
        for chains in self.non_gaussian_blocks:
            block, y, weights = chains.block, chains.y, chains.weights
            width, value = block.likelihood.width, block.likelihood.value
            predictors = z.reshape(m, -1)[:, block.part].reshape(-1, width) + chains.offset
            predictors = predictors if width > 1 else predictors[:, 0]
            angles = angle_index.reshape(m, -1)[:, block.part].reshape(-1, width)[:, 0]
            if chains.noise:  # of the predictors, integrated
                points, shares = NOISE_NODES
                nodes = [predictors + np.sqrt(chains.noise) * point for point in points]
                terms = np.array([-weights * value(node, y) for node in nodes])
                log_terms = logsumexp(terms, axis=0, b=shares[:, None])
            else:
                log_terms = -weights * value(predictors, y)
            total += np.bincount(angles, log_terms, n)
        return total

    def step(self, side: int, factors: list[Array], rng: np.random.Generator) -> None:
        """Draw rows (0) or columns (1) given the others."""
        moving, others = self.sides[side], factors[1 - side]
        gaussians = moving.gaussians(others, *self.gaussian_entries)
        if not self.non_gaussian_blocks:
            factors[side] = gaussians.draws(rng, 1)[0]
            return
        for auxiliary in gaussians.draws(rng, SLICES_PER_HALF_SWEEP):
            factors[side] = self.on_slice(side, factors, gaussians.means, auxiliary, rng)

    def on_slice(
        self,
        side: int,
        factors: list[Array],
        mean: Array,
        auxiliary: Array,
        rng: np.random.Generator,
    ) -> Array:
        """Rows (0) or columns (1) moved along the ellipse through these and auxiliary draws.

        ``log_level`` is the logarithm of the likelihood above which the slice lies.
        """
        moving, others = self.sides[side], factors[1 - side]
        moving_places, other_places = self.positions[side], self.positions[1 - side]
        angle_index, n = moving.angle_index[moving_places], len(moving.angle_index)

        def predictors(numbers: Array) -> Array:
            return np.asarray(np.einsum("nk,nk->n", numbers[moving_places], others[other_places]))

        mean_z, z_before = predictors(mean), predictors(factors[side])
        deviation, auxiliary_deviation = z_before - mean_z, predictors(auxiliary) - mean_z
        log_level = self.log_likelihoods(z_before, angle_index, n) - rng.exponential(size=n)
        angles = rng.uniform(0.0, 2.0 * np.pi, n)
        low, high = angles - 2.0 * np.pi, angles.copy()
        for _ in range(MOST_SHRINKINGS):
            z = (
                mean_z
                + deviation * np.cos(angles)[angle_index]
                + auxiliary_deviation * np.sin(angles)[angle_index]
            )
            below_level = self.log_likelihoods(z, angle_index, n) < log_level
            if not below_level.any():
                break
            low = np.where(below_level & (angles < 0.0), angles, low)
            high = np.where(below_level & (angles >= 0.0), angles, high)
            angles = np.where(below_level, rng.uniform(low, high), angles)
        else:
            raise BackendError("the sampler found no point on a slice: a likelihood is not finite")
        angle = angles[moving.angle_index][:, None]
        return mean + (factors[side] - mean) * np.cos(angle) + (auxiliary - mean) * np.sin(angle)

    def rescale(self, factors: list[Array], rng: np.random.Generator) -> None:
        """Draw the scale of each factor of each chain: rows times exp(t), columns over it.

        z does not change, so that only the priors and the volume count: t has the log density
        ``(n_rows - n_columns) t - (exp(2t) R + exp(-2t) C) / 2``, with R and C the sums of
        squares over the variances of the priors.
        """
        k = self.posterior.n_factors
        squares = [
            np.sum(
                (side.precisions * np.square(numbers)).reshape(
                    self.n_chains, -1, numbers.shape[1]
                ),
                1,
            )
            for side, numbers in zip(self.sides, factors, strict=True)
        ]
        of_rows, of_columns = (sums[:, :k] for sums in squares)
        n_rows, n_columns = self.posterior.observed.shape
        excess_rows = float(n_rows - n_columns)

        def log_density(t: Array) -> Array:
            quadratic = of_rows * np.expm1(2.0 * t) + of_columns * np.expm1(-2.0 * t)
            return np.asarray(excess_rows * t - 0.5 * quadratic)

        log_level = -rng.exponential(size=of_rows.shape)
        low = -LOG_SCALE_WIDTH * rng.random(of_rows.shape)
        high = low + LOG_SCALE_WIDTH
        t = rng.uniform(low, high)
        while np.any(below_level := log_density(t) < log_level):
            low = np.where(below_level & (t < 0.0), t, low)
            high = np.where(below_level & (t > 0.0), t, high)
            t = np.where(below_level, rng.uniform(low, high), t)
        for side, sign in enumerate((1.0, -1.0)):
            numbers = factors[side].reshape(self.n_chains, -1, factors[side].shape[1])
            numbers[:, :, :k] *= np.exp(sign * t)[:, None]

    def initial_factors(self, rng: np.random.Generator) -> list[Array]:
        """Every other chain from the variational posterior, the others from the prior."""
        rows = self.posterior.rows_given(np.arange(self.posterior.observed.shape[0]))
        factors = []
        for side, gaussians in zip(self.sides, (rows, self.posterior.state.columns), strict=True):
            drawn = gaussians.draws(rng, self.n_chains).reshape(side.means.shape)
            prior = np.array(side.fixed_values)
            for members, free in side.groups:
                numbers = np.ix_(members, np.flatnonzero(free))
                noise = rng.standard_normal(side.means[numbers].shape)
                prior[numbers] = side.means[numbers] + noise / np.sqrt(side.precisions[numbers])
            chains = np.repeat(np.arange(self.n_chains) % 2 == 1, len(drawn) // self.n_chains)
            factors.append(np.where(chains[:, None], prior, drawn))
        return factors

    def sweeps(self, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """Rows (chains x n_rows x K) and columns after each sweep, without end."""
        factors = self.initial_factors(rng)
        while True:
            for side in (0, 1):
                self.step(side, factors, rng)
            self.rescale(factors, rng)
            yield tuple(array.reshape(self.n_chains, -1, array.shape[1]) for array in factors)  # type: ignore[misc]


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
    sampler = Sampler(posterior, n_chains)
    draws = np.empty((n_chains, n_draws, rows.size))
    for sweep, (x, w) in enumerate(sampler.sweeps(rng)):
        if sweep >= burn_in:
            draws[:, sweep - burn_in] = np.einsum("cnk,cnk->cn", x[:, rows], w[:, columns])
        current().count(sweep + 1, burn_in + n_draws, "sweeps", rated=True)
        if sweep + 1 == burn_in + n_draws:
            break
    noise = np.sqrt(posterior.predictor_noise[columns])
    if noise.any():
        draws += noise * rng.standard_normal(draws.shape)
    return np.asarray(draws + posterior.observed.centres[columns])


def effective_sizes(draws: Array) -> Array:
    """Numbers of independent draws whose mean is as exact, of draws (chains x m x N): (N,).

    By autocorrelations within and variances between chains, summed over Geyer's initial monotone
    sequence of pairs (Vehtari, Gelman, Simpson, Carpenter and Buerkner, Bayesian Analysis 2021,
    section 3.2).
    """
    n_chains, m = draws.shape[:2]
    deviations = draws - draws.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(deviations, 2 * m, axis=1)) ** 2
    covariances = np.fft.irfft(spectrum, axis=1)[:, :m].mean(axis=0) / m
    within = covariances[0] * m / (m - 1.0)
    between = draws.mean(axis=1).var(axis=0, ddof=1) if n_chains > 1 else 0.0
    total = within * (m - 1.0) / m + between
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = 1.0 - (within - covariances) / total
    correlations[0] = 1.0
    pairs = correlations[: m // 2 * 2].reshape(m // 2, 2, *draws.shape[2:]).sum(axis=1)
    positive = np.cumprod(pairs > 0.0, axis=0, dtype=bool)
    times = 2.0 * np.sum(np.minimum.accumulate(pairs, axis=0) * positive, axis=0) - 1.0
    sizes = n_chains * m / np.maximum(times, 1.0 / np.log10(max(n_chains * m, 10)))
    return np.where(total > 0.0, sizes, n_chains * float(m))


# Chains, half of which begin at the prior, and the most numbers of z that are compared.
CHAINS, MOST_COMPARED_NUMBERS = 8, 2000
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
        return "\n".join(lines)


@suggests_options
def verify_posterior(
    model: Model,
    data: object,
    *,
    factors: int | str = "auto",
    n_draws: int = 4000,
    random_state: RandomState = 0,
    progress: bool | None = None,
) -> PosteriorVerification:
    """Compare the posterior that ``mc.posterior`` finds with draws from the exact one.

    The draws are those of a Gibbs sampler of the same Gaussian factors, with the precisions, noise
    variances and thresholds that were found. Half of its chains begin at the prior. So the
    difference is due to the approximations of the variational posterior alone: rows independent
    of columns, and quadratic bounds on log likelihoods that are not Gaussian. Use it for small
    tables, since a sweep takes at least a few milliseconds.

    Parameters
    ----------
    model, data, factors, random_state : as in ``mc.posterior``
    n_draws : int, default 4000
        The number of draws that are kept, over 8 chains. Each chain first discards 200 draws and
        half as many as it keeps.
    progress : bool, optional
        As in ``mc.fit``: the sweeps of the sampler.

    Returns
    -------
    PosteriorVerification
        Its text has the errors of the means of z at missing cells in units of their standard
        deviations, the ratio of variances, and the loss of log predictive density.

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
        sd_errors=square_errors / np.maximum(2.0 * sd, 1e-300),
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
