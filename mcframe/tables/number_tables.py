"""A table as numbers of one Gaussian block: its units, and whether its rows have factors."""

from collections.abc import Sequence

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Model
from mcframe.model.transforms import AffineUnits, affine_units
from mcframe.posterior.wide_rows import is_wide
from mcframe.regularizers import NuclearNorm

# Rows times the cube of columns up to which a full covariance is estimated.
MOST_COVARIANCE_WORK = 1e11
# The cube of rows times columns up to which the covariance of a wide table is estimated.
MOST_WIDE_COVARIANCE_WORK = 2.5e9


def takes_factors(shape: tuple[int, int]) -> bool:
    """True if the rows of a table of numbers (n x d) have factors, and no full covariance."""
    rows, columns = map(float, shape)
    if is_wide(*shape):
        return rows**3 * columns > MOST_WIDE_COVARIANCE_WORK
    return rows * columns**3 > MOST_COVARIANCE_WORK


def number_block(name: str) -> Block:
    """A block of numbers in standard units, with noise that is learned."""
    return Block(name, Gaussian(variance=None), standardize=True)


def factor_model(blocks: Sequence[Block]) -> Model:
    """The model of blocks whose rows and columns have Gaussian factors."""
    return Model([attrs.evolve(block, bias=True) for block in blocks], [NuclearNorm()])


def first_numbers(column_of_number: IntArray) -> IntArray:
    """Return the place of the first number of each column; numbers (d,) name theirs, ascending."""
    return np.searchsorted(column_of_number, np.arange(column_of_number[-1] + 1))


def standard_units(values: Array) -> AffineUnits:
    """Return the units in which the columns (n x d) of a standardised block are read."""
    rows, columns = np.nonzero(~np.isnan(values))
    return affine_units(
        values[rows, columns], columns, np.ones(rows.size), values.shape[1], robust=False
    )


def standardized(values: Array) -> Array:
    """Return numbers (n x d) in the units of their own columns."""
    return standard_units(values).apply(values, *np.ogrid[: values.shape[0], : values.shape[1]])


@attrs.frozen(eq=False)
class UnitsAboutMeans:
    """Standard units less the mean of the group of a row, in units of their own.

    Attributes
    ----------
    units : AffineUnits
    offsets : array (n x d)
        In standard units.
    """

    units: AffineUnits
    offsets: Array

    @property
    def spread(self) -> Array:
        """The standard deviations of the columns."""
        return self.units.spread

    def apply(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """Numbers in these units."""
        return self.units.apply(numbers, rows, columns) - self.offsets[rows, columns]

    def invert(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """Numbers in the units of the table."""
        return self.units.invert(numbers + self.offsets[rows, columns], rows, columns)


# Units of a table of numbers.
StandardUnits = AffineUnits | UnitsAboutMeans
