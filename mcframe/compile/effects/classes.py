"""One free number for each class of each column."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.effects.conjugate_gradients import conjugate_gradients
from mcframe.compile.effects.contract import Correction, Effects, Ridge, corrected
from mcframe.compile.effects.newton import SOLVED, Local, newton
from mcframe.contracts.arrays import Array, IntArray, Mask

__all__ = ["Bends", "EffectsOfClasses", "damping_of_classes", "newton_step"]

# How exactly a Newton system is solved, beside what is left of the gradient.
EXACT, LEAST_EXACT = 0.1, 1e-13
# What is added to the diagonal, relatively: a constant may be traded between classes. Most of it
# in the beginning.
LEAST_DAMPING, MOST_DAMPING = 1e-9, 0.1
# What has less curvature than this does not move.
TINY = 1e-300
# Up to so many classes Newton's systems, one for each column, are written out and solved: K
# products make them, while conjugate gradients took six in the mean for K = 4.
WRITTEN_OUT = 12


@attrs.frozen(eq=False)
class Bends:
    """Second derivatives of a sum of losses in effects of classes, asked for as they are needed.

    ``blocks`` gives a matrix (K, K) for each column, ``times`` their product with a vector, and
    ``diagonal`` what stands on theirs.
    """

    blocks: Callable[[], Array]
    times: Callable[[Array], Array]
    diagonal: Callable[[], Array]


@attrs.frozen(eq=False)
class EffectsOfClasses(Effects):
    """``groups`` (N, K) are the effects of each of the K numbers of an entry.

    The classes of one entry are tied by its loss. Those that a column never has are at -infinity,
    ``fixed``. A constant may be traded between the classes of a column; from 0 on it is not.
    """

    groups: IntArray
    size: int
    fixed: Array
    ridge: Ridge | None = None

    def sum_by_effect(self, numbers: Array) -> Any:
        """The sum over the entries of each effect, of (N, K) numbers or of flat ones."""
        return np.bincount(self.groups.ravel(), weights=numbers.ravel(), minlength=self.size)

    def predictor(self, z: Array, effects: Array | None) -> Array:
        """z plus the effects of its numbers."""
        return z if effects is None else z + effects[self.groups]

    @cached_property
    def counts(self) -> IntArray:
        """The number of entries of each effect."""
        return np.bincount(self.groups.ravel(), minlength=self.size)

    def solve(
        self, likelihood: Any, z: Array, y: Array, weights: Array | float, warm: Array | None
    ) -> Array:
        """argmin over e of sum over entries of w l(z + e, y), plus the ridge, by Newton's method.

        Its systems, one for each column, are written out for few classes, and else solved by
        conjugate gradients.
        """
        free, start = self.fixed == 0.0, self.begin(z, warm)
        steepest = self.sum_by_effect(stretched(weights) * np.ones(z.shape))

        def at(effects: Array) -> Local:
            return self.local_at(likelihood, z, y, weights, effects, free)

        def step(effects: Array, here: Local) -> Array:
            bends = self.bends_at(likelihood, z, y, weights, effects)
            damping = damping_of_classes(likelihood, steepest, here)
            return newton_step(bends, z.shape[1], damping, self.stiffness, here, free)

        return newton(at, step, start)

    def local_at(
        self,
        likelihood: Any,
        z: Array,
        y: Array,
        weights: Array | float,
        effects: Array,
        free: Any,
    ) -> Local:
        """Losses, gradient and sizes at z and effects."""
        value, gradient = likelihood.value_and_gradient(z + effects[self.groups], y)
        return self.local(weights * value, stretched(weights) * gradient, effects, free)

    def bends_at(
        self, likelihood: Any, z: Array, y: Array, weights: Array | float, effects: Array
    ) -> Bends:
        """Second derivatives of the losses at z and effects."""
        shifted, stretch = z + effects[self.groups], stretched(weights)
        hessian = likelihood.hessian_at(shifted, y)

        def times(vector: Array) -> Array:
            found: Array = self.sum_by_effect(stretch * hessian(vector[self.groups]))
            return found

        def diagonal() -> Array:
            second = likelihood.second_derivative(shifted, y)
            found: Array = self.sum_by_effect(stretch * second)
            return found

        return Bends(lambda: self.blocks(hessian, stretch), times, diagonal)

    def correction(
        self,
        likelihood: Any,
        z: Array,
        y: Array,
        weights: Array | float,
        effects: Array,
        gradients: Array,
    ) -> Correction | None:
        """A Newton step of the effects of each column."""
        if z.shape[1] > WRITTEN_OUT:
            return None
        gradient = self.sum_by_effect(gradients)
        if self.ridge is not None:
            gradient = gradient + self.ridge.gradient(effects)
        free = self.fixed == 0.0
        gradient = np.where(free, gradient, 0.0)
        hessian = likelihood.hessian_at(z + effects[self.groups], y)
        stretch, undamped = stretched(weights), np.zeros(self.size)
        blocks = self.blocks(hessian, stretch)
        step = solved_by_columns(blocks, undamped, self.stiffness, -gradient, free)
        moved = step[self.groups]
        return corrected(likelihood, effects, gradient, step, moved, stretch * hessian(moved))

    def blocks(self, hessian: Callable[[Array], Array], stretch: Array | float) -> Array:
        """The second derivatives in the effects of each column, (columns, K, K).

        K products of the entries' Hessian, each with one class, sum up to the rows of the blocks.
        """
        n_classes = self.groups.shape[1]
        images = np.empty((self.size, n_classes))
        for k in range(n_classes):
            unit = np.zeros(self.groups.shape)
            unit[:, k] = 1.0
            images[:, k] = self.sum_by_effect(stretch * hessian(unit))
        return images.reshape(-1, n_classes, n_classes)

    def centre(self, gradient: Array) -> Array:
        """The mean over the entries of each effect taken off."""
        if self.ridge is not None:
            return gradient
        means = self.sum_by_effect(gradient) / np.maximum(self.counts, 1)
        centred: Array = gradient - means[self.groups.ravel()]
        return centred


def stretched(weights: Array | float) -> Any:
    """The weights of entries in the shape of their gradients."""
    return np.asarray(weights)[:, None] if np.ndim(weights) else weights


def damping_of_classes(likelihood: Any, weights: Array, here: Local) -> Array:
    """What is added to a Newton system's diagonal, where each effect has so much weight."""
    damping: Array = MOST_DAMPING * here.left * (likelihood.curvature * weights)
    return damping


