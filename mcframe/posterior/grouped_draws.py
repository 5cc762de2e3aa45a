"""Draws of rows in groups: means of groups, rows, and both covariances in turn.

Means of groups are drawn given covariances with the rows averaged over, rows given the means, and
covariances given both (data augmentation: Schafer and Yucel, JCGS 2002). One chain, from the
variational distribution.
"""

from collections.abc import Iterator

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.numerics.row_mixtures import IncompleteRows, RowMixture
from mcframe.numerics.rows_in_groups import RowsInGroups
from mcframe.posterior.grouped_rows import GroupedParameters
from mcframe.posterior.row_draws import AUGMENTED_BURN_IN, AUGMENTED_SPACING, DrawnComponents
from mcframe.posterior.rows_parameters import RowsPrior


def drawn_levels(
    parameters: GroupedParameters, table: IncompleteRows, rng: np.random.Generator
) -> Iterator[RowsInGroups]:
    """Draws of the distribution of rows in groups given a table, without end.

    They are those of rows of which no other row is known, as ``GroupedParameters.distribution``.
    """
    rows = table.take(np.flatnonzero((table.precisions > 0.0).any(axis=1)))
    levels = of_variational(parameters, rng)
    sweep = 0
    while True:
        means = levels.conditioned(rows).groups.draw(rng)
        [deviations] = levels.within.drawn(rows.minus(rows.in_groups.means(means)), rng, 1)
        within = drawn_gaussian(parameters.within.prior, deviations, rng)
        between = drawn_gaussian(parameters.between.prior, means, rng)
        levels = rows_of_levels(within, between, parameters.n_groups)
        sweep += 1
        if sweep >= AUGMENTED_BURN_IN and (sweep - AUGMENTED_BURN_IN) % AUGMENTED_SPACING == 0:
            yield levels


def of_variational(parameters: GroupedParameters, rng: np.random.Generator) -> RowsInGroups:
    """A draw from the variational distribution."""
    within, between = (
        mixture_of(DrawnComponents.of_variational(level, 1, rng))
        for level in (parameters.within, parameters.between)
    )
    return rows_of_levels(within, between, parameters.n_groups)


def rows_of_levels(within: RowMixture, between: RowMixture, n_groups: int) -> RowsInGroups:
    """Rows of so many groups, from the Gaussians within groups and of their means."""
    no_mean = attrs.evolve(within, means=np.zeros_like(within.means))
    return RowsInGroups.of_new_groups(no_mean, between, n_groups)


def drawn_gaussian(prior: RowsPrior, rows: Array, rng: np.random.Generator) -> RowMixture:
    """A draw of the Gaussian of which rows (n x d) are draws."""
    component: IntArray = np.zeros((1, len(rows)), dtype=np.intp)
    return mixture_of(DrawnComponents.given_rows(prior, rows[None], component, 1, rng))


def mixture_of(drawn: DrawnComponents) -> RowMixture:
    """The distribution of the rows of one chain."""
    covariances = np.linalg.inv(drawn.precisions[0])
    symmetric = 0.5 * (covariances + covariances.swapaxes(-1, -2))
    return RowMixture(np.zeros(1), drawn.means[0], symmetric)
