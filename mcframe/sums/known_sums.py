"""What ``Calibration`` and ``RowRelation`` share: linear equations, as a penalty or exactly."""

from abc import abstractmethod
from functools import cached_property, partial
from typing import Any, Literal, Self

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.rounding import SET_ROUNDING, TINY
from mcframe.contracts.term import Constraint, Prox, Regularizer, SmoothTerm, Sums
from mcframe.contracts.validators import as_given, one_of, takes
from mcframe.sums.decomposed_equations import KnownEquations, LinearEquations

MeansOrPredictors = Literal["means", "predictors"]


# An attrs validator: one of the two kinds of sums.
means_or_predictors = takes(partial(one_of, words=("means", "predictors")))


class KnownSums(Sums):
    """``A P = B`` in the predictors P of a block, or ``P A' = B`` where sums are over columns.

    Both are ``A Q = C`` with Q = P and C = B, or with Q and C their transposes: what ``turned``
    returns.
    """

    block: str | None
    A: Array
    B: Array
    weight: float | None
    of: MeansOrPredictors

    @property
    def sums_predictors(self) -> bool:  # type: ignore[override]
        """True where the sums are declared to be those of predictors."""
        return self.of == "predictors"

    @property
    def equation(self) -> str:
        """The equation in messages, without the name of the block."""
        return "A P = B" if self.axis == 0 else "P A' = B"

    @property
    def in_blocks(self) -> str:
        """The names of the blocks in messages."""
        names = ", ".join(map(repr, self.block_names))
        return f"block {names}" if self.block is not None else f"blocks {names}"

    @property
    def summary(self) -> str:
        """The number of equations, and how many of their values are known."""
        line, s = ("column" if self.axis == 0 else "row"), "s" * (len(self.A) > 1)
        n_known = int(np.count_nonzero(~np.isnan(self.B)))
        values = "all" if n_known == self.B.size else f"{n_known} of {self.B.size}"
        return (
            f"{self.word} of {self.in_blocks}: {len(self.A)} equation{s} of each {line},"
            f" {values} values known"
        )

    @cached_property
    def equations(self) -> KnownEquations:
        """A and C with the decomposition of A, of each part of it that columns of Q have."""
        return KnownEquations.of(self.A, self.turned(self.B))

    def equations_of(self, n_lines: int) -> KnownEquations:
        """The equations of a Q with so many columns."""
        return self.equations

    @property
    def groups(self) -> tuple[LinearEquations, ...]:
        """The equations, those of columns of Q with the same known ones together."""
        return self.equations.groups

    def residual(self, predictors: Array) -> float:
        """||A Q - C||_F over the known equations."""
        turned = self.turned(predictors)
        return float(np.linalg.norm(self.equations_of(turned.shape[1]).residual(turned)))

    def nearest_dual(self, dual: Array) -> Array:
        """The projection onto the matrices A'L, with L 0 where an equation is not known."""
        turned = self.turned(dual)
        return self.turned(self.equations_of(turned.shape[1]).in_row_space(turned))

    def value(self, latent: Array) -> float:
        """weight * ||A Q - C||_F^2 over the known equations; of the set 0 on it, else inf."""
        turned = self.turned(latent)
        equations = self.equations_of(turned.shape[1])
        residual = equations.residual(turned)
        if self.weight is not None:
            return self.weight * float(np.vdot(residual, residual))
        reach = equations.norm * float(np.linalg.norm(latent))
        size = max(float(np.linalg.norm(equations.values)), reach)
        return 0.0 if float(np.linalg.norm(residual)) <= SET_ROUNDING * size else np.inf

    def conjugate(self, dual: Array) -> float:
        """<L, C> + ||L||_F^2 / (4 weight) where the dual matrix of Q is A'L, else inf.

        Of the set it is <L, C>. L is 0 where an equation is not known, and each column of it in
        the range of A; where C is not, ``weight * ||its part outside||_F^2`` is taken off.
        <L, C> = <A'L, Q> for the least squares solution Q, too.
        """
        turned = self.turned(dual)
        equations = self.equations_of(turned.shape[1])
        if equations.in_row_space(turned) is not turned:
            return np.inf
        linear = float(np.vdot(turned, equations.solution))
        if self.weight is None:
            return linear
        outside = equations.unreachable
        return (
            linear
            + equations.multiplier_square(turned) / (4.0 * self.weight)
            - self.weight * float(np.vdot(outside, outside))
        )

    def conjugate_size(self, dual: Array) -> float:
        """The sum of the sizes of the products in <A'L, Q>, and of the squares beside it."""
        turned = self.turned(dual)
        equations = self.equations_of(turned.shape[1])
        size = float(np.vdot(np.abs(turned), np.abs(equations.solution)))
        if self.weight is None:
            return size
        outside = equations.unreachable
        squares = equations.multiplier_square(turned) / (4.0 * self.weight)
        return size + squares + self.weight * float(np.vdot(outside, outside))

    def statement(self, cp: Any, latent: Any) -> tuple[Any, list[Any]]:
        """weight * sum_squares(A Q - C), or 0 under A Q == C, over the known equations."""
        turned = self.turned(latent)
        residual = self.equations_of(turned.shape[1]).residual_expression(turned)
        if self.weight is None:
            return cp.Constant(0.0), [residual == 0.0]
        return self.weight * cp.sum_squares(residual), []

    def in_units(self, unit: float) -> Self:
        """``B / unit`` and ``weight * unit^2``."""
        weight = None if self.weight is None else self.weight * unit**2
        term: Any = self
        return attrs.evolve(term, B=self.B / unit, weight=weight)

    def about(self, origin: Array, scale: Array | float) -> Self:
        """The equations in V of predictors ``origin + scale * V``."""
        coefficients, values = self.equations_about(origin, scale)
        term: Any = self
        return attrs.evolve(term, A=coefficients, B=values)

    @abstractmethod
    def equations_about(self, origin: Array, scale: Array | float) -> tuple[Array, Array]:
        """A and B of the equations in V."""

    def formula(self) -> str:
        """weight ‖A P_block − B‖_F², or A P_block = B; where B is known."""
        condition = "" if not np.any(np.isnan(self.B)) else " where B is known"
        predictors = f"[{', '.join(f'P_{name}' for name in self.block_names)}]"
        predictors = predictors if self.block is None else f"P_{self.block}"
        sums = f"A {predictors}" if self.axis == 0 else f"{predictors} Aᵀ"
        if self.weight is None:
            return f"{sums} = B{condition}"
        return f"{self.weight:g} ‖{sums} − B‖_F²{condition}"

    def in_words(self, *more: str) -> str:
        """The term as Python writes it, with further arguments."""
        weight = [] if self.weight is None else [f"weight={self.weight!r}"]
        of = [] if self.of == "means" else [f"of={self.of!r}"]
        sums = [f"A={as_given(self.A)}", f"B={as_given(self.B)}"]
        block = self.block_names if self.block is None else self.block
        return f"{self.word}({', '.join([f'block={block!r}', *sums, *weight, *of, *more])})"


