"""Chains of a Markov chain Monte Carlo sampler of Gaussian rows, side by side.

The model is that of ``rows``: rows of z are draws of one Gaussian or of a mixture. A sweep draws

- components and rows given means and covariances, by Metropolis and Hastings steps whose proposals
  are the Gaussians of one Newton step from where a row is. Of Gaussian entries alone these are
  exact conditional draws, which are always accepted;
- how many rows the prior covariance counts as, where that is learned, means and covariances
  integrated over: of ``PRIOR_ROWS_GRID``, with ``log_prior_of_rows``;
- means, covariances and shares given the rows: Gaussian and inverse Wishart as in ``RowsPrior``,
  and a uniform Dirichlet distribution of shares;
- the scale and the location of each column whose entries are not Gaussian, with means and
  covariances in proportion;
- parameters of likelihoods, of prior density ``log_prior``.
"""

from collections.abc import Callable
from functools import cached_property

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import BackendError
from mcframe.contracts.likelihood import GaussianNoise
from mcframe.contracts.stored_classes import stored
from mcframe.numerics.row_mixtures import RowMixture
from mcframe.posterior.joint import JointPosterior
from mcframe.posterior.observed_chains import (
    LOG_SCALE_WIDTH,
    ChainState,
    ObservedChains,
    sliced,
)
from mcframe.posterior.row_draws import DrawnComponents, RowGaussians, pattern_order, rows_given
from mcframe.posterior.rows_parameters import RowsParameters, RowsPrior

WIDE_MESSAGE = (
    'method="sampler" draws whole covariances of columns, and this table has too many columns for'
    ' its rows; leave out method="sampler", or declare NuclearNorm()'
)


@stored
@attrs.define(eq=False)
class RowDraws(ChainState):
    """Rows of m draws, and the distribution that each draws them from.

    Attributes
    ----------
    z : array (m x n x d)
    component : array of integers (m x n)
    components : DrawnComponents
    parameters : tuple of arrays (m x p)
        Of the likelihood of each block.
    """

    z: Array
    component: IntArray
    components: DrawnComponents
    parameters: tuple[Array, ...]


