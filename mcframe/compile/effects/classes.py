"""One free number for each class of each column."""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.compile.effects.conjugate_gradients import conjugate_gradients
from mcframe.compile.effects.contract import Correction, Effects, Ridge, corrected
from mcframe.compile.effects.newton import SOLVED, Local, newton
from mcframe.contracts.arrays import Array, IntArray

__all__ = ["EffectsOfClasses"]

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

    def solve(
        self, likelihood: Any, z: Array, y: Array, weights: Array | float, warm: Array | None
    ) -> Array:
        """argmin over e of sum over entries of w l(z + e, y), plus the ridge, by Newton's method.

        Its systems, one for each column, are written out for few classes, and else solved by
        conjugate gradients.
        """
        free, start = self.fixed == 0.0, self.begin(z, warm)
        stretch = np.asarray(weights)[:, None] if np.ndim(weights) else weights

        def at(effects: Array) -> Local:
            value, slope = likelihood.value_and_slope(z + effects[self.groups], y)
            return self.local(weights * value, stretch * slope, effects, free)

        steepest = self.sum_by_effect(stretch * likelihood.curvature * np.ones(z.shape))

        def step(effects: Array, here: Local) -> Array:
            shifted = z + effects[self.groups]
            hessian = likelihood.hessian_at(shifted, y)
            damping = MOST_DAMPING * here.left * steepest
            if z.shape[1] <= WRITTEN_OUT:
                return self.solve_by_columns(hessian, stretch, damping, -here.gradient, free)

            def times(vector: Array) -> Any:
                return self.sum_by_effect(stretch * hessian(vector[self.groups]))

            diagonal = self.sum_by_effect(stretch * likelihood.second_derivative(shifted, y))
            damping = damping + LEAST_DAMPING * diagonal + self.stiffness
            usable: Any = free & (diagonal + damping > TINY)
            inverse = np.where(usable, 1.0 / np.where(usable, diagonal + damping, 1.0), 0.0)
            exact = max(EXACT * SOLVED / here.off, LEAST_EXACT)
            return conjugate_gradients(
                lambda x: times(x) + damping * x, -here.gradient, inverse, usable, exact
            )

        return newton(at, step, start)

    def correction(
        self,
        likelihood: Any,
        z: Array,
        y: Array,
        weights: Array | float,
        effects: Array,
        slopes: Array,
    ) -> Correction | None:
        """A Newton step of the effects of each column."""
        if z.shape[1] > WRITTEN_OUT:
            return None
        gradient = self.sum_by_effect(slopes)
        if self.ridge is not None:
            gradient = gradient + self.ridge.slope(effects)
        free = self.fixed == 0.0
        gradient = np.where(free, gradient, 0.0)
        hessian = likelihood.hessian_at(z + effects[self.groups], y)
        stretch = np.asarray(weights)[:, None] if np.ndim(weights) else weights
        step = self.solve_by_columns(hessian, stretch, np.zeros(self.size), -gradient, free)
        moved = step[self.groups]
        return corrected(likelihood, effects, gradient, step, moved, stretch * hessian(moved))

    def solve_by_columns(
        self,
        hessian: Callable[[Array], Array],
        stretch: Array | float,
        damping: Array,
        target: Array,
        free: Any,
    ) -> Array:
        """x with (S + damping + ridge) x = t, 0 where it is not free, for a block S a column.

        K products of the entries' Hessian, each with one class, sum up to the rows of the blocks.
        """
        n_classes = self.groups.shape[1]
        images = np.empty((self.size, n_classes))
        for k in range(n_classes):
            unit = np.zeros(self.groups.shape)
            unit[:, k] = 1.0
            images[:, k] = self.sum_by_effect(stretch * hessian(unit))
        blocks = images.reshape(-1, n_classes, n_classes)
        diagonal = range(n_classes)
        curved = blocks[:, diagonal, diagonal].ravel()
        damped = (1.0 + LEAST_DAMPING) * curved + damping + self.stiffness
        usable = (free & (damped > TINY)).reshape(-1, n_classes)
        blocks *= usable[:, :, None] & usable[:, None, :]
        blocks[:, diagonal, diagonal] = np.where(usable, damped.reshape(usable.shape), 1.0)
        aims = np.where(usable, target.reshape(usable.shape), 0.0)
        found: Array = np.linalg.solve(blocks, aims[:, :, None])
        return found.ravel()

    def centre(self, slope: Array) -> Array:
        """The mean over the entries of each effect taken off."""
        if self.ridge is not None:
            return slope
        counts = np.maximum(np.bincount(self.groups.ravel(), minlength=self.size), 1)
        return slope - (self.sum_by_effect(slope) / counts)[self.groups.ravel()]
