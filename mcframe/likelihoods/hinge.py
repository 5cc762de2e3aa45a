"""Yes/no labels by a margin."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Conjugate, LabelLoss, Proximable
from mcframe.contracts.stored_classes import stored


@stored
@attrs.frozen
class Hinge(LabelLoss, Proximable, Conjugate):
    """``l(z, y) = max(0, 1 - s z)`` with ``s = 2 y - 1``: the loss of support vectors.

    Domain: y in {0, 1}. Entries on the right side of the margin, ``s z >= 1``, cost nothing
    (Cortes and Vapnik, Machine Learning 1995; for matrices Srebro, Rennie and Jaakkola, NIPS
    2004). It gives no probabilities: ``predict`` gives the label on whose side z lies. It has a
    kink at s z = 1, so backends use its proximal operator; the gradient reported there is 0.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Hinge().value(np.array([0.5, 0.5, 2.0]), np.array([1.0, 0.0, 1.0]))
    array([0.5, 1.5, 0. ])
    """

    z_name = "a score that is above 0 for labels of 1"
    smooth = False
    curvature = np.inf  # at the kink

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """The loss and the gradient -s short of the margin, 0 from there on."""
        sign = 2.0 * y - 1.0
        short = 1.0 - sign * z
        return np.maximum(short, 0.0), np.where(short > 0.0, -sign, 0.0)

    def prox(self, z: Array, y: Array, step: Array) -> Array:
        """z moved by step towards the margin s z = 1 from the wrong side; never past."""
        sign = 2.0 * y - 1.0
        margin = sign * z
        return np.where(margin >= 1.0, z, sign * np.minimum(margin + step, 1.0))

    def prox_gradient(self, z: Array, y: Array, step: Array) -> Array:
        """0 where the prox lies on the margin, else 1."""
        margin = (2.0 * y - 1.0) * z
        return np.where((margin <= 1.0) & (margin >= 1.0 - step), 0.0, 1.0)

    def conjugate(self, gradient: Array, y: Array) -> Array:
        """s * gradient for s * gradient in [-1, 0], else inf."""
        pull = (2.0 * y - 1.0) * gradient
        inside = (pull >= -1.0 - 1e-14) & (pull <= 1e-14)
        return np.where(inside, pull, np.inf)

    def nearest_gradient(self, gradient: Array, y: Array) -> Array:
        """s * gradient clipped to [-1, 0]."""
        sign = 2.0 * y - 1.0
        return sign * np.clip(sign * gradient, -1.0, 0.0)

    def mean(self, z: Array) -> Array:
        """The label that z points to: 1 above 0, 0 below, and 1/2 at 0."""
        return np.heaviside(z, 0.5)

    def filling(self, z: Array) -> Array:
        """The label that z points to, 0 at 0."""
        return np.heaviside(z, 0.0)

    def start(self, y: Array) -> Array:
        """2 y - 1, on the margin."""
        return 2.0 * y - 1.0

    def expression(self, cp: Any, z: Any, y: Array) -> Any:
        """pos(1 - s z)."""
        return cp.pos(1.0 - cp.multiply(2.0 * y - 1.0, z))

    def formula(self, z: str, y: str) -> str:
        """max(0, 1 − s z)."""
        return f"max(0, 1 − (2{y} − 1)({z}))"
