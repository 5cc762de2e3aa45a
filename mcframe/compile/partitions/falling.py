"""Effects along which the loss falls without end, of a table whose rows are in partitions."""

from typing import Any

import attrs
import numpy as np

from mcframe.compile.effects import OneKind
from mcframe.compile.effects.declared import refusal_of_falling
from mcframe.compile.effects.far import falling_by_sums, sums_far_out
from mcframe.compile.effects.notes import describe_effect
from mcframe.compile.partitions.by_effect import apart, in_halves, together
from mcframe.compile.partitions.executor import Partitions, Task
from mcframe.compile.partitions.part import Part
from mcframe.contracts.errors import DataError
from mcframe.model import Block, Problem

__all__ = ["refuse_falling"]


def refuse_falling(problem: Problem, partitions: Partitions, k: int, block: Block) -> None:
    """A ``DataError`` where the loss of block k falls without end along a free effect.

    By sums over all entries: those of one partition may fall where the others hold them. A round
    for losses without a lower bound alone.
    """
    layout, likelihood = problem.layout(block.name), problem.likelihoods[block.name]
    free = layout.n_effects and not problem.ridge(block.name) and likelihood.width == 1
    if not free or np.isfinite(likelihood.infimum):
        return
    falling = falling_by_sums(*together(layout, *in_halves(partitions, FarOut(k), (layout,))))
    if falling.size:
        effect = describe_effect(problem, block, int(falling[0]))
        said = refusal_of_falling(likelihood, effect.removeprefix("the "))
        raise DataError(f"block {block.name!r}: {said}")


@attrs.frozen(eq=False)
class FarOut(Task):
    """The sums of gradients of block k far out over each of its effects, and of their sizes."""

    k: int

    def of(self, part: Part) -> tuple[Any, Any]:
        """What a partition has of them."""
        piece: Any = part.program.loss.pieces[self.k]
        kind = piece.effects
        groups = kind.group[:, None] if isinstance(kind, OneKind) else kind.groups
        sums = sums_far_out(piece.likelihood, piece.y, piece.scale, groups, kind.size)
        return apart(piece.layout, *sums)
