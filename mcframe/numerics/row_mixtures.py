"""Posteriors of incomplete rows under a mixture of Gaussians, and the sums that EM needs of them.

A row is ``x = z + e`` with z of a component ``N(mean, S)`` and e of independent noise whose
precisions P are 0 where a number is missing. With a precision Q of each column and
``W = (S^-1 + Q)^-1``, and D the places M at which a row differs from Q, z has the covariance

    (S^-1 + P)^-1 = W - sign W_M F W_M',    F = r (I + sign r W_MM r)^-1 r,    r = |P - Q|^1/2.

Two forms are enough: Q = 0, where M are the observed numbers of a row and the sign is +1, and the
largest precision of each column, where M are the missing numbers and the sign is -1. Each row has
the form with fewer places m, and costs m^3 / 2 multiplications for a component.
"""

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np
from scipy.linalg import solve_triangular

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.limits import BATCH_NUMBERS
from mcframe.contracts.rounding import EPS
from mcframe.contracts.row_groups import GroupMembers
from mcframe.contracts.stored_classes import stored
from mcframe.numerics.kernels import FAST_MATH
from mcframe.runtime.machine import check_time, compiled, limits_blas, share

Solve = Callable[[Array, Array], tuple[Array, Array, Array]]
# Numbers in the arrays of one block of rows, over all components.
NUMBERS_PER_BLOCK = 50_000
# The form of the missing numbers loses as many digits as the product of the precision and the
# variance of a column has. Where this is larger, rows have the form of the observed numbers.
LARGEST_PRECISION_RATIO = 1e7


@stored
@attrs.frozen(eq=False)
class RowMixture:
    """``z ~ sum_c exp(log_shares[c]) N(means[c], covariances[c])``.

    Attributes
    ----------
    log_shares : array (C,)
    means : array (C x d)
    covariances : array (C x d x d)
        Positive definite.
    """

    log_shares: Array
    means: Array
    covariances: Array

    @property
    def roots(self) -> Array:
        """The lower Cholesky factors of the covariances (C x d x d)."""
        return np.array([root_of(covariance) for covariance in self.covariances])

    @property
    def variances(self) -> Array:
        """The variance of each column in each component (C x d)."""
        return np.diagonal(self.covariances, axis1=1, axis2=2)

    def draws(self, component: int, count: int, rng: np.random.Generator) -> Array:
        """Draws of ``z - mean`` of a component (count x d)."""
        root = root_of(self.covariances[component])
        return np.asarray(rng.standard_normal((count, len(root))) @ root.T)

    def centred(self, component: int) -> "RowMixture":
        """The distribution of ``z - mean`` of a component."""
        one = slice(component, component + 1)
        return RowMixture(np.zeros(1), np.zeros_like(self.means[one]), self.covariances[one])

    def evidence(self, table: "IncompleteRows") -> tuple[Array, Array]:
        """The log density of each row's observed numbers (n,), and responsibilities (n x C)."""
        return evidence_of(table, self)

    def conditionals(
        self, table: "IncompleteRows", numbers: IntArray | None = None
    ) -> "Conditionals":
        """The distribution of z in each row given what is observed, by component.

        Of some of the numbers where ``numbers`` says which.
        """
        return conditionals(table, self, numbers)

    def conditional_means(self, table: "IncompleteRows") -> Array:
        """The means of z in each row given what is observed, by component (C x n x d)."""
        return conditional_means(table, self)

    def conditioned(self, table: "IncompleteRows") -> "RowMixture":
        """The distribution of rows given other rows, which is the same."""
        return self

    def of_other_rows(self, table: "IncompleteRows") -> "RowMixture":
        """The distribution of further rows, which is the same."""
        return self

    def about_means(self, table: "IncompleteRows") -> "IncompleteRows":
        """Rows less the means that they have of their own, which are none."""
        return table

    def conditional_numbers(
        self, table: "IncompleteRows", rows: IntArray, observed: IntArray, places: IntArray
    ) -> tuple[Array, Array]:
        """Joint distributions of some numbers of z given what is observed, by component.

        Parameters
        ----------
        table : IncompleteRows
        rows : array of integers (b,)
        observed, places : arrays of integers (b x o) and (b x m), or one row for all
            Where rows are observed, and the numbers in question.

        Returns
        -------
        means : array (C x b x m)
        covariances : array (C x g x m x m)
            g is b, or 1 where all rows have the same.
        """
        return conditional_numbers(self, table, rows, observed, places)[:2]

    def leave_one_out(
        self,
        values: Array,
        noise: float,
        column_of_number: IntArray,
        members: GroupMembers | None = None,
    ) -> tuple[Array, Array]:
        """Conditional mean and variance of each observed number; see ``leave_one_out`` below.

        Groups of rows do not matter here.
        """
        return leave_one_out(values, noise, self, column_of_number)

    def drawn(
        self,
        table: "IncompleteRows",
        rng: np.random.Generator,
        m: int,
        cells: "Conditionals | None" = None,
        scales: Array | None = None,
    ) -> Array:
        """m draws of all rows of a table (m x n x d); see ``draws_given``."""
        return draws_given(self, table, rng, m, cells, scales)


def root_of(covariance: Array) -> Array:
    """The lower Cholesky factor of a covariance, in units of the columns' deviations."""
    spreads = np.sqrt(np.diag(covariance))
    scaled = covariance / spreads / spreads[:, None]
    step = len(scaled) * EPS
    while True:
        try:
            return spreads[:, None] * np.linalg.cholesky(scaled)
        except np.linalg.LinAlgError:  # singular up to rounding
            scaled[np.diag_indices(len(scaled))] += step
            step *= 4.0


