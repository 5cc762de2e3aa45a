"""Two consecutive iterates of a proximal gradient method, held as their program holds Z."""

from abc import ABC, abstractmethod
from typing import Any

import attrs
import numpy as np

from mcframe.compile.loss import BlockEffects
from mcframe.compile.program import Evaluation, Iterate, Program
from mcframe.contracts.arrays import Array
from mcframe.numerics.kernels import descend, extrapolate, products
from mcframe.numerics.operators import Dense, LowRank, Operator
from mcframe.numerics.shrinkage import Shrunk


@attrs.frozen(eq=False)
class Step:
    """Inner products of a step from Y to the trial, with P = X - the iterate before it.

    ``advance`` is <trial - X, P>, which may be 0 where there is no momentum;
    ``curvature_along`` is <G_trial - G_Y, trial - Y> and ``rise`` <G_Y, trial - Y>, G the
    gradients.
    """

    squared: float  # ||trial - X||^2
    advance: float
    curvature_along: float
    rise: float


class Iterates(ABC):
    """X and the iterate before it, from which a step goes to Y = X + theta (X - the one before).

    A step asks for the program at Y, and for Y - G / L with G the gradient there, and offers
    the new iterate in factors, which stays a trial until it is accepted.
    """

    now: Any  # X

    def __init__(self, program: Program, iterate: Iterate) -> None:
        self.program = program
        self.z = self.z_before = self.z_ahead = self.z_trial = iterate.z

    def ahead(self, theta: float, current: Evaluation, previous: Evaluation | None) -> Evaluation:
        """The program at Y, extrapolated from X and the one before where these are close.

        ``previous`` is None where the one before was not evaluated.
        """
        self.z_ahead = self.z + theta * (self.z - self.z_before) if theta else self.z
        iterate = Iterate(self.latent_ahead(theta), self.z_ahead)
        if not theta:
            return attrs.evolve(current, iterate=iterate)
        extrapolated = (
            None
            if previous is None
            else self.program.extrapolate(iterate, theta, current, previous)
        )
        return extrapolated or self.program.evaluate(iterate, current.effects, nearly=True)

    def reach(self, factors: Shrunk, warm: BlockEffects) -> Evaluation:
        """The program at the trial."""
        iterate = self.trial_iterate(factors)
        self.z_trial = iterate.z
        return self.program.evaluate(iterate, warm, nearly=True)

    def step(self, ahead: Evaluation, trial: Evaluation, theta: float) -> Step:
        """The inner products of the step from Y to the trial."""
        moved = self.z_trial - self.z_ahead
        squared, advance = self.products(theta)
        curved = rise = 0.0
        for (columns, old), (_, fresh) in zip(ahead.blocks, trial.blocks, strict=True):
            away = self.moved_columns(columns, theta)
            rise += float(np.vdot(old, away))
            curved += float(np.vdot(fresh - old, away))
        curved += float(np.dot(trial.entry_gradients - ahead.entry_gradients, moved))
        return Step(squared, advance, curved, rise + ahead.along(moved))

    def accept(self) -> None:
        """The trial becomes X."""
        self.z, self.z_before = self.z_trial, self.z

    def iterate(self) -> Iterate:
        """X, with its numbers at the entries."""
        return Iterate(self.now, self.z)

    def evaluate_current(self, warm: BlockEffects | None = None) -> Evaluation:
        """The program at X."""
        return self.program.evaluate(self.iterate(), warm)

    @abstractmethod
    def set_previous(self, before: LowRank) -> Iterate:
        """Take another iterate as the one before X, with its numbers at the entries."""

    @abstractmethod
    def latent_ahead(self, theta: float) -> LowRank | Array:
        """Y, in factors or written out."""

    @abstractmethod
    def gradient_step(self, ahead: Evaluation, curvature: float) -> Operator:
        """Y - G / L."""

    @abstractmethod
    def trial_iterate(self, factors: Shrunk) -> Iterate:
        """The trial, with its numbers at the entries."""

    @abstractmethod
    def products(self, theta: float) -> tuple[float, float]:
        """||trial - X||^2, and <trial - X, P>, which may be 0 where theta is."""

    @abstractmethod
    def moved_columns(self, columns: slice, theta: float) -> Array:
        """The columns of trial - Y, written out."""


