"""A problem whose rows are in partitions: the judge, by the losses of the parts."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.compile.partitions.executor import Partitions, Task
from mcframe.compile.partitions.numbers import ByRows, effects_by_rows
from mcframe.compile.partitions.part import Part
from mcframe.contracts.arrays import Array
from mcframe.model import Model, Problem
from mcframe.model.binding import Totals
from mcframe.model.layout import layout_of
from mcframe.model.table import Table
from mcframe.numerics.digest import digest_of
from mcframe.numerics.operators import LowRank

__all__ = ["PartitionedProblem"]


@attrs.frozen(eq=False, repr=False)
class PartitionedProblem(Problem):
    """A model with data in partitions; tables know shapes, and answer no question about entries.

    The losses of a point are the sum of what the problems of the parts say.
    """

    partitions: Partitions = attrs.field(kw_only=True)

    @classmethod
    def of_parts(
        cls,
        model: Model,
        tables: Mapping[str, Any],
        totals: Totals,
        partitions: Partitions,
        notes: tuple[str, ...],
    ) -> "PartitionedProblem":
        """The problem of parts that are bound with the totals of all rows."""
        origins = gathered_origins(model, tables, totals, partitions)
        n_items = partitions.source.data.n_items
        terms = model.terms
        return cls(
            model, tables, totals, terms, n_items, None, notes, origins, partitions=partitions
        )

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

    def loss(self, latent: LowRank, effects: Mapping[str, Array]) -> float:
        """The losses of all blocks at Z and the unpenalised numbers."""
        blocks = self.model.blocks
        given = tuple(effects.get(block.name) for block in blocks)
        rowwise = tuple(
            own if own is None else effects_by_rows(self.layout(block.name), own)
            for block, own in zip(blocks, given, strict=True)
        )
        total = float(self.partitions.sum(LossOf(ByRows(latent.left), latent.right, rowwise)))
        # The ridge on biases, which the parts leave out; that on effects of rows is theirs.
        biased = [block.name for block in blocks if block.bias and block.name in effects]
        return total + sum(self.cost_of_effects(name, effects) for name in biased)


@attrs.frozen(eq=False)
class LossOf(Task):
    """The losses at Z = U V' and effects."""

    left: Any
    right: Array
    effects: tuple[Any, ...]

    def of(self, part: Part) -> float:
        """Losses of a partition, by its own problem, the ridge on biases left out."""
        problem, names = part.problem, [block.name for block in part.problem.model.blocks]
        pairs = zip(names, self.effects, strict=True)
        effects = {name: own for name, own in pairs if own is not None}
        latent = LowRank(self.left, self.right)
        total = sum(problem.loss_of_cells(name, latent, effects) for name in names)
        own = [b.name for b in problem.model.blocks if b.row_effects and not b.bias]
        return total + sum(problem.cost_of_effects(name, effects) for name in own)


@attrs.frozen(eq=False)
class OriginsOfRows(Task):
    """What the effects of rows are counted from, 0 where a block has none."""

    def of(self, part: Part) -> tuple[Array, ...]:
        """Origins of the rows of a partition, block by block."""
        problem, found = part.problem, []
        for block in part.source.model.blocks:
            layout = problem.layout(block.name)
            origin = problem.origins.get(block.name, np.zeros(layout.size))
            found.append(layout.row_effects(origin))
        return tuple(found)


def gathered_origins(
    model: Model, tables: Mapping[str, Table], totals: Totals, partitions: Partitions
) -> dict[str, Array]:
    """What effects are counted from, for those blocks that are far from 0."""
    if not any(block.row_effects for block in model.blocks):
        return dict(totals.centres)
    origins, answers = {}, partitions.each(OriginsOfRows())
    for k, block in enumerate(model.blocks):
        layout = layout_of(block, tables[block.name])
        biases = totals.centres.get(block.name, np.zeros(layout.n_biases))
        rows = np.concatenate([answer[k] for answer in answers])
        origin = np.concatenate([biases, rows, np.zeros(layout.n_intercepts)])
        if origin.any():
            origins[block.name] = origin
    return origins
