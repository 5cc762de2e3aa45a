"""A loss of labels, tilted by a multiple of the difference between its two labels."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS


@attrs.frozen(eq=False)
class TiltedLoss:
    """``w l(z, b) + t d(z)`` with ``d(z) = l(z, 1) - l(z, 0)``, entry by entry.

    Parameters
    ----------
    likelihood : a ``LinearDifference`` that is ``Conjugate`` and ``TwiceDifferentiable``
        l.
    base, weight, tilt : arrays of one shape
        b in {0, 1}, w >= 0 and t of each entry; t = 0 wherever w = 0.
    """

    likelihood: Any
    base: Array
    weight: Array
    tilt: Array

    def value_and_gradient(self, z: Array) -> tuple[Array, Array]:
        """The loss and its gradient."""
        value, gradient = self.likelihood.value_and_gradient(z, self.base)
        difference, rise = self.difference(z)
        return (
            self.weight * value + self.tilt * difference,
            self.weight * gradient + self.tilt * rise,
        )

    def difference(self, z: Array) -> tuple[Array, Array]:
        """d(z) and its gradient."""
        line = self.likelihood.label_difference
        if line is not None:
            return line[0] * z + line[1], np.full_like(z, line[0])
        one, zero = (
            self.likelihood.value_and_gradient(z, np.full_like(z, label)) for label in (1.0, 0.0)
        )
        return one[0] - zero[0], one[1] - zero[1]

    def second_derivative(self, z: Array) -> Array:
        """w l''(z, b), and t d''(z) where d is no line."""
        second: Array = self.weight * self.likelihood.second_derivative(z, self.base)
        if self.likelihood.label_difference is not None:
            return second
        one, zero = (
            self.likelihood.second_derivative(z, np.full_like(z, label)) for label in (1.0, 0.0)
        )
        return second + self.tilt * (one - zero)

    @property
    def curvature(self) -> float:
        """The supremum of the second derivative, for a line d."""
        return float(np.max(self.weight)) * float(self.likelihood.curvature)

    @property
    def quadratic(self) -> tuple[float, float, float] | None:
        """(c, m, e) where all entries cost c/2 (z - m)^2 + e, else None."""
        if not self.likelihood.quadratic or self.base.size != 1 or self.curvature <= 0.0:
            return None
        value, gradient = self.value_and_gradient(np.zeros(1))
        centre = -float(gradient[0]) / self.curvature
        return self.curvature, centre, float(value[0]) - 0.5 * self.curvature * centre**2

    @property
    def tilt_gradient(self) -> Array:
        """The gradient of t d(z) for a line d, or for t = 0."""
        line = self.likelihood.label_difference
        return self.tilt * (line[0] if line is not None else 0.0)

    @property
    def tilt_constant(self) -> Array:
        """t d(0), likewise."""
        line = self.likelihood.label_difference
        return self.tilt * (line[1] if line is not None else 0.0)

    def untilt(self, gradient: Array) -> Array:
        """The gradient that l(., b) must have for the whole to have this one; 0 where w = 0."""
        counts = self.weight > 0.0
        return np.where(counts, gradient - self.tilt_gradient, 0.0) / np.where(
            counts, self.weight, 1.0
        )

    def conjugate(self, gradient: Array) -> Array:
        """w l*((gradient - t d') / w, b) - t d(0), for a line d."""
        inner = self.untilt(gradient)
        near = self.likelihood.nearest_gradient(inner, self.base)
        # Taking t d' off rounds: a gradient on the boundary of the domain must stay on it.
        rounding = 8.0 * EPS * (np.abs(gradient) + np.abs(self.tilt_gradient))
        inner = np.where(self.weight * np.abs(inner - near) <= rounding, near, inner)
        conjugate = self.weight * self.likelihood.conjugate(inner, self.base)
        conjugate = conjugate - self.tilt_constant
        return np.where((self.weight > 0.0) | (gradient == 0.0), conjugate, np.inf)

    def nearest_gradient(self, gradient: Array) -> Array:
        """The nearest gradients with a finite conjugate, for a line d."""
        inner = self.untilt(gradient)
        near = self.likelihood.nearest_gradient(inner, self.base)
        # What lies inside stays as it is, to the last digit.
        inside = (near == inner) & (self.weight > 0.0)
        return np.where(inside, gradient, self.weight * near + self.tilt_gradient)

    def statement(self, cp: Any, z: Any) -> tuple[Any, list[Any]]:
        """w l(z, b) + t d' z + t d(0), for a line d: convex by the rules, as w >= 0."""
        loss, constraints = self.likelihood.statement(cp, z, self.base)
        line = cp.multiply(self.tilt_gradient, z) + self.tilt_constant
        return cp.multiply(self.weight, loss) + line, constraints