def roots_of(matrices: Array) -> Array:
    """The lower Cholesky factors of symmetric matrices (... x d x d)."""
    spreads = np.sqrt(np.einsum("...ii->...i", matrices))
    try:
        scaled = matrices / spreads[..., None, :] / spreads[..., None]
        return np.asarray(spreads[..., None] * np.linalg.cholesky(scaled))
    except np.linalg.LinAlgError:  # one of them is singular up to rounding
        flat = matrices.reshape(-1, *matrices.shape[-2:])
        return np.array([root_of(matrix) for matrix in flat]).reshape(matrices.shape)


@stored(
    formerly=("Form", "mcframe.numerics.row_mixtures.Form"),
    renamed_fields={
        "fresh": "differs_from_previous",
        "base": "base_precisions",
        "roots": "root_differences",
    },
)
@attrs.frozen(eq=False)
class WoodburyRows:
    """Rows that are solved by the same Q (see above), by the identity of Woodbury.

    Rows with equal precisions are next to each other.

    Attributes
    ----------
    sign : float
    base_precisions : array (d,)
        Q.
    rows : array of integers (b,)
    differs_from_previous : mask (b,)
        Whether a row's precisions differ from those of the row before.
    starts : array of integers (b + 1,)
        Where the places of each row begin.
    places : array of integers
    root_differences : array
        r at the places.
    """

    sign: float
    base_precisions: Array
    rows: IntArray
    differs_from_previous: Mask
    starts: IntArray
    places: IntArray
    root_differences: Array

    @classmethod
    def of(
        cls, sign: float, base_precisions: Array, precisions: Array, rows: IntArray
    ) -> "WoodburyRows":
        """Some rows of the precisions (n x d)."""
        chosen = precisions[rows]
        order = np.argsort(
            chosen @ (0.5 + np.random.default_rng(0).random(base_precisions.size)), kind="stable"
        )
        chosen, rows = chosen[order], rows[order]
        differs = np.ones(rows.size, dtype=np.bool_)
        differs[1:] = np.any(chosen[1:] != chosen[:-1], axis=1)
        differences = np.abs(chosen - base_precisions)
        row_numbers, places = np.nonzero(differences)
        starts = np.concatenate([[0], np.cumsum(np.bincount(row_numbers, minlength=rows.size))])
        return cls(
            sign,
            base_precisions,
            rows,
            differs,
            starts,
            places,
            np.sqrt(differences[row_numbers, places]),
        )

    def take(self, members: IntArray, rows: IntArray) -> "WoodburyRows":
        """Some of the rows, by their ascending numbers here, and what numbers they have then."""
        counts = np.diff(self.starts)[members]
        starts = np.concatenate([[0], np.cumsum(counts)])
        chosen = np.repeat(self.starts[members] - starts[:-1], counts) + np.arange(starts[-1])
        pattern = np.cumsum(self.differs_from_previous)[members]
        return WoodburyRows(
            self.sign,
            self.base_precisions,
            rows,
            np.diff(pattern, prepend=-1) != 0,
            starts,
            self.places[chosen],
            self.root_differences[chosen],
        )

    def base_covariances(self, rows: RowMixture) -> tuple[Array, Array]:
        """W of each component (C x d x d), and the log determinants of I + Q S (C,)."""
        if not self.base_precisions.any():
            return rows.covariances, np.zeros(len(rows.means))
        conditional, logs = np.empty_like(rows.covariances), np.empty(len(rows.means))
        for c, root in enumerate(rows.roots):
            system = (root.T * self.base_precisions) @ root
            system[np.diag_indices(len(root))] += 1.0
            factor = np.linalg.cholesky(system)
            half = solve_triangular(factor, root.T, lower=True, check_finite=False)
            conditional[c] = half.T @ half
            logs[c] = 2.0 * np.sum(np.log(np.diag(factor)))
        return conditional, logs


