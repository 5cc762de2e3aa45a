"""Matrices that are known by their products, and the algebra of them."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np
from scipy.sparse.linalg import LinearOperator

from mcframe.contracts.arrays import Array, IntArray, singular_values, svd
from mcframe.contracts.rounding import EPS
from mcframe.contracts.stored_classes import stored
from mcframe.numerics import kernels
from mcframe.runtime.machine import matmul


class Operator(LinearOperator):  # type: ignore[misc]
    """A real matrix A (n_rows x n_columns) by its products with blocks of columns.

    SciPy's ``LinearOperator``, whose algorithms take it: ``A @ V`` (n_rows x k), ``A.T @ U``
    (n_columns x k), sums, differences and multiples. That costs about 3 microseconds a product
    more than the product itself. Of its own it adds what bounds on norms need: ``rounding`` and
    ``seed``.

    A final class gives ``shape``, ``_matmat`` (A V), ``_rmatmat`` (A' U) and ``rounding``.
    """

    dtype = np.dtype(np.float64)
    #: Whole numbers from which random starts for bounds on norms are drawn.
    seed: tuple[int, ...] = (0,)
    #: True where ``in_units`` gives single precision.
    single: bool = False

    @property
    @abstractmethod
    def rounding(self) -> float:
        """A bound on the part of the norm that rounding of products can hide."""

    def multiple(self, factor: float) -> "Operator":
        """The multiple ``factor * A``."""
        return Scaled(self, factor)

    def in_units(self, unit: float) -> "Operator":
        """The matrix divided by a number, in single precision if it has that."""
        return self.multiple(1.0 / unit)

    def gram_within(self, block: Array) -> Array:
        """V'A'A V for a block V (n_columns x k)."""
        image = self @ block
        return np.asarray(image.T @ image, dtype=np.float64)

    def relative_falls(
        self,
        parts: Sequence[tuple["Operator", "Operator"]],
        right: Array,
        squares: Array,
        with_rows: bool = True,
    ) -> tuple[Array, Array]:
        """The relative falls of singular values by shares of rows of R and of columns of C.

        With singular vectors u and v and values s they are ``u_i (R v)_i / s`` and
        ``v_j (C'u)_j / s`` to first order, of p pairs R, C in ``parts`` (p x n_rows x m) and
        (p x n_columns x m). ``right`` has the v (n_columns x m), ``squares`` the s^2. Those of
        rows are left out (p x 0 x m) if they are not asked for.
        """
        thin = right.astype(self.dtype)
        left = self @ thin
        of_rows = np.zeros((len(parts), 0, squares.size))
        if with_rows:
            of_rows = np.stack([left * (rows @ thin) for rows, _ in parts]) / squares
        of_columns = np.stack([right * (columns.T @ left) for _, columns in parts]) / squares
        return of_rows, of_columns

    def gram(self, block: Array) -> Array:
        """A'A V for a block V (n_columns x k)."""
        return self.rmatmat(self.matmat(block))

    def gram_of_rows(self, block: Array) -> Array:
        """A A'U for a block U (n_rows x k)."""
        return self.matmat(self.rmatmat(block))

    def thin(self, turned: bool = False) -> tuple[Array, Array] | None:
        """Thin F and N with A = F N', or with A' = F N' if it is ``turned``; None by default."""
        return None

    def gram_with(self, block: Array, of_rows: bool = False) -> tuple[Array, Array] | None:
        """A'A written out and A'U, or A A' and A V; None where that takes more than some products.

        Who multiplies by A'A many times asks for it first.
        """
        return None

    def gram_matrix(self, of_rows: bool = False) -> Array | None:
        """A'A, or A A', written out; None where that takes more than some products with it."""
        gram_and_product = self.gram_with(np.zeros((self.shape[1 if of_rows else 0], 0)), of_rows)
        return None if gram_and_product is None else gram_and_product[0]

    def dense(self) -> Array:
        """The matrix written out, by its definition: the images of the unit vectors."""
        return np.asarray(self @ np.eye(self.shape[1]))

    def matmat(self, block: Any) -> Any:
        """A V, also of a V that is no array but takes part in NumPy's functions as one."""
        return super().matmat(block) if isinstance(block, np.ndarray) else self._matmat(block)

    def rmatmat(self, block: Any) -> Any:
        """A' U, likewise."""
        return super().rmatmat(block) if isinstance(block, np.ndarray) else self._rmatmat(block)

    def dot(self, block: Any) -> Any:
        """A V, or A v of one vector v."""
        is_matrix = not isinstance(block, np.ndarray) and getattr(block, "ndim", 0) == 2
        return self._matmat(block) if is_matrix else super().dot(block)

    def _transpose(self) -> "Operator":
        return Transposed(self)

    def _adjoint(self) -> "Operator":
        return self._transpose()

    def __mul__(self, other: Any) -> Any:
        scale: Any = other
        return self.multiple(float(scale)) if np.isscalar(other) else self.dot(other)

    def __rmul__(self, other: Any) -> Any:
        scale: Any = other
        return self.multiple(float(scale)) if np.isscalar(other) else super().__rmul__(other)

    def __neg__(self) -> "Operator":
        return self.multiple(-1.0)

    def __add__(self, other: Any) -> Any:
        return Sum((self, other)) if isinstance(other, Operator) else super().__add__(other)


@attrs.frozen(eq=False)
class Sum(Operator):
    """A + B + ..., each by its own products; random starts are those of the first."""

    parts: tuple[Operator, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.parts[0].shape

    @property
    def seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of the first summand."""
        return self.parts[0].seed

    @property
    def rounding(self) -> float:
        """The sum of theirs."""
        return sum(part.rounding for part in self.parts)

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """The precision of all parts together."""
        return np.result_type(*(part.dtype for part in self.parts))

    @property
    def single(self) -> bool:  # type: ignore[override]
        """True if all parts have single precision."""
        return all(part.single for part in self.parts)

    def multiple(self, factor: float) -> "Sum":
        """The sum of the multiples."""
        return Sum(tuple(part.multiple(factor) for part in self.parts))

    def in_units(self, unit: float) -> "Sum":
        """The sum divided by a number, in single precision if all of its parts have that."""
        if not self.single:
            return self.multiple(1.0 / unit)
        return Sum(tuple(part.in_units(unit) for part in self.parts))

    def gram_with(self, block: Array, of_rows: bool = False) -> tuple[Array, Array] | None:
        """Gram matrix and product of one matrix and others of low rank, if known of the former."""
        thin = [part.thin(of_rows) for part in self.parts]
        factors = [factor_pair for factor_pair in thin if factor_pair is not None]
        others = [
            part for part, factor_pair in zip(self.parts, thin, strict=True) if factor_pair is None
        ]
        if len(others) != 1 or not factors:
            return None
        far, near = (np.hstack(sides) for sides in zip(*factors, strict=True))
        gram_and_product = others[0].gram_with(np.hstack([far, block]), of_rows)
        if gram_and_product is None:
            return None
        written, image = gram_and_product[0], gram_and_product[1][:, : far.shape[1]]
        # (S + F N')'(S + F N') = S'S + (S'F) N' + N (S'F)' + N (F'F) N'.
        crossed = (image + 0.5 * near @ (far.T @ far)) @ near.T
        images = gram_and_product[1][:, far.shape[1] :] + near @ (far.T @ block)
        return written + crossed + crossed.T, images

    def _matmat(self, block: Array) -> Array:
        first, *others = self.parts
        product: Array = first @ block
        for part in others:
            product += part @ block
        return product

    def _rmatmat(self, block: Array) -> Array:
        first, *others = self.parts
        product: Array = first.T @ block
        for part in others:
            product += part.T @ block
        return product


@attrs.frozen(eq=False)
class Derived(Operator):
    """A matrix made of another one, as a rule of the same shape, with the same random starts."""

    operator: Operator

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.operator.shape

    @property
    def seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of A."""
        return self.operator.seed

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """The precision of A."""
        return self.operator.dtype


@attrs.frozen(eq=False)
class Scaled(Derived):
    """``factor * A`` for a matrix that cannot be multiplied out."""

    factor: float

    @property
    def rounding(self) -> float:
        """The rounding of A times the size of the factor."""
        return abs(self.factor) * self.operator.rounding

    def multiple(self, factor: float) -> "Scaled":
        """One multiple of A."""
        return Scaled(self.operator, factor * self.factor)

    def _matmat(self, block: Array) -> Array:
        return self.factor * (self.operator @ block)

    def _rmatmat(self, block: Array) -> Array:
        return self.factor * (self.operator.T @ block)


@attrs.frozen(eq=False)
class Transposed(Derived):
    """A', the products of A exchanged."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n_columns, n_rows) of A."""
        n_rows, n_columns = self.operator.shape
        return n_columns, n_rows

    @property
    def rounding(self) -> float:
        """The rounding of A."""
        return self.operator.rounding

    def _transpose(self) -> Operator:
        return self.operator

    @property
    def single(self) -> bool:  # type: ignore[override]
        """True if A has single precision."""
        return self.operator.single

    def in_units(self, unit: float) -> Operator:
        """The transpose of A divided by a number."""
        return self.operator.in_units(unit).T

    def gram_with(self, block: Array, of_rows: bool = False) -> tuple[Array, Array] | None:
        """A A' and A V, or A'A and A'U."""
        return self.operator.gram_with(block, not of_rows)

    def gram(self, block: Array) -> Array:
        """A A'U, of the rows of A."""
        return self.operator.gram_of_rows(block)

    def _matmat(self, block: Array) -> Array:
        return self.operator.rmatmat(block)

    def _rmatmat(self, block: Array) -> Array:
        return self.operator.matmat(block)


@attrs.frozen(eq=False)
class Dense(Operator):
    """An array (n_rows x n_columns)."""

    array: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.array.shape[0], self.array.shape[1]

    @property
    def rounding(self) -> float:
        """A sum of so many products each way."""
        return EPS * (sum(self.shape) + 8) * float(np.linalg.norm(self.array))

    def multiple(self, factor: float) -> "Dense":
        """The array times a factor, multiplied out."""
        return Dense(factor * self.array)

    def _transpose(self) -> "Dense":  # a view
        return Dense(self.array.T)

    def dense(self) -> Array:
        """The array itself."""
        return self.array

    def _matmat(self, block: Array) -> Array:
        return matmul(self.array, block)

    def _rmatmat(self, block: Array) -> Array:
        return matmul(self.array.T, block)


def as_operator(matrix: Any) -> Operator:
    """The matrix itself, or an array as one."""
    return matrix if isinstance(matrix, Operator) else Dense(np.asarray(matrix))


# From so many multiplications on the compiled loop pays for being loaded.
COMPILED_MULTIPLICATIONS = 300_000
# A Cholesky factor of columns of unit length whose diagonal is above the first number leaves a
# basis orthonormal to rounding; one below the second number is no use.
LEAST_CHOLESKY_RATIO, DEPENDENT_CHOLESKY_RATIO = 0.1, 1e-7
# The squares of columns of this length, and of one over it, have all their digits.
LEAST_LENGTH = 1e-140
# A column whose singular value is below this relative to the largest is dropped.
NEGLIGIBLE_SINGULAR_VALUE = 1e-10


@stored
@attrs.frozen(eq=False)
class LowRank(Operator):
    """``left @ right.T`` with left (n_rows x k) and right (n_columns x k)."""

    left: Array
    right: Array
    single = True

    @classmethod
    def zeros(cls, shape: tuple[int, int]) -> "LowRank":
        """The zero matrix, with no factor at all."""
        return cls(np.zeros((shape[0], 0)), np.zeros((shape[1], 0)))

    @classmethod
    def of(cls, dense: Array) -> "LowRank":
        """A dense matrix in factors, by a full singular value decomposition.

        Its columns are scaled to one size first, so that each is exact relative to its own size,
        and one of zeros stays so.
        """
        sizes = np.max(np.abs(dense), axis=0, initial=0.0)
        left, values, right = svd(dense / np.where(sizes > 0.0, sizes, 1.0))
        smallest = max(dense.shape) * np.finfo(float).eps * np.max(values, initial=0.0)
        kept = values > smallest
        return cls(left[:, kept] * values[kept], right[kept].T * sizes[:, None])

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.left.shape[0], self.right.shape[0]

    @property
    def width(self) -> int:
        """The number of factors: an upper bound on the rank."""
        return self.left.shape[1]

    @property
    def rounding(self) -> float:
        """Rounding of products, and of entries by themselves, which are sums of k numbers.

        Products of the factors sum n_rows or n_columns and then k numbers.
        """
        lengths = float(np.linalg.norm(self.left) * np.linalg.norm(self.right))
        return EPS * (sum(self.shape) + 2 * self.width + 8) * lengths

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """The precision of the factors."""
        return self.left.dtype

    def multiple(self, factor: float) -> "LowRank":
        """The left factor scaled."""
        return LowRank(factor * self.left, self.right)

    def in_units(self, unit: float) -> "LowRank":
        """The left factor divided by a number, both in single precision."""
        return LowRank((self.left / unit).astype(np.float32), self.right.astype(np.float32))

    def thin(self, turned: bool = False) -> tuple[Array, Array]:
        """The two thin factors."""
        return (self.right, self.left) if turned else (self.left, self.right)

    def _transpose(self) -> "LowRank":
        return LowRank(self.right, self.left)

    def _matmat(self, block: Array) -> Array:
        return self.left @ (self.right.T @ block)

    def _rmatmat(self, block: Array) -> Array:
        return self.right @ (self.left.T @ block)

    def dense(self) -> Array:
        """The whole matrix."""
        return matmul(self.left, self.right.T)

    def columns(self, columns: slice) -> "LowRank":
        """The matrix restricted to some columns."""
        return LowRank(self.left, self.right[columns])

    def at(self, rows: IntArray, columns: IntArray) -> Array:
        """The entries at (rows, columns), without forming the matrix."""
        n_cells = self.shape[0] * self.shape[1]
        if n_cells <= 4 * rows.size:
            # One flat index is twice as fast as a pair of them.
            return np.take(self.dense(), rows * self.shape[1] + columns)
        if rows.size * self.width <= COMPILED_MULTIPLICATIONS:
            return np.einsum("ij,ij->i", self.left[rows], self.right[columns])
        left, right = np.ascontiguousarray(self.left), np.ascontiguousarray(self.right)
        return kernels.low_rank_entries(rows, columns, left, right)

    def balance(self) -> Array:
        """The two factors stacked, scaled so that their longest rows are equally long."""
        left = np.sqrt(np.max(np.sum(np.square(self.left), axis=1), initial=0.0))
        right = np.sqrt(np.max(np.sum(np.square(self.right), axis=1), initial=0.0))
        if left == 0.0 or right == 0.0:
            return np.zeros((sum(self.shape), self.width))
        ratio = np.sqrt(right / left)
        return np.vstack([self.left * ratio, self.right / ratio])

    def singular_values(self) -> Array:
        """All singular values that may differ from 0, in descending order.

        Two thin QR factorisations and one small decomposition: O((n_rows + n_columns) k^2).
        """
        if self.width == 0:
            return np.zeros(0)
        if self.width >= min(self.shape) and isinstance(self.left, np.ndarray):
            return singular_values(self.dense())
        left: Any = np.linalg.qr(self.left, mode="r")
        right: Any = np.linalg.qr(self.right, mode="r")
        return singular_values(left @ right.T)

    @property
    def squared_length(self) -> float:
        """The square of the Frobenius norm, through the products of the factors' columns."""
        return float(np.sum((self.left.T @ self.left) * (self.right.T @ self.right)))

    @property
    def length(self) -> float:
        """The Frobenius norm."""
        return float(np.sqrt(max(self.squared_length, 0.0)))

    @property
    def rank(self) -> int:
        """The number of singular values above rounding."""
        values = self.singular_values()
        smallest = max(self.shape) * np.finfo(float).eps * np.max(values, initial=0.0)
        return int(np.count_nonzero(values > smallest))

    def with_columns(self, columns: slice, value: float | Array) -> "LowRank":
        """The matrix with some columns overwritten by a constant, or one a row, exactly."""
        right = self.right.copy()
        right[columns] = 0.0
        unit = np.zeros((self.shape[1], 1))
        unit[columns] = 1.0
        left = np.column_stack([self.left, np.broadcast_to(value, self.shape[:1])])
        return LowRank(left, np.hstack([right, unit]))


def thin_qr(tall: Array) -> tuple[Array, Array]:
    """An orthonormal basis Q of the columns of a tall matrix Q R, and the triangle R.

    Cholesky QR of columns of unit length: three times as fast as Householder's, and off by eps
    times the squared condition number, so that it is done twice where that is large. Where the
    columns are dependent, or their squares leave the range of numbers, Householder's serves.
    """
    basis, triangle = tall, np.eye(tall.shape[1])
    try:
        for _ in range(2):
            with np.errstate(over="ignore", invalid="ignore"):
                gram = basis.T @ basis
            lengths = np.sqrt(np.diagonal(gram))
            if not np.all((lengths > LEAST_LENGTH) & (lengths < 1.0 / LEAST_LENGTH)):
                break
            factor = np.linalg.cholesky(gram / lengths[:, None] / lengths)
            step = factor.T * lengths
            basis, triangle = basis @ np.linalg.inv(step), step @ triangle
            least = np.min(np.diagonal(factor), initial=1.0)
            if least > LEAST_CHOLESKY_RATIO:
                return basis, triangle
            if not least > DEPENDENT_CHOLESKY_RATIO:
                break
    except np.linalg.LinAlgError:
        pass
    return np.linalg.qr(tall)


def orthogonal_factors(left: Array, right: Array) -> tuple[Array, Array, Array]:
    """Factors of U V' with orthogonal columns, equally long on both sides, none negligible."""
    (left, upper), (right, lower) = thin_qr(left), thin_qr(right)
    turned, s, across = svd(upper @ lower.T)
    kept = s > NEGLIGIBLE_SINGULAR_VALUE * float(np.max(s, initial=0.0))
    roots = np.sqrt(s[kept])
    return (left @ turned[:, kept]) * roots, s[kept], (right @ across[kept].T) * roots


@attrs.frozen(eq=False)
class Scales:
    """``diag(rows) A diag(columns)`` with positive scales."""

    rows: Array
    columns: Array

    def apply(self, latent: LowRank) -> LowRank:
        """The scaled matrix in scaled factors."""
        left, right = self.rows[:, None] * latent.left, self.columns[:, None] * latent.right
        return LowRank(left, right)

    def invert(self, latent: LowRank) -> LowRank:
        """The matrix that is scaled to this one."""
        return self.inverse.apply(latent)

    def at(self, rows: IntArray, columns: IntArray) -> Array:
        """The factors of some entries."""
        return np.take(self.rows, rows) * np.take(self.columns, columns)

    def block(self, columns: slice) -> Array:
        """The factors of the entries of some columns, written out."""
        return np.outer(self.rows, self.columns[columns])

    @property
    def inverse(self) -> "Scales":
        """The way back."""
        return Scales(1.0 / self.rows, 1.0 / self.columns)

    def __str__(self) -> str:
        rows, columns = (f"{np.min(s):.4g} to {np.max(s):.4g}" for s in (self.rows, self.columns))
        return f"of R Z C, R from {rows}, C from {columns}"

    @cached_property
    def largest(self) -> float:
        """The largest number that an entry is multiplied by."""
        return float(np.max(self.rows) * np.max(self.columns))


@attrs.frozen(eq=False)
class Rescaled(Derived):
    """``diag(rows) A diag(columns)`` for a matrix that is known by its products."""

    scales: Scales

    @property
    def rounding(self) -> float:
        """The rounding of A, times the largest scale."""
        return self.scales.largest * self.operator.rounding

    def _matmat(self, block: Array) -> Array:
        product: Array = self.operator @ (self.scales.columns[:, None] * block)
        return self.scales.rows[:, None] * product

    def _rmatmat(self, block: Array) -> Array:
        product: Array = self.operator.T @ (self.scales.rows[:, None] * block)
        return self.scales.columns[:, None] * product


@attrs.frozen(eq=False)
class Placed(Operator):
    """A at ``columns`` of a matrix with ``n_columns``, which is 0 elsewhere."""

    operator: Operator
    columns: slice
    n_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        return self.operator.shape[0], self.n_columns

    @property
    def rounding(self) -> float:
        """The rounding of A."""
        return self.operator.rounding

    def _matmat(self, block: Array) -> Array:
        return self.operator @ block[self.columns]

    def _rmatmat(self, block: Array) -> Array:
        product = np.zeros((self.n_columns, block.shape[1]))
        product[self.columns] = self.operator.T @ block
        return product


@attrs.frozen(eq=False)
class Projected(Derived):
    """(I - A A') S (I - B B') for orthonormal A (n_rows x a) and B (n_columns x b)."""

    left: Array
    right: Array

    @property
    def rounding(self) -> float:
        """Not known: where it is used, no norm is bounded."""
        raise NotImplementedError("no bound on the rounding of projections is known")

    @property
    def single(self) -> bool:  # type: ignore[override]
        """True if S has single precision."""
        return self.operator.single

    def in_units(self, unit: float) -> "Projected":
        """The projection of S divided by a number, the bases in its precision."""
        divided = self.operator.in_units(unit)
        bases = self.left.astype(divided.dtype), self.right.astype(divided.dtype)
        return Projected(divided, *bases)

    def gram_with(self, block: Array, of_rows: bool = False) -> tuple[Array, Array] | None:
        """S'S less S'A (S'A)', and S'U less S'A A'U, what is in the other space taken off."""
        far, near = (self.right, self.left) if of_rows else (self.left, self.right)
        gram_and_product = self.operator.gram_with(np.hstack([far, block]), of_rows)
        if gram_and_product is None:
            return None
        image, images = np.hsplit(gram_and_product[1], [far.shape[1]])
        written = without(without(gram_and_product[0] - image @ image.T, near).T, near)
        return written, without(images - image @ (far.T @ block), near)

    def _matmat(self, block: Array) -> Array:
        return without(self.operator @ without(block, self.right), self.left)

    def _rmatmat(self, block: Array) -> Array:
        return without(self.operator.T @ without(block, self.left), self.right)


def without(block: Array, basis: Array) -> Array:
    """The part of a block that is orthogonal to an orthonormal basis.

    The transposes of both products: BLAS takes half the time for few and long rows that it takes
    for few and long columns (10,000 x 4 and a basis of 400: 8.6 ms, not 16).
    """
    return block - ((block.T @ basis) @ basis.T).T


def stacked_gradient(gradient: Any, stacked: Array) -> Array:
    """The gradient in the factors U over V of a function of U V': G V over G' U."""
    n_rows = gradient.shape[0]
    return np.vstack([gradient @ stacked[n_rows:], gradient.T @ stacked[:n_rows]])
