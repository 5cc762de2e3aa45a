"""Known column sums, averages or contrasts of a block: the term ``Calibration``."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Literal, Self

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask, Shape, svd
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.rounding import EPS, SET_ROUNDING, SUM_ROUNDING, TINY
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Constraint, Prox, Regularizer, SmoothTerm, Sums
from mcframe.contracts.validators import (
    as_given,
    block_name,
    check_equations,
    one_of,
    positive,
    same_matrix,
    takes,
)


@attrs.frozen(eq=False)
class LinearEquations:
    """A Z = B by the thin singular value decomposition of A (m x n) up to its rank, and B (m x d).

    The rank is the number of singular values above 1e-12 of the largest, so that redundant
    equations do no harm.
    """

    rows: IntArray  # where they stand among all equations
    columns: IntArray  # the columns of Z of which they are known
    values: Array
    left: Array
    singular_values: Array
    right: Array

    @classmethod
    def of(
        cls, rows: IntArray, columns: IntArray, coefficients: Array, values: Array
    ) -> "LinearEquations":
        """The equations, decomposed once."""
        left, s, right = svd(coefficients)
        rank = int(np.count_nonzero(s > SUM_ROUNDING * s[0]))
        return cls(rows, columns, values, left[:, :rank], s[:rank], right[:rank].T)

    @property
    def norm(self) -> float:
        """||A||_2."""
        return float(self.singular_values[0]) if self.singular_values.size else 0.0

    @property
    def reachable(self) -> Array:
        """The part of B in the range of A: B itself where its rows are independent."""
        if self.singular_values.size == len(self.left):
            return self.values
        return self.left @ (self.left.T @ self.values)

    def unreachable(self) -> Array:
        """The part of B outside of the range of A, no longer than it is but for rounding.

        No Z gives it. What rounding alone may have left is 0: bounds rely on it.
        """
        outside = self.values - self.left @ (self.left.T @ self.values)
        if not self.singular_values.size:
            return outside
        spread = self.singular_values[0] / self.singular_values[-1]
        largest = np.maximum(np.max(np.abs(self.values), axis=0), TINY)
        rounding = (len(self.left) + 4) * EPS * spread
        rounding = rounding * np.linalg.norm(self.values / largest, axis=0)
        lengths = np.linalg.norm(outside / largest, axis=0)  # squares of 1e160 would overflow
        kept = np.zeros_like(lengths)
        np.divide(lengths - rounding, lengths, out=kept, where=lengths > rounding)
        return outside * kept

    @cached_property
    def targets(self) -> Array:
        """V'Z of every solution, or of least squares where there is none: U'B / s."""
        targets: Array = (self.left.T @ self.values) / self.singular_values[:, None]
        return targets

    def distances(self, latent: Array) -> Array:
        """V'Z - U'B / s: how far Z is from a solution along each right singular vector."""
        return self.right.T @ latent - self.targets

    def solution(self) -> Array:
        """The solution Z of least norm, or of least squares where there is none."""
        return self.right @ self.targets

    def step_to_solution(self, latent: Array, share: Callable[[Array], Array]) -> Array:
        """Z - V diag(share(s)) U' (A Z - B) for A = U diag(s) V'.

        A step along each right singular vector; shares of 1/s lead to the nearest solution.
        """
        s = self.singular_values[:, None]
        reduced = s * (self.right.T @ latent) - self.left.T @ self.values
        return latent - self.right @ (share(s) * reduced)

    def multiplier(self, dual: Array) -> Array:
        """U' L for the L with Y = A'L where there is one, else for the nearest Y that has one."""
        return (self.right.T @ dual) / self.singular_values[:, None]

    def in_row_space(self, dual: Array) -> Array:
        """The nearest matrix of the form A'L."""
        return self.right @ (self.right.T @ dual)


