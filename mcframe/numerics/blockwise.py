"""One loss for all cells of a matrix that is held in factors, read by blocks of rows."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, TypeVar

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import UnlabeledLoss
from mcframe.contracts.limits import CACHED_NUMBERS, STORED_NUMBERS
from mcframe.contracts.rounding import EPS
from mcframe.numerics.kernels import add_columns_times, rows_times
from mcframe.numerics.operators import LowRank, Operator
from mcframe.numerics.unlabeled import ImplicitCells, ImplicitCellsAt
from mcframe.runtime.machine import check_time, share, thread_count

# Cells of a block.
CELLS_PER_BLOCK = 1_000_000
# Blocks of 64 bits that each thread of a pass holds at its peak, temporary ones included.
PEAK_BLOCKS_PER_THREAD = 4
# Results of so many blocks are held before they are added up in their order, fewer where that
# takes more numbers.
BLOCKS_PER_SUM = 16
# Sums of a block's cells round by so many times what sums of few entries do.
ROUNDING_OF_SUMS = 4.0
# Differences of values are uncertain by so many units in the last place.
DIFFERENCE_ROUNDING = 64.0

Rows = tuple[slice, IntArray]
T = TypeVar("T")
# What is made of the rows of a block, the places of entries in it, and two buffers of its size:
# its losses and its gradients.
Reduction = Callable[[slice, IntArray, Array, Array], T]


@attrs.frozen(eq=False)
class Blockwise(ImplicitCells):
    """``scale * loss(z)`` for every cell z of U V' but the entries.

    A pass forms Z_b = U_b V' for a block of rows at a time, of about a million cells: it holds
    a few blocks a thread and thin factors, and takes 6 k operations a cell for k columns, and its
    loss. Threads take the blocks; what they bring is added in the order of the rows.
    """

    loss: UnlabeledLoss
    scale: float
    shape: tuple[int, int]
    rows: IntArray
    columns: IntArray

    @property
    def weights(self) -> Array:  # type: ignore[override]
        """The highest second derivative, in each column."""
        return np.full(self.shape[1], self.scale * self.loss.curvature)

    @property
    def n_read(self) -> int:
        """The number of all cells."""
        return self.shape[0] * self.shape[1]

    @property
    def held_bytes(self) -> int:
        """Gradients in 32 bits, if held, of an iterate and of a certificate; Hessians; blocks."""
        blocks = thread_count() * PEAK_BLOCKS_PER_THREAD * 8 * min(CELLS_PER_BLOCK, self.n_read)
        hessians = 8 * min(STORED_NUMBERS, self.n_read * min(self.shape))
        return (
            blocks + hessians + (2 * 4 * self.n_read if self.n_read <= 2 * STORED_NUMBERS else 0)
        )

    def at(self, latent: LowRank, z: Array) -> "BlockwiseAt":
        """The losses at Z; its entries z do not matter."""
        return BlockwiseAt(self, latent)

    @cached_property
    def blocks(self) -> list[Rows]:
        """The rows of each block, and where in it the entries are."""
        n_rows, n_columns = self.shape
        height = max(CELLS_PER_BLOCK // n_columns, 1)
        order = np.argsort(self.rows, kind="stable")
        rows, columns = (places[order].astype(np.intp) for places in (self.rows, self.columns))
        firsts = np.arange(0, n_rows, height)
        starts = np.searchsorted(rows, np.append(firsts, n_rows))
        blocks = []
        for first, start, stop in zip(firsts, starts[:-1], starts[1:], strict=True):
            places = (rows[start:stop] - first) * n_columns + columns[start:stop]
            blocks.append((slice(int(first), min(int(first) + height, n_rows)), places))
        return blocks

    def over_blocks(self, work: Callable[[int, Array], T], numbers: int = 1) -> Iterator[T]:
        """``work`` on each block, given by its number, with two buffers of its size.

        The results come in order, whichever thread they are of; each holds so many numbers.
        """
        height = max(rows.stop - rows.start for rows, _ in self.blocks)
        spare: deque[Array] = deque()
        together = max(thread_count(), min(BLOCKS_PER_SUM, STORED_NUMBERS // max(numbers, 1)))
        for first in range(0, len(self.blocks), together):
            check_time()
            last = min(first + together, len(self.blocks))
            results: list[Any] = [None] * (last - first)

            def take(start: int, stop: int, first: int = first, results: Any = results) -> None:
                try:
                    buffers = spare.pop()
                except IndexError:  # all are in use
                    buffers = np.empty((2, height, self.shape[1]))
                for block in range(start, stop):
                    rows = self.blocks[block][0]
                    results[block - first] = work(block, buffers[:, : rows.stop - rows.start])
                spare.append(buffers)

            share(take, range(first, last + 1))
            yield from results

    def over_cells(
        self,
        latent: LowRank,
        fill: Callable[[Array, Array], None],
        reduction: Reduction[T],
        numbers: int = 1,
    ) -> Iterator[T]:
        """A reduction of each block after ``fill`` has turned z, and a second buffer, in place.

        A slice at a time, so that what a loss computes stays in the cache; 0 at entries.
        """
        right = np.ascontiguousarray(latent.right.T)

        def work(block: int, buffers: Array) -> T:
            rows, places = self.blocks[block]
            np.matmul(latent.left[rows], right, out=buffers[0])
            first, second = (buffer.reshape(-1) for buffer in buffers)
            for begin in range(0, first.size, CACHED_NUMBERS):
                fill(first[begin : begin + CACHED_NUMBERS], second[begin : begin + CACHED_NUMBERS])
            first[places] = second[places] = 0.0
            return reduction(rows, places, buffers[1], buffers[0])

        return self.over_blocks(work, numbers)

    def over_losses(
        self, latent: LowRank, reduction: Reduction[T], numbers: int = 1
    ) -> Iterator[T]:
        """A reduction of each block's losses and gradients at Z, unscaled."""

        def fill(z: Array, losses: Array) -> None:
            losses[:], z[:] = self.loss.value_and_gradient(z)

        return self.over_cells(latent, fill, reduction, numbers)

    def of_lines(self, latent: LowRank, z: Array, by_rows: bool) -> Array:
        """The sum over each row of Z, or each column."""

        def sums(rows: slice, places: IntArray, losses: Array, gradients: Array) -> Array:
            return np.sum(losses, axis=1 if by_rows else 0)

        block_sums = list(self.over_losses(latent, sums, max(self.shape)))
        return self.scale * (np.concatenate(block_sums) if by_rows else np.sum(block_sums, axis=0))

    def recession(self, moved: LowRank) -> tuple[float, float]:
        """The limit of the losses along D, and the sum of the sizes of its summands."""

        def fill(moves: Array, limits: Array) -> None:
            limits[:] = self.loss.recession(moves)

        def sums(rows: slice, places: IntArray, limits: Array, moves: Array) -> Any:
            return float(np.sum(limits)), float(np.sum(np.abs(limits)))

        total, size = np.sum(list(self.over_cells(moved, fill, sums)), axis=0)
        return self.scale * float(total), self.scale * float(size)


