"""What the paths of a cross-validation found, as they are finished or interrupted."""

import warnings
from collections.abc import Mapping
from contextlib import closing, nullcontext

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import NotCertifiedWarning
from mcframe.selection.choice import AT_EDGE, CrossValidation
from mcframe.selection.finished_scores import FinishedScores
from mcframe.selection.jobs import joblib, results_as_finished
from mcframe.selection.progress import progress
from mcframe.selection.scoring import Patience, Scored
from mcframe.selection.work import Part, Work

__all__ = ["Results", "collect", "warn_of"]


@attrs.frozen(eq=False)
class Results:
    """The scores of each part of the work, and whether the rest of it was interrupted."""

    shape: tuple[int, int, int]  # models, weights, folds
    names: tuple[str, ...]  # of the criteria, the one that decides first
    parts: Mapping[Part, Scored]
    interrupted: bool

    @property
    def all_scores(self) -> dict[str, Array]:
        """Scores (n_models, n_weights, n_folds) by criterion, NaN where there is none."""
        scores = np.full((len(self.names), *self.shape), np.nan)
        for (model, folds), found in self.parts.items():
            scores[:, model][:, :, folds] = found.scores
        return dict(zip(self.names, scores, strict=True))

    @property
    def scores(self) -> Array:
        """The scores of the criterion that decides."""
        return self.all_scores[self.names[0]]

    @property
    def ended(self) -> Mask:
        """Which paths came to their end (n_models, n_folds)."""
        ended = np.zeros((self.shape[0], self.shape[2]), dtype=bool)
        for (model, folds), found in self.parts.items():
            ended[model, list(folds)] = found.ended
        return ended

    @property
    def counted(self) -> Mask:
        """The folds (n_folds,) that means are taken over, the same ones for all that is compared.

        Those that every model has completed; where there is none, as of paths that are walked
        on all folds side by side, all. A fold on which a path ended without one score counts for
        no model, unless that model has no score on any fold.
        """
        complete = self.ended.all(axis=0)
        blank = np.isnan(self.scores).all(axis=1) & self.ended
        judged = ~blank.all(axis=1)
        counted = complete if complete.any() else np.ones_like(complete)
        return np.asarray(counted & ~blank[judged].any(axis=0))

    @property
    def largest_gap(self) -> float:
        """The largest gap of fits that are not certified; 0 without any."""
        return max((found.largest_gap for found in self.parts.values()), default=0.0)

    def undefined_scores(self) -> list[tuple[int, int, int]]:
        """Model, weight and fold, by their positions, of scores that the criterion left open."""
        reached = np.zeros(self.shape, dtype=bool)
        for (model, folds), found in self.parts.items():
            reached[model][: found.reached, folds] = True
        return [
            (int(k), int(at), int(j)) for k, at, j in np.argwhere(reached & np.isnan(self.scores))
        ]


def collect(work: Work, jobs: int, kept: FinishedScores | None, shown: bool) -> Results:
    """The results of all parts of the work, or of those finished before an interruption.

    Parts that a file has ``kept`` are taken from there, and the others are written into it. How
    far it is may be ``shown``.
    """
    side_by_side = work.side_by_side(joblib.effective_n_jobs(jobs))
    parts, results = work.parts(side_by_side), dict[Part, Scored]()
    if kept is not None:
        known = {part: kept.find(part) for part in parts}
        results = {part: found for part, found in known.items() if found is not None}
    remaining = [part for part in parts if part not in results]
    tasks = [
        work.task(part, [None if kept is None else kept.file_of(part[0], j) for j in part[1]])
        for part in remaining
    ]
    unit = "models" if side_by_side else "paths"
    bar = progress("cross_validate", len(remaining), unit) if shown else nullcontext(nothing)
    names = tuple(work.criteria)
    try:
        with bar as advance, closing(results_as_finished(tasks, jobs)) as done:
            for number, found in done:
                results[remaining[number]] = found
                if kept is not None:
                    kept.keep(remaining[number], found)
                if not found.ended:
                    return Results(work.shape, names, results, interrupted=True)
                advance()
    except KeyboardInterrupt:
        return Results(work.shape, names, results, interrupted=True)
    return ended_by_patience(work, Results(work.shape, names, results, interrupted=False))


def ended_by_patience(work: Work, found: Results) -> Results:
    """The scores up to where patience ends the paths of a model, which may have gone on apart."""
    if work.patience is None:
        return found
    ends = []
    for weights, scores in zip(work.grids, found.scores, strict=True):
        rule = Patience.of(work.patience, weights)
        worse = (k + 1 for k, row in enumerate(scores) if rule.ends(weights[k], row))
        ends.append(next(worse, weights.size))
    parts = {part: scored.up_to(ends[part[0]]) for part, scored in found.parts.items()}
    return attrs.evolve(found, parts=parts)


def nothing() -> None:
    """What is called after each part where nothing is shown."""


def warn_of(results: Results, answer: CrossValidation, tol: float | None) -> None:
    """One warning each for an interruption, fits not certified, scores that are NaN, and an edge.

    ``tol`` is that of certified paths, None of others, which promise nothing. Of fewer than three
    weights the best one is always at an edge.
    """
    if results.interrupted:
        ended, counted = results.ended, answer.counted
        warnings.warn(
            f"the cross-validation was interrupted after {np.count_nonzero(ended)} of"
            f" {ended.size} paths; means are over {np.count_nonzero(counted)} of {counted.size}"
            " folds",
            NotCertifiedWarning,
            stacklevel=3,
        )
    if tol is not None and results.largest_gap > 0.0:
        warnings.warn(
            "some fits of the paths are not certified; the largest gap is"
            f" {results.largest_gap:.1e}, tol={tol:g}",
            NotCertifiedWarning,
            stacklevel=3,
        )
    undefined = results.undefined_scores()
    if undefined:
        model, position, fold = undefined[0]
        more = f" and at {len(undefined) - 1} more places" if len(undefined) > 1 else ""
        warnings.warn(
            f"criterion {answer.criterion} is nan at weight {answer.grids[model, position]:g} of"
            f" model {model} on fold {fold}{more}: such a weight has no mean, and a fold with"
            " nothing else counts for none",
            UserWarning,
            stacklevel=3,
        )
    if answer.grids.shape[1] > 2 and np.isfinite(answer.means).any() and answer.at_edge:
        warnings.warn(AT_EDGE[answer.at_edge], UserWarning, stacklevel=3)
