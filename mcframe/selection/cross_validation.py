"""The verb ``cross_validate``: which of several models, and at which weight of a term."""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from mcframe.answer import Fit
from mcframe.backends import FROM_OUTSIDE, BackendLike, Budget, checked_backend
from mcframe.compile import CompiledProblem
from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import ModelError, NotCertifiedWarning, UnobservedWarning
from mcframe.contracts.validators import number, whole
from mcframe.model import Model, Problem
from mcframe.numerics.digest import digest_of
from mcframe.options import checked_budget
from mcframe.selection.choice import AT_EDGE, CrossValidation
from mcframe.selection.criteria import (
    Criterion,
    checked_criteria,
    criterion_name,
    score_of,
    takes,
)
from mcframe.selection.folds import Fold, folds_of
from mcframe.selection.jobs import joblib, results_as_finished
from mcframe.selection.jobs import progress as progress_of
from mcframe.selection.paths import CertifiedPath, descending, identity_of
from mcframe.selection.splitters import EntryFolds, Splitter
from mcframe.selection.weight_max import chosen_place
from mcframe.storage import Archive, Entry

# By how much the weight in the middle of a grid may lie above its middle.
ROUNDING = 1e-9
# Gives a fit for each of the descending weights, from (model, data, weights).
PathOf = Callable[[Model, Mapping[str, Any], Array], Iterable[Any]]
# A model and the folds that its paths are walked on side by side: the unit of work.
Part = tuple[int, tuple[int, ...]]


def cross_validate(
    models: Model | Sequence[Model],
    data: Mapping[str, Any],
    *,
    criterion: Criterion | Sequence[Criterion] | Mapping[str, Criterion],
    term: Any = None,
    weights: Any = None,
    count: int = 20,
    ratio: float = 0.01,
    cv: int | Splitter = 5,
    patience: int | None = 2,
    path: PathOf | None = None,
    backend: BackendLike = "auto",
    tol: float = 1e-3,
    max_iter: int = 20_000,
    max_seconds: float = np.inf,
    effects_weight: float | None = 0.1,
    n_jobs: int = 1,
    random_state: int | np.random.Generator | None = 0,
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
) -> CrossValidation:
    """Choose among models and weights of a term by entries that are held out.

    The observed entries of every block are cut into ``cv`` disjoint parts, at random unless
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
    cv : int, EntryFolds, RowFolds or TimeFolds of ``mcframe.selection``, default 5
        So many parts of the entries at random, each with its share of every column and of rare
        labels, no row or column left without an entry (``EntryFolds``); whole rows, judged as
        new ones, of groups that belong together if need be (``RowFolds``); what is later
        (``TimeFolds``). Or a ``Splitter`` of one's own.
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
        certified fits as by ``mc.path``. With several ``n_jobs`` it and the criterion are sent
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
    n_jobs : int, default 1
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
        ``patience``, or with more ``n_jobs`` than models, by the folds that every model has
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
    criteria, n_jobs = checked_criteria(criterion, listed), whole(n_jobs, "n_jobs")
    if n_jobs == 0:
        raise ModelError("n_jobs=0 was given; 1 process or more is needed, -1 for one a core")
    limit = None if patience is None else whole(patience, "patience", 1)
    budget = checked_budget(tol, max_iter, max_seconds)
    ridge = (
        None
        if path is not None or effects_weight is None
        else number(effects_weight, "effects_weight")
    )
    if ridge is not None and ridge <= 0.0:
        raise ModelError(
            f"effects_weight={effects_weight!r} was given; a number above 0 is needed, or None for"
            " effects as the models declare them"
        )
    compiled = [CompiledProblem(each) for each in problems]
    refuse_wrong_path(path, compiled, backend)
    folds = folds_of(checked_splitter(cv), problem, data, random_state)
    pairs = zip(compiled, places, strict=True)
    grids = np.stack([descending(own, at, weights, count, ratio) for own, at in pairs])
    scoring = Scoring(
        problems, places, grids, folds, criteria, path, backend, budget, limit, ridge
    )
    found = scoring.scores(n_jobs, checkpoint, progress)
    kinds = [model.terms[at].word for model, at in zip(listed, places, strict=True)]
    answer = CrossValidation(
        models=listed,
        term=" or ".join(dict.fromkeys(kinds)),
        grids=grids,
        all_scores=dict(zip(criteria, found.values, strict=True)),
        places=places,
        counted=found.counted,
        effects_weight=ridge,
        partial=found.interrupted,
    )
    if found.interrupted and np.count_nonzero(~np.isnan(answer.means)) < min(2, grids.size):
        raise KeyboardInterrupt  # there is nothing to compare
    warn_of(answer, found, budget.tol if path is None else None)
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


def checked_splitter(cv: Any) -> Splitter:
    """The way to cut the table: a number is that of random folds of entries."""
    if isinstance(cv, Splitter):
        return cv
    if isinstance(cv, int | np.integer | float):
        return EntryFolds(whole(cv, "cv", 2))
    raise ModelError(
        f"cv={cv!r} was given; a whole number of at least 2 is needed, or EntryFolds(),"
        " RowFolds() or TimeFolds(...) of mcframe.selection"
    )


def others_bound(models: Sequence[Model], data: Mapping[str, Any]) -> list[Problem]:
    """Problems of further models; what is unobserved has been said for the first one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnobservedWarning)
        return [Problem.bind(model, data) for model in models]


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


