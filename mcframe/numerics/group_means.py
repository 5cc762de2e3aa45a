"""Means of groups of incomplete rows: ``x = mean of the group + e + noise``, given covariances.

A row of group g is ``x = u_g + e`` at its observed numbers, where e is Gaussian with mean 0 and
covariance W, and noise of its own. The mean u_g of the group is Gaussian itself. With P the
inverse of the covariance of a row's observed numbers, 0 elsewhere, u_g has the precision of its
prior plus the sum of P over the rows of the group, and P x adds to its linear term. All of it is
exact.

Where means move in time, row i has ``u_i = sum_a f_ia c_ga`` with q functions f of its time. The
q coefficients c_ga of a group, d numbers each, are then in the place of its mean: with the
``qd x d`` matrix F of u in the coefficients, F P F' and F P x are what a row adds.
"""

from functools import cached_property

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.limits import BATCH_NUMBERS
from mcframe.contracts.row_groups import GroupMembers
from mcframe.contracts.stored_classes import stored
from mcframe.numerics.kernels import FAST_MATH
from mcframe.numerics.row_mixtures import IncompleteRows, invert, root_of, roots_of
from mcframe.runtime.machine import check_time, compiled, share

# The groups of a table are worked on in at most so many parts, by the size of the table alone.
PARTS = 16


@stored
@attrs.frozen(eq=False)
class GroupMeans:
    """Gaussian distributions of the means of groups, independent of each other.

    Attributes
    ----------
    means : array (G x d)
        Or those of the coefficients of q functions of time (G x qd).
    covariances : array (G x d x d)
        Or (G x qd x qd).
    """

    means: Array
    covariances: Array

    @classmethod
    def same(cls, mean: Array, covariance: Array, n_groups: int) -> "GroupMeans":
        """One distribution that all groups have."""
        return cls(
            np.broadcast_to(mean, (n_groups, *mean.shape)),
            np.broadcast_to(covariance, (n_groups, *covariance.shape)),
        )

    def followed_by(self, others: "GroupMeans") -> "GroupMeans":
        """The means of these groups and of others after them."""
        if not len(others.means):
            return self
        return GroupMeans(
            np.concatenate([self.means, others.means]),
            np.concatenate([self.covariances, others.covariances]),
        )

    def at_any_time(self, width: int) -> "GroupMeans":
        """The means of groups (G x width) at a time that is not known, where they move.

        They are the Gaussians with the moments over the times of the table, at which functions of
        time but the first have mean 0 and mean square 1.
        """
        n_groups = len(self.means)
        coefficients = self.means.reshape(n_groups, -1, width)
        if coefficients.shape[1] == 1:
            return self
        blocks = self.covariances.reshape(n_groups, -1, width, coefficients.shape[1], width)
        moved = coefficients[:, 1:]
        covariances = np.einsum("gaiaj->gij", blocks) + np.einsum("gai,gaj->gij", moved, moved)
        return GroupMeans(coefficients[:, 0], covariances)

    @cached_property
    def roots(self) -> Array:
        """The lower Cholesky factors of the covariances (G x d x d)."""
        if self.covariances.strides[0] == 0:  # one for all groups
            root = root_of(self.covariances[0])
            return np.broadcast_to(root, self.covariances.shape)
        return roots_of(self.covariances)

    def draw(self, rng: np.random.Generator) -> Array:
        """A draw of all means (G x d)."""
        normal = rng.standard_normal((*self.means.shape, 1))
        return np.asarray(self.means + (self.roots @ normal)[..., 0])

    def given(
        self, table: IncompleteRows, members: GroupMembers, covariance: Array
    ) -> "GroupMeans":
        """The distributions given the rows of a table; arguments as in ``given_with_products``."""
        return self.solved(table, members, covariance, needs_products=False)[0]

    def given_with_products(
        self, table: IncompleteRows, members: GroupMembers, covariance: Array
    ) -> tuple["GroupMeans", Array]:
        """The distributions given the rows of a table, and the sum over rows of P V P.

        V is the covariance of the mean of a row's group.

        Parameters
        ----------
        table : IncompleteRows
        members : GroupMembers
            The group of each row.
        covariance : array (d x d)
            W.
        """
        return self.solved(table, members, covariance, needs_products=True)

    def solved(
        self, table: IncompleteRows, members: GroupMembers, covariance: Array, needs_products: bool
    ) -> tuple["GroupMeans", Array]:
        """The distributions, and the sum over rows of P V P, 0 where it is not needed."""
        groups, functions = members.numbers, members.functions
        if functions is None:
            functions = np.ones((groups.size, 1))
        order = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[order], np.arange(len(self.means) + 1))
        means, covariances = np.array(self.means), np.array(self.covariances)
        roots, within = self.roots, np.ascontiguousarray(covariance)
        cuts = np.unique(np.searchsorted(starts, np.linspace(0, order.size, PARTS + 1)))
        cuts[0], cuts[-1] = 0, len(self.means)
        sums = np.zeros((cuts.size, *covariance.shape))

        def part(first: int, last: int) -> None:
            for k in range(first, last):
                groups_of_part = slice(cuts[k], cuts[k + 1])
                check_time()
                means_of_groups(
                    order, starts[cuts[k] : cuts[k + 1] + 1], table.values, table.precisions,
                    functions, within, roots[groups_of_part], means[groups_of_part],
                    covariances[groups_of_part], sums[k], needs_products,
                )  # fmt: skip

        share(part, range(cuts.size))
        return GroupMeans(means, covariances), np.sum(sums, axis=0)


