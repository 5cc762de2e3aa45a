"""Matrices known at some of their entries only: products, and a bound on their norm."""

from functools import cached_property

import attrs
import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray, Matrix
from mcframe.numerics import kernels
from mcframe.numerics.spectral_norm import norm_upper_bound
from mcframe.numerics.unwritten import Everywhere

__all__ = [
    "Lines",
    "Pattern",
    "Sampled",
    "SampledMatrix",
    "SparsePlus",
    "leading_block",
    "norm_bound",
    "spectral_bound",
    "top_singular",
]

EPS = float(np.finfo(np.float64).eps)
# The share of random starts for which a bound by Lanczos steps may fail, and how far above the
# largest Ritz value it is tried.
FAILURE = 1e-12
MARGINS = np.logspace(-15, 1, 400)
# Lanczos steps before the first look at the bound, between two looks, and at most.
FIRST_STEPS, STRIDE, MOST_STEPS = 24, 16, 200
# A bound that further steps would lower by less than this, relatively, is left as it is.
DECIDED = 1e-7
# Steps of block iteration, and columns beyond those asked for.
POWERS, EXTRA = 3, 8
# Columns of A and B belong together where <a, S b> is this share of the bound aimed at.
PAIRED = 0.98
# Ritz vectors with relative residuals below this join A and B; how often they may.
CONVERGED, ROUNDS = 1e-4, 4


@attrs.frozen(eq=False)
class Lines:
    """The entries line by line: the rows of a matrix, or its columns."""

    starts: IntArray
    across: IntArray
    places: IntArray

    @classmethod
    def of(cls, compressed: sp.csr_array) -> "Lines":
        """From a matrix whose numbers are the places."""
        return cls(
            compressed.indptr.astype(np.int64),
            compressed.indices.astype(np.uint32),
            compressed.data.astype(np.uint32),
        )

    @cached_property
    def as_given(self) -> bool:
        """Whether the caller's numbers already come in this order."""
        return bool(np.array_equal(self.places, np.arange(self.places.size)))

    def ordered(self, values: Array) -> Array:
        """The caller's numbers in this order."""
        if self.as_given:
            return values
        out = np.empty(self.places.size)
        kernels.gathered(self.places, values, out)
        return out

    @property
    def longest(self) -> int:
        """The most entries of a line."""
        return int(np.max(np.diff(self.starts), initial=0))


@attrs.frozen(eq=False)
class Pattern:
    """Where the known entries stand, by rows and by columns. 16 bytes an entry."""

    shape: tuple[int, int]
    by_rows: Lines
    by_columns: Lines

    @classmethod
    def of(cls, shape: tuple[int, int], rows: IntArray, columns: IntArray) -> "Pattern":
        """From the rows and columns of the entries, in the order in which numbers will come."""
        places = np.arange(rows.size, dtype=np.int32)
        table = sp.coo_array((places, (rows, columns)), shape=shape).tocsr()
        return cls(shape, Lines.of(table), Lines.of(table.T.tocsr()))

    @property
    def transposed(self) -> "Pattern":
        """The same entries of the transpose, in the same order."""
        return Pattern(self.shape[::-1], self.by_columns, self.by_rows)

    def lines(self, by_rows: bool) -> Lines:
        """One of the two orders."""
        return self.by_rows if by_rows else self.by_columns

    def entries(self, left: Array, right: Array, out: Array) -> None:
        """The known entries of ``left @ right.T``."""
        lines = self.by_rows
        kernels.entries(lines.starts, lines.across, lines.places, left, right, out)


