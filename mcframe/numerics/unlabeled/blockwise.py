"""One loss for all cells of a matrix that is held in factors, read by blocks of rows."""

import math
from collections.abc import Iterator
from functools import cached_property

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import UnlabeledLoss
from mcframe.contracts.rounding import EPS
from mcframe.numerics.machine.clock import check_time
from mcframe.numerics.operators import LowRank, Operator
from mcframe.numerics.unlabeled.contract import Hessians, Unwritten, UnwrittenAt

__all__ = ["HELD", "Blockwise", "Slopes"]

# Cells of a block, and cells whose losses are computed at a time, which stay in the cache.
BLOCK, SLICE = 1_000_000, 32_768
# Blocks of 64 bits that a pass holds at its peak, temporary ones included.
BLOCKS = 4
# Up to so many cells the slopes at a point are held, in 32 bits: 0.5 GB. Beyond, each product
# computes them anew.
HELD = 125_000_000
# Numbers in the Hessians of all lines of a factor: up to so many they are formed, in 0.4 GB.
HESSIANS = 50_000_000
# Sums of a block's cells round by so many times what sums of few entries do.
ROUNDED = 4.0
# Differences of values are uncertain by so many units in the last place.
NOISE = 64.0

Rows = tuple[slice, IntArray]


@attrs.frozen(eq=False)
class Blockwise(Unwritten):
    """``scale * loss(z)`` for every cell z of U V' but the entries.

    A pass forms Z_b = U_b V' for a block of rows at a time, of about a million cells: it holds
    a few blocks and thin factors, and takes 6 k operations a cell for k columns, and its loss.
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
        """Slopes in 32 bits, if held, of an iterate and of a certificate; Hessians; blocks."""
        blocks = BLOCKS * 8 * min(BLOCK, self.n_read)
        hessians = 8 * min(HESSIANS, self.n_read * min(self.shape))
        return blocks + hessians + (2 * 4 * self.n_read if self.n_read <= HELD else 0)

    def at(self, latent: LowRank, z: Array) -> "BlockwiseAt":
        """The losses at Z; its entries z do not matter."""
        return BlockwiseAt(self, latent)

    @cached_property
    def blocks(self) -> list[Rows]:
        """The rows of each block, and where in it the entries are."""
        n_rows, n_columns = self.shape
        height = max(BLOCK // n_columns, 1)
        order = np.argsort(self.rows, kind="stable")
        rows, columns = self.rows[order], self.columns[order]
        firsts = np.arange(0, n_rows, height)
        starts = np.searchsorted(rows, np.append(firsts, n_rows))
        blocks = []
        for first, start, stop in zip(firsts, starts[:-1], starts[1:], strict=True):
            places = (rows[start:stop] - first) * n_columns + columns[start:stop]
            blocks.append((slice(int(first), min(int(first) + height, n_rows)), places))
        return blocks

    def read_blocks(self, latent: LowRank) -> Iterator[tuple[slice, Array, Array]]:
        """Block by block the rows, the losses and the slopes, 0 at entries, unscaled.

        The same two buffers each time.
        """
        right = np.ascontiguousarray(latent.right.T)
        height = max(rows.stop - rows.start for rows, _ in self.blocks)
        buffers = np.empty((2, height, self.shape[1]))
        for rows, places in self.blocks:
            check_time()
            slopes, losses = buffers[:, : rows.stop - rows.start]
            np.matmul(latent.left[rows], right, out=slopes)
            flat, costs = slopes.reshape(-1), losses.reshape(-1)
            for first in range(0, flat.size, SLICE):
                part = slice(first, first + SLICE)
                costs[part], flat[part] = self.loss.value_and_slope(flat[part])
            flat[places] = costs[places] = 0.0
            yield rows, losses, slopes

    def second_derivatives(self, latent: LowRank) -> Iterator[tuple[slice, Array]]:
        """Block by block the rows and the second derivatives, 0 at entries, unscaled."""
        right = np.ascontiguousarray(latent.right.T)
        for rows, places in self.blocks:
            check_time()
            second = latent.left[rows] @ right
            flat = second.reshape(-1)
            for first in range(0, flat.size, SLICE):
                part = slice(first, first + SLICE)
                flat[part] = self.loss.second_derivative(flat[part])
            flat[places] = 0.0
            yield rows, second

    def of_lines(self, latent: LowRank, z: Array, by_rows: bool) -> Array:
        """The sum over each row of Z, or each column."""
        total = np.zeros(self.shape[0 if by_rows else 1])
        for rows, losses, _ in self.read_blocks(latent):
            if by_rows:
                total[rows] = np.sum(losses, axis=1)
            else:
                total += np.sum(losses, axis=0)
        return self.scale * total


@attrs.frozen(eq=False)
class Passed:
    """What one pass over all cells brings: sums, and products with the factors."""

    value: float
    forward: Array  # T V
    backward: Array  # T' U
    length: float  # Frobenius norm of T


@attrs.frozen(eq=False)
class BlockwiseAt(UnwrittenAt):
    """The losses at a Z."""

    blockwise: Blockwise
    latent: LowRank

    at_entries = np.zeros(1)  # the blocks have nothing there

    @cached_property
    def whole(self) -> Passed:
        """Value, products and length of the slope, in one pass."""
        scale, (n_rows, n_columns) = self.blockwise.scale, self.latent.shape
        values, squares = [], []
        forward, backward = (np.zeros((n, self.latent.width)) for n in (n_rows, n_columns))
        for rows, losses, slopes in self.blockwise.read_blocks(self.latent):
            values.append(float(np.sum(losses)))
            squares.append(float(np.vdot(slopes, slopes)))
            np.matmul(slopes, self.latent.right, out=forward[rows])
            backward += slopes.T @ self.latent.left[rows]
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
        """The slopes of each block in 32 bits, if they are not too many.

        Rounding moves a point of the dual a little: inside of its domain it is as good a one.
        """
        if self.blockwise.n_read > HELD:
            return None
        loss = self.blockwise.loss
        return [
            round_to_single(loss, slopes)
            for _, _, slopes in self.blockwise.read_blocks(self.latent)
        ]

    def blocks(self) -> Iterator[tuple[slice, IntArray, Array]]:
        """Rows, places of entries and unscaled slopes, which are the same each time."""
        if self.held is not None:
            for (rows, places), slopes in zip(self.blockwise.blocks, self.held, strict=True):
                yield rows, places, slopes.astype(np.float64)
            return
        passed = self.blockwise.read_blocks(self.latent)
        for (rows, places), (_, _, slopes) in zip(self.blockwise.blocks, passed, strict=True):
            yield rows, places, slopes

    def slope(self) -> "Slopes":
        """T, the slopes, as an operator."""
        return Slopes(self)

    def hessians(self, by_rows: bool) -> Hessians:
        """A matrix V' diag(w) V for each line, w its second derivatives.

        As one product with the columns' k (k + 1) / 2 products in pairs. Where these take too
        much memory the highest curvature serves: one Gram matrix for all lines.
        """
        own, other = self.latent.left, self.latent.right
        if not by_rows:
            own, other = other, own
        scale = self.blockwise.scale
        if own.shape[0] * own.shape[1] ** 2 > HESSIANS:
            highest = scale * float(self.blockwise.loss.curvature)
            return Hessians((other.T @ other)[None], np.full(own.shape[0], highest), highest)
        upper = np.triu_indices(own.shape[1])
        pairs = other[:, upper[0]] * other[:, upper[1]]
        sums = np.zeros((own.shape[0], pairs.shape[1]))
        for rows, second in self.blockwise.second_derivatives(self.latent):
            if by_rows:
                np.matmul(second, pairs, out=sums[rows])
            else:
                sums += second.T @ pairs[rows]
        matrices = np.empty((own.shape[0], own.shape[1], own.shape[1]))
        matrices[:, upper[0], upper[1]] = matrices[:, upper[1], upper[0]] = sums
        return Hessians(matrices, np.full(own.shape[0], scale), 0.0)

    def curvature_along(self, after: "BlockwiseAt", moved: LowRank, z: Array) -> float:
        """2 (F(Z + D) - F(Z) - <T, D>) up to rounding, in [0, highest curvature ||D||^2]."""
        along = float(np.vdot(moved.left, self.slope() @ moved.right))
        risen = 2.0 * (after.value - self.value - along)
        squares = float(np.sum((moved.left.T @ moved.left) * (moved.right.T @ moved.right)))
        highest = self.blockwise.scale * float(self.blockwise.loss.curvature) * squares
        return min(max(risen + NOISE * EPS * abs(self.value), 0.0), highest)

    def conjugate(self, share: float) -> tuple[float, float]:
        """The sum of the conjugates, and the sum of their sizes."""
        loss, scale = self.blockwise.loss, self.blockwise.scale
        if share == 0.0:
            n_unwritten = self.blockwise.n_read - self.blockwise.rows.size
            total = n_unwritten * float(loss.conjugate(np.zeros(1))[0])
            return scale * total, ROUNDED * scale * abs(total)
        sums, sizes = [], []
        for _, places, slopes in self.blocks():
            flat = slopes.reshape(-1)
            for first in range(0, flat.size, SLICE):
                part = slice(first, first + SLICE)
                flat[part] = loss.conjugate(share * flat[part])
            flat[places] = 0.0
            sums.append(float(np.sum(flat)))
            sizes.append(float(np.sum(np.abs(flat))))
        return scale * math.fsum(sums), ROUNDED * scale * math.fsum(sizes)


def round_to_single(loss: UnlabeledLoss, slopes: Array) -> Array:
    """Slopes in 32 bits, those that leave their domain by it moved inwards."""
    short = slopes.astype(np.float32)
    flat = short.reshape(-1)
    for first in range(0, flat.size, SLICE):
        part = flat[first : first + SLICE]
        near = loss.nearest_slope(part.astype(np.float64))
        inwards = np.where(near > part, np.float32(np.inf), np.float32(-np.inf))
        part[:] = np.where(near == part, part, np.nextafter(part, inwards))
    return short


@attrs.frozen(eq=False)
class Slopes(Operator):
    """T (n_rows x n_columns) by its products: each reads all cells."""

    point: BlockwiseAt

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        shape: tuple[int, int] = self.point.latent.shape
        return shape

    @property
    def rounding(self) -> float:
        """A sum of so many products each way."""
        return EPS * (sum(self.shape) + 16) * self.point.whole.length

    def _matmat(self, block: Array) -> Array:
        out = np.empty((self.shape[0], block.shape[1]))
        for rows, _, slopes in self.point.blocks():
            np.matmul(slopes, block, out=out[rows])
        return self.point.blockwise.scale * out

    def _rmatmat(self, block: Array) -> Array:
        out = np.zeros((self.shape[1], block.shape[1]))
        for rows, _, slopes in self.point.blocks():
            out += slopes.T @ block[rows]
        return self.point.blockwise.scale * out