@stored(
    formerly=("Incomplete", "mcframe.numerics.row_mixtures.Incomplete"),
    renamed_fields={"forms": "groups"},
)
@attrs.frozen(eq=False)
class IncompleteRows:
    """Rows with the precision of each number, prepared for expectations.

    Attributes
    ----------
    values : array (n x d)
        0 where missing.
    precisions : array (n x d)
        0 where missing.
    variances : array (d,)
        About that of z in each column. It decides whether the form of the missing numbers is exact
        enough.
    constants : array (n,)
        The part of the log evidence of a row that depends on its precisions alone.
    groups : tuple of WoodburyRows
        Together they have all rows.
    group_of_row : array of integers (n,) or None
        Where rows belong to groups that have means of their own.
    row_weights : array (n,) or None
        How often each row counts in sums over rows; None for once.
    functions_of_time : array (n x q) or None
        With which the means of groups move, as ``GroupMembers`` has them.
    """

    values: Array
    precisions: Array
    variances: Array
    constants: Array
    groups: tuple[WoodburyRows, ...]
    group_of_row: IntArray | None = None
    row_weights: Array | None = None  # not in files of earlier versions
    functions_of_time: Array | None = None

    @classmethod
    def of(
        cls,
        values: Array,
        precisions: Array,
        variances: Array,
        members: GroupMembers | None = None,
        row_weights: Array | None = None,
    ) -> "IncompleteRows":
        """Rows (n x d) that are NaN where missing.

        Parameters
        ----------
        values : array (n x d)
        precisions : array (n x d) or (d,)
            0 where missing.
        variances : array (d,)
        members : GroupMembers, optional
        row_weights : array (n,), optional
        """
        observed = ~np.isnan(values) & (np.broadcast_to(precisions, values.shape) > 0.0)
        observed_precisions = np.where(observed, precisions, 0.0)
        logs = np.log(np.where(observed, observed_precisions / (2.0 * np.pi), 1.0))
        largest_precisions = np.max(observed_precisions, axis=0, initial=0.0)
        differ_at_missing = np.count_nonzero(
            observed_precisions != largest_precisions, axis=1
        ) < np.count_nonzero(observed, axis=1)
        differ_at_missing &= (
            np.max(largest_precisions * variances, initial=0.0) <= LARGEST_PRECISION_RATIO
        )
        bases = (
            (1.0, np.zeros_like(largest_precisions), ~differ_at_missing),
            (-1.0, largest_precisions, differ_at_missing),
        )
        groups = tuple(
            WoodburyRows.of(sign, base, observed_precisions, np.flatnonzero(rows))
            for sign, base, rows in bases
            if rows.any()
        )
        constants = 0.5 * np.sum(logs, axis=1)
        return cls(
            np.where(observed, values, 0.0),
            observed_precisions,
            np.asarray(variances),
            constants,
            groups,
            None if members is None else members.numbers,
            row_weights,
            None if members is None else members.functions,
        )

    def with_numbers(self, values: Array, precisions: Array) -> "IncompleteRows":
        """The rows with other numbers, their groups and weights as they are."""
        return IncompleteRows.of(
            values, precisions, self.variances, self.members, self.row_weights
        )

    def take(self, rows: IntArray) -> "IncompleteRows":
        """Some of the rows, which may be repeated."""
        place, groups = np.empty(len(self.values), dtype=np.intp), []
        for group in self.groups:
            place[:] = -1
            place[group.rows] = np.arange(group.rows.size)
            of_group = np.flatnonzero(place[rows] >= 0)
            if of_group.size:
                of_group = of_group[np.argsort(place[rows[of_group]], kind="stable")]
                groups.append(group.take(place[rows[of_group]], of_group))
        members = None if self.members is None else self.members.take(rows)
        return IncompleteRows(
            self.values[rows],
            self.precisions[rows],
            self.variances,
            self.constants[rows],
            tuple(groups),
            None if members is None else members.numbers,
            None if self.row_weights is None else self.row_weights[rows],
            None if members is None else members.functions,
        )

    def minus(self, offsets: Array) -> "IncompleteRows":
        """The rows less numbers (n x d)."""
        values = np.where(self.precisions > 0.0, self.values - offsets, 0.0)
        return attrs.evolve(self, values=values)

    @property
    def observed(self) -> Array:
        """The numbers, NaN where missing (n x d)."""
        return np.where(self.precisions > 0.0, self.values, np.nan)

    @property
    def members(self) -> GroupMembers | None:
        """The group of each row; None where rows have none."""
        if self.group_of_row is None:
            return None
        return GroupMembers(self.group_of_row, self.functions_of_time)

    @property
    def in_groups(self) -> GroupMembers:
        """The group of each row, where rows have groups."""
        assert self.members is not None
        return self.members

    @property
    def counts(self) -> Array:
        """The weight of each row in sums over rows (n,): 1 where none are given."""
        return np.ones(len(self.values)) if self.row_weights is None else self.row_weights

    @property
    def noise(self) -> Array:
        """The variance of the noise of each number, 0 where missing (n x d)."""
        return 1.0 / np.where(self.precisions > 0.0, self.precisions, np.inf)

    @property
    def n_observed(self) -> int:
        """The number of observed numbers."""
        return int(np.count_nonzero(self.precisions))


@attrs.frozen(eq=False)
class Expectation:
    """Sums over rows of posterior moments of z, as an M step needs them.

    Attributes
    ----------
    evidence : array (n,)
        The log density of each row's observed numbers, times how often the row counts.
    responsibilities : array (n x C)
        The probability of each component given the row, times that.
    weights : array (C,)
        The sum of the responsibilities.
    shifts : array (C x d)
        The sum of the expected ``z - mean``, by responsibilities.
    scatters : array (C x d x d)
        That of the expected ``(z - mean) (z - mean)'``.
    """

    evidence: Array
    responsibilities: Array
    weights: Array
    shifts: Array
    scatters: Array


@attrs.frozen(eq=False)
class Conditionals:
    """The distribution of z in each row given what is observed: a mixture of Gaussians.

    Attributes
    ----------
    evidence : array (n,)
    responsibilities : array (n x C)
    means, variances : array (C x n x d)
    """

    evidence: Array
    responsibilities: Array
    means: Array
    variances: Array

    @property
    def moments(self) -> tuple[Array, Array]:
        """Mean and variance of z in each row (n x d)."""
        return moments_of(self.responsibilities.T[:, :, None], self.means, self.variances)