def newton_step(
    bends: Bends, n_classes: int, damping: Array, ridge: float, here: Local, free: Mask
) -> Array:
    """A Newton step of all effects: written out by columns, or by conjugate gradients."""
    if n_classes <= WRITTEN_OUT:
        return solved_by_columns(bends.blocks(), damping, ridge, -here.gradient, free)
    diagonal = bends.diagonal()
    damping = damping + LEAST_DAMPING * diagonal + ridge
    usable: Any = free & (diagonal + damping > TINY)
    inverse = np.where(usable, 1.0 / np.where(usable, diagonal + damping, 1.0), 0.0)
    exact = max(EXACT * SOLVED / here.off, LEAST_EXACT)
    return conjugate_gradients(
        lambda x: bends.times(x) + damping * x, -here.gradient, inverse, usable, exact
    )


def solved_by_columns(
    blocks: Array, damping: Array, ridge: float, target: Array, free: Mask
) -> Array:
    """x with (S + damping + ridge) x = t, 0 where it is not free, for a block S a column."""
    n_classes = blocks.shape[1]
    diagonal = range(n_classes)
    curved = blocks[:, diagonal, diagonal].ravel()
    damped = (1.0 + LEAST_DAMPING) * curved + damping + ridge
    usable = (free & (damped > TINY)).reshape(-1, n_classes)
    system = blocks * (usable[:, :, None] & usable[:, None, :])
    system[:, diagonal, diagonal] = np.where(usable, damped.reshape(usable.shape), 1.0)
    aims = np.where(usable, target.reshape(usable.shape), 0.0)
    found: Array = np.linalg.solve(system, aims[:, :, None])
    return found.ravel()
