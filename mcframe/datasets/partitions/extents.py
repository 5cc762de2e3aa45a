"""How many rows and columns a block has: as declared, as its blocks of rows say, or as seen."""

from collections.abc import Iterable

import attrs
import numpy as np

from mcframe.contracts.errors import DataError
from mcframe.model.chunks.entries import MOST_ROWS, Chunk

__all__ = ["Extent", "common_rows"]


@attrs.define
class Extent:
    """The size of one block.

    Attributes
    ----------
    name : str
    n_rows, n_columns : int or None
        Where they are known before the last entry.
    last_row, last_column : int
        The largest ones with an entry; -1 where there is none.
    rows_given : int or None
        Of blocks of rows how many have come.
    """

    name: str
    n_rows: int | None = None
    n_columns: int | None = None
    last_row: int = -1
    last_column: int = -1
    rows_given: int | None = None

    def take(self, chunk: Chunk) -> None:
        """Take a chunk in, or raise a ``DataError`` where it stands outside of the table."""
        self.rows_given = chunk.rows_until
        if chunk.n_columns is not None:
            self.n_columns = self.n_columns or chunk.n_columns
            if chunk.n_columns != self.n_columns:
                raise DataError(
                    f"block {self.name!r}: {chunk.label} has {chunk.n_columns} columns and shapes"
                    f" says {self.n_columns}"
                )
        if not chunk.values.size:
            return
        self.last_row = max(self.last_row, int(chunk.rows.max()))
        self.last_column = max(self.last_column, int(chunk.columns.max()))
        if self.n_rows is None and self.last_row >= MOST_ROWS:
            raise DataError(
                f"block {self.name!r}: row {self.last_row} in {chunk.label}; rows are counted"
                " from 0, 8 bytes of memory for each. If these are labels, number them first;"
                f" if there are so many, give shapes={{{self.name!r}: (rows, columns)}}"
            )
        for what, last, size in (
            ("row", self.last_row, self.n_rows),
            ("column", self.last_column, self.n_columns),
        ):
            if size is not None and last >= size:
                raise DataError(
                    f"block {self.name!r}: {what} {last} in {chunk.label}, and the table has"
                    f" {size} {what}s, counted from 0; give more in shapes, or leave it out"
                )

    @property
    def width(self) -> int:
        """The number of columns, when all entries have come."""
        return self.last_column + 1 if self.n_columns is None else self.n_columns

    @property
    def height(self) -> int | None:
        """The number of rows where the block says it, when all entries have come."""
        return self.n_rows if self.rows_given is None else self.rows_given


def common_rows(extents: Iterable[Extent]) -> int:
    """Return the number of rows of all blocks.

    Raises
    ------
    DataError
        Where blocks have different ones, no block has an entry, or cells cannot be counted.
    """
    extents = list(extents)
    for extent in extents:
        if extent.rows_given is not None and extent.n_rows not in (None, extent.rows_given):
            raise DataError(
                f"block {extent.name!r}: {extent.rows_given} rows were given and shapes says"
                f" {extent.n_rows}"
            )
        if extent.last_row < 0:
            raise DataError(
                f"block {extent.name!r}: not one entry was given; leave the block out, or check"
                " that its missing values and only those are left out"
            )
    known = [extent for extent in extents if extent.height is not None]
    for extent in known[1:]:
        if extent.height != known[0].height:
            raise DataError(
                f"block {known[0].name!r} has {known[0].height} rows but block {extent.name!r}"
                f" has {extent.height}; rows are items, so every block needs the same ones"
            )
    n_rows = known[0].height if known else None
    largest = max(extents, key=lambda extent: extent.last_row)
    if n_rows is None:
        n_rows = largest.last_row + 1
    elif largest.last_row >= n_rows:
        raise DataError(
            f"block {largest.name!r} has an entry in row {largest.last_row} but block"
            f" {known[0].name!r} has {n_rows} rows; rows are items, so every block needs the"
            " same ones"
        )
    for extent in extents:
        if n_rows > np.iinfo(np.int64).max // extent.width:
            raise DataError(
                f"block {extent.name!r}: {n_rows} rows of {extent.width} columns are more cells"
                " than can be counted in 64 bits"
            )
    return n_rows
