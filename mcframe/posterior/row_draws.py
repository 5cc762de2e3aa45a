"""Draws of means, covariances and Gaussian rows: data augmentation.

Rows are drawn given means and covariances, and these given the rows, in turn (Tanner and Wong,
JASA 1987; Schafer, Analysis of Incomplete Multivariate Data, 1997, chapter 5). All chains take a
step together.
"""

from functools import cached_property

import attrs
import numpy as np
from scipy.special import logsumexp

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import BackendError
from mcframe.contracts.rounding import TINY
from mcframe.contracts.stored_classes import stored
from mcframe.numerics import factor_loops as loops
from mcframe.numerics.gaussian_moves import densities_of_rows, draw_rows
from mcframe.numerics.row_mixtures import IncompleteRows, roots_of
from mcframe.posterior.gaussians import SINGULAR_MESSAGE
from mcframe.posterior.observed_chains import ChainState
from mcframe.posterior.rows_parameters import PRIOR_ROWS_GRID, RowsParameters, RowsPrior

# Draws of means and covariances beside a variational posterior: at most and at least, fewer where
# they would take more numbers of rows than this. Chains that make so many of them each, sweeps
# before the first one, and from one to the next.
MOST_COMPONENT_DRAWS, DRAWS_OF_CHAIN = 200, 25
AUGMENTED_NUMBERS = 1_000_000
AUGMENTED_BURN_IN, AUGMENTED_SPACING = 20, 3


@stored
@attrs.define(eq=False)
class DrawnComponents(ChainState):
    """The distributions of rows of m chains, mixtures of C Gaussians.

    Attributes
    ----------
    means : array (m x C x d)
    precisions : array (m x C x d x d)
        The inverses of the covariances.
    log_shares : array (m x C)
    prior_rows : array (m,)
        How many rows the prior covariance counts as.
    """

    means: Array
    precisions: Array
    log_shares: Array
    prior_rows: Array

    @classmethod
    def drawn(
        cls,
        moments: tuple[Array, Array, Array, Array],
        log_shares: Array,
        prior_rows: Array,
        rng: np.random.Generator,
    ) -> "DrawnComponents":
        """Draws of ``S ~ inverse Wishart(scatter, degrees)`` and ``mean ~ N(m, S / count)``.

        ``moments`` are m (m x C x d), counts (m x C), scatters (m x C x d x d) and degrees (m x
        C). The inverse of S is L'^-1 A A' L^-1 with scatter = L L' and A lower triangular (Smith
        and Hocking, Applied Statistics 1972).
        """
        means, counts, scatters, degrees = moments
        d = means.shape[-1]
        triangles = np.tril(rng.standard_normal(scatters.shape), -1)
        squares = rng.chisquare(degrees[..., None] - np.arange(d))
        triangles += np.sqrt(squares)[..., None] * np.eye(d)
        roots = np.linalg.solve(roots_of(scatters).swapaxes(-1, -2), triangles)
        noise = rng.standard_normal(means.shape)[..., None]
        shifts = np.linalg.solve(roots.swapaxes(-1, -2), noise)[..., 0]
        precisions = roots @ roots.swapaxes(-1, -2)
        return cls(means + shifts / np.sqrt(counts)[..., None], precisions, log_shares, prior_rows)

    @classmethod
    def of_variational(
        cls, parameters: RowsParameters, m: int, rng: np.random.Generator
    ) -> "DrawnComponents":
        """m draws from the variational distribution of means and covariances."""
        q = parameters
        moments = (
            np.broadcast_to(q.means, (m, *q.means.shape)),
            np.broadcast_to(q.counts, (m, *q.counts.shape)),
            np.broadcast_to(q.scatters, (m, *q.scatters.shape)),
            np.broadcast_to(q.degrees, (m, *q.degrees.shape)),
        )
        shares = np.tile(q.log_shares, (m, 1))
        return cls.drawn(moments, shares, np.full(m, q.prior.rows), rng)

    @classmethod
    def given_rows(
        cls,
        prior: RowsPrior,
        z: Array,
        components: IntArray,
        count: int,
        rng: np.random.Generator,
        row_weights: Array | float = 1.0,
    ) -> "DrawnComponents":
        """A draw of each chain given rows z (m x n x d) and their components (m x n) of a count.

        ``row_weights`` (n,) are how often rows count. Where the strength of the prior is learned,
        it is drawn first, means and covariances integrated over.
        """
        m, _, d = z.shape
        weights, shifts = np.empty((m, count)), np.empty((m, count, d))
        scatters = np.empty((m, count, d, d))
        for c in range(count):
            members = (components == c) * row_weights
            weights[:, c] = np.sum(members, axis=1)
            deviations = z - prior.mean
            sums = np.einsum("mn,mnd->md", members, deviations)
            shifts[:, c] = sums / np.maximum(weights[:, c], TINY)[:, None]
            deviations -= shifts[:, None, c]
            deviations *= np.sqrt(members)[:, :, None]
            scatters[:, c] = deviations.swapaxes(1, 2) @ deviations
        counts = prior.mean_rows + weights
        outer = shifts[..., None] * shifts[..., None, :]
        scatters += (prior.mean_rows * weights / counts)[..., None, None] * outer
        prior_rows = np.full(m, prior.rows)
        if prior.learned:
            logs = prior.log_probabilities(PRIOR_ROWS_GRID, weights, scatters)
            prior_rows = PRIOR_ROWS_GRID[drawn_places(logs, rng)]
        scatters += prior_rows[:, None, None, None] * prior.covariance
        degrees = prior_rows[:, None] + d + 1.0 + weights
        means = prior.mean + (weights / counts)[..., None] * shifts
        log_shares = np.zeros((m, 1))
        if count > 1:
            gammas = rng.standard_gamma(1.0 + weights)  # a uniform Dirichlet distribution
            log_shares = np.log(gammas / np.sum(gammas, axis=1, keepdims=True))
        return cls.drawn((means, counts, scatters, degrees), log_shares, prior_rows, rng)

    @property
    def count(self) -> int:
        """C."""
        return int(self.means.shape[1])

    @cached_property
    def packed_precisions(self) -> Array:
        """The inverses of the covariances, packed (m C x P)."""
        return loops.packed(self.precisions.reshape(-1, *self.precisions.shape[2:]))

    @cached_property
    def log_heights(self) -> Array:
        """The log densities at the means, times the shares, less a constant (m x C)."""
        return np.asarray(self.log_shares + 0.5 * np.linalg.slogdet(self.precisions)[1])

    def column_moments(self, columns: IntArray) -> tuple[Array, Array]:
        """Means and variances of some numbers of a new row (m x N)."""
        variances = np.einsum("mcii->mci", np.linalg.inv(self.precisions))[:, :, columns]
        shares, means = np.exp(self.log_shares)[:, :, None], self.means[:, :, columns]
        mean = np.sum(shares * means, axis=1)
        squares = variances + np.square(means - mean[:, None])
        return mean, np.sum(shares * squares, axis=1)


