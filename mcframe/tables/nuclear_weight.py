"""The weight of a nuclear norm, chosen by held-out entries within a budget of iterations."""

import numpy as np

from mcframe.options import checked_budget
from mcframe.selection import CrossValidation, cross_validate
from mcframe.selection.choice import edges_unsaid
from mcframe.selection.paths import CertifiedPath
from mcframe.selection.splitters import Splitter
from mcframe.selection.weight_max import chosen_place
from mcframe.tables.column_scores import ColumnScores
from mcframe.tables.declared import Declared
from mcframe.tables.judging import JudgedColumns
from mcframe.tables.short_path import ShortPath

__all__ = ["chosen_weight"]

# Weights that are tried, and how many clearly worse ones end the search.
WEIGHTS, PATIENCE = 10, 1
# The smallest weight beside the largest. Tables of few columns have their best one far down.
RATIO = 0.003
# The share of all iterations that one fit may take, and how many it may take in any case.
SHARE_OF_A_FIT, FEWEST_STEPS = 0.1, 20
# As in cross_validate: of fits that are compared, and of the ridge on their effects.
TOLERANCE, MOST_STEPS, EFFECTS_WEIGHT = 1e-3, 20_000, 0.1


def chosen_weight(
    declared: Declared, cv: Splitter, n_steps: int, seed: int
) -> tuple[CrossValidation, tuple[ColumnScores | None, ...], str]:
    """Return the cross-validation of the weight, and what was lost of each column at the best.

    And what the budget cut short, in words; it counts iterations, and looks at them between fits.

    Parameters
    ----------
    n_steps : int
        How many iterations all fits together take, more or less.
    """
    judged = JudgedColumns(declared)
    most = min(max(int(SHARE_OF_A_FIT * n_steps), FEWEST_STEPS), MOST_STEPS)
    place = chosen_place(declared.model, None)
    budget = checked_budget(TOLERANCE, most, np.inf)
    path = ShortPath(CertifiedPath(place, "auto", budget, EFFECTS_WEIGHT), n_steps)
    with edges_unsaid():
        chosen = cross_validate(
            declared.model,
            declared.data,
            criterion=judged,
            count=WEIGHTS,
            ratio=RATIO,
            cv=cv,
            patience=PATIENCE,
            path=path,
            random_state=seed,
        )
    said = []
    if path.n_open:
        said.append(
            f"{path.n_open} of the {path.n_fits} fits by which the weight was chosen ended"
            " before they were certified; a larger max_seconds may choose another"
        )
    n_tried = np.count_nonzero(~np.isnan(chosen.means))
    if path.ended and chosen.best[1] == n_tried - 1:
        said.append(
            f"the budget ended the search at the weight {chosen.best_weight:.3g}, the best of the"
            f" {n_tried} that were tried and the smallest; a larger max_seconds tries more"
        )
    weight = chosen.best_weight
    scores = tuple(judged.at(weight, position) for position in range(len(declared.columns)))
    return chosen, scores, "; ".join(said)