@attrs.define(eq=False)
class RowChains(ObservedChains):
    """The states of m chains of Gaussian rows, and the steps between them.

    Attributes
    ----------
    prior : RowsPrior or None
        None where means and covariances are given, or stay as they are.
    state : RowDraws
    column_noise : array (d,)
        The variance of each column of Z, of Gaussian blocks that do not declare it.
    """

    prior: RowsPrior | None
    state: RowDraws
    column_noise: Array

    @classmethod
    def begin(
        cls, posterior: JointPosterior, n_chains: int, rng: np.random.Generator
    ) -> "RowChains":
        """Chains from draws of a variational posterior of one full covariance, or of several."""
        rows, observed, m = posterior.rows, posterior.observed, n_chains
        parametric, mixture, prior = rows.parameters, rows.components, None
        if not isinstance(mixture, RowMixture):
            raise BackendError(WIDE_MESSAGE)
        if isinstance(parametric, RowsParameters):
            components, prior = (
                DrawnComponents.of_variational(parametric, m, rng),
                parametric.prior,
            )
        else:
            components = DrawnComponents(
                np.tile(mixture.means, (m, 1, 1)),
                np.tile(np.linalg.inv(mixture.covariances), (m, 1, 1, 1)),
                np.tile(mixture.log_shares, (m, 1)),
                np.zeros(m),
            )
        parameters = tuple(
            np.tile(np.zeros(0) if summary.parameters is None else summary.parameters, (m, 1))
            for summary in observed.summaries
        )
        z, component = rows_given(components, rows.table, rng)
        state = RowDraws(z, component, components, parameters)
        return cls(observed, rng, prior, state, posterior.noise)

    @property
    def n_chains(self) -> int:
        """m."""
        return self.state.n_chains

    @property
    def size(self) -> int:
        """The numbers of rows, means and covariances."""
        return self.state.z.size + self.state.components.precisions.size

    @property
    def z(self) -> Array:
        """z of all entries without offsets (m x numbers)."""
        return self.numbers_of(self.state.z)

    @property
    def noise(self) -> Array:
        """The noise variances of the columns (m x d)."""
        return np.broadcast_to(self.column_noise, (self.n_chains, self.column_noise.size))

    @property
    def parameters(self) -> tuple[Array, ...]:
        """The parameters of the likelihood of each block (m x p)."""
        return self.state.parameters

    def numbers_of(self, dense: Array) -> Array:
        """The numbers of entries (m x numbers) among those of all cells (m x n x d)."""
        rows, columns = self.observed.cells
        return dense[:, rows, columns]

    def dense(self, numbers: Array) -> Array:
        """Numbers of entries (m x numbers) in their cells (m x n x d), 0 elsewhere."""
        rows, columns = self.observed.cells
        dense = np.zeros((len(numbers), *self.observed.shape))
        dense[:, rows, columns] = numbers
        return dense

    def predictors_at(self, rows: IntArray, columns: IntArray) -> Array:
        """z at cells (m x N)."""
        return self.state.z[:, rows, columns]

    @property
    def watched_columns(self) -> IntArray:
        """All columns, unless mean and covariance are given."""
        return np.arange(0 if self.prior is None else self.observed.shape[1])

    def parameters_at(self, columns: IntArray) -> Array:
        """Means and log variances of columns in a new row, log prior rows, and parameters."""
        parts = [*self.parameters]
        if self.prior is not None:
            mean, variance = self.state.components.column_moments(columns)
            parts += [mean, np.log(variance)]
            if self.prior.learned:
                parts.append(np.log(self.state.components.prior_rows)[:, None])
        return np.concatenate(parts, axis=1)

    def snapshot(self) -> RowDraws:
        """A copy of rows, components and parameters."""
        return self.state.copy()

    @cached_property
    def order(self) -> IntArray:
        """The order in which rows are drawn."""
        rows, columns = self.observed.cells
        observed = np.zeros(self.observed.shape, dtype=bool)
        observed[rows, columns] = True
        return pattern_order(observed)

    def gaussians(self, observations: Array) -> RowGaussians:
        """The distributions of rows given Gaussian observations of all entries."""
        values, precisions = (self.dense(numbers) for numbers in observations[:2])
        return RowGaussians(self.state.components, values, precisions, self.order)

    def log_prior(self, z: Array, component: IntArray) -> Array:
        """The log density of rows and their components (m x n), less a constant."""
        components = self.state.components
        chains, count = np.arange(self.n_chains)[:, None], components.count
        logs = components.log_heights[chains, component]
        for c in range(count):
            deviations = z - components.means[:, None, c]
            squares = np.sum(deviations @ components.precisions[:, c] * deviations, axis=2)
            logs = np.where(component == c, logs - 0.5 * squares, logs)
        return logs

    def draw_rows(self) -> None:
        """Draw components and rows given means and covariances."""
        state, (n_rows, _), rng = self.state, self.observed.shape, self.rng
        before = self.observations(self.z) if self.latest is None else self.latest
        exact = not self.needs_acceptance()
        step, forward = self.drawn_step(exact), self.gaussians(before)
        now, was = state.z, state.component
        component: IntArray = was
        log_forward: Array = np.zeros(was.shape)
        if step == 1.0:
            component, logs = forward.drawn_components(n_rows, rng)
            log_forward = np.take_along_axis(logs, component[:, :, None], axis=2)[:, :, 0]
        drawn, of_draw = forward.drawn(component, rng, now, step)
        self.latest = None
        if exact:
            state.z, state.component = drawn, component
            return
        after = self.observations(self.numbers_of(drawn))
        backward = self.gaussians(after)
        ratios = backward.log_densities(was, now, drawn, step) - log_forward - of_draw
        if step == 1.0 and state.components.count > 1:
            logs = backward.log_responsibilities(n_rows)
            ratios += np.take_along_axis(logs, was[:, :, None], axis=2)[:, :, 0]
        ratios += self.log_prior(drawn, component) - self.log_prior(now, was)
        rows = self.observed.cells[0]
        with np.errstate(invalid="ignore"):
            changes = after[2] - before[2]
        for ratio, change in zip(ratios, changes, strict=True):
            ratio += np.bincount(rows, change, n_rows)
        accepted = -rng.exponential(size=ratios.shape) < ratios
        state.z = np.where(accepted[:, :, None], drawn, now)
        state.component = np.where(accepted, component, was)
        self.latest = np.where(accepted[:, rows], after, before)
        self.count_accepted(0, float(np.mean(accepted)))

    def draw_components(self) -> None:
        """Draw means and covariances given the rows."""
        if self.prior is not None and self.learns_priors:
            state = self.state
            state.components = DrawnComponents.given_rows(
                self.prior, state.z, state.component, state.components.count, self.rng
            )

    def draw_columns(self) -> None:
        """Draw the scale and the location of each column whose entries are not Gaussian.

        With a scale exp(t), z and the means are exp(t) times as far from the prior mean, and the
        deviations of the column are exp(t) times as large. Densities of rows and means change by
        their volumes alone, so that t has the log density ``-C nu t - (2 exp(-t) sum_k A_jk +
        exp(-2 t) A_jj) / 2`` and the log likelihood, with A the prior scatter times the sum of the
        inverse covariances of the C components, entry by entry. A location moves z and the means
        alike, of which the prior of the means changes.
        """
        if self.prior is None or not self.learns_priors:
            return
        for b, entries, rows, columns in self.free_columns:
            self.latest = None
            t = self.shaped(b, self.z)[:, entries]
            for k, j in enumerate(columns):
                part = t[:, :, k] if t.ndim > 2 else t
                offset = part - self.state.z[:, rows, j]

                def log_likelihood(
                    of_column: Array,
                    part: Array = part,
                    offset: Array = offset,
                    of_entries: tuple[int, IntArray, IntArray, Array] = (b, entries, rows, t),
                ) -> Array:
                    block, entries, rows, t = of_entries
                    part[...] = of_column[:, rows] + offset
                    return self.log_likelihood(block, entries, t)

                self.draw_scale(self.prior, j, log_likelihood)
                self.draw_location(self.prior, j, log_likelihood)
                log_likelihood(self.state.z[:, :, j])  # which leaves t as z is

    def draw_scale(
        self, prior: RowsPrior, j: int, log_likelihood: Callable[[Array], Array]
    ) -> None:
        """Draw the scale of a column, given its log likelihood as a function of z."""
        state, components, centre = self.state, self.state.components, prior.mean[j]
        z, degrees = state.z[:, :, j] - centre, components.prior_rows + prior.mean.size + 1.0
        across = components.prior_rows[:, None] * prior.covariance[j]
        across = across * np.sum(components.precisions[:, :, j], axis=1)
        diagonal = across[:, j]
        of_others = np.sum(across, axis=1) - diagonal

        def log_density(logs: Array) -> Array:
            with np.errstate(over="ignore", invalid="ignore"):
                shrunk, moved = np.exp(-logs), centre + np.exp(logs)[:, None] * z
                quadratic = shrunk * of_others + 0.5 * np.square(shrunk) * diagonal
                volume = components.count * degrees * logs
                return np.asarray(log_likelihood(moved) - volume - quadratic)

        logs = sliced(log_density, np.zeros(self.n_chains), self.rng, LOG_SCALE_WIDTH)
        factors = np.exp(logs)[:, None]
        state.z[:, :, j] = centre + factors * z
        means, precisions = np.array(components.means), np.array(components.precisions)
        means[:, :, j] = centre + factors * (means[:, :, j] - centre)
        precisions[:, :, j] /= factors[:, :, None]
        precisions[:, :, :, j] /= factors[:, :, None]
        state.components = attrs.evolve(components, means=means, precisions=precisions)

    def draw_location(
        self, prior: RowsPrior, j: int, log_likelihood: Callable[[Array], Array]
    ) -> None:
        """Draw the location of a column, given its log likelihood as a function of z."""
        state, components = self.state, self.state.components
        means, z = np.array(components.means), np.array(state.z[:, :, j])
        slopes = np.einsum("mci,mci->m", components.precisions[:, :, j], means - prior.mean)
        curvatures = np.sum(components.precisions[:, :, j, j], axis=1)
        unit = 1.0 / np.sqrt(curvatures)

        def log_density(steps: Array) -> Array:
            shifts = unit * steps
            quadratic = slopes * shifts + 0.5 * curvatures * np.square(shifts)
            return np.asarray(log_likelihood(z + shifts[:, None]) - prior.mean_rows * quadratic)

        steps = sliced(log_density, np.zeros(self.n_chains), self.rng, LOG_SCALE_WIDTH)
        shifts = (unit * steps)[:, None]
        state.z[:, :, j] = z + shifts
        means[:, :, j] += shifts
        state.components = attrs.evolve(components, means=means)

    @cached_property
    def free_columns(self) -> list[tuple[int, IntArray, IntArray, range]]:
        """Blocks, entries and their rows, and columns of Z of each column that is not Gaussian."""
        columns = []
        for b, block in enumerate(self.observed.blocks):
            if isinstance(block.likelihood, GaussianNoise):
                continue
            width = block.likelihood.width
            rows = np.repeat(np.arange(self.observed.shape[0]), np.diff(block.starts))
            for column in range(block.n_columns):
                entries = np.flatnonzero(block.entry_columns == column)
                first = block.columns.start + column * width
                if entries.size:
                    columns.append((b, entries, rows[entries], range(first, first + width)))
        return columns

    def sweep(self) -> None:
        """One step of everything."""
        self.draw_rows()
        self.draw_components()
        self.draw_columns()
        if self.learns_priors:
            self.draw_parameters()
        self.n_steps += 1
