"""One model at many weights, and which of them to take."""

from mcframe.contracts.validators import suggest_options as _suggest_options
from mcframe.model.held_out import Held
from mcframe.selection.comparing import Comparison, compare
from mcframe.selection.criteria import (
    Criterion,
    HeldOutLoss,
    LabelError,
    LogLoss,
    MeanAbsoluteError,
    OneMinusAUC,
    OrdinalDistance,
    RelativeDeviance,
    RelativeError,
)
from mcframe.selection.cross_validation import cross_validate
from mcframe.selection.cross_validation_answer import CrossValidation
from mcframe.selection.grid import Grid
from mcframe.selection.held_out_risk import HeldOutRisk
from mcframe.selection.paths import Path, path
from mcframe.selection.splitters import (
    EntryFolds,
    Fold,
    RowFolds,
    Splitter,
    TimeFolds,
    folds_of,
)
from mcframe.selection.weight_max import weight_max

__all__ = [
    "Comparison",
    "Criterion",
    "CrossValidation",
    "EntryFolds",
    "Fold",
    "Grid",
    "Held",
    "HeldOutLoss",
    "HeldOutRisk",
    "LabelError",
    "LogLoss",
    "MeanAbsoluteError",
    "OneMinusAUC",
    "OrdinalDistance",
    "Path",
    "RelativeDeviance",
    "RelativeError",
    "RowFolds",
    "Splitter",
    "TimeFolds",
    "compare",
    "cross_validate",
    "folds_of",
    "path",
    "weight_max",
]

_suggest_options(*(globals()[name] for name in __all__))
_suggest_options(CrossValidation, Path, methods=True)
