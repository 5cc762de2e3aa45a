"""Chains of a Markov chain Monte Carlo sampler of Gaussian factors, side by side.

The model is that of ``factors``: z_ij = x_i'w_j with Gaussian rows and columns. A sweep draws

- rows given columns, then columns given rows, by Metropolis and Hastings steps whose proposals are
  the Gaussians of one Newton step from where a row or column is (Gamerman, Sampling from the
  posterior distribution in generalized linear mixed models, Statistics and Computing 1997). Of
  Gaussian entries alone these are exact conditional draws, which are always accepted;
- the scale of each factor, which rows and columns share;
- coefficients of attributes and their scales, by ``coefficient_draws``;
- precisions of factors and effects, variances of the noise, and parameters of likelihoods.

Priors are those of ``factors``, whose best values that module takes, here averaged over:

- noise of a column: 10 entries' worth of inverse chi square about a centre, as there; the centre
  is exponential with the mean square of the values as its mean;
- precisions of biases and row effects: two effects' worth, as there;
- deviations of k factors without a weight: half-Cauchy, of a scale whose square is the mean square
  of the values over k;
- the deviation of noise that is part of predictors: half-normal of scale 1;
- parameters of a likelihood: its ``log_prior``;
- scales of groups of attributes: half-Cauchy about those at which sweeps begin.

All chains are one table of as many copies of the rows and of the columns, so that a step is one
compiled loop over the entries of all of them.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import BackendError
from mcframe.contracts.stored_classes import stored
from mcframe.numerics import factor_loops as loops
from mcframe.numerics.gaussian_moves import densities_of_rows, draw_rows
from mcframe.numerics.kernels import Compressed, low_rank_entries
from mcframe.numerics.logistic_loops import accept_moves, move_rows
from mcframe.posterior.coefficient_draws import (
    AttributedSide,
    CoefficientDraws,
    log_half_cauchy,
)
from mcframe.posterior.factor_state import Design
from mcframe.posterior.factors import (
    EFFECTS_PRIOR_COUNT,
    LEAST_NOISE_SHARE,
    FactorPosterior,
    deviation_unit,
)
from mcframe.posterior.gaussians import SINGULAR_MESSAGE
from mcframe.posterior.observed import NOISE_PRIOR_ENTRIES
from mcframe.posterior.observed_chains import (
    LEAST_CURVATURE,
    LEAST_CURVATURE_RATIO,
    LOG_SCALE_WIDTH,
    ChainState,
    LogisticArrays,
    ObservedChains,
    sliced,
)

# Up to so many numbers of a row a half sweep is one pass over the entries: of more of them sums
# over entries are faster by panels of these.
MOST_FUSED = 16
# The interval in which the scale of a factor is searched that rows and columns share, over the
# root of their number: some standard deviations.
SCALE_WIDTHS = 4.0
# Matrices, the one of each row, an order, right sides, precisions and places; see ``draw_rows``.
GaussianArrays = tuple[Array, IntArray, IntArray, Array, Array, IntArray]


@attrs.frozen(eq=False)
class FreeNumbers:
    """Rows, or columns, of all chains that have the same free numbers, and which these are.

    ``members`` (n,) and ``free`` (K,); the numbers of the others are ``fixed_values`` (n x K).
    """

    members: IntArray
    free: Mask
    fixed_values: Array

    @cached_property
    def places(self) -> tuple[IntArray, IntArray]:
        """The numbers that are free, and those that are fixed."""
        return np.flatnonzero(self.free), np.flatnonzero(~self.free)

    @cached_property
    def at(self) -> tuple[IntArray, ...]:
        """The places of the free numbers in arrays of all rows and numbers."""
        return np.ix_(self.members, self.places[0])

    @cached_property
    def where(self) -> IntArray:
        """The places of products of free numbers in a packed matrix (k x k)."""
        places = self.places[0]
        return np.ascontiguousarray(loops.unpacking(self.free.size)[np.ix_(places, places)])

    @cached_property
    def order(self) -> IntArray:
        """The members from 0 on."""
        return np.arange(self.members.size)

    @cached_property
    def across(self) -> list[tuple[tuple[IntArray, ...], Array]]:
        """The places of the products of each fixed number with free ones, and its values.

        Of those that are not 0.
        """
        (places, others), where = self.places, loops.unpacking(self.free.size)
        values = self.fixed_values[self.members].T[:, :, None]
        return [
            (np.ix_(self.members, where[places, fixed]), values[fixed])
            for fixed in others
            if values[fixed].any()
        ]

    def gaussians(
        self, equations: tuple[Array, Array], prior: tuple[Array, Array]
    ) -> GaussianArrays:
        """The Gaussians of the free numbers, of the normal equations of all rows."""
        matrices, vectors = equations
        precisions, means = prior[0][self.at], prior[1][self.at]
        right = vectors[self.at] + precisions * means
        for places, values in self.across:
            right -= matrices[places] * values
        return matrices, self.members, self.order, right, precisions, self.where


@attrs.frozen(eq=False)
class FactorSide:
    """Rows, or columns, of all chains: which numbers of z are theirs.

    ``numbers`` has them by rows (or columns). All rows (or columns) of one unit, (n,), move
    together or stay: of K classes the K columns of Z, since an observation ties these together.
    ``groups`` are those with the same free numbers, of which there is at least one.
    """

    numbers: Compressed
    units: IntArray
    fixed_values: Array
    groups: tuple[FreeNumbers, ...]

    @classmethod
    def of(
        cls,
        numbers: Compressed,
        units: IntArray,
        fixed_values: Array,
        groups: Sequence[tuple[IntArray, Mask]],
    ) -> "FactorSide":
        """The side with groups of rows, and the numbers that are free in each."""
        free = [FreeNumbers(*group, fixed_values) for group in groups if group[1].any()]
        return cls(numbers, units, fixed_values, tuple(free))

    def equations(self, others: Array, observations: Array) -> tuple[Array, Array]:
        """The normal equations given the other side, of a Gaussian observation of each number."""
        values, precisions = observations[0].ravel(), observations[1].ravel()
        return self.numbers.normal_sums(precisions, precisions * values, others)

    def drawn(
        self,
        equations: tuple[Array, Array],
        prior: tuple[Array, Array],
        origins: Array,
        step: float,
        rng: np.random.Generator,
    ) -> tuple[Array, Array]:
        """A move of each row (n x K) from its origin, and its log density (n,) less a constant."""
        drawn, logs = np.array(self.fixed_values), np.zeros(len(self.fixed_values))
        for group in self.groups:
            begin = origins[group.at]
            numbers, log_densities = np.empty(begin.shape), np.empty(len(begin))
            normal = rng.standard_normal(begin.shape)
            gaussians = group.gaussians(equations, prior)
            if not draw_rows(*gaussians, begin, step, normal, numbers, log_densities):
                raise BackendError(SINGULAR_MESSAGE)
            drawn[group.at], logs[group.members] = numbers, log_densities
        return drawn, logs

    def log_densities(
        self,
        equations: tuple[Array, Array],
        prior: tuple[Array, Array],
        origins: Array,
        step: float,
        points: Array,
    ) -> Array:
        """The log densities of points (n x K) as moves from origins, less the same constant."""
        logs = np.zeros(len(points))
        for group in self.groups:
            log_densities = np.empty(group.members.size)
            ends = origins[group.at], step, points[group.at]
            densities_of_rows(*group.gaussians(equations, prior), *ends, log_densities)
            logs[group.members] = log_densities
        return logs


@stored
@attrs.define(eq=False)
class ChainPriors(ChainState):
    """Precisions, means and variances of each of m chains; see ``factor_state.Priors``.

    ``factors`` (m x k), ``row_effects`` (m x blocks with these), ``biases`` and ``bias_means`` (m
    x blocks), ``noise`` (m x columns of Z), ``noise_centres`` (m,); ``predictor_deviations`` (m x
    blocks), of the noise that is part of predictors; ``parameters``, of each block (m x p).
    """

    factors: Array
    row_effects: Array
    biases: Array
    bias_means: Array
    noise: Array
    noise_centres: Array
    predictor_deviations: Array
    parameters: tuple[Array, ...]

    @classmethod
    def of(cls, posterior: FactorPosterior, n_chains: int) -> "ChainPriors":
        """The priors of a variational posterior, in all chains."""
        priors, observed = posterior.state.priors, posterior.observed
        deviations = np.sqrt(posterior.state.noise_of_predictors(observed))
        parameters = [
            np.zeros(0) if summary.parameters is None else summary.parameters
            for summary in observed.summaries
        ]

        def tiled(numbers: Any) -> Array:
            return np.tile(np.asarray(numbers, dtype=np.float64), (n_chains, 1))

        return cls(
            factors=tiled(priors.factors),
            row_effects=tiled(priors.row_effects),
            biases=tiled(priors.biases),
            bias_means=tiled(priors.bias_means),
            noise=tiled(priors.noise),
            noise_centres=np.full(n_chains, priors.noise_prior_centre),
            predictor_deviations=tiled(deviations),
            parameters=tuple(map(tiled, parameters)),
        )


@attrs.define(eq=False)
class FactorDraws(ChainState):
    """Rows (m x n_rows x K), columns (m x n_columns x K) and priors of m draws.

    ``coefficients`` are those of the attributes of rows and of columns.
    """

    rows: Array
    columns: Array
    priors: ChainPriors
    coefficients: tuple[CoefficientDraws, CoefficientDraws]


@attrs.define(eq=False)
class FactorChains(ObservedChains):
    """The states of m chains of Gaussian factors, and the steps between them.

    Attributes
    ----------
    design : Design
    numbers : [rows (m n_rows x K), columns (m n_columns x K)]
    priors : ChainPriors
    weight : float or None
        The weight of the norm; None where precisions of factors are drawn.
    attributes : AttributedSide of rows, and of columns
    coefficients : tuple of CoefficientDraws
        Those of the attributes of rows, and of columns.
    predictor_noise : list of arrays (m x N) or None
        Of each block whose predictors have noise, that of each entry in standard units.
    """

    design: Design
    numbers: list[Array]
    priors: ChainPriors
    weight: float | None
    attributes: tuple[AttributedSide, AttributedSide]
    coefficients: tuple[CoefficientDraws, CoefficientDraws]
    predictor_noise: list[Array | None] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.predictor_noise = [
            np.zeros((self.n_chains, block.y.size)) if block.learned_noise == "block" else None
            for block in self.observed.blocks
        ]

    @classmethod
    def begin(
        cls,
        posterior: FactorPosterior,
        n_chains: int,
        rng: np.random.Generator,
        *,
        from_prior: bool = False,
        learns_priors: bool = True,
    ) -> "FactorChains":
        """Chains from draws of a variational posterior; every other one from the prior, if asked.

        Parameters
        ----------
        posterior : FactorPosterior
            With all rows in this process.
        """
        observed, state = posterior.observed, posterior.state
        design, m = state.design, n_chains
        gaussians = posterior.rows_given(np.arange(observed.shape[0])), state.columns
        numbers = [g.draws(rng, m).reshape(-1, design.width) for g in gaussians]
        attributes, coefficients = drawn_coefficients(posterior, m, rng)
        chains = cls(
            observed,
            rng,
            design,
            numbers,
            ChainPriors.of(posterior, m),
            state.priors.weight,
            attributes,
            coefficients,
            learns_priors=learns_priors,
        )
        if from_prior:
            odd = np.arange(m) % 2 == 1
            for side, draws in enumerate(coefficients):
                draws.u[odd] = chains.coefficients_of_prior(side)[odd]
            for side, prior in enumerate(chains.numbers_of_prior()):
                of_chain = np.repeat(odd, len(prior) // m)[:, None]
                numbers[side] = np.where(of_chain, prior, numbers[side])
        return chains

    def coefficients_of_prior(self, side: int) -> Array:
        """Coefficients of attributes of rows (0) or columns (1), drawn from their priors."""
        precisions = self.precisions_of_coefficients(side)
        draws = self.coefficients[side]
        return self.attributes[side].coefficients_of_prior(draws, precisions, self.rng)

    def precisions_of_coefficients(self, side: int) -> Array:
        """Prior precisions of coefficients of attributes of rows (0) or columns (1), (m x K)."""
        precisions = np.ones((self.n_chains, self.design.width))
        if side:
            precisions[:, : self.design.n_factors] = self.priors.factors
        return precisions

    def numbers_of_prior(self) -> list[Array]:
        """Rows and columns of all chains, drawn from their priors given coefficients."""
        numbers = []
        for side in (0, 1):
            precisions, means = self.prior(side)
            drawn = means + self.rng.standard_normal(means.shape) / np.sqrt(precisions)
            prior = np.array(self.sides[side].fixed_values)
            for group in self.sides[side].groups:
                prior[group.at] = drawn[group.at]
            numbers.append(prior)
        return numbers

    @property
    def n_chains(self) -> int:
        """m."""
        return len(self.priors.noise)

    @property
    def size(self) -> int:
        """The numbers of rows and columns."""
        return sum(array.size for array in self.numbers)

    @property
    def z(self) -> Array:
        """z without predictors' noise and offsets (m x numbers)."""
        return self.predictors(self.numbers)

    @property
    def noise(self) -> Array:
        """The noise variances of columns of Z (m x columns)."""
        return self.priors.noise

    @property
    def parameters(self) -> tuple[Array, ...]:
        """The parameters of the likelihood of each block (m x p)."""
        return self.priors.parameters

    def predictors_at(self, rows: IntArray, columns: IntArray) -> Array:
        """z at cells (m x N)."""
        return low_rank_entries(rows, columns, self.rows, self.columns)

    @property
    def watched_columns(self) -> IntArray:
        """The columns whose noise is drawn."""
        return self.observed.columns_with_noise

    def parameters_at(self, columns: IntArray) -> Array:
        """Logarithms of noise variances, deviations of predictors' noise, and parameters."""
        blocks = [b for b, noise in enumerate(self.predictor_noise) if noise is not None]
        with np.errstate(divide="ignore"):
            logs = np.log(self.priors.noise[:, columns])
        parts = [logs, self.priors.predictor_deviations[:, blocks], *self.parameters]
        return np.concatenate(parts, axis=1)

    def snapshot(self) -> FactorDraws:
        """Rows, columns and priors."""
        return FactorDraws(self.rows, self.columns, self.priors, self.coefficients).copy()

    @property
    def rows(self) -> Array:
        """Rows of all chains (m x n_rows x K)."""
        return self.numbers[0].reshape(self.n_chains, -1, self.design.width)

    @property
    def columns(self) -> Array:
        """Columns of all chains (m x n_columns x K)."""
        return self.numbers[1].reshape(self.n_chains, -1, self.design.width)

    @cached_property
    def positions(self) -> tuple[IntArray, IntArray]:
        """The row and the column of each number of z of each chain, among those of all chains."""
        observed, chains = self.observed, np.arange(self.n_chains)[:, None]
        sides = zip(observed.cells, observed.shape, strict=True)
        rows, columns = ((places + n * chains).ravel() for places, n in sides)
        return rows, columns

    @cached_property
    def units_of_numbers(self) -> tuple[IntArray, IntArray]:
        """The unit of rows, and that of columns, of each number of z of all chains."""
        sides = zip(self.sides, self.positions, strict=True)
        rows, columns = (side.units[places] for side, places in sides)
        return rows, columns

    @cached_property
    def sides(self) -> tuple[FactorSide, FactorSide]:
        """The rows and the columns."""
        observed, design, m = self.observed, self.design, self.n_chains
        n_rows, n_columns = observed.shape
        n = n_rows * m
        fixed = np.repeat(design.row_fixed_values, n, axis=0)
        rows = FactorSide.of(self.by(0), np.arange(n), fixed, [(np.arange(n), design.row_free)])
        # The first one of the columns of Z that a number shares an observation with.
        units = [
            block.columns.start + np.repeat(width * np.arange(block.n_columns), width)
            for block in observed.blocks
            for width in [block.likelihood.width]
        ]
        shifts = n_columns * np.arange(m)[:, None]
        columns = FactorSide.of(
            self.by(1),
            (np.concatenate(units) + shifts).ravel(),
            np.tile(design.fixed_values, (m, 1)),
            [((members + shifts).ravel(), free) for members, free in design.groups],
        )
        return rows, columns

    def by(self, side: int) -> Compressed:
        """All numbers by rows (0) or columns (1)."""
        order = (self.positions[side], self.positions[1 - side])
        shape = [self.n_chains * n for n in self.observed.shape]
        shape = shape if side == 0 else shape[::-1]
        places = np.arange(order[0].size, dtype=np.int32)
        return Compressed.of(sp.coo_array((places, order), shape=tuple(shape)).tocsr())

    def prior(self, side: int) -> tuple[Array, Array]:
        """Prior precisions and means of all rows (0) or columns (1) of all chains."""
        precisions, means = self.prior_without_attributes(side)
        if self.attributes[side].count:
            of_attributes = self.attributes[side].prior_means(self.coefficients[side])
            means = means + of_attributes.reshape(means.shape)
        return precisions, means

    def deviations(self, side: int) -> Array:
        """Rows (0) or columns (1) without what attributes say of them (m x n x K)."""
        numbers = (self.rows, self.columns)[side]
        if not self.attributes[side].count:
            return numbers
        return numbers - self.attributes[side].prior_means(self.coefficients[side])

    def prior_without_attributes(self, side: int) -> tuple[Array, Array]:
        """Prior precisions, and means that are due to no attributes, of all chains."""
        observed, design, priors = self.observed, self.design, self.priors
        k, m = design.n_factors, self.n_chains
        if side == 0:
            precisions = np.ones((m, design.width))
            precisions[:, k : k + len(design.row_blocks)] = priors.row_effects
            precisions = np.repeat(precisions, observed.shape[0], axis=0)
            return precisions, np.zeros_like(precisions)
        shape = m, observed.shape[1], design.width
        precisions, means = np.ones(shape), np.zeros(shape)
        precisions[:, :, :k] = priors.factors[:, None]
        if design.has_biases:
            for b, block in enumerate(observed.blocks):
                precisions[:, block.columns, -1] = priors.biases[:, b, None]
                centres = block.required_summary.centres
                means[:, block.columns, -1] = priors.bias_means[:, b, None] - centres
        return precisions.reshape(-1, design.width), means.reshape(-1, design.width)

    def predictors(self, numbers: list[Array]) -> Array:
        """z without predictors' noise and offsets (m x numbers)."""
        shape = self.n_chains, -1, self.design.width
        rows, columns = (side.reshape(shape) for side in numbers)
        return low_rank_entries(*self.observed.cells, rows, columns)

    def shaped(self, b: int, z: Array) -> Array:
        """Predictors of a block with offsets and noise, (m x N), or (m x N x K) of K classes."""
        shaped, noise = super().shaped(b, z), self.predictor_noise[b]
        if noise is not None:
            shaped = shaped + self.priors.predictor_deviations[:, b, None] * noise
        return shaped

    def half_sweep(
        self, side: int, centred: Sequence[tuple[Array, Array] | None] | None = None
    ) -> None:
        """Draw rows (0) or columns (1) given the others."""
        moving, others = self.sides[side], self.numbers[1 - side]
        prior, now = self.prior(side), self.numbers[side]
        exact = not self.needs_acceptance(centred)
        before = self.latest
        if before is None or centred is not None:
            before = self.observations(None if exact else self.z, centred)
        self.latest = before if centred is None else None
        step = self.drawn_step(exact)
        if centred is None and not exact and self.design.width <= MOST_FUSED:
            terms = self.all_logistic_terms()
            if terms is not None:
                self.move(side, step, terms, before)
                return
        equations = moving.equations(others, before)
        drawn, log_forward = moving.drawn(equations, prior, now, step, self.rng)
        if exact:
            self.numbers[side] = drawn
            return
        proposed = [drawn, others] if side == 0 else [others, drawn]
        after = self.observations(self.predictors(proposed), centred)
        equations = moving.equations(others, after)
        log_backward = moving.log_densities(equations, prior, drawn, step, now)
        thresholds = -self.rng.exponential(size=len(moving.units))
        units = moving.units, self.units_of_numbers[side]
        densities = log_backward - log_forward, after.reshape(3, -1), before.reshape(3, -1)
        share = accept_moves(thresholds, *units, *prior, drawn, now, *densities)
        self.count_accepted(side, share)

    def move(self, side: int, step: float, terms: LogisticArrays, observations: Array) -> None:
        """Draw rows (0) or columns (1) given the others in one pass over the entries."""
        moving, others, now = self.sides[side], self.numbers[1 - side], self.numbers[side]
        sizes = [(group.members.size, group.places[0].size) for group in moving.groups]
        normal = [self.rng.standard_normal(size) for size in sizes]
        thresholds = -self.rng.exponential(size=len(now))
        entries = *moving.numbers.order, others, *self.prior(side)
        losses = *terms, *self.weights_and_offsets, LEAST_CURVATURE_RATIO, LEAST_CURVATURE
        state, n_rows, moved = observations.reshape(3, -1), self.observed.shape[side], 0
        for group, of_group in zip(moving.groups, normal, strict=True):
            places = group.members, *group.places, loops.unpacking(group.places[0].size)
            move = n_rows, step, of_group, thresholds, state, now
            count = move_rows(*places, *entries, *losses, *move)
            if count < 0:
                raise BackendError(SINGULAR_MESSAGE)
            moved += count
        self.count_accepted(side, moved / max(len(now), 1))

    def draw_factors(self, sides: Sequence[int]) -> None:
        """Draw rows (0) and columns (1), and the noise of predictors, given the priors."""
        for side in sides:
            self.half_sweep(side)
        if any(noise is not None for noise in self.predictor_noise):
            self.draw_predictor_noise()
            centred = self.centred_predictors()
            for side in sides:
                self.half_sweep(side, centred)
            self.draw_centred_deviations(centred)

    def sweep(self) -> None:
        """One step of everything."""
        self.draw_factors((0, 1))
        for side in (0, 1):
            self.draw_coefficients(side)
        self.draw_scales()
        if self.learns_priors:
            self.draw_noise()
            self.draw_precisions()
            self.draw_parameters()
        self.n_steps += 1

    def draw_coefficients(self, side: int) -> None:
        """Draw coefficients of attributes of rows (0) or columns (1), and their scales."""
        if self.attributes[side].count:
            numbers = (self.rows, self.columns)[side]
            prior = self.prior_without_attributes(side)
            precisions, means = (part.reshape(numbers.shape) for part in prior)
            of_coefficients = self.precisions_of_coefficients(side)
            self.attributes[side].draw(
                self.coefficients[side],
                numbers,
                (precisions, means),
                of_coefficients,
                self.rng,
                self.learns_priors,
            )

    @cached_property
    def prior_counts(self) -> tuple[int, int]:
        """The numbers of Gaussians of the prior of a factor, of rows and of columns.

        Coefficients of attributes are among them.
        """
        (n_rows, n_columns), (rows, columns) = self.observed.shape, self.attributes
        return n_rows + rows.count, n_columns + columns.count

    def squares_of_factors(self, side: int) -> Array:
        """Sums of squares (m x k) of the Gaussians of ``prior_counts``, of rows or of columns."""
        parts = self.deviations(side), self.coefficients[side].u
        return sum(
            (np.sum(np.square(part[:, :, : self.design.n_factors]), axis=1) for part in parts),
            start=np.zeros(self.priors.factors.shape),
        )

    def scale(self, side: int, factors: Array) -> None:
        """Multiply factors of rows (0) or columns (1) by numbers (m x k)."""
        for numbers in ((self.rows, self.columns)[side], self.coefficients[side].u):
            numbers[:, :, : self.design.n_factors] *= factors[:, None]

    def draw_scales(self) -> None:
        """Draw the scale of each factor: rows times exp(t), columns over it.

        z does not change, so that only the priors and the volume count: t has the log density
        ``(n_rows - n_columns) t - (exp(2t) R + exp(-2t) C) / 2``, with R and C the sums of
        squares over the variances of the priors. Where the deviation of the columns is drawn, it
        takes part in a second step, ``n_rows t - exp(2t) R / 2`` and its own prior.
        """
        if not self.design.n_factors:
            return
        n_rows, n_columns = self.prior_counts
        of_rows, of_columns = (self.squares_of_factors(side) for side in (0, 1))
        of_columns = of_columns * self.priors.factors
        at = np.zeros(of_rows.shape)

        def of_both(t: Array) -> Array:
            quadratic = of_rows * np.expm1(2.0 * t) + of_columns * np.expm1(-2.0 * t)
            return np.asarray((n_rows - n_columns) * t - 0.5 * quadratic)

        t = sliced(of_both, at, self.rng, SCALE_WIDTHS / np.sqrt(n_rows + n_columns))
        self.scale(0, np.exp(t))
        self.scale(1, np.exp(-t))
        if self.weight is not None or not self.learns_priors:
            return
        of_rows = self.squares_of_factors(0)
        log_deviations = -0.5 * np.log(self.priors.factors)

        def with_deviations(t: Array) -> Array:
            of_prior = self.log_prior_of_deviations(log_deviations - t)
            return np.asarray(n_rows * t - 0.5 * of_rows * np.expm1(2.0 * t) + of_prior)

        t = sliced(with_deviations, at, self.rng, LOG_SCALE_WIDTH)
        self.scale(0, np.exp(t))
        self.scale(1, np.exp(-t))
        self.priors.factors = self.priors.factors * np.exp(2.0 * t)

    @cached_property
    def unit(self) -> float:
        """The scale of a factor's deviation."""
        return deviation_unit(self.observed, self.design.n_factors)

    def log_prior_of_deviations(self, logs: Array) -> Array:
        """The log density of the logarithm of a half-Cauchy deviation of factors."""
        return log_half_cauchy(logs, self.unit)

    def draw_precisions(self) -> None:
        """Draw precisions of factors and effects, and means of biases."""
        observed, design, priors, rng = self.observed, self.design, self.priors, self.rng
        k, n_rows, m = design.n_factors, observed.shape[0], self.n_chains
        rows, columns = (self.deviations(side) for side in (0, 1))
        if self.weight is None and k:
            squares, count = self.squares_of_factors(1), self.prior_counts[1]

            def log_density(logs: Array) -> Array:
                with np.errstate(over="ignore"):
                    quadratic = 0.5 * squares * np.exp(-2.0 * logs)
                return self.log_prior_of_deviations(logs) - count * logs - quadratic

            logs = sliced(log_density, -0.5 * np.log(priors.factors), rng, LOG_SCALE_WIDTH)
            priors.factors = np.exp(-2.0 * logs)
        for place, b in enumerate(design.row_blocks):
            if not observed.blocks[b].ridge:
                squares = np.sum(np.square(rows[:, :, k + place]), axis=1)
                priors.row_effects[:, place] = self.precisions(b, n_rows, squares)
        for b, block in enumerate(observed.blocks):
            if not block.layout.n_biases:
                continue
            biases = columns[:, block.columns, -1] + block.required_summary.centres
            count = biases.shape[1]
            if not block.ridge or block.layout.n_intercepts:
                noise = rng.standard_normal(m) / np.sqrt(count * priors.biases[:, b])
                priors.bias_means[:, b] = np.mean(biases, axis=1) + noise
            if not block.ridge:
                squares = np.sum(np.square(biases - priors.bias_means[:, b, None]), axis=1)
                priors.biases[:, b] = self.precisions(b, count, squares)

    def precisions(self, b: int, count: int, squares: Array) -> Array:
        """Draw the precisions (m,) of effects of a block, with these sums of squares."""
        reference = self.observed.blocks[b].required_summary.reference_square
        shape = 0.5 * (count + EFFECTS_PRIOR_COUNT)
        return self.rng.gamma(shape, 2.0 / (squares + EFFECTS_PRIOR_COUNT * reference))

    def draw_noise(self) -> None:
        """Draw variances of noise and the centre of their prior."""
        observed, priors, learned = self.observed, self.priors, self.observed.columns_with_noise
        if not learned.size:
            return
        self.latest = None
        z, half = self.z, 0.5 * NOISE_PRIOR_ENTRIES
        squares = np.zeros_like(priors.noise)
        for block, y in zip(observed.blocks, self.targets, strict=True):
            if block.learned_noise == "column":
                places = block.columns.start + block.entry_columns
                numbers = z[:, block.part], np.broadcast_to(y, (self.n_chains, places.size))
                weights = np.broadcast_to(block.weights, places.shape)
                loops.add_residual_squares(*numbers, weights, places, squares)
        rates = half * priors.noise_centres[:, None] + 0.5 * squares[:, learned]
        noise = rates / self.rng.gamma(half + 0.5 * observed.counts[learned], size=rates.shape)
        mean_squares = observed.mean_squares[learned]
        priors.noise[:, learned] = np.maximum(noise, LEAST_NOISE_SHARE * mean_squares)
        rate = half * np.sum(1.0 / priors.noise[:, learned], axis=1) + 1.0 / np.mean(mean_squares)
        priors.noise_centres = self.rng.gamma(half * learned.size + 1.0, size=rate.shape) / rate

    def draw_predictor_noise(self) -> None:
        """Draw the noise of predictors in standard units, and its deviation given that."""
        self.latest = None
        z = self.z
        for b, noise in enumerate(self.predictor_noise):
            if noise is None:
                continue
            deviation = self.priors.predictor_deviations[:, b, None]
            clean = self.shaped(b, z) - deviation * noise

            def proposal(at: Array, b: int = b, clean: Array = clean) -> tuple[Array, ...]:
                deviation = self.priors.predictor_deviations[:, b, None]
                logs, gradients, curvatures = self.evaluated(b, clean + deviation * at)
                with np.errstate(over="ignore", invalid="ignore"):
                    precision = 1.0 + np.square(deviation) * curvatures
                    mean = at - (deviation * gradients + at) / precision
                finite = np.isfinite(mean)
                logs = np.where(finite, logs - 0.5 * np.square(at), -np.inf)
                return logs, np.where(finite, mean, 0.0), np.where(finite, precision, 1.0)

            logs, mean, precision = proposal(noise)
            normal = self.rng.standard_normal(noise.shape)
            drawn = mean + normal / np.sqrt(precision)
            after, back, back_precision = proposal(drawn)
            ratios = after - logs + 0.5 * (np.square(normal) + np.log(back_precision / precision))
            ratios -= 0.5 * back_precision * np.square(noise - back)
            accepted = -self.rng.exponential(size=noise.shape) < ratios
            self.predictor_noise[b] = noise = np.where(accepted, drawn, noise)
            if not self.learns_priors:
                continue

            def log_density(
                log_deviations: Array, b: int = b, clean: Array = clean, noise: Array = noise
            ) -> Array:
                t = clean + np.exp(log_deviations)[:, None] * noise
                logs = np.sum(self.evaluated(b, t, derivatives=False)[0], axis=1)
                return logs + log_half_normal(log_deviations)

            logs = np.log(self.priors.predictor_deviations[:, b])
            logs = sliced(log_density, logs, self.rng, LOG_SCALE_WIDTH)
            self.priors.predictor_deviations[:, b] = np.exp(logs)

    def centred_predictors(self) -> list[tuple[Array, Array] | None]:
        """The predictors with their noise, less offsets, of blocks that have such noise.

        With the precisions (m x 1) of that noise: they are Gaussian observations of the others.
        """
        z, deviations = self.z, self.priors.predictor_deviations[:, :, None]
        return [
            None
            if noise is None
            else (z[:, block.part] + deviations[:, b] * noise, 1.0 / np.square(deviations[:, b]))
            for b, (block, noise) in enumerate(
                zip(self.observed.blocks, self.predictor_noise, strict=True)
            )
        ]

    def draw_centred_deviations(self, centred: list[tuple[Array, Array] | None]) -> None:
        """Draw deviations of the noise of predictors given these, and the noise that is left."""
        self.latest = None
        z = self.z
        for b, noisy in enumerate(centred):
            if noisy is None:
                continue
            block = self.observed.blocks[b]
            noise = noisy[0] - z[:, block.part]
            if self.learns_priors:
                squares, count = np.sum(np.square(noise), axis=1), noise.shape[1]

                def log_density(
                    logs: Array, squares: Array = squares, count: int = count
                ) -> Array:
                    with np.errstate(over="ignore"):
                        quadratic = 0.5 * squares * np.exp(-2.0 * logs)
                    return log_half_normal(logs) - count * logs - quadratic

                logs = np.log(self.priors.predictor_deviations[:, b])
                logs = sliced(log_density, logs, self.rng, LOG_SCALE_WIDTH)
                self.priors.predictor_deviations[:, b] = np.exp(logs)
            self.predictor_noise[b] = noise / self.priors.predictor_deviations[:, b, None]


def drawn_coefficients(
    posterior: FactorPosterior, m: int, rng: np.random.Generator
) -> tuple[tuple[AttributedSide, AttributedSide], tuple[CoefficientDraws, CoefficientDraws]]:
    """Attributes of rows and columns, and m draws of their coefficients, of a posterior."""
    observed, state = posterior.observed, posterior.state
    of_sides = state.row_coefficients, state.column_coefficients
    rows, columns = (
        AttributedSide.of(coefficients, observed, side, state.design)
        for side, coefficients in enumerate(of_sides)
    )
    of_rows, of_columns = (
        CoefficientDraws.of(one, m, state.design.width, rng) for one in of_sides
    )
    return (rows, columns), (of_rows, of_columns)


def log_half_normal(logs: Array) -> Array:
    """The log density of the logarithm of a half-normal number of scale 1, less a constant."""
    with np.errstate(over="ignore"):
        return np.asarray(logs - 0.5 * np.exp(2.0 * logs))
