"""A ball of the max norm."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Matrix
from mcframe.contracts.rounding import SET_ROUNDING
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Constraint, Factored
from mcframe.contracts.validators import positive
from mcframe.numerics.charts import Spheres
from mcframe.numerics.max_norm_bounds import (
    bounding_multipliers,
    dual_max_norm_bound,
    max_norm_bounds,
    max_norm_multipliers,
    max_norm_subgradient,
    squared_row_norms,
)


@stored
@attrs.frozen
class MaxNormBall(Constraint, Factored):
    """Z = U V' for some factors whose rows have squared norms of at most ``radius``.

    The ball of the max norm gamma_2 (Srebro and Shraibman, COLT 2005), a convex set: no entry
    of Z exceeds the radius in size, and a matrix of rank r whose entries do not exceed a lies
    in the ball of radius ``a * sqrt(r)``. No floating-point solver ends exactly on the
    boundary: up to ``radius * (1 + 1e-9)`` counts as inside. It has no closed projection of
    Z, but one of the factors: long rows are cut.

    Parameters
    ----------
    radius : float
        Positive; in the units of the natural parameters.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> signs = np.array([[1.0, 1.0], [1.0, -1.0]])
    >>> mc.MaxNormBall(1.42).value(signs), mc.MaxNormBall(1.41).value(signs)
    (0.0, inf)
    """

    radius: float = attrs.field(validator=positive)

    def value(self, latent: Array) -> float:
        """0 where gamma_2(Z) is at most the radius, up to rounding, else inf."""
        largest = self.radius * (1.0 + SET_ROUNDING)
        return 0.0 if max_norm_bounds(latent, largest)[1] <= largest else np.inf

    def halfspace(self, latent: Array) -> tuple[Array, float]:
        """A subgradient of gamma_2 at Z, and the radius."""
        return max_norm_subgradient(latent), self.radius

    def conjugate(self, dual: Array) -> float:
        """radius * a bound on the dual norm."""
        return self.radius * dual_max_norm_bound(dual)

    @property
    def chart(self) -> Spheres:
        """Rows on spheres of the radius."""
        return Spheres(self.radius)

    def of_factors(self, stacked: Array) -> float:
        """0 where every squared row norm is at most the radius, up to rounding, else inf."""
        longest = float(np.max(squared_row_norms(stacked), initial=0.0))
        return 0.0 if longest <= self.radius * (1.0 + SET_ROUNDING) else np.inf

    def prox_factors(self, stacked: Array, step: float) -> Array:
        """Rows longer than sqrt(radius) cut to it; the step plays no part."""
        norms = squared_row_norms(stacked)
        return np.sqrt(self.radius / np.maximum(norms, self.radius))[:, None] * stacked

    def row_multipliers(self, gradient: Matrix, stacked: Array) -> Array:
        """max(0, -(G V . U)_i / ||u_i||^2), alike for V."""
        return max_norm_multipliers(gradient, stacked)

    def bounding_multipliers(self, gradient: Matrix, stacked: Array, allowed_gap: float) -> Array:
        """Multipliers that prove a bound for this gradient, by ascent from these factors."""
        return bounding_multipliers(gradient, stacked, allowed_gap)

    def conjugate_from(self, dual: Matrix, multipliers: Array) -> float:
        """radius * the bound on the dual norm from the multipliers."""
        return self.radius * dual_max_norm_bound(dual, multipliers)

    def feasible_scale(self, dual: Matrix, multipliers: Array) -> float:
        """1: the conjugate is finite everywhere."""
        return 1.0

    def constraints(self, cp: Any, latent: Any) -> list[Any]:
        """[[W1, Z], [Z', W2]] = W positive semidefinite with diag W <= radius."""
        n_rows, n_columns = latent.shape
        whole = cp.Variable((n_rows + n_columns, n_rows + n_columns), PSD=True)
        return [whole[:n_rows, n_rows:] == latent, cp.diag(whole) <= self.radius]

    def in_units(self, unit: float) -> "MaxNormBall":
        """``radius / unit``."""
        return attrs.evolve(self, radius=self.radius / unit)

    def formula(self) -> str:
        """‖Z‖_max ≤ radius."""
        return f"‖Z‖_max ≤ {self.radius:g}"