@attrs.frozen(eq=False)
class PathScores:
    """Scores (n_criteria, n_reached) of the fits of one path, at the largest weights first.

    ``ended`` says that the path came to its end and was not interrupted; ``largest_gap`` is that
    of fits that are not certified, 0 without any.
    """

    scores: Array
    largest_gap: float
    ended: bool


@attrs.define(eq=False)
class Scores:
    """The scores of all paths (n_criteria, n_models, n_weights, n_folds), NaN where there is none.

    ``reached`` (n_models, n_folds) is the number of weights that a path came to, ``ended`` says
    that it came to its end.
    """

    values: Array
    reached: IntArray
    ended: Mask
    largest_gap: float = 0.0
    interrupted: bool = False

    def add(self, model: int, fold: int, path: PathScores) -> None:
        """Take in the scores of a path."""
        self.reached[model, fold] = path.scores.shape[1]
        self.values[:, model, : path.scores.shape[1], fold] = path.scores
        self.ended[model, fold] = path.ended
        self.largest_gap = max(self.largest_gap, path.largest_gap)

    def end(self, model: int, last: int | None) -> None:
        """Leave out what is beyond the first so many weights of a model, if that is known."""
        if last is not None:
            self.values[:, model, last:] = np.nan
            self.reached[model] = np.minimum(self.reached[model], last)

    @property
    def counted(self) -> Mask:
        """The folds (n_folds,) that means are taken over, the same ones for all that is compared.

        Those that every model has completed; where there is none, as of paths that are walked
        on all folds side by side, all. A fold on which a path ended without one score counts for
        no model, unless that model has no score on any fold.
        """
        complete = self.ended.all(axis=0)
        blank = np.isnan(self.values[0]).all(axis=1) & self.ended
        judged = ~blank.all(axis=1)
        counted = complete if complete.any() else np.ones_like(complete)
        return np.asarray(counted & ~blank[judged].any(axis=0))

    @property
    def undefined(self) -> IntArray:
        """Model, weight and fold (n x 3) of scores that the criterion that decides left open."""
        came = np.arange(self.values.shape[2])[:, None] < self.reached[:, None, :]
        return np.argwhere(came & np.isnan(self.values[0]))


