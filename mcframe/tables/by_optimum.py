"""A table that is filled by the certified optimum of the model of ``declare``."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Mask
from mcframe.contracts.errors import (
    NoInfluence,
    NotCertifiedWarning,
    UndefinedScoreWarning,
    UnobservedWarning,
)
from mcframe.contracts.row_groups import RowGroups
from mcframe.fitting.fit import fit
from mcframe.fitting.fit_answer import Fit
from mcframe.runtime.progress import current
from mcframe.selection import (
    Criterion,
    EntryFolds,
    Grid,
    Held,
    HeldOutLoss,
    RelativeDeviance,
    RowFolds,
    cross_validate,
)
from mcframe.selection.cross_validation_answer import without_edge_warnings
from mcframe.selection.splitters import fewest_free
from mcframe.selection.weight_max import weight_max
from mcframe.tables.calibrating import ColumnScores, calibrated_and_scored
from mcframe.tables.column_types import ReadTable
from mcframe.tables.completion import Completion
from mcframe.tables.declared import declared_of
from mcframe.tables.declared_column import (
    DeclaredColumn,
    answers,
    in_content_order,
    warn_of_limits,
)
from mcframe.tables.missingness import FOLDS, Missingness
from mcframe.tables.raw_predictions import RawPredictions

# The number of weights that are tried, and of clearly worse ones in a row that end the search.
WEIGHTS_TRIED, WEIGHTS_PATIENCE = 10, 1
# The smallest weight over the largest. The best weight of tables with few columns is small.
SMALLEST_WEIGHT_RATIO = 0.003


def complete_by_optimum(table: ReadTable, seed: int, groups: RowGroups | None) -> Completion[Any]:
    """Return the completion by the certified optimum of the model of ``declare``."""
    declared = declared_of(in_content_order(table.columns), table.frame, table.relations)
    warn_of_limits(declared.columns, declared.model)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnobservedWarning)  # the fit says it
            weight_max(declared.model, declared.data)
    except NoInfluence:  # of constants; all weights have one optimum, and none is chosen
        return Completion.of(declared, fit(declared.model, declared.data, random_state=seed))
    # A loss without a deviance, as that of equalities, says nothing of the weight.
    deviances: list[Criterion] = [
        RelativeDeviance(block.name)
        for block in declared.model.blocks
        if RelativeDeviance().refusal(block.likelihood, block.name) is None
    ]
    fits_by_weight: dict[float, list[tuple[Fit, Mapping[str, Held]]]] = {}

    def relative_deviance(fit: Fit, held: Mapping[str, Held]) -> float:
        """The mean over blocks; fits of each weight are kept for the scores of the columns."""
        norm: Any = fit.model.terms[0]
        fits_by_weight.setdefault(norm.weight, []).append((fit, held))
        ratios = [deviance(fit, held) for deviance in deviances or [HeldOutLoss()]]
        finite = [ratio for ratio in ratios if not np.isnan(ratio)]
        return float(np.mean(finite)) if finite else np.nan

    with without_edge_warnings():
        # The last fit repeats what concerns it, and a fold without a score decides nothing.
        for category in (UnobservedWarning, NotCertifiedWarning, UndefinedScoreWarning):
            warnings.simplefilter("ignore", category)
        cv: Any = EntryFolds(max(min(fewest_free(declared.model, declared.data), FOLDS), 2))
        chosen = cross_validate(
            declared.model,
            declared.data,
            criterion=relative_deviance,
            weights=Grid(
                count=WEIGHTS_TRIED, ratio=SMALLEST_WEIGHT_RATIO, patience=WEIGHTS_PATIENCE
            ),
            cv=cv if groups is None else RowFolds(FOLDS, groups=groups.numbers),
            random_state=seed,
        )
        folds = fits_by_weight[chosen.best_weight]
        scores = tuple(scores_of_fits(column, folds) for column in declared.columns)
    current().report(f"NuclearNorm({chosen.best_weight:.6g}) has the least loss")
    final = fit(chosen.best_model, declared.data, random_state=seed)
    return Completion(declared.table(final), final, declared, chosen, scores)


def scores_of_fits(
    column: DeclaredColumn, folds: Sequence[tuple[Fit, Mapping[str, Held]]]
) -> ColumnScores | None:
    """Return the scores of a column by fits and what each has not seen; None where all was."""
    if column.place is None:
        return None
    coding, block, codes = column.block_coding, column.block_name, column.codes
    held, raw = list[Mask](), list[RawPredictions]()
    for fitted, entries in folds:
        mask = entries[block].columns == column.place
        rows = entries[block].rows[mask]
        rows = rows[~np.isnan(codes[rows])]  # limits have no error
        [(_, answer)] = answers(fitted, [(column, rows)])
        answer = answer[:, None] if answer.ndim == 1 else answer
        held.append(np.zeros(codes.size, dtype=bool))
        raw.append(RawPredictions(np.full((codes.size, answer.shape[1]), np.nan)))
        held[-1][rows], raw[-1].means[rows] = True, answer
    if not any(mask.any() for mask in held):
        return None
    uniform_missingness = Missingness(None, np.ones(codes.size))
    return calibrated_and_scored(coding, codes, held, raw, uniform_missingness)[1]