def drawn_places(logs: Array, rng: np.random.Generator) -> IntArray:
    """One place along the last axis, by probabilities with these logarithms but for a constant."""
    return np.asarray(np.argmax(logs + rng.gumbel(size=logs.shape), axis=-1))


def pattern_order(observed: Mask) -> IntArray:
    """An order of rows (n x d) in which those that are observed at the same places are neighbours.

    So that one factorisation serves all of them.
    """
    return np.lexsort(np.packbits(observed, axis=1).T).astype(np.intp)


@attrs.define(eq=False)
class RowGaussians:
    """The distributions of rows given their components, and a Gaussian observation of each number.

    Attributes
    ----------
    components : DrawnComponents
    values, precisions : arrays (m x n x d), or (n x d) where all chains have the same
        Values are finite; precisions are 0 where nothing is observed.
    order : array of integers (n,)
    """

    components: DrawnComponents
    values: Array
    precisions: Array
    order: IntArray

    def means(self, component: IntArray) -> Array:
        """The means of the components of rows (m x n x d)."""
        if self.components.count == 1:
            return self.components.means
        return np.take_along_axis(self.components.means, component[:, :, None], axis=1)

    def gaussians(
        self, component: IntArray
    ) -> tuple[Array, IntArray, IntArray, Array, Array, IntArray]:
        """The Gaussians of deviations from the means, of rows of these components (m x n)."""
        (m, n), d = component.shape, self.values.shape[-1]
        chains = np.arange(m)[:, None]
        precisions = np.broadcast_to(self.precisions, (m, n, d))
        right = precisions * (self.values - self.means(component))
        return (
            self.components.packed_precisions,
            (self.components.count * chains + component).ravel(),
            (n * chains + self.order).ravel(),
            right.reshape(m * n, d),
            np.ascontiguousarray(precisions).reshape(m * n, d),
            loops.unpacking(d),
        )

    def drawn(
        self,
        component: IntArray,
        rng: np.random.Generator,
        z: Array | None = None,
        step: float = 1.0,
    ) -> tuple[Array, Array]:
        """A move of each row from z, (m x n x d), and its log density (m x n) less a constant."""
        (m, n), d = component.shape, self.values.shape[-1]
        means = self.means(component)
        normal = rng.standard_normal((m * n, d))
        origins = normal if z is None else (z - means).reshape(m * n, d)
        drawn, logs = np.empty((m * n, d)), np.empty(m * n)
        if not draw_rows(*self.gaussians(component), origins, step, normal, drawn, logs):
            raise BackendError(SINGULAR_MESSAGE)
        return means + drawn.reshape(m, n, d), logs.reshape(m, n)

    def log_densities(
        self, component: IntArray, points: Array, z: Array | None = None, step: float = 1.0
    ) -> Array:
        """The log densities (m x n) of points as moves from z, less the same constant."""
        (m, n), d = component.shape, self.values.shape[-1]
        means = self.means(component)
        points = (points - means).reshape(m * n, d)
        origins = points if z is None else (z - means).reshape(m * n, d)
        logs = np.empty(m * n)
        densities_of_rows(*self.gaussians(component), origins, step, points, logs)
        return logs.reshape(m, n)

    def log_responsibilities(self, n_rows: int) -> Array:
        """The log probabilities of the components of each row given what is observed (m x n x C).

        By the densities at the means: that of z and of what is observed, over that of z given
        what is observed.
        """
        m, count = self.components.log_shares.shape
        logs = np.empty((m, n_rows, count))
        for c in range(count):
            component = np.full((m, n_rows), c, dtype=np.intp)
            means = np.broadcast_to(self.means(component), (m, n_rows, self.values.shape[-1]))
            squares = np.sum(self.precisions * np.square(self.values - means), axis=-1)
            logs[:, :, c] = self.components.log_heights[:, c, None] - 0.5 * squares
            logs[:, :, c] -= self.log_densities(component, means)
        return np.asarray(logs - logsumexp(logs, axis=2, keepdims=True))

    def drawn_components(self, n_rows: int, rng: np.random.Generator) -> tuple[IntArray, Array]:
        """Components of rows (m x n) and the log probabilities of all (m x n x C)."""
        m, count = self.components.log_shares.shape
        if count == 1:
            return np.zeros((m, n_rows), dtype=np.intp), np.zeros((m, n_rows, 1))
        logs = self.log_responsibilities(n_rows)
        return drawn_places(logs, rng), logs


