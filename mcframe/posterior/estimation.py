"""Coordinate ascent of a posterior: its sweeps, when they end, and which models have one."""

import os
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import attrs
import numpy as np

from mcframe.backends import Budget
from mcframe.compile.partitions.binding import (
    check_blocks,
    problem_of_partitions,
    refusal_of_reading,
)
from mcframe.compile.partitions.cluster import connected
from mcframe.contracts.errors import BackendError, ModelError, UnobservedWarning
from mcframe.contracts.likelihood import ExpectedLogLikelihood, GaussianBound
from mcframe.contracts.rounding import EPS
from mcframe.contracts.validators import whole
from mcframe.model import Block, Model, Problem
from mcframe.model.binding import worth_a_warning
from mcframe.numerics.machine import OutOfTime, stop_at
from mcframe.numerics.threads import blas_alone, thread_limit
from mcframe.options import checked_budget, checked_jobs, checked_switch
from mcframe.partitions import executor_for, in_partitions, read_partitions
from mcframe.posterior.checkpoint import Checkpoint, Sweep
from mcframe.posterior.factor_rows import RowsHere
from mcframe.posterior.factor_state import initial_state
from mcframe.posterior.factors import SWEEPS_OF_FIXED_NOISE, FactorPosterior, factor_sweeps
from mcframe.posterior.joint import joint_sweeps
from mcframe.posterior.observed import Observed
from mcframe.posterior.parts import RowsInParts, observed_of_part, without_entries
from mcframe.regularizers import GaussianRows, NuclearNorm

# The number of factors where none is given, if the table has so many rows and columns.
FACTORS = 24
# How far rounding may move the bound, over the sum of the sizes of its terms.
ROUNDING = 1e4 * EPS


@attrs.define(eq=False)
class CoordinateAscent:
    """Coordinate ascent of the bound on the log evidence: what it has found, and how it ends.

    Attributes
    ----------
    budget : Budget
    began : float
        The moment when it was asked for.
    progress : bool
        Whether it prints a line at every sweep.
    problem : Problem
    engine : FactorPosterior or JointPosterior
        The distributions of z after the last whole sweep.
    history : list of Sweep
    status, message : str
    checkpoint : Checkpoint or None
        It is called after each sweep.
    """

    budget: Budget
    began: float
    progress: bool
    problem: Any = None
    engine: Any = None
    history: list[Sweep] = attrs.field(factory=list)
    status: str = ""
    message: str = ""
    checkpoint: Checkpoint | None = None

    def run(self, observed: Observed, sweeps: Iterator[Any]) -> None:
        """Take sweeps until one of them raises the bound by little, or the budget ends."""
        with stop_at(self.began + self.budget.max_seconds):
            self.status, self.message = self.outcome(observed, sweeps)
        if self.checkpoint is not None:
            self.checkpoint.write(self.engine, self.history)

    def outcome(self, observed: Observed, sweeps: Iterator[Any]) -> tuple[str, str]:
        """The status after the last sweep, and that in a sentence."""
        budget, history = self.budget, self.history
        n_numbers = int(np.sum(observed.counts))
        least_rise = budget.tol * observed.n_entries
        most_sweeps = len(history) + max(budget.max_iter, 1)
        while True:
            before = history[-1].evidence if history else -np.inf
            if len(history) > SWEEPS_OF_FIXED_NOISE and (
                before - history[-2].evidence <= least_rise
            ):
                said = f"the last sweep raised the evidence by less than tol={budget.tol:g}"
                return "converged", f"{said} an entry"
            if len(history) == most_sweeps:
                return "iteration_limit", f"stopped after {budget.max_iter} sweeps"
            try:
                engine = next(sweeps)
            except np.linalg.LinAlgError:
                raise BackendError(
                    "no posterior: normal equations are singular in double precision, since"
                    " columns or effects are of very different sizes; standardise the"
                    " columns, or take fewer factors"
                ) from None
            except OutOfTime:
                if self.engine is None:
                    raise BackendError(
                        f"max_seconds={budget.max_seconds:g} was given, in which there is not"
                        " one sweep; give more, or fewer factors"
                    ) from None
                return "time_limit", f"stopped after {len(history)} sweeps"
            except KeyboardInterrupt:
                if self.engine is None:
                    raise
                return "interrupted", f"stopped after {len(history)} sweeps"
            check_rise(before, engine.evidence, engine.rounding, n_numbers)
            self.engine = engine
            seconds = time.perf_counter() - self.began
            history.append(Sweep(len(history) + 1, engine.evidence, engine.n_factors, seconds))
            if self.progress:
                evidence = f"log evidence at least {engine.evidence:.6g}"
                print(f"sweep {len(history)}: {evidence}, {engine}")
            if self.checkpoint is not None:
                self.checkpoint(engine, history)
            if engine.converged is not None:
                status = "converged" if engine.converged else "iteration_limit"
                return status, f"the rows took {engine.n_steps} steps"


