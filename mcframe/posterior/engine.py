"""What a posterior asks of the distributions of z, whether these are of factors or of rows."""

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import Likelihood
from mcframe.contracts.row_groups import GroupMembers
from mcframe.posterior.chain_diagnostics import SamplerDiagnostics
from mcframe.posterior.observed import Observed


class Engine(Protocol):
    """The distributions of all numbers of z after a sweep.

    ``FactorPosterior``, ``JointPosterior``, ``SampledFactors`` and ``SampledRows`` are such. They
    print what was estimated, and how many there are of it.
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
        """The distance by which rounding may move the bound."""
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
        """The noise variance of each column of Z, (n_columns,) or (draws x n_columns)."""
        ...

    def mixture(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array, Array]:
        """Weights, means and variances (C x N) of z at cells."""
        ...

    def limits_at(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array] | None:
        """Limits of new observations at cells of Z, (N,) in standard units; None without any.

        Infinite where there is none. The mixtures of z are those without these limits.
        """
        ...

    def draws(self, rows: IntArray, rng: np.random.Generator, m: int) -> Array:
        """Draws of z (m x len(rows) x n_columns)."""
        ...

    def condition(self, observed: Observed, members: GroupMembers | None = None) -> Self:
        """The distributions of z in new rows with these entries, perhaps in groups."""
        ...

    def with_row_attributes(self, attributes: Any, observed: Observed) -> Self:
        """The distributions of rows with these attributes, before ``condition``."""
        ...

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes on which prior means depend, as text."""
        ...

    @property
    def diagnostics(self) -> SamplerDiagnostics | None:
        """The diagnostics of the chains that made the draws; None for a distribution."""
        ...

    @property
    def factor_precisions(self) -> Array | None:
        """Prior precisions of the loadings of factors, ascending; None where there are none."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on what the distributions leave out."""
        ...

    @property
    def n_draws(self) -> int:
        """The number of draws of everything; 1 where there is a distribution in their place."""
        ...

    def likelihoods(self, name: str) -> Sequence[Likelihood]:
        """The likelihood of a block: one, or one of each draw."""
        ...

    def draw_numbers(self, m: int) -> IntArray:
        """Which of its draws are the m that are asked for."""
        ...


class SingleDistribution:
    """An engine of one distribution of z, as far as draws go; engines of draws override it."""

    observed: Observed

    def limits_at(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array] | None:
        """None: there are no limits of observations."""
        return None

    @property
    def n_draws(self) -> int:
        """1: a distribution in the place of draws."""
        return 1

    @property
    def notes(self) -> tuple[str, ...]:
        """No remarks: nothing is left out."""
        return ()

    def with_row_attributes(self, attributes: Any, observed: Observed) -> Self:
        """The distributions of rows without attributes, on which nothing depends."""
        return self

    @property
    def attributes(self) -> dict[str, str]:
        """None: nothing depends on attributes."""
        return {}

    @property
    def factor_precisions(self) -> Array | None:
        """None: there are no factors."""
        return None

    @property
    def diagnostics(self) -> SamplerDiagnostics | None:
        """None: there are no chains."""
        return None

    def likelihoods(self, name: str) -> Sequence[Likelihood]:
        """The likelihood of a block, one for all draws."""
        return (self.observed.likelihood(name),)

    def draw_numbers(self, m: int) -> IntArray:
        """The m draws that are asked for: evenly spaced, or again and again."""
        if m >= self.n_draws:
            return np.arange(m) % self.n_draws
        return np.linspace(0, self.n_draws - 1, m).round().astype(np.intp)
