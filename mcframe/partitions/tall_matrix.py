"""Matrices with a row an item whose rows stay with their partitions, known here by their sums."""

import operator
from collections.abc import Callable, Sequence
from functools import cached_property, partial, reduce
from typing import Any
from weakref import WeakKeyDictionary

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, svd
from mcframe.numerics.operators import LowRank, thin_qr
from mcframe.partitions.executor import Partitions
from mcframe.partitions.part import PartAttribute, PartValue, RowSharded, field_names

# Columns that are sums of columns so many times as long have lost digits: their products are
# computed from their rows, in a round, and not from products of the summands.
LARGEST_CANCELLATION = 30.0


@attrs.define(eq=False)
class StoredRows:
    """Rows that an executor holds (n_rows x width), with what is known of their products.

    ``array`` is where they are: an array, or what an executor has in its place. ``products`` has
    K'L for these rows K and others L.
    """

    partitions: Partitions
    array: Any
    width: int
    products: "WeakKeyDictionary[StoredRows, Array]" = attrs.field(factory=WeakKeyDictionary)

    @classmethod
    def of(
        cls, partitions: Partitions, question: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> "StoredRows":
        """The answers to a question, and their products with all rows that are in use."""
        others = tuple(partitions.stored_rows)
        asked = PartValue(question, arguments), tuple(map(RowSharded, others))
        array, (square, *crossed) = partitions.stored_rows_and_sum(rows_and_products, *asked)
        rows = cls(partitions, array, square.shape[0])
        rows.products[rows] = square
        for other, product in zip(others, crossed, strict=True):
            rows.products[other], other.products[rows] = product, product.T
        partitions.stored_rows.add(rows)
        partitions.secure(rows)
        return rows

    def __getitem__(self, rows: slice) -> Array:
        """Rows of one partition, where they are in this process."""
        block: Array = self.array[rows]
        return block

    def product_with(self, other: "StoredRows") -> Array:
        """K'L for other rows L, by a round where it is not known."""
        if other not in self.products:
            pair = RowSharded(self), RowSharded(other)
            product = self.partitions.sum(product_of_columns, *pair)
            self.products[other], other.products[self] = product, product.T
        return self.products[other]

    @cached_property
    def lengths(self) -> Array:
        """The lengths of the columns."""
        return np.sqrt(np.diagonal(self.product_with(self)))


@attrs.frozen(eq=False)
class TallMatrix:
    """A matrix (n_rows x k), the sum of stored rows times small matrices.

    It does what NumPy's arrays do as far as that is linear algebra: products with small matrices,
    ``A.T @ B`` of two of these, sums, multiples of columns, ``np.hstack``, and ``qr`` and ``svd``
    of ``np.linalg``. No row comes to this process: products of columns are those of stored rows,
    which are known, or a round where digits would cancel. As an array it is written out.
    """

    summands: tuple[tuple[StoredRows, Array], ...]
    n_rows: int

    ndim = 2
    dtype = np.dtype(np.float64)

    @classmethod
    def of(
        cls, partitions: Partitions, question: Callable[..., Any], *arguments: Any
    ) -> "TallMatrix":
        """The answers to a question, k numbers for each row of a partition, which keeps them."""
        return cls.of_rows(StoredRows.of(partitions, question, arguments))

    @classmethod
    def of_rows(cls, rows: StoredRows) -> "TallMatrix":
        """Stored rows as they are."""
        return cls(((rows, np.eye(rows.width)),), rows.partitions.rows[-1][1])

    @classmethod
    def of_array(cls, partitions: Partitions, array: Any) -> "TallMatrix":
        """An array (n_rows x k) as such a matrix; what is one stays as it is."""
        if isinstance(array, TallMatrix):
            return array
        return cls.of_rows(StoredRows(partitions, array, array.shape[1]))

    @property
    def partitions(self) -> Partitions:
        """The executor that holds the rows."""
        return self.summands[0][0].partitions

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, k)."""
        return self.n_rows, self.summands[0][1].shape[1]

    @property
    def parts(self) -> PartValue:
        """The rows of each partition."""
        products = (
            PartValue(operator.matmul, (RowSharded(rows), factor))
            for rows, factor in self.summands
        )
        return reduce(lambda one, other: PartValue(operator.add, (one, other)), products)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        """The matrix written out in this process."""
        rows = self.partitions.concatenate(np.asarray, self.parts)
        return rows.astype(self.dtype if dtype is None else dtype, copy=False)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        """The functions of NumPy that are those of linear algebra."""
        if function not in FUNCTIONS:
            return NotImplemented
        return FUNCTIONS[function](*arguments, **options)

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **options: Any) -> Any:
        """Arrays, and NumPy's numbers, on the left of an operator; ``+=`` gives such a matrix."""
        if method != "__call__" or ufunc not in REFLECTED or operands[1] is not self:
            return NotImplemented
        return getattr(self, REFLECTED[ufunc])(operands[0])

    def map(self, change: Callable[[Array], Array]) -> "TallMatrix":
        """The sum with another small matrix for each of the stored rows."""
        summands = tuple((rows, change(factor)) for rows, factor in self.summands)
        return TallMatrix(summands, self.n_rows)

    def __matmul__(self, small: Array) -> "TallMatrix":
        """A B, whose rows are stored where digits cancel: all that follows has the same ones."""
        product = self.map(lambda factor: factor @ small)
        if product.is_exact:
            return product
        return TallMatrix.of(self.partitions, operator.matmul, self.parts, small)

    def __getitem__(self, places: tuple[slice, Any]) -> "TallMatrix":
        all_rows, columns = places
        assert all_rows == slice(None), "only columns are taken"
        return self.map(lambda factor: factor[:, columns])

    def __mul__(self, scales: Any) -> "TallMatrix":
        if np.ndim(scales) == 2:  # one of each row
            asked = self.parts, RowSharded(np.ascontiguousarray(scales))
            return TallMatrix.of(self.partitions, operator.mul, *asked)
        return self.map(lambda factor: factor * scales)

    __rmul__ = __mul__

    def __rmatmul__(self, other: Array) -> Array:
        return (self.T @ other.T).T

    def __truediv__(self, by_columns: Any) -> "TallMatrix":
        return self.map(lambda factor: factor / by_columns)

    def __neg__(self) -> "TallMatrix":
        return self.map(operator.neg)

    def __add__(self, other: Any) -> "TallMatrix":
        factors = dict(self.summands)
        for rows, factor in TallMatrix.of_array(self.partitions, other).summands:
            factors[rows] = factors[rows] + factor if rows in factors else factor
        return TallMatrix(tuple(factors.items()), self.n_rows)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "TallMatrix":
        return self + -TallMatrix.of_array(self.partitions, other)

    def __rsub__(self, other: Any) -> "TallMatrix":
        return TallMatrix.of_array(self.partitions, other) - self

    @property
    def T(self) -> "TallMatrixTransposed":  # noqa: N802, as NumPy calls it
        """The transpose (k x n_rows), whose products with tall matrices are small."""
        return TallMatrixTransposed(self)

    def qr(self, mode: str = "reduced") -> Any:
        """Q and R of the triangles of all partitions, or R alone: as exact as Householder's.

        Two rounds, or one for R alone (Demmel, Grigori, Hoemmen and Langou, SIAM J. Sci. Comput.
        2012, section 3). Where R has a row of zeros, and partitions have fewer rows than there are
        columns, that column of Q may be short.
        """
        local = PartValue(padded_qr, (self.parts,))
        triangles = self.partitions.map_partitions(operator.getitem, local, 1)
        if mode == "r":
            return np.linalg.qr(np.vstack(triangles), mode="r")
        turns, triangle = np.linalg.qr(np.vstack(triangles))
        by_parts = turns.reshape(len(triangles), *triangle.shape)
        turn = PartValue(operator.getitem, (by_parts, PartAttribute("p")))
        basis = PartValue(operator.getitem, (local, 0))
        return TallMatrix.of(self.partitions, operator.matmul, basis, turn), triangle

    def svd(self, full_matrices: bool = False) -> tuple["TallMatrix", Array, Array]:
        """U, s and V', U with as many columns as the matrix."""
        assert not full_matrices, "U would have as many columns as there are rows"
        tall: Any = self
        basis: Any
        basis, triangle = thin_qr(tall)
        left, values, right = svd(triangle)
        return basis @ left, values, right

    @cached_property
    def is_exact(self) -> bool:
        """True if no column is much shorter than its summands, so that few digits cancel."""
        lengths = np.sqrt(np.maximum(np.diagonal(self.product_by_summands(self)), 0.0))
        most = sum(np.abs(factor).T @ rows.lengths for rows, factor in self.summands)
        return bool(np.all(most <= LARGEST_CANCELLATION * lengths))

    def product_by_summands(self, other: "TallMatrix") -> Array:
        """A'B by the products of the stored rows."""
        products = (
            factor.T @ rows.product_with(others) @ other_factor
            for rows, factor in self.summands
            for others, other_factor in other.summands
        )
        return reduce(operator.add, products)


