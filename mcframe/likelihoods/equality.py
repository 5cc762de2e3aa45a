"""Real values that are met exactly."""

from typing import Any

import attrs
import numpy as np
from attrs.validators import optional

from mcframe.contracts.arrays import Array, Shape
from mcframe.contracts.likelihood import Conjugate, Proximable, RealValueLoss
from mcframe.contracts.rounding import SET_ROUNDING
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import at_least_0


@stored
@attrs.frozen
class Equality(RealValueLoss, Proximable, Conjugate):
    """``l(z, y) = 0`` if ``z = y``, else inf: observed entries are interpolated exactly.

    Domain: every finite real number. With a nuclear norm this is the matrix completion of
    Candes and Recht (Found. Comput. Math. 2009), for data without noise. No floating-point
    solver meets an equality exactly: z counts as equal to y up to ``1e-9 * max(size, |y|)``. Prox,
    conjugate and CVXPY constraint are those of the exact equality. The weight of its block
    has no effect.

    Parameters
    ----------
    size : float, optional
        At least 0; the size of the values, in their units. By default the largest value of
        the block after centring; if that is 0, the size of the predictors of the other blocks;
        without data 1.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Equality().value(np.array([1.0, 1.1]), np.array([1.0, 1.0]))
    array([ 0., inf])
    """

    size: float | None = attrs.field(default=None, validator=optional(at_least_0))

    indicator = True
    smooth = False
    curvature = np.inf  # the loss jumps

    def in_units(self, unit: float) -> "tuple[Equality, float]":
        """The equality with ``size / unit``, and the factor 1."""
        return attrs.evolve(self, size=None if self.size is None else self.size / unit), 1.0

    def bound_to(self, shape: Shape, values: Array) -> "Equality":
        """The equality with the size of these values, where it is not given."""
        if self.size is not None:
            return self
        return attrs.evolve(self, size=float(np.max(np.abs(values), initial=0.0)))

    def value(self, z: Array, y: Array) -> Array:
        """0 where z equals y up to rounding, else inf."""
        return np.where(np.abs(z - y) <= self.feasibility_tolerance(y), 0.0, np.inf)

    def feasibility_tolerance(self, y: Array) -> Array:
        """1e-9 of the size of the values."""
        size = 1.0 if self.size is None else self.size
        return SET_ROUNDING * np.maximum(size, np.abs(y))

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and 0.

        0 is one of the subgradients at z = y, where every number is one; elsewhere there is
        none, and 0 stands in for it.
        """
        return self.value(z, y), np.zeros_like(z)

    def prox(self, z: Array, y: Array, step: Array) -> Array:
        """y, whatever the step."""
        return y.copy()

    def prox_gradient(self, z: Array, y: Array, step: Array) -> Array:
        """0."""
        return np.zeros_like(z)

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """gradient * y, for every gradient."""
        return gradient * y

    def statement(self, cp: Any, z: Any, y: Array, **_: Any) -> tuple[Any, list[Any]]:
        """0, under the constraint that z = y."""
        return 0.0 * z, [z == y]

    def formula(self, z: str, y: str) -> str:
        """{0 if z = x, else ∞}."""
        return f"{{0 if {z} = {y}, else ∞}}"
