"""A regularizer of one's own: whole rows of Z become 0."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts import Prox, Regularizer, stored
from mcframe.contracts.arrays import Array
from mcframe.contracts.validators import positive


@stored
@attrs.frozen
class RowLasso(Regularizer, Prox):
    """``weight * sum over items i of ||z_i||_2``, z_i the row of Z: a group lasso of rows.

    Parameters
    ----------
    weight : float
        Positive.
    block : str, optional
        The block whose part of each row it speaks of; by default all blocks.
    """

    weight: float = attrs.field(validator=positive)
    block: str | None = None

    def value(self, latent: Array) -> float:
        """weight * the sum of the norms of the rows."""
        return self.weight * float(np.sum(norms_of_rows(latent)))

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """Every row shortened by step * weight, and 0 where it is no longer than that."""
        cut = step * self.weight
        nearest = latent * (1.0 - cut / np.maximum(norms_of_rows(latent), cut))
        return nearest, self.value(nearest)

    def conjugate(self, dual: Array) -> float:
        """0 where no row is longer than the weight, else inf."""
        longest = float(np.max(norms_of_rows(dual), initial=0.0))
        return 0.0 if longest <= self.weight * (1.0 + 1e-12) else np.inf

    def nearest_dual(self, dual: Array) -> Array:
        """Rows longer than the weight cut to it."""
        return dual * (self.weight / np.maximum(norms_of_rows(dual), self.weight))

    def expression(self, cp: Any, latent: Any) -> Any:
        """weight * sum(norm(Z, 2, axis=1))."""
        return self.weight * cp.sum(cp.norm(latent, 2, axis=1))

    def formula(self) -> str:
        """weight Σ_i ‖z_i‖."""
        return f"{self.weight:g} Σ_i ‖z_i‖" + ("" if self.block is None else f" of {self.block}")


def norms_of_rows(matrix: Array) -> Array:
    """||row||_2 of every row, as a column."""
    return np.asarray(np.linalg.norm(matrix, axis=1, keepdims=True))
