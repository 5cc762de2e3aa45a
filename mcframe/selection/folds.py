"""Folds: what a fit may see of the data, and what is held out of it and judged."""

from collections.abc import Mapping
from typing import Any

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
from mcframe.selection.splitters import Seed, Splitter, observed_entries


@attrs.frozen(eq=False)
class Held:
    """Entries of a block that a fit has not seen: their places, counted from 0, and values."""

    rows: IntArray
    columns: IntArray
    values: Array

    @classmethod
    def of(cls, table: Table) -> "Held":
        """All entries of a table."""
        return cls(table.rows, table.columns, table.values)


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
        effects = dict(fit.effects)
        for name, own in new.row_effects.items():
            effects[name] = with_effects_of_new_rows(fit.problem, name, effects[name], own)
        return attrs.evolve(fit, point=Point(new.latent), effects=effects, paused=None)


def with_effects_of_new_rows(problem: Problem, name: str, effects: Array, own: Array) -> Array:
    """A block's effects with those of rows without entries (n_items,), counted from 0."""
    layout, changed = problem.layout(name), effects.copy()
    if name in problem.origins:
        own = own - layout.row_effects(problem.origins[name])
    new = ~problem.tables[name].rows_with_entries
    layout.row_effects(changed)[new] = own[new]
    return changed


def folds_of(
    cv: Splitter, problem: Problem, data: Mapping[str, Any], random_state: Seed = 0
) -> tuple[Fold, ...]:
    """The folds of the data of a problem; memory of one copy of the data each, two of new rows.

    Raises
    ------
    DataError
        Where nothing of a block is left to be fitted, or nothing is held out.
    """
    observed, folds = observed_entries(problem), list[Fold]()
    for number, (train, test) in enumerate(cv.split(problem, random_state)):
        for name, seen in train.items():
            if not seen.any():
                raise DataError(
                    f"block {name!r}: fold {number} holds out all of its observed entries, so that"
                    " nothing is left to be fitted; ask for other folds, or leave the block out"
                )
        if not any(judged.any() for judged in test.values()):
            raise DataError(f"fold {number} holds out not one entry; ask for fewer folds")
        given = given_entries(observed, train, test, problem.n_items) if cv.new_rows else None
        folds.append(
            Fold(
                {name: kept(data[name], observed[name], train[name]) for name in observed},
                {name: Held.of(observed[name].select(test[name])) for name in observed},
                digest_of([dict(train), dict(test), given]),
                given and {name: kept(data[name], observed[name], given[name]) for name in given},
            )
        )
    return tuple(folds)


def given_entries(
    observed: Mapping[str, Table],
    train: Mapping[str, Mask],
    test: Mapping[str, Mask],
    n_items: int,
) -> dict[str, Mask]:
    """The entries of the rows that are judged which are neither fitted nor judged."""
    new = np.zeros(n_items, dtype=bool)
    for name, table in observed.items():
        new[table.rows[test[name]]] = True
    return {name: new[table.rows] & ~train[name] & ~test[name] for name, table in observed.items()}


def kept(given: Any, observed: Table, chosen: Mask) -> Any:
    """The data of a block with all but the chosen entries missing, in the form they came in."""
    if isinstance(given, Observations):
        return attrs.evolve(given, values=kept(given.values, observed, chosen))
    left = observed.select(chosen)
    if sp.issparse(given):
        return sp.coo_array((left.values, (left.rows, left.columns)), shape=left.shape)
    dense = np.full(left.shape, np.nan)
    dense[left.rows, left.columns] = left.values
    return left.wrap(dense)
