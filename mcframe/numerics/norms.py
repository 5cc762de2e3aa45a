"""Bounds on spectral norms from above, by eigenvalues or Lanczos steps."""

from collections.abc import Callable
from functools import cached_property

import attrs
import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from scipy.special import betaincinv

from mcframe.contracts.arrays import Array, Matrix, singular_values, svd
from mcframe.contracts.limits import MOST_STEPS
from mcframe.contracts.rounding import EPS
from mcframe.numerics.kernels import BLOCK_WIDTH
from mcframe.numerics.operators import Dense, Operator, as_operator, without
from mcframe.numerics.shrinkage import upright
from mcframe.runtime.machine import check_time, gram


def least_ritz_pairs(
    times: Callable[[Array], Array], start: Array, count: int, steps: int
) -> tuple[Array, Array]:
    """The least Ritz values of a symmetric matrix, ascending, and Ritz vectors, a column each.

    By ARPACK, which sees the clock: so many Lanczos steps from a start (order,) without a restart,
    however exact they are. ``count`` is below ``steps``, and that at most the order.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where products are not finite, or ARPACK breaks down.
    """

    def product(vector: Array) -> Array:
        check_time()
        image = times(vector.ravel())
        if not np.isfinite(image).all():  # of which ARPACK would say anything
            raise np.linalg.LinAlgError("a product of a matrix is not finite")
        return image

    operator = LinearOperator((start.size, start.size), matvec=product, dtype=np.float64)
    try:
        values, vectors = eigsh(operator, k=count, which="SA", ncv=steps, tol=np.inf, v0=start)
    except ArpackError as error:
        raise np.linalg.LinAlgError(f"eigenvalues were not found: {error}") from None
    order = np.argsort(values)
    return values[order], vectors[:, order]


# Up to this smaller side a full decomposition is cheap.
SVD_SIDE = 128


def singular_value_bounds(matrix: Array) -> Array:
    """Upper bounds on all singular values of a dense matrix, in descending order.

    Small matrices: a full decomposition, whose values are off by at most a small multiple of
    eps ||A||_2. Others: eigenvalues of the Gram matrix of the smaller side, raised by the
    bound gamma_n ||A||_F^2 on the rounding of the product and of the eigenvalue solver
    (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.5).
    Costs O(n d min(n, d)).
    """
    n_rows, n_columns = matrix.shape
    if min(n_rows, n_columns) <= SVD_SIDE:
        values = singular_values(matrix)
        return values + bounds_excess(matrix, 1.0) * values[:1]
    # Whichever Gram matrix is smaller.
    eigenvalues = np.linalg.eigvalsh(gram(matrix if n_rows >= n_columns else matrix.T))
    rounding = 2.0 * bounds_excess(matrix, 1.0)
    return np.sqrt(np.maximum(eigenvalues[::-1], 0.0) + rounding)


def bounds_excess(matrix: Array, norm: float) -> float:
    """The relative amount by which ``singular_value_bounds`` raises a largest value ``norm``."""
    longer, shorter = max(matrix.shape), min(matrix.shape)
    if shorter <= SVD_SIDE or norm == 0.0:
        return 10 * longer * EPS
    return (longer + 10 * shorter) * EPS * float(np.vdot(matrix, matrix)) / (2.0 * norm**2)


def norm_upper_bound(matrix: Array) -> float:
    """An upper bound on ||A||_2, the largest of ``singular_value_bounds``.

    All eigenvalues take no longer than an estimate and Cholesky factorisations that prove it: 0.6
    seconds of one core for 5,000 x 2,000, beside 0.3 for the Gram matrix.
    """
    return float(np.max(singular_value_bounds(matrix), initial=0.0))