def expectation(table: IncompleteRows, rows: RowMixture) -> Expectation:
    """Return the E step: the evidence of each row, and sums of posterior moments of z."""
    n, n_components = len(table.values), len(rows.means)
    evidence, weights = np.empty(n), np.empty((n, n_components))
    shifts, scatters = np.zeros_like(rows.means), np.zeros_like(rows.covariances)
    counts = table.counts
    for group in table.groups:

        def sums_of(
            block: IntArray, base_covariances: Array, solve: Solve, sign: float = group.sign
        ) -> tuple[Array, Array]:
            f_sums = np.zeros_like(base_covariances)
            solutions, evidence[block], probabilities = solve(f_sums, f_sums[:0])
            weights[block] = counts[block, None] * probabilities
            weighted = weights[block].T[:, :, None] * solutions
            f_sums += np.tril(f_sums, -1).transpose(0, 2, 1)
            square = weighted.transpose(0, 2, 1) @ solutions - sign * f_sums
            return np.sum(weighted, axis=1), square

        base_covariances, sums = map_blocks(table, group, rows, sums_of)
        linear, square = (sum(parts) for parts in zip(*sums, strict=True))
        total = np.sum(weights[group.rows], axis=0)
        shifts += np.einsum("ck,ckj->cj", linear, base_covariances)
        scatters += (
            base_covariances @ square @ base_covariances + total[:, None, None] * base_covariances
        )
    evidence = counts * (evidence + table.constants)
    return Expectation(evidence, weights, np.sum(weights, axis=0), shifts, scatters)


def evidence_of(table: IncompleteRows, rows: RowMixture) -> tuple[Array, Array]:
    """Return the log density of each row's observed numbers, and responsibilities (n x C)."""
    evidence, weights = np.empty(len(table.values)), np.empty((len(table.values), len(rows.means)))

    def find_evidence(block: IntArray, base_covariances: Array, solve: Solve) -> None:
        # No view: covariances that were read from a file cannot be written to.
        not_needed = np.empty_like(base_covariances[:0])
        _, evidence[block], weights[block] = solve(not_needed, not_needed)

    for group in table.groups:
        map_blocks(table, group, rows, find_evidence)
    return evidence + table.constants, weights


def conditionals(
    table: IncompleteRows, rows: RowMixture, numbers: IntArray | None = None
) -> Conditionals:
    """Return the distribution of z in each row, by component; of all or of some ``numbers``."""
    numbers = np.arange(table.values.shape[1]) if numbers is None else numbers
    n, n_components = len(table.values), len(rows.means)
    evidence, weights = np.empty(n), np.empty((n, n_components))
    means, variances = (np.empty((n_components, n, numbers.size)) for _ in range(2))

    def find_moments(block: IntArray, base_covariances: Array, solve: Solve) -> None:
        block_variances = np.empty((n_components, block.size, numbers.size))
        solutions, evidence[block], weights[block] = solve(block_variances[:0], block_variances)
        products = solutions @ base_covariances[:, :, numbers]
        means[:, block] = rows.means[:, None, numbers] + products
        variances[:, block] = block_variances

    for group in table.groups:
        map_blocks(table, group, rows, find_moments, numbers)
    return Conditionals(evidence + table.constants, weights, means, variances)


def conditional_means(table: IncompleteRows, rows: RowMixture) -> Array:
    """Return the means of ``conditionals`` alone (C x n x d), which takes half the time."""
    means = np.empty((len(rows.means), *table.values.shape))

    def find_means(block: IntArray, base_covariances: Array, solve: Solve) -> None:
        not_needed = np.empty_like(base_covariances[:0])
        solutions, _, _ = solve(not_needed, not_needed)
        means[:, block] = rows.means[:, None] + solutions @ base_covariances

    for group in table.groups:
        map_blocks(table, group, rows, find_means)
    return means


@limits_blas
def map_blocks(
    table: IncompleteRows,
    group: WoodburyRows,
    rows: RowMixture,
    function: Callable[[IntArray, Array, Solve], Any],
    numbers: IntArray | None = None,
) -> tuple[Array, list[Any]]:
    """Return W by component, and ``function(block, W, solve)`` of blocks of a group's rows.

    ``solve(f_sums, variances)`` returns g with ``E(z) = mean + W g`` (C x b x d), the log evidence
    of rows but for constants (b,) and responsibilities (b x C). It adds the sums of F by
    responsibilities, times how often rows count, to ``f_sums`` (C x d x d), in their lower
    triangles, and writes the variances of the ``numbers`` of z (C x b x k), by default of all. An
    array without components means that these are not needed.
    """
    n_components, counts = len(rows.means), table.counts
    base_covariances, logs = group.base_covariances(rows)
    log_weights = rows.log_shares - 0.5 * logs
    numbers = np.arange(group.base_precisions.size) if numbers is None else numbers
    of_numbers = np.ascontiguousarray(base_covariances[:, :, numbers])
    size = max(
        16, NUMBERS_PER_BLOCK // (n_components * group.base_precisions.size)
    )  # by the size of the table alone
    firsts = range(0, group.rows.size, size)
    results: list[Any] = [None] * len(firsts)

    def solve_block(k: int) -> Any:
        first = firsts[k]
        block = group.rows[first : first + size]
        starts = group.starts[first : first + block.size + 1]

        def solve(f_sums: Array, variances: Array) -> tuple[Array, Array, Array]:
            deviations = table.values[block] - rows.means[:, None]
            gradients = table.precisions[block] * deviations
            if group.sign > 0.0:
                right_sides, solutions = deviations, np.zeros_like(gradients)
                squares = np.zeros(gradients.shape[:2])
            else:
                right_sides, solutions = gradients @ base_covariances, gradients
                squares = np.einsum("cij,cij->ci", gradients, deviations - right_sides)
            evidence, weights = np.empty(block.size), np.empty((block.size, n_components))
            longest = int(np.max(np.diff(starts), initial=0))
            work = np.empty((n_components, longest**2))
            solve_rows(
                starts, group.places, group.root_differences,
                group.differs_from_previous[first : first + block.size],
                group.sign, base_covariances, of_numbers, numbers, log_weights, counts[block],
                squares, right_sides, solutions, work, evidence, weights, f_sums, variances,
            )  # fmt: skip
            return solutions, evidence, weights

        return function(block, base_covariances, solve)

    def solve_blocks(start: int, stop: int) -> None:
        for k in range(start, stop):
            check_time()
            results[k] = solve_block(k)

    share(solve_blocks, range(len(firsts) + 1))
    return base_covariances, results