@attrs.frozen(eq=False)
class TallMatrixTransposed:
    """The transpose of a tall matrix (k x n_rows): its products with tall matrices are small."""

    matrix: TallMatrix

    __array_ufunc__ = None

    @property
    def T(self) -> TallMatrix:  # noqa: N802, as NumPy calls it
        """The tall matrix (n_rows x k) that this is the transpose of."""
        return self.matrix

    @property
    def shape(self) -> tuple[int, int]:
        """(k, n_rows)."""
        return self.matrix.shape[::-1]

    def __matmul__(self, other: Any) -> Array:
        """A'B."""
        one, other = self.matrix, TallMatrix.of_array(self.matrix.partitions, other)
        if 0 in (one.shape[1], other.shape[1]):
            return np.zeros((one.shape[1], other.shape[1]))
        if one.is_exact and other.is_exact:
            return one.product_by_summands(other)
        return one.partitions.sum(product_of_columns, one.parts, other.parts)

    def __rmatmul__(self, small: Array) -> "TallMatrixTransposed":
        return (self.matrix @ small.T).T


def columns_together(matrices: Sequence[Any]) -> TallMatrix:
    """The columns of all matrices in one."""
    like = next(matrix for matrix in matrices if isinstance(matrix, TallMatrix))
    tall = partial(TallMatrix.of_array, like.partitions)
    wide = [tall(matrix) for matrix in matrices if matrix.shape[1]] or [like]
    ends = np.cumsum([matrix.shape[1] for matrix in wide])
    margins = [
        ((0, 0), (end - matrix.shape[1], ends[-1] - end))
        for matrix, end in zip(wide, ends, strict=True)
    ]
    placed = [
        matrix.map(partial(np.pad, pad_width=margin))
        for matrix, margin in zip(wide, margins, strict=True)
    ]
    return reduce(operator.add, placed)


