"""Real values with outliers."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.likelihood import Conjugate, Likelihood, TwiceDifferentiable
from mcframe.contracts.validators import LARGEST, LEAST, moderate

__all__ = ["Huber"]


@attrs.frozen
class Huber(Likelihood, Conjugate, TwiceDifferentiable):
    """``l(z, y) = r^2 / 2`` for ``|r| <= delta``, else ``delta (|r| - delta / 2)``; r = z - y.

    Domain: every finite real number. The squared loss in the middle and the absolute loss in
    the tails, so that an outlier pulls with force delta at most (Huber, Ann. Math. Statist.
    1964). Half of CVXPY's ``huber``. As location z is predicted; there is no distribution to
    sample from.

    Parameters
    ----------
    delta : float, default 1
        Positive, from 1e-150 to 1e150; in the units of the data, about the size of an ordinary
        residual.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Huber(1.0).value(np.array([0.5, 3.0]), np.array([0.0, 0.0]))
    array([0.125, 2.5  ])
    """

    delta: float = attrs.field(default=1.0, validator=moderate)

    needs = "finite real numbers"
    remedy = "Replace infinities by NaN if they stand for missing values."
    symbol = "x"
    location = True

    def in_units(self, unit: float) -> "tuple[Huber, float] | None":
        """The loss with ``delta / unit``, times unit^2; None for a delta out of range."""
        delta = self.delta / unit
        if not LEAST <= delta <= LARGEST:
            return None
        return attrs.evolve(self, delta=delta), unit * unit

    @property
    def curvature(self) -> float:
        """1, for small residuals."""
        return 1.0

    @property
    def length_scale(self) -> float:
        """Delta: the curvature jumps from 1 to 0 there, whatever its size."""
        return self.delta

    @property
    def infimum(self) -> float:
        """0, at z = y."""
        return 0.0

    def invalid(self, y: Array) -> Mask:
        """True where y is not finite."""
        return ~np.isfinite(y)

    def value(self, z: Array, y: Array) -> Array:
        """r^2 / 2 or delta (|r| - delta / 2)."""
        return self.value_and_gradient(z, y)[0]

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and its gradient, r clipped to [-delta, delta]."""
        residual = z - y
        gradient = np.clip(residual, -self.delta, self.delta)
        # One formula for both pieces: s (r - s / 2) with s the clipped residual.
        return gradient * (residual - 0.5 * gradient), gradient

    def second_derivative(self, z: Array, y: Array) -> Array:
        """1 in the middle, 0 in the tails."""
        return (np.abs(z - y) <= self.delta).astype(np.float64)

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """gradient * y + gradient^2 / 2 for |gradient| <= delta, else inf."""
        inside = np.abs(gradient) <= self.delta * (1.0 + 1e-14)
        return np.where(inside, gradient * (y + 0.5 * gradient), np.inf)

    def mean(self, z: Array) -> Array:
        """z."""
        return z.copy()

    def start(self, y: Array) -> Array:
        """y."""
        return y.copy()

    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """huber(z - y, delta) / 2."""
        return 0.5 * cp.huber(z - y, self.delta)

    def formula(self, z: str, y: str) -> str:
        """huber(z − x; delta)."""
        return f"huber({z} − {y}; {self.delta:g})"

    def latex(self, z: str, y: str) -> str:
        r"""h_{\delta}(z - x)."""
        return rf"h_{{{self.delta:g}}}({z} - {y})"
