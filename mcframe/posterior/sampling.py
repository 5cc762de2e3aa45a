"""The exact reading of a posterior of factors: draws by chains, as many as answers need.

``FactorChains`` makes the steps. Here are the run, which ends when Monte Carlo errors are small,
what it is judged by, and the draws as an engine that answers like the variational one.
"""

import time
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from scipy.special import ndtri

from mcframe.backends.backend import Budget
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.endings import Ending, Status, StopReason
from mcframe.contracts.limits import BATCH_NUMBERS, STORED_NUMBERS
from mcframe.contracts.stored_classes import stored
from mcframe.posterior.chain_diagnostics import SamplerDiagnostics, effective_sizes, r_hats
from mcframe.posterior.chains import ChainPriors, FactorChains
from mcframe.posterior.engine import SingleDistribution
from mcframe.posterior.factor_state import Design
from mcframe.posterior.factors import FactorPosterior
from mcframe.posterior.observed import Observed
from mcframe.runtime.machine import OutOfTime, check_time, stop_at
from mcframe.runtime.progress import current

# Chains side by side.
CHAINS = 8
# The default Monte Carlo error of a mean, in posterior standard deviations: 400 effective draws.
SAMPLER_TOL = 0.05
# The sweeps before the first look at the draws, and their growth from one look to the next.
FIRST_LOOK, LOOK_GROWTH = 150, 1.4
# The first of all sweeps, which are discarded.
BURN_IN_SHARE = 1.0 / 3.0
# The most sweeps, if no number is given.
SAMPLER_SWEEPS = 20_000
# The fewest sweeps, of which both halves of what is kept can be compared.
FEWEST_SWEEPS = 6
# Numbers of z whose draws are watched, and columns whose noise is.
WATCHED_CELLS, WATCHED_COLUMNS = 100, 20
# Draws that are kept.
MOST_DRAWS, FEWEST_DRAWS = 1000, 80
# Steps in which new rows are drawn given each draw of the columns.
STEPS_OF_NEW_ROWS = 30


