"""Posteriors of incomplete rows under one Gaussian, its covariance a diagonal and few axes.

A row is ``x = z + e`` with ``z ~ N(mean, G + U U')``, a diagonal G and loadings U (d x k), and e
of independent noise whose precisions P are 0 where a number is missing. With
``z = mean + s + U t`` for s ~ N(0, G) and t ~ N(0, I), all that a row needs is the precision of t
given what is observed,

    M = I + U' R U,    R = P / (1 + P G),

so a row costs d k^2 multiplications and k^3, and nothing holds d x d numbers.
"""

from collections.abc import Iterator
from functools import cached_property

import attrs
import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.row_groups import GroupMembers
from mcframe.contracts.stored_classes import stored
from mcframe.numerics.row_mixtures import (
    Conditionals,
    IncompleteRows,
    conditional_numbers,
    draws_given,
)
from mcframe.runtime.machine import check_time, limits_blas


@stored
@attrs.frozen(eq=False)
class LowRankRows:
    """``z ~ N(mean, diag(diagonal) + loadings loadings')``; the only component of a mixture.

    Attributes
    ----------
    mean : array (d,)
    diagonal : array (d,)
        Above 0.
    loadings : array (d x k)
    log_share : float
        0, or the logarithm of the weight by which densities are multiplied.
    """

    mean: Array
    diagonal: Array
    loadings: Array
    log_share: float = 0.0

    @property
    def log_shares(self) -> Array:
        """The logarithm of the share of the one component (1,)."""
        return np.array([self.log_share])

    @property
    def means(self) -> Array:
        """The mean (1 x d)."""
        return self.mean[None]

    @property
    def variances(self) -> Array:
        """The variance of each column (1 x d)."""
        return (self.diagonal + np.sum(np.square(self.loadings), axis=1))[None]

    @property
    def covariances(self) -> Array:
        """The covariance (1 x d x d), made when it is asked for."""
        return (np.diag(self.diagonal) + self.loadings @ self.loadings.T)[None]

    @cached_property
    def inner_root(self) -> Array:
        """The lower Cholesky factor of ``I + U' G^-1 U`` (k x k)."""
        k = self.loadings.shape[1]
        scaled = self.loadings / self.diagonal[:, None]
        root: Array = np.linalg.cholesky(np.eye(k) + self.loadings.T @ scaled)
        return root

    @property
    def log_determinant(self) -> float:
        """The logarithm of the determinant of the covariance."""
        inner = 2.0 * np.sum(np.log(np.diag(self.inner_root)))
        return float(np.sum(np.log(self.diagonal)) + inner)

    @property
    def precisions(self) -> Array:
        """The diagonal of the inverse of the covariance (d,)."""
        scaled = self.loadings.T / self.diagonal
        half = solve_triangular(self.inner_root, scaled, lower=True, check_finite=False)
        return 1.0 / self.diagonal - np.sum(np.square(half), axis=0)

    def distance(self, deviation: Array) -> float:
        """``deviation' covariance^-1 deviation`` of a vector (d,)."""
        scaled = deviation / self.diagonal
        half = solve_triangular(self.inner_root, self.loadings.T @ scaled, lower=True)
        return float(scaled @ deviation - half @ half)

    def draws(self, component: int, count: int, rng: np.random.Generator) -> Array:
        """Draws of ``z - mean`` (count x d)."""
        of_columns = np.sqrt(self.diagonal) * rng.standard_normal((count, self.diagonal.size))
        axes = rng.standard_normal((count, self.loadings.shape[1]))
        return np.asarray(of_columns + axes @ self.loadings.T)

    def centred(self, component: int) -> "LowRankRows":
        """The distribution of ``z - mean``."""
        return LowRankRows(np.zeros_like(self.mean), self.diagonal, self.loadings)

    @limits_blas
    def evidence(self, table: IncompleteRows) -> tuple[Array, Array]:
        """The log density of each row's observed numbers (n,), and responsibilities (n x 1)."""
        evidence = np.empty(len(table.values))
        for i, row in self.rows_given(table):
            evidence[i] = row.evidence
        return evidence + table.constants + self.log_share, np.ones((evidence.size, 1))

    @limits_blas
    def conditionals(self, table: IncompleteRows) -> Conditionals:
        """The distribution of z in each row given what is observed."""
        n, d = table.values.shape
        evidence, means, variances = np.empty(n), np.empty((n, d)), np.empty((n, d))
        for i, row in self.rows_given(table):
            evidence[i], means[i], variances[i] = row.evidence, row.mean, row.variance
        evidence += table.constants + self.log_share
        return Conditionals(evidence, np.ones((n, 1)), means[None], variances[None])

    def rows_given(self, table: IncompleteRows) -> Iterator[tuple[int, "RowGiven"]]:
        """Yield the number of each row, and the row given what is observed of it."""
        precisions, identity = table.precisions, np.eye(self.loadings.shape[1])
        shares = precisions / (1.0 + precisions * self.diagonal)
        for group in table.groups:
            base = group.base_precisions / (1.0 + group.base_precisions * self.diagonal)
            base_system = identity + (self.loadings.T * base) @ self.loadings
            for i, start, stop in zip(group.rows, group.starts, group.starts[1:], strict=False):
                check_time()
                places = group.places[start:stop]
                differing = self.loadings[places]
                system = base_system + (differing.T * (shares[i] - base)[places]) @ differing
                deviations = np.where(precisions[i] > 0.0, table.values[i] - self.mean, 0.0)
                root = np.linalg.cholesky(system)
                yield int(i), RowGiven(self, precisions[i], shares[i], deviations, root)

    def conditioned(self, table: IncompleteRows) -> "LowRankRows":
        """The distribution of rows given other rows, which is the same."""
        return self

    def of_other_rows(self, table: IncompleteRows) -> "LowRankRows":
        """The distribution of further rows, which is the same."""
        return self

    def about_means(self, table: IncompleteRows) -> IncompleteRows:
        """Rows less the means that they have of their own, which are none."""
        return table

    def conditional_numbers(
        self, table: IncompleteRows, rows: IntArray, observed: IntArray, places: IntArray
    ) -> tuple[Array, Array]:
        """Joint distributions of some numbers of z; see ``RowMixture``."""
        return conditional_numbers(self, table, rows, observed, places)[:2]

    def conditional_means(self, table: IncompleteRows) -> Array:
        """The means of z in each row given what is observed, by component (C x n x d)."""
        return self.conditionals(table).means

    def drawn(
        self,
        table: IncompleteRows,
        rng: np.random.Generator,
        m: int,
        cells: Conditionals | None = None,
        scales: Array | None = None,
    ) -> Array:
        """m draws of all rows of a table (m x n x d); see ``draws_given``."""
        return draws_given(self, table, rng, m, cells, scales)

    @limits_blas
    def leave_one_out(
        self,
        values: Array,
        noise: float,
        column_of_number: IntArray,
        members: GroupMembers | None = None,
    ) -> tuple[Array, Array]:
        """Conditional mean and variance of each observed number; see ``row_mixtures``.

        With A = G + noise of the observed numbers the inverse of their covariance is
        ``A^-1 - A^-1 U M^-1 U' A^-1``.
        """
        table = IncompleteRows.of(values, np.full(values.shape[1], 1.0 / noise), self.variances[0])
        predicted, variances = np.full((2, *values.shape), np.nan)
        source_widths = np.bincount(column_of_number)[column_of_number]
        first = np.flatnonzero(np.diff(column_of_number, prepend=-1))
        for i, row in self.rows_given(table):
            seen = row.shares > 0.0
            half = row.half * row.shares
            weighted = row.shares * (row.deviations - self.loadings @ row.axes)
            precisions = row.shares - np.sum(np.square(half), axis=0)
            single = np.flatnonzero(seen & (source_widths == 1))
            predicted[i, single] = values[i, single] - weighted[single] / precisions[single]
            variances[i, single] = 1.0 / precisions[single]
            for width in np.unique(source_widths[seen & (source_widths > 1)]):
                first_columns = first[seen[first] & (source_widths[first] == width)]
                blocks = first_columns[:, None] + np.arange(width)
                parts = half[:, blocks]
                precision_blocks = -np.einsum("kba,kbc->bac", parts, parts, optimize=True)
                precision_blocks[:, np.arange(width), np.arange(width)] += row.shares[blocks]
                inverse = np.linalg.inv(precision_blocks)
                correction = (inverse @ weighted[blocks][:, :, None])[:, :, 0]
                predicted[i, blocks] = values[i, blocks] - correction
                variances[i, blocks] = np.einsum("baa->ba", inverse)
        return predicted, variances


