"""Entries that are spread over partitions, matrices of such entry values, and unlabeled cells."""

import operator
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.entries import Entries, Place
from mcframe.compile.partitions.executor import Later, Partitions
from mcframe.compile.partitions.values import (
    ENTRIES,
    EntryValues,
    PartAttribute,
    PartValue,
    Scattered,
    predictors,
    scattered_rows,
)
from mcframe.compile.partitions.work import Work
from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS
from mcframe.numerics.operators import LowRank, Operator, Scales
from mcframe.numerics.sampled import Sampled, gram_matrix_pays
from mcframe.numerics.unlabeled import Background, Behind


@attrs.frozen(eq=False)
class PartitionedEntries:
    """What ``Entries`` answer, of entries that no process holds all of.

    Numbers at them are ``EntryValues``; Z is in factors, whose rows go to their partitions.
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
    def stretch(self) -> float:
        """The largest number of a Z whose W has entries of at most 1."""
        return 1.0 if self.scales is None else self.scales.largest

    @property
    def work(self) -> Work:
        """What was asked of partitions until now."""
        return self.partitions.work

    @property
    def seed(self) -> tuple[int, ...]:
        """Whole numbers from which random starts are drawn."""
        return self.random_state, self.content

    def with_form(self, sparse: bool, random_state: int) -> "PartitionedEntries":
        """The entries with a seed; Z stays in factors."""
        return attrs.evolve(self, random_state=random_state)

    def place(self, latent: LowRank) -> Place:
        """A Z with its numbers here."""
        numbers: Any = self.of(latent)
        return Place(latent, numbers)

    def of(self, latent: LowRank) -> EntryValues:
        """The numbers of U V' here."""
        return predictors(self.size, latent)

    def matrix(
        self, numbers: EntryValues, blocks: Sequence[Any] = (), others: Sequence[Any] = ()
    ) -> "PartitionedMatrix":
        """The matrix with these entry values, 0 elsewhere, plus gradients of unlabeled cells."""
        assert not blocks
        return PartitionedMatrix(self, numbers, tuple(others))

    def dot(self, numbers: EntryValues, others: EntryValues) -> float:
        """The sum of the products of numbers here."""
        return float(self.partitions.sum(np.dot, numbers, others))

    def norm(self, numbers: EntryValues) -> float:
        """The Euclidean norm of numbers here."""
        return float(np.sqrt(self.dot(numbers, numbers)))

    def finite(self, numbers: EntryValues) -> bool:
        """Whether all numbers here are finite."""
        return all(self.partitions.each(Entries.finite, ENTRIES, numbers))


@attrs.define(eq=False, slots=False)
class PartitionedMatrix(Operator):
    """A sparse matrix whose rows are in partitions: their products below each other, or added.

    A round of tasks a product, and one for A'A V.
    """

    entries: PartitionedEntries
    values: EntryValues
    behind: tuple[tuple[PartValue, float], ...] = ()  # and shares of gradients of unlabeled cells
    square: "PartitionedSquare | None" = None  # of the matrix that this is ``factor`` times
    factor: float = 1.0

    @cached_property
    def own(self) -> PartValue:
        """The rows of the matrix that each partition has."""
        return PartValue(matrix_of, (ENTRIES, self.values, self.behind))

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
        """A sum of as many products as the longest row or column has entries, in whatever order.

        Of unlabeled cells what the parts' products round by, all together, and as much for the
        sums over the partitions.
        """
        own = EPS * (self.entries.longest + 8) * self.norm
        if not self.behind:
            return own
        return own + 2.0 * float(self.entries.partitions.sum(rounding_of, self.behind))

    @property
    def norm(self) -> float:
        """A bound on the Frobenius norm, which is exact by A'A where that is known."""
        if self.square is None or self.square.gram is None:
            return self.entries.stretch * self.entries.norm(self.values)
        return abs(self.factor) * float(np.sqrt(np.trace(self.square.gram.value)))

    def multiple(self, factor: float) -> "PartitionedMatrix":
        """The matrix times a factor."""
        self.square = self.square or PartitionedSquare(self.entries.partitions, self.own)
        behind = tuple((own, factor * share) for own, share in self.behind)
        values = factor * self.values
        return PartitionedMatrix(self.entries, values, behind, self.square, factor * self.factor)

    def _matmat(self, block: Array) -> Array:
        return self.entries.partitions.concatenate(operator.matmul, self.own, block)

    def _rmatmat(self, block: Array) -> Array:
        product: Array = self.entries.partitions.sum(
            transposed_product, self.own, Scattered(block)
        )
        return product

    def both_products(self, left: Array, right: Array) -> tuple[Array, Array]:
        """S V and S' U, in one round."""
        rows, backward = self.entries.partitions.rows_and_sum(
            both_products, self.own, Scattered(left), right
        )
        return np.concatenate(rows), backward

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
        if not self.behind and gram_matrix_pays(self.entries.size, *self.shape):
            self.square = self.square or PartitionedSquare(self.entries.partitions, self.own)
            self.square.asked()

    def gram(self, block: Array) -> Array:
        """A'A V, which needs no rows of A V in one place."""
        product: Array = self.entries.partitions.sum(gram_product, self.own, block)
        return product


