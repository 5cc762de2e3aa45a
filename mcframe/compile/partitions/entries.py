"""Places of numbers that are spread over partitions, and the matrix of such numbers."""

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.compile.entries import Place, PlacesBeside
from mcframe.compile.partitions.executor import Partitions, Task
from mcframe.compile.partitions.numbers import Between, ByRows, Numbers, Predictors
from mcframe.compile.partitions.part import Part
from mcframe.compile.partitions.work import Work
from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS
from mcframe.numerics.operators import LowRank, Operator, Sampled

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

    def beside(self, place: Place, part: LowRank, fixed: LowRank) -> PlacesBeside:
        """Places near one that is ``part + fixed``, of which ``fixed`` stays as it is."""
        entries: Any = self
        return PlacesBeside(entries, fixed, place.z - entries.of(part))

    def matrix(
        self, numbers: Numbers, blocks: Sequence[Any] = (), others: Sequence[Any] = ()
    ) -> "PartitionedMatrix":
        """The matrix with these numbers here and 0 elsewhere."""
        assert not blocks
        assert not others
        return PartitionedMatrix(self, numbers)

    def dot(self, numbers: Numbers, others: Numbers) -> float:
        """The sum of the products of numbers here."""
        return float(self.partitions.sum(Dot(numbers, others)))

    def norm(self, numbers: Numbers) -> float:
        """The Euclidean norm of numbers here."""
        return float(np.sqrt(self.dot(numbers, numbers)))

    def finite(self, numbers: Numbers) -> bool:
        """Whether all numbers here are finite."""
        return all(self.partitions.each(Finite(numbers)))


@attrs.frozen(eq=False)
class PartitionedMatrix(Operator):
    """A sparse matrix whose rows are in partitions: their products below each other, or added.

    A round of tasks a product, and one for A'A V.
    """

    entries: PartitionedEntries
    values: Numbers

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.entries.shape

    @property
    def seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of the entries."""
        return self.entries.seed

    @property
    def rounding(self) -> float:
        """A sum of as many products as the longest line has entries, in whatever order."""
        return EPS * (self.entries.longest + 8) * self.entries.norm(self.values)

    def multiple(self, factor: float) -> "PartitionedMatrix":
        """The matrix times a factor."""
        return PartitionedMatrix(self.entries, factor * self.values)

    def between(self, left: Array, right: Array) -> "PartitionedMatrix":
        """diag(left) A diag(right)."""
        values = Between(size=self.values.size, of=self.values, left=ByRows(left), right=right)
        return PartitionedMatrix(self.entries, values)

    def _matmat(self, block: Array) -> Array:
        return self.entries.partitions.concatenate(Product(self.values, block))

    def _rmatmat(self, block: Array) -> Array:
        product: Array = self.entries.partitions.sum(ProductOfColumns(self.values, ByRows(block)))
        return product

    def both_products(self, left: Array, right: Array) -> tuple[Array, Array]:
        """S V and S' U, in one round."""
        task = BothProducts(self.values, ByRows(left), right)
        rows, backward = self.entries.partitions.rows_and_sum(task)
        return np.concatenate(rows), backward

    def gram(self, block: Array) -> Array:
        """A'A V, which needs no rows of A V in one place."""
        product: Array = self.entries.partitions.sum(GramProduct(self.values, block))
        return product


def matrix_of(part: Part, numbers: Numbers) -> Sampled:
    """The rows of a matrix that a partition has."""
    return Sampled(part.program.entries.pattern, part.numbers(numbers))


@attrs.frozen(eq=False)
class Product(Task):
    """S V."""

    numbers: Numbers
    block: Array

    def of(self, part: Part) -> Array:
        """The rows of a partition."""
        return matrix_of(part, self.numbers) @ self.block


@attrs.frozen(eq=False)
class ProductOfColumns(Task):
    """S' U."""

    numbers: Numbers
    block: Any

    def of(self, part: Part) -> Array:
        """What the rows of a partition add to it."""
        return matrix_of(part, self.numbers).T @ self.block


@attrs.frozen(eq=False)
class BothProducts(Task):
    """S V and S' U."""

    numbers: Numbers
    left: Any
    right: Array

    def of(self, part: Part) -> tuple[Array, Array]:
        """The rows of a partition of the one, and what they add to the other."""
        matrix = matrix_of(part, self.numbers)
        return matrix @ self.right, matrix.T @ self.left


@attrs.frozen(eq=False)
class GramProduct(Task):
    """S'S V."""

    numbers: Numbers
    block: Array

    def of(self, part: Part) -> Array:
        """What the rows of a partition add to it."""
        return matrix_of(part, self.numbers).gram(self.block)


@attrs.frozen(eq=False)
class Dot(Task):
    """The sum of products of numbers."""

    numbers: Numbers
    others: Numbers

    def of(self, part: Part) -> float:
        """The sum over the entries of a partition."""
        return float(np.dot(part.numbers(self.numbers), part.numbers(self.others)))


@attrs.frozen(eq=False)
class Finite(Task):
    """Whether numbers are finite."""

    numbers: Numbers

    def of(self, part: Part) -> bool:
        """Whether those of a partition are."""
        return bool(np.all(np.isfinite(part.numbers(self.numbers))))
