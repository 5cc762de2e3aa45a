"""Linear equations A Z = B in a matrix Z, redundant ones included."""

from collections.abc import Callable

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS

__all__ = ["LinearEquations"]

# Singular values of A up to this share of the largest count as 0.
RANK_TOLERANCE = 1e-12
TINY = 1e-300


@attrs.frozen(eq=False)
class LinearEquations:
    """A Z = B by the thin singular value decomposition of A (m x n) up to its rank, and B (m x d).

    The rank is the number of singular values above 1e-12 of the largest, so that redundant
    equations do no harm.
    """

    values: Array
    left: Array
    singular_values: Array
    right: Array

    @classmethod
    def of(cls, coefficients: Array, values: Array) -> "LinearEquations":
        """The equations, decomposed once."""
        left, s, right = np.linalg.svd(coefficients, full_matrices=False)
        rank = int(np.count_nonzero(s > RANK_TOLERANCE * s[0]))
        return cls(values, left[:, :rank], s[:rank], right[:rank].T)

    @property
    def norm(self) -> float:
        """||A||_2."""
        return float(self.singular_values[0]) if self.singular_values.size else 0.0

    def unreachable(self) -> Array:
        """The part of B outside of the range of A, no longer than it is but for rounding.

        No Z gives it. What rounding alone may have left is 0: bounds rely on it.
        """
        outside = self.values - self.left @ (self.left.T @ self.values)
        if not self.singular_values.size:
            return outside
        spread = self.singular_values[0] / self.singular_values[-1]
        rounding = (len(self.left) + 4) * EPS * spread * np.linalg.norm(self.values, axis=0)
        lengths = np.maximum(np.linalg.norm(outside, axis=0), TINY)
        return outside * np.clip(1.0 - rounding / lengths, 0.0, 1.0)

    def solution(self) -> Array:
        """The solution Z of least norm, or of least squares where there is none."""
        return self.right @ ((self.left.T @ self.values) / self.singular_values[:, None])

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
