"""Tables whose rows come in partitions: their protocol, and partitions of data in memory."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.errors import DataError
from mcframe.model.model import Observations
from mcframe.storage.digest import digest_of

# The additions of ``Observations`` to its values.
OBSERVATION_ADDITIONS = ("weights", "offset", "exposure")


@runtime_checkable
class PartitionedData(Protocol):
    """The data of a model, its rows (items) cut into contiguous partitions.

    Stands where ``data`` stands in ``fit``. All blocks have the same partitions. How many there
    are is fixed by the data: a fit is the same, to the last bit, whoever computes the parts.
    ``part`` is deterministic and may be called in any process and any number of times, and the
    object pickles to something small, such as the name of a folder.

    It may have ``row_labels`` and ``column_labels(name)``, ``AxisLabels``, an Index or None, by
    which a fit answers; ``block_entries(name, p)``, the stored entries of one block in partition
    p, and ``additions(name)``, which of "weight", "offset" and "exposure" a block has in addition
    to its values, from which ``explain`` computes memory.
    """

    @property
    def n_partitions(self) -> int:
        """The number of partitions, at least 1."""
        ...

    @property
    def n_items(self) -> int:
        """The number of rows of all partitions together."""
        ...

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of the blocks."""
        ...

    @property
    def fingerprint(self) -> str:
        """A digest of the content, or of a header that changes with it: what checkpoints name."""
        ...

    def shape(self, name: str) -> tuple[int, int]:
        """The shape of a block, (n_items, its columns)."""
        ...

    def rows(self, p: int) -> tuple[int, int]:
        """The rows of partition p: the first one, and the one after the last."""
        ...

    def n_entries(self, p: int) -> int:
        """The stored entries of partition p, all blocks together."""
        ...

    def part(self, p: int) -> Mapping[str, Any]:
        """The data of the rows of partition p by block, as ``Problem.bind`` takes them.

        A scipy.sparse matrix or an array with NaN, (rows of the partition x columns of the
        block), or ``Observations`` of one.
        """
        ...


