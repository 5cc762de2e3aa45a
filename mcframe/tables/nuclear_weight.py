"""The weight of a nuclear norm, chosen by held-out entries within a budget of time."""

import time
import warnings

import numpy as np

from mcframe.contracts.errors import NotCertifiedWarning
from mcframe.options import checked_budget
from mcframe.selection import CrossValidation, cross_validate
from mcframe.selection.choice import edges_unsaid
from mcframe.selection.chosen_term import chosen_place
from mcframe.selection.folds import Folds
from mcframe.selection.work import CertifiedPath
from mcframe.tables.column_scores import ColumnScores
from mcframe.tables.declared import Declared
from mcframe.tables.judging import JudgedColumns
from mcframe.tables.timed_path import TimedPath

__all__ = ["chosen_weight"]

# Weights that are tried, and how many clearly worse ones end the search.
WEIGHTS, PATIENCE = 10, 1
# The smallest weight beside the largest. Tables of few columns have their best one far down.
RATIO = 0.003
# The share of the time that one fit may take. Time is looked at between fits, so that the fits of
# all folds at one weight may come on top of it.
SHARE_OF_A_FIT = 0.1
# Where all of the time is spent before the first fit it has this, in seconds.
LEAST_SECONDS = 1e-3
# As in cross_validate: of fits that are compared, and of the ridge on their effects.
TOLERANCE, MOST_STEPS, EFFECTS_WEIGHT = 1e-3, 20_000, 0.1


def chosen_weight(
    declared: Declared, folds: Folds, deadline: float, seed: int
) -> tuple[CrossValidation, tuple[ColumnScores | None, ...]]:
    """Return the cross-validation of the weight, and what was lost of each column at the best.

    With a warning where time ended it too early.
    """
    judged = JudgedColumns(declared)
    seconds = max(deadline - time.perf_counter(), LEAST_SECONDS)
    budget = checked_budget(TOLERANCE, MOST_STEPS, seconds * SHARE_OF_A_FIT)
    place = chosen_place(declared.model, None)
    certified = CertifiedPath(place, "auto", budget, EFFECTS_WEIGHT)
    timed = TimedPath(certified, deadline)
    with edges_unsaid():
        chosen = cross_validate(
            declared.model,
            declared.data,
            criterion=judged,
            count=WEIGHTS,
            ratio=RATIO,
            folds=folds,
            patience=PATIENCE,
            path=timed,
            random_state=seed,
        )
    if timed.n_open:
        warnings.warn(
            f"{timed.n_open} of the {timed.n_fits} fits by which the weight was chosen ended"
            " before they were certified; a larger budget_seconds may choose another",
            NotCertifiedWarning,
            stacklevel=4,
        )
    n_tried = np.count_nonzero(~np.isnan(chosen.means))
    if timed.ended and chosen.best[1] == n_tried - 1:
        warnings.warn(
            f"the budget ended the search at the weight {chosen.best_weight:.3g}, the best of the"
            f" {n_tried} that were tried and the smallest; a larger budget_seconds tries more",
            UserWarning,
            stacklevel=4,
        )
    weight = chosen.best_weight
    scores = tuple(judged.at(weight, position) for position in range(len(declared.columns)))
    return chosen, scores