@attrs.frozen(eq=False)
class SampledMatrix:
    """A sparse matrix: its pattern, and its numbers in the caller's order.

    It stands where a dense one does for products (``S @ R``, ``S.T @ L``) and multiples.
    """

    pattern: Pattern
    values: Array

    __array_ufunc__ = None  # numpy's numbers leave multiples to this class

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.pattern.shape

    @cached_property
    def T(self) -> "SampledMatrix":  # noqa: N802
        """The transpose; kept, for the order of its numbers."""
        return SampledMatrix(self.pattern.transposed, self.values)

    def __matmul__(self, right: Array) -> Array:
        """S R, for a vector or a thin matrix."""
        return self.times(right) if right.ndim > 1 else self.times(right[:, None])[:, 0]

    def __mul__(self, scale: float) -> "SampledMatrix":
        """A multiple."""
        return SampledMatrix(self.pattern, scale * self.values)

    __rmul__ = __mul__

    def __neg__(self) -> "SampledMatrix":
        """The negative."""
        return SampledMatrix(self.pattern, -self.values)

    def between(self, left: Array, right: Array) -> "SampledMatrix":
        """diag(left) S diag(right)."""
        values = self.values.copy()
        for lines, weights in ((self.pattern.by_rows, left), (self.pattern.by_columns, right)):
            values[lines.places] *= np.repeat(weights, np.diff(lines.starts))
        return SampledMatrix(self.pattern, values)

    @cached_property
    def by_rows(self) -> Array:
        """The numbers row by row."""
        return self.pattern.by_rows.ordered(self.values)

    @cached_property
    def by_columns(self) -> Array:
        """The numbers column by column."""
        return self.pattern.by_columns.ordered(self.values)

    @property
    def rounding(self) -> float:
        """How much rounding of products can hide of the norm."""
        longest = max(self.pattern.by_rows.longest, self.pattern.by_columns.longest)
        return EPS * (longest + 8) * float(np.linalg.norm(self.values))

    def times(self, right: Array) -> Array:
        """S R, for R of one column or a few."""
        return thin_product(self.pattern.by_rows, self.by_rows, right)

    def transposed_times(self, left: Array) -> Array:
        """S' L."""
        return thin_product(self.pattern.by_columns, self.by_columns, left)


@attrs.frozen(eq=False)
class SparsePlus:
    """A sparse matrix beside others with a number in each cell of some columns, all by products.

    ``others`` stand at these columns, ``share`` times each.
    """

    sparse: SampledMatrix
    others: tuple[tuple[slice, Everywhere], ...]
    share: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.sparse.shape

    @property
    def rounding(self) -> float:
        """How much rounding can hide of the norm."""
        return self.sparse.rounding + self.share * sum(other.rounding for _, other in self.others)

    def __mul__(self, scale: float) -> "SparsePlus":
        """A multiple."""
        return SparsePlus(scale * self.sparse, self.others, scale * self.share)

    __rmul__ = __mul__

    def times(self, right: Array) -> Array:
        """The sum times V."""
        product: Array = self.sparse.times(right)
        for columns, other in self.others:
            product = product + self.share * other.times(right[columns])
        return product

    def transposed_times(self, left: Array) -> Array:
        """The sum's transpose times U."""
        product: Array = self.sparse.transposed_times(left)
        for columns, other in self.others:
            product[columns] += self.share * other.transposed_times(left)
        return product


Sampled = SampledMatrix | SparsePlus


def thin_product(lines: Lines, values: Array, thin: Array) -> Array:
    """The sparse matrix with these lines times a thin one."""
    n_lines, width = lines.starts.size - 1, thin.shape[1]
    if width == 1:
        vector = np.empty(n_lines)
        kernels.product_vector(lines.starts, lines.across, values, thin.ravel(), vector)
        return vector[:, None]
    out = np.empty((n_lines, width))
    kernels.product(lines.starts, lines.across, values, np.ascontiguousarray(thin), out)
    return out


