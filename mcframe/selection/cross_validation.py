"""The verb ``cross_validate``: which of several models, and at which weight of a term."""

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mcframe.backends import BackendLike, checked_backend
from mcframe.compile import CompiledProblem
from mcframe.contracts.errors import ModelError, UnobservedWarning
from mcframe.contracts.validators import whole
from mcframe.model import Model, Problem
from mcframe.options import checked_budget, checked_seed
from mcframe.selection.choice import CrossValidation
from mcframe.selection.chosen_term import chosen_place
from mcframe.selection.criteria import Criterion, checked_criteria, criterion_name, takes
from mcframe.selection.entry_folds import EntryFolds
from mcframe.selection.finished_scores import FinishedScores
from mcframe.selection.finite_effects import checked_effects_weight
from mcframe.selection.folds import Folds
from mcframe.selection.grids import descending
from mcframe.selection.jobs import checked_jobs
from mcframe.selection.results import collect, warn_of
from mcframe.selection.scoring import PathOf
from mcframe.selection.work import Work

__all__ = ["cross_validate"]


def cross_validate(
    models: Model | Sequence[Model],
    data: Mapping[str, Any],
    *,
    criterion: Criterion | Sequence[Criterion] | Mapping[str, Criterion],
    term: Any = None,
    weights: Any = None,
    count: int = 20,
    ratio: float = 0.01,
    folds: int | Folds = 5,
    patience: int | None = 2,
    path: PathOf | None = None,
    backend: BackendLike = "auto",
    tol: float = 1e-3,
    max_iter: int = 20_000,
    max_seconds: float = np.inf,
    effects_weight: float | None = 0.1,
    jobs: int = 1,
    random_state: int | np.random.Generator | None = 0,
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
) -> CrossValidation:
    """Choose among models and weights of a term by entries that are held out.

    The observed entries of every block are cut into ``folds`` disjoint parts, at random unless
    told otherwise. For each model and fold one path over all weights is fitted on the other
    parts, each fit from the last, and judged on the part that was held out (Goldberg et al.,
    2010, section 4).

    Parameters
    ----------
    models : Model, or a list of Models
        With the same blocks: for example one for each weight of a block.
    data : as in ``fit``
    criterion : function of a fit and of ``{block: held}``, or several in a list or a dict
        The lower the better; ``held`` has ``rows``, ``columns`` and ``values``. Ready ones
        are in ``mcframe.selection``: ``RelativeDeviance`` for tables of several kinds,
        ``LabelError``, ``OneMinusAUC``, ``LogLoss``, ``RelativeError``, ``MeanAbsoluteError``,
        ``OrdinalDistance``, ``HeldOutLoss``. Of several the first decides, the others are
        reported. NaN says that nothing can be said: a weight with one has no mean, and a fold
        on which a model has nothing else counts for none.
    term, weights, count, ratio : as in ``path``
        Without ``weights`` each model has a grid of its own, from its own ``weight_max`` on all
        data.
    folds : int, EntryFolds, RowFolds or TimeFolds of ``mcframe.selection``, default 5
        So many parts of the entries at random, each with its share of every column and of rare
        labels, no row or column left without an entry (``EntryFolds``); whole rows, judged as
        new ones, of groups that belong together if need be (``RowFolds``); what is later
        (``TimeFolds``).
    patience : int or None, default 2
        End a model's path where the last so many weights were worse than the best one before
        them, on all folds at once: the smallest weights take the most time, and have no score
        then. A weight counts as worse if (a) some weight was better than the first and (b) the
        mean over folds of the differences to the best weight is above one standard error of
        these differences; no path ends before it has come halfway down, in the logarithm of the
        weight. On 46 tables (simulated, and of scikit-learn; 20 weights, 3 folds) no choice was
        another than that among all weights. With None every weight is tried, and the folds of a
        model, whose fits are in memory together otherwise, come one after the other.
    path : function of (model, data, weights), optional
        Gives something like a fit for each weight, for ``criterion``; by default
        certified fits as by ``mc.path``. With several ``jobs`` it and the criterion are sent
        to other processes: functions, and objects that can be pickled.
    backend, max_iter, max_seconds : as in ``path``
        Of the default path.
    tol : float, default 1e-3
        As in ``path``: of the fits that are compared, since a ranking needs fewer digits than an
        answer. On 32 small tables (folds drawn as in an earlier version) 28 choices were those of
        fits to 1e-6, four the next weight, of a score worse by at most 1e-4 of it, a thousandth of
        its standard error. ``best_model`` is fitted by ``fit``, to the tolerance given there.
    effects_weight : float or None, default 0.1
        The weight of a ridge on effects that the models leave free, in the fits of the default
        path alone, where the loss is none of a location (``Block(effects_weight=...)`` says what
        it is worth: a tenth of an entry). A fold may hold back the only positive of a label: its
        bias is infinite then, and the held-out loss of that entry would choose for all others.
        None leaves effects free; ``best_model`` has them as they were declared.
    jobs : int, default 1
        Processes, -1 for all cores; the scores do not depend on it. Of more processes than models
        each walks the path of a fold to its end, whatever ``patience`` takes of it.
    random_state : int, numpy Generator or None
        Draws the folds; equal seeds give equal scores, None draws afresh.
    progress : bool, default False
        Show on standard error how many paths are done: a bar on a terminal, else lines.
    checkpoint : str or Path, optional
        A file into which the scores of a path are written as soon as it is finished. A later
        call with the same models, data, weights, folds, criterion and options goes on from
        there, however this one ended; within a path, too, whose fits are kept in files beside
        that one as long as it is walked (not those of a ``path`` of one's own).

    Returns
    -------
    CrossValidation
        With ``best_model``, which ``fit`` takes; with one ``NotCertifiedWarning`` if fits of
        the default path are not certified, and a ``UserWarning`` each if scores are NaN and if
        of three weights or more the best is the largest or the smallest. Ctrl-C
        keeps what is finished: the answer is ``partial``, with a ``NotCertifiedWarning``, and
        chooses by all folds, among the weights that all of them have reached (without
        ``patience``, or with more ``jobs`` than models, by the folds that every model has
        completed). Where no two means compare, the ``KeyboardInterrupt`` is passed on.

    Raises
    ------
    DataError, ModelError, BackendError
        As in ``path``; a block of which fewer entries can be held out than there are folds;
        a criterion that cannot judge the models; a ``checkpoint`` of another cross-validation.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> from mcframe.selection import RelativeError
    >>> rng = np.random.default_rng(0)
    >>> truth = np.outer(np.arange(1.0, 21.0), [1.0, 2.0, 3.0, 4.0])
    >>> x = truth + 12.0 * rng.standard_normal(truth.shape)
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    >>> chosen = mc.cross_validate(model, {"x": x}, criterion=RelativeError("x"), count=4)
    >>> chosen.best
    (0, 2)
    >>> mc.fit(chosen.best_model, {"x": x}).status
    'certified'
    """
    listed = checked_models(models)
    problem = Problem.bind(listed[0], data)
    problems = [problem, *others_bound(listed[1:], data)]
    places = tuple(chosen_place(model, term) for model in listed)
    criteria, n_jobs = checked_criteria(criterion, listed), checked_jobs(jobs)
    limit = None if patience is None else whole(patience, "patience", 1)
    budget = checked_budget(tol, max_iter, max_seconds)
    ridge = None if path is not None else checked_effects_weight(effects_weight)
    compiled = [CompiledProblem(each) for each in problems]
    refuse_wrong_path(path, compiled, backend)
    drawn = checked_folds(folds).draw(problem, data, generator(random_state))
    pairs = zip(compiled, places, strict=True)
    grids = np.stack([descending(own, at, weights, count, ratio) for own, at in pairs])
    work = Work(problems, places, grids, drawn, criteria, path, backend, budget, limit, ridge)
    kept = None if checkpoint is None else FinishedScores.of(checkpoint, work)
    results = collect(work, n_jobs, kept, shown=progress)
    kinds = [model.terms[at].word for model, at in zip(listed, places, strict=True)]
    name = " or ".join(dict.fromkeys(kinds))
    answer = CrossValidation(
        models=listed,
        term=name,
        grids=grids,
        all_scores=results.all_scores,
        places=places,
        counted=results.counted,
        effects_weight=ridge,
        partial=results.interrupted,
    )
    if results.interrupted and np.count_nonzero(~np.isnan(answer.means)) < min(2, grids.size):
        raise KeyboardInterrupt  # there is nothing to compare
    warn_of(results, answer, budget.tol if path is None else None)
    return answer


