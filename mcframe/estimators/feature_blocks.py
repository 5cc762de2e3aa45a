"""The columns of a table as blocks of a model: of an array of numbers, or of a DataFrame."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError, ModelError, warn_caller
from mcframe.contracts.likelihood import Likelihood, fits_parameters
from mcframe.contracts.validators import exact, listed, plain
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Model, Observations
from mcframe.posterior.answer import Posterior
from mcframe.regularizers import NuclearNorm
from mcframe.tables import Completion, Declared
from mcframe.tables.coded_rows import conditioned
from mcframe.tables.coding import NUMBERS_BLOCK
from mcframe.tables.column_types import read_table
from mcframe.tables.columns import read_column_like, read_columns, read_frame
from mcframe.tables.completing import SET_ASIDE_MESSAGE
from mcframe.tables.declared import declared_of
from mcframe.tables.declared_column import (
    as_numbers,
    columns_set_aside,
    numbers_in,
    warn_of_columns_set_aside,
)
from mcframe.tables.gaps import Missing
from mcframe.tables.number_tables import number_block

# The lowest and the highest value of each feature that may be filled in.
Limits = tuple[Array, Array]


@attrs.frozen(eq=False)
class NumberColumns:
    """The columns of a matrix (n_samples x n_features) as blocks.

    Attributes
    ----------
    kept : array of positions
        Columns with an observed entry: no other stands in a block.
    blocks : list of Block
    places : list of arrays
        The columns of each block, counted among those that are kept.
    """

    kept: IntArray
    blocks: Sequence[Block]
    places: Sequence[IntArray]

    @classmethod
    def of(
        cls, table: Array, likelihoods: Any, names: Sequence[Any] | None, model: Model | None
    ) -> "NumberColumns":
        """The columns of a matrix, NaN where missing: those of a model, or by likelihood.

        Columns that share a likelihood stand together, in the order of the first ones.

        Parameters
        ----------
        table : array (n_samples x n_features)
        likelihoods : "auto", a likelihood, or a dict
            One for all columns, Gaussian for "auto"; of a dict from the name or position of a
            column to its likelihood, Gaussian for those that it does not name.
        names : the names of all columns, None where there are none
        model : Model or None
        """
        kept = np.flatnonzero(~np.isnan(table).all(axis=0))
        if model is not None:
            if len(model.blocks) != 1:
                names_of_blocks = ", ".join(repr(block.name) for block in model.blocks)
                raise ModelError(
                    f"model has the blocks {names_of_blocks}; a table of numbers is one block."
                    " Give a model of one, or likelihoods={column: likelihood} in its place"
                )
            return cls(kept, model.blocks, [np.arange(kept.size)])
        called = range(table.shape[1]) if names is None else names
        single, default = {}, likelihoods
        if isinstance(likelihoods, Mapping):
            single, default = dict(likelihoods), Gaussian()
        elif isinstance(likelihoods, str) and likelihoods == "auto":
            default = Gaussian()
        for column in single:
            if column not in {*range(len(called)), *called}:
                raise ModelError(
                    f"likelihoods names column {column!r}, which is not in X; the columns are"
                    f" {', '.join(map(repr, called))}"
                )
        together: dict[Any, list[int]] = {}
        for place, position in enumerate(kept.tolist()):
            column_likelihood = single.get(called[position], single.get(position, default))
            if not isinstance(column_likelihood, Likelihood):
                raise ModelError(
                    f"likelihoods={likelihoods!r} was given; 'auto', a likelihood such as"
                    " mc.Gaussian(), or a dict from columns to likelihoods is needed"
                )
            wrong = column_likelihood.invalid(table[:, position]) & ~np.isnan(table[:, position])
            if wrong.any():
                row = int(np.argmax(wrong))
                raise DataError(
                    f"column {called[position]!r}: value {exact(table[row, position])} in row"
                    f" {row}; {type(column_likelihood).__name__} needs "
                    f"{column_likelihood.needs}. {column_likelihood.remedy}"
                )
            # Thresholds that are fitted are those of one column.
            together.setdefault(
                (column_likelihood, place if fits_parameters(column_likelihood) else -1), []
            ).append(place)
        blocks = [
            Block(
                f"{type(likelihood).__name__} {number}",
                likelihood,
                standardize=True,
                bias=not fits_parameters(likelihood),
            )
            for number, (likelihood, _) in enumerate(together)
        ]
        return cls(
            kept, blocks, [np.asarray(positions, dtype=np.intp) for positions in together.values()]
        )

    def data(self, table: Array) -> dict[str, Array]:
        """The data of each block."""
        pairs = zip(self.blocks, self.places, strict=True)
        return {block.name: table[:, self.kept[columns]] for block, columns in pairs}

    def marked(self, table: Array) -> Array:
        """The table itself: NaN where an entry is missing."""
        return table

    def filled(
        self, fit: Any, table: Array, fitted: bool, limits: Limits, keep_empty: bool
    ) -> Array:
        """The table of the fit, or one of other rows, without holes, and without empty columns.

        Filled numbers are clipped. Empty columns are 0 where they are kept.
        """
        filled = table[:, self.kept]
        missing = np.isnan(filled)
        if missing.any() and self.blocks:
            fill = fit.impute
            if not fitted:
                rows = conditioned(fit, self.data(table))
                fill = rows.impute if isinstance(rows, Posterior) else rows.imputed
            blocks = {block.name: np.asarray(fill(block.name)) for block in self.blocks}
            for block, columns in zip(self.blocks, self.places, strict=True):
                filled[:, columns] = blocks[block.name]
        lowest, highest = (limit[self.kept] for limit in limits)
        answer = np.where(missing, np.clip(filled, lowest, highest), filled)
        if keep_empty:
            whole = np.where(np.isnan(table), 0.0, table)
            whole[:, self.kept] = answer
            answer = whole
        return answer.astype(table.dtype, copy=False)

    def with_indicators(self, answer: Array, names: Any, indicated: Array) -> Array:
        """The answer with indicators behind its columns."""
        return np.hstack([answer, indicated]).astype(answer.dtype, copy=False)


def holds_more_than_numbers(table: nw.DataFrame[Any]) -> bool:
    """True if a table has a column of text, categories, truth values or dates.

    Raises
    ------
    DataError
        Where a column says not which entries are missing.
    """
    columns = read_columns(table)
    return any(column.form != "number" and column.n_observed for column in columns)


@attrs.frozen(eq=False)
class FrameColumns:
    """The columns of a DataFrame as blocks, with types as in ``mcframe.declare``.

    Attributes
    ----------
    declared : Declared
    unseen : "missing" or "error"
        What values are in new rows that none of these rows has.
    completed : Completion or None
        The table of the fit as the posterior of its rows has filled it, where that answers.
    """

    declared: Declared
    unseen: Any
    completed: Completion | None = None

    @classmethod
    def of(
        cls,
        frame: Any,
        types: Any,
        likelihoods: Any,
        unseen: Any,
        model: Model | None,
        numbers: bool,
        missing: Missing = None,
        relations: Any = None,
    ) -> "FrameColumns":
        """The columns of a frame, as ``mcframe.declare`` takes them, or as numbers of one block.

        Raises
        ------
        DataError, ModelError
            As there, and where a model has other blocks.
        """
        if isinstance(likelihoods, Mapping) and (types is None or isinstance(types, Mapping)):
            types = {**likelihoods, **(types or {})}
        elif likelihoods is not None:
            raise ModelError(
                f"likelihoods={likelihoods!r} was given for a table whose columns are not all"
                " numbers; give those of single columns, by name: likelihoods={name: likelihood}"
            )
        table = read_table(frame, types, missing, "missing_values").with_relations(relations)
        if numbers:
            one = Model([number_block(NUMBERS_BLOCK)], [NuclearNorm()])
            columns = as_numbers(table.columns)
            return cls(Declared.of(columns, table.frame, one, table.relations), unseen)
        declared = declared_of(table.columns, table.frame, table.relations)
        wanted = sorted(block.name for block in declared.model.blocks)
        block_names = wanted if model is None else sorted(block.name for block in model.blocks)
        if block_names != wanted:
            raise ModelError(
                f"model has the blocks {', '.join(map(repr, block_names))}, and X is declared as"
                f" {', '.join(map(repr, wanted))}; change the model of mc.declare(X, types) by"
                " attrs.evolve"
            )
        return cls(declared, unseen)

    @property
    def blocks(self) -> Sequence[Block]:
        """The blocks, without data."""
        return self.declared.model.blocks

    @property
    def kept(self) -> IntArray:
        """The positions of columns with an observed entry."""
        return np.flatnonzero([column.column.n_observed > 0 for column in self.declared.columns])

    def data(self, frame: Any) -> dict[str, Array]:
        """The data of each block."""
        coded = self.declared.rows(frame, unseen=self.unseen)
        return {name: np.asarray(numbers_in(codes)) for name, codes in coded.items()}

    def data_within_limits(self, frame: Any) -> dict[str, Any]:
        """The data of each block, with the limits of cells where the likelihood takes them."""
        coded = self.declared.rows(frame, unseen=self.unseen)
        return {
            name: attrs.evolve(codes, values=np.asarray(codes.values))
            if isinstance(codes, Observations)
            else np.asarray(codes)
            for name, codes in coded.items()
        }

    def marked(self, frame: Any) -> Array:
        """NaN where an entry is missing, elsewhere 0."""
        pairs = zip(read_frame(frame).iter_columns(), self.declared.columns, strict=True)
        missing = [read_column_like(series, column.column).missing for series, column in pairs]
        return np.where(np.column_stack(missing), np.nan, 0.0)

    def warn_of_limits(self) -> None:
        """A ``UserWarning`` that names columns with limits, where no target is found from them."""
        limited = [
            repr(plain(column.name))
            for column in self.declared.columns
            if column.place is not None and column.limits is not None
        ]
        if limited:
            warn_caller(
                f"cells that are known to limits count as missing features: {listed(limited)};"
                " mc.complete of features and targets uses the limits"
            )

    def warn_of_columns_set_aside(
        self, message: str = SET_ASIDE_MESSAGE, empty: bool = False
    ) -> None:
        """A ``UserWarning`` that names columns that are set aside; empty ones if they are kept."""
        warn_of_columns_set_aside(
            message,
            [
                column
                for column in columns_set_aside(self.declared.columns)
                if column.column.n_observed or (empty and column.column.form != "number")
            ],
            "missing_values",
        )

    def filled(self, fit: Any, frame: Any, fitted: bool, limits: Limits, keep_empty: bool) -> Any:
        """The table of the fit, or one of other rows, filled where the model can.

        Columns without an observed entry are left out, or are 0 if they are numbers.
        """
        if not fitted:
            filled = self.declared.complete_rows(fit, frame, unseen=self.unseen)
        elif self.completed is None:
            filled = self.declared.table(fit)
        else:
            filled = self.completed.table
        table = nw.from_native(filled, eager_only=True)
        empty = [
            declared_column
            for declared_column in self.declared.columns
            if declared_column.column.n_observed == 0
        ]
        if not keep_empty:
            return table.drop([declared_column.name for declared_column in empty]).to_native()
        changed = []
        for declared_column in empty:
            column = read_column_like(
                table.get_column(declared_column.name), declared_column.column
            )
            rows = np.flatnonzero(column.missing)
            if column.form == "number" and rows.size:
                changed.append(column.filled(rows, [0] * rows.size))
        return table.with_columns(*changed).to_native()

    def with_indicators(self, answer: Any, names: Any, indicated: Array) -> Any:
        """The answer with indicators behind its columns."""
        table = nw.from_native(answer, eager_only=True)
        made = [
            nw.new_series(str(name), missing, backend=table.implementation)
            for name, missing in zip(names, indicated.T, strict=True)
        ]
        if table.implementation.is_pandas():
            made = [nw.maybe_set_index(indicator, index=answer.index) for indicator in made]
        return table.with_columns(*made).to_native()
