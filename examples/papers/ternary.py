"""Triangles of three shares with sum 1: grids, names, and their map."""

import math
from typing import Any

from papers.experiment import Summary

__all__ = ["Triple", "draw_ternary", "named_triple", "triples"]

Triple = tuple[float, float, float]


def triples(divisions: int) -> list[Triple]:
    """All (pn, pu, nu) that are multiples of 1 / divisions.

    Examples
    --------
    >>> from papers.ternary import triples
    >>> triples(1)
    [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)]
    """
    found = []
    for pn in range(divisions, -1, -1):
        for pu in range(divisions - pn, -1, -1):
            nu = divisions - pn - pu
            found.append((pn / divisions, pu / divisions, nu / divisions))
    return found


def named_triple(point: Triple) -> str:
    """``(0.3, 0.3, 0.4)``: PN, PU, NU.

    Examples
    --------
    >>> from papers.ternary import named_triple
    >>> named_triple((1.0, 0.0, 0.0))
    '(1, 0, 0)'
    """
    return "({:.3g}, {:.3g}, {:.3g})".format(*point)


def parsed_triple(name: str) -> Triple | None:
    """The point of a name, None where it is none."""
    if not (name.startswith("(") and name.endswith(")")):
        return None
    pn, pu, nu = (float(part) for part in name[1:-1].split(","))
    return pn, pu, nu


def draw_ternary(figure: Any, summary: Summary, label: str) -> bool:
    """A map for each setting: PN on top, PU to the left, NU to the right; the best point red."""
    maps = {}
    for setting, measures in summary.items():
        parsed = ((parsed_triple(name), found.mean) for name, found in measures.items())
        points = [(point, mean) for point, mean in parsed if point is not None]
        if len(points) >= 3:
            maps[setting] = points
    all_axes = figure.subplots(1, max(len(maps), 1), squeeze=False)[0]
    for axes, (setting, points) in zip(all_axes, maps.items(), strict=False):
        x = [nu - pu for (_, pu, nu), _ in points]
        y = [math.sqrt(3.0) * pn for (pn, _, _), _ in points]
        means = [mean for _, mean in points]
        colours = axes.tripcolor(x, y, means, shading="gouraud", cmap="viridis")
        axes.plot(x, y, ".", color="white", markersize=2)
        best = means.index(min(means))
        axes.plot(x[best], y[best], "o", color="red")
        for text, place in (("PN", (0, 1.78)), ("PU", (-1, -0.1)), ("NU", (1, -0.1))):
            axes.text(*place, text, ha="center", va="center")
        axes.set_title(setting, fontsize="medium")
        axes.set_axis_off()
        axes.set_aspect("equal")
        figure.colorbar(colours, ax=axes, label=label, shrink=0.7)
    return bool(maps)
