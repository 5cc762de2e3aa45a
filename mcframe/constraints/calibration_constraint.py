"""Linear equations of a block that hold exactly."""

from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.term import Constraint, Prox
from mcframe.contracts.validators import block_name, read_only_matrix
from mcframe.numerics.linear_equations import LinearEquations

__all__ = ["CalibrationConstraint"]

# How far A Z may lie from B and still count as equal, relative to their sizes: rounding.
ROUNDING = 1e-9


@attrs.frozen
class CalibrationConstraint(Constraint, Prox):
    """``A Z = B`` for the columns of one block: what is known of its sums, exactly.

    ``mc.Calibration(block, A, B)`` makes it; see there. Redundant equations do no harm.
    Equations that no Z solves are refused at construction. Z counts as a solution up to
    ``||A Z - B||_F <= 1e-9 * max(||B||_F, ||A||_2 ||Z||_F)``, the rounding of a Z in
    factors.

    Parameters
    ----------
    block : str
    A : array (m x n_items)
        Coefficients, one row for each equation; a vector is one row.
    B : array (m x columns of the block)
        What A Z is; a vector is one row.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> total = mc.CalibrationConstraint("x", A=[1.0, 1.0, 1.0], B=[3.0])
    >>> total.value(np.array([[1.0], [1.0], [1.0]])), total.value(np.array([[1.0], [1.0], [4.0]]))
    (0.0, inf)
    """

    block: str = attrs.field(validator=block_name)
    # Left out of the hash, which stays a valid one: arrays have none.
    A: Array = attrs.field(eq=attrs.cmp_using(eq=np.array_equal), hash=False)
    B: Array = attrs.field(eq=attrs.cmp_using(eq=np.array_equal), hash=False)

    def __attrs_post_init__(self) -> None:
        for name in ("A", "B"):
            matrix = read_only_matrix(getattr(self, name), f"Calibration: {name}")
            object.__setattr__(self, name, matrix)
        if self.A.shape[0] != self.B.shape[0]:
            raise ModelError(
                f"Calibration: A of shape {self.A.shape} and B of shape {self.B.shape} were"
                " given; they need the same number of rows, one for each equation"
            )
        outside = self.equations.unreachable()
        if np.linalg.norm(outside) > ROUNDING * np.linalg.norm(self.B):
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
    def equations(self) -> LinearEquations:
        """A and B with the decomposition of A."""
        return LinearEquations.of(self.A, self.B)

    @cached_property
    def least_solution(self) -> Array:
        """The solution of least norm."""
        return self.equations.solution()

    def bound_to(
        self, shape: tuple[int, int], rows: IntArray, columns: IntArray, values: Array
    ) -> "CalibrationConstraint":
        """The same term; ``DataError`` where A and B do not fit the block's shape."""
        misfit = self.equations.misfit(shape)
        if misfit is not None:
            raise DataError(f"Calibration of block {self.block!r}: {misfit}")
        return self

    def value(self, latent: Array) -> float:
        """0 where A Z = B, up to rounding, else inf."""
        reach = self.equations.norm * float(np.linalg.norm(latent))
        size = max(float(np.linalg.norm(self.B)), reach)
        return 0.0 if self.residual(latent) <= ROUNDING * size else np.inf

    def residual(self, latent: Array) -> float:
        """||A Z - B||_F."""
        return float(np.linalg.norm(self.equations.residual(latent)))

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """The projection Z - A^+ (A Z - B); the step plays no part."""
        s = self.equations.singular_values[:, None]
        return latent - self.equations.right @ (self.equations.reduced(latent) / s), 0.0

    def conjugate(self, dual: Array) -> float:
        """<L, B> where the dual matrix is A'L, else inf; <Y, Z> is that for every solution Z."""
        if self.equations.in_row_space(dual) is not dual:
            return np.inf
        return float(np.vdot(dual, self.least_solution))

    def nearest_dual(self, dual: Array) -> Array:
        """The projection onto the matrices of the form A'L."""
        return self.equations.in_row_space(dual)

    def constraints(self, cp: Any, latent: Any) -> list[Any]:
        """A Z == B."""
        return [self.A @ latent == self.B]

    def formula(self) -> str:
        """A Z_block = B."""
        return f"A Z_{self.block} = B"

    def latex(self) -> str:
        r"""A Z_{block} = B."""
        return rf"A Z_{{\mathrm{{{self.block.replace('_', '-')}}}}} = B"
