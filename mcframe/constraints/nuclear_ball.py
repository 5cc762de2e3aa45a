"""A ball of the nuclear norm."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Matrix, svd
from mcframe.contracts.rounding import EPS, SET_ROUNDING
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Constraint, Factored, Spectral
from mcframe.contracts.validators import positive, share
from mcframe.numerics.charts import OneSphere
from mcframe.numerics.norms import spectral_bound


@stored
@attrs.frozen
class NuclearBall(Constraint, Spectral, Factored):
    """``||Z||_* <= radius``: the sum of the singular values of the latent matrix is bounded.

    The same models as ``NuclearNorm``, with a bound on the size of Z instead of a penalty.
    No floating-point solver ends exactly on the boundary: Z counts as inside up to
    ``radius * (1 + 1e-9)``. The prox projects the singular values onto the l1 ball (Duchi et
    al., ICML 2008). Of factors Z = U V' it is ``||U||_F^2 + ||V||_F^2 <= 2 radius``.

    Parameters
    ----------
    radius : float
        Positive; in the units of the natural parameters. A matrix of entries of size a has a
        nuclear norm of at least ``a * sqrt(n_items * n_columns)``.
    count_share : float, default 0
        Above 0 the set is ``||R Z C||_* <= radius``: see ``NuclearNorm``.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.NuclearBall(4.0).value(np.diag([3.0, 1.0]))
    0.0
    >>> mc.NuclearBall(2.0).shrink(np.array([3.0, 2.0, 0.5]), step=1.0)
    array([1.5, 0.5, 0. ])
    """

    radius: float = attrs.field(validator=positive)
    count_share: float = attrs.field(default=0.0, validator=share, kw_only=True)

    @property
    def largest_sum(self) -> float:
        """The radius of the ball."""
        return self.radius

    threshold = 0.0  # what is taken off depends on all singular values together
    dual_radius = np.inf  # the conjugate is finite everywhere

    def halfspace(self, latent: Array) -> tuple[Array, float]:
        """U V' of the singular vectors of Z, and the radius."""
        left, values, right = svd(latent)
        kept = values > EPS * max(latent.shape) * np.max(values, initial=0.0)
        return left[:, kept] @ right[kept], self.radius

    def of_singular_values(self, singular_values: Array) -> float:
        """0 where they sum to at most the radius, up to rounding, else inf."""
        inside = float(np.sum(singular_values)) <= self.radius * (1.0 + SET_ROUNDING)
        return 0.0 if inside else np.inf

    def shrink(self, singular_values: Array, step: float) -> Array:
        """max(s - t, 0) with the least t >= 0 at which they sum to the radius, for any step."""
        sums = np.cumsum(np.sort(singular_values)[::-1])
        if sums.size == 0 or sums[-1] <= self.radius:
            return singular_values.copy()
        # With the k largest kept, t = (their sum - radius) / k; the right k gives the largest.
        k = int(np.argmax((sums - self.radius) / np.arange(1, sums.size + 1))) + 1
        # Their mean is taken off first: a small radius would be lost to rounding in large values.
        shrunk = np.maximum((singular_values - sums[k - 1] / k) + self.radius / k, 0.0)
        return shrunk * min(1.0, self.radius / float(np.sum(shrunk)))

    def conjugate_of_singular_values(self, singular_values: Array) -> float:
        """radius * the largest."""
        return self.radius * float(np.max(singular_values, initial=0.0))

    @property
    def chart(self) -> OneSphere:
        """One sphere around all factors."""
        return OneSphere(2.0 * self.radius)

    def of_factors(self, stacked: Array) -> float:
        """0 where ||W||_F^2 is at most 2 radius, up to rounding, else inf."""
        inside = 0.5 * float(np.vdot(stacked, stacked)) <= self.radius * (1.0 + SET_ROUNDING)
        return 0.0 if inside else np.inf

    def prox_factors(self, stacked: Array, step: float) -> Array:
        """W, scaled to ||W||_F^2 = 2 radius where it is longer; the step plays no part."""
        squared = float(np.vdot(stacked, stacked))
        return (
            stacked * np.sqrt(min(1.0, 2.0 * self.radius / squared)) if squared else stacked.copy()
        )

    def row_multipliers(self, gradient: Matrix, stacked: Array) -> Array:
        """One number for all rows: max(0, -2 <G, U V'> / ||W||_F^2), as W'(D + ..)W = 0 has it."""
        n_rows = gradient.shape[0]
        squared = float(np.vdot(stacked, stacked))
        product = float(np.vdot(gradient @ stacked[n_rows:], stacked[:n_rows]))
        common = max(0.0, -2.0 * product / squared) if squared else 0.0
        return np.full(stacked.shape[0], common)

    def conjugate_from(self, dual: Matrix, multipliers: Array) -> float:
        """radius * a bound on the spectral norm, which needs no multipliers."""
        return self.radius * spectral_bound(dual)

    def feasible_scale(self, dual: Matrix, multipliers: Array) -> float:
        """1: the conjugate is finite everywhere."""
        return 1.0

    def constraints(self, cp: Any, latent: Any) -> list[Any]:
        """normNuc(Z) <= radius."""
        return [cp.normNuc(latent) <= self.radius]

    def in_units(self, unit: float) -> "NuclearBall":
        """``radius / unit``."""
        return attrs.evolve(self, radius=self.radius / unit)

    def formula(self) -> str:
        """‖Z‖_* ≤ radius."""
        return f"‖{'R Z C' if self.count_share else 'Z'}‖_* ≤ {self.radius:g}"
