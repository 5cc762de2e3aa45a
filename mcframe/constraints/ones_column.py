"""One more column of Z, fixed to 1."""

import math
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import SET_ROUNDING
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Constraint, Prox


@stored
@attrs.frozen
class OnesColumn(Constraint, Prox):
    """Z gets one more column, to the right of all blocks, and that column is 1.

    The column stands inside the regularizers, so a common offset of items costs no rank of
    its own: the intercept of Goldberg et al. (2010), Eq. 3, "MC-1". A block then needs no
    free ``bias``.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.OnesColumn().prox(np.array([[5.0, 3.0]]), step=1.0)
    (array([[5., 1.]]), 0.0)
    """

    extra_columns = 1
    fixed = 1.0

    def value(self, latent: Array) -> float:
        """0 where the last column is 1 up to 1e-9, as a product of factors may be, else inf."""
        return 0.0 if bool(np.all(np.abs(latent[:, -1] - 1.0) <= SET_ROUNDING)) else np.inf

    def conjugate(self, dual: Array) -> float:
        """The sum of the dual's last column where all others are 0, else inf."""
        return math.fsum(dual[:, -1]) if not np.any(dual[:, :-1]) else np.inf

    def feasibility_tolerance(self, dual: Array, length: float) -> float:
        """1e-9 for each entry, times its dual."""
        return SET_ROUNDING * float(np.sum(np.abs(dual)))

    def nearest_dual(self, dual: Array) -> Array:
        """Only the last column kept."""
        kept = np.zeros_like(dual)
        kept[:, -1] = dual[:, -1]
        return kept

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """The projection: the last column overwritten by 1; the step plays no part."""
        projected = latent.copy()
        projected[:, -1] = 1.0
        return projected, 0.0

    def constraints(self, cp: Any, latent: Any) -> list[Any]:
        """Z[:, -1] == 1."""
        return [latent[:, -1] == 1.0]

    def formula(self) -> str:
        """The constraint as plain text."""
        return "the last column of Z is 1"