@attrs.define(eq=False)
class PartitionedSquare:
    """A'A and the last A'U of a matrix A, each asked for once: what its multiples share."""

    partitions: Partitions
    matrix: PartValue
    gram: Later | None = None
    block: Array = attrs.field(factory=lambda: np.zeros((0, 0)))
    images: Array = attrs.field(factory=lambda: np.zeros((0, 0)))

    def asked(self) -> Later:
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
            self.images = self.partitions.sum(transposed_product, self.matrix, Scattered(block))
            self.block = block
        return self.images


def matrix_of(
    entries: Entries, values: Array, behind: tuple[tuple[Behind, float], ...]
) -> Operator:
    """The matrix with these entry values, and with shares of the gradients of unlabeled cells."""
    others = [each for own, share in behind for each in own.gradients(share)]
    return entries.matrix(values, others=others)


def rounding_of(behind: tuple[tuple[Behind, float], ...]) -> float:
    """How much of the norm of products rounding can hide, of unlabeled cells."""
    return sum(each.rounding for own, share in behind for each in own.gradients(share))


def transposed_product(matrix: Operator, block: Array) -> Array:
    """S' U."""
    product: Array = matrix.T @ block
    return product


def both_products(matrix: Operator, left: Array, right: Array) -> tuple[Array, Array]:
    """S V and S' U."""
    return matrix.both_products(left, right)


def gram_product(matrix: Operator, block: Array) -> Array:
    """S'S V."""
    return matrix.gram(block)


def behind_at(latent: LowRank, z: EntryValues) -> PartValue:
    """The cells of a partition's rows that are no entries, at Z with entry values z."""
    background = PartAttribute("program.background")
    return PartValue(Background.at, (background, scattered_rows(latent), z))


@attrs.frozen(eq=False)
class PartitionedBackground:
    """What ``Background`` answers, of cells whose rows are in partitions.

    Each partition has the background of its own rows: losses, conjugates and curvatures are sums
    over the partitions, as are products and normal equations of columns, those of rows stay
    with their partition. Of squared losses these are Gram matrices and thin products.
    """

    partitions: Partitions

    #: None is read one by one, and nothing is held of them.
    n_read, held_bytes = 0, 0

    def at(self, latent: LowRank, z: EntryValues) -> "PartitionedBehind":
        """The background at Z, whose entries are z."""
        return PartitionedBehind(self.partitions, behind_at(latent, z))


@attrs.frozen(eq=False)
class PartitionedBehind:
    """The background at a point, which a program without such cells does not have."""

    partitions: Partitions
    own: PartValue  # the ``Behind`` of each partition

    @cached_property
    def value(self) -> float:
        """The sum of the losses."""
        return float(self.partitions.sum(getattr, self.own, "value"))

    def beyond(self, gradients: EntryValues, share: float = 1.0) -> EntryValues:
        """Gradients of the entries less what ``gradients`` of ``share`` times this has there."""
        return gradients.changed(Behind.beyond, self.own, gradients, share)

    def gradients(self, share: float = 1.0) -> list[tuple[PartValue, float]]:
        """``share`` times the gradients of all cells, those where entries are included."""
        return [(self.own, share)]

    @cached_property
    def products(self) -> tuple[Array, Array]:
        """T V and T' U for Z = U V' and the gradients T, those where entries are included."""
        rows, backward = self.partitions.rows_and_sum(getattr, self.own, "products")
        return np.concatenate(rows), backward

    def curvature_along(self, after: "PartitionedBehind", moved: LowRank, z: EntryValues) -> float:
        """How far F lies above its tangent after Z moves by D with entries z, twice."""
        move = scattered_rows(moved), z
        return float(self.partitions.sum(Behind.curvature_along, self.own, after.own, *move))

    def conjugate(self, share: float) -> tuple[float, float]:
        """Sum of the conjugates at ``share`` times the gradients, and a size for its rounding."""
        total, size = self.partitions.sum(Behind.conjugate, self.own, share)
        return total, size
