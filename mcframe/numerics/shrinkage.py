"""Singular value shrinkage, by whichever decomposition is cheapest for the rank at hand."""

from collections.abc import Callable

import attrs
import numpy as np

from mcframe.contracts.arrays import Array

__all__ = ["Shrinker", "Shrunk", "cheapest"]

# Columns that the block iteration carries beyond the rank.
GUARD = 12
# Of these so many are drawn anew each time, for what the others cannot see.
FRESH = 2
# A Gram matrix squares the condition number: it serves thresholds above this fraction of ||A||.
GRAM_THRESHOLD = 1e-4
# A Cholesky factor whose diagonal spans less than this leaves a basis orthonormal to 1e-10.
WELL_CONDITIONED = 1e-3
# Below this smaller side a full decomposition takes less time than the bookkeeping.
SMALL_SIDE = 64
# The degree of a filter is at most this, and such that it tells no two columns apart by more
# than the second number, beyond which rounding of the longer one hides the shorter.
DEGREE, SPREAD = 8, 1e10
# Filters that a call takes in the mean, for the estimate of its cost, and at most.
USUAL_PASSES, MOST_PASSES = 1.5, 12
# How much smaller the errors become when a more exact answer is asked for.
SHARPER = 0.1


@attrs.frozen(eq=False)
class Shrunk:
    """``left @ diag(values) @ right.T``: left and right orthonormal, values positive."""

    left: Array
    values: Array
    right: Array

    def write(self, out: Array) -> None:
        """The matrix itself, into a buffer."""
        np.matmul(self.left * self.values, self.right.T, out=out)


def cheapest(shape: tuple[int, int], rank: int, degree: int = 1) -> str:
    """The engine with the fewest operations: "full", "gram", "filter" or "filtered gram".

    Counts in multiplications at matrix-product speed, the factors measured once on dense
    1000 x 600 and 5000 x 600 matrices: a Gram matrix of the smaller side d costs n d^2 / 2, all
    of its eigenvectors 8 d^3. A pass of the block iteration with k columns applies it
    degree + 1 times, at d^2 k each, or at 2 n d k without it, and takes 6 d k^2 + 16 k^3 for
    the rest.
    """
    large, small = max(shape), min(shape)
    if small <= SMALL_SIDE:
        return "full"
    block = min(rank + GUARD, small)
    square, applied = 0.5 * large * small**2, USUAL_PASSES * (degree + 1) * block * small
    rest = USUAL_PASSES * (6 * small * block**2 + 16 * block**3)
    costs = {
        "gram": square + 8 * small**3,
        "filtered gram": square + applied * small + rest,
        "filter": applied * 2 * large + rest,
    }
    return min(costs, key=lambda name: costs[name])


