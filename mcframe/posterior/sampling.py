"""The exact reading of a posterior: chains run until answers are as exact as they should be.

The run ends when Monte Carlo errors are small, or says that they are not.
"""

import time
from functools import partial

import attrs
import numpy as np

from mcframe.backends.backend import Budget
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.endings import Ending, Status, StopReason
from mcframe.contracts.limits import STORED_NUMBERS
from mcframe.contracts.rounding import TINY
from mcframe.posterior.chain_diagnostics import (
    LARGEST_R_HAT,
    SamplerDiagnostics,
    effective_sizes,
    r_hats,
)
from mcframe.posterior.observed import Observed
from mcframe.posterior.observed_chains import ChainState, ObservedChains
from mcframe.runtime.machine import OutOfTime, check_time, stop_at
from mcframe.runtime.progress import current

# Chains side by side; fewer and longer ones where a table has more entries.
CHAINS, FEW_CHAINS, MANY_ENTRIES = 8, 4, 50_000
# The default Monte Carlo error of a mean, in posterior standard deviations: 400 effective draws.
SAMPLER_TOL = 0.05
# The sweeps before the first look at the draws, and their growth from one look to the next: the
# less, the nearer the effective draws are to those that are needed.
FIRST_LOOK, LOOK_GROWTH, LEAST_LOOK_GROWTH = 150, 1.4, 1.1
# The first of all sweeps, which are discarded.
BURN_IN_SHARE = 1.0 / 3.0
# The most sweeps, if no number is given.
SAMPLER_SWEEPS = 20_000
# The fewest sweeps, of which both halves of what is kept can be compared.
FEWEST_SWEEPS = 6
# Numbers of z whose draws are watched, and columns whose noise is.
WATCHED_CELLS, WATCHED_COLUMNS = 100, 20
# Numbers whose R-hat is found first.
FIRST_JUDGED = 10
# Draws that are kept.
MOST_DRAWS, FEWEST_DRAWS = 1000, 80


