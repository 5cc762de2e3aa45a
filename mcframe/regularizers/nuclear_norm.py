"""The nuclear norm as a penalty."""

from typing import Any

import attrs
import numpy as np
from attrs.validators import optional

from mcframe.contracts.arrays import Array, Matrix
from mcframe.contracts.errors import ModelError
from mcframe.contracts.rounding import DUAL_ROUNDING
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Factored, Norm, PriorOfFactors, Regularizer, Spectral
from mcframe.contracts.validators import positive, share
from mcframe.contracts.wording import wording
from mcframe.numerics.charts import Flat
from mcframe.numerics.norms import spectral_bound


@stored
@attrs.frozen
class NuclearNorm(Regularizer, Spectral, Factored, Norm, PriorOfFactors):
    """``weight * ||Z||_*``, the sum of the singular values of the latent matrix.

    The convex envelope of the rank on the unit ball of the spectral norm (Fazel, 2002), which
    makes Z low-rank: the prox shrinks every singular value by ``step * weight``. Of factors
    Z = U V' it is the least ``weight / 2 * (||U||_F^2 + ||V||_F^2)``.

    Parameters
    ----------
    weight : float, optional
        Positive. Without a weight ``mc.posterior`` learns one precision for each factor;
        ``mc.fit`` needs a weight. The papers write mu (Goldberg et al., Eqs. 2 and 3), lambda or
        tau_2. If it is at least the largest singular value of the gradient at Z = 0, the answer
        is Z = 0.
    count_share : float, default 0
        From 0 to below 1. Above 0 it is ``weight * ||R Z C||_*`` with diagonal R and C, the
        nuclear norm weighted by how much of each row and column is observed:
        ``R_ii^2 = 1 - count_share + count_share * n_i / mean(n)``, n_i the number of losses in
        row i of Z over all blocks (unlabeled cells have one), and C_jj alike of columns; a column
        that ``OnesColumn`` adds has C_jj = 1. Rows and columns with many entries are penalised
        more than under the plain norm, those with few less. With factors it is a ridge on each
        entry rather than on each row. Salakhutdinov and Srebro (2010) take 1; Foygel,
        Salakhutdinov, Shamir and Srebro (2011) take 0.5. The counts are those of the data that
        are fitted: of training entries in ``cross_validate``, of all partitions together; a new
        row has its own. Methods of the term get R Z C instead of Z.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.NuclearNorm(0.5).value(np.diag([3.0, 1.0]))
    2.0
    """

    weight: Any = attrs.field(default=None, validator=optional(positive))  # a float or None
    count_share: float = attrs.field(default=0.0, validator=share, kw_only=True)

    @property
    def is_given(self) -> bool:
        """True if there is a weight."""
        return self.weight is not None

    @property
    def why_no_optimum(self) -> str | None:  # type: ignore[override]
        """The weight, where it is to be learned."""
        if self.is_given:
            return None
        verb = wording().either(python="mc.posterior", command="--method posterior")
        others = wording().either(
            python=", from which mc.path and mc.cross_validate find others", command=""
        )
        return (
            f"{wording().word(self.word)} has no weight: {verb} learns it, and an optimum needs"
            f" one, such as {wording().word(self.word, weight=1.0)}{others}"
        )

    @property
    def linear_weight(self) -> float | None:
        """The weight, which is the factor of the sum of singular values."""
        return None if self.weight is None else float(self.weight)

    @property
    def threshold(self) -> float:
        """The weight: what ``shrink`` takes off per unit of step."""
        if not self.is_given:
            raise ModelError(self.why_no_optimum)
        return self.weight

    @property
    def dual_radius(self) -> float:
        """The weight: the dual ball is that of the spectral norm."""
        return self.threshold

    def dual_norm(self, gradient: Matrix) -> float:
        """The spectral norm."""
        return spectral_bound(gradient)

    def of_singular_values(self, singular_values: Array) -> float:
        """weight * sum of the singular values."""
        return self.threshold * float(np.sum(singular_values))

    def shrink(self, singular_values: Array, step: float) -> Array:
        """max(s - step * weight, 0)."""
        return np.maximum(singular_values - step * self.threshold, 0.0)

    def conjugate_of_singular_values(self, singular_values: Array) -> float:
        """0 where the spectral norm is at most the weight, else inf."""
        largest = float(np.max(singular_values, initial=0.0))
        return 0.0 if largest <= self.threshold * (1 + DUAL_ROUNDING) else np.inf

    def nearest_dual(self, dual: Array) -> Array:
        """Scaled down until its spectral norm is at most the weight."""
        scale = self.feasible_scale(dual)
        return dual if scale == 1.0 else scale * dual

    @property
    def chart(self) -> Flat:
        """All factors, at the cost weight / 2 ||W||_F^2."""
        return Flat(self.threshold)

    def of_factors(self, stacked: Array) -> float:
        """weight / 2 * ||W||_F^2."""
        return 0.5 * self.threshold * float(np.vdot(stacked, stacked))

    def prox_factors(self, stacked: Array, step: float) -> Array:
        """W / (1 + step * weight)."""
        return stacked / (1.0 + step * self.threshold)

    def row_multipliers(self, gradient: Matrix, stacked: Array) -> Array:
        """The weight, for every row."""
        return np.full(stacked.shape[0], self.threshold)

    def conjugate_from(self, dual: Matrix, multipliers: Array) -> float:
        """0 where a bound on the spectral norm is at most the weight, else inf."""
        largest = spectral_bound(dual)
        return self.conjugate_of_singular_values(np.array([largest]))

    def feasible_scale(self, dual: Matrix, multipliers: Array | None = None) -> float:
        """The weight over a bound on the spectral norm, at most 1; no multipliers are needed."""
        norm = spectral_bound(dual)
        return 1.0 if norm <= self.threshold else self.threshold / norm

    def expression(self, cp: Any, latent: Any) -> Any:
        """weight * normNuc(Z)."""
        return self.threshold * cp.normNuc(latent)

    def formula(self) -> str:
        """The text ``weight ‖Z‖_*``."""
        weight = f"{self.weight:g}" if self.is_given else "w"
        return f"{weight} ‖{'R Z C' if self.count_share else 'Z'}‖_*"
