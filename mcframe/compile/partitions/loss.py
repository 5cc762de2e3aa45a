"""The losses of all partitions: what ``EntryLoss`` answers, by sums of what partitions answer."""

from typing import Any

import attrs
import numpy as np

from mcframe.compile.effects.effects import PROJECTIONS
from mcframe.compile.loss import EntryLoss, Known, Loss, LossAt
from mcframe.compile.partitions.effects import EffectsInParts, effect_sums
from mcframe.compile.partitions.executor import Later, Partitions
from mcframe.compile.partitions.part import Part
from mcframe.compile.partitions.values import LOSS, PART, EntryValues
from mcframe.compile.piece import BlockLoss
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Conjugate
from mcframe.model import Layout

# At so many gradients the sums of conjugates are remembered: those of a certificate.
REMEMBERED = 4


@attrs.frozen(eq=False)
class PartitionedPiece(BlockLoss):
    """The losses of one block, no entry of which is here."""

    likelihood: Any
    layout: Layout
    largest_scale: float
    total_scale: float
    n_numbers: int
    largest_gradient: float
    effects: EffectsInParts


@attrs.frozen(eq=False)
class PartitionedLoss(Loss):
    """F(z) = min over effects of the sum over all entries, of z in partitions.

    Gradients are ``EntryValues``. Biases of columns are solved for by sums of gradients over
    columns, a round of tasks a Newton step; effects of rows within the partitions of these.
    """

    partitions: Partitions
    pieces: tuple[PartitionedPiece, ...]
    unit: float
    conjugates: dict[str, Later] = attrs.field(factory=dict)  # of some gradients, by their keys

    def for_tasks(self, effects: tuple[Array | None, ...]) -> tuple[Any, ...]:
        """The effects of all pieces as tasks take them."""
        return tuple(p.effects.cut(own) for p, own in zip(self.pieces, effects, strict=True))

    def largest_curvatures(
        self, z: EntryValues, effects: tuple[Array | None, ...]
    ) -> tuple[float, ...]:
        """The largest second derivative of each piece at z."""
        asked = EntryLoss.largest_curvatures, LOSS, z, self.for_tasks(effects)
        return tuple(max(own) for own in zip(*self.partitions.each(*asked), strict=True))

    def evaluate(
        self,
        z: EntryValues,
        warm: tuple[Array | None, ...] | None = None,
        given: tuple[Array | None, ...] | None = None,
        nearly: bool = False,
    ) -> LossAt:
        """F and its gradients at z, all effects optimal, those of nearby points to begin with."""
        warm = (None,) * len(self.pieces) if warm is None else warm
        pairs = zip(self.pieces, warm, strict=True)
        solved = [piece.effects.solve(z, own) for piece, own in pairs]
        effects = tuple(own for own, _ in solved)
        value = solved[0][1]
        if len(solved) == 1 and value is not None:  # found with the effects: no round for it
            gradients: Any = z.changed(gradient_at, LOSS, z, self.for_tasks(effects))
            return LossAt(value + self.ridges(effects), gradients, effects)
        return self.evaluate_at(z, effects)

    def evaluate_at(self, z: EntryValues, given: tuple[Array | None, ...]) -> LossAt:
        """The joint loss and its gradients at given effects, which stay as they are."""
        point = z, self.for_tasks(given)
        gradients: Any = z.changed(gradient_at, LOSS, *point)
        ridges = self.ridges(given)
        value: Any = self.partitions.later(
            value_of, PART, *point, gradients.key, change=lambda losses: losses + ridges
        )
        return LossAt(value, gradients, given)

    def ridges(self, effects: tuple[Array | None, ...]) -> float:
        """The ridges on biases, which the parts leave out."""
        pairs = zip(self.pieces, effects, strict=True)
        return sum(piece.effects.cost(own) for piece, own in pairs if piece.layout.n_biases)

    def sums_by_effect(self, gradient: EntryValues) -> list[tuple[Array, Array]]:
        """The sums of gradients and of their sizes over each effect, of each piece."""
        if not any(piece.layout.size for piece in self.pieces):
            return [(np.zeros(0), np.zeros(0)) for _ in self.pieces]
        found = self.partitions.sum(effect_sums, LOSS, gradient)
        return [(own.sums[0], own.sums[1]) for own in found]

    def ask_ahead(self, gradient: EntryValues) -> None:
        """Have conjugates at a gradient, and at 0, come with the next round."""
        self.conjugates_of_entries(0.0 * gradient)
        self.conjugates_of_entries(gradient)

    def conjugates_of_entries(self, gradient: EntryValues) -> Later:
        """The conjugates of entries at a gradient, which are asked for once."""
        found = self.conjugates.pop(gradient.key, None)
        found = found or self.partitions.later(EntryLoss.conjugates_of_entries, LOSS, gradient)
        self.conjugates[gradient.key] = found
        while len(self.conjugates) > REMEMBERED:
            del self.conjugates[next(iter(self.conjugates))]
        return found

    def known_conjugates(self, z: EntryValues, effects: tuple[Array | None, ...]) -> Known:
        """F*(S) = <S, z> - F(z) of the pieces without a conjugate, S their gradient at z."""
        if all(piece.has_conjugate() for piece in self.pieces):
            return (None,) * len(self.pieces)
        found = self.partitions.sum(EntryLoss.known_conjugates, LOSS, z, self.for_tasks(effects))
        known: Known = found
        return known

    def nearest_gradient(self, gradient: EntryValues) -> EntryValues:
        """Gradients close by at which conjugates are finite, by projections in turn.

        Into the domains of the losses, and to gradients whose sums over effects of columns vanish:
        a few rounds each.
        """
        inside = gradient.changed(repaired, LOSS, gradient)
        for _ in range(PROJECTIONS if any(map(bound_by_sums, self.pieces)) else 0):
            pairs = zip(self.pieces, self.sums_by_effect(inside), strict=True)
            freed = [
                p.effects.conjugate_of_sums(*own, 0.0)[0] for p, own in pairs if bound_by_sums(p)
            ]
            if np.all(np.isfinite(freed)):
                break
            inside = gradient.changed(repaired, LOSS, self.centre(inside))
        return inside

    def clip(self, gradient: EntryValues) -> EntryValues:
        """The gradients of pieces without effects moved into their domains, if these have ends."""
        bounded = any(
            piece.has_conjugate()
            and not piece.layout.size
            and type(piece.likelihood).nearest_gradient is not Conjugate.nearest_gradient
            for piece in self.pieces
        )
        return gradient.changed(EntryLoss.clip, LOSS, gradient) if bounded else gradient

    def centre(self, gradient: EntryValues) -> EntryValues:
        """The gradients with what rounding left of the sums over each effect taken off."""
        if not any(piece.layout.size for piece in self.pieces):
            return gradient
        sums = self.sums_by_effect(gradient)
        means = tuple(
            total / np.maximum(piece.effects.counts, 1)
            if piece.layout.n_biases and not piece.effects.tied and piece.effects.ridge is None
            else None
            for piece, (total, _) in zip(self.pieces, sums, strict=True)
        )
        moved = gradient.changed(less_means, LOSS, gradient, means)
        for piece in self.pieces:
            if piece.effects.tied and piece.effects.ridge is None:
                moved = piece.effects.centre(moved)
        return moved

    def rounding(
        self, z: EntryValues, effects: tuple[Array | None, ...], gradient: EntryValues
    ) -> float:
        """How far rounding of the predictors may move the losses at z."""
        found: Any = self.partitions.later(
            EntryLoss.rounding, LOSS, z, self.for_tasks(effects), gradient
        )
        return found

    def allowed_excess(self, gradient: EntryValues) -> float:
        """0: there are no equalities."""
        return 0.0

    def vanishes(self, z: EntryValues, effects: tuple[Array | None, ...]) -> bool:
        """False: it is not asked whether losses are nothing, so that a gap is never called 0."""
        return False

    def moved_by(self, away: float, gradient: EntryValues) -> float:
        """How far the losses move at most where each predictor is off by ``away``."""
        found: Any = self.partitions.later(EntryLoss.moved_by, LOSS, away, gradient)
        return found


