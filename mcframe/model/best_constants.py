"""The best constant of each column: the one predictor for all entries that has the least loss."""

from typing import Any, Protocol

import attrs
import numpy as np
import scipy

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import Conjugate, Likelihood, Parametric, fits_parameters
from mcframe.contracts.limits import BISECTIONS
from mcframe.contracts.rounding import SUM_ROUNDING
from mcframe.model.transforms import ranges_of


class ColumnSums(Protocol):
    """Sums over the entries of each column, whoever has the entries."""

    def total(self) -> Array:
        """The weight of each column."""
        ...

    def gradients(self, z: Array) -> Array:
        """The sums of gradients at one predictor a column."""
        ...

    def start_ranges(self) -> tuple[Array, Array]:
        """The ranges of nonsmooth predictors; those of columns without entries are empty."""
        ...


@attrs.frozen(eq=False)
class ColumnEntries:
    """Entries of columns that have one predictor each, and sums over those of each column."""

    likelihood: Likelihood
    values: Array
    columns: IntArray
    weights: Array
    n_columns: int
    offsets: Array

    def of_column(self, column: int) -> "ColumnEntries":
        """The entries of one column."""
        kept = self.columns == column
        arrays = ("values", "columns", "weights", "offsets")
        return attrs.evolve(self, **{name: getattr(self, name)[kept] for name in arrays})

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

    def start_ranges(self) -> tuple[Array, Array]:
        """The ranges of nonsmooth predictors; those of columns without entries are empty."""
        start = self.likelihood.start(self.values) - self.offsets
        return ranges_of(start, self.columns, self.n_columns)

    def excess_at(self, z: Array) -> tuple[Array, Array, Array]:
        """``excess`` at one predictor a column."""
        return self.excess(self.likelihood.value(self.offsets + z[self.columns], self.values))

    def excess(self, losses: Array) -> tuple[Array, Array, Array]:
        """The weight of each column, its losses beyond the least, and the sizes of summands."""
        least = least_losses(self.likelihood, self.values)
        sizes = np.abs(losses) + np.abs(least)
        return self.total(), self.summed(losses - least), self.summed(sizes)


def least_losses(likelihood: Likelihood, values: Array) -> Array:
    """Return the least loss of each observation over all predictors, and parameters if fitted."""
    if not isinstance(likelihood, Conjugate) or fits_parameters(likelihood):
        return np.full(values.size, likelihood.infimum)
    return -likelihood.conjugate(no_predictors(likelihood, values), values)


def no_predictors(likelihood: Likelihood, values: Array) -> Array:
    """Return zeros in the shape of the predictors of some observations: (N,) or (N, K)."""
    return np.zeros((values.size, likelihood.width) if likelihood.width > 1 else values.size)


def with_best_parameters(
    likelihood: Likelihood, z: Array, values: Array, weights: Array
) -> Likelihood:
    """Return a likelihood with the parameters that have the least loss at these predictors."""
    assert isinstance(likelihood, Parametric)
    return likelihood.with_parameters(likelihood.best_parameters(z, values, weights, None))


def best_constants(
    likelihood: Likelihood,
    sums: ColumnSums,
    n_columns: int,
    ridge: float = 0.0,
    gradients_sought: Array | float = 0.0,
) -> Array:
    """Return the predictor c of each column with the least sum of losses, by bisection.

    ``argmin over c of sum_i w_i l(o_i + c, y_i) + ridge / 2 c^2``, the smallest where several are
    best, and 0 for a column without entries. A quadratic takes one Newton step. Without a ridge
    the best constant has to be finite, as it is where labels are not all alike.

    Parameters
    ----------
    likelihood : Likelihood
        Its parameters are given, and it takes one predictor.
    sums : ColumnEntries, or what has its sums
    n_columns : int
    ridge : float
    gradients_sought : array (n_columns,) or float
        The sums of gradients that are sought instead of 0, of losses with kinks.

    Returns
    -------
    array (n_columns,)
    """
    if likelihood.quadratic:
        total = likelihood.curvature * sums.total() + ridge
        return np.asarray(-sums.gradients(np.zeros(n_columns)) / np.where(total > 0.0, total, 1.0))

    def gradients(z: Array) -> Array:
        return sums.gradients(z) + ridge * z - gradients_sought

    low, high = sums.start_ranges()
    low[~np.isfinite(low)] = high[~np.isfinite(high)] = 0.0
    for k in range(BISECTIONS):
        too_high, too_low = gradients(low) > 0.0, gradients(high) < 0.0
        if not (too_high.any() or too_low.any()):
            break
        low, high = np.where(too_high, low - 2.0**k, low), np.where(too_low, high + 2.0**k, high)
    for _ in range(BISECTIONS):
        middle = low + 0.5 * (high - low)
        falls = gradients(middle) < 0.0
        low, high = np.where(falls, middle, low), np.where(falls, high, middle)
    return low + 0.5 * (high - low)


def best_constants_of_entries(entries: ColumnEntries, ridge: float = 0.0) -> Array:
    """Return the best constants of columns by their entries, of K classes one for each.

    As ``best_constants``, but the middle where several are best, as the median of an even number
    of values; of classes by L-BFGS, column by column.

    Returns
    -------
    array (n_columns,), or (n_columns, K)
    """
    likelihood = entries.likelihood
    if likelihood.width == 1 and likelihood.smooth:
        return best_constants(likelihood, entries, entries.n_columns, ridge)
    if likelihood.width == 1:  # sums that are 0 up to rounding between two kinks
        rounding = SUM_ROUNDING * entries.total()
        ends = [
            best_constants(likelihood, entries, entries.n_columns, ridge, side * rounding)
            for side in (-1.0, 1.0)
        ]
        return 0.5 * (ends[0] + ends[1])
    constants = np.zeros((entries.n_columns, likelihood.width))
    for column in np.unique(entries.columns):
        constants[column] = best_predictors(entries.of_column(column), ridge)
    return constants


def best_predictors(entries: ColumnEntries, ridge: float) -> Array:
    """Return the best constants of the classes of one column (K,)."""
    likelihood, values, offsets = entries.likelihood, entries.values, entries.offsets
    total = np.sum(entries.weights)
    shares, relative_ridge = entries.weights / total, ridge / total

    def loss(z: Array) -> tuple[float, Array]:
        """The mean loss at one predictor a class with the ridge, and its gradients."""
        losses, gradients = likelihood.value_and_gradient(offsets + z, values)
        value = float(shares @ losses + 0.5 * relative_ridge * (z @ z))
        return value, shares @ gradients + relative_ridge * z

    begin = shares @ (likelihood.start(values) - offsets)
    best = scipy.optimize.minimize(
        loss, begin, jac=True, method="L-BFGS-B", options={"ftol": 0.0, "gtol": 1e-10}
    )
    return np.asarray(best.x)
