"""Places of numbers that are spread over partitions, and the matrix of such numbers."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.entries import Place
from mcframe.compile.partitions.executor import Later, Partitions
from mcframe.compile.partitions.numbers import ByRows, Cut, Numbers, Predictors
from mcframe.compile.partitions.part import Part
from mcframe.compile.partitions.unlabeled import GradientsBehind
from mcframe.compile.partitions.work import Work
from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS
from mcframe.numerics.operators import LowRank, Operator, Scales
from mcframe.numerics.sampled import gram_matrix_pays

__all__ = ["PartitionedEntries", "PartitionedMatrix"]


@attrs.frozen(eq=False)
class PartitionedEntries:
    """What ``Entries`` answer, of entries that no process holds all of.

    Numbers at them are ``Numbers``; Z is in factors, whose rows go to their partitions.
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

    def of(self, latent: LowRank) -> Numbers:
        """The numbers of U V' here."""
        return Predictors(size=self.size, left=ByRows(latent.left), right=latent.right)

    def matrix(
        self, numbers: Numbers, blocks: Sequence[Any] = (), others: Sequence[Any] = ()
    ) -> "PartitionedMatrix":
        """The matrix with these entry values, 0 elsewhere, plus gradients of unlabeled cells."""
        assert not blocks
        return PartitionedMatrix(self, MatrixInPartitions(numbers, tuple(others)))

    def dot(self, numbers: Numbers, others: Numbers) -> float:
        """The sum of the products of numbers here."""
        return float(self.partitions.sum(dot_of, numbers, others))

    def norm(self, numbers: Numbers) -> float:
        """The Euclidean norm of numbers here."""
        return float(np.sqrt(self.dot(numbers, numbers)))

    def finite(self, numbers: Numbers) -> bool:
        """Whether all numbers here are finite."""
        return all(self.partitions.each(all_finite, numbers))


@attrs.define(eq=False, slots=False)
class PartitionedMatrix(Operator):
    """A sparse matrix whose rows are in partitions: their products below each other, or added.

    A round of tasks a product, and one for A'A V.
    """

    entries: PartitionedEntries
    inside: "MatrixInPartitions"
    square: "SquareInPartitions | None" = None  # of the matrix that this is ``factor`` times
    factor: float = 1.0

    @property
    def values(self) -> Numbers:
        """The numbers at the entries."""
        return self.inside.numbers

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
        """A sum of as many products as the longest line has entries, in whatever order.

        Of unlabeled cells what the parts' products round by, all together, and as much for the
        sums over the partitions.
        """
        own = EPS * (self.entries.longest + 8) * self.norm
        if not self.inside.behind:
            return own
        return own + 2.0 * float(self.entries.partitions.sum(rounding_behind, self.inside))

    @property
    def norm(self) -> float:
        """A bound on the Frobenius norm, which is exact by A'A where that is known."""
        if self.square is None or self.square.gram is None:
            return self.entries.stretch * self.entries.norm(self.values)
        return abs(self.factor) * float(np.sqrt(np.trace(self.square.gram.value)))

    def multiple(self, factor: float) -> "PartitionedMatrix":
        """The matrix times a factor."""
        self.square = self.square or SquareInPartitions(self.entries.partitions, self.inside)
        scaled = self.inside.multiple(factor)
        return PartitionedMatrix(self.entries, scaled, self.square, factor * self.factor)

    def _matmat(self, block: Array) -> Array:
        return self.entries.partitions.concatenate(product_of, self.inside, block)

    def _rmatmat(self, block: Array) -> Array:
        product: Array = self.entries.partitions.sum(
            product_of_columns, self.inside, ByRows(block)
        )
        return product

    def both_products(self, left: Array, right: Array) -> tuple[Array, Array]:
        """S V and S' U, in one round."""
        rows, backward = self.entries.partitions.rows_and_sum(
            both_products, self.inside, ByRows(left), right
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
        if not self.inside.behind and gram_matrix_pays(self.entries.size, *self.shape):
            self.square = self.square or SquareInPartitions(self.entries.partitions, self.inside)
            self.square.asked()

    def gram(self, block: Array) -> Array:
        """A'A V, which needs no rows of A V in one place."""
        product: Array = self.entries.partitions.sum(gram_product, self.inside, block)
        return product


@attrs.frozen(eq=False)
class MatrixInPartitions(Cut):
    """Numbers at the entries, and gradients of unlabeled cells to be added, as tasks take them."""

    numbers: Numbers
    behind: tuple[GradientsBehind, ...] = ()

    def multiple(self, factor: float) -> "MatrixInPartitions":
        """So many times the matrix."""
        behind = tuple(gradients.multiple(factor) for gradients in self.behind)
        return MatrixInPartitions(factor * self.numbers, behind)

    def of(self, part: Part) -> Operator:
        """The rows of the matrix that a partition has."""
        others = [operator for gradients in self.behind for operator in gradients.of(part)]
        return part.program.entries.matrix(part.numbers(self.numbers), others=others)


@attrs.define(eq=False)
class SquareInPartitions:
    """A'A and the last A'U of a matrix A, each asked for once: what its multiples share."""

    partitions: Partitions
    matrix: MatrixInPartitions
    gram: Later | None = None
    block: Array = attrs.field(factory=lambda: np.zeros((0, 0)))
    images: Array = attrs.field(factory=lambda: np.zeros((0, 0)))

    def asked(self) -> Later:
        """A'A, which comes with the next round."""
        if self.gram is None:
            self.gram = self.partitions.later(gram_matrix, self.matrix)
        return self.gram

    def images_of(self, block: Array) -> Array:
        """A'U."""
        if not block.shape[1]:
            assert self.gram is not None
            return np.zeros((self.gram.value.shape[0], 0))
        if not np.array_equal(block, self.block):
            self.images = self.partitions.sum(product_of_columns, self.matrix, ByRows(block))
            self.block = block
        return self.images


def rounding_behind(part: Part, matrix: MatrixInPartitions) -> float:
    """How much of the norm of products rounding can hide, of unlabeled cells."""
    return sum(own.rounding for gradients in matrix.behind for own in gradients.of(part))


def product_of(part: Part, matrix: MatrixInPartitions, block: Array) -> Array:
    """S V."""
    product: Array = matrix.of(part) @ block
    return product


def product_of_columns(part: Part, matrix: MatrixInPartitions, block: Any) -> Array:
    """S' U."""
    product: Array = matrix.of(part).T @ block
    return product


def both_products(
    part: Part, matrix: MatrixInPartitions, left: Any, right: Array
) -> tuple[Array, Array]:
    """S V and S' U."""
    return matrix.of(part).both_products(left, right)


def gram_product(part: Part, matrix: MatrixInPartitions, block: Array) -> Array:
    """S'S V."""
    return matrix.of(part).gram(block)


def gram_matrix(part: Part, matrix: MatrixInPartitions) -> Array:
    """S'S."""
    return matrix.of(part).written_gram()


def dot_of(part: Part, numbers: Numbers, others: Numbers) -> float:
    """The sum of products of numbers."""
    return float(np.dot(part.numbers(numbers), part.numbers(others)))


def all_finite(part: Part, numbers: Numbers) -> bool:
    """Whether numbers are finite."""
    return bool(np.all(np.isfinite(part.numbers(numbers))))
