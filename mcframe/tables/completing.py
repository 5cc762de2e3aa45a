"""The verb ``complete``: a table with holes in, the same table without them out."""

import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from mcframe.contracts.errors import ModelError, NotCertifiedWarning, UnobservedWarning
from mcframe.contracts.real_numbers import plain
from mcframe.contracts.validators import number
from mcframe.fitting import fit
from mcframe.options import checked_budget
from mcframe.selection import CrossValidation, RowFolds, cross_validate
from mcframe.selection.choice import edges_unsaid
from mcframe.selection.chosen_term import chosen_place
from mcframe.selection.work import CertifiedPath
from mcframe.tables.completion import Completion
from mcframe.tables.declared import Declared
from mcframe.tables.declaring import declare
from mcframe.tables.judging import JudgedColumns
from mcframe.tables.timed_path import TimedPath

__all__ = ["complete"]

# Weights that are tried, on how many folds, and how many clearly worse ones end the search.
WEIGHTS, FOLDS, PATIENCE = 10, 3, 1
# The smallest weight beside the largest. Tables of few columns have their best one far down.
RATIO = 0.003
# The share of the budget that choosing may take, and the share of that for one fit. Time is looked
# at between fits, so that the fits of all folds at one weight may come on top of it.
CHOOSING, SHARE_OF_A_FIT = 0.5, 0.1
# As in cross_validate: of fits that are compared, and of the ridge on their effects.
TOLERANCE, MOST_STEPS, EFFECTS_WEIGHT = 1e-3, 20_000, 0.1
# The last fit is given at least this, in seconds: choosing cannot be stopped within a step.
LEAST_SECONDS = 0.1


def complete(
    frame: Any,
    types: Mapping[Any, Any] | None = None,
    *,
    budget_seconds: float = 60.0,
    seed: int = 0,
    groups: Any = None,
) -> Completion:
    """Fill the holes of a table of numbers, labels, counts, levels and categories.

    ``declare`` says what each column is; the weight of the nuclear norm is chosen by
    ``cross_validate`` among 10, on 3 folds of held-out entries of every column, by the mean over
    columns of their losses relative to that of the best constant; the model is then fitted to
    all observed entries, with a certificate.

    Parameters
    ----------
    frame, types : as in ``declare``
    budget_seconds : float, default 60
        A budget of time for all of it, which holds roughly: fits end where it does, certified or
        not, and a ``NotCertifiedWarning`` says so.
    seed : int, default 0
        Draws the folds.
    groups : sequence with a label for each row, optional
        Rows that belong together, such as ``groups=frame["patient"]`` of several visits: all of a
        group are held out together, and the weight is chosen for rows of groups that the fit
        has seen nothing of (``mcframe.selection.RowFolds``).

    Returns
    -------
    Completion
        ``table`` is the completed table in its own library, with its own dtypes; ``report()``
        says of each column how well it is predicted where it was held out; ``fit`` has the
        certificate. A ``UserWarning`` names columns that keep holes, since they are set aside.

    Raises
    ------
    DataError, ModelError
        As in ``declare``; a budget that is no positive number; fewer groups than 3, or not a
        label for each row.

    Examples
    --------
    >>> import pandas as pd, mcframe as mc
    >>> frame = pd.DataFrame({
    ...     "height": [1.6, 1.7, None, 1.9] * 6, "tall": ["no", "no", "yes", None] * 6,
    ... })
    >>> completed = mc.complete(frame)
    >>> completed.table.isna().to_numpy().any()
    np.False_
    """
    began = time.perf_counter()
    if not 0.0 < number(budget_seconds, "budget_seconds") < np.inf:
        raise ModelError(
            f"budget_seconds={budget_seconds!r} was given; a positive number of seconds is needed"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnobservedWarning)  # the fit at the end says it once
        declared = declare(frame, types)
        judged = JudgedColumns(declared)
        chosen = chosen_weight(declared, judged, CHOOSING * budget_seconds, seed, groups)
    left = max(began + budget_seconds - time.perf_counter(), LEAST_SECONDS)
    final = fit(chosen.best_model, declared.data, max_seconds=left, random_state=seed)
    warn_of_holes(declared)
    return Completion(declared.table(final), final, declared, chosen, judged)


def chosen_weight(
    declared: Declared, judged: JudgedColumns, seconds: float, seed: int, groups: Any = None
) -> CrossValidation:
    """The cross-validation of the weight, with a warning where time ended it too early."""
    fewest = min(np.count_nonzero(~np.isnan(codes)) for codes in declared.data.values())
    budget = checked_budget(TOLERANCE, MOST_STEPS, seconds * SHARE_OF_A_FIT)
    place = chosen_place(declared.model, None)
    certified = CertifiedPath(place, "auto", budget, EFFECTS_WEIGHT)
    timed = TimedPath(certified, time.perf_counter() + seconds)
    folds: Any = int(np.clip(fewest, 2, FOLDS))
    if groups is not None:
        folds = RowFolds(FOLDS, groups=np.asarray(groups))
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
            stacklevel=3,
        )
    n_tried = np.count_nonzero(~np.isnan(chosen.means))
    if timed.ended and chosen.best[1] == n_tried - 1:
        warnings.warn(
            f"the budget ended the search at the weight {chosen.best_weight:.3g}, the best of the"
            f" {n_tried} that were tried and the smallest; a larger budget_seconds tries more",
            UserWarning,
            stacklevel=3,
        )
    return chosen


def warn_of_holes(declared: Declared) -> None:
    """A ``UserWarning`` that names columns whose holes stay."""
    left = [
        repr(plain(each.name))
        for each in declared.columns
        if each.place is None and not each.taken.constant and each.column.missing.any()
    ]
    if left:
        named = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
        warnings.warn(
            f"columns that are set aside keep their holes: {named}; print(mc.declare(frame)) says"
            " why, types={name: kind} declares what they are",
            UserWarning,
            stacklevel=3,
        )
