"""Estimators without a term of their own: the rows of the table as draws of one Gaussian."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import ModelError
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Model
from mcframe.numerics.gaussian_rows import multiplications
from mcframe.regularizers import GaussianRows
from mcframe.selection.prior_rows import (
    NOISE,
    USUAL_STEPS,
    PriorSearch,
    SeenAndHeld,
    distribution,
)

__all__ = ["GAUSSIAN", "dealt_entries", "dealt_rows", "estimated_model", "is_affordable", "search"]

#: What ``terms`` may be in the place of a list of terms.
GAUSSIAN = "gaussian"
# Multiplications of small matrices that the search may take: about ten seconds.
AFFORDABLE = 1e10


def is_affordable(data: Mapping[str, Array], n_folds: int) -> bool:
    """Whether a table is narrow enough for its covariance to be estimated in seconds."""
    missing = np.isnan(np.hstack([np.asarray(own) for own in data.values()]))
    return n_folds * USUAL_STEPS * multiplications(missing) <= AFFORDABLE


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


def search(values: Array, folds: Sequence[Mask]) -> PriorSearch:
    """Return the search for the prior by the entries (n x d) that each fold holds out."""
    variances = np.nanvar(values, axis=0)
    own = np.any(folds, axis=(0, 1)) & (variances > 0.0)

    def loss(held: Mask, means: Array) -> float:
        """The mean over columns of the squared errors over the variance."""
        squares = np.where(held, np.square(means - values), 0.0)[:, own]
        counts = np.count_nonzero(held[:, own], axis=0)
        relative = np.sum(squares, axis=0) / np.maximum(counts, 1) / variances[own]
        return float(np.mean(relative[counts > 0]))

    parts = []
    for held in folds:
        seen = np.where(held, np.nan, values)
        parts.append(SeenAndHeld(seen, seen, held))
    return PriorSearch.over(parts, loss)


def dealt_entries(values: Array, count: int, rng: np.random.Generator) -> list[Mask]:
    """Return the observed entries (n x d) dealt out to folds, column by column."""
    parts = np.full(values.shape, -1)
    for column in range(values.shape[1]):
        rows = rng.permutation(np.flatnonzero(~np.isnan(values[:, column])))
        parts[rows, column] = np.arange(rows.size) % count
    return [parts == k for k in range(count)]


def dealt_rows(
    targets: Array, codes: Any, first: int, n_columns: int, count: int, rng: np.random.Generator
) -> list[Mask]:
    """Return the observed targets dealt out to folds, row by row and class by class.

    Parameters
    ----------
    targets : array (n x k)
        The columns from ``first`` on, of ``n_columns``.
    codes : array (n,)
        Rows with the same number are dealt out in turn.
    """
    order: IntArray = rng.permutation(len(targets))
    order = order[np.argsort(codes[order], kind="stable")]
    known = order[~np.isnan(targets[order]).all(axis=1)]
    parts = np.full(len(targets), -1)
    parts[known] = np.arange(known.size) % count
    folds = []
    for k in range(count):
        held = np.zeros((len(targets), n_columns), dtype=bool)
        held[:, first : first + targets.shape[1]] = (parts == k)[:, None] & ~np.isnan(targets)
        folds.append(held)
    return folds
