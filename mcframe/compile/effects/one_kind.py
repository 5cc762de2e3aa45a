"""One free number for each column, or for each row: each a problem of its own."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.effects.contract import Correction, Effects, Ridge, corrected
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.rounding import EPS
from mcframe.numerics.machine.clock import check_time

__all__ = ["GroupSums", "Groups", "OneKind", "first_reach"]

MAX_STEPS = 200
LONGEST = 1e300
# Bisections for a shift: to the last bit of numbers of one size.
HALVINGS = 80
# The longest first step of Newton's method, in units of the length scale.
REACH = 8.0


@attrs.frozen(eq=False)
class OneKind(Effects):
    """One effect for each entry, ``group`` says which; each group has one at most.

    ``fixed`` are far values for those whose best value is infinite, 0 for the others; without
    entries an effect is undetermined and takes the mean of the others, counted from 0 by
    ``origin``.
    """

    group: IntArray
    size: int
    fixed: Array
    ridge: Ridge | None = None
    origin: Array | float = 0.0

    def sum_by_effect(self, numbers: Array) -> Any:
        """The sum over each group."""
        return np.bincount(self.group, weights=numbers, minlength=self.size)

    def predictor(self, z: Array, effects: Array | None) -> Array:
        """z plus the effect of each entry's group."""
        return z if effects is None else z + effects[self.group]

    def solve(
        self, likelihood: Any, z: Array, y: Array, weights: Array | float, warm: Array | None
    ) -> Array:
        """argmin over e of sum over entries of w l(z + e[group], y), plus the ridge.

        Newton's method for all groups at once, each kept inside the bracket that the signs of
        the gradient sums have shown so far. At the answer the gradients of each group sum to 0, or
        to minus the ridge's, which is what a certificate needs. Where the infimum is not attained
        (labels all alike) e goes so far out that losses and gradients are 0 in floating point.
        """
        reached = float(np.max(np.abs(z), initial=0.0))

        def at(effects: Array) -> GroupSums:
            shifted = z + effects[self.group]
            gradients = weights * likelihood.value_and_gradient(shifted, y)[1]
            return GroupSums(
                self.sum_by_effect(gradients),
                self.sum_by_effect(np.abs(gradients)),
                lambda: self.sum_by_effect(weights * likelihood.second_derivative(shifted, y)),
                reached,
            )

        groups = Groups(self.counts, self.fixed, self.ridge, self.origin)
        return groups.solve(at, self.begin(z, warm), first_reach(likelihood))

    def correction(
        self,
        likelihood: Any,
        z: Array,
        y: Array,
        weights: Array | float,
        effects: Array,
        gradients: Array,
    ) -> Correction | None:
        """A Newton step of each effect by itself."""
        bends = weights * likelihood.second_derivative(z + effects[self.group], y)
        gradient, curvature = self.sum_by_effect(gradients), self.sum_by_effect(bends)
        if self.ridge is not None:
            gradient = gradient + self.ridge.gradient(effects)
            curvature = curvature + self.ridge.weight
        moves: Any = (self.fixed == 0.0) & (gradient != 0.0)
        gradient = np.where(moves, gradient, 0.0)
        step = np.where(moves, -gradient / np.where(moves, curvature, 1.0), 0.0)
        moved = step[self.group]
        found = corrected(likelihood, effects, gradient, step, moved, bends * moved)
        groups = Groups(self.counts, self.fixed, self.ridge, self.origin)
        return found and attrs.evolve(found, effects=groups.with_idle(found.effects))

    @cached_property
    def counts(self) -> IntArray:
        """The number of entries of each group."""
        return np.bincount(self.group, minlength=self.size)

    def nearest_dual(self, gradient: Array, nearest: Callable[[Array], Array]) -> Array:
        """Gradients in their domains whose sums vanish: the nearest ones.

        They are the nearest of the gradients minus a shift for each group, whose sums fall with
        the shift.
        """
        inside = nearest(gradient)
        if self.ridge is not None or np.array_equal(inside, gradient):
            return inside
        reach = np.full(self.size, float(np.max(np.abs(gradient) + np.abs(inside))))
        below, above = -reach, reach
        for _ in range(HALVINGS):
            shift = 0.5 * (below + above)
            inside = nearest(gradient - shift[self.group])
            sums = self.sum_by_effect(inside)
            below = np.where(sums > 0.0, shift, below)
            above = np.where(sums > 0.0, above, shift)
        return inside

    def centre(self, gradient: Array) -> Array:
        """The mean of each group taken off."""
        if self.ridge is not None:
            return gradient
        means = self.sum_by_effect(gradient) / np.maximum(self.counts, 1)
        return gradient - means[self.group]


