"""The picture of an experiment, where the paper has one."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np

from papers.experiment import Experiment, Summary

__all__ = ["Bars", "draw", "draw_bars"]

DOTS_PER_INCH = 100


def draw(experiment: Experiment, summary: Summary, path: Path) -> str | None:
    """Write the picture; where there is none, say why. The results are there already: never fail.

    Returns
    -------
    The reason why there is no picture, or None where there is one.
    """
    if type(experiment).draw is Experiment.draw:
        return "the paper has a table here"
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return 'it needs matplotlib; get it with pip install "mcframe[plot]", then add --resume'
    # A figure of its own: pyplot's list of open figures is left alone.
    figure = Figure(figsize=(7.0, 4.5), layout="constrained", facecolor="white")
    try:
        if not experiment.draw(figure, summary):
            return "these results give none"
        figure.savefig(path, dpi=DOTS_PER_INCH)
    except Exception as error:
        return f"drawing it failed ({type(error).__name__}: {error})"
    return None


@attrs.frozen
class Bars:
    """A panel of bars in groups: a group for each label, in it a bar for each series.

    NaN leaves a bar out; bars begin at ``bottom``.
    """

    title: str
    labels: Sequence[str]
    series: Mapping[str, Sequence[float]]
    bottom: float = 0.0


def draw_bars(panels: Sequence[Bars], path: Path) -> None:
    """Write panels of bars side by side, with one legend where all have the same series."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.6 * len(panels), 3.6), layout="constrained", facecolor="white")
    for axes, panel in zip(np.ravel([figure.subplots(1, len(panels))]), panels, strict=True):
        width = 0.8 / len(panel.series)
        for place, (name, values) in enumerate(panel.series.items()):
            at = np.arange(len(values)) + (place - (len(panel.series) - 1) / 2) * width
            axes.bar(at, values, width, label=name)
        axes.set_xticks(range(len(panel.labels)), panel.labels, rotation=45, ha="right")
        axes.tick_params(labelsize="x-small")
        axes.set_title(panel.title, fontsize="small")
        top = float(np.nanmax([value for values in panel.series.values() for value in values]))
        axes.set_ylim(panel.bottom, top + 0.25 * (top - panel.bottom))  # the legend has room
        axes.legend(fontsize="x-small", loc="upper right", ncols=2)
    figure.savefig(path, dpi=DOTS_PER_INCH)