@attrs.define(eq=False)
class Remainder:
    """(I - A A') S (I - B B') for orthonormal A and B, by its Lanczos steps on one side."""

    matrix: Sampled
    left: Array
    right: Array
    basis: list[Array] = attrs.field(factory=list)
    diagonal: list[float] = attrs.field(factory=list)
    off: list[float] = attrs.field(factory=list)
    ended: bool = False  # the Krylov space has become invariant

    @property
    def wide(self) -> bool:
        """Whether the space of columns is the smaller one."""
        return self.matrix.shape[1] <= self.matrix.shape[0]

    def begin(self, rng: np.random.Generator, towards: Array | None = None) -> None:
        """A random direction, which bounds need, or a given one."""
        vector: Array = (
            rng.standard_normal((min(self.matrix.shape), 1))
            if towards is None
            else towards[:, None]
        )
        vector = without(vector, self.right if self.wide else self.left)
        length = float(np.linalg.norm(vector))
        if length <= 1e-12 * np.sqrt(vector.size):  # A or B span the whole space
            self.basis, self.diagonal, self.ended = [vector[:, 0]], [0.0], True
            return
        self.basis = [vector[:, 0] / length]

    def square(self, vector: Array) -> Array:
        """The remainder's Gram matrix of the smaller side times a vector."""
        column = vector[:, None]
        if self.wide:
            image = without(self.matrix.times(column), self.left)
            return without(self.matrix.transposed_times(image), self.right)[:, 0]
        image = without(self.matrix.transposed_times(column), self.right)
        return without(self.matrix.times(image), self.left)[:, 0]

    def advance(self, steps: int) -> None:
        """So many Lanczos steps, fully reorthogonalised."""
        known = np.empty((len(self.basis) + steps, self.basis[0].size))
        known[: len(self.basis)] = np.array(self.basis)
        for _ in range(steps):
            if self.ended:
                return
            image = self.square(self.basis[-1])
            self.diagonal.append(float(self.basis[-1] @ image))
            count = len(self.basis)
            for _ in range(2):
                image -= known[:count].T @ (known[:count] @ image)
            length = float(np.linalg.norm(image))
            if length <= 1e-14 * max(self.diagonal) or len(self.basis) == image.size:
                self.ended = True
                return
            self.off.append(length)
            known[count] = image / length
            self.basis.append(known[count])

    def ritz(self) -> tuple[Array, Array]:
        """Ritz values of the Gram matrix, descending, and their vectors in the basis."""
        size = len(self.diagonal)
        tridiagonal = np.diag(self.diagonal)
        for k, length in enumerate(self.off[: size - 1]):
            tridiagonal[k, k + 1] = tridiagonal[k + 1, k] = length
        values, vectors = np.linalg.eigh(tridiagonal)
        return np.maximum(values[::-1], 0.0), vectors[:, ::-1]

    @property
    def largest(self) -> float:
        """The largest Ritz value of the Gram matrix."""
        size = len(self.diagonal)
        top = size - 1, size - 1
        found = sl.eigvalsh_tridiagonal(self.diagonal, self.off[: size - 1], "i", top)
        return max(float(found[0]), 0.0)

    @property
    def least(self) -> float:
        """What the norm is at least."""
        return float(np.sqrt(self.largest))

    def converged(self) -> tuple[Array, Array]:
        """Leading singular vectors whose residuals are small, from the steps so far."""
        values, vectors = self.ritz()
        last = self.off[values.size - 1]
        near = last * np.abs(vectors[-1]) <= CONVERGED * values
        count = int(np.argmin(near)) if not near.all() else values.size
        known = self.right if self.wide else self.left
        short: Array = np.array(self.basis[: values.size]).T @ vectors[:, :count]
        short = np.linalg.qr(without(without(short, known), known))[0]
        if self.wide:
            return np.linalg.qr(without(self.matrix.times(short), self.left))[0], short
        return short, np.linalg.qr(without(self.matrix.transposed_times(short), self.right))[0]

    def bound(self) -> float:
        """An upper bound on the remainder's norm, or inf after too few steps.

        Van Dorsselaer, Hochstenbach and van der Vorst (SIAM J. Matrix Anal. Appl. 2001): the
        Lanczos vector that follows k steps is p(M) v for the start v, with a polynomial p of
        degree k that grows beyond the largest Ritz value. It has norm 1, so that |p| at the
        largest eigenvalue of M is at most 1 / |<v, x>|, x its vector; and for a random v in n
        dimensions |<v, x>| < t with probability at most t sqrt(2 n / pi). t is chosen such that
        this is ``FAILURE``. Ritz values that have converged bring the bound close to the
        largest, without a gap to the others it is about that of Kuczynski and Wozniakowski
        (1992).
        """
        largest = self.largest
        if self.ended:
            return float(np.sqrt(largest))
        trials = largest * (1.0 + MARGINS)
        ceiling = np.log(np.sqrt(2.0 * self.basis[0].size / np.pi) / FAILURE)
        below = np.flatnonzero(~(self.log_polynomial(trials) >= ceiling))
        first = below[-1] + 1 if below.size else 0
        return float(np.sqrt(trials[first])) if first < trials.size else np.inf

    def log_polynomial(self, places: Array) -> Array:
        """log p at places beyond the Ritz values, by the ratios of successive polynomials."""
        total, ratio, before = np.zeros(places.size), np.full(places.size, np.inf), 0.0
        with np.errstate(invalid="ignore", divide="ignore"):
            for middle, after in zip(self.diagonal, self.off, strict=True):
                ratio = (places - middle - before / ratio) / after
                total += np.log(ratio)
                before = after
        return total