class DenseIterates(Iterates):
    """Four dense matrices: X, the one before, the trial, and a buffer."""

    def __init__(self, program: Program, begin: LowRank) -> None:
        self.entries = program.entries
        self.now: Array = begin.dense()
        self.before: Array = self.now.copy()
        self.new, self.work = np.empty_like(self.now), np.empty_like(self.now)
        super().__init__(program, program.entries.iterate(self.now))  # as steps read them

    def latent_ahead(self, theta: float) -> Array:
        """Y, in the buffer."""
        extrapolate(self.now, self.before, theta, self.work)
        return self.work

    def gradient_step(self, ahead: Evaluation, curvature: float) -> Operator:
        """Y - G / L, which overwrites Y."""
        entries = self.entries
        numbers = entries.times_scales(self.z_ahead, -1)
        gradients = entries.times_scales(ahead.entry_gradients)
        descend(entries.flat, numbers, gradients, 1.0 / curvature, self.work)
        for columns, block in ahead.blocks:
            self.work[:, columns] -= block / curvature
        return Dense(self.work)

    def trial_iterate(self, factors: Shrunk) -> Iterate:
        """The trial, written out."""
        factors.write(self.new)
        return self.program.entries.iterate(self.new)

    def products(self, theta: float) -> tuple[float, float]:
        """||trial - X||^2 and <trial - X, P>, in one pass over all three matrices."""
        return products(self.new, self.now, self.before)

    def moved_columns(self, columns: slice, theta: float) -> Array:
        """The columns of trial - Y."""
        momentum = self.now[:, columns] - self.before[:, columns]
        return self.new[:, columns] - self.now[:, columns] - theta * momentum

    def accept(self) -> None:
        """The buffers change places."""
        super().accept()
        self.now, self.before, self.new = self.new, self.now, self.before

    def set_previous(self, before: LowRank) -> Iterate:
        """Write out another iterate as the one before X."""
        self.before = before.dense()
        iterate = self.program.entries.iterate(self.before)
        self.z_before = iterate.z
        return iterate


class ThinIterates(Iterates):
    """Two iterates in factors, the gradient sparse: memory of the observed entries."""

    def __init__(self, program: Program, begin: LowRank) -> None:
        self.now = self.past = self.new = orthogonal(begin)
        self.last = self.moved = LowRank.zeros(program.shape)
        super().__init__(program, program.entries.iterate(begin))

    def latent_ahead(self, theta: float) -> LowRank:
        """Y, with the columns of both."""
        if theta == 0.0:
            return self.now
        left = np.hstack([(1.0 + theta) * self.now.left, -theta * self.past.left])
        return LowRank(left, np.hstack([self.now.right, self.past.right]))

    def gradient_step(self, ahead: Evaluation, curvature: float) -> Operator:
        """Y - G / L as a sum of operators."""
        return ahead.iterate.factors + (-1.0 / curvature) * ahead.gradient

    def trial_iterate(self, factors: Shrunk) -> Iterate:
        """The trial in factors."""
        left = np.ascontiguousarray(factors.left * factors.values)
        self.new = LowRank(left, np.ascontiguousarray(factors.right))
        return self.program.entries.iterate(self.new)

    def products(self, theta: float) -> tuple[float, float]:
        """Through factors of the difference that are small where it is."""
        self.moved = low_rank_difference(self.new, self.now)
        cross = inner(self.moved, self.last) if theta else 0.0
        return self.moved.squared_length, cross

    def moved_columns(self, columns: slice, theta: float) -> Array:
        """The columns of trial - Y, from factors of small differences."""
        momentum = self.last.columns(columns).dense()
        return self.moved.columns(columns).dense() - theta * momentum

    def accept(self) -> None:
        """The differences move along."""
        super().accept()
        self.now, self.past, self.last = self.new, self.now, self.moved

    def set_previous(self, before: LowRank) -> Iterate:
        """Take another iterate as the one before X, and the difference of the two."""
        self.past = orthogonal(before)
        self.last = low_rank_difference(self.now, self.past)
        iterate = self.program.entries.iterate(before)
        self.z_before = iterate.z
        return iterate


def iterates_of(program: Program, begin: LowRank) -> Iterates:
    """Two equal iterates at a start, as the program holds Z."""
    return (
        ThinIterates(program, begin) if program.entries.sparse else DenseIterates(program, begin)
    )


def orthogonal(latent: LowRank) -> LowRank:
    """The matrix with orthonormal columns on the right."""
    right, upper = np.linalg.qr(latent.right)
    return LowRank(latent.left @ upper.T, right)


def low_rank_difference(new: LowRank, old: LowRank) -> LowRank:
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
