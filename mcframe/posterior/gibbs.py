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
from typing import Any

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
from mcframe.posterior.factor_state import Gaussians, gaussians_given
from mcframe.posterior.factors import FactorPosterior, drawn_from
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
        loops.add_by_rows(
            0,
            n,
            rows.starts,
            rows.across,
            rows.places,
            values,
            precisions,
            np.ones(len(others)),
            others,
            loops.packed_squares(others),
            matrices,
            vectors,
        )
        found = Gaussians(np.array(self.given), np.zeros_like(matrices), np.zeros(n))
        for here, free in self.groups:
            own = gaussians_given(
                matrices[here],
                vectors[here],
                free,
                self.given[here],
                self.precisions[here],
                self.means[here],
            )
            found.means[here], found.covariances[here] = own.means, own.covariances
        return found


@attrs.frozen(eq=False)
class OtherEntries:
    """The entries of a block that is not Gaussian, of all chains.

    ``places`` (N x K) are their numbers of z; ``noise`` is the variance of the noise that is part
    of their predictors.
    """

    likelihood: Any
    places: IntArray
    y: Array
    weights: Array | float
    offset: Array | float
    noise: float

    @classmethod
    def of(
        cls, block: ObservedBlock, places: IntArray, noise: float, n_chains: int
    ) -> "OtherEntries":
        """The entries of a block, of so many chains."""
        offset: Array | float = 0.0
        if block.offset is not None:
            offset = np.tile(block.offset.reshape(-1, places.shape[1]), (n_chains, 1))
        weights = 1.0 if block.weights is None else np.tile(block.weights, n_chains)
        return cls(block.likelihood, places, np.tile(block.y, n_chains), weights, offset, noise)

    def log_likelihood(self, z: Array) -> Array:
        """Weighted log likelihoods at predictors z (N x K) up to constants, noise integrated."""
        z = z + self.offset
        shaped = z if z.shape[1] > 1 else z[:, 0]
        if not self.noise:
            return np.asarray(-self.weights * self.likelihood.value(shaped, self.y))
        points, shares = NOISE_NODES
        spread = np.sqrt(self.noise)
        terms = [
            -self.weights * self.likelihood.value(shaped + spread * p, self.y) for p in points
        ]
        return np.asarray(logsumexp(np.array(terms), axis=0, b=shares[:, None]))


