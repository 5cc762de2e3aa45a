"""Linear equations of a block that hold exactly."""

from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.rounding import SET_ROUNDING
from mcframe.contracts.term import Constraint, Prox
from mcframe.contracts.validators import block_name, check_equations, same_matrix
from mcframe.numerics.known_equations import KnownEquations

__all__ = ["CalibrationConstraint"]


@attrs.frozen
class CalibrationConstraint(Constraint, Prox):
    """``A Z = B`` for the columns of one block: what is known of its sums, exactly.

    ``mc.Calibration(block, A, B)`` makes it; see there. Redundant equations do no harm.
    Equations that no Z solves are refused at construction. NaN in B says that an equation of a
    column is not known: it asks for nothing. Z counts as a solution up to
    ``||A Z - B||_F <= 1e-9 * max(||B||_F, ||A||_2 ||Z||_F)`` over the known ones, the rounding
    of a Z in factors.

    Parameters
    ----------
    block : str
    A : array (m x n_items)
        Coefficients, one row for each equation; a vector is one row.
    B : array (m x columns of the block)
        What A Z is, NaN where that is not known; a vector is one row.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> total = mc.CalibrationConstraint("x", A=[1.0, 1.0, 1.0], B=[3.0])
    >>> total.value(np.array([[1.0], [1.0], [1.0]])), total.value(np.array([[1.0], [1.0], [4.0]]))
    (0.0, inf)
    """

    block: str = attrs.field(validator=block_name)
    # Left out of the hash, which stays a valid one: arrays have none.
    A: Array = attrs.field(eq=attrs.cmp_using(eq=same_matrix), hash=False)
    B: Array = attrs.field(eq=attrs.cmp_using(eq=same_matrix), hash=False)

    word = "Calibration"
    states_sums = True

    def __attrs_post_init__(self) -> None:
        check_equations(self)
        outside = self.equations.unreachable
        if np.linalg.norm(outside) > SET_ROUNDING * np.linalg.norm(self.equations.values):
            # The first of those that only rounding tells apart: all machines say the same.
            largest = np.abs(outside) >= (1.0 - 1e-6) * np.max(np.abs(outside))
            row, column = np.argwhere(largest)[0]
            entry, off = self.B[row, column], outside[row, column]
            raise ModelError(
                f"Calibration of block {self.block!r}: no Z has A Z = B, since rows of A depend"
                f" on each other and those of B do not in the same way; the nearest B that some"
                f" Z has differs most in row {row}, column {column}: {entry - off:g} for the"
                f" given {entry:g}. Correct B, or use Calibration(..., weight=...), which"
                " allows a difference"
            )

    @cached_property
    def equations(self) -> KnownEquations:
        """A and B with the decomposition of A, of each part of it that columns of Z have."""
        return KnownEquations.of(self.A, self.B)

    def bound_to(
        self, shape: tuple[int, int], rows: IntArray, columns: IntArray, values: Array
    ) -> "CalibrationConstraint":
        """The same term; ``DataError`` where A and B do not fit the block's shape."""
        misfit = self.equations.misfit(shape)
        if misfit is not None:
            raise DataError(f"Calibration of block {self.block!r}: {misfit}")
        return self

    def value(self, latent: Array) -> float:
        """0 where A Z = B is met as far as it is known, up to rounding, else inf."""
        reach = self.equations.norm * float(np.linalg.norm(latent))
        size = max(float(np.linalg.norm(self.equations.values)), reach)
        return 0.0 if self.residual(latent) <= SET_ROUNDING * size else np.inf

    def residual(self, latent: Array) -> float:
        """||A Z - B||_F over the known equations."""
        return float(np.linalg.norm(self.equations.residual(latent)))

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """The projection Z - A^+ (A Z - B), of each column by its known equations.

        The step plays no part.
        """
        return self.equations.moved(latent, np.reciprocal), 0.0

    def room(self, dual: Array, length: float) -> float:
        """||L||_F times what is left of A Z - B, for the least L with Y = A'L."""
        size = max(float(np.linalg.norm(self.equations.values)), self.equations.norm * length)
        return SET_ROUNDING * size * float(np.sqrt(self.equations.multiplier_square(dual)))

    def conjugate(self, dual: Array) -> float:
        """<L, B> where the dual matrix is A'L, else inf; <Y, Z> is that for every solution Z.

        L is 0 where an equation is not known.
        """
        if self.equations.in_row_space(dual) is not dual:
            return np.inf
        return float(np.vdot(dual, self.equations.solution))

    def nearest_dual(self, dual: Array) -> Array:
        """The projection onto the matrices A'L, with L 0 where an equation is not known."""
        return self.equations.in_row_space(dual)

    def constraints(self, cp: Any, latent: Any) -> list[Any]:
        """A Z == B at the known equations."""
        return [self.equations.stated(latent) == 0.0]

    def in_units(self, unit: float) -> "CalibrationConstraint":
        """``B / unit``."""
        return attrs.evolve(self, B=self.B / unit)

    def formula(self) -> str:
        """A Z_block = B, where B is known."""
        known = "" if self.equations.known.all() else " where B is known"
        return f"A Z_{self.block} = B{known}"

    def latex(self) -> str:
        r"""A Z_{block} = B."""
        known = "" if self.equations.known.all() else r" \text{ where } B \text{ is known}"
        return rf"A Z_{{\mathrm{{{self.block.replace('_', '-')}}}}} = B{known}"
