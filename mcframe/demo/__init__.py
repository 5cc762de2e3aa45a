"""The demo, above all floors: half a table hidden, completed, judged, compared, drawn."""

from mcframe.demo.baseline import Baseline, best_baseline, fit_baseline
from mcframe.demo.choosing import Choice, declare, largest_weight, search
from mcframe.demo.experiment import Errors, Experiment, prepare
from mcframe.demo.report import Demo, demonstrate

__all__ = [
    "Baseline",
    "Choice",
    "Demo",
    "Errors",
    "Experiment",
    "best_baseline",
    "declare",
    "demonstrate",
    "fit_baseline",
    "largest_weight",
    "prepare",
    "search",
]
