"""The state of Gaussian factors: the numbers of rows and columns, their Gaussians, and priors."""

from functools import cached_property

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.sent import Broadcast
from mcframe.contracts.stored_classes import stored
from mcframe.posterior.coefficients import Coefficients
from mcframe.posterior.gaussians import Gaussians
from mcframe.posterior.observed import Observed

# The initial noise variance of a column, over its mean square.
INITIAL_NOISE_SHARE = 0.1
# The smallest weight of the norm, times the root mean square of the values. Where a column has
# fewer entries than factors, its covariance is that of the prior in some directions. Under a
# smaller weight these variances are so large that sums with other numbers lose all digits of the
# latter.
LEAST_RELATIVE_WEIGHT = 1e-6


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

    def of_coefficients(self, design: Design) -> tuple[Array, Array]:
        """Prior precisions of coefficients of rows and of columns, both (K,)."""
        of_columns = np.ones(design.width)
        of_columns[: design.n_factors] = self.factors
        return np.ones(design.width), of_columns

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
    row_coefficients, column_coefficients : Coefficients or None
        Of attributes.
    """

    design: Design
    columns: Gaussians
    priors: Priors
    key: str = ""
    expects: bool = False
    predictor_noise: Array | None = None
    row_coefficients: Coefficients | None = None
    column_coefficients: Coefficients | None = None

    @property
    def has_attributes(self) -> bool:
        """True if means of rows or columns depend on attributes."""
        return self.row_coefficients is not None or self.column_coefficients is not None

    @property
    def without_column_coefficients(self) -> "FactorState":
        """The state that rows need: columns, on which attributes have had their effect."""
        return attrs.evolve(self, column_coefficients=None)

    @property
    def coefficient_counts(self) -> list[int]:
        """The counts of attributes, or of rows or columns where these are fewer."""
        sides = self.row_coefficients, self.column_coefficients
        return [min(side.attributes.shape) for side in sides if side is not None]

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
