"""Gaussian rows in groups: the means of groups are Gaussian, and rows are about these means.

``z_i = u_g(i) + e_i`` with ``u_g ~ N(mean, B)`` between groups and ``e_i ~ N(0, W)`` within them:
the normal model of two levels (Schafer and Yucel, Computational strategies for multivariate linear
mixed-effects models with missing values, JCGS 2002). Rows and means of groups are found together
given covariances, so that the E step is exact. Both levels are Gaussian rows, the first about 0.

Where means of groups move in time, the rows of the second level are the coefficients of functions
of time of each group (random slopes: Laird and Ware, Random-effects models for longitudinal data,
Biometrics 1982).
"""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.stored_classes import stored
from mcframe.numerics.group_means import GroupMeans
from mcframe.numerics.row_mixtures import (
    Expectation,
    IncompleteRows,
    RowMixture,
    expectation,
    root_of,
)
from mcframe.numerics.rows_in_groups import RowsInGroups
from mcframe.posterior.rows_parameters import RowsParameters, RowsPrior, log_determinant
from mcframe.posterior.variational_em import EMParameters

# The prior covariance between groups over the variances of the columns, at first, and what it may
# be: the most probable one is taken, for each function of time. And how many groups it counts as.
BETWEEN_SHARE, BETWEEN_SHARES, PRIOR_GROUPS = 0.1, np.geomspace(1e-3, 10.0, 17), 3.0
# The mean within groups is 0: so many rows say so.
ROWS_OF_ZERO_MEAN = 1e9


@attrs.frozen(eq=False)
class GroupedExpectation:
    """The expectations of both levels, and the evidence of each row and of each group.

    Attributes
    ----------
    evidence : array (n + G,)
    within, between : Expectation
    """

    evidence: Array
    within: Expectation
    between: Expectation