@attrs.frozen(eq=False)
class Sampler:
    """Chains side by side: one table of as many copies of the rows and of the columns."""

    posterior: FactorPosterior
    n_chains: int

    @cached_property
    def places(self) -> tuple[IntArray, IntArray]:
        """The row and the column of each number of z."""
        by_rows = self.posterior.observed.by_rows
        rows = np.empty(by_rows.across.size, dtype=np.intp)
        columns = np.empty_like(rows)
        rows[by_rows.places] = np.repeat(np.arange(self.posterior.n_rows), np.diff(by_rows.starts))
        columns[by_rows.places] = by_rows.across
        return rows, columns

    @cached_property
    def at(self) -> tuple[IntArray, IntArray]:
        """The row and the column of each number of z of each chain, among those of all chains."""
        n_rows, n_columns = self.posterior.observed.shape
        chains = np.arange(self.n_chains)[:, None]
        rows, columns = self.places
        return (rows + n_rows * chains).ravel(), (columns + n_columns * chains).ravel()

    @cached_property
    def sides(self) -> tuple[HalfSweep, HalfSweep]:
        """The rows and the columns."""
        design, priors = self.posterior.state.design, self.posterior.state.priors
        observed = self.posterior.observed
        n_rows = observed.shape[0] * self.n_chains
        of_rows = np.repeat(priors.of_rows(design), n_rows, axis=0)
        rows = HalfSweep(
            self.by(0),
            np.arange(n_rows),
            of_rows,
            np.zeros_like(of_rows),
            np.repeat(design.row_given, n_rows, axis=0),
            ((np.arange(n_rows), design.row_free),),
        )
        precisions, means = (
            np.tile(array, (self.n_chains, 1)) for array in priors.of_columns(observed, design)
        )
        one = np.concatenate(
            [
                block.columns.start
                + np.arange(block.columns.stop - block.columns.start)
                // block.likelihood.width
                * block.likelihood.width
                for block in observed.blocks
            ]
        )
        shifts = observed.shape[1] * np.arange(self.n_chains)[:, None]
        columns = HalfSweep(
            self.by(1),
            (one + shifts).ravel(),
            precisions,
            means,
            np.tile(design.given, (self.n_chains, 1)),
            tuple(((here + shifts).ravel(), free) for here, free in design.groups),
        )
        return rows, columns

    def by(self, side: int) -> Compressed:
        """All numbers by rows (0) or columns (1)."""
        own, others = self.at[side], self.at[1 - side]
        places = np.arange(own.size, dtype=np.int32)
        shape = tuple(self.n_chains * n for n in self.posterior.observed.shape)
        shape = shape if side == 0 else shape[::-1]
        return Compressed.of(sp.coo_array((places, (own, others)), shape=shape).tocsr())

    @cached_property
    def gaussian_entries(self) -> tuple[Array, Array]:
        """Values and precisions of the Gaussian entries; the precision of all others is 0."""
        posterior = self.posterior
        rows: Any = posterior.rows
        passed = row_pass(rows, posterior.observed.summaries, posterior.state)
        precisions = passed.precisions / posterior.noise[self.places[1]]
        for block in self.posterior.observed.blocks:
            if not isinstance(block.likelihood, Gaussian):
                precisions[block.part] = 0.0
        return np.tile(passed.values, self.n_chains), np.tile(precisions, self.n_chains)

    @cached_property
    def others(self) -> tuple["OtherEntries", ...]:
        """The entries of blocks that are not Gaussian, of all chains."""
        found = []
        for block in self.posterior.observed.blocks:
            if isinstance(block.likelihood, Gaussian) or not block.y.size:
                continue
            shifts = self.posterior.observed.n_numbers * np.arange(self.n_chains)[:, None]
            own = (np.arange(block.part.start, block.part.stop) + shifts).ravel()
            places = own.reshape(-1, block.likelihood.width)
            found.append(OtherEntries.of(block, places, self.noise_of(block), self.n_chains))
        return tuple(found)

    def log_likelihoods(self, z: Array, units: IntArray, n: int) -> Array:
        """The sums over units, (n,), of log likelihoods that are not Gaussian."""
        total = np.zeros(n)
        for entries in self.others:
            each = entries.log_likelihood(z[entries.places])
            total += np.bincount(units[entries.places[:, 0]], each, n)
        return total

    def noise_of(self, block: ObservedBlock) -> float:
        """The variance of the noise that is part of a block's predictors."""
        own = block.unknown_noise == "block"
        return float(self.posterior.noise[block.columns][0]) if own else 0.0

    def step(self, side: int, both: list[Array], rng: np.random.Generator) -> None:
        """Draw rows (0) or columns (1) given the others."""
        own, others = self.sides[side], both[1 - side]
        gaussians = own.gaussians(others, *self.gaussian_entries)
        if not self.others:
            both[side] = drawn_from(gaussians, rng, 1)[0]
            return
        for drawn in drawn_from(gaussians, rng, SLICES):
            both[side] = self.on_slice(side, both, gaussians.means, drawn, rng)

    def on_slice(
        self, side: int, both: list[Array], mean: Array, drawn: Array, rng: np.random.Generator
    ) -> Array:
        """Rows (0) or columns (1) moved along the ellipse through these and drawn ones."""
        own, others = self.sides[side], both[1 - side]
        here, there = self.at[side], self.at[1 - side]
        units, n = own.units[here], len(own.units)

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
        angle = angles[own.units][:, None]
        return mean + (both[side] - mean) * np.cos(angle) + (drawn - mean) * np.sin(angle)

    def rescale(self, both: list[Array], rng: np.random.Generator) -> None:
        """Draw the scale of each factor of each chain: rows times exp(t), columns over it.

        z does not change, so that only the priors and the volume count: t has the log density
        ``(n_rows - n_columns) t - (exp(2t) R + exp(-2t) C) / 2``, with R and C the sums of
        squares over the variances of the priors.
        """
        k = self.posterior.n_factors
        squares = [
            np.sum((side.precisions * np.square(own)).reshape(self.n_chains, -1, own.shape[1]), 1)
            for side, own in zip(self.sides, both, strict=True)
        ]
        of_rows, of_columns = (each[:, :k] for each in squares)
        more = float(self.posterior.observed.shape[0] - self.posterior.observed.shape[1])

        def log_density(t: Array) -> Array:
            spent = of_rows * np.expm1(2.0 * t) + of_columns * np.expm1(-2.0 * t)
            return np.asarray(more * t - 0.5 * spent)

        t = np.zeros_like(of_rows)
        floor = -rng.exponential(size=t.shape)
        low = -LOG_SCALES * rng.random(t.shape)
        high = low + LOG_SCALES
        t = rng.uniform(low, high)
        while np.any(outside := log_density(t) < floor):
            low, high = (
                np.where(outside & (t < 0.0), t, low),
                np.where(outside & (t > 0.0), t, high),
            )
            t = np.where(outside, rng.uniform(low, high), t)
        for side, sign in enumerate((1.0, -1.0)):
            own = both[side].reshape(self.n_chains, -1, both[side].shape[1])
            own[:, :, :k] *= np.exp(sign * t)[:, None]

    def begin(self, rng: np.random.Generator) -> list[Array]:
        """Every other chain from the variational posterior, the others from the prior."""
        rows = self.posterior.rows_given(np.arange(self.posterior.n_rows))
        columns, found = self.posterior.state.columns, []
        for side, gaussians in zip(self.sides, (rows, columns), strict=True):
            drawn = drawn_from(gaussians, rng, self.n_chains).reshape(side.means.shape)
            prior = side.given + np.zeros_like(drawn)
            for here, free in side.groups:
                own = np.ix_(here, np.flatnonzero(free))
                noise = rng.standard_normal(side.means[own].shape)
                prior[own] = side.means[own] + noise / np.sqrt(side.precisions[own])
            chains = np.repeat(np.arange(self.n_chains) % 2 == 1, len(drawn) // self.n_chains)
            found.append(np.where(chains[:, None], prior, drawn))
        return found

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
    found: Array = draws + posterior.centres[columns]
    return found


def effective_sizes(draws: Array) -> Array:
    """Numbers of independent draws whose mean is as exact, of draws (chains x m x N): (N,).

    By autocorrelations within and variances between chains, summed over Geyer's initial monotone
    sequence of pairs (Vehtari, Gelman, Simpson, Carpenter and Buerkner, Bayesian Analysis 2021,
    section 3.2).
    """
    n_chains, m, _ = draws.shape
    away = draws - draws.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(away, 2 * m, axis=1)) ** 2
    covariances = np.fft.irfft(spectrum, axis=1)[:, :m].mean(axis=0) / m
    within = covariances[0] * m / (m - 1.0)
    between = draws.mean(axis=1).var(axis=0, ddof=1) if n_chains > 1 else 0.0
    total = within * (m - 1.0) / m + between
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = 1.0 - (within - covariances) / total
    correlations[0] = 1.0
    pairs = correlations[: m // 2 * 2].reshape(m // 2, 2, -1).sum(axis=1)
    positive = np.cumprod(pairs > 0.0, axis=0, dtype=bool)
    times = 2.0 * np.sum(np.minimum.accumulate(pairs, axis=0) * positive, axis=0) - 1.0
    sizes = n_chains * m / np.maximum(times, 1.0 / np.log10(max(n_chains * m, 10)))
    return np.where(total > 0.0, sizes, n_chains * float(m))