@stored
@attrs.frozen(eq=False)
class SampledFactors(SingleDistribution):
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
    """

    observed: Observed
    design: Design
    rows: Array
    columns: Array
    priors: ChainPriors
    weight: float | None
    evidence: float
    diagnostics: SamplerDiagnostics

    def __str__(self) -> str:
        one = self.diagnostics
        quality = f"R-hat {one.r_hat:.3f}, {one.effective_draws:.0f} effective"
        return f"draws      {one.n_draws} ({quality})"

    @property
    def n_factors(self) -> int:
        """The number of factors."""
        return self.design.n_factors

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
        return len(self.rows)

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

    def likelihoods(self, name: str) -> Sequence[Any]:
        """The likelihood of a block: one for all draws, or one each where it has parameters."""
        pairs = zip(self.observed.blocks, self.priors.parameters, strict=True)
        [(block, parameters)] = [pair for pair in pairs if pair[0].block.name == name]
        if not parameters.size:
            return (block.likelihood,)
        parametric: Any = block.unfitted
        return tuple(map(parametric.with_parameters, parameters))

    @property
    def normal_nodes(self) -> Array:
        """A standard normal number for each draw: quantiles in equal steps, in random order."""
        order = np.random.default_rng(0).permutation(self.n_draws)
        return np.asarray(ndtri((order + 0.5) / self.n_draws))

    def mixture(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array, Array]:
        """Weights, means and variances (draws x N) of z at cells, effects included.

        Draws have no variance: noise that is part of predictors is drawn with them.
        """
        means = np.einsum("snk,snk->sn", self.rows[:, rows], self.columns[:, columns])
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

    def condition(self, observed: Observed) -> "SampledFactors":
        """The posterior of new rows with these entries, columns and priors as they are."""
        rng = np.random.default_rng(0)
        n_rows, width = observed.shape[0], self.design.width
        rows = np.empty((self.n_draws, n_rows, width))
        step = max(BATCH_NUMBERS // max(observed.n_numbers, n_rows), 1)
        for first in range(0, self.n_draws, step):
            draws = np.arange(first, min(first + step, self.n_draws))
            begin = np.repeat(self.design.row_fixed_values, draws.size * n_rows, axis=0)
            chains = FactorChains(
                observed,
                self.design,
                [begin, self.columns[draws].reshape(-1, width)],
                self.priors.take(draws),
                self.weight,
                rng,
                learns_priors=False,
            )
            for _ in range(STEPS_OF_NEW_ROWS if chains.needs_acceptance(None) else 1):
                chains.draw_factors((0,))
            rows[draws] = chains.rows
        return attrs.evolve(self, observed=observed, rows=rows)


@attrs.define(eq=False)
class Watch:
    """The numbers whose chains are watched, sweep after sweep.

    Attributes
    ----------
    rows, columns : arrays (N,)
        Cells of z, drawn at random among all.
    noise_columns : array
    traces : list of arrays (chains x numbers)
    """

    rows: IntArray
    columns: IntArray
    noise_columns: IntArray
    traces: list[Array] = attrs.field(factory=list)

    @classmethod
    def of(cls, observed: Observed, rng: np.random.Generator) -> "Watch":
        """Some cells and columns."""
        n_rows, n_columns = observed.shape
        cells = rng.choice(n_rows * n_columns, min(WATCHED_CELLS, n_rows * n_columns), False)
        learned = observed.columns_with_noise
        noisy = rng.choice(learned, min(WATCHED_COLUMNS, learned.size), replace=False)
        return cls(cells // n_columns, cells % n_columns, np.sort(noisy).astype(np.intp))

    def look(self, chains: FactorChains) -> None:
        """Note where the chains are."""
        priors = chains.priors
        z = np.einsum("cnk,cnk->cn", chains.rows[:, self.rows], chains.columns[:, self.columns])
        blocks = [b for b, noise in enumerate(chains.predictor_noise) if noise is not None]
        with np.errstate(divide="ignore"):
            logs = np.log(priors.noise[:, self.noise_columns])
        parts = [z, logs, priors.predictor_deviations[:, blocks], *priors.parameters]
        self.traces.append(np.concatenate(parts, axis=1))

    def draws(self, discarded: int) -> Array:
        """The numbers that were noted since then (chains x sweeps x numbers)."""
        return np.array(self.traces[discarded:]).transpose(1, 0, 2)


@attrs.define(eq=False)
class KeptDraws:
    """States of the chains at evenly spaced sweeps, at most three times ``capacity`` of these.

    So that what is left of them without the first third, after every other one has been dropped,
    is never much less than the capacity.
    """

    capacity: int
    spacing: int = 1
    states: list[tuple[int, Array, Array, ChainPriors]] = attrs.field(factory=list)

    def offer(self, sweep: int, chains: FactorChains) -> None:
        """Keep a state, if it is one of those that are spaced so."""
        if sweep % self.spacing:
            return
        self.states.append(
            (sweep, chains.rows.copy(), chains.columns.copy(), chains.priors.copy())
        )
        if len(self.states) > 3 * self.capacity:
            self.spacing *= 2
            self.states = [state for state in self.states if state[0] % self.spacing == 0]

    def since(self, discarded: int) -> tuple[Array, Array, ChainPriors]:
        """Rows, columns and priors of draws after so many sweeps, evenly spaced."""
        states = [state for state in self.states if state[0] >= discarded]
        places = np.linspace(0, len(states) - 1, min(self.capacity, len(states)))
        _, rows, columns, priors = zip(*(states[int(p)] for p in places.round()), strict=True)
        return np.concatenate(rows), np.concatenate(columns), ChainPriors.joined(priors)


def sample_factors(
    posterior: FactorPosterior, seed: int, budget: Budget
) -> tuple[SampledFactors, Ending]:
    """Draws from the exact posterior, and the reason why they end.

    Chains begin at draws of the variational posterior; ``OutOfTime`` is raised where there is no
    time for a few sweeps. They end when the Monte Carlo error of the
    mean of each watched number is at most ``tol`` posterior standard deviations and R-hat is below
    1.01. The first third of the sweeps is discarded.
    """
    target = 1.0 / budget.tol**2 if budget.tol else np.inf
    rng, began = np.random.default_rng((seed, 1)), time.perf_counter()
    chains = FactorChains.begin(posterior, CHAINS, rng)
    size = sum(array.size for array in chains.numbers)
    most = int(np.clip(STORED_NUMBERS * CHAINS / max(size, 1), FEWEST_DRAWS, MOST_DRAWS))
    watch, kept = Watch.of(posterior.observed, rng), KeptDraws(most // CHAINS)
    ending, next_look, sweep, judged = None, FIRST_LOOK, 0, None
    most_sweeps = max(budget.max_iter, FEWEST_SWEEPS)
    with stop_at(began + budget.max_seconds):
        while ending is None:
            try:
                check_time()
                chains.sweep()
            except OutOfTime:
                ending = Ending(Status.TIME_LIMIT, f"stopped after {sweep} sweeps")
                break
            except KeyboardInterrupt:
                if sweep < 2:
                    raise
                ending = Ending(
                    Status.INTERRUPTED, f"stopped after {sweep} sweeps", StopReason.FROM_OUTSIDE
                )
                break
            watch.look(chains)
            kept.offer(sweep, chains)
            sweep += 1
            if sweep < next_look and sweep < most_sweeps:
                continue
            next_look = int(LOOK_GROWTH * sweep)
            judged = judge(watch, chains, sweep)
            share = min(judged.effective_draws / target, 1.0)
            current().report(
                f"{judged.effective_draws:.0f} of {target:.0f} effective draws", share
            )
            if judged.converged and judged.effective_draws >= target:
                ending = Ending(
                    Status.CONVERGED,
                    f"Monte Carlo errors are at most {1.0 / np.sqrt(target):.2g} posterior"
                    " standard deviations",
                )
            elif sweep >= most_sweeps:
                ending = Ending(Status.ITERATION_LIMIT, f"stopped after {sweep} sweeps")
    if sweep < 2:
        raise OutOfTime
    judged = judge(watch, chains, sweep)
    rows, columns, priors = kept.since(judged.n_discarded)
    diagnostics = attrs.evolve(judged, n_draws=len(rows))
    answer = SampledFactors(
        posterior.observed,
        chains.design,
        rows,
        columns,
        priors,
        chains.weight,
        posterior.evidence,
        diagnostics,
    )
    return answer, ending


def judge(watch: Watch, chains: FactorChains, sweep: int) -> SamplerDiagnostics:
    """R-hat and effective draws of what was watched since the burn-in."""
    discarded = int(BURN_IN_SHARE * sweep)
    draws = watch.draws(discarded)
    if draws.shape[1] < 4:
        r_hat, effective = np.inf, 0.0
    else:
        r_hat = float(np.max(r_hats(draws), initial=1.0))
        sizes = effective_sizes(draws)
        effective = float(np.min(sizes, initial=float(draws.shape[0] * draws.shape[1])))
    return SamplerDiagnostics(
        n_chains=chains.n_chains,
        n_sweeps=sweep,
        n_discarded=discarded,
        n_draws=0,
        r_hat=r_hat,
        effective_draws=effective,
        watched=draws.shape[2],
        acceptance=tuple(map(float, chains.acceptance)),
    )
