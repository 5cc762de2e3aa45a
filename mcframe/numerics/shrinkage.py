"""Singular value shrinkage, by whichever decomposition is cheapest for the rank at hand."""

from collections.abc import Callable

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, svd
from mcframe.contracts.stored_classes import stored
from mcframe.numerics.operators import Dense, LowRank, Operator, thin_qr
from mcframe.runtime.machine import check_time, gram, matmul

# Columns that the block iteration carries beyond the rank.
GUARD_COLUMNS = 12
# Of these so many are drawn anew each time, for what the others cannot see.
RANDOM_COLUMNS = 2
# A Gram matrix squares the condition number: it serves thresholds above this fraction of ||A||.
GRAM_THRESHOLD = 1e-4
# Below this smaller side all eigenvectors of a Gram matrix take less time than the bookkeeping of
# a block, and than a singular value decomposition.
SMALL_SIDE = 64
# The degree of a filter is at most this.
LARGEST_DEGREE = 8
# Ritz values of A'A so many times beyond the end of the block are not filtered: with the degree
# above, rounding of the longest column would hide the shortest.
UNFILTERED_RATIO = 4.0
# Filters that a call takes in the mean, for the estimate of its cost, and at most.
USUAL_PASSES, MOST_PASSES = 1.5, 12
# Where an error is so far below what is allowed, the next filter has a lower degree.
LOWER_DEGREE_ERROR = 0.1
# Vectors of values shrunk to 0 are kept from this share of the threshold on, for what looks ahead
# to them.
STORED_VECTOR_SHARE = 0.9
# Filters are in single precision as long as the allowed error is this share of the longest column.
LEAST_SINGLE_ERROR = 1e-3
# How much smaller the errors become when a more exact answer is asked for.
ERROR_REDUCTION = 0.1


@stored
@attrs.frozen(eq=False)
class Shrunk:
    """``left @ diag(values) @ right.T``: left and right orthonormal, values positive.

    ``below`` are singular vectors of the smaller side whose values were shrunk to 0: those closest
    to the threshold, as far as they were seen.
    """

    left: Array
    values: Array
    right: Array
    below: Array | None = None

    def write(self, out: Array) -> None:
        """The matrix itself, into a buffer."""
        matmul(self.left * self.values, self.right.T, out)


def cheapest(shape: tuple[int, int], rank: int, degree: int = 1) -> str:
    """The engine with the fewest operations: "gram", "filter" or "filtered gram".

    Counts in multiplications at matrix-product speed, the factors measured once on dense
    1000 x 600 and 5000 x 600 matrices: a Gram matrix of the smaller side d costs n d^2 / 2, all
    of its eigenvectors 8 d^3. A pass of the block iteration with k columns applies it
    degree + 1 times, at d^2 k each, or at 2 n d k without it, and takes 6 d k^2 + 16 k^3 for
    the rest.
    """
    large, small = max(shape), min(shape)
    if small <= SMALL_SIDE:
        return "gram"
    block = min(rank + GUARD_COLUMNS, small)
    square, applied = 0.5 * large * small**2, USUAL_PASSES * (degree + 1) * block * small
    rest = USUAL_PASSES * (6 * small * block**2 + 16 * block**3)
    costs = {
        "gram": square + 8 * small**3,
        "filtered gram": square + applied * small + rest,
        "filter": applied * 2 * large + rest,
    }
    return min(costs, key=lambda name: costs[name])