def array_equal(one: Any, other: Any) -> bool:
    """True where both are the same sum of the same rows."""
    if not (isinstance(one, TallMatrix) and isinstance(other, TallMatrix)):
        return False
    mine, others = dict(one.summands), dict(other.summands)
    return mine.keys() == others.keys() and all(
        np.array_equal(factor, others[rows]) for rows, factor in mine.items()
    )


# The operators of what stands on the left of one.
REFLECTED = {
    np.add: "__radd__",
    np.subtract: "__rsub__",
    np.multiply: "__rmul__",
    np.matmul: "__rmatmul__",
}
# What stands in the place of NumPy's functions.
FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.hstack: columns_together,
    np.linalg.qr: TallMatrix.qr,
    np.linalg.svd: TallMatrix.svd,
    np.array_equal: array_equal,
}


def cut_by_rows(array: Any) -> Any:
    """The rows of each partition of an array, or of a tall matrix, as questions take them."""
    return array.parts if isinstance(array, TallMatrix) else RowSharded(array)


def sharded_rows(latent: LowRank) -> PartValue:
    """A matrix U V', whose rows go to their partitions where they are not there."""
    return PartValue(LowRank, (cut_by_rows(latent.left), latent.right))


def settled(value: Any) -> Any:
    """A value of attrs classes and tuples, the rows of tall matrices within it stored as such."""
    return with_tall_matrices(value, lambda m: TallMatrix.of(m.partitions, np.asarray, m.parts))


def written_out(value: Any) -> Any:
    """A value of attrs classes and tuples, tall matrices within it written out as arrays."""
    return with_tall_matrices(value, np.asarray)


def with_tall_matrices(value: Any, change: Callable[[TallMatrix], Any]) -> Any:
    """A value of attrs classes and tuples, tall matrices within it changed."""
    if isinstance(value, TallMatrix):
        return change(value)
    if isinstance(value, tuple):
        return tuple(with_tall_matrices(part, change) for part in value)
    if not attrs.has(type(value)):
        return value
    kind: Any = type(value)
    fields = {name: getattr(value, name) for name in field_names(kind)}
    parts = {name: with_tall_matrices(field, change) for name, field in fields.items()}
    changed = {name: part for name, part in parts.items() if part is not fields[name]}
    return attrs.evolve(value, **changed) if changed else value


def rows_and_products(rows: Array, others: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
    """Rows, and the products of their columns with themselves and with those of others."""
    return rows, (rows.T @ rows, *(rows.T @ other for other in others))


def product_of_columns(rows: Array, others: Array) -> Array:
    """The products of columns of rows of two matrices."""
    product: Array = rows.T @ others
    return product


def padded_qr(rows: Array) -> tuple[Array, Array]:
    """Q (n x k) and R (k x k) of k columns, with columns and rows of zeros if n is below k."""
    basis, triangle = np.linalg.qr(rows)
    missing = rows.shape[1] - triangle.shape[0]
    return np.pad(basis, ((0, 0), (0, missing))), np.pad(triangle, ((0, missing), (0, 0)))