class SumsPenalty(KnownSums, Regularizer, Prox, SmoothTerm):
    """Known sums with a weight: ``weight * ||A Q - C||_F^2`` over the known equations."""

    weight: float

    def value_and_gradient(self, latent: Array) -> tuple[float, Array]:
        """The value and 2 weight A'(A Q - C), that difference 0 where it is not known."""
        turned = self.turned(latent)
        residual = self.equations_of(turned.shape[1]).residual(turned)
        value = self.weight * float(np.vdot(residual, residual))
        return value, self.turned(2.0 * self.weight * (self.A.T @ residual))

    @property
    def curvature(self) -> float:
        """2 weight ||A||_2^2, with the equations of the column of Q where that is largest."""
        return 2.0 * self.weight * self.equations.norm**2

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """(I + 2 step weight A'A)^-1 (Q + 2 step weight A'C), singular vector by vector."""
        size = 2.0 * step * self.weight
        turned = self.turned(latent)
        moved = self.equations_of(turned.shape[1]).step_to_solution(
            turned, lambda s: size * s / (1.0 + size * s * s)
        )
        moved = self.turned(moved)
        return moved, self.value(moved)


class ExactSums(KnownSums, Constraint, Prox):
    """Known sums without a weight: the set of Q with ``A Q = C`` where C is known."""

    def refuse_unreachable(self) -> None:
        """A ``ModelError`` where no P has these sums."""
        outside, values = self.turned(self.equations.unreachable), self.equations.values
        size = max(float(np.max(np.abs(values), initial=0.0)), TINY)  # squares of 1e155 overflow
        if np.linalg.norm(outside / size) > SET_ROUNDING * np.linalg.norm(values / size):
            # The first of those that only rounding tells apart: all machines say the same.
            largest = np.abs(outside) >= (1.0 - 1e-6) * np.max(np.abs(outside))
            row, column = np.argwhere(largest)[0]
            entry, off = self.B[row, column], outside[row, column]
            of_values = "those" if self.axis == 0 else "columns"
            raise ModelError(
                f"{self.word} of {self.in_blocks}: no P has {self.equation}, since rows of A"
                f" depend on each other and {of_values} of B do not in the same way; the nearest B"
                f" that some P has differs most in row {row}, column {column}: {entry - off:g} for"
                f" the given {entry:g}. Correct B, or use {self.word}(..., weight=...), which"
                " allows a difference"
            )

    def about(self, origin: Array, scale: Array | float) -> Self:
        """The equations of V, with B in the range of A, where only rounding has led it out."""
        coefficients, values = self.equations_about(origin, scale)
        reachable = KnownEquations.of(coefficients, self.turned(values)).reachable
        term: Any = self
        return attrs.evolve(term, A=coefficients, B=self.turned(reachable))

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """The projection Q - A^+ (A Q - C), of each column by its known equations.

        The step plays no part.
        """
        turned = self.turned(latent)
        equations = self.equations_of(turned.shape[1])
        return self.turned(equations.step_to_solution(turned, np.reciprocal)), 0.0

    def feasibility_tolerance(self, dual: Array, length: float) -> float:
        """||L||_F times what is left of A Q - C, for the least L with Y = A'L."""
        turned = self.turned(dual)
        equations = self.equations_of(turned.shape[1])
        size = max(float(np.linalg.norm(equations.values)), equations.norm * length)
        return SET_ROUNDING * size * float(np.sqrt(equations.multiplier_square(turned)))

    def constraints(self, cp: Any, latent: Any) -> list[Any]:
        """A Q == C at the known equations."""
        return self.statement(cp, latent)[1]
