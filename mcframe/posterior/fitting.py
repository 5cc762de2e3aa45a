"""The verb ``posterior``."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from mcframe.backends import Budget
from mcframe.contracts.errors import BackendError, ModelError
from mcframe.contracts.likelihood import (
    ExpectedLogLikelihood,
    GaussianBound,
)
from mcframe.contracts.rounding import EPS
from mcframe.contracts.validators import whole
from mcframe.model import Block, Model, Problem
from mcframe.numerics.machine import OutOfTime, stop_at
from mcframe.numerics.threads import thread_limit
from mcframe.options import checked_budget, checked_jobs, checked_seed, checked_switch
from mcframe.partitions import in_partitions
from mcframe.posterior.answer import Posterior, Sweep
from mcframe.posterior.factors import HELD, factor_sweeps
from mcframe.posterior.joint import joint_sweeps
from mcframe.posterior.observed import Observed
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
) -> Posterior:
    """Find the posterior of a model: what is likely given the data, and how sure that is.

    The third reading of a model. Its losses are minus log likelihoods, and its regularizer minus
    the logarithm of a prior:

    - ``NuclearNorm(w)`` is the mode of Gaussian factors, since ``||Z||_*`` is the least
      ``(||U||_F^2 + ||V||_F^2) / 2`` over Z = U V': here U and V have distributions, with
      precisions 1 and w^2. ``NuclearNorm()`` without a weight learns one precision a factor, which
      switches factors off that explain nothing.
    - ``GaussianRows(covariance, mean)`` has rows that are draws of that Gaussian: their posterior
      is exact for Gaussian blocks. ``GaussianRows()`` estimates mean and covariance,
      ``GaussianRows(components="auto")`` those of a mixture, and how many are mixed.

    ``Gaussian(variance=None)`` learns a noise variance for each column; with ``GaussianRows`` it
    is a hundredth of the mean square of the column's values. Biases and row effects are Gaussian,
    with the precision that ``effects_weight`` says or a learned one.

    Parameters
    ----------
    model : Model
    data : dict from block name to array, DataFrame, scipy.sparse matrix or Observations
        As in ``mc.fit``. Weights multiply log likelihoods; of a learned variance they divide it.
        Offsets are known.
    factors : "auto" or int, default "auto"
        How many factors there are, at most; "auto" takes 24, or as many as the shorter side has.
        An error with ``GaussianRows``, which has none.
    tol : float, default 1e-3
        The sweep is the last that raises the bound on the log evidence by less than this for each
        entry. A smaller one finds more evidence, with fewer factors; on ratings it predicts less
        well (see the guide).
    max_iter : int, default 500
        The largest number of sweeps. The steps that estimate ``GaussianRows()`` are no sweeps;
        each estimate makes 100 at most.
    max_seconds : float, default inf
    random_state : int or None, default 0
        Seeds the factors to begin with, and draws.
    n_jobs : int, optional
        How many threads share the rows; -1 for one on each processor. By default as in ``mc.fit``.
    progress : bool, default False
        Print a line at every sweep.

    Returns
    -------
    Posterior
        With means, standard deviations, intervals, sets, draws, and the evidence.

    Raises
    ------
    DataError
        Where the data do not fit the model.
    ModelError
        Where an option is wrong.
    BackendError
        Where the model has no posterior: with the reason.

    Notes
    -----
    Rows and columns are Gaussian given each other, and their product approximates the posterior:
    variational Bayes (Lim and Teh, 2007; Raiko, Ilin and Karhunen, 2007). Likelihoods that are no
    Gaussians count by the best parabola below their logarithm (Jaakkola and Jordan, 2000), counts
    and durations by a Gaussian for each entry. The lower bound on the evidence rises with every
    half sweep; a fall from one sweep to the next beyond rounding is an error. Variances are too
    small by what a product of distributions leaves out: measure it by ``mc.verify_posterior``.

    A sweep over N entries of n rows and d columns with k factors takes ``N k^2`` multiplications,
    four times as many where bounds are found anew, and (n + d) k^3; memory was some 50 bytes an
    entry beyond the data (ten million entries, ten factors); bounds take 16 N more.

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
    with thread_limit(checked_jobs(n_jobs)):
        began = time.perf_counter()
        seed = checked_seed(random_state)
        budget = checked_budget(tol, max_iter, max_seconds)
        progress = checked_switch(progress, "progress")
        if in_partitions(data):
            raise BackendError(
                "no posterior: data in partitions have none yet; give them as a whole, or take"
                " mc.fit"
            )
        problem = Problem.bind(model, data)
        reason = refusal(problem)
        if reason is not None:
            raise BackendError(f"no posterior: {reason}")
        observed = Observed.of(problem)
        sweeps = sweeps_of(problem, observed, factors, budget, seed)
        history: list[Sweep] = []
        engine: Any = None
        before = -np.inf
        status, message = "iteration_limit", f"stopped after {max_iter} sweeps"
        with stop_at(began + budget.max_seconds):
            while len(history) < max(budget.max_iter, 1):
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
                    if engine is None and out:
                        raise BackendError(
                            f"max_seconds={max_seconds:g} was given, in which there is not one"
                            " sweep; give more, or fewer factors"
                        ) from None
                    if engine is None:
                        raise
                    status = "time_limit" if out else "interrupted"
                    message = f"stopped after {len(history)} sweeps"
                    break
                check_rise(before, evidence, rounding, observed.size)
                seconds = time.perf_counter() - began
                history.append(Sweep(len(history) + 1, evidence, engine.n_factors, seconds))
                if progress:
                    print(f"sweep {len(history)}: log evidence at least {evidence:.6g}, {engine}")
                if engine.ended is not None:
                    status = "converged" if engine.ended else "iteration_limit"
                    message = f"the rows took {max(len(engine.rows.history), 1)} steps"
                    break
                rose = evidence - before
                if len(history) > HELD and rose <= budget.tol * observed.n_entries:
                    status = "converged"
                    message = (
                        f"the last sweep raised the evidence by less than tol={tol:g} an entry"
                    )
                    break
                before = evidence
        return Posterior(
            problem=problem,
            engine=engine,
            evidence=history[-1].evidence,
            status=status,
            message=message,
            history=tuple(history),
            random_state=seed,
            options={
                "factors": factors,
                "tol": tol,
                "max_iter": max_iter,
                "max_seconds": max_seconds,
                "n_jobs": n_jobs,
            },
            tables=problem.tables,
        )