@attrs.define(eq=False)
class Watch:
    """The numbers whose chains are watched, sweep after sweep.

    Attributes
    ----------
    rows, columns : arrays (N,)
        Cells of z, drawn at random among all.
    parameter_columns : array
        Columns whose parameters are watched, too.
    traces : list of arrays (chains x numbers)
    """

    rows: IntArray
    columns: IntArray
    parameter_columns: IntArray
    traces: list[Array] = attrs.field(factory=list)

    @classmethod
    def of(cls, chains: ObservedChains, rng: np.random.Generator) -> "Watch":
        """Some cells and columns."""
        n_rows, n_columns = chains.observed.shape
        cells = rng.choice(n_rows * n_columns, min(WATCHED_CELLS, n_rows * n_columns), False)
        columns = chains.watched_columns
        watched = rng.choice(columns, min(WATCHED_COLUMNS, columns.size), replace=False)
        return cls(cells // n_columns, cells % n_columns, np.sort(watched).astype(np.intp))

    def look(self, chains: ObservedChains) -> None:
        """Note where the chains are."""
        z = chains.predictors_at(self.rows, self.columns)
        parameters = chains.parameters_at(self.parameter_columns)
        self.traces.append(np.concatenate([z, parameters], axis=1))

    @staticmethod
    def likely_worst_agree(draws: Array) -> bool:
        """True if R-hat is below 1.01 for some of the numbers (chains x sweeps x N).

        For those whose means differ most between chains: what is quick to say of chains that
        disagree.
        """
        spreads = np.maximum(draws.var(axis=1).mean(axis=0), TINY)
        worst = np.argsort(-draws.mean(axis=1).var(axis=0) / spreads)[:FIRST_JUDGED]
        return largest_r_hat(draws[:, :, worst]) < LARGEST_R_HAT

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
    states: list[tuple[int, ChainState]] = attrs.field(factory=list)

    def offer(self, sweep: int, chains: ObservedChains) -> None:
        """Keep a state, if it is one of those that are spaced so."""
        if sweep % self.spacing:
            return
        self.states.append((sweep, chains.snapshot()))
        if len(self.states) > 3 * self.capacity:
            self.spacing *= 2
            self.states = [state for state in self.states if state[0] % self.spacing == 0]

    def since(self, discarded: int) -> ChainState:
        """The draws after so many sweeps, evenly spaced."""
        states = [state for sweep, state in self.states if sweep >= discarded]
        places = np.linspace(0, len(states) - 1, min(self.capacity, len(states)))
        chosen = [states[int(place)] for place in places.round()]
        return type(chosen[0]).joined(chosen)


def run_chains(
    chains: ObservedChains, rng: np.random.Generator, budget: Budget
) -> tuple[ChainState, SamplerDiagnostics, Ending]:
    """The draws of chains, what is known of their errors, and the reason why they end.

    ``OutOfTime`` is raised where there is no time for a few sweeps. Chains end when the Monte
    Carlo error of the mean of each watched number is at most ``tol`` posterior standard deviations
    and R-hat is below 1.01. The first third of the sweeps is discarded.
    """
    target = 1.0 / budget.tol**2 if budget.tol else np.inf
    began, m = time.perf_counter(), chains.n_chains
    most = int(np.clip(STORED_NUMBERS * m / max(chains.size, 1), FEWEST_DRAWS, MOST_DRAWS))
    watch, kept = Watch.of(chains, rng), KeptDraws(most // m)
    ending, next_look, sweep = None, FIRST_LOOK, 0
    judged: SamplerDiagnostics | None = None
    most_sweeps = max(budget.max_iter, FEWEST_SWEEPS)
    with stop_at(began + budget.max_seconds):
        while ending is None:
            stopped = partial(Ending, message=f"stopped after {sweep} sweeps")
            try:
                check_time()
                chains.sweep()
            except OutOfTime:
                ending = stopped(Status.TIME_LIMIT)
                break
            except KeyboardInterrupt:
                if sweep < 2:
                    raise
                ending = stopped(Status.INTERRUPTED, reason=StopReason.FROM_OUTSIDE)
                break
            watch.look(chains)
            kept.offer(sweep, chains)
            sweep += 1
            if sweep < next_look and sweep < most_sweeps:
                continue
            since_burn_in = watch.draws(int(BURN_IN_SHARE * sweep))
            effective = effective_draws(since_burn_in)
            lacking = target / max(effective, 1.0)
            next_look = int(np.clip(lacking, LEAST_LOOK_GROWTH, LOOK_GROWTH) * sweep)
            current().report(
                f"{effective:.0f} effective draws ({target:.0f} are needed)",
                min(effective / target, 1.0),
            )
            if effective >= target and watch.likely_worst_agree(since_burn_in):
                judged = judge(watch, chains, sweep)
            if judged is not None and judged.n_sweeps == sweep and judged.converged:
                ending = Ending(
                    Status.CONVERGED,
                    f"Monte Carlo errors are at most {1.0 / np.sqrt(target):.2g} posterior"
                    " standard deviations",
                )
            elif sweep >= most_sweeps:
                ending = Ending(Status.ITERATION_LIMIT, f"stopped after {sweep} sweeps")
    if sweep < 2:
        raise OutOfTime
    if judged is None or judged.n_sweeps < sweep:
        judged = judge(watch, chains, sweep)
    draws = kept.since(judged.n_discarded)
    return draws, attrs.evolve(judged, n_draws=draws.n_chains), ending


def judge(watch: Watch, chains: ObservedChains, sweep: int) -> SamplerDiagnostics:
    """R-hat and effective draws of what was watched since the burn-in."""
    discarded = int(BURN_IN_SHARE * sweep)
    draws = watch.draws(discarded)
    return SamplerDiagnostics(
        n_chains=chains.n_chains,
        n_sweeps=sweep,
        n_discarded=discarded,
        n_draws=0,
        r_hat=largest_r_hat(draws),
        effective_draws=effective_draws(draws),
        watched=draws.shape[2],
        acceptance=tuple(map(float, chains.acceptance)),
    )


def effective_draws(draws: Array) -> float:
    """The fewest effective draws of numbers (chains x sweeps x N); 0 of fewer than four sweeps."""
    n_chains, n_sweeps = draws.shape[:2]
    if n_sweeps < 4:
        return 0.0
    return float(np.min(effective_sizes(draws), initial=float(n_chains * n_sweeps)))


def largest_r_hat(draws: Array) -> float:
    """The largest R-hat of numbers (chains x sweeps x N); infinite of fewer than four sweeps."""
    return float(np.max(r_hats(draws), initial=1.0)) if draws.shape[1] >= 4 else np.inf


def chain_count(observed: Observed) -> int:
    """The number of chains: of large tables fewer, so that each is longer in the same time."""
    return CHAINS if observed.n_entries <= MANY_ENTRIES else FEW_CHAINS