@attrs.frozen(eq=False)
class GroupSums:
    """The losses' gradients at some effects, and sizes of them, summed over each group.

    ``curvature`` gives the sums of second derivatives, which are asked for where effects move;
    ``reached`` is the largest predictor before them, beside which moves may be rounding.
    """

    gradients: Array
    sizes: Array
    curvature: Callable[[], Array]
    reached: float


@attrs.frozen(eq=False)
class Groups:
    """Effects that each have their own entries: all that their solution needs beside sums."""

    counts: IntArray
    fixed: Array
    ridge: Ridge | None
    origin: Array | float

    def solve(self, at: Callable[[Array], GroupSums], effects: Array, longest: float) -> Array:
        """Newton's method from ``effects`` with first steps up to ``longest``, by sums alone."""
        free = self.fixed == 0.0
        rounding = EPS * (4.0 + np.sqrt(np.max(self.counts, initial=1)))
        below: Any = np.full(effects.size, -np.inf)
        above: Any = np.full(effects.size, np.inf)
        reach = np.full(effects.size, longest)
        for _ in range(MAX_STEPS):
            check_time()
            sums = at(effects)
            total, size = sums.gradients, sums.sizes
            if self.ridge is not None:
                pull = self.ridge.gradient(effects)
                total, size = total + pull, size + np.abs(pull)
            open_ = free & ((np.abs(total) > rounding * size) | ~np.isfinite(size))
            if not open_.any():
                break
            curvature = sums.curvature()
            curvature = curvature if self.ridge is None else curvature + self.ridge.weight
            below = np.where(total < 0, np.maximum(below, effects), below)
            above = np.where(total > 0, np.minimum(above, effects), above)
            moved = newton_step(effects, total, curvature, below, above, reach)
            # A move below the rounding of z + e changes nothing that can be seen.
            still = np.abs(moved - effects) <= 4.0 * EPS * (np.abs(effects) + sums.reached)
            effects = np.where(open_, moved, effects)
            if bool(np.all(still | ~open_)):
                break
            unbounded = np.isinf(below) | np.isinf(above)
            reach = np.where(unbounded, np.minimum(2.0 * reach, LONGEST), reach)
        return self.with_idle(effects)

    def with_idle(self, effects: Array) -> Array:
        """Effects without an entry at the mean of the others, infinite ones left out."""
        idle = self.counts == 0
        if self.ridge is not None or not idle.any():
            return effects
        known = ~idle & (self.fixed == 0.0)
        origin = np.broadcast_to(self.origin, effects.shape)
        mean = np.mean((effects + origin)[known]) if known.any() else 0.0
        return np.where(idle, mean - origin, effects)


def first_reach(likelihood: Any) -> float:
    """The longest first step: on a quadratic Newton's is exact, on others it may overshoot."""
    if likelihood.quadratic:
        return LONGEST
    reach = REACH if np.isfinite(likelihood.curvature) else 1.0
    return reach * float(likelihood.length_scale)


def newton_step(
    effects: Array, total: Array, curvature: Array, below: Array, above: Array, reach: Array
) -> Array:
    """A Newton step, no longer than ``reach``, or the middle of the bracket if it leaves it.

    The bracket is open: between two kinks steps from each of its ends may lead to the other one,
    and would do so for ever.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        step = -total / curvature
    step = np.where(np.isfinite(step), step, -np.sign(total) * reach)
    moved = effects + np.clip(step, -reach, reach)
    outside = (moved < below) | (moved > above)
    outside |= (moved != effects) & ((moved == below) | (moved == above))
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (below + above)
    return np.where(outside & np.isfinite(middle), middle, moved)