@attrs.define(eq=False)
class Shrinker:
    """Shrinks the singular values of a sequence of slowly changing matrices.

    "full" is exact. "gram" is exact up to the squared condition number and gives way to
    "full" for thresholds below 1e-4 ||A||. The filters are subspace iterations on A'A from the
    previous singular vectors, each pass a Chebyshev polynomial that damps what lies below the
    block (Zhou, Saad, Tiago and Chelikowsky, J. Comput. Phys. 2006), repeated until the
    residuals of what is kept are within an error that the caller allows; with "filtered gram"
    A'A is formed first. A guard of extra columns follows what may rise above the threshold;
    where more rises than that, it is found in the calls that follow. They are never trusted by a
    certificate.

    ``share`` is the error beside the length that the caller gives; ``sharpen`` lowers it.
    """

    shape: tuple[int, int]
    rng: np.random.Generator
    share: float = 0.3
    rank: int = 0
    basis: Array | None = None
    ritz: Array | None = None  # eigenvalues of A'A that belong to the basis, descending
    degree: int = 1  # of the filters

    def __call__(
        self,
        matrix: Array,
        shrink: Callable[[Array], Array],
        threshold: float,
        length: float = np.inf,
    ) -> Shrunk:
        """The shrunk matrix in factors; ``shrink`` maps singular values, 0 up to ``threshold``.

        Its error in the Frobenius norm is about ``share * length`` at most, what a block has
        not yet seen aside.
        """
        engine = cheapest(self.shape, self.rank, self.degree)
        if engine == "full":
            shrunk = shrink_full(matrix, shrink)
        elif engine == "gram":
            shrunk = shrink_gram(matrix, shrink, threshold)
        else:
            formed = engine == "filtered gram"
            shrunk = self.shrink_block(matrix, shrink, threshold, self.share * length, formed)
        self.rank = shrunk.values.size
        return shrunk

    def sharpen(self) -> None:
        """Smaller errors from the next call on."""
        self.share *= SHARPER

    def shrink_block(
        self,
        matrix: Array,
        shrink: Callable[[Array], Array],
        threshold: float,
        error: float,
        formed: bool,
    ) -> Shrunk:
        """Filters until the residuals of what is above the threshold are within ``error``.

        With A'A v = s^2 v + r the triplet is one of a matrix at a distance of ||r|| / s, and
        shrinkage does not lengthen distances.
        """
        tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
        square = tall.T @ tall if formed else None

        def apply(block: Array) -> Array:
            return tall.T @ (tall @ block) if square is None else square @ block

        basis, ritz = self.widened(tall.shape[1])
        for passes in range(1, MOST_PASSES + 1):
            basis, ritz, residuals = filtered(apply, basis, ritz, threshold**2, self.degree)
            above = int(np.count_nonzero(ritz > threshold**2))
            distance = float(np.linalg.norm(residuals[:above] / np.sqrt(ritz[:above])))
            if distance <= error:
                break
            self.degree = min(self.degree + 1, DEGREE)
        if passes == 1 and distance <= 0.1 * error:
            self.degree = max(self.degree - 1, 1)
        if threshold < GRAM_THRESHOLD * np.sqrt(ritz[0]):
            return shrink_full(matrix, shrink)
        values = np.sqrt(ritz)
        shrunk = shrink(values)
        kept = int(np.count_nonzero(shrunk > 0.0))
        self.basis, self.ritz = basis[:, : max(above, kept) + GUARD], ritz
        short = np.ascontiguousarray(basis[:, :kept])
        long = (tall @ short) / values[:kept]
        pair = (long, short) if tall is matrix else (short, long)
        return Shrunk(pair[0], shrunk[:kept], pair[1])

    def widened(self, side: int) -> tuple[Array, Array | None]:
        """The last basis, at least a guard beyond the rank, some columns random."""
        basis = np.zeros((side, 0)) if self.basis is None else self.basis
        wanted = min(self.rank + max(GUARD, self.rank // 4), side)
        missing = min(max(wanted - basis.shape[1], FRESH), side - basis.shape[1])
        fresh = self.rng.standard_normal((side, missing)) / np.sqrt(side)
        return np.hstack([basis, fresh]), self.ritz


def filtered(
    apply: Callable[[Array], Array],
    basis: Array,
    ritz: Array | None,
    threshold: float,
    degree: int,
) -> tuple[Array, Array, Array]:
    """One pass: Ritz vectors, Ritz values and residuals after a filter of the block.

    The polynomial is the one that is smallest on [0, b] for its growth beyond, b the end of the
    block: without ``ritz`` a plain power.
    """
    if ritz is None:
        block = apply(orthonormal(apply(basis)))
    else:
        end = max(min(ritz[-1], threshold), np.finfo(float).tiny)
        reach = max(2.0 * ritz[0] / end - 1.0, 1.0)
        most = max(int(np.log(SPREAD) / np.log(2.0 * reach)), 1)
        block = chebyshev(apply, basis, min(degree, most), end)
    basis = orthonormal(block)
    image = apply(basis)
    values, turn = np.linalg.eigh(basis.T @ image)
    values, turn = np.maximum(values[::-1], 0.0), turn[:, ::-1]
    basis = basis @ turn
    return basis, values, np.linalg.norm(image @ turn - basis * values, axis=0)


def chebyshev(apply: Callable[[Array], Array], block: Array, degree: int, end: float) -> Array:
    """T_degree(2 A'A / end - 1) times a block, its columns scaled to one length."""
    before, now = block, apply(block) * (2.0 / end) - block
    for _ in range(degree - 1):
        ahead = apply(now)
        ahead *= 4.0 / end
        ahead -= 2.0 * now
        ahead -= before
        before, now = now, ahead
    lengths = np.linalg.norm(now, axis=0)
    return now / np.where(lengths > 0.0, lengths, 1.0)


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
