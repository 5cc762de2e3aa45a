"""Scores of a cross-validation over the weights that were tried."""

import os

import numpy as np

from mcframe.plots.pixels import new_figure
from mcframe.selection import CrossValidation

__all__ = ["draw_scores"]


def draw_scores(path: str | os.PathLike[str], chosen: CrossValidation) -> None:
    """Write a picture with the mean score of each model at its weights.

    A line for each model, with standard errors; a dot at the lowest mean, and a dashed line at
    the largest weight within one standard error of it, where there is one. The weights are on a
    logarithmic scale that falls from left to right, as a path does.

    Parameters
    ----------
    path : where to write; the ending says the format, such as .png, .pdf or .svg
    chosen : CrossValidation

    Raises
    ------
    ModelError
        Where no weight has a finite mean.
    ModuleNotFoundError
        Where matplotlib is not installed.
    """
    model, position = chosen.best
    figure = new_figure((6.4, 4.0))
    axis = figure.subplots()
    for number, (weights, means, errors) in enumerate(
        zip(chosen.grids, chosen.means, chosen.standard_errors, strict=True)
    ):
        shown = np.isfinite(means)
        spread = np.where(np.isfinite(errors), errors, 0.0)
        axis.errorbar(
            weights[shown], means[shown], spread[shown], label=f"model {number}", capsize=2, lw=1.2
        )
    axis.plot(chosen.best_weight, chosen.means[model, position], "ko", label="lowest mean")
    if np.isfinite(chosen.standard_errors[model, position]):
        axis.axvline(
            chosen.one_standard_error_weight, ls="--", color="0.5", label="one standard error"
        )
    axis.set(xscale="log", xlabel=f"weight of {chosen.term}", ylabel=f"mean {chosen.criterion}")
    axis.invert_xaxis()
    axis.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