@attrs.frozen(eq=False, repr=False, kw_only=True)
class CountedPartitions:
    """The sizes of partitions, from counts of all rows, columns and entries.

    Attributes
    ----------
    starts : sequence of int (n_partitions + 1)
        The first row of each partition, and the number of rows.
    columns : dict from block name to int
    entries : dict from block name to sequence of int (n_partitions,)
    """

    starts: Sequence[int]
    columns: Mapping[str, int]
    entries: Mapping[str, Sequence[int]]

    @property
    def n_partitions(self) -> int:
        """The number of partitions."""
        return len(self.starts) - 1

    @property
    def n_items(self) -> int:
        """The number of rows of all partitions together."""
        return self.starts[-1]

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of the blocks."""
        return tuple(self.columns)

    def shape(self, name: str) -> tuple[int, int]:
        """The shape of a block, (n_items, its columns)."""
        return self.n_items, self.columns[name]

    def rows(self, p: int) -> tuple[int, int]:
        """The first row of partition p, and the one after its last."""
        return self.starts[p], self.starts[p + 1]

    def n_entries(self, p: int) -> int:
        """The entries of partition p, all blocks together."""
        return sum(self.block_entries(name, p) for name in self.blocks)

    def block_entries(self, name: str, p: int) -> int:
        """The entries of a block in partition p."""
        return self.entries[name][p]

    def __repr__(self) -> str:
        tables = ", ".join(
            f"{name!r} {self.n_items} x {width} with {sum(self.entries[name])} entries"
            for name, width in self.columns.items()
        )
        return f"{type(self).__name__}: {tables}; {self.n_partitions} partitions"


@attrs.frozen(eq=False)
class RowsInMemory:
    """Data in memory, their rows cut into partitions: a ``PartitionedData``.

    Parameters
    ----------
    data : dict from block name to array, scipy.sparse matrix, or Observations of one
        Each (n_items x columns of the block), as for ``fit``.
    n_partitions : int, default 1
        Partitions of as many rows as each other, but for one; at most as many as there are rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mcframe.partitions.partitioned_data import RowsInMemory
    >>> halves = RowsInMemory({"x": np.arange(6.0).reshape(3, 2)}, n_partitions=2)
    >>> halves.rows(0), halves.rows(1)
    ((0, 1), (1, 3))
    >>> halves.part(0)["x"]
    array([[0., 1.]])
    """

    data: Mapping[str, Any]
    n_partitions: int = 1

    def __attrs_post_init__(self) -> None:
        if not self.data:
            raise DataError("no block was given; partitions need data of one at least")
        heights = {name: self.shape(name)[0] for name in self.blocks}
        if len(set(heights.values())) > 1:
            counts = ", ".join(f"{name!r} has {height}" for name, height in heights.items())
            raise DataError(f"the blocks have different numbers of rows: {counts}")
        if not 1 <= self.n_partitions <= self.n_items:
            raise DataError(
                f"n_partitions={self.n_partitions!r} was given; a number from 1 to"
                f" {self.n_items}, the number of rows, is needed"
            )

    @property
    def n_items(self) -> int:
        """The number of rows."""
        return self.shape(self.blocks[0])[0]

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of the blocks."""
        return tuple(self.data)

    @cached_property
    def matrices(self) -> Mapping[str, Any]:
        """The values of each block, of which rows can be taken."""
        return {name: row_matrix(matrix_of_block(block)) for name, block in self.data.items()}

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all values and of how they are cut."""
        added = [
            [bits_of(getattr(block, what)) for what in OBSERVATION_ADDITIONS]
            for block in self.data.values()
            if isinstance(block, Observations)
        ]
        values = [(name, bits_of(matrix)) for name, matrix in self.matrices.items()]
        return digest_of((self.n_partitions, values, added))

    def shape(self, name: str) -> tuple[int, int]:
        """The shape of a block."""
        shape = matrix_of_block(self.data[name]).shape
        return int(shape[0]), int(shape[1])

    def rows(self, p: int) -> tuple[int, int]:
        """The first row of partition p, and the one after its last."""
        cut = self.n_items * p // self.n_partitions
        return cut, self.n_items * (p + 1) // self.n_partitions

    def n_entries(self, p: int) -> int:
        """The stored entries of partition p."""
        return sum(self.block_entries(name, p) for name in self.blocks)

    def block_entries(self, name: str, p: int) -> int:
        """The stored entries of a block in partition p."""
        first, last = self.rows(p)
        return count_entries(self.matrices[name][first:last])

    def additions(self, name: str) -> tuple[str, ...]:
        """Names of the additions to the values of a block."""
        block = self.data[name]
        names = [what for what in OBSERVATION_ADDITIONS if getattr(block, what, None) is not None]
        return tuple(what.removesuffix("s") for what in names)

    def part(self, p: int) -> Mapping[str, Any]:
        """The data of the rows of partition p by block."""
        first, last = self.rows(p)
        return {name: self.part_of(name, slice(first, last)) for name in self.blocks}

    def part_of(self, name: str, rows: slice) -> Any:
        """Some rows of a block."""
        block = self.data[name]
        if isinstance(block, Observations):
            block = attrs.evolve(block, values=self.matrices[name])
            return map_arrays(block, lambda array: rows_of(array, rows, self.n_items))
        return self.matrices[name][rows]


def matrix_of_block(data: Any) -> Any:
    """Return the matrix of a block, without weights, offset and exposure."""
    return data.values if isinstance(data, Observations) else data


def map_arrays(data: Any, change: Callable[[Any], Any]) -> Any:
    """A block whose matrix is changed, and of ``Observations`` all else that is given."""
    if not isinstance(data, Observations):
        return change(data)
    added = {
        what: array for what in OBSERVATION_ADDITIONS if (array := getattr(data, what)) is not None
    }
    added = {what: change(array) for what, array in added.items()}
    return attrs.evolve(data, values=change(data.values), **added)


def row_matrix(matrix: Any) -> Any:
    """A matrix of which rows can be taken without a pass over all of it."""
    return sp.csr_array(matrix) if sp.issparse(matrix) else np.asarray(matrix, dtype=float)


def bits_of(numbers: Any) -> Any:
    """Return the content of numbers for a digest: of a sparse matrix its arrays."""
    if not sp.issparse(numbers):
        return numbers
    compressed = sp.csr_array(numbers)
    return compressed.shape, compressed.indptr, compressed.indices, compressed.data


def count_entries(matrix: Any) -> int:
    """The stored entries of a matrix: of an array those that are not NaN."""
    return int(matrix.nnz if sp.issparse(matrix) else np.count_nonzero(~np.isnan(matrix)))


def rows_of(numbers: Any, rows: slice, n_items: int) -> Any:
    """Return some rows of weights or offsets; those common to all rows stay as they are."""
    if np.ndim(numbers) == 0 and not sp.issparse(numbers):
        return numbers
    matrix = row_matrix(numbers)
    return matrix[rows] if matrix.shape[0] == n_items and matrix.ndim == 2 else matrix
