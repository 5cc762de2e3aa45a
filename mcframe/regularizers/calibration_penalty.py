"""Linear equations of a block, as a penalty."""

from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError
from mcframe.contracts.term import Prox, Regularizer, SmoothTerm
from mcframe.contracts.validators import block_name, check_equations, positive, same_matrix
from mcframe.numerics.known_equations import KnownEquations

__all__ = ["CalibrationPenalty"]


@attrs.frozen
class CalibrationPenalty(Regularizer, Prox, SmoothTerm):
    """``weight * ||A Z - B||_F^2`` over the columns of one block: what is known of its sums.

    ``mc.Calibration(block, A, B, weight)`` makes it; see there. NaN in B says that an equation of
    a column is not known: the sum is over the known ones.

    Parameters
    ----------
    block : str
    A : array (m x n_items)
        Coefficients, one row for each equation; a vector is one row.
    B : array (m x columns of the block)
        What A Z should be, NaN where that is not known; a vector is one row.
    weight : float
        Positive.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> total = mc.CalibrationPenalty("x", A=[1.0, 1.0, 1.0], B=[3.0], weight=2.0)
    >>> total.value(np.array([[1.0], [1.0], [2.0]]))
    2.0
    """

    block: str = attrs.field(validator=block_name)
    # Left out of the hash, which stays a valid one: arrays have none.
    A: Array = attrs.field(eq=attrs.cmp_using(eq=same_matrix), hash=False)
    B: Array = attrs.field(eq=attrs.cmp_using(eq=same_matrix), hash=False)
    weight: float = attrs.field(validator=positive)

    word = "Calibration"
    states_sums = True

    def __attrs_post_init__(self) -> None:
        check_equations(self)

    @cached_property
    def equations(self) -> KnownEquations:
        """A and B with the decomposition of A, of each part of it that columns of Z have."""
        return KnownEquations.of(self.A, self.B)

    def bound_to(
        self, shape: tuple[int, int], rows: IntArray, columns: IntArray, values: Array
    ) -> "CalibrationPenalty":
        """The same term; ``DataError`` where A and B do not fit the block's shape."""
        misfit = self.equations.misfit(shape)
        if misfit is not None:
            raise DataError(f"Calibration of block {self.block!r}: {misfit}")
        return self

    def value(self, latent: Array) -> float:
        """weight * ||A Z - B||_F^2 over the known equations."""
        return self.value_and_slope(latent)[0]

    def value_and_slope(self, latent: Array) -> tuple[float, Array]:
        """The value and 2 weight A'(A Z - B), that difference 0 where it is not known."""
        residual = self.equations.residual(latent)
        value = self.weight * float(np.vdot(residual, residual))
        return value, 2.0 * self.weight * (self.A.T @ residual)

    @property
    def curvature(self) -> float:
        """2 weight ||A||_2^2, with the equations of the column where that is largest."""
        return 2.0 * self.weight * self.equations.norm**2

    def residual(self, latent: Array) -> float:
        """||A Z - B||_F over the known equations."""
        return float(np.linalg.norm(self.equations.residual(latent)))

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """(I + 2 step weight A'A)^-1 (Z + 2 step weight A'B), singular vector by vector."""
        size = 2.0 * step * self.weight
        moved = self.equations.moved(latent, lambda s: size * s / (1.0 + size * s * s))
        return moved, self.value(moved)

    def conjugate(self, dual: Array) -> float:
        """<L, B> + ||L||_F^2 / (4 weight) where the dual matrix is A'L, else inf.

        L is 0 where an equation is not known, and each column of it in the range of A; where B is
        not, ``weight * ||its part outside||_F^2`` is taken off. <L, B> = <A'L, Z> for the least
        squares solution Z, too.
        """
        if self.equations.in_row_space(dual) is not dual:
            return np.inf
        outside = self.equations.unreachable
        return (
            float(np.vdot(dual, self.equations.solution))
            + self.equations.multiplier_square(dual) / (4.0 * self.weight)
            - self.weight * float(np.vdot(outside, outside))
        )

    def nearest_dual(self, dual: Array) -> Array:
        """The projection onto the matrices A'L, with L 0 where an equation is not known."""
        return self.equations.in_row_space(dual)

    def expression(self, cp: Any, latent: Any) -> Any:
        """weight * sum_squares(A Z - B) over the known equations."""
        return self.weight * cp.sum_squares(self.equations.stated(latent))

    def in_units(self, unit: float) -> "CalibrationPenalty":
        """``B / unit`` and ``weight * unit^2``."""
        return attrs.evolve(self, B=self.B / unit, weight=self.weight * unit**2)

    def formula(self) -> str:
        """weight ‖A Z_block − B‖_F², where B is known."""
        known = "" if self.equations.known.all() else " where B is known"
        return f"{self.weight:g} ‖A Z_{self.block} − B‖_F²{known}"

    def latex(self) -> str:
        r"""weight \lVert A Z_{block} - B \rVert_F^2."""
        known = "" if self.equations.known.all() else r" \text{ where } B \text{ is known}"
        name = self.block.replace("_", "-")
        return rf"{self.weight:g} \lVert A Z_{{\mathrm{{{name}}}}} - B \rVert_F^2{known}"
