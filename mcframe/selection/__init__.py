"""Floor 7: one model at many weights, and which of them to take."""

from mcframe.selection.block_criteria import (
    LabelError,
    LogLoss,
    MeanAbsoluteError,
    OneMinusAUC,
    OrdinalDistance,
    RelativeError,
)
from mcframe.selection.choice import CrossValidation
from mcframe.selection.coordinates import CoordinateSearch, search_block_weights
from mcframe.selection.criteria import CheckedCriterion, Criterion
from mcframe.selection.cross_validation import cross_validate
from mcframe.selection.entry_folds import EntryFolds, drawn_folds
from mcframe.selection.folds import Fold, Folds, Held
from mcframe.selection.losses import HeldOutLoss, RelativeDeviance
from mcframe.selection.paths import Path, path
from mcframe.selection.row_folds import RowFolds
from mcframe.selection.time_folds import TimeFolds
from mcframe.selection.weight_max import weight_max

__all__ = [
    "CheckedCriterion",
    "CoordinateSearch",
    "Criterion",
    "CrossValidation",
    "EntryFolds",
    "Fold",
    "Folds",
    "Held",
    "HeldOutLoss",
    "LabelError",
    "LogLoss",
    "MeanAbsoluteError",
    "OneMinusAUC",
    "OrdinalDistance",
    "Path",
    "RelativeDeviance",
    "RelativeError",
    "RowFolds",
    "TimeFolds",
    "cross_validate",
    "drawn_folds",
    "path",
    "search_block_weights",
    "weight_max",
]
