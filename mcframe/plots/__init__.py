"""Floor 7: pictures. They need matplotlib, which ``pip install "mcframe[plot]"`` brings."""

from mcframe.plots.pixels import draw_pixels

__all__ = ["draw_pixels"]
