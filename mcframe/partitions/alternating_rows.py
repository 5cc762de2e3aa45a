"""Ridge regressions for the rows of one factor, the other fixed, of rows in partitions."""

from functools import cached_property
from itertools import pairwise
from typing import Any

import attrs
import numpy as np

from mcframe.compile.factor_rows import FactorRows, NormalEquations, descended, penalties, rows_at
from mcframe.compile.program import Evaluation, Place, Program
from mcframe.contracts.arrays import Array
from mcframe.partitions.executor import Later
from mcframe.partitions.part import (
    ENTRIES,
    PROGRAM,
    PartValue,
    Scattered,
    bytes_of_equations,
    scattered_rows,
)
from mcframe.partitions.partitioned_loss import PartitionedEntries, background_at

# Bytes of normal equations of columns that a partition answers in one round, and that their sum
# has. A worker that adds up ``FAN`` of them holds these and four sums, a process that adds up all
# those of P partitions log2 P + 3 at most: a dozen of a thousand partitions.
EQUATIONS = 64_000_000


@attrs.frozen(eq=False)
class PartitionedRows:
    """``FactorRows`` of all partitions: of U within these, of V by sums of normal equations."""

    program: Program
    at: Evaluation

    @cached_property
    def own(self) -> PartValue:
        """The ``FactorRows`` of each partition, with the curvatures of all rows."""
        loss: Any = self.program.loss
        z: Any = self.at.place.z
        gradients: Any = self.at.entry_gradients
        effects = self.at.effects
        latent, highest = self.at.place.factors, tuple(loss.curvatures_at(z, effects))
        place = PartValue(Place, (scattered_rows(latent), z))
        given = ENTRIES, place, background_at(latent, z), 0.0, gradients, loss.for_tasks(effects)
        return PartValue(FactorRows, (PROGRAM, PartValue(Evaluation, given), highest))

    @property
    def partitions(self) -> Any:
        """The executor of the parts."""
        loss: Any = self.program.loss
        return loss.partitions

    @cached_property
    def sure(self) -> bool:
        """Whether the second derivatives are nowhere larger, so that full steps descend."""
        return self.unsure.value == 0.0

    @cached_property
    def unsure(self) -> Later:
        """Number of partitions in which full steps are not sure to descend."""
        return self.partitions.later(unsure_steps, self.own)

    def ridge_solutions(self, other: Array, weight: float, by_rows: bool) -> Array:
        """New rows of one factor: ridge regressions of this weight on the other factor."""
        _ = self.unsure  # which is asked next, and in the same round
        if by_rows:
            return self.partitions.concatenate(
                FactorRows.ridge_solutions, self.own, other, weight, True
            )
        cuts = cuts_of_columns(self.program.shape[1], other.shape[1])
        fresh = []
        for first, last in pairwise(cuts):
            summed: NormalEquations = self.partitions.sum(
                FactorRows.normal_equations, self.own, Scattered(other), False, first, last
            )
            fresh.append(summed.solutions(weight))
        return np.concatenate(fresh)

    def along(self, left: Array, right: Array) -> Array:
        """The second derivative of F along each a b', and a and b a column of each."""
        return self.partitions.later(
            FactorRows.along,
            self.own,
            Scattered(left),
            right,
            change=lambda found: np.maximum(found, 1e-300),
        )

    def scaling_costs(self, gradient: Any) -> tuple[Any, Any]:
        """The costs of scaling down rows of the gradient, and those of columns."""
        rows, columns = self.partitions.rows_and_sum(FactorRows.scaling_costs, self.own, gradient)
        return tuple(map(np.concatenate, zip(*rows, strict=True))), columns

    def descend(
        self, own: Array, fresh: Array, other: Array, weight: float, by_rows: bool
    ) -> Array:
        """Each row of a factor moved towards its new value as far as its own objective falls."""
        if by_rows:
            rows = Scattered(own), Scattered(fresh)
            return self.partitions.concatenate(
                FactorRows.descend, self.own, *rows, other, weight, True
            )

        def objectives(share: Array, factor: Array) -> Array:
            losses: Array = self.partitions.sum(
                column_losses, self.own, fresh, Scattered(other), share
            )
            return penalties(factor, weight) + losses

        tied = np.zeros(own.shape[0], dtype=bool)
        for piece, columns in zip(self.program.loss.pieces, self.program.columns, strict=True):
            tied[columns] = piece.width > 1
        at_first = objectives(np.zeros(own.shape[0]), own)
        return descended(own, fresh, at_first, objectives, tied)


@rows_at.register
def rows_in_partitions(
    entries: PartitionedEntries, program: Program, at: Evaluation
) -> PartitionedRows:
    """F near a point of a program whose rows are in partitions."""
    return PartitionedRows(program, at)


def cuts_of_columns(n_columns: int, width: int) -> list[int]:
    """Cut columns into slabs such that the answer to one slab fits ``EQUATIONS``.

    By the sizes of the right factor alone, and evenly: the same sums whoever computes them. A
    slab has one column at least.
    """
    n_slabs = -(-n_columns // max(1, EQUATIONS // max(bytes_of_equations(width), 1)))
    return [n_columns * k // n_slabs for k in range(n_slabs + 1)]


def unsure_steps(lines: FactorRows) -> float:
    """Number of partitions in which full steps are not sure to descend."""
    return float(not lines.sure)


def column_losses(lines: FactorRows, fresh: Array, other: Array, share: Array) -> Array:
    """The losses of each column where rows of V have moved by shares of their steps."""
    own, columns = lines.at.place.factors.right, lines.program.entries.columns
    moved = lines.moved(fresh, other, by_rows=False)
    z = lines.at.place.z + share[columns] * moved
    factor = own + share[:, None] * (fresh - own)
    return lines.losses(z, factor, other, by_rows=False)
