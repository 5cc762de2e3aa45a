"""Distribution of rows about means of their groups, which are known up to a Gaussian.

A row of group g is ``z = u_g + e`` with ``e ~ N(0, W)`` and ``u_g ~ N(m_g, V_g)``. Given what is
observed of a row, at O, z moves with u as ``(I - W P) u`` does, where P is the inverse of the
covariance of the observed numbers, 0 elsewhere: z has the covariance that it has given u, plus
``(I - W P) V_g (I - W P)'``. Means of groups may move in time, as ``GroupMembers`` has them.
"""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.row_groups import GroupMembers
from mcframe.contracts.stored_classes import stored
from mcframe.numerics.group_means import GroupMeans, variances_added, variances_added_left_out
from mcframe.numerics.row_mixtures import (
    Conditionals,
    IncompleteRows,
    RowMixture,
    conditional_numbers,
)


@stored
@attrs.frozen(eq=False)
class RowsInGroups:
    """``z = u_g + e`` with Gaussian means u of groups and e of one Gaussian.

    Attributes
    ----------
    within : RowMixture
        Of one component with mean 0, of which e is.
    before : GroupMeans
        The distribution of the means of groups without the rows that are conditioned on.
    groups : GroupMeans
        That with these rows.
    new_group : GroupMeans
        The mean of a new group, the one of one group.
    """

    within: RowMixture
    before: GroupMeans
    groups: GroupMeans
    new_group: GroupMeans

    @classmethod
    def of_new_groups(
        cls, within: RowMixture, between: RowMixture, n_groups: int
    ) -> "RowsInGroups":
        """The rows of so many groups, of which no row is known; both of one component."""
        new_group = GroupMeans(between.means, between.covariances)
        groups = GroupMeans.same(new_group.means[0], new_group.covariances[0], n_groups)
        return cls(within, groups, groups, new_group)

    @property
    def is_moving(self) -> bool:
        """True if the means of groups move in time."""
        return self.new_group.means.shape[1] > self.within.means.shape[1]

    @property
    def log_shares(self) -> Array:
        """The logarithm of the share of the one component (1,)."""
        return self.within.log_shares

    @property
    def means(self) -> Array:
        """The mean of a row less that of its group (1 x d)."""
        return self.within.means

    @property
    def covariances(self) -> Array:
        """The covariance within groups (1 x d x d)."""
        return self.within.covariances

    @property
    def variances(self) -> Array:
        """The variance of each column within groups (1 x d)."""
        return self.within.variances

    @property
    def new_row(self) -> RowMixture:
        """The distribution of a row of a new group, at any time."""
        new_group = self.at_any_time.new_group
        covariances = self.within.covariances + new_group.covariances
        return RowMixture(self.within.log_shares, new_group.means, covariances)

    @property
    def at_any_time(self) -> "RowsInGroups":
        """The distribution of rows whose time is not known, where means of groups move."""
        width = self.within.means.shape[1]
        parts = (self.before, self.groups, self.new_group)
        return RowsInGroups(self.within, *(part.at_any_time(width) for part in parts))

    def conditioned(self, table: IncompleteRows) -> "RowsInGroups":
        """The distribution given the rows of a table, these rows alone."""
        groups = self.before.given(table, table.in_groups, self.within.covariances[0])
        return attrs.evolve(self, groups=groups)

    def of_other_rows(self, table: IncompleteRows) -> "RowsInGroups":
        """The distribution of further rows, whose numbers of groups may be of new groups."""
        if table.functions_of_time is None and self.is_moving:
            return self.at_any_time.of_other_rows(table)
        n_new = max(
            int(np.max(table.in_groups.numbers, initial=-1)) + 1 - len(self.groups.means), 0
        )
        new = GroupMeans.same(self.new_group.means[0], self.new_group.covariances[0], n_new)
        joined = self.groups.followed_by(new)
        return attrs.evolve(self, before=joined, groups=joined)

    def offsets(self, table: IncompleteRows) -> Array:
        """The expected means of the groups of rows (n x d)."""
        return table.in_groups.means(self.groups.means)

    def about_means(self, table: IncompleteRows) -> IncompleteRows:
        """The rows less the expected means of their groups."""
        return table.minus(self.offsets(table))

    def evidence(self, table: IncompleteRows) -> tuple[Array, Array]:
        """The log density of rows at the expected means of groups (n,), and ones (n x 1)."""
        return self.within.evidence(self.about_means(table))

    def conditionals(self, table: IncompleteRows) -> Conditionals:
        """The distribution of z in each row, whatever the mean of its group is."""
        offsets, covariance = self.offsets(table), self.within.covariances[0]
        cells = self.within.conditionals(table.minus(offsets))
        added = variances_added(table, covariance, self.groups, table.in_groups)
        return attrs.evolve(cells, means=cells.means + offsets, variances=cells.variances + added)

    def conditional_numbers(
        self, table: IncompleteRows, rows: IntArray, observed: IntArray, places: IntArray
    ) -> tuple[Array, Array]:
        """Joint distributions of some numbers of rows; see ``RowMixture``."""
        about_means = self.about_means(table)
        means, covariances, weights = conditional_numbers(
            self.within, about_means, rows, observed, places
        )
        n, width = rows.size, table.values.shape[1]
        responses: Array = np.zeros((n, places.shape[1], width))
        row, number = np.arange(n)[:, None, None], np.arange(places.shape[1])[None, :, None]
        responses[row[:, :, 0], number[:, :, 0], places] = 1.0
        responses[row, number, observed[:, None, :]] -= weights[0].swapaxes(1, 2)
        spread = responses @ table.in_groups.take(rows).covariances(self.groups.covariances)
        added = spread @ responses.swapaxes(1, 2)
        offsets = self.offsets(table)[rows[:, None], places]
        return means + offsets, covariances + added

    def leave_one_out(
        self,
        values: Array,
        noise: float,
        column_of_number: IntArray,
        members: GroupMembers | None = None,
    ) -> tuple[Array, Array]:
        """Conditional mean and variance of each observed number; see ``row_mixtures``.

        The means of groups are those given all rows.
        """
        assert members is not None  # rows in groups have some
        offsets = members.means(self.groups.means)
        numbers = values - offsets
        predicted, variances = self.within.leave_one_out(numbers, noise, column_of_number)
        added = variances_added_left_out(
            numbers, noise, self.within.covariances[0], self.groups, members, column_of_number
        )
        return predicted + offsets, variances + added

    def drawn(self, table: IncompleteRows, rng: np.random.Generator, m: int) -> Array:
        """m draws of all rows of a table (m x n x d)."""
        drawn = np.empty((m, *table.values.shape))
        for k in range(m):
            offsets = table.in_groups.means(self.groups.draw(rng))
            drawn[k] = offsets + self.within.drawn(table.minus(offsets), rng, 1)[0]
        return drawn
