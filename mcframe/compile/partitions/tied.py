"""Effects that losses tie to each other, of a table whose rows are in partitions."""

from abc import ABC, abstractmethod
from typing import Any

import attrs
import numpy as np

from mcframe.compile.effects import Ridge
from mcframe.compile.effects.far import far_beyond
from mcframe.compile.effects.newton import Local
from mcframe.compile.partitions.executor import Partitions, Task, tree_sum
from mcframe.compile.partitions.numbers import Numbers, effects_by_rows
from mcframe.compile.partitions.part import Part
from mcframe.compile.partitions.tasks import Largest
from mcframe.contracts.arrays import Array, Mask
from mcframe.model import Layout

__all__ = ["LocalSums", "TiedEffects", "begun_far_out", "gathered_by_effect"]


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

    def gathered(self, task: Task) -> Array:
        """Sums over each effect."""
        return gathered_by_effect(self.layout, self.partitions.each(task))

    def begin(self, z: Numbers, warm: Array | None) -> Array:
        """The start of a solve: effects of a point nearby or 0, infinite ones far beyond z."""
        start = np.zeros(self.layout.size) if warm is None else warm
        return begun_far_out(self.partitions, z, self.k, self.fixed, start)

    def local_at(self, z: Numbers, effects: Array, free: Mask) -> Local:
        """Losses, gradient and sizes at z and effects, with the ridge."""
        answers = self.partitions.each(LocalSums(z, self.k, self.cut(effects)))
        value, summands = tree_sum([answer[0] for answer in answers])
        gradient = gathered_by_effect(self.layout, [answer[1] for answer in answers])
        sizes = gathered_by_effect(self.layout, [answer[2] for answer in answers])
        if self.ridge is not None:
            pull = self.ridge.slope(effects)
            gradient, sizes = gradient + pull, sizes + np.abs(pull)
            value += self.ridge.value(effects)
        return Local(float(value), np.where(free, gradient, 0.0), sizes, float(summands))


@attrs.frozen(eq=False)
class LocalSums(Task):
    """Losses of block k at z and effects and their sizes; gradient and its sizes by effect."""

    z: Numbers
    k: int
    effects: Any

    def of(self, part: Part) -> tuple[tuple[float, float], Array, Array]:
        """What a partition adds to them."""
        piece = part.program.loss.pieces[self.k]
        kind: Any = piece.effects
        z = piece.offset_part(part.numbers(self.z))
        here = kind.local_at(piece.likelihood, z, piece.y, piece.scale, self.effects, True)
        return (here.value, here.summands), here.gradient, here.sizes


def gathered_by_effect(layout: Layout, sums: list[Array]) -> Array:
    """Sums over each effect from those of the partitions.

    Those of columns and of the intercept are added up, those of rows stand below each other.
    """
    d, end = layout.n_biases, layout.n_effects - layout.n_biases - layout.n_row_effects
    stops = [own.size - end for own in sums]
    own_rows = [own[d:stop] for own, stop in zip(sums, stops, strict=True)]
    ends = tree_sum([own[stop:] for own, stop in zip(sums, stops, strict=True)])
    return np.concatenate([np.sum([own[:d] for own in sums], axis=0), *own_rows, ends])


def begun_far_out(partitions: Partitions, z: Numbers, k: int, fixed: Array, start: Array) -> Array:
    """The start of a solve, infinite effects far beyond the predictors z of block k."""
    if not fixed.any():
        return start
    reached = np.array([max(partitions.each(Largest(z, k)))])
    return np.where(fixed == 0.0, start, far_beyond(fixed, reached))