@attrs.frozen(eq=False)
class Passed:
    """The result of one pass over all cells: sums, and products with the factors."""

    value: float
    forward: Array  # T V
    backward: Array  # T' U
    length: float  # Frobenius norm of T


@attrs.frozen(eq=False)
class BlockwiseAt(ImplicitCellsAt):
    """The losses at a Z."""

    blockwise: Blockwise
    latent: LowRank

    at_entries = np.zeros(1)  # the blocks have nothing there

    @cached_property
    def whole(self) -> Passed:
        """Value, products and length of the gradient, in one pass."""
        scale, (n_rows, n_columns) = self.blockwise.scale, self.latent.shape
        left, right = self.latent.left, self.latent.right
        forward, backward = (np.zeros((n, self.latent.width)) for n in (n_rows, n_columns))

        def both(rows: slice, places: IntArray, losses: Array, gradients: Array) -> Any:
            np.matmul(gradients, right, out=forward[rows])
            thin = left[rows].T @ gradients
            return float(np.sum(losses)), float(np.vdot(gradients, gradients)), thin

        values, squares = [], []
        for value, square, thin in self.blockwise.over_losses(self.latent, both, right.size):
            values.append(value)
            squares.append(square)
            backward += thin.T
        length = scale * math.sqrt(math.fsum(squares))
        return Passed(scale * math.fsum(values), scale * forward, scale * backward, length)

    @property
    def value(self) -> float:
        """The sum of the losses."""
        return self.whole.value

    def products(self) -> tuple[Array, Array]:
        """T V and T' U."""
        return self.whole.forward, self.whole.backward

    @cached_property
    def held(self) -> list[Array] | None:
        """The gradients of each block in 32 bits, if they are not too many.

        Rounding moves a point of the dual a little: inside of its domain it is as good a one.
        """
        if self.blockwise.n_read > 2 * STORED_NUMBERS:
            return None

        def short(rows: slice, places: IntArray, losses: Array, gradients: Array) -> Array:
            return round_to_single(self.blockwise.loss, gradients)

        return list(self.blockwise.over_losses(self.latent, short))

    def over_gradients(self, reduction: Reduction[T], numbers: int = 1) -> Iterator[T]:
        """A reduction of each block's unscaled gradients, which are the same each time.

        In 32 bits where they are held; what stands for losses is a buffer to write to.
        """
        held, blockwise = self.held, self.blockwise
        if held is None:
            return blockwise.over_losses(self.latent, reduction, numbers)

        def work(block: int, buffers: Array) -> T:
            return reduction(*blockwise.blocks[block], buffers[1], held[block])

        return blockwise.over_blocks(work, numbers)

    def gradient(self) -> "BlockwiseGradients":
        """T, the gradients, as an operator."""
        return BlockwiseGradients(self)

    def hessians(self, by_rows: bool) -> tuple[Array, float, float]:
        """A matrix V' diag(w) V for each row or column, w its second derivatives.

        As one product with the columns' k (k + 1) / 2 products in pairs. Where these take too
        much memory the highest curvature serves: one Gram matrix for all.
        """
        factor, other_factor = self.latent.left, self.latent.right
        if not by_rows:
            factor, other_factor = other_factor, factor
        scale = self.blockwise.scale
        if factor.shape[0] * factor.shape[1] ** 2 > STORED_NUMBERS:
            highest = scale * float(self.blockwise.loss.curvature)
            return (other_factor.T @ other_factor)[None], highest, highest
        upper = np.triu_indices(factor.shape[1])
        pairs = other_factor[:, upper[0]] * other_factor[:, upper[1]]
        sums = np.zeros((factor.shape[0], pairs.shape[1]))

        def fill(z: Array, buffer: Array) -> None:
            z[:] = self.blockwise.loss.second_derivative(z)

        def by_pairs(rows: slice, places: IntArray, buffer: Array, second: Array) -> Array:
            return second @ pairs if by_rows else second.T @ pairs[rows]

        blockwise = self.blockwise
        block_sums = blockwise.over_cells(self.latent, fill, by_pairs, sums.size)
        for (rows, _), pair_sums in zip(blockwise.blocks, block_sums, strict=True):
            if by_rows:
                sums[rows] = pair_sums
            else:
                sums += pair_sums
        matrices = np.empty((factor.shape[0], factor.shape[1], factor.shape[1]))
        matrices[:, upper[0], upper[1]] = matrices[:, upper[1], upper[0]] = sums
        return matrices, scale, 0.0

    def curvature_along(self, after: "BlockwiseAt", moved: LowRank, z: Array) -> float:
        """2 (F(Z + D) - F(Z) - <T, D>) up to rounding, in [0, highest curvature ||D||^2]."""
        along = float(np.vdot(moved.left, self.gradient() @ moved.right))
        risen = 2.0 * (after.value - self.value - along)
        squares = float(np.sum((moved.left.T @ moved.left) * (moved.right.T @ moved.right)))
        highest = self.blockwise.scale * float(self.blockwise.loss.curvature) * squares
        return min(max(risen + DIFFERENCE_ROUNDING * EPS * abs(self.value), 0.0), highest)

    def conjugate(self, share: float) -> tuple[float, float]:
        """The sum of the conjugates, and the sum of their sizes."""
        loss, scale = self.blockwise.loss, self.blockwise.scale
        if share == 0.0:
            n_implicit = self.blockwise.n_read - self.blockwise.rows.size
            total = n_implicit * float(loss.conjugate(np.zeros(1))[0])
            return scale * total, ROUNDING_OF_SUMS * scale * abs(total)

        def conjugates(rows: slice, places: IntArray, out: Array, gradients: Array) -> Any:
            flat, values = gradients.reshape(-1), out.reshape(-1)
            for first in range(0, flat.size, CACHED_NUMBERS):
                part = slice(first, first + CACHED_NUMBERS)
                values[part] = loss.conjugate(share * flat[part].astype(np.float64, copy=False))
            values[places] = 0.0
            return float(np.sum(values)), float(np.sum(np.abs(values)))

        sums, sizes = zip(*self.over_gradients(conjugates), strict=True)
        return scale * math.fsum(sums), ROUNDING_OF_SUMS * scale * math.fsum(sizes)


