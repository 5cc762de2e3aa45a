"""Ridge regressions for the rows of one factor, the other fixed, of rows in partitions."""

import operator
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any

import attrs
import numpy as np

from mcframe.compile.factor_rows import FactorRows, NormalEquations, descended, penalties, rows_at
from mcframe.compile.program import Evaluation, Iterate, Program
from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import TINY
from mcframe.numerics.operators import LowRank
from mcframe.partitions.part import (
    ENTRIES,
    PROGRAM,
    PartValue,
    bytes_of_equations,
)
from mcframe.partitions.partitioned_loss import PartitionedEntries, background_at
from mcframe.partitions.tall_matrix import cut_by_rows

# Bytes of normal equations of columns that a partition answers in one round, and that their sum
# has. A worker that adds up ``REDUCTION_ARITY`` of them holds these and four sums, a process that
# adds up all those of P partitions log2 P + 3 at most: a dozen of a thousand partitions.
EQUATION_BYTES = 64_000_000


@attrs.frozen(eq=False)
class PartitionedRows:
    """``FactorRows`` of all partitions: of U within these, of V by sums of normal equations."""

    program: Program
    evaluation: Evaluation

    @cached_property
    def factor_rows(self) -> PartValue:
        """The ``FactorRows`` of each partition, with the curvatures of all rows."""
        loss: Any = self.program.loss
        z: Any = self.evaluation.iterate.z
        gradients: Any = self.evaluation.entry_gradients
        effects = self.evaluation.effects
        latent, highest = self.evaluation.iterate.factors, tuple(loss.curvatures_at(z, effects))
        # Rows of U are read with unlabeled cells alone.
        left = cut_by_rows(latent.left) if self.program.background else np.zeros((0, latent.width))
        factors = PartValue(LowRank, (left, latent.right))
        arguments = (
            ENTRIES,
            PartValue(Iterate, (factors, z)),
            background_at(factors, z),
            0.0,
            gradients,
            loss.for_tasks(effects),
        )
        return PartValue(FactorRows, (PROGRAM, PartValue(Evaluation, arguments), highest))

    @property
    def partitions(self) -> Any:
        """The executor of the parts."""
        loss: Any = self.program.loss
        return loss.partitions

    def rows_of(self, question: Callable[..., Array], *arguments: Any) -> Array:
        """The answers to a question about rows of U."""
        entries: Any = self.program.entries
        rows: Array = entries.rows_of(question, *arguments)
        return rows

    def descending_solutions(
        self, current: Array, other: Array, weight: float, by_rows: bool
    ) -> Array:
        """New rows of one factor: ridge solutions, or as far towards them as objectives fall.

        For rows one round: a partition knows of its own whether full steps descend.
        """
        if by_rows:
            question, rows = FactorRows.descending_solutions, cut_by_rows(current)
            return self.rows_of(question, self.factor_rows, rows, other, weight, True)
        surely = PartValue(getattr, (self.factor_rows, "full_steps_descend"))
        unsure = self.partitions.later(operator.not_, surely)  # asked in the same round
        updated = self.ridge_solutions(other, weight, by_rows)
        if not unsure.value:
            return updated
        return self.descend(current, updated, other, weight, by_rows)

    def ridge_solutions(self, other: Array, weight: float, by_rows: bool) -> Array:
        """New rows of one factor: ridge regressions of this weight on the other factor."""
        if by_rows:
            question = FactorRows.ridge_solutions
            return self.rows_of(question, self.factor_rows, other, weight, True)
        cuts = cuts_of_columns(self.program.shape[1], other.shape[1])
        fresh = []
        for first, last in pairwise(cuts):
            summed: NormalEquations = self.partitions.sum(
                FactorRows.normal_equations,
                self.factor_rows,
                cut_by_rows(other),
                False,
                first,
                last,
            )
            fresh.append(summed.solutions(weight))
        return np.concatenate(fresh)

    def along(self, left: Array, right: Array) -> Array:
        """The second derivative of F along each a b', and a and b a column of each."""
        return self.partitions.later(
            FactorRows.along,
            self.factor_rows,
            cut_by_rows(left),
            right,
            change=lambda second_derivatives: np.maximum(second_derivatives, TINY),
        )

    def scaling_costs(self, gradient: Any, with_rows: bool) -> tuple[Any, Any]:
        """The costs of scaling down rows of the gradient, or of none, and those of columns."""
        rows, columns = self.partitions.rows_and_sum(
            FactorRows.scaling_costs, self.factor_rows, gradient, with_rows
        )
        return tuple(map(np.concatenate, zip(*rows, strict=True))), columns

    def descend(
        self, current: Array, updated: Array, other: Array, weight: float, by_rows: bool
    ) -> Array:
        """Each row of a factor moved towards its new value as far as its own objective falls."""
        if by_rows:
            rows = cut_by_rows(current), cut_by_rows(updated)
            question = FactorRows.descend
            return self.rows_of(question, self.factor_rows, *rows, other, weight, True)

        def losses_at(*shares: Array) -> Array:
            asked = self.factor_rows, updated, cut_by_rows(other), shares
            return np.asarray(self.partitions.sum(column_losses, *asked))

        ones = np.ones(current.shape[0])
        at_first, at_full = losses_at(np.zeros(current.shape[0]), ones)  # both in one round

        def objectives(share: Array, factor: Array) -> Array:
            losses = at_full if np.array_equal(share, ones) else losses_at(share)[0]
            return penalties(factor, weight) + losses

        tied = np.zeros(current.shape[0], dtype=bool)
        for block_loss, columns in zip(
            self.program.loss.block_losses, self.program.columns, strict=True
        ):
            tied[columns] = block_loss.width > 1
        at_first = penalties(current, weight) + at_first
        return descended(current, updated, at_first, objectives, tied)


@rows_at.register
def rows_in_partitions(
    entries: PartitionedEntries, program: Program, evaluation: Evaluation
) -> PartitionedRows:
    """F near a point of a program whose rows are in partitions."""
    return PartitionedRows(program, evaluation)


def cuts_of_columns(n_columns: int, width: int) -> list[int]:
    """Cut columns into slabs such that the answer to one slab fits ``EQUATION_BYTES``.

    By the sizes of the right factor alone, and evenly: the same sums whoever computes them. A
    slab has one column at least.
    """
    n_slabs = -(-n_columns // max(1, EQUATION_BYTES // max(bytes_of_equations(width), 1)))
    return [n_columns * k // n_slabs for k in range(n_slabs + 1)]


def column_losses(
    lines: FactorRows, updated: Array, other: Array, shares: tuple[Array, ...]
) -> Array:
    """The losses of each column where rows of V have moved by shares of their steps."""
    current, columns = lines.evaluation.iterate.factors.right, lines.program.entries.columns
    moved, losses = lines.moved(updated, other, by_rows=False), []
    for share in shares:
        z = lines.evaluation.iterate.z + share[columns] * moved
        factor = current + share[:, None] * (updated - current)
        losses.append(lines.losses(z, factor, other, by_rows=False))
    return np.stack(losses)
