"""What partitions are asked about their losses: one answer each, to be added up."""

from typing import Any

import attrs
import numpy as np

from mcframe.compile.partitions.by_effect import apart
from mcframe.compile.partitions.executor import Task
from mcframe.compile.partitions.numbers import Gradients, Numbers
from mcframe.compile.partitions.part import Part

__all__ = [
    "ConjugateAt",
    "Conjugates",
    "EffectSums",
    "MovedBy",
    "RoundingOf",
    "SteepestAt",
    "ValueOf",
]


@attrs.frozen(eq=False)
class ValueOf(Task):
    """The losses where their gradients were taken, the ridge on biases aside."""

    gradients: Gradients

    def of(self, part: Part) -> float:
        """Losses of a partition, whose gradients are then known, too."""
        z = part.numbers(self.gradients.z)
        found = part.program.loss.evaluate_at(z, self.gradients.effects)
        part.keep(self.gradients, found.gradient)
        return found.value


@attrs.frozen(eq=False)
class EffectSums(Task):
    """The sums of gradients and of their sizes over each effect, of each block.

    Those of the rows, of all blocks, and those of the others.
    """

    gradient: Numbers

    def of(self, part: Part) -> tuple[Any, Any]:
        """What a partition has of them."""
        gradient, rows, others = part.numbers(self.gradient), [], []
        for piece in part.program.loss.pieces:
            own, total = gradient[piece.part], piece.effects.sum_by_effect
            of_rows, of_others = apart(piece.layout, total(own), total(np.abs(own)))
            rows.append(of_rows)
            others.append(of_others)
        return tuple(rows), tuple(others)


@attrs.frozen(eq=False)
class Conjugates(Task):
    """The conjugates of entries at gradients and sums of their sizes, of blocks that have them."""

    gradient: Numbers

    def of(self, part: Part) -> tuple[Any, ...]:
        """Conjugates of a partition, and sizes."""
        gradient = part.numbers(self.gradient)
        return tuple(
            piece.add_conjugates(gradient[piece.part], 0.0, 0.0) if piece.has_conjugate() else None
            for piece in part.program.loss.pieces
        )


@attrs.frozen(eq=False)
class ConjugateAt(Task):
    """F*(S) = <S, z> - F(z) of each block at its own gradient, and sizes."""

    z: Numbers
    effects: tuple[Any, ...]

    def of(self, part: Part) -> tuple[tuple[float, float], ...]:
        """Conjugates of a partition, and sizes."""
        pairs = zip(part.program.loss.pieces, self.effects, strict=True)
        return tuple(piece.conjugate_at(part.numbers(self.z), own) for piece, own in pairs)


@attrs.frozen(eq=False)
class SteepestAt(Task):
    """The largest second derivative of each block."""

    z: Numbers
    effects: tuple[Any, ...]

    def of(self, part: Part) -> tuple[float, ...]:
        """Largest derivatives of a partition."""
        z = part.numbers(self.z)
        pairs = zip(part.program.loss.pieces, self.effects, strict=True)
        return tuple(piece.steepest(piece.offset_part(z), own) for piece, own in pairs)


@attrs.frozen(eq=False)
class RoundingOf(Task):
    """How far rounding of predictors may move the losses."""

    z: Numbers
    effects: tuple[Any, ...]
    gradient: Numbers

    def of(self, part: Part) -> float:
        """Bound on the losses of a partition."""
        z, gradient = part.numbers(self.z), part.numbers(self.gradient)
        return part.program.loss.rounding(z, self.effects, gradient)


@attrs.frozen(eq=False)
class MovedBy(Task):
    """How far the losses move at most where each predictor is off by ``away``."""

    away: float
    gradient: Numbers

    def of(self, part: Part) -> float:
        """Bound on the losses of a partition."""
        return part.program.loss.moved_by(self.away, part.numbers(self.gradient))