def bound_by_sums(piece: PartitionedPiece) -> bool:
    """Whether conjugates are finite only where sums of gradients over columns vanish."""
    return bool(piece.layout.n_biases) and piece.effects.ridge is None and piece.has_conjugate()


def gradient_at(loss: EntryLoss, z: Array, effects: tuple[Any, ...]) -> Array:
    """The gradients at predictors z and effects, which stay as they are."""
    return loss.evaluate_at(z, effects).gradient


def value_of(part: Part, z: Array, effects: tuple[Any, ...], key: str) -> float:
    """The losses there, the ridge on biases aside; a partition then has their gradients, too."""
    found = part.program.loss.evaluate_at(z, effects)
    part.keep(key, found.gradient)
    return found.value


def less_means(loss: EntryLoss, gradient: Array, means: tuple[Array | None, ...]) -> Array:
    """Gradients less a mean for each effect of the columns, or, in a partition, of its rows.

    ``means`` has an array for each block with biases that are no ridge's, and None for others.
    """
    centred = gradient.copy()
    for piece, own in zip(loss.pieces, means, strict=True):
        part = centred[piece.part]
        if own is not None:
            centred[piece.part] = piece.predictor(piece.by_entries(part), -own).ravel()
        elif not piece.layout.n_biases:  # biases without means have a ridge
            centred[piece.part] = piece.effects.centre(part)
    return centred


def repaired(loss: EntryLoss, gradient: Array) -> Array:
    """The nearest gradients inside of the domains of losses.

    Sums over effects of rows vanish then, those over effects of columns as they do by chance.
    """
    nearest = gradient.copy()
    for piece in loss.pieces:
        if piece.has_conjugate():
            nearer = piece.nearest_gradient if piece.layout.n_biases else piece.nearest_dual
            nearest[piece.part] = nearer(gradient[piece.part])
    return nearest