def check_rise(before: float, after: float, rounding: float, size: int) -> None:
    """Raise an error where the bound has fallen by more than rounding."""
    if after < before - ROUNDING * (abs(before) + abs(after) + size) - 16.0 * rounding:
        raise BackendError(
            f"the bound on the evidence fell from {before!r} to {after!r}. This is a bug in"
            " mcframe: please report it with the model and, if possible, the data"
        )


def estimate(
    model: Model,
    data: Any,
    seed: int,
    *,
    factors: int | str,
    tol: float,
    max_iter: int,
    max_seconds: float,
    n_jobs: int | None,
    progress: bool = False,
    client: Any = None,
    checkpoint: object = None,
    scratch: str | os.PathLike[str] | None = None,
) -> CoordinateAscent:
    """The ascent of the posterior of a model, which has ended; options are those of the verb."""
    with thread_limit(checked_jobs(n_jobs)), blas_alone():
        began = time.perf_counter()
        budget = checked_budget(tol, max_iter, max_seconds)
        ascent = CoordinateAscent(budget, began, checked_switch(progress, "progress"))
        if in_partitions(data):
            with bound_partitions(model, data, client, scratch) as problem:
                rows = RowsInParts(problem.partitions)
                run_on_factors(ascent, problem, seed, factors, checkpoint, rows)
                # Parts, and what a cluster was sent, are not kept for as long as the answer.
                alone = problem.partitions.alone()
                ascent.engine = attrs.evolve(ascent.engine, rows=RowsInParts(alone))
                ascent.problem = attrs.evolve(problem, partitions=alone)
            return ascent
        for name, value in (("client", client), ("scratch", scratch)):
            if value is not None:
                raise ModelError(
                    f"{name} was given, which is for data in partitions, and these are in this"
                    " process as a whole; drop it"
                )
        ascent.problem = problem = Problem.bind(model, data)
        demand_posterior(problem.model, problem.terms)
        [prior] = problem.terms
        if not isinstance(prior, GaussianRows):
            run_on_factors(ascent, problem, seed, factors, checkpoint)
            return ascent
        if factors != "auto":
            raise ModelError(f"factors={factors!r} was given; GaussianRows() has none: drop it")
        if checkpoint is not None:
            raise ModelError(
                "checkpoint was given, and the steps of GaussianRows() are not kept; drop it, and"
                " save the answer by posterior.save(path)"
            )
        observed = Observed.of(problem)
        ascent.run(observed, joint_sweeps(observed, prior, budget.tol, budget.max_iter, seed))
        return ascent


@contextmanager
def bound_partitions(
    model: Model, data: Any, client: Any, scratch: str | os.PathLike[str] | None
) -> Iterator[Any]:
    """The problem of data in partitions, or of collections of Dask, as long as parts are kept."""
    if not isinstance(model, Model):
        raise ModelError(f"{type(model).__name__} was given where a Model is needed")
    demand_posterior(model, model.terms)
    reason = refusal_of_partitions(model)
    if reason is not None:
        raise BackendError(f"no posterior of rows in partitions: {reason}")
    check_blocks(model, data if isinstance(data, Mapping) else data.blocks)
    with connected(client) as cluster:
        partitions = read_partitions(data)
        executor = executor_for(model, partitions, cluster, scratch, form=observed_of_part)
        with closing(executor):
            problem, _ = problem_of_partitions(model, executor)
            for note in worth_a_warning(problem.notes):
                warnings.warn(note, UnobservedWarning, stacklevel=6)
            yield problem


