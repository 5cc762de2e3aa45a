"""What every matrix known by its products answers, with sums, multiples and transposes of it."""

from abc import abstractmethod
from typing import Any

import attrs
import numpy as np
from scipy.sparse.linalg import LinearOperator

from mcframe.contracts.arrays import Array

__all__ = ["Derived", "Operator", "Scaled", "Sum", "Transposed"]


class Operator(LinearOperator):  # type: ignore[misc]
    """A real matrix A (n_rows x n_columns) by its products with blocks of columns.

    SciPy's ``LinearOperator``, whose algorithms take it: ``A @ V`` (n_rows x k), ``A.T @ U``
    (n_columns x k), sums, differences and multiples. That costs about 3 microseconds a product
    beside what the product takes. Of its own it adds what bounds on norms need: ``rounding`` and
    ``seed``.

    A final class gives ``shape``, ``_matmat`` (A V), ``_rmatmat`` (A' U) and ``rounding``.
    """

    dtype = np.dtype(np.float64)
    #: Whole numbers from which random starts for bounds on norms are drawn.
    seed: tuple[int, ...] = (0,)

    @property
    @abstractmethod
    def rounding(self) -> float:
        """How much of the norm rounding of products can hide."""

    def multiple(self, factor: float) -> "Operator":
        """The multiple ``factor * A``."""
        return Scaled(self, factor)

    def both_products(self, left: Array, right: Array) -> tuple[Array, Array]:
        """A V and A' U, for a U (n_rows x k) and a V (n_columns x k)."""
        return self @ right, self.T @ left

    def gram(self, block: Array) -> Array:
        """A'A V for a block V (n_columns x k)."""
        images: Array = self.rmatmat(self.matmat(block))
        return images

    def gram_of_rows(self, block: Array) -> Array:
        """A A'U for a block U (n_rows x k)."""
        images: Array = self.matmat(self.rmatmat(block))
        return images

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
        found = self.gram_with(np.zeros((self.shape[1 if of_rows else 0], 0)), of_rows)
        return None if found is None else found[0]

    def dense(self) -> Array:
        """The matrix written out, by its definition: the images of the unit vectors."""
        written: Array = self @ np.eye(self.shape[1])
        return written

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

    def __sub__(self, other: Any) -> Any:
        return self + (-other)


@attrs.frozen(eq=False)
class Sum(Operator):
    """A + B + ..., each by its own products; random starts are those of the first."""

    parts: tuple[Operator, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        shape: tuple[int, int] = self.parts[0].shape
        return shape

    @property
    def seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of the first summand."""
        return self.parts[0].seed

    @property
    def rounding(self) -> float:
        """The sum of theirs."""
        return sum(part.rounding for part in self.parts)

    def multiple(self, factor: float) -> "Sum":
        """The sum of the multiples."""
        return Sum(tuple(part.multiple(factor) for part in self.parts))

    def gram_with(self, block: Array, of_rows: bool = False) -> tuple[Array, Array] | None:
        """Gram matrix and product of one matrix and others of low rank, if known of the former."""
        thin = [part.thin(of_rows) for part in self.parts]
        factors = [own for own in thin if own is not None]
        others = [part for part, own in zip(self.parts, thin, strict=True) if own is None]
        if len(others) != 1 or not factors:
            return None
        far, near = (np.hstack(sides) for sides in zip(*factors, strict=True))
        found = others[0].gram_with(np.hstack([far, block]), of_rows)
        if found is None:
            return None
        written, image = found[0], found[1][:, : far.shape[1]]
        # (S + F N')'(S + F N') = S'S + (S'F) N' + N (S'F)' + N (F'F) N'.
        crossed = (image + 0.5 * near @ (far.T @ far)) @ near.T
        images = found[1][:, far.shape[1] :] + near @ (far.T @ block)
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
    """A matrix made of another one, of the same shape and with the same random starts."""

    operator: Operator

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_columns)."""
        shape: tuple[int, int] = self.operator.shape
        return shape

    @property
    def seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of A."""
        return self.operator.seed


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
        product: Array = self.factor * (self.operator @ block)
        return product

    def _rmatmat(self, block: Array) -> Array:
        product: Array = self.factor * (self.operator.T @ block)
        return product


@attrs.frozen(eq=False)
class Transposed(Operator):
    """A', the products of A exchanged."""

    operator: Operator

    @property
    def shape(self) -> tuple[int, int]:
        """(n_columns, n_rows) of A."""
        n_rows, n_columns = self.operator.shape
        return n_columns, n_rows

    @property
    def seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of A."""
        return self.operator.seed

    @property
    def rounding(self) -> float:
        """The rounding of A."""
        return self.operator.rounding

    def _transpose(self) -> Operator:
        return self.operator

    def gram_with(self, block: Array, of_rows: bool = False) -> tuple[Array, Array] | None:
        """A A' and A V, or A'A and A'U."""
        return self.operator.gram_with(block, not of_rows)

    def gram(self, block: Array) -> Array:
        """A A'U, of the rows of A."""
        return self.operator.gram_of_rows(block)

    def gram_of_rows(self, block: Array) -> Array:
        """A'A V, of the columns of A."""
        return self.operator.gram(block)

    def _matmat(self, block: Array) -> Array:
        product: Array = self.operator.rmatmat(block)
        return product

    def _rmatmat(self, block: Array) -> Array:
        product: Array = self.operator.matmat(block)
        return product
