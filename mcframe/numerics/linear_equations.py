"""Linear equations A Z = B in a matrix Z, redundant ones included."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array

__all__ = ["LinearEquations"]

# Singular values of A up to this share of the largest count as 0.
RANK_TOLERANCE = 1e-12
# How far a dual matrix may lie from the range of A', relative to its size: rounding.
RANGE_ROUNDING = 1e-12


@attrs.frozen(eq=False)
class LinearEquations:
    """A (m x n), B (m x d), and the thin singular value decomposition of A up to its rank.

    The rank is the number of singular values above 1e-12 of the largest, so that redundant
    equations do no harm.
    """

    coefficients: Array
    values: Array
    left: Array
    singular_values: Array
    right: Array

    @classmethod
    def of(cls, coefficients: Array, values: Array) -> "LinearEquations":
        """The equations, decomposed once."""
        left, s, right = np.linalg.svd(coefficients, full_matrices=False)
        rank = int(np.count_nonzero(s > RANK_TOLERANCE * s[0]))
        return cls(coefficients, values, left[:, :rank], s[:rank], right[:rank].T)

    @property
    def norm(self) -> float:
        """||A||_2."""
        return float(self.singular_values[0]) if self.singular_values.size else 0.0

    def residual(self, latent: Array) -> Array:
        """A Z - B."""
        return self.coefficients @ latent - self.values

    def unreachable(self) -> Array:
        """The part of B outside of the range of A: no Z gives it."""
        return self.values - self.left @ (self.left.T @ self.values)

    def reduced(self, latent: Array) -> Array:
        """The residual in the coordinates of the left singular vectors, one row for each."""
        scaled = self.singular_values[:, None] * (self.right.T @ latent)
        return scaled - self.left.T @ self.values

    def solution(self) -> Array:
        """The solution Z of least norm, or of least squares where there is none."""
        return self.right @ ((self.left.T @ self.values) / self.singular_values[:, None])

    def multiplier(self, dual: Array) -> Array:
        """L in the coordinates of the left singular vectors, with Y = A'L where there is one."""
        return (self.right.T @ dual) / self.singular_values[:, None]

    def in_row_space(self, dual: Array) -> Array:
        """The nearest matrix of the form A'L; the same one where it is of it up to rounding."""
        nearest = self.right @ (self.right.T @ dual)
        distance = float(np.linalg.norm(dual - nearest))
        return dual if distance <= RANGE_ROUNDING * float(np.linalg.norm(dual)) else nearest

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
