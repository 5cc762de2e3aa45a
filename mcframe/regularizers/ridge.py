"""The squared Frobenius norm as a penalty."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Regularizer, SmoothTerm, Spectral
from mcframe.contracts.validators import positive


@stored
@attrs.frozen
class Ridge(Regularizer, Spectral, SmoothTerm):
    """``weight / 2 * ||Z||_F^2`` over every entry of the latent matrix, observed or not.

    Added to a nuclear norm it is the matrix form of the elastic net. It is smooth and
    separable, and its prox divides Z by ``1 + step * weight``. Where a model holds
    ``OnesColumn()``, Z has that column too, which adds the constant
    ``weight / 2 * n_items`` to the value.

    Parameters
    ----------
    weight : float
        Positive.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Ridge(0.5).value(np.diag([3.0, 1.0]))
    2.5
    """

    weight: float = attrs.field(validator=positive)

    threshold = 0.0  # a ridge never shrinks to exactly 0
    dual_radius = np.inf  # the conjugate is finite everywhere

    @property
    def quadratic_weight(self) -> float:  # type: ignore[override]
        """The weight: the term is exactly weight / 2 * ||Z||_F^2."""
        return self.weight

    @property
    def curvature(self) -> float:
        """The second derivative along each entry: the weight."""
        return self.weight

    def value_and_gradient(self, latent: Array) -> tuple[float, Array]:
        """The value and weight * Z."""
        return 0.5 * self.weight * float(np.vdot(latent, latent)), self.weight * latent

    def of_singular_values(self, singular_values: Array) -> float:
        """weight / 2 * sum of squares of the singular values."""
        return 0.5 * self.weight * float(np.dot(singular_values, singular_values))

    def shrink(self, singular_values: Array, step: float) -> Array:
        """s / (1 + step * weight)."""
        return singular_values / (1.0 + step * self.weight)

    def conjugate_of_singular_values(self, singular_values: Array) -> float:
        """sum of squares of the singular values / (2 weight)."""
        return float(np.dot(singular_values, singular_values)) / (2.0 * self.weight)

    def expression(self, cp: Any, latent: Any) -> Any:
        """weight / 2 * sum_squares(Z)."""
        return 0.5 * self.weight * cp.sum_squares(latent)

    def in_units(self, unit: float) -> "Ridge":
        """``weight * unit^2``."""
        return attrs.evolve(self, weight=self.weight * unit**2)

    def formula(self) -> str:
        """The text ``weight/2 ‖Z‖_F²``."""
        return f"{self.weight:g}/2 ‖Z‖_F²"
