"""The picture of an experiment, where the paper has one."""

from pathlib import Path

from papers.experiment import Experiment, Summary

__all__ = ["draw"]

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
