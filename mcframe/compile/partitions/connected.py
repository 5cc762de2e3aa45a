"""What entries connect, of a table whose rows are in partitions: columns first, then rows."""

from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.compile.partitions.executor import Partitions, Task
from mcframe.compile.partitions.part import Part
from mcframe.contracts.arrays import IntArray, Mask

__all__ = ["ColumnParts", "connected"]


def connected(partitions: Partitions, k: int, fixed: Any) -> tuple[IntArray, Mask]:
    """The connected part of each column and each row of block k, and which of them stand alone.

    Columns that are connected within partitions first, by sums; then each partition tells of its
    own rows. Infinite effects, ``fixed``, connect nothing.
    """
    columns: IntArray = partitions.sum(PartsOfColumns(k, fixed)).labels
    rows: Any = partitions.concatenate(PartsOfRows(k, fixed, columns))
    alone = rows < 0
    rows[alone] = int(np.max(columns)) + 1 + np.arange(np.sum(alone))
    found = np.concatenate([columns, rows])
    return found, np.bincount(found)[found] == 1


@attrs.frozen(eq=False)
class ColumnParts:
    """Which columns entries connect, by a label each; of more entries the sum of such answers."""

    labels: IntArray

    def __add__(self, other: "ColumnParts") -> "ColumnParts":
        first, start = self.labels, int(np.max(self.labels)) + 1
        size = start + int(np.max(other.labels)) + 1
        pairs = first, start + other.labels
        graph = sp.coo_array((np.ones(first.size), pairs), shape=(size, size))
        return ColumnParts(sp.csgraph.connected_components(graph, directed=False)[1][first])


@attrs.frozen(eq=False)
class PartsOfColumns(Task):
    """The columns that finite effects of block k connect."""

    k: int
    fixed: Any

    def of(self, part: Part) -> ColumnParts:
        """Labels of the columns that the entries of a partition connect by themselves."""
        kind: Any = part.program.loss.pieces[self.k].effects
        labels: IntArray = attrs.evolve(kind, fixed=self.fixed).connected[0]
        return ColumnParts(labels[: kind.layout.n_biases])


@attrs.frozen(eq=False)
class PartsOfRows(Task):
    """The label of the columns that each row is connected with, -1 where it stands alone."""

    k: int
    fixed: Any
    labels: IntArray

    def of(self, part: Part) -> IntArray:
        """Labels of the rows of a partition."""
        kind: Any = part.program.loss.pieces[self.k].effects
        own: IntArray = attrs.evolve(kind, fixed=self.fixed).connected[0]
        labels = np.full(int(np.max(own)) + 1, -1, dtype=self.labels.dtype)
        labels[own[: self.labels.size]] = self.labels
        return labels[own[self.labels.size :]]