@compiled(nogil=True, fastmath=FAST_MATH)
def inverse_of_row(precisions, covariance, places, panel, columns, factors):  # type: ignore[no-untyped-def]
    """P at the m observed numbers of a row (m x m), whose places are written."""
    count = 0
    for j in range(precisions.size):
        if precisions[j] > 0.0:
            places[count] = j
            count += 1
    inverse = np.empty((count, count))
    for a in range(count):
        for b in range(a + 1):
            inverse[a, b] = covariance[places[a], places[b]]
        inverse[a, a] += 1.0 / precisions[places[a]]
    invert(inverse, panel, columns, factors)
    for a in range(count):
        for b in range(a + 1):
            inverse[a, b] = inverse[b, a] = -inverse[a, b]
    return inverse


@compiled(nogil=True, fastmath=FAST_MATH)
def means_of_groups(  # type: ignore[no-untyped-def]
    order, starts, values, precisions, functions, covariance, roots, means, covariances,
    products, needs_products,
):  # fmt: skip
    """Means and covariances of groups in place of those of their prior, and the sum of P V P.

    The inverses are found twice, since those of a large group would take ``n m^2`` numbers.
    """
    d, q = covariance.shape[0], functions.shape[1]
    places, deviations, identity = np.empty(d, np.int64), np.empty(d), np.eye(q * d)
    panel, columns, factors = np.empty((4, d)), np.empty((4, d)), np.empty((4, d))
    for g in range(starts.size - 1):
        if starts[g] == starts[g + 1]:
            continue
        total, linear = np.zeros((q * d, q * d)), np.zeros(q * d)
        for k in range(starts[g], starts[g + 1]):
            row = order[k]
            inverse = inverse_of_row(precisions[row], covariance, places, panel, columns, factors)
            count = len(inverse)
            for b in range(count):
                deviations[b] = values[row, places[b]]
                for f in range(q):
                    deviations[b] -= functions[row, f] * means[g, f * d + places[b]]
            for a in range(count):
                product = 0.0
                for b in range(count):
                    product += inverse[a, b] * deviations[b]
                for e in range(q):
                    linear[e * d + places[a]] += functions[row, e] * product
            for e in range(q):
                for f in range(q):
                    weight = functions[row, e] * functions[row, f]
                    for a in range(count):
                        for b in range(count):
                            total[e * d + places[a], f * d + places[b]] += weight * inverse[a, b]
        root = np.ascontiguousarray(roots[g])
        inner = identity + np.dot(np.dot(root.T, total), root)
        spread = np.dot(root, np.linalg.solve(inner, np.ascontiguousarray(root.T)))
        covariances[g] = 0.5 * (spread + spread.T)
        means[g] += np.dot(spread, linear)
        if not needs_products:
            continue
        for k in range(starts[g], starts[g + 1]):
            row = order[k]
            inverse = inverse_of_row(precisions[row], covariance, places, panel, columns, factors)
            count = len(inverse)
            seen = np.zeros((count, count))
            for e in range(q):
                for f in range(q):
                    weight = functions[row, e] * functions[row, f]
                    for a in range(count):
                        for b in range(count):
                            seen[a, b] += weight * spread[e * d + places[a], f * d + places[b]]
            around = np.dot(np.dot(inverse, seen), inverse)
            for a in range(count):
                for b in range(count):
                    products[places[a], places[b]] += around[a, b]


