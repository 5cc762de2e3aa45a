"""Entries that are spread over partitions, matrices of their values, and the losses of all."""

import operator
from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from typing import Any

import attrs
import numpy as np

from mcframe.compile.loss import BlockLossSummary, EntryLoss, FenchelConjugates, Loss, LossAt
from mcframe.compile.program import Entries, Iterate
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import PointwiseLoss
from mcframe.contracts.limits import MOST_STEPS
from mcframe.contracts.rounding import EPS
from mcframe.model import Layout
from mcframe.numerics.operators import LowRank, Operator, Scales
from mcframe.numerics.sampled import Sampled, gram_matrix_pays
from mcframe.numerics.unlabeled import ImplicitLoss, ImplicitLossAt
from mcframe.partitions.executor import DeferredSum, Partitions
from mcframe.partitions.part import (
    ARRAYS_KEPT,
    ENTRIES,
    LOSS,
    PART,
    ZEROS,
    LazyEntryValues,
    Part,
    PartAttribute,
    PartValue,
    RowSharded,
)
from mcframe.partitions.partitioned_effects import (
    EffectsInParts,
    EffectsSolution,
    effect_sums,
    gradient_change,
)
from mcframe.partitions.tall_matrix import (
    TallMatrix,
    cut_by_rows,
    product_of_columns,
    sharded_rows,
)
from mcframe.runtime.work import Work


