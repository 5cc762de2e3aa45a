"""What may stand among a model's ``terms``: regularizers and constraints."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array

__all__ = ["Constraint", "Regularizer", "Spectral", "Term"]


class Term(ABC):
    """A convex function of the latent matrix Z; a constraint is one with values 0 and inf."""

    @abstractmethod
    def value(self, latent: Array) -> float:
        """The term at a dense Z, by its plain definition."""

    @abstractmethod
    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """argmin over X of value(X) + ||X - Z||_F^2 / (2 step), and the value there."""

    @abstractmethod
    def formula(self) -> str:
        """The term as plain text, for ``print(model)``."""

    @abstractmethod
    def latex(self) -> str:
        """The term as LaTeX, for notebooks."""


class Regularizer(Term):
    """A finite convex function of Z that is added to the objective."""

    @abstractmethod
    def expression(self, cp: Any, latent: Any) -> Any:
        """The definition as a DCP expression of CVXPY."""


class Spectral(Regularizer):
    """A regularizer that is a symmetric function of the singular values of Z.

    A final class gives the function on vectors of singular values; value and prox of the
    matrix follow from it by one singular value decomposition (Lewis, The convex analysis of
    unitarily invariant matrix functions, 1995).
    """

    @abstractmethod
    def of_singular_values(self, singular_values: Array) -> float:
        """The value at a matrix with these singular values."""

    @abstractmethod
    def shrink(self, singular_values: Array, step: float) -> Array:
        """The singular values of the prox, in the same order."""

    @property
    @abstractmethod
    def threshold(self) -> float:
        """Singular values up to ``step * threshold`` are shrunk to exactly 0."""

    @property
    def quadratic_weight(self) -> float:
        """w where the term is exactly w / 2 * ||Z||_F^2, else 0: such a term joins any prox."""
        return 0.0

    @abstractmethod
    def conjugate_of_singular_values(self, singular_values: Array) -> float:
        """The convex conjugate at a matrix with these singular values; may be ``inf``."""

    def value(self, latent: Array) -> float:
        """The term at a dense Z, through its singular values."""
        return self.of_singular_values(np.linalg.svd(latent, compute_uv=False))

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """The prox at a dense Z: its singular values shrunk, its singular vectors kept."""
        left, singular_values, right = np.linalg.svd(latent, full_matrices=False)
        shrunk = self.shrink(singular_values, step)
        return (left * shrunk) @ right, self.of_singular_values(shrunk)


class Constraint(Term):
    """A convex set of latent matrices: the value is 0 inside and inf outside."""

    #: Columns that the constraint adds to Z, to the right of all blocks.
    extra_columns: int = 0

    @abstractmethod
    def constraints(self, cp: Any, latent: Any) -> list[Any]:
        """The definition as CVXPY constraints."""