def inverses_of_observed(precisions: Array, covariance: Array) -> Array:
    """P of some rows (n x d x d), by their precisions (n x d)."""
    observed = precisions > 0.0
    pairs = observed[:, :, None] & observed[:, None, :]
    systems = np.where(pairs, covariance, np.eye(len(covariance)))
    numbers = np.arange(len(covariance))
    systems[:, numbers, numbers] += np.where(
        observed, 1.0 / np.where(observed, precisions, 1.0), 0
    )
    return np.where(pairs, np.linalg.inv(systems), 0.0)


def variances_added(
    table: IncompleteRows, covariance: Array, of_groups: GroupMeans, members: GroupMembers
) -> Array:
    """The variances of z in rows (n x d) that are due to uncertain means of groups.

    They are the diagonals of ``(I - W P) V (I - W P)'``.
    """
    n, d = table.values.shape
    added, size = np.empty((n, d)), max(1, BATCH_NUMBERS // d**2)
    for first in range(0, n, size):
        rows = slice(first, first + size)
        inverses = inverses_of_observed(table.precisions[rows], covariance)
        responses = np.eye(d) - covariance @ inverses
        spread = responses @ members.take(rows).covariances(of_groups.covariances)
        added[rows] = np.einsum("nij,nij->ni", spread, responses)
    return np.maximum(added, 0.0)


def variances_added_left_out(
    values: Array,
    noise: float,
    covariance: Array,
    of_groups: GroupMeans,
    members: GroupMembers,
    column_of_number: IntArray,
) -> Array:
    """The variances of observed numbers, if missing, that are due to uncertain means of groups.

    Those of a source column are left out together. With Q = P at the numbers B of such a column,
    z_B changes by ``Q_BB^-1 (P du)_B`` where u changes by du. They are n x d, NaN where a number
    is missing.

    Parameters
    ----------
    values : array (n x d)
        NaN where missing.
    noise : float
        The variance of the noise of each number.
    covariance : array (d x d)
    of_groups : GroupMeans
    members : GroupMembers
    column_of_number : array of integers (d,)
        Ascending from 0.
    """
    n, d = values.shape
    added, size = np.full((n, d), np.nan), max(1, BATCH_NUMBERS // d**2)
    observed = ~np.isnan(values)
    for first in range(0, n, size):
        rows = slice(first, first + size)
        seen = observed[rows]
        inverses = inverses_of_observed(np.where(seen, 1.0 / noise, 0.0), covariance)
        spread = members.take(rows).covariances(of_groups.covariances)
        # Columns of one number are all done together.
        diagonals = np.where(seen, np.einsum("nii->ni", inverses), 1.0)
        responses: Array = inverses / diagonals[:, :, None]
        single = np.sum((responses @ spread) * responses, axis=2)
        added[rows] = np.where(seen, single, np.nan)
        for column in np.flatnonzero(np.bincount(column_of_number) > 1):
            places = np.flatnonzero(column_of_number == column)
            added[rows][:, places] = np.nan
            whole = np.flatnonzero(seen[:, places].all(axis=1))
            blocks = inverses[whole][:, places[:, None], places]
            responses = np.linalg.solve(blocks, inverses[whole][:, places])
            variances = np.einsum("nij,njk,nik->ni", responses, spread[whole], responses)
            added[first + whole[:, None], places] = variances
    return added
