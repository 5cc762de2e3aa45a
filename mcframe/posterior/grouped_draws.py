"""Draws of rows in groups: means of groups, rows, and both covariances in turn.

Means of groups are drawn given covariances with the rows averaged over, rows given the means, and
covariances given both (data augmentation: Schafer and Yucel, JCGS 2002). One chain, from the
variational distribution.
"""

from collections.abc import Iterator

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.numerics.group_means import GroupMeans
from mcframe.numerics.row_mixtures import IncompleteRows, RowMixture
from mcframe.posterior.grouped_rows import GroupedParameters
from mcframe.posterior.row_draws import AUGMENTED_BURN_IN, AUGMENTED_SPACING, DrawnComponents
from mcframe.posterior.rows_parameters import RowsPrior


@attrs.frozen(eq=False)
class DrawnLevels:
    """A draw of the parameters of rows in groups.

    Attributes
    ----------
    within : RowMixture
        Of one Gaussian, a row less the mean of its group.
    mean : array (d,)
    between : array (d x d)
        Of the means of groups.
    """

    within: RowMixture
    mean: Array
    between: Array

    @property
    def new_row(self) -> RowMixture:
        """The distribution of a row of a new group."""
        return RowMixture(
            self.within.log_shares, self.mean[None], self.within.covariances + self.between
        )

    def means_given(self, table: IncompleteRows, n_groups: int) -> GroupMeans:
        """The means of so many groups given the rows of a table."""
        prior = GroupMeans.same(self.mean, self.between, n_groups)
        return prior.given(table, table.members, self.within.covariances[0])

    def rows(self, table: IncompleteRows, means: Array, rng: np.random.Generator) -> Array:
        """A draw of the rows of a table (n x d) given means of groups (G x d)."""
        offsets = means[table.members]
        return np.asarray(offsets + self.within.drawn(table.minus(offsets), rng, 1)[0])


def drawn_levels(
    parameters: GroupedParameters, table: IncompleteRows, rng: np.random.Generator
) -> Iterator[DrawnLevels]:
    """Draws of the parameters of rows in groups given a table, without end."""
    rows = table.take(np.flatnonzero((table.precisions > 0.0).any(axis=1)))
    levels = of_variational(parameters, rng)
    sweep = 0
    while True:
        means = levels.means_given(rows, parameters.n_groups).draw(rng)
        deviations = levels.rows(rows, means, rng) - means[rows.members]
        within = drawn_gaussian(parameters.within.prior, deviations, rng)
        between = drawn_gaussian(parameters.between.prior, means, rng)
        no_mean = attrs.evolve(within, means=np.zeros_like(within.means))
        levels = DrawnLevels(no_mean, between.means[0], between.covariances[0])
        sweep += 1
        if sweep >= AUGMENTED_BURN_IN and (sweep - AUGMENTED_BURN_IN) % AUGMENTED_SPACING == 0:
            yield levels


def of_variational(parameters: GroupedParameters, rng: np.random.Generator) -> DrawnLevels:
    """A draw from the variational distribution."""
    within, between = (
        mixture_of(DrawnComponents.of_variational(level, 1, rng))
        for level in (parameters.within, parameters.between)
    )
    no_mean = attrs.evolve(within, means=np.zeros_like(within.means))
    return DrawnLevels(no_mean, between.means[0], between.covariances[0])


def drawn_gaussian(prior: RowsPrior, rows: Array, rng: np.random.Generator) -> RowMixture:
    """A draw of the Gaussian of which rows (n x d) are draws."""
    component: IntArray = np.zeros((1, len(rows)), dtype=np.intp)
    return mixture_of(DrawnComponents.given_rows(prior, rows[None], component, 1, rng))


def mixture_of(drawn: DrawnComponents) -> RowMixture:
    """The distribution of the rows of one chain."""
    covariances = np.linalg.inv(drawn.precisions[0])
    symmetric = 0.5 * (covariances + covariances.swapaxes(-1, -2))
    return RowMixture(np.zeros(1), drawn.means[0], symmetric)
