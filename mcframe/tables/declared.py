"""The answer of ``declare``: a model, its data, and the way back to a table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.real_numbers import plain
from mcframe.model import Model
from mcframe.tables.coding import Choice, Metric
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.new_rows import CodedRows, completed_rows, imputed_rows

__all__ = ["Declared", "lines_of"]

# How many rows are printed; the rest is counted.
SHOWN = 60


@attrs.frozen(eq=False, repr=False)
class Declared:
    """A table as a model and its data; ``model, data = mc.declare(frame)`` unpacks them.

    ``print`` shows the type of each column, and the reason.

    Attributes
    ----------
    model : Model
        A block for each type of column, and a ``NuclearNorm``.
    data : dict from block name to DataFrame or array
        The codes of the columns of each block, NaN where missing. They are DataFrames with the
        index of the table if it is of pandas.
    columns : tuple of DeclaredColumn
        All columns in the order of the table.
    frame : narwhals.DataFrame
        The original table.
    """

    model: Model
    data: Mapping[str, Any]
    columns: tuple[DeclaredColumn, ...]
    frame: Any

    def __iter__(self) -> Iterator[Any]:
        return iter((self.model, self.data))

    def table(self, fit: Any) -> Any:
        """The table with its missing entries filled by a fit, in its own library.

        Observed entries and dtypes do not change. Numbers are filled with their mean, rounded if
        the dtype holds whole numbers only. Labels, classes and levels are filled with the most
        probable value, as it is written in the column. Columns that are set aside are returned
        unchanged; a constant column is filled with its constant.

        Parameters
        ----------
        fit : Fit or Posterior
            Of this model, or of a changed one with the same blocks, to this data.
        """
        return self.with_codes(
            {
                each.name: each.answered(fit)
                for each in self.columns
                if each.place is not None and each.column.missing.any()
            }
        )

    def with_codes(self, codes: Mapping[Any, Array]) -> Any:
        """The table with the given codes at its missing entries; constants are filled."""
        changed = [
            each.filled_with(codes.get(each.name, np.zeros(0)))
            for each in self.columns
            if each.column.missing.any()
        ]
        return self.frame.with_columns(*changed).to_native() if changed else self.frame.to_native()

    def rows(
        self, frame: Any, *, unseen: Literal["missing", "error"] = "missing"
    ) -> dict[str, Any]:
        """The data of new rows, coded like this table, for ``fit.predict_rows``.

        Parameters
        ----------
        frame : DataFrame or Table
            With the columns of this table in any order. Absent columns count as missing, with a
            ``UserWarning`` that names them.
        unseen : "missing" or "error", default "missing"
            Values that no row of this table has, such as a new category, count as missing, with
            one ``UserWarning`` that names them; or they raise a ``DataError``.

        Returns
        -------
        dict from block name to DataFrame or array (n_new x columns of the block)

        Raises
        ------
        DataError
            If the frame is not a table, has a column that this one does not have, or values of
            another form.
        """
        return CodedRows.of(self.columns, frame, unseen).data(self.model)

    def complete_rows(
        self, fit: Any, frame: Any, *, unseen: Literal["missing", "error"] = "missing"
    ) -> Any:
        """New rows with their missing entries filled by a fit, in their own library.

        By the rule for new rows (``Fit.impute_rows``), as ``table`` does for the rows of the fit:
        labels, categories and levels are filled with the most probable value, numbers with the
        mean. Observed entries and dtypes do not change. If a dtype cannot hold a filled value, it
        becomes that of the declared table, or is given the missing category. Columns that are set
        aside are returned unchanged.

        Parameters
        ----------
        fit : Fit or Posterior
            As for ``table``.
        frame : DataFrame or Table
            With the columns of this table in any order. Absent columns count as missing, with a
            ``UserWarning`` that names them; they are filled and appended.
        unseen : "missing" or "error", default "missing"
            Values that no row of this table has count as missing, with one ``UserWarning`` that
            names them, and are not replaced; or they raise a ``DataError``.

        Returns
        -------
        DataFrame or Table
            With the rows of ``frame`` in their order, and its index.

        Raises
        ------
        DataError
            As in ``rows``.
        ModelError
            If the model does not define new rows; see ``Fit.predict_rows``.

        Examples
        --------
        >>> import pandas as pd, mcframe as mc
        >>> frame = pd.DataFrame({
        ...     "height": [1.5, 1.6, 1.8, 1.9] * 5, "size": ["S", "S", "L", "L"] * 5,
        ... })
        >>> declared = mc.declare(frame)
        >>> fit = mc.fit(declared.model, declared.data)
        >>> declared.complete_rows(fit, pd.DataFrame({"height": [1.55, 1.85], "size": None}))
           height size
        0    1.55    S
        1    1.85    L
        """
        rows = CodedRows.of(self.columns, frame, unseen)
        filled = imputed_rows(fit, rows.data(self.model))
        return completed_rows(rows, filled)

    def predict(self, fit: Any, name: Any) -> Any:
        """Predictions of a column in every row, in the library of the table.

        For a label, a category or levels there is one column of probabilities for each value,
        named by the value (by its text in polars and pyarrow, where names are text). For a number
        or a count there is one column with its mean.

        Parameters
        ----------
        fit : Fit or Posterior
            As for ``table``.
        name : object
            A column that is in a block; otherwise a ``ModelError`` gives the reason.
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
        answer = coding.answer(fit, block, rows, columns)
        if not isinstance(coding, Choice):
            told = coding.natural(answer) if isinstance(coding, Metric) else answer
            return self.like_frame([name], told[:, None])
        return self.like_frame([plain(value) for value in coding.places], answer)

    def column(self, name: Any) -> DeclaredColumn:
        """The column of that name; a ``ModelError`` if there is none."""
        for each in self.columns:
            if each.name == name:
                return each
        raise ModelError(f"there is no column {plain(name)!r} in the table")

    def like_frame(self, names: list[Any], numbers: Array) -> Any:
        """Numbers (n_items x names) as a table of the same library, with its index."""
        pandas = self.frame.implementation.is_pandas()
        told = range(len(names)) if pandas else names
        columns = {str(name): own for name, own in zip(told, numbers.T, strict=True)}
        made = nw.from_dict(columns, backend=self.frame.implementation).to_native()
        if pandas:
            made.columns, made.index = names, self.frame.to_native().index
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
            (str(plain(each.name)), f"{each.share_missing:.0%}", each.kind, each.taken.why)
            for each in self.columns
        ]
        return "\n".join([*lines, *lines_of([("column", "missing", "taken for", "why"), *rows])])


def lines_of(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a header and rows as lines, columns aligned; of very many rows the first ones."""
    header, *body = rows
    kept = [header, *body[:SHOWN]]
    widths = [max(map(len, column)) for column in zip(*kept, strict=True)]
    lines = [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in kept
    ]
    if len(body) > SHOWN:
        lines.append(f"  and {len(body) - SHOWN} more")
    return lines
