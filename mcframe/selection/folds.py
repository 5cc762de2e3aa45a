"""Disjoint parts of the observed entries, each held out once."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError
from mcframe.model import Observations, Problem
from mcframe.model.table import Table

__all__ = ["Fold", "Held", "drawn_folds"]


@attrs.frozen(eq=False)
class Held:
    """Entries of a block that a fit has not seen: their places, counted from 0, and values."""

    rows: IntArray
    columns: IntArray
    values: Array


@attrs.frozen(eq=False)
class Fold:
    """What a fit may see, in the form that the data came in, and what is held out of it."""

    data: Mapping[str, Any]
    held: Mapping[str, Held]


def drawn_folds(
    problem: Problem, data: Mapping[str, Any], count: int, rng: np.random.Generator
) -> tuple[Fold, ...]:
    """Cut the observed entries of every block into ``count`` parts of equal size, at random.

    Sizes differ by one at most. All values are in the data's own units: a fit of a standardised
    block makes its units of what its fold has left. Memory: one copy of the data a fold.

    Raises
    ------
    DataError
        Where a block has fewer observed entries than folds.
    """
    parts = {}
    for block in problem.model.blocks:
        observed = problem.tables[block.name].observed_entries().as_given()
        if observed.n_entries < count:
            raise DataError(
                f"block {block.name!r}: {count} folds were asked for, and"
                f" {observed.n_entries} entries are observed; ask for fewer folds, at least 2"
            )
        part = np.empty(observed.n_entries, dtype=np.intp)
        part[rng.permutation(observed.n_entries)] = np.arange(observed.n_entries) % count
        parts[block.name] = observed, part
    return tuple(
        Fold(
            {name: without(data[name], seen, part == k) for name, (seen, part) in parts.items()},
            {name: held_out(seen, part == k) for name, (seen, part) in parts.items()},
        )
        for k in range(count)
    )


def held_out(observed: Table, chosen: Mask) -> Held:
    """The chosen entries."""
    taken = observed.select(chosen)
    return Held(taken.rows, taken.columns, taken.values)


def without(given: Any, observed: Table, chosen: Mask) -> Any:
    """The data of a block with the chosen entries missing, in the form they came in."""
    if isinstance(given, Observations):
        return attrs.evolve(given, values=without(given.values, observed, chosen))
    kept = observed.select(~chosen)
    if sp.issparse(given):
        return sp.coo_array((kept.values, (kept.rows, kept.columns)), shape=kept.shape)
    dense = np.full(kept.shape, np.nan)
    dense[kept.rows, kept.columns] = kept.values
    return kept.wrap(dense)
