"""The verb ``posterior``."""

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
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
from mcframe.contracts.likelihood import (
    ExpectedLogLikelihood,
    GaussianBound,
)
from mcframe.contracts.rounding import EPS
from mcframe.contracts.validators import whole
from mcframe.model import Block, Model, Problem
from mcframe.model.binding import worth_a_warning
from mcframe.numerics.machine import OutOfTime, stop_at
from mcframe.numerics.threads import blas_alone, thread_limit
from mcframe.options import checked_budget, checked_jobs, checked_seed, checked_switch
from mcframe.partitions import executor_for, in_partitions, read_partitions
from mcframe.posterior.answer import Posterior, Sweep
from mcframe.posterior.checkpoint import Checkpoint
from mcframe.posterior.factor_rows import RowsHere
from mcframe.posterior.factor_state import begin
from mcframe.posterior.factors import HELD, FactorPosterior, factor_sweeps
from mcframe.posterior.joint import joint_sweeps
from mcframe.posterior.observed import Observed
from mcframe.posterior.parts import RowsInParts, observed_of_part, without_entries
from mcframe.regularizers import GaussianRows, NuclearNorm

# The number of factors where none is given, if the table has so many rows and columns.
FACTORS = 24
# How far rounding may move the bound, over the sum of the sizes of its terms.
ROUNDING = 1e4 * EPS


