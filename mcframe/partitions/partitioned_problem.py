"""A problem whose rows are in partitions: its losses by those of the parts, and its tables."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.model import Model, Problem
from mcframe.model.binding import Totals, layout_of
from mcframe.model.table import Table, TableWithoutData
from mcframe.model.transforms import OffsetWithoutData
from mcframe.numerics.operators import LowRank
from mcframe.partitions.executor import WHY_NOT_STORED, Partitions
from mcframe.partitions.part import PART, Part, Source, sharded_effects
from mcframe.partitions.tall_matrix import TallMatrix, sharded_rows
from mcframe.storage.digest import digest_of


@attrs.frozen(eq=False, repr=False)
class PartitionedProblem(Problem):
    """A model with data in partitions; tables know shapes, and answer no question about entries.

    The losses of a point are the sum of what the problems of the parts say.
    """

    partitions: Partitions = attrs.field(kw_only=True)
    rows_elsewhere: ClassVar[bool] = True
    why_not_stored: ClassVar[str] = WHY_NOT_STORED

    def without_data(self) -> Problem:
        """Return the problem without its partitions, as ``Problem.without_data``."""
        fields = {field.name: getattr(self, field.name) for field in attrs.fields(Problem)}
        return Problem(**fields).without_data()

    @cached_property
    def digest_of_data(self) -> str:
        """A digest of what the data say of themselves, with their partitions."""
        data = self.partitions.source.data
        rows = [data.rows(p) for p in range(data.n_partitions)]
        return digest_of((data.fingerprint, rows))

    @property
    def n_observed(self) -> int:
        """Stored entries of all blocks, by what the data say."""
        data = self.partitions.source.data
        return sum(data.n_entries(p) for p in range(data.n_partitions))

    def objective(self, latent: LowRank | Array, effects: Mapping[str, Array]) -> float:
        """The objective at Z and the unpenalised numbers, by the partitions of its rows."""
        if isinstance(latent, LowRank) and latent.shape[0] > latent.shape[1]:
            left: Any = TallMatrix.of_array(self.partitions, latent.left)
            latent = LowRank(left, latent.right)
        return super().objective(latent, effects)

    def loss(self, latent: LowRank, effects: Mapping[str, Array]) -> float:
        """The losses of all blocks at Z and the unpenalised numbers."""
        blocks = self.model.blocks
        sharded = tuple(
            sharded_effects(self.layout(block.name), effects.get(block.name)) for block in blocks
        )
        total = float(self.partitions.sum(loss_of, PART, sharded_rows(latent), sharded))
        # The ridge on biases, which the parts leave out; that on effects of rows is theirs.
        biased = [block.name for block in blocks if block.bias and block.name in effects]
        return total + sum(self.cost_of_effects(name, effects) for name in biased)


def loss_of(part: Part, latent: LowRank, effects: tuple[Any, ...]) -> float:
    """The losses at Z and effects."""
    problem, names = part.problem, [block.name for block in part.problem.model.blocks]
    pairs = zip(names, effects, strict=True)
    named = {name: block_effects for name, block_effects in pairs if block_effects is not None}
    total = float(sum(problem.loss_of_cells(name, latent, named) for name in names))
    by_rows = [b.name for b in problem.model.blocks if b.row_effects and not b.bias]
    return total + float(sum(problem.cost_of_effects(name, named) for name in by_rows))


def origins_of_rows(part: Part) -> tuple[Array, ...]:
    """The origins of the effects of rows, 0 where a block has none."""
    problem, origins = part.problem, []
    for block in part.source.model.blocks:
        layout = problem.layout(block.name)
        origin = problem.origins.get(block.name, np.zeros(layout.size))
        origins.append(layout.row_effects(origin))
    return tuple(origins)


def gathered_origins(
    model: Model, tables: Mapping[str, Table], totals: Totals, partitions: Partitions
) -> dict[str, Array]:
    """The origins of effects, of blocks whose effects are far from 0."""
    if not any(block.row_effects for block in model.blocks):
        return dict(totals.centres)
    origins, answers = {}, partitions.map_partitions(origins_of_rows, PART)
    for k, block in enumerate(model.blocks):
        layout = layout_of(block, tables[block.name])
        biases = totals.centres.get(block.name, np.zeros(layout.n_biases))
        rows = np.concatenate([answer[k] for answer in answers])
        origin = np.concatenate([biases, rows, np.zeros(layout.n_intercepts)])
        if origin.any():
            origins[block.name] = origin
    return origins


@attrs.frozen(eq=False)
class TableInPartitions(TableWithoutData):
    """A block's shape and the rows that have entries; the entries of one row are read anew."""

    source: Source

    @property
    def why(self) -> str:
        """The reason why there are no entries, and the remedy, as a clause."""
        return (
            "no process holds those of all partitions; ask for some entries, fit.predict(name,"
            " rows, columns) and fit.losses_at(name, rows, columns, values)"
        )

    def without_data(self) -> TableWithoutData:
        """The shape and the labels alone, without the way to the partitions."""
        empty, original = self.empty, self.empty.original
        if empty.offset_in_data is not None:
            gone = OffsetWithoutData(empty.offset_in_data.shape, self.block)
            empty = attrs.evolve(
                empty,
                offset=None if empty.offset is None else gone,
                original=None if original is None else attrs.evolve(original, offset=gone),
            )
        return TableWithoutData(self.block, empty, self.row_counts)

    def observed_entries(self) -> Table:
        """The observed entries of all partitions as the data have them, for an answer with them.

        Who asks has seen that all cells fit into memory.
        """
        data = self.source.data
        tables = [table_of(self.source, p, self.block) for p in range(data.n_partitions)]
        observed = [table.observed_entries() for table in tables]
        firsts = [data.rows(p)[0] for p in range(data.n_partitions)]
        rows = [table.rows + first for table, first in zip(observed, firsts, strict=True)]
        return attrs.evolve(
            self.empty,
            rows=np.concatenate(rows),
            columns=np.concatenate([table.columns for table in observed]),
            values=np.concatenate([table.values for table in observed]),
            original=None,
        )

    def unobserved_columns(self, row: int) -> IntArray:
        """The columns of a row without an observed entry, by the partition that has it."""
        data = self.source.data
        starts = [data.rows(p)[0] for p in range(data.n_partitions)]
        p = int(np.searchsorted(starts, row, side="right")) - 1
        return table_of(self.source, p, self.block).unobserved_columns(row - starts[p])


@attrs.frozen(eq=False)
class OffsetInPartitions(OffsetWithoutData):
    """The offsets of a block, read from the partitions of the rows that are asked for."""

    source: Source

    def at(self, rows: IntArray, columns: IntArray) -> Array:
        """The offsets of some cells, of the shape that rows and columns have together."""
        rows, columns = np.broadcast_arrays(rows, columns)
        offsets = np.zeros(rows.shape)
        for p in range(self.source.data.n_partitions):
            first, last = self.source.data.rows(p)
            inside = (rows >= first) & (rows < last)
            if inside.any():
                offset = table_of(self.source, p, self.block).offset
                if offset is not None:
                    offsets[inside] = offset.at(rows[inside] - first, columns[inside])
        return offsets


def table_of(source: Source, p: int, block: str) -> Table:
    """The table of one block in one partition."""
    return source.part(p).tables[block]