def round_to_single(loss: UnlabeledLoss, gradients: Array) -> Array:
    """Gradients in 32 bits, those that leave their domain by it moved inwards."""
    short = gradients.astype(np.float32)
    flat = short.reshape(-1)
    for first in range(0, flat.size, CACHED_NUMBERS):
        part = flat[first : first + CACHED_NUMBERS]
        near = loss.nearest_gradient(part.astype(np.float64))
        inwards = np.where(near > part, np.float32(np.inf), np.float32(-np.inf))
        part[:] = np.where(near == part, part, np.nextafter(part, inwards))
    return short


@attrs.frozen(eq=False)
class BlockwiseGradients(Operator):
    """T (n_rows x n_columns) by its products: each reads all cells."""

    point: BlockwiseAt

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.point.latent.shape

    @property
    def rounding(self) -> float:
        """A sum of so many products each way."""
        return EPS * (sum(self.shape) + 16) * self.point.whole.length

    def _matmat(self, block: Array) -> Array:
        right = np.ascontiguousarray(block.T)

        def product(rows: slice, places: IntArray, losses: Array, gradients: Array) -> Array:
            out = np.empty((gradients.shape[0], right.shape[0]))
            rows_times(gradients, right, out)
            return out

        products = list(self.point.over_gradients(product))
        return self.point.blockwise.scale * np.concatenate(products)

    def _rmatmat(self, block: Array) -> Array:
        size = (block.shape[1], self.shape[1])

        def product(rows: slice, places: IntArray, losses: Array, gradients: Array) -> Array:
            out = np.zeros(size)
            add_columns_times(gradients, block[rows], out)
            return out

        total = np.zeros(size)
        for part in self.point.over_gradients(product, total.size):
            total += part
        return self.point.blockwise.scale * total.T
