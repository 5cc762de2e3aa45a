"""What the page of COCO shows of its figures, from the stored trials."""

import re
from collections.abc import Sequence

from papers.experiment import summarised
from papers.pages import Numbers
from papers.picture import Bars
from papers.report import ruled

__all__ = ["GLANCE", "PAGE"]

NUMBERS = Numbers()


def fig2(measure: str) -> str:
    """Write a point of the curves of the first configuration."""
    first = NUMBERS.report("coco-fig2").experiment.settings()[0]
    return f"{NUMBERS.mean('coco-fig2', first, measure):.4f}"


def by_iteration(steps: Sequence[int]) -> str:
    """Write the curves of Figure 2 at some iterations."""
    curves = [(kind, system) for kind in ("X", "Y") for system in ("COCO-1", "COCO-0")]
    summary = summarised(NUMBERS.report("coco-fig2").measures)
    lines = [
        [
            setting,
            str(step),
            *(f"{found[f'{kind} error, {system}, t={step}'].mean:.4f}" for kind, system in curves),
        ]
        for setting, found in summary.items()
        for step in steps
    ]
    headings = [f"{kind}, {system}" for kind, system in curves]
    return "\n".join(ruled(["setting", "iteration", *headings], lines))


def spectrum(places: Sequence[int]) -> str:
    """Write some of the singular values of Figure 1."""
    found = summarised(NUMBERS.report("coco-fig1").measures)["labels of CAL500"]
    values = {
        int(re.sub(r"\D", "", name)): each.mean
        for name, each in found.items()
        if name.startswith("singular value")
    }
    line = [f"{values[place]:.1f}" for place in places]
    return "\n".join(ruled(["place", *map(str, places)], [["singular value", *line]]))


def glance() -> list[Bars]:
    """Errors of the four systems in the first setting of Table 1, and Y errors of Table 2."""
    first = NUMBERS.report("coco-table1").experiment.settings()[0]
    panels = []
    for name, setting, kind, systems in (
        ("coco-table1", first, "X error", ("COCO-1", "COCO-0", "Maxide", "Mc")),
        ("coco-table1", first, "Y error", ("COCO-1", "COCO-0", "Maxide", "Mc")),
        ("coco-table2", "CAL500", "Y error", ("COCO", "Maxide", "Mc")),
    ):
        published = NUMBERS.report(name).experiment.published()
        measures = [f"{kind}, {system}" for system in systems]
        theirs = [published[setting, measure].mean for measure in measures]
        ours = [NUMBERS.mean(name, setting, measure) for measure in measures]
        panels.append(Bars(f"{setting}: {kind}", systems, {"paper": theirs, "ours": ours}))
    return panels


GLANCE = glance
PAGE = {"fig2": fig2, "by_iteration": by_iteration, "spectrum": spectrum}