def without(block: Array, basis: Array) -> Array:
    """What of a block is orthogonal to a basis."""
    rest: Array = block - basis @ (basis.T @ block)
    return rest


def norm_bound(
    matrix: Sampled, left: Array, right: Array, aim: float, slack: float = DECIDED
) -> float:
    """An upper bound on ||S||_2, tight where A and B span the leading singular spaces.

    S falls into four parts by A and B, orthonormal: ||S||_2 is at most the norm of the 2 x 2
    matrix of the parts' norms (a b; c d), where a, b and c are products with few vectors, of
    which b and c vanish at a solution, and d is bounded by Lanczos steps, few of them where a gap
    separates d from a. Where b and c are so large that this says little, A and B are left out.
    Where there is no gap, the leading vectors that the steps found join A and B, and what remains
    is bounded from another random start. Each start fails with probability 1e-12 at most.

    Cost: a product with S and one with S' for each column of A and B and for each step, of which
    it takes 24 to 200 from each of up to four starts. They end where the bound is within
    a relative ``slack`` of the larger of the norm and ``aim``, or where more steps can lower by a
    third at most what it exceeds ``aim`` by.
    """
    forward = matrix.times(right)
    # Columns that S does not carry to each other, as those about to vanish, only blur the parts.
    paired = np.abs(np.einsum("ij,ij->j", left, forward)) >= PAIRED * aim
    left, right = left[:, paired], right[:, paired]
    slack, near = max(slack, DECIDED), aim if np.isfinite(aim) else 0.0
    rng = np.random.default_rng(0)
    parts, remainder = begun(matrix, left, right, rng)
    if parts.norm(remainder.least) > (1.0 + slack) * max(parts.inner, remainder.least, near):
        left, right = left[:, :0], right[:, :0]
        parts, remainder = begun(matrix, left, right, rng)
    for _ in range(ROUNDS):
        while True:
            bound, least = parts.norm(remainder.bound()), parts.norm(remainder.least)
            # More steps bring the bound down to ``least`` at best.
            decided = bound <= (1.0 + slack) * max(least, near) or bound - least <= 0.5 * (
                least - aim
            )
            if decided or remainder.ended or len(remainder.diagonal) >= MOST_STEPS:
                break
            remainder.advance(STRIDE)
        if decided or remainder.ended:
            break
        more_left, more_right = remainder.converged()
        if more_left.shape[1] == 0:
            break
        left, right = np.hstack([left, more_left]), np.hstack([right, more_right])
        parts, remainder = begun(matrix, left, right, rng)
    return bound * (1.0 + 1e-12) + matrix.rounding


