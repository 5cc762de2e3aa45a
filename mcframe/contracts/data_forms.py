"""Forms of data of other libraries, recognised by their classes: no library is imported here."""

from typing import Any, Protocol, TypeGuard

from mcframe.contracts.arrays import class_offers


class LabelledValues(Protocol):
    """A Series of pandas: values with an index."""

    index: Any

    def reindex(self, index: Any) -> Any:
        """The values in the order of another index."""


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


def is_sparse_matrix(values: object) -> TypeGuard[SparseMatrix]:
    """Return True for a matrix of SciPy, or another one that is sparse."""
    return class_offers(values, "toarray")
