"""What the first page of the reproductions shows of all papers."""

from papers.pages import TITLES, Numbers, counted, parts_of, span
from papers.registry import PAPERS, of_paper
from papers.report import ruled, tally

__all__ = ["PAGE"]

NUMBERS = Numbers()
# An algorithm, its command, a setting, the measure of its excess, what that is divided by, and
# what the page finds.
EXCESSES = (
    ("Algorithm 1, MC-b (Goldberg et al.)", "goldberg-optimum", "MC-b: excess % at their rule"),
    ("Algorithm 2, MC-1 (Goldberg et al.)", "goldberg-optimum", "MC-1: excess % at their rule"),
    ("Algorithm 1, COCO-1 (Xu et al.)", "coco-optimum", "excess, COCO-1 published"),
    ("Algorithm 1, COCO-0 (Xu et al.)", "coco-optimum", "excess, COCO-0 published"),
    ("Algorithm 1, TMCC (Wang et al.), kappa = 1e-6", "tmcc-optimum", "kappa 1e-06: excess"),
    ("Soft-Impute, epsilon = 1e-5 (Mazumder et al.)", "zheng-optimum", "epsilon 1e-05: excess"),
    ("projected factors, k = 20 (Hayashi et al.)", "hayashi-excess", "k = 20, excess"),
)
FINDINGS = {
    "goldberg-optimum": {
        "MC-b": "converges, but its rule stops it earlier",
        "MC-1": "does not quite converge to the optimum at larger mu",
    },
    "coco-optimum": {
        "COCO-1": "far from the optimum: its step stays at 40",
        "COCO-0": "close: an ordinary proximal gradient method",
    },
    "tmcc-optimum": {"": "converges; kappa decides how close it gets"},
    "zheng-optimum": {"": "a small step does not mean that the optimum is near"},
    "hayashi-excess": {"": "in effect solves another problem: the box acts as a penalty"},
}


def excesses() -> str:
    """Write the certified excess of every published algorithm."""
    lines = []
    for algorithm, name, measure in EXCESSES:
        found = next(said for key, said in FINDINGS[name].items() if key in measure)
        factor = 0.01 if "%" in measure else 1.0
        for setting in NUMBERS.report(name).experiment.settings():
            values = NUMBERS.values(name, setting, measure).values()
            if values:
                mean = factor * sum(values) / len(values)
                lines.append([algorithm, setting, f"{mean:.2g}", str(len(values)), found])
                algorithm = found = ""
    headings = ("algorithm", "instance", "certified excess", "trials", "what the page finds")
    return "\n".join(ruled(headings, lines))


def trials_by_table() -> str:
    """Write the tally of each table, and how many trials its cells have."""
    lines = []
    for paper in PAPERS:
        for kind in of_paper(paper).values():
            report = NUMBERS.report(kind.name)
            found = tally(report.rows)
            counts = (found.cells, found.computed, found.within, found.explained, found.open)
            cells = [str(count) if found.cells else "" for count in counts]
            trials = [n for part in parts_of(report.experiment) for n in counted(report, part)]
            lines.append([TITLES[paper], f"`{kind.name}`", span(trials), *cells])
    headings = ("paper", "command", "trials")
    tallies = ("cells", "computed", "within 2", "explained", "open")
    return "\n".join(ruled((*headings, *tallies), lines))


PAGE = {"excesses": excesses, "trials_by_table": trials_by_table}
