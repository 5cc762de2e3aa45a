"""The max norm as a penalty."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Matrix
from mcframe.contracts.rounding import DUAL_ROUNDING, EPS
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Factored, Norm, Regularizer
from mcframe.contracts.validators import positive
from mcframe.numerics.charts import ScaledSpheres
from mcframe.numerics.max_norm_bounds import (
    bounding_multipliers,
    dual_max_norm_bound,
    dual_max_norm_split,
    max_norm,
    max_norm_multipliers,
    squared_row_norms,
)


@stored
@attrs.frozen
class MaxNorm(Regularizer, Factored, Norm):
    """``weight * min over Z = U V' of max over i, j of ||u_i||^2, ||v_j||^2``.

    Also called gamma_2: the largest squared row norm of the factors of Z, made as small as
    possible (Srebro and Shraibman, COLT 2005). The nuclear norm bounds the rows of U and V on
    average; the max norm bounds each of them, however many entries it has. Its proximal operator
    is known for the factors only: long rows are cut to a common length.

    Parameters
    ----------
    weight : float
        Positive.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> round(mc.MaxNorm(1.0).value(np.array([[1.0, 1.0], [1.0, -1.0]])), 6)
    1.414214
    """

    weight: float = attrs.field(validator=positive)

    def value(self, latent: Array) -> float:
        """weight * gamma_2(Z), exact to 1e-10 for up to a few hundred rows and columns."""
        return self.weight * max_norm(latent)

    def conjugate(self, dual: Array) -> float:
        """0 where a bound on the dual norm is at most the weight, else inf."""
        return self.conjugate_from(dual)

    def dual_norm(self, gradient: Matrix) -> float:
        """A bound on gamma_2*, exact for up to 400 rows and columns together."""
        return dual_max_norm_bound(gradient)

    def nearest_dual(self, dual: Array) -> Array:
        """Scaled down until its dual norm is at most the weight."""
        scale = self.feasible_scale(dual)
        return dual if scale == 1.0 else scale * dual

    @property
    def chart(self) -> ScaledSpheres:
        """Rows on spheres of one radius, which costs the weight."""
        return ScaledSpheres(self.weight)

    def of_factors(self, stacked: Array) -> float:
        """weight * max squared row norm."""
        return self.weight * float(np.max(squared_row_norms(stacked), initial=0.0))

    def prox_factors(self, stacked: Array, step: float) -> Array:
        """Rows longer than a common cap t are cut to it.

        The cap minimises weight t^2 + sum of (norm_i - t)_+^2 / (2 step). With the m longest
        rows cut, t = (sum of their norms) / (2 weight step + m); the right m gives the
        largest.
        """
        norms = np.sqrt(squared_row_norms(stacked))
        sums = np.cumsum(np.sort(norms)[::-1])
        cap = np.max(sums / (2.0 * self.weight * step + np.arange(1, norms.size + 1)))
        long = norms > cap
        return np.where(long, cap / np.where(long, norms, 1.0), 1.0)[:, None] * stacked

    def row_multipliers(self, gradient: Matrix, stacked: Array) -> Array:
        """max(0, -(G V . U)_i / ||u_i||^2), alike for V, scaled to the sum 2 weight.

        At an optimum they have that sum, or W is 0 and they are any of at most that sum:
        there those of the best bound.
        """
        multipliers = max_norm_multipliers(gradient, stacked)
        if not np.any(multipliers):
            multipliers = dual_max_norm_split(gradient)[1]
        return (
            multipliers * (2.0 * self.weight / total)
            if (total := np.sum(multipliers))
            else multipliers
        )

    def bounding_multipliers(self, gradient: Matrix, stacked: Array, allowed_gap: float) -> Array:
        """Multipliers that prove a bound for this gradient, by ascent from these factors."""
        return bounding_multipliers(gradient, stacked, allowed_gap)

    def conjugate_from(self, dual: Matrix, multipliers: Array | None = None) -> float:
        """0 where a bound on the dual norm, from the multipliers, is at most the weight, else inf.

        Without multipliers the bound finds its own.
        """
        norm = dual_max_norm_bound(dual, multipliers)
        return 0.0 if norm <= self.weight * (1.0 + DUAL_ROUNDING) else np.inf

    def feasible_scale(self, dual: Matrix, multipliers: Array | None = None) -> float:
        """The weight over a bound on the dual norm, at most 1.

        The norm of the scaled matrix is at most the weight, without the tolerance of
        ``conjugate``: the bound on the optimum would be too high by as much. It is computed at
        each scale that is tried, since it varies by its accuracy.
        """
        scale, shorter = 1.0, 0.0
        while True:
            scaled = None if multipliers is None else scale * multipliers
            norm = dual_max_norm_bound(scale * dual, scaled)
            if norm <= self.weight:
                return scale
            scale *= self.weight / norm * (1.0 - shorter)
            shorter = 2.0 * shorter + EPS  # where rounding alone is in the way

    def statement(self, cp: Any, latent: Any) -> tuple[Any, list[Any]]:
        """weight * max(diag W) with [[W1, Z], [Z', W2]] = W positive semidefinite."""
        n_rows, n_columns = latent.shape
        whole = cp.Variable((n_rows + n_columns, n_rows + n_columns), PSD=True)
        return self.weight * cp.max(cp.diag(whole)), [whole[:n_rows, n_rows:] == latent]

    def formula(self) -> str:
        """The text ``weight ‖Z‖_max``."""
        return f"{self.weight:g} ‖Z‖_max"