@attrs.frozen(eq=False)
class Scoring:
    """Models with their grids (n_models, n_weights), the folds, and how fits are made and judged.

    ``path`` is one's own, or None for certified fits; ``problems`` hold all data, ``places`` say
    which term of each model has the weights. ``criteria`` are by their names, and the first one
    decides.
    """

    problems: Sequence[Problem]
    places: tuple[int, ...]
    grids: Array
    folds: Sequence[Fold]
    criteria: Mapping[str, Criterion]
    path: PathOf | None
    backend: BackendLike
    budget: Budget
    patience: int | None
    effects_weight: float | None

    def scores(self, n_jobs: int, checkpoint: object, shown: bool) -> Scores:
        """The scores of all paths, or of those finished before an interruption.

        Paths that a checkpoint has are taken from there, and the others are written into it.
        """
        archive = None
        if checkpoint is not None:
            archive = Archive.at_path(checkpoint, "cross-validation", self.identity)
        n_models, n_folds = len(self.problems), len(self.folds)
        found = Scores(
            np.full((len(self.criteria), *self.grids.shape, n_folds), np.nan),
            np.zeros((n_models, n_folds), dtype=np.intp),
            np.zeros((n_models, n_folds), dtype=bool),
        )
        # With patience the paths of a model end at one weight on all folds, and are walked side
        # by side, unless there are more processes than models. Else fold by fold, so that an
        # interruption leaves folds that all models have completed.
        if self.patience is not None and joblib.effective_n_jobs(n_jobs) <= n_models:
            unit, parts = "models", [(model, tuple(range(n_folds))) for model in range(n_models)]
        else:
            unit = "paths"
            parts = [(model, (fold,)) for fold in range(n_folds) for model in range(n_models)]
        remaining = [part for part in parts if not taken_from(archive, part, found)]
        tasks = [self.task(part, archive) for part in remaining]
        try:
            with (
                progress_of("cross_validate", len(tasks), unit, shown) as advance,
                closing(results_as_finished(tasks, n_jobs)) as results,
            ):
                for number, paths in results:
                    model, folds = remaining[number]
                    for fold, path in zip(folds, paths, strict=True):
                        found.add(model, fold, path)
                        if archive is not None and path.ended:
                            keep(archive, model, fold, path)
                    if not paths[0].ended:
                        raise KeyboardInterrupt
                    advance()
        except KeyboardInterrupt:
            found.interrupted = True
            return found
        if self.patience is not None:  # paths may have gone on apart
            for model, weights in enumerate(self.grids):
                found.end(model, end_of_path(weights, found.values[0, model], self.patience))
        return found

    @property
    def identity(self) -> dict[str, str]:
        """What must be the same for the scores in a checkpoint to be of use."""
        return identity_of(self.problems, self.places, self.grids, self.budget, "models") | {
            "folds": digest_of([fold.digest for fold in self.folds]),
            "criterion": digest_of(dict(self.criteria)),
            "path": digest_of(self.path),
            "backend": digest_of(self.backend),
            "patience": str(self.patience),
            "effects_weight": str(self.effects_weight),
        }

    def task(self, part: Part, archive: Archive | None) -> Callable[[], list[PathScores]]:
        """A part as a function without arguments, which can be sent to another process."""
        model, folds = part
        certified = CertifiedPath(
            self.places[model], self.backend, self.budget, self.effects_weight
        )
        walks: list[tuple[PathOf, Fold]] = []
        for fold in folds:
            file = None if archive is None else file_of_fits(archive, model, fold)
            own = attrs.evolve(certified, checkpoint=file) if self.path is None else self.path
            walks.append((own, self.folds[fold]))
        return partial(
            scored_paths,
            self.problems[model].model,
            walks,
            self.grids[model],
            list(self.criteria.values()),
            self.patience if len(folds) == len(self.folds) else None,
            f"model {model}, fold {' or '.join(map(str, folds))}",
        )


def file_of_fits(archive: Archive, model: int, fold: int) -> str:
    """The file beside a checkpoint that has the fits of a path while it is walked."""
    return f"{archive.path}.model{model}.fold{fold}"


def keep(archive: Archive, model: int, fold: int, path: PathScores) -> None:
    """Write the scores of a path that came to its end, in the place of its fits."""
    entry = Entry({"scores": path.scores}, {"largest_gap": path.largest_gap})
    archive.add(f"model{model}.fold{fold}", entry)
    Archive(Path(file_of_fits(archive, model, fold))).remove()


def taken_from(archive: Archive | None, part: Part, found: Scores) -> bool:
    """Whether a checkpoint has all paths of a part, whose scores are taken from it then."""
    model, folds = part
    names = {fold: f"model{model}.fold{fold}" for fold in folds}
    if archive is None or not all(name in archive for name in names.values()):
        return False
    for fold, name in names.items():
        entry = archive.read(name)
        gap = entry.facts["largest_gap"]
        found.add(model, fold, PathScores(entry.arrays["scores"], gap, ended=True))
    return True


def scored_paths(
    model: Model,
    walks: Sequence[tuple[PathOf, Fold]],
    weights: Array,
    criteria: Sequence[Criterion],
    patience: int | None,
    name: str,
) -> list[PathScores]:
    """Walk a model's paths on some folds side by side, and judge every fit.

    An interrupted fit is not judged: it is not the answer at its weight. Patience goes by the
    first criterion. ``name`` says of an error where it was raised.
    """
    scores, gaps, ended = list[Array](), np.zeros(len(walks)), True
    with warnings.catch_warnings():
        # That a fold lacks what all data hold is no news to anybody.
        warnings.simplefilter("ignore", UnobservedWarning)
        try:
            paths = [fits_of(walk(model, fold.data, weights)) for walk, fold in walks]
            for fits in zip(*paths, strict=False):
                if len(scores) == weights.size:
                    raise ModelError(f"path gave more fits than the {weights.size} weights")
                scores.append(scores_of(criteria, fits, [fold for _, fold in walks]))
                gaps = np.maximum(gaps, [gap_of(fit) for fit in fits])
                if patience is not None and end_of_path(weights, np.stack(scores)[:, 0], patience):
                    break
        except KeyboardInterrupt:
            ended = False
        except Exception as error:
            error.add_note(f"raised by cross_validate on the path of {name}")
            raise
    if not scores and ended:
        raise ModelError("path gave no fit; one for each weight is needed")
    empty = np.zeros((0, len(criteria), len(walks)))
    by_fold = np.transpose(np.stack(scores) if scores else empty, (2, 1, 0))
    return [PathScores(own, float(gap), ended) for own, gap in zip(by_fold, gaps, strict=True)]


