"""Effects of the classes of columns, of a table whose rows are in partitions."""

from typing import Any

import attrs
import numpy as np

from mcframe.compile.effects.classes import Bends, damping_of_classes, newton_step
from mcframe.compile.effects.newton import Local, newton
from mcframe.compile.partitions.executor import Task
from mcframe.compile.partitions.numbers import Numbers
from mcframe.compile.partitions.part import Part
from mcframe.compile.partitions.tied import TiedEffects
from mcframe.contracts.arrays import Array

__all__ = ["ClassEffects"]


@attrs.frozen(eq=False)
class ClassEffects(TiedEffects):
    """``EffectsOfClasses`` of a block: a Newton step by a round of tasks, or by one a product.

    Up to so many classes as memory writes systems out, d K^2 numbers come back from each partition
    a step for d columns of K classes; of more classes d K in each step of conjugate gradients.
    """

    def solve(self, z: Numbers, warm: Array | None) -> Array:
        """The best effects at z, by Newton's method from those of a point nearby."""
        free, n_classes = self.fixed == 0.0, self.likelihood.width
        ridge = 0.0 if self.ridge is None else self.ridge.weight

        def at(effects: Array) -> Local:
            return self.local_at(z, effects, free)

        def step(effects: Array, here: Local) -> Array:
            damping = damping_of_classes(self.likelihood, self.stretch, here)
            return newton_step(self.bends_at(z, effects), n_classes, damping, ridge, here, free)

        return newton(at, step, self.begin(z, warm))

    def bends_at(self, z: Numbers, effects: Array) -> Bends:
        """Second derivatives at z and effects: each question is a round."""

        def asked(word: str, *given: Array) -> Array:
            task = BendsOfClasses(z, self.k, effects, word, given)
            return np.asarray(self.partitions.sum(task))

        return Bends(
            lambda: asked("blocks"),
            lambda vector: asked("times", vector),
            lambda: asked("diagonal"),
        )


@attrs.frozen(eq=False)
class BendsOfClasses(Task):
    """What the ``Bends`` of block k at z and effects answer to a word."""

    z: Numbers
    k: int
    effects: Array
    word: str
    given: tuple[Array, ...]

    def of(self, part: Part) -> Array:
        """What a partition adds to it."""
        piece = part.program.loss.pieces[self.k]
        kind: Any = piece.effects
        z = piece.offset_part(part.numbers(self.z))
        bends = kind.bends_at(piece.likelihood, z, piece.y, piece.scale, self.effects)
        found: Array = getattr(bends, self.word)(*self.given)
        return found
