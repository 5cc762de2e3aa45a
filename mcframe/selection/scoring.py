"""Scores along a path: fits are judged on what was held out of them, and a path may end early."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.answer import Fit
from mcframe.backends import FROM_OUTSIDE
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError, UnobservedWarning
from mcframe.model import Model
from mcframe.selection.criteria import Criterion, score_of
from mcframe.selection.folds import Fold

__all__ = ["PathOf", "Patience", "Scored", "score"]

# By how much the weight in the middle of a grid may lie above its middle.
ROUNDING = 1e-9
# Gives a fit for each of the descending weights, from (model, data, weights).
PathOf = Callable[[Model, Mapping[str, Any], Array], Iterable[Any]]


@attrs.frozen(eq=False)
class Scored:
    """The scores of a model's paths on some folds, walked side by side.

    ``scores`` (n_criteria, n_weights, n_folds) are NaN beyond the first ``reached`` weights;
    ``ended`` says that the paths came to their end and were not interrupted; ``largest_gap`` is
    that of fits that are not certified, 0 without any.
    """

    scores: Array
    reached: int
    largest_gap: float
    ended: bool

    def up_to(self, last: int) -> "Scored":
        """The scores of the first weights alone."""
        scores = self.scores.copy()
        scores[:, last:] = np.nan
        return attrs.evolve(self, scores=scores, reached=min(self.reached, last))


@attrs.define(eq=False)
class Patience:
    """Ends a path that has become worse at ``limit`` weights in a row; None never does.

    No path ends before it has come halfway down in the logarithm of the weight, and before
    some weight was better than the first: at large weights, where Z is hardly more than 0,
    scores rise before they fall. Scores that are worse must lie above those of the best weight so
    far by more than one standard error of the differences, fold by fold: what the folds have in
    common cancels there.
    """

    limit: int | None
    halfway: float
    first: float = np.nan
    lowest: Array | None = None
    above: int = 0

    @classmethod
    def of(cls, limit: int | None, weights: Array) -> "Patience":
        """Return the patience for a path over descending weights."""
        return cls(limit, float(np.sqrt(weights[0] * weights[-1])) * (1.0 + ROUNDING))

    def ends(self, weight: float, scores: Array) -> bool:
        """Whether the path ends after these scores, one for each fold, at this weight."""
        mean = float(np.mean(scores))
        if self.limit is None:
            return False
        if np.isnan(mean):  # nothing can be said of this weight
            self.above = 0
            return False
        if self.lowest is None:
            self.first, self.lowest = mean, scores
        elif mean < np.mean(self.lowest):
            self.lowest, self.above = scores, 0
        else:
            worse = np.mean(self.lowest) < self.first and clearly_above(scores, self.lowest)
            self.above = self.above + 1 if worse else 0
        return weight <= self.halfway and self.above >= self.limit


def clearly_above(scores: Array, lowest: Array) -> bool:
    """Whether scores exceed others, fold by fold, by more than the standard error of that."""
    if np.isinf(np.mean(scores)):
        return True
    if scores.size == 1:  # whose error nobody knows
        return False
    differences = scores - lowest
    error = float(np.std(differences, ddof=1)) / np.sqrt(differences.size)
    return float(np.mean(differences)) > error


def score(
    model: Model,
    walks: Sequence[tuple[PathOf, Fold]],
    weights: Array,
    criteria: Sequence[Criterion],
    patience: int | None,
    name: str = "",
) -> Scored:
    """Walk a model's paths on some folds side by side, and judge every fit.

    An interrupted fit is not judged: it is not the answer at its weight. Patience goes by the
    first criterion. ``name`` says of an error where it was raised.
    """
    scores = np.full((len(criteria), weights.size, len(walks)), np.nan)
    largest_gap, reached, rule = 0.0, 0, Patience.of(patience, weights)
    with warnings.catch_warnings():
        # That a fold lacks what all data hold is no news to anybody.
        warnings.simplefilter("ignore", UnobservedWarning)
        try:
            for fits in side_by_side(model, walks, weights):
                if reached == weights.size:
                    raise ModelError(f"path gave more fits than the {weights.size} weights")
                scores[:, reached] = np.transpose(
                    [
                        scores_of(criteria, fit, fold)
                        for fit, (_, fold) in zip(fits, walks, strict=True)
                    ]
                )
                largest_gap = max(largest_gap, *(gap_of(fit) for fit in fits))
                reached += 1
                if rule.ends(weights[reached - 1], scores[0, reached - 1]):
                    break
        except KeyboardInterrupt:
            return Scored(scores, reached, largest_gap, ended=False)
        except Exception as error:
            error.add_note(f"raised by cross_validate on the path of {name}")
            raise
    if reached == 0:
        raise ModelError("path gave no fit; one for each weight is needed")
    return Scored(scores, reached, largest_gap, ended=True)


def scores_of(criteria: Sequence[Criterion], fit: Any, fold: Fold) -> list[float]:
    """What each criterion says of a fit on what was held out of it."""
    answer = fold.answer(fit)
    return [score_of(criterion, answer, fold.held) for criterion in criteria]


def side_by_side(
    model: Model, walks: Sequence[tuple[PathOf, Fold]], weights: Array
) -> Iterator[list[Any]]:
    """The fits of all folds at one weight after the other, as long as each path gives one."""
    paths = [fits_of(walk(model, fold.data, weights)) for walk, fold in walks]
    while True:
        row = []
        for path in paths:
            try:
                fit = next(path)
            except StopIteration:
                return
            if isinstance(fit, Fit) and fit.message == FROM_OUTSIDE:
                raise KeyboardInterrupt
            row.append(fit)
        yield row


def fits_of(given: Any) -> Iterator[Any]:
    """An iterator over what a path gave, or a ``ModelError``."""
    try:
        return iter(given)
    except TypeError:
        raise ModelError(
            f"path gave a {type(given).__name__}; an iterable with a fit for each weight is needed"
        ) from None


def gap_of(fit: Any) -> float:
    """The gap of a fit that should have been certified and is not; else 0."""
    return fit.gap if isinstance(fit, Fit) and fit.status != "certified" else 0.0
