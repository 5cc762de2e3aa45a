"""A loss without a slope, made smooth: what the method of multipliers minimises instead."""

from typing import Any

import attrs

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import TwiceDifferentiable

__all__ = ["Envelope"]


@attrs.frozen(eq=False)
class Envelope(TwiceDifferentiable):
    """e(z) = min over x of l(x, y) + (x - v)^2 / (2 step) at v = z + shift, entrywise.

    The Moreau envelope: convex, with the slope (v - x) / step, which is a subgradient of l at
    the minimiser x = prox(v) and so lies in the domain of its conjugate. ``step`` and
    ``shift`` have one number for each entry; it stands where a likelihood stands.
    """

    inner: Any
    step: Array
    shift: Array

    quadratic = False
    smooth = True
    convex = True
    width = 1

    @property
    def curvature(self) -> float:
        """1 / the smallest step."""
        return 1.0 / float(self.step.min())

    def nearest(self, z: Array, y: Array) -> Array:
        """The minimiser x."""
        x: Array = self.inner.prox(z + self.shift, y, self.step)
        return x

    def value_and_slope(self, z: Array, y: Array) -> tuple[Array, Array]:
        """e(z) and its slope."""
        x = self.nearest(z, y)
        away = z + self.shift - x
        slope = away / self.step
        return self.inner.value(x, y) + 0.5 * away * slope, slope

    def second_derivative(self, z: Array, y: Array) -> Array:
        """(1 - prox'(v)) / step."""
        bend: Array = (1.0 - self.inner.prox_slope(z + self.shift, y, self.step)) / self.step
        return bend
