"""Draws from the exact posterior of Gaussian factors, by a Gibbs sampler: a reference.

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

import attrs
import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import BackendError
from mcframe.likelihoods import Gaussian
from mcframe.numerics import factor_loops as loops
from mcframe.numerics.kernels import Compressed
from mcframe.posterior.factor_rows import row_pass
from mcframe.posterior.factor_state import Gaussians, gaussians_of_groups
from mcframe.posterior.factors import FactorPosterior
from mcframe.posterior.observed import ObservedBlock

# Nodes and shares of the quadrature over the noise that is part of a block's predictors.
NOISE_NODES = np.polynomial.hermite_e.hermegauss(16)
NOISE_NODES = NOISE_NODES[0], NOISE_NODES[1] / np.sum(NOISE_NODES[1])
# Moves along ellipses in a half sweep, around the same Gaussian.
SLICES = 4
# The width of the interval that the logarithm of a factor's scale is searched in.
LOG_SCALES = 2.0
# Halvings of a bracket, after which an angle is 0 up to rounding.
SHRINKINGS = 200


@attrs.frozen(eq=False)
class HalfSweep:
    """Rows, or columns, of all chains: which numbers of z are theirs, and their priors.

    ``numbers`` has them by rows (or columns). All rows (or columns) of one unit, (n,), move by one
    angle: of K classes the K columns of Z, since an observation ties these together. ``groups``
    are those with the same free numbers.
    """

    numbers: Compressed
    units: IntArray
    precisions: Array
    means: Array
    given: Array
    groups: tuple[tuple[IntArray, Mask], ...]

    def gaussians(self, others: Array, values: Array, precisions: Array) -> Gaussians:
        """The Gaussians given the other side, of Gaussian observations of all numbers of z."""
        n, width = self.means.shape
        matrices = np.zeros((n, loops.packed_size(width)))
        vectors = np.zeros((n, width))
        rows = self.numbers
        numbers = rows.starts, rows.across, rows.places, values, precisions
        moments = np.ones(len(others)), others, loops.packed_squares(others)
        loops.add_by_rows(0, n, *numbers, *moments, matrices, vectors)
        priors = self.given, self.precisions, self.means
        return gaussians_of_groups(matrices, vectors, self.groups, *priors)


@attrs.frozen(eq=False)
class Sampler:
    """Chains side by side: one table of as many copies of the rows and of the columns."""

    posterior: FactorPosterior
    n_chains: int

    @cached_property
    def at(self) -> tuple[IntArray, IntArray]:
        """The row and the column of each number of z of each chain, among those of all chains."""
        observed, chains = self.posterior.observed, np.arange(self.n_chains)[:, None]
        sides = zip(observed.cells, observed.shape, strict=True)
        rows, columns = ((places + n * chains).ravel() for places, n in sides)
        return rows, columns

    @cached_property
    def sides(self) -> tuple[HalfSweep, HalfSweep]:
        """The rows and the columns."""
        observed, state, m = self.posterior.observed, self.posterior.state, self.n_chains
        design, (n_rows, n_columns) = state.design, observed.shape
        n = n_rows * m
        of_rows = np.repeat(state.priors.of_rows(design), n, axis=0)
        given = np.repeat(design.row_given, n, axis=0)
        groups = ((np.arange(n), design.row_free),)
        rows = HalfSweep(self.by(0), np.arange(n), of_rows, np.zeros_like(of_rows), given, groups)
        # The first one of the columns of Z that a number shares an observation with.
        units = [
            block.columns.start + np.repeat(width * np.arange(block.n_columns), width)
            for block in observed.blocks
            for width in [block.likelihood.width]
        ]
        shifts = n_columns * np.arange(m)[:, None]
        precisions, means = state.priors.of_columns(observed, design)
        columns = HalfSweep(
            self.by(1),
            (np.concatenate(units) + shifts).ravel(),
            np.tile(precisions, (m, 1)),
            np.tile(means, (m, 1)),
            np.tile(design.given, (m, 1)),
            tuple(((here + shifts).ravel(), free) for here, free in design.groups),
        )
        return rows, columns

    def by(self, side: int) -> Compressed:
        """All numbers by rows (0) or columns (1)."""
        order = (self.at[side], self.at[1 - side])
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
            if not isinstance(block.likelihood, Gaussian):
                precisions[block.part] = 0.0
        return np.tile(rows.values, self.n_chains), np.tile(precisions, self.n_chains)

    @cached_property
    def others(self) -> list[tuple[ObservedBlock, Array, Array, Array, float]]:
        """Blocks that are not Gaussian: y, weights, offsets of all chains, noise of predictors."""
        others: list[tuple[ObservedBlock, Array, Array, Array, float]] = []
        m = self.n_chains
        for block in self.posterior.observed.blocks:
            if not isinstance(block.likelihood, Gaussian) and block.y.size:
                weights = np.tile(np.broadcast_to(block.weights, block.y.shape), m)
                offset: Array = np.zeros((1, 1))
                if np.ndim(block.offset):
                    of_chain = np.reshape(block.offset, (-1, block.likelihood.width))
                    offset = np.tile(of_chain, (m, 1))
                noise = float(self.posterior.own_noise[block.columns][0])
                others.append((block, np.tile(block.y, m), weights, offset, noise))
        return others

    def log_likelihoods(self, z: Array, units: IntArray, n: int) -> Array:
        """The sums over units, (n,), of log likelihoods that are not Gaussian, up to constants."""
        m, total = self.n_chains, np.zeros(n)
        for block, y, weights, offset, noise in self.others:
            width, value = block.likelihood.width, block.likelihood.value
            here = z.reshape(m, -1)[:, block.part].reshape(-1, width) + offset
            here = here if width > 1 else here[:, 0]
            unit = units.reshape(m, -1)[:, block.part].reshape(-1, width)[:, 0]
            if noise:  # of the predictors, integrated
                points, shares = NOISE_NODES
                nodes = [here + np.sqrt(noise) * point for point in points]
                terms = np.array([-weights * value(node, y) for node in nodes])
                each = logsumexp(terms, axis=0, b=shares[:, None])
            else:
                each = -weights * value(here, y)
            total += np.bincount(unit, each, n)
        return total

    def step(self, side: int, both: list[Array], rng: np.random.Generator) -> None:
        """Draw rows (0) or columns (1) given the others."""
        moving, others = self.sides[side], both[1 - side]
        gaussians = moving.gaussians(others, *self.gaussian_entries)
        if not self.others:
            both[side] = gaussians.draws(rng, 1)[0]
            return
        for drawn in gaussians.draws(rng, SLICES):
            both[side] = self.on_slice(side, both, gaussians.means, drawn, rng)

    def on_slice(
        self, side: int, both: list[Array], mean: Array, drawn: Array, rng: np.random.Generator
    ) -> Array:
        """Rows (0) or columns (1) moved along the ellipse through these and drawn ones."""
        moving, others = self.sides[side], both[1 - side]
        here, there = self.at[side], self.at[1 - side]
        units, n = moving.units[here], len(moving.units)

        def predictors(numbers: Array) -> Array:
            return np.asarray(np.einsum("nk,nk->n", numbers[here], others[there]))

        centre, now = predictors(mean), predictors(both[side])
        along, across = now - centre, predictors(drawn) - centre
        floor = self.log_likelihoods(now, units, n) - rng.exponential(size=n)
        angles = rng.uniform(0.0, 2.0 * np.pi, n)
        low, high = angles - 2.0 * np.pi, angles.copy()
        for _ in range(SHRINKINGS):
            z = centre + along * np.cos(angles)[units] + across * np.sin(angles)[units]
            outside = self.log_likelihoods(z, units, n) < floor
            if not outside.any():
                break
            low = np.where(outside & (angles < 0.0), angles, low)
            high = np.where(outside & (angles >= 0.0), angles, high)
            angles = np.where(outside, rng.uniform(low, high), angles)
        else:
            raise BackendError("the sampler found no point on a slice: a likelihood is not finite")
        angle = angles[moving.units][:, None]
        return mean + (both[side] - mean) * np.cos(angle) + (drawn - mean) * np.sin(angle)

    def rescale(self, both: list[Array], rng: np.random.Generator) -> None:
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
            for side, numbers in zip(self.sides, both, strict=True)
        ]
        of_rows, of_columns = (each[:, :k] for each in squares)
        n_rows, n_columns = self.posterior.observed.shape
        more = float(n_rows - n_columns)

        def log_density(t: Array) -> Array:
            spent = of_rows * np.expm1(2.0 * t) + of_columns * np.expm1(-2.0 * t)
            return np.asarray(more * t - 0.5 * spent)

        floor = -rng.exponential(size=of_rows.shape)
        low = -LOG_SCALES * rng.random(of_rows.shape)
        high = low + LOG_SCALES
        t = rng.uniform(low, high)
        while np.any(outside := log_density(t) < floor):
            low = np.where(outside & (t < 0.0), t, low)
            high = np.where(outside & (t > 0.0), t, high)
            t = np.where(outside, rng.uniform(low, high), t)
        for side, sign in enumerate((1.0, -1.0)):
            numbers = both[side].reshape(self.n_chains, -1, both[side].shape[1])
            numbers[:, :, :k] *= np.exp(sign * t)[:, None]

    def begin(self, rng: np.random.Generator) -> list[Array]:
        """Every other chain from the variational posterior, the others from the prior."""
        rows = self.posterior.rows_given(np.arange(self.posterior.observed.shape[0]))
        both = []
        for side, gaussians in zip(self.sides, (rows, self.posterior.state.columns), strict=True):
            drawn = gaussians.draws(rng, self.n_chains).reshape(side.means.shape)
            prior = np.array(side.given)
            for here, free in side.groups:
                numbers = np.ix_(here, np.flatnonzero(free))
                noise = rng.standard_normal(side.means[numbers].shape)
                prior[numbers] = side.means[numbers] + noise / np.sqrt(side.precisions[numbers])
            chains = np.repeat(np.arange(self.n_chains) % 2 == 1, len(drawn) // self.n_chains)
            both.append(np.where(chains[:, None], prior, drawn))
        return both

    def sweeps(self, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """Rows (chains x n_rows x K) and columns after each sweep, without end."""
        both = self.begin(rng)
        while True:
            for side in (0, 1):
                self.step(side, both, rng)
            self.rescale(both, rng)
            yield tuple(array.reshape(self.n_chains, -1, array.shape[1]) for array in both)  # type: ignore[misc]


def sampled(
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
        if sweep + 1 == burn_in + n_draws:
            break
    noise = np.sqrt(posterior.own_noise[columns])
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
    away = draws - draws.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(away, 2 * m, axis=1)) ** 2
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
