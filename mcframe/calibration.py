"""Known column sums, averages or contrasts of a block: the term ``Calibration``."""

from functools import cached_property
from typing import Any, Self

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Shape
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.rounding import SET_ROUNDING
from mcframe.contracts.term import Constraint, Prox, Regularizer, SmoothTerm, Sums, Term
from mcframe.contracts.validators import block_name, check_equations, positive, same_matrix
from mcframe.numerics.equations import KnownEquations

__all__ = ["Calibration"]


@attrs.frozen(repr=False)
class Calibration(Term, Sums):
    """Linear equations ``A Z = B`` in the latent columns of one block, as a penalty or exactly.

    With a weight the penalty is ``weight * ||A Z - B||_F^2`` over the known equations. Rows of
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
        Coefficients, one row for each equation; a vector is one row.
    B : array (m x columns of the block)
        What A Z is; a vector is one row. In the exact form some Z must have A Z = B. NaN says that
        an equation is not known of a column, and asks for nothing; a column of NaN is free.
    weight : float, optional
        Positive. Without it the equations are a constraint: redundant ones do no harm, ones that
        no Z solves are refused, and Z counts as a solution up to
        ``||A Z - B||_F <= 1e-9 * max(||B||_F, ||A||_2 ||Z||_F)`` over the known ones, the rounding
        of a Z in factors.

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
    >>> total = mc.Calibration("x", A=[1.0, 1.0, 1.0], B=[3.0], weight=2.0)
    >>> total.value(np.array([[1.0], [1.0], [2.0]]))
    2.0
    >>> total = mc.Calibration("x", A=[1.0, 1.0, 1.0], B=[3.0])
    >>> total.value(np.array([[1.0], [1.0], [1.0]])), total.value(np.array([[1.0], [1.0], [4.0]]))
    (0.0, inf)
    """

    block: str = attrs.field(validator=block_name)
    # Left out of the hash, which stays a valid one: arrays have none.
    A: Array = attrs.field(eq=attrs.cmp_using(eq=same_matrix), hash=False)
    B: Array = attrs.field(eq=attrs.cmp_using(eq=same_matrix), hash=False)
    weight: float | None = attrs.field(default=None, validator=attrs.validators.optional(positive))

    word = "Calibration"

    def __new__(cls, block: str, A: Any, B: Any, weight: float | None = None) -> "Calibration":
        """Make a penalty, which is smooth, or a set: a term's types tell what it can do."""
        if cls is Calibration:
            return object.__new__(CalibrationConstraint if weight is None else CalibrationPenalty)
        return object.__new__(cls)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.block, self.A, self.B, self.weight

    def __attrs_post_init__(self) -> None:
        check_equations(self)

    def __repr__(self) -> str:
        weight = "" if self.weight is None else f", weight={self.weight!r}"
        return f"Calibration(block={self.block!r}, A={self.A!r}, B={self.B!r}{weight})"

    @cached_property
    def equations(self) -> KnownEquations:
        """A and B with the decomposition of A, of each part of it that columns of Z have."""
        return KnownEquations.of(self.A, self.B)

    def bound_to(self, shape: Shape, rows: IntArray, columns: IntArray, values: Array) -> Self:
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

    def value(self, latent: Array) -> float:
        """weight * ||A Z - B||_F^2 over the known equations; of the set 0 on it, else inf."""
        residual = self.equations.residual(latent)
        if self.weight is not None:
            return self.weight * float(np.vdot(residual, residual))
        reach = self.equations.norm * float(np.linalg.norm(latent))
        size = max(float(np.linalg.norm(self.equations.values)), reach)
        return 0.0 if float(np.linalg.norm(residual)) <= SET_ROUNDING * size else np.inf

    def conjugate(self, dual: Array) -> float:
        """<L, B> + ||L||_F^2 / (4 weight) where the dual matrix is A'L, else inf.

        Of the set it is <L, B>. L is 0 where an equation is not known, and each column of it in
        the range of A; where B is not, ``weight * ||its part outside||_F^2`` is taken off.
        <L, B> = <A'L, Z> for the least squares solution Z, too.
        """
        if self.equations.in_row_space(dual) is not dual:
            return np.inf
        linear = float(np.vdot(dual, self.equations.solution))
        if self.weight is None:
            return linear
        outside = self.equations.unreachable
        return (
            linear
            + self.equations.multiplier_square(dual) / (4.0 * self.weight)
            - self.weight * float(np.vdot(outside, outside))
        )

    def statement(self, cp: Any, latent: Any) -> tuple[Any, list[Any]]:
        """weight * sum_squares(A Z - B), or 0 under A Z == B, over the known equations."""
        residual = self.equations.residual_expression(latent)
        if self.weight is None:
            return cp.Constant(0.0), [residual == 0.0]
        return self.weight * cp.sum_squares(residual), []

    def in_units(self, unit: float) -> Self:
        """``B / unit`` and ``weight * unit^2``."""
        weight = None if self.weight is None else self.weight * unit**2
        return attrs.evolve(self, B=self.B / unit, weight=weight)

    def formula(self) -> str:
        """weight ‖A Z_block − B‖_F², or A Z_block = B; where B is known."""
        known = "" if self.equations.known.all() else " where B is known"
        if self.weight is None:
            return f"A Z_{self.block} = B{known}"
        return f"{self.weight:g} ‖A Z_{self.block} − B‖_F²{known}"


@attrs.frozen(repr=False)
class CalibrationPenalty(Calibration, Regularizer, Prox, SmoothTerm):
    """``Calibration`` with a weight: ``weight * ||A Z - B||_F^2`` over the known equations."""

    weight: float = attrs.field(validator=positive)

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


@attrs.frozen(repr=False)
class CalibrationConstraint(Calibration, Constraint, Prox):
    """``Calibration`` without a weight: the set of Z with ``A Z = B`` where B is known."""

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

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """The projection Z - A^+ (A Z - B), of each column by its known equations.

        The step plays no part.
        """
        return self.equations.step_to_solution(latent, np.reciprocal), 0.0

    def room(self, dual: Array, length: float) -> float:
        """||L||_F times what is left of A Z - B, for the least L with Y = A'L."""
        size = max(float(np.linalg.norm(self.equations.values)), self.equations.norm * length)
        return SET_ROUNDING * size * float(np.sqrt(self.equations.multiplier_square(dual)))

    def constraints(self, cp: Any, latent: Any) -> list[Any]:
        """A Z == B at the known equations."""
        return [self.equations.residual_expression(latent) == 0.0]
