"""The unpenalised numbers of a block in one vector: biases, row effects, parameters."""

import attrs

from mcframe.contracts.arrays import Array

__all__ = ["Layout"]


@attrs.frozen
class Layout:
    """How many of each kind there are; they stand in the vector in this order.

    ``n_biases`` is 0 or the number of latent columns of the block, ``n_row_effects`` 0 or the
    number of items, ``n_parameters`` what its likelihood fits.
    """

    n_biases: int = 0
    n_row_effects: int = 0
    n_parameters: int = 0

    @property
    def size(self) -> int:
        """The length of the vector."""
        return self.n_biases + self.n_row_effects + self.n_parameters

    def biases(self, vector: Array) -> Array:
        """The part of the biases."""
        return vector[: self.n_biases]

    def row_effects(self, vector: Array) -> Array:
        """The part of the row effects."""
        return vector[self.n_biases : self.n_biases + self.n_row_effects]

    def parameters(self, vector: Array) -> Array:
        """The part of the parameters."""
        return vector[self.n_biases + self.n_row_effects :]

    def called(self, place: int) -> str:
        """How messages call one of the numbers."""
        if place < self.n_biases:
            return f"bias of column {place}"
        if place < self.n_biases + self.n_row_effects:
            return f"effect of row {place - self.n_biases}"
        return f"parameter {place - self.n_biases - self.n_row_effects}"

    def add_to(self, z: Array, vector: Array) -> Array:
        """Z (n_items x latent columns) plus the biases of its columns and effects of its rows."""
        if self.n_biases:
            z = z + self.biases(vector)
        if self.n_row_effects:
            z = z + self.row_effects(vector)[:, None]
        return z
