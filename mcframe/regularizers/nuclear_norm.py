"""The nuclear norm as a penalty."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.term import Spectral
from mcframe.contracts.validators import positive

__all__ = ["NuclearNorm"]

# A singular value may pass the weight by this relative amount, the rounding of a norm, and the
# dual point still counts as feasible.
FEASIBILITY_ROUNDING = 1e-12


@attrs.frozen
class NuclearNorm(Spectral):
    """``weight * ||Z||_*``, the sum of the singular values of the latent matrix.

    The convex envelope of the rank on the unit ball of the spectral norm (Fazel, 2002), which
    makes Z low-rank: the prox shrinks every singular value by ``step * weight``.

    Parameters
    ----------
    weight : float
        Positive. The papers write mu (Goldberg et al., Eqs. 2 and 3), lambda or tau_2. From
        the largest singular value of the gradient at Z = 0 upwards the answer is Z = 0.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.NuclearNorm(0.5).value(np.diag([3.0, 1.0]))
    2.0
    """

    weight: float = attrs.field(validator=positive)

    @property
    def threshold(self) -> float:
        """The weight: what ``shrink`` takes off per unit of step."""
        return self.weight

    def of_singular_values(self, singular_values: Array) -> float:
        """weight * sum of the singular values."""
        return self.weight * float(np.sum(singular_values))

    def shrink(self, singular_values: Array, step: float) -> Array:
        """max(s - step * weight, 0)."""
        return np.maximum(singular_values - step * self.weight, 0.0)

    def conjugate_of_singular_values(self, singular_values: Array) -> float:
        """0 where the spectral norm is at most the weight, else inf."""
        largest = float(np.max(singular_values, initial=0.0))
        return 0.0 if largest <= self.weight * (1 + FEASIBILITY_ROUNDING) else np.inf

    def expression(self, cp: Any, latent: Any) -> Any:
        """weight * normNuc(Z)."""
        return self.weight * cp.normNuc(latent)

    def formula(self) -> str:
        """weight ‖Z‖_*."""
        return f"{self.weight:g} ‖Z‖_*"

    def latex(self) -> str:
        r"""weight \lVert Z \rVert_*."""
        return rf"{self.weight:g} \lVert Z \rVert_*"
