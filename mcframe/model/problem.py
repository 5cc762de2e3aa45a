"""A model bound to data: checked once, and the one judge of every backend."""

import warnings
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError, ModelError, UnobservedWarning
from mcframe.contracts.term import Spectral
from mcframe.model.model import Model
from mcframe.model.table import Table, read_table, same_rows
from mcframe.numerics.low_rank import LowRank

__all__ = ["Problem"]


@attrs.frozen(eq=False, repr=False)
class Problem:
    """A model with data, checked. ``Problem.bind(model, data)`` makes one.

    ``objective`` is the only judge of every backend; it belongs to none of them.
    """

    model: Model
    tables: Mapping[str, Table]
    n_items: int
    index: Any
    notes: tuple[str, ...]

    @classmethod
    def bind(cls, model: Model, data: Mapping[str, Any]) -> "Problem":
        """Check data against a model: every message names block, column, value and remedy.

        Parameters
        ----------
        model : Model
        data : mapping from block name to array, DataFrame or scipy.sparse matrix
            Each (n_items x columns of the block); NaN, or not stored, means missing.

        Raises
        ------
        DataError
            For anything in the data that the model cannot mean.
        """
        if not isinstance(model, Model):
            raise ModelError(f"{type(model).__name__} was given where a Model is needed")
        if not isinstance(data, Mapping):
            raise DataError(
                f"data of type {type(data).__name__} were given; a dict from block name to"
                f" matrix is needed, here with {block_names(model)}"
            )
        for name in data:
            if name not in {block.name for block in model.blocks}:
                raise DataError(
                    f"data hold {name!r}, which no block is named; the blocks are"
                    f" {block_names(model)}"
                )
        for block in model.blocks:
            if block.name not in data:
                raise DataError(f"block {block.name!r} has no data; add data[{block.name!r}]")
        tables = {block.name: read_table(block, data[block.name]) for block in model.blocks}
        n_items, index = same_rows(tables.items())
        notes = notes_on(tables, n_items)
        for note in notes:
            warnings.warn(note, UnobservedWarning, stacklevel=3)
        return cls(model, tables, n_items, index, notes)

    @property
    def n_columns(self) -> int:
        """Columns of Z: all blocks, then those that constraints add."""
        return sum(table.shape[1] for table in self.tables.values()) + self.model.extra_columns

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of Z."""
        return self.n_items, self.n_columns

    @property
    def n_observed(self) -> int:
        """Observed entries of all blocks."""
        return sum(table.n_observed for table in self.tables.values())

    def columns(self, name: str) -> slice:
        """Where a block's columns stand in Z."""
        self.model.block(name)
        start = 0
        for block in self.model.blocks:
            stop = start + self.tables[block.name].shape[1]
            if block.name == name:
                return slice(start, stop)
            start = stop
        raise AssertionError("unreachable: the model has just been asked for the block")

    def scale(self, name: str) -> float:
        """weight / N: what one observed entry of a block counts."""
        block = self.model.block(name)
        n_terms = self.tables[block.name].n_observed if block.reduce == "mean" else 1
        return block.weight / n_terms

    def objective(self, latent: "LowRank | Array", biases: Mapping[str, Array]) -> float:
        """The objective at Z and b; ``inf`` where a constraint is violated.

        Parameters
        ----------
        latent : LowRank or array
            Z, of ``shape``.
        biases : mapping from block name to array
            One number a column for each block with ``bias=True``.
        """
        self.check_point(latent, biases)
        latent = latent if isinstance(latent, LowRank) else LowRank.of(np.asarray(latent))
        total = 0.0
        for block in self.model.blocks:
            table = self.tables[block.name]
            z = latent.columns(self.columns(block.name)).at(table.rows, table.columns)
            if block.bias:
                z = z + biases[block.name][table.columns]
            total += self.scale(block.name) * float(
                np.sum(block.likelihood.value(z, table.values))
            )
        singular_values = latent.singular_values()
        for regularizer in self.model.regularizers:
            if isinstance(regularizer, Spectral):
                total += regularizer.of_singular_values(singular_values)
            else:
                total += regularizer.value(latent.dense())
        for constraint in self.model.constraints:
            total += constraint.value(latent.dense())
        return total

    def check_point(self, latent: "LowRank | Array", biases: Mapping[str, Array]) -> None:
        """Shapes of Z and b, or a ``DataError``: a wrong one would give a wrong value quietly."""
        shape = tuple(latent.shape) if isinstance(latent, LowRank) else np.shape(latent)
        if shape != self.shape:
            raise DataError(f"Z of shape {shape} was given; {self.shape} is needed")
        wanted = {b.name: (self.tables[b.name].shape[1],) for b in self.model.blocks if b.bias}
        given = {name: np.shape(bias) for name, bias in biases.items()}
        if given != wanted:
            raise DataError(f"biases of shapes {given} were given; {wanted} are needed")

    def loss_at_zero(self) -> float:
        """The losses at Z = 0 and b = 0: the scale of the objective."""
        total = 0.0
        for block in self.model.blocks:
            y = self.tables[block.name].values
            total += self.scale(block.name) * float(np.sum(block.likelihood.value(0.0 * y, y)))
        return total

    def __repr__(self) -> str:
        lines = [str(self.model), ""]
        for block in self.model.blocks:
            table = self.tables[block.name]
            cells = table.shape[0] * table.shape[1]
            lines.append(
                f"{block.name}: {table.shape[0]} x {table.shape[1]},"
                f" {table.n_observed} observed ({table.n_observed / cells:.0%})"
            )
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def block_names(model: Model) -> str:
    """The names of a model's blocks, quoted."""
    return ", ".join(repr(block.name) for block in model.blocks)


def notes_on(tables: Mapping[str, Table], n_items: int) -> tuple[str, ...]:
    """What is allowed but worth saying: columns and rows without an observed entry."""
    notes = []
    for name, table in tables.items():
        counts = np.bincount(table.columns, minlength=table.shape[1])
        empty = np.flatnonzero(counts == 0)
        if empty.size:
            first = table.column_label(int(empty[0]))
            others = f" and {empty.size - 1} more columns" if empty.size > 1 else ""
            notes.append(
                f"block {name!r}: column {first}{others} without one observed entry;"
                " what is predicted there is z = 0, not learnt from data"
            )
    seen = np.zeros(n_items, dtype=bool)
    for table in tables.values():
        seen[table.rows] = True
    if not seen.all():
        first_row = int(np.flatnonzero(~seen)[0])
        others = f" and {int((~seen).sum()) - 1} more rows" if (~seen).sum() > 1 else ""
        notes.append(
            f"row {first_row}{others} without one observed entry in any block;"
            " what is predicted there is not learnt from that row"
        )
    return tuple(notes)
