"""The verb ``posterior``."""

import time
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.errors import BackendError, ModelError
from mcframe.contracts.likelihood import ExpectedLogLikelihood, GaussianBound
from mcframe.contracts.rounding import EPS
from mcframe.contracts.validators import whole
from mcframe.likelihoods import Gaussian
from mcframe.model import Model, Problem
from mcframe.numerics.machine import OutOfTime, stop_at
from mcframe.numerics.threads import thread_limit
from mcframe.options import checked_budget, checked_jobs, checked_seed, checked_switch
from mcframe.posterior.answer import Posterior, Sweep
from mcframe.posterior.factors import FactorPosterior, Swept, begin, sweep
from mcframe.posterior.observed import Observed
from mcframe.regularizers import NuclearNorm

# The number of factors to begin with where it is not given, and the most there are.
FIRST_FACTORS = 24
# How far rounding may move the bound, over the sum of the sizes of its terms.
ROUNDING = 1e4 * EPS


def posterior(
    model: Model,
    data: Any,
    *,
    factors: int | str = "auto",
    tol: float = 1e-4,
    max_iter: int = 500,
    max_seconds: float = np.inf,
    random_state: int | None = 0,
    n_jobs: int | None = None,
    progress: bool = False,
) -> Posterior:
    """Find what is likely under a declared model, and how sure it is."""
    with thread_limit(checked_jobs(n_jobs)):
        seed = checked_seed(random_state)
        budget = checked_budget(tol, max_iter, max_seconds)
        problem = Problem.bind(model, data)
        reason = refusal(problem)
        if reason is not None:
            raise BackendError(f"no posterior: {reason}")
        observed = Observed.of(problem)
        began = time.perf_counter()
        weight = weight_of(problem)
        k = n_factors(factors, problem)
        state = begin(observed, k, weight, np.random.default_rng(seed))
        history: list[Sweep] = []
        status, message = "iteration_limit", f"stopped after {budget.max_iter} sweeps"
        before = -np.inf
        with stop_at(began + budget.max_seconds):
            for iteration in range(1, budget.max_iter + 1):
                try:
                    found = sweep(observed, state, weight)
                except OutOfTime:
                    status, message = "time_limit", f"stopped after {max_seconds:g} s"
                    break
                check_rise(before, found, observed.size)
                state = found.state
                seconds = time.perf_counter() - began
                history.append(Sweep(iteration, found.evidence, state.design.n_factors, seconds))
                if progress:
                    print(f"sweep {iteration}: evidence at least {found.evidence:.6g}")
                if found.evidence - before <= budget.tol * observed.n_entries:
                    status, message = "converged", f"a sweep gains at most tol={tol:g} of it"
                    break
                before = found.evidence
        return Posterior(
            problem=problem,
            engine=FactorPosterior(observed, state),
            evidence=history[-1].evidence,
            status=status,
            message=message,
            history=tuple(history),
            random_state=seed,
            tables=problem.tables,
        )


def refusal(problem: Problem) -> str | None:
    """Why a problem has no posterior, as a clause; None if it has one."""
    for block in problem.model.blocks:
        likelihood = problem.likelihoods[block.name]
        if not isinstance(likelihood, GaussianBound | ExpectedLogLikelihood):
            return f"block {block.name!r}: {type(likelihood).__name__} is no distribution of data"
    return None


def weight_of(problem: Problem) -> float | None:
    """The weight of the nuclear norm, None where it is learned."""
    return problem.terms[0].weight


def n_factors(factors: int | str, problem: Problem) -> int:
    """The number of factors."""
    most = min(problem.shape)
    if factors == "auto":
        return min(FIRST_FACTORS, most)
    return whole(factors, "factors", least=0)


def check_rise(before: float, found: Swept, size: int) -> None:
    """Raise an error where the bound has fallen by more than rounding."""
    after = found.evidence
    if after < before - ROUNDING * (abs(before) + abs(after) + size) - 16.0 * found.rounding:
        raise BackendError(
            f"the bound on the evidence fell from {before!r} to {after!r}. This is a bug in"
            " mcframe: please report it with the model and, if possible, the data"
        )