def checked_models(models: Any) -> tuple[Model, ...]:
    """Return the models, at least one, all of blocks with the same names."""
    listed = (models,) if isinstance(models, Model) else models
    try:
        listed = tuple(listed)
    except TypeError:
        listed = ()
    if not listed or not all(isinstance(model, Model) for model in listed):
        raise ModelError(f"models={models!r} were given; a Model or a list of them is needed")
    names = [tuple(block.name for block in model.blocks) for model in listed]
    for other in names[1:]:
        if other != names[0]:
            raise ModelError(
                f"models with the blocks {names[0]} and {other} were given; the same folds judge"
                " all of them, so that all need the same blocks in the same order"
            )
    return listed


def checked_folds(folds: Any) -> Folds:
    """A way of cutting the table: a number is that of random folds of entries."""
    if isinstance(folds, Folds) and not isinstance(folds, type):
        return folds
    if isinstance(folds, int | np.integer | float):
        return EntryFolds(whole(folds, "folds", 2))
    raise ModelError(
        f"folds={folds!r} was given; a whole number of at least 2 is needed, or EntryFolds(),"
        " RowFolds() or TimeFolds(...) of mcframe.selection"
    )


def others_bound(models: Sequence[Model], data: Mapping[str, Any]) -> list[Problem]:
    """Problems of further models; what is unobserved has been said for the first one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnobservedWarning)
        return [Problem.bind(model, data) for model in models]


def generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """The generator that draws the folds."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is not None and not isinstance(random_state, int | np.integer):
        raise ModelError(
            f"random_state={random_state!r} was given; an integer from 0, a"
            " numpy.random.Generator, or None for a fresh seed is needed"
        )
    return np.random.default_rng(checked_seed(random_state))


def refuse_wrong_path(
    path: Any, problems: Sequence[CompiledProblem], backend: BackendLike
) -> None:
    """Raise where ``path`` is no function, or the backend of certified paths cannot run."""
    if path is None:
        for problem in problems:
            checked_backend(backend, problem)
    elif not takes(path, "model", "data", "weights"):
        raise ModelError(
            f"path={criterion_name(path)} was given; a function of (model, data, weights) is"
            " needed that gives a fit for each weight"
        )