@attrs.frozen(eq=False)
class RowGiven:
    """A row given what is observed of it.

    Attributes
    ----------
    rows : LowRankRows
    precisions : array (d,)
        P.
    shares : array (d,)
        R.
    deviations : array (d,)
        ``x - mean``, 0 where missing.
    root : array (k x k)
        The lower Cholesky factor of M.
    """

    rows: LowRankRows
    precisions: Array
    shares: Array
    deviations: Array
    root: Array

    @cached_property
    def axes(self) -> Array:
        """The mean of t (k,)."""
        return np.asarray(
            cho_solve((self.root, True), self.rows.loadings.T @ (self.shares * self.deviations))
        )

    @cached_property
    def half(self) -> Array:
        """``L^-1 U'`` with M = L L' (k x d)."""
        # One product with many columns takes a third of the time of as many substitutions.
        return np.asarray(np.linalg.inv(self.root) @ self.rows.loadings.T)

    @property
    def log_determinant(self) -> float:
        """The logarithm of the determinant of ``I + P (G + U U')``."""
        inner = 2.0 * np.sum(np.log(np.diag(self.root)))
        return float(np.sum(np.log1p(self.precisions * self.rows.diagonal)) + inner)

    @property
    def evidence(self) -> float:
        """The log density of what is observed, but for constants of the precisions."""
        residuals = self.deviations - self.rows.loadings @ self.axes
        return -0.5 * (self.log_determinant + float(self.shares * self.deviations @ residuals))

    @property
    def mean(self) -> Array:
        """The mean of z (d,)."""
        axes_part = self.rows.loadings @ self.axes
        independent_part = self.rows.diagonal * self.shares * (self.deviations - axes_part)
        return np.asarray(self.rows.mean + axes_part + independent_part)

    @property
    def variance(self) -> Array:
        """The variance of z (d,): of s given t, and of t."""
        rows = self.rows
        unexplained = 1.0 / (1.0 + self.precisions * rows.diagonal)
        return np.asarray(
            unexplained * rows.diagonal + unexplained**2 * np.sum(np.square(self.half), axis=0)
        )
