"""Real values that are met exactly."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.likelihood import Conjugate, Likelihood, Proximable

__all__ = ["Equality"]

# How far z may lie from y, relative to max(1, |y|), and still count as equal.
ROUNDING = 1e-9


@attrs.frozen
class Equality(Likelihood, Proximable, Conjugate):
    """``l(z, y) = 0`` if ``z = y``, else inf: observed entries are interpolated exactly.

    Domain: every finite real number. With a nuclear norm this is the matrix completion of
    Candes and Recht (Found. Comput. Math. 2009), for data without noise. No floating-point
    solver meets an equality exactly: z counts as equal to y up to ``1e-9 * max(1, |y|)``. Prox,
    conjugate and CVXPY constraint are those of the exact equality. The weight of its block
    plays no part.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Equality().value(np.array([1.0, 1.1]), np.array([1.0, 1.0]))
    array([ 0., inf])
    """

    needs = "finite real numbers"
    remedy = "Replace infinities by NaN if they stand for missing values."
    symbol = "x"
    smooth = False

    @property
    def curvature(self) -> float:
        """inf: the loss jumps."""
        return np.inf

    @property
    def infimum(self) -> float:
        """0, at z = y."""
        return 0.0

    def invalid(self, y: Array) -> Mask:
        """True where y is not finite."""
        return ~np.isfinite(y)

    def value(self, z: Array, y: Array) -> Array:
        """0 where z equals y up to rounding, else inf."""
        equal = np.abs(z - y) <= ROUNDING * np.maximum(1.0, np.abs(y))
        return np.where(equal, 0.0, np.inf)

    def value_and_slope(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and 0.

        0 is one of the subgradients at z = y, where every number is one; elsewhere there is
        none, and 0 stands in for it.
        """
        return self.value(z, y), np.zeros_like(z)

    def prox(self, z: Array, y: Array, step: Array) -> Array:
        """y, whatever the step."""
        return y.copy()

    def prox_slope(self, z: Array, y: Array, step: Array) -> Array:
        """0."""
        return np.zeros_like(z)

    def conjugate(self, slope: Array, y: Array) -> Array:
        """slope * y, for every slope."""
        return slope * y

    def mean(self, z: Array) -> Array:
        """z."""
        return z.copy()

    def start(self, y: Array) -> Array:
        """y."""
        return y.copy()

    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """0, under the constraint that z = y."""
        return 0.0 * z

    def expression_constraints(self, cp: Any, z: Any, y: Array) -> list[Any]:
        """z = y."""
        return [z == y]

    def formula(self, z: str, y: str) -> str:
        """{0 if z = x, else ∞}."""
        return f"{{0 if {z} = {y}, else ∞}}"

    def latex(self, z: str, y: str) -> str:
        r"""\iota\{z = x\}, the indicator function of convex analysis."""
        return rf"\iota\{{{z} = {y}\}}"
