"""Newton's method with a line search, for effects that are tied together."""

from collections.abc import Callable

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS
from mcframe.numerics.machine import check_time

__all__ = ["Local", "newton"]

# Gradients whose sums are below this share of the sums of their sizes count as solved: what is
# left changes the objective and its certificate by the square of it.
SOLVED = 1e-11
# Where rounding lets the sums fall no further they are left at no more than this.
NEARLY = 1e-9
MAX_STEPS = 60
# Armijo's constant, and the shortest step that is tried.
DECREASE, SHORTEST = 1e-4, 1e-12
# Sums count as small beside this share of the largest of them: the gradients of a group may all be
# rounding.
SMALL_GROUP, TINY = 1e-3, 1e-300


@attrs.frozen(eq=False)
class Local:
    """A sum of losses at some effects: its value, its gradient in them, and sizes of both.

    ``sizes`` are the sums of the sizes of what each entry of the gradient is the sum of.
    """

    value: float
    gradient: Array
    sizes: Array
    summands: float

    @property
    def off(self) -> float:
        """The largest entry of the gradient beside its size."""
        floor = max(SMALL_GROUP * float(np.max(self.sizes, initial=0.0)), TINY)
        return float(np.max(np.abs(self.gradient) / np.maximum(self.sizes, floor), initial=0.0))

    @property
    def left(self) -> float:
        """The largest entry of the gradient beside the largest size.

        Beside its own size that of a class that a column does not have is 1 to the end.
        """
        largest = max(float(np.max(self.sizes, initial=0.0)), TINY)
        return float(np.max(np.abs(self.gradient), initial=0.0)) / largest


def newton(
    at: Callable[[Array], Local], step: Callable[[Array, Local], Array], start: Array
) -> Array:
    """The effects at which the gradient vanishes, from a start at which it is finite."""
    effects, here = start, at(start)
    last = np.inf
    for _ in range(MAX_STEPS):
        off = here.off
        if off <= SOLVED or (off <= NEARLY and off > 0.1 * last):
            break
        last = off
        direction = step(effects, here)
        promised = float(np.dot(here.gradient, direction))
        # Near the answer values no longer tell steps apart, but Newton's are then exact.
        noise = 1e-14 * here.summands
        length = 1.0
        while length > SHORTEST:
            check_time()
            moved = effects + length * direction
            there = at(moved)
            if there.value <= here.value + DECREASE * length * promised + noise:
                break
            length *= 0.5
        else:
            break
        still = np.all(length * np.abs(direction) <= 2.0 * EPS * np.abs(moved))
        effects, here = moved, there
        if still:
            break
    return effects
