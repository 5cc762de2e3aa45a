"""The verb ``cross_validate``: a choice among several models and weights of a term."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from mcframe.backends import BackendLike, Budget, checked_backend, checked_budget
from mcframe.compile import CompiledProblem
from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.endings import Status, StopReason
from mcframe.contracts.errors import (
    EdgeOfGridWarning,
    ModelError,
    NotCertifiedWarning,
    UndefinedScoreWarning,
    UnobservedWarning,
    warn_caller,
)
from mcframe.contracts.former import CROSS_VALIDATE
from mcframe.contracts.rounding import RESULT_ROUNDING
from mcframe.contracts.validators import (
    Options,
    RandomState,
    a_type,
    as_given,
    instead_of_class,
    without_former_options,
)
from mcframe.fitting.fit_answer import Fit
from mcframe.model import Model, Problem
from mcframe.runtime.jobs import joblib, results_as_finished
from mcframe.runtime.progress import Progress, stage
from mcframe.selection.criteria import Criterion, checked_criteria, criterion_name, score_of, takes
from mcframe.selection.cross_validation_answer import EDGE_REMARKS, CrossValidation
from mcframe.selection.grid import Grid
from mcframe.selection.paths import EFFECTS_WEIGHT, certified_path, identity_of
from mcframe.selection.splitters import EntryFolds, Fold, Splitter, folds_of
from mcframe.selection.weight_max import chosen_place
from mcframe.storage.archive import Archive
from mcframe.storage.digest import digest_of

# A function of (model, data, weights) that gives a fit for each of the descending weights.
PathOf = Callable[[Model, Mapping[str, Any], Array], Iterable[Any]]
# Scores (n_criteria, n_fits, n_folds) of the paths of a model on some folds, large weights first;
# the largest gaps (n_folds,) of fits that are not certified, and whether the paths ended.
PathScores = tuple[Array, Array, bool]


@without_former_options(CROSS_VALIDATE)
def cross_validate(
    models: Model | Sequence[Model],
    data: Mapping[str, Any],
    *,
    criterion: Criterion | Sequence[Criterion] | Mapping[str, Criterion] | None = None,
    weights: Sequence[float] | Array | Grid | None = None,
    cv: int | Splitter = 5,
    path: PathOf | None = None,
    backend: BackendLike = "auto",
    tol: float = 1e-3,
    max_seconds: float = np.inf,
    n_jobs: int = 1,
    random_state: RandomState = 0,
    progress: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> CrossValidation:
    """Choose among models and weights of a term by entries that are held out.

    The observed entries of every block are cut into ``cv`` disjoint parts, at random by
    default. For each model and fold one path over all weights is fitted on the other parts, each
    fit starting from the last, and scored on the held-out part (Goldberg et al., 2010,
    section 4).

    Parameters
    ----------
    models : Model, or a list of Models
        With the same blocks: for example one for each weight of a block.
    data : as in ``fit``
    criterion : function of a fit and of ``{block: held}``, or several in a list or a dict
        The lower the better; ``held`` has ``rows``, ``columns`` and ``values``. The default is
        ``RelativeDeviance()``, or ``HeldOutLoss()`` where a block has no deviance. Ready ones
        are in ``mcframe.selection``: ``RelativeDeviance`` for tables of several kinds,
        ``LabelError``, ``OneMinusAUC``, ``LogLoss``, ``RelativeError``, ``MeanAbsoluteError``,
        ``OrdinalDistance``, ``HeldOutLoss``. Of several the first decides, the others are
        reported. NaN means that there is no score: such a weight has no mean, and a fold on
        which a model has no other scores counts for no model.
    weights : list of float, or Grid of ``mcframe.selection``, optional
        As in ``path``. Without numbers each model has its grid, from its ``weight_max`` on all
        data. ``Grid(patience=...)`` says when a path ends early.
    cv : int, EntryFolds, RowFolds or TimeFolds of ``mcframe.selection``, default 5
        A number of parts of the entries at random, each with its share of every column and of
        rare labels, where no row or column loses all its entries (``EntryFolds``); whole rows,
        scored as new ones, by groups that belong together if needed (``RowFolds``); later entries
        (``TimeFolds``). Or any other ``Splitter``.
    path : function of (model, data, weights), optional
        Gives an object for each weight that ``criterion`` takes; by default certified fits as by
        ``mc.path``, with a ridge of ``Block(effects_weight=0.1)``, a tenth of an entry, on effects
        that the models leave free (not for losses of a location, whose effects are finite). A
        fold may hold out the only positive of a label: its bias is infinite then, and the
        held-out loss of that entry would decide the choice. ``best_model`` has effects as they
        were declared, and so has a ``path`` that calls ``mc.path``. With several ``n_jobs`` it
        and the criterion are sent to other processes:
        functions, and objects that can be pickled.
    backend, max_seconds : as in ``path``
        Options of the default path.
    tol : float, default 1e-3
        As in ``path``, for the fits that are compared, since a ranking needs fewer digits than an
        answer. On 32 small tables (folds drawn as in an earlier version) 28 choices were those of
        fits to 1e-6, four the next weight, of a score worse by at most 1e-4 of it, a thousandth of
        its standard error. ``best_model`` is fitted by ``fit``, to the tolerance given there.
    n_jobs : int, default 1
        Processes, -1 for all cores; the scores do not depend on it. With more processes than
        models each path is fitted to its end, and the patience of the grid is applied afterwards.
    random_state : int, generator of numpy or None, default 0
        Draws the folds; equal seeds give equal scores, None draws afresh.
    progress : bool, optional
        As in ``fit``: how many paths are done, or how many models.
    checkpoint : str or Path, optional
        A file into which the scores of a path are written as soon as it is finished. A later
        call with the same models, data, weights, folds, criterion and options continues from
        there, however this one ended. The fits of an unfinished path are kept in further files of
        the same folder (not those of a given ``path``).

    Returns
    -------
    CrossValidation
        With ``best_model``, which ``fit`` takes; with one ``NotCertifiedWarning`` if fits of
        the default path are not certified, a ``UserWarning`` if scores are NaN, and an
        ``EdgeOfGridWarning`` if of three weights or more the best is the largest or the
        smallest. Ctrl-C
        keeps finished fits: the answer is ``partial``, with a ``NotCertifiedWarning``, and
        chooses by all folds, among the weights that all of them have scores for (without
        patience, or with more ``n_jobs`` than models, by the folds that every model has
        completed). Where no two means compare, the ``KeyboardInterrupt`` is passed on.

    Raises
    ------
    DataError, ModelError, BackendError
        As in ``path``; a block of which fewer entries can be held out than there are folds;
        a criterion that cannot score the models; a ``checkpoint`` of another cross-validation.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> from mcframe.selection import Grid, RelativeError
    >>> rng = np.random.default_rng(0)
    >>> truth = np.outer(np.arange(1.0, 21.0), [1.0, 2.0, 3.0, 4.0])
    >>> x = truth + 40.0 * rng.standard_normal(truth.shape)
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    >>> error, grid = RelativeError("x"), Grid(count=4)
    >>> chosen = mc.cross_validate(model, {"x": x}, criterion=error, weights=grid)
    >>> chosen.best
    (0, 1)
    >>> mc.fit(chosen.best_model, {"x": x}).status
    'certified'
    """
    listed, shown = checked_models(models), Options.progress(progress)
    problems = [Problem.bind(listed[0], data)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnobservedWarning)  # the first model has the same ones
        problems += [Problem.bind(model, data) for model in listed[1:]]
    grid = Grid.of(weights)
    places = tuple(chosen_place(model, grid.term) for model in listed)
    criteria, n_jobs = checked_criteria(criterion, listed), Options.n_processes(n_jobs)
    budget = checked_budget(tol, Budget().max_iter, max_seconds)
    ridge = EFFECTS_WEIGHT if path is None else None
    compiled = [CompiledProblem(problem) for problem in problems]
    if path is None:
        for problem in compiled:
            checked_backend(backend, problem)
    elif not takes(path, "model", "data", "weights"):
        raise ModelError(
            f"path={criterion_name(path)} was given; a function of (model, data, weights) is"
            " needed that gives a fit for each weight"
        )
    folds = folds_of(checked_splitter(cv), problems[0], data, random_state)
    pairs = zip(compiled, places, strict=True)
    grids = np.stack([grid.weights(problem, place) for problem, place in pairs])
    archive = None
    if checkpoint is not None:
        identity = identity_of(problems, places, grids, budget, "models") | {
            "folds": digest_of([fold.digest for fold in folds]),
            "criterion": digest_of(criteria),
            "path": digest_of(path),
            "backend": digest_of(backend),
            "patience": str(grid.patience),
            "effects_weight": str(ridge),
        }
        archive = Archive.at_path(checkpoint, "cross-validation", identity)

    def path_at(model: int, file: str | None) -> PathOf:
        if path is not None:
            return path
        return partial(
            certified_path,
            place=places[model],
            backend=backend,
            budget=budget,
            checkpoint=file,
        )

    scores = Scores(listed, path_at, grids, folds, criteria, grid.patience, archive)
    kinds = [model.terms[at].word for model, at in zip(listed, places, strict=True)]
    with stage("cross_validate", shown) as display:
        scores.compute(n_jobs, display)
        answer = CrossValidation(
            models=listed,
            term=" or ".join(dict.fromkeys(kinds)),
            grids=grids,
            all_scores=dict(zip(criteria, scores.values, strict=True)),
            places=places,
            counted=scores.counted,
            effects_weight=ridge,
            partial=scores.interrupted,
        )
        if np.isfinite(answer.means).any():
            several = f"model {answer.best[0]} at " * (len(listed) > 1)
            display.report(f"{display.text}, the best: {several}weight {answer.best_weight:.4g}")
    if scores.interrupted and np.count_nonzero(~np.isnan(answer.means)) < min(2, grids.size):
        raise KeyboardInterrupt  # there is nothing to compare
    for category, text in remarks_on(answer, scores, budget.tol if path is None else None):
        warn_caller(text, category)
    return answer


def checked_models(models: Any) -> tuple[Model, ...]:
    """Return the models, at least one, whose blocks have the same names."""
    listed = (models,) if isinstance(models, Model) else models
    try:
        listed = tuple(listed)
    except TypeError:
        listed = ()
    if not listed or not all(isinstance(model, Model) for model in listed):
        wrong = models
        if isinstance(models, list | tuple):
            wrong = next((model for model in models if not isinstance(model, Model)), models)
        raise ModelError(
            f"models={as_given(wrong)} were given; a Model or a list of them is needed"
        )
    names = [tuple(block.name for block in model.blocks) for model in listed]
    for other in names[1:]:
        if other != names[0]:
            raise ModelError(
                f"models with the blocks {names[0]} and {other} were given; all of them are scored"
                " on the same folds, so that all need the same blocks in the same order"
            )
    return listed


def checked_splitter(cv: Any) -> Splitter:
    """Return the splitter: a number is that of random folds of entries."""
    if isinstance(cv, Splitter):
        return cv
    if isinstance(cv, int | np.integer | float):
        return EntryFolds(Options.cv(cv))
    remedy = instead_of_class(cv, Splitter)
    if remedy:
        raise ModelError(f"cv is the class {cv.__name__}; {remedy}")
    raise ModelError(
        f"cv={as_given(cv)} was given; a whole number of at least 2 is needed, or EntryFolds(),"
        " RowFolds() or TimeFolds(...) of mcframe.selection"
    )


@attrs.define(eq=False)
class Scores:
    """Scores of the paths of models on folds, and how they are computed.

    Attributes
    ----------
    models : tuple of Model
    path_at : function of the position of a model and of a file
        Gives the path whose fits are scored, and kept in the file.
    grids : array (n_models, n_weights)
    folds : sequence of Fold
    criteria : dict from name to Criterion
        The first one decides.
    patience : int or None
    archive : Archive or None
        The checkpoint.
    values : array (n_criteria, n_models, n_weights, n_folds)
        NaN where there is no score.
    n_fits : array of integers (n_models, n_folds)
        The number of weights at which a path has fits.
    ended : array of bool (n_models, n_folds)
        True where a path is complete.
    largest_gap : float
        Of fits that are not certified, 0 without any.
    interrupted : bool
    """

    models: tuple[Model, ...]
    path_at: Callable[[int, str | None], PathOf]
    grids: Array
    folds: Sequence[Fold]
    criteria: Mapping[str, Criterion]
    patience: int | None
    archive: Archive | None
    values: Array = attrs.field(init=False)
    n_fits: IntArray = attrs.field(init=False)
    ended: Mask = attrs.field(init=False)
    largest_gap: float = 0.0
    interrupted: bool = False

    def __attrs_post_init__(self) -> None:
        shape = len(self.models), len(self.folds)
        self.values = np.full((len(self.criteria), *self.grids.shape, len(self.folds)), np.nan)
        self.n_fits = np.zeros(shape, dtype=np.intp)
        self.ended = np.zeros(shape, dtype=bool)

    def compute(self, n_jobs: int, display: Progress) -> None:
        """Compute the scores of all paths, or of those finished before an interruption.

        Paths that a checkpoint has are taken from there, and the others are written into it.
        """
        n_models, n_folds = self.ended.shape
        # With patience the paths of a model end at one weight on all folds, and are computed
        # together, unless there are more processes than models. Else fold by fold, so that an
        # interruption leaves folds that all models have completed.
        if self.patience is not None and joblib.effective_n_jobs(n_jobs) <= n_models:
            unit, parts = "models", [(model, tuple(range(n_folds))) for model in range(n_models)]
        else:
            unit = "paths"
            parts = [(model, (fold,)) for fold in range(n_folds) for model in range(n_models)]
        remaining = [part for part in parts if not self.has_read(*part)]
        tasks = [self.task(*part) for part in remaining]
        try:
            with closing(results_as_finished(tasks, n_jobs, "criterion or path")) as results:
                for done, (number, (scores, gaps, ended)) in enumerate(results, 1):
                    model, folds = remaining[number]
                    for j, fold in enumerate(folds):
                        self.add(model, fold, scores[:, :, j], float(gaps[j]), ended)
                        if self.archive is not None and ended:
                            # The scores of a complete path take the place of its fits.
                            kept = {"scores": scores[:, :, j], "gap": float(gaps[j])}
                            self.archive.add(path_name(model, fold), kept)
                            Archive(Path(f"{self.archive.path}.{path_name(model, fold)}")).remove()
                    if not ended:
                        raise KeyboardInterrupt
                    display.count(done, len(tasks), unit)
        except KeyboardInterrupt:
            self.interrupted = True
            return
        if self.patience is not None:  # on some folds a path may be longer than patience allows
            for model, weights in enumerate(self.grids):
                last = end_of_path(weights, self.values[0, model], self.patience)
                if last is not None:
                    self.values[:, model, last:] = np.nan
                    self.n_fits[model] = np.minimum(self.n_fits[model], last)

    def add(self, model: int, fold: int, scores: Array, gap: float, ended: bool = True) -> None:
        """Add the scores (n_criteria, n_fits) of a path, at the largest weights first."""
        n_fits = scores.shape[1]
        self.values[:, model, :n_fits, fold] = scores
        self.n_fits[model, fold], self.ended[model, fold] = n_fits, ended
        self.largest_gap = max(self.largest_gap, gap)

    def has_read(self, model: int, folds: Sequence[int]) -> bool:
        """Take the scores of a model on some folds from the checkpoint, if it has all of them."""
        archive = self.archive
        if archive is None or not all(path_name(model, fold) in archive for fold in folds):
            return False
        for fold in folds:
            self.add(model, fold, **archive.read(path_name(model, fold), "dict"))
        return True

    def task(self, model: int, folds: Sequence[int]) -> Callable[[], PathScores]:
        """The paths of a model on some folds as a function, which can be sent to a process."""
        paths_and_folds = []
        for fold in folds:
            name = path_name(model, fold)
            file = None if self.archive is None else f"{self.archive.path}.{name}"
            paths_and_folds.append((self.path_at(model, file), self.folds[fold]))
        return partial(
            scored_paths,
            self.models[model],
            paths_and_folds,
            self.grids[model],
            list(self.criteria.values()),
            self.patience if len(folds) == len(self.folds) else None,
            f"model {model}, fold {' or '.join(map(str, folds))}",
        )

    @property
    def counted(self) -> Mask:
        """The folds (n_folds,) over which means are taken, the same ones for all models.

        These are the folds that every model has completed; all folds if there is none, as with
        paths that are computed on all folds together. A fold on which a complete path has no
        score counts for no model, unless that model has no score on any fold.
        """
        complete = self.ended.all(axis=0)
        without_score = np.isnan(self.values[0]).all(axis=1) & self.ended
        scored = ~without_score.all(axis=1)
        counted = complete if complete.any() else np.ones_like(complete)
        return np.asarray(counted & ~without_score[scored].any(axis=0))


def path_name(model: int, fold: int) -> str:
    """Return the name of a path in the checkpoint."""
    return f"model{model}.fold{fold}"


def scored_paths(
    model: Model,
    paths_and_folds: Sequence[tuple[PathOf, Fold]],
    weights: Array,
    criteria: Sequence[Criterion],
    patience: int | None,
    name: str,
) -> PathScores:
    """Compute a model's paths on some folds together, and score every fit.

    An interrupted fit has no score: it is not the answer at its weight. Patience uses the
    first criterion. Errors get a note with ``name``, the model and the folds.
    """
    scores, gaps, ended = list[Array](), np.zeros(len(paths_and_folds)), True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnobservedWarning)  # folds have fewer entries
        try:
            paths = [
                fits_of(path(fold.fitted_model(model), fold.data, weights))
                for path, fold in paths_and_folds
            ]
            for fits in zip(*paths, strict=False):
                if len(scores) == weights.size:
                    raise ModelError(f"path gave more fits than the {weights.size} weights")
                scores_of_weight = np.empty((len(criteria), len(paths_and_folds)))
                for j, (fit, (_, fold)) in enumerate(zip(fits, paths_and_folds, strict=True)):
                    answer = fold.answer(fit)
                    scores_of_weight[:, j] = [
                        score_of(criterion, answer, fold.held) for criterion in criteria
                    ]
                    if isinstance(fit, Fit) and fit.status is not Status.CERTIFIED:
                        gaps[j] = max(gaps[j], fit.gap)
                scores.append(scores_of_weight)
                if patience is not None and end_of_path(weights, np.stack(scores)[:, 0], patience):
                    break
        except KeyboardInterrupt:
            ended = False
        except Exception as error:
            error.add_note(f"raised by cross_validate on the path of {name}")
            raise
    if not scores and ended:
        raise ModelError("path gave no fit; one for each weight is needed")
    stacked = np.stack(scores) if scores else np.zeros((0, len(criteria), len(paths_and_folds)))
    return stacked.transpose(1, 0, 2), gaps, ended


def fits_of(answer: Any) -> Iterator[Any]:
    """Yield the fits that a path gives; an interrupted one is a ``KeyboardInterrupt``."""
    try:
        fits = iter(answer)
    except TypeError:
        raise ModelError(
            f"path gave {a_type(answer)}; an iterable with a fit for each weight is needed"
        ) from None
    for fit in fits:
        if isinstance(fit, Fit) and fit.reason is StopReason.FROM_OUTSIDE:
            raise KeyboardInterrupt
        yield fit


def end_of_path(weights: Array, scores: Array, patience: int) -> int | None:
    """Return the number of weights after which patience ends a path; None where it does not.

    ``scores`` (n_fits, n_folds) are those of the first weights. A path ends after ``patience``
    weights in a row that are worse, but only in its second half in the logarithm of the weight,
    and only after some weight was better than the first: at large weights, where Z is close to 0,
    scores rise before they fall. Worse scores lie above those of the best weight so far by more
    than one standard error of the differences, fold by fold: differences between folds cancel
    there. A weight with NaN is neither better nor worse.
    """
    halfway = float(np.prod(np.sqrt(weights[[0, -1]]))) * (1.0 + RESULT_ROUNDING)
    first_mean, best_scores, n_worse = np.nan, None, 0
    for k, fold_scores in enumerate(scores):
        mean = float(np.mean(fold_scores))
        if np.isnan(mean):
            n_worse = 0
        elif best_scores is None:
            first_mean, best_scores = mean, fold_scores
        elif mean < np.mean(best_scores):
            best_scores, n_worse = fold_scores, 0
        else:
            has_fallen = np.mean(best_scores) < first_mean
            is_worse = has_fallen and clearly_above(fold_scores, best_scores)
            n_worse = n_worse + 1 if is_worse else 0
        if weights[k] <= halfway and n_worse >= patience:
            return k + 1
    return None


def clearly_above(scores: Array, best_scores: Array) -> bool:
    """Return True where the mean difference over folds exceeds its standard error."""
    if np.isinf(np.mean(scores)):
        return True
    if scores.size == 1:  # a difference without a standard error
        return False
    differences = scores - best_scores
    error = float(np.std(differences, ddof=1)) / np.sqrt(differences.size)
    return float(np.mean(differences)) > error


def remarks_on(
    answer: CrossValidation, scores: Scores, tol: float | None
) -> Iterator[tuple[type[Warning], str]]:
    """Yield warnings of an interruption, fits not certified, scores that are NaN, and an edge.

    ``tol`` is that of certified paths, None for others. Of fewer than three weights the best one
    is always at an edge.
    """
    if scores.interrupted:
        done, counted = np.count_nonzero(scores.ended), np.count_nonzero(answer.counted)
        yield (
            NotCertifiedWarning,
            f"the cross-validation was interrupted after {done} of {scores.ended.size} paths;"
            f" means are over {counted} of {answer.counted.size} folds",
        )
    if tol is not None and scores.largest_gap > 0.0:
        gap = f"{scores.largest_gap:.1e}, tol={tol:g}"
        text = f"some fits of the paths are not certified; the largest gap is {gap}"
        yield NotCertifiedWarning, text
    fitted = np.arange(scores.values.shape[2])[:, None] < scores.n_fits[:, None, :]
    undefined = np.argwhere(fitted & np.isnan(scores.values[0]))
    if undefined.size:
        model, position, fold = undefined[0]
        more = f" and at {len(undefined) - 1} more places" if len(undefined) > 1 else ""
        yield (
            UndefinedScoreWarning,
            f"criterion {answer.criterion} is nan at weight {answer.grids[model, position]:g} of"
            f" model {model} on fold {fold}{more}: such a weight has no mean, and a fold without"
            " other scores counts for no model",
        )
    if answer.grids.shape[1] > 2 and np.isfinite(answer.means).any() and answer.at_edge:
        yield EdgeOfGridWarning, EDGE_REMARKS[answer.at_edge]
