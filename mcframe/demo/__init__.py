"""The demo, above all floors: half a table hidden, completed, scored, compared, drawn."""

from mcframe.demo.experiment import (
    Baseline,
    Errors,
    Experiment,
    GridScores,
    best_baseline,
    declare,
    fit_baseline,
    largest_weight,
    prepare,
    search,
)
from mcframe.demo.report import Demo, demonstrate

__all__ = [
    "Baseline",
    "Demo",
    "Errors",
    "Experiment",
    "GridScores",
    "best_baseline",
    "declare",
    "demonstrate",
    "fit_baseline",
    "largest_weight",
    "prepare",
    "search",
]
