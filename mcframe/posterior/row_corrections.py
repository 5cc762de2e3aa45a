"""Nonlinear corrections of what rows say of their missing numbers."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.stored_classes import stored
from mcframe.numerics.boosted_trees import BoostedTrees
from mcframe.posterior.row_variances import NOISE_SHARE
from mcframe.posterior.similar_rows import SimilarRows


@stored
@attrs.frozen(eq=False)
class Features:
    """The features of rows that predict what is left over of the numbers of one column.

    The means of all other numbers, which are the numbers themselves where they are observed, and
    the means of the column's numbers. If gaps count: whether numbers are missing, and the variance
    of the column's first number, which depends on that alone.

    Attributes
    ----------
    numbers : array of integers (K,)
        The places of the numbers of the column.
    others : array of integers
        Those of all other columns.
    gaps : array of integers
        Those of which it counts whether they are missing; none if gaps do not count.
    """

    numbers: IntArray
    others: IntArray
    gaps: IntArray

    def design(self, means: Array, variances: Array, missing: Mask) -> Array:
        """The features (n x p) from moments of all numbers, and which are missing (n x d)."""
        of_variance = self.numbers[:1] if self.gaps.size else self.numbers[:0]
        parts = (
            means[:, self.others],
            missing[:, self.gaps].astype(np.float64),
            means[:, self.numbers],
            variances[:, of_variance],
        )
        return np.hstack(parts)


@stored
@attrs.frozen(eq=False)
class ColumnCorrection:
    """The correction of the numbers of one column, in standard units, where they are missing.

    With m and T the mean and the variance of a missing number given what is observed of its row,
    the corrected mean is ``m + similar_weight s + weight f(x)`` and the variance ``inflation
    T^exponent exp(g(x))``. s is the shift by similar rows, and x are features of the row, in which
    m + similar_weight s stands for m. f and g are means of sums of trees.

    Attributes
    ----------
    features : Features
    trees : tuple of (tuple of K BoostedTrees)
        Their mean is f; 0 without any.
    weight : float
    exponent, inflation : float
    spreads : tuple of BoostedTrees
        Their mean is g; 0 without any.
    similar_weight : float
    width : float
        Of the weights of similar rows.
    """

    features: Features
    trees: tuple[tuple[BoostedTrees, ...], ...]
    weight: float
    exponent: float
    inflation: float
    spreads: tuple[BoostedTrees, ...] = ()
    similar_weight: float = 0.0
    width: float = 0.0

    def shifts(self, design: Array) -> Array:
        """The sum of trees, with its weight, of rows with these features (n x K)."""
        if not self.trees:
            return np.zeros((len(design), self.features.numbers.size))
        sums = [[trees.predict(design) for trees in model] for model in self.trees]
        shifts: Array = self.weight * np.mean(sums, axis=0).T
        return shifts

    def variances(self, design: Array, variances: Array) -> Array:
        """The corrected variances (n x K) of these."""
        corrected: Array = self.inflation * np.clip(variances, NOISE_SHARE, 1.0) ** self.exponent
        if not self.spreads:
            return corrected
        logs = np.mean([trees.predict(design) for trees in self.spreads], axis=0)
        return corrected * np.exp(logs)[:, None]

    def drawn(self, rng: np.random.Generator) -> "ColumnCorrection":
        """The correction by one of the sums of trees of f, drawn at random."""
        if not self.trees:
            return self
        return attrs.evolve(self, trees=(self.trees[int(rng.integers(len(self.trees)))],))


@stored
@attrs.frozen(eq=False)
class RowCorrections:
    """The corrections of the columns that have one.

    Attributes
    ----------
    columns : tuple of ColumnCorrection
    similar : SimilarRows or None
        None where no column is corrected by similar rows.
    """

    columns: tuple[ColumnCorrection, ...]
    similar: SimilarRows | None = None

    def adjusted(
        self, values: Array, means: Array, variances: Array, scales: Array
    ) -> tuple[Array, Array]:
        """Corrected means and scales of deviations from them, where numbers are missing.

        Parameters
        ----------
        values : array (n x d)
            Observed numbers of rows, NaN where missing.
        means, variances : array (n x d)
            The moments of all numbers.
        scales : array (n x d)
            Those of other columns and of observed numbers.
        """
        missing = np.isnan(values)
        means_after = means + self.shifts_by_similar_rows(values, means)
        scales_after = scales.copy()
        for column in self.columns:
            numbers = column.features.numbers
            rows = np.flatnonzero(missing[:, numbers].all(axis=1))
            if not rows.size:
                continue
            cells = np.ix_(rows, numbers)
            features = means[rows]
            features[:, numbers] = means_after[cells]
            design = column.features.design(features, variances[rows], missing[rows])
            before = np.maximum(variances[cells], NOISE_SHARE)
            means_after[cells] += column.shifts(design)
            scales_after[cells] = np.sqrt(column.variances(design, before) / before)
        return means_after, scales_after

    def shifts_by_similar_rows(self, values: Array, means: Array) -> Array:
        """The shifts of means of missing numbers to similar rows, 0 elsewhere (n x d)."""
        if self.similar is None:
            return np.zeros(means.shape)
        weights, widths = np.zeros((2, means.shape[1]))
        for column in self.columns:
            weights[column.features.numbers] = column.similar_weight
            widths[column.features.numbers] = column.width
        return weights * self.similar.shifts(values, means, widths)

    @property
    def numbers(self) -> IntArray:
        """The places of the numbers that are corrected."""
        return np.concatenate([column.features.numbers for column in self.columns])

    def concern(self, numbers: IntArray) -> bool:
        """True if one of these numbers is corrected."""
        return bool(np.isin(self.numbers, numbers).any())

    def drawn(self, rng: np.random.Generator) -> "RowCorrections":
        """Corrections by sums of trees that are drawn at random, one for each column."""
        columns = tuple(column.drawn(rng) for column in self.columns)
        return attrs.evolve(self, columns=columns)