@stored(recomputed=("rng",))
@attrs.define(eq=False)
class Shrinker:
    """Shrinks the singular values of a sequence of slowly changing matrices.

    "gram" is exact up to the squared condition number and gives way to a full decomposition,
    which is exact, for thresholds below 1e-4 ||A||. The filters are subspace iterations on A'A
    from the previous singular vectors, each pass a Chebyshev polynomial that damps what lies below
    the block (Zhou, Saad, Tiago and Chelikowsky, J. Comput. Phys. 2006), repeated until the
    residuals of what is kept are within an error that the caller allows; with "filtered gram"
    A'A is formed first. A guard of extra columns follows what may rise above the threshold;
    where more rises than that, it is found in the calls that follow. They are never trusted by a
    certificate.

    ``share`` is the error relative to the length that the caller gives; ``increase_accuracy``
    lowers it.
    """

    shape: tuple[int, int]
    rng: np.random.Generator
    share: float = 0.3
    rank: int = 0
    basis: Array | None = None
    ritz: Array | None = None  # eigenvalues of A'A that belong to the basis, descending
    degree: int = 1  # of the filters

    @classmethod
    def near(cls, latent: LowRank, rng: np.random.Generator) -> "Shrinker":
        """One that begins with the singular vectors of a matrix close to those to come."""
        tall = latent.shape[0] >= latent.shape[1]
        basis = np.linalg.qr(latent.right if tall else latent.left)[0]
        return cls(latent.shape, rng, rank=latent.width, basis=basis)

    def copy(self, rng: np.random.Generator | None = None) -> "Shrinker":
        """One that goes on from where this one stands, which it leaves as it is."""
        return attrs.evolve(self, rng=self.rng if rng is None else rng)

    def __call__(
        self,
        matrix: Operator,
        shrink: Callable[[Array], Array],
        threshold: float,
        length: float = np.inf,
    ) -> Shrunk:
        """The shrunk matrix in factors; ``shrink`` maps singular values, 0 up to ``threshold``.

        Its error in the Frobenius norm is about ``share * length`` at most, what a block has
        not yet seen aside. Only a ``Dense`` matrix can be decomposed whole.
        """
        engine = cheapest(self.shape, self.rank, self.degree)
        if not isinstance(matrix, Dense):
            shrunk = self.shrink_block(matrix, shrink, threshold, length)
        elif engine == "gram" or threshold < GRAM_THRESHOLD * self.largest:
            shrunk = shrink_gram(matrix.array, shrink, threshold)
        else:
            formed = engine == "filtered gram"
            shrunk = self.shrink_block(matrix, shrink, threshold, length, formed)
        self.rank = shrunk.values.size
        return shrunk

    def increase_accuracy(self) -> None:
        """Smaller errors from the next call on, and a sharper eye for what may rise."""
        self.share *= ERROR_REDUCTION
        self.degree = LARGEST_DEGREE

    @property
    def largest(self) -> float:
        """The largest singular value at the last call of a filter; 0 before."""
        return 0.0 if self.ritz is None else float(np.sqrt(self.ritz[0]))

    def shrink_block(
        self,
        matrix: Operator,
        shrink: Callable[[Array], Array],
        threshold: float,
        length: float,
        formed: bool = False,
    ) -> Shrunk:
        """Filters until the residuals of what is above the threshold are within the error.

        With A'A v = s^2 v + r the triplet is one of a matrix at a distance of ||r|| / s, and
        shrinkage does not lengthen distances.
        """
        tall = upright(matrix)
        square = Square(tall, formed)
        rough = self.rough(square, self.share * length)
        basis, ritz = self.widen(tall.shape[1])
        for _ in range(MOST_PASSES):
            check_time()
            block = apply_filter(rough, basis, ritz, threshold**2, self.degree)
            basis, ritz, long, residuals = ritz_vectors(square, block)
            above = int(np.count_nonzero(ritz > threshold**2))
            distance = float(np.linalg.norm(residuals[:above] / np.sqrt(ritz[:above])))
            if distance <= self.share * length:
                break
            self.degree = min(self.degree + 1, LARGEST_DEGREE)
        if distance <= LOWER_DEGREE_ERROR * self.share * length:
            self.degree -= 1
        self.degree = max(self.degree, 1)
        assert ritz is not None
        values = np.sqrt(ritz)
        shrunk = shrink(values)
        kept = int(np.count_nonzero(shrunk > 0.0))
        width = max(above, kept) + GUARD_COLUMNS
        self.basis, self.ritz = basis[:, :width], ritz[:width]
        short = np.ascontiguousarray(basis[:, :kept])
        far = tall @ short if long is None else long[:, :kept]
        pair = (far / values[:kept], short)
        left, right = pair if tall.shape == matrix.shape else pair[::-1]
        return Shrunk(left, shrunk[:kept], right, basis[:, kept:width])

    def rough(self, square: "Square", error: float) -> "Square":
        """The matrix of filters: in single precision where the allowed error is large enough."""
        large = square.formed is None and 0.0 < LEAST_SINGLE_ERROR * self.largest <= error
        if not (large and square.tall.single):
            return square
        return Square(square.tall.in_units(self.largest), unit=self.largest)

    def widen(self, side: int) -> tuple[Array, Array | None]:
        """The last basis, at least a guard beyond the rank, some columns random."""
        basis = np.zeros((side, 0)) if self.basis is None else self.basis
        wanted = min(self.rank + max(GUARD_COLUMNS, self.rank // 4), side)
        missing = min(max(wanted - basis.shape[1], RANDOM_COLUMNS), side - basis.shape[1])
        fresh = self.rng.standard_normal((side, missing)) / np.sqrt(side)
        if self.ritz is not None:
            return np.hstack([basis, fresh]), np.append(self.ritz, np.full(missing, self.ritz[-1]))
        return np.hstack([basis, fresh]), None


def upright(matrix: Operator) -> Operator:
    """The matrix or its transpose, whichever has the fewer columns."""
    return matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T


class Square:
    """A'A by its products, or formed once, of an A that is divided by its unit."""

    def __init__(self, tall: Operator, formed: bool = False, unit: float = 1.0) -> None:
        self.tall, self.unit = tall, unit
        self.formed = tall.gram_matrix()
        if formed and isinstance(tall, Dense):
            self.formed = gram(tall.array)

    def images(self, block: Array) -> tuple[Array | None, Array]:
        """A V, where it comes up, and A'A V."""
        if self.formed is not None:
            return None, matmul(self.formed, block)
        long = self.tall @ block
        return long, self.tall.T @ long

    def times(self, block: Array) -> Array:
        """A'A V."""
        return self.tall.gram(block) if self.formed is None else matmul(self.formed, block)


def apply_filter(
    square: Square, basis: Array, ritz: Array | None, threshold: float, degree: int
) -> Array:
    """A polynomial of A'A times a block.

    It is the one that is smallest on [0, b] for its growth beyond, b the end of the block.
    Leading columns, far beyond b, take one product and are kept out of the others' way, whose
    polynomial they would swamp. Without ``ritz`` all take a plain power.
    """
    if ritz is None:
        return square.times(thin_qr(square.times(basis))[0])
    numbers = np.finfo(square.tall.dtype)
    basis = basis.astype(numbers.dtype, copy=False)
    ritz, threshold = ritz / square.unit**2, threshold / square.unit**2
    # A block that reaches into the null space ends in rounding, which must not be blown up.
    end = float(max(min(ritz[-1], threshold), numbers.eps * ritz[0], numbers.tiny))
    leading = int(np.count_nonzero(ritz > UNFILTERED_RATIO * end))
    lead, rest = basis[:, :leading], basis[:, leading:]

    def shifted(block: Array) -> Array:
        image = square.times(block) * (2.0 / end) - block
        return image - lead @ (lead.T @ image)

    before, now = rest, shifted(rest)
    for _ in range(degree - 1):
        before, now = now, 2.0 * shifted(now) - before
    lengths = np.linalg.norm(now, axis=0)
    now /= np.where(lengths > 0.0, lengths, 1.0)
    columns = (square.times(lead) / ritz[:leading], now) if leading else (now,)
    return np.hstack(columns).astype(float, copy=False)


def ritz_vectors(square: Square, block: Array) -> tuple[Array, Array, Array | None, Array]:
    """Ritz vectors V and values of A'A in the span of a block, A V, and their residuals."""
    basis = thin_qr(block)[0]
    long, image = square.images(basis)
    values, turn = np.linalg.eigh(basis.T @ image)
    values, turn = np.maximum(values[::-1], 0.0), np.ascontiguousarray(turn[:, ::-1])
    basis = basis @ turn
    residuals = np.linalg.norm(image @ turn - basis * values, axis=0)
    return basis, values, None if long is None else long @ turn, residuals


def shrink_full(matrix: Array, shrink: Callable[[Array], Array]) -> Shrunk:
    """Shrink singular values by a full decomposition."""
    left, values, right = svd(matrix)
    shrunk = shrink(values)
    kept = int(np.count_nonzero(shrunk > 0.0))
    return Shrunk(left[:, :kept], shrunk[:kept], right[:kept].T)


def shrink_gram(matrix: Array, shrink: Callable[[Array], Array], threshold: float) -> Shrunk:
    """Through the eigenvectors of the Gram matrix of the smaller side."""
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    eigenvalues, vectors = np.linalg.eigh(gram(tall))
    values = np.sqrt(np.maximum(eigenvalues[::-1], 0.0))
    if threshold < GRAM_THRESHOLD * values[0]:
        return shrink_full(matrix, shrink)
    shrunk = shrink(values)
    kept = int(np.count_nonzero(shrunk > 0.0))
    seen = int(np.count_nonzero(values > STORED_VECTOR_SHARE * threshold))
    descending = vectors[:, ::-1]
    short, below = (np.ascontiguousarray(descending[:, a:b]) for a, b in ((0, kept), (kept, seen)))
    long = matmul(tall, short) / values[:kept]
    pair = (long, short) if tall is matrix else (short, long)
    return Shrunk(pair[0], shrunk[:kept], pair[1], below)
