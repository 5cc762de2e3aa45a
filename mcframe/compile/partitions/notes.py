"""Notes on the effects of a fit of rows in partitions, in the words of one in memory."""

import attrs
import numpy as np

from mcframe.compile.effects.notes import note_on_infinite, note_on_parameters
from mcframe.compile.partitions.executor import Partitions, Task
from mcframe.compile.partitions.loss import PartitionedLoss
from mcframe.compile.partitions.part import Part
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Parametric
from mcframe.model import Problem

__all__ = ["notes_on_pieces"]


def notes_on_pieces(problem: Problem, loss: PartitionedLoss) -> tuple[str, ...]:
    """A note for each block with an infinite effect or parameter."""
    notes = []
    for k, (block, piece) in enumerate(zip(problem.model.blocks, loss.pieces, strict=True)):
        notes.append(note_on_infinite(problem, block, np.flatnonzero(piece.effects.fixed)))
        if piece.layout.n_parameters:
            values = values_of(loss.partitions, k, piece.likelihood)
            notes.append(note_on_parameters(problem, block, values))
    return tuple(note for note in notes if note is not None)


def values_of(partitions: Partitions, k: int, likelihood: Parametric) -> Array:
    """The values of block k, each once; none are asked for where they make no difference."""
    if type(likelihood).unbounded is Parametric.unbounded:
        return np.zeros(0)
    found: Values = partitions.sum(ValuesOf(k))
    return found.each_once


@attrs.frozen(eq=False)
class Values:
    """Values, each once; the sum of two has those of both."""

    each_once: Array

    def __add__(self, other: "Values") -> "Values":
        return Values(np.union1d(self.each_once, other.each_once))


@attrs.frozen(eq=False)
class ValuesOf(Task):
    """The values of block k, each once."""

    k: int

    def of(self, part: Part) -> Values:
        """Values that a partition has."""
        return Values(np.unique(part.program.loss.pieces[self.k].y))