def begun(
    matrix: Sampled, left: Array, right: Array, rng: np.random.Generator
) -> tuple["Parts", Remainder]:
    """The parts by A and B, and the first steps of the fourth."""
    remainder = Remainder(matrix, left, right)
    remainder.begin(rng)
    remainder.advance(FIRST_STEPS)
    return Parts.of(matrix, left, right), remainder


def spectral_bound(matrix: Matrix, slack: float, aim: float = np.inf) -> float:
    """An upper bound on ||S||_2 of a dense matrix, within ``slack``, or of a sparse one."""
    if isinstance(matrix, SampledMatrix):
        n_rows, n_columns = matrix.shape
        return norm_bound(matrix, np.zeros((n_rows, 0)), np.zeros((n_columns, 0)), aim)
    return norm_upper_bound(np.asarray(matrix), slack)


@attrs.frozen
class Parts:
    """The norms of A'SB, A'S(I - BB') and (I - AA')SB."""

    inner: float
    across: float
    down: float

    @classmethod
    def of(cls, matrix: Sampled, left: Array, right: Array) -> "Parts":
        """By a product with each column of A and B."""
        if left.shape[1] == 0:
            return cls(0.0, 0.0, 0.0)
        forward, backward = matrix.times(right), matrix.transposed_times(left)
        inner = left.T @ forward
        return cls(
            float(np.linalg.norm(inner, 2)),
            float(np.linalg.norm(backward - right @ inner.T)),
            float(np.linalg.norm(forward - left @ inner)),
        )

    def norm(self, remainder: float) -> float:
        """An upper bound on ||S||_2 from that of the fourth part."""
        if not np.isfinite(remainder):
            return np.inf
        return float(np.linalg.norm([[self.inner, self.across], [self.down, remainder]], 2))


def leading_block(
    matrix: Sampled, count: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """About the leading singular triplets, by ``POWERS`` steps of block iteration.

    Rough, and cheap where several products at a time cost little more than one.
    """
    width = min(count + EXTRA, *matrix.shape)
    near = rng.standard_normal((matrix.shape[1], width))
    for _ in range(POWERS):
        far = np.linalg.qr(matrix.times(near))[0]
        near = np.linalg.qr(matrix.transposed_times(far))[0]
    left, s, turn = np.linalg.svd(matrix.times(near), full_matrices=False)
    return left[:, :count], s[:count], (near @ turn.T)[:, :count]


def top_singular(
    matrix: Sampled,
    left: Array,
    right: Array,
    count: int,
    steps: int,
    rng: np.random.Generator,
    towards: tuple[Array, Array] | None = None,
) -> tuple[Array, Array, Array]:
    """Leading singular triplets of the part of S outside of A and B, by Lanczos steps.

    Directions of descent, not parts of a certificate: they need not be exact. Steps begin at
    random, or at the sum of what is thought to be near them, given on both sides.
    """
    remainder = Remainder(matrix, left, right)
    near = None if towards is None else towards[remainder.wide].sum(axis=1)
    remainder.begin(rng, near)
    remainder.advance(steps)
    values, vectors = remainder.ritz()
    kept = min(count, values.size)
    near = np.array(remainder.basis[: values.size]).T @ vectors[:, :kept]
    near = np.linalg.qr(without(near, right if remainder.wide else left))[0]
    if remainder.wide:
        far = without(matrix.times(near), left)
        far, s, turn = np.linalg.svd(far, full_matrices=False)
        return far, s, near @ turn.T
    far = without(matrix.transposed_times(near), right)
    far, s, turn = np.linalg.svd(far, full_matrices=False)
    return near @ turn.T, s, far
