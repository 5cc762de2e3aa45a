"""Forms of data of other libraries, told by their classes: no library is imported here."""

from typing import Any, Protocol, TypeGuard


def class_offers(value: object, *names: str) -> bool:
    """Return True if the class of a value has all these members.

    The value itself is not asked: a frame has its columns as attributes, and a ``Delayed`` of Dask
    has any attribute.
    """
    return all(hasattr(type(value), name) for name in names)


class LabelledValues(Protocol):
    """A Series of pandas: values with an index."""

    index: Any

    def reindex(self, index: Any) -> Any:
        """The values in the order of another index."""


class ChunkedArray(Protocol):
    """An array of Dask, in chunks."""

    chunks: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]
    ndim: int
    dtype: Any

    def __getitem__(self, key: Any) -> Any:
        """Some of its rows and columns."""

    def rechunk(self, chunks: Any) -> Any:
        """The array in other chunks."""


class SparseMatrix(Protocol):
    """A matrix that stores few of its entries."""

    def toarray(self) -> Any:
        """The matrix as a dense array."""


def is_labelled(values: object) -> TypeGuard[LabelledValues]:
    """Return True for a Series of pandas."""
    return class_offers(values, "index", "reindex") and not class_offers(values, "columns")


def is_labelled_table(values: object) -> bool:
    """Return True for a DataFrame of pandas."""
    return class_offers(values, "index", "iterrows")


def is_chunked_array(values: object) -> TypeGuard[ChunkedArray]:
    """Return True for an array of Dask."""
    return class_offers(values, "chunks", "rechunk")


def is_dask_frame(values: object) -> bool:
    """Return True for a frame or a Series of Dask."""
    return class_offers(values, "columns", "__dask_graph__")


def is_sparse_matrix(values: object) -> TypeGuard[SparseMatrix]:
    """Return True for a matrix of SciPy, or another one that is sparse."""
    return class_offers(values, "toarray")
