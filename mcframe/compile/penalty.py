"""The spectral part of a program: one symmetric function of singular values plus a ridge."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.term import Spectral

__all__ = ["SpectralPenalty"]


@attrs.frozen
class SpectralPenalty:
    """R(Z) = main(Z) + ridge / 2 * ||Z||_F^2; either may be absent, not both."""

    main: Spectral | None
    ridge: float = 0.0

    def of_singular_values(self, s: Array) -> float:
        """R at a matrix with these singular values."""
        quadratic = 0.5 * self.ridge * float(np.dot(s, s))
        return quadratic if self.main is None else quadratic + self.main.of_singular_values(s)

    def shrink(self, s: Array, step: float) -> Array:
        """The singular values of the prox.

        Completing the square, prox of step * (f + ridge/2 ||.||^2) at A is the prox of
        f at A / (1 + step ridge) with step / (1 + step ridge).
        """
        divisor = 1.0 + step * self.ridge
        scaled = s / divisor
        return scaled if self.main is None else self.main.shrink(scaled, step / divisor)

    def threshold(self, step: float) -> float:
        """Singular values up to this are shrunk to exactly 0."""
        return 0.0 if self.main is None else step * self.main.threshold

    @property
    def dual_radius(self) -> float:
        """What ||S||_2 may be for R*(S) to be finite; inf with a ridge, which is finite everywhere."""
        return np.inf if self.ridge > 0 or self.main is None else self.main.threshold

    def conjugate(self, s: Array) -> float:
        """R* at a matrix with these singular values.

        With a ridge the supremum of <S, Z> - R(Z) is attained at the prox of main/ridge at
        S/ridge, so R* is evaluated there, from its definition.
        """
        if self.ridge == 0.0:
            assert self.main is not None
            return self.main.conjugate_of_singular_values(s)
        maximiser = self.shrink_to_maximiser(s)
        return float(np.dot(s, maximiser)) - self.of_singular_values(maximiser)

    def shrink_to_maximiser(self, s: Array) -> Array:
        """argmax of <S, Z> - R(Z) in singular values, for a positive ridge."""
        scaled = s / self.ridge
        return scaled if self.main is None else self.main.shrink(scaled, 1.0 / self.ridge)
