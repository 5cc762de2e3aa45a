"""The entrywise part of a program: losses of all entries, the free effects solved out."""

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.effects import Effects, EntryEffects, described_effects
from mcframe.compile.equations import EffectSquares, SquaresAt
from mcframe.contracts.arrays import Array, IntArray, sizes_of
from mcframe.contracts.likelihood import (
    Conjugate,
    PointwiseLoss,
    TwiceDifferentiable,
    in_shape_of_gradients,
)
from mcframe.contracts.limits import CACHED_NUMBERS
from mcframe.contracts.rounding import RESULT_ROUNDING, SUM_ROUNDING, SUMMAND_ROUNDING, TINY
from mcframe.model import Layout

# The least second derivative that steps count with, relative to the curvature, and to the largest
# one where there is no bound on the curvature.
MIN_CURVATURE_SHARE, MIN_SHARE_OF_LARGEST = 0.1, 1e-6
# Moves that are extrapolated, in units of the length scale: momentum may be ten
# times as long as the step whose curvature is measured from there.
EXTRAPOLATION_RADIUS = 0.005
# Values whose spread is below the root of this share of their size are all the same.
EQUAL_VALUES_SPREAD = 1e-28


class BlockLossSummary(ABC):
    """The losses of one block as far as they are known without its entries, wherever these are."""

    likelihood: PointwiseLoss
    layout: Layout
    effects: Effects

    @property
    @abstractmethod
    def largest_scale(self) -> float:
        """The largest factor of a loss."""

    @property
    @abstractmethod
    def total_scale(self) -> float:
        """The sum of the factors of all losses."""

    @property
    @abstractmethod
    def largest_gradient(self) -> float:
        """The largest gradient at z = 0: effects may leave none of it but rounding."""

    @property
    def width(self) -> int:
        """The number of predictors of an entry."""
        return int(self.likelihood.width)

    @property
    def curvature(self) -> float:
        """The supremum of the second derivative in z; of no entry at all it is next to nothing."""
        return self.largest_scale * float(self.likelihood.curvature)

    @property
    def infimum(self) -> float:
        """A lower bound on the sum of all losses."""
        return self.total_scale * float(self.likelihood.infimum)

    @property
    def bounded_below(self) -> bool:
        """True where no entry's loss falls without end."""
        return bool(self.likelihood.bounded_below)

    def has_conjugate(self) -> bool:
        """True if there is a conjugate: not with parameters, which tie all entries together."""
        return isinstance(self.likelihood, Conjugate) and not self.layout.n_parameters

    @property
    def is_clipped(self) -> bool:
        """True if the domain of the conjugate has ends, and no sums of gradients have to stay."""
        if not isinstance(self.likelihood, Conjugate) or self.layout.size:
            return False
        return type(self.likelihood).nearest_gradient is not Conjugate.nearest_gradient


