"""Numbers whose sum over partitions is the least of each."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array

__all__ = ["Least"]


@attrs.frozen(eq=False)
class Least:
    """An answer of which the least is taken where others are added up; the largest by ``-x``."""

    numbers: Array

    def __add__(self, other: "Least") -> "Least":
        return Least(np.minimum(self.numbers, other.numbers))
