"""Effects that losses tie to each other, of a table whose rows are in partitions."""

from abc import ABC, abstractmethod
from typing import Any

import attrs
import numpy as np

from mcframe.compile.effects import Ridge
from mcframe.compile.effects.far import far_beyond
from mcframe.compile.effects.newton import Local
from mcframe.compile.partitions.by_effect import apart, in_halves, together
from mcframe.compile.partitions.executor import Partitions, Task
from mcframe.compile.partitions.numbers import Numbers, effects_by_rows
from mcframe.compile.partitions.part import Part
from mcframe.compile.partitions.tasks import Largest
from mcframe.contracts.arrays import Array, Mask
from mcframe.model import Layout

__all__ = ["LocalSums", "TiedEffects", "begun_far_out"]


@attrs.frozen(eq=False)
class TiedEffects(ABC):
    """Effects of block ``k`` that Newton's method solves for together, by rounds of tasks.

    ``stretch`` are the sums of the factors of losses of each effect.
    """

    partitions: Partitions
    k: int
    layout: Layout
    likelihood: Any
    ridge: Ridge | None
    stretch: Array
    fixed: Array

    @abstractmethod
    def solve(self, z: Numbers, warm: Array | None) -> Array:
        """The best effects at z, by Newton's method from those of a point nearby."""

    def cut(self, effects: Array) -> Any:
        """Effects as tasks take them."""
        return effects_by_rows(self.layout, effects)

    def begin(self, z: Numbers, warm: Array | None) -> Array:
        """The start of a solve: effects of a point nearby or 0, infinite ones far beyond z."""
        start = np.zeros(self.layout.size) if warm is None else warm
        return begun_far_out(self.partitions, z, self.k, self.fixed, start)

    def local_at(self, z: Numbers, effects: Array, free: Mask) -> Local:
        """Losses, gradient and sizes at z and effects, with the ridge."""
        task = LocalSums(z, self.k, self.cut(effects))
        rows, (losses, others) = in_halves(self.partitions, task, (self.layout,))
        (value, summands), (gradient, sizes) = losses, together(self.layout, rows, others)
        if self.ridge is not None:
            pull = self.ridge.gradient(effects)
            gradient, sizes = gradient + pull, sizes + np.abs(pull)
            value += self.ridge.value(effects)
        return Local(float(value), np.where(free, gradient, 0.0), sizes, float(summands))


@attrs.frozen(eq=False)
class LocalSums(Task):
    """Losses of block k at z and effects and their sizes; gradient and its sizes by effect.

    Of the latter those of rows in front.
    """

    z: Numbers
    k: int
    effects: Any

    def of(self, part: Part) -> tuple[Any, Any]:
        """What a partition adds to them."""
        here = self.local(part)
        rows, others = apart(part.program.loss.pieces[self.k].layout, here.gradient, here.sizes)
        return rows, ((here.value, here.summands), others)

    def local(self, part: Part) -> Local:
        """What a partition has of them."""
        piece = part.program.loss.pieces[self.k]
        kind: Any = piece.effects
        z = piece.offset_part(part.numbers(self.z))
        found: Local = kind.local_at(piece.likelihood, z, piece.y, piece.scale, self.effects, True)
        return found


@attrs.frozen(eq=False)
class FiniteAt(LocalSums):
    """Whether no gradient of block k overflows at z and effects."""

    def of(self, part: Part) -> Any:
        """Whether none of a partition does."""
        return bool(np.all(np.isfinite(self.local(part).sizes)))


def begun_far_out(partitions: Partitions, z: Numbers, k: int, fixed: Array, start: Array) -> Array:
    """The start of a solve, infinite effects far beyond the predictors z of block k."""
    if not fixed.any():
        return start
    reached = np.array([max(partitions.each(Largest(z, k)))])
    return np.where(fixed == 0.0, start, far_beyond(fixed, reached))