@attrs.frozen(eq=False)
class KnownEquations:
    """A Z = B for A (m x n) and B (m x d), where NaN in B says that an equation is not known.

    Each column of Z has the equations that are known of it, ``A_K z_j = B_Kj`` with the rows K of
    A; one without any is free. Columns with the same K are a group, which has one decomposition
    of A_K. ``values`` are those of B, 0 where ``known`` is False.
    """

    coefficients: Array
    values: Array
    stated: Mask
    groups: tuple[LinearEquations, ...]

    @classmethod
    def of(cls, coefficients: Array, values: Array) -> "KnownEquations":
        """The equations, at least one of them known, each group decomposed once."""
        stated = ~np.isnan(values)
        patterns, group_of = np.unique(stated, axis=1, return_inverse=True)
        groups = []
        for k, pattern in enumerate(patterns.T):
            rows, columns = np.flatnonzero(pattern), np.flatnonzero(group_of.ravel() == k)
            if rows.size:
                right_sides = values[np.ix_(rows, columns)]
                groups.append(LinearEquations.of(rows, columns, coefficients[rows], right_sides))
        return cls(coefficients, np.where(stated, values, 0.0), stated, tuple(groups))

    @property
    def norm(self) -> float:
        """The largest ||A_K||_2."""
        return max(group.norm for group in self.groups)

    def residual(self, latent: Array) -> Array:
        """A Z - B (m x d), 0 where an equation is not known."""
        return np.where(self.stated, self.coefficients @ latent - self.values, 0.0)

    def residual_expression(self, latent: Any) -> Any:
        """A Z - B at the known equations, in a vector, for an expression Z of CVXPY."""
        rows, columns = np.nonzero(self.stated)
        return (self.coefficients @ latent)[rows, columns] - self.values[rows, columns]

    @property
    def reachable(self) -> Array:
        """B (m x d) without what no Z gives, NaN where it is not known."""
        reachable = np.full(self.values.shape, np.nan)
        for group in self.groups:
            reachable[np.ix_(group.rows, group.columns)] = group.reachable
        return reachable

    @cached_property
    def unreachable(self) -> Array:
        """The part of B (m x d) that no Z gives, column by column; 0 where it is not known."""
        outside = np.zeros_like(self.values)
        for group in self.groups:
            outside[np.ix_(group.rows, group.columns)] = group.unreachable()
        return outside

    @cached_property
    def solution(self) -> Array:
        """The solution Z of least norm, or of least squares where there is none."""
        solution = np.zeros((self.coefficients.shape[1], self.values.shape[1]))
        for group in self.groups:
            solution[:, group.columns] = group.solution()
        return solution

    def step_to_solution(self, latent: Array, share: Callable[[Array], Array]) -> Array:
        """Z moved along each singular vector of A_K by a share of what is lacking there.

        See ``LinearEquations.step_to_solution``; shares of 1/s lead to the nearest solution.
        """
        moved = latent.copy()
        for group in self.groups:
            moved[:, group.columns] = group.step_to_solution(latent[:, group.columns], share)
        return moved

    def multiplier_square(self, dual: Array) -> float:
        """||L||_F^2 of the least L with Y = A'L, 0 where an equation is not known."""
        multipliers = (group.multiplier(dual[:, group.columns]) for group in self.groups)
        return sum(float(np.vdot(multiplier, multiplier)) for multiplier in multipliers)

    def in_row_space(self, dual: Array) -> Array:
        """The nearest Y = A'L with L 0 where an equation is not known.

        The given one itself where it is of that form up to rounding.
        """
        nearest = np.zeros_like(dual)
        for group in self.groups:
            nearest[:, group.columns] = group.in_row_space(dual[:, group.columns])
        distance = float(np.linalg.norm(dual - nearest))
        return dual if distance <= SUM_ROUNDING * float(np.linalg.norm(dual)) else nearest

    def misfit(self, shape: tuple[int, int]) -> str | None:
        """Why they cannot speak of a matrix of that shape, as a clause; None if they can."""
        m, n_rows = self.coefficients.shape
        if n_rows != shape[0]:
            return (
                f"A has shape {m} x {n_rows} and the block {shape[0]} rows;"
                " A needs one column for each row (item) of the block"
            )
        if self.values.shape[1] != shape[1]:
            return (
                f"B has shape {m} x {self.values.shape[1]} and the block {shape[1]} columns;"
                " B needs one column for each column of the block"
            )
        return None


__all__ = ["Calibration"]


