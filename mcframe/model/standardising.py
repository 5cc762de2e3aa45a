"""The standard of a block: units of its values, and weights that give columns one scale."""

from typing import Any

import attrs
import numpy as np
import scipy

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import Conjugate, Likelihood, Parametric, fits_parameters
from mcframe.contracts.rounding import EPS
from mcframe.model.model import Block
from mcframe.model.table import Standard, Table
from mcframe.model.transforms import Units, affine_units, ranges_of, rank_units

# Doublings of the distance at which a gradient of the other sign is searched, and halvings of
# the interval between, which leave a millionth of a billionth of it.
DOUBLINGS, HALVINGS = 40, 50
# A loss below this share of its summands is 0 up to rounding.
NOTHING = 64.0 * EPS


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
        standard.values,
        table.columns,
        weights_of_entries(table),
        n_columns,
        standard.offsets,
    )
    return attrs.evolve(alone, weights=1.0 / np.where(losses > 0.0, losses, 1.0))


def units_of(block: Block, table: Table) -> Units | None:
    """Return the units of a block's values less their offsets; None where they have none."""
    if not block.likelihood.location:
        return None
    values, weights, n_columns = table.targets(), weights_of_entries(table), table.shape[1]
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
    lowest, highest = ranges_of(values, columns, n_columns)
    several = lowest < highest
    if likelihood.indicator or not several.any():
        return np.zeros(n_columns)
    kept = several[columns]
    values, columns, weights, offsets = values[kept], columns[kept], weights[kept], offsets[kept]
    sums = AtConstants(likelihood, values, columns, weights, n_columns, offsets)
    if likelihood.width > 1 or fits_parameters(likelihood):
        losses = np.zeros(values.size)
        for column in np.unique(columns):
            in_column = columns == column
            losses[in_column] = losses_of_column(
                likelihood, values[in_column], weights[in_column], offsets[in_column]
            )
        return mean_losses(*sums.lost(losses))
    return mean_losses(*sums.lost_at(best_constants(likelihood, sums, n_columns)))


def mean_losses(total: Array, lost: Array, sizes: Array) -> Array:
    """Return the mean loss of each column from what ``lost_at`` sums up; rounding is 0."""
    return np.where(lost > NOTHING * sizes, lost, 0.0) / np.where(total > 0.0, total, 1.0)


@attrs.frozen(eq=False)
class AtConstants:
    """Entries with one predictor a column, and what is summed over those of each column."""

    likelihood: Likelihood
    values: Array
    columns: IntArray
    weights: Array
    n_columns: int
    offsets: Array

    def summed(self, numbers: Array) -> Array:
        """The sums of numbers over the entries of each column, by their weights."""
        total: Any = np.bincount(self.columns, self.weights * numbers, self.n_columns)
        return np.asarray(total)

    def total(self) -> Array:
        """The weight of each column."""
        return self.summed(np.ones(self.values.size))

    def gradients(self, z: Array) -> Array:
        """The sums of gradients at one predictor a column."""
        with np.errstate(over="ignore", invalid="ignore"):
            shifted = self.offsets + z[self.columns]
            return self.summed(self.likelihood.value_and_gradient(shifted, self.values)[1])

    def starts(self) -> tuple[Array, Array]:
        """The ranges of nonsmooth predictors; those of columns without entries are empty."""
        start = self.likelihood.start(self.values) - self.offsets
        return ranges_of(start, self.columns, self.n_columns)

    def lost_at(self, z: Array) -> tuple[Array, Array, Array]:
        """``lost`` at one predictor a column."""
        return self.lost(self.likelihood.value(self.offsets + z[self.columns], self.values))

    def lost(self, losses: Array) -> tuple[Array, Array, Array]:
        """The weight of each column, its losses beyond the least, and the sizes of summands."""
        least = least_losses(self.likelihood, self.values)
        sizes = np.abs(losses) + np.abs(least)
        return self.total(), self.summed(losses - least), self.summed(sizes)


def counted_once(
    values: Array, columns: IntArray, weights: Array
) -> tuple[Array, IntArray, Array]:
    """Return equal observations of a column as one of their weight: of labels few are left."""
    distinct, code = np.unique(values, return_inverse=True)
    pairs, place = np.unique(columns * distinct.size + code, return_inverse=True)
    if not pairs.size:
        return values, columns, weights
    owners, codes = np.divmod(pairs, distinct.size)
    counted: Any = np.bincount(place, weights)
    return distinct[codes], owners, counted


def least_losses(likelihood: Likelihood, values: Array) -> Array:
    """Return the least loss of each observation over all predictors, and parameters if fitted."""
    if not isinstance(likelihood, Conjugate) or fits_parameters(likelihood):
        return np.full(values.size, likelihood.infimum)
    return -likelihood.conjugate(no_predictors(likelihood, values), values)


def no_predictors(likelihood: Likelihood, values: Array) -> Array:
    """Return zeros in the shape of the predictors of some observations: (N,) or (N, K)."""
    return np.zeros((values.size, likelihood.width) if likelihood.width > 1 else values.size)


def best_constants(likelihood: Likelihood, sums: Any, n_columns: int) -> Array:
    """Return the predictor of each column where its gradients sum to 0, by bisection.

    A quadratic takes one Newton step. ``sums`` has the methods of ``AtConstants``.
    """
    if likelihood.quadratic:
        total = likelihood.curvature * sums.total()
        return np.asarray(-sums.gradients(np.zeros(n_columns)) / np.where(total > 0.0, total, 1.0))
    low, high = sums.starts()
    low[~np.isfinite(low)] = high[~np.isfinite(high)] = 0.0
    for k in range(DOUBLINGS):
        too_high, too_low = sums.gradients(low) > 0.0, sums.gradients(high) < 0.0
        if not (too_high.any() or too_low.any()):
            break
        low, high = np.where(too_high, low - 2.0**k, low), np.where(too_low, high + 2.0**k, high)
    for _ in range(HALVINGS):
        middle = low + 0.5 * (high - low)
        falls = sums.gradients(middle) < 0.0
        low, high = np.where(falls, middle, low), np.where(falls, high, middle)
    return low + 0.5 * (high - low)


def losses_of_column(
    likelihood: Likelihood, values: Array, weights: Array, offsets: Array
) -> Array:
    """Return the losses of a column of classes, or of levels with fitted parameters."""
    if isinstance(likelihood, Parametric) and likelihood.n_parameters:
        best = likelihood.best_parameters(offsets, values, weights, None)
        return likelihood.with_parameters(best).value(offsets, values)

    def loss(z: Array) -> tuple[float, Array]:
        """The mean loss at one predictor a class, and its gradients."""
        losses, gradients = likelihood.value_and_gradient(offsets + z, values)
        return float(shares @ losses), shares @ gradients

    shares = weights / np.sum(weights)
    begin = shares @ (likelihood.start(values) - offsets)
    best = scipy.optimize.minimize(
        loss, begin, jac=True, method="L-BFGS-B", options={"ftol": 0.0, "gtol": 1e-10}
    )
    return likelihood.value(offsets + best.x, values)