def posterior(
    model: Model,
    data: Any,
    *,
    factors: int | str = "auto",
    tol: float = 1e-3,
    max_iter: int = 500,
    max_seconds: float = np.inf,
    random_state: int | None = 0,
    n_jobs: int | None = None,
    progress: bool = False,
    client: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> Posterior:
    """Compute the posterior of a model: likely values given the data, with their uncertainty.

    The losses of the model are negative log likelihoods, and its regularizer is the negative
    logarithm of a prior density:

    - ``NuclearNorm(w)`` is the mode of Gaussian factors, since ``||Z||_*`` is the minimum of
      ``(||U||_F^2 + ||V||_F^2) / 2`` over Z = U V'. The posterior is over U and V, with precisions
      1 and w^2. A w below 1e-6 divided by the root mean square of the values counts as that, the
      limit of double precision. ``NuclearNorm()`` without a weight learns one precision for each
      factor, which removes useless factors.
    - ``GaussianRows(covariance, mean)`` has rows that are draws from this Gaussian. Their
      posterior is exact for Gaussian blocks. ``GaussianRows()`` estimates mean and covariance.
      ``GaussianRows(components="auto")`` estimates those of a mixture, and the number of its
      components.

    ``Gaussian(variance=None)`` learns a noise variance for each column; with ``GaussianRows`` it
    is a hundredth of the mean square of the column's values. Biases and row effects are Gaussian,
    with the precision ``effects_weight`` or a learned one.

    Parameters
    ----------
    model : Model
    data : dict from block name to array, DataFrame, scipy.sparse matrix or Observations
        As in ``mc.fit``. Weights multiply log likelihoods; they divide a learned variance. Offsets
        are known. With ``NuclearNorm`` data may also be in partitions of rows, on disk or
        elsewhere, or be collections of Dask, so that no process holds all rows.
    factors : "auto" or int, default "auto"
        The largest number of factors. "auto" is 24, or the length of the shorter side if that is
        less. An error with ``GaussianRows``, which has no factors.
    tol : float, default 1e-3
        Stop after a sweep that raises the bound on the log evidence by less than this for each
        entry. A smaller value finds more evidence with fewer factors; on ratings it predicts less
        well (see the guide).
    max_iter : int, default 500
        The largest number of sweeps. The steps that estimate ``GaussianRows()`` are not sweeps;
        each estimate makes 100 at most.
    max_seconds : float, default inf
    random_state : int or None, default 0
        The seed of the initial factors and of draws.
    n_jobs : int, optional
        The number of threads for the rows; -1 for one on each processor. The default is that of
        ``mc.fit``.
    progress : bool, default False
        Print a line at every sweep.
    client : distributed.Client, or the address of a scheduler, optional
        For data in partitions: the Dask cluster whose workers compute, as in ``mc.fit``.
    checkpoint : str or Path, optional
        With ``NuclearNorm``: a file for columns and priors, written after a sweep, at least every
        half minute. If it exists already, for the same model, data, factors and seed, the sweeps
        continue from there. Bounds of likelihoods that are not Gaussian are then computed again.
    scratch : str or Path, optional
        For data in partitions: a folder on a disk for what does not fit into memory, as in
        ``mc.fit``.

    Returns
    -------
    Posterior
        With means, standard deviations, intervals, sets, draws, and the evidence.

    Raises
    ------
    DataError
        If the data do not fit the model.
    ModelError
        If an option is wrong.
    BackendError
        If the model has no posterior; the message gives the reason.

    Notes
    -----
    The posterior of rows and columns is approximated by a product of Gaussians: variational Bayes
    (Lim and Teh, 2007; Raiko, Ilin and Karhunen, 2007). The logarithm of a likelihood that is not
    Gaussian is replaced by the best quadratic lower bound (Jaakkola and Jordan, 2000); counts and
    durations have a Gaussian for each entry. The lower bound on the evidence rises with every half
    sweep; a fall from one sweep to the next beyond rounding is an error. Variances are too small,
    since the product ignores dependence between rows and columns; ``mc.verify_posterior`` measures
    by how much.

    A sweep over N entries of n rows and d columns with k factors takes ``N k^2`` multiplications,
    four times as many if bounds are recomputed, and (n + d) k^3. Memory was some 50 bytes an entry
    beyond the data (ten million entries, ten factors); bounds take 32 N more. In partitions a
    sweep is one round, and each partition answers with d k^2 / 2 numbers. A hundred million
    entries on disk took 2.6 GB. Bounds that a process has lost are computed again.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> rng = np.random.default_rng(0)
    >>> x = np.outer(rng.normal(size=50), rng.normal(size=20)) + 0.1 * rng.normal(size=(50, 20))
    >>> hidden, x[0, 0] = x[0, 0], np.nan
    >>> model = mc.Model([mc.Block("x", mc.Gaussian(variance=None))], [mc.NuclearNorm()])
    >>> posterior = mc.posterior(model, {"x": x})
    >>> lower, upper = posterior.interval("x", 0.99, rows=[0], columns=[0])
    >>> bool(lower[0] < hidden < upper[0])
    True
    """
    with thread_limit(checked_jobs(n_jobs)), blas_alone():
        began = time.perf_counter()
        seed = checked_seed(random_state)
        options = {"factors": factors, "tol": tol, "max_iter": max_iter}
        run = Run(
            checked_budget(tol, max_iter, max_seconds),
            began,
            checked_switch(progress, "progress"),
            options | {"max_seconds": max_seconds, "n_jobs": n_jobs},
        )
        given = {"client": client, "scratch": scratch}
        if in_partitions(data):
            return posterior_of_partitions(
                model, data, factors, seed, run, checkpoint=checkpoint, **given
            )
        for name, value in given.items():
            if value is not None:
                raise ModelError(
                    f"{name} was given, which is for data in partitions, and these are in this"
                    " process as a whole; drop it"
                )
        problem = Problem.bind(model, data)
        demand_posterior(problem.model, problem.terms)
        observed, sweeps = sweeps_of(problem, factors, seed, run, checkpoint)
        status, message = run.through(sweeps, observed)
        run.finish()
        return run.answer(problem, status, message, seed)


@attrs.define(eq=False)
class Run:
    """Sweeps until one of them raises the bound by little, or a budget ends.

    ``keep`` is called after each sweep with the engine and the history; ``options`` are what the
    answer says it was found with.
    """

    budget: Budget
    began: float
    progress: bool
    options: dict[str, Any]
    history: list[Sweep] = attrs.field(factory=list)
    engine: Any = None
    keep: Checkpoint | None = None

    def finish(self) -> None:
        """Write the last sweep into the checkpoint, if there is one."""
        if self.keep is not None:
            self.keep.write(self.engine, self.history)

    def through(self, sweeps: Iterator[Any], observed: Observed) -> tuple[str, str]:
        """Take sweeps; return the status, and that in a sentence."""
        budget, history = self.budget, self.history
        n_numbers = int(np.sum(observed.counts))
        before = history[-1].evidence if history else -np.inf
        n_sweeps = len(history)
        if self.has_converged(observed):
            return self.converged
        with stop_at(self.began + budget.max_seconds):
            while len(history) - n_sweeps < max(budget.max_iter, 1):
                try:
                    engine, evidence, rounding = next(sweeps)
                except np.linalg.LinAlgError:
                    raise BackendError(
                        "no posterior: normal equations are singular in double precision, since"
                        " columns or effects are of very different sizes; standardise the"
                        " columns, or take fewer factors"
                    ) from None
                except (OutOfTime, KeyboardInterrupt) as stopped:
                    out = isinstance(stopped, OutOfTime)
                    if self.engine is None and out:
                        raise BackendError(
                            f"max_seconds={budget.max_seconds:g} was given, in which there is not"
                            " one sweep; give more, or fewer factors"
                        ) from None
                    if self.engine is None:
                        raise
                    status = "time_limit" if out else "interrupted"
                    return status, f"stopped after {len(history)} sweeps"
                check_rise(before, evidence, rounding, n_numbers)
                self.engine = engine
                seconds = time.perf_counter() - self.began
                history.append(Sweep(len(history) + 1, evidence, engine.n_factors, seconds))
                if self.progress:
                    print(f"sweep {len(history)}: log evidence at least {evidence:.6g}, {engine}")
                if self.keep is not None:
                    self.keep(engine, history)
                if engine.ended is not None:
                    status = "converged" if engine.ended else "iteration_limit"
                    return status, f"the rows took {max(len(engine.rows.history), 1)} steps"
                if self.has_converged(observed):
                    return self.converged
                before = evidence
        return "iteration_limit", f"stopped after {budget.max_iter} sweeps"

    def has_converged(self, observed: Observed) -> bool:
        """Whether the last sweep raised the bound by little."""
        if len(self.history) <= HELD:
            return False
        before, after = self.history[-2:]
        return after.evidence - before.evidence <= self.budget.tol * observed.n_entries

    @property
    def converged(self) -> tuple[str, str]:
        """The status of a run that has converged, and that in a sentence."""
        tol = self.budget.tol
        return "converged", f"the last sweep raised the evidence by less than tol={tol:g} an entry"

    def answer(self, problem: Problem, status: str, message: str, seed: int) -> Posterior:
        """The posterior after the last sweep."""
        return Posterior(
            problem=problem,
            engine=self.engine,
            evidence=self.history[-1].evidence,
            status=status,
            message=message,
            history=tuple(self.history),
            random_state=seed,
            options=self.options,
            tables=problem.tables,
        )


def posterior_of_partitions(
    model: Model,
    data: Any,
    factors: int | str,
    seed: int,
    run: Run,
    client: Any,
    checkpoint: object,
    scratch: str | os.PathLike[str] | None,
) -> Posterior:
    """The posterior of a model of data in partitions, or of collections of Dask."""
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
                warnings.warn(note, UnobservedWarning, stacklevel=4)
            rows = RowsInParts(problem.partitions)
            observed, sweeps = sweeps_of_factors(
                problem,
                lambda: without_entries(problem),
                lambda: rows.observed(problem),
                lambda _: rows,
                number_of_factors(factors, problem),
                seed,
                run,
                checkpoint,
            )
            status, message = run.through(sweeps, observed)
            run.finish()
            # Parts, and what a cluster was sent, are not kept for as long as the answer.
            alone = problem.partitions.alone()
            run.engine = attrs.evolve(run.engine, rows=RowsInParts(alone))
            rested = attrs.evolve(problem, partitions=alone)
            return run.answer(rested, status, message, seed)


def sweeps_of(
    problem: Problem, factors: int | str, seed: int, run: Run, checkpoint: object
) -> tuple[Observed, Iterator[Any]]:
    """The entries, and an iterator over sweeps: engine, bound on the log evidence, its rounding.

    An engine is a ``FactorPosterior`` or a ``JointPosterior``: the distributions of z.
    """
    [term] = problem.terms
    if isinstance(term, GaussianRows):
        if factors != "auto":
            raise ModelError(f"factors={factors!r} was given; GaussianRows() has none: drop it")
        if checkpoint is not None:
            raise ModelError(
                "checkpoint was given, and the steps of GaussianRows() are not kept; drop it, and"
                " save the answer by posterior.save(path)"
            )
        observed = Observed.of(problem)
        steps = joint_sweeps(observed, term, run.budget.tol, run.budget.max_iter, seed)
        return observed, ((found, found.evidence, 0.0) for found in steps)
    n_factors = number_of_factors(factors, problem)
    return sweeps_of_factors(
        problem,
        lambda: Observed.of_tables(problem),
        lambda: Observed.of(problem),
        RowsHere,
        n_factors,
        seed,
        run,
        checkpoint,
    )


def sweeps_of_factors(
    problem: Problem,
    entries: Callable[[], Observed],
    summed_up: Callable[[], Observed],
    rows_of: Callable[[Observed], RowsHere | RowsInParts],
    n_factors: int,
    seed: int,
    run: Run,
    checkpoint: object,
) -> tuple[Observed, Iterator[Any]]:
    """What ``sweeps_of`` returns, of factors: from the beginning, or where a checkpoint ended."""
    term: Any = problem.terms[0]
    found = None
    if checkpoint is not None:
        run.keep = Checkpoint.at_path(checkpoint, problem, n_factors, seed)
        found = run.keep.read(problem, entries)
    if found is None:
        observed = summed_up()
        state = begin(observed, n_factors, term.weight, np.random.default_rng(seed))
        rows = rows_of(observed)
    else:
        observed, state, run.history = found
        rows = rows_of(observed)
        run.engine = FactorPosterior(rows, observed, state)
    return observed, factor_sweeps(rows, observed, state, len(run.history))


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
    for block in model.blocks:
        reason = refusal_of_reading(block)
        if reason is not None:
            return f"block {block.name!r}: {reason}"
    return None


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
    if prior.block is not None:
        return f"{prior.word} speaks of block {prior.block!r} alone; a prior of all of Z is needed"
    for term in terms:
        if term is not prior:
            return f"{term.word} is no part of a density; drop it, or take mc.fit"
    if prior.count_share:
        return "count_share= scales factors by counts, which no density of data does; drop it"
    if isinstance(prior, GaussianRows):
        for block in model.blocks:
            if block.bias or block.row_effects:
                return (
                    f"block {block.name!r}: biases and row effects were declared with"
                    " GaussianRows, whose mean is an intercept of each column already; drop them"
                )
            if isinstance(block.likelihood, ExpectedLogLikelihood):
                word = type(block.likelihood).__name__
                return (
                    f"block {block.name!r}: {word} has none with GaussianRows; take NuclearNorm()"
                )
    return None


def refusal_of_block(block: Block) -> str | None:
    """Why a block's loss has no posterior; None if it has one."""
    likelihood = block.likelihood
    word = type(likelihood).__name__
    if block.reduce == "mean":
        return (
            "reduce='mean' counts all entries together as one, which no likelihood of data does;"
            " drop it"
        )
    if not isinstance(likelihood, GaussianBound | ExpectedLogLikelihood):
        return f"{word} is a loss without a distribution of data; take mc.fit"
    return None


def check_rise(before: float, after: float, rounding: float, size: int) -> None:
    """Raise an error where the bound has fallen by more than rounding."""
    if after < before - ROUNDING * (abs(before) + abs(after) + size) - 16.0 * rounding:
        raise BackendError(
            f"the bound on the evidence fell from {before!r} to {after!r}. This is a bug in"
            " mcframe: please report it with the model and, if possible, the data"
        )