MeansOrPredictors = Literal["means", "predictors"]


# An attrs validator: one of the two kinds of sums.
means_or_predictors = takes(partial(one_of, words=("means", "predictors")))


@stored
@attrs.frozen(repr=False)
class Calibration(Sums):
    """Linear equations ``A P = B`` in the predictors of one block, as a penalty or exactly.

    P (n_items x columns of the block) is Z plus all free effects and offsets of the block, in the
    units of the data: what ``fit.natural`` returns. Where z is the mean, as in a ``Gaussian``
    block, P is also what ``fit.predict`` returns, and the equations are known sums, means or
    contrasts of its columns. With A = (1, ..., 1) / n_items, B holds the mean of each column.
    With a weight the penalty is ``weight * ||A P - B||_F^2`` over the known equations.

    Where z is not the mean, as the log of the rate of counts or the log odds of labels, known
    totals are sums of exp(z) or of probabilities: no linear equations, and equalities of them are
    not convex. Such a block is refused unless ``of="predictors"`` says that A and B are about
    predictors, sums of log rates or of log odds.

    For a block with ``standardize=True`` or ``"robust"`` A and B are in the units of the data,
    too. In the penalty, differences are then divided by the spread of their column.

    Parameters
    ----------
    block : str
        The block to whose columns the equations apply.
    A : array (m x n_items)
        Coefficients, one row for each equation; a vector is one row.
    B : array (m x columns of the block)
        The values of A P; a vector is one row. A likelihood over K classes has K columns of P for
        each of its own. In the exact form some P must have A P = B. NaN marks an unknown value,
        which imposes nothing; a column of NaN is free.
    weight : float, optional
        Positive. Without it the equations are a constraint. Redundant equations are allowed,
        contradictory ones raise an error, and P counts as a solution up to
        ``||A P - B||_F <= 1e-9 * max(||B||_F, ||A||_2 ||P||_F)`` over the known ones, the rounding
        of a Z in factors; of a standardised block in its standard units, and less what the
        origins of effects and offsets amount to.
    of : "means" or "predictors", default "means"
        What is summed. The two are the same if z is the mean; otherwise ``"predictors"`` is
        needed.

    Raises
    ------
    ModelError
        Where A and B have different numbers of rows or entries that are no finite numbers, where
        B is NaN throughout, and in the exact form where no P has A P = B. ``Model`` raises one
        where the sums of means are no linear equations.

    Notes
    -----
    Free effects take part in the equations: with ``bias=True`` a known mean moves the bias of its
    column where Z is penalised and the bias is not.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> print(mc.Calibration("x", A=np.full(4, 0.25), B=[1.0, 2.0], weight=3.0).formula())
    3 ‖A P_x − B‖_F²
    >>> print(mc.Calibration("x", A=np.full(4, 0.25), B=[1.0, 2.0]).formula())
    A P_x = B
    >>> print(mc.Calibration("x", A=np.full(4, 0.25), B=[1.0, np.nan]).formula())
    A P_x = B where B is known
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
    of: MeansOrPredictors = attrs.field(default="means", validator=means_or_predictors)

    word = "Calibration"

    def __new__(
        cls,
        block: str,
        A: Any,
        B: Any,
        weight: float | None = None,
        of: MeansOrPredictors = "means",
    ) -> "Calibration":
        """Make a penalty, which is smooth, or a set: a term's types tell what it can do."""
        if cls is Calibration:
            return object.__new__(CalibrationConstraint if weight is None else CalibrationPenalty)
        return object.__new__(cls)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.block, self.A, self.B, self.weight, self.of

    def __attrs_post_init__(self) -> None:
        check_equations(self)

    def __repr__(self) -> str:
        weight = "" if self.weight is None else f", weight={self.weight!r}"
        of = "" if self.of == "means" else f", of={self.of!r}"
        sums = f"A={as_given(self.A)}, B={as_given(self.B)}"
        return f"Calibration(block={self.block!r}, {sums}{weight}{of})"

    @property
    def sums_predictors(self) -> bool:  # type: ignore[override]
        """True where the sums are declared to be those of predictors."""
        return self.of == "predictors"

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

    @property
    def groups(self) -> tuple[LinearEquations, ...]:
        """The equations, those of columns with the same known ones together."""
        return self.equations.groups

    def about(self, origin: Array, scale: Array | float) -> Self:
        """The equations ``A V = (B - A origin) / scale``, of ``A (origin + scale * V) = B``."""
        return attrs.evolve(self, B=(self.B - self.A @ origin) / scale)

    def residual(self, predictors: Array) -> float:
        """||A P - B||_F over the known equations."""
        return float(np.linalg.norm(self.equations.residual(predictors)))

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

    def conjugate_size(self, dual: Array) -> float:
        """The sum of the sizes of the products in <A'L, Z>, and of the squares beside it."""
        size = float(np.vdot(np.abs(dual), np.abs(self.equations.solution)))
        if self.weight is None:
            return size
        outside = self.equations.unreachable
        squares = self.equations.multiplier_square(dual) / (4.0 * self.weight)
        return size + squares + self.weight * float(np.vdot(outside, outside))

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

    def recession(self) -> "Calibration":
        """``A D = 0`` at the known equations: squares grow without end in all other directions."""
        return Calibration(self.block, self.A, np.where(np.isnan(self.B), np.nan, 0.0))

    def formula(self) -> str:
        """weight ‖A P_block − B‖_F², or A P_block = B; where B is known."""
        condition = "" if self.equations.stated.all() else " where B is known"
        if self.weight is None:
            return f"A P_{self.block} = B{condition}"
        return f"{self.weight:g} ‖A P_{self.block} − B‖_F²{condition}"


