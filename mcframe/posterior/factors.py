"""Gaussian factors by variational Bayes: z_ij = x_i'w_j, with distributions of rows and columns.

Row i has K numbers x_i and column j K numbers w_j. The first k are factors. For each block with
effects of rows there is one more: the effect in x_i, and in w_j a 1 for columns of the block. If a
block has biases there is a last one: a 1 in x_i, and the bias in w_j. The posterior is
approximated by a product of one Gaussian for each row and one for each column (Lim and Teh, 2007;
Raiko, Ilin and Karhunen, 2007), which maximises

    sum over entries of E[constant - precision (z - value)^2 / 2] - KL(q(x) || p) - KL(q(w) || p),

a lower bound on the log evidence: each entry counts by the Gaussian pseudo-observation that
``posterior.observed`` makes of it. Variances of noise and precisions of the priors are those that
make it largest.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

import attrs
import numpy as np

from mcframe.compile.partitions.values import fresh_key
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.rounding import EPS
from mcframe.numerics import factor_loops as loops
from mcframe.posterior.factor_columns import (
    Terms,
    best_noise,
    columns_given,
    data_term,
    noise_term,
    rotated,
)
from mcframe.posterior.factor_rows import RowsHere
from mcframe.posterior.factor_state import FactorState, Gaussians
from mcframe.posterior.observed import Observed
from mcframe.posterior.parts import RowsInParts

# Sweeps at first in which variances of noise stay as they begin: a column that has found no factor
# yet would be taken for noise, and stay so.
HELD = 2


@attrs.frozen(eq=False)
class Swept:
    """A state after a sweep, the lower bound on the log evidence, and how far that is rounded.

    ``observed`` has the likelihoods with their fitted parameters.
    """

    observed: Observed
    state: FactorState
    evidence: float
    rounding: float


def sweep(
    rows: RowsHere | RowsInParts, observed: Observed, state: FactorState, learns_noise: bool = True
) -> Swept:
    """A pass over rows, then columns, noise and priors; factors are rotated if that is better.

    ``observed`` has what is known of all blocks; the entries are where the ``rows`` are.
    """
    if observed.fits_parameters:
        observed = rows.fitted(observed, state)
    key = fresh_key()
    sums = rows.sums(observed.summaries, state, key)
    columns, residuals = columns_given(observed, state, sums)
    priors = state.priors
    if learns_noise:
        noise, usual = best_noise(observed, priors, sums, residuals)
        priors = attrs.evolve(priors, noise=noise, usual_noise=usual)
    terms = Terms(observed, state.design)
    turned = rotated(state.design, columns, sums, observed.shape[0], priors.weight)
    columns, sums, priors = max(
        (terms.with_best_priors(priors, columns, sums), terms.with_best_priors(priors, *turned)),
        key=lambda found: terms.of_priors(*found),
    )
    data = data_term(observed, priors, sums, residuals) + noise_term(observed, priors)
    evidence = float(data + terms.of_priors(columns, sums, priors))
    rounding = EPS * float(np.sum(sums.totals[:, 1] / priors.noise))
    state = attrs.evolve(state, columns=columns, priors=priors, key=key)
    return Swept(observed, state, evidence, rounding)


@attrs.frozen(eq=False)
class FactorPosterior:
    """Gaussian factors of some rows, wherever these are, and the columns and priors of a fit.

    ``observed`` has what is known of all blocks.
    """

    rows: RowsHere | RowsInParts
    observed: Observed
    state: FactorState
    ended: bool | None = None

    @property
    def centres(self) -> Array:
        """What biases of the columns of Z are counted from."""
        return np.concatenate([block.centres for block in self.observed.blocks])

    @property
    def noise(self) -> Array:
        """The noise variance of each column of Z, 1 where none is learned."""
        return self.state.priors.noise

    def rows_given(self, rows: IntArray) -> Gaussians:
        """The Gaussians of some rows, which are in ascending order."""
        return self.rows.gaussians(rows, self.observed.summaries, self.state)

    @property
    def n_factors(self) -> int:
        """The number of factors."""
        return self.state.design.n_factors

    def likelihood(self, name: str) -> Any:
        """The likelihood of a block with what was learned of it, but for the noise."""
        return next(own.likelihood for own in self.observed.blocks if own.block.name == name)

    def __str__(self) -> str:
        return f"factors    {self.state.design.n_factors}"

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.observed.shape[0]

    def mixture(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array, Array]:
        """Weights, means and variances (1 x N) of z at cells, effects included."""
        if not rows.size:
            return np.ones((1, 0)), np.zeros((1, 0)), np.zeros((1, 0))
        distinct, which = np.unique(rows, return_inverse=True)
        order = np.argsort(which, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(which))])
        mean, variance = np.empty(rows.size), np.empty(rows.size)
        own, others = self.rows_given(distinct), self.state.columns
        loops.predictor_moments(
            0,
            distinct.size,
            starts,
            columns[order],
            order,
            own.means,
            own.covariances,
            others.means,
            others.covariances,
            mean,
            variance,
        )
        variance += self.own_noise[columns]
        return np.ones((1, rows.size)), (mean + self.centres[columns])[None], variance[None]

    @property
    def own_noise(self) -> Array:
        """The variance of the noise that is part of the predictors of each column of Z."""
        found = np.zeros(self.observed.shape[1])
        for block in self.observed.blocks:
            if block.unknown_noise == "block":
                found[block.columns] = self.noise[block.columns]
        return found

    def draws(self, rows: IntArray, rng: np.random.Generator, m: int) -> Array:
        """Draws of z (m x len(rows) x n_columns), effects included; columns are drawn once."""
        distinct, which = np.unique(rows, return_inverse=True)
        drawn = drawn_from(self.rows_given(distinct), rng, m)
        columns = drawn_from(self.state.columns, rng, m)
        z = np.einsum("mrk,mck->mrc", drawn, columns)[:, which]
        noise = np.sqrt(self.own_noise)
        if noise.any():
            z += noise * rng.standard_normal(z.shape)
        drawn_z: Array = z + self.centres
        return drawn_z

    def condition(self, observed: Observed) -> "FactorPosterior":
        """The posterior of new rows with these entries, columns and priors as they are."""
        return FactorPosterior(RowsHere(observed), observed, self.state)


def drawn_from(gaussians: Gaussians, rng: np.random.Generator, m: int) -> Array:
    """Draws (m x n x K) of Gaussians; given numbers stay as they are.

    By symmetric roots of covariances, which rounding moves by rounding alone: axes may turn.
    """
    where = loops.unpacking(gaussians.means.shape[1])
    values, axes = np.linalg.eigh(gaussians.covariances[:, where])
    roots = axes * np.sqrt(np.maximum(values, 0.0))[:, None, :] @ axes.transpose(0, 2, 1)
    normal = rng.standard_normal((m, *gaussians.means.shape))
    return gaussians.means + np.einsum("nab,mnb->mna", roots, normal)


def factor_sweeps(
    rows: RowsHere | RowsInParts,
    observed: Observed,
    state: FactorState,
    n_before: int = 0,
) -> Iterator[tuple[FactorPosterior, float, float]]:
    """The posterior after each sweep, the bound on the log evidence, and how far it is rounded.

    ``n_before`` sweeps were made before, in another process perhaps.
    """
    for number in count(n_before):
        found = sweep(rows, observed, state, learns_noise=number >= HELD)
        observed, state = found.observed, found.state
        yield FactorPosterior(rows, observed, state), found.evidence, found.rounding