@compiled(nogil=True, fastmath={"contract", "nsz"})
def invert(matrix, panel, columns, factors):  # type: ignore[no-untyped-def]
    """matrix = -matrix^-1 in its lower triangle, by sweeps; the log determinant.

    Four sweeps change their own columns one after the other, as stable as Cholesky, and all others
    together: each element is read and written once for four products, which takes half the time
    of single sweeps at 60 columns. The products are subtracted one after the other, since what is
    left is small beside them where the matrix is nearly singular.

    Parameters
    ----------
    matrix : array (size x size)
    panel, columns, factors : arrays (4 x at least size)
        Overwritten.
    """
    size, total = len(matrix), 0.0
    for first in range(0, size, 4):
        count = min(4, size - first)
        for q in range(4):
            columns[q, :size], factors[q, :size] = 0.0, 0.0
        for q in range(count):
            k = first + q
            for i in range(k):
                panel[q, i] = matrix[k, i]
            for i in range(k, size):
                panel[q, i] = matrix[i, k]
        for q in range(count):
            k = first + q
            pivot = max(panel[q, k], 1e-15)
            total += np.log(pivot)
            for i in range(size):
                columns[q, i] = panel[q, i]
                factors[q, i] = panel[q, i] / pivot
            columns[q, k] = factors[q, k] = 0.0
            for p in range(count):
                other = columns[q, first + p]
                for i in range(size):
                    panel[p, i] -= factors[q, i] * other
                panel[p, k] = factors[q, first + p]
            panel[q, :size] = factors[q, :size]
            panel[q, k] = -1.0 / pivot
        one, two = columns[0, :size], columns[1, :size]
        three, four = columns[2, :size], columns[3, :size]
        for i in range(size):
            a, b, c, d = factors[0, i], factors[1, i], factors[2, i], factors[3, i]
            line = matrix[i]
            for j in range(i + 1):
                line[j] = line[j] - a * one[j] - b * two[j] - c * three[j] - d * four[j]
        for q in range(count):
            k = first + q
            matrix[k, : k + 1] = panel[q, : k + 1]
            for i in range(k + 1, size):
                matrix[i, k] = panel[q, i]
    return total


@compiled(nogil=True, fastmath=FAST_MATH)
def solve_rows(  # type: ignore[no-untyped-def]
    starts, places, roots, differs, sign, base_covariances, of_numbers, numbers, log_weights,
    row_weights, squares, right_sides, solutions, work, evidence, weights, f_sums, variances,
):  # fmt: skip
    """Log evidence, responsibilities and g of some rows.

    And, where ``f_sums`` has components, their weighted sums of F, in the lower triangle; where
    ``variances`` has, those of some ``numbers`` of z (k,), of which ``of_numbers`` has the columns
    of W (C x d x k).
    """
    needs_sums, needs_variances = len(f_sums) > 0, len(variances) > 0
    n_components, count = log_weights.size, 0
    longest = int(np.sqrt(work.shape[1]) + 0.5)
    column, image, sums = np.empty(longest), np.empty(longest), np.empty(numbers.size)
    # No parts of one array, which would count as strided: ``invert`` takes 2.5 times as long then.
    panel, columns, factors = (
        np.empty((4, longest)),
        np.empty((4, longest)),
        np.empty((4, longest)),
    )
    logs, pattern_weights = np.zeros(n_components), np.zeros(n_components)
    for row in range(starts.size - 1):
        first = starts[row]
        if differs[row] or row == 0:
            if needs_sums and row > 0:
                add_f_sums(places[first - count : first], work, pattern_weights, f_sums)
            count = starts[row + 1] - first
            for c in range(n_components):
                system = work[c, : count * count].reshape(count, count)  # contiguous
                for a in range(count):
                    line, root = base_covariances[c, places[first + a]], sign * roots[first + a]
                    for b in range(a + 1):
                        system[a, b] = root * roots[first + b] * line[places[first + b]]
                    system[a, a] += 1.0
                logs[c] = invert(system, panel, columns, factors)
                for a in range(count):
                    root = -roots[first + a]
                    for b in range(a + 1):
                        system[a, b] *= root * roots[first + b]
                pattern_weights[c] = 0.0
                if needs_variances:
                    write_variance(
                        places[first : first + count], roots[first : first + count], sign,
                        of_numbers[c], numbers, system, sums, variances[c, row],
                    )  # fmt: skip
        elif needs_variances:
            variances[:, row] = variances[:, row - 1]
        largest = -np.inf
        for c in range(n_components):
            distance = squares[c, row]
            system = work[c, : count * count].reshape(count, count)
            for a in range(count):
                column[a], image[a] = right_sides[c, row, places[first + a]], 0.0
            for a in range(count):
                value, total = column[a], 0.0
                for b in range(a):
                    total += system[a, b] * column[b]
                for b in range(a):
                    image[b] += system[a, b] * value
                image[a] += total + system[a, a] * value
            for a in range(count):
                distance += sign * image[a] * column[a]
                solutions[c, row, places[first + a]] += image[a]
            weights[row, c] = log_weights[c] - 0.5 * (logs[c] + distance)
            largest = max(largest, weights[row, c])
        total = 0.0
        for c in range(n_components):
            weights[row, c] = np.exp(weights[row, c] - largest)
            total += weights[row, c]
        evidence[row] = largest + np.log(total)
        for c in range(n_components):
            weights[row, c] /= total
            pattern_weights[c] += row_weights[row] * weights[row, c]
    if needs_sums and starts.size > 1:
        last = starts[-1]
        add_f_sums(places[last - count : last], work, pattern_weights, f_sums)


