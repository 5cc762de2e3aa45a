"""What a kind of effects must answer, and the kind that is none."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.compile.effects.far import far_beyond
from mcframe.compile.effects.newton import Local
from mcframe.contracts.arrays import Array

__all__ = [
    "Correction",
    "Effects",
    "NoEffects",
    "Ridge",
    "conjugate_of_sums",
    "corrected",
    "imbalance_of_sums",
]

# A sum of gradients that is this small beside the sum of their sizes is rounding.
VANISHING = 1e-12
# Projections onto domains and onto vanishing sums in turn, at most.
PROJECTIONS = 50
# Predictors that move by less than this, in units of the length scale, leave second derivatives
# as they are but for a few hundredths: a Newton step's expansion is trusted so far.
CLOSE = 0.05


@attrs.frozen(eq=False)
class Ridge:
    """``weight / 2 * ||e - towards||^2`` for the effects e of a block."""

    weight: float
    towards: Array

    def value(self, effects: Array) -> float:
        """The ridge at some effects."""
        away = effects - self.towards
        return 0.5 * self.weight * float(np.dot(away, away))

    def gradient(self, effects: Array) -> Array:
        """Gradient of the ridge at the effects."""
        return self.weight * (effects - self.towards)

    def conjugate(self, sums: Array) -> tuple[float, float]:
        """Addition to F* at gradients with these sums over each effect, and its summands' size.

        The supremum over e of ``-<sums, e>`` minus the ridge.
        """
        squares = np.square(sums) / (2.0 * self.weight)
        tilts = sums * self.towards
        return float(np.sum(squares - tilts)), float(np.sum(squares + np.abs(tilts)))


@attrs.frozen(eq=False)
class Correction:
    """A Newton step of effects, and what it adds to the losses and to their gradients (flat).

    To second and to first order in the step, after which the gradients' sums vanish.
    """

    effects: Array
    value: float
    gradients: Array


class Effects(ABC):
    """Numbers e beside Z, one vector a block: F(z) = min over e of the losses at z and e.

    With a ridge the minimum includes it. ``z`` comes in the shape of the likelihood's methods,
    offsets added; gradients come flat. ``fixed`` has far values for effects whose best value is
    infinite, 0 for the others.
    """

    fixed: Array
    ridge: Ridge | None
    #: What the effects of a location are counted from, if that is not 0.
    origin: Array | float | None = None

    @property
    @abstractmethod
    def size(self) -> int:
        """The length of the vector."""

    @abstractmethod
    def solve(
        self, likelihood: Any, z: Array, y: Array, weights: Array | float, warm: Array | None
    ) -> Array | None:
        """The best effects at z; ``warm`` are those of a point nearby."""

    def correction(
        self,
        likelihood: Any,
        z: Array,
        y: Array,
        weights: Array | float,
        effects: Array,
        gradients: Array,
    ) -> Correction | None:
        """What is left to the best effects from others, at which the losses have these gradients.

        None where one Newton step does not tell it.
        """
        return None

    def begin(self, z: Array, warm: Array | None) -> Array:
        """The start of a solve: effects of a point nearby or 0, infinite ones far beyond z."""
        start = np.zeros(self.size) if warm is None else warm
        return np.where(self.fixed == 0.0, start, far_beyond(self.fixed, z))

    @abstractmethod
    def predictor(self, z: Array, effects: Array | None) -> Array:
        """z plus its effects."""

    @abstractmethod
    def sum_by_effect(self, numbers: Array) -> Array:
        """The sum of numbers of z over each effect that is added to them."""

    @abstractmethod
    def centre(self, gradient: Array) -> Array:
        """The gradient with what rounding left of the sums over free effects taken off."""

    def likelihood(self, likelihood: Any, effects: Array | None) -> Any:
        """The likelihood with its parameters, where these are what is solved for."""
        return likelihood

    @property
    def n_added(self) -> int:
        """How many of the effects are added to z."""
        return self.size

    @property
    def infinite(self) -> tuple[int, ...]:
        """The places of infinite effects."""
        return tuple(np.flatnonzero(self.fixed).tolist())

    @property
    def stiffness(self) -> float:
        """The ridge's weight, 0 without one."""
        return 0.0 if self.ridge is None else self.ridge.weight

    def local(self, values: Array, gradients: Array, effects: Array, free: Any) -> Local:
        """Value, gradient and sizes in the effects, from those of the entries, with the ridge.

        The gradient is 0 where an effect is not ``free``.
        """
        gradient, sizes = self.sum_by_effect(gradients), self.sum_by_effect(np.abs(gradients))
        total = float(np.sum(values))
        if self.ridge is not None:
            pull = self.ridge.gradient(effects)
            gradient, sizes = gradient + pull, sizes + np.abs(pull)
            total += self.ridge.value(effects)
        return Local(total, np.where(free, gradient, 0.0), sizes, float(np.sum(np.abs(values))))

    def cost(self, effects: Array | None) -> float:
        """The ridge at the effects, 0 without one."""
        return 0.0 if self.ridge is None or effects is None else self.ridge.value(effects)

    def conjugate(self, gradient: Array, pull: float) -> tuple[float, float]:
        """What they add to F* at a gradient, and the size of the summands.

        The ridge's conjugate; without one infinite where sums over a free effect do not vanish.
        ``pull`` is the largest gradient at z = 0, beside which what is left of a sum may be
        rounding.
        """
        sizes = np.zeros(0) if self.ridge is not None else self.sum_by_effect(np.abs(gradient))
        return conjugate_of_sums(self.ridge, self.sum_by_effect(gradient), sizes, pull)

    def imbalance(self, gradient: Array, effects: Array | None) -> float:
        """What sums over free effects that do not quite vanish are worth at these effects."""
        if self.ridge is not None or effects is None:
            return 0.0
        return imbalance_of_sums(self.fixed, self.sum_by_effect(gradient), effects)

    def nearest_dual(self, gradient: Array, nearest: Callable[[Array], Array]) -> Array:
        """Near gradients at which F* is finite; ``nearest`` moves them into their domains.

        By projections in turn.
        """
        inside = nearest(gradient)
        for _ in range(PROJECTIONS):
            if np.array_equal(inside, gradient) or np.isfinite(self.conjugate(inside, 0.0)[0]):
                break
            gradient = self.centre(inside)
            inside = nearest(gradient)
        return inside