@attrs.frozen(eq=False)
class BlockLoss(BlockLossSummary):
    """``scale * l(z + offset + effects, y)`` for each entry of one block.

    ``rows``, ``columns`` and ``y`` have one element for each entry; ``scale`` is one number
    or one for each. ``part`` are the positions of its numbers among those of the whole loss, K of
    them for each entry of a likelihood over K columns. ``offset`` has the shape of z. For a
    location y is the value minus offset and origin.
    """

    likelihood: PointwiseLoss
    scale: Array | float
    y: Array
    rows: IntArray
    columns: IntArray
    part: slice
    layout: Layout = attrs.field(factory=Layout)
    offset: Array | None = None
    effects: EntryEffects = attrs.field(factory=EntryEffects)

    @classmethod
    def of(
        cls,
        layout: Layout,
        ridge: float = 0.0,
        origin: Array | None = None,
        whole: bool = True,
        equations: EffectSquares | None = None,
        **numbers: Any,
    ) -> "BlockLoss":
        """The losses with the effects that their block declares; ``whole`` if it has all entries.

        ``equations`` are those in which the effects take part.
        """
        block_loss = cls(layout=layout, **numbers)
        places = block_loss.rows, block_loss.columns
        effects = described_effects(
            layout, block_loss.likelihood, *places, ridge, origin, equations
        )
        effects = effects.checked(block_loss.likelihood, block_loss.y, block_loss.scale, whole)
        return attrs.evolve(block_loss, effects=effects)

    @cached_property
    def largest_gradient(self) -> float:
        """The largest gradient at z = 0: effects may leave none of it but rounding."""
        z = self.by_entries(np.zeros(self.n_numbers))
        gradients = np.abs(self.gradient_scale * self.likelihood.value_and_gradient(z, self.y)[1])
        return float(np.max(gradients, initial=0.0))

    @property
    def n_numbers(self) -> int:
        """Numbers of z in all."""
        return int(self.y.size) * self.width

    @property
    def largest_scale(self) -> float:
        """The largest factor of a loss."""
        return float(np.max(self.scale, initial=TINY))

    @property
    def total_scale(self) -> float:
        """The sum of all factors."""
        return float(np.sum(self.scale * np.ones(self.y.size)))

    @property
    def gradient_scale(self) -> Any:
        """The scale in the shape of the gradients."""
        return in_shape_of_gradients(self.scale, self.width)

    def by_entries(self, numbers: Array) -> Array:
        """Flat numbers as likelihoods take them: (N,), or (N, K) for K columns."""
        return numbers.reshape(-1, self.width) if self.width > 1 else numbers

    def offset_part(self, z: Array) -> Array:
        """The block's numbers of z, offsets added: (N,) or (N, K)."""
        numbers = self.by_entries(z[self.part])
        return numbers if self.offset is None else numbers + self.offset

    def solve(
        self, z: Array, warm: Array | None, squares: SquaresAt | None = None
    ) -> Array | None:
        """The best effects at z (an ``offset_part``); None for a block without any.

        With ``squares``, the best ones of the losses and of these.
        """
        return self.effects.solve(self.likelihood, z, self.y, self.scale, warm, squares)

    def evaluate(
        self,
        z: Array,
        warm: Array | None,
        out: Array,
        nearly: bool = False,
        squares: SquaresAt | None = None,
    ) -> tuple[float, Array | None]:
        """Losses at z (an ``offset_part``) and the best effects; gradients go into ``out``.

        With ``nearly``, if the ``warm`` effects are close enough, one Newton step is taken in the
        second-order expansion of the losses. Value and gradients are then off by the third and
        the second power of that step, which vanishes as the solver converges. ``squares`` are
        minimised with the losses, and are no part of the value.
        """
        correctable = warm is not None and not self.likelihood.differs_by_entry
        if nearly and correctable and self.effects.n_added and squares is None:
            start = self.effects.initial_effects(
                warm, lambda: float(np.max(np.abs(z), initial=0.0))
            )
            value = self.value_and_gradient(z, start, out)[0]
            correction = self.effects.correction(
                self.likelihood, z, self.y, self.scale, start, out
            )
            if correction is not None:
                best, added, gradients = correction
                out += gradients
                return value + added, best
        effects = self.solve(z, warm, squares)
        return self.value_and_gradient(z, effects, out)[0], effects

    def keeps_curvature(self, moved: Array) -> bool:
        """True where second derivatives stay much the same if z moves by so much."""
        if self.likelihood.differs_by_entry:  # an envelope, whose second derivative jumps
            return False
        longest = float(np.max(np.abs(moved), initial=0.0))
        return (
            self.likelihood.quadratic
            or longest <= EXTRAPOLATION_RADIUS * self.likelihood.length_scale
        )

    def predictor(self, z: Array, effects: Array | None) -> Array:
        """z (an ``offset_part``) plus the effects."""
        return self.effects.predictor(z, effects)

    def at(self, effects: Array | None) -> PointwiseLoss:
        """The likelihood with its parameters, if it has any."""
        return self.effects.likelihood(self.likelihood, effects)

    def value_and_gradient(
        self, z: Array, effects: Array | None, out: Array | None = None
    ) -> tuple[float, Array]:
        """The sum of the losses at z (an ``offset_part``) and effects, and the gradients, flat.

        The ridge on effects is part of the sum. A slice at a time, so that what a loss computes on
        its way stays in the cache. The gradients go into ``out``, if it is given.
        """
        gradients = np.empty(self.n_numbers) if out is None else out
        shaped = self.by_entries(gradients)
        likelihood, predictor = self.at(effects), self.predictor(z, effects)
        value = self.effects.cost(effects)
        for part in self.slices(likelihood):
            losses, derivatives = likelihood.value_and_gradient(predictor[part], self.y[part])
            scale = self.scale_of(part)
            if isinstance(scale, np.ndarray):
                value += float(np.dot(scale, losses))
                np.multiply(self.gradient_scale[part], derivatives, out=shaped[part])
            else:
                value += scale * float(np.sum(losses))
                np.multiply(scale, derivatives, out=shaped[part])
        return value, gradients

    def scale_of(self, part: slice) -> Array | float:
        """The factors of the losses of some entries, or the one of all."""
        return self.scale[part] if isinstance(self.scale, np.ndarray) else self.scale

    def slices(self, likelihood: PointwiseLoss) -> Iterator[slice]:
        """All entries in slices; at once where the loss differs from entry to entry."""
        length = max(self.y.size, 1) if likelihood.differs_by_entry else CACHED_NUMBERS
        for first in range(0, self.y.size, length):
            yield slice(first, first + length)

    def curvature_at(self, z: Array, effects: Array | None) -> float:
        """The curvature where it is bounded everywhere, else the largest one at these numbers."""
        return (
            self.curvature if np.isfinite(self.curvature) else self.largest_curvature(z, effects)
        )

    def largest_curvature(self, z: Array, effects: Array | None) -> float:
        """The largest second derivative at z (an ``offset_part``), 0 without an entry."""
        likelihood = self.at(effects)
        if not isinstance(likelihood, TwiceDifferentiable):
            return 0.0
        second = self.gradient_scale * likelihood.second_derivative(
            self.predictor(z, effects), self.y
        )
        return float(np.max(second, initial=0.0))

    def newton_weights(
        self, z: Array, effects: Array | None, highest: float | None = None
    ) -> Array:
        """The second derivative for each number of z (an ``offset_part``), one if all are equal.

        The curvature where there is none. That of a quadratic is the same everywhere, but for a
        risk's, which depends on the label. Nowhere below a tenth of the curvature: where a loss is
        flat a Newton step has no length. Where there is no bound on the curvature, nowhere below a
        millionth of the largest one. Where these are some of the rows, ``highest`` is the
        curvature or the largest one of all.
        """
        likelihood = self.at(effects)
        if isinstance(likelihood, TwiceDifferentiable) and self.width == 1:
            alike = likelihood.quadratic and not likelihood.reads_unlabeled
            if alike and not np.ndim(self.scale) and z.size:
                return np.asarray(self.scale * likelihood.second_derivative(z[:1], self.y[:1]))
            if not self.layout.n_parameters:
                second = self.scale * likelihood.second_derivative(
                    self.predictor(z, effects), self.y
                )
                bounded = np.isfinite(self.curvature)
                if highest is None:
                    highest = self.curvature if bounded else float(np.max(second, initial=0.0))
                second = np.maximum(
                    second, (MIN_CURVATURE_SHARE if bounded else MIN_SHARE_OF_LARGEST) * highest
                )
                return second[:1].copy() if np.all(second == second[:1]) else second
        scale = self.scale * np.ones(self.y.size)
        return np.repeat(scale * float(likelihood.curvature), self.width)

    def conjugate_at(self, z: Array, effects: Array | None) -> tuple[float, float]:
        """The conjugate at the gradients of z, <gradient, z> - loss, and the size of its summands.

        The effects' own gradients vanish, so that they add nothing to the product.
        """
        shifted = self.offset_part(z)
        value, gradient = self.value_and_gradient(shifted, effects)
        products = gradient * z[self.part]
        return float(np.sum(products)) - value, float(np.sum(np.abs(products))) + abs(value)

    def conjugate_of_entries(self, gradient: Array) -> tuple[float, float]:
        """The sum of the conjugates of all entries, which know of no effects, and of their sizes.

        At gradients of the scaled losses (flat).
        """
        total = size = 0.0
        gradients, by_entry = self.by_entries(gradient), np.ndim(self.scale)
        likelihood = self.likelihood
        assert isinstance(likelihood, Conjugate)
        for part in self.slices(self.likelihood):
            slice_gradients, factor = (
                gradients[part],
                self.gradient_scale[part] if by_entry else self.scale,
            )
            terms = likelihood.conjugate(slice_gradients / factor, self.y[part])
            terms = self.scale_of(part) * terms
            if self.offset is not None:
                terms = terms - (slice_gradients * self.offset[part]).reshape(terms.size, -1).sum(
                    axis=-1
                )
            total += float(np.sum(terms))
            size += float(np.sum(np.abs(terms)))
        return total, size

    def recession(self, moved: Array, effects: Array | None) -> Array:
        """lim (losses at Z + t D) / t as t grows, and the sum of the sizes of its summands.

        ``moved`` are the block's numbers of D, ``effects`` as large moves of the effects. Infinite
        where the likelihood does not say.
        """
        if not self.has_conjugate() or self.width > 1:
            return np.full(2, np.inf if np.any(moved) else 0.0)
        predictor_moves = self.predictor(moved, effects)
        likelihood = self.likelihood
        assert isinstance(likelihood, Conjugate)
        limits = self.scale * likelihood.recession(predictor_moves, self.y)
        return np.array([np.sum(limits), np.sum(np.abs(limits))])

    def allowed_excess(self, gradient: Array) -> float:
        """Bound on the change of the objective by the feasibility tolerance of equalities."""
        if not self.likelihood.indicator:
            return 0.0
        return float(np.abs(gradient) @ self.likelihood.feasibility_tolerance(self.y))

    def rounding(self, z: Array, effects: Array | None, gradient: Array) -> float:
        """A second-order bound on the change of the losses by rounding of the predictors at z.

        A predictor is a sum of which each summand is rounded.
        """
        if self.likelihood.indicator:
            return 0.0
        numbers, shifted = self.by_entries(z[self.part]), self.offset_part(z)
        sizes = np.abs(numbers) + np.abs(shifted) + np.abs(self.predictor(shifted, effects))
        if self.likelihood.location:
            sizes = sizes + sizes_of(self.y)
        steps = SUMMAND_ROUNDING * sizes
        first = float(np.sum(np.abs(gradient) * steps.ravel()))
        return first + float(np.sum(self.gradient_scale * self.rise(steps)))

    def rise(self, steps: Array) -> Array:
        """The most that steps of these lengths raise a loss from where its gradient is 0."""
        if not self.likelihood.smooth:
            return steps
        curvature = float(self.likelihood.curvature)
        return 0.5 * (curvature if np.isfinite(curvature) else 0.0) * np.square(steps)

    def vanishes(self, z: Array, effects: Array | None, unit: float) -> bool:
        """True if the losses of every column are negligible relative to those at one constant.

        If a constant fits a column exactly, they are compared with the losses of predictors that
        are off by a small part of a unit.
        """
        losses = self.by_columns(self.offset_part(z), effects)
        share = SUM_ROUNDING if self.likelihood.smooth else RESULT_ROUNDING
        negligible = self.scale * self.rise(np.array(RESULT_ROUNDING * unit))
        scales = np.broadcast_to(negligible, self.columns.shape)
        small = np.bincount(self.columns, weights=scales)
        return bool(
            np.all(losses <= np.where(self.at_constants, share * self.at_constants, small))
        )

    def by_columns(self, z: Array, effects: Array | None) -> Array:
        """The sizes of losses at z (an ``offset_part``) and effects, summed over each column."""
        losses = self.scale * np.abs(self.at(effects).value(self.predictor(z, effects), self.y))
        return np.bincount(self.columns, weights=losses).astype(np.float64)

    @cached_property
    def at_constants(self) -> Array:
        """The losses of each column at a constant: the mean of its starts or 0, the better one.

        If all values of a column are equal, its mean leaves nothing, and those at 0 are taken.
        """
        starts = self.start().reshape(-1, self.width)
        counts = np.maximum(np.bincount(self.columns), 1)
        means = np.stack([np.bincount(self.columns, weights=k) / counts for k in starts.T], axis=1)
        del starts  # as large as the data
        candidates = [
            self.at_numbers(means[self.columns].ravel()),
            self.at_numbers(np.zeros(self.columns.size * self.width)),
        ]
        alike = candidates[0] <= EQUAL_VALUES_SPREAD * candidates[1]
        return np.where(alike, candidates[1], np.minimum(*candidates))

    def at_numbers(self, numbers: Array) -> Array:
        """The finite losses of each column at these numbers without biases."""
        z = self.by_entries(numbers)
        z = z if self.offset is None else z + self.offset
        parameters = self.solve(z, None) if self.layout.n_parameters else None
        losses = np.abs(self.at(parameters).value(z, self.y))
        losses *= self.scale
        losses[~np.isfinite(losses)] = 0.0
        return np.bincount(self.columns, weights=losses).astype(np.float64)

    def moved_by(self, away: float, gradient: Array) -> float:
        """A second-order bound on the change of the losses if predictors change by ``away``."""
        first = away * float(np.sum(np.abs(gradient)))
        curvature = float(self.likelihood.curvature)
        if not np.isfinite(curvature):
            return first
        return first + 0.5 * curvature * self.total_scale * self.width * away**2

    def nearest_dual(self, gradient: Array, duals: Sequence[Array] = ()) -> Array:
        """Near gradients (flat) with a finite conjugate whose sums over effects vanish.

        Or sum up to minus the sums of dual matrices.
        """
        return self.effects.nearest_dual(gradient, self.nearest_gradient, duals)

    def nearest_gradient(self, gradient: Array) -> Array:
        """The nearest gradients (flat) at which the conjugate is finite."""
        gradients = self.by_entries(gradient)
        likelihood = self.likelihood
        assert isinstance(likelihood, Conjugate)
        unscaled = gradients / self.gradient_scale
        nearest = likelihood.nearest_gradient(unscaled, self.y)
        # What stays where it is stays to the last bit.
        scaled = np.where(nearest == unscaled, gradients, self.gradient_scale * nearest)
        return np.asarray(scaled).ravel()

    def start(self) -> Array:
        """An approximate natural parameter for every number, flat."""
        start = np.asarray(self.likelihood.start(self.y))
        if self.offset is not None:
            start = start - self.offset
        return start.ravel()


