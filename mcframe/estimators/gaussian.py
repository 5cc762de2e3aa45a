"""Estimators without a term of their own: the rows of the table as draws of one Gaussian."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import ModelError
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Model
from mcframe.regularizers import GaussianRows
from mcframe.selection.column_order import places_by_content
from mcframe.selection.prior_rows import (
    NOISE,
    USUAL_STEPS,
    PriorSearch,
    SeenAndHeld,
    distribution,
    standard_units,
)

__all__ = [
    "GAUSSIAN",
    "dealt_entries",
    "dealt_targets",
    "estimated_model",
    "is_affordable",
    "search",
]

#: What ``terms`` may be in the place of a list of terms.
GAUSSIAN = "gaussian"
# Multiplications that the search for the prior may take, see ``mcframe.numerics.gaussian_rows``.
AFFORDABLE = 2e11


def is_affordable(table: Any, n_more: int, n_folds: int) -> bool:
    """Whether the covariance of a table is estimated in some minutes.

    Parameters
    ----------
    table : array, or a DataFrame, of which half is taken to be missing
    n_more : int
        Columns beside it, missing where they are held out.
    """
    n_rows, n_columns = table.shape
    half = np.full(n_rows, 0.5 * n_columns)
    missing = np.count_nonzero(np.isnan(table), axis=1) if isinstance(table, np.ndarray) else half
    cubes = 2.0 * np.sum(np.power(missing + float(n_more), 3))
    width = n_columns + n_more
    return bool(n_folds * USUAL_STEPS * (cubes + n_rows * width**2 + 2.0 * width**3) <= AFFORDABLE)


def estimated_model(blocks: Sequence[Block], data: Mapping[str, Array], prior: float) -> Model:
    """Return the Gaussian model of the rows of all blocks, its covariance estimated.

    Parameters
    ----------
    blocks : sequence of Block
        All Gaussian.
    prior : float
        How many rows of independent columns the prior counts as.
    """
    for block in blocks:
        if type(block.likelihood) is not Gaussian:
            raise ModelError(
                f"terms={GAUSSIAN!r} was given, which takes all columns for numbers, and block"
                f" {block.name!r} has {block.likelihood}; leave likelihoods='auto', or give terms"
                " such as [mc.NuclearNorm(1.0)]"
            )
    rows = distribution(np.hstack([data[block.name] for block in blocks]), prior)
    return Model(
        [
            attrs.evolve(block, weight=0.5 / NOISE, bias=False, standardize=True)
            for block in blocks
        ],
        [GaussianRows(rows.covariance, mean=rows.mean)],
    )


def search(values: Array, folds: Sequence[Mask]) -> tuple[PriorSearch, Array]:
    """Return the search for the prior by the entries (n x d) that each fold holds out.

    And the means of these at the best prior (n x d), NaN where nothing was held out. Folds that
    leave nothing to be fitted, or hold nothing out, are left out.
    """
    known = ~np.isnan(values)
    folds = [held for held in folds if (held & known).any() and (known & ~held).any()]
    units, columns = standard_units(values), np.arange(values.shape[1])
    standard = units.standard(values, columns)
    own = np.nanmax(np.abs(standard), axis=0) > 0.0

    def loss(held: Mask, means: Array) -> float:
        """The mean over columns of the squared errors over the variance."""
        errors = units.standard(means, columns) - standard
        squares = np.where(held, np.square(errors), 0.0)[:, own]
        counts = np.count_nonzero(held[:, own], axis=0)
        relative = np.sum(squares, axis=0) / np.maximum(counts, 1)
        return float(np.mean(relative[counts > 0])) if counts.any() else 0.0

    parts = []
    for held in folds:
        seen = np.where(held, np.nan, values)
        parts.append(SeenAndHeld(seen, seen, held))
    found, best = PriorSearch.over(parts, loss)
    held_means = np.full(values.shape, np.nan)
    for part, rows in zip(parts, best, strict=True):
        held_means[part.held] = part.means(rows)[part.held]
    return found, held_means


def dealt_entries(
    values: Array, owners: IntArray, count: int, rng: np.random.Generator
) -> list[Mask]:
    """Return the observed entries (n x d) dealt out to folds, column by column.

    Columns of one owner, as indicators of one category, are held out together. The order of
    owners plays no part.
    """
    parts = np.full(values.shape, -1)
    first = np.unique(owners, return_index=True)[1]
    for place in np.argsort(places_by_content(values[:, first])):
        own = np.flatnonzero(owners == owners[first[place]])
        rows = rng.permutation(np.flatnonzero(~np.isnan(values[:, own[0]])))
        parts[np.ix_(rows, own)] = (np.arange(rows.size) % count)[:, None]
    return [parts == k for k in range(count)]


def dealt_targets(targets: Array, count: int, rng: np.random.Generator) -> list[Mask]:
    """Return the observed targets (n x k) dealt out to folds as they will be asked for.

    Entry by entry where most rows have some of their targets and miss others, which these then
    tell of. Else row by row; rows with the same value of one target are dealt out in turn, so that
    each fold has its share of a rare class.
    """
    seen = ~np.isnan(targets)
    some = np.any(seen, axis=1)
    partly = ~np.all(seen[some], axis=1)
    if np.mean(partly) > 0.5:
        return dealt_entries(targets, np.arange(targets.shape[1]), count, rng)
    order: IntArray = rng.permutation(len(targets))
    one = int(np.argmin(places_by_content(targets)))
    order = order[np.argsort(targets[order, one], kind="stable")]
    known = order[some[order]]
    parts = np.full(len(targets), -1)
    parts[known] = np.arange(known.size) % count
    return [(parts == k)[:, None] & seen for k in range(count)]
