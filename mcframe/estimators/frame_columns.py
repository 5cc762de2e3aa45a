"""A DataFrame of any columns as blocks of a model, with types as in ``mcframe.declare``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import ModelError
from mcframe.estimators.number_columns import Limits
from mcframe.model import Block, Model
from mcframe.tables import Declared, declare
from mcframe.tables.as_numbers import as_numbers
from mcframe.tables.columns import read_columns, read_frame
from mcframe.tables.completing import ASIDE
from mcframe.tables.declared_column import aside, warn_of_aside
from mcframe.tables.declaring import read_table
from mcframe.tables.filling import filled_series
from mcframe.tables.table_model import TableModel, as_one_block
from mcframe.tables.text_numbers import read_text_like

__all__ = ["FrameColumns", "holds_more_than_numbers"]


def holds_more_than_numbers(X: Any) -> bool:
    """Whether X is a DataFrame with a column of text, categories, truth values or dates.

    Raises
    ------
    DataError
        Where it is a DataFrame that says not which entries are missing, has a name twice, or no
        rows or columns.
    """
    if not isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame):
        return False
    columns = read_columns(read_frame(X))
    return any(column.form != "number" and column.n_observed for column in columns)


@attrs.frozen(eq=False)
class FrameColumns:
    """The columns of a DataFrame as blocks.

    Attributes
    ----------
    declared : Declared
    unseen : "missing" or "error"
        What values are in new rows that none of these rows has.
    rows : TableModel or None
        The posterior of the rows, where that answers.
    """

    declared: Declared
    unseen: Any
    rows: TableModel | None = None

    @classmethod
    def of(
        cls,
        frame: Any,
        types: Any,
        likelihoods: Any,
        unseen: Any,
        model: Model | None,
        numbers: bool = False,
    ) -> "FrameColumns":
        """The columns of a frame, as ``mcframe.declare`` takes them, or as numbers of one block.

        Raises
        ------
        DataError, ModelError
            As there, and where a model has other blocks.
        """
        if unseen not in ("missing", "error"):
            raise ModelError(f"unseen={unseen!r} was given; 'missing' or 'error' is needed")
        given = joined(types, likelihoods)
        if numbers:
            table, columns = read_table(frame, given)
            return cls(as_one_block(as_numbers(columns), table), unseen)
        declared = declare(frame, given)
        if model is not None:
            refuse_other_blocks(model, declared.model)
        return cls(declared, unseen)

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return len(self.declared.columns)

    @property
    def blocks(self) -> Sequence[Block]:
        """The blocks, without data."""
        return self.declared.model.blocks

    @property
    def kept(self) -> IntArray:
        """The positions of columns with an observed entry."""
        observed = [each.column.n_observed > 0 for each in self.declared.columns]
        return np.flatnonzero(observed)

    def data(self, frame: Any) -> dict[str, Array]:
        """The data of each block."""
        coded = self.declared.rows(frame, unseen=self.unseen)
        return {name: np.asarray(codes) for name, codes in coded.items()}

    def marked(self, frame: Any) -> Array:
        """NaN where an entry is missing, elsewhere 0."""
        columns = zip(read_columns(read_frame(frame)), self.declared.columns, strict=True)
        missing = np.column_stack(
            [read_text_like(own, each.column).missing for own, each in columns]
        )
        return np.where(missing, np.nan, 0.0)

    def check_filling(self, limits: Limits, keep_empty: bool) -> None:
        """Refuse limits, and name in a ``UserWarning`` the columns that are set aside."""
        if np.isfinite(limits).any():
            raise ModelError(
                "min_value or max_value was given for a table whose columns are not all numbers;"
                " give bounds of a column by types={name: ('number', lower, upper)}"
            )
        warn_of_aside(
            ASIDE,
            [
                each
                for each in aside(self.declared.columns)
                if each.column.n_observed or (keep_empty and each.column.form != "number")
            ],
        )

    def filled(self, fit: Any, frame: Any, fitted: bool) -> Any:
        """The table of the fit, or one of other rows, filled where the model can."""
        if fitted:
            return self.declared.table(fit) if self.rows is None else self.rows.table()
        return self.declared.complete_rows(fit, frame, unseen=self.unseen)

    def finished(self, filled: Any, frame: Any, limits: Limits, keep_empty: bool) -> Any:
        """A filled table with 0 in columns of numbers without an observed one, or without them."""
        table = nw.from_native(filled, eager_only=True)
        empty = [each.name for each in self.declared.columns if each.column.n_observed == 0]
        if not keep_empty:
            return table.drop(empty).to_native()
        changed = []
        for column in read_columns(table.select(empty)):
            rows = np.flatnonzero(column.missing)
            if column.form == "number" and rows.size:
                changed.append(filled_series(column.series, rows, [0] * rows.size))
        return table.with_columns(*changed).to_native()

    def beside(self, answer: Any, names: Any, indicated: Array) -> Any:
        """The answer with indicators behind its columns."""
        table = nw.from_native(answer, eager_only=True)
        made = [
            nw.new_series(str(name), missing, backend=table.implementation)
            for name, missing in zip(names, indicated.T, strict=True)
        ]
        if table.implementation.is_pandas():
            made = [nw.maybe_set_index(each, index=answer.index) for each in made]
        return table.with_columns(*made).to_native()

    def in_library(self, answer: Any, library: str) -> Any:
        """The answer as a DataFrame of pandas or polars where ``set_output`` asks for one.

        scikit-learn makes one of another library's as well, but of objects.
        """
        table = nw.from_native(answer, eager_only=True)
        if library == "pandas" and not table.implementation.is_pandas():
            return table.to_pandas()
        if library == "polars" and not table.implementation.is_polars():
            return table.to_polars()
        return answer

    def warn_of_unused(self) -> None:
        """A ``UserWarning`` that names columns which the model does not use."""
        used = [each for each in aside(self.declared.columns) if each.column.n_observed]
        warn_of_aside("columns that are set aside are not used", used)


def joined(types: Any, likelihoods: Any) -> Any:
    """Types and likelihoods of columns as ``declare`` takes both, in one dict."""
    if isinstance(likelihoods, str) and likelihoods == "auto":
        return types
    if isinstance(likelihoods, Mapping) and (types is None or isinstance(types, Mapping)):
        return {**likelihoods, **(types or {})}
    raise ModelError(
        f"likelihoods={likelihoods!r} was given for a table whose columns are not all numbers;"
        " give those of single columns, by name: likelihoods={name: likelihood}"
    )


def refuse_other_blocks(model: Model, declared: Model) -> None:
    """A ``ModelError`` where a model has not the blocks that a table is declared as."""
    given, wanted = ({block.name for block in each.blocks} for each in (model, declared))
    if given != wanted:
        raise ModelError(
            f"model has the blocks {listed(sorted(given))}, and X is declared as"
            f" {listed(sorted(wanted))}; change the model of mc.declare(X, types) by attrs.evolve"
        )


def listed(names: Iterable[str]) -> str:
    """Names in a row."""
    return ", ".join(map(repr, names))
