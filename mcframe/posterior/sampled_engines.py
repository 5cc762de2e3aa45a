"""Draws of a sampler as engines that answer like variational ones."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np
from scipy.special import ndtri

from mcframe.backends.backend import Budget
from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.endings import Ending
from mcframe.contracts.likelihood import GaussianNoise
from mcframe.contracts.limits import BATCH_NUMBERS
from mcframe.contracts.row_groups import GroupMembers
from mcframe.contracts.stored_classes import stored
from mcframe.numerics.kernels import low_rank_entries
from mcframe.posterior.chain_diagnostics import SamplerDiagnostics
from mcframe.posterior.chains import ChainPriors, FactorChains
from mcframe.posterior.coefficient_draws import AttributedSide, CoefficientDraws
from mcframe.posterior.engine import Engine, SingleDistribution
from mcframe.posterior.factor_state import Design
from mcframe.posterior.factors import FactorPosterior, described_groups
from mcframe.posterior.joint import JointPosterior
from mcframe.posterior.observed import Observed
from mcframe.posterior.row_chains import RowChains, RowDraws
from mcframe.posterior.sampling import chain_count, run_chains

# Steps in which new rows are drawn given each draw of the columns.
STEPS_OF_NEW_ROWS = 30


class SampledDistribution(SingleDistribution):
    """An engine of draws, as far as it does not matter what is drawn."""

    diagnostics: SamplerDiagnostics

    @property
    def likelihood_parameters(self) -> tuple[Array, ...]:
        """The parameters of the likelihood of each block (draws x p)."""
        raise NotImplementedError

    def __str__(self) -> str:
        one = self.diagnostics
        quality = f"R-hat {one.r_hat:.3f}, {one.effective_draws:.0f} effective"
        return f"draws      {one.n_draws} ({quality})"

    @property
    def n_steps(self) -> int:
        """The sweeps of the chains."""
        return self.diagnostics.n_sweeps

    @property
    def converged(self) -> bool:
        """True if chains agree: R-hat is below 1.01."""
        return self.diagnostics.converged

    @property
    def rounding(self) -> float:
        """0: no bound moves."""
        return 0.0

    @property
    def n_draws(self) -> int:
        """The number of draws."""
        return self.diagnostics.n_draws

    def likelihoods(self, name: str) -> Sequence[Any]:
        """The likelihood of a block: one for all draws, or one each where it has parameters."""
        pairs = zip(self.observed.blocks, self.likelihood_parameters, strict=True)
        [(block, parameters)] = [pair for pair in pairs if pair[0].block.name == name]
        if not parameters.size:
            return (block.likelihood,)
        parametric: Any = block.unfitted
        return tuple(map(parametric.with_parameters, parameters))

    def batches_of_draws(self, n_numbers: int) -> list[IntArray]:
        """The draws, as many at a time as new rows of so many numbers are drawn for together."""
        step = max(BATCH_NUMBERS // max(n_numbers, 1), 1)
        return np.split(np.arange(self.n_draws), range(step, self.n_draws, step))


@stored(formerly=("mcframe.posterior.sampling.SampledFactors",))
@attrs.frozen(eq=False)
class SampledFactors(SampledDistribution):
    """Draws from the exact posterior of Gaussian factors, as the engine of a ``Posterior``.

    Attributes
    ----------
    observed : Observed
    design : Design
    rows, columns : arrays (draws x n_rows x K), (draws x n_columns x K)
    priors : ChainPriors
        Precisions, noise and parameters of each draw.
    weight : float or None
    evidence : float
        The bound of the variational posterior at which chains began.
    diagnostics : SamplerDiagnostics
    attributed : tuple of AttributedSide
        The attributes of rows and of columns; () where there are none.
    coefficients : tuple of CoefficientDraws
        Those of these attributes in each draw.
    """

    observed: Observed
    design: Design
    rows: Array
    columns: Array
    priors: ChainPriors
    weight: float | None
    evidence: float
    diagnostics: SamplerDiagnostics
    attributed: tuple[AttributedSide, ...] = ()
    coefficients: tuple[CoefficientDraws, ...] = ()

    @property
    def n_factors(self) -> int:
        """The number of factors."""
        return self.design.n_factors

    @property
    def likelihood_parameters(self) -> tuple[Array, ...]:
        """The parameters of the likelihood of each block (draws x p)."""
        return self.priors.parameters

    @property
    def factor_precisions(self) -> Array:
        """Medians over draws of the smallest precision of a factor, the second one, and so on."""
        return np.asarray(np.median(np.sort(self.priors.factors, axis=1), axis=0))

    @property
    def noise(self) -> Array:
        """The noise variances of the columns of Z (draws x n_columns), 1 where none is drawn."""
        return self.priors.noise

    @property
    def predictor_noise(self) -> Array:
        """Variances of the noise that is part of predictors (draws x n_columns)."""
        variances = np.zeros(self.noise.shape)
        for b, block in enumerate(self.observed.blocks):
            deviations = self.priors.predictor_deviations[:, b, None]
            variances[:, block.columns] = np.square(deviations)
        return variances

    @property
    def normal_nodes(self) -> Array:
        """A standard normal number for each draw: quantiles in equal steps, in random order."""
        order = np.random.default_rng(0).permutation(self.n_draws)
        return np.asarray(ndtri((order + 0.5) / self.n_draws))

    def mixture(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array, Array]:
        """Weights, means and variances (draws x N) of z at cells, effects included.

        Draws have no variance: noise that is part of predictors is drawn with them.
        """
        means = low_rank_entries(rows, columns, self.rows, self.columns)
        means += self.observed.centres[columns]
        noise = np.sqrt(self.predictor_noise[:, columns])
        if noise.any():
            means += noise * self.normal_nodes[:, None]
        return np.full(means.shape, 1.0 / self.n_draws), means, np.zeros(means.shape)

    def draws(self, rows: IntArray, rng: np.random.Generator, m: int) -> Array:
        """Draws of z (m x len(rows) x n_columns), effects included."""
        numbers = self.draw_numbers(m)
        drawn, columns = self.rows[numbers][:, rows], self.columns[numbers]
        z = np.einsum("mrk,mck->mrc", drawn, columns)
        noise = np.sqrt(self.predictor_noise[numbers])[:, None]
        if noise.any():
            z += noise * rng.standard_normal(z.shape)
        return np.asarray(z + self.observed.centres)

    @property
    def attributes(self) -> dict[str, str]:
        """The groups of attributes on which prior means depend, as text."""
        return described_groups([side.groups for side in self.attributed])

    def with_row_attributes(self, attributes: Any, observed: Observed) -> "SampledFactors":
        """The draws with the attributes of the rows that have these entries."""
        if not self.attributed:
            return self
        rows, columns = self.attributed
        return attrs.evolve(self, attributed=(rows.of_new_rows(attributes, observed), columns))

    def condition(
        self, observed: Observed, members: GroupMembers | None = None
    ) -> "SampledFactors":
        """The posterior of new rows with these entries, columns and priors as they are."""
        rng = np.random.default_rng(0)
        n_rows, width = observed.shape[0], self.design.width
        rows = np.empty((self.n_draws, n_rows, width))
        absent = (AttributedSide.of(None, observed, side, self.design) for side in (0, 1))
        of_rows, of_columns = self.attributed or absent
        for draws in self.batches_of_draws(max(observed.n_numbers, n_rows)):
            begin = np.repeat(self.design.row_fixed_values, draws.size * n_rows, axis=0)
            chains = FactorChains(
                observed,
                rng,
                self.design,
                [begin, self.columns[draws].reshape(-1, width)],
                self.priors.take(draws),
                self.weight,
                (of_rows, of_columns),
                self.coefficients_of(draws),
                learns_priors=False,
            )
            for _ in range(STEPS_OF_NEW_ROWS if chains.needs_acceptance(None) else 1):
                chains.draw_factors((0,))
            rows[draws] = chains.rows
        return attrs.evolve(self, observed=observed, rows=rows)

    def coefficients_of(self, draws: IntArray) -> tuple[CoefficientDraws, CoefficientDraws]:
        """The coefficients of attributes of rows and columns in some draws, perhaps of none."""
        if not self.coefficients:
            absent = CoefficientDraws.absent(draws.size, self.design.width)
            return absent, absent
        rows, columns = (one.take(draws) for one in self.coefficients)
        return rows, columns


@stored
@attrs.frozen(eq=False)
class SampledRows(SampledDistribution):
    """Draws from the exact posterior of Gaussian rows, as the engine of a ``Posterior``.

    Attributes
    ----------
    observed : Observed
    rows : RowDraws
    noise : array (d,)
        The variance of each column of Z, of Gaussian blocks that do not declare it.
    evidence : float
        The bound of the variational posterior at which chains began.
    diagnostics : SamplerDiagnostics
    """

    observed: Observed
    rows: RowDraws
    noise: Array
    evidence: float
    diagnostics: SamplerDiagnostics

    @property
    def n_factors(self) -> int:
        """The number of Gaussians that are mixed."""
        return self.rows.components.count

    @property
    def likelihood_parameters(self) -> tuple[Array, ...]:
        """The parameters of the likelihood of each block (draws x p)."""
        return self.rows.parameters

    @cached_property
    def gaussian_entries(self) -> tuple[Array, Array, Mask]:
        """Values and precisions of Gaussian entries, and where the others are (n x d each)."""
        chains = RowChains(self.observed, np.random.default_rng(0), None, self.rows, self.noise)
        values, precisions = np.zeros((2, *self.observed.shape))
        others = np.zeros(self.observed.shape, dtype=bool)
        rows, columns = self.observed.cells
        for b, block in enumerate(self.observed.blocks):
            cells = rows[block.part], columns[block.part]
            if isinstance(block.likelihood, GaussianNoise):
                value, precision = chains.gaussian_block(b)
                values[cells], precisions[cells] = value, precision[0]
            else:
                others[cells] = True
        return values, precisions, others

    def mixture(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array, Array]:
        """Weights, means and variances (draws x N) of z at cells.

        Each draw has the distribution of the number given the others of its row, mean, covariance
        and the observation, where that is Gaussian or missing; else the draw itself.
        """
        distinct, places = np.unique(rows, return_inverse=True)
        z, components = self.rows.z[:, distinct], self.rows.components
        component = self.rows.component[:, distinct]
        slopes, curvatures = np.zeros(z.shape), np.zeros(z.shape)
        for c in range(components.count):
            members = (component == c)[:, :, None]
            precisions = components.precisions[:, c]
            products = (z - components.means[:, None, c]) @ precisions
            slopes = np.where(members, products, slopes)
            diagonal = np.einsum("mii->mi", precisions)[:, None]
            curvatures = np.where(members, diagonal, curvatures)
        values, noise_precisions, others = (part[rows, columns] for part in self.gaussian_entries)
        at = z[:, places, columns]
        precision = curvatures[:, places, columns] + noise_precisions
        shifts = (slopes[:, places, columns] + noise_precisions * (at - values)) / precision
        means, variances = (
            np.where(others, at, at - shifts),
            np.where(others, 0.0, 1.0 / precision),
        )
        return np.full(means.shape, 1.0 / self.n_draws), means, variances

    def draws(self, rows: IntArray, rng: np.random.Generator, m: int) -> Array:
        """Draws of z (m x len(rows) x n_columns)."""
        return np.asarray(self.rows.z[self.draw_numbers(m)][:, rows])

    def condition(self, observed: Observed, members: GroupMembers | None = None) -> "SampledRows":
        """The posterior of new rows with these entries, mean and covariance as they are."""
        rng, n_rows, parts = np.random.default_rng(0), observed.shape[0], []
        for draws in self.batches_of_draws(n_rows * observed.shape[1]):
            chosen = self.rows.take(draws)
            component = np.zeros((draws.size, n_rows), dtype=np.intp)
            begin = np.repeat(chosen.components.means[:, :1], n_rows, axis=1)
            state = attrs.evolve(chosen, z=begin, component=component)
            chains = RowChains(observed, rng, None, state, self.noise, learns_priors=False)
            for _ in range(STEPS_OF_NEW_ROWS if chains.needs_acceptance() else 1):
                chains.draw_rows()
            parts.append(chains.state)
        return attrs.evolve(self, observed=observed, rows=RowDraws.joined(parts))


def sampled(posterior: Engine, seed: int, budget: Budget) -> tuple[Engine, Ending]:
    """Draws from the exact posterior, and the reason why they end.

    Chains begin at draws of the variational posterior; ``OutOfTime`` is raised where there is no
    time for a few sweeps.
    """
    rng, evidence = np.random.default_rng((seed, 1)), posterior.evidence
    n_chains = chain_count(posterior.observed)
    if isinstance(posterior, FactorPosterior):
        chains = FactorChains.begin(posterior, n_chains, rng)
        draws, diagnostics, ending = run_chains(chains, rng, budget)
        of_factors: Any = draws
        parts = of_factors.rows, of_factors.columns, of_factors.priors, chains.weight
        attributes: Any = ()
        if posterior.state.has_attributes:
            attributes = chains.attributes, of_factors.coefficients
        answer = evidence, diagnostics, *attributes
        return SampledFactors(posterior.observed, chains.design, *parts, *answer), ending
    assert isinstance(posterior, JointPosterior)
    of_rows = RowChains.begin(posterior, n_chains, rng)
    draws, diagnostics, ending = run_chains(of_rows, rng, budget)
    assert isinstance(draws, RowDraws)
    return (
        SampledRows(posterior.observed, draws, posterior.noise, evidence, diagnostics),
        ending,
    )