@stored
@attrs.frozen(eq=False)
class GroupedParameters(EMParameters[GroupedExpectation]):
    """The distributions of the parameters within groups and between them.

    Attributes
    ----------
    within : RowsParameters
        Of one component, whose mean is 0.
    between : RowsParameters
        Of one component: mean and covariance of the means of groups, or of their coefficients.
    n_groups : int
    variances : array (d,)
        Of the columns; the prior covariance between groups is a share of them.
    """

    within: RowsParameters
    between: RowsParameters
    n_groups: int
    variances: Array

    @classmethod
    def start(
        cls, alone: RowsParameters, n_groups: int, n_functions: int = 1
    ) -> "GroupedParameters":
        """Parameters with which the steps begin: those of rows without groups within them."""
        prior, zeros = alone.prior, np.zeros_like(alone.means)
        no_mean = {"mean": zeros[0], "mean_rows": ROWS_OF_ZERO_MEAN}
        within = attrs.evolve(
            alone,
            prior=attrs.evolve(prior, **no_mean),
            means=zeros,
            counts=alone.counts + ROWS_OF_ZERO_MEAN,
        )
        variances = np.diag(prior.covariance)
        covariance = BETWEEN_SHARE * np.diag(np.tile(variances, n_functions))
        mean = np.append(alone.means[0], np.zeros((n_functions - 1) * variances.size))
        between = RowsPrior(mean, covariance, PRIOR_GROUPS, False, prior.mean_rows)
        return cls(within, between.without_rows, n_groups, variances)

    @property
    def predictive(self) -> RowMixture:
        """The moments of a new row less the mean of its group."""
        return self.within.predictive

    @property
    def shares_between(self) -> Array:
        """The share of the variance of each column between groups: intra-class correlations.

        Where means of groups move, it is the mean variance between groups at the times of rows.
        """
        between, within = (
            np.diag(mixture.covariances[0]).reshape(-1, self.variances.size).sum(axis=0)
            for mixture in (self.between.predictive, self.within.predictive)
        )
        return np.asarray(between / (between + within))

    @property
    def degrees(self) -> Array:
        """The degrees of freedom of the covariance within groups."""
        return self.within.degrees

    def expectation(self, table: IncompleteRows) -> GroupedExpectation:
        """The expectations over rows and means of groups, of which the next step follows."""
        rows, groups = self.within.expected, self.between.expected
        covariance, members = rows.covariances[0], table.in_groups
        prior = GroupMeans.same(groups.means[0], groups.covariances[0], self.n_groups)
        means, products = prior.given_with_products(table, members, covariance)
        moments = expectation(table.minus(members.means(means.means)), rows)
        scatters = moments.scatters + covariance @ products @ covariance
        deviations = means.means - groups.means[0]
        between = (deviations.T @ deviations + np.sum(means.covariances, axis=0))[None]
        weights = np.full(1, float(self.n_groups))
        shifts = np.sum(deviations, axis=0)[None]
        evidence = self.evidence_of_groups(means, deviations, groups)
        ones = np.ones((self.n_groups, 1))
        return GroupedExpectation(
            np.append(moments.evidence, evidence),
            attrs.evolve(moments, scatters=scatters),
            Expectation(evidence, ones, weights, shifts, between),
        )

    def evidence_of_groups(
        self, means: GroupMeans, deviations: Array, groups: RowMixture
    ) -> Array:
        """The part of the evidence that is due to each group (G,), beside that of its rows.

        Rows count at the expected means of groups. What is left is the log density of these means
        in the prior, less that in their distribution.
        """
        root = groups.roots[0]
        squares = np.sum(np.square(np.linalg.solve(root, deviations.T)), axis=0)
        logs = 2.0 * np.sum(np.log(np.einsum("gjj->gj", means.roots)), axis=1)
        return np.asarray(groups.log_shares[0] + 0.5 * (logs - log_determinant(root) - squares))

    def m_step(self, moments: GroupedExpectation) -> "GroupedParameters":
        """The parameters after a step, with the most probable prior between groups."""
        between, d = self.between, self.variances.size
        for first in range(0, between.prior.mean.size, d):
            steps = []
            for share in BETWEEN_SHARES:
                covariances = np.diag(between.prior.covariance).copy()
                covariances[first : first + d] = share * self.variances
                prior = attrs.evolve(between.prior, covariance=np.diag(covariances))
                steps.append(prior.m_step(moments.between, self.between.means))
            between = max(steps, key=log_probability)
        return attrs.evolve(self, within=self.within.m_step(moments.within), between=between)

    @property
    def distribution(self) -> RowsInGroups:
        """The distribution of rows in these groups, by the moments of new rows and groups."""
        return RowsInGroups.of_new_groups(
            self.within.predictive, self.between.predictive, self.n_groups
        )

    def moments(self, table: IncompleteRows) -> tuple[Array, Array]:
        """Mean and variance of z (n x d) on which the evidence lower bound rests."""
        rows, groups = self.within.expected, self.between.expected
        in_groups = RowsInGroups.of_new_groups(rows, groups, self.n_groups)
        cells = in_groups.conditioned(table).conditionals(table)
        return cells.means[0], cells.variances[0]

    def extrapolated(self, after: "GroupedParameters", length: float) -> "GroupedParameters":
        """``self + length (after - self)``, or ``after`` if those are no parameters."""
        within = self.within.extrapolated(after.within, length)
        between = self.between.extrapolated(after.between, length)
        if within is after.within or between is after.between:
            return after
        return attrs.evolve(after, within=within, between=between)

    def divergence(self) -> float:
        """The Kullback-Leibler divergence of both levels from their priors."""
        return self.within.divergence() + self.between.divergence()


def log_probability(parameters: RowsParameters) -> float:
    """The log probability of the prior that parameters have, means and covariances integrated."""
    prior = parameters.prior
    weights = parameters.degrees - prior.degrees
    scatters = parameters.scatters - prior.rows * prior.covariance
    log_size = np.sum(weights) * log_determinant(root_of(prior.covariance))
    logs = prior.log_probabilities(np.array([prior.rows]), weights, scatters)
    return float(logs[0] - 0.5 * log_size)