def rows_given(
    components: DrawnComponents, table: IncompleteRows, rng: np.random.Generator
) -> tuple[Array, IntArray]:
    """Draws of all rows of a table (m x n x d) and of their components (m x n)."""
    order = pattern_order(table.precisions > 0.0)
    gaussians = RowGaussians(components, table.values, table.precisions, order)
    component, _ = gaussians.drawn_components(order.size, rng)
    return gaussians.drawn(component, rng)[0], component


def augmented(
    parameters: RowsParameters, table: IncompleteRows, rng: np.random.Generator
) -> DrawnComponents:
    """Draws of means and covariances given a table: chains from their variational distribution.

    Which takes rows and parameters for independent, so that it is too narrow where much is
    missing. The first draws are of different chains.
    """
    rows = table.take(np.flatnonzero((table.precisions > 0.0).any(axis=1)))
    size = max(rows.values.size, 1)
    count = int(np.clip(AUGMENTED_NUMBERS // size, DRAWS_OF_CHAIN, MOST_COMPONENT_DRAWS))
    n_chains, draws = count // DRAWS_OF_CHAIN, []
    components = DrawnComponents.of_variational(parameters, n_chains, rng)
    for sweep in range(AUGMENTED_BURN_IN + AUGMENTED_SPACING * DRAWS_OF_CHAIN):
        z, component = rows_given(components, rows, rng)
        components = DrawnComponents.given_rows(
            parameters.prior, z, component, components.count, rng, rows.counts
        )
        beyond = sweep - AUGMENTED_BURN_IN
        if beyond >= 0 and beyond % AUGMENTED_SPACING == 0:
            draws.append(components)
    return DrawnComponents.joined(draws)
