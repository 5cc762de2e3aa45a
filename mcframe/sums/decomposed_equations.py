"""Linear equations ``A Z = B``, some of them unknown, by singular value decompositions of A."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask, svd
from mcframe.contracts.rounding import EPS, SUM_ROUNDING, TINY


@attrs.frozen(eq=False)
class LinearEquations:
    """A Z = B by the thin singular value decomposition of A (m x n) up to its rank, and B (m x d).

    The rank is the number of singular values above 1e-12 of the largest, so that redundant
    equations do no harm.
    """

    rows: IntArray  # where they stand among all equations
    lines: IntArray  # the columns of Z of which they are known
    values: Array
    left: Array
    singular_values: Array
    right: Array

    @classmethod
    def of(
        cls, rows: IntArray, lines: IntArray, coefficients: Array, values: Array
    ) -> "LinearEquations":
        """The equations, decomposed once."""
        left, s, right = svd(coefficients)
        rank = int(np.count_nonzero(s > SUM_ROUNDING * s[0]))
        return cls(rows, lines, values, left[:, :rank], s[:rank], right[:rank].T)

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
            rows, lines = np.flatnonzero(pattern), np.flatnonzero(group_of.ravel() == k)
            if rows.size:
                right_sides = values[np.ix_(rows, lines)]
                groups.append(LinearEquations.of(rows, lines, coefficients[rows], right_sides))
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
            reachable[np.ix_(group.rows, group.lines)] = group.reachable
        return reachable

    @cached_property
    def unreachable(self) -> Array:
        """The part of B (m x d) that no Z gives, column by column; 0 where it is not known."""
        outside = np.zeros_like(self.values)
        for group in self.groups:
            outside[np.ix_(group.rows, group.lines)] = group.unreachable()
        return outside

    @cached_property
    def solution(self) -> Array:
        """The solution Z of least norm, or of least squares where there is none."""
        solution = np.zeros((self.coefficients.shape[1], self.values.shape[1]))
        for group in self.groups:
            solution[:, group.lines] = group.solution()
        return solution

    def step_to_solution(self, latent: Array, share: Callable[[Array], Array]) -> Array:
        """Z moved along each singular vector of A_K by a share of what is lacking there.

        See ``LinearEquations.step_to_solution``; shares of 1/s lead to the nearest solution.
        """
        moved = latent.copy()
        for group in self.groups:
            moved[:, group.lines] = group.step_to_solution(latent[:, group.lines], share)
        return moved

    def multiplier_square(self, dual: Array) -> float:
        """||L||_F^2 of the least L with Y = A'L, 0 where an equation is not known."""
        multipliers = (group.multiplier(dual[:, group.lines]) for group in self.groups)
        return sum(float(np.vdot(multiplier, multiplier)) for multiplier in multipliers)

    def in_row_space(self, dual: Array) -> Array:
        """The nearest Y = A'L with L 0 where an equation is not known.

        The given one itself where it is of that form up to rounding.
        """
        nearest = np.zeros_like(dual)
        for group in self.groups:
            nearest[:, group.lines] = group.in_row_space(dual[:, group.lines])
        distance = float(np.linalg.norm(dual - nearest))
        return dual if distance <= SUM_ROUNDING * float(np.linalg.norm(dual)) else nearest
