"""The answer of ``declare``: a model, its data, and the way back to a table."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import attrs
import narwhals as nw
import numpy as np

from mcframe.answer import Fit
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.real_numbers import plain
from mcframe.model import Model
from mcframe.tables.coding import Choice, Coding
from mcframe.tables.columns import Column
from mcframe.tables.filling import filled_series
from mcframe.tables.kinds import Taken
from mcframe.tables.printing import lines_of

__all__ = ["Declared", "DeclaredColumn"]


@attrs.frozen(eq=False)
class DeclaredColumn:
    """A column of a table, what it was taken for, and where it stands in the model.

    Attributes
    ----------
    column : Column
        As it was read.
    taken : Taken
        Its kind, and why.
    place : int or None
        Which column of its block it is; None of one that stands in no block.
    """

    column: Column
    taken: Taken
    place: int | None = None

    @property
    def name(self) -> Any:
        """The name in the table."""
        return self.column.name

    @property
    def share_missing(self) -> float:
        """The share of entries that are missing."""
        return float(np.mean(self.column.missing))

    @cached_property
    def codes(self) -> Array:
        """The numbers that the likelihood reads (n_items,), NaN where missing."""
        return self.modelled[0].codes(self.column)

    def filled(self, fit: Fit) -> Any:
        """The column as a ``narwhals.Series``, its missing entries filled where there is a way."""
        rows = np.flatnonzero(self.column.missing)
        if rows.size == 0:
            return self.column.series
        if self.taken.constant:
            return filled_series(self.column.series, rows, self.taken.constant * rows.size)
        if self.place is None:
            return self.column.series
        coding, block = self.modelled
        codes = coding.predicted(fit, block, rows, np.full(rows.size, self.place))
        return filled_series(self.column.series, rows, coding.values(codes))

    @property
    def modelled(self) -> tuple[Coding, str]:
        """Coding and block of a column that stands in one."""
        assert self.taken.coding is not None
        assert self.taken.block is not None
        return self.taken.coding, self.taken.block


@attrs.frozen(eq=False, repr=False)
class Declared:
    """A table as a model and its data; ``model, data = mc.declare(frame)`` unpacks them.

    ``print`` says what each column was taken for, and why.

    Attributes
    ----------
    model : Model
        A block for each kind of column, and a ``NuclearNorm``.
    data : dict from block name to DataFrame or array
        Codes of the columns of each block, NaN where missing: DataFrames where the table is one
        of pandas, with its index.
    columns : tuple of DeclaredColumn
        All columns in the order of the table.
    frame : narwhals.DataFrame
        The table as it was given.
    """

    model: Model
    data: Mapping[str, Any]
    columns: tuple[DeclaredColumn, ...]
    frame: Any

    def __iter__(self) -> Iterator[Any]:
        return iter((self.model, self.data))

    def table(self, fit: Fit) -> Any:
        """The table with its missing entries filled by a fit, in the library it came in.

        Observed entries are untouched, and dtypes stay: numbers by their mean, rounded where the
        dtype holds whole numbers alone, labels, classes and levels by the most probable one, as
        the value that the column has for it. Columns that are set aside are returned as they
        were, holes included; a constant one is filled with its constant.

        Parameters
        ----------
        fit : Fit
            Of this model, or of a changed one with the same blocks, to this data.
        """
        changed = [each.filled(fit) for each in self.columns if each.column.missing.any()]
        return self.frame.with_columns(*changed).to_native() if changed else self.frame.to_native()

    def predict(self, fit: Fit, name: Any) -> Any:
        """What a fit says of a column in every row, in the library that the table came in.

        Of a label, a category or levels one column of probabilities for each of its values,
        named as the value; of a number or a count its mean, in a table of one column.

        Parameters
        ----------
        fit : Fit
            As for ``table``.
        name : object
            A column that stands in a block; a ``ModelError`` says why another one does not.
        """
        each = self.column(name)
        if each.place is None:
            raise ModelError(
                f"column {plain(name)!r} stands in no block, so that nothing is predicted of it:"
                f" {each.taken.why}"
            )
        coding, block = each.modelled
        rows = np.arange(self.frame.shape[0])
        columns = np.full(rows.size, each.place)
        if not isinstance(coding, Choice):
            return self.like_frame({str(name): coding.predicted(fit, block, rows, columns)})
        shares = coding.probabilities(fit, block, rows, columns)
        return self.like_frame(
            {str(plain(value)): shares[:, k] for k, value in enumerate(coding.places)}
        )

    def column(self, name: Any) -> DeclaredColumn:
        """The column of that name; ``ModelError`` where there is none."""
        for each in self.columns:
            if each.name == name:
                return each
        raise ModelError(f"there is no column {plain(name)!r} in the table")

    def like_frame(self, columns: Mapping[str, Array]) -> Any:
        """Numbers for each row as a table of the same library, with the index of a pandas one."""
        made = nw.from_dict(dict(columns), backend=self.frame.implementation).to_native()
        if self.frame.implementation.is_pandas():
            made.index = self.frame.to_native().index
        return made

    def __repr__(self) -> str:
        n_rows, n_columns = self.frame.shape
        modelled = sum(each.place is not None for each in self.columns)
        blocks = len(self.model.blocks)
        lines = [
            f"Declared: {n_rows} rows, {modelled} of {n_columns} columns in {blocks}"
            f" block{'s' * (blocks != 1)}"
        ]
        rows = [
            (str(plain(each.name)), f"{each.share_missing:.0%}", taken_for(each), each.taken.why)
            for each in self.columns
        ]
        return "\n".join([*lines, *lines_of([("column", "missing", "taken for", "why"), *rows])])


def taken_for(each: DeclaredColumn) -> str:
    """The kind of a column in a word or two."""
    return "set aside" if each.taken.kind == "skip" else each.taken.kind