# The share of random starts for which a bound may fail.
FAILURE_PROBABILITY = 1e-12
# How far above the largest Ritz value a bound is tried at least: so exactly norms are known.
LEAST_EXCESS = 1e-9
# How far above it at most, and by which ratio less from one place to the next; and the terms of
# Taylor's series that bound a function in between.
LARGEST_EXCESS, EXCESS_RATIO, TAYLOR_TERMS = 10.0, 0.8, 24
# Steps before the first bound and between two bounds.
STEPS_BETWEEN_BOUNDS = 10
# A bound that further steps would lower by less than this, relatively, is left as it is.
LEAST_IMPROVEMENT = 1e-7
# New columns shorter than this relative to their image are rounding: the space is exhausted
# there. Those shorter than this relative to the recurrence's residual are orthogonalised twice.
COLUMN_ROUNDING, REORTHOGONALISED_SHARE = 1e-14, 1e-3


def outside(block: Array, basis: Array, shortest: float) -> tuple[Array, Array]:
    """Q R, Q orthonormal, for what of a block is outside of a basis, but for columns too short.

    Twice where the remainder is short, since rounding is as large as before.
    """
    rest = without(block, basis)
    fresh, s, turn = svd(rest)
    new = s > shortest
    new[max(basis.shape[0] - basis.shape[1], 0) :] = False
    fresh, rest = fresh[:, new], s[new, None] * turn[new]
    if np.min(s[new], initial=np.inf) < REORTHOGONALISED_SHARE * np.linalg.norm(block):
        fresh, turned = np.linalg.qr(without(fresh, basis))
        rest = turned @ rest
    return fresh, rest


