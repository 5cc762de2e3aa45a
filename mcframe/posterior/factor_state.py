"""The state of Gaussian factors: the numbers of rows and columns, their Gaussians, and priors."""

from functools import cached_property

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import BackendError
from mcframe.contracts.sent import Broadcast
from mcframe.contracts.stored_classes import stored
from mcframe.numerics import factor_loops as loops
from mcframe.posterior.observed import Observed

SINGULAR_MESSAGE = (
    "no posterior: normal equations are singular in double precision, since columns or effects"
    " are of very different sizes; standardise the columns, or take fewer factors"
)
# The initial noise variance of a column, over its mean square.
INITIAL_NOISE_SHARE = 0.1
# The smallest weight of the norm, times the root mean square of the values. Where a column has
# fewer entries than factors, its covariance is that of the prior in some directions. Under a
# smaller weight these variances are so large that sums with other numbers lose all digits of the
# latter.
LEAST_RELATIVE_WEIGHT = 1e-6
# Rows or columns that are worked on at a time.
ROWS_PER_CHUNK = 2048


@stored(renamed_fields={"given": "fixed_values"})
@attrs.frozen(eq=False)
class Design(Broadcast):
    """Which of the K numbers of a row or column are factors, effects or constants.

    Attributes
    ----------
    n_factors : int
    row_blocks : tuple of int
        The blocks with effects of rows, a number each after the factors.
    has_biases : bool
        Whether the last number is 1 in rows and the bias in columns.
    fixed_values : array (n_columns x K)
        What columns have at the numbers that are not free, 0 elsewhere.
    free : mask (n_columns x K)
        The numbers of columns that have a distribution.
    """

    n_factors: int
    row_blocks: tuple[int, ...]
    has_biases: bool
    fixed_values: Array
    free: Mask

    @classmethod
    def of(cls, observed: Observed, n_factors: int) -> "Design":
        """The design of so many factors and the effects that the blocks declare."""
        blocks = observed.blocks
        row_blocks = tuple(b for b, block in enumerate(blocks) if block.layout.n_row_effects)
        has_biases = any(block.layout.n_biases for block in blocks)
        fixed = np.zeros((observed.shape[1], n_factors + len(row_blocks) + has_biases))
        free = np.zeros(fixed.shape, dtype=bool)
        free[:, :n_factors] = True
        for place, b in enumerate(row_blocks):
            fixed[blocks[b].columns, n_factors + place] = 1.0
        for block in blocks:
            if block.layout.n_biases:
                free[block.columns, -1] = True
        return cls(n_factors, row_blocks, has_biases, fixed, free)

    @property
    def width(self) -> int:
        """K."""
        return self.fixed_values.shape[1]

    @cached_property
    def row_free(self) -> Mask:
        """The numbers of rows that have a distribution: all but the 1 of biases."""
        return np.arange(self.width) < self.width - self.has_biases

    @cached_property
    def row_fixed_values(self) -> Array:
        """The values of rows at the numbers that are not free (1 x K)."""
        return (~self.row_free).astype(float)[None]

    @cached_property
    def groups(self) -> tuple[tuple[IntArray, Mask], ...]:
        """Columns whose free numbers are the same, and these."""
        kinds, which = np.unique(self.free, axis=0, return_inverse=True)
        which = which.ravel()
        return tuple((np.flatnonzero(which == g), kind) for g, kind in enumerate(kinds))


