"""A table whose entries were left behind: what answers need of it, and an error for all else."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import IntArray, Mask
from mcframe.contracts.errors import ModelError
from mcframe.model.table import Table

__all__ = ["LeftBehind"]

# What a table without entries tells as well as one with them.
KEPT = frozenset(
    {
        "column_label",
        "given",
        "given_offset",
        "index",
        "n_cells",
        "names",
        "natural",
        "natural_at",
        "offset",
        "offset_at",
        "row_label",
        "shape",
        "unwritten",
        "wrap",
        "wrap_column",
        "wrap_row",
    }
)


@attrs.frozen(eq=False)
class LeftBehind:
    """A block's shape, labels and offset in the place of its ``Table``.

    It answers what these answer. Whatever asks for entries, their values or their weights gets a
    ``ModelError``, wherever in the package it asks.
    """

    block: str
    empty: Table
    row_counts: IntArray  # how many cells of each row carry loss

    @property
    def rows_with_entries(self) -> Mask:
        """Which rows have one."""
        found: Mask = self.row_counts > 0
        return found

    @property
    def why(self) -> str:
        """Why there are no entries, and what to do, as a clause."""
        return "a compact fit has left its data behind; ask the fit that fit.compact() was made of"

    @classmethod
    def of(cls, block: str, table: "Table | LeftBehind") -> "LeftBehind":
        """Leave the entries of a table behind, and the way to them."""
        if isinstance(table, LeftBehind):
            return table.without_data()
        nowhere = np.zeros(0, dtype=np.intp)
        return cls(block, table.select(nowhere), table.row_counts)

    def without_data(self) -> "LeftBehind":
        """Return what holds no way to the entries either: itself."""
        return self

    def unobserved_columns(self, row: int) -> Any:
        """An error that says how to rank columns without the entries of a row."""
        raise ModelError(
            f"block {self.block!r}: to leave out the observed columns of a row needs its entries,"
            f" and {self.why}; observed=True ranks all columns, and top_rows takes the entries of"
            " a row anew"
        )

    def __getattr__(self, name: str) -> Any:
        if name in KEPT:
            return getattr(self.empty, name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise ModelError(
            f"block {self.block!r}: this needs the observed entries ({name} of the table), and"
            f" {self.why}"
        )