def scores_of(criteria: Sequence[Criterion], fits: Sequence[Any], folds: Sequence[Fold]) -> Array:
    """The scores (n_criteria, n_folds) of a fit for each fold."""
    scores = np.empty((len(criteria), len(folds)))
    for j, (fit, fold) in enumerate(zip(fits, folds, strict=True)):
        answer = fold.answer(fit)
        scores[:, j] = [score_of(criterion, answer, fold.held) for criterion in criteria]
    return scores


def fits_of(given: Any) -> Iterator[Any]:
    """The fits that a path gives, up to one that was interrupted."""
    try:
        fits = iter(given)
    except TypeError:
        raise ModelError(
            f"path gave a {type(given).__name__}; an iterable with a fit for each weight is needed"
        ) from None
    for fit in fits:
        if isinstance(fit, Fit) and fit.message == FROM_OUTSIDE:
            raise KeyboardInterrupt
        yield fit


def gap_of(fit: Any) -> float:
    """The gap of a fit that should have been certified and is not; else 0."""
    return fit.gap if isinstance(fit, Fit) and fit.status != "certified" else 0.0


def end_of_path(weights: Array, scores: Array, patience: int) -> int | None:
    """The number of weights after which patience ends a path; None where it does not.

    ``scores`` (n_reached, n_folds) are those of the first weights. A path ends that has become
    worse at so many weights in a row, but not before it has come halfway down in the logarithm of
    the weight, and before some weight was better than the first: at large weights, where Z is
    hardly more than 0, scores rise before they fall. Scores that are worse must lie above those
    of the best weight so far by more than one standard error of the differences, fold by fold:
    what the folds have in common cancels there. NaN says nothing of a weight.
    """
    halfway = float(np.sqrt(weights[0] * weights[-1])) * (1.0 + ROUNDING)
    first, lowest, above = np.nan, None, 0
    for k, own in enumerate(scores):
        mean = float(np.mean(own))
        if np.isnan(mean):
            above = 0
        elif lowest is None:
            first, lowest = mean, own
        elif mean < np.mean(lowest):
            lowest, above = own, 0
        else:
            worse = np.mean(lowest) < first and clearly_above(own, lowest)
            above = above + 1 if worse else 0
        if weights[k] <= halfway and above >= patience:
            return k + 1
    return None


def clearly_above(scores: Array, lowest: Array) -> bool:
    """Whether scores exceed others, fold by fold, by more than the standard error of that."""
    if np.isinf(np.mean(scores)):
        return True
    if scores.size == 1:  # whose error nobody knows
        return False
    differences = scores - lowest
    error = float(np.std(differences, ddof=1)) / np.sqrt(differences.size)
    return float(np.mean(differences)) > error


def warn_of(answer: CrossValidation, found: Scores, tol: float | None) -> None:
    """One warning each for an interruption, fits not certified, scores that are NaN, and an edge.

    ``tol`` is that of certified paths, None of others, which promise nothing. Of fewer than three
    weights the best one is always at an edge.
    """
    said: list[tuple[str, type[Warning]]] = []
    if found.interrupted:
        over = f"{np.count_nonzero(answer.counted)} of {answer.counted.size} folds"
        text = (
            f"the cross-validation was interrupted after {np.count_nonzero(found.ended)} of"
            f" {found.ended.size} paths; means are over {over}"
        )
        said.append((text, NotCertifiedWarning))
    if tol is not None and found.largest_gap > 0.0:
        text = (
            "some fits of the paths are not certified; the largest gap is"
            f" {found.largest_gap:.1e}, tol={tol:g}"
        )
        said.append((text, NotCertifiedWarning))
    if found.undefined.size:
        model, position, fold = found.undefined[0]
        others = len(found.undefined) - 1
        more = f" and at {others} more places" if others else ""
        text = (
            f"criterion {answer.criterion} is nan at weight {answer.grids[model, position]:g} of"
            f" model {model} on fold {fold}{more}: such a weight has no mean, and a fold with"
            " nothing else counts for none"
        )
        said.append((text, UserWarning))
    if answer.grids.shape[1] > 2 and np.isfinite(answer.means).any() and answer.at_edge:
        said.append((AT_EDGE[answer.at_edge], UserWarning))
    for text, category in said:
        warnings.warn(text, category, stacklevel=3)
