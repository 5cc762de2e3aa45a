"""What a posterior asks of the distributions of z, whether these are of factors or of rows."""

from typing import Protocol, Self

import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.posterior.observed import Observed


class Engine(Protocol):
    """The distributions of all numbers of z after a sweep.

    ``FactorPosterior`` and ``JointPosterior`` are such. They print what was estimated, and how
    many there are of it.
    """

    @property
    def observed(self) -> Observed:
        """The entries, with the likelihoods of all blocks."""
        ...

    @property
    def evidence(self) -> float:
        """The lower bound on the log evidence."""
        ...

    @property
    def rounding(self) -> float:
        """How far rounding may move the bound."""
        ...

    @property
    def converged(self) -> bool | None:
        """True if no sweeps were needed, and the estimate has converged; None if sweeps go on."""
        ...

    @property
    def n_steps(self) -> int:
        """The number of steps of an estimate that takes no sweeps."""
        ...

    @property
    def n_factors(self) -> int:
        """The number of factors, or of Gaussians that are mixed."""
        ...

    @property
    def noise(self) -> Array:
        """The noise variance of each column of Z (n_columns,)."""
        ...

    def mixture(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array, Array]:
        """Weights, means and variances (C x N) of z at cells."""
        ...

    def draws(self, rows: IntArray, rng: np.random.Generator, m: int) -> Array:
        """Draws of z (m x len(rows) x n_columns)."""
        ...

    def condition(self, observed: Observed) -> Self:
        """The distributions of z in new rows with these entries."""
        ...