@attrs.frozen(eq=False)
class PartitionedEntries:
    """``Entries`` that no process holds all of.

    Numbers at them are ``LazyEntryValues``; Z is in factors, whose rows go to their partitions.
    ``longest`` is the largest number of entries in a row or a column.
    """

    partitions: Partitions
    shape: tuple[int, int]
    size: int
    longest: int
    content: int  # a digest of places and values, however they are cut
    random_state: int = 0
    sparse: bool = True
    scales: Scales | None = None

    @property
    def rows_elsewhere(self) -> bool:
        """True: partitions have them."""
        return True

    @property
    def largest_scale(self) -> float:
        """The largest number of a Z whose W has entries of at most 1."""
        return 1.0 if self.scales is None else self.scales.largest

    @property
    def work(self) -> Work:
        """The counts of rounds and bytes until now."""
        return self.partitions.work

    @property
    def seed(self) -> tuple[int, ...]:
        """Whole numbers from which random starts are drawn."""
        return self.random_state, self.content

    def with_form(self, sparse: bool, random_state: int) -> "PartitionedEntries":
        """The entries with a seed; Z stays in factors."""
        return attrs.evolve(self, random_state=random_state)

    def iterate(self, latent: LowRank) -> Iterate:
        """A Z with its numbers here."""
        numbers: Any = self.of(latent)
        return Iterate(latent, numbers)

    def of(self, latent: LowRank) -> LazyEntryValues:
        """The numbers of U V' here.

        Of a U that is a sum of stored rows times small matrices these matrices go over to V,
        unless the rows of U themselves take fewer multiplications.
        """
        matrix: Any = latent.left
        parts = [sharded_rows(latent)]
        if isinstance(matrix, TallMatrix):
            n_rows, width, n_stored = *matrix.shape, len(matrix.summands)
            if (n_stored - 1) * self.size <= n_stored * n_rows * width:
                parts = [
                    PartValue(LowRank, (RowSharded(rows), latent.right @ factor.T))
                    for rows, factor in matrix.summands
                ]
        numbers = (PartValue(Entries.of, (ENTRIES, part)) for part in parts)
        total = reduce(lambda one, other: PartValue(operator.add, (one, other)), numbers)
        return LazyEntryValues(total.function, total.arguments, size=self.size)

    def rows_of(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """The answers, k numbers an item: they stay with the partitions if columns are fewer."""
        n_rows, n_columns = self.shape
        if n_rows <= n_columns:
            return self.partitions.concatenate(question, *arguments)
        return TallMatrix.of(self.partitions, question, *arguments)

    def matrix(
        self, numbers: LazyEntryValues, blocks: Sequence[Any] = (), others: Sequence[Any] = ()
    ) -> "PartitionedMatrix":
        """The matrix with these entry values, 0 elsewhere, plus gradients of unlabeled cells."""
        assert not blocks
        return PartitionedMatrix(self, numbers, tuple(others))

    def less(
        self,
        numbers: LazyEntryValues,
        parts: Sequence[tuple[LazyEntryValues, LazyEntryValues]],
        rows: Array,
        columns: Array,
    ) -> LazyEntryValues:
        """Numbers here less shares of others, p pairs of which one goes by rows, one by columns.

        ``rows`` are the shares of each row (n_rows x p), or of none (0 x p), ``columns`` those of
        each column.
        """
        shares = RowSharded(rows) if len(rows) else rows, columns
        return numbers.changed(Entries.less, ENTRIES, numbers, tuple(parts), *shares)

    def squared_length(self, latent: LowRank) -> Any:
        """The square of the Frobenius norm of W, which comes with the next round."""
        matrix: Any = latent.left
        if not isinstance(matrix, TallMatrix):
            return latent.squared_length
        left, squares = matrix.parts, latent.right.T @ latent.right
        return self.partitions.later(
            product_of_columns, left, left, change=lambda product: np.sum(product * squares)
        )

    def dot(self, numbers: LazyEntryValues, others: LazyEntryValues) -> float:
        """The sum of the products of numbers here."""
        return float(self.partitions.sum(np.dot, numbers, others))

    def norm(self, numbers: LazyEntryValues) -> float:
        """The Euclidean norm of numbers here."""
        return float(np.sqrt(self.dot(numbers, numbers)))

    def finite(self, numbers: LazyEntryValues) -> bool:
        """True where all numbers here are finite."""
        return all(self.partitions.map_partitions(Entries.finite, ENTRIES, numbers))


@attrs.define(eq=False, slots=False)
class PartitionedMatrix(Operator):
    """A sparse matrix whose rows are in partitions: their products below each other, or added.

    A round of tasks a product, and one for A'A V.
    """

    entries: PartitionedEntries
    values: LazyEntryValues
    background: tuple[
        tuple[PartValue, float], ...
    ] = ()  # and shares of gradients of unlabeled cells
    square: "PartitionedSquare | None" = None  # of the matrix that this is ``factor`` times
    factor: float = 1.0

    @cached_property
    def parts(self) -> PartValue:
        """The rows of the matrix that each partition has."""
        return PartValue(matrix_of, (ENTRIES, self.values, self.background))

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.entries.shape

    @property
    def seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of the entries."""
        return self.entries.seed

    @cached_property
    def rounding(self) -> float:
        """The rounding of a sum of as many products as the longest row or column has entries.

        Unlabeled cells add the rounding of the products of all parts, and as much again for the
        sums over the partitions.
        """
        of_entries = EPS * (self.entries.longest + 8) * self.norm
        if not self.background:
            return of_entries
        return of_entries + 2.0 * float(self.entries.partitions.sum(rounding_of, self.background))

    @property
    def norm(self) -> float:
        """A bound on the Frobenius norm, which is exact by A'A where that is known."""
        if self.square is None or self.square.gram is None:
            return self.entries.largest_scale * self.entries.norm(self.values)
        return abs(self.factor) * float(np.sqrt(np.trace(self.square.gram.value)))

    def multiple(self, factor: float) -> "PartitionedMatrix":
        """The matrix times a factor."""
        self.square = self.square or PartitionedSquare(self.entries.partitions, self.parts)
        background = tuple((unlabeled, factor * share) for unlabeled, share in self.background)
        values = factor * self.values
        return PartitionedMatrix(
            self.entries, values, background, self.square, factor * self.factor
        )

    def _matmat(self, block: Array) -> Array:
        return self.entries.rows_of(operator.matmul, self.parts, block)

    def _rmatmat(self, block: Array) -> Array:
        return self.entries.partitions.sum(Operator.rmatmat, self.parts, cut_by_rows(block))

    def gram_within(self, block: Array) -> Array:
        """V'A'A V, which needs no rows of A V in one place."""
        return self.entries.partitions.sum(Operator.gram_within, self.parts, block)

    def relative_falls(
        self, parts: Sequence[Any], right: Array, squares: Array, with_rows: bool = True
    ) -> tuple[Array, Array]:
        """The falls by shares of rows, from their partitions, and of columns, as sums."""
        pairs = tuple((rows.parts, columns.parts) for rows, columns in parts)
        of_rows, of_columns = self.entries.partitions.rows_and_sum(
            Operator.relative_falls, self.parts, pairs, right, squares, with_rows
        )
        return np.concatenate(of_rows, axis=1), of_columns

    def gram_with(self, block: Array, of_rows: bool = False) -> tuple[Array, Array] | None:
        """A'A and A'U where A has few columns: a round in the place of dozens."""
        if of_rows:
            return None
        self.ask_ahead()
        if self.square is None or self.square.gram is None:
            return None
        images = self.factor * self.square.images_of(block)
        return self.factor**2 * self.square.gram.value, images

    def ask_ahead(self) -> None:
        """Have A'A, where it is written out, come with the next round."""
        if not self.background and gram_matrix_pays(self.entries.size, *self.shape):
            self.square = self.square or PartitionedSquare(self.entries.partitions, self.parts)
            self.square.asked()

    def gram(self, block: Array) -> Array:
        """A'A V, which needs no rows of A V in one place."""
        return self.entries.partitions.sum(gram_product, self.parts, block)


@attrs.define(eq=False)
class PartitionedSquare:
    """A'A and the last A'U of a matrix A, each asked for once: what its multiples share."""

    partitions: Partitions
    matrix: PartValue
    gram: DeferredSum | None = None
    block: Array = attrs.field(factory=lambda: np.zeros((0, 0)))
    images: Array = attrs.field(factory=lambda: np.zeros((0, 0)))

    def asked(self) -> DeferredSum:
        """A'A, which comes with the next round."""
        if self.gram is None:
            self.gram = self.partitions.later(Sampled.written_gram, self.matrix)
        return self.gram

    def images_of(self, block: Array) -> Array:
        """A'U."""
        if not block.shape[1]:
            assert self.gram is not None
            return np.zeros((self.gram.value.shape[0], 0))
        if not np.array_equal(block, self.block):
            self.images = self.partitions.sum(Operator.rmatmat, self.matrix, cut_by_rows(block))
            self.block = block
        return self.images


def matrix_of(
    entries: Entries, values: Array, background: tuple[tuple[ImplicitLossAt, float], ...]
) -> Operator:
    """The matrix with these entry values, and with shares of the gradients of unlabeled cells."""
    others = [
        gradient for unlabeled, share in background for gradient in unlabeled.gradients(share)
    ]
    return entries.matrix(values, others=others)


def rounding_of(background: tuple[tuple[ImplicitLossAt, float], ...]) -> float:
    """The rounding error in the norm of products of unlabeled cells, at most."""
    return sum(
        gradient.rounding
        for unlabeled, share in background
        for gradient in unlabeled.gradients(share)
    )


def gram_product(matrix: Operator, block: Array) -> Array:
    """S'S V."""
    return matrix.gram(block)


def background_at(latent: PartValue, z: LazyEntryValues) -> PartValue:
    """The cells of a partition's rows that are no entries, at Z with entry values z."""
    return PartValue(ImplicitLoss.at, (PartAttribute("program.background"), latent, z))


@attrs.frozen(eq=False)
class PartitionedImplicitLoss:
    """``ImplicitLoss`` of cells whose rows are in partitions.

    Each partition has the background of its own rows: losses, conjugates and curvatures are sums
    over the partitions, as are products and normal equations of columns, those of rows stay
    with their partition. Of squared losses these are Gram matrices and thin products.
    """

    partitions: Partitions

    #: None is read one by one, and nothing is held of them.
    n_read, held_bytes = 0, 0

    def recession(self, moved: LowRank) -> Array:
        """0 and its size: no squared loss falls, and no other one has cells in partitions."""
        return np.zeros(2)

    def at(self, latent: LowRank, z: LazyEntryValues) -> "PartitionedImplicitLossAt":
        """The background at Z, whose entries are z."""
        return PartitionedImplicitLossAt(self.partitions, background_at(sharded_rows(latent), z))


@attrs.frozen(eq=False)
class PartitionedImplicitLossAt:
    """The background at a point, which a program without such cells does not have."""

    partitions: Partitions
    parts: PartValue  # the ``ImplicitLossAt`` of each partition

    @cached_property
    def value(self) -> float:
        """The sum of the losses."""
        return float(self.partitions.sum(getattr, self.parts, "value"))

    def excess_gradients(self, gradients: LazyEntryValues, share: float = 1.0) -> LazyEntryValues:
        """Gradients of the entries less what ``gradients`` of ``share`` times this has there."""
        return gradients.changed(ImplicitLossAt.excess_gradients, self.parts, gradients, share)

    def gradients(self, share: float = 1.0) -> list[tuple[PartValue, float]]:
        """``share`` times the gradients of all cells, those where entries are included."""
        return [(self.parts, share)]

    @cached_property
    def column_products(self) -> Array:
        """T' U for Z = U V' and the gradients T, those where entries are included."""
        return np.asarray(self.partitions.sum(getattr, self.parts, "column_products"))

    def curvature_along(
        self, after: "PartitionedImplicitLossAt", moved: LowRank, z: LazyEntryValues
    ) -> float:
        """Twice the height of F above its tangent after Z moves by D with entries z."""
        move = sharded_rows(moved), z
        return float(
            self.partitions.sum(ImplicitLossAt.curvature_along, self.parts, after.parts, *move)
        )

    def conjugate(self, share: float) -> tuple[float, float]:
        """Sum of the conjugates at ``share`` times the gradients, and a size for its rounding."""
        total, size = self.partitions.sum(ImplicitLossAt.conjugate, self.parts, share)
        return total, size


@attrs.frozen(eq=False)
class PartitionedBlockLoss(BlockLossSummary):
    """The losses of one block, no entry of which is here."""

    likelihood: PointwiseLoss
    layout: Layout
    largest_scale: float
    total_scale: float
    n_numbers: int
    largest_gradient: float
    effects: EffectsInParts


@attrs.frozen(eq=False)
class PartitionedLoss(Loss):
    """F(z) = min over effects of the sum over all entries, of z in partitions.

    Gradients are ``LazyEntryValues``. Biases of columns are solved for by sums of gradients over
    columns, a round of tasks a Newton step; effects of rows within the partitions of these.
    """

    partitions: Partitions
    block_losses: tuple[PartitionedBlockLoss, ...]
    unit: float
    conjugates: dict[str, DeferredSum] = attrs.field(
        factory=dict
    )  # of some gradients, by their keys
    sums: dict[str, DeferredSum] = attrs.field(factory=dict)  # over effects, likewise

    def for_tasks(self, effects: tuple[Array | None, ...]) -> tuple[Any, ...]:
        """The effects of all blocks as tasks take them."""
        return tuple(
            p.effects.cut(block_effects)
            for p, block_effects in zip(self.block_losses, effects, strict=True)
        )

    def largest_curvatures(
        self, z: LazyEntryValues, effects: tuple[Array | None, ...]
    ) -> tuple[float, ...]:
        """The largest second derivative of each block at z."""
        asked = EntryLoss.largest_curvatures, LOSS, z, self.for_tasks(effects)
        return tuple(
            max(curvatures)
            for curvatures in zip(*self.partitions.map_partitions(*asked), strict=True)
        )

    def recession(self, moved: LazyEntryValues, effects: tuple[Array | None, ...]) -> Array:
        """The limit of F along a move, and the size of its summands."""
        asked = EntryLoss.recession, LOSS, moved, self.for_tasks(effects)
        return np.asarray(self.partitions.sum(*asked))

    def evaluate(
        self,
        z: LazyEntryValues,
        warm: tuple[Array | None, ...] | None = None,
        fixed: tuple[Array | None, ...] | None = None,
        nearly: bool = False,
    ) -> LossAt:
        """F and its gradients at z, all effects optimal, those of nearby points to begin with.

        With ``nearly`` effects move by one Newton step where that suffices, as in memory: a round
        for those of columns, which answers with the losses, too.
        """
        warm = (None,) * len(self.block_losses) if warm is None else warm
        pairs = list(zip([p.effects for p in self.block_losses], warm, strict=True))
        entries = [of_block.entries_asked_ahead(z, start, nearly) for of_block, start in pairs]
        solutions = [
            of_block.solution(at_block, start)
            for at_block, (of_block, start) in zip(entries, pairs, strict=True)
        ]
        return self.loss_by(z, solutions)

    def evaluate_at(self, z: LazyEntryValues, effects: tuple[Array | None, ...]) -> LossAt:
        """The joint loss and its gradients at given effects, which stay as they are."""
        return self.loss_by(z, [EffectsSolution(e, None, e) for e in effects])

    def loss_by(self, z: LazyEntryValues, solutions: Sequence[EffectsSolution]) -> LossAt:
        """The losses and gradients at solutions, with what Newton steps add to both."""
        effects = tuple(solution.effects for solution in solutions)
        starts = tuple(solution.start for solution in solutions)
        point = z, self.for_tasks(starts), self.for_tasks(tuple(s.step for s in solutions))
        gradients: Any = z.changed(getattr, PartValue(loss_at, (LOSS, *point)), "gradient")
        values = [solution.value for solution in solutions]
        if all(value is not None for value in values):  # found with the effects: no round for it
            return LossAt(sum(value for value in values if value is not None), gradients, effects)
        added = self.ridges(starts) + sum(solution.added for solution in solutions)
        value: Any = self.partitions.later(
            value_of, PART, *point, gradients.key, change=lambda losses: losses + added
        )
        return LossAt(value, gradients, effects)

    def ridges(self, effects: tuple[Array | None, ...]) -> float:
        """The ridges on biases, which the parts leave out."""
        pairs = zip(self.block_losses, effects, strict=True)
        return sum(
            block_loss.effects.cost(block_effects)
            for block_loss, block_effects in pairs
            if block_loss.layout.n_biases
        )

    def sums_by_effect(self, gradient: LazyEntryValues) -> list[tuple[Array, Array]]:
        """The sums of gradients and of their sizes over each effect, of each block."""
        sizes = [block_loss.layout.size for block_loss in self.block_losses]
        if not any(sizes) or gradient.key == ZEROS:
            return [(np.zeros(size), np.zeros(size)) for size in sizes]
        totals = asked_once(self.sums, self.partitions, effect_sums, gradient)
        return [(total.sums[0], total.sums[1]) for total in totals.value]

    def ask_ahead(self, gradient: LazyEntryValues) -> None:
        """Have conjugates at a gradient, and at 0, and sums by effect come with the next round."""
        self.conjugates_of_entries(0.0 * gradient)
        self.conjugates_of_entries(gradient)
        if any(block_loss.layout.size for block_loss in self.block_losses):
            asked_once(self.sums, self.partitions, effect_sums, gradient)

    def conjugates_of_entries(self, gradient: LazyEntryValues) -> DeferredSum:
        """The conjugates of entries at a gradient, which are asked for once."""
        question = EntryLoss.conjugates_of_entries
        return asked_once(self.conjugates, self.partitions, question, gradient)

    def fenchel_conjugates(
        self, z: LazyEntryValues, effects: tuple[Array | None, ...]
    ) -> FenchelConjugates:
        """F*(S) = <S, z> - F(z) of the blocks without a conjugate, S their gradient at z."""
        if all(block_loss.has_conjugate() for block_loss in self.block_losses):
            return (None,) * len(self.block_losses)
        return self.partitions.sum(EntryLoss.fenchel_conjugates, LOSS, z, self.for_tasks(effects))

    def nearest_gradient(self, gradient: LazyEntryValues) -> LazyEntryValues:
        """Gradients close by at which conjugates are finite, by projections in turn.

        Into the domains of the losses, and to gradients whose sums over effects of columns vanish:
        a few rounds each.
        """
        inside = gradient.changed(projected_gradients, LOSS, gradient)
        for _ in range(MOST_STEPS if any(map(needs_zero_sums, self.block_losses)) else 0):
            pairs = zip(self.block_losses, self.sums_by_effect(inside), strict=True)
            freed = [
                p.effects.conjugate_of_sums(*sums, 0.0)[0]
                for p, sums in pairs
                if needs_zero_sums(p)
            ]
            if np.all(np.isfinite(freed)):
                break
            inside = gradient.changed(projected_gradients, LOSS, self.centre(inside))
        return inside

    def clip(self, gradient: LazyEntryValues) -> LazyEntryValues:
        """The gradients of blocks without effects moved into their domains, if these have ends."""
        if not any(block_loss.is_clipped for block_loss in self.block_losses):
            return gradient
        return gradient.changed(EntryLoss.clip, LOSS, gradient)

    def centre(self, gradient: LazyEntryValues) -> LazyEntryValues:
        """The gradients with what rounding left of the sums over each effect taken off."""
        if not any(block_loss.layout.size for block_loss in self.block_losses):
            return gradient
        sums = self.sums_by_effect(gradient)
        means = tuple(
            total / np.maximum(block_loss.effects.counts, 1)
            if block_loss.layout.n_biases
            and not block_loss.effects.tied
            and block_loss.effects.ridge is None
            else None
            for block_loss, (total, _) in zip(self.block_losses, sums, strict=True)
        )
        moved = gradient.changed(centred_gradients, LOSS, gradient, means)
        for block_loss in self.block_losses:
            if block_loss.effects.tied and block_loss.effects.ridge is None:
                moved = block_loss.effects.centre(moved)
        return moved

    def rounding(
        self, z: LazyEntryValues, effects: tuple[Array | None, ...], gradient: LazyEntryValues
    ) -> Any:
        """The largest change of the losses at z by rounding of the predictors."""
        asked = EntryLoss.rounding, LOSS, z, self.for_tasks(effects), gradient
        return self.partitions.later(*asked)

    def allowed_excess(self, gradient: LazyEntryValues) -> float:
        """0: there are no equalities."""
        return 0.0

    def vanishes(self, z: LazyEntryValues, effects: tuple[Array | None, ...]) -> bool:
        """False: it is not asked whether losses are nothing, so that a gap is never called 0."""
        return False

    def moved_by(self, away: float, gradient: LazyEntryValues) -> Any:
        """The largest change of the losses where each predictor changes by ``away``."""
        return self.partitions.later(EntryLoss.moved_by, LOSS, away, gradient)


def asked_once(
    answers: dict[str, DeferredSum],
    partitions: Partitions,
    question: Callable[..., Any],
    gradient: LazyEntryValues,
) -> DeferredSum:
    """The sum of the answers of all losses at a gradient: one of the last few, or asked later."""
    if gradient.key in answers:
        answer = answers.pop(gradient.key)
    else:
        answer = partitions.later(question, LOSS, gradient)
    answers[gradient.key] = answer
    while len(answers) > ARRAYS_KEPT:
        del answers[next(iter(answers))]
    return answer


def needs_zero_sums(block_loss: PartitionedBlockLoss) -> bool:
    """True if conjugates are finite only where sums of gradients over columns vanish."""
    return (
        bool(block_loss.layout.n_biases)
        and block_loss.effects.ridge is None
        and block_loss.has_conjugate()
    )


def loss_at(loss: EntryLoss, z: Array, effects: tuple[Any, ...], steps: tuple[Any, ...]) -> LossAt:
    """The losses at predictors z and effects, and the gradients after steps from these."""
    evaluated = loss.evaluate_at(z, effects)
    for block_loss, start, step in zip(loss.block_losses, effects, steps, strict=True):
        if step is not None:
            evaluated.gradient[block_loss.part] += gradient_change(block_loss, z, start, step)
    return evaluated


def value_of(
    part: Part, z: Array, effects: tuple[Any, ...], steps: tuple[Any, ...], key: str
) -> float:
    """The losses there, the ridge on biases aside; a partition then has the gradients, too."""
    evaluated = loss_at(part.program.loss, z, effects, steps)
    part.keep(key, evaluated.gradient)
    return evaluated.value


def centred_gradients(loss: EntryLoss, gradient: Array, means: tuple[Array | None, ...]) -> Array:
    """Gradients less a mean for each effect of the columns, or, in a partition, of its rows.

    ``means`` has an array for each block with biases that are no ridge's, and None for others.
    """
    centred = gradient.copy()
    for block_loss, mean in zip(loss.block_losses, means, strict=True):
        part = centred[block_loss.part]
        if mean is not None:
            centred[block_loss.part] = block_loss.predictor(
                block_loss.by_entries(part), -mean
            ).ravel()
        elif not block_loss.layout.n_biases:  # biases without means have a ridge
            centred[block_loss.part] = block_loss.effects.centre(part)
    return centred


def projected_gradients(loss: EntryLoss, gradient: Array) -> Array:
    """The nearest gradients inside of the domains of losses.

    Sums over effects of rows vanish then, those over effects of columns as they do by chance.
    """
    nearest = gradient.copy()
    for block_loss in loss.block_losses:
        if block_loss.has_conjugate():
            nearer = (
                block_loss.nearest_gradient
                if block_loss.layout.n_biases
                else block_loss.nearest_dual
            )
            nearest[block_loss.part] = nearer(gradient[block_loss.part])
    return nearest
