"""The answer of ``cross_validate``: scores, their means, and the choice that they lead to."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import EdgeOfGridWarning, ModelError
from mcframe.contracts.pictures import Pictured
from mcframe.contracts.showing import card, remarks, table_as_html
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.validators import as_given, counted, meant
from mcframe.model import Model
from mcframe.model.model import terms_with_weight
from mcframe.selection.paths import may_be_infinite

if TYPE_CHECKING:  # what the pictures are; nothing of them is needed to run
    from mcframe.plots.of_answers import CrossValidationPictures

pandas = Deferred("pandas", "the table of a cross-validation")

EDGE_REMARKS = {
    "largest": "the lowest mean score is at the largest weight: larger ones may be better, unless"
    " Z is 0 there already (mc.weight_max); give weights that begin higher",
    "smallest": "the lowest mean score is at the smallest weight that was tried: smaller ones may"
    " be better; give a smaller ratio, or smaller weights",
}


@contextmanager
def without_edge_warnings() -> Iterator[None]:
    """Ignore the warning of a best weight at an edge, where the caller has chosen the grid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EdgeOfGridWarning)
        yield


@stored
@attrs.frozen(eq=False, repr=False)
class CrossValidation(Pictured["CrossValidationPictures"]):
    """Scores of models at several weights on held-out folds, and the best of them.

    Attributes
    ----------
    models : tuple of Model
        As they were given.
    term : str
        The class of the term whose weight changes; several names if it differs between models.
    grids : array (n_models, n_weights)
        The weights of each model, descending. Given weights are common to all models.
    all_scores : dict from name to array (n_models, n_weights, n_folds)
        The scores by each criterion; lower is better. The first criterion decides. NaN where the
        criterion gave NaN, and beyond the end of a path.
    counted : array of bool (n_folds,)
        The folds over which means are taken. After an interruption these are the folds that every
        model has completed. A fold on which a model has no score is left out for all models.
    effects_weight : float or None
        The weight of the ridge on effects in the scored fits, if a model has free effects that may
        be infinite.
    partial : bool
        True if it was interrupted.
    """

    models: tuple[Model, ...]
    term: str
    grids: Array
    all_scores: Mapping[str, Array]
    places: tuple[int, ...]
    counted: Mask
    effects_weight: float | None = None
    partial: bool = False

    @property
    def weights(self) -> Array:
        """The weights (n_weights,) of the chosen model, of all models where they are common."""
        return np.asarray(self.grids[0 if self.common_grid else self.best[0]])

    @property
    def common_grid(self) -> bool:
        """True if all models have the same weights."""
        return bool(np.all(self.grids == self.grids[0]))

    @property
    def criterion(self) -> str:
        """The name of the criterion that decides."""
        return next(iter(self.all_scores))

    @property
    def scores(self) -> Array:
        """The scores (n_models, n_weights, n_folds) of the criterion that decides."""
        return self.all_scores[self.criterion]

    @property
    def means(self) -> Array:
        """Mean scores by the first criterion over the counted folds (n_models, n_weights).

        NaN where a score is missing on one of them, since means over other folds are not
        comparable.
        """
        return self.means_of(self.criterion)

    def means_of(self, criterion: str) -> Array:
        """Mean scores (n_models, n_weights) of any of the criteria, by its name.

        Raises
        ------
        ModelError
            If there is no criterion of that name.
        """
        if criterion not in self.all_scores:
            remedy = meant(str(criterion), list(self.all_scores), "criteria")
            raise ModelError(f"criterion={as_given(criterion)} was given; {remedy}")
        if not self.counted.any():
            return np.full(self.grids.shape, np.nan)
        return np.asarray(np.mean(self.all_scores[criterion][:, :, self.counted], axis=2))

    @property
    def standard_errors(self) -> Array:
        """Standard errors of these means, as if the folds were independent; NaN of one fold."""
        n_folds = int(np.count_nonzero(self.counted))
        if n_folds < 2:
            return np.full(self.grids.shape, np.nan)
        with np.errstate(invalid="ignore"):  # of infinite scores
            spread = np.std(self.scores[:, :, self.counted], axis=2, ddof=1)
        return np.asarray(spread / np.sqrt(n_folds))

    @property
    def best(self) -> tuple[int, int]:
        """Positions of the model and the weight with the lowest mean.

        Among equal means it is the largest weight, then the first model: the simplest answer.
        If no mean is a finite number it raises a ``ModelError``.
        """
        means = np.where(np.isfinite(self.means), self.means, np.inf)
        weight, model = np.unravel_index(int(np.argmin(means.T)), means.T.shape)
        if means[model, weight] == np.inf:
            raise ModelError(
                "no weight has a finite mean score, so that none is the best:"
                f" {np.count_nonzero(np.isnan(self.scores))} of {self.scores.size} scores are nan"
                f" and {np.count_nonzero(np.isinf(self.scores))} infinite; check the criterion, or"
                " ask for fewer folds"
            )
        return int(model), int(weight)

    @property
    def best_weight(self) -> float:
        """The weight with the lowest mean."""
        return float(self.grids[self.best])

    @property
    def best_model(self) -> Model:
        """The model with the lowest mean, its term at that weight: ready for ``fit``."""
        return self.model_at(*self.best)

    @property
    def one_standard_error(self) -> tuple[int, int]:
        """Positions of the best model and its largest weight within one standard error.

        The largest weight whose mean is at most the lowest mean plus the standard error there:
        the simplest answer that is not clearly worse than the best (Hastie, Tibshirani and
        Friedman, The Elements of Statistical Learning, 2009, section 7.10). It raises a
        ``ModelError`` if there is no best one, or only one fold, which has no standard error.
        """
        model, best = self.best
        error = self.standard_errors[model, best]
        if np.isnan(error):
            raise ModelError(
                "the one-standard-error rule needs standard errors, and only one fold counts; take"
                " best_model"
            )
        # NaN, of weights that were not tried, compares as False.
        close = self.means[model] <= self.means[model, best] + error
        return model, int(np.flatnonzero(close)[0])

    @property
    def one_standard_error_weight(self) -> float:
        """The largest weight of the best model within one standard error of the lowest mean."""
        return float(self.grids[self.one_standard_error])

    @property
    def one_standard_error_model(self) -> Model:
        """The best model at that weight: ready for ``fit``."""
        return self.model_at(*self.one_standard_error)

    def model_at(self, number: int, position: int) -> Model:
        """One of the models, its term at one of its weights."""
        model, place = self.models[number], self.places[number]
        weight = float(self.grids[number, position])
        return attrs.evolve(model, terms=terms_with_weight(model.terms, place, weight))

    @property
    def table(self) -> Any:
        """A pandas DataFrame with a row for each model and weight, in this order.

        Columns: ``model`` (its position), ``weight``, ``mean`` and ``standard_error`` of the
        criterion that decides, ``folds`` (the number of folds of the mean), and the mean of every
        criterion by its name, the deciding one included. NaN where there is no mean.
        """
        n_models, n_weights = self.grids.shape
        return pandas.DataFrame(
            {
                "model": np.repeat(np.arange(n_models), n_weights),
                "weight": self.grids.ravel(),
                "mean": self.means.ravel(),
                "standard_error": self.standard_errors.ravel(),
                "folds": int(np.count_nonzero(self.counted)),
            }
            | {name: self.means_of(name).ravel() for name in self.all_scores}
        )

    @property
    def at_edge(self) -> Literal["largest", "smallest"] | None:
        """The edge of the grid of its model at which the best weight lies, if any.

        A better weight may lie beyond the edge: begin higher, or take a smaller ``ratio``. None
        if the best weight lies between others, or is the only one.
        """
        model, position = self.best
        tried = np.flatnonzero(~np.isnan(self.means[model]))
        if tried.size == 1 or tried[0] < position < tried[-1]:
            return None
        return "largest" if position == tried[0] else "smallest"

    def __repr__(self) -> str:
        texts = [
            [f"{text:>{12 if title == 'weight' else 20}}" for text in (title, *column)]
            for title, column in self._columns()
        ]
        rows = ["".join(row) for row in zip(*texts, strict=True)]
        return "\n".join([self._title(), *rows, *self.remarks()])

    def _repr_html_(self) -> str:
        titles, columns = zip(*self._columns(), strict=True)
        rows = list(zip(*columns, strict=True))
        chosen = [
            (i, j) for i, row in enumerate(rows) for j, text in enumerate(row) if text[-1] == "*"
        ]
        return card(self._title(), table_as_html(titles, rows, chosen), remarks(self.remarks()))

    def _title(self) -> str:
        n_models, n_weights, n_folds = self.scores.shape
        suffix = "" if self.common_grid else " each"
        return (
            f"CrossValidation: {counted(n_models, 'model')},"
            f" {counted(n_weights, 'weight')} of {self.term}{suffix}, {n_folds} folds"
        )

    def _columns(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the weights and the scores of each model; of a common grid the weights once."""
        chosen = self.best if np.isfinite(self.means).any() else None
        for k, (grid, means, errors) in enumerate(
            zip(self.grids, self.means, self.standard_errors, strict=True)
        ):
            if k == 0 or not self.common_grid:
                yield "weight", [f"{weight:.6g}" for weight in grid]
            marks = ["*" if (k, j) == chosen else " " for j in range(grid.size)]
            yield f"model {k}", list(map(cell, means, errors, marks))

    def remarks(self) -> list[str]:
        """Explanations of the means, and warnings about the choice."""
        if not np.isfinite(self.means).any():
            return ["no mean score is a finite number"]
        n_folds, n_counted = self.counted.size, int(np.count_nonzero(self.counted))
        over = "folds" if n_counted == n_folds else f"{n_counted} of {n_folds} folds"
        others = list(self.all_scores)[1:]
        what = self.criterion if others else "score"
        notes = [f"mean {what} ± standard error over {over}; * is the lowest"]
        if others:
            scores = ", ".join(f"{name} {self.means_of(name)[self.best]:.4g}" for name in others)
            notes.append(f"the other criteria there: {scores}")
        if self.partial:
            missing = int(np.count_nonzero(np.isnan(self.scores)))
            notes.append(
                f"partial, since it was interrupted: {missing} of {self.scores.size} scores are"
                " missing"
            )
        if self.at_edge is not None:
            notes.append(EDGE_REMARKS[self.at_edge])
        blocks = [block for model in self.models for block in model.blocks]
        ridged = dict.fromkeys(repr(block.name) for block in blocks if may_be_infinite(block))
        if ridged and self.effects_weight is not None:
            notes.append(
                f"effects of {', '.join(ridged)} had a ridge of effects_weight="
                f"{self.effects_weight:g} in these fits, which keeps them finite"
            )
        return notes


def cell(mean: float, error: float, mark: str) -> str:
    """Return a mean score with its standard error and a mark, or a dash where there is none."""
    if np.isnan(mean):
        return f"-{mark}"
    return f"{mean:.4g} ± {'-' if np.isnan(error) else f'{error:.2g}'}{mark}"