class Lanczos:
    """Block Lanczos steps on M = S'S, or on SS' where S has fewer rows, from a random start.

    ``basis @ T @ basis.T`` is M within the Krylov space, T block tridiagonal. New blocks are
    orthogonalised against all before. A step costs a product of S with four columns and one of
    S', and 16 k operations for each of the d numbers of a vector, k the columns so far, all of
    which are held.
    """

    def __init__(self, matrix: Operator, rng: np.random.Generator) -> None:
        self.tall = upright(matrix)
        self.turned = self.tall is not matrix
        self.written = self.tall.gram_matrix()  # M, where it is written out
        start = rng.standard_normal((self.size, min(BLOCK_WIDTH, self.size)))
        # All blocks, the one that comes next included.
        self.columns: Array = np.linalg.qr(start)[0]
        self.widths = [start.shape[1]]  # of the blocks
        self.within: Array = np.zeros((0, 0))  # T
        self.last: Array = np.zeros((0, 0))  # what carries the last block of T to the next one
        self.steps = 0
        self.excluded = np.inf  # no eigenvalue of M is beyond
        self.eigenpairs: tuple[Array, Array] | None = None  # T's eigenvalues and eigenvectors

    @property
    def size(self) -> int:
        """The dimension of M."""
        return self.tall.shape[1]

    @property
    def ended(self) -> bool:
        """Invariance of the Krylov space: nothing of S is left to see from this start."""
        return self.steps > 0 and self.last.shape[0] == 0

    @property
    def basis(self) -> Array:
        """The basis of the Krylov space, without the block that comes next."""
        return self.columns[:, : self.within.shape[0]]

    def advance(self, steps: int) -> None:
        """So many steps, fewer where the space ends."""
        columns: Array = np.empty((self.size, BLOCK_WIDTH * (self.steps + steps + 1)), order="F")
        columns[:, : sum(self.widths)] = self.columns
        for _ in range(steps):
            if self.ended:
                break
            check_time()
            last, total_width = self.within.shape[0], sum(self.widths)
            block = np.ascontiguousarray(columns[:, last:total_width])
            image = self.tall.gram(block) if self.written is None else self.written @ block
            length = float(np.linalg.norm(image))
            diagonal_block = block.T @ image
            # What the recurrence says, then what rounding has left of all blocks before.
            image = image - block @ diagonal_block
            if self.steps:
                image -= columns[:, last - self.widths[-2] : last] @ self.last.T
            self.extend(0.5 * (diagonal_block + diagonal_block.T))
            fresh, self.last = outside(image, columns[:, :total_width], COLUMN_ROUNDING * length)
            columns[:, total_width : total_width + fresh.shape[1]] = fresh
            if fresh.shape[1]:
                self.widths.append(fresh.shape[1])
        self.columns = columns[:, : sum(self.widths)]

    def extend(self, diagonal_block: Array) -> None:
        """Append a block to T."""
        size, width = self.within.shape[0], diagonal_block.shape[0]
        grown = np.zeros((size + width, size + width))
        grown[:size, :size] = self.within
        grown[size:, size:] = diagonal_block
        if size:
            place = slice(size - self.last.shape[1], size)
            grown[size:, place], grown[place, size:] = self.last, self.last.T
        self.within, self.steps, self.eigenpairs = grown, self.steps + 1, None

    def ritz(self) -> tuple[Array, Array]:
        """Ritz values of M, descending, and their vectors in the basis."""
        if self.eigenpairs is None:
            values, vectors = np.linalg.eigh(self.within)
            self.eigenpairs = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        return self.eigenpairs

    def leading(self, count: int) -> tuple[Array, Array, Array]:
        """So many leading singular triplets, fewer where there are fewer, as well as known.

        They are singular vectors of S in the span of the Ritz vectors.
        """
        vectors = self.ritz()[1]
        short = self.basis @ vectors[:, :count]
        long, s, turn = svd(self.tall @ short)
        short = short @ turn.T
        return (short, s, long) if self.turned else (long, s, short)

    def bounds(self) -> tuple[float, float]:
        """Bounds on the norm of S from below and above; the latter inf after too few steps.

        With an eigenvector x of M, its eigenvalue v, the first block V, the last rows of T's
        eigenvectors and R, which carries the last block to the next one, x'V = f' F(v) for
        F(v) = R E_k' (v - T)^-1 E_1 and some f of norm 1 at most: the residual of the
        recurrence, read along x. So no eigenvalue v can be where ||F(v)|| < ||x'V||. For a
        random V of b columns in d dimensions ||x'V||^2 has the distribution Beta(b/2,
        (d - b)/2): below t^2 with probability ``FAILURE_PROBABILITY``. The bound is the place
        beyond which ||F|| < t. With b = 1 that is the bound of van Dorsselaer, Hochstenbach and
        van der Vorst (SIAM J. Matrix Anal. Appl. 2001), whose t is smaller by orders of magnitude.
        What was excluded after fewer steps stays so.
        """
        values = self.ritz()[0]
        least = float(np.sqrt(values[0]))
        if self.ended:  # all of M is known, or all but what was too short to count
            most = least * (1.0 if values.size == self.size else 1.0 + LEAST_EXCESS)
            return least, float(np.sqrt(most**2 + self.rounding)) if self.rounding else most
        residual, first = self.residual(), self.widths[0]
        t = np.sqrt(betaincinv(first / 2, (self.size - first) / 2, FAILURE_PROBABILITY))
        if self.excluded == np.inf:
            far = values[0] * (1.0 + LARGEST_EXCESS)
            if residual.most_beyond(far, self.steps) >= t:
                return least, np.inf
            self.excluded = far
        while (margin := self.excluded / values[0] - 1.0) > LEAST_EXCESS:
            low = values[0] * (1.0 + EXCESS_RATIO * margin)
            if residual.most_between(low, self.excluded) >= t:
                break
            self.excluded = low
        return least, float(np.sqrt(max(self.excluded, values[0]) + self.rounding))

    @cached_property
    def rounding(self) -> float:
        """Bound on the norm of what rounding has changed in M where it is written out, else 0.

        A sum of as many products as a column has entries for each number of M, and sums of as
        many as M has rows in products with it, relative to ||M||_F <= ||S||_F^2.
        """
        if self.written is None:
            return 0.0
        squared = float(np.trace(self.written))
        return 2.0 * float(np.sqrt(squared)) * self.tall.rounding + self.size * EPS * squared

    def residual(self) -> "Residual":
        """The residual of the recurrence, as a function of an eigenvalue of M."""
        values, vectors = self.ritz()
        last = self.last @ vectors[-self.last.shape[1] :]
        return Residual(values, last, vectors[: self.widths[0]])

    def run_to_bounds(self, aim: float, tol: float, enough: float = 0.0) -> tuple[float, float]:
        """``bounds`` after as many steps as make a difference.

        Up to where the upper one is at most ``enough``, where they are closer than a relative
        ``tol`` of the larger of the lower one and ``aim``, or where more steps can lower by a
        third at most what the upper one exceeds ``aim`` by, but 150 steps at most.
        """
        tol, near = max(tol, LEAST_IMPROVEMENT), aim if np.isfinite(aim) else 0.0
        self.advance(max(STEPS_BETWEEN_BOUNDS - self.steps, 0))
        while True:
            least, most = self.bounds()
            close = most <= max((1.0 + tol) * max(least, near), enough)
            close = close or most - least <= 0.5 * (least - aim)
            if close or self.ended or self.steps >= MOST_STEPS:
                return least, most
            self.advance(STEPS_BETWEEN_BOUNDS)