def sweeps_of(
    problem: Problem, observed: Observed, factors: int | str, budget: Budget, seed: int
) -> Iterator[Any]:
    """Iterate over sweeps: the engine, the bound on the log evidence, and its rounding.

    An engine is a ``FactorPosterior`` or a ``JointPosterior``: the distributions of z.
    """
    [term] = problem.terms
    if isinstance(term, GaussianRows):
        if factors != "auto":
            raise ModelError(f"factors={factors!r} was given; GaussianRows() has none: drop it")
        steps = joint_sweeps(observed, term, budget.tol, budget.max_iter, seed)
        return ((found, found.evidence, 0.0) for found in steps)
    assert isinstance(term, NuclearNorm)
    return factor_sweeps(observed, number_of_factors(factors, problem), term.weight, seed)


def number_of_factors(factors: int | str, problem: Problem) -> int:
    """The number of factors, or a ``ModelError``."""
    if factors == "auto":
        return min(FACTORS, *problem.shape)
    if isinstance(factors, str):
        raise ModelError(f'factors={factors!r} was given; "auto" or a whole number is needed')
    return whole(factors, "factors", least=0)


def refusal(problem: Problem) -> str | None:
    """Why a problem has no posterior, as a clause; None if it has one."""
    for block in problem.model.blocks:
        reason = refusal_of_block(block)
        if reason is not None:
            return f"block {block.name!r}: {reason}"
    terms = problem.terms
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
        for block in problem.model.blocks:
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
