"""Folds: what a fit may see of the data, and what is held out of it and judged."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.answer import Fit, new_rows
from mcframe.backends import Point
from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError, ModelError
from mcframe.model import Observations, Problem
from mcframe.model.table import Table
from mcframe.numerics.digest import digest_of

__all__ = ["Fold", "Folds", "Held", "all_entries", "fold_of", "observed_entries"]


@attrs.frozen(eq=False)
class Held:
    """Entries of a block that a fit has not seen: their places, counted from 0, and values."""

    rows: IntArray
    columns: IntArray
    values: Array


@attrs.frozen(eq=False)
class Fold:
    """What a fit may see, in the form that the data came in, and what is held out of it.

    With ``known`` the held-out entries are of rows that the fit has seen nothing of, and these
    are the entries that are given of such new rows. ``digest`` tells folds apart: by all the
    entries of each kind.
    """

    data: Mapping[str, Any]
    held: Mapping[str, Held]
    digest: str
    known: Mapping[str, Any] | None = None

    def answer(self, fit: Any) -> Any:
        """The fit as it is to be judged: with the scores of new rows, by the rule for them."""
        if self.known is None:
            return fit
        if not isinstance(fit, Fit):
            raise ModelError(
                f"folds of rows: path gave a {type(fit).__name__}, which has no answer for new"
                " rows; a Fit is needed"
            )
        new = new_rows(fit, self.known)
        # Rows that were held out stand in the fitted table, too, without an entry.
        effects = {
            **fit.effects,
            **{
                name: with_effects_of_new_rows(fit.problem, name, fit.effects, own)
                for name, own in new.row_effects.items()
            },
        }
        return attrs.evolve(fit, point=Point(new.latent), effects=effects, paused=None)


def with_effects_of_new_rows(
    problem: Problem, name: str, effects: Mapping[str, Array], own: Array
) -> Array:
    """A block's effects with those of rows without entries (n_items,), counted from 0."""
    layout, changed = problem.layout(name), effects[name].copy()
    if name in problem.origins:
        own = own - layout.row_effects(problem.origins[name])
    new = ~problem.tables[name].rows_with_entries
    layout.row_effects(changed)[new] = own[new]
    return changed


@runtime_checkable
class Folds(Protocol):
    """A way of cutting a table into folds, as ``cross_validate`` takes it."""

    def draw(
        self, problem: Problem, data: Mapping[str, Any], rng: np.random.Generator
    ) -> tuple[Fold, ...]:
        """The folds of the data of a problem, two or more."""
        ...


def observed_entries(problem: Problem) -> dict[str, Table]:
    """The observed entries of each block, in the data's own units.

    A fit of a standardised block makes its units of what its fold has left.
    """
    names = [block.name for block in problem.model.blocks]
    return {name: problem.tables[name].observed_entries().as_given() for name in names}


def fold_of(
    number: int,
    data: Mapping[str, Any],
    observed: Mapping[str, Table],
    trained: Mapping[str, Mask],
    held: Mapping[str, Mask],
    known: Mapping[str, Mask] | None = None,
) -> Fold:
    """The fold with these of the observed entries fitted, held out, and given of new rows.

    Memory: one copy of the data, two with new rows.

    Raises
    ------
    DataError
        Where nothing of a block is left to be fitted, or nothing is held out.
    """
    for name, seen in trained.items():
        if not seen.any():
            raise DataError(
                f"block {name!r}: fold {number} holds out all of its observed entries, so that"
                " nothing is left to be fitted; ask for other folds, or leave the block out"
            )
    if not any(judged.any() for judged in held.values()):
        raise DataError(f"fold {number} holds out not one entry; ask for fewer folds")
    given = None
    if known is not None:
        given = {name: without(data[name], observed[name], ~known[name]) for name in known}
    return Fold(
        {name: without(data[name], observed[name], ~trained[name]) for name in observed},
        {name: held_out(observed[name], held[name]) for name in observed},
        digest_of([dict(trained), dict(held), known and dict(known)]),
        given,
    )


def all_entries(table: Table) -> Held:
    """The entries of a table as if they were held out: their places and values."""
    return held_out(table, np.ones(table.n_entries, dtype=bool))


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
