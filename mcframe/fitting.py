"""The verb ``fit``."""

import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from mcframe.answer import Fit
from mcframe.backends import (
    Backend,
    BackendLike,
    Record,
    Settings,
    checked_backend,
    solve_by,
    solve_by_choice,
    with_ladder,
)
from mcframe.compile import CompiledProblem
from mcframe.contracts.errors import (
    ModelError,
    NotCertifiedWarning,
)
from mcframe.model import Model, Problem
from mcframe.numerics.threads import thread_limit
from mcframe.options import (
    checked_budget,
    checked_callback,
    checked_jobs,
    checked_seed,
    checked_start,
    checked_switch,
)
from mcframe.partitions import fit_partitions, in_partitions


@with_ladder
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
    progress: bool = False,
    random_state: int | None = 0,
    n_jobs: int | None = None,
    force: bool = False,
    client: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> Fit:
    """Minimise a model's objective on data until the certificate says that it is done.

    Parameters
    ----------
    model : Model
    data : dict from block name to array, DataFrame, scipy.sparse matrix or Observations
        Each (n_items x columns of the block). NaN is missing; in a sparse matrix, what is
        not stored. ``Observations`` adds weights and offsets; ``from_triples`` reads lists of
        (row, column, value). Or data whose rows come in partitions, on disk or elsewhere, which
        no process holds all of; collections of Dask are read as such, chunks of rows as
        partitions, and so are tables of dask.dataframe.
    backend : "auto", a name, or an options object such as FPC(eta=0.5)
        "auto" takes one of a ladder by a rule (see the notes), and hands over to another where it
        makes little headway, on tiny tables to the reference, too; ``explain`` says which one and
        why, and why others cannot run. A solver that you have written is an object, too.
    tol : float, default 1e-6
        The relative gap at which to stop, (objective - bound) / max(|objective|, |bound|).
    max_iter : int, default 20,000
    max_seconds : float, default inf
        The budget; what ends it first is named in ``status``. ``reference`` passes what is left of
        ``max_seconds`` to its conic solvers, and ``Reference(max_iters=...)`` limits iterations.
    start : Fit, optional
        A fit of the same shape whose Z is the starting point. From a fit of the same model to the
        same data the solver goes on where it stopped: several short runs come as far as one long
        one, none ends above its start, and the bound is carried over.
    callback : function of a Record, optional
        Called at every certificate; the fit stops if it returns something true.
    progress : bool, default False
        Print a line at every certificate.
    random_state : int or None, default 0
        Seeds what is random: truncated decompositions, and, together with the bits of the data,
        the random starts of certificates of sparse tables. Equal seeds give equal bits. None draws
        a fresh seed, which ``Fit.random_state`` records.
    n_jobs : int, optional
        How many threads, 1 to 1024, share its loops and large products; -1 for one on each
        processor. By default what ``MCFRAME_NUM_THREADS``, ``NUMBA_NUM_THREADS`` or
        ``OMP_NUM_THREADS`` says, else -1. It changes sums of products of dense matrices by their
        rounding alone.
    force : bool, default False
        Run the backend although its estimate of size or time is above the limit.
    client : distributed.Client, or the address of a scheduler, optional
        Of data in partitions: the Dask cluster whose workers compute; by default that of the
        current client where the data are Dask's, else this process does, one partition after the
        other. The answer is the same, to the last bit where all have processors of one kind. The
        connection to an address lasts as long as the fit.
    checkpoint : str or Path, optional
        Of data in partitions: a file that keeps the best point and the solver's state at each
        certificate, and between two every ten seconds, as soon as a piece of a step is done. Where
        it is there already, of the same model and data, the fit goes on from there.
    scratch : str or Path, optional
        Of data in partitions: a folder on a disk for what does not fit into memory, some 60 bytes
        for each entry; by default the system's temporary one, and that of each worker of a
        cluster. Its space is given back when the fit ends, however it ends.

    Returns
    -------
    Fit
        With ``status`` "certified", or another and a ``NotCertifiedWarning``. Ctrl-C returns
        the best point so far; before the first one, and from a conic solver, which has none until
        its end, the ``KeyboardInterrupt`` is passed on.

    Raises
    ------
    DataError
        Where the data do not fit the model, or the start not the data.
    ModelError
        Where an option is wrong.
    BackendError
        Where the backend cannot run the problem, or not at this size.

    Notes
    -----
    "auto" asks these:

    {ladder}

    Where a backend has made 500 iterations and would take 1,000 more at the rate at which its gap
    fell, the next one that can run goes on from its point with its bound; with each change the
    next one has twice as many iterations. ``Fit.message`` says so. Clocks have no part in it:
    equal tables are fitted by equal steps.

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
    with thread_limit(checked_jobs(n_jobs)):
        settings = Settings(
            budget=checked_budget(tol, max_iter, max_seconds),
            callback=checked_callback(callback),
            progress=checked_switch(progress, "progress"),
            random_state=checked_seed(random_state),
            began=time.perf_counter(),
        )
        forced = checked_switch(force, "force")
        if in_partitions(data):
            fitted = fit_partitions(
                model, data, client, backend, start, settings, checkpoint, scratch
            )
            return warned(fitted, settings)
        given_beside = {"client": client, "checkpoint": checkpoint, "scratch": scratch}
        for name, given in given_beside.items():
            if given is not None:
                raise ModelError(
                    f"{name} was given, which is for data in partitions, and these are in this"
                    " process as a whole; drop it"
                )
        problem = Problem.bind(model, data)
        settings = attrs.evolve(settings, start=checked_start(start, problem))
        return fit_problem(CompiledProblem(problem), backend, settings, force=forced)


def fit_problem(
    compiled: CompiledProblem, backend: BackendLike, settings: Settings, *, force: bool = False
) -> Fit:
    """``fit`` for data that are bound and compiled already, and options that are checked."""
    if backend == "auto":
        outcome, name = solve_by_choice(compiled, settings)
        answer = Fit.of(compiled.problem, outcome, name, settings.random_state)
    else:
        answer = solve_with(compiled, checked_backend(backend, compiled, force), settings)
    return warned(answer, settings)


def warned(answer: Fit, settings: Settings) -> Fit:
    """The answer, with a warning where it is not certified."""
    if answer.status != "certified":
        warnings.warn(
            f"{answer.status}: {answer.message}; the gap is {answer.gap:.1e},"
            f" tol={settings.budget.tol:g}",
            NotCertifiedWarning,
            stacklevel=4,
        )
    return answer


def solve_with(compiled: CompiledProblem, chosen: Backend, settings: Settings) -> Fit:
    """The answer of a backend, without a warning where it is not certified."""
    outcome = solve_by(chosen, compiled, settings)
    return Fit.of(compiled.problem, outcome, chosen.name, settings.random_state)