# The effects of each block, None where it has none.
BlockEffects = tuple[Array | None, ...]
FenchelConjugates = tuple[tuple[float, float] | None, ...]
# Sums of the dual matrices of terms of predictors over the effects of a block, and the sums of
# their sizes, by the number of the block.
SumsOfTerms = Mapping[int, tuple[Array, Array]]
NO_SUMS: SumsOfTerms = {}


def with_sums(
    of_entries: list[tuple[Array, Array]], of_terms: SumsOfTerms
) -> list[tuple[Array, Array]]:
    """Sums and sizes of entries by block and effect, with those of terms."""
    totals = list(of_entries)
    for k, (sums, sizes) in of_terms.items():
        totals[k] = totals[k][0] + sums, totals[k][1] + sizes
    return totals


@attrs.frozen(eq=False)
class LossAt:
    """F at some z: its value, its gradient at every number, and the effects (None without any)."""

    value: float
    gradient: Array
    effects: BlockEffects


class Loss(ABC):
    """F(z) = min over effects of the sum over all entries of scale * l(z + effects, y).

    What is known of it by sums over entries, wherever these are. Entry values z, and gradients,
    are arrays, or ``LazyEntryValues`` of entries in partitions. Partial minimisation keeps F
    convex and does not raise its curvature: the Hessian in z is a Schur complement of the joint
    one.
    """

    block_losses: tuple[BlockLossSummary, ...]

    @property
    def smooth(self) -> bool:
        """True if every block has a gradient."""
        return all(block_loss.likelihood.smooth for block_loss in self.block_losses)

    @property
    def convex(self) -> bool:
        """True if every block is convex."""
        return all(block_loss.likelihood.convex for block_loss in self.block_losses)

    def curvatures_at(self, z: Any, effects: BlockEffects) -> list[float]:
        """Each block's curvature: its bound, or the largest at these entries if there is none.

        A first step length for backtracking, where there is no proven one.
        """
        bounds = [block_loss.curvature for block_loss in self.block_losses]
        if np.all(np.isfinite(bounds)):
            return bounds
        pairs = zip(bounds, self.largest_curvatures(z, effects), strict=True)
        return [bound if np.isfinite(bound) else largest for bound, largest in pairs]

    def ask_ahead(self, gradient: Any) -> None:  # noqa: B027
        """Say that conjugates at a gradient are needed soon; in memory that is nothing."""

    def conjugate(
        self,
        gradient: Any,
        scale: float,
        fenchel_conjugates: FenchelConjugates,
        of_terms: SumsOfTerms = NO_SUMS,
    ) -> tuple[float, float]:
        """F* at gradients whose sums vanish where an effect is free, and sum of |summands|.

        Terms of predictors have dual matrices whose sums over effects (``of_terms``) count with
        those of the gradients: it is the sums of both that vanish.

        The second number times the unit roundoff bounds the rounding error of the first. For a
        block without a conjugate, ``fenchel_conjugates`` has F* at S, and the gradients are
        ``scale`` c times S.
        As F* is convex, F*(c S) <= c F*(S) + (1 - c) F*(0), with F*(0) = -inf F.
        """
        total = size = 0.0
        of_entries = self.conjugates_of_entries(gradient)  # which may come with the sums
        sums = with_sums(self.sums_by_effect(gradient), of_terms)
        for block_loss, pair, of_block, by_effect in zip(
            self.block_losses, fenchel_conjugates, of_entries, sums, strict=True
        ):
            if pair is None:
                of_effects = block_loss.effects.conjugate_of_sums(
                    *by_effect, block_loss.largest_gradient
                )
                total, size = (
                    total + of_block[0] + of_effects[0],
                    size + of_block[1] + of_effects[1],
                )
            else:
                lowest = block_loss.infimum if scale < 1.0 else 0.0
                total += scale * pair[0] - (1.0 - scale) * lowest
                size += pair[1] + abs(lowest)
        return total, size

    def imbalance(
        self, gradient: Any, effects: BlockEffects, of_terms: SumsOfTerms = NO_SUMS
    ) -> float:
        """Bound on the change of the objective by sums over free effects that do not vanish."""
        sums = with_sums(self.sums_by_effect(gradient), of_terms)
        triples = zip(self.block_losses, effects, sums, strict=True)
        return sum(
            block_loss.effects.imbalance_of_sums(sum_by_effect, block_effects)
            for block_loss, block_effects, (sum_by_effect, _) in triples
        )

    @abstractmethod
    def largest_curvatures(self, z: Any, effects: BlockEffects) -> tuple[float, ...]:
        """The largest second derivative of each block at z."""

    @abstractmethod
    def recession(self, moved: Any, effects: BlockEffects) -> Array:
        """lim F(z + t moved) / t as t grows for moves of effects, and the size of its summands.

        Pieces that are bounded below do not move.
        """

    @abstractmethod
    def sums_by_effect(self, gradient: Any) -> list[tuple[Array, Array]]:
        """The sums of gradients and of their sizes over each effect, of each block."""

    @abstractmethod
    def conjugates_of_entries(self, gradient: Any) -> Iterable[Any]:
        """The sums of the conjugates of entries, and of their sizes, of blocks that have them."""


