"""What is known of a block's column sums, averages or contrasts.

The word ``Calibration`` and the two kinds of term that it makes: a penalty, which is smooth, and a
set. What terms can do is told by their types, so that they are two.
"""

from functools import cached_property
from typing import Any, Self

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.rounding import SET_ROUNDING
from mcframe.contracts.term import Constraint, Prox, Regularizer, SmoothTerm, Sums, Term
from mcframe.contracts.validators import block_name, check_equations, positive, same_matrix
from mcframe.numerics.equations import KnownEquations

__all__ = ["Calibration", "CalibrationConstraint", "CalibrationPenalty"]


def Calibration(  # noqa: N802 -- a word among words, whose instances are of one or the other class
    block: str, A: Any, B: Any, weight: float | None = None
) -> "CalibrationPenalty | CalibrationConstraint":
    """A term for linear equations ``A Z = B`` in the latent columns of one block.

    With a weight the penalty ``weight * ||A Z - B||_F^2``, else the exact constraint. Rows of
    A are sums over items that are known from elsewhere: with A = (1, ..., 1) / n_items, B holds
    the mean of each column, and a random sample's known totals calibrate the completion.

    Z is the linear predictor without biases, effects of rows and offsets. Its sums are sums of
    means in a block whose likelihood has no link and that has none of these. Of counts they are
    sums of log rates, of labels sums of log odds: totals of counts or numbers of labels are
    something else and must not be given. The fit notes it where that is so.

    Of a block with ``standardize=True`` or ``"robust"`` A and B speak of the values in their own
    units, centre + spread * Z; as a penalty the differences of each column count in its spreads.

    Parameters
    ----------
    block : str
        Whose columns the equations speak of.
    A : array (m x n_items)
        Coefficients, one row for each equation; a vector is one row. Redundant rows do no
        harm.
    B : array (m x columns of the block)
        What A Z is; a vector is one row. In the exact form some Z must have A Z = B. NaN says that
        an equation is not known of a column, and asks for nothing; a column of NaN is free.
    weight : float, optional
        Positive.

    Returns
    -------
    CalibrationPenalty or CalibrationConstraint
        Either has ``residual(Z)``, the distance ``||A Z - B||_F`` over the known equations.

    Raises
    ------
    ModelError
        Where A and B have different numbers of rows or entries that are no finite numbers, where
        B is NaN throughout, and in the exact form where no Z has A Z = B.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> print(mc.Calibration("x", A=np.full(4, 0.25), B=[1.0, 2.0], weight=3.0).formula())
    3 ‖A Z_x − B‖_F²
    >>> print(mc.Calibration("x", A=np.full(4, 0.25), B=[1.0, 2.0]).formula())
    A Z_x = B
    >>> print(mc.Calibration("x", A=np.full(4, 0.25), B=[1.0, np.nan]).formula())
    A Z_x = B where B is known
    """
    if weight is None:
        return CalibrationConstraint(block, A, B)
    return CalibrationPenalty(block, A, B, weight)


@attrs.frozen
class KnownSums(Term, Sums):
    """The equations ``A Z = B`` of one block, and what both kinds of term need of them."""

    block: str = attrs.field(validator=block_name)
    # Left out of the hash, which stays a valid one: arrays have none.
    A: Array = attrs.field(eq=attrs.cmp_using(eq=same_matrix), hash=False)
    B: Array = attrs.field(eq=attrs.cmp_using(eq=same_matrix), hash=False)

    word = "Calibration"

    def __attrs_post_init__(self) -> None:
        check_equations(self)

    @cached_property
    def equations(self) -> KnownEquations:
        """A and B with the decomposition of A, of each part of it that columns of Z have."""
        return KnownEquations.of(self.A, self.B)

    def bound_to(
        self, shape: tuple[int, int], rows: IntArray, columns: IntArray, values: Array
    ) -> Self:
        """The term itself; ``DataError`` where A and B do not fit the block's shape."""
        misfit = self.equations.misfit(shape)
        if misfit is not None:
            raise DataError(f"Calibration of block {self.block!r}: {misfit}")
        return self

    def about_standard(self, centre: Array, spread: Array) -> Self:
        """The equations ``A Z = (B - A 1 centre') / spread``, of ``A (centre + spread Z) = B``."""
        sums = self.A.sum(axis=1)[:, None]
        return attrs.evolve(self, B=(self.B - sums * centre) / spread)

    def residual(self, latent: Array) -> float:
        """||A Z - B||_F over the known equations."""
        return float(np.linalg.norm(self.equations.residual(latent)))

    def nearest_dual(self, dual: Array) -> Array:
        """The projection onto the matrices A'L, with L 0 where an equation is not known."""
        return self.equations.in_row_space(dual)

    @property
    def where_known(self) -> str:
        """What a formula adds where some equations are not known."""
        return "" if self.equations.known.all() else " where B is known"

    @property
    def latex_known(self) -> str:
        """What LaTeX adds there."""
        return "" if self.equations.known.all() else r" \text{ where } B \text{ is known}"

    @property
    def latex_latent(self) -> str:
        """The columns of the block in LaTeX."""
        return rf"Z_{{\mathrm{{{self.block.replace('_', '-')}}}}}"