@compiled(nogil=True, fastmath=FAST_MATH)
def write_variance(  # type: ignore[no-untyped-def]
    places, roots, sign, of_numbers, numbers, f, sums, variances
):
    """variances = the diagonal of W - sign W_M F W_M' at numbers; ``f`` has the lower triangle.

    A difference of less than about 1e-11 of W is lost to rounding; it is never 0.

    Parameters
    ----------
    of_numbers : array (d x k)
        The columns of W of ``numbers`` (k,).
    sums : array (k,)
        Overwritten.
    """
    size, count = numbers.size, places.size
    for j in range(size):
        variances[j] = of_numbers[numbers[j], j]
    for a in range(count):  # the sums cancel where columns are nearly one: no part of them alone
        for j in range(size):
            sums[j] = 0.0
        for b in range(count):
            line, factor = of_numbers[places[b]], sign * f[max(a, b), min(a, b)]
            for j in range(size):
                sums[j] += factor * line[j]
        line = of_numbers[places[a]]
        for j in range(size):
            variances[j] -= sums[j] * line[j]
    for j in range(size):
        variances[j] = max(variances[j], EPS * of_numbers[numbers[j], j])
    if sign < 0.0:
        return
    for a in range(count):  # where that cancels: the variance is close to that of the noise
        precision = roots[a] * roots[a]
        for j in range(size):
            if numbers[j] == places[a] and precision * of_numbers[places[a], j] > 1.0:
                variances[j] = max(1.0 - f[a, a] / precision, EPS) / precision


@compiled(nogil=True, fastmath=FAST_MATH)
def add_f_sums(places, work, weights, f_sums):  # type: ignore[no-untyped-def]
    """f_sums[c] += weights[c] F at the places."""
    count = places.size
    for c in range(weights.size):
        system = work[c, : count * count].reshape(count, count)
        for a in range(count):
            for b in range(a + 1):
                f_sums[c, places[a], places[b]] += weights[c] * system[a, b]


# Rows that are observed at the same numbers are solved as one where that saves so many numbers of
# inverses, and otherwise in a batch with others, which takes fewer calls.
LEAST_NUMBERS_OF_PATTERN = 12_000


@attrs.frozen(eq=False)
class ObservedInverse:
    """Inverses of the covariances of the observed numbers of rows, as ``A - H' H``.

    Attributes
    ----------
    places : array of integers (b x m)
    base : array (b x m x m), or (d x d) of all numbers
        A.
    correction_root : array (b x g x m)
        H, of g rows: one for each missing number that was eliminated.
    log_determinant : array (b,)
        Of the inverses.
    """

    places: IntArray
    base: Array
    correction_root: Array
    log_determinant: Array

    @classmethod
    def of(cls, covariance: Array, places: IntArray) -> "ObservedInverse":
        """Inverses for some of the numbers of a covariance (d x d)."""
        inverse = np.linalg.inv(covariance[places[:, :, None], places[:, None, :]])
        return cls(places, inverse, inverse[:, :0], np.linalg.slogdet(inverse)[1])

    @property
    def diagonal(self) -> Array:
        """The diagonals (b x m)."""
        if self.base.ndim == 3:
            return np.einsum("ijj->ij", self.base)
        return np.diag(self.base)[self.places] - np.einsum(
            "igj,igj->ij", self.correction_root, self.correction_root
        )

    def multiply(self, deviations: Array) -> Array:
        """The products with vectors (n x m), one for each inverse unless there is one alone."""
        if self.base.ndim == 3:
            return np.asarray((self.base @ deviations[:, :, None])[:, :, 0])
        filled = np.zeros((len(deviations), len(self.base)))
        np.put_along_axis(
            filled, np.broadcast_to(self.places, deviations.shape), deviations, axis=1
        )
        images = np.take_along_axis(filled @ self.base, self.places, axis=1)
        correction = self.correction_root.transpose(0, 2, 1) @ (
            self.correction_root @ deviations[:, :, None]
        )
        return np.asarray(images - correction[:, :, 0])

    def blocks(self, rows: IntArray, positions: IntArray) -> Array:
        """The blocks (r x s x s) of some of the inverses at s of their own numbers (r x s)."""
        if self.base.ndim == 3:
            return self.base[rows[:, None, None], positions[:, :, None], positions[:, None, :]]
        places = np.take_along_axis(self.places[rows], positions, axis=1)
        parts = self.correction_root[rows[:, None], :, positions]  # r x s x g
        blocks = self.base[places[:, :, None], places[:, None, :]]
        return np.asarray(blocks - parts @ parts.transpose(0, 2, 1))


