"""Estimators without a term of their own: the posterior of the rows of the table."""

from collections.abc import Sequence

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import ModelError
from mcframe.likelihoods import Gaussian
from mcframe.model import Block
from mcframe.selection.column_order import places_by_content
from mcframe.tables.rows_choice import RowsFold, dealt_entries, folds_of_parts

__all__ = ["GAUSSIAN", "as_number_blocks", "folds_of_entries", "folds_of_targets"]

#: What ``terms`` may be in the place of a list of terms.
GAUSSIAN = "gaussian"


def as_number_blocks(blocks: Sequence[Block]) -> list[Block]:
    """Return blocks as those of numbers whose rows have a posterior."""
    for block in blocks:
        if type(block.likelihood) is not Gaussian:
            raise ModelError(
                f"terms={GAUSSIAN!r} was given, which takes all columns for numbers, and block"
                f" {block.name!r} has {block.likelihood}; leave likelihoods='auto', or give terms"
                " such as [mc.NuclearNorm(1.0)]"
            )
    return [
        attrs.evolve(block, likelihood=Gaussian(variance=None), bias=False, standardize=True)
        for block in blocks
    ]


def folds_of_entries(values: Array, count: int, rng: np.random.Generator) -> list[RowsFold]:
    """Return folds of the entries of a table of numbers (n x d)."""
    owners = np.arange(values.shape[1])
    return folds_of_parts(values, dealt_entries(values, count, rng), owners, count)


def folds_of_targets(
    values: Array, n_targets: int, count: int, rng: np.random.Generator
) -> list[RowsFold]:
    """Return folds of the targets, the last columns of a table of numbers (n x d)."""
    parts = np.full(values.shape, -1)
    for k, held in enumerate(dealt_targets(values[:, -n_targets:], count, rng)):
        parts[:, -n_targets:][held] = k
    owners = np.arange(values.shape[1])
    return folds_of_parts(values, parts, owners, count, from_seen=True)


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
        parts = dealt_entries(targets, count, rng)
        return [parts == k for k in range(count)]
    order: IntArray = rng.permutation(len(targets))
    one = int(np.argmin(places_by_content(targets)))
    order = order[np.argsort(targets[order, one], kind="stable")]
    known = order[some[order]]
    of_rows = np.full(len(targets), -1)
    of_rows[known] = np.arange(known.size) % count
    return [(of_rows == k)[:, None] & seen for k in range(count)]
