"""The standard of a block: units of its values, and weights that give columns one scale."""

from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, points_of
from mcframe.contracts.likelihood import Likelihood, fits_parameters
from mcframe.contracts.rounding import EPS
from mcframe.model.best_constants import (
    ColumnEntries,
    best_constants,
    best_constants_of_entries,
    no_predictors,
    with_best_parameters,
)
from mcframe.model.model import Block
from mcframe.model.table import Standard, Table
from mcframe.model.transforms import Units, affine_units, ranges_of, rank_units

# A loss below this share of its summands is 0 up to rounding.
LOSS_ROUNDING = 64.0 * EPS


def standard_of(block: Block, table: Table) -> Standard:
    """Return the units of a block's columns, and the weight of their entries.

    That is 1 over the loss per entry at the column's best constant (Udell, Horn, Zadeh and Boyd,
    Generalized low rank models, 2016, section 4), and 1 where nothing is lost there.
    """
    n_columns = table.shape[1]
    alone = Standard(units_of(block, table), np.ones(n_columns))
    if block.likelihood.why_no_optimum is not None:
        return alone  # a variance that is learned weighs each column by itself
    standard = table.standardised(alone)
    losses = losses_at_best_constants(
        block.likelihood.bound_to(table.shape, standard.values),
        standard.observations,
        table.columns,
        weights_of_entries(table),
        n_columns,
        standard.offsets,
    )
    lost = losses > np.finfo(float).tiny  # 1 / 1e-310 would be infinite
    return attrs.evolve(alone, weights=1.0 / np.where(lost, losses, 1.0))


def units_of(block: Block, table: Table) -> Units | None:
    """Return the units of a block's values less their offsets; None where they have none."""
    if not block.likelihood.location:
        return None
    values, weights, n_columns = (
        points_of(table.targets()),
        weights_of_entries(table),
        table.shape[1],
    )
    if block.standardize == "ranks":
        return rank_units(values, table.columns, weights, n_columns)
    robust = block.standardize == "robust"
    return affine_units(values, table.columns, weights, n_columns, robust)


def weights_of_entries(table: Table) -> Array:
    """Return the weight of each entry."""
    return np.ones(table.n_entries) if table.weights is None else table.weights


def losses_at_best_constants(
    likelihood: Likelihood,
    values: Array,
    columns: IntArray,
    weights: Array,
    n_columns: int,
    offsets: Array | None = None,
) -> Array:
    """Return the mean loss of each column at the predictor, common to it, where that is least.

    From each entry's loss the least that it has at any predictor is taken off, so that the mean is
    half the deviance of the model without Z, over the number of entries; half the variance of a
    Gaussian. 0 where all values of a column are alike, and where there are none.

    Parameters
    ----------
    likelihood : Likelihood
        Without unlabeled entries.
    values, columns, weights : arrays of one length
        The entries, none missing.
    n_columns : int
    offsets : array (N,) or (N, K), optional
        Known parts of the predictors, which are added to the constant.
    """
    if offsets is None:
        if not likelihood.location:
            values, columns, weights = counted_once(values, columns, weights)
        offsets = no_predictors(likelihood, values)
    lowest, highest = ranges_of(points_of(values), columns, n_columns)
    several = lowest < highest
    if likelihood.indicator or not several.any():
        return np.zeros(n_columns)
    kept = several[columns]
    values, columns, weights, offsets = values[kept], columns[kept], weights[kept], offsets[kept]
    sums = ColumnEntries(likelihood, values, columns, weights, n_columns, offsets)
    if fits_parameters(likelihood):
        losses = np.zeros(values.size)
        for column in np.unique(columns):
            of_column = columns == column
            fitted = with_best_parameters(
                likelihood, offsets[of_column], values[of_column], weights[of_column]
            )
            losses[of_column] = fitted.value(offsets[of_column], values[of_column])
        return mean_losses(*sums.excess(losses))
    if likelihood.width > 1:
        return mean_losses(*sums.excess_at(best_constants_of_entries(sums)))
    # Where several constants are best, their losses are the same.
    return mean_losses(*sums.excess_at(best_constants(likelihood, sums, n_columns)))


def mean_losses(total: Array, lost: Array, sizes: Array) -> Array:
    """Return the mean loss of each column from what ``excess_at`` sums up; rounding is 0."""
    return np.where(lost > LOSS_ROUNDING * sizes, lost, 0.0) / np.where(total > 0.0, total, 1.0)


def counted_once(
    values: Array, columns: IntArray, weights: Array
) -> tuple[Array, IntArray, Array]:
    """Return equal observations of a column as one of their weight: of labels few are left."""
    distinct, code = np.unique(values, return_inverse=True)
    pairs, place = np.unique(columns * distinct.size + code, return_inverse=True)
    if not pairs.size:
        return values, columns, weights
    columns_of_pairs, codes = np.divmod(pairs, distinct.size)
    counted: Any = np.bincount(place, weights)
    return distinct[codes], columns_of_pairs, counted
