"""Two consecutive iterates of a proximal gradient method, dense or in factors."""

from abc import ABC, abstractmethod
from typing import Any

import attrs
import numpy as np

from mcframe.compile import Evaluation, Program
from mcframe.contracts.arrays import Array
from mcframe.numerics.dense_loops import descend, extrapolate, products
from mcframe.numerics.low_rank import LowRank
from mcframe.numerics.sampled import Pattern, SampledMatrix
from mcframe.numerics.shrinkage import Dense, Operator, Shrunk

__all__ = ["DenseIterates", "Iterates", "ThinIterates"]


class Iterates(ABC):
    """X and the iterate before it, from which a step goes to Y = X + theta (X - the one before).

    A step asks for Y, for Y - G / L with G the slope at Y, and offers the new iterate in
    factors, which stays a trial until it is accepted.
    """

    @abstractmethod
    def ahead(self, theta: float) -> Any:
        """Y, dense where a term may ask for it."""

    @abstractmethod
    def descended(self, z_ahead: Array, slope: Evaluation, curvature: float) -> Operator:
        """Y - G / L, from the entries of Y and the slopes there."""

    @abstractmethod
    def reach(self, factors: Shrunk) -> tuple[Array, Any]:
        """The entries of the new iterate, and itself, dense where a term may ask for it."""

    @abstractmethod
    def products(self, theta: float) -> tuple[float, float]:
        """||New - X||^2, and <New - X, X - the one before>, which may be 0 where theta is."""

    @abstractmethod
    def block_products(
        self, ahead: Evaluation, reached: Evaluation, theta: float
    ) -> tuple[float, float]:
        """<G(New) - G(Y), New - Y> and <G(Y), New - Y> of terms that are no losses of entries."""

    @abstractmethod
    def accept(self) -> None:
        """The new iterate becomes X."""

    @abstractmethod
    def come_from(self, before: LowRank) -> None:
        """Another iterate is the one before X."""

    @abstractmethod
    def dense(self) -> Array:
        """X itself."""


class DenseIterates(Iterates):
    """Four dense matrices: X, the one before, the new one, and room to work in."""

    def __init__(self, program: Program, begin: LowRank, single: bool = False) -> None:
        self.flat = program.flat
        self.now: Array = begin.dense().astype(np.float32 if single else np.float64, copy=False)
        self.before: Array = self.now.copy()
        self.new, self.work = np.empty_like(self.now), np.empty_like(self.now)

    def double(self) -> None:
        """In 64 bits from here on."""
        self.now, self.before = self.now.astype(np.float64), self.before.astype(np.float64)
        self.new, self.work = np.empty_like(self.now), np.empty_like(self.now)

    def ahead(self, theta: float) -> Array:
        """Y, in the room to work in."""
        extrapolate(self.now, self.before, theta, self.work)
        return self.work

    def descended(self, z_ahead: Array, slope: Evaluation, curvature: float) -> Operator:
        """In place of Y."""
        descend(self.flat, z_ahead, slope.slope, 1.0 / curvature, self.work)
        for columns, block in slope.blocks:
            self.work[:, columns] -= block / curvature
        return Dense(self.work)

    def reach(self, factors: Shrunk) -> tuple[Array, Array]:
        """Written out."""
        factors.write(self.new)
        z = np.take(self.new, self.flat, mode="clip")  # in range: no check, no copy
        return z.astype(np.float64, copy=False), self.new

    def products(self, theta: float) -> tuple[float, float]:
        """In one pass over all three."""
        return products(self.new, self.now, self.before)

    def block_products(
        self, ahead: Evaluation, reached: Evaluation, theta: float
    ) -> tuple[float, float]:
        """Over the columns of each term."""
        bend = rise = 0.0
        for (columns, old), (_, fresh) in zip(ahead.blocks, reached.blocks, strict=True):
            momentum = self.now[:, columns] - self.before[:, columns]
            away = self.new[:, columns] - self.now[:, columns] - theta * momentum
            rise += float(np.vdot(old, away))
            bend += float(np.vdot(fresh - old, away))
        return bend, rise

    def accept(self) -> None:
        """The buffers change places."""
        self.now, self.before, self.new = self.new, self.now, self.before

    def come_from(self, before: LowRank) -> None:
        """Written out."""
        self.before = before.dense().astype(self.now.dtype, copy=False)

    def dense(self) -> Array:
        """X itself."""
        return self.now


