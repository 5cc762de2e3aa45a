"""The verb ``cross_validate``: which of several models, and at which weight of a term."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.backends import Backend, Budget
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError, NotCertifiedWarning, UnobservedWarning
from mcframe.contracts.validators import whole
from mcframe.fitting import Fit, checked_backend, checked_budget, checked_seed
from mcframe.model import Model, Problem
from mcframe.selection.chosen_term import chosen_place
from mcframe.selection.criteria import Criterion
from mcframe.selection.folds import Fold, drawn_folds
from mcframe.selection.grids import descending
from mcframe.selection.paths import along

__all__ = ["CrossValidation", "PathOf", "cross_validate"]

# Gives a fit for each of the descending weights, from (model, data, weights).
PathOf = Callable[[Model, Mapping[str, Any], Array], Iterable[Any]]


@attrs.frozen(eq=False, repr=False)
class CrossValidation:
    """Scores of models at weights on folds, and the choice that they lead to.

    Attributes
    ----------
    models : tuple of Model
        As they were given.
    term : str
        The class of the term whose weight changes.
    weights : array (n_weights,)
        Descending.
    scores : array (n_models, n_weights, n_folds)
        The criterion, the lower the better; NaN where a path was ended before.
    """

    models: tuple[Model, ...]
    term: str
    weights: Array
    scores: Array
    places: tuple[int, ...]

    @property
    def means(self) -> Array:
        """Mean scores over the folds (n_models, n_weights)."""
        return np.asarray(np.mean(self.scores, axis=2))

    @property
    def standard_errors(self) -> Array:
        """Standard errors of these means, as if the folds were independent."""
        n_folds = self.scores.shape[2]
        return np.asarray(np.std(self.scores, axis=2, ddof=1) / np.sqrt(n_folds))

    @property
    def best(self) -> tuple[int, int]:
        """Positions of the model and the weight with the lowest mean.

        Of equal ones the largest weight, then the first model: the simplest answer.
        """
        means = np.where(np.isnan(self.means), np.inf, self.means)
        weight, model = np.unravel_index(int(np.argmin(means.T)), means.T.shape)
        return int(model), int(weight)

    @property
    def best_weight(self) -> float:
        """The weight with the lowest mean."""
        return float(self.weights[self.best[1]])

    @property
    def best_model(self) -> Model:
        """The model with the lowest mean, its term at that weight: ready for ``fit``."""
        model, place = self.models[self.best[0]], self.places[self.best[0]]
        term = attrs.evolve(model.terms[place], weight=self.best_weight)  # type: ignore[misc]
        return attrs.evolve(model, terms=(*model.terms[:place], term, *model.terms[place + 1 :]))

    def __repr__(self) -> str:
        n_models, n_weights, n_folds = self.scores.shape
        chosen, at = self.best
        lines = [
            f"CrossValidation: {n_models} model{'s' * (n_models > 1)}, {n_weights} weights of"
            f" {self.term}, {n_folds} folds",
            f"{'weight':>12}" + "".join(f"{f'model {k}':>20}" for k in range(n_models)),
        ]
        for position, weight in enumerate(self.weights):
            cells = [
                cell(self.means[k, position], self.standard_errors[k, position])
                + ("*" if (k, position) == (chosen, at) else " ")
                for k in range(n_models)
            ]
            lines.append(f"{weight:>12.6g}" + "".join(f"{text:>20}" for text in cells))
        return "\n".join([*lines, "mean score ± standard error over folds; * is the lowest"])


def cell(mean: float, error: float) -> str:
    """A mean score with its standard error, or a dash where there is none."""
    return "-" if np.isnan(mean) else f"{mean:.4g} ± {error:.2g}"


def cross_validate(
    models: Model | Sequence[Model],
    data: Mapping[str, Any],
    *,
    criterion: Criterion,
    term: Any = None,
    weights: Any = None,
    count: int = 20,
    ratio: float = 0.01,
    folds: int = 5,
    patience: int | None = None,
    path: PathOf | None = None,
    backend: str | Backend = "auto",
    tol: float = 1e-4,
    max_iter: int = 20_000,
    max_seconds: float = np.inf,
    jobs: int = 1,
    random_state: int | np.random.Generator = 0,
) -> CrossValidation:
    """Choose among models and weights of a term by entries that are held out.

    The observed entries of every block are cut into ``folds`` disjoint parts at random. For
    each model and fold one path over all weights is fitted on the other parts, each fit from
    the last, and judged on the part that was held out (Goldberg et al., 2010, section 4).

    Parameters
    ----------
    models : Model, or a list of Models
        With the same blocks: for example one for each weight of a block.
    data : as in ``fit``
    criterion : function of a fit and of ``{block: held}``
        The lower the better; ``held`` has ``rows``, ``columns`` and ``values``. Ready ones
        are in ``mcframe.selection``: ``LabelError``, ``RelativeError``, ``HeldOutLoss``. With
        several ``jobs`` it must be picklable: a function of a module, or one of these.
    term, weights, count, ratio : as in ``path``
        The weights without ``weights`` are those of the first model on all data.
    folds : int, default 5
    patience : int, optional
        End a model's path where so many weights in a row had a mean score above the lowest
        one before them, once that is below the first: at large weights, where Z is hardly
        more than 0, scores may rise before they fall. By default every weight is tried.
    path : function of (model, data, weights), optional
        Gives something like a fit for each weight, for ``criterion``; by default
        certified fits as by ``mc.path``. With several ``jobs`` picklable as well.
    backend, max_iter, max_seconds : as in ``path``
        Of the default path.
    tol : float, default 1e-4
        As in ``path``; a ranking needs fewer digits than an answer.
    jobs : int, default 1
        Processes, -1 for all cores; the scores do not depend on it.
    random_state : int or numpy Generator
        Draws the folds; equal seeds give equal scores.

    Returns
    -------
    CrossValidation
        With ``best_model``, which ``fit`` takes; with one ``NotCertifiedWarning`` if fits of
        the default path are not certified.

    Raises
    ------
    DataError, ModelError, BackendError
        As in ``path``; a block with fewer observed entries than folds.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> from mcframe.selection import RelativeError
    >>> x = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0, 4.0])
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    >>> chosen = mc.cross_validate(model, {"x": x}, criterion=RelativeError("x"), count=4)
    >>> chosen.best
    (0, 3)
    >>> mc.fit(chosen.best_model, {"x": x}).rank
    1
    """
    from joblib import Parallel, delayed  # only here: importing it takes a tenth of a second

    listed = checked_models(models)
    problem = Problem.bind(listed[0], data)
    places = tuple(chosen_place(model, term) for model in listed)
    sequence = descending(problem, places[0], weights, count, ratio)
    if not callable(criterion):
        raise ModelError(
            f"criterion={criterion!r} was given; a function of a fit and of what was held out is"
            " needed, such as mcframe.selection.LabelError('labels')"
        )
    if patience is not None:
        patience = whole(patience, "patience", 1)
    if isinstance(random_state, np.random.Generator):
        rng = random_state
    else:
        rng = np.random.default_rng(checked_seed(random_state))
    if path is None:
        checked_backend(backend, problem)
        budget = checked_budget(tol, max_iter, max_seconds)
        walks: list[PathOf] = [CertifiedPath(place, backend, budget) for place in places]
    else:
        walks = [path for _ in places]
    drawn = drawn_folds(problem, data, whole(folds, "folds", 2), rng)
    # A path that may end early ends for all folds at once: they are one task then.
    groups = [drawn] if patience is not None else [(fold,) for fold in drawn]
    tasks = [
        delayed(scored)(model, walk, group, sequence, criterion, patience)
        for model, walk in zip(listed, walks, strict=True)
        for group in groups
    ]
    done = Parallel(n_jobs=jobs)(tasks)
    if path is None:  # what other paths promise is not known here
        warn_of(max(gap for _, gap in done), tol)
    scores = [part for part, _ in done]
    per_model = [
        np.concatenate(scores[start : start + len(groups)], axis=1)
        for start in range(0, len(scores), len(groups))
    ]
    name = type(listed[0].terms[places[0]]).__name__
    return CrossValidation(listed, name, sequence, np.stack(per_model), places)


def checked_models(models: Any) -> tuple[Model, ...]:
    """At least one model, all of blocks with the same names."""
    listed = (models,) if isinstance(models, Model) else tuple(models)
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


@attrs.frozen
class CertifiedPath:
    """The fits of ``mc.path``, made when they are asked for."""

    place: int
    backend: str | Backend
    budget: Budget

    def __call__(self, model: Model, data: Mapping[str, Any], weights: Array) -> Iterator[Fit]:
        """A fit at each weight."""
        problem = Problem.bind(model, data)
        chosen = checked_backend(self.backend, problem)
        return along(problem, self.place, weights, chosen, self.budget, seed=0)


def scored(
    model: Model,
    walk: PathOf,
    group: Sequence[Fold],
    sequence: Array,
    criterion: Criterion,
    patience: int | None,
) -> tuple[Array, float]:
    """Scores of a model on some folds, side by side (n_weights, n_folds), and the largest gap."""
    scores = np.full((sequence.size, len(group)), np.nan)
    largest_gap, first, lowest, above = 0.0, np.inf, np.inf, 0
    with warnings.catch_warnings():
        # That a fold lacks what all data hold is no news to anybody.
        warnings.simplefilter("ignore", UnobservedWarning)
        fits = zip(*(walk(model, fold.data, sequence) for fold in group), strict=False)
        for position, row in enumerate(fits):
            for k, (fit, fold) in enumerate(zip(row, group, strict=True)):
                scores[position, k] = criterion(fit, fold.held)
                if isinstance(fit, Fit) and fit.status != "certified":
                    largest_gap = max(largest_gap, fit.gap)
            mean = float(np.mean(scores[position]))
            first = mean if position == 0 else first
            above = above + 1 if mean > lowest and lowest < first else 0
            lowest = min(lowest, mean)
            if patience is not None and above >= patience:
                break
    return scores, largest_gap


def warn_of(largest_gap: float, tol: float) -> None:
    """One warning for all fits that are not certified."""
    if largest_gap > 0.0:
        warnings.warn(
            f"some fits of the paths are not certified; the largest gap is {largest_gap:.1e},"
            f" tol={tol:g}",
            NotCertifiedWarning,
            stacklevel=3,
        )