def run_on_factors(
    ascent: CoordinateAscent,
    problem: Any,
    seed: int,
    factors: int | str,
    checkpoint: object,
    parts: RowsInParts | None = None,
) -> None:
    """Run the ascent of Gaussian factors, from the beginning or where a checkpoint ended.

    ``parts`` are the rows in partitions; None where all rows are in this process.
    """
    saved = None
    n_factors = number_of_factors(factors, problem)
    if checkpoint is not None:
        ascent.checkpoint = Checkpoint.at_path(checkpoint, problem, n_factors, seed)
        here = Observed.of_tables(problem, problem.tables) if parts is None else None
        saved = ascent.checkpoint.read(here or without_entries(problem))
    if saved is None:
        observed = Observed.of(problem) if parts is None else parts.observed(problem)
        weight, rng = problem.terms[0].weight, np.random.default_rng(seed)
        state = initial_state(observed, n_factors, weight, rng)
    else:
        observed, state, ascent.history = saved
    evidence = ascent.history[-1].evidence if ascent.history else -np.inf
    engine = FactorPosterior(parts or RowsHere(observed), observed, state, evidence)
    ascent.engine = engine if ascent.history else None
    ascent.run(observed, factor_sweeps(engine, len(ascent.history)))


def number_of_factors(factors: int | str, problem: Problem) -> int:
    """The number of factors, or a ``ModelError``."""
    if factors == "auto":
        return min(FACTORS, *problem.shape)
    if isinstance(factors, str):
        raise ModelError(f'factors={factors!r} was given; "auto" or a whole number is needed')
    return whole(factors, "factors", least=0)


def demand_posterior(model: Model, terms: tuple[Any, ...]) -> None:
    """Raise a ``BackendError`` where a model has no posterior, with the reason."""
    reason = refusal(model, terms)
    if reason is not None:
        raise BackendError(f"no posterior: {reason}")


def refusal_of_partitions(model: Model) -> str | None:
    """Why a model with a posterior has none of rows in partitions, as a clause; None if it has."""
    if not isinstance(model.terms[0], NuclearNorm):
        word = type(model.terms[0]).__name__
        return f"{word} is estimated from all rows in one place; take NuclearNorm()"
    reasons = ((block.name, refusal_of_reading(block)) for block in model.blocks)
    return next((f"block {name!r}: {reason}" for name, reason in reasons if reason), None)


def refusal(model: Model, terms: tuple[Any, ...]) -> str | None:
    """Why a model with these terms has no posterior, as a clause; None if it has one."""
    for block in model.blocks:
        reason = refusal_of_block(block)
        if reason is not None:
            return f"block {block.name!r}: {reason}"
    known = [term for term in terms if isinstance(term, NuclearNorm | GaussianRows)]
    if len(known) != 1:
        return "one prior of Z is needed, NuclearNorm() or GaussianRows()"
    [prior] = known
    for term in terms:
        if term is not prior:
            return f"{term.word} is no part of a density; drop it, or take mc.fit"
    if prior.count_share:
        return "count_share= scales factors by counts, which no density of data does; drop it"
    for block in model.blocks if isinstance(prior, GaussianRows) else ():
        if block.bias or block.row_effects:
            return (
                f"block {block.name!r}: biases and row effects were declared with"
                " GaussianRows, whose mean is an intercept of each column already; drop them"
            )
        if isinstance(block.likelihood, ExpectedLogLikelihood):
            word = type(block.likelihood).__name__
            return f"block {block.name!r}: {word} has none with GaussianRows; take NuclearNorm()"
    return None


def refusal_of_block(block: Block) -> str | None:
    """Why a block's loss has no posterior; None if it has one."""
    if block.reduce == "mean":
        return (
            "reduce='mean' counts all entries together as one, which no likelihood of data does;"
            " drop it"
        )
    if not isinstance(block.likelihood, GaussianBound | ExpectedLogLikelihood):
        word = type(block.likelihood).__name__
        return f"{word} is a loss without a distribution of data; take mc.fit"
    return None
