"""Sums over the effects of a block whose rows are in partitions: halves of them are added up."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mcframe.compile.partitions.executor import Asked, Partitions
from mcframe.contracts.arrays import Array
from mcframe.model import Layout

__all__ = ["apart", "in_halves", "together"]


def apart(layout: Layout, *sums: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Sums over each effect of a partition: those of its own rows, and those to be added up.

    ``layout`` is that of the partition.
    """
    d = layout.n_biases
    stop = d + layout.n_row_effects
    rows = tuple(own[d:stop] for own in sums)
    return rows, tuple(np.concatenate([own[:d], own[stop:]]) for own in sums)


def in_halves(
    partitions: Partitions, layouts: Sequence[Layout], question: Asked, *arguments: Any
) -> tuple[list[Any], Any]:
    """The answers to a question in halves: of the rows, and the sum of the second ones.

    Where no layout has effects of rows the first halves are empty, and their sum stands for all:
    on a cluster no task has to take the answers apart.
    """
    if any(layout.n_row_effects for layout in layouts):
        return partitions.rows_and_sum(question, *arguments)
    rows, summed = partitions.sum(question, *arguments)
    return [rows], summed


def together(
    layout: Layout, rows: Sequence[tuple[Array, ...]], added: tuple[Array, ...]
) -> tuple[Array, ...]:
    """Sums over each effect of all partitions, of what each of these told ``apart``.

    Those of rows stand below each other, between those of columns and those of the intercept.
    """
    d = layout.n_biases
    return tuple(
        np.concatenate([total[:d], *own, total[d:]])
        for own, total in zip(zip(*rows, strict=True), added, strict=True)
    )
