"""The spectral part of a program: one symmetric function of singular values plus a ridge."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.term import Spectral

__all__ = ["SpectralPenalty"]


@attrs.frozen
class SpectralPenalty:
    """R(Z) = strength * main(Z) + ridge / 2 * ||Z||_F^2; either may be absent, not both.

    The strength is 1 but in the earlier stages of a continuation.
    """

    main: Spectral | None
    ridge: float = 0.0
    strength: float = 1.0

    def of_singular_values(self, s: Array) -> float:
        """R at a matrix with these singular values."""
        quadratic = 0.5 * self.ridge * float(np.dot(s, s))
        if self.main is None:
            return quadratic
        return quadratic + self.strength * self.main.of_singular_values(s)

    def shrink(self, s: Array, step: float) -> Array:
        """The singular values of the prox.

        Completing the square, prox of step * (f + ridge/2 ||.||^2) at A is the prox of
        f at A / (1 + step ridge) with step / (1 + step ridge).
        """
        divisor = 1.0 + step * self.ridge
        scaled = s / divisor
        if self.main is None:
            return scaled
        return self.main.shrink(scaled, self.strength * step / divisor)

    def threshold(self, step: float) -> float:
        """Singular values up to this are shrunk to exactly 0."""
        return 0.0 if self.main is None else step * self.strength * self.main.threshold

    @property
    def dual_radius(self) -> float:
        """What ||S||_2 may be for R*(S) to be finite: anything with a ridge."""
        if self.ridge > 0 or self.main is None:
            return np.inf
        return self.strength * self.main.dual_radius

    def conjugate(self, s: Array) -> float:
        """R* at a matrix with these singular values.

        With a ridge the supremum of <S, Z> - R(Z) is attained at the prox of main/ridge at
        S/ridge, so R* is evaluated there, from its definition.
        """
        if self.ridge == 0.0:
            assert self.main is not None
            return self.strength * self.main.conjugate_of_singular_values(s / self.strength)
        maximiser = s / self.ridge
        if self.main is not None:
            maximiser = self.main.shrink(maximiser, self.strength / self.ridge)
        return float(np.dot(s, maximiser)) - self.of_singular_values(maximiser)