@stored(stored_as=Calibration)
@attrs.frozen(repr=False)
class CalibrationPenalty(Calibration, Regularizer, Prox, SmoothTerm):
    """``Calibration`` with a weight: ``weight * ||A Z - B||_F^2`` over the known equations."""

    weight: float = attrs.field(validator=positive)
    # Again, since a field that is declared anew comes after all others.
    of: MeansOrPredictors = attrs.field(default="means", validator=means_or_predictors)

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


@stored(stored_as=Calibration)
@attrs.frozen(repr=False)
class CalibrationConstraint(Calibration, Constraint, Prox):
    """``Calibration`` without a weight: the set of Z with ``A Z = B`` where B is known."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        outside, values = self.equations.unreachable, self.equations.values
        size = max(float(np.max(np.abs(values), initial=0.0)), TINY)  # squares of 1e155 overflow
        if np.linalg.norm(outside / size) > SET_ROUNDING * np.linalg.norm(values / size):
            # The first of those that only rounding tells apart: all machines say the same.
            largest = np.abs(outside) >= (1.0 - 1e-6) * np.max(np.abs(outside))
            row, column = np.argwhere(largest)[0]
            entry, off = self.B[row, column], outside[row, column]
            raise ModelError(
                f"Calibration of block {self.block!r}: no P has A P = B, since rows of A depend"
                f" on each other and those of B do not in the same way; the nearest B that some"
                f" P has differs most in row {row}, column {column}: {entry - off:g} for the"
                f" given {entry:g}. Correct B, or use Calibration(..., weight=...), which"
                " allows a difference"
            )

    def about(self, origin: Array, scale: Array | float) -> Self:
        """The equations of V, with B in the range of A, where only rounding has led it out."""
        values = (self.B - self.A @ origin) / scale
        return attrs.evolve(self, B=KnownEquations.of(self.A, values).reachable)

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """The projection Z - A^+ (A Z - B), of each column by its known equations.

        The step plays no part.
        """
        return self.equations.step_to_solution(latent, np.reciprocal), 0.0

    def feasibility_tolerance(self, dual: Array, length: float) -> float:
        """||L||_F times what is left of A Z - B, for the least L with Y = A'L."""
        size = max(float(np.linalg.norm(self.equations.values)), self.equations.norm * length)
        return SET_ROUNDING * size * float(np.sqrt(self.equations.multiplier_square(dual)))

    def constraints(self, cp: Any, latent: Any) -> list[Any]:
        """A Z == B at the known equations."""
        return [self.equations.residual_expression(latent) == 0.0]
