"""Limited-memory BFGS, a step at a time."""

from collections import deque
from collections.abc import Callable

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import SUM_ROUNDING, TINY
from mcframe.contracts.stored_classes import stored
from mcframe.runtime.machine import check_time

#: A point with the function's value and gradient there.
Visited = tuple[Array, float, Array]

# Armijo's and Wolfe's constants, and how often a step is halved or doubled.
ARMIJO, WOLFE, MOST_TRIALS = 1e-4, 0.9, 30
# The length of the first step relative to that of the point, where no curvature is known.
FIRST_STEP = 0.1


@stored
@attrs.define(eq=False)
class Memory:
    """The last moves and changes of gradient: an estimate of the inverse Hessian.

    Nocedal and Wright, Numerical Optimization (2006), Algorithm 7.4.
    """

    pairs: deque[tuple[Array, Array, float]] = attrs.field(factory=lambda: deque(maxlen=20))
    scale: float = np.inf  # of the inverse Hessian, by the last move

    def clear(self) -> None:
        """Forget the moves, and their scale where there were none left."""
        if not self.pairs:
            self.scale = np.inf
        self.pairs.clear()

    def forget(self) -> None:
        """Forget the moves and their scale."""
        self.pairs.clear()
        self.scale = np.inf

    def first(self, length: float) -> float:
        """The first step to try: 1 along a direction made of moves.

        Without moves the direction is the steepest one. Then the step that would go so far, or
        that the last curvature seen asks for, if it is shorter.
        """
        return 1.0 if self.pairs else min(length, self.scale)

    def add(self, move: Array, change: Array) -> None:
        """Remember a move, unless the gradient did not rise along it."""
        product, squares = float(np.dot(move, change)), float(np.dot(change, change))
        risen = product > 1e-14 * float(np.linalg.norm(move) * np.linalg.norm(change))
        if risen and min(product, squares) > TINY:
            self.pairs.append((move, change, 1.0 / product))
            self.scale = product / squares

    def direction(self, gradient: Array) -> Array:
        """-H^-1 g by the two-loop recursion."""
        vector = -gradient
        shares = []
        for move, change, inverse in reversed(self.pairs):
            share = inverse * float(np.dot(move, vector))
            vector = vector - share * change
            shares.append(share)
        if self.pairs:
            vector = vector * self.scale
        for (move, change, inverse), share in zip(self.pairs, reversed(shares), strict=True):
            vector = vector + (share - inverse * float(np.dot(change, vector))) * move
        return vector


def wolfe_step(
    try_at: Callable[[float], tuple[float, float]], value: float, derivative: float, first: float
) -> float:
    """A step length with enough decrease and a flatter derivative, by bisection and doubling.

    The weak Wolfe conditions (Lewis and Overton, Math. Programming 2013), which hold for
    functions with kinks too. ``try_at(t)`` gives value and derivative along the direction. 0 if no
    step decreases the value. Where values differ by rounding alone the derivatives decide (Hager
    and Zhang's approximate conditions, SIAM J. Optim. 2005).
    """
    rounding = SUM_ROUNDING * abs(value)
    low, high, step = 0.0, np.inf, first
    best = 0.0
    for _ in range(MOST_TRIALS):
        check_time()
        value_there, derivative_there = try_at(step)
        enough = value_there <= value + ARMIJO * step * derivative
        level = (
            value_there <= value + rounding
            and derivative_there <= (2.0 * ARMIJO - 1.0) * derivative
        )
        if not (enough or level):
            high = step
        else:
            best = step
            if derivative_there >= WOLFE * derivative:
                return step
            low = step
        step = 2.0 * step if np.isinf(high) else 0.5 * (low + high)
    return best


def quasi_newton_step(
    value_and_gradient: Callable[[Array], tuple[float, Array]],
    memory: Memory,
    begin: Visited,
    farthest: float,
) -> Visited | None:
    """One step down from a point, remembered; None where nothing descends.

    The last moves are then forgotten, and the function was not asked at the point again.
    ``farthest`` is the length of a first step relative to that of the point.
    """
    point, value, gradient = begin
    direction = memory.direction(gradient)
    derivative = float(np.dot(gradient, direction))
    if not derivative < 0.0:
        memory.forget()
        direction, derivative = -gradient, -float(np.dot(gradient, gradient))
    if derivative == 0.0:
        return None
    lengths = float(np.linalg.norm(point)), float(np.linalg.norm(direction))
    seen, last = np.nan, begin  # the step where the function was last asked, and what it said

    def along(step: float) -> tuple[float, float]:
        nonlocal seen, last
        if step != seen:
            candidate = point + step * direction
            seen, last = step, (candidate, *value_and_gradient(candidate))
        return last[1], float(np.dot(last[2], direction))

    first = memory.first(farthest * lengths[0] / max(lengths[1], TINY))
    step = wolfe_step(along, value, derivative, first)
    if step == 0.0:
        memory.clear()
        return None
    along(step)
    memory.add(last[0] - point, last[2] - gradient)
    return last


def descent(
    value_and_gradient: Callable[[Array], tuple[float, Array]], begin: Array, steps: int
) -> Array:
    """So many quasi-Newton steps of a smooth function, fewer where none descends."""
    memory, at = Memory(), (begin, *value_and_gradient(begin))
    for _ in range(steps):
        after = quasi_newton_step(value_and_gradient, memory, at, FIRST_STEP)
        if after is None:
            break
        at = after
    return at[0]