@attrs.frozen(eq=False)
class FullInverse:
    """The inverse Q of a covariance (d x d), from which those of parts follow.

    The covariance of the observed numbers O has the inverse ``Q_OO - Q_OM Q_MM^-1 Q_MO`` with the
    missing numbers M: of d numbers, m of them missing, m^2 d multiplications in the place of d^3.

    Attributes
    ----------
    inverse : array (d x d)
    log_determinant : float
        Of the inverse.
    """

    inverse: Array
    log_determinant: float

    @classmethod
    def of(cls, covariance: Array) -> "FullInverse":
        """The inverse of a covariance, made symmetric."""
        inverse = np.linalg.inv(covariance)
        inverse = 0.5 * (inverse + inverse.T)
        return cls(inverse, -float(np.linalg.slogdet(covariance)[1]))

    def of_observed(self, places: IntArray) -> ObservedInverse:
        """The inverses of the covariances at some numbers (b x m)."""
        missing = np.ones((len(places), len(self.inverse)), dtype=np.bool_)
        np.put_along_axis(missing, places, False, axis=1)
        missing_places = np.nonzero(missing)[1].reshape(len(places), -1)
        root = np.linalg.cholesky(
            self.inverse[missing_places[:, :, None], missing_places[:, None, :]]
        )
        correction_root = np.linalg.solve(
            root, self.inverse[missing_places[:, :, None], places[:, None, :]]
        )
        logs = np.sum(np.log(np.einsum("ijj->ij", root)), axis=1)
        return ObservedInverse(
            places, self.inverse, correction_root, self.log_determinant - 2.0 * logs
        )


@limits_blas
def leave_one_out(
    values: Array, noise: float, rows: RowMixture, column_of_number: IntArray
) -> tuple[Array, Array]:
    """Return conditional mean and variance of each observed number, as if it had been missing.

    Both are (n x d). Given the other numbers of its row, but for those of the same source column,
    such as the indicators of a category. With Q the inverse of the covariance of the observed
    numbers x of a row under a component, those of a source column, B, have the mean
    ``x_B - Q_BB^-1 (Q (x - mean))_B`` and the covariance ``Q_BB^-1`` given the others. The
    components count by their densities of these. NaN where a number is missing.

    Parameters
    ----------
    values : array (n x d)
        NaN where missing.
    noise : float
        The variance of the noise that each number has beyond the rows' own distribution.
    rows : RowMixture
    column_of_number : array of integers (d,)
        The column of the source table that each number codes, from 0, in ascending order. Where
        some numbers of a source column are missing, the others are given for each other.
    """
    observed = ~np.isnan(values)
    means, variances, logs = (np.zeros((len(rows.means), *values.shape)) for _ in range(3))
    source_widths = np.bincount(column_of_number)
    starts = np.searchsorted(column_of_number, np.arange(source_widths.size))
    wide_sources = [
        (w, starts[source_widths == w]) for w in np.unique(source_widths[source_widths > 1])
    ]
    noisy_covariances = rows.covariances + noise * np.eye(values.shape[1])
    full_inverses = [FullInverse.of(covariance) for covariance in noisy_covariances]
    missing_form_is_exact = bool(
        np.all(np.diagonal(noisy_covariances, axis1=1, axis2=2) <= LARGEST_PRECISION_RATIO * noise)
    )
    for members, places in rows_by_pattern(observed):
        check_time()
        updates_whole = missing_form_is_exact and 2 * places.shape[1] > values.shape[1]
        shares_pattern = len(places) == 1
        pattern = observed[members[: len(places)]]
        n_observed_before = np.cumsum(pattern, axis=1) - pattern
        for c, covariance in enumerate(noisy_covariances):
            inverse = (
                full_inverses[c].of_observed(places)
                if updates_whole
                else ObservedInverse.of(covariance, places)
            )
            x = values[members[:, None], places]
            deviations = x - rows.means[c, places]
            weighted = inverse.multiply(deviations)
            precisions = inverse.diagonal
            density = inverse.log_determinant - np.sum(weighted * deviations, axis=1)
            cells = members[:, None], places
            means[c][cells] = x - weighted / precisions
            variances[c][cells] = 1.0 / precisions
            logs[c][cells] = density[:, None] - np.log(precisions) + weighted**2 / precisions
            for width, first_columns in wide_sources:
                # Pairs of a row and a source column; one row for all that are observed alike.
                whole_sources = pattern[:, first_columns[:, None] + np.arange(width)].all(axis=2)
                row_of_pair, source_of_pair = np.nonzero(whole_sources)
                positions = n_observed_before[row_of_pair, first_columns[source_of_pair]][
                    :, None
                ] + np.arange(width)
                precision_blocks = inverse.blocks(row_of_pair, positions)
                covariances = np.linalg.inv(precision_blocks)
                row_of_block = np.arange(members.size)[:, None] if shares_pattern else row_of_pair
                weighted_blocks = weighted[row_of_block[..., None], positions]
                correction = (covariances @ weighted_blocks[..., None])[..., 0]
                log_densities_of_others = (
                    density[row_of_block] - np.linalg.slogdet(precision_blocks)[1]
                )
                cells = (
                    members[row_of_block][..., None],
                    first_columns[source_of_pair][:, None] + np.arange(width),
                )
                means[c][cells] = x[row_of_block[..., None], positions] - correction
                variances[c][cells] = np.einsum("ijj->ij", covariances)
                logs[c][cells] = (
                    log_densities_of_others + np.sum(correction * weighted_blocks, axis=-1)
                )[..., None]
    logs = 0.5 * logs + rows.log_shares[:, None, None]
    weights = np.exp(logs - np.max(logs, axis=0))
    predicted, covariances = moments_of(weights / np.sum(weights, axis=0), means, variances)
    return np.where(observed, predicted, np.nan), np.where(observed, covariances, np.nan)


