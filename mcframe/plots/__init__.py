"""Floor 7: pictures. They need matplotlib, which ``pip install "mcframe[plot]"`` brings."""

from mcframe.plots.pixels import draw_pixels
from mcframe.plots.scores import draw_scores

__all__ = ["draw_pixels", "draw_scores"]
