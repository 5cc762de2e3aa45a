"""The terms of a program: the one that covers all of Z, and others at their columns.

The one of all of Z is a function of singular values, of factors, or of rows.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.equations import Directions, EffectSquares, equations_of_effects
from mcframe.compile.loss import BlockEffects
from mcframe.contracts.arrays import Array, Shape
from mcframe.contracts.term import (
    Composed,
    Constraint,
    EquationGroup,
    Factored,
    RowQuadratic,
    SmoothTerm,
    Spectral,
    Sums,
    Term,
)
from mcframe.model import Layout
from mcframe.numerics.max_norm_bounds import factors_of
from mcframe.numerics.operators import LowRank
from mcframe.numerics.row_squares import RowSquares


class Penalty(ABC):
    """R, the term that covers all of Z."""

    #: The word, a regularizer or a constraint; None for a ridge alone, and for R = 0.
    main: Term | None
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
        """True if a ridge is part of it, so that its conjugate is finite everywhere."""
        return self.ridge > 0.0

    @property
    def dual_radius(self) -> float:
        """The largest ||S||_2 for which R*(S) may be finite; infinite where that says nothing."""
        return np.inf

    def threshold(self, step: float) -> float:
        """Singular values up to this are shrunk to exactly 0 by a prox of that step."""
        return 0.0

    @abstractmethod
    def value(self, latent: LowRank) -> float:
        """R at Z."""

    def rounding(self, latent: LowRank) -> float:
        """Bound on how far rounding moves R at Z, beyond that of a short sum; by default 0."""
        return 0.0

    def recession(self, moved: LowRank) -> float:
        """lim R(Z + t D) / t as t grows, for Z with a finite R."""
        main = None if self.main is None or self.ridge else self.main.recession()
        if main is None:
            return np.inf if moved.length > 0.0 else 0.0
        penalty: Any = self
        return float(attrs.evolve(penalty, main=main).value(moved))

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
        """The largest ||S||_2 for which R*(S) is finite: infinite with a ridge."""
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
            remainder = np.maximum(s - self.ridge * maximiser, 0.0) / self.strength
            main_conjugate = self.strength * self.main.conjugate_of_singular_values(remainder)
            if np.isfinite(main_conjugate):
                return main_conjugate + 0.5 * self.ridge * float(np.dot(maximiser, maximiser))
        return float(np.dot(s, maximiser)) - self.of_singular_values(maximiser)


@attrs.frozen
class FactoredPenalty(Penalty):
    """R(Z) = main(Z), a minimum over factors Z = U V' that is known by factors alone.

    The value at the balanced factors of Z is an upper bound on R, exact at the best factors.
    """

    main: Factored

    @property
    def no_shrinkage(self) -> str:
        """A function of factors is no function of singular values."""
        return f"{self.main.word} has no prox, only a factored form"

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


@attrs.frozen
class NoPenalty(Penalty):
    """R = 0, as in the program of some of the rows: the penalty is that of all."""

    main = None

    def value(self, latent: LowRank) -> float:
        """0."""
        return 0.0

    def recession(self, moved: LowRank) -> float:
        """0: R does not grow along any direction."""
        return 0.0

    def factors_of(self, dense: Array) -> LowRank:
        """Z in the factors of its singular value decomposition."""
        return LowRank.of(dense)

    def nearest(self, latent: LowRank) -> LowRank:
        """Z itself: R is finite everywhere."""
        return latent


def split_rows(stacked: Array, n_rows: int) -> LowRank:
    """U V' of stacked factors."""
    return LowRank(stacked[:n_rows], stacked[n_rows:])


