"""Pictures of data and answers. ``fit.plot.gap()`` is ``mcframe.plots.gap(fit)``.

Each function draws into the ``ax`` of matplotlib that it is given, or into a new figure, and
returns the axes. They need matplotlib, which ``pip install "mcframe[plot]"`` brings.
"""

from mcframe.plots.diagnostics import (
    evidence,
    gap,
    precisions,
    ranks,
    scores,
    singular_values,
    ternary,
)
from mcframe.plots.drawing import PICTURES
from mcframe.plots.of_answers import Pictures
from mcframe.plots.predictions import biplot, calibration, coverage, predictions
from mcframe.plots.tables import estimates, filled, gap_dependence, missingness

__all__ = [
    "PICTURES",
    "Pictures",
    "biplot",
    "calibration",
    "coverage",
    "estimates",
    "evidence",
    "filled",
    "gap",
    "gap_dependence",
    "missingness",
    "precisions",
    "predictions",
    "ranks",
    "scores",
    "singular_values",
    "ternary",
]