@stored
@attrs.frozen(eq=False)
class Gaussians(Broadcast):
    """A Gaussian for each row or column, given numbers included.

    ``means`` (n x K), packed ``covariances`` (n x P), and the log determinant of the covariance of
    the free numbers, (n,).
    """

    means: Array
    covariances: Array
    log_determinants: Array

    @classmethod
    def without_variance(cls, means: Array) -> "Gaussians":
        """Gaussians of no variance."""
        n, width = means.shape
        return cls(np.array(means), np.zeros((n, loops.packed_size(width))), np.zeros(n))

    @classmethod
    def joined(cls, parts: list["Gaussians"]) -> "Gaussians":
        """The Gaussians of several groups of rows, one after the other."""
        arrays = zip(*(attrs.astuple(part, recurse=False) for part in parts), strict=True)
        return cls(*map(np.concatenate, arrays))

    def take(self, rows: IntArray) -> "Gaussians":
        """Some of the Gaussians."""
        return Gaussians(*(array[rows] for array in attrs.astuple(self, recurse=False)))

    def put(self, rows: IntArray, others: "Gaussians") -> None:
        """Overwrite some of the Gaussians by others."""
        self.means[rows] = others.means
        self.covariances[rows] = others.covariances
        self.log_determinants[rows] = others.log_determinants

    @property
    def outer_products(self) -> Array:
        """E[x x'], packed."""
        rows, columns = np.tril_indices(self.means.shape[1])
        return self.covariances + self.means[:, rows] * self.means[:, columns]

    def full_covariances(self, k: int | None = None) -> Array:
        """The covariances (n x k x k) of the first k numbers, or of all."""
        return self.covariances[:, loops.unpacking(self.means.shape[1])[:k, :k]]

    @property
    def variances(self) -> Array:
        """Variances (n x K)."""
        return self.covariances[:, np.diag(loops.unpacking(self.means.shape[1]))]

    def draws(self, rng: np.random.Generator, m: int) -> Array:
        """Draws (m x n x K); given numbers stay as they are.

        By ``roots``, which rounding moves by rounding alone.
        """
        normal = rng.standard_normal((m, *self.means.shape))
        return np.asarray(self.means + np.einsum("nab,mnb->mna", self.roots(), normal))

    def roots(self) -> Array:
        """The symmetric roots of the covariances (n x K x K); axes of others may turn."""
        values, axes = np.linalg.eigh(self.full_covariances())
        return axes * np.sqrt(np.maximum(values, 0.0))[:, None, :] @ axes.transpose(0, 2, 1)


def gaussians_of_groups(
    matrices: Array,
    vectors: Array,
    groups: tuple[tuple[IntArray, Mask], ...],
    fixed_values: Array,
    prior_precisions: Array,
    prior_means: Array,
) -> Gaussians:
    """``gaussians_given`` of rows or columns in groups of the same free numbers."""
    gaussians = Gaussians.without_variance(fixed_values)
    for members, free in groups:
        for begin in range(0, members.size, ROWS_PER_CHUNK):
            chunk = members[begin : begin + ROWS_PER_CHUNK]
            equations = matrices[chunk], vectors[chunk]
            prior = prior_precisions[chunk], prior_means[chunk]
            gaussians.put(chunk, gaussians_given(*equations, free, fixed_values[chunk], *prior))
    return gaussians


class SingularEquations(BackendError, np.linalg.LinAlgError):
    """Normal equations that double precision does not solve."""


def gaussians_given(
    matrices: Array,
    vectors: Array,
    free: Mask,
    fixed_values: Array,
    prior_precisions: Array,
    prior_means: Array,
) -> Gaussians:
    """The Gaussians with these normal equations and independent Gaussian priors.

    Densities proportional to ``exp(x'b - x'A x / 2)`` times the prior, of the free numbers given
    the others. Raises ``SingularEquations`` where a matrix is not positive definite.

    Parameters
    ----------
    matrices, vectors : arrays (n x P), (n x K)
        A and b.
    free : mask (K,)
    fixed_values : array (n or 1 x K)
    prior_precisions, prior_means : arrays (n or 1 x K)
    """
    gaussians = Gaussians.without_variance(np.broadcast_to(fixed_values, vectors.shape))
    means, places = gaussians.means, np.flatnonzero(free)
    if not places.size:
        return gaussians
    where = loops.unpacking(free.size)
    right = vectors[:, places] + prior_precisions[:, places] * prior_means[:, places]
    others = np.flatnonzero(~free)
    if others.size:
        across = matrices[:, where[np.ix_(places, others)]]
        right = right - np.einsum("nab,nb->na", across, means[:, others])
    solved = np.empty(right.shape)
    equations = matrices, right, np.ascontiguousarray(prior_precisions[:, places])
    of_places = np.ascontiguousarray(where[np.ix_(places, places)])
    answers = solved, gaussians.covariances, gaussians.log_determinants
    if not loops.solve_equations(*equations, of_places, *answers):
        raise SingularEquations(SINGULAR_MESSAGE)
    means[:, places] = solved
    return gaussians


