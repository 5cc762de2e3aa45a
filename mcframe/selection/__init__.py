"""Floor 7: one model at many weights, and which of them to take."""

from mcframe.selection.choice import CrossValidation
from mcframe.selection.criteria import (
    CheckedCriterion,
    Criterion,
    HeldOutLoss,
    LabelError,
    RelativeError,
)
from mcframe.selection.cross_validation import cross_validate
from mcframe.selection.folds import Fold, Held, drawn_folds
from mcframe.selection.paths import Path, path
from mcframe.selection.weight_max import weight_max

__all__ = [
    "CheckedCriterion",
    "Criterion",
    "CrossValidation",
    "Fold",
    "Held",
    "HeldOutLoss",
    "LabelError",
    "Path",
    "RelativeError",
    "cross_validate",
    "drawn_folds",
    "path",
    "weight_max",
]
