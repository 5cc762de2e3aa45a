"""Rows that are draws of one Gaussian or of a mixture: declared blocks as pseudo-observations."""

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.posterior.observed import LOG_TWO_PI, Observed
from mcframe.posterior.rows import RowsPosterior, fit_rows, given_rows
from mcframe.regularizers import GaussianRows

# The noise variance of a Gaussian block that does not declare it, over the variance of the
# column's values. It is fixed, since an estimated covariance and noise cannot be identified both.
NOISE = 0.01
# Steps in which the bounds and the rows are found given each other, at most, for new rows.
ROUNDS = 100


@attrs.frozen(eq=False)
class DenseNumbers:
    """A Gaussian observation of each number of z, (n x d) in the order of Z's columns.

    ``values`` are NaN where nothing is observed, ``precisions`` 0; ``constant`` is what the bound
    on the log likelihoods has beyond the densities of these observations.
    """

    values: Array
    precisions: Array
    constant: float

    @classmethod
    def of(
        cls, observed: Observed, noise: Array, moments: tuple[Array, Array] | None
    ) -> "DenseNumbers":
        """The pseudo-observations at these means and variances of z (n x d); None for 0 and 1.

        ``noise`` has the variance of each column of Z, of Gaussian blocks that do not declare it.
        """
        values, precisions = np.full(observed.shape, np.nan), np.zeros(observed.shape)
        constant = 0.0
        rows, columns = observed.cells
        for block in observed.blocks:
            here = block.part
            row, column = rows[here], columns[here]
            mean: Array = np.zeros(row.size)
            variance: Array = np.ones(row.size)
            if moments is not None:
                mean, variance = moments[0][row, column], moments[1][row, column]
            found = block.pseudo_observations(slice(0, block.y.size), mean, variance, 1.0)
            precision = found.precisions
            if block.unknown_noise == "column":
                precision = precision / noise[column]
            seen = precision > 0.0
            values[row[seen], column[seen]] = found.values[seen]
            precisions[row[seen], column[seen]] = precision[seen]
            if block.unknown_noise != "column":
                logs = np.log(precision[seen]) - LOG_TWO_PI
                constant += found.constant - 0.5 * float(np.sum(logs))
        return cls(values, precisions, constant)


@attrs.frozen(eq=False)
class JointPosterior:
    """The posterior of rows of Z, and the noise variance of columns that do not declare it.

    ``ended`` says of Gaussian blocks, which take no sweeps, whether the estimate has converged.
    """

    observed: Observed
    rows: RowsPosterior
    evidence: float
    noise: Array
    ended: bool | None = None

    def likelihood(self, name: str) -> Any:
        """The likelihood of a block."""
        return next(own.likelihood for own in self.observed.blocks if own.block.name == name)

    @property
    def n_factors(self) -> int:
        """The number of Gaussians that are mixed, where ``FactorPosterior`` has factors."""
        return len(self.rows.shares)

    @property
    def components(self) -> Array:
        """The probability (n x C) that a row is of each component."""
        return self.rows.responsibilities

    def mixture(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array, Array]:
        """Weights, means and variances (C x N) of z at cells."""
        return self.rows.mixture(rows, columns)

    def draws(self, rows: IntArray, rng: np.random.Generator, m: int) -> Array:
        """Draws of z (m x len(rows) x n_columns)."""
        return self.rows.draws(rows, rng, m)

    def condition(self, observed: Observed) -> "JointPosterior":
        """The posterior of new rows with these entries."""
        found: RowsPosterior | None = None
        before: Any = np.inf
        for _ in range(ROUNDS):
            moments = None if found is None else found.moments()
            numbers = DenseNumbers.of(observed, self.noise, moments)
            found = self.rows.condition(numbers.values, numbers.precisions)
            mean = found.moments()[0]
            moved = float(np.max(np.abs(mean - before), initial=0.0))
            if not observed.needs_bounds or moved <= 1e-8 * (1.0 + float(np.max(np.abs(mean)))):
                break
            before = mean
        assert found is not None
        return attrs.evolve(self, observed=observed, rows=found)

    def __str__(self) -> str:
        return f"rows       {self.n_factors} Gaussian component(s)"


def joint_sweeps(
    observed: Observed, term: GaussianRows, tol: float, max_steps: int, seed: int
) -> Iterator[JointPosterior]:
    """Yield the posterior: once if all blocks are Gaussian, else after each step without end."""
    noise = NOISE * spreads_of(observed)
    numbers = DenseNumbers.of(observed, noise, None)
    given = numbers.values, numbers.precisions
    if term.covariance is None:
        found = fit_rows(
            *given,
            components=term.components,
            prior_rows=term.prior_rows,
            tol=tol,
            max_steps=max_steps,
            random_state=seed,
        )
    else:
        mean, covariance = term.moments
        found = given_rows(*given, mean, covariance / term.weight)
    if not observed.needs_bounds:
        ended = len(found.history) <= max_steps
        yield JointPosterior(observed, found, found.evidence + numbers.constant, noise, ended)
        return
    while True:
        moments = found.moments()
        rows, columns = observed.cells
        sd = np.sqrt(moments[1][rows, columns])
        observed = observed.fitted(moments[0][rows, columns], sd)
        numbers = DenseNumbers.of(observed, noise, moments)
        found = found.step(numbers.values, numbers.precisions)
        yield JointPosterior(observed, found, found.evidence + numbers.constant, noise)


def spreads_of(observed: Observed) -> Array:
    """The variance of the values of each column of Z about their mean, above 0."""
    found = np.ones(observed.shape[1])
    for block in observed.blocks:
        if block.unknown_noise == "column":
            n_columns = block.centres.size
            counts = np.maximum(np.bincount(block.at, minlength=n_columns), 1)
            away = block.y - (np.bincount(block.at, block.y, n_columns) / counts)[block.at]
            variances = np.bincount(block.at, np.square(away), n_columns) / counts
            found[block.columns] = np.where(variances > 0.0, variances, block.usual_square)
    return found