@attrs.frozen(eq=False)
class BlockTerm:
    """A term at a ``submatrix`` of W, some of its columns, which its methods take.

    The dual matrices of a ``Composed`` term are those of its inner term; ``gradient_of`` maps them
    to W. If there is a ``factor``, the term is given ``factor * W``, entry by entry.

    With a ``multiplier`` it is the Moreau envelope of the term, of this ``stiffness``: see
    ``SmoothedLoss``.

    A term of predictors is given the free effects of its block, too: those of the block of the
    losses with the number ``block_index``, whose ``layout`` says what they are added to. Both are
    None where there are none.
    """

    term: Term
    columns: slice
    factor: Array | None = None
    multiplier: Array | None = None
    stiffness: float = 0.0
    block_index: int | None = None
    layout: Layout | None = None

    def added(self, effects: BlockEffects | None, shape: Shape) -> Array | float:
        """The sums of effects that are added to the argument of the term, in every cell."""
        if self.block_index is None or self.layout is None or effects is None:
            return 0.0
        block_effects = effects[self.block_index]
        assert block_effects is not None
        return self.layout.of_cells(block_effects, shape)

    @property
    def directions(self) -> tuple[Directions, ...]:
        """Directions in which a smooth term of predictors is curved, with its curvatures."""
        assert isinstance(self.term, Sums)
        return tuple(
            Directions(group.lines, group.right, self.weights_along(group), self.term.axis)
            for group in self.term.groups
        )

    @cached_property
    def equations(self) -> EffectSquares:
        """The directions of a term of predictors, each of weight 1/2."""
        assert self.layout is not None
        return equations_of_effects(self.layout, [self.term])

    def weights_along(self, group: EquationGroup) -> Array:
        """The factors of the squares that the term is a sum of, for directions of a group."""
        if self.multiplier is not None:
            return np.full(group.singular_values.size, 0.5 * self.stiffness)
        weight = self.term.weight if isinstance(self.term, Sums) else None
        assert weight is not None
        return weight * np.square(group.singular_values)

    def distances(self, submatrix: Array) -> list[Array]:
        """The vectors whose squares these are at a submatrix of W, without effects, by group."""
        assert isinstance(self.term, Sums)
        latent = self.scaled(submatrix)
        if self.multiplier is not None:
            latent = latent + self.multiplier / self.stiffness
        turned = self.term.turned(latent)
        return [group.distances(turned[:, group.lines]) for group in self.term.groups]

    @property
    def smooth(self) -> bool:
        """True if it has a gradient."""
        return isinstance(self.term, SmoothTerm) or self.multiplier is not None

    @property
    def curvature(self) -> float:
        """The Lipschitz constant of the gradient of a smooth term."""
        term: Any = self.term
        unscaled = self.stiffness if self.multiplier is not None else term.curvature
        return float(self.largest_factor**2 * unscaled)

    @property
    def inner(self) -> Any:
        """The term that the prox and dual matrices are of."""
        return self.term.inner if isinstance(self.term, Composed) else self.term

    @property
    def largest_factor(self) -> float:
        """The largest factor."""
        return 1.0 if self.factor is None else float(np.max(self.factor))

    def scaled(self, submatrix: Array, power: int = 1) -> Array:
        """The submatrix of W times ``factor``, or divided by it with ``power`` -1."""
        if self.factor is None:
            return submatrix
        return submatrix * self.factor if power == 1 else submatrix / self.factor

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.columns.stop - self.columns.start

    @property
    def fixed(self) -> Any:
        """The entries of its columns, one for all or all, where it is a set of that alone."""
        if not isinstance(self.term, Constraint) or self.term.fixed is None:
            return None
        return self.term.fixed if self.factor is None else self.term.fixed / self.factor[:, 0]

    def argument(self, submatrix: Array, effects: BlockEffects | None = None) -> Array:
        """The argument of the term: its submatrix, scaled, with the effects of its block added."""
        return self.scaled(submatrix) + self.added(effects, submatrix.shape)

    def recession(self) -> "BlockTerm | None":
        """The term of D that says how this one grows along Z + t D; None if but at D = 0."""
        term = self.term.recession()
        return None if term is None else attrs.evolve(self, term=term, multiplier=None)

    def value(self, submatrix: Array, effects: BlockEffects | None = None) -> float:
        """The term at its submatrix and the effects of all blocks."""
        return self.term.value(self.argument(submatrix, effects))

    def rounding(self, submatrix: Array, effects: BlockEffects | None = None) -> float:
        """Bound on how far rounding moves that, beyond that of a short sum."""
        return self.term.rounding(self.argument(submatrix, effects))

    def value_and_dual(
        self, submatrix: Array, effects: BlockEffects | None = None
    ) -> tuple[float, Array]:
        """Value and dual matrix of a smooth term; of an envelope e(v) and Y.

        (Y - multiplier) / stiffness is then K Z - c - X.
        """
        if self.multiplier is None:
            assert isinstance(self.term, SmoothTerm)
            return self.term.value_and_gradient(self.argument(submatrix, effects))
        shifted = self.forward(submatrix, effects) + self.multiplier / self.stiffness
        nearest, value = self.prox(shifted, 1.0 / self.stiffness)
        dual = self.stiffness * (shifted - nearest)
        return value + 0.5 * float(np.vdot(dual, dual)) / self.stiffness, dual

    def forward(self, submatrix: Array, effects: BlockEffects | None = None) -> Array:
        """The argument of the prox."""
        argument = self.argument(submatrix, effects)
        return self.term.forward(argument) if isinstance(self.term, Composed) else argument

    def gradient_of(self, dual: Array) -> Array:
        """A dual matrix as a gradient over the term's columns."""
        return self.scaled(self.term.adjoint(dual) if isinstance(self.term, Composed) else dual)

    def prox(self, image: Array, step: float) -> tuple[Array, float]:
        """The prox of what the map leads to."""
        return self.inner.prox(image, step)

    def project(self, submatrix: Array, effects: BlockEffects | None = None) -> Array:
        """A submatrix of W with which the term, a set's, is 0 at these effects.

        The nearest one if nothing scales it.
        """
        argument = self.argument(submatrix, effects)
        return self.scaled(self.prox(argument, 1.0)[0] - self.added(effects, submatrix.shape), -1)

    def conjugate(self, dual: Array) -> float:
        """An upper bound on the conjugate at ``gradient_of(dual)``."""
        if isinstance(self.term, Composed):
            return self.term.inner.conjugate(dual) + self.term.pairing(dual)
        return self.term.conjugate(dual)

    def conjugate_size(self, dual: Array) -> float:
        """The sum of the sizes of its summands, 0 where none is larger than the conjugate."""
        return float(self.term.conjugate_size(dual))

    def nearest_dual(self, dual: Array) -> Array:
        """The nearest dual matrix at which that is finite."""
        return self.inner.nearest_dual(dual)
