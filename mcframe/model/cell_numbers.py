"""One number for each cell of a table, kept no larger than it was given."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray

__all__ = ["CellNumbers"]


@attrs.frozen(eq=False)
class CellNumbers:
    """Weights or offsets of all cells of a table, looked up where they are asked for.

    Attributes
    ----------
    shape : (n_rows, n_columns)
    numbers : array
        What numpy spreads over the shape: of the shape itself, (n_rows, 1), (1, n_columns) or
        (1, 1). With ``cells`` one number for each of them.
    cells : array of integers, or None
        Of a sparse matrix the cells ``row * n_columns + column`` whose numbers are stored, in
        ascending order; those of all others are 0.
    """

    shape: tuple[int, int]
    numbers: Array
    cells: IntArray | None = None

    def at(self, rows: IntArray, columns: IntArray) -> Array:
        """Return the numbers of some cells, of the shape that rows and columns have together."""
        if self.cells is None:
            found: Array = np.broadcast_to(self.numbers, self.shape)[rows, columns]
            return found
        wanted = np.asarray(rows, dtype=np.int64) * self.shape[1] + columns
        if not self.cells.size:
            return np.zeros(wanted.shape)
        places = np.minimum(np.searchsorted(self.cells, wanted), self.cells.size - 1)
        return np.where(self.cells[places] == wanted, self.numbers[places], 0.0)

    def dense(self) -> Array:
        """Return the numbers of all cells (n_rows x n_columns), perhaps as a read-only view."""
        if self.cells is None:
            return np.broadcast_to(self.numbers, self.shape)
        whole = np.zeros(self.shape)
        whole.ravel()[self.cells] = self.numbers
        return whole

    def repeat(self, width: int) -> "CellNumbers":
        """Return those of a table with ``width`` columns for each of this one, all alike."""
        shape = (self.shape[0], self.shape[1] * width)
        if self.cells is not None:
            cells = (self.cells[:, None] * width + np.arange(width)).ravel()
            return CellNumbers(shape, np.repeat(self.numbers, width), cells)
        if self.numbers.shape[1] == 1:
            return CellNumbers(shape, self.numbers)
        return CellNumbers(shape, np.repeat(self.numbers, width, axis=1))

    def plus(self, by_column: Array) -> "CellNumbers":
        """Return the sums with one number for each column."""
        whole = self.numbers if self.cells is None else self.dense()
        return CellNumbers(self.shape, whole + by_column)

    def with_columns(self, places: IntArray, n_columns: int) -> "CellNumbers":
        """Return those of a wider table that has these columns at some places, 0 elsewhere."""
        shape = (self.shape[0], n_columns)
        if self.cells is not None:
            rows, columns = np.divmod(self.cells, self.shape[1])
            cells = rows * n_columns + places[columns]
            order = np.argsort(cells)
            return CellNumbers(shape, self.numbers[order], cells[order])
        numbers = np.zeros((self.numbers.shape[0], n_columns))
        numbers[:, places] = self.numbers
        return CellNumbers(shape, numbers)
