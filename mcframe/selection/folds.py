"""Folds: the training data of a fit, and the entries that are held out to score it."""

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
    """Held-out entries of a block: rows and columns, counted from 0, and values."""

    rows: IntArray
    columns: IntArray
    values: Array

    @classmethod
    def of(cls, table: Table) -> "Held":
        """All entries of a table."""
        return cls(table.rows, table.columns, table.values)


@attrs.frozen(eq=False)
class Fold:
    """The training data, in the form of the given data, and the held-out entries by block.

    With ``known`` the held-out entries are of new rows, and ``known`` has the entries that are
    given of these rows. ``digest`` is one of all entries of each kind.
    """

    data: Mapping[str, Any]
    held: Mapping[str, Held]
    digest: str
    known: Mapping[str, Any] | None = None

    def answer(self, fit: Any) -> Any:
        """Return the fit that is scored: for new rows with the answer of ``Fit.predict_rows``."""
        if self.known is None:
            return fit
        if not isinstance(fit, Fit):
            raise ModelError(
                f"folds of rows: path gave a {type(fit).__name__}, which has no answer for new"
                " rows; a Fit is needed"
            )
        answer, problem, effects = new_rows(fit, self.known), fit.problem, dict(fit.effects)
        for name, row_effects in answer.row_effects.items():
            layout, effects[name] = problem.layout(name), effects[name].copy()
            if name in problem.origins:
                row_effects = row_effects - layout.row_effects(problem.origins[name])
            # Held-out rows are rows of the fitted table, too, but without an entry.
            new = ~problem.tables[name].rows_with_entries
            layout.row_effects(effects[name])[new] = row_effects[new]
        return attrs.evolve(fit, point=Point(answer.latent), effects=effects, paused=None)


def folds_of(
    cv: Splitter, problem: Problem, data: Mapping[str, Any], random_state: Seed = 0
) -> tuple[Fold, ...]:
    """Return the folds of a problem's data, each a copy of the data, of new rows two copies.

    Raises
    ------
    DataError
        Where a fold holds out all entries of a block, or none of any.
    """
    observed, folds = observed_entries(problem), list[Fold]()
    for number, (train, test) in enumerate(cv.split(problem, random_state)):
        for name, fitted in train.items():
            if not fitted.any():
                raise DataError(
                    f"block {name!r}: fold {number} holds out all of its observed entries, so that"
                    " none can be fitted; ask for other folds, or leave the block out"
                )
        if not any(held.any() for held in test.values()):
            raise DataError(f"fold {number} holds out not one entry; ask for fewer folds")
        given = None
        if cv.new_rows:  # the entries of scored rows that are neither fitted nor scored
            new = np.zeros(problem.n_items, dtype=bool)
            for name, table in observed.items():
                new[table.rows[test[name]]] = True
            given = {
                name: new[table.rows] & ~train[name] & ~test[name]
                for name, table in observed.items()
            }
        folds.append(
            Fold(
                {name: kept(data[name], observed[name], train[name]) for name in observed},
                {name: Held.of(observed[name].select(test[name])) for name in observed},
                digest_of([dict(train), dict(test), given]),
                given and {name: kept(data[name], observed[name], given[name]) for name in given},
            )
        )
    return tuple(folds)


def kept(given: Any, observed: Table, chosen: Mask) -> Any:
    """Return the data of a block with all but the chosen entries missing, in their form."""
    if isinstance(given, Observations):
        return attrs.evolve(given, values=kept(given.values, observed, chosen))
    left = observed.select(chosen)
    if sp.issparse(given):
        return sp.coo_array((left.values, (left.rows, left.columns)), shape=left.shape)
    dense = np.full(left.shape, np.nan)
    dense[left.rows, left.columns] = left.values
    return left.wrap(dense)