@stored(renamed_fields={"usual_noise": "noise_prior_centre"})
@attrs.frozen(eq=False)
class Priors(Broadcast):
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
    noise_prior_centre : float
        The centre of the prior of the noise variances: their harmonic mean.
    weight : float or None
        The weight of the norm, whose square is the precision of columns' factors; None where one
        for each factor is learned.
    """

    factors: Array
    row_effects: Array
    biases: Array
    bias_means: Array
    noise: Array
    noise_prior_centre: float
    weight: float | None

    def of_rows(self, design: Design) -> Array:
        """Prior precisions of the numbers of a row (1 x K)."""
        precisions = np.ones((1, design.width))
        first = design.n_factors
        precisions[0, first : first + len(design.row_blocks)] = self.row_effects
        return precisions

    def of_columns(self, observed: Observed, design: Design) -> tuple[Array, Array]:
        """Prior precisions and means of the numbers of columns (n_columns x K)."""
        precisions, means = np.ones(design.fixed_values.shape), np.zeros(design.fixed_values.shape)
        precisions[:, : design.n_factors] = self.factors
        if design.has_biases:
            for b, block in enumerate(observed.blocks):
                precisions[block.columns, -1] = self.biases[b]
                means[block.columns, -1] = self.bias_means[b] - block.required_summary.centres
        return precisions, means


@stored
@attrs.frozen(eq=False)
class FactorState(Broadcast):
    """The state of the sweeps: Gaussians of the columns, and priors.

    Attributes
    ----------
    design : Design
    columns : Gaussians
    priors : Priors
    key : str
        The name by which rows keep the pseudo-observations of their entries that the last sweep
        found; empty before the first one.
    expects : bool
        Whether entries count by the derivatives of their expected log likelihoods where they can,
        and not by bounds.
    predictor_noise : array (n_blocks,) or None
        Variances of predictors' noise over which expectations integrate, in the place of those
        of ``priors``, which are then 1. Sums of rows then have the expected log likelihoods.
    """

    design: Design
    columns: Gaussians
    priors: Priors
    key: str = ""
    expects: bool = False
    predictor_noise: Array | None = None

    def noise_of_predictors(self, observed: Observed) -> Array:
        """The variance of the noise in the predictors of each block, 0 where there is none."""
        blocks = observed.blocks
        first = np.array([self.priors.noise[block.columns][0] for block in blocks])
        noise = first if self.predictor_noise is None else self.predictor_noise
        return np.where([block.learned_noise == "block" for block in blocks], noise, 0.0)


def initial_precision(observed: Observed, weight: float | None) -> float:
    """The first prior precision of columns' factors: one over the mean square of the values.

    Under a given weight of the norm it is the square of that.
    """
    return 1.0 / float(np.mean(observed.mean_squares)) if weight is None else weight**2


def initial_state(
    observed: Observed, n_factors: int, weight: float | None, rng: np.random.Generator
) -> FactorState:
    """A state to begin with: effects of columns 0, factors random and large, little noise.

    From much noise and small factors the bound rises to local maxima with too few factors: in the
    first sweeps they explain nothing, and are switched off.
    """
    design, mean_squares = Design.of(observed, n_factors), observed.mean_squares
    noise = np.ones(mean_squares.size)
    learned = observed.columns_with_noise
    noise[learned] = INITIAL_NOISE_SHARE * mean_squares[learned]
    means = np.array(design.fixed_values)
    drawn = rng.standard_normal((mean_squares.size, n_factors))
    means[:, :n_factors] = np.sqrt(mean_squares)[:, None] * drawn
    reference_squares = np.array([summary.reference_square for summary in observed.summaries])
    ridges = np.array([block.ridge for block in observed.blocks])
    effects_precisions = np.where(ridges > 0.0, ridges, 1.0 / reference_squares)
    mean_precision = initial_precision(observed, None)
    if weight is not None:
        weight = max(weight, LEAST_RELATIVE_WEIGHT * np.sqrt(mean_precision))
    priors = Priors(
        factors=np.full(n_factors, initial_precision(observed, weight)),
        row_effects=effects_precisions[list(design.row_blocks)],
        biases=effects_precisions,
        bias_means=np.array([np.mean(summary.centres) for summary in observed.summaries]),
        noise=noise,
        noise_prior_centre=1.0 / float(np.mean(1.0 / (INITIAL_NOISE_SHARE * mean_squares))),
        weight=weight,
    )
    return FactorState(design, Gaussians.without_variance(means), priors)
