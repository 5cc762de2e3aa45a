"""Gaussian factors by variational Bayes: z_ij = x_i'w_j, with distributions of rows and columns.

Row i has K numbers x_i and column j K numbers w_j. The first k are factors. For each block with
effects of rows there is one more: the effect in x_i, and in w_j a 1 for columns of the block. If a
block has biases there is a last one: a 1 in x_i, and the bias in w_j. The posterior is
approximated by a product of one Gaussian for each row and one for each column (Lim and Teh, 2007;
Raiko, Ilin and Karhunen, 2007), which maximises

    sum over entries of E[constant - precision (z - value)^2 / 2] - KL(q(x) || p) - KL(q(w) || p),

a lower bound on the log evidence: each entry counts by the Gaussian pseudo-observation that
``posterior.observed`` makes of it. Variances of noise and precisions of the priors are those that
make it largest.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import count
from typing import Any

import attrs
import numpy as np
from scipy.special import gammaln

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.rounding import EPS
from mcframe.numerics import factor_loops as loops
from mcframe.numerics.machine import check_time
from mcframe.numerics.threads import share
from mcframe.posterior.observed import LOG_TWO_PI, Observed

# Rows that are worked on at a time.
CHUNK = 2048
# Sums over rows are taken in so many parts at most, of so many multiplications at least, so that
# the order of summation does not depend on the threads.
PARTS, PART = 8, 2_000_000
# The prior of a column's noise variance counts as much as so many entries, with the mean of all.
NOISE_ENTRIES = 10.0
# The smallest noise variance, over the mean square of the column's values.
LEAST_NOISE = 1e-10
# The smallest variance of noise in predictors.
LEAST_SPREAD = 1e-6
# The prior of the variance of effects counts as much as so many of them.
EFFECTS = 2.0
# Sweeps at first in which variances of noise stay as they begin: a column that has found no factor
# yet would be taken for noise, and stay so.
HELD = 2
# The noise variance to begin with, over the mean square of a block's values.
FIRST_NOISE = 0.1
TINY = 1e-300


@attrs.frozen(eq=False)
class Design:
    """Which of the K numbers of rows and columns are what.

    Attributes
    ----------
    n_factors : int
    row_blocks : tuple of int
        The blocks with effects of rows, a number each after the factors.
    has_biases : bool
        Whether the last number is 1 in rows and the bias in columns.
    given : array (n_columns x K)
        What columns have at the numbers that are not free, 0 elsewhere.
    free : mask (n_columns x K)
        The numbers of columns that have a distribution.
    """

    n_factors: int
    row_blocks: tuple[int, ...]
    has_biases: bool
    given: Array
    free: Mask

    @classmethod
    def of(cls, observed: Observed, n_factors: int) -> "Design":
        """The design of so many factors and the effects that the blocks declare."""
        blocks = observed.blocks
        row_blocks = tuple(b for b, own in enumerate(blocks) if own.layout.n_row_effects)
        has_biases = any(own.layout.n_biases for own in blocks)
        width = n_factors + len(row_blocks) + has_biases
        given = np.zeros((observed.shape[1], width))
        free = np.zeros((observed.shape[1], width), dtype=bool)
        free[:, :n_factors] = True
        for place, b in enumerate(row_blocks):
            given[blocks[b].columns, n_factors + place] = 1.0
        for own in blocks:
            if own.layout.n_biases:
                free[own.columns, -1] = True
        return cls(n_factors, row_blocks, has_biases, given, free)

    @property
    def width(self) -> int:
        """K."""
        return self.given.shape[1]

    @cached_property
    def row_free(self) -> Mask:
        """The numbers of rows that have a distribution: all but the 1 of biases."""
        free = np.ones(self.width, dtype=bool)
        if self.has_biases:
            free[-1] = False
        return free

    @cached_property
    def row_given(self) -> Array:
        """What rows have at the numbers that are not free (1 x K)."""
        return (~self.row_free).astype(float)[None]

    @cached_property
    def groups(self) -> tuple[tuple[IntArray, Mask], ...]:
        """Columns whose free numbers are the same, and these."""
        kinds, which = np.unique(self.free, axis=0, return_inverse=True)
        which = which.ravel()
        return tuple((np.flatnonzero(which == g), kind) for g, kind in enumerate(kinds))


@attrs.frozen(eq=False)
class Gaussians:
    """A Gaussian for each row or column, given numbers included.

    ``means`` (n x K), packed ``covariances`` (n x P), and the log determinant of the covariance of
    the free numbers, (n,).
    """

    means: Array
    covariances: Array
    log_determinants: Array

    @property
    def squares(self) -> Array:
        """E[x x'], packed."""
        return self.covariances + loops.packed_squares(self.means)

    def second_moments(self) -> Array:
        """E[x_k^2] (n x K)."""
        diagonal = np.diag(loops.unpacking(self.means.shape[1]))
        return np.square(self.means) + self.covariances[:, diagonal]


def conditionals(
    matrices: Array,
    vectors: Array,
    free: Mask,
    given: Array,
    prior_precisions: Array,
    prior_means: Array,
) -> Gaussians:
    """The Gaussians with these normal equations and independent Gaussian priors.

    Densities proportional to ``exp(x'b - x'A x / 2)`` times the prior, of the free numbers given
    the others. Raises ``numpy.linalg.LinAlgError`` where a matrix is not positive definite.

    Parameters
    ----------
    matrices, vectors : arrays (n x P), (n x K)
        A and b.
    free : mask (K,)
    given : array (n or 1 x K)
    prior_precisions, prior_means : arrays (n or 1 x K)
    """
    n, width = vectors.shape
    means = np.array(np.broadcast_to(given, (n, width)))
    covariances = np.zeros((n, loops.packed_size(width)))
    places = np.flatnonzero(free)
    if not places.size:
        return Gaussians(means, covariances, np.zeros(n))
    where = loops.unpacking(width)
    # One unit for all numbers: a prior of a small variance would else spoil the others' digits.
    precision = matrices[:, where[np.ix_(places, places)]]
    diagonal = np.arange(places.size)
    precision[:, diagonal, diagonal] += prior_precisions[:, places]
    scale = 1.0 / np.sqrt(precision[:, diagonal, diagonal])
    precision *= scale[:, :, None] * scale[:, None, :]
    right = vectors[:, places] + prior_precisions[:, places] * prior_means[:, places]
    others = np.flatnonzero(~free)
    if others.size:
        across = matrices[:, where[np.ix_(places, others)]]
        right = right - np.einsum("nab,nb->na", across, means[:, others])
    triangles = np.linalg.cholesky(precision)
    inverse = np.linalg.inv(precision)
    inverse = 0.5 * (inverse + inverse.transpose(0, 2, 1))
    solved = np.einsum("nab,nb->na", inverse, scale * right)
    means[:, places] = scale * solved
    inverse *= scale[:, :, None] * scale[:, None, :]
    low, high = np.tril_indices(places.size)
    covariances[:, where[places[low], places[high]]] = inverse[:, low, high]
    halves = np.log(triangles[:, diagonal, diagonal]) - np.log(scale)
    return Gaussians(means, covariances, -2.0 * np.sum(halves, axis=1))


@attrs.frozen(eq=False)
class Priors:
    """Precisions and means of the numbers of rows and columns, and variances of the noise.

    Attributes
    ----------
    factors : array (k,)
        Precisions of columns' factors; those of rows are 1.
    row_effects : array
        A precision for each block with effects of rows.
    biases, bias_means : arrays (n_blocks,)
    noise : array (n_columns,)
        Variances where they are learned, else 1.
    usual_noise : float
        The centre of the prior of the noise variances: their harmonic mean.
    """

    factors: Array
    row_effects: Array
    biases: Array
    bias_means: Array
    noise: Array
    usual_noise: float

    def of_rows(self, design: Design) -> Array:
        """Prior precisions of the numbers of a row (1 x K)."""
        found = np.ones((1, design.width))
        found[0, design.n_factors : design.n_factors + len(design.row_blocks)] = self.row_effects
        return found

    def of_columns(self, observed: Observed, design: Design) -> tuple[Array, Array]:
        """Prior precisions and means of the numbers of columns (n_columns x K)."""
        precisions, means = np.ones(design.given.shape), np.zeros(design.given.shape)
        precisions[:, : design.n_factors] = self.factors
        if design.has_biases:
            for b, block in enumerate(observed.blocks):
                precisions[block.columns, -1] = self.biases[b]
                means[block.columns, -1] = self.bias_means[b] - block.centres
        return precisions, means


@attrs.frozen(eq=False)
class RowSums:
    """Sums over the entries of some rows, and over the rows themselves.

    Attributes
    ----------
    matrices, vectors : arrays (n_columns x P), (n_columns x K)
        Normal equations of the columns, before a division by learned noise variances.
    totals : array (n_columns x 2)
        Sums of precisions and of precision * value^2.
    squares : array (P,)
        The sum over rows of E[x x'].
    spreads : array (n_blocks,)
        Sums of the variances of predictors with noise of their own.
    scalars : array (2,)
        The constants of the bounds, and the log determinants of the rows' covariances.
    """

    matrices: Array
    vectors: Array
    totals: Array
    squares: Array
    spreads: Array
    scalars: Array

    @classmethod
    def zeros(cls, n_columns: int, width: int, n_blocks: int) -> "RowSums":
        """The sums over no rows."""
        size = loops.packed_size(width)
        shapes = (n_columns, size), (n_columns, width), (n_columns, 2), size, n_blocks, 2
        return cls(*(np.zeros(shape) for shape in shapes))

    def __add__(self, other: "RowSums") -> "RowSums":
        mine = attrs.astuple(self, recurse=False)
        theirs = attrs.astuple(other, recurse=False)
        return RowSums(*(one + another for one, another in zip(mine, theirs, strict=True)))


@attrs.frozen(eq=False)
class FactorState:
    """Where the sweeps stand: Gaussians of the columns, priors, and pseudo-observations.

    Attributes
    ----------
    design : Design
    columns : Gaussians
    priors : Priors
    values, precisions : arrays (N,)
        A Gaussian observation of each number of z; where noise variances are learned the
        precisions are yet to be divided by these.
    """

    design: Design
    columns: Gaussians
    priors: Priors
    values: Array
    precisions: Array


def begin(observed: Observed, n_factors: int, weight: float | None, rng: Any) -> FactorState:
    """A state to begin with: effects of columns 0, factors random and large, little noise.

    From much noise and small factors the bound rises to local maxima with too few factors: in the
    first sweeps they explain nothing, and are switched off.
    """
    design = Design.of(observed, n_factors)
    values, precisions = np.empty(observed.size), np.empty(observed.size)
    n_columns = observed.shape[1]
    noise = np.ones(n_columns)
    for block in observed.blocks:
        size = block.part.stop - block.part.start
        pseudo = block.pseudo_observations(
            slice(0, block.y.size), np.zeros(size), np.ones(size), 1.0
        )
        values[block.part], precisions[block.part] = pseudo.values, pseudo.precisions
        if block.noise == "column":
            noise[block.columns] = FIRST_NOISE * block.squares
    means, squares = np.array(design.given), observed.squares
    drawn = rng.standard_normal((n_columns, n_factors))
    means[:, :n_factors] = np.sqrt(squares)[:, None] * drawn
    size = loops.packed_size(design.width)
    columns = Gaussians(means, np.zeros((n_columns, size)), np.zeros(n_columns))
    usual = np.array([own.usual_square for own in observed.blocks])
    ridges = np.array([own.ridge for own in observed.blocks])
    effects = np.where(ridges > 0.0, ridges, 1.0 / usual)
    priors = Priors(
        factors=np.full(n_factors, 1.0 / float(np.mean(squares)) if weight is None else weight**2),
        row_effects=effects[list(design.row_blocks)],
        biases=effects,
        bias_means=np.array([np.mean(own.centres) for own in observed.blocks]),
        noise=noise,
        usual_noise=1.0 / float(np.mean(1.0 / (FIRST_NOISE * squares))),
    )
    return FactorState(design, columns, priors, values, precisions)


@attrs.frozen(eq=False)
class RowPass:
    """One pass over rows: their Gaussians given the columns, new bounds, and sums for columns.

    Given the columns rows are independent, so that the sums of any groups of rows add up to those
    of all. ``refresh`` overwrites the state's ``values`` and ``precisions`` in place.
    """

    observed: Observed
    state: FactorState

    @cached_property
    def squares(self) -> Array:
        """E[w w'] of the columns, packed."""
        return self.state.columns.squares

    def gaussians(self, first: int, last: int) -> Gaussians:
        """The Gaussians of some rows given the columns."""
        state, rows = self.state, self.observed.by_rows
        width = state.design.width
        matrices = np.zeros((last - first, loops.packed_size(width)))
        vectors = np.zeros((last - first, width))
        loops.add_by_rows(
            first,
            last,
            rows.starts,
            rows.across,
            rows.places,
            state.values,
            state.precisions,
            1.0 / state.priors.noise,
            state.columns.means,
            self.squares,
            matrices,
            vectors,
        )
        design = state.design
        precisions = state.priors.of_rows(design)
        return conditionals(
            matrices, vectors, design.row_free, design.row_given, precisions, np.zeros((1, width))
        )

    def refresh(self, first: int, last: int, gaussians: Gaussians) -> tuple[float, Array]:
        """Find the best bounds for the entries of some rows; constants, and spreads of blocks."""
        observed, state = self.observed, self.state
        spreads, constant = np.zeros(len(observed.blocks)), 0.0
        mean, variance = self.moments
        if mean.size:
            self.find_moments(first, last, gaussians)
        for b, block in enumerate(observed.blocks):
            if block.noise == "column":
                continue
            entries = block.entries(first, last)
            here = block.numbers(entries)
            noise = float(state.priors.noise[block.columns][0])
            pseudo = block.pseudo_observations(entries, mean[here], variance[here], noise)
            state.values[here], state.precisions[here] = pseudo.values, pseudo.precisions
            constant += pseudo.constant
            spreads[b] += pseudo.spread
        return constant, spreads

    def find_moments(self, first: int, last: int, gaussians: Gaussians) -> None:
        """Write ``moments`` of the numbers of z in some rows, which have these distributions."""
        rows, columns = self.observed.by_rows, self.state.columns
        loops.predictor_moments(
            first,
            last,
            rows.starts,
            rows.across,
            rows.places,
            gaussians.means,
            gaussians.covariances,
            columns.means,
            columns.covariances,
            *self.moments,
        )

    def all_moments(self) -> tuple[Array, Array]:
        """Means and variances of all numbers of z, rows given the columns."""
        n_rows = self.observed.shape[0]
        for first in range(0, n_rows, CHUNK):
            last = min(first + CHUNK, n_rows)
            self.find_moments(first, last, self.gaussians(first, last))
        return self.moments

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Arrays for means and variances of all numbers of z; empty where no bound needs them."""
        asked = any(block.noise != "column" for block in self.observed.blocks)
        size = self.observed.size if asked else 0
        return np.empty(size), np.empty(size)

    def sums(self, first: int, last: int) -> RowSums:
        """The sums over some rows."""
        observed, state = self.observed, self.state
        n_columns, width = state.columns.means.shape
        rows = observed.by_rows
        found = RowSums.zeros(n_columns, width, len(observed.blocks))
        for begin in range(first, last, CHUNK):
            check_time()
            end = min(begin + CHUNK, last)
            gaussians = self.gaussians(begin, end)
            constant, spreads = self.refresh(begin, end, gaussians)
            squares = gaussians.squares
            loops.add_by_columns(
                begin,
                end,
                rows.starts,
                rows.across,
                rows.places,
                state.values,
                state.precisions,
                gaussians.means,
                squares,
                found.matrices,
                found.vectors,
                found.totals,
            )
            found.squares[:] += np.sum(squares, axis=0)
            found.spreads[:] += spreads
            found.scalars[:] += (constant, float(np.sum(gaussians.log_determinants)))
        return found

    def all_sums(self) -> RowSums:
        """The sums over all rows, by threads; in the same order for any number of these."""
        rows, width = self.observed.by_rows, self.state.design.width
        cost = rows.across.size * loops.packed_size(width)
        count = int(np.clip(cost // PART, 1, PARTS))
        places = np.searchsorted(rows.starts, np.linspace(0, rows.starts[-1], count + 1)[1:-1])
        n_rows = self.observed.shape[0]
        cuts = (0, *np.unique(np.clip(places, 1, n_rows - 1)).tolist(), n_rows)
        found: dict[int, RowSums] = {}

        def work(first: int, last: int) -> None:
            found[first] = self.sums(first, last)

        _ = self.squares, self.moments  # before threads ask for them
        share(work, sorted(set(cuts)))
        ordered = [found[first] for first in sorted(found)]
        return sum(ordered[1:], start=ordered[0])


@attrs.frozen(eq=False)
class Swept:
    """A state after a sweep, the lower bound on the log evidence, and how far that is rounded.

    ``observed`` has the likelihoods with their fitted parameters.
    """

    observed: Observed
    state: FactorState
    evidence: float
    rounding: float


def sweep(
    observed: Observed, state: FactorState, weight: float | None, learns_noise: bool = True
) -> Swept:
    """A pass over rows, then columns, noise and priors; factors are rotated if that is better."""
    if observed.fits_parameters:
        observed = observed.fitted(*RowPass(observed, state).all_moments())
    sums = RowPass(observed, state).all_sums()
    columns, residuals = columns_given(observed, state, sums)
    priors = state.priors
    if learns_noise:
        noise, usual = best_noise(observed, priors, sums, residuals)
        priors = attrs.evolve(priors, noise=noise, usual_noise=usual)
    terms = Terms(observed, state.design, weight)
    turned = rotated(state.design, columns, sums, observed.shape[0], weight)
    columns, sums, priors = max(
        (terms.with_best_priors(priors, columns, sums), terms.with_best_priors(priors, *turned)),
        key=lambda found: terms.of_priors(*found),
    )
    data = data_term(observed, priors, sums, residuals) + noise_term(observed, priors)
    evidence = float(data + terms.of_priors(columns, sums, priors))
    rounding = EPS * float(np.sum(sums.totals[:, 1] / priors.noise))
    state = attrs.evolve(state, columns=columns, priors=priors)
    return Swept(observed, state, evidence, rounding)


@attrs.frozen(eq=False)
class Terms:
    """The terms of the bound that depend on priors: divergences, and densities of precisions."""

    observed: Observed
    design: Design
    weight: float | None

    def with_best_priors(
        self, priors: Priors, columns: Gaussians, sums: RowSums
    ) -> tuple[Gaussians, RowSums, Priors]:
        """Columns, sums of rows, and the priors under which they are most likely."""
        best = best_priors(self.observed, self.design, priors, columns, sums, self.weight)
        return columns, sums, best

    def of_priors(self, columns: Gaussians, sums: RowSums, priors: Priors) -> float:
        """Minus the divergences from the priors, and the densities of learned precisions."""
        return (
            effects_term(self.observed, self.design, priors)
            - divergence_of_columns(self.observed, self.design, priors, columns)
            - divergence_of_rows(self.observed, self.design, priors, sums)
        )


def columns_given(
    observed: Observed, state: FactorState, sums: RowSums
) -> tuple[Gaussians, Array]:
    """The Gaussians of all columns given the sums of rows, and their expected squared residuals.

    Residuals are sums of ``precision * E[(value - z)^2]``, before a division by learned variances.
    """
    design, priors = state.design, state.priors
    precisions, means = priors.of_columns(observed, design)
    scale = 1.0 / priors.noise[:, None]
    n_columns, width = sums.vectors.shape
    found = Gaussians(
        np.array(design.given),
        np.zeros((n_columns, loops.packed_size(width))),
        np.zeros(n_columns),
    )
    for begin in range(0, n_columns, CHUNK):
        chunk = np.arange(begin, min(begin + CHUNK, n_columns))
        for group, free in design.groups:
            here = np.intersect1d(group, chunk, assume_unique=True)
            if not here.size:
                continue
            own = conditionals(
                scale[here] * sums.matrices[here],
                scale[here] * sums.vectors[here],
                free,
                design.given[here],
                precisions[here],
                means[here],
            )
            found.means[here] = own.means
            found.covariances[here] = own.covariances
            found.log_determinants[here] = own.log_determinants
    twice = np.full(loops.packed_size(width), 2.0)
    twice[np.diag(loops.unpacking(width))] = 1.0
    residuals = (
        sums.totals[:, 1]
        - 2.0 * np.einsum("jk,jk->j", sums.vectors, found.means)
        + np.einsum("jp,jp,p->j", sums.matrices, found.squares, twice)
    )
    return found, np.maximum(residuals, 0.0)


def best_noise(
    observed: Observed, priors: Priors, sums: RowSums, residuals: Array
) -> tuple[Array, float]:
    """Variances of the noise that make the bound largest, and the centre of their prior."""
    noise, usual, squares = np.array(priors.noise), priors.usual_noise, observed.squares
    for b, block in enumerate(observed.blocks):
        here = block.columns
        counts = observed.counts[here]
        if block.noise == "column":
            prior = NOISE_ENTRIES * usual
            found = (residuals[here] + prior) / (counts + NOISE_ENTRIES)
            noise[here] = np.maximum(found, LEAST_NOISE * squares[here])
        elif block.noise == "block" and np.sum(counts):
            mean = (np.sum(residuals[here]) + sums.spreads[b]) / np.sum(counts)
            noise[here] = max(float(mean), LEAST_SPREAD)
    learned = observed.columns_with_noise
    if learned.size:
        usual = 1.0 / float(np.mean(1.0 / noise[learned]))
    return noise, usual


def data_term(observed: Observed, priors: Priors, sums: RowSums, residuals: Array) -> float:
    """The expected parabolas below the log likelihoods of all entries."""
    noise = priors.noise
    total = float(sums.scalars[0]) - 0.5 * float(np.sum(residuals / noise))
    for b, block in enumerate(observed.blocks):
        counts, own = observed.counts[block.columns], noise[block.columns]
        if block.noise == "column":
            total -= 0.5 * float(np.sum(counts * (LOG_TWO_PI + np.log(own))))
            total += 0.0 if block.weights is None else 0.5 * float(np.sum(np.log(block.weights)))
        elif block.noise == "block":
            total -= 0.5 * float(sums.spreads[b] / own[0] + np.sum(counts) * np.log(own[0]))
    return total


def noise_term(observed: Observed, priors: Priors) -> float:
    """The log density of the logarithms of learned variances: scaled inverse chi square."""
    learned, half = observed.columns_with_noise, 0.5 * NOISE_ENTRIES
    if not learned.size:
        return 0.0
    ratio = priors.usual_noise / priors.noise[learned]
    constant = half * np.log(half) - gammaln(half)
    return float(np.sum(constant + half * (np.log(ratio) - ratio)))


def rotated(
    design: Design, columns: Gaussians, sums: RowSums, n_rows: int, weight: float | None
) -> tuple[Gaussians, RowSums]:
    """Columns and sums of rows where factors are turned and scaled to the largest bound.

    z does not change under u -> R'u, v -> R^-1 v, the divergences from the priors do. With
    F = sum E[u u'] and G = sum E[v v'] the best R is F^(-1/2) Q diag(x)^(1/2), Q the axes of
    F^(1/2) G F^(1/2) and x = n_rows where the precisions of columns' factors are learned (Luttinen
    and Ilin, 2010); under a given weight w, and m the sizes along these axes,
    ``x^2 - (n_rows - n_columns) x = w^2 m``.
    """
    k, width = design.n_factors, design.width
    if not k:
        return columns, sums
    where = loops.unpacking(width)
    ofrows = sums.squares[where[:k, :k]]
    ofcolumns = np.sum(columns.squares, axis=0)[where[:k, :k]]
    values, axes = np.linalg.eigh(ofrows)
    root = (axes * np.sqrt(values)) @ axes.T
    sizes, turn = np.linalg.eigh(root @ ofcolumns @ root)
    sizes, turn = np.maximum(sizes[::-1], 0.0), turn[:, ::-1]
    stretch = np.full(k, float(n_rows))
    if weight is not None:
        more = float(n_rows - design.given.shape[0])
        products = weight**2 * np.maximum(sizes, EPS * np.max(sizes))
        larger = 0.5 * (abs(more) + np.sqrt(more**2 + 4.0 * products))
        stretch = larger if more >= 0.0 else products / larger
    inverse = (turn / np.sqrt(stretch)).T @ root  # R^-1
    forward = ((axes / np.sqrt(values)) @ axes.T @ turn * np.sqrt(stretch)).T  # R'
    log_det = 0.5 * float(np.sum(np.log(stretch)) - np.sum(np.log(values)))  # of R
    of_columns, of_rows = np.eye(width), np.eye(width)
    of_columns[:k, :k], of_rows[:k, :k] = inverse, forward
    full = of_columns @ columns.covariances[:, where] @ of_columns.T
    columns = Gaussians(
        columns.means @ of_columns.T,
        loops.packed(full),
        columns.log_determinants - 2.0 * log_det,
    )
    squares = loops.packed(of_rows @ sums.squares[where] @ of_rows.T)
    scalars = sums.scalars + np.array([0.0, 2.0 * n_rows * log_det])
    return columns, attrs.evolve(sums, squares=squares, scalars=scalars)


def best_priors(
    observed: Observed,
    design: Design,
    priors: Priors,
    columns: Gaussians,
    sums: RowSums,
    weight: float | None,
) -> Priors:
    """Precisions and means of the priors that make the bound largest."""
    k, moments = design.n_factors, columns.second_moments()
    n_rows, n_columns = observed.shape
    factors = priors.factors
    if weight is None:
        factors = n_columns / np.maximum(np.sum(moments[:, :k], axis=0), TINY)
    diagonal = sums.squares[np.diag(loops.unpacking(design.width))]
    row_effects, biases = np.array(priors.row_effects), np.array(priors.biases)
    bias_means = np.array(priors.bias_means)
    for place, b in enumerate(design.row_blocks):
        if not observed.blocks[b].ridge:
            counted = EFFECTS * observed.blocks[b].usual_square
            row_effects[place] = (n_rows + EFFECTS) / (diagonal[k + place] + counted)
    for b, block in enumerate(observed.blocks):
        if block.layout.n_biases:
            own = columns.means[block.columns, -1] + block.centres
            bias_means[b] = np.mean(own) if not block.ridge or block.layout.n_intercepts else 0.0
            if not block.ridge:
                variances = columns.covariances[block.columns, -1]
                squares = np.sum(variances + (own - bias_means[b]) ** 2)
                counted = EFFECTS * block.usual_square
                biases[b] = (own.size + EFFECTS) / (squares + counted)
    return attrs.evolve(
        priors, factors=factors, row_effects=row_effects, biases=biases, bias_means=bias_means
    )


def effects_term(observed: Observed, design: Design, priors: Priors) -> float:
    """The log densities of the logarithms of learned precisions of effects, up to a constant."""
    total = 0.0
    pairs = [(priors.row_effects[p], b) for p, b in enumerate(design.row_blocks)]
    pairs += [
        (priors.biases[b], b) for b, own in enumerate(observed.blocks) if own.layout.n_biases
    ]
    for precision, b in pairs:
        block = observed.blocks[b]
        if not block.ridge:
            ratio = float(precision) * block.usual_square
            total += 0.5 * EFFECTS * (np.log(ratio) - ratio)
    return total


def divergence_of_columns(
    observed: Observed, design: Design, priors: Priors, columns: Gaussians
) -> float:
    """KL(q(w) || p), summed over columns."""
    precisions, means = priors.of_columns(observed, design)
    diagonal = np.diag(loops.unpacking(design.width))
    away = columns.covariances[:, diagonal] + np.square(columns.means - means)
    terms = np.where(design.free, precisions * away - np.log(precisions) - 1.0, 0.0)
    return 0.5 * float(np.sum(terms) - np.sum(columns.log_determinants))


def divergence_of_rows(observed: Observed, design: Design, priors: Priors, sums: RowSums) -> float:
    """KL(q(x) || p), summed over rows."""
    free, precisions = design.row_free, priors.of_rows(design)[0]
    diagonal = sums.squares[np.diag(loops.unpacking(design.width))]
    terms = precisions * diagonal - observed.shape[0] * (np.log(precisions) + 1.0)
    return 0.5 * float(np.sum(terms[free]) - sums.scalars[1])


# Rounds in which new rows and the bounds of their entries are found given each other, at most.
ROUNDS = 100


@attrs.frozen(eq=False)
class FactorPosterior:
    """Gaussian factors of some rows: their entries, and the columns and priors of a fit."""

    observed: Observed
    state: FactorState
    ended: bool | None = None

    @property
    def centres(self) -> Array:
        """What biases of the columns of Z are counted from."""
        return np.concatenate([block.centres for block in self.observed.blocks])

    @property
    def noise(self) -> Array:
        """The noise variance of each column of Z, 1 where none is learned."""
        return self.state.priors.noise

    def rows_given(self, rows: IntArray) -> Gaussians:
        """The Gaussians of some rows, which are in ascending order."""
        passed, found = RowPass(self.observed, self.state), []
        for chunk in np.unique(rows // CHUNK):
            first, last = int(chunk) * CHUNK, min((int(chunk) + 1) * CHUNK, self.n_rows)
            own = passed.gaussians(first, last)
            here = rows[(rows >= first) & (rows < last)] - first
            found.append([array[here] for array in attrs.astuple(own, recurse=False)])
        return Gaussians(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))

    @property
    def n_factors(self) -> int:
        """The number of factors."""
        return self.state.design.n_factors

    def likelihood(self, name: str) -> Any:
        """The likelihood of a block with what was learned of it, but for the noise."""
        return next(own.likelihood for own in self.observed.blocks if own.block.name == name)

    def __str__(self) -> str:
        return f"factors    {self.state.design.n_factors}"

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.observed.shape[0]

    def mixture(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array, Array]:
        """Weights, means and variances (1 x N) of z at cells, effects included."""
        if not rows.size:
            return np.ones((1, 0)), np.zeros((1, 0)), np.zeros((1, 0))
        distinct, which = np.unique(rows, return_inverse=True)
        order = np.argsort(which, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(which))])
        mean, variance = np.empty(rows.size), np.empty(rows.size)
        own, others = self.rows_given(distinct), self.state.columns
        loops.predictor_moments(
            0,
            distinct.size,
            starts,
            columns[order],
            order,
            own.means,
            own.covariances,
            others.means,
            others.covariances,
            mean,
            variance,
        )
        variance += self.own_noise[columns]
        return np.ones((1, rows.size)), (mean + self.centres[columns])[None], variance[None]

    @property
    def own_noise(self) -> Array:
        """The variance of the noise that is part of the predictors of each column of Z."""
        found = np.zeros(self.observed.shape[1])
        for block in self.observed.blocks:
            if block.noise == "block":
                found[block.columns] = self.noise[block.columns]
        return found

    def draws(self, rows: IntArray, rng: np.random.Generator, m: int) -> Array:
        """Draws of z (m x len(rows) x n_columns), effects included; columns are drawn once."""
        distinct, which = np.unique(rows, return_inverse=True)
        drawn = drawn_from(self.rows_given(distinct), rng, m)
        columns = drawn_from(self.state.columns, rng, m)
        z = np.einsum("mrk,mck->mrc", drawn, columns)[:, which]
        noise = np.sqrt(self.own_noise)
        if noise.any():
            z += noise * rng.standard_normal(z.shape)
        drawn_z: Array = z + self.centres
        return drawn_z

    def condition(self, observed: Observed) -> "FactorPosterior":
        """The posterior of new rows with these entries, columns and priors as they are."""
        state = begin(observed, self.state.design.n_factors, None, np.random.default_rng(0))
        state = attrs.evolve(
            state,
            design=self.state.design,
            columns=self.state.columns,
            priors=self.state.priors,
        )
        passed = RowPass(observed, state)
        if passed.moments[0].size:
            for first in range(0, observed.shape[0], CHUNK):
                last = min(first + CHUNK, observed.shape[0])
                before: Any = np.inf
                for _ in range(ROUNDS):
                    own = passed.gaussians(first, last)
                    passed.refresh(first, last, own)
                    moved = float(np.max(np.abs(own.means - before), initial=0.0))
                    before = own.means
                    if moved <= 1e-8 * (1.0 + float(np.max(np.abs(own.means)))):
                        break
        return FactorPosterior(observed, state)


def drawn_from(gaussians: Gaussians, rng: np.random.Generator, m: int) -> Array:
    """Draws (m x n x K) of Gaussians; given numbers stay as they are."""
    where = loops.unpacking(gaussians.means.shape[1])
    values, axes = np.linalg.eigh(gaussians.covariances[:, where])
    roots = axes * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    normal = rng.standard_normal((m, *gaussians.means.shape))
    return gaussians.means + np.einsum("nab,mnb->mna", roots, normal)


def factor_sweeps(
    observed: Observed, n_factors: int, weight: float | None, seed: int
) -> Iterator[tuple[FactorPosterior, float, float]]:
    """The posterior after each sweep, the bound on the log evidence, and how far it is rounded."""
    state = begin(observed, n_factors, weight, np.random.default_rng(seed))
    for number in count():
        found = sweep(observed, state, weight, learns_noise=number >= HELD)
        observed, state = found.observed, found.state
        yield FactorPosterior(observed, state), found.evidence, found.rounding
