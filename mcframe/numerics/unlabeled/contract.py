"""What the losses of cells that are no entries must answer: there are too many to write out."""

from abc import ABC, abstractmethod
from typing import Self

import attrs

from mcframe.contracts.arrays import Array
from mcframe.numerics.operators import LowRank, Operator

__all__ = ["Hessians", "Unwritten", "UnwrittenAt"]


class Unwritten(ABC):
    """The losses of a block's cells that are no entries, all the same function of z."""

    #: For each column a bound on the second derivative of a cell's loss.
    weights: Array

    @abstractmethod
    def at(self, latent: LowRank, z: Array) -> "UnwrittenAt":
        """The losses at Z of the block, whose entries are z."""

    @abstractmethod
    def of_lines(self, latent: LowRank, z: Array, by_rows: bool) -> Array:
        """The sum over each row of Z, or each column."""

    @property
    @abstractmethod
    def n_read(self) -> int:
        """The number of cells that a pass reads one by one, 0 where Gram matrices do."""

    @property
    @abstractmethod
    def held_bytes(self) -> int:
        """What a fit holds of these cells at its peak, thin factors aside."""


@attrs.frozen(eq=False)
class Hessians:
    """``scales[line] * matrices[line]`` for each row of a factor, or of one matrix for all.

    ``at_entries`` is the second derivative that they hold where entries are.
    """

    matrices: Array
    scales: Array
    at_entries: float


class UnwrittenAt(ABC):
    """The losses at one Z, and their gradients T.

    T may have numbers where entries are, ``at_entries``, which the caller takes off.
    """

    at_entries: Array

    @property
    @abstractmethod
    def value(self) -> float:
        """The sum of the losses."""

    @abstractmethod
    def gradient(self) -> Operator:
        """T, the gradients, as an operator."""

    @abstractmethod
    def products(self) -> tuple[Array, Array]:
        """T V and T' U with the factors U V' of Z."""

    @abstractmethod
    def hessians(self, by_rows: bool) -> "Hessians":
        """Second derivatives in each row of U (``by_rows``) or of V, where Z = U V'."""

    @abstractmethod
    def curvature_along(self, after: Self, moved: LowRank, z: Array) -> float:
        """How far the losses lie above their tangent after Z moves by D with entries z, twice."""

    @abstractmethod
    def conjugate(self, share: float) -> tuple[float, float]:
        """The sum of the conjugates at ``share`` times T, and a size that stands for its rounding.

        Rounding moves the sum by less than a few units in the last place of that size.
        """