def draws_given(
    mixture: Any,
    table: IncompleteRows,
    rng: np.random.Generator,
    m: int,
    cells: Conditionals | None = None,
    scales: Array | None = None,
) -> Array:
    """m draws of z of all rows of a table (m x n x d).

    A draw of z and x from the component moves to the observed x by the difference of the
    conditional means, which are linear in x (Journel and Huijbregts, Mining Geostatistics, 1978).

    Parameters
    ----------
    mixture : RowMixture or LowRankRows
    table : IncompleteRows
    rng : numpy.random.Generator
    m : int
    cells : Conditionals, optional
        Those of the table, where they are computed already. Draws have their means.
    scales : array (n x d), optional
        Factors of deviations from these means.
    """
    n, d = table.values.shape
    cells = mixture.conditionals(table) if cells is None else cells
    ends = np.cumsum(cells.responsibilities, axis=1)
    ends[:, -1] = 1.0
    component = np.argmax(rng.random((m, n))[:, :, None] < ends, axis=2)
    drawn = np.empty((m, n, d))
    noise_deviations = np.sqrt(table.noise)
    for c in range(len(mixture.means)):
        draw, row = np.nonzero(component == c)
        if not row.size:
            continue
        z = mixture.draws(c, row.size, rng)
        x = z + noise_deviations[row] * rng.standard_normal((row.size, d))
        rows = table.take(row)
        rows = attrs.evolve(rows, values=np.where(rows.precisions > 0.0, x, 0.0))
        [means] = mixture.centred(c).conditional_means(rows)
        deviations = z - means
        if scales is not None:
            deviations *= scales[row]
        drawn[draw, row] = cells.means[c, row] + deviations
    return drawn


def conditional_numbers(
    mixture: Any, table: IncompleteRows, rows: IntArray, observed: IntArray, places: IntArray
) -> tuple[Array, Array, Array]:
    """Joint distributions of numbers of z; arguments as the method of ``RowMixture`` has them.

    Returned last is what an observed number adds to the means (C x g x o x m).
    """
    inside = places[:, :, None], places[:, None, :]
    across = observed[:, :, None], places[:, None, :]
    around = observed[:, :, None], observed[:, None, :]
    noise = table.noise[rows[: len(observed), None], observed]
    values = table.values[rows[:, None], observed]
    means, covariances, all_weights = [], [], []
    for mean, covariance in zip(mixture.means, mixture.covariances, strict=True):
        system = covariance[around] + noise[:, :, None] * np.eye(observed.shape[1])
        weights = np.linalg.solve(system, covariance[across])
        deviations = values - mean[observed]
        means.append(mean[places] + (deviations[:, None] @ weights)[:, 0])
        covariances.append(covariance[inside] - covariance[across].swapaxes(1, 2) @ weights)
        all_weights.append(weights)
    return np.array(means), np.array(covariances), np.array(all_weights)


def moments_of(weights: Array, means: Array, variances: Array) -> tuple[Array, Array]:
    """Return mean and variance of mixtures whose components are along the first axis."""
    mean, variance = np.zeros((2, *np.broadcast_shapes(weights.shape, means.shape)[1:]))
    for weight, of_component in zip(weights, means, strict=True):  # one by one to save memory
        mean += weight * of_component
    for weight, of_component, within in zip(weights, means, variances, strict=True):
        squares = np.square(of_component - mean)
        squares += within
        variance += weight * squares
    return mean, variance


def rows_by_pattern(observed: Mask) -> Iterator[tuple[IntArray, IntArray]]:
    """Rows that are solved together: (b,), and where they are observed.

    The places are (1 x m) of rows that are observed at the same, (b x m) of rows that are observed
    at equally many.
    """
    observed_rows = np.flatnonzero(observed.any(axis=1))
    packed = np.packbits(observed[observed_rows], axis=1)
    _, pattern = np.unique(packed, axis=0, return_inverse=True)
    order = np.argsort(pattern.ravel(), kind="stable")
    sizes = np.bincount(pattern.ravel())
    rare_rows = [observed_rows[:0]]
    for rows in np.split(observed_rows[order], np.cumsum(sizes)[:-1]):
        places = np.flatnonzero(observed[rows[:1]].any(axis=0))
        if rows.size > 1 and rows.size * places.size**2 >= LEAST_NUMBERS_OF_PATTERN:
            yield rows, places[None]
        else:
            rare_rows.append(rows)
    others = np.concatenate(rare_rows)
    counts = np.count_nonzero(observed[others], axis=1)
    for m in np.unique(counts):
        rows_of_count = others[counts == m]
        size = max(1, BATCH_NUMBERS // int(m) ** 2)
        for first in range(0, rows_of_count.size, size):
            members = rows_of_count[first : first + size]
            yield members, np.nonzero(observed[members])[1].reshape(members.size, int(m))