@attrs.frozen(eq=False)
class EntryLoss(Loss):
    """The losses of entries in memory; z holds the numbers block after block."""

    block_losses: tuple[BlockLoss, ...]

    def largest_curvatures(self, z: Array, effects: BlockEffects) -> tuple[float, ...]:
        """The largest second derivative of each block at z."""
        pairs = zip(self.block_losses, effects, strict=True)
        return tuple(
            block_loss.largest_curvature(block_loss.offset_part(z), block_effects)
            for block_loss, block_effects in pairs
        )

    def recession(self, moved: Array, effects: BlockEffects) -> Array:
        """The limit and its size of all blocks that may fall."""
        pairs = zip(self.block_losses, effects, strict=True)
        limits = [p.recession(moved[p.part], e) for p, e in pairs if not p.bounded_below]
        return np.sum(limits, axis=0)

    def evaluate(
        self,
        z: Array,
        warm: BlockEffects | None = None,
        fixed: BlockEffects | None = None,
        nearly: bool = False,
        solve: bool = True,
        squares: Mapping[int, SquaresAt] | None = None,
        fixed_blocks: Container[int] = (),
    ) -> LossAt:
        """F and its gradients at the entries' z, all effects optimal.

        ``warm`` are effects from a nearby point: the start of their solution, or with ``nearly``
        of one Newton step where that suffices. ``fixed`` effects are not solved for, but used as
        they are: those of blocks without a gradient and of ``fixed_blocks``, or those of all
        blocks unless ``solve``. By
        the number of a block ``squares`` has what terms of predictors add to its losses, for
        which effects are the best ones then.
        """
        value = 0.0
        gradient = np.empty_like(z)
        solved: list[Array | None] = []
        for k, block_loss in enumerate(self.block_losses):
            block_z, out = block_loss.offset_part(z), gradient[block_loss.part]
            if fixed is not None and not (
                solve and block_loss.likelihood.smooth and k not in fixed_blocks
            ):
                effects = fixed[k]
                losses = block_loss.value_and_gradient(block_z, effects, out)[0]
            else:
                start = None if warm is None else warm[k]
                added = None if squares is None else squares.get(k)
                losses, effects = block_loss.evaluate(block_z, start, out, nearly, added)
            value += losses
            solved.append(effects)
        return LossAt(value, gradient, tuple(solved))

    def evaluate_at(self, z: Array, effects: BlockEffects) -> LossAt:
        """The joint loss and its gradients at given effects, which stay as they are."""
        return self.evaluate(z, fixed=effects, solve=False)

    def sums_by_effect(self, gradient: Array) -> list[tuple[Array, Array]]:
        """The sums of gradients and of their sizes over each effect, of each block."""
        pairs = []
        for block_loss in self.block_losses:
            block_gradient, design = gradient[block_loss.part], block_loss.effects
            sizes = design.sum_by_effect(np.abs(block_gradient)) if design.n_added else np.zeros(0)
            pairs.append((design.sum_by_effect(block_gradient), sizes))
        return pairs

    def conjugates_of_entries(self, gradient: Array) -> tuple[tuple[float, float] | None, ...]:
        """The sums of the conjugates of entries, and of their sizes, of blocks that have them."""
        return tuple(
            block_loss.conjugate_of_entries(gradient[block_loss.part])
            if block_loss.has_conjugate()
            else None
            for block_loss in self.block_losses
        )

    def fenchel_conjugates(self, z: Array, effects: BlockEffects) -> FenchelConjugates:
        """F*(S) = <S, z> - F(z) by Fenchel's equality, of blocks without a conjugate.

        S is their gradient at z.

        Each with the size of its summands; None for a block with a conjugate.
        """
        return tuple(
            None
            if block_loss.has_conjugate() or not block_loss.likelihood.smooth
            else block_loss.conjugate_at(z, block_effects)
            for block_loss, block_effects in zip(self.block_losses, effects, strict=True)
        )

    def nearest_gradient(
        self, gradient: Array, duals: Mapping[int, Sequence[Array]] | None = None
    ) -> Array:
        """The nearest gradients with finite conjugates whose sums over effects vanish.

        With those of the dual matrices of terms of predictors, by block.
        """
        nearest = gradient.copy()
        for k, block_loss in enumerate(self.block_losses):
            if block_loss.has_conjugate():
                block_duals = () if duals is None else duals.get(k, ())
                nearest[block_loss.part] = block_loss.nearest_dual(
                    gradient[block_loss.part], block_duals
                )
        return nearest

    def clip(self, gradient: Array) -> Array:
        """The gradients of blocks without effects moved into their domains.

        Rounding leaves some just outside. Those with effects stay, since their sums must.
        """
        clipped_losses = [p for p in self.block_losses if p.is_clipped]
        if not clipped_losses:
            return gradient  # no copy of an array of all entries
        clipped = gradient.copy()
        for block_loss in clipped_losses:
            clipped[block_loss.part] = block_loss.nearest_gradient(gradient[block_loss.part])
        return clipped

    def centre(self, gradient: Array) -> Array:
        """The gradients with what rounding left of the sums over each effect taken off."""
        if not any(block_loss.layout.size for block_loss in self.block_losses):
            return gradient
        parts = [
            block_loss.effects.centre(gradient[block_loss.part])
            for block_loss in self.block_losses
        ]
        return parts[0].copy() if len(parts) == 1 else np.concatenate(parts)

    def allowed_excess(self, gradient: Array) -> float:
        """Bound on the change of the objective by the feasibility tolerance of equalities."""
        return sum(
            block_loss.allowed_excess(gradient[block_loss.part])
            for block_loss in self.block_losses
        )

    def rounding(self, z: Array, effects: BlockEffects, gradient: Array) -> float:
        """A bound on the change of the losses by rounding of the predictors at z."""
        pairs = zip(self.block_losses, effects, strict=True)
        return sum(
            block_loss.rounding(z, block_effects, gradient[block_loss.part])
            for block_loss, block_effects in pairs
        )

    def vanishes(self, z: Array, effects: BlockEffects) -> bool:
        """True if the losses of every column are negligible relative to those at one constant."""
        pairs = zip(self.block_losses, effects, strict=True)
        unit = self.unit or float(np.max(np.abs(z), initial=0.0))
        return all(
            block_loss.vanishes(z, block_effects, unit) for block_loss, block_effects in pairs
        )

    def moved_by(self, away: float, gradient: Array) -> float:
        """A bound on the change of the losses where each predictor changes by ``away``."""
        return sum(
            block_loss.moved_by(away, gradient[block_loss.part])
            for block_loss in self.block_losses
        )

    @cached_property
    def unit(self) -> float:
        """The size of predictors that fit the data roughly, as they were where centring left 0."""
        origins = [block_loss.effects.origin for block_loss in self.block_losses]
        farthest = [
            float(np.max(np.abs(origin), initial=0.0)) for origin in origins if origin is not None
        ]
        start = self.start()
        largest = float(np.max(np.abs(start), initial=0.0))
        if not 0.0 < largest < np.inf:
            return largest or max(farthest, default=0.0)
        return largest * float(np.sqrt(np.mean(np.square(start / largest))))

    def start(self) -> Array:
        """An approximate natural parameter for every entry: where the published FPC begins."""
        return np.concatenate([block_loss.start() for block_loss in self.block_losses])


@attrs.frozen(eq=False)
class SmoothedLoss(PointwiseLoss, TwiceDifferentiable):
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

    differs_by_entry = True

    @property
    def curvature(self) -> float:
        """1 / the smallest step."""
        return 1.0 / float(self.step.min())

    @property
    def infimum(self) -> float:
        """The infimum of the loss."""
        return float(self.inner.infimum)

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


def smoothed_block_loss(
    block_loss: BlockLoss, multiplier: Array | None, stiffness: float
) -> BlockLoss:
    """The losses of a block replaced by their envelopes; the same without a multiplier."""
    if multiplier is None:
        return block_loss
    scale = block_loss.scale * np.ones(block_loss.y.size)
    loss = SmoothedLoss(
        block_loss.likelihood, step=scale / stiffness, shift=multiplier / stiffness
    )
    return attrs.evolve(block_loss, likelihood=loss, scale=scale)
