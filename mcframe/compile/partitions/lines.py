"""Rows of one factor, the other fixed, with the rows of the table in partitions."""

from functools import cached_property
from itertools import pairwise
from typing import Any

import attrs
import numpy as np

from mcframe.compile.entries import Place
from mcframe.compile.evaluation import Evaluation
from mcframe.compile.lines import Lines, NormalEquations, descended, penalties
from mcframe.compile.partitions.costs import Costs
from mcframe.compile.partitions.entries import PartitionedEntries
from mcframe.compile.partitions.executor import Later
from mcframe.compile.partitions.numbers import ByRows, Cut, Numbers
from mcframe.compile.partitions.part import Part
from mcframe.compile.partitions.unlabeled import PointInPartitions
from mcframe.compile.program import Program
from mcframe.contracts.arrays import Array

__all__ = [
    "EQUATIONS",
    "PartitionedLines",
    "cuts_of_columns",
    "lines_near",
]

# Bytes of normal equations of columns that a partition answers in one round, and that their sum
# has. A worker that adds up ``FAN`` of them holds these and four sums, a process that adds up all
# those of P partitions log2 P + 3 at most: a dozen of a thousand partitions.
EQUATIONS = 64_000_000


@attrs.frozen(eq=False)
class Near(Cut):
    """A point where a quadratic is taken: Z = U V', gradients, effects, curvatures of all rows."""

    point: PointInPartitions
    gradients: Numbers
    effects: tuple[Any, ...]
    highest: tuple[float, ...]

    def lines(self, part: Part) -> Lines:
        """The quadratic of a partition."""
        program, gradients, behind = (
            part.program,
            part.numbers(self.gradients),
            self.point.behind(part),
        )
        place = Place(behind.latent, behind.z)
        at = Evaluation(program.entries, place, behind, 0.0, gradients, self.effects)
        return Lines(program, at, self.highest)


@attrs.frozen(eq=False)
class PartitionedLines:
    """What ``Lines`` answer: rows of U within partitions, of V by sums of normal equations."""

    program: Program
    at: Evaluation

    @cached_property
    def near(self) -> Near:
        """What partitions are told of the point."""
        loss: Any = self.program.loss
        z: Any = self.at.place.z
        gradients: Any = self.at.entry_gradients
        effects = self.at.effects
        return Near(
            point=PointInPartitions.of(self.at.place.factors, z),
            gradients=gradients,
            effects=loss.for_tasks(effects),
            highest=tuple(loss.curvatures_at(z, effects)),
        )

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
        found: Later = self.partitions.later(unsure_steps, self.near)
        return found

    def ridge_solutions(self, other: Array, weight: float, by_rows: bool) -> Array:
        """New rows of one factor: ridge regressions of this weight on the other factor."""
        _ = self.unsure  # which is asked next, and in the same round
        if by_rows:
            return self.partitions.concatenate(row_solutions, self.near, other, weight)
        cuts = cuts_of_columns(self.program.shape[1], other.shape[1])
        fresh = []
        for first, last in pairwise(cuts):
            summed: NormalEquations = self.partitions.sum(
                column_equations, self.near, ByRows(other), first, last
            )
            fresh.append(summed.solutions(weight))
        return np.concatenate(fresh)

    def along(self, left: Array, right: Array) -> Array:
        """The second derivative of F along each a b', and a and b a column of each."""
        along: Any = self.partitions.later(
            curvatures_along,
            self.near,
            ByRows(left),
            right,
            change=lambda found: np.maximum(found, 1e-300),
        )
        return along

    def descend(
        self, own: Array, fresh: Array, other: Array, weight: float, by_rows: bool
    ) -> Array:
        """Each row of a factor moved towards its new value as far as its own objective falls."""
        if by_rows:
            return self.partitions.concatenate(
                row_descent, self.near, ByRows(own), ByRows(fresh), other, weight
            )

        def objectives(share: Array, factor: Array) -> Array:
            losses: Array = self.partitions.sum(
                column_losses, self.near, fresh, ByRows(other), share
            )
            return penalties(factor, weight) + losses

        tied = np.zeros(own.shape[0], dtype=bool)
        for piece, columns in zip(self.program.loss.pieces, self.program.columns, strict=True):
            tied[columns] = piece.width > 1
        at_first = objectives(np.zeros(own.shape[0]), own)
        return descended(own, fresh, at_first, objectives, tied)


def lines_near(program: Program, at: Evaluation) -> Lines | PartitionedLines:
    """F near a point as a quadratic of each entry, wherever the entries are."""
    spread = isinstance(program.entries, PartitionedEntries)
    return PartitionedLines(program, at) if spread else Lines(program, at)


def cuts_of_columns(n_columns: int, width: int) -> list[int]:
    """Cut columns into slabs such that the answer to one slab fits ``EQUATIONS``.

    By the sizes of the right factor alone, and evenly: the same sums whoever computes them. A
    slab has one column at least.
    """
    each = Costs(0, 0, n_columns, width, 1).bytes_of_column
    n_slabs = -(-n_columns // max(1, EQUATIONS // max(each, 1)))
    return [n_columns * k // n_slabs for k in range(n_slabs + 1)]


def unsure_steps(part: Part, near: Near) -> float:
    """Number of partitions in which full steps are not sure to descend."""
    return float(not near.lines(part).sure)


def row_solutions(part: Part, near: Near, other: Array, weight: float) -> Array:
    """Ridge regressions of the rows on V."""
    return near.lines(part).ridge_solutions(other, weight, by_rows=True)


def column_equations(part: Part, near: Near, other: Any, first: int, last: int) -> NormalEquations:
    """Normal equations of the columns from first to last on U."""
    lines = near.lines(part)
    return lines.normal_equations(other, False, first, last)


def curvatures_along(part: Part, near: Near, left: Any, right: Array) -> Array:
    """Second derivatives along products of columns."""
    return near.lines(part).along(left, right)


def row_descent(
    part: Part, near: Near, own: Any, fresh: Any, other: Array, weight: float
) -> Array:
    """Rows of U moved as far as their objectives fall."""
    lines = near.lines(part)
    return lines.descend(own, fresh, other, weight, by_rows=True)


def column_losses(part: Part, near: Near, fresh: Array, other: Any, share: Array) -> Array:
    """The losses of each column where rows of V have moved by shares of their steps."""
    lines, own = near.lines(part), near.point.right
    moved = lines.moved(fresh, other, by_rows=False)
    z = lines.at.place.z + share[part.program.entries.columns] * moved
    factor = own + share[:, None] * (fresh - own)
    return lines.losses(z, factor, other, by_rows=False)
