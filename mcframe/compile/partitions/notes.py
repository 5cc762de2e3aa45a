"""Notes on the effects of a fit of rows in partitions, in the words of one in memory."""

from typing import Any

import numpy as np

from mcframe.compile.effects.notes import note_on_infinite, note_on_parameters
from mcframe.compile.partitions.executor import Partitions
from mcframe.compile.partitions.loss import PartitionedLoss
from mcframe.compile.partitions.values import piece_of
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Parametric
from mcframe.model import Problem


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
    return np.unique(partitions.concatenate(distinct_values, piece_of(k)))


def distinct_values(piece: Any) -> Array:
    """The values that a partition has, each once."""
    return np.unique(piece.y)
