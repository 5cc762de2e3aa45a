"""Parameters of a likelihood that are fitted with Z, of a table whose rows are in partitions."""

from typing import Any

import attrs
import numpy as np

from mcframe.compile.partitions.executor import Task, tree_sum
from mcframe.compile.partitions.numbers import Numbers
from mcframe.compile.partitions.part import Part
from mcframe.compile.partitions.tied import TiedEffects
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import ParametricBySums

__all__ = ["FittedParameters"]


@attrs.frozen(eq=False)
class FittedParameters(TiedEffects):
    """``Parameters`` of a block: each question of the likelihood is a round of tasks."""

    def solve(self, z: Numbers, warm: Array | None) -> Array:
        """The likelihood's own best parameters, by sums over all entries."""

        def tell(asked: Any) -> tuple[Any, Array]:
            answers = self.partitions.each(ParameterSums(z, self.k, asked))
            sums, largest = zip(*answers, strict=True)
            return tree_sum(list(sums)), np.max(largest, axis=0)

        parametric: ParametricBySums = self.likelihood
        return parametric.parameters_by_sums(tell, warm)


@attrs.frozen(eq=False)
class ParameterSums(Task):
    """What the entries of block k at z answer to what its likelihood asks for its parameters."""

    z: Numbers
    k: int
    asked: Any

    def of(self, part: Part) -> tuple[Any, Array]:
        """The answer of a partition."""
        piece = part.program.loss.pieces[self.k]
        parametric: Any = piece.likelihood
        z, weights = piece.offset_part(part.numbers(self.z)), piece.scale * np.ones(piece.y.size)
        answer: tuple[Any, Array] = parametric.parameter_sums(z, piece.y, weights)(self.asked)
        return answer