@attrs.frozen
class CalibrationPenalty(KnownSums, Regularizer, Prox, SmoothTerm):
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

    weight: float = attrs.field(validator=positive)

    def value(self, latent: Array) -> float:
        """weight * ||A Z - B||_F^2 over the known equations."""
        return self.value_and_gradient(latent)[0]

    def value_and_gradient(self, latent: Array) -> tuple[float, Array]:
        """The value and 2 weight A'(A Z - B), that difference 0 where it is not known."""
        residual = self.equations.residual(latent)
        value = self.weight * float(np.vdot(residual, residual))
        return value, 2.0 * self.weight * (self.A.T @ residual)

    @property
    def curvature(self) -> float:
        """2 weight ||A||_2^2, with the equations of the column where that is largest."""
        return 2.0 * self.weight * self.equations.norm**2

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """(I + 2 step weight A'A)^-1 (Z + 2 step weight A'B), singular vector by vector."""
        size = 2.0 * step * self.weight
        moved = self.equations.step_to_solution(latent, lambda s: size * s / (1.0 + size * s * s))
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

    def expression(self, cp: Any, latent: Any) -> Any:
        """weight * sum_squares(A Z - B) over the known equations."""
        return self.weight * cp.sum_squares(self.equations.residual_expression(latent))

    def in_units(self, unit: float) -> "CalibrationPenalty":
        """``B / unit`` and ``weight * unit^2``."""
        return attrs.evolve(self, B=self.B / unit, weight=self.weight * unit**2)

    def formula(self) -> str:
        """weight ‖A Z_block − B‖_F², where B is known."""
        return f"{self.weight:g} ‖A Z_{self.block} − B‖_F²{self.where_known}"

    def latex(self) -> str:
        r"""weight \lVert A Z_{block} - B \rVert_F^2."""
        return rf"{self.weight:g} \lVert A {self.latex_latent} - B \rVert_F^2{self.latex_known}"


@attrs.frozen
class CalibrationConstraint(KnownSums, Constraint, Prox):
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

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
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

    def value(self, latent: Array) -> float:
        """0 where A Z = B is met as far as it is known, up to rounding, else inf."""
        reach = self.equations.norm * float(np.linalg.norm(latent))
        size = max(float(np.linalg.norm(self.equations.values)), reach)
        return 0.0 if self.residual(latent) <= SET_ROUNDING * size else np.inf

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """The projection Z - A^+ (A Z - B), of each column by its known equations.

        The step plays no part.
        """
        return self.equations.step_to_solution(latent, np.reciprocal), 0.0

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

    def constraints(self, cp: Any, latent: Any) -> list[Any]:
        """A Z == B at the known equations."""
        return [self.equations.residual_expression(latent) == 0.0]

    def in_units(self, unit: float) -> "CalibrationConstraint":
        """``B / unit``."""
        return attrs.evolve(self, B=self.B / unit)

    def formula(self) -> str:
        """A Z_block = B, where B is known."""
        return f"A Z_{self.block} = B{self.where_known}"

    def latex(self) -> str:
        r"""A Z_{block} = B."""
        return rf"A {self.latex_latent} = B{self.latex_known}"