@attrs.frozen(eq=False)
class NoEffects(Effects):
    """Nothing is free beside Z."""

    fixed: Array = attrs.field(factory=lambda: np.zeros(0))
    ridge: None = None

    size = 0

    def solve(
        self, likelihood: Any, z: Array, y: Array, weights: Array | float, warm: Array | None
    ) -> None:
        """None: there are no effects to solve for."""

    def predictor(self, z: Array, effects: Array | None) -> Array:
        """z."""
        return z

    def sum_by_effect(self, numbers: Array) -> Array:
        """An empty array: there are no effects."""
        return np.zeros(0)

    def centre(self, gradient: Array) -> Array:
        """The gradient as it is: no effects restrict it."""
        return gradient


def imbalance_of_sums(fixed: Array, sums: Array, effects: Array) -> float:
    """What sums over free effects that do not quite vanish are worth at these effects."""
    known = np.where(fixed == 0.0, np.abs(effects), 0.0)
    return float(np.abs(sums) @ known[: sums.size])


def conjugate_of_sums(
    ridge: Ridge | None, sums: Array, sizes: Array, pull: float
) -> tuple[float, float]:
    """What effects add to F* at gradients with these sums over each, and sums of their sizes."""
    if ridge is not None:
        return ridge.conjugate(sums)
    size = max(float(np.max(sizes, initial=0.0)), pull)
    return (0.0 if bool(np.all(np.abs(sums) <= VANISHING * size)) else np.inf), 0.0


def corrected(
    likelihood: Any, effects: Array, gradient: Array, step: Array, moved: Array, bent: Array
) -> Correction | None:
    """The correction by a Newton step that moves predictors; None where it goes too far to tell.

    ``bent`` are the moves times the losses' second derivatives, by which gradients change.
    """
    longest = float(np.max(np.abs(moved), initial=0.0))
    if not (likelihood.quadratic or longest <= CLOSE * likelihood.length_scale):
        return None
    value = 0.5 * float(np.dot(gradient, step))
    return Correction(effects + step, value, bent.ravel()) if np.isfinite(value) else None
