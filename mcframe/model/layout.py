"""The free numbers of a block in one vector: biases, row effects, an intercept, parameters."""

from typing import Any

import attrs

from mcframe.contracts.arrays import Array, IntArray

__all__ = ["Layout"]


@attrs.frozen
class Layout:
    """How many of each kind there are; they stand in the vector in this order.

    ``n_biases`` is 0 or the number of latent columns of the block, ``n_row_effects`` 0 or the
    number of items, ``n_intercepts`` 0 or 1, ``n_parameters`` what its likelihood fits.
    """

    n_biases: int = 0
    n_row_effects: int = 0
    n_intercepts: int = 0
    n_parameters: int = 0

    @property
    def size(self) -> int:
        """The length of the vector."""
        return self.n_effects + self.n_parameters

    @property
    def n_effects(self) -> int:
        """How many of the numbers are added to Z; they stand before the parameters."""
        return self.n_biases + self.n_row_effects + self.n_intercepts

    def biases(self, vector: Array) -> Array:
        """The part of the biases."""
        return vector[: self.n_biases]

    def row_effects(self, vector: Array) -> Array:
        """The part of the row effects."""
        return vector[self.n_biases : self.n_biases + self.n_row_effects]

    def intercept(self, vector: Array) -> float:
        """The intercept, 0 where there is none."""
        return float(vector[self.n_effects - 1]) if self.n_intercepts else 0.0

    def parameters(self, vector: Array) -> Array:
        """The part of the parameters."""
        return vector[self.n_effects :]

    def name_of(self, place: int) -> str:
        """How messages call one of the numbers."""
        if place < self.n_biases:
            return f"bias of column {place}"
        if place < self.n_biases + self.n_row_effects:
            return f"effect of row {place - self.n_biases}"
        if place < self.n_effects:
            return "intercept"
        return f"parameter {place - self.n_effects}"

    def add_to(self, z: Array, vector: Array) -> Array:
        """Z (n_items x latent columns) plus the effects of its columns and of its rows."""
        if self.n_biases:
            z = z + self.biases(vector)
        if self.n_row_effects:
            z = z + self.row_effects(vector)[:, None]
        return z + self.intercept(vector) if self.n_intercepts else z

    def at(self, rows: IntArray, columns: IntArray, vector: Array) -> Array:
        """The sums of the effects at latent entries, by their rows and latent columns.

        ``columns`` may have a last axis for the latent columns of one entry.
        """
        total: Any = self.biases(vector)[columns] if self.n_biases else 0.0
        if self.n_row_effects:
            own = self.row_effects(vector)[rows]
            total = total + (own if columns.ndim == rows.ndim else own[:, None])
        result: Array = total + self.intercept(vector)
        return result