@attrs.frozen(eq=False)
class Extrapolated:
    """(1 + theta) X - theta (the one before) - G / L: thin factors and a sparse matrix."""

    left: Array
    right: Array
    slope: SampledMatrix

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.slope.pattern.shape

    def times(self, block: Array) -> Array:
        """A V."""
        product: Array = self.left @ (self.right.T @ block)
        return product - self.slope.times(block)

    def transposed_times(self, block: Array) -> Array:
        """A' U."""
        product: Array = self.right @ (self.left.T @ block)
        return product - self.slope.transposed_times(block)


class ThinIterates(Iterates):
    """Both iterates in factors, the slope sparse: memory of the observed entries."""

    def __init__(self, program: Program, begin: LowRank) -> None:
        self.pattern: Pattern = program.pattern
        self.theta = 0.0
        self.now = self.before = self.new = orthogonal(begin)
        self.last = self.moved = LowRank.zeros(program.shape)

    def ahead(self, theta: float) -> None:
        """Nothing is formed."""
        self.theta = theta

    def descended(self, z_ahead: Array, slope: Evaluation, curvature: float) -> Operator:
        """As a sum of products."""
        matrix = SampledMatrix(self.pattern, slope.slope / curvature)
        if self.theta == 0.0:
            return Extrapolated(self.now.left, self.now.right, matrix)
        left = np.hstack([(1.0 + self.theta) * self.now.left, -self.theta * self.before.left])
        return Extrapolated(left, np.hstack([self.now.right, self.before.right]), matrix)

    def reach(self, factors: Shrunk) -> tuple[Array, None]:
        """The entries alone."""
        left = np.ascontiguousarray(factors.left * factors.values)
        self.new = LowRank(left, np.ascontiguousarray(factors.right))
        z = np.empty(self.pattern.by_rows.places.size)
        self.pattern.entries(self.new.left, self.new.right, z)
        return z, None

    def products(self, theta: float) -> tuple[float, float]:
        """Through factors of the difference that are small where it is."""
        self.moved = difference(self.new, self.now)
        cross = inner(self.moved, self.last) if theta else 0.0
        return inner(self.moved, self.moved), cross

    def block_products(
        self, ahead: Evaluation, reached: Evaluation, theta: float
    ) -> tuple[float, float]:
        """There are no such terms."""
        return 0.0, 0.0

    def accept(self) -> None:
        """The differences move along."""
        self.now, self.before, self.last = self.new, self.now, self.moved

    def come_from(self, before: LowRank) -> None:
        """With the difference between both."""
        self.before = orthogonal(before)
        self.last = difference(self.now, self.before)

    def dense(self) -> Array:
        """X itself, formed."""
        return self.now.dense()


def orthogonal(latent: LowRank) -> LowRank:
    """The same matrix with orthonormal columns on the right."""
    right, upper = np.linalg.qr(latent.right)
    return LowRank(latent.left @ upper.T, right)


def difference(new: LowRank, old: LowRank) -> LowRank:
    """new - old, both with orthonormal columns on the right.

    Split by the columns of the new one: (new - old) R R' + (new - old) (I - R R'), each a
    product with a factor that is as small as the difference, so that nothing cancels later.
    """
    shared = old.right.T @ new.right
    along = new.left - old.left @ shared
    aside = new.right @ shared.T - old.right
    return LowRank(np.hstack([along, old.left]), np.hstack([new.right, aside]))


def inner(one: LowRank, other: LowRank) -> float:
    """<A, B> through the small products of their factors."""
    return float(np.sum((one.left.T @ other.left) * (one.right.T @ other.right)))
