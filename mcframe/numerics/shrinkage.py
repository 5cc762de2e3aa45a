"""Singular value shrinkage, by whichever decomposition is cheapest for the rank at hand."""

from collections.abc import Callable

import attrs
import numpy as np

from mcframe.contracts.arrays import Array

__all__ = ["Shrinker", "Shrunk", "cheapest"]

# Columns that the block iteration carries beyond the rank, and how far they may outgrow it.
GUARD = 6
# A Gram matrix squares the condition number: it serves thresholds above this fraction of ||A||.
GRAM_THRESHOLD = 1e-4
# A Cholesky factor whose diagonal spans less than this leaves a basis orthonormal to 1e-10.
WELL_CONDITIONED = 1e-3
# Below this smaller side a full decomposition takes less time than the bookkeeping.
SMALL_SIDE = 64


@attrs.frozen(eq=False)
class Shrunk:
    """``left @ diag(values) @ right.T``: left and right orthonormal, values positive."""

    left: Array
    values: Array
    right: Array

    def write(self, out: Array) -> None:
        """The matrix itself, into a buffer."""
        np.matmul(self.left * self.values, self.right.T, out=out)


def cheapest(shape: tuple[int, int], rank: int) -> str:
    """The decomposition with the fewest operations: "full", "gram" or "block".

    Counts in multiplications at matrix-product speed, the factors measured once on dense
    1000 x 600 and 5000 x 600 matrices: a Gram matrix of the smaller side d costs n d^2 plus
    8 d^3 for its eigenvectors; one step of block iteration with k columns costs 4 n d k for
    two products, plus 12 (n + d) k^2 for the orthogonalisation.
    """
    large, small = max(shape), min(shape)
    if small <= SMALL_SIDE:
        return "full"
    block = rank + 2 * GUARD
    gram_cost = large * small**2 + 8 * small**3 + 2 * large * small * rank
    block_cost = 4 * large * small * block + 12 * (large + small) * block**2
    return "block" if block_cost < gram_cost else "gram"


@attrs.define(eq=False)
class Shrinker:
    """Shrinks the singular values of a sequence of slowly changing matrices.

    "full" is exact. "gram" is exact up to the squared condition number and falls back to
    "full" for thresholds below 1e-4 ||A||. "block" is one step of subspace iteration from the
    previous right singular vectors, with a guard of extra columns that follow what may rise
    above the threshold: its error decays with the sequence and is never trusted by a
    certificate. ``accuracy`` is the number of power steps a call; ``sharpen`` raises it, and
    past a few steps leaves the block iteration for good.
    """

    shape: tuple[int, int]
    rng: np.random.Generator
    accuracy: int = 1
    exact: bool = False
    rank: int = 0
    basis: Array | None = None

    def __call__(
        self, matrix: Array, shrink: Callable[[Array], Array], threshold: float
    ) -> Shrunk:
        """The shrunk matrix in factors; ``shrink`` maps singular values, 0 up to ``threshold``."""
        engine = cheapest(self.shape, self.rank)
        if engine == "full":
            shrunk = shrink_full(matrix, shrink)
        elif engine == "gram" or self.exact:
            shrunk = shrink_gram(matrix, shrink, threshold)
        else:
            shrunk = self.shrink_block(matrix, shrink, threshold)
        self.rank = shrunk.values.size
        return shrunk

    def sharpen(self) -> None:
        """More power steps from the next call on; after four, exact decompositions only."""
        self.accuracy += 1
        self.exact = self.exact or self.accuracy > 4

    def shrink_block(
        self, matrix: Array, shrink: Callable[[Array], Array], threshold: float
    ) -> Shrunk:
        """One call of warm-started subspace iteration."""
        basis = self.widened()
        for _ in range(self.accuracy):
            left = orthonormal(matrix @ basis)
            basis, values, rotation = thin_svd(matrix.T @ left)
        above = int(np.count_nonzero(values > threshold))
        shrunk = shrink(values)
        kept = int(np.count_nonzero(shrunk > 0.0))
        self.basis = basis[:, : max(above, kept) + 2 * GUARD]
        return Shrunk(left @ rotation[:kept].T, shrunk[:kept], basis[:, :kept])

    def widened(self) -> Array:
        """The last basis with at least ``GUARD`` columns beyond the rank, the new ones random."""
        basis = np.zeros((self.shape[1], 0)) if self.basis is None else self.basis
        wanted = min(self.rank + max(GUARD, self.rank // 4), *self.shape)
        missing = wanted - basis.shape[1]
        if missing <= 0:
            return basis
        fresh = self.rng.standard_normal((self.shape[1], missing))
        return np.hstack([basis, fresh / np.sqrt(self.shape[1])])


def orthonormal(tall: Array) -> Array:
    """An orthonormal basis of the columns of a tall matrix.

    Cholesky QR: three times as fast as Householder's, and off by eps times the squared
    condition number, so that it is done twice where that is large; beyond about 1e7 the
    factorisation fails and Householder's serves.
    """
    basis = tall
    try:
        for _ in range(2):
            factor = np.linalg.cholesky(basis.T @ basis)
            basis = basis @ np.linalg.inv(factor).T
            diagonal = np.diagonal(factor)
            if np.min(diagonal) > WELL_CONDITIONED * np.max(diagonal):
                break
    except np.linalg.LinAlgError:
        return np.linalg.qr(tall)[0]
    return basis


def thin_svd(tall: Array) -> tuple[Array, Array, Array]:
    """As ``numpy.linalg.svd(tall, full_matrices=False)``, by the Gram matrix where that serves.

    A third of the time at 600 x 340; where the singular values span more than 1e4 their squares
    do not serve.
    """
    eigenvalues, vectors = np.linalg.eigh(tall.T @ tall)
    values = np.sqrt(np.maximum(eigenvalues[::-1], 0.0))
    if values.size == 0 or values[-1] <= GRAM_THRESHOLD * values[0]:
        return np.linalg.svd(tall, full_matrices=False)
    rotation = vectors[:, ::-1]
    return (tall @ rotation) / values, values, rotation.T


def shrink_full(matrix: Array, shrink: Callable[[Array], Array]) -> Shrunk:
    """By a full singular value decomposition."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    shrunk = shrink(values)
    kept = int(np.count_nonzero(shrunk > 0.0))
    return Shrunk(left[:, :kept], shrunk[:kept], right[:kept].T)


def shrink_gram(matrix: Array, shrink: Callable[[Array], Array], threshold: float) -> Shrunk:
    """Through the eigenvectors of the Gram matrix of the smaller side."""
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    eigenvalues, vectors = np.linalg.eigh(tall.T @ tall)
    values = np.sqrt(np.maximum(eigenvalues[::-1], 0.0))
    if threshold < GRAM_THRESHOLD * values[0]:
        return shrink_full(matrix, shrink)
    shrunk = shrink(values)
    kept = int(np.count_nonzero(shrunk > 0.0))
    short = np.ascontiguousarray(vectors[:, ::-1][:, :kept])
    long = (tall @ short) / values[:kept]
    if tall is matrix:
        return Shrunk(long, shrunk[:kept], short)
    return Shrunk(short, shrunk[:kept], long)
