"""One free number for each class of each column."""

from typing import Any

import attrs
import numpy as np

from mcframe.compile.effects.conjugate_gradients import conjugate_gradients
from mcframe.compile.effects.contract import Effects, Ridge
from mcframe.compile.effects.far import far_beyond
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

        Its systems are solved by conjugate gradients.
        """
        free = self.fixed == 0.0
        start = np.zeros(self.size) if warm is None else warm
        start = np.where(free, start, far_beyond(self.fixed, z))
        stretch = np.asarray(weights)[:, None] if np.ndim(weights) else weights

        def at(effects: Array) -> Local:
            value, slope = likelihood.value_and_slope(z + effects[self.groups], y)
            return self.local(weights * value, stretch * slope, effects, free)

        def step(effects: Array, here: Local) -> Array:
            shifted = z + effects[self.groups]
            second = stretch * likelihood.second_derivative(shifted, y)
            steepest = self.sum_by_effect(stretch * likelihood.curvature * np.ones(z.shape))
            damping = (
                LEAST_DAMPING * self.sum_by_effect(second) + MOST_DAMPING * here.left * steepest
            )

            def times(vector: Array) -> Array:
                product = stretch * likelihood.hessian_product(shifted, y, vector[self.groups])
                return self.sum_by_effect(product) + (damping + self.stiffness) * vector

            diagonal = self.sum_by_effect(second) + damping + self.stiffness
            exact = max(EXACT * SOLVED / here.off, LEAST_EXACT)
            usable: Any = free & (diagonal > TINY)
            inverse = np.where(usable, 1.0 / np.where(usable, diagonal, 1.0), 0.0)
            return conjugate_gradients(times, -here.gradient, inverse, usable, exact)

        return newton(at, step, start)

    def centre(self, slope: Array) -> Array:
        """The mean over the entries of each effect taken off."""
        if self.ridge is not None:
            return slope
        counts = np.maximum(np.bincount(self.groups.ravel(), minlength=self.size), 1)
        return slope - (self.sum_by_effect(slope) / counts)[self.groups.ravel()]