@attrs.frozen(eq=False)
class Residual:
    """F(v) = R E_k' (v - T)^-1 E_1 by T's eigenvalues, descending, and its eigenvectors.

    ``last`` are R E_k' of these, ``first`` their E_1'.
    """

    values: Array
    last: Array
    first: Array

    @cached_property
    def parts(self) -> Array:
        """The contribution of each eigenvalue, but for 1 / (v - value)."""
        parts: Array = np.einsum("ij,kj->ikj", self.last, self.first)
        return parts.reshape(-1, self.values.size)

    def most_beyond(self, place: float, steps: int) -> float:
        """A bound on ||F(v)|| beyond a place far from the spectrum.

        There F is a series in 1 / v that begins at the power ``steps``: the blocks of T^m that
        are that far from the diagonal vanish for smaller m.
        """
        share = self.values[0] / place
        return float(np.linalg.norm(self.last) / place * share ** (steps - 1) / (1.0 - share))

    def most_between(self, low: float, high: float) -> float:
        """A bound on ||F(v)|| over all v from ``low`` to ``high``.

        By Taylor's series at ``low``, the norms of its terms added up, with a bound on the rest
        of the series and one on what rounding of T and of the recurrence does to it.
        """
        inverse, move = 1.0 / (low - self.values), high - low
        powers = np.cumprod(np.broadcast_to(move * inverse, (TAYLOR_TERMS, inverse.size)), axis=0)
        total = float(np.sum(np.linalg.norm(self.parts @ powers.T, axis=0))) / move
        ratio = move * inverse[0]
        rest = np.linalg.norm(self.last) * inverse[0] * ratio**TAYLOR_TERMS / (1.0 - ratio)
        sides = (1.0 + np.linalg.norm(self.last * inverse)) * np.linalg.norm(self.first * inverse)
        rounding = 10.0 * EPS * np.sqrt(self.values.size) * self.values[0] * sides
        return total + float(rest + rounding)


def norm_bound(
    matrix: Operator,
    aim: float,
    tol: float = LEAST_IMPROVEMENT,
    seed: tuple[int, ...] | None = None,
) -> float:
    """An upper bound on ||S||_2 by block Lanczos steps, see ``Lanczos.bounds``.

    It fails for a share of 1e-12 of the starts at most, which are drawn from ``seed``, by
    default the matrix's.
    Cost: 10 to 150 products of S with four columns, as many of S'.
    """
    return norm_bound_and_space(matrix, aim, tol, seed)[0]


def norm_bound_and_space(
    matrix: Operator,
    aim: float,
    tol: float = LEAST_IMPROVEMENT,
    seed: tuple[int, ...] | None = None,
) -> tuple[float, Lanczos]:
    """``norm_bound``, and the Krylov space that it comes from."""
    lanczos = Lanczos(matrix, np.random.default_rng(matrix.seed if seed is None else seed))
    _, most = lanczos.run_to_bounds(aim, tol)
    return most * (1.0 + 1e-12) + matrix.rounding, lanczos  # which products may hide


def spectral_bound(matrix: Matrix, aim: float = np.inf) -> float:
    """An upper bound on ||S||_2: by eigenvalues of a matrix at hand, else by Lanczos steps."""
    operator = as_operator(matrix)
    if isinstance(operator, Dense):
        return norm_upper_bound(operator.array)
    return norm_bound(operator, aim)
