"""The entrywise part of a program: losses of all entries, the free effects solved out."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.piece import Piece
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import TwiceDifferentiable

# The effects of each block, None where it has none.
Solved = tuple[Array | None, ...]
Known = tuple[tuple[float, float] | None, ...]


@attrs.frozen(eq=False)
class LossAt:
    """F at some z: its value, its gradient at every number, and the effects (None without any)."""

    value: float
    gradient: Array
    effects: Solved


class Loss(ABC):
    """F(z) = min over effects of the sum over all entries of scale * l(z + effects, y).

    What is known of it by sums over entries, wherever these are. Entry values z, and gradients,
    are arrays, or ``EntryValues`` of entries in partitions. Partial minimisation keeps F convex
    and does not raise its curvature: the Hessian in z is a Schur complement of the joint one.
    """

    pieces: tuple[Any, ...]

    @property
    def n_entries(self) -> int:
        """The number of numbers of z."""
        return sum(piece.n_numbers for piece in self.pieces)

    @property
    def smooth(self) -> bool:
        """Whether every piece has a gradient."""
        return all(piece.likelihood.smooth for piece in self.pieces)

    @property
    def convex(self) -> bool:
        """Whether every piece is convex."""
        return all(piece.likelihood.convex for piece in self.pieces)

    def curvatures_at(self, z: Any, effects: Solved) -> list[float]:
        """Each piece's curvature: its bound, or the largest at these entries if there is none.

        A first step length for backtracking, where there is no proven one.
        """
        bounds = [piece.curvature for piece in self.pieces]
        if np.all(np.isfinite(bounds)):
            return bounds
        found = zip(bounds, self.largest_curvatures(z, effects), strict=True)
        return [bound if np.isfinite(bound) else there for bound, there in found]

    def ask_ahead(self, gradient: Any) -> None:  # noqa: B027
        """Say that conjugates at a gradient are needed soon; in memory that is nothing."""

    def conjugate(self, gradient: Any, scale: float, known: Known) -> tuple[float, float]:
        """F* at gradients whose sums vanish where an effect is free, and sum of |summands|.

        The second number times the unit roundoff bounds how far rounding can have moved the
        first. Of a piece without a conjugate F* is ``known`` at gradients of which these are
        ``scale`` times, and F* is convex: F*(c S) <= c F*(S) + (1 - c) F*(0), F*(0) = -inf F.
        """
        total = size = 0.0
        of_entries = self.conjugates_of_entries(gradient)  # which may come with the sums
        sums = self.sums_by_effect(gradient)
        for piece, pair, own, by_effect in zip(self.pieces, known, of_entries, sums, strict=True):
            if pair is None:
                freed = piece.effects.conjugate_of_sums(*by_effect, piece.largest_gradient)
                total, size = total + own[0] + freed[0], size + own[1] + freed[1]
            else:
                lowest = piece.infimum if scale < 1.0 else 0.0
                total += scale * pair[0] - (1.0 - scale) * lowest
                size += pair[1] + abs(lowest)
        return total, size

    def imbalance(self, gradient: Any, effects: Solved) -> float:
        """Bound on the change of the objective by sums over free effects that do not vanish."""
        triples = zip(self.pieces, effects, self.sums_by_effect(gradient), strict=True)
        return sum(piece.effects.imbalance_of_sums(each, own) for piece, own, (each, _) in triples)

    @abstractmethod
    def largest_curvatures(self, z: Any, effects: Solved) -> tuple[float, ...]:
        """The largest second derivative of each piece at z."""

    @abstractmethod
    def sums_by_effect(self, gradient: Any) -> list[tuple[Array, Array]]:
        """The sums of gradients and of their sizes over each effect, of each piece."""

    @abstractmethod
    def conjugates_of_entries(self, gradient: Any) -> Iterable[Any]:
        """The sums of the conjugates of entries, and of their sizes, of pieces that have them."""


@attrs.frozen(eq=False)
class EntryLoss(Loss):
    """The losses of entries in memory; z holds the numbers piece after piece."""

    pieces: tuple[Piece, ...]

    def largest_curvatures(self, z: Array, effects: Solved) -> tuple[float, ...]:
        """The largest second derivative of each piece at z."""
        pairs = zip(self.pieces, effects, strict=True)
        return tuple(piece.largest_curvature(piece.offset_part(z), own) for piece, own in pairs)

    def evaluate(
        self,
        z: Array,
        warm: Solved | None = None,
        given: Solved | None = None,
        nearly: bool = False,
        solve: bool = True,
    ) -> LossAt:
        """F and its gradients at the entries' z, all effects optimal.

        ``warm`` are effects from a nearby point: the start of their solves, or with ``nearly`` of
        one Newton step where that will do. Of pieces without a gradient the effects that are
        ``given`` stay as they are, of all unless ``solve``.
        """
        value = 0.0
        gradient = np.empty_like(z)
        solved: list[Array | None] = []
        for k, piece in enumerate(self.pieces):
            own, out = piece.offset_part(z), gradient[piece.part]
            if given is not None and not (solve and piece.likelihood.smooth):
                effects = given[k]
                losses = piece.value_and_gradient(own, effects, out)[0]
            else:
                begin = None if warm is None else warm[k]
                losses, effects = piece.evaluate(own, begin, out, nearly)
            value += losses
            solved.append(effects)
        return LossAt(value, gradient, tuple(solved))

    def evaluate_at(self, z: Array, given: Solved) -> LossAt:
        """The joint loss and its gradients at given effects, which stay as they are."""
        return self.evaluate(z, given=given, solve=False)

    def sums_by_effect(self, gradient: Array) -> list[tuple[Array, Array]]:
        """The sums of gradients and of their sizes over each effect, of each piece."""
        found = []
        for piece in self.pieces:
            own, known = gradient[piece.part], piece.effects
            sizes = known.sum_by_effect(np.abs(own)) if known.n_added else np.zeros(0)
            found.append((known.sum_by_effect(own), sizes))
        return found

    def conjugates_of_entries(self, gradient: Array) -> tuple[tuple[float, float] | None, ...]:
        """The sums of the conjugates of entries, and of their sizes, of pieces that have them."""
        return tuple(
            piece.conjugate_of_entries(gradient[piece.part]) if piece.has_conjugate() else None
            for piece in self.pieces
        )

    def known_conjugates(self, z: Array, effects: Solved) -> Known:
        """F*(S) = <S, z> - F(z) of the pieces without a conjugate, S their gradient at z.

        Each with the size of its summands; None for a piece with a conjugate.
        """
        return tuple(
            None
            if piece.has_conjugate() or not piece.likelihood.smooth
            else piece.conjugate_at(z, own)
            for piece, own in zip(self.pieces, effects, strict=True)
        )

    def nearest_gradient(self, gradient: Array) -> Array:
        """The nearest gradients with finite conjugates whose sums over effects vanish."""
        found = gradient.copy()
        for piece in self.pieces:
            if piece.has_conjugate():
                found[piece.part] = piece.nearest_dual(gradient[piece.part])
        return found

    def clip(self, gradient: Array) -> Array:
        """The gradients of pieces without effects moved into their domains.

        Rounding leaves some just outside. Those with effects stay, since their sums must.
        """
        found = gradient.copy()
        for piece in self.pieces:
            if piece.has_conjugate() and not piece.effects.size:
                found[piece.part] = piece.nearest_gradient(gradient[piece.part])
        return found

    def centre(self, gradient: Array) -> Array:
        """The gradients with what rounding left of the sums over each effect taken off."""
        parts = [piece.effects.centre(gradient[piece.part]) for piece in self.pieces]
        return parts[0].copy() if len(parts) == 1 else np.concatenate(parts)

    def allowed_excess(self, gradient: Array) -> float:
        """Bound on the change of the objective by the feasibility tolerance of equalities."""
        return sum(piece.allowed_excess(gradient[piece.part]) for piece in self.pieces)

    def rounding(self, z: Array, effects: Solved, gradient: Array) -> float:
        """How far rounding of the predictors may move the losses at z."""
        pairs = zip(self.pieces, effects, strict=True)
        return sum(piece.rounding(z, own, gradient[piece.part]) for piece, own in pairs)

    def vanishes(self, z: Array, effects: Solved) -> bool:
        """Whether the losses of every column are negligible relative to those at one constant."""
        pairs = zip(self.pieces, effects, strict=True)
        unit = self.unit or float(np.max(np.abs(z), initial=0.0))
        return all(piece.vanishes(z, own, unit) for piece, own in pairs)

    def moved_by(self, away: float, gradient: Array) -> float:
        """How far the losses move at most where each predictor is off by ``away``."""
        return sum(piece.moved_by(away, gradient[piece.part]) for piece in self.pieces)

    @cached_property
    def unit(self) -> float:
        """The size of predictors that fit the data roughly, as they were where centring left 0."""
        origins = [piece.effects.origin for piece in self.pieces]
        farthest = [float(np.max(np.abs(own), initial=0.0)) for own in origins if own is not None]
        start = self.start()
        largest = float(np.max(np.abs(start), initial=0.0))
        if not 0.0 < largest < np.inf:
            return largest or max(farthest, default=0.0)
        return largest * float(np.sqrt(np.mean(np.square(start / largest))))

    def start(self) -> Array:
        """A nonsmooth natural parameter for every entry: where the published FPC begins."""
        return np.concatenate([piece.start() for piece in self.pieces])


@attrs.frozen(eq=False)
class SmoothedLoss(TwiceDifferentiable):
    """The envelopes of a loss, one for each entry: it stands where a likelihood stands.

    The Moreau envelope of f with stiffness beta is the least f(X) + beta/2 ||X - v||^2 over X. It
    is smooth, with the gradient ``Y = beta (v - X)`` at the minimiser X = prox(v), which is a
    subgradient of f at X, so that the conjugate of f is finite at Y. Terms are asked for it at
    v = K Z - c + multiplier / beta, a loss at its predictor in the place of K Z - c. ``step`` is
    1 / beta relative to the entry's scale and ``shift`` multiplier / beta.
    """

    inner: Any
    step: Array
    shift: Array

    quadratic = False
    smooth = True
    convex = True
    width = 1

    @property
    def curvature(self) -> float:
        """1 / the smallest step."""
        return 1.0 / float(self.step.min())

    @property
    def length_scale(self) -> float:
        """The smallest step: the width in z of a kink where the gradient jumps by 1."""
        return float(self.step.min())

    def value_and_gradient(self, z: Array, y: Array) -> tuple[Array, Array]:
        """e(v) and Y, unscaled."""
        shifted = z + self.shift
        nearest = self.inner.prox(shifted, y, self.step)
        away = shifted - nearest
        gradient = away / self.step
        return self.inner.value(nearest, y) + 0.5 * away * gradient, gradient

    def second_derivative(self, z: Array, y: Array) -> Array:
        """(1 - prox'(v)) / step."""
        return (1.0 - self.inner.prox_gradient(z + self.shift, y, self.step)) / self.step


def smoothed_piece(piece: Piece, multiplier: Array | None, stiffness: float) -> Piece:
    """A piece whose loss is replaced by its envelope; the same without a multiplier."""
    if multiplier is None:
        return piece
    scale = piece.scale * np.ones(piece.y.size)
    loss = SmoothedLoss(piece.likelihood, step=scale / stiffness, shift=multiplier / stiffness)
    return attrs.evolve(piece, likelihood=loss, scale=scale)
