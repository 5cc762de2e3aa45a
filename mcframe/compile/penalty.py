"""The part of a program that covers all of Z: of singular values, of factors, or of rows."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.term import Factored, RowQuadratic, Spectral
from mcframe.numerics.max_norm import factors_of
from mcframe.numerics.operators import LowRank
from mcframe.numerics.row_squares import RowSquares


class Penalty(ABC):
    """R, the term that covers all of Z and takes up what a dual point lacks."""

    #: The word, a regularizer or a constraint; None for a ridge alone.
    main: Any
    #: The weight of a ridge that joins it: ``ridge / 2 * ||Z||_F^2``.
    ridge: float = 0.0
    #: Whether steps leave the rounding of the largest columns in all, as singular vectors do.
    mixes_columns = True

    @property
    def no_shrinkage(self) -> str | None:
        """Why solvers cannot shrink singular values by it, a clause; None if they can."""
        return None

    @property
    def smooth(self) -> bool:
        """Whether a ridge is part of it, so that its conjugate is finite everywhere."""
        return self.ridge > 0.0

    @property
    @abstractmethod
    def dual_radius(self) -> float:
        """What ||S||_2 may be for R*(S) to be finite; infinite where that says nothing."""

    def threshold(self, step: float) -> float:
        """Singular values up to this are shrunk to exactly 0 by a prox of that step."""
        return 0.0

    @abstractmethod
    def value(self, latent: LowRank) -> float:
        """R at Z."""

    def rounding(self, latent: LowRank) -> float:
        """Bound on how far rounding moves R at Z, beyond that of a short sum; by default 0."""
        return 0.0

    @abstractmethod
    def factors_of(self, dense: Array) -> LowRank:
        """Z in the factors in which R is exact."""

    @abstractmethod
    def nearest(self, latent: LowRank) -> LowRank:
        """Z itself, or where R is a ball and Z outside of it, the nearest point inside."""


@attrs.frozen
class SpectralPenalty(Penalty):
    """R(Z) = strength * main(Z) + ridge / 2 * ||Z||_F^2; either may be absent, not both.

    The strength is 1 but in the earlier stages of a continuation.
    """

    main: Spectral | None
    ridge: float = 0.0
    strength: float = 1.0

    def value(self, latent: LowRank) -> float:
        """R at Z, from its singular values."""
        return self.of_singular_values(latent.singular_values())

    def factors_of(self, dense: Array) -> LowRank:
        """Z in the factors of its singular value decomposition."""
        return LowRank.of(dense)

    def nearest(self, latent: LowRank) -> LowRank:
        """Z itself, or where R is a ball and Z outside of it, its prox."""
        main: Any = self.main
        if main is None or np.isfinite(main.of_singular_values(latent.singular_values())):
            return latent
        return LowRank.of(main.prox(latent.dense(), 1.0)[0])

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
        """Singular values up to this are shrunk to exactly 0 by a prox of that step."""
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
        S/ridge, called X. R* is at most main*(S - ridge X) + ridge/2 ||X||^2 for any X, and equal
        for that one. Where rounding puts this outside of the domain of main*, R* is evaluated
        from its definition.
        """
        if self.ridge == 0.0:
            assert self.main is not None
            return self.strength * self.main.conjugate_of_singular_values(s / self.strength)
        maximiser = s / self.ridge
        if self.main is not None:
            maximiser = self.main.shrink(maximiser, self.strength / self.ridge)
            rest = np.maximum(s - self.ridge * maximiser, 0.0) / self.strength
            taken = self.strength * self.main.conjugate_of_singular_values(rest)
            if np.isfinite(taken):
                return taken + 0.5 * self.ridge * float(np.dot(maximiser, maximiser))
        return float(np.dot(s, maximiser)) - self.of_singular_values(maximiser)


@attrs.frozen
class FactoredPenalty(Penalty):
    """R(Z) = main(Z), a minimum over factors Z = U V' that is known by factors alone.

    Of the balanced factors of Z it is an upper bound, which is R at the best ones.
    """

    main: Factored

    @property
    def no_shrinkage(self) -> str:
        """A function of factors is no function of singular values."""
        return f"{self.main.word} has no prox, only a factored form"

    @property
    def dual_radius(self) -> float:
        """Infinite: the domain of R* is no ball of the spectral norm."""
        return np.inf

    def value(self, latent: LowRank) -> float:
        """R at the balanced factors of Z."""
        return self.main.of_factors(latent.balance())

    def factors_of(self, dense: Array) -> LowRank:
        """Z in factors whose rows are as short as may be."""
        return split_rows(factors_of(dense), dense.shape[0])

    def nearest(self, latent: LowRank) -> LowRank:
        """Z itself, or where R is a ball and Z outside of it, its factors moved inside."""
        if np.isfinite(self.value(latent)):
            return latent
        stacked = self.main.prox_factors(factors_of(latent.dense()), 1.0)
        return split_rows(stacked, latent.shape[0])


@attrs.frozen
class RowPenalty(Penalty):
    """R(Z) = main(Z) + ridge / 2 * ||Z||_F^2, a square of each row of Z by itself."""

    main: RowQuadratic
    ridge: float = 0.0

    mixes_columns = False

    @property
    def no_shrinkage(self) -> str:
        """A function of rows does not treat all columns alike."""
        return f"{self.main.word} is no function of singular values"

    @cached_property
    def squares(self) -> RowSquares:
        """R, the ridge joined, less a constant: for solvers; certificates take the two apart."""
        squares: RowSquares = self.main.squares
        return squares.with_ridge(self.ridge)

    @property
    def dual_radius(self) -> float:
        """Infinite: R* is finite everywhere."""
        return np.inf

    def value(self, latent: LowRank) -> float:
        """R at Z."""
        dense = latent.dense()
        return self.main.value(dense) + 0.5 * self.ridge * float(np.vdot(dense, dense))

    def rounding(self, latent: LowRank) -> float:
        """Bound on the rounding of the main regularizer; its ridge, a sum of squares, has none."""
        return self.main.rounding(latent.dense())

    def factors_of(self, dense: Array) -> LowRank:
        """Z in the loadings of R."""
        return self.squares.latent(self.squares.coordinates(dense))

    def nearest(self, latent: LowRank) -> LowRank:
        """Z itself: R is finite everywhere."""
        return latent


def split_rows(stacked: Array, n_rows: int) -> LowRank:
    """U V' of stacked factors."""
    return LowRank(stacked[:n_rows], stacked[n_rows:])
