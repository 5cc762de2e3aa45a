"""The verb ``fit``."""

import os
import time
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.backends import (
    Backend,
    BackendLike,
    Outcome,
    Record,
    Settings,
    SolverCheckpoint,
    checked_backend,
    checked_budget,
    solve_by,
    solve_by_choice,
)
from mcframe.backends.loop import CHECKPOINT_SECONDS
from mcframe.compile import CompiledProblem
from mcframe.contracts.endings import Status
from mcframe.contracts.errors import ModelError, NotCertifiedWarning, warn_caller
from mcframe.contracts.former import FIT
from mcframe.contracts.row_stores import store_of
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import Options, RandomState, is_word, without_former_options
from mcframe.contracts.wording import wording
from mcframe.fitting.checkpoints import Checkpoint
from mcframe.fitting.fit_answer import Fit, checked_start
from mcframe.fitting.fitting_store import FittingStore
from mcframe.model import Model, Problem
from mcframe.model.table import Table
from mcframe.model.transforms import affine_units
from mcframe.runtime.machine import thread_limit
from mcframe.runtime.progress import current, stage

# The ratio of the largest to the smallest standard deviation of the columns of a block from which
# a warning recommends to standardize.
MAX_DEVIATION_RATIO = 1e3


@without_former_options(FIT)
def fit(
    model: Model,
    data: Any,
    *,
    backend: BackendLike = "auto",
    tol: float = 1e-6,
    max_iter: int = 20_000,
    max_seconds: float = np.inf,
    start: Fit | None = None,
    callback: Callable[[Record], Any] | None = None,
    progress: bool | None = None,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Fit:
    """Minimise a model's objective on data until its certified gap is at most ``tol``.

    Parameters
    ----------
    model : Model
    data : dict from block name to array, DataFrame, scipy.sparse matrix or Observations
        Each (n_items x columns of the block). NaN is missing; in a sparse matrix, entries that are
        not stored are missing. ``Observations`` adds weights and offsets; ``from_triples`` reads
        lists of (row, column, value). Data may also come in partitions of rows, on disk or
        elsewhere, so that no process holds all of them. Collections of Dask are read in this way,
        with chunks of rows as partitions, and so are tables of dask.dataframe. Data in partitions
        are computed by the workers of the client of Dask that is current, as collections of Dask
        are; without one, or under ``dask.config.set(scheduler="threads")``, by this process, one
        partition after the other. The answer is the same, to the last bit if all processors are
        of one kind. What does not fit into memory, some 60 bytes for each entry, goes into a
        file of Python's ``tempfile`` (in the folder that ``TMPDIR`` names), or of each worker's
        folder (Dask's ``temporary-directory``). Its space is freed however the fit ends.
    backend : "auto", a name, or an options object such as FPC(eta=0.5)
        "auto" chooses one from a list by a rule (see the notes). It changes to another if progress
        is slow, on tiny tables also to the reference. ``explain`` prints the choice and the
        reasons. A solver of your own is an object, too. ``Reference(force=True)`` and
        ``mc.backends.Forced(solver)`` run although estimates of size or time are above the limits.
    tol : float, default 1e-6
        The relative gap at which to stop, (objective - bound) / max(|objective|, |bound|).
    max_iter : int, default 20,000
    max_seconds : float, default inf
        The budget; ``status`` names the limit that ended the fit. ``reference`` passes the rest of
        ``max_seconds`` to its conic solvers; ``Reference(max_iters=...)`` limits its iterations.
    start : Fit, optional
        A fit of the same shape, also one that was loaded from a file: its Z and its dual point are
        the starting point. After a fit of the same model to the same data its bound is carried
        over, no run ends above its start, and "auto" goes on with its backend. The solver's
        momentum, step lengths and the like begin anew; ``checkpoint`` keeps them.
    callback : function of a Record, optional
        Called at every certificate; the fit stops if it returns something true.
    progress : bool, optional
        True shows a bar, or in output that is redirected a line now and then, on standard error:
        the gap, the rank, and an estimate of the time that remains. By default a bar appears
        after two seconds in a terminal or a notebook if there is no ``callback``. False shows
        nothing. INFO lines of the logger "mcframe" do not depend on it.
    random_state : int, generator of numpy or None, default 0
        The seed of truncated decompositions and, together with the bits of the data, of the random
        starts of certificates of sparse tables. Equal seeds give equal bits. A generator draws a
        seed, and None takes a fresh one; ``Fit.random_state`` records it.
    n_jobs : int, optional
        The number of threads, 1 to 1024, for loops and large products; -1 for one on each
        processor. The default is ``MCFRAME_NUM_THREADS``, ``NUMBA_NUM_THREADS`` or
        ``OMP_NUM_THREADS``, else -1. It changes sums in products of dense matrices by rounding
        only.
    checkpoint : str or Path, optional
        A file for the best point and the state of the solver. It is written at the first
        certificate and about every ten seconds from then on (at each certificate of data in
        partitions), and at the end. If it exists already, for the same model, data and seed, the
        fit continues from there. The reference cannot continue, and refuses it.

    Returns
    -------
    Fit
        With ``status`` "certified", or another status and a ``NotCertifiedWarning``. Ctrl-C
        returns the best point so far. Before the first point it raises a ``KeyboardInterrupt``; a
        conic solver has no point until its end.

    Raises
    ------
    DataError
        If the data do not fit the model, or the start does not fit the data.
    ModelError
        If an option is wrong.
    BackendError
        If the backend cannot run the problem, or not at this size.

    Notes
    -----
    "auto" asks these:

    1. ``proximal``: smooth losses and terms, one function of singular values;
    2. ``splitting``: any losses and terms with a gradient or a prox;
    3. ``alternating``: a nuclear norm alone over smooth losses;
    4. ``factored``: a nuclear norm or ball, a max norm;
    5. ``rowwise``: a square of each row, as of GaussianRows, over smooth losses;
    6. ``reference``: whatever remains and is small.

    Of those that can run a problem it takes the first, but ``alternating`` or ``factored``,
    which work on factors, where n_items x n_columns x the smaller of the two is more than
    10,000 times the number of observed entries: to decompose all of Z is then slower than
    passes over the entries. ``splitting`` comes first where the weight of a norm is so small
    beside the values of a Gaussian or Huber block that completion is nearly exact. ``fpc`` is
    never chosen: it needs more iterations than ``proximal`` for the same gap.

    If a backend has made 500 iterations and would take 1,000 more at the rate of its gap, the next
    one that can run continues from its point and bound. After each change the next one makes twice
    as many iterations. ``Fit.message`` records it. Where the reference is estimated to take less
    than a second it is asked before the others, or as soon as two certificates have found no
    feasible point. Clock times are not used: equal tables are fitted by equal steps.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> x = np.outer([1.0, 2.0, 3.0], [1.0, 2.0])
    >>> x[0, 0] = np.nan
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.01)])
    >>> print(mc.fit(model, {"x": x}).predict("x").round(1))
    [[1. 2.]
     [2. 4.]
     [3. 6.]]
    """
    shows_progress = Options.progress(progress)
    if shows_progress is None and callback is not None:
        shows_progress = False
    with thread_limit(Options.n_jobs(n_jobs)), stage("fit", shows_progress):
        settings = Settings(
            budget=checked_budget(tol, max_iter, max_seconds),
            callback=Options.callback(callback),
            random_state=Options.random_state(random_state),
            began=time.perf_counter(),
        )
        store = store_of(data)
        if isinstance(store, FittingStore):
            answer = store.fit(
                *(model, data, settings),
                backend=backend,
                start=start,
                checkpoint=checkpoint,
            )
            return warned(answer, settings)
        compiled, backend_name = CompiledProblem(Problem.bind(model, data)), ""
        problem, seed = compiled.problem, settings.random_state
        if checkpoint is not None:
            chosen = checked_backend(backend, compiled)
            if chosen.start_refusal is not None:
                raise ModelError(
                    f"checkpoint was given, but {chosen.start_refusal}; drop it, and save the"
                    " answer by fit.save(path)"
                )
            backend_name = chosen.name

        def fit_of(outcome: Outcome) -> Fit:
            return Fit.of(problem, outcome, backend_name, seed)

        settings, checkpoint_file = resumed(
            settings, start, problem, fit_of, checkpoint, "fit", CHECKPOINT_SECONDS
        )
        answer, outcome = solved(compiled, backend, settings)
        if checkpoint_file is not None:
            checkpoint_file.write(FitCheckpoint(answer, outcome.paused), problem=problem)
        return answer


@stored
@attrs.frozen(eq=False)
class FitCheckpoint:
    """The content of a checkpoint: the best point, and the state of the solver, which goes on.

    ``solver`` is None after a backend that cannot go on.
    """

    fit: Fit
    solver: SolverCheckpoint | None


def resumed(
    settings: Settings,
    start: Fit | None,
    problem: Problem,
    fit_of: Callable[[Outcome], Fit],
    path: object,
    kind: str,
    min_seconds: float = 0.0,
) -> tuple[Settings, Checkpoint | None]:
    """Return the settings with the point to go on from, and the checkpoint.

    The point is that of the file at ``path``, or ``start`` if the file is empty or no path was
    given; without a path the checkpoint is None. The settings write the best point into the file
    at certificates, at most once in ``min_seconds``. Between two certificates that are far
    apart the loop writes it, too.
    """
    if path is None:
        return attrs.evolve(settings, start=checked_start(start, problem)), None
    identity = {"random_state": settings.random_state}
    checkpoint = Checkpoint.at_path(path, kind, problem, identity, min_seconds)
    last: Fit | None = None

    def write_checkpoint(outcome: Outcome) -> None:
        nonlocal last
        if not checkpoint.is_due:
            return
        if last is None or last.latent is not outcome.point.latent:
            last = fit_of(outcome)
        else:
            names = ("bound", "rounding", "history")
            last = attrs.evolve(last, **{name: getattr(outcome, name) for name in names})
        checkpoint.write(FitCheckpoint(last, outcome.paused), problem=problem)

    saved = checkpoint.read(FitCheckpoint, Fit, problem=problem)
    if saved is None:
        starting_point = checked_start(start, problem)
    elif isinstance(saved, Fit):  # of an earlier version, whose solver's state is not read
        starting_point = checked_start(saved, problem)
    else:
        starting_point = checked_start(saved.fit, problem, saved.solver)
    return attrs.evolve(
        settings, start=starting_point, write_checkpoint=write_checkpoint
    ), checkpoint


def fit_problem(compiled: CompiledProblem, backend: BackendLike, settings: Settings) -> Fit:
    """``fit`` for data that are bound and compiled already, and options that are checked."""
    return solved(compiled, backend, settings)[0]


def solved(
    compiled: CompiledProblem, backend: BackendLike, settings: Settings
) -> tuple[Fit, Outcome]:
    """The fit, with a warning where it is not certified, and the outcome that it is made of."""
    if is_word(backend, "auto"):
        outcome, name = solve_by_choice(compiled, settings)
    else:
        chosen = checked_backend(backend, compiled)
        outcome, name = solve_by(chosen, compiled, settings), chosen.name
    answer = Fit.of(compiled.problem, outcome, name, settings.random_state)
    return warned(answer, settings), outcome


def warned(answer: Fit, settings: Settings) -> Fit:
    """The answer, with a warning where it is not certified."""
    if answer.status is not Status.CERTIFIED:
        current().hide()
        warn_caller(
            f"{answer.status}: {answer.message}; the gap is {answer.gap:.1e},"
            f" tol={settings.budget.tol:g}{hint_of_scales(answer)}",
            NotCertifiedWarning,
        )
    return answer


def hint_of_scales(answer: Fit) -> str:
    """The remedy for columns of very different scales, which make fits slow."""
    for block in answer.model.blocks:
        table = answer.problem.tables[block.name]  # which has no values in partitions
        if block.standardize or not block.likelihood.location or not isinstance(table, Table):
            continue
        weights = np.ones(table.values.size)
        units = affine_units(table.values, table.columns, weights, table.shape[1], robust=False)
        spread = units.spread[units.spread != 1.0]  # which is that of equal values
        if spread.size and np.max(spread) > MAX_DEVIATION_RATIO * np.min(spread):
            return (
                f". The columns of block {block.name!r} have standard deviations of"
                f" {np.min(spread):.1e} to {np.max(spread):.1e};"
                f" {wording().block(standardize=True)} gives them one scale"
            )
    return ""


def solve_with(compiled: CompiledProblem, chosen: Backend, settings: Settings) -> Fit:
    """The answer of a backend, without a warning where it is not certified."""
    outcome = solve_by(chosen, compiled, settings)
    return Fit.of(compiled.problem, outcome, chosen.name, settings.random_state)
