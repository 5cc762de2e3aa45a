"""Triangles of three shares with sum 1: grids, names, and their map."""

from typing import Any

from mcframe.plots import ternary
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
    """A map for each setting: PN on top, PU to the left, NU to the right; the best circled."""
    maps = {}
    for setting, measures in summary.items():
        parsed = ((parsed_triple(name), found.mean) for name, found in measures.items())
        points = [(point, mean) for point, mean in parsed if point is not None]
        if len(points) >= 3:
            maps[setting] = points
    all_axes = figure.subplots(1, max(len(maps), 1), squeeze=False)[0]
    for axes, (setting, points) in zip(all_axes, maps.items(), strict=False):
        ternary(dict(points), label=label, ax=axes).set_title(setting, fontsize="medium")
    return bool(maps)
