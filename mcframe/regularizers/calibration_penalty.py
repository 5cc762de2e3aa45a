"""Linear equations of a block, as a penalty."""

from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.term import Prox, Regularizer, SmoothTerm
from mcframe.contracts.validators import block_name, positive, read_only_matrix
from mcframe.numerics.linear_equations import LinearEquations

__all__ = ["CalibrationPenalty"]


@attrs.frozen
class CalibrationPenalty(Regularizer, Prox, SmoothTerm):
    """``weight * ||A Z - B||_F^2`` over the columns of one block: what is known of its sums.

    ``mc.Calibration(block, A, B, weight)`` makes it; see there.

    Parameters
    ----------
    block : str
    A : array (m x n_items)
        Coefficients, one row for each equation; a vector is one row.
    B : array (m x columns of the block)
        What A Z should be; a vector is one row.
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
    A: Array = attrs.field(eq=attrs.cmp_using(eq=np.array_equal), hash=False)
    B: Array = attrs.field(eq=attrs.cmp_using(eq=np.array_equal), hash=False)
    weight: float = attrs.field(validator=positive)

    def __attrs_post_init__(self) -> None:
        for name in ("A", "B"):
            matrix = read_only_matrix(getattr(self, name), f"Calibration: {name}")
            object.__setattr__(self, name, matrix)
        if self.A.shape[0] != self.B.shape[0]:
            raise ModelError(
                f"Calibration: A of shape {self.A.shape} and B of shape {self.B.shape} were"
                " given; they need the same number of rows, one for each equation"
            )

    @cached_property
    def equations(self) -> LinearEquations:
        """A and B with the decomposition of A."""
        return LinearEquations.of(self.A, self.B)

    def bound_to(
        self, shape: tuple[int, int], rows: IntArray, columns: IntArray, values: Array
    ) -> "CalibrationPenalty":
        """The same term; ``DataError`` where A and B do not fit the block's shape."""
        misfit = self.equations.misfit(shape)
        if misfit is not None:
            raise DataError(f"Calibration of block {self.block!r}: {misfit}")
        return self

    def value(self, latent: Array) -> float:
        """weight * ||A Z - B||_F^2."""
        return self.value_and_slope(latent)[0]

    def value_and_slope(self, latent: Array) -> tuple[float, Array]:
        """The value and 2 weight A'(A Z - B)."""
        residual = self.equations.residual(latent)
        value = self.weight * float(np.vdot(residual, residual))
        return value, 2.0 * self.weight * (self.A.T @ residual)

    @property
    def curvature(self) -> float:
        """2 weight ||A||_2^2."""
        return 2.0 * self.weight * self.equations.norm**2

    def residual(self, latent: Array) -> float:
        """||A Z - B||_F."""
        return float(np.linalg.norm(self.equations.residual(latent)))

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """(I + 2 step weight A'A)^-1 (Z + 2 step weight A'B), singular vector by vector."""
        s = self.equations.singular_values
        share = 2.0 * step * self.weight * s / (1.0 + 2.0 * step * self.weight * s * s)
        moved = latent - self.equations.right @ (share[:, None] * self.equations.reduced(latent))
        return moved, self.value(moved)

    def conjugate(self, dual: Array) -> float:
        """<L, B> + ||L||_F^2 / (4 weight) where the dual matrix is A'L, else inf.

        L is the one in the range of A; where B is not, ``weight * ||its part outside||_F^2``
        is taken off.
        """
        if self.equations.in_row_space(dual) is not dual:
            return np.inf
        multiplier = self.equations.multiplier(dual)
        outside = self.equations.unreachable()
        return (
            float(np.vdot(multiplier, self.equations.left.T @ self.B))
            + float(np.vdot(multiplier, multiplier)) / (4.0 * self.weight)
            - self.weight * float(np.vdot(outside, outside))
        )

    def nearest_dual(self, dual: Array) -> Array:
        """The projection onto the matrices of the form A'L."""
        return self.equations.in_row_space(dual)

    def expression(self, cp: Any, latent: Any) -> Any:
        """weight * sum_squares(A Z - B)."""
        return self.weight * cp.sum_squares(self.A @ latent - self.B)

    def formula(self) -> str:
        """weight ‖A Z_block − B‖_F²."""
        return f"{self.weight:g} ‖A Z_{self.block} − B‖_F²"

    def latex(self) -> str:
        r"""weight \lVert A Z_{block} - B \rVert_F^2."""
        name = self.block.replace("_", "-")
        return rf"{self.weight:g} \lVert A Z_{{\mathrm{{{name}}}}} - B \rVert_F^2"
