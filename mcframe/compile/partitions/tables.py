"""What a fit of rows in partitions keeps of a block, and what it reads again when it is asked."""

from typing import Any

import attrs
import numpy as np

from mcframe.compile.partitions.part import Source
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import ModelError
from mcframe.model.table import LeftBehind, Table

__all__ = ["OffsetInPartitions", "TableInPartitions"]


@attrs.frozen(eq=False)
class TableInPartitions(LeftBehind):
    """A block's shape and the rows that have entries; the entries of one row are read anew."""

    source: Source

    @property
    def why(self) -> str:
        """Why there are no entries, and what to do, as a clause."""
        return (
            "no process holds those of all partitions; ask for some entries, fit.predict(name,"
            " rows, columns) and fit.losses_at(name, rows, columns, values)"
        )

    def without_data(self) -> LeftBehind:
        """The shape and the labels alone, without the way to the partitions."""
        empty, given = self.empty, self.empty.given
        if empty.given_offset is not None:
            gone: Any = OffsetLeftBehind(empty.given_offset.shape, self.block)
            empty = attrs.evolve(
                empty,
                offset=None if empty.offset is None else gone,
                given=None if given is None else attrs.evolve(given, offset=gone),
            )
        return LeftBehind(self.block, empty, self.row_counts)

    def observed_entries(self) -> Table:
        """The observed entries of all partitions as the data have them, for an answer with them.

        Who asks has seen that all cells fit into memory.
        """
        data = self.source.data
        tables = [table_of(self.source, p, self.block) for p in range(data.n_partitions)]
        found = [table.observed_entries() for table in tables]
        firsts = [data.rows(p)[0] for p in range(data.n_partitions)]
        rows = [table.rows + first for table, first in zip(found, firsts, strict=True)]
        return attrs.evolve(
            self.empty,
            rows=np.concatenate(rows),
            columns=np.concatenate([table.columns for table in found]),
            values=np.concatenate([table.values for table in found]),
            given=None,
        )

    def unobserved_columns(self, row: int) -> IntArray:
        """The columns of a row without an observed entry, by the partition that has it."""
        p = partition_of(self.source, row)
        return table_of(self.source, p, self.block).unobserved_columns(
            row - self.source.data.rows(p)[0]
        )


@attrs.frozen(eq=False)
class OffsetLeftBehind:
    """The offsets of a block in a fit that has left its partitions behind: an error."""

    shape: tuple[int, int]
    block: str

    def at(self, rows: IntArray, columns: IntArray) -> Array:
        """An error: they were never in one place."""
        raise self.gone

    def dense(self) -> Array:
        """An error: they were never in one place."""
        raise self.gone

    @property
    def gone(self) -> ModelError:
        """Why there are no offsets, and what to do."""
        return ModelError(
            f"block {self.block!r}: its predictions count with offsets, which a compact fit has"
            " left behind with the partitions; ask the fit that fit.compact() was made of, or"
            " predict_rows, which takes offsets anew"
        )


@attrs.frozen(eq=False)
class OffsetInPartitions:
    """The offsets of a block, read from the partitions of the rows that are asked for."""

    shape: tuple[int, int]
    block: str
    source: Source

    def at(self, rows: IntArray, columns: IntArray) -> Array:
        """The offsets of some cells, of the shape that rows and columns have together."""
        rows, columns = np.broadcast_arrays(rows, columns)
        found = np.zeros(rows.shape)
        for p in range(self.source.data.n_partitions):
            first, last = self.source.data.rows(p)
            here = (rows >= first) & (rows < last)
            if here.any():
                offset = table_of(self.source, p, self.block).offset
                if offset is not None:
                    found[here] = offset.at(rows[here] - first, columns[here])
        return found

    def dense(self) -> Array:
        """The offsets of all cells, for an answer that has a number for each of them."""
        return self.at(*np.ogrid[: self.shape[0], : self.shape[1]])


def partition_of(source: Source, row: int) -> int:
    """The partition that has a row."""
    data = source.data
    starts = [data.rows(p)[0] for p in range(data.n_partitions)]
    return int(np.searchsorted(starts, row, side="right")) - 1


def table_of(source: Source, p: int, block: str) -> Table:
    """The table of one block in one partition."""
    return source.part(p).tables[block]
